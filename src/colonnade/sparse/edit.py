"""Create and change sectioned datasets in the bytes of a file: their chunks, chunk maps and messages.

Nothing here commits: bytes go to a `JournaledFile`, which makes a change atomic (`pager.journal`). A part that fits is
written where it was; a part that grows goes to free space of the array (`spare`) or to the end of the file, and the
end-of-file address in the superblock is updated.

A dataset's object header is a stub with one continuation message that points to the block with the real messages. A
stub fits into the header of any placeholder that HDF5 creates. A block that outgrows its space is moved.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from colonnade.errors import UnsupportedError
from colonnade.format.arrays import ExtensibleArrayHeader, FixedArrayHeader, encode_extensible_array, encode_fixed_array
from colonnade.format.btrees import TreeHeader, encode_tree
from colonnade.format.dataspace import encode_dataspace
from colonnade.format.datatype import encode_datatype
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
from colonnade.format.layout import FILTERED_SINGLE, MAP_NUMBERS, StorageLayout, encode_layout, record_tail, size_bytes
from colonnade.format.pipelines import encode_pipelines
from colonnade.format.records import ChunkRecord, RecordForm, Records, encode_records
from colonnade.format.source import CHECKSUM, HDF5Source, with_checksum
from colonnade.format.superblock import Superblock, read_superblock
from colonnade.format.values import encode_fill
from colonnade.model import StoredType
from colonnade.pager.journal import JournaledFile
from colonnade.pager.sources import JournaledBytes
from colonnade.sparse.chunk import Packed, Section
from colonnade.sparse.info import SparseInfo, chunk_map_of
from colonnade.sparse.spare import LEAST_ROOM, USUAL_ROOM, Spare, decode_spare, encode_note, encode_stamp

if TYPE_CHECKING:
    from colonnade.h5.files import FileHandle

_CONSTANT = 1  # flag of messages that never change
_STUB = 4 + 1 + 1 + 1 + 4 + 16 + CHECKSUM
_END_AT = {0: 40, 1: 44, 2: 28, 3: 28}  # superblock version: offset of the end-of-file address, for 8-byte addresses
_SUMMED_SUPERBLOCK = 44
_BLOCK_LEAD = 4 + CHECKSUM
_FILTER_NUMBERS = {"deflate": (0, 9), "shuffle": (1, 1 << 20), "zstd": (0, 22)}
_MESSAGE_LEAD = 4
_LONGEST_MESSAGE = 65_535
_SMALL_MAP = 256 << 10  # bytes: a smaller chunk map is never replaced by a B-tree
_EMPTIEST_MAP = 8  # the most slots per stored chunk before an array is replaced by a B-tree
_NO_ROWS = b"\3\1" + b"\xff" * 8 + bytes(8)  # layout message: contiguous, no address, no bytes


class Editor:
    """Reads and changes the bytes of a file by address."""

    def __init__(self, stream: JournaledFile, name: str) -> None:
        self._stream = stream
        self._end = stream.seek(0, 2)
        self._name = name
        self.block: Superblock
        self.block, self.source = read_superblock(JournaledBytes(stream, name))
        if (self.block.offset_size, self.block.length_size) != (8, 8):
            raise UnsupportedError(
                f"cannot change {name}: its addresses have {self.block.offset_size} bytes, its lengths "
                f"{self.block.length_size}, and only 8 are supported. Write its data to a new file",
                path=name,
            )

    def append(self, make: Callable[[int], bytes]) -> int:
        """Append bytes, which `make` builds for the address they get, and return that address."""
        address = self._end - self.source.base
        data = make(address)
        self._write(self._end, data)
        self._end += len(data)
        return address

    def append_parts(self, parts: Sequence[Section]) -> int:
        """Append parts one after another, and return the address of the first."""
        address = self._end - self.source.base
        self._stream.append(parts)
        self._end += sum(len(part) for part in parts)
        return address

    def put(self, address: int, data: bytes) -> None:
        self._write(self.source.base + address, data)

    def _write(self, at: int, data: Section) -> None:
        self._stream.seek(at)
        self._stream.write(memoryview(data))

    def renew(self) -> HDF5Source:
        """A source that includes everything written so far."""
        self.source = replace(self.source, file=JournaledBytes(self._stream, self._name))
        return self.source

    def finish(self) -> None:
        """Write the new end-of-file address to the superblock."""
        base = self.source.base
        self._write(base + _END_AT[self.block.version], struct.pack("<Q", self._end))
        if self.block.version >= 2:
            self.put(0, with_checksum(self.source.read(0, _SUMMED_SUPERBLOCK, "the superblock")))


def edit_file(handle: FileHandle, work: Callable[[Editor], None]) -> None:
    """Change the bytes of a file that is open for changes."""

    def change(stream: JournaledFile) -> None:
        editor = Editor(stream, handle.name)
        work(editor)
        editor.finish()

    handle.change_bytes(change)


def put_dataset(editor: Editor, header: int, info: SparseInfo) -> None:
    """Replace the dataset with this object header address by a sparse array without defined elements."""
    block = _sealed(_encode_messages(info), 0)
    address = editor.append(lambda _: block)
    editor.put(header, _encode_stub(address, len(block)))


def _encode_stub(address: int, length: int) -> bytes:
    stub = encode_header([(CONTINUATION, 0, struct.pack("<QQ", address, length))])
    if len(stub) != _STUB:
        raise AssertionError("a stub has one size")
    return stub


def _encode_messages(info: SparseInfo) -> bytes:
    """The messages of a dataset, concatenated."""
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
    """A continuation block of these messages with a checksum, padded with NIL messages to at least `length` bytes."""
    while (left := length - len(body) - _BLOCK_LEAD) >= _MESSAGE_LEAD:
        size = min(left - _MESSAGE_LEAD, _LONGEST_MESSAGE)
        body += struct.pack("<BHB", NIL, size, 0) + bytes(size)
    return with_checksum(b"OCHK" + body.ljust(length - _BLOCK_LEAD, b"\0"))


def retire(editor: Editor, header: int) -> None:
    """Turn a sparse array into an empty dataset that HDF5 can open and remove. Its chunks are left in the file."""
    address, length = _block_of(editor, header)
    messages = ((DATASPACE, b"\2\0\0\2"), (DATATYPE, encode_datatype(StoredType("integer", 1))), (LAYOUT, _NO_ROWS))
    body = b"".join(struct.pack("<BHB", kind, len(data), 0) + data for kind, data in messages)
    editor.put(address, _sealed(body, length))


def put_chunks(editor: Editor, header: int, info: SparseInfo, chunks: Iterable[Packed]) -> None:
    """Replace chunks (None removes one), and update the chunk map and the messages."""
    put_batches(editor, header, info, ([chunk] for chunk in chunks))


def put_batches(editor: Editor, header: int, info: SparseInfo, batches: Iterable[Sequence[Packed]]) -> None:
    """Replace chunks that come in batches; each batch is written before the next is requested."""
    _check_filters(info)
    before = list(_stored(editor.source, info))
    records = {record.grid: record for record in before}
    spare = _read_spare(editor, header)
    # Never trust a note of free space that overlaps live chunks.
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
        _give_map(editor, info, before, spare)  # only now: chunks may have been read through the old map
    layout = _put_map(editor, info, now, spare)  # a fixed array never changes its size
    put_messages(editor, header, replace(info, layout=layout), spare)


def _check_filters(info: SparseInfo) -> None:
    """Check filter options that only matter for packing, not for reading."""
    for step in (step for pipeline in info.pipelines for step in pipeline):
        low, high = _FILTER_NUMBERS.get(step.name, (0, 0))
        if high and (len(step.options) < 1 or not low <= step.options[0] <= high):
            text = f"filter {step.name} with the numbers {step.options}"
            raise UnsupportedError(f"{info.name}: cannot pack sections with {text}", feature=text, path=info.name)


def _put_batch(
    editor: Editor, spare: Spare, records: dict[tuple[int, ...], ChunkRecord], batch: Sequence[Packed]
) -> None:
    """Write chunks where they fit; those that fit nowhere are appended to the file in one write."""
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
    address = editor.append_parts([part for _, packed in grown for part in packed.sections]) if grown else 0
    for grid, packed in grown:
        records[grid] = packed.record(grid, address)
        address += packed.size


def _room_for(spare: Spare, old: ChunkRecord | None, size: int) -> int | None:
    """The old address of a chunk if it still fits there, else an address in free space, else None."""
    if old is not None and size <= old.size:
        spare.give(old.address + size, old.size - size)
        return old.address
    if old is not None:
        spare.give(old.address, old.size)
    return spare.take(size) if spare.runs else None


def _put(editor: Editor, spare: Spare, make: Callable[[int], bytes]) -> int:
    """Write bytes, which `make` builds for their address, to free space or the end of the file; return the address."""
    address = spare.take(len(make(0))) if spare.runs else None
    if address is None:
        return editor.append(make)
    editor.put(address, make(address))
    return address


def _give_map(editor: Editor, info: SparseInfo, records: Sequence[ChunkRecord], spare: Spare) -> None:
    """Free the space of an old chunk map, but only if it is byte for byte as we would write it: then its length is
    known."""
    address = info.layout.address
    if info.layout.map == "single" or address is None or not records or _suiting_layout(info, records) != info.layout:
        return
    encoded = _encode_map(info, sorted(records, key=lambda record: record.grid))(address)
    source = editor.source
    if address + len(encoded) <= source.fits and source.read(address, len(encoded), "chunk map") == encoded:
        spare.give(address, len(encoded))


def put_records(editor: Editor, header: int, info: SparseInfo, records: Sequence[ChunkRecord]) -> None:
    """Write the chunk map of these records, sorted by grid index, and the messages that point to it."""
    put_messages(editor, header, replace(info, layout=_put_map(editor, info, records)))


def _stored(source: HDF5Source, info: SparseInfo) -> Iterable[ChunkRecord]:
    for records in chunk_map_of(info, source).read_all():
        yield from records


def put_messages(editor: Editor, header: int, info: SparseInfo, spare: Spare | None = None) -> None:
    """Write the block of messages again, in place, or elsewhere if it has outgrown its space.

    spare: the free space; by default it is read from the array's note.
    """
    spare = _read_spare(editor, header) if spare is None else spare
    block, length = _block_of(editor, header)
    body = _encode_messages(info)
    needed = len(body) + _BLOCK_LEAD
    if needed > length or (spare.largest(USUAL_ROOM) and length - needed < LEAST_ROOM + _MESSAGE_LEAD):
        spare.give(block, length)
        new = needed + USUAL_ROOM + _MESSAGE_LEAD
        block, length = _put(editor, spare, lambda _: bytes(new)), new
        editor.put(header, _encode_stub(block, length))
    noted = spare.largest(length - needed - _MESSAGE_LEAD)
    if noted:
        note = encode_note(noted)
        body += struct.pack("<BHB", NIL, len(note), 0) + note
    editor.put(block, _sealed(body, length))
    for address, size in noted:
        if (address, size) not in spare.stamped:
            editor.put(address, encode_stamp(header, size))


def _read_spare(editor: Editor, header: int) -> Spare:
    """The free space listed in the note of an array's header, limited to runs that have a valid stamp."""
    source = editor.source
    fields = source.summed(*_block_of(editor, header), "object header continuation")
    fields.take(4)
    while fields.left >= _MESSAGE_LEAD:
        kind, size = fields.number(1), fields.number(2)
        fields.take(1)
        data = fields.take(size)
        spare = decode_spare(source, data, header) if kind == NIL else None
        if spare is not None:
            return spare
    return Spare()


