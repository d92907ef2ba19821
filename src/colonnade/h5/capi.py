"""The few C calls that h5py does not offer, or offers in a form that can break memory.

h5py turns variable-length data into one Python object an element, cannot nest it, and
corrupts memory on the fill value of a sequence column. So elements travel as plain bytes: what
H5Dread and H5Dwrite put into memory, given the memory type.

In memory a variable-length string is one pointer, a sequence is a length and a pointer; what they
point to belongs to HDF5 after a read, and `reclaim` gives it back.

Always: every call holds h5py's lock, because HDF5 itself is not safe for threads.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

import h5py
from h5py import h5a, h5f, h5fd, h5i, h5p, h5s, h5t
from h5py._objects import phil

from colonnade.filters.codecs import Data
from colonnade.nodes import DatasetHandle, NodeHandle
from colonnade.threads import never_wait_holding


def _load_library() -> ctypes.CDLL:
    """The HDF5 library that h5py itself runs on: its symbols are reachable through h5py's own module."""
    if sys.platform == "win32":  # pragma: no cover
        return ctypes.CDLL("hdf5.dll")
    return ctypes.CDLL(h5py.h5d.__file__)


def _bind(name: str, *argtypes: Any, gives: Any = ctypes.c_int) -> Any:
    function = getattr(_LIBRARY, name)
    function.argtypes = argtypes
    function.restype = gives
    return function


_LIBRARY = _load_library()
_HID = ctypes.c_int64
_READ = _bind("H5Dread", _HID, _HID, _HID, _HID, _HID, ctypes.c_void_p)
_WRITE = _bind("H5Dwrite", _HID, _HID, _HID, _HID, _HID, ctypes.c_void_p)
_SET_FILL = _bind("H5Pset_fill_value", _HID, _HID, ctypes.c_void_p)
_GET_FILL = _bind("H5Pget_fill_value", _HID, _HID, ctypes.c_void_p)
_CHUNK_OPTIONS = _bind("H5Pget_chunk_opts", _HID, ctypes.POINTER(ctypes.c_uint))
_CHUNK_SIZE = _bind("H5Dget_chunk_storage_size", _HID, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64))
_RECLAIM = _bind("H5Dvlen_reclaim", _HID, _HID, _HID, ctypes.c_void_p)
_READ_ATTRIBUTE = _bind("H5Aread", _HID, _HID, ctypes.c_void_p)
_WRITE_ATTRIBUTE = _bind("H5Awrite", _HID, _HID, ctypes.c_void_p)
_CREATE_ATTRIBUTE = _bind("H5Acreate2", _HID, ctypes.c_char_p, _HID, _HID, _HID, _HID, gives=_HID)
_ATTRIBUTE_CREATION = _bind("H5Aget_create_plist", _HID, gives=_HID)
_SET_LINK_CALLBACK = _bind("H5Pset_elink_cb", _HID, ctypes.c_void_p, ctypes.c_void_p)
_CLOSE_LIST = _bind("H5Pclose", _HID)
_OPEN_AT = _bind("H5Oopen_by_addr", _HID, ctypes.c_uint64, gives=_HID)
_OPEN_REFERENCE = _bind("H5Rdereference2", _HID, _HID, ctypes.c_int, ctypes.c_void_p, gives=_HID)
_GET_REGION = _bind("H5Rget_region", _HID, ctypes.c_int, ctypes.c_void_p, gives=_HID)
_CREATE_REFERENCE = _bind("H5Rcreate", ctypes.c_void_p, _HID, ctypes.c_char_p, ctypes.c_int, _HID)
_CREATE_NEW_REFERENCE = _bind("H5Rcreate_object", _HID, ctypes.c_char_p, _HID, ctypes.c_void_p)
_DESTROY_NEW_REFERENCE = _bind("H5Rdestroy", ctypes.c_void_p)
_NEW_REFERENCE_SIZE = 64  # of an H5R_ref_t in memory
_ADD_DATATYPE_PATH = _bind("H5Padd_merge_committed_dtype_path", _HID, ctypes.c_char_p)
_GET_VFD_HANDLE = _bind("H5Fget_vfd_handle", _HID, _HID, ctypes.POINTER(ctypes.c_void_p))
_FILENO: Any = getattr(ctypes.CDLL(None) if sys.platform != "win32" else ctypes.CDLL("ucrtbase"), "fileno", None)
if _FILENO is not None:
    _FILENO.argtypes, _FILENO.restype = (ctypes.c_void_p,), ctypes.c_int
