"""Writes new tables: bad input is refused before a byte is written, rows are streamed, no partial table is left.

`prepare` checks everything that can be known beforehand: names, types, options. `create` then writes. Memory: the first
rows (at most 64 MiB), then one chunk per column.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Literal

import numpy as np
import pyarrow as pa

from colonnade import limits, writing
from colonnade.columns.mapping import implied_units, plain_type
from colonnade.columns.sectioned import SparseColumnWriter
from colonnade.columns.writer import WrittenColumn
from colonnade.dataclass import dataclass, replace
from colonnade.edit.index import check_kind
from colonnade.edit.references import ReferenceMaker
from colonnade.errors import ColumnNotFound, DataError, UsageError, nearest_names
from colonnade.exchange.arrays import array_from
from colonnade.exchange.pandas_notes import meaning, read_note
from colonnade.exchange.sources import Source, source_from, with_strings
from colonnade.h5.links import holds_large_attributes, move, rename, unlink
from colonnade.layouts import Create, Layout, NewWriter, layout_of, named_layout
from colonnade.layouts.anndata_view import AnnDataOption, check_wish, faced_options, make_face
from colonnade.layouts.found import table_at
from colonnade.model import AUTO, DEFAULT_CHUNK_ROWS, ColumnOptions, Progress, TableText
from colonnade.nodes import EditableGroup, Group
from colonnade.nodes.dataset_tables import is_dataset_table
from colonnade.nodes.paths import editable, group_at, join_path
from colonnade.sparse.draft import SparseDraft

WriteMode = Literal["error", "replace"]
ReferenceForm = Literal["object", "standard"]
"""The type of references that a table is written with: that of every HDF5, or H5T_STD_REF of HDF5 1.12."""
FIRST_ROWS_BYTES = 64 << 20
FEWEST_CHUNK_ROWS = 1024
LONGEST_TEXT = 60_000


@dataclass
class Draft:
    """A table that is ready to be written: everything that can be checked beforehand has been checked.

    `numbered` is the label that numbers the rows, where the layout needs one and none was given.
    """

    source: Source
    layout: Layout
    creation: Create
    writers: list[NewWriter]
    label_writers: list[NewWriter]
    label_arrays: dict[str, pa.Array]
    numbered: str | None
    face: AnnDataOption
    text: TableText
    large_attributes: bool
    index: dict[str, list[str]] = field(default_factory=dict)
    references: ReferenceForm = "object"

    @property
    def names(self) -> list[str]:
        """The names of all columns and labels."""
        return [writer.name for writer in (*self.writers, *self.label_writers)]

    @property
    def has_sparse(self) -> bool:
        """Whether some column will be sparse."""
        return any(isinstance(writer, SparseColumnWriter) for writer in self.writers)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How to write a table: the keywords of `colonnade.write` and `File.create`, which explain them."""

    title: str | None = None
    description: str | None = None
    units_vocabulary: str | None = None
    columns: Mapping[str, ColumnOptions | Mapping[str, object]] | None = None
    labels: Sequence[str] | Mapping[str, object] | None = None
    index: Mapping[str, str | Sequence[str]] | None = None
    layout: str = "hep001"
    version: str | tuple[int, int] | None = None
    directory: bool = False
    anndata: bool | Literal["0.7"] = False
    allow_reserved: bool = False
    references: ReferenceForm = "object"

    def __post_init__(self) -> None:
        for option in ("title", "description", "units_vocabulary"):
            text = getattr(self, option)
            if text is not None and not isinstance(text, str):
                raise UsageError(f"{option} must be a string, not {text!r}", option=option)
        self._check_names()
        check_references(self.references, named_layout(self.layout))

    def _check_names(self) -> None:
        """Refuse what is not by column: these options are often given as the plain list of the names."""
        for option, example in (("columns", '{"x": cn.column(units="m")}'), ("index", '{"x": "chunk_minmax"}')):
            given = getattr(self, option)
            if given is not None and not isinstance(given, Mapping):
                raise UsageError(f"{option} must be a dict by column, such as {example}, not {given!r}", option=option)
        for name, kinds in (self.index or {}).items():
            if not isinstance(kinds, Iterable):
                raise UsageError(f"index of {name!r} must be a kind or several, not {kinds!r}", option="index")
        labels: object = self.labels or ()
        if not isinstance(labels, Iterable) or not all(isinstance(name, str) for name in labels):
            raise UsageError(f"labels must be names of columns, or a dict of arrays, not {labels!r}", option="labels")


