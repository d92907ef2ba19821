"""Sparse matrices as AnnData and 10x keep them in HDF5: groups of `data`, `indices` and `indptr`.

AnnData says in attributes which (`encoding-type` csr_matrix or csc_matrix, `shape`); 10x keeps columns, and `shape` as
a dataset. Only hard links are followed. Nothing is believed: `indptr` must go up from 0 to the number of values, and is
the one part read whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError, FormatError, UsageError
from colonnade.h5.attributes import read as read_attribute
from colonnade.h5.damage import raise_lack
from colonnade.h5.files import FileHandle
from colonnade.h5.nodes import (
    dtype_of,
    find_member,
    is_dataset,
    is_group,
    member,
    member_names,
    path_of,
    place_of,
    read_array,
    shape_of,
)

Array = np.ndarray[Any, Any]
By = Literal["csr", "csc"]
_ENCODINGS: dict[object, By] = {"csr_matrix": "csr", "csc_matrix": "csc", "csr": "csr", "csc": "csc"}
_PARTS = ("data", "indices", "indptr")
_BROKEN = (KeyError, OSError, RuntimeError, ValueError, TypeError)
_VERSION = "0.1.0"
_MOST_NARROW = 2**31 - 1


@dataclass(frozen=True)
class CompressedMatrix:
    """Such a matrix: `ends` (SciPy's indptr) read, the rest still in the file."""

    shape: tuple[int, int]
    by: By
    ends: np.ndarray[Any, np.dtype[np.int64]]
    name: str
    _data: Any
    _indices: Any

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self._data.dtype
        return found

    def read(self, start: int, stop: int) -> tuple[Array, Array]:
        """Minor coordinates and values from place to place."""
        try:
            part = (slice(start, stop),)
            return read_array(self._indices, part), read_array(self._data, part)
        except _BROKEN as error:
            raise_lack(error)
            raise CorruptError(f"{self.name} cannot be read: {error}", path=self.name) from error


def find_compressed(handle: FileHandle) -> list[str]:
    """The paths of all such groups of a file, each under one name; a group that lies in itself is looked at once."""
    found: list[str] = []
    pending, seen = [handle.h5], {place_of(handle.h5)}
    while pending:
        group = pending.pop()
        for node in (find_member(group, name) for name in member_names(group)):
            if is_group(node) and place_of(node) not in seen:
                seen.add(place_of(node))
                found.append(path_of(node)) if _is_compressed(node) else pending.append(node)
    return sorted(found)


def _node(group: Any, path: str) -> Any:
    """What lies at a path, by hard links; None where nothing does that can be opened."""
    node = group
    for name in path.split("/"):
        if name and node is not None:
            node = find_member(node, name) if is_group(node) else None
    return node


def _is_compressed(group: Any) -> bool:
    return all(is_dataset(_node(group, part)) for part in _PARTS)


def open_compressed(handle: FileHandle, name: str) -> CompressedMatrix:
    """The matrix at a path."""
    group = _node(handle.h5, name)
    if not is_group(group) or not _is_compressed(group):
        raise UsageError(f"{name} of {handle.name} is no group of data, indices and indptr", name=name)
    data, indices, indptr = (_node(group, part) for part in _PARTS)
    said = read_attribute(group.id, "encoding-type"), read_attribute(group.id, "h5sparse_format")
    kind = next((one for one in said if isinstance(one, str)), None)
    by = _ENCODINGS.get(kind, "csc")  # 10x says nothing, and keeps columns
    shape = _shape(group, f"{handle.name}: {name}")
    for part in (data, indices, indptr):
        if len(shape_of(part)) != 1 or dtype_of(part).kind not in ("biuf" if part is data else "iu"):
            raise CorruptError(f"{handle.name}: {part.name} is {part.dtype} of shape {part.shape}", path=name)
    ends = _ends(indptr, shape[0 if by == "csr" else 1], len(data), f"{handle.name}: {name}")
    if len(indices) != len(data):
        raise CorruptError(f"{handle.name}: {name} has {len(data)} values and {len(indices)} indices", path=name)
    return CompressedMatrix(shape, by, ends, str(group.name), data, indices)


def _shape(group: Any, where: str) -> tuple[int, int]:
    try:
        said = read_attribute(group.id, "shape"), read_attribute(group.id, "h5sparse_shape")
        given = next((one for one in said if one is not None), None)
        numbers = [int(n) for n in np.asarray(read_array(member(group, "shape")) if given is None else given).flat[:3]]
    except (FormatError, *_BROKEN) as error:
        raise_lack(error)
        raise CorruptError(f"{where} does not say its shape: {error}", path=where) from error
    if len(numbers) != 2 or min(numbers) < 0:
        raise CorruptError(f"{where} says that its shape is {numbers}", path=where)
    return numbers[0], numbers[1]


def _ends(indptr: Any, n_rows: int, n_values: int, where: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    if len(indptr) != n_rows + 1:
        raise CorruptError(f"{where} has {len(indptr)} ends for {n_rows} rows", path=where)
    try:
        ends: np.ndarray[Any, np.dtype[np.int64]] = read_array(indptr).astype(np.int64)
    except _BROKEN as error:
        raise_lack(error)
        raise CorruptError(f"{where}: indptr cannot be read: {error}", path=where) from error
    if ends[0] != 0 or ends[-1] != n_values or (ends[1:] < ends[:-1]).any():
        raise CorruptError(f"{where}: indptr does not go up from 0 to the {n_values} values", path=where)
    return ends


def write_compressed(
    handle: FileHandle, name: str, shape: tuple[int, int], by: By, dtype: np.dtype[Any], n_values: int,
    bands: Iterator[tuple[Array, Array, Array]], filters: str | None,
) -> None:  # fmt: skip
    """Such a group, as AnnData writes it; `bands` gives lengths, minor coordinates and values of some rows.

    filters: None, "gzip" or "lzf", as AnnData and h5py name them.
    """
    if name in handle.h5:
        raise UsageError(f"{name} is there already in {handle.name}", name=name)
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
