"""Boxes: the requested part of an array, one range per dimension. `s[2:10, 3]`, `s.cells((slice(5), ...))`."""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import SupportsIndex

import numpy as np

from colonnade.arrays import Booleans
from colonnade.dataclass import dataclass
from colonnade.errors import UsageError
from colonnade.sparse.selections import Coordinates

AxisKey = slice | SupportsIndex | EllipsisType
BoxKey = AxisKey | tuple[AxisKey, ...] | None


@dataclass(frozen=True, slots=True)
class ArrayBox:
    """One range per dimension; `dropped` lists the dimensions that were indexed by an integer."""

    ranges: tuple[range, ...]
    dropped: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(wanted) for wanted in self.ranges)

    @property
    def kept_shape(self) -> tuple[int, ...]:
        return tuple(size for axis, size in enumerate(self.shape) if axis not in self.dropped)

    @property
    def low(self) -> tuple[int, ...]:
        return tuple(wanted.start for wanted in self.ranges)

    @property
    def high(self) -> tuple[int, ...]:
        """The exclusive upper bound of each dimension."""
        return tuple(wanted[-1] + 1 if wanted else wanted.start for wanted in self.ranges)

    @property
    def is_plain(self) -> bool:
        """Whether all steps are 1."""
        return all(wanted.step == 1 for wanted in self.ranges)

    def holds(self, start: tuple[int, ...], stop: tuple[int, ...]) -> bool:
        """Whether the box contains all elements from `start` up to but not including `stop`."""
        ends = zip(self.ranges, start, stop, strict=True)
        return self.is_plain and all(wanted.start <= first and last <= wanted.stop for wanted, first, last in ends)

    def mask(self, coords: Coordinates) -> Booleans:
        """A mask of the coordinates that are in the box."""
        inside: Booleans = np.all((coords >= self.low) & (coords < self.high), axis=1)
        for axis, wanted in enumerate(self.ranges):
            if wanted.step != 1:
                inside &= (coords[:, axis] - wanted.start) % wanted.step == 0
        return inside

    def inner(self, coords: Coordinates) -> Coordinates:
        """The coordinates relative to the box, divided by its steps."""
        moved: Coordinates = coords - np.array(self.low, dtype=np.int64)
        return moved if self.is_plain else moved // np.array([wanted.step for wanted in self.ranges], dtype=np.int64)


def parse_box(key: BoxKey, shape: tuple[int, ...]) -> ArrayBox:
    """Parse a NumPy-like key of integers and slices. None selects everything, and so do omitted dimensions."""
    parts: list[object] = list(key) if isinstance(key, tuple) else [] if key is None else [key]
    if parts.count(Ellipsis) > 1:
        raise UsageError("a box can have only one '...'")
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    if len(parts) > len(shape):
        raise UsageError(f"a box of {len(parts)} dimensions was given for an array of {len(shape)}")
    parts += [slice(None)] * (len(shape) - len(parts))
    ranges = [_parse_part(part, size, axis) for axis, (part, size) in enumerate(zip(parts, shape, strict=True))]
    dropped = tuple(axis for axis, part in enumerate(parts) if not isinstance(part, slice))
    return ArrayBox(tuple(ranges), dropped)


def _parse_part(part: object, size: int, axis: int) -> range:
    if isinstance(part, slice):
        try:
            wanted = range(*part.indices(size))
        except (TypeError, ValueError) as error:
            raise UsageError(f"{part} is not a valid range for dimension {axis}: {error}") from error
        if wanted.step < 1:
            raise UsageError(f"the step of dimension {axis} is {wanted.step}: a box needs positive steps")
        return wanted
    try:
        if not isinstance(part, SupportsIndex):
            raise TypeError
        at = operator.index(part)
    except TypeError:
        raise UsageError(f"a box consists of integers and slices, not {type(part).__name__}") from None
    if not -size <= at < size or isinstance(part, (bool, np.bool_)):
        raise UsageError(f"{part} is not in dimension {axis}, which has {size} elements")
    return range(at % size, at % size + 1)
