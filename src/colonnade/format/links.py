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

The value of a soft link is a path; of an external link a byte 0, the name of a file, NUL, a path, NUL.

Old groups have a symbol table (message 0x11: address of a version 1 B-tree, address of a local heap): the B-tree (see
`btree1`) leads to symbol tables, whose names are in the heap (format specification III.B, III.D).

| symbol table node | bytes | | local heap | bytes |
| --- | --- | --- | --- | --- |
| `SNOD` | 4 | | `HEAP` | 4 |
| version 1, 0 | 1 + 1 | | version 0, 0 | 1 + 3 |
| entries | 2 | | bytes of data | L |
| each: name's place in the heap (O in the specification) | L | | free list | L |
| address of the header | O | | address of data | O |
| kind (2: soft link), 0 | 4 + 4 | | | |
| scratch (soft: value's place 4) | 16 | | | |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from itertools import islice
from struct import Struct
from typing import Literal

from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError, FormatError, UnsupportedError, UsageError, nearest_names
from colonnade.format.btrees import GROUPS, iter_children, read_leaves
from colonnade.format.fractal_heap import NamedForm, NamedHeap
from colonnade.format.headers import LINK, LINK_INFO, SYMBOL_TABLE, Message, find, read_messages
from colonnade.format.source import Fields, HDF5Source, UnknownToReader

LinkKind = Literal["hard", "soft", "external", "user-defined"]
_HARD, _SOFT, _EXTERNAL = 0, 1, 64
_SOFT_ENTRY = 2  # kind of an entry of a symbol table
_LAST_FREE = 1  # after the last free block of a local heap
_MOST_SOFT_LINKS = 32
_FORM = NamedForm("link", order_bytes=8, tree=5, before=4, after=0, hash_at=0)  # a record: hash (4), heap id
_FEW_NAMES = 16  # links that are looked for one by one in a header
_CODES = {2: "H", 4: "I", 8: "Q"}  # of addresses and lengths, by their bytes
_FEW_TABLES, _FEW_FOUND = 32, 2  # symbol tables of a group whose links are kept, once more links than these were found
_USUAL_SYMBOLS = 8  # entries of a symbol table, unless the file was made with other numbers


@dataclass(frozen=True, slots=True)
class Link:
    """A name in a group.

    address: of the object of a hard link. target: the path of a soft or external link. file: that an external link
    leads to. order: when it was made among the links of the group, if that is tracked.
    """

    name: str
    address: int | None = None
    target: str | None = None
    kind: LinkKind = "hard"
    file: str | None = None
    order: int | None = None


def is_group(messages: list[Message]) -> bool:
    return any(message.type in (LINK, LINK_INFO, SYMBOL_TABLE) for message in messages)


class GroupLinks:
    """The links of one group, in whichever way it stores them."""

    def __init__(self, source: HDF5Source, messages: list[Message]) -> None:
        info, table = find(messages, LINK_INFO), find(messages, SYMBOL_TABLE)
        self._source = source
        self._inside = [message for message in messages if message.type == LINK]
        self._n_found = 0
        self._dense = None if info is None else NamedHeap(source, info, _FORM)
        self._symbols = None if table is None else SymbolTables(source, *read_symbol_table(source, table))

    @property
    def has_order(self) -> bool:
        """Whether the order in which links were made is tracked."""
        return self._dense is not None and self._dense.has_order

    def read(self) -> Iterator[Link]:
        """All links; those of the header and of symbol tables in the order in which they are stored."""
        for message in self._inside:
            yield decode_link(self._source.as_fields(message.data, "link message", message.at))
        if self._dense is not None:
            for data, _ in self._dense.read():
                yield decode_link(self._source.as_fields(data, "link message in the heap of a group"))
        if self._symbols is not None:
            yield from self._symbols.read()

    @cached_property
    def _inside_by_name(self) -> dict[bytes, list[Message]]:
        """Links of the header, for finding many of them; those that cannot be read have no name."""
        named: dict[bytes, list[Message]] = {}
        for message in self._inside:
            with suppress(CorruptError, UnknownToReader):
                link = decode_link(self._source.as_fields(message.data, "link message", message.at))
                named.setdefault(link.name.encode("utf-8", "surrogateescape"), []).append(message)
        return named

    def find(self, name: str) -> Link | None:
        """The link of this name, found without reading all others where they are sorted."""
        key = name.encode("utf-8", "surrogateescape")
        self._n_found += 1
        for message in self._inside_by_name.get(key, ()) if self._n_found > _FEW_NAMES else self._inside:
            if key in message.data:
                link = decode_link(self._source.as_fields(message.data, "link message", message.at))
                if link.name == name:
                    return link
        if self._dense is not None:
            for data, _ in self._dense.find(key):
                link = decode_link(self._source.as_fields(data, "link message in the heap of a group"))
                if link.name == name:
                    return link
        return None if self._symbols is None else self._symbols.find(key)


def read_links(source: HDF5Source, messages: list[Message]) -> Iterator[Link]:
    """All links of a group, given the messages of its header."""
    return GroupLinks(source, messages).read()


def decode_link(fields: Fields) -> Link:
    """See the table at the top of this file."""
    fields.version(1)
    flags = fields.number(1)
    kind = fields.number(1) if flags & 8 else _HARD
    order = int.from_bytes(fields.take(8), "little", signed=True) if flags & 4 else None
    fields.take(1 if flags & 16 else 0)
    name = _text(fields.take(fields.number(1 << (flags & 3))))
    if kind == _HARD:
        return Link(name, fields.address(), order=order)
    value = fields.take(fields.number(2))
    if kind == _SOFT:
        return Link(name, target=_text(value), kind="soft", order=order)
    if kind != _EXTERNAL:
        return Link(name, kind="user-defined", order=order)
    file, _, path = value[1:].partition(b"\0")
    target = path.split(b"\0")[0]
    return Link(name, target=_text(target), kind="external", file=_text(file), order=order)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


class SymbolTables:
    """The links of an old group, sorted by the bytes of their names."""

    def __init__(self, source: HDF5Source, tree: int, heap: int) -> None:
        self._source = source
        self._tree = tree
        self._heap = heap
        self._names: bytes | None = None
        self._work = source.most_work
        self._n_found = 0
        self._by_name: dict[int, dict[bytes, Link]] = {}  # by the address of the symbol table
        self._symbol = Struct(f"<{_CODES[source.length_size]}{_CODES[source.offset_size]}I4xI12x")
        self._nowhere = (1 << 8 * source.offset_size) - 1

    def read(self) -> Iterator[Link]:
        """All links, sorted by name."""
        self._work = self._source.most_work
        for leaf in read_leaves(self._source, self._tree, GROUPS, self._source.length_size):
            for _, address, _ in iter_children(leaf, self._source.length_size):
                yield from self._read_table(address)

    def find(self, name: bytes) -> Link | None:
        """The link of this name: names of a table are after the key before it, up to the key after it."""

        def keep(low: bytes, high: bytes) -> bool:
            return self._key(low) < name <= self._key(high)

        self._n_found += 1
        spans = self._spans if self._n_found > _FEW_FOUND else None
        if spans is not None:
            links = (self._in_table(table, name) for low, table, high in spans if low < name <= high)
            return next((link for link in links if link is not None), None)
        key_size, self._work = self._source.length_size, self._source.most_work
        for leaf in read_leaves(self._source, self._tree, GROUPS, key_size, keep):
            tables = [child for low, child, high in iter_children(leaf, key_size) if keep(low, high)]
            for link in (link for address in tables for link in self._read_table(address, name)):
                return link
        return None

    @cached_property
    def _spans(self) -> list[tuple[bytes, int, bytes]] | None:
        """The symbol tables of a group with few links, and the names around each; None of others, and of damaged ones.

        They are looked for again and again while the columns of a table are described.
        """
        key_size = self._source.length_size
        try:
            leaves = list(islice(read_leaves(self._source, self._tree, GROUPS, key_size), 2))
            if len(leaves) != 1 or leaves[0].n_children > _FEW_TABLES:
                return None
            spans = [(self._key(a), table, self._key(b)) for a, table, b in iter_children(leaves[0], key_size)]
            self._work = self._source.most_work
            for _, table, _ in spans:
                self._by_name[table] = {}
                for link in reversed(self._read_table(table)):
                    self._by_name[table][link.name.encode("utf-8", "surrogateescape")] = link
        except CorruptError:
            return None
        return spans

    def _in_table(self, table: int, name: bytes) -> Link | None:
        return self._by_name[table].get(name)

    def _key(self, key: bytes) -> bytes:
        return self._name_at(int.from_bytes(key, "little"), self._tree)

    def _read_table(self, address: int, name: bytes | None = None) -> list[Link]:
        """The links of one symbol table, or the one of this name."""
        size = self._source.length_size + self._source.offset_size + 24
        data = self._source.read_up_to(address, 8 + _USUAL_SYMBOLS * size, "symbol table")
        head = self._source.as_fields(data, "symbol table", address)
        head.expect(b"SNOD\1", "the signature")
        head.take(1)
        count = head.number(2)
        self._work -= 8 + count * size
        if self._work < 0:
            raise self._source.wrong("symbol table", address, "overlaps others")
        if 8 + count * size > len(data):
            data = self._source.read(address, 8 + count * size, "symbol table")
        links = []
        for place, target, kind, value in self._symbol.iter_unpack(memoryview(data)[8 : 8 + count * size]):
            link_name = self._name_at(place, address)
            if name is None or link_name == name:
                links.append(self._link(link_name, target, kind, value, address))
        return links

    def _link(self, name: bytes, target: int, kind: int, value: int, address: int) -> Link:
        if kind == _SOFT_ENTRY:
            return Link(_text(name), target=_text(self._name_at(value, address)), kind="soft")
        return Link(_text(name), None if target == self._nowhere else target)

    def _name_at(self, place: int, address: int) -> bytes:
        if self._names is None:
            self._names = read_local_heap(self._source, self._heap).data
        end = self._names.find(b"\0", place)
        if place >= len(self._names) or end < 0:
            raise self._source.wrong("symbol table", address, "has a name outside its heap")
        return self._names[place:end]


@dataclass(frozen=True, slots=True)
class LocalHeap:
    """The names of an old group: bytes, the offset of the first free block in them, and the bytes of an offset."""

    data: bytes
    first_free: int
    length_size: int = 8

    @property
    def is_endless(self) -> bool:
        """Whether the list of free blocks has no end: each block begins with the offset of the next."""
        place = self.first_free
        for _ in range(len(self.data) // 8 + 1):
            if place in (0, _LAST_FREE) or place + 2 * self.length_size > len(self.data):
                return False  # the end, or bytes that were not written yet, or an offset that libhdf5 refuses
            place = int.from_bytes(self.data[place : place + self.length_size], "little")
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
    names = source.read(data, size, "local heap data") if data is not None else b""
    return LocalHeap(names, first_free, source.length_size)


def read_symbol_table(source: HDF5Source, message: Message) -> tuple[int, int]:
    """The addresses of the B-tree and of the local heap of an old group."""
    fields = source.as_fields(message.data, "symbol table message", message.at)
    tree, heap = fields.address(), fields.address()
    if tree is None or heap is None:
        raise fields.wrong("leads nowhere")
    return tree, heap


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
        links = GroupLinks(source, messages) if is_group(messages) else None
        link = None if links is None else links.find(name)
        if link is None:
            known = [] if links is None else [other.name for other in links.read()]
            raise _not_found(source, path, name, done, known)
        if link.kind == "soft" and link.target is not None:
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
    return UsageError(text, path=path)
