"""Check files against the rules of their layouts, and fix them."""

from __future__ import annotations

import os
from pathlib import Path

from colonnade.checking import Check, Findings, Fixed, apply_repairs, layout_rules, not_hdf5, not_located, plan_repairs
from colonnade.errors import FormatError, UnsupportedError, UsageError
from colonnade.layouts import LAYOUTS, located, named_layout
from colonnade.layouts.found import table_at
from colonnade.model import Progress
from colonnade.pager.options import Links, Target
from colonnade.sparse.opened import SparseTarget
from colonnade.table.file import File, open
from colonnade.table.sparse import opened


def check(
    target: Target | File,
    table: str | None = None,
    *,
    deep: bool = False,
    progress: Progress | None = None,
    links: Links = "folder",
    generation: str | None = None,
    layout: str | None = None,
) -> Findings:
    """Check the tables and sparse arrays of a file against every rule; returns findings, the worst first.

    target: a File, or anything `open` takes; for an ArtifactDB data frame also its directory or its metadata.
    table: only the one at this path.
    deep: also read every value (codes within categories, rows that can be read, indexes that match their columns).
    progress: for a deep check, called with the rows read so far and in all.
    links: which other files this one may refer to, as for colonnade.open; a File knows that already.
    generation: the rules for ArtifactDB's data frames, if not those of the version they state:
    "versioned", "directory", or "legacy:2/1" (the versions of hdf5_data_frame and data_frame).
    layout: check groups that can be read as tables of this layout by its rules, as `File.table` reads them.

    A bad file gives findings and is not an error; `checked` of the list reports how much was checked. See
    docs/checking.md.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> cn.check("run.h5", deep=True)
    []
    """
    variant = None if generation is None else _variant(generation)
    if isinstance(target, File):
        return _check(target, table, deep, progress, variant, layout)
    path = Path(target) if isinstance(target, (str, os.PathLike)) else None
    try:
        hdf5_file, _ = located(target)
    except FormatError as error:
        assert path is not None  # `located` returns a path, and other targets unchanged
        return not_located(path, error)
    if path is not None and path.is_dir():
        if hdf5_file == target:
            return not_located(path, None)
        variant = variant or _declared_variant(path)
    try:
        with open(target, links=links) as file:
            return _check(file, table, deep, progress, variant, layout)
    except (FormatError, UnsupportedError) as error:
        return not_hdf5(error)


def _variant(text: str) -> object | None:
    """The variant of the rules that this string names."""
    variants = (rules.variant(text) for rules in layout_rules().values())
    return next((variant for variant in variants if variant is not None), None)


def _declared_variant(path: Path) -> object | None:
    """The variant of the rules that a path declares."""
    variants = (layout.sidecars.declared_variant(path) for layout in LAYOUTS.values() if layout.sidecars is not None)
    return next((variant for variant in variants if variant is not None), None)


def _check(
    file: File,
    table: str | None,
    deep: bool,
    progress: Progress | None,
    variant: object | None,
    layout: str | None,
) -> Findings:
    asked = None if layout is None else named_layout(layout)

    def look() -> Findings:
        check = Check(file._receipts_now(), deep, deep, progress, _bytes_of(file), variant, asked)
        root = file._handle.root
        if table is None:
            return check.file(root)
        path = file._absolute(table)
        opened_table = table_at(root, path, asked)
        group = root.open_group(path) if opened_table is None else opened_table[0]
        if group is None:
            raise file._not_a_table(table, group)
        return check.table(group, path)

    state = file._file_state()
    findings = file._consistent(look)
    if deep:
        file._save_verified(state)
    return findings


def _bytes_of(file: File) -> SparseTarget | None:
    """What sparse arrays of the file are read from; None where they cannot be read."""
    try:
        return opened(file, "/")[0]
    except UsageError:
        return None


def fix(target: Target | File, *, dry_run: bool = False) -> Fixed:
    """Repair what can be repaired without touching data, as one commit; returns what was done, and what is left.

    References, column-order and the storage of attributes are corrected; wrong search indexes are rebuilt or dropped.
    target: a File open for changes, or anything `open` takes. dry_run: only report what would be done.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> cn.fix("run.h5", dry_run=True).repairs
    []
    """
    if isinstance(target, File):
        return _plan(target) if dry_run else _fix(target)
    with open(target) as file:
        planned = _plan(file)
    if dry_run or not planned.repairs:
        planned.dry_run = dry_run
        return planned  # opening a file for changes already alters a few bytes
    with open(target, "r+") as file:
        return _fix(file)


def _plan(file: File) -> Fixed:
    plan = file._consistent(lambda: plan_repairs(file._handle.root, dict(file._receipts_now()), _bytes_of(file)))
    plan.dry_run = True
    return plan


def _fix(file: File) -> Fixed:
    with file._change():
        return apply_repairs(file._handle.root, file._receipts, _bytes_of(file))
