"""A read-only layout in a few lines: a group with the attribute `toy`, whose datasets of rank 1 are columns."""

from __future__ import annotations

from typing import Any

from colonnade.layouts.contract import Layout
from colonnade.layouts.frame_parts import header_of
from colonnade.layouts.named_indexes import NamedIndexes
from colonnade.model import ColumnInfo, TableInfo
from colonnade.nodes import attributes
from colonnade.nodes.elements import dataset_column


def is_toy(group: Any) -> bool:
    return attributes.read_text(group, "toy") is not None


class Toy:
    """Satisfies `Describe`."""

    def describe(self, group: Any, path: str) -> TableInfo:
        datasets = [child.name for child in group.children() if child.kind == "dataset"]
        columns = [dataset_column(name, *header_of(group.open_dataset(name), name)) for name in datasets]
        return TableInfo(path, "toy", columns[0].n_rows, tuple(columns), title=attributes.read_text(group, "toy"))

    def open_column(self, group: Any, column: ColumnInfo) -> tuple[Any, Any]:
        return group.open_dataset(column.name), None


INDEXES = NamedIndexes(lambda group, column, _info: group.open_dataset(column))
TOY = Layout("toy", is_toy, {"describe": Toy(), "search": INDEXES}.get, group_attributes=("toy",))
