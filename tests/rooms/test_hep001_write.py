"""What a HEP001 table looks like in the file, seen with h5py's low-level types alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401 - registers the filters, so that plain h5py reads them
import numpy as np
import pyarrow as pa
import pytest
from h5py import h5a, h5d, h5p, h5s, h5t

import colonnade as cn

FLOAT_FILL = 9.9692099683868690e36
Attribute = tuple[Any, ...]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.h5"


def attribute(node: Any, name: str) -> Attribute:
    """Class, size, padding, charset, shape and value of an attribute; None for the shape of a scalar."""
    found = h5a.open(node.id, name.encode())
    kind, space = found.get_type(), found.get_space()
    scalar = space.get_simple_extent_type() == h5s.SCALAR
    shape = None if scalar else space.get_simple_extent_dims()
    assert kind.get_class() == h5t.STRING
    assert not kind.is_variable_str()
    value = np.zeros(found.shape, dtype=f"S{kind.get_size()}")
    found.read(value, mtype=kind)
    return kind.get_size(), kind.get_strpad(), kind.get_cset(), shape, value.tolist()


def ascii_text(text: str) -> Attribute:
    data = text.encode("ascii")
    return len(data), h5t.STR_NULLPAD, h5t.CSET_ASCII, None, data


def utf8_text(text: str) -> Attribute:
    data = text.encode()
    return max(len(data), 1), h5t.STR_NULLPAD, h5t.CSET_UTF8, None, data


def utf8_texts(*texts: str) -> Attribute:
    data = [text.encode() for text in texts]
    return max(map(len, data)), h5t.STR_NULLPAD, h5t.CSET_UTF8, (len(data),), data


def references(node: Any, name: str) -> tuple[tuple[int, ...] | None, list[str]]:
    """Shape (None for a scalar) and the names of the objects that a reference attribute leads to."""
    found = h5a.open(node.id, name.encode())
    assert found.get_type().equal(h5t.STD_REF_OBJ)
    scalar = found.get_space().get_simple_extent_type() == h5s.SCALAR
    value = node.attrs[name]
    listed = [value] if scalar else list(value)
    return (None if scalar else found.shape), [node.file[reference].name for reference in listed]


def flag(node: Any, name: str) -> bool:
    """The value of a scalar attribute that must be the FALSE/TRUE enum over int8."""
    found = h5a.open(node.id, name.encode())
    kind = found.get_type()
    assert kind.get_class() == h5t.ENUM
    assert kind.get_super().equal(h5t.STD_I8LE)
    assert [kind.get_member_name(i) for i in range(kind.get_nmembers())] == [b"FALSE", b"TRUE"]
    assert [kind.get_member_value(i) for i in range(kind.get_nmembers())] == [0, 1]
    assert found.get_space().get_simple_extent_type() == h5s.SCALAR
    return bool(node.attrs[name])


def names(node: Any) -> set[str]:
    return set(node.attrs)


def creation(dataset: h5py.Dataset) -> Any:
    return dataset.id.get_create_plist()


def filter_ids(dataset: h5py.Dataset) -> list[int]:
    found = creation(dataset)
    return [found.get_filter(position)[0] for position in range(found.get_nfilters())]


# -- the worked example 11.1 --

N = 5
TS = np.array([10, 20, 30, 40, 50], dtype="i8")
ENERGY = np.array([0.5, 1.5, 2.5, 3.5, 4.5], dtype="f4")
LABELS = ["muon", "pion", "muon", "kaon", "pion"]


@pytest.fixture
def example(tmp_path: Path) -> Any:
    """The table of the worked example 11.1."""
    path = tmp_path / "example.h5"
    data = pa.table(
        {
            "ts": TS,
            "energy": ENERGY,
            "label": pa.array(LABELS).dictionary_encode(),
            "row_id": pa.array(range(100, 100 + N), pa.uint64()),
        }
    )
    options = {
        "ts": cn.column(units="s", units_vocabulary="UDUNITS-2", description="Event timestamp."),
        "energy": cn.column(units="MeV"),
        "label": cn.column(description="Class label."),
    }
    cn.write(path, data, table="my_table", title="Sample run", columns=options, labels=["row_id"])
    with h5py.File(path) as file:
        yield file["my_table"]


def test_example_group(example: Any) -> None:
    """The group's attributes, exactly, and no other."""
    assert names(example) == {"CLASS", "VERSION", "TITLE", "column-order", "_index"}
    assert attribute(example, "CLASS") == (12, h5t.STR_NULLPAD, h5t.CSET_ASCII, None, b"COLUMN_TABLE")
    assert attribute(example, "VERSION") == (3, h5t.STR_NULLPAD, h5t.CSET_ASCII, None, b"1.0")
    assert attribute(example, "TITLE") == (10, h5t.STR_NULLPAD, h5t.CSET_UTF8, None, b"Sample run")
    assert attribute(example, "column-order") == utf8_texts("ts", "energy", "label")
    assert attribute(example, "_index") == utf8_text("row_id")
    assert sorted(example) == ["energy", "label", "label_categories", "row_id", "ts"]


