"""Whether a file may hold tables that no layout describes (see `foreign_tables`), seen from its links alone."""

from __future__ import annotations

from colonnade.nodes import Group

FRAMES = ("obs", "var", "raw.var")
TENX = ("data", "indices", "indptr", "shape", "barcodes")


def may_hold_foreign_tables(root: Group) -> bool:
    """Whether the root of a file has what data frames of anndata before 0.7 or matrices of 10x files are stored in."""
    if any(root.hard_kind(name) == "dataset" for name in FRAMES):
        return True
    groups = (root.open_group(child.name) for child in root.children() if child.kind == "group")
    return any(group is not None and all(group.hard_kind(name) == "dataset" for name in TENX) for group in groups)
