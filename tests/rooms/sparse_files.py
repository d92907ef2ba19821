"""Files with a sectioned dataset, put together byte by byte as the facts page says. Shares no code with the room.

`SparseFile` writes the chunks, the chunk map and the messages of one dataset, in any dialect and form; `in_new_file`
puts it into a file of its own, `in_h5_file` in the place of a dataset that h5py made.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade import kernels

NOWHERE = b"\xff" * 8
INT32 = bytes.fromhex("10080000 04000000 0000 2000".replace(" ", ""))
FLOAT64 = bytes.fromhex("11203f00 08000000 0000 4000 34 0b 00 34 ff030000".replace(" ", ""))
EA = {"max_bits": 32, "inside": 4, "pointers": 4, "elements": 16, "page_bits": 10}

DIES_IN_COMMIT = """
import colonnade as cn, os, sys
from colonnade.pager import disk
from colonnade.h5 import files
truncate = disk.DISK.truncate
def cut(descriptor, length):
    if os.fstat(descriptor).st_size > length:
        os._exit(7)  # at the mark of half a commit, whose end is the commit
    truncate(descriptor, length)
disk.DISK.truncate = cut
"""
"""The start of a program that dies in the middle of its first commit that overwrites bytes, with exit code 7."""


def summed(data: bytes) -> bytes:
    return data + struct.pack("<I", kernels.lookup3(data))


def log2(number: int) -> int:
    return number.bit_length() - 1


@dataclass
class SparseFile:
    """One dataset to be written. `cells`: coordinates to the bytes of values."""

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    cells: Mapping[Any, bytes]
    datatype: bytes = INT32
    element_size: int = 4
    max_shape: tuple[int | None, ...] | None = None
    dialect: str = "sectioned"
    map: str = "fixed array"
    type: int = 1
    flags: int = 0
    filters: dict[int, list[tuple[int, tuple[int, ...]]]] = field(default_factory=dict)
    selection: str = "blocks 3"
    index_version: int = 0
    fill: bytes = b"\x03\x0b"
    page_bits: int = 10
    node_size: int = 2048
    ea: dict[str, int] = field(default_factory=lambda: dict(EA))
    heap: bytes | None = None
    trailing: int = 0
    skip: dict[int, int] = field(default_factory=dict)
    old_space: bool = False

    def __post_init__(self) -> None:
        self.max_shape = self.max_shape if self.max_shape is not None else self.shape
        self.n_sections = 2 if self.heap is None else 3
        self.summed: tuple[int, ...] = (0,) if self.heap is None else (0, 1, 2)
        if self.type == 2:
            self.n_sections, self.summed = 2, (0, 1)

    # -- chunks --

    def section_0(self, inside: list[tuple[int, ...]]) -> bytes:
        rank = len(self.chunk)
        extent = struct.pack(f"<BBB5x{2 * rank}Q", 1, rank, 1, *self.chunk, *self.chunk)
        if self.old_space:  # version 2, without maxima
            extent = struct.pack(f"<BBBB{rank}Q", 2, rank, 0, 1, *self.chunk)
        lead = b"\x01\x00\x08" + struct.pack("<I", len(extent)) + extent
        kind, _, version = self.selection.partition(" ")
        flat = [one for cell in inside for one in cell]
        n = len(inside)
        if kind == "all":
            return lead + struct.pack("<IIII", 3, 1, 0, 0)
        if kind == "points" and version == "1":
            body = struct.pack(f"<II{len(flat)}I", rank, n, *flat)
            return lead + struct.pack("<IIII", 1, 1, 0, len(body)) + body
        if kind == "points":
            width, letter = (2, "H") if version == "2" else (8, "Q")
            return lead + struct.pack(f"<IIBI{letter}{len(flat)}{letter}", 1, 2, width, rank, n, *flat)
        if kind == "regular":
            (low, step, count, block) = self.regular(inside)
            numbers = [x for axis in range(rank) for x in (low[axis], step[axis], count[axis], block[axis])]
            if version == "2":
                return lead + struct.pack(f"<IIBII{4 * rank}Q", 2, 2, 1, 4 + 32 * rank, rank, *numbers)
            return lead + struct.pack(f"<IIBBI{4 * rank}H", 2, 3, 1, 2, rank, *numbers)
        ends = [one for first, last in self.blocks(inside) for one in (*first, *last)]
        n = len(ends) // (2 * rank)
        if version == "1":
            body = struct.pack(f"<II{len(ends)}I", rank, n, *ends)
            return lead + struct.pack("<IIII", 2, 1, 0, len(body)) + body
        width, letter = {"3": (2, "H"), "3 wide": (4, "I"), "3 widest": (8, "Q")}[version]
        return lead + struct.pack(f"<IIBBI{letter}{len(ends)}{letter}", 2, 3, 0, width, rank, n, *ends)

    def blocks(self, inside: list[tuple[int, ...]]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Runs along the last dimension; with rank 2, equal runs below each other are one block."""
        runs: list[list[tuple[int, ...]]] = []
        for cell in sorted(inside):
            last = runs[-1][1] if runs else None
            if last is not None and last[:-1] == cell[:-1] and last[-1] + 1 == cell[-1]:
                runs[-1][1] = cell
            else:
                runs.append([cell, cell])
        merged: list[list[tuple[int, ...]]] = []
        for first, last in runs:
            for one in merged:
                if len(first) == 2 and one[1][0] + 1 == first[0] and one[0][1] == first[1] and one[1][1] == last[1]:
                    one[1] = last
                    break
            else:
                merged.append([first, last])
        return [(first, last) for first, last in merged]

    def regular(self, inside: list[tuple[int, ...]]) -> tuple[list[int], list[int], list[int], list[int]]:
        """Every second or single element; the cells must be such a pattern."""
        axes = [sorted({cell[axis] for cell in inside}) for axis in range(len(self.chunk))]
        assert len(inside) == prod(len(one) for one in axes)
        steps = [one[1] - one[0] if len(one) > 1 else 1 for one in axes]
        return [one[0] for one in axes], steps, [len(one) for one in axes], [1] * len(axes)

    def grid(self) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
        """Cells of each chunk, relative to it, in the order of their values."""
        found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for cell in self.cells:
            place = tuple(at // size for at, size in zip(cell, self.chunk, strict=True))
            found.setdefault(place, []).append(tuple(at % size for at, size in zip(cell, self.chunk, strict=True)))
        if not self.selection.startswith("points"):
            found = {place: sorted(inside) for place, inside in found.items()}
        return found

    def sections(self, place: tuple[int, ...], inside: list[tuple[int, ...]]) -> list[bytes]:
        def value(cell: tuple[int, ...]) -> bytes:
            return self.cells[tuple(p * c + x for p, c, x in zip(place, self.chunk, cell, strict=True))]

        if self.type == 2:
            whole = [value(cell) for cell in product(*(range(size) for size in self.chunk))]
            parts = [b"".join(whole), self.heap or b""]
        else:
            parts = [self.section_0(inside), b"".join(value(cell) for cell in inside)]
            parts += [] if self.heap is None else [self.heap]
        return [summed(part) if number in self.summed and part else part for number, part in enumerate(parts)]

    def filtered(self, number: int, data: bytes, edge: bool) -> bytes:
        if self.flags & 1 and edge:
            return data
        for place, (kind, options) in enumerate(self.filters.get(number, [])):
            if self.skip.get(number, 0) >> place & 1:
                continue
            if kind == 1:
                data = zlib.compress(data, options[0])
            elif kind == 2:
                whole = len(data) // options[0] * options[0]
                data = np.frombuffer(data[:whole], "u1").reshape(-1, options[0]).T.tobytes() + data[whole:]
            elif kind == 3:
                data += struct.pack("<I", kernels.fletcher32(data))
            else:
                data = pa.compress(data, codec="zstd", asbytes=True)
        return data

    @property
    def any_filters(self) -> bool:
        return any(self.filters.values())

    @property
    def width(self) -> int:
        whole = prod(self.chunk) * self.element_size
        return 8 if self.n_sections == 3 else min(8, 1 + (log2(whole) + 8) // 8)

    def write_chunks(self, out: bytearray) -> dict[tuple[int, ...], tuple[bytes, bytes]]:
        """Chunks appended; of each what its record says before and behind its place."""
        records = {}
        for place, inside in sorted(self.grid().items()):
            parts = self.sections(place, inside)
            ends = zip(place, self.chunk, self.shape, strict=True)
            edge = any((at + 1) * size > limit for at, size, limit in ends)
            stored = [self.filtered(number, part, edge) for number, part in enumerate(parts)]
            starts = np.cumsum([0] + [len(part) for part in stored]).tolist()
            tail = struct.pack(f"<{self.n_sections - 1}Q", *starts[1:-1])
            if self.any_filters:
                tail += struct.pack(f"<{self.n_sections}Q", *(len(part) for part in parts))
                tail += struct.pack(f"<{self.n_sections}I", *(self.skip.get(n, 0) for n in range(self.n_sections)))
            records[place] = (struct.pack("<Q", len(out)) + starts[-1].to_bytes(self.width, "little"), tail)
            out += b"".join(stored)
        return records

    # -- chunk maps --

    def write_map(self, out: bytearray) -> tuple[int, bytes, bytes]:
        """Type of the map, what the layout message says of it, its address."""
        records = self.write_chunks(out)
        tail = 8 * (self.n_sections - 1) + (12 * self.n_sections if self.any_filters else 0)
        if self.map == "single":
            if not records:
                return 1, bytes(self.width + tail), NOWHERE
            ((head, rest),) = records.values()
            return 1, head[8:] + rest, head[:8]
        size = 8 + self.width + tail
        if self.map == "b-tree":
            rank = len(self.chunk)
            rows = [head + struct.pack(f"<{rank}Q", *place) + rest for place, (head, rest) in sorted(records.items())]
            return 5, struct.pack("<IBB", self.node_size, 100, 40), self.write_tree(out, rows, size + 8 * rank)
        assert self.max_shape is not None
        free = [axis for axis, limit in enumerate(self.max_shape) if limit is None]
        order = free + [axis for axis in range(len(self.shape)) if axis not in free]
        counts = [-(-(self.max_shape[axis] or 0) // self.chunk[axis]) for axis in order]
        slots = {}
        for place, (head, rest) in records.items():
            number = 0
            for axis, count in zip(order, counts, strict=True):
                number = number * count + place[axis]
            slots[number] = head + rest
        empty = NOWHERE + bytes(size - 8)
        if self.map == "fixed array":
            return 3, bytes((self.page_bits,)), self.write_fixed(out, slots, prod(counts), empty)
        ea = self.ea
        numbers = bytes((ea["max_bits"], ea["inside"], ea["pointers"], ea["elements"], ea["page_bits"]))
        return 4, numbers, self.write_extensible(out, slots, empty)

    @property
    def client(self) -> int:
        return 3 if self.any_filters else 2

    def write_fixed(self, out: bytearray, slots: dict[int, bytes], n: int, empty: bytes) -> bytes:
        address = len(out)
        block = address + 28
        head = b"FAHD" + bytes((self.index_version, self.client, len(empty), self.page_bits))
        out += summed(head + struct.pack("<QQ", n, block))
        data = b"FADB" + bytes((self.index_version, self.client)) + struct.pack("<Q", address)
        page = 1 << self.page_bits
        if n <= page:
            out += summed(data + b"".join(slots.get(slot, empty) for slot in range(n)))
            return struct.pack("<Q", address)
        n_pages = -(-n // page)
        bitmap = bytearray(-(-n_pages // 8))
        for slot in slots:
            bitmap[slot // page // 8] |= 0x80 >> slot // page % 8
        out += summed(data + bytes(bitmap))
        for number in range(n_pages):
            count = min(page, n - number * page)
            there = bitmap[number // 8] << number % 8 & 0x80
            rows = b"".join(slots.get(number * page + i, empty) for i in range(count))
            out += summed(rows) if there else b"\xa5" * (len(rows) + 4)
        return struct.pack("<Q", address)

    def write_extensible(self, out: bytearray, slots: dict[int, bytes], empty: bytes) -> bytes:
        ea, size = self.ea, len(empty)
        head_lead = bytes((self.index_version, self.client))
        offset_bytes = -(-ea["max_bits"] // 8)
        address = len(out)
        out += bytes(72)
        own = struct.pack("<Q", address)
        page = 1 << ea["page_bits"]

        def data_block(first: int, elements: int, offset: int) -> tuple[bytes, list[int]]:
            """The block, appended; its address, and which of its pages are there."""
            if not any(first <= slot < first + elements for slot in slots):
                return NOWHERE, []
            at = len(out)
            lead = b"EADB" + head_lead + own + offset.to_bytes(offset_bytes, "little")
            rows = [slots.get(first + i, empty) for i in range(elements)]
            if elements <= page:
                out.extend(summed(lead + b"".join(rows)))
                return struct.pack("<Q", at), []
            out.extend(summed(lead))
            there = []
            for number in range(elements // page):
                part = rows[number * page : (number + 1) * page]
                full = any(one != empty for one in part)
                there += [number] if full else []
                out.extend(summed(b"".join(part)) if full else b"\x5a" * (page * size + 4))
            return struct.pack("<Q", at), there

        blocks, supers, start = b"", b"", ea["inside"]
        for u in range(1 + ea["max_bits"] - log2(ea["elements"])):
            n_blocks, elements = 1 << u // 2, ea["elements"] << (u + 1) // 2
            used = any(start <= slot < start + n_blocks * elements for slot in slots)
            if u < 2 * log2(ea["pointers"]):
                for j in range(n_blocks):
                    blocks += data_block(start + j * elements, elements, start)[0]
            elif used:
                n_pages = elements // page if elements > page else 0
                bitmap = bytearray(n_blocks * -(-n_pages // 8))
                places = b""
                for j in range(n_blocks):
                    place, there = data_block(start + j * elements, elements, start + j * elements - ea["inside"])
                    places += place
                    for number in there:
                        bitmap[(j * n_pages + number) // 8] |= 0x80 >> (j * n_pages + number) % 8
                supers += struct.pack("<Q", len(out))
                lead = b"EASB" + head_lead + own + (start - ea["inside"]).to_bytes(offset_bytes, "little")
                out += summed(lead + bytes(bitmap) + places)
            else:
                supers += NOWHERE
            start += n_blocks * elements
        index_block = len(out)
        inside = b"".join(slots.get(slot, empty) for slot in range(ea["inside"]))
        out += summed(b"EAIB" + head_lead + own + inside + blocks + supers)
        numbers = bytes((size, ea["max_bits"], ea["inside"], ea["elements"], ea["pointers"], ea["page_bits"]))
        counts = struct.pack("<6Q", 0, 0, 0, 0, max(slots, default=-1) + 1, 0)
        out[address : address + 72] = summed(b"EAHD" + head_lead + numbers + counts + struct.pack("<Q", index_block))
        return own

    def write_tree(self, out: bytearray, rows: list[bytes], size: int) -> bytes:
        kind = 13 if self.any_filters else 12
        lead = bytes((self.index_version, kind))
        most, totals = [(self.node_size - 10) // size], [(self.node_size - 10) // size]
        width = log2(most[0]) // 8 + 1
        depth, total_width = 0, [0]
        while totals[-1] < len(rows):
            pointer = 8 + width + total_width[-1]
            most.append((self.node_size - 10 - pointer) // (size + pointer))
            totals.append((most[-1] + 1) * totals[-1] + most[-1])
            total_width.append(log2(totals[-1]) // 8 + 1)
            depth += 1

        def write(rows: list[bytes], depth: int) -> tuple[int, int]:
            """A node; its address and own records."""
            if depth == 0:
                at = len(out)
                out.extend(summed(b"BTLF" + lead + b"".join(rows)).ljust(self.node_size, b"\xee"))
                return at, len(rows)
            n_children = max(2, -(-(len(rows) + 1) // (totals[depth - 1] + 1)))
            ends = [round((len(rows) + 1) * i / n_children) for i in range(n_children + 1)]
            parts = [rows[a : b - 1] for a, b in pairwise(ends)]
            between = [rows[b - 1] for b in ends[1:-1]]
            pointers = b""
            for part in parts:
                child, count = write(part, depth - 1)
                pointers += struct.pack("<Q", child) + count.to_bytes(width, "little")
                pointers += len(part).to_bytes(total_width[depth - 1], "little") if depth > 1 else b""
            at = len(out)
            node = summed(b"BTIN" + lead + b"".join(between) + pointers)
            assert len(node) <= self.node_size
            out.extend(node.ljust(self.node_size, b"\xee"))
            return at, len(between)

        root, n_root = write(rows, depth) if rows else (0, 0)
        address = len(out)
        head = b"BTHD" + lead + struct.pack("<IHHBB", self.node_size, size, depth, 100, 40)
        out += summed(head + (struct.pack("<Q", root) if rows else NOWHERE) + struct.pack("<HQ", n_root, len(rows)))
        return struct.pack("<Q", address)

    # -- messages --

    def layout(self, number: int, info: bytes, address: bytes) -> bytes:
        sizes = (*self.chunk, self.element_size)
        width = max((log2(size) + 8) // 8 for size in sizes)
        flags = self.flags | (2 if self.map == "single" and self.any_filters else 0)
        grid = bytes((flags, len(sizes), width)) + b"".join(size.to_bytes(width, "little") for size in sizes)
        composition = bytes((self.n_sections, len(self.summed), *self.summed))
        chunk_map = bytes((number,)) + info + address
        long = struct.pack("<Q", 8)
        body = {
            "sectioned": b"\0" + composition + long + grid + chunk_map,
            "structured": grid + chunk_map + long + composition,
            "structured, short": grid + chunk_map + b"\x08" + composition,
            "prototype": grid + b"\x08" + composition + chunk_map,
        }[self.dialect]
        return b"\x05\x04\x00" + struct.pack("<H", self.type) + body + bytes(self.trailing)

    def pipeline(self) -> bytes:
        made = b""
        for number, steps in sorted(self.filters.items()):
            listed = b""
            for kind, options in steps:
                name = b"zstd\0" if kind >= 256 else b""
                listed += struct.pack("<H", kind) + (struct.pack("<H", len(name)) if name else b"")
                listed += struct.pack("<HH", 1, len(options)) + name + struct.pack(f"<{len(options)}I", *options)
            made += struct.pack("<BBH", number, len(steps), len(listed)) + listed
        return bytes((3, len(self.filters))) + made

    def write(self, out: bytearray) -> list[tuple[int, bytes]]:
        """Chunks and chunk map appended; type and data of each message."""
        number, info, address = self.write_map(out)
        rank = len(self.shape)
        assert self.max_shape is not None
        limits = [(1 << 64) - 1 if limit is None else limit for limit in self.max_shape]
        messages = [
            (0x01, struct.pack(f"<BBBB{2 * rank}Q", 2, rank, 1, 1, *self.shape, *limits)),
            (0x03, self.datatype),
            (0x05, self.fill),
        ]
        if self.any_filters:
            messages.append((0x0B, self.pipeline()))
        return [*messages, (0x08, self.layout(number, info, address))]

    def in_new_file(self) -> bytes:
        """A file with superblock 3 and this dataset as /sparse."""
        out = bytearray(48)
        messages = self.write(out)
        header = len(out)
        out += object_header(messages)
        root = len(out)
        link = b"\x01\x00\x06sparse" + struct.pack("<Q", header)
        out += object_header([(0x02, b"\0\0" + NOWHERE * 2), (0x0A, b"\0\0"), (0x06, link)])
        lead = b"\x89HDF\r\n\x1a\n\x03\x08\x08\x00" + bytes(8) + NOWHERE + struct.pack("<QQ", len(out), root)
        out[:48] = summed(lead)
        return bytes(out)

    def in_h5_file(self, data: bytes, header: int, base: int = 0) -> bytes:
        """The file with this dataset in the place of the one whose header is at an address."""
        out = bytearray(data[base:])
        messages = self.write(out)
        block = summed(b"OCHK" + b"".join(encode_message(*one) for one in messages))
        more = struct.pack("<QQ", len(out), len(block))
        out += block
        own = object_header([(0x10, more)])
        out[header : header + len(own)] = own
        return data[:base] + bytes(out)


def encode_message(kind: int, data: bytes) -> bytes:
    return struct.pack("<BHB", kind, len(data), 0) + data


def object_header(messages: list[tuple[int, bytes]]) -> bytes:
    body = b"".join(encode_message(*one) for one in messages)
    return summed(b"OHDR\x02\x01" + struct.pack("<H", len(body)) + body)


def some_cells(
    shape: tuple[int, ...], density: float, seed: int = 0, dtype: str = "<i4"
) -> dict[tuple[int, ...], bytes]:
    """Random cells with random values, row by row."""
    generator = np.random.default_rng(seed)
    mask = generator.random(shape) < density
    values: Any = generator.integers(1, 1000, int(mask.sum())).astype(dtype)
    return {tuple(place): values[number].tobytes() for number, place in enumerate(np.argwhere(mask).tolist())}
