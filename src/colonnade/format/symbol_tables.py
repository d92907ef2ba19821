"""Old groups: a version 1 B-tree of symbol tables, names in a local heap (format specification III.A.1, III.B, III.D).

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

from colonnade.format.source import HDF5Source

_SOFT = 2


def read_entries(source: HDF5Source, tree: int, heap: int) -> Iterator[tuple[bytes, int | None, bytes | None]]:
    """Name, address of the object, and for soft links the target path."""
    names = _read_heap(source, heap)
    for table in _tables(source, tree):
        yield from _read_table(source, table, names)


def _read_heap(source: HDF5Source, address: int) -> bytes:
    fields = source.fields(address, 8 + 2 * source.length_size + source.offset_size, "local heap")
    fields.expect(b"HEAP", "the signature")
    fields.version(0)
    fields.take(3)
    size = fields.length()
    fields.length()
    data = fields.address()
    return source.read(data, size, "local heap data") if data is not None else b""


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
        value = _name(names, int.from_bytes(scratch[:4], "little"), source, address) if kind == _SOFT else None
        yield _name(names, place, source, address), target, value


def _name(names: bytes, place: int, source: HDF5Source, address: int) -> bytes:
    end = names.find(b"\0", place)
    if place >= len(names) or end < 0:
        raise source.as_fields(b"", f"symbol table at byte {address}").wrong("has a name outside its heap")
    return names[place:end]
