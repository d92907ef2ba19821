"""Selections of elements, as references to regions store them, and references in the form of HDF5 1.12.

| selection | bytes | | hyperslabs, version 1 | bytes |
| --- | --- | --- | --- | --- |
| type (0 none, 1 points, 2 hyperslabs, 3 all) | 4 | | number of blocks | 4 |
| version | 4 | | each: first element, last element | 4 + 4 per dimension |
| version 1: 0, length | 4 + 4 | | | |
| hyperslabs: flags (bit 0: regular) | 1 | | regular: start, stride, count, block | n per dimension |
| ... version 2: length; version 3: n | 4; 1 | | irregular: number of blocks | n |
| points, version 2: n | 1 | | each: first element, last element | n + n per dimension |
| rank; not for none and all | 4 | | points: their number, coordinates | n, n per dimension |

n is the bytes of a number: 4 in version 1, 8 in version 2 of hyperslabs.

| reference of HDF5 1.12, in an element | bytes | | its content | bytes |
| --- | --- | --- | --- | --- |
| type (2 object, 3 region, 4 attribute) | 1 | | length of the address | 1 |
| flags (bit 0: to another file) | 1 | | address of the object's header | O |
| object: its content | 1 + O | | region: length, rank, selection | 4 + 4 + |
| others: where it is in the global heap | 8 + O | | attribute: length, name | 2 + |
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from colonnade.format.global_heap import GlobalHeap
from colonnade.format.source import Fields, HDF5Source
from colonnade.nodes.regions import Corners, Region, SlabAxis

_NONE, _POINTS, _HYPERSLABS, _ALL = range(4)
_MOST_DIMENSIONS = 32
_OBJECT, _REGION, _ATTRIBUTE = 2, 3, 4


def decode_region(fields: Fields, shape: tuple[int, ...]) -> Region:
    """See the table at the top of this file. Whatever is selected is in the shape."""
    kind, version = fields.number(4), fields.number(4)
    if kind == _ALL:
        return Region()
    if kind == _NONE:
        raise fields.wrong("selects nothing")
    if kind not in (_POINTS, _HYPERSLABS):
        raise fields.wrong(f"is of type {kind}")
    flags, n_bytes = _decode_form(fields, kind, version)
    rank = fields.number(4)
    if rank != len(shape) or not 0 < rank <= _MOST_DIMENSIONS:
        raise fields.wrong(f"has {rank} dimensions, and its dataset has {len(shape)}")
    if kind == _POINTS:
        selection = Region(points=_coordinates(fields, fields.number(n_bytes), (rank,), n_bytes))
    elif flags & 1:
        selection = Region(axes=tuple(_decode_axis(fields, n_bytes) for _ in range(rank)))
    else:
        blocks = _coordinates(fields, fields.number(n_bytes), (2, rank), n_bytes)
        selection = Region(blocks=_checked(fields, blocks))
    box = selection.bounds(shape)
    if any(axis.stop > length for axis, length in zip(box, shape, strict=True)):
        raise fields.wrong(f"ends at {tuple(axis.stop for axis in box)}, after the elements there are: {shape}")
    return selection


def _decode_form(fields: Fields, kind: int, version: int) -> tuple[int, int]:
    """The flags of a selection, and the bytes of a number."""
    if version == 1:
        fields.take(8)
        return 0, 4
    if kind == _POINTS and version == 2:
        return 0, _width(fields)
    if kind == _HYPERSLABS and version == 2:
        flags = fields.number(1)
        fields.take(4)
        return flags, 8
    if kind == _HYPERSLABS and version == 3:
        return fields.number(1), _width(fields)
    raise fields.unknown(f"version {version} of this selection")


def _width(fields: Fields) -> int:
    n_bytes = fields.number(1)
    if n_bytes not in (2, 4, 8):
        raise fields.wrong(f"has numbers of {n_bytes} bytes")
    return n_bytes


def _decode_axis(fields: Fields, n_bytes: int) -> SlabAxis:
    axis = SlabAxis(*fields.numbers(4, n_bytes))
    if (1 << 8 * n_bytes) - 1 in (axis.n_blocks, axis.block):
        raise fields.unknown("hyperslabs without an end")
    if not axis.n_blocks or not axis.block or not axis.stride or (axis.n_blocks > 1 and axis.stride < axis.block):
        raise fields.wrong(f"has blocks of {axis.block} elements, {axis.n_blocks} of them, every {axis.stride}")
    return axis


def _coordinates(fields: Fields, count: int, shape: tuple[int, ...], n_bytes: int) -> Corners:
    n_numbers = count * prod(shape)
    if not count or n_numbers * n_bytes > fields.left:
        raise fields.wrong(f"has {count} parts in {fields.left} bytes")
    numbers = np.frombuffer(fields.take(n_numbers * n_bytes), dtype=f"<u{n_bytes}")
    if int(numbers.max()) >> 62:
        raise fields.wrong("has elements after any that there can be")
    return numbers.astype(np.uint64).reshape(count, *shape)


def _checked(fields: Fields, blocks: Corners) -> Corners:
    """Blocks that end after they begin, and do not overlap as far as their sizes show."""
    first, last = blocks[:, 0], blocks[:, 1]
    if (first > last).any():
        raise fields.wrong("has a block that ends before it begins")
    total = sum(prod(sides) for sides in (last - first + np.uint64(1)).tolist())
    around = prod((last.max(axis=0) - first.min(axis=0) + np.uint64(1)).tolist())
    if total > around:
        raise fields.wrong("has blocks that overlap")
    return blocks


class StoredReference(NamedTuple):
    """What a reference leads to: an object; a region, if there is a selection; an attribute, if it has a name."""

    address: int
    selection: Fields | None = None
    attribute: str | None = None


def read_region(source: HDF5Source, reference: bytes) -> StoredReference:
    """The object and the selection that a region reference leads to: an address and an index in the global heap."""
    content = _read_heap(source, b"\xff\xff\xff\xff" + reference)
    address = content.address()
    if address is None:
        raise content.wrong("leads to an undefined address")
    return StoredReference(address, content)


def read_new_reference(source: HDF5Source, element: bytes) -> StoredReference | None:
    """What a reference in the form of HDF5 1.12 leads to; None if it is null. See the table at the top of this file."""
    head = source.as_fields(element, "reference")
    kind, flags = head.number(1), head.number(1)
    if not any(element[2:]):
        return None
    if flags & 1:
        raise head.unknown("references to other files")
    content = head if kind == _OBJECT else _read_heap(source, element[2:])
    n_bytes = content.number(1)
    if n_bytes != source.offset_size:
        raise content.wrong(f"has an address of {n_bytes} bytes")
    address = content.number(n_bytes)
    if kind == _REGION:
        content.take(8)
        return StoredReference(address, content)
    if kind == _ATTRIBUTE:
        name = content.take(content.number(2)).rstrip(b"\0").decode("utf-8", "surrogateescape")
        return StoredReference(address, attribute=name)
    if kind != _OBJECT:
        raise head.unknown(f"references of type {kind}")
    return StoredReference(address)


def plain_address(source: HDF5Source, element: bytes) -> int:
    """The address in a reference of HDF5 1.12 to an object of this file; 0 for every other reference, and for null.

    Nothing is followed: a reference may name another file, a region or an attribute.
    """
    head, n_bytes = bytes(element[:3]), source.offset_size
    if head != bytes((_OBJECT, 0, n_bytes)) or len(element) < 3 + n_bytes:
        return 0
    return int.from_bytes(element[3 : 3 + n_bytes], "little")


def _read_heap(source: HDF5Source, reference: bytes) -> Fields:
    """An object of the global heap as fields."""
    data = GlobalHeap(source).read_object(reference)
    return source.as_fields(data, "selection in the global heap")
