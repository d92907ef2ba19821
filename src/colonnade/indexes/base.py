"""The contract of an index kind, and what all kinds share: answering, reading and trusting an index.

An index answers a leaf with two sets of rows: those for which the leaf is `sure` to be true, and those for which it
`may` be true. Invariant: `sure` is a subset of the matching rows, and these are a subset of `may`.

An index is read through `Part`, in blocks. Each block is checked against its digest in the receipt, so a byte
that was changed after the receipt was written is never trusted.

A `Kind` holds everything that other rooms know about a kind. They never ask which kind an index is.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from colonnade.arrays import Image
from colonnade.columns.keys import Keys, Numbers
from colonnade.columns.strings import Places
from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError
from colonnade.indexes.known import Known
from colonnade.model import ChunkGrid, ColumnInfo, DatasetInfo
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, attributes
from colonnade.nodes.elements import follow_pointers, with_length
from colonnade.predicate.bound import BoundLeaf, Key
from colonnade.selection import Selection
from colonnade.stored_dtypes import raw_dtype

IndexRevision = Literal["april", "july"]
"""The revision of HEP001 that an index is stored by: April 2026 (in other layouts too), or July 2026 (H5Col)."""
VALUES_NAMES: dict[IndexRevision, str] = {"april": "_values", "july": "VALUES"}
"""The attribute of an index that refers to a second dataset; the index's name, `_` and this is the name of that."""
Digests = dict[str, Sequence[str]]
"""The digests of the blocks of each part of an index ("attributes", "", "values")."""

T = TypeVar("T")


class Probe(NamedTuple):
    """Rows of a column, in any order, whose keys an index needs to answer. The index does not read them itself."""

    column: str
    rows: Places


Asking = Generator[Probe, list[Key], T]
"""An answer in steps: it yields probes, is sent the keys of their rows, and returns the answer."""

MOST_BLOCKS = 256  # cached per part
SLOWLY_HASHED = 1 << 18  # bytes


class ChangedError(Exception):
    """An index does not match its receipt, or its contents are impossible."""


class Costly(Exception):
    """Reading the index would cost more than reading the remaining rows."""


# What an index with impossible contents may raise. The query then ignores the index; it does not fail.
BAD_INDEX = (ChangedError, ColonnadeError, OSError, ValueError, TypeError, ArithmeticError, LookupError, MemoryError)


@dataclass(frozen=True)
class Found:
    """The rows for which a leaf is sure to be true, and those for which it may be.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> found = t.where("energy > 5").explain().found
    >>> found.sure.count, found.may.count
    (0, 3)
    """

    sure: Selection
    may: Selection

    @property
    def is_exact(self) -> bool:
        """Whether every row that may match is sure to."""
        return self.sure == self.may


class Cost(NamedTuple):
    """What an index reads to answer a leaf: bytes of its own, and whether it also probes the column for single rows."""

    n_bytes: int = 0
    probes: bool = False


class KeySource(Protocol):
    """A column whose keys can be read: a ColumnReader."""

    @property
    def column(self) -> ColumnInfo: ...
    def keys(self, start: int, count: int) -> Keys: ...
    def take_keys(self, rows: Places) -> Keys: ...
    def keys_at(self, rows: Places) -> list[Key]: ...


def asked(answer: T | Asking[T]) -> Asking[T]:
    """An answer in steps, which may be none."""
    if isinstance(answer, Generator):
        return (yield from answer)
    return answer


class ChangedSource(KeySource, Protocol):
    """A column that has changed, for updating its indexes."""

    def unchecked_keys(self, start: int, count: int) -> Numbers | None: ...


def entries_of(column: ColumnInfo, revision: IndexRevision) -> ChunkGrid:
    """The rows covered by each entry of an index that is built now."""
    if revision == "july" and column.chunk_rows is None:
        return ChunkGrid(column.n_rows, max(column.n_rows, 1))
    return column.grid


