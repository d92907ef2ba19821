"""HEP001 tables that colonnade did not write: every datatype, storage and irregularity, read right.

Files are made with h5py and, where h5py has no way, with C calls of the test's own. What is read is
held against values the test chose, never against what colonnade says elsewhere.
"""

from __future__ import annotations

import ctypes
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from h5py import h5d, h5o, h5p, h5s, h5t, h5z

import colonnade as cn
from colonnade.columns.arrow_types import ComplexType, RawType, ReferenceType
from colonnade.errors import ColumnNotFound, CorruptError, FormatError, TableNotFound, UnsupportedError

_C = ctypes.CDLL(h5d.__file__)
_C.H5Dwrite.argtypes = [ctypes.c_int64] * 5 + [ctypes.c_void_p]
_C.H5Pset_fill_value.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
SEQUENCE = np.dtype([("length", "u8"), ("pointer", "u8")])
COMPLEX_CLASS = hasattr(h5t, "COMPLEX_IEEE_F64LE")


# --- making files -----------------------------------------------------------------------------------


def start_table(h5: Any, path: str = "t", order: list[str] | None = None, **attributes: Any) -> Any:
    """A group that says it is a table, by plain h5py."""
    group = h5.require_group(path)
    said: dict[str, Any] = {"CLASS": np.bytes_(b"COLUMN_TABLE"), "VERSION": np.bytes_(b"1.0"), **attributes}
    if order is not None:
        said["column-order"] = np.array([name.encode() for name in order], dtype=h5py.string_dtype("utf-8", 16))
    for name, value in said.items():
        if value is not None:
            group.attrs[name] = value
    return group


def plain_table(path: Path, columns: dict[str, Any], order: list[str] | None = None, **attributes: Any) -> Path:
    """A file with a table /t of these arrays."""
    with h5py.File(path, "w") as h5:
        group = start_table(h5, order=list(columns) if order is None else order, **attributes)
        for name, values in columns.items():
            group[name] = values
    return path


def column_of(
    path: Path,
    type_id: Any,
    memory: np.ndarray[Any, Any],
    *,
    fill: np.ndarray[Any, Any] | None = None,
    chunk: int | None = None,
    prepare: Callable[[Any], None] | None = None,
    rows: int | None = None,
) -> Path:
    """A file with a table /t of one column x: `memory` holds the elements as HDF5 has them in memory."""
    with h5py.File(path, "w") as h5:
        group = start_table(h5, order=["x"])
        creation = h5p.create(h5p.DATASET_CREATE)
        if chunk is not None:
            creation.set_chunk((chunk,))
        if prepare is not None:
            prepare(creation)
        if fill is not None:
            assert _C.H5Pset_fill_value(creation.id, type_id.id, fill.ctypes.data) >= 0
        space = h5s.create_simple((len(memory) if rows is None else rows,))
        dataset = h5d.create(group.id, b"x", type_id, space, dcpl=creation)
        if len(memory):
            part = dataset.get_space()
            part.select_hyperslab((0,), (len(memory),))
            held = h5s.create_simple((len(memory),))
            assert _C.H5Dwrite(dataset.id, type_id.id, held.id, part.id, 0, memory.ctypes.data) >= 0
    return path


def as_raw(data: bytes, width: int) -> np.ndarray[Any, Any]:
    """Elements of `width` bytes each."""
    return np.frombuffer(data, dtype=f"V{width}").copy()


