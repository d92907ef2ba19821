"""Cells, columns, texts and rows changed: the rules stay true, refusals leave the table as it was."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import ColumnNotFound, ConflictError, DataError, UsageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of three columns, a categorical and a label, beside an array and a foreign object in its group."""
    path = tmp_path / "x.h5"
    data = {
        "i": pa.array([1, None, 3], pa.int8()),
        "s": ["a", "bb", None],
        "c": pa.array(["x", None, "y"]).dictionary_encode(),
        "id": ["r0", "r1", "r2"],
    }
    cn.write(path, data, table="t", title="T", labels=["id"], columns={"i": cn.column(units="m", description="D")})
    with h5py.File(path, "r+") as file:
        file["cube"] = np.arange(8).reshape(2, 2, 2)
        file["t/foreign"] = np.zeros((2, 2))
        file["t/i"].attrs["mine"] = "kept"
    return path


def names(values: Any, file: h5py.File) -> list[str]:
    return [file[reference].name.rsplit("/", 1)[-1] for reference in values]


def check_rules(path: Path) -> None:
    """References both ways, one length, column-order: read by plain h5py."""
    with h5py.File(path, "r") as file:
        group = file["t"]
        order = [name.decode() for name in group.attrs["column-order"]]
        labels = [name for name in group if "_columns_list" in group[name].attrs]
        lengths = {group[name].shape[0] for name in [*order, *labels]}
        assert len(lengths) == 1
        for name in order:
            assert names(group[name].attrs.get("_indexes", []), file) == labels
            if "_categories" in group[name].attrs:
                assert file[group[name].attrs["_categories"]].attrs["encoding-type"] == b"categorical"
        for label in labels:
            assert sorted(names(group[label].attrs["_columns_list"], file)) == sorted(order)
        assert group["foreign"].shape == (2, 2) and file["cube"][1, 1, 1] == 7
    with cn.open(path) as file:
        assert [problem for problem in file["t"].problems if problem.severity != "note"] == []


def test_update_cells(path: Path) -> None:
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.update("i", [2, 0], [None, 100])
        table.update("s", [-1], ["a much longer text"])
        table.update("c", np.array([1, 0]), ["new", None])
        assert table.to_arrow().to_pydict() == {
            "i": [100, None, None],
            "s": ["a", "bb", "a much longer text"],
            "c": [None, "new", "y"],
            "id": ["r0", "r1", "r2"],
        }
        assert table["i"].units == "m" and table["i"].description == "D"
    with h5py.File(path, "r") as file:
        assert file["t/i"].attrs["mine"] == "kept"
    check_rules(path)


@pytest.mark.parametrize(
    ("column", "rows", "values", "kind"),
    [
        ("i", [2], [300], DataError),
        ("i", [0, 2], [5, 300], DataError),
        ("i", [0], ["5"], DataError),
        ("i", [0, 1], [5], DataError),
        ("i", [0, 0], [5, 6], UsageError),
        ("i", [3], [5], UsageError),
        ("nothing", [0], [5], ColumnNotFound),
        (["ts"], [0], [5], UsageError),
    ],
)
def test_updates_that_are_refused(path: Path, column: str, rows: list[int], values: list[Any], kind: type) -> None:
    with cn.open(path, "r+") as file:
        table = file["t"]
        held = table.to_arrow()
        with pytest.raises(kind) as caught:
            table.update(column, rows, values)
        assert table.to_arrow().equals(held)
    if isinstance(caught.value, DataError) and caught.value.row is not None:
        assert (caught.value.row, caught.value.value) == (rows[-1], values[-1])
        assert f"row {rows[-1]}" in str(caught.value)
    check_rules(path)


def test_an_update_with_an_unknown_ordered_category_names_its_row(tmp_path: Path) -> None:
    """The row of the table, not the place among the values given, which came in no order."""
    path = tmp_path / "x.h5"
    kinds = pa.array(["a", "b", "a"]).dictionary_encode()
    cn.write(path, {"x": kinds}, columns={"x": cn.column(ordered=True)})
    with cn.open(path, "r+") as file, pytest.raises(DataError) as caught:
        file["table"].update("x", [2, 1], ["z", "a"])
    assert (caught.value.row, caught.value.value) == (2, "z")


