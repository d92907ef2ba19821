"""A table or query as a `pyarrow.dataset.Dataset`: engines scan it with the columns and filters that they need.

Every method of the three base classes is defined here: one that is inherited would use a C++ object that does not
exist, and crash the process. `tests/rooms/test_engine_dataset.py` compares the classes with pyarrow's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

import pyarrow as pa
import pyarrow.dataset as ds

from colonnade import compute as pc
from colonnade import limits
from colonnade.engines.arrow_filter import ArrowFilter, as_expression
from colonnade.engines.source import EngineSource, chosen_rows, empty_batch
from colonnade.errors import ColumnNotFound, UsageError
from colonnade.selection import Selection

ScanColumns = Sequence[str] | Mapping[str, pc.Expression] | None
FilterExpression = pc.Expression | pa.Scalar | None


class Scan:
    """Rows and columns that are to be read: the rows that a filter keeps."""

    def __init__(
        self, source: EngineSource, schema: pa.Schema, columns: Sequence[str] | None, filter: FilterExpression,  # noqa: A002
        rows: int, *, sql: bool, dictionaries: bool,
    ) -> None:  # fmt: skip
        self.schema = schema
        self._source, self._rows, self._dictionaries, self._names = source, rows, dictionaries, source.columns
        self.columns = schema.names if columns is None else list(columns)
        for name in () if columns is None else set(self.columns) - set(schema.names):
            raise ColumnNotFound(str(name), "the dataset", schema.names)
        self.projected = pa.schema([schema.field(name) for name in self.columns], schema.metadata)
        self._filter = None if filter is None else ArrowFilter(filter, schema, source.columns, sql=sql)

    def _matching(self) -> EngineSource | None:
        return chosen_rows(self._source, True if self._filter is None else self._filter.superset.rows)

    def _is_exact(self) -> bool:
        return self._filter is None or self._filter.superset.exact

    def count(self) -> int:
        """The number of rows; from indexes where they know it."""
        if not self._is_exact():
            return sum(batch.num_rows for batch in self.batches())
        matching = self._matching()
        return 0 if matching is None else matching.count()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, read as they are requested; batches without rows are left out."""
        matching = self._matching()
        if matching is None:
            return
        if self._is_exact() and not self.columns:
            yield empty_batch(matching.count())
            return
        batches = (
            self._read(matching, self.columns, self._dictionaries) if self._is_exact() else self._filtered(matching)
        )
        for batch in batches:
            if batch.num_rows:
                yield batch

    def _filtered(self, matching: EngineSource) -> Iterator[pa.RecordBatch]:
        """The rows that pyarrow's own filter keeps too. It has no `like` for dictionaries, so strings are read."""
        assert self._filter is not None  # it is not exact
        tested = self._filter.columns
        names = [*self.columns, *(name for name in self.schema.names if name in tested and name not in self.columns)]
        for batch in self._read(matching, names, dictionaries=False):
            remaining = self._filter.applied(batch)
            yield self._projected(remaining) if self.columns else empty_batch(remaining.num_rows)

    def _read(self, matching: EngineSource, names: Sequence[str], dictionaries: bool) -> Iterator[pa.RecordBatch]:
        stored = [self._names[self.schema.get_field_index(name)] for name in names]
        return matching.select(stored).batches(self._rows, dictionaries=dictionaries)

    def _projected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The requested columns, with dictionaries where the schema has them."""
        columns = []
        for field in self.projected:
            column = batch.column(field.name)
            if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
                coded = column.dictionary_encode()
                codes = coded.indices.cast(field.type.index_type)
                column = pa.DictionaryArray.from_arrays(codes, coded.dictionary, ordered=field.type.ordered)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self.projected)

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a reader."""
        return pa.RecordBatchReader.from_batches(self.projected, self.batches())

    def head(self, n_rows: int) -> pa.Table:
        """The first rows."""
        parts, left = [], max(n_rows, 0)
        for batch in self.batches() if left else ():
            parts.append(batch.slice(0, left))
            left -= parts[-1].num_rows
            if not left:
                break
        return pa.Table.from_batches(parts, schema=self.projected)


def _refuse(*_arguments: object, **_options: object) -> NoReturn:
    raise UsageError("a dataset of colonnade cannot do this. Read it with to_table() first")


class TableScanner(ds.Scanner):
    """One scan of a TableDataset."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the result."""
        return self._scan.projected

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return self._scan.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as batches, read as they are requested."""
        return self._scan.batches()

    def scan_batches(self) -> Iterator[object]:
        """Refused: batches with the fragments they come from."""
        _refuse()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a reader."""
        return self._scan.reader()

    def to_table(self) -> pa.Table:
        """All rows."""
        return self._scan.reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """The first rows."""
        return self._scan.head(num_rows)

    def take(self, indices: object) -> pa.Table:
        """The rows with these numbers, counted in the result."""
        return self.to_table().take(pa.array(indices))

    def count_rows(self) -> int:
        """The number of rows; from indexes where they know it."""
        return self._scan.count()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a scanner cannot be pickled: pickle the dataset")

    from_batches = from_dataset = from_fragment = staticmethod(_refuse)


