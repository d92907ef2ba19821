"""A fifth kind of index in one small file. CHUNK_MISSING: the number of missing rows of each chunk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from colonnade.columns.keys import Keys
from colonnade.h5 import attributes
from colonnade.h5.datasets import DatasetPlan
from colonnade.h5.handles import create_dataset
from colonnade.h5.row_sink import resize, write_rows
from colonnade.indexes.base import (
    CHUNK_SHAPE,
    Builder,
    Cost,
    Digests,
    Found,
    Index,
    KeySource,
    Kind,
    Options,
    Part,
    Wrong,
    chunk_keys,
)
from colonnade.model import ColumnInfo, StoredType
from colonnade.nodes.paths import editable
from colonnade.predicate.bound import BoundLeaf, Missing
from colonnade.selection import Selection

COUNT = StoredType("integer", 8, precision=64)
BLOCK = 4096


class MissingCountsBuilder(Builder):
    def __init__(self, group: Any, name: str, column: ColumnInfo, _options: Options) -> None:
        self._dataset = create_dataset(group, name, DatasetPlan(COUNT, BLOCK), column.grid.n_chunks)
        self._grid = column.grid

    def add(self, first_row: int, keys: Keys) -> None:
        write_count(self._dataset, first_row // self._grid.chunk_rows, keys)

    def finish(self) -> Any:
        attributes.write_integers(self._dataset, "chunk_shape", [self._grid.chunk_rows])
        return self._dataset


def write_count(dataset: Any, chunk: int, keys: Keys) -> None:
    write_rows(dataset, COUNT, chunk, np.array([keys.missing.sum()], dtype="u8"), 1)


class MissingCountsIndex(Index):
    def _counts(self) -> Any:
        return Part(self.dataset, BLOCK, self._digests_of("")).read(0, self._grid.n_chunks).astype("i8")

    def problem(self) -> str | None:
        info = self.dataset.describe()
        return None if (info.type, info.shape) == (COUNT, (self._grid.n_chunks,)) else "it is not one count per chunk"

    def digests(self) -> Digests:
        return {"": Part(self.dataset, BLOCK).digests()}

    def cost(self, leaf: BoundLeaf) -> Cost:
        return Cost(8 * self._grid.n_chunks)

    def find(self, leaf: BoundLeaf, scope: Selection, by_row: bool) -> Found | None:
        if not isinstance(leaf.test, Missing):
            return None
        counts, grid = self._counts(), self._grid
        lengths = np.array([stop - start for start, stop in map(grid.bounds, range(grid.n_chunks))])
        counts = lengths - counts if leaf.negated else counts
        sure, may = (
            Selection.from_chunks(mask, grid.chunk_rows, grid.n_rows) for mask in (counts == lengths, counts > 0)
        )
        return Found(sure, may)

    def count(self, leaf: BoundLeaf, by_row: bool) -> int | None:
        if not isinstance(leaf.test, Missing):
            return None
        n_missing = int(self._counts().sum())
        return self.column.n_rows - n_missing if leaf.negated else n_missing

    def most_distinct(self) -> int:
        return self.column.n_rows - int(self._counts().sum())

    def refresh(self, source: KeySource, changed: Selection, n_before: int, options: Options) -> Any:
        grid = source.column.grid
        resize(editable(self.dataset), grid.n_chunks)
        touched = changed | Selection.of(min(n_before, grid.n_rows) // grid.chunk_rows * grid.chunk_rows, grid.n_rows)
        for chunk, keys in chunk_keys(source, grid, iter(touched.chunks(grid.chunk_rows).tolist())):
            write_count(self.dataset, chunk, keys)
        return self.dataset

    def verify(self, source: KeySource, options: Options) -> Iterator[Wrong]:
        stored = self._counts().tolist()
        for chunk, keys in chunk_keys(source, self._grid, range(self._grid.n_chunks)):
            if stored[chunk] != keys.missing.sum():
                yield Wrong(f"chunk {chunk}", stored[chunk], int(keys.missing.sum()))


CHUNK_MISSING = Kind(
    word="chunk_missing",
    name="CHUNK_MISSING",
    build=MissingCountsBuilder,
    open=MissingCountsIndex,
    rank=5,
    rule="S9",
    clause="none",
    requires="CHUNK_MISSING has one count per chunk, and chunk_shape.",
    attributes=(CHUNK_SHAPE,),
)
