"""A table or query as a source for DuckDB.

DuckDB 2.0 has a protocol for sources written in Python (`duckdb._sources`, private, so it is looked for and not relied
on): a source may refuse a filter, and reports its number of rows, which joins are planned by. Older versions scan the
`TableDataset`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from colonnade import limits
from colonnade.engines.dataset import TableDataset
from colonnade.engines.source import EngineSource, chosen_rows, empty_batch
from colonnade.engines.superset import (
    NOT_UNDERSTOOD,
    UNKNOWN,
    Superset,
    Translator,
    all_of,
    any_of,
)
from colonnade.errors import UsageError
from colonnade.predicate.expressions import Operator
from colonnade.predicate.tree import IsMissing

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

    class FilterNode(Protocol):
        """A node of a filter of DuckDB: its attributes depend on its class."""

        op: str
        left: FilterNode
        right: FilterNode
        operand: FilterNode
        values: list[FilterNode]
        parts: tuple[str, ...]
        value: object
        type: str


_NODES = ("Binary", "Col", "In", "Lit", "Postfix", "Unary", "exact_value")
_OPERATORS: dict[str, Operator] = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class NodeTranslator(Translator):
    """Walks the nodes of DuckDB 2.0: literals have exactly the type of their column, NaN is the greatest number."""

    def __init__(self, schema: pa.Schema, names: Sequence[str] | None = None) -> None:
        super().__init__(schema, names, nan_is_greatest=True)

    def superset(self, node: FilterNode, negated: bool = False) -> Superset:
        """The rows for which a filter is true; negated: false."""
        try:
            return self._superset(node, negated)
        except NOT_UNDERSTOOD:
            return UNKNOWN

    def _superset(self, node: FilterNode, negated: bool) -> Superset:
        form = type(node).__name__
        if form == "Binary" and node.op in ("AND", "OR"):
            parts = [self.superset(node.left, negated), self.superset(node.right, negated)]
            return all_of(parts) if (node.op == "AND") != negated else any_of(parts)
        if form == "Unary" and node.op == "NOT":
            return self.superset(node.operand, not negated)
        if form == "Postfix" and node.op in ("IS NULL", "IS NOT NULL"):
            return self.tested(IsMissing(self.name_of(_column(node.operand))), (node.op == "IS NULL") == negated)
        if form == "Binary" and node.op in _OPERATORS:
            shown = _column(node.left)
            return self.compared(shown, _OPERATORS[node.op], _scalar(node.right, self.kind_of(shown)), negated)
        if form == "In":
            shown = _column(node.operand)
            scalars = [_scalar(value, self.kind_of(shown)) for value in node.values]
            values = pa.array([scalar.as_py() for scalar in scalars], scalars[0].type)
            return self.is_in(shown, values, negated, null_is_false=False)
        return UNKNOWN


def _column(node: FilterNode) -> str:
    """The name of a column; a ValueError for a field inside one."""
    if type(node).__name__ != "Col" or len(node.parts) != 1:
        raise ValueError("a field inside a column")
    return node.parts[0]


def _scalar(literal: FilterNode, kind: pa.DataType) -> pa.Scalar:
    """A literal with its type; a ValueError where it is not exactly a value of the column's type."""
    nodes, types = import_module("duckdb._sources.nodes"), import_module("duckdb._sources.to_arrow")
    if type(literal).__name__ != "Lit" or literal.type != types._engine_type(kind) or not nodes.exact_value(literal):
        raise ValueError("a literal of another type")
    if literal.type == "TIMESTAMP WITH TIME ZONE":  # microseconds since 1970, whatever the unit of the column
        return pa.scalar(literal.value, pa.timestamp("us", kind.tz))
    if literal.type.startswith("TIMESTAMP"):
        return pa.scalar(np.datetime64(str(literal.value), "us"))
    return pa.scalar(literal.value, None if literal.type in ("TIME", "BLOB", "VARCHAR") else kind)


