"""CHUNK_BLOOM: a Bloom filter of each chunk (HEP001 8.7, S7).

In: a column, one chunk at a time. Out: the chunks that may hold one of the requested values.
Invariant: if a filter lacks a bit of a value, its chunk does not hold the value; a filter proves nothing else. Missing
rows and NaN are not added to filters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from colonnade import kernels, limits, writing
from colonnade.arrays import Int64s, Octets
from colonnade.columns.keys import Keys, NumberKeys, make_keys, stored_keys
from colonnade.columns.mapping import key_type
from colonnade.indexes.base import (
    CHUNK_SHAPE,
    Builder,
    Digests,
    Found,
    Index,
    IndexAttribute,
    KeySource,
    Kind,
    Options,
    Part,
    Wrong,
    chunk_keys,
    digest,
)  # fmt: skip
from colonnade.model import ColumnInfo
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, attributes
from colonnade.nodes.paths import editable
from colonnade.predicate.bound import BoundLeaf, Key
from colonnade.selection import Selection

FAMILY = "murmur3_128_double"
SECOND_SEED = 0x9E3779B9
MOST_HASHES = 64
LARGEST_FILTER = 1 << 28


def _items(keys: NumberKeys, width: int) -> np.ndarray:
    """The present numbers in the form that is hashed: little-endian, as wide as the column, -0.0 as 0.0."""
    kind, present = keys.values.dtype.kind, keys.present
    room = next((size for size in (1, 2, 4) if width <= size), 8)
    values: np.ndarray = (keys.values if present.all() else keys.values[present]).astype(f"<{kind}{room}")
    if kind == "f":
        values += values.dtype.type(0)  # -0.0 + 0.0 is 0.0
    return values if room == width else np.ascontiguousarray(values.view("u1").reshape(-1, room)[:, :width])


def _strings(keys: Keys) -> tuple[np.ndarray, bytes]:
    """The offsets and the data of byte keys."""
    array = keys.array
    _, offsets, data = array.buffers()
    if not len(array) or offsets is None:
        return np.zeros(1, dtype=np.int32), b""
    return np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1], data or b""


def bit_places(keys: Keys, width: int, k: int, m_bits: int) -> Int64s:
    """The positions of the k bits of each present key."""
    n_keys = int(np.count_nonzero(keys.present))
    low, high, unused = (np.empty(n_keys, dtype=np.uint64) for _ in range(3))
    if isinstance(keys, NumberKeys):
        items = _items(keys, width)
        kernels.hash_items(items, width, 0, low, unused)
        kernels.hash_items(items, width, SECOND_SEED, unused, high)
    else:
        offsets, data = _strings(keys.take(np.flatnonzero(keys.present)))
        kernels.hash_strings(offsets, data, 0, low, unused)
        kernels.hash_strings(offsets, data, SECOND_SEED, unused, high)
    steps = np.arange(k, dtype=np.uint64)
    return ((low[:, None] + steps * high[:, None]) % np.uint64(m_bits)).astype(np.int64)


def make_filter(keys: Keys, width: int, k: int, m_bits: int) -> Octets:
    """The filter of one chunk, which contains its present keys."""
    bits = np.zeros(m_bits // 8, dtype=np.uint8)
    if isinstance(keys, NumberKeys):
        kernels.bloom_add_items(_items(keys, width), width, None, k, bits)
    else:
        kernels.bloom_add_strings(*_strings(keys), keys.present, k, bits)
    return bits


def choose_size(n_keys: int, error_rate: float) -> tuple[int, int]:
    """k and m_bits for n_keys distinct keys and this false-positive rate."""
    bits = max(8, math.ceil(-max(n_keys, 1) * math.log(error_rate) / math.log(2) ** 2))
    m_bits = -(-bits // 8) * 8
    return max(1, min(MOST_HASHES, round(m_bits / max(n_keys, 1) * math.log(2)))), m_bits


class BloomBuilder(Builder):
    """Writes the filters in the order of the chunks, a few MiB at a time."""

    def __init__(self, group: EditableGroup, name: str, column: ColumnInfo, options: Options) -> None:
        self._column = column
        self._k, self._m_bits = choose_size(min(column.grid.chunk_rows, max(column.n_rows, 1)), options.error_rate)
        shape = (column.grid.n_chunks, self._m_bits // 8)
        self._dataset = writing.create_matrix(group, name, shape, (1, shape[1]))
        self._waiting: list[object] = []
        self._done = 0

    def add(self, first_row: int, keys: Keys) -> None:
        self._waiting.append(make_filter(keys, key_type(self._column).size, self._k, self._m_bits))
        if len(self._waiting) * self._m_bits // 8 >= limits.now.bloom_flush_bytes:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            writing.write_matrix(self._dataset, self._done, 0, np.array(self._waiting))
            self._done += len(self._waiting)
            self._waiting = []

    def finish(self) -> EditableDataset:
        self._flush()
        writing.write_integer(self._dataset, "k", self._k, "<u2")
        writing.write_integer(self._dataset, "m_bits", self._m_bits)
        writing.write_text(self._dataset, "hash_family", FAMILY, "ascii")
        writing.write_integers(self._dataset, "chunk_shape", [self._column.grid.chunk_rows])
        return self._dataset


class BloomIndex(Index):
    """The filters of all chunks, read one by one."""

    def __post_init__(self) -> None:
        self._part: Part | None = None

    @property
    def _sizes(self) -> tuple[int, int]:
        k = attributes.read_integers(self.dataset, "k") or [0]
        m_bits = attributes.read_integers(self.dataset, "m_bits") or [0]
        return k[0], m_bits[0]

    def problem(self) -> str | None:
        grid = self._grid
        shape = self.dataset.matrix_shape()
        k, m_bits = self._sizes
        if shape is None:
            return "it is not a matrix of bytes"
        if not 1 <= k <= 1024 or not 8 <= m_bits <= 8 * LARGEST_FILTER or m_bits != 8 * shape[1]:
            return f"its sizes are invalid: k is {k}, m_bits is {m_bits}, a filter has {shape[1]} bytes"
        if attributes.read_text(self.dataset, "hash_family") != FAMILY:
            return "it was built with another hash family"
        if shape[0] != grid.n_chunks:
            return f"it has {shape[0]} filters, the column has {grid.n_chunks} chunks"
        if attributes.read_integers(self.dataset, "chunk_shape") != [grid.chunk_rows]:
            return "it was built for chunks of another length"
        return None

    def _attributes_digest(self) -> str:
        sizes = self._sizes if self.column.chunk_rows is not None else (*self._sizes, self._grid.chunk_rows)
        return digest(repr(sizes).encode())

    def _filters(self) -> Part:
        if self._part is None:
            self._check_attributes(self._attributes_digest())
            self._part = Part(self.dataset, 1, self._digests_of(""))
        return self._part

    def digests(self) -> Digests:
        return {"attributes": [self._attributes_digest()], "": Part(self.dataset, 1).digests()}

    def find(self, leaf: BoundLeaf, scope: Selection, by_row: bool) -> Found | None:
        points = leaf.points
        if points is None or len(points) > limits.now.bloom_points:
            return None
        grid = self._grid
        may = np.zeros(grid.n_chunks, dtype=bool)
        if points:
            k, m_bits = self._sizes
            bits = bit_places(make_column_keys(points, self.column), key_type(self.column).size, k, m_bits)
            for chunk in scope.chunks(grid.chunk_rows).tolist():
                filter_ = self._filters().read(chunk, chunk + 1)[0]
                may[chunk] = bool(((filter_[bits // 8] >> (bits % 8)) & 1).all(axis=1).any())
        return Found(Selection.none(), Selection.from_chunks(may, grid.chunk_rows, self.column.n_rows))

    def options(self) -> Options:
        """The error rate follows from k: with half of its bits set, a filter has a false-positive rate of 0.5**k."""
        return Options(error_rate=0.5 ** max(self._sizes[0], 1))

    def refresh(self, source: KeySource, changed: Selection, n_before: int, options: Options) -> Dataset | None:
        """Write the filters of changed and new chunks. Gives None if the only chunk has outgrown its filter."""
        grid = source.column.grid
        k, m_bits = self._sizes
        wanted = choose_size(min(grid.chunk_rows, max(grid.n_rows, 1)), options.error_rate)[1]
        if n_before <= grid.chunk_rows and 2 * m_bits <= wanted:
            return None
        self._part = None
        if not writing.resize_matrix(editable(self.dataset), (grid.n_chunks, m_bits // 8)):
            return None
        touched = changed | Selection.of(min(n_before, grid.n_rows) // grid.chunk_rows * grid.chunk_rows, grid.n_rows)
        for chunk, keys in chunk_keys(source, grid, iter(touched.chunks(grid.chunk_rows).tolist())):
            writing.write_matrix(
                editable(self.dataset), chunk, 0, make_filter(keys, key_type(source.column).size, k, m_bits)[None]
            )
        return self.dataset

    def verify(self, source: KeySource, options: Options) -> Iterator[Wrong]:
        """Compare each filter with its chunk. A missing bit would lose rows; an extra bit was not written by us."""
        k, m_bits = self._sizes
        filters = Part(self.dataset, 1)
        for chunk, keys in chunk_keys(source, self._grid, range(self._grid.n_chunks)):
            truth, found = make_filter(keys, key_type(self.column).size, k, m_bits), filters.read(chunk, chunk + 1)[0]
            for byte in np.flatnonzero(truth != found)[:1].tolist():
                yield Wrong(f"chunk {chunk}, byte {byte}", int(found[byte]), int(truth[byte]))


def make_column_keys(points: tuple[Key, ...], column: ColumnInfo) -> Keys:
    """The points of a leaf as keys of the column's width. A float that the width cannot represent is in no chunk."""
    like = stored_keys((), key_type(column))
    if isinstance(like, NumberKeys) and like.values.dtype.kind == "f":
        with np.errstate(over="ignore"):  # a value too large for the width becomes infinite, and so differs
            points = tuple(p for p in points if float(like.values.dtype.type(p)) == p)
    return make_keys(points, like)


CHUNK_BLOOM = Kind(
    word="chunk_bloom",
    name="CHUNK_BLOOM",
    build=BloomBuilder,
    open=BloomIndex,
    rank=40,
    rule="S7",
    clause="8.7",
    requires="CHUNK_BLOOM has one filter per chunk, k, m_bits, hash_family and chunk_shape.",
    attributes=(
        IndexAttribute("k", "count", size=2),
        IndexAttribute("m_bits", "count"),
        CHUNK_SHAPE,
        IndexAttribute("hash_family", "ascii"),
    ),
)
