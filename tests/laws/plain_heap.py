"""What the kernels of HDF5's global heap compute, which exist in C only: strings of the heap to Arrow.

A caller reads the collections that a chunk's references name into one buffer `heap` (or maps the file: then the places
of the collections are their addresses), and keeps it for the next chunk. Then, with one place and one address a
collection, addresses increasing:

    heap_slots(heap, places, slots)                     how many slots each collection needs
    firsts = 0, then the running sum of slots           one more than there are collections
    heap_objects(heap, places, firsts, starts, sizes)   where each object lies; size -1 where there is none
    heap_offsets(heap, addresses, firsts, starts, sizes, references, item_size, cut, offsets)
    heap_data(heap, addresses, firsts, starts, sizes, references, item_size, cut, offsets, data)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade.kernels.plain.arguments import (
    KernelArray,
    KernelBytes,
    Readable,
    check_count,
    open_bytes,
    open_kind,
    open_values,
)

HEADER = 16
REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])


def heap_slots(heap: Readable, places: Readable, slots: Readable, /) -> None:
    """Walk the collections at these places of `heap`; the highest index of each and 1 into `slots`."""
    data, where, made = (
        open_bytes(heap, "heap"),
        open_kind(places, "places", "i8"),
        open_kind(slots, "slots", "i8", True),
    )
    check_count(made, "slots", len(where))
    for number, place in enumerate(where.tolist()):
        made[number] = 1 + max((index for index, _, _ in _walk(data, place, number)), default=0)


def heap_objects(heap: Readable, places: Readable, firsts: Readable, starts: Readable, sizes: Readable, /) -> None:
    """Where each object lies in `heap`: object i of collection c in slot firsts[c] + i. Size -1: there is none."""
    data, where, slots = open_bytes(heap, "heap"), open_kind(places, "places", "i8"), open_kind(firsts, "firsts", "i8")
    begins, lengths = open_kind(starts, "starts", "i8", True), open_kind(sizes, "sizes", "i8", True)
    check_count(lengths, "sizes", len(begins))
    check_count(slots, "firsts", len(where) + 1)
    for number, (place, first, end) in enumerate(
        zip(where.tolist(), slots[:-1].tolist(), slots[1:].tolist(), strict=True)
    ):
        if not 0 <= first <= end <= len(begins):
            raise ValueError(f"the slots of collection {number} are wrong")
        begins[first:end], lengths[first:end] = 0, -1
        for index, start, size in _walk(data, place, number):
            if index >= end - first:
                raise ValueError(f"the slots of collection {number} are too few")
            begins[first + index], lengths[first + index] = start, size


def _walk(data: KernelBytes, place: int, number: int) -> Iterator[tuple[int, int, int]]:
    """Index, place in the heap and size of each object of a collection."""
    unsound = ValueError(f"collection {number} is no sound global heap collection")
    head = data[max(place, 0) : max(place, 0) + HEADER].tobytes()
    if not 0 <= place <= len(data) or len(head) < HEADER or head[:5] != b"GCOL\x01":
        raise unsound
    end = place + int.from_bytes(head[8:], "little")
    if not place + HEADER <= end <= len(data):
        raise unsound
    at = place + HEADER
    while end - at >= HEADER:
        head = data[at : at + HEADER].tobytes()
        index, size = int.from_bytes(head[:2], "little"), int.from_bytes(head[8:], "little")
        if index == 0:
            return
        if size > end - at - HEADER:
            raise unsound
        yield index, at + HEADER, size
        at += HEADER + -(-size // 8) * 8


def heap_offsets(
    heap: Readable,
    addresses: Readable,
    firsts: Readable,
    starts: Readable,
    sizes: Readable,
    references: Readable,
    item_size: int,
    cut: bool,
    offsets: Readable,
    /,
) -> None:
    """Arrow's offsets (int32 or int64) of the bytes that references lead to; `cut`: each ends at its first NUL."""
    ends = open_values(offsets, "offsets", writable=True)
    lengths = _resolve(heap, addresses, firsts, starts, sizes, references, item_size, cut, ends)[2]
    whole = np.concatenate(([0], np.cumsum(lengths)))
    if whole[-1] > np.iinfo(ends.dtype).max:
        raise ValueError("the rows have more bytes than the offsets can count")
    ends[...] = whole


