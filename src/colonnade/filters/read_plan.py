"""Plans for reading rows of chunks, as values: which bytes of a file, through which filters, to which rows of a result.

In: where chunks are (`Located`), and the rows wanted. Out: a `ReadPlan`, which `filters/chunk_reader.py` runs. Nothing
is read here, and a plan holds no handle: how its bytes are fetched is up to whoever runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from colonnade.filters.undo import MOST_GROWN, SLACK, PackedForm, Pipeline, scale_offset_form
from colonnade.selection import RowNumbers

MOST_AT_ONCE = 2 << 30  # bytes of rows that are read together; more are refused
_FEW_ROWS = 4  # of a chunk, that are read one by one
_LONGEST_PICKED = 64 << 20  # bytes of a chunk: memory is taken for all of it where rows are picked from it
_BATCH_BYTES = 1 << 20  # bytes of filtered chunks that are unpacked in one call


class ChunkForm:
    """How the rows of a dataset are stored in its chunks."""

    def __init__(self, dtype: np.dtype, chunk_rows: int, pipeline: Pipeline) -> None:
        self.dtype = dtype
        self.native = dtype.newbyteorder("=")
        self.chunk_rows = chunk_rows
        self.chunk_bytes = chunk_rows * dtype.itemsize
        self.pipeline = pipeline
        self.packed = _packed_form(pipeline)
        """The NumPy type, the fill and the decimals of elements packed by scale-offset alone."""
        self.has_single_rows = pipeline.is_empty or self.packed is not None
        """Whether a row can be read without the rest of its chunk."""
        self.together = MOST_AT_ONCE if pipeline.is_empty else _BATCH_BYTES if pipeline.takes_many else 0
        """Bytes of stored chunks that are read in one call; 0: chunks are read one by one."""
        self._longest = MOST_GROWN * self.chunk_bytes + SLACK

    def check(self, size: int) -> None:
        """Raise a ValueError if a stored chunk cannot have this size."""
        if size > self._longest:
            raise ValueError("a chunk is far larger than its filters can make it")
        if self.pipeline.is_empty and size != self.chunk_bytes:
            raise ValueError("a chunk without filters has the wrong length")


def _packed_form(pipeline: Pipeline) -> PackedForm | None:
    if pipeline.scale_offset is None:
        return None
    try:
        return scale_offset_form(tuple(pipeline.scale_offset))
    except ValueError:
        return None  # its options are invalid, which is reported when a chunk is unpacked


class Located(NamedTuple):
    """Chunks by number, with their addresses and sizes in the file. masks: the filters each has skipped; None: none."""

    numbers: range | RowNumbers
    addresses: RowNumbers
    sizes: RowNumbers
    masks: RowNumbers | None = None

    def chunk(self, position: int) -> StoredChunk:
        """The chunk at a position in these arrays."""
        mask = 0 if self.masks is None else int(self.masks[position])
        return StoredChunk(int(self.numbers[position]), int(self.addresses[position]), int(self.sizes[position]), mask)


class StoredChunk(NamedTuple):
    """One chunk: its number, its address and size in the file, and the filters that it has skipped."""

    number: int
    address: int
    size: int
    mask: int


# -- pieces of a plan; `begin` is where in the result the rows of a piece begin --


class WholeChunks(NamedTuple):
    """Chunks after each other that have skipped no filter, all rows of each."""

    begin: int
    chunks: Located


class ChunkSpan(NamedTuple):
    """`n_rows` rows of one chunk, from the row `first` of the chunk."""

    begin: int
    chunk: StoredChunk
    first: int
    n_rows: int

    @property
    def last(self) -> int:
        return self.first + self.n_rows - 1


class ChunkRows(NamedTuple):
    """Increasing rows of one chunk, as row numbers of the dataset; `base` is the number of the chunk's first row."""

    begin: int
    chunk: StoredChunk
    rows: RowNumbers
    base: int

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def first(self) -> int:
        return int(self.rows[0]) - self.base

    @property
    def last(self) -> int:
        return int(self.rows[-1]) - self.base

    def places(self, first: int) -> RowNumbers:
        """Where the rows are among those of the chunk from `first` on."""
        return self.rows - (self.base + first)


class PickedRows(NamedTuple):
    """Rows of several chunks that have skipped no filter: `ends[i]` is where in the result those of chunk i end."""

    chunks: Located
    ends: RowNumbers
    places: RowNumbers


class SingleRows(NamedTuple):
    """Rows that are read one by one: `chunks` holds the chunk of each, which has skipped no filter."""

    chunks: Located
    places: RowNumbers


Piece = WholeChunks | ChunkSpan | ChunkRows | PickedRows | SingleRows


class ReadPlan(NamedTuple):
    """All that is read to get some rows. fill: the element, as stored, of rows that no piece holds."""

    n_rows: int
    pieces: Sequence[Piece]
    fill: bytes | None = None


# -- plans --


