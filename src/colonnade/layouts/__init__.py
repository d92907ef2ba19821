"""Layouts: how a table is stored inside an HDF5 file. One folder per layout, with the same file names in each.

`LAYOUTS` is the set of layouts, in the order in which a group is tested for them. To add one: a folder whose modules
satisfy the protocols of `contract`, and its line here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

from colonnade.errors import UsageError
from colonnade.layouts import anndata, artifactdb, columns, compound, h5col, hdmf, hep001, pandas, pytables
from colonnade.layouts.contract import Create, Layout, NewSidecars, NewWriter, ResumedWriter
from colonnade.nodes import Group
from colonnade.nodes.attributes import read_texts
from colonnade.nodes.dataset_tables import is_dataset_table
from colonnade.nodes.paths import encode_name
from colonnade.nodes.protocols import Notes

__all__ = [
    "LAYOUTS", "Create", "Layout", "NewSidecars", "NewWriter", "ResumedWriter", "check_lengths", "copy_sidecars",
    "follow_file", "layout_of", "listed_columns", "located", "named_layout", "new_directory",
]  # fmt: skip

_ALL = (
    hep001.LAYOUT,
    h5col.LAYOUT,
    anndata.LAYOUT,
    artifactdb.LAYOUT,
    hdmf.LAYOUT,
    columns.LAYOUT,
    pandas.LAYOUT,
    pytables.LAYOUT,
    compound.LAYOUT,
)
LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in _ALL}
T = TypeVar("T")
COLUMN_LIST_NAME = "column-order"


def named_layout(name: str) -> Layout:
    """The layout of this name."""
    if name not in LAYOUTS:
        raise UsageError(f"unknown layout {name!r}; known: {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def layout_of(group: Group) -> Layout | None:
    """The layout of the table stored in this group, or None if it is not a table."""
    is_dataset = is_dataset_table(group)
    fitting = (layout for layout in LAYOUTS.values() if layout.is_of_datasets == is_dataset)
    return next((layout for layout in fitting if layout.is_table(group)), None)


def listed_columns(group: Group) -> set[bytes]:
    """The names of members listed as columns of a table, so not tables themselves; empty if there is no such list."""
    if layout_of(group) is None:
        return set()
    names = read_texts(group, COLUMN_LIST_NAME) or ()
    return set(encode_name("\0".join(names)).split(b"\0"))


def check_lengths(root: Group, table: str) -> None:
    """Refuse a commit after which a table, and what shares its rows, differ in length."""
    for layout in LAYOUTS.values():
        layout.check_lengths(root, table)


# -- files next to the HDF5 file --


def located(target: T) -> tuple[T | Path, Notes]:
    """The HDF5 file of a directory or document of a layout that has such, with notes; any other target unchanged."""
    if not isinstance(target, (str, os.PathLike)):
        return target, {}
    path = Path(target)
    try:
        if not path.is_dir() and (path.suffix != ".json" or not path.is_file()):
            return target, {}
    except (OSError, ValueError):
        return target, {}
    found = (layout.sidecars.locate(path) for layout in LAYOUTS.values() if layout.sidecars is not None)
    return next((file for file in found if file is not None), (target, {}))


def new_directory(layout: str, folder: Path) -> tuple[Path, str]:
    """The HDF5 file of a new table that is a directory, and the path of the table in it."""
    sidecars = named_layout(layout).sidecars
    if sidecars is None:
        raise UsageError(f"version= and directory= are for the layout 'artifactdb', not {layout!r}")
    return sidecars.new_directory(folder)


def copy_sidecars(source: Path, target: Path) -> None:
    """Copy the sidecar files of a file that was copied, for its copy."""
    for layout in LAYOUTS.values():
        if layout.sidecars is not None:
            layout.sidecars.copy(source, target)


def follow_file(file: Path) -> None:
    """Update the sidecar files of a file that was changed and closed."""
    for layout in LAYOUTS.values():
        if layout.sidecars is not None:
            layout.sidecars.follow(file)
