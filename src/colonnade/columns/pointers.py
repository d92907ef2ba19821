"""Strings stored in one long array of bytes, the heap: each row is an offset and a length in it.

HeapSpans are checked against the heap before any of it is read. They may overlap, so a small file may claim far more
text than it holds: claims that are too large are refused, and a piece has only as many rows as fit into a few MiB of
text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from colonnade import limits
from colonnade.arrays import Image, Octets, UInt64s
from colonnade.columns.decode import corrupt_row, decode_numbers, strings_array
from colonnade.columns.keys import ByteKeys, Keys, Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.plain import Texts, equal_texts
from colonnade.columns.raw import (
    Companion,
    DatasetFetcher,
    Raw,
    any_of,
    fetched,
    image_of,
    part_of,
    parts_of,
    runs,
    set_column,
)
from colonnade.columns.strings import Places
from colonnade.errors import CorruptError, FormatError, UnsupportedError, UsageError
from colonnade.filters.codecs import new_array
from colonnade.model import ColumnInfo
from colonnade.nodes import Dataset
from colonnade.nodes.elements import claims_too_much, dataset_column
from colonnade.nodes.heap_source import Strings
from colonnade.selection import RowNumbers

_MOST = 2**31 - 1  # the largest offset in an Arrow string array


class HeapSpans(NamedTuple):
    """The offset and the length in bytes of each string in the heap; all are within the heap."""

    starts: Places
    lengths: Places


class PointerHeap:
    """The bytes that the rows of a column point to."""

    def __init__(self, column: ColumnInfo, stored: Companion) -> None:
        self.column, self._stored = column, stored
        self._bytes: DatasetFetcher | None = None

    @property
    def dataset(self) -> Dataset:
        """The dataset of the heap."""
        if self._stored is None or isinstance(self._stored, pa.Array):
            raise FormatError(f"column {self.column.name!r} has lost its heap", column=self.column.name)
        return self._stored

    @property
    def n_bytes(self) -> int:
        return self._open().column.n_rows

    def load(self, start: int, count: int) -> Octets:
        """`count` bytes from `start`."""
        try:
            with fetched(self._open(), start, count) as raw:
                return decode_numbers(image_of(raw), self._open().column.type, None)[0]
        except CorruptError as error:  # the error's rows are bytes of the heap, not rows of the column
            set_column(error, f"{self.column.name} (heap)")
            raise

    def refuse_too_much(self, total: int) -> None:
        """Raise an UnsupportedError if strings of `total` bytes are far more than the heap can hold."""
        stored = self.dataset.stored_bytes()
        if claims_too_much(total, stored):
            name = self.column.name
            message = f"column {name!r}: rows point to {total:,} bytes of text, but the heap has {stored:,} in the file"
            feature = "strings that share the bytes of the heap too often"
            raise UnsupportedError(message, feature=feature, column=name)

    def lengths(self, image: Image) -> UInt64s:
        """The lengths of the strings, unchecked."""
        names = image.dtype.names or ()
        if len(names) < 2 or any(image.dtype[name].kind != "u" for name in names[:2]):
            name, stored = self.column.name, self.column.type
            raise FormatError(f"column {name!r} holds {stored}, not offsets and lengths", column=name)
        return image[names[1]].astype(np.uint64)

    def pointers(self, image: Image) -> HeapSpans:
        """Offsets and lengths, checked to be within the heap."""
        lengths, n_bytes = self.lengths(image), self.n_bytes
        starts = image[(image.dtype.names or ("",))[0]].astype(np.uint64)
        room = np.uint64(n_bytes) - np.minimum(starts, np.uint64(n_bytes))
        outside = (starts > n_bytes) | (lengths > room)
        if outside.any():
            row = int(np.argmax(outside))
            found = f"{lengths[row]} bytes from {starts[row]}"
            raise corrupt_row(row, f"bytes among the {n_bytes} of the heap", found)
        return HeapSpans(starts.astype(np.int64), lengths.astype(np.int64))

    def _open(self) -> DatasetFetcher:
        if self._bytes is None:
            name = self.column.name
            info = self.dataset.describe()
            is_bytes = info.type.kind == "integer" and info.type.size == 1 and not info.type.signed
            if not is_bytes or info.shape is None or len(info.shape) != 1:
                raise FormatError(f"the heap of column {name!r} is not a one-dimensional array of bytes", column=name)
            heap = dataset_column(f"{name} (heap)", info, info.shape[0])
            self._bytes = DatasetFetcher(heap, self.dataset)
        return self._bytes


class PointerDecoder:
    """Decodes pointers to the strings that they point to."""

    def __init__(self, column: ColumnInfo, kind: pa.DataType, heap: PointerHeap) -> None:
        self._fill, self._kind, self._heap = column.fill, kind, heap

    def array(self, raw: Raw) -> pa.Array:
        strings, missing = self._follow(image_of(raw))
        return strings_array(strings, self._kind, missing)

    def numbers(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        raise TypeError("strings have no numbers")

    def keys(self, raw: Raw) -> Keys:
        return ByteKeys(self.key_array(raw))

    def key_array(self, raw: Raw) -> pa.Array:
        return self.array(raw).cast(pa.binary())

    def values(self, keys: Keys) -> pa.Array:
        assert isinstance(keys, ByteKeys)  # as returned by keys
        return keys.array.cast(pa.string())

    def part(self, raw: Raw, begin: int, end: int) -> Raw:
        return part_of(raw, begin, end)

    def _follow(self, image: Image) -> tuple[Strings, Mask | None]:
        """The bytes that rows point to, and a mask of missing rows (None if no row is missing)."""
        pointers = self._heap.pointers(image)
        total = float(pointers.lengths.sum(dtype=np.float64))
        self._heap.refuse_too_much(int(total))
        if total > _MOST:
            raise UsageError(f"the text of these {len(image):,} rows has more than 2 GiB: take fewer")
        offsets = np.concatenate(([0], np.cumsum(pointers.lengths))).astype(np.int32)
        data = new_array(int(offsets[-1]), np.dtype(np.uint8))
        gather(pointers, self._heap.load, data)
        strings = Strings(offsets, data)
        if self._fill is None:
            return strings, None
        return strings, any_of(equal_texts(Texts(data, offsets[:-1].astype(np.int64), pointers.lengths), self._fill))


class PointerFetcher:
    """Rows of pointers. A piece has only as many rows as point to a few MiB of text."""

    n_threads = 1
    source = None

    def __init__(self, rows: DatasetFetcher, heap: PointerHeap) -> None:
        self._rows, self._heap = rows, heap

    def fetch(self, start: int, count: int) -> Raw | None:
        return self._rows.fetch(start, count)

    def by_library(self, start: int, count: int, step: int = 1) -> AbstractContextManager[Raw]:
        return self._rows.by_library(start, count, step)

    def take(self, rows: RowNumbers) -> Image:
        """All pointers at once, so that each byte of the heap is read about once."""
        return np.concatenate(parts_of(self._rows.column, rows, self._image))

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Runs of rows with a few MiB of text each; raises once their total is far larger than the heap."""
        total = 0
        for first, last in self._rows.pieces(start, stop):
            lengths = np.minimum(self._heap.lengths(self._image(first, last - first)), self._heap.n_bytes)
            for begin, end in runs(lengths, limits.now.pointed_bytes):
                total += int(lengths[begin:end].sum(dtype=np.float64))
                self._heap.refuse_too_much(total)
                yield first + begin, first + end

    @property
    def stored_bytes(self) -> int:
        """Bytes that the pointers and the heap take in the file."""
        return self._rows.stored_bytes + self._heap.dataset.stored_bytes()

    def written_rows(self) -> int:
        return self._rows.written_rows()

    def _image(self, start: int, count: int) -> Image:
        """The pointers of these rows."""
        with fetched(self._rows, start, count) as raw:
            pointers: Image = image_of(raw).copy()
            return pointers


