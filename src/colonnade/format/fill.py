"""Fill value messages: the value of elements that were never written (format specification IV.A.2.e, f).

| message 0x05, version 1 and 2 | bytes | | version 3 | bytes | | message 0x04 | bytes |
| --- | --- | --- | --- | --- | --- | --- | --- |
| version | 1 | | version 3 | 1 | | size | 4 |
| when space is allocated | 1 | | flags: bit 4 undefined, bit 5 has a value | 1 | | value | |
| when fill is written | 1 | | size, if bit 5 | 4 | | | |
| whether it is defined | 1 | | value, if bit 5 | | | | |
| size (version 2: if defined) | 4 | | | | | | |
| value | | | | | | | |
"""

from __future__ import annotations

import struct

from colonnade.format.source import Fields

_HAS_VALUE = 0x20
_WHEN_USUAL = 0x0B  # allocate incrementally, write the fill if it was set: what libhdf5 writes for chunked data


def decode_fill(fields: Fields) -> bytes | None:
    """The bytes of the fill value in message 0x05; None for the default, which is zeros."""
    version = fields.version(1, 2, 3)
    if version == 3:
        has_value = bool(fields.number(1) & _HAS_VALUE)
    else:
        fields.take(2)
        has_value = bool(fields.number(1)) or version == 1
    return _decode_value(fields) if has_value else None


def decode_old_fill(fields: Fields) -> bytes | None:
    """The bytes of the fill value in message 0x04; None for the default, which is zeros."""
    return _decode_value(fields)


def _decode_value(fields: Fields) -> bytes | None:
    size = fields.number(4)
    return fields.take(size) if 0 < size < 1 << 31 else None


def encode_fill(value: bytes | None) -> bytes:
    """Encode a message of version 3, as libhdf5 writes it for chunked data."""
    if value is None:
        return bytes((3, _WHEN_USUAL))
    return struct.pack("<BBI", 3, _WHEN_USUAL | _HAS_VALUE, len(value)) + value
