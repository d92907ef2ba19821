"""The values of expressions, computed by Arrow's functions on arrays of the columns they name.

| what | result |
| --- | --- |
| + - * of integers | int64, or uint64 if one operand is uint64 and none is signed; one that does not fit is an error |
| / | float64, also of integers; by zero an infinity or NaN. Of decimals a decimal; by zero an error |
| // % of integers | rounded down, as in Python: the remainder has the sign of the divisor; by zero an error |
| + - * / of floats | IEEE arithmetic; float32 if no operand is wider |
| + - of times | exact. A string next to a time is a time or a duration, such as '1.5 s' |
| of a missing operand | missing |

Types are not computed here: the type of an expression is what Arrow gives for no rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.errors import DataError, PredicateError
from colonnade.predicate.expressions import COMPARING, CallTerm, LiteralTerm, Term
from colonnade.query.bind import as_number

ArrowValue = pa.Array | pa.Scalar
_UNITS = ("s", "ms", "us", "ns")


def evaluate(term: Term, columns: Mapping[Term, pa.Array]) -> pa.Array:
    """The values of a term, from those of the columns and of the predicates that it names.

    A row that cannot be computed is a DataError; types that do not suit are a PredicateError, which no rows show too.
    """
    value = _value(term, columns)
    assert isinstance(value, pa.Array)  # it names a column
    return value


def _value(term: Term, columns: Mapping[Term, pa.Array]) -> ArrowValue:
    if isinstance(term, LiteralTerm):
        return _scalar(term.value, None)
    if not isinstance(term, CallTerm) or term in columns:
        return columns[term]
    if term.function == "round" and len(term.arguments) == 2:
        digits = term.arguments[1]
        assert isinstance(digits, LiteralTerm) and isinstance(digits.value, int)  # checked when it was called
        given, n_digits = list(term.arguments[:1]), digits.value
    else:
        given, n_digits = list(term.arguments), 0
    values = {n: _value(part, columns) for n, part in enumerate(given) if not isinstance(part, LiteralTerm)}
    kind = next((value.type for value in values.values()), None)
    for n, part in enumerate(given):
        if isinstance(part, LiteralTerm):
            values[n] = _literal(part, kind, term)
    return _called(term, [values[n] for n in range(len(given))], n_digits)


def _called(term: CallTerm, operands: Sequence[ArrowValue], n_digits: int) -> ArrowValue:
    def call(values: Sequence[ArrowValue]) -> ArrowValue:
        if term.function == "round":
            return _round(values[0], n_digits)
        return _CALLS[term.function](*values)

    try:
        return call(operands)
    except (pa.ArrowException, NotImplementedError) as error:
        n_rows = max((len(operand) for operand in operands if isinstance(operand, pa.Array)), default=0)
        is_of_types = isinstance(error, (pa.ArrowNotImplementedError, pa.ArrowTypeError))
        if n_rows == 0 or is_of_types:
            kinds = " and ".join(str(operand.type) for operand in operands)
            why = f"there is no {_shown_function(term)} of {kinds}" if is_of_types else f"{_reason(error)} ({kinds})"
            raise PredicateError(f"cannot compute {term}: {why}", text=str(term), part=term) from None
        row, reason = _first_that_fails(call, operands, n_rows, _reason(error))
        cells = [operand[row].as_py() if isinstance(operand, pa.Array) else operand.as_py() for operand in operands]
        raise DataError(
            f"cannot compute {term} of {' and '.join(map(repr, cells))}: {reason}. Leave such rows out with where",
            row=row,
            value=cells[0] if len(cells) == 1 else tuple(cells),
        ) from None


def _shown_function(term: CallTerm) -> str:
    return "-" if term.function == "neg" else term.function


def _reason(error: Exception) -> str:
    """Arrow's reason, on one line."""
    reason = str(error).split("\n")[0].rstrip(".")
    return {"divide by zero": "division by zero", "Divide by zero": "division by zero"}.get(
        reason, "the result does not fit its type" if reason == "overflow" else re.sub(r"^Invalid: ", "", reason)
    )


