"""Changes to the rows, cells and columns of an existing table. Each function makes one change; the caller commits it.

Input is checked before a byte is written: the column names, and that the types can be converted. Values that do not fit
(300 for an int8, 1.5 for an integer, one that equals the fill) are refused when they are reached, with row and value;
the caller then rolls back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa

from colonnade.arrays import Int64s
from colonnade.columns.arrow_types import plain_array, python_values, taken
from colonnade.columns.carried import CarriedWriter, is_carried
from colonnade.columns.mapping import arrow_type, implied_units, plain_type
from colonnade.columns.read import ColumnReader
from colonnade.columns.writer import ColumnWriter, WrittenColumn
from colonnade.dataclass import dataclass, replace
from colonnade.edit.create import limit_of_chunks
from colonnade.edit.index import Indexes
from colonnade.edit.references import ReferenceMaker
from colonnade.errors import DataError, FormatError, UnsupportedError, UsageError, rows_as
from colonnade.exchange.arrays import column_from, declares_strings
from colonnade.exchange.pandas_in import is_series
from colonnade.exchange.pandas_notes import Note, meaning, read_note, write_note
from colonnade.exchange.sources import Source, family, source_from
from colonnade.h5.attributes import LARGEST_IN_HEADER, encode_value, write_values
from colonnade.h5.files import FileHandle
from colonnade.h5.handles import with_large_attributes
from colonnade.h5.links import holds_large_attributes, rename, unlink
from colonnade.layouts import Layout, ResumedWriter
from colonnade.layouts.anndata_recipes import Recipe, recipe_of
from colonnade.layouts.anndata_view import Touched, faced_options, follow_face
from colonnade.layouts.index_home import OpenIndex
from colonnade.model import DEFAULT_CHUNK_ROWS, Coded, ColumnInfo, ColumnOptions, Member, Progress, TableInfo
from colonnade.nodes import EditableGroup
from colonnade.nodes.dataset_tables import is_dataset_table
from colonnade.nodes.elements import column_node
from colonnade.nodes.paths import dataset_at, editable, encode_name, group_at, join_path
from colonnade.pager.receipts import Receipts
from colonnade.selection import Selection, row_numbers
from colonnade.sparse.draft import put_drafts, retire_arrays, set_texts_of

LONGEST_TABLE = 2**63 - 1


@dataclass(frozen=True)
class OpenTable:
    """A table in a file that is open for changes."""

    group: EditableGroup
    layout: Layout
    info: TableInfo
    receipts: Receipts = field(default_factory=dict)
    handle: FileHandle | None = None
    face: Recipe | None = field(init=False)  # how anndata reads the table too

    def __post_init__(self) -> None:
        self.layout.edit.check_can_change(self.group, self.info)
        object.__setattr__(self, "face", recipe_of(self.group, self.layout, self.info.path))

    @property
    def indexes(self) -> Indexes:
        return Indexes(self.group, self.layout, self.info, self.receipts)

    def put(self, columns: Sequence[WrittenColumn]) -> bool:
        """Put those of these columns that are sparse into the file. Returns whether there were any: open handles are
        invalid then."""
        drafts = [(join_path(self.info.path, column.name), column.draft) for column in columns]
        sparse = [(path, draft) for path, draft in drafts if draft is not None]
        if sparse:
            put_drafts(self.journaled(), sparse)
        return bool(sparse)

    def journaled(self) -> FileHandle:
        """The file, if its bytes can be written without HDF5, as sparse columns need."""
        if self.handle is None or not self.handle.is_journaled:
            raise UsageError("sparse columns can be changed only in a file that was opened from a path")
        return self.handle

    def check_is_free(self, name: str) -> None:
        """Refuse a column name that is already taken."""
        taken = name in self.info.by_name or any(name == other.name for other in self.info.others)
        if taken or (self.layout.names_are_links and self.group.has_link(name)):
            raise UsageError(f"{self.info.path} has an object {name!r} already: choose another name", column=name)

    def check_has_datasets(self, what: str) -> None:
        """Refuse a change of columns that are parts of one dataset."""
        if self.layout.is_of_datasets:
            raise UnsupportedError(
                f"cannot {what} {self.info.path}: its columns are members of the elements of one dataset. Only rows "
                "can be appended. To change more, convert: cn.convert(path, 'new.h5', layout='hep001')",
                feature="changes of compound tables other than appending rows",
                path=self.info.path,
            )

    def check_is_whole(self) -> None:
        """Refuse to change the number of rows if a column cannot follow: it is unreadable, or stored in another
        file."""
        for column in self.info.members:
            if column.problem is not None:
                raise self.unreadable(column)
        if self.info.others:
            others = ", ".join(repr(other.name) for other in self.info.others)
            raise UnsupportedError(
                f"cannot change the number of rows of {self.info.path}: {others} are in other files, which would keep "
                "the old number",
                feature="rows of tables with columns elsewhere",
                path=self.info.path,
            )

    def unreadable(self, column: ColumnInfo) -> FormatError:
        """The error for changing the rows of a table with an unreadable column."""
        name = column.name
        return FormatError(
            f"cannot change the rows of {self.info.path}: column {name!r} cannot be read: {column.problem}. Restore "
            "the file from a copy, or write the other columns, which select(...) takes, to a new file",
            column=name,
            path=self.info.path,
        )

    def with_room(self, what: str, longest: int, n_columns: int = 0) -> OpenTable:
        """The table in a group with room for `what`: a value of `longest` bytes, or `n_columns` names as long as that.

        The root of a file cannot be replaced, nor a group with sparse columns: a DataError.
        """
        if is_dataset_table(self.group):  # its columns have no names to store
            return self
        needed = longest > LARGEST_IN_HEADER or self.layout.create().needs_large_attributes(n_columns, longest)
        if not needed or not self.layout.names_are_links or holds_large_attributes(self.group):
            return self
        path, reason = self.info.path, ""
        if path == "/":
            reason = "the table is at the root of the file. Shorten it, or keep the table in a group of its own"
        elif any(column.storage == "sectioned" for column in self.info.members):
            reason = "the table has sparse columns, with which it cannot be moved. Write it to a new file"
        if reason:
            message = f"cannot store {what}: the group keeps at most 64 KiB for an attribute, and {reason}"
            raise DataError(message, path=path)
        return replace(self, group=with_large_attributes(self.group, path))

    def with_room_for(self, sizes: Mapping[str, int]) -> OpenTable:
        """The table in a group with room for attributes of these numbers of bytes."""
        name = max(sizes, key=sizes.__getitem__, default="")
        return self.with_room(f"{name!r} of {sizes[name]:,} bytes", sizes[name]) if sizes else self

    def with_name(self, name: str) -> OpenTable:
        """The table in a group with room for one more column name."""
        names = [*self.info.by_name, name]
        longest = max(map(len, map(encode_name, names)))
        return self.with_room(f"the names of {len(names):,} columns", longest, len(names))

    def reopened(self) -> OpenTable:
        """This table with a new group handle, after the old handles have become invalid."""
        return replace(self, group=group_at(editable(self.journaled().root), self.info.path))

    def resume(self, column: ColumnInfo) -> ResumedWriter:
        """A writer for rows after the last row of a column."""
        if column.problem is not None:
            raise self.unreadable(column)
        if column.storage == "sectioned":
            self.journaled()
        if is_carried(column):
            return CarriedWriter(column, self.group, editable(self.layout.open_dataset(self.group, column)))
        return self.layout.edit.resume_column(self.group, column)


@dataclass
class Writers:
    """The writers of a table's columns, and the schema of the rows they were given.

    The next append reuses them if nothing else has changed the table since.
    """

    of_columns: list[tuple[ResumedWriter, pa.DataType]]
    checked: pa.Schema | None = None  # rows of this schema have the columns of the table


def append(
    table: OpenTable, data: object, progress: Progress | None = None, writers: Writers | None = None
) -> tuple[int, TableInfo | None, Writers]:
    """Append rows; returns their number, the new description (None: read it again), and the writers used.

    `writers` are those of the previous append, if nothing has changed since.
    """
    table.check_is_whole()
    source = _source_for(table, data)
    checked = None if writers is None or source.ranges else writers.checked
    defined = False
    if checked is None or not source.schema.equals(checked):
        check_columns(table.info, source)
        table, defined = _defined(table, {f.name: f.type for f in source.schema}, source.notes)
    indexes = table.indexes.open()  # before a column without chunks is copied into chunks
    if writers is None or defined:
        writers = Writers([(table.resume(column), arrow_type(column)) for column in table.info.members])
        most = limit_of_chunks(sum(column.type.size for column in table.info.members))
        for writer, _ in writers.of_columns:
            if isinstance(writer, ColumnWriter):
                writer.most_chunk_rows = most
    writers.checked = None if source.ranges else source.schema
    first = table.info.n_rows
    done = 0
    referring = ReferenceMaker(table.group)
    for batch in source.batches:
        for writer, kind in writers.of_columns:
            values = referring(_values(batch, writer.name, source, done), writer.name, first + done, kind)
            is_plain = not isinstance(writer, CarriedWriter)
            writer.write(_fitting(values, kind, writer.name, first + done) if is_plain else values)
        done += batch.num_rows
        if progress is not None:
            progress(done, source.n_rows)
    written = [writer.finish() for writer, _ in writers.of_columns]
    holds = table.layout.edit.extend(table.group, table.info, written)
    table.layout.edit.count_rows(table.group, first + done)
    _follow(table, indexes, {}, written)
    _follow_face(table, {})
    holds = not table.put(written) and holds
    return done, _grown(table.info, written, first + done) if holds else None, writers


def _defined(table: OpenTable, kinds: Mapping[str, pa.DataType], notes: Mapping[str, str]) -> tuple[OpenTable, bool]:
    """The table with a type for columns that had none (all rows missing) and now get typed values."""
    given = [name for name, kind in kinds.items() if name in table.info.by_name and not _has_no_type(kind)]
    undefined = [name for name in given if _has_no_type(arrow_type(table.info.by_name[name]))]
    for name in undefined:
        indexed = [index.info.kind for index in table.indexes.open() if index.info.column == name]
        values = pa.nulls(table.info.n_rows, kinds[name])
        replace_column(table, name, values, ColumnOptions(), read_note(notes.get(name)))
        table = replace(table, info=table.layout.describe(table.group, table.info.path))
        if indexed:
            table.indexes.build({name: indexed})
    return table, bool(undefined)


def _has_no_type(kind: pa.DataType) -> bool:
    return bool(pa.types.is_null(_values_type(kind)))


def _source_for(table: OpenTable, data: object) -> Source:
    """The rows to append. If the table has automatic row numbers as labels and none are given, the numbering
    continues."""
    source = source_from(data, table.layout.unnamed_labels)
    label = table.info.by_name.get(table.layout.unnamed_labels)
    if label is not None and label.name not in source.schema.names and not source.labels and _counts(table, label):
        source.ranges[label.name] = range(table.info.n_rows, LONGEST_TABLE)
    return source


def _counts(table: OpenTable, label: ColumnInfo) -> bool:
    """Whether these labels are automatic row numbers, written because labels are needed and none were given."""
    needed = table.layout.needs_labels or table.face is not None
    if not needed or label.type.kind != "integer" or label.is_masked or label.problem is not None:
        return False
    n_rows = label.n_rows
    reader = ColumnReader(label, *table.layout.open_column(table.group, label))
    return n_rows == 0 or bool(reader.read(n_rows - 1, 1)[0].as_py() == n_rows - 1)


def _grown(info: TableInfo, written: list[WrittenColumn], n_rows: int) -> TableInfo:
    """The description with the new number of rows and of categories."""
    named = {column.name: column for column in written}

    def grown(column: ColumnInfo) -> ColumnInfo:
        rows, now = column.row_form, named[column.name].categories
        if isinstance(rows, Coded) and now is not None and len(now) != rows.categories.n_categories:
            column = column.with_rows(replace(rows, categories=replace(rows.categories, n_categories=len(now))))
        return replace(column, n_rows=n_rows)

    return replace(info, n_rows=n_rows, columns=tuple(map(grown, info.columns)), labels=tuple(map(grown, info.labels)))


def _follow(
    table: OpenTable,
    indexes: Sequence[OpenIndex],
    changed: Mapping[str, Selection],
    written: Sequence[WrittenColumn],
    removed: Selection | None = None,
) -> None:
    """Update the search indexes to the current table (M2). `changed` is empty where rows were appended or removed."""
    table.indexes.distrust_sharers([table.info.by_name[name] for name in changed] or table.info.members)
    if indexes:
        now = table.layout.describe(table.group, table.info.path)
        replaced = {column.name for column in written if column.replaced}
        Indexes(table.group, table.layout, now, table.receipts).follow(
            indexes, changed, table.info.n_rows, replaced, removed
        )


def _follow_face(table: OpenTable, touched: Touched) -> None:
    """Update the AnnData view to the current table."""
    if table.face is not None:
        follow_face(table.face, table.group, table.layout, table.info, touched)


def check_columns(info: TableInfo, source: Source, partly: bool = False) -> None:
    """Refuse rows that do not have the columns of the table, or values of another type. partly: columns may lack."""
    given = set(source.schema.names) | set(source.ranges)
    known = set(info.by_name)
    lacking = [] if partly else sorted(name for name in known - given if not is_carried(info.by_name[name]))
    odd = sorted(given - known)
    if lacking or odd:
        parts = [f"they lack {', '.join(map(repr, lacking))}"] if lacking else []
        parts += [f"the table has no {', '.join(map(repr, odd))}"] if odd else []
        raise DataError(f"the rows do not have the columns of {info.path}: {'; '.join(parts)}")
    for given_field in source.schema:
        column = info.by_name[given_field.name]
        _check_family(column, given_field.type)
        note = read_note(source.notes.get(column.name))
        if note or source.is_pandas:
            _check_meaning(column, given_field.type, note)


def _check_family(column: ColumnInfo, given: pa.DataType) -> None:
    """Refuse values of a type that cannot be converted to the column's."""
    if is_carried(column):
        return  # values are checked when they are written
    wanted = arrow_type(column)
    if family(_values_type(given)) not in (family(_values_type(wanted)), "null") and not _has_no_type(wanted):
        raise DataError(f"the column holds {wanted}, the new rows have {given}. Cast them first", column=column.name)


