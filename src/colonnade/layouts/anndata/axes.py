"""Keeps obs and var of an AnnData object as long as X and the other elements that share their rows."""

from __future__ import annotations

from colonnade.errors import UsageError
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.raw import RawElement, is_old_anndata
from colonnade.layouts.anndata.rules_elements import disagreeing, frame_length
from colonnade.nodes import Group

AXIS_FRAMES = ("obs", "var")


def check_axes(root: Group, table: str) -> None:
    """Refuse a commit that leaves obs or var of an AnnData object longer or shorter than X and the other elements."""
    parts = [part for part in table.split("/") if part and part != names.OTHER_FACE]
    if not parts or parts[-1] not in AXIS_FRAMES:
        return
    path = "/" + "/".join(parts[:-1])
    group = root.open_group(path)
    one = None if group is None else RawElement(group, path, "group")
    if one is None or (one.type != "anndata" and not is_old_anndata(one)):
        return
    length = frame_length(one.member(parts[-1]))
    lengths = tuple(length if name == parts[-1] else None for name in AXIS_FRAMES)
    breach = next(disagreeing(one, lengths), None)
    if breach is not None:
        raise UsageError(
            f"cannot commit {length} rows of {table}: {breach.path} has the {breach.found}. Write all elements with "
            "these rows in the same transaction (with f.transaction(): ...).",
            path=table,
        )
