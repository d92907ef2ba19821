"""A matrix that comes by rows, as SciPy's CSR has them, written to chunks: a band of rows at a time, without sorting.

Most such matrices have their cells here and there, so points are the smallest form of section 0. Where that is sure,
they are made of the rows at once, and values are written from where they lie; all else goes the way of other cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from colonnade import kernels
from colonnade.dataclass import dataclass
from colonnade.format.source import CHECKSUM
from colonnade.sparse.change import checked_values
from colonnade.sparse.chunk import SparseInfo
from colonnade.sparse.pack import Packed, Section, is_thorough, pack_sections
from colonnade.sparse.selections import points_head, points_width
from colonnade.sparse.streams import Axis, Block, RowSource, expand_rows, narrow_minor
from colonnade.sparse.values import Values
from colonnade.threads import in_order

Room = np.ndarray[Any, np.dtype[np.uint8]]
Sorted = Callable[[SparseInfo, Block], Iterator[Packed]]
_AT_ONCE = 8  # chunks whose section 0 is summed together
_MOST_CUTS = 1 << 20


@dataclass(frozen=True, slots=True)
class _Band:
    """Cells of the rows of one line of chunks: `ends` are the rows' places in `minor` and `values`."""

    first: int
    ends: Axis
    minor: np.ndarray[Any, Any]
    values: Values


@dataclass(frozen=True, slots=True)
class _Piece:
    """The cells of one chunk."""

    grid: tuple[int, int]
    band: _Band
    starts: Axis
    stops: Axis
    count: int