def _check_meaning(column: ColumnInfo, kind: pa.DataType, note: Note) -> None:
    """Refuse pandas values that are stored like those of the column but have another meaning."""
    stored, given = meaning(read_note(column.pandas)), meaning(note)
    if stored != given and not _has_no_type(arrow_type(column)) and not _has_no_type(kind):
        types = [f"pandas' {name}" if name else str(arrow_type(column)) for name in (stored, given)]
        reason = f"the column holds {types[0]}, the new rows have {types[1]}. Cast them first"
        raise DataError(reason, column=column.name)


def _values_type(kind: pa.DataType) -> pa.DataType:
    plain = plain_type(kind)
    return plain.value_type if pa.types.is_dictionary(plain) else plain


def _values(batch: pa.RecordBatch, name: str, source: Source, done: int) -> pa.Array:
    if name in source.ranges:
        rows = source.ranges[name][done : done + batch.num_rows]
        return pa.array(np.array(rows))
    position = batch.schema.get_field_index(name)  # a lookup, without building the list of all names
    return batch.column(position) if position >= 0 else pa.nulls(batch.num_rows)


def _fitting(array: pa.Array, kind: pa.DataType, name: str, first_row: int) -> pa.Array:
    """The array as the column's type; a value that does not fit is a DataError with its row."""
    if array.type == kind:
        return array
    if pa.types.is_dictionary(kind):
        if pa.types.is_dictionary(array.type):
            return array
        kind = kind.value_type
    plain = plain_array(array, plain_type(array.type))
    if plain.type == kind:
        return plain
    try:
        return _cast(plain, kind)
    except (pa.ArrowException, NotImplementedError):
        position = _first_that_does_not_fit(plain, kind)
        value = python_values(plain.slice(position, 1))[0]
        raise DataError(
            f"{value!r} does not fit {kind}",
            column=name,
            row=first_row + position,
            value=value,
        ) from None


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array as another type; floats are rounded to it, but none that is finite becomes infinite."""
    result = array.cast(kind)
    if _n_infinite(result) > _n_infinite(array):
        raise pa.ArrowInvalid(f"a finite number is too large for {kind}")
    return result


def _n_infinite(array: pa.Array) -> int:
    """How many floats are infinite, also inside lists and structs."""
    kind = array.type
    if pa.types.is_floating(kind):
        return int(np.count_nonzero(np.isinf(array.to_numpy(zero_copy_only=False))))
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _n_infinite(array.flatten())
    return sum(map(_n_infinite, array.flatten())) if pa.types.is_struct(kind) else 0


def _first_that_does_not_fit(array: pa.Array, kind: pa.DataType) -> int:
    """The position of the first value that the cast refuses, by binary search."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast(array.slice(low, middle - low), kind)
        except (pa.ArrowException, NotImplementedError):
            high = middle
        else:
            low = middle
    return low


