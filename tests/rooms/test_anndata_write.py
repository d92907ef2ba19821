"""Data frames written and changed here are what anndata would have written: it reads them, and finds its own types."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from anndata import settings
from anndata.io import read_elem, write_elem

import colonnade as cn
from colonnade.errors import DataError, FormatError, UnsupportedError, UsageError
from tests.rooms.test_anndata_tables import N, frame

STORAGES = ("theirs", "theirs gzip", "ours")


def write_theirs(path: Path, df: pd.DataFrame, compression: str | None = None) -> None:
    options = {} if compression is None else {"compression": compression}
    with h5py.File(path, "a") as h5, settings.override(allow_write_nullable_strings=True):
        write_elem(h5, "obs", df, dataset_kwargs=options)


def write_as(how: str, path: Path, df: pd.DataFrame) -> Path:
    if how == "ours":
        cn.write(path, df, "obs", layout="anndata")
    else:
        write_theirs(path, with_plain_strings(df), "gzip" if "gzip" in how else None)
    return path


def read_theirs(path: Path, name: str = "obs") -> pd.DataFrame:
    with h5py.File(path) as h5:
        found: pd.DataFrame = read_elem(h5[name])
        return found


def shape_of(group: Any) -> dict[str, Any]:
    """Every object and attribute of a group with its HDF5 type, as anndata could see it; storage is left out."""
    found: dict[str, Any] = {"": _attributes(group)}

    def add(name: str, node: Any) -> None:
        kind = node.id.get_type() if isinstance(node, h5py.Dataset) else None
        found[name] = (type(node).__name__, kind and _type(kind), _attributes(node))

    group.visititems(add)
    return found


def _attributes(node: Any) -> dict[str, Any]:
    return {name: (_type(node.attrs.get_id(name).get_type()), node.attrs.get_id(name).shape, str(node.attrs[name]))
            for name in node.attrs if (name, node.attrs[name]) != ("na-value", "NA")}  # fmt: skip


def with_plain_strings(df: pd.DataFrame) -> pd.DataFrame:
    """The frame that is written here where pandas 3 has its own strings: as objects, if none is missing."""

    def plain(values: Any) -> Any:
        own = isinstance(values.dtype, pd.StringDtype) and values.dtype.na_value is not pd.NA
        return values.astype(object) if own else values

    made = pd.DataFrame({name: plain(df[name]) for name in df}, index=plain(df.index))
    made.columns = df.columns
    return made


def _type(kind: Any) -> Any:
    """A datatype so far as it can be told: equal ones are equal byte for byte."""
    return kind.encode()


def without(found: dict[str, Any], home: str) -> dict[str, Any]:
    return {name: one for name, one in found.items() if name.split("/")[0] != home}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "frame.h5ad"


def many_categories(n: int) -> pd.DataFrame:
    return pd.DataFrame({"c": pd.Categorical([f"x{i}" for i in range(n)])}, index=[f"r{i}" for i in range(n)])


FRAMES: dict[str, Callable[[], pd.DataFrame]] = {
    "every form": frame,
    "an index without a name": lambda: frame().rename_axis(None),
    "numbers for an index": lambda: pd.DataFrame({"a": [1.5, 2.5]}),
    "no rows": lambda: frame().iloc[:0].drop(columns=["word"]),  # of no texts Arrow does not know that they are
    "no columns": lambda: pd.DataFrame(index=["a", "b"]),
    "nullable without missing": lambda: pd.DataFrame(
        {"i": pd.array([1, 2], dtype="Int8"), "b": pd.array([True, False], dtype="boolean"),
         "s": pd.array(["x", ""], dtype="string")}),
    "126 categories": lambda: many_categories(126),
    "127 categories": lambda: many_categories(127),
    "300 categories": lambda: many_categories(300),
    "all widths": lambda: pd.DataFrame(
        {kind: np.arange(3).astype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4")}),
    "categories of numbers": lambda: pd.DataFrame(
        {"f": pd.Categorical([0.5, None, 2.5]), "b": pd.Categorical([True, False, None])}),
}  # fmt: skip


@pytest.mark.parametrize("which", FRAMES)
def test_what_is_written_is_what_anndata_writes(path: Path, which: str) -> None:
    """The same objects, HDF5 types and attributes, and anndata reads the same frame from both."""
    df = FRAMES[which]()
    cn.write(path, df, "obs", layout="anndata")
    with h5py.File(path, "r+") as h5, settings.override(allow_write_nullable_strings=True):
        write_elem(h5, "theirs", with_plain_strings(df))
        assert shape_of(h5["obs"]) == shape_of(h5["theirs"])
        pd.testing.assert_frame_equal(read_elem(h5["obs"]), read_elem(h5["theirs"]))
        assert all(h5["obs"][name].chunks for name in h5["obs"] if isinstance(h5["obs"][name], h5py.Dataset))


def test_batches_make_the_same_frame(path: Path, tmp_path: Path) -> None:
    """A column becomes values and mask with its first missing row, in whatever batch that comes."""
    df = frame()
    table = pa.Table.from_pandas(df.reset_index())
    cn.write(path, iter(table.to_batches(max_chunksize=90)), "obs", layout="anndata", labels=["cell"])
    cn.write(tmp_path / "whole.h5ad", df, "obs", layout="anndata")
    with h5py.File(path) as one, h5py.File(tmp_path / "whole.h5ad") as other:
        assert shape_of(one["obs"]) == shape_of(other["obs"])
    pd.testing.assert_frame_equal(read_theirs(path), df)


def test_missing_rows_that_come_late_move_the_values_into_a_group(path: Path) -> None:
    """Long after the first chunks are in the file: nothing of them is lost, and none of them is missing."""
    n = 200_000
    rows = {"i": np.arange(n, dtype="i4"), "b": np.arange(n) % 2 == 0, "s": np.arange(n).astype(str)}
    late = {name: pa.concat_arrays([pa.array(column), pa.nulls(1, pa.array(column).type)])
            for name, column in rows.items()}  # fmt: skip
    cn.write(path, iter(pa.table(late).to_batches(max_chunksize=10_000)), "obs", layout="anndata")
    found = read_theirs(path)
    for name, column in rows.items():
        assert found[name].isna().tolist() == [False] * n + [True]
        assert found[name].iloc[:-1].tolist() == column.tolist()


@pytest.mark.parametrize("how", STORAGES)
def test_append(path: Path, how: str) -> None:
    """Contiguous columns, and those in chunks of a fixed length, become ones that grow; all in one commit."""
    df = frame()
    more = frame().iloc[::-1].rename(index=lambda name: f"more-{name}")
    more["kind"] = pd.Categorical(more["kind"].astype(object).where(more["number"] > 5, "newcomer"))
    write_as(how, path, df)
    with cn.open(path, "r+") as f:
        assert f["obs"].append(more) == N
        assert len(f["obs"]) == 2 * N
        f["obs"].append(more.iloc[:3])
    found, want = read_theirs(path), pd.concat([df, more, more.iloc[:3]])
    for name in df:
        assert found[name].astype(object).where(found[name].notna(), None).tolist() == (
            want[name].astype(object).where(want[name].notna(), None).tolist()
        ), name
        if name != "kind":
            assert found[name].dtype == df[name].dtype
    assert found.index.equals(want.index)
    assert "newcomer" in found["kind"].cat.categories
    with cn.open(path) as f:
        assert f["obs"]["kind"].to_arrow().to_pylist() == want["kind"].astype(object).where(
            want["kind"].notna(), None).tolist()  # fmt: skip


@pytest.mark.parametrize("how", STORAGES)
def test_update_and_truncate(path: Path, how: str) -> None:
    write_as(how, path, frame())
    want = frame().iloc[: N - 10].copy()
    with cn.open(path, "r+") as f:
        obs = f["obs"]
        obs.truncate(N - 10)
        obs.update("number", [3, 1, 700], [None, 8, 9])
        obs.update("some", [0, 1], [None, 5])
        obs.update("word", [4], [None])
        obs.update("flag", [4, 5], [None, True])
        obs.update("kind", [7], ["beta"])
        obs.update("real", [2], [None])
        obs.update("cell", [0], ["renamed"])
    with cn.open(path) as f:
        got = f["obs"].to_arrow()
    found = read_theirs(path)
    assert found["number"].iloc[[1, 3, 700]].tolist() == [8, pd.NA, 9]
    assert found["some"].iloc[:2].tolist() == [pd.NA, 5]
    assert found["word"].isna().sum() == 1 and found["flag"].isna().sum() == 1 and found["kind"].iloc[7] == "beta"
    assert np.isnan(found["real"].iloc[2]) and found.index[0] == "renamed" and len(found) == N - 10
    for name in ("level", "unsigned", "maybe", "text"):
        pd.testing.assert_series_equal(found[name], want[name], check_index=False)
    assert got["number"].null_count == 1 and got["number"][3].as_py() is None
    assert got["number"].to_pylist()[4:700] == want["number"].tolist()[4:700]


@pytest.mark.parametrize("how", STORAGES)
def test_columns_come_and_go(path: Path, how: str) -> None:
    write_as(how, path, frame())
    with cn.open(path, "r+") as f:
        obs = f["obs"]
        obs.add_column("tag", [f"t{i % 3}" for i in range(N)], categories=True)
        obs.add_column("gap", pa.array([None, *range(1, N)], pa.int32()))
        obs.drop_column("kind")
        obs.drop_column("some")
        obs.rename_column("number", "count")
        obs.rename_column("cell", "barcode")
        obs.replace_column("text", np.linspace(0, 1, N))
        obs.replace_column("real", pa.array(["a", None] * (N // 2)))
        with pytest.raises(UsageError, match="row labels"):
            obs.drop_column("barcode")
    df = frame().drop(columns=["kind", "some"]).rename(columns={"number": "count"}).rename_axis("barcode")
    df["text"] = np.linspace(0, 1, N)
    df["real"] = pd.array(["a", None] * (N // 2), dtype="string")
    df["tag"] = pd.Categorical([f"t{i % 3}" for i in range(N)])
    df["gap"] = pd.array([None, *range(1, N)], dtype="Int32")
    pd.testing.assert_frame_equal(read_theirs(path), df)
    with h5py.File(path, "r+") as h5, settings.override(allow_write_nullable_strings=True):
        write_elem(h5, "theirs", with_plain_strings(df))
        assert shape_of(h5["obs"]) == shape_of(h5["theirs"])


def test_rows_without_labels_are_numbered_and_counted_on(path: Path) -> None:
    cn.write(path, iter([{"a": [1, 2]}, {"a": [3]}]), "obs", layout="anndata")
    cn.write(path, {"a": [4]}, "obs", mode="append")
    found = read_theirs(path)
    assert found.index.tolist() == [0, 1, 2, 3] and found.index.name is None and found["a"].tolist() == [1, 2, 3, 4]
    with cn.open(path, "r+") as f:
        f["obs"].append({"_index": [9], "a": [5]})
    assert read_theirs(path).index.tolist() == [0, 1, 2, 3, 9]


def test_labels_that_were_given_are_asked_for(path: Path) -> None:
    cn.write(path, {"a": [1], "row": ["x"]}, "obs", layout="anndata", labels=["row"])
    with cn.open(path, "r+") as f, pytest.raises(DataError, match="row"):
        f["obs"].append({"a": [2]})


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "slash": ({"a/b": [1]}, {}, "a/b"),
    "empty": ({"": [1]}, {}, "''"),
    "dot": ({".": [1]}, {}, "'.'"),
    "index": ({"_index": [1], "a": [2]}, {}, "_index"),
    "home of indexes": ({"_search_indexes": [1]}, {}, "_search_indexes"),
    "time": ({"t": pa.array([1], pa.timestamp("us"))}, {}, "timestamp"),
    "bytes": ({"t": [b"x"]}, {}, "binary"),
    "list": ({"t": [[1]]}, {}, "list"),
    "nothing": ({"t": [None]}, {}, "null"),
    "NUL": ({"t": ["a\0b"]}, {}, "NUL"),
    "NUL in a category": ({"t": pa.array(["a\0b"]).dictionary_encode()}, {}, "NUL"),
    "two labels": ({"a": [1], "b": ["x"], "c": ["y"]}, {"labels": ["b", "c"]}, "one array of row labels"),
    "title": ({"a": [1]}, {"title": "T"}, "title"),
    "units": ({"a": [1]}, {"columns": {"a": {"units": "m"}}}, "units"),
    "fill": ({"a": [1]}, {"columns": {"a": {"fill": 3}}}, "fill"),
    "enum": ({"a": ["x"]}, {"columns": {"a": {"enum": True, "categories": True}}}, "enum"),
    "fixed": ({"a": ["x"]}, {"columns": {"a": {"strings": "fixed"}}}, "fixed"),
    "masked floats": ({"a": [0.5]}, {"columns": {"a": {"masked": True}}}, "masks"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_cannot_be_written_is_refused_before_a_byte(path: Path, which: str) -> None:
    data, options, words = REFUSED[which]
    write_theirs(path, frame())
    before = path.read_bytes()
    with pytest.raises((DataError, UsageError), match=words):
        cn.write(path, data, "var", layout="anndata", **options)
    with h5py.File(path) as h5:
        assert list(h5) == ["obs"]
    if not which.startswith("NUL"):  # found when the rows come, and taken back
        assert path.read_bytes() == before


def test_a_mask_is_no_option_of_hep001(path: Path) -> None:
    with pytest.raises(UsageError, match="masked"):
        cn.write(path, {"a": [1]}, columns={"a": {"masked": True}})


def test_changes_that_cannot_be_leave_the_frame(path: Path) -> None:
    """One commit a change: a value that does not fit takes back what was written for it."""
    write_theirs(path, frame())
    bad = frame()
    bad["some"] = pd.array([40_000] * N, dtype="Int32")
    with cn.open(path, "r+") as f:
        obs = f["obs"]
        with pytest.raises(DataError, match="some"):
            obs.append(bad)
        for name in ("a/b", "", ".", "_hep001"):
            with pytest.raises(DataError):
                obs.add_column(name, np.zeros(N))
        with pytest.raises(DataError, match="row 1"):
            obs.update("word", [1], ["a\0b"])
        with pytest.raises(UnsupportedError, match="title"):
            obs.title = "x"
    pd.testing.assert_frame_equal(read_theirs(path), frame())


def test_a_frame_with_a_broken_column_is_not_changed(path: Path) -> None:
    """Its other columns would grow past the broken one, or its name would be lost from column-order."""
    write_theirs(path, frame())
    with h5py.File(path, "r+") as h5:
        del h5["obs/some/mask"]
    with cn.open(path, "r+") as f:
        for change in (lambda: f["obs"].append(frame()), lambda: f["obs"].drop_column("flag")):
            with pytest.raises(FormatError, match="some"):
                change()


def test_an_old_frame_is_read_and_not_changed(path: Path) -> None:
    with h5py.File(path, "w") as h5:
        obs = h5.create_group("obs")
        obs["_index"], obs["a"] = ["x", "y"], [1, 2]
        obs.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.1.0", "_index": "_index"})
        obs.attrs["column-order"] = ["a"]
    with cn.open(path, "r+") as f:
        assert f["obs"]["a"].to_arrow().to_pylist() == [1, 2]
        with pytest.raises(UnsupportedError, match=r"0\.1\.0"):
            f["obs"].append({"_index": ["z"], "a": [3]})


def test_a_frame_takes_the_place_of_another_and_of_a_table(path: Path) -> None:
    write_theirs(path, frame())
    cn.write(path, {"a": [1]}, "obs", mode="replace", layout="anndata", labels={"row": ["x"]})
    with h5py.File(path) as h5:
        assert set(h5["obs"]) == {"a", "row"}
    cn.write(path, {"b": [1]}, "obs", mode="replace")
    with cn.open(path) as f:
        assert (f["obs"].layout, f["obs"].columns, f["obs"].attrs) == ("hep001", ["b"], {})
    cn.write(path, {"c": [None, 1]}, "obs", mode="replace", layout="anndata")
    assert read_theirs(path)["c"].tolist() == [pd.NA, 1]
    with cn.open(path, "r+") as f:
        f.drop("obs")
        assert f.tables() == [] and list(f.h5) == []


def test_many_columns(path: Path) -> None:
    """column-order outgrows an object header at 4,092 names."""
    cn.write(path, {f"c{i}": [i] for i in range(4500)}, "obs", layout="anndata")
    assert read_theirs(path)["c4499"].tolist() == [4499]


def test_a_failed_stream_leaves_nothing(path: Path) -> None:
    write_theirs(path, frame())

    def batches() -> Any:
        yield {"a": [1, 2]}
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        cn.write(path, batches(), "var", layout="anndata")
    with h5py.File(path) as h5:
        assert list(h5) == ["obs"]


# -- search indexes --


@pytest.mark.parametrize("how", STORAGES)
def test_indexes_answer_as_the_rows_do_and_anndata_does_not_see_them(path: Path, how: str) -> None:
    write_as(how, path, frame())
    kinds = {name: ["chunk_minmax", "sorted_rows", "bitmap", "chunk_bloom"] for name in ("number", "kind", "some")}
    kinds |= {"text": ["chunk_minmax", "bitmap"], "maybe": ["bitmap"], "cell": ["chunk_bloom", "sorted_rows"]}
    with h5py.File(path) as h5:
        before = shape_of(h5["obs"])
    with cn.open(path, "r+") as f:
        f["obs"].build_index(kinds)
    with h5py.File(path) as h5:
        assert without(shape_of(h5["obs"]), "_search_indexes") == before
    pd.testing.assert_frame_equal(read_theirs(path), frame())
    with cn.open(path) as f:
        assert all(one.trusted for one in f["obs"].indexes) and len(f["obs"].indexes) == sum(map(len, kinds.values()))
    _agree(path)
    with cn.open(path) as f:
        assert f["obs"].verify_indexes() == []


def _agree(path: Path) -> None:
    """Every kind of question has the same answer with and without indexes."""
    asked = (
        "number == 5", "number >= 90 and number < 95", "kind == 'beta'", "kind is missing", "some is missing",
        "not (some > 50)", "some in (3, 5, 8)", "text == ''", "text is missing", "maybe == true", "maybe is missing",
        "cell == 'cell17'", "some == 0",
    )  # fmt: skip
    with cn.open(path) as f, cn.open(path, trust="never") as plain:
        for text in asked:
            assert f["obs"].where(text).row_numbers().tolist() == plain["obs"].where(text).row_numbers().tolist(), text
        assert plain["obs"].where("some == 0").row_numbers().tolist() == []  # zeros stand under the mask
        assert any(plan_uses(f["obs"].where(text)) for text in asked)


def plan_uses(query: Any) -> bool:
    return "sorted_rows" in str(query.explain()) or "bitmap" in str(query.explain())


@pytest.mark.parametrize("how", STORAGES)
def test_indexes_follow_every_change(path: Path, how: str) -> None:
    write_as(how, path, frame())
    with cn.open(path, "r+") as f:
        obs = f["obs"]
        obs.build_index(
            {name: ["chunk_minmax", "sorted_rows", "bitmap"] for name in ("number", "kind", "some", "text")}
        )
        obs.build_index("maybe", "bitmap")
        obs.build_index("cell", "sorted_rows")
        n_indexes = len(obs.indexes)
        obs.append(frame().iloc[:70])
        obs.update("some", [0, 1, 2], [None, 77, None])
        obs.update("number", [9], [None])  # from here on it has a mask
        obs.update("kind", [3], ["quite new"])
        obs.truncate(N + 20)
        obs.rename_column("text", "words")
        obs.rename_column("words", "text")
        assert len(obs.indexes) == n_indexes and all(one.trusted for one in obs.indexes), obs.indexes
    _agree(path)
    with cn.open(path, "r+") as f:
        assert f["obs"].verify_indexes() == []
        f["obs"].drop_column("some")
        assert "some" not in {one.column for one in f["obs"].indexes}
        f["obs"].drop_index("number")
        f["obs"].drop_index("kind", "bitmap")
        assert f["obs"].verify_indexes() == []


def _set(part: str, rows: Any, values: Any) -> Callable[[Any], None]:
    return lambda h5: h5[part].__setitem__(rows, values)


CHANGED_BY_OTHERS = {
    "a value": _set("obs/number", 7, 1234),
    "a value under the mask": _set("obs/some/values", 7, 1234),
    "the mask": _set("obs/some/mask", slice(None), True),
    "a code": _set("obs/kind/codes", slice(0, 9), -1),
}


@pytest.mark.parametrize("which", CHANGED_BY_OTHERS)
@pytest.mark.parametrize("by", ["another program", "our own handle"])
@pytest.mark.parametrize("how", ["theirs", "ours"])
def test_an_index_is_not_believed_when_others_change_the_frame(path: Path, how: str, by: str, which: str) -> None:
    """Values, masks and codes alike: whoever writes past the table, its indexes are out until they are verified."""
    write_as(how, path, frame())
    column = {"a": "number", "a value under the mask": "some", "the mask": "some", "a code": "kind"}.get(
        which, "number"
    )
    change = CHANGED_BY_OTHERS[which]
    with cn.open(path, "r+") as f:
        f["obs"].build_index({name: ["sorted_rows", "bitmap", "chunk_minmax"] for name in ("number", "some", "kind")})
        if by == "our own handle":
            change(f.h5)
            assert not any(one.trusted for one in f["obs"].indexes if one.column == column)
    if by == "another program":
        with h5py.File(path, "r+") as h5:
            change(h5)
        with cn.open(path) as f:
            assert not any(one.trusted for one in f["obs"].indexes)
    _agree_without_plan(path)


@pytest.mark.parametrize("which", ["columns", "masks", "frames"])
def test_an_index_is_not_believed_when_another_frame_of_the_same_columns_changes(path: Path, which: str) -> None:
    """Of a coded or masked column the group has two names, its rows have one; or the frame itself has two."""
    write_as("ours", path, frame())
    with h5py.File(path, "r+") as h5:
        first = int(h5["obs/some/values"][np.argmin(h5["obs/some/mask"][:10])])
        if which == "frames":
            h5["other"] = h5["obs"]
        else:
            other = h5.create_group("other")
            other.attrs.update(h5["obs"].attrs)
            for name in h5["obs"]:
                if which == "columns" or name != "some":
                    other[name] = h5["obs"][name]
                else:
                    h5.copy(f"obs/{name}", other)
                    del other["some/mask"]
                    other["some/mask"] = h5["obs/some/mask"]
    change = {"some": [5] * 10, "kind": ["alpha"] * 10, "number": [1234] * 10}
    with cn.open(path, "r+") as f:
        for name in ("other", "obs"):
            f[name].build_index(dict.fromkeys(change, "bitmap"))
            assert all(one.trusted for one in f[name].indexes)
        for column in change if which != "masks" else ["some"]:
            f["obs"].update(column, np.arange(10), [None] * 10 if which == "masks" else change[column])
            with cn.open(path, trust="never") as plain:
                for text in ("number == 1234", "some == 5", f"some == {first}", "kind == 'alpha'"):
                    found = plain["other"].where(text).row_numbers().tolist()
                    assert f["other"].where(text).row_numbers().tolist() == found, text


def _agree_without_plan(path: Path) -> None:
    with cn.open(path) as f, cn.open(path, trust="never") as plain:
        for text in ("number == 1234", "number < 50", "some is missing", "some == 5", "kind is missing"):
            assert f["obs"].where(text).row_numbers().tolist() == plain["obs"].where(text).row_numbers().tolist()


def test_an_index_whose_dataset_was_replaced_belongs_to_no_column(path: Path) -> None:
    write_theirs(path, frame())
    with cn.open(path, "r+") as f:
        f["obs"].build_index("number", ["sorted_rows", "chunk_minmax"])
    with h5py.File(path, "r+") as h5:
        data = h5["obs/number"][()]
        del h5["obs/number"]
        h5["obs/padding"] = np.arange(3)
        h5["obs"].create_dataset("number", data=data[::-1])
    with cn.open(path, trust="always") as f:
        assert not any(one.fresh for one in f["obs"].indexes)
        assert f["obs"].where("number == 5").row_numbers().tolist() == np.flatnonzero(data[::-1] == 5).tolist()


def test_anndata_rewrites_the_frame_and_the_indexes_go(path: Path) -> None:
    write_theirs(path, frame())
    with cn.open(path, "r+") as f:
        f["obs"].build_index("number", "sorted_rows")
    write_theirs(path, frame())
    with cn.open(path) as f:
        assert f["obs"].indexes == []


def test_repack_keeps_indexes(path: Path) -> None:
    write_theirs(path, frame())
    with cn.open(path, "r+") as f:
        f["obs"].build_index({"number": "sorted_rows", "some": ["chunk_minmax", "bitmap"], "kind": "bitmap"})
        f.repack(chunk_rows=100)
        assert len(f["obs"].indexes) == 4 and all(one.fresh for one in f["obs"].indexes)
        assert f["obs"].verify_indexes() == []
    pd.testing.assert_frame_equal(read_theirs(path), frame())


def test_index_asked_for_at_once(path: Path) -> None:
    cn.write(path, frame(), "obs", layout="anndata", index={"number": "sorted_rows", "kind": "bitmap"})
    with cn.open(path) as f:
        assert {(one.column, one.kind, one.trusted) for one in f["obs"].indexes} == {
            ("number", "sorted_rows", True), ("kind", "bitmap", True)}  # fmt: skip


def test_a_copy_of_a_file_is_not_the_file(path: Path, tmp_path: Path) -> None:
    write_theirs(path, frame())
    with cn.open(path, "r+") as f:
        f["obs"].build_index("number", "sorted_rows")
    shutil.copyfile(path, tmp_path / "copy.h5ad")
    with cn.open(tmp_path / "copy.h5ad") as f:
        assert [one.trusted for one in f["obs"].indexes] == [False]