def suits_rows(info: SparseInfo) -> bool:
    """Whether rows can be written the quick way: not where all forms of section 0 are to be tried."""
    rows, columns = info.layout.chunk
    n_pieces = -(-info.space.shape[1] // columns)
    return not is_thorough(info.pipelines[0]) and min(rows, info.space.shape[0]) * (n_pieces + 1) <= _MOST_CUTS


def pack_rows(info: SparseInfo, rows: RowSource, pack_sorted: Sorted, n_threads: int) -> Iterator[list[Packed]]:
    """The chunks of a matrix, some at a time. `pack_sorted` makes those of bands that do not suit the quick way."""
    spare: list[Room] = []  # memory that is faulted in already

    def work(bands: list[_Band]) -> tuple[list[Packed], Room | None]:
        try:
            return _pack_pieces(info, [piece for band in bands for piece in _cut(info, band)], pack_sorted, spare)
        except ValueError:  # columns that do not increase, or lie outside: sorted, or refused, here
            return [one for band in bands for one in pack_sorted(info, _cells(_mended(rows, band)))], None

    n_threads = n_threads if info.filtered else 1  # to share the little that is to do would cost more than it saves
    for chunks, room in in_order(work, _batches(info, rows), n_threads):
        yield chunks
        if room is not None:
            spare.append(room)  # whoever asks for the next has written these


def _batches(info: SparseInfo, rows: RowSource) -> Iterator[list[_Band]]:
    """Bands, some at a time; one where it has many chunks itself."""
    size, n_bands = info.layout.chunk[0], -(-info.space.shape[1] // info.layout.chunk[1])
    batch: list[_Band] = []
    for first in range(0, len(rows.ends) - 1, size):
        ends = rows.ends[first : first + size + 1]
        start, stop = int(ends[0]), int(ends[-1])
        if start == stop:
            continue
        minor, values = rows.read(start, stop)
        batch.append(_Band(first, ends - start, narrow_minor(minor), checked_values(values, info, len(minor))))
        if len(batch) * n_bands >= _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _cut(info: SparseInfo, band: _Band) -> Iterator[_Piece]:
    """A band to the cells of its chunks; those without cells are left out."""
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
    """Whether points are surely the smallest form: a block takes two places."""
    return 2 * kernels.least_blocks(piece.band.minor, piece.starts, piece.stops) >= piece.count


def _pack_other(info: SparseInfo, piece: _Piece, pack_sorted: Sorted) -> Packed:
    """A chunk whose cells make blocks. A ValueError where they are not of that chunk: then nothing was cut right."""
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
    """Chunks, and the memory their points lie in: side by side, so that they are summed together."""
    heads = [_head(info, piece) for piece in pieces]
    sizes = [len(head) + 2 * width * piece.count + CHECKSUM for (head, width), piece in zip(heads, pieces, strict=True)]
    made, at = _room(sum(sizes), spare), 0
    points: list[tuple[_Piece, int, int]] = []
    chunks: list[Packed] = []
    for piece, (head, width), size in zip(pieces, heads, sizes, strict=True):
        if _is_scattered(piece):  # and then at once, while the columns are in the processor's cache
            stop = at + size - CHECKSUM
            made[at : at + len(head)] = np.frombuffer(head, dtype=np.uint8)
            _put_points(info, piece, width, made[at + len(head) : stop])
            points.append((piece, at, stop))
            at += size
        else:
            chunks.append(_pack_other(info, piece, pack_sorted))
    chunks += _sum_points(info, points, made)
    return sorted(chunks, key=lambda one: one[0]), made


def _put_points(info: SparseInfo, piece: _Piece, width: int, out: Room) -> None:
    column = piece.grid[1] * info.layout.chunk[1]
    limit = min(info.layout.chunk[1], info.space.shape[1] - column)
    kernels.rows_to_points(piece.band.minor, piece.starts, piece.stops, column, limit, width, out)


def _sum_points(info: SparseInfo, points: list[tuple[_Piece, int, int]], made: Room) -> Iterator[Packed]:
    """Checksums put behind each section 0, and the chunks of them."""
    starts = np.array([start for _, start, _ in points], dtype=np.int64)
    stops = np.array([stop for _, _, stop in points], dtype=np.int64)
    sums = np.empty(len(points), dtype=np.uint32)
    kernels.lookup3_each(made, starts, stops, sums)
    for (piece, start, stop), one in zip(points, sums.tolist(), strict=True):
        made[stop : stop + CHECKSUM] = np.frombuffer(one.to_bytes(CHECKSUM, "little"), dtype=np.uint8)
        yield piece.grid, pack_sections(info, [made.data[start : stop + CHECKSUM], _values(piece)])


def _room(n_bytes: int, spare: list[Room]) -> Room:
    """At least so many bytes."""
    try:
        found = spare.pop()
    except IndexError:
        found = np.empty(0, dtype=np.uint8)
    return found if len(found) >= n_bytes else np.empty(n_bytes + n_bytes // 4, dtype=np.uint8)


def _head(info: SparseInfo, piece: _Piece) -> tuple[bytes, int]:
    """What stands before the points, and the width of their numbers."""
    greatest = 0
    if max(info.layout.chunk) > 1 << 16:
        filled = piece.starts < piece.stops
        last = piece.band.minor[piece.stops[filled] - 1] - piece.grid[1] * info.layout.chunk[1]
        greatest = max(int(last.max()), int(np.flatnonzero(filled)[-1]))
    width = points_width(max(greatest, piece.count))
    return points_head(info.layout.chunk, width, piece.count), width


def _values(piece: _Piece) -> Section:
    """The values of a chunk: where they lie, or put together."""
    values = piece.band.values
    size = values.itemsize * prod(values.shape[1:])
    given = values.reshape(-1).view(np.uint8)
    if piece.count == len(values):
        return given.data
    lengths = piece.stops - piece.starts
    made = np.empty(piece.count * size, dtype=np.uint8)
    kernels.copy_runs(given, piece.starts, np.cumsum(lengths) - lengths, lengths, size, made)
    return made.data


def _mended(rows: RowSource, band: _Band) -> _Band:
    return band if rows.mend is None else _Band(band.first, *rows.mend(band.ends, band.minor, band.values))


def _cells(band: _Band) -> Block:
    return expand_rows(band.first, band.ends, band.minor), band.values
