"""A disk that remembers what was synced, stops at any call, and lays out what a crash may leave of a folder.

`FaultyDisk` passes every call on to the real disk and keeps a log of those that change something. What a crash
leaves is worked out from the log: data written since the last sync of that file is not durable, nor are names
made, changed or removed since the last sync of the folder. A dead process writes nothing, so what happens after
a `Crash` (handles being closed, locks released) goes to the real files and not into the log; laying out
overwrites it. Each file keeps its inode: a journal tells by it whether a file was copied.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

from colonnade.pager.disk import Disk

PAGE = 4096
Kind = Literal["create", "write", "truncate", "sync", "sync_folder", "unlink", "rename"]


class Crash(BaseException):
    """The process is dead from here on."""


@dataclass(frozen=True)
class Call:
    """One call that changes something: `node` is the number of the file, `name` its name in the folder."""

    kind: Kind
    node: int = -1
    name: str = ""
    new_name: str = ""
    offset: int = 0
    data: bytes = b""

    @property
    def is_name(self) -> bool:
        """Whether the call changes names of the folder."""
        return self.kind in ("create", "unlink", "rename")

    @property
    def is_data(self) -> bool:
        """Whether the call changes the bytes of a file."""
        return self.kind in ("write", "truncate")


@dataclass
class Node:
    """One file: what is on the disk for sure, and what was done to it since."""

    durable: bytes = b""
    pending: list[Call] = field(default_factory=list)


@dataclass
class Folder:
    """A folder at one moment: names and files, durable and pending."""

    names: dict[str, int]
    nodes: dict[int, Node]
    pending: list[Call] = field(default_factory=list)

    def do(self, call: Call) -> None:
        """Take one more call into account."""
        if call.kind == "create":
            self.nodes[call.node] = Node()
        if call.is_name:
            self.pending.append(call)
        elif call.is_data:
            self.nodes[call.node].pending.append(call)
        elif call.kind == "sync":
            node = self.nodes[call.node]
            node.durable, node.pending = bytes(apply_all(node.durable, node.pending)), []
        else:
            self.names, self.pending = named(self.names, self.pending), []


@dataclass(frozen=True)
class Remains:
    """What a crash leaves: the names of the folder, and the bytes behind each."""

    names: dict[str, int]
    contents: dict[int, bytes]

    def key(self) -> int:
        """Equal for equal remains."""
        return hash(tuple(sorted((name, self.contents[node]) for name, node in self.names.items())))


def named(names: dict[str, int], calls: list[Call]) -> dict[str, int]:
    """The names of a folder after some calls."""
    names = dict(names)
    for call in calls:
        names.pop(call.name, None)
        if call.kind != "unlink":
            names[call.new_name or call.name] = call.node
    return names


def apply(content: bytearray, call: Call) -> None:
    """Do one write or truncate to a file's bytes."""
    end = call.offset + len(call.data)
    if call.kind == "truncate":
        del content[call.offset :]
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if call.kind == "write":
        content[call.offset : end] = call.data


def apply_all(content: bytes, calls: list[Call]) -> bytearray:
    """A file's bytes after all these calls."""
    changed = bytearray(content)
    for call in calls:
        apply(changed, call)
    return changed


def pieces(call: Call) -> Iterator[Call]:
    """A write as a disk may do it: page by page; other calls as they are."""
    if call.kind != "write":
        yield call
        return
    at = 0
    while at < len(call.data):
        count = min(PAGE - (call.offset + at) % PAGE, len(call.data) - at)
        yield Call("write", call.node, offset=call.offset + at, data=call.data[at : at + count])
        at += count


