"""A one-dimensional sparse array as rows of a table: ranges and single rows; undefined rows are missing.

In: an object of an open HDF5 file, and the name of a link in it that libhdf5 cannot follow.
Out: elements in memory form, and a mask of missing rows. Only the chunks that hold requested rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade.arrays import Booleans
from colonnade.format.chunk_maps import ChunkMap
from colonnade.format.headers import LAYOUT, Message, find, read_messages
from colonnade.format.layout import is_sectioned
from colonnade.format.records import ChunkRecord
from colonnade.format.source import HDF5Source
from colonnade.format.superblock import open_root
from colonnade.format.values import DecodedValues
from colonnade.nodes import Group
from colonnade.sparse.attributes import read_attributes
from colonnade.sparse.chunk import read_cells
from colonnade.sparse.info import SparseInfo, chunk_map_of, describe, origin
from colonnade.sparse.selections import Positions
from colonnade.stored_dtypes import memory_dtype

MissingRows = Booleans
READABLE = ("integer", "bitfield", "float", "boolean", "enum", "string", "opaque", "complex")
"""Kinds of types whose elements can be read into memory form."""


class SparseRows:
    """A one-dimensional sparse array in an open file."""

    def __init__(self, source: HDF5Source, info: SparseInfo, messages: list[Message]) -> None:
        self.info = info
        self._source = source
        self._messages = messages

    @property
    def problem(self) -> str | None:
        """Why the rows cannot be read as a column; None if they can."""
        if len(self.info.space.shape) != 1:
            return f"it has rank {len(self.info.space.shape)}"
        if self.info.type.kind not in READABLE:
            return f"sparse columns of type {self.info.type} are not supported: use colonnade.open_sparse"
        return None

    def attributes(self) -> dict[str, object]:
        return read_attributes(self._source, self._messages)

    def read(self, start: int, count: int) -> tuple[DecodedValues, MissingRows]:
        """The elements of `count` rows from `start`, and a mask of missing rows, whose elements are zeros."""
        image, missing = self._blank(count)
        for first, places, values in self._chunks(start, start + count):
            low, high = np.searchsorted(places, [start - first, start + count - first])
            at = places[low:high] + (first - start)
            image[at], missing[at] = values[low:high].astype(image.dtype), False
        return image, missing

    def take(self, rows: Positions) -> tuple[DecodedValues, MissingRows]:
        """The elements of these rows, given in increasing order, and a mask of missing rows."""
        image, missing = self._blank(len(rows))
        if not len(rows):
            return image, missing
        for first, places, values in self._chunks(int(rows[0]), int(rows[-1]) + 1, rows):
            low, high = np.searchsorted(rows, [first, first + self.info.layout.chunk[0]])
            wanted = rows[low:high] - first
            at = np.searchsorted(places, wanted)
            defined = at < len(places)
            defined[defined] = places[at[defined]] == wanted[defined]
            image[low:high][defined] = values[at[defined]].astype(image.dtype)
            missing[low:high][defined] = False
        return image, missing

    def cells(self, start: int) -> Iterator[tuple[int, Positions, DecodedValues]]:
        """First row, positions and values of each stored chunk with rows from `start` on, in order."""
        return self._chunks(start, self.info.space.shape[0])

    def _blank(self, count: int) -> tuple[DecodedValues, MissingRows]:
        """`count` missing rows: zeros, or the first member of an enum, which may have no member 0."""
        image = np.zeros(count, dtype=memory_dtype(self.info.type))
        if self.info.type.kind == "enum" and self.info.type.members:
            image[:] = self.info.type.members[0][1]
        return image, np.ones(count, dtype=bool)

    def _chunks(
        self, start: int, stop: int, rows: Positions | None = None
    ) -> Iterator[tuple[int, Positions, DecodedValues]]:
        """First row, positions and values of each stored chunk in a range; with `rows`, only chunks that hold one."""
        if stop <= start:
            return
        size = self.info.layout.chunk[0]
        for records in self._map.read((start // size,), (-(-stop // size),)):
            for record in records:
                (first,) = origin(self.info, record)
                if rows is not None and np.searchsorted(rows, first) == np.searchsorted(rows, first + size):
                    continue
                cells = read_cells(self._source, self.info, record)
                assert cells.values is not None  # requested
                yield first, cells.places, cells.values

    @property
    def _map(self) -> ChunkMap:
        return chunk_map_of(self.info, self._source)

    def _records(self) -> Iterator[ChunkRecord]:
        for records in self._map.read((0,), (-(-self.info.space.shape[0] // self.info.layout.chunk[0]),)):
            yield from records

    @property
    def stored_bytes(self) -> int:
        """Bytes of all chunks."""
        return sum(record.size for record in self._records())

    @property
    def written_rows(self) -> int:
        """The number of rows in stored chunks."""
        (size,), (n_rows,) = self.info.layout.chunk, self.info.space.shape
        return sum(min(size, n_rows - record.grid[0] * size) for record in self._records())


def open_rows(group: Group, name: str) -> SparseRows | None:
    """The sectioned dataset that a link of an open group points to; None if it is another object or cannot be read.

    Raises a FormatError or an UnsupportedError for an invalid sectioned dataset.
    """
    address = group.hard_address(name)
    file = group.file_bytes() if address is not None else None
    if address is None or file is None:
        return None
    source, _root = open_root(file)
    messages = read_messages(source, address)
    layout = find(messages, LAYOUT)
    if layout is None or not is_sectioned(layout.data):
        return None
    return SparseRows(source, describe(source, messages, name), messages)
