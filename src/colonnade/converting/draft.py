"""What every layout gives for a table that is to be turned into it, and the marks by which the way back is exact."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from colonnade.h5 import attributes
from colonnade.h5.nodes import find_member
from colonnade.h5.references import has_references
from colonnade.layouts.anndata import names as anndata
from colonnade.layouts.hep001 import names as hep001
from colonnade.model import Progress
from colonnade.table import File, Table

# Attributes that tell what a table was: of a column its AnnData type; of a group its column-order where the row labels
# are a column too, and the name that was given to labels without one; of a group that held frames its encoding.
ANNDATA_TYPE = "anndata_type"
ANNDATA_ORDER = "anndata_column_order"
UNNAMED_LABELS = "anndata_unnamed_index"
UNNAMED = "_index"  # the dataset of an index that has no name
CONVERTED_FROM = "converted_from"
MARKS = (ANNDATA_TYPE, ANNDATA_ORDER, UNNAMED_LABELS)
# What people wrote about a column, kept under the same names in every layout.
TEXTS = ("units", "units_vocabulary", "description")
# What says how a column is stored, in one layout or the other.
OF_COLUMNS = (
    *hep001.VALUE_ATTRIBUTES, hep001.ENCODING_TYPE, anndata.ENCODING_VERSION, anndata.ORDERED,
    anndata.LEGACY_CATEGORIES, "na-value",
)  # fmt: skip


class TableDraft(Protocol):
    """A table that was looked at and can be written. `names` are those that its columns will have."""

    table: Table
    names: dict[str, str]

    def write(self, file: File, path: str, progress: Progress | None) -> None:
        """Write it into a new file; progress counts rows."""


def group_of(table: Table) -> Any:
    """The h5py group of a table."""
    return table._file.h5[table.path] if table.path != "/" else table._file.h5


def column_node(group: Any, name: str) -> Any:
    """The dataset or group of a column; of the paths that older frames have, the last."""
    node = group
    for part in name.split("/"):
        node = find_member(node, part) if node is not None else None
    return node


def copy_group_attributes(source: Any, target: Any) -> None:
    """Give the group of a table what people wrote at it in another layout."""
    _copy(source, target, (*hep001.GROUP_ATTRIBUTES, *anndata.GROUP_ATTRIBUTES), kept=(hep001.TITLE, *TEXTS))


def copy_column_attributes(source: Any, target: Any) -> None:
    """Give a column what people wrote at it in another layout."""
    if source is not None and target is not None:
        _copy(source, target, OF_COLUMNS, kept=TEXTS)


def _copy(source: Any, target: Any, without: Collection[str], kept: Collection[str]) -> None:
    """Copy attributes that no layout gives a meaning. References hold in their own file only, and are left out."""
    layouts_own = {*without, *MARKS, hep001.LATER_REVISION} - set(kept)
    found = {name: attributes.storage_of(source.id, name) for name in attributes.names(source.id)}
    referring = {name for name, storage in found.items() if storage is None or has_references(storage[0])}
    attributes.copy_attributes(source.id, target.id, without=layouts_own | referring)
