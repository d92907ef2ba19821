"""Encode cells as the bytes of a sectioned chunk: the inverse of `chunk`.

Section 0 is written in the legal form that is smallest after filtering (facts 11). Checksums are added before filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from colonnade.dataclass import dataclass
from colonnade.errors import UnsupportedError
from colonnade.filters.apply import Packer
from colonnade.filters.codecs import as_view
from colonnade.format.records import ChunkRecord
from colonnade.format.source import with_checksum
from colonnade.model import FilterInfo
from colonnade.sparse.choose import choose_selections
from colonnade.sparse.chunk import SparseInfo
from colonnade.sparse.selections import Places, encode_selection

_PACKING = ("deflate", "zstd")
_QUICK = 3  # up to this deflate level, speed is assumed to matter more than size
Section = bytes | memoryview


@dataclass(frozen=True, slots=True)
class PackedChunk:
    """A chunk as stored, section by section, and the fields of its record."""

    sections: tuple[Section, ...]
    bounds: tuple[int, ...]
    unfiltered: tuple[int, ...]
    masks: tuple[int, ...]

    @property
    def data(self) -> bytes:
        """All sections as stored, concatenated."""
        return b"".join(self.sections)

    @property
    def size(self) -> int:
        return self.bounds[-1]

    def record(self, grid: tuple[int, ...], address: int) -> ChunkRecord:
        return ChunkRecord(grid, address, self.bounds, self.unfiltered, self.masks)


Packed = tuple[tuple[int, ...], PackedChunk | None]
"""The grid index of a chunk, and its new content; None removes it."""


def encode_chunk(info: SparseInfo, places: Places, values: bytes, heap: bytes | None = None) -> PackedChunk:
    """A sparse chunk from ascending positions, the bytes of their values, and the bytes of the heap, if any."""
    forms = choose_selections(places, info.layout.chunk, is_thorough(info.pipelines[0]))
    if not is_thorough(info.pipelines[0]):
        forms = forms[:1]
    tried = [_summed(info, 0, encode_selection(one)) for one in forms]
    if len(tried) > 1:
        tried.sort(key=lambda one: len(_filter(info, 0, one)[0]))
    rest = [values] if heap is None else [values, heap]
    return pack_sections(info, [tried[0], *(_summed(info, number, one) for number, one in enumerate(rest, 1))])


def encode_sections(info: SparseInfo, sections: Sequence[bytes]) -> PackedChunk:
    """A chunk of these sections, none of which is a selection."""
    return pack_sections(info, [_summed(info, number, data) for number, data in enumerate(sections)])


def pack_sections(info: SparseInfo, sections: Sequence[Section]) -> PackedChunk:
    """A chunk of these sections, which already include their checksums."""
    parts = [_filter(info, number, one) for number, one in enumerate(sections)]
    bounds = accumulate((len(data) for data, _ in parts), initial=0)
    masks = tuple(mask for _, mask in parts)
    return PackedChunk(tuple(data for data, _ in parts), tuple(bounds), tuple(len(one) for one in sections), masks)


def is_thorough(filters: tuple[FilterInfo, ...]) -> bool:
    """Whether to try all forms for the smallest one: not without filters, nor with fast ones."""
    return any(step.name != "deflate" or step.options[0] > _QUICK for step in filters if step.name in _PACKING)


def _summed(info: SparseInfo, number: int, data: bytes) -> bytes:
    return with_checksum(data) if data and number in info.layout.checksummed else data


def _filter(info: SparseInfo, number: int, whole: Section) -> tuple[Section, int]:
    """The stored bytes of a section, and the mask of skipped filters."""
    packer = _packer(info.pipelines[number])
    if packer.is_empty or not whole:
        return whole, 0
    packed, mask = packer.pack(whole)
    return as_view(packed), mask


@lru_cache(maxsize=64)
def _packer(filters: tuple[FilterInfo, ...]) -> Packer:
    packer = Packer(filters, skip_useless=True)
    if not packer.is_known:
        names = ", ".join(step.name for step in filters)
        raise UnsupportedError(f"cannot filter sections with {names}", feature=names)
    return packer