def test_example_ts(example: Any) -> None:
    """ts: int64 with units, vocabulary, description and the label."""
    ts = example["ts"]
    assert names(ts) == {"units", "units_vocabulary", "description", "_indexes"}
    assert attribute(ts, "units") == utf8_text("s")
    assert attribute(ts, "units_vocabulary") == utf8_text("UDUNITS-2")
    assert attribute(ts, "description") == utf8_text("Event timestamp.")
    assert references(ts, "_indexes") == ((1,), ["/my_table/row_id"])
    assert ts.id.get_type().equal(h5t.STD_I64LE)
    assert (ts.shape, ts[...].tolist()) == ((N,), TS.tolist())


def test_example_energy(example: Any) -> None:
    """energy: float32 with units alone."""
    energy = example["energy"]
    assert names(energy) == {"units", "_indexes"}
    assert attribute(energy, "units") == utf8_text("MeV")
    assert references(energy, "_indexes") == ((1,), ["/my_table/row_id"])
    assert energy.id.get_type().equal(h5t.IEEE_F32LE)
    assert energy[...].tolist() == ENERGY.tolist()


def test_example_label(example: Any) -> None:
    """label: int8 codes, fill -1, a scalar reference to the categories."""
    label = example["label"]
    assert names(label) == {"description", "_categories", "_indexes"}
    assert attribute(label, "description") == utf8_text("Class label.")
    assert references(label, "_categories") == (None, ["/my_table/label_categories"])
    assert references(label, "_indexes") == ((1,), ["/my_table/row_id"])
    assert label.id.get_type().equal(h5t.STD_I8LE)
    assert creation(label).fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
    assert label.fillvalue == -1
    assert label[...].tolist() == [0, 1, 0, 2, 1]


def test_example_categories(example: Any) -> None:
    """label_categories: variable-length UTF-8 text, marked, unordered."""
    categories = example["label_categories"]
    assert names(categories) == {"encoding-type", "ordered"}
    assert attribute(categories, "encoding-type") == utf8_text("categorical")
    assert flag(categories, "ordered") is False
    kind = categories.id.get_type()
    assert kind.is_variable_str()
    assert kind.get_cset() == h5t.CSET_UTF8
    assert categories.shape == (3,)
    assert [item.decode() for item in categories[...]] == ["muon", "pion", "kaon"]


def test_example_row_id(example: Any) -> None:
    """row_id: uint64, refers to the three columns, in their order, and is in no column-order."""
    row_id = example["row_id"]
    assert names(row_id) == {"_columns_list"}
    assert references(row_id, "_columns_list") == ((3,), [f"/my_table/{name}" for name in ("ts", "energy", "label")])
    assert row_id.id.get_type().equal(h5t.STD_U64LE)
    assert row_id[...].tolist() == list(range(100, 100 + N))


