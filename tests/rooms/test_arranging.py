"""Labels that come and go, and columns in another order: in every layout, with indexes, views and rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import ColumnNotFound, ConflictError, UnsupportedError, UsageError

DATA: dict[str, Any] = {
    "x": np.arange(6) * 0.5,
    "name": pa.array(["a", "b", "c", "d", "e", "f"]),
    "kind": pa.array(["u", "v", "u", "v", "u", "v"]).dictionary_encode(),
    "id": np.arange(6),
}


def table_at(path: Path, **options: Any) -> Path:
    cn.write(path, dict(DATA), "t", **options)
    return path


def assert_same_rows(t: cn.Table) -> None:
    """Every column and label has its rows still, and the file keeps its rules."""
    for name, values in DATA.items():
        assert t[name].to_arrow().to_pylist() == list(
            values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()
        )
    assert [found for found in cn.check(t._file.name, deep=True) if found.severity == "error"] == []


# -- labels of HEP001 --


@pytest.mark.parametrize(
    ("before", "after", "columns"),
    [
        ([], ["id"], ["x", "name", "kind"]),
        ([], ["id", "name"], ["x", "kind"]),
        (["id"], [], ["x", "name", "kind", "id"]),
        (["id"], ["name"], ["x", "kind", "id"]),
        (["id", "name"], ["name", "id"], ["x", "kind"]),
        (["id", "name"], ["kind", "name"], ["x", "id"]),
    ],
)
def test_labels_are_added_and_removed(tmp_path: Path, before: list[str], after: list[str], columns: list[str]) -> None:
    path = table_at(tmp_path / "x.h5", labels=before, index={"x": "sorted_rows", "kind": "bitmap"})
    for _ in range(2):  # the second time nothing changes
        with cn.open_table(path, mode="r+") as t:
            t.set_labels(after)
            assert (t.labels, t.columns) == (after, columns)
    with cn.open_table(path) as t:
        assert (t.labels, t.columns) == (after, columns)
        assert_same_rows(t)
        assert all(index.fresh and index.trusted for index in t.indexes) and len(t.indexes) == 2
        assert t.verify_indexes() == []
        assert t.where("x == 1.5").row_numbers().tolist() == [3]
        frame = t.to_pandas()
        assert [name for name in frame.index.names if name is not None] == after
    with cn.open_table(path, mode="r+") as t:
        t.append({name: t[name].to_arrow() for name in DATA})
        assert len(t) == 12 and cn.check(path, deep=True) == []


def test_a_table_may_have_labels_only(tmp_path: Path) -> None:
    """The standard keeps the order of the others in the columns."""
    path = table_at(tmp_path / "x.h5")
    with cn.open_table(path, mode="r+") as t:
        t.set_labels(["name", "x", "kind", "id"])
        assert (t.labels[0], sorted(t.labels), t.columns) == ("name", sorted(DATA), [])
        t.set_labels([])
        assert (t.labels, sorted(t.columns), t.columns[0]) == ([], sorted(DATA), "name")
        assert_same_rows(t)


def test_labels_are_what_labels_at_creation_are(tmp_path: Path) -> None:
    """The same attributes as of a table that was written with them."""
    later, at_once = table_at(tmp_path / "a.h5"), table_at(tmp_path / "b.h5", labels=["name", "id"])
    with cn.open_table(later, mode="r+") as t:
        t.set_labels(["name", "id"])
    with h5py.File(later) as one, h5py.File(at_once) as other:
        assert set(one["t"].attrs) == set(other["t"].attrs)
        for name in DATA:
            assert set(one["t"][name].attrs) == set(other["t"][name].attrs), name
            for key in ("_indexes", "_columns_list"):
                if key in other["t"][name].attrs:
                    targets = [[f[ref].name for ref in f["t"][name].attrs[key]] for f in (one, other)]
                    assert targets[0] == targets[1]


def test_labels_that_cannot_be(tmp_path: Path) -> None:
    path = table_at(tmp_path / "x.h5")
    with cn.open(path, "r+") as f:
        t = f["t"]
        t.add_column("thin", [1.0] + [None] * 5, sparse=True)
        with pytest.raises(UsageError, match="cannot make column 'thin' a label: it is sparse"):
            t.set_labels(["thin"])
        with pytest.raises(ColumnNotFound, match="Nearest: 'name'"):
            t.set_labels(["nme"])
        with pytest.raises(UsageError, match="the labels name 'id' twice"):
            t.set_labels(["id", "id"])
        with pytest.raises(UsageError, match="a list of names, not as 'id'"):
            t.set_labels("id")
        t.set_labels(["id"])
        assert t.labels == ["id"] and "thin" in t.columns
    with cn.open_table(path) as t, pytest.raises(ConflictError):
        t.set_labels([])


def test_labels_and_order_are_part_of_transactions(tmp_path: Path) -> None:
    path = table_at(tmp_path / "x.h5")
    with cn.open(path, "r+") as f:
        t = f["t"]
        with pytest.raises(ZeroDivisionError), f.transaction():
            t.set_labels(["id"])
            t.columns = ["kind", "name", "x"]
            assert t.columns == ["kind", "name", "x"]
            raise ZeroDivisionError
        assert (t.labels, t.columns) == ([], list(DATA))
        with f.transaction():
            t.set_labels(["id"])
            t.columns = ["kind", "name", "x"]
            t.rename_column("kind", "sort")
        assert (t.labels, t.columns) == (["id"], ["sort", "name", "x"])


# -- order --


@pytest.mark.parametrize("layout", ["hep001", "anndata", "artifactdb"])
def test_columns_in_another_order(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, dict(DATA), "t", layout=layout, labels=["name"])
    with cn.open_table(path, mode="r+") as t:
        t.build_index({"x": "sorted_rows", "kind": "bitmap"})
        t.columns = ["id", "x", "kind"]
        assert (t.columns, t.labels) == (["id", "x", "kind"], ["name"])
        assert all(index.fresh and index.trusted for index in t.indexes)
    with cn.open_table(path, mode="r+") as t:
        assert (t.columns, t.labels) == (["id", "x", "kind"], ["name"])
        assert t.to_arrow().column_names[:3] == ["id", "x", "kind"]
        assert t.where("kind == 'u' and x > 0.5").row_numbers().tolist() == [2, 4]
        assert t.verify_indexes() == []
        assert_same_rows(t)
        t.append({name: t[name].to_arrow() for name in DATA})
        t.drop_column("x")
        assert t.columns == ["id", "kind"] and len(t) == 12


def test_an_order_names_every_column_once(tmp_path: Path) -> None:
    path = table_at(tmp_path / "x.h5", labels=["id"])
    before = path.read_bytes()
    with cn.open_table(path, mode="r+") as t:
        for names, error, said in (
            (["x", "name"], UsageError, "'kind' would be lost. Name every column"),
            (["x", "name", "kind", "kid"], ColumnNotFound, "'kid'"),
            (["x", "name", "kind", "id"], UsageError, "'id' is a label"),
            (["x", "name", "kind", "x"], UsageError, "the columns name 'x' twice"),
            ("x", UsageError, "a list of names"),
            ([1, 2, 3], UsageError, "a list of names"),
        ):
            with pytest.raises(error, match=said):
                t.columns = names  # type: ignore[assignment]
        t.columns = t.columns
    assert path.read_bytes() == before


def test_a_directory_of_artifactdb_follows(tmp_path: Path) -> None:
    cn.write(tmp_path / "cars", dict(DATA), layout="artifactdb", directory=True)
    with cn.open(tmp_path / "cars", "r+") as f:
        f["data_frame"].columns = ["id", "kind", "name", "x"]
    with cn.open(tmp_path / "cars") as f:
        assert f["data_frame"].columns == ["id", "kind", "name", "x"]
        assert_same_rows(f["data_frame"])


# -- frames --


def test_row_labels_of_a_frame_are_exchanged(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, dict(DATA), "obs", layout="anndata", labels=["name"])
    with cn.open_table(path, mode="r+") as t:
        for names in ([], ["name", "id"]):
            with pytest.raises(UsageError, match="has exactly one"):
                t.set_labels(names)
        with pytest.raises(UsageError, match="cannot make column 'kind' the row labels"):
            t.set_labels(["kind"])
        t.set_labels(["id"])
        assert (t.labels, t.columns) == (["id"], ["x", "kind", "name"])
        assert_same_rows(t)
    with h5py.File(path) as f:
        frame = anndata.io.read_elem(f["obs"])
    assert list(frame.columns) == ["x", "kind", "name"] and frame.index.name == "id"


def test_unnamed_row_labels_must_be_named_before_they_are_a_column(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, dict(DATA), "obs", layout="anndata")
    with cn.open_table(path, mode="r+") as t:
        with pytest.raises(UsageError, match="Rename them first: rename_column"):
            t.set_labels(["name"])
        t.rename_column(t.labels[0], "row")
        t.set_labels(["name"])
        assert (t.labels, t.columns) == (["name"], ["x", "kind", "id", "row"])


def test_row_names_of_artifactdb_stay(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, dict(DATA), "t", layout="artifactdb", labels=["name"])
    with cn.open_table(path, mode="r+") as t:
        with pytest.raises(UnsupportedError, match=r"Write the frame again with labels=\['id'\]"):
            t.set_labels(["id"])
        t.set_labels(["name"])
        assert t.labels == ["name"]


@pytest.mark.parametrize("recipe", ["R0", "R1", "R2"])
def test_a_view_of_anndata_follows(tmp_path: Path, recipe: str) -> None:
    path = tmp_path / "x.h5"
    data = {name: values for name, values in DATA.items() if recipe != "R0" or name != "kind"}
    data["plain"] = np.array(["p", "q", "r", "s", "t", "u"], dtype=object)
    cn.write(path, data, "obs", labels=["name"], anndata="0.7" if recipe == "R1" else True)
    with cn.open(path, "r+") as f:
        t = f["obs" if recipe != "R2" else "obs/_hep001"]
        columns = list(reversed(t.columns))
        t.columns = columns
        with h5py.File(path) as h5:
            assert list(anndata.io.read_elem(h5["obs"]).columns) == columns
        t.set_labels(["plain"])
        with pytest.raises(UsageError, match="needs a column and row labels"):
            t.set_labels([])
        assert t.labels == ["plain"] and [one for one in cn.check(path, deep=True) if one.severity == "error"] == []
    with h5py.File(path) as h5:
        frame = anndata.io.read_elem(h5["obs"])
    assert frame.index.tolist() == data["plain"].tolist()
    assert list(frame.columns) == [*(name for name in columns if name != "plain"), "name"]
