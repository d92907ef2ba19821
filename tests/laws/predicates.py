"""Hypothesis strategies: columns of every type that can be searched, and predicates about them.

Predicates are trees of the oracle's own nodes. Here they become predicates of colonnade, expressions of pyarrow, SQL.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, reduce
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

import colonnade as cn
from tests.laws.oracle import (
    COMPARISONS,
    PER_SECOND,
    Cell,
    How,
    Joined,
    Leaf,
    Negated,
    Node,
    Value,
    cells,
    pattern_parts,
    plain_cell,
    seconds_in,
)
from tests.laws.strategies import DECIMALS, FLOATS, INTEGERS, TEMPORAL, make_array, values

NAMES = ["x", "y y", "in"]
CHUNK_LENGTHS = [1, 3, 7, 64]
NAN, INF = math.nan, math.inf

FAMILIES: dict[str, list[pa.DataType]] = {
    "integers": INTEGERS,
    "floats": FLOATS,
    "booleans": [pa.bool_()],
    "text": [pa.string()],
    "bytes": [pa.binary(), pa.binary(1), pa.binary(7)],
    "times": TEMPORAL,
    "decimals": DECIMALS,
    "categories": [
        pa.dictionary(pa.int32(), value, ordered)
        for value in (pa.string(), pa.int16(), pa.float64(), pa.timestamp("us"), pa.binary(), pa.decimal128(30, 2))
        for ordered in (False, True)
    ],
}


@dataclass(frozen=True)
class Column:
    """A column to be written: `items` as `make_array` takes them, the pool they were drawn from, and options."""

    name: str
    kind: pa.DataType
    pool: list[Any]
    items: list[Any]
    options: dict[str, Any] = field(default_factory=dict)

    def array_of(self, items: Sequence[Any]) -> pa.Array:
        """Some items as this column's type; categories are those of the pool, whatever the items."""
        if not pa.types.is_dictionary(self.kind):
            return make_array(list(items), self.kind)
        return make_array([*self.pool, *items], self.kind).slice(len(self.pool))

    def cells_of(self, items: Sequence[Any]) -> list[Cell]:
        """Some items as cells; with a NaN fill, NaN is missing."""
        found = cells(self.array_of(items))
        return [None if is_nan(cell) else cell for cell in found] if "fill" in self.options else found

    @cached_property
    def cells(self) -> list[Cell]:
        """The rows as cells."""
        return self.cells_of(self.items)

    @property
    def value_kind(self) -> pa.DataType:
        """The type of the values, also of a categorical."""
        return self.kind.value_type if pa.types.is_dictionary(self.kind) else self.kind

    @cached_property
    def pool_cells(self) -> list[Any]:
        """The values that rows were drawn from."""
        return cells(make_array(self.pool, self.value_kind))


def is_nan(cell: Cell) -> bool:
    return isinstance(cell, float) and math.isnan(cell)


# -- columns --


@st.composite
def columns(draw: st.DrawFn, name: str, kinds: list[pa.DataType], n_rows: int) -> Column:
    """A column of one of these types and so many rows, most of which are equal to others."""
    kind = draw(st.sampled_from(kinds))
    options: dict[str, Any] = {"chunk_rows": draw(st.sampled_from(CHUNK_LENGTHS))}
    allowed = item_values(kind)
    if pa.types.is_floating(kind) and draw(st.integers(0, 3)) == 0:
        options["fill"] = NAN
    if kind == pa.string():
        options["strings"] = draw(st.sampled_from(["auto", "fixed", "variable"]))
        if options["strings"] != "auto":
            allowed = allowed.filter(lambda text: "\0" not in text)
    if pa.types.is_dictionary(kind) and kind.value_type == pa.string() and n_rows and draw(st.booleans()):
        options["enum"] = True
        kind, allowed = pa.dictionary(pa.int32(), pa.string()), st.text("abé '", min_size=1, max_size=3)
    pool = draw(st.lists(allowed, min_size=draw(st.sampled_from([1, 4])), max_size=8))
    lowest = draw(st.sampled_from([0, 0, -1, -len(pool)]))  # how often a row is missing: never, seldom, every other
    places = draw(st.lists(st.integers(lowest, len(pool) - 1), min_size=n_rows, max_size=n_rows))
    items = [None if place < 0 else pool[place] for place in places]
    return Column(name, kind, pool, items, options)


