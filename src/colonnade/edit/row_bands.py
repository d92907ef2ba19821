"""Write a matrix that is given by rows, as in SciPy's CSR, to chunks: one band of rows at a time, without sorting.

In most such matrices the cells are scattered, so points are the smallest form of section 0. Where that is certain,
points are made directly from the rows, and values are written without a copy. Other chunks take the general path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from math import prod

import numpy as np

from colonnade import kernels
from colonnade.arrays import Octets
from colonnade.dataclass import dataclass
from colonnade.edit.cell_streams import Axis, Block, RowSource, expand_rows, narrow_minor
from colonnade.format.source import CHECKSUM
from colonnade.format.values import DecodedValues
from colonnade.sparse.chunk import Packed, Section, is_thorough, pack_sections
from colonnade.sparse.info import SparseInfo
from colonnade.sparse.selections import points_head, points_width
from colonnade.sparse.values import checked_values
from colonnade.threads import in_order

Room = Octets
Sorted = Callable[[SparseInfo, Block], Iterator[Packed]]
_AT_ONCE = 8  # chunks whose section 0 checksums are computed together
_MOST_CUTS = 1 << 20


@dataclass(frozen=True, slots=True)
class _Band:
    """Cells of the rows of one band of chunks: `ends` are the row offsets into `minor` and `values`."""

    first: int
    ends: Axis
    minor: np.ndarray
    values: DecodedValues


@dataclass(frozen=True, slots=True)
class _Piece:
    """The cells of one chunk."""

    grid: tuple[int, int]
    band: _Band
    starts: Axis
    stops: Axis
    count: int


def suits_rows(info: SparseInfo) -> bool:
    """Whether rows can take the fast path: not if all forms of section 0 must be tried."""
    rows, columns = info.layout.chunk
    n_pieces = -(-info.space.shape[1] // columns)
    return not is_thorough(info.pipelines[0]) and min(rows, info.space.shape[0]) * (n_pieces + 1) <= _MOST_CUTS


def pack_rows(info: SparseInfo, rows: RowSource, pack_sorted: Sorted, n_threads: int) -> Iterator[list[Packed]]:
    """The chunks of a matrix, in batches. `pack_sorted` makes the chunks that cannot take the fast path."""
    spare: list[Room] = []  # buffers to reuse: their pages are already mapped

    def work(bands: list[_Band]) -> tuple[list[Packed], Room | None]:
        try:
            return _pack_pieces(info, [piece for band in bands for piece in _cut(info, band)], pack_sorted, spare)
        except ValueError:  # columns do not increase, or are out of range: sort them, or raise
            return [chunk for band in bands for chunk in pack_sorted(info, _cells(_repaired(rows, band)))], None

    n_threads = n_threads if info.filtered else 1  # without filters, threads cost more than they save
    for chunks, room in in_order(work, _batches(info, rows), n_threads):
        yield chunks
        if room is not None:
            spare.append(room)  # the caller has written these chunks before it requests the next


def _batches(info: SparseInfo, rows: RowSource) -> Iterator[list[_Band]]:
    """Bands in batches of about _AT_ONCE chunks, at least one band each."""
    size, n_bands = info.layout.chunk[0], -(-info.space.shape[1] // info.layout.chunk[1])
    batch: list[_Band] = []
    for first in range(0, len(rows.ends) - 1, size):
        ends = rows.ends[first : first + size + 1]
        start, stop = int(ends[0]), int(ends[-1])
        if start == stop:
            continue
        minor, values = rows.read(start, stop)
        batch.append(_Band(first, ends - start, narrow_minor(minor), checked_values(values, info.type, len(minor))))
        if len(batch) * n_bands >= _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _cut(info: SparseInfo, band: _Band) -> Iterator[_Piece]:
    """Split a band into its chunks; chunks without cells are left out."""
    rows, columns = info.layout.chunk
    line, n_pieces = band.first // rows, -(-info.space.shape[1] // columns)
    if n_pieces == 1:
        yield _Piece((line, 0), band, band.ends[:-1], band.ends[1:], len(band.minor))
        return
    cuts = np.empty((len(band.ends) - 1, n_pieces + 1), dtype=np.int64)
    kernels.cut_rows(band.minor, band.ends, columns, n_pieces, cuts)
    for number, (starts, stops) in enumerate(pairwise(np.ascontiguousarray(cuts.T))):
        count = int((stops - starts).sum())
        if count:
            yield _Piece((line, number), band, starts, stops, count)


def _is_scattered(piece: _Piece) -> bool:
    """Whether points are certainly the smallest form: a block takes as much space as two points."""
    return 2 * kernels.least_blocks(piece.band.minor, piece.starts, piece.stops) >= piece.count


def _pack_other(info: SparseInfo, piece: _Piece, pack_sorted: Sorted) -> Packed:
    """A chunk whose cells form blocks. A ValueError if they belong to other chunks: then the band was split wrongly."""
    lengths = piece.stops - piece.starts
    ends = np.concatenate(([0], np.cumsum(lengths)))
    at = np.arange(piece.count, dtype=np.int64) + np.repeat(piece.starts - ends[:-1], lengths)
    axes = expand_rows(piece.band.first, ends, piece.band.minor[at])
    chunks = list(pack_sorted(info, (axes, piece.band.values[at])))
    if [grid for grid, _ in chunks] != [piece.grid]:
        raise ValueError("cells lie in other chunks")
    return chunks[0]


def _pack_pieces(
    info: SparseInfo, pieces: list[_Piece], pack_sorted: Sorted, spare: list[Room]
) -> tuple[list[Packed], Room]:
    """Chunks, and the buffer of their points, which are adjacent so that their checksums are computed in one call."""
    heads = [_head(info, piece) for piece in pieces]
    sizes = [len(head) + 2 * width * piece.count + CHECKSUM for (head, width), piece in zip(heads, pieces, strict=True)]
    room, at = _room(sum(sizes), spare), 0
    points: list[tuple[_Piece, int, int]] = []
    chunks: list[Packed] = []
    for piece, (head, width), size in zip(pieces, heads, sizes, strict=True):
        if _is_scattered(piece):  # then copy at once, while the columns are in the CPU cache
            stop = at + size - CHECKSUM
            room[at : at + len(head)] = np.frombuffer(head, dtype=np.uint8)
            _put_points(info, piece, width, room[at + len(head) : stop])
            points.append((piece, at, stop))
            at += size
        else:
            chunks.append(_pack_other(info, piece, pack_sorted))
    chunks += _sum_points(info, points, room)
    return sorted(chunks, key=lambda chunk: chunk[0]), room


def _put_points(info: SparseInfo, piece: _Piece, width: int, out: Room) -> None:
    column = piece.grid[1] * info.layout.chunk[1]
    limit = min(info.layout.chunk[1], info.space.shape[1] - column)
    kernels.rows_to_points(piece.band.minor, piece.starts, piece.stops, column, limit, width, out)


def _sum_points(info: SparseInfo, points: list[tuple[_Piece, int, int]], room: Room) -> Iterator[Packed]:
    """Append the checksum to each section 0, and make the chunks."""
    starts = np.array([start for _, start, _ in points], dtype=np.int64)
    stops = np.array([stop for _, _, stop in points], dtype=np.int64)
    sums = np.empty(len(points), dtype=np.uint32)
    kernels.lookup3_each(room, starts, stops, sums)
    for (piece, start, stop), checksum in zip(points, sums.tolist(), strict=True):
        room[stop : stop + CHECKSUM] = np.frombuffer(checksum.to_bytes(CHECKSUM, "little"), dtype=np.uint8)
        yield piece.grid, pack_sections(info, [room.data[start : stop + CHECKSUM], _values(piece)])


def _room(n_bytes: int, spare: list[Room]) -> Room:
    """A buffer of at least `n_bytes` bytes, reused if possible."""
    try:
        room = spare.pop()
    except IndexError:
        room = np.empty(0, dtype=np.uint8)
    return room if len(room) >= n_bytes else np.empty(n_bytes + n_bytes // 4, dtype=np.uint8)


def _head(info: SparseInfo, piece: _Piece) -> tuple[bytes, int]:
    """The bytes before the points, and the width of their coordinates."""
    greatest = 0
    if max(info.layout.chunk) > 1 << 16:
        filled = piece.starts < piece.stops
        last = piece.band.minor[piece.stops[filled] - 1] - piece.grid[1] * info.layout.chunk[1]
        greatest = max(int(last.max()), int(np.flatnonzero(filled)[-1]))
    width = points_width(max(greatest, piece.count))
    return points_head(info.layout.chunk, width, piece.count), width


def _values(piece: _Piece) -> Section:
    """The values of a chunk: a view if they are contiguous, else a copy."""
    values = piece.band.values
    size = values.itemsize * prod(values.shape[1:])
    given = values.reshape(-1).view(np.uint8)
    if piece.count == len(values):
        return given.data
    lengths = piece.stops - piece.starts
    copied = np.empty(piece.count * size, dtype=np.uint8)
    kernels.copy_runs(given, piece.starts, np.cumsum(lengths) - lengths, lengths, size, copied)
    return copied.data


def _repaired(rows: RowSource, band: _Band) -> _Band:
    return band if rows.repair is None else _Band(band.first, *rows.repair(band.ends, band.minor, band.values))


def _cells(band: _Band) -> Block:
    return expand_rows(band.first, band.ends, band.minor), band.values