def test_columns_added_renamed_dropped(path: Path) -> None:
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.add_column("charge", pa.array([1, -1, None], pa.int8()), units="e", description="Charge")
        table.rename_column("c", "kind")
        table.rename_column("id", "name")
        table.drop_column("s")
        assert (table.columns, table.labels) == (["i", "kind", "charge"], ["name"])
        assert table["charge"].units == "e" and table["charge"][:].tolist() == [1, -1, None]
        assert table["kind"].categories.to_pylist() == ["x", "y"]
        assert list(file.h5["t"]) == ["charge", "foreign", "i", "kind", "kind_categories", "name"]
    check_rules(path)
    with cn.open(path, "r+") as file:
        file["t"].drop_column("name")
        assert file["t"].labels == [] and "_index" not in file.h5["t"].attrs
        file["t"].drop_column("kind")
        assert "kind_categories" not in file.h5["t"]


@pytest.mark.parametrize(("name", "rows"), [("i", 3), ("_x", 3), ("foreign", 3), ("new", 2), ("a/b", 3)])
def test_columns_that_cannot_be_added(path: Path, name: str, rows: int) -> None:
    with cn.open(path, "r+") as file:
        with pytest.raises(UsageError):
            file["t"].add_column(name, list(range(rows)))
        assert file["t"].columns == ["i", "s", "c"]
    check_rules(path)


def test_a_column_replaced_keeps_its_place_texts_and_foreign_attributes(path: Path) -> None:
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.replace_column("i", ["x", None, "a longer text"])
        assert (table.columns, table.labels) == (["i", "s", "c"], ["id"])
        assert table["i"].dtype == pa.string()
        assert (table["i"].units, table["i"].description) == ("m", "D")
        assert table.to_arrow().column("i").to_pylist() == ["x", None, "a longer text"]
    with h5py.File(path, "r") as file:
        assert file["t/i"].attrs["mine"] == "kept"
        assert file["t/i"].attrs["description"] == b'D\nMissing value: "".'
    check_rules(path)


def test_a_column_replaced_takes_the_texts_that_are_given(path: Path) -> None:
    with cn.open(path, "r+") as file:
        table = file["t"]
        table["i"].units_vocabulary = "UDUNITS"
        table.replace_column("i", [1.5, 2.5, 3.5], units="km", description="Other", chunk_rows=2)
        assert (table["i"].units, table["i"].description, table["i"].chunk_rows) == ("km", "Other", 2)
        assert table["i"].units_vocabulary == "UDUNITS"
    check_rules(path)


def test_replaced_categories_go_with_their_column(path: Path) -> None:
    """Other categories take their place; plain values leave none behind."""
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.replace_column("c", pa.array(["z", "x", None]).dictionary_encode())
        assert table["c"].categories.to_pylist() == ["z", "x"]
        assert list(file.h5["t"]) == ["c", "c_categories", "foreign", "i", "id", "s"]
        table.replace_column("c", [1, 2, 3])
        assert table["c"].categories is None and "_categories" not in file.h5["t/c"].attrs
        assert list(file.h5["t"]) == ["c", "foreign", "i", "id", "s"]
        table.replace_column("s", pa.array(["u", "u", "v"]).dictionary_encode())
        assert list(file.h5["t"]) == ["c", "foreign", "i", "id", "s", "s_categories"]
    check_rules(path)


def test_a_label_replaced_is_still_the_label(path: Path) -> None:
    pytest.importorskip("pandas")
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.replace_column("id", pa.array([30, 10, 20], pa.int16()))
        assert (table.columns, table.labels) == (["i", "s", "c"], ["id"])
        assert table.to_arrow().column("id").to_pylist() == [30, 10, 20]
        table.append({"i": [4], "s": ["d"], "c": ["y"], "id": [40]})
        assert table.to_pandas().index.tolist() == [30, 10, 20, 40]
    check_rules(path)


