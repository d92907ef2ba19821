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

Old groups have a symbol table (message 0x11: address of a version 1 B-tree, address of a local heap): the B-tree leads
to symbol tables, whose names are in the heap (format specification III.A.1, III.B, III.D).

| B-tree node | bytes | | symbol table node | bytes | | local heap | bytes |
| --- | --- | --- | --- | --- | --- | --- | --- |
| `TREE` | 4 | | `SNOD` | 4 | | `HEAP` | 4 |
| type 0 | 1 | | version 1, 0 | 1 + 1 | | version 0, 0 | 1 + 3 |
| level (0: children are symbol tables) | 1 | | entries | 2 | | bytes of data | L |
| entries | 2 | | each: name's place in the heap | O | | free list | L |
| left and right sibling | 2 O | | address of the header | O | | address of data | O |
| key L, child O, key L, ... | | | kind (2: soft link), 0 | 4 + 4 | | | |
| | | | scratch (soft: value's place 4) | 16 | | | |
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.dataclass import dataclass
from colonnade.errors import FormatError, UnsupportedError, UsageError, nearest_names
from colonnade.format.fractal_heap import NamedForm, read_named
from colonnade.format.headers import LINK, LINK_INFO, SYMBOL_TABLE, Message, find, read_messages
from colonnade.format.source import Fields, HDF5Source

_HARD, _SOFT = 0, 1
_SOFT_ENTRY = 2  # kind of an entry of a symbol table
_LAST_FREE = 1  # after the last free block of a local heap
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
        for name, address, target in _read_entries(source, *read_symbol_table(source, table)):
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


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _read_entries(source: HDF5Source, tree: int, heap: int) -> Iterator[tuple[bytes, int | None, bytes | None]]:
    """Name, address of the object, and for soft links the target path."""
    names = read_local_heap(source, heap).data
    for table in _tables(source, tree):
        yield from _read_table(source, table, names)


@dataclass(frozen=True, slots=True)
class LocalHeap:
    """The names of an old group: bytes, and the offset of the first free block in them."""

    data: bytes
    first_free: int

    @property
    def is_endless(self) -> bool:
        """Whether the list of free blocks has no end: each block begins with the offset of the next."""
        place = self.first_free
        for _ in range(len(self.data) // 8 + 1):
            if place in (0, _LAST_FREE) or place + 16 > len(self.data):
                return False  # the end, or bytes that were not written yet, or an offset that libhdf5 refuses
            place = int.from_bytes(self.data[place : place + 8], "little")
        return True


def read_local_heap(source: HDF5Source, address: int, most_bytes: int | None = None) -> LocalHeap:
    """The local heap at an address; a CorruptError if it has more than `most_bytes` bytes."""
    fields = source.fields(address, 8 + 2 * source.length_size + source.offset_size, "local heap")
    fields.expect(b"HEAP", "the signature")
    fields.version(0)
    fields.take(3)
    size, first_free, data = fields.length(), fields.length(), fields.address()
    if most_bytes is not None and size > most_bytes:
        raise fields.wrong(f"has {size} bytes, more than the {most_bytes} expected")
    return LocalHeap(source.read(data, size, "local heap data") if data is not None else b"", first_free)


def read_symbol_table(source: HDF5Source, message: Message) -> tuple[int, int]:
    """The addresses of the B-tree and of the local heap of an old group."""
    fields = source.as_fields(message.data, f"symbol table message at byte {message.at}")
    tree, heap = fields.address(), fields.address()
    if tree is None or heap is None:
        raise fields.wrong("leads nowhere")
    return tree, heap


def _tables(source: HDF5Source, root: int) -> Iterator[int]:
    """Addresses of the symbol tables below a node; each node is visited once."""
    seen: set[int] = set()
    nodes: list[tuple[int, int | None]] = [(root, None)]
    while nodes:
        address, level = nodes.pop()
        lead = 8 + 2 * source.offset_size
        fields = source.fields(address, lead, "group B-tree node")
        fields.expect(b"TREE\0", "the signature")
        own, count = fields.number(1), fields.number(2)
        if address in seen or (level is not None and own != level):
            raise fields.wrong("is reached twice, or from a wrong level")
        seen.add(address)
        size = count * (source.length_size + source.offset_size)
        entries = source.fields(address + lead, size, "group B-tree node")
        children = []
        for _ in range(count):
            entries.length()
            child = entries.address()
            if child is None:
                raise fields.wrong("has a child with an undefined address")
            children.append(child)
        if own:
            nodes.extend((child, own - 1) for child in reversed(children))
        else:
            yield from children


def _read_table(source: HDF5Source, address: int, names: bytes) -> Iterator[tuple[bytes, int | None, bytes | None]]:
    head = source.fields(address, 8, "symbol table")
    head.expect(b"SNOD\1", "the signature")
    head.take(1)
    count = head.number(2)
    fields = source.fields(address + 8, count * (2 * source.offset_size + 24), "symbol table")
    for _ in range(count):
        place, target = fields.number(source.offset_size), fields.address()
        kind = fields.number(4)
        fields.take(4)
        scratch = fields.take(16)
        value = _name_in(names, int.from_bytes(scratch[:4], "little"), source, address) if kind == _SOFT_ENTRY else None
        yield _name_in(names, place, source, address), target, value


def _name_in(names: bytes, place: int, source: HDF5Source, address: int) -> bytes:
    end = names.find(b"\0", place)
    if place >= len(names) or end < 0:
        raise source.as_fields(b"", f"symbol table at byte {address}").wrong("has a name outside its heap")
    return names[place:end]


# -- objects by path --


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