_OBJECT, _REGION = 0, 1
_ERROR_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p)
_WALK_ERRORS = _bind("H5Ewalk2", _HID, ctypes.c_int, _ERROR_CALLBACK, ctypes.c_void_p)


class _ErrorRecord(ctypes.Structure):
    """H5E_error2_t: one level of the library's error stack."""

    _fields_ = (
        ("cls_id", _HID),
        ("maj_num", _HID),
        ("min_num", _HID),
        ("line", ctypes.c_uint),
        ("func_name", ctypes.c_char_p),
        ("file_name", ctypes.c_char_p),
        ("desc", ctypes.c_char_p),
    )


READER = "colonnade-reader"
"""The driver by which our readers open files: HDF5's "log", which logs nothing here. It reads by `pread`, as "sec2"
does, and is another driver, so that HDF5 shares nothing with the handles of others. Not "stdio": after a fork, parent
and children would move the one offset of its descriptor under each other, and read wrong bytes."""
h5py.register_driver(READER, lambda access, **_options: access.set_fapl_log(b"", 0, 0))


def descriptor_of(file_id: h5f.FileID) -> int | None:
    """The descriptor through which HDF5 has a file open; None where its driver has none."""
    driver = file_id.get_access_plist().get_driver()
    if driver in (h5fd.SEC2, h5fd.LOG):
        return int(file_id.get_vfd_handle())
    if driver != h5fd.STDIO or _FILENO is None:
        return None
    stream = ctypes.c_void_p()
    with phil:
        if _GET_VFD_HANDLE(file_id.id, 0, ctypes.byref(stream)) < 0 or not stream.value:
            return None
    return int(_FILENO(ctypes.cast(stream, ctypes.POINTER(ctypes.c_void_p))[0]))


def _failure(doing: str) -> OSError:
    """An OSError with the innermost reason on HDF5's error stack, which a failed call leaves there."""
    reasons: list[str] = []

    def collect(_level: int, record: int | None, _data: int | None) -> int:
        if record:
            text = ctypes.cast(record, ctypes.POINTER(_ErrorRecord)).contents.desc
            reasons.append((text or b"").decode("utf-8", "replace"))
        return 0

    _WALK_ERRORS(0, 0, _ERROR_CALLBACK(collect), None)
    reason = reasons[0] if reasons else "no reason given"
    return OSError(f"HDF5 cannot {doing}: {reason}")


def refuse(doing: str, reason: str) -> NoReturn:
    """Raise the error that libhdf5 would raise, had it looked: for what it is not asked to do."""
    raise OSError(f"HDF5 cannot {doing}: {reason}")


def read(
    dataset: DatasetHandle, memory_type: h5t.TypeID, memory_space: h5s.SpaceID, file_space: h5s.SpaceID, address: int
) -> None:
    """Fill the memory at `address` with the selected elements, in the form of `memory_type`."""
    with phil:
        if _READ(dataset.id, memory_type.id, memory_space.id, file_space.id, 0, address) < 0:
            raise _failure("read")


def write(
    dataset: DatasetHandle, memory_type: h5t.TypeID, memory_space: h5s.SpaceID, file_space: h5s.SpaceID, address: int
) -> None:
    """Write the elements at `address`, which have the form `memory_type`, to the selected places."""
    with phil:
        if _WRITE(dataset.id, memory_type.id, memory_space.id, file_space.id, 0, address) < 0:
            raise _failure("write")


def set_fill(creation: h5p.PropDCID, memory_type: h5t.TypeID, address: int) -> None:
    """Set the fill value of a creation property list from one element at `address`."""
    with phil:
        if _SET_FILL(creation.id, memory_type.id, address) < 0:
            raise _failure("set the fill value")


