"""Groups whose members are columns: vaex, loom, netCDF, MATLAB and plain h5py, as their writers store them."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade import limits
from colonnade.cli import main
from colonnade.errors import ColonnadeError, ConflictError, CorruptError, UnsupportedError, UsageError
from colonnade.layouts.columns.netcdf import parse_since
from tests.golden.test_foreign import FOLDER, checksum

Write = Callable[[h5py.File], None]
VAEX = json.loads((FOLDER.parent / "vaex_values.json").read_text())


def file_of(tmp_path: Path, write: Write, name: str = "theirs.h5") -> Path:
    path = tmp_path / name
    with h5py.File(path, "w") as h5:
        write(h5)
    return path


def read_columns(path: Path, table: str = "/") -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = cn.read(path, table, layout="columns").to_pydict()
    return columns


# -- vaex --


def write_vaex(h5: h5py.File) -> None:
    """What `df.export_hdf5` of vaex 4.19 writes (compared with its files)."""
    table = h5.create_group("table")
    table.attrs["type"] = "table"
    table.attrs["description"] = "Of a test"
    columns = table.create_group("columns")
    columns.attrs["column_order"] = "x,s,m,n,t,td,d,b,w,old"

    def column(name: str, **parts: Any) -> h5py.Group:
        group = columns.create_group(name)
        for part, values in parts.items():
            group[part] = values
        return group

    x = column("x", data=np.arange(5.0))
    x.attrs.update({"unit": "km / s", "ucd": "phys.veloc", "description": "Speed"})
    text = np.frombuffer(b"accc" + "ü\0z".encode(), "S1")
    s = column("s", data=text, indices=np.array([0, 1, 1, 4, 4, 8], "i4"), null_bitmap=np.array([0b11101], "u1"))
    s["data"].attrs["dtype"] = "str"
    column("m", data=np.array([1, 999999, 3, 4, 999999]), mask=np.array([False, True, False, False, True]))
    column("n", data=np.arange(5), null_bitmap=np.array([0b11101], "u1"))
    t = column("t", data=np.array([0, np.iinfo("i8").min, 2, 3, 4]))
    t["data"].attrs["dtype"] = "datetime64[ns]"
    td = column("td", data=np.arange(5))
    td["data"].attrs["dtype"] = "timedelta64[s]"
    td.attrs["unit"] = "s"
    d = columns.create_group("d")
    d.attrs["type"] = "dictionary_encoded"
    d["indices/data"] = np.array([0, 1, 0, 0, 1], "i4")
    d["dictionary/data"] = np.frombuffer(b"upper", "S1")
    d["dictionary/indices"] = np.array([0, 2, 5], "i4")
    column("b", data=np.array([True, False, True, True, False]))
    column("w", data=np.arange(10.0).reshape(5, 2))
    columns["old"] = np.arange(5, dtype=">i2")


EXPECTED_VAEX: dict[str, list[Any]] = {
    "x": [0.0, 1.0, 2.0, 3.0, 4.0],
    "s": ["a", None, "ccc", "", "ü\0z"],
    "m": [1, None, 3, 4, None],
    "n": [0, None, 2, 3, 4],
    "d": ["up", "per", "up", "up", "per"],
    "b": [True, False, True, True, False],
    "w": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0], [8.0, 9.0]],
    "old": [0, 1, 2, 3, 4],
}


def test_a_vaex_table_is_found_and_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, write_vaex)
    with cn.open(path, library="never") as file:
        assert file.tables() == ["/table"]
        table = file["/table"]
        assert (table.layout, table.n_rows, table.description) == ("columns", 5, "Of a test")
        assert table.columns == ["x", "s", "m", "n", "t", "td", "d", "b", "w", "old"]
        rows = table.to_arrow()
        assert {name: rows[name].to_pylist() for name in EXPECTED_VAEX} == EXPECTED_VAEX
        assert rows["t"].type == pa.timestamp("ns")
        assert rows["t"].cast(pa.int64()).to_pylist() == [0, None, 2, 3, 4]
        assert rows["td"].type == pa.duration("s")
        assert (table["x"].units, table["x"].description, table["x"].attrs["ucd"]) == ("km / s", "Speed", "phys.veloc")
        assert table.problems == ()
        assert table.where("s == 'ccc'").row_numbers().tolist() == [2]
        assert table.where("d == 'per' and b").count() == 0
        assert table["s"][1:5:2].tolist() == [None, ""]
        assert table.take([0, 4]).to_arrow()["s"].to_pylist() == ["a", "ü\0z"]
        assert table.aggregate(total=("m", "sum"), n=("n", "count")) == {"total": 8, "n": 4}


@pytest.mark.parametrize("name", ["iris", "sample_names_1", "sample_simple"])
def test_samples_of_vaex_have_the_values_of_the_manifest(name: str) -> None:
    entry = next(entry for entry in VAEX["files"] if entry["file"] == f"vaex/{name}.hdf5")
    rows = cn.read(FOLDER / entry["file"])
    with h5py.File(FOLDER / entry["file"]) as h5:
        columns = h5["table/columns"]
        assert rows.column_names == columns.attrs["column_order"].split(",")
        for column, group in columns.items():
            values = rows[column].to_pylist()
            if "indices" not in group:
                assert checksum(values) == entry["expected"][f"table/columns/{column}/data"]["checksum"]
                continue
            ends = np.cumsum([len(value.encode()) for value in values])
            assert [0, *ends.tolist()] == group["indices"][:].tolist()
            letters = [byte.decode() for value in values for byte in map(bytes, zip(value.encode(), strict=True))]
            assert checksum(letters) == entry["expected"][f"table/columns/{column}/data"]["checksum"]


def test_samples_of_matlab_and_astropy_are_read_when_asked_for() -> None:
    assert read_columns(FOLDER / "pytables/matlab_file.mat") == {"a": [1.0, 2.0, 3.0]}
    assert read_columns(FOLDER / "astropy/old_meta_example.hdf5") == {"the_table": [{"a": 1}, {"a": 2}, {"a": 3}]}


def test_a_vaex_table_is_indexed_converted_and_checked(tmp_path: Path) -> None:
    path = file_of(tmp_path, write_vaex)
    assert list(cn.check(path, deep=True)) == []
    before = cn.read(path)
    with cn.open(path, "r+") as file:
        table = file["table"]
        table.build_index({name: ["sorted_rows"] for name in "xsmntdb"})
        assert all(index.trusted for index in table.indexes)
        assert table.verify_indexes() == []
        file.h5["table/columns/s/data"][0] = b"z"  # only the bytes of the strings change
        assert {index.column for index in table.indexes if not index.trusted} == {"s"}
        file.h5["table/columns/n/null_bitmap"][0] = 0b11111  # only the mask
        assert {index.column for index in table.indexes if not index.trusted} == {"n", "s"}
        assert table.where("s == 'z'").count() == 1
        with pytest.raises(UnsupportedError, match="it is read-only"):
            table.append({"x": [1.0]})
    path = file_of(tmp_path, write_vaex)
    done = cn.convert(path, tmp_path / "new.h5", layout="hep001")
    assert done.tables == ["/table"]
    new = cn.open_table(tmp_path / "new.h5", "/table")
    assert new.to_arrow().equals(before)
    assert (new.layout, new["x"].units, new["x"].description) == ("hep001", "km / s", "Speed")
    assert new["x"].attrs["ucd"] == "phys.veloc"
    assert new.description == "Of a test"


Damage = Callable[[h5py.Group], None]


def _replace(name: str, values: Any) -> Damage:
    def damage(columns: h5py.Group) -> None:
        del columns[name]
        columns[name] = values

    return damage


@pytest.mark.parametrize(
    ("column", "damage"),
    [
        ("s", _replace("s/indices", np.array([0, 1, 1, 4, 4, 9], "i4"))),
        ("s", _replace("s/indices", np.array([0, 5, 1, 4, 4, 8], "i4"))),
        ("s", _replace("s/indices", np.array([-4, 1, 1, 4, 4, 8], "i4"))),
        ("s", _replace("s/indices", np.array([0.0, 1, 1, 4, 4, 8]))),
        ("s", _replace("s/indices", np.zeros((6, 1), "i4"))),
        ("s", _replace("s/data", np.zeros(8, "i4"))),
        ("s", _replace("s/data", np.frombuffer(b"\xff" * 8, "S1"))),
        ("s", _replace("s/null_bitmap", np.zeros(0, "u1"))),
        ("m", _replace("m/mask", np.zeros(4, bool))),
        ("m", _replace("m/mask", np.zeros(5, "f8"))),
        ("n", _replace("n/null_bitmap", np.zeros(1, "u2"))),
        ("d", _replace("d/indices/data", np.array([0, 1, 2, 0, 1], "i4"))),
        ("d", _replace("d/indices/data", np.zeros(5))),
        ("d", _replace("d/dictionary/indices", np.array([0, 9, 5], "i4"))),
        ("d", lambda columns: columns.__delitem__("d/dictionary")),
        ("x", _replace("x/data", np.zeros(4))),
        ("x", lambda columns: columns.__delitem__("x/data")),
    ],
)
@pytest.mark.parametrize("library", ["auto", "never"])
def test_a_damaged_column_is_an_error_that_names_it_and_a_finding(
    tmp_path: Path, column: str, damage: Damage, library: Any
) -> None:
    def write(h5: h5py.File) -> None:
        write_vaex(h5)
        damage(h5["table/columns"])

    path = file_of(tmp_path, write)
    with cn.open(path, library=library) as file:
        table = file["/table"]
        assert table.select("old").to_arrow()["old"].to_pylist() == [0, 1, 2, 3, 4]
        with pytest.raises(ColonnadeError, match=column):
            table.select(column).to_arrow()
    findings = cn.check(path, deep=True)
    assert any(f"/columns/{column}" in finding.path for finding in findings.errors), list(findings)


def test_an_order_that_names_what_is_not_there_is_a_finding(tmp_path: Path) -> None:
    def write(h5: h5py.File) -> None:
        write_vaex(h5)
        h5["table/columns"].attrs["column_order"] = "gone,b,x"

    path = file_of(tmp_path, write)
    assert cn.open_table(path).columns == ["b", "x", "d", "m", "n", "old", "s", "t", "td", "w"]
    assert [finding.rule for finding in cn.check(path)] == ["G2"]


def test_what_only_resembles_a_vaex_table_is_not_found(tmp_path: Path) -> None:
    def write(h5: h5py.File) -> None:
        h5.create_group("a").attrs["type"] = "table"
        h5["b/columns/x/data"] = np.arange(3)
        h5["c/columns"] = np.arange(3)
        h5["c"].attrs["type"] = "table"
        h5["d/columns/x/data"] = np.arange(3)
        h5["d"].attrs["type"] = "chair"

    assert cn.open(file_of(tmp_path, write)).tables() == []


def test_a_vaex_table_without_columns_has_no_rows(tmp_path: Path) -> None:
    def write(h5: h5py.File) -> None:
        h5.create_group("table").attrs["type"] = "table"
        h5.create_group("table/columns")

    table = cn.open_table(file_of(tmp_path, write))
    assert (table.n_rows, table.columns) == (0, [])


# -- netCDF --


def write_netcdf(h5: h5py.File) -> None:
    """What netCDF4 1.7 writes (compared with its files)."""
    h5.attrs["title"] = np.bytes_(b"Buoys")

    def dimension(name: str, length: int) -> Any:
        scale: Any = h5.create_dataset(name, shape=(length,), dtype=">f4")
        scale.make_scale(f"This is a netCDF dimension but not a netCDF variable.{length:10d}")
        return scale

    obs, strlen = dimension("obs", 4), dimension("strlen", 3)
    lat: Any = h5.create_dataset("lat", data=np.arange(3, dtype="f4"))
    lat.make_scale("lat")

    def variable(name: str, values: np.ndarray, *scales: Any, **attributes: Any) -> None:
        dataset: Any = h5.create_dataset(name, data=values)
        for axis, scale in enumerate(scales):
            dataset.dims[axis].attach_scale(scale)
        for key, value in attributes.items():
            dataset.attrs[key] = np.bytes_(value.encode()) if isinstance(value, str) else value

    variable("time", np.array([0, 1.5, 2, np.nan]), obs, units="days since 2000-01-01", calendar="standard")
    packed = {"scale_factor": np.array([0.01]), "add_offset": np.array([273.15]), "_FillValue": np.array([-999], "i2")}
    variable("temp", np.array([685, -998, 885, -999], "i2"), obs, missing_value=np.array([-998], "i2"),
             units="K", long_name="temperature", **packed)  # fmt: skip
    variable("depth", np.array([1, 2, -1, 4], "i4"), obs, _FillValue=np.array([-1], "i4"))
    variable("flag", np.array([1, 2, -1, -2], "i1"), obs, missing_value=np.array([-1, -2], "i1"))
    variable("name", np.array([list("ab\0"), list("cde"), list("\0\0\0"), list("x\0\0")], "S1"), obs, strlen)
    variable("grid", np.zeros((4, 3), "f4"), obs, lat)
    h5["crs"] = np.int32(0)


def test_variables_that_share_a_dimension_are_columns(tmp_path: Path) -> None:
    path = file_of(tmp_path, write_netcdf)
    with cn.open(path, library="never") as file:
        assert file.tables() == []
        table = file.table("/", layout="columns")
        assert table.title == "Buoys"
        assert table.to_arrow().to_pydict() == {
            "depth": [1, 2, None, 4],
            "flag": [1, 2, None, None],
            "name": ["ab", "cde", "", "x"],
            "temp": [685 * 0.01 + 273.15, None, 885 * 0.01 + 273.15, None],
            "time": [datetime(2000, 1, 1), datetime(2000, 1, 2, 12), datetime(2000, 1, 3), None],
        }
        assert (table["temp"].units, table["temp"].description) == ("K", "temperature")
        assert table[1:4:2].to_arrow()["temp"].to_pylist() == [None, None]
        assert table[::2].to_arrow()["temp"].to_pylist() == [685 * 0.01 + 273.15, 885 * 0.01 + 273.15]
        assert table.where("time > '2000-01-01' and temp < 300").row_numbers().tolist() == [2]
        assert {problem.path for problem in table.problems} == {"/crs", "/grid", "/lat", "/obs", "/strlen"}
        assert {problem.severity for problem in table.problems} == {"note"}
        stats = table.stats(["temp"])["temp"]
        assert not isinstance(stats, ColonnadeError)
        assert stats.n_missing == 2
        table.write(tmp_path / "new.h5", table="obs")
    new = cn.open_table(tmp_path / "new.h5", "obs")
    assert new.to_arrow().equals(cn.read(path, "/", layout="columns"))
    assert new["temp"].units == "K"
    assert cn.check(path, layout="columns", deep=True).errors == []


@pytest.mark.parametrize(
    ("units", "stored", "expected"),
    [
        ("days since 1970-01-01", np.array([0, -1], "i4"), ["1970-01-01", "1969-12-31"]),
        ("hours since 1582-10-15 00:00:00", np.array([0, 24], "i2"), ["1582-10-15", "1582-10-16"]),
        ("hours since 1-1-1 00:00:0.0", np.array([17067072 + 48], "i8"), ["1948-01-03"]),  # as cftime decodes it
        ("seconds since 1970-1-1 00:00", np.array([86_400], "i8"), ["1970-01-02"]),
        ("minutes since 2000-2-29T23:59", np.array([1], "u8"), ["2000-03-01"]),
        ("seconds since 1900-03-01 00:00:00 +01:00", np.array([3600], "i8"), ["1900-03-01"]),
        ("milliseconds since 2001-01-01", np.array([1], "i8"), ["2001-01-01T00:00:00.001"]),
        ("s since 2001-01-01 00:00:00.25", np.array([1], "i8"), ["2001-01-01T00:00:01.25"]),
        ("days since 2000-01-01", np.array([0.5, 1 / 3], "f8"), ["2000-01-01T12", "2000-01-01T08"]),
    ],
)
def test_times_since_a_date(tmp_path: Path, units: str, stored: np.ndarray, expected: list[str]) -> None:
    def write(h5: h5py.File) -> None:
        h5["g/t"] = stored
        h5["g/t"].attrs["units"] = units

    values = cn.read(file_of(tmp_path, write), "g", layout="columns")["t"]
    assert pa.types.is_timestamp(values.type)
    found = [np.datetime64(value.replace(tzinfo=None), "us") for value in values.to_pylist()]
    assert found == [np.datetime64(text, "us") for text in expected]
    assert (values.type.tz is not None) == ("+01:00" in units)
    cn.convert(tmp_path / "theirs.h5", tmp_path / "new.h5", source_layouts={"g": "columns"})
    assert cn.read(tmp_path / "new.h5", "g")["t"].equals(values)


@pytest.mark.parametrize(
    ("units", "calendar"),
    [
        ("days since 1970-01-01", "noleap"),
        ("seconds since 1970-01-01", "360_day"),
        ("months since 2000-01-01", None),
        ("days since 2000-13-01", None),
        ("days since yesterday", None),
        ("fortnights since 2000-01-01", None),
        ("days", None),
    ],
)
def test_times_that_are_not_decoded_stay_numbers(tmp_path: Path, units: str, calendar: str | None) -> None:
    def write(h5: h5py.File) -> None:
        h5["g/t"] = np.arange(3)
        h5["g/t"].attrs["units"] = units
        if calendar is not None:
            h5["g/t"].attrs["calendar"] = calendar

    table = cn.open_table(file_of(tmp_path, write), "g", layout="columns")
    assert table["t"].to_arrow().to_pylist() == [0, 1, 2]
    assert (table["t"].units or "").startswith(units)


def test_a_time_out_of_range_is_an_error_with_its_row(tmp_path: Path) -> None:
    def write(h5: h5py.File) -> None:
        h5["g/t"] = np.array([0.0, 1.0, 1e300])
        h5["g/t"].attrs["units"] = "days since 2000-01-01"

    table = cn.open_table(file_of(tmp_path, write), "g", layout="columns")
    assert len(table[:2].to_arrow()) == 2
    with pytest.raises(CorruptError) as error:
        table.to_arrow()
    assert error.value.row == 2


@given(
    word=st.sampled_from([("days", 86_400), ("hours", 3600), ("minutes", 60), ("seconds", 1)]),
    epoch=st.datetimes(datetime(1582, 10, 15), datetime(2500, 1, 1)).map(lambda day: day.replace(microsecond=0)),
    minutes=st.integers(-14 * 60, 14 * 60),
)
def test_dates_of_units_are_those_of_python(word: tuple[str, int], epoch: datetime, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    since = parse_since(f"{word[0]} since {epoch.replace(tzinfo=zone).isoformat(' ')}", None, False)
    assert since is not None
    expected = (epoch.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    assert (since.epoch, since.ticks, since.unit, since.has_zone) == (expected, word[1], "s", True)


# -- loom and MATLAB --


def test_row_and_column_attributes_of_loom(tmp_path: Path) -> None:
    def write(h5: h5py.File) -> None:
        h5["matrix"] = np.zeros((3, 4))
        h5.create_dataset("col_attrs/CellID", data=["w", "x", "y", "zé"], dtype=h5py.string_dtype())
        h5["col_attrs/age"] = np.arange(4.0)
        h5["col_attrs/emb"] = np.arange(8.0).reshape(4, 2)
        h5["row_attrs/Gene"] = np.array([b"a", b"b", b"c"])
        h5["row_attrs/chr"] = np.arange(3)

    path = file_of(tmp_path, write, "cells.loom")
    assert read_columns(path, "col_attrs") == {
        "CellID": ["w", "x", "y", "zé"], "age": [0, 1, 2, 3], "emb": [[0, 1], [2, 3], [4, 5], [6, 7]],
    }  # fmt: skip
    assert read_columns(path, "/row_attrs") == {"Gene": ["a", "b", "c"], "chr": [0, 1, 2]}
    listed = json.loads(CliRunner().invoke(main, ["ls", str(path), "--json"]).output)
    offers = {entry["path"]: entry["could_be"] for entry in listed["objects"] if entry["could_be"]}
    assert set(offers) == {"/col_attrs", "/row_attrs"}
    assert (offers["/col_attrs"]["rows"], offers["/col_attrs"]["columns"]) == (4, 3)
    command = offers["/row_attrs"]["command"].split()
    assert command[:2] == ["colonnade", "head"]
    result = CliRunner().invoke(main, [*command[1:], "--json"])
    assert json.loads(result.output)["rows"][0] == {"Gene": "a", "chr": 0}
    new = tmp_path / "new.h5"
    result = CliRunner().invoke(
        main, ["convert", str(path), str(new), "--source-layout", "/col_attrs=columns", "--json"]
    )
    assert json.loads(result.output)["tables"] == ["/col_attrs"]
    assert cn.read(new, "col_attrs").equals(cn.read(path, "col_attrs", layout="columns"))
    with h5py.File(new) as h5:  # the rest of the file is copied
        assert h5["matrix"].shape == (3, 4) and set(h5["row_attrs"]) == {"Gene", "chr"}
    assert CliRunner().invoke(main, ["convert", str(path), str(new), "--force", "--source-layout", "x"]).exit_code == 2
    with pytest.raises(UsageError, match="source_layouts"):
        cn.convert(path, tmp_path / "new.csv", source_layouts={"/col_attrs": "columns"})
    content = path.read_bytes()
    with cn.open(path, "r+") as file, pytest.raises(UsageError, match="index_file"):
        file.table("col_attrs", layout="columns").build_index("age", "sorted_rows")
    assert len(path.read_bytes()) == len(content)
    shown = CliRunner().invoke(main, ["ls", str(path)]).output
    assert "could be read as a table" in " ".join(shown.split())


def test_a_struct_of_matlab(tmp_path: Path) -> None:
    def write(h5: h5py.File) -> None:
        group = h5.create_group("s")
        group.attrs["MATLAB_class"] = np.bytes_(b"struct")

        def field(name: str, values: np.ndarray, kind: str, **more: int) -> None:
            group.create_dataset(name, data=values).attrs.update({"MATLAB_class": np.bytes_(kind.encode()), **more})

        field("column", np.array([[1.0, 2.0, 3.0]]), "double")
        field("row", np.array([[1], [2], [3]], "i4"), "int32")
        field("ok", np.array([[1, 0, 1]], "u1"), "logical", MATLAB_int_decode=1)
        names = np.array([list("ab "), list("ä  "), list("xyz")])
        field("names", np.array([[ord(one) for one in row] for row in names], "u2").T, "char", MATLAB_int_decode=2)
        field("pairs", np.arange(6.0).reshape(2, 3), "double")
        field("title", np.array([[ord(one)] for one in "a title"], "u2"), "char", MATLAB_int_decode=2)
        field("empty", np.array([0, 0], "u8"), "double", MATLAB_empty=1)

    path = file_of(tmp_path, write, "s.mat")
    table = cn.open_table(path, "s", layout="columns")
    assert table.to_arrow().to_pydict() == {
        "column": [1.0, 2.0, 3.0],
        "names": ["ab", "ä", "xyz"],
        "ok": [True, False, True],
        "pairs": [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]],
        "row": [1, 2, 3],
    }
    assert table.where("ok and column > 1").to_arrow()["names"].to_pylist() == ["xyz"]
    assert {problem.path for problem in table.problems} == {"/s/empty", "/s/title"}


# -- any group --


def test_a_group_without_columns_is_refused(tmp_path: Path) -> None:
    def write(h5: h5py.File) -> None:
        h5["g/x"] = np.zeros((2, 2, 2))
        h5.create_group("empty")

    path = file_of(tmp_path, write)
    for name in ("g", "empty"):
        with pytest.raises(UsageError, match="cannot be read as a table of layout 'columns'"):
            cn.open_table(path, name, layout="columns")


def test_the_longest_of_equally_frequent_lengths_is_the_table(tmp_path: Path) -> None:
    def write(h5: h5py.File) -> None:
        h5["g/x"], h5["g/y"] = np.arange(2), np.arange(3)

    table = cn.open_table(file_of(tmp_path, write), "g", layout="columns")
    assert (table.columns, table.n_rows) == (["y"], 3)
    assert [problem.message for problem in table.problems] == ["it has 2 rows, the table has 3"]


def test_indexes_of_a_group_are_members_of_it(tmp_path: Path) -> None:
    def write(h5: h5py.File) -> None:
        h5["g/x"], h5["g/y"] = np.arange(1000)[::-1], np.arange(1000.0)

    path = file_of(tmp_path, write)
    with cn.open(path, "r+") as file:
        file.table("g", layout="columns").build_index("x", "sorted_rows")
    table = cn.open_table(path, "g", layout="columns")
    assert (table.columns, [index.trusted for index in table.indexes]) == (["x", "y"], [True])
    assert table.where("x == 3").row_numbers().tolist() == [996]
    with h5py.File(path) as h5:
        assert set(h5["g"]) == {"x", "y", "_search_indexes"}
        assert not h5["g/x"].attrs


DTYPES = st.sampled_from(["i1", "u2", ">i4", "i8", "f4", ">f8", "S3", "?"])


@st.composite
def groups(draw: st.DrawFn) -> tuple[int, dict[str, np.ndarray]]:
    n_rows = draw(st.integers(0, 40))
    names = draw(st.lists(st.text(st.characters(exclude_characters="/.\0", codec="utf-8"), min_size=1, max_size=4),
                          min_size=1, max_size=5, unique=True))  # fmt: skip
    arrays = {}
    for name in names:
        dtype = np.dtype(draw(DTYPES))
        seed = np.random.default_rng(draw(st.integers(0, 99)))
        numbers = seed.integers(0, 120, n_rows)
        arrays[name] = np.array([b"%d" % n for n in numbers], "S3") if dtype.kind == "S" else numbers.astype(dtype)
    return n_rows, arrays


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(groups(), st.booleans(), st.integers(0, 40), st.integers(1, 3))
def test_random_groups_are_read_as_numpy_reads_them(
    tmp_path: Path, group: tuple[int, dict[str, np.ndarray]], as_vaex: bool, start: int, step: int
) -> None:
    n_rows, arrays = group

    def write(h5: h5py.File) -> None:
        if as_vaex:
            h5.create_group("g").attrs["type"] = "table"
            h5.create_group("g/columns")
        for number, (name, values) in enumerate(arrays.items()):
            chunks = (min(7, n_rows),) if number % 2 and n_rows else None
            h5.create_dataset(f"g/columns/{name}/data" if as_vaex else f"g/{name}", data=values, chunks=chunks)

    path = file_of(tmp_path, write)
    with cn.open(path, library="never") as file:
        table = file.table("g", layout="columns")
        rows = table.to_arrow()
        assert set(rows.column_names) == set(arrays)
        for name, values in arrays.items():
            plain = [one.decode() if isinstance(one, bytes) else one for one in values.tolist()]
            assert rows[name].to_pylist() == plain
            assert table[name].to_arrow()[start:].to_pylist() == plain[start:]
            assert table[[name]][start::step].to_arrow()[name].to_pylist() == plain[start::step]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=8), max_size=70),
    st.integers(0, 70),
    st.integers(1, 20),
)
def test_random_strings_by_offsets_are_read_as_they_were(
    tmp_path: Path, strings: list[str | None], start: int, step: int
) -> None:
    array = pa.array(strings, pa.string())
    data = b"".join(text.encode() for text in strings if text is not None)
    bits = np.packbits(np.array([text is not None for text in strings], bool), bitorder="little")

    def write(h5: h5py.File) -> None:
        h5.create_group("t/columns")
        h5["t"].attrs["type"] = "table"
        h5["t/columns/s/data"] = np.frombuffer(data, "u1")
        h5["t/columns/s/indices"] = np.cumsum([0, *(len((text or "").encode()) for text in strings)])
        h5["t/columns/s/null_bitmap"] = bits

    path = file_of(tmp_path, write)
    with limits.override(piece_bytes=64), cn.open(path) as file:
        table = file["t"]
        assert table["s"].to_arrow().to_pylist() == array.to_pylist()
        assert table[start::step].to_arrow()["s"].to_pylist() == strings[start::step]
        wanted = next((text for text in strings if text), "none")
        assert table.where(cn.col("s") == wanted).row_numbers().tolist() == [
            row for row, text in enumerate(strings) if text == wanted
        ]


def test_rows_that_were_never_written_are_not_made_up_in_memory(tmp_path: Path) -> None:
    def write(h5: h5py.File) -> None:
        h5.create_group("t/columns")
        h5["t"].attrs["type"] = "table"
        h5.create_dataset("t/columns/s/indices", shape=(2**40,), dtype="i8", chunks=(2**20,))
        h5.create_dataset("t/columns/s/data", shape=(2**40,), dtype="u1", chunks=(2**20,))
        h5.create_dataset("t/columns/w/data", shape=(2**40 - 1, 500), dtype="f8", chunks=(2**10, 500))

    path = file_of(tmp_path, write)
    with cn.open(path, library="never") as file:
        table = file["t"]
        assert table.n_rows == 2**40 - 1
        for name in ("s", "w"):
            with pytest.raises(ColonnadeError):
                table.select(name).to_arrow()


# -- index files --


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    def write(h5: h5py.File) -> None:
        h5["g/x"] = np.random.default_rng(1).permutation(200_000)
        h5.create_dataset("g/y", data=np.arange(200_000) // 1000, chunks=(1000,))

    return file_of(tmp_path, write)


def test_indexes_are_kept_in_another_file(theirs: Path, tmp_path: Path) -> None:
    content = theirs.read_bytes()
    indexes = tmp_path / "theirs.idx.h5"
    with cn.open(theirs) as file:
        table = file.table("g", layout="columns")
        expected = table.where("y == 7 and x < 100000").row_numbers().tolist()
        table.build_index("y", "chunk_minmax", index_file=indexes)
        table.build_index({"x": "sorted_rows", "y": ["bitmap"]})  # into the same file
        assert {(one.column, one.kind, one.trusted, one.file) for one in table.indexes} == {
            ("x", "sorted_rows", True, str(indexes)),
            ("y", "bitmap", True, str(indexes)),
            ("y", "chunk_minmax", True, str(indexes)),
        }
        assert table.where("y == 7").explain().chunks_read < 10
        assert len(pickle.loads(pickle.dumps(table)).indexes) == 3
    assert theirs.read_bytes() == content
    with cn.open(theirs, index_file=indexes) as file:
        table = file.table("g", layout="columns")
        plan = table.where("y == 7").explain()
        assert [used.kind for used in plan.indexes_used] == ["chunk_minmax"]
        assert table.where("y == 7 and x < 100000").row_numbers().tolist() == expected
        assert table.verify_indexes() == []
        table.drop_index("y", "bitmap")
        assert [one.kind for one in table.indexes] == ["sorted_rows", "chunk_minmax"]
        assert [one.file for one in pickle.loads(pickle.dumps(table)).indexes] == [str(indexes)] * 2
        with pytest.raises(UsageError, match="has no index of kind 'bitmap'"):
            table.drop_index("y", "bitmap")
    assert theirs.read_bytes() == content


def test_indexes_of_a_changed_file_are_not_used(theirs: Path, tmp_path: Path) -> None:
    indexes = tmp_path / "theirs.idx.h5"
    with cn.open(theirs) as file:
        file.table("g", layout="columns").build_index("y", "chunk_minmax", index_file=indexes)
    with h5py.File(theirs, "r+") as h5:
        h5["g/y"][150_000] = 7
    for trust in ("verified", "always"):
        with cn.open(theirs, index_file=indexes, trust=trust) as file:
            table = file.table("g", layout="columns")
            assert [(one.fresh, one.trusted) for one in table.indexes] == [(False, False)]
            assert table.where("y == 7").row_numbers().tolist() == [*range(7000, 8000), 150_000]
            assert "changed" in str(table.where("y == 7").explain())
    with cn.open(theirs, index_file=indexes) as file:
        table = file.table("g", layout="columns")
        table.build_index("y", "chunk_minmax")
        assert [one.trusted for one in table.indexes] == [True]
        assert table.where("y == 7").count() == 1001


def test_an_index_is_not_trusted_after_a_change_that_hides_its_time(theirs: Path, tmp_path: Path) -> None:
    indexes = tmp_path / "theirs.idx.h5"
    with cn.open(theirs) as file:
        file.table("g", layout="columns").build_index("y", "chunk_minmax", index_file=indexes)
    before = theirs.stat()
    with h5py.File(theirs, "r+") as h5:
        h5["g/y"][150_000] = 7
    os.utime(theirs, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert theirs.stat().st_size == before.st_size
    with cn.open(theirs, index_file=indexes) as file:
        table = file.table("g", layout="columns")
        assert [(one.fresh, one.trusted) for one in table.indexes] == [(True, False)]
        assert table.where("y == 7").count() == 1001
        assert [finding.rule for finding in table.verify_indexes()] == ["S8"]


def test_indexes_that_were_not_built_here_are_used_once_verified(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = tmp_path / "theirs.idx.h5"
    with cn.open(theirs) as file:
        file.table("g", layout="columns").build_index({"x": "sorted_rows", "y": "bitmap"}, index_file=indexes)
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path / "cache of another user"))
    with h5py.File(indexes, "r+") as h5:
        h5["g/_search_indexes/x__sorted_rows"][5] = 7
    with cn.open(theirs, index_file=indexes) as file:
        table = file.table("g", layout="columns")
        assert [one.trusted for one in table.indexes] == [False, False]
        assert {(finding.rule, finding.path) for finding in table.verify_indexes()} == {
            ("S8", f"{indexes}:/g/_search_indexes/x__sorted_rows")
        }
        assert [(one.column, one.trusted) for one in table.indexes] == [("x", False), ("y", True)]
    with cn.open(theirs, index_file=indexes) as file:  # the receipt is kept
        assert [one.trusted for one in file.table("g", layout="columns").indexes] == [False, True]


def test_what_cannot_have_or_be_an_index_file_is_refused(theirs: Path, tmp_path: Path) -> None:
    with cn.open(theirs, "r+") as file, pytest.raises(UsageError, match="without index_file"):
        file.table("g", layout="columns").build_index("x", "sorted_rows", index_file=tmp_path / "i.h5")
    content = theirs.read_bytes()
    with cn.open(theirs) as file, pytest.raises(ColonnadeError, match="is not an index file"):
        file.table("g", layout="columns").build_index("x", "sorted_rows", index_file=theirs)
    assert theirs.read_bytes() == content
    with pytest.raises(ColonnadeError, match="is not an index file"):
        cn.open(theirs, index_file=theirs)
    with pytest.raises(OSError, match="nowhere"):
        cn.open(theirs, index_file=tmp_path / "nowhere.h5")
    with cn.open(theirs) as file, pytest.raises((ConflictError, OSError)):
        file.table("g", layout="columns").build_index("x", "sorted_rows")


def test_an_index_file_is_read_without_libhdf5_where_its_table_is(theirs: Path, tmp_path: Path) -> None:
    """External storage is for libhdf5: of a file opened with `library="never"` such an index is not used."""
    indexes = tmp_path / "theirs.idx.h5"
    with cn.open(theirs) as file:
        file.table("g", layout="columns").build_index("y", "chunk_bloom", index_file=indexes)
    with h5py.File(indexes, "r+") as h5:
        home = h5["g/_search_indexes"]
        [old] = home.values()
        name, values, attributes = old.name, old[()], dict(old.attrs)
        del home[name]
        home.create_dataset(
            name, values.shape, values.dtype, external=[(str(tmp_path / "apart.raw"), 0, values.nbytes)]
        )[...] = values
        home[name].attrs.update(attributes)
    code = f"""
