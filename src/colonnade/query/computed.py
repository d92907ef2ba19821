"""Computed columns: read by a `ColumnReader` like a stored column, but computed from columns, a piece at a time.

So a computed column can be tested, selected, aggregated and written like a stored one: what its fetcher fetches is an
array of values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import limits
from colonnade.columns.arrow_types import is_list_type
from colonnade.columns.keys import Keys, NumberKeys, Numbers, decimal_keys, keys_of, keys_to_decimals
from colonnade.columns.mapping import arrow_type, implied_units, named_type, stored_string, stored_type
from colonnade.columns.missing import Mask
from colonnade.columns.plain import spread
from colonnade.columns.raw import any_of
from colonnade.columns.read import ColumnReader, opaque
from colonnade.dataclass import dataclass
from colonnade.errors import PredicateError, UnknownColumn, rows_as
from colonnade.model import ColumnInfo, Masked, Plain
from colonnade.predicate.expressions import CallTerm, ColumnTerm, Subject, Term, columns_in, term_of
from colonnade.predicate.tree import Contains, ElementsTerm, Leaf, Not, Predicate, TruthTerm, with_leaves
from colonnade.query.bind import bind
from colonnade.query.evaluate import evaluate
from colonnade.query.match import true_rows
from colonnade.selection import RowNumbers, Selection

StoredColumns = Mapping[ColumnTerm, tuple[str, tuple[str, ...]]]
"""For each column of a term, the name of the stored column and the fields of it that are meant."""

ElementsReader = Callable[[ElementsTerm, str, StoredColumns, Mapping[str, ColumnReader]], ColumnReader]
"""Gives a reader of a test of the elements of lists, as `computed_reader` does of another term: `lists` has one."""

WIDEST_DECIMAL = 84  # characters of a decimal of 76 digits as text


@dataclass(frozen=True)
class ReadOperand:
    """The reader of a column, and the path of the field of it that is meant: positions in structs."""

    reader: ColumnReader
    fields: tuple[int, ...]

    def values(self, array: pa.Array) -> pa.Array:
        """The values that are computed with, from those of the column: categories are resolved."""
        if self.fields:
            array = pc.struct_field(array, list(self.fields))
        return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


SomeRows = range | RowNumbers
Compute = Callable[[Mapping[Term, pa.Array]], pa.Array]
"""Computes the values of some rows from those of the operands."""


class ComputedFetcher:
    """Computes rows from what readers of columns give."""

    source = None

    def __init__(
        self, compute: Callable[[SomeRows], pa.Array], readers: Sequence[ColumnReader], kind: pa.DataType
    ) -> None:
        """compute: the values of some rows, from those of the readers."""
        self._run, self._readers, self._kind = compute, readers, kind
        self._widest = max(self._readers, key=lambda reader: reader.column.type.size)
        self.n_threads = min(reader.n_threads for reader in self._readers)

    def fetch(self, start: int, count: int) -> pa.Array:
        """These rows, computed a piece at a time, so that no wide column is held whole."""
        return self._joined([self._run(range(*ends)) for ends in self._widest.pieces(start, start + count)])

    @contextmanager
    def by_library(self, start: int, count: int, step: int = 1) -> Iterator[pa.Array]:
        yield self._joined([self._run(range(start, start + count * step, step))] if count else [])

    def take(self, rows: RowNumbers) -> pa.Array:
        most = max(1, limits.now.piece_bytes // max(self._widest.column.type.size, 1))
        return self._joined([self._run(rows[first : first + most]) for first in range(0, len(rows), most)])

    def _joined(self, parts: list[pa.Array]) -> pa.Array:
        if len(parts) == 1:
            return parts[0]
        return pa.concat_arrays(parts) if parts else pa.array([], self._kind)

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        return self._widest.pieces(start, stop)

    @property
    def stored_bytes(self) -> int:
        return sum(reader.stored_bytes for reader in self._readers)

    def written_rows(self) -> int:
        return min(reader.written_rows() for reader in self._readers)


def _computes(term: Term, operands: Mapping[Term, ReadOperand]) -> Callable[[SomeRows], pa.Array]:
    """What computes the values of an expression."""
    return _computed_by(partial(evaluate, term), operands)


def _computed_by(function: Compute, operands: Mapping[Term, ReadOperand]) -> Callable[[SomeRows], pa.Array]:
    """What computes the values of rows by a function of the values of the operands."""
    readers = _distinct(operands)

    def compute(rows: SomeRows) -> pa.Array:
        def read(reader: ColumnReader) -> pa.Array:
            return reader.read(rows.start, len(rows), rows.step) if isinstance(rows, range) else reader.take(rows)

        arrays = {reader.column.name: read(reader) for reader in readers}
        columns = {part: operand.values(arrays[operand.reader.column.name]) for part, operand in operands.items()}
        with rows_as(lambda position: int(rows[position])):
            return function(columns)

    return compute


def _decides(predicate: Predicate, readers: Mapping[Subject, ColumnReader]) -> Callable[[SomeRows], pa.Array]:
    """What decides whether a predicate holds, exactly as `where` does: true, false, or missing if it is unknown."""
    holds, fails = bind(predicate, readers), bind(Not(predicate), readers)
    by_name = {reader.column.name: reader for reader in readers.values()}

    def decide(rows: SomeRows) -> pa.Array:
        numbers = np.asarray(rows, dtype=np.int64)
        asked = Selection.from_rows(np.unique(numbers))
        true = true_rows(holds, asked, by_name)
        false = true_rows(fails, asked - true, by_name)
        is_true = true.holds(numbers)
        return pa.array(is_true, mask=~(is_true | false.holds(numbers)))

    return decide


def _distinct(operands: Mapping[Term, ReadOperand]) -> list[ColumnReader]:
    """The readers of the operands, each once."""
    return list({operand.reader.column.name: operand.reader for operand in operands.values()}.values())


class ComputedDecoder:
    """The keys of values that are Arrow arrays already."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind

    def array(self, raw: pa.Array) -> pa.Array:
        return raw

    def numbers(self, raw: pa.Array) -> tuple[Numbers, Mask | None]:
        keys = self.keys(raw)
        assert isinstance(keys, NumberKeys)  # only readers that have numbers ask for them
        return keys.values, any_of(keys.missing)

    def key_array(self, raw: pa.Array) -> pa.Array:
        kind = self._kind
        if pa.types.is_temporal(kind):
            return raw.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        if pa.types.is_boolean(kind) or pa.types.is_null(kind):
            return raw.cast(pa.int8())
        is_bytes = pa.types.is_string(kind) or pa.types.is_fixed_size_binary(kind)
        return raw.cast(pa.binary()) if is_bytes and not pa.types.is_decimal(kind) else raw

    def keys(self, raw: pa.Array) -> Keys:
        return decimal_keys(raw) if pa.types.is_decimal(self._kind) else keys_of(self.key_array(raw))

    def values(self, keys: Keys) -> pa.Array:
        kind = self._kind
        if isinstance(keys, NumberKeys) and pa.types.is_decimal(kind):

            def decimals(present: Keys) -> pa.Array:
                assert isinstance(present, NumberKeys)  # a part of these keys
                return pa.array(keys_to_decimals(present.values.tolist(), kind.scale), kind)

            return spread(keys, decimals)
        return keys.array.view(kind) if pa.types.is_temporal(kind) else keys.array.cast(kind)

    def part(self, raw: pa.Array, begin: int, end: int) -> pa.Array:
        return raw.slice(begin, end - begin)


