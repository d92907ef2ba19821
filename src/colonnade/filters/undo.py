"""Byte filters undone outside the HDF5 library, and so outside its lock.

There is one function per filter: it takes data as stored, and returns data as it was before the filter. The last one
writes directly into the destination of the rows. Data that cannot be undone here, or is invalid, is a ValueError: the
library then reads the chunk, and reports what is wrong with it. To add a filter, add a function and a line in UNDO.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from colonnade import kernels
from colonnade.arrays import Int64s
from colonnade.filters.codecs import (
    LIMIT,
    ByteBuffer,
    Data,
    LeftToLibrary,
    as_view,
    decompress,
    inflate,
    inflate_all,
    zstd_size,
)
from colonnade.model import FilterInfo

Undo = Callable[[Data, Sequence[int], ByteBuffer | None, int | None], Data]
"""Takes data, the filter's options, the destination (None: any), and the size of the result if it is known."""

Sizes = Int64s

DEFLATE, N_BIT, SCALE_OFFSET = 1, 5, 6
SCALE_OFFSET_HEAD = 21  # bytes before the packed numbers of a chunk
_SO_INT = 2
_DEFLATED = ((DEFLATE,), (2, DEFLATE))  # deflate alone, and after shuffle
LZF, BLOSC, LZ4, BITSHUFFLE, BLOSC2 = 32000, 32001, 32004, 32008, 32026


UNKNOWN_SIZE = "the unpacked size is not known"  # another compressing filter was applied before
MOST_GROWN, SLACK = 2, 1 << 16  # factor, and bytes, by which filtered data may be larger


class Pipeline:
    """The filters of a dataset. Safe to be used by several threads."""

    def __init__(self, filters: Sequence[FilterInfo], chunk_bytes: int) -> None:
        self._steps = [(step.id, _undo_of(step), step.options) for step in filters]
        self._chunk_bytes = chunk_bytes

    def check_size(self, size: int) -> None:
        """Raise if a stored chunk is far larger than the unpacked chunk: no filter makes chunks that much larger."""
        if size > MOST_GROWN * self._chunk_bytes + SLACK:
            raise ValueError(f"the chunk claims {size:,} bytes, but unpacks to {self._chunk_bytes:,}")

    @property
    def is_empty(self) -> bool:
        return not self._steps

    @property
    def is_known(self) -> bool:
        """Whether every filter can be undone here."""
        slow = kernels.FORM != "c" and any(number == SCALE_OFFSET for number, _, _ in self._steps)  # in NumPy
        return self._chunk_bytes <= LIMIT and not slow and all(undo is not None for _, undo, _ in self._steps)

    @property
    def scale_offset(self) -> Sequence[int] | None:
        """The options of scale-offset, if it is the only filter and packs: then single rows can be unpacked."""
        if len(self._steps) != 1 or self._steps[0][0] != SCALE_OFFSET or is_copy(self._steps[0][2]):
            return None
        return self._steps[0][2]

    @property
    def takes_many(self) -> bool:
        """Whether `undo_many` supports these filters."""
        numbers = tuple(number for number, _, _ in self._steps)
        plain = all(number != 2 or options for number, _, options in self._steps)
        return (numbers in _DEFLATED and plain) or self.scale_offset is not None

    def undo_many(self, data: ByteBuffer, sizes: Sizes, out: ByteBuffer, look: bytes | None) -> bool | None:
        """Unpack whole chunks, which have skipped no filter, into `out` in one call (see `takes_many`).

        Returns whether an element equals `look`; None if that is not known.
        """
        packed = self.scale_offset
        if packed is not None:
            dtype, fill, decimals = scale_offset_form(tuple(packed))
            return kernels.decode_scaleoffset_chunks(data, sizes, out.view(dtype), fill, decimals, look)
        _inflate_many(data, sizes, out, self._steps[0][2][0] if len(self._steps) == 2 else 1)
        return None

    def undo(self, data: Data, mask: int, out: ByteBuffer) -> None:
        """Unpack a whole chunk into `out`; `mask` has a bit for each filter that was skipped."""
        steps = [step for position, step in enumerate(self._steps) if not mask >> position & 1]
        for position in range(len(steps) - 1, -1, -1):
            _, undo, options = steps[position]
            assert undo is not None  # callers check is_known first
            size = _size_before(steps[:position], self._chunk_bytes)
            data = undo(data, options, out if position == 0 else None, size)
        if data is not out:
            given = np.frombuffer(data, dtype=np.uint8)
            if len(given) != len(out):
                raise ValueError(f"a chunk has {len(given)} bytes, expected {len(out)}")
            out[...] = given


