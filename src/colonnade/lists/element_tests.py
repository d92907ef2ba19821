"""Tests of the elements of list columns: `any(x > 3)`, `all(x > 3)`, and `contains(x, 3)`, which is `any(x == 3)`.

The elements of some rows are a column of their own, to which the predicate inside is bound like any other; so values
are compared as in a column of these values. Logic is three-valued: for each element the predicate is true, false or
unknown, and `any` joins them with or, `all` with and. Nothing is true for no elements, so `any` is false for an empty
list and `all` is true. Of a missing list both are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.arrays import Int64s
from colonnade.columns.arrow_types import is_list_type
from colonnade.columns.read import ColumnReader, opaque
from colonnade.errors import PredicateError, UsageError, rows_as
from colonnade.predicate.expressions import ColumnTerm, Subject, Term, subject_of, term_of
from colonnade.predicate.tree import ElementsTerm, Not, Predicate
from colonnade.query.bind import bind
from colonnade.query.computed import (
    ComputedDecoder,
    ReadOperand,
    StoredColumns,
    computed_reader,
    described_column,
    of_lists,
    operand_of,
    reader_by,
)
from colonnade.query.match import true_rows
from colonnade.selection import RowNumbers, Selection

FEW_OF_ELEMENTS = 16  # that match, of which the lists are looked up one by one


def elements_reader(
    term: ElementsTerm, name: str, stored: StoredColumns, readers: Mapping[str, ColumnReader]
) -> ColumnReader:
    """A reader of the column `name` of booleans that a test of elements computes. Types that do not suit are a
    PredicateError."""
    lists = dict.fromkeys((of, _fields_of_list(readers[of].kind, fields)) for of, fields in stored.values())
    if len(lists) > 1:
        shown = " and ".join(".".join((of, *fields)) for of, fields in lists)
        raise PredicateError(f"{term} tests the elements of several columns, {shown}: {term.how} takes a test of one")
    of, outer = next(iter(lists))
    operand = operand_of(ColumnTerm(of, outer), readers[of], outer)
    column = ColumnTerm(of, outer)
    inside = {part: (of, fields[len(outer) :]) for part, (_, fields) in stored.items()}
    kind = operand.values(pa.array([], readers[of].kind)).type
    if not is_list_type(kind):
        raise PredicateError(f"{term} tests the elements of lists, column {'.'.join((of, *outer))!r} holds {kind}")

    def compute(arrays: Mapping[Term, pa.Array]) -> pa.Array:
        return _tested(term, of, inside, arrays[column])

    return reader_by(compute, name, {column: ReadOperand(readers[of], operand.fields)})


def _fields_of_list(kind: pa.DataType, fields: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the fields that lead through structs to a list; what follows are fields of its elements."""
    for depth, field in enumerate(fields):
        position = kind.get_field_index(field) if pa.types.is_struct(kind) else -1
        if position < 0:
            return fields[:depth]
        kind = kind.field(position).type
    return fields


def _tested(term: ElementsTerm, name: str, inside: StoredColumns, lists: pa.Array) -> pa.Array:
    """The answer for each list; null where it is unknown."""
    known = pc.call_function("list_value_length", [lists])
    assert isinstance(known, pa.Array)  # as the lists are
    lengths = np.asarray(known.fill_null(0), dtype=np.int64)
    ends, elements = np.cumsum(lengths), lists.flatten()
    with rows_as(lambda element: int(np.searchsorted(ends, element, side="right"))):
        true, false = _truth(term.predicate, name, inside, elements)
    n_true = _counted(true, lengths, ends)
    n_false = lengths - n_true if false is None else _counted(false, lengths, ends)
    answer, opposite = (n_true > 0, n_false == lengths) if term.how == "any" else (n_true == lengths, n_false > 0)
    unknown = ~(answer | opposite)
    if lists.null_count:
        unknown |= lists.is_null().to_numpy(zero_copy_only=False)
    return pa.array(answer, pa.bool_(), mask=unknown)


def _counted(rows: Selection, lengths: Int64s, ends: Int64s) -> Int64s:
    """How many of the rows are in each of the ranges of these lengths, which follow each other."""
    if rows.count * FEW_OF_ELEMENTS < int(lengths.sum()):
        owners = np.searchsorted(ends, rows.rows(), side="right")
        return np.bincount(owners, minlength=len(ends)).astype(np.int64)
    edges = np.zeros(int(lengths.sum()) + 1, dtype=np.int8)
    edges[rows.starts] += 1
    edges[rows.stops] -= 1
    before = np.concatenate(([0], np.cumsum(np.cumsum(edges[:-1], dtype=np.int8), dtype=np.int64)))
    counts: Int64s = before[ends] - before[ends - lengths]
    return counts


def _truth(
    predicate: Predicate, name: str, inside: StoredColumns, elements: pa.Array
) -> tuple[Selection, Selection | None]:
    """The elements for which the predicate is true, and those for which it is false: None for all others."""
    whole = _array_reader(name, elements)
    predicate = of_lists(predicate, lambda subject: _inner_reader(subject, inside, whole).kind)
    by_subject = {leaf.column: _inner_reader(leaf.column, inside, whole) for leaf in predicate.leaves()}
    readers = {reader.column.name: reader for reader in by_subject.values()}
    every = Selection.of(0, len(elements))
    true = true_rows(bind(predicate, by_subject), every, readers)
    if not elements.null_count and not pa.types.is_nested(elements.type):
        return true, None  # nothing is unknown where nothing is missing
    return true, true_rows(bind(Not(predicate), by_subject), every - true, readers)


def _inner_reader(subject: Subject, inside: StoredColumns, whole: ColumnReader) -> ColumnReader:
    """The reader of what a leaf tests of the elements."""
    term, of = term_of(subject), whole.column.name
    if isinstance(term, ColumnTerm) and not inside[term][1]:
        return whole
    name = f"({subject_of(term)})"
    return computed_reader(term, name, inside, {of: whole}, elements_reader)


def _array_reader(name: str, array: pa.Array) -> ColumnReader:
    """A reader of an array as a column."""
    kind = array.type
    try:
        column = described_column(name, kind, len(array), max(len(array), 1))
    except UsageError:
        raise PredicateError(f"elements of type {kind} cannot be tested") from None
    return ColumnReader.computed(column, opaque(_ArrayFetcher(array), ComputedDecoder(kind)), ())


class _ArrayFetcher:
    """Rows of an array in memory."""

    source = None
    n_threads = 1

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def fetch(self, start: int, count: int) -> pa.Array:
        return self._array.slice(start, count)

    @contextmanager
    def by_library(self, start: int, count: int, step: int = 1) -> Iterator[pa.Array]:
        yield self._array.take(pa.array(start + step * np.arange(count)))

    def take(self, rows: RowNumbers) -> pa.Array:
        return self._array.take(pa.array(rows))

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        yield start, stop

    @property
    def stored_bytes(self) -> int:
        return self._array.nbytes

    def written_rows(self) -> int:
        return len(self._array)
