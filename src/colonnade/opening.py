"""Files opened: for reading by our own reader of HDF5's bytes, for changes by libhdf5.

| opened | read by |
| --- | --- |
| a path, a URL or a binary file object, mode "r" | `ByteHandle`: `format/`, and libhdf5 for what that does not know |
| a path with another mode; a file or group of h5py | `h5.files.FileHandle`: libhdf5 |

With `library="never"` libhdf5 is not entered: what `format/` does not know is an UnsupportedError.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from colonnade.errors import UnsupportedError, UsageError
from colonnade.format.nodes import open_file as open_bytes
from colonnade.format.readable import ReadFile
from colonnade.format.source import UnknownToReader
from colonnade.nodes.protocols import Notes
from colonnade.pager import disk
from colonnade.pager.locks import WaitRequest
from colonnade.pager.options import Care, Links, Mode, Target
from colonnade.pager.readers import CommittedFile, read_between_commits
from colonnade.pager.recovery import check_whole
from colonnade.pager.sources import StreamBytes

if TYPE_CHECKING:
    from colonnade.h5.files import FileHandle
    from colonnade.nodes import Group, Node

    Handle = FileHandle


def open_file(target: Target, mode: Mode = "r", large_root: bool = False, care: Care | None = None) -> Handle:
    """Open a path, an h5py file or group, a binary file object, or an fsspec URL."""
    care = care or Care()
    if mode == "r" and not is_of_h5py(target):
        handle = _open_to_read(target, care)
        if handle is not None:
            return cast("FileHandle", handle)  # it has what readers use
    if care.library == "never":
        raise UsageError(f"library='never' is for files that are only read, not for mode {mode!r} or objects of h5py")
    from colonnade.h5.files import open_file as open_by_library

    return open_by_library(target, mode, large_root, care)


def is_of_h5py(target: object) -> bool:
    """Whether this is an object of h5py, such as `File.h5` and what is in it."""
    return any(kind.__module__.split(".")[0] == "h5py" for kind in type(target).__mro__)


def _open_to_read(target: Target, care: Care) -> ByteHandle | None:
    """The file open for reading; None if libhdf5 must read it, or refuse to."""
    stream, name = None, ""
    if isinstance(target, str) and "://" in target:
        stream, name = _open_url(target), target
    elif isinstance(target, (str, os.PathLike)):
        path = Path(target)
        if not path.is_file() or path.stat().st_size == 0:
            return None  # refused there
        path = path.resolve()
        committed = CommittedFile(path, str(path), disk.DISK, care.timeout, care.locking, refuses_other_writers=True)
        return _readable(ByteHandle(committed, care, path), care)
    elif hasattr(target, "read") and hasattr(target, "seek"):
        stream, name = target, str(getattr(target, "name", "the file object"))
    else:
        return None
    source = StreamBytes(stream, name)
    check_whole(source)
    return _readable(ByteHandle(CommittedFile(source, name, disk.DISK), care, stream=stream), care)


def _readable(handle: ByteHandle, care: Care) -> ByteHandle | None:
    """The handle, if our own reader knows the form of its file."""
    try:
        read_between_commits(handle, lambda: handle.root)
    except UnknownToReader:
        handle.close()
        if care.library == "never":
            raise
        return None
    except BaseException:
        handle.close()
        raise
    return handle


def _open_url(url: str) -> IO[bytes]:
    try:
        import fsspec
    except ImportError:
        raise UsageError(f"{url}: reading URLs needs the package fsspec (pip install fsspec)") from None
    return cast("IO[bytes]", fsspec.open(url, "rb").open())


class _Context:
    """The file that byte nodes are in."""

    def __init__(self, name: str, notes: Notes, links: Links, path: Path | None) -> None:
        self.name = name
        self.notes = notes
        self.links = links
        self.place = path


class ByteHandle:
    """A file open for reading, whose objects are read from its bytes; it sees the commits of others."""

    is_changing = is_new = is_journaled = is_orphan = writable = False

    def __init__(
        self, committed: CommittedFile, care: Care, path: Path | None = None, stream: IO[bytes] | None = None
    ) -> None:
        self.name = committed.name
        self.notes: Notes = {}
        self.held = False
        self.path = path
        self.when_closed: Callable[[os.stat_result], None] | None = None
        self._committed = committed
        self._care = care
        self._stream = stream
        self._file: ReadFile | None = None
        self._file_of = -1  # the generation that `_file` is of
        self._library: FileHandle | None = None
        self._closed = False

    @property
    def generation(self) -> int:
        return self._committed.generation

    @property
    def root(self) -> Group:
        """The root group."""
        if self._file is None or self._file_of != self.generation:
            context = _Context(self.name, self.notes, self._care.links, self.path)
            fallback = None if self._care.library == "never" else self._open_by_library
            source = self._committed.current
            self._file = ReadFile(open_bytes(source), source, context, fallback)
            self._file_of = self.generation
        return cast("Group", self._file.root)

    @property
    def library_root(self) -> Group:
        """The root group, as libhdf5 has it."""
        handle = self._by_library()
        handle.refresh()
        return handle.root

    @property
    def left_to_library(self) -> dict[str, str]:
        """The paths of objects that libhdf5 reads, and why."""
        return {} if self._file is None else self._file.left_to_library

    @property
    def is_open(self) -> bool:
        return not self._closed

    @property
    def is_foreign_stream(self) -> bool:
        """Whether it is read through a file object: one the caller gave, or that of a URL."""
        return self._stream is not None

    def refresh(self) -> None:
        """See the last commit; not while it is `held`: what is read together must be of one state."""
        if not self.held:
            self._committed.refresh()

    def is_current(self) -> bool:
        """Whether nothing was committed since the last `refresh`."""
        return self._committed.is_current()

    def wait_request(self) -> WaitRequest:
        """The request to writers to wait, for a reader that they disturb."""
        return self._committed.wait_request()

    @property
    def h5(self) -> Any:
        """The h5py file, opened when it is first asked for."""
        return self._by_library().h5

    @property
    def shown(self) -> Any:
        """The h5py file for the program, whose objects raise when others have changed the file."""
        handle = self._by_library()
        handle.refresh()
        return handle.shown

    def _by_library(self) -> FileHandle:
        if self._care.library == "never":
            text = f"{self.name} was opened with library='never', so h5py does not open it"
            raise UnsupportedError(text, feature="h5py", path=self.name)
        if self._library is None:
            from colonnade.h5.files import open_file as open_by_library

            self._library = open_by_library(self._stream if self.path is None else self.path, "r", care=self._care)
        return self._library

    def _open_by_library(self, path: str, address: int | None) -> Node | None:
        """The object at a path, or at an address, for which our own reader is not enough."""
        handle = self._by_library()
        handle.refresh()
        if address is not None:
            return handle.open_at(address)
        return handle.root.open_dataset(path) or handle.root.open_group(path)

    def take_failure(self, error: Exception | None = None) -> BaseException | None:
        """What libhdf5 lost: nothing, where it does not call back."""
        return None

    def check_process(self) -> None:
        """A forked process may go on reading."""

    def make_usable(self) -> None:
        """Nothing is to be undone: nothing was changed."""

    def close(self, keep: bool = True) -> None:
        """Close the file."""
        self._closed = True
        self._file = None
        self._committed.close()
        if self._library is not None:
            self._library.close()
            self._library = None
        elif self._stream is not None and "://" in self.name:
            self._stream.close()
