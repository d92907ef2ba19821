"""Chosen rows of chosen columns, as Arrow batches in the order asked for.

Rows are a `range` over the table (slices, with any step) or an array of row numbers (any order,
with repeats). Only the chunks that hold these rows are read, a few MiB at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from colonnade import limits
from colonnade.columns.arrow_types import taken
from colonnade.columns.raw import runs
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass
from colonnade.errors import UsageError
from colonnade.selection import RowNumbers, Rows
from colonnade.threads import in_order

if TYPE_CHECKING:
    from colonnade.columns.lists import ListsFetcher

MOST_SHARES = 8
MOST_UNWRITTEN_READ = 256 << 20  # bytes of rows that no chunk stores, all of them fill values, that are read at once


@dataclass(frozen=True)
class Parts:
    """Rows, and the increasing parts that are read in turn or by several threads; `upward` is None if rows do not
    increase.

    The rows that a search finds are mostly one long run, with a few scattered rows at its ends.
    """

    rows: Rows
    upward: Sequence[Rows] | None

    @classmethod
    def of(cls, rows: Rows) -> Parts:
        """Split rows in any order into parts."""
        if isinstance(rows, range):
            return cls(rows, [rows])
        if not bool((rows[1:] > rows[:-1]).all()):
            return cls(rows, None)
        low, high = _run_about(rows, len(rows) // 2)
        if high - low < max(limits.now.long_run, len(rows) // 2):
            return cls(rows, _shares(rows))
        run = range(int(rows[low]), int(rows[high - 1]) + 1)
        return cls(rows, [*_shares(rows[:low]), run, *_shares(rows[high:])])


def read_column(reader: ColumnReader, rows: Rows | Parts) -> pa.ChunkedArray:
    """One column's values for these rows."""
    asked = rows if isinstance(rows, Parts) else Parts.of(rows)
    _check_memory([reader], asked.rows)
    if not len(asked.rows) and pa.types.is_dictionary(reader.kind):  # no rows, but all categories
        return pa.chunked_array([reader.read(0, 0)], type=reader.kind)
    n_threads = _threads(reader, asked.rows)
    return pa.chunked_array(list(in_order(lambda read: read(), _pieces(reader, asked), n_threads)), type=reader.kind)


def _threads(reader: ColumnReader, rows: Rows) -> int:
    """The number of threads worth using for these rows and the gaps between them."""
    apart = 1 if isinstance(rows, range) or not len(rows) else (int(rows[-1]) - int(rows[0])) // len(rows)
    return reader.n_threads if len(rows) * reader.column.type.size * max(apart, 1) > limits.now.threaded_bytes else 1


def _run_about(rows: RowNumbers, place: int) -> tuple[int, int]:
    """Start and end of the gapless run around a position, by binary search.

    Rows increase, so there is no gap between two rows that differ by as much as their positions do.
    """
    if not len(rows):
        return 0, 0
    row, ends = int(rows[place]), []
    for inside, outside in ((place, -1), (place, len(rows))):
        while abs(outside - inside) > 1:
            middle = (inside + outside) // 2
            if int(rows[middle]) - row == middle - place:
                inside = middle
            else:
                outside = middle
        ends.append(inside)
    return ends[0], ends[1] + 1