def chunk_keys(source: KeySource, grid: ChunkGrid, chunks: Iterator[int] | range) -> Iterator[tuple[int, Keys]]:
    """Yield each of these chunks of the grid with its keys."""
    for chunk in chunks:
        start, stop = grid.bounds(chunk)
        yield chunk, source.keys(start, stop - start)


class Hasher:
    """Computes the digest of bytes that arrive in parts."""

    def __init__(self) -> None:
        import hashlib

        self._hash = hashlib.sha256()

    def add(self, data: bytes | Image) -> None:
        self._hash.update(data if isinstance(data, bytes) else data.data)

    def digest(self) -> str:
        return self._hash.hexdigest()[:32]


class _Digest:
    """The digest of bytes.

    Loading OpenSSL takes as long as hashing a few hundred KB with Python's own SHA-256. A process therefore begins with
    that one, and goes over to OpenSSL, which is several times faster, when there are more bytes.
    """

    def __init__(self) -> None:
        self._n_left = SLOWLY_HASHED

    def __call__(self, data: bytes | Image) -> str:
        if self._n_left > 0 and "_hashlib" not in sys.modules:
            self._n_left -= len(data) if isinstance(data, bytes) else data.nbytes
            with suppress(ImportError):
                own = import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256")
                return str(own.sha256(data).hexdigest()[:32])
        hasher = Hasher()
        hasher.add(data)
        return hasher.digest()


digest = _Digest()


