"""Sets of rows as ranges: every operation against sets of numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from colonnade.selection import Selection

rows = st.sets(st.integers(0, 60)) | st.sets(st.integers(0, 2000), min_size=300, max_size=900)


def selection(of: set[int]) -> Selection:
    return Selection.from_rows(np.array(sorted(of), dtype=np.int64))


def numbers(of: Selection) -> set[int]:
    found = of.rows().tolist()
    assert found == sorted(set(found)) and of.count == len(found)
    assert (of.starts < of.stops).all() and (of.starts[1:] > of.stops[:-1]).all()
    return set(found)


@given(rows, rows, st.integers(0, 70), st.integers(0, 70))
def test_sets(first: set[int], second: set[int], low: int, high: int) -> None:
    one, other = selection(first), selection(second)
    assert numbers(one) == first
    assert numbers(one & other) == first & second
    assert numbers(one | other) == first | second
    assert numbers(one - other) == first - second
    assert numbers(one.within(low, high)) == {row for row in first if low <= row < high}
    assert numbers(one.complement(low, high)) == set(range(low, high)) - first
    assert (one == other) == (first == second)


@given(rows, st.integers(1, 100) | st.sampled_from([64, 128, 1 << 20]), st.sampled_from([0, 1 << 40, (1 << 63) - 3000]))
def test_chunks_that_hold_rows(of: set[int], chunk_rows: int, base: int) -> None:
    moved = {base + row for row in of}
    chunks = {row // chunk_rows for row in moved}
    one = selection(moved)
    assert set(one.chunks(chunk_rows).tolist()) == chunks
    assert one.n_chunks(chunk_rows) == len(chunks)
    windows = list(one.windows(chunk_rows))
    assert windows == [(number * chunk_rows, (number + 1) * chunk_rows) for number in sorted(chunks)]


@given(rows, rows)
def test_selections_that_follow_each_other(first: set[int], second: set[int]) -> None:
    behind = {row + 2001 for row in second}
    assert numbers(Selection.joined([selection(first), Selection.none(), selection(behind)])) == first | behind


@given(st.lists(st.booleans(), max_size=300), st.integers(0, 1 << 40))
def test_masks(mask: list[bool], first: int) -> None:
    found = Selection.from_mask(np.array(mask, dtype=bool), first)
    assert numbers(found) == {first + place for place, truth in enumerate(mask) if truth}
