"""Rows of a chunked dataset, read past the HDF5 library.

libhdf5 is asked once per dataset where the chunks are; their bytes come straight from the file, and filters are
undone by `filters/undo.py`, outside libhdf5's lock: threads can read at the same time. Only elements that lie in the
file as they do in memory, up to their byte order, are read so. Whatever is not plain is left to the library: None is
given back, and the caller asks it. A chunk that cannot be unpacked is not: the library does not look whether a chunk
unpacks to the bytes it must have, and reads and writes after the end of one that is shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

import numpy as np
import pyarrow as pa
from h5py import h5d, h5f, h5i

from colonnade import kernels
from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError
from colonnade.filters.codecs import ByteBuffer, LeftToLibrary
from colonnade.filters.undo import SCALE_OFFSET_HEAD, Pipeline, Sizes, scale_offset_form
from colonnade.h5 import capi
from colonnade.h5.damage import hdf5_errors
from colonnade.h5.vetting import FARTHEST, creation_of, source_of
from colonnade.model import DEFAULT_CHUNK_ROWS, FilterInfo
from colonnade.nodes import Dataset
from colonnade.pager.sources import JournaledBytes, LocalBytes
from colonnade.selection import RowNumbers

Image = np.ndarray
Laid = tuple[RowNumbers, RowNumbers]  # addresses of chunks, and their bytes
MOST_AT_ONCE = 2 << 30  # bytes of rows that are read in one go; more are refused
_SLACK = 1 << 16  # bytes by which filters may make a chunk longer
_FEW_CHUNKS = 16
_FEW_ROWS = 4  # of a chunk, which are read one by one
_LONGEST_PICKED = 64 << 20  # bytes of a chunk: memory is taken for all of it where rows are picked from it
_BATCH_BYTES = 1 << 20  # bytes of filtered chunks that are unpacked in one call
_LAST_ROW = (1 << 63) - 1


_BYTE = np.dtype("u1")


def new_array(count: int, dtype: np.dtype) -> Image:
    """An array of undefined content, from Arrow's pool: memory that was used before costs no page faults."""
    return np.frombuffer(pa.allocate_buffer(count * dtype.itemsize), dtype=dtype, count=count)


