"""Sectioned datasets changed in the bytes of a file: made, and their chunks, chunk map and messages replaced.

Nothing here commits: bytes go to a `JournaledFile`, so that a change is there completely or not
at all (`pager.journal`).
What fits is put where it was; what grows goes to a place that the array has left behind (`spare`), or behind the end of
the file, and the superblock is told.

A dataset's object header is a stub with one continuation message; the messages stand in the block it leads to. A stub
fits into the header of any placeholder that HDF5 makes. A block that outgrows its place is put elsewhere.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from colonnade.errors import UnsupportedError
from colonnade.format.btree2 import TreeHeader, encode_tree
from colonnade.format.chunk_maps import ChunkMap
from colonnade.format.dataspace import encode_dataspace
from colonnade.format.datatype import encode_datatype
from colonnade.format.extensible_array import ExtensibleArrayHeader, encode_extensible_array
from colonnade.format.fill import encode_fill
from colonnade.format.fixed_array import FixedArrayHeader, encode_fixed_array
from colonnade.format.headers import (
    ATTRIBUTE,
    CONTINUATION,
    DATASPACE,
    DATATYPE,
    FILL,
    LAYOUT,
    NIL,
    PIPELINE,
    encode_header,
)
from colonnade.format.layout import FILTERED_SINGLE, MAP_NUMBERS, Layout, encode_layout, record_tail, size_bytes
from colonnade.format.pipelines import encode_pipelines
from colonnade.format.records import ChunkRecord, RecordForm, Records, encode_records
from colonnade.format.source import CHECKSUM, Source, with_checksum
from colonnade.format.superblock import Superblock, read_superblock
from colonnade.model import StoredType
from colonnade.pager.journal import JournaledFile
from colonnade.sparse.chunk import SparseInfo
from colonnade.sparse.pack import Packed, Section
from colonnade.sparse.spare import LEAST_ROOM, USUAL_ROOM, Spare, decode_spare, encode_note, encode_stamp

_CONSTANT = 1  # flag of messages that never change
_STUB = 4 + 1 + 1 + 1 + 4 + 16 + CHECKSUM
_END_AT = {0: 40, 1: 44, 2: 28, 3: 28}  # where superblocks of 8-byte addresses keep the end of the file
_SUMMED_SUPERBLOCK = 44
_BLOCK_LEAD = 4 + CHECKSUM
_FILTER_NUMBERS = {"deflate": (0, 9), "shuffle": (1, 1 << 20), "zstd": (0, 22)}
_MESSAGE_LEAD = 4
_LONGEST_MESSAGE = 65_535
_SMALL_MAP = 256 << 10  # bytes of a chunk map that is not looked at again
_EMPTIEST_MAP = 8  # slots of an array per chunk that is stored
_NO_ROWS = b"\3\1" + b"\xff" * 8 + bytes(8)  # layout message: contiguous, nowhere, no bytes


class Editor:
    """The bytes of a file, by address, to be read and changed."""

    def __init__(self, stream: JournaledFile, name: str) -> None:
        self._stream = stream
        self._end = stream.seek(0, 2)
        self._name = name
        self.block: Superblock
        self.block, self.source = read_superblock(Source(name, self._end, stream.read_at))
        if (self.block.offset_size, self.block.length_size) != (8, 8):
            raise UnsupportedError(f"{name} has addresses of {self.block.offset_size} bytes; 8 are written", path=name)

    def append(self, make: Callable[[int], bytes]) -> int:
        """Bytes behind the end, made for the address they get; that address."""
        address = self._end - self.source.base
        data = make(address)
        self._write(self._end, data)
        self._end += len(data)
        return address

    def append_parts(self, parts: Sequence[Section]) -> int:
        """Bytes behind the end, one part behind the other; their address."""
        address = self._end - self.source.base
        self._stream.append(parts)
        self._end += sum(len(part) for part in parts)
        return address

    def put(self, address: int, data: bytes) -> None:
        self._write(self.source.base + address, data)

    def _write(self, at: int, data: Section) -> None:
        self._stream.seek(at)
        self._stream.write(memoryview(data))

    def renew(self) -> Source:
        """The file to be read, with all that was put into it."""
        self.source = replace(self.source, size=self._end)
        return self.source

    def finish(self) -> None:
        """Tell the superblock where the file ends now."""
        base = self.source.base
        self._write(base + _END_AT[self.block.version], struct.pack("<Q", self._end))
        if self.block.version >= 2:
            head = self._stream.read_at(base, _SUMMED_SUPERBLOCK)
            self._write(base, with_checksum(head))


def put_dataset(editor: Editor, header: int, info: SparseInfo) -> None:
    """A dataset in which nothing is defined, in the place of the one whose object header is at an address."""
    block = _sealed(_encode_messages(info), 0)
    place = editor.append(lambda _: block)
    editor.put(header, _encode_stub(place, len(block)))


def _encode_stub(place: int, length: int) -> bytes:
    stub = encode_header([(CONTINUATION, 0, struct.pack("<QQ", place, length))])
    if len(stub) != _STUB:
        raise AssertionError("a stub has one size")
    return stub


def _encode_messages(info: SparseInfo) -> bytes:
    """The messages of a dataset, one behind the other."""
    messages = [
        (DATASPACE, 0, encode_dataspace(info.space)),
        (DATATYPE, _CONSTANT, encode_datatype(info.type)),
        (FILL, _CONSTANT, encode_fill(info.fill)),
    ]
    if info.filtered:
        messages.append((PIPELINE, _CONSTANT, encode_pipelines(dict(enumerate(info.pipelines)))))
    messages.append((LAYOUT, 0, encode_layout(info.layout)))
    messages += [(ATTRIBUTE, 0, data) for data in info.attributes]
    messages += [(kind, 0, data) for kind, data in info.others]
    return b"".join(struct.pack("<BHB", kind, len(data), flags) + data for kind, flags, data in messages)


def _sealed(body: bytes, length: int) -> bytes:
    """A block of these messages, in at least so many bytes."""
    while (left := length - len(body) - _BLOCK_LEAD) >= _MESSAGE_LEAD:
        size = min(left - _MESSAGE_LEAD, _LONGEST_MESSAGE)
        body += struct.pack("<BHB", NIL, size, 0) + bytes(size)
    return with_checksum(b"OCHK" + body.ljust(length - _BLOCK_LEAD, b"\0"))


def retire(editor: Editor, header: int) -> None:
    """Make an empty dataset that HDF5 can read, and remove, of one that it cannot. Its chunks stay where they are."""
    place, length = _block_of(editor, header)
    messages = ((DATASPACE, b"\2\0\0\2"), (DATATYPE, encode_datatype(StoredType("integer", 1))), (LAYOUT, _NO_ROWS))
    body = b"".join(struct.pack("<BHB", kind, len(data), 0) + data for kind, data in messages)
    editor.put(place, _sealed(body, length))


def put_chunks(editor: Editor, header: int, info: SparseInfo, chunks: Iterable[Packed]) -> None:
    """Chunks put in the place of those that are there (None: taken away), and the chunk map and messages with them."""
    put_batches(editor, header, info, ([one] for one in chunks))


def put_batches(editor: Editor, header: int, info: SparseInfo, batches: Iterable[Sequence[Packed]]) -> None:
    """The same of chunks that come several at a time: each batch is written before the next is asked for."""
    _check_filters(info)
    before = list(_stored(editor.source, info))
    records = {record.grid: record for record in before}
    spare = _read_spare(editor, header)
    if not spare.is_apart((record.address, record.size) for record in before):
        spare = Spare()
    n_changed = 0
    for batch in batches:
        n_changed += len(batch)
        _put_batch(editor, spare, records, batch)
    if not n_changed:
        put_messages(editor, header, info)
        return
    now = [records[grid] for grid in sorted(records)]
    if info.layout.map != "fixed array" or not now or _suiting_layout(info, now) != info.layout:
        _give_map(editor, info, before, spare)  # chunks may have been read by way of it until now
    layout = _put_map(editor, info, now, spare)  # that of a fixed array has the same size for ever
    put_messages(editor, header, replace(info, layout=layout), spare)


def _check_filters(info: SparseInfo) -> None:
    """Numbers of filters that reading does not need, but packing does."""
    for step in (step for pipeline in info.pipelines for step in pipeline):
        low, high = _FILTER_NUMBERS.get(step.name, (0, 0))
        if high and (len(step.options) < 1 or not low <= step.options[0] <= high):
            text = f"filter {step.name} with the numbers {step.options}"
            raise UnsupportedError(f"{info.name}: sections cannot be packed by {text}", feature=text, path=info.name)


def _put_batch(
    editor: Editor, spare: Spare, records: dict[tuple[int, ...], ChunkRecord], batch: Sequence[Packed]
) -> None:
    """Chunks in their places; those that nothing has room for go behind the end together."""
    grown = []
    for grid, packed in batch:
        old = records.pop(grid, None)
        if packed is None:
            if old is not None:
                spare.give(old.address, old.size)
            continue
        address = _room_for(spare, old, packed.size)
        if address is None:
            grown.append((grid, packed))
        else:
            editor.put(address, packed.data)
            records[grid] = packed.record(grid, address)
    behind = editor.append_parts([part for _, packed in grown for part in packed.sections]) if grown else 0
    for grid, packed in grown:
        records[grid] = packed.record(grid, behind)
        behind += packed.size


def _room_for(spare: Spare, old: ChunkRecord | None, size: int) -> int | None:
    """Where a chunk was, if it fits there, or a place that is free."""
    if old is not None and size <= old.size:
        spare.give(old.address + size, old.size - size)
        return old.address
    if old is not None:
        spare.give(old.address, old.size)
    return spare.take(size) if spare.runs else None


def _put(editor: Editor, spare: Spare, make: Callable[[int], bytes]) -> int:
    """Bytes, made for the address they get, in a place that is free or behind the end; that address."""
    address = spare.take(len(make(0))) if spare.runs else None
    if address is None:
        return editor.append(make)
    editor.put(address, make(address))
    return address


def _give_map(editor: Editor, info: SparseInfo, records: Sequence[ChunkRecord], spare: Spare) -> None:
    """Make the place of an old chunk map free, if it is one that was written here: then its length is known."""
    address = info.layout.address
    if info.layout.map == "single" or address is None or not records or _suiting_layout(info, records) != info.layout:
        return
    made = _encode_map(info, sorted(records, key=lambda one: one.grid))(address)
    source = editor.source
    if address + len(made) <= source.fits and source.read(address, len(made), "chunk map") == made:
        spare.give(address, len(made))


def put_records(editor: Editor, header: int, info: SparseInfo, records: Sequence[ChunkRecord]) -> None:
    """The chunk map of these records, in the order of their places, and the messages that lead to it."""
    put_messages(editor, header, replace(info, layout=_put_map(editor, info, records)))


def _stored(source: Source, info: SparseInfo) -> Iterable[ChunkRecord]:
    for records in ChunkMap(source, info.layout, info.space, info.filtered).read_all():
        yield from records


def put_messages(editor: Editor, header: int, info: SparseInfo, spare: Spare | None = None) -> None:
    """The block of messages written anew, where it is, or elsewhere if it has outgrown that.

    spare: what is free now; as the note says when it is not given.
    """
    spare = _read_spare(editor, header) if spare is None else spare
    place, length = _block_of(editor, header)
    body = _encode_messages(info)
    needed = len(body) + _BLOCK_LEAD
    if needed > length or (spare.largest(USUAL_ROOM) and length - needed < LEAST_ROOM + _MESSAGE_LEAD):
        spare.give(place, length)
        new = needed + USUAL_ROOM + _MESSAGE_LEAD
        place, length = _put(editor, spare, lambda _: bytes(new)), new
        editor.put(header, _encode_stub(place, length))
    noted = spare.largest(length - needed - _MESSAGE_LEAD)
    if noted:
        note = encode_note(noted)
        body += struct.pack("<BHB", NIL, len(note), 0) + note
    editor.put(place, _sealed(body, length))
    for address, size in noted:
        if (address, size) not in spare.stamped:
            editor.put(address, encode_stamp(header, size))


def _read_spare(editor: Editor, header: int) -> Spare:
    """What the note in the header of an array says is free, where the stamps there say so too."""
    source = editor.source
    fields = source.summed(*_block_of(editor, header), "object header continuation")
    fields.take(4)
    while fields.left >= _MESSAGE_LEAD:
        kind, size = fields.number(1), fields.number(2)
        fields.take(1)
        data = fields.take(size)
        found = decode_spare(source, data, header) if kind == NIL else None
        if found is not None:
            return found
    return Spare()


def _block_of(editor: Editor, header: int) -> tuple[int, int]:
    """Where the messages of a dataset that was made here are, and how many bytes they have."""
    stub = editor.source.fields(header, _STUB, "object header")
    stub.expect(b"OHDR\2\0\x14\x10\x10\0\0", "a stub of ours")
    return stub.number(8), stub.number(8)


def record_form(info: SparseInfo) -> RecordForm:
    """How the records of chunks are written."""
    layout = info.layout
    width = size_bytes(layout.chunk_elements * layout.element_size, layout.n_sections)
    return RecordForm(8, width, len(layout.chunk) if layout.map == "b-tree" else 0, layout.n_sections, info.filtered)


def empty_single(info: SparseInfo) -> tuple[int, bytes]:
    """Flags, and the record in the layout message, of a single chunk that is not there yet."""
    form = record_form(info)
    flags = FILTERED_SINGLE if info.filtered else 0
    return flags, bytes(form.size_bytes + record_tail(form.n_sections, form.filtered))


def _put_map(editor: Editor, info: SparseInfo, records: Sequence[ChunkRecord], spare: Spare | None = None) -> Layout:
    """The chunk map of these records, and the layout that leads to it."""
    info = replace(info, layout=_suiting_layout(info, records))
    layout, form = info.layout, record_form(info)
    if any(record.size >= 1 << 8 * form.size_bytes for record in records):
        raise UnsupportedError(f"{info.name}: a chunk is too large for its record", path=info.name)
    if layout.map == "single":
        if not records:
            return replace(layout, address=None, single=bytes(len(layout.single)))
        data = encode_records(_as_records(records, form), form)
        return replace(layout, address=records[0].address, single=data[8:])
    if not records:
        return replace(layout, address=None)
    if layout.map == "fixed array" and layout.address is not None:
        editor.put(layout.address, _encode_map(info, records)(layout.address))
        return layout
    return replace(layout, address=_put(editor, Spare() if spare is None else spare, _encode_map(info, records)))


def _suiting_layout(info: SparseInfo, records: Sequence[ChunkRecord]) -> Layout:
    """The layout with a B-tree in the place of an array that would be mostly empty: its size goes by what is stored.

    An array has a slot for every chunk there can be (of one that can grow: up to the last that is stored).
    """
    layout = info.layout
    if layout.map not in ("fixed array", "extensible array") or not records:
        return layout
    slots, n_slots = _slots(info, records)
    size = (n_slots if layout.map == "fixed array" else max(slots) + 1) * record_form(info).length
    if size <= max(_SMALL_MAP, _EMPTIEST_MAP * len(records) * record_form(info).length):
        return layout
    return replace(layout, map="b-tree", numbers=MAP_NUMBERS["b-tree"], address=None)


def _encode_map(info: SparseInfo, records: Sequence[ChunkRecord]) -> Callable[[int], bytes]:
    """The chunk map of these records, in the order of their places, for the address it gets."""
    layout, form = info.layout, record_form(info)
    rows = np.frombuffer(encode_records(_as_records(records, form), form), dtype=np.uint8).reshape(-1, form.length)
    version = 1 if layout.dialect == "prototype" else 0
    if layout.map == "b-tree":
        size, split, merge = layout.numbers
        kind = 13 if info.filtered else 12
        tree = TreeHeader(version, kind, size, form.length, 0, split, merge, None, 0, 0)
        return lambda at: encode_tree(tree, [row.tobytes() for row in rows], at)
    slots, n_slots = _slots(info, records)
    client = 3 if info.filtered else 2
    if layout.map == "fixed array":
        fixed = FixedArrayHeader(version, client, form.length, layout.numbers[0], n_slots, None)
        return lambda at: encode_fixed_array(fixed, _spread(rows, slots, n_slots), at)
    bits, inside, pointers, least, page = layout.numbers
    array = ExtensibleArrayHeader(version, client, form.length, bits, inside, least, pointers, page, 0, None)
    return lambda at: encode_extensible_array(array, _spread(rows, slots, max(slots) + 1), at)


def _as_records(records: Sequence[ChunkRecord], form: RecordForm) -> Records:
    return Records(
        np.array([record.grid for record in records], dtype=np.int64),
        np.array([record.address for record in records], dtype=np.uint64),
        np.array([record.bounds for record in records], dtype=np.uint64),
        np.array([record.unfiltered for record in records], dtype=np.uint64),
        np.array([record.masks for record in records], dtype=np.uint64),
    )


def _slots(info: SparseInfo, records: Sequence[ChunkRecord]) -> tuple[list[int], int]:
    """The number of each chunk in an array, and how many there can be (of a fixed array)."""
    limits = info.space.max_shape
    free = [axis for axis, limit in enumerate(limits) if limit is None]
    order = [*free, *(axis for axis in range(len(limits)) if axis not in free)]
    counts = [-(-(limits[axis] or 0) // info.layout.chunk[axis]) for axis in order]
    steps = [prod(counts[place + 1 :]) for place in range(len(order))]
    slots = [sum(record.grid[axis] * step for axis, step in zip(order, steps, strict=True)) for record in records]
    return slots, prod(counts)


def _spread(
    rows: np.ndarray[tuple[int, int], np.dtype[np.uint8]], slots: list[int], n_slots: int
) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Elements at their slots, the others empty."""
    made = np.zeros((n_slots, rows.shape[1]), dtype=np.uint8)
    made[:, :8] = 0xFF
    made[slots] = rows
    return made
