"""Section 0: the selection of a chunk's defined elements, as H5Sencode2 writes a dataspace (facts 3.3).

| section 0 | bytes |
| --- | --- |
| dataspace 1, version 0, size of sizes 8 | 3 |
| bytes of the extent | 4 |
| extent: a dataspace message; its dimensions are the chunk's, its maxima are ignored | |
| type of selection: 0 none, 1 points, 2 blocks, 3 all | 4 |
| version | 4 |
| body | |

| selection | version | body |
| --- | --- | --- |
| none, all | 1 | 0 (4), length 0 (4) |
| points | 1 | 0 (4), length (4), rank (4), n (4), n * rank coordinates (4 each) |
| points | 2 | width e (1), rank (4), n (e), n * rank coordinates (e each) |
| blocks | 1 | 0 (4), length (4), rank (4), n (4), n * (rank first, rank last coordinates) (4 each) |
| blocks, regular | 2 | flags 1 (1), length (4), rank (4), rank * (start, stride, count, block) (8 each) |
| blocks, regular | 3 | flags 1 (1), width e (1), rank (4), rank * (start, stride, count, block) (e each) |
| blocks | 3 | flags 0 (1), width e (1), rank (4), n (e), n * (rank first, rank last coordinates) (e each) |

Values are ordered by position in the chunk, whatever the order of blocks; but values of points are in the order of the
points. Out: row-major positions in the chunk. Invariant: each position is inside the chunk, and none occurs twice.
Positions are computed only if their number equals the number of values, so a file cannot claim too many.

For writing, `choose_selections` expresses ascending positions in all legal forms, and the smallest is used. Blocks are
built by merging: single elements into runs along the last dimension, equal adjacent runs into rectangles, and so on
through all dimensions.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from math import prod
from typing import Literal

import numpy as np

from colonnade import kernels
from colonnade.arrays import Int64s
from colonnade.dataclass import dataclass
from colonnade.format.dataspace import Dataspace, decode_dataspace, encode_dataspace
from colonnade.format.source import Fields

Positions = Int64s
"""Row-major positions in a chunk."""
Coordinates = Int64s
"""One row per element, one column per dimension."""
SelectionNumbers = np.ndarray  # of unsigned integers
SelectionKind = Literal["none", "all", "points", "blocks", "regular"]
_NONE, _POINTS, _BLOCKS, _ALL = 0, 1, 2, 3
_WIDTHS = (2, 4, 8)
_REGULAR = 1
_WRITTEN_VERSION = 3  # of blocks, regular or not
_POINTS_VERSION = 2
_WORTH_BLOCKS = 2  # minimum ratio of runs to blocks


@dataclass(frozen=True, slots=True)
class CellSelection:
    """The defined elements of a chunk.

    numbers: points: (n, rank) coordinates; blocks: (n, 2, rank) first and last coordinates;
    regular: (rank, 4) start, stride, count and block; else empty. The dtype has the stored width.
    """

    shape: tuple[int, ...]
    kind: SelectionKind
    version: int
    numbers: SelectionNumbers

    @property
    def is_ordered(self) -> bool:
        """Whether values are ordered by position; points need not be."""
        return self.kind != "points"


def decode_selection(fields: Fields, chunk: tuple[int, ...]) -> CellSelection:
    """Decode section 0 without its checksum; see the tables in the module docstring."""
    fields.expect(b"\1\0\x08", "dataspace, version and size of sizes")
    extent = Fields(fields.take(fields.number(4)), f"the extent in {fields.what}", fields.name)
    shape = decode_dataspace(extent).shape
    if shape != chunk:
        raise fields.wrong(f"is for chunks of {shape}, the dataset has chunks of {chunk}")
    kind, version = fields.number(4), fields.number(4)
    if kind in (_NONE, _ALL) and version == 1:
        if any(fields.take(8)):
            raise fields.wrong("has a body where none is allowed")
        selection = CellSelection(shape, "none" if kind == _NONE else "all", version, np.empty(0, dtype=np.uint64))
    elif kind == _POINTS and version in (1, 2):
        selection = _decode_points(fields, shape, version)
    elif kind == _BLOCKS and version in (1, 2, 3):
        selection = _decode_blocks(fields, shape, version)
    else:
        raise fields.wrong(f"has a selection of type {kind} in version {version}, which is not known")
    if fields.left:
        raise fields.wrong(f"has {fields.left} bytes after its selection")
    return selection


def _take_width(fields: Fields) -> int:
    width = fields.number(1)
    if width not in _WIDTHS:
        raise fields.wrong(f"has numbers of {width} bytes")
    return width


def _take_rank(fields: Fields, shape: tuple[int, ...]) -> None:
    rank = fields.number(4)
    if rank != len(shape):
        raise fields.wrong(f"has a selection of rank {rank} in a chunk of rank {len(shape)}")


def _take_array(fields: Fields, count: int, width: int) -> SelectionNumbers:
    """`count` numbers of `width` bytes; the bytes are checked to exist before an array is allocated."""
    return np.frombuffer(fields.take(count * width), dtype=f"<u{width}")


def _take_length(fields: Fields) -> int:
    """The length field of bodies of versions 1 and 2, which counts the bytes after it."""
    length = fields.number(4)
    if length != fields.left:
        raise fields.wrong(f"claims that {length} bytes follow, but {fields.left} do")
    return length


def _decode_points(fields: Fields, shape: tuple[int, ...], version: int) -> CellSelection:
    width = 4
    if version == 1:
        fields.take(4)
        _take_length(fields)
    else:
        width = _take_width(fields)
    _take_rank(fields, shape)
    count = fields.number(width)
    numbers = _take_array(fields, count * len(shape), width).reshape(count, len(shape))
    return CellSelection(shape, "points", version, numbers)


def _decode_blocks(fields: Fields, shape: tuple[int, ...], version: int) -> CellSelection:
    width, flags, rank = 4, 0, len(shape)
    if version == 1:
        fields.take(4)
    else:
        flags = fields.number(1)
    if version == 3:
        width = _take_width(fields)
    else:
        _take_length(fields)
    if flags > _REGULAR or (version == 2 and flags != _REGULAR):
        raise fields.wrong(f"has flags {flags}")
    _take_rank(fields, shape)
    if flags:
        numbers = _take_array(fields, 4 * rank, 8 if version == 2 else width).reshape(rank, 4)
        return CellSelection(shape, "regular", version, numbers)
    count = fields.number(width)
    return CellSelection(shape, "blocks", version, _take_array(fields, 2 * rank * count, width).reshape(count, 2, rank))


def count_cells(selection: CellSelection) -> int:
    """The number of selected elements; overlapping blocks count twice."""
    if selection.kind in ("none", "all"):
        return prod(selection.shape) if selection.kind == "all" else 0
    if selection.kind == "points":
        return len(selection.numbers)
    if selection.kind == "regular":
        return prod(int(count) * int(block) for _, _, count, block in selection.numbers.tolist())
    first, last = selection.numbers[:, 0], selection.numbers[:, 1]
    if not _is_inside(last, selection.shape):
        return -1
    if np.array_equal(first, last):
        return len(first)
    if (last < first).any():
        return -1
    sizes = (last - first).astype(np.int64) + 1
    if sizes.prod(axis=1, dtype=np.float64).sum() > 2.0**62:
        return -1
    return int(sizes.prod(axis=1).sum())


def _is_inside(coords: SelectionNumbers, shape: tuple[int, ...]) -> bool:
    return all(not len(coords) or int(coords[:, axis].max()) < size for axis, size in enumerate(shape))


def _linear(coords: SelectionNumbers, shape: tuple[int, ...]) -> Positions:
    """Coordinates to row-major positions."""
    places = coords[:, 0].astype(np.int64)
    for axis in range(1, len(shape)):
        places *= shape[axis]
        places += coords[:, axis].astype(np.int64)
    return places


def find_places(selection: CellSelection, n_values: int, fields: Fields) -> Positions:
    """The positions of the selected elements, in the order of their values. Their number must be `n_values`."""
    count = count_cells(selection)
    if count != n_values:
        raise fields.wrong(
            f"selects {count if count >= 0 else 'an invalid number of'} elements, there are {n_values} values"
        )
    if selection.kind in ("none", "all"):
        return np.arange(count, dtype=np.int64)
    if selection.kind == "points":
        return _places_of_points(selection, fields)
    if selection.kind == "regular":
        return _places_of_regular(selection, fields)
    return _places_of_blocks(selection, fields)


def _strides(shape: tuple[int, ...]) -> Positions:
    """The distance between neighbours along each dimension, in elements."""
    return np.array([prod(shape[axis + 1 :]) for axis in range(len(shape))], dtype=np.int64)


def _places_of_points(selection: CellSelection, fields: Fields) -> Positions:
    if not _is_inside(selection.numbers, selection.shape):
        raise fields.wrong("has a point outside the chunk")
    places = _linear(selection.numbers, selection.shape)
    ordered = places if (places[1:] > places[:-1]).all() else np.sort(places)
    if (ordered[1:] == ordered[:-1]).any():
        raise fields.wrong("has a point twice")
    return places


def _places_of_regular(selection: CellSelection, fields: Fields) -> Positions:
    places = np.zeros(1, dtype=np.int64)
    rows = zip(selection.numbers.tolist(), selection.shape, _strides(selection.shape).tolist(), strict=True)
    for (start, stride, count, block), size, step in rows:
        if count and block and (start + stride * (count - 1) + block > size or (count > 1 and stride < block)):
            raise fields.wrong(
                f"has blocks of {block} every {stride} from {start}, {count} times, in a chunk of {size}"
            )
        along = start + stride * np.arange(count, dtype=np.int64)[:, None] + np.arange(block, dtype=np.int64)
        places = (places[:, None] + along.reshape(-1) * step).reshape(-1)
    return places


def _places_of_blocks(selection: CellSelection, fields: Fields) -> Positions:
    """The positions in blocks: blocks are split into runs along the last dimension, which are sorted and expanded."""
    first, last = selection.numbers[:, 0], selection.numbers[:, 1]
    starts = _linear(first, selection.shape)
    lengths = (last[:, -1] - first[:, -1]).astype(np.int64) + 1
    if not np.array_equal(first[:, :-1], last[:, :-1]):
        starts, lengths = _runs(starts, (last - first).astype(np.int64) + 1, _strides(selection.shape))
    if (starts[1:] <= starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, lengths = starts[order], lengths[order]
    if (starts[1:] < starts[:-1] + lengths[:-1]).any():
        raise fields.wrong("has blocks that overlap")
    if (lengths == 1).all():
        return starts
    ends = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0, dtype=np.int64)


def _runs(starts: Positions, size: Positions, strides: Positions) -> tuple[Positions, Positions]:
    """The starts and lengths of the runs of each block."""
    counts = size[:, :-1].prod(axis=1)
    block = np.repeat(np.arange(len(starts)), counts)
    left = np.arange(len(block), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    runs = starts[block]
    for axis in range(size.shape[1] - 2, -1, -1):
        along = size[block, axis]
        runs += left % along * strides[axis]
        left //= along
    return runs, size[block, -1]


def ordered(numbers: Positions) -> Positions | None:
    """The permutation that sorts numbers, stable; None if they are sorted already."""
    if (numbers[1:] >= numbers[:-1]).all():
        return None
    order = np.empty(len(numbers), dtype=np.int64)
    narrow = numbers.astype(np.int32) if numbers.max() < 1 << 31 and numbers.min() >= 0 else numbers
    kernels.argsort(narrow, order)
    return order


def encode_selection(selection: CellSelection) -> bytes:
    """Encode section 0 without its checksum: points in version 2, blocks in the selection's version, 1 or 3."""
    shape, rank = selection.shape, len(selection.shape)
    lead = _lead(shape)
    if selection.kind in ("none", "all"):
        return lead + struct.pack("<IIII", _NONE if selection.kind == "none" else _ALL, 1, 0, 0)
    numbers = selection.numbers
    if selection.kind == "blocks" and selection.version == 1:
        body = numbers.astype("<u4").tobytes()
        return lead + struct.pack("<IIIIII", _BLOCKS, 1, 0, 8 + len(body), rank, len(numbers)) + body
    width = width_for(selection)
    body = numbers.astype(f"<u{width}").tobytes()
    if selection.kind == "points":
        return points_head(shape, width, len(numbers)) + body
    count = len(numbers).to_bytes(width, "little")
    regular = selection.kind == "regular"
    return lead + struct.pack("<IIBBI", _BLOCKS, 3, int(regular), width, rank) + (b"" if regular else count) + body


