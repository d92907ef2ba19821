"""Aggregates of columns, over all rows or per group, without loading a whole column.

In: what is wanted, the rows (all, some, or those that a search finds), columns. Out: a dict of values, or a table with
one row per group. Each thread reads and aggregates one window of rows; the totals are merged in order. Memory: a few
windows, and the totals of the groups; for medians, quantiles and distinct values also what `limits` allows.

| function | of | gives |
| --- | --- | --- |
| count | rows, or values of any column | int64 |
| min, max | whatever has an order | the column's type; NaN only where all values are NaN |
| sum | integers, booleans, decimals, durations | exact: int64, or uint64 for unsigned integers; decimal; duration |
| sum | floats | float64; NaN if any value is NaN |
| mean | integers, booleans, decimals, floats | float64; NaN if any value is NaN |
| mean | times, dates, durations | the column's type, rounded down to its unit |
| std, var | integers, booleans, decimals, floats | float64; NaN if any value is NaN or infinite |
| std | durations | the column's type, rounded down |
| median, quantile | integers, decimals, floats | float64; NaN only where all values are NaN |
| median, quantile | times, dates, durations | the column's type, rounded down to its unit |
| count_distinct | whatever can be compared | int64; NaN is one value |
| first, last | any column | the column's type; NaN is a value |
| any, all | booleans | boolean |

Missing values are skipped. Aggregates over no values are missing; counts are 0. std and var divide by the number of
values less `ddof`, 1 by default, and are missing where there are not more values than that. Quantiles interpolate
linearly between the two nearest values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from colonnade.columns.arrow_types import python_values
from colonnade.columns.keys import ByteKeys, Keys, NumberKeys, Numbers, keys_to_decimals
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass
from colonnade.errors import DataError, UsageError
from colonnade.indexes.known import Known
from colonnade.model import shown_name
from colonnade.query.bind import Readers
from colonnade.query.grouped import GroupedRows, GroupPart, merge_parts
from colonnade.query.plan import may_miss
from colonnade.query.quantiles import (
    Ranks,
    can_be_sorted,
    interpolated,
    interpolated_down,
    n_distinct,
    narrowed_ranks,
    ranked,
    ranks_of,
)
from colonnade.query.search import Search
from colonnade.query.stats import FromIndexes
from colonnade.query.totals import Counts, Needs, Totals
from colonnade.query.value_counts import value_counts
from colonnade.selection import Rows

FUNCTIONS = (
    "count", "min", "max", "sum", "mean", "std", "var", "median", "quantile", "count_distinct", "first", "last", "any",
    "all",
)  # fmt: skip
_ENDS = {"min": "min", "max": "max", "any": "max", "all": "min"}
_QUANTILES = ("median", "quantile")
_USUAL_DDOF = 1
AtRanks = dict[str, dict[int, Numbers]]
"""By column and rank, the value at this rank, in an array of one."""


@dataclass(frozen=True)
class Wanted:
    """One requested value: its name, the function, its column (None: rows are counted), and the function's parameter:
    which quantile, or the ddof of std and var."""

    name: str
    function: str
    column: str | None
    parameter: float = 0


def wanted_values(by_column: Mapping[str, object] | None, named: Mapping[str, object]) -> list[Wanted]:
    """The requested values: `{"x": "mean"}` gives "x_mean"; `top=("x", "max")` gives "top", and so does
    `top="count"`. `{"x": ("quantile", 0.9)}` gives "x_quantile_0.9", `p90=("x", "quantile", 0.9)` "p90"."""
    wanted = []
    if by_column is not None and not isinstance(by_column, Mapping):
        raise UsageError(f"aggregate takes {{'column': 'function'}} or name=('column', 'function'), not {by_column!r}")
    for column, functions in (by_column or {}).items():
        several = functions if isinstance(functions, (list, tuple)) and not _has_parameter(functions) else [functions]
        for function in several:
            parts = list(function) if isinstance(function, (list, tuple)) and _has_parameter(function) else [function]
            known, parameter = _known_function(*parts)
            wanted.append(Wanted("_".join(map(str, [column, *parts])), known, column, parameter))
    for name, item in named.items():
        if item == "count":
            wanted.append(Wanted(name, "count", None))
        elif isinstance(item, (tuple, list)) and 2 <= len(item) <= 3 and isinstance(item[0], str):
            function, parameter = _known_function(*item[1:])
            wanted.append(Wanted(name, function, item[0], parameter))
        else:
            raise UsageError(f"{name} must be ('column', 'function') or 'count', not {item!r}")
    return wanted


def _has_parameter(functions: Sequence[object]) -> bool:
    """Whether this is a function and its parameter, not several functions."""
    return len(functions) == 2 and not isinstance(functions[1], (str, tuple, list))


def _known_function(function: object, parameter: object = None) -> tuple[str, float]:
    """A function and its parameter."""
    if function not in FUNCTIONS:
        raise UsageError(f"there is no function {function!r}; there are {', '.join(FUNCTIONS)}", function=str(function))
    name = str(function)
    is_number = isinstance(parameter, (int, float, np.number)) and not isinstance(parameter, bool)
    if name == "quantile":
        if not is_number or not 0 <= parameter <= 1:  # type: ignore[operator]
            raise UsageError(f"quantile takes a number from 0 to 1: ('x', 'quantile', 0.9), not {parameter!r}")
        return name, float(parameter)  # type: ignore[arg-type]
    if name in ("std", "var"):
        ddof = _USUAL_DDOF if parameter is None else parameter
        if not isinstance(ddof, (int, np.integer)) or isinstance(ddof, bool) or ddof < 0:
            raise UsageError(f"the ddof of {name} is an integer that is not negative: ('x', {name!r}, 0), not {ddof!r}")
        return name, int(ddof)
    if parameter is not None:
        raise UsageError(f"{name} takes no parameter, not {parameter!r}; std, var and quantile do", function=name)
    return name, 0.5 if name == "median" else 0


def group_names(by: object) -> list[str]:
    """The names of the columns to group by."""
    names = list(by) if isinstance(by, (list, tuple)) else [] if by is None else [by]
    if by is not None and (not names or not all(isinstance(name, str) for name in names)):
        raise UsageError(f"by must be the name of a column, or a list of such, not {by!r}")
    return [str(name) for name in names]


class Aggregation:
    """Computes the requested values of a table's columns, over all rows or per group."""

    def __init__(self, wanted: Sequence[Wanted], by: Sequence[str], readers: Readers) -> None:
        self._wanted = wanted
        self._by = [readers[name] for name in by]
        self._readers: dict[str, ColumnReader] = {}
        self._needs: dict[str, Needs] = {}
        self._counted: dict[str, ColumnReader] = {}
        _check_names(wanted, by)
        for reader in self._by:
            if reader.domain is None:
                raise _unsuited("by", reader, "its values cannot be compared")
        for one in wanted:
            if one.column is not None:
                self._need(readers[one.column], one.function)

    def _need(self, reader: ColumnReader, function: str) -> None:
        by_value = function in _ENDS
        reader = reader.by_value() if by_value else self._readers.get(reader.column.name, reader)
        why = _refusal(reader, function)
        if why is not None:
            raise _unsuited(function, reader, why)
        name = reader.column.name
        if function == "count_distinct":
            self._counted[name] = reader
            if not can_be_sorted(reader):
                return
            self._readers[name] = reader
        if function == "count" and not may_miss(reader.column):
            return  # no row can be missing: the count is the number of rows
        before = self._needs.get(name, Needs())
        self._readers[name] = reader
        self._needs[name] = Needs(
            sums=before.sums or function in ("sum", "mean", "std", "var"),
            ends=before.ends or function in (*_ENDS, *_QUANTILES, "count_distinct"),
            spread=before.spread or function in ("std", "var"),
            places=before.places or function in ("first", "last"),
            values=before.values or function in (*_QUANTILES, "count_distinct"),
        )

    def known_to_some_index(self, rows: Rows | Search) -> list[ColumnReader]:
        """The columns whose totals over these rows an index may know: over all rows of the table, only counts and
        ends."""
        if self._by or not isinstance(rows, range):
            return []
        return [
            reader
            for name, reader in self._readers.items()
            if rows == range(reader.column.n_rows)
            and self._needs[name] in (Needs(), Needs(ends=True), Needs(ends=True, values=True))
            and reader.domain is not None
        ]

    def result(self, rows: Rows | Search, indexes: FromIndexes | None) -> dict[str, object] | pa.Table:
        """The requested values over these rows. indexes: those of the table, if they are needed."""
        grouped = GroupedRows(self._by, rows)
        known, at_ranks = self._known(rows, indexes)
        readers = {name: reader for name, reader in self._readers.items() if name not in known}
        if readers or self._by:
            part = grouped.read(readers, {name: self._needs[name] for name in readers})
        else:
            part = GroupPart([], np.array([rows.count() if isinstance(rows, Search) else len(rows)], np.int64), [])
        totals = {**known, **dict(zip(readers, part.totals, strict=True))}
        results = _Found(grouped, part, totals, at_ranks)
        return self._table(results) if self._by else self._dict(results)

    def _known(self, rows: Rows | Search, indexes: FromIndexes | None) -> tuple[dict[str, Totals], AtRanks]:
        """The totals that indexes know, and the values at the ranks of quantiles."""
        known: dict[str, Totals] = {}
        at_ranks: AtRanks = {}
        for reader in self.known_to_some_index(rows) if indexes is not None else ():
            assert indexes is not None
            statistics, name = indexes.known(reader), reader.column.name
            if statistics is None:
                continue
            totals = _totals_of_known(reader, statistics)
            if name in self._counted:
                continue
            if self._needs[name].values:
                quantiles = [one.parameter for one in self._wanted if one.column == name and one.function in _QUANTILES]
                wanted = [ranks_of(q, totals.counts) for q in quantiles if totals.counts[0]]
                numbers = sorted({int(rank[0]) for ranks in wanted for rank in (ranks.low, ranks.high)})
                keys = indexes.at_ranks(reader, numbers)
                if not isinstance(keys, NumberKeys):
                    continue
                at_ranks[name] = dict(zip(numbers, keys.values[:, None], strict=True))
            known[name] = totals
        return known, at_ranks

    # -- results --

    def _table(self, results: _Found) -> pa.Table:
        arrays = [reader.values(keys) for reader, keys in zip(self._by, results.part.keys, strict=True)]
        arrays += [self._array(one, results) for one in self._wanted]
        names = [shown_name(reader.column.name) for reader in self._by] + [one.name for one in self._wanted]
        return pa.Table.from_arrays(arrays, names=names)

    def _dict(self, results: _Found) -> dict[str, object]:
        values = {one.name: self._values(one, results) for one in self._wanted}
        return {name: python_values(v)[0] if isinstance(v, pa.Array) else v[0] for name, v in values.items()}

    def _array(self, one: Wanted, results: _Found) -> pa.Array:
        values = self._values(one, results)
        if isinstance(values, pa.Array):
            return values
        assert one.column is not None  # rows are counted in an array
        kind = _sum_type(self._readers[one.column].kind)
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, OverflowError) as error:
            raise _too_large(one, kind) from error

    def _values(self, one: Wanted, results: _Found) -> pa.Array | list[object]:
        """The requested value for each group. Exact sums are Python values: the sum type of the table may be too small
        for them."""
        if one.function == "count_distinct":
            assert one.column is not None  # only rows are counted without a column
            return pa.array(results.n_distinct(self._counted[one.column]))
        if one.column is None or one.column not in results.totals:
            return pa.array(results.part.rows)
        reader, totals = self._readers[one.column], results.totals[one.column]
        if one.function == "count":
            return pa.array(totals.n_values)
        if one.function in _ENDS:
            return _end(reader, totals, _ENDS[one.function])
        if one.function in ("first", "last"):
            return _at_rows(reader, totals.first if one.function == "first" else totals.last)
        if pa.types.is_null(reader.kind):
            return pa.nulls(len(totals.counts))
        if one.function in ("std", "var"):
            return _deviations(reader, totals, one)
        if one.function in _QUANTILES:
            return _quantiles(reader, totals, results.between_ranks(reader, one.parameter))
        return _sums(one, reader, totals)