def check_references(references: object, layout: Layout) -> None:
    """Refuse a type of references that there is not, or that a layout cannot have."""
    if references not in ("object", "standard"):
        raise UsageError(f'references must be "object" or "standard", not {references!r}', option="references")
    if references == "standard" and layout.standard_references is None:
        raise UsageError(
            f'layout {layout.name!r} has no references="standard": leave it out, or choose layout="h5col"',
            option="references",
        )


def prepare(data: object, options: TableOptions) -> Draft:
    """Check the data and the options; refuse what cannot be written."""
    chosen = named_layout(options.layout)
    creation = chosen.create(options.version, options.directory)
    source = with_strings(source_from(data, chosen.unnamed_labels))
    _check_meanings(source, chosen)
    label_names, label_arrays = _labels(options.labels, source)
    needs_labels = chosen.needs_labels or options.anndata is not False
    numbered = chosen.unnamed_labels if needs_labels and not label_names else None
    if numbered is not None:
        label_names = [numbered]
    known = [*source.schema.names, *label_arrays, *([numbered] if numbered is not None else [])]
    for name in known:
        creation.check_name(name, options.allow_reserved)
    kinds = {f.name: f.type for f in source.schema} | {name: array.type for name, array in label_arrays.items()}
    if numbered is not None:
        kinds[numbered] = pa.int64()
    column_names = [name for name in source.schema.names if name not in label_names]
    about = TableText(options.title, options.description, options.units_vocabulary)
    creation.check_members(source.schema.names if numbered is not None else column_names, label_names, about)
    by_column = _options(options.columns or {}, source.schema, kinds, chosen.keeps_texts)
    if options.anndata is not False:
        check_wish(options.anndata, options.layout, column_names)
        for name in (*column_names, *label_names):
            by_column[name] = faced_options(name, kinds[name], by_column[name])
    for name in source.nullable & set(column_names) if chosen.keeps_masks else ():
        if by_column[name].masked is None and not by_column[name].categories:
            by_column[name] = replace(by_column[name], masked=True)
    longest = max((len(name.encode("utf-8", "surrogateescape")) for name in known), default=0)
    large = creation.needs_large_attributes(len(known), longest)

    def writer(name: str, is_label: bool) -> NewWriter:
        wide = (large and is_label) or len((by_column[name].description or "").encode()) > LONGEST_TEXT
        return creation.new_writer(name, kinds[name], by_column[name], wide, is_label)

    return Draft(
        source=source,
        layout=chosen,
        creation=creation,
        writers=[writer(name, False) for name in column_names],
        label_writers=[writer(name, True) for name in label_names],
        label_arrays=label_arrays,
        numbered=numbered,
        face=options.anndata,
        text=about,
        large_attributes=large
        or any(len((text or "").encode()) > LONGEST_TEXT for text in (options.title, options.description)),
        index=_index_kinds(options.index or {}, known),
        references=options.references,
    )


def _check_meanings(source: Source, layout: Layout) -> None:
    """Refuse pandas values that a layout without a place for notes would store as something else."""
    for name, note in source.notes.items() if not layout.keeps_pandas_notes else ():
        meant = meaning(read_note(note))
        if meant is not None:
            raise DataError(
                f"the layout {layout.name!r} cannot store pandas' {meant}. Cast it, for example to strings",
                column=name,
            )


def _index_kinds(asked: Mapping[str, str | Sequence[str]], known: Sequence[str]) -> dict[str, list[str]]:
    """The kinds of search index requested for each column."""
    for name in asked:
        if name not in known:
            raise ColumnNotFound(name, "the data (named in index=)", known)
    kinds = {name: [words] if isinstance(words, str) else list(words) for name, words in asked.items()}
    for word in (word for words in kinds.values() for word in words):
        check_kind(word)
    return kinds


