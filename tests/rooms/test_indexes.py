"""Search indexes hold what the rules say, seen by a second reader; after every change as well.

`index_reader` is that reader: it shares no code with colonnade.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from h5py import h5a, h5d, h5p, h5s, h5t
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade import kernels
from colonnade.columns.keys import Keys, keys_of
from colonnade.columns.read import ColumnReader
from colonnade.filters.undo import Pipeline
from colonnade.indexes.base import Options, _Digest
from colonnade.indexes.order import sorter
from colonnade.indexes.sorted_rows import SortedRowsIndex
from tests.rooms import index_reader
from tests.rooms.index_reader import bloom_bits, check, found_indexes, murmur3

KINDS = ("chunk_minmax", "sorted_rows", "bitmap", "chunk_bloom")
N_ROWS = 103
CHUNK = 16
LENGTHS = (0, 1, CHUNK, N_ROWS)
Form = tuple[pa.Array, dict[str, Any]]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receipts of the tests stay in the tests."""
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.h5"


# -- columns that colonnade writes --


def pick(values: list[Any], seed: int = 0) -> list[Any]:
    """N_ROWS of these values, in no order, many of them again and again."""
    places = np.random.default_rng(seed).integers(0, len(values), N_ROWS)
    return [values[place] for place in places]


def holes(values: list[Any]) -> list[Any]:
    """The same with missing rows here and there, and the whole second chunk missing."""
    return [None if row % 7 == 3 or CHUNK <= row < 2 * CHUNK else value for row, value in enumerate(values)]


