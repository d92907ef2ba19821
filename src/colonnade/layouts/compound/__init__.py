"""Datasets of a compound type: each member is a column. h5py's record arrays, HDF5's high-level tables (H5TB)."""

from __future__ import annotations

from colonnade.layouts.contract import Layout, in_folders
from colonnade.layouts.records import tables as record_tables

__all__ = ["LAYOUT"]


LAYOUT = Layout(
    name="compound",
    is_table=record_tables.is_record_table,
    find=in_folders(__name__, "colonnade.layouts.records"),
    is_of_datasets=True,
    group_attributes=record_tables.TABLE_ATTRIBUTES,
    further_attributes=record_tables.own_attributes,
    names_are_links=False,
)
