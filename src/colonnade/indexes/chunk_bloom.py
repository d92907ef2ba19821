"""CHUNK_BLOOM: a Bloom filter of each chunk (HEP001 8.7, S7).

In: a column, one chunk at a time. Out: the chunks that may hold one of the requested values.
Invariant: if a filter lacks a bit of a value, its chunk does not hold the value; a filter proves nothing else. Missing
rows and NaN are not added to filters.
In April's revision the two hashes of a value have two seeds; in July's they are the halves of one hash, whose seed is
an attribute. There m_bits is written as a power of two: for others, readers differ (see `other_places`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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
    IndexRevision,
    KeySource,
    Kind,
    Options,
    Part,
    Wrong,
    chunk_keys,
    digest,
    entries_of,
)  # fmt: skip
from colonnade.model import ColumnInfo
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, attributes
from colonnade.nodes.paths import editable
from colonnade.predicate.bound import BoundLeaf, Key
from colonnade.selection import Selection

FAMILY: dict[IndexRevision, str] = {"april": "murmur3_128_double", "july": "murmur3_x64_128_double"}
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


class BloomSizes(NamedTuple):
    """The attributes of an index: bits per value and filter; the seed in July's revision, None in April's."""

    k: int
    m_bits: int
    seed: int | None = None

    @property
    def revision(self) -> IndexRevision:
        return "april" if self.seed is None else "july"


def bit_places(keys: Keys, width: int, sizes: BloomSizes) -> Int64s:
    """The positions of the k bits of each present key."""
    low, high = _hashes(keys, width, sizes)
    steps = np.arange(sizes.k, dtype=np.uint64)
    places: Int64s = ((low[:, None] + steps * high[:, None]) % np.uint64(sizes.m_bits)).astype(np.int64)
    return places


def other_places(keys: Keys, width: int, sizes: BloomSizes) -> Int64s | None:
    """The positions by the other reading of July's definition, which does not wrap at 2**64; None if both agree."""
    if sizes.seed is None or sizes.m_bits & (sizes.m_bits - 1) == 0:
        return None
    low, high = (part % np.uint64(sizes.m_bits) for part in _hashes(keys, width, sizes))
    steps = np.arange(sizes.k, dtype=np.uint64)
    places: Int64s = ((low[:, None] + steps * high[:, None]) % np.uint64(sizes.m_bits)).astype(np.int64)
    return places


def _hashes(keys: Keys, width: int, sizes: BloomSizes) -> tuple[np.ndarray, np.ndarray]:
    """The two hashes of each present key."""
    n_keys = int(np.count_nonzero(keys.present))
    low, high, unused = (np.empty(n_keys, dtype=np.uint64) for _ in range(3))
    if isinstance(keys, NumberKeys):
        items = _items(keys, width)
        if sizes.seed is not None:
            kernels.hash_items(items, width, sizes.seed, low, high)
        else:
            kernels.hash_items(items, width, 0, low, unused)
            kernels.hash_items(items, width, SECOND_SEED, unused, high)
    else:
        offsets, data = _strings(keys.take(np.flatnonzero(keys.present)))
        if sizes.seed is not None:
            kernels.hash_strings(offsets, data, sizes.seed, low, high)
        else:
            kernels.hash_strings(offsets, data, 0, low, unused)
            kernels.hash_strings(offsets, data, SECOND_SEED, unused, high)
    return low, high


