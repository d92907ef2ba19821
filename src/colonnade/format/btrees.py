"""B-trees of both versions: the maps of groups and of chunks (format specification III.A).

Version 2 B-trees: sorted records of groups and chunks, in nodes (format specification III.A.2).

| header | bytes | | node | bytes |
| --- | --- | --- | --- | --- |
| `BTHD` | 4 | | `BTLF` (leaf) or `BTIN` | 4 |
| version 0 (1 in prototype files) | 1 | | version | 1 |
| type of records | 1 | | type of records | 1 |
| node size | 4 | | records | n * record size |
| record size | 2 | | `BTIN` only, n + 1 times: child address | O |
| depth | 2 | | records in the child | w |
| split, merge percentages | 1 + 1 | | records below the child, unless it is a leaf | c |
| root address | O | | checksum, immediately after | 4 |
| records in the root | 2 | | | |
| records in all | L | | | |
| checksum | 4 | | | |

w is the number of bytes that can count the records of a leaf; c those of a whole subtree.

Version 1 B-trees: the map of an old group's symbol tables, and of old datasets' chunks (specification III.A.1).

| node | bytes | | key of a chunk | bytes |
| --- | --- | --- | --- | --- |
| `TREE` | 4 | | bytes of the stored chunk | 4 |
| type: 0 group, 1 chunks | 1 | | filters it has skipped, one bit each | 4 |
| level (0: children are symbol tables or chunks) | 1 | | its first element, one coordinate per dimension | 8 each |
| entries | 2 | | 0 | 8 |
| left and right sibling | 2 O | | | |
| key, child O, key, child O, ..., key | | | | |

A key of a group is the place of a name in its local heap (L bytes). Between two keys of a group are the names after
the first, up to and including the second; between two keys of chunks are those from the first to before the second.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from colonnade.dataclass import dataclass, replace
from colonnade.format.source import CHECKSUM, Fields, HDF5Source, with_checksum

_LEAD = 6  # bytes before the records of a node
_MOST_LEVELS = 32
_NOWHERE = (1 << 64) - 1
_HEADER_BYTES = 38  # with addresses and lengths of 8 bytes
RecordBound = bytes | None
KeepNode = Callable[[RecordBound, RecordBound], bool]


@dataclass(frozen=True, slots=True)
class TreeHeader:
    """The fields of a tree's header."""

    version: int
    type: int
    node_size: int
    record_size: int
    depth: int
    split: int
    merge: int
    root: int | None
    n_root: int
    n_records: int


@dataclass(frozen=True, slots=True)
class TreeNode:
    """The concatenated records of one node, and the records of its ancestors that bound them (None: no bound)."""

    header: TreeHeader
    data: bytes
    low: RecordBound
    high: RecordBound


@dataclass(frozen=True, slots=True)
class _Level:
    """Nodes at one depth: the number of records that fit, and the byte widths of the counts in child pointers."""

    most: int
    count_bytes: int
    total_bytes: int


def read_tree_header(source: HDF5Source, address: int) -> TreeHeader:
    size = 16 + source.offset_size + 2 + source.length_size + CHECKSUM
    return decode_tree_header(source.summed(address, size, "B-tree header"))


def decode_tree_header(fields: Fields) -> TreeHeader:
    """See the table at the top of this file."""
    fields.expect(b"BTHD", "the signature")
    version, kind = fields.version(0, 1), fields.number(1)
    node_size, record_size, depth = fields.number(4), fields.number(2), fields.number(2)
    split, merge = fields.number(1), fields.number(1)
    root, n_root, n_records = fields.address(), fields.number(2), fields.length()
    if not 1 <= record_size <= node_size - _LEAD - CHECKSUM or depth > _MOST_LEVELS:
        raise fields.wrong(f"has records of {record_size} bytes in nodes of {node_size}, {depth} levels deep")
    return TreeHeader(version, kind, node_size, record_size, depth, split, merge, root, n_root, n_records)