def test_ordered_flag(path: Path) -> None:
    """Ordered categories carry TRUE."""
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), ["lo", "hi"], ordered=True)
    cn.write(path, pa.table({"x": column}), table="t")
    with h5py.File(path) as file:
        assert flag(file["t/x_categories"], "ordered") is True


def test_a_plain_table_has_the_least_attributes(path: Path) -> None:
    """No title, no labels, no units: three attributes on the group, none on the column."""
    cn.write(path, {"x": [1, 2]}, table="t")
    with h5py.File(path) as file:
        assert names(file["t"]) == {"CLASS", "VERSION", "column-order"}
        assert names(file["t/x"]) == set()


# -- labels --


def test_several_labels_both_ways(path: Path) -> None:
    """Every column refers to every label in the order given, every label to every column; the first is _index."""
    data = {"a": [1, 2], "run": [7, 7], "b": [3, 4], "event": ["e1", "e2"]}
    cn.write(path, data, table="t", labels=["event", "run"])
    with h5py.File(path) as file:
        group = file["t"]
        assert attribute(group, "_index") == utf8_text("event")
        assert attribute(group, "column-order") == utf8_texts("a", "b")
        for column in "ab":
            assert references(group[column], "_indexes") == ((2,), ["/t/event", "/t/run"])
        for label in ("event", "run"):
            assert references(group[label], "_columns_list") == ((2,), ["/t/a", "/t/b"])
            assert "_indexes" not in group[label].attrs
    with cn.open_table(path, "t") as table:
        assert (table.columns, table.labels) == (["a", "b"], ["event", "run"])
        assert table.to_arrow().column_names == ["a", "b", "event", "run"]


def test_label_arrays(path: Path) -> None:
    """labels={name: array} adds labels that are no column of the data, also to a stream."""
    batches = ({"x": np.arange(start, start + 2)} for start in (0, 2))
    cn.write(path, batches, table="t", labels={"id": ["a", "b", "c", "d"], "n": np.arange(4, dtype="u2")})
    with h5py.File(path) as file:
        group = file["t"]
        assert group["id"][...].tolist() == [b"a", b"b", b"c", b"d"]
        assert group["n"].dtype == np.dtype("u2")
        assert references(group["x"], "_indexes") == ((2,), ["/t/id", "/t/n"])
        assert attribute(group, "column-order") == utf8_texts("x")


def test_a_table_of_labels_alone(path: Path) -> None:
    """Without a column there is no column-order, and the label refers to nothing."""
    cn.write(path, {"id": [5, 6]}, table="t", labels=["id"])
    with h5py.File(path) as file:
        assert names(file["t"]) == {"CLASS", "VERSION", "_index"}
        assert references(file["t/id"], "_columns_list") == ((0,), [])
    with cn.open_table(path, "t") as table:
        assert (table.columns, table.labels, len(table)) == ([], ["id"], 2)


def test_a_categorical_label(path: Path) -> None:
    """A label may be categorical, with units and description of its own."""
    data = {"x": [1, 2], "who": pa.array(["a", "b"]).dictionary_encode()}
    cn.write(path, data, table="t", labels=["who"], columns={"who": cn.column(description="Who.")})
    with h5py.File(path) as file:
        assert names(file["t/who"]) == {"_categories", "_columns_list", "description"}
        assert sorted(file["t"]) == ["who", "who_categories", "x"]


# -- texts --


@pytest.mark.parametrize("title", ["Größe", "表题", "🙂", "a", "a b\nc", "", "x" * 5000])
def test_titles(path: Path, title: str) -> None:
    """Texts are sized in bytes, not characters; the empty one is there too."""
    cn.write(path, {"x": [1]}, table="t", title=title, description=title)
    with h5py.File(path) as file:
        assert attribute(file["t"], "TITLE") == utf8_text(title)
        assert attribute(file["t"], "description") == utf8_text(title)
    with cn.open_table(path, "t") as table:
        assert (table.title, table.description) == (title, title)