def _first_that_fails(
    call: Callable[[Sequence[ArrowValue]], ArrowValue], operands: Sequence[ArrowValue], n_rows: int, reason: str
) -> tuple[int, str]:
    """The position of the first row that cannot be computed, by binary search, and the reason."""
    low, high = 0, n_rows
    while low < high:
        middle = (low + high) // 2
        part = [value.slice(low, middle + 1 - low) if isinstance(value, pa.Array) else value for value in operands]
        try:
            call(part)
        except (pa.ArrowException, NotImplementedError) as error:
            high, reason = middle, _reason(error)
        else:
            low = middle + 1
    return low, reason


# -- literals --


def _literal(term: LiteralTerm, other: pa.DataType | None, whole: CallTerm) -> pa.Scalar:
    try:
        return _scalar(term.value, other)
    except PredicateError as error:
        error.text, error.part = str(whole), whole
        raise


def _scalar(value: object, other: pa.DataType | None) -> pa.Scalar:
    """A literal as Arrow has it, next to an operand of another type (None: next to another literal)."""
    if other is not None and pa.types.is_temporal(other) and not isinstance(value, (bool, int, float, Decimal, bytes)):
        return _time_scalar(value, other)
    if isinstance(value, Decimal) and not (other is not None and pa.types.is_decimal(other)):
        value = float(value)
    if isinstance(value, float) and other is not None and pa.types.is_decimal(other) and np.isfinite(value):
        value = Decimal(repr(value))  # 0.1 means the decimal 0.1
    if isinstance(value, int) and not isinstance(value, bool):
        return _integer_scalar(value, other)
    return pa.scalar(value)


def _integer_scalar(value: int, other: pa.DataType | None) -> pa.Scalar:
    if other is not None and pa.types.is_floating(other):
        wide = pa.float32() if other.bit_width < 64 else other
        try:
            number = float(value)
        except OverflowError:
            number = np.inf if value > 0 else -np.inf
        return pa.array([number], pa.float64()).cast(wide, safe=False)[0]
    is_unsigned = value >= 2**63 or (value >= 0 and other == pa.uint64())
    if not -(2**63) <= value < 2**64:
        raise PredicateError(f"cannot compute with {value}: it does not fit 64 bits. Write it with a decimal point")
    return pa.scalar(value, pa.uint64() if is_unsigned else pa.int64())


def _time_scalar(value: object, other: pa.DataType) -> pa.Scalar:
    """A time, or a duration, next to an operand that is a time: in its unit, or in a finer one if that is needed."""
    unit = other.unit if hasattr(other, "unit") else "s"
    is_duration = isinstance(value, (timedelta, np.timedelta64)) or pa.types.is_duration(other)
    if isinstance(value, str):
        is_duration = is_duration or re.fullmatch(r"\s*[+-]?\d.*[a-z]\s*", value, re.IGNORECASE) is not None
        is_duration = is_duration and not re.match(r"\s*\d{4}-\d\d-", value)

    def refuse(shown: str) -> PredicateError:
        return PredicateError(f"cannot compute with {shown} next to {other}")

    for finer in _UNITS[_UNITS.index(unit) :]:
        kind = pa.duration(finer) if is_duration else _in_unit(other, finer)
        number = as_number(value, kind, refuse)
        if isinstance(number, Fraction) and number.denominator == 1:
            break
    else:
        raise refuse(f"{value!r}, which is not an integer number of nanoseconds,")
    try:
        return pa.array([int(number)], pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)[0]
    except (pa.ArrowInvalid, OverflowError):
        raise refuse(f"{value!r}, which is out of its range,") from None


def _in_unit(kind: pa.DataType, unit: str) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp(unit, kind.tz)
    if pa.types.is_time(kind):
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    return pa.timestamp(unit)  # next to a date


# -- operators --


def _arrow(name: str, *values: ArrowValue, options: object = None) -> ArrowValue:
    """What a function of Arrow computes."""
    result: ArrowValue = pc.call_function(name, list(values), options)
    return result


