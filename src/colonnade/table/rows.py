"""Rows and columns of a table that are not read yet, and the methods that read them."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Never, Protocol, SupportsIndex, overload

import numpy as np
import pyarrow as pa

from colonnade import limits
from colonnade.arrays import Int64s
from colonnade.dataclass import replace
from colonnade.errors import CorruptError, UsageError
from colonnade.model import ColumnInfo, shown_name
from colonnade.sealed import Sealed

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow.dataset
    import xarray

    from colonnade.columns.read import ColumnReader
    from colonnade.edit.create import ReferenceForm, WriteMode
    from colonnade.exchange.numpy_out import StringsAs
    from colonnade.layouts.index_home import OpenIndex
    from colonnade.model import ColumnOptions, LibraryRead, Progress, TableInfo
    from colonnade.nodes.attributes import Attributes
    from colonnade.pager.options import Target
    from colonnade.predicate.bound import Bound
    from colonnade.predicate.columns import Expression
    from colonnade.predicate.expressions import Subject, Term
    from colonnade.predicate.tree import Leaf, Predicate
    from colonnade.query.histogram import Histogram
    from colonnade.query.plan import Plan
    from colonnade.query.requested import AggregateRequest, ColumnRequest, FunctionRequest
    from colonnade.query.search import Search
    from colonnade.selection import RowNumbers, Rows, Selection
    from colonnade.table.column import Column as StoredColumn
    from colonnade.table.describing import Description
    from colonnade.table.file import File
    from colonnade.table.references import Referenced
    from colonnade.values import Cell


TABLE_BATCH_ROWS = 65_536


class QueriedTable(Protocol):
    """What a query reads: a table, or rows made from those of another query."""

    _file: File

    @property
    def info(self) -> TableInfo: ...
    @property
    def path(self) -> str: ...
    @property
    def layout(self) -> str: ...
    @property
    def attrs(self) -> Attributes: ...
    @property
    def _before(self) -> Query | None: ...
    def __getitem__(self, name: str, /) -> StoredColumn: ...
    def _is_stored(self, name: str) -> bool: ...
    def _reader(self, name: str, dictionaries: bool = False) -> ColumnReader: ...
    def _column(self, name: str) -> ColumnInfo: ...
    def _field(self, name: str, dictionaries: bool = False) -> pa.Field: ...
    def _search_indexes(self) -> Sequence[OpenIndex]: ...
    def _left_to_library(self) -> tuple[LibraryRead, ...]: ...
    def _numbers_of(self, rows: Rows) -> RowNumbers: ...


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
        from colonnade.predicate.parse import parse_with_positions, showing_position
        from colonnade.predicate.tree import Predicate

        if not isinstance(predicate, (str, Predicate)):
            raise UsageError(f"where takes a predicate, such as col('x') > 3 or 'x > 3', not {predicate!r}")
        parsed, positions = parse_with_positions(predicate) if isinstance(predicate, str) else (predicate, None)
        with showing_position(predicate if isinstance(predicate, str) else "", positions):
            with self._file._steady():
                query = self._query()
                if query._limit is None:
                    return query._narrowed(parsed)
            query = query._settled()
            with self._file._steady():
                return query._narrowed(parsed)

    def select(self, *columns: str | Sequence[str], **computed: Expression | Predicate | str) -> Query:
        """The given columns, in the given order, then columns that are computed from others, by their new names.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.select("energy", "ts").columns
        ['energy', 'ts']
        >>> t.select("ts", power=cn.col("energy") / cn.col("ts"), twice="energy * 2")[1:].to_numpy()
        {'ts': array([2, 3]), 'power': array([3.5, 2. ]), 'twice': array([14., 12.])}
        """
        names: list[object] = [
            name for item in columns for name in (item if isinstance(item, (list, tuple)) else [item])
        ]
        with self._file._steady():
            query = self._query()
            fields: dict[str, Term] = {}
            for name in names:
                if not isinstance(name, str):
                    raise UsageError(
                        f"columns are chosen by name, not by {_shown(name)}; rows with [10:20] or .take([...]); what "
                        f"is computed gets a name, as in select(speed=col('dx') / col('dt'))"
                    )
                fields |= query._checked_column(name)
            terms = {name: query._defined(name, value) for name, value in computed.items()}
        chosen = (*dict.fromkeys([*map(str, names), *terms]),) if terms else tuple(map(str, names))
        return query._with(chosen, computed={**query._computed, **fields, **terms})

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

    def sort_by(self, *by: ColumnRequest | tuple[ColumnRequest, str]) -> Query:
        """The rows in the order of columns or expressions, or of pairs such as ("energy", "descending").

        NaN follows the numbers and missing rows come last, in both directions. Rows with equal keys stay in their
        order. Categories are sorted by their values, strings by their UTF-8 bytes. `head(n)` of the result keeps only
        n rows in memory, and reads little if a sorted_rows index knows the order.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.sort_by(("energy", "descending")).row_numbers()
        array([1, 2, 0])
        """
        from colonnade.query.requested import text_of
        from colonnade.sorting.keys import sort_keys
        from colonnade.table.sorted_query import SortedQuery

        query = self._query()
        expressions: dict[str, Expression] = {}
        named = [
            (text_of(key[0], expressions), *key[1:]) if isinstance(key, tuple) and key else text_of(key, expressions)
            for key in by
        ]
        with self._file._steady():
            keys = tuple(replace(key, term=query._term_of(key.column, expressions)) for key in sort_keys(named))
        if query._limit is not None:
            query = query._settled()
        if isinstance(query, SortedQuery):  # equal keys stay in their order, which is that of the earlier keys
            again = {(key.column, key.term) for key in keys}
            earlier = (key for key in query._keys if (key.column, key.term) not in again)
            keys, query = (*keys, *earlier), query._unsorted
        ordered = SortedQuery(query, keys)
        with self._file._steady():
            ordered._sorting()
        return ordered

    def explode(self, column: str, *, keep_empty: bool = True) -> Query:
        """One row for every element of a list column, which becomes its elements; other columns and row numbers repeat.

        keep_empty: a list that is empty or missing gives one row, in which the element is missing (as in pandas and
        Polars); False leaves it out. The result is a query like any other. Tests of other columns before `explode` may
        use indexes, tests after it do not.

        >>> import pyarrow as pa
        >>> cn.write("run.h5", {"id": [1, 2, 3], "x": pa.array([[5, 6], [], [7]])}, "events", layout="h5col")
        >>> q = cn.open_table("run.h5", "events").explode("x")
        >>> q.to_arrow().to_pydict()
        {'id': [1, 1, 2, 3], 'x': [5, 6, None, 7]}
        >>> q.where("x > 5").row_numbers()
        array([0, 2])
        """
        from colonnade.table.exploded import exploded

        if not isinstance(column, str):
            raise UsageError(f"explode takes the name of a list column, not {column!r}")
        with self._file._steady():
            return exploded(self._query(), column, keep_empty)

    def distinct(self, *columns: ColumnRequest | Sequence[ColumnRequest]) -> pa.Table:
        """The distinct values of a column, or combinations of values of several, in increasing order.

        NaN follows the numbers, a row for missing values comes last.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "label": ["muon", "pion", "muon"]}, "events")
        >>> cn.open_table("run.h5", "events").distinct("label").to_pydict()
        {'label': ['muon', 'pion']}
        """
        by: list[ColumnRequest] = []
        for item in columns:
            by.extend(item if isinstance(item, (list, tuple)) else [item])  # type: ignore[list-item]
        if not by:
            raise UsageError("name the columns whose distinct values are wanted: distinct('label')")
        names = {str(column) for column in by}
        counted = next(f"n{number}" for number in range(len(names) + 1) if f"n{number}" not in names)
        return self.aggregate(by=by, **{counted: "count"}).select(range(len(by)))

    def sample(self, n: int, *, seed: int | None = None) -> Query:
        """`n` rows chosen at random, each at most once, in their order; all rows if there are fewer.

        seed: the same seed gives the same rows. Without a predicate only chunks with chosen rows are read.

        >>> cn.write("run.h5", {"ts": range(100)}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.sample(3, seed=1).count()
        3
        """
        try:
            count = operator.index(n)
        except TypeError:
            raise UsageError(f"sample takes a number of rows, not {n!r}") from None
        if count < 0:
            raise UsageError(f"cannot sample {count} rows: give a number that is not negative")
        try:
            random = np.random.default_rng(seed)
        except (TypeError, ValueError):
            raise UsageError(f"the seed of a sample is an integer that is not negative, not {seed!r}") from None
        query = self._query()._settled()
        known = query._known_rows()
        chosen = random.choice(len(known), min(count, len(known)), replace=False, shuffle=False)
        return query.take(np.sort(chosen))

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
            [name for name in query._table.info.row_labels if name in query._names and name not in query._computed],
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

    @overload
    def to_numpy(self, *, strings: StringsAs = "numpy", matrix: Literal[False] = False) -> dict[str, np.ndarray]: ...
    @overload
    def to_numpy(self, *, strings: StringsAs = "numpy", matrix: Literal[True]) -> np.ndarray: ...
    def to_numpy(self, *, strings: StringsAs = "numpy", matrix: bool = False) -> dict[str, np.ndarray] | np.ndarray:
        """All rows as one NumPy array per column; a masked array where rows are missing.

        strings: "numpy" for NumPy strings (StringDType), "objects" for arrays of Python strings, "bytes" for UTF-8 of
        one length (such as S20), which is the fastest. matrix: one array with a row per row and a column per column
        instead, of their common number type, as scikit-learn takes it; missing numbers are NaN.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.to_numpy()["ts"]
        array([1, 2, 3])
        >>> t.select("energy", "ts").to_numpy(matrix=True).shape
        (3, 2)
        """
        from colonnade.exchange.numpy_out import to_matrix, to_numpy
        from colonnade.query.scan import read_column

        def read() -> dict[str, np.ndarray] | np.ndarray:
            query = self._query()
            rows = query._found_rows()
            readers = query._readers(dictionaries=True)  # each category's string is created only once
            if matrix:
                return to_matrix(((reader.column.name, read_column(reader, rows)) for reader in readers), len(rows))
            return {reader.column.name: to_numpy(read_column(reader, rows), strings) for reader in readers}

        return self._file._consistent(read)

    def to_xarray(self, dims: str | Sequence[str] | None = None) -> xarray.Dataset:
        """All rows as an xarray Dataset with a variable per column; units and descriptions are attributes.

        dims: the column or columns whose values are the coordinates; None: the first label of the table, else a
        dimension "row" without coordinates. With several, rows are put into a grid.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> float(t.to_xarray(dims="ts")["energy"].sel(ts=2))
        7.0
        """
        from colonnade.exchange.labelled_arrays import to_xarray
        from colonnade.exchange.numpy_out import without_mask

        query = self._query()
        if dims is None:
            dims = [label for label in query._table.info.row_labels if label in query._names][:1]
        if not isinstance(dims, Iterable):
            raise UsageError(f"dims must be the name of a column, or a list of such, not {dims!r}", option="dims")
        named = [dims] if isinstance(dims, str) else list(dims)
        columns = {
            name: without_mask(values, name, integers_as_floats=True)
            for name, values in query.to_numpy(strings="objects").items()
        }
        notes = {name: query._notes(name) for name in query._names}
        return to_xarray(columns, notes, named, query.to_pandas)

    def batches(self, rows: int = TABLE_BATCH_ROWS, *, dictionaries: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow record batches of at most `rows` rows, read as they are requested.

        dictionaries: strings stored as categories become Arrow dictionaries.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> [batch.num_rows for batch in t.batches(rows=2)]
        [2, 1]
        """
        from colonnade.query.scan import read_parts

        if not hasattr(rows, "__index__") or rows < 1:
            raise UsageError(f"a batch must have at least one row, not {rows!r}")

        def start() -> Iterator[pa.RecordBatch]:
            query = self._query()
            return read_parts(query._readers(dictionaries), query._row_parts(rows), query._schema(dictionaries))

        return self._file._unchanged(start)

    @overload
    def aggregate(
        self,
        by_column: Mapping[str, FunctionRequest] | None = None,
        /,
        *,
        by: None = None,
        **named: AggregateRequest,
    ) -> dict[str, Cell]: ...
    @overload
    def aggregate(
        self,
        by_column: Mapping[str, FunctionRequest] | None = None,
        /,
        *,
        by: ColumnRequest | Sequence[ColumnRequest],
        **named: AggregateRequest,
    ) -> pa.Table: ...
    def aggregate(
        self,
        by_column: Mapping[str, FunctionRequest] | None = None,
        /,
        *,
        by: ColumnRequest | Sequence[ColumnRequest] | None = None,
        **named: AggregateRequest,
    ) -> dict[str, Cell] | pa.Table:
        """Counts, sums, means, quantiles and other aggregates of columns, without loading a whole column.

        `t.aggregate(n="count", top=("energy", "max"))` returns the dict `{"n": ..., "top": ...}`: each name stands for
        the number of rows, "count", or for a function of a column. `t.aggregate({"energy": ["min", "mean"]})` chooses
        the names: "energy_min", "energy_mean". Functions: count (values that are not missing), min, max, sum, mean,
        std, var, median, quantile, count_distinct, first, last, any, all. A third item is the quantile, `("energy",
        "quantile", 0.9)`, or what std and var subtract from the count: `("energy", "std", 0)`, where 1 is the default.

        by: a column or an expression, or several. The result is then a pyarrow.Table: these columns, then the requested
        values, one row per group, in increasing order, NaN after the numbers and missing last.

        A column may also be an expression: `top=(col("dx") / col("dt"), "max")`, or in text `{"dx / dt": "max"}`.

        Missing values are skipped. Aggregates over no values return None; counts return 0. A NaN makes sums, means, std
        and var NaN; min, max and quantiles skip it. Sums of integers are exact: Python integers in a dict; in a table
        int64, or uint64 for unsigned columns, with a DataError where that is too small. Quantiles are exact, and
        interpolate linearly between two values. Means and quantiles of times are rounded down to the column's unit.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "label": ["muon", "pion", "muon"]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.aggregate(n="count", last=("ts", "max"))
        {'n': 3, 'last': 3}
        >>> t.aggregate(by="label", n="count").to_pydict()
        {'label': ['muon', 'pion'], 'n': [2, 1]}
        >>> t.aggregate({"ts": ["median", ("quantile", 0.9)], "label": "count_distinct"})
        {'ts_median': 2.0, 'ts_quantile_0.9': 2.8, 'label_count_distinct': 2}
        """
        from colonnade.query.aggregate import Aggregation, group_names, wanted_values
        from colonnade.query.requested import texts_of, texts_of_requests
        from colonnade.query.stats import FromIndexes

        expressions: dict[str, Expression] = {}
        wanted = wanted_values(by_column, texts_of_requests(named, expressions))
        groups = group_names(texts_of(by, expressions))

        def read() -> dict[str, Cell] | pa.Table:
            query = self._query()
            table = query._table
            names = [*groups, *(aggregate.column for aggregate in wanted if aggregate.column is not None)]
            asked = Aggregation(wanted, groups, {name: query._aggregated(name, expressions) for name in names})
            rows = query._known_rows() if query._predicate is None else query._search()
            wants_indexes = bool(asked.known_to_some_index(rows))
            indexes = FromIndexes(table._search_indexes(), table._file._trust) if wants_indexes else None
            return asked.result(rows, indexes)

        return self._file._consistent(read)

    def __iter__(self) -> Iterator[dict[str, Cell]]:
        """The rows as dicts of Python values, read a batch at a time as they are requested."""
        query = self._query()
        for batch in query.batches(rows_in(limits.now.iterated_bytes, [*map(query._column, query._names)])):
            for first in range(0, batch.num_rows, limits.now.iterated_rows):
                yield from _python_rows(batch.slice(first, limits.now.iterated_rows), self._file)

    def __contains__(self, name: object) -> bool:
        """Whether there is a column of this name."""
        query = self._query()
        return name in query._names

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._query()._names)

    def describe(self, columns: Sequence[str] | None = None) -> Description:
        """Statistics of columns (all, if none are given), as pandas' `describe` has them: count, mean, std, quartiles.

        Quartiles are exact; std divides by the count less 1. NaN is a value, as in `aggregate`. Columns are read a few
        at a time, and never held whole in memory.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.where("ts > 1").describe(["energy"])
        2 rows
                count  missing  mean       std  min   25%  50%   75%  max
        energy      2        0   6.5  0.707107    6  6.25  6.5  6.75    7
        """

        from colonnade.table.describing import described

        return self._file._consistent(lambda: described(self._query(), columns))

    def histogram(
        self,
        column: ColumnRequest,
        bins: SupportsIndex | Sequence[object] = 10,
        *,
        range: tuple[object, object] | None = None,  # noqa: A002 - as NumPy and pandas name it
        by: ColumnRequest | Sequence[ColumnRequest] | None = None,
    ) -> Histogram:
        """How many rows have values in each of `bins` bins of one width, from the least to the greatest value.

        bins: their number, or their edges. range: the outer edges instead of the least and the greatest value. Of
        strings, booleans and categories, the `bins` most frequent values are counted. by: columns to group by. The last
        bin includes its upper edge; missing values, NaN and what is outside the range are only counted.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.histogram("energy", [0, 1, 10]).bins.to_pydict()
        {'start': [0.0, 1.0], 'stop': [1.0, 10.0], 'count': [1, 2]}
        """
        from colonnade.table.describing import histogram_of

        return self._file._consistent(lambda: histogram_of(self._query(), column, bins, range, by))

    def write(
        self,
        target: Target,
        table: str | None = None,
        *,
        mode: WriteMode | Literal["append"] = "error",
        progress: Progress | None = None,
        title: str | None = None,
        description: str | None = None,
        units_vocabulary: str | None = None,
        columns: Mapping[str, ColumnOptions | Mapping[str, object]] | None = None,
        labels: Sequence[str] | Mapping[str, object] | None = None,
        index: Mapping[str, str | Sequence[str]] | None = None,
        layout: str = "hep001",
        version: str | tuple[int, int] | None = None,
        directory: bool = False,
        anndata: bool | Literal["0.7"] = False,
        allow_reserved: bool = False,
        references: ReferenceForm = "object",
        **unknown: Never,
    ) -> None:
        """Write the rows to another file, batch by batch: as a table of an HDF5 file, or as a file of rows.

        The parameters are those of `colonnade.write`. What is not specified is taken from the table that is read: its
        path, title and description, labels, units, descriptions, fills, categories and attributes. A target that ends
        in .csv, .tsv, .jsonl, .arrow, .arrows or .parquet becomes a file of that format, without the options of HDF5
        files; mode="replace" replaces it.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.where("energy > 5").write("high.h5")
        >>> cn.read("high.h5", "events").to_pydict()
        {'ts': [2, 3], 'energy': [7.0, 6.0]}
        >>> t.write("run.parquet")
        """
        from colonnade.edit.create import TableOptions, refuse_unknown
        from colonnade.table.exporting import write_query

        refuse_unknown(unknown, "write", ReadableRows.write)
        options = TableOptions(
            title=title, description=description, units_vocabulary=units_vocabulary, columns=columns, labels=labels,
            index=index, layout=layout, version=version, directory=directory, anndata=anndata,
            allow_reserved=allow_reserved, references=references,
        )  # fmt: skip
        write_query(self._query(), target, table, mode, options, progress)

    def dataset(self, *, sql: bool = False, dictionaries: bool = False) -> pyarrow.dataset.Dataset:
        """The rows as a pyarrow dataset: what scans it reads only the columns and chunks that it needs.

        sql: filters mean what SQL means by them (NaN equals itself and is greater than all numbers), as DataFusion
        expects. dictionaries: strings stored as categories become Arrow dictionaries.

        >>> import pyarrow.compute as pc
        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.dataset().to_table(columns=["ts"], filter=pc.field("energy") > 5).to_pydict()
        {'ts': [2, 3]}
        """
        from colonnade.engines.dataset import TableDataset

        n_fragments = self._file._n_threads if sql else 1  # DataFusion reads one fragment per thread
        return TableDataset(self._query(), sql=sql, dictionaries=dictionaries, n_fragments=n_fragments)

    def duckdb(self, con: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The rows as a relation of DuckDB, whose columns and filters reach the file. con: None for the default
        connection.

        >>> import duckdb
        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> events = cn.open_table("run.h5", "events").duckdb()
        >>> duckdb.sql("select count(*), max(ts) from events where energy > 5").fetchall()
        [(2, 3)]
        """
        from colonnade.engines.duckdb import relation

        return relation(self._query(), con)

    def lazy(self) -> polars.LazyFrame:
        """The rows as a Polars LazyFrame, whose columns, filters and limits reach the file.

        >>> import polars as pl
        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> events = cn.open_table("run.h5", "events").lazy()
        >>> events.filter(pl.col("energy") > 5).select("ts").collect().to_dict(as_series=False)
        {'ts': [2, 3]}
        """
        from colonnade.engines.polars import lazy_frame

        return lazy_frame(self._query())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        query = self._query()
        query._warn_of_size()
        reader = pa.RecordBatchReader.from_batches(query.schema, query.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._query().schema.__arrow_c_schema__()

    def _repr_html_(self) -> str:
        from colonnade.table.show import table_html

        query = self._query()
        members = tuple(query._column(name) for name in query._names)
        shown = query.select(list(query._names[:30])).head(5).to_arrow()
        return table_html(query._table.info, members, query._n_rows_text(shown.num_rows), shown)


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
        table: QueriedTable,
        names: tuple[str, ...],
        rows: Rows | None = None,
        predicate: Predicate | None = None,
        limit: int | None = None,
        computed: Mapping[str, Term] | None = None,
    ) -> None:
        self._table = table
        self._file = table._file
        self._names = names
        self._rows = rows
        self._predicate = predicate
        self._limit = limit
        self._computed: Mapping[str, Term] = computed or {}  # by name, from columns of the table
        self._bound: tuple[int, Bound, dict[str, ColumnReader]] | None = None

    def _with(
        self,
        names: tuple[str, ...] | None = None,
        rows: Rows | None = None,
        limit: int | None = None,
        computed: Mapping[str, Term] | None = None,
    ) -> Query:
        """This query with other columns, rows or another limit."""
        query = Query(
            self._table,
            self._names if names is None else names,
            self._rows if rows is None else rows,
            self._predicate,
            self._limit if limit is None else limit,
            self._computed if computed is None else computed,
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
        fields = [self._field(name, dictionaries) for name in self._names]
        stored = [name for name in self._names if name not in self._computed]
        labels = [label.name for label in info.labels if label.name in stored] if info.labels else []
        notes = {name: note for name in stored if (note := info.by_name[name].pandas) is not None}
        return pa.schema(fields, arrow_metadata(fields, notes, labels, info.pandas))

    def _notes(self, name: str) -> dict[str, str]:
        """The units and the description of a column, where it has them."""
        column = self._column(name)
        notes = {"units": column.units, "description": column.description}
        return {key: text for key, text in notes.items() if text}

    def _warn_of_size(self) -> None:
        """Warn once per file that a large table is about to be read whole, and name what reads only a part of it."""
        if self._predicate is not None or self._file._has_warned_of_size:
            return
        n_rows = len(self._known_rows())
        if n_rows * sum(self._column(name).type.size for name in self._names) > limits.now.unasked_bytes:
            self._file._has_warned_of_size = True
            warnings.warn(
                f"all {n_rows:,} rows of {self._table.path} are read through the Arrow stream. Query engines read only "
                "what they need of .duckdb() (SQL), .lazy() (Polars) or .dataset() (pyarrow); .to_arrow() reads all "
                "rows without this warning",
                stacklevel=3,
            )

    def _with_views(self, rows: pa.Table, dictionaries: bool) -> pa.Table:
        """The table with its string columns as views."""
        from colonnade.columns.strings import VIEW, as_views

        columns, fields = rows.columns, list(rows.schema)
        for position, name in enumerate(self._names):
            if pa.types.is_string(self._field(name, dictionaries).type):
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

    def _n_rows_text(self, n_shown: int) -> str:
        """The number of rows, where it is known without a search; `n_shown` rows were found."""
        from colonnade.table.show import rows_text

        if self._predicate is None:
            return rows_text(len(self._known_rows()))
        return f"rows where {self._predicate}" if n_shown else f"no rows where {self._predicate}"

    def row_numbers(self) -> Int64s:
        """The numbers of the rows in the table, in the order of the query.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t.where("energy > 5").row_numbers()
        array([1, 2])
        """
        table = self._table
        return np.array(table._file._consistent(lambda: table._numbers_of(self._found_rows())), dtype=np.int64)

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
        return self._plan(self._readers)

    def _plan(self, readers: Callable[[], Sequence[ColumnReader]]) -> Plan:
        """How the rows are found, and what these readers read of them."""
        if self._table._before is not None:
            return self._exploded_plan(self._table._before)
        plan = self._table._file._consistent(lambda: self._search().plan(readers()))
        left = self._table._left_to_library()
        return replace(plan, left_to_library=left) if left else plan

    def _exploded_plan(self, before: Query) -> Plan:
        """How the rows before they are exploded are found, and what is done with their elements."""
        from colonnade.predicate.expressions import columns_in, term_of

        tested = () if self._predicate is None else self._predicate.leaves()
        names = [*self._names, *(column.name for leaf in tested for column in columns_in(term_of(leaf.column)))]
        plan = before.select([name for name in dict.fromkeys(names) if name in before._names]).explain()
        rows = f"{self._table.info.n_rows:,} rows of elements"
        what = rows if self._predicate is None else f"{rows}, where {self._predicate}"
        return replace(plan, exploded=what if plan.exploded is None else f"{plan.exploded}, then {what}")

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
        return _python_rows(self.take([number]).to_arrow(), self._file)[0]

    def _slice(self, item: slice) -> Query:
        first = item.start in (None, 0) and item.step in (None, 1) and isinstance(item.stop, int) and item.stop >= 0
        if self._predicate is not None and first:
            return self._with(limit=item.stop if self._limit is None else min(self._limit, item.stop))
        settled = self._settled()
        return settled._with(rows=settled._known_rows()[item])

    def _narrowed(self, predicate: Predicate) -> Query:
        """The rows for which this predicate is also true; a predicate that does not suit the columns is refused
        here."""
        from colonnade.predicate.tree import Contains, with_definitions, with_leaves

        added = with_definitions(predicate, self._computed) if self._computed else predicate
        if any(isinstance(leaf, Contains) for leaf in added.leaves()):
            added = with_leaves(added, self._of_lists)
        whole = added if self._predicate is None else self._predicate & added
        narrowed = Query(self._table, self._names, self._rows, whole, self._limit, self._computed)
        narrowed._tree()
        return narrowed

    def _of_lists(self, leaf: Leaf) -> Leaf:
        """A leaf as it is, or what it means of a list column."""
        from colonnade.errors import PredicateError
        from colonnade.predicate.tree import Contains

        if not isinstance(leaf, Contains):
            return leaf
        from colonnade.columns.arrow_types import is_list_type

        try:
            if not is_list_type(self._subject_reader(leaf.column).kind):
                return leaf
            test = leaf.of_elements
            self._subject_reader(test.column)
        except PredicateError as error:
            error.part = leaf if isinstance(leaf.column, str) else error.part
            raise
        return test

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
        rows = self._table._file._consistent(self._found_rows)
        return Query(self._table, self._names, rows, computed=self._computed)

    def _tree(self) -> tuple[Bound, dict[str, ColumnReader]]:
        """The predicate bound to the columns of the current file, and the readers of what it tests."""
        from colonnade.query.bind import bind

        table, generation = self._table, self._table._file._handle.generation
        assert self._predicate is not None  # checked by the caller
        if self._bound is None or self._bound[0] != generation or table._file._handle.writable:
            by_subject = self._tested(self._predicate)
            readers = {reader.column.name: reader for reader in by_subject.values()}
            self._bound = table._file._handle.generation, bind(self._predicate, by_subject), readers
        return self._bound[1:]

    def _tested(self, predicate: Predicate) -> dict[Subject, ColumnReader]:
        """The readers of what the leaves of a predicate test."""
        from colonnade.errors import PredicateError
        from colonnade.query.bind import TOO_DEEP

        readers: dict[Subject, ColumnReader] = {}
        try:
            for leaf in predicate.leaves():
                try:
                    readers[leaf.column] = readers.get(leaf.column) or self._subject_reader(leaf.column)
                except PredicateError as error:
                    error.part = leaf if isinstance(leaf.column, str) else _part_inside(leaf, error.part)
                    raise
        except RecursionError:
            raise PredicateError(TOO_DEEP) from None
        return readers

    def _search(self) -> Search:
        """The search for the rows that match, in the current file."""
        from colonnade.query.search import Search

        table = self._table
        tree, readers = (None, {}) if self._predicate is None else self._tree()
        indexes = table._search_indexes() if tree is not None else []
        return Search(tree, self._known_rows(), self._limit, indexes, table._file._trust, readers, self._predicate)

    def _found_rows(self) -> Rows:
        return self._known_rows() if self._predicate is None else self._search().rows()

    def _selection(self) -> Selection:
        """The rows of this query, whatever their order."""
        selection: Selection = self._table._file._consistent(lambda: self._search().selection())
        return selection

    def _row_parts(self, most: int) -> Iterator[Rows]:
        """The rows in parts of at most `most` rows, found as they are requested."""
        if self._predicate is not None:
            return self._search().parts(most)
        rows = self._known_rows()
        return (rows[first : first + most] for first in range(0, len(rows), most))

    def _readers(self, dictionaries: bool = False) -> list[ColumnReader]:
        return [self._reader(name, dictionaries) for name in self._names]

    # -- columns of the table, and computed ones --

    def _reader(self, name: str, dictionaries: bool = False) -> ColumnReader:
        term = self._computed.get(name)
        return self._table._reader(name, dictionaries) if term is None else self._subject_reader(term, name)

    def _subject_reader(self, subject: Subject, name: str | None = None) -> ColumnReader:
        """The reader of a column of the table, or of an expression; `name` is that of the computed column."""
        table, known = self._table, self._table.info.by_name
        if isinstance(subject, str) and subject in known:
            return table._reader(subject)
        from colonnade.lists.element_tests import elements_reader
        from colonnade.predicate.expressions import term_of
        from colonnade.query.computed import computed_reader, stored_columns_of

        if name is None:
            name = str(subject)
            while name in known:
                name = f"({name})"
        term = term_of(subject)
        stored = stored_columns_of(term, known, f"table {table.path}")
        readers = {column: table._reader(column) for column, _ in stored.values()}
        return computed_reader(term, name, stored, readers, elements_reader)

    def _column(self, name: str) -> ColumnInfo:
        return self._reader(name).column if name in self._computed else self._table._column(name)

    def _field(self, name: str, dictionaries: bool = False) -> pa.Field:
        if name not in self._computed:
            return self._table._field(name, dictionaries)
        return pa.field(shown_name(name), self._reader(name).kind)

    def _checked_column(self, name: str) -> dict[str, Term]:
        """Refuse a name that is not a column; the field of a struct column, such as "pos.x", is computed."""
        from colonnade.predicate.expressions import ColumnTerm

        if name in self._computed:
            return {}
        if name in self._table.info.by_name or "." not in name:
            self._table._column(name)
            return {}
        self._subject_reader(name)
        return {name: ColumnTerm(name)}

    def _defined(self, name: str, value: object) -> Term:
        """What a computed column is computed from: columns of the table, whose types are checked."""
        from colonnade.predicate.columns import Expression
        from colonnade.predicate.parse import expression_with_positions, showing_position
        from colonnade.predicate.tree import Predicate, TruthTerm, with_leaves

        parsed, positions = expression_with_positions(value) if isinstance(value, str) else (value, None)
        if isinstance(parsed, Predicate):
            parsed = Expression(TruthTerm(parsed))
        if not isinstance(parsed, Expression):
            raise UsageError(
                f"column {name!r} is computed from an expression, such as col('x') * 2 or 'x > 2', not from {value!r}",
                column=name,
            )
        with showing_position(value if isinstance(value, str) else "", positions):
            term = parsed.term.with_definitions(self._computed)
            if isinstance(term, TruthTerm):
                self._tested(with_leaves(term.predicate, self._of_lists))  # its errors name the test
            self._subject_reader(term, name)
        return term

    def _aggregated(self, name: str, expressions: Mapping[str, Expression]) -> ColumnReader:
        """The reader of what is aggregated: a column, or an expression in Python form or in text."""
        term = self._term_of(name, expressions)
        return self._table._reader(name) if term is None else self._subject_reader(term, name)

    def _term_of(self, name: str, expressions: Mapping[str, Expression]) -> Term | None:
        """What computes a column, or an expression in Python form or in text; None for a stored column."""
        from colonnade.errors import ColumnNotFound, PredicateError
        from colonnade.predicate.columns import ColumnName

        is_column = name in self._computed or name in self._table.info.by_name
        if name in expressions and not (is_column and isinstance(expressions[name], ColumnName)):
            return self._defined(name, expressions[name])
        if is_column:
            return self._computed.get(name)
        try:
            return self._defined(name, name)
        except PredicateError as error:
            if error.position == 0 or name.isidentifier():
                raise ColumnNotFound(name, f"table {self._table.path}", self._table.info.by_name) from error
            raise

    def __repr__(self) -> str:
        from colonnade.table.show import table_text

        members = tuple(self._column(name) for name in self._names)
        if self._predicate is None:
            return table_text(self._table.info, members, len(self._known_rows()), "Query on")
        limit = "" if self._limit is None else f", the first {self._limit:,}"
        lead = f"Query on rows where {self._predicate}{limit}, of"
        return table_text(self._table.info, members, len(self._known_rows()), lead)

    def __reduce__(self) -> tuple[object, ...]:
        return Query, (self._table, self._names, self._rows, self._predicate, self._limit, self._computed)


def _part_inside(leaf: Leaf, part: object) -> object:
    """What an error is about, where a leaf tests the elements of lists: the leaf inside it that names this part."""
    from colonnade.predicate.expressions import term_of
    from colonnade.predicate.tree import ElementsTerm

    if not isinstance(leaf.column, ElementsTerm) or part is leaf:
        return part
    inside = leaf.column.predicate.leaves()
    named = (tested for tested in inside if tested is part or term_of(tested.column) == part)
    return next(named, leaf if part is None else part)


def _shown(item: object) -> str:
    """What was given instead of a name, as it is written."""
    from colonnade.predicate.columns import Expression
    from colonnade.predicate.tree import Predicate

    return str(item) if isinstance(item, (Expression, Predicate)) else repr(item)


def rows_in(n_bytes: int, columns: Sequence[ColumnInfo]) -> int:
    """The number of rows to process together: those that take `n_bytes` in these columns, within limits."""
    row_bytes = sum(column.type.size for column in columns)
    return max(1, min(TABLE_BATCH_ROWS, n_bytes // max(row_bytes, 1)))


def _python_rows(rows: pa.Table | pa.RecordBatch, file: File) -> list[dict[str, Cell]]:
    """Rows as dicts of Python values, with references that can be followed."""
    from colonnade.columns.arrow_types import holds_references, python_values

    if not rows.num_columns:
        return [{} for _ in range(rows.num_rows)]
    if any(holds_references(kind) for kind in rows.schema.types):  # few tables have such columns
        from colonnade.table.references import python_cells

        columns = [python_cells(column, file) for column in rows.columns]
    else:
        columns = [python_values(column) for column in rows.columns]
    names = rows.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
