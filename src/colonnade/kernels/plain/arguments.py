"""Check the arguments of kernels, and open buffers as arrays, as the C form does."""

from __future__ import annotations

from mmap import mmap

import numpy as np

from colonnade.arrays import Booleans, Octets

KernelArray = np.ndarray
KernelBytes = Octets
Readable = bytes | bytearray | memoryview | mmap | np.ndarray  # or anything else with a contiguous buffer
NUMBERS = frozenset(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)) | {"f4", "f8"}


def open_array(thing: Readable, name: str, writable: bool = False) -> KernelArray:
    """A contiguous buffer as a flat array."""
    try:
        view = thing.data if isinstance(thing, np.ndarray) else memoryview(thing)
    except (TypeError, ValueError, BufferError):
        view = None
    if view is None or not view.c_contiguous or (writable and view.readonly):
        raise ValueError(f"{name} must be a contiguous buffer{' that can be written' if writable else ''}")
    if "O" in view.format:
        raise ValueError(f"{name} must not hold Python objects")
    array = thing if isinstance(thing, np.ndarray) else np.asarray(view)
    return array.reshape(-1)


def open_look(look: Readable, size: int | None = None) -> KernelArray:
    """The item to search for, as the integer that its bytes form."""
    item = open_bytes(look, "look")
    if len(item) not in (1, 2, 4, 8) or (size is not None and len(item) != size):
        raise ValueError(f"look has {len(item)} bytes, expected {size or '1, 2, 4 or 8'}")
    number: KernelArray = item.view(f"u{len(item)}")
    return number


def as_items(data: KernelBytes, name: str, look: KernelArray) -> KernelArray:
    """Bytes as items of the same size as the item to search for."""
    if len(data) % look.itemsize or data.ctypes.data % look.itemsize:
        raise ValueError(f"{name} holds no items of {look.itemsize} bytes")
    items: KernelArray = data.view(look.dtype)
    return items


def open_bytes(thing: Readable, name: str, writable: bool = False) -> KernelBytes:
    """The bytes of any buffer."""
    array = open_array(thing, name, writable)
    return array.view(np.uint8) if array.itemsize else np.empty(0, dtype=np.uint8)


def open_values(thing: Readable, name: str, writable: bool = False, any_order: bool = False) -> KernelArray:
    """Aligned numbers in this machine's byte order."""
    array = open_array(thing, name, writable)
    if array.dtype.kind == "b":
        array = array.view(np.uint8)
    if array.dtype.str[1:] not in NUMBERS:
        raise ValueError(f"{name} must hold integers or floats of 1, 2, 4 or 8 bytes")
    if not array.dtype.isnative and not any_order:
        raise ValueError(f"{name} must be in the byte order of this machine")
    if len(array) and array.ctypes.data % array.itemsize:
        raise ValueError(f"{name} must be aligned")
    return array


def open_kind(thing: Readable, name: str, kind: str, writable: bool = False) -> KernelArray:
    """Numbers of exactly this type."""
    array = open_values(thing, name, writable)
    if array.dtype != np.dtype(kind):
        raise ValueError(f"{name} must hold {np.dtype(kind)}")
    return array


def open_mask(thing: Readable, name: str, writable: bool = False) -> KernelBytes:
    """A mask with one byte per item; every value other than 0 is true."""
    array = open_array(thing, name, writable)
    if array.itemsize != 1:
        raise ValueError(f"{name} must hold one byte an item")
    return array.view(np.uint8)


def open_optional_mask(thing: Readable | None, name: str, count: int) -> Booleans:
    """A mask of this length; all false if there is none."""
    if thing is None:
        return np.zeros(count, dtype=bool)
    mask = open_mask(thing, name)
    check_count(mask, name, count)
    truth: Booleans = mask != 0
    return truth


def open_offsets(thing: Readable, writable: bool = False) -> KernelArray:
    """Arrow's offsets, of which there is one more than rows."""
    offsets = open_values(thing, "offsets", writable)
    if offsets.dtype.str[1:] not in ("i4", "i8"):
        raise ValueError("offsets must hold int32 or int64")
    if not len(offsets):
        raise ValueError("offsets is empty, expected one more than rows")
    return offsets


def check_offsets(offsets: KernelArray, n_bytes: int) -> None:
    """Refuse offsets that decrease or point outside the data."""
    wrong = (offsets[:-1] < 0) | (offsets[1:] < offsets[:-1]) | (offsets[1:] > n_bytes)
    if wrong.any():
        raise ValueError(f"offsets of row {int(np.argmax(wrong))} do not lie in the data")


def check_count(array: KernelArray, name: str, count: int) -> None:
    """Refuse an array of another length."""
    if len(array) != count:
        raise ValueError(f"{name} has {len(array)} items, expected {count}")


def check_apart(source: KernelArray, out: KernelArray) -> None:
    """Refuse an output that overlaps its source."""
    if np.may_share_memory(source, out):
        raise ValueError("out must not lie over source")


def check_item_size(size: int) -> None:
    if size < 1:
        raise ValueError(f"item_size is {size}, expected at least 1")


def check_base(base: int, count: int) -> None:
    if not 0 <= base <= 2**63 - 1 - count:
        raise ValueError(f"base is {base}, which no row can have")


def put_rows(rows: KernelArray, out: KernelArray) -> int:
    """Write row numbers to the beginning of `out`."""
    if len(rows) > len(out):
        raise ValueError(f"out has room for {len(out)} rows, which is too few")
    out[: len(rows)] = rows
    return len(rows)