def test_what_says_how_the_old_values_were_stored_goes(tmp_path: Path) -> None:
    """Units of times, the scale of a decimal and the Arrow type are of the values, not of the column."""
    path = tmp_path / "x.h5"
    data = {
        "time": pa.array([1, 2], pa.timestamp("us")),
        "price": pa.array([1, 2], pa.int32()).cast(pa.decimal128(12, 2)),
    }
    cn.write(path, data)
    with cn.open(path, "r+") as file:
        table = file["table"]
        table.replace_column("time", [7, 8])
        table.replace_column("price", [0.5, None])
        assert table.to_arrow().to_pydict() == {"time": [7, 8], "price": [0.5, None]}
        assert table["time"].units is None
        assert list(file.h5["table/time"].attrs) == [] and list(file.h5["table/price"].attrs) == ["description"]
        table["time"].units = "m"
        table.replace_column("time", pa.array([1, 2], pa.duration("s")))
        assert table["time"].units == "seconds" and table["time"].dtype == pa.duration("s")


@pytest.mark.parametrize(
    ("column", "values", "options", "kind"),
    [
        ("nothing", [1, 2, 3], {}, ColumnNotFound),
        ("i", [1, 2], {}, DataError),
        ("i", pa.array([1, 2, 3], pa.timestamp("s")), {"units": "m"}, UsageError),
        ("i", [1, 2, 3], {"unit": "m"}, UsageError),
        ("c", pa.array([["a"], ["b\0"], []]), {}, DataError),
        ("s", pa.array([{"a": "x"}, None, {"a": "y"}]), {}, DataError),
    ],
)
def test_replacements_that_are_refused(
    path: Path, column: str, values: Any, options: dict[str, Any], kind: type
) -> None:
    """The old column stays, also in a file without a journal, where nothing can be rolled back."""
    with cn.open(path) as file:
        held = file["t"].to_arrow()
    with cn.open(path, "r+") as file:
        with pytest.raises(kind):
            file["t"].replace_column(column, values, **options)
        assert file["t"].to_arrow().equals(held, check_metadata=True)
    check_rules(path)
    with h5py.File(path, "r+") as plain, pytest.raises(kind):
        cn.open(plain)["t"].replace_column(column, values, **options)
    with cn.open(path) as file:
        assert file["t"].to_arrow().equals(held, check_metadata=True)
        assert list(file.h5["t"]) == ["c", "c_categories", "foreign", "i", "id", "s"]
    check_rules(path)


def test_the_only_column_may_be_replaced_by_a_longer_one(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, {"x": [1, 2]}, title="T")
    with cn.open(path, "r+") as file:
        file["table"].replace_column("x", pa.chunked_array([[1.5], [], [2.5, None]]))
        assert (len(file["table"]), file["table"].title) == (3, "T")
    assert cn.read(path).to_pydict() == {"x": [1.5, 2.5, None]}


def test_a_replacement_is_a_part_of_a_transaction(path: Path) -> None:
    with cn.open(path, "r+") as file:
        table = file["t"]
        with file.transaction():
            table.replace_column("s", [1, 2, 3])
            table.rename_column("s", "number")
            table.append({"i": [9], "number": [4], "c": ["x"], "id": ["r3"]})
        assert table.to_arrow().column("number").to_pylist() == [1, 2, 3, 4]
        with pytest.raises(KeyError), file.transaction():
            table.replace_column("number", ["a", "b", "c", "d"])
            raise KeyError
        assert table.to_arrow().column("number").to_pylist() == [1, 2, 3, 4]
    check_rules(path)


def test_texts(path: Path) -> None:
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.title = "Größe"
        table.description = "All of it"
        table["i"].units = "km"
        table["i"].description = "Other"
        table["s"].description = None
    with h5py.File(path, "r") as file:
        assert file["t"].attrs["TITLE"] == "Größe".encode()
        assert file["t/i"].attrs["description"] == b"Other\nMissing value: -127."
    with cn.open(path) as file:
        table = file["t"]
        assert (table.title, table.description) == ("Größe", "All of it")
        assert (table["i"].units, table["i"].description, table["s"].description) == ("km", "Other", None)


