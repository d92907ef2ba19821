"""Columns whose rows stand for other values than their datatype tells, made with plain h5py, and tables of them.

An `EncodedColumn` says how it is stored, how it is described, and (in plain Python) what its values are.
`encoded_layout` makes the layout hep001 describe datasets of a table so: no layout that has such columns is needed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.columns.mapping import TEXT
from colonnade.columns.read import ColumnReader
from colonnade.h5.datasets import describe_dataset
from colonnade.h5.handles import LibraryDataset, LibraryGroup
from colonnade.layouts import LAYOUTS
from colonnade.layouts.hep001 import raw
from colonnade.model import CategoriesInfo, Coded, ColumnInfo, Plain, Pointers, TableInfo

N_ROWS = 203
CHUNK = 16
INT_MIN = -(2**31)
NA_BITS = 0x7FF00000000007A2
QUIET_NA_BITS = 0x7FF80000000007A2
OTHER_NAN_BITS = 0x7FF8000000000001
LEVELS = ["low", "middle", "high", "größer", ""]
WORDS = [b"muon", b"", "größe".encode(), b"a\0b", b"NA", b"NA\0 more", b"NAN", b"x" * 300]
DAYS = ["2023-01-31", "1970-01-01", "0001-01-01", "9999-12-31", "2024-02-29", "1969-12-31", "NA"]
TIMES = [
    ("2023-01-31T10:20:30Z", datetime(2023, 1, 31, 10, 20, 30)),
    ("1970-01-01T00:00:00.000001+00:00", datetime(1970, 1, 1, 0, 0, 0, 1)),
    ("1969-12-31T23:59:59.9999999Z", datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("2016-12-31T23:59:60Z", datetime(2017, 1, 1)),
    ("2016-12-31T24:00:00-24:00", datetime(2017, 1, 2)),
    ("2000-02-29T01:00:00.5+05:30", datetime(2000, 2, 28, 19, 30, 0, 500000)),
]


@dataclass(frozen=True)
class EncodedColumn:
    """How a column is stored, how it is described, and what its values are."""

    name: str
    stored: Any  # an array, or texts for variable length
    values: list[Any]
    changes: dict[str, Any]
    companion: Any = None  # an array, written as its companion; an Arrow array is given as it is
    create: dict[str, Any] = field(default_factory=lambda: {"chunks": (CHUNK,)})

    def write(self, group: h5py.Group, apart: h5py.Group) -> None:
        """The column's dataset into `group`, its companion into `apart`."""
        if isinstance(self.stored, list):
            group.create_dataset(self.name, data=self.stored, dtype=h5py.string_dtype(), **self.create)
        else:
            group.create_dataset(self.name, data=self.stored, **self.create)
        if isinstance(self.companion, np.ndarray):
            chunks = (97 if len(self.companion) < 5000 else 1 << 16,)
            apart.create_dataset(self.name, data=self.companion, chunks=chunks, maxshape=(None,), compression="gzip")

    def opened(self, apart: Any) -> Any:
        return apart.open_dataset(self.name) if isinstance(self.companion, np.ndarray) else self.companion

    def info(self, dataset: Any) -> ColumnInfo:
        found = describe_dataset(dataset)
        shape = found.shape or (0,)
        return ColumnInfo(
            self.name, found.type, shape[0], found.storage, found.chunk_rows, found.filters, **self.changes
        )

    def reader(self, file: h5py.File) -> ColumnReader:
        """Of a file that the column alone was written to."""
        dataset = LibraryDataset.of(file[self.name].id)
        return ColumnReader(self.info(dataset), dataset, self.opened(LibraryGroup.of(file["apart"].id)))


def picked(n_choices: int, seed: int = 5, n_rows: int = N_ROWS) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, n_choices, n_rows)


def _numbers(name: str, values: list[Any], dtype: str, turn: Callable[[Any], Any], **changes: Any) -> EncodedColumn:
    """Numbers picked from a few; `turn` says what one stands for."""
    stored = np.array(values, dtype=dtype)[picked(len(values))]
    create = {"chunks": (CHUNK,), "compression": "gzip", "shuffle": True} if ">" in dtype else {}
    return EncodedColumn(name, stored, [turn(value) for value in stored.tolist()], changes, create=create)


def _bytes(value: float, dtype: str) -> bytes:
    return np.array(value, dtype=dtype).tobytes()


