"""Fetch the rows of a column as they are stored; the decoder of the column's form makes values of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from colonnade import limits
from colonnade.arrays import Image
from colonnade.columns.keys import Keys, Numbers
from colonnade.columns.missing import Mask, bits_of_fill
from colonnade.errors import CorruptError, FormatError
from colonnade.model import ColumnInfo, Plain, StoredType
from colonnade.nodes import Dataset
from colonnade.nodes.chunk_source import ChunkSource, by_chunk
from colonnade.nodes.elements import follow_pointers
from colonnade.nodes.heap_source import HeapSource, Strings
from colonnade.selection import RowNumbers
from colonnade.stored_dtypes import memory_dtype, raw_dtype

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from colonnade.sparse.rows import SparseRows


class Present(NamedTuple):
    """Elements that were checked for the fill while they were read: none of them is missing."""

    image: Image


Raw = Image | Strings | Present
"""Rows of one dataset as read: elements in memory form, or bytes of variable length."""


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class MaskedRaw(NamedTuple, Generic[R]):
    """Rows as read, and a mask of missing rows (None if no row is missing)."""

    rows: R
    missing: Mask | None


def is_sectioned(rows: Dataset | SparseRows) -> TypeIs[SparseRows]:
    """Whether these are rows in sectioned chunks, which no HDF5 library reads."""
    return not getattr(rows, "is_dataset", False)


Companion = Dataset | pa.Array | None
"""What the rows of a column are read with: a dataset, or categories from outside the file."""


class Companions(NamedTuple):
    """The companion of a form that contains another form, and the companion of that one."""

    own: Companion
    inner: Companion | Companions


class Decoder(Protocol[R]):
    """Makes values of raw rows. Each form has its own; an invalid row raises a CorruptError that gives its position."""

    def array(self, raw: R) -> pa.Array:
        """The values as an Arrow array."""

    def numbers(self, raw: R) -> tuple[Numbers, Mask | None]:
        """The keys as native numbers, and a mask of missing rows (None if no row is missing)."""

    def key_array(self, raw: R) -> pa.Array:
        """The keys as an Arrow array of numbers, bytes or decimals."""

    def keys(self, raw: R) -> Keys:
        """The keys, by which rows are compared."""

    def values(self, keys: Keys) -> pa.Array:
        """The values that these keys stand for, missing for missing keys."""

    def part(self, raw: R, begin: int, end: int) -> R:
        """A slice of raw rows."""


class Fetcher(Protocol[R_co]):
    """Reads raw rows from a file. Several threads may read at the same time; `n_threads` is how many are useful."""

    n_threads: int

    @property
    def source(self) -> ChunkSource | HeapSource | None:
        """What single elements can be read from past libhdf5, if there is one."""

    def fetch(self, start: int, count: int) -> R_co | None:
        """These rows, read past libhdf5 (directly from the file); None if that is not possible."""

    def by_library(self, start: int, count: int, step: int = 1) -> AbstractContextManager[R_co]:
        """`count` rows (start, start+step, ...), valid inside the context."""

    def take(self, rows: RowNumbers) -> R_co | None:
        """Scattered rows; None if they must be read as ranges."""

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The range start to stop, split into runs of a few MiB that are read together."""

    @property
    def stored_bytes(self) -> int:
        """Bytes that the rows take in the file."""

    def written_rows(self) -> int:
        """The number of rows with storage in the file; the others are the fill."""


@contextmanager
def fetched(fetcher: Fetcher[R], start: int, count: int, step: int = 1) -> Iterator[R]:
    """These rows, past libhdf5 if possible."""
    raw = fetcher.fetch(start, count) if step == 1 else None
    if raw is not None:
        yield raw
        return
    with fetcher.by_library(start, count, step) as rows:
        yield rows


class DatasetFetcher:
    """Rows of one dataset."""

    def __init__(self, column: ColumnInfo, dataset: Dataset, n_threads: int = 1) -> None:
        self.column = column
        self.dataset = dataset
        self.source: ChunkSource | HeapSource | None = None
        if column.problem is None and column.storage in ("chunked", "contiguous"):
            self.source = dataset.heap_source(column.type, column.filters) or dataset.chunk_source(
                raw_dtype(column.type), column.filters, _look_for(column)
            )
        self.n_threads = n_threads if self.source is not None else 1  # libhdf5 serves one thread at a time

    def fetch(self, start: int, count: int) -> Raw | None:
        if not isinstance(self.source, ChunkSource):
            return None if self.source is None else self.source.read(start, count)
        image, may_miss = self.source.read_and_look(start, count)
        return image if image is None or may_miss else Present(image)

    @contextmanager
    def by_library(self, start: int, count: int, step: int = 1) -> Iterator[Raw]:
        refuse_unreadable(self.column)
        with self.dataset.reading(self.column, start, count, step) as image:
            yield image

    def take(self, rows: RowNumbers) -> Raw | None:
        if self.source is None or (len(rows) and int(rows[-1]) - int(rows[0]) + 1 == len(rows)):
            return None
        return self.source.take(rows)

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        return cut(start, stop, self.column.grid.chunk_rows, self.column.type)

    @property
    def stored_bytes(self) -> int:
        return self.dataset.stored_bytes()

    def written_rows(self) -> int:
        return self.dataset.written_rows()