class _Found:
    """What was found about some rows: the groups and their totals. What needs rows to be read again is found when it
    is first asked for."""

    def __init__(self, grouped: GroupedRows, part: GroupPart, totals: Mapping[str, Totals], at_ranks: AtRanks) -> None:
        self._grouped = grouped
        self.part = part
        self.totals = totals
        self._at_ranks = at_ranks

    def n_distinct(self, reader: ColumnReader) -> Counts:
        """The number of distinct values in each group; the groups are those of the part."""
        totals = self.totals.get(reader.column.name)
        if totals is not None and totals.gathered is not None:
            return n_distinct(totals.gathered, totals.counts) + (totals.nans > 0)
        n_by = len(self._grouped.by)
        parts = []
        for pairs in value_counts(self._grouped, reader):
            present = np.flatnonzero(~pairs.keys[-1].missing)
            parts.append(
                GroupPart([keys.take(present) for keys in pairs.keys[:n_by]], np.ones(len(present), np.int64), [])
            )
        if not n_by:
            return np.array([sum(map(len, parts))], np.int64)
        empty = GroupPart(self.part.keys, np.zeros(len(self.part), np.int64), [])
        return self._grouped.sorted(merge_parts([empty, *parts])).rows

    def between_ranks(self, reader: ColumnReader, q: float) -> tuple[Numbers, Numbers, Numbers]:
        """For each group, the values below and above a quantile, and how far it lies from the first."""
        totals = self.totals[reader.column.name]
        ranks = ranks_of(q, totals.counts)
        low, high = self._values_at(reader, totals, ranks)
        return low, high, ranks.part

    def _values_at(self, reader: ColumnReader, totals: Totals, ranks: Ranks) -> list[Numbers]:
        wanted = [ranks.low, ranks.high]
        known = self._at_ranks.get(reader.column.name)
        if known is not None:
            return [known.get(int(rank[0]), np.zeros(1)) for rank in wanted]
        if totals.gathered is not None:
            return ranked(totals.gathered, totals.counts, wanted)
        assert isinstance(totals.least, NumberKeys) and isinstance(totals.greatest, NumberKeys)  # of numbers

        def read() -> Iterator[tuple[Numbers, Numbers]]:
            return self._grouped.values_by_group(reader, self.part.keys)

        return narrowed_ranks(read, totals.least.values, totals.greatest.values, totals.counts, wanted)


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
    if function in ("count", "first", "last") or pa.types.is_null(kind):
        return None
    if function == "count_distinct":
        return None if reader.domain is not None else "its values cannot be compared"
    if function in ("any", "all"):
        return None if pa.types.is_boolean(kind) else "only booleans are true or false"
    if function in ("min", "max"):
        if pa.types.is_dictionary(kind) and not kind.ordered:
            return "its categories have no order"
        return None if reader.domain is not None else "its values have no order"
    if reader.domain not in ("integer", "float") or pa.types.is_dictionary(kind):
        return _ONLY_NUMBERS[function]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return None
    if function in ("mean", *_QUANTILES) and pa.types.is_temporal(kind):
        return None
    if pa.types.is_boolean(kind):
        return _ONLY_NUMBERS[function] if function in _QUANTILES else None
    if pa.types.is_duration(kind):
        return None if function in ("sum", "std") else "its unit would be squared"
    return _ONLY_NUMBERS[function]


