"""Groups, and arrays of any rank, as h5py hands them out: opened, read by parts, and written, for AnnData's elements.

Only hard links are followed, and rows in other files are read only where `outside` allows it.
A dataset that claims far more than is stored for it is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import h5py
import numpy as np
from h5py import h5d

from colonnade.dataclass import dataclass
from colonnade.errors import ConflictError, FormatError, UnsupportedError, UsageError
from colonnade.h5.arrays import path_of
from colonnade.h5.links import children, create_group, exists, hard_kind, unlink
from colonnade.h5.vetting import vet_fill, vet_object
from colonnade.nodes import H5Dataset, H5Group, H5Node
from colonnade.nodes.arrays import StreamedArray
from colonnade.nodes.damage import hdf5_errors

HandleKind = Literal["group", "dataset"]
LARGEST_SMALL_ATTRIBUTE = 4000  # strings of variable length that fit into an object header, 16 bytes each


def kind_of(node: object) -> HandleKind:
    """Whether this is a group or a dataset of h5py; anything else is a UsageError."""
    if isinstance(node, h5py.Group):
        return "group"
    if isinstance(node, h5py.Dataset):
        return "dataset"
    raise UsageError(f"an element is a group or a dataset of h5py, such as file.h5['obs'], not {type(node).__name__}")


def member_names(group: H5Group) -> list[str]:
    """The names of the groups and datasets in a group, also of those that cannot be opened: none is lost unsaid."""
    return [child.name for child in children(group.id) if child.kind in ("group", "dataset", "broken")]


def find_member(group: H5Group, name: str) -> Any | None:
    """The group or dataset of this name; None when there is none, or it cannot be opened."""
    kind = hard_kind(group.id, name)
    if kind not in ("group", "dataset"):
        return None
    key = name.encode("utf-8", "surrogateescape")
    try:
        if kind == "dataset":
            vet_object(group.id, key)
            vet_fill(h5d.open(group.id, key))  # h5py asks for the properties of a dataset as it opens it
        return group[key]
    except hdf5_errors(UnsupportedError):
        return None


def group_below(target: H5Node, path: bytes) -> H5Group:
    """The group at a path below a group of h5py, which was opened before and found sound; b"" is the group itself."""
    group = target[path] if path and isinstance(target, h5py.Group) else target
    if not isinstance(group, h5py.Group):
        raise FormatError(f"{path_of(group)} is not a group", path=path_of(group))
    return group


# -- writing --


def check_writable(group: H5Group) -> None:
    """Refuse what nothing can be written into."""
    if not isinstance(group, h5py.Group):
        raise UsageError(f"an element is written into a group of h5py, such as file.h5, not {type(group).__name__}")
    if group.file.mode == "r":
        raise ConflictError(f"{group.file.filename} is open for reading: open it with mode 'r+' or 'a' to write")


def make_group(parent: H5Group, name: str, attributes: Mapping[str, object]) -> H5Group:
    """A new group with these attributes."""
    large = any(isinstance(value, list) and len(value) > LARGEST_SMALL_ATTRIBUTE for value in attributes.values())
    create_group(parent.id, name, large_attributes=large)
    made: H5Group = parent[name]
    write_attributes(made, attributes)
    return made


def write_attributes(node: H5Node, attributes: Mapping[str, object]) -> None:
    """Attributes as anndata writes them: strings of variable length, flags as the boolean enum, integers as int64."""
    for name, value in attributes.items():
        if isinstance(value, list) and value:
            node.attrs[name] = np.array(value, dtype=h5py.string_dtype())
        else:
            node.attrs[name] = value  # an empty list becomes float64 of length 0, as in files of anndata


def make_null(parent: H5Group, name: str) -> H5Dataset:
    """A dataset that holds nothing."""
    return parent.create_dataset(name, data=h5py.Empty("f"))


@dataclass(frozen=True)
class ArrayOptions:
    """How new datasets are stored. `chunks` is for arrays of its rank: an integer for rank 1; True: h5py's choice."""

    compression: str | None = None
    compression_opts: int | None = None
    chunks: bool | int | tuple[int, ...] | None = None

    def of(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """The arguments of h5py for a dataset of this shape; a scalar takes none."""
        found: dict[str, Any] = {}
        if shape and self.compression is not None:
            found = {"compression": self.compression, "compression_opts": self.compression_opts}
        if shape and self.chunks is True:
            found["chunks"] = True
        elif self.chunks is not None and not isinstance(self.chunks, bool) and min(shape, default=0) > 0:
            chunks = (self.chunks,) if isinstance(self.chunks, int) else self.chunks
            if len(chunks) == len(shape):
                found["chunks"] = tuple(min(one, length) for one, length in zip(chunks, shape, strict=True))
        return found


def make_array(
    parent: H5Group,
    name: str,
    data: np.ndarray | StreamedArray,
    growable: bool = False,
    options: ArrayOptions = ArrayOptions(),  # noqa: B008 - it is frozen
) -> Any:
    """A new dataset of these elements; `object` arrays are strings of variable length."""
    chosen = options.of(data.shape)
    if growable:
        chosen["maxshape"] = (None,) * data.ndim
    if not isinstance(data, StreamedArray):
        return parent.create_dataset(name, data=data, dtype=stored_dtype(data.dtype), **chosen)
    made = parent.create_dataset(name, shape=data.shape, dtype=stored_dtype(data.dtype), **chosen)
    for part, block in data.blocks():
        made[part] = block
    return made


def stored_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype by which h5py writes: strings of variable length for objects, also in compounds."""
    if dtype.names is not None:
        return np.dtype([(name, stored_dtype(dtype[name])) for name in dtype.names])
    if dtype.kind == "O":
        found: np.dtype = h5py.string_dtype()
        return found
    return dtype


def move_into_place(group: H5Group, aside: str, name: str) -> None:
    """Give a new object its name; what had it before is unlinked first."""
    if exists(group.id, name):
        unlink(group.id, name)
    group.move(aside, name)


def remove(group: H5Group, name: str) -> None:
    """Unlink an object if it is there."""
    if exists(group.id, name):
        unlink(group.id, name)


def replace_members(group: H5Group, aside: str) -> None:
    """Unlink all members of a group but one, whose members take their place; the attributes of the group go too."""
    for child in children(group.id):
        if child.name != aside:
            unlink(group.id, child.name)
    for name in member_names(group[aside]):
        group.move(f"{aside}/{name}", name)
    unlink(group.id, aside)
    for name in list(group.attrs):
        del group.attrs[name]
