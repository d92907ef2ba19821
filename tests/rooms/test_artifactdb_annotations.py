"""column_annotations of an ArtifactDB directory follow its columns, and dolomite-base reads it after that."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import UnsupportedError

dolomite = pytest.importorskip("dolomite_base")
biocframe = pytest.importorskip("biocframe")

ANNOTATIONS: dict[str, Any] = {
    "of every type": {"text": ["A", "B", "C"], "n": np.array([1, 2, 3], "i4"), "x": [0.5, 1.5, 2.5],
                      "flag": [True, False, True]},
    "factor": {"level": ["p", "q", "p"]},
}  # fmt: skip


def saved(folder: Path, annotations: dict[str, Any], row_names: bool = True) -> Path:
    described = biocframe.BiocFrame(annotations, number_of_rows=3, row_names=["a", "b", "c"] if row_names else None)
    frame = biocframe.BiocFrame({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5]}, column_data=described)
    dolomite.save_object(frame, str(folder))
    if row_names:  # which dolomite leaves out there
        shutil.rmtree(folder / "column_annotations")
        dolomite.save_object(described, str(folder / "column_annotations"))
    return folder


def annotations_of(folder: Path) -> dict[str, list[Any]]:
    dolomite.validate_object(str(folder))
    assert [one for one in cn.check(folder, deep=True) if one.severity == "error"] == []
    return cn.read(folder / "column_annotations").to_pydict()


def test_annotations_follow_the_order_of_columns(tmp_path: Path) -> None:
    folder = saved(tmp_path / "d", ANNOTATIONS["of every type"])
    with cn.open(folder, "r+") as file:
        file[file.tables()[0]].columns = ["c", "a", "b"]
    after = annotations_of(folder)
    assert (after["text"], after["n"]) == (["C", "A", "B"], [3, 1, 2])


@pytest.mark.parametrize("row_names", [True, False])
@pytest.mark.parametrize("kind", ANNOTATIONS)
def test_annotations_follow_the_columns(kind: str, row_names: bool, tmp_path: Path) -> None:
    folder = saved(tmp_path / "d", ANNOTATIONS[kind], row_names)
    with cn.open(folder, "r+") as file:
        table = file[file.tables()[0]]
        table.add_column("new", [1.5, 2.5])
        table.drop_column("b")
        table.rename_column("c", "last")
    after = annotations_of(folder)
    for name, values in ANNOTATIONS[kind].items():
        assert after[name] == [*list(values)[::2], None]
    with cn.open(folder / "column_annotations") as file:
        rows = file[file.tables()[0]]
        assert rows.n_rows == 3
        labels = rows.labels
    assert len(labels) == row_names
    if row_names:
        assert after[labels[0]] == ["a", "last", "new"]


def test_a_change_that_is_taken_back_leaves_annotations(tmp_path: Path) -> None:
    folder = saved(tmp_path / "d", ANNOTATIONS["factor"])
    before = (folder / "column_annotations" / "basic_columns.h5").read_bytes()
    with cn.open(folder, "r+") as file:
        table = file[file.tables()[0]]
        with pytest.raises(KeyError), file.transaction():
            table.drop_column("b")
            raise KeyError
    assert (folder / "column_annotations" / "basic_columns.h5").read_bytes() == before
    with cn.open(folder, "r+") as file:
        file[file.tables()[0]].drop_column("a")
    assert annotations_of(folder)["level"] == ["q", "p"]


def test_what_others_left_behind_is_found_and_not_made_worse(tmp_path: Path) -> None:
    folder = saved(tmp_path / "d", ANNOTATIONS["factor"])
    shutil.rmtree(folder / "column_annotations")
    dolomite.save_object(biocframe.BiocFrame({"level": ["p", "q"]}), str(folder / "column_annotations"))
    findings = [one for one in cn.check(folder, deep=True) if one.severity == "error"]
    assert [(one.rule, one.path, one.found, one.expected) for one in findings] == [
        ("DO4", "column_annotations", "2 rows", "3 rows")
    ]
    with cn.open(folder, "r+") as file:
        table = file[file.tables()[0]]
        for change in (lambda: table.add_column("d", [1, 2]), lambda: table.drop_column("a")):
            with pytest.raises(UnsupportedError, match="has 2 rows for 3 columns"):
                change()
        table.append({"a": [3], "b": ["z"], "c": [2.5]})  # rows are not columns
    with h5py.File(folder / "basic_columns.h5") as file:
        assert len(file["data_frame/column_names"]) == 3
