"""The front room: open a file, take a table, take columns and rows out of it.

`File`, `Table`, `Column` and `Query` hold handles and remember nothing else of importance: what a
table is stands in its `TableInfo`, described once; what is to be read stands in the Query.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import pyarrow as pa

from colonnade import changes
from colonnade.columns.forms import fill_value
from colonnade.columns.mapping import arrow_type, implied_units
from colonnade.columns.read import ColumnReader
from colonnade.columns.values import python_rows, python_values
from colonnade.errors import ColonnadeError, ColumnNotFound, ConflictError, TableNotFound, UnsupportedError, UsageError
from colonnade.exchange.frames import to_pandas, to_polars
from colonnade.exchange.numpy_out import to_numpy, without_mask
from colonnade.h5.attributes import read_text, storage_of
from colonnade.h5.datasets import object_name
from colonnade.h5.files import Care, FileHandle, Target, open_file
from colonnade.h5.files import Mode as FileMode
from colonnade.h5.filters import filters_text
from colonnade.h5.journal import Durability
from colonnade.h5.links import open_dataset, open_group, unlink, walk_groups
from colonnade.h5.locks import Locking
from colonnade.layouts import Layout, layout_of
from colonnade.model import ColumnInfo, Finding, Progress, StoredType, TableInfo, shown_name
from colonnade.query.scan import Rows, read_batches, read_column, read_table
from colonnade.show import rows_text, table_html, table_text, type_word
from colonnade.writing import Draft, Mode, check_options, check_place, column_options, create, prepare

if TYPE_CHECKING:
    import pandas
    import polars

BATCH_ROWS = 65_536
MOST_READS = 50
T = TypeVar("T")


def open(  # noqa: A001 - the name is the public contract
    target: Target,
    mode: FileMode = "r",
    *,
    durability: Durability = "full",
    timeout: float = 10.0,
    locking: Locking = "auto",
) -> File:
    """Open an HDF5 file: a path, an open h5py.File or group, a binary file object, or an fsspec URL.

    mode: "r" read, "r+" change, "w" create anew, "a" change or create. A file that is created
    appears under its name when it is closed without an error, whole.
    durability: "full" syncs every commit to the disk, "fast" leaves that to the operating system.
    timeout: seconds to wait for another writer. locking: "none" where no locks are wanted.
    """
    return File(open_file(target, mode, care=Care(durability, timeout, locking)))


def open_table(target: Target, table: str | None = None, mode: FileMode = "r") -> Table:
    """Open one table of a file; the only one when no name is given. It closes with the object."""
    file = open(target, mode)
    try:
        return file._only_table() if table is None else file[table]
    except BaseException:
        file.close()
        raise


def read(
    target: Target,
    table: str | None = None,
    columns: Sequence[str] | None = None,
    rows: slice | Sequence[int] | None = None,
) -> pa.Table:
    """Read a table, or some columns and rows of it, as a pyarrow.Table.

    table: its path; may be left out when the file holds one table. columns: their names.
    rows: a slice, or row numbers in any order.
    """
    with open(target) as file:
        query = (file._only_table() if table is None else file[table])._query()
        if rows is not None:
            query = query[rows] if isinstance(rows, slice) else query.take(rows)
        return (query if columns is None else query.select(columns)).to_arrow()


def write(
    target: Target,
    data: Any,
    table: str = "table",
    *,
    mode: Mode = "error",
    progress: Progress | None = None,
    **options: Any,
) -> None:
    """Write data as a table into a new or an existing HDF5 file.

    data: an Arrow, pandas, polars or DuckDB table (anything with __arrow_c_stream__), a dict of
        arrays, a NumPy record array, or an iterator of such batches (streamed, bounded memory).
    table: where in the file, "/" for the root. mode: what if a table is there, "error" or "replace".
    progress: called with the rows written so far and the rows in all (None where unknown).

    Options: title, description, units_vocabulary (texts); columns={name: colonnade.column(...)};
    labels=[names] or {name: array}, the row labels; layout="hep001"; allow_reserved=False.
    """
    check_options(options)
    draft = prepare(data, **options)
    if isinstance(target, (str, os.PathLike)) and Path(target).is_file() and Path(target).stat().st_size:
        with open(target) as file:  # opening it for changes would alter a few bytes already
            check_place(file._handle.root, file._absolute(table), mode, draft)
    handle = open_file(target, "a", large_root=draft.large_attributes and table.strip("/") == "")
    with File(handle) as file:
        file._write(table, draft, mode, progress)


class File:
    """An open HDF5 file with tables in it, beside whatever else it holds."""

    def __init__(self, handle: FileHandle) -> None:
        self._handle = handle
        self._in_transaction = False
        self._spoiled = False

    @property
    def h5(self) -> Any:
        """The h5py.File (or the group that was opened), for the arrays that live beside the tables."""
        return self._handle.h5

    @property
    def name(self) -> str:
        """The file's name."""
        return self._handle.name

    def tables(self) -> list[str]:
        """The paths of all tables, of every layout; broken and foreign objects are passed over."""
        return self._consistent(
            lambda: [path for path, group in walk_groups(self._handle.root) if layout_of(group) is not None]
        )

    def _consistent(self, read: Callable[[], T]) -> T:
        """What `read` gives, from one state of the file: read again when a writer committed meanwhile."""
        self._check_open()
        for _ in range(MOST_READS):
            self._handle.refresh()
            try:
                found = read()
            except (ColonnadeError, OSError, RuntimeError, KeyError):
                if self._handle.is_current():
                    raise
                continue
            if self._handle.is_current():
                return found
        raise ConflictError(f"{self.name} was changed again and again while it was read", path=self.name)

    def __getitem__(self, path: str) -> Table:
        """The table at a path."""
        self._check_open()
        return Table(self, path)

    def _describe(self, path: str) -> tuple[Any, Layout, TableInfo]:
        """The group, the layout and the description of the table at a path, as the file is now."""
        whole = self._absolute(path)
        group = open_group(self._handle.root, whole)
        layout = layout_of(group) if group is not None else None
        if group is None or layout is None:
            raise self._not_a_table(path, group)
        return group, layout, layout.describe(group, whole)

    def _absolute(self, path: str) -> str:
        """The path from the file's root; one without a leading slash begins at the group that was opened."""
        begin = "" if path.startswith("/") else object_name(self._handle.root)
        return "/" + "/".join(part for part in f"{begin}/{path}".split("/") if part)

    def _not_a_table(self, path: str, group: Any) -> Exception:
        if group is not None and storage_of(group, "NROWS") is not None and read_text(group, "CLASS") == "COLUMN_TABLE":
            return UnsupportedError(
                f"{path} of {self.name} is a table of a later revision of HEP001, which this version does not read",
                feature="HEP001 with NROWS (h5col)",
                path=path,
            )
        if open_dataset(self._handle.root, self._absolute(path)) is not None:
            return UsageError(
                f"{path} of {self.name} is a dataset, not a table: read it with file.h5[{path!r}]", path=path
            )
        slash = path.startswith("/")
        return TableNotFound(path, self.name, [name if slash else name.lstrip("/") or "/" for name in self.tables()])

    def _unchanged(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, as long as nobody commits a change to the file between them."""
        begun = self._handle.generation
        for batch in batches:
            if self._handle.generation != begun or not self._handle.is_current():
                raise ConflictError(f"{self.name} was changed while its batches were read: start again", path=self.name)
            yield batch

    def __contains__(self, path: object) -> bool:
        self._check_open()
        self._handle.refresh()
        group = open_group(self._handle.root, self._absolute(path)) if isinstance(path, str) else None
        return group is not None and layout_of(group) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def __len__(self) -> int:
        return len(self.tables())

    def _only_table(self) -> Table:
        tables = self.tables()
        if len(tables) == 1:
            return self[tables[0]]
        if not tables:
            raise TableNotFound("", self.name, [])
        raise UsageError(f"{self.name} holds {len(tables)} tables: say which of {', '.join(tables[:8])}", tables=tables)

    def create(
        self, table: str, data: Any, *, mode: Mode = "error", progress: Progress | None = None, **options: Any
    ) -> Table:
        """Write data as a new table of this file; options as for colonnade.write."""
        check_options(options)
        self._write(table, prepare(data, **options), mode, progress)
        return self[table]

    def _write(self, table: str, draft: Draft, mode: Mode, progress: Progress | None) -> None:
        with self._change():
            create(self._handle.root, self._absolute(table), draft, mode, progress)

    def drop(self, table: str) -> None:
        """Remove a table; what others put into its group stays. One commit."""
        with self._change():
            group, layout, info = self._describe(table)
            layout.clear(group)
            if info.path != "/" and not list(group):
                unlink(self._handle.root, info.path)

    @contextmanager
    def transaction(self) -> Iterator[File]:
        """Several changes as one commit: an exception inside takes all of them back.

        Handles into the file (`file.h5` and what came from it) are void after that.
        """
        if self._in_transaction:
            raise UsageError("a transaction is open already: its changes and these are one")
        with self._change():
            self._in_transaction, self._spoiled = True, False
            try:
                yield self
            finally:
                self._in_transaction = False
            if self._spoiled:
                raise UsageError("a change inside the transaction failed, so all of it is taken back")

    @contextmanager
    def _change(self) -> Iterator[None]:
        """One commit for what is done inside, or a part of a transaction; nothing of it stays if that fails."""
        self._check_open()
        if not self._handle.writable:
            raise ConflictError(
                f"{self.name} is open for reading: open it with mode 'r+' or 'a' to write", path=self.name
            )
        part_of_more = self._in_transaction
        try:
            yield
        except BaseException:
            if part_of_more:
                self._spoiled = True
            else:
                self._handle.roll_back()
            raise
        if part_of_more:
            self._handle.generation += 1
        else:
            self._handle.commit()

    def _check_open(self) -> None:
        if not self._handle.is_open:
            raise UsageError(f"{self.name} is closed")

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    def __enter__(self) -> File:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.close(keep=kind is None)

    def __repr__(self) -> str:
        if not self._handle.is_open:
            return f"<File {self.name} (closed)>"
        tables = self.tables()
        shown = ", ".join(tables[:6]) + (", ..." if len(tables) > 6 else "")
        return f"<File {self.name}: {len(tables)} table{'' if len(tables) == 1 else 's'} {shown}>".replace(" >", ">")


class _Readable:
    """What a Table and a Query have in common: rows and columns that can be handed out."""

    def _query(self) -> Query:
        raise NotImplementedError

    def select(self, *columns: str | Sequence[str]) -> Query:
        """These columns, in this order."""
        query = self._query()
        names: list[Any] = [name for item in columns for name in (item if isinstance(item, (list, tuple)) else [item])]
        for name in names:
            if not isinstance(name, str):
                raise UsageError(f"columns are chosen by name, not by {name!r}; rows with [10:20] or .take([...])")
            query._table._column(name)
        return Query(query._table, tuple(names), query._rows)

    def head(self, n: int = 5) -> Query:
        """The first rows."""
        try:
            count = operator.index(n)
        except TypeError:
            raise UsageError(f"head takes a number of rows, not {n!r}") from None
        return self._query()[: max(count, 0)]

    def take(self, rows: Sequence[int] | np.ndarray[Any, Any]) -> Query:
        """These rows, in this order, repeats and negative numbers (from the end) allowed."""
        query = self._query()
        numbers = changes.row_numbers(rows, len(query._rows))
        if isinstance(query._rows, range):
            chosen = query._rows.start + numbers * query._rows.step
        else:
            chosen = query._rows[numbers]
        return Query(query._table, query._names, chosen)

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow.Table."""

        def read() -> pa.Table:
            query = self._query()
            return read_table(query._readers(), query._rows, query.schema)

        found: pa.Table = self._query()._table._file._consistent(read)
        return found

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a pandas DataFrame; labels become its index."""
        query = self._query()
        return to_pandas(
            query.to_arrow(), [label.name for label in query._table.info.labels if label.name in query._names]
        )

    def to_polars(self) -> polars.DataFrame:
        """All rows as a polars DataFrame."""
        return to_polars(self._query().to_arrow())

    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """All rows as one NumPy array a column; a masked array where rows are missing."""

        def read() -> dict[str, np.ndarray[Any, Any]]:
            query = self._query()
            return {reader.column.name: to_numpy(read_column(reader, query._rows)) for reader in query._readers()}

        return self._query()._table._file._consistent(read)

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow record batches of at most so many rows, read as they are asked for."""
        if rows < 1:
            raise UsageError(f"a batch must have at least one row, not {rows}")
        query = self._query()
        return query._table._file._unchanged(read_batches(query._readers(), query._rows, query.schema, rows))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        query = self._query()
        reader = pa.RecordBatchReader.from_batches(query.schema, query.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._query().schema.__arrow_c_schema__()

    def _repr_html_(self) -> str:
        query = self._query()
        members = tuple(query._table._column(name) for name in query._names)
        shown = query.select(list(query._names[:30])).head(5)
        return table_html(query._table.info, members, len(query._rows), shown.to_arrow())


class Table(_Readable):
    """One table: its columns and labels, read when asked for.

    `t["x"]` is a Column, `t[["x", "y"]]` some columns, `t[10:20]` some rows (both a Query), `t[5]`
    one row as a dict.
    """

    def __init__(self, file: File, path: str) -> None:
        self._file = file
        self._asked_path = path
        self._opened: dict[str, ColumnReader] = {}
        self._generation = -1
        self._look()

    def append(self, data: Any, *, progress: Progress | None = None) -> int:
        """Add rows: anything `colonnade.write` takes, also streamed. One commit. Says how many rows were added."""
        with self._file._change():
            return changes.append(self._opened_for_change(), data, progress)

    def truncate(self, n_rows: int) -> None:
        """Keep the first `n_rows` rows only. One commit."""
        with self._file._change():
            changes.truncate(self._opened_for_change(), n_rows)

    def update(self, column: str, rows: Sequence[int] | np.ndarray[Any, Any], values: Any) -> None:
        """Put values into these rows of a column; None makes a cell missing. One commit."""
        self._column(column)
        with self._file._change():
            changes.update(self._opened_for_change(), column, rows, values)

    def add_column(self, name: str, values: Any, *, allow_reserved: bool = False, **options: Any) -> None:
        """Add a column behind the others; options as for `colonnade.column`. One commit."""
        chosen = column_options(name, options)
        with self._file._change():
            changes.add_column(self._opened_for_change(), name, values, chosen, allow_reserved)

    def drop_column(self, name: str) -> None:
        """Remove a column or label. One commit."""
        self._column(name)
        with self._file._change():
            changes.drop_column(self._opened_for_change(), name)

    def rename_column(self, name: str, new_name: str, *, allow_reserved: bool = False) -> None:
        """Give a column or label another name. One commit."""
        self._column(name)
        with self._file._change():
            changes.rename_column(self._opened_for_change(), name, new_name, allow_reserved)

    def _set_text(self, name: str | None, key: str, text: str | None) -> None:
        with self._file._change():
            changes.set_texts(self._opened_for_change(), name, {key: text})

    def _opened_for_change(self) -> changes.OpenTable:
        info = self.info
        return changes.OpenTable(self._group, self._layout, info)

    def _look(self) -> None:
        """Describe the table anew if the file has changed since it was described."""
        if not self._file._handle.is_open:
            return
        self._file._handle.refresh()
        if self._generation == self._file._handle.generation:
            return
        self._group, self._layout, self._info = self._file._consistent(lambda: self._file._describe(self._asked_path))
        self._opened.clear()
        self._generation = self._file._handle.generation

    @property
    def info(self) -> TableInfo:
        """The table as plain data, as of the last commit."""
        self._look()
        return self._info

    @property
    def path(self) -> str:
        return self.info.path

    @property
    def layout(self) -> str:
        return self.info.layout

    @property
    def n_rows(self) -> int:
        return self.info.n_rows

    @property
    def title(self) -> str | None:
        """The title; setting it is one commit."""
        return self.info.title

    @title.setter
    def title(self, text: str | None) -> None:
        self._set_text(None, "title", text)

    @property
    def description(self) -> str | None:
        """The description; setting it is one commit."""
        return self.info.description

    @description.setter
    def description(self, text: str | None) -> None:
        self._set_text(None, "description", text)

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in their order."""
        return [column.name for column in self.info.columns]

    @property
    def labels(self) -> list[str]:
        """The names of the row labels, the first one first."""
        return [label.name for label in self.info.labels]

    @property
    def attrs(self) -> dict[str, object]:
        """The group's attributes that the layout gives no meaning."""
        self._file._check_open()
        self._look()
        return self._layout.own_attributes(self._group)

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What was found wrong with the table while it was described; it is read all the same."""
        return self.info.problems

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of columns and labels."""
        return self._query().schema

    def __len__(self) -> int:
        return self.info.n_rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self.info.by_name

    @overload
    def __getitem__(self, item: str) -> Column: ...
    @overload
    def __getitem__(self, item: list[str] | tuple[str, ...] | slice) -> Query: ...
    @overload
    def __getitem__(self, item: int) -> dict[str, Any]: ...
    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, str):
            return Column(self, item)
        return self._query()[item]

    def _column(self, name: str) -> ColumnInfo:
        try:
            return self.info.by_name[name]
        except KeyError:
            raise ColumnNotFound(name, f"table {self.path}", self.info.by_name) from None

    def _reader(self, name: str) -> ColumnReader:
        self._file._check_open()
        self._look()
        reader = self._opened.get(name)
        if reader is None:
            column = self._column(name)
            reader = ColumnReader(column, *self._layout.open_column(self._group, column))
            self._opened[name] = reader
        return reader

    def _query(self) -> Query:
        return Query(self, tuple(column.name for column in self.info.members), range(self.info.n_rows))

    def close(self) -> None:
        """Close the file the table is in."""
        self._file.close()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return table_text(self.info, self.info.members, self.info.n_rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_table, (self._file.name, self.path)


class Query(_Readable):
    """Some rows of some columns of a table, not read yet."""

    def __init__(self, table: Table, names: tuple[str, ...], rows: Rows) -> None:
        self._table = table
        self._names = names
        self._rows = rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in their order."""
        return list(self._names)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of what will be read; units and descriptions are in the fields' metadata."""
        return pa.schema([_field(self._table._column(name)) for name in self._names])

    def __len__(self) -> int:
        return len(self._rows)

    def count(self) -> int:
        """The number of rows."""
        return len(self._rows)

    def row_numbers(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The numbers of the rows in the table, in the order of the query."""
        return np.array(self._rows, dtype=np.int64)

    @overload
    def __getitem__(self, item: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, item: list[str] | tuple[str, ...] | slice) -> Query: ...
    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, slice):
            return Query(self._table, self._names, self._rows[item])
        if isinstance(item, (list, tuple)):
            return self.select(*item)
        try:
            number = operator.index(item)
        except TypeError:
            raise UsageError(
                f"take rows with [10:20] or .take([...]), columns with [['a', 'b']]; not with {item!r}"
            ) from None
        return python_rows(self.take([number]).to_arrow())[0]

    def _query(self) -> Query:
        return self

    def _readers(self) -> list[ColumnReader]:
        return [self._table._reader(name) for name in self._names]

    def __repr__(self) -> str:
        members = tuple(self._table._column(name) for name in self._names)
        return table_text(self._table.info, members, len(self._rows), "Query on")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_query, (self._table, self._names, self._rows)


def _rebuild_query(table: Table, names: tuple[str, ...], rows: Rows) -> Query:
    return Query(table, names, rows)


def _field(column: ColumnInfo) -> pa.Field:
    said = {"units": column.units, "units_vocabulary": column.units_vocabulary, "description": column.description}
    metadata = {key: value for key, value in said.items() if value is not None}
    return pa.field(shown_name(column.name), arrow_type(column), metadata=metadata or None)


class Column:
    """One column or label: what it is, and its values when asked for."""

    def __init__(self, table: Table, name: str) -> None:
        self._table = table
        self.name = name
        table._column(name)

    @property
    def info(self) -> ColumnInfo:
        """The column as plain data, as of the last commit."""
        return self._table._column(self.name)

    @property
    def dtype(self) -> pa.DataType:
        """The Arrow type of the values."""
        return arrow_type(self.info)

    @property
    def stored_type(self) -> StoredType:
        """The HDF5 datatype."""
        return self.info.type

    @property
    def units(self) -> str | None:
        """The units; setting them is one commit."""
        return self.info.units

    @units.setter
    def units(self, text: str | None) -> None:
        if implied_units(self.dtype) is not None:
            raise UsageError(
                f"the units of {self.dtype} say how it is stored: they cannot be changed", column=self.name
            )
        self._table._set_text(self.name, "units", text)

    @property
    def units_vocabulary(self) -> str | None:
        """The column's own vocabulary, or the table's; setting it is one commit."""
        return self.info.units_vocabulary

    @units_vocabulary.setter
    def units_vocabulary(self, text: str | None) -> None:
        self._table._set_text(self.name, "units_vocabulary", text)

    @property
    def description(self) -> str | None:
        """The description, without the line that names the fill; setting it is one commit."""
        return self.info.description

    @description.setter
    def description(self, text: str | None) -> None:
        self._table._set_text(self.name, "description", text)

    @property
    def fill(self) -> object:
        """The stored value that marks a missing row, None when the column has none."""
        return None if self.info.fill is None else fill_value(self.info.type, self.info.fill)

    @property
    def categories(self) -> pa.Array | None:
        """The categories of a categorical column, None for others."""
        if self.info.categories is not None:
            return self._table._file._consistent(lambda: self._table._reader(self.name).categories())
        if self.info.type.kind == "enum":
            return pa.array([shown_name(name) for name, _ in self.info.type.members], pa.string())
        return None

    @property
    def ordered(self) -> bool:
        """Whether the order of the categories means something."""
        return self.info.categories is not None and self.info.categories.ordered

    @property
    def chunk_rows(self) -> int | None:
        """Rows in a chunk, None for storage that is not chunked."""
        return self.info.chunk_rows

    @property
    def filters(self) -> str:
        """The byte filters, as `colonnade.column(filters=...)` takes them: "shuffle+deflate:1", "none"."""
        return filters_text(self.info.filters)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels of this column, in order of precedence."""
        return self.info.labels

    @property
    def n_rows(self) -> int:
        return self.info.n_rows

    def __len__(self) -> int:
        return self.info.n_rows

    def _all(self) -> range:
        return range(self.info.n_rows)

    def to_arrow(self) -> pa.ChunkedArray:
        """All values as Arrow."""
        return self._read(slice(None))

    def _read(self, rows: slice | Rows) -> pa.ChunkedArray:
        def read() -> pa.ChunkedArray:
            reader = self._table._reader(self.name)
            chosen = range(self._table.n_rows)[rows] if isinstance(rows, slice) else rows
            return read_column(reader, chosen)

        return self._table._file._consistent(read)

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """All values as NumPy; a masked array when rows are missing."""
        return to_numpy(self.to_arrow())

    def __getitem__(self, item: Any) -> Any:
        """column[10:20] and column[[3, 1]] as NumPy (masked where rows are missing), column[5] as one value."""
        if isinstance(item, slice):
            return to_numpy(self._read(item))
        if isinstance(item, (list, tuple, np.ndarray)):
            return to_numpy(self._read(self._table.take(item)._rows))
        try:
            row = self._all()[operator.index(item)]
        except TypeError:
            raise UsageError(f"take values with a number, a slice or a list of numbers, not {item!r}") from None
        except IndexError:
            raise UsageError(f"there is no row {item}: the column has {rows_text(self.n_rows)}") from None
        return python_values(self._read(range(row, row + 1)))[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("a column is read from the file, which makes a copy")
        values = without_mask(self.to_numpy(), self.name)
        return values if dtype is None else values.astype(dtype)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._table.select(self.name).batches():
            yield from python_values(batch.column(0))

    def __repr__(self) -> str:
        units = f" [{self.units}]" if self.units else ""
        return f"<Column {self.name!r}{units}: {type_word(self.dtype)}, {rows_text(self.n_rows)}>"
