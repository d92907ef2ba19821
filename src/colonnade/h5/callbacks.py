"""The file object that h5py gives to HDF5: whatever goes wrong in one of its methods is kept, and raised afterwards.

HDF5 calls `seek` and then `readinto` or `write`, wherever it reads or writes: also when a handle is garbage, where an
exception goes nowhere. What was to be written is lost then, and HDF5 carries on. So:
- an exception in a method is kept in the `Latch` of the file, and the method tries again: HDF5 gets what it asked for;
- every address is noted by `seek`, taken by the read or write that follows, and forgotten when that is complete. `seek`
  is a function in C, into which no exception can come; so a method that failed before its first line leaves a note;
- HDF5 does not bear that a write fails: it carries on, or crashes. So `write` is called through ctypes, which prints
  what comes out of it (it can only come before the first line) and returns; the note is there;
- a commit looks at the latch first, and raises what is kept; so does every read when HDF5 has returned.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Protocol

from colonnade.pager.interrupts import shielded
from colonnade.pager.latch import Latch

_SWALLOWING = ctypes.PYFUNCTYPE(None, ctypes.py_object)


class Store(Protocol):
    """Bytes by their address."""

    latch: Latch

    @property
    def is_orphan(self) -> bool: ...

    @property
    def length(self) -> int: ...

    def read_at(self, start: int, n_bytes: int) -> bytes: ...

    def write_at(self, start: int, data: memoryview) -> None: ...

    def truncate(self, length: int | None = None) -> int: ...


class Callbacks:
    """The methods that HDF5 calls. Once the file is opened again, those of the first opening change nothing."""

    def __init__(self, file: Store, reads_only: bool = False) -> None:
        """reads_only: beside another opening, which writes."""
        self._file = file
        self._latch = file.latch if reads_only else file.latch.next()
        file.latch = self._latch
        self.seek = self._latch.sought.put
        self.flush = {}.clear  # nothing: what must be on the disk, a commit puts there

    def for_hdf5(self) -> Entries:
        """What HDF5 is given."""
        return Entries(self)

    @property
    def _is_live(self) -> bool:
        if self._file.latch is not self._latch and not self._latch.is_dead:
            self._file.latch.is_broken = True  # two openings that write: what one of them writes would be lost
        return self._file.latch is self._latch and not self._file.is_orphan

    @shielded
    def tell(self) -> int:  # after seek(0, SEEK_END): the length of the file
        try:
            self._latch.begin()
            length = self._file.length
            self._latch.address = None
            return length
        except BaseException as error:  # noqa: BLE001 - kept, as in write
            self._latch.keep(error)
            return self._file.length

    @shielded
    def readinto(self, buffer: memoryview) -> None:
        try:
            self._read(buffer)
        except BaseException as error:
            self._latch.keep(error)
            if isinstance(error, OSError):
                raise
            self._read(buffer)

    def _read(self, buffer: memoryview) -> None:
        address = self._latch.begin()
        view = memoryview(buffer).cast("B")
        data = self._file.read_at(address, len(view))
        view[: len(data)] = data
        if len(data) < len(view):
            view[len(data) :] = bytes(len(view) - len(data))
        self._latch.address = None  # the last line: what strikes before it finds the address

    @shielded
    def write(self, data: memoryview) -> None:
        try:
            self._write(data)
        except BaseException as error:  # noqa: BLE001 - kept: HDF5 would lose it, or break
            self._latch.keep(error)
            self._write_again(data, error)

    def _write(self, data: memoryview) -> None:
        address = self._latch.begin()
        if self._is_live and not self._latch.is_broken:
            self._file.write_at(address, memoryview(data).cast("B"))
        self._latch.address = None

    def _write_again(self, data: memoryview, error: BaseException) -> None:
        """After an exception that has nothing to do with the disk: what HDF5 wrote, it may read again soon."""
        was_broken, self._latch.is_broken = self._latch.is_broken, isinstance(error, OSError)
        try:
            self._write(data)
        except BaseException:  # noqa: BLE001 - the first one is kept
            self._latch.is_broken = True
        self._latch.is_broken = self._latch.is_broken or was_broken

    @shielded
    def truncate(self, length: int) -> int:
        try:
            return self._truncate(length)
        except BaseException as error:  # noqa: BLE001 - as in write
            self._latch.keep(error)
            return self._truncate_again(length, error)

    def _truncate(self, length: int) -> int:
        return self._file.truncate(length) if self._is_live else length

    def _truncate_again(self, length: int, error: BaseException) -> int:
        was_broken, self._latch.is_broken = self._latch.is_broken, True
        with suppress(BaseException):
            if not isinstance(error, OSError):
                self._truncate(length)
                self._latch.is_broken = was_broken
        return length


class Entries:
    """The file object of HDF5: where it enters the callbacks. Apart from them, since ctypes keeps what it calls."""

    def __init__(self, calls: Callbacks) -> None:
        self.seek, self.flush, self.tell = calls.seek, calls.flush, calls.tell
        self.readinto, self.truncate = calls.readinto, calls.truncate
        self.write = _SWALLOWING(calls.write)