def _labels(
    labels: Sequence[str] | Mapping[str, object] | None, source: Source
) -> tuple[list[str], dict[str, pa.Array]]:
    """The names of the labels in order, and the arrays of those that are not columns of the data."""
    if labels is None:
        return list(source.labels), {name: pa.array(np.array(rows)) for name, rows in source.ranges.items()}
    if isinstance(labels, str):
        labels = [labels]
    names = list(labels)
    if len(set(names)) != len(names):
        raise UsageError(f"labels must have different names: {names}")
    if isinstance(labels, Mapping):
        return names, {name: _label_array(name, values, source) for name, values in labels.items()}
    for name in names:
        if name not in source.schema.names:
            raise ColumnNotFound(name, "the data (named in labels=)", source.schema.names)
    return names, {}


def _label_array(name: str, values: object, source: Source) -> pa.Array:
    if name in source.schema.names:
        raise UsageError(f"label {name!r} is also a column of the data. Name it in labels=[...], without an array")
    array = array_from(values, name)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if source.n_rows is not None and len(array) != source.n_rows:
        raise DataError(f"the label has {len(array)} rows, the data has {source.n_rows}", column=name)
    return array


def _options(
    asked: Mapping[str, ColumnOptions | Mapping[str, object]],
    schema: pa.Schema,
    kinds: Mapping[str, pa.DataType],
    keeps_texts: bool,
) -> dict[str, ColumnOptions]:
    """The options of each column: those requested, otherwise those in the Arrow field."""
    for name in asked:
        if name not in kinds:
            raise ColumnNotFound(name, "the data (named in columns=)", list(kinds))
    given = set(schema.names)
    fields = [*schema, *(pa.field(name, kind) for name, kind in kinds.items() if name not in given)]
    return {field.name: _field_options(field, asked.get(field.name), keeps_texts) for field in fields}


def _field_options(
    field: pa.Field, asked: ColumnOptions | Mapping[str, object] | None, keeps_texts: bool
) -> ColumnOptions:
    if asked is None:
        options = ColumnOptions()
    elif isinstance(asked, ColumnOptions):
        options = asked
    else:
        options = column_options(field.name, asked)
    metadata = {
        key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for key, value in (field.metadata or {}).items()
    }
    if implied_units(plain_type(field.type)) is not None:
        metadata.pop("units", None)
    if keeps_texts:
        options = replace(
            options,
            units=_own_or(options.units, metadata.get("units")),
            units_vocabulary=_own_or(options.units_vocabulary, metadata.get("units_vocabulary")),
            description=_own_or(options.description, metadata.get("description")),
        )
    if not field.nullable and options.fill is AUTO:
        options = replace(options, fill=None)
    return options


def _own_or(asked: str | None, carried: str | None) -> str | None:
    """A text that was asked for, or that of the Arrow field, unless it is empty."""
    return asked if asked is not None else carried or None


def check_place(root: Group, path: str, mode: WriteMode, draft: Draft) -> None:
    """Refuse a path that is taken, before anything is written."""
    TablePath(root, path, mode, draft)


def column_options(name: str, asked: Mapping[str, object]) -> ColumnOptions:
    """The options of one column, given by name."""
    make: Callable[..., ColumnOptions] = ColumnOptions
    try:
        return make(**asked)
    except TypeError:
        raise UsageError(_unknown_option(f"column {name!r}", asked, ColumnOptions), column=name) from None


def _unknown_option(where: str, given: Iterable[str], takes: Callable[..., object]) -> str:
    """The error message for an unknown option."""
    parameters = inspect.signature(takes).parameters.values()
    named = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    known = [parameter.name for parameter in named if parameter.name != "self"]
    odd = next((name for name in given if name not in known), "")
    nearest = nearest_names(odd, known)
    advice = f"did you mean {nearest[0]!r}?" if nearest else f"there are: {', '.join(known)}"
    return f"{where} has no option {odd!r}; {advice}"


