"""A column that cannot be described stays a column: reading it raises by name, and no change leaves it behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest
from click.testing import CliRunner
from h5py import h5g

import colonnade as cn
from colonnade.cli import main
from colonnade.errors import FormatError

LAYOUTS = ["hep001", "anndata", "artifactdb"]
DATA = {"x": [1, 2, 3], "bad": [1.5, 2.5, 3.5], "s": ["a", "b", "c"]}


def damage(path: Path, link: str, how: str = "header") -> None:
    """Overwrite the object header of a dataset, or the version of its datatype message."""
    with h5py.File(path) as file:
        low, high = h5g.get_objinfo(file[link].id).objno
        where = int(low) + (int(high) << 32)
        n_bytes = 16 if how == "header" else 400
    data = bytearray(path.read_bytes())
    if how == "header":
        data[where : where + n_bytes] = b"\xff" * n_bytes
    else:
        place = data.find(b"\x11", where)  # class 1 (float), version 1
        assert place < where + n_bytes
        data[place] = 0xF1
    path.write_bytes(bytes(data))


def write(path: Path, layout: str, **options: Any) -> str:
    """A table of three columns; the link of the column "bad"."""
    cn.write(path, DATA, table="t", layout=layout, **options)
    return "t/data/1" if layout == "artifactdb" else "t/bad"


@pytest.fixture(params=[(layout, how) for layout in LAYOUTS for how in ("header", "datatype")], ids="-".join)
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    layout, how = request.param
    path = tmp_path / "t.h5"
    damage(path, write(path, layout), how)
    return path


def test_it_stays_among_the_columns(damaged: Path) -> None:
    """In its place; the others are read as ever."""
    with cn.open(damaged) as file:
        table = file["t"]
        assert table.columns == ["x", "bad", "s"]
        assert table["bad"].info.problem
        assert table.n_rows == 3
        assert "bad" in repr(table) and table.schema.names[:3] == ["x", "bad", "s"]
        assert table["x"].to_arrow().to_pylist() == [1, 2, 3]
        assert table.select("x", "s").to_arrow().to_pydict() == {"x": [1, 2, 3], "s": ["a", "b", "c"]}
        assert any("bad" in problem.path or "data/1" in problem.path for problem in table.problems)
    assert cn.read(damaged, "t", columns=["s"]).to_pydict() == {"s": ["a", "b", "c"]}


READS: dict[str, Callable[[Any], Any]] = {
    "read": lambda table: table.to_arrow(),
    "column": lambda table: table["bad"].to_arrow(),
    "cell": lambda table: table["bad"][0],
    "row": lambda table: table[0],
    "batches": lambda table: list(table.batches()),
    "pandas": lambda table: table.to_pandas(),
    "where": lambda table: table.where("bad > 2").count(),
    "aggregate": lambda table: table.aggregate(top=("bad", "max")),
}


@pytest.mark.parametrize("read", READS)
def test_reading_it_raises_by_name(damaged: Path, read: str) -> None:
    with cn.open(damaged) as file, pytest.raises(cn.errors.ColonnadeError, match="'bad'"):
        READS[read](file["t"])


CHANGES: dict[str, Callable[[Any], Any]] = {
    "append": lambda table: table.append({"x": [4], "bad": [4.5], "s": ["d"]}),
    "append without it": lambda table: table.append({"x": [4], "s": ["d"]}),
    "truncate": lambda table: table.truncate(1),
    "update": lambda table: table.update("bad", [0], [9.0]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_change_leaves_it_behind(damaged: Path, change: str) -> None:
    """Refused by name, and the other columns are as long as before."""
    with cn.open(damaged, "r+") as file, pytest.raises(FormatError, match=r"cannot (change|be changed).*(bad|data/1)"):
        CHANGES[change](file["t"])
    with cn.open(damaged) as file:
        assert file["t"]["x"].to_arrow().to_pylist() == [1, 2, 3]


def test_the_other_columns_can_be_saved(damaged: Path, tmp_path: Path) -> None:
    """The way out, as the message says."""
    with cn.open(damaged) as file:
        cn.write(tmp_path / "saved.h5", file["t"].select("x", "s"), table="t")
    assert cn.read(tmp_path / "saved.h5", "t").to_pydict() == {"x": [1, 2, 3], "s": ["a", "b", "c"]}


def test_a_damaged_label_is_a_label(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    cn.write(path, {"x": [1, 2], "key": ["a", "b"]}, table="t", labels=["key"])
    damage(path, "t/key")
    with cn.open(path, "r+") as file:
        assert (file["t"].columns, file["t"].labels) == (["x"], ["key"])
        with pytest.raises(FormatError, match="'key'"):
            file["t"].append({"x": [3], "key": ["c"]})
        with pytest.raises(FormatError, match="'key'"):
            file["t"].to_arrow()


def test_damaged_categories_are_no_column(tmp_path: Path) -> None:
    """The column that they belong to has the problem."""
    path = tmp_path / "t.h5"
    cn.write(path, {"x": [1, 2], "c": ["a", "b"]}, table="t", columns={"c": cn.column(categories=True)})
    with h5py.File(path) as file:
        (link,) = set(file["t"]) - {"x", "c"}
    damage(path, f"t/{link}")
    with cn.open(path) as file:
        assert file["t"].columns == ["x", "c"]
        with pytest.raises(FormatError, match="'c'"):
            file["t"].to_arrow()


def test_a_listed_dataset_of_two_axes_is_not_passed_over(tmp_path: Path) -> None:
    """By column-order it is a column; by its rank it cannot be read."""
    path = tmp_path / "t.h5"
    write(path, "hep001")
    with h5py.File(path, "r+") as file:
        del file["t/bad"]
        file["t/bad"] = [[1, 2], [3, 4], [5, 6]]
    with cn.open(path) as file:
        assert file["t"].columns == ["x", "bad", "s"]
        with pytest.raises(FormatError, match="rank 2"):
            file["t"].to_arrow()


@pytest.mark.parametrize("command", ["info", "schema", "head", "ls", "check"])
def test_the_command_line_shows_it(damaged: Path, command: str) -> None:
    shown = CliRunner().invoke(main, [command, str(damaged), "--json"]).stdout
    json.loads(shown)
    assert "bad" in shown or "data/1" in shown or (command == "ls" and "problem" in shown)
