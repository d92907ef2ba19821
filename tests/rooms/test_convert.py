"""Files converted between layouts and back: nothing is lost, other elements are as they were, refusals come first."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from anndata.tests.helpers import assert_equal

import colonnade as cn
from colonnade.layouts import LAYOUTS
from tests.generated import generated
from tests.rooms.test_cli import call, call_json

GOLDEN = Path(__file__).parents[1] / "golden" / "anndata"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), anndata.settings.override(allow_write_nullable_strings=True):
        warnings.simplefilter("ignore")
        yield


def frame(n: int = 6) -> pd.DataFrame:
    """Every kind of column, and what is easily lost of each."""
    labels = pd.Categorical.from_codes([0, 2, -1, 1, 0, 2][:n], ["low", "unused?", "high"], ordered=True)
    return pd.DataFrame(
        {
            "x": np.arange(n, dtype="i2"),
            "largest": np.array([2**64 - 1, 0, 1, 2, 3, 4][:n], "u8"),
            "least": np.array([-(2**63), -(2**63) + 1, 0, 1, 2, 3][:n], "i8"),
            "nan": np.array([np.nan, 9.969209968386869e36, 0.0, -0.0, np.inf, 1.5][:n]),
            "flag": np.array([True, False] * 3)[:n],
            "kind": labels,
            "numbers": pd.Categorical.from_codes([1, 0, -1, 1, 1, 0][:n], [30, 10]),
            "never": pd.Categorical.from_codes([-1] * n, ["a"]),
            "nothing": pd.Categorical([np.nan] * n),
            "text": np.array(["", "a", "grün", "a", " ", "\x01"][:n], dtype=object),
            "nullable": pd.array([1, None, 3, 4, 0, -128][:n], dtype="Int8"),
            "full": pd.array([1, 2, 3, 4, 0, -128][:n], dtype="Int8"),
            "maybe": pd.array([True, None, False, None, True, True][:n], dtype="boolean"),
            "surely": pd.array([True, False] * 3, dtype="boolean")[:n],
            "words": pd.array(["a", None, "", "b", None, "a"][:n], dtype="string"),
            "all words": pd.array(["a", "", "", "b", "c", "a"][:n], dtype="string"),
        },
        index=pd.Index([f"c{row}" for row in range(n)]),
    )


def adata(obs: pd.DataFrame) -> anndata.AnnData:
    """A frame with a few elements next to it."""
    numbers = np.arange(4.0 * len(obs)).reshape(len(obs), 4)
    obsm = {"array": numbers[:, :2], "df": pd.DataFrame({"a": numbers[:, 0]}, index=obs.index)}
    return anndata.AnnData(numbers, obs=obs, obsm=obsm, uns={"note": "kept", "nested": {"n": np.arange(3)}})


def adata_of_everything(obs: pd.DataFrame) -> anndata.AnnData:
    """A frame next to every kind of element."""
    made = generated((len(obs), 4))
    made.obs = obs
    return made


def there_and_back(path: Path) -> Path:
    """Through HEP001, checked on the way."""
    between, back = path.with_suffix(".h5"), path.with_name("back.h5ad")
    cn.convert(path, between)
    assert cn.check(between, deep=True) == []
    cn.convert(between, back)
    assert cn.check(back, deep=True) == []
    return back


@pytest.mark.parametrize("layout", [name for name, layout in LAYOUTS.items() if layout.creates_in])
def test_every_layout_that_can_be_written_can_be_converted_into(layout: str, tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": [1, 2]}, table="t")
    cn.convert(tmp_path / "a.h5", tmp_path / "b.h5", layout=layout)
    assert cn.open_table(tmp_path / "b.h5", "t").layout == layout
    assert cn.read(tmp_path / "b.h5", "t", columns=["x"]).to_pydict() == {"x": [1, 2]}


@pytest.mark.parametrize("n", [6, 1, 0])
@pytest.mark.parametrize("name", [None, "cell", "index"])
def test_nothing_of_a_frame_is_lost(n: int, name: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    around = adata_of_everything if name == "cell" and n in (6, 0) else adata
    made = around(frame(n).rename_axis(index=name))
    made.write_h5ad(path, convert_strings_to_categoricals=False)
    back = anndata.read_h5ad(there_and_back(path))
    pd.testing.assert_frame_equal(back.obs, made.obs, check_exact=True)
    assert_equal(back, anndata.read_h5ad(path), exact=True)


def test_between_them_it_is_a_table_like_any_other(tmp_path: Path) -> None:
    adata(frame().rename_axis(index="cell")).write_h5ad(tmp_path / "a.h5ad")
    done = cn.convert(tmp_path / "a.h5ad", tmp_path / "b.h5")
    assert (done.layout, done.tables) == ("hep001", ["/obs", "/var"])
    assert "/obsm/df" in done.copied
    with cn.open(tmp_path / "b.h5") as file:
        table = file["obs"]
        assert (table.layout, table.labels) == ("hep001", ["cell"])
        assert table.where("kind == 'high' and x > 0").to_arrow()["cell"].to_pylist() == ["c1", "c5"]
        assert table["kind"].categories.to_pylist() == ["low", "unused?", "high"]
        assert table.where(cn.col("words").is_missing()).row_numbers().tolist() == [1, 4]
        assert cn.read_element(file.h5["obsm"])["array"].shape[0] == 6


def test_an_index_that_is_a_column_too(tmp_path: Path) -> None:
    made = adata(frame())
    made.obs["name"] = made.obs_names.to_numpy()
    made.obs.index = pd.Index(made.obs["name"].to_numpy(), name="name")
    made.write_h5ad(tmp_path / "a.h5ad", convert_strings_to_categoricals=False)
    back = anndata.read_h5ad(there_and_back(tmp_path / "a.h5ad"))
    pd.testing.assert_frame_equal(back.obs, made.obs)


def test_a_name_that_the_labels_would_get(tmp_path: Path) -> None:
    made = adata(frame().assign(index=range(6)))
    made.write_h5ad(tmp_path / "a.h5ad")
    back = anndata.read_h5ad(there_and_back(tmp_path / "a.h5ad"))
    assert back.obs.index.name is None
    assert back.obs["index"].tolist() == list(range(6))


def test_what_a_missing_text_means_is_kept(tmp_path: Path) -> None:
    adata(frame()).write_h5ad(tmp_path / "a.h5ad", convert_strings_to_categoricals=False)
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        file["obs/words"].attrs["na-value"] = "NaN"
        file["obs"].attrs["mine"] = "kept"
        file["obs/x"].attrs["units"] = "m"
    with h5py.File(there_and_back(tmp_path / "a.h5ad")) as file:
        assert file["obs/words"].attrs["na-value"] == "NaN"
        assert "na-value" not in file["obs/all words"].attrs
        assert file["obs"].attrs["mine"] in ("kept", b"kept")
        assert file["obs/x"].attrs["units"] in ("m", b"m")


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*/*.h5ad")), ids=lambda path: path.name)
def test_files_of_other_projects_come_back(file: Path, tmp_path: Path) -> None:
    done = cn.convert(file, tmp_path / "b.h5")
    cn.convert(tmp_path / "b.h5", tmp_path / "c.h5ad")
    assert_equal(anndata.read_h5ad(tmp_path / "c.h5ad"), anndata.read_h5ad(file))
    assert bool(done.tables) == ("v0.5.0" not in file.name)


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("h5mu/*")), ids=lambda path: path.name)
def test_files_of_mudata_come_back(file: Path, tmp_path: Path) -> None:
    cn.convert(file, tmp_path / "b.h5")
    assert cn.check(tmp_path / "b.h5", deep=True) == []
    cn.convert(tmp_path / "b.h5", tmp_path / "c.h5mu")
    with cn.open(file) as before, cn.open(tmp_path / "c.h5mu") as after:
        assert before.tables() == after.tables()
        for path in before.tables():
            pd.testing.assert_frame_equal(before[path].to_pandas(), after[path].to_pandas())
        assert after.h5.attrs.get("encoding-type") == before.h5.attrs.get("encoding-type")


def test_what_a_layout_cannot_hold_is_refused_by_name_before_anything_is_written(tmp_path: Path) -> None:
    source, target = tmp_path / "a.h5", tmp_path / "b.h5ad"
    cn.write(source, {"good": [1, 2]}, table="first")
    cn.write(source, pa.table({"when": pa.array([0, 1], pa.timestamp("s"))}), table="second")
    with pytest.raises(cn.errors.DataError, match="/second/when"):
        cn.convert(source, target)
    cn.write(tmp_path / "f.h5", pa.table({"y": pa.array([1.0, None])}), table="t")
    with pytest.raises(cn.errors.DataError, match=r"/t, column 'y'.*missing"):
        cn.convert(tmp_path / "f.h5", target)
    cn.write(tmp_path / "l.h5", {"x": [1, 2], "a": ["p", "q"], "b": ["r", "s"]}, table="t", labels=["a", "b"])
    with pytest.raises(cn.errors.DataError, match="one column of row labels"):
        cn.convert(tmp_path / "l.h5", target)
    adata(frame()).write_h5ad(tmp_path / "c.h5ad")
    with h5py.File(tmp_path / "c.h5ad", "r+") as file:
        order = [*file["obs"].attrs["column-order"], "_search_indexes"]
        file["obs"].attrs["column-order"] = np.array(order, dtype=h5py.string_dtype())
        file["obs"].copy("x", "_search_indexes")
    with pytest.raises(cn.errors.DataError, match="/obs, column '_search_indexes': the name"):
        cn.convert(tmp_path / "c.h5ad", tmp_path / "d.h5")
    assert not target.exists()
    assert not (tmp_path / "d.h5").exists()


def test_what_is_there_is_not_overwritten_unless_asked(tmp_path: Path) -> None:
    adata(frame()).write_h5ad(tmp_path / "a.h5ad")
    (tmp_path / "b.h5").write_bytes(b"mine")
    with pytest.raises(cn.errors.UsageError, match="already exists"):
        cn.convert(tmp_path / "a.h5ad", tmp_path / "b.h5")
    with pytest.raises(cn.errors.UsageError, match="into itself"):
        cn.convert(tmp_path / "a.h5ad", tmp_path / "a.h5ad", overwrite=True)
    with pytest.raises(cn.errors.UsageError, match=r"\.csv"):
        cn.convert(tmp_path / "a.h5ad", tmp_path / "b.csv")
    with pytest.raises(cn.errors.UsageError, match="unknown layout"):
        cn.convert(tmp_path / "a.h5ad", tmp_path / "c.h5", layout="hep002")
    assert (tmp_path / "b.h5").read_bytes() == b"mine"
    cn.convert(tmp_path / "a.h5ad", tmp_path / "b.h5", overwrite=True)
    assert len(cn.read(tmp_path / "b.h5", "obs")) == 6


def test_rows_that_a_frame_cannot_hold_leave_what_was_there(tmp_path: Path) -> None:
    """They are met while the new file is written."""
    (tmp_path / "b.h5ad").write_bytes(b"mine")
    cn.write(tmp_path / "f.h5", pa.table({"x": range(200_000), "y": [1.0] * 199_999 + [None]}), table="t")
    with pytest.raises(cn.errors.DataError, match=r"/t, column 'y', row 199999: .*missing"):
        cn.convert(tmp_path / "f.h5", tmp_path / "b.h5ad", overwrite=True)
    cn.write(tmp_path / "n.h5", {"text": ["a", "b\0c"]}, table="t")
    with pytest.raises(cn.errors.DataError, match="row 1: the string holds NUL"):
        cn.convert(tmp_path / "n.h5", tmp_path / "b.h5ad", overwrite=True)
    assert (tmp_path / "b.h5ad").read_bytes() == b"mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.h5ad", "f.h5", "n.h5"]


def test_what_is_missing_and_nan_at_once_is_nan(tmp_path: Path) -> None:
    """Where the fill is NaN, as in tables that anndata reads too."""
    cn.write(tmp_path / "a.h5", pa.table({"y": [1.0, None, float("nan")]}), table="t", anndata=True)
    cn.convert(tmp_path / "a.h5", tmp_path / "b.h5ad")
    with h5py.File(tmp_path / "b.h5ad") as file:
        assert np.isnan(file["t/y"][()]).tolist() == [False, True, True]


@pytest.mark.parametrize("categories", [["a", "a"], [0.0, -0.0], [1.0, float("nan")]])
def test_categories_that_pandas_does_not_take_are_refused(categories: list[Any], tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"k": pa.array(["a", "b"]).dictionary_encode()}, table="t")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        node = file[file["t/k"].attrs["_categories"]]
        name, kept = node.name, dict(node.attrs)
        del file[name]
        text = isinstance(categories[0], str)
        made = file.create_dataset(name, data=categories, dtype=h5py.string_dtype() if text else "f8")
        for key, value in kept.items():
            made.attrs[key] = value
        file["t/k"].attrs["_categories"] = made.ref
    with pytest.raises(cn.errors.DataError, match="/t, column 'k': a category is"):
        cn.convert(tmp_path / "a.h5", tmp_path / "b.h5ad")
    assert not (tmp_path / "b.h5ad").exists()


def test_a_table_that_changed_on_the_way_comes_back_with_its_changes(tmp_path: Path) -> None:
    """What a frame was is told by marks, which are older than the changes."""
    made = adata(frame())
    made.obs["name"] = made.obs_names.to_numpy()
    made.obs.index = pd.Index(made.obs["name"].to_numpy(), name="name")
    made.write_h5ad(tmp_path / "a.h5ad", convert_strings_to_categoricals=False)
    cn.convert(tmp_path / "a.h5ad", tmp_path / "b.h5")
    with cn.open(tmp_path / "b.h5", "r+") as file:
        file["obs"].add_column("new", range(6))
        file["obs"].drop_column("x")
        file["obs"].replace_column("full", [float(n) for n in range(6)])
    cn.convert(tmp_path / "b.h5", tmp_path / "c.h5ad")
    back = anndata.read_h5ad(tmp_path / "c.h5ad").obs
    assert back.columns.tolist() == [name for name in made.obs.columns if name != "x"] + ["new"]
    assert back["new"].tolist() == list(range(6))
    assert back["full"].dtype == "f8"


def test_what_people_wrote_at_columns_is_kept(tmp_path: Path) -> None:
    adata(frame()).write_h5ad(tmp_path / "a.h5ad", convert_strings_to_categoricals=False)
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        for name in ("x", "kind", "nullable", "_index"):
            file["obs"][name].attrs["mine"] = np.arange(3)
            file["obs"][name].attrs["leads"] = file["X"].ref
        file["obs"].attrs["leads"] = file["X"].ref
        file["obs/words"].attrs["na-value"] = "NA"
    with h5py.File(there_and_back(tmp_path / "a.h5ad")) as file:
        for name in ("x", "kind", "nullable", "_index"):
            assert file["obs"][name].attrs["mine"].tolist() == [0, 1, 2]
            assert "leads" not in file["obs"][name].attrs  # a reference holds in its own file only
        assert "leads" not in file["obs"].attrs
        assert file["obs/words"].attrs["na-value"] == "NA"


_COUNTING_POOLS: list[pa.MemoryPool] = []


class _Peaks:
    """The most memory that NumPy and Arrow hold at once inside the `with`.

    The pool that counts is never freed. A buffer of Arrow has only a bare pointer to its pool, and an exception keeps
    buffers alive after the `with`: to free them when their pool is gone is a segmentation fault.
    """

    def __enter__(self) -> _Peaks:
        self._before = pa.default_memory_pool()
        self._pool = pa.proxy_memory_pool(self._before)
        _COUNTING_POOLS.append(self._pool)
        pa.set_memory_pool(self._pool)
        tracemalloc.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.numpy = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self.arrow = self._pool.max_memory()
        pa.set_memory_pool(self._before)


def _many(n: int) -> pa.Table:
    numbers = np.arange(n)
    return pa.table(
        {
            "a": numbers,
            "b": numbers / 7,
            "seldom": pa.array(numbers % 1000, mask=numbers % 100 == 0),
            "kind": pa.DictionaryArray.from_arrays(numbers.astype("i4") % 5, list("vwxyz")),
            "text": pa.array(numbers % 977).cast(pa.string()),
        }
    )


@pytest.mark.parametrize(("layout", "into"), [("hep001", "anndata"), ("anndata", "hep001")])
def test_memory_does_not_grow_with_the_rows(
    layout: str, into: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways, a frame is never held as a whole: three times the rows take the memory of the same few batches."""
    monkeypatch.setenv("COLONNADE_THREADS", "1")  # each holds a batch
    peaks = []
    for n in (600_000, 1_800_000):
        data = _many(n) if layout == "hep001" else _many(n).drop(["text"])  # whose heap takes long to look at, traced
        cn.write(tmp_path / f"{n}.h5", data, table="obs", layout=layout)
        with _Peaks() as peak:
            cn.convert(tmp_path / f"{n}.h5", tmp_path / f"{n}.converted", layout=into)
        peaks.append((peak.numpy, peak.arrow))
    (few_numpy, few_arrow), (many_numpy, many_arrow) = peaks
    assert few_arrow > 1_000_000  # it is counted at all
    assert many_numpy < 1.5 * few_numpy
    assert many_arrow < 1.5 * few_arrow