def _is_integer(value: ArrowValue) -> bool:
    return bool(pa.types.is_integer(value.type))


def _is_float(value: ArrowValue) -> bool:
    return bool(pa.types.is_floating(value.type))


def _widened(value: ArrowValue) -> ArrowValue:
    """Integers with 64 bits, floats with at least 32."""
    kind = value.type
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return value.cast(pa.int64())
    return value.cast(pa.float32()) if pa.types.is_float16(kind) else value


def _together(left: ArrowValue, right: ArrowValue) -> tuple[ArrowValue, ArrowValue]:
    """Two operands, widened; integers next to floats as float64, which Arrow refuses for those that must be rounded."""
    left, right = _widened(left), _widened(right)
    if _is_integer(left) and _is_float(right):
        return _as_double(left), right
    if _is_float(left) and _is_integer(right):
        return left, _as_double(right)
    return left, right


def _as_double(value: ArrowValue) -> ArrowValue:
    return value.cast(pa.float64(), safe=False)


def _as_integers(left: ArrowValue, right: ArrowValue) -> tuple[ArrowValue, ArrowValue] | None:
    """Two integers of one type, int64 if one is signed; None if they are not integers."""
    left, right = _together(left, right)
    if not (_is_integer(left) and _is_integer(right)):
        return None
    if left.type == right.type:
        return left, right
    return left.cast(pa.int64()), right.cast(pa.int64())


def _arithmetic(name: str) -> Callable[[ArrowValue, ArrowValue], ArrowValue]:
    def compute(left: ArrowValue, right: ArrowValue) -> ArrowValue:
        left, right = _together(left, right)
        if pa.types.is_temporal(left.type) or pa.types.is_temporal(right.type):
            return _of_known(name, left, right)
        return _arrow(name, left, right)

    return compute


def _of_known(name: str, left: ArrowValue, right: ArrowValue) -> ArrowValue:
    """What a function of Arrow computes where both operands are known.

    For times Arrow also computes with the undefined values of missing rows, and reports that these overflow.
    """
    known = _arrow("and", _arrow("is_valid", left), _arrow("is_valid", right))
    is_known = np.asarray(known.to_numpy(zero_copy_only=False)) if isinstance(known, pa.Array) else np.ones(1, bool)
    if is_known.all():
        return _arrow(name, left, right)
    rows = pa.array(np.flatnonzero(is_known))
    left, right = (value.take(rows) if isinstance(value, pa.Array) else value for value in (left, right))
    result = _arrow(name, left, right)
    assert isinstance(result, pa.Array)  # as one operand is
    return result.take(pa.array(np.cumsum(is_known) - 1, mask=~is_known))


def _divide(left: ArrowValue, right: ArrowValue) -> ArrowValue:
    left, right = _together(left, right)
    if _is_integer(left) and _is_integer(right):
        left, right = _as_double(left), _as_double(right)
    is_checked = pa.types.is_duration(left.type) and _is_integer(right)
    return _arrow("divide_checked" if is_checked else "divide", left, right)


def _floor_divide(left: ArrowValue, right: ArrowValue) -> ArrowValue:
    integers = _as_integers(left, right)
    if integers is None:
        return _by_numpy(np.floor_divide, left, right)
    left, right = integers
    quotient = _arrow("divide_checked", left, right)  # rounded to zero
    rest = _arrow("subtract", left, _arrow("multiply", quotient, right))
    below = _arrow("subtract", quotient, pa.scalar(1, quotient.type))
    return _arrow("if_else", _differ_in_sign(rest, right), below, quotient)


def _remainder(left: ArrowValue, right: ArrowValue) -> ArrowValue:
    integers = _as_integers(left, right)
    if integers is None:
        return _by_numpy(np.remainder, left, right)
    left, right = integers
    divisor = right
    if right.type == pa.int64():  # the quotient of the least integer and -1 does not fit, but the remainder is 0
        divisor = _arrow("if_else", _arrow("equal", right, pa.scalar(-1)), pa.scalar(1), right)
    rest = _arrow("subtract", left, _arrow("multiply", _arrow("divide_checked", left, divisor), divisor))
    return _arrow("if_else", _differ_in_sign(rest, right), _arrow("add", rest, right), rest)


