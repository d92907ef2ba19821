"""How many rows have values between the edges of bins, or which values are most frequent, by group.

Numbers and times are counted in bins: from the first edge up to but not including the next one, the last bin with its
upper edge, as in NumPy. Values are compared with the edges exactly. Of strings, booleans, categories and other values,
the most frequent ones are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.columns.keys import Keys, NumberKeys, Numbers, join
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass
from colonnade.errors import UsageError
from colonnade.model import shown_name
from colonnade.query.grouped import GroupedRows, GroupPart, merge_parts
from colonnade.query.groups import same_groups
from colonnade.query.totals import Counts, Needs
from colonnade.query.value_counts import value_counts

MOST_BINS = 1 << 20


@dataclass(frozen=True)
class Histogram:
    """How many rows there are in each bin, or with each of the most frequent values.

    bins: a pyarrow.Table with the columns to group by, then "start", "stop" and "count" for numbers and times, or
    "value" and "count". n_outside: rows with a value outside all bins. n_distinct: the number of distinct values, if
    they are counted.

    >>> cn.write("run.h5", {"energy": [0.5, 7.0, 6.0, None], "label": ["muon", "pion", "muon", "tau"]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> histogram = t.histogram("energy", 2, range=(0, 10))
    >>> histogram.bins.to_pydict(), histogram.n_missing
    ({'start': [0.0, 5.0], 'stop': [5.0, 10.0], 'count': [1, 2]}, 1)
    >>> t.histogram("label", 2).bins.to_pydict()
    {'value': ['muon', 'pion'], 'count': [2, 1]}
    """

    column: str
    bins: pa.Table
    n_rows: int
    n_missing: int
    n_nan: int
    n_outside: int
    n_distinct: int | None = None


@dataclass(frozen=True)
class Edges:
    """The edges of bins, and the keys that they are compared by: bin i begins at lows[i], the last one ends at top."""

    shown: pa.Array
    lows: Numbers
    top: int | float

    def __len__(self) -> int:
        return len(self.shown) - 1

    def bins_of(self, values: Numbers) -> Numbers:
        """The bin of each value, -1 outside all bins."""
        result = np.searchsorted(self.lows, values, "right") - 1
        top = np.float64(self.top) if values.dtype.kind == "f" else self.top
        return np.where(values <= top, result, -1)


def counts_bins(kind: pa.DataType) -> bool:
    """Whether values of this type are counted in bins, and not each by itself."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_temporal(kind)
    )


# -- edges --


def edges_between(reader: ColumnReader, n_bins: int, low: object, high: object) -> Edges:
    """Bins of the same width between two values of the column."""
    if isinstance(n_bins, bool) or not 1 <= n_bins <= MOST_BINS:
        raise UsageError(f"a histogram has 1 to {MOST_BINS:,} bins, not {n_bins!r}")
    if low is None and high is None:  # of no rows
        low, high = (0, 1) if not pa.types.is_temporal(reader.kind) else _as_times(reader, [0, 1]).to_pylist()
    if pa.types.is_temporal(reader.kind):
        least, greatest = _time_numbers(reader, [low, high])
        if least > greatest:
            raise UsageError(f"the range of a histogram goes from low to high, not from {low!r} to {high!r}")
        greatest = max(greatest, least + 1)
        numbers = sorted({least + (greatest - least) * position // n_bins for position in range(n_bins + 1)})
        return _of_numbers(reader, numbers, _as_times(reader, numbers))
    first, last = _float(low), _float(high)
    if not first <= last or math.isinf(last - first):
        raise UsageError(
            f"the range of a histogram goes from a finite number to one that is not less, not from {low!r} to {high!r}."
            " Give range=(low, high)"
        )
    if first == last:
        first, last = first - 0.5, last + 0.5
    return edges_at(reader, np.linspace(first, last, n_bins + 1).tolist())


def edges_at(reader: ColumnReader, edges: Sequence[object]) -> Edges:
    """Bins between these values."""
    if not 2 <= len(edges) <= MOST_BINS + 1:
        raise UsageError(f"a histogram has 2 to {MOST_BINS + 1:,} edges, not {len(edges):,}")
    if pa.types.is_temporal(reader.kind):
        numbers: list[int] = _time_numbers(reader, edges)
        result = _of_numbers(reader, numbers, _as_times(reader, numbers))
    else:
        floats = [_float(edge) for edge in edges]
        scale = reader.kind.scale if pa.types.is_decimal(reader.kind) else 0
        is_float = pa.types.is_floating(reader.kind)
        shown = pa.array(floats, pa.float64())
        if any(map(math.isnan, floats)) or (not is_float and any(map(math.isinf, floats))):
            raise UsageError("the edges of a histogram must be finite numbers")
        whole = floats if is_float else [_exact_edge(edge, reader.kind) * Fraction(10) ** scale for edge in edges]
        numbers, result = [], _of_numbers(reader, whole, shown)
    given = pc.less(result.shown[:-1], result.shown[1:])
    if pc.min_max(given)["min"].as_py() is False:
        raise UsageError("the edges of a histogram must increase")
    return result


def _of_numbers(reader: ColumnReader, numbers: Sequence[int | float | Fraction], shown: pa.Array) -> Edges:
    *lows, top = numbers
    if pa.types.is_floating(reader.kind):
        return Edges(shown, np.array(lows, np.float64), float(top))
    return Edges(shown, np.array([math.ceil(low) for low in lows], dtype=object), math.floor(top))


def _exact_edge(edge: object, kind: pa.DataType) -> Fraction:
    """An edge as it was given; that of decimals as it is written, so that 0.1 is a tenth."""
    if isinstance(edge, (int, Fraction, Decimal)):
        return Fraction(edge)
    return Fraction(repr(_float(edge))) if pa.types.is_decimal(kind) else Fraction(_float(edge))


def _float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"an edge of a histogram of numbers is a number, not {value!r}") from None


def _time_numbers(reader: ColumnReader, values: Sequence[object]) -> list[int]:
    """Times as the integers that the column counts."""
    try:
        array = pa.array(values, reader.kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        array = pa.nulls(1)
    if array.null_count:
        raise UsageError(f"an edge of a histogram of {reader.kind} is such a value, not {values!r}")
    numbers: list[int] = array.view(pa.int32() if reader.kind.bit_width == 32 else pa.int64()).to_pylist()
    return [number // 86_400_000 for number in numbers] if pa.types.is_date64(reader.kind) else numbers


def _as_times(reader: ColumnReader, numbers: Sequence[int]) -> pa.Array:
    return reader.values(NumberKeys(np.array(numbers, np.int64), np.zeros(len(numbers), bool)))


def _in_dtype(edges: Edges, dtype: np.dtype) -> Edges:
    """These edges as keys of a type: bins above its greatest value are left out."""
    if dtype == np.object_ or edges.lows.dtype != np.object_:
        return edges
    bounds = np.iinfo(dtype)
    lows = [max(low, int(bounds.min)) for low in edges.lows if low <= bounds.max]
    return Edges(edges.shown, np.array(lows, dtype), min(max(edges.top, int(bounds.min) - 1), int(bounds.max)))


# -- counting --


def binned(rows: GroupedRows, reader: ColumnReader, edges: Edges) -> Histogram:
    """The rows of a column of numbers or times in each bin."""
    n_bins, needs = len(edges), {"": Needs(ends=True, values=True)}
    keys: list[Keys] | None = None
    counts = np.zeros((0, n_bins), np.int64)
    n_rows = n_values = n_nan = 0
    for part in rows.parts({"": reader}, needs):
        totals = part.totals[0]
        assert totals.gathered is not None  # it is needed
        values, codes = totals.gathered.whole()
        bins = _in_dtype(edges, values.dtype).bins_of(values)
        if codes is not None:
            bins = np.where(bins < 0, -1, codes.astype(np.int64) * n_bins + bins)
        result = np.bincount(bins[bins >= 0], minlength=len(part) * n_bins).reshape(-1, n_bins)
        counts = np.concatenate([counts, result])
        keys = part.keys if keys is None else [join([item, new]) for item, new in zip(keys, part.keys, strict=True)]
        keys, counts = _merged(rows, keys, counts)
        n_rows, n_nan = n_rows + int(part.rows.sum()), n_nan + int(totals.nans.sum())
        n_values += len(values)
    n_groups = len(counts)
    columns = [reader.values(item) for reader, item in zip(rows.by, keys or [], strict=True)] if n_groups else []
    repeated = [column.take(pa.array(np.repeat(np.arange(n_groups), n_bins))) for column in columns]
    arrays = [*(repeated or [reader.values(_none(reader)) for reader in rows.by])]
    if not rows.by and not n_groups:
        counts, n_groups = np.zeros((1, n_bins), np.int64), 1
    bins_repeated = pa.array(np.tile(np.arange(n_bins), n_groups))
    arrays += [edges.shown[:-1].take(bins_repeated), edges.shown[1:].take(bins_repeated), pa.array(counts.reshape(-1))]
    bins_table = pa.Table.from_arrays(arrays, names=[*_names(rows), "start", "stop", "count"])
    n_outside = n_values - int(counts.sum())
    return Histogram(reader.column.name, bins_table, n_rows, n_rows - n_values - n_nan, n_nan, n_outside)


def _none(reader: ColumnReader) -> Keys:
    return reader.keys(0, 0)


def _names(rows: GroupedRows) -> list[str]:
    return [shown_name(reader.column.name) for reader in rows.by]


def _merged(rows: GroupedRows, keys: list[Keys], counts: Numbers) -> tuple[list[Keys], Numbers]:
    """The counts of equal groups added, in the order of their values."""
    if not keys:
        return keys, counts.sum(axis=0, keepdims=True)
    ids, firsts = same_groups(rows.sort_keys(keys), len(counts))
    added = np.zeros((len(firsts), counts.shape[1]), np.int64)
    np.add.at(added, ids, counts)
    return [item.take(firsts) for item in keys], added


def most_frequent(rows: GroupedRows, reader: ColumnReader, n_values: int) -> Histogram:
    """The most frequent values; of those that are equally frequent, the lesser ones."""
    if isinstance(n_values, bool) or not 1 <= n_values <= MOST_BINS:
        raise UsageError(f"a histogram has 1 to {MOST_BINS:,} values, not {n_values!r}")
    frequent_parts: list[GroupPart] = []
    n_rows = n_present = n_nan = n_distinct = 0
    for part in value_counts(rows, reader):
        n_rows += int(part.rows.sum())
        n_nan += int(part.rows[part.keys[-1].nan].sum())
        present = np.flatnonzero(~part.keys[-1].missing)
        pairs = GroupPart([item.take(present) for item in part.keys], part.rows[present], [])
        n_present += int(pairs.rows.sum())
        frequent, n_known = _frequent(reader, pairs, n_values)
        n_distinct += n_known
        frequent_parts.append(frequent)
    arrays = [item.values(_none(item)) for item in (*rows.by, reader)]
    counts: Counts = np.zeros(0, np.int64)
    if frequent_parts:
        whole = GroupedRows([*rows.by, reader], rows.rows).sorted(merge_parts(frequent_parts))
        result, _ = _frequent(reader, whole, n_values)
        order = _order(rows, reader, result)
        arrays = [item.values(key.take(order)) for item, key in zip((*rows.by, reader), result.keys, strict=True)]
        counts = result.rows[order]
    names = [*_names(rows), "value", "count"]
    table = pa.Table.from_arrays([*arrays, pa.array(counts)], names=names)
    outside = n_present - int(counts.sum())
    return Histogram(reader.column.name, table, n_rows, n_rows - n_present, n_nan, outside, n_distinct)


def _value_totals(reader: ColumnReader, pairs: GroupPart) -> tuple[Numbers, Counts]:
    """For each pair the number of its value, in increasing order, and the rows of each value."""
    ids, firsts = same_groups(GroupedRows([reader], range(0)).sort_keys([pairs.keys[-1]]), len(pairs))
    totals = np.zeros(len(firsts), np.int64)
    np.add.at(totals, ids, pairs.rows)
    return ids, totals


def _frequent(reader: ColumnReader, pairs: GroupPart, most: int) -> tuple[GroupPart, int]:
    """The pairs of the most frequent values, and how many values there are."""
    ids, totals = _value_totals(reader, pairs)
    chosen = np.zeros(len(totals), bool)
    chosen[np.argsort(-totals, kind="stable")[:most]] = True
    frequent = np.flatnonzero(chosen[ids])
    return GroupPart([item.take(frequent) for item in pairs.keys], pairs.rows[frequent], []), len(totals)


def _order(rows: GroupedRows, reader: ColumnReader, pairs: GroupPart) -> Numbers:
    """The pairs by group, then by the number of rows of the value among all groups, the most frequent first."""
    ids, totals = _value_totals(reader, pairs)
    n_by = len(rows.by)
    groups = same_groups(rows.sort_keys(pairs.keys[:n_by]), len(pairs))[0] if n_by else np.zeros(len(pairs), np.int64)
    return np.lexsort((ids, -totals[ids], groups))