def item_values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Any value of a type, half of them near each other."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return st.one_of(values(inner), near_values(inner))


def near_values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values that are near each other, or odd."""
    if pa.types.is_integer(kind):
        return st.integers(0, 6) if pa.types.is_unsigned_integer(kind) else st.integers(-3, 3)
    if pa.types.is_floating(kind):
        narrow = kind.to_pandas_dtype()
        return st.sampled_from([float(narrow(x)) for x in (NAN, -1.5, -0.0, 0.0, 0.1, 1.0, 2.5, NAN, INF, -INF)])
    if pa.types.is_decimal(kind):
        return st.integers(-3, 3).map(lambda n: Decimal(n).scaleb(-kind.scale))
    if pa.types.is_date32(kind):
        return st.integers(20_000, 20_003)
    if pa.types.is_date64(kind):
        return st.integers(20_000, 20_003).map(lambda day: day * 86_400_000)
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return st.integers(0, 3)
    if pa.types.is_timestamp(kind):
        return st.integers(-2, 2).map(lambda n: n + 1_770_000_000 * PER_SECOND[kind.unit])
    if pa.types.is_string(kind):
        return st.one_of(st.text("ab%_\\é\n'`\"", max_size=4), st.sampled_from(["", "NA", "\U0010ffff", "ab" * 300]))
    if pa.types.is_fixed_size_binary(kind):
        return st.binary(max_size=1).map(lambda head: head.ljust(kind.byte_width, b"\0"))
    return (
        st.sampled_from([b"", b"\0", b"\xff", b"\xff\xff", b"a", b"ab", b"<NA>"])
        if kind == pa.binary()
        else values(kind)
    )


@st.composite
def tables(draw: st.DrawFn, kinds: list[pa.DataType], most_rows: int = 30) -> list[Column]:
    """One to three columns of equal length: most of these types, a column of any type among them."""
    n_rows = draw(st.one_of(st.integers(0, most_rows), st.integers(8, most_rows)))
    times = draw(st.sampled_from([1, 1, 1, 5]))
    anything = [kind for family in FAMILIES.values() for kind in family]
    n_columns = draw(st.integers(1, 3))
    made = [draw(columns(NAMES[i], kinds if i != 1 else anything, n_rows)) for i in range(n_columns)]
    made = [replace(column, items=column.items * times) for column in made]
    return [spread(column) if times > 1 and draw(st.booleans()) else column for column in made]


def spread(column: Column) -> Column:
    """The column with many different values in two of three rows, in no order."""
    many = [value for value in many_values(column.value_kind) if "enum" not in column.options]
    if not many:
        return column
    items = [many[7 * row % len(many)] if row % 3 else item for row, item in enumerate(column.items)]
    return replace(column, pool=[*column.pool, *many], items=items)


def many_values(kind: pa.DataType) -> list[Any]:
    """Eighty different values of a type, where it has as many."""
    if pa.types.is_decimal(kind):
        return [Decimal(i).scaleb(-kind.scale) for i in range(80)]
    if pa.types.is_integer(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return list(range(80))
    if pa.types.is_floating(kind):
        return [i / 4 - 5 for i in range(80)]
    if pa.types.is_string(kind):
        return [f"{'ab' * (i % 20)}{i}" for i in range(80)]
    return [bytes([i]) * (i % 20) + bytes([i]) for i in range(80)] if kind == pa.binary() else []


# -- values of predicates --


def literals(column: Column) -> st.SearchStrategy[Value]:
    """Values that a column may be compared with: those it holds, their neighbours, others, in every form."""
    kind, pool = column.value_kind, column.pool_cells
    if pa.types.is_boolean(kind):
        return st.sampled_from([True, False, 0, 1, np.True_, np.False_]).map(lambda v: Value(v, Fraction(int(v))))
    if pa.types.is_duration(kind):
        return exact_times(kind, pool).flatmap(durations)
    if pa.types.is_time(kind):
        return exact_times(kind, pool).flatmap(times_of_day)
    if pa.types.is_temporal(kind):
        zoned = pa.types.is_timestamp(kind) and kind.tz is not None
        return exact_times(kind, pool).flatmap(lambda seconds: instants(seconds, zoned))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return numbers(kind, pool)
    return texts(kind, pool)


def exact_number(value: Any, kind: pa.DataType) -> Cell:
    """What a number means; against decimals, the float 0.1 means the decimal 0.1."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and pa.types.is_decimal(kind):
        value = Decimal(repr(value))
    return plain_cell(value)


