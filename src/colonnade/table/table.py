"""One table: described once, read on request, changed one commit at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Never, overload

import numpy as np
import pyarrow as pa

from colonnade.dataclass import replace
from colonnade.errors import ColonnadeError, ColumnNotFound, FormatError, UnsupportedError, UsageError
from colonnade.model import (
    AUTO,
    UNREADABLE,
    ColumnInfo,
    ColumnOptions,
    ColumnsByName,
    Finding,
    IndexInfo,
    LibraryRead,
    Member,
    Progress,
    StringStorage,
    TableInfo,
    shown_name,
)
from colonnade.nodes.attributes import OPTIONS_SET, Attributes, check_attribute_names, read_values
from colonnade.nodes.elements import column_node
from colonnade.nodes.paths import editable, join_path
from colonnade.table.column import Column
from colonnade.table.row_changes import ArrangedColumns, ChangeableRows
from colonnade.table.rows import Query

if TYPE_CHECKING:
    from os import PathLike

    from colonnade.columns.read import ColumnReader
    from colonnade.edit import change as changes
    from colonnade.edit.index import Indexes
    from colonnade.layouts.index_home import OpenIndex
    from colonnade.predicate.tree import Predicate
    from colonnade.query.stats import ColumnStats
    from colonnade.selection import RowNumbers, Rows
    from colonnade.table.file import Asked, File
    from colonnade.values import Cell


class Table(ChangeableRows, ArrangedColumns):
    """One table: its columns and labels, read on request.

    `t["x"]` is a Column, `t[["x", "y"]]` some columns, `t[10:20]` some rows (both a Query), `t[5]`
    one row as a dict. `for row in t` gives every row as a dict; `"x" in t` is whether there is a column "x".

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> t["energy"][:]
    array([0.5, 7. , 6. ])
    >>> t[1]
    {'ts': 2, 'energy': 7.0}
    >>> [row["ts"] for row in t if row["energy"] > 5]
    [2, 3]
    >>> t[["ts"]][1:].to_numpy()
    {'ts': array([2, 3])}
    """

    def __init__(self, file: File, path: str, layout: str | None = None) -> None:
        self._file = file
        self._asked_path, self._asked_layout = path, layout
        self._opened: dict[tuple[str, bool], ColumnReader] = {}
        self._fields: dict[tuple[str, bool], pa.Field] = {}
        self._open_indexes: tuple[int, Sequence[OpenIndex]] | None = None
        self._generation = -1
        self._writers: changes.Writers | None = None
        self._writers_of = -2
        self._look()

    def append(self, data: object, *, progress: Progress | None = None) -> int:
        """Append rows: anything `colonnade.write` takes, also streamed. One commit. Returns the number of rows
        added.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.append({"ts": [4], "energy": [None]})
        1
        >>> len(t)
        4
        """
        from colonnade.edit import change as changes
        from colonnade.table.other_tables import as_rows

        data = as_rows(data)
        with self._file._change(resized=self.path):
            opened = self._opened_for_change()
            writers_before = self._writers if self._writers_of == self._generation else None
            added, info, writers = changes.append(opened, data, progress, writers_before)
        if info is not None:
            self._info, self._generation = info, self._file._handle.generation
            self._writers, self._writers_of = writers, self._generation
            self._opened.clear()
            self._fields.clear()
        return added

    def truncate(self, n_rows: int) -> None:
        """Keep only the first `n_rows` rows. One commit.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.truncate(1)
        >>> len(t)
        1
        """
        from colonnade.edit import change as changes

        with self._file._change(resized=self.path):
            changes.truncate(self._opened_for_change(), n_rows)

    @overload
    def update(self, column: str, rows: Sequence[int] | np.ndarray, values: object) -> None: ...
    @overload
    def update(self, *, set: Mapping[str, object], where: Predicate | str | None = None) -> int: ...
    def update(
        self,
        column: str | None = None,
        rows: Sequence[int] | np.ndarray | None = None,
        values: object = None,
        *,
        where: Predicate | str | None = None,
        set: Mapping[str, object] | None = None,  # noqa: A002
    ) -> int | None:
        """Put values into these rows of a column, or into the rows that match; None makes a cell missing. One commit.

        where, set: the rows (None: all) and {column: value}. A value is an expression, which is computed from the rows
        as they were before, or a plain value for all these rows (strings are values; text becomes an expression with
        `expr`). The number of rows is returned.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.update("energy", rows=[0, 2], values=[1.5, None])
        >>> t["energy"].to_arrow().to_pylist()
        [1.5, 7.0, None]
        >>> t.update(where="ts < 3", set={"energy": cn.col("energy") * 2, "ts": 0})
        2
        >>> t["energy"].to_arrow().to_pylist()
        [3.0, 14.0, None]
        """
        from colonnade.edit import change as changes

        if set is not None:
            from colonnade.table.computing import update_matches

            if column is not None or rows is not None or values is not None:
                raise UsageError("update takes a column, rows and values, or where and set, not both", option="set")
            return update_matches(self, where, set)
        if column is None or rows is None or where is not None:
            raise UsageError("update takes a column, rows and values, or where= and set={column: value}", option="set")
        self._column(column)
        with self._file._change():
            changes.update(self._opened_for_change(), column, rows, values)
        return None

    def add_column(
        self,
        name: str,
        values: object,
        *,
        allow_reserved: bool = False,
        units: str | None = None,
        units_vocabulary: str | None = None,
        description: str | None = None,
        fill: object = AUTO,
        chunk_rows: int | None = None,
        filters: str | None = None,
        strings: StringStorage = "auto",
        categories: bool | Sequence[object] | None = None,
        ordered: bool | None = None,
        enum: bool = False,
        sparse: bool = False,
        masked: bool | None = None,
        **unknown: Never,
    ) -> None:
        """Add a column after the others. One commit.

        values: an array of them, or an expression, which is computed from the other columns while it is written.
        The options are those of `colonnade.column`. allow_reserved: whether a name that HEP001 reserves may be used.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.add_column("charge", [1, -1, 1], units="e")
        >>> t["charge"]
        <Column 'charge' [e]: int64, 3 rows>
        >>> t.add_column("power", cn.col("energy") / cn.col("ts"))
        >>> t["power"][:]
        array([0.5, 3.5, 2. ])
        """
        from colonnade.edit import change as changes
        from colonnade.edit.create import refuse_unknown
        from colonnade.predicate.columns import Expression
        from colonnade.predicate.tree import Predicate

        refuse_unknown(unknown, f"column {name!r}", Table.add_column, column=name)
        options = ColumnOptions(
            units=units, units_vocabulary=units_vocabulary, description=description, fill=fill,
            chunk_rows=chunk_rows, filters=filters, strings=strings, categories=categories, ordered=ordered,
            enum=enum, sparse=sparse, masked=masked,
        )  # fmt: skip
        if isinstance(values, (Expression, Predicate)):
            from colonnade.table.computing import streamed_column

            values = streamed_column(self, name, values)
        with self._file._change():
            changes.add_column(self._opened_for_change(), name, values, options, allow_reserved)

    def drop_column(self, name: str) -> None:
        """Remove a column or label. One commit.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.drop_column("ts")
        >>> t.columns
        ['energy']
        """
        from colonnade.edit import change as changes

        self._column(name)
        with self._file._change():
            changes.drop_column(self._opened_for_change(), name)

    def rename_column(self, name: str, new_name: str, *, allow_reserved: bool = False) -> None:
        """Give a column or label another name. One commit.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.rename_column("ts", "time")
        >>> t.columns
        ['time', 'energy']
        """
        from colonnade.edit import change as changes

        self._column(name)
        with self._file._change():
            changes.rename_column(self._opened_for_change(), name, new_name, allow_reserved)

    def replace_column(
        self,
        name: str,
        values: object,
        *,
        units: str | None = None,
        units_vocabulary: str | None = None,
        description: str | None = None,
        fill: object = AUTO,
        chunk_rows: int | None = None,
        filters: str | None = None,
        strings: StringStorage = "auto",
        categories: bool | Sequence[object] | None = None,
        ordered: bool | None = None,
        enum: bool = False,
        sparse: bool = False,
        masked: bool | None = None,
        **unknown: Never,
    ) -> None:
        """Replace a column or label by other values, of any type. One commit.

        The options are those of `colonnade.column`; the units and the description stay unless new ones are given.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.replace_column("ts", ["a", "b", "c"])
        >>> t[0]
        {'ts': 'a', 'energy': 0.5}
        """
        from colonnade.edit import change as changes
        from colonnade.edit.create import refuse_unknown

        self._column(name)
        refuse_unknown(unknown, f"column {name!r}", Table.replace_column, column=name)
        options = ColumnOptions(
            units=units, units_vocabulary=units_vocabulary, description=description, fill=fill,
            chunk_rows=chunk_rows, filters=filters, strings=strings, categories=categories, ordered=ordered,
            enum=enum, sparse=sparse, masked=masked,
        )  # fmt: skip
        with self._file._change():
            changes.replace_column(self._opened_for_change(), name, values, options)

    def build_index(
        self,
        column: str | Mapping[str, str | Sequence[str]],
        kind: str | Sequence[str] | None = None,
        *,
        error_rate: float = 0.01,
        max_values: int = 4096,
        progress: Progress | None = None,
        index_file: str | PathLike[str] | None = None,
    ) -> None:
        """Build search indexes for a column, or for several given as {column: kinds}. One commit.

        kind: "chunk_minmax", "sorted_rows", "bitmap", "chunk_bloom", or several; an existing index is replaced.
        error_rate: of a Bloom filter. max_values: the most distinct values a bitmap may have.
        progress: called with the rows read so far and in all.
        index_file: the file to put them into, for a table in a file that is open for reading and must not change.
        Queries use it from now on, and when it is given to `open`, until the file of the table changes.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.build_index("energy", "sorted_rows")
        >>> t.build_index({"ts": ["chunk_minmax", "chunk_bloom"]}, error_rate=0.001)
        >>> [(index.column, index.kind) for index in t.indexes]
        [('energy', 'sorted_rows'), ('ts', 'chunk_bloom'), ('ts', 'chunk_minmax')]
        """
        from colonnade.indexes import KINDS
        from colonnade.indexes.base import Options

        asked = dict(column) if isinstance(column, Mapping) else {column: [] if kind is None else kind}
        wanted = {self._column(name).name: [k] if isinstance(k, str) else list(k) for name, k in asked.items()}
        if not wanted or not all(wanted.values()):
            *others, last = KINDS
            raise UsageError(f"give the kind of index: {', '.join(others)} or {last}")
        if not 0 < error_rate < 1:
            raise UsageError(f"error_rate must be between 0 and 1, not {error_rate!r}")
        options = Options(error_rate=error_rate, max_values=max_values)
        if index_file is not None or self._file._index_file is not None:
            target = self._file._index_file if index_file is None else self._file._use_index_file(index_file)
            assert target is not None  # one of both was given
            self._look()
            target.build(self, wanted, options, progress)
            self._file._n_verified += 1  # open indexes are opened again
            return
        with self._file._change():
            self._indexes().build(wanted, options, progress)

    def drop_index(self, column: str, kind: str | None = None) -> None:
        """Remove a search index of a column, or all of them if no kind is given. One commit.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.build_index("energy", "sorted_rows")
        >>> t.drop_index("energy", "sorted_rows")
        >>> t.indexes
        []
        """
        self._column(column)
        kinds = None if kind is None else [kind]
        which = "search index" if kind is None else f"index of kind {kind!r}"
        none = UsageError(f"column {column!r} has no {which}", column=column, kind=kind)
        if self._file._index_file is not None:
            self._look()
            if not self._file._index_file.drop(self, column, kinds):
                raise none
            self._file._n_verified += 1  # open indexes are opened again
            return
        with self._file._change():
            if not self._indexes().drop(column, kinds):
                raise none

    @property
    def indexes(self) -> list[IndexInfo]:
        """The search indexes of all columns."""
        return self._file._consistent(lambda: [index.info for index in self._open_all_indexes()])

    def verify_indexes(self, *, progress: Progress | None = None) -> list[Finding]:
        """Compare every search index with its column; returns what is wrong, entry by entry. Correct indexes become
        trusted.

        A legal index that is not supported here, such as one of an unknown kind, is a note; so is a stale one.

        progress: called with the number of indexes verified so far and of all.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.build_index("energy", "sorted_rows")
        >>> t.verify_indexes()
        []
        """

        from colonnade.layouts.index_home import HOMES

        homes: list[Indexes] = []

        def verify() -> list[Finding]:
            homes[:] = self._all_indexes()
            findings: list[Finding] = []
            results = (verified for indexes in homes for verified in indexes.verify())
            for done, (info, wrong) in enumerate(results):
                home = HOMES[self._layout.index_revision if info.file is None else "april"]
                path = join_path(join_path(self._info.path, home), info.name)
                path = path if info.file is None else f"{info.file}:{path}"
                index = f"the index {info.kind} of column {info.column!r}"
                findings += [Finding("S8", "error", path, f"{index} is wrong in {part}") for part in wrong[:20]]
                if not info.fresh and not wrong:
                    message = f"{index} was not verified: {info.problem}"
                    findings.append(Finding("S8", "note", path, message))
                if progress is not None:
                    progress(done + 1, None)
            return findings

        state = self._file._file_state()
        wrong_indexes = self._file._consistent(verify)
        self._file._save_verified(state)
        if self._file._index_file is not None and len(homes) > 1:
            self._file._index_file.save_verified(homes[1], state)
        return wrong_indexes

    def stats(
        self, columns: Sequence[str] | None = None, *, progress: Progress | None = None
    ) -> dict[str, ColumnStats | ColonnadeError]:
        """Statistics of columns: missing, NaN, least, greatest, distinct; from an index where one knows them.

        For a column that cannot be read, the error. progress: called with the rows read so far, and in all.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> stats = t.stats(["energy"])["energy"]
        >>> stats.n_missing, stats.least[0].as_py(), stats.distinct.count
        (0, 0.5, 3)
        """
        from colonnade.query.stats import column_stats

        names = list(self.info.by_name) if columns is None else list(columns)

        def read() -> dict[str, ColumnStats | ColonnadeError]:
            stats: dict[str, ColumnStats | ColonnadeError] = {}
            indexes, done = self._open_all_indexes(), 0

            def seen(n_rows: int) -> None:
                nonlocal done
                done += n_rows
                if progress is not None:
                    progress(done, len(names) * self._info.n_rows)

            for name in names:
                try:
                    stats[name] = column_stats(self._reader(name), indexes, self._file._trust, seen)
                except (FormatError, UnsupportedError) as error:
                    stats[name] = error
            return stats

        return self._file._consistent(read)

    def _search_indexes(self) -> Sequence[OpenIndex]:
        """The open search indexes, for queries. What is read of them is cached as long as no one can change the
        file."""
        if self._file._handle.writable:
            return self._indexes().open()
        self._look()
        if self._open_indexes is None or self._open_indexes[0] != self._file._n_verified:
            self._open_indexes = self._file._n_verified, self._open_all_indexes()
        return self._open_indexes[1]

    def _open_all_indexes(self) -> list[OpenIndex]:
        return [index for indexes in self._all_indexes() for index in indexes.open()]

    def _all_indexes(self) -> list[Indexes]:
        """The indexes in the file of the table, and those in its index file."""
        own, index_file = self._indexes(), self._file._index_file
        further = None if index_file is None else index_file.indexes(self)
        return [own] if further is None else [own, further]

    def _indexes(self) -> Indexes:
        from colonnade.edit.index import Indexes

        self._look()
        return Indexes(self._group, self._layout, self._info, self._file._receipts_now())

    def _set_text(self, name: str | None, key: str, text: str | None) -> None:
        from colonnade.edit import change as changes

        with self._file._change():
            changes.set_texts(self._opened_for_change(), name, {key: text})

    def _opened_for_change(self) -> changes.OpenTable:
        from colonnade.edit import change as changes

        info = self.info
        return changes.OpenTable(editable(self._group), self._layout, info, self._file._receipts, self._file._handle)

    def _look(self) -> None:
        """Describe the table again if the file has changed since."""
        handle = self._file._handle
        if handle.held and self._generation == handle.generation:
            return
        if not handle.is_open:
            handle.check_process()
            return
        handle.refresh()
        if self._generation == handle.generation:
            return
        path, layout = self._asked_path, self._asked_layout
        self._group, self._layout, self._info = self._file._consistent(lambda: self._file._describe(path, layout))
        self._opened.clear()
        self._fields.clear()
        self._open_indexes = None
        self._generation = self._file._handle.generation

    @property
    def info(self) -> TableInfo:
        """The table as plain data, as of the last commit."""
        self._look()
        left = self._left_to_library()
        if left != self._info.left_to_library:
            self._info = replace(self._info, left_to_library=left)
        return self._info

    def _left_to_library(self) -> tuple[LibraryRead, ...]:
        """The objects of this table that libhdf5 reads instead of our own reader, as far as they were opened."""
        if not self._file._handle.is_open:
            return self._info.left_to_library
        left = self._group.file.left_to_library
        if not left:
            return ()
        below = f"{self._group.path.rstrip('/')}/"
        own = {path: why for path, why in left.items() if path == "/" or f"{path}/".startswith(below)}
        return tuple(LibraryRead(path, why) for path, why in own.items())

    @property
    def path(self) -> str:
        """The path of the table in its file."""
        return self.info.path

    @property
    def layout(self) -> str:
        """The name of the layout, such as "hep001" or "anndata"."""
        return self.info.layout

    @property
    def n_rows(self) -> int:
        """The number of rows."""
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
    def units_vocabulary(self) -> str | None:
        """The vocabulary of the units of all columns; setting it is one commit."""
        return self.info.units_vocabulary

    @units_vocabulary.setter
    def units_vocabulary(self, text: str | None) -> None:
        self._set_text(None, "units_vocabulary", text)

    @property
    def attrs(self) -> Attributes:
        """Your own attributes: those of the group that do not belong to the layout. Setting one is one commit.

        Values are str, bool, int, float, complex, bytes, NumPy scalars, and arrays or lists of numbers, booleans or
        strings. Names that belong to the layout are refused; the title, for example, is a property.
        """
        return self._attributes(None)

    def _attributes(self, name: str | None) -> Attributes:
        """The attributes of a column, or of the table itself."""
        self._file._check_open()
        return Attributes(partial(self._read_attributes, name), partial(self._change_attributes, name))

    def _read_attributes(self, name: str | None, only: str | None) -> dict[str, object]:
        def read() -> dict[str, object]:
            self._look()
            if name is None:
                return read_values(self._group, self._layout.reserved_attributes(self._group), only)
            column = self._column(name)
            if isinstance(column.form, Member):
                return {}
            if column.storage == "sectioned":
                from colonnade.columns.raw import is_sectioned

                rows, _ = self._layout.open_column(self._group, column)
                attributes = rows.attributes() if is_sectioned(rows) else {}
                return {key: attributes[key] for key in attributes if key not in self._layout.column_attributes}
            owned = (*self._layout.column_attributes, OPTIONS_SET)
            return read_values(column_node(self._group, column), owned, only)

        return self._file._consistent(read)

    def _change_attributes(self, name: str | None, new: Mapping[str, object], without: tuple[str, ...]) -> None:
        from colonnade.edit import change as changes

        owned = self._layout.reserved_attributes(self._group) if name is None else self._layout.column_attributes
        what = f"table {self.path}" if name is None else f"column {name!r}"
        check_attribute_names((*new, *without), owned, Table if name is None else Column, what)
        with self._file._change():
            changes.set_attributes(self._opened_for_change(), name, new, without)

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Problems found while the table was described; the table can still be read."""
        return self._file._consistent(lambda: tuple(self.info.problems))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of columns and labels."""
        return self._query().schema

    def __len__(self) -> int:
        return self.info.n_rows

    def __contains__(self, name: object) -> bool:
        return name in self.info.by_name

    @overload
    def __getitem__(self, item: str) -> Column: ...
    @overload
    def __getitem__(self, item: list[str] | tuple[str, ...] | slice) -> Query: ...
    @overload
    def __getitem__(self, item: int) -> dict[str, Cell]: ...
    def __getitem__(self, item: str | int | list[str] | tuple[str, ...] | slice) -> dict[str, Cell] | Column | Query:
        if isinstance(item, str):
            return Column(self, item)
        return self._query()[item]

    def _column(self, name: str) -> ColumnInfo:
        known = self.info.by_name
        if not isinstance(name, str):
            raise UsageError(f"a column is named by a string, not by {name!r}", option="column")
        if name not in known:
            raise ColumnNotFound(name, f"table {self.path}", known)
        if not isinstance(known, ColumnsByName):
            return known[name]
        column: ColumnInfo = self._file._consistent(lambda: self.info.by_name[name])  # described on first use
        return column

    def _field(self, name: str, dictionaries: bool = False) -> pa.Field:
        """A column as an Arrow field, with its units and description."""
        from colonnade.columns.mapping import as_dictionary

        column = self._column(name)
        field = self._fields.get((name, dictionaries))
        if field is None:
            field = self._fields[name, dictionaries] = _as_field(as_dictionary(column) if dictionaries else column)
        return field

    def _reader(self, name: str, dictionaries: bool = False) -> ColumnReader:
        from colonnade.columns.mapping import as_dictionary
        from colonnade.columns.read import ColumnReader

        if not self._file._handle.held:
            self._file._check_open()
        self._look()
        reader = self._opened.get((name, dictionaries))
        if reader is None:
            column = self._column(name)
            if column.type == UNREADABLE:
                raise FormatError(
                    f"cannot read column {name!r} of {self.path}: {column.problem}. Leave it out with "
                    "columns=[...] or select(...)",
                    column=name,
                    path=self.path,
                )
            if column.storage == "virtual" and self._file._handle.is_journaled:
                raise UnsupportedError(
                    f"column {name!r} is virtual (its rows are in other files), which can be read only from a file "
                    "that is open for reading: open it with mode 'r'",
                    feature="virtual dataset in a file open for changes",
                )
            dataset, companion = self._layout.open_column(self._group, column)
            shown = as_dictionary(column) if dictionaries else column
            reader = ColumnReader(shown, dataset, companion, self._file._n_threads)
            self._opened[name, dictionaries] = reader
        return reader

    def _read_stored(self, name: str, start: int, count: int) -> np.ndarray:
        """Rows of a column as stored."""
        from colonnade.columns.raw import read_stored

        def read() -> np.ndarray:
            self._look()
            column = self._column(name)
            if column.storage == "sectioned":
                raise UnsupportedError(
                    f"cannot read column {name!r} as it is stored: it is sparse. Use open_sparse", feature="raw sparse"
                )
            return read_stored(self._layout.open_dataset(self._group, column), start, count)

        return self._file._consistent(read)

    def _stored_bytes(self, name: str) -> int:
        from colonnade.columns.read import ColumnReader

        def read() -> int:
            self._look()
            column = self._column(name)
            if column.type == UNREADABLE:
                return 0
            return ColumnReader(column, *self._layout.open_column(self._group, column)).stored_bytes

        return self._file._consistent(read)

    def _as_table(self) -> Table:
        return self

    @property
    def _before(self) -> None:
        """The query whose rows these are made from: none."""
        return None

    def _is_stored(self, _name: str) -> bool:
        return True

    def _numbers_of(self, rows: Rows) -> RowNumbers:
        """The numbers of these rows in the table: themselves."""
        return np.asarray(rows, dtype=np.int64)

    def _query(self) -> Query:
        return Query(self, tuple(self.info.by_name))

    def close(self) -> None:
        """Close the file of the table.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.close()
        """
        self._file.close()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        from colonnade.table.show import table_text

        return table_text(self.info, self.info.members, self.info.n_rows)

    def __reduce__(self) -> tuple[object, ...]:
        from colonnade.table.references import reopened_from

        target = reopened_from(self._file, f"table {self.path!r}")
        return _opened_again, (target, self.path, self._file._asked, self._asked_layout)


def _opened_again(name: str, table: str, asked: Asked, layout: str | None = None) -> Table:
    """The pickled table, from its file, which is opened for reading and otherwise with the same arguments."""
    from colonnade.table.file import open

    file = open(name, **asked)
    try:
        return file.table(table, layout)
    except BaseException:
        file.close()
        raise


def _as_field(column: ColumnInfo) -> pa.Field:
    from colonnade.columns.mapping import arrow_type

    strings = {
        "units": column.units,
        "units_vocabulary": column.units_vocabulary,
        "description": column.description,
        "pandas": column.pandas,
    }
    metadata = {key: value for key, value in strings.items() if value is not None}
    return pa.field(shown_name(column.name), arrow_type(column), metadata=metadata or None)
