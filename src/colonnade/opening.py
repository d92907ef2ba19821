"""Files opened: for reading by our own reader of HDF5's bytes, for changes by libhdf5.

| opened | read by |
| --- | --- |
| a path, a URL or a binary file object, mode "r" | `ByteHandle`: `reader/`, and libhdf5 for what that does not know |
| a path with another mode; a file or group of h5py | `h5.files.FileHandle`: libhdf5 |

With `library="never"` libhdf5 is not entered: what `format/` does not know is an UnsupportedError.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeGuard, cast
from weakref import ReferenceType, WeakValueDictionary, ref

from colonnade.errors import ConflictError, CorruptError, FormatError, UnsupportedError, UsageError
from colonnade.format.nodes import open_file as open_bytes
from colonnade.format.source import UnknownToReader
from colonnade.nodes.paths import is_within
from colonnade.nodes.protocols import Notes
from colonnade.pager import disk
from colonnade.pager.half_commits import check_whole
from colonnade.pager.interrupts import hold_signals, release_signals, shielded
from colonnade.pager.locks import WaitRequest
from colonnade.pager.options import BinaryFile, Care, Links, Mode, Target, is_stream
from colonnade.pager.readers import CommittedFile, read_between_commits
from colonnade.pager.safe_files import check_readable_file
from colonnade.pager.sources import StreamBytes
from colonnade.reader.files import ReadFile
from colonnade.reader.nodes import refusal

if TYPE_CHECKING:
    import h5py

    from colonnade.h5.files import FileHandle
    from colonnade.nodes import Group, H5Node, Node

    Handle = FileHandle
    Opener = Callable[[Target, Mode, bool, Care], FileHandle]


def open_file(target: Target, mode: Mode = "r", large_root: bool = False, care: Care | None = None) -> Handle:
    """Open a path, an h5py file or group, a binary file object, or an fsspec URL."""
    care, unknown = care or Care(), None
    if mode == "r" and not is_of_h5py(target):
        handle, unknown = _open_to_read(target, care)
        if handle is not None:
            return cast("FileHandle", handle)  # it has what readers use
    if care.library == "never" and (mode != "r" or is_of_h5py(target)):
        raise UsageError(f"library='never' is for files that are only read, not for mode {mode!r} or objects of h5py")
    if isinstance(target, str) and "://" in target:
        if mode != "r":
            raise UsageError(f"{target}: files behind a URL can only be read (mode 'r')")
        text = f"cannot read {target}: it uses {unknown}, which needs libhdf5, and that opens no URL. Copy it first."
        raise UnsupportedError(text, feature=unknown or "", path=target)
    opened = _library()(target, mode, large_root, care)
    if unknown is not None:
        opened.root.file.left_to_library["/"] = unknown
    return opened


def _library() -> Opener:
    """What opens files by libhdf5. No signal interrupts its import: h5py would lose it, or be of no use afterwards."""
    hold_signals()
    try:
        return _import_library()
    finally:
        release_signals()


@shielded
def _import_library() -> Opener:
    from colonnade.h5.files import open_file as open_by_library

    return open_by_library


def is_of_h5py(target: object) -> TypeGuard[H5Node]:
    """Whether this is an object of h5py, such as `File.h5` and what is in it."""
    return any(kind.__module__.split(".")[0] == "h5py" for kind in type(target).__mro__)


def _open_to_read(target: Target, care: Care) -> tuple[ByteHandle | None, str | None]:
    """The file open for reading; None if libhdf5 must read it, or refuse to, and what our own reader does not know."""
    stream: BinaryFile
    if isinstance(target, str) and "://" in target:
        stream, name = _open_url(target), target
    elif isinstance(target, (str, os.PathLike)):
        check_readable_file(Path(target))
        path = Path(target).resolve()
        return _readable(ByteHandle(_committed_at(path, care), care, path), care)
    elif is_stream(target):
        stream, name = target, str(getattr(target, "name", "the file object"))
    else:
        return None, None
    source = StreamBytes(stream, name)
    check_whole(source)
    return _readable(ByteHandle(CommittedFile(source, name, disk.DISK), care, stream=stream), care)


def _readable(handle: ByteHandle, care: Care) -> tuple[ByteHandle | None, str | None]:
    """The handle, if our own reader knows the form of its file; else what it does not know."""
    try:
        read_between_commits(handle, lambda: handle.root)
    except UnknownToReader as error:
        handle.close()
        if care.library == "never":
            raise refusal(handle.name, error) from error
        return None, error.feature or str(error)
    except BaseException:
        handle.close()
        raise
    return handle, None


def _open_url(url: str) -> IO[bytes]:
    try:
        import fsspec
    except ImportError:
        raise UsageError(f"{url}: reading URLs needs the package fsspec (pip install fsspec)") from None
    return cast("IO[bytes]", fsspec.open(url, "rb").open())


class _Context:
    """The file that objects read from their bytes are in."""

    def __init__(self, name: str, notes: Notes, links: Links, path: Path | None) -> None:
        self.name = name
        self.notes = notes
        self.links = links
        self.place = path
        self.left_to_library: dict[str, str] = {}


class _OpenBytes:
    """One file that is read from its bytes: the one that was opened, or one that links lead to."""

    def __init__(
        self, committed: CommittedFile, care: Care, path: Path | None, stream: BinaryFile | None, others: _OtherFiles
    ) -> None:
        self.committed = committed
        self.notes: Notes = {}
        self.library: FileHandle | None = None
        self.path = path
        self._care = care
        self._stream = stream
        self._others = others
        self._parsed: ReferenceType[ReadFile] | None = None
        self._parsed_of = -1  # the generation that it is of

    def parsed(self) -> ReadFile:
        """The file as of the last `refresh`. Its objects keep it, and it keeps this."""
        file = None if self._parsed is None else self._parsed()
        if file is None or self._parsed_of != self.committed.generation:
            source, context = self.committed.current, _Context(self.name, self.notes, self._care.links, self.path)
            fallback = None if self._care.library == "never" else self._open_by_library
            file = ReadFile(open_bytes(source), source, context, fallback, self._open_outside)
            self._parsed, self._parsed_of = ref(file), self.committed.generation
        return file

    @property
    def name(self) -> str:
        return self.committed.name

    def by_library(self) -> FileHandle:
        """The file as libhdf5 has it, opened when it is first asked for."""
        if self._care.library == "never":
            text = f"{self.name} was opened with library='never', so h5py does not open it"
            raise UnsupportedError(text, feature="h5py", path=self.name)
        if self.library is None:
            from colonnade.h5.files import open_file as open_by_library

            target = self._stream if self.path is None else self.path
            assert target is not None  # a file has a path, or was opened as a file object
            self.library = open_by_library(target, "r", care=self._care)
            self._others.libraries.append(self.library)
        self.library.refresh()
        return self.library

    def _open_by_library(self, path: str, address: int | None) -> Node | None:
        """The object at a path, or at an address, for which our own reader is not enough."""
        handle = self.by_library()
        if address is not None:
            return handle.open_at(address)
        return handle.root.open_dataset(path) or handle.root.open_group(path)

    def _open_outside(self, path: str, target: str) -> ReadFile | None:
        """The file that an external link leads to, for a path that leads through it; None if there is none."""
        from colonnade.nodes.outside import first_place, refused_link

        if self.path is None or self._care.links == "none":
            raise refused_link(path, target)
        other = first_place(target, self.path.parent)
        if other is None:
            return None
        if self._care.links == "folder" and not is_within(other, self.path.parent):
            raise refused_link(path, target)
        try:
            return self._others.open(other.resolve(), self._care) if other.is_file() else None
        except CorruptError:
            return None
        except FormatError:  # another kind of file
            if self._care.links == "folder":
                raise refused_link(path, target) from None
            return None


class _OtherFiles:
    """The files that links of an open file lead to, and links of those: open as long as objects of theirs are used.

    n_changes: how often one of them was seen to have changed.
    """

    def __init__(self) -> None:
        self.n_changes = 0
        self.libraries: list[FileHandle] = []
        self.own: _OpenBytes | None = None
        self._files: WeakValueDictionary[Path, _OpenBytes] = WeakValueDictionary()

    def open(self, path: Path, care: Care) -> ReadFile | None:
        """The file at a path, as of its last commit; None if it cannot be opened. Raises FormatError if it is not
        HDF5."""
        if self.own is not None and path == self.own.path:
            return self.own.parsed()
        opened = self._files.get(path)
        if opened is None:
            opened = _OpenBytes(_committed_at(path, care), care, path, None, self)
            try:
                parsed = read_between_commits(opened.committed, opened.parsed)
            except OSError as error:
                if isinstance(error, ConflictError):
                    raise
                return None
            self._files[path] = opened
            return parsed
        return opened.parsed()

    def refresh(self) -> None:
        """See the last commit to each; a file that is gone is forgotten."""
        for path, opened in list(self._files.items()):
            before = opened.committed.generation
            try:
                opened.committed.refresh()
            except OSError:
                self._files.pop(path, None)
                self.n_changes += 1
            self.n_changes += opened.committed.generation != before

    def are_current(self) -> bool:
        """Whether nothing was committed to any of them since the last `refresh`."""
        try:
            return all(opened.committed.is_current() for opened in list(self._files.values()))
        except OSError:
            return False

    def close(self) -> None:
        for opened in list(self._files.values()):
            opened.committed.close()
        for handle in self.libraries:
            handle.close()
        self.libraries.clear()


def _committed_at(path: Path, care: Care) -> CommittedFile:
    return CommittedFile(path, str(path), disk.DISK, care.timeout, care.locking, refuses_other_writers=True)


class ByteHandle:
    """A file open for reading, whose objects are read from its bytes; it sees the commits of others."""

    is_changing = is_new = is_journaled = is_orphan = writable = False

    def __init__(
        self, committed: CommittedFile, care: Care, path: Path | None = None, stream: BinaryFile | None = None
    ) -> None:
        self.name = committed.name
        self.held = False
        self.path = path
        self.when_closed: Callable[[os.stat_result], None] | None = None
        self._committed = committed
        self._stream = stream
        self._others = _OtherFiles()
        self._own = self._others.own = _OpenBytes(committed, care, path, stream, self._others)
        self.notes = self._own.notes
        self._parsed: ReadFile | None = None
        self._closed = False

    @property
    def generation(self) -> int:
        return self._committed.generation + self._others.n_changes

    @property
    def root(self) -> Group:
        """The root group."""
        self._parsed = self._own.parsed()
        return cast("Group", self._parsed.root)

    @property
    def library_root(self) -> Group:
        """The root group, as libhdf5 has it."""
        return self._own.by_library().root

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
            self._others.refresh()

    def is_current(self) -> bool:
        """Whether nothing was committed since the last `refresh`."""
        return self._committed.is_current() and self._others.are_current()

    def wait_request(self) -> WaitRequest:
        """The request to writers to wait, for a reader that they disturb."""
        return self._committed.wait_request()

    @property
    def h5(self) -> h5py.File:
        """The h5py file, opened when it is first asked for."""
        h5: h5py.File = self._own.by_library().h5
        return h5

    @property
    def shown(self) -> h5py.File:
        """The h5py file for the program, whose objects raise when others have changed the file."""
        shown: h5py.File = self._own.by_library().shown
        return shown

    def take_failure(self, error: Exception | None = None) -> BaseException | None:
        """What libhdf5 lost: nothing, where it does not call back."""
        return None

    def check_process(self) -> None:
        """A forked process may go on reading."""

    def make_usable(self) -> None:
        """Nothing is to be undone: nothing was changed."""

    def close(self, keep: bool = True) -> None:
        """Close the file, and those that its links led to."""
        self._closed = True
        self._parsed = None
        self._committed.close()
        is_owned_by_library = self._own.library is not None
        self._own.library = None
        self._others.close()
        if self._stream is not None and "://" in self.name and not is_owned_by_library:
            self._stream.close()
