"""Collections of the global heap, looked at before the HDF5 library does: on some it never ends.

HDF5 (up to 2.0 at least) walks a collection object by object, and goes on by nothing over an object that claims no
bytes. It walks one for a variable-length fill as soon as it is asked about a dataset, so there is no later place to
stop it. Only what surely never ends is refused, and a file whose collections claim its bytes several times over: they
cannot overlap, and to look at them all would take for ever. Whatever else is wrong, the library says so itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from h5py import h5f, h5g

from colonnade.h5 import capi
from colonnade.h5.journal import JOURNALED

MOST_BYTES = 64 << 20  # of a file that is looked through; in longer ones a damaged collection is left to the library
_SIGNATURE = b"GCOL\x01"
_HEAD = 16
_LEAST = 4096
_WINDOW = 1 << 20
_MOST_TIMES = 4  # that all collections together may claim the length of the file; bytes of a text can look like one
_NEVER_ENDS = "an object in it claims no bytes, so that its end is never reached"
_OVERLAP = "its collections claim more bytes than the file can have for them"
_BROKEN = (OSError, RuntimeError, KeyError, ValueError, TypeError)
_faults: dict[tuple[int, int], str | None] = {}


def check_collections(node: Any) -> None:
    """An OSError, as the library would raise it, when a collection in the file of this object never ends."""
    try:
        number = h5g.get_objinfo(node).fileno
    except _BROKEN:
        return
    if number not in _faults:
        if len(_faults) > 1000:
            _faults.clear()
        journaled = JOURNALED.get(number)
        is_new = journaled is not None and journaled.is_aside  # what lies at its path is another file
        _faults[number] = None if is_new else _fault_of(Path(os.fsdecode(h5f.get_name(node))))
    fault = _faults[number]
    if fault is not None:
        capi.refuse("read the global heap", fault)


def _fault_of(path: Path) -> str | None:
    """Why the library may not look at the collections of a file; None where it may."""
    try:
        length = path.stat().st_size if path.is_file() else 0
        if not _HEAD <= length <= MOST_BYTES:
            return None
        with path.open("rb") as file:  # not mapped: a file that is cut off meanwhile would end the process
            return _fault(file, length)
    except (OSError, ValueError):
        return None


def _fault(file: BinaryIO, length: int) -> str | None:
    left = _MOST_TIMES * length
    for at, size in _collections(file):
        if size < _LEAST or at + size > length:
            continue  # refused by the library
        left -= size
        if left < 0:
            return _OVERLAP
        file.seek(at)
        if _never_ends(file.read(size)):
            return _NEVER_ENDS
    return None


def _collections(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """What may be a collection: where it is, and the bytes it claims. The file is read by windows."""
    begin, held = 0, b""
    while read := file.read(_WINDOW):
        window = held + read
        at = window.find(_SIGNATURE)
        while at >= 0:
            file.seek(begin + at)
            yield begin + at, int.from_bytes(file.read(_HEAD)[8:], "little")
            at = window.find(_SIGNATURE, at + 1)
        held = window[-(len(_SIGNATURE) - 1) :]
        begin += len(window) - len(held)
        file.seek(begin + len(held))


def _never_ends(data: bytes) -> bool:
    """Whether the walk that HDF5 takes over a collection stands still."""
    at, end = _HEAD, len(data)
    while at + _HEAD <= end:
        index = int.from_bytes(data[at : at + 2], "little")
        length = int.from_bytes(data[at + 8 : at + _HEAD], "little")
        step = (_HEAD + (length + 7) // 8 * 8) % 2**64 if index else length
        if not step:
            return True
        if step > end - at:
            return False
        at += step
    return False
