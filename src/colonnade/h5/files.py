"""HDF5 files: opened with clear errors, created whole or not at all.

A new file is written aside (`.<name>.<random>.part` in the same folder) and renamed when it is
closed without an error, so that a crash or an exception never leaves half a file, nor costs the
one that stood there. Files are made in the oldest HDF5 form that holds the data.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import IO, Any, Literal

import h5py
from h5py import h5f, h5p

from colonnade.errors import ConflictError, CorruptError, FormatError, UsageError

Mode = Literal["r", "r+", "w", "a"]
Target = str | os.PathLike[str] | IO[bytes] | Any
_BOUNDS = ("earliest", "latest")


class FileHandle:
    """An open HDF5 file and what must happen when it is closed."""

    def __init__(self, h5: h5py.File, name: str, owned: bool, aside: Path | None = None, stream: Any = None) -> None:
        self.h5 = h5
        self.name = name
        self._owned = owned
        self._aside = aside
        self._stream = stream

    @property
    def root(self) -> Any:
        """The group that was opened: the file's root, or the group given."""
        if not isinstance(self.h5, h5py.File):
            return self.h5.id
        try:
            return self.h5["/"].id
        except (KeyError, RuntimeError, OSError) as error:
            raise CorruptError(f"{self.name}: the root group cannot be opened: {error}", path=self.name) from error

    @property
    def writable(self) -> bool:
        return bool(self.h5) and self.h5.file.mode == "r+"

    @property
    def is_open(self) -> bool:
        return bool(self.h5)

    def flush(self) -> None:
        self.h5.file.flush()

    def close(self, keep: bool = True) -> None:
        """Close the file. A file being created is put in its place, or thrown away with keep=False."""
        if self._owned and self.h5:
            self.h5.close()
        if self._aside is not None:
            aside, self._aside = self._aside, None
            if keep:
                aside.replace(self.name)
            else:
                aside.unlink(missing_ok=True)
        if self._stream is not None:
            self._stream.close()


def open_file(target: Target, mode: Mode = "r", large_root: bool = False) -> FileHandle:
    """Open a path, an h5py file or group, a binary file object, or an fsspec URL.

    `large_root` lets the attributes of a new file's root group grow beyond 64 KiB.
    """
    if mode not in ("r", "r+", "w", "a"):
        raise UsageError(f"mode {mode!r} is not one of 'r', 'r+', 'w', 'a'")
    if isinstance(target, h5py.Group):
        if not target:
            raise UsageError("this h5py file is closed")
        if mode in ("r+", "w") and target.file.mode == "r":
            raise ConflictError(f"{target.file.filename} was opened read-only by h5py; open it with mode 'r+'")
        return FileHandle(target, str(target.file.filename), owned=False)
    if isinstance(target, str) and "://" in target:
        return _open_url(target, mode)
    if isinstance(target, (str, os.PathLike)):
        return _open_path(Path(target), mode, large_root)
    if hasattr(target, "read") and hasattr(target, "seek"):
        return _open_stream(target, mode)
    raise UsageError(
        f"cannot open {type(target).__name__}: give a path, an h5py.File or Group, a binary file object, or a URL"
    )


def _open_url(url: str, mode: Mode) -> FileHandle:
    try:
        import fsspec
    except ImportError:
        raise UsageError(f"{url}: reading URLs needs the package fsspec (pip install fsspec)") from None
    if mode != "r":
        raise UsageError(f"{url}: files behind a URL can only be read (mode 'r')")
    stream = fsspec.open(url, "rb").open()
    handle = _open_stream(stream, "r", url)
    handle._stream = stream
    return handle


def _open_stream(stream: Any, mode: Mode, name: str | None = None) -> FileHandle:
    shown = name or str(getattr(stream, "name", "the file object"))
    try:
        return FileHandle(h5py.File(stream, mode, libver=_BOUNDS), shown, owned=True)
    except OSError as error:
        raise _explain(error, shown, stream_size(stream)) from error


def stream_size(stream: Any) -> int:
    """The number of bytes in a seekable file object."""
    position = stream.tell()
    size: int = stream.seek(0, os.SEEK_END)
    stream.seek(position)
    return size


def _open_path(path: Path, mode: Mode, large_root: bool) -> FileHandle:
    empty = path.is_file() and path.stat().st_size == 0
    if mode == "w" or (mode == "a" and (empty or not path.exists())):
        return _create_aside(path, large_root)
    if path.is_dir():
        raise FormatError(f"{path} is a folder, not an HDF5 file", path=str(path))
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    if empty:
        raise FormatError(f"{path} is not an HDF5 file: it is empty", path=str(path))
    if mode != "r" and not os.access(path, os.W_OK):
        raise ConflictError(f"{path} is read-only: it cannot be opened with mode {mode!r}", path=str(path))
    try:
        h5 = h5py.File(path, "r" if mode == "r" else "r+", libver=_BOUNDS)
    except OSError as error:
        raise _explain(error, str(path), path.stat().st_size) from error
    return FileHandle(h5, str(path), owned=True)


def _create_aside(path: Path, large_root: bool) -> FileHandle:
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file in it")
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {str(folder)!r} to write {path.name} in")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise ConflictError(f"{path} is read-only: it cannot be written", path=str(path))
    aside = folder / f".{path.name}.{secrets.token_hex(6)}.part"
    creation = h5p.create(h5p.FILE_CREATE)
    if large_root:
        creation.set_attr_creation_order(h5p.CRT_ORDER_TRACKED)
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_libver_bounds(h5f.LIBVER_EARLIEST, h5f.LIBVER_LATEST)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    handle = h5f.create(os.fsencode(aside), h5f.ACC_EXCL, fcpl=creation, fapl=access)
    return FileHandle(h5py.File(handle), str(path), owned=True, aside=aside)


def _explain(error: OSError, name: str, size: int) -> Exception:
    """The error of ours that says what HDF5's error means."""
    text = str(error)
    if "signature not found" in text:
        advice = "it is empty" if size == 0 else "its first bytes are not HDF5's"
        return FormatError(f"{name} is not an HDF5 file: {advice}", path=name)
    if "truncated" in text:
        return CorruptError(f"{name} is cut short: it has {size:,} bytes, its header says more ({text})", path=name)
    if isinstance(error, PermissionError):
        return ConflictError(f"{name} may not be opened: {text}", path=name)
    if "already open" in text:
        return ConflictError(f"{name} is open elsewhere in this process, in another mode: close it first", path=name)
    if "lock" in text:
        return ConflictError(f"{name} is in use by another process: {text}", path=name)
    return CorruptError(f"{name} cannot be opened as HDF5: {text}", path=name)
