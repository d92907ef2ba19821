"""A window: rows that are processed together, and the values of columns in them.

Windows end at chunk boundaries, so that no chunk is decoded twice. What a window reads is freed after it is processed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from colonnade import limits
from colonnade.columns.keys import Keys, Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.read import ColumnReader
from colonnade.columns.strings import Places
from colonnade.dataclass import dataclass
from colonnade.model import ColumnInfo
from colonnade.selection import RowNumbers, Rows

AGGREGATED_ROWS = 1 << 19  # per window: small enough that columns stay in the CPU cache, large enough to need few calls


@dataclass(frozen=True)
class Window:
    """Some rows: a range without gaps, or increasing numbers. `places`: the position in them of each requested row."""

    rows: Rows
    places: Places | None = None

    @classmethod
    def of(cls, rows: Rows) -> Window:
        """The window of these rows, in any order and with repeats."""
        if isinstance(rows, range) and rows.step == 1:
            return cls(rows)
        numbers = np.asarray(rows, dtype=np.int64)
        if (np.diff(numbers) > 0).all():
            return cls(numbers)
        distinct, places = np.unique(numbers, return_inverse=True)
        return cls(distinct, places.astype(np.int64))

    def __len__(self) -> int:
        return len(self.rows) if self.places is None else len(self.places)

    def row_numbers(self, places: Places) -> RowNumbers:
        """The numbers of the requested rows at these positions."""
        places = places if self.places is None else self.places[places]
        return self.rows.start + places if isinstance(self.rows, range) else self.rows[places]

    def numbers(self, reader: ColumnReader) -> tuple[Numbers, Mask | None]:
        """The values of a column that `has_numbers`, and which rows are missing; None when none is."""
        if isinstance(self.rows, range):
            return reader.numbers(self.rows.start, len(self.rows))
        values, missing = reader.take_numbers(self.rows)
        if self.places is None:
            return values, missing
        return values[self.places], None if missing is None else missing[self.places]

    def keys(self, reader: ColumnReader) -> Keys:
        """The keys of a column that has a `domain`."""
        if isinstance(self.rows, range):
            return reader.keys(self.rows.start, len(self.rows))
        keys = reader.take_keys(self.rows)
        return keys if self.places is None else keys.take(self.places)

    def missing(self, reader: ColumnReader) -> Mask | None:
        """Which rows of any column are missing; None when none is."""
        if reader.has_numbers:
            return self.numbers(reader)[1]
        rows = self.rows
        array = reader.read(rows.start, len(rows)) if isinstance(rows, range) else reader.take(rows)
        if not array.null_count:
            return None
        missing: Mask = array.is_null().to_numpy(zero_copy_only=False)
        return missing if self.places is None else missing[self.places]


def window_rows(columns: Sequence[ColumnInfo], most: int | None = None) -> int:
    """The number of rows per window: a multiple of the longest chunk, so that no chunk is read twice, and about
    `most`."""
    most = limits.now.most_window_rows if most is None else most
    longest = max((column.grid.chunk_rows for column in columns), default=limits.now.fewest_window_rows)
    if any(column.leads_elsewhere for column in columns):
        return longest
    width = max(1, sum(column.type.size for column in columns))
    wanted = max(limits.now.fewest_window_rows if width < 256 else 1, min(most, limits.now.window_bytes // width))
    return max(1, wanted // longest) * longest


def windows_of(rows: Rows, columns: Sequence[ColumnInfo], in_order: bool = False) -> Iterator[Rows]:
    """Split these rows into windows that suit the chunks of the columns, in increasing order of row number.

    in_order: in the order in which the rows are requested instead.
    """
    step = window_rows(columns, AGGREGATED_ROWS)
    if isinstance(rows, range) and rows.step == 1:
        start = rows.start
        while start < rows.stop:
            edge = min((start // step + 1) * step, rows.stop)
            yield range(start, edge)
            start = edge
        return
    if not in_order:
        rows = np.sort(rows) if not isinstance(rows, range) else rows if rows.step > 0 else rows[::-1]
    yield from (rows[first : first + step] for first in range(0, len(rows), step))