def torn(call: Call) -> Call:
    """The first half of a write."""
    return Call(call.kind, call.node, offset=call.offset, data=call.data[: len(call.data) // 2])


def lengths(node: Node) -> list[int]:
    """Every length the file had since its last sync."""
    found, content = [len(node.durable)], bytearray(node.durable)
    for call in node.pending:
        apply(content, call)
        found.append(len(content))
    return found


def with_length(content: bytearray, length: int) -> bytes:
    """The bytes cut, or zeros added."""
    return bytes(content[:length].ljust(length, b"\0"))


def some_survive(node: Node, random: Random) -> bytes:
    """Any of the pages written since the last sync, whatever their order; any length the file had meanwhile."""
    if not node.pending:
        return node.durable
    share = random.choice((0.15, 0.5, 0.85))
    parts = [piece for call in node.pending for piece in pieces(call)]
    kept = [torn(part) if random.random() < 0.05 else part for part in parts if random.random() < share]
    return with_length(apply_all(node.durable, kept), random.choice(lengths(node)))


def only_last_survives(node: Node) -> bytes:
    """The last write is on the disk, none of those before it."""
    return bytes(apply_all(node.durable, node.pending[-1:]))


def zeros_survive(node: Node) -> bytes:
    """The file has its new length, and none of the bytes written."""
    return with_length(bytearray(node.durable), lengths(node)[-1])


class FaultyDisk(Disk):
    """The real disk with a log, stopping before call number `stop_at` by raising `fault`."""

    def __init__(
        self, folder: Path, vault: Path, stop_at: int | None = None, fault: Callable[[], BaseException] = Crash
    ) -> None:
        self.calls: list[Call] = []
        self.stopped = False
        self.returned = 0  # calls done when the change said that it was done
        self._folder = folder
        self._vault = Path(tempfile.mkdtemp(dir=vault))  # files without a name: one that comes back has its inode
        self._stop_at = stop_at
        self._fault = fault
        self._numbers: dict[tuple[int, int], int] = {}
        self._descriptors: dict[int, int] = {}
        self._names: dict[str, int] = {}
        self._contents: dict[int, bytes] = {}
        for path in sorted(folder.iterdir()):
            if not path.name.endswith("-lock"):
                self._names[path.name] = self._know(path)
                self._contents[self._names[path.name]] = path.read_bytes()

    def _know(self, path: Path) -> int:
        """The number of a file, new or known; its inode is kept from being given to another."""
        key = _inode(path)
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._pin(path)
        return self._numbers[key]

    def _pin(self, path: Path) -> None:
        weakref.finalize(self, os.close, os.open(path, os.O_RDONLY))

    def _log(self, call: Call) -> None:
        """Count a call, or stop before it."""
        if self.stopped:
            return
        if len(self.calls) == self._stop_at:
            self.stopped = True
            raise self._fault()
        self.calls.append(call)

    def note_return(self) -> None:
        """The change has returned: from here on it must be there."""
        self.returned = len(self.calls)

    # -- the calls of a disk --

    def open(self, path: Path, create: bool = False, write: bool = True) -> int:
        if create:
            assert not path.exists(), f"{path.name} was to be new"
            self._log(Call("create", len(self._numbers), path.name))
        descriptor = super().open(path, create, write)
        self._descriptors[descriptor] = self._know(path)
        return descriptor

    def close(self, descriptor: int) -> None:
        super().close(descriptor)
        del self._descriptors[descriptor]

    def write(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> None:
        self._log(Call("write", self._descriptors[descriptor], offset=offset, data=bytes(data)))
        super().write(descriptor, data, offset)

    def write_parts(self, descriptor: int, parts: Sequence[Any], offset: int) -> None:
        self.write(descriptor, b"".join(parts), offset)

    def truncate(self, descriptor: int, length: int) -> None:
        self._log(Call("truncate", self._descriptors[descriptor], offset=length))
        super().truncate(descriptor, length)

    def sync(self, descriptor: int) -> None:
        self._log(Call("sync", self._descriptors[descriptor]))

    def sync_folder(self, path: Path) -> None:
        assert path.resolve() == self._folder.resolve()
        self._log(Call("sync_folder"))

    def unlink(self, path: Path) -> None:
        assert path.exists()
        self._log(Call("unlink", self._know(path), path.name))
        self._keep(path)

    def rename(self, path: Path, new_path: Path) -> None:
        self._log(Call("rename", self._know(path), path.name, new_path.name))
        if new_path.exists():
            self._keep(new_path)
        super().rename(path, new_path)

    def _keep(self, path: Path) -> Path:
        """Take a file out of the folder: a crash may bring it back."""
        return path.rename(self._vault / str(self._know(path)))

    # -- what a crash leaves --

    def folder_at(self, k: int) -> Folder:
        """The folder when calls 0 to k - 1 were done."""
        folder = Folder(dict(self._names), {node: Node(content) for node, content in self._contents.items()})
        for call in self.calls[:k]:
            folder.do(call)
        return folder

    def after_kill(self, k: int, tear: bool = False) -> Remains:
        """Process killed before call k, or in the middle of it: everything written before is there."""
        folder = self.folder_at(k)
        if tear:
            folder.do(torn(self.calls[k]))
        contents = {number: bytes(apply_all(node.durable, node.pending)) for number, node in folder.nodes.items()}
        return Remains(named(folder.names, folder.pending), contents)

    def after_power_cut(self, k: int, random: Random, n_random: int = 3) -> Iterator[tuple[str, Remains]]:
        """What a power cut before call k may leave, each with a word for it."""
        folder = self.folder_at(k)
        kept, lost = named(folder.names, folder.pending), folder.names
        for word, survive in _SURVIVALS.items():
            contents = {
                number: survive(node) if node.pending else node.durable for number, node in folder.nodes.items()
            }
            yield f"{word}, names lost", Remains(lost, contents)
            yield f"{word}, names kept", Remains(kept, contents)
        if k < len(self.calls) and self.calls[k].kind == "write":
            folder.do(torn(self.calls[k]))
        for number in range(n_random):
            contents = {number: some_survive(node, random) for number, node in folder.nodes.items()}
            names = named(folder.names, [call for call in folder.pending if random.random() < 0.5])
            yield f"some survive ({number})", Remains(names, contents)

    def lay_out(self, remains: Remains) -> None:
        """Make the real folder what the crash left, every file with its own inode."""
        for path in list(self._folder.iterdir()):
            if _inode(path) in self._numbers:
                self._keep(path)
            else:
                path.unlink()
        for name, node in remains.names.items():
            kept = self._vault / str(node)
            is_new = not kept.exists()
            kept.write_bytes(remains.contents[node])
            kept.rename(self._folder / name)
            if is_new:
                self._numbers[_inode(self._folder / name)] = node
                self._pin(self._folder / name)


def _inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


_SURVIVALS: dict[str, Callable[[Node], bytes]] = {
    "all lost": lambda node: node.durable,
    "all kept": lambda node: bytes(apply_all(node.durable, node.pending)),
    "last kept": only_last_survives,
    "zeros": zeros_survive,
}