def integers(kind: pa.DataType) -> list[Any]:
    dtype = np.dtype(kind.to_pandas_dtype())
    bounds = np.iinfo(dtype)
    return pick([int(bounds.min), int(bounds.max), 0, 1, 5, 77, int(bounds.max) // 2, int(bounds.min) // 2])


def floats(kind: pa.DataType) -> list[Any]:
    least = float(np.finfo(kind.to_pandas_dtype()).smallest_subnormal)
    found = pick([0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"), least, 1000.0])
    found[2 * CHUNK : 3 * CHUNK] = [float("nan")] * CHUNK
    return found


TEXTS = ["", "a", "b", "ab", "Zürich", "日本語", "zz", "a longer text of the kind that is met", "\x7f", "\x01"]
BYTES = [b"abcde", b"\0\0\0\0\0", b"\xff\xff\xff\xff\xff", b"a\0\0\0b", b"zzzzz"]
ANY_BYTES = [b"a", b"", b"\0", b"\0\0", b"a\0b", b"\xff", b"longer than the others"]
DAY = datetime.date(2026, 2, 3)


def make_integers() -> dict[str, Form]:
    kinds = [getattr(pa, f"{word}{bits}")() for word in ("int", "uint") for bits in (8, 16, 32, 64)]
    forms: dict[str, Form] = {str(kind): (pa.array(integers(kind), kind), {}) for kind in kinds}
    forms["missing"] = pa.array(holes(integers(pa.int16())), pa.int16()), {}
    forms["missing bytes"] = pa.array(holes(pick(list(range(7)))), pa.uint8()), {"fill": 200}
    forms["only missing"] = pa.array([None] * N_ROWS, pa.int32()), {}
    forms["constant"] = pa.array([7] * N_ROWS), {}
    forms["increasing"] = pa.array(range(N_ROWS)), {}
    return forms


def make_floats() -> dict[str, Form]:
    forms: dict[str, Form] = {}
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        values = np.array(floats(kind), dtype=kind.to_pandas_dtype())
        forms[str(kind)] = pa.array(values, kind), {}
    forms["missing"] = pa.array(holes(floats(pa.float32())), pa.float32()), {}
    forms["NaN fill"] = pa.array(holes(floats(pa.float64())), pa.float64()), {"fill": float("nan")}
    forms["zero fill"] = pa.array(holes(pick([1.5, 2.5, -1.0])), pa.float64()), {"fill": 0.0}
    forms["only NaN"] = pa.array([float("nan")] * N_ROWS), {}
    return forms


def make_texts(strings: str) -> dict[str, Form]:
    return {
        "text": (pa.array(pick(TEXTS)), {"strings": strings}),
        "missing": (pa.array(holes(pick(TEXTS))), {"strings": strings}),
        "fill": (pa.array(holes(pick(TEXTS))), {"strings": strings, "fill": "NA"}),
    }


def make_coded() -> dict[str, Form]:
    members = ["red", "green", "blue"]
    return {
        "boolean": (pa.array(pick([True, False])), {}),
        "missing booleans": (pa.array(holes(pick([True, False]))), {}),
        "categories": (pa.array(pick(TEXTS)).dictionary_encode(), {}),
        "missing categories": (pa.array(holes(pick(TEXTS))).dictionary_encode(), {}),
        "number categories": (pa.array(pick([30, 10, 20])), {"categories": True}),
        "enum": (pa.array(pick(members)), {"enum": True, "categories": members}),
        "missing enum": (pa.array(holes(pick(members))), {"enum": True, "categories": members}),
    }


def make_bytes() -> dict[str, Form]:
    return {
        "opaque": (pa.array(pick(BYTES), pa.binary(5)), {}),
        "missing opaque": (pa.array(holes(pick(BYTES)), pa.binary(5)), {}),
        "binary": (pa.array(pick(ANY_BYTES), pa.binary()), {}),
        "missing binary": (pa.array(holes(pick(ANY_BYTES)), pa.binary()), {}),
        "text with NUL": (pa.array(pick(["a\0b", "a", "", "\0"])), {}),
    }


def make_times() -> dict[str, Form]:
    forms: dict[str, Form] = {}
    for unit in ("s", "ms", "us", "ns"):
        forms[f"timestamp {unit}"] = pa.array(holes(pick([0, -5, 10**9, 3]))).cast(pa.timestamp(unit)), {}
    forms["zoned"] = pa.array(pick([0, -5, 10**9, 3])).cast(pa.timestamp("us", "UTC")), {}
    forms["date"] = pa.array(pick([DAY, DAY.replace(year=1969), DAY.replace(day=1)])), {}
    forms["time"] = pa.array(pick([0, 10**9, 5]), pa.int64()).cast(pa.time64("us")), {}
    forms["duration"] = pa.array(holes(pick([0, -5, 10**9]))).cast(pa.duration("ns")), {}
    forms["decimal"] = pa.array(pick([Decimal("1.25"), Decimal("-0.50"), Decimal("9.99")]), pa.decimal128(9, 2)), {}
    return forms


WRITTEN: dict[str, dict[str, Form]] = {
    "integers": make_integers(),
    "floats": make_floats(),
    "fixed texts": make_texts("fixed"),
    "variable texts": make_texts("variable"),
    "coded": make_coded(),
    "bytes": make_bytes(),
    "times": make_times(),
}


def write(path: Path, family: str, n_rows: int, **options: Any) -> None:
    """One table of all columns of a family, so many rows of it."""
    forms = WRITTEN[family]
    columns = {name: cn.column(chunk_rows=CHUNK, **extra) for name, (_, extra) in forms.items()}
    data = pa.table({name: array.slice(0, n_rows) for name, (array, _) in forms.items()})
    cn.write(path, data, "t", columns=columns, **options)


# -- columns that others write --


def string_type(size: int, padding: int, charset: int = h5t.CSET_ASCII) -> Any:
    made = h5t.C_S1.copy()
    made.set_size(size)
    made.set_strpad(padding)
    made.set_cset(charset)
    return made


def enum_type(base: Any, **members: int) -> Any:
    made = h5t.enum_create(base)
    for name, value in members.items():
        made.enum_insert(name.encode(), value)
    return made


def opaque_type(size: int, tag: bytes) -> Any:
    made = h5t.create(h5t.OPAQUE, size)
    made.set_tag(tag)
    return made


def numbers(dtype: str) -> np.ndarray[Any, Any]:
    """Numbers of a datatype, zero the most frequent one."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return np.array(pick([0.0, -0.0, 1.5, -2.25, np.inf, np.nan, 0.0]), dtype=kind)
    bounds = np.iinfo(kind)
    return np.array(pick([0, 0, 1, 7, int(bounds.min), int(bounds.max)]), dtype=kind)


Foreign = tuple[Any, np.ndarray[Any, Any], dict[str, Any]]


def make_foreign_numbers() -> dict[str, Foreign]:
    """Byte orders and widths that colonnade itself would not choose."""
    orders = [">i2", ">i4", ">i8", ">u2", ">u4", ">u8", ">f2", ">f4", ">f8", "<i1", "<u1"]
    made: dict[str, Foreign] = {
        kind: (h5t.py_create(np.dtype(kind)), numbers(kind), {"chunk": CHUNK}) for kind in orders
    }
    made["bits"] = h5t.STD_B16BE, numbers("<u2"), {"memory": h5t.STD_B16LE, "chunk": CHUNK}
    return made


def make_foreign_storage() -> dict[str, Foreign]:
    """Storage without chunks, and fill values."""
    values = numbers(">i4")
    return {
        "contiguous": (h5t.STD_I32BE, values, {}),
        "compact": (h5t.STD_I32BE, values, {"compact": True}),
        "contiguous, fill": (h5t.STD_I32BE, values, {"fill": np.array(7, ">i4")}),
        "big-endian, fill": (h5t.STD_I32BE, values, {"fill": np.array(7, ">i4"), "chunk": CHUNK}),
        "float, fill": (h5t.IEEE_F32BE, numbers(">f4"), {"fill": np.array(1.5, ">f4"), "chunk": CHUNK}),
        "NaN fill": (h5t.IEEE_F64BE, numbers(">f8"), {"fill": np.array(np.nan, ">f8"), "chunk": CHUNK}),
        "minus zero fill": (h5t.IEEE_F64LE, numbers("<f8"), {"fill": np.array(-0.0), "chunk": CHUNK}),
    }


def make_foreign_texts() -> dict[str, Foreign]:
    """Fixed-length strings with every padding, and opaque bytes with a tag."""
    made: dict[str, Foreign] = {}
    for word, padding in (("null", h5t.STR_NULLPAD), ("space", h5t.STR_SPACEPAD), ("terminated", h5t.STR_NULLTERM)):
        pad = b" " if word == "space" else b"\0"
        texts = np.array([text.ljust(6, pad) for text in pick([b"", b"a", b"abc", b"abcde", b"b c"])], dtype="S6")
        made[word] = string_type(6, padding), texts, {"chunk": CHUNK}
        made[f"{word}, fill"] = string_type(6, padding), texts, {"chunk": CHUNK, "fill": texts[0]}
    tagged = np.array(pick([b"abc", b"\0\0\1", b"z\0\0"]), "V3")
    made["tagged"] = opaque_type(3, b"three bytes"), tagged, {"chunk": CHUNK}
    return made


def make_foreign_enums() -> dict[str, Foreign]:
    """Enums with numbers of their own, to which no rows can be added yet."""
    colours = enum_type(h5t.STD_I16BE, red=7, green=-3, blue=300)
    return {
        "enum": (colours, np.array(pick([7, -3, 300]), ">i2"), {"chunk": 9}),
        "boolean": (enum_type(h5t.STD_I8LE, FALSE=0, TRUE=1), np.array(pick([0, 1]), "i1"), {"chunk": CHUNK}),
    }


FOREIGN: dict[str, dict[str, Foreign]] = {
    "foreign numbers": make_foreign_numbers(),
    "foreign storage": make_foreign_storage(),
    "foreign fixed texts": make_foreign_texts(),
    "foreign enums": make_foreign_enums(),
}


def make_column(group: h5py.Group, name: str, form: Foreign, n_rows: int) -> h5py.Dataset:
    """A dataset of an exact datatype and storage."""
    kind, values, how = form
    creation = h5p.create(h5p.DATASET_CREATE)
    if "chunk" in how:
        creation.set_chunk((how["chunk"],))
    if "compact" in how:
        creation.set_layout(h5d.COMPACT)
    if "fill" in how:
        creation.set_fill_value(np.asarray(how["fill"]))
    space = h5s.create_simple((n_rows,), (h5s.UNLIMITED if "chunk" in how else n_rows,))
    made = h5d.create(group.id, name.encode(), kind, space, creation)
    if n_rows:
        made.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values[:n_rows]), mtype=how.get("memory", kind))
    return h5py.Dataset(made)


def make_table(h5: h5py.File, name: str) -> h5py.Group:
    """A group that says it is a table."""
    group = h5.create_group(name)
    group.attrs["CLASS"] = np.bytes_(b"COLUMN_TABLE")
    group.attrs["VERSION"] = np.bytes_(b"1.0")
    return group


def write_family(family: str, path: Path, n_rows: int) -> None:
    """A family of columns, made by colonnade or by h5py alone."""
    if family in WRITTEN:
        write(path, family, n_rows)
        return
    with h5py.File(path, "w") as h5:
        group = make_table(h5, "t")
        for name, form in FOREIGN[family].items():
            make_column(group, name, form, n_rows)
        group.attrs["column-order"] = np.array([name.encode() for name in FOREIGN[family]])


def write_foreign_codes(path: Path, n_rows: int) -> None:
    """Unsigned codes, whose fill marks the missing ones."""
    with h5py.File(path, "w") as h5:
        group = make_table(h5, "t")
        codes = np.array([200 if row % 5 == 0 else row % 3 for row in range(n_rows)], "u1")
        kind = h5t.STD_U8LE, codes, {"fill": np.array(200, "u1"), "chunk": CHUNK}
        coded = make_column(group, "unsigned codes", kind, n_rows)
        names = group.create_dataset("names", data=[b"x", b"y", b"z"], dtype=h5py.string_dtype())
        names.attrs["encoding-type"], names.attrs["ordered"] = "categorical", False
        coded.attrs["_categories"] = names.ref


def write_foreign_text(path: Path, n_rows: int) -> None:
    """Variable-length ASCII, with and without chunks."""
    with h5py.File(path, "w") as h5:
        group, kind = make_table(h5, "t"), h5py.string_dtype("ascii")
        group.create_dataset("chunked", (n_rows,), kind, chunks=(CHUNK,), maxshape=(None,))
        group.create_dataset("contiguous", (n_rows,), kind)
        for name in ("chunked", "contiguous"):
            group[name][:] = np.array(pick(["", "a", "abc"])[:n_rows], dtype=object)
        group.attrs["column-order"] = np.array([b"chunked", b"contiguous"])


# -- looking --


def problems(path: Path, table: str = "t") -> list[str]:
    """What the second reader finds wrong."""
    with h5py.File(path) as h5:
        return check(h5[table])


def indexed(path: Path, table: str = "t") -> set[tuple[str, str]]:
    with h5py.File(path) as h5:
        return found_indexes(h5[table])


def all_of(names: Any, kinds: Any = KINDS) -> set[tuple[str, str]]:
    return {(name, kind) for name in names for kind in kinds}


def build_all(path: Path, kinds: Any = KINDS) -> set[tuple[str, str]]:
    """Every kind of index on every column."""
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.build_index({name: list(kinds) for name in table.columns})
        return all_of(table.columns, kinds)


def assert_right(path: Path, expected: set[tuple[str, str]]) -> None:
    """The indexes are there, right by the second reader and by the first, and trusted."""
    assert problems(path) == []
    assert indexed(path) == expected
    with cn.open(path) as file:
        table = file["t"]
        assert {(one.column, one.kind) for one in table.indexes} == expected
        assert [one for one in table.indexes if not one.trusted or one.problem] == []
        assert table.verify_indexes() == []


Maker = Callable[[Path, int], None]
MAKERS: dict[str, Maker] = {
    **{family: partial(write_family, family) for family in (*WRITTEN, *FOREIGN)},
    "foreign codes": write_foreign_codes,
    "foreign texts": write_foreign_text,
}


def marked(*marks: Any, without: tuple[str, ...] = ()) -> list[Any]:
    """Every family of columns, with these marks."""
    return [pytest.param(make, id=name, marks=marks) for name, make in MAKERS.items() if name not in without]


@pytest.mark.parametrize("n_rows", LENGTHS)
@pytest.mark.parametrize("maker", marked())
def test_every_kind_on_every_column(path: Path, maker: Maker, n_rows: int) -> None:
    """Built behind the rows: datatypes, attributes, names, references and contents."""
    maker(path, n_rows)
    assert_right(path, build_all(path))


@pytest.mark.parametrize("n_rows", LENGTHS)
@pytest.mark.parametrize("family", WRITTEN)
def test_indexes_at_creation(path: Path, family: str, n_rows: int) -> None:
    """`index=` gives the same as building later."""
    write(path, family, n_rows, index=dict.fromkeys(WRITTEN[family], KINDS))
    assert_right(path, all_of(WRITTEN[family]))


def test_an_index_of_a_label(path: Path) -> None:
    """Row labels are found by value as columns are."""
    data = pa.table({"x": range(40), "id": [f"row {row}" for row in range(40)]})
    cn.write(path, data, "t", labels=["id"], index={"id": KINDS, "x": "bitmap"})
    assert_right(path, {*all_of(["id"]), ("x", "bitmap")})


@pytest.mark.parametrize("name", ["Größe ✓", "a__bitmap", "a b", "KIND", "values__", "`"])
def test_names_of_columns_lead_the_names_of_indexes(path: Path, name: str) -> None:
    """Whatever the column is called; also beside a column whose indexes are named alike."""
    cn.write(path, {name: [3, 1, 2], "a": [1, 2, 3]}, "t", index={name: KINDS, "a": KINDS})
    assert_right(path, all_of([name, "a"]))
    with cn.open(path, "r+") as file:
        file["t"].drop_column("a")
    assert_right(path, all_of([name]))


def test_the_root_can_be_the_table(path: Path) -> None:
    """A table without a group of its own."""
    cn.write(path, {"x": range(30)}, "/", index={"x": KINDS})
    assert problems(path, "/") == []
    assert indexed(path, "/") == all_of(["x"])


# -- changes --


def some_rows(table: Any) -> pa.Table:
    """Rows of the table itself, to be put into it once more."""
    return table[5:45].to_arrow()


def change_append(table: Any) -> None:
    table.append(some_rows(table))


def change_append_twice(table: Any) -> None:
    table.append(some_rows(table).slice(0, 3))
    table.append(some_rows(table))


def change_update(table: Any) -> None:
    """Values from elsewhere in the table, in several chunks and the last one."""
    for name in table.columns:
        values = table.take([60, 2, 33, 18, 1]).to_arrow()[name]
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        table.update(name, [0, 17, 47, 100, 102], values)


def change_truncate(table: Any) -> None:
    table.truncate(2 * CHUNK)


def change_truncate_to_nothing(table: Any) -> None:
    table.truncate(0)


def change_delete(table: Any) -> None:
    """Rows of several chunks, the last among them."""
    assert table.delete([17, 18, 47, 50, 51, 52, 102]) == 7


def change_delete_first_and_all(table: Any) -> None:
    table.delete([0])
    table.delete(slice(None))


def change_grow_again(table: Any) -> None:
    rows = some_rows(table)
    table.truncate(0)
    table.append(rows)


def change_texts(table: Any) -> None:
    """What does not touch a row leaves the indexes as they are."""
    table.title = "another title"
    table[table.columns[0]].description = "something"


CHANGES = {name.removeprefix("change_"): value for name, value in globals().items() if name.startswith("change_")}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("maker", marked(without=("foreign enums",)))
def test_indexes_follow_a_change(path: Path, maker: Maker, change: Callable[[Any], None]) -> None:
    """After a change of rows, every index of every column still is right and trusted."""
    maker(path, N_ROWS)
    expected = build_all(path)
    with cn.open(path, "r+") as file:
        change(file["t"])
    assert_right(path, expected)


@pytest.mark.parametrize("maker", marked(without=("foreign enums", "foreign codes")))
def test_indexes_follow_a_cut_inside_a_chunk(path: Path, maker: Maker) -> None:
    """The last chunk that is left is shorter than it was: its entries are those of the rows that stay."""
    maker(path, N_ROWS)
    expected = build_all(path)
    with cn.open(path, "r+") as file:
        file["t"].truncate(2 * CHUNK + 5)
    assert_right(path, expected)


def test_indexes_follow_a_transaction(path: Path) -> None:
    """Several changes in one commit."""
    write(path, "floats", N_ROWS)
    expected = build_all(path)
    with cn.open(path, "r+") as file, file.transaction():
        change_append(file["t"])
        change_update(file["t"])
        file["t"].truncate(7 * CHUNK)
        change_append(file["t"])
    assert_right(path, expected)


def test_a_change_taken_back_takes_the_indexes_back(path: Path) -> None:
    """An error inside a transaction leaves file, indexes and trust as they were."""
    write(path, "coded", N_ROWS)
    expected = build_all(path)
    with cn.open(path, "r+") as file:
        with pytest.raises(ZeroDivisionError), file.transaction():
            change_append(file["t"])
            raise ZeroDivisionError
        assert all(one.trusted for one in file["t"].indexes)
    assert_right(path, expected)


@pytest.mark.parametrize("maker", marked())
def test_a_renamed_column_takes_its_indexes_along(path: Path, maker: Maker) -> None:
    """Names follow, references stay, the others are left alone."""
    maker(path, 50)
    expected = build_all(path)
    with cn.open(path, "r+") as file:
        table = file["t"]
        names = table.columns
        for name in names[::2]:
            table.rename_column(name, f"new {name}")
    renamed = {f"new {name}" if name in names[::2] else name for name in names}
    assert_right(path, all_of(renamed) if expected else set())


def test_a_rename_to_a_name_that_an_index_has(path: Path) -> None:
    """Names of indexes that would meet another's are told apart, and both stay right."""
    cn.write(path, {"a": [1, 2, 3], "b": [3, 2, 1]}, "t", index={"a": KINDS, "b": KINDS})
    with cn.open(path, "r+") as file:
        file["t"].drop_column("b")
        file["t"].rename_column("a", "b")
        file["t"].add_column("a", [7, 8, 9])
        file["t"].build_index("a", list(KINDS))
    assert_right(path, all_of(["a", "b"]))


def test_a_dropped_column_takes_its_indexes_along(path: Path) -> None:
    """Nothing of them is left, and with the last one the group goes."""
    write(path, "coded", 50)
    build_all(path)
    *names, last = WRITTEN["coded"]
    with cn.open(path, "r+") as file:
        for name in names:
            file["t"].drop_column(name)
    assert_right(path, all_of([last]))
    with cn.open(path, "r+") as file:
        file["t"].drop_index(last)
    with h5py.File(path) as h5:
        assert list(h5["t"]) == [last]
        assert "_search_indexes" not in h5["t"][last].attrs


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_is_dropped_alone(path: Path, kind: str) -> None:
    """drop_index by kind; with a bitmap its values go."""
    cn.write(path, {"x": range(20)}, "t", index={"x": KINDS})
    with cn.open(path, "r+") as file:
        file["t"].drop_index("x", kind)
    assert_right(path, all_of(["x"], set(KINDS) - {kind}))


def test_a_replaced_column_loses_its_indexes(path: Path) -> None:
    """Other values of another type: an index of the old ones means nothing."""
    cn.write(path, {"x": range(20), "y": range(20)}, "t", index={"x": KINDS, "y": KINDS})
    with cn.open(path, "r+") as file:
        file["t"].replace_column("x", [f"{row}" for row in range(20)])
    assert_right(path, all_of(["y"]))


def test_an_index_is_built_anew_in_its_place(path: Path) -> None:
    """Building a kind that is there replaces it."""
    cn.write(path, {"x": range(50)}, "t", columns={"x": cn.column(chunk_rows=8)}, index={"x": KINDS})
    with cn.open(path, "r+") as file:
        file["t"].build_index("x", list(KINDS), error_rate=0.3)
    assert_right(path, all_of(["x"]))


@pytest.mark.parametrize("chunk_rows", [3, 40])
@pytest.mark.parametrize("maker", marked())
def test_repack_into_other_chunks(path: Path, maker: Maker, chunk_rows: int) -> None:
    """Indexes of chunks are built for the new ones; all stay right and trusted."""
    maker(path, N_ROWS)
    expected = build_all(path)
    with cn.open(path, "r+") as file:
        file.repack(chunk_rows=chunk_rows)
    assert_right(path, expected)


@pytest.mark.parametrize("how", [{}, {"filters": "shuffle+deflate:1"}, {"chunk_rows": "auto"}], ids=str)
def test_repack(path: Path, how: dict[str, Any]) -> None:
    """Rewriting a file keeps its indexes."""
    write(path, "times", N_ROWS)
    expected = build_all(path)
    with cn.open(path, "r+") as file:
        file.repack(**how)
        change_append(file["t"])
    assert_right(path, expected)


# -- a later row that does not fit the form of its column --

MISFITS: dict[str, tuple[list[Any], list[Any], dict[str, Any]]] = {
    "longer text": (["a", "b", "c"], ["a text that is a great deal longer"], {"strings": "fixed"}),
    "the first missing number": ([1, 2, 3], [None], {"fill": None}),
    "the first missing boolean": ([True, False, True], [None], {}),
    "a value that equals the fill": ([1, None, 3], [-(2**63) + 1], {}),
    "a new category": (["a", "b", "a"], ["c", "a", None], {"categories": True}),
    "more categories than the codes hold": (["a", "b"], [f"c{i}" for i in range(200)], {"categories": True}),
    "a new member of an enum": (["a", "b"], ["c"], {"categories": True, "enum": True}),
    "text with NUL": (["a", "b"], ["a\0b"], {}),
    "the first NaN": ([1.0, 2.0], [float("nan"), None], {}),
}


def as_column(values: list[Any]) -> pa.Array:
    return pa.array(values)


@pytest.mark.parametrize("before, added, options", MISFITS.values(), ids=MISFITS)
def test_indexes_follow_a_column_that_changes_its_form(
    path: Path, before: list[Any], added: list[Any], options: dict[str, Any]
) -> None:
    """The column is copied into another form; its indexes are those of the new one."""
    columns = {"x": cn.column(chunk_rows=2, **options)}
    cn.write(
        path, {"x": as_column(before), "y": range(len(before))}, "t", columns=columns, index={"x": KINDS, "y": KINDS}
    )
    try:
        with cn.open(path, "r+") as file:
            file["t"].append({"x": pa.array(added, as_column(before).type), "y": range(len(added))})
    except cn.errors.DataError:  # refused: then all is as it was
        assert_right(path, all_of(["x", "y"]))
        return
    assert_right(path, all_of(["x", "y"]))


@pytest.mark.parametrize("before, added, options", MISFITS.values(), ids=MISFITS)
def test_indexes_follow_an_update_that_changes_the_form(
    path: Path, before: list[Any], added: list[Any], options: dict[str, Any]
) -> None:
    """The same for cells that are put into the table."""
    columns = {"x": cn.column(chunk_rows=2, **options)}
    data = {"x": as_column(before * 3), "y": range(3 * len(before))}
    cn.write(path, data, "t", columns=columns, index={"x": KINDS, "y": KINDS})
    with cn.open(path, "r+") as file, suppress(cn.errors.DataError):
        file["t"].update("x", [4], pa.array(added[:1], as_column(before).type))
    assert_right(path, all_of(["x", "y"]))


# -- what an index needs, and what is refused --


def test_columns_without_an_order_are_refused(path: Path) -> None:
    """Compounds, lists and complex numbers: a clear error, nothing written."""
    data = pa.table({
        "list": pa.array([[1], [2, 3]]), "pair": pa.array([{"a": 1}, {"a": 2}]), "ok": pa.array([1, 2]),
        "exact": pa.array([Decimal("1.5"), None], pa.decimal128(38, 2)),
    })  # fmt: skip
    cn.write(path, data, "t")
    cn.write(path, {"z": np.array([1j, 2])}, "complex")
    with cn.open(path, "r+") as file:
        for kind in KINDS:
            for table, name in (("t", "list"), ("t", "pair"), ("t", "exact"), ("complex", "z")):
                with pytest.raises(cn.errors.UsageError, match=name):
                    file[table].build_index({name: [kind]} if name == "z" else {"ok": [kind], name: [kind]})
    with h5py.File(path) as h5:
        assert "_search_indexes" not in h5["t"] and "_search_indexes" not in h5["complex"]


def test_unknown_kinds_are_refused(path: Path) -> None:
    """A kind that is not there, and none at all."""
    cn.write(path, {"x": [1]}, "t")
    with cn.open(path, "r+") as file:
        for asked in ("btree", "CHUNK_MINMAX", []):  # type: ignore[var-annotated]
            with pytest.raises(cn.errors.UsageError):
                file["t"].build_index("x", asked)
    with pytest.raises(cn.errors.UsageError):
        cn.write(path.with_name("other.h5"), {"x": [1]}, index={"x": "btree"})


def test_a_bitmap_of_too_many_values_is_refused(path: Path) -> None:
    """By name, and with what to do; nothing is left behind."""
    cn.write(path, {"x": range(200)}, "t")
    with cn.open(path, "r+") as file:
        with pytest.raises(cn.errors.UsageError, match="max_values"):
            file["t"].build_index("x", "bitmap", max_values=100)
        file["t"].build_index("x", "bitmap", max_values=200)
    assert_right(path, {("x", "bitmap")})


def test_a_bitmap_that_outgrows_its_values_goes_without_a_trace(path: Path) -> None:
    """It is removed in the same commit, with its values and the references."""
    cn.write(
        path, {"x": range(4000), "y": range(4000)}, "t", index={"x": ["bitmap", "chunk_minmax"], "y": "chunk_minmax"}
    )
    with cn.open(path, "r+") as file:
        file["t"].append({"x": range(4000, 4200), "y": range(200)})
    assert_right(path, {("x", "chunk_minmax"), ("y", "chunk_minmax")})


def test_a_large_bitmap_that_was_asked_for_stays(path: Path) -> None:
    """max_values= was raised by the caller: an append of known values must not undo that."""
    cn.write(path, {"x": range(5000)}, "t")
    with cn.open(path, "r+") as file:
        file["t"].build_index("x", "bitmap", max_values=6000)
        file["t"].append({"x": [1, 2, 3]})
        assert [one.kind for one in file["t"].indexes] == ["bitmap"]


def test_a_refused_bitmap_leaves_nothing_in_an_h5py_file(path: Path) -> None:
    """Where nothing can be rolled back, what was begun is removed."""
    cn.write(path, {"x": range(200)}, "t")
    with h5py.File(path, "r+") as h5:
        with pytest.raises(cn.errors.UsageError):
            cn.open(h5, "r+")["t"].build_index("x", "bitmap", max_values=100)
        assert list(h5["t"]) == ["x"]


def integer_type(size: int, precision: int) -> Any:
    made = h5t.STD_I64LE.copy()
    made.set_precision(precision)
    made.set_size(size)
    return made


ODD_TYPES = {"three bytes": integer_type(3, 24), "twelve bits": integer_type(2, 12)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", ODD_TYPES.values(), ids=ODD_TYPES)
def test_integers_of_odd_widths(path: Path, stored: Any, kind: str) -> None:
    """An index that is right, or a clear refusal: not half of one, and no crash."""
    with h5py.File(path, "w") as h5:
        form = stored, np.arange(40, dtype="<i8"), {"memory": h5t.NATIVE_INT64, "chunk": 10}
        make_column(make_table(h5, "t"), "x", form, 40)
    with cn.open(path, "r+") as file:
        table = file["t"]
        try:
            table.build_index("x", kind)
        except cn.errors.ColonnadeError:
            return
        assert [one.problem for one in table.indexes] == [None]
        assert table.verify_indexes() == []
        assert table.where("x >= 35").count() == 5


@pytest.mark.parametrize("kind", ["chunk_minmax", "bitmap"])
def test_null_terminated_strings_that_fill_their_room(path: Path, kind: str) -> None:
    """C writes them so: four characters in four bytes, no NUL. The column reads them whole, so must its index."""
    with h5py.File(path, "w") as h5:
        form = string_type(4, h5t.STR_NULLTERM), np.array([b"abcd", b"xyzw"] * 20, "S4"), {"chunk": 10}
        make_column(make_table(h5, "t"), "x", form, 40)
    with cn.open(path, "r+") as file:
        assert file["t"].where("x == 'abcd'").count() == 20
        file["t"].build_index("x", kind)
        assert file["t"].where("x == 'abcd'").count() == 20
        assert file["t"].where("x > 'xyz'").count() == 20


def test_changes_of_null_terminated_strings_that_fill_their_room(path: Path) -> None:
    """No way of writing them costs the last byte."""
    with h5py.File(path, "w") as h5:
        form = string_type(4, h5t.STR_NULLTERM), np.array([b"abcd", b"xy"] * 20, "S4"), {"chunk": 10}
        make_column(make_table(h5, "t"), "x", form, 40)
    with cn.open(path, "r+") as file:
        file["t"].append({"x": ["efgh", "i"]})
        file["t"].update("x", [1, 3], ["jklm", "n"])
        file["t"].truncate(42)
        file.repack(chunk_rows=7)
        assert file["t"]["x"][:4].tolist() == ["abcd", "jklm", "abcd", "n"]
        assert file["t"]["x"][40:].tolist() == ["efgh", "i"]
        assert file["t"].where("x == 'jklm'").count() == 1


def test_a_group_in_the_way_is_a_clear_error(path: Path) -> None:
    """Something else of the reserved name: queries pass it over."""
    cn.write(path, {"x": [1, 2, 3]}, "t")
    with h5py.File(path, "r+") as h5:
        h5["t/_search_indexes"] = 3
    with cn.open(path) as file:
        assert file["t"].where("x == 2").count() == 1
        assert file["t"].indexes == []


def test_building_where_a_dataset_is_in_the_way(path: Path) -> None:
    """A name that is taken is an error of ours, with a way out."""
    cn.write(path, {"x": [1, 2, 3]}, "t")
    with h5py.File(path, "r+") as h5:
        h5["t/_search_indexes"] = 3
    with cn.open(path, "r+") as file, pytest.raises(cn.errors.ColonnadeError):
        file["t"].build_index("x", "bitmap")


# -- appends cost what is new --


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """The column, the first row and the number of rows of everything whose keys are read."""
    noted: list[tuple[str, int, int]] = []
    before = ColumnReader.keys

    def noting(self: ColumnReader, start: int, count: int) -> Keys:
        noted.append((self.column.name, start, count))
        return before(self, start, count)

    monkeypatch.setattr(ColumnReader, "keys", noting)
    return noted


@pytest.mark.parametrize("kind", ["chunk_minmax", "chunk_bloom"])
def test_an_append_reads_the_new_chunks_alone(path: Path, kind: str, rows_read: list[tuple[str, int, int]]) -> None:
    """M2: the last chunk, which was short, and those behind it."""
    cn.write(path, {"x": np.arange(305)}, "t", columns={"x": cn.column(chunk_rows=10)}, index={"x": kind})
    rows_read.clear()
    with cn.open(path, "r+") as file:
        file["t"].append({"x": np.arange(12)})
    assert sum(count for _, _, count in rows_read) <= 20
    assert min(start for _, start, _ in rows_read) == 300
    assert_right(path, {("x", kind)})


def test_an_update_reads_the_chunks_it_touches(path: Path, rows_read: list[tuple[str, int, int]]) -> None:
    """Two cells far apart: two chunks."""
    columns = {"x": cn.column(chunk_rows=10)}
    cn.write(path, {"x": np.arange(305)}, "t", columns=columns, index={"x": ["chunk_minmax", "chunk_bloom"]})
    rows_read.clear()
    with cn.open(path, "r+") as file:
        file["t"].update("x", [13, 301], [-1, -2])
    assert {start // 10 for _, start, _ in rows_read} == {1, 30}
    assert_right(path, all_of(["x"], ["chunk_minmax", "chunk_bloom"]))


def test_filters_of_a_table_that_grows_still_tell_chunks_apart(path: Path) -> None:
    """A table begun with ten rows in chunks of a thousand: its filters must do for full chunks as well."""
    cn.write(path, {"x": range(10)}, "t", columns={"x": cn.column(chunk_rows=1000)}, index={"x": "chunk_bloom"})
    with cn.open(path, "r+") as file:
        file["t"].append({"x": range(10, 10_000)})
        left = [file["t"].where(f"x == {value}").explain().found.may.count for value in range(20_000, 20_050)]
    assert sum(left) / len(left) < 1000


def test_a_new_value_before_the_others(path: Path) -> None:
    """A bitmap takes it behind the others, and says that its values are in no order then."""
    cn.write(path, {"x": [5, 7, 9]}, "t", index={"x": "bitmap"})
    with cn.open(path, "r+") as file:
        file["t"].append({"x": [6, 5]})
        assert file["t"].where("x == 6").row_numbers().tolist() == [3]
    assert_right(path, {("x", "bitmap")})
    with h5py.File(path) as h5:
        assert not h5["t/_search_indexes/x__bitmap"].attrs["ordered"]
        assert h5["t/_search_indexes/x__bitmap__values"][:].tolist() == [5, 7, 9, 6]


@pytest.mark.parametrize("error_rate", [0.5, 0.1, 0.01, 0.0001])
def test_filters_are_wrong_as_often_as_asked(path: Path, error_rate: float) -> None:
    """Of chunks that do not hold a value, about that share is taken for one that may."""
    values = np.random.default_rng(3).integers(0, 2**62, 20_000) * 2
    cn.write(path, {"x": values}, "t", columns={"x": cn.column(chunk_rows=1000)})
    with cn.open(path, "r+") as file:
        file["t"].build_index("x", "chunk_bloom", error_rate=error_rate)
        asked = range(1, 401, 2)
        left = [file["t"].where(f"x == {value}").explain().found.may.count // 1000 for value in asked]
    wrong = sum(left) / (20 * len(left))
    assert wrong <= 1.4 * error_rate + 0.001


# -- laws --

cells = st.one_of(st.none(), st.integers(-3, 3))
rows = st.lists(
    st.tuples(cells, st.one_of(cells, st.just(float("nan"))), st.sampled_from(["", "a", "b", "ä", None])), max_size=12
)
steps = st.lists(st.one_of(st.tuples(st.just("append"), rows), st.tuples(st.just("update"), rows),
                           st.tuples(st.just("truncate"), st.integers(0, 30))), min_size=1, max_size=5)  # fmt: skip


def as_rows(listed: list[tuple[Any, Any, Any]]) -> pa.Table:
    columns = list(zip(*listed, strict=True)) if listed else [(), (), ()]
    types = {"i": pa.int8(), "f": pa.float32(), "s": pa.string()}
    return pa.table({name: pa.array(list(c), kind) for (name, kind), c in zip(types.items(), columns, strict=True)})


def take_step(table: Any, step: tuple[str, Any], chunk_rows: int, whole_chunks: bool) -> None:
    what, given = step
    if what == "append":
        table.append(as_rows(given))
    elif what == "truncate":
        wanted = min(given, table.n_rows)
        table.truncate(wanted // chunk_rows * chunk_rows if whole_chunks else wanted)
    else:
        data = as_rows(given[: table.n_rows])
        for name in data.column_names:
            table.update(name, list(range(data.num_rows)), data[name])


def run_steps(path: Path, first: Any, todo: Any, chunk_rows: int, whole_chunks: bool) -> None:
    """After every change, also one that was refused, the second reader finds nothing wrong."""
    options = {name: cn.column(chunk_rows=chunk_rows) for name in "ifs"}
    options["s"] = cn.column(chunk_rows=chunk_rows, strings="fixed", fill="none")
    cn.write(path, as_rows(first), "t", columns=options, index=dict.fromkeys("ifs", KINDS))
    for step in todo:
        with cn.open(path, "r+", durability="fast") as file, suppress(cn.errors.DataError):
            take_step(file["t"], step, chunk_rows, whole_chunks)
        assert problems(path) == []
        assert indexed(path) == all_of("ifs")


FEWER = settings(max_examples=max(10, settings().max_examples // 4))


@FEWER
@given(first=rows, todo=steps, chunk_rows=st.integers(1, 9))
def test_any_changes_leave_indexes_right(
    tmp_path_factory: pytest.TempPathFactory, first: Any, todo: Any, chunk_rows: int
) -> None:
    """Whatever is done to a table; cuts are at the edges of chunks."""
    run_steps(tmp_path_factory.mktemp("law") / "t.h5", first, todo, chunk_rows, True)


@settings(FEWER, phases=[Phase.explicit, Phase.generate])
@given(first=st.lists(st.just((1, 1.0, "a")), min_size=12, max_size=20), todo=steps, chunk_rows=st.integers(5, 9))
def test_any_changes_and_cuts_leave_indexes_right(
    tmp_path_factory: pytest.TempPathFactory, first: Any, todo: Any, chunk_rows: int
) -> None:
    """The same with cuts anywhere."""
    cut = ("truncate", len(first) - 1)
    run_steps(tmp_path_factory.mktemp("law") / "t.h5", first, [*todo, cut], chunk_rows, False)


# -- the worked example 11.2 --


@pytest.fixture
def example(path: Path) -> Iterator[Any]:
    """The table of 11.1 with the index of 11.2."""
    data = pa.table({
        "ts": pa.array([10, 20, 30, 40, 50], pa.int64()), "energy": pa.array([0.5, 1.5, 2.5, 3.5, 4.5], pa.float32()),
        "label": pa.array(["muon", "pion", "muon", "kaon", "pion"]).dictionary_encode(),
        "row_id": pa.array(range(100, 105), pa.uint64()),
    })  # fmt: skip
    options = {
        "ts": cn.column(units="s", units_vocabulary="UDUNITS-2", description="Event timestamp.", chunk_rows=2),
        "energy": cn.column(units="MeV"),
        "label": cn.column(description="Class label."),
    }
    cn.write(
        path, data, "my_table", title="Sample run", columns=options, labels=["row_id"], index={"ts": "chunk_minmax"}
    )
    with h5py.File(path) as h5:
        yield h5["my_table"]


def stored(node: Any, name: str) -> tuple[Any, Any]:
    """The datatype of an attribute, and its shape; None for that of a scalar."""
    found = h5a.open(node.id, name.encode())
    scalar = found.get_space().get_simple_extent_type() == h5s.SCALAR
    return found.get_type(), None if scalar else found.shape


def test_example_objects(example: Any) -> None:
    """The index adds one group with one dataset, and an attribute of its column; nothing else."""
    assert set(example) == {"ts", "energy", "label", "label_categories", "row_id", "_search_indexes"}
    assert list(example["_search_indexes"]) == ["ts__chunk_minmax"]
    assert list(example["_search_indexes"].attrs) == []
    own = {"_storage_options"}  # that the user has set chunk_rows
    assert set(example["ts"].attrs) == own | {
        "units", "units_vocabulary", "description", "_indexes", "_search_indexes",
    }  # fmt: skip
    for name in ("energy", "label", "label_categories", "row_id"):
        assert "_search_indexes" not in example[name].attrs
    assert check(example) == []


def test_example_index(example: Any) -> None:
    """compound {min: int64, max: int64, nan_count: uint64, fill_count: uint64, n: uint64}, shape (n_chunks,)."""
    index = example["_search_indexes/ts__chunk_minmax"]
    kind = index.id.get_type()
    assert kind.get_class() == h5t.COMPOUND and kind.get_size() == 40
    members = [(kind.get_member_name(i), kind.get_member_offset(i)) for i in range(kind.get_nmembers())]
    assert members == [(b"min", 0), (b"max", 8), (b"nan_count", 16), (b"fill_count", 24), (b"n", 32)]
    wanted = [h5t.STD_I64LE] * 2 + [h5t.STD_U64LE] * 3
    assert all(kind.get_member_type(i).equal(one) for i, one in enumerate(wanted))
    assert index.shape == (3,)
    assert index[:].tolist() == [(10, 20, 0, 0, 2), (30, 40, 0, 0, 2), (50, 50, 0, 0, 1)]


def test_example_attributes(example: Any) -> None:
    """KIND, chunk_shape and the references both ways, of the exact types."""
    index, ts = example["_search_indexes/ts__chunk_minmax"], example["ts"]
    assert set(index.attrs) == {"KIND", "chunk_shape", "_columns_list"}
    kind, shape = stored(index, "KIND")
    assert shape is None and kind.get_class() == h5t.STRING and not kind.is_variable_str()
    assert (kind.get_size(), kind.get_cset(), kind.get_strpad()) == (12, h5t.CSET_ASCII, h5t.STR_NULLPAD)
    assert index.attrs["KIND"] == b"CHUNK_MINMAX"
    kind, shape = stored(index, "chunk_shape")
    assert kind.equal(h5t.STD_U64LE) and shape == (1,) and index.attrs["chunk_shape"].tolist() == [2]
    for node, name, target in ((index, "_columns_list", ts), (ts, "_search_indexes", index)):
        kind, shape = stored(node, name)
        assert kind.equal(h5t.STD_REF_OBJ) and shape == (1,)
        assert example.file[node.attrs[name][0]] == target


# -- the hash --


def halves(data: bytes, seed: int) -> tuple[int, int]:
    """colonnade's hash of one byte string."""
    low, high = np.empty(1, "u8"), np.empty(1, "u8")
    kernels.hash_strings(np.array([0, len(data)]), data, seed, low, high)
    return int(low[0]), int(high[0])


PUBLISHED = {
    (b"", 0): (0, 0),
    (b"foo", 0): (16316970633193145697, 9128664383759220103),
    (b"The quick brown fox jumps over the lazy dog", 0): (0xE34BBC7BBC071B6C, 0x7A433CA9C49A9347),
}
HASHES = {"ours": halves, "second reading": murmur3}


@pytest.mark.parametrize("hash_", HASHES.values(), ids=HASHES)
def test_published_vectors(hash_: Callable[[bytes, int], tuple[int, int]]) -> None:
    """Values that other implementations publish."""
    assert {key: hash_(*key) for key in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("hash_", HASHES.values(), ids=HASHES)
def test_the_authors_verification_value(hash_: Callable[[bytes, int], tuple[int, int]]) -> None:
    """SMHasher's check of an implementation of MurmurHash3_x64_128: a hash over hashes of 0 to 255 bytes."""

    def digest(data: bytes, seed: int) -> bytes:
        low, high = hash_(data, seed)
        return low.to_bytes(8, "little") + high.to_bytes(8, "little")

    whole = b"".join(digest(bytes(range(length)), 256 - length) for length in range(256))
    assert int.from_bytes(digest(whole, 0)[:4], "little") == 0x6384BA69


@given(st.binary(max_size=100), st.sampled_from([0, 1, 0x9E3779B9, 2**32 - 1]))
def test_both_hashes_agree(data: bytes, seed: int) -> None:
    """Of any bytes, with any seed."""
    assert halves(data, seed) == murmur3(data, seed)


@pytest.mark.parametrize("length", range(1, 50))
def test_many_rows_are_hashed_as_each_alone(length: int) -> None:
    """The rows of a matrix do not mix, whatever their length."""
    matrix = np.random.default_rng(length).integers(0, 256, (20, length), dtype="u1")
    low, high = np.empty(20, "u8"), np.empty(20, "u8")
    kernels.hash_items(matrix, length, 7, low, high)
    assert [(int(a), int(b)) for a, b in zip(low, high, strict=True)] == [murmur3(row.tobytes(), 7) for row in matrix]


def test_a_filter_worked_out_by_hand(path: Path) -> None:
    """One value, one chunk: the bits are those of the rule, least significant first."""
    cn.write(path, {"x": pa.array([258], pa.int16())}, "t", index={"x": "chunk_bloom"})
    with h5py.File(path) as h5:
        index = h5["t/_search_indexes/x__chunk_bloom"]
        k, m_bits = int(index.attrs["k"]), int(index.attrs["m_bits"])
        found = {8 * byte + bit for byte, value in enumerate(index[0]) for bit in range(8) if value >> bit & 1}
    first, second = murmur3(b"\x02\x01", 0)[0], murmur3(b"\x02\x01", 0x9E3779B9)[1]
    assert found == {(first + i * second) % 2**64 % m_bits for i in range(k)}
    assert found == set(bloom_bits(b"\x02\x01", k, m_bits))


# -- the order of rows, in little memory --


def key_cases() -> dict[str, pa.Array]:
    """Columns of keys that are hard on a sort."""
    random = np.random.default_rng(5)
    n_rows = 3000
    masked = random.random(n_rows) < 0.2
    text = [f"{number:x}" * (number % 5) for number in random.integers(0, 500, n_rows)]
    return {
        "numbers": pa.array(random.integers(-(2**62), 2**62, n_rows)),
        "few numbers": pa.array(random.integers(0, 3, n_rows), pa.int8()),
        "one number": pa.array(np.full(n_rows, 5)),
        "nearly one number": pa.array(np.where(random.random(n_rows) < 0.99, 5, random.integers(0, 9, n_rows))),
        "increasing": pa.array(np.arange(n_rows)),
        "decreasing": pa.array(np.arange(n_rows)[::-1].copy()),
        "missing numbers": pa.array(random.integers(0, 100, n_rows), mask=masked),
        "all missing": pa.array([None] * n_rows, pa.int64()),
        "floats": pa.array(random.normal(size=n_rows)),
        "NaN and zeros": pa.array(random.choice([np.nan, 0.0, -0.0, 1.0, -np.inf, np.inf], n_rows), mask=masked),
        "all NaN": pa.array(np.full(n_rows, np.nan)),
        "small floats": pa.array(random.normal(size=n_rows).astype("f2")),
        "text": pa.array(text).cast(pa.binary()),
        "missing text": pa.array(text, mask=masked).cast(pa.binary()),
        "empty text": pa.array([b""] * n_rows),
        "bytes": pa.array([random.bytes(int(n)) for n in random.integers(0, 4, n_rows)], pa.binary()),
        "one row": pa.array([7]),
        "no row": pa.array([], pa.int64()),
    }


KEYS = key_cases()


def by_python(array: pa.Array) -> list[int]:
    """All rows in order: values, missing rows, NaN rows; equal ones by row."""
    values = array.to_pylist()
    nan = [row for row, value in enumerate(values) if isinstance(value, float) and math.isnan(value)]
    missing = [row for row, value in enumerate(values) if value is None]
    rest = sorted(set(range(len(values))) - set(nan) - set(missing), key=lambda row: (values[row], row))
    return rest + missing + nan


def sort(array: pa.Array, memory: int, piece: int) -> tuple[list[int], int, int]:
    """The order by the library, keys given in pieces; and the number of missing and NaN rows."""
    with sorter(memory) as order:
        for first in range(0, len(array), piece):
            order.add(first, keys_of(array.slice(first, piece)))
        return [int(row) for part in order.rows() for row in part], order.n_missing, order.n_nan


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go, so that what is left of them is seen."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("memory, piece", [(2000, 64), (2000, 1000), (50_000, 7), (1, 500), (1 << 28, 100)])
@pytest.mark.parametrize("array", KEYS.values(), ids=KEYS)
def test_the_order_does_not_depend_on_memory(array: pa.Array, memory: int, piece: int, scratch: Path) -> None:
    """Runs in files, merged, give what a sort in memory gives; and no file is left."""
    wanted = by_python(array)
    found, n_missing, n_nan = sort(array, memory, piece)
    assert found == wanted
    values = array.to_pylist()
    assert n_missing == values.count(None)
    assert n_nan == sum(isinstance(value, float) and math.isnan(value) for value in values)
    assert list(scratch.iterdir()) == []


def test_little_memory_means_files(scratch: Path) -> None:
    """The test above does test files: with little memory they are there while the work lasts."""
    with sorter(2000) as order:
        for first in range(0, 3000, 64):
            order.add(first, keys_of(KEYS["numbers"].slice(first, 64)))
        assert len(list(scratch.iterdir())) == 1
        assert len(list(next(scratch.iterdir()).iterdir())) > 20
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("when", ["adding", "merging"])
def test_an_error_leaves_no_file(scratch: Path, when: str) -> None:
    """Whether keys are still coming or rows going out."""
    with pytest.raises(ZeroDivisionError), sorter(2000) as order:
        for first in range(0, 3000, 64):
            order.add(first, keys_of(KEYS["numbers"].slice(first, 64)))
            if when == "adding" and first > 1000:
                raise ZeroDivisionError
        for _ in order.rows():
            raise ZeroDivisionError
    assert list(scratch.iterdir()) == []


def build_in_little_memory(path: Path, kinds: list[str], progress: Any = None) -> None:
    with cn.open(path, "r+") as file:
        table = file["t"]
        with file._change():
            table._indexes().build(dict.fromkeys(table.columns, kinds), Options(memory=2000), progress)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_sorted_rows_built_in_little_memory(path: Path, maker: Maker, scratch: Path) -> None:
    """Every type of key goes through the files and comes back in order."""
    maker(path, N_ROWS)
    build_in_little_memory(path, ["sorted_rows"])
    assert problems(path) == []
    assert list(scratch.iterdir()) == []


def refuse(done: int, total: int | None) -> None:
    if done > 800:
        raise ZeroDivisionError


def test_a_build_that_fails_leaves_no_file(path: Path, scratch: Path) -> None:
    """An error in the middle of a build, here in progress=."""
    cn.write(path, {"x": np.arange(1000)}, "t", columns={"x": cn.column(chunk_rows=100)})
    try:
        with pytest.raises(ZeroDivisionError):
            build_in_little_memory(path, ["sorted_rows"], refuse)
        assert list(scratch.iterdir()) == []
    finally:
        for folder in scratch.iterdir():
            for file in folder.iterdir():
                file.unlink()


# -- the second reader sees what is wrong --


def spoil_bits(h5: h5py.File) -> None:
    h5["t/_search_indexes/x__bitmap"][1, 0] ^= 4


def spoil_values(h5: h5py.File) -> None:
    h5["t/_search_indexes/x__bitmap__values"][1] = 77


def spoil_filter(h5: h5py.File) -> None:
    h5["t/_search_indexes/x__chunk_bloom"][1, 0] ^= 4


def spoil_order(h5: h5py.File) -> None:
    index = h5["t/_search_indexes/x__sorted_rows"]
    index[0], index[1] = index[1], index[0]


def spoil_bounds(h5: h5py.File) -> None:
    index = h5["t/_search_indexes/x__chunk_minmax"]
    entry = index[1]
    entry["max"] += 1
    index[1] = entry


def spoil_tail(h5: h5py.File) -> None:
    h5["t/_search_indexes/x__sorted_rows"].attrs.modify("fill_tail_length", np.uint64(1))


def spoil_shape(h5: h5py.File) -> None:
    h5["t/_search_indexes/x__chunk_bloom"].attrs["chunk_shape"] = np.array([3], "i8")


def spoil_kind(h5: h5py.File) -> None:
    h5["t/_search_indexes/x__bitmap"].attrs["KIND"] = "BITMAP"


def spoil_references(h5: h5py.File) -> None:
    del h5["t/x"].attrs["_search_indexes"]


def spoil_group(h5: h5py.File) -> None:
    h5["t/_search_indexes/stray"] = 3


def spoil_column(h5: h5py.File) -> None:
    h5["t/x"][3] = 77


SPOILERS = {name.removeprefix("spoil_"): value for name, value in globals().items() if name.startswith("spoil_")}


@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS)
def test_the_second_reader_sees_what_is_wrong(path: Path, spoil: Callable[[h5py.File], None]) -> None:
    """A check that finds nothing in a broken file would prove nothing."""
    cn.write(path, {"x": [3, 1, 2, 9, 8, 7]}, "t", columns={"x": cn.column(chunk_rows=2)}, index={"x": KINDS})
    assert problems(path) == []
    with h5py.File(path, "r+") as h5:
        spoil(h5)
    assert problems(path) != []


def test_the_second_reader_uses_nothing_of_ours() -> None:
    """It imports h5py and NumPy, and no module of colonnade."""
    source = Path(index_reader.__file__).read_text()
    assert "import colonnade" not in source and "from colonnade" not in source


def test_an_order_is_left_out_where_too_many_rows_match(tmp_path: Path) -> None:
    """Taking rows one by one from an order costs more than comparing many."""
    path, n = tmp_path / "t.h5", 20_000
    values = np.random.default_rng(3).permutation(n)
    texts = [f"{value:05}" for value in values]
    plain = cn.column(chunk_rows=1000, strings="fixed")
    index = {"x": "sorted_rows", "text": "sorted_rows"}
    cn.write(path, {"x": values, "text": texts}, table="t", columns={"x": plain, "text": plain}, index=index)
    with cn.open(path, trust="always") as file:
        for column, low, high, used in (
            ("x", 0, n // 17, True),
            ("x", 0, n // 15, False),
            ("text", "00000", f"{n // 3:05}", True),
            ("text", "00000", f"{n // 2 + 1000:05}", False),
        ):
            query = file["t"].where(cn.col(column).between(low, high))
            plan = query.explain()
            assert bool(plan.indexes_used) == used, str(plan)
            assert used or "too many rows match" in str(plan)
            assert query.count() == sum(low <= value <= high for value in (values if column == "x" else texts))


class Looks:
    """How often a search by sorted rows looked into its index, and at how many rows in all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n_looks = self.n_rows = 0
        row, rows_at = SortedRowsIndex.row, SortedRowsIndex.rows_at

        def one(index: SortedRowsIndex, place: int) -> int:
            self.n_looks, self.n_rows = self.n_looks + 1, self.n_rows + 1
            return row(index, place)

        def many(index: SortedRowsIndex, places: Sequence[int]) -> Any:
            self.n_looks, self.n_rows = self.n_looks + 1, self.n_rows + len(places)
            return rows_at(index, places)

        monkeypatch.setattr(SortedRowsIndex, "row", one)
        monkeypatch.setattr(SortedRowsIndex, "rows_at", many)


@pytest.mark.parametrize(
    ("filters", "fewest", "most", "most_rows"), [("none", 3, 7, 50), ("scale-offset", 3, 7, 50), ("deflate", 5, 18, 18)]
)
def test_a_value_is_found_by_few_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filters: str, fewest: int, most: int, most_rows: int
) -> None:
    """Where a row is read for itself, a look is at several; where a chunk must be unpacked for it, at one."""
    looks = Looks(monkeypatch)
    values = np.random.default_rng(1).integers(0, 5000, 100_000)
    columns = {"x": cn.column(filters=filters)}
    cn.write(tmp_path / "x.h5", {"x": values}, index={"x": "sorted_rows"}, columns=columns)
    with cn.open_table(tmp_path / "x.h5") as table:
        asked = values[::2000].tolist()
        for value in asked:
            assert table.where(cn.col("x") == value).count() == int((values == value).sum())
    assert fewest * len(asked) < looks.n_looks < most * len(asked)
    assert looks.n_rows < most_rows * len(asked)


def test_a_search_unpacks_a_chunk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most steps of a search in sorted values ask for rows of the chunk that the step before asked for."""
    unpacked = []
    undo = Pipeline.undo

    def noting(pipeline: Pipeline, data: Any, mask: int, out: Any) -> None:
        unpacked.append(len(out))
        undo(pipeline, data, mask, out)

    monkeypatch.setattr(Pipeline, "undo", noting)
    columns = {"x": cn.column(filters="deflate", chunk_rows=1000)}
    cn.write(tmp_path / "x.h5", {"x": np.arange(16_500) * 3}, index={"x": "sorted_rows"}, columns=columns)
    with cn.open_table(tmp_path / "x.h5") as table:
        for low, high in ((3002, 3100), (46_000, 49_400), (49_497, 60_000), (-5, 0)):
            unpacked.clear()
            found = table.where(f"x between {low} and {high}").row_numbers().tolist()
            assert found == [row for row in range(16_500) if low <= row * 3 <= high]
            assert 0 < len(unpacked) <= 6  # the chunks at both ends, and those near the answer


def test_digests_are_the_same_in_both_implementations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process begins with Python's own SHA-256, and loads OpenSSL after some bytes."""
    blocks = [bytes(range(256)) * n for n in (0, 1, 700, 700)] + [np.arange(50_000)]
    by_openssl = [hashlib.sha256(bytes(block)).hexdigest()[:32] for block in blocks]
    monkeypatch.delitem(sys.modules, "_hashlib")
    digest = _Digest()
    assert [digest(block) for block in blocks] == by_openssl
    assert digest._n_left < 0
    assert [digest(block) for block in blocks] == by_openssl


UNEVEN = {
    "steep": lambda rng, n: np.exp(rng.uniform(-40, 40, n)),
    "two values": lambda rng, n: rng.choice([-1.5, 1e300], n),
    "one value": lambda rng, n: np.full(n, 7.25),
    "one far away": lambda rng, n: np.append(rng.normal(size=n - 1), 1e308),
    "both ends": lambda rng, n: np.concatenate((rng.normal(-1e9, 1, n // 2), rng.normal(1e9, 1, n - n // 2))),
    "infinities": lambda rng, n: np.concatenate((rng.normal(size=n - 2), [np.inf, -np.inf])),
}


@pytest.mark.parametrize("shape", UNEVEN)
def test_uneven_values_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    """A guess may miss by far, again and again; the number of looks stays bounded by the logarithm."""
    looks = Looks(monkeypatch)
    rng = np.random.default_rng(2)
    values = UNEVEN[shape](rng, 60_000)
    cn.write(tmp_path / "x.h5", {"x": values}, index={"x": "sorted_rows"}, columns={"x": cn.column(filters="none")})
    asked = [*rng.choice(values, 20).tolist(), 0.0, -1e308, float(values.max()), float(values.min())]
    with cn.open_table(tmp_path / "x.h5") as table:
        for value in asked:
            assert table.where(cn.col("x") == value).count() == int((values == value).sum())
            assert table.where(cn.col("x") > value).count() == int((values > value).sum())
            assert table.where(cn.col("x") <= value).count() == int((values <= value).sum())
    assert looks.n_looks < 4 * len(asked) * 2 * np.log2(len(values))


@pytest.mark.parametrize(
    "stored, packed",
    [
        *((kind, False) for kind in ("<i2", ">i2", "<i4", ">i4", "<u8", ">u8", "<f4", ">f4", "<f8", ">f8")),
        *((kind, True) for kind in ("<i2", ">i2", "<i4", ">i4", "<u8", ">u8")),  # scale-offset packs integers
    ],
)
def test_several_looks_in_any_byte_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: str, packed: bool
) -> None:
    """Foreign columns with missing rows, NaN and a short last chunk: several rows read together are right."""
    kind = np.dtype(stored)
    looks = Looks(monkeypatch)
    rng = np.random.default_rng(3)
    values = rng.integers(1, 9000, 20_001).astype(kind)
    values[rng.random(len(values)) < 0.1] = 0  # the fill: missing
    if kind.kind == "f":
        values[rng.random(len(values)) < 0.1] = np.nan
    path = tmp_path / "x.h5"
    cn.write(path, {"row": np.arange(len(values))}, table="t")
    options: dict[str, Any] = {"scaleoffset": 0} if packed else {}
    with h5py.File(path, "r+") as file:
        file["t"].create_dataset("x", data=values, chunks=(1000,), maxshape=(None,), fillvalue=kind.type(0), **options)
        order = np.array([*file["t"].attrs["column-order"], b"x"], dtype="S3")
        file["t"].attrs.create("column-order", order, dtype=h5py.string_dtype("utf-8", 3))
    with cn.open(path, "r+") as file:
        file["t"].build_index("x", "sorted_rows")
    with cn.open_table(path) as table:
        assert table["x"].fill == 0
        present = values[(values != 0) & ~np.isnan(values)]
        looks.n_looks = looks.n_rows = 0
        for value in [*rng.choice(present, 12).tolist(), 0.5, 9999]:
            for test, truth in ((cn.col("x") == value, present == value), (cn.col("x") > value, present > value)):
                assert table.where(test).count() == int(truth.sum())
        assert looks.n_rows > 2 * looks.n_looks > 0  # several at a time


def test_a_kind_is_known_by_its_exact_name_only(path: Path) -> None:
    """KIND "bitmap" is not BITMAP (8.2): queries ignore such an index, and the rules report it."""
    cn.write(path, {"label": ["a", "b", "a"] * 20}, "t", index={"label": "bitmap"})
    with h5py.File(path, "r+") as h5:
        index = h5["t/_search_indexes/label__bitmap"]
        index.attrs.create("KIND", np.bytes_("bitmap"))
    with cn.open(path) as file:
        (info,) = file["t"].indexes
        assert not info.fresh and "bitmap, is not known here" in str(info.problem)
        assert file["t"].where("label = 'b'").count() == 20
    assert "S3" in {finding.rule for finding in cn.check(path)}


def test_a_bitmap_of_some_values_is_not_wrong(tmp_path: Path) -> None:
    """A value without a bitmap is legal; a wrong bit of a value that has one is reported all the same."""
    path = tmp_path / "x.h5"
    cn.write(path, {"x": [1, 2, 3] * 8}, "t", index={"x": "bitmap"})
    with h5py.File(path, "r+") as file:
        for dataset in (file["t/_search_indexes/x__bitmap"], file["t/_search_indexes/x__bitmap__values"]):
            dataset.resize(2, 0)
    with cn.open(path, "r+") as file:
        assert file["t"].verify_indexes() == []
        assert file["t"].where("x == 3").to_arrow().num_rows == 8
    with h5py.File(path, "r+") as file:
        file["t/_search_indexes/x__bitmap"][1, 0] ^= 1
    with cn.open(path, "r+") as file:
        assert len(file["t"].verify_indexes()) == 1


@pytest.mark.parametrize("layout", ["hep001", "anndata"])
def test_a_small_new_table_is_indexed_before_anything_is_flushed(tmp_path: Path, layout: str) -> None:
    """What libhdf5 still has in memory only is no damage: attributes of variable length are read all the same."""
    cn.write(tmp_path / "a.h5", {"x": [1, 2, 3]}, "t", layout=layout, index={"x": "chunk_minmax"})
    with cn.open(tmp_path / "a.h5", "r+") as file, file.transaction():
        file.create("u", {"y": [1.5]}, layout=layout, index={"y": "sorted_rows"})
    with cn.open(tmp_path / "a.h5") as file:
        assert [index.kind for name in ("t", "u") for index in file[name].indexes] == ["chunk_minmax", "sorted_rows"]
