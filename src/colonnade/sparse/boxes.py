"""Boxes: what of an array is asked for, one range a dimension. `s[2:10, 3]`, `s.cells((slice(5), ...))`."""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import Any, SupportsIndex

import numpy as np

from colonnade.dataclass import dataclass
from colonnade.errors import UsageError

Part = slice | SupportsIndex | EllipsisType
Key = Part | tuple[Part, ...] | None
Coordinates = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Box:
    """A range of each dimension; `dropped` are those that a single number was given for."""

    ranges: tuple[range, ...]
    dropped: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(one) for one in self.ranges)

    @property
    def kept_shape(self) -> tuple[int, ...]:
        return tuple(size for axis, size in enumerate(self.shape) if axis not in self.dropped)

    @property
    def low(self) -> tuple[int, ...]:
        return tuple(one.start for one in self.ranges)

    @property
    def high(self) -> tuple[int, ...]:
        """Behind the last that is asked for."""
        return tuple(one[-1] + 1 if one else one.start for one in self.ranges)

    @property
    def is_plain(self) -> bool:
        """Whether nothing is left out between the first and the last."""
        return all(one.step == 1 for one in self.ranges)

    def holds(self, start: tuple[int, ...], stop: tuple[int, ...]) -> bool:
        """Whether all elements from `start` to below `stop` are asked for."""
        ends = zip(self.ranges, start, stop, strict=True)
        return self.is_plain and all(one.start <= first and last <= one.stop for one, first, last in ends)

    def mask(self, coords: Coordinates) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of these coordinates are asked for."""
        inside: np.ndarray[Any, np.dtype[np.bool_]] = np.all((coords >= self.low) & (coords < self.high), axis=1)
        for axis, one in enumerate(self.ranges):
            if one.step != 1:
                inside &= (coords[:, axis] - one.start) % one.step == 0
        return inside

    def inner(self, coords: Coordinates) -> Coordinates:
        """The same elements counted from the box's first."""
        moved: Coordinates = coords - np.array(self.low, dtype=np.int64)
        return moved if self.is_plain else moved // np.array([one.step for one in self.ranges], dtype=np.int64)


def parse_box(key: Key, shape: tuple[int, ...]) -> Box:
    """A NumPy-like key of numbers and slices; None is everything. Dimensions not named are whole."""
    parts: list[Any] = list(key) if isinstance(key, tuple) else [] if key is None else [key]
    if parts.count(Ellipsis) > 1:
        raise UsageError("a box can have one '...'")
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    if len(parts) > len(shape):
        raise UsageError(f"a box of {len(parts)} dimensions was given for an array of {len(shape)}")
    parts += [slice(None)] * (len(shape) - len(parts))
    found = [_parse_part(part, size, axis) for axis, (part, size) in enumerate(zip(parts, shape, strict=True))]
    dropped = tuple(axis for axis, part in enumerate(parts) if not isinstance(part, slice))
    return Box(tuple(found), dropped)


def _parse_part(part: Any, size: int, axis: int) -> range:
    if isinstance(part, slice):
        try:
            found = range(*part.indices(size))
        except (TypeError, ValueError) as error:
            raise UsageError(f"{part} is no range of dimension {axis}: {error}") from error
        if found.step < 1:
            raise UsageError(f"a box goes forward: the step of dimension {axis} is {found.step}")
        return found
    try:
        at = operator.index(part)
    except TypeError:
        raise UsageError(f"a box is made of whole numbers and slices, not {type(part).__name__}") from None
    if not -size <= at < size or isinstance(part, (bool, np.bool_)):
        raise UsageError(f"{part} is not in dimension {axis}, which has {size} elements")
    return range(at % size, at % size + 1)