def truncate(table: OpenTable, n_rows: int) -> None:
    """Keep the first rows only."""
    if not 0 <= n_rows <= table.info.n_rows:
        raise UsageError(f"cannot truncate a table of {table.info.n_rows} rows to {n_rows}")
    table.check_is_whole()
    indexes = table.indexes.open()
    writers = [table.resume(column) for column in table.info.members]
    for writer in writers:
        writer.truncate(n_rows)
    written = [writer.finish() for writer in writers]
    table.layout.edit.extend(table.group, table.info, written)
    table.layout.edit.count_rows(table.group, n_rows)
    _follow(table, indexes, {}, written)
    _follow_face(table, {})
    table.put(written)


def delete(table: OpenTable, rows: Selection) -> None:
    """Remove these rows, of which there is at least one. Those after them move up; chunks before them are not read."""
    table.check_is_whole()
    indexes = table.indexes.open()
    writers = [table.resume(column) for column in table.info.members]
    for writer in writers:
        writer.remove(rows)
    written = [writer.finish() for writer in writers]
    n_rows = table.info.n_rows - rows.count
    table.layout.edit.extend(table.group, table.info, written)
    table.layout.edit.count_rows(table.group, n_rows)
    _follow(table, indexes, {}, written, rows)
    moved = Selection.of(int(rows.starts[0]), n_rows)
    _follow_face(table, dict.fromkeys(table.info.by_name, moved))
    table.put(written)


