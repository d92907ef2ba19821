"""Aggregation gives what one row after another, added up in plain Python, gives; and what Arrow's group_by gives.

The oracle works on the cells of `tests.laws.oracle` and shares no code with colonnade. Windows are made short, so that
small tables have many of them, and the numbers of groups that may lie idle few, so that every way to number is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade import limits
from tests.laws.oracle import cells, seconds_in
from tests.laws.predicates import FAMILIES, Column, as_predicate, columns, is_nan, nodes, tables
from tests.laws.test_search import can_be_indexed, expected_rows, wanted_indexes, written

FUNCTIONS = ["count", "min", "max", "sum", "mean"]
OTHERS: list[tuple[Any, ...]] = [
    ("std",), ("std", 0), ("var",), ("var", 0), ("var", 3), ("median",), ("quantile", 0.0), ("quantile", 0.3),
    ("quantile", 0.75), ("quantile", 1), ("count_distinct",), ("first",), ("last",), ("any",), ("all",),
]  # fmt: skip
ROUNDED = ("mean", "median", "quantile", "std")
ANYTHING = [kind for family in FAMILIES.values() for kind in family]
EXAMPLES = max(10, settings().max_examples // 3)
SEEDS = max(40, settings().max_examples // 2)


@contextmanager
def short_windows(wanted: bool) -> Iterator[None]:
    """Limits that only large tables meet are met by small ones."""
    small = {
        "fewest_window_rows": 4, "window_bytes": 64, "piece_bytes": 16, "farthest_apart": 16, "numbered_groups": 3,
        "waiting_groups": 5, "gathered_bytes": 40, "counted_pairs": 6,
    }  # fmt: skip
    with limits.override(**(small if wanted else {})):
        yield


# -- the oracle --


def suits(function: str, kind: pa.DataType) -> bool:
    """Whether a function can be had of a type, as the README says."""
    if function in ("count", "count_distinct", "first", "last"):
        return True
    if function in ("any", "all"):
        return bool(pa.types.is_boolean(kind))
    if function in ("min", "max"):
        return not pa.types.is_dictionary(kind) or kind.ordered
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if function in ("median", "quantile"):
        return numbers or pa.types.is_temporal(kind)
    if pa.types.is_temporal(kind):
        return function == "mean" or (pa.types.is_duration(kind) and function in ("sum", "std"))
    return numbers or pa.types.is_boolean(kind)


def places_in_order(column: Column) -> list[Any]:
    """What each row is ordered by: the place of its category where these have an order, else its cell."""
    if pa.types.is_dictionary(column.kind) and column.kind.ordered:
        return [None if code is None else Fraction(code) for code in column.array_of(column.items).indices.to_pylist()]
    return column.cells


def least_row(column: Column, rows: Sequence[int], function: str) -> int | None:
    """A row that holds the least or the greatest value; NaN only where there is nothing else; None without a value."""
    order = places_in_order(column)
    best = None
    for row in rows:
        if order[row] is None:
            continue
        if best is None or is_nan(order[best]) or comes_before(order[row], order[best], function):
            best = row
    return best


def comes_before(one: Any, other: Any, function: str) -> bool:
    """Whether one is less than the other, or, of max, greater; NaN is neither."""
    return bool(one < other if function == "min" else one > other)


def added(found: Sequence[Any]) -> Any:
    """The sum: exact, or an infinity, or NaN."""
    odd = [cell for cell in found if isinstance(cell, float)]
    if any(map(math.isnan, odd)) or len(set(odd)) > 1:
        return math.nan
    return odd[0] if odd else sum(found, Fraction(0))


def expected(function: str, column: Column, rows: Sequence[int], parameter: Any = None) -> Any:
    """What a function gives, as a cell."""
    found: list[Any] = [column.cells[row] for row in rows if column.cells[row] is not None]
    if function == "count":
        return Fraction(len(found))
    if function == "count_distinct":
        return Fraction(len({"nan" if is_nan(cell) else cell for cell in found}))
    if not found:
        return None
    if function in ("first", "last"):
        return found[0 if function == "first" else -1]
    if function in ("min", "max", "any", "all"):
        row = least_row(column, rows, "max" if function in ("max", "any") else "min")
        assert row is not None
        return column.cells[row]
    if function in ("std", "var"):
        return spread_out(found, 1 if parameter is None else parameter, column.kind, function)
    if function in ("median", "quantile"):
        return in_unit(between(found, 0.5 if parameter is None else parameter), column.kind)
    total = added(found)
    return in_unit(total / len(found), column.kind) if function == "mean" else total


def in_unit(cell: Any, kind: pa.DataType) -> Any:
    """A time, rounded down to the unit that its type counts in."""
    if not pa.types.is_temporal(kind):
        return cell
    unit = Fraction(86400) if pa.types.is_date64(kind) else seconds_in(kind)
    return math.floor(cell / unit) * unit


def between(found: Sequence[Any], q: float) -> Any:
    """The quantile of what is not NaN, from Fractions: NaN where all are."""
    order = sorted(cell for cell in found if not is_nan(cell))
    if not order:
        return math.nan
    place = q * (len(order) - 1)
    low, high = order[math.floor(place)], order[math.ceil(place)]
    if low == high or place == math.floor(place):
        return low
    if isinstance(low, float) or isinstance(high, float):
        return low + high  # an infinity, or NaN between both
    return low + (high - low) * (Fraction(place) - math.floor(place))


def spread_out(found: Sequence[Any], ddof: int, kind: pa.DataType, function: str) -> Any:
    """A variance from Fractions, or its root from the decimals of its digits."""
    if len(found) <= ddof:
        return None
    if any(isinstance(cell, float) for cell in found):
        return math.nan
    mean = sum(found, Fraction(0)) / len(found)
    squares = sum(((cell - mean) ** 2 for cell in found), Fraction(0)) / (len(found) - ddof)
    if function == "var":
        return squares
    root = Context(prec=60).sqrt(Context(prec=200).divide(Decimal(squares.numerator), Decimal(squares.denominator)))
    return in_unit(Fraction(root), kind)


def group_of(table: Sequence[Column], row: int) -> tuple[Any, ...]:
    """What rows of one group have in common."""
    return tuple("nan" if is_nan(column.cells[row]) else column.cells[row] for column in table)


def group_order(table: Sequence[Column], row: int) -> tuple[Any, ...]:
    """Groups in increasing order of their values, NaN behind the numbers, missing last."""
    order = [places_in_order(column)[row] for column in table]
    return tuple((2, 0) if one is None else (1, 0) if is_nan(one) else (0, one) for one in order)


def expected_groups(by: Sequence[Column], rows: Sequence[int]) -> list[list[int]]:
    """The rows of each group, in the order of the groups."""
    found: dict[Any, list[int]] = {}
    for row in rows:
        found.setdefault(group_of(by, row), []).append(row)
    return sorted(found.values(), key=lambda members: group_order(by, members[0]))


def is_right(got: Any, truth: Any, function: str, column: Column, rows: Sequence[int], parameter: Any = None) -> bool:
    """Whether a cell is what is expected; sums of floats up to what float64 loses."""
    sizes: Any = [abs(cell) for row in rows if isinstance(cell := column.cells[row], Fraction)]
    if function in ("std", "var") and any(cell > 10**150 for cell in sizes):
        return True  # its square is larger than a float64
    if got is None or truth is None or is_nan(got) or is_nan(truth):
        return (got is None, is_nan(got)) == (truth is None, is_nan(truth))
    if function in ("std", "var"):
        unit = seconds_in(column.kind) if pa.types.is_temporal(column.kind) else Fraction(0)
        return bool(abs(Fraction(got) - truth) <= truth * Fraction(1, 10**12) + unit + Fraction(1, 10**300))
    if function in ("sum", "mean") and pa.types.is_floating(column.kind):
        if truth in (math.inf, -math.inf):
            return bool(got == truth)
        size = sum(sizes)
        return size > 1e307 or abs(Fraction(got) - truth) <= size * Fraction(1, 10**15) + Fraction(1, 10**320)
    if function in ROUNDED and not pa.types.is_temporal(column.kind):
        if truth in (math.inf, -math.inf):
            return bool(got == truth)
        if function == "mean":
            return bool(got == Fraction(float(truth)))
        size = max(sizes, default=0)
        return bool(abs(Fraction(got) - truth) <= size * Fraction(1, 10**15) + Fraction(1, 10**320))
    return bool(got == truth)


# -- what is asked --


def asked_of(table: Sequence[Column]) -> dict[str, tuple[Any, ...]]:
    """Every function that suits, of every column."""
    return {
        f"{function} {column.name}": (column.name, *function)
        for column in table
        for function in (*((name,) for name in FUNCTIONS), *OTHERS)
        if suits(function[0], column.kind)
    }


@st.composite
def row_choices(draw: st.DrawFn, table: list[Column]) -> tuple[Any, list[int], str]:
    """A way to choose rows of a table, the rows it gives, and its name."""
    n = len(table[0].items)
    every = range(n)
    how = draw(st.sampled_from(["all", "all", "slice", "stride", "take", "where", "where", "where in rows", "first"]))
    node = draw(nodes(table))
    true = expected_rows(node, table)
    cut = slice(draw(st.integers(0, n)), draw(st.integers(0, n)))
    if how == "slice":
        return (lambda t: t[cut]), list(every[cut]), how
    if how == "stride":
        step = draw(st.sampled_from([2, 3, -1, -2]))
        return (lambda t: t[::step]), list(every[::step]), how
    if how == "take":
        numbers = draw(st.lists(st.integers(0, n - 1), max_size=12)) if n else []
        return (lambda t: t.take(numbers)), numbers, how
    if how == "where":
        return (lambda t: t.where(as_predicate(node))), true, f"{how} {as_predicate(node)}"
    if how == "where in rows":
        kept = [row for row in every[cut] if row in set(true)]
        return (lambda t: t[cut].where(as_predicate(node))), kept, f"{how} {as_predicate(node)}"
    if how == "first":
        return (lambda t: t.where(as_predicate(node))[:3]), true[:3], how
    return (lambda t: t), list(every), how


def wrong_cells(
    got: Sequence[Any], name: str, asked: tuple[Any, ...], column: Column, members: Sequence[Sequence[int]]
) -> list[str]:
    """What is not as expected, a group a line."""
    assert len(got) == len(members), f"{name}: {len(got)} groups, expected {len(members)}"
    lines = []
    _, function, *parameter = asked
    for cell, rows in zip(got, members, strict=True):
        truth = expected(function, column, rows, *parameter)
        if not is_right(cell, truth, function, column, rows, *parameter):
            lines.append(f"{name} of rows {list(rows)}: {cell}, expected {truth}")
    return lines


def without_large_sums(asked: dict[str, tuple[Any, ...]], table: Sequence[Column], members: Any) -> dict[str, Any]:
    """Leave out sums that their type cannot hold: those are refused (see tests.rooms.test_aggregate)."""
    by_name = {column.name: column for column in table}
    kept = {}
    for name, one in asked.items():
        column, function = one[:2]
        kind = by_name[column].kind
        if function == "sum" and not pa.types.is_floating(kind):
            unit = 1
            if pa.types.is_decimal(kind):
                low = high = 10 ** (38 if kind.bit_width <= 128 else 76) - 1
                unit = Fraction(1, 10**kind.scale) if kind.scale >= 0 else Fraction(10**-kind.scale)  # type: ignore[assignment]
                low = -high
            elif pa.types.is_unsigned_integer(kind) or pa.types.is_boolean(kind):
                low, high = 0, 2**64 - 1
            else:
                low, high = -(2**63), 2**63 - 1
            if pa.types.is_duration(kind):
                unit = Fraction(1, {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit])  # type: ignore[assignment]
            sums = [expected("sum", by_name[column], rows) for rows in members]
            if any(total is not None and not low <= total / unit <= high for total in sums):
                continue
        kept[name] = one
    return kept


# -- the laws --


def table_strategy(draw: Any) -> list[Column]:
    """A table of any types, or mostly of numbers to be added up."""
    kinds = draw(st.sampled_from([ANYTHING, FAMILIES["integers"], FAMILIES["floats"], FAMILIES["categories"]]))
    return draw(tables(kinds))


def python_of(column: Column, row: int) -> Any:
    """The Python value of a row, where Arrow itself can make one."""
    return column.array_of([column.items[row]]).to_pylist()[0]


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_values_of_all_rows_are_those_of_one_row_after_another(data: st.DataObject) -> None:
    """A dict: every function of every column, of rows chosen in every way, with and without indexes."""
    table = table_strategy(data.draw)
    choose, rows, how = data.draw(row_choices(table))
    note(how)
    asked = without_large_sums(asked_of(table), table, [rows])
    alone = data.draw(st.booleans())  # a function alone is answered from an index where one knows
    with (
        short_windows(data.draw(st.booleans())),
        written(table, data.draw(wanted_indexes(table))) as path,
        cn.open_table(path) as opened,
    ):
        hold_values(choose(opened), table, rows, asked, alone)


def hold_values(
    chosen: Any, table: Sequence[Column], rows: Sequence[int], asked: dict[str, tuple[Any, ...]], alone: bool
) -> None:
    """What is asked of these rows, all together or each alone, is what the oracle says."""
    if alone:
        got = {name: chosen.aggregate(**{name: one})[name] for name, one in asked.items()}
    else:
        got = chosen.aggregate(n="count", **asked)
        assert got.pop("n") == len(rows)
    assert list(got) == list(asked)
    by_name = {column.name: column for column in table}
    wrong = []
    for name, one in asked.items():
        of, function = one[:2]
        column, value = by_name[of], got[name]
        if function in ("min", "max", "first", "last"):
            wrong += wrong_value(value, name, function, column, rows)
        elif not pa.types.is_temporal(column.kind) or function in ("count", "count_distinct"):
            odd = isinstance(value, float) and not math.isfinite(value)
            cell = value if odd or value is None else Fraction(value)
            wrong += wrong_cells([cell], name, one, column, [rows])
    assert wrong == []


def wrong_value(value: Any, name: str, function: str, column: Column, rows: Sequence[int]) -> list[str]:
    """What is wrong with a value of a column, which is compared as Python has it."""
    if function in ("min", "max"):
        row = least_row(column, rows, function)
    else:
        present = [row for row in rows if column.cells[row] is not None]
        row = (present[0 if function == "first" else -1]) if present else None
    try:
        truth = None if row is None else python_of(column, row)
    except (ValueError, OverflowError, KeyError, pa.ArrowException):
        return []  # a time that Python cannot hold
    # Arrow gives the least timestamp of 64 bits as pandas' NaT, which equals nothing.
    both_odd = (is_nan(value) and is_nan(truth)) or repr(value) == repr(truth) == "NaT"
    return [] if value == truth or both_odd else [f"{name}: {value!r}, expected {truth!r}"]


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_values_of_groups_are_those_of_one_row_after_another(data: st.DataObject) -> None:
    """A table: groups by one and by two columns, in their order, whatever the type."""
    table = table_strategy(data.draw)
    n_rows = len(table[0].items)
    if len(table) == 1 and data.draw(st.booleans()):
        table.append(data.draw(columns("key", ANYTHING, n_rows)))
    choose, rows, how = data.draw(row_choices(table))
    by = data.draw(st.permutations(table))[: data.draw(st.sampled_from([1, 1, 2]))]
    note(f"{how}, by {[column.name for column in by]}")
    members = expected_groups(by, rows)
    asked = without_large_sums(asked_of(table), table, members)
    few = data.draw(st.booleans())
    asked = dict(list(asked.items())[:1]) if few else asked
    with (
        short_windows(data.draw(st.booleans())),
        written(table, data.draw(wanted_indexes(table))) as path,
        cn.open_table(path) as opened,
    ):
        hold_groups(choose(opened), table, by, members, asked)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_zeros_of_both_signs_are_one_group(tmp_path: Path, kind: pa.DataType) -> None:
    """Also where they are two categories: as in a column of floats, and in `where("x == 0")`."""
    codes = pa.array([0, 1, 2, 2, 3], pa.int8())
    zeros = pa.DictionaryArray.from_arrays(codes, pa.array([0.0, -0.0, math.nan, -1.5]).cast(kind))
    cn.write(tmp_path / "z.h5", pa.table({"x": zeros}), table="t")
    with cn.open_table(tmp_path / "z.h5") as table:
        assert table.where("x == 0").count() == 2
        assert table.aggregate(n="count", by="x")["n"].to_pylist() == [1, 2, 2]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_all_nan_are_one_group(tmp_path: Path, kind: pa.DataType) -> None:
    """Also where they are two categories, with other bits: Arrow takes these for two values."""
    values = np.array([math.nan, -math.nan, 1.5]).astype(kind.to_pandas_dtype())
    assert np.signbit(values).tolist() == [False, True, False]
    categories = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1], pa.int8()), pa.array(values, from_pandas=False))
    cn.write(tmp_path / "n.h5", pa.table({"x": categories}), table="t")
    with cn.open_table(tmp_path / "n.h5") as table:
        assert table.aggregate(n="count", by="x")["n"].to_pylist() == [1, 3]


def hold_groups(
    chosen: Any, table: Sequence[Column], by: Sequence[Column], members: Sequence[Sequence[int]], asked: dict[str, Any]
) -> None:
    """The groups, their order, and what is asked of them, are what the oracle says."""
    got, schema = chosen.aggregate(n="count", **asked, by=[column.name for column in by]), chosen.schema
    got.validate(full=True)
    assert got.column_names == [*(column.name for column in by), "n", *asked]
    assert got["n"].to_pylist() == [len(one) for one in members]
    for column in by:
        assert got.schema.field(column.name).type == schema.field(column.name).type
        keys = [group_of([column], row)[0] for row in (one[0] for one in members)]
        assert ["nan" if is_nan(cell) else cell for cell in cells(got[column.name].combine_chunks())] == keys
    by_name = {column.name: column for column in table}
    wrong = []
    for name, one in asked.items():
        of, function = one[:2]
        if function in ("min", "max", "first", "last"):
            assert got[name].type == schema.field(of).type
        found = cells(got[name].combine_chunks())
        wrong += wrong_cells(found, name, one, by_name[of], members)
    assert wrong == []


# -- tables of few values, all of them odd --


def odd_values(kind: pa.DataType) -> list[Any]:
    """A few values of a type, its ends and what is special among them."""
    if pa.types.is_dictionary(kind):
        return odd_values(kind.value_type)
    if pa.types.is_boolean(kind):
        return [True, False]
    if pa.types.is_integer(kind):
        bounds = np.iinfo(kind.to_pandas_dtype())
        return [int(bounds.min), 0, 1, 2, 7, int(bounds.max) - 1, int(bounds.max)]
    if pa.types.is_floating(kind):
        return [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, -2.25, 1000.0]
    if pa.types.is_decimal(kind):
        return [Decimal(n).scaleb(-kind.scale) for n in (-(10**5) + 1, -1, 0, 1, 2, 10**5 - 1)]
    if pa.types.is_time(kind) or pa.types.is_date(kind):
        return [day * 86_400_000 for day in (0, 1, 9)] if pa.types.is_date64(kind) else [0, 1, 5, 86_000]
    if pa.types.is_temporal(kind):
        return [-5, 0, 1, 2, 10**9, 2**62]
    if pa.types.is_fixed_size_binary(kind):
        return [head.ljust(kind.byte_width, b"\0") for head in (b"", b"a", b"\xff")]
    words = ["", "a", "ab", "b", "é", "z", "NA"]
    return words if pa.types.is_string(kind) else [word.encode() for word in words]


def odd_column(random: Random, name: str, kinds: Sequence[pa.DataType], n_rows: int) -> Column:
    """A column of few of these values, some, all or none of them missing."""
    kind = random.choice(kinds)
    known = odd_values(kind)
    pool = random.sample(known, random.choice([1, min(3, len(known)), len(known)]))
    missing = random.choice([0, 0, 0.2, 0.2, 1])
    items = [None if random.random() < missing else random.choice(pool) for _ in range(n_rows)]
    options: dict[str, Any] = {"chunk_rows": random.choice([1, 3, 7, 64])}
    if pa.types.is_floating(kind) and random.random() < 0.2:
        options["fill"] = math.nan
    return Column(name, kind, pool, items, options)


def odd_choices(random: Random, chosen_by: Column) -> Iterator[tuple[Any, list[int]]]:
    """Every way to choose rows, and the rows it gives."""
    n = len(chosen_by.items)
    numbers = [random.randrange(n) for _ in range(n)] if n else []
    true = [row for row, item in enumerate(chosen_by.items) if 2 <= item < 8]
    yield (lambda t: t), list(range(n))
    yield (lambda t: t[n // 3 : n - 1]), list(range(n)[n // 3 : n - 1])
    yield (lambda t: t[::-2]), list(range(n)[::-2])
    yield (lambda t: t.take(numbers)), numbers
    yield (lambda t: t.where("r >= 2 and r < 8")), true
    yield (lambda t: t.where("r >= 2 and r < 8")[: n // 2]), true[: n // 2]
    yield (lambda t: t.take(numbers).where("r >= 2 and r < 8")), [row for row in numbers if row in set(true)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_few_odd_values_in_every_way(seed: int) -> None:
    """All rows and groups of one and two columns, of rows chosen in every way, in short windows and in long ones."""
    random = Random(seed)
    n_rows = random.choice([0, 1, 11, 40, 40])
    kinds = list(FAMILIES.values())
    added_up = [*FAMILIES["integers"], *FAMILIES["floats"]]
    table = [
        odd_column(random, "x", random.choice([added_up, random.choice(kinds)]), n_rows),
        odd_column(random, "y", random.choice(kinds), n_rows),
        odd_column(random, "v", FAMILIES["floats"], n_rows),
        Column("r", pa.int16(), list(range(10)), [random.randrange(10) for _ in range(n_rows)], {"chunk_rows": 5}),
    ]
    indexed = {c.name: ["chunk_minmax"] for c in table if can_be_indexed(c)} if random.random() < 0.5 else {}
    with short_windows(seed % 2 == 0), written(table, indexed) as path, cn.open_table(path) as opened:
        for choose, rows in odd_choices(random, table[3]):
            every = without_large_sums(asked_of(table), table, [rows])
            hold_values(choose(opened), table, rows, every, alone=random.random() < 0.3)
            by = random.sample(table[:3], random.choice([1, 2]))
            members = expected_groups(by, rows)
            hold_groups(choose(opened), table, by, members, without_large_sums(asked_of(table), table, members))


# -- a peer --


PEER_KEYS = [pa.int8(), pa.uint16(), pa.int64(), pa.bool_(), pa.string(), pa.timestamp("us"), pa.date32()]
NO_NUMBERS = pa.table({"k": [1], "v": [math.nan]}).group_by("k").aggregate([("v", "min")])
LOSES_NAN = NO_NUMBERS["v_min"].to_pylist() != [None] and not math.isnan(NO_NUMBERS["v_min"][0].as_py())
"""Whether this Arrow takes inf for the least of a group of nothing but NaN, as Arrow 21 does."""
PEER_VALUES = [pa.int8(), pa.int32(), pa.uint8(), pa.float32(), pa.float64(), pa.bool_()]


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_arrow_groups_the_same(data: st.DataObject) -> None:
    """Arrow's own group_by of what the table reads as."""
    n_rows = data.draw(st.integers(0, 30))
    keys = [data.draw(columns(name, PEER_KEYS, n_rows)) for name in ("k", "l")][: data.draw(st.integers(1, 2))]
    value = data.draw(columns("v", PEER_VALUES, n_rows))
    names = [column.name for column in keys]
    asked = {name: ("v", name) for name in FUNCTIONS}
    with (
        short_windows(data.draw(st.booleans())),
        written([*keys, value], {}) as path,
        cn.open_table(path) as opened,
    ):
        got = opened.aggregate(**asked, by=names)
        whole = opened.to_arrow()
    order = [(name, "ascending") for name in names]
    peer = whole.group_by(names, use_threads=False).aggregate([("v", name) for name in FUNCTIONS]).sort_by(order)
    for name in names:
        assert cells(got[name].combine_chunks()) == cells(peer[name].combine_chunks())
    size = sum(abs(cell) for cell in map(float, filter(None, value.cells)) if math.isfinite(cell))  # type: ignore[arg-type, misc]
    for name in FUNCTIONS:
        assert got[name].type == peer[f"v_{name}"].type
        for mine, other in zip(got[name].to_pylist(), peer[f"v_{name}"].to_pylist(), strict=True):
            if LOSES_NAN and name in ("min", "max") and isinstance(mine, float) and math.isnan(mine):
                continue
            assert is_close(mine, other, size if name in ("sum", "mean") else 0.0), name


def is_close(mine: Any, other: Any, size: float) -> bool:
    """Whether two values are equal; sums of floats up to what Arrow, which adds them one after another, loses."""
    if not isinstance(other, float) or not isinstance(mine, float):
        return bool(mine == other)
    if math.isnan(other) or math.isinf(other) or size > 1e307:
        return mine == other or (math.isnan(mine) and math.isnan(other)) or size > 1e307
    return abs(mine - other) <= size * 1e-13
