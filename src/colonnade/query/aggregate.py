"""Counts, sums, means, minima and maxima of columns, over all rows or per group, without loading a whole column.

In: what is wanted, the rows (all, some, or those that a search finds), columns. Out: a dict of values, or a table with
one row per group. Each thread reads and aggregates one window of rows; the totals are merged in order. Memory: a few
windows, and the totals of the groups.

| function | of | gives |
| --- | --- | --- |
| count | rows, or values of any column | int64 |
| min, max | whatever has an order | the column's type; NaN only where all values are NaN |
| sum | integers, booleans, decimals, durations | exact: int64, or uint64 for unsigned integers; decimal; duration |
| sum | floats | float64; NaN if any value is NaN |
| mean | integers, booleans, decimals, floats | float64; NaN if any value is NaN |

Missing values are skipped. Aggregates over no values are missing; counts are 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import limits
from colonnade.columns.arrow_types import python_values
from colonnade.columns.keys import ByteKeys, Keys, NumberKeys, join, keys_to_decimals
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass
from colonnade.errors import DataError, UsageError
from colonnade.indexes.known import Known
from colonnade.model import shown_name
from colonnade.query.bind import Readers
from colonnade.query.groups import groups_of, same_groups
from colonnade.query.plan import may_miss
from colonnade.query.scan import Rows
from colonnade.query.search import Search
from colonnade.query.totals import Counts, Needs, Totals, merge_totals, totals_of
from colonnade.query.window import Window, windows_of
from colonnade.threads import in_order

FUNCTIONS = ("count", "min", "max", "sum", "mean")


@dataclass(frozen=True)
class Wanted:
    """One requested value: its name, the function, and its column (None: rows are counted)."""

    name: str
    function: str
    column: str | None


def wanted_values(by_column: Mapping[str, str | Sequence[str]] | None, named: Mapping[str, object]) -> list[Wanted]:
    """The requested values: `{"x": "mean"}` gives "x_mean"; `top=("x", "max")` gives "top", and so does
    `top="count"`."""
    wanted = []
    if by_column is not None and not isinstance(by_column, Mapping):
        raise UsageError(f"aggregate takes {{'column': 'function'}} or name=('column', 'function'), not {by_column!r}")
    for column, functions in (by_column or {}).items():
        several = functions if isinstance(functions, (list, tuple)) else [functions]
        known = [_known_function(function) for function in several]
        wanted += [Wanted(f"{column}_{function}", function, column) for function in known]
    for name, item in named.items():
        if item == "count":
            wanted.append(Wanted(name, "count", None))
        elif isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str):
            wanted.append(Wanted(name, _known_function(item[1]), item[0]))
        else:
            raise UsageError(f"{name} must be ('column', 'function') or 'count', not {item!r}")
    return wanted


def _known_function(function: object) -> str:
    if function not in FUNCTIONS:
        raise UsageError(f"there is no function {function!r}; there are {', '.join(FUNCTIONS)}", function=str(function))
    return str(function)


def group_names(by: str | Sequence[str] | None) -> list[str]:
    """The names of the columns to group by."""
    names = list(by) if isinstance(by, (list, tuple)) else [] if by is None else [by]
    if by is not None and (not names or not all(isinstance(name, str) for name in names)):
        raise UsageError(f"by must be the name of a column, or a list of such, not {by!r}")
    return [str(name) for name in names]


@dataclass(frozen=True)
class _Part:
    """What is known about some rows: for each group its key in each column, its row count, and the totals of each
    column."""

    keys: list[Keys]
    rows: Counts
    totals: list[Totals]

    def __len__(self) -> int:
        return len(self.rows)


def _merge(parts: Sequence[_Part], ranks: Mapping[int, Keys] | None = None) -> _Part:
    """Merge equal groups, in increasing order of their keys; `ranks`: keys to order columns by instead."""
    keys = [join([part.keys[i] for part in parts]) for i in range(len(parts[0].keys))]
    ordered = [(ranks or {}).get(i, one) for i, one in enumerate(keys)]
    ids, places = same_groups(ordered, sum(map(len, parts)))
    rows = np.zeros(len(places), np.int64)
    np.add.at(rows, ids, np.concatenate([part.rows for part in parts]))
    totals = [[part.totals[i] for part in parts] for i in range(len(parts[0].totals))]
    return _Part([one.take(places) for one in keys], rows, [merge_totals(one, ids, len(places)) for one in totals])


class Aggregation:
    """Computes the requested values of a table's columns, over all rows or per group."""

    def __init__(self, wanted: Sequence[Wanted], by: Sequence[str], readers: Readers) -> None:
        self._wanted = wanted
        self._by = [readers[name] for name in by]
        self._readers: dict[str, ColumnReader] = {}
        self._needs: dict[str, Needs] = {}
        _check_names(wanted, by)
        for reader in self._by:
            if reader.domain is None:
                raise _unsuited("by", reader, "its values cannot be compared")
        for one in wanted:
            if one.column is not None:
                self._need(readers[one.column], one.function)

    def _need(self, reader: ColumnReader, function: str) -> None:
        reader = reader.by_value() if function in ("min", "max") else self._readers.get(reader.column.name, reader)
        why = _refusal(reader, function)
        if why is not None:
            raise _unsuited(function, reader, why)
        name = reader.column.name
        if function == "count" and not may_miss(reader.column):
            return  # no row can be missing: the count is the number of rows
        before = self._needs.get(name, Needs(False, False))
        self._readers[name] = reader
        self._needs[name] = Needs(before.sums or function in ("sum", "mean"), before.ends or function in ("min", "max"))

    def known_to_some_index(self, rows: Rows | Search) -> list[ColumnReader]:
        """The columns whose totals over these rows an index may know: over all rows of the table, without a sum."""
        if self._by or not isinstance(rows, range):
            return []
        return [
            reader
            for name, reader in self._readers.items()
            if rows == range(reader.column.n_rows) and not self._needs[name].sums and reader.domain is not None
        ]

    def result(self, rows: Rows | Search, from_indexes: Mapping[str, Known]) -> dict[str, object] | pa.Table:
        """The requested values over these rows. from_indexes: what is known about whole columns without reading."""
        if self._by:
            part, names = self._sorted(self._read(rows, list(self._readers))), list(self._readers)
            return self._table(part, dict(zip(names, part.totals, strict=True)))
        known = {name: _totals_of_known(self._readers[name], found) for name, found in from_indexes.items()}
        names = [name for name in self._readers if name not in known]
        if names:
            part = self._read(rows, names)
        else:
            part = _Part([], np.array([rows.count() if isinstance(rows, Search) else len(rows)], np.int64), [])
        return self._dict(part.rows, {**known, **dict(zip(names, part.totals, strict=True))})

    # -- totals --

    def _read(self, rows: Rows | Search, names: Sequence[str]) -> _Part:
        """The totals of these columns, read window by window."""
        readers = [*self._by, *(self._readers[name] for name in names)]
        if not isinstance(rows, Search):
            for reader in readers:
                reader.check_written(len(rows))
        windows: Iterator[Rows] = (
            rows.windows() if isinstance(rows, Search) else windows_of(rows, [reader.column for reader in readers])
        )

        def work(rows: Rows) -> _Part:
            return self._window(Window.of(rows), names)

        parts: list[_Part] = []
        n_waiting = 0
        for part in in_order(work, windows, max(reader.n_threads for reader in readers)):
            parts.append(part)
            n_waiting += len(part)
            if len(parts) > 2 and n_waiting > 2 * len(parts[0]) + limits.now.waiting_groups:
                parts = [_merge(parts)]
                n_waiting = len(parts[0])
        return _merge(parts or [work(range(0))])

    def _window(self, window: Window, names: Sequence[str]) -> _Part:
        groups = groups_of(self._by, window) if self._by else None
        totals = [totals_of(self._readers[name], window, self._needs[name], groups) for name in names]
        if groups is None:
            return _Part([], np.array([len(window)], np.int64), totals)
        full = (one.n_values for one in totals if one.n_values.sum() == len(window))
        rows = next(full, None)
        if rows is None:
            rows = np.bincount(groups.codes, minlength=groups.n)
        used = np.flatnonzero(rows)
        return _Part([keys.take(used) for keys in groups.keys], rows[used], [one.take(used) for one in totals])

    def _sorted(self, part: _Part) -> _Part:
        """The groups in increasing order of their values; the input is ordered by keys."""
        ranks = {
            place: _label_ranks(reader.values(keys))
            for place, (reader, keys) in enumerate(zip(self._by, part.keys, strict=True))
            if reader.is_coded and not (pa.types.is_dictionary(reader.kind) and reader.kind.ordered)
        }
        return _merge([part], ranks) if ranks else part

    # -- results --

    def _table(self, part: _Part, totals: Mapping[str, Totals]) -> pa.Table:
        arrays = [reader.values(keys) for reader, keys in zip(self._by, part.keys, strict=True)]
        arrays += [self._array(one, part.rows, totals) for one in self._wanted]
        names = [shown_name(reader.column.name) for reader in self._by] + [one.name for one in self._wanted]
        return pa.Table.from_arrays(arrays, names=names)

    def _dict(self, rows: Counts, totals: Mapping[str, Totals]) -> dict[str, object]:
        found = {}
        for one in self._wanted:
            values = self._values(one, rows, totals)
            found[one.name] = python_values(values)[0] if isinstance(values, pa.Array) else values[0]
        return found

    def _array(self, one: Wanted, rows: Counts, totals: Mapping[str, Totals]) -> pa.Array:
        values = self._values(one, rows, totals)
        if isinstance(values, pa.Array):
            return values
        assert one.column is not None  # rows are counted in an array
        kind = _sum_type(self._readers[one.column].kind)
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, OverflowError) as error:
            raise _too_large(one, kind) from error

    def _values(self, one: Wanted, rows: Counts, totals: Mapping[str, Totals]) -> pa.Array | list[object]:
        """The requested value for each group. Exact sums are Python values: the sum type of the table may be too small
        for them."""
        if one.column is None or one.column not in totals:
            return pa.array(rows)
        reader, found = self._readers[one.column], totals[one.column]
        if one.function == "count":
            return pa.array(found.n_values)
        if one.function in ("min", "max"):
            return _end(reader, found, one.function)
        none = found.n_values == 0
        if pa.types.is_floating(reader.kind):
            sums = found.float_sums()
            divided = sums / np.maximum(found.n_values, 1) if one.function == "mean" else sums
            return pa.array(divided, mask=none)
        if one.function == "mean":
            return pa.array(_means(reader, found), pa.float64(), mask=none)
        return _exact_sums(one, reader, found)