def update(table: OpenTable, name: str, rows: Iterable[int] | np.ndarray, values: object) -> None:
    """Put values into cells of one column; None makes a cell missing."""
    column = table.info.by_name[name]
    if column.problem is not None:
        raise table.unreadable(column)
    numbers = row_numbers(rows, table.info.n_rows)
    given, note = column_from(values, name)
    array = _joined(given)
    if len(array) != len(numbers):
        raise DataError(f"{len(numbers)} rows and {len(array)} values were given", column=name)
    if len(np.unique(numbers)) != len(numbers):
        raise UsageError("cannot update: a row is given twice, so its value would depend on the order")
    if is_series(values):
        _check_family(column, array.type)
        _check_meaning(column, array.type, note)
    order = np.argsort(numbers, kind="stable")
    batch = pa.RecordBatch.from_arrays([taken(array, order)], [name])
    overwrite_rows(table, batch.schema, [(numbers[order], batch)], {name: write_note(note) or ""})


def overwrite_rows(
    table: OpenTable,
    schema: pa.Schema,
    parts: Iterable[tuple[Int64s, pa.RecordBatch]],
    notes: Mapping[str, str] | None = None,
) -> None:
    """Put values into cells of columns, part by part: row numbers, which increase from part to part, and their rows."""
    for given in schema:
        column = table.info.by_name[given.name]
        if column.problem is not None:
            raise table.unreadable(column)
        _check_family(column, given.type)
    table, _ = _defined(table, {given.name: given.type for given in schema}, notes or {})
    columns = [table.info.by_name[name] for name in schema.names]
    has_tokens = table.layout.index_revision == "july"  # of the whole table: those of other columns are renewed
    indexes = [index for index in table.indexes.open() if has_tokens or index.info.column in schema.names]
    writers = [table.resume(column) for column in columns]
    referring = ReferenceMaker(table.group)
    changed: list[Selection] = []
    for numbers, batch in parts:
        for writer, column, array in zip(writers, columns, batch.columns, strict=True):
            with rows_as(numbers.__getitem__):
                values = referring(array, column.name, 0, arrow_type(column))
                is_plain = not isinstance(writer, CarriedWriter)
                fitting = _fitting(values, arrow_type(column), column.name, 0) if is_plain else values
                writer.overwrite(numbers, fitting)
        changed.append(Selection.from_rows(numbers))
    written = [writer.finish() for writer in writers]
    table.layout.edit.extend(table.group, table.info, written)
    touched = dict.fromkeys(schema.names, Selection.joined(changed))
    _follow(table, indexes, touched, written)
    _follow_face(table, touched)
    table.put(written)


