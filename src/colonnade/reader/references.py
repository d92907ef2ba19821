"""What references in the rows of a dataset lead to: objects, regions and attributes, in both forms that HDF5 has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.errors import CorruptError, UnsupportedError
from colonnade.format.nodes import ByteDataset
from colonnade.format.regions import StoredReference, decode_region, read_new_reference, read_region
from colonnade.nodes.protocols import ReferenceKind, ReferenceTarget

if TYPE_CHECKING:
    from colonnade.format.source import HDF5Source
    from colonnade.reader.files import ReadFile


def find_target(opened: ReadFile, kind: ReferenceKind, data: bytes) -> ReferenceTarget | None:
    """What a reference leads to; None if it is null."""
    if not any(data):
        return None
    try:
        reference = _decode(opened.file.source, kind, data)
        if reference is None:
            return None
        parsed = opened.file.at(reference.address)
        region = None
        if reference.selection is not None:
            if not isinstance(parsed, ByteDataset):
                raise CorruptError("it selects elements of an object that is not an array")
            region = decode_region(reference.selection, parsed.shape or ())
    except CorruptError as error:
        raise CorruptError(f"the reference leads nowhere: {error}", path=opened.context.name) from error
    node = opened.node(parsed, None)
    if node is None:
        path = opened.path_of(reference.address, thorough=True)
        text = f"the reference leads to {path}, a sparse array: open it with cn.open_sparse"
        raise UnsupportedError(text, feature="references to sparse arrays", path=path)
    return ReferenceTarget(node, region, reference.attribute)


def _decode(source: HDF5Source, kind: ReferenceKind, data: bytes) -> StoredReference | None:
    if kind == "object_reference":
        return StoredReference(int.from_bytes(data[: source.offset_size], "little"))
    return (
        read_region(source, data[: source.offset_size + 4])
        if kind == "region_reference"
        else read_new_reference(source, data)
    )
