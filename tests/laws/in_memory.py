"""Tables in memory: what a file must hold after the same changes, as plain Arrow arrays and plain texts.

Nothing here is ever changed: a change gives another table, so that a change that is taken back costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from tests.laws.test_round_trip import plain

Texts = Mapping[str, str | None]
COLUMN_TEXTS = ("units", "units_vocabulary", "description")
TABLE_TEXTS = ("title", "description")
_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def decoded(array: pa.Array) -> pa.Array:
    """The values alone, without a dictionary."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def units_of_type(kind: pa.DataType) -> str | None:
    """The units that a type brings along, as docs/types.md has them."""
    if pa.types.is_date(kind):
        return f"{'days' if pa.types.is_date32(kind) else 'milliseconds'} since 1970-01-01"
    if pa.types.is_timestamp(kind):
        return f"{_WORDS[kind.unit]} since 1970-01-01" + ("" if kind.tz is None else " 00:00:00 UTC")
    return _WORDS[kind.unit] if pa.types.is_time(kind) or pa.types.is_duration(kind) else None


@dataclass(frozen=True)
class Column:
    """One column or label: its Arrow type, its values without a dictionary, and what is said about it."""

    kind: pa.DataType
    values: pa.Array
    texts: Texts = field(default_factory=dict)
    mark: int | None = None

    @classmethod
    def of(cls, array: pa.Array, texts: Texts) -> Column:
        """A new column of these values."""
        own = units_of_type(array.type)
        return cls(array.type, decoded(array), {**texts, "units": own or texts.get("units")})

    def with_values(self, *parts: pa.Array) -> Column:
        """The same column with the values of these parts, one after the other."""
        return replace(self, values=pa.concat_arrays(parts))

    @cached_property
    def plain(self) -> list[Any]:
        """The values as Python values, as the other laws compare them."""
        return plain(pa.chunked_array([self.values]))

    def text(self, key: str) -> str | None:
        """What is said about the column under this key."""
        return self.texts.get(key)

    def with_text(self, key: str, text: str | None) -> Column:
        """The same column with one text changed."""
        return replace(self, texts={**self.texts, key: text})

    def replaced(self, array: pa.Array, texts: Texts) -> Column:
        """Other values in its place. Texts that are not given stay, but not units that came with the type."""
        kept = dict(self.texts)
        if units_of_type(self.kind) is not None:
            kept["units"] = None
        given = {key: text for key, text in texts.items() if text is not None}
        return replace(Column.of(array, {**kept, **given}), mark=self.mark)


@dataclass(frozen=True)
class Table:
    """One table: columns in their order, labels in theirs, texts."""

    columns: Mapping[str, Column] = field(default_factory=dict)
    labels: Mapping[str, Column] = field(default_factory=dict)
    texts: Texts = field(default_factory=dict)

    @property
    def members(self) -> dict[str, Column]:
        """Columns, then labels."""
        return {**self.columns, **self.labels}

    @property
    def n_rows(self) -> int:
        """Rows; a table without columns and labels has none."""
        return max((len(column.values) for column in self.members.values()), default=0)

    def _each(self, changed: Mapping[str, Column]) -> Table:
        """The table with these columns and labels in the place of their old ones."""
        columns = {name: changed.get(name, column) for name, column in self.columns.items()}
        labels = {name: changed.get(name, label) for name, label in self.labels.items()}
        return replace(self, columns=columns, labels=labels)

    def appended(self, rows: Mapping[str, pa.Array]) -> Table:
        """Rows behind those that are there."""
        return self._each({n: c.with_values(c.values, decoded(rows[n])) for n, c in self.members.items()})

    def truncated(self, n_rows: int) -> Table:
        """The first rows only."""
        return self._each({name: column.with_values(column.values[:n_rows]) for name, column in self.members.items()})

    def without(self, rows: Collection[int]) -> Table:
        """All rows but these."""
        kept = pa.array([row for row in range(self.n_rows) if row not in rows], pa.int64())
        return self._each({name: column.with_values(column.values.take(kept)) for name, column in self.members.items()})

    def updated(self, name: str, rows: Iterable[int], array: pa.Array) -> Table:
        """Values in these rows of one column."""
        column = self.members[name]
        order = list(range(self.n_rows))
        for place, row in enumerate(rows):
            order[row] = self.n_rows + place
        both = column.with_values(column.values, decoded(array))
        return self._each({name: replace(both, values=both.values.take(pa.array(order, pa.int64())))})

    def added(self, name: str, column: Column) -> Table:
        """A column behind the others."""
        return replace(self, columns={**self.columns, name: column})

    def dropped(self, name: str) -> Table:
        """Without a column or label."""
        columns = {n: c for n, c in self.columns.items() if n != name}
        return replace(self, columns=columns, labels={n: c for n, c in self.labels.items() if n != name})

    def reordered(self, names: Sequence[str]) -> Table:
        """The columns in this order."""
        return replace(self, columns={name: self.columns[name] for name in names})

    def labelled(self, names: Sequence[str]) -> Table:
        """The table with these labels; former labels are the last columns."""
        columns = {name: column for name, column in self.members.items() if name not in names}
        return replace(self, columns=columns, labels={name: self.members[name] for name in names})

    def renamed(self, name: str, new_name: str) -> Table:
        """A column or label under another name, in its place."""
        columns = {new_name if n == name else n: c for n, c in self.columns.items()}
        return replace(self, columns=columns, labels={new_name if n == name else n: c for n, c in self.labels.items()})

    def with_column(self, name: str, column: Column) -> Table:
        """Another column or label in the place of one that is there."""
        return self._each({name: column})

    def with_text(self, key: str, text: str | None) -> Table:
        """The same table with one text of its own changed."""
        return replace(self, texts={**self.texts, key: text})


Tables = Mapping[str, Table]
