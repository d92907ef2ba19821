"""What the four kinds have in common: how an index answers, how it is read, how it is trusted.

An index answers a leaf with two sets of rows: those for which the leaf is `sure` to be true, and those for which it
`may` be. Always: sure is part of the truth, and the truth is part of may.

What is read of an index goes through `Part`: in blocks, each checked against the digest that a receipt holds for
it, so that a byte that was changed after the receipt was made is never believed.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from colonnade.columns.keys import Keys, Numbers, Places
from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError
from colonnade.h5 import attributes
from colonnade.h5.chunks import open_source
from colonnade.h5.datasets import Image, describe_dataset, follow_pointers, reading, with_length
from colonnade.h5.matrices import matrix_shape, read_matrix
from colonnade.model import ChunkGrid, ColumnInfo
from colonnade.predicate.bound import BoundLeaf, Key
from colonnade.selection import Selection
from colonnade.stored_dtypes import raw_dtype

Digests = dict[str, list[str]]
"""Of each part of an index ("attributes", "", "values"), the digests of its blocks."""


MOST_BLOCKS = 256  # of a part that are kept once they are read


class ChangedError(Exception):
    """An index is not what its receipt says, or holds what no index can."""


class Costly(Exception):
    """What an index would have to read costs more than the rows that are left."""


# What an index may raise that holds what no index can: it is then not used. Never an error of a query.
BAD_INDEX = (ChangedError, ColonnadeError, OSError, ValueError, TypeError, ArithmeticError, LookupError, MemoryError)


@dataclass(frozen=True)
class Found:
    """The rows for which a leaf is sure to be true, and those for which it may be."""

    sure: Selection
    may: Selection

    @property
    def is_exact(self) -> bool:
        return self.sure == self.may


class KeySource(Protocol):
    """A column whose keys can be read: a ColumnReader."""

    @property
    def column(self) -> ColumnInfo: ...
    def keys(self, start: int, count: int) -> Keys: ...
    def take_keys(self, rows: Places) -> Keys: ...
    def key(self, row: int) -> Key: ...
    def keys_of_few(self, rows: Places) -> Numbers | None: ...
    @property
    def is_open_to_rows(self) -> bool: ...


def chunk_keys(source: KeySource, grid: ChunkGrid, chunks: Iterator[int] | range) -> Iterator[tuple[int, Keys]]:
    """The keys of these chunks of the grid, one after another."""
    for chunk in chunks:
        start, stop = grid.bounds(chunk)
        yield chunk, source.keys(start, stop - start)


class Hasher:
    """The digest of bytes that come in parts."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, data: bytes | Image) -> None:
        self._hash.update(data if isinstance(data, bytes) else data.data)

    def digest(self) -> str:
        return self._hash.hexdigest()[:32]


def digest(data: bytes | Image) -> str:
    hasher = Hasher()
    hasher.add(data)
    return hasher.digest()