def _floats(name: str, bits: list[int], missing: Callable[[int], bool], order: str, **changes: Any) -> EncodedColumn:
    chosen = np.array(bits, dtype="u8")[picked(len(bits))]
    values = [None if missing(b) else struct.unpack("d", struct.pack("Q", b))[0] for b in chosen.tolist()]
    return EncodedColumn(name, chosen.astype(f"{order}u8").view(f"{order}f8"), values, changes)


def _texts(name: str, texts: list[str], values: list[Any], fixed: bool, **changes: Any) -> EncodedColumn:
    chosen = picked(len(texts))
    stored: Any = [texts[place] for place in chosen]
    if fixed:
        stored = np.array([text.encode() for text in stored])
    return EncodedColumn(name, stored, [values[place] for place in chosen], changes)


def _pointers(name: str, dtype: Any, is_shared: bool) -> EncodedColumn:
    """Text in a heap: one behind the other, or (shared) each word once, and in no order."""
    chosen = picked(len(WORDS))
    words = WORDS[::-1] if is_shared else [WORDS[place] for place in chosen]
    starts = np.cumsum([0, *map(len, words)])
    stored = np.zeros(N_ROWS, dtype=dtype)
    names = stored.dtype.names or ()
    stored[names[0]] = [  # type: ignore[misc]
        starts[len(WORDS) - 1 - place] if is_shared else starts[row] for row, place in enumerate(chosen)
    ]
    stored[names[1]] = [len(WORDS[place]) for place in chosen]  # type: ignore[misc]
    values = [None if WORDS[place].split(b"\0")[0] == b"NA" else WORDS[place].decode() for place in chosen]
    heap = np.frombuffer(b"".join(words), dtype="u1")
    return EncodedColumn(name, stored, values, {"form": Pointers(), "fill": b"NA"}, heap)


def _levels(ordered: bool) -> CategoriesInfo:
    return CategoriesInfo("levels", TEXT, len(LEVELS), ordered)


def _codes(name: str, dtype: str, fill: int | None, ordered: bool = False) -> EncodedColumn:
    codes = [0, 1, 2, 3, 4] + ([] if fill is None else [fill])
    marks: dict[str, Any] = {}
    if fill is not None:
        marks["fill"] = np.array(fill, dtype=np.dtype(dtype).newbyteorder("=")).tobytes()
    return replace(
        _numbers(
            name, codes, dtype, lambda code: None if code == fill else LEVELS[code],
            form=Coded(_levels(ordered), "codes"), **marks,
        ),
        companion=pa.array(LEVELS),
    )  # fmt: skip


def _day(text: str) -> date | None:
    return None if text == "NA" else date.fromisoformat(text)


