"""Links are followed by our own reader as libhdf5 follows them, in the file and out of it, as the policy allows."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ColonnadeError, TableNotFound, UnsupportedError
from colonnade.h5.files import open_file as open_by_library
from colonnade.opening import open_file
from colonnade.pager.options import Care, Links

SOFT_AND_OUT = ("mixed", "through")  # libhdf5 takes the path of the soft link for that of the object in another file
POLICIES: list[Links] = ["folder", "none", "any"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file `in/a.h5` with links of every kind, and what they lead to."""
    (tmp_path / "in" / "sub").mkdir(parents=True)
    for place in ("above.h5", "in/b.h5", "in/sub/c.h5"):
        with h5py.File(tmp_path / place, "w") as file:
            file["g/x"] = np.arange(3)
            file["g"].attrs["where"] = place
            file["soft"] = h5py.SoftLink("g/x")
            file["back"] = h5py.ExternalLink("a.h5", "/g/x")
            file["up"] = h5py.ExternalLink("../a.h5", "/g/x")
            file["above"] = h5py.ExternalLink("../above.h5", "/g/x")
            file["round"] = h5py.ExternalLink("a.h5", "/round")
    (tmp_path / "in" / "text.h5").write_text("not HDF5")
    (tmp_path / "in" / "empty.h5").write_bytes(b"")
    (tmp_path / "in" / "broken.h5").write_bytes((tmp_path / "in" / "b.h5").read_bytes()[:1000])
    (tmp_path / "in" / "symlink.h5").symlink_to(tmp_path / "above.h5")
    os.mkfifo(tmp_path / "in" / "pipe.h5")
    write_links(tmp_path / "in" / "a.h5", str(tmp_path))
    return tmp_path / "in"


def write_links(path: Path, root: str) -> None:
    targets = [
        ("b.h5", "/g"), ("b.h5", "/g/x"), ("b.h5", "g/x"), ("b.h5", "/soft"), ("b.h5", "/back"), ("b.h5", "/no"),
        ("b.h5", "/"), ("sub/c.h5", "/g"), ("sub/c.h5", "/up"), ("sub/c.h5", "/above"), ("./sub/../b.h5", "/g"),
        ("../above.h5", "/g"), (f"{root}/above.h5", "/g"), (f"{root}/in/b.h5", "/g"), ("/nowhere/b.h5", "/g"),
        ("/etc/passwd", "/"), ("missing.h5", "/g"), ("text.h5", "/"), ("empty.h5", "/"), ("broken.h5", "/g"),
        ("symlink.h5", "/g"), ("sub", "/g"), ("a.h5", "/g"), ("a.h5", "/e6"), ("a.h5", "/self"),
    ]  # fmt: skip
    with h5py.File(path, "w") as file:
        file["g/x"] = np.arange(5)
        file["g/deeper/y"] = np.arange(2)
        for number, (name, target) in enumerate(targets):
            file[f"e{number}"] = h5py.ExternalLink(name, target)
        file["self"] = h5py.ExternalLink("a.h5", "/self")
        file["round"] = h5py.ExternalLink("b.h5", "/round")
        file["soft"], file["relative"] = h5py.SoftLink("/g/x"), h5py.SoftLink("g/deeper")
        file["g/deeper/dots"], file["g/near"] = h5py.SoftLink("./y"), h5py.SoftLink("deeper/./y")
        file["through"], file["loop"] = h5py.SoftLink("/e0/x"), h5py.SoftLink("loop")
        file["s0"] = h5py.SoftLink("/g/x")
        for number in range(1, 20):
            file[f"s{number}"] = h5py.SoftLink(f"s{number - 1}")
        file["mixed"] = h5py.SoftLink("e4")


def answer(root: Any, path: str) -> tuple[object, ...]:
    """What opening a path gives: the kind and contents of the object, or the error."""
    try:
        dataset, group = root.open_dataset(path), root.open_group(path)
    except ColonnadeError as error:
        return type(error), str(error).partition(" is reached through ")[2], getattr(error, "target", None)
    if dataset is not None:
        return "dataset", dataset.path, dataset.read_array().tolist(), dataset.file.place
    return () if group is None else ("group", group.path, group.link_names(), group.file.place)