def _shares(rows: RowNumbers) -> list[Rows]:
    n = min(MOST_SHARES, -(-len(rows) // limits.now.thread_rows))
    return [rows[len(rows) * i // n : len(rows) * (i + 1) // n] for i in range(n)]


def _check_memory(readers: Sequence[ColumnReader], rows: Rows) -> None:
    """Refuse reads that cannot fit into memory or consist of unwritten rows: a file may claim any number of rows."""
    needed = [len(rows) * reader.column.type.size for reader in readers]
    names = ", ".join(repr(reader.column.name) for reader in readers[:8])
    if sum(needed) > _memory():
        raise UsageError(
            f"cannot read {len(rows):,} rows of column {names}: too many for memory. Take fewer, or use batches()",
            column=readers[0].column.name,
        )
    for reader, n_bytes in zip(readers, needed, strict=True):
        if (
            len(rows) > 1
            and n_bytes > MOST_UNWRITTEN_READ
            and (len(rows) - reader.written_rows()) * reader.column.type.size > MOST_UNWRITTEN_READ
        ):
            raise UsageError(
                f"column {reader.column.name!r} claims {reader.column.n_rows:,} rows, most of which were never "
                "written. Take fewer, or use batches()",
                column=reader.column.name,
            )


@cache
def _memory() -> int:
    """Bytes of memory in this machine; a terabyte if the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def _pieces(reader: ColumnReader, asked: Parts) -> Iterator[Callable[[], pa.Array]]:
    """Functions that each read a part of the rows; ranges are split into pieces of a few MiB."""
    if asked.upward is None:
        yield partial(_take_any, reader, asked.rows)
    for rows in asked.upward or ():
        if len(rows) == 0:
            continue
        if not isinstance(rows, range):
            yield partial(reader.take, rows)
        elif rows.step == 1:
            for first, last in reader.pieces(rows.start, rows.stop):
                yield partial(reader.read, first, last - first)
        else:
            most = max(1, limits.now.piece_bytes // max(reader.column.type.size, 1))
            for first in range(0, len(rows), most):
                yield partial(_stride, reader, rows[first : first + most])


def _stride(reader: ColumnReader, rows: range) -> pa.Array:
    if rows.step > 0:
        return reader.read(rows.start, len(rows), rows.step)
    upward = rows[::-1]
    values = reader.read(upward.start, len(upward), upward.step)
    return taken(values, np.arange(len(values) - 1, -1, -1))


def _take_any(reader: ColumnReader, rows: Rows) -> pa.Array:
    """Read rows in any order, with repeats."""
    distinct, places = np.unique(rows, return_inverse=True)
    return taken(reader.take(distinct), places)


def read_table(readers: Sequence[ColumnReader], rows: Rows, schema: pa.Schema) -> pa.Table:
    """Read all these rows. Without columns, the result still knows its length."""
    if not readers:
        return empty_columns(len(rows))
    _check_memory(readers, rows)
    asked = Parts.of(rows)
    return pa.Table.from_arrays([read_column(reader, asked) for reader in readers], schema=schema)


def empty_columns(n_rows: int) -> pa.Table:
    """A table without columns and with `n_rows` rows."""
    nothing = pa.Array.from_buffers(pa.null(), n_rows, [None])  # pa.nulls allocates memory per row
    rows = pa.Table.from_arrays([nothing], names=["x"])
    return rows.select([])


def _short_of_elements(lists: Sequence[ListsFetcher], part: Rows) -> Iterator[Rows]:
    """A part of the rows in smaller ones, whose lists together have no more elements than one batch should hold."""
    if not len(part):
        yield part
        return
    numbers, places = np.unique(part, return_inverse=True)  # a query has its rows in any order, with repeats
    in_order = part if isinstance(part, range) and part.step > 0 else numbers
    n_bytes = np.sum([column.element_bytes(in_order) for column in lists], axis=0)[places]
    for first, last in runs(n_bytes, limits.now.batch_bytes):
        yield part[first:last]


def read_parts(readers: Sequence[ColumnReader], parts: Iterator[Rows], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield one batch for each part of the rows; several where the lists in them have many elements."""
    lists = [reader.lists for reader in readers if reader.lists is not None]
    if lists:
        parts = (smaller for part in parts for smaller in _short_of_elements(lists, part))

    def read(part: Rows) -> list[pa.RecordBatch]:
        batches: list[pa.RecordBatch] = read_table(readers, part, schema).combine_chunks().to_batches()
        return batches

    for batches in in_order(read, parts, readers[0].n_threads if readers else 1):
        yield from batches
