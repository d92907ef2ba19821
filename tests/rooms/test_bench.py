"""The comparison with peers can be believed: right answers agree, wrong ones are noticed, one missing is no fault."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench import anndata as bench_anndata
from bench import chart, report
from bench.__main__ import arguments_from, chosen_peers, chosen_rows, compare
from bench.answers import difference
from bench.peers import PEERS, Peer
from bench.peers.base import Sizes, bytes_under, made_once
from bench.peers.colonnade import Colonnade
from bench.peers.duckdb import DuckDBNative, DuckDBSmall
from bench.peers.h5py import H5pyByHand
from bench.peers.polars import PolarsDefault
from bench.peers.pyarrow import PyArrowSmall
from bench.rows import ROWS
from bench.workload import LABELS, SCHEMA, SEARCHES, Workload
from rich.console import Console

WORKLOAD = Workload(20_000)
KINDS: tuple[type[Peer], ...] = (Colonnade, DuckDBSmall, DuckDBNative, PolarsDefault, PyArrowSmall, H5pyByHand)


def _writes_bloom_filters() -> bool:
    try:
        pq.write_table(pa.table({"x": [1]}), io.BytesIO(), bloom_filter_options={})
    except TypeError:
        return False
    return True


tuned = pytest.mark.skipif(
    not _writes_bloom_filters(), reason="tuned Parquet has Bloom filters, which this pyarrow cannot write"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer sets the folder of receipts for itself; it is put back afterwards."""
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


class Absent(Peer):
    name = "absent"
    family = "absent"
    packages = ("no-such-distribution",)
    layout = "nowhere"


class OneRowShort(PyArrowSmall):
    """Wrong in five ways: a value, a row, a count, a mean, and what it writes."""

    name = "wrong"

    def scan(self, column: str) -> Any:
        values = super().scan(column).to_pylist()
        values[12_345] = values[0]
        return pa.array(values)

    def between(self, column: str, low: int, high: int, columns: Sequence[str]) -> Any:
        return super().between(column, low, high, columns).slice(1)

    def count(self, column: str, value: str) -> Any:
        return super().count(column, value) + 1

    def mean(self, column: str) -> Any:
        return super().mean(column) + 1e-6

    def write(self, rows: pa.Table, path: Path) -> Any:
        return super().write(rows.slice(0, rows.num_rows - 1), path)


@tuned
def test_all_rows_of_all_installed_peers_agree(folder: Path) -> None:
    kinds = [kind for kind in KINDS if kind.available()]
    assert {kind.family for kind in kinds} > {"colonnade", "pyarrow / Parquet"}
    found = compare(WORKLOAD, [*kinds, Absent], ROWS, folder, repeats=1)
    assert found.problems == []
    assert found.not_installed == ["absent"]
    for line in found.lines:
        assert line.cells["colonnade"].cpu is not None
        alone = line.row.key in ("write-plain", "append-plain")  # PyTables, their peer, is not among the kinds
        assert (line.ratio() is None) == alone
        assert line.times_limit is None or line.times_limit > 0
    assert sum(line.limit is not None for line in found.lines) == 9
    none = [(line.row.key, name) for line in found.lines for name, cell in line.cells.items() if cell.cpu is None]
    plain = [(key, kind.name) for key in ("write-plain", "append-plain") for kind in kinds if kind is not Colonnade]
    no_dictionaries = [("scan-name-dictionary", name) for name in ("duckdb-parquet-small", "duckdb-native")]
    assert sorted(none) == sorted([*no_dictionaries, *plain, ("delete", "h5py")])
    figures = json.loads(json.dumps(report.as_json(found)))
    assert [row["key"] for row in figures["rows"]] == [row.key for row in ROWS]
    assert set(figures["rows"][0]["cells"]) == {kind.name for kind in kinds}
    ElementTree.fromstring(chart.svg(found))
    console = Console(record=True, file=io.StringIO())
    report.print_report(found, console)
    said = console.export_text()
    assert "not installed: absent" in said and "PROBLEM" not in said
    assert all(line.heading in said for line in found.lines)


@tuned
def test_wrong_answers_are_noticed(folder: Path) -> None:
    rows = [row for row in ROWS if row.key in ("scan-ts", "scan-name", "range-1", "count", "mean", "write", "mean-by")]
    found = compare(WORKLOAD, [OneRowShort], rows, folder, repeats=1)
    assert len(found.problems) == 6  # all but the means by label
    said = "\n".join(found.problems)
    assert "row 12,345" in said
    assert "rows instead of" in said
    assert all(line.cells["wrong"].cpu is None for line in found.lines if line.row.key != "mean-by")


@tuned
def test_a_peer_that_fails_does_not_stop_the_others(folder: Path) -> None:
    class Failing(PyArrowSmall):
        name = "failing"

        def mean(self, column: str) -> Any:
            raise OSError("the disk is gone")

    class Unprepared(PyArrowSmall):
        name = "unprepared"

        def prepare(self, *_unused: Any) -> None:
            raise OSError("no room")

    found = compare(WORKLOAD, [PyArrowSmall, Failing, Unprepared], chosen_rows("mean"), folder, repeats=1)
    assert found.lines[0].cells["pyarrow-parquet-small"].cpu is not None
    assert sorted(found.problems) == [
        "mean(energy), failing: OSError: the disk is gone",
        "unprepared: could not make its files: OSError: no room",
    ]