@lru_cache(maxsize=64)
def _lead(shape: tuple[int, ...]) -> bytes:
    """The bytes before the selection in section 0."""
    extent = encode_dataspace(Dataspace(shape, shape), version=1)
    return b"\1\0\x08" + struct.pack("<I", len(extent)) + extent


def points_head(shape: tuple[int, ...], width: int, count: int) -> bytes:
    """Section 0 of points up to their coordinates."""
    return _lead(shape) + struct.pack("<IIBI", _POINTS, 2, width, len(shape)) + count.to_bytes(width, "little")


def points_width(greatest: int) -> int:
    """The smallest width that holds `greatest`, the largest of the count and the coordinates of points."""
    return next(width for width in _WIDTHS if greatest < 1 << 8 * width)


def width_for(selection: CellSelection) -> int:
    """The smallest width that holds the count and every number (facts 3.3: the enc rule)."""
    greatest = int(selection.numbers.max()) if selection.numbers.size else 0
    if selection.kind == "regular":
        greatest = max(greatest, int(selection.numbers[:, 2:].max()) + 1)
    else:
        greatest = max(greatest, len(selection.numbers))
    return points_width(greatest)


def coordinates(places: Positions, chunk: tuple[int, ...]) -> Coordinates:
    """The coordinates in the chunk of these positions, one row each."""
    coords = np.empty((len(places), len(chunk)), dtype=np.int64)
    left = places
    for axis in range(len(chunk) - 1, 0, -1):
        up = left // chunk[axis]  # faster than np.divmod, which is not vectorized
        coords[:, axis] = left - up * chunk[axis]
        left = up
    coords[:, 0] = left
    return coords


