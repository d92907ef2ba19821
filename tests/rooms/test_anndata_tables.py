"""Data frames that anndata wrote are read as tables like any other."""

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
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.query.stats import ColumnStats

N = 1000


def frame() -> pd.DataFrame:
    """A column of every form that a frame can have."""
    rng = np.random.default_rng(7)
    numbers, gone = rng.integers(1, 100, N), rng.random(N) < 0.2
    words = np.array(["alpha", "beta", "", "ünï", "a longer word"])[rng.integers(0, 5, N)]
    return pd.DataFrame(
        {
            "number": numbers,
            "real": np.where(gone, np.nan, rng.random(N)),
            "flag": rng.random(N) < 0.5,
            "word": words.astype(object),
            "kind": pd.Categorical(np.where(gone, None, words)),
            "level": pd.Categorical(numbers % 3, categories=[2, 1, 0], ordered=True),
            "some": pd.array(np.where(gone, None, numbers), dtype="Int16"),
            "unsigned": pd.array(np.where(gone, None, numbers), dtype="UInt64"),
            "maybe": pd.array(np.where(gone, None, numbers > 50), dtype="boolean"),
            "text": pd.array(np.where(gone, None, words), dtype="string"),
        },
        index=pd.Index([f"cell{i}" for i in range(N)], name="cell"),
    )


