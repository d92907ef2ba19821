"""What every layout gives for a table that is to be turned into it, and the marks by which the way back is exact."""

from __future__ import annotations

from typing import Any, Protocol

from colonnade.h5 import attributes
from colonnade.h5.nodes import find_member
from colonnade.model import Progress
from colonnade.table import File, Table

# Attributes that tell what a table was: of a column its AnnData type; of a group its column-order where the row labels
# are a column too, and the name that was given to labels without one; of a group that held frames its encoding.
ANNDATA_TYPE = "anndata_type"
ANNDATA_ORDER = "anndata_column_order"
UNNAMED_LABELS = "anndata_unnamed_index"
UNNAMED = "_index"  # the dataset of an index that has no name
CONVERTED_FROM = "converted_from"
# What people wrote about a column, kept under the same names in every layout.
TEXTS = ("units", "units_vocabulary", "description")


class TableDraft(Protocol):
    """A table that was looked at and can be written."""

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


def copy_texts(source: Any, target: Any) -> None:
    """Give a column what people wrote about it in another layout."""
    for name in TEXTS:
        text = attributes.read_text(source.id, name)
        if text is not None and attributes.read_text(target.id, name) is None:
            attributes.write_text(target.id, name, text)