def make_filter(keys: Keys, width: int, sizes: BloomSizes) -> Octets:
    """The filter of one chunk, which contains its present keys."""
    bits = np.zeros(sizes.m_bits // 8, dtype=np.uint8)
    k = sizes.k
    if sizes.seed is not None:
        flags = np.zeros(sizes.m_bits, dtype=bool)
        flags[bit_places(keys, width, sizes).reshape(-1)] = True
        return np.packbits(flags, bitorder="little")
    if isinstance(keys, NumberKeys):
        kernels.bloom_add_items(_items(keys, width), width, None, k, bits)
    else:
        kernels.bloom_add_strings(*_strings(keys), keys.present, k, bits)
    return bits


def choose_size(n_keys: int, error_rate: float, revision: IndexRevision = "april") -> tuple[int, int]:
    """k and m_bits for n_keys distinct keys and this false-positive rate."""
    bits = max(8, math.ceil(-max(n_keys, 1) * math.log(error_rate) / math.log(2) ** 2))
    m_bits = -(-bits // 8) * 8
    if revision == "july":  # the next power of two, with as many hashes as the rate asks for
        return max(1, min(MOST_HASHES, round(-math.log2(error_rate)))), 1 << (m_bits - 1).bit_length()
    return max(1, min(MOST_HASHES, round(m_bits / max(n_keys, 1) * math.log(2)))), m_bits


class BloomBuilder(Builder):
    """Writes the filters in the order of the chunks, a few MiB at a time."""

    def __init__(self, group: EditableGroup, name: str, column: ColumnInfo, options: Options) -> None:
        self._column = column
        grid = entries_of(column, options.revision)
        k, m_bits = choose_size(min(grid.chunk_rows, max(column.n_rows, 1)), options.error_rate, options.revision)
        self._sizes = BloomSizes(
            k, m_bits, int.from_bytes(os.urandom(4), "little") if options.revision == "july" else None
        )
        self._is_whole = options.revision == "july" and column.chunk_rows is None
        shape = (grid.n_chunks, m_bits // 8)
        self._dataset = writing.create_matrix(group, name, shape, (1, shape[1]))
        self._waiting: list[Octets] = []
        self._done = 0

    def add(self, first_row: int, keys: Keys) -> None:
        filled = make_filter(keys, key_type(self._column).size, self._sizes)
        if self._is_whole and self._waiting:
            self._waiting[0] |= filled
            return
        self._waiting.append(filled)
        if not self._is_whole and len(self._waiting) * self._sizes.m_bits // 8 >= limits.now.bloom_flush_bytes:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            writing.write_matrix(self._dataset, self._done, 0, np.array(self._waiting))
            self._done += len(self._waiting)
            self._waiting = []

    def finish(self) -> EditableDataset:
        self._flush()
        writing.write_integer(self._dataset, "k", self._sizes.k, "<u2")
        writing.write_integer(self._dataset, "m_bits", self._sizes.m_bits)
        writing.write_text(self._dataset, "hash_family", FAMILY[self._sizes.revision], "ascii")
        if self._sizes.seed is None:
            writing.write_integers(self._dataset, "chunk_shape", [self._column.grid.chunk_rows])
        else:
            writing.write_integer(self._dataset, "seed", self._sizes.seed, "<u4")
        return self._dataset


class BloomIndex(Index):
    """The filters of all chunks, read one by one."""

    def __post_init__(self) -> None:
        self._part: Part | None = None

    @property
    def _sizes(self) -> BloomSizes:
        k = attributes.read_integers(self.dataset, "k") or [0]
        m_bits = attributes.read_integers(self.dataset, "m_bits") or [0]
        seed = (attributes.read_integers(self.dataset, "seed") or [0])[0] if self.revision == "july" else None
        return BloomSizes(k[0], m_bits[0], seed)

    def problem(self) -> str | None:
        grid = self._grid
        shape = self.dataset.matrix_shape()
        k, m_bits, seed = self._sizes
        if shape is None:
            return "it is not a matrix of bytes"
        if not 1 <= k <= 1024 or not 8 <= m_bits <= 8 * LARGEST_FILTER or m_bits != 8 * shape[1]:
            return f"its sizes are invalid: k is {k}, m_bits is {m_bits}, a filter has {shape[1]} bytes"
        if attributes.read_text(self.dataset, "hash_family") != FAMILY[self.revision]:
            return "it was built with another hash family"
        if seed is not None and not 0 <= seed < 2**32:
            return f"its seed, {seed}, is not a number of 32 bits"
        if self.revision == "july":
            few = shape[0] < grid.n_chunks
            return f"it has {shape[0]} filters, the column has {grid.n_chunks} chunks" if few else None
        if shape[0] != grid.n_chunks:
            return f"it has {shape[0]} filters, the column has {grid.n_chunks} chunks"
        if attributes.read_integers(self.dataset, "chunk_shape") != [grid.chunk_rows]:
            return "it was built for chunks of another length"
        return None

    def _attributes_digest(self) -> str:
        k, m_bits, seed = self._sizes
        more = (seed,) if seed is not None else () if self.column.chunk_rows is not None else (self._grid.chunk_rows,)
        return digest(repr((k, m_bits, *more)).encode())

    def _filters(self) -> Part:
        if self._part is None:
            self._check_attributes(self._attributes_digest())
            self._part = self._rows(self._digests_of(""))
        return self._part

    def _rows(self, digests: Sequence[str] | None = None) -> Part:
        """The filters: as many as the column has chunks."""
        return Part(self.dataset, 1, digests, n_rows=self._grid.n_chunks)

    def digests(self) -> Digests:
        return {"attributes": [self._attributes_digest()], "": self._rows().digests()}

    def find(self, leaf: BoundLeaf, scope: Selection, by_row: bool) -> Found | None:
        points = leaf.points
        if points is None or len(points) > limits.now.bloom_points:
            return None
        grid = self._grid
        may = np.zeros(grid.n_chunks, dtype=bool)
        if points:
            keys, width = make_column_keys(points, self.column), key_type(self.column).size
            bits, other = bit_places(keys, width, self._sizes), other_places(keys, width, self._sizes)
            for chunk in scope.chunks(grid.chunk_rows).tolist():
                filter_ = self._filters().read(chunk, chunk + 1)[0]
                may[chunk] = _holds_one(filter_, bits) or (other is not None and _holds_one(filter_, other))
        return Found(Selection.none(), Selection.from_chunks(may, grid.chunk_rows, self.column.n_rows))

    def options(self) -> Options:
        """The error rate follows from k: with half of its bits set, a filter has a false-positive rate of 0.5**k."""
        return Options(error_rate=0.5 ** max(self._sizes.k, 1), revision=self.revision)

    def refresh(self, source: KeySource, changed: Selection, n_before: int, options: Options) -> Dataset | None:
        """Write the filters of changed and new chunks. Gives None if the only chunk has outgrown its filter."""
        grid, sizes = entries_of(source.column, self.revision), self._sizes
        m_bits = sizes.m_bits
        wanted = choose_size(min(grid.chunk_rows, max(grid.n_rows, 1)), options.error_rate, self.revision)[1]
        if n_before <= grid.chunk_rows and 2 * m_bits <= wanted:
            return None
        if self.revision == "july" and source.column.chunk_rows is None:
            return None
        self._part = None
        if not writing.resize_matrix(editable(self.dataset), (grid.n_chunks, m_bits // 8)):
            return None
        touched = changed | Selection.of(min(n_before, grid.n_rows) // grid.chunk_rows * grid.chunk_rows, grid.n_rows)
        for chunk, keys in chunk_keys(source, grid, iter(touched.chunks(grid.chunk_rows).tolist())):
            writing.write_matrix(
                editable(self.dataset), chunk, 0, make_filter(keys, key_type(source.column).size, sizes)[None]
            )
        return self.dataset

    def verify(self, source: KeySource, options: Options) -> Iterator[Wrong]:
        """Compare each filter with its chunk. A missing bit would lose rows; an extra bit was not written by us."""
        sizes = self._sizes
        filters, width = Part(self.dataset, 1), key_type(self.column).size
        for chunk, pieces in self._pieces(source):
            found, truth = filters.read(chunk, chunk + 1)[0], np.zeros(sizes.m_bits // 8, dtype=np.uint8)
            other, has_other = truth.copy(), False
            for keys in pieces:
                truth |= make_filter(keys, width, sizes)
                places = other_places(keys, width, sizes)
                if places is not None:
                    has_other = True
                    np.bitwise_or.at(other, places.reshape(-1) // 8, (1 << places.reshape(-1) % 8).astype(np.uint8))
            if has_other and (other == found).all():
                continue
            for byte in np.flatnonzero(truth != found)[:1].tolist():
                yield Wrong(f"chunk {chunk}, byte {byte}", int(found[byte]), int(truth[byte]))

    def _pieces(self, source: KeySource) -> Iterator[tuple[int, Iterator[Keys]]]:
        """Each filter with the keys in it: those of its chunk, or of a column without chunks, some rows at a time."""
        if self.revision == "july" and source.column.chunk_rows is None:
            grid = source.column.grid
            if grid.n_rows:
                yield 0, (keys for _, keys in chunk_keys(source, grid, range(grid.n_chunks)))
            return
        for chunk, keys in chunk_keys(source, self._grid, range(self._grid.n_chunks)):
            yield chunk, iter((keys,))


def _holds_one(filter_: Octets, bits: Int64s) -> bool:
    """Whether a filter has all bits of one of the values."""
    return bool(((filter_[bits // 8] >> (bits % 8)) & 1).all(axis=1).any())


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
