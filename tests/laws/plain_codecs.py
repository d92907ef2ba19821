"""What the kernels compute that exist in C only: codecs and reads of packed rows, as plain Python and NumPy.

The package leaves such chunks to HDF5 where there is no C form, so these serve the tests alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade.kernels.plain.arguments import (
    KernelArray,
    KernelBytes,
    Readable,
    check_apart,
    check_count,
    open_bytes,
    open_kind,
    open_look,
    open_values,
)
from colonnade.kernels.plain.chunks import read_pieces
from colonnade.kernels.plain.packing import CHUNK_HEADER, decode_scaleoffset

FARTHEST = 2**63 - 1
LAST_BYTES = 5  # of an LZ4 block: never copied


# The bit transposition of the bitshuffle filter.
#
# Items are taken in blocks of `block_items`; what is left is one more block of a multiple of 8; up to 7 items more are
# copied. In a block of n items, bit i % 8 of byte (8 * b + k) * n / 8 + i / 8 is bit k of byte b of item i.


def bit_unshuffle(source: Readable, out: Readable, item_size: int, block_items: int, /) -> None:
    """Undo the transposition. The filter's own block is the multiple of 8 below 8192 / item_size, at least 128."""
    given, made = open_bytes(source, "source"), open_bytes(out, "out", writable=True)
    check_apart(given, made)
    if item_size < 1 or len(given) % item_size:
        raise ValueError(f"source has {len(given)} bytes, no whole number of items of {item_size}")
    if block_items < 8 or block_items % 8:
        raise ValueError(f"block_items is {block_items}, expected a multiple of 8")
    if len(given) != len(made):
        raise ValueError(f"out has {len(made)} bytes, expected {len(given)}")
    at, n = 0, len(given) // item_size
    while n - at >= 8:
        some = min(block_items, (n - at) // 8 * 8)
        block = slice(at * item_size, (at + some) * item_size)
        made[block] = _join(given[block], some, item_size)
        at += some
    made[at * item_size :] = given[at * item_size :]


def _join(block: KernelBytes, n: int, item_size: int) -> KernelBytes:
    bits = np.unpackbits(block.reshape(8 * item_size, n // 8), axis=1, bitorder="little")
    return np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little").reshape(-1)


# BloscLZ, the codec of Blosc's own.
#
# A stream is a sequence of runs. The first byte of a run is its kind (in the first run only the lower 5 bits count):
# below 32, that many bytes and one more follow as they are; otherwise it is a copy of earlier output. Upper 3 bits:
# length, from 3 on (the highest: more follows, bytes added up to the first that is not 255). Lower 5 bits and the byte
# after the length: distance less 1; all ones mean a far one: 2 bytes, the high one first, and 8192 are the distance.
# The last run is not a copy.


def unpack_blosclz(source: Readable, out: Readable, /) -> None:
    """Exactly the bytes of `out`."""
    given, made = open_bytes(source, "source"), open_bytes(out, "out", writable=True)
    check_apart(given, made)
    data = given.tobytes()
    unsound = ValueError(f"source is no blosclz of {len(made)} bytes")
    done, at = bytearray(), 0
    try:
        while at < len(data):
            first = data[at] if at else data[at] & 31
            at += 1
            if first < 32:
                part, at = data[at : at + first + 1], at + first + 1
            else:
                length, distance, at = _read_copy(data, at, first)
                if distance > len(done) or length > len(made) - len(done):
                    raise unsound
                part = (bytes(done[-distance:]) * -(-length // distance))[:length]
                data[at]  # no stream ends with a copy
            done += part
            if at > len(data) or len(done) > len(made):
                raise unsound
    except IndexError as error:
        raise unsound from error
    if len(done) != len(made):
        raise unsound
    made[...] = np.frombuffer(done, dtype=np.uint8)


def _read_copy(data: bytes, at: int, first: int) -> tuple[int, int, int]:
    """Length and distance of a copy, and the place behind it."""
    length = (first >> 5) + 2
    if first >> 5 == 7:
        while data[at] == 255:
            length, at = length + 255, at + 1
        length, at = length + data[at], at + 1
    away = (first & 31) << 8 | data[at]
    if away < (31 << 8 | 255):
        return length, away + 1, at + 1
    return length, (data[at + 1] << 8 | data[at + 2]) + 8192, at + 3


# LZF, the filter of h5py.
#
# A stream is a sequence of runs. The first byte of a run is its kind: below 32, that many bytes and one more follow as
# they are; otherwise it is a copy of earlier output. Upper 3 bits: length less 2 (7: one more byte follows, and is
# added). Lower 5 bits and the byte after the length: distance less 1.


def unpack_lzf(source: Readable, out: Readable, /) -> None:
    """Exactly the bytes of `out`."""
    given, made = open_bytes(source, "source"), open_bytes(out, "out", writable=True)
    check_apart(given, made)
    data, done, at = given.tobytes(), bytearray(), 0
    unsound = ValueError(f"source is no LZF of {len(made)} bytes")
    try:
        while at < len(data) and len(done) <= len(made):
            first, at = data[at], at + 1
            if first < 32:
                part, at = data[at : at + first + 1], at + first + 1
            else:
                more = data[at] if first >> 5 == 7 else 0
                at += first >> 5 == 7
                length, distance, at = (first >> 5) + 2 + more, ((first & 31) << 8 | data[at]) + 1, at + 1
                if distance > len(done):
                    raise unsound
                part = (bytes(done[-distance:]) * -(-length // distance))[:length]
            done += part
    except IndexError as error:
        raise unsound from error
    if at > len(data) or len(done) != len(made):
        raise unsound
    made[...] = np.frombuffer(done, dtype=np.uint8)


# Blocks of LZ4.
#
# A block is a row of sequences: a byte whose upper half is the number of bytes that follow as they are, and whose lower
# half is the length of a copy less 4 (15: more follows, bytes added up to the first that is not 255); those bytes; the
# distance of the copy (2). The last sequence has no copy, and makes the last 5 bytes at least.


def unpack_lz4(source: Readable, out: Readable, /) -> None:
    """Exactly the bytes of `out`."""
    given, made = open_bytes(source, "source"), open_bytes(out, "out", writable=True)
    check_apart(given, made)
    unsound = ValueError(f"source is no LZ4 of {len(made)} bytes")
    try:
        done = _unpack_lz4(given.tobytes(), len(made))
    except IndexError as error:
        raise unsound from error
    if done is None or len(done) != len(made):
        raise unsound
    made[...] = np.frombuffer(done, dtype=np.uint8)


def _unpack_lz4(data: bytes, room: int) -> bytearray | None:
    """What the block unpacks to; None where that is too much, or the block is cut off."""
    done, at = bytearray(), 0
    while at < len(data):
        token = data[at]
        literals, at = _length(data, at + 1, token >> 4)
        done += data[at : at + literals]
        at += literals
        if at >= len(data) or len(done) > room:
            return done if at == len(data) else None
        distance = data[at] | data[at + 1] << 8
        copied, at = _length(data, at + 2, (token & 15))
        copied += 4
        if not 0 < distance <= len(done) or copied > room - len(done) - LAST_BYTES:
            return None
        done += (bytes(done[-distance:]) * -(-copied // distance))[:copied]
    return None


def _length(data: bytes, at: int, half: int) -> tuple[int, int]:
    """A length that half a byte begins, and the place behind it."""
    if half < 15:
        return half, at
    while data[at] == 255:
        half, at = half + 255, at + 1
    return half + data[at], at + 1


# Scale-offset: several chunks, or some rows.


def decode_scaleoffset_rows(
    chunk: Readable, n_items: int, rows: Readable, out: Readable, fill: Readable | None, decimals: int, /
) -> None:
    """The rows (int64) of a scale-offset chunk of `n_items`."""
    made, places = open_values(out, "out", writable=True, any_order=True), open_kind(rows, "rows", "i8")
    check_count(made, "out", len(places))
    if n_items < 0 or ((places < 0) | (places >= n_items)).any():
        raise ValueError(f"rows names a row that is not among the {n_items}")
    whole: KernelArray = np.empty(n_items, made.dtype)
    decode_scaleoffset(chunk, whole, fill, decimals)
    made[...] = whole[places]


def read_piece(file: int, address: int, out: KernelBytes) -> None:
    read_pieces(file, np.array([address]), np.array([len(out)]), out, None)


def decode_scaleoffset_chunks(
    chunks: Readable, sizes: Readable, out: Readable, fill: Readable | None, decimals: int, look: Readable | None, /
) -> bool | None:
    """`decode_scaleoffset` of each chunk. Says whether an item is made of the bytes `look`, where these are given."""
    made = open_values(out, "out", writable=True, any_order=True)
    wanted = None if look is None else open_look(look, made.itemsize)
    for chunk, share in _shares(open_bytes(chunks, "chunks"), open_kind(sizes, "sizes", "i8"), made):
        decode_scaleoffset(chunk, share, fill, decimals)
    return None if wanted is None else bool((made.view(wanted.dtype) == wanted).any())


def _shares(source: KernelBytes, sizes: KernelArray, out: KernelArray) -> Iterator[tuple[KernelBytes, KernelArray]]:
    if (sizes < 0).any() or sum(sizes.tolist()) != len(source) or (len(out) % len(sizes) if len(sizes) else len(out)):
        raise ValueError("sizes do not fit the source, or out cannot be shared by them")
    begin, share = 0, len(out) // max(len(sizes), 1)
    for place, size in enumerate(sizes.tolist()):
        yield source[begin : begin + size], out[place * share : (place + 1) * share]
        begin += size


def read_packed_rows(
    file: int,
    addresses: Readable,
    sizes: Readable,
    places: Readable,
    n_items: int,
    out: Readable,
    fill: Readable | None,
    decimals: int,
    /,
) -> None:
    """Single rows of scale-offset chunks of `n_items` in an open file, each by the few bytes that hold it.

    Of each row the address of its chunk, the bytes that this has, and its place in it (all int64).
    """
    made = open_values(out, "out", writable=True, any_order=True)
    chunks = [open_kind(one, name, "i8") for one, name in ((addresses, "addresses"), (sizes, "sizes"))]
    inside = open_kind(places, "places", "i8")
    for one in (*chunks, made):
        check_count(one, "out", len(inside))
    if fill is not None and len(open_bytes(fill, "fill")) != made.itemsize:
        raise ValueError(f"fill must have {made.itemsize} bytes")
    for row, (address, size, place) in enumerate(zip(*(one.tolist() for one in (*chunks, inside)), strict=True)):
        if not (0 <= place < n_items and address >= 0 and CHUNK_HEADER <= size <= FARTHEST - address):
            raise ValueError("sizes and addresses make no sense")
        head = np.empty(CHUNK_HEADER, dtype=np.uint8)
        read_piece(file, address, head)
        bits = int.from_bytes(head[:4].tobytes(), "little")
        if bits > 8 * made.itemsize or CHUNK_HEADER + -(-n_items * bits // 8) > size:
            raise ValueError("sizes and addresses make no sense")
        begin = place // 8 * 8
        chunk = np.empty(CHUNK_HEADER + -(-(place - begin + 1) * bits // 8), dtype=np.uint8)
        chunk[:CHUNK_HEADER] = head
        read_piece(file, address + CHUNK_HEADER + begin * bits // 8, chunk[CHUNK_HEADER:])
        some = np.empty(place - begin + 1, made.dtype)
        decode_scaleoffset(chunk, some, fill, decimals)
        made[row] = some[-1]


def pick_packed_rows(
    file: int,
    addresses: Readable,
    sizes: Readable,
    ends: Readable,
    places: Readable,
    n_items: int,
    out: Readable,
    fill: Readable | None,
    decimals: int,
    /,
) -> None:
    """The same of scale-offset chunks; of each also the bytes that it has. Chunks are read whole."""
    made = open_values(out, "out", writable=True, any_order=True)
    starts, lengths = open_kind(addresses, "addresses", "i8"), open_kind(sizes, "sizes", "i8")
    stops, inside = open_kind(ends, "ends", "i8"), open_kind(places, "places", "i8")
    check_count(lengths, "sizes", len(starts))
    check_count(stops, "ends", len(starts))
    check_count(made, "out", len(inside))
    if fill is not None and len(open_bytes(fill, "fill")) != made.itemsize:
        raise ValueError(f"fill must have {made.itemsize} bytes")
    if n_items < 0:
        raise ValueError("sizes and addresses make no sense")
    for size, (address, begin, end) in zip(lengths.tolist(), _parts(starts, stops, inside), strict=True):
        if address < 0 or size < CHUNK_HEADER or address > FARTHEST - size:
            raise ValueError("sizes and addresses make no sense")
        chunk = np.empty(size, dtype=np.uint8)
        read_piece(file, address, chunk)
        decode_scaleoffset_rows(chunk, n_items, inside[begin:end], made[begin:end], fill, decimals)


def _parts(addresses: KernelArray, ends: KernelArray, places: KernelArray) -> Iterator[tuple[int, int, int]]:
    """Of each chunk its address, and from where to where its items are among the places."""
    begins = np.concatenate(([0], ends))
    if (begins[1:] < begins[:-1]).any() or begins[-1] != len(places):
        raise ValueError("sizes and addresses make no sense")
    yield from zip(addresses.tolist(), begins[:-1].tolist(), ends.tolist(), strict=True)
