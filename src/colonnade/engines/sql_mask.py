"""Evaluates a pyarrow expression on a batch as SQL means it, for engines that mean SQL and send pyarrow expressions.

NaN equals itself and is greater than all numbers, 0.0 equals -0.0, and `in` is unknown for a missing row, or where no
value matches and one of them is null. Only for filters that the file could not answer completely.
"""

from __future__ import annotations

import pyarrow as pa

from colonnade import compute as pc
from colonnade.engines.arrow_expression import ArrowNode, FieldNode, LiteralNode
from colonnade.engines.superset import plain_type
from colonnade.errors import UnsupportedError

ArrayOrScalar = pa.Array | pa.Scalar


def sql_rows(tree: ArrowNode, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a batch for which an expression is true."""
    truth = _value(tree, batch)
    if isinstance(truth, pa.Scalar):
        return batch if truth.as_py() else batch.slice(0, 0)
    return batch.filter(truth)


def _value(tree: ArrowNode, batch: pa.RecordBatch) -> ArrayOrScalar:
    if isinstance(tree, LiteralNode):
        return tree.scalar
    if isinstance(tree, FieldNode):
        column = batch.column(tree.path[0])
        for name in tree.path[1:]:
            column = column.field(name)
        return column.cast(plain_type(column.type)) if pa.types.is_dictionary(column.type) else column
    arguments = [_value(argument, batch) for argument in tree.arguments]
    if tree.function in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        return _compared(tree.function, arguments[0], arguments[1])
    if tree.function == "cast" and isinstance(tree.options, pa.StructScalar):
        return arguments[0].cast(tree.options["to_type"].type)
    if tree.function == "is_null":
        return pc.call_function("is_null", arguments)  # without nan_is_null: NaN is a value
    if tree.function in ("is_in", "is_in_meta_binary") and isinstance(tree.options, pa.StructScalar):
        return _among(arguments[0], tree.options["value_set"].values)
    if tree.options is not None:
        raise UnsupportedError(f"cannot filter by {tree.function} with options here. Filter after reading")
    return pc.call_function(tree.function, arguments)


def _compared(function: str, left: ArrayOrScalar, right: ArrayOrScalar) -> ArrayOrScalar:
    """Two values compared; where NaN takes part, by the order in which it is the greatest."""
    if function in ("greater", "greater_equal"):
        left, right, function = right, left, function.replace("greater", "less")
    if not any(pa.types.is_floating(side.type) for side in (left, right)):
        return pc.call_function(function, [left, right])
    both, left_nan, right_nan = _call("and", _present(left), _present(right)), _is_nan(left), _is_nan(right)
    if function == "not_equal":
        return _call("invert", _compared("equal", left, right))
    above = {
        "equal": _call("and", left_nan, right_nan),
        "less": _call("and", _call("invert", left_nan), right_nan),
        "less_equal": right_nan,
    }[function]
    return _call("or", _call("and", above, both), _call(function, left, right))


def _among(values: ArrayOrScalar, candidates: pa.Array) -> ArrayOrScalar:
    truth: ArrayOrScalar = pa.scalar(False)
    for candidate in candidates:
        truth = _call("or_kleene", truth, _compared("equal", values, candidate))
    return truth


def _present(values: ArrayOrScalar) -> ArrayOrScalar:
    return _call("is_valid", values)


def _is_nan(values: ArrayOrScalar) -> ArrayOrScalar:
    """Where a value is NaN; false for missing ones."""
    if not pa.types.is_floating(values.type):
        return pa.scalar(False)
    return _call("and_kleene", _call("is_nan", values), _present(values))


def _call(function: str, *arguments: ArrayOrScalar) -> ArrayOrScalar:
    return pc.call_function(function, list(arguments))