def get_fill(creation: h5p.PropDCID, memory_type: h5t.TypeID, address: int) -> None:
    """Put the fill value of a creation property list into the memory at `address`."""
    with phil:
        if _GET_FILL(creation.id, memory_type.id, address) < 0:
            raise _failure("read the fill value")


def reclaim(memory_type: h5t.TypeID, space: h5s.SpaceID, address: int) -> None:
    """Free what the variable-length elements at `address` point to."""
    with phil:
        if _RECLAIM(memory_type.id, space.id, 0, address) < 0:
            raise _failure("free variable-length data")


def read_attribute(attribute: h5a.AttrID, memory_type: h5t.TypeID, address: int) -> None:
    """Fill the memory at `address` with all elements of an attribute, in the form of `memory_type`."""
    with phil:
        if _READ_ATTRIBUTE(attribute.id, memory_type.id, address) < 0:
            raise _failure("read the attribute")


def write_attribute(attribute: h5a.AttrID, memory_type: h5t.TypeID, address: int) -> None:
    """Write all elements of an attribute from the memory at `address`."""
    with phil:
        if _WRITE_ATTRIBUTE(attribute.id, memory_type.id, address) < 0:
            raise _failure("write the attribute")


def create_attribute_like(attribute: h5a.AttrID, target: NodeHandle, type_id: h5t.TypeID) -> h5a.AttrID:
    """A new attribute of the target with the name (and the charset of the name) and the shape of another."""
    space = attribute.get_space()  # kept: its number is void when it is gone
    with phil:
        creation = _ATTRIBUTE_CREATION(attribute.id)
        made = _CREATE_ATTRIBUTE(target.id, attribute.name, type_id.id, space.id, creation, 0)
        _CLOSE_LIST(creation)
        if made < 0:
            raise _failure("create the attribute")
        created: h5a.AttrID = h5i.wrap_identifier(made)
        return created


def write_object_references(
    node: NodeHandle, name: bytes, targets: Sequence[NodeHandle | None], space: h5s.SpaceID
) -> None:
    """A new attribute of object references in the form of HDF5 1.12; None for a null one."""
    with phil:
        memory = (ctypes.c_char * (_NEW_REFERENCE_SIZE * max(len(targets), 1)))()
        first, kind = ctypes.addressof(memory), _HID.in_dll(_LIBRARY, "H5T_STD_REF_g").value
        present = {
            first + _NEW_REFERENCE_SIZE * number: node for number, node in enumerate(targets) if node is not None
        }
        attribute = -1
        try:
            for address, target in present.items():
                if _CREATE_NEW_REFERENCE(target.id, b".", 0, address) < 0:
                    raise _failure("make the reference")
            attribute = _CREATE_ATTRIBUTE(node.id, name, kind, space.id, 0, 0)
            if attribute < 0 or _WRITE_ATTRIBUTE(attribute, kind, first) < 0:
                raise _failure("write the references")
        finally:
            for address in present:
                _DESTROY_NEW_REFERENCE(address)
            if attribute >= 0:
                h5i.wrap_identifier(attribute)  # closed when it is dropped


def open_at(file: NodeHandle, address: int) -> DatasetHandle:
    """The dataset whose header is at an address of a file."""
    with phil:
        found = _OPEN_AT(file.id, address)
        if found < 0:
            raise _failure("open the object")
        node: DatasetHandle = h5i.wrap_identifier(found)
        return node


def open_reference(node: NodeHandle, reference: bytes) -> NodeHandle:
    """The object that an object reference leads to."""
    buffer = ctypes.create_string_buffer(reference, len(reference))
    with phil:
        number = _OPEN_REFERENCE(node.id, 0, _OBJECT, buffer)
        if number < 0:
            raise _failure("follow the reference")
        opened: NodeHandle = h5i.wrap_identifier(number)
        return opened


def open_region(node: NodeHandle, reference: bytes) -> tuple[DatasetHandle, h5s.SpaceID]:
    """The dataset that a region reference leads to, and the selection in it."""
    buffer = ctypes.create_string_buffer(reference, len(reference))
    with phil:
        found = _OPEN_REFERENCE(node.id, 0, _REGION, buffer)
        if found < 0:
            raise _failure("follow the region reference")
        dataset = h5i.wrap_identifier(found)
        region = _GET_REGION(node.id, _REGION, buffer)
        if region < 0:
            raise _failure("read the region reference")
        return dataset, h5s.SpaceID(region)