def heap_data(
    heap: Readable,
    addresses: Readable,
    firsts: Readable,
    starts: Readable,
    sizes: Readable,
    references: Readable,
    item_size: int,
    cut: bool,
    offsets: Readable,
    data: Readable,
    /,
) -> None:
    """The bytes that references lead to, at their offsets."""
    ends, made = open_values(offsets, "offsets"), open_bytes(data, "data", writable=True)
    whole, begins, lengths = _resolve(heap, addresses, firsts, starts, sizes, references, item_size, cut, ends)
    targets = ends[:-1].astype(np.int64)
    wrong = (targets < 0) | (targets + lengths > len(made))
    if wrong.any():
        raise ValueError(f"the offset of row {int(np.argmax(wrong))} is wrong")
    for start, target, length in zip(begins.tolist(), targets.tolist(), lengths.tolist(), strict=True):
        made[target : target + length] = whole[start : start + length]


def _resolve(
    heap: Readable,
    addresses: Readable,
    firsts: Readable,
    starts: Readable,
    sizes: Readable,
    references: Readable,
    item_size: int,
    cut: bool,
    offsets: KernelArray,
) -> tuple[KernelBytes, KernelArray, KernelArray]:
    """The heap's bytes, and for each row where it begins there and how many bytes it has."""
    data, known, slots = (
        open_bytes(heap, "heap"),
        open_kind(addresses, "addresses", "u8"),
        open_kind(firsts, "firsts", "i8"),
    )
    begins, lengths = open_kind(starts, "starts", "i8"), open_kind(sizes, "sizes", "i8")
    check_count(lengths, "sizes", len(begins))
    check_count(slots, "firsts", len(known) + 1)
    given = open_bytes(references, "references")
    if offsets.dtype.str[1:] not in ("i4", "i8"):
        raise ValueError("offsets must hold int32 or int64")
    if not len(offsets) or len(given) != (len(offsets) - 1) * REFERENCE.itemsize:
        raise ValueError(f"references has {len(given)} bytes, which does not suit {len(offsets)} offsets")
    if not 1 <= item_size <= 2**31 - 1:
        raise ValueError(f"item_size is {item_size}, expected at least 1")
    rows = given.view(REFERENCE)
    wanted = rows["length"].astype(np.uint64) * np.uint64(item_size)
    begin, length = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    for row in np.flatnonzero(wanted).tolist():
        begin[row], length[row] = _lead(data, known, slots, begins, lengths, rows[row], int(wanted[row]), row)
        if cut:
            text = data[begin[row] : begin[row] + length[row]].tobytes()
            length[row] = len(text.split(b"\0", 1)[0])
    return data, begin, length


def _lead(
    data: KernelBytes,
    known: KernelArray,
    slots: KernelArray,
    begins: KernelArray,
    lengths: KernelArray,
    reference: KernelArray,
    wanted: int,
    row: int,
) -> tuple[int, int]:
    """Where the object of a reference begins, and its bytes: as many as are wanted, or it is another."""
    nowhere = ValueError(f"the reference of row {row} leads to no such object")
    which = int(np.searchsorted(known, reference["address"]))
    if which == len(known) or known[which] != reference["address"]:
        raise nowhere
    first, end, index = int(slots[which]), int(slots[which + 1]), int(reference["index"])
    if not 0 <= first <= end <= len(begins) or index >= end - first:
        raise nowhere
    start, size = int(begins[first + index]), int(lengths[first + index])
    if start < 0 or size < 0 or start + size > len(data) or wanted != size:
        raise nowhere
    return start, wanted
