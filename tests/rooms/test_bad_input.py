"""Bad input: a clear error with its facts as attributes, and the file as it was before."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import (
    ColonnadeError,
    ColumnNotFound,
    ConflictError,
    CorruptError,
    DataError,
    FormatError,
    PredicateError,
    TableNotFound,
    UnsupportedError,
    UsageError,
)

IMAGE = np.arange(12, dtype="u2").reshape(3, 4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a table, an image beside it, and an attribute of the user's."""
    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as h5:
        h5["image"] = IMAGE
        h5.attrs["run"] = 42
        h5.create_group("deep").attrs["note"] = "kept"
    cn.write(path, {"x": [1, None, 3], "label": pa.array(["a", None, "b"]).dictionary_encode()}, table="events")
    settle(path)
    return path


def settle(path: Path) -> None:
    """Let HDF5 do once what it does to any file it wrote when that is next opened for change.

    It takes a cached address out of the root group's entry (bytes 72 to 95), which is no change of content.
    """
    h5py.File(path, "r+").close()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def content(path: Path) -> dict[str, Any]:
    """Everything in the file as h5py sees it: links, attributes, values."""
    found: dict[str, Any] = {}

    def walk(node: Any) -> None:
        found[node.name] = {name: str(node.attrs[name]) for name in node.attrs if not is_reference(node.attrs[name])}
        if isinstance(node, h5py.Dataset):
            found[f"{node.name} values"] = node[...].tolist()
        else:
            for name in node:
                walk(node[name])

    def is_reference(value: Any) -> bool:
        return isinstance(value, h5py.Reference) or getattr(value, "dtype", None) == h5py.ref_dtype

    with h5py.File(path) as h5:
        walk(h5["/"])
    return found


def refuse(path: Path, error: type[Exception], data: Any, table: str = "new", **options: Any) -> Any:
    """The error for an existing file, which keeps every byte, and for a new one, of which nothing is left."""
    before = digest(path)
    with pytest.raises(error) as caught:
        cn.write(path, data() if callable(data) else data, table=table, **options)
    assert digest(path) == before
    fresh = path.parent / "fresh" / "new.h5"
    fresh.parent.mkdir(exist_ok=True)
    with pytest.raises(error):
        cn.write(fresh, data() if callable(data) else data, table=table, **options)
    assert list(fresh.parent.iterdir()) == []
    return caught.value


def refuse_while_writing(path: Path, error: type[Exception], data: Any, table: str = "new", **options: Any) -> Any:
    """The same for an error that shows only when rows are looked at: the file holds what it held."""
    before = content(path)
    with pytest.raises(error) as caught:
        cn.write(path, data() if callable(data) else data, table=table, **options)
    assert content(path) == before
    fresh = path.parent / "fresh" / "new.h5"
    fresh.parent.mkdir(exist_ok=True)
    with pytest.raises(error):
        cn.write(fresh, data() if callable(data) else data, table=table, **options)
    assert list(fresh.parent.iterdir()) == []
    return caught.value


# -- names and lengths --


def test_unequal_lengths(path: Path) -> None:
    """Columns of different lengths: both lengths are named."""
    error = refuse(path, DataError, {"a": [1, 2, 3], "b": [1, 2, 3], "c": [1]})
    assert error.lengths == {"a": 3, "b": 3, "c": 1}
    assert "'a'" in str(error) and "'c'" in str(error)


def test_unequal_lengths_in_a_later_batch(path: Path) -> None:
    """The same in the second batch of an iterator."""
    error = refuse_while_writing(path, DataError, lambda: iter([{"a": [1], "b": [2]}, {"a": [1, 2], "b": [1]}]))
    assert error.lengths == {"a": 2, "b": 1}


def test_label_of_another_length(path: Path) -> None:
    """A label array must have a value for each row."""
    error = refuse(path, DataError, {"a": [1, 2, 3]}, labels={"row": [1, 2]})
    assert error.column == "row"


@pytest.mark.parametrize("n", [3, 5])
def test_label_of_another_length_than_a_stream(path: Path, n: int) -> None:
    """The same where the number of rows shows only at the end."""
    error = refuse_while_writing(
        path, DataError, lambda: iter([{"a": [1, 2]}, {"a": [3, 4]}]), labels={"row": list(range(n))}
    )
    assert error.column == "row"


def test_duplicate_names(path: Path) -> None:
    """Two columns of one name."""
    data = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "b", "a"])
    assert refuse(path, DataError, data).columns == ["a"]


def test_names_that_are_one_as_text(path: Path) -> None:
    """Keys 1 and "1" would be one column."""
    refuse(path, DataError, {1: [1], "1": [2]})


@pytest.mark.parametrize("name", ["_search_indexes", "_index", "_x", "", ".", "a/b", "/a", "a\0b"])
@pytest.mark.parametrize("as_label", [False, True])
def test_reserved_names(path: Path, name: str, as_label: bool) -> None:
    """Names that HDF5 cannot link or HEP001 reserves, for columns and for labels alike."""
    data: dict[str, Any] = {"ok": [1]} if as_label else {"ok": [1], name: [2]}
    error = refuse(path, DataError, data, labels={name: [2]} if as_label else None)
    assert (error.column, error.rule) == (name, "C2")


