"""Where the bytes of a row file go: a file that appears when it is complete, a device, or a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from colonnade.errors import UsageError
from colonnade.pager.safe_files import check_regular, open_device, written_whole
from colonnade.row_files.base import COMPRESSED_SUFFIXES


class ByteStream(Protocol):
    """Where bytes are written."""

    def write(self, data: bytes, /) -> object: ...
    def flush(self) -> None: ...


class RegularFile(pa.PythonFile):
    """Marks a sink that can take a file format, not only a stream."""


def check_target(path: Path, overwrite: bool, option: str = "overwrite=True, or --force,") -> None:
    """Refuse a target that exists, unless it may be replaced. /dev/null and terminals may always be written to.

    option: what the caller can give to replace it, for the error.
    """
    if path.exists() and not path.is_char_device():
        check_regular(path, "write")
        if not overwrite:
            raise UsageError(f"{path} already exists ({option} replaces it)")
    elif not path.exists() and not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(path.parent)!r}")


@contextmanager
def sink_of(path: Path) -> Iterator[pa.NativeFile]:
    """A file that appears under its name when it is complete; a device is written directly."""
    path = path.resolve()
    if path.is_char_device():
        with open_device(path) as stream, pipe_sink(stream) as sink:
            yield sink
        return
    compression = COMPRESSED_SUFFIXES.get(path.suffix.lower())
    with written_whole(path, sweeps=True) as stream:
        if compression is None:
            with RegularFile(stream, mode="w") as sink:
                yield sink
        else:
            with pa.CompressedOutputStream(pa.PythonFile(stream, mode="w"), compression) as sink:
                yield sink


@contextmanager
def pipe_sink(stream: ByteStream) -> Iterator[pa.NativeFile]:
    sink = pa.PythonFile(_Pipe(stream), mode="w")
    try:
        yield sink
    finally:
        sink.close()


class _Pipe:
    """Takes bytes, and reports how many there were, which Arrow's writers ask of a file."""

    closed = False

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._place = 0

    def write(self, data: bytes) -> int:
        self._stream.write(data)
        self._place += len(data)
        return len(data)

    def tell(self) -> int:
        return self._place

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._stream.flush()
