"""Collections of the global heap, looked at before the HDF5 library walks them: on some it never ends.

HDF5 (up to 2.0 at least) walks a collection object by object, and does not move on over an object that claims no
bytes. It does so for every element of variable length, for a fill of variable length, for region references and for
the map of a virtual dataset. Each collection is looked at here when something that is about to be read refers to it,
once. Only what surely never ends is refused, and references that make us look at the same bytes again and again:
collections do not overlap. Whatever else is wrong, the library reports itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from h5py import h5g, h5i

from colonnade.h5 import capi
from colonnade.h5.headers import FARTHEST, ReadAt, bytes_of, is_frozen
from colonnade.model import StoredType

REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
"""An element of variable length in a file, where addresses have 8 bytes."""
SIGNATURE = b"GCOL\x01"
HEAD = 16
_WINDOW = 1 << 16
_MOST_TIMES = 4  # that the bytes of the file may be looked at
_SLACK = 1 << 20
_NEVER_ENDS = "an object in it claims no bytes, so that its end is never reached"
_OVERLAP = "its collections claim more bytes than the file can have for them"
_MOST_FILES = 1000
_FILES: dict[tuple[int, int], _Known] = {}


class _Known:
    """Where the collections of a file end that were looked at, and how many bytes may still be looked at."""

    def __init__(self, left: int | None) -> None:
        self.left = left  # None in a file that changes
        self.ends: dict[int, int] = {}


class Vetted:
    """The collections of one file."""

    def __init__(self, read_at: ReadAt, known: _Known) -> None:
        self._read_at = read_at
        self._known = known

    def check(self, address: int) -> None:
        """An OSError, as the library would raise it, when the collection at this address never ends."""
        if address in self._known.ends or not 0 < address < FARTHEST:
            return
        head = self._read_at(address, HEAD)
        if head[:5] != SIGNATURE or len(head) < HEAD:
            return  # refused by the library
        end = address + int.from_bytes(head[8:], "little")
        for _ in self._steps(address + HEAD, end, self._read):
            pass
        self._known.ends[address] = end

    def objects(self, address: int) -> dict[int, bytes]:
        """The objects of a collection that was checked, by their index."""
        end = self._known.ends.get(address, address)
        steps = self._steps(address + HEAD, end, self._read_at)  # not counted: rows refer to it as often as they like
        found = (step for step in steps if step[0])
        return {index: self._read_at(at, size) for index, at, size in found if at + size <= end}

    def _steps(self, at: int, end: int, read: ReadAt) -> Iterator[tuple[int, int, int]]:
        """Index, place and size of each object, as the library walks over them."""
        begin, window = at, b""
        while at + HEAD <= end:
            if not begin <= at <= begin + len(window) - HEAD:
                begin, window = at, read(at, min(_WINDOW, end - at))
            index, size = _object_head(window[at - begin : at - begin + HEAD])
            step = (HEAD + (size + 7) // 8 * 8) % 2**64 if index else size
            if len(window) - (at - begin) < HEAD or step > end - at:
                return  # refused by the library
            if not step:
                capi.refuse("read the global heap", _NEVER_ENDS)
            yield index, at + HEAD, size
            at += step

    def _read(self, at: int, n_bytes: int) -> bytes:
        if self._known.left is not None:
            self._known.left -= n_bytes
            if self._known.left < 0:
                capi.refuse("read the global heap", _OVERLAP)
        return self._read_at(at, n_bytes)


def _object_head(head: bytes) -> tuple[int, int]:
    return int.from_bytes(head[:2], "little"), int.from_bytes(head[8:], "little")


def vetted_of(node: Any) -> Vetted | None:
    """What is known of the collections in the file of an object; None where its bytes cannot be read."""
    number, read_at = h5g.get_objinfo(node).fileno, bytes_of(node)
    if read_at is None:
        return None
    if number not in _FILES:
        if len(_FILES) >= _MOST_FILES:
            _FILES.clear()
        frozen = is_frozen(node)
        _FILES[number] = _Known(_MOST_TIMES * int(h5i.get_file_id(node).get_filesize()) + _SLACK if frozen else None)
    return Vetted(read_at, _FILES[number])


def check_addresses(node: Any, addresses: Iterable[int]) -> None:
    """Refuse what refers to these collections, with an OSError, when one of them never ends."""
    vetted = vetted_of(node)
    if vetted is not None:
        for address in addresses:
            vetted.check(address)


def check_elements(node: Any, stored: StoredType, data: bytes | memoryview) -> None:
    """The same of elements as they lie in the file, and of all that they refer to."""
    vetted = vetted_of(node)
    if vetted is not None and stored.has_pointers:
        _check_elements(vetted, stored, np.frombuffer(data, "u1"))


def _check_elements(vetted: Vetted, stored: StoredType, data: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
    for kind, references in _references(stored, _rows(data, stored_size(stored))):
        used = references[references["address"] > 0]
        for address in np.unique(used["address"]).tolist():
            vetted.check(address)
            if kind.kind == "sequence" and kind.item.has_pointers:
                objects = vetted.objects(address)
                indexes = np.unique(used["index"][used["address"] == address]).tolist()
                inner = b"".join(_whole(objects.get(index, b""), stored_size(kind.item)) for index in indexes)
                _check_elements(vetted, kind.item, np.frombuffer(inner, "u1"))


def _whole(data: bytes, size: int) -> bytes:
    return data[: len(data) // size * size]


def _rows(data: np.ndarray[Any, np.dtype[np.uint8]], size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return data[: len(data) // size * size].reshape(-1, size)


def stored_size(stored: StoredType) -> int:
    """Bytes of an element in the file, where addresses have 8 bytes."""
    if stored.kind in ("text", "binary", "sequence"):
        return REFERENCE.itemsize
    if stored.kind == "array":
        return int(np.prod(stored.dims, dtype=object)) * stored_size(stored.item)
    return stored.size + sum(stored_size(member.type) - member.type.size for member in stored.fields)


def _references(
    stored: StoredType, rows: np.ndarray[Any, np.dtype[np.uint8]]
) -> Iterator[tuple[StoredType, np.ndarray[Any, np.dtype[Any]]]]:
    """The references in elements as they lie in the file, with the datatype of each."""
    if stored.kind in ("text", "binary", "sequence"):
        yield stored, np.ascontiguousarray(rows).reshape(-1).view(REFERENCE)
    elif stored.kind == "array" and stored.has_pointers:
        yield from _references(stored.item, rows.reshape(-1, stored_size(stored.item)))
    elif stored.has_pointers:
        shift = 0  # by which members lie elsewhere in the file than in memory
        for member in sorted(stored.fields, key=lambda member: member.offset):
            begin, size = member.offset + shift, stored_size(member.type)
            if member.type.has_pointers:
                yield from _references(member.type, rows[:, begin : begin + size])
            shift += size - member.type.size
