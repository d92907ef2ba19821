"""Columns with a mask: a second dataset of booleans that is TRUE for missing rows.

The values of missing rows are undefined, but they are read and checked like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from colonnade.columns.decode import decode_numbers
from colonnade.columns.keys import Keys, Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.plain import keys_in
from colonnade.columns.raw import (
    Companion,
    DatasetFetcher,
    Decoder,
    Fetcher,
    MaskedRaw,
    Present,
    Raw,
    any_of,
    fetched,
    set_column,
)
from colonnade.errors import CorruptError, FormatError
from colonnade.model import ColumnInfo, Masked
from colonnade.nodes import Dataset
from colonnade.nodes.elements import dataset_column
from colonnade.nodes.heap_source import Strings
from colonnade.selection import RowNumbers

R = TypeVar("R")


class MaskedDecoder(Generic[R]):
    """Decodes the rows by the decoder of their own form, and marks the missing ones."""

    def __init__(self, inner: Decoder[R]) -> None:
        self._inner = inner

    def array(self, raw: MaskedRaw[R]) -> pa.Array:
        return _with_missing(self._inner.array(raw.rows), raw.missing)

    def numbers(self, raw: MaskedRaw[R]) -> tuple[Numbers, Mask | None]:
        return self._inner.numbers(raw.rows)[0], raw.missing

    def keys(self, raw: MaskedRaw[R]) -> Keys:
        return keys_in(self.key_array(raw))

    def key_array(self, raw: MaskedRaw[R]) -> pa.Array:
        return _with_missing(self._inner.key_array(raw.rows), raw.missing)

    def values(self, keys: Keys) -> pa.Array:
        return self._inner.values(keys)

    def part(self, raw: MaskedRaw[R], begin: int, end: int) -> MaskedRaw[R]:
        rows = self._inner.part(raw.rows, begin, end)
        return MaskedRaw(rows, None if raw.missing is None else raw.missing[begin:end])


class MaskedFetcher(Generic[R]):
    """Rows of a dataset, each with its mask."""

    def __init__(self, column: ColumnInfo, rows: Fetcher[R], mask: Companion) -> None:
        if mask is None or isinstance(mask, pa.Array):
            raise FormatError(f"column {column.name!r} has lost its mask", column=column.name)
        self.rows, self.source = rows, rows.source
        self._mask = DatasetFetcher(mask_column(column, mask), mask, rows.n_threads)
        self._marks_present = isinstance(column.form, Masked) and column.form.marks_present
        self.n_threads = self._mask.n_threads

    def fetch(self, start: int, count: int) -> MaskedRaw[R] | None:
        rows = self.rows.fetch(start, count)
        mask = None if rows is None else self._mask.fetch(start, count)
        if rows is None or mask is None:
            return None
        return MaskedRaw(rows, self._missing(mask, lambda place: start + place))

    @contextmanager
    def by_library(self, start: int, count: int, step: int = 1) -> Iterator[MaskedRaw[R]]:
        with fetched(self.rows, start, count, step) as rows, fetched(self._mask, start, count, step) as mask:
            yield MaskedRaw(rows, self._missing(mask, lambda place: start + place * step))

    def take(self, rows: RowNumbers) -> MaskedRaw[R] | None:
        values = self.rows.take(rows)
        mask = None if values is None else self._mask.take(rows)
        if values is None or mask is None:
            return None
        return MaskedRaw(values, self._missing(mask, lambda place: int(rows[place])))

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        return self.rows.pieces(start, stop)

    @property
    def stored_bytes(self) -> int:
        return self.rows.stored_bytes

    def written_rows(self) -> int:
        return self.rows.written_rows()

    def _missing(self, mask: Raw, row_of: Callable[[int], int]) -> Mask | None:
        assert not isinstance(mask, (Strings, Present))  # booleans, without a fill
        column = self._mask.column
        try:
            flags, _ = decode_numbers(mask, column.type, None)
        except CorruptError as error:
            set_column(error, column.name, row_of)
            raise
        return any_of((flags == 0) if self._marks_present else (flags != 0))


def mask_column(column: ColumnInfo, mask: Dataset) -> ColumnInfo:
    """The mask as a column. The layout has already checked that it holds booleans and is as long as the values.

    A mask that marks present rows may be longer: the column may have been cut.
    """
    info = mask.describe()
    n_rows = info.shape[0] if info.shape else 0
    is_longer = n_rows > column.n_rows and isinstance(column.form, Masked) and column.form.marks_present
    if info.type.kind != "boolean" or (n_rows != column.n_rows and not is_longer):
        raise FormatError(f"the mask of column {column.name!r} has changed", column=column.name)
    return dataset_column(f"{column.name} (mask)", info, column.n_rows)


def _with_missing(array: pa.Array, missing: Mask | None) -> pa.Array:
    """The array with nulls where the mask is set. The array must have no nulls and no offset."""
    if missing is None:
        return array
    if array.type.num_fields or isinstance(array, (pa.ExtensionArray, pa.DictionaryArray)):
        return array.take(pa.array(np.arange(len(array)), mask=missing))
    validity = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [validity, *array.buffers()[1:]])
