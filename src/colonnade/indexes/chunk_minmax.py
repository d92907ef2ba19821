"""CHUNK_MINMAX: the least and greatest value of each chunk (HEP001 8.4, S4).

In: a column, one chunk at a time. Out: the rows for which a leaf may be, or is sure to be, true.
Invariant: a chunk is excluded only if the leaf cannot be true for any of its rows. Missing rows and NaN do not enter
the bounds and are counted separately, because a negated leaf is true for NaN rows and must keep them.
In July's revision there is no `chunk_shape`, a column without chunks has one entry, and entries after the last chunk
with rows mean nothing.

| member | type | |
| --- | --- | --- |
| min, max | that of the column's keys | the bounds; the fill if the chunk has no value that can be ordered |
| nan_count | uint64 | NaN rows; with a NaN fill, the missing rows |
| fill_count | uint64 | missing rows; with a NaN fill 0, or in July's revision the missing rows |
| n | uint64 | rows of the chunk |
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade import writing
from colonnade.columns.decode import fill_is_nan
from colonnade.columns.keys import Keys, NumberKeys, image_to_keys, join, keys_to_image, make_keys
from colonnade.columns.mapping import key_type
from colonnade.columns.missing import Mask
from colonnade.indexes.base import (
    CHUNK_SHAPE,
    Builder,
    ChangedError,
    ChunkBounds,
    Digests,
    Found,
    Index,
    IndexRevision,
    KeySource,
    Kind,
    Options,
    Wrong,
    chunk_keys,
    digest,
    digest_pointing,
    entries_of,
)  # fmt: skip
from colonnade.indexes.known import Known
from colonnade.model import ChunkGrid, ColumnInfo, StoredField, StoredType
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, attributes
from colonnade.nodes.elements import fill_element
from colonnade.nodes.paths import editable
from colonnade.predicate.bound import Among, BoundLeaf, Interval, Missing, NotANumber
from colonnade.selection import Selection
from colonnade.stored_dtypes import memory_dtype

_COUNT = StoredType("integer", 8, precision=64)
_COUNTS = ("nan_count", "fill_count", "n")


def entry_type(column: ColumnInfo) -> StoredType:
    """The compound type of one entry."""
    value = key_type(column)
    size = value.size
    parts = [StoredField("min", 0, value), StoredField("max", size, value)]
    parts += [StoredField(name, 2 * size + 8 * i, _COUNT) for i, name in enumerate(_COUNTS)]
    return StoredType("compound", 2 * size + 24, "none", fields=tuple(parts))


class MinMaxBuilder(Builder):
    """Collects one entry per chunk and writes them at the end."""

    def __init__(self, group: EditableGroup, name: str, column: ColumnInfo, options: Options) -> None:
        self._group, self._name, self._column, self._revision = group, name, column, options.revision
        self._entries = _Entries(column, options.revision)

    def add(self, first_row: int, keys: Keys) -> None:
        self._entries.add(keys)

    def finish(self) -> EditableDataset:
        n = len(self._entries)
        plan = writing.DatasetPlan(entry_type(self._column), max(1, min(n, 4096)))
        dataset = writing.create_dataset(self._group, self._name, plan, n)
        self._entries.write(dataset, 0)
        if self._revision == "april":
            writing.write_integers(dataset, "chunk_shape", [self._column.grid.chunk_rows])
        return dataset


class _Entries:
    """Entries that are not written yet."""

    def __init__(self, column: ColumnInfo, revision: IndexRevision) -> None:
        self._column, self._revision = column, revision
        self._is_whole = revision == "july" and column.chunk_rows is None
        self._bounds: list[tuple[Keys, Keys] | None] = []
        self._counts: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, keys: Keys) -> None:
        places = keys.least_and_greatest()
        bounds = None
        if places is not None:
            bounds = keys.take(np.array(places[:1])), keys.take(np.array(places[1:]))
        n_nan, n_missing = int(keys.nan.sum()), int(keys.missing.sum())
        if fill_is_nan(self._column):
            n_nan, n_missing = n_missing, n_missing if self._revision == "july" else 0
        counts = n_nan, n_missing, len(keys)
        if self._is_whole and self._counts:
            before = self._counts.pop()
            counts = before[0] + counts[0], before[1] + counts[1], before[2] + counts[2]
            bounds = _wider(self._bounds.pop(), bounds)
        self._bounds.append(bounds)
        self._counts.append(counts)

    def write(self, dataset: EditableDataset, first: int) -> None:
        """Write all entries into the dataset, starting at entry `first`."""
        stored, value = entry_type(self._column), key_type(self._column)
        image = np.zeros(len(self), dtype=memory_dtype(stored))
        kept: list[object] = []
        for position, bounds in enumerate(self._bounds):
            for side, name in enumerate(("min", "max")):
                if bounds is not None:
                    element, memory = keys_to_image(bounds[side], value)
                elif self._column.fill is not None and value == self._column.type:
                    element, memory = fill_element(value, self._column.fill)
                    element = element.view(memory_dtype(value)) if not value.has_pointers else element
                else:
                    continue
                image[name][position] = element[0]
                kept.append(memory)
        for column, name in enumerate(_COUNTS):
            image[name] = [counts[column] for counts in self._counts]
        writing.write_rows(dataset, stored, first, image, len(self))


def _wider(bounds: tuple[Keys, Keys] | None, other: tuple[Keys, Keys] | None) -> tuple[Keys, Keys] | None:
    """The bounds of two runs of rows together."""
    if bounds is None or other is None:
        return bounds or other
    both = join([bounds[0], other[0], bounds[1], other[1]])
    places = both.least_and_greatest()
    assert places is not None  # bounds are values
    return both.take(np.array(places[:1])), both.take(np.array(places[1:]))


class MinMaxIndex(Index):
    """The bounds of every chunk, read all at once."""

    def __post_init__(self) -> None:
        self._read: tuple[Keys, Keys, dict[str, np.ndarray]] | None = None

    def problem(self) -> str | None:
        info = self.dataset.describe()
        grid = self._grid
        wanted = entry_type(self.column)
        if info.type.kind != "compound" or [f.name for f in info.type.fields] != [f.name for f in wanted.fields]:
            return "it does not hold min, max, nan_count, fill_count and n"
        if any(found.type != field.type for found, field in zip(info.type.fields, wanted.fields, strict=True)):
            return "its members are not of the column's type"
        if self.revision == "july":
            few = info.shape is None or len(info.shape) != 1 or info.shape[0] < grid.n_chunks
            return f"it has {info.shape} entries, the column has {grid.n_chunks} chunks" if few else None
        if info.shape != (grid.n_chunks,):
            return f"it has {info.shape} entries, the column has {grid.n_chunks} chunks"
        if attributes.read_integers(self.dataset, "chunk_shape") != [grid.chunk_rows]:
            return "it was built for chunks of another length"
        return None

    def digests(self) -> Digests:
        return {"attributes": [self._attributes_digest()], "": [digest_pointing(self.dataset, self._grid.n_chunks)]}

    def _attributes_digest(self) -> str:
        """The digest of `chunk_shape`, if the column has no chunks to compare it with."""
        has_none = self.column.chunk_rows is not None or self.revision == "july"
        return digest(b"" if has_none else str(self._grid.chunk_rows).encode())

    def bounds(self) -> tuple[Keys, Keys, dict[str, np.ndarray]]:
        """The least and greatest key of each chunk (undefined if it has no values), and its counts."""
        if self._read is None:
            self._check_attributes(self._attributes_digest())
            if self.receipt is not None and self.receipt.get("") != self.digests()[""]:
                raise ChangedError("its bytes are not those that were verified")
            info = self.dataset.describe()
            with self.dataset.reading(info, 0, self._grid.n_chunks) as image:
                low = image_to_keys(image["min"], key_type(self.column))
                high = image_to_keys(image["max"], key_type(self.column))
                counts = {name: image[name].astype("i8") for name in _COUNTS}
            if fill_is_nan(self.column) and self.revision == "july":
                if (counts["nan_count"] != counts["fill_count"]).any():
                    raise ChangedError("its counts of NaN and of missing rows differ, though the fill is NaN")
                counts["nan_count"] = np.zeros_like(counts["fill_count"])
            elif fill_is_nan(self.column):
                counts["nan_count"], counts["fill_count"] = counts["fill_count"], counts["nan_count"]
            self._check_counts(counts)
            self._read = low, high, counts
        return self._read

    def _check_counts(self, counts: dict[str, np.ndarray]) -> None:
        grid = self._grid
        lengths = np.full(grid.n_chunks, grid.chunk_rows, dtype="i8")
        if len(lengths):
            lengths[-1] = grid.n_rows - (grid.n_chunks - 1) * grid.chunk_rows
        nan, missing = counts["nan_count"], counts["fill_count"]
        odd = (counts["n"] != lengths) | (nan < 0) | (missing < 0) | (nan > lengths) | (missing > lengths - nan)
        if odd.any():
            raise ChangedError("its counts do not add up to the rows of its chunks")

    def find(self, leaf: BoundLeaf, scope: Selection, by_row: bool) -> Found | None:
        low, high, counts = self.bounds()
        n, nan, missing = counts["n"], counts["nan_count"], counts["fill_count"]
        values = n - nan - missing
        some = values > 0
        if isinstance(leaf.test, Missing):
            may, sure = (missing < n, missing == 0) if leaf.negated else (missing > 0, missing == n)
        elif isinstance(leaf.test, NotANumber):
            may, sure = (some, values == n) if leaf.negated else (nan > 0, nan == n)
        else:
            reach, inside = self._compare(leaf, low, high)
            unknown = low.nan | high.nan  # a bound that is NaN excludes nothing
            reach, inside = reach | unknown, inside & ~unknown
            if leaf.negated:
                may, sure = (some & ~inside) | (nan > 0), (missing == 0) & (~some | ~reach)
            else:
                may, sure = some & reach, (values == n) & inside
        return Found(self._rows(sure), self._rows(may))

    def _compare(self, leaf: BoundLeaf, low: Keys, high: Keys) -> tuple[Mask, Mask]:
        """For each chunk: whether some of its values may pass the test, and whether all do."""
        test = leaf.test
        if isinstance(test, Interval):
            above = low.passing(Interval(high=test.high, high_open=test.high_open))
            below = high.passing(Interval(low=test.low, low_open=test.low_open))
            return above & below, low.passing(test) & high.passing(test)
        if isinstance(test, Among):
            wanted = make_keys(test.keys, low)
            first, last = wanted.ranks(low, "left"), wanted.ranks(high, "right")
            alone = np.asarray([low.key(i) == high.key(i) for i in range(len(low))], dtype=bool)
            return last > first, alone & (last > first)
        return np.ones(len(low), dtype=bool), np.zeros(len(low), dtype=bool)

    def _rows(self, chosen: Mask) -> Selection:
        return Selection.from_chunks(chosen, self._grid.chunk_rows, self.column.n_rows)

    def chunk_bounds(self) -> ChunkBounds | None:
        low, high, counts = self.bounds()
        n_values = counts["n"] - counts["nan_count"] - counts["fill_count"]
        is_odd = ((low.nan | high.nan) & (n_values > 0)).any()  # a bound that is NaN excludes nothing
        if is_odd or not (isinstance(low, NumberKeys) and isinstance(high, NumberKeys)):
            return None
        return ChunkBounds(low.values, high.values, n_values, self._grid.chunk_rows)

    def known(self) -> Known:
        low, high, counts = self.bounds()
        some = np.flatnonzero(counts["n"] > counts["nan_count"] + counts["fill_count"])
        if (low.nan | high.nan)[some].any():
            raise ChangedError("a bound of a chunk with values is NaN")
        known = Known(int(counts["fill_count"].sum()), int(counts["nan_count"].sum()))
        known.widen(join([low.take(some), high.take(some)]))
        return known

    def refresh(self, source: KeySource, changed: Selection, n_before: int, options: Options) -> Dataset | None:
        grid = entries_of(source.column, self.revision)
        self._read = None
        writing.resize(editable(self.dataset), grid.n_chunks)
        touched = changed | Selection.of(min(n_before, grid.n_rows) // grid.chunk_rows * grid.chunk_rows, grid.n_rows)
        for chunk in touched.chunks(grid.chunk_rows).tolist():
            entry = _Entries(source.column, self.revision)
            for _, keys in self._pieces(source, chunk, grid):
                entry.add(keys)
            entry.write(editable(self.dataset), chunk)
        return self.dataset

    def _pieces(self, source: KeySource, chunk: int, grid: ChunkGrid) -> Iterator[tuple[int, Keys]]:
        """The keys of one entry: of its chunk, or of a column without chunks, some rows at a time."""
        if source.column.chunk_rows is not None or self.revision == "april":
            return chunk_keys(source, grid, range(chunk, chunk + 1))
        return chunk_keys(source, source.column.grid, range(source.column.grid.n_chunks))

    def verify(self, source: KeySource, options: Options) -> Iterator[Wrong]:
        try:
            low, high, counts = self.bounds()
        except ChangedError as error:
            yield Wrong("counts", str(error), "counts that add up")
            return
        for chunk in range(self._grid.n_chunks):
            truth, bounds = dict.fromkeys(("nan_count", "fill_count", "n"), 0), None
            for _, keys in self._pieces(source, chunk, self._grid):
                truth["nan_count"] += int(keys.nan.sum())
                truth["fill_count"] += int(keys.missing.sum())
                truth["n"] += len(keys)
                places = keys.least_and_greatest()
                if places is not None:
                    bounds = _wider(bounds, (keys.take(np.array(places[:1])), keys.take(np.array(places[1:]))))
            for name, expected in truth.items():
                if counts[name][chunk] != expected:
                    yield Wrong(f"chunk {chunk}, {name}", int(counts[name][chunk]), expected)
            if bounds is None:
                continue
            for name, found, bound in (("min", low, bounds[0]), ("max", high, bounds[1])):
                if found.key(chunk) != bound.key(0):
                    yield Wrong(f"chunk {chunk}, {name}", found.key(chunk), bound.key(0))


CHUNK_MINMAX = Kind(
    word="chunk_minmax",
    name="CHUNK_MINMAX",
    build=MinMaxBuilder,
    open=MinMaxIndex,
    rank=10,
    rule="S4",
    clause="8.4",
    requires="CHUNK_MINMAX has one entry per chunk (min, max, nan_count, fill_count, n), and chunk_shape.",
    attributes=(CHUNK_SHAPE,),
)
