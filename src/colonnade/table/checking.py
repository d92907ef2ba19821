"""Files checked against the rules of their layouts, and mended."""

from __future__ import annotations

from typing import Any

from colonnade.checking import Check, Findings, Mended, mend_file, not_hdf5, plan_repairs
from colonnade.errors import FormatError, UsageError
from colonnade.h5.files import Target
from colonnade.h5.links import open_group
from colonnade.h5.outside import Links
from colonnade.model import Progress
from colonnade.table.file import File, open
from colonnade.table.sparse import opened


def check(
    target: Target | File,
    table: str | None = None,
    *,
    deep: bool = False,
    progress: Progress | None = None,
    links: Links = "folder",
) -> Findings:
    """Check the tables and sparse arrays of a file against every rule: findings, the worst first; none if all is well.

    target: a File, or anything `open` takes. table: only the one at this path.
    deep: also read every value (codes within categories, rows that can be read, indexes that say what columns say).
    progress: called with the rows read so far and in all, of a deep check.
    links: which other files this one may lead to, as for colonnade.open; a File knows that already.

    A bad file is no error but findings; `checked` of the list says how much was looked at. See docs/checking.md.
    """
    try:
        if isinstance(target, File):
            return _check(target, table, deep, progress)
        with open(target, links=links) as file:
            return _check(file, table, deep, progress)
    except FormatError as error:
        return not_hdf5(error)


def _check(file: File, table: str | None, deep: bool, progress: Progress | None) -> Findings:
    def look() -> Findings:
        one = Check(file._receipts_now(), values=deep, indexes=deep, progress=progress, sparse=_bytes_of(file))
        root = file._handle.root
        if table is None:
            return one.file(root)
        path = file._absolute(table)
        group: Any = open_group(root, path)
        if group is None:
            raise file._not_a_table(table, group)
        return one.table(group, path)

    state = file._file_state()
    found = file._consistent(look)
    if deep:
        file._save_verified(state)
    return found


def _bytes_of(file: File) -> Any:
    """What the sparse room reads the file by; None where it cannot."""
    try:
        return opened(file, "/")[0]
    except UsageError:
        return None


def fix(target: Target | File, *, dry_run: bool = False) -> Mended:
    """Mend what can be mended without touching data, as one commit; says what was done, and what is left.

    References, column-order and the storage of attributes are put right; search indexes that are wrong are built
    anew, or dropped. target: a File open for changes, or anything `open` takes. dry_run: only say what would be done.
    """
    if isinstance(target, File):
        return _plan(target) if dry_run else _fix(target)
    with open(target) as file:
        planned = _plan(file)
    if dry_run or not planned.repairs:
        planned.dry_run = dry_run
        return planned  # opening a file for changes alters a few bytes already
    with open(target, "r+") as file:
        return _fix(file)


def _plan(file: File) -> Mended:
    found = file._consistent(lambda: plan_repairs(file._handle.root, dict(file._receipts_now()), _bytes_of(file)))
    found.dry_run = True
    return found


def _fix(file: File) -> Mended:
    with file._change():
        return mend_file(file._handle.root, file._receipts, _bytes_of(file))