def test_no_title(path: Path) -> None:
    """No title is None, not an empty text."""
    cn.write(path, {"x": [1]}, table="t")
    with cn.open_table(path, "t") as table:
        assert (table.title, table.description) == (None, None)


def test_column_order_in_bytes(path: Path) -> None:
    """column-order is as wide as the longest name in bytes."""
    cn.write(path, {"ä": [1], "日本語": [2], "b": [3]}, table="t")
    with h5py.File(path) as file:
        assert attribute(file["t"], "column-order") == utf8_texts("ä", "日本語", "b")
        assert attribute(file["t"], "column-order")[0] == 9


def test_units_vocabulary_is_inherited(path: Path) -> None:
    """The table's vocabulary is written once and applies unless a column has its own."""
    options = {"a": cn.column(units="m"), "b": cn.column(units="Å", units_vocabulary="UCUM")}
    cn.write(path, {"a": [1], "b": [2]}, table="t", units_vocabulary="UDUNITS-2", columns=options)
    with h5py.File(path) as file:
        assert attribute(file["t"], "units_vocabulary") == utf8_text("UDUNITS-2")
        assert names(file["t/a"]) == {"units"}
        assert attribute(file["t/b"], "units") == utf8_text("Å")
        assert attribute(file["t/b"], "units_vocabulary") == utf8_text("UCUM")
    with cn.open_table(path, "t") as table:
        assert (table["a"].units, table["a"].units_vocabulary) == ("m", "UDUNITS-2")
        assert (table["b"].units, table["b"].units_vocabulary) == ("Å", "UCUM")


# -- fills and descriptions --

FILLS: list[tuple[Any, Any, str]] = [
    (pa.array([1, None], pa.int8()), -127, "-127"),
    (pa.array([1, None], pa.int16()), -32767, "-32767"),
    (pa.array([1, None], pa.int32()), -(2**31) + 1, "-2147483647"),
    (pa.array([1, None], pa.int64()), -(2**63) + 1, "-9223372036854775807"),
    (pa.array([1, None], pa.uint8()), 255, "255"),
    (pa.array([1, None], pa.uint16()), 65535, "65535"),
    (pa.array([1, None], pa.uint32()), 2**32 - 1, "4294967295"),
    (pa.array([1, None], pa.uint64()), 2**64 - 1, "18446744073709551615"),
    (pa.array([1, None], pa.float32()), np.float32(FLOAT_FILL), "9.96920996838687e+36"),
    (pa.array([1, None], pa.float64()), FLOAT_FILL, "9.969209968386869e+36"),
    (pa.array(["a", None], pa.string()), b"", '""'),
    (pa.array(["a", None]).dictionary_encode(), -1, "-1"),
]


@pytest.mark.parametrize(("array", "fill", "text"), FILLS, ids=lambda item: str(getattr(item, "type", "")))
def test_recommended_fills(path: Path, array: pa.Array, fill: Any, text: str) -> None:
    """The recommended fill is user-defined in the creation properties, and named in the description."""
    cn.write(path, pa.table({"x": array}), table="t", columns={"x": cn.column(description="Some text.")})
    with h5py.File(path) as file:
        dataset = file["t/x"]
        assert creation(dataset).fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
        assert dataset.fillvalue == fill
        assert dataset[1] == fill
        size, padding, charset, shape, value = attribute(dataset, "description")
        assert (padding, charset, shape) == (h5t.STR_NULLPAD, h5t.CSET_UTF8, None)
        assert size == len(value)
        match = re.fullmatch(rb"Some text\.\nMissing value: (.+)\.", value)
        assert match is not None
        if pa.types.is_float32(array.type):
            assert np.float32(match[1].decode()) == fill
        else:
            assert match[1].decode() == text
    with cn.open_table(path, "t") as table:
        assert table["x"].description == "Some text."