@pytest.mark.parametrize("name", ["_search_indexes", "", ".", "a/b", "a\0b"])
def test_names_that_are_refused_even_when_one_insists(path: Path, name: str) -> None:
    """allow_reserved does not make these possible."""
    assert refuse(path, DataError, {name: [1]}, allow_reserved=True).column == name


def test_a_leading_underscore_when_one_insists(path: Path) -> None:
    """allow_reserved=True lets a leading underscore through."""
    cn.write(path, {"_x": [1, 2]}, table="new", allow_reserved=True)
    with h5py.File(path) as h5:
        assert h5["new/_x"][...].tolist() == [1, 2]
    assert cn.read(path, "new").column_names == ["_x"]


# -- types --

UNSUPPORTED = [
    (
        pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
        "sparse_union",
        "split it",
    ),
    (pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())), "map", "list<struct"),
    (pa.array([(1, 2, 3), None], pa.month_day_nano_interval()), "interval", "duration"),
    (pa.array([[], []], pa.list_(pa.null())), "null", "give it a type"),
    (pa.array([{"a": None}, {"a": None}], pa.struct([("a", pa.null())])), "null", "give it a type"),
    (pa.array([[[("k", 1)]], []], pa.list_(pa.map_(pa.string(), pa.int64()))), "map", "list<struct"),
    (pa.array([{}, {}], pa.struct([])), "struct<>", "cast it"),
    (pa.array([[], []], pa.list_(pa.int64(), 0)), "fixed_size_list", "cast it"),
    (pa.array([b"", b""], pa.binary(0)), "fixed_size_binary[0]", "cast it"),
    (
        pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array([[("k", 1)]], pa.map_("string", "int8"))),
        "map",
        "list<struct",
    ),
]


@pytest.mark.parametrize(("array", "word", "way_out"), UNSUPPORTED, ids=lambda item: str(getattr(item, "type", "-")))
def test_unsupported_types(path: Path, array: pa.Array, word: str, way_out: str) -> None:
    """A type that HDF5 cannot hold is refused before a byte is written: column, type, and what to do."""
    error = refuse(path, UsageError, pa.table({"good": [1, 2], "odd": array}))
    assert word in error.type
    assert "'odd'" in str(error)
    assert way_out in str(error)
    assert error.column == "odd"


def test_lists_without_a_common_type(path: Path) -> None:
    """A Python list of several types."""
    error = refuse(path, DataError, {"good": [1, 2], "odd": [1, "a"]})
    assert error.column == "odd"


@pytest.mark.parametrize("value", [5, "text", b"bytes", None, {1: 2}, {1, 2}, np.array(5)], ids=repr)
def test_columns_that_are_no_arrays(path: Path, value: Any) -> None:
    """A single value is no column."""
    assert refuse(path, UsageError, {"good": [1], "odd": value}).column == "odd"


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1, None]], pa.list_(pa.int64())),
        pa.array([[1, None]], pa.list_(pa.int64(), 2)),
        pa.array([{"a": 1, "b": None}], pa.struct([("a", pa.int64()), ("b", pa.int64())])),
    ],
    ids=lambda array: str(array.type),
)
def test_a_missing_part_of_a_value(path: Path, array: pa.Array) -> None:
    """HDF5 marks whole rows as missing, not parts of one: the error names the column."""
    error = refuse_while_writing(path, DataError, pa.table({"odd": array}))
    assert error.column.startswith("odd")
    assert "missing part" in str(error)


# -- options --


def test_an_unknown_option(path: Path) -> None:
    """An option that is none, as a dict and as a keyword, names the column and the word."""
    error = refuse(path, UsageError, {"x": [1]}, columns={"x": {"unit": "m"}})
    assert "'x'" in str(error) and "unit" in str(error)
    with pytest.raises(TypeError, match="unit"):
        cn.column(unit="m")  # type: ignore[call-arg]


def test_an_unknown_option_of_write(path: Path) -> None:
    """A keyword that write does not know touches nothing."""
    error = refuse(path, UsageError, {"x": [1]}, titel="x")
    assert "'title'" in str(error)


def test_options_for_a_column_that_is_not_there(path: Path) -> None:
    """The nearest names are offered."""
    error = refuse(path, ColumnNotFound, {"energy": [1], "time": [2]}, columns={"enrgy": cn.column(units="MeV")})
    assert (error.name, error.nearest) == ("enrgy", ["energy"])
    assert isinstance(error, KeyError)


def test_labels_that_are_not_there(path: Path) -> None:
    """A label name that is no column."""
    error = refuse(path, ColumnNotFound, {"row_id": [1]}, labels=["rowid"])
    assert (error.name, error.nearest) == ("rowid", ["row_id"])


