"""Sparse arrays of a path or of an open File: read, created and changed, also inside transactions.

| given | read | created and changed |
| --- | --- | --- |
| a path | yes | yes, each change one commit |
| a File open for reading | yes | ConflictError |
| a File open for changes ("r+", "a", "w") | yes, with what is not committed yet | yes, also inside `transaction` |
| an h5py.File or group open for reading, or a File on one | yes | ConflictError |
| an h5py.File open for writing; a File on one, on a file object or a URL | UsageError | UsageError |
| bytes, a binary file object | yes | UsageError |

Creating and changing arrays invalidates handles into an open file (`file.h5` and objects obtained from it), as a
rollback does.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, cast

from colonnade import sparse
from colonnade.errors import ColonnadeError, ConflictError, UsageError
from colonnade.pager.options import OpenObject
from colonnade.sparse import OpenHandle, OpenTarget, SparseArray
from colonnade.sparse.create import Filters, SparseOptions, WriteDialect
from colonnade.sparse.opened import SparseSource, SparseTarget
from colonnade.table.file import File
from colonnade.table.file import open as open_file

if TYPE_CHECKING:
    import numpy.typing as npt

_WARNED: set[Path] = set()  # files for which the warning about other objects was given


def open_sparse(target: SparseSource | OpenObject | File, name: str, *, n_threads: int | None = None) -> SparseArray:
    """The sparse array at a path of an HDF5 file.

    target: a path, a File, an h5py.File or group open for reading, bytes, or a binary file object.
    n_threads: how many threads decompress chunks; by default the number of cores.

    >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
    >>> s.write([(0, 1), (50, 2)], [5, 6])
    >>> cn.open_sparse("run.h5", "matrix")[50, 0:4]
    array([0, 0, 6, 0], dtype=int32)
    """
    return sparse.open_sparse(*opened(target, name), n_threads=n_threads)


def create_sparse(
    target: str | os.PathLike[str] | File, name: str, *, shape: Sequence[int], dtype: npt.DTypeLike,
    chunks: Sequence[int] | None = None, fill: object = None, filters: Filters = None,
    max_shape: Sequence[int | None] | None = None, dialect: WriteDialect = "sectioned",
    attrs: Mapping[str, object] | None = None, dense: bool = False, n_threads: int | None = None,
) -> SparseArray:  # fmt: skip
    """Create a sparse array in a new or an existing file. None of its elements is defined yet.

    target: a path, or a File open for changes: one commit, or a part of its transaction.
    dtype: of the elements; str, bytes and h5py's variable-length dtypes are experimental.
    chunks: the shape of a chunk; up to 1024 along each dimension by default.
    fill: what undefined elements read as; 0 by default.
    filters: such as {0: "shuffle+deflate", 1: "deflate:4"} for selection and values, or one string for both.
    max_shape: the largest shape it may get; None where there is no limit.
    dialect: "sectioned" (the newest proposal), "structured", or "prototype" (as the public prototype reads).
    attrs: attributes, each a number, a string, or an array of these.
    dense: for variable-length data, whether chunks store all their elements.

    >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="f4", filters="shuffle+deflate")
    >>> s.write([(0, 1), (50, 2)], [1.5, 2.5])
    >>> s.n_defined
    2
    """
    array_path = to_change(target, name)
    _warn_neighbours(target)
    options = SparseOptions(
        chunks=chunks, fill=fill, filters=filters, max_shape=max_shape, dialect=dialect, attrs=attrs, dense=dense
    )
    return _complete(target, sparse.create_sparse(*array_path, shape, dtype, options, n_threads))


def write_sparse(
    target: str | os.PathLike[str] | File, name: str, matrix: object, *, dtype: npt.DTypeLike | None = None,
    chunks: Sequence[int] | None = None, fill: object = None, filters: Filters = None,
    max_shape: Sequence[int | None] | None = None, dialect: WriteDialect = "sectioned",
    attrs: Mapping[str, object] | None = None, n_threads: int | None = None,
) -> SparseArray:  # fmt: skip
    """Create a sparse array with all cells of a matrix, in one commit, using the memory of a few bands of chunks.

    matrix: a SciPy sparse array (explicit zeros are defined), a pydata one, (coordinates (n, rank), values, shape), or
    another sparse array. dtype: of the values; by default the matrix's. Other options as for `create_sparse`. chunks:
    by default those of `create_sparse`, but whole rows of a CSR matrix and whole columns of a CSC matrix, so that a
    chunk has about 50,000 cells.

    >>> coordinates, values = [(0, 1), (50, 2)], [1.5, 2.5]
    >>> s = cn.write_sparse("run.h5", "matrix", (coordinates, values, (100, 100)))
    >>> s.n_defined
    2
    """
    from colonnade.edit import sparse_write  # late: readers do not need it

    array_path = to_change(target, name)
    _warn_neighbours(target)
    options = SparseOptions(
        chunks=chunks, fill=fill, filters=filters, max_shape=max_shape, dialect=dialect, attrs=attrs
    )
    return _complete(target, sparse_write.write_sparse(*array_path, matrix, options, dtype=dtype, n_threads=n_threads))


def _complete(target: str | os.PathLike[str] | File, array: SparseArray) -> SparseArray:
    """The new array; an exception raised inside HDF5 after its commit is raised here, not by the next change."""
    if isinstance(target, File):
        target._raise_lost()
    return array


def _warn_neighbours(target: str | os.PathLike[str] | File) -> None:
    """Warn, once per file, before the first sparse array is created next to other objects."""
    file_path = Path(target.name if isinstance(target, File) else target).absolute()
    if file_path in _WARNED or (not isinstance(target, File) and not file_path.is_file()):
        return
    try:
        with nullcontext(target) if isinstance(target, File) else open_file(target) as file:
            neighbours = set(file._handle.root.link_names())  # not opened: HDF5 would change their headers
            neighbours -= {path.strip("/").split("/")[0] for path in sparse_paths(file)} if neighbours else set()
    except ColonnadeError:  # the change itself raises it again if it matters
        return
    if neighbours:
        _WARNED.add(file_path)
        shown = ", ".join(sorted(neighbours)[:3])
        warnings.warn(
            f"{file_path} holds other objects ({shown}): next to a sparse array, h5dump, h5repack, visititems, "
            "netCDF4, H5Web and rhdf5 fail on the whole group or file. Give sparse arrays a file of their own.",
            UserWarning,
            stacklevel=3,
        )


def sparse_paths(file: File) -> list[str]:
    """The paths of all sparse arrays of a file, or below the group that was opened."""
    target, _ = opened(file, "/")
    begin = file._handle.root.path.rstrip("/")
    try:
        return [path for path in sparse.find_sparse(target) if path.startswith(f"{begin}/")]
    finally:
        if isinstance(target, OpenTarget):
            target.close()


def opened(target: SparseSource | OpenObject | File, name: str) -> tuple[SparseTarget, str]:
    """What sparse arrays are read from, and the path from the root of the file."""
    if isinstance(target, File):
        target._check_open()
        handle = target._handle
        if handle.is_journaled:
            return OpenHandle(handle, target._change), target._absolute(name)
        if handle.path is not None:
            return OpenTarget(handle.path, read_only=True), target._absolute(name)
        if handle.is_foreign_stream:
            raise UsageError(f"{handle.name} was opened from a file object or a URL: give that itself, or a path")
        target = handle.h5
    if _is_of_h5py(target):
        from colonnade.h5.files import place_to_read

        path, group = place_to_read(target)
        return OpenTarget(path, read_only=True), name if name.startswith("/") else f"{group}/{name}"
    return cast("SparseTarget", target), name


def _is_of_h5py(target: object) -> TypeGuard[OpenObject]:
    return type(target).__module__.startswith("h5py.")


def to_change(target: str | os.PathLike[str] | File, name: str) -> tuple[str | os.PathLike[str] | OpenHandle, str]:
    """What sparse arrays are changed in, and the path from the root of the file."""
    if isinstance(target, (str, os.PathLike)):
        return target, name
    if not isinstance(target, File):
        raise UsageError(f"sparse arrays are created in a path or a colonnade.File, not in {type(target).__name__}")
    target._check_open()
    if not target._handle.writable:
        raise ConflictError(f"{target.name} is open for reading: open it with mode 'r+' or 'a'", path=target.name)
    if not target._handle.is_journaled:
        raise UsageError(f"{target.name} was not opened from a path, so sparse arrays cannot be created in it")
    return OpenHandle(target._handle, target._change), target._absolute(name)