class Heap:
    """Keeps alive the bytes that pointers in an array lead to."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def texts(self, values: list[bytes | None]) -> np.ndarray[Any, Any]:
        """Variable-length strings; None is the null pointer."""
        return np.array([0 if value is None else self._keep(value + b"\0") for value in values], dtype="u8")

    def sequences(self, parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """Variable-length sequences, each of the elements of one array."""
        out = np.zeros(len(parts), dtype=SEQUENCE)
        for row, part in enumerate(parts):
            out[row] = (len(part), self._keep(part.tobytes()) if len(part) else 0)
        return out

    def _keep(self, data: bytes) -> int:
        self._kept.append(ctypes.create_string_buffer(data, len(data)))
        return ctypes.addressof(self._kept[-1])


def read_x(path: Path) -> list[Any]:
    """All rows of the column x as Python values."""
    values: list[Any] = cn.read(path, "t")["x"].to_pylist()
    return values


def text_type(size: int | None, padding: int = h5t.STR_NULLTERM, charset: int = h5t.CSET_UTF8) -> Any:
    """A string datatype; no size means variable length."""
    made = h5t.C_S1.copy()
    made.set_size(h5t.VARIABLE if size is None else size)
    made.set_strpad(padding)
    made.set_cset(charset)
    return made


def enum_type(base: Any, **members: int) -> Any:
    made = h5t.enum_create(base)
    for name, value in members.items():
        made.enum_insert(name.encode(), value)
    return made


def compound_type(size: int, *members: tuple[str, int, Any]) -> Any:
    made = h5t.create(h5t.COMPOUND, size)
    for name, offset, kind in members:
        made.insert(name.encode(), offset, kind)
    return made


def opaque_type(size: int, tag: bytes) -> Any:
    made = h5t.create(h5t.OPAQUE, size)
    made.set_tag(tag)
    return made


def odd_integer(base: Any, precision: int, offset: int = 0, size: int | None = None) -> Any:
    made = base.copy()
    made.set_precision(precision)
    if size is not None:
        made.set_size(size)
    if offset:
        made.set_offset(offset)
    return made


def small_float(size: int, exponent: int, mantissa: int, bias: int) -> Any:
    """A float with its sign in the top bit, then exponent, then mantissa."""
    made = h5t.IEEE_F32LE.copy()
    bits = size * 8
    made.set_fields(bits - 1, mantissa, exponent, 0, mantissa)
    made.set_precision(bits)
    made.set_size(size)
    made.set_ebias(bias)
    return made


# --- numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("word", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integers_of_every_width_and_byte_order(tmp_path: Path, order: str, word: str) -> None:
    """The extremes survive, whichever byte comes first in the file."""
    bounds = np.iinfo(word)
    expected = [int(bounds.min), int(bounds.max), 0, 1, int(bounds.max) // 3]
    path = plain_table(tmp_path / "t.h5", {"x": np.array(expected, dtype=order + word)})
    found = cn.read(path)["x"]
    assert found.to_pylist() == expected
    assert found.type == pa.from_numpy_dtype(np.dtype(word))


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("word", ["f2", "f4", "f8"])
def test_floats_of_every_width_and_byte_order(tmp_path: Path, order: str, word: str) -> None:
    """Largest, smallest, infinities, NaN and the sign of zero."""
    bounds = np.finfo(word)
    values = np.array([bounds.max, bounds.tiny, -1.5, np.inf, -np.inf, np.nan, -0.0], dtype=order + word)
    path = plain_table(tmp_path / "t.h5", {"x": values})
    with cn.open_table(path) as table:
        found = table["x"].to_numpy()
    assert found.dtype == np.dtype(word)
    np.testing.assert_array_equal(found, values)
    assert np.signbit(found[-1])


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize(("size", "signed"), [(3, True), (3, False), (5, True), (7, False)])
def test_integers_of_odd_widths(tmp_path: Path, size: int, signed: bool, order: Any) -> None:
    """Three, five and seven bytes are widened to the next native integer, sign and all."""
    letter, end = "I" if signed else "U", "LE" if order == "little" else "BE"
    type_id = odd_integer(getattr(h5t, f"STD_{letter}64{end}"), size * 8, size=size)
    top = 1 << (size * 8)
    expected = [-top // 2, top // 2 - 1, -1, 0, 77] if signed else [0, top - 1, 1, 77]
    data = b"".join(value.to_bytes(size, order, signed=signed) for value in expected)
    assert read_x(column_of(tmp_path / "t.h5", type_id, as_raw(data, size))) == expected


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("signed", [True, False])
def test_integers_that_use_some_of_their_bits(tmp_path: Path, signed: bool, order: Any) -> None:
    """Twelve bits from bit 7 on are the number; the bits around them are padding, whatever they hold."""
    letter, end = "I" if signed else "U", "LE" if order == "little" else "BE"
    type_id = odd_integer(getattr(h5t, f"STD_{letter}32{end}"), 12, offset=7)
    expected = [-2048, 2047, -1, 0, 5] if signed else [0, 4095, 5]
    around = 0xFFFFFFFF ^ (0xFFF << 7)
    data = b"".join((((value & 0xFFF) << 7) | around).to_bytes(4, order) for value in expected)
    assert read_x(column_of(tmp_path / "t.h5", type_id, as_raw(data, 4))) == expected


def test_integers_wider_than_eight_bytes_are_raw_bytes(tmp_path: Path) -> None:
    """What no native integer holds comes as its bytes, with its datatype named."""
    type_id = h5t.STD_I64LE.copy()
    type_id.set_size(16)
    type_id.set_precision(128)
    data = bytes(range(32))
    with cn.open_table(column_of(tmp_path / "t.h5", type_id, as_raw(data, 16))) as table:
        kind = table["x"].dtype
        assert isinstance(kind, RawType) and kind.hdf5_type == "int128"
        assert table["x"].to_arrow().to_pylist() == [data[:16], data[16:]]


def test_bfloat16_is_read_as_float32(tmp_path: Path) -> None:
    """The upper half of a float32, exactly."""
    expected = np.array([1.0, -2.5, 3.0e38, 2.0**-120, np.inf, 0.0], dtype="<f4")
    expected = (expected.view("<u4") & 0xFFFF0000).view("<f4")
    data = (expected.view("<u4") >> 16).astype("<u2").tobytes()
    path = column_of(tmp_path / "t.h5", small_float(2, 8, 7, 127), as_raw(data, 2))
    found = cn.read(path)["x"]
    assert found.type == pa.float32()
    assert found.to_pylist() == expected.tolist()


def test_eight_bit_floats_are_read_as_float16(tmp_path: Path) -> None:
    """Five bits of exponent and two of mantissa: the upper half of a float16."""
    expected = np.array([1.0, -1.25, 57344.0, 0.0, 2.0**-14], dtype="<f2")
    data = (expected.view("<u2") >> 8).astype("u1").tobytes()
    found = cn.read(column_of(tmp_path / "t.h5", small_float(1, 5, 2, 15), as_raw(data, 1)))["x"]
    assert found.type == pa.float16()
    assert [float(value) for value in found.to_pylist()] == expected.tolist()


@pytest.mark.skipif(np.dtype("longdouble").itemsize == 8, reason="long double is float64 here")
def test_long_doubles_are_raw_bytes(tmp_path: Path) -> None:
    """No Arrow type holds them all, so none is rounded: bytes, with mantissa and exponent named."""
    values = np.array([1.0, -2.5, 1e4000], dtype="longdouble")
    width = values.itemsize
    with cn.open_table(column_of(tmp_path / "t.h5", h5t.NATIVE_LDOUBLE.copy(), values)) as table:
        kind = table["x"].dtype
        assert isinstance(kind, RawType) and kind.hdf5_type.startswith(f"float{width * 8} (")
        found = b"".join(table["x"].to_arrow().to_pylist())
    np.testing.assert_array_equal(np.frombuffer(found, dtype="longdouble"), values)


@pytest.mark.parametrize(("word", "size"), [("B8LE", 1), ("B16BE", 2), ("B32LE", 4), ("B64BE", 8)])
def test_bitfields_are_unsigned_integers(tmp_path: Path, word: str, size: int) -> None:
    expected = [0, 1, (1 << size * 8) - 1, 0xA5]
    data = b"".join(value.to_bytes(size, "little" if word.endswith("LE") else "big") for value in expected)
    path = column_of(tmp_path / "t.h5", getattr(h5t, f"STD_{word}").copy(), as_raw(data, size))
    assert cn.read(path)["x"].type == getattr(pa, f"uint{size * 8}")()
    assert read_x(path) == expected


@pytest.mark.parametrize("chunk", [None, 1])
def test_bitfields_that_use_some_of_their_bits(tmp_path: Path, chunk: int | None) -> None:
    """Five bits from bit 2 on, moved down."""
    type_id = h5t.STD_B8LE.copy()
    assert _C.H5Tset_precision(ctypes.c_int64(type_id.id), ctypes.c_size_t(5)) >= 0
    assert _C.H5Tset_offset(ctypes.c_int64(type_id.id), ctypes.c_size_t(2)) >= 0
    path = column_of(tmp_path / "t.h5", type_id, as_raw(bytes([0b1010_1011, 0b0000_0100]), 1), chunk=chunk)
    assert read_x(path) == [0b01010, 0b00001]


# --- booleans and enums -----------------------------------------------------------------------------

BASES = {"int8": (h5t.STD_I8LE, "i1"), "int16 big": (h5t.STD_I16BE, ">i2"), "uint32": (h5t.STD_U32LE, "<u4")}


@pytest.mark.parametrize("base", BASES)
def test_booleans(tmp_path: Path, base: str) -> None:
    """FALSE and TRUE over any integer."""
    number, word = BASES[base]
    path = column_of(tmp_path / "t.h5", enum_type(number, FALSE=0, TRUE=1), np.array([1, 0, 1], dtype=word))
    found = cn.read(path)["x"]
    assert found.type == pa.bool_() and found.to_pylist() == [True, False, True]


@pytest.mark.parametrize("fill", [None, -1])
@pytest.mark.parametrize("order", "<>")
def test_booleans_with_a_missing_member(tmp_path: Path, order: str, fill: int | None) -> None:
    """The member MISSING has no truth value, whether it is the fill value too or not."""
    type_id = enum_type(h5t.STD_I16LE if order == "<" else h5t.STD_I16BE, FALSE=0, TRUE=1, MISSING=-1)
    word = f"{order}i2"
    stored = None if fill is None else np.array([fill], dtype=word)
    path = column_of(tmp_path / "t.h5", type_id, np.array([1, -1, 0], dtype=word), fill=stored)
    found = cn.read(path)["x"]
    assert found.type == pa.bool_() and found.to_pylist() == [True, None, False]


@pytest.mark.parametrize("base", BASES)
def test_enums_are_categories_of_their_names(tmp_path: Path, base: str) -> None:
    """Members in any order and with gaps; names in any script."""
    number, word = BASES[base]
    type_id = enum_type(number, grün=7, rot=2, weiß=100)
    path = column_of(tmp_path / "t.h5", type_id, np.array([2, 100, 7, 2], dtype=word))
    found = cn.read(path)["x"]
    assert pa.types.is_dictionary(found.type)
    assert found.to_pylist() == ["rot", "weiß", "grün", "rot"]


@pytest.mark.parametrize("members", [{"FALSE": 0, "TRUE": 1}, {"red": 0, "blue": 1}], ids=["boolean", "enum"])
@pytest.mark.parametrize("base", BASES)
def test_an_enum_value_that_is_no_member_is_corrupt(tmp_path: Path, base: str, members: dict[str, int]) -> None:
    """Row, column and value are named, also when reading starts later or steps over rows."""
    number, word = BASES[base]
    stored = np.array([0, 1, 0, 1, 0, 9, 1], dtype=word)
    path = column_of(tmp_path / "t.h5", enum_type(number, **members), stored)
    with cn.open_table(path) as table:
        for query in (table, table[3:], table[1:6:2], table[6:2:-1], table.take([6, 5])):
            with pytest.raises(CorruptError) as caught:
                query.to_arrow()
            assert (caught.value.row, caught.value.column, caught.value.found) == (5, "x", 9)
        assert len(table[:5].to_arrow()) == 5


def test_an_enum_member_that_is_the_fill_value_marks_missing_rows(tmp_path: Path) -> None:
    """Rows read from several chunks, some without missing ones, still have their own names."""
    type_id = enum_type(h5t.STD_I8LE, unknown=0, a=1, b=2)
    stored = np.array([1, 2, 0, 1, 2, 2, 1, 0], dtype="i1")
    expected = ["a", "b", None, "a", "b", "b", "a", None]
    path = column_of(tmp_path / "t.h5", type_id, stored, fill=np.array([0], dtype="i1"), chunk=2)
    assert read_x(path) == expected
    rows = [7, 0, 4, 2, 1]
    with cn.open_table(path) as table:
        assert table.take(rows).to_arrow()["x"].to_pylist() == [expected[row] for row in rows]
        assert table["x"][4] == "b" and table["x"][2] is None
        assert [v for batch in table.batches(2) for v in batch.column(0).to_pylist()] == expected


# --- strings ----------------------------------------------------------------------------------------

STRINGS = {
    "space-padded": (h5t.STR_SPACEPAD, [b"abc   ", b"  a b ", b"      ", b"abcdef"], ["abc", "  a b", "", "abcdef"]),
    "null-terminated": (h5t.STR_NULLTERM, [b"abc\0zz", b"\0trash", b"abcde\0"], ["abc", "", "abcde"]),
    "null-padded": (
        h5t.STR_NULLPAD,
        [b"abc\0\0\0", b"\0\0\0\0\0\0", b"abcdef", b"ab c \0"],
        ["abc", "", "abcdef", "ab c "],
    ),
}


@pytest.mark.parametrize("charset", [h5t.CSET_ASCII, h5t.CSET_UTF8], ids=["ascii", "utf-8"])
@pytest.mark.parametrize("case", STRINGS)
def test_fixed_strings_of_every_padding(tmp_path: Path, case: str, charset: int) -> None:
    """Padding is taken off, what follows a terminator is no text, and blanks that are text stay."""
    padding, stored, expected = STRINGS[case]
    path = column_of(tmp_path / "t.h5", text_type(6, padding, charset), np.array(stored, dtype="V6"))
    found = cn.read(path)["x"]
    assert found.type == pa.string() and found.to_pylist() == expected
    assert str(cn.open_table(path)["x"].stored_type).endswith(f", {case}")


@pytest.mark.parametrize(
    ("padding", "pad"), [(h5t.STR_SPACEPAD, b" "), (h5t.STR_NULLPAD, b"\0"), (h5t.STR_NULLTERM, b"\0")]
)
def test_fixed_strings_beyond_ascii(tmp_path: Path, padding: int, pad: bytes) -> None:
    """Sizes count bytes: characters of two, three and four bytes."""
    expected = ["größe", "日本", "🏛", ""]
    stored = np.array([text.encode().ljust(8, pad) for text in expected], dtype="V8")
    assert read_x(column_of(tmp_path / "t.h5", text_type(8, padding), stored)) == expected


def test_a_null_padded_string_may_hold_nul_inside(tmp_path: Path) -> None:
    """Only trailing NULs are padding."""
    path = column_of(tmp_path / "t.h5", text_type(4, h5t.STR_NULLPAD), np.array([b"a\0b\0"], dtype="V4"))
    assert read_x(path) == ["a\0b"]


@pytest.mark.parametrize("charset", [h5t.CSET_ASCII, h5t.CSET_UTF8], ids=["ascii", "utf-8"])
def test_variable_length_strings(tmp_path: Path, charset: int) -> None:
    """The null pointer is an empty text where no fill value says otherwise."""
    heap = Heap()
    stored = heap.texts([b"one", None, b"", b"x" * 5000, b" two "])
    path = column_of(tmp_path / "t.h5", text_type(None, charset=charset), stored)
    found = cn.read(path)["x"]
    assert found.type == pa.string()
    assert found.to_pylist() == ["one", "", "", "x" * 5000, " two "]


def test_variable_length_strings_beyond_ascii_by_h5py(tmp_path: Path) -> None:
    expected = ["größe", "日本", "🏛", ""]
    path = plain_table(tmp_path / "t.h5", {"x": np.array(expected, dtype=h5py.string_dtype())})
    assert read_x(path) == expected


BAD = b"ok\xff\xfe"


@pytest.mark.parametrize("charset", [h5t.CSET_ASCII, h5t.CSET_UTF8], ids=["ascii", "utf-8"])
@pytest.mark.parametrize("size", [None, 4], ids=["variable", "fixed"])
def test_text_that_is_not_utf_8_is_corrupt(tmp_path: Path, size: int | None, charset: int) -> None:
    """The error names column and row, counted from the table's first; other rows are read."""
    heap = Heap()
    texts = [b"abc", b"def", b"ghi", BAD, b"jkl"]
    stored = heap.texts(list(texts)) if size is None else np.array([t.ljust(4, b"\0") for t in texts], dtype="V4")
    path = column_of(tmp_path / "t.h5", text_type(size, h5t.STR_NULLPAD if size else h5t.STR_NULLTERM, charset), stored)
    with cn.open_table(path) as table:
        for query in (table, table[2:], table[1::2], table.take([4, 3])):
            with pytest.raises(CorruptError) as caught:
                query.to_arrow()
            assert (caught.value.row, caught.value.column, caught.value.found) == (3, "x", BAD)
        assert table[:3].to_arrow()["x"].to_pylist() == ["abc", "def", "ghi"]
        assert table["x"][4] == "jkl"


