"""What the filter of an engine means for colonnade: a predicate that is true for every row the filter keeps.

An engine's filter is a tree. A translator of that engine walks it, for the rows of which it is true and, inside a
`not`, for those of which it is false. Logic is three-valued. What is not understood rules out no row and is not exact:
then the engine's own filter must be applied to the rows that were read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa

from colonnade.dataclass import dataclass
from colonnade.predicate.expressions import Operator
from colonnade.predicate.tree import And, Compare, IsIn, IsMissing, IsNan, Not, Or, Predicate

FilterValue = bool | int | float | str | bytes | Decimal | date | np.datetime64 | np.timedelta64

NEGATED: dict[Operator, Operator] = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
# What a filter that is not understood raises while it is walked: names, types and shapes that another version has.
NOT_UNDERSTOOD = (
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    RecursionError,
    AttributeError,
    StopIteration,
    pa.ArrowException,
)
_EXACT_IN_FLOAT = 2**24  # integers up to here are the same in every float type of 32 bits or more
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class Superset:
    """The rows that a filter may keep: those of a predicate, all rows (True) or none (False).

    exact: the filter keeps all of these rows.
    """

    rows: Predicate | bool
    exact: bool = True


UNKNOWN = Superset(True, exact=False)


def all_of(parts: Sequence[Superset]) -> Superset:
    """The rows that all of several filters may keep."""
    if any(part.rows is False for part in parts):
        return Superset(False)
    predicates: list[Predicate] = []
    for part in parts:
        if isinstance(part.rows, Predicate):
            predicates += part.rows.parts if isinstance(part.rows, And) else (part.rows,)
    return Superset(_joined(_as_intervals(predicates), And, empty=True), all(part.exact for part in parts))


def any_of(parts: Sequence[Superset]) -> Superset:
    """The rows that at least one of several filters may keep."""
    if any(part.rows is True for part in parts):
        return Superset(True, any(part.rows is True and part.exact for part in parts))
    predicates = [part.rows for part in parts if isinstance(part.rows, Predicate)]
    return Superset(_joined(predicates, Or, empty=False), all(part.exact for part in parts))


def _joined(predicates: Sequence[Predicate], join: type[And] | type[Or], empty: bool) -> Predicate | bool:
    if not predicates:
        return empty
    return predicates[0] if len(predicates) == 1 else join(tuple(predicates))


def _as_intervals(predicates: list[Predicate]) -> list[Predicate]:
    """`x <= 2 and not (x < 1)` as `x <= 2 and x >= 1`, which is one interval: the first test rules NaN out already."""
    bounded = {part.column for part in predicates if isinstance(part, Compare) and part.operator in ("<", "<=", "==")}
    turned: dict[Operator, Operator] = {"<": ">=", "<=": ">"}
    intervals: list[Predicate] = []
    for part in predicates:
        leaf = part.part if isinstance(part, Not) else None
        if isinstance(leaf, Compare) and leaf.operator in turned and leaf.column in bounded:
            part = Compare(leaf.column, turned[leaf.operator], leaf.value)
        intervals.append(part)
    return intervals


# -- types and values --


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, also of a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether values are strings."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are bytes."""
    types = pa.types
    return (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def is_comparable(column: pa.DataType, value: pa.DataType) -> bool:
    """Whether engines and colonnade compare values of these types alike: exactly, or with an error of the engine."""
    types = pa.types
    if types.is_timestamp(column) and types.is_timestamp(value):
        return (column.tz is None) == (value.tz is None)
    if types.is_timestamp(column) and types.is_date(value):
        return column.tz is None
    groups = (
        is_text,
        is_bytes,
        types.is_boolean,
        types.is_decimal,
        types.is_date,
        types.is_time,
        types.is_duration,
        lambda kind: types.is_integer(kind) or types.is_floating(kind),
    )
    return any(group(column) and group(value) for group in groups)


def filter_value(scalar: pa.Scalar) -> FilterValue | None:
    """A value that predicates take, without loss (nanoseconds); None where the scalar is null."""
    if pa.types.is_dictionary(scalar.type):
        scalar = scalar.cast(scalar.type.value_type)
    if not scalar.is_valid:
        return None
    kind, types = scalar.type, pa.types
    if types.is_timestamp(kind):
        return np.datetime64(_ticks(scalar), kind.unit)
    if types.is_duration(kind):
        return np.timedelta64(_ticks(scalar), kind.unit)
    if types.is_date64(kind):
        return np.datetime64(_ticks(scalar), "ms")
    if types.is_time(kind):
        seconds, rest = divmod(_ticks(scalar), _TICKS[kind.unit])
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return f"{clock}.{rest * 10**9 // _TICKS[kind.unit]:09d}" if rest else clock
    value: FilterValue = scalar.as_py()
    return value


def _ticks(scalar: pa.Scalar) -> int:
    """A time as the integer that Arrow stores."""
    width = pa.int32() if pa.types.is_time32(scalar.type) else pa.int64()
    ticks: int = scalar.cast(width).as_py()
    return ticks


def is_widened(kind: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast from one type to another changes no value."""
    types = pa.types
    if kind == target or (is_text(kind) and is_text(target)):
        return True
    if types.is_integer(kind) and types.is_integer(target):
        if types.is_signed_integer(kind) == types.is_signed_integer(target):
            return kind.bit_width <= target.bit_width
        return types.is_signed_integer(target) and kind.bit_width < target.bit_width
    if types.is_integer(kind) and types.is_floating(target):
        return kind.bit_width < {16: 11, 32: 24, 64: 53}[target.bit_width]
    if types.is_floating(kind) and types.is_floating(target):
        return kind.bit_width <= target.bit_width
    units = tuple(_TICKS)
    if types.is_timestamp(kind) and types.is_timestamp(target):  # a value that does not fit is an error of the engine
        return (kind.tz is None) == (target.tz is None) and units.index(kind.unit) <= units.index(target.unit)
    return types.is_date32(kind) and types.is_timestamp(target) and target.tz is None


def _is_rounded(column: pa.DataType, value: FilterValue) -> bool:
    """Whether an engine may round what colonnade compares exactly: 64-bit integers against floats, either way."""
    if pa.types.is_floating(column) and isinstance(value, int):
        return abs(value) > _EXACT_IN_FLOAT
    return pa.types.is_integer(column) and isinstance(value, float) and not abs(value) <= _EXACT_IN_FLOAT


# -- leaves --


class Translator:
    """Makes the leaves for the columns of a schema. `names` are the columns that its fields stand for.

    nan_is_greatest: for an engine in which NaN equals itself and is greater than all numbers.
    """

    def __init__(self, schema: pa.Schema, names: Sequence[str] | None = None, *, nan_is_greatest: bool) -> None:
        shown = schema.names
        self._columns = {
            field.name: (name, plain_type(field.type))
            for field, name in zip(schema, shown if names is None else names, strict=True)
            if shown.count(field.name) == 1
        }
        self._nan_is_greatest = nan_is_greatest

    def name_of(self, shown: str) -> str:
        """The column that a field of the schema stands for; a LookupError where there is none, or several."""
        return self._columns[shown][0]

    def kind_of(self, shown: str) -> pa.DataType:
        """The type of a column; a LookupError where there is none, or several."""
        return self._columns[shown][1]

    def compared(self, shown: str, operator: Operator, scalar: pa.Scalar, negated: bool) -> Superset:
        """A column compared with a value."""
        name, kind = self._columns[shown]
        if not scalar.is_valid:
            return Superset(False)  # neither true nor false
        if not is_comparable(kind, plain_type(scalar.type)):
            return UNKNOWN
        value = filter_value(scalar)
        if value is None or _is_rounded(kind, value):
            return UNKNOWN
        is_nan = isinstance(value, float) and math.isnan(value)
        if self._nan_is_greatest and pa.types.is_floating(kind):
            operator = NEGATED[operator] if negated else operator
            return _against_greatest_nan(name, operator) if is_nan else _with_greatest_nan(name, operator, value)
        if is_nan:
            return Superset(Not(IsMissing(name))) if (operator == "!=") != negated else Superset(False)
        leaf = Compare(name, operator, value)
        return Superset(Not(leaf) if negated else leaf)

    def tested(self, leaf: Predicate, negated: bool) -> Superset:
        """A leaf, or its negation."""
        return Superset(Not(leaf) if negated else leaf)

    def is_boolean(self, shown: str, negated: bool) -> Superset:
        """A column of booleans as a filter."""
        name, kind = self._columns[shown]
        return Superset(Compare(name, "==", not negated)) if pa.types.is_boolean(kind) else UNKNOWN

    def is_in(
        self, shown: str, values: pa.Array, negated: bool, *, null_is_false: bool, null_matches: bool = False,
        is_bitwise: bool = False,
    ) -> Superset:  # fmt: skip
        """A column among values.

        null_is_false: the test is false for a missing row, not unknown. null_matches: it is true for a missing row if
        the values have a null. is_bitwise: 0.0 and -0.0 differ.
        """
        name, kind = self._columns[shown]
        if not is_comparable(kind, plain_type(values.type)):
            return UNKNOWN
        plain: list[FilterValue] = []
        has_null, has_nan = False, False
        for scalar in values:
            value = filter_value(scalar)
            if value is None:
                has_null = True
            elif isinstance(value, float) and math.isnan(value):
                has_nan = True
            elif _is_rounded(kind, value):
                return UNKNOWN
            else:
                plain.append(value)
        exact = not (is_bitwise and pa.types.is_floating(kind) and 0 in plain)
        leaves: list[Predicate] = [IsIn(name, tuple(plain))] if plain else []
        if has_nan:
            leaves.append(IsNan(name))
        takes_missing = has_null and null_matches
        if not negated:
            if takes_missing:
                leaves.append(IsMissing(name))
            return Superset(_joined(leaves, Or, empty=False), exact)
        if not exact or (has_null and not null_is_false):
            return UNKNOWN if not exact else Superset(False)  # the negation of more rows is fewer
        others: list[Predicate] = [Not(leaf) for leaf in leaves]
        if null_is_false and not takes_missing:
            rest = _joined(others, And, empty=True)
            return Superset(True) if isinstance(rest, bool) else Superset(Or((rest, IsMissing(name))))
        return Superset(_joined(others or [Not(IsMissing(name))], And, empty=True))


def _against_greatest_nan(name: str, operator: Operator) -> Superset:
    """A column compared with NaN, which equals itself and is greater than all numbers."""
    number = And((Not(IsNan(name)), Not(IsMissing(name))))
    rows: dict[Operator, Predicate | bool] = {
        "==": IsNan(name),
        ">=": IsNan(name),
        ">": False,
        "<=": Not(IsMissing(name)),
        "<": number,
        "!=": number,
    }
    return Superset(rows[operator])


def _with_greatest_nan(name: str, operator: Operator, value: FilterValue) -> Superset:
    """A column compared with a number: what is not below it is above it, NaN too. One test, not two."""
    if operator in (">", ">="):
        return Superset(Not(Compare(name, "<=" if operator == ">" else "<", value)))
    return Superset(Compare(name, operator, value))
