"""Sorting, sampling and distinct values: what is read, what is kept on disk meanwhile, and what is refused."""

from __future__ import annotations

import gc
import io
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade import limits
from colonnade.errors import ColumnNotFound, UsageError
from tests.rooms.test_chunks_read import Recorder

N = 20_000
CHUNK = 500


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ts` nearly sorted, `energy` in disorder, `label` of few values; `ts` and `energy` with an index."""
    path: Path = tmp_path_factory.mktemp("sorted") / "x.h5"
    chance = np.random.default_rng(1)
    data = {
        "ts": np.arange(N) + chance.integers(0, 20, N),
        "energy": chance.normal(size=N),
        "plain": chance.integers(0, 10**9, N),
        "label": pa.array(np.array(["muon", "pion", "kaon"])[chance.integers(0, 3, N)]).dictionary_encode(),
    }
    options = {name: {"chunk_rows": CHUNK, "filters": "none"} for name in data}
    cn.write(path, data, "t", columns=options, index={"ts": "sorted_rows", "energy": "sorted_rows", "label": "bitmap"})
    return path


@pytest.fixture
def table(path: Path) -> Iterator[cn.Table]:
    with cn.open_table(path, trust="always") as table:
        yield table


@pytest.fixture
def spill_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, with limits at which every sort needs it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def chunks_touched(path: Path, ask: Any) -> dict[str, int]:
    """How many chunks of each column are read, on the second time that it is asked."""
    with h5py.File(path) as h5:
        places = {}
        for name in ("ts", "energy", "plain", "label"):
            dataset = h5[f"t/{name}"].id
            infos = [dataset.get_chunk_info(number) for number in range(dataset.get_num_chunks())]
            places[name] = [(info.byte_offset, info.byte_offset + info.size) for info in infos]
    stream = Recorder(path.read_bytes())
    with cn.open(stream, trust="always") as file:
        table = file["t"]
        table.head(1).to_arrow()
        stream.reads.clear()
        ask(table)
    return {
        name: sum(any(at < stop and at + count > start for at, count in stream.reads) for start, stop in spans)
        for name, spans in places.items()
    }


def test_the_first_rows_by_an_index_read_little(path: Path) -> None:
    """Ten rows of one end of an index: the chunks of these rows, and a few probes for the end of the last group."""
    asked = chunks_touched(path, lambda t: t.select("ts", "plain").sort_by("ts").head(10).to_arrow())
    assert asked["ts"] == 1 and asked["plain"] == 1 and asked["energy"] == asked["label"] == 0
    asked = chunks_touched(path, lambda t: t.select("ts").sort_by(("ts", "descending")).head(10).to_arrow())
    assert asked["ts"] <= 2
    asked = chunks_touched(path, lambda t: t.select("plain").sort_by(("energy", "descending"), "ts").head(3).to_arrow())
    assert asked["plain"] <= 3 and asked["energy"] <= 16 and asked["ts"] <= 3


def test_the_first_rows_by_the_bounds_of_chunks_read_few_of_them(tmp_path: Path) -> None:
    """Chunks whose bounds cannot have one of the first rows are not read; equal keys are in the order of their rows."""
    path, n_chunks = tmp_path / "x.h5", N // CHUNK
    chance = np.random.default_rng(2)
    energy = np.repeat(np.arange(n_chunks) % 7, CHUNK).astype("f8") + chance.random(N) / 2
    energy[[N - 1, 5, 2 * CHUNK]] = 99.0
    data = {"ts": np.arange(N), "energy": energy, "plain": np.round(energy), "label": np.zeros(N, "i1")}
    options = {name: {"chunk_rows": CHUNK, "filters": "none"} for name in data}
    index = {"energy": "chunk_minmax", "plain": "chunk_minmax"}
    cn.write(path, data, "t", columns=options, index=index)
    best = ("energy", "descending")
    asked = chunks_touched(path, lambda t: t.select("ts", "energy").sort_by(best).head(3).to_arrow())
    assert asked["energy"] == 3 and asked["ts"] <= 3 and asked["plain"] == 0
    asked = chunks_touched(path, lambda t: t.select("ts", "energy").sort_by("energy").head(10).to_arrow())
    assert asked["energy"] <= 2 + n_chunks // 7
    with cn.open_table(path, trust="always") as table:
        assert table.sort_by(best).head(3).to_arrow()["ts"].to_pylist() == [5, 2 * CHUNK, N - 1]
        for by in (best, "energy", ("plain", "descending"), "plain"):
            order = np.argsort(-data[by[0]] if isinstance(by, tuple) else data[by], kind="stable")
            found = table.sort_by(by).head(20)
            assert found.row_numbers().tolist() == order[:20].tolist()
            assert [used.kind for used in found.explain().indexes_used] == ["chunk_minmax"]
    with cn.open_table(path, trust="never") as distrusting:
        assert distrusting.sort_by(best).head(3).explain().indexes_used == []


def test_rows_without_a_number_are_not_found_by_the_bounds_of_chunks(tmp_path: Path) -> None:
    """With fewer numbers than rows asked for, NaN and missing rows follow: the column is read."""
    values = [None, float("nan"), 2.0, 1.0, *[None] * 60]
    cn.write(tmp_path / "x.h5", {"x": pa.array(values)}, "t", index={"x": "chunk_minmax"})
    with cn.open_table(tmp_path / "x.h5", trust="always") as table:
        assert table.sort_by("x").head(2).row_numbers().tolist() == [3, 2]
        assert [used.kind for used in table.sort_by("x").head(2).explain().indexes_used] == ["chunk_minmax"]
        assert table.sort_by("x").head(4).row_numbers().tolist() == [3, 2, 1, 0]
        assert table.sort_by("x").head(4).explain().indexes_used == []


def test_without_an_index_only_the_keys_are_read(path: Path) -> None:
    asked = chunks_touched(path, lambda t: t.sort_by("plain").head(3).to_arrow())
    assert asked["plain"] == N // CHUNK
    assert max(asked["ts"], asked["energy"], asked["label"]) <= 3


def test_a_sample_reads_the_chunks_of_its_rows(path: Path) -> None:
    asked = chunks_touched(path, lambda t: t.sample(4, seed=1).select("energy", "plain").to_arrow())
    assert 0 < asked["energy"] <= 4 and 0 < asked["plain"] <= 4 and asked["ts"] == 0


def test_an_index_is_used_where_it_pays(table: cn.Table) -> None:
    plan = table.sort_by("energy").head(5).explain()
    assert [(used.column, used.kind) for used in plan.indexes_used] == [("energy", "sorted_rows")]
    assert plan.sorted == "by energy, the first 5" and "the order: 5 rows left" in str(plan)
    assert table.sort_by("plain").head(5).explain().indexes_used == []
    assert table.sort_by(("energy", "descending")).explain().indexes_used == []
    assert table.sort_by("ts").head(N // 2).explain().indexes_used == []
    with cn.open_table(table._file.name, trust="never") as distrusting:
        assert distrusting.sort_by("energy").head(5).explain().indexes_used == []
        assert distrusting.sort_by("energy").head(5).row_numbers().tolist() == (
            table.sort_by("energy").head(5).row_numbers().tolist()
        )


def test_an_index_with_wrong_rows_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, {"a": np.arange(100)[::-1].copy()}, "t", index={"a": "sorted_rows"})
    with h5py.File(path, "r+") as h5:
        h5["t/_search_indexes/a__sorted_rows"][:50] = 10**6
    with cn.open_table(path, trust="always") as table:
        assert table.sort_by("a").head(3).row_numbers().tolist() == [99, 98, 97]


def test_temporary_files_are_removed(table: cn.Table, spill_folder: Path) -> None:
    """After the last batch, when the iterator is abandoned, and after an error or Ctrl-C."""
    with limits.override(sorted_bytes=150_000):
        query = table.sort_by("plain")
        batches = query.batches(100)
        first = next(batches)
        assert list(spill_folder.iterdir()) != []
        assert first.num_rows <= 100
        rest = list(batches)
        assert list(spill_folder.iterdir()) == []
        assert sum(batch.num_rows for batch in rest) + first.num_rows == N
        assert pa.Table.from_batches([first, *rest])["plain"].to_pylist() == sorted(table["plain"][:].tolist())

        batches = query.batches(100)
        next(batches)
        del batches
        gc.collect()
        assert list(spill_folder.iterdir()) == []

        for row in query:
            assert row
            break
        gc.collect()
        assert list(spill_folder.iterdir()) == []

        for error in (KeyboardInterrupt, MemoryError):
            with pytest.MonkeyPatch.context() as patch, pytest.raises(error):
                patch.setattr("colonnade.sorting.external.ExternalSort._next_of", failing(error))
                list(query.batches())
            gc.collect()
            assert list(spill_folder.iterdir()) == []
            with pytest.MonkeyPatch.context() as patch, pytest.raises(error):
                patch.setattr("colonnade.sorting.external._Run.load", failing(error))
                query.row_numbers()
            assert list(spill_folder.iterdir()) == []


def failing(error: type[BaseException]) -> Any:
    def fail(*_arguments: object) -> None:
        raise error

    return fail


def test_many_runs_are_merged_in_several_passes(table: cn.Table, spill_folder: Path) -> None:
    """Stable all the same: of equal keys the earlier row comes first."""
    with limits.override(sorted_bytes=8000, merged_runs=8):
        found = pa.Table.from_batches(table.where("ts >= 0").sort_by("label").batches(dictionaries=True))
    labels = table["label"].to_arrow().to_pylist()
    order = sorted(range(N), key=lambda row: labels[row])
    assert found["plain"].to_pylist() == table["plain"][order].tolist()
    assert found["label"].to_pylist() == sorted(labels)
    assert list(spill_folder.iterdir()) == []


def test_a_commit_meanwhile_ends_a_sorted_iteration(tmp_path: Path) -> None:
    cn.write(tmp_path / "x.h5", {"a": range(1000)}, "t")
    with cn.open_table(tmp_path / "x.h5", mode="r+") as table:
        batches = table.sort_by(("a", "descending")).batches(10)
        next(batches)
        table.delete([0])
        with pytest.raises(cn.errors.ConflictError):
            list(batches)


def test_a_sorted_query_has_the_verbs_of_a_query(table: cn.Table) -> None:
    found = table.where("label == 'muon'").sort_by(("energy", "descending"), "ts").select("energy", "label").head(7)
    energy = table.where("label == 'muon'").to_arrow()["energy"].to_pylist()
    assert found.to_pandas()["energy"].tolist() == sorted(energy)[::-1][:7]
    assert found.to_numpy()["energy"].tolist() == found.to_polars()["energy"].to_list() == sorted(energy)[::-1][:7]
    assert found[0]["energy"] == max(energy) and found[-1] == found[6]
    assert pa.table(found) == found.to_arrow()
    assert pickle.loads(pickle.dumps(found)).to_arrow() == found.to_arrow()
    assert "sorted by energy descending, ts, the first 7" in repr(found)
    assert found._repr_html_().count("<tr>") == 2 + 5
    assert found.aggregate(top=("energy", "max"))["top"] == max(energy)
    assert found.head(3).count() == 3 and len(list(found.batches(2))) == 4
    assert found.sort_by("energy").head(1)[0]["energy"] == sorted(energy)[::-1][6]
    assert [row["label"] for row in found] == ["muon"] * 7
    assert found.take([6, 0]).to_arrow()["energy"].to_pylist() == [
        sorted(energy)[::-1][6],
        max(energy),
    ]


def test_what_cannot_be_sorted_is_refused(tmp_path: Path) -> None:
    data = {"a": [1, 2], "list": [[1], [2]], "z": np.array([1j, 2j]), "s": [{"x": 1}, {"x": 2}]}
    cn.write(tmp_path / "x.h5", data, "t")
    wrong: list[tuple[Any, ...]] = [(), ("a", "a"), (("a", "down"),), (3,), (("a",),), ("list",), ("z",), ("s",)]
    with cn.open_table(tmp_path / "x.h5") as table:
        for by in wrong:
            with pytest.raises(UsageError):
                table.sort_by(*by)
        with pytest.raises(ColumnNotFound):
            table.sort_by("b")
        with pytest.raises(UsageError, match="z"):
            table.sort_by("z")


def test_a_sample_is_uniform_and_repeatable(table: cn.Table) -> None:
    rows = table.sample(50, seed=3).row_numbers()
    assert rows.tolist() == table.sample(50, seed=3).row_numbers().tolist() == sorted(set(rows.tolist()))
    assert rows.tolist() != table.sample(50, seed=4).row_numbers().tolist()
    assert table.sample(N + 5).count() == N and table.sample(0).count() == 0
    muons = table.where("label == 'muon'")
    assert set(muons.sample(20, seed=1).to_arrow()["label"].to_pylist()) == {"muon"}
    assert muons.sample(10**6).row_numbers().tolist() == muons.row_numbers().tolist()
    few = table.head(4)
    counts = np.bincount(np.concatenate([few.sample(2, seed=seed).row_numbers() for seed in range(400)]), minlength=4)
    assert counts.sum() == 800 and counts.min() > 150
    for n in (-1, 1.5, "3"):
        with pytest.raises(UsageError):
            table.sample(n)  # type: ignore[arg-type]


def test_distinct_values(table: cn.Table) -> None:
    assert table.distinct("label").to_pydict() == {"label": ["kaon", "muon", "pion"]}
    assert table.where("label != 'kaon'").distinct("label").to_pydict() == {"label": ["muon", "pion"]}
    assert table.head(4).distinct("ts", "label").num_rows == 4
    with pytest.raises(ColumnNotFound):
        table.distinct("nothing")
    with pytest.raises(UsageError):
        table.distinct()


def test_distinct_values_keep_missing_and_nan(tmp_path: Path) -> None:
    stream = io.BytesIO()
    cn.write(stream, {"n0": [2.0, None, float("nan"), 2.0, None, -1.0]}, "t")
    assert repr(cn.open_table(stream).distinct("n0")["n0"].to_pylist()) == "[-1.0, 2.0, nan, None]"


def test_sorting_again_keeps_the_order_of_equal_keys(table: cn.Table) -> None:
    again = table.sort_by("energy").sort_by("label").row_numbers()
    assert again.tolist() == table.sort_by("label", "energy").row_numbers().tolist()
    first = table.sort_by("energy").head(50).sort_by("label").row_numbers()
    labels = table["label"].to_arrow().to_pylist()
    rows = table.sort_by("energy").head(50).row_numbers().tolist()
    assert first.tolist() == sorted(rows, key=lambda row: labels[row])
