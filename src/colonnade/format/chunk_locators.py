"""Where the chunks of a dataset are, for plans of reading: from its chunk map, which is read part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from colonnade.filters.read_plan import ChunkForm, Located
from colonnade.nodes.chunk_source import CachedChunkMap, ChunkPlace, check_address
from colonnade.pager.sources import ByteSource
from colonnade.selection import RowNumbers

if TYPE_CHECKING:
    from colonnade.format.nodes import ByteDataset


class StoredChunkMap(CachedChunkMap):
    """The chunk map of a dataset in a file that is only read."""

    def __init__(self, dataset: ByteDataset, form: ChunkForm) -> None:
        super().__init__(form)
        self._node = dataset

    @property
    def n_chunks(self) -> int:
        return -(-self._node.header.space.shape[0] // self._form.chunk_rows)

    def find(self, number: int) -> ChunkPlace | None:
        for batch in self._node.chunk_map.read((number,), (number + 1,)):
            for address, size, mask in zip(
                batch.address.tolist(), batch.size.tolist(), batch.mask.tolist(), strict=True
            ):
                return ChunkPlace(address, size, mask)
        return None

    def find_all(self) -> dict[int, ChunkPlace]:
        found: dict[int, ChunkPlace] = {}
        for batch in self._node.chunk_map.read():
            rows = zip(batch.address.tolist(), batch.size.tolist(), batch.mask.tolist(), strict=True)
            found.update(zip(batch.grid[:, 0].tolist(), map(ChunkPlace._make, rows), strict=True))
        return found

    def fill(self) -> bytes:
        fill, dtype = self._node.header.fill, self._form.dtype
        if dtype.kind not in "iufS" or not fill.is_written:
            raise ValueError("what rows hold that were never written must be read otherwise")
        return fill.value if fill.value is not None and len(fill.value) == dtype.itemsize else bytes(dtype.itemsize)


class RunMap:
    """Contiguous rows, located as if they consisted of adjacent chunks."""

    def __init__(self, address: int, form: ChunkForm) -> None:
        check_address(address)
        self._address = address
        self._form = form

    def located(self, numbers: range | RowNumbers, n_wanted: int) -> Located:
        n_bytes = self._form.chunk_bytes
        begins = np.asarray(numbers, dtype=np.int64) * n_bytes
        return Located(numbers, self._address + begins, np.full(len(numbers), n_bytes, dtype=np.int64))

    def fill(self) -> bytes:
        raise ValueError("all rows were written")


class ShiftedBytes(ByteSource):
    """The bytes of a file after its user block."""

    def __init__(self, file: ByteSource, base: int) -> None:
        super().__init__(file.name, file.size - base)
        self._file = file
        self._base = base

    def read_at(self, offset: int, n_bytes: int) -> bytes:
        return self._file.read_at(self._base + offset, n_bytes)

    def read_into(self, offset: int, target: memoryview) -> int:
        return self._file.read_into(self._base + offset, target)
