"""Objects of h5py that a reader gives to the program: they raise as soon as others have changed the file.

An object of h5py keeps the metadata of the state in which it was opened, and reads bytes as they are now. So after a
commit of another program it would mix two states. Objects that come from `File.h5` of a reader look at the file before
they are used, and after rows were read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import h5py
from h5py._objects import phil

from colonnade.errors import ConflictError


class Watch:
    """Whether the objects of one state of a file may be used; shared by all of them."""

    def __init__(self, name: str, is_stale: Callable[[], bool]) -> None:
        self._name = name
        self._is_inside = False  # a call that has looked already; guarded by h5py's lock
        self.is_stale = is_stale

    def check(self) -> None:
        """Refuse to go on where the file was changed."""
        if not self._is_inside and self.is_stale():
            raise ConflictError(
                f"cannot use this object of {self._name}: the file was changed since it was opened. Take it from "
                "`File.h5` again",
                path=self._name,
            )

    @contextmanager
    def around(self) -> Iterator[None]:
        """Look before and after, and not in between: what was read is of one state."""
        with phil:
            self.check()
            before, self._is_inside = self._is_inside, True
            try:
                yield
            finally:
                self._is_inside = before
            self.check()


class _Watched:
    """What files, groups, datasets and datatypes share: all that h5py does with them asks for `id`."""

    _id: Any
    _watch: Watch

    @property
    def id(self) -> Any:
        with phil:
            self._watch.check()
            return self._id

    @property
    def attrs(self) -> WatchedAttributes:
        return WatchedAttributes(self)

    @property
    def file(self) -> Any:
        return watched(h5py.File(self.id), self._watch)

    def __bool__(self) -> bool:
        return not self._watch.is_stale() and bool(self._id)


class WatchedGroup(_Watched, h5py.Group):
    """A group of a reader."""

    def __getitem__(self, name: Any) -> Any:
        with self._watch.around():
            return watched(super().__getitem__(name), self._watch)

    def get(self, *arguments: Any, **options: Any) -> Any:
        with self._watch.around():
            return watched(super().get(*arguments, **options), self._watch)


class WatchedFile(WatchedGroup, h5py.File):
    """A file of a reader."""

    def close(self) -> None:
        h5py.File(self._id).close()


class WatchedDataset(_Watched, h5py.Dataset):
    """A dataset of a reader."""

    @property
    def shape(self) -> Any:
        self._watch.check()  # h5py keeps it
        return super().shape

    def __getitem__(self, *arguments: Any, **options: Any) -> Any:
        with self._watch.around():
            return super().__getitem__(*arguments, **options)

    def read_direct(self, *arguments: Any, **options: Any) -> None:
        with self._watch.around():
            super().read_direct(*arguments, **options)


class WatchedDatatype(_Watched, h5py.Datatype):
    """A named datatype of a reader."""


class WatchedAttributes(h5py.AttributeManager):
    """Attributes of an object of a reader."""

    def __init__(self, parent: _Watched) -> None:
        self._watch = parent._watch
        super().__init__(parent)

    @property
    def _id(self) -> Any:
        self._watch.check()
        return self._parent_id

    @_id.setter
    def _id(self, parent_id: Any) -> None:
        self._parent_id = parent_id

    def __getitem__(self, name: Any) -> Any:
        with self._watch.around():
            return super().__getitem__(name)


_KINDS = {
    h5py.File: WatchedFile,
    h5py.Group: WatchedGroup,
    h5py.Dataset: WatchedDataset,
    h5py.Datatype: WatchedDatatype,
}


def watched(thing: Any, watch: Watch) -> Any:
    """A new object of h5py, watched from now on; anything else as it is."""
    kind = _KINDS.get(type(thing))
    if kind is not None:
        thing.__class__ = kind
        thing._watch = watch
    return thing
