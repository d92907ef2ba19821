"""Write elements: plan and check the whole, write it under a temporary name, and rename it when it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from colonnade.anndata.plan import Planned, PlannedArray, PlannedGroup, check_name, plan
from colonnade.errors import ConflictError, UsageError
from colonnade.h5.arrays import path_of
from colonnade.h5.nodes import (
    ArrayOptions,
    check_writable,
    find_member,
    kind_of,
    make_array,
    make_group,
    make_null,
    member_names,
    move_into_place,
    remove,
    replace_members,
    write_attributes,
)
from colonnade.nodes import H5Group
from colonnade.nodes.damage import hdf5_errors

COMPRESSIONS = (None, "gzip", "lzf")
Chunks = bool | int | tuple[int, ...] | None
ASIDE = "\x01aside"


def write_element(
    group: H5Group,
    name: str,
    value: object,
    *,
    compression: str | None = None,
    compression_opts: int | None = None,
    chunks: Chunks = None,
) -> None:
    """Write a value as an AnnData element into an h5py group (`file.h5`), replacing any member of that name.

    name: a name or a path below the group; "/" replaces everything in a file by a mapping or an AnnData object, and so
    does "" in a file that holds nothing yet.
    value: NumPy arrays and scalars, strings, None, lists, dicts, SciPy's CSR and CSC matrices, frames (of pandas,
    Arrow, or a Table), Categorical, Nullable, pandas' arrays, awkward arrays, dask arrays, datasets of h5py, AnnData
    objects: what `read_element` returns, and what anndata writes. A value that AnnData cannot store raises a DataError
    before a byte is written. Numbers of dask arrays and h5py datasets are copied block by block.
    compression: "gzip" or "lzf" for all arrays; none by default, as in anndata. compression_opts: the level of gzip.
    chunks: the chunk shape of arrays of its rank (an integer: of rank 1); True: h5py chooses.

    >>> f = cn.open("cells.h5ad", "w")
    >>> cn.write_element(f.h5, "uns", {"seed": 1, "names": ["a", "b"]})
    >>> f.close()
    """
    check_writable(group)
    options = _options(compression, compression_opts, chunks)
    if name == "/" or (name == "" and path_of(group) == "/" and not member_names(group)):
        _replace_all(group, value, options)
        return
    parent, last = _parent_and_name(group, name)
    planned = plan(value, f"{path_of(parent).rstrip('/')}/{last}")
    aside = f"{last}{ASIDE}"
    with _removed_on_failure(parent, aside, last):
        _write(parent, aside, planned, options)
        move_into_place(parent, aside, last)


def write_elements(
    group: H5Group, value: object, *, compression: str | None = None, compression_opts: int | None = None
) -> None:
    """Write the members of an AnnData object (or a mapping) into an empty group, such as the root of a new file."""
    check_writable(group)
    options = _options(compression, compression_opts, None)
    if member_names(group):
        raise UsageError(f"{path_of(group)} is not empty. Write its elements with write_element.", path=path_of(group))
    planned = _planned_group(group, value)
    for name, inner in _present(planned):
        _write(group, name, inner, options)
    write_attributes(group, planned.attributes)


def _replace_all(group: H5Group, value: object, options: ArrayOptions) -> None:
    """Write a value as the root of a file, replacing everything in it."""
    if path_of(group) != "/":
        raise UsageError(f"cannot write '/' into {path_of(group)}: it is not the root. Write into file.h5.", path="/")
    planned = _planned_group(group, value)
    with _removed_on_failure(group, ASIDE, ""):
        aside = make_group(group, ASIDE, {})
        for name, inner in _present(planned):
            _write(aside, name, inner, options)
    replace_members(group, ASIDE)
    write_attributes(group, planned.attributes)


@contextmanager
def _removed_on_failure(parent: H5Group, aside: str, name: str) -> Iterator[None]:
    """Remove the member `aside` before the block, and again if the block fails: nothing half-written remains."""
    remove(parent, aside)
    try:
        yield
    except hdf5_errors() as error:
        remove(parent, aside)
        raise ConflictError(f"cannot write {path_of(parent).rstrip('/')}/{name}: {error}") from error
    except BaseException:
        remove(parent, aside)
        raise


def _planned_group(group: H5Group, value: object) -> PlannedGroup:
    planned = plan(value, path_of(group).rstrip("/"))
    if isinstance(planned, PlannedArray):
        raise UsageError(f"a file holds a mapping of elements, not {type(value).__name__}")
    return planned


def _present(planned: PlannedGroup) -> Iterator[tuple[str, Planned]]:
    """The members that are not None. A None, such as the raw of an object without raw, is stored by leaving it out."""
    for name, inner in planned.members.items():
        if not isinstance(inner, PlannedArray) or inner.data is not None:
            yield name, inner


def _options(compression: str | None, level: int | None, chunks: Chunks) -> ArrayOptions:
    if compression not in COMPRESSIONS:
        raise UsageError(f"compression must be 'gzip', 'lzf' or None, not {compression!r}")
    if level is not None and (compression != "gzip" or isinstance(level, bool) or level not in range(10)):
        raise UsageError(f"compression_opts must be a gzip level from 0 to 9, not {level!r} for {compression!r}")
    lengths = chunks if isinstance(chunks, tuple) else (chunks,)
    if chunks is not None and not isinstance(chunks, bool) and not all(_is_length(length) for length in lengths):
        raise UsageError(f"chunks must be True, a positive integer or a tuple of positive integers, not {chunks!r}")
    return ArrayOptions(compression, level, chunks)


def _is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _parent_and_name(group: H5Group, path: str) -> tuple[H5Group, str]:
    """The group that holds the object at `path`, and the object's name in it."""
    *above, last = path.strip("/").split("/") if isinstance(path, str) else [path]
    for part in above:
        inner = find_member(group, part)
        if inner is None or kind_of(inner) != "group":
            raise UsageError(f"{path_of(group)} has no group {part!r} to write {path!r} into", path=path)
        group = inner
    return group, check_name(last, path_of(group))


def _write(parent: H5Group, name: str, planned: Planned, options: ArrayOptions) -> None:
    if isinstance(planned, PlannedArray):
        if planned.data is None:
            dataset = make_null(parent, name)
        else:
            dataset = make_array(parent, name, planned.data, planned.growable, options)
        write_attributes(dataset, planned.attributes)
        return
    group = make_group(parent, name, planned.attributes)
    for member, inner in planned.members.items():
        _write(group, member, inner, options)
