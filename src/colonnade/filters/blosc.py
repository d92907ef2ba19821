"""Decompression of chunks of the filters blosc and blosc2.

A Blosc buffer is a header, the offsets of its blocks, and the blocks. A block is one stream, or one for each byte of an
item; a stream is preceded by its stored size. Each block was shuffled separately. blosc2 has a longer header, and puts
its buffer in a frame: a header, the buffer, and the offset of the buffer. What a header claims is compared with the
actual bytes before it is used; special cases (other filters, dictionaries, special values) are left to the library.

It is implemented here because importing the package blosc2 takes longer than it saves on less than a gigabyte, and
because blosc2 holds the GIL unless that is changed for the whole process.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from colonnade import kernels
from colonnade.filters.codecs import ByteBuffer, LeftToLibrary, decompress, inflate

_HEAD, _LONG_HEAD = 16, 32
_BY_BYTE, _COPY, _BY_BIT, _DELTA, _WHOLE = 1, 2, 4, 8, 16  # flags: _COPY: not packed, _WHOLE: blocks are one stream
_LONG = _BY_BYTE | _BY_BIT
_ZEROS = 1 << 4  # in the last byte of a long header: all bytes are zero
_OTHERS = {1: "lz4", 4: "zstd"}
_BLOSCLZ, _ZLIB = 0, 3
_LARGEST_SPLIT, _LEAST_ITEMS = 16, 128  # short headers: largest item, and fewest items, of a block that is split
_FRAME_HEAD = 87  # bytes before the variable-length part of a frame's header
_INDEX = 40  # bytes of the offset of one buffer at the end of a frame: a long header, and 8
_NOTHING_BUT_ZEROS = 0x81 << 56  # an offset that marks a buffer of zeros


class _Head(NamedTuple):
    """The fields of a buffer's header."""

    length: int
    item: int
    block: int
    codec: int
    shuffle: int
    is_copy: bool
    is_split: bool
    is_zeros: bool

    @property
    def is_long(self) -> bool:
        return self.length == _LONG_HEAD


def unpack_blosc(buffer: memoryview, out: ByteBuffer) -> None:
    """Unpack a Blosc buffer to exactly the bytes of `out`."""
    head = _read_head(buffer, len(out))
    if head.is_zeros:
        out[...] = 0
    elif head.is_copy:
        stored = buffer[head.length :]
        if len(stored) != len(out):
            raise ValueError("a blosc chunk that is not packed has the wrong length")
        out[...] = np.frombuffer(stored, dtype=np.uint8)
    else:
        _unpack_blocks(buffer, head, out)


def unpack_frame(frame: memoryview, out: ByteBuffer) -> None:
    """Unpack the only buffer of a blosc2 frame."""
    if len(frame) < _FRAME_HEAD or bytes(frame[2:10]) != b"b2frame\0" or frame[26] & 15:
        raise ValueError("a blosc2 chunk is not a contiguous frame")
    begin, end = int.from_bytes(frame[11:15], "big"), int.from_bytes(frame[16:24], "big")
    size, packed = int.from_bytes(frame[30:38], "big"), int.from_bytes(frame[39:47], "big")
    if end != len(frame) or size != len(out) or begin < _FRAME_HEAD or begin + packed + _INDEX > end:
        raise ValueError("the header of a blosc2 frame is invalid")
    index = np.empty(8, dtype=np.uint8)
    unpack_blosc(frame[begin + packed : begin + packed + _INDEX], index)
    offset = int.from_bytes(index.tobytes(), "little")
    if offset == 0 and packed:
        unpack_blosc(frame[begin : begin + packed], out)
    elif offset == _NOTHING_BUT_ZEROS and not packed:
        out[...] = 0
    else:
        raise ValueError("a blosc2 frame holds more than one buffer")


def _read_head(buffer: memoryview, size: int) -> _Head:
    if len(buffer) < _HEAD:
        raise ValueError("a blosc chunk is shorter than its header")
    version, _, flags, item = buffer[:4]
    claimed, block, stored = (int.from_bytes(buffer[at : at + 4], "little") for at in (4, 8, 12))
    is_long = flags & _LONG == _LONG
    if flags & _DELTA or version not in ((3, 4, 5) if is_long else (2,)):
        raise LeftToLibrary("a blosc chunk of this version is left to the library")
    if claimed != size or stored != len(buffer) or item < 1 or not 0 < block <= max(size, item):
        raise ValueError("the header of a blosc chunk is invalid")
    shuffle, is_zeros = _read_filters(buffer) if is_long else (flags & _LONG, False)
    length = _LONG_HEAD if is_long else _HEAD
    return _Head(length, item, block, flags >> 5, shuffle, bool(flags & _COPY), not flags & _WHOLE, is_zeros)