def test_buffers_may_outlive_the_measurement_that_counted_them() -> None:
    """As those in the traceback of an exception do. In a process of its own: without a pool that lives, it crashes."""
    script = """
import ctypes
import pyarrow as pa
from tests.rooms.test_convert import _Peaks
with _Peaks() as peak:
    buffers = [pa.allocate_buffer(1000) for _ in range(5)]
del peak
reused = [ctypes.create_string_buffer(b"A" * n, n) for n in range(8, 200) for _ in range(50)]
del buffers
"""
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", script], check=True, cwd=root, timeout=60)


KINDS = ("chunk_minmax", "sorted_rows", "bitmap", "chunk_bloom")


def _kinds_of(path: Path, table: str = "obs") -> dict[str, list[str]]:
    """The kinds of all indexes that are fresh and trusted, by their columns."""
    found: dict[str, list[str]] = {}
    with cn.open(path) as file:
        for one in file[table].indexes:
            assert one.fresh and one.trusted
            found.setdefault(one.column, []).append(one.kind)
    return {name: sorted(kinds) for name, kinds in found.items()}


def test_search_indexes_go_along_both_ways(tmp_path: Path) -> None:
    adata(frame()).write_h5ad(tmp_path / "a.h5ad", convert_strings_to_categoricals=False)
    with cn.open(tmp_path / "a.h5ad", "r+") as file:
        for name in ("x", "kind", "nullable", "text", "_index"):
            for kind in KINDS:
                file["obs"].build_index(name, kind)
    every = sorted(KINDS)
    wanted = {"x": every, "kind": every, "nullable": every, "text": every}
    done = cn.convert(tmp_path / "a.h5ad", tmp_path / "b.h5")
    assert (done.indexes, done.notes) == (20, [])
    assert _kinds_of(tmp_path / "b.h5") == {**wanted, "index": every}
    assert cn.check(tmp_path / "b.h5", deep=True) == []
    done = cn.convert(tmp_path / "b.h5", tmp_path / "c.h5ad")
    assert (done.indexes, done.notes) == (20, [])
    assert _kinds_of(tmp_path / "c.h5ad") == {**wanted, "_index": every}
    assert cn.check(tmp_path / "c.h5ad", deep=True) == []
    assert_equal(anndata.read_h5ad(tmp_path / "c.h5ad"), anndata.read_h5ad(tmp_path / "a.h5ad"), exact=True)