def test_labels_twice(path: Path) -> None:
    """A label named twice, and a label that is a column already."""
    refuse(path, UsageError, {"a": [1], "b": [1]}, labels=["a", "a"])
    assert "'a'" in str(refuse(path, UsageError, {"a": [1], "b": [1]}, labels={"a": [1]}))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("gzip2", "gzip2"),
        ("shuffle+", ""),
        ("+deflate", ""),
        ("shuffle,deflate", "shuffle,deflate"),
        ("deflate:10", "deflate"),
        ("deflate:x", "deflate"),
        ("deflate:1:2", "deflate"),
        ("deflate:-1", "deflate"),
        ("zstd:99", "zstd"),
        ("blosc:nothing", "blosc"),
        ("blosc2:zstd:99", "blosc2"),
        ("bitshuffle:nothing", "bitshuffle"),
    ],
)
def test_bad_filters(path: Path, text: str, word: str) -> None:
    """A filter text that says nothing is refused before a byte is written, and the bad word is a fact."""
    error = refuse(path, UsageError, {"x": [1]}, columns={"x": cn.column(filters=text)})
    assert error.filter == word


@pytest.mark.parametrize(
    ("data", "text"),
    [([0.5], "scale-offset"), (["a"], "scale-offset"), (["a"], "n-bit"), ([[1, 2], [3]], "scale-offset")],
)
def test_filters_that_do_not_suit_the_type(path: Path, data: Any, text: str) -> None:
    """A filter that does not work on the column's type is refused."""
    error = refuse_while_writing(path, UsageError, {"x": data}, columns={"x": cn.column(filters=text)})
    assert error.filter == text


@pytest.mark.parametrize(("option", "value"), [("chunk_rows", 0), ("chunk_rows", -1), ("strings", "long")])
def test_options_out_of_range(option: str, value: Any) -> None:
    """Options are looked at when they are made."""
    with pytest.raises(UsageError, match=option):
        cn.column(**{option: value})


def test_a_chunk_too_large(path: Path) -> None:
    """HDF5 holds no chunk of 4 GiB or more."""
    refuse_while_writing(path, UsageError, {"x": [1.0]}, columns={"x": cn.column(chunk_rows=2**30)})


def test_units_against_the_type(path: Path) -> None:
    """A timestamp has units already."""
    data = {"t": np.array(["2020-01-01"], "M8[s]")}
    assert refuse(path, UsageError, data, columns={"t": cn.column(units="h")}).column == "t"


def test_unknown_layout_and_mode(path: Path) -> None:
    """Words that are none."""
    assert "hep001" in str(refuse(path, UsageError, {"x": [1]}, layout="hep002"))
    refuse(path, UsageError, {"x": [1]}, mode="overwrite")


# -- fills --


@pytest.mark.parametrize(
    ("array", "fill", "row", "value"),
    [
        (pa.array([5, None, -1, -1]), -1, 2, -1),
        (pa.array([5, None, 7], pa.uint8()), 7, 2, 7),
        (pa.array([0.5, None, 0.0]), -0.0, 2, 0.0),
        (pa.array(["a", None, "NA"]), "NA", 2, "NA"),
        (pa.array(["a", ""]), "", 1, ""),
        (pa.array([b"a", b""]), b"", 1, b""),
        (pa.array([b"ab", b"cd"], pa.binary(2)), b"cd", 1, b"cd"),
        (pa.array([[1], [2, 3]]), [2, 3], 1, [2, 3]),
    ],
    ids=lambda item: str(item.type) if isinstance(item, pa.Array) else repr(item),
)
def test_a_fill_that_occurs(path: Path, array: pa.Array, fill: Any, row: int, value: Any) -> None:
    """A fill asked for that is a value of the data: the first such row and its value."""
    error = refuse_while_writing(path, DataError, pa.table({"x": array}), columns={"x": cn.column(fill=fill)})
    assert (error.column, error.row, error.value) == ("x", row, value)


def test_a_fill_that_occurs_late(path: Path) -> None:
    """The row counts from the start of the table, however many batches came before."""

    def batches() -> Iterator[dict[str, Any]]:
        for _ in range(3):
            yield {"x": np.arange(50_000)}
        yield {"x": [5, -1]}

    error = refuse_while_writing(path, DataError, batches, columns={"x": cn.column(fill=-1)})
    assert (error.row, error.value) == (150_001, -1)


@pytest.mark.parametrize(
    ("array", "fill"),
    [
        (pa.array([1], pa.int8()), 300),
        (pa.array([1], pa.uint8()), -1),
        (pa.array([7], pa.int64()), 1.5),
        (pa.array([1], pa.int64()), "missing"),
        (pa.array([1.5]), "missing"),
        (pa.array(["a"]), 5),
        (pa.array([b"ab"], pa.binary(2)), b"abc"),
    ],
    ids=lambda item: str(item.type) if isinstance(item, pa.Array) else repr(item),
)
def test_a_fill_of_the_wrong_type(path: Path, array: pa.Array, fill: Any) -> None:
    """A fill that is no value of the column's type is refused before a byte is written."""
    error = refuse(path, DataError, pa.table({"x": array}), columns={"x": cn.column(fill=fill)})
    assert (error.column, error.value) == ("x", fill)