def stored_columns_of(term: Term, known: Mapping[str, ColumnInfo], where: str) -> StoredColumns:
    """The stored column that each column of a term means, and the fields of it: "pos.x" may be a field of "pos".

    A column that is not among `known` is refused; `where` is for the message.
    """
    return {column: _stored_column(column, known, where) for column in columns_in(term)}


def _stored_column(column: ColumnTerm, known: Mapping[str, ColumnInfo], where: str) -> tuple[str, tuple[str, ...]]:
    name, fields = column.name, column.fields
    while name not in known and "." in name:
        name, _, field = name.rpartition(".")
        fields = (field, *fields)
    if name not in known:
        raise _unknown(column, column.name, where, known)
    return name, fields


def computed_reader(
    term: Term, name: str, stored: StoredColumns, readers: Mapping[str, ColumnReader], of_elements: ElementsReader
) -> ColumnReader:
    """A reader of the column `name` that a term computes, from the readers of its stored columns.

    Types that do not suit are a PredicateError.
    """
    if isinstance(term, TruthTerm):
        subjects = _subject_readers(term.predicate, stored, readers, of_elements)
        predicate = of_lists(term.predicate, lambda subject: subjects[subject].kind)
        if predicate is not term.predicate:
            return computed_reader(TruthTerm(predicate), name, stored, readers, of_elements)
        distinct = list({reader.column.name: reader for reader in subjects.values()}.values())
        return _reader(name, _decides(term.predicate, subjects), distinct, pa.bool_())
    if isinstance(term, ElementsTerm):
        return of_elements(term, name, {part: stored[part] for part in columns_in(term)}, readers)
    operands = {part: _operand(part, stored, readers, of_elements) for part in _operands_of(term)}
    _take_lengths(term, operands)
    no_rows = {part: operand.values(pa.array([], operand.reader.kind)) for part, operand in operands.items()}
    kind = evaluate(term, no_rows).type
    return _reader(name, _computes(term, operands), _distinct(operands), kind)


def of_lists(predicate: Predicate, kind_of: Callable[[Subject], pa.DataType]) -> Predicate:
    """The predicate with what `contains` means of list columns; itself if it asks that of none."""

    def is_membership(leaf: Leaf) -> bool:
        return isinstance(leaf, Contains) and is_list_type(kind_of(leaf.column))

    def meant(leaf: Leaf) -> Leaf:
        return leaf.of_elements if isinstance(leaf, Contains) and is_membership(leaf) else leaf

    return with_leaves(predicate, meant) if any(map(is_membership, predicate.leaves())) else predicate


