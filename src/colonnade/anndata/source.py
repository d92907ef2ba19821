"""Where elements are read from: an open File, or an object of h5py.

A File that is open for reading sees the commits of other programs. An element that is read lazily therefore keeps its
path, and is opened again after a commit; what is read together is of one commit (`consistent`). Objects of h5py stay
what they are: the caller chose them, and those of `File.h5` raise a ConflictError after a commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from colonnade.dataclass import dataclass, replace
from colonnade.errors import FormatError, UsageError, nearest_names
from colonnade.nodes import H5Node
from colonnade.nodes.members import GroupMember, find_member, is_array, is_group, member_names, open_member
from colonnade.nodes.paths import encode_name, join_path
from colonnade.table import File, Table
from colonnade.table import open as open_file

if TYPE_CHECKING:
    from typing import Protocol

    from colonnade.nodes import Dataset, Group

    class ElementSource(Protocol):
        """A File, or an object of h5py, in which elements are found by their paths.

        is_kept: whether a lazy object reads from it, so that it must stay open.
        """

        is_kept: bool

        @property
        def name(self) -> str: ...
        @property
        def is_open(self) -> bool: ...
        def state(self, path: str, node: GroupMember | None) -> object:
            """What is equal as long as a node that was opened at this path is still the element there."""

        def consistent(self, read: Callable[[], T]) -> T:
            """The result of `read`, from one commit."""

        def node(self, path: str) -> GroupMember:
            """The object at a path, as of now."""

        def table(self, path: str) -> Table:
            """The table at a path."""

else:
    ElementSource = object

T = TypeVar("T")


class FileSource:
    """Elements of an open File."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.is_kept = False

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def is_open(self) -> bool:
        return self.file._handle.is_open

    def state(self, path: str, node: GroupMember | None) -> object:
        handle = self.file._handle
        if not handle.writable:
            return handle.generation
        return handle.generation, (self.node(path) if node is None else node).address

    def consistent(self, read: Callable[[], T]) -> T:
        return self.file._consistent(read)

    def node(self, path: str) -> GroupMember:
        root = self.file._handle.root
        node = root.open_group(path) or root.open_dataset(path)
        if node is None:
            raise self._not_found(path)
        return node

    def _not_found(self, path: str) -> Exception:
        above, _, name = path.rpartition("/")
        group = self.file._handle.root.open_group(above or "/")
        if group is not None and group.has_link(name):
            return FormatError(f"{path} of {self.name} cannot be opened", path=path)
        nearest = [] if group is None else nearest_names(name, member_names(group))
        advice = f" Did you mean {', '.join(nearest)}?" if nearest else ""
        return UsageError(f"there is no element {path} in {self.name}.{advice}", path=path)

    def table(self, path: str) -> Table:
        return self.file[path]


class H5Source:
    """The elements in an object of h5py. Paths begin at that object."""

    def __init__(self, target: H5Node) -> None:
        from colonnade.h5.arrays import path_of
        from colonnade.h5.nodes import kind_of

        kind_of(target)  # refuses what is neither a group nor a dataset
        self.target = target
        self.name = path_of(target)
        self.is_kept = False

    @property
    def is_open(self) -> bool:
        return bool(self.target.id.valid)

    def state(self, path: str, node: GroupMember | None) -> object:
        return None

    def consistent(self, read: Callable[[], T]) -> T:
        self._check()
        result = read()
        self._check()
        return result

    def _check(self) -> None:
        """Refuse a closed file; objects of `File.h5` refuse if another program has changed it since."""
        if not self.is_open:
            raise UsageError(f"{self.name} belongs to a file that is closed")

    def node(self, path: str) -> GroupMember:
        from colonnade.h5.handles import node_of

        node: GroupMember = cast("Group | Dataset", node_of(self.target.id))
        for name in path.split("/") if path else ():
            if not is_group(node):
                raise FormatError(f"{node.path} is a dataset and has no member {name!r}", path=node.path)
            node = open_member(node, name)
        return node

    def table(self, path: str) -> Table:
        from colonnade.h5.arrays import path_of
        from colonnade.h5.nodes import group_below

        group = group_below(self.target, encode_name(path))
        return open_file(group)[path_of(group)]


@dataclass(frozen=True)
class Element:
    """A group or dataset that holds an element, and where it is opened again."""

    source: ElementSource
    path: str
    node: GroupMember
    state: object

    @classmethod
    def at(cls, source: ElementSource, path: str) -> Element:
        """The element at a path, as of now."""
        node = source.node(path)
        return cls(source, path, node, source.state(path, node))

    def now(self) -> Element:
        """This element as of now: opened again if the file has changed since."""
        return self if self.source.state(self.path, None) == self.state else Element.at(self.source, self.path)

    def consistent(self, read: Callable[[Element], T]) -> T:
        """What `read` makes of the element as of now, from one commit."""
        return self.source.consistent(lambda: read(self.now()))

    @property
    def group(self) -> Group:
        """The group; a FormatError if it is a dataset."""
        if not is_group(self.node):
            raise FormatError(f"{self.node.path} is a dataset, but must be a group", path=self.node.path)
        return self.node

    @property
    def dataset(self) -> Dataset:
        """The dataset; a FormatError if it is a group."""
        if not is_array(self.node):
            raise FormatError(f"{self.node.path} is a group, but must be a dataset", path=self.node.path)
        return self.node

    @property
    def names(self) -> list[str]:
        """The names of the members of a group; none of a dataset."""
        return member_names(self.node) if is_group(self.node) else []

    def find(self, name: str) -> Element | None:
        """The member of this name; None if there is none, or it cannot be opened."""
        node = find_member(self.node, name) if is_group(self.node) else None
        return None if node is None else self._below(name, node)

    def member(self, name: str) -> Element:
        """The member of this name; a FormatError if there is none, or it cannot be opened."""
        return self._below(name, open_member(self.group, name))

    def descendant(self, path: str) -> Element:
        """The element at a path below this one."""
        element = self
        for name in path.split("/"):
            element = element.member(name)
        return element

    def _below(self, name: str, node: GroupMember) -> Element:
        path = join_path(self.path, name) if self.path else name
        return replace(self, path=path, node=node, state=self.source.state(path, node))

    def table(self) -> Table:
        """The table that a frame is."""
        return self.source.table(self.path)
