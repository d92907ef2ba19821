"""Find equal strings in an array: by a linear scan the first time, by sorted hashes from then on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from colonnade import kernels
from colonnade.columns.strings import equal_to, string_buffers

Places = np.ndarray[Any, np.dtype[np.int64]]
WORTH_HASHING = 4096  # arrays of at least this many strings get a table of hashes, 16 bytes per string


class TextLookup:
    """An index for repeated lookups in an array of strings, such as categories."""

    def __init__(self, strings: pa.Array) -> None:
        self._strings = strings
        self._n_asked = 0
        self._order: Places | None = None
        self._buffers = string_buffers(strings.slice(0, 0))
        self._hashes: np.ndarray[Any, np.dtype[np.uint64]] = np.empty(0, dtype=np.uint64)

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


def _hashes(offsets: Any, data: Any) -> np.ndarray[Any, np.dtype[np.uint64]]:
    low, high = np.empty(len(offsets) - 1, dtype=np.uint64), np.empty(len(offsets) - 1, dtype=np.uint64)
    kernels.hash_strings(offsets, data, 0, low, high)
    return low