class SourceRows:
    """The methods of a source of DuckDB 2.0. What DuckDB asks for is answered from the file.

    takes_all: every filter that is understood is taken, also where DuckDB is faster.
    """

    schema_is_stable = False
    pull_under_gil = False
    one_shot = False

    def __init__(self, source: EngineSource, takes_all: bool = False) -> None:
        self.obj = source
        self.failure: BaseException | None = None  # what ended the last stream: DuckDB keeps only its text
        self._takes_all = takes_all
        stored = source._schema(dictionaries=True)
        self._schema = pa.schema([field.with_type(readable_type(field.type)) for field in stored])
        self._translator = NodeTranslator(stored, source.columns)

    def rows(self) -> int:
        """The number of rows."""
        return self.obj.count()

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:  # DuckDB looks for variables by it
        return self.stream(None, [])[0]

    def accepts(self, predicate: FilterNode) -> bool:
        """Whether `stream` applies this filter. DuckDB does not apply it again."""
        superset = self._translator.superset(predicate)
        if not superset.exact:
            return False
        return (
            isinstance(superset.rows, bool) or self._takes_all or self.obj.where(superset.rows).explain().is_selective
        )

    def stream(self, columns: Sequence[int] | None, filters: Sequence[FilterNode]) -> tuple[object, bool]:
        """The rows that accepted filters keep, as an Arrow stream of these columns; and that it has only these."""
        superset = all_of([self._translator.superset(node) for node in filters])
        positions = range(len(self._schema)) if columns is None else columns
        schema = pa.schema([self._schema.field(position) for position in positions])
        names = [self.obj.columns[position] for position in positions]

        def batches() -> Iterator[pa.RecordBatch]:
            matching = chosen_rows(self.obj, superset.rows)
            if matching is None:
                return
            try:
                if not names:
                    yield empty_batch(matching.count())
                    return
                for batch in matching.select(names).batches(limits.now.scan_rows, dictionaries=True):
                    yield readable(batch, schema)
            except BaseException as error:
                self.failure = error
                raise

        return pa.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__(), columns is not None


def readable_type(kind: pa.DataType) -> pa.DataType:
    """The type that DuckDB reads instead of one that it cannot read."""
    if pa.types.is_float16(kind):
        return pa.float32()
    return pa.string() if pa.types.is_decimal256(kind) else kind


def readable(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the types of the schema. DuckDB converts durations also where they are missing: they become 0."""
    columns = [
        column.cast(field.type)
        if column.type != field.type
        else _without_hidden_values(column)
        if pa.types.is_duration(column.type) and column.null_count
        else column
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _without_hidden_values(column: pa.Array) -> pa.Array:
    validity, values = column.is_valid(), column.fill_null(pa.scalar(0, column.type))
    return pa.Array.from_buffers(column.type, len(column), [_bits(validity), values.buffers()[1]], offset=0)


def _bits(booleans: pa.Array) -> pa.Buffer:
    buffer: pa.Buffer = pa.array(booleans.to_numpy(zero_copy_only=False)).buffers()[1]
    return buffer


def duckdb_source(source: EngineSource, *, takes_all: bool = False) -> object:
    """What DuckDB scans best in the installed version."""
    try:
        base = import_module("duckdb._sources").ArrowScanSource
        nodes, types = import_module("duckdb._sources.nodes"), import_module("duckdb._sources.to_arrow")
    except (ImportError, AttributeError):  # before 2.0
        return TableDataset(source, dictionaries=True)
    if not all(hasattr(nodes, name) for name in _NODES) or not hasattr(types, "_engine_type"):  # changed since 2.0
        return TableDataset(source, dictionaries=True)
    bridge: Callable[[EngineSource, bool], object] = type("TableSource", (SourceRows, base), {})
    return bridge(source, takes_all)


def relation(source: EngineSource, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """The rows as a relation of a connection; None: of the default one."""
    try:
        module = import_module("duckdb")
    except ImportError:
        raise UsageError("this needs the package duckdb: pip install 'colonnade[sql]'") from None
    if connection is not None and not isinstance(connection, module.DuckDBPyConnection):
        raise UsageError(f"con must be a connection of duckdb.connect(), or None, not {connection!r}", option="con")
    scanned = duckdb_source(source)
    result: duckdb.DuckDBPyRelation = (module if connection is None else connection).from_arrow(scanned)
    return result