def _differ_in_sign(rest: ArrowValue, divisor: ArrowValue) -> ArrowValue:
    """Whether a remainder that is not zero has another sign than the divisor."""
    zero = pa.scalar(0, rest.type)
    signs = _arrow("xor", _arrow("less", rest, zero), _arrow("less", divisor, zero))
    return _arrow("and", _arrow("not_equal", rest, zero), signs)


def _by_numpy(compute: np.ufunc, left: ArrowValue, right: ArrowValue) -> ArrowValue:
    """Floats computed by NumPy: Arrow has no remainder, and one made of a rounded quotient would be wrong."""
    left, right = _together(left, right)
    if not (_is_float(left) and _is_float(right)):
        raise pa.ArrowNotImplementedError("only of integers and floats")
    known = _arrow("and", _arrow("is_valid", left), _arrow("is_valid", right))
    with np.errstate(all="ignore"):
        result = compute(_as_numpy(left), _as_numpy(right))
    if not isinstance(known, pa.Array):
        return pa.scalar(result.item())
    return pa.array(result, mask=~known.to_numpy(zero_copy_only=False))


def _as_numpy(value: ArrowValue) -> np.ndarray:
    if isinstance(value, pa.Array):
        return np.asarray(value.to_numpy(zero_copy_only=False))
    return np.asarray(value.as_py(), dtype="f4" if value.type == pa.float32() else "f8")


def _comparing(name: str) -> Callable[[ArrowValue, ArrowValue], ArrowValue]:
    def compare(left: ArrowValue, right: ArrowValue) -> ArrowValue:
        left, right = _together(left, right)
        if _is_integer(left) and _is_integer(right) and left.type != right.type:
            wide = pa.decimal128(20, 0)  # of int64 and uint64
            left, right = left.cast(wide), right.cast(wide)
        return _arrow(name, left, right)

    return compare


# -- functions of one operand --


def _negated(value: ArrowValue) -> ArrowValue:
    value = _widened(value)
    return _arrow("negate_checked", value.cast(pa.int64()) if value.type == pa.uint64() else value)


def _round(value: ArrowValue, n_digits: int) -> ArrowValue:
    if _is_integer(value) and n_digits >= 0:
        return value
    return _arrow("round", _widened(value), options=pc.RoundOptions(n_digits))


def _rounded(name: str) -> Callable[[ArrowValue], ArrowValue]:
    return lambda value: value if _is_integer(value) else _arrow(name, _widened(value))


def _length(value: ArrowValue) -> ArrowValue:
    kind = value.type
    if pa.types.is_string(kind):
        name = "utf8_length"
    elif pa.types.is_binary(kind) or (pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind)):
        name = "binary_length"
    else:
        name = "list_value_length"
    return _arrow(name, value).cast(pa.int64())


_CALLS: dict[str, Callable[..., ArrowValue]] = {
    "+": _arithmetic("add_checked"),
    "-": _arithmetic("subtract_checked"),
    "*": _arithmetic("multiply_checked"),
    "/": _divide,
    "//": _floor_divide,
    "%": _remainder,
    "**": _arithmetic("power_checked"),
    "neg": _negated,
    "abs": lambda value: _arrow("abs_checked", _widened(value)),
    "floor": _rounded("floor"),
    "ceil": _rounded("ceil"),
    "lower": partial(_arrow, "utf8_lower"),
    "upper": partial(_arrow, "utf8_upper"),
    "length": _length,
    "weekday": partial(_arrow, "day_of_week"),
    **{name: partial(_arrow, name) for name in ("year", "month", "day", "hour", "minute", "second")},
    **{
        sign: _comparing(name)
        for sign, name in zip(
            COMPARING, ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), strict=True
        )
    },
}
