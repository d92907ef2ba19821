"""Which rows match a predicate, one row after another, in plain Python. Shares no code with colonnade.

A cell is None (missing), an exact number, NaN or an infinity, or bytes:

| column | cell |
| --- | --- |
| integers, decimals, floats | the number, exactly; -0.0 is 0 |
| booleans | 0 or 1 |
| dates and times | seconds since 1970; of a time of day or a duration, seconds |
| text | its UTF-8 bytes |

Logic is three-valued, as in SQL and Arrow: a test of a missing cell is unknown (None), except whether it is missing.
NaN is a value: it equals nothing and is neither below nor above anything, so `!=` is true of it. These are Python's own
rules for floats, and Python compares a Fraction with an infinity rightly.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import pyarrow as pa

Cell = Fraction | float | bytes | None
How = Literal["==", "!=", "<", "<=", ">", ">=", "between", "in", "missing", "nan", "startswith", "contains", "like"]
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Value:
    """A value of a predicate: as it is given to colonnade, and what it means."""

    given: Any
    means: Cell


@dataclass(frozen=True)
class Leaf:
    """A test of one column. Of `like`, the value means the pattern's bytes."""

    column: str
    how: How
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Joined:
    """Parts with `and` or `or` between."""

    how: Literal["and", "or"]
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Negated:
    """Not the part."""

    part: Node


Node = Leaf | Joined | Negated


# -- cells of a column --


def cells(array: pa.Array) -> list[Cell]:
    """The rows of an Arrow array."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        values = cells(array.dictionary)
        return [None if code is None else values[code] for code in array.indices.to_pylist()]
    if pa.types.is_temporal(kind):
        counts = array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
        return [None if count is None else count * seconds_in(kind) for count in counts]
    return [None if value is None else plain_cell(value) for value in array.to_pylist()]


def seconds_in(kind: pa.DataType) -> Fraction:
    """The seconds that a temporal type counts in."""
    if pa.types.is_date32(kind):
        return Fraction(86400)
    return Fraction(1, 1000 if pa.types.is_date64(kind) else PER_SECOND[kind.unit])


def plain_cell(value: Any) -> Cell:
    """A Python value that is no time, as a cell."""
    if isinstance(value, (str, bytes)):
        return value.encode() if isinstance(value, str) else value
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        return float(value)
    return Fraction(value)


# -- truth --


def matching(node: Node, columns: Mapping[str, Sequence[Cell]], n_rows: int) -> list[int]:
    """The rows for which the whole is true."""
    return [row for row in range(n_rows) if truth(node, {name: rows[row] for name, rows in columns.items()}) is True]


def truth(node: Node, row: Mapping[str, Cell]) -> bool | None:
    """True, false or unknown."""
    if isinstance(node, Negated):
        inner = truth(node.part, row)
        return None if inner is None else not inner
    if isinstance(node, Joined):
        found = [truth(part, row) for part in node.parts]
        decisive = node.how == "or"
        return decisive if decisive in found else None if None in found else not decisive
    return leaf_truth(node, row[node.column])


def leaf_truth(leaf: Leaf, cell: Cell) -> bool | None:
    """What one test says of one cell."""
    if leaf.how == "missing":
        return cell is None
    if cell is None:
        return None
    meant: list[Any] = [value.means for value in leaf.values]
    if leaf.how == "nan":
        return isinstance(cell, float) and math.isnan(cell)
    if leaf.how == "between":
        return bool(meant[0] <= cell <= meant[1])
    if leaf.how == "in":
        return any(cell == value for value in meant)
    if leaf.how in COMPARISONS:
        return COMPARISONS[leaf.how](cell, meant[0])
    assert isinstance(cell, bytes)
    if leaf.how == "like":
        return is_like(cell.decode(), pattern_parts(meant[0].decode()))
    return cell.startswith(meant[0]) if leaf.how == "startswith" else meant[0] in cell


def pattern_parts(pattern: str) -> list[str]:
    """A pattern as a list of "%", "_" and characters that stand for themselves, those with a backslash in front."""
    rest = iter(pattern)
    return ["\\" + next(rest) if char == "\\" else char if char in "%_" else "\\" + char for char in rest]


def is_like(text: str, parts: list[str]) -> bool:
    """Whether a text is like a pattern: the places of the text that each part of it can lead to."""
    places = {0}
    for part in parts:
        if part == "%":
            places = set(range(min(places), len(text) + 1)) if places else places
        else:
            places = {at + 1 for at in places if at < len(text) and part in ("_", "\\" + text[at])}
    return len(text) in places
