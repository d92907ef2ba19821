"""SORTED_ROWS: all rows in the order of their values (HEP001 8.5, S5).

First the rows with a value, in increasing order of value, then of row number; then the missing rows, then the NaN
rows, each in order of row number. With a NaN fill the missing rows are the NaN tail.

The index holds no values, so every step of a search asks for keys of the column. To keep the steps few, a search
interpolates between the values at both ends (and bisects where that does not help); where a row can be read without
the rest of its chunk, one step asks for several positions around the guess.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import overload

import numpy as np

from colonnade import kernels, limits, writing
from colonnade.arrays import Image
from colonnade.columns.decode import fill_is_nan
from colonnade.columns.keys import Keys, NumberKeys, Numbers, stored_keys
from colonnade.columns.mapping import key_type
from colonnade.columns.strings import Places
from colonnade.filters.codecs import new_array
from colonnade.indexes.base import (
    Asking,
    Builder,
    ChangedError,
    ChangedSource,
    Cost,
    Costly,
    Digests,
    Found,
    Index,
    IndexAttribute,
    KeySource,
    Kind,
    Options,
    Part,
    Probe,
    Wrong,
    asked,
    chunk_keys,
    digest,
)  # fmt: skip
from colonnade.indexes.known import Known
from colonnade.indexes.order import SortOrder, sorter
from colonnade.model import ColumnInfo, StoredType
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, attributes
from colonnade.nodes.paths import editable
from colonnade.predicate.bound import Among, BoundLeaf, Interval, Key, Missing, NotANumber
from colonnade.selection import Selection
from colonnade.stored_dtypes import raw_dtype
from colonnade.threads import begin, default_threads

CHUNK = 65_536
BLOCKS_AT_ONCE = 32  # blocks whose digests one thread computes before it takes others
EVEN_FROM = 16  # with fewer positions than this, interpolation does not beat bisection
# The number of rows that can be scanned and compared in the time it takes to get one row from the index and sort it.
ROWS_FOR_ONE, TEXTS_FOR_ONE = 16, 2
MOST_KNOWN = 4096
MOST_PROBES = 16  # rows read in one step
NEAR = (0, 1, 3, 7, 15, 31, 63, 255)
GUESSES = 3  # in a row, before bisecting once
Way = Callable[[int, int], Sequence[int] | Asking[Sequence[int]]]
"""Chooses the positions to read next, given the first candidate position and the one after the last."""


def row_type(n_rows: int) -> StoredType:
    """An unsigned integer type wide enough for every row number."""
    width = 4 if n_rows < 2**32 else 8
    return StoredType("integer", width, precision=8 * width)


class SortedRowsBuilder(Builder):
    """Collects keys (in files if they do not fit into memory) and sorts them at the end."""

    def __init__(self, group: EditableGroup, name: str, column: ColumnInfo, options: Options) -> None:
        self._group, self._name, self._column = group, name, column
        self._sorter = sorter(options.memory)

    def add(self, first_row: int, keys: Keys) -> None:
        self._sorter.add(first_row, keys)

    def abandon(self) -> None:
        self._sorter.close()

    def finish(self) -> EditableDataset:
        stored = row_type(self._column.n_rows)
        n_rows = self._column.n_rows
        plan = writing.DatasetPlan(stored, max(1, min(CHUNK, n_rows)))
        dataset = writing.create_dataset(self._group, self._name, plan, n_rows)
        with self._sorter as order:
            write_order(dataset, order, self._column)
        return dataset


def write_order(dataset: EditableDataset, order: SortOrder, column: ColumnInfo) -> None:
    """Write all rows in their order, and the lengths of the tails."""
    info = dataset.describe()
    at = 0
    for rows in order.rows():
        image = rows.astype(f"u{info.type.size}")
        writing.write_rows(dataset, info.type, at, image, len(image))
        at += len(image)
    write_tails(dataset, order.n_missing, order.n_nan, column)


def write_tails(dataset: EditableDataset, n_missing: int, n_nan: int, column: ColumnInfo) -> None:
    """Write the lengths of the tails."""
    if fill_is_nan(column):
        n_missing, n_nan = 0, n_missing
    writing.write_integer(dataset, "nan_tail_length", n_nan)
    writing.write_integer(dataset, "fill_tail_length", n_missing)
    writing.write_flag(dataset, "ordered", True)


class SortedRowsIndex(Index):
    """The rows in order, read as a search needs them."""

    def __post_init__(self) -> None:
        self._part: Part | None = None
        self._read_tails: tuple[int, int] | None = None
        self._refreshed: Digests | None = None
        self.keys_read: dict[int, Key] = {}  # keys that searches have read, by position

    @property
    def _tails(self) -> tuple[int, int]:
        """The number of missing rows and the number of NaN rows."""
        if self._read_tails is None:
            nan = (attributes.read_integers(self.dataset, "nan_tail_length") or [-1])[0]
            fill = (attributes.read_integers(self.dataset, "fill_tail_length") or [-1])[0]
            self._read_tails = (nan, fill) if fill_is_nan(self.column) else (fill, nan)
        return self._read_tails

    @property
    def n_values(self) -> int:
        """The number of rows with a value that can be ordered."""
        return self.column.n_rows - sum(self._tails)

    @property
    def _is_text(self) -> bool:
        return self.column.type.kind in ("text", "string") or self.column.encoding == "pointers"

    def problem(self) -> str | None:
        info = self.dataset.describe()
        if info.type.kind != "integer" or info.type.signed or 2 ** (8 * info.type.size) < self.column.n_rows:
            return f"its elements, {info.type}, cannot number the rows"
        is_longer = self.revision == "july" and info.shape is not None and info.shape[:1] > (self.column.n_rows,)
        if info.shape != (self.column.n_rows,) and not (is_longer and info.shape is not None and len(info.shape) == 1):
            return f"it has {info.shape} rows, the column has {self.column.n_rows}"
        if min(self._tails) < 0 or sum(self._tails) > self.column.n_rows:
            return f"its tail lengths are invalid: {self._tails}"
        if attributes.read_flag(self.dataset, "ordered") is not True:
            return "its attribute 'ordered' is not true"
        return None

    def _attributes_digest(self) -> str:
        return digest(repr(self._tails).encode())

    def _rows_part(self) -> Part:
        if self._part is None:
            self._check_attributes(self._attributes_digest())
            self._part = self._numbers(self._digests_of(""))
        return self._part

    def _numbers(self, digests: Sequence[str] | None = None) -> Part:
        """The row numbers: as many as the column has rows."""
        return Part(self.dataset, limits.now.sorted_block, digests, n_rows=self.column.n_rows)

    def digests(self) -> Digests:
        return {"attributes": [self._attributes_digest()], "": self._numbers().digests()}

    def rows(self, start: int, stop: int) -> Places:
        """The rows at positions start to stop of the order."""
        return self._checked(self._rows_part().read(start, stop))

    def row(self, place: int) -> int:
        """The row at one position of the order."""
        row = int(self._rows_part().element(place))
        if not 0 <= row < self.column.n_rows:
            raise ChangedError("it holds rows that the column does not have")
        return row

    def rows_at(self, places: Sequence[int]) -> Places:
        """The rows at these increasing positions of the order."""
        return self._checked(self._rows_part().read(places[0], places[-1] + 1)[np.asarray(places) - places[0]])

    def _checked(self, rows: Image) -> Places:
        numbers: Places = rows.astype(np.int64)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.column.n_rows):
            raise ChangedError("it holds rows that the column does not have")
        return numbers

    def probe(self, rows: Sequence[int] | Places) -> Probe:
        """The request for the keys of these rows."""
        return Probe(self.column.name, np.asarray(rows, dtype=np.int64))

    # -- answers --

    def spans(self, leaf: BoundLeaf, by_row: bool) -> Asking[list[tuple[int, int]] | None]:
        """The ranges of positions that hold exactly the rows for which the leaf is true."""
        self._check_attributes(self._attributes_digest())  # the answer may depend on the tail lengths alone
        n, (n_missing, n_nan) = self.n_values, self._tails
        missing, nan = (n, n + n_missing), (n + n_missing, n + n_missing + n_nan)
        test = leaf.test
        if isinstance(test, Missing):
            return [(0, n), nan] if leaf.negated else [missing]
        if isinstance(test, NotANumber):
            return [(0, n)] if leaf.negated else [nan]
        if isinstance(test, Interval):
            tests = [test]
        elif isinstance(test, Among) and len(test.keys) <= limits.now.sorted_lookups:
            tests = [Interval(key, key) for key in test.keys]
        else:
            return None
        inside = []
        for interval in tests:
            start, stop = yield from self._span(interval, by_row)
            if start < stop:
                inside.append((start, stop))
        if not leaf.negated:
            return inside
        edges = [0, *(edge for span in inside for edge in span), n]
        outside = list(zip(edges[0::2], edges[1::2], strict=True))
        return [(a, b) for a, b in [*outside, nan] if a < b]

    def ordered_rows(self) -> Places:
        self._check_attributes(self._attributes_digest())
        n_values, n_rows = self.n_values, self.column.n_rows
        n_missing = self._tails[0]
        values, missing = self.rows(0, n_values), self.rows(n_values, n_values + n_missing)
        return np.concatenate([values, self.rows(n_values + n_missing, n_rows), missing])

    def first_rows(self, n_rows: int, descending: bool, whole_groups: bool, by_row: bool) -> Asking[Places | None]:
        self._check_attributes(self._attributes_digest())
        n_values = self.n_values
        if not 0 < n_rows <= n_values:
            return None
        if not descending and not whole_groups:
            return self.rows(0, n_rows)
        last = n_values - n_rows if descending else n_rows - 1
        search = _Search(self, by_row)
        key = yield from search.key(last)
        start = yield from search.place(key, after=False)
        stop = yield from search.place(key, after=True, least=start)
        before = self.rows(stop, n_values) if descending else self.rows(0, start)
        if not whole_groups:
            stop = start + n_rows - len(before)  # rows with equal keys are in their order
        elif stop - start > limits.now.top_rows:
            return None
        return np.concatenate([before, self.rows(start, stop)])

    def _span(self, test: Interval, by_row: bool) -> Asking[tuple[int, int]]:
        search = _Search(self, by_row)
        start, stop, near = 0, self.n_values, None
        if test.low is not None:
            start = near = yield from search.place(test.low, after=test.low_open)
        if test.high is not None:
            stop = yield from search.place(test.high, after=not test.high_open, least=near)
        return start, max(start, stop)

    def count(self, leaf: BoundLeaf, by_row: bool) -> Asking[int | None]:
        spans = yield from self.spans(leaf, by_row)
        return None if spans is None else sum(b - a for a, b in spans)

    def cost(self, leaf: BoundLeaf) -> Cost:
        return Cost(probes=not isinstance(leaf.test, Missing))

    def find(self, leaf: BoundLeaf, scope: Selection, by_row: bool) -> Asking[Found | None]:
        spans = yield from self.spans(leaf, by_row)
        if spans is None:
            return None
        rows_for_one = TEXTS_FOR_ONE if self._is_text else ROWS_FOR_ONE
        if sum(b - a for a, b in spans) * rows_for_one > scope.count:
            raise Costly
        parts = [self.rows(a, b) for a, b in spans]
        rows = np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)
        if len(rows) > 1 and (np.diff(rows) == 0).any():
            raise ChangedError("it holds a row twice")
        matching = Selection.from_rows(rows)
        return Found(matching, matching)

    def known(self) -> Asking[Known]:
        self._check_attributes(self._attributes_digest())
        known = Known(*self._tails)
        if self.n_values:
            ends = yield self.probe([self.row(0), self.row(self.n_values - 1)])
            known.widen(stored_keys(ends, key_type(self.column)))
        return known

    def at_ranks(self, ranks: Sequence[int]) -> Asking[Keys]:
        self._check_attributes(self._attributes_digest())
        if ranks and not 0 <= min(ranks) <= max(ranks) < self.n_values:
            raise ChangedError("it has fewer values than another index of its column")
        keys = yield self.probe([self.row(rank) for rank in ranks])
        return stored_keys(keys, key_type(self.column))

    # -- changes --

    def refresh(self, source: ChangedSource, changed: Selection, n_before: int, options: Options) -> Dataset | None:
        """Merge added rows in. If other rows changed, or memory is too small, sort all rows again."""
        column = source.column
        n_rows = column.n_rows
        if 2 ** (8 * self.dataset.describe().type.size) < n_rows:
            return None
        if changed.within(0, min(n_before, n_rows)):
            return self._sort_anew(source, options)
        if n_rows < n_before:
            return self.remove(source, Selection.of(n_rows, n_before), n_before, options)
        return self._grow(source, n_before, options)

    def remove(self, source: ChangedSource, removed: Selection, n_before: int, options: Options) -> Dataset | None:
        """Leave the removed rows out and renumber the others: the column is not read."""
        n_rows = source.column.n_rows
        if n_before * 8 > options.memory:
            return self._sort_anew(source, options)
        parts = [rows[~removed.holds(rows)] for rows in self._parts(n_before)]
        if sum(map(len, parts)) != n_rows:
            raise ChangedError("it does not hold each row once")
        values, missing, nan = (rows - removed.n_before(rows) for rows in parts)
        self._part = self._read_tails = None
        writing.resize(editable(self.dataset), n_rows)
        write_order(editable(self.dataset), _Merged(values, missing, nan), source.column)
        return self.dataset

    def _grow(self, source: ChangedSource, n_before: int, options: Options) -> Dataset | None:
        """Merge the rows from `n_before` on into the others. Rows with smaller keys than all of them are not moved."""
        column = source.column
        added = source.keys(n_before, column.n_rows - n_before)
        order = added.ordered()
        tails = self._tails
        n_values = n_before - sum(tails)
        least = added.key(int(order[0])) if len(order) else None
        first = _block_start(self._place_below(least, n_values, source))
        if (column.n_rows - first) * max(column.type.size, 8) > options.memory:
            return self._sort_anew(source, options)
        info = self.dataset.describe()
        stored = self.dataset.chunk_source(raw_dtype(info.type), info.filters)
        if stored is not None:
            stored.expect_overwrite(first, n_before - first)
        old = Part(self.dataset, limits.now.sorted_block).load(first, n_before)
        if len(old) and int(old.max()) >= n_before:
            raise ChangedError("it holds rows that the column does not have")
        values, missing, nan = np.split(old, [n_values - first, n_values - first + tails[0]])
        places = _places(values, added.take(order), source, n_before)
        new = [
            (rows + n_before).astype(old.dtype) for rows in (np.flatnonzero(added.missing), np.flatnonzero(added.nan))
        ]
        whole = new_array(len(old) + len(added), old.dtype)
        n_merged = len(values) + len(order)
        kernels.insert_rows(values, places, (order + n_before).astype(old.dtype), whole[:n_merged])
        np.concatenate((missing, new[0], nan, new[1]), out=whole[n_merged:])
        if stored is not None:
            stored.leave_unchanged(whole)
        self._put(first, whole, (tails[0] + len(new[0]), tails[1] + len(new[1])), column)
        return self.dataset

    def _place_below(self, key: Key | None, n_values: int, source: KeySource) -> int:
        """A position before which all keys are at most `key`. Searched from the end, where new keys often belong."""
        back = 1
        while key is not None and back <= n_values:
            if source.keys_at(np.array([self.row(n_values - back)]))[0] <= key:  # type: ignore[operator]
                return n_values - back + 1
            back *= 16
        return n_values if key is None else 0

    def _put(self, first: int, rows: Image, tails: tuple[int, int], column: ColumnInfo) -> None:
        """Write the rows from position `first`, the start of a block, and the tail lengths if they changed."""
        stored = self.dataset.describe().type
        before = self._tails
        writing.resize(editable(self.dataset), first + len(rows))
        writing.write_rows(editable(self.dataset), stored, first, rows, len(rows))
        if tails != before:
            write_tails(editable(self.dataset), *tails, column)
        self._part, self._read_tails = None, tails
        if self.receipt is not None:
            digests = BlockDigests(self.receipt[""][: first // limits.now.sorted_block], rows)
            self._refreshed = {"attributes": [self._attributes_digest()], "": digests}

    def refreshed(self) -> Digests | None:
        return self._refreshed

    def _sort_anew(self, source: KeySource, options: Options) -> Dataset | None:
        self._part = self._read_tails = None
        writing.resize(editable(self.dataset), source.column.n_rows)
        with sorter(options.memory) as order:
            for chunk, keys in chunk_keys(source, source.column.grid, range(source.column.grid.n_chunks)):
                order.add(source.column.grid.bounds(chunk)[0], keys)
            write_order(editable(self.dataset), order, source.column)
        return self.dataset

    def _parts(self, n_before: int) -> tuple[Places, Places, Places]:
        """The rows with a value, the missing rows and the NaN rows of the index before the change."""
        whole = Part(self.dataset, limits.now.sorted_block).read(0, n_before).astype(np.int64)
        n_missing, n_nan = self._tails
        n = n_before - n_missing - n_nan
        return whole[:n], whole[n : n + n_missing], whole[n + n_missing :]

    def verify(self, source: KeySource, options: Options) -> Iterator[Wrong]:
        with sorter(options.memory) as order:
            for chunk, keys in chunk_keys(source, self.column.grid, range(self.column.grid.n_chunks)):
                order.add(self.column.grid.bounds(chunk)[0], keys)
            truth = order.n_missing, order.n_nan
            if self._tails != truth:
                yield Wrong("tails (missing, NaN)", self._tails, truth)
            found, at = Part(self.dataset, limits.now.sorted_block), 0
            for rows in order.rows():
                stored = found.read(at, at + len(rows)).astype(np.int64)
                for place in np.flatnonzero(stored != rows)[:1].tolist():
                    yield Wrong(f"place {at + place}", f"row {stored[place]}", f"row {rows[place]}")
                at += len(rows)


class BlockDigests(Sequence[str]):
    """Digests of blocks: some that are known, and those of new rows, which must not be changed.

    Those of many rows are computed by other threads and waited for when they are needed, after the commit: while a
    commit waits for the disk the processor has time for them.
    """

    def __init__(self, known: Sequence[str], rows: Image) -> None:
        block = limits.now.sorted_block
        n = BLOCKS_AT_ONCE * block
        parts = [rows[at : at + n] for at in range(0, len(rows), n)]
        n_threads = default_threads() if rows.nbytes >= limits.now.threaded_bytes else 1
        self._known = list(known)
        self._coming = [begin(partial(_digest_blocks, part, block), n_threads) for part in parts]

    def _all(self) -> list[str]:
        for digests in self._coming:
            self._known += digests.result()
        self._coming = []
        return self._known

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        return self._all()[place]

    def __reduce__(self) -> tuple[type[list[str]], tuple[list[str]]]:
        return list, (self._all(),)


def _digest_blocks(rows: Image, block: int) -> list[str]:
    return [digest(rows[at : at + block]) for at in range(0, len(rows), block)]


def _places(rows: Image, added: Keys, source: ChangedSource, n_before: int) -> Places:
    """The insertion points of sorted keys into `rows`, which are sorted by key; after equal keys."""
    if not len(added):
        return np.empty(0, dtype=np.int64)
    # For few rows only their keys are read, in row order so that each chunk is read once; otherwise the whole column.
    if 4 * len(rows) < n_before:
        by_row = np.argsort(rows)
        keys = source.take_keys(rows[by_row].astype(np.int64))
        places = np.empty(len(rows), dtype=np.int64)
        places[by_row] = np.arange(len(rows))
        return keys.take(places).ranks(added, "right").astype(np.int64)
    numbers = source.unchecked_keys(0, n_before) if isinstance(added, NumberKeys) else None  # these rows have values
    if numbers is not None and isinstance(added, NumberKeys):
        return _halved(rows, numbers, added.values)
    held = source.keys(0, n_before)
    if isinstance(held, NumberKeys) and isinstance(added, NumberKeys):
        return _halved(rows, held.values, added.values)
    return held.take(rows.astype(np.int64)).ranks(added, "right").astype(np.int64)


def _halved(rows: Image, values: Numbers, added: Numbers) -> Places:
    """The insertion points of sorted numbers into `rows`: first among a sample of the rows, then by bisection.

    All numbers are bisected at the same time, and only a few of the rows are compared.
    """
    step = limits.now.sorted_sample
    n_below = np.searchsorted(values[rows[::step]], added, "right")
    low = np.maximum((n_below - 1) * step + 1, 0)
    high = np.minimum(n_below * step, len(rows))
    for _ in range(step.bit_length()):
        middle = (low + high) >> 1
        open_ = low < high
        below = open_ & (values[rows[np.minimum(middle, len(rows) - 1)]] <= added)
        low = np.where(below, middle + 1, low)
        high = np.where(open_ & ~below, middle, high)
    return low


class _Merged:
    """An order that is completely in memory."""

    def __init__(self, values: Places, missing: Places, nan: Places) -> None:
        self._parts = (values, missing, nan)
        self.n_missing, self.n_nan = len(missing), len(nan)

    def rows(self) -> Iterator[Places]:
        yield from self._parts


class _Search:
    """Finds positions in the order, and asks for keys of the column only where it must.

    Where single rows can be read (`by_row`), one step asks for several, which costs little more than one.
    """

    def __init__(self, index: SortedRowsIndex, by_row: bool) -> None:
        self._index, self._by_row = index, by_row
        self._known = index.keys_read

    def place(self, key: Key, after: bool, least: int | None = None) -> Asking[int]:
        """The first position whose key is not below `key` (with `after`: is above it). `least` is a lower bound."""
        bisect = bisect_right if after else bisect_left
        low, high = least or 0, self._index.n_values
        takes_many = not isinstance(key, bytes) and self._by_row
        ways = self._ways_to_many(key, least) if takes_many else self._ways_to_one(key, least)
        while low < high:
            places = yield from asked(next(ways)(low, high))
            keys = yield from self._keys(places)
            n_below = bisect(keys, key)
            if n_below:
                low = places[n_below - 1] + 1
                self._note(low - 1, keys[n_below - 1])
            if n_below < len(places):
                high = places[n_below]
                self._note(high, keys[n_below])
        return low

    def _keys(self, places: Sequence[int]) -> Asking[list[Key]]:
        """The keys of the rows at these increasing positions of the order."""
        if len(places) == 1:
            return [(yield from self.key(places[0]))]
        if all(place in self._known for place in places):
            return [self._known[place] for place in places]
        keys = yield self._index.probe(self._index.rows_at(places))
        if isinstance(places, range):  # the last step of a search: often includes the range's other end
            for place, key in zip(places, keys, strict=True):
                self._note(place, key)
        return keys

    def key(self, place: int) -> Asking[Key]:
        """The key of the row at a position of the order."""
        if place not in self._known:
            keys = yield self._index.probe([self._index.row(place)])
            self._note(place, keys[0])
        return self._known[place]

    def _note(self, place: int, key: Key) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[place] = key

    # -- which positions to read next --

    def _ways_to_many(self, key: Key, least: int | None) -> Iterator[Way]:
        is_met = False

        def next_places(low: int, high: int) -> Asking[Sequence[int]]:
            nonlocal is_met
            if high - low <= MOST_PROBES:
                return range(low, high)
            if key not in (self._known.get(low - 1), self._known.get(high)):
                return self._about(low, high, (yield from self._guess(low, high, key)))
            was_met, is_met = is_met, True
            if not was_met:
                return self._before(low, high) if key == self._known.get(high) else self._behind(low, high)
            # Many rows equal the key. While the range is too wide for equally spaced probes, bisect.
            return self._spread(low, high) if high - low <= MOST_PROBES**2 else ((low + high) // 2,)

        if least is not None:
            yield self._near
        while True:
            for _ in range(GUESSES):
                yield next_places
            if not is_met:
                yield self._spread

    def _near(self, low: int, high: int) -> Sequence[int]:
        """Positions near the start of a range, where its end often is: those already read, or else the nearest."""
        stop = low
        while stop < min(low + MOST_PROBES, high) and stop in self._known:
            stop += 1
        return range(low, stop) if stop > low + 1 else self._behind(low, high)

    def _behind(self, low: int, high: int) -> Sequence[int]:
        return [at for at in (low + step for step in NEAR) if at < high]

    def _before(self, low: int, high: int) -> Sequence[int]:
        return [at for at in (high - 1 - step for step in reversed(NEAR)) if at >= low]

    def _ways_to_one(self, key: Key, least: int | None) -> Iterator[Way]:
        last, is_met = 0, False

        def noted(place: int) -> Sequence[int]:
            nonlocal last
            last = place
            return (place,)

        def guessed(low: int, high: int) -> Asking[Sequence[int]]:
            return noted((yield from self._guess(low, high, key)))

        def beyond(low: int, high: int) -> Sequence[int]:
            nonlocal is_met
            if not is_met and self._known.get(last) == key:  # most keys are distinct: the next one is another key
                is_met = True
                return noted(low if last < low else high - 1)
            return noted(self._beyond(low, high, key, last))

        for step in () if least is None else (1, 4, 16, 64):
            yield lambda low, high, step=step: noted(min(low + step, high) - 1)  # type: ignore[misc]
        while True:
            yield guessed
            yield beyond
            yield lambda low, high: noted((low + high) // 2)

    def _about(self, low: int, high: int, guess: int) -> Sequence[int]:
        """Positions around a guess, denser near it, all in one block of the index."""
        begin, stop = _block_of(guess, low, high)
        miss = math.isqrt(high - low)
        steps = [max(1, miss >> shift) for shift in (4, 2, 0)]
        wanted = {begin, guess, stop - 1, *(guess - step for step in steps), *(guess + step for step in steps)}
        return sorted(place for place in wanted if begin <= place < stop)

    def _spread(self, low: int, high: int) -> Sequence[int]:
        """Equally spaced positions around the middle, all in one block of the index."""
        begin, stop = _block_of((low + high) // 2, low, high)
        return [*range(begin, stop, -(-(stop - begin) // MOST_PROBES)), *((stop - 1,) if stop - begin > 1 else ())]

    def _guess(self, low: int, high: int, key: Key) -> Asking[int]:
        """The position of the key by linear interpolation between known keys, or else between the outermost keys."""
        if high - low < EVEN_FROM or isinstance(key, bytes):
            return (low + high) // 2
        first = low - 1 if low - 1 in self._known else low
        end = high if high in self._known else high - 1
        a, b, wanted = float((yield from self.key(first))), float((yield from self.key(end))), float(key)
        if not a < b or not math.isfinite(b - a):
            return (low + high) // 2
        share = min(max((wanted - a) / (b - a), 0.0), 1.0)
        return min(max(first + int(share * (end - first)), low), high - 1)

    def _beyond(self, low: int, high: int, key: Key, last: int) -> int:
        """A position beyond the key as seen from `last`, assuming that this guess missed by no more than chance."""
        if high - low < EVEN_FROM or isinstance(key, bytes):
            return (low + high) // 2
        miss = 2 * math.isqrt(high - low)
        return min(low + miss, high - 1) if last < low else max(high - miss, low)


def _block_of(place: int, low: int, high: int) -> tuple[int, int]:
    """The positions from `low` to `high` that are in the same block of the index as `place`."""
    first = _block_start(place)
    return max(low, first), min(high, first + limits.now.sorted_block)


def _block_start(place: int) -> int:
    """The first place of the block that a place is in."""
    return place // limits.now.sorted_block * limits.now.sorted_block


SORTED_ROWS = Kind(
    word="sorted_rows",
    name="SORTED_ROWS",
    build=SortedRowsBuilder,
    open=SortedRowsIndex,
    rank=30,
    rule="S5",
    clause="8.5",
    requires="SORTED_ROWS has the unsigned row numbers of the column in order, its tail lengths, and ordered.",
    attributes=(
        IndexAttribute("nan_tail_length", "count"),
        IndexAttribute("fill_tail_length", "count"),
        IndexAttribute("ordered", "flag"),
    ),
)