def gather(pointers: HeapSpans, load: Callable[[int, int], Octets], out: Octets) -> None:
    """Concatenate the bytes that the pointers refer to. Sorted by offset, each byte of the heap is read about once."""
    places = np.concatenate(([0], np.cumsum(pointers.lengths)))[:-1]
    rows = np.flatnonzero(pointers.lengths)
    rows = rows[np.argsort(pointers.starts[rows], kind="stable")]
    starts, lengths, places = pointers.starts[rows], pointers.lengths[rows], places[rows]
    for first, last in spans(starts, lengths):
        begin, stop = int(starts[first]), int((starts[first:last] + lengths[first:last]).max())
        span = load(begin, stop - begin)
        _scatter(span, starts[first:last] - begin, lengths[first:last], places[first:last], out)


def spans(starts: Places, lengths: Places) -> Iterator[tuple[int, int]]:
    """Ranges of strings, sorted by offset, to be read together: close to each other, and not too long."""
    reach = np.maximum.accumulate(starts + lengths) if len(starts) else starts
    breaks = np.append(np.flatnonzero(starts[1:] - reach[:-1] > limits.now.pointed_gap) + 1, len(starts))
    first = 0
    while first < len(starts):
        near = int(breaks[np.searchsorted(breaks, first, "right")])
        farthest = starts[first] + limits.now.pointed_span
        near = min(near, int(np.searchsorted(starts, farthest, "right")))
        beyond = starts[first:near] + lengths[first:near] > farthest
        last = first + int(np.argmax(beyond)) if beyond.any() else near
        last = max(last, first + 1)
        yield first, last
        first = last


def _scatter(span: Octets, starts: Places, lengths: Places, places: Places, out: Octets) -> None:
    """Copy the strings of a span to their positions in `out`."""
    if (starts[1:] == starts[:-1] + lengths[:-1]).all() and (places[1:] == places[:-1] + lengths[:-1]).all():
        out[places[0] : places[0] + len(span)] = span
        return
    ends = np.cumsum(lengths)
    at = 0
    while at < len(ends):
        before = int(ends[at - 1]) if at else 0
        end = int(np.searchsorted(ends, before + limits.now.pointed_step, "right"))
        if end <= at:  # a string longer than a step
            start, length, place = int(starts[at]), int(lengths[at]), int(places[at])
            out[place : place + length] = span[start : start + length]
            at += 1
            continue
        some = slice(at, end)
        within = np.arange(int(ends[end - 1]) - before) - np.repeat(ends[some] - lengths[some] - before, lengths[some])
        out[np.repeat(places[some], lengths[some]) + within] = span[np.repeat(starts[some], lengths[some]) + within]
        at = end
