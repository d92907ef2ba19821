"""The command that writes docs/types.md from what the library really does.

    python -m tools.types_page            writes the page
    python -m tools.types_page --check    fails when the page is not true

Each row is made by writing, or describing, a column of that type.
"""

from __future__ import annotations

import decimal
import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
from h5py import h5t

import colonnade as cn
from colonnade.columns.extension import complex_array
from colonnade.columns.mapping import default_type
from colonnade.h5.attributes import read_text
from colonnade.h5.datatypes import describe_type
from colonnade.table.show import type_word

PAGE = Path(__file__).resolve().parent.parent / "docs" / "types.md"

EXAMPLES: list[tuple[str, pa.Array, dict[str, Any]]] = [
    ("int8", pa.array([1, None], pa.int8()), {}),
    ("int16", pa.array([1, None], pa.int16()), {}),
    ("int32", pa.array([1, None], pa.int32()), {}),
    ("int64", pa.array([1, None], pa.int64()), {}),
    ("uint8", pa.array([1, None], pa.uint8()), {}),
    ("uint16", pa.array([1, None], pa.uint16()), {}),
    ("uint32", pa.array([1, None], pa.uint32()), {}),
    ("uint64", pa.array([1, None], pa.uint64()), {}),
    ("float16", pa.array([np.float16(1), None], pa.float16()), {}),
    ("float32", pa.array([1, None], pa.float32()), {}),
    ("float64", pa.array([1, None], pa.float64()), {}),
    ("complex64 (NumPy)", complex_array(np.array([1j, 2], "c8"), np.array([False, True])), {}),
    ("complex128 (NumPy)", complex_array(np.array([1j, 2], "c16"), np.array([False, True])), {}),
    ("bool, no row missing", pa.array([True, False]), {}),
    ("bool, rows missing", pa.array([True, None]), {}),
    ("string, `strings='fixed'`", pa.array(["muon", None]), {"strings": "fixed"}),
    ("string, `strings='variable'`", pa.array(["muon", None]), {"strings": "variable"}),
    ("string with NUL in it", pa.array(["a\0b", None]), {}),
    ("fixed_size_binary[4]", pa.array([b"abcd", None], pa.binary(4)), {}),
    ("binary", pa.array([b"abc", None], pa.binary()), {}),
    ("dictionary", pa.array(["muon", None]).dictionary_encode(), {}),
    ("dictionary, `enum=True`", pa.array(["muon", "pion"]).dictionary_encode(), {"enum": True}),
    ("dictionary, `enum=True`, rows missing", pa.array(["muon", None]).dictionary_encode(), {"enum": True}),
    ("timestamp[us]", pa.array([1, None], pa.timestamp("us")), {}),
    ("timestamp[ns, tz=UTC]", pa.array([1, None], pa.timestamp("ns", "UTC")), {}),
    ("timestamp[ms, tz=Europe/Berlin]", pa.array([1, None], pa.timestamp("ms", "Europe/Berlin")), {}),
    ("date32", pa.array([1, None], pa.date32()), {}),
    ("date64", pa.array([86_400_000, None], pa.date64()), {}),
    ("time32[s]", pa.array([1, None], pa.time32("s")), {}),
    ("time64[us]", pa.array([1, None], pa.time64("us")), {}),
    ("duration[us]", pa.array([1, None], pa.duration("us")), {}),
    ("decimal128(9, 2)", pa.array([decimal.Decimal("1.25"), None], pa.decimal128(9, 2)), {}),
    ("decimal128(18, 2)", pa.array([decimal.Decimal("1.25"), None], pa.decimal128(18, 2)), {}),
    ("decimal128(38, 2)", pa.array([decimal.Decimal("1.25"), None], pa.decimal128(38, 2)), {}),
    ("struct<a: int32, b: float64>", pa.array([{"a": 1, "b": 2.0}, None], pa.struct([("a", "i4"), ("b", "f8")])), {}),
    ("fixed_size_list<float, 3>", pa.array([[1, 2, 3], None], pa.list_(pa.float32(), 3)), {}),
    ("list<int32>", pa.array([[1, 2], None], pa.list_(pa.int32())), {}),
    ("list<string>", pa.array([["a"], None], pa.list_(pa.string())), {}),
    ("null", pa.nulls(2), {}),
]

HEAD = """# What each type becomes

This page is written by `python -m tools.types_page` from what the library does; a test keeps it true.

## Arrow to HDF5
Every type reads back as it was written. Large, view and run-end forms of strings, bytes and lists read back as the
ordinary form, dictionary indices as int32; a float NaN stays NaN. The attribute `arrow_type` is written only where
datatype and units alone would read back as another type. The missing mark is the dataset's fill value; another one is
chosen when the data holds the recommended one, and `colonnade.column(fill=...)` chooses it by hand.

Strings are of fixed length by default where that wastes no space, else of variable length.

"""

