"""Statistics of a column: how many values are missing or NaN, the least and the greatest, how many are distinct.

In: a column and its search indexes. Out: a `ColumnStats`, from a trusted index where one knows it; otherwise the column
is read once, a window at a time. Memory: the keys of one window, and the distinct values up to a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import limits
from colonnade.columns.keys import ByteKeys, Keys, NumberKeys, join, keys_of
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError
from colonnade.indexes import KINDS
from colonnade.indexes.base import ChangedError, Index, asked
from colonnade.indexes.known import Distinct, Known
from colonnade.layouts.index_home import OpenIndex
from colonnade.model import ColumnInfo, IndexInfo, Lists, Slabs
from colonnade.pager.receipts import Trust
from colonnade.query.match import answered
from colonnade.query.window import window_rows

_INVALID = (ChangedError, ColonnadeError)  # what an index whose contents are wrong may raise
Seen = Callable[[int], None]
"""Called with a number of rows, after they have been read."""


@dataclass(frozen=True)
class ColumnStats:
    """Statistics of the values of a column.

    n_nan: None for a type without NaN. least, greatest: an Arrow array of one value each; None where no value
    can be ordered. source: the kind of the index they come from, or "read".

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> stats = t.stats()["energy"]
    >>> stats.n_rows, stats.n_missing, stats.greatest[0].as_py()
    (3, 0, 7.0)
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
        """The number of rows of the column."""
        return self.column.n_rows


def column_stats(reader: ColumnReader, indexes: Sequence[OpenIndex], trust: Trust, seen: Seen) -> ColumnStats:
    """Statistics of a column; from `indexes` (those of the whole table) where one knows them."""
    reader = reader.by_value()
    if reader.domain is None:
        reader.check_written(reader.column.n_rows)
        return _stats(reader, Known(_count_missing(reader, seen)), "read")
    found = known_to_indexes(reader, indexes, trust)
    if found is None:
        reader.check_written(reader.column.n_rows)
        return _stats(reader, _read(reader, seen), "read")
    known, kind = found
    known.distinct = known.distinct or _bound_of_distinct(reader, _trusted(reader, indexes, trust))
    seen(reader.column.n_rows)
    return _stats(reader, known, kind)


def known_to_indexes(reader: ColumnReader, indexes: Sequence[OpenIndex], trust: Trust) -> tuple[Known, str] | None:
    """What a trusted index knows about a column, and the kind of that index; None when no index knows."""
    for info, index in _trusted(reader, indexes, trust):
        with suppress(*_INVALID):
            known = answered(asked(index.known()), {reader.column.name: reader}, {})
            if known is not None:
                return known, info.kind
    return None


class FromIndexes:
    """What the trusted indexes of a table know about its columns."""

    def __init__(self, indexes: Sequence[OpenIndex], trust: Trust) -> None:
        self._indexes = indexes
        self._trust = trust

    def known(self, reader: ColumnReader) -> Known | None:
        """The counts and ends of a column."""
        found = known_to_indexes(reader, self._indexes, self._trust)
        return None if found is None else found[0]

    def at_ranks(self, reader: ColumnReader, ranks: Sequence[int]) -> Keys | None:
        """The keys at these ranks in the order of the values."""
        for _, index in _trusted(reader, self._indexes, self._trust):
            with suppress(*_INVALID):
                keys = answered(asked(index.at_ranks(ranks)), {reader.column.name: reader}, {})
                if keys is not None:
                    return keys
        return None


def _trusted(reader: ColumnReader, indexes: Sequence[OpenIndex], trust: Trust) -> list[tuple[IndexInfo, Index]]:
    """The trusted indexes of a column, those that know most first.

    There are none for strings that are stored as categories: no index knows their order.
    """
    if reader.is_by_value or trust == "never":
        return []
    name = reader.column.name
    own = [(one.info, one.index) for one in indexes if one.info.column == name and one.index is not None]
    return sorted((pair for pair in own if trust == "always" or pair[0].trusted), key=_statistics_rank)


def _statistics_rank(opened: tuple[IndexInfo, Index]) -> tuple[bool, int]:
    kind = KINDS[opened[0].kind]
    return not kind.counts_distinct, kind.rank


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


def _bound_of_distinct(reader: ColumnReader, indexes: Sequence[tuple[IndexInfo, Index]]) -> Distinct | None:
    """An upper bound of the number of distinct values: the number of categories, or what an index knows."""
    bounds = [None if reader.column.categories is None else reader.column.categories.n_categories]
    for info, index in indexes:
        with suppress(*_INVALID):
            bounds.append(index.most_distinct() if info.trusted else None)
    least = min((bound for bound in bounds if bound is not None), default=None)
    return None if least is None else Distinct(least, "at most")


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
    if isinstance(reader.column.form, (Lists, Slabs)):  # only a mask marks missing ones
        return 0
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
        if count > limits.now.distinct_values or _n_bytes(self._known) > limits.now.distinct_bytes:
            self._found = Distinct(min(count - 1, limits.now.distinct_values), "more than")
            self._known = None


def _fewer(keys: Keys) -> Keys:
    """Remove most repeats, and keep all distinct keys: much faster than sorting all of them."""
    if isinstance(keys, NumberKeys) and keys.values.dtype in (np.object_, np.float16):
        return keys
    return keys_of(pc.unique(keys.array))


def _n_bytes(keys: Keys) -> int:
    return int(keys.array.nbytes) if isinstance(keys, ByteKeys) else 8 * len(keys)
