"""Kernels of cells, by rows and as points: both forms agree, with each other and with what a plain loop finds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade import kernels
from tests.laws.both_forms import REFUSED, agree

Rows = list[list[int]]
MATRICES = st.lists(st.sets(st.integers(0, 40), max_size=12).map(sorted), max_size=12)
KINDS = st.sampled_from(["i4", "i8"])


def by_rows(rows: Rows, kind: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Columns, and where rows end."""
    ends = np.cumsum([0, *map(len, rows)]).astype("i8")
    return np.array([column for row in rows for column in row], kind), ends


def as_points(rows: Rows, column: int, item: int) -> bytes:
    points = [(number, one - column) for number, row in enumerate(rows) for one in row]
    return np.array(points, f"<u{item}").tobytes()


@given(MATRICES, KINDS, st.sampled_from([2, 4, 8]), st.integers(0, 2**31 - 50))
def test_rows_and_points(rows: Rows, kind: str, item: int, column: int) -> None:
    moved = [[one + column for one in row] for row in rows]
    minor, ends = by_rows(moved, kind)
    room = np.zeros(len(minor) * 2 * item + 1, "u1")
    agree("rows_to_points", minor, ends[:-1].copy(), ends[1:].copy(), column, 41, item, room[1:])
    room[1:] = 0
    kernels.rows_to_points(minor, ends[:-1], ends[1:], column, 41, item, room[1:])  # at an odd address
    assert room[1:].tobytes() == as_points(moved, column, item)
    found, columns = np.full(len(rows) + 1, -1, "i8"), np.full(len(minor), -1, kind)
    assert agree("points_to_rows", room[1:].copy(), item, 41, column, found, columns) is True
    assert found.tolist() == ends.tolist() and columns.tolist() == minor.tolist()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8), st.sampled_from([2, 4, 8]))
def test_points_that_do_not_increase_or_lie_outside(points: list[tuple[int, int]], item: int) -> None:
    data = np.array(points, f"<u{item}").reshape(-1, 2).tobytes()
    fine = points == sorted(set(points)) and all(row < 4 and column < 5 for row, column in points)
    ends, minor = np.zeros(5, "i8"), np.zeros(len(points), "i4")
    assert agree("points_to_rows", data, item, 5, 0, ends, minor) is fine


@given(MATRICES, st.data())
def test_rows_that_do_not_increase_or_lie_outside(rows: Rows, data: st.DataObject) -> None:
    minor, ends = by_rows(rows, data.draw(KINDS))
    column, width = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 41))
    mixed = data.draw(st.permutations(minor.tolist()))
    minor = np.array(mixed, minor.dtype)
    own = [minor[start:stop].tolist() for start, stop in pairwise(ends)]
    fine = all(row == sorted(set(row)) and all(column <= one < column + width for one in row) for row in own)
    out = np.zeros(4 * len(minor), "u1")
    answer = agree("rows_to_points", minor, ends[:-1].copy(), ends[1:].copy(), column, width, 2, out)
    assert (answer != REFUSED) is fine