def _undo_of(step: FilterInfo) -> Undo | None:
    """The function that undoes a filter; None if there is none for it, or for its options."""
    if step.id == N_BIT and not _keeps_all_bits(step.options):
        return None
    return UNDO.get(step.id)


def _size_before(steps: Sequence[tuple[int, object, object]], chunk_bytes: int) -> int | None:
    """The size of a chunk after these filters; None if it depends on the data."""
    size = chunk_bytes
    for number, _, _ in steps:
        if number == 3:
            size += 4
        elif number != 2:
            return None
    return size


def _unshuffle(data: Data, options: Sequence[int], out: ByteBuffer | None, size: int | None) -> Data:
    if not options:
        raise ValueError("the options of shuffle lack the size of an item")
    target = np.empty(len(data), dtype=np.uint8) if out is None else out
    kernels.unshuffle(data, target, options[0])
    return target


def _check_fletcher32(data: Data, options: Sequence[int], out: ByteBuffer | None, size: int | None) -> Data:
    """The last four bytes are the checksum; HDF5 before 1.6.3 wrote its halves with their bytes swapped."""
    if len(data) < 4:
        raise ValueError("a chunk is shorter than its checksum")
    view = as_view(data)
    content, sums = view[:-4], bytes(view[-4:])
    computed = kernels.fletcher32(content).to_bytes(4, "little")
    swapped = bytes((computed[1], computed[0], computed[3], computed[2]))
    if sums not in (computed, swapped):
        raise ValueError("a chunk does not match its checksum")
    return content


def _inflate(data: Data, options: Sequence[int], out: ByteBuffer | None, size: int | None) -> Data:
    return inflate_all(data) if size is None else inflate(data, size)


def _inflate_many(data: ByteBuffer, sizes: Sizes, out: ByteBuffer, item_size: int) -> None:
    """Inflate chunks that follow each other into equal parts of `out`; items of more than one byte were shuffled."""
    at, size = 0, len(out) // len(sizes)
    for begin, stored in zip(range(0, len(out), size), sizes.tolist(), strict=True):
        inflated = inflate(data[at : at + stored], size)
        target = out[begin : begin + size]
        if item_size > 1:
            kernels.unshuffle(inflated, target, item_size)
        else:
            target[...] = np.frombuffer(inflated, dtype=np.uint8)
        at += stored


def _unpack(codec: str) -> Undo:
    def unpack(data: Data, options: Sequence[int], out: ByteBuffer | None, size: int | None) -> Data:
        if size is None and (size := zstd_size(data)) is None:
            raise LeftToLibrary(UNKNOWN_SIZE)
        target = np.empty(size, dtype=np.uint8) if out is None else out
        decompress(codec, data, target)
        return target

    return unpack


def _unpack_lz4(data: Data, options: Sequence[int], out: ByteBuffer | None, size: int | None) -> Data:
    """Header: total size (8) and block size (4), big-endian. Each block is preceded by its stored size."""
    if size is None:
        raise LeftToLibrary(UNKNOWN_SIZE)
    view = as_view(data)
    total, block = int.from_bytes(view[:8], "big"), int.from_bytes(view[8:12], "big")
    if total != size or (block < 1 and total):
        raise ValueError("the header of an lz4 chunk is invalid")
    target = np.empty(size, dtype=np.uint8) if out is None or len(out) != size else out
    at, done = 12, 0
    while done < size:
        stored, wanted = int.from_bytes(view[at : at + 4], "big"), min(block, size - done)
        part = view[at + 4 : at + 4 + stored]
        if len(part) != stored:
            raise ValueError("an lz4 chunk is cut off")
        if stored == wanted:
            target[done : done + wanted] = np.frombuffer(part, dtype=np.uint8)
        else:
            decompress("lz4", part, target[done : done + wanted])
        at, done = at + 4 + stored, done + wanted
    return target


def _unpack_lzf(data: Data, options: Sequence[int], out: ByteBuffer | None, size: int | None) -> Data:
    """The filter of h5py. Its third option is the size of a chunk, which it wrote as it was if LZF did not help."""
    if size is None:
        raise LeftToLibrary(UNKNOWN_SIZE)
    target = np.empty(size, dtype=np.uint8) if out is None else out
    kernels.unpack_lzf(data, target)
    return target


