"""Filters that come as `pyarrow.compute.Expression`: those of pyarrow itself, of DuckDB before 2.0, and of DataFusion.

In pyarrow a NaN equals nothing, as in colonnade. Engines that mean SQL (DataFusion) send the same expressions with
another meaning: NaN is the greatest number and equals itself, and `is_in` of a missing row is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from colonnade import compute as pc
from colonnade.engines.arrow_expression import (
    ArrowNode,
    CallNode,
    FieldNode,
    LiteralNode,
    columns_of_tree,
    expression_tree,
)
from colonnade.engines.sql_mask import sql_rows
from colonnade.engines.superset import (
    NOT_UNDERSTOOD,
    UNKNOWN,
    Superset,
    Translator,
    all_of,
    any_of,
    is_widened,
    plain_type,
)
from colonnade.predicate.expressions import TURNED, Operator
from colonnade.predicate.tree import And, Contains, IsMissing, IsNan, Like, Not, Or, Predicate, StartsWith

_COMPARE: dict[str, Operator] = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_PATTERNS: dict[str, Callable[[str, str], Predicate]] = {
    "starts_with": StartsWith,
    "match_substring": Contains,
    "match_like": Like,
}
_MATCH, _SKIP = 0, 1  # pyarrow.compute.SetLookupOptions: how a null among the values is treated


class ArrowTranslator(Translator):
    """Walks the tree of an expression. sql: it means what SQL means by it."""

    def __init__(self, schema: pa.Schema, names: Sequence[str] | None = None, *, sql: bool = False) -> None:
        super().__init__(schema, names, nan_is_greatest=sql)
        self._sql = sql

    def superset(self, tree: ArrowNode, negated: bool = False) -> Superset:
        """The rows for which the expression is true; negated: false."""
        try:
            return self._superset(tree, negated)
        except NOT_UNDERSTOOD:
            return UNKNOWN

    def _superset(self, tree: ArrowNode, negated: bool) -> Superset:
        if isinstance(tree, LiteralNode):
            return _constant(tree.scalar, negated)
        if isinstance(tree, FieldNode):
            return self.is_boolean(_column(tree), negated)
        if tree.function in _COMPARE:
            left, right = tree.arguments
            return self._compared(_COMPARE[tree.function], left, right, negated)
        if tree.function in ("and_kleene", "or_kleene", "and", "or"):
            return self._logical(tree, negated)
        if tree.function == "invert":
            return self.superset(tree.arguments[0], not negated)
        if tree.function == "if_else":
            test, yes, no = tree.arguments
            return any_of(
                [
                    all_of([self.superset(test), self.superset(yes, negated)]),
                    all_of([self.superset(test, negated=True), self.superset(no, negated)]),
                ]
            )
        return self._tested(tree, negated)

    def _logical(self, tree: CallNode, negated: bool) -> Superset:
        parts = [self.superset(argument, negated) for argument in tree.arguments]
        is_all = tree.function.startswith("and") != negated
        joined = all_of(parts) if is_all else any_of(parts)
        # Without Kleene's logic the result is null where one side is, also where the other side decides.
        return joined if tree.function.endswith("_kleene") or is_all else Superset(joined.rows, exact=False)

    def _tested(self, tree: CallNode, negated: bool) -> Superset:
        """A function of one column."""
        shown = _column(self._uncast(tree.arguments[0]))
        name, kind = self.name_of(shown), self.kind_of(shown)
        if tree.function in ("is_null", "is_valid"):
            wants_missing = (tree.function == "is_null") != negated
            if tree.function == "is_null" and tree.option("nan_is_null") and pa.types.is_floating(kind):
                absent: Predicate = Or((IsMissing(name), IsNan(name)))
                return Superset(absent if wants_missing else And((Not(IsMissing(name)), Not(IsNan(name)))))
            return self.tested(IsMissing(name), not wants_missing)
        if tree.function == "is_nan":
            return self.tested(IsNan(name), negated) if pa.types.is_floating(kind) else UNKNOWN
        if tree.function in ("is_in", "is_in_meta_binary"):
            return self._among(tree, shown, negated)
        if tree.function in _PATTERNS and pa.types.is_string(kind) and not tree.option("ignore_case"):
            pattern = tree.option("pattern")
            text = pattern.decode() if isinstance(pattern, bytes) else pattern
            return self.tested(_PATTERNS[tree.function](name, text), negated) if isinstance(text, str) else UNKNOWN
        return UNKNOWN

    def _among(self, tree: CallNode, shown: str, negated: bool) -> Superset:
        nulls = tree.option("null_matching_behavior")
        nulls = tree.option("skip_nulls") if nulls is None else nulls
        if not isinstance(tree.options, pa.StructScalar) or nulls not in (_MATCH, _SKIP, None):
            return UNKNOWN
        values = tree.options["value_set"].values
        return self.is_in(
            shown, values, negated,
            null_is_false=not self._sql, null_matches=not self._sql and nulls != _SKIP, is_bitwise=not self._sql,
        )  # fmt: skip

    def _uncast(self, tree: ArrowNode) -> ArrowNode:
        """The column itself where a cast changes none of its values."""
        if isinstance(tree, CallNode) and tree.function == "cast" and isinstance(tree.arguments[0], FieldNode):
            target = tree.options["to_type"].type if isinstance(tree.options, pa.StructScalar) else None
            if target is not None and is_widened(self.kind_of(_column(tree.arguments[0])), plain_type(target)):
                return tree.arguments[0]
        return tree

    def _compared(self, operator: Operator, left: ArrowNode, right: ArrowNode, negated: bool) -> Superset:
        left, right = self._uncast(left), self._uncast(right)
        if isinstance(left, LiteralNode):
            left, right, operator = right, left, TURNED[operator]
        shown = _column(left)
        if isinstance(right, LiteralNode):
            return self.compared(shown, operator, right.scalar, negated)
        if left == right and operator in ("!=", "==") and not self._sql:  # how NaN is asked for
            name, unequal = self.name_of(shown), (operator == "!=") != negated
            if pa.types.is_floating(self.kind_of(shown)):
                return self.tested(IsNan(name), not unequal)
            return Superset(False) if unequal else Superset(Not(IsMissing(name)))
        return UNKNOWN


def _constant(scalar: pa.Scalar, negated: bool) -> Superset:
    if not scalar.is_valid:
        return Superset(False)
    return Superset(scalar.as_py() != negated) if pa.types.is_boolean(scalar.type) else UNKNOWN


def _column(tree: ArrowNode) -> str:
    """The name of a column; a ValueError for anything else."""
    if not isinstance(tree, FieldNode) or len(tree.path) != 1:
        raise ValueError("not a column")
    return tree.path[0]


class ArrowFilter:
    """A filter given as an expression: its superset, and how to apply what the superset does not say."""

    def __init__(
        self, expression: pc.Expression | pa.Scalar, schema: pa.Schema, names: Sequence[str] | None = None, *,
        sql: bool = False,
    ) -> None:  # fmt: skip
        self._expression = as_expression(expression)
        self._tree: ArrowNode | None = None
        self.superset = UNKNOWN
        try:
            self._tree = expression_tree(self._expression)
            self.superset = ArrowTranslator(schema, names, sql=sql).superset(self._tree)
        except NOT_UNDERSTOOD:  # another pyarrow: no row is ruled out
            self._tree = None
        self._schema, self._sql = schema, sql

    @property
    def columns(self) -> set[str]:
        """The columns that the filter reads: all, where it is not understood."""
        return set(self._schema.names) if self._tree is None else columns_of_tree(self._tree)

    def applied(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that the filter keeps."""
        if self._sql and self._tree is not None:
            return sql_rows(self._tree, batch)
        return batch.filter(self._expression)

    def __str__(self) -> str:
        return str(self._expression)


def as_expression(filter: pc.Expression | pa.Scalar) -> pc.Expression:  # noqa: A002
    """Engines give a constant as a plain scalar, which `&` of pyarrow does not take."""
    return pc.scalar(filter.as_py()) if isinstance(filter, pa.Scalar) else filter
