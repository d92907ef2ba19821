"""The file operations that the journal needs, in one class that tests can replace to inject failures.

A `Disk` holds no state. Tests replace it with one that loses, tears and reorders writes that were not
synced, and that stops at any call.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from colonnade import limits
from colonnade.pager.safe_files import open_existing, open_folder, open_new


class Disk:
    """Files by descriptor, folders by path. Every call may fail, or be the last before a crash."""

    def open(self, path: Path, create: bool = False, write: bool = True) -> int:
        """A descriptor of a file; with `create` the file must be new."""
        return open_new(path) if create else open_existing(path, write)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def length(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size

    def identity(self, descriptor: int) -> tuple[int, int]:
        """Device and inode number of an open file."""
        status = os.fstat(descriptor)
        return status.st_dev, status.st_ino

    def is_at(self, descriptor: int, path: Path) -> bool:
        """Whether an open file is the one at a path."""
        try:
            there = path.lstat()
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(descriptor), there)

    def read(self, descriptor: int, n_bytes: int, offset: int) -> bytes:
        """Up to `n_bytes` from `offset`; fewer only at the end of the file."""
        parts = []
        while n_bytes > 0:
            part = os.pread(descriptor, n_bytes, offset)
            if not part:
                break
            parts.append(part)
            n_bytes -= len(part)
            offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_into(self, descriptor: int, target: memoryview, offset: int) -> int:
        """Read bytes from `offset` on into memory of the caller, and return how many there were."""
        done = 0
        while done < len(target):
            n_bytes = os.preadv(descriptor, [target[done:]], offset + done)
            if not n_bytes:
                break
            done += n_bytes
        return done

    def write(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> None:
        rest = memoryview(data)
        while len(rest) > 0:
            done = os.pwrite(descriptor, rest, offset)
            rest, offset = rest[done:], offset + done

    def write_parts(self, descriptor: int, parts: Sequence[bytes | bytearray | memoryview], offset: int) -> None:
        """Write several buffers one after another in one call: fewer, longer writes are faster."""
        can_write_parts = hasattr(os, "pwritev") and len(parts) <= limits.now.parts_per_write
        done = os.pwritev(descriptor, parts, offset) if can_write_parts else 0
        if done < sum(map(len, parts)):
            self.write(descriptor, memoryview(b"".join(parts))[done:], offset + done)

    def truncate(self, descriptor: int, length: int) -> None:
        os.ftruncate(descriptor, length)

    def sync(self, descriptor: int) -> None:
        """Wait until everything written is on the disk."""
        os.fsync(descriptor)

    def sync_folder(self, path: Path) -> None:
        """Wait until created, renamed and removed names of a folder are on the disk."""
        if os.name == "nt":  # pragma: no cover
            return
        descriptor = open_folder(path)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def exists(self, path: Path) -> bool:
        """Whether anything has this name, including a dangling link."""
        return os.path.lexists(path)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def rename(self, path: Path, new_path: Path) -> None:
        path.replace(new_path)


DISK = Disk()
"""The disk of this process, which tests replace: `disk.DISK`."""
