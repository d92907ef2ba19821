"""HEP001 tables that anndata reads as data frames as well: the three recipes, and both faces after every change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from anndata._io.specs.registry import read_elem_partial  # it has no public name
from anndata.experimental import read_elem_lazy
from anndata.io import read_elem, write_elem

import colonnade as cn
from colonnade.errors import DataError, UsageError
from colonnade.layouts import anndata_recipes as recipes
from colonnade.layouts import anndata_view as faces
from tests.conftest import SetLimits
from tests.rooms.test_anndata_tables import N, frame


def plain() -> pd.DataFrame:
    """Nothing that AnnData needs a group for: R0."""
    return frame()[["number", "real", "flag", "word"]]


def categorical() -> pd.DataFrame:
    """What one group can show as a frame of version 0.1.0: R1."""
    return frame()[["number", "real", "flag", "word", "kind", "level"]]


def whole() -> pd.DataFrame:
    """Everything: R2."""
    return (
        frame().drop(columns=["text"]).assign(text=frame()["text"].astype(object).where(frame()["text"].notna(), None))
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "both.h5ad"


def written(path: Path, df: pd.DataFrame, wish: Any = True) -> str:
    """Write the table; gives its path."""
    cn.write(path, df, "obs", anndata=wish)
    with cn.open(path) as f:
        found = [name for name in f.tables() if f[name].layout == "hep001"]
    assert len(found) == 1
    return found[0]


def both(path: Path) -> pd.DataFrame:
    """The table as anndata reads it, after it was held against the table as it is read here."""
    with h5py.File(path) as h5:
        theirs: pd.DataFrame = read_elem(h5["obs"])
    with cn.open(path) as f:
        name = next(name for name in f.tables() if f[name].layout == "hep001")
        ours = f[name].to_arrow()
        assert [one for one in cn.check(path) if one.severity == "error"] == []
    assert list(theirs.columns) == [name for name in ours.column_names if name != theirs.index.name]
    for column in theirs:
        assert values(theirs[column]) == ours[str(column)].to_pylist(), column
    assert theirs.index.tolist() == ours[str(theirs.index.name)].to_pylist()
    return theirs


def values(series: pd.Series[Any]) -> list[Any]:
    return [None if pd.isna(value) else value for value in series.astype(object).tolist()]


def same(found: pd.DataFrame, want: pd.DataFrame) -> None:
    assert list(found.columns) == list(want.columns) and found.index.equals(want.index)
    for name in want:
        assert values(found[name]) == values(want[name]), name


RECIPES: dict[str, tuple[Callable[[], pd.DataFrame], Any, str]] = {
    "R0": (plain, True, "/obs"),
    "R1": (categorical, "0.7", "/obs"),
    "R2": (whole, True, "/obs/_hep001"),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_anndata_reads_labels_and_missing_rows(path: Path, recipe: str) -> None:
    make, wish, where = RECIPES[recipe]
    assert written(path, make(), wish) == where
    found = both(path)
    same(found, make())
    assert found["number"].dtype == np.int64 and found["flag"].dtype == bool
    if recipe != "R0":
        assert isinstance(found["kind"].dtype, pd.CategoricalDtype)
        assert found["level"].dtype == frame()["level"].dtype
    if recipe == "R2":
        assert found["some"].dtype == "Int16" and found["unsigned"].dtype == "UInt64"
        assert found["maybe"].dtype == "boolean"


@pytest.mark.parametrize("recipe", RECIPES)
def test_anndata_reads_a_part(path: Path, recipe: str) -> None:
    make, wish, _ = RECIPES[recipe]
    written(path, make(), wish)
    with h5py.File(path) as h5:
        names = [name for name in ("number", "word", "kind", "level") if name in make()]  # of masks it reads no parts
        found = read_elem_partial(h5["obs"], items=names, indices=(slice(5, 90), slice(None)))
        same(found, make().iloc[5:90][names])


@pytest.mark.parametrize("recipe", RECIPES)
def test_anndata_reads_it_lazily_where_it_can(path: Path, recipe: str) -> None:
    """R0 has attributes of fixed length, as HEP001 asks, and R1 is of version 0.1.0: anndata reads neither lazily."""
    make, wish, _ = RECIPES[recipe]
    written(path, make(), wish)
    with h5py.File(path) as h5:
        if recipe != "R2":
            with pytest.raises(Exception):  # noqa: B017 - whatever anndata says
                read_elem_lazy(h5["obs"]).to_memory()
            return
        try:
            found = read_elem_lazy(h5["obs"]).to_memory()
        except TypeError as error:
            if "'Uint64' not understood" not in str(error):  # of anndata 0.12.0 to 0.12.6: pandas has UInt64
                raise
            pytest.skip("this anndata cannot read unsigned numbers with missing rows lazily")
        same(found, make())


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("backed", [None, "r"])
def test_it_is_the_obs_of_an_anndata_file(path: Path, recipe: str, backed: Any) -> None:
    make, wish, where = RECIPES[recipe]
    anndata.AnnData(X=np.eye(N, 3, dtype="f4"), obs=pd.DataFrame(index=frame().index)).write_h5ad(path)
    cn.write(path, make(), "obs", anndata=wish, mode="replace")
    with cn.open(path, "r+") as f:
        f[where].build_index("number", "sorted_rows")
    found = anndata.read_h5ad(path, backed=backed)
    same(found.obs, make())
    assert found.shape == (N, 3) and np.asarray(found.X[:5]).sum() == 3
    if backed:
        found.file.close()


def test_r2_copies_no_rows(path: Path) -> None:
    written(path, whole())
    with h5py.File(path) as h5:
        obs = h5["obs"]
        for shown, kept in (("number", "number"), ("kind/codes", "kind"), ("some/values", "some"), ("cell", "cell")):
            assert obs[shown].id == obs["_hep001"][kept].id, shown


def test_changes_of_the_frame_itself_are_refused(path: Path) -> None:
    """The table inside is the one to change; the message says which."""
    written(path, whole())
    with cn.open(path, "r+") as f:
        for change in (
            lambda: f["obs"].append(whole()),
            lambda: f["obs"].update("number", [0], [1]),
            lambda: f["obs"].build_index("number", "sorted_rows"),
            lambda: f["obs"].drop_column("number"),
        ):
            with pytest.raises(UsageError, match="_hep001"):
                change()
    same(both(path), whole())


@pytest.mark.parametrize("recipe", RECIPES)
def test_both_faces_after_rows_are_added_and_changed(path: Path, recipe: str) -> None:
    make, wish, where = RECIPES[recipe]
    df = make()
    written(path, df, wish)
    more = make().iloc[:60].rename(index=lambda name: f"more-{name}")
    if "kind" in df:
        more["kind"] = pd.Categorical(["newcomer", *more["kind"].iloc[1:].astype(object)])
    with cn.open(path, "r+") as f:
        table = f[where]
        table.build_index({"number": "sorted_rows"})
        table.append(more)
        want = pd.concat([df, more])
        same(both_open(f, path), want)
        table.append(more.iloc[:1])
        table.update("number", [3, 4], [111, 222])
        table.update("real", [3], [None])
        if recipe == "R2":
            table.update("some", [0, 1], [None, 5])
            table.update("maybe", [0, 1], [None, True])
            table.update("text", [0, 1], [None, "x"])
        if recipe != "R0":
            table.update("kind", [2], ["another"])
        table.truncate(N + 30)
        assert [one.trusted for one in table.indexes] == [True]
    found = both(path)
    assert len(found) == N + 30 and found["number"].iloc[[3, 4]].tolist() == [111, 222]
    if recipe == "R2":
        assert values(found["some"].iloc[:2]) == [None, 5] and values(found["maybe"].iloc[:2]) == [None, True]


def both_open(f: cn.File, path: Path) -> pd.DataFrame:
    del f  # its commits are in the file
    return both(path)


def test_a_column_begins_to_miss_rows(path: Path) -> None:
    """In R2 the frame shows a mask from then on; in R0 there is no place for it, and the change is refused."""
    df = whole()
    df["text"] = "t"
    df["plain"] = np.arange(N)
    written(path, df)
    with cn.open(path, "r+") as f:
        table = f["obs/_hep001"]
        row = table[5]
        table.append({name: [None if name in ("plain", "flag", "text") else value] for name, value in row.items()})
        table.update("number", [7], [None])
    found = both(path)
    assert found["plain"].isna().tolist() == [False] * N + [True]
    assert found["number"].isna().sum() == 1 and found["flag"].isna().sum() == 1 and found["text"].isna().sum() == 1


@pytest.mark.parametrize("recipe", ["R0", "R1"])
@pytest.mark.parametrize("name", ["number", "flag", "word"])
def test_what_a_face_cannot_show_is_refused(path: Path, recipe: str, name: str) -> None:
    make, wish, where = RECIPES[recipe]
    written(path, make(), wish)
    with cn.open(path, "r+") as f:
        table = f[where]
        with pytest.raises(DataError, match=name):
            table.update(name, [3], [None])
        with pytest.raises(DataError, match=name):
            table.append({column: [None if column == name else value] for column, value in table[5].items()})
        if recipe == "R0":
            with pytest.raises(DataError, match="new"):
                table.add_column("new", ["a"] * N, categories=True)
        with pytest.raises(UsageError, match="timestamp"):
            table.add_column("new", pa.array([0] * N, pa.timestamp("s")))
        with pytest.raises(UsageError, match="labels"):
            table.drop_column("cell")
    same(both(path), make())


@pytest.mark.parametrize("recipe", RECIPES)
def test_columns_come_and_go_on_both_faces(path: Path, recipe: str) -> None:
    make, wish, where = RECIPES[recipe]
    written(path, make(), wish)
    want = make().drop(columns=["flag"]).rename(columns={"number": "count"}).rename_axis("barcode")
    with cn.open(path, "r+") as f:
        table = f[where]
        table.drop_column("flag")
        table.rename_column("number", "count")
        table.rename_column("cell", "barcode")
        table.replace_column("word", np.arange(N))
        want["word"] = np.arange(N)
        table.add_column("new", np.where(np.arange(N) % 3, np.nan, 1.5))
        want["new"] = np.where(np.arange(N) % 3, np.nan, 1.5)
        if recipe == "R2":
            table.rename_column("some", "few")
            table.replace_column("kind", ["p", "q"] * (N // 2), categories=["q", "p"])
            want["kind"] = pd.Categorical(["p", "q"] * (N // 2), categories=["q", "p"])
            want = want.rename(columns={"some": "few"})
    same(both(path), want)


def test_other_tables_keep_their_trust(path: Path) -> None:
    """A table of R2 shares its columns with its frame, and with nobody else."""
    written(path, whole())
    cn.write(path, {"a": [1, 2, 3]}, "other", index={"a": "sorted_rows"})
    with cn.open(path, "r+") as f:
        f["obs/_hep001"].update("number", [0], [5])
        assert [one.trusted for one in f["other"].indexes] == [True]


def test_rows_without_labels_are_numbered(path: Path) -> None:
    cn.write(path, {"a": [1, None]}, "obs", anndata=True)
    with cn.open(path, "r+") as f:
        f["obs/_hep001"].append({"a": [3]})
    found = both(path)
    assert found.index.tolist() == [0, 1, 2] and values(found["a"]) == [1, None, 3]


def test_indexes_asked_for_at_once_and_a_table_replaced(path: Path) -> None:
    cn.write(path, whole(), "obs", anndata=True, index={"number": "sorted_rows"})
    with cn.open(path) as f:
        assert [one.trusted for one in f["obs/_hep001"].indexes] == [True]
        assert f["obs"].indexes == []
    cn.write(path, plain(), "obs", anndata=True, mode="replace", index={"number": "sorted_rows"})
    same(both(path), plain())
    with cn.open(path) as f:
        assert f.tables() == ["/obs"] and [one.trusted for one in f["obs"].indexes] == [True]
    cn.write(path, whole(), "obs", anndata=True, mode="replace")
    same(both(path), whole())
    cn.write(path, categorical(), "obs", anndata="0.7", mode="replace")
    same(both(path), categorical())
    with cn.open(path, "r+") as f:
        f.drop("obs")
        assert list(f.h5) == []


def test_repack_keeps_both_faces(path: Path) -> None:
    where = written(path, whole())
    with cn.open(path, "r+") as f:
        f[where].build_index("number", "sorted_rows")
        f.repack(chunk_rows=100, filters="shuffle+deflate")
        assert f[where].verify_indexes() == []
    same(both(path), whole())
    with h5py.File(path) as h5:
        assert h5["obs/number"].id == h5["obs/_hep001/number"].id


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ({"t": pa.array([1], pa.timestamp("us"))}, {"anndata": True}, "timestamp"),
        ({"t": [b"x"]}, {"anndata": True}, "binary"),
        ({"a": [1]}, {"anndata": True, "layout": "anndata"}, "hep001"),
        ({"a": [1]}, {"anndata": "0.8"}, "0.8"),
        ({"a": [None, 1]}, {"anndata": "0.7"}, "missing rows"),
        ({"a": [0.5]}, {"anndata": True, "columns": {"a": {"fill": 9.0}}}, "fill"),
        ({"a": ["x"]}, {"anndata": True, "columns": {"a": {"strings": "fixed"}}}, "fixed"),
        ({"a": ["x\0y"]}, {"anndata": True}, "NUL"),
        ({"i": [1]}, {"anndata": True, "labels": ["i"]}, "column"),
    ],
)
def test_what_anndata_could_not_read_is_not_written(path: Path, data: Any, options: Any, words: str) -> None:
    with pytest.raises((DataError, UsageError), match=words):
        cn.write(path, data, "obs", **options)
    assert not path.exists()


def test_units_and_descriptions_are_kept_on_the_table(path: Path) -> None:
    cn.write(path, {"a": [1.5, None]}, "obs", title="T", columns={"a": cn.column(units="m")}, anndata=True)
    with cn.open(path) as f:
        assert (f["obs"].title, f["obs"].info.by_name["a"].units) == ("T", "m")
    assert values(both(path)["a"]) == [1.5, None]


def test_a_table_of_others_that_says_dataframe_is_changed_as_before(path: Path) -> None:
    """HEP001 10 lets any table say so; anndata reads codes then. It is no face of ours, and nothing is asked of it."""
    cn.write(path, {"a": ["x", "y"], "row": ["1", "2"]}, "obs", labels=["row"], columns={"a": {"categories": True}})
    with h5py.File(path, "r+") as h5:
        h5["obs"].attrs["encoding-type"], h5["obs"].attrs["encoding-version"] = "dataframe", "0.2.0"
    with cn.open(path, "r+") as f:
        f["obs"].append({"a": [None], "row": ["3"]})
        assert f["obs"]["a"].to_arrow().to_pylist() == ["x", "y", None]


def test_anndata_rewrites_the_frame_and_the_table_goes(path: Path) -> None:
    written(path, whole())
    with h5py.File(path, "r+") as h5:
        write_elem(h5, "obs", plain())
    with cn.open(path) as f:
        assert f.tables() == ["/obs"] and f["obs"].layout == "anndata"


@pytest.mark.parametrize("recipe", RECIPES)
def test_an_append_costs_no_more_than_its_rows(path: Path, recipe: str) -> None:
    """What the face says already is not written again and again: the file would grow with every commit."""
    make, wish, where = RECIPES[recipe]
    written(path, make(), wish)
    with cn.open(path, "r+") as f:
        f[where].append(make().iloc[:1])
        before = path.stat().st_size
        for _ in range(20):
            f[where].append(make().iloc[:1])
    assert path.stat().st_size - before < 20_000
    same(both(path), pd.concat([make(), *[make().iloc[:1]] * 21]))


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch, set_limits: SetLimits) -> list[int]:
    """How many rows the face has read, and written, at once: pieces are of 1000 to 8000 rows here."""
    set_limits(piece_bytes=8000)
    seen: list[int] = []
    read, write = recipes.ColumnReader.read, faces.RowSink.write  # type: ignore[attr-defined]

    class Reader(recipes.ColumnReader):  # type: ignore[misc, name-defined]
        def read(self, start: int, count: int, *args: Any, **options: Any) -> Any:
            seen.append(count)
            return read(self, start, count, *args, **options)

    class Sink(faces.RowSink):  # type: ignore[misc, name-defined]
        def write(self, start: int, image: Any, count: int) -> None:
            seen.append(count)
            write(self, start, image, count)

    monkeypatch.setattr(recipes, "ColumnReader", Reader)
    monkeypatch.setattr(faces, "RowSink", Sink)
    return seen


LONG = 40_000


def long_table() -> pa.Table:
    """The first row of "early" is missing, of the others the last ones."""
    rows = np.arange(LONG)
    last = rows == LONG - 1
    return pa.table(
        {
            "early": pa.array(rows, mask=rows == 0),
            "late": pa.array(rows, mask=last),
            "flag": pa.array(rows % 3 == 0, mask=last),
            "whole": pa.array(rows),
        }
    )


def test_a_face_is_made_in_pieces(path: Path, pieces: list[int]) -> None:
    """No column is in memory whole, and a column is read only until it is known to have missing rows."""
    options = dict.fromkeys(("early", "late", "flag", "whole"), cn.column(chunk_rows=500, filters="none"))
    cn.write(path, long_table(), "obs", anndata=True, columns=options)
    assert max(pieces) <= 8000, pieces
    assert both(path)["flag"].isna().sum() == 1
    with cn.open(path) as f:
        table = f["obs/_hep001"]
        rows = recipes.TableRows(table._group, table._layout)
        pieces.clear()
        assert faces._needs_group(table.info.by_name["early"], rows, faces.Others())
        assert pieces == [1000]


@pytest.mark.parametrize("name", ["early", "late", "flag", "whole"])
def test_an_update_looks_at_the_rows_that_it_changed(path: Path, pieces: list[int], name: str) -> None:
    options = dict.fromkeys(("early", "late", "flag", "whole"), cn.column(chunk_rows=500, filters="none"))
    cn.write(path, long_table(), "obs", anndata=True, columns=options)
    pieces.clear()
    with cn.open(path, "r+") as f:
        f["obs/_hep001"].update(name, [7, 20_000], [None, None])
        assert sum(pieces) <= 8, pieces
        pieces.clear()
        f["obs/_hep001"].update(name, [7], [True if name == "flag" else 5])
        assert sum(pieces) <= 4, pieces
        f["obs/_hep001"].update(name, np.arange(6000, 9000), [None] * 3000)
    found = both(path)
    missing = {"early": [0, 20_000], "whole": [20_000]}.get(name, [20_000, LONG - 1])
    assert np.flatnonzero(found[name].isna()).tolist() == sorted([*missing, *range(6000, 9000)])
    assert found[name].iloc[7] == (True if name == "flag" else 5)