def _read_filters(buffer: memoryview) -> tuple[int, bool]:
    """How items were shuffled, and whether all bytes are zero, from the second half of a long header."""
    if len(buffer) < _LONG_HEAD:
        raise ValueError("a blosc2 chunk is shorter than its header")
    codes, metas, special = sorted(buffer[16:22]), bytes(buffer[24:31]), buffer[31]
    if special == _ZEROS and len(buffer) != _LONG_HEAD:
        raise ValueError("a blosc2 chunk of zeros holds more data")
    if any(codes[:-1]) or codes[-1] > 2 or any(metas) or special not in (0, _ZEROS):
        raise LeftToLibrary("a blosc2 chunk with these filters is left to the library")
    return (0, _BY_BYTE, _BY_BIT)[codes[-1]], special == _ZEROS


def _unpack_blocks(buffer: memoryview, head: _Head, out: ByteBuffer) -> None:
    n_blocks = -(-len(out) // head.block)
    n_streams = _streams_of(head)
    n_sizes = (n_blocks - 1) * n_streams + 1  # of streams: 4 bytes each; there are no streams of less than 16 bytes
    if head.length + 4 * (n_blocks + n_sizes) > len(buffer) or n_sizes > 64 + len(out) // 16:
        raise ValueError("a blosc chunk has too many blocks")
    packed = np.empty(head.block, dtype=np.uint8) if head.shuffle else None
    for number in range(n_blocks):
        at = head.length + 4 * number
        target = out[number * head.block : (number + 1) * head.block]
        shuffled = target if packed is None else packed[: len(target)]
        is_last = len(target) < head.block
        begin = int.from_bytes(buffer[at : at + 4], "little")
        _unpack_block(buffer, begin, head, shuffled, 1 if is_last else n_streams)
        if packed is not None:
            _unshuffle(shuffled, target, head)


def _streams_of(head: _Head) -> int:
    """The number of streams of a full-length block."""
    few = head.item > _LARGEST_SPLIT or head.block // head.item < _LEAST_ITEMS
    return 1 if not head.is_split or (few and not head.is_long) else head.item


def _unpack_block(buffer: memoryview, at: int, head: _Head, out: ByteBuffer, n_streams: int) -> None:
    """Unpack the block that begins at `at`."""
    wanted = len(out) // n_streams
    if wanted * n_streams != len(out):
        raise ValueError("a block of a blosc chunk cannot be split into its streams")
    for begin in range(0, len(out), wanted):
        if at + 4 > len(buffer):
            raise ValueError("a blosc chunk is cut off")
        stored = int.from_bytes(buffer[at : at + 4], "little", signed=True)
        at += 4
        if stored <= 0:
            at += _fill_run(buffer, at, stored, head, out[begin : begin + wanted])
            continue
        part = buffer[at : at + stored]
        if len(part) != stored:
            raise ValueError("a blosc chunk is cut off")
        _unpack_stream(part, head.codec, out[begin : begin + wanted])
        at += stored


def _fill_run(buffer: memoryview, at: int, stored: int, head: _Head, out: ByteBuffer) -> int:
    """Unpack a stream of one repeated byte, encoded in its stored size; returns the bytes used after the size."""
    if not head.is_long or stored < -255 or (stored < 0 and bytes(buffer[at : at + 1]) != b"\1"):
        raise ValueError("a stream of a blosc chunk has no size")
    out[...] = -stored
    return 1 if stored else 0


def _unpack_stream(part: memoryview, codec: int, out: ByteBuffer) -> None:
    if len(part) == len(out):  # stored as it was, because it did not become smaller
        out[...] = np.frombuffer(part, dtype=np.uint8)
    elif codec == _BLOSCLZ:
        kernels.unpack_blosclz(part, out)
    elif codec == _ZLIB:
        out[...] = np.frombuffer(inflate(part, len(out)), dtype=np.uint8)
    elif codec in _OTHERS:
        decompress(_OTHERS[codec], part, out)
    else:
        raise LeftToLibrary(f"blosc's codec {codec} is left to the library")


def _unshuffle(packed: ByteBuffer, out: ByteBuffer, head: _Head) -> None:
    if head.shuffle == _BY_BYTE:
        kernels.unshuffle(packed, out, head.item)
        return
    n_items = len(out) // head.item
    turned = n_items // 8 * 8
    if not head.is_long and turned != n_items:  # Blosc 1 did not shuffle such a block
        turned = 0
    end = turned * head.item
    if end:
        kernels.bit_unshuffle(packed[:end], out[:end], head.item, turned)
    out[end:] = packed[end:]