ODD_NUMBERS = [
    2.5, -0.5, 0.1, -0.0, 0, 1, 2**70, -(2**70), 10**310, -(10**310), 1e300, -1e300, NAN, INF, -INF,
    Decimal("0.1"), Decimal("2.5"), Decimal("1E+30"), Decimal("-1E-30"), np.float32(0.1), np.float16(0.1),
    np.uint64(2**64 - 1), np.int8(-128), np.float64(NAN), 2**63, 2**63 - 1, -(2**63), 2**53 + 1, 9.969209968386869e36,
]  # fmt: skip
SHIFTS = [Fraction(0)] * 6 + [Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-1, 2), Fraction(1, 10**30)]


def numbers(kind: pa.DataType, pool: list[Any]) -> st.SearchStrategy[Value]:
    """Numbers in any form: whole, float, decimal, NumPy's."""
    finite = [cell for cell in pool if isinstance(cell, Fraction)] or [Fraction(0)]
    near = st.builds(operator.add, st.sampled_from(finite), st.sampled_from(SHIFTS))
    given = st.one_of(
        st.builds(number_as, near, st.sampled_from(["int", "float", "float", "Decimal", "numpy", "next", "before"])),
        st.sampled_from(ODD_NUMBERS),
    )
    return given.map(lambda value: Value(value, exact_number(value, kind)))


def number_as(number: Fraction, form: str) -> Any:
    """The number, or one near it, in this form."""
    if form == "int" or (form == "numpy" and not -(2**63) <= number < 2**64):
        return math.floor(number)
    if form == "Decimal":
        digits = Context(prec=90)
        return digits.divide(Decimal(number.numerator), Decimal(number.denominator))
    if form == "numpy" and number.denominator == 1:
        return np.int64(int(number)) if number < 2**63 else np.uint64(int(number))
    try:
        nearest = float(number)
    except OverflowError:
        nearest = INF
    return nearest if form in ("float", "numpy") else math.nextafter(nearest, INF if form == "next" else -INF)


def exact_times(kind: pa.DataType, pool: list[Any]) -> st.SearchStrategy[Fraction]:
    """Seconds: those of a row, shifted by a unit of the column, by less, or not; or any."""
    unit = seconds_in(kind)
    shifts = [Fraction(0)] * 4 + [unit, -unit, unit / 2, -unit / 2, Fraction(1, 10**9), Fraction(-1, 10**18)]
    near = st.builds(operator.add, st.sampled_from(pool), st.sampled_from(shifts))
    return st.one_of(near, near, st.integers(-(10**12), 10**12).map(Fraction), st.just(Fraction(0)))


NUMPY_SECONDS = {"D": Fraction(86400), "h": Fraction(3600), "m": Fraction(60)} | {
    unit: Fraction(1, parts) for unit, parts in PER_SECOND.items()
}
FIRST_SECOND, END_OF_TIME = -62_135_596_800, 253_402_300_800  # of the years 1 to 9999