def _check_names(wanted: Sequence[Wanted], by: Sequence[str]) -> None:
    names = [*by, *(one.name for one in wanted)]
    if not names:
        raise UsageError("name what is wanted: aggregate(n='count', top=('x', 'max')), or aggregate({'x': 'mean'})")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two columns of the result would be called {twice!r}")


def _unsuited(function: str, reader: ColumnReader, why: str) -> UsageError:
    name, kind = reader.column.name, str(reader.kind)
    message = f"{function} does not suit column {name!r}, which is {kind}: {why}"
    return UsageError(message, column=name, type=kind, function=function)


def _refusal(reader: ColumnReader, function: str) -> str | None:
    """Why a function cannot be applied to a column; None when it can."""
    kind = reader.kind
    if function == "count" or pa.types.is_null(kind):
        return None
    if function in ("min", "max"):
        if pa.types.is_dictionary(kind) and not kind.ordered:
            return "its categories have no order"
        return None if reader.domain is not None else "its values have no order"
    if pa.types.is_duration(kind):
        return None if function == "sum" else "only numbers have a mean"
    suits = pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal
    return None if reader.domain is not None and any(suit(kind) for suit in suits) else "only numbers can be added"


def _totals_of_known(reader: ColumnReader, known: Known) -> Totals:
    """What an index knows about a column, as the totals of one group."""
    n_values = reader.column.n_rows - known.n_missing - known.n_nan
    counts, nans = np.array([n_values], np.int64), np.array([known.n_nan], np.int64)
    if known.ends is not None:
        return Totals(counts, nans, None, known.ends.take(np.array([0])), known.ends.take(np.array([1])))
    numbers = NumberKeys(np.zeros(1), np.array([True]))
    nothing: Keys = numbers if reader.has_numbers else ByteKeys(pa.nulls(1, pa.binary()))
    return Totals(counts, nans, None, nothing, nothing)