@given(MATRICES, KINDS, st.integers(1, 60), st.integers(1, 12))
def test_cut_rows(rows: Rows, kind: str, width: int, n_chunks: int) -> None:
    minor, ends = by_rows(rows, kind)
    cuts = np.full((len(rows), n_chunks + 1), -1, "i8")
    agree("cut_rows", minor, ends, width, n_chunks, cuts)
    for row, places, start in zip(rows, cuts.tolist(), ends.tolist(), strict=False):
        chunks = [min(column // width, n_chunks - 1) for column in row]
        assert places == [start + sum(one < chunk for one in chunks) for chunk in range(n_chunks + 1)]


def lone_cells(rows: Rows) -> list[int]:
    """Of each row: cells with none before and none above."""
    found = []
    for number, row in enumerate(rows):
        above = rows[number - 1] if number else []
        found.append(sum(one - 1 not in row and one not in above for one in row))
    return found


@given(MATRICES, KINDS)
def test_least_blocks(rows: Rows, kind: str) -> None:
    minor, ends = by_rows(rows, kind)
    answer = agree("least_blocks", minor, ends[:-1].copy(), ends[1:].copy())
    filled = [row for row in rows if row]
    total = 0
    for one in lone_cells(rows):
        if 2 * total >= len(minor):
            break
        total += one
    if answer:
        assert answer == total and filled[0] != filled[1]
    first, last = np.zeros((2, len(minor)), "i8")
    places = np.array([number * 41 + one for number, row in enumerate(rows) for one in row], "i8")
    assert answer <= kernels.grow_blocks(places, 41, first, last)


def test_least_blocks_of_more_rows_than_there_are_labels() -> None:
    """The C form labels rows with a byte: what is above is still known where labels begin anew."""
    rng = np.random.default_rng(5)
    rows = [np.flatnonzero(rng.random(30) < 0.4).tolist() for _ in range(1200)]
    for here in (rows, rows + rows[::-1]):
        minor, ends = by_rows(here, "i4")
        assert agree("least_blocks", minor, ends[:-1].copy(), ends[1:].copy()) == sum(lone_cells(here))


def test_columns_that_share_their_lowest_bits_count_as_above() -> None:
    rows = [[5, 9], [5 + (1 << 16), 20], [30, 40]]
    minor, ends = by_rows(rows, "i8")
    assert agree("least_blocks", minor, ends[:-1].copy(), ends[1:].copy()) == 3  # then half of six are counted


@given(st.binary(max_size=40), st.integers(1, 9), st.data())
def test_copy_runs(source: bytes, size: int, data: st.DataObject) -> None:
    there, room = len(source) // size, data.draw(st.integers(0, 12))
    runs = data.draw(st.lists(st.tuples(*[st.integers(-1, 9)] * 3), max_size=5))
    out = bytearray(room * size)
    fine = all(min(one) >= 0 and one[0] + one[2] <= there and one[1] + one[2] <= room for one in runs)
    for start, place, length in runs if fine else []:
        out[place * size : (place + length) * size] = source[start * size : (start + length) * size]
    starts, places, lengths = np.array(runs, "i8").reshape(-1, 3).T.copy()
    made = np.zeros(room * size, "u1")
    answer = agree("copy_runs", source, starts, places, lengths, size, made)
    assert (answer != REFUSED) is fine
    assert not fine or made.tobytes() == bytes(out)


@given(st.binary(max_size=400), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=20))
def test_lookup3_each(source: bytes, pieces: list[tuple[int, int]]) -> None:
    within = [(min(a, len(source)), min(max(a, b), len(source))) for a, b in pieces]
    starts, stops = np.array(within, "i8").reshape(-1, 2).T.copy()
    sums = np.zeros(len(within), "u4")
    agree("lookup3_each", source, starts, stops, sums)
    assert sums.tolist() == [kernels.lookup3(source[start:stop]) for start, stop in within]


@pytest.mark.parametrize("least", range(40))
def test_sums_side_by_side(least: int) -> None:
    """Eight at a time, as far as the shortest goes; how it ends depends on its length."""
    source = np.random.default_rng(least).bytes(120)
    starts = np.arange(19, dtype="i8")
    stops = starts + least + np.arange(19) % 3
    sums = np.zeros(19, "u4")
    agree("lookup3_each", source, starts, stops, sums)
    assert sums.tolist() == [kernels.lookup3(source[a:b]) for a, b in zip(starts, stops, strict=True)]


i8 = np.zeros(3, "i8")
none = np.zeros(0, "i8")
i4 = np.arange(4, dtype="i4")
far = np.array([0, 4], "i8")
MALFORMED = {
    "columns of another type": ("rows_to_points", i4.astype("u4"), i8, i8, 0, 9, 2, b""),
    "items of 3 bytes": ("rows_to_points", i4, i8, i8, 0, 9, 3, np.zeros(0, "u1")),
    "no columns": ("rows_to_points", i4, i8, i8, 0, 0, 2, np.zeros(0, "u1")),
    "columns too far": ("rows_to_points", i4, i8, i8, 2**62, 2**62, 2, np.zeros(0, "u1")),
    "stops too few": ("rows_to_points", i4, i8, i8[:2], 0, 9, 2, np.zeros(0, "u1")),
    "row outside": ("rows_to_points", i4, far[:1], far[1:] + 1, 0, 9, 2, np.zeros(20, "u1")),
    "row back": ("rows_to_points", i4, far[1:], far[:1], 0, 9, 2, np.zeros(0, "u1")),
    "points too many": ("rows_to_points", i4, far[:1], far[1:], 0, 9, 2, np.zeros(20, "u1")),
    "points too few": ("rows_to_points", i4, far[:1], far[1:], 0, 9, 2, np.zeros(12, "u1")),
    "half a point": ("rows_to_points", i4, far[:1], far[1:], 0, 9, 2, np.zeros(18, "u1")),
    "a column beyond the items": ("rows_to_points", i4 + 2**16, far[:1], far[1:], 0, 2**17, 2, np.zeros(16, "u1")),
    "the least column": ("rows_to_points", np.full(3, -(2**63)), i8[:1], i8[:1] + 3, 5, 9, 2, np.zeros(12, "u1")),
    "points cut": ("points_to_rows", bytes(15), 2, 9, 0, np.zeros(5, "i8"), np.zeros(4, "i4")),
    "minor of another type": ("points_to_rows", bytes(16), 2, 9, 0, np.zeros(5, "i8"), np.zeros(4, "i2")),
    "no ends": ("points_to_rows", bytes(16), 2, 9, 0, none.copy(), np.zeros(4, "i4")),
    "column beyond int32": ("points_to_rows", bytes(16), 2, 9, 2**31 - 8, np.zeros(5, "i8"), np.zeros(4, "i4")),
    "points of 5 bytes": ("points_to_rows", bytes(40), 5, 9, 0, np.zeros(5, "i8"), np.zeros(4, "i4")),
    "cuts too few": ("cut_rows", i4, far, 2, 3, np.zeros(3, "i8")),
    "chunks without columns": ("cut_rows", i4, far, 0, 3, np.zeros(4, "i8")),
    "no chunks": ("cut_rows", i4, far, 2, 0, np.zeros(1, "i8")),
    "ends outside": ("cut_rows", i4, far + 1, 2, 3, np.zeros(4, "i8")),
    "no rows": ("cut_rows", i4, none, 2, 3, none.copy()),
    "least of rows outside": ("least_blocks", i4, far[:1], far[1:] + 1),
    "least of rows back": ("least_blocks", i4, far[1:], far[:1]),
    "runs of nothing": ("copy_runs", bytes(9), i8, i8, i8, 0, np.zeros(9, "u1")),
    "runs too few": ("copy_runs", bytes(9), i8, i8, i8[:2], 1, np.zeros(9, "u1")),
    "a run beyond the source": ("copy_runs", bytes(9), far[:1] + 6, far[:1], far[1:], 1, np.zeros(9, "u1")),
    "a run beyond the room": ("copy_runs", bytes(9), far[:1], far[:1] + 6, far[1:], 1, np.zeros(9, "u1")),
    "sums too few": ("lookup3_each", bytes(9), i8, i8, np.zeros(2, "u4")),
    "sums outside": ("lookup3_each", bytes(9), i8, i8 + 10, np.zeros(3, "u4")),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_input_is_refused(name: str) -> None:
    kernel, *arguments = MALFORMED[name]
    assert agree(kernel, *arguments) == REFUSED  # type: ignore[arg-type]


def test_a_far_column_fits() -> None:
    minor = np.array([2**62 + 5], "i8")
    out = np.zeros(16, "u1")
    agree("rows_to_points", minor, np.zeros(1, "i8"), np.ones(1, "i8"), 2**62, 9, 8, out)
    assert out.view("<u8").tolist() == [0, 5]
