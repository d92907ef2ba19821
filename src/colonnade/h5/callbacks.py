"""The file object that h5py gives to HDF5: whatever goes wrong in one of its methods is kept, and raised afterwards.

HDF5 calls `seek` and then `readinto` or `write`, wherever it reads or writes: also when a handle is garbage, where an
exception goes nowhere. What was to be written is lost then, and HDF5 carries on. So:
- an exception in a method is kept in the `Latch` of the file, and the method tries again: HDF5 gets what it asked for;
- HDF5 enters every method in C, where no exception is raised, and the address or length it asks for is put into a
  queue there. The method takes it out, and forgets it when it is complete. A method that failed before its first line
  leaves it in the queue;
- HDF5 bears that a read fails, so this is what an exception before the first line of `readinto` leads to. It does not
  bear that a write or `truncate` fails: it carries on, or crashes. So these two are called through ctypes, which prints
  what comes out of them (it can only come before the first line) and returns;
- a commit looks at the latch first, and raises what is kept; so does every read when HDF5 has returned.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from operator import add
from types import SimpleNamespace
from typing import Protocol

from colonnade.pager.interrupts import shielded
from colonnade.pager.latch import Latch

_WRITE = ctypes.PYFUNCTYPE(None, ctypes.py_object)
_TRUNCATE = ctypes.PYFUNCTYPE(None)


class Store(Protocol):
    """Bytes by their address."""

    latch: Latch
    length: int

    @property
    def is_orphan(self) -> bool: ...

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

    def for_hdf5(self) -> Entries:
        """What HDF5 is given."""
        return Entries(self, self._file, self._latch)

    @property
    def _is_live(self) -> bool:
        if self._file.latch is self._latch:
            return not self._file.is_orphan
        if not self._latch.is_dead:
            self._file.latch.is_broken = True  # two openings that write: what one of them writes would be lost
        return False

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
        self._latch.begun = None  # the last line: what strikes before it finds the address

    @shielded
    def write(self, data: memoryview) -> None:
        try:
            self._write(data)
        except BaseException as error:  # noqa: BLE001 - kept: HDF5 would lose it, or break
            self._repeat(partial(self._write, data), error)

    def _write(self, data: memoryview) -> None:
        address = self._latch.begin()
        if self._is_live and not self._latch.is_broken:
            self._file.write_at(address, memoryview(data).cast("B"))
        self._latch.begun = None

    @shielded
    def truncate(self) -> None:
        try:
            self._truncate()
        except BaseException as error:  # noqa: BLE001 - as in write
            self._repeat(self._truncate, error)

    def _truncate(self) -> None:
        length = self._latch.begin()
        if self._is_live and not self._latch.is_broken:
            self._file.truncate(length)
        self._latch.begun = None

    def _repeat(self, act: Callable[[], None], error: BaseException) -> None:
        """After an exception that has nothing to do with the disk: what HDF5 wrote, it may read again soon."""
        self._latch.keep(error)
        was_broken, self._latch.is_broken = self._latch.is_broken, isinstance(error, OSError)
        try:
            act()
        except BaseException:  # noqa: BLE001 - the first one is kept
            self._latch.is_broken = True
        self._latch.is_broken = self._latch.is_broken or was_broken


class Entries:
    """The file object of HDF5: where it enters the callbacks. Apart from them, since ctypes keeps what it calls."""

    def __init__(self, calls: Callbacks, file: Store, latch: Latch) -> None:
        lengths = iter(partial(getattr, file, "length"), None)
        self.seek = latch.asked.put
        self.tell = map(add, iter(latch.asked.get_nowait, None), lengths).__next__  # after seek(0, SEEK_END)
        self.readinto = calls.readinto
        self.write = _WRITE(calls.write)
        self.truncate = _TRUNCATE(calls.truncate)
        noting = SimpleNamespace(from_param=latch.asked.put)  # ctypes converts the argument with it
        self.truncate.argtypes = [noting]  # type: ignore[list-item]
        self.flush = {}.clear  # nothing: what must be on the disk, a commit puts there
