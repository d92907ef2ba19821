"""Tables that no layout describes: data frames of anndata before 0.7, and the features and barcodes of 10x files.

They are recognised by their headers alone, and always read completely. Before 0.7 a frame is a compound dataset: the
first field holds the row names, and a categorical is a field of codes whose categories are `<field>_categories` in uns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError, CorruptError
from colonnade.h5.arrays import Array, decode_texts, dtype_of, path_of, read_array, shape_of
from colonnade.h5.nodes import find_member, kind_of, member_names, object_at
from colonnade.layouts.foreign_hints import FRAMES, TENX
from colonnade.nodes.damage import hdf5_errors

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

    codes: Array
    categories: Array

    def to_arrow(self) -> pa.DictionaryArray:
        codes = pa.array(self.codes, pa.int32() if self.codes.dtype.itemsize <= 4 else pa.int64(), mask=self.codes < 0)
        return pa.DictionaryArray.from_arrays(codes, pa.array(self.categories))


def foreign_tables(root: Any) -> dict[str, ForeignTable]:
    """Everything in the root of a file that can be read as a table although no layout describes it, by its path."""
    group, found = object_at(root), {}
    for tables in (_old_frames(group), _of_tenx(group)):
        try:
            found.update({table.path: table for table in tables})
        except hdf5_errors(ColonnadeError):
            continue  # a header that cannot be read is reported when the object itself is read
    return found


# -- frames before 0.7 --


def _old_frames(root: Any) -> Iterator[ForeignTable]:
    for name in FRAMES:
        node = find_member(root, name)
        if node is None or kind_of(node) != "dataset" or len(shape_of(node)) != 1:
            continue
        fields = dtype_of(node).names or ()
        if fields:
            size, read = node.id.get_storage_size(), partial(_read_old, node, find_member(root, "uns"), fields[0])
            yield ForeignTable(f"/{name}", OLD_FRAME, shape_of(node)[0], len(fields) - 1, size, read)


def _read_old(node: Any, uns: Any, index: str) -> tuple[pa.Table, list[str]]:
    return read_frame(node, uns), [index]


def read_frame(dataset: Any, uns: Any) -> pa.Table:
    """A frame stored as a compound dataset, as a pyarrow.Table."""
    columns = frame_columns(dataset, uns)
    return pa.table({name: one.to_arrow() if isinstance(one, CodedField) else one for name, one in columns.items()})


def frame_columns(dataset: Any, uns: Any) -> dict[str, Array | CodedField]:
    """The fields of a frame stored as a compound dataset."""
    read = read_plain(dataset)
    return {name: _field(read[name], name, uns, path_of(dataset)) for name in read.dtype.names}


def _field(values: Array, name: str, uns: Any, path: str) -> Array | CodedField:
    stored = find_member(uns, f"{name}_categories") if uns is not None and kind_of(uns) == "group" else None
    if stored is None or values.dtype.kind not in "iu" or kind_of(stored) != "dataset":
        return np.ascontiguousarray(values)
    categories = np.atleast_1d(read_plain(stored))
    if len(values) and (int(values.min()) < -1 or int(values.max()) >= len(categories)):
        raise CorruptError(f"field {name!r} holds codes beyond its {len(categories)} categories", path=path)
    return CodedField(np.ascontiguousarray(values), categories)


def read_plain(dataset: Any) -> Any:
    """The array or scalar in a dataset without encoding attributes. Strings in any storage become `str`."""
    read = read_array(dataset)
    if read.dtype.kind == "S":
        read = decode_texts(read, path_of(dataset))
    elif read.dtype.names is not None:
        read = _with_field_texts(read, path_of(dataset))
    return read[()] if read.ndim == 0 else read


def _with_field_texts(read: Array, path: str) -> Array:
    """The compound array with its fixed-length strings decoded to `str`."""
    names = read.dtype.names or ()
    kinds = [(name, object if read.dtype[name].kind == "S" else read.dtype[name]) for name in names]
    target = np.empty(read.shape, dtype=kinds)
    for name in names:
        target[name] = decode_texts(read[name], path) if read.dtype[name].kind == "S" else read[name]
    return target


# -- 10x --


def is_tenx(group: Any) -> bool:
    """Whether this is a matrix of 10x Genomics: a CSC matrix whose shape is a dataset, with barcodes next to it."""
    if kind_of(group) != "group":
        return False
    nodes = (find_member(group, name) for name in TENX)
    return all(node is not None and kind_of(node) == "dataset" for node in nodes)


def _of_tenx(root: Any) -> Iterator[ForeignTable]:
    for name in member_names(root):
        group = find_member(root, name)
        if group is None or not is_tenx(group):
            continue
        features = find_member(group, "features")
        if features is not None and kind_of(features) == "group":
            yield from _arrays(f"/{name}/features", features, member_names(features), "id")
        yield from _arrays(f"/{name}", group, ["genes", "gene_names"], "genes")
        yield from _arrays(f"/{name}/barcodes", group, ["barcodes"], "barcodes")


def _arrays(path: str, group: Any, names: list[str], leading: str) -> Iterator[ForeignTable]:
    """The datasets that have the length of the leading one, as the columns of a table."""
    flat = {name: node for name in names if (node := find_member(group, name)) is not None and _is_flat(node)}
    if leading not in flat:
        return
    n_rows = shape_of(flat[leading])[0]
    columns = {name: node for name, node in flat.items() if shape_of(node)[0] == n_rows}
    size = sum(node.id.get_storage_size() for node in columns.values())
    yield ForeignTable(path, TENX_TABLE, n_rows, len(columns), size, partial(_read_arrays, columns))


def _is_flat(node: Any) -> bool:
    return kind_of(node) == "dataset" and len(shape_of(node)) == 1


def _read_arrays(columns: dict[str, Any]) -> tuple[pa.Table, list[str]]:
    return pa.table({name: pa.array(read_plain(node)) for name, node in columns.items()}), []
