"""Groups and links: open by name, list, make, remove, walk.

A walk goes over links, not over objects: a file may hold objects that the HDF5 library cannot
open, and one of them must not hide the others. Hard links are followed once; soft links (aliases
of what is found anyway) and external links (which leave the file) are not. A path that is asked for
by name may lead through them, as far as `outside` allows.
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from typing import TypeGuard

from h5py import h5, h5d, h5f, h5g, h5i, h5l, h5o, h5p, h5r, h5s, h5t

from colonnade.errors import CorruptError, UsageError
from colonnade.h5 import capi
from colonnade.h5.attributes import copy_attributes
from colonnade.h5.filters import creation_list, link_list
from colonnade.h5.outside import REFUSED, access_in
from colonnade.h5.vetting import (
    OpenFile,
    address_in,
    address_of,
    creation_of,
    open_file_of,
    vet_links,
    vet_map,
    vet_object,
)
from colonnade.nodes import DatasetHandle, GroupHandle, NodeHandle
from colonnade.nodes.attributes import decode_texts
from colonnade.nodes.damage import hdf5_errors, raise_lack
from colonnade.nodes.outside import refused_link
from colonnade.nodes.paths import decode_name, encode_name
from colonnade.nodes.protocols import Child, NodeKind, ObjectReference

_OBJECT_KINDS: dict[int, NodeKind] = {
    h5g.GROUP: "group",
    h5g.DATASET: "dataset",
    h5g.TYPE: "datatype",
}


def children(group: GroupHandle, without: Container[bytes] = ()) -> list[Child]:
    """The links of a group in the order of their names; those that lead nowhere are `broken`."""
    return [_child(group, name) for name in _link_names(group) if name not in without]


def link_names(group: GroupHandle) -> list[str]:
    """The names of the links of a group, in their order; where they lead is not looked at."""
    return decode_texts(_link_names(group), "surrogateescape")


def _link_names(group: GroupHandle) -> list[bytes]:
    try:
        return _listed(group)
    except hdf5_errors() as error:
        raise_lack(error)
        raise CorruptError(f"the links of this group cannot be listed: {error}", path=_name(group)) from error


def child_of(group: GroupHandle, name: str) -> Child:
    """One link of a group, which is there."""
    return _child(group, encode_name(name))


def names_in_order(group: GroupHandle) -> list[bytes]:
    """The names of all links, in the order they were made where the group keeps it, else by name."""
    if not group.get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_TRACKED:
        return _listed(group)
    numbered: list[tuple[int, bytes]] = []
    vet_links(group)
    group.links.iterate(lambda name, link: numbered.append((link.corder, name)), order=h5.ITER_NATIVE, info=True)
    return [name for _, name in sorted(numbered)]


def _listed(group: GroupHandle) -> list[bytes]:
    """The names of all links, sorted here: asked for an order, HDF5 1.14 frees what it never allocated where the links
    of a large group are damaged, and the process crashes."""
    names: list[bytes] = []
    vet_links(group)
    group.links.iterate(names.append, order=h5.ITER_NATIVE)
    return sorted(names)


def _name(group: GroupHandle) -> str:
    try:
        return decode_name(h5i.get_name(group) or b"?")
    except hdf5_errors():
        return "?"


def _child(group: GroupHandle, name: bytes) -> Child:
    shown = decode_name(name)
    try:
        link = group.links.get_info(name)
        if link.type == h5l.TYPE_SOFT:
            return Child(shown, "soft link")
        if link.type != h5l.TYPE_HARD:
            return Child(shown, "external link")
        found = h5g.get_objinfo(group, name)
    except hdf5_errors():
        return Child(shown, "broken")
    return Child(shown, _OBJECT_KINDS.get(found.type, "broken"), address_in(found))


def hard_address(group: GroupHandle, name: str) -> int | None:
    """Where the object header is that a hard link leads to, whether HDF5 can open it or not; None for other links."""
    try:
        vet_links(group)
        link = group.links.get_info(encode_name(name))
    except hdf5_errors():
        return None
    return int(link.u) if link.type == h5l.TYPE_HARD else None


def hard_kind(group: GroupHandle, name: str) -> NodeKind | None:
    """What the link of this name leads to; None when there is none. Soft and external links are not followed."""
    try:
        vet_links(group)
        if not group.links.exists(encode_name(name)):
            return None
    except hdf5_errors():
        return "broken"
    return _child(group, encode_name(name)).kind


def link_target(group: GroupHandle, name: str) -> str | None:
    """Where a soft or external link leads: a path, after the name of a file and a colon if it leaves the file."""
    try:
        value = group.links.get_val(encode_name(name))
    except hdf5_errors():
        return None
    parts = [value] if isinstance(value, bytes) else list(value)
    return ":".join(decode_name(part) if isinstance(part, bytes) else str(part) for part in parts)


def open_child(group: GroupHandle, name: str) -> tuple[Child, DatasetHandle | None]:
    """One link of a group, which is there, and the dataset that it leads to, if it is a hard link to one."""
    key = encode_name(name)
    try:
        vet_links(group)
        link = group.links.get_info(key)
        if link.type == h5l.TYPE_HARD:
            vet_map(group, int(link.u))
            node = h5o.open(group, key)
            if isinstance(node, h5d.DatasetID):
                return Child(name, "dataset", int(link.u)), node
    except hdf5_errors():
        pass
    return _child(group, key), None


def open_dataset(group: GroupHandle, name: str) -> DatasetHandle | None:
    """The dataset child of this name, or None when it is something else or broken."""
    node = _open(group, name)
    return node if isinstance(node, h5d.DatasetID) else None


def open_chunked(group: GroupHandle, name: str, in_place: bool) -> DatasetHandle | None:
    """The dataset child of this name, which is stored in chunks by its description: opening it is safe (see `vetting`).

    in_place: rows of chunks without filters are read and written in place. HDF5's chunk cache moves whole chunks: an
    append would rewrite the rows that are there.
    """
    try:
        return h5d.open(group, encode_name(name), _without_cache() if in_place else None)
    except hdf5_errors():
        return None


@lru_cache(maxsize=1)
def _without_cache() -> h5p.PropDAID:
    access = h5p.create(h5p.DATASET_ACCESS)
    access.set_chunk_cache(1, 0, 1.0)
    return access


def _open(group: GroupHandle, path: str) -> NodeHandle | None:
    """The object at a path, or None; one in another file only where links may lead."""
    REFUSED.clear()
    file = open_file_of(group)
    try:
        _check_path(group, path)
        node = h5o.open(group, encode_name(path or "/"), access_in(file))
    except hdf5_errors():
        if REFUSED:
            raise refused_link(path, REFUSED[-1]) from None
        return None
    if not file.is_of_python:  # through which no link leads to another file
        _inherit_links(file, open_file_of(node))
    return node


def _inherit_links(file: OpenFile, target: OpenFile) -> None:
    """The link policy of a file applies to the files that it leads to."""
    if target.links != file.links:
        target.links = file.links
        file.led_to.append(target)


def _check_path(group: GroupHandle, path: str) -> None:
    """Vet every group of the path, and the object at its end."""
    above, slash, name = path.rstrip("/").rpartition("/")
    parent = _open(group, above or "/") if slash else group
    if isinstance(parent, h5g.GroupID | h5f.FileID):
        vet_links(parent)
        if name:
            vet_object(parent, encode_name(name))


def open_group(group: GroupHandle, path: str) -> GroupHandle | None:
    """The group at a path below `group`, or None when it is something else or not there."""
    node = _open(group, path)
    return node if isinstance(node, h5g.GroupID) else None


def exists(group: GroupHandle, name: str) -> bool:
    """Whether the group has a link of this name, wherever it leads."""
    vet_links(group)
    return bool(group.links.exists(encode_name(name), lapl=access_in(open_file_of(group))))


def create_group(group: GroupHandle, path: str, large_attributes: bool = False) -> GroupHandle:
    """A new group at a path below `group`, with the groups on the way to it.

    `large_attributes` lets attributes grow beyond 64 KiB, at the price of a newer file form.
    """
    creation = h5p.create(h5p.GROUP_CREATE)
    if large_attributes:
        creation.set_attr_creation_order(h5p.CRT_ORDER_TRACKED)
    return h5g.create(group, encode_name(path), lcpl=link_list(path), gcpl=creation)


def unlink(group: GroupHandle, name: str) -> None:
    """Remove one link. libhdf5 reads the header of an object whose last link it is."""
    vet_object(group, encode_name(name))
    group.unlink(encode_name(name))


def rename(group: GroupHandle, name: str, new_name: str) -> None:
    """Give a link another name within its group."""
    group.links.move(encode_name(name), group, encode_name(new_name))


def move(group: GroupHandle, name: str, target: GroupHandle, new_name: str | None = None) -> None:
    """Move a link into another group, under the same name or another."""
    group.links.move(encode_name(name), target, encode_name(name if new_name is None else new_name))


def link_again(group: GroupHandle, name: str, node: NodeHandle) -> None:
    """Give an object of the file one more name."""
    h5o.link(node, group, encode_name(name), lcpl=link_list(name))


def holds_large_attributes(node: GroupHandle | DatasetHandle) -> bool:
    """Whether the object was made so that its attributes may exceed 64 KiB."""
    creation = creation_of(node) if isinstance(node, h5d.DatasetID) else node.get_create_plist()
    return bool(creation.get_attr_creation_order())


def with_large_attributes(group: GroupHandle, path: str) -> GroupHandle:
    """Replace this group by one whose attributes may exceed 64 KiB, with all that it holds.

    Objects keep their addresses, so that references to them hold. The root cannot be replaced.
    """
    root, aside = h5g.open(h5i.get_file_id(group), b"/"), f"{path}\x01large"
    made = create_group(root, aside, large_attributes=True)
    copy_attributes(group, made)
    for name in _listed(group):
        group.links.move(name, made, name)
    unlink(root, path)
    rename(root, aside, path)
    return made


def address(node: NodeHandle) -> int | None:
    """Where the object is kept: equal for two handles of one object; None when its header is broken."""
    try:
        return address_of(node)
    except hdf5_errors():
        return None


def is_shared(node: NodeHandle) -> bool:
    """Whether the object has more than one name."""
    try:
        return bool(h5g.get_objinfo(node).nlink > 1)
    except hdf5_errors():
        return True


def dereference(node: NodeHandle, reference: h5r.Reference | ObjectReference | None) -> NodeHandle | None:
    """The object an object reference leads to, or None when it leads nowhere."""
    if isinstance(reference, ObjectReference):
        try:
            vet_map(node, reference.address)
            return capi.open_reference(node, reference.address.to_bytes(8, "little")) if reference else None
        except hdf5_errors():
            return None
    if isinstance(reference, h5r.RegionReference):
        return None
    try:
        return h5r.dereference(reference, node) if reference else None
    except hdf5_errors():
        return None


def is_dataset(node: NodeHandle) -> TypeGuard[DatasetHandle]:
    return isinstance(node, h5d.DatasetID)


def make_placeholder(root: GroupHandle, path: str) -> int:
    """A dataset without values at a path, groups on the way made; the address of its object header."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        raise UsageError(f"{path!r} names no dataset", path=path)
    group = root
    for part in parts[:-1]:
        if not exists(group, part):
            create_group(group, part)
        inner = open_group(group, part)
        if inner is None:
            raise UsageError(f"{path}: {part!r} is there and is not a group", path=path)
        group = inner
    if exists(group, parts[-1]):
        raise UsageError(f"{path} is there already", path=path)
    made = h5d.create(group, encode_name(parts[-1]), h5t.STD_I8LE, h5s.create(h5s.SCALAR), dcpl=creation_list())
    return int(h5o.get_info(made).addr)
