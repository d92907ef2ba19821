"""What references in the rows of a dataset lead to: objects, regions and attributes, in both forms that HDF5 has."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from colonnade.errors import CorruptError, UnsupportedError, UsageError
from colonnade.filters.read_plan import MOST_AT_ONCE
from colonnade.format.datatype import in_memory
from colonnade.format.nodes import ByteDataset, ByteGroup
from colonnade.format.regions import (
    Region,
    StoredReference,
    decode_region,
    read_new_reference,
    read_region,
)
from colonnade.nodes.elements import is_shown_as_stored

if TYPE_CHECKING:
    from colonnade.reader.datasets import ReadDataset
    from colonnade.reader.files import ReadFile


def follow_reference(dataset: ReadDataset, row: int, column: str) -> object:
    """What the reference in a row of a column leads to, as an array; None where it is null."""
    stored = dataset.node.header.type
    if stored.kind not in ("object_reference", "region_reference") and not is_shown_as_stored(in_memory(stored)):
        raise UsageError(f"column {column!r} holds no references", column=column)
    data = dataset.stored_rows(range(row, row + 1)).tobytes()
    if not any(data):
        return None
    try:
        reference = _decode(dataset, data)
        if reference is None:
            return None
        return _read(dataset.opened, reference, f"column {column!r}, row {row}", column)
    except CorruptError as error:
        raise CorruptError(f"the reference leads nowhere: {error}", column=column, row=row) from error


def _decode(dataset: ReadDataset, data: bytes) -> StoredReference | None:
    source, kind = dataset.node.source, dataset.node.header.type.kind
    if kind == "object_reference":
        return StoredReference(int.from_bytes(data[: source.offset_size], "little"))
    return read_region(source, data) if kind == "region_reference" else read_new_reference(source, data)


def _read(opened: ReadFile, reference: StoredReference, where: str, column: str) -> object:
    """The elements that a reference leads to."""
    node = opened.file.at(reference.address)
    if reference.attribute is not None:
        attribute = node.attributes.find(reference.attribute)
        if attribute is None:
            raise CorruptError(f"there is no attribute {reference.attribute!r}", path=opened.context.name)
        return node.attributes.elements(attribute)
    if not isinstance(node, ByteDataset):
        kind = "a group" if isinstance(node, ByteGroup) else "a datatype"
        raise UsageError(f"{where}: the reference leads to {kind}, not to an array", column=column)
    shape = node.shape or ()
    selection = None if reference.selection is None else decode_region(reference.selection, shape)
    box = (selection or Region()).bounds(shape)
    target = opened.dataset(node, None)
    size = prod(len(axis) for axis in box)
    if size * node.header.type.size > MOST_AT_ONCE:
        raise UnsupportedError(
            f"{target.path}: {size} elements are more than can be read at once: read a part of it through File.h5",
            feature="arrays that exceed what is read at once",
            path=target.path,
        )
    values = target.read_as_stored(tuple(slice(axis.start, axis.stop) for axis in box))
    return _taken(values, selection, box)


def _taken(values: np.ndarray, selection: Region | None, box: list[range]) -> object:
    if selection is not None:
        return selection.take(values, box)
    return values if values.ndim else values[()]