def _block_of(editor: Editor, header: int) -> tuple[int, int]:
    """Address and length of the block of messages of a dataset that colonnade created."""
    stub = editor.source.fields(header, _STUB, "object header")
    stub.expect(b"OHDR\2\0\x14\x10\x10\0\0", "a stub of ours")
    return stub.number(8), stub.number(8)


def record_form(info: SparseInfo) -> RecordForm:
    """The binary form of the chunk records."""
    layout = info.layout
    width = size_bytes(layout.chunk_elements * layout.element_size, layout.n_sections)
    return RecordForm(8, width, len(layout.chunk) if layout.map == "b-tree" else 0, layout.n_sections, info.filtered)


def empty_single(info: SparseInfo) -> tuple[int, bytes]:
    """The flags and the record in the layout message of a single chunk that is not stored yet."""
    form = record_form(info)
    flags = FILTERED_SINGLE if info.filtered else 0
    return flags, bytes(form.size_bytes + record_tail(form.n_sections, form.filtered))


def _put_map(
    editor: Editor, info: SparseInfo, records: Sequence[ChunkRecord], spare: Spare | None = None
) -> StorageLayout:
    """Write the chunk map of these records, and return the layout that points to it."""
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


def _suiting_layout(info: SparseInfo, records: Sequence[ChunkRecord]) -> StorageLayout:
    """The layout, with a B-tree instead of an array that would be mostly empty: a B-tree only has stored chunks.

    A fixed array has a slot for every possible chunk, an extensible array for every chunk up to the last stored one.
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
    """A function that encodes the chunk map of these records, sorted by grid index, for the address it gets."""
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
    """The slot of each chunk in an array, and the number of slots (for a fixed array)."""
    limits = info.space.max_shape
    free = [axis for axis, limit in enumerate(limits) if limit is None]
    order = [*free, *(axis for axis in range(len(limits)) if axis not in free)]
    counts = [-(-(limits[axis] or 0) // info.layout.chunk[axis]) for axis in order]
    steps = [prod(counts[number + 1 :]) for number in range(len(order))]
    slots = [sum(record.grid[axis] * step for axis, step in zip(order, steps, strict=True)) for record in records]
    return slots, prod(counts)


def _spread(
    rows: np.ndarray[tuple[int, int], np.dtype[np.uint8]], slots: list[int], n_slots: int
) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """The elements in their slots; all other slots are empty."""
    elements = np.zeros((n_slots, rows.shape[1]), dtype=np.uint8)
    elements[:, :8] = 0xFF
    elements[slots] = rows
    return elements