class Part:
    """A dataset of an index, read in blocks of rows.

    n_rows and n_columns: how many of the dataset mean something; it may claim any number of others after them.
    """

    def __init__(
        self,
        dataset: Dataset,
        block_rows: int,
        digests: Sequence[str] | None = None,
        *,
        n_rows: int | None = None,
        n_columns: int | None = None,
    ) -> None:
        self.dataset = dataset
        self._info = dataset.describe()
        self._block_rows = block_rows
        self._digests = digests
        self._blocks: dict[int, Image] = {}
        self._most_rows = n_rows
        matrix = dataset.matrix_shape()
        self._n_columns = None if matrix is None else matrix[1] if n_columns is None else min(matrix[1], n_columns)
        self._source = dataset.chunk_source(raw_dtype(self._info.type), self._info.filters)

    @property
    def info(self) -> DatasetInfo:
        return self._info

    @property
    def n_rows(self) -> int:
        n_rows = self._info.shape[0] if self._info.shape else 0
        return n_rows if self._most_rows is None else min(n_rows, self._most_rows)

    def read(self, start: int, stop: int) -> Image:
        """The rows start to stop of a matrix, or of a one-dimensional part without pointers."""
        blocks = [self._block(n) for n in range(start // self._block_rows, -(-stop // self._block_rows))]
        if not blocks:
            return self._load(0, 0)
        whole = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        first = start // self._block_rows * self._block_rows
        return whole[start - first : stop - first]

    def element(self, row: int) -> np.void:
        """One row of a one-dimensional part without pointers."""
        number = row // self._block_rows
        element: np.void = self._block(number)[row - number * self._block_rows]
        return element

    def _block(self, number: int) -> Image:
        if number not in self._blocks:
            start = number * self._block_rows
            block = self._load(start, min(start + self._block_rows, self.n_rows))
            if self._digests is not None and (
                number >= len(self._digests) or digest(block.tobytes()) != self._digests[number]
            ):
                raise ChangedError("its bytes are not those that were verified")
            while len(self._blocks) >= MOST_BLOCKS:
                self._blocks.pop(next(iter(self._blocks)))
            self._blocks[number] = block
        return self._blocks[number]

    def _load(self, start: int, stop: int) -> Image:
        if self._n_columns is not None:
            return self.dataset.read_matrix((start, stop), (0, self._n_columns))
        found = self._source.read(start, stop - start) if self._source is not None else None
        if found is not None:
            return found
        with self.dataset.reading(self._info, start, stop - start) as image:
            return image.copy()

    def load(self, start: int, stop: int) -> Image:
        """The rows start to stop in one read, not checked against digests."""
        return self._load(start, stop)

    def digests(self) -> list[str]:
        """The digest of each block as currently stored."""
        starts = range(0, self.n_rows, self._block_rows)
        return [digest(self._load(s, min(s + self._block_rows, self.n_rows)).tobytes()) for s in starts]


def digest_pointing(dataset: Dataset, most: int | None = None) -> str:
    """One digest of a dataset, or of as many rows as mean something. Pointers of its elements are followed."""
    info = dataset.describe()
    n_rows = info.shape[0] if info.shape else 0
    with dataset.reading(info, 0, n_rows if most is None else min(n_rows, most)) as image:
        return digest(b"".join(with_length(follow_pointers(element, info.type)) for element in image))


@dataclass
class Options:
    """How to build an index. Each kind ignores the options that do not apply to it."""

    error_rate: float = 0.01
    max_values: int = 4096
    memory: int = 256 << 20
    revision: IndexRevision = "april"


class Builder(ABC):
    """An index being built: `add` the keys of every chunk in turn, then `finish`."""

    @abstractmethod
    def add(self, first_row: int, keys: Keys) -> None:
        """Take the next rows."""

    @abstractmethod
    def finish(self) -> EditableDataset:
        """Write what is left and return the index's dataset."""

    def digests(self) -> Digests | None:
        """After `finish`, the digests of all bytes it wrote; None if the caller must read the index to get them."""
        return None

    def abandon(self) -> None:  # noqa: B027 - most builders have nothing to release
        """Release what is stored outside the file. Called when the index will not be finished."""


@dataclass
class Wrong:
    """One entry of an index that does not match its column."""

    entry: str
    found: object
    expected: object

    def __str__(self) -> str:
        return f"{self.entry}: found {self.found}, expected {self.expected}"


class ChunkBounds(NamedTuple):
    """The least and greatest key of each chunk (undefined if it has no values), and the number of its values, which
    are neither missing nor NaN. chunk_rows: the rows of a chunk, of which the last may have fewer."""

    low: np.ndarray
    high: np.ndarray
    n_values: np.ndarray
    chunk_rows: int


@dataclass
class Index(ABC):
    """An open index of a file."""

    dataset: Dataset
    column: ColumnInfo
    receipt: Digests | None = None
    revision: IndexRevision = "april"

    def __post_init__(self) -> None:  # noqa: B027 - kinds that cache what they read initialise the cache here
        """Start with nothing read."""

    @abstractmethod
    def problem(self) -> str | None:
        """Why the shape or attributes of the index do not match its column; None when they do."""

    @cached_property
    def _grid(self) -> ChunkGrid:
        """The rows covered by each entry: a chunk; when the column is not chunked, `chunk_shape` rows, or in July's
        revision all rows."""
        if self.revision == "july":
            return entries_of(self.column, self.revision)
        if self.column.chunk_rows is None:
            stride = attributes.read_integers(self.dataset, "chunk_shape") or []
            if len(stride) == 1 and stride[0] > 0:
                return ChunkGrid(self.column.n_rows, stride[0])
        return self.column.grid

    def datasets(self) -> list[Dataset]:
        """All datasets of the index. All of them must grow with the column."""
        return [self.dataset]

    @abstractmethod
    def digests(self) -> Digests:
        """The digests of all its bytes as currently stored."""

    def cost(self, leaf: BoundLeaf) -> Cost:
        """What `find` will read. A query that can read the remaining rows for less does not ask the index."""
        return Cost()

    @abstractmethod
    def find(self, leaf: BoundLeaf, scope: Selection, by_row: bool) -> Found | Asking[Found | None] | None:
        """The rows of a leaf within `scope`; None when this index cannot answer the leaf.

        by_row: whether a row of the column can be read without the rest of its chunk. An index never reads its
        column to answer: if it needs keys of it, its answer is in steps, each of them a `Probe`.
        """

    def count(self, leaf: BoundLeaf, by_row: bool) -> int | Asking[int | None] | None:
        """The number of rows for which the leaf is true; None if that requires listing them."""
        return None

    def ordered_rows(self) -> Places | None:
        """All rows in increasing order, NaN after the numbers and missing rows last; None if the index has no order."""
        return None

    def first_rows(
        self, n_rows: int, descending: bool, whole_groups: bool, by_row: bool
    ) -> Places | Asking[Places | None] | None:
        """The first of all rows by their keys, not in this order; None if the index does not know them.

        whole_groups: with them all rows whose key equals that of the last of them; otherwise earlier rows come first.
        """
        return None

    def chunk_bounds(self) -> ChunkBounds | None:
        """The bounds of the numbers in each chunk; None if the index has none, or if some are not numbers."""
        return None

    def known(self) -> Known | Asking[Known | None] | None:
        """Statistics of the whole column; None if the index does not know them for less than reading the column."""
        return None

    def at_ranks(self, ranks: Sequence[int]) -> Keys | Asking[Keys | None] | None:
        """The keys at these ranks, counted from 0 in increasing order of key, without missing and NaN rows; None if the
        index does not know the order of rows."""
        return None

    def most_distinct(self) -> int | None:
        """An upper bound of the number of distinct values; None if the index does not know one."""
        return None

    @abstractmethod
    def refresh(self, source: ChangedSource, changed: Selection, n_before: int, options: Options) -> Dataset | None:
        """Update the index after these rows were changed or added. Returns its dataset, or None if it cannot."""

    def remove(self, source: ChangedSource, removed: Selection, n_before: int, options: Options) -> Dataset | None:
        """Update the index after these rows were removed and those after them moved up, as `refresh` does."""
        moved = Selection.of(int(removed.starts[0]), source.column.n_rows)
        return self.refresh(source, moved, n_before, options)

    def refreshed(self) -> Digests | None:
        """After `refresh`, the digests of all its bytes; None if the caller must read the index to get them."""
        return None

    @abstractmethod
    def verify(self, source: KeySource, options: Options) -> Iterator[Wrong]:
        """Yield the entries that do not match the column, in one pass over it."""

    def claims(self) -> Digests:
        """Facts for the receipt that need a pass over the column and do not follow from the index's bytes."""
        return {}

    def options(self) -> Options:
        """The options for rebuilding the index, as far as they can be derived from it."""
        return Options()

    def _digests_of(self, part: str) -> Sequence[str] | None:
        return None if self.receipt is None else self.receipt.get(part, [])

    def _check_attributes(self, now: str) -> None:
        if self.receipt is not None and self.receipt.get("attributes") != [now]:
            raise ChangedError("its attributes are not those that were verified")


@dataclass(frozen=True)
class IndexAttribute:
    """An attribute of an index's dataset, and what a file must store in it.

    holds: "count", an unsigned integer of `size` bytes (if not `scalar`, a 1-D array of them); "flag", a boolean;
    "ascii", a string; "values", a reference to a second dataset of the index, in the same group.
    """

    name: str
    holds: Literal["count", "flag", "ascii", "values"]
    size: int = 8
    scalar: bool = True


CHUNK_SHAPE = IndexAttribute("chunk_shape", "count", scalar=False)
"""The rows covered by each entry of an index that has one entry per chunk."""


@dataclass(frozen=True)
class Kind:
    """One kind of index.

    word: its name for users. name: its KIND attribute in files. build, open: its builder and its index class.
    rank: a query asks the indexes of a column in increasing order of rank, the cheapest kinds first.
    counts_distinct: whether `known` includes the number of distinct values; statistics ask such kinds first.
    rule, clause, requires: the rule for its stored form: its number, its clause in HEP001, and what it requires.
    attributes: those of its dataset that the rule requires, in the order in which they are checked. The rest of the
    rule is `Index.problem`.
    """

    word: str
    name: str
    build: Callable[[EditableGroup, str, ColumnInfo, Options], Builder]
    open: Callable[[Dataset, ColumnInfo, Digests | None, IndexRevision], Index]
    rank: int
    rule: str
    clause: str
    requires: str
    attributes: tuple[IndexAttribute, ...] = ()
    counts_distinct: bool = False
