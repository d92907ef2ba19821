"""Dataspace messages: the shape of a dataset, and the extent inside section 0 (format specification IV.A.2.b).

| version 1 | bytes | | version 2 | bytes |
| --- | --- | --- | --- | --- |
| version 1 | 1 | | version 2 | 1 |
| rank | 1 | | rank | 1 |
| flags: bit 0 has maxima, bit 1 has permutation | 1 | | flags: bit 0 has maxima | 1 |
| 0 | 5 | | type: 0 scalar, 1 simple, 2 null | 1 |
| dimensions | L each | | dimensions | L each |
| maxima, if flags bit 0 (all bits set: no limit) | L each | | maxima, if flags bit 0 | L each |
"""

from __future__ import annotations

import struct

from colonnade.dataclass import dataclass
from colonnade.format.source import Fields

_MOST_DIMENSIONS = 32
_SCALAR, _SIMPLE, _NULL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Dataspace:
    """Dimensions, and their maxima (None: unlimited).

    >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
    >>> s.write([(0, 1), (50, 2)], [5, 6])
    >>> s.info.space.max_shape
    (100, 100)
    """

    shape: tuple[int, ...]
    max_shape: tuple[int | None, ...]


def decode_dataspace(fields: Fields, length_size: int) -> Dataspace:
    """See the table at the top of this file."""
    version = fields.version(1, 2)
    rank, flags = fields.number(1), fields.number(1)
    if version == 1:
        fields.take(5)
    elif fields.number(1) != _SIMPLE:
        raise fields.wrong("has no dimensions")
    if not 1 <= rank <= _MOST_DIMENSIONS:
        raise fields.wrong(f"has {rank} dimensions")
    shape = fields.numbers(rank, length_size)
    none = (1 << 8 * length_size) - 1
    found = fields.numbers(rank, length_size) if flags & 1 else shape
    return Dataspace(shape, tuple(None if size == none else size for size in found))


def decode_extent(fields: Fields, length_size: int) -> tuple[int, ...] | None:
    """Decode the shape of an attribute: () for a scalar, None if it has no elements."""
    version = fields.version(1, 2)
    rank = fields.number(1)
    fields.take(6 if version == 1 else 1)
    if version == 2 and fields.number(1) == _NULL:
        return None
    if rank > _MOST_DIMENSIONS:
        raise fields.wrong(f"has {rank} dimensions")
    return fields.numbers(rank, length_size)


def encode_extent(shape: tuple[int, ...]) -> bytes:
    """Encode the shape of an attribute, () for a scalar."""
    kind = _SIMPLE if shape else _SCALAR
    return struct.pack(f"<BBBB{len(shape)}Q", 2, len(shape), 0, kind, *shape)


def encode_dataspace(space: Dataspace, version: int = 2) -> bytes:
    """Encode a message with lengths of 8 bytes and with maxima."""
    rank = len(space.shape)
    head = struct.pack("<BBB5x", 1, rank, 1) if version == 1 else struct.pack("<BBBB", 2, rank, 1, _SIMPLE)
    sizes = [*space.shape, *((1 << 64) - 1 if size is None else size for size in space.max_shape)]
    return head + struct.pack(f"<{2 * rank}Q", *sizes)
