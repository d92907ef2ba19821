"""Version 1 B-trees: the map of an old group's symbol tables, and of old datasets' chunks (specification III.A.1).

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

from collections.abc import Callable, Iterator
from typing import NamedTuple

from colonnade.format.source import HDF5Source

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
