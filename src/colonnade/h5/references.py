"""References: turned to the new places of their targets when a file is copied, followed, and read as stored.

In memory an object reference is the address of an object (8 bytes), a region reference 12 bytes that HDF5
alone can read. Inside compounds, arrays and sequences they lie where the element's datatype puts them.

References in the form of HDF5 1.12 hold pointers and open handles in memory, so they are shown as stored.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping

import h5py
import numpy as np
from h5py import h5d, h5o, h5r, h5s, h5t

from colonnade.errors import ColonnadeError, CorruptError, UnsupportedError, UsageError
from colonnade.filters.read_plan import MOST_AT_ONCE
from colonnade.format.nodes import ByteDataset
from colonnade.format.nodes import open_file as open_bytes
from colonnade.h5 import capi
from colonnade.h5.datatypes import describe_type
from colonnade.h5.outside import check_rows
from colonnade.h5.vetting import address_of, open_file_of, raw_bytes, vet_region
from colonnade.model import StoredType
from colonnade.nodes import DatasetHandle, GroupHandle
from colonnade.nodes.damage import hdf5_errors, raise_lack
from colonnade.nodes.elements import has_references, is_shown_as_stored
from colonnade.reader.files import ReadFile
from colonnade.stored_dtypes import memory_dtype

ReferenceElements = np.ndarray


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


def follow_reference(dataset: DatasetHandle, row: int, column: str) -> object:
    """What the object or region reference in a row of a column leads to, as an array; None where it leads nowhere."""
    if is_shown_as_stored(describe_type(dataset.get_type())):
        return _follow_in_bytes(dataset, row, column)
    try:
        return _follow(h5py.Dataset(dataset), row, column)
    except hdf5_errors(IndexError) as error:
        if isinstance(error, ColonnadeError):
            raise
        raise_lack(error)
        raise CorruptError(f"the reference leads nowhere: {error}", column=column, row=row) from error


def _follow(dataset: h5py.Dataset, row: int, column: str) -> object:
    if h5py.check_ref_dtype(dataset.dtype) is None:
        raise UsageError(f"column {column!r} holds no references", column=column)
    check_rows(dataset.id)
    reference = dataset[row]
    if not reference:
        return None
    if isinstance(reference, h5py.RegionReference):
        _check_region(dataset.id, row)
    opened = h5r.dereference(reference, dataset.id)
    if not isinstance(opened, h5d.DatasetID):
        raise UsageError(
            f"column {column!r}, row {row}: the reference leads to a group, not to an array", column=column
        )
    check_rows(opened)  # before h5py asks for its properties
    target = h5py.Dataset(opened)
    if isinstance(reference, h5py.RegionReference):
        return _read_region(target, h5r.get_region(reference, target.id))
    _check_size(target, target.size or 0)
    return target[()]


def _follow_in_bytes(dataset: DatasetHandle, row: int, column: str) -> object:
    """What a reference in the form of HDF5 1.12 leads to; h5py does not read these."""
    source = raw_bytes(dataset)
    if source is None:
        raise UnsupportedError(f"column {column!r} holds references that h5py does not read", feature="references")
    file = ReadFile(open_bytes(source), source, open_file_of(dataset), None, lambda _path, _target: None)
    node = file.file.at(address_of(dataset))
    if not isinstance(node, ByteDataset):
        raise CorruptError("this is not a dataset", column=column, row=row)
    return file.dataset(node, None).follow_reference(row, column)


def _check_region(dataset: DatasetHandle, row: int) -> None:
    """Refuse a region reference whose region is in a collection that never ends."""
    element = np.zeros(1, dtype="V12")
    space = dataset.get_space()
    space.select_hyperslab((row,), (1,))
    capi.read(dataset, h5t.STD_REF_DSETREG, h5s.create_simple((1,)), space, element.ctypes.data)
    vet_region(dataset, element.tobytes())


def _check_size(target: h5py.Dataset, count: int) -> None:
    """A dataset may claim any number of elements: more than are read at once are refused."""
    if count * target.dtype.itemsize > MOST_AT_ONCE:
        raise UnsupportedError(
            f"{target.name}: {count} elements are more than can be read at once: read a part of it through File.h5",
            feature="arrays that exceed what is read at once",
            path=target.name,
        )


def _read_region(target: h5py.Dataset, region: h5s.SpaceID) -> object:
    """The slab of a region that is a box, in its shape; else the elements of it in a row."""
    first, last = region.get_select_bounds()
    box = tuple(slice(int(a), int(b) + 1) for a, b in zip(first, last, strict=True))
    _check_size(target, math.prod(part.stop - part.start for part in box))
    slab = target[box]
    if region.get_select_npoints() == slab.size:
        return slab
    values = np.empty(region.get_select_npoints(), dtype=target.dtype)
    target.id.read(h5s.create_simple(values.shape), region, values)
    return values
