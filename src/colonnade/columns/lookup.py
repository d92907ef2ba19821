"""Which of many strings are equal to a given one: looked through the first time, found by their hashes from then on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from colonnade import kernels
from colonnade.columns.strings import equal_to, string_buffers

Places = np.ndarray[Any, np.dtype[np.int64]]
WORTH_HASHING = 4096  # strings beyond which a table of hashes is made, 16 bytes each


class TextLookup:
    """Strings that are looked up again and again, such as categories."""

    def __init__(self, strings: pa.Array) -> None:
        self._strings = strings
        self._n_asked = 0
        self._order: Places | None = None
        self._hashes: np.ndarray[Any, np.dtype[np.uint64]] = np.empty(0, dtype=np.uint64)

    def places(self, text: bytes) -> Places:
        """Where strings are equal to this one, increasing."""
        self._n_asked += 1
        if self._n_asked < 2 or len(self._strings) < WORTH_HASHING:
            return np.flatnonzero(equal_to(self._strings, text))
        if self._order is None:
            hashes = _hashes(*string_buffers(self._strings))
            self._order = np.empty(len(hashes), dtype=np.int64)
            kernels.argsort(hashes, self._order)
            self._hashes = hashes[self._order]
        wanted = _hashes(np.array([0, len(text)], dtype=np.int32), np.frombuffer(text, dtype=np.uint8))[0]
        first, last = (int(np.searchsorted(self._hashes, wanted, side)) for side in ("left", "right"))
        near = np.sort(self._order[first:last])
        return near[equal_to(self._strings.take(pa.array(near)), text)] if len(near) else near


def _hashes(offsets: Any, data: Any) -> np.ndarray[Any, np.dtype[np.uint64]]:
    low, high = np.empty(len(offsets) - 1, dtype=np.uint64), np.empty(len(offsets) - 1, dtype=np.uint64)
    kernels.hash_strings(offsets, data, 0, low, high)
    return low
