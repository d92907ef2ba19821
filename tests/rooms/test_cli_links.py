"""--links of the commands: the same wish as links= of colonnade.open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from colonnade.cli.commands import main

N_ROWS = 8


@pytest.fixture
def leading_out(tmp_path: Path) -> Path:
    """A table whose column is a virtual dataset of a file in the folder above."""
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file["data"] = np.arange(N_ROWS, dtype="i4")
    layout = h5py.VirtualLayout((N_ROWS,), "i4")
    layout[:] = h5py.VirtualSource("../source.h5", "data", (N_ROWS,))
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "run.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("t")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_(b"COLUMN_TABLE"), np.bytes_(b"1.0")
        group.create_virtual_dataset("x", layout)
    return path


def call(*words: Any) -> Any:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.parametrize("links", [[], ["--links", "folder"], ["--links", "none"]])
def test_rows_elsewhere_are_not_read_unless_wished(leading_out: Path, links: list[str]) -> None:
    assert call("count", leading_out, "x > 3", *links).exit_code == 3
    assert call("where", leading_out, "x > 3", *links).exit_code == 3
    assert call("head", leading_out, "-c", "x", *links).exit_code == 3
    assert call("stats", leading_out, *links).exit_code == 1
    assert "--links any" in call("count", leading_out, "x > 3", *links).output.replace("\n", " ")


def test_any_link_is_followed_where_that_is_wished(leading_out: Path, tmp_path: Path) -> None:
    wish = ["--links", "any"]
    assert call("count", leading_out, "x > 3", *wish).output.strip() == "4"
    assert call("where", leading_out, "x > 3", "--row-numbers", *wish).output.split() == ["4", "5", "6", "7"]
    assert call("head", leading_out, "-c", "x", *wish).exit_code == 0
    assert call("stats", leading_out, *wish).exit_code == 0
    target = tmp_path / "target.h5"
    assert call("append", target, leading_out, "-t", "t", "--create").exit_code == 3
    assert call("append", target, leading_out, "-t", "t", "--create", *wish).exit_code == 0
    assert call("count", target).output.strip() == str(N_ROWS)


def test_a_table_behind_a_link(leading_out: Path, tmp_path: Path) -> None:
    path = tmp_path / "in" / "behind.h5"
    other = tmp_path / "other.h5"
    assert call("append", other, leading_out, "-t", "t", "--create", "--links", "any").exit_code == 0
    with h5py.File(path, "w") as file:
        file["t"] = h5py.ExternalLink("../other.h5", "/t")
    for words in (["info"], ["schema"], ["index", "ls"], ["index", "verify"], ["check", "-t"]):
        asked = [*words, "/t", path] if "-t" in words else [*words, path, "/t"]
        assert call(*asked).exit_code == 3, words
        assert call(*asked, "--links", "any").exit_code == 0, words


@pytest.mark.parametrize(
    "words",
    [["info"], ["schema"], ["head"], ["check"], ["append"], ["where"], ["count"], ["stats"],
     ["index", "ls"], ["index", "verify"]],
    ids=" ".join,
)  # fmt: skip
def test_every_command_that_may_be_led_elsewhere_has_it(words: list[str]) -> None:
    assert "--links" in call(*words, "--help").output
    assert call(*words, "x.h5", "y", "--links", "sometimes").exit_code == 2