def down_to(seconds: Fraction, per_second: int, low: int, high: int) -> Fraction:
    """Seconds in whole parts of so many a second, from low up to but without high."""
    inside = min(max(seconds, Fraction(low)), high - Fraction(1, per_second))
    return Fraction(math.floor(inside * per_second), per_second)


def decimal_text(number: Fraction) -> str:
    """A number with at most 18 digits behind the point, as text."""
    whole, part = divmod(abs(number), 1)
    digits = f"{int(part * 10**18):018d}".rstrip("0")
    return f"{'-' if number < 0 else ''}{int(whole)}{'.' + digits if digits else ''}"


def clock_text(seconds: Fraction) -> str:
    """Seconds since midnight as a time of day."""
    minutes, rest = divmod(seconds, 60)
    whole, dot, digits = decimal_text(rest).partition(".")
    return f"{int(minutes) // 60:02d}:{int(minutes) % 60:02d}:{whole.zfill(2)}{dot}{digits}"


def instants(seconds: Fraction, zoned: bool) -> st.SearchStrategy[Value]:
    """A moment as text, datetime, date, or NumPy's; with a time zone where the column has one."""
    hours = st.sampled_from([0, 2, -5, 14]) if zoned else st.none()
    makers = st.sampled_from([instant_text, instant_text, instant_datetime, instant_date])
    of_numpy = st.sampled_from(["D", "h", "m", "s", "ms", "us", "ns"]).map(lambda unit: instant_numpy(seconds, unit))
    return st.one_of(st.builds(lambda make, zone: make(seconds, zone), makers, hours), of_numpy)


def instant_text(seconds: Fraction, hours: int | None) -> Value:
    exact = down_to(seconds, 10**18, FIRST_SECOND + 86400, END_OF_TIME - 86400)
    day, rest = divmod(exact + 3600 * (hours or 0), 86400)
    zone = "" if hours is None else "Z" if hours == 0 else f"{hours:+03d}:00"
    date = (dt.date(1970, 1, 1) + dt.timedelta(days=int(day))).isoformat()
    return Value(f"{date}T{clock_text(rest)}{zone}", exact)


def instant_datetime(seconds: Fraction, hours: int | None) -> Value:
    exact = down_to(seconds, 10**6, FIRST_SECOND + 86400, END_OF_TIME - 86400)
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(exact * 10**6))
    if hours:
        moment = moment.replace(tzinfo=dt.UTC).astimezone(dt.timezone(dt.timedelta(hours=hours)))
    return Value(moment, exact)


def instant_date(seconds: Fraction, _hours: int | None) -> Value:
    days = math.floor(down_to(seconds, 1, FIRST_SECOND, END_OF_TIME) / 86400)
    return Value(dt.date(1970, 1, 1) + dt.timedelta(days=days), Fraction(days * 86400))


def instant_numpy(seconds: Fraction, unit: str) -> Value:
    length = NUMPY_SECONDS[unit]
    low, high = (max(FIRST_SECOND, -(2**63 - 1) * length), min(END_OF_TIME - 1, (2**63 - 1) * length))
    count = math.floor(min(max(seconds, low), high) / length)
    return Value(np.datetime64(count, unit), count * length)


def times_of_day(seconds: Fraction) -> st.SearchStrategy[Value]:
    """A time of day as text or time."""
    fine, coarse = down_to(seconds, 10**18, 0, 86400), down_to(seconds, 10**6, 0, 86400)
    moment = (dt.datetime.min + dt.timedelta(microseconds=int(coarse * 10**6))).time()
    return st.sampled_from([Value(clock_text(fine), fine), Value(moment, coarse)])


