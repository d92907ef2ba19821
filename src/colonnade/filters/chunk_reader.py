"""Runs plans for reading rows of chunks: fetches their bytes from a file, undoes filters, fills the result.

Several threads may run plans at the same time: bytes of a local file are read and unpacked outside any lock. Bytes that
cannot be read are a ValueError; a chunk that does not unpack to what it must hold is a `DamagedChunk`.
"""

from __future__ import annotations

import numpy as np

from colonnade import kernels
from colonnade.filters.codecs import ByteBuffer, LeftToLibrary, new_array
from colonnade.filters.read_plan import (
    ChunkForm,
    ChunkRows,
    ChunkSpan,
    Located,
    PickedRows,
    Piece,
    ReadPlan,
    SingleRows,
    StoredChunk,
    WholeChunks,
)
from colonnade.filters.undo import SCALE_OFFSET_HEAD, PackedForm
from colonnade.pager.sources import ByteSource, LocalBytes

_BYTE = np.dtype("u1")


class DamagedChunk(Exception):
    """A chunk does not unpack to what it must hold. rows: the first and the last row that cannot be read."""

    rows = 0, 0


class ChunkReader:
    """Reads chunks of one form from a file."""

    def __init__(self, form: ChunkForm, file: ByteSource) -> None:
        self._form = form
        self.file = file
        self._descriptor = file.descriptor if isinstance(file, LocalBytes) else -1

    @property
    def reads_single_rows(self) -> bool:
        """Whether rows can be read one by one, and picked from several chunks in one call."""
        return self._descriptor >= 0 and self._form.has_single_rows

    def run(self, plan: ReadPlan, look: bytes | None = None) -> tuple[np.ndarray, bool]:
        """The rows of a plan in memory form, and whether one of them may be the stored element `look`."""
        dtype = self._form.dtype
        out, may_be_met = new_array(plan.n_rows, dtype), look is None
        if plan.fill is not None:
            out[...] = np.frombuffer(plan.fill, dtype=dtype)[0]
            may_be_met = True
        for piece in plan.pieces:
            may_be_met = self._read(piece, out, look) or may_be_met
        return (out if dtype.isnative else out.byteswap(inplace=True).view(self._form.native)), may_be_met

    def load(self, address: int, target: ByteBuffer) -> None:
        if self.file.read_into(address, target.data) < len(target):
            raise ValueError("the file ends inside a chunk")

    def _read(self, piece: Piece, out: np.ndarray, look: bytes | None) -> bool:
        """Read one piece. Returns whether a row may be `look`, as far as that is known."""
        if isinstance(piece, WholeChunks):
            return self._read_whole(piece, out, look)
        if isinstance(piece, ChunkSpan | ChunkRows):
            rows = out[piece.begin : piece.begin + piece.n_rows]
            self._read_chunk(piece, rows)
            return look is None or kernels.has_item(rows, look)
        if isinstance(piece, PickedRows):
            self._pick(piece, out)
        else:
            self._read_singles(piece, out)
        return True

    # -- several chunks --

    def _read_whole(self, piece: WholeChunks, out: np.ndarray, look: bytes | None) -> bool:
        chunks, chunk_rows = piece.chunks, self._form.chunk_rows
        target = out[piece.begin : piece.begin + len(chunks.sizes) * chunk_rows].view(np.uint8)
        if self._form.pipeline.is_empty:
            return self._load_many(chunks, target, look) is not False
        data = new_array(int(chunks.sizes.sum()), _BYTE)
        self._load_many(chunks, data)
        try:
            return self._form.pipeline.undo_many(data, chunks.sizes, target, look) is not False
        except ValueError:
            for position in range(len(chunks.sizes)):  # one by one, so that the error names the chunk
                begin = piece.begin + position * chunk_rows
                self._read(ChunkSpan(begin, chunks.chunk(position), 0, chunk_rows), out, None)
            return True

    def _load_many(self, chunks: Located, target: ByteBuffer, look: bytes | None = None) -> bool | None:
        """The stored bytes of chunks. Returns whether an element is `look`; None if that is not known."""
        if self._descriptor >= 0:
            return kernels.read_pieces(self._descriptor, chunks.addresses, chunks.sizes, target, look)
        done = 0
        for address, size in zip(chunks.addresses.tolist(), chunks.sizes.tolist(), strict=True):
            self.load(address, target[done : done + size])
            done += size
        return None

    def _pick(self, piece: PickedRows, out: np.ndarray) -> None:
        chunks, chunk_rows, packed = piece.chunks, self._form.chunk_rows, self._form.packed
        if packed is None:
            where = (chunks.addresses, piece.ends, piece.places)
            kernels.pick_rows(self._descriptor, *where, chunk_rows, self._form.dtype.itemsize, out.view(np.uint8))
            return
        dtype, fill, decimals = packed
        places = (chunks.addresses, chunks.sizes, piece.ends, piece.places)
        kernels.pick_packed_rows(self._descriptor, *places, chunk_rows, out.view(dtype), fill, decimals)

    def _read_singles(self, piece: SingleRows, out: np.ndarray) -> None:
        chunks, places, packed = piece.chunks, piece.places, self._form.packed
        if packed is None:
            size = self._form.dtype.itemsize
            lengths = np.full(len(places), size, dtype=np.int64)
            addresses = chunks.addresses + places * size
            kernels.read_pieces(self._descriptor, addresses, lengths, out.view(np.uint8), None)
            return
        dtype, fill, decimals = packed
        where = (chunks.addresses, chunks.sizes, places)
        kernels.read_packed_rows(self._descriptor, *where, self._form.chunk_rows, out.view(dtype), fill, decimals)

    # -- one chunk --

    def _read_chunk(self, piece: ChunkSpan | ChunkRows, out: np.ndarray) -> None:
        try:
            if isinstance(piece, ChunkSpan):
                self._read_span(piece.chunk, piece.first, out)
            else:
                self._read_rows(piece, out)
        except DamagedChunk as error:
            row = piece.chunk.number * self._form.chunk_rows
            error.rows = row + piece.first, row + piece.last
            raise

    def _read_span(self, chunk: StoredChunk, first: int, out: np.ndarray) -> None:
        """Rows of a chunk that follow each other."""
        form, target = self._form, out.view(np.uint8)
        begin = first * form.dtype.itemsize
        if form.pipeline.is_empty:
            self.load(chunk.address + begin, target)
            return
        if form.packed is not None and not chunk.mask and 2 * len(out) < form.chunk_rows:
            self._unpack_rows(chunk, first, out, form.packed)
            return
        data = new_array(chunk.size, _BYTE)
        self.load(chunk.address, data)
        if len(target) == form.chunk_bytes:
            self._undo(data, chunk, target)
            return
        whole = new_array(form.chunk_bytes, _BYTE)
        self._undo(data, chunk, whole)
        target[...] = whole[begin : begin + len(target)]

    def _undo(self, data: ByteBuffer, chunk: StoredChunk, out: ByteBuffer) -> None:
        try:
            self._form.pipeline.undo(data, chunk.mask, out)
        except LeftToLibrary:
            raise
        except ValueError as error:
            raise DamagedChunk(str(error)) from error

    def _unpack_rows(self, chunk: StoredChunk, first: int, out: np.ndarray, packed: PackedForm) -> None:
        """Rows of a chunk of scale-offset that follow each other: only the bytes that hold them are read.

        Every eighth row begins with a whole byte, so that the header and the bytes from there on make a chunk.
        """
        head = new_array(SCALE_OFFSET_HEAD, _BYTE)
        self.load(chunk.address, head)
        bits = int.from_bytes(head[:4].tobytes(), "little")
        begin = first // 8 * 8
        count = first + len(out) - begin
        skipped, n_bytes = begin * bits // 8, -(-count * bits // 8)
        if bits > 8 * self._form.dtype.itemsize or SCALE_OFFSET_HEAD + skipped + n_bytes > chunk.size:
            raise ValueError("a chunk is shorter than its header claims")
        data = new_array(SCALE_OFFSET_HEAD + n_bytes, _BYTE)
        data[:SCALE_OFFSET_HEAD] = head
        self.load(chunk.address + SCALE_OFFSET_HEAD + skipped, data[SCALE_OFFSET_HEAD:])
        dtype, fill, decimals = packed
        unpacked = new_array(count, dtype)
        kernels.decode_scaleoffset(data, unpacked, fill, decimals)
        out.view(dtype)[...] = unpacked[first - begin :]

    def _read_rows(self, piece: ChunkRows, out: np.ndarray) -> None:
        """Scattered rows of a chunk, in the cheapest way."""
        form, packed, chunk = self._form, self._form.packed, piece.chunk
        if packed is not None and not chunk.mask and 4 * piece.n_rows < form.chunk_rows:
            data = new_array(chunk.size, _BYTE)
            self.load(chunk.address, data)
            dtype, fill, decimals = packed
            kernels.decode_scaleoffset_rows(data, form.chunk_rows, piece.places(0), out.view(dtype), fill, decimals)
            return
        first, last = (piece.first, piece.last + 1) if form.pipeline.is_empty else (0, form.chunk_rows)
        span = new_array(last - first, form.dtype)
        self._read_span(chunk, first, span)
        kernels.take(span, form.dtype.itemsize, piece.places(first), out)
