"""Errors of libhdf5 translated into our own: CorruptError for bytes that make no sense.

Not every failure is about bytes: a full disk, too many open files or too little memory stay an OSError or a
MemoryError.

h5py raises RuntimeError, OSError, KeyError and more for a damaged file, from any call. Where one object may fail
alone, that is caught on the spot (`hdf5_errors`); what nobody foresaw is caught here, around a whole question.
Only what comes out of h5py itself counts: the same errors from our own lines are our own faults, and pass.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from colonnade import limits
from colonnade.errors import ColonnadeError, CorruptError, DataError, UnsupportedError

_OF_BROKEN_OBJECTS = (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, UnicodeError)
_FAILURES = (OSError, RuntimeError, LookupError, ValueError, OverflowError)
_LACKS = frozenset(
    getattr(errno, name)
    for name in (
        "ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EIO", "EINTR", "ESTALE",
        "ENODEV", "ENXIO", "EREMOTEIO", "ETIMEDOUT", "ENOTCONN", "ECONNRESET", "ECONNABORTED", "EHOSTDOWN", "ENETDOWN",
    )
    if hasattr(errno, name)
)  # fmt: skip
"""What the system lacks, or its disk or network: nothing that bytes of a file can be the cause of."""
NEEDS_NEWER_HDF5 = "its datatype was written by HDF5 2.0 or newer"
_C_CALLS = "colonnade.h5.capi"
_OF_LIBRARY = "colonnade.h5."  # modules that call it


def hdf5_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """What h5py raises for an object whose bytes make no sense, and `others`: `except hdf5_errors():`.

    Python calls this when an exception has arrived at that line. A RecursionError is a RuntimeError but says nothing
    about the object, so it is not caught. Nor is what came from neither h5py nor `h5/`: our own reader of HDF5's bytes
    raises a CorruptError or an UnsupportedError for such an object, and any other error of it is a fault of ours.
    """
    error = sys.exception()
    if error is None or isinstance(error, RecursionError) or not _came_through_library(error):
        return others
    return (*_OF_BROKEN_OBJECTS, *others)


@contextmanager
def translate_hdf5_errors(name: str) -> Iterator[None]:
    """Errors of the HDF5 library inside come out as CorruptError."""
    try:
        yield
    except _FAILURES as error:
        translated = to_corrupt_error(error, name)
        if translated is error:
            raise
        raise translated from error


def to_corrupt_error(error: Exception, name: str) -> Exception:
    """The CorruptError that an error of the library means; any other error as it is."""
    if isinstance(error, (ColonnadeError, RecursionError)) or not isinstance(error, _FAILURES):
        return error
    if not _is_of_library(error):
        return error
    lack = lack_of(error)
    if lack is not None:
        return lack
    if "message is too large" in str(error):  # a limit of HDF5, not of the bytes that are there
        return DataError("cannot store this: HDF5 keeps at most 64 KiB for an attribute", path=name)
    if NEEDS_NEWER_HDF5 in str(error):
        return UnsupportedError(f"{error}. Reading this needs no HDF5; to change it, install a newer h5py", path=name)
    return CorruptError(f"the stored data is damaged: the HDF5 library reports: {error}", path=name)


def lack_of(error: BaseException) -> Exception | None:
    """The OSError or MemoryError that an error of the library stands for; None where it may be about bytes."""
    text = str(error)
    named = re.search(r"errno = (\d+)", text)
    number = getattr(error, "errno", None) or (int(named[1]) if named else 0)
    if number in _LACKS:
        return OSError(number, f"{os.strerror(number)} (the HDF5 library says: {text})")
    if "no IDs available" in text:
        return OSError(f"too many HDF5 objects are open (the HDF5 library says: {text})")
    if "memory allocation failed" in text and not _has_memory():
        return MemoryError(f"the HDF5 library says: {text}")
    return None


def raise_lack(error: BaseException) -> None:
    """Raise what `lack_of` finds, if anything."""
    lack = lack_of(error)
    if lack is not None:
        raise lack from error


def _has_memory() -> bool:
    """Whether a block of memory can still be had, of which nothing is touched: if so, the file asked for too much."""
    try:
        mmap.mmap(-1, limits.now.spare_memory).close()
    except OSError:
        return False
    return True


def _came_through_library(error: BaseException) -> bool:
    """Whether one of the lines that raised it is one of h5py or of `h5/`."""
    trace = error.__traceback__
    while trace is not None:
        if _is_of_h5py(trace.tb_frame) or trace.tb_frame.f_globals.get("__name__", "").startswith(_OF_LIBRARY):
            return True
        trace = trace.tb_next
    return False


def _is_of_library(error: BaseException) -> bool:
    """Whether the innermost line is one of h5py, or of the module that calls libhdf5 in C."""
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    return _is_of_h5py(trace.tb_frame) or trace.tb_frame.f_globals.get("__name__") == _C_CALLS


def _is_of_h5py(frame: FrameType) -> bool:
    h5py = sys.modules.get("h5py")
    if h5py is None or h5py.__file__ is None:
        return False
    return frame.f_code.co_filename.startswith(("h5py/", str(Path(h5py.__file__).parent)))