# -- choosing a selection --


def choose_selections(places: Positions, shape: tuple[int, ...], filtered: bool = False) -> list[CellSelection]:
    """Every form worth trying, ordered by size without filters, smallest first.

    filtered: the selection will be filtered. Filters compress uniform runs better than runs mixed with a few blocks of
    several rows, so runs are not merged where only few of them could be.
    """
    if not len(places):
        return [CellSelection(shape, "none", 1, np.empty(0, dtype=np.uint64))]
    if len(places) == prod(shape):
        return [CellSelection(shape, "all", 1, np.empty(0, dtype=np.uint64))]
    coords = coordinates(places, shape)
    first, last = _grow_plane(places, shape) if len(shape) <= 2 else _grow(coords, shape)
    regular = _as_regular(first, last, shape)
    if regular is not None:
        return [regular]
    points = CellSelection(shape, "points", _POINTS_VERSION, coords.view(np.uint64))
    if not filtered and 2 * len(first) >= len(coords):
        return [points]  # a block takes as many numbers as two points
    if filtered:
        starts, stops = _runs_of_places(places, shape[-1])
        if len(starts) < _WORTH_BLOCKS * len(first):
            first, last = coordinates(starts, shape), coordinates(stops, shape)
    blocks = np.stack((first, last), axis=1).astype(np.uint64)
    forms = [CellSelection(shape, "blocks", _WRITTEN_VERSION, blocks)]
    forms.append(points)
    return sorted(forms, key=lambda form: form.numbers.size * width_for(form))


