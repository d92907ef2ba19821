"""Many strings at once, in Arrow's buffers: their properties, strings found in an array, and string views."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from colonnade import kernels
from colonnade.arrays import Booleans, Int32s, Int64s, Octets, UInt64s
from colonnade.filters.codecs import new_array
from colonnade.threads import in_order

Lengths = Int32s


def string_buffers(values: pa.Array) -> tuple[Lengths, Octets]:
    """The n + 1 offsets of n strings, and the bytes that they refer to."""
    _, offsets, data = values.buffers()
    ends = np.zeros(1, dtype=np.int32) if offsets is None else np.frombuffer(offsets, dtype=np.int32)
    content = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    return ends[values.offset : values.offset + len(values) + 1], content


def byte_lengths(values: pa.Array) -> Lengths:
    """The number of bytes of each string; undefined for missing strings."""
    offsets = values.buffers()[1]
    if offsets is None or not len(values):
        return np.zeros(len(values), dtype=np.int32)
    ends = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    return ends[1:] - ends[:-1]


def holds_nul(values: pa.Array) -> bool:
    """Whether a string may contain NUL. Bytes of missing strings count too, so True can be wrong; False is certain."""
    _, offsets, data = values.buffers()
    if data is None or offsets is None or not len(values):
        return False
    ends = np.frombuffer(offsets, dtype=np.int32)
    first, last = int(ends[values.offset]), int(ends[values.offset + len(values)])
    return bool(np.frombuffer(data, dtype="u1")[first:last].min(initial=1) == 0)


def equal_to(values: pa.Array, text: bytes) -> Booleans:
    """The rows that equal `text`; undefined for missing rows. Few rows are left after the first bytes are compared."""
    found = np.zeros(len(values), dtype=bool)
    rows = np.flatnonzero(byte_lengths(values) == len(text))
    _, offsets, data = values.buffers()
    if len(rows) and text and offsets is not None and data is not None:
        begins = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values)][rows]
        content = np.frombuffer(data, dtype=np.uint8)
        for place, byte in enumerate(text):
            same = content[begins + place] == byte
            rows, begins = rows[same], begins[same]
            if not len(rows):
                break
    found[rows] = True
    return found


# -- strings found in an array: by a linear scan the first time, by sorted hashes from then on --

Places = Int64s
WORTH_HASHING = 4096  # arrays of at least this many strings get a table of hashes, 16 bytes per string


class TextLookup:
    """An index for repeated lookups in an array of strings, such as categories."""

    def __init__(self, strings: pa.Array) -> None:
        self._strings = strings
        self._n_asked = 0
        self._order: Places | None = None
        self._buffers = string_buffers(strings.slice(0, 0))
        self._hashes: UInt64s = np.empty(0, dtype=np.uint64)

    def places(self, text: bytes) -> Places:
        """The positions of the strings equal to this one, in increasing order."""
        self._n_asked += 1
        if self._n_asked < 2 or len(self._strings) < WORTH_HASHING:
            return np.flatnonzero(equal_to(self._strings, text))
        if self._order is None:
            self._buffers = string_buffers(self._strings)
            hashes = _hashes(*self._buffers)
            self._order = np.empty(len(hashes), dtype=np.int64)
            kernels.argsort(hashes, self._order)
            self._hashes = hashes[self._order]
        wanted = _hashes(np.array([0, len(text)], dtype=np.int32), np.frombuffer(text, dtype=np.uint8))[0]
        at, found = int(self._hashes.searchsorted(wanted)), []
        ends, data = self._buffers
        while at < len(self._hashes) and self._hashes[at] == wanted:
            place = int(self._order[at])
            if data[ends[place] : ends[place + 1]].tobytes() == text:
                found.append(place)
            at += 1
        return np.array(sorted(found), dtype=np.int64)


def _hashes(offsets: np.ndarray, data: np.ndarray) -> UInt64s:
    low, high = np.empty(len(offsets) - 1, dtype=np.uint64), np.empty(len(offsets) - 1, dtype=np.uint64)
    kernels.hash_strings(offsets, data, 0, low, high)
    return low


# -- Strings as Arrow string views: 16 bytes per row that hold a short string, or point to a longer one --


VIEW = pa.string_view()
_VIEW = np.dtype("V16")


def as_views(column: pa.ChunkedArray, n_threads: int = 1) -> pa.ChunkedArray:
    """Strings, or dictionaries of strings, as views; any other column unchanged."""
    if pa.types.is_string(column.type):
        return _cast(column)
    if not pa.types.is_dictionary(column.type) or not pa.types.is_string(column.type.value_type):
        return column
    if any(len(part.dictionary) > len(column) for part in column.chunks):  # few rows: skip unused categories
        return _cast(column.cast(pa.string()))
    return pa.chunked_array(list(in_order(_looked_up, _with_views(column), n_threads)), VIEW)


def _cast(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([_views_of(part) for part in column.chunks], VIEW)


def _views_of(strings: pa.Array) -> pa.Array:
    """Strings as views. If all strings are short, Arrow 21 to 24 leaves the data buffer null, and crashes when the
    array is passed to another library: such a buffer is replaced by an empty one."""
    made = strings.cast(VIEW)
    missing, views, *data = made.buffers()
    if all(one is not None for one in data):
        return made
    whole = [pa.py_buffer(b"") if one is None else one for one in data]
    return pa.Array.from_buffers(VIEW, len(made), [missing, views, *whole], offset=made.offset)


def _with_views(column: pa.ChunkedArray) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The chunks of a column, each with the views of its dictionary, which are reused while it stays the same."""
    last: tuple[tuple[int, ...], pa.Array] | None = None
    for part in column.chunks:
        dictionary = part.dictionary
        key = (len(dictionary), dictionary.offset, *(0 if one is None else one.address for one in dictionary.buffers()))
        if last is None or last[0] != key:
            last = key, _views_of(dictionary)
        yield part, last[1]


def _looked_up(work: tuple[pa.Array, pa.Array]) -> pa.Array:
    part, known = work
    if not len(known) or part.null_count == len(part):
        return pa.nulls(len(part), VIEW)
    codes = part.indices if not part.null_count else part.indices.fill_null(0)
    rows = np.ascontiguousarray(codes, dtype=np.int64)
    made = new_array(len(rows), _VIEW)
    views = np.frombuffer(known.buffers()[1], dtype=_VIEW)[known.offset : known.offset + len(known)]
    kernels.take(views, _VIEW.itemsize, rows, made)
    missing = part.is_valid().buffers()[1] if part.null_count else None
    return pa.Array.from_buffers(VIEW, len(part), [missing, pa.py_buffer(made), *known.buffers()[2:]])