def paths_in(path: Path) -> list[str]:
    with h5py.File(path) as file:
        names = list(file)
    more = [
        "e0/x",
        "e6/g/x",
        "e6/back",
        "e7/x",
        "g/near",
        "g/deeper/dots",
        "relative/y",
        "relative/dots",
        "e0/no",
        "x/y",
    ]
    return [*names, *more, *(f"/{name}" for name in more)]


@pytest.mark.parametrize("links", POLICIES)
def test_paths_lead_where_libhdf5_says(folder: Path, links: Links, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    theirs = open_by_library(folder / "a.h5", "r", care=Care(links=links))
    ours = open_file(folder / "a.h5", "r", care=Care(links=links, library="never"))
    ours.refresh()
    found = {path: answer(ours.root, path) for path in paths_in(folder / "a.h5")}
    expected = {path: answer(theirs.root, path) for path in found}
    if links != "none":
        for path in SOFT_AND_OUT:
            assert (found[path][1], expected[path][1]) == ("/g/x", f"/{path}")
            expected[path] = (expected[path][0], "/g/x", *expected[path][2:])
    assert found == expected
    assert sum(answered[:1] == ("dataset",) for answered in found.values()) > 15
    ours.close()
    theirs.close()


def test_prefixes_of_the_environment_are_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HDF5_EXT_PREFIX", str(folder / "sub"))
    with h5py.File(folder / "d.h5", "w") as file:
        file["out"] = h5py.ExternalLink("c.h5", "/g")
    found = []
    for opened in (open_by_library(folder / "d.h5"), open_file(folder / "d.h5", care=Care(library="never"))):
        found.append(answer(opened.root, "out"))
        opened.close()
    assert found[0] == found[1] != ()


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    with h5py.File(folder / "d.h5", "w") as file:
        file["out"] = h5py.ExternalLink("pipe.h5", "/g")
    with cn.open(folder / "d.h5") as file, pytest.raises(UnsupportedError):
        file["out"]
    with cn.open(folder / "d.h5", links="any") as file, pytest.raises(TableNotFound):
        file["out"]


def test_a_file_object_leads_nowhere(folder: Path) -> None:
    with (folder / "a.h5").open("rb") as stream, cn.open(stream, links="any") as file:
        refused = pytest.raises(UnsupportedError, match="not followed")
        with refused:
            file["e0"]


def linked(folder: Path) -> Path:
    """A file with a link to a table of another."""
    cn.write(folder / "rows.h5", {"x": [1, 2]}, table="t")
    with h5py.File(folder / "master.h5", "w") as file:
        file["t"] = h5py.ExternalLink("rows.h5", "/t")
    return folder / "master.h5"


def test_the_other_file_is_read_as_of_its_last_commit(folder: Path) -> None:
    with cn.open(linked(folder), library="never") as file:
        table = file["t"]
        assert table["x"].to_numpy().tolist() == [1, 2]
        with cn.open(folder / "rows.h5", "r+") as writer:
            writer["t"].append({"x": [3]})
            with writer.transaction():
                writer["t"].append({"x": [4]})
                assert table["x"].to_numpy().tolist() == [1, 2, 3] and len(file["t"]) == 3
        assert table.where("x > 1").to_arrow()["x"].to_pylist() == [2, 3, 4]
        (folder / "rows.h5").unlink()
        with pytest.raises(TableNotFound):
            file["t"]
        assert file.tables() == []
        cn.write(folder / "rows.h5", {"x": [7]}, table="t")
        assert file["t"]["x"].to_numpy().tolist() == [7]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_the_other_file_is_closed_with_its_owner(folder: Path) -> None:
    path = linked(folder)
    gc.collect()
    before = open_files()
    with cn.open(path) as file:
        assert len(file["t"]) == 2
    del file
    gc.collect()
    assert open_files() == before


def test_many_files_that_are_led_to_are_not_all_kept_open(folder: Path) -> None:
    cn.write(folder / "rows.h5", {"x": [1, 2]}, table="t")
    data = (folder / "rows.h5").read_bytes()
    with h5py.File(folder / "master.h5", "w") as file:
        for number in range(60):
            (folder / f"rows{number}.h5").write_bytes(data)
            file[f"t{number}"] = h5py.ExternalLink(f"rows{number}.h5", "/t")
    with cn.open(folder / "master.h5") as file:
        before = open_files()
        for number in range(60):
            assert len(file[f"t{number}"]) == 2
            gc.collect()
        assert open_files() < before + 10