def refuse_unknown(
    unknown: Mapping[str, object], where: str, takes: Callable[..., object], column: str | None = None
) -> None:
    """Refuse keywords that `takes` does not have, with the nearest name that it has.

    Type checkers refuse them already: functions that take options declare `**unknown: Never`.
    """
    if unknown:
        raise UsageError(_unknown_option(where, unknown, takes), column=column)


def create(
    root: EditableGroup, path: str, draft: Draft, mode: WriteMode = "error", progress: Progress | None = None
) -> tuple[str, list[tuple[str, SparseDraft]]]:
    """Write the draft as the table at an absolute path; on any error nothing of it remains.

    Returns the path of the table, and the sparse columns with their paths, which the caller puts into the file.
    """
    target = TablePath(root, path, mode, draft)
    complete = False
    try:
        columns, labels = _fill(_with_references(target.open(), draft), draft, progress)
        group = _with_references(target.settle(), draft)
        _note_pandas(group, draft, (*columns, *labels))
        draft.creation.complete_group(group, columns, labels, draft.text)
        table = make_face(group, target.path, draft.layout, draft.face) if draft.face else target.path
        complete = True
    finally:
        if not complete:
            target.remove()
    drafts = [(join_path(path, column.name), column.draft) for column in columns]
    return table, [(where, sparse) for where, sparse in drafts if sparse is not None]


def _with_references(group: EditableGroup, draft: Draft) -> EditableGroup:
    """The group of a new table, with the attribute that names the type of its references."""
    if draft.references == "standard" and draft.layout.standard_references is not None:
        writing.write_text(group, draft.layout.standard_references, "standard")
    return group


def _note_pandas(group: EditableGroup, draft: Draft, columns: Iterable[WrittenColumn]) -> None:
    """Store what pandas knows about the columns and the frame, if the layout has a place for it."""
    if not draft.layout.keeps_pandas_notes:
        return
    note = draft.layout.edit.note_pandas
    for column in columns:
        if column.name in draft.source.notes:
            note(column.holder, draft.source.notes[column.name])
    if draft.source.frame_note is not None:
        note(group, draft.source.frame_note)


