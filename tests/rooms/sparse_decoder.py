"""A second reader of sectioned datasets, made from the facts page alone: it shares no code with the room.

It takes the straight way: whole file in memory, one element at a time, every checksum compared. Only what colonnade
writes is read: hard links, superblocks 0, 2 and 3. The answer is a dict from coordinates to bytes; of variable-length
elements these are the bytes of their items.
"""

from __future__ import annotations

import struct
import zlib
from itertools import product
from math import ceil, log2, prod
from typing import Any

import pyarrow as pa

NOWHERE = 0xFFFFFFFFFFFFFFFF
MASK = 0xFFFFFFFF


def rot(x: int, k: int) -> int:
    return ((x << k) | (x >> (32 - k))) & MASK


def hashlittle(data: bytes) -> int:
    """Bob Jenkins' lookup3 as he wrote it down, a step a line."""
    a = b = c = (0xDEADBEEF + len(data)) & MASK
    if not data:
        return c
    while len(data) > 12:
        x, y, z = struct.unpack("<III", data[:12])
        a, b, c = (a + x) & MASK, (b + y) & MASK, (c + z) & MASK
        a = ((a - c) & MASK) ^ rot(c, 4)
        c = (c + b) & MASK
        b = ((b - a) & MASK) ^ rot(a, 6)
        a = (a + c) & MASK
        c = ((c - b) & MASK) ^ rot(b, 8)
        b = (b + a) & MASK
        a = ((a - c) & MASK) ^ rot(c, 16)
        c = (c + b) & MASK
        b = ((b - a) & MASK) ^ rot(a, 19)
        a = (a + c) & MASK
        c = ((c - b) & MASK) ^ rot(b, 4)
        b = (b + a) & MASK
        data = data[12:]
    x, y, z = struct.unpack("<III", data.ljust(12, b"\0"))
    a, b, c = (a + x) & MASK, (b + y) & MASK, (c + z) & MASK
    c = ((c ^ b) - rot(b, 14)) & MASK
    a = ((a ^ c) - rot(c, 11)) & MASK
    b = ((b ^ a) - rot(a, 25)) & MASK
    c = ((c ^ b) - rot(b, 16)) & MASK
    a = ((a ^ c) - rot(c, 4)) & MASK
    b = ((b ^ a) - rot(a, 14)) & MASK
    return ((c ^ b) - rot(b, 24)) & MASK


def fletcher(data: bytes) -> int:
    """Sums of big-endian words; only nothing at all is 0, what is a multiple of 65535 is 65535."""
    first = second = 0
    padded = data + b"\0" * (len(data) % 2)
    for (word,) in struct.iter_unpack(">H", padded):
        first += word
        second += first
    first, second = ((total - 1) % 65535 + 1 if total else 0 for total in (first, second))
    return second << 16 | first


def checked(data: bytes) -> bytes:
    assert hashlittle(data[:-4]) == int.from_bytes(data[-4:], "little"), "checksum"
    return data[:-4]


