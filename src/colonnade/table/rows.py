"""Rows and columns of a table that are not read yet, and the methods that read them."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, SupportsIndex, overload

import numpy as np
import pyarrow as pa

from colonnade.arrays import Int64s
from colonnade.dataclass import replace
from colonnade.errors import CorruptError, UsageError
from colonnade.sealed import Sealed

if TYPE_CHECKING:
    import pandas
    import polars

    from colonnade.columns.read import ColumnReader
    from colonnade.exchange.numpy_out import StringsAs
    from colonnade.predicate.bound import Bound
    from colonnade.predicate.tree import Predicate
    from colonnade.query.plan import Plan
    from colonnade.query.scan import Rows
    from colonnade.query.search import Search
    from colonnade.table.file import File
    from colonnade.table.references import Referenced
    from colonnade.table.table import Table
    from colonnade.values import Cell


TABLE_BATCH_ROWS = 65_536
AggregateRequest = str | tuple[str, str]
"""A value requested from `aggregate`: "count", or a column and a function."""


class ReadableRows(Sealed):
    """The methods that a Table and a Query have in common, which read rows and columns."""

    _file: File

    def _query(self) -> Query:
        raise NotImplementedError

    def where(self, predicate: Predicate | str) -> Query:
        """The rows for which a predicate is true: `col("ts") >= 10`, or a string such as "ts >= 10 and label ==
        'muon'".

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.where((cn.col("energy") > 5) & (cn.col("ts") < 3)).count()
        1
        >>> t.where("energy > 5 and ts < 3").row_numbers()
        array([1])
        """
        from colonnade.predicate.parse import parse
        from colonnade.predicate.tree import Predicate

        parsed = parse(predicate) if isinstance(predicate, str) else predicate
        if not isinstance(parsed, Predicate):
            raise UsageError(f"where takes a predicate, such as col('x') > 3 or 'x > 3', not {predicate!r}")
        with self._file._steady():
            query = self._query()
            if query._limit is None:
                return query._narrowed(parsed)
        query = query._settled()
        with self._file._steady():
            return query._narrowed(parsed)

    def select(self, *columns: str | Sequence[str]) -> Query:
        """The given columns, in the given order.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.select("energy", "ts").columns
        ['energy', 'ts']
        """
        names: list[object] = [
            name for item in columns for name in (item if isinstance(item, (list, tuple)) else [item])
        ]
        with self._file._steady():
            query = self._query()
            for name in names:
                if not isinstance(name, str):
                    raise UsageError(f"columns are chosen by name, not by {name!r}; rows with [10:20] or .take([...])")
                query._table._column(name)
        return query._with(names=tuple(map(str, names)))

    def head(self, n: int = 5) -> Query:
        """The first `n` rows.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.head(2).to_numpy()
        {'ts': array([1, 2]), 'energy': array([0.5, 7. ])}
        """
        try:
            count = operator.index(n)
        except TypeError:
            raise UsageError(f"head takes a number of rows, not {n!r}") from None
        return self._query()[: max(count, 0)]

    def take(self, rows: Sequence[int] | np.ndarray) -> Query:
        """The given rows, in the given order; repeats and negative numbers (from the end) are allowed.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.take([2, 0, 2]).select("ts").to_numpy()
        {'ts': array([3, 1, 3])}
        """
        from colonnade.selection import row_numbers

        query = self._query()._settled()
        known = query._known_rows()
        numbers = row_numbers(rows, len(known))
        chosen = known.start + numbers * known.step if isinstance(known, range) else known[numbers]
        return query._with(rows=chosen)

    def to_arrow(self, *, dictionaries: bool = False, views: bool = False) -> pa.Table:
        """All rows as a pyarrow.Table. dictionaries: strings stored as categories become Arrow dictionaries.

        views: strings become Arrow string views (string_view); for strings stored as categories, in a third of the
        time.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.to_arrow().column("ts").to_pylist()
        [1, 2, 3]
        """
        from colonnade.query.scan import read_table

        def read() -> pa.Table:
            query = self._query()
            coded = dictionaries or views
            rows = read_table(query._readers(coded), query._found_rows(), query._schema(coded))
            return query._with_views(rows, dictionaries) if views else rows

        table: pa.Table = self._file._consistent(read)
        return table

    def to_pandas(self, *, dictionaries: bool = False) -> pandas.DataFrame:
        """All rows as a pandas DataFrame; labels become its index. dictionaries: strings stored as categories become
        Categorical.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.to_pandas()
           ts  energy
        0   1     0.5
        1   2     7.0
        2   3     6.0
        """
        from colonnade.exchange.frames import to_pandas

        query = self._query()
        return to_pandas(
            query.to_arrow(dictionaries=dictionaries),
            [name for name in query._table.info.row_labels if name in query._names],
        )

    def to_polars(self, *, dictionaries: bool = False) -> polars.DataFrame:
        """All rows as a polars DataFrame. dictionaries: strings stored as categories become Categorical.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.to_polars().shape
        (3, 2)
        """
        from colonnade.exchange.frames import to_polars

        return to_polars(self._query().to_arrow(dictionaries=dictionaries, views=True))

    def to_numpy(self, *, strings: StringsAs = "numpy") -> dict[str, np.ndarray]:
        """All rows as one NumPy array per column; a masked array where rows are missing.

        strings: "numpy" for NumPy strings (StringDType), "objects" for arrays of Python strings.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.to_numpy()["ts"]
        array([1, 2, 3])
        """
        from colonnade.exchange.numpy_out import to_numpy
        from colonnade.query.scan import read_column

        def read() -> dict[str, np.ndarray]:
            query = self._query()
            rows = query._found_rows()
            readers = query._readers(dictionaries=True)  # each category's string is created only once
            return {reader.column.name: to_numpy(read_column(reader, rows), strings) for reader in readers}

        return self._file._consistent(read)

    def batches(self, rows: int = TABLE_BATCH_ROWS, *, dictionaries: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow record batches of at most `rows` rows, read as they are requested.

        dictionaries: strings stored as categories become Arrow dictionaries.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> [batch.num_rows for batch in t.batches(rows=2)]
        [2, 1]
        """
        from colonnade.query.scan import read_parts

        if rows < 1:
            raise UsageError(f"a batch must have at least one row, not {rows}")

        def start() -> Iterator[pa.RecordBatch]:
            query = self._query()
            return read_parts(query._readers(dictionaries), query._row_parts(rows), query._schema(dictionaries))

        return self._file._unchanged(start)

    @overload
    def aggregate(
        self,
        by_column: Mapping[str, str | Sequence[str]] | None = None,
        /,
        *,
        by: None = None,
        **named: AggregateRequest,
    ) -> dict[str, Cell]: ...
    @overload
    def aggregate(
        self,
        by_column: Mapping[str, str | Sequence[str]] | None = None,
        /,
        *,
        by: str | Sequence[str],
        **named: AggregateRequest,
    ) -> pa.Table: ...
    def aggregate(
        self,
        by_column: Mapping[str, str | Sequence[str]] | None = None,
        /,
        *,
        by: str | Sequence[str] | None = None,
        **named: AggregateRequest,
    ) -> dict[str, Cell] | pa.Table:
        """Counts, sums, means, minima and maxima of columns, without loading a whole column.

        `t.aggregate(n="count", top=("energy", "max"))` returns the dict `{"n": ..., "top": ...}`: each name stands for
        the number of rows, "count", or for a function of a column. `t.aggregate({"energy": ["min", "mean"]})` chooses
        the names: "energy_min", "energy_mean". Functions: count (values that are not missing), min, max, sum, mean.

        by: a column, or several. The result is then a pyarrow.Table: these columns, then the requested values, one row
        per group, in increasing order, NaN after the numbers and missing last.

        Missing values are skipped. Aggregates over no values return None; counts return 0. A NaN makes sums and means
        NaN; min and max skip it. Sums of integers are exact: Python integers in a dict; in a table int64, or uint64 for
        unsigned columns, with a DataError where that is too small.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "label": ["muon", "pion", "muon"]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.aggregate(n="count", last=("ts", "max"))
        {'n': 3, 'last': 3}
        >>> t.aggregate(by="label", n="count").to_pydict()
        {'label': ['muon', 'pion'], 'n': [2, 1]}
        """
        from colonnade.query.aggregate import Aggregation, group_names, wanted_values
        from colonnade.query.stats import known_to_indexes

        wanted, groups = wanted_values(by_column, named), group_names(by)

        def read() -> dict[str, Cell] | pa.Table:
            query = self._query()
            table = query._table
            names = [*groups, *(aggregate.column for aggregate in wanted if aggregate.column is not None)]
            asked = Aggregation(wanted, groups, {name: table._reader(name) for name in names})
            rows = query._known_rows() if query._predicate is None else query._search()
            asking = asked.known_to_some_index(rows)
            indexes = table._search_indexes() if asking else []
            known = {reader.column.name: known_to_indexes(reader, indexes, table._file._trust) for reader in asking}
            return asked.result(rows, {name: stats[0] for name, stats in known.items() if stats is not None})

        return self._file._consistent(read)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        query = self._query()
        reader = pa.RecordBatchReader.from_batches(query.schema, query.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._query().schema.__arrow_c_schema__()

    def _repr_html_(self) -> str:
        from colonnade.table.show import table_html

        query = self._query()
        members = tuple(query._table._column(name) for name in query._names)
        shown = query.select(list(query._names[:30])).head(5)
        return table_html(query._table.info, members, query.count(), shown.to_arrow())


class Query(ReadableRows):
    """Some rows of some columns of a table, not read yet.

    `rows` are the candidates (None: all rows of the table when it is read), `predicate` selects those that match,
    `limit` is the most matches returned.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> q = t.where("energy > 5").select("ts")
    >>> q.count(), q.to_numpy()
    (2, {'ts': array([2, 3])})
    """

    def __init__(
        self,
        table: Table,
        names: tuple[str, ...],
        rows: Rows | None = None,
        predicate: Predicate | None = None,
        limit: int | None = None,
    ) -> None:
        self._table = table
        self._file = table._file
        self._names = names
        self._rows = rows
        self._predicate = predicate
        self._limit = limit
        self._bound: tuple[int, Bound] | None = None

    def _with(self, names: tuple[str, ...] | None = None, rows: Rows | None = None, limit: int | None = None) -> Query:
        """This query with other columns, rows or another limit."""
        query = Query(
            self._table,
            self._names if names is None else names,
            self._rows if rows is None else rows,
            self._predicate,
            self._limit if limit is None else limit,
        )
        query._bound = self._bound
        return query

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in their order."""
        return list(self._names)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result; units and descriptions are in the fields' metadata."""
        return self._schema()

    def _schema(self, dictionaries: bool = False) -> pa.Schema:
        from colonnade.exchange.pandas_notes import arrow_metadata

        info = self._table.info
        fields = [self._table._field(name, dictionaries) for name in self._names]
        labels = [label.name for label in info.labels if label.name in self._names] if info.labels else []
        notes = {name: note for name in self._names if (note := info.by_name[name].pandas) is not None}
        return pa.schema(fields, arrow_metadata(fields, notes, labels, info.pandas))

    def _with_views(self, rows: pa.Table, dictionaries: bool) -> pa.Table:
        """The table with its string columns as views."""
        from colonnade.columns.strings import VIEW, as_views

        columns, fields = rows.columns, list(rows.schema)
        for position, name in enumerate(self._names):
            if pa.types.is_string(self._table._field(name, dictionaries).type):
                columns[position] = as_views(columns[position], self._file._n_threads)
                fields[position] = fields[position].with_type(VIEW)
        return pa.table(columns, schema=pa.schema(fields, rows.schema.metadata))

    def __len__(self) -> int:
        return self.count()

    def count(self) -> int:
        """The number of rows; from an index if one knows it.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.where("energy > 5").count()
        2
        """
        if self._predicate is None:
            return len(self._known_rows())
        return self._table._file._consistent(lambda: self._search().count())

    def row_numbers(self) -> Int64s:
        """The numbers of the rows in the table, in the order of the query.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.where("energy > 5").row_numbers()
        array([1, 2])
        """
        return np.array(self._table._file._consistent(self._found_rows), dtype=np.int64)

    def explain(self) -> Plan:
        """How the rows are found: which indexes are used or skipped and why, and which chunks are read at most.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> print(t.where("energy > 5").explain())
        where energy > 5
          3 rows, of which 3 may match, 0 of them for sure
          no index          every row is tested
          read      energy  1 of 1 chunks, for the test and result
          read      ts      1 of 1 chunks, for the result
        """
        plan = self._table._file._consistent(lambda: self._search().plan([reader.column for reader in self._readers()]))
        left = self._table._left_to_library()
        return replace(plan, left_to_library=left) if left else plan

    def dereference(self, column: str) -> Iterator[Referenced]:
        """For each row what its reference leads to; None for a null reference.

        An array, or the selected part of it, as a ReferencedArray: a NumPy array with `.path` and `.selection`. A
        regular region has the dimensions of its array. References to groups give the Table, or the group. References
        inside lists and structs give lists and dicts of these.

        >>> import h5py
        >>> with h5py.File("run.h5", "w") as file:
        ...     file["pixels"] = [1, 2]
        ...     cn.write(file, {"image": [file["pixels"].ref, None]}, "events")
        >>> for array in cn.open_table("run.h5", "events").head().dereference("image"):
        ...     print(array)
        [1 2]
        None
        """
        from colonnade.query.scan import read_column
        from colonnade.table.references import cell_converter, followed, python_cells

        reader = self._table._reader(self._table._column(column).name)
        if cell_converter(reader.kind, self._file) is None:
            raise UsageError(f"column {column!r} holds no references", column=column)
        for rows in self._row_parts(TABLE_BATCH_ROWS):
            cells = python_cells(read_column(reader, rows), self._file)
            for row, cell in zip(np.asarray(rows).tolist(), cells, strict=True):
                try:
                    value = followed(cell)
                except CorruptError as error:
                    raise CorruptError(str(error), column=column, row=row) from error
                yield value

    @overload
    def __getitem__(self, item: int) -> dict[str, Cell]: ...
    @overload
    def __getitem__(self, item: list[str] | tuple[str, ...] | slice) -> Query: ...
    def __getitem__(self, item: SupportsIndex | list[str] | tuple[str, ...] | slice) -> dict[str, Cell] | Query:
        from colonnade.table.references import python_rows

        if isinstance(item, slice):
            return self._slice(item)
        if isinstance(item, (list, tuple)):
            return self.select(*item)
        try:
            number = operator.index(item)
        except TypeError:
            raise UsageError(
                f"take rows with [10:20] or .take([...]), columns with [['a', 'b']]; not with {item!r}"
            ) from None
        return python_rows(self.take([number]).to_arrow(), self._file)[0]

    def _slice(self, item: slice) -> Query:
        first = item.start in (None, 0) and item.step in (None, 1) and isinstance(item.stop, int) and item.stop >= 0
        if self._predicate is not None and first:
            return self._with(limit=item.stop if self._limit is None else min(self._limit, item.stop))
        settled = self._settled()
        return settled._with(rows=settled._known_rows()[item])

    def _narrowed(self, predicate: Predicate) -> Query:
        """The rows for which this predicate is also true; a predicate that does not suit the columns is refused
        here."""
        whole = predicate if self._predicate is None else self._predicate & predicate
        narrowed = Query(self._table, self._names, self._rows, whole, self._limit)
        narrowed._tree()
        return narrowed

    # -- the rows --

    def _query(self) -> Query:
        return self

    def _known_rows(self) -> Rows:
        """The candidate rows."""
        return range(self._table.info.n_rows) if self._rows is None else self._rows

    def _settled(self) -> Query:
        """This query with its rows found once, as row numbers."""
        if self._predicate is None:
            return self
        return Query(self._table, self._names, self._table._file._consistent(self._found_rows))

    def _tree(self) -> Bound:
        """The predicate bound to the columns of the current file."""
        from colonnade.query.bind import bind, columns_named

        table, generation = self._table, self._table._file._handle.generation
        assert self._predicate is not None  # checked by the caller
        if self._bound is None or self._bound[0] != generation or table._file._handle.writable:
            names = columns_named(self._predicate, table.info.by_name, f"table {table.path}")
            tree = bind(self._predicate, {name: table._reader(name) for name in names})
            self._bound = table._file._handle.generation, tree
        return self._bound[1]

    def _search(self) -> Search:
        """The search for the rows that match, in the current file."""
        from colonnade.query.bind import columns_of
        from colonnade.query.search import Search

        table = self._table
        tree = None if self._predicate is None else self._tree()
        indexes = table._search_indexes() if tree is not None else []
        readers = {} if tree is None else {name: table._reader(name) for name in columns_of(tree)}
        return Search(tree, self._known_rows(), self._limit, indexes, table._file._trust, readers, self._predicate)

    def _found_rows(self) -> Rows:
        return self._known_rows() if self._predicate is None else self._search().rows()

    def _row_parts(self, most: int) -> Iterator[Rows]:
        """The rows in parts of at most `most` rows, found as they are requested."""
        if self._predicate is not None:
            return self._search().parts(most)
        rows = self._known_rows()
        return (rows[first : first + most] for first in range(0, len(rows), most))

    def _readers(self, dictionaries: bool = False) -> list[ColumnReader]:
        return [self._table._reader(name, dictionaries) for name in self._names]

    def __repr__(self) -> str:
        from colonnade.table.show import table_text

        members = tuple(self._table._column(name) for name in self._names)
        if self._predicate is None:
            return table_text(self._table.info, members, len(self._known_rows()), "Query on")
        limit = "" if self._limit is None else f", the first {self._limit:,}"
        lead = f"Query on rows where {self._predicate}{limit}, of"
        return table_text(self._table.info, members, len(self._known_rows()), lead)

    def __reduce__(self) -> tuple[object, ...]:
        return Query, (self._table, self._names, self._rows, self._predicate, self._limit)
