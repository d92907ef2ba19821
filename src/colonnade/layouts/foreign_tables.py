"""Tables that no layout describes: data frames of anndata before 0.7, and the features and barcodes of 10x files.

They are recognised by their headers alone, and always read completely. Before 0.7 a frame is a compound dataset: the
first field holds the row names, and a categorical is a field of codes whose categories are `<field>_categories` in uns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeGuard

import numpy as np
import pyarrow as pa

from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError, CorruptError
from colonnade.layouts.foreign_hints import FRAMES, TENX
from colonnade.nodes import Dataset, Group
from colonnade.nodes.arrays import read_part
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.elements import as_strings
from colonnade.nodes.members import GroupMember, find_member, is_array, is_group, member_names

OLD_FRAME, TENX_TABLE = "anndata before 0.7", "10x"


@dataclass(frozen=True)
class ForeignTable:
    """An object that can be read as a table: its path, what wrote it, and its size according to its headers."""

    path: str
    kind: str
    n_rows: int
    n_columns: int
    stored_bytes: int
    read: Callable[[], tuple[pa.Table, list[str]]]  # its rows, and the names of the label columns


@dataclass(frozen=True)
class CodedField:
    """A field of codes and its categories. The code -1 means missing."""

    codes: np.ndarray
    categories: np.ndarray

    def to_arrow(self) -> pa.DictionaryArray:
        codes = pa.array(self.codes, pa.int32() if self.codes.dtype.itemsize <= 4 else pa.int64(), mask=self.codes < 0)
        return pa.DictionaryArray.from_arrays(codes, pa.array(self.categories))


def foreign_tables(root: Group) -> dict[str, ForeignTable]:
    """Everything in the root of a file that can be read as a table although no layout describes it, by its path."""
    found: dict[str, ForeignTable] = {}
    for tables in (_old_frames(root), _of_tenx(root)):
        try:
            found.update({table.path: table for table in tables})
        except hdf5_errors(ColonnadeError):
            continue  # a header that cannot be read is reported when the object itself is read
    return found


# -- frames before 0.7 --


def _old_frames(root: Group) -> Iterator[ForeignTable]:
    for name in FRAMES:
        dataset = find_member(root, name)
        if not _is_flat(dataset):
            continue
        fields = dataset.array_dtype().names or ()
        if fields:
            size, read = dataset.stored_bytes(), partial(_read_old, dataset, find_member(root, "uns"), fields[0])
            yield ForeignTable(f"/{name}", OLD_FRAME, dataset.shape[0], len(fields) - 1, size, read)


def _read_old(dataset: Dataset, uns: GroupMember | None, index: str) -> tuple[pa.Table, list[str]]:
    return read_frame(dataset, uns), [index]


def read_frame(dataset: Dataset, uns: GroupMember | None) -> pa.Table:
    """A frame stored as a compound dataset, as a pyarrow.Table."""
    columns = frame_columns(dataset, uns)
    arrays = {name: column.to_arrow() if isinstance(column, CodedField) else column for name, column in columns.items()}
    return pa.table(arrays)


def frame_columns(dataset: Dataset, uns: GroupMember | None) -> dict[str, np.ndarray | CodedField]:
    """The fields of a frame stored as a compound dataset."""
    read = read_plain(dataset)
    return {name: _field(read[name], name, uns, dataset.path) for name in read.dtype.names or ()}


def _field(values: np.ndarray, name: str, uns: GroupMember | None, path: str) -> np.ndarray | CodedField:
    stored = find_member(uns, f"{name}_categories") if is_group(uns) else None
    if values.dtype.kind not in "iu" or not is_array(stored):
        return np.ascontiguousarray(values)
    categories = np.atleast_1d(read_plain(stored))
    if len(values) and (int(values.min()) < -1 or int(values.max()) >= len(categories)):
        raise CorruptError(f"field {name!r} holds codes beyond its {len(categories)} categories", path=path)
    return CodedField(np.ascontiguousarray(values), categories)


def read_plain(dataset: Dataset) -> np.ndarray:
    """The array or scalar in a dataset without encoding attributes. Strings in any storage become `str`."""
    read = read_part(dataset)
    if read.dtype.kind == "S":
        read = as_strings(read, dataset.path)
    elif read.dtype.names is not None:
        read = _with_field_strings(read, dataset.path)
    scalar: np.ndarray = read[()]
    return scalar


def _with_field_strings(read: np.ndarray, path: str) -> np.ndarray:
    """The compound array with its fixed-length strings decoded to `str`."""
    names = read.dtype.names or ()
    kinds = [(name, object if read.dtype[name].kind == "S" else read.dtype[name]) for name in names]
    target = np.empty(read.shape, dtype=kinds)
    for name in names:
        target[name] = as_strings(read[name], path) if read.dtype[name].kind == "S" else read[name]
    return target


# -- 10x --


def is_tenx(group: Group) -> bool:
    """Whether this is a matrix of 10x Genomics: a CSC matrix whose shape is a dataset, with barcodes next to it."""
    return all(is_array(find_member(group, name)) for name in TENX)


def _of_tenx(root: Group) -> Iterator[ForeignTable]:
    for name in member_names(root):
        group = find_member(root, name)
        if not is_group(group) or not is_tenx(group):
            continue
        features = find_member(group, "features")
        if is_group(features):
            yield from _arrays(f"/{name}/features", features, member_names(features), "id")
        yield from _arrays(f"/{name}", group, ["genes", "gene_names"], "genes")
        yield from _arrays(f"/{name}/barcodes", group, ["barcodes"], "barcodes")


def _arrays(path: str, group: Group, names: list[str], leading: str) -> Iterator[ForeignTable]:
    """The datasets that have the length of the leading one, as the columns of a table."""
    flat = {name: member for name in names if _is_flat(member := find_member(group, name))}
    if leading not in flat:
        return
    n_rows = flat[leading].shape[0]
    columns = {name: dataset for name, dataset in flat.items() if dataset.shape[0] == n_rows}
    size = sum(dataset.stored_bytes() for dataset in columns.values())
    yield ForeignTable(path, TENX_TABLE, n_rows, len(columns), size, partial(_read_arrays, columns))


def _is_flat(member: GroupMember | None) -> TypeGuard[Dataset]:
    return is_array(member) and len(member.shape) == 1


def _read_arrays(columns: dict[str, Dataset]) -> tuple[pa.Table, list[str]]:
    return pa.table({name: pa.array(read_plain(dataset)) for name, dataset in columns.items()}), []