class TablePath:
    """Where a new table goes: a free path, or a temporary path until it can move into an existing group.

    An existing group (a table to be replaced, the root, an empty group) keeps its attributes and whatever other
    programs put into it.
    """

    def __init__(self, root: Group, path: str, mode: WriteMode, draft: Draft) -> None:
        if mode not in ("error", "replace"):
            raise UsageError(f"mode {mode!r} is not one of 'error', 'replace', 'append'")
        self._root = group_at(root, "/")
        self._draft = draft
        self._path = "/" + "/".join(part for part in path.split("/") if part)
        self._made: str | None = None
        self._made_anew = False
        self._check_above()
        self._target = self._check_free(mode)

    def _check_above(self) -> None:
        """Check that the parents of the path are groups, and not tables (T7)."""
        parts = self._path.split("/")[1:] if self._path != "/" else []
        above: Group | None = self._root
        for depth, part in enumerate(parts):
            if part in (".", "..") or "\0" in part:
                raise UsageError(f"{self._path!r} is not a path that HDF5 can link")
            if above is None:
                continue
            if layout_of(above) is not None:
                raise UsageError(
                    f"{self._path} would be inside the table /{'/'.join(parts[:depth])}, where only that table's own "
                    "objects belong: choose another path",
                    rule="T7",
                )
            is_last = depth == len(parts) - 1
            if above.open_dataset(part) is not None and not (is_last and table_at(self._root, self._path)):
                here = "/" + "/".join(parts[: depth + 1])
                raise UsageError(f"{here} is a dataset: choose another path for the table", path=here)
            above = above.open_group(part) if above.has_link(part) else None

    def _check_free(self, mode: WriteMode) -> Group | None:
        """The group to move into, None when the path is free; a UsageError when it is taken."""
        if not exists_path(self._root, self._path):
            return None
        table = table_at(self._root, self._path)
        group, layout = table if table is not None else (self._root.open_group(self._path), None)
        if group is None or (layout is None and group.link_names()):
            raise UsageError(
                f"{self._path} holds other objects and is not a table: choose another path", path=self._path
            )
        if layout is not None and mode == "error":
            raise UsageError(
                f"there is a table at {self._path} already: choose another name, or mode='replace' or 'append'",
                path=self._path,
            )
        own = layout.own_objects(group) if layout is not None else set()
        foreign = {child.name for child in group.children()} - own
        if self._draft.layout.is_of_datasets or is_dataset_table(group):
            self._check_replaced(foreign)
            self._made_anew = True
            return group
        for name in self._draft.names if self._draft.layout.names_are_links else ():
            if name in foreign:
                raise UsageError(
                    f"{self._path} holds an object {name!r} that is not the table's: rename the column", column=name
                )
        if self._draft.large_attributes and not holds_large_attributes(editable(group)):
            if foreign or self._path == "/":
                raise UsageError(
                    f"{self._path} was made without room for attributes above 64 KiB, which this many columns need: "
                    "write the table to another path",
                    path=self._path,
                )
            self._made_anew = True
        return group

    def _check_replaced(self, foreign: Collection[str]) -> None:
        """Refuse a group that a dataset cannot replace, because of what else is in it."""
        if self._path == "/" or foreign:
            reason = "is the root of the file" if self._path == "/" else f"holds {', '.join(sorted(foreign)[:5])}"
            raise UsageError(
                f"{self._path} {reason}; a table of layout {self._draft.layout.name!r} is a dataset, which cannot "
                "replace it: choose another path",
                path=self._path,
            )

    @property
    def path(self) -> str:
        return self._path

    @property
    def _editable_root(self) -> EditableGroup:
        return editable(self._root)

    def open(self) -> EditableGroup:
        """The group to write into: new at its path, or at a temporary path."""
        self._made = self._first_missing()
        where = self._path if self._target is None else self._aside
        return self._draft.creation.make_group(self._editable_root, where, self._draft.large_attributes)

    @property
    def _aside(self) -> str:
        return self._path.rstrip("/") + "/\x01aside" if self._path == "/" else self._path + "\x01aside"

    def _first_missing(self) -> str:
        """The topmost link that will be created: what must be removed if writing fails."""
        if self._target is not None:
            return self._aside
        path = ""
        for part in self._path.split("/")[1:]:
            path = join_path(path, part)
            if not exists_path(self._root, path):
                break
        return path

    def settle(self) -> EditableGroup:
        """Move the rows to their final path; the group there still lacks its attributes."""
        if self._target is None:
            return group_at(self._editable_root, self._path)
        if self._made_anew:
            if is_dataset_table(self._target):
                self._clear(editable(self._target))
            self._target = None
            unlink(self._editable_root, self._path)
            rename(self._editable_root, self._aside, self._path)
            return group_at(self._editable_root, self._path)
        target = editable(self._target)
        self._clear(target)
        aside = group_at(self._editable_root, self._aside)
        for child in aside.children():
            move(aside, child.name, target)
        unlink(self._editable_root, self._aside)
        return target

    def _clear(self, target: EditableGroup) -> None:
        """Remove the objects of a table that is replaced. Of a read-only layout, only by a table of the same."""
        layout = layout_of(target)
        if layout is None:
            return
        if layout.find("write") is None and layout is self._draft.layout:
            layout.clear_group(target)
        else:
            layout.edit.clear(target)

    def remove(self) -> None:
        """Remove what was begun."""
        if self._made is not None and exists_path(self._root, self._made):
            unlink(self._editable_root, self._made)


def exists_path(root: Group, path: str) -> bool:
    """Whether every link of an absolute path exists."""
    group = root.open_group("/")
    parts = [part for part in path.split("/") if part]
    for depth, part in enumerate(parts):
        if group is None or not group.has_link(part):
            return False
        if depth < len(parts) - 1:
            group = group.open_group(part)
    return True


