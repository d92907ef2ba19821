"""Byte filters applied outside the HDF5 library, and so outside its lock: the inverse of `undo`.

The result is what the library would write, or reads as the same data. A filter that cannot represent a chunk is
skipped for that chunk, and its bit in the mask is set. On request, a filter that does not make the chunk smaller is
skipped too; in datasets that HDF5 reads, masks are better avoided (see `h5/row_sink.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType

import numpy as np
import pyarrow as pa

from colonnade import kernels, limits
from colonnade.arrays import Booleans, Octets
from colonnade.filters.codecs import LOADING, Data, as_view
from colonnade.filters.undo import DEFLATE, SCALE_OFFSET, SCALE_OFFSET_HEAD, is_copy, scale_offset_form
from colonnade.model import FilterInfo, StoredType
from colonnade.stored_dtypes import raw_dtype

SHUFFLE, ZSTD = 2, 32015
COMPRESSORS = (DEFLATE, SCALE_OFFSET, ZSTD)
ChunkElements = np.ndarray
WORTH_MATCHING = 1.03  # a result up to this many times longer is accepted, because it takes half the time
TRIED_EVERY = 32  # chunks
Apply = Callable[[Data, Sequence[int]], Data | None]
"""Takes data and the filter's options, returns filtered data; None means that the filter is skipped."""


class Habit:
    """Which of two ways to deflate suits the chunks of a dataset. Both are tried on the first, and periodically."""

    def __init__(self) -> None:
        self.runs = False
        self._n_asked = 0

    def is_due(self) -> bool:
        """Whether to try both ways on the next chunk."""
        self._n_asked += 1
        return self._n_asked % TRIED_EVERY == 1


class Packer:
    """The filters of a dataset, applied to whole chunks. Safe to be used by several threads."""

    def __init__(self, filters: Sequence[FilterInfo], skip_useless: bool = False) -> None:
        self._skips_useless = skip_useless
        self._steps = [(step.id, APPLY.get(step.id), step.options) for step in filters]

    @property
    def is_empty(self) -> bool:
        return not self._steps

    @property
    def is_known(self) -> bool:
        """Whether every filter can be applied here."""
        return all(
            apply is not None and (number != SCALE_OFFSET or _is_packed(options))
            for number, apply, options in self._steps
        )

    @property
    def deflates_quickly(self) -> bool:
        """Whether chunks are deflated at a level that favours speed."""
        quick = limits.now.quick_level
        return any(number == DEFLATE and _level(options) <= quick for number, _, options in self._steps)

    def pack_either(self, data: Data) -> tuple[tuple[Data, int], bool]:
        """A chunk packed in the better of both ways, and whether that is by runs."""
        by_runs, by_matches = self.pack(data, runs=True), self.pack(data)
        suits_runs = len(by_runs[0]) <= WORTH_MATCHING * len(by_matches[0])
        return by_runs if suits_runs else by_matches, suits_runs

    def pack(self, data: Data, runs: bool = False) -> tuple[Data, int]:
        """The bytes to be stored for a chunk, and the mask of the filters that were skipped.

        runs: deflate with literals and runs of one byte only. Faster, and not longer if nothing else repeats.
        """
        mask = 0
        for step, (number, apply, options) in enumerate(self._steps):
            assert apply is not None  # callers check is_known first
            by_runs = runs and number == DEFLATE and _level(options) <= limits.now.quick_level
            packed = _deflate_runs(data) if by_runs else None
            if packed is None:
                packed = apply(data, options)
            if packed is None or (self._skips_useless and number in COMPRESSORS and len(packed) >= len(data)):
                mask |= 1 << step
            else:
                data = packed
        return data, mask


def trial_size(text: str, stored: StoredType, fill: bytes | None, image: ChunkElements) -> int:
    """The size of these rows as one chunk with "deflate", "shuffle+deflate" or "scale-offset", without a file.

    Rows whose type differs between memory and file are packed in their memory form.
    """
    elements = np.ascontiguousarray(image)
    if (dtype := raw_dtype(stored)) is not None:
        elements = elements.astype(dtype, copy=False)
    packer = Packer([_trial_step(name, stored, fill, len(image)) for name in text.split("+")])
    data = elements.reshape(-1).view(np.uint8)
    packed, _ = packer.pack_either(data)[0] if packer.deflates_quickly else packer.pack(data)
    return len(packed)


def _trial_step(name: str, stored: StoredType, fill: bytes | None, count: int) -> FilterInfo:
    """One filter with the options that HDF5 would set for `count` rows of this type."""
    if name == "deflate":
        return FilterInfo(DEFLATE, name, (1,), True)
    if name == "shuffle":
        return FilterInfo(SHUFFLE, name, (stored.size,), True)
    fill_words = np.frombuffer((fill or b"").ljust(8, b"\0"), dtype="<u4").tolist()
    signed, big = int(stored.signed), int(stored.order == "big")
    return FilterInfo(SCALE_OFFSET, name, (2, 0, count, 0, stored.size, signed, big, 1, *fill_words), True)


def _shuffle(data: Data, options: Sequence[int]) -> Data | None:
    shuffled = np.empty(len(data), dtype=np.uint8)
    kernels.shuffle(data, shuffled, options[0])
    return shuffled


