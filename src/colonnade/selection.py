"""A set of rows, as increasing ranges that neither touch nor overlap. It is the only row-set type.

Every operation works on whole arrays of ranges, so millions of ranges are fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from colonnade import kernels
from colonnade.arrays import Booleans, Int64s
from colonnade.errors import RowNotFound, UsageError

RowNumbers = Int64s
Rows = range | RowNumbers
"""Rows of a table: a slice with any step, or row numbers in any order, with repeats."""
_FARTHEST = 1 << 62  # row numbers up to here plus one chunk do not overflow


def row_numbers(rows: Iterable[int] | np.ndarray, n_rows: int) -> RowNumbers:
    """Row numbers counted from the first row; negative ones count from the end. Raises if there is no such row."""
    numbers = integers(rows)
    outside = (numbers < -n_rows) | (numbers >= n_rows)
    if outside.any():
        raise RowNotFound(int(numbers[outside][0]), n_rows)
    return np.where(numbers < 0, numbers + n_rows, numbers).astype(np.int64)


def integers(given: Iterable[int] | np.ndarray) -> np.ndarray:
    """A 1-D array of integers that can be compared and cast safely: a cast of 2**64 - 1 to int64 would make it -1.

    Its dtype is int64, or object (Python integers) where one does not fit: those cannot be rows of a table.
    """
    numbers = np.asarray(given)
    if numbers.ndim != 1:
        raise UsageError("row numbers must be a list or a 1-D array")
    if not numbers.size:
        return np.empty(0, dtype=np.int64)
    if numbers.dtype.kind in "fO" and not isinstance(given, np.ndarray):
        numbers = np.array([*given, None], dtype=object)[:-1]  # the integers themselves: [2**63, -1] would be floats
    odd = [value for value in numbers if not _is_integer(value)] if numbers.dtype.kind == "O" else []
    if odd or numbers.dtype.kind not in "iuO":
        raise UsageError(f"row numbers must be integers, not {repr(odd[0]) if odd else numbers.dtype}")
    if numbers.dtype.kind == "i" or (numbers.min() >= -_FARTHEST and numbers.max() <= _FARTHEST):
        return numbers.astype(np.int64)
    return numbers.astype(object)


def _is_integer(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


class Selection:
    """Rows from `starts[i]` up to but excluding `stops[i]`, for each i.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> t.where("energy > 5").explain().rows_to_test.count
    3
    """

    __slots__ = ("_count", "starts", "stops")

    def __init__(self, starts: RowNumbers, stops: RowNumbers) -> None:
        self.starts = starts
        self.stops = stops
        self._count: int | None = None  # cached: selections are immutable

    @classmethod
    def of(cls, start: int, stop: int) -> Selection:
        """One range of rows."""
        if stop <= start:
            return cls.none()
        return cls(np.array([start], dtype=np.int64), np.array([stop], dtype=np.int64))

    @classmethod
    def none(cls) -> Selection:
        """No rows."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    @classmethod
    def from_rows(cls, rows: RowNumbers) -> Selection:
        """The selection of these rows, which must be increasing and distinct."""
        if not len(rows):
            return cls.none()
        if int(rows[-1]) - int(rows[0]) + 1 == len(rows):
            return cls.of(int(rows[0]), int(rows[-1]) + 1)
        breaks = np.flatnonzero(rows[1:] - rows[:-1] != 1)
        starts = rows[np.concatenate(([0], breaks + 1))]
        stops = rows[np.concatenate((breaks, [len(rows) - 1]))] + 1
        return cls(starts.astype(np.int64), stops.astype(np.int64))

    @classmethod
    def from_mask(cls, mask: Booleans, first: int = 0) -> Selection:
        """The rows where the mask is true; its first element is row `first`."""
        edges = np.empty(len(mask) + 1, dtype=np.int64)
        edges = edges[: kernels.mask_edges(np.ascontiguousarray(mask), first, edges)]
        return cls(edges[0::2].copy(), edges[1::2].copy())

    @classmethod
    def from_chunks(cls, chosen: Booleans, chunk_rows: int, n_rows: int) -> Selection:
        """All rows of the chosen chunks."""
        whole = cls.from_mask(chosen)
        return cls(whole.starts * chunk_rows, np.minimum(whole.stops * chunk_rows, n_rows))

    @classmethod
    def joined(cls, parts: Sequence[Selection]) -> Selection:
        """Concatenate selections, each of which begins after the one before."""
        parts = [part for part in parts if part]
        if not parts:
            return cls.none()
        return _joined(np.concatenate([part.starts for part in parts]), np.concatenate([part.stops for part in parts]))

    @property
    def count(self) -> int:
        """The number of rows."""
        if self._count is None:
            self._count = int(self.stops.sum() - self.starts.sum())
        return self._count

    @property
    def span(self) -> int:
        """The number of rows from the first to the last, including unselected rows between them."""
        return int(self.stops[-1] - self.starts[0]) if len(self.starts) else 0

    def __bool__(self) -> bool:
        return len(self.starts) > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selection):
            return NotImplemented
        return self is other or (np.array_equal(self.starts, other.starts) and np.array_equal(self.stops, other.stops))

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Selection) -> Selection:
        return _overlaid(self, other, 2)

    def __or__(self, other: Selection) -> Selection:
        return _overlaid(self, other, 1)

    def __sub__(self, other: Selection) -> Selection:
        if not self or not other:
            return self
        if other is self:
            return Selection.none()
        low, high = int(self.starts[0]), int(self.stops[-1])
        return self & other.complement(low, high)

    def complement(self, start: int, stop: int) -> Selection:
        """The rows from start to stop that are not in this selection."""
        inside = self.within(start, stop)
        starts = np.concatenate(([start], inside.stops))
        stops = np.concatenate((inside.starts, [stop]))
        some = starts < stops
        return Selection(starts[some], stops[some])

    def within(self, start: int, stop: int) -> Selection:
        """The rows of this selection from start to stop."""
        if self and start <= self.starts[0] and self.stops[-1] <= stop:
            return self
        first, last = int(self.stops.searchsorted(start, "right")), int(self.starts.searchsorted(stop))
        if first >= last or stop <= start:
            return Selection.none()
        starts, stops = self.starts[first:last], self.stops[first:last]
        if starts[0] < start:
            starts = starts.copy()
            starts[0] = start
        if stops[-1] > stop:
            stops = stops.copy()
            stops[-1] = stop
        return Selection(starts, stops)

    def rows(self) -> RowNumbers:
        """The row numbers, increasing."""
        rows = np.empty(self.count, dtype=np.int64)
        kernels.ranges_rows(np.ascontiguousarray(self.starts), np.ascontiguousarray(self.stops), rows)
        return rows

    def holds(self, rows: RowNumbers) -> Booleans:
        """Which of these rows are in the selection."""
        if not self:
            return np.zeros(len(rows), dtype=bool)
        nearest = np.searchsorted(self.starts, rows, "right") - 1  # the last range that does not begin after each row
        inside: Booleans = (nearest >= 0) & (rows < self.stops[nearest])
        return inside

    def n_before(self, rows: RowNumbers) -> Int64s:
        """How many rows of the selection are before each of these rows."""
        counts = np.concatenate(([0], np.cumsum(self.stops - self.starts)))
        begun = np.searchsorted(self.starts, rows)
        stops = np.concatenate(([0], self.stops))
        n_rows: Int64s = counts[begun] - np.maximum(stops[begun] - rows, 0)
        return n_rows

    def chunks(self, chunk_rows: int) -> RowNumbers:
        """The numbers of the chunks that hold these rows, increasing and distinct."""
        return self.touched(chunk_rows).rows()

    def n_chunks(self, chunk_rows: int) -> int:
        """How many chunks hold these rows."""
        return self.touched(chunk_rows).count

    def touched(self, chunk_rows: int) -> Selection:
        """The chunks that hold these rows, as a selection of chunks."""
        if not self:
            return Selection.none()
        first, last = int(self.starts[0]) // chunk_rows, (int(self.stops[-1]) - 1) // chunk_rows
        if first == last or len(self.starts) == 1:
            return Selection.of(first, last + 1)
        if last - first < len(self.starts) // 8 and self.stops[-1] < _FARTHEST:  # more ranges than chunks
            edges = np.arange(first, last + 2, dtype=np.int64) * chunk_rows
            nearest = np.searchsorted(self.stops, edges[:-1], "right")  # the first range that ends after each edge
            return Selection.from_mask(self.starts[nearest] < edges[1:], first)
        return _joined(_divided(self.starts, chunk_rows), _divided(self.stops - 1, chunk_rows) + 1)

    def windows(self, rows: int) -> Iterator[tuple[int, int]]:
        """Ranges that end at multiples of `rows` and together cover the selection; ranges without rows are left out."""
        touched = self.touched(rows)
        for start, stop in zip(touched.starts.tolist(), touched.stops.tolist(), strict=True):
            for window in range(start, stop):  # lazy: a file may claim any number of rows
                yield window * rows, (window + 1) * rows

    def __repr__(self) -> str:
        shown = ", ".join(f"{a}:{b}" for a, b in zip(self.starts[:6].tolist(), self.stops[:6].tolist(), strict=True))
        return f"<Selection {shown}{', ...' if len(self.starts) > 6 else ''}>"