def tree_levels(header: TreeHeader, offset_size: int) -> list[_Level]:
    """The capacity of nodes, from the leaves up. Child pointers get wider as the counts in them grow."""
    room = header.node_size - _LEAD - CHECKSUM
    most = room // header.record_size
    count_bytes = _bytes_for(most)
    levels = [_Level(most, count_bytes, 0)]
    below, total_bytes = most, 0
    for _ in range(header.depth):
        pointer = offset_size + count_bytes + total_bytes
        most = (room - pointer) // (header.record_size + pointer)
        levels.append(_Level(max(most, 0), count_bytes, total_bytes))
        below = (max(most, 0) + 1) * below + max(most, 0)
        total_bytes = _bytes_for(below)
    return levels


def _bytes_for(limit: int) -> int:
    return (max(limit, 1).bit_length() - 1) // 8 + 1


def read_records(source: HDF5Source, address: int, keep: KeepNode | None = None) -> Iterator[TreeNode]:
    """The records of each node; the order of the nodes is not defined.

    `keep` decides whether records between two others (None: no bound) are needed. Without it all are read, and
    their number must equal that in the header.
    """
    header = read_tree_header(source, address)
    levels = tree_levels(header, source.offset_size)
    if header.root is None:
        return
    seen: set[int] = set()
    n_found, work = 0, source.most_work
    nodes: list[tuple[int, int, int, RecordBound, RecordBound]] = [
        (header.root, header.n_root, header.depth, None, None)
    ]
    while nodes:
        place, count, depth, low, high = nodes.pop()
        fields = _open_node(source, header, levels[depth], place, count, depth)
        work -= 1 + fields.left
        if place in seen or work < 0:
            raise fields.wrong("is reached twice, or overlaps others")
        seen.add(place)
        data = fields.take(count * header.record_size)
        if depth:
            children = _children(fields, count + 1, levels[depth])
            bounds = [low, *_split(data, header.record_size), high]
            for (child, n_child), left, right in zip(children, bounds, bounds[1:], strict=False):
                if keep is None or keep(left, right):
                    nodes.append((child, n_child, depth - 1, left, right))
        n_found += count
        yield TreeNode(header, data, low, high)
    if keep is None and n_found != header.n_records:
        raise source.wrong("B-tree", address, f"has {n_found} records, but its header gives {header.n_records}")


def _open_node(source: HDF5Source, header: TreeHeader, level: _Level, place: int, count: int, depth: int) -> Fields:
    pointer = source.offset_size + level.count_bytes + level.total_bytes
    size = _LEAD + count * header.record_size + ((count + 1) * pointer if depth else 0) + CHECKSUM
    if count > level.most:
        raise source.wrong("B-tree node", place, f"cannot have {count} records")
    fields = source.summed(place, size, "B-tree node")
    fields.expect(b"BTIN" if depth else b"BTLF", "the signature")
    fields.version(0, 1)
    kind = fields.number(1)
    if kind != header.type:
        raise fields.wrong(f"has records of type {kind}, but its tree has type {header.type}")
    return fields


def _children(fields: Fields, n_children: int, level: _Level) -> list[tuple[int, int]]:
    """Address and number of records of each child."""
    found = []
    for _ in range(n_children):
        child, count = fields.address(), fields.number(level.count_bytes)
        fields.take(level.total_bytes)
        if child is None:
            raise fields.wrong("has a child with an undefined address")
        found.append((child, count))
    return found