import sys
import colonnade as cn
for library in ("never", "auto"):
    with cn.open({str(theirs)!r}, index_file={str(indexes)!r}, library=library, trust="always") as file:
        assert file.table("g", layout="columns").where("y == 7").count() == 1000
    print("h5py" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_commands_take_an_index_file(theirs: Path, tmp_path: Path) -> None:
    indexes = str(tmp_path / "i.h5")

    def run(*given: str) -> dict[str, Any]:
        common = [str(theirs), "/g"] if given[0] != "index" else []
        words = [*given[:1], *common, *given[1:]] if common else [*given[:2], str(theirs), "/g", *given[2:]]
        result = CliRunner().invoke(main, [*words, "--layout", "columns", "--index-file", indexes, "--json"])
        assert result.exit_code == 0, result.output
        facts: dict[str, Any] = json.loads(result.output)
        return facts

    assert run("index", "build", "y=chunk_minmax,bitmap")["built"][0]["file"] == indexes
    assert len(run("index", "ls")["tables"][0]["indexes"]) == 2
    assert [one["wrong"] for one in run("index", "verify")["tables"][0]["indexes"]] == [[], []]
    assert run("where", "y == 7", "--explain")["plan"]["indexes_used"]
    assert run("count", "y == 7")["count"] == 1000
    assert [one["kind"] for one in run("index", "drop", "y=bitmap")["dropped"]] == ["bitmap"]
    assert len(run("index", "ls")["tables"][0]["indexes"]) == 1


# -- hostile bytes --


def use_all(path: Path, table: str) -> None:
    """Everything that reads: no error but ours may come out."""
    try:
        with cn.open(path, library="never") as file:
            found = file.table(table, layout="columns")
            for name in [*found.columns]:
                try:
                    found[name].to_arrow()
                    found[name].attrs.get("unit")
                    found[1:4:2].select(name).to_arrow()
                except ColonnadeError:
                    continue
    except ColonnadeError:
        pass


@pytest.mark.parametrize(("write", "table"), [(write_vaex, "/table"), (write_netcdf, "/")])
def test_changed_bytes_give_errors_of_ours_only(tmp_path: Path, write: Write, table: str) -> None:
    content = file_of(tmp_path, write).read_bytes()
    random = np.random.default_rng(20261119)
    path = tmp_path / "changed.h5"
    for _ in range(60):
        changed = bytearray(content)
        for place in random.integers(0, len(changed), random.integers(1, 12)):
            changed[place] = random.choice([0, 1, 0x7F, 0x80, 0xFF, int(random.integers(0, 256))])
        path.write_bytes(bytes(changed))
        use_all(path, table)
        assert all(finding.path for finding in cn.check(path, layout="columns", deep=True))


def test_changed_bytes_of_an_index_file_never_change_an_answer(theirs: Path, tmp_path: Path) -> None:
    indexes = tmp_path / "i.h5"
    with cn.open(theirs) as file:
        table = file.table("g", layout="columns")
        table.build_index({"y": ["chunk_minmax", "bitmap"]}, index_file=indexes)
        expected = table.where("y == 7").row_numbers().tolist()
    content = indexes.read_bytes()
    random = np.random.default_rng(20261119)
    n_opened = 0
    for _ in range(40):
        changed = bytearray(content)
        for place in random.integers(0, len(changed), 20):
            changed[place] = int(random.integers(0, 256))
        indexes.write_bytes(bytes(changed))
        try:
            with cn.open(theirs, index_file=indexes, library="never") as file:
                n_opened += 1
                table = file.table("g", layout="columns")
                assert table.where("y == 7").row_numbers().tolist() == expected
                assert not any(index.trusted for index in table.indexes)
                assert all(finding.path for finding in table.verify_indexes())
        except ColonnadeError as error:
            assert "i.h5" in str(error), error
    assert n_opened