def _divided(rows: RowNumbers, by: int) -> RowNumbers:
    """Integer quotients. Chunks mostly have a power of two rows, and a shift is several times faster."""
    return rows >> (by.bit_length() - 1) if by & (by - 1) == 0 else rows // by


def _joined(starts: RowNumbers, stops: RowNumbers) -> Selection:
    """Ranges in increasing order that may touch or overlap their neighbours, as a selection."""
    if len(starts) == 1:
        return Selection(starts, stops)
    apart = np.flatnonzero(starts[1:] > stops[:-1])
    return Selection(starts[np.concatenate(([0], apart + 1))], stops[np.concatenate((apart, [len(stops) - 1]))])


def _overlaid(a: Selection, b: Selection, depth: int) -> Selection:
    """The rows that at least `depth` of two selections hold."""
    if not a or not b:
        return Selection.none() if depth == 2 else (a if a else b)
    if a is b:
        return a
    for one, other in ((a, b), (b, a)):
        if len(one.starts) == 1:  # mostly one of them is a range
            start, stop = int(one.starts[0]), int(one.stops[0])
            if depth == 2:
                return other.within(start, stop)
            if start <= other.starts[0] and other.stops[-1] <= stop:
                return one
    places = np.concatenate((a.starts, b.starts, a.stops, b.stops))
    steps = np.repeat([1, -1], [len(a.starts) + len(b.starts), len(a.stops) + len(b.stops)])
    order = np.lexsort((-steps, places))  # at equal positions starts come before stops
    places, level = places[order], np.cumsum(steps[order])
    inside = level >= depth
    edges = np.flatnonzero(np.diff(inside.astype(np.int8), prepend=0))
    starts, stops = places[edges[0::2]], places[edges[1::2]]
    some = starts < stops
    return Selection(starts[some], stops[some])
