"""Statistics of a column: how many values are missing or NaN, the least and the greatest, how many are distinct.

In: a column and its search indexes. Out: a `ColumnStats`, from a trusted index where one knows it; otherwise the column
is read once, a window at a time. Memory: the keys of one window, and the distinct values up to a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.columns.keys import ByteKeys, Keys, NumberKeys, join, keys_of
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError
from colonnade.indexes.base import ChangedError, Index
from colonnade.indexes.bitmap import BitmapIndex
from colonnade.indexes.chunk_minmax import MinMaxIndex
from colonnade.indexes.sorted_rows import SortedRowsIndex
from colonnade.layouts.index_home import OpenIndex
from colonnade.model import ColumnInfo
from colonnade.pager.receipts import Trust
from colonnade.predicate.bound import Among, BoundLeaf, Missing, NotANumber
from colonnade.query.match import window_rows

MOST_DISTINCT = 100_000
MOST_BYTES = 64 << 20  # of distinct values held in memory
Seen = Callable[[int], None]
"""Called with a number of rows, after they have been read."""


@dataclass(frozen=True)
class Distinct:
    """How many distinct values there are; NaN is one value."""

    count: int
    how: Literal["exactly", "more than", "at most"]


@dataclass(frozen=True)
class ColumnStats:
    """Statistics of the values of a column.

    n_nan: None for a type without NaN. least, greatest: an Arrow array of one value each; None where no value
    can be ordered. source: the kind of the index they come from, or "read".
    """

    column: ColumnInfo
    n_missing: int
    n_nan: int | None
    least: pa.Array | None
    greatest: pa.Array | None
    distinct: Distinct | None
    source: str

    @property
    def n_rows(self) -> int:
        return self.column.n_rows


@dataclass
class Known:
    """What is known about a column in terms of its keys; `ends` are the least and the greatest key."""

    n_missing: int = 0
    n_nan: int = 0
    ends: Keys | None = None
    distinct: Distinct | None = None

    def widen(self, keys: Keys) -> None:
        """Extend the ends to include these keys."""
        places = keys.least_and_greatest()
        if places is not None:
            both = keys.take(np.array(places))
            self.ends = both if self.ends is None else _ends(join([self.ends, both]))


def _ends(keys: Keys) -> Keys:
    places = keys.least_and_greatest()
    assert places is not None  # the ends of at least one key
    return keys.take(np.array(places))


def column_stats(reader: ColumnReader, indexes: Sequence[OpenIndex], trust: Trust, seen: Seen) -> ColumnStats:
    """Statistics of a column; from `indexes` (those of the whole table) where one knows them."""
    reader = reader.by_value()
    if reader.domain is None:
        return _stats(reader, Known(_count_missing(reader, seen)), "read")
    found = known_to_indexes(reader, indexes, trust)
    if found is None:
        return _stats(reader, _read(reader, seen), "read")
    known, kind = found
    known.distinct = known.distinct or _bound_of_distinct(reader, _mine(reader, indexes, trust))
    seen(reader.column.n_rows)
    return _stats(reader, known, kind)


def known_to_indexes(reader: ColumnReader, indexes: Sequence[OpenIndex], trust: Trust) -> tuple[Known, str] | None:
    """What a trusted index knows about a column, and the kind of that index; None when no index knows."""
    mine = _mine(reader, indexes, trust)
    for kind, ask in _ASKED.items():
        for one in mine:
            known = _answer(ask, one.index, reader) if one.info.kind == kind else None
            if known is not None:
                return known, kind
    return None


def _mine(reader: ColumnReader, indexes: Sequence[OpenIndex], trust: Trust) -> list[OpenIndex]:
    """The trusted indexes of a column; none knows the order of strings that are stored as categories."""
    if reader.is_by_value:
        return []
    return [one for one in indexes if one.info.column == reader.column.name and _is_believed(one, trust)]


def _is_believed(one: OpenIndex, trust: Trust) -> bool:
    return one.index is not None and trust != "never" and (trust == "always" or one.info.trusted)


def _stats(reader: ColumnReader, known: Known, source: str) -> ColumnStats:
    ends = known.ends if _is_ordered(reader) else None
    return ColumnStats(
        column=reader.column,
        n_missing=known.n_missing,
        n_nan=known.n_nan if reader.domain == "float" else None,
        least=None if ends is None else reader.values(ends.take(np.array([0]))),
        greatest=None if ends is None else reader.values(ends.take(np.array([1]))),
        distinct=known.distinct,
        source=source,
    )


def _is_ordered(reader: ColumnReader) -> bool:
    """Whether the order of the keys has a meaning. That of categories has none, unless they are marked as ordered."""
    return not pa.types.is_dictionary(reader.kind) or bool(reader.kind.ordered)


# -- from an index --


def _answer(ask: Callable[..., Known | None], index: Index | None, reader: ColumnReader) -> Known | None:
    """What an index knows; None when it does not know, or is not valid."""
    try:
        return ask(index, reader)
    except (ChangedError, ColonnadeError):
        return None


def _ask_bitmap(index: BitmapIndex, reader: ColumnReader) -> Known | None:
    """The values whose bits are set for some row; None where reading the column is cheaper."""
    column, values = reader.column, index.values()
    if len(values) > 8 * max(column.type.size, 1) or not index.is_complete():
        return None
    counts = np.zeros(len(values), dtype=np.int64)
    for place in range(len(values)):
        test = NotANumber() if values.nan[place] else Among((values.key(place),))
        found = index.count(BoundLeaf(column.name, test), reader)
        if found is None:
            return None
        counts[place] = found
    n_nan = int(counts[values.nan].sum())
    known = Known(column.n_rows - int(counts.sum()), n_nan)
    known.widen(values.take(np.flatnonzero(counts)))
    known.distinct = Distinct(int((counts > 0).sum()), "exactly")
    return known


def _ask_minmax(index: MinMaxIndex, _reader: ColumnReader) -> Known | None:
    low, high, counts = index.bounds()
    some = np.flatnonzero(counts["n"] > counts["nan_count"] + counts["fill_count"])
    known = Known(int(counts["fill_count"].sum()), int(counts["nan_count"].sum()))
    known.widen(join([low.take(some), high.take(some)]))
    return known


def _ask_sorted(index: SortedRowsIndex, reader: ColumnReader) -> Known | None:
    n = index.n_values
    rows = index.rows(0, 1).tolist() + index.rows(n - 1, n).tolist() if n else index.rows(0, 0).tolist()
    name = reader.column.name
    n_missing, n_nan = (index.count(BoundLeaf(name, test), reader) for test in (Missing(), NotANumber()))
    known = Known(n_missing or 0, n_nan or 0)
    for row in rows:
        known.widen(reader.keys(row, 1))
    return known


_ASKED: dict[str, Callable[..., Known | None]] = {
    "bitmap": _ask_bitmap,
    "chunk_minmax": _ask_minmax,
    "sorted_rows": _ask_sorted,
}


def _bound_of_distinct(reader: ColumnReader, indexes: Sequence[OpenIndex]) -> Distinct | None:
    """An upper bound of the number of distinct values: the number of categories, or of values in a bitmap."""
    bounds = [] if reader.column.categories is None else [reader.column.categories.n_categories]
    for one in indexes:
        if isinstance(one.index, BitmapIndex) and one.info.trusted and one.index.is_complete():
            known = _answer(lambda index, _: Known(len(index.values())), one.index, reader)
            bounds += [] if known is None else [known.n_missing]
    return Distinct(min(bounds), "at most") if bounds else None


# -- from the column --


def _read(reader: ColumnReader, seen: Seen) -> Known:
    known, distinct = Known(), _DistinctKeys()
    n_rows, step = reader.column.n_rows, window_rows([reader.column])
    for start in range(0, n_rows, step):
        keys = reader.keys(start, min(step, n_rows - start))
        known.n_missing += int(keys.missing.sum())
        known.n_nan += int(keys.nan.sum())
        known.widen(keys)
        distinct.add(keys)
        seen(len(keys))
    known.distinct = distinct.found
    return known


def _count_missing(reader: ColumnReader, seen: Seen) -> int:
    """The number of missing rows, for a column whose values cannot be compared."""
    n_rows, step, n_missing = reader.column.n_rows, window_rows([reader.column]), 0
    for start in range(0, n_rows, step):
        count = min(step, n_rows - start)
        n_missing += reader.read(start, count).null_count
        seen(count)
    return n_missing


class _DistinctKeys:
    """The distinct keys seen so far, up to a limit."""

    def __init__(self) -> None:
        self._known: Keys | None = None
        self._found = Distinct(0, "exactly")

    @property
    def found(self) -> Distinct:
        return self._found

    def add(self, keys: Keys) -> None:
        if self._found.how == "more than":
            return
        met = _fewer(keys).distinct()[0]
        self._known = met if self._known is None else join([self._known, met]).distinct()[0]
        count = len(self._known)
        self._found = Distinct(count, "exactly")
        if count > MOST_DISTINCT or _n_bytes(self._known) > MOST_BYTES:
            self._found = Distinct(min(count - 1, MOST_DISTINCT), "more than")
            self._known = None


def _fewer(keys: Keys) -> Keys:
    """Remove most repeats, and keep all distinct keys: much faster than sorting all of them."""
    if isinstance(keys, NumberKeys) and keys.values.dtype in (np.object_, np.float16):
        return keys
    return keys_of(pc.unique(keys.array))


def _n_bytes(keys: Keys) -> int:
    return int(keys.array.nbytes) if isinstance(keys, ByteKeys) else 8 * len(keys)