@pytest.fixture(scope="module", params=["contiguous", "chunked"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the frame at /obs, written by anndata."""
    path = tmp_path_factory.mktemp("frames") / f"{request.param}.h5ad"
    with h5py.File(path, "w") as h5, settings.override(allow_write_nullable_strings=True):
        write_elem(h5, "obs", frame())
        if request.param == "chunked":
            _into_chunks(h5["obs"])
    return path


def _into_chunks(obs: Any) -> None:
    """Every column, its codes, its values and its mask in many chunks; those of masks are of another length."""
    paths: list[str] = []
    obs.visit(paths.append)
    for path in paths:
        node = obs[path]
        if isinstance(node, h5py.Dataset) and node.shape == (N,):
            data, attributes = node[()], dict(node.attrs)
            del obs[path]
            chunk = 100 if path.endswith("mask") else 64
            made = obs.create_dataset(path, data=data, dtype=node.dtype, chunks=(chunk,), compression="gzip")
            made.attrs.update(attributes)


@pytest.fixture
def changed(written: Path, tmp_path: Path) -> Callable[[Callable[[Any], None]], Path]:
    """A copy of the file after something was done to its /obs."""

    def change(work: Callable[[Any], None]) -> Path:
        path = tmp_path / "changed.h5ad"
        shutil.copyfile(written, path)
        with h5py.File(path, "r+") as h5:
            work(h5["obs"])
        return path

    return change


def values(series: pd.Series[Any]) -> list[Any]:
    return [None if pd.isna(value) else value for value in series.astype(object).tolist()]


def expected() -> dict[str, list[Any]]:
    return {name: values(column) for name, column in frame().items() if name != "real"}  # type: ignore[misc]


def test_a_frame_reads_as_a_table(written: Path) -> None:
    with cn.open(written) as f:
        assert f.tables() == ["/obs"]
        table = f["obs"]
        assert (table.layout, table.labels, table.columns) == ("anndata", ["cell"], list(frame().columns))
        read = table.to_arrow()
        for name, column in expected().items():
            assert column == read[name].to_pylist(), name
        assert np.array_equal(read["real"].to_numpy(), frame()["real"].to_numpy(), equal_nan=True)
        assert read["real"].null_count == 0  # NaN is a value
        assert read["cell"].to_pylist() == list(frame().index)
        assert table["some"].dtype == pa.int16() and table["unsigned"].dtype == pa.uint64()
        assert table["level"].dtype == pa.dictionary(pa.int32(), pa.int64(), ordered=True)


def test_rows_are_the_same_however_they_are_asked_for(written: Path) -> None:
    """Slices, steps, single rows, scattered rows and batches see the same missing rows as the whole does."""
    rows = [998, 3, 64, 65, 500, 3]
    with cn.open(written) as f:
        table = f["obs"].select(*(name for name in f["obs"].info.by_name if name != "real"))  # NaN is not NaN
        whole = table.to_arrow()
        assert table[100:300].to_arrow().equals(whole.slice(100, 200))
        assert table[5::7].to_arrow().equals(whole.take(list(range(5, N, 7))))
        assert table.take(rows).to_arrow().to_pylist() == whole.take(rows).to_pylist()
        assert pa.Table.from_batches(list(table.batches(rows=77))).to_pylist() == whole.to_pylist()
        assert f["obs"][64]["some"] == whole["some"][64].as_py()


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("some is missing", lambda df: df["some"].isna()),
        ("some is not missing and some >= 50", lambda df: (df["some"] >= 50).fillna(False)),
        ("not (some >= 50)", lambda df: (df["some"] < 50).fillna(False)),
        ("maybe == true", lambda df: df["maybe"].fillna(False)),
        (
            "text == 'beta' or kind == 'alpha'",
            lambda df: (df["text"] == "beta").fillna(False) | (df["kind"] == "alpha"),
        ),
        ("text is missing and flag == true", lambda df: df["text"].isna() & df["flag"]),
        ("kind is missing", lambda df: df["kind"].isna()),
        ("unsigned in (3, 5, 8)", lambda df: df["unsigned"].isin([3, 5, 8]).fillna(False)),
        ("cell == 'cell17'", lambda df: df.index == "cell17"),
    ],
)
def test_where_agrees_with_pandas(written: Path, text: str, same: Callable[[pd.DataFrame], Any]) -> None:
    with cn.open(written) as f:
        found = f["obs"].where(text).row_numbers()
    assert found.tolist() == np.flatnonzero(np.asarray(same(frame()), dtype=bool)).tolist()
    assert len(found)


def test_totals_leave_out_what_the_mask_hides(written: Path) -> None:
    """Values under the mask are zero in the file: they must not be counted, nor be the least."""
    df = frame()
    with cn.open(written) as f:
        stats = f["obs"].stats(["some", "text"])
    some, text = stats["some"], stats["text"]
    assert isinstance(some, ColumnStats) and isinstance(text, ColumnStats)
    assert some.n_missing == text.n_missing == int(df["some"].isna().sum())
    assert some.least is not None and some.greatest is not None
    assert (some.least[0].as_py(), some.greatest[0].as_py()) == (int(df["some"].min()), int(df["some"].max()))


def test_groups_and_sums_leave_it_out_as_well(written: Path) -> None:
    df = frame()
    with cn.open(written) as f:
        found = f["obs"].aggregate(by=["flag"], total=("some", "sum"), n=("some", "count")).to_pylist()
    for row in found:
        some = df["some"][df["flag"] == row["flag"]]
        assert (row["total"], row["n"]) == (int(some.sum()), int(some.count()))


def test_a_frame_goes_to_pandas_as_it_was(written: Path) -> None:
    with cn.open(written) as f:
        got = f["obs"].to_pandas()
    want = frame()
    assert got.index.name == "cell" and got.index.tolist() == want.index.tolist()
    for name in ("number", "flag", "kind", "level", "some", "maybe"):
        pd.testing.assert_series_equal(got[name], want[name], check_index=False, check_names=False)


def test_repack_keeps_masks_and_categories(written: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.h5ad"
    shutil.copyfile(written, path)
    with cn.open(written) as f:
        want = f["obs"].to_arrow().to_pandas()
    with cn.open(path, "r+") as f:
        f.repack(chunk_rows=100, filters="shuffle+deflate")
    with cn.open(path) as f:
        pd.testing.assert_frame_equal(f["obs"].to_arrow().to_pandas(), want)


@pytest.mark.parametrize("meaning", ["NA", "NaN"])
@pytest.mark.parametrize("growable", [(), ("values",), ("values", "mask")])
def test_categories_of_nullable_strings_stay_nullable_when_one_is_added(
    growable: tuple[str, ...], meaning: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.h5ad"
    with h5py.File(path, "w") as h5, settings.override(allow_write_nullable_strings=True):
        write_elem(h5, "obs", pd.DataFrame({"kind": pd.Categorical(["a", "b", None])}, index=["x", "y", "z"]))
        write_elem(h5["obs/kind"], "categories", pd.array(["a", "b"], dtype="string"))
        categories = h5["obs/kind/categories"]
        categories.attrs["na-value"] = meaning
        for name in growable:
            values, attributes = categories[name][()], dict(categories[name].attrs)
            dtype = categories[name].dtype
            del categories[name]
            new = categories.create_dataset(name, data=values, dtype=dtype, chunks=(2,), maxshape=(None,))
            new.attrs.update(attributes)
        former = {name: dict(categories[name].attrs) for name in (".", "values", "mask")}
    for label, kind in (("1", "c"), ("2", "a"), ("3", "d")):
        with cn.open(path, "r+") as f:
            f["obs"].append({"_index": [label], "kind": [kind]})
    with cn.open(path) as f:
        frame = f["obs"].to_pandas()
    with h5py.File(path) as h5:
        categories = h5["obs/kind/categories"]
        assert {name: dict(categories[name].attrs) for name in former} == former
        assert categories["values"].asstr()[()].tolist() == ["a", "b", "c", "d"]
        assert categories["mask"].dtype == bool and not categories["mask"][()].any()
        assert categories["mask"].shape == categories["values"].shape
        if meaning == "NA":  # anndata 0.12 reads the other as this one
            pd.testing.assert_frame_equal(frame, read_elem(h5["obs"]), check_names=False)
    assert frame["kind"].tolist()[3:] == ["c", "a", "d"] and frame["kind"].isna().sum() == 1
    assert not cn.check(path, deep=True)


# -- files that are not as they should be --


def test_a_version_nobody_knows_is_unsupported(changed: Callable[[Callable[[Any], None]], Path]) -> None:
    path = changed(lambda obs: obs.attrs.modify("encoding-version", "0.3.0"))
    with cn.open(path) as f, pytest.raises(UnsupportedError, match=r"0\.3\.0"):
        f["obs"]


def _set_mask(obs: Any, data: Any) -> None:
    del obs["some/mask"]
    obs["some/mask"] = data


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("some", lambda obs: _set_mask(obs, np.zeros(N - 1, dtype=bool))),
        ("some", lambda obs: _set_mask(obs, np.zeros(N, dtype="i1"))),
        ("some", lambda obs: _set_mask(obs, np.zeros((N, 1), dtype=bool))),
        ("some", lambda obs: obs.__delitem__("some/mask")),
        ("kind", lambda obs: obs.__delitem__("kind/categories")),
        ("kind", lambda obs: obs["kind"].attrs.modify("encoding-type", "csr_matrix")),
        ("outside", lambda obs: (obs.__setitem__("outside", h5py.ExternalLink("x.h5", "/y")),
                                 obs.attrs.create("column-order", ["outside", "flag"]))),
    ],
)  # fmt: skip
def test_what_cannot_be_a_column_stays_one_and_cannot_be_read(
    changed: Callable[[Callable[[Any], None]], Path], name: str, work: Callable[[Any], None]
) -> None:
    """A broken member hides nothing else, and is not left out in silence."""
    with cn.open(changed(work)) as f:
        table = f["obs"]
        assert name in table.columns and "flag" in table.columns
        assert [(one.severity, one.path) for one in table.problems] == [("error", f"/obs/{name}")]
        with pytest.raises(FormatError, match=f"'{name}'"):
            table.to_arrow()
        assert table.select([one for one in table.columns if one != name]).to_arrow().num_rows == N


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("number", lambda obs: obs.__delitem__("number")),
        ("/secret", lambda obs: obs.attrs.create("column-order", ["/secret", "flag"])),
        (".", lambda obs: obs.attrs.create("column-order", [".", "flag"])),
        ("", lambda obs: obs.attrs.create("column-order", ["", "flag"])),
    ],
)  # fmt: skip
def test_a_name_of_nothing_is_noted_and_left_out(
    changed: Callable[[Callable[[Any], None]], Path], name: str, work: Callable[[Any], None]
) -> None:
    """A name in column-order that leads to nothing hides nothing else."""
    with cn.open(changed(work)) as f:
        table = f["obs"]
        assert name not in table.columns and "flag" in table.columns
        assert [(one.severity, one.path) for one in table.problems] == [("error", f"/obs/{name}")]
        assert table.to_arrow().num_rows == N


def test_a_column_of_another_length_cannot_be_read(changed: Callable[[Callable[[Any], None]], Path]) -> None:
    def cut(obs: Any) -> None:
        del obs["number"]
        obs["number"] = np.zeros(N - 1)

    with cn.open(changed(cut)) as f:
        table = f["obs"]
        assert len(table) == N
        with pytest.raises(FormatError, match="999 rows"):
            table["number"].to_arrow()
        assert len(table["flag"].to_arrow()) == N


@pytest.mark.parametrize("code", [5, -2])
def test_a_code_without_a_category_is_corrupt(changed: Callable[[Callable[[Any], None]], Path], code: int) -> None:
    with cn.open(changed(lambda obs: obs["kind/codes"].__setitem__(10, code))) as f:
        with pytest.raises(CorruptError) as caught:
            f["obs"]["kind"].to_arrow()
        assert caught.value.row == 10


def test_a_slash_in_a_name_is_read_as_anndata_reads_it(changed: Callable[[Callable[[Any], None]], Path]) -> None:
    """Older anndata wrote the column "a/b" as b in a group a: it is not lost."""

    def slash(obs: Any) -> None:
        obs["a/b"] = np.arange(N)
        obs.attrs["column-order"] = ["a/b", "flag"]

    with cn.open(changed(slash)) as f:
        table = f["obs"]
        assert table.columns == ["a/b", "flag"] and [one.severity for one in table.problems] == ["warning"]
        assert table["a/b"].to_arrow().to_pylist() == list(range(N))


@pytest.mark.parametrize("meaning", [None, "NA", "NaN"])
@pytest.mark.parametrize("n_missing", [0, 1])
def test_missing_strings_are_in_pandas_what_na_value_says(tmp_path: Path, meaning: str | None, n_missing: int) -> None:

    path = tmp_path / "a.h5ad"
    values = ["a", None, "c"] if n_missing else ["a", "b", "c"]
    rows = {"x": values, "n": [1, None, 3]}
    cn.write(path, rows, table="obs", layout="anndata", columns={"x": cn.column(masked=True)})
    with h5py.File(path, "r+") as file:
        file["obs/x"].attrs.pop("na-value", None)
        if meaning is not None:
            file["obs/x"].attrs["na-value"] = meaning
    with cn.open(path) as opened:
        table = opened["obs"]
        for frame in (table.to_pandas(), table.where("n >= 0 or n is missing").to_pandas(), table[:].to_pandas()):
            assert isinstance(frame["x"].dtype, pd.StringDtype)
            assert (frame["x"].dtype.na_value is pd.NA) == (meaning != "NaN")
            assert [None if pd.isna(value) else value for value in frame["x"]] == values
        element = cn.read_element(opened.h5["obs"], pandas=True)
        assert element["x"].dtype == table.to_pandas()["x"].dtype
