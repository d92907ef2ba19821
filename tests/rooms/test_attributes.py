"""Attributes of one's own on tables, columns, files and sparse arrays; and what else can be set on public objects."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ConflictError, DataError, UsageError
from colonnade.sealed import settable

VALUES: dict[str, Any] = {
    "int": 42,
    "negative": -1,
    "large": 2**63 + 1,
    "float": 1.5,
    "nan": float("nan"),
    "complex": 1 + 2j,
    "str": "größe",
    "empty str": "",
    "bool": True,
    "bytes": b"\0\1\xff",
    "numpy scalar": np.float32(0.1),
    "small integer": np.int8(-3),
    "array": np.arange(6.0).reshape(2, 3),
    "big-endian": np.arange(3, dtype=">i4"),
    "booleans": np.array([True, False]),
    "complex array": np.array([1j, 2]),
    "no elements": np.zeros((0, 2), "f4"),
    "list": [1, 2, 3],
    "strings": ["a", "bc", ""],
}
PLACES = ["table", "column", "file", "sparse column", "sparse array", "anndata", "anndata categorical", "artifactdb"]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Any]:
    """A file, and what gives the attributes of one of its objects."""
    path, kind = tmp_path / "a.h5", request.param
    layout = kind.split()[0] if kind.split()[0] in ("anndata", "artifactdb") else "hep001"
    columns = {"c": cn.column(sparse=True)} if kind == "sparse column" else {}
    data: dict[str, Any] = {"x": [1, 2], "c": [1.0, None] if kind == "sparse column" else [1.0, 2.0]}
    if kind == "anndata categorical":
        columns = {"c": cn.column(categories=True)}
        data["c"] = ["a", "b"]
    cn.write(path, data, table="t", layout=layout, columns=columns)
    if kind == "sparse array":
        with cn.open(path, "r+") as file:
            cn.create_sparse(file, "s", shape=(4, 4), chunks=(2, 2), dtype="f4")

    def attributes(file: Any) -> Any:
        if kind == "file":
            return file.attrs
        if kind == "sparse array":
            return cn.open_sparse(file, "s").attrs
        return file["t"].attrs if kind in ("table", "anndata", "artifactdb") else file["t"]["c"].attrs

    return path, attributes


def same(found: Any, given: Any) -> bool:
    if isinstance(given, np.ndarray):
        return found.dtype == given.dtype and found.shape == given.shape and bool(np.array_equal(found, given))
    if isinstance(given, float) and np.isnan(given):
        return bool(np.isnan(found))
    return bool(np.all(np.asarray(found) == np.asarray(given))) and isinstance(found, str) == isinstance(given, str)


def test_every_kind_of_value_comes_back(place: tuple[Path, Any]) -> None:
    path, attributes = place
    with cn.open(path, "r+") as file:
        for name, value in VALUES.items():
            attributes(file)[name] = value
            assert same(attributes(file)[name], value), name
        assert set(attributes(file)) == set(VALUES)
    with cn.open(path) as file:
        for name, value in VALUES.items():
            assert same(attributes(file)[name], value), name
        assert type(attributes(file)["int"]) is int
        assert attributes(file)["bytes"] == VALUES["bytes"]
    assert [one for one in cn.check(path) if one.severity == "error"] == []


def test_each_is_one_commit_and_can_be_part_of_more(place: tuple[Path, Any]) -> None:
    path, attributes = place
    with cn.open(path, "r+") as file:
        attributes(file)["run"] = 1
        with pytest.raises(ZeroDivisionError), file.transaction():
            attributes(file)["run"] = 2
            attributes(file)["other"] = 3
            1 / 0  # noqa: B018
        assert dict(attributes(file)) == {"run": 1}
        attributes(file).update(a=1, b="two")
        del attributes(file)["run"]
        assert dict(attributes(file)) == {"a": 1, "b": "two"}
        with pytest.raises(KeyError):
            del attributes(file)["run"]
        with pytest.raises(KeyError):
            attributes(file)["run"]
        attributes(file).clear()
        assert dict(attributes(file)) == {}


def test_what_cannot_be_stored_is_refused_before_anything_is(place: tuple[Path, Any]) -> None:
    path, attributes = place
    with cn.open(path, "r+") as file:
        attributes(file)["kept"] = "old"
        before = dict(attributes(file))
        for wrong in (None, object(), {"a": 1}, 2**70, ["a", 1], b"", np.datetime64("2020-01-01"), "a\0b", [None]):
            with pytest.raises((UsageError, DataError)):
                attributes(file)["kept"] = wrong
            with pytest.raises((UsageError, DataError)):
                attributes(file).update({"new": 1, "kept": wrong})
        for name in ("", "a\0b", 3):
            with pytest.raises(UsageError):
                attributes(file)[name] = 1
        assert dict(attributes(file)) == before


FOREIGN = b"gr\xf6\xdfe"  # Latin-1
ESCAPED = "gr\udcf6\udcdfe"


@pytest.fixture
def foreign_path(tmp_path: Path) -> Path:
    """A file in which every object has an attribute whose name is not UTF-8, and one of the name it would replace."""
    path = tmp_path / "a.h5"
    for layout in ("hep001", "anndata", "artifactdb"):
        cn.write(path, {"x": [1, 2]}, table=layout, layout=layout)
    with h5py.File(path, "r+") as file:
        file["compound"] = np.zeros(2, [("x", "i4")])
        file["columns/x"] = np.arange(2)
        named = [file]
        file.visititems(lambda _, node: named.append(node))
        for node in named:
            attribute = h5py.h5a.create(node.id, FOREIGN, h5py.h5t.STD_I32LE, h5py.h5s.create(h5py.h5s.SCALAR))
            attribute.write(np.array(7, "i4"))
            node.attrs["größe"] = 8.5
    return path


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("what", ["file", "hep001", "column", "anndata", "artifactdb", "compound", "columns"])
def test_names_that_are_not_utf8_are_escaped(foreign_path: Path, what: str, mode: Literal["r", "r+"]) -> None:
    with cn.open(foreign_path, mode) as file:
        table = file.table(
            what if what not in ("file", "column") else "hep001", layout="columns" if what == "columns" else None
        )
        attributes = {"file": file.attrs, "column": table["x"].attrs}.get(what, table.attrs)
        assert {name: attributes[name] for name in attributes} == dict(attributes)
        assert dict(attributes) == {ESCAPED: 7, "größe": 8.5}
        assert ESCAPED in attributes and "gr\ufffd\ufffde" not in attributes
        assert "\ud800" not in attributes and "größe\0" not in attributes


@pytest.mark.parametrize("what", ["file", "hep001", "column", "anndata", "artifactdb"])
def test_attributes_whose_names_are_not_utf8_are_changed_in_place(foreign_path: Path, what: str) -> None:
    def attributes(file: cn.File) -> Any:
        return {"file": file.attrs, "column": file["hep001"]["x"].attrs}.get(what) or file[what].attrs

    with cn.open(foreign_path, "r+") as file:
        attributes(file)[ESCAPED] = 9
        assert dict(attributes(file)) == {ESCAPED: 9, "größe": 8.5}
        with pytest.raises(UsageError):
            attributes(file)["\ud800"] = 1
    with h5py.File(foreign_path) as h5:
        node = {"file": h5, "column": h5["hep001/x"]}.get(what) or h5[what]
        assert [name for name in node.attrs if isinstance(name, bytes)] == [FOREIGN]
    with cn.open(foreign_path, "r+") as file:
        del attributes(file)[ESCAPED]
        assert dict(attributes(file)) == {"größe": 8.5}


@pytest.mark.parametrize("what", ["hep001", "artifactdb", "compound"])
def test_attributes_whose_names_are_not_utf8_are_copied(foreign_path: Path, tmp_path: Path, what: str) -> None:
    with cn.open_table(foreign_path, what) as table:
        table.write(tmp_path / "b.h5", "t")
    cn.convert(foreign_path, tmp_path / "c.h5", layout="hep001")
    for path, name in ((tmp_path / "b.h5", "t"), (tmp_path / "c.h5", what)):
        with cn.open_table(path, name) as table:
            assert dict(table.attrs) == {ESCAPED: 7, "größe": 8.5}


def test_reading_mode_says_so(place: tuple[Path, Any]) -> None:
    path, attributes = place
    with cn.open(path) as file, pytest.raises((ConflictError, UsageError), match=r"r\+|reading"):
        attributes(file)["run"] = 1


OWNED = {
    "hep001": (["CLASS", "VERSION", "TITLE", "description", "column-order", "_index", "units_vocabulary", "_mine"],
               ["units", "description", "units_vocabulary", "_categories", "arrow_type", "_search_indexes"]),
    "anndata": (["encoding-type", "encoding-version", "_index", "column-order"], ["encoding-type", "na-value"]),
    "artifactdb": (["version", "row-count"], ["type", "missing-value-placeholder"]),
}  # fmt: skip


@pytest.mark.parametrize("layout", OWNED)
def test_what_belongs_to_the_layout_is_refused_by_name(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "a.h5"
    cn.write(path, {"x": [1, 2]}, table="t", layout=layout)
    with cn.open(path, "r+") as file:
        table = file["t"]
        before = {name: table.attrs.get(name) for name in OWNED[layout][0]}
        for attributes, names in ((table.attrs, OWNED[layout][0]), (table["x"].attrs, OWNED[layout][1])):
            for name in names:
                with pytest.raises(UsageError, match=name):
                    attributes[name] = "mine"
                assert name not in attributes
        assert {name: table.attrs.get(name) for name in OWNED[layout][0]} == before
        assert table.to_arrow().num_rows == 2


def test_the_message_names_the_property(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": [1]}, table="t")
    with cn.open(tmp_path / "a.h5", "r+") as file:
        with pytest.raises(UsageError, match="property title"):
            file["t"].attrs["TITLE"] = "x"
        with pytest.raises(UsageError, match="property units"):
            file["t"]["x"].attrs["units"] = "m"
        file["t"].units_vocabulary = "UCUM"
        assert (file["t"].units_vocabulary, file["t"]["x"].units_vocabulary) == ("UCUM", "UCUM")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["t"].attrs["units_vocabulary"] == b"UCUM"


def test_they_stay_through_other_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    cn.write(path, {"x": [1, 2], "s": ["a", "b"]}, table="t", columns={"s": cn.column(strings="fixed")})
    with cn.open(path, "r+") as file:
        table = file["t"]
        file.attrs["campaign"], table.attrs["run"] = "b", 42
        table["x"].attrs["calibration"], table["s"].attrs["source"] = 1.5, "hand"
        table.append({"x": [3], "s": ["much longer than the others"]})
        table.replace_column("x", ["now", "text", None])
        table.rename_column("s", "r")
        table.title = "A title"
        file.repack()
        table = file["t"]
        assert (dict(file.attrs), dict(table.attrs)) == ({"campaign": "b"}, {"run": 42})
        assert dict(table["x"].attrs) == {"calibration": 1.5}
        assert dict(table["r"].attrs) == {"source": "hand"}
        assert table.title == "A title"


def public_classes() -> list[type]:
    return [kind for name in cn.__all__ if inspect.isclass(kind := getattr(cn, name))]


@pytest.mark.parametrize("kind", public_classes(), ids=lambda kind: kind.__name__)
def test_no_public_class_takes_an_attribute_that_it_does_not_have(kind: type) -> None:
    """A mistyped property is an error: nothing is stored in silence."""
    builtin: Any = next(base for base in kind.__mro__ if base.__module__ in ("builtins", "numpy"))
    made = builtin.__new__(kind, *([0] if issubclass(kind, np.ndarray) else []))
    for name in ("unit", "tilte", "run", "columns_order"):
        with pytest.raises(AttributeError):
            setattr(made, name, 1)


def test_the_nearest_property_is_named(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": [1]}, table="t")
    with cn.open(tmp_path / "a.h5", "r+") as file:
        assert settable(cn.Table) == ["columns", "description", "title", "units_vocabulary"]
        with pytest.raises(AttributeError, match=r"title\."):
            file["t"].titel = "x"
        with pytest.raises(AttributeError, match=r"units.*attrs\['unit'\]"):
            file["t"]["x"].unit = "m"
        for thing, name in ((file, "name"), (file["t"], "n_rows"), (file["t"]["x"], "name"), (file["t"].head(), "x")):
            with pytest.raises(AttributeError):
                setattr(thing, name, "other")
