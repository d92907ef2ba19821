"""What messages were decoded before: the same bytes mean the same, in one file and in many.

Columns of a table, and the tables of many files, have few datatypes, fill values, filters and attributes between them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from colonnade.errors import ColonnadeError
from colonnade.format.source import Fields, HDF5Source

T = TypeVar("T")
_MOST_BYTES = 512  # of messages whose meaning is kept; longer ones are rare, and differ


def decode_known(
    source: HDF5Source, data: bytes, decode: Callable[[Fields], T], what: str, address: int | None = None
) -> T:
    """What a message means that holds no address of its own: immutable values, which others may have.

    what, address: for errors, as in `HDF5Source.as_fields`.
    """
    if len(data) <= _MOST_BYTES:
        try:
            return _decode_once(data, decode, source.offset_size, source.length_size)  # type: ignore[return-value]
        except ColonnadeError:
            pass  # decoded again: the error names the structure, its place and its file
    return decode(source.as_fields(data, what, address))


@lru_cache(maxsize=1024)
def _decode_once(data: bytes, decode: Callable[[Fields], object], offset_size: int, length_size: int) -> object:
    return decode(Fields(data, "", "", offset_size, length_size))