def _bad_in_sequence(heap: Heap) -> tuple[Any, np.ndarray[Any, Any]]:
    rows = [[b"a", b"b"], [], [b"c"], [b"d", BAD], [b"e"]]
    return h5t.vlen_create(text_type(None)), heap.sequences([heap.texts(list(row)) for row in rows])


def _bad_in_array(heap: Heap) -> tuple[Any, np.ndarray[Any, Any]]:
    rows = [[b"a", b"b"], [b"", b""], [b"c", b""], [b"d", BAD], [b"e", b""]]
    type_id = h5t.array_create(text_type(4, h5t.STR_NULLPAD), (2,))
    return type_id, np.array([b"".join(cell.ljust(4, b"\0") for cell in row) for row in rows], dtype="V8")


def _bad_in_compound(heap: Heap) -> tuple[Any, np.ndarray[Any, Any]]:
    type_id = compound_type(12, ("n", 0, h5t.NATIVE_INT32), ("s", 4, text_type(None)))
    memory = np.zeros(5, dtype={"names": ["n", "s"], "formats": ["i4", "u8"], "offsets": [0, 4], "itemsize": 12})
    memory["s"] = heap.texts([b"a", b"b", b"c", BAD, b"e"])
    return type_id, memory


@pytest.mark.parametrize("make", [_bad_in_sequence, _bad_in_array, _bad_in_compound])
def test_nested_text_that_is_not_utf_8_names_the_tables_row(
    tmp_path: Path, make: Callable[[Heap], tuple[Any, np.ndarray[Any, Any]]]
) -> None:
    """The row is the table's, not the number of the element among all elements."""
    heap = Heap()
    path = column_of(tmp_path / "t.h5", *make(heap))
    with cn.open_table(path) as table:
        for query in (table, table[1:]):
            with pytest.raises(CorruptError) as caught:
                query.to_arrow()
            assert (caught.value.row, caught.value.column) == (3, "x")
        assert len(table[:3].to_arrow()) == 3


# --- bytes, references, complex numbers, times ------------------------------------------------------


def test_opaque_elements_keep_their_bytes_and_tag(tmp_path: Path) -> None:
    data = bytes(range(18))
    with cn.open_table(column_of(tmp_path / "t.h5", opaque_type(6, b"image/x-tiny"), as_raw(data, 6))) as table:
        assert table["x"].stored_type.tag == "image/x-tiny"
        assert table["x"].dtype == pa.binary(6)
        assert table["x"].to_arrow().to_pylist() == [data[:6], data[6:12], data[12:]]


def test_variable_length_bytes(tmp_path: Path) -> None:
    heap = Heap()
    rows = [b"\0\1\2", b"", b"\xff" * 300]
    stored = heap.sequences([np.frombuffer(row, dtype="u1") for row in rows])
    path = column_of(tmp_path / "t.h5", h5t.vlen_create(opaque_type(1, b"")), stored)
    assert cn.read(path)["x"].type == pa.binary()
    assert read_x(path) == rows


def test_object_references_are_addresses_of_objects(tmp_path: Path) -> None:
    """The eight bytes are the object's address; the null reference is all zeros."""
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as h5:
        group = start_table(h5, order=["x"])
        target = h5.create_dataset("image", data=np.zeros((2, 2)))
        values = np.array([target.ref, group.ref, h5py.Reference()], dtype=h5py.ref_dtype)
        group.create_dataset("x", data=values, dtype=h5py.ref_dtype)
        addresses = [h5o.get_info(node.id).addr for node in (target, group)]
    with cn.open_table(path) as table:
        assert isinstance(table["x"].dtype, ReferenceType)
        found = table["x"].to_arrow().to_pylist()
    assert found == [*(struct.pack("<Q", address) for address in addresses), bytes(8)]


def test_region_references_are_the_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as h5:
        group = start_table(h5, order=["x"])
        target = h5.create_dataset("image", data=np.zeros((4, 4)))
        values = np.array([target.regionref[0:2], target.regionref[:, 3]], dtype=h5py.regionref_dtype)
        made = group.create_dataset("x", data=values, dtype=h5py.regionref_dtype)
        h5.flush()
        offset = made.id.get_offset()
    stored = path.read_bytes()[offset : offset + 24]
    with cn.open_table(path) as table:
        assert isinstance(table["x"].dtype, ReferenceType) and table["x"].dtype.kind == "region_reference"
        assert table["x"].to_arrow().to_pylist() == [stored[:12], stored[12:]]


COMPLEX_VALUES = [1 + 2j, -0.5j, complex(np.inf, -1), 3.25 + 0j]


@pytest.mark.parametrize("word", ["<c8", ">c8", "<c16", ">c16"])
def test_complex_numbers_as_compounds(tmp_path: Path, word: str) -> None:
    """h5py's form: a compound of r and i."""
    path = plain_table(tmp_path / "t.h5", {"x": np.array(COMPLEX_VALUES, dtype=word)})
    found = cn.read(path)["x"]
    assert isinstance(found.type, ComplexType) and found.type.bits == int(word[2:]) * 8
    assert found.to_pylist() == COMPLEX_VALUES


@pytest.mark.skipif(not COMPLEX_CLASS, reason="this HDF5 library has no complex class")
@pytest.mark.parametrize("word", ["<c8", ">c8", "<c16", ">c16"])
def test_complex_numbers_of_the_complex_class(tmp_path: Path, word: str) -> None:
    """HDF5 2.0's own class of complex numbers, either byte order."""
    bits, end = int(word[2:]) * 4, "LE" if word[0] == "<" else "BE"
    type_id = getattr(h5t, f"COMPLEX_IEEE_F{bits}{end}").copy()
    path = column_of(tmp_path / "t.h5", type_id, np.array(COMPLEX_VALUES, dtype=word))
    found = cn.read(path)["x"]
    assert isinstance(found.type, ComplexType) and found.type.bits == bits * 2
    assert found.to_pylist() == COMPLEX_VALUES


@pytest.mark.parametrize("word", ["UNIX_D32LE", "UNIX_D32BE", "UNIX_D64LE", "UNIX_D64BE"])
def test_time_types_are_raw_bytes_under_their_name(tmp_path: Path, word: str) -> None:
    """H5T_TIME has no meaning of its own: its bytes come as they are stored."""
    size = 4 if "32" in word else 8
    data = bytes(range(size * 3))
    with cn.open_table(column_of(tmp_path / "t.h5", getattr(h5t, word).copy(), as_raw(data, size))) as table:
        kind = table["x"].dtype
        assert isinstance(kind, RawType) and kind.hdf5_type == f"time of {size} bytes"
        assert b"".join(table["x"].to_arrow().to_pylist()) == data
        assert len(table.to_pandas()) == 3


# --- compounds, arrays, sequences -------------------------------------------------------------------


def test_a_compound_with_arrays_strings_and_variable_length_members(tmp_path: Path) -> None:
    """Members at odd offsets, in both byte orders, three deep."""
    heap = Heap()
    inner = compound_type(13, ("deep", 1, h5t.STD_I16BE), ("text", 5, text_type(None)))
    type_id = compound_type(
        64,
        ("n", 2, h5t.STD_U32BE),
        ("pos", 8, h5t.array_create(h5t.IEEE_F32BE, (2,))),
        ("name", 16, text_type(4, h5t.STR_SPACEPAD)),
        ("inner", 20, inner),
        ("list", 40, h5t.vlen_create(h5t.STD_I16LE)),
        ("flag", 60, enum_type(h5t.STD_I8LE, FALSE=0, TRUE=1)),
    )
    memory = np.zeros(
        3,
        dtype={
            "names": ["n", "pos", "name", "deep", "text", "list", "flag"],
            "formats": [">u4", (">f4", (2,)), "V4", ">i2", "u8", SEQUENCE, "i1"],
            "offsets": [2, 8, 16, 21, 25, 40, 60],
            "itemsize": 64,
        },
    )
    memory["n"] = [1, 2**32 - 1, 0]
    memory["pos"] = [[0.5, -1], [2, 3], [4, 5]]
    memory["name"] = np.array([b"ab  ", b"wxyz", b"    "], dtype="V4")
    memory["deep"] = [-5, 300, 0]
    memory["text"] = heap.texts([b"eins", None, "zwölf".encode()])
    memory["list"] = heap.sequences([np.array(row, dtype="<i2") for row in ([1, -2], [], [7])])
    memory["flag"] = [1, 0, 1]
    assert read_x(column_of(tmp_path / "t.h5", type_id, memory)) == [
        {
            "n": 1,
            "pos": [0.5, -1.0],
            "name": "ab",
            "inner": {"deep": -5, "text": "eins"},
            "list": [1, -2],
            "flag": True,
        },
        {
            "n": 2**32 - 1,
            "pos": [2.0, 3.0],
            "name": "wxyz",
            "inner": {"deep": 300, "text": ""},
            "list": [],
            "flag": False,
        },
        {"n": 0, "pos": [4.0, 5.0], "name": "", "inner": {"deep": 0, "text": "zwölf"}, "list": [7], "flag": True},
    ]


