"""A whole HDF5 file copied into a new one, object by object: nothing is lost, and no free space comes along.

In this order:
1. a survey: what cannot be copied is refused by name, committed datatypes are copied, since datasets share them;
2. groups from the root down, made as they were made (with their order of creation), and all their links. Datasets
   are copied by HDF5 itself, chunks as they stand. An object with several hard links is copied once; soft and
   external links are made again, wherever they lead;
3. the attributes of groups, and every reference, in datasets and attributes, turned to the object's new place.

A dataset may be written another way than HDF5 copies it: the caller chooses which, and how. Of those that HDF5 cannot
open, which the caller knows by their addresses, a placeholder is made for the caller to write in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import product
from math import prod

import numpy as np
from h5py import h5a, h5d, h5g, h5l, h5o, h5p, h5s, h5t

from colonnade.errors import UnsupportedError
from colonnade.h5 import capi
from colonnade.h5.attributes import (
    elements,
    open_attributes,
    standard_addresses,
    write_elements,
    write_standard_references,
)
from colonnade.h5.datatypes import describe_type, memory_type
from colonnade.h5.filters import creation_list
from colonnade.h5.handles import LibraryDataset, LibraryGroup
from colonnade.h5.links import children, hard_address, names_in_order, open_dataset
from colonnade.h5.references import NewPlaces
from colonnade.h5.vetting import creation_of, has_lost_fill, lists_wrong_chunks, vet_fill
from colonnade.model import Progress, StoredType
from colonnade.nodes import (
    DatasetHandle,
    EditableDataset,
    EditableGroup,
    GroupHandle,
    NodeHandle,
)
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.elements import has_references, is_shown_as_stored
from colonnade.nodes.paths import decode_name, encode_name, join_path
from colonnade.nodes.protocols import Child
from colonnade.stored_dtypes import memory_dtype

CopyDataset = Callable[[EditableDataset, EditableGroup, str], None]
"""Writes a dataset another way: the source dataset, the new group, the name in it."""

_MERGE_COMMITTED_DATATYPES = 0x40
_TYPES = "\x01types"
_PART_BYTES = 16 << 20


def copy_file(
    source: GroupHandle,
    target: GroupHandle,
    otherwise: Mapping[int, CopyDataset] | None = None,
    progress: Progress | None = None,
    without: Collection[int] = (),
    unread: Callable[[int, str], bool] = lambda address, path: False,
) -> dict[int, str]:
    """Copy everything below the root group of one file into that of a new one.

    `otherwise` holds, by their addresses in the source, the datasets to be written another way, `without` the objects
    that are left out. Progress counts bytes. unread: asked for what HDF5 cannot open, by address and path, whether
    the caller copies it; gives the paths of the placeholders of such, by their addresses in the source.
    """
    copy = _Copy(source, target, otherwise or {}, progress, without, unread)
    copy.run()
    return copy.placeholders


class _Copy:
    """One file being copied. `_paths` maps the address of each object to the path it has in the new file."""

    def __init__(
        self,
        source: GroupHandle,
        target: GroupHandle,
        otherwise: Mapping[int, CopyDataset],
        progress: Progress | None,
        without: Collection[int],
        unread: Callable[[int, str], bool],
    ) -> None:
        self._is_unread = unread
        self._unread: set[int] = set()
        self.placeholders: dict[int, str] = {}
        self._source, self._target = source, target
        self._without = frozenset(without)
        self._otherwise = otherwise
        self._progress = progress
        self._paths = {h5o.get_info(source).addr: "/"}
        self._has_references = False
        self._done = self._bytes = 0

    def run(self) -> None:
        """Do all three steps."""
        self._survey()
        pending = [("/", self._source, self._target)]
        while pending:
            pending.extend(reversed(list(self._copy_links(*pending.pop()))))
        if _TYPES.encode() in self._target:
            self._target.unlink(_TYPES.encode())
        paths = self._paths.items() if self._has_references else ()
        places = NewPlaces(self._source, self._target, {address: encode_name(path) for address, path in paths})
        for address, path in list(self._paths.items()):
            if address not in self.placeholders:
                self._complete(encode_name(path), places)

    # -- 1. the survey --

    def _survey(self) -> None:
        pending, seen = [("/", self._source)], set(self._paths)
        self._look_at("/", self._source)
        while pending:
            path, group = pending.pop()
            for child in children(group):
                where = join_path(path, child.name)
                if child.kind in ("soft link", "external link"):
                    continue
                if child.address in seen or child.address in self._without:
                    continue
                if child.kind in ("broken", "dataset") and self._is_left_to_caller(group, child, where):
                    continue
                if child.kind == "broken":
                    raise _refusal(where, "it cannot be opened")
                seen.add(child.address)
                node = _open(group, encode_name(child.name), where)
                self._look_at(where, node)
                if isinstance(node, h5g.GroupID):
                    pending.append((where, node))
                elif isinstance(node, h5d.DatasetID):
                    self._bytes += node.get_storage_size()
                else:
                    self._copy_datatype(group, child)

    def _is_left_to_caller(self, group: GroupHandle, child: Child, where: str) -> bool:
        """Whether HDF5 cannot open this, and the caller can."""
        place = hard_address(group, child.name)
        if place is None or open_dataset(group, child.name) is not None or not self._is_unread(place, where):
            return False
        self._unread.add(place)
        return True

    def _look_at(self, where: str, node: NodeHandle) -> None:
        """Find out whether there are references, and refuse those that cannot be turned."""
        for holder in _holders(node):
            stored = describe_type(holder.get_type())
            if is_shown_as_stored(stored):
                self._check_standard(where, node, holder)
                self._has_references = True
            self._has_references = self._has_references or has_references(stored)

    def _check_standard(self, where: str, node: NodeHandle, holder: h5a.AttrID | h5d.DatasetID) -> None:
        """Refuse references in the form of HDF5 1.12 but those in attributes that lead to objects of this file."""
        if isinstance(holder, h5d.DatasetID):
            raise _refusal(where, "it holds references in the form of HDF5 1.12")
        name = decode_name(holder.name)
        if None in standard_addresses(node, name):
            raise _refusal(where, f"its attribute {name!r} refers to another file, a region or an attribute")

    def _copy_datatype(self, group: GroupHandle, child: Child) -> None:
        if _TYPES.encode() not in self._target:
            h5g.create(self._target, _TYPES.encode())
        path = f"/{_TYPES}/{child.address}"
        h5o.copy(group, encode_name(child.name), self._target, path.encode())
        self._paths[child.address] = path

    # -- 2. groups and links --

    def _copy_links(
        self, path: str, source: GroupHandle, target: GroupHandle
    ) -> Iterator[tuple[str, GroupHandle, GroupHandle]]:
        """Make every link of a group; gives the new groups, which are still empty."""
        for name in names_in_order(source):
            where = join_path(path, decode_name(name))
            link = source.links.get_info(name)
            how = h5p.create(h5p.LINK_CREATE)
            how.set_char_encoding(link.cset)
            if link.type == h5l.TYPE_SOFT:
                target.links.create_soft(name, source.links.get_val(name), lcpl=how)
            elif link.type == h5l.TYPE_EXTERNAL:
                file, path_there = source.links.get_val(name)
                target.links.create_external(name, file, path_there, lcpl=how)
            elif link.type == h5l.TYPE_HARD:
                yield from self._copy_object(where, source, target, name, how)
            else:
                raise _refusal(where, f"it is a link of a kind of its own (number {link.type})")

    def _copy_object(
        self, where: str, source: GroupHandle, target: GroupHandle, name: bytes, how: h5p.PropLCID
    ) -> Iterator[tuple[str, GroupHandle, GroupHandle]]:
        """Copy what a hard link leads to, or link it where it was copied before."""
        place = hard_address(source, decode_name(name))
        if place is not None and place in self._unread:
            self._make_placeholder(where, place, target, name, how)
            return
        node = _open(source, name, where)
        address = h5o.get_info(node).addr
        if address in self._without:
            return
        known = self._paths.get(address)
        if known is None or known.startswith(f"/{_TYPES}/"):
            self._paths[address] = where
        if known is not None:
            target.links.create_hard(name, self._target, encode_name(known), lcpl=how)
        elif isinstance(node, h5g.GroupID):
            yield where, node, h5g.create(target, name, lcpl=how, gcpl=node.get_create_plist())
        elif isinstance(node, h5d.DatasetID):
            self._copy_dataset(where, node, source, target, name, how)
        else:  # named datatypes were copied before
            raise _refusal(where, "it is neither a group nor a dataset")

    def _make_placeholder(self, where: str, place: int, target: GroupHandle, name: bytes, how: h5p.PropLCID) -> None:
        """A dataset for the caller to write in; one that has two names is not known to HDF5, which makes no such."""
        if place in self._paths:
            raise _refusal(where, f"it is {self._paths[place]} too, under another name")
        h5d.create(target, name, h5t.STD_I8LE, h5s.create(h5s.SCALAR), dcpl=creation_list(), lcpl=how)
        self._paths[place] = self.placeholders[place] = where

    def _copy_dataset(
        self, where: str, node: DatasetHandle, source: GroupHandle, target: GroupHandle, name: bytes, how: h5p.PropLCID
    ) -> None:
        other = self._otherwise.get(h5o.get_info(node).addr)
        if other is not None:
            other(LibraryDataset.of(node), LibraryGroup.of(target), decode_name(name))
        else:
            try:
                if _has_pointing_fill(node):
                    self._copy_by_elements(node, target, name, how)
                else:
                    h5o.copy(source, name, target, name, self._copy_options(node), how)
            except hdf5_errors() as error:
                raise _refusal(where, str(error)) from error
        self._done += node.get_storage_size()
        if self._progress is not None:
            self._progress(self._done, self._bytes)

    def _copy_by_elements(self, node: DatasetHandle, target: GroupHandle, name: bytes, how: h5p.PropLCID) -> None:
        """HDF5 copies the fill value of variable-length elements as an address in the old file."""
        kind, space = self._new_type(node.get_type()), node.get_space()
        _copy_elements(node, h5d.create(target, name, kind, space, dcpl=creation_of(node), lcpl=how))

    def _copy_options(self, node: NodeHandle) -> h5p.PropCopyID:
        """How HDF5 copies a dataset: its committed datatypes are those of the new file.

        Each is named: HDF5 would search the whole new file for it, and crash on groups that hold each other.
        """
        options = h5p.create(h5p.OBJECT_COPY)
        kinds = [holder.get_type() for holder in _holders(node)]
        for kind in kinds:
            known = self._paths.get(h5o.get_info(kind).addr) if kind.committed() else None
            if known is not None:
                options.set_copy_object(_MERGE_COMMITTED_DATATYPES)
                capi.add_datatype_path(options, encode_name(known))
        return options

    # -- 3. attributes and references --

    def _complete(self, path: bytes, places: NewPlaces) -> None:
        source, target = h5o.open(self._source, path), h5o.open(self._target, path)
        for attribute in open_attributes(source):
            self._copy_attribute(source, attribute, target, places)
        if not isinstance(source, h5d.DatasetID) or not isinstance(target, h5d.DatasetID):
            return
        if has_references(describe_type(source.get_type())):
            _copy_elements(source, target, places)

    def _copy_standard(self, source: NodeHandle, attribute: h5a.AttrID, target: NodeHandle, places: NewPlaces) -> None:
        """Make references in the form of HDF5 1.12 again, to the copies of what they lead to."""
        name = decode_name(attribute.name)
        paths = [None if address is None else self._paths.get(address) for address in standard_addresses(source, name)]
        nodes = [None if path is None else h5o.open(self._target, encode_name(path)) for path in paths]
        write_standard_references(target, name, nodes, attribute.get_space())

    def _copy_attribute(self, source: NodeHandle, attribute: h5a.AttrID, target: NodeHandle, places: NewPlaces) -> None:
        """Copy an attribute that the new object lacks, and turn the references of one that it has."""
        stored = describe_type(attribute.get_type())
        if is_shown_as_stored(stored):
            self._copy_standard(source, attribute, target, places)
            return
        if h5a.exists(target, attribute.name):
            if not has_references(stored):
                return
            made = h5a.open(target, attribute.name)
        else:
            made = capi.create_attribute_like(attribute, target, self._new_type(attribute.get_type()))
        with elements(attribute) as image:
            places.turn(image, stored)
            write_elements(made, image)

    def _new_type(self, type_id: h5t.TypeID) -> h5t.TypeID:
        """The datatype for the new file: the committed one, if it is committed."""
        known = self._paths.get(h5o.get_info(type_id).addr) if type_id.committed() else None
        return type_id.copy() if known is None else h5t.open(self._target, encode_name(known))


def _holders(node: NodeHandle) -> list[h5a.AttrID | h5d.DatasetID]:
    """What holds values in an object: its attributes, and a dataset itself."""
    return [*open_attributes(node), *([node] if isinstance(node, h5d.DatasetID) else [])]


def _open(group: GroupHandle, name: bytes, where: str) -> NodeHandle:
    try:
        return h5o.open(group, name)
    except hdf5_errors() as error:
        raise _refusal(where, _why(error)) from error


def _why(error: BaseException) -> str:
    """HDF5's reason; that of sectioned chunks, which it does not know, in words."""
    text = str(error)
    if "layout class" in text or "filter pipeline message" in text or "filter name length" in text:
        return f"HDF5 cannot read it, as it cannot read sparse arrays in sectioned chunks ({text})"
    return text