def make_object_reference(address: int, node: NodeHandle, path: bytes) -> None:
    """Put a reference to the object at a path into the memory at `address`."""
    with phil:
        if _CREATE_REFERENCE(address, node.id, path, _OBJECT, -1) < 0:
            raise _failure("make the reference")


def make_region(address: int, node: NodeHandle, path: bytes, region: h5s.SpaceID) -> None:
    """Put a reference to a region of the dataset at a path into the memory at `address`."""
    with phil:
        if _CREATE_REFERENCE(address, node.id, path, _REGION, region.id) < 0:
            raise _failure("make the region reference")


def add_datatype_path(options: h5p.PropCopyID, path: bytes) -> None:
    """Name a committed datatype of the new file that copied objects shall share."""
    with phil:
        if _ADD_DATATYPE_PATH(options.id, path) < 0:
            raise _failure("name the datatype")


def set_link_callback(access: h5p.PropLAID, callback: ctypes.c_void_p) -> None:
    """Have a function asked before an external link is followed; it must outlive the list."""
    with phil:
        if _SET_LINK_CALLBACK(access.id, callback, None) < 0:
            raise _failure("set the callback for links")


def skips_partial_chunks(creation: h5p.PropDCID) -> bool:
    """Whether the chunk at the end, which the rows do not fill, is stored without filters."""
    options = ctypes.c_uint(0)
    with phil:
        return _CHUNK_OPTIONS(creation.id, ctypes.byref(options)) < 0 or bool(options.value & 2)


def chunk_size(dataset: DatasetHandle, first: int) -> int:
    """Bytes that the chunk of a one-dimensional dataset that begins with this row has in the file; 0 if it has none."""
    size = ctypes.c_uint64(0)
    with phil:
        found = _CHUNK_SIZE(dataset.id, ctypes.byref(ctypes.c_uint64(first)), ctypes.byref(size))
        return size.value if found >= 0 else 0


def read_stored_chunk(dataset: DatasetHandle, first: tuple[int, ...]) -> tuple[int, bytes]:
    """The filters that a chunk skipped, and its bytes as stored. h5py before 3.13 does this without its lock."""
    with phil:
        mask, data = dataset.read_direct_chunk(first)
        return int(mask), bytes(data)


def write_stored_chunk(dataset: DatasetHandle, first: tuple[int, ...], data: Data, mask: int = 0) -> None:
    """Store the bytes of a chunk as they are. h5py before 3.13 does this without its lock."""
    with phil:
        dataset.write_direct_chunk(first, data, filter_mask=mask)


class _HDF5Lock:
    """h5py's lock, which it holds whenever it is inside HDF5."""

    def __enter__(self) -> None:
        phil.acquire()

    def __exit__(self, *_error: object) -> None:
        phil.release()

    def is_owned(self) -> bool:
        return bool(phil._is_owned())

    def depth(self) -> int:
        """How often this thread holds the lock, if it does; 1 where that is unknown."""
        place = _depth_place()
        return 1 if place is None else _numbers_in_lock()[place]

    def release(self) -> None:
        phil.release()


HDF5_LOCK = _HDF5Lock()
never_wait_holding(HDF5_LOCK.is_owned)


@cache
def _depth_place() -> int | None:
    """Where the lock keeps its depth, for which it has no method: the only number in it that counts along."""
    seen = []
    for _ in range(4):
        phil.acquire()
        seen.append(_numbers_in_lock())
    for _ in seen:
        phil.release()
    counting = [
        place for place, (first, *more) in enumerate(zip(*seen, strict=True)) if more == [first + n for n in (1, 2, 3)]
    ]
    return counting[0] if len(counting) == 1 else None


def _numbers_in_lock() -> list[int]:
    size = type(phil).__basicsize__ // 4 * 4
    return memoryview(ctypes.string_at(id(phil), size)).cast("i").tolist()


def hdf5_version() -> str:
    """The version of the HDF5 library, such as "1.14.6"."""
    return str(h5py.version.hdf5_version)