def durations(seconds: Fraction) -> st.SearchStrategy[Value]:
    """A duration as text in any unit, timedelta, or NumPy's."""
    fine = Fraction(math.floor(seconds * 10**9), 10**9)
    coarse = down_to(seconds, 10**6, -(86400 * 999_999_999), 86400 * 999_999_999)
    most = 2**63
    whole = down_to(seconds, 1, 1 - most, most)
    return st.sampled_from(
        [
            Value(f"{decimal_text(fine)} s", fine),
            Value(f"{decimal_text(fine * 1000)}ms", fine),
            Value(f"{int(fine * 10**9)} ns", fine),
            Value(f"{int(whole)} H", whole * 3600),
            Value(dt.timedelta(microseconds=int(coarse * 10**6)), coarse),
            Value(np.timedelta64(int(whole), "s"), whole),
            Value(np.timedelta64(int(whole) % 10**15, "us"), Fraction(int(whole) % 10**15, 10**6)),
        ]
    )


def texts(kind: pa.DataType, pool: list[bytes]) -> st.SearchStrategy[Value]:
    """Text or bytes: those of a row, a part of them, or a bit more."""
    is_text = pa.types.is_string(kind)

    def made(base: bytes, cut: int, more: bytes) -> Value:
        if not is_text:
            return Value(base[: len(base) - cut] + more, base[: len(base) - cut] + more)
        text = base.decode()
        changed = text[: len(text) - cut] + more.decode("utf-8", "replace")
        return Value(changed, changed.encode())

    more = st.sampled_from([b"", b"", b"", b"a", b"\0", b"\xff", "é".encode()])
    near = st.builds(made, st.sampled_from(pool), st.sampled_from([0, 0, 0, 1, 2]), more)
    odd = st.sampled_from(["", "NA", "a", "\U0010ffff", "MISSING"]).map(
        lambda text: Value(text if is_text else text.encode(), text.encode())
    )
    return st.one_of(near, near, odd)


def patterns(pool: list[bytes]) -> st.SearchStrategy[Value]:
    """Patterns for `like`, made of pieces of rows and signs."""
    pieces = [text[:2] for cell in pool for text in [cell.decode()]]
    escaped = [piece.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") for piece in pieces]
    signs = ["%", "%", "%", "_", "_", "\\%", "\\_", "\\\\", "a"]
    parts = st.lists(st.one_of(st.sampled_from(signs), st.sampled_from(escaped)), max_size=5)
    return parts.map("".join).map(lambda pattern: Value(pattern, pattern.encode()))


def literals_of_type(column: Column) -> st.SearchStrategy[Value]:
    """Values that the column's own type holds: those of rows, and those of zero."""
    kind = column.value_kind
    zero = Fraction(0) if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) else b""
    if pa.types.is_fixed_size_binary(kind):
        zero = bytes(kind.byte_width)
    found = [value for cell in [*column.pool_cells, zero] if (value := value_of_type(cell, kind)) is not None]
    return st.sampled_from(found)


def value_of_type(cell: Any, kind: pa.DataType) -> Value | None:
    """A cell of a column as a value to compare with; None for times that no text can say."""
    if pa.types.is_boolean(kind):
        return Value(bool(cell), cell)
    if pa.types.is_string(kind):
        return Value(cell.decode(), cell)
    if pa.types.is_duration(kind):
        return Value(f"{decimal_text(cell)} s", cell)
    if pa.types.is_time(kind):
        return Value(clock_text(cell), cell)
    if pa.types.is_temporal(kind):
        found = instant_text(cell, 0 if pa.types.is_timestamp(kind) and kind.tz is not None else None)
        return found if found.means == cell else None
    if pa.types.is_decimal(kind):
        return Value(Decimal(int(cell * 10**40)).scaleb(-40, Context(prec=200)), cell)
    if pa.types.is_floating(kind):
        return Value(float(cell), cell)
    return Value(int(cell) if isinstance(cell, Fraction) else cell, cell)


# -- predicates --


