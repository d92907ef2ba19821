"""What a predicate may ask is bounded, as text and in Python: beyond it is a PredicateError, at once."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import PredicateError
from colonnade.predicate import tree as words
from colonnade.predicate.columns import col
from colonnade.predicate.literals import MAX_DIGITS
from colonnade.predicate.parse import parse
from colonnade.predicate.tree import And, Compare, IsIn, Like, Not, Or, Predicate

MOST = MAX_DIGITS
TOO_LARGE: dict[str, Any] = {
    "integer": 10**MOST,
    "negative": -(10**MOST),
    "small": Decimal("1e-2000000"),
    "large": Decimal("-1e2000000"),
    "long": Decimal("0." + "1" * (MOST + 1)),
    "fraction": Fraction(1, 10**MOST),
}
LARGEST: dict[str, Any] = {
    "integer": 10**MOST - 1,
    "decimal": Decimal("9" * MOST + "." + "9" * MOST),
    "exact float": Decimal(np.nextafter(0.0, 1.0).item()),
    "fraction": Fraction(np.nextafter(0.0, 1.0).item()),
    "infinity": Decimal("inf"),
    "nan": Decimal("nan"),
    "float": 1e308,
}


@pytest.fixture
def table(tmp_path: Path) -> cn.Table:
    seconds = pa.array([0, 2, 3], pa.duration("s"))
    rows = {"f": [0.0, 0.5, -1.0], "n": [1, 2, 3], "s": ["a", "ab", "b"], "took": seconds}
    cn.write(tmp_path / "t.h5", pa.table(rows))
    return cn.open_table(tmp_path / "t.h5")


@pytest.mark.parametrize("value", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_number_of_too_many_digits_is_refused_in_python(value: Any) -> None:
    makers: list[Callable[[], object]] = [
        lambda: col("f") > value,
        lambda: col("f").between(0, value),
        lambda: col("f").between(value, 0),
        lambda: col("f").is_in([1, value]),
        lambda: Compare("f", "==", value),
        lambda: IsIn("f", (value,)),
    ]
    for make in makers:
        with pytest.raises(PredicateError, match="column 'f' with a number of more than 2,000 digits"):
            make()


@pytest.mark.parametrize("value", LARGEST.values(), ids=LARGEST)
def test_a_number_of_as_many_digits_as_allowed_is_compared(table: cn.Table, value: Any) -> None:
    for name, rows in (("f", (0.0, 0.5, -1.0)), ("n", (1, 2, 3))):
        above = 0 if isinstance(value, Decimal) and value.is_nan() else sum(row > value for row in rows)
        assert table.where(col(name) > value).count() == above
    assert str(col("f") > value)


@pytest.mark.parametrize(
    "number",
    [
        "1e-2000000",
        "-1e-2001",
        "1e-99999999999999999999",
        "1" * (MOST + 1),
        "0." + "1" * (MOST + 1),
        "1." + "0" * 10**6,
    ],
)
def test_a_number_of_too_many_digits_is_refused_in_text(table: cn.Table, number: str) -> None:
    for text in (f"f > {number}", f"{number} < f", f"f in (1, {number})", f"f between 0 and {number}"):
        with pytest.raises(PredicateError) as caught:
            table.where(text)
        assert caught.value.position == text.index(number)
        assert len(str(caught.value)) < 300


def test_small_numbers_are_still_exact(table: cn.Table) -> None:
    assert table.where("f > 1e-1999").row_numbers().tolist() == [1]
    assert table.where("f >= -1e-400").row_numbers().tolist() == [0, 1]


@pytest.mark.parametrize("number", ["1e-2000000", "1e2000000", "1e99999999999999999999", "1" * 5000])
def test_a_duration_of_too_many_digits_is_refused(table: cn.Table, number: str) -> None:
    for predicate in (f"took > '{number} s'", col("took") > f"{number} s"):
        with pytest.raises(PredicateError, match="took"):
            table.where(predicate).count()
    assert table.where("took > '2.5e0 s'").count() == 1


def nested(levels: int) -> Predicate:
    made: Predicate = col("n") > 1
    for level in range(levels):
        made = (Not(made), And((made, col("f") < 2)), Or((made, col("s") == "z")))[level % 3]
    return made


def test_a_predicate_nested_too_deeply_is_refused_when_it_is_made() -> None:
    deepest = nested(words.MAX_LEVELS)
    for join in (lambda: ~deepest, lambda: And((deepest,)), lambda: Or((col("n") > 1, deepest))):
        with pytest.raises(PredicateError, match=f"more than {words.MAX_LEVELS} levels"):
            join()


def test_a_predicate_nested_as_deeply_as_allowed_can_be_used(table: cn.Table) -> None:
    deepest = nested(words.MAX_LEVELS)
    assert len(str(deepest)) < len(repr(deepest))
    assert hash(deepest) == hash(nested(words.MAX_LEVELS)) and deepest == nested(words.MAX_LEVELS)
    assert pickle.loads(pickle.dumps(deepest)) == copy.deepcopy(deepest) == deepest
    assert isinstance(table.where(deepest).count(), int)


def test_no_recursion_limit_lets_a_deeper_one_crash() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        with pytest.raises(PredicateError):
            nested(50_000)
    finally:
        sys.setrecursionlimit(limit)


def test_many_predicates_joined_by_one_sign_are_one_level() -> None:
    many = col("n") == 0
    for number in range(1, 1000):
        many = many | (col("n") == number)
    assert many.levels == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("pattern", ["a" * 10_001, "%a" * 101, "_" * 10_001])
def test_a_pattern_that_is_too_long_is_refused(pattern: str) -> None:
    for make in (lambda: col("s").like(pattern), lambda: Like("s", pattern)):
        with pytest.raises(PredicateError, match="column 's' with a pattern of"):
            make()
    with pytest.raises(PredicateError, match="column 's' with a pattern of") as caught:
        parse(f"s like '{pattern}'")
    assert caught.value.position == len("s like ")


@pytest.mark.parametrize(
    "pattern", ["%a" * 100, "_" * 10_000, "\\%" * 5000, "é" * 9_999 + "%", "%" + "a" * 9_998 + "b"]
)
def test_the_longest_patterns_are_matched(table: cn.Table, pattern: str) -> None:
    assert table.where(col("s").like(pattern)).count() == 0


def test_numpy_numbers_are_within_bounds() -> None:
    for value in (np.float64(5e-324), np.uint64(2**64 - 1), np.longdouble("1e-4900")):
        assert (col("f") > value).value is value  # type: ignore[attr-defined]