def _fill(
    group: EditableGroup, draft: Draft, progress: Progress | None
) -> tuple[list[WrittenColumn], list[WrittenColumn]]:
    """Write all rows, then the metadata that makes the datasets columns and labels."""
    first, rest = _first_rows(draft)
    seen = sum(batch.num_rows for batch in first)
    n_rows = draft.source.n_rows if rest is not None else seen
    most_rows = _most_chunk_rows(first)
    writers = [*draft.writers, *draft.label_writers]
    referring = ReferenceMaker(group)
    for writer in writers:
        writer.start(group, referring(_sample(first, writer.name), writer.name, 0), n_rows, most_rows)
    done = 0
    for batch in chain(first, rest or ()):
        for writer in writers:
            writer.write(referring(_column(batch, writer.name), writer.name, done))
        done += batch.num_rows
        if progress is not None:
            progress(done, n_rows)
    _check_labels_used(draft, done)
    columns = [writer.finish() for writer in draft.writers]
    labels = [writer.finish() for writer in draft.label_writers]
    draft.creation.complete_columns(group, columns, labels)
    return columns, labels


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))


def _sample(batches: list[pa.RecordBatch], name: str) -> pa.Array:
    """The first rows of one column. Of a dictionary column only the first batch, since dictionaries may differ."""
    arrays = [_column(batch, name) for batch in batches]
    return arrays[0] if len(arrays) == 1 or pa.types.is_dictionary(arrays[0].type) else pa.concat_arrays(arrays)


def _check_labels_used(draft: Draft, n_rows: int) -> None:
    for name, array in draft.label_arrays.items():
        if len(array) != n_rows:
            raise DataError(f"the label has {len(array)} rows, the data has {n_rows}", column=name)


def _with_labels(draft: Draft) -> Iterator[pa.RecordBatch]:
    """The batches of the source, with the label arrays added."""
    at = 0
    for batch in draft.source.batches:
        arrays, names = list(batch.columns), list(batch.schema.names)
        for name, array in draft.label_arrays.items():
            part = array.slice(at, batch.num_rows)
            if len(part) != batch.num_rows:
                raise DataError(f"the label has {len(array)} rows, the data has more", column=name)
            arrays.append(part)
            names.append(name)
        if draft.numbered is not None:
            arrays.append(pa.array(np.arange(at, at + batch.num_rows)))
            names.append(draft.numbered)
        at += batch.num_rows
        yield batch if len(names) == batch.num_columns else pa.RecordBatch.from_arrays(arrays, names=names)


def _first_rows(draft: Draft) -> tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch] | None]:
    """Enough batches to choose the form of every column, and the rest of the stream (None when there is none)."""
    batches = _with_labels(draft)
    first: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        first.append(batch)
        rows += batch.num_rows
        size += _bytes_of(batch)
        if rows >= limits.now.first_rows or size >= FIRST_ROWS_BYTES:
            return first, batches
    if not first:
        schema = draft.source.schema
        fields = [*schema, *(pa.field(name, array.type) for name, array in draft.label_arrays.items())]
        if draft.numbered is not None:
            fields.append(pa.field(draft.numbered, pa.int64()))
        return [pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in fields], names=[f.name for f in fields])], None
    return first, None


def _bytes_of(batch: pa.RecordBatch) -> int:
    """Bytes that a batch takes in memory."""
    try:
        return int(batch.nbytes)
    except pa.ArrowException:  # older versions of Arrow cannot report it for views
        return int(batch.get_total_buffer_size())


def _most_chunk_rows(first: list[pa.RecordBatch]) -> int:
    """A limit for chunk lengths, so that one chunk of every column together stays near 64 MiB."""
    rows = sum(batch.num_rows for batch in first)
    if rows == 0:
        return FEWEST_CHUNK_ROWS
    return limit_of_chunks(sum(_bytes_of(batch) for batch in first) // rows)


def limit_of_chunks(row_bytes: int) -> int:
    """The most rows in a chunk for rows of these bytes in all columns together."""
    return max(FEWEST_CHUNK_ROWS, min(DEFAULT_CHUNK_ROWS, FIRST_ROWS_BYTES // max(row_bytes, 1)))
