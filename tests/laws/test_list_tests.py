"""Tests of the elements of lists equal a model of three-valued logic on Python lists, in all layouts with lists."""

from __future__ import annotations

import math
import operator
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import PredicateError
from colonnade.predicate.literals import value_text
from colonnade.predicate.parse import parse
from colonnade.predicate.tree import Predicate
from tests.rooms.nwb_files import add_data, add_index, make_table

Truth = bool | None
Model = Callable[[Any], Truth]
"""What a test says of one cell: a list, or an element; None is unknown."""
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], st.SearchStrategy[Any]]] = {
    "int16": (pa.int16(), st.integers(-3, 3), st.sampled_from([-3, 0, 1.5, 2, 40_000])),
    "uint64": (pa.uint64(), st.sampled_from([0, 1, 2**64 - 3]), st.sampled_from([-1, 0, 1, 2**64 - 3])),
    "float64": (pa.float64(), st.sampled_from([-0.0, 0.5, 2.0, math.inf, math.nan]), st.sampled_from([0, 0.5, 1e9])),
    "bool": (pa.bool_(), st.booleans(), st.booleans()),
    "string": (pa.string(), st.sampled_from(["", "a", "ab", "é"]), st.sampled_from(["", "a", "b"])),
}


def unknown_or(test: Callable[[Any], bool]) -> Model:
    return lambda cell: None if cell is None else bool(test(cell))


def any_of(truths: Sequence[Truth]) -> Truth:
    return True if True in truths else None if None in truths else False


def all_of(truths: Sequence[Truth]) -> Truth:
    return False if False in truths else None if None in truths else True


def negated(truth: Truth) -> Truth:
    return None if truth is None else not truth


@st.composite
def element_tests(draw: st.DrawFn, kind: str, depth: int) -> tuple[Predicate, Model]:
    """A predicate on column x, whose cells are lists of this depth (0: values), and what it means."""
    how = draw(st.sampled_from(["compare", "missing", "not", "and", "or"] + ["any", "all", "len", "contains"] * 2))
    if how in ("not", "and", "or"):
        left, left_model = draw(element_tests(kind, depth))
        if how == "not":
            return ~left, lambda cell: negated(left_model(cell))
        right, right_model = draw(element_tests(kind, depth))
        join = all_of if how == "and" else any_of
        joined = left & right if how == "and" else left | right
        return joined, lambda cell: join([left_model(cell), right_model(cell)])
    x = cn.col("x")
    if how == "missing":
        return x.is_missing(), lambda cell: cell is None
    if depth == 0:
        sign, value = draw(st.sampled_from(sorted(COMPARISONS))), draw(KINDS[kind][2])
        compare = COMPARISONS[sign]
        return parse(f"x {sign} {value_text(value)}"), unknown_or(lambda cell: compare(cell, value))
    if how == "len":
        most = draw(st.integers(0, 3))
        return x.len() > most, unknown_or(lambda cell: len(cell) > most)
    if how == "contains" and depth == 1:
        value = draw(KINDS[kind][2])
        equal = unknown_or(lambda element: element == value)
        return x.contains(value), lambda cell: None if cell is None else any_of([equal(element) for element in cell])
    inner, model = draw(element_tests(kind, depth - 1))
    join, test = (all_of, inner.all()) if how == "all" else (any_of, inner.any())
    return test, lambda cell: None if cell is None else join([model(element) for element in cell])


@st.composite
def list_columns(draw: st.DrawFn, nulls: bool = True) -> tuple[str, int, list[Any]]:
    kind, depth = draw(st.sampled_from(sorted(KINDS))), draw(st.integers(1, 2))
    cells: st.SearchStrategy[Any] = KINDS[kind][1]
    for level in range(depth + 1):
        if nulls and not (kind == "bool" and level == 0):  # H5Col's lists of booleans have no missing elements
            cells = st.none() | cells
        cells = st.lists(cells, max_size=4) if level < depth else cells
    return kind, depth, draw(st.lists(cells, max_size=9))


def rows_where(table: cn.Table | cn.Query, test: Predicate | str) -> list[int]:
    return table.where(test).row_numbers().tolist()


