"""Expressions are computed as whole columns in memory are, whatever the types, the chunks and the way they are asked.

The truth is plain Python on one row after another: integers and fractions without bounds, `math` for floats, datetime.
Where a row cannot be computed, the first such row is named.
"""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade import limits
from colonnade.errors import DataError

EXAMPLES = max(10, settings().max_examples // 10)
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
LEAST, MOST = -(2**63), 2**63 - 1
EPOCH = dt.datetime(1970, 1, 1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receipts go into a folder of the test."""
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path_factory.mktemp("cache")))


class CannotComputeError(Exception):
    """A row that cannot be computed."""


# -- a number, as Arrow has it: its value, and the type it is computed in --


@dataclass(frozen=True)
class Number:
    """A cell of an operand: None where it is missing. kind: "i" int64, "u" uint64, "f" float64, "g" float32."""

    cell: Any
    kind: str


def fitting(value: int, kind: str) -> int:
    low, high = (0, 2**64 - 1) if kind == "u" else (LEAST, MOST)
    if not low <= value <= high:
        raise CannotComputeError
    return value


def as_float(number: Number) -> Number:
    if number.kind in "fg":
        return number
    return Number(None if number.cell is None else float(number.cell), "f")


def together(left: Number, right: Number) -> tuple[Number, Number, str]:
    """Two operands of one type, and that type."""
    if left.kind in "fg" or right.kind in "fg":
        left, right = as_float(left), as_float(right)
        return left, right, "g" if left.kind == right.kind == "g" else "f"
    if left.kind == right.kind:
        return left, right, left.kind
    for number in (left, right):  # int64 and uint64
        if number.cell is not None:
            fitting(number.cell, "i")
    return left, right, "i"


def combined(sign: str, left: Number, right: Number) -> Number:
    """What an operator computes of one row."""
    if sign == "/":
        left, right = as_float(left), as_float(right)
    left, right, kind = together(left, right)
    if left.cell is None or right.cell is None:
        return Number(None, kind)
    if kind in "iu":
        return Number(fitting(of_integers(sign, left.cell, right.cell), kind), kind)
    dtype = np.float32 if kind == "g" else np.float64
    x, y = dtype(left.cell), dtype(right.cell)
    with np.errstate(all="ignore"):
        found = {
            "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.remainder,
        }[sign](x, y)  # fmt: skip
    return Number(float(found), kind)


def of_integers(sign: str, x: int, y: int) -> int:
    if sign in ("//", "%") and y == 0:
        raise CannotComputeError
    return {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "//": lambda: x // y, "%": lambda: x % y}[
        sign
    ]()


def applied(function: str, number: Number) -> Number:
    """What a function computes of one row."""
    cell, kind = number.cell, number.kind
    if function in ("neg", "abs"):
        if function == "neg" and kind == "u":
            if cell is not None:
                fitting(cell, "i")
            kind = "i"
        found = None if cell is None else -cell if function == "neg" else abs(cell)
        return Number(fitting(found, kind) if found is not None and kind in "iu" else found, kind)
    if cell is None or kind in "iu" or not math.isfinite(cell):
        return number
    if function == "round":
        return Number(math.copysign(float(round(cell)), cell), kind)
    return Number(math.copysign(float(getattr(math, function)(cell)), cell), kind)


# -- tables and expressions --


FLOATS = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 0.5, 1.5, -2.5, 1e300]), st.floats(-1e6, 1e6)
)


def cells_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_integer(kind):
        low = -(2 ** (kind.bit_width - 1)) if pa.types.is_signed_integer(kind) else 0
        high = low + 2**kind.bit_width - 1
        return st.one_of(st.integers(max(low, -3), 3), st.integers(low, high), st.sampled_from([low, high]))
    return (
        FLOATS.map(lambda x: float(np.float32(x)) if abs(x) < 1e38 or not math.isfinite(x) else 1.0)
        if (kind == pa.float32())
        else FLOATS
    )


@st.composite
def number_tables(draw: st.DrawFn) -> pa.Table:
    n_rows = draw(st.sampled_from([0, 1, 8, 16]))
    columns = {}
    for name in ("a", "b", "in c"):
        kind = draw(st.sampled_from([*INTEGERS, pa.int64(), pa.float32(), pa.float64(), pa.float64()]))
        columns[name] = pa.array(
            draw(st.lists(st.one_of(cells_of(kind), cells_of(kind), st.none()), min_size=n_rows, max_size=n_rows)), kind
        )
    return pa.table(columns)


Tree = tuple[Any, ...]


def trees(depth: int = 3) -> st.SearchStrategy[Tree]:
    """Expressions as tuples: ("column", name), ("literal", value), or a sign or function and its operands."""
    column = st.tuples(st.just("column"), st.sampled_from(["a", "b", "in c"]))
    if depth == 0:
        return column
    literal = st.tuples(st.just("literal"), st.sampled_from([0, 1, -1, 2, 3, 7, 0.5, -2.0, 10]))
    inner = trees(depth - 1)
    signs = st.sampled_from(["+", "-", "*", "/", "//", "%"])
    binary = st.one_of(st.tuples(signs, inner, st.one_of(inner, literal)), st.tuples(signs, literal, inner))
    return st.one_of(
        column, binary, binary, st.tuples(st.sampled_from(["neg", "abs", "floor", "ceil", "round"]), inner)
    )


def made(tree: Tree) -> cn.Expression:
    """The expression in Python form."""
    head, *rest = tree
    if head == "column":
        return cn.col(rest[0])
    if head == "neg":
        return -made(rest[0])
    if head in ("abs", "floor", "ceil", "round"):
        found: cn.Expression = getattr(made(rest[0]), head)()
        return found
    left, right = (part[1] if part[0] == "literal" else made(part) for part in rest)
    result: cn.Expression = {
        "+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right, "/": lambda: left / right,
        "//": lambda: left // right, "%": lambda: left % right,
    }[head]()  # fmt: skip
    return result


def text_of(tree: Tree) -> str:
    """The expression in text, with all parentheses."""
    head, *rest = tree
    if head == "column":
        return f"`{rest[0]}`"
    if head == "literal":
        return f"({rest[0]})"
    if head == "neg":
        return f"(-{text_of(rest[0])})"
    if head in ("abs", "floor", "ceil", "round"):
        return f"{head}({text_of(rest[0])})"
    return f"({text_of(rest[0])} {head} {text_of(rest[1])})"


def kind_of(kind: pa.DataType) -> str:
    if pa.types.is_floating(kind):
        return "g" if kind == pa.float32() else "f"
    return "u" if kind == pa.uint64() else "i"


def value_of(tree: Tree, row: dict[str, Number]) -> Number:
    """What the expression is of one row."""
    head, *rest = tree
    if head == "column":
        return row[rest[0]]
    if head in ("neg", "abs", "floor", "ceil", "round"):
        return applied(head, value_of(rest[0], row))
    if "literal" not in (rest[0][0], rest[1][0]):
        return combined(head, value_of(rest[0], row), value_of(rest[1], row))
    at = 0 if rest[0][0] == "literal" else 1
    other, literal = value_of(rest[1 - at], row), rest[at][1]
    if isinstance(literal, float):
        number = Number(literal, "f")
    elif other.kind in "fg":
        number = Number(float(literal), other.kind)
    else:
        number = Number(literal, "u" if other.kind == "u" and literal >= 0 else "i")
    return combined(head, number, other) if at == 0 else combined(head, other, number)


def truth(tree: Tree, table: pa.Table) -> tuple[list[Any], int | None]:
    """The cells of the expression, or the first row that cannot be computed."""
    kinds = {name: kind_of(table.schema.field(name).type) for name in table.column_names}
    cells: list[Any] = []
    for number, row in enumerate(table.to_pylist()):
        try:
            cells.append(value_of(tree, {name: Number(row[name], kinds[name]) for name in row}).cell)
        except CannotComputeError:
            return cells, number
    return cells, None


@contextmanager
def written(table: pa.Table, chunk_rows: int) -> Iterator[cn.Table]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.h5"
        columns = {name: cn.column(chunk_rows=chunk_rows) for name in table.column_names}
        with cn.open(path, "w", durability="fast") as file:
            yield file.create("t", table, columns=columns)


def is_nan(cell: Any) -> bool:
    return isinstance(cell, float) and math.isnan(cell)


def same_cells(left: list[Any], right: list[Any]) -> bool:
    return len(left) == len(right) and all(
        x == y or (is_nan(x) and is_nan(y)) for x, y in zip(left, right, strict=True)
    )


@settings(max_examples=EXAMPLES)
@given(number_tables(), st.lists(trees(), min_size=10, max_size=10), st.sampled_from([1, 3, 64]), st.booleans())
def test_arithmetic_is_that_of_each_row(table: pa.Table, several: list[Tree], chunk_rows: int, small: bool) -> None:
    """Selected, in text and in Python form; added as a column; and tested: compared with a value and a column."""
    with written(table, chunk_rows) as stored, limits.override(**({"piece_bytes": 16} if small else {})):
        for number, tree in enumerate(several):
            check_values(stored, table, tree, f"v{number}")


def check_values(stored: cn.Table, table: pa.Table, tree: Tree, new: str) -> None:
    """Everything that reads an expression finds what Python computes of each row."""
    cells, bad = truth(tree, table)
    note(f"{made(tree)}")
    assert cn.expr(text_of(tree)).term == made(tree).term == cn.expr(str(made(tree))).term
    for asked in (made(tree), text_of(tree)):
        if bad is not None:
            with pytest.raises(DataError) as caught:
                stored.select(v=asked).to_arrow()
            assert caught.value.row is not None
            kinds = {name: kind_of(table.schema.field(name).type) for name in table.column_names}
            row = table.slice(caught.value.row, 1).to_pylist()[0]
            with pytest.raises(CannotComputeError):
                value_of(tree, {name: Number(row[name], kinds[name]) for name in row})
            continue
        found = stored.select(v=asked).to_arrow()["v"].to_pylist()
        assert same_cells(found, cells), f"{asked}: {found} is not {cells}"
    if bad is not None:
        return
    if suits_duckdb(tree, table):
        peers = duckdb_cells(tree, table)
        assert same_cells(stored.select(v=made(tree)).to_arrow()["v"].to_pylist(), peers)
    known = [cell for cell in cells if cell is not None and not is_nan(cell)]
    for bound in [*known[:1], 0]:
        above = [row for row, cell in enumerate(cells) if cell is not None and cell > bound]
        others = [row for row, cell in enumerate(cells) if cell is not None and not cell > bound]
        assert stored.where(made(tree) > bound).row_numbers().tolist() == above
        assert stored.where(~(made(tree) > bound)).row_numbers().tolist() == others
    top = stored.aggregate(top=(made(tree), "max"))["top"]
    assert same_cells([top], [max(known) if known else math.nan if any(c is not None for c in cells) else None])
    if new == "v0":
        stored.add_column(new, made(tree))
        assert same_cells(stored[new].to_arrow().to_pylist(), cells)
        equal = [row for row, cell in enumerate(cells) if cell is not None and not is_nan(cell)]
        assert stored.where(made(tree) == cn.col(new)).row_numbers().tolist() == equal


def test_duckdb_computes_the_same() -> None:
    """As a second oracle, asked in the law above where its arithmetic is meant to be the same."""
    table = pa.table(
        {"a": [7, -7, None, 3], "b": [2.0, -2.5, math.inf, math.nan], "in c": pa.array([1, 2, 3, 4], pa.uint8())}
    )
    tree = ("+", ("*", ("column", "a"), ("column", "b")), ("abs", ("/", ("column", "a"), ("column", "in c"))))
    assert suits_duckdb(tree, table)
    with written(table, 3) as stored:
        for asked in (tree, ("neg", ("-", ("column", "a"), ("literal", 3))), ("floor", ("column", "b"))):
            assert same_cells(stored.select(v=made(asked)).to_arrow()["v"].to_pylist(), duckdb_cells(asked, table))


def suits_duckdb(tree: Tree, table: pa.Table) -> bool:
    """DuckDB divides and rounds integers in other ways, and has no rule for float32 and integers that is ours."""
    kinds = {name: table.schema.field(name).type for name in columns_of(tree)}
    if any(kind in (pa.uint64(), pa.float32()) for kind in kinds.values()):
        return False
    has_integers = any(map(pa.types.is_integer, kinds.values()))
    return not signs_of(tree) & {"//", "%", "round", *(["floor", "ceil"] if has_integers else [])}


def columns_of(tree: Tree) -> set[str]:
    return {tree[1]} if tree[0] == "column" else set().union(*map(columns_of, operands_of(tree)))


def signs_of(tree: Tree) -> set[str]:
    return {tree[0]}.union(*map(signs_of, operands_of(tree)))


def operands_of(tree: Tree) -> list[Tree]:
    return [] if tree[0] in ("column", "literal") else list(tree[1:])


def sql_of(tree: Tree, table: pa.Table) -> str:
    """The expression in SQL: integers of 64 bits, and floats of 64, also where one is next to an integer."""
    head, *rest = tree
    if head == "column":
        return f'"{rest[0]}"::{"double" if pa.types.is_floating(table.schema.field(rest[0]).type) else "bigint"}'
    if head == "literal":
        return f"({rest[0]})::{'double' if isinstance(rest[0], float) else 'bigint'}"
    parts = [sql_of(part, table) for part in rest]
    if len(parts) == 1:
        return f"(-({parts[0]}))" if head == "neg" else f"{head}({parts[0]})"
    if head == "/":
        parts = [f"({part})::double" for part in parts]
    return f"({parts[0]} {head} {parts[1]})"


def duckdb_cells(tree: Tree, table: pa.Table) -> list[Any]:
    numbered = table.append_column("row number", pa.array(range(len(table)), pa.int64()))
    found = DUCKDB.execute(f'select {sql_of(tree, numbered)} from numbered order by "row number"').fetchall()
    return [cell for (cell,) in found]


DUCKDB = duckdb.connect()


@settings(max_examples=EXAMPLES)
@given(number_tables())
def test_columns_are_compared_with_columns(table: pa.Table) -> None:
    """Integers exactly, whatever their widths; with a float, as float64."""
    with written(table, 3) as stored:
        for sign in ("==", "!=", "<", "<=", ">", ">="):
            for negated in (False, True):
                check_comparison(stored, table, sign, negated)


def check_comparison(stored: cn.Table, table: pa.Table, sign: str, negated: bool) -> None:
    text = f"{'not ' * negated}a {sign} b"
    kinds = [table.schema.field(name).type for name in ("a", "b")]
    is_float = any(pa.types.is_floating(kind) for kind in kinds)
    expected = []
    for row, (x, y) in enumerate(zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True)):
        if x is None or y is None:
            continue
        x, y = (float(x), float(y)) if is_float else (x, y)
        found = {"==": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[sign]
        if found != negated:
            expected.append(row)
    assert stored.where(text).row_numbers().tolist() == expected
    assert stored.where(text).count() == len(expected)


MOMENTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))
PARTS = {
    "year": lambda t: t.year, "month": lambda t: t.month, "day": lambda t: t.day, "hour": lambda t: t.hour,
    "minute": lambda t: t.minute, "second": lambda t: t.second, "weekday": lambda t: t.weekday(),
}  # fmt: skip


@settings(max_examples=EXAMPLES)
@given(st.lists(st.one_of(MOMENTS, st.none()), max_size=8), st.sampled_from(["s", "ms", "us", "ns"]), st.booleans())
def test_parts_of_dates_are_those_of_python(moments: list[dt.datetime | None], unit: str, zoned: bool) -> None:
    kind = pa.timestamp(unit, "UTC" if zoned else None)
    whole = [None if t is None else t.replace(microsecond=0) for t in moments]
    table = pa.table({"t": pa.array(whole, pa.timestamp("us")).cast(kind), "row": range(len(whole))})
    with written(table, 3) as stored:
        for name, part in PARTS.items():
            expected = [None if t is None else part(t) for t in whole]
            assert stored.select(v=f"{name}(t)").to_arrow()["v"].to_pylist() == expected
            rows = [row for row, cell in enumerate(expected) if cell is not None and 3 <= cell <= 2000]
            assert stored.where(f"{name}(t) between 3 and 2000").row_numbers().tolist() == rows
        later = stored.select(v="t + '90 s' - t").to_arrow()["v"].to_pylist()
        assert [None if v is None else v.total_seconds() for v in later] == [None if t is None else 90.0 for t in whole]
        since = stored.select(v="t - '2020-02-29'").to_arrow()["v"].to_pylist()
        assert since == [None if t is None else t - dt.datetime(2020, 2, 29) for t in whole]


TEXTS = st.text("aBé ß\0%", max_size=4)


@settings(max_examples=EXAMPLES)
@given(st.lists(st.one_of(TEXTS, st.none()), max_size=8), st.booleans(), TEXTS)
def test_functions_of_strings_are_those_of_python(strings: list[str | None], coded: bool, value: str) -> None:
    array = pa.array(strings, pa.string())
    with written(pa.table({"s": array.dictionary_encode() if coded else array}), 3) as stored:
        lengths = stored.select(v="length(s)").to_arrow()["v"].to_pylist()
        assert lengths == [None if s is None else len(s) for s in strings]
        lowered = stored.select(v="lower(s)").to_arrow()["v"].to_pylist()
        assert lowered == [None if s is None else s.lower() for s in strings]
        rows = [row for row, s in enumerate(strings) if s is not None and s.lower() == value.lower()]
        assert stored.where(cn.col("s").lower() == value.lower()).row_numbers().tolist() == rows
        matching = [row for row, s in enumerate(strings) if s is not None and ("a" in s or s.startswith("B"))]
        assert stored.where("s matches 'a|^B'").row_numbers().tolist() == matching
        assert stored.where("lower(s) matches '(?i)A'").count() == sum(
            s is not None and "a" in s.lower() for s in strings
        )