def plan_range(form: ChunkForm, start: int, count: int, chunks: Located, fill: bytes | None = None) -> ReadPlan:
    """Read `count` rows from `start`. Chunks that are missing in `chunks` were never written and hold the fill."""
    stop = start + count
    pieces: list[Piece] = []
    for first, end in _runs(chunks):
        if chunks.masks is not None and chunks.masks[first]:
            pieces.append(_span(form, chunks.chunk(first), start, stop))
        else:
            pieces += _together(form, chunks, (first, end), (start, stop))
    return ReadPlan(count, pieces, fill)


def _runs(chunks: Located) -> Iterator[tuple[int, int]]:
    """The positions of chunks that follow each other and have skipped no filter; the others one by one."""
    numbers, masks = chunks.numbers, chunks.masks
    if masks is None and isinstance(numbers, range):
        yield 0, len(numbers)
        return
    follows = np.diff(np.asarray(numbers)) == 1
    if masks is not None:
        follows &= (masks[1:] == 0) & (masks[:-1] == 0)
    edges = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(numbers)]
    yield from pairwise(edges) if len(numbers) else ()


def _together(
    form: ChunkForm, chunks: Located, places: tuple[int, int], rows: tuple[int, int]
) -> Iterator[WholeChunks | ChunkSpan]:
    """Chunks that follow each other: as many of them together as can be unpacked in one call.

    In each call threads may have to wait for each other, so fewer calls are better.
    """
    first, end = places
    start, stop = rows
    if first < end and int(chunks.numbers[first]) * form.chunk_rows < start:
        yield _span(form, chunks.chunk(first), start, stop)
        first += 1
    last = end - 1 if first < end and (int(chunks.numbers[end - 1]) + 1) * form.chunk_rows > stop else end
    while first < last:
        n_chunks = 1
        if last - first > 1 and form.together:
            n_chunks += int(np.searchsorted(np.cumsum(chunks.sizes[first : last - 1]), form.together))
        if n_chunks == 1:
            yield _span(form, chunks.chunk(first), start, stop)
        else:
            span = slice(first, first + n_chunks)
            part = Located(chunks.numbers[span], chunks.addresses[span], chunks.sizes[span])
            yield WholeChunks(int(chunks.numbers[first]) * form.chunk_rows - start, part)
        first += n_chunks
    if last < end:
        yield _span(form, chunks.chunk(last), start, stop)


def _span(form: ChunkForm, chunk: StoredChunk, start: int, stop: int) -> ChunkSpan:
    """The rows from start to stop that are in this chunk."""
    first = chunk.number * form.chunk_rows
    low, high = max(start, first), min(stop, first + form.chunk_rows)
    return ChunkSpan(low - start, chunk, low - first, high - low)


def few_of_each_chunk(form: ChunkForm, rows: RowNumbers) -> tuple[RowNumbers, int] | None:
    """The chunk of each of these rows, and the number of chunks, if they are best read one by one; None otherwise.

    rows: increasing and distinct. Of many rows only the first and the last are examined.
    """
    if not form.has_single_rows or not len(rows):
        return None
    if len(rows) > _FEW_ROWS * (int(rows[-1] - rows[0]) // form.chunk_rows + 2):
        return None
    numbers = rows // form.chunk_rows
    n_chunks = 1 + int(np.count_nonzero(numbers[1:] != numbers[:-1]))
    return (numbers, n_chunks) if len(rows) <= _FEW_ROWS * n_chunks else None


def plan_singles(places: RowNumbers, chunks: Located) -> ReadPlan | None:
    """Read rows one by one, in any order; None if that is not possible because a chunk has skipped a filter."""
    return None if chunks.masks is not None else ReadPlan(len(places), [SingleRows(chunks, places)])


def plan_rows(form: ChunkForm, rows: RowNumbers, ends: RowNumbers, chunks: Located, picks: bool) -> ReadPlan:
    """Read scattered rows, increasing and distinct: those of the chunk i end at `ends[i]`.

    picks: whether rows of several chunks can be picked in one call.
    """
    if picks and chunks.masks is None and _can_be_picked(form, len(rows), len(ends)):
        return ReadPlan(len(rows), [PickedRows(chunks, ends, rows - rows // form.chunk_rows * form.chunk_rows)])
    pieces: list[Piece] = []
    begin = 0
    for position, end in enumerate(ends.tolist()):
        chunk = chunks.chunk(position)
        base, first = chunk.number * form.chunk_rows, int(rows[begin])
        if int(rows[end - 1]) - first == end - begin - 1:
            pieces.append(ChunkSpan(begin, chunk, first - base, end - begin))
        else:
            pieces.append(ChunkRows(begin, chunk, rows[begin:end], base))
        begin = end
    return ReadPlan(len(rows), pieces)


def _can_be_picked(form: ChunkForm, n_rows: int, n_chunks: int) -> bool:
    """Whether rows of several chunks can be read in one call, and that is faster than unpacking whole chunks."""
    if not form.has_single_rows or form.chunk_bytes > _LONGEST_PICKED:  # a file may only claim such a length
        return False
    return form.packed is None or 4 * n_rows < form.chunk_rows * n_chunks
