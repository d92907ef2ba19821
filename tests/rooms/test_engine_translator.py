"""What `engines.superset` makes of comparisons, value by value, negated or not, by both rules for NaN."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.engines.superset import UNKNOWN, Superset, Translator, all_of, any_of
from colonnade.predicate.expressions import Operator
from colonnade.predicate.tree import Compare, Not

NAN, INF = math.nan, math.inf
VALUES = [NAN, None, -INF, -1.5, -0.0, 0.0, 0.1, 1.5, INF]
OPERATORS: dict[Operator, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cn.Table]:
    path: Path = tmp_path_factory.mktemp("translator") / "x.h5"
    cn.write(path, {"x": pa.array(VALUES, pa.float64()), "row": range(len(VALUES))}, "t")
    with cn.open(path) as file:
        yield file["t"]


def rows_of(table: cn.Table, superset: Superset) -> list[int]:
    if isinstance(superset.rows, bool):
        return list(range(len(table))) if superset.rows else []
    numbers: list[int] = table.where(superset.rows).row_numbers().tolist()
    return numbers


def order(value: float) -> tuple[bool, float]:
    """The place of a value where NaN is the greatest."""
    return math.isnan(value), 0.0 if math.isnan(value) else value


@pytest.mark.parametrize("nan_is_greatest", [False, True])
@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", list(OPERATORS))
def test_comparisons(
    table: cn.Table, name: Operator, value: float | None, negated: bool, nan_is_greatest: bool
) -> None:
    translator = Translator(table.schema, nan_is_greatest=nan_is_greatest)
    superset = translator.compared("x", name, pa.scalar(value, pa.float64()), negated)
    compare, expected = OPERATORS[name], []
    for row, candidate in enumerate(VALUES):
        if candidate is None or value is None:
            continue  # unknown, also negated
        pair = (order(candidate), order(value)) if nan_is_greatest else (candidate, value)
        if compare(*pair) != negated:
            expected.append(row)
    assert superset.exact and rows_of(table, superset) == expected


@pytest.mark.parametrize("values", [[], [None], [0.0], [1.5, None], [NAN], [NAN, 0.1, None]])
@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("null_is_false", [False, True])
@pytest.mark.parametrize("null_matches", [False, True])
def test_sets(
    table: cn.Table, values: list[float | None], negated: bool, null_is_false: bool, null_matches: bool
) -> None:
    if null_matches and not null_is_false:
        return  # no engine has it
    translator = Translator(table.schema, nan_is_greatest=True)
    superset = translator.is_in(
        "x", pa.array(values, pa.float64()), negated, null_is_false=null_is_false, null_matches=null_matches
    )
    expected = []
    for row, candidate in enumerate(VALUES):
        present = [order(value) for value in values if value is not None]
        if candidate is None:
            truth = (None in values and null_matches) if null_is_false else None
        else:
            truth = order(candidate) in present
            if not truth and None in values and not null_is_false:
                truth = None  # it might be the missing value
        if not values and not null_is_false and candidate is None:
            continue  # whether a missing row is in an empty set is not asked
        if truth is not None and truth != negated:
            expected.append(row)
    assert superset.exact and rows_of(table, superset) == expected


def test_what_parts_make_together() -> None:
    low, high = Superset(Compare("x", ">", 1)), Superset(Compare("x", "<", 5))
    unclear, none, every = Superset(True, exact=False), Superset(False), Superset(True)
    assert str(all_of([low, high]).rows) == "x > 1 and x < 5" and all_of([low, high]).exact
    assert str(any_of([low, high]).rows) == "x > 1 or x < 5" and any_of([low, high]).exact
    assert all_of([low, unclear]) == Superset(low.rows, exact=False)
    assert any_of([low, unclear]) == Superset(True, exact=False)
    assert all_of([unclear, none]) == none and any_of([none, none]) == none
    assert any_of([unclear, every]) == every and all_of([every, every]) == every
    assert any_of([low, none]) == low and all_of([low, every]) == low


def test_a_negated_bound_next_to_a_bound_is_an_interval() -> None:
    """Only where the other bound rules NaN out."""
    low, high = Superset(Not(Compare("x", "<", 1))), Superset(Compare("x", "<=", 5))
    assert str(all_of([low, high]).rows) == "x >= 1 and x <= 5"
    assert str(all_of([low, Superset(Compare("y", "<=", 5))]).rows) == "(not x < 1) and y <= 5"
    assert str(all_of([low, Superset(Compare("x", "!=", 5))]).rows) == "(not x < 1) and x != 5"


def test_names_that_two_columns_share_are_not_translated() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("a", pa.int64())])
    translator = Translator(schema, ["x", "y", "z"], nan_is_greatest=False)
    assert translator.name_of("b") == "y"
    with pytest.raises(KeyError):
        translator.compared("a", "==", pa.scalar(1), negated=False)


def test_values_of_other_types_are_left_to_the_engine() -> None:
    schema = pa.schema({"naive": pa.timestamp("us"), "zoned": pa.timestamp("us", "UTC"), "s": pa.string()})
    translator = Translator(schema, nan_is_greatest=False)
    naive, zoned = pa.scalar(5, pa.timestamp("us")), pa.scalar(5, pa.timestamp("us", "Europe/Berlin"))
    assert translator.compared("naive", "<", zoned, negated=False) == UNKNOWN
    assert translator.compared("zoned", "<", naive, negated=False) == UNKNOWN
    assert translator.compared("zoned", "<", zoned, negated=False).exact
    assert translator.compared("s", "==", pa.scalar(b"a"), negated=False) == UNKNOWN
    assert translator.is_in("s", pa.array([1]), negated=False, null_is_false=True) == UNKNOWN