_ONLY_NUMBERS = {
    "sum": "only numbers can be added",
    "mean": "only numbers and times have a mean",
    "std": "only numbers and durations have a standard deviation",
    "var": "only numbers have a variance",
    "median": "only numbers and times have a median",
    "quantile": "only numbers and times have quantiles",
}


def _totals_of_known(reader: ColumnReader, known: Known) -> Totals:
    """What an index knows about a column, as the totals of one group."""
    n_values = reader.column.n_rows - known.n_missing - known.n_nan
    counts, nans = np.array([n_values], np.int64), np.array([known.n_nan], np.int64)
    if known.ends is not None:
        return Totals(counts, nans, None, known.ends.take(np.array([0])), known.ends.take(np.array([1])))
    numbers = NumberKeys(np.zeros(1), np.array([True]))
    nothing: Keys = numbers if reader.has_numbers else ByteKeys(pa.nulls(1, pa.binary()))
    return Totals(counts, nans, None, nothing, nothing)


def _end(reader: ColumnReader, found: Totals, function: str) -> pa.Array:
    """The least or the greatest values; NaN for a group whose values are all NaN."""
    keys = found.least if function == "min" else found.greatest
    assert keys is not None  # asked for
    only_nan = (found.counts == 0) & (found.nans > 0)
    if isinstance(keys, NumberKeys) and only_nan.any():
        keys = NumberKeys(np.where(only_nan, np.nan, keys.values), keys.missing & ~only_nan)
    return reader.values(keys)


