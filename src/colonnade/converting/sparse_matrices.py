"""Converts sparse matrices between sectioned arrays, AnnData and 10x groups, and Matrix Market files, in pieces.

If cells are not read in the order in which they must be written, a temporary sectioned array sorts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from colonnade.anndata.source import Element, FileSource
from colonnade.anndata.sparse_matrix import SparseMatrix
from colonnade.dataclass import dataclass
from colonnade.edit.cell_streams import CellStream, stream_of_array, stream_of_rows
from colonnade.edit.matrix_market import is_matrix_market, read_matrix_market, write_matrix_market
from colonnade.edit.sparse_write import write_sparse
from colonnade.errors import FormatError, UsageError
from colonnade.nodes.members import is_array
from colonnade.pager.scratch import ScratchFolder
from colonnade.sparse.array import SparseArray, find_sparse, open_sparse
from colonnade.sparse.create import Filters, SparseOptions
from colonnade.sparse.opened import change_path
from colonnade.sparse.selections import ordered
from colonnade.table import open as open_file

if TYPE_CHECKING:
    from colonnade.h5.files import FileHandle

_FORMATS = ("sectioned", "csr", "csc", "mtx")
_ENDINGS = (".h5", ".hdf5", ".hdf", ".he5", ".h5ad", ".h5mu", ".loom", ".nc", ".nxs")
_BAND = 1024
_VERSION = "0.1.0"
_MOST_NARROW = 2**31 - 1


@dataclass(frozen=True)
class ConvertedMatrix:
    """What was written, and where."""

    source: str
    target: str
    format: str
    shape: tuple[int, ...]
    n_cells: int


def convert(
    source: str, target: str, *, name: str | None = None, new_name: str | None = None, format: str | None = None,  # noqa: A002
    chunks: Sequence[int] | None = None, filters: Filters = None, n_threads: int | None = None,
) -> ConvertedMatrix:  # fmt: skip
    """Write the sparse matrix of one file into another, new or existing.

    name, new_name: the array or group in HDF5 files; by default the only one, and "matrix" or "X".
    format: "sectioned", "csr" or "csc" (groups as AnnData keeps them), "mtx"; by default chosen from the target's name.
    chunks, filters: of a sectioned array. filters of "csr" and "csc": "gzip" or "lzf".
    """
    wanted = _format(target, format)
    path = new_name or ("X" if wanted in ("csr", "csc") else "matrix")
    if Path(source).resolve() == Path(target).resolve():
        raise UsageError("source and target are the same file: write into another")
    with _opened(source, name) as matrix:
        if wanted == "sectioned":
            given = matrix if isinstance(matrix, SparseArray) else _stream(matrix)
            options = SparseOptions(chunks=chunks, filters=filters)
            with write_sparse(target, path, given, options, n_threads=n_threads) as array:
                return ConvertedMatrix(source, f"{target}:{array.name}", wanted, array.shape, array.n_defined)
        if chunks is not None or (filters is not None and (wanted == "mtx" or filters not in ("gzip", "lzf"))):
            raise UsageError("chunks are for sectioned arrays; filters of csr and csc groups are 'gzip' or 'lzf'")
        with _sorted(matrix, n_threads) as array:
            return _export(array, source, target, wanted, path, filters)


def _format(target: str, format: str | None) -> str:  # noqa: A002
    guess = "mtx" if is_matrix_market(target) else "csr" if target.lower().endswith(".h5ad") else "sectioned"
    if format is not None and format not in _FORMATS:
        raise UsageError(f"format must be one of {', '.join(_FORMATS)}, not {format!r}")
    if format is None and guess != "mtx" and not _is_hdf5_name(target):
        raise UsageError(
            f"cannot choose a format from the name {target}: it ends neither with .mtx nor with "
            f"{', '.join(_ENDINGS)}. Choose another name, or give a format"
        )
    if (format == "mtx") != (guess == "mtx") and format is not None:
        raise UsageError(f"{target}: names of Matrix Market files, and only theirs, end with .mtx or .mtx.gz")
    return format or guess


def _is_hdf5_name(target: str) -> bool:
    """Whether a file of this name may be HDF5. An existing file is checked when it is opened."""
    path = Path(target)
    return path.suffix.lower() in _ENDINGS or path.exists()


@contextmanager
def _opened(source: str, name: str | None) -> Iterator[SparseArray | SparseMatrix | CellStream]:
    if is_matrix_market(source):
        if name is not None:
            raise UsageError(f"{source} holds one matrix without a name")
        yield read_matrix_market(source)
        return
    with open_file(source) as file:
        sectioned = find_sparse(source)
        root = Element.at(FileSource(file), "/")
        where = _chosen(source, name, [*sectioned, *root.consistent(_find_matrices)])
        if where in sectioned:
            with open_sparse(source, where) as array:
                yield array
        else:
            yield root.consistent(partial(_open_matrix, path=where))


def _find_matrices(root: Element) -> list[str]:
    """The paths of all groups of data, indices and indptr, each under one name; a cycle of groups is followed once."""
    paths: list[str] = []
    pending, seen = [root], {root.node.address}
    while pending:
        group = pending.pop()
        for member in (group.find(name) for name in group.names):
            if member is not None and not member.node.is_dataset and member.node.address not in seen:
                seen.add(member.node.address)
                paths.append(member.path) if _is_matrix(member) else pending.append(member)
    return sorted(paths)


def _is_matrix(element: Element) -> bool:
    members = (element.find(part) for part in ("data", "indices", "indptr"))
    return all(member is not None and is_array(member.node) for member in members)


def _open_matrix(root: Element, path: str) -> SparseMatrix:
    """The matrix at a path, found by hard links only."""
    element: Element | None = root
    for name in path.split("/"):
        if name and element is not None:
            element = element.find(name)
    if element is None or not _is_matrix(element):
        raise UsageError(f"{path} of {root.source.name} is not a group of data, indices and indptr", path=path)
    return SparseMatrix(element)


def _chosen(source: str, name: str | None, names: list[str]) -> str:
    if name is not None:
        return "/" + name.strip("/")
    if not names:
        raise FormatError(f"{source} holds no sparse matrix: no sectioned array, no group of data, indices and indptr")
    if len(names) > 1:
        raise UsageError(f"{source} holds {len(names)} sparse matrices, name one: {', '.join(names[:8])}")
    return names[0]


def _stream(given: SparseMatrix | CellStream) -> CellStream:
    if isinstance(given, CellStream):
        return given
    stored = given._described()
    major = 0 if stored.format == "csr" else 1

    def read(start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        return given._as_of(stored, lambda same: same.stored_elements(start, stop))

    return stream_of_rows(stored.shape, stored.dtype, given.starts(), read, major)


@contextmanager
def _sorted(given: SparseArray | SparseMatrix | CellStream, n_threads: int | None) -> Iterator[SparseArray]:
    """A sparse array of these cells that can be read in any order; temporary unless they are in one already."""
    if isinstance(given, SparseArray):
        yield given
        return
    with (
        ScratchFolder() as folder,
        write_sparse(folder / "sorted.h5", "matrix", _stream(given), SparseOptions(), n_threads=n_threads) as array,
    ):
        yield array


def _export(array: SparseArray, source: str, target: str, wanted: str, path: str, filters: Filters) -> ConvertedMatrix:
    if array.ndim != 2 or array.dtype.kind not in "biufc" or array.fill != 0:
        raise UsageError(f"cannot write {array.name} as {wanted}: it is not a matrix of numbers with fill 0")
    count = array.n_defined
    if wanted == "mtx":
        write_matrix_market(target, stream_of_array(array), count)
        return ConvertedMatrix(source, target, wanted, array.shape, count)
    shape = array.shape[0], array.shape[1]
    work = partial(
        _write_matrix, name=path, shape=shape, by=wanted, dtype=array.dtype, n_values=count,
        bands=_bands(array, 0 if wanted == "csr" else 1), filters=filters,
    )  # fmt: skip
    change_path(Path(target), "a", work)
    return ConvertedMatrix(source, f"{target}:/{path.strip('/')}", wanted, array.shape, count)


def _bands(array: SparseArray, major: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For some rows (or columns) at a time: how many cells each has, their other coordinates, their values."""
    size = max(1, min(_BAND, array.chunks[major]))
    for start in range(0, array.shape[major], size):
        stop = min(start + size, array.shape[major])
        box = slice(start, stop) if major == 0 else (slice(None), slice(start, stop))
        coords, values = array.cells(box)
        rows, minor = coords[:, major] - start, coords[:, 1 - major]
        order = ordered(rows)
        if order is not None:
            minor, values = minor[order], values[order]
        yield np.bincount(rows, minlength=stop - start), minor, values


