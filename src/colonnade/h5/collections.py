"""Collections of the global heap, looked at before the HDF5 library does: on some it never ends.

HDF5 (up to 2.0 at least) walks a collection object by object, and goes on by nothing over an object that claims no
bytes. It walks one for a variable-length fill as soon as it is asked about a dataset, so there is no later place to
stop it. Only what surely never ends is refused; whatever else is wrong with a collection, the library says so itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from h5py import h5f, h5g

from colonnade.h5 import capi

MOST_BYTES = 64 << 20  # of a file that is looked through; in longer ones a damaged collection is left to the library
_SIGNATURE = b"GCOL\x01"
_HEAD = 16
_LEAST = 4096
_WINDOW = 1 << 20
_BROKEN = (OSError, RuntimeError, KeyError, ValueError, TypeError)
_sound: dict[tuple[int, int], bool] = {}


def check_collections(node: Any) -> None:
    """An OSError, as the library would raise it, when a collection in the file of this object never ends."""
    try:
        number = h5g.get_objinfo(node).fileno
    except _BROKEN:
        return
    if number not in _sound:
        if len(_sound) > 1000:
            _sound.clear()
        _sound[number] = _is_sound(Path(os.fsdecode(h5f.get_name(node))))
    if not _sound[number]:
        capi.refuse("read the global heap", "an object in it claims no bytes, so that its end is never reached")


def _is_sound(path: Path) -> bool:
    try:
        if not path.is_file() or not _HEAD <= path.stat().st_size <= MOST_BYTES:
            return True
        with path.open("rb") as file:  # not mapped: a file that is cut off meanwhile would end the process
            return not any(_never_ends(data, 0) for data in _collections(file))
    except (OSError, ValueError):
        return True


def _collections(file: BinaryIO) -> Iterator[bytes]:
    """What may be a collection, each as far as it claims to reach and the file does; the file is read by windows."""
    begin, held = 0, b""
    while read := file.read(_WINDOW):
        window = held + read
        at = window.find(_SIGNATURE)
        while at >= 0:
            yield _claimed(file, begin + at)
            at = window.find(_SIGNATURE, at + 1)
        held = window[-(len(_SIGNATURE) - 1) :]
        begin += len(window) - len(held)
        file.seek(begin + len(held))


def _claimed(file: BinaryIO, at: int) -> bytes:
    file.seek(at)
    head = file.read(_HEAD)
    return head + file.read(max(0, min(int.from_bytes(head[8:], "little") - len(head), MOST_BYTES)))


def _never_ends(data: bytes, at: int) -> bool:
    """Whether the walk that HDF5 takes over the collection at a place stands still."""
    size = int.from_bytes(data[at + 8 : at + _HEAD], "little")
    end = at + size
    if size < _LEAST or end > len(data):
        return False  # refused by the library
    at += _HEAD
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