def _at_rows(reader: ColumnReader, rows: Counts | None) -> pa.Array:
    """The values at these positions and rows; missing where they are negative."""
    assert rows is not None  # asked for
    rows = rows[:, 1]
    wanted, places = np.unique(rows[rows >= 0], return_inverse=True)
    positions = np.zeros(len(rows), np.int64)
    positions[rows >= 0] = places
    return reader.take(wanted).take(pa.array(positions, mask=rows < 0))


def _sums(one: Wanted, reader: ColumnReader, found: Totals) -> pa.Array | list[object]:
    """Sums and means."""
    none, kind = found.n_values == 0, reader.kind
    if pa.types.is_floating(kind):
        sums = found.float_sums()
        divided = sums / np.maximum(found.n_values, 1) if one.function == "mean" else sums
        return pa.array(divided, mask=none)
    if one.function == "sum":
        return _exact_sums(one, reader, found)
    if not _is_time(kind):
        return pa.array(_means(reader, found), pa.float64(), mask=none)
    pairs = zip(found.whole_sums(), found.n_values.tolist(), strict=True)
    means = np.array([total // max(count, 1) for total, count in pairs], dtype=object)
    return _as_times(reader, means, none)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind))


def _as_times(reader: ColumnReader, numbers: Numbers, none: Numbers) -> pa.Array:
    """Numbers in the unit of the column as its values."""
    whole = np.array([0 if no else int(number) for number, no in zip(numbers, none, strict=True)], np.int64)
    return reader.values(NumberKeys(whole, none))


