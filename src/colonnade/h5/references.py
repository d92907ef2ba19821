"""References: turned to the new places of their targets when a file is copied, followed, and read as stored.

In memory an object reference is the address of an object (8 bytes), a region reference 12 bytes that HDF5
alone can read. Inside compounds, arrays and sequences they lie where the element's datatype puts them.

References in the form of HDF5 1.12 hold pointers and open handles in memory, so they are shown as stored.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping

import numpy as np
from h5py import h5d, h5i, h5o, h5s

from colonnade.errors import ColonnadeError, CorruptError, UnsupportedError
from colonnade.format.nodes import open_file as open_bytes
from colonnade.h5 import capi
from colonnade.h5.vetting import open_file_of, raw_bytes, vet_fill, vet_map, vet_region
from colonnade.model import StoredType
from colonnade.nodes import GroupHandle, NodeHandle
from colonnade.nodes.damage import hdf5_errors, raise_lack
from colonnade.nodes.elements import has_references
from colonnade.nodes.protocols import ReferenceKind
from colonnade.nodes.regions import Chosen, ElementPositions, Region, SlabAxis, chosen_of
from colonnade.reader.files import ReadFile
from colonnade.stored_dtypes import memory_dtype

ReferenceElements = np.ndarray
OBJECT_BYTES, REGION_BYTES = 8, 12  # in memory


class NewPlaces:
    """Where each object of a file is in its copy; a reference to an object that was not copied becomes null."""

    def __init__(self, source: GroupHandle, target: GroupHandle, paths: Mapping[int, bytes]) -> None:
        self._source, self._target = source, target
        self._paths = paths
        self._addresses = {
            old: h5o.get_info(target, path).addr  # one call an object: only for files with references
            for old, path in paths.items()
        }

    def turn(self, image: ReferenceElements, stored: StoredType) -> None:
        """Turn every reference in these elements (in memory form), in place."""
        if stored.kind == "object_reference":
            self._turn_objects(image)
        elif stored.kind == "region_reference":
            for place in np.ndindex(image.shape):
                image[place] = self._turned_region(image[place].tobytes())
        elif stored.kind == "compound":
            for field in stored.fields:
                if has_references(field.type):
                    self.turn(image[field.name], field.type)
        elif stored.kind == "array" and has_references(stored.item):
            self.turn(image, stored.item)
        elif stored.kind == "sequence" and has_references(stored.item):
            for element in image.reshape(-1):
                self._turn_sequence(int(element["length"]), int(element["pointer"]), stored.item)

    def _turn_objects(self, image: ReferenceElements) -> None:
        old = np.frombuffer(image.tobytes(), dtype="u8")
        distinct, places = np.unique(old, return_inverse=True)
        new = np.array([self._addresses.get(address, 0) for address in distinct.tolist()], dtype="u8")
        image[...] = np.frombuffer(new[places].tobytes(), dtype=image.dtype).reshape(image.shape)

    def _turned_region(self, reference: bytes) -> np.void:
        turned = ctypes.create_string_buffer(len(reference))
        try:
            vet_region(self._source, reference)
            node, region = capi.open_region(self._source, reference) if any(reference) else (None, None)
        except OSError:
            node = None  # it led nowhere before
        path = None if node is None else self._paths.get(h5o.get_info(node).addr)
        if path is not None and region is not None:
            capi.make_region(ctypes.addressof(turned), self._target, path, region)
        return np.void(turned.raw)

    def _turn_sequence(self, length: int, pointer: int, item: StoredType) -> None:
        dtype = memory_dtype(item)
        if length:
            memory = memoryview((ctypes.c_char * (length * dtype.itemsize)).from_address(pointer))
            base, shape = dtype.subdtype if dtype.subdtype is not None else (dtype, ())
            self.turn(np.frombuffer(memory, dtype=base).reshape(length, *shape), item)


def find_target(node: NodeHandle, kind: ReferenceKind, data: bytes) -> tuple[object, Region | None, str | None] | None:
    """What a reference leads to: an object, and the region or the name of the attribute; None if it is null."""
    if not any(data):
        return None
    if kind == "reference":
        return _find_in_bytes(node, data)
    try:
        if kind == "object_reference":
            vet_map(node, int.from_bytes(data[:8], "little"))
            return capi.open_reference(node, data), None, None
        vet_region(node, data)
        dataset, space = capi.open_region(node, data)
        vet_fill(dataset)  # before h5py asks for its properties
        return dataset, _region_of(space, tuple(dataset.shape)), None
    except hdf5_errors(IndexError, TypeError) as error:
        if isinstance(error, ColonnadeError):
            raise
        raise_lack(error)
        raise CorruptError(f"the reference leads nowhere: {error}") from error


def _find_in_bytes(node: NodeHandle, data: bytes) -> tuple[object, Region | None, str | None] | None:
    """What a reference in the form of HDF5 1.12 leads to; h5py does not read these."""
    source = raw_bytes(node)
    if source is None:
        raise UnsupportedError("these references are in a form that h5py does not read", feature="references")
    file = ReadFile(open_bytes(source), source, open_file_of(node), None, lambda _path, _target: None)
    return file.root.find_target("reference", data)


def _region_of(space: h5s.SpaceID, shape: tuple[int, ...]) -> Region:
    """A selection of libhdf5. Whatever is selected is in the shape."""
    kind = space.get_select_type()
    if kind == h5s.SEL_ALL:
        return Region()
    if kind == h5s.SEL_NONE:
        raise CorruptError("the reference selects nothing")
    if kind == h5s.SEL_POINTS:
        region = Region(points=np.asarray(space.get_select_elem_pointlist(), dtype=np.uint64))
    elif space.is_regular_hyperslab():
        region = Region(axes=tuple(SlabAxis(*axis) for axis in zip(*space.get_regular_hyperslab(), strict=True)))
    else:
        region = Region(blocks=np.asarray(space.get_select_hyper_blocklist(), dtype=np.uint64))
    if any(axis.stop > length for axis, length in zip(region.bounds(shape), shape, strict=True)):
        raise CorruptError(f"the region ends after the elements there are: {shape}")
    return region


def make_reference(node: NodeHandle, path: bytes, selection: object, is_region: bool) -> bytes:
    """A new reference to the object at a path of the file, or to a part of it; a ValueError has the reason why not."""
    element = ctypes.create_string_buffer(REGION_BYTES if is_region else OBJECT_BYTES)
    root = h5i.get_file_id(node)
    try:
        target = h5o.open(root, path)
    except hdf5_errors(KeyError) as error:
        raise ValueError("there is no such object in the file") from error
    if h5o.get_info(target).fileno != h5o.get_info(root).fileno:
        raise ValueError("it is in another file")
    if not is_region:
        capi.make_object_reference(ctypes.addressof(element), root, path)
        return element.raw
    if not isinstance(target, h5d.DatasetID):
        raise ValueError("it is not an array, so no part of it can be selected")
    shape = tuple(target.shape)
    if not shape:
        raise ValueError("it is a single value, so no part of it can be selected")
    space = target.get_space()
    if selection is not None:
        _select(space, chosen_of(selection, shape))
    capi.make_region(ctypes.addressof(element), root, path, space)
    return element.raw


def _select(space: h5s.SpaceID, chosen: Chosen) -> None:
    if not isinstance(chosen, tuple):
        space.select_elements(np.ascontiguousarray(chosen, dtype=np.uint64))
        return
    first = True
    for slabs in itertools.product(*map(_slabs, chosen)):
        start, stride, count, block = zip(*slabs, strict=True)
        operation = h5s.SELECT_SET if first else h5s.SELECT_OR
        space.select_hyperslab(start, count, stride, block, operation)
        first = False


def _slabs(axis: ElementPositions) -> list[SlabAxis]:
    """Regular hyperslabs of these positions: one if they are regular, else one for each run."""
    if isinstance(axis, range):
        return [SlabAxis(axis.start, axis.step, len(axis), 1)]
    edges = np.flatnonzero(np.diff(axis) != 1) + 1
    runs = [(int(run[0]), len(run)) for run in np.split(axis, edges)]
    steps = {after[0] - before[0] for before, after in itertools.pairwise(runs)}
    if len({length for _, length in runs}) == 1 and len(steps) == 1:
        return [SlabAxis(runs[0][0], steps.pop(), len(runs), runs[0][1])]
    return [SlabAxis(start, 1, 1, length) for start, length in runs]
