"""The rules I1, I2 and I4 for labels, which HEP001 calls index datasets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from colonnade.layouts.hep001 import names
from colonnade.layouts.hep001.raw import RawDataset, RawHep001Table
from colonnade.layouts.hep001.rules_attributes import reference_breaches
from colonnade.model import Breach

Targets = dict[int | None, set[int | None]]
"""The address of each object to the addresses of the objects it refers to."""


def labels_have_the_rows(table: RawHep001Table) -> Iterator[Breach]:
    """I1: a label has rank 1 and the table's length."""
    columns = {node.name for node in table.columns}
    for node in table.datasets.values():
        if names.COLUMNS_LIST not in node.attributes or node.name in table.misplaced or node.problem is not None:
            continue
        if not node.is_flat:
            yield Breach("error", node.path, "a label must have rank 1", node.shape_text, "rank 1")
        elif node.n_rows != table.info.n_rows and node.name not in columns:
            message = f"this label has {node.n_rows:,} rows, the table has {table.info.n_rows:,}"
            yield Breach("error", node.path, message, f"{node.n_rows} rows", f"{table.info.n_rows} rows")


def labels_list_columns(table: RawHep001Table) -> Iterator[Breach]:
    """I1: `_columns_list` is a 1-D array of references to columns of the table."""
    members = {node.address for node in table.members}
    for node in table.labels:
        attribute = node.attributes.get(names.COLUMNS_LIST)
        yield from reference_breaches(node.path, names.COLUMNS_LIST, attribute, scalar=False)
        lost = sum(place not in members for place in node.targets(names.COLUMNS_LIST))
        if lost:
            message = f"_columns_list holds {_references(lost)} not to columns of this table"
            yield Breach("error", node.path, message, _references(lost), "references to columns of this table")


def labels_and_columns_agree(table: RawHep001Table) -> Iterator[Breach]:
    """I2: a label lists a column exactly when the column refers to it, and each does so only once."""
    listed: Targets = {label.address: set(label.targets(names.COLUMNS_LIST)) for label in table.labels}
    referred: Targets = {node.address: set(node.targets(names.INDEXES)) for node in table.members}
    for node in table.members:
        yield from _one_column(table, node, listed)
    for label in table.labels:
        for place in dict.fromkeys(label.targets(names.COLUMNS_LIST)):
            column = table.by_address.get(place)
            if column is not None and label.address not in referred.get(place, {label.address}):
                message = f"label {label.name!r} lists this column, which does not refer back in _indexes"
                yield Breach("error", column.path, message, "no reference", f"a reference to {label.name!r}")
        yield from _twice(label, names.COLUMNS_LIST)


def _one_column(table: RawHep001Table, node: RawDataset, listed: Targets) -> Iterator[Breach]:
    for place in dict.fromkeys(node.targets(names.INDEXES)):
        target = table.by_address.get(place)
        if target is None or place is None or target.name in table.misplaced:
            message = "_indexes does not refer to a dataset of this table"
            yield Breach("error", node.path, message, "a reference that leads elsewhere", "references to labels")
        elif node.address not in listed.get(place, set()):
            message = f"column {node.name!r} refers to this dataset in _indexes, which does not list it"
            yield Breach("error", target.path, message, "not in _columns_list", f"a reference to {node.name!r}")
    yield from _twice(node, names.INDEXES)


def _twice(node: RawDataset, name: str) -> Iterator[Breach]:
    counts = Counter(place for place in node.targets(name) if place is not None)
    again = sum(count - 1 for count in counts.values())
    if again:
        yield Breach(
            "warning", node.path, f"{name} names an object twice", f"{_references(again)} too many", "each once"
        )


def _references(count: int) -> str:
    return "a reference" if count == 1 else f"{count:,} references"


def first_label_is_named(table: RawHep001Table) -> Iterator[Breach]:
    """I4: if there are labels, `_index` names the first."""
    if table.labels and names.INDEX not in table.attributes:
        message = "there are labels, but no _index that names the one with the row names"
        yield Breach("note", table.path, message, "no such attribute", "the name of a label")