def kept_columns() -> list[EncodedColumn]:
    """One of every form, in several datatypes, byte orders and ways to mark what is missing."""
    mark = -1
    point = [("offset", "<u8"), ("length", "<u8")]
    odd = np.dtype([("o", ">u4"), ("l", "<u2"), ("more", "f4")])
    stamps, times = [text for text, _ in TIMES], [time for _, time in TIMES]
    utc = [time.replace(tzinfo=UTC) for time in times]
    seconds = [(time - timedelta(microseconds=time.microsecond)) for time in times]
    floats = [
        0x3FF00000000007A2,
        0x7FF80001000007A2,
        0xFFF80000000007A2,
        NA_BITS,
        QUIET_NA_BITS,
        OTHER_NAN_BITS,
        0,
        1 << 63,
        0x3FF8000000000000,
        0x7FF0000000000000,
    ]
    r = lambda bits: bits & 0xFFFF_FFFF == 1954 and bits & 0x7FF0 << 48 == 0x7FF0 << 48  # noqa: E731
    return [
        _numbers("truth", [0, 1, 2, 7, mark], "i1", lambda v: None if v == mark else v != 0, form=Plain("truth"),
                 fill=_bytes(mark, "i1")),
        _numbers("truth_big", [0, 1, INT_MIN, -5], ">i4", lambda v: None if v == INT_MIN else v != 0,
                 form=Plain("truth"), fill=_bytes(INT_MIN, "i4")),
        _numbers("truth_all", [0, 300], "u2", bool, form=Plain("truth")),
        _numbers("truth_float", [0.0, 1.0, np.nan, -0.0], "f8", lambda v: None if math.isnan(v) else v != 0,
                 form=Plain("truth"), fill=_bytes(np.nan, "f8")),
        _numbers("double", [3, -7, INT_MIN, 0, 2**31 - 1], ">i4", lambda v: None if v == INT_MIN else float(v),
                 form=Plain("double"), fill=_bytes(INT_MIN, "i4")),
        _numbers("double_u4", [2**32 - 1, 0, 5], "u4", float, form=Plain("double")),
        _numbers("double_f4", [0.1, np.nan, -0.0], "f4", lambda v: None if math.isnan(v) else v, form=Plain("double"),
                 fill=_bytes(np.nan, "f4")),
        _texts("day", DAYS, list(map(_day, DAYS)), True, form=Plain("date"), fill=b"NA"),
        _texts("day_text", DAYS, list(map(_day, DAYS)), False, form=Plain("date"), fill=b"NA\0\0"),
        _texts("day_all", DAYS[:-1], list(map(_day, DAYS[:-1])), False, form=Plain("date")),
        _texts("time", [*stamps, ""], [*utc, None], True, form=Plain("date-time"), fill=b""),
        _texts("time_text", [*stamps, "missing"], [*utc, None], False, form=Plain("date-time"), fill=b"missing",
               arrow_type="timestamp[us, tz=UTC]"),
        _texts("time_naive", stamps, seconds, False, form=Plain("date-time"), arrow_type="timestamp[s]"),
        _pointers("pointers", point, False),
        _pointers("pointers_shared", odd, True),
        replace(_texts("levels", [*LEVELS, "NA"], [*LEVELS, None], True,
                       form=Coded(_levels(False), "levels"), fill=b"NA"), companion=pa.array(LEVELS)),
        replace(_texts("levels_text", [*LEVELS[1:], "NA", "low"], [*LEVELS[1:], None, "low"], False,
                       form=Coded(_levels(True), "levels"), fill=b"NA"),
                companion=np.array([t.encode() for t in LEVELS])),
        _codes("codes", "i4", INT_MIN, True),
        _codes("codes_big", ">i2", 7),
        _codes("codes_u1", "u1", 5),
        _codes("codes_inside", "i1", 1),
        _codes("codes_all", "u2", None),
        _floats("bits", floats, lambda b: b == NA_BITS, "<", form=Plain("bits"), fill=struct.pack("Q", NA_BITS)),
        _floats("bits_big", floats, lambda b: b == OTHER_NAN_BITS, ">", form=Plain("bits"),
                fill=struct.pack("Q", OTHER_NAN_BITS)),
        _floats("bits_zero", floats, lambda b: b == 1 << 63, "<", form=Plain("bits"), fill=struct.pack("Q", 1 << 63)),
        _floats("r", floats, r, "<", form=Plain("r")),
        _floats("r_big", floats, r, ">", form=Plain("r")),
        _numbers("r_float", [0.5, np.nan, -0.0], "f4", lambda v: v, form=Plain("r")),
    ]  # fmt: skip


def write_encoded(path: Path, columns: list[EncodedColumn], n_rows: int = N_ROWS) -> None:
    """A table "t" of these columns and one of row numbers."""
    cn.write(path, {"row": np.arange(n_rows)}, table="t")
    with h5py.File(path, "r+") as file:
        apart = file.create_group("apart")
        for column in columns:
            column.write(file["t"], apart)


def encoded_layout(monkeypatch: pytest.MonkeyPatch, columns: list[EncodedColumn]) -> None:
    """Have the layout hep001 describe datasets of these names as such columns."""
    named = {column.name: column for column in columns}
    hep001 = LAYOUTS["hep001"]

    def describe(group: Any, path: str) -> TableInfo:
        info = hep001.describe(group, path)
        changed = tuple(replace(c, **named[c.name].changes) if c.name in named else c for c in info.columns)
        return replace(info, columns=changed, problems=())

    def open_column(group: Any, column: ColumnInfo) -> tuple[Any, Any]:
        dataset, companion = hep001.open_column(group, replace(column, form=Plain()))
        if column.name in named:
            companion = named[column.name].opened(group.open_group("/apart"))
        return dataset, companion

    monkeypatch.setattr(raw, "describe", describe)
    reading = SimpleNamespace(describe=describe, open_column=open_column)
    monkeypatch.setitem(
        LAYOUTS, "hep001", replace(hep001, find=lambda name: reading if name == "describe" else hep001.find(name))
    )