def test_a_compound_of_i_and_r_is_no_complex_number(tmp_path: Path) -> None:
    """Only r before i is; other pairs keep their names."""
    values = np.array([(1.5, 2.5)], dtype=[("i", "<f8"), ("r", "<f8")])
    assert read_x(plain_table(tmp_path / "t.h5", {"x": values})) == [{"i": 1.5, "r": 2.5}]


@pytest.mark.parametrize("dims", [(3,), (2, 3), (2, 1, 4)], ids=str)
@pytest.mark.parametrize("word", [">i2", "<f8"])
def test_arrays_of_every_rank(tmp_path: Path, word: str, dims: tuple[int, ...]) -> None:
    values = np.arange(5 * int(np.prod(dims))).reshape(5, *dims).astype(word)
    base = h5t.STD_I16BE if word == ">i2" else h5t.IEEE_F64LE
    path = column_of(tmp_path / "t.h5", h5t.array_create(base, dims), values)
    assert read_x(path) == values.tolist()
    with cn.open_table(path) as table:
        np.testing.assert_array_equal(table["x"].to_numpy(), values)
        assert table.take([4, 1]).to_arrow()["x"].to_pylist() == values[[4, 1]].tolist()


def test_arrays_of_arrays_of_strings_and_of_compounds(tmp_path: Path) -> None:
    nested = h5t.array_create(h5t.array_create(h5t.STD_I32BE, (3,)), (2,))
    values = np.arange(12).reshape(2, 2, 3).astype(">i4")
    assert read_x(column_of(tmp_path / "a.h5", nested, values)) == values.tolist()
    texts = h5t.array_create(text_type(2, h5t.STR_SPACEPAD), (2,))
    assert read_x(column_of(tmp_path / "b.h5", texts, as_raw(b"a bcd   ", 4))) == [["a", "bc"], ["d", ""]]
    pairs = h5t.array_create(compound_type(3, ("u", 0, h5t.STD_U8LE), ("v", 1, h5t.STD_I16BE)), (2,))
    path = column_of(tmp_path / "c.h5", pairs, as_raw(bytes([1, 0, 2, 3, 255, 254]), 6))
    assert read_x(path) == [[{"u": 1, "v": 2}, {"u": 3, "v": -2}]]


def _sequence_of_integers(heap: Heap) -> tuple[Any, np.ndarray[Any, Any], list[Any]]:
    expected = [[1, -2, 300], [], [7]]
    return h5t.vlen_create(h5t.STD_I16BE), heap.sequences([np.array(row, dtype=">i2") for row in expected]), expected


def _sequence_of_texts(heap: Heap) -> tuple[Any, np.ndarray[Any, Any], list[Any]]:
    expected = [["a", ""], [], ["größe", "b", "c"]]
    rows = [heap.texts([text.encode() for text in row]) for row in expected]
    return h5t.vlen_create(text_type(None)), heap.sequences(rows), expected


def _sequence_of_compounds(heap: Heap) -> tuple[Any, np.ndarray[Any, Any], list[Any]]:
    dtype = np.dtype([("u", "u1"), ("v", ">i2")])
    type_id = h5t.vlen_create(compound_type(3, ("u", 0, h5t.STD_U8LE), ("v", 1, h5t.STD_I16BE)))
    rows = [[(1, -1), (2, -2)], [], [(3, 300)]]
    expected = [[{"u": u, "v": v} for u, v in row] for row in rows]
    return type_id, heap.sequences([np.array(row, dtype=dtype) for row in rows]), expected


def _sequence_of_sequences(heap: Heap) -> tuple[Any, np.ndarray[Any, Any], list[Any]]:
    expected: list[Any] = [[[1, 2], []], [], [[3], [4, 5, 6]]]
    rows = [heap.sequences([np.array(part, dtype="<i4") for part in row]) for row in expected]
    return h5t.vlen_create(h5t.vlen_create(h5t.STD_I32LE)), heap.sequences(rows), expected


def _sequence_of_arrays(heap: Heap) -> tuple[Any, np.ndarray[Any, Any], list[Any]]:
    expected: list[Any] = [[[1.5, 2.5]], [], [[0.0, -1.0], [4.0, 8.0]]]
    rows = [np.array(row, dtype=">f4").reshape(-1, 2) for row in expected]
    return h5t.vlen_create(h5t.array_create(h5t.IEEE_F32BE, (2,))), heap.sequences(rows), expected


def _sequence_of_booleans(heap: Heap) -> tuple[Any, np.ndarray[Any, Any], list[Any]]:
    expected: list[Any] = [[True], [], [False, True]]
    rows = [np.array(row, dtype="i1") for row in expected]
    return h5t.vlen_create(enum_type(h5t.STD_I8LE, FALSE=0, TRUE=1)), heap.sequences(rows), expected


SEQUENCES = [
    _sequence_of_integers, _sequence_of_texts, _sequence_of_compounds,
    _sequence_of_sequences, _sequence_of_arrays, _sequence_of_booleans,
]  # fmt: skip


@pytest.mark.parametrize("make", SEQUENCES)
def test_variable_length_sequences(
    tmp_path: Path, make: Callable[[Heap], tuple[Any, np.ndarray[Any, Any], list[Any]]]
) -> None:
    """Of anything, and empty ones between."""
    heap = Heap()
    type_id, memory, expected = make(heap)
    path = column_of(tmp_path / "t.h5", type_id, memory)
    assert read_x(path) == expected
    with cn.open_table(path) as table:
        assert table["x"][2] == expected[2]
        assert table[::-1].to_arrow()["x"].to_pylist() == expected[::-1]
        assert table.take([2, 0, 2]).to_arrow()["x"].to_pylist() == [expected[2], expected[0], expected[2]]
        assert len(table.to_pandas()) == 3 and len(table["x"].to_numpy()) == 3


# --- storages ---------------------------------------------------------------------------------------

NUMBERS = (np.arange(2_000) * 37 % 1009).astype(">i4")


def _compact(group: Any) -> None:
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_layout(h5d.COMPACT)
    dataset = h5d.create(group.id, b"x", h5t.STD_I32BE, h5s.create_simple(NUMBERS.shape), dcpl=creation)
    h5py.Dataset(dataset)[:] = NUMBERS


def _contiguous(group: Any) -> None:
    group["x"] = NUMBERS


def _chunked(group: Any) -> None:
    group.create_dataset("x", data=NUMBERS, chunks=(300,), maxshape=(None,))


def _external(group: Any) -> None:
    folder = Path(group.file.filename).parent
    parts = [(str(folder / "first.bin"), 16, 3_000), (str(folder / "second.bin"), 0, 5_000)]
    (folder / "first.bin").write_bytes(b"\xee" * 3_016)
    group.create_dataset("x", data=NUMBERS, external=parts)


def _virtual(group: Any) -> None:
    folder = Path(group.file.filename).parent
    layout = h5py.VirtualLayout(shape=NUMBERS.shape, dtype=NUMBERS.dtype)
    for name, part in (("one.h5", slice(0, 1_200)), ("two.h5", slice(1_200, 2_000))):
        with h5py.File(folder / name, "w") as source:
            source["data"] = NUMBERS[part]
        layout[part] = h5py.VirtualSource(name, "data", shape=NUMBERS[part].shape)
    group.create_virtual_dataset("x", layout)


STORAGES = {
    "compact": _compact, "contiguous": _contiguous, "chunked": _chunked, "external": _external, "virtual": _virtual,
}  # fmt: skip


@pytest.mark.parametrize("storage", STORAGES)
def test_every_storage_is_read(
    tmp_path: Path, storage: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """C5: whole, slices, steps and chosen rows, from any working folder."""
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as h5:
        STORAGES[storage](start_table(h5, order=["x"]))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    with cn.open_table(path) as table:
        assert table["x"].info.storage == storage
        assert table["x"].chunk_rows == (300 if storage == "chunked" else None)
        np.testing.assert_array_equal(table["x"].to_numpy(), NUMBERS)
        for part in (slice(1_190, 1_210), slice(None, None, 333), slice(1_500, 100, -7), slice(-3, None)):
            np.testing.assert_array_equal(table["x"][part], NUMBERS[part])
        rows = [1_999, 0, 1_200, 1_199, 0, -5]
        np.testing.assert_array_equal(table["x"][rows], NUMBERS[rows])


def test_an_external_file_that_is_gone_is_an_error_not_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as h5:
        _external(start_table(h5, order=["x"]))
    (tmp_path / "second.bin").unlink()
    with cn.open_table(path) as table:
        assert len(table) == 2_000
        with pytest.raises(CorruptError) as caught:
            table.to_arrow()
    assert caught.value.path == "/t/x"


# --- filters ----------------------------------------------------------------------------------------


def _lzf(creation: Any) -> None:
    creation.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL, ())


def _deflate(creation: Any) -> None:
    creation.set_shuffle()
    creation.set_deflate(6)
    creation.set_fletcher32()


FILTERS: dict[str, Callable[[Any], None]] = {
    "shuffle+deflate+fletcher32": _deflate,
    "fletcher32": lambda creation: creation.set_fletcher32(),
    "scale-offset": lambda creation: creation.set_scaleoffset(h5z.SO_INT, 0),
    "n-bit": lambda creation: creation.set_filter(h5z.FILTER_NBIT, h5z.FLAG_OPTIONAL, ()),
    "szip": lambda creation: creation.set_szip(h5z.SZIP_NN_OPTION_MASK, 8),
    "lzf": _lzf,
}
PLUGINS = ["Bitshuffle", "Blosc", "Blosc2", "BZip2", "LZ4", "Zstd"]


