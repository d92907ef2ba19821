"""Tables that are read as those of a layout that is asked for, in Python and on the command line."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest
from click.testing import CliRunner, Result

import colonnade as cn
from colonnade.cli import main
from colonnade.dataclass import replace
from colonnade.errors import TableNotFound, UsageError
from colonnade.layouts import LAYOUTS
from colonnade.layouts.contract import Candidate
from tests.rooms.toy_layout import TOY

Run = Callable[..., Result]
QUIET = replace(
    TOY,
    name="quiet",
    is_table=lambda _group: False,
    could_be=lambda group: Candidate(3, 1, 24) if "toy" in group.attribute_names() else None,
)


@pytest.fixture
def run() -> Run:
    return lambda *given: CliRunner().invoke(main, [str(one) for one in given])


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a group that can be read as a table of the layout "quiet", and another group."""
    monkeypatch.setitem(LAYOUTS, "quiet", QUIET)
    path = tmp_path / "theirs.h5"
    with h5py.File(path, "w") as h5:
        group = h5.create_group("runs")
        group.attrs["toy"] = "Theirs"
        group["energy"] = [1.0, 2.0, 3.0]
        h5.create_group("other")["x"] = [[1]]
    return path


def test_a_group_that_declares_nothing_is_a_table_when_its_layout_is_asked_for(file: Path) -> None:
    with cn.open(file) as opened:
        assert opened.tables() == []
        with pytest.raises(TableNotFound):
            opened.table("runs")
        table = opened.table("runs", layout="quiet")
        assert (table.path, table.columns, table.where("energy > 1.5").count()) == ("/runs", ["energy"], 2)
        assert pickle.loads(pickle.dumps(table)).to_arrow() == table.to_arrow()
        with pytest.raises(UsageError, match=r"/other of .* cannot be read as a table of layout 'quiet'"):
            opened.table("/other", layout="quiet")
        with pytest.raises(TableNotFound):
            opened.table("/nowhere", layout="quiet")
        with pytest.raises(UsageError, match="unknown layout 'no'"):
            opened.table("/runs", layout="no")
    assert cn.open_table(file, "runs", layout="quiet").n_rows == 3
    assert cn.open_table(file, layout="quiet").path == "/runs"  # the only one
    assert cn.read(file, "runs", layout="quiet", where="energy > 2").num_rows == 1
    assert cn.read(file, layout="quiet").num_rows == 3


def test_a_group_of_two_layouts_is_read_as_either(tmp_path: Path) -> None:
    path = tmp_path / "two.h5"
    cn.write(path, {"name": ["a", "b"], "x": [1, 2]}, "obs", labels=["name"], anndata="0.7")
    with cn.open(path) as opened:
        assert opened.table("obs").layout == opened.table("obs", layout="hep001").layout == "hep001"
        view = opened.table("obs", layout="anndata")
        assert (view.layout, view["x"][:].tolist()) == ("anndata", [1, 2])


def test_indexes_are_built_next_to_it_and_stay_trusted(file: Path) -> None:
    with cn.open(file, "r+") as opened:
        table = opened.table("runs", layout="quiet")
        table.build_index("energy", "sorted_rows")
        opened.h5["other/x"][0, 0] = 2  # not of this table
        assert [(one.kind, one.trusted) for one in opened.table("runs", layout="quiet").indexes] == [
            ("sorted_rows", True)
        ]
        opened.h5["runs/energy"][0] = 5.0
        assert [one.trusted for one in table.indexes] == [False]
    assert cn.open_table(file, "runs", layout="quiet").where("energy == 5").count() == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["info"], '"layout": "toy"'),
        (["schema"], '"energy"'),
        (["head", "-n", "1"], '"energy": 1.0'),
        (["where", "energy > 2"], '"energy": 3.0'),
        (["count", "energy > 1"], '"count": 2'),
        (["stats"], '"energy"'),
        (["index", "build", "energy=sorted_rows"], '"kind": "sorted_rows"'),
        (["index", "ls"], '"indexes": []'),
        (["index", "verify"], '"indexes": []'),
    ],
)
@pytest.mark.parametrize("table", [[], ["/runs"]])
def test_commands_take_the_layout(file: Path, run: Run, given: list[str], expected: str, table: list[str]) -> None:
    words = 2 if given[0] == "index" else 1
    command, rest = given[:words], given[words:]
    if rest[:1] == ["-n"]:
        table, rest = [*table, *rest], []
    result = run(*command, file, *table, *rest, "--layout", "quiet", "--json")
    assert result.exit_code == 0, result.output
    assert expected in json.dumps(json.loads(result.output))
    assert run(*command, file, *table, *rest).exit_code != 0


def test_check_counts_a_table_of_the_layout(file: Path) -> None:
    assert cn.check(file, layout="quiet").checked.tables_without_rules == 1
    assert cn.check(file).checked.tables_without_rules == 0


def test_many_candidates_are_named(file: Path, run: Run) -> None:
    with h5py.File(file, "r+") as h5:
        h5.copy("runs", "again")
    with pytest.raises(UsageError, match="2 tables"):
        cn.read(file, layout="quiet")
    assert "name one: /again, /runs" in run("head", file, "--layout", "quiet").output


def test_a_table_of_another_layout_is_refused_with_its_own(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "run.h5"
    cn.write(path, {"x": [1]}, "events")
    with cn.open(path) as opened, pytest.raises(UsageError, match=r"layout 'pandas': it is one of layout 'hep001'$"):
        opened.table("/events", layout="pandas")
    refused = run("head", path, "--layout", "pandas")
    assert refused.exit_code == 1 and "holds no tables of layout 'pandas'; list" in refused.output


def test_rows_for_a_table_that_is_one_only_in_the_layout_asked_for(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "cells.h5"
    with h5py.File(path, "w") as h5:
        h5["cells/x"], h5["cells/y"] = [1, 2], [0.5, 1.5]
    cn.write(tmp_path / "more.h5", {"x": [3], "y": [2.5]}, "cells")
    refused = run("append", path, tmp_path / "more.h5", "--table", "cells", "--layout", "columns")
    assert refused.exit_code == 3 and "cannot change tables of layout 'columns': it is read-only" in refused.output
    unknown = run("append", path, tmp_path / "more.h5", "--table", "cells")
    assert unknown.exit_code == 2 and "no table 'cells'" in unknown.output
