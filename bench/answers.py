"""Checks answers: compares them value by value with those computed from the workload, never with those of a peer.

Forms may differ (Arrow arrays of any string type, dictionaries, NumPy arrays), values may not. Only sums may differ, in
the last digits, because they depend on the order of addition. Searches may return rows in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose
from typing import Any

import numpy as np
import pyarrow as pa

TOLERANCE = 1e-9


@dataclass(frozen=True)
class InOrder:
    """Rows that must be in this order."""

    rows: pa.Table


def difference(answer: Any, expected: Any) -> str | None:
    """A description of what is wrong with an answer; None when it is correct."""
    if isinstance(expected, pa.ChunkedArray):
        return _of_columns(answer, expected)
    if isinstance(expected, pa.Table):
        return _of_rows(answer, expected)
    if isinstance(expected, InOrder):
        return _of_ordered_rows(answer, expected.rows)
    if isinstance(expected, dict):
        return _of_groups(answer, expected)
    if isinstance(expected, float):
        return None if _near(answer, expected) else f"{answer!r} instead of {expected!r}"
    return None if answer == expected else f"{answer!r} instead of {expected!r}"


def _near(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _of_groups(answer: Mapping[str, float], expected: Mapping[str, float]) -> str | None:
    if set(answer) != set(expected):
        return f"groups {sorted(answer)} instead of {sorted(expected)}"
    wrong = [name for name in expected if not _near(answer[name], expected[name])]
    return f"{wrong[0]}: {answer[wrong[0]]!r} instead of {expected[wrong[0]]!r}" if wrong else None


def _of_columns(answer: Any, expected: pa.ChunkedArray) -> str | None:
    if len(answer) != len(expected):
        return f"{len(answer):,} values instead of {len(expected):,}"
    found = as_column(answer, expected.type)
    if found.equals(expected):
        return None
    row = _first_difference(found, expected)
    return f"row {row:,}: {found[row].as_py()!r} instead of {expected[row].as_py()!r}"


def _first_difference(one: pa.ChunkedArray, other: pa.ChunkedArray) -> int:
    """The first row that differs, by bisection: the part before `low` is equal in both."""
    low, high = 0, len(other)
    while high - low > 1:
        middle = (low + high) // 2
        if one.slice(low, middle - low).equals(other.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low


def _of_rows(answer: Any, expected: pa.Table) -> str | None:
    names = answer.column_names if isinstance(answer, pa.Table) else list(answer)
    if names != expected.column_names:
        return f"columns {names} instead of {expected.column_names}"
    lengths = {len(answer[name]) for name in names}
    if lengths != {expected.num_rows}:
        return f"{sorted(lengths)} rows instead of {expected.num_rows:,}"
    found = pa.table({name: as_column(answer[name], expected.schema.field(name).type) for name in names})
    if found.equals(expected):
        return None
    order = [(name, "ascending") for name in names]
    found, sorted_expected = found.sort_by(order), expected.sort_by(order)
    wrong = [name for name in names if not found[name].equals(sorted_expected[name])]
    if not wrong:
        return None
    return f"column {wrong[0]}, rows in order: {_of_columns(found[wrong[0]], sorted_expected[wrong[0]])}"


def _of_ordered_rows(answer: Any, expected: pa.Table) -> str | None:
    for name in expected.column_names:
        wrong = _of_columns(answer[name], expected[name])
        if wrong:
            return f"column {name}: {wrong}"
    return None


def as_column(values: Any, kind: pa.DataType) -> pa.ChunkedArray:
    """Convert values of any form to an Arrow column of one type."""
    if isinstance(values, np.ndarray):
        values = pa.array(values.tolist() if values.dtype.kind in "UOT" else values)
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    if pa.types.is_dictionary(values.type):
        values = pa.chunked_array(
            [_with_words(chunk, kind) for chunk in values.chunks], pa.dictionary(pa.int32(), kind)
        )
    return values.cast(kind)


def _with_words(chunk: pa.DictionaryArray, kind: pa.DataType) -> pa.DictionaryArray:
    """Cast the words of a dictionary to this type: not all Arrow functions accept string views."""
    return pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int32()), chunk.dictionary.cast(kind))