def _deviations(reader: ColumnReader, found: Totals, one: Wanted) -> pa.Array:
    """Variances, or their square roots."""
    assert found.spread is not None  # asked for
    ddof, kind = int(one.parameter), reader.kind
    none = found.n_values <= ddof
    values = found.spread.variances(ddof)
    values = np.where(found.nans > 0, np.nan, values if one.function == "var" else np.sqrt(values))
    if pa.types.is_floating(kind):  # finite, and too far apart for a float64
        values = np.where(np.isnan(values) & np.isfinite(found.float_sums()), np.inf, values)
    if pa.types.is_decimal(kind):
        values = _scaled(values, kind.scale * (2 if one.function == "var" else 1))
    if _is_time(kind):
        return _as_times(reader, np.floor(np.where(none, 0, values)), none)
    return pa.array(values, mask=none)


def _scaled(values: Numbers, digits: int) -> Numbers:
    """Unscaled decimals with this number of digits after the point, as floats."""
    return np.asarray(values / 10.0**digits if digits > 0 else values * 10.0**-digits)


def _quantiles(reader: ColumnReader, found: Totals, between: tuple[Numbers, Numbers, Numbers]) -> pa.Array:
    """Values between two ranks; NaN for a group whose values are all NaN."""
    low, high, part = between
    none, kind = found.n_values == 0, reader.kind
    if _is_time(kind):
        return _as_times(reader, interpolated_down(low, high, part), none)
    values = interpolated(low, high, part)
    if pa.types.is_decimal(kind):
        values = _scaled(values, kind.scale)
    return pa.array(np.where(found.counts == 0, np.nan, values), mask=none)


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