def test_fill_none_with_missing_rows(path: Path) -> None:
    """fill=None says that no row is missing: a missing one is named by its row."""
    options = {"x": cn.column(fill=None)}
    error = refuse_while_writing(path, DataError, {"x": [1, 2, None]}, columns=options)
    assert (error.column, error.row) == ("x", 2)
    cn.write(path, {"x": [1, 2]}, table="new", columns=options)
    with h5py.File(path) as h5:
        assert h5["new/x"].id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_DEFAULT


def test_fill_none_with_a_missing_bool(path: Path) -> None:
    """The same for a boolean."""
    error = refuse_while_writing(path, DataError, {"x": [True, None]}, columns={"x": cn.column(fill=None)})
    assert (error.column, error.row) == ("x", 1)


def test_fill_none_with_a_missing_category(path: Path) -> None:
    """The same for a categorical."""
    data = pa.table({"x": pa.array(["a", None]).dictionary_encode()})
    error = refuse_while_writing(path, DataError, data, columns={"x": cn.column(fill=None)})
    assert (error.column, error.row) == ("x", 1)


def test_a_field_that_is_not_nullable_with_missing_rows(path: Path) -> None:
    """nullable=False in the Arrow schema is the same promise."""
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    data = pa.Table.from_arrays([pa.array([1, None])], schema=schema)
    assert refuse_while_writing(path, DataError, data).row == 1


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_a_nan_fill(path: Path, kind: pa.DataType) -> None:
    """With fill=NaN every NaN is a missing row, and missing rows are stored as NaN."""
    data = pa.table({"x": pa.array([1.0, None, float("nan")], kind)})
    cn.write(path, data, table="new", columns={"x": cn.column(fill=float("nan"))})
    assert cn.read(path, "new").column("x").to_pylist() == [1.0, None, None]
    with h5py.File(path) as h5:
        assert np.isnan(h5["new/x"][...]).tolist() == [False, True, True]
        assert np.isnan(h5["new/x"].fillvalue)
        assert h5["new/x"].attrs["description"] == b"Missing value: nan."


@pytest.mark.parametrize("fill", [0, False, 2, "MISSING"])
def test_a_fill_for_a_boolean(path: Path, fill: Any) -> None:
    """A boolean has its own mark for missing rows."""
    assert refuse(path, UsageError, {"x": [True, False]}, columns={"x": cn.column(fill=fill)}).column == "x"


def test_a_fill_for_a_categorical(path: Path) -> None:
    """Missing categories are -1 and nothing else."""
    data = pa.table({"x": pa.array(["a"]).dictionary_encode()})
    assert refuse(path, UsageError, data, columns={"x": cn.column(fill=7)}).column == "x"


# -- categories --


def ordered(values: list[str], codes: list[int | None]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(values), ordered=True)


def test_ordered_categories_that_do_not_continue(path: Path) -> None:
    """A new category has no place in an order that is given: the row and the value are named."""
    parts = [ordered(["lo", "hi"], [0, 1, None]), ordered(["lo", "mid", "hi"], [2, 0, 1])]
    error = refuse_while_writing(path, DataError, lambda: iter([pa.record_batch({"x": part}) for part in parts]))
    assert (error.column, error.row, error.value) == ("x", 5, "mid")
    assert "categories=" in str(error)


def test_ordered_categories_that_continue(path: Path) -> None:
    """A dictionary that begins with the categories so far and goes on extends the order."""
    parts = [ordered(["lo", "hi"], [0, 1]), ordered(["lo", "hi", "top"], [2, 0])]
    cn.write(path, iter([pa.record_batch({"x": part}) for part in parts]), table="new")
    found = cn.read(path, "new").column("x")
    assert found.type.ordered
    assert found.to_pylist() == ["lo", "hi", "top", "lo"]


def test_ordered_categories_used_late(path: Path) -> None:
    """An entry that no row of a batch uses may wait; the first row that uses it is refused, not made missing."""
    parts = [ordered(["lo", "hi"], [0, 1]), ordered(["lo", "mid", "hi"], [2, 0]), ordered(["lo", "mid", "hi"], [1])]
    error = refuse_while_writing(path, DataError, lambda: iter([pa.record_batch({"x": part}) for part in parts]))
    assert (error.row, error.value) == (4, "mid")


def test_a_category_outside_those_given(path: Path) -> None:
    """categories=[...] is the whole list."""
    options = {"x": cn.column(categories=["a", "b"])}
    error = refuse_while_writing(path, DataError, {"x": ["a", None, "b", "c"]}, columns=options)
    assert (error.column, error.row, error.value) == ("x", 3, "c")


@pytest.mark.parametrize("categories", [["a", "a"], ["a", None], [1, 2], [["a"]]], ids=str)
def test_categories_that_cannot_be(path: Path, categories: list[Any]) -> None:
    """Categories are different from each other, not missing, and of the column's type."""
    error = refuse(path, DataError, {"x": ["a"]}, columns={"x": cn.column(categories=categories)})
    assert error.column == "x"