def _refusal(where: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"{where} cannot be copied, so nothing is: {why}", feature="copying every object of a file", path=where
    )


def _has_pointing_fill(dataset: DatasetHandle) -> bool:
    """Whether the dataset's fill value is kept elsewhere in the file than in its header."""
    if not describe_type(dataset.get_type()).has_pointers:
        return False
    vet_fill(dataset)
    return has_lost_fill(dataset) or creation_of(dataset).fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED


def _copy_elements(source: DatasetHandle, target: DatasetHandle, places: NewPlaces | None = None) -> None:
    """Write the elements of a dataset into its copy, their references turned; a few MiB at a time."""
    stored = describe_type(source.get_type())
    in_memory, in_new = memory_type(source.get_type(), stored), memory_type(target.get_type(), stored, writing=True)
    for selected in _parts(source, stored):
        count = selected.get_select_npoints()
        space = h5s.create_simple((count,))
        image = np.zeros(count, dtype=memory_dtype(stored))
        capi.read(source, in_memory, space, selected, image.ctypes.data)
        try:
            if places is not None:
                places.turn(image, stored)
            capi.write(target, in_new, space, selected, image.ctypes.data)
        finally:
            if stored.has_pointers:
                capi.reclaim(in_memory, space, image.ctypes.data)


