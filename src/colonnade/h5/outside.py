"""Ways out of a file: external links, external storage and virtual sources, followed only as far as is allowed.

A file from a stranger may name any path of this machine: as raw storage, whose bytes then read as rows and are
overwritten by changes; as a source of a virtual dataset; as a target of a link. By default ("folder") only files in the
folder of the file, or below it, are touched. What such a file leads to in its turn is held to the same folder.

The link policy of a file is `OpenFile.links`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, lru_cache, partial
from pathlib import Path

import h5py
from h5py import h5d, h5f, h5fd, h5i, h5o, h5p

from colonnade.errors import ConflictError, CorruptError, UnsupportedError
from colonnade.h5 import capi
from colonnade.h5.vetting import OpenFile, creation_of, open_file_of, vet_fill
from colonnade.model import StoredType
from colonnade.nodes import DatasetHandle, NodeHandle
from colonnade.nodes.damage import hdf5_errors, raise_lack
from colonnade.nodes.outside import ORIGIN, first_place
from colonnade.nodes.paths import is_within
from colonnade.pager.options import Links

MOST_STEPS = 16  # from file to file, or from one virtual dataset to the next
MOST_SOURCES = 10_000
_MOST = (1 << 63) - 1
# -- rows kept elsewhere --


def check_rows(dataset: DatasetHandle, stored: StoredType | None = None) -> h5p.PropDCID:
    """Refuse a dataset whose rows are, at the end of any way, where they may not be read or written.

    stored: its datatype, where that is known. Returns its creation properties.
    """
    vet_fill(dataset, stored)
    creation = creation_of(dataset)
    layout = creation.get_layout()
    is_elsewhere = layout == h5d.VIRTUAL or (layout == h5d.CONTIGUOUS and creation.get_external_count())
    links = open_file_of(dataset).links if is_elsewhere else "any"
    if links != "any":
        _check(dataset, _folder(dataset), links, (), [MOST_SOURCES])
    return creation


def _check(dataset: DatasetHandle, home: Path | None, links: Links, passed: tuple[str, ...], left: list[int]) -> None:
    vet_fill(dataset)
    creation = creation_of(dataset)
    layout = creation.get_layout()
    name = (h5i.get_name(dataset) or b"?").decode("utf-8", "replace")
    if layout == h5d.VIRTUAL:
        here = f"{_file_name(dataset)}:{name}"
        if here in passed:
            raise CorruptError("the virtual dataset leads back to itself", path=name)
        if len(passed) >= MOST_STEPS:
            message = f"{name} is a virtual dataset of others, more than {MOST_STEPS} steps deep: it is not read"
            raise UnsupportedError(message, feature="virtual", path=name)
        for file_name, source in _sources(creation):
            left[0] -= 1
            if left[0] < 0:
                raise UnsupportedError(f"{name} has too many virtual sources to look at", feature="virtual", path=name)
            _check_source(dataset, file_name, source, home, links, (*passed, here), left)
    elif layout == h5d.CONTIGUOUS:
        for number in range(creation.get_external_count()):
            target = os.fsdecode(creation.get_external(number)[0])
            _allow(_storage_place(dataset, target), home, links, "external storage", target, name)


def bytes_elsewhere(dataset: DatasetHandle) -> int:
    """How many bytes the files have that the rows of a dataset with external storage are kept in."""
    creation = dataset.get_create_plist()
    names = {os.fsdecode(creation.get_external(number)[0]) for number in range(creation.get_external_count())}
    places = [_storage_place(dataset, name) for name in names]
    return sum(place.stat().st_size for place in places if place.is_file())


def mapped_elements(dataset: DatasetHandle) -> int:
    """How many elements of a virtual dataset have a source that is there; the others are the fill."""
    creation, total = dataset.get_create_plist(), 0
    is_there = cache(partial(_is_source, dataset))
    for number in range(creation.get_virtual_count()):
        if is_there(creation.get_virtual_filename(number), creation.get_virtual_dsetname(number)):
            count = int(creation.get_virtual_vspace(number).get_select_npoints())
            total += count if count >= 0 else _MOST  # as many as the source has
    return total


def _is_source(dataset: DatasetHandle, file_name: str, source: str) -> bool:
    """Whether there is such a file and, in the dataset's own, such an object."""
    if file_name == ".":
        try:
            h5o.open(h5i.get_file_id(dataset), source.encode("utf-8", "surrogateescape"), access_by("none"))
        except hdf5_errors():
            return False
        return True
    own = _folder(dataset)
    return own is None or "%" in file_name or first_place(file_name, own) is not None


def _sources(creation: h5p.PropDCID) -> Iterator[tuple[str, str]]:
    """The file and the dataset of each virtual source, each once."""
    seen = set()
    for number in range(creation.get_virtual_count()):
        found = creation.get_virtual_filename(number), creation.get_virtual_dsetname(number)
        if found not in seen:
            seen.add(found)
            yield found


