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
    columns = {one.name for one in table.columns}
    for one in table.datasets.values():
        if names.COLUMNS_LIST not in one.attributes or one.name in table.misplaced or one.problem is not None:
            continue
        if not one.is_flat:
            yield Breach("error", one.path, "a label must have rank 1", one.shape_text, "rank 1")
        elif one.n_rows != table.info.n_rows and one.name not in columns:
            message = f"this label has {one.n_rows:,} rows, the table has {table.info.n_rows:,}"
            yield Breach("error", one.path, message, f"{one.n_rows} rows", f"{table.info.n_rows} rows")


def labels_list_columns(table: RawHep001Table) -> Iterator[Breach]:
    """I1: `_columns_list` is a 1-D array of references to columns of the table."""
    members = {one.address for one in table.members}
    for one in table.labels:
        held = one.attributes.get(names.COLUMNS_LIST)
        yield from reference_breaches(one.path, names.COLUMNS_LIST, held, scalar=False)
        lost = sum(place not in members for place in one.targets(names.COLUMNS_LIST))
        if lost:
            message = f"_columns_list holds {_references(lost)} not to columns of this table"
            yield Breach("error", one.path, message, _references(lost), "references to columns of this table")


def labels_and_columns_agree(table: RawHep001Table) -> Iterator[Breach]:
    """I2: a label lists a column exactly when the column refers to it, and each does so only once."""
    listed: Targets = {label.address: set(label.targets(names.COLUMNS_LIST)) for label in table.labels}
    referred: Targets = {one.address: set(one.targets(names.INDEXES)) for one in table.members}
    for one in table.members:
        yield from _one_column(table, one, listed)
    for label in table.labels:
        for place in dict.fromkeys(label.targets(names.COLUMNS_LIST)):
            column = table.by_address.get(place)
            if column is not None and label.address not in referred.get(place, {label.address}):
                message = f"label {label.name!r} lists this column, which does not refer back in _indexes"
                yield Breach("error", column.path, message, "no reference", f"a reference to {label.name!r}")
        yield from _twice(label, names.COLUMNS_LIST)


def _one_column(table: RawHep001Table, one: RawDataset, listed: Targets) -> Iterator[Breach]:
    for place in dict.fromkeys(one.targets(names.INDEXES)):
        target = table.by_address.get(place)
        if target is None or place is None or target.name in table.misplaced:
            message = "_indexes does not refer to a dataset of this table"
            yield Breach("error", one.path, message, "a reference that leads elsewhere", "references to labels")
        elif one.address not in listed.get(place, set()):
            message = f"column {one.name!r} refers to this dataset in _indexes, which does not list it"
            yield Breach("error", target.path, message, "not in _columns_list", f"a reference to {one.name!r}")
    yield from _twice(one, names.INDEXES)


def _twice(one: RawDataset, name: str) -> Iterator[Breach]:
    counts = Counter(place for place in one.targets(name) if place is not None)
    again = sum(count - 1 for count in counts.values())
    if again:
        yield Breach(
            "warning", one.path, f"{name} names an object twice", f"{_references(again)} too many", "each once"
        )


def _references(count: int) -> str:
    return "a reference" if count == 1 else f"{count:,} references"


def first_label_is_named(table: RawHep001Table) -> Iterator[Breach]:
    """I4: if there are labels, `_index` names the first."""
    if table.labels and names.INDEX not in table.attributes:
        message = "there are labels, but no _index that names the one with the row names"
        yield Breach("note", table.path, message, "no such attribute", "the name of a label")