class Part:
    """A dataset of an index, read in blocks of rows."""

    def __init__(self, dataset: Any, block_rows: int, digests: list[str] | None = None) -> None:
        self.dataset = dataset
        self._info = describe_dataset(dataset)
        self._block_rows = block_rows
        self._digests = digests
        self._blocks: dict[int, Image] = {}
        self._matrix = matrix_shape(dataset)
        self._source = open_source(dataset, raw_dtype(self._info.type), self._info.filters)
        self.n_blocks_read = 0

    @property
    def info(self) -> Any:
        return self._info

    @property
    def n_rows(self) -> int:
        return self._info.shape[0] if self._info.shape else 0

    def read(self, start: int, stop: int) -> Image:
        """The rows start to stop, of a one-dimensional part without pointers or of a matrix."""
        blocks = [self._block(n) for n in range(start // self._block_rows, -(-stop // self._block_rows))]
        if not blocks:
            return self._load(0, 0)
        whole = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        first = start // self._block_rows * self._block_rows
        return whole[start - first : stop - first]

    def element(self, row: int) -> Any:
        """One row of a one-dimensional part without pointers."""
        number = row // self._block_rows
        return self._block(number)[row - number * self._block_rows]

    def _block(self, number: int) -> Image:
        if number not in self._blocks:
            start = number * self._block_rows
            block = self._load(start, min(start + self._block_rows, self.n_rows))
            self.n_blocks_read += 1
            if self._digests is not None and (
                number >= len(self._digests) or digest(block.tobytes()) != self._digests[number]
            ):
                raise ChangedError("its bytes are not those that were verified")
            while len(self._blocks) >= MOST_BLOCKS:
                self._blocks.pop(next(iter(self._blocks)))
            self._blocks[number] = block
        return self._blocks[number]

    def _load(self, start: int, stop: int) -> Image:
        if self._matrix is not None:
            return read_matrix(self.dataset, (start, stop), (0, self._matrix[1]))
        found = self._source.read(start, stop - start) if self._source is not None else None
        if found is not None:
            return found
        with reading(self.dataset, self._info, start, stop - start) as image:
            return image.copy()

    def load(self, start: int, stop: int) -> Image:
        """The rows start to stop in one read, not checked against digests."""
        return self._load(start, stop)

    def digests(self) -> list[str]:
        """The digest of each block, as it is now."""
        starts = range(0, self.n_rows, self._block_rows)
        return [digest(self._load(s, min(s + self._block_rows, self.n_rows)).tobytes()) for s in starts]


def digest_pointing(dataset: Any) -> str:
    """One digest for a whole dataset whose elements may point elsewhere."""
    info = describe_dataset(dataset)
    with reading(dataset, info, 0, info.shape[0] if info.shape else 0) as image:
        return digest(b"".join(with_length(follow_pointers(element, info.type)) for element in image))


@dataclass
class Options:
    """How an index is to be built. What does not concern a kind is not looked at by it."""

    error_rate: float = 0.01
    max_values: int = 4096
    memory: int = 256 << 20


class Builder(ABC):
    """An index being built: `add` the keys of every chunk in turn, then `finish`."""

    @abstractmethod
    def add(self, first_row: int, keys: Keys) -> None:
        """Take the next rows."""

    @abstractmethod
    def finish(self) -> Any:
        """Write what is left; gives the index's dataset."""

    def digests(self) -> Digests | None:
        """The digests of all bytes it wrote; None where they must be read again for it. After `finish`."""
        return None

    def abandon(self) -> None:  # noqa: B027 - most have nothing of the kind
        """Let go of what is kept outside the file: the index will not be finished."""


@dataclass
class Wrong:
    """One entry of an index that does not match its column."""

    entry: str
    found: object
    expected: object

    def __str__(self) -> str:
        return f"{self.entry}: found {self.found}, expected {self.expected}"


@dataclass
class Index(ABC):
    """An index of a file, open."""

    dataset: Any
    column: ColumnInfo
    receipt: Digests | None = None
    kind: str = field(init=False, default="")

    def __post_init__(self) -> None:  # noqa: B027 - kinds that keep what they have read begin it here
        """Begin with nothing read."""

    @abstractmethod
    def problem(self) -> str | None:
        """Why the index does not suit its column by its shape and attributes; None when it does."""

    @cached_property
    def _grid(self) -> ChunkGrid:
        """The rows that each entry stands for: a chunk, or what `chunk_shape` says of a column that has no chunks."""
        if self.column.chunk_rows is None:
            stride = attributes.read_integers(self.dataset, "chunk_shape") or []
            if len(stride) == 1 and stride[0] > 0:
                return ChunkGrid(self.column.n_rows, stride[0])
        return self.column.grid

    def datasets(self) -> list[Any]:
        """What the index is made of: all of it must grow with the column."""
        return [self.dataset]

    @abstractmethod
    def digests(self) -> Digests:
        """The digests of all its bytes, as they are now."""

    @abstractmethod
    def find(self, leaf: BoundLeaf, scope: Selection, source: KeySource) -> Found | None:
        """What it knows of a leaf among the rows of `scope`; None when it knows nothing."""

    def count(self, leaf: BoundLeaf, source: KeySource) -> int | None:
        """For how many rows the leaf is true, where it can tell without listing them."""
        return None

    @abstractmethod
    def refresh(self, source: KeySource, changed: Selection, n_before: int, options: Options) -> Any:
        """Make it match again after these rows were changed or added; gives its dataset, None if it cannot."""

    def refreshed(self) -> Digests | None:
        """After `refresh`, the digests of all its bytes; None where they must be read again for it."""
        return None

    @abstractmethod
    def verify(self, source: KeySource, options: Options) -> Iterator[Wrong]:
        """Every entry that does not match the column: one pass over it."""

    def claims(self) -> Digests:
        """What a pass over the column has shown that the bytes of the index alone do not: part of its receipt."""
        return {}

    def options(self) -> Options:
        """How it was built, as far as it shows: to build it again."""
        return Options()

    def _digests_of(self, part: str) -> list[str] | None:
        return None if self.receipt is None else self.receipt.get(part, [])

    def _check_attributes(self, now: str) -> None:
        if self.receipt is not None and self.receipt.get("attributes") != [now]:
            raise ChangedError("its attributes are not those that were verified")