class Scannable:
    """What datasets and fragments have in common: every method is a scan."""

    def _scan(
        self, columns: Sequence[str] | None = None, filter: FilterExpression = None, batch_size: int | None = None,  # noqa: A002
    ) -> Scan:  # fmt: skip
        raise NotImplementedError

    def scanner(
        self, columns: ScanColumns = None, filter: FilterExpression = None, batch_size: int | None = None,  # noqa: A002
        **_hints: object,
    ) -> ds.Scanner:  # fmt: skip
        """A scan. columns: names, or expressions by name, which pyarrow computes after reading."""
        if not isinstance(columns, Mapping):
            return TableScanner(self._scan(columns, filter, batch_size))
        return ds.dataset(self._scan(None, filter, batch_size).reader().read_all()).scanner(columns=dict(columns))

    def to_batches(
        self, columns: ScanColumns = None, filter: FilterExpression = None, batch_size: int | None = None,  # noqa: A002
        **_hints: object,
    ) -> Iterator[pa.RecordBatch]:  # fmt: skip
        """The rows as batches, read as they are requested."""
        return self.scanner(columns, filter, batch_size).to_batches()

    def to_table(
        self, columns: ScanColumns = None, filter: FilterExpression = None, batch_size: int | None = None,  # noqa: A002
        **_hints: object,
    ) -> pa.Table:  # fmt: skip
        """All rows."""
        return self.scanner(columns, filter, batch_size).to_table()

    def head(
        self, num_rows: int, columns: ScanColumns = None, filter: FilterExpression = None,  # noqa: A002
        batch_size: int | None = None, **_hints: object,
    ) -> pa.Table:  # fmt: skip
        """The first rows."""
        return self.scanner(columns, filter, batch_size).head(num_rows)

    def take(
        self, indices: object, columns: ScanColumns = None, filter: FilterExpression = None,  # noqa: A002
        batch_size: int | None = None, **_hints: object,
    ) -> pa.Table:  # fmt: skip
        """The rows with these numbers, counted in the result."""
        return self.scanner(columns, filter, batch_size).take(indices)

    def count_rows(self, filter: FilterExpression = None, **_hints: object) -> int:  # noqa: A002
        """The number of rows; from indexes where they know it."""
        return self._scan([], filter).count()


class RowsFragment(Scannable, ds.Fragment):
    """Some neighbouring rows of a TableDataset; None: all."""

    def __init__(self, dataset: TableDataset, rows: range | None) -> None:
        self._dataset, self._part = dataset, rows

    def _scan(
        self, columns: Sequence[str] | None = None, filter: FilterExpression = None, batch_size: int | None = None,  # noqa: A002
    ) -> Scan:  # fmt: skip
        return self._dataset.scan_of(self._part, columns, filter, batch_size)

    def scanner(  # type: ignore[override] # fragments of pyarrow take a schema first
        self, schema: object = None, columns: ScanColumns = None, filter: FilterExpression = None,  # noqa: A002
        batch_size: int | None = None, **_hints: object,
    ) -> ds.Scanner:  # fmt: skip
        """A scan. columns: names, or expressions by name, which pyarrow computes after reading."""
        return super().scanner(columns, filter, batch_size)

    def to_batches(  # type: ignore[override]
        self, schema: object = None, columns: ScanColumns = None, filter: FilterExpression = None,  # noqa: A002
        batch_size: int | None = None, **_hints: object,
    ) -> Iterator[pa.RecordBatch]:  # fmt: skip
        """The rows as batches, read as they are requested."""
        return super().scanner(columns, filter, batch_size).to_batches()

    def to_table(  # type: ignore[override]
        self, schema: object = None, columns: ScanColumns = None, filter: FilterExpression = None,  # noqa: A002
        batch_size: int | None = None, **_hints: object,
    ) -> pa.Table:  # fmt: skip
        """All rows."""
        return super().scanner(columns, filter, batch_size).to_table()

    def head(
        self, num_rows: int, columns: ScanColumns = None, filter: FilterExpression = None,  # noqa: A002
        batch_size: int | None = None, **_hints: object,
    ) -> pa.Table:  # fmt: skip
        """The first rows."""
        return super().scanner(columns, filter, batch_size).head(num_rows)

    def take(
        self, indices: object, columns: ScanColumns = None, filter: FilterExpression = None,  # noqa: A002
        batch_size: int | None = None, **_hints: object,
    ) -> pa.Table:  # fmt: skip
        """The rows with these numbers, counted in the result."""
        return super().scanner(columns, filter, batch_size).take(indices)

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return self._dataset.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """True: nothing is known of all rows."""
        return pc.scalar(True)

    def __reduce__(self) -> tuple[object, ...]:
        return RowsFragment, (self._dataset, self._part)

    def __repr__(self) -> str:
        return f"<RowsFragment {'all rows' if self._part is None else self._part}>"