def _joined(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        return pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    return array


@dataclass(frozen=True)
class StreamedColumn:
    """The values of a new column, read while they are written: their type, how many, and a function that reads them
    from the table, DEFAULT_CHUNK_ROWS at a time."""

    kind: pa.DataType
    n_rows: int
    read: Callable[[OpenTable], Iterator[pa.Array]]


def add_column(
    table: OpenTable, name: str, values: object, options: ColumnOptions, allow_reserved: bool = False
) -> None:
    """Add a column after the others, of the same length as the table."""
    table.check_has_datasets("add a column to")
    table.layout.create().check_name(name, allow_reserved)
    table.check_is_free(name)
    column, note = (values, {}) if isinstance(values, StreamedColumn) else _streamed(values, name)
    if table.info.members:
        _check_length(table.info, name, column)
    if options.sparse:
        table.journaled()
    table = table.with_name(name)
    written = _write_streamed(table, name, column, _suiting_face(table, name, column.kind, options))
    table.layout.edit.attach_column(table.group, table.info, written)
    _note_pandas(table, written, note)
    _follow_face(table, {name: None})
    table.put([written])


def _new_column(values: object, name: str) -> tuple[pa.Array, Note]:
    array, note = column_from(values, name)
    return _joined(array.cast(pa.string()) if declares_strings(values, array) else array), note


def _suiting_face(table: OpenTable, name: str, kind: pa.DataType, options: ColumnOptions) -> ColumnOptions:
    """The options of a new column; if the table has an AnnData view, options that anndata can read."""
    if table.face is None:
        return options
    return faced_options(name, kind, options)


def _check_length(info: TableInfo, name: str, column: StreamedColumn) -> None:
    if column.n_rows != info.n_rows:
        raise DataError(f"{column.n_rows} rows were given, the table has {info.n_rows}", column=name)


def _streamed(values: object, name: str) -> tuple[StreamedColumn, Note]:
    """The values of a new column that were given as a whole."""
    array, note = _new_column(values, name)
    firsts = range(0, max(len(array), 1), DEFAULT_CHUNK_ROWS)
    pieces = [array.slice(first, DEFAULT_CHUNK_ROWS) for first in firsts]
    return StreamedColumn(array.type, len(array), lambda _table: iter(pieces)), note


def _write_streamed(
    table: OpenTable, name: str, column: StreamedColumn, options: ColumnOptions, is_label: bool = False
) -> WrittenColumn:
    """New datasets with these rows, the first of which decide the form; they are not attached as a column yet."""
    writer = table.layout.create().new_writer(name, column.kind, options, False, is_label)
    referring = ReferenceMaker(table.group)
    pieces = column.read(table)
    first = referring(next(pieces, pa.nulls(0, column.kind)), name, 0)
    writer.start(table.group, first, column.n_rows, DEFAULT_CHUNK_ROWS)
    n_done = len(first)
    if n_done:
        writer.write(first)
    for piece in pieces:
        writer.write(referring(piece, name, n_done))
        n_done += len(piece)
    return writer.finish()


def replace_column(
    table: OpenTable, name: str, values: object, options: ColumnOptions, note: Note | None = None
) -> None:
    """Replace the values of a column or label, with any type, at its position; units and description stay unless
    given."""
    table.check_has_datasets("replace a column of")
    if options.sparse or table.info.by_name[name].storage == "sectioned":
        raise UsageError(
            f"column {name!r}: cannot replace a sparse column, or a column with a sparse one. Drop the old one and "
            "add the new one, or use update",
            column=name,
        )
    column, own_note = _streamed(values, name)
    if len(table.info.members) > 1:
        _check_length(table.info, name, column)
    options = _suiting_face(table, name, column.kind, _with_texts(options, table.info.by_name[name], column.kind))
    table.indexes.drop(name)
    link = table.info.by_name[name].link or name
    old = f"{link}\x01old"
    rename(table.group, link, old)
    try:
        is_label = name in table.info.label_names
        written = _write_streamed(table, name, column, options, is_label)
    except BaseException:  # without a journal, this is the only rollback
        if table.group.has_link(link):
            unlink(table.group, link)
        rename(table.group, old, link)
        raise
    table.layout.edit.replace_column(table.group, table.info, written, table.group.open_dataset(old))
    _note_pandas(table, written, own_note if note is None else note)
    unlink(table.group, old)
    _follow_face(table, {name: None})


def _note_pandas(table: OpenTable, written: WrittenColumn, note: Note) -> None:
    """Store what pandas knows about a new column, if the layout has a place for it."""
    if table.layout.keeps_pandas_notes and note:
        table.layout.edit.note_pandas(written.holder, write_note(note))


def _with_texts(options: ColumnOptions, before: ColumnInfo, kind: pa.DataType) -> ColumnOptions:
    """The options with the units and the description of the old column, where none are given."""
    meant = implied_units(plain_type(kind)) or implied_units(plain_type(arrow_type(before)))
    return replace(
        options,
        units=before.units if options.units is None and meant is None else options.units,
        description=before.description if options.description is None else options.description,
    )


def drop_column(table: OpenTable, name: str) -> None:
    """Remove a column or label with its categories and every reference to it."""
    table.indexes.drop(name)
    if table.info.by_name[name].storage == "sectioned":
        retire_arrays(table.journaled(), [join_path(table.info.path, name)])
        table = table.reopened()
    table.layout.edit.detach_column(table.group, table.info, name)
    _follow_face(table, {})


def rename_column(table: OpenTable, name: str, new_name: str, allow_reserved: bool = False) -> None:
    """Give a column or label another name."""
    if name == new_name:
        return
    table.check_has_datasets("rename a column of")
    table.layout.create().check_name(new_name, allow_reserved)
    table.check_is_free(new_name)
    table = table.with_name(new_name)
    _rename_receipts(table, name, new_name)
    table.layout.indexes.rename_indexes(table.group, table.info, name, new_name)
    table.layout.edit.rename_column(table.group, table.info, name, new_name)
    note = read_note(table.info.by_name[name].pandas)
    if table.layout.keeps_pandas_notes and note.pop("name", note) is not note:  # pandas had its own name for it
        table.layout.edit.note_pandas(dataset_at(table.group, new_name), write_note(note))
    _follow_face(table, {new_name: None})


def _rename_receipts(table: OpenTable, name: str, new_name: str) -> None:
    """Rename the receipts of a column's indexes: an index, and so its receipt, is named after its column."""
    for key in [key for key in table.receipts if key[:2] == (table.info.path, name)]:
        new = new_name + key[2].removeprefix(name) if key[2].startswith(f"{name}__") else key[2]
        table.receipts[key[0], new_name, new] = table.receipts.pop(key)


def set_texts(table: OpenTable, name: str | None, strings: Mapping[str, str | None]) -> None:
    """Set or remove strings (units, description) of a column, or of the table itself when `name` is None."""
    for key, text in strings.items():
        if text is not None and not isinstance(text, str):
            raise UsageError(f"{key} must be a string, not {text!r}", option=key)
    if name is None:
        table = table.with_room_for({key: len((text or "").encode()) for key, text in strings.items()})
    if name is not None and table.info.by_name[name].storage == "sectioned":
        attributes = table.layout.edit.sparse_attributes(table.info.by_name[name], strings)
        set_texts_of(table.journaled(), join_path(table.info.path, name), attributes)
    else:
        table.layout.edit.set_texts(table.group, table.info, name, strings)


def set_attributes(
    table: OpenTable, name: str | None, new: Mapping[str, object], without: tuple[str, ...] = ()
) -> None:
    """Set and remove attributes of a column, or of the table itself when `name` is None."""
    column = None if name is None else table.info.by_name[name]
    if column is None:
        sizes = {key: len(encode_value(key, value)[2]) for key, value in new.items()}
        group = table.with_room_for(sizes).group
        write_values(editable(group.dataset) if is_dataset_table(group) else group, new, without)
    elif isinstance(column.form, Member):
        raise UnsupportedError(
            f"cannot set attributes of column {column.name!r}: it is a part of the elements of a dataset, and has none",
            feature="attributes of members",
            column=column.name,
        )
    elif column.storage == "sectioned":
        for key, value in new.items():
            encode_value(key, value)  # None would remove it
        set_texts_of(table.journaled(), join_path(table.info.path, column.name), {**dict.fromkeys(without), **new})
    else:
        write_values(editable(column_node(table.group, column)), new, without)
