"""What went wrong while a library read and wrote a file through us, kept until it can be raised."""

from __future__ import annotations

from queue import SimpleQueue
from threading import get_ident
from types import TracebackType
from typing import Protocol


class LibraryLock(Protocol):
    """The lock that a library holds while it works, which a thread may take several times."""

    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...

    def is_owned(self) -> bool:
        """Whether this thread holds it."""

    def depth(self) -> int:
        """How often this thread holds it."""

    def release(self) -> None: ...


class NoLibrary:
    """Of a file that no library reads or writes."""

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
    """An exception struck as an address was taken."""


class Latch:
    """What went wrong in the calls of HDF5 to one file, since it was opened or rolled back."""

    def __init__(self, library: LibraryLock, holds: dict[int, int] | None = None) -> None:
        self._library = library
        self.sought: SimpleQueue[int] = SimpleQueue()  # addresses that HDF5 is going to read or write at
        self.address: int | None = None  # where it is reading or writing
        self.failure: BaseException | None = None
        self.is_broken = False  # something was not written
        self.is_dead = False  # rolled back: what HDF5 still writes is not wanted
        self.holds = {} if holds is None else holds  # by thread: how often the program itself holds the lock

    def next(self) -> Latch:
        """A latch for the next opening of the file."""
        return Latch(self._library, self.holds)

    def enter(self) -> None:
        """At the beginning of a call: the program may hold the lock on purpose, and then keeps it."""
        if not self._library.is_owned():
            self.holds.pop(get_ident(), None)
        elif self.failure is None and self._is_idle():  # none of it is left by an exception
            self.holds[get_ident()] = self._library.depth()

    def keep(self, error: BaseException) -> None:
        """Remember the first error."""
        if self.failure is None:
            self.failure = error

    def is_sound(self) -> bool:
        """Whether HDF5 was given and rid of everything; where not, only rolling back helps."""
        with self._library:  # no thread is inside HDF5
            return self._is_idle()

    def _is_idle(self) -> bool:
        return not self.sought.qsize() and self.address is None and not self.is_broken

    def begin(self) -> int:
        """The address that HDF5 has sought last; those before it, nothing was read from or written to."""
        if self.sought.qsize() > 1:
            self.is_broken = True
        while self.sought.qsize():
            self.address = self.sought.get_nowait()
        if self.address is None:
            raise LostAddress
        return self.address

    def take(self) -> BaseException | None:
        """The exception to raise, if any: once where nothing is lost, else until the file is rolled back."""
        is_sound = self.is_sound()
        if self.failure is not None or not is_sound:
            self._release_lock()
        if is_sound:
            failure, self.failure = self.failure, None
            return failure
        return self.failure or InterruptedError(
            "cannot go on: an exception struck while HDF5 read or wrote the file. The change is taken back: repeat it"
        )

    def _release_lock(self) -> None:
        """Release what h5py still holds of its lock, though this thread is not inside a call of h5py.

        An exception that came through a callback while HDF5 carried on is found by h5py as it leaves its lock: it does
        not leave it then, and every other thread would wait for it for ever.
        """
        held = self.holds.get(get_ident(), 0)
        while self._library.is_owned() and not (held and self._library.depth() <= held):
            self._library.release()