def _runs_of_places(places: Positions, width: int) -> tuple[Positions, Positions]:
    """First and last positions of runs of adjacent elements along the last dimension."""
    begins = np.append(True, (places[1:] != places[:-1] + 1) | (places[1:] % width == 0))
    return places[begins], places[np.append(begins[1:], True)]


def _grow_plane(places: Positions, shape: tuple[int, ...]) -> tuple[Coordinates, Coordinates]:
    """First and last corners of blocks, as in `_grow`, for one or two dimensions."""
    first, last = np.empty((2, len(places)), dtype=np.int64)
    count = kernels.grow_blocks(places, shape[-1], first, last)
    if count == len(places):
        same = coordinates(places, shape)
        return same, same
    return coordinates(first[:count], shape), coordinates(last[:count], shape)


def _grow(coords: Coordinates, shape: tuple[int, ...]) -> tuple[Coordinates, Coordinates]:
    """First and last corners of blocks that hold exactly these elements, in the order of their first corners."""
    first, last = coords, coords
    axes = range(len(shape))
    for axis in reversed(axes):
        first, last = _grow_along(first, last, shape, axis)
    order = _order(first, shape, tuple(axes))
    return (first, last) if order is None else (first[order], last[order])


def _grow_along(
    first: Coordinates, last: Coordinates, shape: tuple[int, ...], axis: int
) -> tuple[Coordinates, Coordinates]:
    """Merge blocks that touch along a dimension and are equal in all others.

    Blocks do not overlap, so sorting them by first corner, with this dimension last, makes such blocks neighbours.
    """
    others = tuple(other for other in range(len(shape)) if other != axis)
    order = _order(first, shape, (*others, axis))
    if order is not None:
        first, last = first[order], last[order]
    alike = first[1:, axis] == last[:-1, axis] + 1
    for other in others:
        alike &= (first[1:, other] == first[:-1, other]) & (last[1:, other] == last[:-1, other])
    if not alike.any():
        return first, last
    begins = np.flatnonzero(np.concatenate(([True], ~alike)))
    ends = np.append(begins[1:], len(first)) - 1
    return first[begins], last[ends]


