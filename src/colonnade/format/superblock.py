"""The superblock: the parameters of an HDF5 file, and the address of its root group (format specification II.A).

| version 0 and 1 | bytes | | version 2 and 3 | bytes |
| --- | --- | --- | --- | --- |
| signature `89 48 44 46 0d 0a 1a 0a` | 8 | | signature | 8 |
| version | 1 | | version | 1 |
| versions of free space, root group; 0; shared headers | 4 | | O, size of offsets | 1 |
| O, size of offsets | 1 | | L, size of lengths | 1 |
| L, size of lengths | 1 | | consistency flags | 1 |
| 0 | 1 | | base address | O |
| leaf and internal k of groups | 2 + 2 | | superblock extension | O |
| consistency flags | 4 | | end of file | O |
| version 1 only: k of chunk trees, 0 | 2 + 2 | | header of the root group | O |
| base, free space, end of file, driver block | 4 O | | checksum | 4 |
| entry of the root group: name offset (L), header (O) | L + O | | | |
| kind (1: what follows is known), 0 | 4 + 4 | | | |
| its B-tree, its local heap (see `links`) | 2 O | | | |

The signature is at byte 0, 512, 1024, 2048 and so on; the user block is before it.
"""

from __future__ import annotations

from colonnade.dataclass import dataclass, replace
from colonnade.errors import FormatError, UnsupportedError
from colonnade.format.source import Fields, HDF5Source
from colonnade.pager.sources import ByteSource

SIGNATURE = b"\x89HDF\r\n\x1a\n"  # of a file
_FIRST_USER_BLOCK = 512
_SIZES = (2, 4, 8)
_WIDE_SIZES = (16, 32)  # legal, but libhdf5 damages such files and its own memory while it writes them
_IS_KNOWN = 1
_ALL_FLAGS = 7  # open for writing, consistent, open for writing next to readers


@dataclass(frozen=True, slots=True)
class Superblock:
    """The parameters needed to read anything else.

    root: address of the root group's object header. root_heap: of its local heap, if the superblock names it.
    has_driver: whether the file is one of several, which a driver of libhdf5 puts together.
    """

    version: int
    offset_size: int
    length_size: int
    base: int
    end: int
    root: int
    root_heap: int | None = None
    has_driver: bool = False


def read_superblock(file: ByteSource) -> tuple[Superblock, HDF5Source]:
    """The superblock of a file, and its bytes by address, with the base address and sizes that the superblock gives."""
    at, source = _find_signature(file), HDF5Source(file)
    head = source.read_up_to(at, 128, "the superblock")
    fields = source.as_fields(head, "the superblock", at)
    if len(head) >= 12 and head[8] in (2, 3):
        offset_size = head[9]
        if offset_size in _SIZES + _WIDE_SIZES:  # otherwise decode_superblock raises
            fields = source.summed(at, 12 + 4 * offset_size + 4, "the superblock")
    block = decode_superblock(fields)
    # a user block may have been prepended later: addresses are relative to the position of the superblock
    return block, replace(source, base=at, offset_size=block.offset_size, length_size=block.length_size)


def _find_signature(file: ByteSource) -> int:
    at = 0
    while at + len(SIGNATURE) <= file.size:
        if file.read(at, len(SIGNATURE), "the signature") == SIGNATURE:
            return at
        at = at * 2 or _FIRST_USER_BLOCK
    raise FormatError(f"{file.name} is not an HDF5 file: its first bytes are not HDF5's", path=file.name)


def decode_superblock(fields: Fields) -> Superblock:
    """Decode a superblock of any version; see the table at the top of this file."""
    fields.expect(SIGNATURE, "the signature")
    version = fields.version(0, 1, 2, 3)
    if version < 2:
        free_space, root_group, _, shared_headers = fields.take(4)
        if free_space or root_group or shared_headers:
            raise fields.wrong(f"gives versions {free_space}, {root_group} and {shared_headers} where all are 0")
    offset_size, length_size = fields.number(1), fields.number(1)
    if not {offset_size, length_size} <= {*_SIZES, *_WIDE_SIZES}:
        raise fields.wrong(f"gives {offset_size} bytes for addresses and {length_size} for lengths")
    check_sizes(offset_size, length_size, fields.name)
    if version < 2:
        fields.take(5)
    flags = fields.number(4 if version < 2 else 1)
    if flags > _ALL_FLAGS:
        raise fields.wrong(f"has the consistency flags {flags}, which no version of HDF5 sets")
    if version == 1:
        fields.take(4)
    base, _, end = (fields.number(offset_size) for _ in range(3))
    has_driver = False
    if version < 2:
        has_driver = fields.take(offset_size) != b"\xff" * offset_size
        fields.take(length_size)
    root = fields.number(offset_size)
    heap = _decode_root_heap(fields, offset_size) if version < 2 else None
    return Superblock(version, offset_size, length_size, base, end, root, heap, has_driver)


def check_sizes(offset_size: int, length_size: int, name: str) -> None:
    """Refuse a file whose addresses or lengths have more than 8 bytes."""
    if max(offset_size, length_size) > max(_SIZES):
        raise UnsupportedError(
            f"cannot open {name}: its addresses have {offset_size} bytes and its lengths {length_size}; at most 8 are "
            "supported. Write its data to a new file",
            feature="addresses or lengths of more than 8 bytes",
            path=name or None,
        )


def _decode_root_heap(fields: Fields, offset_size: int) -> int | None:
    if fields.left < 8 + 2 * offset_size or fields.number(4) != _IS_KNOWN:
        return None
    fields.take(4 + offset_size)
    return fields.number(offset_size)


def open_root(file: ByteSource) -> tuple[HDF5Source, int]:
    """The bytes of a file by address, and the address of its root group."""
    block, source = read_superblock(file)
    return source, block.root