def _check_source(
    dataset: DatasetHandle,
    file_name: str,
    source: str,
    home: Path | None,
    links: Links,
    passed: tuple[str, ...],
    left: list[int],
) -> None:
    if file_name == ".":
        _check_inside(h5i.get_file_id(dataset), source, home, links, passed, left)
        return
    own = _folder(dataset)
    place = first_place(file_name, own) if own is not None and "%" not in file_name else None
    name = passed[-1].rsplit(":", 1)[-1]
    if place is None and own is not None and "%" not in file_name:
        return  # there is no such file anywhere: HDF5 gives the fill
    _allow(place, home, links, "virtual source", file_name, name)
    try:
        with h5py.File(place, "r", driver=capi.READER, locking=False) as file:
            _check_inside(file.id, source, home, links, passed, left)
    except OSError as error:
        raise_lack(error)
        kind = ConflictError if isinstance(error, PermissionError) else CorruptError
        raise kind(f"{name}: virtual source {file_name!r} cannot be opened: {error}", path=str(place)) from error


def _check_inside(
    file_id: h5f.FileID, source: str, home: Path | None, links: Links, passed: tuple[str, ...], left: list[int]
) -> None:
    """The same for a source, which may be virtual or elsewhere itself; one that is not there gives the fill."""
    try:
        node = h5o.open(file_id, source.encode("utf-8", "surrogateescape"), access_by("none"))
    except hdf5_errors():
        return
    if isinstance(node, h5d.DatasetID):
        _check(node, home, links, passed, left)


def _storage_place(dataset: DatasetHandle, target: str) -> Path:
    """Where HDF5 looks for raw storage: relative names count from where the program runs, unless a prefix is set."""
    prefix = os.environ.get("HDF5_EXTFILE_PREFIX") or os.fsdecode(dataset.get_access_plist().get_efile_prefix())
    folder = _folder(dataset) or Path()
    return Path(prefix.replace(ORIGIN, str(folder)) or ".") / target


def _allow(place: Path | None, home: Path | None, links: Links, what: str, target: str, name: str) -> None:
    """Refuse a place outside the folder; or any, if that is the wish."""
    if links == "folder" and place is not None and home is not None and is_within(place, home):
        return
    reach = "links='none'" if links == "none" else "by default files lead only to files in their own folder"
    raise UnsupportedError(
        f"{name}: {what} {target!r} is not followed ({reach}); if you trust the file, open it with links='any' "
        "(on the command line: --links any)",
        feature=what,
        path=name,
        target=target,
    )


def _file_name(node: NodeHandle) -> str:
    return os.fsdecode(h5f.get_name(node))


def file_place(node: NodeHandle) -> Path | None:
    """The path of an object's file, resolved; None if it is not a file on disk."""
    file_id = h5i.get_file_id(node)
    path = Path(_file_name(node))
    if file_id.get_access_plist().get_driver() == h5fd.fileobj_driver and not path.is_absolute():
        return None
    return path.resolve()


def _folder(node: NodeHandle) -> Path | None:
    """The folder of an object's file; None if it is not a file on disk."""
    place = file_place(node)
    return None if place is None else place.parent


# -- links to other files --

_TRAVERSE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64,
    ctypes.c_void_p,
)  # fmt: skip
REFUSED: list[str] = []
"""Targets of external links that were not followed, the last one last: HDF5 does not say why it gives up."""


def _refuse(_file: bytes, _group: bytes, target: bytes, _object: bytes, _flags: int, _access: int, _data: int) -> int:
    REFUSED.append(os.fsdecode(target))
    return -1


def _refuse_outside(file: bytes, group: bytes, target: bytes, node: bytes, flags: int, access: int, data: int) -> int:
    with suppress(BaseException):  # ctypes would lose it, and let HDF5 follow the link
        folder = Path(os.fsdecode(file)).resolve().parent
        place = first_place(os.fsdecode(target), folder)
        if place is None or (is_within(place, folder) and h5py.is_hdf5(place)):
            return 0
    return _refuse(file, group, target, node, flags, access, data)


_CALLBACKS = {"none": _TRAVERSE(_refuse), "folder": _TRAVERSE(_refuse_outside)}


@lru_cache(maxsize=3)
def access_by(links: Links) -> h5p.PropLAID:
    """How links are followed: a list for h5o.open and its like."""
    access = h5p.create(h5p.LINK_ACCESS)
    if links != "any":
        access.set_elink_acc_flags(h5f.ACC_RDONLY)
        capi.set_link_callback(access, ctypes.cast(_CALLBACKS[links], ctypes.c_void_p))
    return access


def access_in(file: OpenFile) -> h5p.PropLAID:
    """How links are followed in a file: a list for h5o.open and its like.

    In a file open for changes none is followed: HDF5 would read the other file through the journal of this one.
    """
    return access_by("none" if file.is_of_python else file.links)
