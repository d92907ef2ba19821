"""Find objects of a file by walking from the superblock, without libhdf5, which cannot open sectioned datasets.

`find_object` follows a path, including soft links; `walk_datasets` follows all hard links and visits each object once.
`describe` reads the messages of a sectioned dataset.
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.errors import CorruptError, FormatError, UnsupportedError, UsageError, nearest_names
from colonnade.format.dataspace import decode_dataspace
from colonnade.format.datatype import decode_datatype
from colonnade.format.fill import decode_fill, decode_old_fill
from colonnade.format.headers import (
    ATTRIBUTE,
    COMMENT,
    DATASPACE,
    DATATYPE,
    FILL,
    LAYOUT,
    MODIFIED,
    OLD_FILL,
    PIPELINE,
    SECTION_PIPELINE,
    Message,
    find,
    read_messages,
)
from colonnade.format.layout import VARIABLE, decode_layout, is_sectioned
from colonnade.format.links import is_group, read_links
from colonnade.format.pipelines import decode_pipelines
from colonnade.format.source import Fields, HDF5Source
from colonnade.format.superblock import read_superblock
from colonnade.model import FilterInfo
from colonnade.pager.sources import ByteSource
from colonnade.sparse.chunk import SparseInfo

_MOST_SOFT_LINKS = 32


def open_root(file: ByteSource) -> tuple[HDF5Source, int]:
    """The bytes of a file by address, and the address of its root group."""
    block, source = read_superblock(file)
    return source, block.root


def find_object(source: HDF5Source, root: int, path: str) -> list[Message]:
    """The messages of the object at a path from the root group."""
    return read_messages(source, find_address(source, root, path))


def find_address(source: HDF5Source, root: int, path: str) -> int:
    """The address of the object header at a path from the root group."""
    address, messages, done = root, read_messages(source, root), ""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    n_soft = 0
    while parts:
        name = parts.pop(0)
        links = {link.name: link for link in read_links(source, messages)} if is_group(messages) else {}
        link = links.get(name)
        if link is None:
            raise _not_found(source, path, name, done, list(links))
        if link.target is not None:
            n_soft += 1
            if n_soft > _MOST_SOFT_LINKS:
                raise FormatError(f"{source.name}: {path} leads through a cycle of soft links", path=source.name)
            parts = [part for part in link.target.split("/") if part not in ("", ".")] + parts
            if link.target.startswith("/"):
                address, done, messages = root, "", read_messages(source, root)
            continue
        if link.address is None:
            raise UnsupportedError(f"{source.name}: {done}/{name} is a link out of the file", path=source.name)
        address, done = link.address, f"{done}/{name}"
        messages = read_messages(source, address) if parts else messages
    return address


def _not_found(source: HDF5Source, path: str, name: str, done: str, known: list[str]) -> UsageError:
    nearest = nearest_names(name, known)
    advice = f" Nearest: {', '.join(repr(one) for one in nearest)}." if nearest else ""
    text = f"no object {path!r} in {source.name}: {done or '/'} has no {name!r}.{advice}"
    return UsageError(text, name=name, where=source.name, nearest=nearest)


def walk_datasets(source: HDF5Source, root: int) -> Iterator[tuple[str, list[Message]]]:
    """Path and messages of every sectioned dataset, sorted by name within each group."""
    seen = {root}
    groups = [("", root)]
    while groups:
        path, address = groups.pop()
        found = []
        for link in read_links(source, read_messages(source, address)):
            if link.address is None or link.address in seen:
                continue
            seen.add(link.address)
            found.append((f"{path}/{link.name}", link.address))
        inner = []
        for name, place in sorted(found):
            messages = read_messages(source, place)
            layout = find(messages, LAYOUT)
            if layout is not None and is_sectioned(layout.data):
                yield name, messages
            elif is_group(messages):
                inner.append((name, place))
        groups.extend(reversed(inner))


def describe(source: HDF5Source, messages: list[Message], name: str) -> SparseInfo:
    """The description of a sectioned dataset, from the messages of its header."""
    layout_message = find(messages, LAYOUT)
    if layout_message is None or not is_sectioned(layout_message.data):
        what = (
            "a group"
            if is_group(messages)
            else "a dataset that HDF5 itself can read"
            if layout_message
            else "not a dataset"
        )
        raise UsageError(f"{source.name}: {name} is not stored in sectioned chunks: it is {what}", path=source.name)
    space = decode_dataspace(_open(source, messages, DATASPACE, "dataspace"), source.length_size)
    stored = decode_datatype(_open(source, messages, DATATYPE, "datatype"))
    layout = decode_layout(source, layout_message.data, layout_message.at, len(space.shape), stored.size)
    limits = zip(space.shape, space.max_shape, strict=True)
    if any(size >= 1 << 62 for size in space.shape):
        message = f"{source.name}: {name} has shape {space.shape}: a side of 2**62 or more is not read"
        raise UnsupportedError(message, feature="sides of 2**62 or more", path=source.name)
    if any(limit is not None and size > limit for size, limit in limits):
        raise CorruptError(
            f"{source.name}: {name} has shape {space.shape}, at most {space.max_shape}", path=source.name
        )
    if stored.has_pointers != (layout.heap_section is not None) or (
        layout.type == VARIABLE and not stored.has_pointers
    ):
        raise CorruptError(f"{source.name}: {name} has {layout.n_sections} sections for {stored}", path=source.name)
    fill = _read_fill(source, messages)
    if fill is not None and len(fill) != stored.size:
        raise CorruptError(
            f"{source.name}: {name} has a fill value of {len(fill)} bytes for {stored}", path=source.name
        )
    pipelines = _read_pipelines(source, messages)
    if any(section >= layout.n_sections for section in pipelines):
        raise CorruptError(f"{source.name}: {name} has filters for sections it does not have", path=source.name)
    by_section = tuple(pipelines.get(section, ()) for section in range(layout.n_sections))
    kept = tuple(message.data for message in messages if message.type == ATTRIBUTE)
    others = tuple((message.type, message.data) for message in messages if message.type in (COMMENT, MODIFIED))
    return SparseInfo(name, space, stored, fill, layout, by_section, kept, others)


def _open(source: HDF5Source, messages: list[Message], kind: int, what: str) -> Fields:
    message = find(messages, kind)
    if message is None:
        raise CorruptError(f"{source.name}: a dataset has no {what} message", path=source.name)
    return source.as_fields(message.data, f"{what} message at byte {message.at}")


def _read_fill(source: HDF5Source, messages: list[Message]) -> bytes | None:
    for kind, decode in ((FILL, decode_fill), (OLD_FILL, decode_old_fill)):
        message = find(messages, kind)
        if message is not None:
            return decode(source.as_fields(message.data, f"fill value message at byte {message.at}"))
    return None


def _read_pipelines(source: HDF5Source, messages: list[Message]) -> dict[int, tuple[FilterInfo, ...]]:
    for kind, version in ((PIPELINE, 3), (SECTION_PIPELINE, 1)):
        message = find(messages, kind)
        if message is not None:
            return decode_pipelines(source.as_fields(message.data, f"filter message at byte {message.at}"), version)
    return {}
