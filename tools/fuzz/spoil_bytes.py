"""Bytes of a file changed: flips, numbers at the edge, runs overwritten, inserted, moved, cut off."""

from __future__ import annotations

import random
from collections.abc import Callable

from tools.fuzz.seed import Seed

EDGES = (
    0,
    1,
    2,
    7,
    8,
    127,
    128,
    255,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**60,
    2**63 - 1,
    2**64 - 1,
)
Range = tuple[int, int]


def spoil_bytes(seed: Seed, data: bytearray, chance: random.Random) -> tuple[list[Range] | None, list[str]]:
    """Change the data in place; says which ranges changed, None when the bytes behind moved, and how each did."""
    changed: list[Range] | None = []
    ways: list[str] = []
    for _ in range(chance.choice([1, 1, 1, 1, 2, 3, 6])):
        if not data:
            return None, ways
        at = _place(seed, len(data), chance)
        way = chance.choices(_WAYS, _WEIGHTS)[0]
        found = way(data, at, chance)
        changed = None if found is None or changed is None else [*changed, found]
        ways.append(f"bytes:{way.__name__.replace('_', ' ')}")
    return changed, ways


def _place(seed: Seed, size: int, chance: random.Random) -> int:
    """Somewhere: mostly in structure, else among the rows or anywhere."""
    where = chance.random()
    ranges = seed.structure if where < 0.6 else seed.rows if where < 0.85 else ()
    if not ranges:
        return chance.randrange(size)
    first, end = chance.choice(ranges)
    return min(chance.randrange(first, max(end, first + 1)), size - 1)


def _flip(data: bytearray, at: int, chance: random.Random) -> Range:
    data[at] ^= 1 << chance.randrange(8)
    return at, at + 1


def _byte(data: bytearray, at: int, chance: random.Random) -> Range:
    data[at] = chance.choice([0, 1, 2, 3, 127, 128, 254, 255, chance.randrange(256)])
    return at, at + 1


def _number(data: bytearray, at: int, chance: random.Random) -> Range:
    """A number at a place that suits its width becomes one at the edge, or a little more or less."""
    width = chance.choice([1, 2, 4, 4, 8, 8])
    at -= at % width
    old = int.from_bytes(data[at : at + width], "little")
    new = chance.choice([*EDGES, old + 1, old - 1, old + 8, old * 2, old * 1000, chance.randrange(len(data))])
    part = (new % 256**width).to_bytes(width, "little")[: len(data) - at]
    data[at : at + width] = part
    return at, at + len(part)


def _run(data: bytearray, at: int, chance: random.Random) -> Range:
    length = min(chance.choice([2, 4, 8, 16, 64, 256]), len(data) - at)
    data[at : at + length] = chance.choice([bytes(length), b"\xff" * length, chance.randbytes(length)])
    return at, at + length


def _copy(data: bytearray, at: int, chance: random.Random) -> Range:
    """A part of the file over another part: addresses that lead to the wrong place, cycles."""
    length = min(chance.choice([8, 8, 8, 16, 24, 40, 128]), len(data) - at)
    source = chance.randrange(max(1, len(data) - length))
    source -= source % 8
    at -= at % 8
    part = data[source : source + min(length, len(data) - at)]
    data[at : at + len(part)] = part
    return at, at + len(part)


def _cut(data: bytearray, at: int, _chance: random.Random) -> None:
    del data[at:]


def _insert(data: bytearray, at: int, chance: random.Random) -> None:
    data[at:at] = chance.choice([bytes, chance.randbytes])(chance.choice([1, 8, 16, 512]))


def _delete(data: bytearray, at: int, chance: random.Random) -> None:
    del data[at : at + chance.choice([1, 8, 16, 512])]


_Way = Callable[[bytearray, int, random.Random], Range | None]
_WAYS: tuple[_Way, ...] = (_flip, _byte, _number, _run, _copy, _cut, _insert, _delete)
_WEIGHTS = (20, 14, 30, 10, 14, 2, 2, 2)