@pytest.mark.parametrize("name", FILTERS)
def test_built_in_filters(tmp_path: Path, name: str) -> None:
    """Big-endian numbers through every filter that comes with HDF5 and h5py; the last chunk is short."""
    if name == "szip" and not h5z.filter_avail(h5z.FILTER_SZIP):
        pytest.skip("this HDF5 library has no szip")
    path = column_of(tmp_path / "t.h5", h5t.STD_I32BE, NUMBERS, chunk=300, prepare=FILTERS[name])
    with cn.open_table(path) as table:
        assert [step.name for step in table["x"].info.filters] == name.split("+")
        np.testing.assert_array_equal(table["x"].to_numpy(), NUMBERS)
        np.testing.assert_array_equal(table["x"][295:1_805:5], NUMBERS[295:1_805:5])


def test_n_bit_keeps_the_bits_of_a_short_integer(tmp_path: Path) -> None:
    """Twelve bits are stored; the number comes back with its sign."""
    expected = [-2048, 2047, -1, 0, 5]
    data = b"".join((value & 0xFFF).to_bytes(2, "little") for value in expected)
    path = column_of(
        tmp_path / "t.h5", odd_integer(h5t.STD_I16LE, 12), as_raw(data, 2), chunk=2, prepare=FILTERS["n-bit"]
    )
    assert read_x(path) == expected


@pytest.mark.parametrize("name", PLUGINS)
def test_filters_of_hdf5plugin(tmp_path: Path, name: str) -> None:
    """Written through the plugin by h5py, read as any other column."""
    hdf5plugin = pytest.importorskip("hdf5plugin")
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as h5:
        group = start_table(h5, order=["x"])
        group.create_dataset("x", data=NUMBERS, chunks=(300,), **getattr(hdf5plugin, name)())
    with cn.open_table(path) as table:
        assert table["x"].info.filters[-1].id == getattr(hdf5plugin, name).filter_id
        np.testing.assert_array_equal(table["x"].to_numpy(), NUMBERS)


def _unknown_filter(path: Path, skipped: bool) -> Path:
    """A column whose chunk names the unregistered filter 450, applied or (as HDF5 lets it be) skipped."""
    with h5py.File(path, "w") as h5:
        group = start_table(h5, order=["x", "y"])
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_chunk((4,))
        creation.set_filter(450, h5z.FLAG_OPTIONAL, (1, 2))
        dataset = h5d.create(group.id, b"x", h5t.STD_I32LE, h5s.create_simple((4,)), dcpl=creation)
        dataset.write_direct_chunk((0,), np.arange(4, dtype="<i4").tobytes(), 1 if skipped else 0)
        group["y"] = np.arange(4.0)
    return path


def test_an_unknown_filter_is_named(tmp_path: Path) -> None:
    """The table opens, other columns are read, and the error says which filter is not there."""
    with cn.open_table(_unknown_filter(tmp_path / "t.h5", skipped=False)) as table:
        assert table["x"].info.filters[0].id == 450
        assert table["y"].to_numpy().tolist() == [0, 1, 2, 3]
        with pytest.raises(UnsupportedError) as caught:
            table["x"].to_arrow()
    assert "450" in str(caught.value.feature) and "450" in str(caught.value)
    assert caught.value.path == "/t/x"


def test_an_unknown_filter_that_no_chunk_went_through_does_no_harm(tmp_path: Path) -> None:
    """Optional filters may be skipped, chunk by chunk: such chunks are plain."""
    with cn.open_table(_unknown_filter(tmp_path / "t.h5", skipped=True)) as table:
        assert table["x"].to_numpy().tolist() == [0, 1, 2, 3]


def test_a_chunk_that_fails_its_checksum_is_corrupt(tmp_path: Path) -> None:
    """fletcher32 finds the changed byte; the other chunks are read."""
    path = column_of(tmp_path / "t.h5", h5t.STD_I32BE, NUMBERS, chunk=300, prepare=FILTERS["fletcher32"])
    with h5py.File(path) as h5:
        place = h5["t/x"].id.get_chunk_info(2).byte_offset
    data = bytearray(path.read_bytes())
    data[place + 17] ^= 0x40
    path.write_bytes(bytes(data))
    with cn.open_table(path) as table:
        np.testing.assert_array_equal(table["x"][:600], NUMBERS[:600])
        with pytest.raises(CorruptError) as caught:
            table["x"][600:700]
    assert caught.value.path == "/t/x" and caught.value.row == 600


# --- missing rows -----------------------------------------------------------------------------------


