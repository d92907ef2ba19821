"""Read the values of a data frame for its rules, block by block, as stored.

A string ends at its first NUL, as in ArtifactDB's own readers. Values that cannot be read raise an error here, which
the rule reports. A dataset that claims far more than is stored for it is not read; nor are rows in other files.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from colonnade.arrays import Image
from colonnade.columns.missing import Mask
from colonnade.columns.plain import date_problems, date_time_problems
from colonnade.columns.raw import cut
from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError
from colonnade.layouts.raw_node import RawNode
from colonnade.model import DEFAULT_CHUNK_ROWS, DatasetInfo
from colonnade.nodes.elements import claims_too_much

RowString = tuple[int, bytes]  # a row, and its string
LONGEST_STRETCH = 64 << 20  # bytes of a heap in memory at once
MOST_COMPARED_LEVELS = 1 << 22  # compared with each other; more levels than that are not plausible


def _checked(node: RawNode) -> DatasetInfo:
    """The header of a dataset. Raises a CorruptError if it claims far more than is stored."""
    if not isinstance(node.header, DatasetInfo):
        raise CorruptError(node.header, path=node.path)
    claimed, stored = node.length * max(node.header.type.size, 1), node.as_dataset.stored_bytes()
    if claims_too_much(claimed, stored):
        raise CorruptError(f"{claimed:,} bytes are claimed, {stored:,} are stored", path=node.path)
    return node.header


def images(node: RawNode) -> Iterator[tuple[int, Image]]:
    """The elements of a dataset of rank 1, in blocks with their first row. Nothing for rows in other files."""
    header = _checked(node)
    if header.storage in ("external", "virtual"):
        return
    for start, stop in cut(0, node.length, header.chunk_rows or DEFAULT_CHUNK_ROWS, header.type):
        with node.as_dataset.reading(header, start, stop - start) as image:
            yield start, image


def text_blocks(node: RawNode) -> Iterator[tuple[int, list[bytes | None]]]:
    """The strings of a dataset of rank 1, each up to its first NUL; None for a null pointer."""
    for start, image in images(node):
        if image.dtype.kind == "S":
            yield start, [value.split(b"\0", 1)[0] for value in image.tolist()]
        else:
            yield start, [ctypes.string_at(pointer) if pointer else None for pointer in image.tolist()]


def all_texts(node: RawNode) -> list[bytes | None]:
    return [value for _, block in text_blocks(node) for value in block]


# -- checks of strings --


@dataclass
class TextFacts:
    """The first row that is wrong in each way. absent: a null pointer; broken: not UTF-8; misshapen: not in the format,
    with the reason; unreal: a day that does not exist."""

    absent: int | None = None
    broken: RowString | None = None
    misshapen: tuple[int, bytes, str] | None = None
    unreal: RowString | None = None

    def add(self, start: int, block: list[bytes | None], form: str, mark: bytes | None) -> None:
        if None in block and self.absent is None:
            self.absent = start + block.index(None)
        distinct = [value for value in dict.fromkeys(block) if value is not None and value != mark]  # in order
        if self.broken is None:
            bad = next((value for value in distinct if not _is_utf8(value)), None)
            self.broken = None if bad is None else (start + block.index(bad), bad)
        if form in STAMPS and distinct:
            problems, expected = STAMPS[form]
            misshapen, unreal = problems(pa.array(distinct, pa.binary()))
            if misshapen.any() and self.misshapen is None:
                value = distinct[int(misshapen.argmax())]
                self.misshapen = (start + block.index(value), value, expected)
            if unreal.any() and self.unreal is None:
                value = distinct[int(unreal.argmax())]
                self.unreal = (start + block.index(value), value)


STAMPS: dict[str, tuple[Callable[[pa.Array], tuple[Mask, Mask]], str]] = {
    "date": (date_problems, "is not YYYY-MM-DD"),
    "date-time": (date_time_problems, "is not an RFC 3339 date-time"),
}
"""By format: a function that finds the strings not in this format, and those of impossible days; and a message."""


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def check_strings(node: RawNode, form: str = "none", mark: bytes | None = None) -> TextFacts:
    """What is wrong with the strings of a dataset. The placeholder of missing rows is allowed anywhere."""
    facts = TextFacts()
    for start, block in text_blocks(node):
        facts.add(start, block, form, mark)
    return facts


def text_outside(node: RawNode, allowed: set[bytes], mark: bytes | None) -> RowString | None:
    """The first string that is neither allowed nor the placeholder; None if there is none."""
    for start, block in text_blocks(node):
        strange = set(block) - allowed - {mark, None}
        if strange:
            row = min(block.index(value) for value in strange)
            return start + row, block[row] or b""
    return None


def repeated_text(node: RawNode) -> bytes | None:
    """A string that a dataset holds twice; None if there is none."""
    if node.length > MOST_COMPARED_LEVELS:
        return None
    seen: set[bytes | None] = set()
    for _, block in text_blocks(node):
        for value in block:
            if value in seen:
                return value or b""
            seen.add(value)
    return None


# -- checks of numbers --


def code_outside(node: RawNode, n_levels: int, mark: int | None) -> tuple[int, int] | None:
    """The first row whose code is neither that of a level nor the placeholder, and the code; None if there is none."""
    for start, codes in images(node):
        bad = codes >= np.uint64(n_levels) if codes.dtype.kind == "u" else (codes < 0) | (codes >= n_levels)
        if mark is not None:
            bad &= codes != mark if _holds(codes.dtype, mark) else True
        if bad.any():
            row = int(np.argmax(bad))
            return start + row, int(codes[row])
    return None


def _holds(dtype: np.dtype, number: int) -> bool:
    limits = np.iinfo(dtype)
    return int(limits.min) <= number <= int(limits.max)


def pointer_outside(node: RawNode, heap_bytes: int) -> tuple[int, int, int] | None:
    """The first row whose bytes are not all in the heap, with its offset and length; None if there is none."""
    for start, pointers in images(node):
        first, second = (pointers.dtype.names or ("", ""))[:2]
        offsets, lengths = pointers[first].astype("u8"), pointers[second].astype("u8")
        whole = np.uint64(heap_bytes)
        bad = (lengths > whole) | (offsets > whole - np.minimum(lengths, whole))
        if bad.any():
            row = int(np.argmax(bad))
            return start + row, int(offsets[row]), int(lengths[row])
    return None


def pointed_no_utf8(node: RawNode, heap: RawNode) -> RowString | None:
    """The first row whose bytes in the heap are not UTF-8; None if there is none. All pointers must be in the heap.

    Pointers are mostly in heap order, so those of a block cover one stretch of the heap, which is read at once. If the
    stretch is too long, the block is skipped.
    """
    header = _checked(heap)
    for start, pointers in images(node):
        pairs = [(int(pair[0]), int(pair[0]) + int(pair[1])) for pair in pointers]
        first, last = min(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
        if last - first > LONGEST_STRETCH or header.storage in ("external", "virtual"):
            continue
        with heap.as_dataset.reading(header, first, last - first) as image:
            stretch = image.tobytes()
        for row, (begin, end) in enumerate(pairs):
            if not _is_utf8(stretch[begin - first : end - first]):
                return start + row, stretch[begin - first : end - first]
    return None