def leaves(column: Column, of_type: bool = False) -> st.SearchStrategy[Leaf]:
    """Every test that suits the column."""
    one = literals_of_type(column) if of_type else literals(column)
    comparisons = st.builds(
        lambda how, value: Leaf(column.name, how, (value,)),
        st.sampled_from(["==", "==", "!=", "<", "<=", ">", ">="]),
        one,
    )
    choices = [
        comparisons,
        comparisons,
        st.builds(lambda low, high: Leaf(column.name, "between", (low, high)), one, one),
        st.lists(one, max_size=12).map(lambda many: Leaf(column.name, "in", tuple(many))),
        st.sampled_from([Leaf(column.name, "missing"), Leaf(column.name, "nan")]),
    ]
    if column.value_kind in (pa.string(), pa.binary()):
        choices.append(
            st.builds(lambda how, v: Leaf(column.name, how, (v,)), st.sampled_from(["startswith", "contains"]), one)
        )
    if column.value_kind == pa.string():
        choices.append(patterns(column.pool_cells).map(lambda value: Leaf(column.name, "like", (value,))))
    return st.one_of(choices)


def nodes(table: list[Column], of_type: bool = False) -> st.SearchStrategy[Node]:
    """Tests of the columns, joined and negated in any way; `of_type`: only with values of the column's own type."""
    leaf = st.one_of([leaves(column, of_type) for column in table])
    deep = st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(Joined, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
            inner.map(Negated),
        ),
        max_leaves=6,
    )
    return st.one_of(leaf, leaf.map(Negated), deep, deep)


# -- a small world --


def world(kind: pa.DataType, values_in_order: list[Any], odd: list[Any], **options: Any) -> Column:
    """A column whose chunks of two rows hold every choice of these values and missing; the last chunk is short."""
    every = [*values_in_order, *odd]
    items = [item for pair in combinations_with_replacement([*every, None], 2) for item in pair]
    return Column("x", kind, every, [*items, every[0]], {"chunk_rows": 2, **options})


WORLDS = {
    "integers": world(pa.int16(), [-3, 4, 9], []),
    "unsigned": world(pa.uint64(), [0, 2**63, 2**64 - 1], []),
    "floats": world(pa.float32(), [-1.5, 0.0, 0.5], [NAN]),
    "floats, NaN fill": world(pa.float64(), [-INF, -0.0, 0.5], [], fill=NAN),
    "booleans": world(pa.bool_(), [False, True], []),
    "fixed text": world(pa.string(), ["", "ab", "ac", "é"], [], strings="fixed"),
    "variable text": world(pa.string(), ["", "ab", "ac", "é"], [], strings="variable"),
    "bytes": world(pa.binary(), [b"ab", b"ac", b"\xff", b"\xff\xff\0"], []),
    "opaque": world(pa.binary(2), [b"\0\0", b"ab", b"\xff\0"], []),
    "times": world(pa.timestamp("ms", "UTC"), [-1, 0, 1_770_000_000_000], []),
    "decimals": world(pa.decimal64(15, 6), [Decimal("-0.5"), Decimal("0"), Decimal("7.25")], []),
    "categories": world(pa.dictionary(pa.int32(), pa.float64()), [2.5, -1.0, 7.0], [NAN]),
}


def leaves_of_world(column: Column) -> list[Node]:
    """Every leaf about the values of the column, what lies between them, and beyond; and its negation."""
    name, kind = column.name, column.value_kind
    known = [value for cell in column.pool_cells if (value := value_of_type(cell, kind)) is not None]
    known += values_between(column)
    found = [Leaf(name, how, (value,)) for how in COMPARISONS for value in known]  # type: ignore[arg-type]
    found += [Leaf(name, "between", (low, high)) for low in known[:3] for high in known[-3:]]
    found += [Leaf(name, "between", (known[1], known[0])), Leaf(name, "between", (known[0], known[1]))]
    found += [Leaf(name, "in", tuple(known[first::step])) for first in range(2) for step in (1, 2)]
    found += [Leaf(name, "in"), Leaf(name, "missing"), Leaf(name, "nan")]
    if kind in (pa.string(), pa.binary()):
        found += [Leaf(name, how, (value,)) for how in ("startswith", "contains") for value in known]
    return [node for leaf in found for node in (leaf, Negated(leaf))]


