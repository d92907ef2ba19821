"""Rules for strings that are pointers into a heap, since version 1.1: DV1 and DV2."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.rules_columns import deep_look, now_read
from colonnade.layouts.artifactdb.rules_groups import stored_text
from colonnade.layouts.artifactdb.rules_values import pointed_no_utf8, pointer_outside
from colonnade.layouts.artifactdb.seen import SeenColumn, SeenFrame
from colonnade.model import Breach, StoredType


def pointers_have_their_parts(frame: SeenFrame) -> Iterator[Breach]:
    """DV1: pointers are pairs of unsigned integers, the heap is bytes; since version 1.1."""
    for column in frame.placed:
        if not column.has_pointers:
            continue
        if frame.generation.version == "1.0":
            message = "strings by pointers came with version 1.1: dolomite-base writes them under 1.0, and refuses them"
            yield Breach("warning", column.path, message, "version 1.0", "version 1.1")
        yield from _pointer_parts(column)


def _pointer_parts(column: SeenColumn) -> Iterator[Breach]:
    heap, stored = column.part(names.HEAP), column.stored
    if stored is not None and not are_pointers(stored):
        message = "pointers are no pairs of an offset and a length"
        yield Breach("error", column.path, message, str(stored), "a compound of unsigned integers, offset and length")
    if heap is None or heap.stored is None or not heap.is_flat or not _is_byte(heap.stored.type):
        found = "no such dataset" if heap is None else stored_text(heap)
        yield Breach("error", column.path, "heap, which has the text, is no 1-D dataset of bytes", found, "1-D uint8")


def are_pointers(stored: StoredType) -> bool:
    """Whether these are pairs of an offset and a length, by names and types."""
    if stored.kind != "compound" or tuple(one.name for one in stored.fields) != ("offset", "length"):
        return False
    return all(one.type.kind == "integer" and not one.type.signed for one in stored.fields)


def _is_byte(stored: StoredType) -> bool:
    return stored.kind == "integer" and not stored.signed and stored.precision <= 8


def pointers_stay_in_the_heap(frame: SeenFrame) -> Iterator[Breach]:
    """DV2 (deep): every pointer is to bytes of the heap, and these are UTF-8."""
    return deep_look(frame, _pointers_inside)


def _pointers_inside(column: SeenColumn) -> Iterator[Breach]:
    one, heap = column.rows, column.part(names.HEAP) if column.has_pointers else None
    if one is None or heap is None or column.stored is None or not are_pointers(column.stored):
        return
    if not one.is_flat or not heap.is_flat or heap.stored is None or not _is_byte(heap.stored.type):
        return
    outside = pointer_outside(now_read(column, one), heap.length)
    if outside is not None:
        row, offset, length = outside
        message = f"the text of row {row} would lie outside the heap"
        found = f"{length} bytes from {offset}"
        yield Breach("error", one.path, message, found, f"within {heap.length} bytes")
        return
    broken = pointed_no_utf8(one, now_read(column, heap))
    if broken is not None:
        message = f"the text of row {broken[0]} is no UTF-8: readers refuse it"
        yield Breach("error", one.path, message, repr(broken[1][:60]), "UTF-8")