@pytest.mark.parametrize(
    ("answer", "expected", "right"),
    [
        (3, 3, True),
        (3, 4, False),
        (0.1 + 0.2, 0.3, True),
        (0.3 + 1e-6, 0.3, False),
        ({"a": 1.0}, {"a": 1.0}, True),
        ({"a": 1.0}, {"a": 1.1}, False),
        ({"a": 1.0}, {"a": 1.0, "b": 2.0}, False),
        (np.array([b"ab", b"c"]), pa.chunked_array([["ab", "c"]]), True),
        (np.array(["ab", "c"]), pa.chunked_array([["ab", "d"]]), False),
        (pa.array(["ab", "c"]).dictionary_encode(), pa.chunked_array([["ab"], ["c"]]), True),
        (pa.array([1, 2], pa.int32()), pa.chunked_array([[1, 2]]), True),
        (pa.array([1.0, 2.0 + 1e-12]), pa.chunked_array([[1.0, 2.0]]), False),  # values are not sums: no tolerance
        (pa.array([1, 2]), pa.chunked_array([[1, 2, 3]]), False),
        ({"a": np.array([2, 1]), "b": ["x", "y"]}, pa.table({"a": [1, 2], "b": ["y", "x"]}), True),
        ({"a": np.array([2, 1]), "b": ["x", "y"]}, pa.table({"a": [1, 2], "b": ["x", "y"]}), False),
        ({"a": [1]}, pa.table({"b": [1]}), False),
    ],
)
def test_answers_are_compared_by_value(answer: Any, expected: Any, right: bool) -> None:
    if isinstance(answer, dict):
        answer = {name: pa.array(value) if isinstance(value, list) else value for name, value in answer.items()}
    assert (difference(answer, expected) is None) == right


def test_the_workload_is_always_the_same_and_what_it_says() -> None:
    whole = pa.Table.from_batches(list(WORKLOAD.batches()))
    assert whole.schema == SCHEMA and whole.num_rows == WORKLOAD.rows
    for name in SCHEMA.names:
        assert whole[name].equals(Workload(20_000).column(name))
        assert not whole[name].equals(Workload(20_000, seed=2).column(name))
    assert whole["ts"].slice(0, 5000).equals(Workload(300_000).column("ts").slice(0, 5000))
    assert set(whole["label"].to_pylist()) == set(LABELS)
    names = set(whole["name"].to_pylist())
    assert len(names) == 1000 and {len(name) for name in names} == set(range(5, 21))
    assert set(WORKLOAD.searched_ids) <= set(whole["id"].to_pylist()) and set(WORKLOAD.searched_names) <= names
    assert len(set(WORKLOAD.searched_ids)) == SEARCHES


@tuned
def test_files_are_made_once_and_anew_for_another_workload(folder: Path) -> None:
    said: list[str] = []
    for workload in (WORKLOAD, WORKLOAD, replace(WORKLOAD, seed=3)):
        peer = PyArrowSmall()
        place = folder / f"seed-{workload.seed}"
        place.mkdir(exist_ok=True)
        peer.prepare(place, workload, said.append)
        peer.close()
    assert said == ["making files: parquet-small"] * 2


def test_files_of_other_versions_are_removed(tmp_path: Path) -> None:
    def make(place: Path) -> Sizes:
        (place / "rows").write_bytes(b"abc")
        return Sizes(bytes_under(place))

    made = [made_once(tmp_path, "one", [version], make, lambda _said: None) for version in ("1", "1", "2")]
    other = made_once(tmp_path, "one-more", ["1"], make, lambda _said: None)
    assert made[0] == made[1] != made[2]
    assert sorted(tmp_path.iterdir()) == sorted([made[2].folder, other.folder])
    assert made[2].sizes == Sizes(3)


def test_the_command_line_says_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert arguments_from(["--rows", "1_000_000", "--quick"]).rows == 1_000_000
    assert {kind.name for kind in chosen_peers("duckdb-native")} == {"colonnade", "duckdb-native"}
    assert chosen_peers(None) == list(PEERS)
    with pytest.raises(SystemExit, match="there is no row 'scan'"):
        chosen_rows("scan")
    with pytest.raises(SystemExit, match="there is no peer 'oracle'"):
        chosen_peers("oracle")
    with pytest.raises(SystemExit):
        arguments_from(["--rows", "0"])
    assert "must be 1 or more" in capsys.readouterr().err


def test_cells_are_selected_alike_by_anndata_and_colonnade(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--cells",
        "20_000",
        "--repeats",
        "1",
        "--folder",
        str(tmp_path),
        "--json",
        str(tmp_path / "cells.json"),
    ]
    assert bench_anndata.main(arguments) == 0
    told = json.loads((tmp_path / "cells.json").read_text())["found"]
    assert told["anndata"]["rows"] == told["colonnade, scan"]["rows"] > 100
    assert told["colonnade, scan"]["columns"] == 30
    assert "colonnade, two columns" in capsys.readouterr().out
    assert not (tmp_path / "indexed.h5ad").exists()
