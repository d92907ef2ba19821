"""Dataspace messages: the shape of a dataset or attribute, and the extent inside section 0 (specification IV.A.2.b).

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
from math import prod

from colonnade.dataclass import dataclass
from colonnade.format.source import Fields

_MOST_DIMENSIONS = 32
_SCALAR, _SIMPLE, _NULL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Dataspace:
    """Dimensions, and their maxima (None: unlimited). A scalar has none; neither does a null dataspace: no elements.

    >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
    >>> s.write([(0, 1), (50, 2)], [5, 6])
    >>> s.info.space.max_shape
    (100, 100)
    """

    shape: tuple[int, ...]
    max_shape: tuple[int | None, ...]
    is_null: bool = False

    @property
    def n_elements(self) -> int:
        """The number of elements."""
        return 0 if self.is_null else prod(self.shape)


def decode_dataspace(fields: Fields) -> Dataspace:
    """See the table at the top of this file. In version 1, a dataspace without dimensions is a scalar."""
    version = fields.version(1, 2)
    rank, flags = fields.number(1), fields.number(1)
    kind = fields.number(1) if version == 2 else _SIMPLE if rank else _SCALAR
    fields.take(5 if version == 1 else 0)
    if rank > _MOST_DIMENSIONS or kind > _NULL or (rank and kind != _SIMPLE):
        raise fields.wrong(f"has {rank} dimensions and type {kind}")
    shape = fields.numbers(rank, fields.length_size)
    none = (1 << 8 * fields.length_size) - 1
    found = fields.numbers(rank, fields.length_size) if flags & 1 else shape
    return Dataspace(shape, tuple(None if size == none else size for size in found), kind == _NULL)


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