class Decoder:
    """One sectioned dataset of a file."""

    def __init__(self, data: bytes, path: str) -> None:
        start = next(at for at in (0, 512, 1024, 2048) if data[at : at + 8] == b"\x89HDF\r\n\x1a\n")
        self.data = data[start:]
        version = self.data[8]
        if version >= 2:
            checked(self.data[:48])
            end, root = struct.unpack_from("<QQ", self.data, 28)
        else:
            end, root = self.number(40), self.number(64)
        assert end == len(data), "end of file"
        address = root
        for name in path.strip("/").split("/"):
            address = self.links(address)[name]
        found = self.read_header(address)
        self.messages = dict(found)
        self.attribute_messages = [body for kind, body in found if kind == 0x0C]
        self.read_messages()

    def number(self, at: int, size: int = 8) -> int:
        return int.from_bytes(self.data[at : at + size], "little")

    # -- objects --

    def read_header(self, at: int) -> list[tuple[int, bytes]]:
        if self.data[at] == 1:
            blocks, version = [(at + 16, self.number(at + 8, 4))], 1
        else:
            assert self.data[at : at + 5] == b"OHDR\2"
            flags = self.data[at + 5]
            lead = 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)
            width = 1 << (flags & 3)
            size = self.number(at + lead, width)
            checked(self.data[at : at + lead + width + size + 4])
            blocks, version = [(at + lead + width, size)], 2 + (flags >> 2 & 1)
        found: list[tuple[int, bytes]] = []
        while blocks:
            place, size = blocks.pop(0)
            stop = place + size
            lead = {1: 8, 2: 4, 3: 6}[version]
            while place + lead <= stop:
                kind = self.number(place, 2 if version == 1 else 1)
                length = self.number(place + (2 if version == 1 else 1), 2)
                body = self.data[place + lead : place + lead + length]
                if kind == 0x10:
                    address, n_bytes = struct.unpack("<QQ", body[:16])
                    if version != 1:
                        block = checked(self.data[address : address + n_bytes])
                        assert block[:4] == b"OCHK"
                        blocks.append((address + 4, n_bytes - 8))
                    else:
                        blocks.append((address, n_bytes))
                found.append((kind, body))
                place += lead + length
        return found

    def links(self, at: int) -> dict[str, int]:
        found = {}
        for kind, body in self.read_header(at):
            if kind == 6:
                flags = body[1]
                lead = 2 + (1 if flags & 8 else 0) + (8 if flags & 4 else 0) + (1 if flags & 16 else 0)
                width = 1 << (flags & 3)
                size = int.from_bytes(body[lead : lead + width], "little")
                name = body[lead + width : lead + width + size].decode()
                found[name] = int.from_bytes(body[lead + width + size :][:8], "little")
            if kind == 0x11:
                tree, heap = struct.unpack("<QQ", body[:16])
                names = self.number(heap + 24)
                found |= self.old_links(tree, names)
        return found

    def old_links(self, node: int, names: int) -> dict[str, int]:
        if self.data[node : node + 4] == b"SNOD":
            found = {}
            for entry in range(self.number(node + 6, 2)):
                at = node + 8 + 40 * entry
                start = names + self.number(at)
                found[self.data[start : self.data.index(b"\0", start)].decode()] = self.number(at + 8)
            return found
        assert self.data[node : node + 4] == b"TREE"
        children = [self.number(node + 32 + 16 * entry) for entry in range(self.number(node + 6, 2))]
        return {name: at for child in children for name, at in self.old_links(child, names).items()}

    # -- messages --

    def read_messages(self) -> None:
        space, layout = self.messages[1], self.messages[8]
        rank = space[1]
        assert space[0] == 2 and space[2] == 1
        sizes = struct.unpack_from(f"<{2 * rank}Q", space, 4)
        self.shape, self.limits = sizes[:rank], sizes[rank:]
        self.element = int.from_bytes(self.messages[3][4:8], "little")
        self.filters: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        if 0x0B in self.messages:
            self.read_filters(self.messages[0x0B])
        assert layout[:3] == b"\5\4\0" and layout[4] == 0
        body, kind = layout[5:], layout[3]
        variable, self.dense = self.messages[3][0] & 15 == 9, kind == 2
        self.n_sections = 3 if variable and not self.dense else 2
        self.summed = list(range(self.n_sections)) if variable else [0]
        parts = bytes((self.n_sections, len(self.summed), *self.summed))
        eight = struct.pack("<Q", 8)
        if body[: 9 + len(parts)] == b"\0" + parts + eight:
            self.dialect = "sectioned"
            after = self.read_grid(body, 9 + len(parts))
            self.read_map_place(body[after:])
        else:
            after = self.read_grid(body, 0)
            if body[after : after + 1 + len(parts)] == b"\x08" + parts:
                self.dialect = "prototype"
                self.read_map_place(body[after + 1 + len(parts) :])
            else:
                self.dialect = "structured"
                assert body[-8 - len(parts) :] == eight + parts
                self.read_map_place(body[after : -8 - len(parts)])
        wanted = 1 if not variable or (self.dialect == "prototype" and not self.dense) else 3
        assert kind == (2 if self.dense else wanted) and (variable or not self.dense)

    def attributes(self) -> dict[str, tuple[bytes, tuple[int, ...]]]:
        """Bytes and shape of each attribute."""
        found = {}
        for body in self.attribute_messages:
            version, flags, name_size, type_size, space_size, charset = struct.unpack_from("<BBHHHB", body)
            assert (version, flags, charset) == (3, 0, 1)
            name = body[9 : 9 + name_size]
            assert name[-1:] == b"\0"
            kind = body[9 + name_size : 9 + name_size + type_size]
            space = body[9 + name_size + type_size :][:space_size]
            assert space[0] == 2 and space[2] == 0 and space[3] == (1 if space[1] else 0)
            shape = struct.unpack_from(f"<{space[1]}Q", space, 4)
            data = body[9 + name_size + type_size + space_size :]
            assert len(data) == prod(shape) * int.from_bytes(kind[4:8], "little")
            found[name[:-1].decode()] = data, shape
        return found

    def read_grid(self, body: bytes, at: int) -> int:
        self.flags, count, width = body[at], body[at + 1], body[at + 2]
        sizes = [int.from_bytes(body[at + 3 + n * width :][:width], "little") for n in range(count)]
        assert sizes[-1] == self.element and count == len(self.shape) + 1
        self.chunk = tuple(sizes[:-1])
        return at + 3 + count * width

    def read_filters(self, body: bytes) -> None:
        assert body[0] == 3
        at = 2
        for _ in range(body[1]):
            section, count, size = struct.unpack_from("<BBH", body, at)
            at += 4
            stop, steps = at + size, []
            for _ in range(count):
                (kind,) = struct.unpack_from("<H", body, at)
                name = struct.unpack_from("<H", body, at + 2)[0] if kind >= 256 else 0
                at += 4 if kind >= 256 else 2
                _, n_options = struct.unpack_from("<HH", body, at)
                at += 4 + name
                steps.append((kind, struct.unpack_from(f"<{n_options}I", body, at)))
                at += 4 * n_options
            assert at == stop
            self.filters[section] = steps
        assert at == len(body)

    # -- chunk maps --

    @property
    def tail(self) -> int:
        return 8 * (self.n_sections - 1) + (12 * self.n_sections if self.filters else 0)

    @property
    def width(self) -> int:
        return 8 if self.n_sections == 3 else min(8, 1 + (int(log2(prod(self.chunk) * self.element)) + 8) // 8)

    def read_map_place(self, body: bytes) -> None:
        self.kind = body[0]
        address = int.from_bytes(body[-8:], "little")
        info = body[1:-8]
        self.records: dict[tuple[int, ...], bytes] = {}
        if address == NOWHERE:
            return
        if self.kind == 1:
            assert len(info) == self.width + self.tail and bool(self.flags & 2) == bool(self.filters)
            self.records[(0,) * len(self.chunk)] = body[-8:] + info
        elif self.kind == 3:
            self.read_fixed(address, info)
        elif self.kind == 4:
            self.read_extensible(address, info)
        else:
            self.read_tree(address)

    def place_of(self, slot: int) -> tuple[int, ...]:
        free = [axis for axis, limit in enumerate(self.limits) if limit == NOWHERE]
        order = free + [axis for axis in range(len(self.limits)) if axis not in free]
        place = [0] * len(order)
        for axis in reversed(order):
            if self.limits[axis] == NOWHERE:
                place[axis] = slot
            else:
                slot, place[axis] = divmod(slot, ceil(self.limits[axis] / self.chunk[axis]))
        return tuple(place)

    def keep(self, slot: int, element: bytes) -> None:
        if element[:8] != b"\xff" * 8:
            self.records[self.place_of(slot)] = element
        else:
            assert not any(element[8:])

    def read_fixed(self, at: int, info: bytes) -> None:
        head = checked(self.data[at : at + 28])
        assert head[:4] == b"FAHD" and head[5] == (3 if self.filters else 2) and head[7:8] == info
        size, page = head[6], 1 << head[7]
        n, block = struct.unpack_from("<QQ", head, 8)
        assert n == prod(ceil(limit / chunk) for limit, chunk in zip(self.limits, self.chunk, strict=True))
        assert size == 8 + self.width + self.tail
        lead = self.data[block : block + 14]
        assert lead[:4] == b"FADB" and struct.unpack("<Q", lead[6:]) == (at,)
        if n <= page:
            rows = checked(self.data[block : block + 14 + n * size + 4])[14:]
            for slot in range(n):
                self.keep(slot, rows[slot * size : (slot + 1) * size])
            return
        n_pages = ceil(n / page)
        bitmap = checked(self.data[block : block + 14 + ceil(n_pages / 8) + 4])[14:]
        place = block + 14 + len(bitmap) + 4
        for number in range(n_pages):
            count = min(page, n - number * page)
            if bitmap[number // 8] & 0x80 >> number % 8:
                rows = checked(self.data[place : place + count * size + 4])
                for one in range(count):
                    self.keep(number * page + one, rows[one * size : (one + 1) * size])
            place += count * size + 4

    def read_extensible(self, at: int, info: bytes) -> None:
        head = checked(self.data[at : at + 72])
        assert head[:4] == b"EAHD" and info == b"\x20\4\4\x10\x0a"
        assert head[7:12] == b"\x20\4\x10\4\x0a" and head[5] == (3 if self.filters else 2)
        size = head[6]
        n_set, _, index = struct.unpack_from("<QQQ", head, 12 + 32)
        block = checked(self.data[index : index + 14 + 4 * size + 31 * 8 + 4])
        assert block[:4] == b"EAIB"
        for slot in range(4):
            self.keep(slot, block[14 + slot * size : 14 + (slot + 1) * size])
        pointers = list(struct.unpack_from("<31Q", block, 14 + 4 * size))
        start = 4
        for u in range(29):
            n_blocks, elements = 2 ** (u // 2), 16 * 2 ** ((u + 1) // 2)
            pages = elements // 1024 if elements > 1024 else 0
            if u < 4:
                places, bitmap = [pointers.pop(0) for _ in range(n_blocks)], b""
            else:
                place = pointers.pop(0)
                places, bitmap = [NOWHERE] * n_blocks if place == NOWHERE else [], b""
                if place != NOWHERE:
                    n_bits = n_blocks * ceil(pages / 8)
                    block = checked(self.data[place : place + 18 + n_bits + 8 * n_blocks + 4])
                    assert block[:4] == b"EASB" and int.from_bytes(block[14:18], "little") == start - 4
                    bitmap = block[18 : 18 + n_bits]
                    places = list(struct.unpack_from(f"<{n_blocks}Q", block, 18 + n_bits))
            for number, place in enumerate(places):
                if place != NOWHERE:
                    self.read_data_block(place, start + number * elements, elements, size, pages, bitmap, number)
            start += n_blocks * elements
        assert self.place_of(n_set - 1) in self.records

    def read_data_block(self, at: int, first: int, n: int, size: int, pages: int, bitmap: bytes, number: int) -> None:
        assert self.data[at : at + 4] == b"EADB"
        if not pages:
            rows = checked(self.data[at : at + 18 + n * size + 4])[18:]
            for one in range(n):
                self.keep(first + one, rows[one * size : (one + 1) * size])
            return
        checked(self.data[at : at + 22])
        for page in range(pages):
            bit = number * pages + page
            if bitmap[bit // 8] & 0x80 >> bit % 8:
                place = at + 22 + page * (1024 * size + 4)
                rows = checked(self.data[place : place + 1024 * size + 4])
                for one in range(1024):
                    self.keep(first + page * 1024 + one, rows[one * size : (one + 1) * size])

    def read_tree(self, at: int) -> None:
        head = checked(self.data[at : at + 38])
        assert head[:4] == b"BTHD" and head[5] == (13 if self.filters else 12)
        node, size, depth = struct.unpack_from("<IHH", head, 6)
        root, n_root, total = struct.unpack_from("<QHQ", head, 16)
        most = [(node - 10) // size]
        whole, counts = [most[0]], [0]
        w = (most[0].bit_length() - 1) // 8 + 1
        for level in range(1, depth + 1):
            pointer = 8 + w + (counts[level - 1] if level > 1 else 0)
            most.append((node - 10 - pointer) // (size + pointer))
            whole.append((most[-1] + 1) * whole[-1] + most[-1])
            counts.append((whole[-1].bit_length() - 1) // 8 + 1)
        found: list[bytes] = []

        def walk(place: int, n: int, level: int) -> int:
            pointer = 8 + w + (counts[level - 1] if level > 1 else 0)
            length = 6 + n * size + ((n + 1) * pointer if level else 0)
            body = checked(self.data[place : place + length + 4])
            assert body[:4] == (b"BTIN" if level else b"BTLF") and n <= most[level]
            own = [body[6 + one * size : 6 + (one + 1) * size] for one in range(n)]
            if not level:
                found.extend(own)
                return n
            below = n
            for one in range(n + 1):
                part = body[6 + n * size + one * pointer :][:pointer]
                count = int.from_bytes(part[8 : 8 + w], "little")
                n_below = walk(int.from_bytes(part[:8], "little"), count, level - 1)
                if level > 1:
                    assert int.from_bytes(part[8 + w :], "little") == n_below
                below += n_below
                found.extend(own[one : one + 1])
            return below

        assert walk(root, n_root, depth) == total == len(found)
        lead, rank = 8 + self.width, len(self.chunk)
        places = [struct.unpack_from(f"<{rank}Q", record, lead) for record in found]
        assert places == sorted(set(places))
        for place, record in zip(places, found, strict=True):
            self.records[place] = record[:lead] + record[lead + 8 * rank :]

    # -- chunks --

    def cells(self) -> dict[tuple[int, ...], bytes]:
        found = {}
        for place, record in self.records.items():
            address, size = int.from_bytes(record[:8], "little"), int.from_bytes(record[8 : 8 + self.width], "little")
            rest = record[8 + self.width :]
            n = self.n_sections
            bounds = [0, *struct.unpack_from(f"<{n - 1}Q", rest), size]
            chunk = self.data[address : address + size]
            parts = [chunk[bounds[number] : bounds[number + 1]] for number in range(n)]
            if self.filters:
                sizes = struct.unpack_from(f"<{n}Q", rest, 8 * (n - 1))
                masks = struct.unpack_from(f"<{n}I", rest, 8 * (n - 1) + 8 * n)
                parts = [self.undo(number, part, masks[number]) if part else b"" for number, part in enumerate(parts)]
                assert [len(part) for part in parts] == list(sizes)
            parts = [checked(part) if number in self.summed and part else part for number, part in enumerate(parts)]
            if self.dense:
                inside, rows = list(product(*(range(one) for one in self.chunk))), parts[0]
            else:
                inside, rows = self.selected(parts[0]), parts[1]
            assert len(rows) == len(inside) * self.element
            for number, cell in enumerate(inside):
                at = tuple(p * c + x for p, c, x in zip(place, self.chunk, cell, strict=True))
                element = rows[number * self.element : (number + 1) * self.element]
                outside = any(x >= size for x, size in zip(at, self.shape, strict=True))
                if outside and self.dense:
                    assert element == bytes(16)
                    continue
                assert not outside and at not in found
                found[at] = element if self.summed == [0] else self.item(element, parts[-1])
        return found

    def item(self, reference: bytes, heap: bytes) -> bytes:
        """What a reference leads to, looked for from the start of the heap each time."""
        count, slot, index, zero = struct.unpack("<IHHQ", reference)
        assert zero == 0
        if (slot, index) == (0, 0):
            assert count == 0
            return b""
        assert heap[:8] == b"HGLS\1\0\0\0" and slot < int.from_bytes(heap[8:12], "little")
        start, length = struct.unpack_from("<QQ", heap, 12 + 16 * slot)
        part = heap[start : start + length]
        assert part[:8] == b"GCOL\1\0\0\0" and int.from_bytes(part[8:16], "little") == length
        at = 16
        while at < length:
            number, owners, size = struct.unpack_from("<HH4xQ", part, at)
            if number == index:
                assert owners == 1
                base = self.messages[3][8:]
                step = 1 if self.messages[3][1] & 15 == 1 else int.from_bytes(base[4:8], "little")
                assert size == count * step
                return part[at + 16 : at + 16 + size]
            at += 16 + ceil(size / 8) * 8
        raise AssertionError("no such object")

    def undo(self, section: int, data: bytes, mask: int) -> bytes:
        for number, (kind, options) in reversed(list(enumerate(self.filters.get(section, [])))):
            if mask >> number & 1:
                continue
            if kind == 1:
                data = zlib.decompress(data)
            elif kind == 2:
                item = options[0]
                n = len(data) // item
                data = bytes(data[b * n + i] for i in range(n) for b in range(item)) + data[n * item :]
            elif kind == 3:
                assert fletcher(data[:-4]) == int.from_bytes(data[-4:], "little")
                data = data[:-4]
            else:
                assert kind == 32015
                data = self.unzstd(data)
        return data

    def unzstd(self, data: bytes) -> bytes:
        stream: Any = pa.CompressedInputStream(pa.BufferReader(data), "zstd")
        return bytes(stream.read())

    def selected(self, data: bytes) -> list[tuple[int, ...]]:
        rank = len(self.chunk)
        assert data[:3] == b"\1\0\x08"
        size = int.from_bytes(data[3:7], "little")
        extent, body = data[7 : 7 + size], data[7 + size :]
        assert extent[:3] == bytes((1, rank, 1)) and struct.unpack_from(f"<{rank}Q", extent, 8) == self.chunk
        kind, version = struct.unpack_from("<II", body)
        every = list(product(*(range(one) for one in self.chunk)))
        if kind == 3:
            assert version == 1 and body[8:] == bytes(8)
            return every
        if kind == 1:
            assert version == 2
            width = body[8]
            numbers = self.numbers(body[13:], width)
            assert int.from_bytes(body[9:13], "little") == rank and len(numbers) == 1 + numbers[0] * rank
            return [tuple(numbers[1 + n * rank : 1 + (n + 1) * rank]) for n in range(numbers[0])]
        assert kind == 2 and version == 3
        flags, width = body[8], body[9]
        assert int.from_bytes(body[10:14], "little") == rank
        numbers = self.numbers(body[14:], width)
        if flags:
            axes = []
            for axis in range(rank):
                start, stride, count, block = numbers[4 * axis : 4 * axis + 4]
                axes.append([start + stride * n + b for n in range(count) for b in range(block)])
            return list(product(*axes))
        blocks: set[Any] = set()
        for n in range(numbers[0]):
            ends = numbers[1 + 2 * rank * n : 1 + 2 * rank * (n + 1)]
            inside = set(product(*(range(a, b + 1) for a, b in zip(ends[:rank], ends[rank:], strict=True))))
            assert not blocks & inside
            blocks |= inside
        assert len(numbers) == 1 + 2 * rank * numbers[0]
        return sorted(blocks)

    def numbers(self, data: bytes, width: int) -> list[int]:
        assert len(data) % width == 0
        return [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]