def refuse_unreadable(column: ColumnInfo) -> None:
    """Raise a FormatError if the column has a problem."""
    if column.problem is not None:
        raise FormatError(f"column {column.name!r} cannot be read: {column.problem}", column=column.name)


def part_of(raw: Raw, begin: int, end: int) -> Raw:
    """A slice of raw rows of one dataset."""
    if isinstance(raw, Present):
        return Present(raw.image[begin:end])
    if not isinstance(raw, Strings):
        return raw[begin:end]
    offsets = raw.offsets[begin : end + 1]
    return Strings(offsets - offsets[0], raw.data[int(offsets[0]) : int(offsets[-1])])


def image_of(raw: Raw) -> Image:
    """Rows as elements, for columns without strings of variable length whose fill is not searched for."""
    assert not isinstance(raw, (Strings, Present))
    return raw


def any_of(missing: Mask) -> Mask | None:
    """The mask, or None when no row is missing."""
    return missing if missing.any() else None


def _look_for(column: ColumnInfo) -> bytes | None:
    """The stored bytes of the fill of a numeric column, to search for while rows are read."""
    if column.fill is None or column.form != Plain():
        return None
    return bits_of_fill(column.type, column.fill, raw_dtype(column.type))


def cut(start: int, stop: int, chunk_rows: int, stored: StoredType) -> Iterator[tuple[int, int]]:
    """The range start to stop, split into runs of a few MiB that end at chunk edges."""
    wanted = max(1, limits.now.piece_bytes // max(stored.size, 1))
    run = max(1, wanted // chunk_rows) * chunk_rows if chunk_rows <= wanted else wanted
    while start < stop:
        edge = (start // run + 1) * run
        yield start, min(edge, stop)
        start = edge


def runs(sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows that are read together: of at most `most` bytes, or of one row."""
    ends = np.cumsum(sizes.astype(np.float64))  # float: the sum may overflow 64 bits
    at = 0
    while at < len(ends):
        before = ends[at - 1] if at else 0.0
        end = max(at + 1, int(np.searchsorted(ends, before + most, "right")))
        yield at, end
        at = end


class Takes(Protocol):
    """Rows of which some can be taken, by their positions."""

    def take(self, places: RowNumbers, /) -> Self: ...


TakenRows = TypeVar("TakenRows", bound=Takes)


def parts_of(column: ColumnInfo, rows: RowNumbers, read: Callable[[int, int], TakenRows]) -> list[TakenRows]:
    """The results of `read`, one or more per chunk that holds some of the rows, given increasing and distinct."""
    if len(rows) == 0:
        return [read(0, 0)]
    parts: list[TakenRows] = []
    for _, begin, end in by_chunk(rows, column.grid.chunk_rows):
        group = rows[begin:end]
        first, last = int(group[0]), int(group[-1])
        if last - first + 1 == len(group):
            parts.append(read(first, len(group)))
        elif (last - first + 1) * column.type.size > limits.now.farthest_apart:
            parts.extend(read(row, 1) for row in group.tolist())
        else:
            parts.append(read(first, last - first + 1).take(group - first))
    return parts


def set_column(error: CorruptError, name: str, row_of: Callable[[int], int] | None = None) -> None:
    """Name the column in the error, and convert its row to a row of the table with `row_of`."""
    error.column = name
    if error.row is None:
        return
    if row_of is not None:
        error.row = row_of(error.row)
    error.advice = "column.to_arrow(errors='missing') reads "
    if name.endswith(" (categories)"):
        error.advice += "rows of this category as missing"
    else:
        error.advice += f"such cells as missing, column.raw[{error.row}] as they are stored"


def read_stored(dataset: Dataset, start: int, count: int) -> np.ndarray:
    """Elements of a dataset as a NumPy array: codes, numbers, bytes. Nothing is decoded, so no value can be invalid."""
    info = dataset.describe()
    with dataset.reading(info, start, count) as image:
        return _elements(image, info.type)


def _elements(image: Image, stored: StoredType) -> np.ndarray:
    if not stored.has_pointers:
        return image.copy()
    values = np.empty(len(image), dtype=object)
    for row, element in enumerate(image):
        data = follow_pointers(element, stored)
        plain = stored.kind == "sequence" and not stored.item.has_pointers
        values[row] = np.frombuffer(data, memory_dtype(stored.item)) if plain else data
    return values
