"""Which rows of a table have the keys of given rows: the first step of `upsert`.

Keys are compared as in Arrow's joins: a missing key equals no other, 0.0 equals -0.0. The given keys are held in
memory; the keys of the table are read a few MiB at a time, or only those of candidate rows that an index found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.arrays import Int64s
from colonnade.columns.arrow_types import plain_array, python_values
from colonnade.columns.mapping import plain_type
from colonnade.columns.read import ColumnReader
from colonnade.errors import DataError, UsageError
from colonnade.exchange.sources import family
from colonnade.selection import RowNumbers

CANDIDATES_AT_ONCE = 65_536


class KeyMatches(NamedTuple):
    """For each given row the row of the table with its key; -1 where there is none."""

    rows: RowNumbers

    @property
    def known(self) -> Int64s:
        """The positions of given rows whose key the table has."""
        return np.flatnonzero(self.rows >= 0)

    @property
    def new(self) -> Int64s:
        """The positions of given rows whose key the table does not have."""
        return np.flatnonzero(self.rows < 0)


def given_keys(given: pa.ChunkedArray, reader: ColumnReader) -> pa.Array:
    """Given keys of one column, in the type of the column; refused where they cannot be keys."""
    name, kind = reader.column.name, key_kind(reader)
    array = pa.concat_arrays(given.chunks) if given.num_chunks else pa.array([], given.type)
    array = plain_array(array, plain_type(array.type))
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if array.null_count:
        row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        raise DataError("the key is missing. Give every row a key, or append the rows", column=name, row=row)
    if family(array.type) != family(kind) and len(array):
        raise DataError(f"the column holds {kind}, the given keys are {array.type}. Cast them first", column=name)
    try:
        keys = _comparable(array.cast(kind))
    except (pa.ArrowException, NotImplementedError) as error:
        raise DataError(f"the given keys do not fit {kind}: {error}", column=name) from error
    if pa.types.is_floating(kind) and pc.any(pc.is_nan(keys)).as_py():
        row = int(np.argmax(np.isnan(keys.to_numpy(zero_copy_only=False))))
        raise DataError("NaN cannot be a key: it equals no number", column=name, row=row)
    return keys


def key_kind(reader: ColumnReader) -> pa.DataType:
    """The type by which the keys of a column are compared; refused where values cannot be compared."""
    kind = plain_type(reader.kind)
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if isinstance(reader.kind, pa.BaseExtensionType) or pa.types.is_nested(kind) or pa.types.is_null(kind):
        name = reader.column.name
        raise UsageError(f"column {name!r} cannot be a key: it holds {reader.kind}. Choose another column", column=name)
    return kind


def _comparable(array: pa.Array) -> pa.Array:
    """Values that are equal where their bytes are: 0.0 for -0.0."""
    plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if pa.types.is_float16(plain.type):
        plain = plain.cast(pa.float32())
    return pc.add(plain, pa.scalar(0.0, plain.type)) if pa.types.is_floating(plain.type) else plain


class KeyNumbers:
    """Numbers for the keys of given rows, each key once; other rows with such a key get its number."""

    def __init__(self, columns: Sequence[pa.Array], names: Sequence[str]) -> None:
        self._steps: list[tuple[pa.Array, Int64s]] = []
        numbers: Int64s = np.zeros(len(columns[0]), dtype=np.int64)
        for array in columns:
            values = pc.unique(array)
            numbers = numbers * len(values) + _positions(array, values)
            combinations, numbers = np.unique(numbers, return_inverse=True)
            self._steps.append((values, combinations))
        order = np.argsort(numbers, kind="stable")
        twice = np.flatnonzero(numbers[order][1:] == numbers[order][:-1])
        if len(twice):
            first, second = int(order[twice[0]]), int(order[twice[0] + 1])
            key = key_text(names, [python_values(array.slice(first, 1))[0] for array in columns])
            raise DataError(f"the key {key} is given twice, in rows {first} and {second}. Give each key once")
        self.n_keys, self._given = len(numbers), order

    def given_row(self, number: int) -> int:
        """The position of the given row with a key."""
        return int(self._given[number])

    def of(self, columns: Sequence[pa.Array]) -> Int64s:
        """The numbers of the keys of other rows; -1 for keys that were not given."""
        numbers: Int64s = np.zeros(len(columns[0]), dtype=np.int64)
        known = np.ones(len(columns[0]), dtype=bool)
        for array, (values, combinations) in zip(columns, self._steps, strict=True):
            positions = _positions(array, values)
            wanted = numbers * len(values) + positions
            nearest = np.minimum(np.searchsorted(combinations, wanted), len(combinations) - 1)
            known &= (positions >= 0) & (combinations[nearest] == wanted)
            numbers = np.where(known, nearest, 0)
        return np.where(known, numbers, -1)


def _positions(array: pa.Array, values: pa.Array) -> Int64s:
    """The position of each element among distinct values; -1 where it is none of them."""
    positions: Int64s = pc.index_in(array, values).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return positions


def key_text(names: Sequence[str], values: Sequence[object]) -> str:
    """A key as text."""
    return ", ".join(f"{name} = {value!r}" for name, value in zip(names, values, strict=True))


def match_rows(
    given: Sequence[pa.Array], readers: Sequence[ColumnReader], n_rows: int, candidates: RowNumbers | None
) -> KeyMatches:
    """The rows of the table with the given keys.

    `candidates` are increasing rows of the table, outside of which no row has such a key.
    """
    names = [reader.column.name for reader in readers]
    keys = KeyNumbers(given, names)
    rows: RowNumbers = np.full(keys.n_keys, -1, dtype=np.int64)  # by number of the key
    for at, columns in _table_keys(readers, n_rows, candidates) if keys.n_keys else ():
        numbers = keys.of(columns)
        hits = np.flatnonzero(numbers >= 0)
        _refuse_twice(rows, numbers[hits], at[hits], names, [column.take(pa.array(hits)) for column in columns])
        rows[numbers[hits]] = at[hits]
    matched: RowNumbers = np.empty(keys.n_keys, dtype=np.int64)
    matched[[keys.given_row(number) for number in range(keys.n_keys)]] = rows
    return KeyMatches(matched)


def _table_keys(
    readers: Sequence[ColumnReader], n_rows: int, candidates: RowNumbers | None
) -> Iterator[tuple[RowNumbers, list[pa.Array]]]:
    """Rows of the table with their keys, in parts."""
    if candidates is None:
        for start, stop in readers[0].pieces(0, n_rows):
            yield np.arange(start, stop), [_comparable(reader.read(start, stop - start)) for reader in readers]
        return
    for first in range(0, len(candidates), CANDIDATES_AT_ONCE):
        rows = candidates[first : first + CANDIDATES_AT_ONCE]
        yield rows, [_comparable(reader.take(rows)) for reader in readers]


def _refuse_twice(
    rows: RowNumbers, numbers: Int64s, at: RowNumbers, names: Sequence[str], columns: Sequence[pa.Array]
) -> None:
    """Refuse a key that a row before these has, or two of these: which of them is meant is not known."""
    order = np.argsort(numbers, kind="stable")
    twice = order[1:][numbers[order][1:] == numbers[order][:-1]]
    again = np.flatnonzero(rows[numbers] >= 0)
    if not len(twice) and not len(again):
        return
    second = int(twice[0]) if len(twice) else int(again[0])
    earlier = np.flatnonzero(numbers[:second] == numbers[second])
    first = int(at[earlier[0]]) if len(earlier) else int(rows[numbers[second]])
    key = key_text(names, [python_values(column.slice(second, 1))[0] for column in columns])
    raise DataError(
        f"the table has the key {key} twice, in rows {first} and {int(at[second])}, and which is meant is not known. "
        "Delete one of them, or choose columns whose values are distinct"
    )