MIDDLE = """
References (`h5py.ref_dtype`, `h5py.regionref_dtype` arrays, or columns read from the same file) are stored as
`H5T_STD_REF_OBJ` and `H5T_STD_REF_DSETREG`; the null reference marks a missing row. They hold only in their own file.

Refused, with the way out in the message: unions, maps (cast to `list<struct<key, value>>`), month intervals, empty
structs, fixed-size lists and bytes of length 0, NumPy's long double. A missing part inside a struct or list is refused
too: HDF5 has a mark for whole rows only. Rows of a struct that holds text, and of a list of lists where empty lists
occur, have no value to spare for a mark; missing ones are refused by row.

## HDF5 to Arrow
Big-endian numbers read as native ones. Padding of fixed-length strings (null-terminated, null-padded, space-padded)
is taken off. Only a fill value set by the writer marks missing rows.

"""


def write_row(name: str, array: pa.Array, options: dict[str, Any], path: Path) -> list[str]:
    """One row of the first table: write a column, look at the file."""
    cn.write(path, {"x": array}, mode="replace", columns={"x": options})
    with cn.open_table(path) as table:
        column = table["x"]
        assert column.to_arrow().type == array.type or pa.types.is_dictionary(array.type)
        dataset = table._file.h5["table/x"].id
        named = read_text(dataset, "arrow_type")
        stored = str(column.stored_type)
        if column.info.categories is not None:
            stored += f" codes, categories in `x_categories` ({column.info.categories.type})"
        fill = column.fill
        return [name, stored, column.units or "", "" if fill is None else f"`{fill!r}`", named or ""]


def foreign_types() -> list[tuple[str, Any]]:
    """HDF5 datatypes that others write, by name."""
    odd = h5t.STD_I32LE.copy()
    odd.set_precision(24)
    odd.set_size(3)
    space = h5t.C_S1.copy()
    space.set_size(8)
    space.set_strpad(h5t.STR_SPACEPAD)
    brain = h5t.IEEE_F32LE.copy()
    brain.set_fields(15, 7, 8, 0, 7)
    brain.set_precision(16)
    brain.set_size(2)
    brain.set_ebias(127)
    enum = h5t.enum_create(h5t.STD_U8LE)
    enum.enum_insert(b"RED", 1)
    enum.enum_insert(b"BLUE", 2)
    opaque = h5t.create(h5t.OPAQUE, 5)
    opaque.set_tag(b"pixels")
    record = np.dtype([("a", "<i4"), ("b", "S3")])
    return [
        ("integer, any width, big-endian", h5t.STD_I64BE),
        ("integer of odd width", odd),
        ("bitfield", h5t.STD_B16LE),
        ("float, any byte order", h5t.IEEE_F32BE),
        ("bfloat16", brain),
        ("long double", h5t.NATIVE_LDOUBLE),
        ("enum FALSE, TRUE", h5t.py_create(np.dtype(bool), logical=True)),
        ("enum", enum),
        ("string, fixed length", space),
        ("string, variable length", h5t.py_create(h5py.string_dtype(), logical=True)),
        ("opaque", opaque),
        ("variable-length opaque bytes", h5t.vlen_create(h5t.create(h5t.OPAQUE, 1))),
        ("variable-length sequence", h5t.vlen_create(h5t.STD_I32LE)),
        ("sequence of sequences", h5t.vlen_create(h5t.vlen_create(h5t.STD_U8LE))),
        ("array", h5t.array_create(h5t.IEEE_F32LE, (2, 3))),
        ("compound", h5t.py_create(record)),
        ("compound of floats r, i", h5t.py_create(np.dtype("c16"))),
        ("object reference", h5t.STD_REF_OBJ),
        ("region reference", h5t.STD_REF_DSETREG),
        ("time", h5t.UNIX_D32LE),
    ]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def read_rows() -> list[list[str]]:
    """The rows of the second table: describe a datatype, ask for its Arrow type."""
    described = [(name, describe_type(type_id)) for name, type_id in foreign_types()]
    rows = [[name, str(stored), type_word(default_type(stored))] for name, stored in described]
    epoch = describe_type(h5t.STD_I64LE)
    counted = ("microseconds since 1970-01-01", "seconds since 1970-01-01 00:00:00 UTC")
    rows += [[f"int64 with units `{units}`", str(epoch), str(default_type(epoch, units))] for units in counted]
    days = describe_type(h5t.STD_I32LE)
    rows.append(
        ["int32 with units `days since 1970-01-01`", str(days), str(default_type(days, "days since 1970-01-01"))]
    )
    rows.append(["integer with `_categories`", "codes", "dictionary of the categories"])
    return rows


def page_text() -> str:
    """The page as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "types.h5"
        rows = [write_row(name, array, options, path) for name, array, options in EXAMPLES]
    first = table(["Arrow", "HDF5", "units", "missing mark", "`arrow_type`"], rows)
    second = table(["HDF5", "described as", "Arrow"], read_rows())
    tail = "\nWhat has no Arrow type comes as raw bytes (`raw`) with the HDF5 datatype named in the type.\n"
    return HEAD + first + MIDDLE + second + tail


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        return 0 if PAGE.read_text() == page_text() else 1
    PAGE.write_text(page_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
