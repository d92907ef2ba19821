"""A file that is read from its bytes: objects found by their paths, through links."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Never, cast

from colonnade.errors import CorruptError
from colonnade.format.links import Link
from colonnade.format.nodes import ByteDataset, ByteFile, ByteGroup, ByteNode
from colonnade.format.source import UnknownToReader
from colonnade.nodes.paths import join_path
from colonnade.pager.sources import ByteSource

if TYPE_CHECKING:
    from colonnade.nodes import Node
    from colonnade.nodes.protocols import FileContext
from colonnade.reader.datasets import ReadDataset
from colonnade.reader.nodes import ReadGroup, ReadNode

_MOST_SOFT_LINKS = 32


class ReadFile:
    """A file whose objects are read from its bytes.

    library: opens the object at a path, or at an address, through libhdf5; None if libhdf5 is not to be used.
    left_to_library: the paths of objects that it was used for, and why.
    """

    def __init__(
        self,
        file: ByteFile,
        bytes_: ByteSource,
        context: FileContext,
        library: Callable[[str, int | None], Node | None] | None,
    ) -> None:
        self.file = file
        self.bytes = bytes_
        self.context = context
        self.library = library
        self.left_to_library: dict[str, str] = {}

    @property
    def root(self) -> ReadGroup:
        return ReadGroup(self, self.file.root, "/")

    def leave(self, path: str, error: UnknownToReader, address: int | None = None) -> Node | None:
        """The object at a path, opened by libhdf5. address: where its header is, if its path is not known."""
        if self.library is None:
            raise error
        self.left_to_library[path] = error.feature or str(error)
        return self.library(path, address if path == "?" else None)

    def open(self, start: ByteGroup, base: str, path: str) -> Node | None:
        """The object at a path below a group; None if there is none, or it is broken."""
        try:
            node, where = self._find(start, base, path)
            return None if node is None else self.node(node, where)
        except UnknownToReader as error:
            return self.leave(_absolute(base, path), error)
        except CorruptError:
            return None

    def _find(self, start: ByteGroup, base: str, path: str) -> tuple[ByteNode | None, str]:
        """The object at a path, through soft links too, and its path."""
        node: ByteNode = self.file.root if path.startswith("/") else start
        where = "/" if path.startswith("/") else base
        names, n_soft = _parts(path), 0
        while names:
            name = names.pop(0)
            link = node.link(name) if isinstance(node, ByteGroup) else None
            if link is None:
                return None, where
            if link.kind == "hard":
                node, where = self._follow(link), join_path(where, name)
            elif link.kind == "soft" and link.target is not None:
                n_soft += 1
                if n_soft > _MOST_SOFT_LINKS:
                    return None, where
                names = _parts(link.target) + names
                if link.target.startswith("/"):
                    node, where = self.file.root, "/"
            else:
                self._refuse_link(path, link)
        return node, where

    def _follow(self, link: Link) -> ByteNode:
        if link.address is None:
            raise CorruptError(f"the link {link.name!r} leads to an undefined address", path=self.context.name)
        return self.file.at(link.address)

    def _refuse_link(self, path: str, link: Link) -> Never:
        """A link out of the file: libhdf5 follows it, as far as the options of the file allow."""
        raise UnknownToReader(
            f"{path} is reached through {link.name!r}, a link out of the file", feature="external link"
        )

    def node(self, node: ByteNode, path: str) -> Node | None:
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
                return self.leave(path, error, node.address)
        return cast("Node", ReadDataset(self, node, path))


def _parts(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _absolute(base: str, path: str) -> str:
    return path if path.startswith("/") else join_path(base, path)
