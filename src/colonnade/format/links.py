"""Links of groups, in the three ways HDF5 stores them: in the header, in symbol tables, in a heap; objects by path.

| message 0x06, link | bytes | | message 0x02, link info | bytes |
| --- | --- | --- | --- | --- |
| version 1 | 1 | | version 0 | 1 |
| flags | 1 | | flags | 1 |
| type, if flags bit 3 (0 hard, 1 soft, 64 external) | 1 | | largest creation order, if flags bit 0 | 8 |
| creation order, if flags bit 2 | 8 | | fractal heap | O |
| character set, if flags bit 4 | 1 | | B-tree by name | O |
| length of the name | 1 << (flags & 3) | | B-tree by order, if flags bit 1 | O |
| name | | | | |
| hard: address O; others: length 2, value | | | | |

Symbol tables (message 0x11: address of a version 1 B-tree, address of a local heap) are used by old groups.
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.dataclass import dataclass
from colonnade.errors import FormatError, UnsupportedError, UsageError, nearest_names
from colonnade.format import symbol_tables
from colonnade.format.fractal_heap import NamedForm, read_named
from colonnade.format.headers import LINK, LINK_INFO, SYMBOL_TABLE, Message, find, read_messages
from colonnade.format.source import Fields, HDF5Source

_HARD, _SOFT = 0, 1
_MOST_SOFT_LINKS = 32
_FORM = NamedForm("link", order_bytes=8, tree=5, before=4, behind=0)  # a record: hash (4), heap id


@dataclass(frozen=True, slots=True)
class Link:
    """A name in a group, with the address of its object, or the path of a soft link; external links have neither."""

    name: str
    address: int | None = None
    target: str | None = None


def is_group(messages: list[Message]) -> bool:
    return any(message.type in (LINK, LINK_INFO, SYMBOL_TABLE) for message in messages)


def read_links(source: HDF5Source, messages: list[Message]) -> Iterator[Link]:
    """All links of a group, given the messages of its header."""
    for message in messages:
        if message.type == LINK:
            yield decode_link(source.as_fields(message.data, f"link message at byte {message.at}"))
        elif message.type == LINK_INFO:
            for data, _ in read_named(source, message, _FORM):
                yield decode_link(source.as_fields(data, "a link in the heap of a group"))
    table = find(messages, SYMBOL_TABLE)
    if table is not None:
        fields = source.as_fields(table.data, f"symbol table message at byte {table.at}")
        tree, heap = fields.address(), fields.address()
        if tree is None or heap is None:
            raise fields.wrong("leads nowhere")
        for name, address, target in symbol_tables.read_entries(source, tree, heap):
            yield Link(_text(name), address if target is None else None, None if target is None else _text(target))


def decode_link(fields: Fields) -> Link:
    """See the table at the top of this file."""
    fields.version(1)
    flags = fields.number(1)
    kind = fields.number(1) if flags & 8 else _HARD
    fields.take((8 if flags & 4 else 0) + (1 if flags & 16 else 0))
    name = _text(fields.take(fields.number(1 << (flags & 3))))
    if kind == _HARD:
        return Link(name, fields.address())
    value = fields.take(fields.number(2))
    return Link(name, target=_text(value)) if kind == _SOFT else Link(name)


def encode_link(name: str, address: int) -> bytes:
    """Encode a hard link. If the name is not ASCII, its character set is UTF-8."""
    data = name.encode("utf-8", "surrogateescape")
    width = next(number for number in range(4) if len(data) < 1 << (8 << number))
    utf8 = not name.isascii()
    head = bytes((1, width | (0x10 if utf8 else 0))) + (b"\1" if utf8 else b"")
    return head + len(data).to_bytes(1 << width, "little") + data + address.to_bytes(8, "little")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


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
    advice = f" Nearest: {', '.join(repr(other) for other in nearest)}." if nearest else ""
    text = f"no object {path!r} in {source.name}: {done or '/'} has no {name!r}.{advice}"
    return UsageError(text, name=name, where=source.name, nearest=nearest)
