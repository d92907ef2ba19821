"""Filter pipeline messages: of an ordinary dataset (format specification IV.A.2.l) and of a sectioned one (RFC 3.2).

| message 0x0B version 1 | bytes | | version 2 | bytes |
| --- | --- | --- | --- | --- |
| version 1, number of filters | 1 + 1 | | version 2, number of filters | 1 + 1 |
| 0 | 6 | | descriptions | |
| descriptions, in which the length of the name is always there, | | | | |
| and name and options are padded to a multiple of 8 bytes | | | | |

| sectioned: message 0x0B version 3, message 0x19 version 1 (facts 2.1, 2.2) | bytes |
| --- | --- |
| version | 1 |
| number of filtered sections | 1 |
| for each, ascending: its number | 1 |
| number of filters, at most 32 | 1 |
| bytes of their descriptions | 2 |
| descriptions | |

| description of a filter | bytes |
| --- | --- |
| id | 2 |
| length of the name, only if id >= 256 | 2 |
| flags: bit 0 optional | 2 |
| number of options | 2 |
| name, not padded | |
| options | 4 each |
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from colonnade.filters.names import NAMES
from colonnade.format.source import Fields
from colonnade.model import FilterInfo

_NAMED_FROM = 256
_MOST_FILTERS = 32
_VERSION = 3


def decode_pipelines(fields: Fields, version: int) -> dict[int, tuple[FilterInfo, ...]]:
    """The filters of each filtered section, in the order in which they were applied."""
    fields.version(version)
    found: dict[int, tuple[FilterInfo, ...]] = {}
    for _ in range(fields.number(1)):
        section, count, size = fields.number(1), fields.number(1), fields.number(2)
        if count > _MOST_FILTERS or any(section <= other for other in found):
            raise fields.wrong(f"has {count} filters for section {section}, or sections out of order")
        descriptions = Fields(fields.take(size), fields.what, fields.name)
        found[section] = tuple(_decode_filter(descriptions) for _ in range(count))
        if descriptions.left:
            raise fields.wrong(f"has {descriptions.left} bytes too many for section {section}")
    return found


def decode_pipeline(fields: Fields) -> tuple[FilterInfo, ...]:
    """The filters of an ordinary dataset, in the order in which they were applied."""
    version, count = fields.version(1, 2), fields.number(1)
    if count > _MOST_FILTERS:
        raise fields.wrong(f"has {count} filters")
    fields.take(6 if version == 1 else 0)
    return tuple(_decode_filter(fields, is_padded=version == 1) for _ in range(count))


def _decode_filter(fields: Fields, is_padded: bool = False) -> FilterInfo:
    number = fields.number(2)
    name_bytes = fields.number(2) if is_padded or number >= _NAMED_FROM else 0
    flags, count = fields.number(2), fields.number(2)
    name = fields.take(-(-name_bytes // 8) * 8 if is_padded else name_bytes).split(b"\0")[0].decode("utf-8", "replace")
    options = fields.numbers(count, 4)
    fields.take(4 if is_padded and count % 2 else 0)
    return FilterInfo(number, NAMES.get(number) or name or f"filter {number}", options, bool(flags & 1))


def encode_pipelines(pipelines: Mapping[int, tuple[FilterInfo, ...]]) -> bytes:
    """Message 0x0B version 3."""
    used = {section: filters for section, filters in sorted(pipelines.items()) if filters}
    made = bytes((_VERSION, len(used)))
    for section, filters in used.items():
        descriptions = b"".join(_encode_filter(step) for step in filters)
        made += struct.pack("<BBH", section, len(filters), len(descriptions)) + descriptions
    return made


def _encode_filter(step: FilterInfo) -> bytes:
    name = step.name.encode() + b"\0" if step.id >= _NAMED_FROM else b""
    head = struct.pack("<H", step.id) + (struct.pack("<H", len(name)) if name else b"")
    tail = struct.pack(f"<{len(step.options)}I", *step.options)
    return head + struct.pack("<HH", int(step.optional), len(step.options)) + name + tail