def test_enum_without_categories(path: Path) -> None:
    """enum=True needs something to make an enum of."""
    assert refuse(path, UsageError, {"x": ["a"]}, columns={"x": cn.column(enum=True)}).column == "x"
    data = pa.table({"x": pa.array([1, 2]).dictionary_encode()})
    assert refuse(path, UsageError, data, columns={"x": cn.column(enum=True)}).column == "x"


def test_fixed_strings_with_nul(path: Path) -> None:
    """NUL ends an HDF5 string: refused where the form was asked for, by row and value."""
    for strings in ("fixed", "variable"):
        options = {"x": cn.column(strings=strings)}
        error = refuse_while_writing(path, DataError, {"x": ["a", None, "b\0c"]}, columns=options)
        assert (error.column, error.row, error.value) == ("x", 2, "b\0c")


# -- files --


@pytest.fixture
def damaged(tmp_path: Path, path: Path) -> dict[str, Path]:
    """Files that are none, by what is wrong with them."""
    whole = path.read_bytes()
    named = {name: tmp_path / f"{name}.h5" for name in ("text", "empty", "truncated", "head")}
    named["text"].write_text("x,y\n1,2\n" * 100)
    named["empty"].write_bytes(b"")
    named["truncated"].write_bytes(whole[: len(whole) * 2 // 3])
    named["head"].write_bytes(whole[:48])
    return named


@pytest.mark.parametrize(
    ("name", "kind", "mode"),
    [
        *[(name, FormatError, mode) for name in ("text", "head") for mode in ("r", "r+", "a", "write")],
        *[("truncated", CorruptError, mode) for mode in ("r", "r+", "a", "write")],
        *[("empty", FormatError, mode) for mode in ("r", "r+")],
    ],
)
def test_files_that_are_not_whole_hdf5(damaged: dict[str, Path], name: str, kind: type[Exception], mode: Any) -> None:
    """Not HDF5, empty, cut short: each is named, nothing is written into it."""
    path = damaged[name]
    before = path.read_bytes()
    with pytest.raises(kind) as caught:
        if mode == "write":
            cn.write(path, {"x": [1]})
        else:
            cn.open(path, mode)
    assert isinstance(caught.value, ColonnadeError)
    assert getattr(caught.value, "path", None) == str(path)
    assert path.name in str(caught.value)
    assert path.read_bytes() == before


def test_an_empty_file_may_become_one(damaged: dict[str, Path]) -> None:
    """A file of no bytes, such as tempfile makes, holds nothing to lose."""
    cn.write(damaged["empty"], {"x": [1]})
    assert cn.read(damaged["empty"]).to_pydict() == {"x": [1]}


def test_a_folder(tmp_path: Path) -> None:
    """A folder is no file, to read or to write."""
    for attempt in (lambda: cn.open(tmp_path), lambda: cn.read(tmp_path, "t"), lambda: cn.write(tmp_path, {"x": [1]})):
        with pytest.raises(ColonnadeError, match="folder"):
            attempt()
    with pytest.raises(ColonnadeError, match="folder"):
        cn.open(tmp_path, "w")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_and_folder(tmp_path: Path) -> None:
    """What is not there cannot be read, nor written into a folder that is not there."""
    for mode in ("r", "r+"):
        with pytest.raises(FileNotFoundError, match=r"none\.h5"):
            cn.open(tmp_path / "none.h5", mode)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        cn.write(tmp_path / "nowhere" / "x.h5", {"x": [1]})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", [5, None, 1.5, ["a"]], ids=repr)
def test_targets_of_the_wrong_kind(target: Any) -> None:
    """What cannot be opened at all."""
    with pytest.raises(UsageError, match="path"):
        cn.open(target)


def test_a_closed_h5py_file(path: Path) -> None:
    """A closed h5py.File is refused by that word."""
    with h5py.File(path) as h5:
        pass
    with pytest.raises(UsageError, match="closed"):
        cn.open(h5)


def test_unknown_file_mode(path: Path) -> None:
    """Modes are r, r+, w and a."""
    before = digest(path)
    with pytest.raises(UsageError, match="'x'"):
        cn.open(path, "x")  # type: ignore[arg-type]
    assert digest(path) == before


def test_a_table_that_is_not_there(path: Path) -> None:
    """The nearest names are offered, and are attributes."""
    for attempt in (
        lambda: cn.read(path, "event"),
        lambda: cn.open_table(path, "event"),
        lambda: cn.open(path)["event"],
    ):
        with pytest.raises(TableNotFound) as caught:
            attempt()
        assert caught.value.name == "event"
        assert "events" in caught.value.nearest
        assert caught.value.where == str(path)
        assert isinstance(caught.value, (KeyError, UsageError))


def test_a_group_that_is_no_table(path: Path) -> None:
    """A plain group is not a table."""
    with pytest.raises(TableNotFound) as caught:
        cn.read(path, "deep")
    assert caught.value.name == "deep"


def test_a_dataset_instead_of_a_table(path: Path) -> None:
    """A dataset is named as one, and how to read it."""
    with pytest.raises(UsageError, match="dataset") as caught:
        cn.read(path, "image")
    assert caught.value.path == "image"
    assert not isinstance(caught.value, TableNotFound)


def test_no_table_at_all(tmp_path: Path) -> None:
    """A file without tables, and no name asked for."""
    with h5py.File(tmp_path / "plain.h5", "w") as h5:
        h5["image"] = IMAGE
    with pytest.raises(TableNotFound) as caught:
        cn.read(tmp_path / "plain.h5")
    assert caught.value.nearest == []


def test_which_table(path: Path) -> None:
    """Several tables, and no name asked for: all are named."""
    cn.write(path, {"x": [1]}, table="other")
    with pytest.raises(UsageError) as caught:
        cn.read(path)
    assert caught.value.tables == ["/events", "/other"]


def test_a_column_that_is_not_there(path: Path) -> None:
    """The nearest column names are offered."""
    for attempt in (
        lambda t: t["lable"],
        lambda t: t.select("x", "lable"),
        lambda t: t[["lable"]],
        lambda _: cn.read(path, "events", columns=["lable"]),
    ):
        with cn.open_table(path, "events") as table, pytest.raises(ColumnNotFound) as caught:
            attempt(table)
        assert (caught.value.name, caught.value.nearest) == ("lable", ["label"])


def test_a_later_version(path: Path) -> None:
    """A larger MAJOR is refused with both versions."""
    with h5py.File(path, "r+") as h5:
        h5["events"].attrs["VERSION"] = np.bytes_("2.1")
    with pytest.raises(UnsupportedError) as caught:
        cn.read(path, "events")
    assert (caught.value.found, caught.value.supported) == ("2.1", "1.0")


def test_a_read_only_file(path: Path) -> None:
    """A file that may not be written is refused; root may write anything, and then h5py's mode "r" counts."""
    before = digest(path)
    path.chmod(0o444)
    if os.access(path, os.W_OK):
        with h5py.File(path) as h5, pytest.raises(ConflictError) as caught:
            cn.write(h5, {"x": [1]}, table="new")
    else:
        with pytest.raises(ConflictError) as caught:
            cn.write(path, {"x": [1]}, table="new")
        with pytest.raises(ConflictError):
            cn.open(path, "r+")
    assert isinstance(caught.value, OSError)
    assert caught.value.path == str(path)
    assert digest(path) == before


def test_writing_into_an_h5py_file_open_for_reading(path: Path) -> None:
    """An h5py.File opened with "r" cannot be written through, nor opened for change."""
    before = digest(path)
    with h5py.File(path) as h5:
        with pytest.raises(ConflictError):
            cn.write(h5, {"x": [1]}, table="new")
        with pytest.raises(ConflictError):
            cn.open(h5, "r+")
        with pytest.raises(ConflictError):
            cn.open(h5).create("new", {"x": [1]})
    assert digest(path) == before


def test_creating_in_a_file_open_for_reading(path: Path) -> None:
    """File.create in mode "r"."""
    before = digest(path)
    with cn.open(path) as file, pytest.raises(ConflictError) as caught:
        file.create("new", {"x": [1]})
    assert caught.value.path == str(path)
    assert digest(path) == before


def test_writing_while_the_file_is_open_for_reading(path: Path) -> None:
    """A reader goes on, and sees the commit of a writer once it is there."""
    with cn.open(path) as file:
        events = file["events"]
        assert events["x"][0] == 1 and "new" not in file
        cn.write(path, {"x": [7]}, table="new")
        assert events["x"][0] == 1
        assert file["new"]["x"][0] == 7
        cn.write(path, {"x": [9, 9, 9]}, table="events", mode="replace")
        assert events["x"][:].tolist() == [9, 9, 9]


def test_writing_while_another_program_writes(path: Path) -> None:
    """A file that plain h5py has open for writing is refused, and not touched."""
    with h5py.File(path, "r+"):
        before = digest(path)
        code = "import colonnade as cn, sys; cn.write(sys.argv[1], {'x': [1]}, table='new')"
        other = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
        assert other.returncode == 1 and "ConflictError" in other.stderr
        assert digest(path) == before


# -- places --


def test_a_table_that_exists(path: Path) -> None:
    """mode="error" keeps the table and every byte of the file."""
    before = digest(path)
    with pytest.raises(UsageError, match="replace") as caught:
        cn.write(path, {"y": [1]}, table="events")
    assert caught.value.path == "/events"
    assert digest(path) == before


def test_a_table_that_exists_in_a_file_just_written(tmp_path: Path) -> None:
    """Nor does a refusal let HDF5 touch a file that was never opened for change."""
    path = tmp_path / "t.h5"
    cn.write(path, {"x": [1]}, table="t")
    before = digest(path)
    with pytest.raises(UsageError):
        cn.write(path, {"x": [1]}, table="t")
    assert digest(path) == before


def test_replace(path: Path) -> None:
    """mode="replace" puts the new table in the place of the old, and leaves nothing else behind."""
    cn.write(path, {"y": [1.5]}, table="events", mode="replace")
    with h5py.File(path) as h5:
        assert sorted(h5) == ["deep", "events", "image"]
        assert sorted(h5["events"]) == ["y"]
        assert h5["events"].attrs["column-order"].tolist() == [b"y"]
        assert h5["image"][...].tolist() == IMAGE.tolist()


def failing() -> Iterator[dict[str, Any]]:
    yield {"x": np.arange(70_000.0), "z": np.zeros(70_000)}
    raise RuntimeError("no more")


def test_replace_that_fails(path: Path) -> None:
    """An error while the new table is written leaves the old one."""
    before = content(path)
    with pytest.raises(RuntimeError, match="no more"):
        cn.write(path, failing(), table="events", mode="replace")
    assert content(path) == before


def test_replace_of_a_root_table_that_fails(tmp_path: Path) -> None:
    """The same where the table is the root of the file."""
    path = tmp_path / "root.h5"
    cn.write(path, {"x": [1, 2], "c": pa.array(["a", "b"]).dictionary_encode()}, table="/", title="Old")
    before = content(path)
    with pytest.raises(RuntimeError, match="no more"):
        cn.write(path, failing(), table="/", mode="replace")
    assert content(path) == before


def test_replace_of_a_root_table_keeps_what_others_put_there(tmp_path: Path) -> None:
    """Foreign objects in a root table survive a replacement, and a failed one."""
    path = tmp_path / "root.h5"
    cn.write(path, {"x": [1, 2]}, table="/")
    with h5py.File(path, "r+") as h5:
        h5["image"] = IMAGE
    cn.write(path, {"y": [3.5]}, table="/", mode="replace")
    with h5py.File(path) as h5:
        assert sorted(h5) == ["image", "y"]
        assert h5["image"][...].tolist() == IMAGE.tolist()


def test_a_column_named_like_a_foreign_object_of_the_root(tmp_path: Path) -> None:
    """A new root table with a column of the name of a foreign object is refused; the object survives."""
    path = tmp_path / "root.h5"
    cn.write(path, {"x": [1, 2]}, table="/")
    with h5py.File(path, "r+") as h5:
        h5["image"] = IMAGE
    before = content(path)
    with pytest.raises(ColonnadeError):
        cn.write(path, {"image": [1, 2, 3]}, table="/", mode="replace")
    assert content(path) == before


def test_a_failed_root_table_leaves_an_empty_file_empty(tmp_path: Path) -> None:
    """A root table that fails in a file that was there and empty leaves neither datasets nor attributes."""
    path = tmp_path / "root.h5"
    h5py.File(path, "w").close()
    before = content(path)
    with pytest.raises(RuntimeError):
        cn.write(path, failing(), table="/")
    assert content(path) == before


@pytest.mark.parametrize("table", ["events/inner", "events/a/b", "events/x"])
def test_a_table_inside_a_table(path: Path, table: str) -> None:
    """Nothing but the table's own objects goes below a table group (T7)."""
    before = digest(path)
    with pytest.raises(UsageError) as caught:
        cn.write(path, {"x": [1]}, table=table)
    assert caught.value.rule == "T7"
    assert digest(path) == before


def test_a_table_below_a_root_table(tmp_path: Path) -> None:
    """The same where the root is the table."""
    path = tmp_path / "root.h5"
    cn.write(path, {"x": [1]}, table="/")
    settle(path)
    before = digest(path)
    with pytest.raises(UsageError) as caught:
        cn.write(path, {"x": [1]}, table="inner")
    assert caught.value.rule == "T7"
    assert digest(path) == before


@pytest.mark.parametrize("table", ["image", "image/inner", "image/a/b"])
@pytest.mark.parametrize("mode", ["error", "replace"])
def test_a_path_at_or_below_a_dataset(path: Path, table: str, mode: Any) -> None:
    """A dataset is never replaced by a table, nor has a table below it."""
    before = digest(path)
    with pytest.raises(UsageError, match="/image is a dataset"):
        cn.write(path, {"x": [1]}, table=table, mode=mode)
    assert digest(path) == before


@pytest.mark.parametrize("mode", ["error", "replace"])
def test_a_root_table_beside_other_objects(path: Path, mode: Any) -> None:
    """The root cannot become a table while other objects live in it."""
    before = digest(path)
    with pytest.raises(UsageError) as caught:
        cn.write(path, {"x": [1]}, table="/", mode=mode)
    assert caught.value.path == "/"
    assert digest(path) == before


@pytest.mark.parametrize("mode", ["error", "replace"])
def test_a_group_that_holds_other_objects(path: Path, mode: Any) -> None:
    """Nor can any other group."""
    with h5py.File(path, "r+") as h5:
        h5["deep/array"] = [1, 2, 3]
    before = digest(path)
    with pytest.raises(UsageError) as caught:
        cn.write(path, {"x": [1]}, table="deep", mode=mode)
    assert caught.value.path == "/deep"
    assert digest(path) == before


def test_an_empty_group_survives_a_failure(path: Path) -> None:
    """An empty group may become the table; when the writing fails it is there again, with its attributes."""
    before = content(path)
    with pytest.raises(RuntimeError):
        cn.write(path, failing(), table="deep")
    assert content(path) == before


def test_an_empty_group_keeps_its_attributes(path: Path) -> None:
    """What a user noted at an empty group is there after it became a table."""
    cn.write(path, {"x": [1]}, table="deep")
    with cn.open_table(path, "deep") as table:
        assert table.attrs == {"note": "kept"}


@pytest.mark.parametrize("table", ["a/../b", ".", "..", "a/./b", "a\0b"])
def test_paths_that_cannot_be(path: Path, table: str) -> None:
    """Paths that HDF5 cannot link."""
    refuse(path, UsageError, {"x": [1]}, table=table)


@pytest.mark.parametrize("table", ["a", "/a", "a/", "//a//", "b/c", "/b//c/d/"])
def test_paths_are_made_plain(path: Path, table: str) -> None:
    """Slashes before, after and twice do not matter."""
    cn.write(path, {"x": [1]}, table=table)
    plain = "/" + "/".join(part for part in table.split("/") if part)
    assert plain in cn.open(path).tables()
    with h5py.File(path) as h5:
        assert f"{plain}/x" in h5


def test_nothing_is_left_behind_by_a_failed_file(tmp_path: Path) -> None:
    """An error inside `with cn.open(path, "w")` keeps the file that stood there."""
    path = tmp_path / "f.h5"
    cn.write(path, {"x": [1]}, table="t")
    before = digest(path)

    def fail() -> None:
        with cn.open(path, "w") as file:
            file.create("t", {"x": [2]})
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError):
        fail()
    assert digest(path) == before
    assert [item.name for item in tmp_path.iterdir()] == ["f.h5"]


def test_a_new_file_appears_when_it_is_closed(tmp_path: Path) -> None:
    """Until then there is only the part file, which nobody takes for the whole."""
    path = tmp_path / "f.h5"
    with cn.open(path, "w") as file:
        file.create("t", {"x": [2]})
        assert not path.exists()
        assert sorted(item.suffix for item in tmp_path.iterdir()) == [".h5-lock", ".part"]
    assert [item.name for item in tmp_path.iterdir()] == ["f.h5"]


# -- the errors themselves --

EXAMPLES = [
    ColonnadeError("m"),
    UsageError("m", column="x"),
    ColumnNotFound("enrgy", "table /t", ["energy", "time"]),
    TableNotFound("event", "f.h5", ["events"]),
    TableNotFound("event", "f.h5", []),
    DataError("m", column="x", row=3, value=4),
    PredicateError("m", text="x >", position=3),
    FormatError("m", path="/p", rule="T1"),
    CorruptError("m", path="/p", row=1),
    UnsupportedError("m", feature="f", path="/p"),
    ConflictError("m", path="/p"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_are_picklable(error: ColonnadeError) -> None:
    """An error crosses process borders with its message and its facts."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.args == error.args
    assert vars(copy) == vars(error)


def test_an_error_from_the_library_is_picklable(path: Path) -> None:
    """The same for one that the library raised."""
    with pytest.raises(DataError) as caught:
        cn.write(path, {"x": [1, None]}, table="new", columns={"x": cn.column(fill=1)})
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.column, copy.row, copy.value) == ("x", 0, 1)


def test_errors_have_only_the_fields_of_their_class() -> None:
    """A field that is not known is None; one that the class does not have can be neither given nor read."""
    assert DataError("m", column="x").row is None
    assert not hasattr(DataError("m"), "offset")
    with pytest.raises(TypeError, match="offset"):
        DataError("m", offset=3)  # type: ignore[call-arg]


def test_messages_are_rendered_from_the_fields() -> None:
    """A column or a row that is learnt later is set as a field, and the message follows."""
    error = DataError("does not fit", path="/t", batch=2, column="x", row=3)
    assert str(error) == "/t, batch 2, column 'x', row 3: does not fit"
    error.row = 40
    assert str(error) == "/t, batch 2, column 'x', row 40: does not fit"
    damaged = CorruptError("cannot be read", path="/t/x", row=3, last_row=9)
    assert str(damaged) == "/t/x, rows 3 to 9: cannot be read"
    damaged.advice = "Leave it out"
    assert str(damaged) == "/t/x, rows 3 to 9: cannot be read. Leave it out"
    assert str(CorruptError("cannot be read")) == "cannot be read"
    predicate = PredicateError("expected a value")
    assert str(predicate) == "expected a value"
    predicate.text, predicate.position = "x >", 3
    assert str(predicate) == "expected a value\n  x >\n     ^"


@pytest.mark.parametrize(
    ("kind", "parents"),
    [
        (UsageError, (ColonnadeError, ValueError)),
        (ColumnNotFound, (UsageError, KeyError)),
        (TableNotFound, (UsageError, KeyError)),
        (DataError, (UsageError,)),
        (CorruptError, (FormatError,)),
        (UnsupportedError, (ColonnadeError,)),
        (ConflictError, (ColonnadeError, OSError)),
    ],
)
def test_the_tree_of_errors(kind: type[Exception], parents: tuple[type[Exception], ...]) -> None:
    """The tree as the architecture draws it."""
    assert all(issubclass(kind, parent) for parent in parents)