def values_between(column: Column) -> list[Value]:
    """Values that no row of a small world holds."""
    kind = column.value_kind
    if pa.types.is_boolean(kind):
        return []
    if pa.types.is_temporal(kind):
        return [instant_text(Fraction(n, 10**4), 0) for n in (-15, 5, 10**15)]
    if pa.types.is_string(kind):
        return [Value(text, text.encode()) for text in ("a", "abc", "\U0010ffff")]
    if not pa.types.is_primitive(kind) and not pa.types.is_decimal(kind):
        return [Value(text, text) for text in (b"", b"a", b"ab\0", b"\xff\xff\xff")]
    return [Value(number, exact_number(number, kind)) for number in (0.1, INF, NAN)]


def number_leaf(column: str, how: How, *numbers: float) -> Leaf:
    return Leaf(column, how, tuple(Value(number, plain_cell(number)) for number in numbers))


PAIRS = list(product([1, 2, None], [0.5, 2.5, NAN, None]))
TWO_COLUMNS = [
    Column("x", pa.int32(), [1, 2], [x for x, _ in PAIRS for _ in range(3)], {"chunk_rows": 3}),
    Column("y", pa.float64(), [0.5, 2.5, NAN], [y for _, y in PAIRS for _ in range(3)], {"chunk_rows": 7}),
]


def joins_of_two_columns() -> list[Node]:
    """Leaves of two columns joined in every way, also negated, and joins of joins."""
    of_x = [
        number_leaf("x", "==", 1),
        number_leaf("x", ">=", 2),
        Leaf("x", "missing"),
        Negated(number_leaf("x", "in", 2)),
    ]
    of_y = [number_leaf("y", "<", 1), number_leaf("y", "!=", 0.5), Leaf("y", "nan"), Negated(Leaf("y", "missing"))]
    found: list[Node] = []
    for a, b in product(of_x, of_y):
        both, either = Joined("and", (a, b)), Joined("or", (a, b))  # type: ignore[arg-type]
        found += [both, either, Negated(both), Negated(either)]
    pairs = zip(found, [*found[7:], *found[:7]], strict=True)
    return [*found, *(Joined("and" if place % 3 else "or", pair) for place, pair in enumerate(pairs))]


# -- the same in other words --


def as_predicate(node: Node) -> cn.Predicate:
    """The predicate as colonnade has it."""
    if isinstance(node, Negated):
        return ~as_predicate(node.part)
    if isinstance(node, Joined):
        return reduce(operator.and_ if node.how == "and" else operator.or_, map(as_predicate, node.parts))
    column, given = cn.col(node.column), [value.given for value in node.values]
    makers: dict[str, Callable[[], cn.Predicate]] = {
        "==": lambda: column == given[0],
        "!=": lambda: column != given[0],
        "<": lambda: column < given[0],
        "<=": lambda: column <= given[0],
        ">": lambda: column > given[0],
        ">=": lambda: column >= given[0],
        "between": lambda: column.between(*given),
        "in": lambda: column.is_in(given),
        "missing": column.is_missing,
        "nan": column.is_nan,
        "startswith": lambda: column.startswith(given[0]),
        "contains": lambda: column.contains(given[0]),
        "like": lambda: column.like(given[0]),
    }
    return makers[node.how]()


# -- the same for pyarrow and DuckDB --