def _parts(dataset: DatasetHandle, stored: StoredType) -> Iterator[h5s.SpaceID]:
    """Selections that cover all elements that were written."""
    space = dataset.get_space()
    shape = space.get_simple_extent_dims() if space.get_simple_extent_type() == h5s.SIMPLE else ()
    if not shape:
        if space.get_simple_extent_type() == h5s.SCALAR:
            yield space
        return
    creation = creation_of(dataset)
    if creation.get_layout() == h5d.CHUNKED:
        chunk = creation.get_chunk()
        starts: list[tuple[int, ...]] = []
        if lists_wrong_chunks(dataset):
            starts.extend(product(*(range(0, end, side) for end, side in zip(shape, chunk, strict=True))))
        else:
            dataset.chunk_iter(lambda info: starts.append(info.chunk_offset))
    else:
        rows = max(1, _PART_BYTES // max(1, prod(shape[1:]) * stored.size))
        chunk = (rows, *shape[1:])
        starts = [(first,) + (0,) * (len(shape) - 1) for first in range(0, shape[0] if prod(shape) else 0, rows)]
    for start in starts:
        count = tuple(min(size, end - at) for size, end, at in zip(chunk, shape, start, strict=True))
        if all(n > 0 for n in count):
            selected = dataset.get_space()
            selected.select_hyperslab(start, count)
            yield selected
