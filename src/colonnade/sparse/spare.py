"""Places that an array has left behind in its file: chunks that outgrew them, old chunk maps. They are used again.

HDF5 does not know that they are free, and so never gives them to anyone. They are noted in a message of type 0 (which
every reader passes over) in the array's own header, under its checksum:

| message 0 | bytes |
| --- | --- |
| `COLONNADE SPARE1` | 16 |
| number of places | 4 |
| each: address, bytes | 8 + 8 |

A note alone is not believed: it may be damaged, or lie, and what it names may be the bytes of others. Each place that
is noted begins with a stamp, written in the same commit, and only places that have theirs are used:

| first bytes of a noted place | bytes |
| --- | --- |
| `COLONNADE FREE 1` | 16 |
| address of the array's header | 8 |
| bytes of the place, as in the note | 8 |

Only a few large ones are noted; the rest is given back by `repack`, as are places that were noted before there were
stamps. Overwriting a place is safe, since the journal keeps what was there until the commit.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from colonnade.format.source import Source

_MAGIC = b"COLONNADE SPARE1"
_LEAD = len(_MAGIC) + 4
_RUN = 16
_STAMP = b"COLONNADE FREE 1"
_STAMP_BYTES = len(_STAMP) + 16
_SMALLEST = 64  # bytes: less is not worth a note, and a stamp must fit in
MOST_RUNS = 32
LEAST_ROOM, USUAL_ROOM = _LEAD + 8 * _RUN, _LEAD + MOST_RUNS * _RUN


class Spare:
    """Runs of bytes that are free, in the order of their addresses, never side by side."""

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self.runs: list[tuple[int, int]] = []
        self.stamped: set[tuple[int, int]] = set()  # those whose stamps need not be written again
        self._by_size: list[tuple[int, int]] = []  # the same runs, turned round: there may be many
        for address, size in runs:
            self.give(address, size)

    def give(self, address: int, size: int) -> None:
        """Bytes that nobody needs any more; joined with those beside them."""
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
        """The address of so many free bytes, from the smallest run that has them; None where there is none."""
        place = bisect_left(self._by_size, (size, 0))
        if place == len(self._by_size) or size <= 0:
            return None
        length, address = self._by_size[place]
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
        """Whether none of these places (address, bytes) lies in a free run: a note that says so is not believed."""
        for address, size in places:
            at = bisect_left(self.runs, (address + size, 0))
            if at and sum(self.runs[at - 1]) > address:
                return False
        return True

    def largest(self, room: int) -> list[tuple[int, int]]:
        """The runs to be noted, in the order of their addresses, if a note may have so many bytes."""
        count = max(min((room - _LEAD) // _RUN, MOST_RUNS), 0)
        worth = (run for run in self.runs if run[1] >= _SMALLEST)
        return sorted(sorted(worth, key=lambda run: -run[1])[:count])


def encode_note(runs: Sequence[tuple[int, int]]) -> bytes:
    """The note of these runs."""
    return _MAGIC + struct.pack("<I", len(runs)) + b"".join(struct.pack("<QQ", *run) for run in runs)


def encode_stamp(owner: int, size: int) -> bytes:
    """What a free run of so many bytes begins with; `owner` is the address of the array's header."""
    return _STAMP + struct.pack("<QQ", owner, size)


def decode_spare(source: Source, data: bytes, owner: int) -> Spare | None:
    """The note in a message, without the runs that have no stamp; None when it is another, or makes no sense here."""
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


def _stamped(source: Source, runs: Sequence[tuple[int, int]], owner: int) -> Spare:
    """The runs that begin with their stamp."""
    found = Spare()
    for address, size in runs:
        if source.read(address, _STAMP_BYTES, "free place") == encode_stamp(owner, size):
            found.give(address, size)
            found.stamped.add((address, size))
    return found