def test_a_fill_is_set_where_no_row_is_missing(path: Path) -> None:
    """A column that can spare a value has its fill set, but the description says nothing about it."""
    cn.write(path, {"x": [1, 2], "y": [0.5, 1.5], "s": ["a", "b"]}, table="t", columns={"y": {"description": "Y."}})
    with h5py.File(path) as file:
        for name in ("x", "y", "s"):
            assert creation(file["t"][name]).fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
        assert names(file["t/x"]) == names(file["t/s"]) == set()
        assert attribute(file["t/y"], "description") == utf8_text("Y.")


def test_a_fill_asked_for_is_named(path: Path) -> None:
    """A fill asked for is named in the description also where no row is missing; without a text, alone."""
    options = {"x": cn.column(fill=-1, description="X."), "y": cn.column(fill=-999.0), "s": cn.column(fill="n/a")}
    cn.write(path, {"x": [1, 2], "y": [0.5, 1.5], "s": ["a", None]}, table="t", columns=options)
    with h5py.File(path) as file:
        assert attribute(file["t/x"], "description") == utf8_text("X.\nMissing value: -1.")
        assert attribute(file["t/y"], "description") == utf8_text("Missing value: -999.0.")
        assert attribute(file["t/s"], "description") == utf8_text('Missing value: "n/a".')
        assert [file["t"][name].fillvalue for name in "xys"] == [-1, -999.0, b"n/a"]
        assert file["t/s"][1] == b"n/a"
    with cn.open_table(path, "t") as table:
        assert [table[name].description for name in "xys"] == ["X.", None, None]
        assert [table[name].fill for name in "xys"] == [-1, -999.0, "n/a"]


@pytest.mark.parametrize(
    "text", ["Missing value: none.", "Two lines.\nMissing value: see below.", "Missing value: -1.", "a\n", ""]
)
@pytest.mark.parametrize("data", [[1, 2], [1, None]], ids=["whole", "missing"])
def test_a_description_comes_back_as_it_was(path: Path, text: str, data: list[int | None]) -> None:
    """Only the line that the library added is taken off, not one that the user wrote in the same words."""
    cn.write(path, {"x": data}, table="t", columns={"x": cn.column(description=text)})
    with cn.open_table(path, "t") as table:
        assert (table["x"].description or "") == text


def test_missing_booleans(path: Path) -> None:
    """A boolean without missing rows has two members and no fill, one with them has MISSING as its fill."""
    cn.write(path, {"whole": [True, False], "gaps": [True, None]}, table="t")
    with h5py.File(path) as file:
        whole, gaps = file["t/whole"], file["t/gaps"]
        assert h5py.check_enum_dtype(gaps.dtype) == {"FALSE": 0, "TRUE": 1, "MISSING": -1}
        assert whole.dtype == np.bool_
        assert creation(whole).fill_value_defined() == h5d.FILL_VALUE_DEFAULT
        assert creation(gaps).fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
        assert gaps[...].tolist() == [1, -1]
        assert attribute(gaps, "description") == utf8_text("Missing value: MISSING.")


# -- the file --


def sample(n: int = 1000) -> dict[str, Any]:
    random = np.random.default_rng(1)
    return {
        "i": np.arange(n),
        "f": random.normal(size=n),
        "s": [f"row {number % 7}" for number in range(n)],
        "v": [[1] * (number % 3) for number in range(n)],
        "c": pa.array([f"c{number % 5}" for number in range(n)]).dictionary_encode(),
        "b": [None if number % 3 == 0 else bool(number % 2) for number in range(n)],
    }


def test_the_oldest_file_form(path: Path) -> None:
    """An ordinary table is in a file of superblock version 0, in groups and headers of the oldest form."""
    cn.write(path, sample(), table="t", labels={"id": np.arange(1000)}, title="T")
    with h5py.File(path) as file:
        plist = file.id.get_create_plist()
        assert plist.get_version()[0] == 0
    data = path.read_bytes()
    assert data[8] == 0
    assert b"OHDR" not in data


