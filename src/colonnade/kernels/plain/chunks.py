"""NumPy form: read bytes of an open file at several addresses in one call."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from colonnade.kernels.plain.arguments import (
    KernelArray,
    Readable,
    as_items,
    check_count,
    open_bytes,
    open_kind,
    open_look,
)

_FARTHEST = 2**63 - 1


def read_pieces(
    file: int, addresses: Readable, sizes: Readable, out: Readable, look: Readable | None, /
) -> bool | None:
    """Bytes of an open file from several addresses (int64), one piece after the other.

    Returns whether an item equals the bytes `look`, if given; items begin at the first byte.
    """
    places, lengths = open_kind(addresses, "addresses", "i8"), open_kind(sizes, "sizes", "i8")
    check_count(lengths, "sizes", len(places))
    target, wanted = open_bytes(out, "out", writable=True), None if look is None else open_look(look)
    items = None if wanted is None else as_items(target, "out", wanted)
    if (lengths < 0).any() or (places < 0).any() or sum(lengths.tolist()) != len(target):
        raise ValueError("sizes and addresses make no sense")
    done = 0
    for address, size in zip(places.tolist(), lengths.tolist(), strict=True):
        _read_piece(file, address, target[done : done + size].data)
        done += size
    return None if items is None else bool((items == wanted).any())


def _read_piece(file: int, address: int, target: memoryview) -> None:
    done = 0
    while done < len(target):
        n_bytes = os.preadv(file, [target[done:]], address + done)
        if not n_bytes:
            raise ValueError("the file ends inside a piece")
        done += n_bytes


def pick_rows(
    file: int, addresses: Readable, ends: Readable, places: Readable, n_items: int, item_size: int, out: Readable, /
) -> None:
    """Read items of several unfiltered chunks of an open file, each of `n_items` items, and store them consecutively.

    For each chunk: its address, and the end of its items in the result. For each item: its position in its chunk, in
    increasing order. All are int64. The span from the first to the last item of each chunk is read.
    """
    starts, inside = open_kind(addresses, "addresses", "i8"), open_kind(places, "places", "i8")
    stops, target = open_kind(ends, "ends", "i8"), open_bytes(out, "out", writable=True)
    check_count(stops, "ends", len(starts))
    if item_size < 1 or n_items < 0 or len(target) != len(inside) * item_size:
        raise ValueError("n_items, item_size and out do not fit each other")
    rows = target.reshape(-1, item_size)
    for address, begin, end in _parts(starts, stops, inside):
        of_chunk = inside[begin:end]
        if address < 0 or address > _FARTHEST - n_items * item_size:
            raise ValueError("sizes and addresses make no sense")
        if not len(of_chunk):
            continue
        first, last = int(of_chunk[0]), int(of_chunk[-1])
        if first < 0 or last >= n_items or (of_chunk < first).any() or (of_chunk > last).any():
            raise ValueError("sizes and addresses make no sense")
        span = np.empty((last - first + 1) * item_size, dtype=np.uint8)
        _read_piece(file, address + first * item_size, span.data)
        rows[begin:end] = span.reshape(-1, item_size)[of_chunk - first]


def _parts(addresses: KernelArray, ends: KernelArray, places: KernelArray) -> Iterator[tuple[int, int, int]]:
    """For each chunk its address, and the start and stop of its items in the result."""
    begins = np.concatenate(([0], ends))
    if (begins[1:] < begins[:-1]).any() or begins[-1] != len(places):
        raise ValueError("sizes and addresses make no sense")
    yield from zip(addresses.tolist(), begins[:-1].tolist(), ends.tolist(), strict=True)