def _write_matrix(
    handle: FileHandle, name: str, shape: tuple[int, int], by: str, dtype: np.dtype, n_values: int,
    bands: Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]], filters: Filters,
) -> None:  # fmt: skip
    """Write a group as AnnData does; `bands` gives lengths, minor coordinates and values of some rows.

    filters: None, "gzip" or "lzf", as AnnData and h5py name them.
    """
    if name in handle.h5:
        raise UsageError(f"{name} is already in {handle.name}", path=name)
    group = handle.h5.create_group(name)
    group.attrs["encoding-type"], group.attrs["encoding-version"] = f"{by}_matrix", _VERSION
    group.attrs["shape"] = np.array(shape, dtype=np.int64)
    narrow = np.dtype("<i4") if max(n_values, *shape) <= _MOST_NARROW else np.dtype("<i8")
    chunks = (min(max(n_values, 1), 1 << 16),) if filters else None
    data = group.create_dataset("data", (n_values,), dtype, chunks=chunks, compression=filters)
    indices = group.create_dataset("indices", (n_values,), narrow, chunks=chunks, compression=filters)
    n_rows = shape[0 if by == "csr" else 1]
    ends, row, at = np.zeros(n_rows + 1, dtype=narrow), 0, 0
    for lengths, minor, values in bands:
        stop = at + len(values)
        data[at:stop], indices[at:stop] = values, minor.astype(narrow)
        ends[row + 1 : row + 1 + len(lengths)] = at + np.cumsum(lengths)
        row, at = row + len(lengths), stop
    group.create_dataset("indptr", data=ends)
