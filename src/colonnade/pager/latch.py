"""Errors in the callbacks through which a library reads and writes a file, kept until they can be raised."""

from __future__ import annotations

from queue import SimpleQueue
from threading import get_ident
from types import TracebackType
from typing import Protocol


class LibraryLock(Protocol):
    """The reentrant lock that a library holds while it works."""

    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...

    def is_owned(self) -> bool:
        """Whether this thread holds it."""

    def depth(self) -> int:
        """How many times this thread has acquired it."""

    def release(self) -> None: ...


class NoLibrary:
    """The lock of a file that no library reads or writes."""

    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def is_owned(self) -> bool:
        return False

    def depth(self) -> int:
        return 0

    def release(self) -> None: ...


class LostAddress(Exception):
    """An exception occurred while an address was taken from the queue."""


class Latch:
    """Errors in HDF5's calls to one file, since it was opened or rolled back."""

    def __init__(self, library: LibraryLock, holds: dict[int, int] | None = None) -> None:
        self._library = library
        self.asked: SimpleQueue[int] = SimpleQueue()  # where HDF5 will read or write next, or truncate the file
        self.begun: int | None = None  # where it is doing so
        self.failure: BaseException | None = None
        self.is_broken = False  # something was not written
        self.is_dead = False  # rolled back: further writes of HDF5 are ignored
        self.holds = {} if holds is None else holds  # by thread: how often the program itself acquired the lock

    def next(self) -> Latch:
        """A latch for the next opening of the file."""
        return Latch(self._library, self.holds)

    def enter(self) -> None:
        """Call at the beginning of a call into HDF5. If the program itself holds the lock, it keeps it afterwards."""
        if not self._library.is_owned():
            self.holds.pop(get_ident(), None)
        elif self.failure is None and self._is_idle():  # no acquisition is left over from an exception
            self.holds[get_ident()] = self._library.depth()

    def keep(self, error: BaseException) -> None:
        """Remember the first error."""
        if self.failure is None:
            self.failure = error

    def is_sound(self) -> bool:
        """Whether all reads and writes of HDF5 completed. If not, the file must be rolled back."""
        with self._library:  # no thread is inside HDF5
            return self._is_idle()

    def _is_idle(self) -> bool:
        return not self.asked.qsize() and self.begun is None and not self.is_broken

    def begin(self) -> int:
        """The address or length that HDF5 asked for last. If there are earlier ones, what was to be done was lost."""
        n_asked = self.asked.qsize()
        if n_asked > 1:
            self.is_broken = True
        for _ in range(n_asked):
            self.begun = self.asked.get_nowait()
        if self.begun is None:
            raise LostAddress
        return self.begun

    def take(self) -> BaseException | None:
        """The exception to raise, if any: once if no write was lost, else until the file is rolled back."""
        is_sound = self.is_sound()
        if self.failure is not None or not is_sound:
            self._release_lock()
        if is_sound:
            failure, self.failure = self.failure, None
            return failure
        return self.failure or InterruptedError(
            "cannot continue: an exception occurred while HDF5 used the file. The change is rolled back; repeat it"
        )

    def _release_lock(self) -> None:
        """Release h5py's lock if h5py still holds it although this thread is not inside an h5py call.

        If a callback raises while HDF5 continues, h5py sees the exception when it is about to release its lock, and
        does not release it. Every other thread would then wait for it forever.
        """
        own_depth = self.holds.get(get_ident(), 0)
        while self._library.is_owned() and not (own_depth and self._library.depth() <= own_depth):
            self._library.release()
