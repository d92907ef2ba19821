"""`colonnade append` and `colonnade repack`: what they do, say, and refuse."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest

import colonnade as cn
from tests.rooms.test_cli import call, call_json

ROWS = pa.table(
    {
        "id": ["007", "b", None],
        "when": pa.array([datetime(2026, 1, 2), None, datetime(2026, 1, 4)], pa.timestamp("s")),
        "kind": pa.array(["muon", "muon", "pion"]).dictionary_encode(),
        "x": [1.5, None, 3.0],
        "n": pa.array([1, 2, 3], pa.int16()),
    }
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.h5"
    cn.write(path, ROWS, "events")
    return path


def write_as(ending: str, path: Path) -> Path:
    """The rows in a file of another format."""
    path = path / f"more{ending}"
    plain = ROWS.set_column(2, "kind", ROWS.column("kind").cast(pa.string()))
    if ending in (".csv", ".csv.gz"):
        with pa.output_stream(path, compression="detect") as out:
            pyarrow.csv.write_csv(plain, out)
    elif ending == ".tsv":
        pyarrow.csv.write_csv(plain, path, pyarrow.csv.WriteOptions(delimiter="\t"))
    elif ending == ".parquet":
        pyarrow.parquet.write_table(ROWS, path)
    elif ending == ".feather":
        pyarrow.feather.write_feather(ROWS, str(path))
    elif ending == ".arrow":
        with pyarrow.ipc.new_stream(str(path), ROWS.schema) as stream:
            stream.write_table(ROWS)
    elif ending == ".h5":
        cn.write(path, ROWS, "more")
    else:
        path.write_text(plain.to_pandas().to_json(orient="records", lines=True, date_format="iso"))
    return path


@pytest.mark.parametrize(
    "ending", [".csv", ".csv.gz", ".tsv", ".parquet", ".feather", ".arrow", ".jsonl", ".ndjson", ".h5"]
)
def test_append_of_every_format(run: Path, tmp_path: Path, ending: str) -> None:
    result = call("append", run, write_as(ending, tmp_path))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("3 rows added to /events of") and "6 now" in result.stdout
    assert cn.read(run).to_pylist() == ROWS.to_pylist() * 2


def test_append_json_and_create(tmp_path: Path) -> None:
    path, more = tmp_path / "new.h5", write_as(".csv", tmp_path)
    assert call("append", path, more).exit_code == 3
    assert call_json("append", path, more, "--create", "--table", "a/b")["added"] == 3
    facts = call_json("append", path, more, "--create")
    assert (facts["table"], facts["added"], facts["rows"]) == ("/a/b", 3, 6)
    assert cn.read(path, "a/b").column("id").to_pylist() == ["007", "b", None] * 2


@pytest.mark.parametrize("layout", ["compound", "pytables"])
def test_append_creates_a_table_of_a_layout(tmp_path: Path, layout: str) -> None:
    path, more = tmp_path / "new.h5", tmp_path / "more.csv"
    more.write_text("id,energy\n1,0.5\n2,7\n")
    assert call_json("append", path, more, "--create", "--layout", layout)["table"] == "/table"
    assert cn.open_table(path).layout == layout
    assert call_json("append", path, more, "--layout", layout)["rows"] == 4
    refused = call("append", path, more, "--layout", "anndata")
    assert refused.exit_code == 2 and "anndata" in refused.stderr, refused.output
    assert call("append", tmp_path / "no.h5", more, "--create", "--layout", "hdmf").exit_code == 3


def test_append_takes_the_named_table_of_a_file(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.h5"
    cn.write(other, ROWS, "one")
    cn.write(other, ROWS.slice(0, 1), "two")
    assert call("append", run, other).exit_code == 2
    assert call_json("append", run, other, "--from", "two")["added"] == 1
    assert call_json("append", run, run)["rows"] == 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,when,kind,x\n1,2026-01-01,muon,1\n", "they lack 'n'"),
        ("id,when,kind,x,n\na,2026-01-01,muon,1,70000\n", "n"),
        ("id,when,kind,x,n\na,2026-01-01,muon,word,7\n", "word"),
        ("id,when,kind,x,n\na,2026-01-01,muon\n", "5 columns"),
        ("", "Empty CSV"),
    ],
)
def test_append_refuses_all_or_nothing(run: Path, tmp_path: Path, text: str, said: str) -> None:
    more = tmp_path / "more.csv"
    more.write_text(text)
    before = run.read_bytes()
    result = call("append", run, more)
    assert result.exit_code == 2 and said in result.stderr, (result.exit_code, result.stderr)
    assert run.read_bytes() == before


def test_append_refuses_files_it_does_not_know(run: Path, tmp_path: Path) -> None:
    assert call("append", run, tmp_path / "none.csv").exit_code == 3
    result = call("append", run, tmp_path / "rows.xlsx")
    assert result.exit_code == 2 and ".parquet" in result.stderr


def test_repack(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    cn.write(path, {"a": np.random.default_rng(1).random(50_000), "b": np.arange(50_000)}, "t")
    with cn.open(path, "r+") as file:
        file["t"].drop_column("a")
    facts = call_json("repack", path)
    assert facts["bytes_before"] - facts["bytes_after"] > 300_000
    assert facts["bytes_after"] == path.stat().st_size
    result = call("repack", path, "--chunk-rows", 1000, "--filters", "deflate:3")
    assert result.exit_code == 0 and "before" in result.stdout
    with cn.open(path) as file:
        assert (file["t"]["b"].chunk_rows, file["t"]["b"].filters) == (1000, "deflate:3")
    assert call("repack", path, "--chunk-rows", "auto", "--filters", "auto").exit_code == 0
    assert cn.read(path).column("b").to_pylist() == list(range(50_000))


@pytest.mark.parametrize("wrong", [("--chunk-rows", "0"), ("--chunk-rows", "x"), ("--filters", "none+what")])
def test_repack_refuses(run: Path, wrong: tuple[str, str]) -> None:
    before = run.read_bytes()
    assert call("repack", run, *wrong).exit_code == 2
    assert run.read_bytes() == before


def test_words_for_missing_in_a_csv_are_named(tmp_path: Path) -> None:
    """ "NA" is a text, NaN a number; an empty field is missing, and what --missing says."""
    path, more = tmp_path / "t.h5", tmp_path / "more.csv"
    cn.write(path, {"name": ["a"], "x": [1.0]}, "t")
    more.write_text('name,x\nNA,nan\n,\n"",2.5\n')
    assert call("append", path, more).exit_code == 0
    assert cn.read(path).column("name").to_pylist() == ["a", "NA", None, ""]
    x = cn.read(path).column("x").to_pylist()
    assert x[2:] == [None, 2.5] and np.isnan(x[1])
    assert call("append", path, more, "--missing", "NA", "--missing", "nan").exit_code == 0
    assert cn.read(path).slice(4).to_pylist()[0] == {"name": None, "x": None}
    assert call("append", path, write_as(".parquet", tmp_path), "--missing", "NA").exit_code == 2
    assert call("append", path, path, "--missing", "NA").exit_code == 2


def test_delete(run: Path) -> None:
    """By predicate; a dry run only counts. Nothing to remove is exit code 1."""
    n_rows, first = ROWS.num_rows, ROWS.column_names[0]
    before = run.read_bytes()
    facts = call_json("delete", run, "events", f"{first} is missing or {first} is not missing", "--dry-run")
    assert facts["removed"] == n_rows and facts["rows"] == 0 and facts["dry_run"] is True
    assert run.read_bytes() == before
    assert call("delete", run, "nothing > 3").exit_code == 2
    assert call("delete", run, f"{first} is missing and {first} is not missing").exit_code == 1
    assert run.read_bytes() == before
    result = call("delete", run, "true")
    assert result.exit_code == 0 and f"{n_rows} rows removed from /events" in result.output
    assert len(cn.read(run, "events")) == 0