def peer_array(array: pa.Array) -> pa.Array:
    """The array in a type whose comparisons pyarrow has: no dictionaries, half floats, or narrow or odd decimals."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return peer_array(array.dictionary_decode())
    if pa.types.is_boolean(kind):
        return array.cast(pa.int8())
    if pa.types.is_decimal(kind):
        exact = Context(prec=100)
        return pa.array(
            [None if x is None else x.quantize(Decimal(1).scaleb(-10), context=exact) for x in array.to_pylist()],
            pa.decimal256(76, 10),
        )
    return array.cast(pa.float32()) if pa.types.is_float16(kind) else array


def peer_scalar(cell: Any, kind: pa.DataType) -> pa.Scalar:
    """A value of a predicate as a scalar of the type that `peer_array` gives the column."""
    if pa.types.is_temporal(kind):
        counts = pa.array([int(cell / seconds_in(kind))], pa.int32() if kind.bit_width == 32 else pa.int64())
        return counts.view(kind)[0]
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal(int(cell * 10**10)).scaleb(-10, Context(prec=100)), kind)
    if pa.types.is_floating(kind):
        return pa.scalar(float(cell), kind)
    if pa.types.is_string(kind):
        return pa.scalar(cell.decode(), kind)
    return pa.scalar(int(cell) if isinstance(cell, Fraction) else cell, kind)


def as_expression(node: Node, schema: pa.Schema) -> Any:
    """The predicate as pyarrow has it, where a NaN and a missing row are told apart in the same way.

    Two leaves say something else in pyarrow, and are put together from others: `is_in` finds a NaN among the values,
    tells -0.0 from 0.0 and says false of missing rows; `is_nan` is not there for every type.
    """
    if isinstance(node, Negated):
        return ~as_expression(node.part, schema)
    if isinstance(node, Joined):
        parts = [as_expression(part, schema) for part in node.parts]
        return reduce(operator.and_ if node.how == "and" else operator.or_, parts)
    column, kind = pc.field(node.column), schema.field(node.column).type
    scalars = [peer_scalar(value.means, kind) for value in node.values]
    if node.how in COMPARISONS:
        return COMPARISONS[node.how](column, scalars[0])
    if node.how == "between":
        return (column >= scalars[0]) & (column <= scalars[1])
    if node.how == "missing":
        return column.is_null()
    if node.how == "in":
        wanted = [scalar for scalar, value in zip(scalars, node.values, strict=True) if not is_nan(value.means)]
        zeros = [pa.scalar(-0.0, kind)] if pa.types.is_floating(kind) and pa.scalar(0.0, kind) in wanted else []
        return _unless_missing(column, pc.is_in(column, value_set=pa.array([*wanted, *zeros], kind)))
    if node.how == "nan":
        return _unless_missing(column, pc.is_nan(column) if pa.types.is_floating(kind) else pc.scalar(False))
    if node.how == "like" and "\\" in node.values[0].given:  # Arrow takes those of '%\\\\' literally
        parts = pattern_parts(node.values[0].given)
        regex = "".join({"%": ".*", "_": "."}.get(part, re.escape(part[1:])) for part in parts)
        return pc.match_substring_regex(column, f"(?s)^{regex}\\z")
    test = {"like": pc.match_like, "startswith": pc.starts_with, "contains": pc.match_substring}[node.how]
    return test(column, node.values[0].given)


def _unless_missing(column: Any, found: Any) -> Any:
    return pc.if_else(column.is_null(), pa.scalar(None, pa.bool_()), found)


def as_sql(node: Node, literals: list[tuple[str, Any]]) -> str:
    """The predicate as DuckDB has it. Values stand in a table of one row, `v`; they are added to the list."""
    if isinstance(node, Negated):
        return f"(not {as_sql(node.part, literals)})"
    if isinstance(node, Joined):
        return "(" + f" {node.how} ".join(as_sql(part, literals) for part in node.parts) + ")"
    name = f't."{node.column}"'
    first = len(literals)
    literals += [(node.column, value.means) for value in node.values]
    places = [f"v.v{i}" for i in range(first, len(literals))]
    if node.how in COMPARISONS:
        return f"({name} {node.how} {places[0]})"
    if node.how == "between":
        return f"({name} between {places[0]} and {places[1]})"
    if node.how == "in":
        return f"({name} in ({', '.join(places)}))" if places else f"({name} <> {name})"
    if node.how == "missing":
        return f"({name} is null)"
    if node.how == "nan":  # there is none in these tables
        return f"({name} <> {name})"
    if node.how == "like":
        return f"({name} like {places[0]} escape '\\')"
    return f"{'starts_with' if node.how == 'startswith' else 'contains'}({name}, {places[0]})"