class TableDataset(Scannable, ds.Dataset):
    """A table or a query as an Arrow dataset.

    sql: filters mean what SQL means by them, though they come as expressions of pyarrow. dictionaries: strings stored
    as categories are Arrow dictionaries. n_fragments: parts, for engines that read one part per thread.
    """

    def __init__(
        self, source: EngineSource, *, sql: bool = False, dictionaries: bool = False, n_fragments: int = 1,
        filter: pc.Expression | None = None,  # noqa: A002
    ) -> None:  # fmt: skip
        self._source, self._filter = source, filter
        self._sql, self._dictionaries, self._n_fragments = sql, dictionaries, n_fragments
        self._schema = source._schema(dictionaries)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    def scan_of(
        self, rows: range | None, columns: Sequence[str] | None, filter: FilterExpression,  # noqa: A002
        batch_size: int | None,
    ) -> Scan:  # fmt: skip
        """The scan of some rows; None: all."""
        source = self._source if rows is None else self._source._slice(slice(rows.start, rows.stop))
        most = min(batch_size or limits.now.scan_rows, limits.now.scan_rows)
        condition = _both(self._filter, filter)
        return Scan(source, self._schema, columns, condition, most, sql=self._sql, dictionaries=self._dictionaries)

    def _scan(
        self, columns: Sequence[str] | None = None, filter: FilterExpression = None, batch_size: int | None = None,  # noqa: A002
    ) -> Scan:  # fmt: skip
        return self.scan_of(None, columns, filter, batch_size)

    def get_fragments(self, filter: FilterExpression = None) -> Iterator[RowsFragment]:  # noqa: A002
        """The parts that may hold rows that the filter keeps. Engines give the filter to each part again."""
        if self._n_fragments <= 1:
            yield RowsFragment(self, None)
            return
        condition, may = _both(self._filter, filter), None
        if condition is not None:
            superset = ArrowFilter(condition, self._schema, self._source.columns, sql=self._sql).superset
            matching = chosen_rows(self._source, superset.rows)
            if matching is None:
                return
            may = None if superset.rows is True else matching.explain().found.may  # asked once, for all parts
            if may is not None and may.count <= 2 * limits.now.scan_rows:
                yield RowsFragment(self, None)
                return
        n_rows = self._source.count()
        share = -(-n_rows // self._n_fragments)
        step = max(limits.now.fragment_rows, -(-share // limits.now.fragment_rows) * limits.now.fragment_rows)
        for start in range(0, n_rows, step):
            stop = min(start + step, n_rows)
            if may is None or may & Selection.of(start, stop):
                yield RowsFragment(self, range(start, stop))

    def _get_fragments(self, filter: FilterExpression = None) -> Iterator[RowsFragment]:  # noqa: A002
        return self.get_fragments(filter)

    def filter(self, expression: pc.Expression) -> TableDataset:
        """The dataset with one more filter."""
        return TableDataset(
            self._source, sql=self._sql, dictionaries=self._dictionaries, n_fragments=self._n_fragments,
            filter=_both(self._filter, expression),
        )  # fmt: skip

    @property
    def partition_expression(self) -> pc.Expression:
        """True: nothing is known of all rows."""
        return pc.scalar(True)

    def sort_by(self, sorting: str | list[tuple[str, str]], **_hints: object) -> ds.Dataset:
        """The rows in another order, in memory."""
        return ds.dataset(self.to_table().sort_by(sorting))

    def join(self, right_dataset: object, *arguments: object, **options: object) -> ds.Dataset:
        """The rows joined with those of another dataset, in memory."""
        return _in_memory(self).join(_in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: object, *arguments: object, **options: object) -> ds.Dataset:
        """The rows joined with the nearest ones of another dataset, in memory."""
        return _in_memory(self).join_asof(_in_memory(right_dataset), *arguments, **options)

    replace_schema = _scan_options = _scanner_options = staticmethod(_refuse)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._scan().reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __reduce__(self) -> tuple[object, ...]:
        options = (self._sql, self._dictionaries, self._n_fragments, self._filter)
        return _unpickled, (self._source, *options)

    def __repr__(self) -> str:
        return f"<TableDataset {', '.join(self._schema.names)}>"


def _unpickled(
    source: EngineSource,
    sql: bool,
    dictionaries: bool,
    n_fragments: int,
    filter: pc.Expression | None,  # noqa: A002
) -> TableDataset:
    return TableDataset(source, sql=sql, dictionaries=dictionaries, n_fragments=n_fragments, filter=filter)


def _in_memory(rows: object) -> ds.Dataset:
    if isinstance(rows, ds.Dataset) and not isinstance(rows, TableDataset):
        return rows
    return ds.dataset(rows.to_table() if isinstance(rows, TableDataset) else rows)


def _both(left: FilterExpression, right: FilterExpression) -> pc.Expression | None:
    """Both filters."""
    filters = [as_expression(given) for given in (left, right) if given is not None]
    return None if not filters else filters[0] if len(filters) == 1 else filters[0] & filters[1]
