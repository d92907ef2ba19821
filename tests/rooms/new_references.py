"""Write references in the form of HDF5 1.12, which h5py does not offer."""

from __future__ import annotations

import ctypes
from typing import Any

import h5py
from h5py import h5d, h5s

_LIBRARY = ctypes.CDLL(h5d.__file__)
_SIZE = 64  # of an H5R_ref_t in memory
_HID = ctypes.c_int64


def _bound(name: str, *types: Any) -> Any:
    function = getattr(_LIBRARY, name)
    function.argtypes, function.restype = types, ctypes.c_int
    return function


_OBJECT = _bound("H5Rcreate_object", _HID, ctypes.c_char_p, _HID, ctypes.c_void_p)
_REGION = _bound("H5Rcreate_region", _HID, ctypes.c_char_p, _HID, _HID, ctypes.c_void_p)
_ATTRIBUTE = _bound("H5Rcreate_attr", _HID, ctypes.c_char_p, ctypes.c_char_p, _HID, ctypes.c_void_p)
_DESTROY = _bound("H5Rdestroy", ctypes.c_void_p)
_WRITE = _bound("H5Dwrite", _HID, _HID, _HID, _HID, _HID, ctypes.c_void_p)
_CREATE = _LIBRARY.H5Dcreate2
_CREATE.argtypes, _CREATE.restype = (_HID, ctypes.c_char_p, _HID, _HID, _HID, _HID, _HID), _HID


def write_references(file: h5py.File, name: str, targets: list[Any]) -> None:
    """A dataset of references: each target is a path, a path and a dataspace, a path and the name of an attribute, or
    None."""
    memory = (ctypes.c_char * (_SIZE * len(targets)))()
    for number, target in enumerate(targets):
        at = ctypes.addressof(memory) + _SIZE * number
        if target is None:
            continue
        if isinstance(target, str):
            assert _OBJECT(file.id.id, target.encode(), 0, at) >= 0
        elif isinstance(target[1], str):
            assert _ATTRIBUTE(file.id.id, target[0].encode(), target[1].encode(), 0, at) >= 0
        else:
            assert _REGION(file.id.id, target[0].encode(), target[1].id, 0, at) >= 0
    type_id = _HID.in_dll(_LIBRARY, "H5T_STD_REF_g").value
    space = h5s.create_simple((len(targets),))
    made = h5d.DatasetID(_CREATE(file.id.id, name.encode(), type_id, space.id, 0, 0, 0))
    assert _WRITE(made.id, type_id, 0, 0, 0, ctypes.addressof(memory)) >= 0
    for number, target in enumerate(targets):
        if target is not None:
            _DESTROY(ctypes.addressof(memory) + _SIZE * number)


def selected(shape: tuple[int, ...], *boxes: tuple[tuple[int, ...], ...], points: Any = None) -> Any:
    """A dataspace with these hyperslabs (start, count, stride, block) selected, or these points."""
    space: Any = h5s.create_simple(shape)
    if points is not None:
        space.select_elements(points)
    for start, count, *rest in boxes:
        operation = {} if start == boxes[0][0] else {"op": h5s.SELECT_OR}
        space.select_hyperslab(start, count, *rest, **operation)
    return space