def _split(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def encode_tree(header: TreeHeader, records: list[bytes], address: int) -> bytes:
    """The header and all nodes of a tree of these sorted records, to be stored at `address`.

    The header fields that depend on the records (depth, root, counts) are computed here.
    """
    made = replace(header, depth=_depth_for(header, len(records)), n_records=len(records), root=None, n_root=0)
    out = bytearray(_HEADER_BYTES)
    if records:
        root, n_root = _put_node(out, made, tree_levels(made, 8), records, made.depth, address)
        made = replace(made, root=root, n_root=n_root)
    out[:_HEADER_BYTES] = encode_tree_header(made)
    return bytes(out)


def encode_tree_header(header: TreeHeader) -> bytes:
    """See the table at the top of this file; addresses and lengths have 8 bytes."""
    lead = struct.pack(
        "<4sBBIHHBB", b"BTHD", header.version, header.type, header.node_size, header.record_size, header.depth,
        header.split, header.merge,
    )  # fmt: skip
    root = _NOWHERE if header.root is None else header.root
    return with_checksum(lead + struct.pack("<QHQ", root, header.n_root, header.n_records))


def _depth_for(header: TreeHeader, n_records: int) -> int:
    """The smallest depth of a tree that holds `n_records` records."""
    return next(depth for depth in range(_MOST_LEVELS) if _capacity(header, depth) >= n_records)


def _capacity(header: TreeHeader, depth: int) -> int:
    """The largest number of records of a tree of this depth."""
    levels = tree_levels(replace(header, depth=depth), 8)
    below = levels[0].most
    for level in levels[1:]:
        below = (level.most + 1) * below + level.most
    return below


def _put_node(
    out: bytearray, header: TreeHeader, levels: list[_Level], records: list[bytes], depth: int, address: int
) -> tuple[int, int]:
    """Write a node and all nodes below it; return its address and the number of its own records."""
    lead = struct.pack("<4sBB", b"BTIN" if depth else b"BTLF", header.version, header.type)
    if not depth:
        own, pointers = records, b""
    else:
        most = _capacity(header, depth - 1)
        n_children = max(2, -(-(len(records) + 1) // (most + 1)))
        ends = [(len(records) + 1) * number // n_children for number in range(n_children + 1)]
        own, pointers, level = [records[end - 1] for end in ends[1:-1]], b"", levels[depth]
        for start, end in pairwise(ends):
            child, n_child = _put_node(out, header, levels, records[start : end - 1], depth - 1, address)
            pointers += struct.pack("<Q", child) + n_child.to_bytes(level.count_bytes, "little")
            pointers += (end - 1 - start).to_bytes(level.total_bytes, "little") if level.total_bytes else b""
    place = address + len(out)
    out += with_checksum(lead + b"".join(own) + pointers).ljust(header.node_size, b"\0")
    return place, len(own)


# -- version 1 --


GROUPS, CHUNKS = 0, 1  # types of trees
_WHAT = "version 1 B-tree node"
_USUAL_ENTRIES = {GROUPS: 32, CHUNKS: 64}  # of nodes, unless the file was made with other numbers
KeepEntry = Callable[[bytes, bytes], bool]


class TreeLeaf(NamedTuple):
    """A node whose children are symbol tables or chunks: key, child, key, child, ..., key."""

    address: int
    n_children: int
    data: bytes


def read_leaves(
    source: HDF5Source, root: int, kind: int, key_size: int, keep: KeepEntry | None = None
) -> Iterator[TreeLeaf]:
    """The leaves below a node, in their order; each node is visited once.

    `keep` decides by the keys around a child whether what is below it is needed.
    """
    seen: set[int] = set()
    work = source.most_work
    nodes: list[tuple[int, int | None]] = [(root, None)]
    while nodes:
        address, level = nodes.pop()
        own, leaf = _read_node(source, address, kind, key_size)
        work -= 8 + len(leaf.data)
        if address in seen or work < 0 or (level is not None and own != level):
            raise source.wrong(_WHAT, address, "is reached twice, or from a wrong level, or overlaps others")
        seen.add(address)
        if own:
            wanted = [child for low, child, high in iter_children(leaf, key_size) if keep is None or keep(low, high)]
            nodes.extend((child, own - 1) for child in reversed(wanted))
        else:
            yield leaf


def _read_node(source: HDF5Source, address: int, kind: int, key_size: int) -> tuple[int, TreeLeaf]:
    """The level of a node, and its keys and children."""
    lead, step = 8 + 2 * source.offset_size, key_size + source.offset_size
    data = source.read_up_to(address, lead + _USUAL_ENTRIES[kind] * step + key_size, _WHAT)
    fields = source.as_fields(data, _WHAT, address)
    fields.expect(b"TREE" + bytes((kind,)), "the signature")
    level, count = fields.number(1), fields.number(2)
    size = lead + count * step + (key_size if count else 0)
    if size > len(data):
        data = source.read(address, size, _WHAT)
    return level, TreeLeaf(address, count, data[lead:size])


def iter_children(leaf: TreeLeaf, key_size: int) -> Iterator[tuple[bytes, int, bytes]]:
    """The key before each child, its address, and the key after it."""
    data, step = leaf.data, (len(leaf.data) - key_size) // max(leaf.n_children, 1)
    for at in range(0, leaf.n_children * step, step):
        child = int.from_bytes(data[at + key_size : at + step], "little")
        yield data[at : at + key_size], child, data[at + step : at + step + key_size]
