"""NumPy form: several chunks in one call. The fewer calls, the less threads wait for each other between them.

`sizes` (int64) are the bytes of each chunk as stored, one behind the other in the source; each makes an equal share of
the output.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from colonnade.kernels.plain.arguments import (
    Array,
    Bytes,
    Readable,
    as_items,
    check_count,
    open_bytes,
    open_kind,
    open_look,
    open_values,
)
from colonnade.kernels.plain.packing import HEADER, decode_scaleoffset, decode_scaleoffset_rows

_FARTHEST = 2**63 - 1


def decode_scaleoffset_chunks(
    chunks: Readable, sizes: Readable, out: Readable, fill: Readable | None, decimals: int, look: Readable | None, /
) -> bool | None:
    """`decode_scaleoffset` of each chunk. Says whether an item is made of the bytes `look`, where these are given."""
    made = open_values(out, "out", writable=True, any_order=True)
    wanted = None if look is None else open_look(look, made.itemsize)
    for chunk, share in _shares(open_bytes(chunks, "chunks"), open_kind(sizes, "sizes", "i8"), made):
        decode_scaleoffset(chunk, share, fill, decimals)
    return None if wanted is None else bool((made.view(wanted.dtype) == wanted).any())


def _shares(source: Bytes, sizes: Array, out: Array) -> Iterator[tuple[Bytes, Array]]:
    if (sizes < 0).any() or sum(sizes.tolist()) != len(source) or (len(out) % len(sizes) if len(sizes) else len(out)):
        raise ValueError("sizes do not fit the source, or out cannot be shared by them")
    begin, share = 0, len(out) // max(len(sizes), 1)
    for place, size in enumerate(sizes.tolist()):
        yield source[begin : begin + size], out[place * share : (place + 1) * share]
        begin += size


def read_pieces(
    file: int, addresses: Readable, sizes: Readable, out: Readable, look: Readable | None, /
) -> bool | None:
    """Bytes of an open file from several addresses (int64), one piece behind the other.

    Says whether an item is made of the bytes `look`, where these are given; items begin at the first byte.
    """
    places, lengths = open_kind(addresses, "addresses", "i8"), open_kind(sizes, "sizes", "i8")
    check_count(lengths, "sizes", len(places))
    made, wanted = open_bytes(out, "out", writable=True), None if look is None else open_look(look)
    items = None if wanted is None else as_items(made, "out", wanted)
    if (lengths < 0).any() or (places < 0).any() or sum(lengths.tolist()) != len(made):
        raise ValueError("sizes and addresses make no sense")
    done = 0
    for address, size in zip(places.tolist(), lengths.tolist(), strict=True):
        _read_piece(file, address, made[done : done + size].data)
        done += size
    return None if items is None else bool((items == wanted).any())


def _read_piece(file: int, address: int, target: memoryview) -> None:
    done = 0
    while done < len(target):
        n_bytes = os.preadv(file, [target[done:]], address + done)
        if not n_bytes:
            raise ValueError("the file ends inside a piece")
        done += n_bytes


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
        if not (0 <= place < n_items and address >= 0 and HEADER <= size <= _FARTHEST - address):
            raise ValueError("sizes and addresses make no sense")
        head = np.empty(HEADER, dtype=np.uint8)
        _read_piece(file, address, head.data)
        bits = int.from_bytes(head[:4].tobytes(), "little")
        if bits > 8 * made.itemsize or HEADER + -(-n_items * bits // 8) > size:
            raise ValueError("sizes and addresses make no sense")
        begin = place // 8 * 8
        chunk = np.empty(HEADER + -(-(place - begin + 1) * bits // 8), dtype=np.uint8)
        chunk[:HEADER] = head
        _read_piece(file, address + HEADER + begin * bits // 8, chunk[HEADER:].data)
        some = np.empty(place - begin + 1, made.dtype)
        decode_scaleoffset(chunk, some, fill, decimals)
        made[row] = some[-1]


def pick_rows(
    file: int, addresses: Readable, ends: Readable, places: Readable, n_items: int, item_size: int, out: Readable, /
) -> None:
    """Items of several chunks of an open file, each of `n_items` as they are stored, gathered one after another.

    Of each chunk its address, and where its items end among all; of each item its place in its chunk (all int64), in
    increasing order: what lies between the first and the last is read.
    """
    starts, inside = open_kind(addresses, "addresses", "i8"), open_kind(places, "places", "i8")
    stops, made = open_kind(ends, "ends", "i8"), open_bytes(out, "out", writable=True)
    check_count(stops, "ends", len(starts))
    if item_size < 1 or n_items < 0 or len(made) != len(inside) * item_size:
        raise ValueError("n_items, item_size and out do not fit each other")
    rows = made.reshape(-1, item_size)
    for address, begin, end in _parts(starts, stops, inside):
        some = inside[begin:end]
        if address < 0 or address > _FARTHEST - n_items * item_size:
            raise ValueError("sizes and addresses make no sense")
        if not len(some):
            continue
        first, last = int(some[0]), int(some[-1])
        if first < 0 or last >= n_items or (some < first).any() or (some > last).any():
            raise ValueError("sizes and addresses make no sense")
        span = np.empty((last - first + 1) * item_size, dtype=np.uint8)
        _read_piece(file, address + first * item_size, span.data)
        rows[begin:end] = span.reshape(-1, item_size)[some - first]


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
        if address < 0 or size < HEADER or address > _FARTHEST - size:
            raise ValueError("sizes and addresses make no sense")
        chunk = np.empty(size, dtype=np.uint8)
        _read_piece(file, address, chunk.data)
        decode_scaleoffset_rows(chunk, n_items, inside[begin:end], made[begin:end], fill, decimals)


def _parts(addresses: Array, ends: Array, places: Array) -> Iterator[tuple[int, int, int]]:
    """Of each chunk its address, and from where to where its items are among the places."""
    begins = np.concatenate(([0], ends))
    if (begins[1:] < begins[:-1]).any() or begins[-1] != len(places):
        raise ValueError("sizes and addresses make no sense")
    yield from zip(addresses.tolist(), begins[:-1].tolist(), ends.tolist(), strict=True)