@pytest.mark.parametrize("table", ["t", "a/t"])
def test_groups_of_the_oldest_form(path: Path, table: str) -> None:
    """ASCII names are linked as h5py links them: in symbol tables (one SNOD a group), which every HDF5 reads."""
    cn.write(path, {"x": [1]}, table=table)
    assert path.read_bytes().count(b"SNOD") == table.count("/") + 2


def test_no_times(path: Path) -> None:
    """No object records when it was written."""
    cn.write(path, sample(), table="t")
    with h5py.File(path) as file:
        for name in file["t"]:
            assert h5py.h5g.get_objinfo(file["t"][name].id).mtime == 0


@pytest.mark.parametrize("table", ["t", "deep/er/t", "/"])
def test_equal_data_give_equal_files(tmp_path: Path, table: str) -> None:
    """Two writes of the same data are equal byte by byte."""
    first, second = tmp_path / "a.h5", tmp_path / "b.h5"
    for path in (first, second):
        cn.write(path, sample(), table=table, title="T", labels={"id": np.arange(1000)})
    assert first.read_bytes() == second.read_bytes()


def test_one_row_in_fifty_columns_is_small(path: Path) -> None:
    """Chunks follow the data: a table of one row costs no megabytes."""
    data = {f"c{number}": [float(number)] if number % 2 else [f"text {number}"] for number in range(50)}
    cn.write(path, data, table="t")
    assert path.stat().st_size < 400_000
    streamed = path.with_name("streamed.h5")
    cn.write(streamed, iter([data]), table="t")
    assert streamed.stat().st_size < 400_000


@pytest.mark.parametrize("n", [65_536, 65_537, 200_000])
def test_chunk_rows_of_large_tables(path: Path, n: int) -> None:
    """Large tables have chunks of 65,536 rows, whether given at once or streamed."""
    data = pa.table({"x": np.arange(n), "y": np.zeros(n, "f4"), "z": np.zeros(n, "u1")})
    cn.write(path, data, table="t")
    cn.write(path, iter(data.to_batches(max_chunksize=10_000)), table="u")
    with h5py.File(path) as file:
        for table in "tu":
            assert [file[table][name].chunks for name in "xyz"] == [(65_536,)] * 3
            assert np.array_equal(file[table]["x"][...], np.arange(n))


def test_chunk_rows_of_small_tables(path: Path) -> None:
    """Small tables have small chunks, which can still grow."""
    cn.write(path, {"x": np.arange(1000)}, table="t")
    with h5py.File(path) as file:
        assert file["t/x"].chunks[0] <= 1000
        assert file["t/x"].maxshape == (None,)


@pytest.mark.parametrize("rows", [1, 7, 1000, 100_000])
def test_chunk_rows_asked_for(path: Path, rows: int) -> None:
    """chunk_rows is taken as it is, per column."""
    cn.write(path, {"x": np.arange(1000), "y": np.arange(1000)}, table="t", columns={"x": cn.column(chunk_rows=rows)})
    with h5py.File(path) as file:
        assert file["t/x"].chunks == (rows,)
        assert file["t/y"].chunks != (rows,) or rows == 1000
        assert np.array_equal(file["t/x"][...], np.arange(1000))


def test_wide_rows_have_shorter_chunks(path: Path) -> None:
    """A chunk stays within 4 MiB."""
    cn.write(path, {"x": np.zeros((3000, 4096), "u1")}, table="t")
    with h5py.File(path) as file:
        assert file["t/x"].chunks[0] * 4096 <= 4 << 20


# -- filters --


