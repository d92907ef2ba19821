"""What an engine needs of a table or query: a protocol that `table.Query` satisfies, and its batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, Self

import pyarrow as pa

from colonnade.predicate.tree import Predicate

if TYPE_CHECKING:
    import polars

    from colonnade.query.plan import Plan

SCAN_ROWS = 1 << 17


class EngineSource(Protocol):
    """Rows of columns that are not read yet."""

    @property
    def columns(self) -> list[str]: ...
    def where(self, predicate: Predicate) -> Self: ...
    def select(self, *columns: Sequence[str]) -> Self: ...
    def head(self, n: int) -> Self: ...
    def count(self) -> int: ...
    def explain(self) -> Plan: ...
    def batches(self, rows: int, *, dictionaries: bool = False) -> Iterator[pa.RecordBatch]: ...
    def to_polars(self, *, dictionaries: bool = False) -> polars.DataFrame: ...
    def _slice(self, item: slice) -> Self: ...
    def _schema(self, dictionaries: bool = False) -> pa.Schema: ...


def empty_batch(n_rows: int) -> pa.RecordBatch:
    """A batch of `n_rows` rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), n_rows, [None]))


def chosen_rows(source: EngineSource, rows: Predicate | bool) -> EngineSource | None:
    """The rows of a superset; None where there are none."""
    if rows is False:
        return None
    return source.where(rows) if isinstance(rows, Predicate) else source
