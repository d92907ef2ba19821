"""A good file, as the campaign keeps it, and the family it belongs to. `seeds` makes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Seed:
    """A good file, and where in it things are: structure, rows, rows that a checksum covers."""

    name: str
    data: bytes
    structure: tuple[tuple[int, int], ...]
    rows: tuple[tuple[int, int], ...]
    covered: tuple[tuple[int, int], ...]
    summed: tuple[tuple[int, int], ...]  # those of the covered that only fletcher32 covers, which is easily misled


FAMILIES = {"made": 5, "kit": 3, "foreign": 3, "sparse": 2, "elements": 2, "layouts": 6, "h5col": 2}
"""Families of seeds, and the share of each among the files."""


def family_of(name: str) -> str:
    return next((family for family in FAMILIES if name.startswith(f"{family}-")), "made")