def test_search_indexes_keep_their_options(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": range(5000)}, table="t")
    with cn.open(tmp_path / "a.h5", "r+") as file:
        file["t"].build_index("x", "chunk_bloom", error_rate=0.2)
        file["t"].build_index("x", "bitmap", max_values=6000)
    cn.convert(tmp_path / "a.h5", tmp_path / "b.h5ad")
    assert cn.convert(tmp_path / "b.h5ad", tmp_path / "c.h5").notes == []
    for name in ("a.h5", "b.h5ad", "c.h5"):
        assert _kinds_of(tmp_path / name, "t") == {"x": ["bitmap", "chunk_bloom"]}
        with h5py.File(tmp_path / name) as file:
            assert file["t/_search_indexes/x__chunk_bloom"].attrs["k"] == 2  # it is 7 unless asked for


def test_indexes_of_a_table_inside_a_frame_go_along(tmp_path: Path) -> None:
    data = pa.table({"x": pa.array([3, None, 1]), "kind": pa.array(["a", "b", "a"]).dictionary_encode()})
    cn.write(tmp_path / "a.h5ad", data, table="obs", anndata=True, index={"x": "sorted_rows", "kind": "bitmap"})
    done = cn.convert(tmp_path / "a.h5ad", tmp_path / "b.h5")
    assert (done.tables, done.indexes, done.notes) == (["/obs"], 2, [])
    assert _kinds_of(tmp_path / "b.h5") == {"x": ["sorted_rows"], "kind": ["bitmap"]}


def test_indexes_that_cannot_go_along_are_told(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": [1, 2, 3]}, table="t", index={"x": ["sorted_rows", "bitmap"]})
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["t/_search_indexes/x__bitmap"].attrs["KIND"] = np.bytes_("MINE")
    done = cn.convert(tmp_path / "a.h5", tmp_path / "b.h5ad")
    assert done.indexes == 1
    assert len(done.notes) == 1
    assert done.notes[0].startswith("/t: the search index 'x__bitmap' was left out: its kind, MINE,")
    assert _kinds_of(tmp_path / "b.h5ad", "t") == {"x": ["sorted_rows"]}
    ran = call("convert", tmp_path / "a.h5", tmp_path / "c.h5ad", width=200)
    assert "1 search index rebuilt" in ran.stdout
    assert "note: /t: the search index 'x__bitmap' was left out" in ran.stdout


def test_references_of_what_is_copied_lead_where_they_did(tmp_path: Path) -> None:
    """A HEP001 table beside frames is copied, with its references turned."""
    adata(frame()).write_h5ad(tmp_path / "a.h5ad")
    cn.write(tmp_path / "a.h5ad", {"k": pa.array(["a", "b", "a"]).dictionary_encode(), "v": [1, 2, 3]}, table="events")
    done = cn.convert(tmp_path / "a.h5ad", tmp_path / "b.h5")
    assert "/events" in done.copied
    assert cn.read(tmp_path / "b.h5", "events")["k"].to_pylist() == ["a", "b", "a"]


def test_a_table_in_a_table_goes_where_that_goes(tmp_path: Path) -> None:
    """A frame may have a second face, a HEP001 table in its group: it is not a table of its own."""
    adata(frame()).write_h5ad(tmp_path / "a.h5ad")
    cn.write(tmp_path / "a.h5ad", {"x": [1, 2, 3]}, table="other")
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        file.move("other", "obs/_hep001")
    done = cn.convert(tmp_path / "a.h5ad", tmp_path / "b.h5")
    assert [path for path in (*done.tables, *done.copied) if path.startswith("/obs/")] == []
    with cn.open(tmp_path / "b.h5") as file:
        assert len(file["obs"]) == 6
        assert "obs/_hep001" not in file
    done = cn.convert(tmp_path / "a.h5ad", tmp_path / "c.h5ad")
    assert done.tables == []
    assert len(cn.read(tmp_path / "c.h5ad", "obs/_hep001")) == 3


def test_progress_ends_where_it_should(tmp_path: Path) -> None:
    adata(frame()).write_h5ad(tmp_path / "a.h5ad")
    seen: list[tuple[int, int | None]] = []
    cn.convert(tmp_path / "a.h5ad", tmp_path / "b.h5", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_the_command(tmp_path: Path) -> None:
    adata(frame()).write_h5ad(tmp_path / "a.h5ad")
    ran = call("convert", tmp_path / "a.h5ad", tmp_path / "b.h5")
    assert ran.exit_code == 0
    assert "2 tables written in the layout hep001 (/obs, /var)" in ran.stdout
    assert call("convert", tmp_path / "a.h5ad", tmp_path / "b.h5").exit_code == 2
    told: Any = call_json("convert", tmp_path / "b.h5", tmp_path / "c.h5ad")
    assert told["tables"] == ["/obs", "/var"]
    assert told["layout"] == "anndata"
    assert call("convert", tmp_path / "none.h5", tmp_path / "d.h5").exit_code == 3


# -- ArtifactDB --


def artifact_table() -> pa.Table:
    return pa.table(
        {
            "small": pa.array([1, None, -3], pa.int8()),
            "wide": pa.array([1, None, 2**31 - 1], pa.int64()),
            "unsigned": pa.array([1, 2, 3], pa.uint32()),
            "flag": pa.array([True, None, False]),
            "number": pa.array([float("nan"), None, -0.0]),
            "text": pa.array(["NA", None, "größe"]),
            "day": pa.array([0, None, 20_000], pa.date32()),
            "time": pa.array([0, None, 10**15], pa.timestamp("us", "UTC")),
            "fine": pa.array([1, None, 2], pa.timestamp("ns")),
            "kind": pa.DictionaryArray.from_arrays(pa.array([2, None, 0]), pa.array(["b", "unused", "a"])),
        }
    )


@pytest.mark.parametrize("form", ["1.0", "2/2", "2/1", "1/2", "1/1", "directory"])
def test_hep001_to_artifactdb_and_back(form: str, tmp_path: Path) -> None:
    given = artifact_table()
    options = {"wide": cn.column(units="m", description="how wide it is")}
    cn.write(tmp_path / "a.h5", given, "events", labels={"id": ["r1", "r2", "r3"]}, columns=options)
    between, back = tmp_path / ("b" if form == "directory" else "b.h5"), tmp_path / "c.h5"
    how: dict[str, Any] = {"directory": True} if form == "directory" else {"layout": "artifactdb", "version": form}
    assert cn.convert(tmp_path / "a.h5", between, **how).tables == ["/events"]
    if form == "directory":
        pytest.importorskip("dolomite_base").validate_object(str(between))
    name = "data_frame" if form == "directory" else "events"
    with cn.open(between) as f:
        assert f.tables() == [f"/{name}"] and f[name].layout == "artifactdb"
    cn.convert(between, back)
    with cn.open(tmp_path / "a.h5") as a, cn.open(back) as c:
        old, new = a["events"], c[name]
        assert new.layout == "hep001" and new.schema.equals(old.schema)
        assert str(new.to_arrow().to_pydict()) == str(old.to_arrow().to_pydict())
        assert (new["wide"].units, new["wide"].description) == (old["wide"].units, old["wide"].description)
        assert new.labels == ["id"]
    assert not [one for one in cn.check(back, deep=True) if one.severity != "note"]


def test_frames_of_anndata_to_artifactdb_and_back(tmp_path: Path) -> None:
    kept = [name for name in frame().columns if name not in ("largest", "least", "numbers", "nothing")]
    made = adata(frame()[kept])
    made.strings_to_categoricals()
    made.write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad") as source, h5py.File(tmp_path / "obs.h5ad", "w") as target:
        source.copy("obs", target)
    cn.convert(tmp_path / "obs.h5ad", tmp_path / "b.h5", layout="artifactdb")
    assert (tmp_path / "b.h5.json").is_file()
    cn.convert(tmp_path / "b.h5", tmp_path / "c.h5ad")
    with h5py.File(tmp_path / "obs.h5ad") as old, h5py.File(tmp_path / "c.h5ad") as new:
        assert_equal(anndata.io.read_elem(new["obs"]), anndata.io.read_elem(old["obs"]))


@pytest.mark.parametrize("meaning", [None, "NA", "NaN"])
@pytest.mark.parametrize("layout", ["hep001", "artifactdb"])
def test_categories_of_nullable_strings_stay_nullable(layout: str, meaning: str | None, tmp_path: Path) -> None:
    adata(frame()).write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad") as source, h5py.File(tmp_path / "obs.h5ad", "w") as target:
        source.copy("obs", target)
        if layout == "artifactdb":
            for name in ("largest", "least", "numbers", "nothing"):
                del target["obs"][name]
            target["obs"].attrs["column-order"] = [
                name for name in source["obs"].attrs["column-order"] if name in target["obs"]
            ]
        categories = pd.array(["low", "unused?", "high"], dtype="string")
        anndata.io.write_elem(target["obs/kind"], "categories", categories)
        stored = target["obs/kind/categories"]
        stored.attrs.pop("na-value", None)
        if meaning is not None:
            stored.attrs["na-value"] = meaning
        former = dict(stored.attrs)
    cn.convert(tmp_path / "obs.h5ad", tmp_path / "b.h5", layout=layout)
    cn.convert(tmp_path / "b.h5", tmp_path / "c.h5ad")
    with h5py.File(tmp_path / "obs.h5ad") as old, h5py.File(tmp_path / "c.h5ad") as new:
        assert anndata.io.read_elem(new["obs/kind"]).categories.tolist() == ["low", "unused?", "high"]
        assert dict(new["obs/kind/categories"].attrs) == former
        assert_equal(anndata.io.read_elem(new["obs/kind"]), anndata.io.read_elem(old["obs/kind"]))
        assert {name: dict(new["obs/kind/categories"][name].attrs) for name in ("values", "mask")} == {
            name: dict(old["obs/kind/categories"][name].attrs) for name in ("values", "mask")
        }
    with cn.open(tmp_path / "obs.h5ad") as old_file, cn.open(tmp_path / "c.h5ad") as new_file:
        frames = [file["obs"].to_pandas() for file in (old_file, new_file)]
    assert frames[0]["kind"].dtype == frames[1]["kind"].dtype
    assert not [finding for finding in cn.check(tmp_path / "c.h5ad", deep=True) if finding.severity != "note"]


def test_legacy_frames_become_versioned_ones(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", artifact_table(), "df", layout="artifactdb", version="1/1")
    cn.convert(tmp_path / "a.h5.json", tmp_path / "b.h5", layout="artifactdb")
    with cn.open(tmp_path / "b.h5") as f:
        assert f["df"].info.version == "1.0"
        assert str(f["df"].to_arrow().to_pydict()) == str(cn.read(tmp_path / "a.h5").to_pydict())


@pytest.mark.parametrize(
    ("name", "values"),
    [("bytes", pa.array([b"x"])), ("list", pa.array([[1]])), ("large", pa.array([2**40])),
     ("numbers", pa.array([3]).dictionary_encode()), ("nul", pa.array(["a\0b"]))],
)  # fmt: skip
def test_what_artifactdb_cannot_hold_is_refused_by_name(name: str, values: pa.Array, tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", pa.table({name: values}), "t")
    with pytest.raises(cn.errors.DataError, match=name):
        cn.convert(tmp_path / "a.h5", tmp_path / "b.h5", layout="artifactdb")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5"]


def test_a_directory_takes_one_table_and_nothing_else(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": [1]}, "deep/t")
    with h5py.File(tmp_path / "a.h5", "r+") as h5:
        h5["deep/image"] = np.zeros(3)
    with pytest.raises(cn.errors.UsageError, match="/deep/image"):
        cn.convert(tmp_path / "a.h5", tmp_path / "d", directory=True)
    assert not (tmp_path / "d").exists()
    call_json("convert", tmp_path / "a.h5", tmp_path / "b.h5", "--layout", "artifactdb")
    with cn.open(tmp_path / "b.h5") as f:
        assert f["deep/t"].layout == "artifactdb" and f.h5["deep/image"].shape == (3,)


# -- what would be lost --


@pytest.mark.parametrize("what", ["dataset", "group", "frame", "second name"])
def test_what_is_no_part_of_a_table_is_refused_by_name(what: str, tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5ad", frame().reset_index(drop=True)[["x"]], "obs", layout="anndata")
    with h5py.File(tmp_path / "a.h5ad", "r+") as h5:
        if what == "dataset":
            h5["obs/extra"] = np.arange(3)
        elif what == "group":
            h5["obs/extra/deep"] = np.arange(3)
        elif what == "frame":
            h5.copy("obs", h5["obs"], "extra")
        else:
            h5["extra"] = h5["obs"]
    with pytest.raises(cn.errors.UsageError, match="second name" if what == "second name" else "/obs/extra"):
        cn.convert(tmp_path / "a.h5ad", tmp_path / "b.h5")
    assert not (tmp_path / "b.h5").exists()


def test_sparse_arrays_beside_tables_come_along(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": [1]}, "t")
    with cn.create_sparse(tmp_path / "a.h5", "matrix", shape=(100, 100), dtype="f8") as array:
        array.write([[3, 5], [90, 7]], [1.5, 2.5])
    cn.convert(tmp_path / "a.h5", tmp_path / "b.h5ad")
    with cn.open_sparse(tmp_path / "b.h5ad", "matrix") as array:
        assert array[0:100, 0:100].sum() == 4.0 and array[90, 7] == 2.5
    assert cn.read(tmp_path / "b.h5ad", "t")["x"].to_pylist() == [1]


def test_frames_in_mappings_that_do_not_say_so_are_copied(tmp_path: Path) -> None:
    done = cn.convert(GOLDEN / "anndata" / "v0.7.0.h5ad", tmp_path / "b.h5")
    assert "/obsm/df" in done.copied and "/obs" in done.tables


def test_a_file_of_no_table_that_could_be_converted_is_told(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as h5:
        h5["x"] = np.arange(3)
    told = call("convert", tmp_path / "a.h5", tmp_path / "b.h5", width=200)
    assert told.exit_code == 1 and "it has no table" in told.output


def test_all_rows_to_csv_as_the_advice_says(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": [1, 2], "y": [3, 4]}, "t")
    assert call("where", tmp_path / "a.h5", "t", "true", "-o", tmp_path / "o.csv").exit_code == 0
    assert (tmp_path / "o.csv").read_text().splitlines() == ['"x","y"', "1,3", "2,4"]


def test_the_type_of_numbers_is_told_only_where_it_is_another(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": np.array([1], "i1"), "y": np.array([1], "i8")}, "t")
    cn.convert(tmp_path / "a.h5", tmp_path / "b.h5", layout="artifactdb")
    with h5py.File(tmp_path / "b.h5") as h5:
        assert "arrow_type" not in h5["t/data/0"].attrs
        assert h5["t/data/1"].attrs["arrow_type"] == b"int64"


def test_a_type_that_the_values_are_not_of_is_an_error_of_the_file(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": np.array([-1, 2], "i4")}, "t", layout="artifactdb")
    with h5py.File(tmp_path / "a.h5", "r+") as h5:
        h5["t/data/0"].attrs["arrow_type"] = "uint64"
    with pytest.raises(cn.errors.CorruptError, match="arrow_type"):
        cn.convert(tmp_path / "a.h5", tmp_path / "b.h5")
    assert not (tmp_path / "b.h5").exists()


def test_a_type_that_does_not_fit_a_hep001_column_is_not_looked_at(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": np.array([-1, 2], "i1")}, "t")
    with h5py.File(tmp_path / "a.h5", "r+") as h5:
        h5["t/x"].attrs["arrow_type"] = "uint64"
    cn.convert(tmp_path / "a.h5", tmp_path / "b.h5ad")
    found = cn.read(tmp_path / "b.h5ad", "t")["x"]
    assert found.type == pa.int8() and found.to_pylist() == [-1, 2]


def test_a_table_at_the_root_is_refused_with_the_call_that_writes_it(tmp_path: Path) -> None:
    path, new = tmp_path / "root.h5", tmp_path / "new.h5"
    cn.write(path, {"x": [1, 2]}, "/")
    with pytest.raises(cn.errors.UsageError, match="the root of this file is a table") as caught:
        cn.convert(path, new, layout="h5col")
    assert "cn.open(path)['/'].write('new.h5', table='name', layout='h5col')" in str(caught.value)
    with cn.open(path) as file:
        file["/"].write(new, table="name", layout="h5col")
    assert cn.read(new, "name").to_pydict() == {"x": [1, 2]}


def test_arguments_of_another_type_are_refused_with_what_is_expected(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    cn.write(path, {"x": [1, 2]}, "events")
    wrong: Any = 5
    with pytest.raises(cn.errors.UsageError, match="what is converted must be a path or a File, not 5"):
        cn.convert(wrong, tmp_path / "new.h5")
    with pytest.raises(cn.errors.UsageError, match="the target must be a path, not 5"):
        cn.convert(path, wrong)
    for wrong in (5, "columns", ["/x"]):
        with pytest.raises(cn.errors.UsageError, match="source_layouts must be a dict by path"):
            cn.convert(path, tmp_path / "new.h5", source_layouts=wrong)
    wrong = "x"
    with cn.open(path) as file:
        table = file["events"]
        for read in (table, table.sort_by("x")):
            with pytest.raises(cn.errors.UsageError, match="a batch must have at least one row, not 'x'"):
                list(read.batches(wrong))
            assert [len(batch) for batch in read.batches(np.int8(1))] == [1, 1]  # type: ignore[arg-type]
        wrong = 5
        with pytest.raises(cn.errors.UsageError, match="dims must be the name of a column, or a list of such, not 5"):
            table.to_xarray(wrong)
    for values in ([1.5, 2], pd.Series([1, 2]), ["a"]):
        with pytest.raises(cn.errors.UsageError, match=r"batch 0 is a single value, .* give values a name"):
            cn.write(tmp_path / "new.h5", values, "t")