def test_filters_chosen(path: Path) -> None:
    """Filters are tried: none on noise, some on what repeats, and only built-in ones."""
    random = np.random.default_rng(2)
    n = 70_000
    data = {
        "noise": random.random(n),
        "bytes": random.integers(0, 256, n, dtype="u1"),
        "constant": np.full(n, 7, "i8"),
        "steps": np.arange(n) // 100,
        "text": ["the same"] * n,
    }
    cn.write(path, data, table="t")
    with h5py.File(path) as file:
        found = {name: filter_ids(file["t"][name]) for name in data}
        sizes = {name: file["t"][name].id.get_storage_size() for name in data}
    assert found["noise"] == found["bytes"] == []
    for name in ("constant", "steps", "text"):
        assert found[name] != []
        assert set(found[name]) <= {1, 2, 3, 5, 6}
        assert sizes[name] < n * 8 / 3


FILTERS: list[tuple[str, list[int]]] = [
    ("none", []),
    ("shuffle", [2]),
    ("deflate", [1]),
    ("deflate:9", [1]),
    ("gzip:4", [1]),
    ("fletcher32", [3]),
    ("scale-offset", [6]),
    ("n-bit", [5]),
    ("shuffle+deflate:6+fletcher32", [2, 1, 3]),
    ("zstd", [32015]),
    ("zstd:9", [32015]),
    ("lz4", [32004]),
    ("blosc", [32001]),
    ("blosc:lz4:5:bitshuffle", [32001]),
    ("blosc2", [32026]),
    ("blosc2:zstd:3:noshuffle", [32026]),
    ("bitshuffle", [32008]),
    ("bitshuffle:zstd", [32008]),
    ("shuffle+zstd", [2, 32015]),
]


@pytest.mark.parametrize(("text", "ids"), FILTERS, ids=lambda item: item if isinstance(item, str) else "")
@pytest.mark.parametrize("kind", ["steps", "noise"])
def test_filters_asked_for(path: Path, text: str, ids: list[int], kind: str) -> None:
    """Each filter is in the creation properties in its place, and plain h5py reads the values back."""
    n = 20_000
    random = np.random.default_rng(3)
    values = np.arange(n) // 10 if kind == "steps" else random.integers(-(2**62), 2**62, n)
    cn.write(path, {"x": values}, table="t", columns={"x": cn.column(filters=text, chunk_rows=4096)})
    with h5py.File(path) as file:
        assert filter_ids(file["t/x"]) == ids
        assert np.array_equal(file["t/x"][...], values)
    assert np.array_equal(cn.read(path, "t").column("x").to_numpy(), values)


@pytest.mark.parametrize("text", ["deflate:9", "shuffle+deflate:6+fletcher32", "zstd:9", "none", "scale-offset"])
def test_the_filters_text_comes_back(path: Path, text: str) -> None:
    """Column.filters says what was asked for."""
    cn.write(path, {"x": np.arange(5000)}, table="t", columns={"x": cn.column(filters=text)})
    with cn.open_table(path, "t") as table:
        assert table["x"].filters == text


@pytest.mark.parametrize("text", ["shuffle", "deflate:4", "n-bit", "zstd", "lz4", "blosc", "blosc2", "bitshuffle"])
@pytest.mark.parametrize("code", ["u1", "f4", "f8", "i2"])
def test_filters_on_other_types(path: Path, text: str, code: str) -> None:
    """Filters without loss on other widths, read back equal by h5py."""
    values = (np.arange(3000) % 100).astype(code)
    cn.write(path, {"x": values}, table="t", columns={"x": cn.column(filters=text, chunk_rows=512)})
    with h5py.File(path) as file:
        assert np.array_equal(file["t/x"][...], values)


def test_scale_offset_with_missing_rows(path: Path) -> None:
    """Missing rows and the bounds of the type survive scale-offset."""
    values = [1, None, 2**62, -(2**63), None, 2**63 - 1] * 100
    cn.write(path, {"x": values}, table="t", columns={"x": cn.column(filters="scale-offset")})
    assert cn.read(path, "t").column("x").to_pylist() == values