def reader_by(compute: Compute, name: str, operands: Mapping[Term, ReadOperand]) -> ColumnReader:
    """A reader of the column `name` that a function computes from the operands; no rows give its type."""
    no_rows = {part: operand.values(pa.array([], operand.reader.kind)) for part, operand in operands.items()}
    return _reader(name, _computed_by(compute, operands), _distinct(operands), compute(no_rows).type)


def _take_lengths(term: Term, operands: dict[Term, ReadOperand]) -> None:
    """Make the lengths of stored lists operands, instead of the lists where these are not used: their elements need
    not be read."""
    lengths = [part for part in _calls_in(term) if part.function == "length"]
    for part in dict.fromkeys(lengths):
        operand = operands.get(part.arguments[0])
        counts = None if operand is None or operand.fields else operand.reader.list_lengths()
        if operand is not None and counts is not None:
            reader, name = operand.reader, str(part)
            while any(name == other.reader.column.name for other in operands.values()):
                name = f"({name})"
            info = described_column(name, pa.int64(), reader.column.n_rows, reader.column.grid.chunk_rows)
            operands[part] = ReadOperand(ColumnReader.computed(info, counts, (reader,)), ())
    used = set(_operands_of(term, operands))
    for unused in [part for part in operands if part not in used]:
        del operands[unused]


def _calls_in(term: Term) -> Iterator[CallTerm]:
    """The calls in a term, outside of predicates."""
    if isinstance(term, CallTerm):
        yield term
        for part in term.arguments:
            yield from _calls_in(part)


def _reader(
    name: str, compute: Callable[[SomeRows], pa.Array], readers: Sequence[ColumnReader], kind: pa.DataType
) -> ColumnReader:
    opened = opaque(ComputedFetcher(compute, readers, kind), ComputedDecoder(kind))
    chunk_rows = max(reader.column.grid.chunk_rows for reader in readers)
    column = described_column(name, kind, readers[0].column.n_rows, chunk_rows)
    sources = [source for reader in readers for source in (reader.sources or (reader,))]
    return ColumnReader.computed(column, opened, sources)


def _subject_readers(
    predicate: Predicate, stored: StoredColumns, readers: Mapping[str, ColumnReader], of_elements: ElementsReader
) -> dict[Subject, ColumnReader]:
    """The readers of what the leaves of a predicate test, each with a name of its own."""
    found: dict[Subject, ColumnReader] = {}
    for leaf in predicate.leaves():
        subject = leaf.column
        if isinstance(subject, str) and subject in readers:
            found[subject] = readers[subject]
        elif subject not in found:
            name = str(subject)
            while name in readers:
                name = f"({name})"
            found[subject] = computed_reader(term_of(subject), name, stored, readers, of_elements)
    return found


def _operands_of(term: Term, known: Collection[Term] = ()) -> Iterator[Term]:
    """The columns, predicates and known calls that a term is computed from, from left to right."""
    if isinstance(term, (ColumnTerm, TruthTerm, ElementsTerm)) or term in known:
        yield term
    else:
        for part in term.parts:
            yield from _operands_of(part, known)


def _operand(
    part: Term, stored: StoredColumns, readers: Mapping[str, ColumnReader], of_elements: ElementsReader
) -> ReadOperand:
    """The reader of a column or of a predicate."""
    if isinstance(part, ColumnTerm):
        name, fields = stored[part]
        return operand_of(part, readers[name], fields)
    name = str(part)
    while name in readers:
        name = f"({name})"
    return ReadOperand(computed_reader(part, name, stored, readers, of_elements), ())


def described_column(name: str, kind: pa.DataType, n_rows: int, chunk_rows: int) -> ColumnInfo:
    """The description of a computed column, as if it was stored next to the columns that it is computed from."""
    stored = stored_string(WIDEST_DECIMAL) if pa.types.is_decimal(kind) else stored_type(kind, f"expression {name}")
    units = implied_units(kind)
    column = ColumnInfo(
        name,
        stored,
        n_rows,
        chunk_rows=chunk_rows,
        form=Masked(Plain()),
        units=units,
        arrow_type=named_type(stored, units, kind),
    )
    assert arrow_type(column) == kind  # so that it is tested, aggregated and shown as what is computed
    return column


def operand_of(column: ColumnTerm, reader: ColumnReader, fields: tuple[str, ...]) -> ReadOperand:
    """The reader of a stored column, and where the fields are in its structs."""
    kind, positions = reader.kind, list[int]()
    for depth, field in enumerate(fields):
        owner = ".".join((reader.column.name, *fields[:depth]))
        if not pa.types.is_struct(kind):
            message = f"no field {field!r} in column {owner!r}: it holds {kind}, which has no fields"
            raise PredicateError(message, column=reader.column.name, part=column)
        names = [kind.field(position).name for position in range(kind.num_fields)]
        if field not in names:
            raise _unknown(column, field, f"column {owner!r}", names)
        positions.append(names.index(field))
        kind = kind.field(positions[-1]).type
    return ReadOperand(reader, tuple(positions))


def _unknown(column: ColumnTerm, name: str, where: str, known: Mapping[str, ColumnInfo] | list[str]) -> UnknownColumn:
    error = UnknownColumn(name, where, known)
    error.part = column
    return error
