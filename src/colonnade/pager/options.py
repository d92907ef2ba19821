"""How a file is opened: its target, its mode, and the options of `open`."""

from __future__ import annotations

import os
from io import BufferedIOBase
from typing import IO, TYPE_CHECKING, Literal, Protocol, TypeGuard

from colonnade.dataclass import dataclass
from colonnade.errors import UsageError
from colonnade.pager.locks import Locking

Mode = Literal["r", "r+", "w", "a"]
HardLinks = Literal["refuse", "allow"]
Links = Literal["folder", "none", "any"]
Library = Literal["auto", "never"]
Durability = Literal["full", "fast"]

if TYPE_CHECKING:

    class OpenObject(Protocol):
        """An object of h5py: an open file, or a group in it."""

        @property
        def id(self) -> object: ...

else:  # to create a protocol takes time, and nothing uses it at run time
    OpenObject = object

BinaryFile = IO[bytes] | BufferedIOBase
Target = str | os.PathLike[str] | BinaryFile | OpenObject


def is_stream(target: object) -> TypeGuard[BinaryFile]:
    """Whether this is a binary file object that can be read anywhere."""
    return hasattr(target, "read") and hasattr(target, "seek")


@dataclass(frozen=True)
class Care:
    """How a file is handled: synced or not, how long to wait for others, with locks or without; how far it may lead."""

    durability: Durability = "full"
    timeout: float = 10.0
    locking: Locking = "auto"
    links: Links = "folder"
    hard_links: HardLinks = "refuse"
    hdf5_lock: bool = True
    library: Library = "auto"

    def __post_init__(self) -> None:
        if self.durability not in ("full", "fast"):
            raise UsageError(f"durability must be 'full' or 'fast', not {self.durability!r}")
        if self.locking not in ("auto", "none"):
            raise UsageError(f"locking must be 'auto' or 'none', not {self.locking!r}")
        if self.links not in ("folder", "none", "any"):
            raise UsageError(f"links must be 'folder', 'none' or 'any', not {self.links!r}")
        if self.hard_links not in ("refuse", "allow"):
            raise UsageError(f"hard_links must be 'refuse' or 'allow', not {self.hard_links!r}")
        if self.library not in ("auto", "never"):
            raise UsageError(f"library must be 'auto' or 'never', not {self.library!r}")


def stream_size(stream: BinaryFile) -> int:
    """The number of bytes in a seekable file object."""
    position = stream.tell()
    size: int = stream.seek(0, os.SEEK_END)
    stream.seek(position)
    return size
