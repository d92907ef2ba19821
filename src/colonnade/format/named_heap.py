"""Named objects that do not fit into a header (links of large groups, many attributes): a heap and a B-tree of names.

Both begin with an info message: version 0, flags, the largest creation order if flags bit 0, heap, B-tree by name.
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.dataclass import dataclass
from colonnade.format.btree2 import read_records
from colonnade.format.fractal_heap import FractalHeap
from colonnade.format.headers import Message
from colonnade.format.source import HDF5Source


@dataclass(frozen=True, slots=True)
class NamedForm:
    """How one kind is stored: bytes of its largest order, type of its B-tree, bytes before and after an id there."""

    title: str
    order_bytes: int
    tree: int
    before: int
    behind: int


def read_named(source: HDF5Source, message: Message, form: NamedForm) -> Iterator[tuple[bytes, bytes]]:
    """The bytes of each object in the heap, and the bytes after the id in its record."""
    fields = source.as_fields(message.data, f"{form.title} info message at byte {message.at}")
    fields.version(0)
    flags = fields.number(1)
    fields.take(form.order_bytes if flags & 1 else 0)
    heap_address, tree_address = fields.address(), fields.address()
    if heap_address is None or tree_address is None:
        return
    heap = FractalHeap(source, heap_address)
    for node in read_records(source, tree_address):
        header, data = node.header, node.data
        if header.type != form.tree or header.record_size != form.before + heap.id_size + form.behind:
            raise fields.wrong("points to a B-tree that is not a B-tree of names")
        for at in range(form.before, len(data), header.record_size):
            yield heap.read(data[at : at + heap.id_size]), data[at + heap.id_size : at + heap.id_size + form.behind]