def _add_fletcher32(data: Data, options: Sequence[int]) -> Data | None:
    return bytes(data) + kernels.fletcher32(data).to_bytes(4, "little")


FLOATS = 1  # class of the datatype, in the options of scale-offset
HIGHEST_LEVEL = 9


def _fast_zlib() -> ModuleType | None:
    """isal's replacement of zlib, which deflates faster, if it is installed."""
    with LOADING:
        return _loaded_zlib()


@cache
def _loaded_zlib() -> ModuleType | None:
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    return isal_zlib


def _level(options: Sequence[int]) -> int:
    return options[0] if options and options[0] <= HIGHEST_LEVEL else 6  # a file may contain any value


def _deflate_runs(data: Data) -> Data | None:
    packed = np.empty(len(data), dtype=np.uint8)
    return packed[:size] if (size := kernels.deflate(data, packed)) else None


def _deflate(data: Data, options: Sequence[int]) -> Data | None:
    level = _level(options)
    fast = _fast_zlib() if 1 <= level <= limits.now.quick_level else None
    packed: bytes = zlib.compress(as_view(data), level) if fast is None else fast.compress(data, 1)
    return packed


def _pack_zstd(data: Data, options: Sequence[int]) -> Data | None:
    level = options[0] if options else 3
    packed = memoryview(pa.Codec("zstd", compression_level=level).compress(pa.py_buffer(data)))
    return packed.cast("B")  # Arrow's buffer was shortened, but its shape still has the old length


def _is_packed(options: Sequence[int]) -> bool:
    """Whether scale-offset stores integers exactly (packed or as they are), or floats with a number of decimals.

    False where its options fix the number of bits of integers: it truncates values that need more.
    """
    if len(options) < 8:
        return False
    return options[0] == 0 if options[3] == FLOATS else options[1] == 0 or is_copy(options)


def _pack_scale_offset(data: Data, options: Sequence[int]) -> Data | None:
    """Skip the filter for values that need all bits of their type: recent libraries could not read them."""
    if is_copy(options):
        return data
    dtype, fill, decimals = scale_offset_form(tuple(options))
    values = np.frombuffer(data, dtype=dtype).astype(dtype.newbyteorder("="), copy=False)
    if dtype.kind == "f":
        return _pack_decimals(values, fill, decimals)
    packed = np.empty(values.nbytes + SCALE_OFFSET_HEAD + 1, dtype=np.uint8)
    size = kernels.encode_scaleoffset(values, packed, fill)
    return packed[:size] if size else None


def _pack_decimals(values: np.ndarray, fill: bytes | None, decimals: int) -> Data | None:
    """Floats rounded to `decimals`; None if one would become a different value, missing, or not a number.

    The library rounds to steps counted from the smallest value of the chunk, so rows would change whenever that value
    changes. Here the smallest value is rounded first, so that repacking does not change rows.
    """
    width = values.itemsize
    mark = None if fill is None else np.frombuffer(fill, dtype=f"<f{width}")[0]
    is_fill = np.zeros(len(values), bool) if mark is None else np.isnan(values) if np.isnan(mark) else values == mark
    with np.errstate(all="ignore"):  # overflow is detected afterwards, as not finite
        steps = np.rint(values[~is_fill].astype("f8") * 10.0**decimals)
        low = steps.min(initial=np.inf) if len(steps) else 0.0
        if not np.isfinite(low) or not (steps - low < 2.0 ** (8 * width - 1)).all():
            return None
    whole = np.full(len(values), -1, dtype=f"i{width}").view(f"u{width}")
    whole[~is_fill] = (steps - low).astype(whole.dtype)
    packed = np.empty(values.nbytes + SCALE_OFFSET_HEAD + 1, dtype=np.uint8)
    size = kernels.encode_scaleoffset(whole, packed, None if fill is None else b"\xff" * width)
    if not size:
        return None
    packed[5 : 5 + width] = np.array([low / 10.0**decimals], dtype=f"<f{width}").view(np.uint8)
    return packed[:size] if _are_near(values, is_fill, packed[:size], fill, decimals) else None


def _are_near(values: np.ndarray, is_fill: Booleans, packed: Octets, fill: bytes | None, decimals: int) -> bool:
    """Whether values come back rounded, and exactly the same ones are missing."""
    back = np.empty_like(values)
    kernels.decode_scaleoffset(packed, back, fill, decimals)
    if fill is not None and (back[~is_fill] == np.frombuffer(fill, dtype=f"<f{values.itemsize}")[0]).any():
        return False
    given, unpacked = values[~is_fill], back[~is_fill]
    step = 0.5 * 10.0**-decimals + 4 * np.spacing(np.abs(given).max(initial=0)).astype("f8")
    return bool((np.abs(given.astype("f8") - unpacked.astype("f8")) <= step).all())


APPLY: dict[int, Apply] = {
    DEFLATE: _deflate,
    SHUFFLE: _shuffle,
    3: _add_fletcher32,
    SCALE_OFFSET: _pack_scale_offset,
    ZSTD: _pack_zstd,
}
