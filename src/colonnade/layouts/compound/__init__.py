"""Datasets of a compound type: each member is a column. h5py's record arrays, HDF5's high-level tables (H5TB)."""

from __future__ import annotations

from colonnade.layouts.compound import names
from colonnade.layouts.contract import Describe, IndexHome, Layout
from colonnade.nodes import Group
from colonnade.nodes.dataset_tables import is_dataset_table

__all__ = ["LAYOUT"]


def _is_table(group: Group) -> bool:
    """Whether a dataset is of rank 1, or holds nothing, and its elements are of a compound type."""
    if not is_dataset_table(group):
        return False
    dataset = group.dataset
    return (len(dataset.shape) == 1 or dataset.is_null) and dataset.describe().type.kind == "compound"


def _reading() -> Describe:
    from colonnade.layouts.compound import describe

    return describe


def _indexes() -> IndexHome:
    from colonnade.layouts.compound import search

    return search


LAYOUT = Layout(
    name="compound",
    is_table=_is_table,
    load_reading=_reading,
    load_indexes=_indexes,
    is_of_datasets=True,
    group_attributes=names.TABLE_ATTRIBUTES,
    names_are_links=False,
)
