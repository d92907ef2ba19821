"""Rows of a dataset, read straight from the file.

A chunk map locates the chunks, a `ReadPlan` is made of that, and a `ChunkReader` runs it: filters are undone outside
libhdf5's lock, so that threads can read at the same time. Only elements that lie in the file as they do in memory, up
to their byte order, are read so. Whatever is not plain is left to the caller's other way to read: None is given back.
A chunk that cannot be unpacked is not: libhdf5 does not check whether a chunk unpacks to the bytes it must have, and
reads and writes after the end of one that is shorter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from colonnade.errors import CorruptError
from colonnade.filters.chunk_reader import ChunkReader, DamagedChunk
from colonnade.filters.codecs import ByteBuffer
from colonnade.filters.read_plan import (
    MOST_AT_ONCE,
    ChunkForm,
    Located,
    ReadPlan,
    few_of_each_chunk,
    plan_range,
    plan_rows,
    plan_singles,
)
from colonnade.nodes.damage import hdf5_errors
from colonnade.pager.sources import JournaledBytes
from colonnade.selection import RowNumbers

FARTHEST = 1 << 62  # an address after the end of any file; sums with it still fit into 64 bits
_LAST_ROW = (1 << 63) - 1
_FEW_CHUNKS = 16


def by_chunk(rows: RowNumbers, chunk_rows: int) -> Iterator[tuple[int, int, int]]:
    """Of each chunk that holds some of these rows, which increase: its number, and from where to where they are."""
    at, n_rows = 0, len(rows)
    while at < n_rows:
        number = int(rows[at]) // chunk_rows
        last = min((number + 1) * chunk_rows - 1, _LAST_ROW)
        end = at + int(np.searchsorted(rows[at : at + chunk_rows], last, "right"))
        yield number, at, end
        at = end


class ChunkLocator(Protocol):
    """Where the chunks of a dataset are, as of now. Safe to be used by several threads."""

    def located(self, numbers: range | RowNumbers, n_wanted: int) -> Located:
        """The chunks of these numbers, of which `n_wanted` are distinct; those of a range that were never written are
        left out where that is known. A ValueError if the library must read them."""

    def fill(self) -> bytes:
        """The element, as stored, of rows that were never written. A ValueError if only the library knows it."""


def check_address(address: int) -> None:
    """Refuse an address far after the end of any file."""
    if address > FARTHEST:
        raise ValueError("an address lies far after the end of the file")


class ChunkPlace(NamedTuple):
    """Where a chunk is: its address and size in the file, and the filters it has skipped."""

    address: int
    size: int
    mask: int


class CachedChunkMap(ABC):
    """A chunk map that is asked chunk by chunk, or as a whole where many are wanted, and remembers the answers."""

    def __init__(self, form: ChunkForm) -> None:
        self._form = form
        self.forget()

    @property
    @abstractmethod
    def n_chunks(self) -> int:
        """The number of chunks of the dataset in its shape."""

    @abstractmethod
    def find(self, number: int) -> ChunkPlace | None:
        """Where a chunk is; None if it was never written."""

    @abstractmethod
    def find_all(self) -> dict[int, ChunkPlace]:
        """Where all stored chunks are, by their numbers."""

    @abstractmethod
    def fill(self) -> bytes:
        """The element, as stored, of rows that were never written. A ValueError if only another reader knows it."""

    def check(self) -> None:  # noqa: B027 - most have nothing to check
        """Make sure that what is known is still true."""

    def forget(self) -> None:
        """Forget what is known."""
        self._known: dict[int, ChunkPlace] = {}
        self._all_known = False
        self._has_gaps = False  # chunks that were never written, as far as that is known
        self._whole: Located | None = None  # all chunks, where they are known and none is out of the ordinary
        self._n_asked = 0

    def located(self, numbers: range | RowNumbers, n_wanted: int) -> Located:
        """See `ChunkLocator`."""
        self._look(n_wanted)
        whole = self._whole
        if whole is None:
            return self._listed(numbers)
        if isinstance(numbers, range):
            window = slice(numbers.start, numbers.stop)
            if numbers and numbers.stop > len(whole.sizes):
                raise ValueError("there are fewer chunks")
            return Located(numbers, whole.addresses[window], whole.sizes[window])
        if len(numbers) and int(numbers.max()) >= len(whole.sizes):
            raise ValueError("there are fewer chunks")
        return Located(numbers, whole.addresses[numbers], whole.sizes[numbers])

    def _look(self, n_wanted: int) -> None:
        """Make sure that what is known is still true, and learn of all chunks where many are wanted."""
        self.check()
        self._n_asked += n_wanted
        if self._n_asked > _FEW_CHUNKS and not self._all_known and self._n_asked > self.n_chunks // _FEW_CHUNKS:
            self._learn_all(self.n_chunks)

    def _learn_all(self, n_chunks: int) -> None:
        known = self.find_all()
        self._all_known = True
        if any(known.get(number) != known_chunk for number, known_chunk in self._known.items()):
            return  # the chunk map is damaged and contradicts itself: what was found one by one stays
        self._known, self._has_gaps = known, len(known) < n_chunks
        if not self._has_gaps:
            try:
                whole = self._listed(range(n_chunks))
            except ValueError:
                return  # a chunk is out of the ordinary: each request is checked by itself
            self._whole = whole if whole.masks is None else None

    def _listed(self, numbers: range | RowNumbers) -> Located:
        """Chunks that are known or looked for one by one."""
        if self._has_gaps and isinstance(numbers, range):
            numbers = np.array([number for number in numbers if number in self._known], dtype=np.int64)
        places = [self._find(number) for number in (numbers if isinstance(numbers, range) else numbers.tolist())]
        for chunk in places:
            check_address(chunk.address)
            self._form.check(chunk.size)
        addresses, sizes, masks = np.array(places, dtype=np.int64).reshape(-1, 3).T.copy()
        return Located(numbers, addresses, sizes, masks if masks.any() else None)

    def _find(self, number: int) -> ChunkPlace:
        chunk = self._known.get(number)
        if chunk is None:
            chunk = self.find(number)
            if chunk is None:
                raise ValueError("a chunk was never written")
            self._known[number] = chunk
        return chunk


class ChunkSource:
    """A dataset whose rows can be read straight from the file: its chunk map, and what runs plans of its chunks.

    path_of: gives its path in the file, for messages.

    look: an element, as it is stored, that `read_and_look` looks for.
    """

    def __init__(
        self,
        path_of: Callable[[], str],
        form: ChunkForm,
        chunk_map: ChunkLocator,
        reader: ChunkReader,
        look: bytes | None,
    ) -> None:
        self._path_of = path_of
        self._form = form
        self._map = chunk_map
        self._reader = reader
        self._look_for = look
        self.chunk_rows = form.chunk_rows

    def read(self, start: int, count: int) -> np.ndarray | None:
        """The rows from `start` on, in memory form; None when the library must read them, or refuse to."""
        return self.read_and_look(start, count)[0]

    def read_and_look(self, start: int, count: int) -> tuple[np.ndarray | None, bool]:
        """The rows from `start` on, or None, and whether one of them may be `look`: False only where none is."""
        return self._run(count, lambda: self._plan_range(start, count))

    def take(self, rows: RowNumbers) -> np.ndarray | None:
        """These rows, which increase; None when the library must read them."""
        return self._run(len(rows), lambda: self._plan_rows(rows))[0]

    def take_few(self, rows: RowNumbers) -> np.ndarray | None:
        """These rows, in any order, each by its own bytes; None where not each can be read without the others."""
        return self._run(len(rows), lambda: self._plan_singles(rows))[0] if self.is_open_to_rows else None

    @property
    def is_open_to_rows(self) -> bool:
        """Whether a row can be read without the rest of its chunk."""
        return self._reader.reads_single_rows

    @property
    def unpacks_whole_chunks(self) -> bool:
        """Whether reading a row unpacks the rest of its chunk too."""
        return not self._form.has_single_rows

    @property
    def path(self) -> str:
        """The path of the dataset in its file, for messages."""
        return self._path_of()

    def load(self, address: int, target: ByteBuffer) -> None:
        """Bytes of the file."""
        check_address(address)
        self._reader.load(address, target)

    def expect_overwrite(self, start: int, count: int) -> None:
        """Let the journal save these rows, which are going to be overwritten, while their new content is computed."""
        file = self._reader.file
        if isinstance(file, JournaledBytes) and self._form.pipeline.is_empty:
            numbers = range(start // self.chunk_rows, -(-(start + count) // self.chunk_rows))
            chunks = self._map.located(numbers, len(numbers))
            file.save_ahead(
                list(zip(chunks.addresses.tolist(), (chunks.addresses + chunks.sizes).tolist(), strict=True))
            )

    def leave_unchanged(self, rows: np.ndarray) -> None:
        """Promise that these rows stay as they are until the commit: they are not copied when they are written."""
        file = self._reader.file
        if isinstance(file, JournaledBytes):
            file.leave_unchanged(rows.data)

    def _run(self, count: int, make_plan: Callable[[], ReadPlan | None]) -> tuple[np.ndarray | None, bool]:
        """Make a plan for this many rows and run it. A file may claim any number of rows: too many are refused."""
        if count * self._form.dtype.itemsize > MOST_AT_ONCE:
            return None, True
        try:
            plan = make_plan()
            return (None, True) if plan is None else self._reader.run(plan, self._look_for)
        except DamagedChunk as error:
            first, last = error.rows
            raise CorruptError(f"the rows cannot be read: {error}", path=self.path, row=first, last_row=last) from error
        except hdf5_errors(ValueError):
            return None, True

    def _plan_range(self, start: int, count: int) -> ReadPlan:
        numbers = range(start // self.chunk_rows, -(-(start + count) // self.chunk_rows)) if count else range(0)
        chunks = self._map.located(numbers, len(numbers))
        fill = self._map.fill() if len(chunks.numbers) < len(numbers) else None
        return plan_range(self._form, start, count, chunks, fill)

    def _plan_rows(self, rows: RowNumbers) -> ReadPlan:
        few = few_of_each_chunk(self._form, rows) if self.is_open_to_rows else None
        if few is not None:
            plan = plan_singles(rows - few[0] * self.chunk_rows, self._map.located(*few))
            if plan is not None:
                return plan
        parts = [(number, end) for number, _, end in by_chunk(rows, self.chunk_rows)]
        numbers, ends = np.array(parts, dtype=np.int64).reshape(-1, 2).T.copy()
        return plan_rows(self._form, rows, ends, self._map.located(numbers, len(numbers)), self.is_open_to_rows)

    def _plan_singles(self, rows: RowNumbers) -> ReadPlan | None:
        numbers = rows // self.chunk_rows
        return plan_singles(rows - numbers * self.chunk_rows, self._map.located(numbers, len(rows)))
