"""Free space of an array, left by chunks that have moved and by old chunk maps. It is reused.

HDF5 does not know that it is free, so it never allocates it. The free runs are listed in a note: a message of type 0
(which every reader skips) in the array's header, covered by the header's checksum:

| message 0 | bytes |
| --- | --- |
| `COLONNADE SPARE1` | 16 |
| number of runs | 4 |
| each: address, bytes | 8 + 8 |

A note alone is not trusted: it may be damaged or forged, and point to bytes of other objects. Each listed run begins
with a stamp, written in the same commit, and only runs with a valid stamp are used:

| first bytes of a listed run | bytes |
| --- | --- |
| `COLONNADE FREE 1` | 16 |
| address of the array's header | 8 |
| bytes of the run, as in the note | 8 |

Only the largest runs are listed. `repack` reclaims the rest, and the runs of old notes without stamps. Overwriting a
run is safe, because the journal keeps its old bytes until the commit.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from colonnade.format.source import HDF5Source

_MAGIC = b"COLONNADE SPARE1"
_LEAD = len(_MAGIC) + 4
_RUN = 16
_STAMP = b"COLONNADE FREE 1"
_STAMP_BYTES = len(_STAMP) + 16
_SMALLEST = 64  # bytes: smaller runs are not worth listing, and a stamp must fit
MOST_RUNS = 32
LEAST_ROOM, USUAL_ROOM = _LEAD + 8 * _RUN, _LEAD + MOST_RUNS * _RUN


class Spare:
    """Free runs of bytes, sorted by address; adjacent runs are merged."""

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self.runs: list[tuple[int, int]] = []
        self.stamped: set[tuple[int, int]] = set()  # runs whose stamps are already in the file
        self._by_size: list[tuple[int, int]] = []  # the runs as (size, address), for a fast search
        for address, size in runs:
            self.give(address, size)

    def give(self, address: int, size: int) -> None:
        """Free these bytes; they are merged with adjacent runs."""
        if size <= 0:
            return
        at = bisect_left(self.runs, (address, 0))
        if at < len(self.runs) and self.runs[at][0] == address + size:
            size += self._remove(at)[1]
        if at and sum(self.runs[at - 1]) == address:
            at -= 1
            address, before = self._remove(at)
            size += before
        self._insert(at, address, size)

    def take(self, size: int) -> int | None:
        """Allocate `size` bytes from the smallest run that has them, and return the address; None if there is none."""
        number = bisect_left(self._by_size, (size, 0))
        if number == len(self._by_size) or size <= 0:
            return None
        length, address = self._by_size[number]
        at = bisect_left(self.runs, (address, length))
        self.stamped.discard(self._remove(at))
        if length > size:
            self._insert(at, address + size, length - size)
        return address

    def _insert(self, at: int, address: int, size: int) -> None:
        self.runs.insert(at, (address, size))
        insort(self._by_size, (size, address))

    def _remove(self, at: int) -> tuple[int, int]:
        address, size = self.runs.pop(at)
        del self._by_size[bisect_left(self._by_size, (size, address))]
        return address, size

    def is_apart(self, places: Iterable[tuple[int, int]]) -> bool:
        """Whether none of these ranges (address, bytes) overlaps a free run; if one does, the note is not trusted."""
        for address, size in places:
            at = bisect_left(self.runs, (address + size, 0))
            if at and sum(self.runs[at - 1]) > address:
                return False
        return True

    def largest(self, room: int) -> list[tuple[int, int]]:
        """The largest runs that fit into a note of `room` bytes, sorted by address."""
        count = max(min((room - _LEAD) // _RUN, MOST_RUNS), 0)
        worth = (run for run in self.runs if run[1] >= _SMALLEST)
        return sorted(sorted(worth, key=lambda run: -run[1])[:count])


def encode_note(runs: Sequence[tuple[int, int]]) -> bytes:
    """The note that lists these runs."""
    return _MAGIC + struct.pack("<I", len(runs)) + b"".join(struct.pack("<QQ", *run) for run in runs)


def encode_stamp(owner: int, size: int) -> bytes:
    """The stamp at the start of a free run of `size` bytes; `owner` is the address of the array's header."""
    return _STAMP + struct.pack("<QQ", owner, size)


def decode_spare(source: HDF5Source, data: bytes, owner: int) -> Spare | None:
    """The runs of the note in a message that have a valid stamp; None if the message is not a valid note."""
    if data[: len(_MAGIC)] != _MAGIC or len(data) < _LEAD:
        return None
    count = int.from_bytes(data[len(_MAGIC) : _LEAD], "little")
    if count > MOST_RUNS or len(data) < _LEAD + count * _RUN:
        return None
    runs = [struct.unpack_from("<QQ", data, _LEAD + number * _RUN) for number in range(count)]
    end = 0
    for address, size in runs:
        if address < end or size < _SMALLEST or address + size > source.fits:
            return None
        end = address + size
    return _stamped(source, runs, owner)


def _stamped(source: HDF5Source, runs: Sequence[tuple[int, int]], owner: int) -> Spare:
    """The runs that begin with their stamp, which are the only trusted ones."""
    spare = Spare()
    stamps = source.read_many([(address, _STAMP_BYTES) for address, _ in runs], "free space")
    for (address, size), stamp in zip(runs, stamps, strict=True):
        if stamp == encode_stamp(owner, size):
            spare.give(address, size)
            spare.stamped.add((address, size))
    return spare