def test_append_to_what_others_wrote(tmp_path: Path) -> None:
    """Contiguous, big-endian, space-padded columns without a fill take rows, missing ones too."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("t")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_("COLUMN_TABLE"), np.bytes_("1.0")
        group.create_dataset("big", data=np.arange(3, dtype=">i4"))
        group.create_dataset("text", data=np.array([b"ab", b"c", b""], "S2"))
        group.attrs["column-order"] = np.array([b"big", b"text"])
    with cn.open(path, "r+") as file:
        file["t"].append({"big": [7, None], "text": ["longer", None]})
    found = cn.read(path).to_pydict()
    assert found == {"big": [0, 1, 2, 7, None], "text": ["ab", "c", "", "longer", None]}


def test_chunks_grow_with_a_table_that_began_small(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, {"x": [0]})
    with cn.open(path, "r+", durability="fast") as file:
        table = file["table"]
        for start in range(1, 60_000, 5_000):
            table.append({"x": np.arange(start, start + 5_000)})
        assert table["x"].chunk_rows >= 2048
        assert np.array_equal(np.asarray(table["x"]), np.arange(60_001))


def test_search_indexes_of_others_go_when_rows_change(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        index = file.create_dataset("t/_search_indexes/i__x", data=[1])
        file["t/i"].attrs["_search_indexes"] = np.array([index.ref], dtype=h5py.ref_dtype)
    with cn.open(path, "r+") as file:
        file["t"].truncate(2)
        assert "_search_indexes" not in file.h5["t"] and "_search_indexes" not in file.h5["t/i"].attrs


def test_search_indexes_of_others_go_when_a_column_is_replaced(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        index = file.create_dataset("t/_search_indexes/i__x", data=[1])
        file["t/i"].attrs["_search_indexes"] = np.array([index.ref], dtype=h5py.ref_dtype)
    with cn.open(path, "r+") as file:
        file["t"].replace_column("i", [1, 2, 3])
        assert "_search_indexes" not in file.h5["t"] and "_search_indexes" not in file.h5["t/i"].attrs


def test_a_transaction_in_which_a_change_failed_is_taken_back(path: Path) -> None:
    """Also when the caller swallowed the error: half a change must not be committed."""
    with cn.open(path, "r+") as file:
        with pytest.raises(UsageError, match="rolled back"), file.transaction():
            file["t"].truncate(1)
            with pytest.raises(DataError):
                file["t"].append({"i": [999], "s": ["a"], "c": ["x"], "id": ["r"]})
        assert len(file["t"]) == 3


def test_changes_need_a_file_open_for_them(path: Path) -> None:
    with cn.open(path) as file:
        for attempt in (
            lambda: file["t"].append({}),
            lambda: file["t"].truncate(0),
            lambda: file["t"].drop_column("i"),
            lambda: file.drop("t"),
        ):
            with pytest.raises(ConflictError):
                attempt()


def test_write_with_mode_append(tmp_path: Path) -> None:
    """The first call creates the table, the others add to it; a wrong mode is refused."""
    path = tmp_path / "x.h5"
    for start in (0, 2, 4):
        cn.write(path, iter([{"x": [start, start + 1]}]), table="t", mode="append")
    assert cn.read(path, "t").to_pydict() == {"x": [0, 1, 2, 3, 4, 5]}
    with h5py.File(path, "r+") as file:
        cn.write(file, {"x": [6]}, table="t", mode="append")
    assert cn.read(path, "t").num_rows == 7
    with pytest.raises(UsageError, match="mode"):
        cn.write(path, {"x": [1]}, table="t", mode="extend")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (pa.array([1, None], pa.int32()), -(2**31) + 1),
        (pa.array([1, None], pa.uint8()), 255),
        (pa.array([1.5, None]), 9.9692099683868690e36),
        (pa.array(["a", None]), ""),
        (pa.array([[1], None], pa.list_(pa.int8())), []),
    ],
)
def test_an_appended_value_that_equals_a_chosen_fill(tmp_path: Path, first: pa.Array, later: Any) -> None:
    """A fill that colonnade chose gives way: missing rows stay missing, and the value is a value."""
    path = tmp_path / "x.h5"
    cn.write(path, {"x": first})
    more = pa.array([first[0].as_py(), later, None], first.type)
    with cn.open(path, "r+") as file:
        with file.transaction():
            file["table"].update("x", [0], pa.array([later], first.type))
            assert file["table"].to_arrow().column("x").to_pylist() == [later, None]
            file["table"].update("x", [0], first.slice(0, 1))
        file["table"].append({"x": more})
        assert file["table"].to_arrow().column("x").to_pylist() == [*first.to_pylist(), *more.to_pylist()]
        assert file["table"].where("x is missing").row_numbers().tolist() == [1, 4]


@pytest.mark.parametrize(
    ("first", "fill", "later"),
    [
        (pa.array([1, None], pa.int32()), -1, -1),
        (pa.array([1.5, None]), -999.0, -999.0),
        (pa.array(["a", None]), "none", "none"),
        (pa.array([[{"f": True}], None]), "auto", []),
    ],
)
def test_an_appended_value_that_equals_the_fill_is_refused_by_row(
    tmp_path: Path, first: pa.Array, fill: Any, later: Any
) -> None:
    """A fill that somebody else chose, or that has no substitute: it would read as missing."""
    path = tmp_path / "x.h5"
    cn.write(path, {"x": first}, columns={} if fill == "auto" else {"x": cn.column(fill=fill)})
    with cn.open(path, "r+") as file:
        with pytest.raises(DataError) as caught:
            file["table"].append({"x": pa.array([first[0].as_py(), later], first.type)})
        assert (caught.value.column, caught.value.row, caught.value.value) == ("x", 3, later)
        assert file["table"].to_arrow().column("x").to_pylist() == first.to_pylist()


def test_appends_one_after_another_are_checked_each(tmp_path: Path) -> None:
    """The writers of one append go on with the next: what it may hold is asked again, and so are the indexes."""
    path = tmp_path / "x.h5"
    cn.write(path, {"x": [1, 2], "s": ["a", "b"]})
    with cn.open(path, "r+") as file:
        table = file["table"]
        table.append({"x": [3], "s": ["c"]})
        table.append({"s": ["d"], "x": [4]})
        for odd in ({"x": [5]}, {"x": [5], "s": ["e"], "y": [5]}, {"x": ["5"], "s": ["e"]}, {"x": [5.5], "s": ["e"]}):
            with pytest.raises(DataError):
                table.append(odd)
        table.append({"x": [5], "s": ["e"]})
        table.build_index("x", "sorted_rows")
        table.append({"x": [0], "s": ["f"]})
        table.append({"x": [0], "s": ["longer than before"]})
        assert table.verify_indexes() == [] and table.where("x == 0").to_arrow().num_rows == 2
        assert table.to_arrow().column("x").to_pylist() == [1, 2, 3, 4, 5, 0, 0]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([True, False, True] * 9),
        pa.array(["same", "size"] * 9),
        pa.array(["", "two", "né"] * 9),
        pa.array(["a", None, "b"] * 9, pa.large_string()),
        pa.array(["a", "b", "cc"] * 9, pa.large_string()),
        pa.array([1, 2, 3] * 9, pa.timestamp("us", "UTC")),
        pa.array([1, 2, None] * 9, pa.date32()),
        pa.array([0.5, float("nan"), -0.0] * 9, pa.float32()),
    ],
    ids=str,
)
@pytest.mark.parametrize("chunk_rows", [4, 5, 100])
def test_parts_of_arrays_are_appended(tmp_path: Path, array: pa.Array, chunk_rows: int) -> None:
    """Arrow arrays that begin inside their buffers, whole chunks and others."""
    path = tmp_path / "x.h5"
    bounds = [(0, 1), (1, 5), (5, 10), (10, 26), (26, 27)]
    cn.write(path, {"x": array.slice(0, 1)}, columns={"x": cn.column(chunk_rows=chunk_rows, filters="none")})
    with cn.open(path, "r+") as file:
        for start, stop in bounds[1:]:
            file["table"].append({"x": array.slice(start, stop - start)})
    found = cn.read(path).column("x").combine_chunks()
    assert str(found.to_pylist()) == str(array.to_pylist())  # as text: NaN is not NaN


@pytest.mark.parametrize("base", ["i1", "<i4", ">i2", "u8"])
def test_append_to_booleans_of_any_width(tmp_path: Path, base: str) -> None:
    """An enum of FALSE and TRUE as others store it."""
    path = tmp_path / "x.h5"
    cn.write(path, {"b": [True], "x": [0]})
    with h5py.File(path, "r+") as file:
        del file["table/b"]
        kind = h5py.enum_dtype({"FALSE": 0, "TRUE": 1}, basetype=base)
        file["table"].create_dataset("b", data=np.ones(1, base), dtype=kind, maxshape=(None,), chunks=(4,))
    later = [False, True, True, False, True, True, False, False, True]
    with cn.open(path, "r+") as file:
        file["table"].append({"b": later, "x": list(range(9))})
    assert cn.read(path).column("b").to_pylist() == [True, *later]
    with h5py.File(path) as file:
        assert file["table/b"][:].astype(bool).tolist() == [True, *later]


def test_a_refused_append_names_the_row_of_the_table(tmp_path: Path) -> None:
    """Also where the value that cannot be stored lies inside a list, and the rows were taken a chunk at a time."""
    path = tmp_path / "t.h5"
    cn.write(path, {"x": pa.array([["a"]] * 10)}, table="t", columns={"x": cn.column(chunk_rows=4)})
    with cn.open(path, "r+") as file:
        with pytest.raises(DataError) as refused:
            file["t"].append({"x": pa.array([["a"]] * 7 + [["a", "b\0c"]])})
        assert refused.value.row == 17
        assert "row 17" in str(refused.value)
        assert len(file["t"]) == 10


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_columns_that_share_their_categories_grow_apart(tmp_path: Path, order: tuple[str, str]) -> None:
    """New categories of one do not become those of the other, and none loses its own."""
    path = tmp_path / "t.h5"
    words = pa.array(["x", "y", "x"]).dictionary_encode()
    cn.write(path, {"a": words, "b": words}, table="t")
    with h5py.File(path, "r+") as file:
        first, second = order
        file["t"][second].attrs["_categories"] = file["t"][f"{first}_categories"].ref
        del file["t"][f"{second}_categories"]
    rows = {"a": ["x", "y", "x"], "b": ["x", "y", "x"]}
    with cn.open(path, "r+") as file:
        for more in ({"a": ["new"], "b": ["y"]}, {"a": ["x"], "b": ["other"]}, {"a": ["third"], "b": ["fourth"]}):
            file["t"].append(more)
            rows = {name: rows[name] + more[name] for name in rows}
            assert {name: file["t"][name].to_arrow().to_pylist() for name in rows} == rows
    found = cn.read(path, "t")
    assert {name: found.column(name).to_pylist() for name in rows} == rows


def test_a_chunk_that_skips_a_filter_is_changed_again(tmp_path: Path) -> None:
    """HDF5 remembers of the chunk written last which filters it skipped before: it must not be asked to read it."""
    path, rng = tmp_path / "x.h5", np.random.default_rng(1)
    rows = [0] * 2
    cn.write(path, {"x": np.array(rows, "u1")}, columns={"x": {"chunk_rows": 16, "filters": "shuffle+deflate"}})
    with cn.open(path, "r+") as file:
        table = file["table"]
        for _ in range(5):  # at first deflate helps, then it is skipped
            more = rng.integers(0, 255, 2).tolist()
            table.append({"x": np.array(more, "u1")})
            rows += more
            assert table["x"].to_arrow().to_pylist() == rows
        table.append({"x": pa.array([255], pa.uint8())})  # the fill: all rows are copied into another form
    assert cn.read(path).column("x").to_pylist() == [*rows, 255]
    assert cn.check(path, deep=True) == []


def _decimals(hundredths: Any) -> pa.Array:
    return pa.array([Decimal(int(one)).scaleb(-2) for one in hundredths], pa.decimal128(9, 2))


def test_decimals_that_were_noise_are_quiet_again_and_cut(tmp_path: Path) -> None:
    """HDF5 remembered that the last chunk had skipped deflate, and cut its deflated bytes as if they were rows:
    2186123.44 where 0.01 was written (its lowest byte is the first one of every zlib stream), or a crash."""
    path, noise = tmp_path / "x.h5", np.random.default_rng(0).integers(-999_999_999, 999_999_999, 63)
    options = {"x": {"chunk_rows": 64, "filters": "shuffle+deflate"}}
    cn.write(path, {"x": _decimals([1] * 64)}, "t", columns=options)
    with cn.open(path, "r+") as file:
        table, held = file["t"], file.h5["t/x"]
        table.append({"x": _decimals(noise)})
        table.update("x", range(64, 127), _decimals([1] * 63))
        assert held[64:].tolist() == [1] * 63
        table.update("x", range(64, 127), _decimals(noise))
        table.update("x", range(64, 127), _decimals([1] * 63))
        table.truncate(124)
        assert held[...].tolist() == [1] * 124
    assert cn.read(path, "t").column("x").to_pylist() == [Decimal("0.01")] * 124


def test_a_quiet_column_with_noise_behind_is_appended_updated_and_cut(tmp_path: Path) -> None:
    """No options at all: a tenth of the rows became garbage, for good."""
    path, rng = tmp_path / "x.h5", np.random.default_rng(0)
    rows = np.concatenate([np.zeros(60_000, "i8"), rng.integers(-(2**63), 2**63 - 1, 136_600)])
    cn.write(path, {"x": rows[:-5]}, "t")
    with cn.open(path, "r+") as file:
        table = file["t"]
        assert table.info.by_name["x"].filters, "a column without filters shows nothing"
        table.append({"x": rows[-5:]})
        rows[-20_000:] = 0
        table.update("x", np.arange(len(rows) - 20_000, len(rows)), rows[-20_000:])
        table.truncate(len(rows) - 500)
    assert np.array_equal(cn.read(path, "t")["x"].to_numpy(), rows[:-500])
    with h5py.File(path) as h5:
        assert np.array_equal(h5["t/x"][...], rows[:-500])


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int8(), 2)),
        pa.array([{"a": 1, "b": 2.0}] * 3),
        pa.array(["x", "a longer text", ""]),
        pa.array([[1, 2], [], [3]]),
    ],
    ids=str,
)
def test_parts_of_filtered_chunks_of_every_width_are_changed(tmp_path: Path, values: pa.Array) -> None:
    """What is written into a chunk by the library is looked at first, in elements of their own width."""
    path = tmp_path / "t.h5"
    options = cn.column(chunk_rows=4, filters="shuffle+deflate", strings="variable")
    cn.write(path, {"x": values}, table="t", columns={"x": options})
    with cn.open(path, "r+") as file:
        file["t"].append({"x": values})
        file["t"].update("x", rows=[1, 5], values=values[:2])
    expected = values.to_pylist() * 2
    expected[1], expected[5] = values[0].as_py(), values[1].as_py()
    assert cn.read(path, "t").column("x").to_pylist() == expected


def test_a_failed_change_of_a_new_file_leaves_the_tables_before(tmp_path: Path) -> None:
    with cn.open(tmp_path / "new.h5", "w") as f:
        f.create("a", {"x": [1]})
        f.create("b", {"x": ["one"]})
        with pytest.raises(DataError):
            f["a"].append({"x": ["text"]})
        assert f.tables() == ["/a", "/b"]
        f["b"].append({"x": ["two"]})
        with pytest.raises(UsageError):
            f.create("b", {"x": [1]})
    with cn.open(tmp_path / "new.h5") as f:
        assert f["a"].to_arrow().to_pydict() == {"x": [1]} and f["b"].to_arrow()["x"].to_pylist() == ["one", "two"]
    assert [path.name for path in tmp_path.iterdir()] == ["new.h5"]


@pytest.mark.parametrize("missing", [True, False])
def test_an_enum_takes_many_new_categories(tmp_path: Path, missing: bool) -> None:
    """Rows that are missing already stay so, although none of the new ones is."""
    first = pa.array([None if missing else "y", "x", None if missing else "x"]).dictionary_encode()
    added = pa.array([f"x{number}" for number in range(8)]).dictionary_encode()
    cn.write(tmp_path / "t.h5", {"a": first}, columns={"a": cn.column(enum=True)})
    with cn.open(tmp_path / "t.h5", "r+") as file:
        file["table"].append({"a": added})
    assert cn.read(tmp_path / "t.h5").column("a").to_pylist() == [*first.to_pylist(), *added.to_pylist()]
    assert not list(cn.check(tmp_path / "t.h5", deep=True))


def test_codes_widen_with_the_categories_of_appended_rows(tmp_path: Path) -> None:
    """Appends to one open table: categories that the integers have room for, too many for them, and missing rows."""
    path = tmp_path / "x.h5"
    words = [f"word {number}" for number in range(300)]
    cn.write(path, {"c": words[:100]}, table="t", columns={"c": cn.column(strings="categories")})
    appended: list[Sequence[str | None]] = [words[:50], words[100:128], words[120:300], [None, words[299]], words[:3]]
    with cn.open(path, "r+") as file:
        table = file["t"]
        for values in appended:
            table.append({"c": pa.array(values, pa.string())})
    assert cn.read(path, "t")["c"].to_pylist() == [*words[:100], *(word for values in appended for word in values)]
    with h5py.File(path) as file:
        assert file["t/c"].dtype == np.int16
    assert not cn.check(path)