def _order(coords: Coordinates, shape: tuple[int, ...], axes: tuple[int, ...]) -> Positions | None:
    """The permutation that sorts coordinates by these dimensions, the first slowest; None if sorted already."""
    key = coords[:, axes[0]].copy()
    for axis in axes[1:]:
        key *= shape[axis]
        key += coords[:, axis]
    return None if (key[1:] > key[:-1]).all() else np.argsort(key)


def _as_regular(first: Coordinates, last: Coordinates, shape: tuple[int, ...]) -> CellSelection | None:
    """The blocks as one regular pattern (equal blocks at equal distances); None if they are not regular."""
    size = last - first + 1
    same = int(np.searchsorted(first[:, 0], first[0, 0], side="right"))  # blocks are sorted by row
    if len(first) % same or (first[same : 2 * same, 1:] != first[: min(same, len(first) - same), 1:]).any():
        return None
    if (size != size[0]).any():
        return None
    rows = []
    for axis in range(len(shape)):
        starts = np.unique(first[:, axis])
        steps = np.diff(starts)
        if len(steps) and (steps != steps[0]).any():
            return None
        step = int(steps[0]) if len(steps) else 1
        rows.append((int(starts[0]), step, len(starts), int(size[0, axis])))
    if prod(row[2] for row in rows) != len(first):
        return None
    return CellSelection(shape, "regular", _WRITTEN_VERSION, np.array(rows, dtype=np.uint64))
