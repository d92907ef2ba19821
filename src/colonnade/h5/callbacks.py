"""The file object that h5py gives to HDF5: whatever goes wrong in one of its methods is kept, and raised afterwards.

HDF5 calls `seek` and then `readinto` or `write`, wherever it reads or writes: also when a handle is garbage, where an
exception goes nowhere. What was to be written is lost then, and HDF5 carries on. So:
- an exception in a method is kept in the `Latch` of the file, and the method tries again: HDF5 gets what it asked for;
- an address is noted by `seek` and struck out when the read or write is complete. `seek` is a function in C, into
  which no exception can come; so a method that failed before its first line, or inside its `except`, leaves a note;
- a commit looks at the latch first, and raises what is kept; so does every read when HDF5 has returned.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from h5py._objects import phil

from colonnade.h5.interrupts import shielded


class Latch:
    """What went wrong in the calls of HDF5 to one file, since it was opened or rolled back."""

    def __init__(self) -> None:
        self.begun: dict[int, int | None] = {}  # addresses that HDF5 is reading or writing at
        self.failure: BaseException | None = None
        self.is_broken = False  # something was not written
        self.is_dead = False  # rolled back: what HDF5 still writes is not wanted

    def keep(self, error: BaseException) -> None:
        """Remember the first error."""
        if self.failure is None:
            self.failure = error

    def is_sound(self) -> bool:
        """Whether HDF5 was given and rid of everything; where not, only rolling back helps."""
        with phil:  # no thread is inside HDF5
            return not self.begun and not self.is_broken

    def take(self) -> BaseException | None:
        """The exception to raise, if any: once where nothing is lost, else until the file is rolled back."""
        is_sound = self.is_sound()
        if self.failure is not None or not is_sound:
            _release_lock()
        if is_sound:
            failure, self.failure = self.failure, None
            return failure
        return self.failure or InterruptedError(
            "cannot go on: an exception struck while HDF5 read or wrote the file. The change is taken back: repeat it"
        )


def _release_lock() -> None:
    """Release h5py's lock as often as this thread still has it, which is inside no call of h5py.

    An exception that came through a callback while HDF5 carried on is found by h5py as it leaves its lock: it does not
    leave it then, and every other thread would wait for it for ever.
    """
    while phil._is_owned():
        phil.release()


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
        self._latch = file.latch if reads_only else Latch()
        file.latch = self._latch
        self.seek = self._latch.begun.setdefault
        self.flush = {}.clear  # nothing: what must be on the disk, a commit puts there

    @property
    def _is_live(self) -> bool:
        if self._file.latch is not self._latch and not self._latch.is_dead:
            self._file.latch.is_broken = True  # two openings that write: what one of them writes would be lost
        return self._file.latch is self._latch and not self._file.is_orphan

    @shielded
    def tell(self) -> int:
        """After seek(0, SEEK_END): the length of the file."""
        length = self._file.length
        self._latch.begun.pop(0, None)
        return length

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
        address = next(reversed(self._latch.begun))
        view = memoryview(buffer).cast("B")
        data = self._file.read_at(address, len(view))
        view[: len(data)] = data
        if len(data) < len(view):
            view[len(data) :] = bytes(len(view) - len(data))
        del self._latch.begun[address]  # the last line: what strikes before it finds the address

    @shielded
    def write(self, data: memoryview) -> None:
        try:
            self._write(data)
        except BaseException as error:  # noqa: BLE001 - kept: HDF5 would lose it, or break
            self._latch.keep(error)
            self._write_again(data, error)

    def _write(self, data: memoryview) -> None:
        address = next(reversed(self._latch.begun))
        if self._is_live and not self._latch.is_broken:
            self._file.write_at(address, memoryview(data).cast("B"))
        del self._latch.begun[address]

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
