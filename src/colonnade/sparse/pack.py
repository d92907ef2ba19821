"""Cells to the bytes of a sectioned chunk: the other way of `chunk`.

Section 0 is written in whichever legal form is smallest after its filters (facts 11); checksums come before filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from colonnade.errors import UnsupportedError
from colonnade.h5.apply import Packer
from colonnade.model import FilterInfo
from colonnade.sparse.choose import choose_selections
from colonnade.sparse.chunk import SparseInfo
from colonnade.sparse.records import ChunkRecord
from colonnade.sparse.selections import Places, encode_selection
from colonnade.sparse.source import with_checksum

_PACKING = ("deflate", "zstd")
_QUICK = 3  # the highest level of deflate that is asked for when time matters more than size


@dataclass(frozen=True, slots=True)
class PackedChunk:
    """A chunk as it is stored, and what its record says of it."""

    data: bytes
    bounds: tuple[int, ...]
    unfiltered: tuple[int, ...]
    masks: tuple[int, ...]

    def record(self, grid: tuple[int, ...], address: int) -> ChunkRecord:
        return ChunkRecord(grid, address, self.bounds, self.unfiltered, self.masks)


def encode_chunk(info: SparseInfo, places: Places, values: bytes, heap: bytes | None = None) -> PackedChunk:
    """A sparse chunk of these places (ascending) and the bytes of their values, and of their heap if they have one."""
    forms = choose_selections(places, info.layout.chunk, _is_thorough(info.pipelines[0]))
    if not _is_thorough(info.pipelines[0]):
        forms = forms[:1]
    tried = [_pack(info, 0, encode_selection(one)) for one in forms]
    parts = [min(tried, key=lambda one: len(one[0])), _pack(info, 1, values)]
    if heap is not None:
        parts.append(_pack(info, 2, heap))
    return _joined(parts)


def encode_sections(info: SparseInfo, sections: Sequence[bytes]) -> PackedChunk:
    """A chunk of these sections, none of which is a selection."""
    return _joined([_pack(info, number, data) for number, data in enumerate(sections)])


def _joined(parts: Sequence[tuple[bytes, int, int]]) -> PackedChunk:
    """Sections side by side: each as stored, its bytes before filters, the mask of filters that were skipped."""
    bounds = [0]
    for data, _, _ in parts:
        bounds.append(bounds[-1] + len(data))
    stored = b"".join(data for data, _, _ in parts)
    return PackedChunk(stored, tuple(bounds), tuple(size for _, size, _ in parts), tuple(mask for _, _, mask in parts))


def _is_thorough(filters: tuple[FilterInfo, ...]) -> bool:
    """Whether the smallest form is worth the time of trying all: not without filters, nor with quick ones."""
    return any(step.name != "deflate" or step.options[0] > _QUICK for step in filters if step.name in _PACKING)


def _pack(info: SparseInfo, number: int, data: bytes) -> tuple[bytes, int, int]:
    """A section as stored, its bytes before filters, and the mask of filters that were skipped."""
    if not data:
        return b"", 0, 0
    whole = with_checksum(data) if number in info.layout.checksummed else data
    packer = _packer(info.pipelines[number])
    if packer.is_empty:
        return whole, len(whole), 0
    packed, mask = packer.pack(whole)
    return bytes(packed), len(whole), mask


@lru_cache(maxsize=64)
def _packer(filters: tuple[FilterInfo, ...]) -> Packer:
    packer = Packer(filters)
    if not packer.is_known:
        names = ", ".join(step.name for step in filters)
        raise UnsupportedError(f"sections cannot be filtered with {names} here", feature=names)
    return packer
