"""Expressions: how they are built, written and read; what they compute; and where they may be used."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade import limits
from colonnade.errors import ColumnNotFound, ConflictError, DataError, PredicateError, UsageError
from colonnade.predicate.expressions import MAX_EXPRESSION_LEVELS, CallTerm, ColumnTerm
from colonnade.predicate.operands import MAX_PREDICATE_DEPTH
from colonnade.predicate.parse import parse
from colonnade.predicate.tree import And, Compare, Comparison, IsIn, Matches

a, b, pos = cn.col("a"), cn.col("b"), cn.col("pos")


# -- text --


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (a + b * 2, "a + b * 2"),
        ((a + b) * 2, "(a + b) * 2"),
        (a - (b - 1), "a - (b - 1)"),
        (1 - a, "1 - a"),
        (a // 2 % 3 / b, "a // 2 % 3 / b"),
        (a**2**b, "a ** (2 ** b)"),
        ((a**2) ** b, "(a ** 2) ** b"),
        (-(a**2), "-a ** 2"),
        ((-a) ** 2, "(-a) ** 2"),
        (-abs(-a), "-abs(-a)"),
        (a * -5, "a * -5"),
        ((-5) ** a, "(-5) ** a"),
        (abs(a - b), "abs(a - b)"),
        (round(a), "round(a)"),
        (a.round(-2), "round(a, -2)"),
        (pos.x, "pos['x']"),
        (pos["it's"]["in"] + cn.col("in"), "pos['it''s']['in'] + `in`"),
        (a.lower().length(), "length(lower(a))"),
        (cn.col("ts") - timedelta(minutes=1), "ts - '60 s'"),
        (cn.col("pos.x") / np.float32(0.5), "`pos.x` / 0.5"),
        (a * Decimal("0.1"), "a * 0.1"),
        (a + True, "a + true"),
    ],
)
def test_an_expression_is_written_as_text_that_reads_back(made: cn.Expression, text: str) -> None:
    assert str(made) == text
    assert repr(cn.expr(text)) == f"expr({text!r})"
    assert cn.expr(text).term == made.term
    for copied in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), eval(repr(cn.expr(text)), {"expr": cn.expr})):
        assert copied.term == made.term and hash(copied.term) == hash(made.term)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a > b", a > b),
        ("a == b", a == b),
        ("1 < a + 1 <= b", And((a + 1 > 1, Comparison(CallTerm("<=", ((a + 1).term, b.term)))))),
        ("(a) > 3", a > 3),
        ("((a + b)) * 2 > 3", (a + b) * 2 > 3),
        ("(a + b > 3 and (a < b))", (a + b > 3) & (a < b)),
        ("not (a - b) in (1, 2)", ~(a - b).is_in([1, 2])),
        ("a-1>0", a - 1 > 0),
        ("a -1 > 0", a - 1 > 0),
        ("3 > -a", -a < 3),
        ("a == - 5", a == -5),
        ('a == "b"', a == "b"),
        ('a == "b" + 1', a == b + 1),
        ('1 == "b"', b == 1),
        ("pos.x < a", cn.col("pos.x") < a),
        ("pos['x'] is missing", pos.x.is_missing()),
        ("matches(lower(a), '^b')", a.lower().matches("^b")),
        ("a not matches '^b' and matches > 3", ~a.matches("^b") & (cn.col("matches") > 3)),
        ("abs > 3 and round(b) == 2", (cn.col("abs") > 3) & (round(b) == 2)),
        ("year(ts) between 2020 and 2022", cn.col("ts").year().between(2020, 2022)),
        ("a / b is not nan", ~(a / b).is_nan()),
    ],
)
def test_predicates_with_expressions(text: str, meant: cn.Predicate) -> None:
    assert parse(text) == meant
    assert parse(str(meant)) == meant


def test_a_comparison_with_a_value_stays_a_leaf_of_the_column() -> None:
    assert Compare("a", ">", 3) == (a > 3) == (cn.expr("a") > 3)
    assert Comparison(CallTerm(">", (ColumnTerm("a"), ColumnTerm("b")))) == (a > b)
    assert IsIn(CallTerm("neg", (ColumnTerm("a"),)), (1,)) == (-a).is_in([1])


def test_literals_of_different_types_are_different() -> None:
    texts = ["1", "1.0", "true", "'1'", "-0.0", "0.0"]
    assert len({cn.expr(f"a * {text}").term for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("a + b", 5, "expected a comparison"),
        ("1 + 2 < 3", 0, "a comparison needs a column"),
        ("foo(a) > 3", 0, "expected a function"),
        ("flor(a) > 3", 0, "expected a function (floor, lower)"),
        ("abs(a, b) > 3", 0, "abs takes one argument, not 2"),
        ("round(a, b) > 3", 0, "round takes a number of digits"),
        ("round(a, 1.5) > 3", 0, "round takes a number of digits"),
        ("abs() > 3", 4, "found ')'"),
        ("(a + b > 3", 0, "parenthesis without end"),
        ("abs(a > 3", 6, "an operator, or )"),
        ("a + > 3", 4, "a column, a value"),
        ("a > b +", 7, "a value or a column"),
        ("pos[x] > 3", 4, "the name of a field in quotes"),
        ("pos['x' > 3", 8, "found '>'"),
        ("-5 ** a > 3", 3, "parentheses around the negative number"),
        ("a in (b)", 6, "in takes values, not columns"),
        ("a between b and 3", 10, "between takes values, not columns"),
        ("(a + b) like 3", 13, "a string in quotes after like"),
        (f"a matches '{'x' * 1001}'", 10, "a regular expression of 1,001 characters"),
        ("-" * 100 + "a > 3", MAX_PREDICATE_DEPTH, "no more than"),
        ("abs(" * 60 + "a" + ")" * 60 + " > 3", 4 * MAX_PREDICATE_DEPTH, "no more than"),
        ("+".join("a" * 100) + " > 3", 101, "nested more than"),
        ("a + 1_000 > 3", 4, "expected a number"),
    ],
)
def test_a_refusal_of_text_shows_the_position(text: str, position: int, words: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse(text)
    assert (caught.value.text, caught.value.position) == (text, position)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a column"),
        ("1 + 2", "an expression with a column"),
        ("a >", "expected a value or a column"),
        ("(a > 3", "to close"),
        ("a b", "expected an operator"),
    ],
)
def test_text_that_is_not_an_expression_is_refused(text: str, words: str) -> None:
    with pytest.raises(PredicateError, match=words):
        cn.expr(text)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: bool(a + b),
        lambda: a + None,
        lambda: a + (b > 3),
        lambda: a + {1: 2},
        lambda: np.array([1, 2]) + a,
        lambda: a + np.datetime64("NaT"),
        lambda: a * 10**5000,
        lambda: (a + b) & (a > 3),
        lambda: ~(a + b),
        lambda: cn.expr(3),  # type: ignore[arg-type]
        lambda: a.round(1.5),  # type: ignore[arg-type]
        lambda: a.matches(3),  # type: ignore[arg-type]
        lambda: cn.Expression(3),  # type: ignore[arg-type]
        lambda: pos[3],
        lambda: (a + b)["x"],
    ],
)
def test_mistakes_in_python_are_refused(mistake: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        mistake()


def test_an_expression_is_no_sequence_and_has_no_odd_attributes() -> None:
    with pytest.raises(TypeError):
        list(a)
    with pytest.raises(AttributeError):
        _ = (a + b).x
    assert not hasattr(a, "__array__") and not hasattr(a, "_repr_html_")


def test_calls_are_nested_to_a_limit() -> None:
    deepest = a
    for _ in range(MAX_EXPRESSION_LEVELS):
        deepest = abs(deepest)  # type: ignore[assignment]
    assert pickle.loads(pickle.dumps(deepest)).term == deepest.term == cn.expr(str(deepest)).term
    with pytest.raises(PredicateError, match="nested more than"):
        abs(deepest)


# -- what they compute --


TABLE = pa.table(
    {
        "i": pa.array([7, -7, None, 0, 100], pa.int8()),
        "j": pa.array([2, 2, 2, 2, -3], pa.int64()),
        "u": pa.array([0, 1, 2, 3, 2**64 - 1], pa.uint64()),
        "f": pa.array([0.5, float("nan"), None, -0.0, float("inf")]),
        "s": pa.array(["Aé", "b", None, "", "C\0d"]),
        "k": pa.array(["x", "Y", None, "x", "Y"]).dictionary_encode(),
        "ts": pa.array([0, 1, None, 10**12, -1], pa.timestamp("ms")),
        "day": pa.array([0, 1, None, 20_000, -1], pa.date32()),
        "d": pa.array([Decimal("1.25"), Decimal("-1.25"), None, Decimal(0), Decimal("99.99")], pa.decimal128(9, 2)),
        "pos": pa.array([{"x": 1.5, "n": {"y": i}} for i in range(5)]),
        "list": pa.array([[1, 2], [], [3], [4], [5, 6, 7]], pa.list_(pa.int32())),
        "flag": pa.array([True, False, None, True, False]),
        "half": pa.array(np.array([0.5, 1.5, 2.5, 3.5, 4.5], dtype=np.float16)),
        "blob": pa.array([b"", b"\0", None, b"ab", b"abc"]),
    }
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("expressions") / "x.h5"
    cn.write(path, TABLE, "t", columns={"i": cn.column(chunk_rows=2)}, index={"j": "chunk_minmax"})
    return path


def cells(path: Path, text: str) -> list[Any]:
    """The values of an expression, read as a whole and by scattered rows, which agree."""
    with cn.open_table(path) as table:
        whole = table.select(v=text).to_arrow()
        assert table.select(v=text).schema.field("v").type == whole.schema.field("v").type
        taken = table.take([4, 0]).select(v=text).to_arrow()["v"].to_pylist()
        assert repr(taken) == repr([whole["v"].to_pylist()[row] for row in (4, 0)])
        assert repr(table[::2].select(v=text).to_arrow()["v"].to_pylist()) == repr(whole["v"].to_pylist()[::2])
        return list(whole["v"].to_pylist())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i // j", [3, -4, None, 0, -34]),
        ("i % j", [1, 1, None, 0, -2]),
        ("-i // j", [-4, 3, None, 0, 33]),
        ("-i % j", [1, 1, None, 0, -1]),
        ("i * 3", [21, -21, None, 0, 300]),
        ("-i", [-7, 7, None, 0, -100]),
        ("abs(i)", [7, 7, None, 0, 100]),
        ("i ** 2", [49, 49, None, 0, 10_000]),
        ("i / j", [3.5, -3.5, None, 0.0, 100 / -3]),
        ("j - j // 1", [0] * 5),
        ("u + 0", [0, 1, 2, 3, 2**64 - 1]),
        ("f // 2", [0.0, float("nan"), None, -0.0, float("nan")]),
        ("f * 2 + 1", [2.0, float("nan"), None, 1.0, float("inf")]),
        ("round(f)", [0.0, float("nan"), None, -0.0, float("inf")]),
        ("round(i, -1)", [10, -10, None, 0, 100]),
        ("half * 2", [1.0, 3.0, 5.0, 7.0, 9.0]),
        ("f * 9007199254740993", [4503599627370496.0, float("nan"), None, -0.0, float("inf")]),
        (f"f + {-(10**400)}", [float("-inf"), float("nan"), None, float("-inf"), float("nan")]),
        ("lower(s)", ["aé", "b", None, "", "c\0d"]),
        ("upper(s)", ["AÉ", "B", None, "", "C\0D"]),
        ("length(s)", [2, 1, None, 0, 3]),
        ("length(blob)", [0, 1, None, 2, 3]),
        ("length(list)", [2, 0, 1, 1, 3]),
        ("upper(k)", ["X", "Y", None, "X", "Y"]),
        ("year(ts)", [1970, 1970, None, 2001, 1969]),
        ("weekday(day)", [3, 4, None, 4, 2]),
        ("second(ts)", [0, 0, None, 40, 59]),
        ("ts - '1970-01-01'", [timedelta(0), timedelta(milliseconds=1), None, timedelta(seconds=10**9),
                               timedelta(milliseconds=-1)]),
        ("ts + '1 s'", [datetime(1970, 1, 1, 0, 0, 1), datetime(1970, 1, 1, 0, 0, 1, 1000), None,
                        datetime(2001, 9, 9, 1, 46, 41), datetime(1970, 1, 1, 0, 0, 0, 999_000)]),
        ("d * 1.1", [Decimal("1.375"), Decimal("-1.375"), None, Decimal("0.000"), Decimal("109.989")]),
        ("pos.x * 2", [3.0] * 5),
        ("pos['n']['y']", [0, 1, 2, 3, 4]),
        ("pos.n.y + 1", [1, 2, 3, 4, 5]),
        ("flag", [True, False, None, True, False]),
        ("ceil(f)", [1.0, float("nan"), None, -0.0, float("inf")]),
    ],
)  # fmt: skip
def test_values(path: Path, text: str, expected: list[Any]) -> None:
    assert repr(cells(path, text)) == repr(expected)


@pytest.mark.parametrize(
    ("text", "row", "words"),
    [
        ("i // (j - 2)", 0, r"i // \(j - 2\) of 7 and 0: division by zero"),
        ("i % (i * 0)", 0, "division by zero"),
        ("u - 1", 0, "u - 1 of 0 and 1: the result does not fit"),
        ("u + j", 4, "18446744073709551615"),
        ("2 ** i", 1, "negative integer powers"),
        ("j ** i", 1, "negative integer powers"),
        ("u * 2", 4, "does not fit"),
        ("d / (d - 1.25)", 0, "division by zero"),
    ],
)
def test_a_row_that_cannot_be_computed_is_named(path: Path, text: str, row: int, words: str) -> None:
    with cn.open_table(path) as table, pytest.raises(DataError, match=words) as caught:
        table.select(v=text).to_arrow()
    assert caught.value.row == row


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("i + s > 3", 2, "there is no + of int8 and string"),
        ("lower(i) == 'x'", 0, "there is no lower of int8"),
        ("i > 3 and i + flag > 3", 12, "there is no + of int8 and bool"),
        ("ii > 3", 0, "no column 'ii'"),
        ("i > 3 or 2 * jj > 3", 13, "no column 'jj'"),
        ("i == muon", 5, "no column 'muon'"),
        ("pos.z > 3", 0, "no column 'z' in column 'pos'"),
        ("i['x'] > 3", 0, "which has no fields"),
        ("i > 3 and s > 3", 10, "cannot be compared with a number"),
        ("i + 1 > 'x'", 0, "expression i + 1 holds int64, which cannot be compared with text"),
        ("i + 1 like 'x'", 0, "cannot be compared with text"),
        ("i matches 'x'", 0, "cannot be compared with text"),
        ("s matches '('", 0, "is not a regular expression of RE2"),
        ("ts > flag", 0, "there is no > of"),
        ("pos == pos", 0, "there is no == of"),
        ("ts - 'x' > '1 s'", 3, "cannot compute with text"),
        ("i + 99999999999999999999 > 1", 2, "does not fit 64 bits"),
        ("hour(day) > 1", 0, "there is no hour of date32"),
        ("d % 2 > 1", 2, "there is no % of"),
    ],
)
def test_columns_and_types_are_checked_before_a_row_is_read(path: Path, text: str, position: int, words: str) -> None:
    with cn.open_table(path) as table, pytest.raises(PredicateError) as caught:
        table.where(text)
    assert words in str(caught.value)
    assert (caught.value.text, caught.value.position) == (text, position)
    assert isinstance(caught.value, ColumnNotFound) == words.startswith("no column")


def test_the_python_form_is_checked_too(path: Path) -> None:
    with cn.open_table(path) as table:
        with pytest.raises(PredicateError, match="there is no"):
            table.where(cn.col("i") + cn.col("s") > 3)
        with pytest.raises(ColumnNotFound, match="'ii'"):
            table.select(v=cn.col("ii") * 2)
        with pytest.raises(PredicateError, match="there is no lower"):
            table.select(v="1 + lower(i)")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("i > j", [0, 4]),
        ("not i > j", [1, 3]),
        ("u > j", [3, 4]),
        ("u == u", [0, 1, 2, 3, 4]),
        ("f == f", [0, 3, 4]),
        ("not f == f", [1]),
        ("f != f", [1]),
        ("f * 1 is nan", [1]),
        ("f * 1 is missing", [2]),
        ("lower(k) in ('x', 'z')", [0, 3]),
        ("lower(k) != 'y'", [0, 3]),
        ("k matches '[a-z]'", [0, 3]),
        ("s < k", [0, 3, 4]),
        ("flag and i > 0", [0]),
        ("pos.n.y between 1 and 2", [1, 2]),
        ("j != 2 and i // (j - 2) < 0", [4]),
        ("i // (j - 2) < 0 and j != 2", [4]),
        ("d * 2 == 2.5", [0]),
        ("ts - '1970-01-01' > '1 h'", [3]),
        ("length(s) == 2 or length(list) == 3", [0, 4]),
    ],
)
def test_rows_that_match(path: Path, text: str, rows: list[int]) -> None:
    with cn.open_table(path) as table:
        assert table.where(text).row_numbers().tolist() == rows
        assert table.where(text).count() == len(rows)
        assert table.where(parse(str(parse(text)))).row_numbers().tolist() == rows


def test_an_index_narrows_the_rows_down_first(path: Path) -> None:
    with cn.open_table(path) as table:
        plan = table.where("i * 2 > 3 and j > 5").explain()
    assert [used.leaf for used in plan.indexes_used] == ["j > 5"]
    assert plan.found.may.count == 0
    assert [(read.column, read.chunks_read) for read in plan.columns][:1] == [("i", 0)]


def test_a_column_with_a_dotted_name_comes_before_a_field(tmp_path: Path) -> None:
    data = pa.table({"pos": [{"x": 1}, {"x": 2}], "pos.x": [10, 20], "pos.x + 1": [0, 1]})
    cn.write(tmp_path / "x.h5", data, "t")
    with cn.open_table(tmp_path / "x.h5") as table:
        assert table.where("pos.x > 1").row_numbers().tolist() == [0, 1]
        assert table.where(cn.col("pos").x > 1).row_numbers().tolist() == [1]
        both = (cn.col("pos.x") + 1 > 15) & (cn.col("pos.x + 1") == 1)
        assert table.where(both).row_numbers().tolist() == [1]
        assert table.aggregate(n=(cn.col("pos.x") + 1, "max"), m=("pos.x + 1", "max")) == {"n": 21, "m": 1}


# -- computed columns --


def test_everything_that_reads_a_query_reads_computed_columns(path: Path) -> None:
    with cn.open_table(path) as table:
        query = table.select("i", twice=cn.col("i") * 2, name="lower(s)").where("twice >= 0 and name is not missing")
        expected = {"i": [7, 0, 100], "twice": [14, 0, 200], "name": ["aé", "", "c\0d"]}
        assert query.to_arrow().to_pydict() == expected
        assert query.columns == list(expected) and query.schema == query.to_arrow().schema
        assert query.to_pandas().to_dict("list") == expected
        assert {name: list(values) for name, values in query.to_numpy().items()} == expected
        assert query.to_polars().to_dict(as_series=False) == expected
        assert pa.table(query).to_pydict() == expected
        assert [batch.num_rows for batch in query.batches(rows=2)] == [2, 1]
        assert query.head(1).to_arrow().num_rows == 1 and query[2]["twice"] == 200 and len(query) == 3
        assert query[["twice"]][1:].to_arrow().to_pydict() == {"twice": [0, 200]}
        assert query.aggregate(s=("twice", "sum"), m=(cn.col("twice") + 1, "max")) == {"s": 214, "m": 201}
        assert query.aggregate({"twice / 2": "mean"}, by="name").num_rows == 3
        assert pickle.loads(pickle.dumps(query)).to_arrow().to_pydict() == expected
        assert query.head(2).where("twice > 0").select("name").to_arrow().to_pydict() == {"name": ["aé"]}
        assert "twice" in repr(query) and "twice" in query._repr_html_()
        assert {read.column for read in query.explain().columns} == {"i", "s"}


def test_a_computed_column_may_hide_one_of_the_table(path: Path) -> None:
    with cn.open_table(path) as table:
        query = table.where("i > 0").select(i=cn.col("i") * 10).where("i > 100").select("i", j="i + j")
        assert query.to_arrow().to_pydict() == {"i": [1000], "j": [997]}


def test_wide_columns_are_computed_a_piece_at_a_time(path: Path) -> None:
    with cn.open_table(path) as table, limits.override(piece_bytes=8):
        assert table.select(v="length(s) + i").to_arrow()["v"].to_pylist() == [9, -6, None, 0, 103]
        assert table.where("length(s) + i > 0").row_numbers().tolist() == [0, 4]


# -- changes --


@pytest.fixture
def table(tmp_path: Path) -> cn.Table:
    data = {"id": np.arange(6), "x": np.arange(6.0), "small": pa.array([1, 2, None, 4, 5, 100], pa.int8()),
            "label": ["a", None, "c", "d", "e", "f"]}  # fmt: skip
    columns = {"x": cn.column(chunk_rows=2)}
    index = {"x": ["chunk_minmax", "sorted_rows"], "id": "chunk_bloom"}
    cn.write(tmp_path / "x.h5", data, "t", columns=columns, index=index)
    return cn.open_table(tmp_path / "x.h5", mode="r+")


def test_update_computes_from_the_rows_as_they_were(table: cn.Table) -> None:
    assert table.update(where="id != 3", set={"x": cn.col("id") + 0.5, "id": cn.expr("x"), "label": "z"}) == 5
    assert table["x"].to_arrow().to_pylist() == [0.5, 1.5, 2.5, 3.0, 4.5, 5.5]
    assert table["id"].to_arrow().to_pylist() == list(range(6))
    assert table["label"].to_arrow().to_pylist() == ["z", "z", "z", "d", "z", "z"]
    assert table.verify_indexes() == [] and all(index.fresh and index.trusted for index in table.indexes)
    assert table.where("x > 4").row_numbers().tolist() == [4, 5]


def test_update_without_where_changes_all_rows(table: cn.Table) -> None:
    assert table.update(set={"small": None, "x": -1}) == 6
    assert table["small"].to_arrow().null_count == 6 and set(table["x"].to_arrow().to_pylist()) == {-1.0}


def test_update_of_no_row_changes_nothing(table: cn.Table) -> None:
    before = Path(table._file.name).read_bytes()
    assert table.update(where="x > 1e9", set={"x": 0}) == 0
    table.close()
    assert Path(table._file.name).read_bytes() == before


def test_update_by_parts_from_a_temporary_file(table: cn.Table) -> None:
    with limits.override(piece_bytes=16, updated_rows=2, updated_bytes=1):
        assert table.update(where="id % 2 == 0", set={"x": cn.col("x") * 2}) == 3
    assert table["x"].to_arrow().to_pylist() == [0.0, 1.0, 4.0, 3.0, 8.0, 5.0]


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ({"small": cn.col("small") * 3}, "column 'small', row 5: 300 does not fit int8"),
        ({"id": cn.col("x") / 4}, "column 'id', row 1: 0.25 does not fit int64"),
        ({"x": cn.col("label")}, "the column holds double, the new rows have string"),
        ({"x": 1, "id": cn.expr("id // (id - 2)")}, "row 2: cannot compute"),
        ({"y": 1}, "no column 'y'"),
        ({"x": cn.col("x") > 3}, "the column holds double, the new rows have bool"),
        ({}, "set takes"),
        ({"x": "two"}, "the column holds double"),
    ],
)
def test_an_update_that_is_refused_changes_nothing(table: cn.Table, new: dict[str, Any], words: str) -> None:
    before = table.to_arrow()
    with pytest.raises(UsageError, match=words):
        table.update(set=new)
    assert table.to_arrow().equals(before)
    table.close()
    assert cn.check(table._file.name) == []


def test_update_takes_rows_or_where(table: cn.Table) -> None:
    for wrong in (lambda: table.update("x", [0], [1.0], set={"x": 1}), lambda: table.update("x", where="id > 3")):
        with pytest.raises(UsageError, match=r"where and set|where= and set="):
            wrong()
    with pytest.raises(ConflictError), cn.open_table(table._file.name) as read_only:
        read_only.update(set={"x": cn.col("nothing")})


def test_a_computed_column_is_added(table: cn.Table) -> None:
    table.add_column("speed", cn.col("x") / cn.col("id"), units="m/s")
    table.add_column("upper", cn.col("label").upper(), categories=True)
    assert table["speed"].units == "m/s" and np.isnan(table["speed"][0]) and table["speed"][1:].tolist() == [1.0] * 5
    assert table["upper"].to_arrow().to_pylist() == ["A", None, "C", "D", "E", "F"]
    for wrong, words in ((cn.col("x") / cn.col("y"), "'y'"), (cn.col("id") // 0, "row 0"), (cn.col("x") + "a", "no +")):
        with pytest.raises(UsageError, match=words):
            table.add_column("wrong", wrong)
    assert "wrong" not in table.columns and cn.check(table._file.name) == []


def test_tables_without_rows(tmp_path: Path) -> None:
    cn.write(tmp_path / "x.h5", TABLE.slice(0, 0), "t")
    with cn.open_table(tmp_path / "x.h5", mode="r+") as table:
        table.add_column("v", cn.col("i") / cn.col("j"))
        assert table.update(where="i > j", set={"v": cn.col("i") * 1.0}) == 0
        assert table.select(n="lower(s)").to_arrow().num_rows == 0 and table.where("i > j").count() == 0
        assert table.aggregate(n=("i * 2", "max"), c=(cn.col("s").lower(), "count")) == {"n": None, "c": 0}
        assert str(table["v"].dtype) == "double"


def test_missing_times_are_not_computed_with(tmp_path: Path) -> None:
    """Arrow computes with what is stored for them, too, and reports that it overflows."""
    lengths = pa.array([timedelta(days=1), timedelta(days=-1), None, None], pa.duration("us"))
    times = pa.array([datetime(2020, 1, 1), None, datetime(2021, 1, 1), None], pa.timestamp("us"))
    hours = pa.array([3600, None, 7200, None], pa.time32("s"))
    rows = {"start": times, "length": lengths, "hour": hours, "n": pa.array([3, None, 2, 1])}
    cn.write(tmp_path / "t.h5", pa.table(rows), "t")
    table = cn.open_table(tmp_path / "t.h5", "t")

    def computed(text: str) -> list[Any]:
        return table.select(v=text).to_arrow()["v"].to_pylist()

    assert computed("start + length") == computed("length + start") == [datetime(2020, 1, 2), None, None, None]
    assert computed("start - '2030-01-01'") == [timedelta(days=-3653), None, timedelta(days=-3287), None]
    assert computed("length - '-90 d'") == [timedelta(days=91), timedelta(days=89), None, None]
    assert computed("length * n") == [timedelta(days=3), None, None, None]
    assert [None if v is None else v.hour for v in computed("hour - '1 h'")] == [0, None, 1, None]
    assert table.where("start - '2030-01-01' < '0 s'").row_numbers().tolist() == [0, 2]


def test_a_dask_token_is_that_of_the_expression() -> None:
    tokenize = pytest.importorskip("dask.base").tokenize
    assert tokenize(a / b) == tokenize(cn.expr("a / b")) != tokenize(b / a)
    assert tokenize(a / b > 3) == tokenize(parse("a / b > 3"))


def test_a_regular_expression_has_a_bound() -> None:
    assert str(Matches("a", "x" * 1000)) == str(a.matches("x" * 1000))
    with pytest.raises(PredicateError, match="1,000 are allowed"):
        a.matches("x" * 1001)


@pytest.mark.parametrize("filters", ["none", "shuffle+deflate"])
def test_many_scattered_rows_are_updated_chunk_by_chunk(tmp_path: Path, filters: str) -> None:
    """Runs of one row, in whole chunks, in the last one that rows do not fill, and in one that was never written."""
    n = 1000
    data = {"x": pa.array(range(n), pa.int16()), "s": [f"{i % 50:>3}é" for i in range(n)], "flag": [True] * n}
    columns = {
        name: cn.column(chunk_rows=64, filters=filters, strings="fixed" if name == "s" else "auto") for name in data
    }
    cn.write(tmp_path / "x.h5", data, "t", columns=columns, index={"x": "chunk_minmax"})
    for runs in (1, 1000):
        with cn.open_table(tmp_path / "x.h5", mode="r+") as table, limits.override(runs_per_chunk=runs):
            before = table.to_arrow()
            new = {"x": cn.col("x") + 1, "s": cn.col("s").upper(), "flag": False}
            assert table.update(where="x % 3 != 0", set=new) == sum(x % 3 != 0 for x in before["x"].to_pylist())
            expected = [
                {"x": x + 1, "s": s.upper(), "flag": False} if x % 3 != 0 else {"x": x, "s": s, "flag": flag}
                for x, s, flag in zip(*(before[name].to_pylist() for name in before.column_names), strict=True)
            ]
            assert table.to_arrow().to_pylist() == expected
            assert table.verify_indexes() == []
            table.append({"x": [5], "s": ["new"], "flag": [True]})
            table.truncate(n)
        assert cn.check(tmp_path / "x.h5", deep=True) == []


# -- predicates as values --


@pytest.fixture
def known_and_unknown(tmp_path: Path) -> Iterator[cn.Table]:
    rows = {
        "e": pa.array([1.0, 4.0, None, float("nan")]),
        "n": pa.array([2**53, 2**53 + 1, None, 7]),
        "label": pa.array(["x", "y", None, "x"]).dictionary_encode(),
        "flag": pa.array([True, False, None, True]),
    }
    cn.write(tmp_path / "x.h5", rows, "t", index={"e": "chunk_minmax"})
    with cn.open_table(tmp_path / "x.h5", mode="r+") as table:
        yield table


@pytest.mark.parametrize(
    ("test", "text", "held"),
    [
        (cn.col("e") > 3, "e > 3", [False, True, None, False]),
        (~(cn.col("e") > 3), "not e > 3", [True, False, None, True]),
        (cn.col("n") == 2.0**53, "n == 9007199254740992.0", [True, False, None, False]),
        (cn.col("label").is_in(["x"]), "label in ('x')", [True, False, None, True]),
        (cn.col("label").is_missing(), "label is missing", [False, False, True, False]),
        ((cn.col("e") > 3) | (cn.col("label") == "x"), "e > 3 or label == 'x'", [True, True, None, True]),
        ((cn.col("e") > 3) & (cn.col("label") == "y"), "e > 3 and label == 'y'", [False, True, None, False]),
        (cn.col("n") < cn.col("e") * 2, "n < e * 2", [False, False, None, False]),
        (cn.col("label").upper().matches("^X"), "upper(label) matches '^X'", [True, False, None, True]),
    ],
)
def test_a_predicate_is_a_boolean_as_a_computed_column(
    known_and_unknown: cn.Table, test: cn.Predicate, text: str, held: list[bool | None]
) -> None:
    """True, false, or missing where it is unknown: what `where` and `where` of its opposite find."""
    t = known_and_unknown
    for asked in (test, text, cn.expr(text)):
        q = t.select("label", hot=asked)
        assert q.schema.field("hot").type == pa.bool_()
        assert q.to_arrow()["hot"].to_pylist() == held
        assert t.take([3, 0, 0]).select(hot=asked).to_arrow()["hot"].to_pylist() == [held[3], held[0], held[0]]
        assert t[::-2].select(hot=asked).to_arrow()["hot"].to_pylist() == held[::-2]
        assert q.select(again="hot").to_arrow()["again"].to_pylist() == held
        for wanted in (True, False, None):
            rows = [row for row, value in enumerate(held) if value is wanted]
            condition = cn.col("hot").is_missing() if wanted is None else cn.col("hot") == wanted
            assert q.where(condition).row_numbers().tolist() == rows
            assert q.where("hot is missing" if wanted is None else f"hot = {wanted}").row_numbers().tolist() == rows
    assert str(cn.expr(text)) == str(cn.expr(str(cn.expr(text)))) == str(test)
    assert cn.expr(text).term == cn.expr(str(cn.expr(text))).term
    assert pickle.loads(pickle.dumps(cn.expr(text))).term == cn.expr(text).term
    assert t.aggregate(n=(test, "sum"), some=(text, "any")) == {
        "n": held.count(True),
        "some": True in held,
    }
    assert t.aggregate(n="count", by=test).to_pydict()["n"] == [held.count(v) for v in (False, True, None) if v in held]


def test_computed_booleans_are_compared_and_stored(known_and_unknown: cn.Table) -> None:
    t = known_and_unknown
    q = t.select("e", hot=cn.col("e") > 3, cold="e < 3")
    assert q.where(cn.col("hot") == cn.col("cold")).row_numbers().tolist() == [3]
    assert q.where("hot != flag").row_numbers().tolist() == [0, 1, 3]
    assert q.where("not hot and flag").row_numbers().tolist() == [0, 3]
    t.add_column("hot", cn.col("e") > 3)
    t.add_column("cold", cn.expr("e < 3 or label == 'y'"))
    assert t["hot"].to_arrow().to_pylist() == [False, True, None, False]
    assert t["cold"].to_arrow().to_pylist() == [True, True, None, False]
    assert t.update(where="e > 0", set={"flag": cn.col("label") == "y"}) == 2
    assert t["flag"].to_arrow().to_pylist() == [False, True, None, True]


def test_a_computed_boolean_is_planned_as_its_predicate(known_and_unknown: cn.Table) -> None:
    """An index of the column it tests answers `hot`, `not hot`, `hot == true` and `hot != true`."""
    q = known_and_unknown.select(hot=cn.col("e") > 3)
    for text in ("hot", "not hot", "hot = true", "hot != true", "hot = false"):
        assert [used.kind for used in q.where(text).explain().indexes_used] == ["chunk_minmax"], text


@pytest.mark.parametrize(
    ("text", "words", "position"),
    [
        ("ee > 3", "no column 'ee'", 0),
        ("e > 1 and label > 3", "cannot be compared", 10),
        ("e >", "expected a value or a column", 3),
    ],
)
def test_wrong_predicates_as_values_are_refused_with_the_position(
    known_and_unknown: cn.Table, text: str, words: str, position: int
) -> None:
    with pytest.raises(PredicateError, match=words) as caught:
        known_and_unknown.select(hot=text)
    assert caught.value.position == position
