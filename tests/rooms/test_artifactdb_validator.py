"""The checker and dolomite-base's validator, on single changes of a valid directory: they agree, or it says why not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5d, h5s, h5t

import colonnade as cn

dolomite_base = pytest.importorskip("dolomite_base")

TEXT = h5py.string_dtype()
MARK = "missing-value-placeholder"
N = 5
POINTER = np.dtype([("offset", "<u8"), ("length", "<u8")])
Change = Callable[[Any, Path], object]  # given the group /data_frame, and the directory
# Positions of the columns of the base.
INTEGER, INTEGER_M, BOOLEAN, BOOLEAN_M, NUMBER, NUMBER_M, STRING, STRING_M, DATE, TIME, DATE_M = range(11)
FACTOR, FACTOR_M, FACTOR_O, VLS, VLS_M, NUMBER_I, VARIABLE = range(11, 18)
COUNT = 18


def made(data: Any, position: int, values: Any, kind: str, **attributes: Any) -> Any:
    dataset = data.create_dataset(str(position), data=values)
    dataset.attrs["type"] = kind
    for name, value in attributes.items():
        dataset.attrs[MARK if name == "mark" else name] = value
    return dataset


def factor(data: Any, position: int, codes: Any, mark: Any = None, ordered: Any = None) -> None:
    group = data.create_group(str(position))
    group.attrs["type"] = "factor"
    group["levels"] = np.array([b"x", b"y", b"z"])
    group["codes"] = codes
    if mark is not None:
        group["codes"].attrs[MARK] = mark
    if ordered is not None:
        group.attrs["ordered"] = ordered


def pointers(data: Any, position: int, mark: Any = None) -> None:
    group = data.create_group(str(position))
    group.attrs["type"] = "vls"
    group["pointers"] = np.array([(0, 3), (3, 2), (5, 0), (0, 5), (1, 1)], POINTER)
    group["heap"] = np.frombuffer(b"abcde", "u1")
    if mark is not None:
        group["pointers"].attrs[MARK] = mark


def base(folder: Path) -> None:
    """A directory of version 1.1 with every type of column, with and without missing rows."""
    folder.mkdir()
    (folder / "OBJECT").write_text('{"type": "data_frame", "data_frame": {"version": "1.1"}}')
    with h5py.File(folder / "basic_columns.h5", "w") as file:
        group = file.create_group("data_frame")
        group.attrs["row-count"] = np.uint64(N)
        group["column_names"] = np.array([f"c{position}".encode() for position in range(COUNT)])
        group["row_names"] = np.array([b"a", b"b", b"c", b"d", b"d"])
        data = group.create_group("data")
        made(data, INTEGER, np.arange(N, dtype="<i4"), "integer")
        made(data, INTEGER_M, np.arange(N, dtype="<i2"), "integer", mark=np.int16(3))
        made(data, BOOLEAN, np.array([0, 1, 1, 0, 1], "i1"), "boolean")
        made(data, BOOLEAN_M, np.array([0, 1, -1, 0, 1], "i1"), "boolean", mark=np.int8(-1))
        made(data, NUMBER, np.arange(N, dtype="<f8"), "number")
        made(data, NUMBER_M, np.array([0, np.nan, 1, 2, 3], "<f8"), "number", mark=np.float64(np.nan))
        made(data, STRING, np.array([b"a", b"", b"ccc", b"a", b"\xc3\xa9"]), "string")
        made(data, STRING_M, np.array([b"a", b"NA", b"ccc", b"a", b"e"]), "string", mark="NA")
        made(data, DATE, np.array([b"2023-01-31"] * N), "string", format="date")
        made(data, TIME, np.array([b"2023-01-31T12:30:59.25+05:30"] * N), "string", format="date-time")
        made(data, DATE_M, np.array([b"2023-01-31", b"NA", b"NA", b"NA", b"NA"]), "string", format="date", mark="NA")
        factor(data, FACTOR, np.array([0, 1, 2, 1, 0], "<u4"))
        factor(data, FACTOR_M, np.array([0, 1, 3, 1, 0], "u1"), mark=np.uint8(3))
        factor(data, FACTOR_O, np.array([0, 1, 2, 1, 0], "<u2"), ordered=np.int8(1))
        pointers(data, VLS)
        pointers(data, VLS_M, mark="abc")
        made(data, NUMBER_I, np.arange(N, dtype="<u4"), "number")
        made(data, VARIABLE, np.array(["a", "", "cc", "d", "é"], TEXT), "string")


# -- single changes --

CHANGES: dict[str, Change] = {}


def change(name: str, do: Change) -> None:
    assert name not in CHANGES
    CHANGES[name] = do


def column(position: int, values: Any, **attributes: Any) -> Change:
    """A column of other values, with the same attributes but those that are named."""

    def do(frame: Any, _folder: Path) -> None:
        data, name = frame["data"], str(position)
        kept = dict(data[name].attrs)
        del data[name]
        dataset = data.create_dataset(name, data=values)
        for key, value in {**kept, **attributes}.items():
            if value is not None:
                dataset.attrs[MARK if key == "mark" else key] = value

    return do


def part(position: int, name: str, values: Any) -> Change:
    """A dataset in the group of a column, with its attributes."""

    def do(frame: Any, _folder: Path) -> None:
        group = frame["data"][str(position)]
        kept = dict(group[name].attrs)
        del group[name]
        if values is not None:
            group.create_dataset(name, data=values)
            for key, value in kept.items():
                group[name].attrs[key] = value

    return do


def attribute(where: str, name: str, value: Any) -> Change:
    def do(frame: Any, _folder: Path) -> None:
        node = frame if where == "" else frame[where]
        if name in node.attrs:
            del node.attrs[name]
        if value is not None:
            node.attrs.create(name, value[0], **value[1]) if isinstance(value, tuple) else node.attrs.create(
                name, value
            )

    return do


def member(name: str, values: Any) -> Change:
    """A member of the group, replaced or (None) removed."""

    def do(frame: Any, _folder: Path) -> None:
        if name in frame:
            del frame[name]
        if values is not None:
            frame.create_dataset(name, data=values)

    return do


def object_file(text: str | None) -> Change:
    def do(_frame: Any, folder: Path) -> None:
        place = folder / "OBJECT"
        place.unlink()
        if text is not None:
            place.write_text(text)

    return do


def stored(position: int, type_id: Any, kind: str | None = None) -> Change:
    """A column of five zeros of an HDF5 type that NumPy has no word for."""

    def do(frame: Any, _folder: Path) -> None:
        data, name = frame["data"], str(position)
        kept = {**data[name].attrs, **({} if kind is None else {"type": kind})}
        del data[name]
        h5d.create(data.id, name.encode(), type_id, h5s.create_simple((N,)))
        for key, value in kept.items():
            data[name].attrs[key] = value

    return do


def integer_type(size: int, precision: int, signed: bool) -> Any:
    type_id = (h5t.STD_I64LE if signed else h5t.STD_U64LE).copy()
    type_id.set_precision(precision)
    type_id.set_size(size)
    return type_id


def float_type() -> Any:
    """A float of 24 bits in four bytes."""
    type_id = h5t.IEEE_F32LE.copy()
    type_id.set_fields(23, 15, 8, 0, 15)
    type_id.set_precision(24)
    return type_id


NUMERIC = ("i1", "u1", "<i2", "<u2", ">i2", "<i4", ">i4", "<u4", "<i8", "<u8", "<f2", "<f4", ">f4", "<f8", ">f8")
for word in NUMERIC:
    change(f"integer as {word}", column(INTEGER, np.zeros(N, word)))
    change(f"boolean as {word}", column(BOOLEAN, np.zeros(N, word)))
    change(f"number as {word}", column(NUMBER, np.zeros(N, word)))
    change(f"codes as {word}", part(FACTOR, "codes", np.zeros(N, word)))
for word in ("<u4", "<f8"):
    change(f"string as {word}", column(STRING, np.zeros(N, word)))
    change(f"levels as {word}", part(FACTOR, "levels", np.arange(3).astype(word)))
    change(f"heap as {word}", part(VLS, "heap", np.zeros(5, word)))
change("number as long double", column(NUMBER, np.zeros(N, np.longdouble)))
change("number as enum", column(NUMBER, np.zeros(N, bool)))
change("number as text", column(NUMBER, np.array([b"1"] * N)))
change("integer as enum", column(INTEGER, np.zeros(N, bool)))
change("boolean as enum", column(BOOLEAN, np.zeros(N, bool)))
change("integer as text", column(INTEGER, np.array([b"1"] * N)))
change("integer as compound", column(INTEGER, np.zeros(N, POINTER)))
change("codes as enum", part(FACTOR, "codes", np.zeros(N, bool)))
change("codes as text", part(FACTOR, "codes", np.array([b"x"] * N)))
change("heap as i1", part(VLS, "heap", np.zeros(5, "i1")))
change("string of variable length", column(STRING, np.array(["a"] * N, TEXT)))
change("string as bytes of variable length", column(STRING, np.array([b"a"] * N, h5py.string_dtype("ascii"))))
change("string that is no UTF-8", column(STRING, np.array([b"a", b"\xff\xfe", b"c", b"d", b"e"])))
change("string as bitfield", stored(STRING, h5t.STD_B8LE))
change("integer as bitfield", stored(INTEGER, h5t.STD_B8LE))
change("integer as opaque", column(INTEGER, np.zeros(N, "V4")))
change("integer of 31 bits without sign", stored(INTEGER, integer_type(4, 31, False)))
change("integer of 20 bits in four bytes", stored(INTEGER, integer_type(4, 20, True)))
change("integer of 33 bits", stored(INTEGER, integer_type(8, 33, True)))
change("number of 32 bits in eight bytes", stored(NUMBER, integer_type(8, 32, False)))
change("number of 40 bits", stored(NUMBER, integer_type(8, 40, True)))
change("number of 52 bits", stored(NUMBER, integer_type(8, 52, True)))
change("number of 53 bits", stored(NUMBER, integer_type(8, 53, True)))
change("number of 51 bits without sign", stored(NUMBER, integer_type(8, 51, False)))
change("number of 52 bits without sign", stored(NUMBER, integer_type(8, 52, False)))
change("number of a float of 24 bits", stored(NUMBER, float_type()))
for position, name in ((INTEGER, "integer"), (NUMBER, "number"), (STRING, "string")):
    values = np.array([b"a"] * 25).reshape(5, 5) if position == STRING else np.zeros((5, 5), "i4")
    change(f"{name} of rank 2", column(position, values))
    change(f"{name} of shape (5, 1)", column(position, values[:, :1]))
    change(f"{name} of rank 0", column(position, values[0, 0]))
    change(f"{name} too short", column(position, values[:4, 0]))
    change(f"{name} too long", column(position, np.resize(values[:, 0], 6)))
    change(f"{name} empty", column(position, values[:0, 0]))
    change(f"{name} without a space", column(position, h5py.Empty("S1" if position == STRING else "i4")))
for name in ("codes", "levels"):
    values = np.array([b"x", b"y", b"z"]) if name == "levels" else np.zeros(N, "u1")
    change(f"{name} of rank 2", part(FACTOR, name, values[:, None]))
    change(f"{name} of rank 0", part(FACTOR, name, values[0]))
    change(f"{name} missing", part(FACTOR, name, None))
    change(f"{name} short", part(FACTOR, name, values[:2]))
    change(f"{name} empty", part(FACTOR, name, values[:0]))

# Attributes of columns.
for position in (INTEGER, STRING, FACTOR, VLS):
    where = f"data/{position}"
    change(f"{where} without type", attribute(where, "type", None))
    change(f"{where} type of shape (1,)", attribute(where, "type", np.array(["integer"], TEXT)))
    change(f"{where} type a number", attribute(where, "type", np.int8(1)))
    change(f"{where} type unknown", attribute(where, "type", "strings"))
    change(f"{where} type in capitals", attribute(where, "type", "Factor"))
    change(
        f"{where} type of fixed length",
        attribute(
            where,
            "type",
            np.bytes_(
                ("integer", "", "", "", "", "", "string")[position]
                if position < 7
                else "factor"
                if position == FACTOR
                else "vls"
            ),
        ),
    )
change("data/0 type boolean", attribute("data/0", "type", "boolean"))
change("data/0 type number", attribute("data/0", "type", "number"))
change("data/0 type string", attribute("data/0", "type", "string"))
change("data/0 type factor", attribute("data/0", "type", "factor"))
change("data/0 type vls", attribute("data/0", "type", "vls"))
change("data/0 type other", attribute("data/0", "type", "other"))
change("data/11 type vls", attribute("data/11", "type", "vls"))
change("data/14 type factor", attribute("data/14", "type", "factor"))
change("data/11 type string", attribute("data/11", "type", "string"))
change("a stranger attribute", attribute("data/0", "units", "m"))
change("a format of an integer", attribute("data/0", "format", "date"))
for word in ("none", "date", "date-time", "time", "", "Date"):
    change(f"format {word!r} of a date", attribute("data/8", "format", word))
    change(f"format {word!r} of text", attribute("data/6", "format", word))
change("format a number", attribute("data/8", "format", np.int8(1)))
change("format of shape (1,)", attribute("data/8", "format", np.array(["date"], TEXT)))
for word in ("i1", "<i4", ">i4", "<u2", "<u4", "<i8", "<f8", "?"):
    change(f"ordered as {word}", attribute("data/13", "ordered", np.ones((), word)))
change("ordered 0", attribute("data/13", "ordered", np.int8(0)))
change("ordered 7", attribute("data/13", "ordered", np.int8(7)))
change("ordered a text", attribute("data/13", "ordered", "true"))
change("ordered of shape (1,)", attribute("data/13", "ordered", np.array([1], "i1")))

# What marks missing rows.
for position, name, same in ((INTEGER_M, "integer", "<i2"), (BOOLEAN_M, "boolean", "i1"), (NUMBER_M, "number", "<f8")):
    for word in ("i1", "<i2", ">i2", "<i4", "<u2", "<f4", "<f8", ">f8"):
        change(f"mark of {name} as {word}", attribute(f"data/{position}", MARK, np.ones((), word)))
    change(f"mark of {name} a text", attribute(f"data/{position}", MARK, "NA"))
    change(f"mark of {name} of shape (1,)", attribute(f"data/{position}", MARK, np.ones(1, same)))
    change(f"mark of {name} gone", attribute(f"data/{position}", MARK, None))
for position, name in ((STRING_M, "text"), (VARIABLE, "variable text")):
    change(f"mark of {name} of fixed length", attribute(f"data/{position}", MARK, np.bytes_("NA")))
    change(f"mark of {name} long", attribute(f"data/{position}", MARK, "NA is a long text"))
    change(f"mark of {name} empty", attribute(f"data/{position}", MARK, ""))
    change(f"mark of {name} a number", attribute(f"data/{position}", MARK, np.int32(1)))
    change(f"mark of {name} of shape (1,)", attribute(f"data/{position}", MARK, np.array(["NA"], TEXT)))
change("mark of dates gone", attribute(f"data/{DATE_M}", MARK, None))
change("mark of dates another", attribute(f"data/{DATE_M}", MARK, "N/A"))
change("mark of codes gone", attribute(f"data/{FACTOR_M}/codes", MARK, None))
change("mark of codes another", attribute(f"data/{FACTOR_M}/codes", MARK, np.uint8(9)))
change("mark of codes a level", attribute(f"data/{FACTOR_M}/codes", MARK, np.uint8(1)))
change("mark of codes wider", attribute(f"data/{FACTOR_M}/codes", MARK, np.uint16(3)))
change("mark of codes of shape (1,)", attribute(f"data/{FACTOR_M}/codes", MARK, np.array([3], "u1")))
change("mark of codes a text", attribute(f"data/{FACTOR_M}/codes", MARK, "z"))
change("mark on the group of a factor", attribute(f"data/{FACTOR}", MARK, "z"))
change("mark on levels", attribute(f"data/{FACTOR}/levels", MARK, "z"))
change("mark on column names", attribute("column_names", MARK, "c0"))
change("mark on row names", attribute("row_names", MARK, "a"))
change("mark of pointers a number", attribute(f"data/{VLS_M}/pointers", MARK, np.int8(1)))
change("mark of pointers of shape (1,)", attribute(f"data/{VLS_M}/pointers", MARK, np.array(["a"], TEXT)))
change("mark of pointers of fixed length", attribute(f"data/{VLS_M}/pointers", MARK, np.bytes_("a")))

# Values.
change("a code too high", part(FACTOR, "codes", np.array([0, 1, 3, 1, 0], "<u4")))
change("a code far too high", part(FACTOR, "codes", np.array([0, 1, 2**63 + 1, 1, 0], "<u8")))
change("a code too high beside the mark", part(FACTOR_M, "codes", np.array([0, 1, 3, 4, 0], "u1")))
change("a level twice", part(FACTOR, "levels", np.array([b"x", b"y", b"x"])))
change("an empty level", part(FACTOR, "levels", np.array([b"x", b"", b"z"])))
change("two empty levels", part(FACTOR, "levels", np.array([b"", b"", b"z"])))
change("levels of variable length", part(FACTOR, "levels", np.array(["x", "y", "é"], TEXT)))
change("a level twice in variable length", part(FACTOR, "levels", np.array(["x", "y", "x"], TEXT)))
change("more levels", part(FACTOR, "levels", np.array([b"x", b"y", b"z", b"w"])))
change("a stranger in a factor", lambda frame, _: frame["data/11"].create_dataset("more", data=1))
DATES = (
    "2023-01-01", "0000-01-01", "9999-12-31", "2023-00-10", "2023-01-00", "2023-02-30", "2023-02-29", "2024-02-29",
    "2023-04-31", "2023-13-01", "2023-01-32", "2023-19-01", "2023-1-1", "23-01-01", "2023-01-1", "2023/01/01",
    "2023-01-01 ", " 2023-01-01", "2023-01-01T00:00:00Z", "20230101", "", "NA", "2023-01-3a", "2023-Jan-01",
    "-023-01-01", "2023-01-40", "２023-01-01",
)  # fmt: skip
for word in DATES:
    change(f"the date {word!r}", column(DATE, np.array([b"2023-01-31"] * 4 + [word.encode()])))
TIMES = (
    "2023-01-31T00:00:00Z", "2023-01-31T23:59:59Z", "2023-01-31T23:59:60Z", "2023-01-31T23:59:60.0Z",
    "2023-01-31T23:59:60.5Z", "2023-01-31T23:59:61Z", "2023-01-31T24:00:00Z", "2023-01-31T24:00:00.000Z",
    "2023-01-31T24:00:01Z", "2023-01-31T24:01:00Z", "2023-01-31T24:00:00.1Z", "2023-01-31T25:00:00Z",
    "2023-01-31T12:60:00Z", "2023-01-31T12:00:00", "2023-01-31T12:00:00z", "2023-01-31t12:00:00Z",
    "2023-01-31 12:00:00Z", "2023-01-31T12:00Z", "2023-01-31T12:00:00+0530", "2023-01-31T12:00:00+05",
    "2023-01-31T12:00:00+05:30", "2023-01-31T12:00:00-24:00", "2023-01-31T12:00:00+24:30", "2023-01-31T12:00:00+24:59",
    "2023-01-31T12:00:00+25:00", "2023-01-31T12:00:00+12:60", "2023-01-31T12:00:00.Z", "2023-01-31T12:00:00.123456789Z",
    "2023-01-31T12:00:00.1234567890123Z", "2023-01-31T12:00:00,5Z", "2023-01-31T1:00:00Z", "2023-01-31", "",
    "2023-02-30T12:00:00Z", "2023-00-01T12:00:00Z", "2023-01-31T12:00:00Zx", "2023-01-31T12:00:00 Z",
    "2023-01-31T12:00:00.5", "2023-01-31T12:00:0aZ", "2023-01-31T-2:00:00Z",
)  # fmt: skip
for word in TIMES:
    change(f"the time {word!r}", column(TIME, np.array([b"2023-01-31T00:00:00Z"] * 4 + [word.encode()])))
change("a date in variable length that is none", column(DATE, np.array(["2023-01-31"] * 4 + ["x"], TEXT)))
change("a date with a NUL behind", column(DATE, np.array([b"2023-01-31"] * 4 + [b"2023-01-31\0x"])))


def nulls(where: str, n: int) -> Change:
    """A dataset of texts of variable length that nobody wrote: they lead nowhere."""

    def do(frame: Any, _folder: Path) -> None:
        kept = dict(frame[where].attrs)
        del frame[where]
        frame.create_dataset(where, (n,), TEXT)
        for key, value in kept.items():
            frame[where].attrs[key] = value

    return do


change("texts that lead nowhere", nulls(f"data/{VARIABLE}", N))
change("dates that lead nowhere", nulls(f"data/{DATE}", N))
change("levels that lead nowhere", nulls(f"data/{FACTOR}/levels", 1))
change("row names that lead nowhere", nulls("row_names", N))
change("column names that lead nowhere", nulls("column_names", COUNT))


# Pointers.
def five(*rows: Any, dtype: Any = POINTER) -> Any:
    return np.array([*rows, *[(0,) * len(dtype) for _ in range(N - len(rows))]], dtype)


change("a pointer too long", part(VLS, "pointers", five((0, 6))))
change("a pointer too far", part(VLS, "pointers", five((6, 0))))
change("a pointer at the end", part(VLS, "pointers", five((5, 0))))
change("a pointer over the end", part(VLS, "pointers", five((4, 2))))
change("a pointer that overflows", part(VLS, "pointers", five((2**64 - 1, 2))))
change("a pointer of great length", part(VLS, "pointers", five((2, 2**64 - 1))))
change("the mark too far", part(VLS_M, "pointers", five((9, 9))))
change("pointers of other names", part(VLS, "pointers", five((0, 1), dtype=np.dtype([("a", "<u8"), ("b", "<u8")]))))
change(
    "pointers of small types",
    part(VLS, "pointers", five((0, 1), dtype=np.dtype([("offset", "u1"), ("length", "<u2")]))),
)
change(
    "pointers with a sign", part(VLS, "pointers", five((0, 1), dtype=np.dtype([("offset", "<i8"), ("length", "<u8")])))
)
change(
    "lengths with a sign", part(VLS, "pointers", five((0, 1), dtype=np.dtype([("offset", "<u8"), ("length", "<i4")])))
)
change(
    "pointers as floats", part(VLS, "pointers", five((0, 1), dtype=np.dtype([("offset", "<f8"), ("length", "<u8")])))
)
change(
    "pointers in another order",
    part(VLS, "pointers", five((0, 1), dtype=np.dtype([("length", "<u8"), ("offset", "<u8")]))),
)
change(
    "pointers of three",
    part(VLS, "pointers", five((0, 1, 7), dtype=np.dtype([("offset", "<u8"), ("length", "<u8"), ("more", "<f8")]))),
)
change("pointers of one", part(VLS, "pointers", five((0,), dtype=np.dtype([("offset", "<u8")]))))
change("pointers no compound", part(VLS, "pointers", np.zeros(N, "<u8")))
change("pointers too few", part(VLS, "pointers", five((0, 1))[:4]))
change("pointers of rank 2", part(VLS, "pointers", five((0, 1))[:, None]))
change("pointers missing", part(VLS, "pointers", None))
change("heap missing", part(VLS, "heap", None))
change("heap empty", part(VLS, "heap", np.zeros(0, "u1")))
change("heap of rank 2", part(VLS, "heap", np.zeros((5, 1), "u1")))
change("heap that is no UTF-8", part(VLS, "heap", np.full(5, 255, "u1")))
change("a format of pointers", attribute(f"data/{VLS}", "format", "date"))

# The group.
for word in ("u1", "<u4", ">u8", "<i4", "<i8", "<f8", "?"):
    change(f"row-count as {word}", attribute("", "row-count", np.array(N if word != "?" else 1, word)))
change("row-count missing", attribute("", "row-count", None))
change("row-count of shape (1,)", attribute("", "row-count", np.array([N], "u8")))
change("row-count a text", attribute("", "row-count", "5"))
change("row-count too low", attribute("", "row-count", np.uint64(4)))
change("row-count too high", attribute("", "row-count", np.uint64(6)))
change("row-count without a space", attribute("", "row-count", h5py.Empty("u8")))
change("version on the group", attribute("", "version", "99.0"))
change("version a number", attribute("", "version", np.int8(1)))
NAMES = [f"c{position}".encode() for position in range(COUNT)]
change("column names missing", member("column_names", None))
change("column names as numbers", member("column_names", np.arange(COUNT)))
change("column names of rank 2", member("column_names", np.array([NAMES])))
change("column names one text", member("column_names", np.bytes_("c0")))
change("column names in variable length", member("column_names", np.array([name.decode() for name in NAMES], TEXT)))
change("a column name twice", member("column_names", np.array([*NAMES[:-1], b"c0"])))
change("a column name empty", member("column_names", np.array([*NAMES[:-1], b""])))
change("a column name too few", member("column_names", np.array(NAMES[:-1])))
change("a column name too many", member("column_names", np.array([*NAMES, b"more"])))
change("a column name that is no UTF-8", member("column_names", np.array([*NAMES[:-1], b"\xff"])))
change("two column names that are one up to NUL", member("column_names", np.array([*NAMES[:-1], b"c0\0x"])))
change("a column name with a slash", member("column_names", np.array([*NAMES[:-1], b"a/b"])))
change("row names missing", member("row_names", None))
change("row names as numbers", member("row_names", np.arange(N)))
change("row names of rank 2", member("row_names", np.array([[b"a"]] * N)))
change("row names too few", member("row_names", np.array([b"a"] * 4)))
change("row names all empty", member("row_names", np.array([b""] * N)))
change("row names a group", lambda frame, _: (frame.pop("row_names"), frame.create_group("row_names")))
change("column names a group", lambda frame, _: (frame.pop("column_names"), frame.create_group("column_names")))
change("data missing", lambda frame, _: frame.pop("data"))
change("data a dataset", member("data", np.arange(3)))
change("a stranger in the group", member("more", np.arange(3)))
change("a stranger in data", lambda frame, _: frame["data"].create_dataset("more", data=1))
change("a column too many", lambda frame, _: frame["data"].create_dataset("18", data=np.zeros(N)))
change("a column by another name", lambda frame, _: frame["data"].move("17", "017"))
change("a column missing", lambda frame, _: frame["data"].pop("17"))
change(
    "a column that is a datatype",
    lambda frame, _: (frame["data"].pop("17"), frame["data"].__setitem__("17", np.dtype("i4"))),
)
change(
    "a column behind a soft link",
    lambda frame, _: (frame["data"].move("17", "/x"), frame["data"].__setitem__("17", h5py.SoftLink("/x"))),
)
change(
    "a column that leads nowhere",
    lambda frame, _: (frame["data"].pop("17"), frame["data"].__setitem__("17", h5py.SoftLink("/no"))),
)
change("the group missing", lambda frame, _: frame.file.pop("data_frame"))
change("the group by another name", lambda frame, _: frame.file.move("data_frame", "frame"))
change(
    "the group a dataset",
    lambda frame, _: (frame.file.pop("data_frame"), frame.file.create_dataset("data_frame", data=1)),
)

# The directory.
VERSIONS = (
    "1.0",
    "1.1",
    "1.2",
    "1",
    "1.0.0",
    "2.0",
    "0.9",
    "01.0",
    "1.01",
    "1.a",
    "",
    "v1.0",
    " 1.0",
    "1.",
    ".1",
    "1.10",
)
for word in VERSIONS:
    change(
        f"OBJECT of version {word!r}", object_file(json.dumps({"type": "data_frame", "data_frame": {"version": word}}))
    )
OBJECTS = {
    "missing": None, "empty": "", "no JSON": "{", "an array": "[]", "a number": "1",
    "without type": '{"data_frame": {"version": "1.1"}}',
    "of another type": '{"type": "data_frames", "data_frame": {"version": "1.1"}}',
    "of a number as type": '{"type": 1, "data_frame": {"version": "1.1"}}',
    "without data_frame": '{"type": "data_frame"}', "of a text": '{"type": "data_frame", "data_frame": "1.1"}',
    "without version": '{"type": "data_frame", "data_frame": {}}',
    "of a number as version": '{"type": "data_frame", "data_frame": {"version": 1.1}}',
    "with more": '{"type": "data_frame", "data_frame": {"version": "1.1", "more": 1}, "also": []}',
}  # fmt: skip
for word, text in OBJECTS.items():
    change(f"OBJECT {word}", object_file(text))
change("basic_columns.h5 missing", lambda frame, folder: (folder / "basic_columns.h5").unlink())
change(
    "basic_columns.h5 no HDF5",
    lambda frame, folder: (frame.file.close(), (folder / "basic_columns.h5").write_text("no")),
)


def other(folder: Path, name: str, n_rows: int = N, kind: str | None = "atomic_vector") -> None:
    """An object in other_columns: a vector of strings."""
    place = folder / name
    place.mkdir(parents=True)
    if kind is not None:
        (place / "OBJECT").write_text(json.dumps({"type": kind, kind: {"version": "1.0"}}))
    with h5py.File(place / "contents.h5", "w") as file:
        group = file.create_group("atomic_vector")
        group.attrs["type"] = "string"
        group["values"] = np.array([b"a"] * n_rows)


def elsewhere(name: str = "other_columns/17", **more: Any) -> Change:
    def do(frame: Any, folder: Path) -> None:
        del frame["data/17"]
        other(folder, name, **more)

    return do


change("a column elsewhere", elsewhere())
change("a column elsewhere without OBJECT", elsewhere(kind=None))
change("a column elsewhere by another name", elsewhere("other_columns/16"))
change("a column elsewhere too short", elsewhere(n_rows=4))
change("a column elsewhere of an unknown type", elsewhere(kind="unheard"))
change("a column in both places", lambda frame, folder: other(folder, "other_columns/17"))
change("an empty other_columns", lambda frame, folder: (folder / "other_columns").mkdir())
change(
    "a hidden stranger in other_columns", lambda frame, folder: (folder / "other_columns" / ".x").mkdir(parents=True)
)
change("a stranger in other_columns", lambda frame, folder: (folder / "other_columns" / "x").mkdir(parents=True))
change("a stranger in the directory", lambda frame, folder: (folder / "more").mkdir())
change("column annotations without OBJECT", lambda frame, folder: (folder / "column_annotations").mkdir())
change("column annotations of another type", lambda frame, folder: other(folder, "column_annotations"))
change("other annotations without OBJECT", lambda frame, folder: (folder / "other_annotations").mkdir())
change("other annotations of another type", lambda frame, folder: other(folder, "other_annotations"))

# Where the two do not agree, and why.
FAULT = "a known fault of dolomite-base: it writes so, and readers know it; a warning here"
ELSEWHERE = "what other objects hold is not looked at here: a reader leaves them alone"
OFFSET = "no clock is a day and more ahead: offsets go up to 24:00, as the facts have it; the reader refuses it too"
DIFFER: dict[str, str] = {
    "boolean as <f8": FAULT,
    "boolean as >f8": FAULT,
    "OBJECT of version '1.0'": f"{FAULT}: the base has strings by pointers",
    "string that is no UTF-8": "the validator does not look at bytes of text, and no reader can make text of these",
    "heap that is no UTF-8": "the same, of strings by pointers",
    "a column name that is no UTF-8": "the same: the column could not be named",
    "a pointer of great length": "the validator adds offset and length in 64 bits, and does not see that they overflow",
    "a column behind a soft link": "this library follows hard links only; the column cannot be read",
    "the time '2023-01-31T12:00:00+24:30'": OFFSET,
    "the time '2023-01-31T12:00:00+24:59'": OFFSET,
    "a column elsewhere too short": ELSEWHERE,
    "a column elsewhere of an unknown type": ELSEWHERE,
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good") / "frame"
    base(folder)
    return folder


def judged(name: str, good: Path, tmp_path: Path) -> tuple[bool, bool]:
    """Whether the validator and the checker take a directory that was changed so."""
    folder = tmp_path / "frame"
    shutil.copytree(good, folder)
    file = h5py.File(folder / "basic_columns.h5", "r+")
    CHANGES[name](file["data_frame"], folder)
    if file:
        file.close()
    return judge(folder)


def judge(folder: Path) -> tuple[bool, bool]:
    try:
        dolomite_base.validate_object(str(folder))
        taken = True
    except Exception:  # noqa: BLE001 - whatever it is, it is a refusal
        taken = False
    return taken, not cn.check(folder, deep=True).errors


def test_the_base_is_good(good: Path) -> None:
    assert judge(good) == (True, True)
    found = cn.check(good, deep=True)
    assert found == []
    assert found.checked.tables == 1
    assert found.checked.columns == COUNT + 1
    assert found.checked.bytes_read > 500


def test_there_are_enough_changes() -> None:
    assert len(CHANGES) >= 160
    assert set(DIFFER) <= set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_both_say_the_same(name: str, good: Path, tmp_path: Path) -> None:
    taken, passed = judged(name, good, tmp_path)
    assert (taken == passed) != (name in DIFFER), f"validator: {taken}, checker: {passed}"
    shutil.rmtree(tmp_path / "frame")


# -- what dolomite-base writes itself --


def saved(folder: Path, columns: dict[str, Any], **options: Any) -> list[cn.Finding]:
    biocframe = pytest.importorskip("biocframe")
    frame = biocframe.BiocFrame(columns, row_names=["a", "b", "c"])
    dolomite_base.save_object(frame, str(folder), **options)
    return cn.check(folder, deep=True)


def test_what_it_writes_is_silent(tmp_path: Path) -> None:
    biocutils, biocframe = pytest.importorskip("biocutils"), pytest.importorskip("biocframe")
    columns = {
        "integers": [1, None, 3],
        "large": [1, 2**40, 3],
        "booleans": [True, None, False],
        "numbers": [1.5, None, np.nan],
        "array": np.array([1, 2, 3], "<i8"),
        "text": ["NA", None, "é"],
        "factor": biocutils.Factor.from_sequence(["x", None, "x"]),
        "frame": biocframe.BiocFrame({"x": [1, 2, 3]}),
    }
    assert saved(tmp_path / "frame", columns) == []
    assert saved(tmp_path / "empty", {}) == []
    assert judge(tmp_path / "frame") == (True, True)


def test_its_two_faults_are_told_and_tolerated(tmp_path: Path) -> None:
    biocutils = pytest.importorskip("biocutils")
    found = saved(tmp_path / "booleans", {"a": biocutils.BooleanList([True, None, False])})
    assert [(one.rule, one.severity) for one in found] == [("DD3", "warning")]
    assert judge(tmp_path / "booleans") == (False, True)
    found = saved(tmp_path / "pointers", {"a": ["x", "y", "z"]}, data_frame_string_list_vls=True)
    assert [(one.rule, one.severity) for one in found] == [("DV1", "warning")]
    assert judge(tmp_path / "pointers") == (False, True)