def check_test(table: cn.Table, cells: list[Any], test: Predicate, model: Model) -> None:
    wanted = [row for row, cell in enumerate(cells) if model(cell) is True]
    assert rows_where(table, test) == wanted
    assert rows_where(table, str(test)) == wanted
    assert rows_where(table, ~test) == [row for row, cell in enumerate(cells) if model(cell) is False]
    truth = table.select(y=test)
    assert truth.to_arrow()["y"].to_pylist() == [model(cell) for cell in cells]
    unknown = truth.where("y is missing")
    assert unknown.row_numbers().tolist() == [row for row, cell in enumerate(cells) if model(cell) is None]
    some = [row for row in range(len(cells)) if row % 2]
    assert table.take(some).where(test).count() == len(set(some) & set(wanted))


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_tests_of_elements_equal_the_model(data: st.DataObject) -> None:
    kind, depth, cells = data.draw(list_columns())
    test, model = data.draw(element_tests(kind, depth))
    stored = KINDS[kind][0]
    for _ in range(depth):
        stored = pa.list_(stored)
    chunk_rows = data.draw(st.sampled_from([1, 3, 64]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.h5"
        cn.write(path, {"x": pa.array(cells, stored)}, "t", layout="h5col", columns={"x": {"chunk_rows": chunk_rows}})
        with cn.open(path, library=data.draw(st.sampled_from(["auto", "never"]))) as file:
            check_test(file["t"], cells, test, model)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_layouts_with_lists_agree(data: st.DataObject) -> None:
    """Ragged columns of hdmf, sequences of variable length in HEP001, and rows of arrays, without missing elements."""
    kind, depth, cells = data.draw(list_columns(nulls=False).filter(lambda drawn: drawn[0] != "string"))
    test, model = data.draw(element_tests(kind, depth))
    layout = data.draw(st.sampled_from(["hdmf", "hep001", "array"]))
    stored = KINDS[kind][0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.h5"
        if layout == "hdmf":
            with h5py.File(path, "w") as file:
                group, name, values = make_table(file, "t", range(len(cells)), ["x"]), "x", cells
                ends = []
                for _ in range(depth):
                    ends.append(np.cumsum([len(row) for row in values], dtype=np.int64).tolist())
                    values = [item for row in values for item in row]
                add_data(group, "x", np.array(values, dtype=stored.to_pandas_dtype()))
                for level in reversed(ends):
                    name = add_index(group, name, level).name.rsplit("/", 1)[1]
        elif layout == "array":
            width = data.draw(st.integers(1, 3))
            test, model = data.draw(element_tests(kind, 1))
            flat = [element for cell in cells for element in cell if not isinstance(element, list)]
            cells = [flat[at : at + width] for at in range(0, len(flat) - width + 1, width)]
            cn.write(path, {"x": pa.array(cells, pa.list_(stored, width))}, "t")
        else:
            for _ in range(depth):
                stored = pa.list_(stored)
            cn.write(path, {"x": pa.array(cells, stored)}, "t")
        with cn.open(path) as file:
            check_test(file["t"], cells, test, model)


HITS = [[{"e": 1.0, "p": 2}], [], None, [{"e": math.nan, "p": 3}], [{"e": 9.0, "p": 1}, {"e": 2.0, "p": 4}]]


@pytest.fixture
def events(tmp_path: Path) -> cn.Table:
    data = {
        "id": pa.array([1, 2, 3, 4, 5]),
        "x": pa.array([[1, 5], None, [], [None, 2], [4, None]], pa.list_(pa.int16())),
        "w": pa.array([["a", "bb"], ["b"], None, [], ["a", None]]),
        "n": pa.array([[[1], [2, 5]], [], None, [None], [[]]], pa.list_(pa.list_(pa.int64()))),
        "when": pa.array([[0], [], None, [10**6], [None]], pa.list_(pa.timestamp("us"))),
        "hits": pa.array(HITS, pa.list_(pa.struct({"e": pa.float64(), "p": pa.int8()}))),
    }
    cn.write(tmp_path / "t.h5", data, "t", layout="h5col")
    return cn.open_table(tmp_path / "t.h5", "t")


@pytest.mark.parametrize(
    ("test", "rows"),
    [
        ("contains(w, 'b')", [1]),
        ("any(w contains 'b')", [0, 1]),
        ("any(w like 'b%' or w startswith 'a') and id > 1", [1, 4]),
        ("any(w is missing)", [4]),
        ("len(x) is missing", [1]),
        ("length(w) == 0", [3]),
        ("any(len(n) > 1)", [0]),
        ("any(any(n > 4))", [0]),
        ("all(all(n < 4))", [1, 4]),
        ("any(when >= '1970-01-01T00:00:01')", [3]),
        ("contains(when, '1970-01-01')", [0]),
        ("any(hits.e > 8 and hits.p == 1)", [4]),
        ("any(hits.e > 8 and hits.p == 4)", []),
        ("any(hits.e is nan)", [3]),
        ("any(hits['p'] * 2 > 7)", [4]),
        ("any(x + id > 5)", "several columns, x and id"),
        ("any(id > 3)", "column 'id' holds int64"),
        ("any(any(x > 3))", "column 'x' holds int16"),
        ("x > 3", "cannot be compared"),
        ("contains(n, 3)", "cannot be compared"),
        ("contains(x, 'a')", "cannot be compared with text"),
        ("contains(id, 3)", "cannot be compared with text"),
        ("any(3 > 2)", "expected a column"),
        ("any(zz > 3)", "no column 'zz'"),
        ("any(x > 3", "found a parenthesis without end"),
        ("contains(x, null)", "nothing equals a missing value"),
    ],
)
def test_forms_of_tests(events: cn.Table, test: str, rows: list[int] | str) -> None:
    if isinstance(rows, list):
        assert rows_where(events, test) == rows
        assert rows_where(events, str(parse(test))) == rows
        return
    with pytest.raises(cn.errors.ColonnadeError, match=rows.replace("(", r"\(")) as caught:
        events.where("id > 0 and " + test)
    assert isinstance(caught.value, PredicateError) and caught.value.position is not None


def test_computed_columns_stand_for_lists(events: cn.Table) -> None:
    assert events.select("id", y="x", n="len(x)").where("any(y > 3) and n == 2").row_numbers().tolist() == [0, 4]
    assert events.aggregate(most=("len(x)", "max"), sure=("x", "count")) == {"most": 2, "sure": 4}


def test_tests_of_elements_are_computed(events: cn.Table) -> None:
    """Where lists are missing, and inside other tests, in text and in Python."""
    for asked in ((cn.col("x") > 3).any(), "any(x > 3)"):
        query = events.select("id", y=asked)
        assert query.to_arrow()["y"].to_pylist() == [True, None, False, None, True]
        assert events.aggregate(n=(asked, "sum")) == {"n": 2} and rows_where(query, "y") == [0, 4]
    assert rows_where(events, "(any(x > 3)) is missing") == [1, 3]
    assert rows_where(events, "(x contains 4) == (any(x == 4))") == [0, 2, 4]
    assert events.select(y="x contains 3").to_arrow() == events.select(y="any(x == 3)").to_arrow()
    with pytest.raises(PredicateError, match="cannot be compared with a boolean") as caught:
        events.select(y="any(x)")
    assert caught.value.position == 4


def test_lengths_are_used_anywhere(events: cn.Table, tmp_path: Path) -> None:
    """Several times, with the lists themselves, and next to a column whose name is the text of the length."""
    assert (
        rows_where(events, "len(x) + len(x) > 2") == rows_where(events, "len(x) == len(x) and len(x) > 1") == [0, 3, 4]
    )
    assert rows_where(events, "len(x) + len(w) > 2 and len(x) * len(x) == 4") == [0, 4]
    cn.write(tmp_path / "l.h5", {"x": [[1, 2], []], "length(x)": [10, 20]}, "t", layout="h5col")
    with cn.open(tmp_path / "l.h5") as file:
        assert file["t"].select(y="len(x) + `length(x)`").to_arrow()["y"].to_pylist() == [12, 20]
    with pytest.raises(cn.errors.DataError, match=r"cannot compute 8 // length\(x\) of 8 and 0") as caught:
        events.where("8 // len(x) == 1").count()
    assert caught.value.row == 2


def test_elements_that_cannot_be_computed_are_reported_by_their_row(tmp_path: Path) -> None:
    lists = [[1], [], [1, 2, 3, 0], None, [4]]
    cn.write(
        tmp_path / "l.h5",
        {"x": lists, "n": [[cell] for cell in lists]},
        "t",
        layout="h5col",
        columns={"x": {"chunk_rows": 2}},
    )
    with cn.open(tmp_path / "l.h5") as file:
        for test in ("any(8 // x == 1)", "not all(8 // x == 1)", "any(any(8 // n == 1))"):
            with pytest.raises(cn.errors.DataError, match="of 8 and 0: division by zero") as caught:
                file["t"].where(test).count()
            assert caught.value.row == 2


def test_lengths_read_no_elements(tmp_path: Path) -> None:
    """A list whose elements cannot be read still has a length."""
    path = tmp_path / "t.h5"
    cn.write(path, {"x": pa.array([[1, 2], None, []])}, "t", layout="h5col", columns={"x": {"filters": "deflate"}})
    with h5py.File(path, "r+") as file:
        address = file["t/x/VALUES"].id.get_chunk_info(0).byte_offset
    data = bytearray(path.read_bytes())
    data[address : address + 8] = b"\xff" * 8
    path.write_bytes(data)
    with cn.open(path) as file:
        assert file["t"].where("len(x) < 2").row_numbers().tolist() == [2]
        with pytest.raises(cn.errors.CorruptError):
            file["t"].where("any(x > 0)").count()
        assert file["t"].where("any(x > 0)").explain().columns[0].column == "x"


def test_tests_are_nested_to_a_limit() -> None:
    test: Predicate = cn.col("x") > 3
    with pytest.raises(PredicateError, match="nested"):
        for _ in range(100):
            test = test.any()
    with pytest.raises(PredicateError, match="no more than 50"):
        parse("any(" * 60 + "x > 3" + ")" * 60)