def test_scale_offset_on_floats_keeps_the_decimals_asked_for(path: Path) -> None:
    """scale-offset:3 keeps three decimals of a float."""
    values = np.round(np.random.default_rng(4).random(1000), 6)
    cn.write(path, {"x": values}, table="t", columns={"x": cn.column(filters="scale-offset:3")})
    with h5py.File(path) as file:
        assert filter_ids(file["t/x"]) == [6]
        assert np.abs(file["t/x"][...] - values).max() <= 0.0006


# -- names in the group --


def test_a_column_named_like_a_categories_dataset(path: Path) -> None:
    """A column `label_categories` keeps its name; the categories dataset takes another, found by reference."""
    data = {"label": pa.array(["a", "b"]).dictionary_encode(), "label_categories": [5, 6]}
    cn.write(path, data, table="t")
    with h5py.File(path) as file:
        group = file["t"]
        assert group["label_categories"][...].tolist() == [5, 6]
        (target,) = references(group["label"], "_categories")[1]
        assert target not in ("/t/label", "/t/label_categories")
        assert [item.decode() for item in file[target][...]] == ["a", "b"]
        assert attribute(group, "column-order") == utf8_texts("label", "label_categories")
    found = cn.read(path, "t")
    assert found.column("label").to_pylist() == ["a", "b"]
    assert found.column("label_categories").to_pylist() == [5, 6]


def test_utf8_link_names(path: Path) -> None:
    """Link names that are not ASCII are marked as UTF-8, so that other readers decode them right."""
    cn.write(path, {"größe": [1]}, table="täble")
    with h5py.File(path) as file:
        group = file["täble"]
        root = file["/"]
        assert root.id.links.get_info("täble".encode()).cset == h5t.CSET_UTF8
        assert group.id.links.get_info("größe".encode()).cset == h5t.CSET_UTF8


def test_a_wide_table_has_large_attributes(path: Path) -> None:
    """column-order above 64 KiB is written whole."""
    columns = {f"a rather long name of a column, number {number:05d}": [number] for number in range(2000)}
    cn.write(path, columns, table="t", labels={"id": [1]})
    with h5py.File(path) as file:
        assert file["t"].attrs["column-order"].tolist() == [name.encode() for name in columns]
        assert h5py.h5a.open(file["t"].id, b"column-order").get_storage_size() > 65_536
        assert len(file["t/id"].attrs["_columns_list"]) == 2000


def test_a_wide_root_table(path: Path) -> None:
    """The same at the root of a new file."""
    columns = {f"a rather long name of a column, number {number:05d}": [number] for number in range(2000)}
    cn.write(path, columns, table="/")
    with h5py.File(path) as file:
        assert file.attrs["column-order"].tolist() == [name.encode() for name in columns]


def test_a_long_description(path: Path) -> None:
    """Descriptions beyond 64 KiB, of the table and of a column."""
    text = "wörds " * 20_000
    cn.write(path, {"x": [1, None]}, table="t", description=text, columns={"x": cn.column(description=text)})
    with cn.open_table(path, "t") as table:
        assert (table.description, table["x"].description) == (text, text)


def test_nothing_but_the_table_is_in_the_file(path: Path) -> None:
    """No helper is left in the file."""
    cn.write(path, sample(), table="a/b")
    found: list[str] = []
    with h5py.File(path) as file:
        file.visit(found.append)
    assert sorted(found) == sorted(["a", "a/b", *(f"a/b/{name}" for name in [*sample(1), "c_categories"])])


def test_access_times_are_off_in_groups(path: Path) -> None:
    """Link creation order is not tracked: groups stay in the oldest form."""
    cn.write(path, {"x": [1]}, table="a/t")
    with h5py.File(path) as file:
        for name in ("a", "a/t"):
            order = file[name].id.get_create_plist().get_link_creation_order()
            assert order & h5p.CRT_ORDER_TRACKED == 0
