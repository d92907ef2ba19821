"""Predicates made with `col`: what the operators give, what they refuse and advise, and how they are written."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import PredicateError, UsageError
from colonnade.predicate.columns import col
from colonnade.predicate.literals import name_text, value_text
from colonnade.predicate.tree import (
    And,
    Between,
    Compare,
    Contains,
    IsIn,
    IsMissing,
    IsNan,
    Leaf,
    Like,
    Not,
    Or,
    Predicate,
    StartsWith,
)

A, B, C, D = (Compare(name, "==", 1) for name in "abcd")


# -- made --


@pytest.mark.parametrize(
    ("made", "sign"),
    [
        (col("x") == 3, "=="),
        (col("x") != 3, "!="),
        (col("x") < 3, "<"),
        (col("x") <= 3, "<="),
        (col("x") > 3, ">"),
        (col("x") >= 3, ">="),
        (3 == col("x"), "=="),  # noqa: SIM300
        (3 != col("x"), "!="),  # noqa: SIM300
        (3 < col("x"), ">"),  # noqa: SIM300
        (3 <= col("x"), ">="),  # noqa: SIM300
        (3 > col("x"), "<"),  # noqa: SIM300
        (3 >= col("x"), "<="),  # noqa: SIM300
    ],
)
def test_comparisons(made: Predicate, sign: Any) -> None:
    assert made == Compare("x", sign, 3)


def test_a_numpy_scalar_on_the_left_is_a_value() -> None:
    assert (np.int64(3) < col("x")) == Compare("x", ">", 3)
    assert (np.float32(0.5) == col("x")) == Compare("x", "==", 0.5)


@pytest.mark.parametrize(
    ("made", "meant"),
    [
        (col("x").between(1, 2), Between("x", 1, 2)),
        (col("x").is_in([1, 2]), IsIn("x", (1, 2))),
        (col("x").is_in(str(i) for i in range(2)), IsIn("x", ("0", "1"))),
        (col("x").is_in(np.array([1, 2])), IsIn("x", (1, 2))),
        (col("x").is_in([]), IsIn("x", ())),
        (col("x").is_missing(), IsMissing("x")),
        (col("x").is_nan(), IsNan("x")),
        (col("x").startswith("a"), StartsWith("x", "a")),
        (col("x").contains(b"a"), Contains("x", b"a")),
        (col("x").like("a%"), Like("x", "a%")),
    ],
)
def test_tests(made: Predicate, meant: Predicate) -> None:
    assert made == meant
    assert type(made) is type(meant)


def test_joined() -> None:
    assert And((A, B)) == A & B
    assert Or((A, B)) == A | B
    assert Not(A) == ~A
    assert Or((And((A, B)), Not(C))) == A & B | ~C


def test_a_long_row_of_one_operator_is_flat() -> None:
    """A loop over thousands of parts makes no tree that runs out of stack."""
    assert A & B & C == And((A, B, C)) == A & (B & C)
    assert A | B | C == Or((A, B, C)) == A | (B | C)
    assert And((A, B, C, D)) == (A & B) & (C & D)
    assert And((Or((A, B)), C)) == (A | B) & C
    many = reduce(operator.or_, [Compare("a", "==", i) for i in range(3000)])
    assert len(list(many.leaves())) == 3000
    assert str(many).count(" or ") == 2999
    assert pickle.loads(pickle.dumps(many)) == many


def test_leaves_from_left_to_right() -> None:
    whole = (A & (B | ~C)) | ~(~D & A)
    assert list(whole.leaves()) == [A, B, C, D, A]
    assert list(A.leaves()) == [A]
    assert [leaf.column for leaf in (col("x").is_nan() & col("y").is_missing()).leaves()] == ["x", "y"]


# -- refused --


def test_a_predicate_is_not_true_or_false() -> None:
    for whole in (A, A & B, A | B, ~A):
        with pytest.raises(PredicateError, match=r"join predicates with & \| ~") as caught:
            bool(whole)
        assert caught.value.text == str(whole)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: 3 < col("x") < 5,
        lambda: A and B,
        lambda: A or B,
        lambda: not A,
        lambda: col("x") in [1, 2],
        lambda: 1 if A else 2,
    ],
)
def test_words_of_python_are_refused(mistake: Callable[[], object]) -> None:
    with pytest.raises(PredicateError, match=r"join predicates with & \| ~ .*between"):
        mistake()


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: col("a") > 1 & col("b") < 2,
        lambda: col("a") > 1 | col("b") < 2,
        lambda: col("a") == 1 & (col("b") < 2),
        lambda: (col("a") > 1) & col("b"),
        lambda: col("a") & (col("b") > 1),
        lambda: col("a") | col("b"),
        lambda: A & True,
        lambda: True & A,
        lambda: A & None,
        lambda: np.bool_(True) & A,
    ],
)
def test_forgotten_parentheses(mistake: Callable[[], object]) -> None:
    with pytest.raises(PredicateError, match=r"parentheses, as in \(col\('a'\) > 1\) [&|] \(col\('b'\) < 2\)"):
        mistake()


def test_the_advice_names_the_sign_that_was_used() -> None:
    mistakes: list[Callable[[], object]] = [lambda: A | 3, lambda: 3 | A]
    for mistake in mistakes:
        with pytest.raises(PredicateError, match=r"^\| joins two predicates, not a predicate and 3"):
            mistake()


def test_a_column_is_not_true_or_false() -> None:
    mistakes: list[Callable[[], object]] = [lambda: bool(col("x")), lambda: not col("x"), lambda: ~col("x")]
    for mistake in mistakes:
        with pytest.raises(PredicateError, match=r"col\('x'\) == True"):
            mistake()


@pytest.mark.parametrize("values", ["abc", b"abc", 3, None, col("y"), A])
def test_is_in_takes_a_list(values: Any) -> None:
    with pytest.raises(PredicateError, match="is_in takes a list of values, not"):
        col("x").is_in(values)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: col("x") == None,  # noqa: E711
        lambda: col("x") != None,  # noqa: E711
        lambda: col("x") < None,
        lambda: col("x").between(None, 3),
        lambda: col("x").between(3, None),
        lambda: col("x").is_in([1, None]),
    ],
)
def test_none_is_refused(mistake: Callable[[], object]) -> None:
    with pytest.raises(PredicateError, match=r"col\('x'\)\.is_missing\(\)"):
        mistake()


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: col("x") < A,
        lambda: col("x").between(1, col("y")),
        lambda: col("x").is_in([1, col("y")]),
    ],
)
def test_a_column_is_compared_with_values_only(mistake: Callable[[], object]) -> None:
    with pytest.raises(PredicateError, match="column 'x' is compared with a value here, not with "):
        mistake()


def test_text_tests_take_text() -> None:
    for mistake in (lambda: col("x").startswith(3), lambda: col("x").like(b"a")):  # type: ignore[arg-type]
        with pytest.raises(PredicateError, match="takes a string, not"):
            mistake()


def test_a_name_is_a_text() -> None:
    with pytest.raises(UsageError, match="not 3"):
        col(3)  # type: ignore[arg-type]


# -- as a Python object --


def test_a_column_has_no_hash() -> None:
    """Its == answers no question, so it cannot be a key."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(col("x"))
    assert repr(col("x y")) == "col('x y')"


