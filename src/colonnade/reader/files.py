"""A file that is read from its bytes: objects found by their paths, through links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from colonnade.errors import CorruptError
from colonnade.format.links import Link
from colonnade.format.nodes import ByteDataset, ByteFile, ByteGroup, ByteNode
from colonnade.format.source import UnknownToReader
from colonnade.nodes.paths import join_path
from colonnade.pager.sources import ByteSource
from colonnade.reader.datasets import ReadDataset
from colonnade.reader.nodes import ReadGroup, ReadNode, refusal

if TYPE_CHECKING:
    from colonnade.nodes import Node
    from colonnade.nodes.protocols import FileContext

_MOST_LOOKED_AT = 5000  # links, to find the path of an object
_MOST_LINKS = 16  # soft and external ones that a path may lead through, as in libhdf5


class ReadFile:
    """A file whose objects are read from its bytes.

    library: opens the object at a path, or at an address, through libhdf5; None if libhdf5 is not to be used.
    outside: opens the file that an external link leads to, for a path that leads through it; None if there is none.
    """

    def __init__(
        self,
        file: ByteFile,
        bytes_: ByteSource,
        context: FileContext,
        library: Callable[[str, int | None], Node | None] | None,
        outside: Callable[[str, str], ReadFile | None],
    ) -> None:
        self.file = file
        self.bytes = bytes_
        self.context = context
        self.library = library
        self.outside = outside
        self._paths: dict[int, str] = {}  # of objects, by their addresses
        self._walk = _paths_below(file)

    @property
    def root(self) -> ReadGroup:
        return ReadGroup(self, self.file.root, "/")

    def leave(self, path: str, error: UnknownToReader, address: int | None = None) -> Node | None:
        """The object at a path, opened by libhdf5. address: where its header is, if its path is not known."""
        if self.library is None:
            raise refusal(path, error) from error
        self.context.left_to_library[path] = error.feature or str(error)
        return self.library(path, address if path == "?" else None)

    def open(self, start: ByteGroup, base: str, path: str) -> Node | None:
        """The object at a path below a group; None if there is none, or it is broken.

        Soft and external links are followed, as many together as libhdf5 follows.
        """
        way = _Way(self, start, base, path)
        try:
            return way.follow()
        except UnknownToReader as error:
            return self.leave(_absolute(base, path), error)
        except CorruptError:
            return None

    def path_of(self, address: int, thorough: bool = False) -> str:
        """The path of the object whose header is at an address; "?" if it is not found soon, or not at all."""
        while address not in self._paths and (thorough or len(self._paths) < _MOST_LOOKED_AT):
            passed, path = next(self._walk, (None, ""))
            if passed is None:
                break
            self._paths.setdefault(passed, path)
        return self._paths.get(address, "?")

    def dataset(self, node: ByteDataset, path: str | None) -> ReadDataset:
        """A parsed dataset as a node."""
        return ReadDataset(self, node, path)

    def node(self, node: ByteNode, path: str | None) -> Node | None:
        """A parsed object as a node; None for what libhdf5 cannot open either (sectioned chunks, a broken header)."""
        if isinstance(node, ByteGroup):
            return cast("Node", ReadGroup(self, node, path))
        if not isinstance(node, ByteDataset):
            return cast("Node", ReadNode(self, node, path))
        try:
            node.check_known()
        except UnknownToReader as error:
            if error.feature == "sectioned chunks":
                return None
            if self.library is not None:
                return self.leave(self.path_of(node.address) if path is None else path, error, node.address)
        return cast("Node", ReadDataset(self, node, path))


def _paths_below(file: ByteFile) -> Iterator[tuple[int, str]]:
    """Addresses and paths of all objects, found by following hard links as they are requested."""
    pending: list[tuple[int, str]] = [(file.root.address, "/")]
    seen: set[int] = set()
    while pending:
        address, path = pending.pop()
        yield address, path
        if address in seen:
            continue
        seen.add(address)
        with suppress(CorruptError, UnknownToReader):
            node = file.at(address)
            links = node.links() if isinstance(node, ByteGroup) else []
            below = [(link.address, join_path(path, link.name)) for link in links if link.address is not None]
            pending.extend(reversed(below))


def _parts(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _absolute(base: str, path: str) -> str:
    return path if path.startswith("/") else join_path(base, path)


class _Way:
    """The way to an object by its path: the file and the group it has led to, and the names that are left.

    As in libhdf5, an object that a soft link leads to has the path of the link; one in another file, its path there.
    """

    def __init__(self, opened: ReadFile, start: ByteGroup, base: str, path: str) -> None:
        self._path = path
        self._file = opened
        self._node: ByteNode = opened.file.root if path.startswith("/") else start
        self._where = "/" if path.startswith("/") else base
        self._names = [(name, True) for name in _parts(path)]  # and whether they are part of the object's path
        self._n_links = 0

    def follow(self) -> Node | None:
        """The object at its end; None if it leads nowhere."""
        while self._names:
            name, is_shown = self._names.pop(0)
            link = self._node.link(name) if isinstance(self._node, ByteGroup) else None
            if link is None or not self._step(link, is_shown):
                return None
        return self._file.node(self._node, self._where)

    def _step(self, link: Link, is_shown: bool) -> bool:
        """Follow one link; False if it leads nowhere."""
        self._n_links += link.kind != "hard"
        if self._n_links > _MOST_LINKS or (link.address if link.kind == "hard" else link.target) is None:
            return False
        if link.kind == "external":
            return self._leave_file(link)
        if is_shown:
            self._where = join_path(self._where, link.name)
        if link.kind == "hard":
            self._node = self._file.file.at(link.address or 0)
        else:
            target = link.target or ""
            self._node = self._file.file.root if target.startswith("/") else self._node
            self._names = [*((name, False) for name in _parts(target)), *self._names]
        return True

    def _leave_file(self, link: Link) -> bool:
        """Go on in the root group of the file that an external link leads to; False if there is none."""
        opened = self._file.outside(self._path, link.file or "")
        if opened is None:
            return False
        self._file, self._node, self._where = opened, opened.file.root, "/"
        self._names = [(name, True) for name in (*_parts(link.target or ""), *(name for name, _ in self._names))]
        return True
