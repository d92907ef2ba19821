"""Elements written: planned and checked as a whole, written aside, and given their name when they are complete."""

from __future__ import annotations

from typing import Any

from colonnade.elements.plan import Planned, PlannedArray, check_name, plan
from colonnade.errors import ConflictError, UsageError
from colonnade.h5.attributes import BROKEN
from colonnade.h5.nodes import (
    check_writable,
    find_member,
    kind_of,
    make_array,
    make_group,
    make_null,
    member_names,
    move_into_place,
    path_of,
    remove,
    write_attributes,
)

COMPRESSIONS = (None, "gzip", "lzf")


def write_element(group: Any, name: str, value: Any, *, compression: str | None = None) -> None:
    """Write a value as an AnnData element into a group of h5py (`file.h5`), in the place of what has its name.

    value: NumPy arrays and scalars, texts, None, lists, dicts, SciPy's CSR and CSC matrices, frames (of pandas, Arrow,
    or a Table), Categorical, Nullable, pandas' arrays, awkward arrays, AnnData objects: what `read_element` gives, and
    what anndata writes. What AnnData cannot hold is a DataError, before a byte is written.
    compression: "gzip" or "lzf" for all arrays; none by default, as anndata does.
    """
    check_writable(group)
    _check_compression(compression)
    parent, last = _place(group, name)
    planned = plan(value, f"{path_of(parent).rstrip('/')}/{last}")
    aside = f"{last}\x01aside"
    remove(parent, aside)
    try:
        _write(parent, aside, planned, compression)
        move_into_place(parent, aside, last)
    except BROKEN as error:
        remove(parent, aside)
        raise ConflictError(f"{path_of(parent)}/{last} could not be written: {error}") from error
    except BaseException:
        remove(parent, aside)
        raise


def write_elements(group: Any, value: Any, *, compression: str | None = None) -> None:
    """Write an AnnData object (or a mapping) as a group that is there and empty: the root of a new file."""
    check_writable(group)
    _check_compression(compression)
    if member_names(group):
        raise UsageError(f"{path_of(group)} is not empty: elements are written into it one by one", path=path_of(group))
    planned = plan(value, path_of(group).rstrip("/"))
    if isinstance(planned, PlannedArray):
        raise UsageError(f"a file holds a mapping of elements, not {type(value).__name__}")
    for name, inner in planned.members.items():
        if not _is_nothing(inner):
            _write(group, name, inner, compression)
    write_attributes(group, planned.attributes)


def _is_nothing(planned: Planned) -> bool:
    """Whether this is None, as an object without raw has it: a file says so by not having it."""
    return isinstance(planned, PlannedArray) and planned.data is None


def _check_compression(compression: str | None) -> None:
    if compression not in COMPRESSIONS:
        raise UsageError(f"compression is 'gzip', 'lzf' or None, not {compression!r}")


def _place(group: Any, path: str) -> tuple[Any, str]:
    """The group that a path leads to, and the name in it."""
    *above, last = path.strip("/").split("/") if isinstance(path, str) else [path]
    for part in above:
        found = find_member(group, part)
        if found is None or kind_of(found) != "group":
            raise UsageError(f"{path_of(group)} has no group {part!r} to write {path!r} into", path=path)
        group = found
    return group, check_name(last, path_of(group))


def _write(parent: Any, name: str, planned: Planned, compression: str | None) -> None:
    if isinstance(planned, PlannedArray):
        if planned.data is None:
            made = make_null(parent, name)
        else:
            made = make_array(parent, name, planned.data, planned.growable, compression)
        write_attributes(made, planned.attributes)
        return
    group = make_group(parent, name, planned.attributes)
    for member, inner in planned.members.items():
        _write(group, member, inner, compression)