ONE_OF_EACH: list[tuple[Predicate, str]] = [
    (col("x") == 3, "x == 3"),
    (col("x") != 2.5, "x != 2.5"),
    (col("x y") < "it's", "`x y` < 'it''s'"),
    (col("x").between(1, date(2026, 1, 2)), "x between 1 and '2026-01-02'"),
    (col("x").is_in([1, "a", b"\xff", True]), "x in (1, 'a', x'ff', true)"),
    (col("x").is_in([]), "x in ()"),
    (col("x").is_missing(), "x is missing"),
    (col("x").is_nan(), "x is nan"),
    (col("x").startswith("a"), "x startswith 'a'"),
    (col("x").contains(b"a"), "x contains x'61'"),
    (col("x").like("a%"), "x like 'a%'"),
    (~A, "not a == 1"),
    (~(A & B), "not (a == 1 and b == 1)"),
    (A & B, "a == 1 and b == 1"),
    (A | B, "a == 1 or b == 1"),
    ((A | B) & ~C, "(a == 1 or b == 1) and (not c == 1)"),
]


@pytest.mark.parametrize(("predicate", "text"), ONE_OF_EACH)
def test_text(predicate: Predicate, text: str) -> None:
    assert str(predicate) == text


@pytest.mark.parametrize("predicate", [predicate for predicate, _ in ONE_OF_EACH])
def test_pickled_compared_and_hashed(predicate: Predicate) -> None:
    copy = pickle.loads(pickle.dumps(predicate))
    assert copy == predicate and type(copy) is type(predicate)
    assert hash(copy) == hash(predicate)
    assert predicate != D


def test_predicates_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        A.column = "b"  # type: ignore[misc]
    assert isinstance(A, Leaf) and not hasattr(A, "__dict__")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x", "x"),
        ("_1", "_1"),
        ("a.b", "`a.b`"),
        ("a b", "`a b`"),
        ("a`b", "`a``b`"),
        ("", "``"),
        ("1a", "`1a`"),
        ("Größe", "`Größe`"),
        ("and", "`and`"),
        ("NaN", "`NaN`"),
        ("Null", "`Null`"),
        ("None", "`None`"),
        ("contains", "`contains`"),
    ],
)
def test_names_as_text(name: str, text: str) -> None:
    assert name_text(name) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (-(10**40), "-1" + "0" * 40),
        (1e300, "1e+300"),
        (-0.0, "-0.0"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (True, "true"),
        (False, "false"),
        ("a'b\"", "'a''b\"'"),
        (b"", "x''"),
        (date(2026, 1, 2), "'2026-01-02'"),
        (datetime(2026, 1, 2, 3, 4, 5, 6), "'2026-01-02T03:04:05.000006'"),
        (time(3, 4), "'03:04:00'"),
        (timedelta(seconds=1.5), "'1.5 s'"),
        (Decimal("1"), "1"),
        (np.int8(-3), "-3"),
        (np.float32(0.5), "0.5"),
        (np.bool_(True), "true"),
        (np.str_("a"), "'a'"),
        (np.bytes_(b"a"), "x'61'"),
        (np.datetime64("2026-01-02T03:04:05", "us"), "'2026-01-02T03:04:05.000000'"),
        (np.datetime64("2026-01-02T03:04:05.000000001", "ns"), "'2026-01-02T03:04:05.000000001'"),
    ],
)
def test_values_as_text(value: Any, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(("pattern", "rows"), [("%\\\\", [0, 1]), ("a\\%b", [2]), ("a\\%b%", [2, 4]), ("\\\\", [0])])
def test_a_backslash_in_a_like_pattern_escapes_the_next_character(
    pattern: str, rows: list[int], tmp_path: Path
) -> None:
    """Arrow's own function takes the backslashes of '%\\\\' literally."""
    cn.write(tmp_path / "a.h5", {"s": ["\\", "a\\", "a%b", "axb", "a%bc\n"]}, table="t")
    with cn.open_table(tmp_path / "a.h5", "t") as table:
        assert table.where(cn.col("s").like(pattern)).row_numbers().tolist() == rows
