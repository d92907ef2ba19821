"""Columns and expressions as callers name them: an expression in Python form is known by its text from then on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colonnade.predicate.columns import ColumnName, Expression
from colonnade.predicate.tree import Predicate, TruthTerm

ColumnRequest = str | Expression | Predicate
"""A column by its name, or an expression, in text or in Python form."""
AggregateRequest = str | tuple[object, str] | tuple[object, str, float]
"""A value requested from `aggregate`: "count", or a column (or an expression) and a function, which some give a
parameter."""
FunctionRequest = str | tuple[str, float] | Sequence[str | tuple[str, float]]
"""What is requested of a column: a function, or several; with a parameter `("quantile", 0.9)`."""


def text_of(column: object, expressions: dict[str, Expression]) -> object:
    """The name of a column, or the text of an expression, which is added to `expressions`; others as they are."""
    if isinstance(column, Predicate):
        column = Expression(TruthTerm(column))
    if not isinstance(column, Expression):
        return column
    text = column.name if isinstance(column, ColumnName) else str(column)
    expressions[text] = column
    return text


def texts_of(columns: object, expressions: dict[str, Expression]) -> object:
    """As `text_of`, of one column or of each of several."""
    if isinstance(columns, (list, tuple)):
        return [text_of(column, expressions) for column in columns]
    return text_of(columns, expressions)


def texts_of_requests(
    named: Mapping[str, AggregateRequest], expressions: dict[str, Expression]
) -> dict[str, AggregateRequest]:
    """The requested values, with the text of each expression, which is added to `expressions`."""
    requests: dict[str, AggregateRequest] = dict(named)
    for name, item in named.items():
        if isinstance(item, (tuple, list)) and item:
            requests[name] = (text_of(item[0], expressions), *item[1:])
    return requests
