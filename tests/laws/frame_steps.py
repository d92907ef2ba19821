"""Changes of a data frame drawn one after another, done to a table and to a model of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import colonnade as cn

Kinds = dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]]
Model = dict[str, tuple[str, list[Any]]]


def array(kinds: Kinds, kind: str, values: list[Any]) -> pa.Array:
    arrow = kinds[kind][0]
    if pa.types.is_dictionary(arrow):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, arrow)


@st.composite
def cells(draw: st.DrawFn, kinds: Kinds, kind: str, n_rows: int) -> list[Any]:
    usual = kinds[kind][1]
    cell = st.one_of(usual, usual, st.none()) if draw(st.booleans()) else usual
    return draw(st.lists(cell, min_size=n_rows, max_size=n_rows))


def rows_of(kinds: Kinds, model: Model, columns: dict[str, list[Any]], labels: list[str]) -> pa.Table:
    arrays = {name: array(kinds, kind, columns[name]) for name, (kind, _) in model.items()}
    return pa.table({**arrays, "row": pa.array(labels, pa.string())})


def begun(data: st.DataObject, kinds: Kinds, names: tuple[str, ...]) -> tuple[Model, list[str]]:
    """A model of one to three columns and one to six rows."""
    chosen = data.draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=3))
    n_rows = data.draw(st.integers(1, 6))
    model = {name: (kind, data.draw(cells(kinds, kind, n_rows))) for name, kind in zip(names, chosen, strict=False)}
    return model, [f"r{row}" for row in range(n_rows)]


class Steps:
    """Changes drawn one after another, done to a table and to the model; what is refused changes neither."""

    def __init__(
        self, data: st.DataObject, table: cn.Table, start: tuple[Model, list[str]], kinds: Kinds, names: tuple[str, ...]
    ) -> None:
        self.draw, self.table, self.kinds, self.names = data.draw, table, kinds, names
        self.model, self.labels = start
        self.indexed: set[str] = set()

    def append(self) -> None:
        n_rows = self.draw(st.integers(0, 5))
        new = {name: self.draw(cells(self.kinds, kind, n_rows)) for name, (kind, _) in self.model.items()}
        labels = [f"new{len(self.labels) + row}" for row in range(n_rows)]
        self.table.append(rows_of(self.kinds, self.model, new, labels))
        self.model = {name: (kind, [*values, *new[name]]) for name, (kind, values) in self.model.items()}
        self.labels = [*self.labels, *labels]

    def update(self) -> None:
        name = self.draw(st.sampled_from(sorted(self.model)))
        kind, values = self.model[name]
        if not values:
            return
        rows = self.draw(st.lists(st.integers(0, len(values) - 1), unique=True, min_size=1, max_size=4))
        new = self.draw(cells(self.kinds, kind, len(rows)))
        self.table.update(name, rows, array(self.kinds, kind, new))
        changed = list(values)
        for row, value in zip(rows, new, strict=True):
            changed[row] = value
        self.model = {**self.model, name: (kind, changed)}

    def truncate(self) -> None:
        n_rows = self.draw(st.integers(max(0, len(self.labels) - 3), len(self.labels)))
        self.table.truncate(n_rows)
        self.model = {name: (kind, values[:n_rows]) for name, (kind, values) in self.model.items()}
        self.labels = self.labels[:n_rows]

    def delete(self) -> None:
        if not self.labels:
            return
        rows = self.draw(st.sets(st.integers(0, len(self.labels) - 1), max_size=3))
        assert self.table.delete(sorted(rows)) == len(rows)
        kept = [row for row in range(len(self.labels)) if row not in rows]
        self.model = {name: (kind, [values[row] for row in kept]) for name, (kind, values) in self.model.items()}
        self.labels = [self.labels[row] for row in kept]

    def add(self) -> None:
        free = [name for name in self.names if name not in self.model]
        if not free:
            return
        kind = self.draw(st.sampled_from(sorted(self.kinds)))
        values = self.draw(cells(self.kinds, kind, len(self.labels)))
        self.table.add_column(free[0], array(self.kinds, kind, values))
        self.model = {**self.model, free[0]: (kind, values)}

    def replace(self) -> None:
        name, kind = self.draw(st.sampled_from(sorted(self.model))), self.draw(st.sampled_from(sorted(self.kinds)))
        values = self.draw(cells(self.kinds, kind, len(self.labels)))
        self.table.replace_column(name, array(self.kinds, kind, values))
        self.indexed.discard(name)
        self.model = {**self.model, name: (kind, values)}

    def drop(self) -> None:
        if len(self.model) < 2:
            return
        name = self.draw(st.sampled_from(sorted(self.model)))
        self.table.drop_column(name)
        self.indexed.discard(name)
        self.model = {one: column for one, column in self.model.items() if one != name}

    def rename(self) -> None:
        free = [name for name in self.names if name not in self.model]
        if not free:
            return
        name = self.draw(st.sampled_from(sorted(self.model)))
        self.table.rename_column(name, free[-1])
        self.indexed = {free[-1] if one == name else one for one in self.indexed}
        self.model = {free[-1] if one == name else one: column for one, column in self.model.items()}

    def index(self) -> None:
        name = self.draw(st.sampled_from(sorted(self.model)))
        self.table.build_index(name, self.draw(st.sampled_from(("sorted_rows", "chunk_minmax", "bitmap"))))
        self.indexed.add(name)

    @property
    def all(self) -> list[Callable[[], None]]:
        often = [self.append, self.index, self.update] * 2
        return [*often, self.truncate, self.delete, self.add, self.replace, self.drop, self.rename]