def by_chunk(rows: RowNumbers, chunk_rows: int) -> Iterator[tuple[int, int, int]]:
    """Of each chunk that holds some of these rows, which increase: its number, and from where to where they are."""
    at, n_rows = 0, len(rows)
    while at < n_rows:
        number = int(rows[at]) // chunk_rows
        last = min((number + 1) * chunk_rows - 1, _LAST_ROW)
        end = at + int(np.searchsorted(rows[at : at + chunk_rows], last, "right"))
        yield number, at, end
        at = end


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where a chunk is: its address and bytes in the file, and the filters it has skipped."""

    address: int
    size: int
    mask: int


class DamagedChunk(Exception):
    """A chunk does not unpack to what it must hold."""


class ChunkSource:
    """A dataset whose rows can be read past the library.

    `frozen`: nobody writes to the file as long as it is open, so that chunks stay where they are.
    """

    def __init__(
        self,
        dataset: Dataset,
        file: LocalBytes | JournaledBytes,
        dtype: np.dtype,
        chunk_rows: int,
        pipeline: Pipeline,
        frozen: bool,
        look: bytes | None = None,
    ) -> None:
        self._dataset = dataset
        self._file = file
        self._descriptor = file.descriptor if isinstance(file, LocalBytes) else -1
        self._dtype = dtype
        self.chunk_rows = chunk_rows
        self._chunk_bytes = chunk_rows * dtype.itemsize
        self._pipeline = pipeline
        self._frozen = frozen
        self._look_for = look
        self._known: dict[int, Chunk] = {}
        self._all_known = False
        self._has_gaps = False  # chunks that were never written, as far as that is known
        self._laid_out: Laid | None = None  # of all chunks, where they are known and none is out of the ordinary
        self._asked = 0  # chunks that were looked for
        self._most_at_once = MOST_AT_ONCE if pipeline.is_empty else _BATCH_BYTES if pipeline.takes_many else 0

    def read(self, start: int, count: int) -> Image | None:
        """The rows from `start` on, in memory form; None when the library must read them, or refuse to."""
        return self.read_and_look(start, count)[0]

    def read_and_look(self, start: int, count: int) -> tuple[Image | None, bool]:
        """The same, and whether one of them may be the element that is looked for: False only where none is."""
        if self._is_too_much(count):
            return None, True
        out, is_met = new_array(count, self._dtype), self._look_for is None
        numbers = range(start // self.chunk_rows, -(-(start + count) // self.chunk_rows)) if count else range(0)
        try:
            self._look(len(numbers))
            written = self._written(numbers)
            if len(written) < len(numbers):
                out[...] = self._fill()
                is_met = True
            for batch in self._batches(written, start, count):
                is_met = self._read_batch(batch, start, out) or is_met
        except hdf5_errors():
            return None, True
        return self._in_memory(out), is_met

    def take(self, rows: RowNumbers) -> Image | None:
        """These rows, which increase."""
        if self._is_too_much(len(rows)):
            return None
        out = new_array(len(rows), self._dtype)
        try:
            if self._take_singly(rows, out):
                return self._in_memory(out)
            parts = list(by_chunk(rows, self.chunk_rows))
            self._look(len(parts))
            if self._pick(parts, rows, out):
                return self._in_memory(out)
            for number, begin, end in parts:
                self._take_part(number, rows[begin:end], out[begin:end])
        except hdf5_errors():
            return None
        return self._in_memory(out)

    def take_few(self, rows: RowNumbers) -> Image | None:
        """These rows, in whatever order, each by its own bytes; None where not each can be read for itself."""
        if not self.is_open_to_rows or self._is_too_much(len(rows)):
            return None
        out = new_array(len(rows), self._dtype)
        try:
            numbers = rows // self.chunk_rows
            self._look(len(rows))
            laid = self._lay(numbers)
            if laid is None:
                return None
            self._read_rows(laid, rows - numbers * self.chunk_rows, out)
        except hdf5_errors():
            return None
        return self._in_memory(out)

    @property
    def is_open_to_rows(self) -> bool:
        """Whether a row can be read without the rest of its chunk."""
        return self._descriptor >= 0 and (self._pipeline.is_empty or self._pipeline.scale_offset is not None)

    def _take_singly(self, rows: RowNumbers, out: Image) -> bool:
        """Rows of which each chunk has few, all in one call, each by its own bytes; False where that does not suit."""
        if not self.is_open_to_rows or not len(rows):
            return False
        if len(rows) > _FEW_ROWS * (int(rows[-1] - rows[0]) // self.chunk_rows + 2):
            return False
        numbers = rows // self.chunk_rows
        n_wanted = 1 + int(np.count_nonzero(numbers[1:] != numbers[:-1]))
        if len(rows) > _FEW_ROWS * n_wanted:
            return False
        self._look(n_wanted)
        laid = self._lay(numbers)
        if laid is None:
            return False
        self._read_rows(laid, rows - numbers * self.chunk_rows, out)
        return True

    def _read_rows(self, laid: Laid, places: RowNumbers, out: Image) -> None:
        """Rows by the places that they have in their chunks, of which each has its own in `laid`."""
        addresses, sizes = laid
        packed = self._pipeline.scale_offset
        if packed is not None:
            dtype, fill, decimals = scale_offset_form(tuple(packed))
            where = (addresses, sizes, places)
            kernels.read_packed_rows(self._descriptor, *where, self.chunk_rows, out.view(dtype), fill, decimals)
            return
        size = self._dtype.itemsize
        lengths = np.full(len(places), size, dtype=np.int64)
        kernels.read_pieces(self._descriptor, addresses + places * size, lengths, out.view(np.uint8), None)

    def _pick(self, parts: Sequence[tuple[int, int, int]], rows: RowNumbers, out: Image) -> bool:
        """Rows of several chunks in one call, as `by_chunk` lists them; False where that does not suit."""
        if not self.is_open_to_rows or self._chunk_bytes > _LONGEST_PICKED:  # so long it may be claimed only
            return False
        packed = self._pipeline.scale_offset
        if packed is not None and 4 * len(rows) >= self.chunk_rows * len(parts):
            return False  # whole chunks are unpacked quicker
        laid = self._lay(np.array([number for number, _, _ in parts], dtype=np.int64))
        if laid is None:
            return False
        addresses, sizes = laid
        ends = np.array([end for _, _, end in parts], dtype=np.int64)
        places = rows - rows // self.chunk_rows * self.chunk_rows
        if packed is None:
            size = self._dtype.itemsize
            kernels.pick_rows(self._descriptor, addresses, ends, places, self.chunk_rows, size, out.view(np.uint8))
            return True
        dtype, fill, decimals = scale_offset_form(tuple(packed))
        where = (addresses, sizes, ends, places)
        kernels.pick_packed_rows(self._descriptor, *where, self.chunk_rows, out.view(dtype), fill, decimals)
        return True

    def _take_part(self, number: int, rows: RowNumbers, out: Image) -> None:
        """Rows of the chunk of this number."""
        try:
            self._take_from(self._find(number), rows - number * self.chunk_rows, out)
        except DamagedChunk as error:
            raise self._damaged(error, int(rows[0]), int(rows[-1])) from error

    @property
    def path(self) -> str:
        """Where in its file the dataset is, for messages."""
        return (h5i.get_name(self._dataset) or b"?").decode("utf-8", "surrogateescape")

    def _damaged(self, error: DamagedChunk, first: int, last: int) -> CorruptError:
        return CorruptError(f"the rows cannot be read: {error}", path=self.path, row=first, last_row=last)

    def _is_too_much(self, count: int) -> bool:
        """Whether this many rows are too many to be read at once: a file may claim any number of them."""
        return count * self._dtype.itemsize > MOST_AT_ONCE

    def _in_memory(self, image: Image) -> Image:
        native = self._dtype.newbyteorder("=")
        return image if self._dtype == native else image.byteswap(inplace=True).view(native)

    # -- where chunks are --

    def _look(self, n_wanted: int) -> None:
        """Make sure that what is known of the chunks is true, and learn of all where many are wanted."""
        if not self._dataset.valid:
            raise ValueError("the file was closed")
        if not self._frozen:
            h5f.flush(h5i.get_file_id(self._dataset))
            self._known, self._all_known, self._has_gaps, self._asked, self._laid_out = {}, False, False, 0, None
        self._asked += n_wanted
        if self._asked > _FEW_CHUNKS and not self._all_known and self._asked > self._n_chunks() // _FEW_CHUNKS:
            known: dict[int, Chunk] = {}

            def note(info: h5d.StoreInfo) -> None:
                number = info.chunk_offset[0] // self.chunk_rows
                if info.byte_offset is not None:
                    known[number] = Chunk(info.byte_offset, info.size, info.filter_mask)

            self._dataset.chunk_iter(note)
            self._all_known = True
            if any(known.get(number) != chunk for number, chunk in self._known.items()):
                return  # its chunk map is damaged and contradicts itself: what was found one by one stays
            self._known, self._has_gaps = known, len(known) < self._n_chunks()
            if not self._has_gaps:
                self._laid_out = self._laid(known[number] for number in range(self._n_chunks()))

    def _lay(self, numbers: RowNumbers) -> Laid | None:
        """Where these chunks are, and their bytes; None if one is out of the ordinary."""
        laid = self._laid_out
        if laid is None:
            return self._laid(self._find(number) for number in numbers.tolist())
        if len(numbers) and int(numbers.max()) >= len(laid[0]):
            return None
        return laid[0][numbers], laid[1][numbers]

    def _laid(self, chunks: Iterable[Chunk]) -> Laid | None:
        """The same of chunks that are known; in the ordinary they skip no filter, and have one length without any."""
        found = list(chunks)
        if any(chunk.mask or chunk.address > FARTHEST or chunk.size > self._longest for chunk in found):
            return None
        addresses = np.array([chunk.address for chunk in found], dtype=np.int64)
        sizes = np.array([chunk.size for chunk in found], dtype=np.int64)
        if self._pipeline.is_empty and (sizes != self._chunk_bytes).any():
            return None
        return addresses, sizes

    @property
    def _longest(self) -> int:
        """More bytes no chunk can have, whatever filters made of it."""
        return 2 * self._chunk_bytes + _SLACK

    def _written(self, numbers: range) -> Sequence[int]:
        """Those of these chunks that were written, as far as that is known."""
        if not self._has_gaps:
            return numbers
        return [number for number in numbers if number in self._known]

    def _fill(self) -> Image:
        """What rows hold that were never written: the library would look for each of their chunks."""
        creation = creation_of(self._dataset)
        if self._dtype.kind not in "iufS" or creation.get_fill_time() == h5d.FILL_TIME_NEVER:
            raise ValueError("only the library knows what rows hold that were never written")
        if creation.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED:
            raise ValueError("rows that were never written hold nothing that is known")
        value = np.zeros((), self._dtype)
        capi.get_fill(creation, self._dataset.get_type(), value.ctypes.data)
        return value

    def _n_chunks(self) -> int:
        return int(-(-self._dataset.shape[0] // self.chunk_rows))

    def _find(self, number: int) -> Chunk:
        chunk = self._known.get(number)
        if chunk is None:
            info = self._dataset.get_chunk_info_by_coord((number * self.chunk_rows,))
            if info.byte_offset is None:
                raise ValueError("a chunk was never written")
            chunk = self._known[number] = Chunk(info.byte_offset, info.size, info.filter_mask)
        if chunk.size > self._longest:
            raise ValueError("a chunk is far longer than it can be")
        return chunk

    def _batches(self, numbers: Sequence[int], start: int, count: int) -> Iterator[range]:
        """The chunks of these rows: those together that are wanted whole and can be unpacked in one call.

        In each call threads may have to wait for each other: the fewer, the better.
        """
        if self._laid_out is not None and isinstance(numbers, range):
            yield from self._ordinary_batches(numbers, start, start + count, self._laid_out[1])
            return
        batch, room, is_open = range(0), 0, False
        for number in numbers:
            chunk = self._find(number)
            first = number * self.chunk_rows
            is_plain = not chunk.mask and start <= first and first + self.chunk_rows <= start + count
            if is_open and is_plain and room > 0 and number == batch.stop:
                batch = range(batch.start, number + 1)
            else:
                if batch:
                    yield batch
                batch, room, is_open = range(number, number + 1), self._most_at_once, is_plain
            room -= chunk.size
        if batch:
            yield batch

    def _ordinary_batches(self, numbers: range, start: int, stop: int, sizes: RowNumbers) -> Iterator[range]:
        """The same where all chunks are known and none is out of the ordinary."""
        first, end = numbers.start, numbers.stop
        if start % self.chunk_rows and first < end:
            yield range(first, first + 1)
            first += 1
        last = end - 1 if stop % self.chunk_rows and first < end else end
        while first < last:
            n_chunks = 1
            if last - first > 1 and self._most_at_once:
                n_chunks += int(np.searchsorted(np.cumsum(sizes[first : last - 1]), self._most_at_once))
            yield range(first, first + n_chunks)
            first += n_chunks
        if last < end:
            yield range(last, end)

    def _read_batch(self, batch: range, start: int, out: Image) -> bool:
        """Whether one of the rows may be the element that is looked for."""
        if len(batch) == 1:
            return self._read_part(batch.start, start, out)
        target = out[batch.start * self.chunk_rows - start : batch.stop * self.chunk_rows - start].view(np.uint8)
        laid = self._laid_out
        if laid is not None:
            addresses, sizes = laid[0][batch.start : batch.stop], laid[1][batch.start : batch.stop]
        else:
            chunks = [self._find(number) for number in batch]
            addresses = np.array([min(chunk.address, FARTHEST + 1) for chunk in chunks], dtype=np.int64)
            sizes = np.array([chunk.size for chunk in chunks], dtype=np.int64)
        if self._pipeline.is_empty:
            if (sizes != self._chunk_bytes).any():
                raise ValueError("a chunk without filters has another length")
            return self._load_many(addresses, sizes, target, self._look_for) is not False
        data = new_array(int(sizes.sum()), _BYTE)
        self._load_many(addresses, sizes, data)
        try:
            return self._pipeline.undo_many(data, sizes, target, self._look_for) is not False
        except ValueError:
            for number in batch:  # one by one, so that the error names the chunk
                self._read_part(number, start, out)
            return True

    def _read_part(self, number: int, start: int, out: Image) -> bool:
        """The rows of one chunk that `out` has room for, which begins with the row `start`."""
        first = number * self.chunk_rows
        low, high = max(start, first), min(start + len(out), first + self.chunk_rows)
        rows = out[low - start : high - start]
        try:
            self._read_chunk(self._find(number), low - first, rows)
            return self._look_for is None or kernels.has_item(rows, self._look_for)
        except DamagedChunk as error:
            raise self._damaged(error, low, high - 1) from error

    def _load_many(
        self, addresses: RowNumbers, sizes: Sizes, target: ByteBuffer, look: bytes | None = None
    ) -> bool | None:
        """Bytes of the file from several places. Says whether an element is `look`; None where nobody knows."""
        if self._descriptor >= 0:
            if (addresses > FARTHEST).any():
                raise ValueError("an address lies far after the end of the file")
            return kernels.read_pieces(self._descriptor, addresses, sizes, target, look)
        done = 0
        for address, size in zip(addresses.tolist(), sizes.tolist(), strict=True):
            self.load(address, target[done : done + size])
            done += size
        return None

    # -- one chunk --

    def _read_chunk(self, chunk: Chunk, first: int, out: Image) -> None:
        """The rows of a chunk from `first` on."""
        target = out.view(np.uint8)
        begin = first * self._dtype.itemsize
        if self._pipeline.is_empty:
            if chunk.size != self._chunk_bytes:
                raise ValueError("a chunk without filters has another length")
            self.load(chunk.address + begin, target)
            return
        if self._pipeline.scale_offset is not None and not chunk.mask and 2 * len(out) < self.chunk_rows:
            self._unpack_rows(chunk, first, out, self._pipeline.scale_offset)
            return
        data = new_array(chunk.size, _BYTE)
        self.load(chunk.address, data)
        if len(target) == self._chunk_bytes:
            self._undo(data, chunk.mask, target)
            return
        whole = new_array(self._chunk_bytes, _BYTE)
        self._undo(data, chunk.mask, whole)
        target[...] = whole[begin : begin + len(target)]

    def _undo(self, data: ByteBuffer, mask: int, out: ByteBuffer) -> None:
        try:
            self._pipeline.undo(data, mask, out)
        except LeftToLibrary:
            raise
        except ValueError as error:
            raise DamagedChunk(str(error)) from error

    def _unpack_rows(self, chunk: Chunk, first: int, out: Image, options: Sequence[int]) -> None:
        """Rows of a chunk of scale-offset from `first` on: only the bytes that hold them are read.

        Every eighth row begins with a whole byte, so that head and bytes from there on make a chunk of their own.
        """
        head = new_array(SCALE_OFFSET_HEAD, _BYTE)
        self.load(chunk.address, head)
        bits = int.from_bytes(head[:4].tobytes(), "little")
        begin = first // 8 * 8
        count = first + len(out) - begin
        skipped, n_bytes = begin * bits // 8, -(-count * bits // 8)
        if bits > 8 * self._dtype.itemsize or SCALE_OFFSET_HEAD + skipped + n_bytes > chunk.size:
            raise ValueError("a chunk is shorter than its head claims")
        data = new_array(SCALE_OFFSET_HEAD + n_bytes, _BYTE)
        data[:SCALE_OFFSET_HEAD] = head
        self.load(chunk.address + SCALE_OFFSET_HEAD + skipped, data[SCALE_OFFSET_HEAD:])
        dtype, fill, decimals = scale_offset_form(tuple(options))
        made = new_array(count, dtype)
        kernels.decode_scaleoffset(data, made, fill, decimals)
        out.view(dtype)[...] = made[first - begin :]

    def _take_from(self, chunk: Chunk, places: RowNumbers, out: Image) -> None:
        """Rows of a chunk, by the cheapest way."""
        first, last = int(places[0]), int(places[-1]) + 1
        if last - first == len(places):
            self._read_chunk(chunk, first, out)
            return
        packed = self._pipeline.scale_offset
        if packed is not None and not chunk.mask and 4 * len(places) < self.chunk_rows:
            data = new_array(chunk.size, _BYTE)
            self.load(chunk.address, data)
            dtype, fill, decimals = scale_offset_form(tuple(packed))
            kernels.decode_scaleoffset_rows(data, self.chunk_rows, places, out.view(dtype), fill, decimals)
            return
        if not self._pipeline.is_empty:
            first, last = 0, self.chunk_rows
        span = new_array(last - first, self._dtype)
        self._read_chunk(chunk, first, span)
        kernels.take(span, self._dtype.itemsize, places - first, out)

    def expect_overwrite(self, start: int, count: int) -> None:
        """Let the journal save these rows, which are going to be overwritten, while their new content is computed."""
        if isinstance(self._file, JournaledBytes) and self._pipeline.is_empty:
            numbers = range(start // self.chunk_rows, -(-(start + count) // self.chunk_rows))
            self._look(len(numbers))
            chunks = [self._find(number) for number in numbers]
            self._file.save_ahead([(chunk.address, chunk.address + chunk.size) for chunk in chunks])

    def leave_unchanged(self, rows: Image) -> None:
        """Promise that these rows stay as they are until the commit: they are not copied when they are written."""
        if isinstance(self._file, JournaledBytes):
            self._file.leave_unchanged(rows.data)

    def load(self, address: int, target: ByteBuffer) -> None:
        """Bytes of the file."""
        if address > FARTHEST:
            raise ValueError("an address lies far after the end of the file")
        if self._file.read_into(address, target.data) < len(target):
            raise ValueError("the file ends inside a chunk")


class RunSource(ChunkSource):
    """A contiguous dataset, read as if it consisted of adjacent chunks."""

    def _look(self, n_wanted: int) -> None:
        if not self._dataset.valid:
            raise ValueError("the file was closed")
        if not self._frozen:
            h5f.flush(h5i.get_file_id(self._dataset))

    def _find(self, number: int) -> Chunk:
        address = self._dataset.get_offset()
        if address is None:
            raise ValueError("the rows were never written")
        return Chunk(address + number * self._chunk_bytes, self._chunk_bytes, 0)


def open_source(
    dataset: Dataset, dtype: np.dtype | None, filters: Sequence[FilterInfo], look: bytes | None = None
) -> ChunkSource | None:
    """A way to the rows of a dataset, whose elements are such, past the library; None where there is none.

    look: an element, as it is stored, that `read_and_look` looks for while it has the rows in memory.
    """
    creation = creation_of(dataset)
    if dtype is None or len(dataset.shape) != 1:
        return None
    if creation.get_layout() == h5d.CONTIGUOUS and not creation.get_external_count():
        return open_run(dataset, dtype, look)
    if creation.get_layout() != h5d.CHUNKED:
        return None
    chunk_rows = int(creation.get_chunk()[0])
    pipeline = Pipeline(filters, chunk_rows * dtype.itemsize)
    file_id = h5i.get_file_id(dataset)
    file = _file_of(file_id)
    if not pipeline.is_known or capi.skips_partial_chunks(creation) or file is None:
        return None
    return ChunkSource(dataset, file, dtype, chunk_rows, pipeline, file_id.get_intent() == h5f.ACC_RDONLY, look)


def open_run(dataset: Dataset, dtype: np.dtype, look: bytes | None = None) -> RunSource | None:
    """A way to all elements of a contiguous dataset, in their order, whatever its rank."""
    file_id = h5i.get_file_id(dataset)
    file = _file_of(file_id)
    if file is None or dataset.get_storage_size() != prod(dataset.shape) * dtype.itemsize:
        return None
    frozen = file_id.get_intent() == h5f.ACC_RDONLY
    return RunSource(dataset, file, dtype, DEFAULT_CHUNK_ROWS, Pipeline((), 0), frozen, look)


def _file_of(file_id: h5f.FileID) -> LocalBytes | JournaledBytes | None:
    """What the bytes of a file can be read from."""
    return None if file_id.get_create_plist().get_userblock() else source_of(file_id)