def _undo_bitshuffle(data: Data, options: Sequence[int], out: ByteBuffer | None, size: int | None) -> Data:
    """Options: version (2), bytes of an item, items of a block (0: the default), compressor."""
    if size is None:
        raise LeftToLibrary(UNKNOWN_SIZE)
    if len(options) < 4 or options[2] < 1:
        raise ValueError("the options of bitshuffle are invalid")
    item, compressor = options[2], options[4] if len(options) > 4 else 0
    if compressor not in (0, 2, 3):
        raise LeftToLibrary(f"bitshuffle with compressor {compressor} is left to the library")
    block = options[3] or max(8192 // item // 8 * 8, 128)
    target = np.empty(size, dtype=np.uint8) if out is None else out
    if compressor:
        codec = "lz4" if compressor == 2 else "zstd"
        data, block = _unpack_blocks(as_view(data), codec, item, size)
    kernels.bit_unshuffle(data, target, item, block)
    return target


def _unpack_blocks(view: memoryview, codec: str, item: int, size: int) -> tuple[Data, int]:
    """The bits of all blocks, and the items per block. Header: total size (8) and block size (4), big-endian; each
    block is preceded by its stored size; items after the last multiple of 8 are stored unchanged."""
    total, block = int.from_bytes(view[:8], "big"), int.from_bytes(view[8:12], "big")
    if total != size or block < 1 or block % (8 * item):
        raise ValueError("the header of a bitshuffle chunk is invalid")
    packed = np.empty(size, dtype=np.uint8)
    at, done, end = 12, 0, size // (8 * item) * (8 * item)
    while done < end:
        stored, wanted = int.from_bytes(view[at : at + 4], "big"), min(block, end - done)
        decompress(codec, view[at + 4 : at + 4 + stored], packed[done : done + wanted])
        at, done = at + 4 + stored, done + wanted
    rest = view[at : at + size - end]
    if len(rest) != size - end:
        raise ValueError("a bitshuffle chunk is cut off")
    packed[end:] = np.frombuffer(rest, dtype=np.uint8)
    return packed, block // item


def _undo_blosc(is_frame: bool) -> Undo:
    """Undo blosc, or blosc2, whose chunks are frames. The module is imported by whoever has such chunks."""

    def undo(data: Data, options: Sequence[int], out: ByteBuffer | None, size: int | None) -> Data:
        from colonnade.filters import blosc

        if size is None:
            raise LeftToLibrary(UNKNOWN_SIZE)
        target = np.empty(size, dtype=np.uint8) if out is None else out
        (blosc.unpack_frame if is_frame else blosc.unpack_blosc)(as_view(data), target)
        return target

    return undo


def is_copy(options: Sequence[int]) -> bool:
    """Whether the options of scale-offset keep all bits, so that elements are stored unchanged."""
    return len(options) > 4 and options[0] == _SO_INT and options[1] == 8 * options[4]


PackedForm = tuple[np.dtype, bytes | None, int]
"""What scale-offset packs: the NumPy type of the elements, the fill value, the decimals of floats."""


@lru_cache(maxsize=256)
def scale_offset_form(options: tuple[int, ...]) -> PackedForm:
    """From the options of scale-offset: type of the elements, fill value, decimals of floats."""
    if len(options) < 8 or options[4] not in (1, 2, 4, 8):
        raise ValueError("the options of scale-offset are invalid")
    kind = "f" if options[3] == 1 else "i" if options[5] else "u"
    dtype = np.dtype(f"{'>' if options[6] else '<'}{kind}{options[4]}")
    fill = b"".join(int(word).to_bytes(4, "little") for word in options[8:])[: options[4]] if options[7] else None
    if fill is not None and len(fill) != options[4]:
        raise ValueError("the options of scale-offset lack the fill")
    decimals = options[1] - (1 << 32) if options[1] >= 1 << 31 else options[1]
    return dtype, fill, decimals


def _undo_scale_offset(data: Data, options: Sequence[int], out: ByteBuffer | None, size: int | None) -> Data:
    if is_copy(options):
        return data
    if size is None:
        raise LeftToLibrary(UNKNOWN_SIZE)
    dtype, fill, decimals = scale_offset_form(tuple(options))
    target = np.empty(size, dtype=np.uint8) if out is None else out
    kernels.decode_scaleoffset(data, target.view(dtype), fill, decimals)
    return target


def _keeps_all_bits(options: Sequence[int]) -> bool:
    """Whether the options of n-bit find all bits significant, so that the filter does nothing."""
    return len(options) > 1 and bool(options[1])


def _undo_n_bit(data: Data, options: Sequence[int], out: ByteBuffer | None, size: int | None) -> Data:
    """Only where the filter did nothing."""
    return data


UNDO: dict[int, Undo] = {
    1: _inflate,
    2: _unshuffle,
    3: _check_fletcher32,
    N_BIT: _undo_n_bit,
    SCALE_OFFSET: _undo_scale_offset,
    32015: _unpack("zstd"),
}
if kernels.FORM == "c":
    UNDO |= {
        LZF: _unpack_lzf,
        BLOSC: _undo_blosc(is_frame=False),
        LZ4: _unpack_lz4,
        BITSHUFFLE: _undo_bitshuffle,
        BLOSC2: _undo_blosc(is_frame=True),
    }
