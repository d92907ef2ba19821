"""Sparse columns, which store only the rows that are not missing: a column reader on top of `sparse.rows`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from colonnade.columns.masked import Masked, MaskedRows
from colonnade.errors import FormatError, UsageError
from colonnade.h5.chunks import MOST_AT_ONCE, RowNumbers
from colonnade.model import ColumnInfo
from colonnade.sparse.rows import MissingRows, SparseRows


class SparseReader(MaskedRows):
    """A column in sectioned chunks: undefined rows are missing."""

    def __init__(self, column: ColumnInfo, rows: SparseRows, n_threads: int = 1) -> None:
        super().__init__(column, rows, None, n_threads)
        self._rows = rows
        self.n_threads = n_threads

    @contextmanager
    def _raw(self, start: int, count: int, step: int = 1) -> Iterator[Any]:
        self._check(count)
        image, missing = (
            self._rows.read(start, count) if step == 1 else self._rows.take(start + step * np.arange(count))
        )
        yield Masked(image, _any_of(missing))

    def _take_raw(self, rows: RowNumbers) -> Any:
        self._check(len(rows))
        image, missing = self._rows.take(rows)
        return Masked(image, _any_of(missing))

    def _check(self, count: int) -> None:
        """Refuse to read too many rows at once: missing rows take no space in the file, but they do in memory."""
        if self.column.problem is not None:
            raise FormatError(
                f"column {self.column.name!r} cannot be read: {self.column.problem}", column=self.column.name
            )
        if count * self.column.type.size > MOST_AT_ONCE:
            raise UsageError(
                f"{count:,} rows of column {self.column.name!r} are too many to be read at once: use batches()",
                column=self.column.name,
            )

    @property
    def stored_bytes(self) -> int:
        return self._rows.stored_bytes

    def written_rows(self) -> int:
        return self._rows.written_rows


def _any_of(missing: MissingRows) -> MissingRows | None:
    return missing if missing.any() else None
