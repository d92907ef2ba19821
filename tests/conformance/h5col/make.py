"""Makes the files of the conformance kit of H5Col (July 2026) and their manifest, with h5py and nothing of colonnade.

    python -m tests.conformance.h5col.make [folder]     (the folder of this module, when none is named)

A case is one function that fills a new file. What a checker must find in it stands next to it, written by hand: (rule,
severity, path), with "deep" after it where only the values show it. `fixed`: it can be corrected without touching data.
References are of the type H5T_STD_REF, as the standard asks; h5py does not write them, so the library is called.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5s, h5t

from tests.conformance.make import (
    Case,
    Expected,
    ascii_text,
    flag,
    murmur3_128,
    number,
    string_type,
    text,
    texts,
    variable_text,
    write_attribute,
)

HERE = Path(__file__).resolve().parent
FILL = -2147483647
LIBRARY = ctypes.CDLL(h5d.__file__)
HID = ctypes.c_int64
REFERENCE_SIZE = 64  # of an H5R_ref_t in memory
CREATE_OBJECT, CREATE_ATTRIBUTE, WRITE_ATTRIBUTE, CLOSE_ATTRIBUTE = (
    LIBRARY.H5Rcreate_object, LIBRARY.H5Acreate2, LIBRARY.H5Awrite, LIBRARY.H5Aclose,
)  # fmt: skip
CREATE_OBJECT.argtypes = (HID, ctypes.c_char_p, HID, ctypes.c_void_p)
CREATE_ATTRIBUTE.argtypes, CREATE_ATTRIBUTE.restype = (HID, ctypes.c_char_p, HID, HID, HID, HID), HID
WRITE_ATTRIBUTE.argtypes, CLOSE_ATTRIBUTE.argtypes = (HID, HID, ctypes.c_void_p), (HID,)


# -- attributes --


def references(node: Any, name: str, targets: Sequence[Any], is_scalar: bool = False) -> None:
    """References of the type H5T_STD_REF; None is a null one."""
    memory = (ctypes.c_char * (REFERENCE_SIZE * len(targets)))()
    for position, target in enumerate(targets):
        if target is not None:
            at = ctypes.addressof(memory) + REFERENCE_SIZE * position
            assert CREATE_OBJECT(target.id.id, b".", 0, at) >= 0
    kind = HID.in_dll(LIBRARY, "H5T_STD_REF_g").value
    space = h5s.create(h5s.SCALAR) if is_scalar else h5s.create_simple((len(targets),))
    if name in node.attrs:
        del node.attrs[name]
    made = CREATE_ATTRIBUTE(node.id.id, name.encode(), kind, space.id, 0, 0)
    assert made >= 0
    assert WRITE_ATTRIBUTE(made, kind, memory) >= 0
    assert CLOSE_ATTRIBUTE(made) >= 0


def reference(node: Any, name: str, target: Any) -> None:
    references(node, name, [target], is_scalar=True)


def terminated(node: Any, name: str, value: str) -> None:
    """A scalar text of ASCII with a NUL at its end."""
    size = len(value) + 1
    kind = string_type(size, h5t.CSET_ASCII, h5t.STR_NULLTERM)
    write_attribute(node, name, kind, (), np.array(value.encode(), f"S{size}"))


# -- tables --


def table(parent: Any, name: str = "t", n_rows: int = 3) -> Any:
    """A table with a column x of three integers."""
    group = parent.create_group(name)
    terminated(group, "CLASS", "COLUMN_TABLE")
    ascii_text(group, "VERSION", "1.0")
    number(group, "NROWS", n_rows)
    column(group, "x", np.array([3, 1, 2], "<i4"), FILL)
    return group


def column(group: Any, name: str, values: Any, fill: Any = None, dtype: Any = None) -> Any:
    """A dataset, named in column-order; chunks of two rows."""
    data = np.asarray(values) if dtype is None else np.asarray(values, dtype)
    made = group.create_dataset(name, data=data, dtype=dtype, chunks=(2,), maxshape=(None,), fillvalue=fill)
    ordered(group, name)
    return made


def ordered(group: Any, name: str) -> None:
    """Name one more column in column-order."""
    before = [item.decode() for item in group.attrs["column-order"]] if "column-order" in group.attrs else []
    texts(group, "column-order", [*before, name])


def categorical(group: Any, codes: Sequence[int] = (0, 1, -1), name: str = "kind") -> Any:
    made = column(group, name, np.array(codes, "<i1"), -1)
    home = group.require_group("CATEGORIES")
    labels = home.create_dataset(f"{name}__CATEGORIES", data=np.array([b"muon", b"pion"]))
    reference(made, "CATEGORIES", labels)
    return made


def lists(
    group: Any, name: str = "l", offsets: Sequence[int] = (0, 2, 2, 3), mask: Sequence[bool] | None = None
) -> Any:
    """A list column of three elements: [1, 2], [], [3]."""
    made = group.create_group(name)
    terminated(made, "CLASS", "LIST_COLUMN")
    terminated(made, "KIND", "OFFSETS")
    made.create_dataset("OFFSETS", data=np.array(offsets, "<u8"))
    made.create_dataset("VALUES", data=np.array([1, 2, 3], "<i4"), chunks=(2,), maxshape=(None,), fillvalue=FILL)
    if mask is not None:
        made.create_dataset("MASK", data=np.array(mask, bool))
    ordered(group, name)
    return made


def strings(group: Any, chars: bytes = b"ab\xc3\xa9", dtype: str = "u1") -> Any:
    """A list column of strings: ["a", "b"], [], ["é"]."""
    made = lists(group)
    del made["VALUES"]
    values = made.create_group("VALUES")
    terminated(values, "CLASS", "STRING_VALUES")
    values.create_dataset("OFFSETS", data=np.array([0, 1, 2, 4], "<u8"))
    values.create_dataset("CHARS", data=np.frombuffer(chars, dtype))
    return made


# -- search indexes of x, whose chunks have two rows --


def attach(group: Any, index: Any, kind: str, owner: str = "x", generation: int = 0) -> Any:
    """KIND, tokens, and the reference from the column."""
    ascii_text(index, "KIND", kind)
    number(group, "GENERATION", 0)
    number(index, "SOURCE_GENERATION", generation)
    number(index, "SOURCE_NROWS", 3)
    if owner:
        references(group[owner], "SEARCH_INDEX_LIST", [index])
    return index


ENTRY = np.dtype([("min", "<i4"), ("max", "<i4"), ("nan_count", "<u8"), ("fill_count", "<u8"), ("n", "<u8")])


def minmax(group: Any, entries: Sequence[tuple[int, ...]] = ((1, 3, 0, 0, 2), (2, 2, 0, 0, 1)), **how: Any) -> Any:
    home = group.require_group("SEARCH_INDEXES")
    index = home.create_dataset("x__chunk_minmax", data=np.array(list(entries), ENTRY), chunks=(4,), maxshape=(None,))
    return attach(group, index, "CHUNK_MINMAX", **how)


def sorted_rows(group: Any, rows: Sequence[int] = (1, 2, 0), dtype: str = "<u8") -> Any:
    home = group.require_group("SEARCH_INDEXES")
    index = home.create_dataset("x__sorted_rows", data=np.array(rows, dtype), chunks=(4,), maxshape=(None,))
    number(index, "nan_tail_length", 0)
    number(index, "fill_tail_length", 0)
    flag(index, "ordered", True)
    return attach(group, index, "SORTED_ROWS")


def bitmap(group: Any, dtype: str = "<i4") -> Any:
    home = group.require_group("SEARCH_INDEXES")
    bits = np.array([[0b010], [0b100], [0b001]], "u1")
    index = home.create_dataset("x__bitmap", data=bits, chunks=(1, 4), maxshape=(None, None))
    values = home.create_dataset("x__bitmap__VALUES", data=np.array([1, 2, 3], dtype), maxshape=(None,), chunks=(4,))
    reference(index, "VALUES", values)
    flag(index, "ordered", True)
    flag(index, "exhaustive", True)
    return attach(group, index, "BITMAP")


def bloom(group: Any, hash_family: str = "murmur3_x64_128_double") -> Any:
    filters = np.zeros((2, 8), "u1")
    for row, value in enumerate((3, 1, 2)):
        low, high = murmur3_128(struct.pack("<i", value), 7)
        for i in range(3):
            bit = (low + i * high) % 2**64 % 64
            filters[row // 2, bit // 8] |= 1 << bit % 8
    home = group.require_group("SEARCH_INDEXES")
    index = home.create_dataset("x__chunk_bloom", data=filters, chunks=(4, 8), maxshape=(None, 8))
    number(index, "k", 3, "<u2")
    number(index, "m_bits", 64)
    ascii_text(index, "hash_family", hash_family)
    number(index, "seed", 7, "<u4")
    return attach(group, index, "CHUNK_BLOOM")


# -- the cases --


CASES: list[Case] = []
Make = Callable[[Any], object]


def good(*rules: str) -> Callable[[Make], Make]:
    """The function below makes a file in which nothing is found: the right form of what these rules are about."""

    def listed(make: Make) -> Make:
        CASES.extend(Case(f"{rule}-good", rule, make) for rule in rules)
        return make

    return listed


def bad(rule: str, name: str, *findings: Expected, fixed: bool = False) -> Callable[[Make], Make]:
    """The function below makes a file in which exactly this is found."""

    def listed(make: Make) -> Make:
        CASES.append(Case(f"{rule}-{name}", rule, make, findings, fixed))
        return make

    return listed


# the table


@good("JT1", "JT2", "JT3", "JT5", "JT7", "JC1", "JC4", "JC6", "JM1", "JN1", "JM8")
def _(file: Any) -> None:
    table(file)


@bad("JT1", "variable", ("JT1", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    variable_text(table(file), "CLASS", "COLUMN_TABLE")


@bad("JT1", "12-bytes", ("JT1", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    ascii_text(table(file), "CLASS", "COLUMN_TABLE")


@bad("JT2", "variable", ("JT2", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    variable_text(table(file), "VERSION", "1.0")


@bad("JT2", "no-numbers", ("JT2", "error", "/t"))
def _(file: Any) -> None:
    ascii_text(table(file), "VERSION", "July")


@bad("JT2", "newer", ("JT2", "error", "/t"))
def _(file: Any) -> None:
    ascii_text(table(file), "VERSION", "2.0")


@bad("JT3", "signed", ("JT3", "error", "/t"))
def _(file: Any) -> None:
    number(table(file), "NROWS", 3, "<i4")


@bad("JT3", "text", ("JT3", "error", "/t"))
def _(file: Any) -> None:
    ascii_text(table(file), "NROWS", "3")


@bad("JT3", "too-many", ("JT3", "error", "/t"))
def _(file: Any) -> None:
    number(table(file), "NROWS", 2**64 - 1)


@good("JT4")
def _(file: Any) -> None:
    group = table(file)
    text(group, "TITLE", "Événements")
    text(group, "description", "made by hand")
    text(group, "units_vocabulary", "UDUNITS-2")


@bad("JT4", "variable", ("JT4", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    variable_text(table(file), "TITLE", "a title")


@bad("JT5", "unknown", ("JT5", "error", "/t"), fixed=True)
def _(file: Any) -> None:
    ordered(table(file), "gone")


@bad("JT5", "left-out", ("JT5", "error", "/t/y"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    column(group, "y", np.array([1, 2, 3], "<i4"), FILL)
    texts(group, "column-order", ["x"])


@bad("JT7", "array", ("JT7", "error", "/t/image"))
def _(file: Any) -> None:
    table(file).create_dataset("image", data=np.zeros((2, 2)))


@bad("JT7", "group", ("JT7", "error", "/t/notes"))
def _(file: Any) -> None:
    table(file).create_group("notes")


@bad("JT7", "in-categories", ("JT7", "error", "/t/CATEGORIES/more"))
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    group["CATEGORIES"].create_group("more")


# references and booleans


@good("JR1", "JR3", "JK1", "JK3", "JK4", "JK5", "JK6")
def _(file: Any) -> None:
    categorical(table(file))


@bad("JR1", "older-type", ("JR1", "warning", "/t"))
def _(file: Any) -> None:
    group = table(file)
    made = categorical(group)
    made.attrs["CATEGORIES"] = group["CATEGORIES/kind__CATEGORIES"].ref


@bad("JR3", "another-object", ("JR3", "error", "/t/x"))
def _(file: Any) -> None:
    group = table(file)
    references(group["x"], "SEARCH_INDEX_LIST", [group])


@bad("JR3", "null", ("JR3", "error", "/t/x"))
def _(file: Any) -> None:
    references(table(file)["x"], "SEARCH_INDEX_LIST", [None])


@good("JB2")
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    flag(group["CATEGORIES/kind__CATEGORIES"], "ordered", True)


@bad("JB2", "integer", ("JB2", "error", "/t/kind__CATEGORIES"))
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    number(group["CATEGORIES/kind__CATEGORIES"], "ordered", 1, "u1")


@good("JB3", "JB4")
def _(file: Any) -> None:
    column(table(file), "b", np.array([True, False, True]))


@bad("JB3", "seven", ("JB3", "error", "/t/b", "deep"))
def _(file: Any) -> None:
    made = column(table(file), "b", np.array([True, False, True]))
    made.id.write(h5s.ALL, h5s.ALL, np.array([1, 7, 0], "i1"), mtype=made.id.get_type())


@bad("JB4", "fill", ("JB4", "warning", "/t/b"))
def _(file: Any) -> None:
    column(table(file), "b", np.array([True, False, True]), fill=True)


# columns and missing values


@bad("JC1", "soft-link", ("JC1", "error", "/t/y"))
def _(file: Any) -> None:
    group = table(file)
    group["y"] = h5py.SoftLink("/t/x")


@bad("JC1", "rank", ("JC1", "error", "/t/y"))
def _(file: Any) -> None:
    group = table(file)
    group.create_dataset("y", data=np.zeros((3, 2), "<i4"), fillvalue=FILL)
    ordered(group, "y")


@bad("JC4", "utf8", ("JC4", "error", "/t/s", "deep"))
def _(file: Any) -> None:
    column(table(file), "s", np.array([b"a", b"\xff", b"c"], h5py.string_dtype("utf-8", 1)), b"")


@bad("JC6", "longer", ("JC6", "warning", "/t"))
def _(file: Any) -> None:
    column(table(file), "y", np.array([1, 2, 3, 4], "<i4"), FILL)


@bad("JC6", "shorter", ("JC6", "error", "/t/y"))
def _(file: Any) -> None:
    column(table(file), "y", np.array([1, 2], "<i4"), FILL)


@bad("JM1", "no-fill", ("JM1", "note", "/t/y"))
def _(file: Any) -> None:
    column(table(file), "y", np.array([1, 2, 3], "<i4"))


@good("JM3")
def _(file: Any) -> None:
    made = column(table(file), "y", np.array([1, -128, 3], "i1"), -128)
    number(made, "valid_min", -127, "i1")
    number(made, "valid_max", 127, "i1")


@bad("JM3", "fill-inside", ("JM3", "error", "/t/y"))
def _(file: Any) -> None:
    made = column(table(file), "y", np.array([1, -128, 3], "i1"), -128)
    number(made, "valid_min", -128, "i1")
    number(made, "valid_max", 127, "i1")


@bad("JM3", "other-type", ("JM3", "error", "/t/y"))
def _(file: Any) -> None:
    made = column(table(file), "y", np.array([1, -128, 3], "i1"), -128)
    number(made, "valid_min", -127, "<i4")


STATES = h5py.enum_dtype({"OK": 0, "BAD": 1, "MISSING": 2}, basetype="i1")


@good("JM6")
def _(file: Any) -> None:
    column(table(file), "state", [0, 1, 2], 2, STATES)


@bad("JM6", "other-fill", ("JM6", "warning", "/t/state"))
def _(file: Any) -> None:
    column(table(file), "state", [0, 1, 2], 7, STATES)


@bad("JM8", "mask", ("JM8", "error", "/t/x"))
def _(file: Any) -> None:
    number(table(file)["x"], "MASK", 0)


# categoricals


@bad("JK1", "floats", ("JK1", "error", "/t/y"))
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    made = column(group, "y", np.array([0.0, 1.0, 0.0]), 9.969209968386869e36)
    reference(made, "CATEGORIES", group["CATEGORIES/kind__CATEGORIES"])


@bad("JK3", "elsewhere", ("JK3", "error", "/t/kind"))
def _(file: Any) -> None:
    group = table(file)
    made = column(group, "kind", np.array([0, 1, -1], "<i1"), -1)
    reference(made, "CATEGORIES", file.create_dataset("labels", data=np.array([b"muon", b"pion"])))


@bad("JK4", "orphan", ("JK4", "warning", "/t/CATEGORIES/more"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    group["CATEGORIES"].create_dataset("more", data=np.array([b"a"]))


@bad("JK5", "fill-is-a-code", ("JK5", "error", "/t/kind"))
def _(file: Any) -> None:
    group = table(file)
    made = column(group, "kind", np.array([0, 1, 1], "<i1"), 1)
    labels = group.create_group("CATEGORIES").create_dataset("kind__CATEGORIES", data=np.array([b"muon", b"pion"]))
    reference(made, "CATEGORIES", labels)


@bad("JK6", "code", ("JK6", "error", "/t/kind", "deep"))
def _(file: Any) -> None:
    categorical(table(file), (0, 77, -1))


# lists


@good("JL1", "JL2", "JL3", "JL4", "JL5", "JL10", "JL11", "JL14", "JX4")
def _(file: Any) -> None:
    lists(table(file))


@bad("JL1", "no-class", ("JL1", "error", "/t/l"))
def _(file: Any) -> None:
    group = table(file)
    group.create_group("l")
    ordered(group, "l")


@bad("JL2", "kind", ("JL2", "error", "/t/l"))
def _(file: Any) -> None:
    terminated(lists(table(file)), "KIND", "LENGTHS")


@bad("JL3", "another-member", ("JL3", "error", "/t/l"))
def _(file: Any) -> None:
    lists(table(file)).create_dataset("LENGTHS", data=np.zeros(3))


@bad("JL3", "no-offsets", ("JL3", "error", "/t/l"))
def _(file: Any) -> None:
    del lists(table(file))["OFFSETS"]


@bad("JL4", "int32", ("JL4", "error", "/t/l"))
def _(file: Any) -> None:
    made = lists(table(file))
    del made["OFFSETS"]
    made.create_dataset("OFFSETS", data=np.array([0, 2, 2, 3], "<i4"))


@bad("JL4", "decreasing", ("JL4", "error", "/t/l", "deep"))
def _(file: Any) -> None:
    lists(table(file), offsets=(0, 2, 1, 3))


@bad("JL4", "past-the-end", ("JL4", "error", "/t/l", "deep"))
def _(file: Any) -> None:
    lists(table(file), offsets=(0, 2, 2, 9))


@bad("JL4", "first", ("JL4", "error", "/t/l", "deep"))
def _(file: Any) -> None:
    lists(table(file), offsets=(1, 2, 2, 3))


@bad("JL4", "too-few", ("JL4", "error", "/t/l"))
def _(file: Any) -> None:
    lists(table(file), offsets=(0, 2, 3))


@bad("JL5", "class", ("JL5", "error", "/t/l"))
def _(file: Any) -> None:
    made = lists(table(file))
    del made["VALUES"]
    terminated(made.create_group("VALUES"), "CLASS", "OTHER")


@good("JL6")
def _(file: Any) -> None:
    lists(table(file), mask=(True, False, True))


@bad("JL6", "null-with-elements", ("JL6", "warning", "/t/l", "deep"))
def _(file: Any) -> None:
    lists(table(file), mask=(False, False, True))


@bad("JL6", "short-mask", ("JL6", "error", "/t/l"))
def _(file: Any) -> None:
    lists(table(file), mask=(True, False))


@good("JL9")
def _(file: Any) -> None:
    strings(table(file))


@bad("JL9", "utf8", ("JL9", "error", "/t/l", "deep"))
def _(file: Any) -> None:
    strings(table(file), b"ab\xff\xfe")


@bad("JL9", "wide", ("JL9", "error", "/t/l"))
def _(file: Any) -> None:
    strings(table(file), bytes(8), "<u2")


@bad("JL10", "variable", ("JL10", "error", "/t/l"))
def _(file: Any) -> None:
    made = lists(table(file))
    del made["VALUES"]
    made.create_dataset("VALUES", data=["a", "b", "c"], dtype=h5py.string_dtype())


@bad("JL11", "index", ("JL11", "error", "/t/l"))
def _(file: Any) -> None:
    group = table(file)
    references(lists(group), "SEARCH_INDEX_LIST", [None])


@bad("JL14", "categories", ("JL14", "warning", "/t/l"))
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    reference(lists(group)["VALUES"], "CATEGORIES", group["CATEGORIES/kind__CATEGORIES"])


@bad("JX4", "cycle", ("JX4", "error", "/t/l"))
def _(file: Any) -> None:
    made = lists(table(file))
    del made["VALUES"]
    made["VALUES"] = made


@bad("JX4", "deep", ("JX4", "error", "/t/l"))
def _(file: Any) -> None:
    level = lists(table(file))
    for _ in range(33):
        del level["VALUES"]
        inner = level.create_group("VALUES")
        terminated(inner, "CLASS", "LIST_COLUMN")
        terminated(inner, "KIND", "OFFSETS")
        inner.create_dataset("OFFSETS", data=np.zeros(4, "<u8"))
        inner.create_dataset("VALUES", data=np.zeros(0, "<i4"), fillvalue=FILL)
        level = inner


# labels


def labelled(file: Any) -> Any:
    group = table(file)
    references(group, "INDEX_COLUMNS", [group["x"]])
    text(group, "_index", "x")
    return group


@good("JI1", "JI3")
def _(file: Any) -> None:
    labelled(file)


@bad("JI1", "list", ("JI1", "error", "/t"))
def _(file: Any) -> None:
    group = table(file)
    references(group, "INDEX_COLUMNS", [lists(group)])


@bad("JI3", "another-name", ("JI3", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    text(labelled(file), "_index", "y")


# search indexes


@good("JS1", "JS2", "JS3", "JS7", "JG4")
def _(file: Any) -> None:
    minmax(table(file))


@bad("JS1", "group", ("JS1", "error", "/t/SEARCH_INDEXES/more"))
def _(file: Any) -> None:
    group = table(file)
    minmax(group)
    group["SEARCH_INDEXES"].create_group("more")


@bad("JS2", "two-columns", ("JS2", "error", "/t/SEARCH_INDEXES/x__chunk_minmax"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    made = column(group, "y", np.array([3, 1, 2], "<i4"), FILL)
    references(made, "SEARCH_INDEX_LIST", [minmax(group)])


@bad("JS2", "orphan", ("JS2", "note", "/t/SEARCH_INDEXES/x__chunk_minmax"), fixed=True)
def _(file: Any) -> None:
    minmax(table(file), owner="")


@bad("JS3", "no-kind", ("JS3", "error", "/t/SEARCH_INDEXES/x__chunk_minmax"), fixed=True)
def _(file: Any) -> None:
    del minmax(table(file)).attrs["KIND"]


@bad("JS3", "kind-of-values", ("JS3", "error", "/t/SEARCH_INDEXES/x__bitmap"))
def _(file: Any) -> None:
    group = table(file)
    bitmap(group)
    ascii_text(group["SEARCH_INDEXES/x__bitmap__VALUES"], "KIND", "VALUES")


@bad("JS7", "too-few-entries", ("JS7", "error", "/t/SEARCH_INDEXES/x__chunk_minmax"), fixed=True)
def _(file: Any) -> None:
    minmax(table(file), ((1, 3, 0, 0, 2),))


@good("JS8")
def _(file: Any) -> None:
    sorted_rows(table(file))


@bad("JS8", "floats", ("JS8", "error", "/t/SEARCH_INDEXES/x__sorted_rows"), fixed=True)
def _(file: Any) -> None:
    sorted_rows(table(file), dtype="<f8")


@good("JS10")
def _(file: Any) -> None:
    bitmap(table(file))


@bad("JS10", "other-type", ("JS10", "error", "/t/SEARCH_INDEXES/x__bitmap"), fixed=True)
def _(file: Any) -> None:
    bitmap(table(file), "<i8")


@good("JS11")
def _(file: Any) -> None:
    bloom(table(file))


@bad("JS11", "hash", ("JS11", "error", "/t/SEARCH_INDEXES/x__chunk_bloom"), fixed=True)
def _(file: Any) -> None:
    bloom(table(file), "fnv1a")


@bad("JG4", "stale", ("JG4", "note", "/t/SEARCH_INDEXES/x__chunk_minmax"), fixed=True)
def _(file: Any) -> None:
    minmax(table(file), generation=5)


@bad("JN1", "reserved", ("JN1", "error", "/t/MASK"))
def _(file: Any) -> None:
    column(table(file), "MASK", np.array([1, 2, 3], "<i4"), FILL)


# -- files and manifest --


def make_file(case: Case, folder: Path) -> None:
    with h5py.File(folder / "files" / f"{case.name}.h5", "w") as file:
        case.make(file)


def manifest() -> dict[str, Any]:
    """What must be found in each file."""
    return {
        "standard": "H5Col (HEP001 of 9 July 2026)",
        "files": [
            {
                "file": f"files/{case.name}.h5",
                "rule": case.rule,
                "expected": [
                    {"rule": one[0], "severity": one[1], "path": one[2], "deep": one[3:] == ("deep",)}
                    for one in case.findings
                ],
                "fixable": case.fixed,
            }
            for case in CASES
        ],
    }


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else HERE
    (folder / "files").mkdir(parents=True, exist_ok=True)
    for case in CASES:
        make_file(case, folder)
    (folder / "manifest.json").write_text(json.dumps(manifest(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