def _number_fill(word: str, values: list[Any], fill: Any) -> Callable[[Heap], tuple[Any, Any, Any, list[Any]]]:
    def make(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
        return h5t.py_create(np.dtype(word)), np.array(values, dtype=word), np.array([fill], dtype=word), values

    return make


def _fixed_fill(padding: int, values: list[bytes], fill: bytes) -> Callable[[Heap], tuple[Any, Any, Any, list[Any]]]:
    def make(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
        expected = [value.split(b"\0")[0].decode().rstrip() for value in values]
        return text_type(4, padding), np.array(values, dtype="V4"), np.array([fill], dtype="V4"), expected

    return make


def _text_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    return text_type(None), heap.texts([b"a", b"n/a", b""]), heap.texts([b"n/a"]), ["a", "n/a", ""]


def _empty_text_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    return text_type(None), heap.texts([b"a", b"", b"n/a"]), heap.texts([b""]), ["a", "", "n/a"]


def _null_text_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    return text_type(None), heap.texts([b"a", None, b"b"]), heap.texts([b""]), ["a", "", "b"]


def _sequence_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    rows = [[1, 2], [-9], []]
    memory = heap.sequences([np.array(row, dtype=">i2") for row in rows])
    return h5t.vlen_create(h5t.STD_I16BE), memory, heap.sequences([np.array([-9], dtype=">i2")]), rows


def _empty_sequence_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    rows: list[list[float]] = [[1.5], [], [2.5, 3.5]]
    memory = heap.sequences([np.array(row, dtype="<f8") for row in rows])
    return h5t.vlen_create(h5t.IEEE_F64LE), memory, np.zeros(1, dtype=SEQUENCE), rows


def _empty_sequence_of_texts_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    rows: list[list[str]] = [["a"], [], ["b", ""]]
    memory = heap.sequences([heap.texts([text.encode() for text in row]) for row in rows])
    return h5t.vlen_create(text_type(None)), memory, np.zeros(1, dtype=SEQUENCE), rows


def _sequence_of_texts_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    rows: list[list[str]] = [["a"], ["n/a"], [], ["n/a", "n/a"]]
    memory = heap.sequences([heap.texts([text.encode() for text in row]) for row in rows])
    return h5t.vlen_create(text_type(None)), memory, heap.sequences([heap.texts([b"n/a"])]), rows


def _compound_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    dtype = np.dtype([("a", ">i4"), ("b", "u1")])
    type_id = compound_type(5, ("a", 0, h5t.STD_I32BE), ("b", 4, h5t.STD_U8LE))
    rows = [(1, 0), (-1, 255), (-1, 0), (1, 255)]
    expected = [{"a": a, "b": b} for a, b in rows]
    return type_id, np.array(rows, dtype=dtype), np.array([(-1, 255)], dtype=dtype), expected


def _compound_with_text_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    dtype = np.dtype([("a", "<i4"), ("s", "u8")])
    type_id = compound_type(12, ("a", 0, h5t.STD_I32LE), ("s", 4, text_type(None)))
    rows = [(1, b""), (-1, b"n/a"), (-1, b"other"), (1, b"n/a")]
    memory = np.zeros(4, dtype=dtype)
    memory["a"], memory["s"] = [a for a, _ in rows], heap.texts([s for _, s in rows])
    fill = np.zeros(1, dtype=dtype)
    fill["a"], fill["s"] = -1, heap.texts([b"n/a"])
    return type_id, memory, fill, [{"a": a, "s": s.decode()} for a, s in rows]


def _array_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    rows = np.array([[1, 2], [-1, -1], [-1, 2]], dtype=">i2")
    return h5t.array_create(h5t.STD_I16BE, (2,)), rows, np.array([[-1, -1]], dtype=">i2"), rows.tolist()


def _opaque_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    rows = [b"abc", b"\xff\xff\xff", b"\0\0\0"]
    return opaque_type(3, b"t"), as_raw(b"".join(rows), 3), as_raw(rows[1], 3), rows


def _bitfield_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    return h5t.STD_B16BE.copy(), np.array([1, 0xFFFF, 0], ">u2"), np.array([0xFFFF], ">u2"), [1, 0xFFFF, 0]


def _enum_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    type_id = enum_type(h5t.STD_I16BE, red=3, none=7, blue=1)
    return type_id, np.array([3, 7, 1], ">i2"), np.array([7], ">i2"), ["red", "none", "blue"]


def _false_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    return enum_type(h5t.STD_I8LE, FALSE=0, TRUE=1), np.array([1, 0], "i1"), np.array([0], "i1"), [True, False]


def _reference_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    rows = [struct.pack("<Q", 96), bytes(8)]
    return h5t.STD_REF_OBJ.copy(), as_raw(b"".join(rows), 8), as_raw(bytes(8), 8), rows


def _time_fill(heap: Heap) -> tuple[Any, Any, Any, list[Any]]:
    rows = [b"\1\2\3\4", b"\0\0\0\7"]
    return h5t.UNIX_D32LE.copy(), as_raw(b"".join(rows), 4), as_raw(rows[1], 4), rows


FILLS: dict[str, Callable[[Heap], tuple[Any, Any, Any, list[Any]]]] = {
    **{f"int {w}": _number_fill(w, [5, -7, 0], -7) for w in ("|i1", "<i2", ">i4", "<i8", ">i8")},
    **{f"uint {w}": _number_fill(w, [5, 200, 0], 200) for w in ("|u1", ">u2", "<u4", ">u8")},
    **{f"float {w}": _number_fill(w, [5.5, -7.5, 0.0], -7.5) for w in ("<f2", ">f4", "<f8", ">f8")},
    "complex": _number_fill(">c16", [1 + 1j, -9 - 9j, -9 + 0j], -9 - 9j),
    "space-padded": _fixed_fill(h5t.STR_SPACEPAD, [b"ab  ", b"n/a ", b"    "], b"n/a "),
    "null-terminated": _fixed_fill(h5t.STR_NULLTERM, [b"ab\0x", b"na\0y", b"\0zzz"], b"na\0q"),
    "null-padded": _fixed_fill(h5t.STR_NULLPAD, [b"ab\0\0", b"\0\0\0\0", b"n/a\0"], bytes(4)),
    "text": _text_fill,
    "empty text": _empty_text_fill,
    "null text": _null_text_fill,
    "sequence": _sequence_fill,
    "empty sequence": _empty_sequence_fill,
    "empty sequence of texts": _empty_sequence_of_texts_fill,
    "sequence of texts": _sequence_of_texts_fill,
    "compound": _compound_fill,
    "compound with text": _compound_with_text_fill,
    "array": _array_fill,
    "opaque": _opaque_fill,
    "bitfield": _bitfield_fill,
    "enum": _enum_fill,
    "boolean": _false_fill,
    "null reference": _reference_fill,
    "time": _time_fill,
}


@pytest.mark.parametrize("name", FILLS)
def test_a_fill_value_set_by_the_writer_marks_missing_rows(tmp_path: Path, name: str) -> None:
    """C6: the row that equals it (always the second here) is missing, rows that only look alike are not."""
    heap = Heap()
    type_id, memory, fill, expected = FILLS[name](heap)
    path = column_of(tmp_path / "t.h5", type_id, memory, fill=fill, chunk=2)
    assert read_x(path) == [expected[0], None, *expected[2:]]
    with cn.open_table(path) as table:
        assert table["x"].fill is not None
        assert table["x"].to_arrow().null_count == 1
        assert table["x"][1] is None
        assert table[::-1].to_arrow()["x"].to_pylist() == [expected[0], None, *expected[2:]][::-1]


@pytest.mark.parametrize("name", FILLS)
def test_the_default_fill_value_marks_nothing(tmp_path: Path, name: str) -> None:
    """C6: where the writer set none, every row is a value, zero and empty ones too."""
    heap = Heap()
    type_id, memory, _, expected = FILLS[name](heap)
    path = column_of(tmp_path / "t.h5", type_id, memory, chunk=2)
    assert read_x(path) == expected
    with cn.open_table(path) as table:
        assert table["x"].fill is None


@pytest.mark.parametrize("name", FILLS)
def test_every_door_hands_out_every_type_with_missing_rows(tmp_path: Path, name: str) -> None:
    """NumPy masks the missing row, pandas and polars have their own word for it, texts show the column."""
    heap = Heap()
    type_id, memory, fill, expected = FILLS[name](heap)
    with cn.open_table(column_of(tmp_path / "t.h5", type_id, memory, fill=fill, chunk=2)) as table:
        masked = table["x"].to_numpy()
        assert isinstance(masked, np.ma.MaskedArray) and len(masked) == len(expected)
        hidden = np.ma.getmaskarray(masked)
        hidden = hidden[hidden.dtype.names[0]] if hidden.dtype.names else hidden
        assert hidden.reshape(len(expected), -1).all(axis=1).tolist() == [row == 1 for row in range(len(expected))]
        assert table.to_pandas()["x"].isna().tolist() == [row == 1 for row in range(len(expected))]
        assert table.to_polars()["x"].is_null().to_list() == [row == 1 for row in range(len(expected))]
        assert table._repr_html_().count("<td>-</td>") == 1
        assert pa.table(table)["x"].null_count == 1


@pytest.mark.parametrize("name", FILLS)
def test_rows_never_written_are_missing(tmp_path: Path, name: str) -> None:
    """Rows 0 and 1 are written; row 4 lies in a chunk that was never allocated."""
    heap = Heap()
    type_id, memory, fill, expected = FILLS[name](heap)
    path = column_of(tmp_path / "t.h5", type_id, memory[:2], fill=fill, chunk=2, rows=5)
    assert read_x(path) == [expected[0], None, None, None, None]


@pytest.mark.parametrize("name", ["int >i4", "float <f8", "space-padded", "text", "compound", "array", "opaque"])
def test_contiguous_rows_never_written_are_missing(tmp_path: Path, name: str) -> None:
    """Storage is allocated when first written, which never happened."""
    heap = Heap()
    type_id, memory, fill, _ = FILLS[name](heap)
    path = column_of(tmp_path / "t.h5", type_id, memory[:0], fill=fill, rows=3)
    assert read_x(path) == [None, None, None]


def test_rows_never_written_without_a_fill_value_are_zeros(tmp_path: Path) -> None:
    path = column_of(tmp_path / "t.h5", h5t.STD_I32BE, np.zeros(0, ">i4"), rows=3)
    assert read_x(path) == [0, 0, 0]
    path = column_of(tmp_path / "s.h5", text_type(None), np.zeros(0, "u8"), rows=2)
    assert read_x(path) == ["", ""]


@pytest.mark.parametrize("word", ["<f2", ">f4", "<f8"])
def test_a_nan_fill_value_marks_every_nan(tmp_path: Path, word: str) -> None:
    """C6: whatever the NaN's bits."""
    other = np.array([np.nan], dtype=word)
    whole = {2: "<u2", 4: ">u4", 8: "<u8"}[other.itemsize]
    other = (other.view(whole) | 1).astype(whole).view(word)
    values = np.concatenate([np.array([1.5, np.nan, np.inf, -np.nan], dtype=word), other]).astype(word)
    type_id = h5t.py_create(np.dtype(word))
    path = column_of(tmp_path / "t.h5", type_id, values, fill=np.array([np.nan], dtype=word))
    assert [None if v is None else float(v) for v in read_x(path)] == [1.5, None, np.inf, None, None]


def test_a_nan_is_a_value_beside_another_fill_value(tmp_path: Path) -> None:
    path = column_of(tmp_path / "t.h5", h5t.IEEE_F64LE, np.array([np.nan, -1.0, 2.0]), fill=np.array([-1.0]))
    first, *others = read_x(path)
    assert np.isnan(first) and others == [None, 2.0]


def test_a_zero_fill_value_marks_negative_zero(tmp_path: Path) -> None:
    """Numbers compare as numbers."""
    path = column_of(tmp_path / "t.h5", h5t.IEEE_F64LE, np.array([-0.0, 0.0, 2.0]), fill=np.array([0.0]))
    assert read_x(path) == [None, None, 2.0]


# --- the table group --------------------------------------------------------------------------------


def findings(table: Any) -> set[tuple[str, str, str]]:
    """What was noted: rule, severity and path."""
    return {(found.rule, found.severity, found.path) for found in table.problems}


CLASSES = {
    "fixed ascii": np.bytes_(b"COLUMN_TABLE"),
    "variable length": "COLUMN_TABLE",
    "longer": np.array(b"COLUMN_TABLE", dtype="S40"),
    "fixed utf-8": np.array(b"COLUMN_TABLE", dtype=h5py.string_dtype("utf-8", 12)),
    "variable ascii": np.array(b"COLUMN_TABLE", dtype=h5py.string_dtype("ascii")),
    "an array of one": np.array([b"COLUMN_TABLE"]),
}


@pytest.mark.parametrize("storage", CLASSES)
def test_a_table_is_known_by_the_text_of_its_class(tmp_path: Path, storage: str) -> None:
    """T1: however the text is stored."""
    path = plain_table(tmp_path / "t.h5", {"x": np.arange(3)}, CLASS=CLASSES[storage])
    with cn.open(path) as file:
        assert file.tables() == ["/t"]
        assert file["t"].to_arrow()["x"].to_pylist() == [0, 1, 2]


def test_a_space_padded_class_is_the_same_text(tmp_path: Path) -> None:
    """T1: padding is no part of a text."""
    path = plain_table(tmp_path / "t.h5", {"x": np.arange(3)}, CLASS=None)
    with h5py.File(path, "r+") as h5:
        type_id = text_type(16, h5t.STR_SPACEPAD, h5t.CSET_ASCII)
        attribute = h5py.h5a.create(h5["t"].id, b"CLASS", type_id, h5s.create(h5s.SCALAR))
        attribute.write(np.array(b"COLUMN_TABLE    "), mtype=type_id)
    with cn.open(path) as file:
        assert file.tables() == ["/t"]


@pytest.mark.parametrize("value", [np.bytes_(b"COLUMN_TABLES"), np.bytes_(b"TABLE"), 7, None, "column_table"], ids=str)
def test_other_classes_are_no_tables(tmp_path: Path, value: Any) -> None:
    path = plain_table(tmp_path / "t.h5", {"x": np.arange(3)}, CLASS=value)
    with cn.open(path) as file:
        assert file.tables() == []
        with pytest.raises(TableNotFound) as caught:
            file["t"]
    assert caught.value.name == "t"


@pytest.mark.parametrize(
    ("version", "noted"),
    [(np.bytes_(b"1.0"), False), ("1.7", False), (np.bytes_(b"1.10"), False), (None, True), ("one", True), (3, True)],
    ids=str,
)
def test_versions_that_are_read(tmp_path: Path, version: Any, noted: bool) -> None:
    """T2: a larger MINOR is read in silence, a version that is missing or no number is noted."""
    path = plain_table(tmp_path / "t.h5", {"x": np.arange(3)}, VERSION=version)
    with cn.open_table(path) as table:
        assert table["x"].to_numpy().tolist() == [0, 1, 2]
        assert findings(table) == ({("T2", "error", "/t")} if noted else set())


@pytest.mark.parametrize("version", ["2.0", "10.1", "2"])
def test_a_larger_major_version_is_refused(tmp_path: Path, version: str) -> None:
    """T2: the error names both versions."""
    path = plain_table(tmp_path / "t.h5", {"x": np.arange(3)}, VERSION=np.bytes_(version.encode()))
    with cn.open(path) as file:
        assert file.tables() == ["/t"]
        with pytest.raises(UnsupportedError) as caught:
            file["t"]
    assert (caught.value.found, caught.value.supported, caught.value.path) == (version, "1.0", "/t")


def test_a_table_with_nrows_is_one_of_the_later_revision(tmp_path: Path) -> None:
    """But for a user's own attribute of that name: references of April tell."""
    path = plain_table(tmp_path / "t.h5", {"x": np.arange(3)}, NROWS=np.uint64(2))
    with cn.open(path) as file:
        assert (file["t"].info.layout, file["t"]["x"].to_numpy().tolist()) == ("h5col", [0, 1])
    cn.write(tmp_path / "april.h5", {"x": [1, 2, 3], "c": ["a", "b", "a"]}, "t", labels=["c"])
    with cn.open(tmp_path / "april.h5", "r+") as file:
        file["t"].attrs["NROWS"] = 2
    with cn.open(tmp_path / "april.h5") as file:
        assert (file["t"].info.layout, file["t"].info.n_rows) == ("hep001", 3)


def test_an_index_name_that_does_not_resolve_is_noted(tmp_path: Path) -> None:
    """T5: an error of the file, not a crash."""
    path = plain_table(tmp_path / "t.h5", {"x": np.arange(3)}, _index=np.bytes_(b"nobody"))
    with cn.open_table(path) as table:
        assert findings(table) == {("T5", "error", "/t")}
        assert table.labels == [] and len(table.to_pandas()) == 3


@pytest.mark.parametrize(
    ("order", "columns", "noted"),
    [
        (["c", "a", "b"], ["c", "a", "b"], set()),
        (["b"], ["b", "a", "c"], {("T4", "error", "/t/a"), ("T4", "error", "/t/c")}),
        (["b", "ghost", "a", "c"], ["b", "a", "c"], {("T4", "error", "/t")}),
        (["b", "a", "c", "a"], ["b", "a", "c"], {("T4", "error", "/t")}),
    ],
    ids=["right", "incomplete", "unknown name", "twice"],
)
def test_column_order(tmp_path: Path, order: list[str], columns: list[str], noted: set[tuple[str, str, str]]) -> None:
    """T4: the order is kept as far as it goes; what is wrong with it is noted."""
    arrays = {name: np.arange(3) + ord(name) for name in "abc"}
    with cn.open_table(plain_table(tmp_path / "t.h5", arrays, order=order)) as table:
        assert table.columns == columns
        assert findings(table) == noted
        assert {n: v.tolist() for n, v in table.to_numpy().items()} == {n: v.tolist() for n, v in arrays.items()}


@pytest.mark.parametrize("value", [None, 7, np.arange(3)], ids=["absent", "a number", "numbers"])
def test_no_column_order_means_by_name(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as h5:
        group = start_table(h5, **{"column-order": value})
        for name in ("b", "a"):
            group[name] = np.arange(2)
    with cn.open_table(path) as table:
        assert table.columns == ["a", "b"]
        assert findings(table) == {("T4", "warning", "/t")}


def test_columns_of_unequal_length(tmp_path: Path) -> None:
    """C1: the table opens with the length most columns have; the odd one is an error when it is read."""
    arrays = {"a": np.arange(4), "b": np.arange(4.0), "odd": np.arange(7)}
    with cn.open_table(plain_table(tmp_path / "t.h5", arrays)) as table:
        assert len(table) == 4 and table.columns == ["a", "b", "odd"]
        assert findings(table) == {("C1", "error", "/t/odd")}
        assert table[["a", "b"]].to_arrow()["b"].to_pylist() == [0.0, 1.0, 2.0, 3.0]
        assert "odd" in repr(table)
        for read in (table["odd"].to_arrow, table.to_arrow, lambda: table["odd"][0]):
            with pytest.raises(FormatError) as caught:
                read()
            assert caught.value.column == "odd"


def test_foreign_objects_in_the_group_are_passed_over(tmp_path: Path) -> None:
    """T7, C1: a 2-D dataset, a scalar, an empty dataspace, a group, a datatype are no columns."""
    path = plain_table(tmp_path / "t.h5", {"x": np.arange(3)})
    with h5py.File(path, "r+") as h5:
        group = h5["t"]
        group["image"] = np.zeros((3, 4))
        group["scalar"] = 1.5
        group["nothing"] = h5py.Empty("f8")
        group.create_group("deeper")["y"] = np.arange(9)
        group["kind"] = np.dtype("i4")
    with cn.open_table(path) as table:
        assert table.columns == ["x"] and len(table) == 3
        expected = {("C1", "note", f"/t/{name}") for name in ("image", "scalar", "nothing")}
        assert findings(table) == expected
        with pytest.raises(ColumnNotFound) as caught:
            table["image"]
        assert caught.value.name == "image"


# --- links ------------------------------------------------------------------------------------------


def test_links_that_lead_nowhere_or_away_harm_nothing(tmp_path: Path) -> None:
    """T6: dangling soft links, external links (here to another table) and cycles, inside and beside a table."""
    plain_table(tmp_path / "other.h5", {"y": np.arange(5)})
    path = plain_table(tmp_path / "t.h5", {"x": np.arange(3)})
    with h5py.File(path, "r+") as h5:
        for group in (h5, h5["t"]):
            group["dangling"] = h5py.SoftLink("/no/such/thing")
            group["gone"] = h5py.ExternalLink("no-such-file.h5", "/t")
            group["away"] = h5py.ExternalLink("other.h5", "/t")
            group["alias"] = h5py.SoftLink("/t/x")
            group["loop"] = h5["/"]
        h5["again"] = h5["t"]
    with cn.open(path) as file:
        assert len(file.tables()) == 1 and file.tables()[0] in ("/t", "/again")
        table = file["t"]
        assert table.columns == ["x"] and table["x"].to_numpy().tolist() == [0, 1, 2]
        assert file["again"]["x"].to_numpy().tolist() == [0, 1, 2]
        assert file["loop/loop/t"]["x"].to_numpy().tolist() == [0, 1, 2]
        with pytest.raises(TableNotFound):
            file["dangling"]
        with pytest.raises(TableNotFound):
            file["gone"]


def test_tables_at_the_root_nested_and_inside_tables(tmp_path: Path) -> None:
    """T6: all are found, parents first, and each is its own."""
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as h5:
        for number, name in enumerate(["/", "deep/er/t", "deep/t", "deep/t/inner"]):
            start_table(h5, name, order=["x"])["x"] = np.arange(3) + number
    with cn.open(path) as file:
        assert file.tables() == ["/", "/deep/er/t", "/deep/t", "/deep/t/inner"]
        assert [file[name]["x"][0] for name in file.tables()] == [0, 1, 2, 3]


# --- categories and labels --------------------------------------------------------------------------


def categorical(
    path: Path,
    codes: np.ndarray[Any, Any],
    categories: Any,
    *,
    where: str = "t/x_categories",
    ordered: bool | None = False,
    fill: int | None = None,
    order: list[str] | None = None,
) -> Path:
    """A table of one categorical column x, by h5py."""
    with h5py.File(path, "w") as h5:
        group = start_table(h5, order=["x"] if order is None else order)
        column = group.create_dataset("x", data=codes, fillvalue=fill)
        held = h5.create_dataset(where, data=categories)
        held.attrs["encoding-type"] = np.array(b"categorical", dtype=h5py.string_dtype("utf-8", 11))
        if ordered is not None:
            held.attrs["ordered"] = np.bool_(ordered)
        column.attrs.create("_categories", held.ref, dtype=h5py.ref_dtype)
    return path


NAMES = np.array([b"low", b"mid", b"high"])


@pytest.mark.parametrize("word", ["i1", ">i2", "<i4", ">i8"])
def test_signed_codes(tmp_path: Path, word: str) -> None:
    """C8: -1 is missing, fill value or not."""
    path = categorical(tmp_path / "t.h5", np.array([2, -1, 0, 0, 1], dtype=word), NAMES)
    with cn.open_table(path) as table:
        assert table.columns == ["x"] and len(table) == 5
        found = table["x"].to_arrow()
        assert pa.types.is_dictionary(found.type) and not found.type.ordered
        assert found.to_pylist() == ["high", None, "low", "low", "mid"]
        assert table["x"].categories.to_pylist() == ["low", "mid", "high"]
        assert findings(table) == set()


@pytest.mark.parametrize("word", ["u1", ">u2", "<u4", ">u8"])
def test_unsigned_codes(tmp_path: Path, word: str) -> None:
    """C8: the fill value is missing, and only when the writer set one."""
    top = int(np.iinfo(word).max)
    codes = np.array([2, top, 0], dtype=word)
    assert read_x(categorical(tmp_path / "t.h5", codes, NAMES, fill=top)) == ["high", None, "low"]
    path = categorical(tmp_path / "u.h5", codes, NAMES)
    with pytest.raises(CorruptError) as caught:
        read_x(path)
    assert (caught.value.row, caught.value.found) == (1, top)


@pytest.mark.parametrize(
    ("word", "wild"), [("i1", 3), ("i1", -2), (">i4", 2**30), ("u2", 3), ("<i8", 2**40), ("u8", 2**63)]
)
def test_a_code_without_a_category_is_corrupt(tmp_path: Path, word: str, wild: int) -> None:
    """C8: row and code are named, wherever reading starts; rows before are read."""
    codes = np.array([0, 1, 2, 0, 1, 0], dtype=word)
    codes[4] = wild
    with cn.open_table(categorical(tmp_path / "t.h5", codes, NAMES)) as table:
        for query in (table, table[3:], table[::2], table.take([4])):
            with pytest.raises(CorruptError) as caught:
                query.to_arrow()
            assert (caught.value.row, caught.value.found, caught.value.column) == (4, wild, "x")
        assert table[:4].to_arrow()["x"].to_pylist() == ["low", "mid", "high", "low"]


@pytest.mark.parametrize("ordered", [True, False])
def test_ordered_categories_of_any_name(tmp_path: Path, ordered: bool) -> None:
    """C9: the reference is followed, never the name."""
    path = categorical(tmp_path / "t.h5", np.array([1, 0]), NAMES, where="t/zzz", ordered=ordered)
    with cn.open_table(path) as table:
        assert table.columns == ["x"]
        assert table["x"].ordered is ordered and table["x"].dtype.ordered is ordered
        assert table["x"].info.categories.name == "zzz"
        assert table.to_arrow()["x"].to_pylist() == ["mid", "low"]
        assert bool(table.to_pandas()["x"].cat.ordered) is ordered


def test_categories_as_long_as_the_table_are_no_column(tmp_path: Path) -> None:
    """C3: what some `_categories` refers to is no column, whatever its length."""
    path = categorical(tmp_path / "t.h5", np.array([1, 0, 2]), NAMES)
    with cn.open_table(path) as table:
        assert table.columns == ["x"] and len(table) == 3
        assert table.to_arrow()["x"].to_pylist() == ["mid", "low", "high"]


def test_categories_outside_the_group_are_followed_and_noted(tmp_path: Path) -> None:
    path = categorical(tmp_path / "t.h5", np.array([1, 0]), NAMES, where="elsewhere/names")
    with cn.open_table(path) as table:
        assert table.to_arrow()["x"].to_pylist() == ["mid", "low"]
        assert findings(table) == {("C9", "error", "/t/x")}


def test_categories_listed_in_column_order_are_accepted(tmp_path: Path) -> None:
    """T4: noted as a warning, and no column."""
    path = categorical(tmp_path / "t.h5", np.array([1, 0]), NAMES, order=["x", "x_categories"])
    with cn.open_table(path) as table:
        assert table.columns == ["x"]
        assert findings(table) == {("T4", "warning", "/t/x_categories")}


def test_categories_without_an_ordered_flag_are_unordered(tmp_path: Path) -> None:
    path = categorical(tmp_path / "t.h5", np.array([1, 0]), NAMES, ordered=None)
    with cn.open_table(path) as table:
        assert table["x"].ordered is False
        assert findings(table) == {("C9", "error", "/t/x")}


@pytest.mark.parametrize("target", ["nothing", "a group", "a 2-D dataset"])
def test_categories_that_are_none_are_an_error_of_that_column(tmp_path: Path, target: str) -> None:
    """C9: the reference leads to no categories; other columns are read."""
    path = categorical(tmp_path / "t.h5", np.array([1, 0]), NAMES, order=["x", "y"])
    with h5py.File(path, "r+") as h5:
        h5["t/y"] = np.arange(2)
        h5["image"] = np.zeros((3, 3))
        references = {"nothing": h5py.Reference(), "a group": h5["t"].ref, "a 2-D dataset": h5["image"].ref}
        h5["t/x"].attrs.create("_categories", references[target], dtype=h5py.ref_dtype)
    with cn.open_table(path) as table:
        assert table["y"].to_numpy().tolist() == [0, 1]
        assert ("C9", "error", "/t/x") in findings(table)
        with pytest.raises(FormatError) as caught:
            table["x"].to_arrow()
    assert caught.value.column == "x"


def test_categories_that_are_numbers_or_not_utf_8(tmp_path: Path) -> None:
    path = categorical(tmp_path / "t.h5", np.array([1, 0, 1]), np.array([10.5, 20.5], dtype=">f4"))
    assert read_x(path) == [20.5, 10.5, 20.5]
    path = categorical(tmp_path / "u.h5", np.array([1, 0, 1]), np.array([b"ok", b"\xff"]))
    with pytest.raises(CorruptError) as caught:
        read_x(path)
    assert caught.value.row == 1 and "x" in str(caught.value.column)


def labelled(path: Path, order: list[str]) -> Path:
    """A table of value and name; name labels value, by h5py."""
    with h5py.File(path, "w") as h5:
        group = start_table(h5, order=order, _index=np.bytes_(b"name"))
        value, name = group.create_dataset("value", data=np.arange(3)), group.create_dataset("name", data=NAMES)
        name.attrs.create("_columns_list", np.array([value.ref], dtype=h5py.ref_dtype), dtype=h5py.ref_dtype)
        value.attrs.create("_indexes", np.array([name.ref], dtype=h5py.ref_dtype), dtype=h5py.ref_dtype)
    return path


def test_a_pure_label_is_no_column(tmp_path: Path) -> None:
    """C3, I1: it stands behind the columns in Arrow and is the index in pandas."""
    with cn.open_table(labelled(tmp_path / "t.h5", ["value"])) as table:
        assert (table.columns, table.labels) == (["value"], ["name"])
        assert table["value"].labels == ("name",)
        assert table.to_arrow().column_names == ["value", "name"]
        assert table.to_pandas().index.tolist() == ["low", "mid", "high"]
        assert findings(table) == set()


def test_a_dataset_may_be_column_and_label_at_once(tmp_path: Path) -> None:
    """I3: it is listed in column-order and has `_columns_list`; it is read once."""
    with cn.open_table(labelled(tmp_path / "t.h5", ["name", "value"])) as table:
        assert (table.columns, table.labels) == (["name", "value"], ["name"])
        found = table.to_arrow()
        assert found.column_names == ["name", "value"]
        assert found["name"].to_pylist() == ["low", "mid", "high"]
        assert findings(table) == set()


# --- billions of rows -------------------------------------------------------------------------------

BILLIONS = 3_000_000_000


@pytest.fixture(scope="module")
def billions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three billion rows of int8 that take no space: contiguous, allocated late, never written."""
    path: Path = tmp_path_factory.mktemp("large") / "t.h5"
    with h5py.File(path, "w") as h5:
        group = start_table(h5, order=["x", "y"])
        group.create_dataset("x", shape=(BILLIONS,), dtype="i1", fillvalue=7)
        group.create_dataset("y", shape=(BILLIONS,), dtype=">i4")
    assert path.stat().st_size < 1_000_000
    return path


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2**33 virtual rows; values stand from row 2**31 on (ten) and in the last ten."""
    folder = tmp_path_factory.mktemp("virtual")
    with h5py.File(folder / "source.h5", "w") as h5:
        h5["data"] = np.arange(1, 21, dtype="<i2")
    layout = h5py.VirtualLayout(shape=(2**33,), dtype="<i2")
    source = h5py.VirtualSource("source.h5", "data", shape=(20,))
    layout[2**31 : 2**31 + 10] = source[:10]
    layout[2**33 - 10 :] = source[10:]
    with h5py.File(folder / "t.h5", "w") as h5:
        start_table(h5, order=["x"]).create_virtual_dataset("x", layout, fillvalue=-1)
    return folder / "t.h5"


@pytest.fixture
def little_memory() -> Any:
    """Fails the test when it took more than 20 MB."""
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    yield None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000
    assert pa.total_allocated_bytes() - before < 20_000_000


@pytest.mark.usefixtures("little_memory")
def test_three_billion_rows_by_arithmetic(billions: Path) -> None:
    """Rows are numbers beyond 32 bits; nothing is read but what is asked for."""
    with cn.open_table(billions) as table:
        assert len(table) == BILLIONS and table["y"].n_rows == BILLIONS
        assert table.schema.names == ["x", "y"]
        assert table["y"][BILLIONS - 3 :].tolist() == [0, 0, 0]
        assert table["y"][-1] == 0 and table["x"][2**31 + 5] is None
        assert table[-3:].to_arrow()["x"].to_pylist() == [None, None, None]
        assert table[BILLIONS - 1 :].row_numbers().tolist() == [BILLIONS - 1]
        assert table.take([2**31 + 5, -1, 0]).row_numbers().tolist() == [2**31 + 5, BILLIONS - 1, 0]
        assert table.take([2**31 + 5, -1, 0]).to_arrow()["y"].to_pylist() == [0, 0, 0]
        steps = table[:: 10**9]
        assert steps.row_numbers().tolist() == [0, 10**9, 2 * 10**9]
        assert steps.to_arrow()["y"].to_pylist() == [0, 0, 0]
        assert table[BILLIONS + 5 :].count() == 0 and table[: 2**40].count() == BILLIONS
        assert next(table.batches(10)).num_rows == 10
        assert "3,000,000,000 rows" in repr(table)
        with pytest.raises(cn.errors.UsageError):
            table.take([BILLIONS])


@pytest.mark.usefixtures("little_memory")
def test_two_to_the_33_virtual_rows(virtual: Path) -> None:
    """The values are where they belong, the rows between are missing."""
    last = list(range(11, 21))
    with cn.open_table(virtual) as table:
        column = table["x"]
        assert len(table) == 2**33 and column.info.storage == "virtual"
        assert table[-10:].to_arrow()["x"].to_pylist() == last
        assert table[2**33 - 12 :].to_arrow()["x"].to_pylist() == [None, None, *last]
        assert table[-1:-11:-1].to_arrow()["x"].to_pylist() == last[::-1]
        assert column[2**31 + 5] == 6 and column[-1] == 20 and column[2**32] is None
        assert table.take([2**31 + 5]).to_arrow()["x"].to_pylist() == [6]
        assert table.take([-1, 2**31, 5, -1, 2**31 - 1]).to_arrow()["x"].to_pylist() == [20, 1, None, 20, None]
        assert table[2**31 :: 2**31].to_arrow()["x"].to_pylist() == [1, None, None]
        assert table[2**31 - 2 : 2**31 + 12 : 3].to_arrow()["x"].to_pylist() == [None, 2, 5, 8, None]
        assert table[-1 :: -(2**31)].to_arrow()["x"].to_pylist() == [20, None, None, None]
        assert table[2**31 :][3:6].row_numbers().tolist() == [2**31 + 3, 2**31 + 4, 2**31 + 5]
        assert table.schema.field("x").type == pa.int16()
