"""Records of chunks: the address and sections of each chunk (facts 3.1 and 4).

| field | bytes |
| --- | --- |
| address of the chunk (not in the layout message's record of a single chunk) | O |
| bytes of the stored chunk | W |
| B-tree only: position of the chunk in the grid of chunks | 8 per dimension |
| where sections 1, 2, ... start in the stored chunk | 8 each |
| if any section of the dataset has filters: bytes of each section before its filters | 8 each |
| and the filters that each section has skipped, one bit per filter | 4 each |

W is not stored: it is the record size minus all other fields.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade.arrays import Int64s, UInt64s
from colonnade.dataclass import dataclass
from colonnade.format.layout import record_tail
from colonnade.format.source import HDF5Source

RecordNumbers = UInt64s
Grid = Int64s
NOWHERE = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class RecordForm:
    """The fields of the records of a dataset. `rank` is 0 if records do not contain the position in the grid."""

    offset_size: int
    size_bytes: int
    rank: int
    n_sections: int
    filtered: bool

    @property
    def length(self) -> int:
        return self.offset_size + self.size_bytes + 8 * self.rank + record_tail(self.n_sections, self.filtered)


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """One stored chunk: its position in the grid of chunks, its address, and the bounds of its sections.

    >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
    >>> s.write([(0, 1), (50, 2)], [5, 6])
    >>> s.records()[0].size > 0
    True
    """

    grid: tuple[int, ...]
    address: int
    bounds: tuple[int, ...]
    unfiltered: tuple[int, ...]
    masks: tuple[int, ...]

    @property
    def size(self) -> int:
        """The bytes of the chunk in the file."""
        return self.bounds[-1]


@dataclass(frozen=True, slots=True)
class Records:
    """Records of several chunks, one row each. `grid` holds their positions in the grid of chunks."""

    grid: Grid
    address: RecordNumbers
    bounds: RecordNumbers  # 0, starts of the other sections, end
    unfiltered: RecordNumbers
    masks: RecordNumbers

    def __len__(self) -> int:
        return len(self.address)

    def __iter__(self) -> Iterator[ChunkRecord]:
        rows = zip(
            self.grid.tolist(), self.address.tolist(), self.bounds.tolist(), self.unfiltered.tolist(),
            self.masks.tolist(), strict=True,
        )  # fmt: skip
        for grid, address, bounds, unfiltered, masks in rows:
            yield ChunkRecord(tuple(grid), address, tuple(bounds), tuple(unfiltered), tuple(masks))

    def where(self, wanted: np.ndarray) -> Records:
        return Records(
            self.grid[wanted], self.address[wanted], self.bounds[wanted], self.unfiltered[wanted], self.masks[wanted]
        )


def form_of(source: HDF5Source, record_size: int, rank: int, n_sections: int, filtered: bool, what: str) -> RecordForm:
    """The form of records of this size: the bytes that no other field uses hold the size of the chunk."""
    form = RecordForm(source.offset_size, 0, rank, n_sections, filtered)
    left = record_size - form.length
    if not 1 <= left <= 8:
        raise source.as_fields(b"", what).wrong(
            f"has records of {record_size} bytes, but at least {form.length + 1} are needed"
        )
    return RecordForm(source.offset_size, left, rank, n_sections, filtered)


def decode_records(data: bytes, form: RecordForm) -> Records:
    """Decode concatenated records. `grid` is empty if records do not contain it; undefined addresses are NOWHERE."""
    rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, form.length)
    at = 0

    def take(count: int, width: int) -> RecordNumbers:
        nonlocal at
        part = rows[:, at : at + count * width]
        at += count * width
        wide = np.zeros((len(rows), count, 8), dtype=np.uint8)
        wide[:, :, :width] = part.reshape(len(rows), count, width)
        return wide.view("<u8")[:, :, 0].astype(np.uint64)

    address = take(1, form.offset_size)[:, 0]
    address[address == (1 << 8 * form.offset_size) - 1] = NOWHERE
    size = take(1, form.size_bytes)
    grid = take(form.rank, 8)
    bounds = np.hstack((np.zeros_like(size), take(form.n_sections - 1, 8), size))
    unfiltered = take(form.n_sections, 8) if form.filtered else np.diff(bounds, axis=1)
    masks = take(form.n_sections, 4) if form.filtered else np.zeros((len(rows), form.n_sections), dtype=np.uint64)
    return Records(np.minimum(grid, 1 << 62).astype(np.int64), address, bounds, unfiltered, masks)


def encode_records(records: Records, form: RecordForm) -> bytes:
    """Encode records to bytes, the inverse of `decode_records`."""
    parts = []

    def put(numbers: RecordNumbers, width: int) -> None:
        wide = np.ascontiguousarray(numbers.reshape(len(records), -1), dtype="<u8")
        parts.append(wide.view(np.uint8).reshape(len(records), -1, 8)[:, :, :width].reshape(len(records), -1))

    put(records.address, form.offset_size)
    put(records.bounds[:, -1], form.size_bytes)
    if form.rank:
        put(records.grid.astype(np.uint64), 8)
    put(records.bounds[:, 1:-1], 8)
    if form.filtered:
        put(records.unfiltered, 8)
        put(records.masks, 4)
    return np.hstack(parts).tobytes()
