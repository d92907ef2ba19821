"""How pandas describes stored elements, and how they are read: types, missing values, notes for pandas."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from colonnade.columns.arrow_types import parse_arrow_type, write_arrow_type
from colonnade.columns.mapping import BOOLEAN
from colonnade.dataclass import replace
from colonnade.model import Codec, Plain, StoredType
from colonnade.stored_dtypes import memory_dtype

DATE_TIME, TIME_DELTA, PERIOD = "datetime64", "timedelta64", "period["
_TIMES = re.compile(r"(datetime64|timedelta64)(?:\[(s|ms|us|ns)\])?")
_PERIOD = re.compile(r"period\[[A-Za-z0-9-]{1,20}\]")
_NUMBER = re.compile(r"(?:u?int(?:8|16|32|64)|float(?:16|32|64)|bool|complex(?:64|128))")
_NOT_A_TIME = np.array([np.iinfo(np.int64).min]).tobytes()
UTF_8 = ("utf-8", "utf8", "ascii", "us-ascii")
PLAIN_NAN = "nan"  # what stands for a missing string where no other string is given


class Zone(NamedTuple):
    """The zone of times, which are stored in UTC. `name` is None where it is a pickle."""

    name: str | None


class Meaning(NamedTuple):
    """How the elements of a column are read. `doubt` is what is not known about them, although they can be read."""

    arrow_type: str | None = None
    fill: bytes | None = None
    codec: Codec | None = None
    dtype: str | None = None  # the pandas type, where the Arrow type does not express it
    problem: str | None = None
    doubt: str | None = None

    @property
    def form(self) -> Plain:
        return Plain(self.codec)


def meaning_of(stored: StoredType, kind: str | None, zone: Zone | None = None) -> Meaning:
    """How elements of a datatype are read that pandas calls `kind`."""
    kind = kind or ""
    times = _TIMES.fullmatch(kind)
    if times is not None:
        return _times(stored, times[1], times[2] or "ns", zone)
    if kind.startswith((DATE_TIME, TIME_DELTA)):
        return Meaning(problem=f"they are {kind}, which is not a type of times")
    if kind.startswith(PERIOD):
        is_known = _PERIOD.fullmatch(kind) is not None and _is_int64(stored)
        return Meaning(fill=_NOT_A_TIME, dtype=kind) if is_known else Meaning(problem=f"they are {kind[:40]}")
    if kind == "date":
        return Meaning(doubt="they are dates, read as the number of the day: 1 is 0001-01-01")
    if (kind == "bool" or stored.kind == "bitfield") and stored.size == 1 and memory_dtype(stored).kind in "iu":
        return Meaning(codec="truth")
    return Meaning()


def _is_int64(stored: StoredType) -> bool:
    return stored.kind == "integer" and stored.size == 8 and memory_dtype(stored) == np.int64


def _times(stored: StoredType, kind: str, unit: str, zone: Zone | None) -> Meaning:
    if not _is_int64(stored):
        return Meaning(problem=f"they are {kind} stored as {stored}, not as int64")
    if kind == TIME_DELTA:
        return Meaning(write_arrow_type(pa.duration(unit)), _NOT_A_TIME)
    if zone is None:
        return Meaning(write_arrow_type(pa.timestamp(unit)), _NOT_A_TIME)
    if zone.name is None:
        doubt = "their zone is a pickle, which is not loaded: they are in UTC"
        return Meaning(write_arrow_type(pa.timestamp(unit, "UTC")), _NOT_A_TIME, doubt=doubt)
    named = f"timestamp[{unit}, tz={zone.name}]"
    if parse_arrow_type(named) is None:
        return Meaning(problem=f"their zone {zone.name[:40]!r} is not one")
    return Meaning(named, _NOT_A_TIME)


def as_strings(stored: StoredType, encoding: str, nan_rep: str | None) -> Meaning:
    """How strings are read: `nan_rep` stands for a missing one."""
    if stored.kind != "string":
        return Meaning(problem=f"they are strings stored as {stored}")
    if encoding.lower().replace("_", "-") not in UTF_8:
        return Meaning(problem=f"they are strings in the encoding {encoding[:40]!r}; only UTF-8 is read")
    return Meaning(fill=_string_fill(stored, nan_rep))


def _string_fill(stored: StoredType, nan_rep: str | None) -> bytes | None:
    """The element that holds this string; None if none does."""
    if nan_rep is None:
        return None
    data = nan_rep.encode("utf-8", "surrogateescape")
    return data.ljust(stored.size, b"\0") if data and len(data) <= stored.size else None


def type_of_nothing(kind: str | None) -> StoredType | None:
    """The datatype of an array without elements, which PyTables cannot store, by the name of its dtype."""
    text = kind or ""
    if text == "bool":
        return BOOLEAN
    if _TIMES.fullmatch(text) or text.startswith(PERIOD):
        text = "int64"
    if not _NUMBER.fullmatch(text) or text.startswith("complex"):
        return None
    dtype = np.dtype(text)
    if dtype.kind in "iu":
        return StoredType("integer", dtype.itemsize, signed=dtype.kind == "i", precision=dtype.itemsize * 8)
    mantissa, exponent = {2: (10, 5), 4: (23, 8), 8: (52, 11)}[dtype.itemsize]
    bits = dtype.itemsize * 8
    return StoredType("float", dtype.itemsize, signed=True, precision=bits, mantissa=mantissa, exponent=exponent)


def in_utf8(stored: StoredType) -> StoredType:
    """PyTables calls all its strings ASCII; pandas stores UTF-8 in them."""
    return replace(stored, charset="utf-8") if stored.kind == "string" else stored
