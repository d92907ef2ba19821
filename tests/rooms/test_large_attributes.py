"""The limit of 64 KiB for an attribute: tables are given room where that can be, else it is said what is too long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import DataError
from colonnade.h5 import attributes
from colonnade.layouts.hep001 import describe
from colonnade.nodes.damage import to_corrupt_error

LONG = "x" * 70_000


def test_a_long_title_is_written_and_set(tmp_path: Path) -> None:
    for name, title in (("new.h5", LONG), ("old.h5", None)):
        cn.write(tmp_path / name, {"x": [1, 2], "k": ["a", "b"]}, table="t", title=title, labels=["k"])
        with cn.open(tmp_path / name, "r+") as file:
            file["t"].build_index("x", "sorted_rows")
            file["t"].attrs["run"] = 42
            file["t"].title = LONG
            file["t"].attrs["calibration"] = np.arange(20_000.0)
            file["t"].append({"x": [3], "k": ["c"]})
        with cn.open(tmp_path / name) as file:
            table = file["t"]
            calibration = table.attrs["calibration"]
            assert isinstance(calibration, np.ndarray)
            assert (table.title, table.attrs["run"], len(calibration)) == (LONG, 42, 20_000)
            assert table.where("x == 3").to_arrow().to_pydict() == {"x": [3], "k": ["c"]}
        assert [one for one in cn.check(tmp_path / name, deep=True) if one.severity == "error"] == []
    with h5py.File(tmp_path / "old.h5") as file:
        assert len(file["t"].attrs["TITLE"]) == 70_000


def test_columns_with_long_names_one_by_one(tmp_path: Path) -> None:
    """column-order outgrows the header of the group it was made with."""
    path = tmp_path / "a.h5"
    cn.write(path, {"x": [1]}, table="t")
    names = [f"{number:02}" + "n" * 2_000 for number in range(40)]
    with cn.open(path, "r+") as file:
        for number, name in enumerate(names):
            file["t"].add_column(name, [number])
        file["t"].rename_column("x", "y" * 40_000)
    with cn.open(path) as file:
        assert file["t"].columns == ["y" * 40_000, *names]
        assert file["t"][names[-1]][0] == 39
    assert [one for one in cn.check(path) if one.severity == "error"] == []


def test_adding_a_column_costs_the_same_however_many_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of columns with long names, added one by one: as many columns are described for the last as for the first."""
    counts: list[int] = []
    real = describe._Description._member

    def counted(*arguments: Any) -> Any:
        counts[-1] += 1
        return real(*arguments)

    monkeypatch.setattr(describe._Description, "_member", counted)
    cn.write(tmp_path / "a.h5", {"x": [1]}, table="t")
    sizes = []
    with cn.open(tmp_path / "a.h5", "r+", durability="fast") as file:
        for number in range(160):
            counts.append(0)
            file["t"].add_column(f"{number:03}" + "n" * 1_000, [number])
            sizes.append((tmp_path / "a.h5").stat().st_size)
    assert max(counts[120:]) <= max(counts[20:40])
    assert sizes[159] <= 5 * sizes[39]


def test_what_does_not_fit_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    cn.write(path, {"x": [1, 2]}, table="/", title="kept")
    before = path.read_bytes()
    with cn.open(path, "r+") as file:
        table = file["/"]
        for name, n_bytes, change in (
            ("title", 70_000, lambda: setattr(table, "title", LONG)),
            ("description", 70_000, lambda: setattr(table["x"], "description", LONG)),
            ("b", 72_000, lambda: table["x"].attrs.update(a=1, b=np.zeros(9_000))),
            ("b", 70_000, lambda: table.attrs.update(a=1, b=LONG)),
            ("b", 70_000, lambda: file.attrs.update(a=1, b=LONG)),
        ):
            with pytest.raises(DataError, match=f"cannot store .*'{name}' of {n_bytes:,} bytes.* 64 KiB"):
                change()
        with pytest.raises(DataError, match=r"^/: cannot store the names of 2 columns: .* 64 KiB"):
            table.add_column("n" * 40_000, [1, 2])
        assert (table.title, dict(table.attrs), dict(table["x"].attrs)) == ("kept", {}, {})
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("write", "n_bytes"),
    [
        (lambda node, name: attributes.write_text(node, name, LONG), 70_000),
        (lambda node, name: attributes.write_texts(node, name, ["a", LONG]), 140_000),
        (lambda node, name: attributes.write_variable_texts(node, name, ["a"] * 5_000), 80_000),
        (lambda node, name: attributes.write_references(node, name, [node] * 9_000), 72_000),
        (lambda node, name: attributes.write_values(node, {"a": 1, name: LONG}, without=("gone",)), 70_000),
    ],
)
def test_an_attribute_is_kept_if_its_new_value_does_not_fit(write: Any, n_bytes: int, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        node = file.create_group("g")
        node.attrs.update({"long": "kept", "gone": 1})
        with pytest.raises(DataError, match=f"attribute 'long' of {n_bytes:,} bytes"):
            write(node.id, "long")
        assert dict(node.attrs) == {"long": "kept", "gone": 1}


def test_thresholds_of_dense_storage_are_the_defaults(tmp_path: Path) -> None:
    """pyfive refuses an object header that stores its own."""
    cn.write(tmp_path / "a.h5", {"x": [1, 2]}, table="t", title=LONG)
    with h5py.File(tmp_path / "a.h5") as file:
        usual = h5py.h5p.create(h5py.h5p.GROUP_CREATE).get_attr_phase_change()
        assert file["t"].id.get_create_plist().get_attr_phase_change() == usual


def test_the_limit_of_the_library_is_not_damage(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file, pytest.raises((OSError, RuntimeError)) as caught:
        file.attrs["long"] = np.zeros(70_000, "u1")
    assert isinstance(to_corrupt_error(caught.value, "a.h5"), DataError)


def test_a_table_is_replaced_by_one_that_needs_large_attributes(tmp_path: Path) -> None:
    path, wide = tmp_path / "x.h5", {f"a column with a long name {number:06}": [1] for number in range(3_000)}
    cn.write(path, {"a": [1]}, "t")
    cn.write(path, wide, "t", mode="replace")
    with cn.open(path) as file:
        assert list(file["t"].columns) == list(wide)
