"""A table or query as a Polars LazyFrame whose columns, filters and limits reach the file.

A filter comes as JSON (`Expr.meta.serialize`), whose form differs between versions of Polars: what is not understood
rules out no row, and Polars applies a filter again that is not translated exactly. In Polars NaN equals itself and is
greater than all numbers. Its JSON writes NaN and both infinities as null, so that such literals are not translated.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from colonnade.engines.source import EngineSource, chosen_rows
from colonnade.engines.superset import NOT_UNDERSTOOD, UNKNOWN, Superset, Translator, all_of, any_of, is_widened
from colonnade.errors import UsageError
from colonnade.predicate.expressions import TURNED, Operator
from colonnade.predicate.tree import And, Compare, Contains, IsMissing, IsNan, StartsWith
from colonnade.values import Json, JsonObject

if TYPE_CHECKING:
    import polars

PIECE_ROWS = 1 << 19
_MOST_PIECES_AT_ONCE = 4  # of rows that may match: fewer are read with one query

_OPERATORS: dict[str, Operator] = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_UNITS = {"Nanoseconds": "ns", "Microseconds": "us", "Milliseconds": "ms"}
_INTEGERS = {
    "Int8": pa.int8(),
    "Int16": pa.int16(),
    "Int32": pa.int32(),
    "Int64": pa.int64(),
    "UInt8": pa.uint8(),
    "UInt16": pa.uint16(),
    "UInt32": pa.uint32(),
    "UInt64": pa.uint64(),
}
_CAST_TARGETS = _INTEGERS | {"Float32": pa.float32(), "Float64": pa.float64(), "String": pa.string()}
_CLOSED: dict[str, tuple[Operator, Operator]] = {
    "Both": (">=", "<="),
    "Left": (">=", "<"),
    "Right": (">", "<="),
    "None": (">", "<"),
}


def _object(node: Json) -> JsonObject:
    """A node; a ValueError for anything but a JSON object."""
    if not isinstance(node, dict):
        raise ValueError("not an object")
    return node


def _variant(node: Json) -> tuple[str, Json]:
    """The name of a variant of Rust and what it holds: {"Column": "x"}, or "Null" where it holds nothing."""
    if isinstance(node, str):
        return node, None
    ((name, inner),) = _object(node).items()
    return name, inner


def _arguments(node: Json) -> list[Json]:
    if not isinstance(node, list):
        raise ValueError("not a list of arguments")
    return node


def _literal(node: Json) -> pa.Scalar:
    """A literal with its type; a ValueError where JSON does not determine it."""
    name, inner = _variant(_object(node)["Literal"])
    if name != "Scalar":
        raise ValueError("a literal whose type is not settled")
    kind, value = _variant(inner)
    if kind == "Null":
        return pa.scalar(None)
    if kind in _INTEGERS:
        return pa.scalar(value, _INTEGERS[kind])
    if kind in ("Float32", "Float64"):
        if not isinstance(value, (int, float)):
            raise ValueError("NaN or an infinity: JSON does not distinguish them")
        return pa.scalar(np.float32(value) if kind == "Float32" else float(value))
    if kind == "Boolean":
        return pa.scalar(bool(value))
    if kind == "String":
        return pa.scalar(str(value))
    if kind == "Binary":
        return pa.scalar(_bytes(value))
    if kind == "Date":
        return pa.scalar(value, pa.date32())
    if kind == "Time":
        return pa.scalar(value, pa.time64("ns"))
    return _literal_with_parts(kind, _arguments(value))


def _literal_with_parts(kind: str, parts: list[Json]) -> pa.Scalar:
    """A literal whose type has parameters: a unit, a time zone, a scale."""
    if kind == "Datetime":
        zone = parts[2]["inner"] if isinstance(parts[2], dict) else parts[2]
        if zone is not None and not isinstance(zone, str):
            raise ValueError("an unknown time zone")
        return pa.scalar(parts[0], pa.timestamp(_UNITS[str(parts[1])], zone))
    if kind == "Duration":
        return pa.scalar(parts[0], pa.duration(_UNITS[str(parts[1])]))
    if kind == "Decimal":
        unscaled, _, scale = parts
        return pa.scalar(Decimal(str(unscaled)).scaleb(-int(str(scale))))
    raise ValueError(f"a literal of type {kind}")


def _bytes(value: Json) -> bytes:
    return bytes([int(str(octet)) for octet in _arguments(value)])


def _candidates(node: Json) -> pa.Array:
    """The values of `is_in`, which are an Arrow IPC stream of one column."""
    content = _object(_object(_object(node)["Literal"])["Scalar"])["List"]
    column = pa.ipc.open_stream(bytes(_arguments(content))).read_all().column(0)  # type: ignore[arg-type]
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


class PolarsTranslator(Translator):
    """Walks the JSON of a filter of Polars."""

    def __init__(self, schema: pa.Schema, names: list[str] | None = None) -> None:
        super().__init__(schema, names, nan_is_greatest=True)

    def superset(self, node: Json, negated: bool = False) -> Superset:
        """The rows for which a filter is true; negated: false."""
        try:
            return self._superset(node, negated)
        except NOT_UNDERSTOOD:
            return UNKNOWN

    def _superset(self, node: Json, negated: bool) -> Superset:
        form, inner = _variant(node)
        if form == "Column":
            return self.is_boolean(str(inner), negated)
        if form == "Literal":
            scalar = _literal(node)
            return Superset(scalar.as_py() == (not negated)) if scalar.is_valid else Superset(False)
        if form == "BinaryExpr":
            parts = _object(inner)
            return self._binary(str(parts["op"]), parts["left"], parts["right"], negated)
        if form == "Function":
            parts = _object(inner)
            return self._function(_object(parts["function"]), _arguments(parts["input"]), negated)
        if form == "Ternary":
            return self._ternary(_object(inner), negated)
        return UNKNOWN

    def _ternary(self, parts: JsonObject, negated: bool) -> Superset:
        """`when`, where an unknown test takes `otherwise`: the rows for which it is not true are not known exactly."""
        yes, no = self.superset(parts["truthy"], negated), self.superset(parts["falsy"], negated)
        taken = all_of([self.superset(parts["predicate"]), yes])
        return taken if no.rows is False else Superset(any_of([taken, no]).rows, exact=False)

    def _binary(self, op: str, left: Json, right: Json, negated: bool) -> Superset:
        if op in ("And", "LogicalAnd", "Or", "LogicalOr"):
            parts = [self.superset(left, negated), self.superset(right, negated)]
            return all_of(parts) if op.endswith("And") != negated else any_of(parts)
        is_turned = _variant(left)[0] == "Literal"
        if is_turned:
            left, right = right, left
        shown, scalar = self._column(left), _literal(right)
        if op in ("EqValidity", "NotEqValidity"):
            return self._identical(shown, scalar, (op == "NotEqValidity") != negated)
        operator = TURNED[_OPERATORS[op]] if is_turned else _OPERATORS[op]
        return self.compared(shown, operator, scalar, negated)

    def _identical(self, shown: str, scalar: pa.Scalar, unequal: bool) -> Superset:
        """A comparison that is never unknown: two missing values are equal."""
        missing = IsMissing(self.name_of(shown))
        if not scalar.is_valid:
            return self.tested(missing, unequal)
        same = self.compared(shown, "!=" if unequal else "==", scalar, negated=False)
        return any_of([same, Superset(missing)]) if unequal else same

    def _column(self, node: Json) -> str:
        """The name of a column, also inside a cast that changes none of its values; else a LookupError."""
        form, inner = _variant(node)
        if form == "Cast":
            parts = _object(inner)
            shown = str(_object(parts["expr"])["Column"])
            target = _CAST_TARGETS[str(_object(parts["dtype"])["Literal"])]
            if not is_widened(self.kind_of(shown), target):
                raise LookupError("a cast that changes values")
            return shown
        return str(_object(node)["Column"])

    def _function(self, function: JsonObject, arguments: list[Json], negated: bool) -> Superset:
        family, what = _variant(function)
        name, inner = _variant(what)
        options = inner if isinstance(inner, dict) else {}
        if family == "Boolean":
            return self._boolean(name, options, arguments, negated)
        if family == "StringExpr":
            shown, text = self._column(arguments[0]), _literal(arguments[1]).as_py()
            if not pa.types.is_string(self.kind_of(shown)) or not isinstance(text, str):
                return UNKNOWN
            column = self.name_of(shown)
            if name == "StartsWith":
                return self.tested(StartsWith(column, text), negated)
            if name == "Contains" and options.get("literal") is True:
                return self.tested(Contains(column, text), negated)
        return UNKNOWN

    def _boolean(self, name: str, options: JsonObject, arguments: list[Json], negated: bool) -> Superset:
        if name == "Not":
            return self.superset(arguments[0], not negated)
        shown = self._column(arguments[0])
        column = self.name_of(shown)
        if name in ("IsNull", "IsNotNull"):
            return self.tested(IsMissing(column), (name == "IsNotNull") != negated)
        if name in ("IsNan", "IsNotNan") and pa.types.is_floating(self.kind_of(shown)):
            return self.tested(IsNan(column), (name == "IsNotNan") != negated)
        if name == "IsBetween":
            above, below = _CLOSED[str(options["closed"])]
            low = self.compared(shown, above, _literal(arguments[1]), negated)
            high = self.compared(shown, below, _literal(arguments[2]), negated)
            return any_of([low, high]) if negated else all_of([low, high])
        if name == "IsIn":
            values = _candidates(arguments[1])
            if values.null_count and (negated or options.get("nulls_equal")):
                return UNKNOWN
            return self.is_in(shown, values, negated, null_is_false=False)
        return UNKNOWN


def polars_superset(predicate: polars.Expr, schema: pa.Schema, names: list[str] | None = None) -> Superset:
    """What a filter of Polars means."""
    try:
        with warnings.catch_warnings():  # the JSON form of expressions may change: what is not understood is read
            warnings.simplefilter("ignore")
            tree: Json = json.loads(predicate.meta.serialize(format="json"))
    except Exception:  # noqa: BLE001 - a function of Python, another Polars: Polars raises errors of many kinds
        return UNKNOWN
    return PolarsTranslator(schema, names).superset(tree)


class PolarsScan:
    """Reads what a LazyFrame asks for: columns, a filter, and at most some rows."""

    def __init__(self, source: EngineSource, takes_all: bool = False) -> None:
        self._takes_all = takes_all  # every filter that is understood, also where Polars is faster
        self._source, self._schema = source, source._schema()
        self._names = dict(zip(self._schema.names, source.columns, strict=True))
        self.dtypes = source.head(0).to_polars().schema

    def frames(
        self, names: list[str] | None, predicate: polars.Expr | None, n_rows: int | None, _batch_rows: int | None
    ) -> Iterator[polars.DataFrame]:
        """The rows, in parts."""
        wanted = self._schema.names if names is None else names
        superset = Superset(True)
        if predicate is not None:
            superset = polars_superset(predicate, self._schema, self._source.columns)
        matching = chosen_rows(self._source, superset.rows)
        n_likely = self._source.count()
        if matching is not None and superset.rows is not True:
            plan = matching.explain()
            n_likely = plan.found.may.count
            if n_rows is None and not (
                self._takes_all or plan.is_selective
            ):  # Polars filters rows in memory faster than they are picked
                superset, matching = UNKNOWN, self._source
        again = None if superset.exact else predicate
        columns = list(wanted)
        if again is not None:
            columns += [name for name in again.meta.root_names() if name not in columns]
        constants = {} if again is not None or matching is None else self._constants(superset, wanted)
        columns = [name for name in columns if name not in constants]
        left = n_rows
        for frame in self._parts(matching, superset, columns, n_rows if again is None else None, n_likely, constants):
            if again is not None:
                frame = frame.filter(again)
            frame = frame.select(wanted) if columns != wanted else frame
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame
            if left == 0:
                return

    def _constants(self, superset: Superset, wanted: list[str]) -> dict[str, bool | int | str]:
        """Columns that have the same value in all rows of the superset, which then need not be read."""
        rows = superset.rows
        parts = rows.parts if isinstance(rows, And) else (rows,)
        values = {part.column: part.value for part in parts if isinstance(part, Compare) and part.operator == "=="}
        constants: dict[str, bool | int | str] = {}
        for shown in wanted:
            value, kind = values.get(self._names[shown]), self._schema.field(shown).type
            if (
                (isinstance(value, bool) and pa.types.is_boolean(kind))
                or (isinstance(value, int) and not isinstance(value, bool) and pa.types.is_integer(kind))
                or (isinstance(value, str) and pa.types.is_string(kind))
            ):
                constants[shown] = value
        return constants

    def _parts(
        self, matching: EngineSource | None, superset: Superset, columns: list[str], most: int | None, n_likely: int,
        constants: dict[str, bool | int | str],
    ) -> Iterator[polars.DataFrame]:  # fmt: skip
        stored = [self._names[name] for name in columns]
        if matching is None:
            yield self._source.select(stored).head(0).to_polars()
        elif most is not None:
            yield self._frame(matching.head(most), stored, constants)
        elif superset.rows is not True and n_likely <= _MOST_PIECES_AT_ONCE * PIECE_ROWS:
            yield self._frame(matching, stored, constants)
        else:
            n_rows = self._source.count()
            for start in range(0, n_rows, PIECE_ROWS):
                part = self._source._slice(slice(start, min(start + PIECE_ROWS, n_rows)))
                rows = chosen_rows(part, superset.rows)
                if rows is not None:
                    yield self._frame(rows, stored, constants)
            if not n_rows:
                yield self._source.select(stored).to_polars()

    def _frame(self, rows: EngineSource, stored: list[str], constants: dict[str, bool | int | str]) -> polars.DataFrame:
        if not constants:
            return rows.select(stored).to_polars()
        frame = rows.select(stored).to_polars() if stored else None
        n_rows = rows.count() if frame is None else frame.height
        package = import_module("polars")
        repeated = [
            package.repeat(value, n_rows, dtype=self.dtypes[name], eager=True).alias(name)
            for name, value in constants.items()
        ]
        whole: polars.DataFrame = package.DataFrame(repeated) if frame is None else frame.with_columns(repeated)
        return whole


def lazy_frame(source: EngineSource, *, takes_all: bool = False) -> polars.LazyFrame:
    """The rows as a LazyFrame."""
    try:
        plugins = import_module("polars.io.plugins")
        register: Callable[..., polars.LazyFrame] = plugins.register_io_source
    except (ImportError, AttributeError):
        raise UsageError("this needs Polars 1.34 or later: pip install 'colonnade[polars]'") from None
    takes = inspect.signature(register).parameters
    named = {"explain_name": "colonnade"} if "explain_name" in takes else {}
    pure = {"is_pure": True} if "is_pure" in takes else {}
    scan = PolarsScan(source, takes_all)
    return register(scan.frames, schema=scan.dtypes, **pure, **named)