def _label_ranks(values: pa.Array) -> Keys:
    """The order of values that are stored as categories, as numbers; equal values have equal numbers."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    if pa.types.is_floating(plain.type):  # Arrow numbers by bits: 0.0 and -0.0 apart, and NaN with other bits
        plain = pc.add(plain.cast(pa.float64()), 0.0)  # -0.0 becomes 0.0
        plain = pc.if_else(pc.is_nan(plain), math.nan, plain)
    coded = plain.dictionary_encode()
    ranks = np.zeros(len(coded.dictionary), np.int64)
    ranks[pc.array_sort_indices(coded.dictionary).to_numpy()] = np.arange(len(ranks))
    found = np.zeros(len(values), np.int64)
    found[~missing] = ranks[coded.indices.drop_null().to_numpy()]
    return NumberKeys(found, missing)


def _end(reader: ColumnReader, found: Totals, function: str) -> pa.Array:
    """The least or the greatest values; NaN for a group whose values are all NaN."""
    keys = found.least if function == "min" else found.greatest
    assert keys is not None  # asked for
    only_nan = (found.counts == 0) & (found.nans > 0)
    if isinstance(keys, NumberKeys) and only_nan.any():
        keys = NumberKeys(np.where(only_nan, np.nan, keys.values), keys.missing & ~only_nan)
    return reader.values(keys)


def _means(reader: ColumnReader, found: Totals) -> np.ndarray:
    """Exact sums divided by the counts, rounded once."""
    scale = reader.kind.scale if pa.types.is_decimal(reader.kind) else 0
    up, down = 10 ** max(-scale, 0), 10 ** max(scale, 0)
    pairs = zip(found.whole_sums(), found.n_values.tolist(), strict=True)
    return np.array([total * up / (max(count, 1) * down) for total, count in pairs], dtype=np.float64)


def _exact_sums(one: Wanted, reader: ColumnReader, found: Totals) -> pa.Array | list[object]:
    """Sums of integers, booleans, decimals and durations; None for a group without values."""
    kind, sums = reader.kind, found.whole_sums()
    values: list[object] = list(keys_to_decimals(sums, kind.scale)) if pa.types.is_decimal(kind) else list(sums)
    values = [value if count else None for value, count in zip(values, found.n_values.tolist(), strict=True)]
    if not pa.types.is_duration(kind):
        return values
    try:
        return pa.array(values, pa.int64()).view(kind)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise _too_large(one, kind) from error


def _sum_type(kind: pa.DataType) -> pa.DataType:
    """The type of exact sums in a table."""
    if pa.types.is_decimal(kind):
        return pa.decimal256(76, kind.scale) if kind.bit_width > 128 else pa.decimal128(38, kind.scale)
    return pa.uint64() if pa.types.is_unsigned_integer(kind) or pa.types.is_boolean(kind) else pa.int64()


def _too_large(one: Wanted, kind: pa.DataType) -> DataError:
    return DataError(f"the sum of a group is larger than {kind} can hold", column=one.column)
