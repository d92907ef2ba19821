"""Rows written to other files: `Table.write`, `where -o`, and conversion between HDF5 and row files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest

import colonnade as cn
from colonnade.row_files.base import TextOptions
from colonnade.row_files.known import ROW_FORMATS, format_of
from tests.conftest import SetLimits
from tests.rooms.test_cli import call, call_json

DATA = {
    "ts": [1, 2, 3],
    "energy": [0.5, None, 7.0],
    "id": pa.array([1, None, 3], pa.int32()),
    "label": pa.array(["a", "b", None]).dictionary_encode(),
    "row": ["r1", "r2", "r3"],
}
SUFFIXES = [".csv", ".csv.gz", ".tsv", ".jsonl", ".jsonl.gz", ".arrow", ".arrows", ".feather", ".parquet"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.h5"
    columns = {
        "energy": cn.column(units="MeV", description="Deposited energy"),
        "id": cn.column(fill=-7),
        "label": cn.column(categories=["z", "a", "b"], ordered=True),
    }
    cn.write(path, DATA, "a/events", title="Run 42", labels=["row"], columns=columns)
    with cn.open(path, "r+") as file:
        file["a/events"].attrs["run"] = 42
        file["a/events"]["ts"].attrs["gain"] = 1.5
    return path


def refused(match: str) -> Any:
    return pytest.raises(cn.errors.UsageError, match=match)


# -- Query.write --


def test_what_is_known_of_a_table_is_written_with_its_rows(run: Path, tmp_path: Path) -> None:
    table = cn.open_table(run)
    table.where("ts >= 2").write(tmp_path / "out.h5")
    written = cn.open_table(tmp_path / "out.h5")
    assert (written.path, written.title, written.labels) == ("/a/events", "Run 42", ["row"])
    assert written["energy"].units == "MeV" and written["energy"].description == "Deposited energy"
    assert written["id"].fill == -7
    categories = written["label"].categories
    assert categories is not None and categories.to_pylist() == ["z", "a", "b"]
    assert dict(written.attrs) == {"run": 42} and dict(written["ts"].attrs) == {"gain": 1.5}
    assert written.to_arrow().equals(table.where("ts >= 2").to_arrow())
    assert cn.check(tmp_path / "out.h5", deep=True) == []


def test_no_rows_are_written_with_their_categories(run: Path, tmp_path: Path) -> None:
    cn.open_table(run).where("ts > 100").write(tmp_path / "out.h5")
    written = cn.open_table(tmp_path / "out.h5")
    categories = written["label"].categories
    assert len(written) == 0 and categories is not None and len(categories) == 3
    assert written.schema.types == cn.open_table(run).schema.types


def test_what_is_asked_for_goes_first(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    options: dict[str, Any] = {"energy": cn.column(units="GeV"), "id": {"description": "which"}}
    query = cn.open_table(run).select("energy", "id")
    query.write(out, "here", title="Mine", columns=options, index={"id": "sorted_rows"})
    written = cn.open_table(out, "here")
    assert (written.title, written.labels, written["energy"].units) == ("Mine", [], "GeV")
    assert written["id"].fill == -7 and written["id"].description == "which" and len(written.indexes) == 1
    query.write(out, "here", mode="append")
    assert len(cn.open_table(out, "here")) == 6
    with refused("there is a table"):
        query.write(out, "here")
    query.write(out, "here", mode="replace")
    assert len(cn.open_table(out, "here")) == 3


def test_rows_are_written_into_the_file_that_they_are_read_from(run: Path) -> None:
    cn.open_table(run).where("ts > 1").write(run, "second")
    with cn.open(run, "r+") as file:
        file["second"].write(run, "third")
        assert file.tables() == ["/a/events", "/second", "/third"]
        assert file["third"].to_arrow().equals(file["second"].to_arrow())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_is_written_as_a_row_file(suffix: str, run: Path, tmp_path: Path) -> None:
    out = tmp_path / f"rows{suffix}"
    table = cn.open_table(run)
    table.write(out)
    with refused("already exists"):
        table.write(out)
    with refused("is for HDF5 files"):
        table.write(out, mode="replace", index={"ts": "bitmap"})
    table.where("ts == 3").write(out, mode="replace")
    cn.convert(out, tmp_path / "back.h5", types={"id": "int32", "ts": "int64"} if "s" in suffix[2:4] else None)
    back = cn.open_table(tmp_path / "back.h5")
    assert [back[name].to_arrow().to_pylist() for name in DATA] == [[3], [7.0], [3], [None], ["r3"]]
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_failed_write_leaves_nothing(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.parquet"
    kept.write_bytes(b"before")

    def fail(done: int, total: int | None) -> None:
        raise RuntimeError("stop")

    for target in (kept, tmp_path / "new.h5", tmp_path / "new.csv"):
        with pytest.raises(RuntimeError, match="stop"):
            cn.open_table(run).write(target, mode="replace", progress=fail)
    assert kept.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.parquet", "run.h5"]


def test_where_writes_an_hdf5_file(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    facts = call_json("where", run, "ts > 1", "-c", "row,energy", "-o", out)
    assert (facts["rows"], facts["format"], facts["notes"]) == (2, "hdf5", [])
    assert cn.open_table(out).columns == ["energy"] and cn.open_table(out)["energy"].units == "MeV"
    again = call("where", run, "ts > 1", "-o", out)
    assert again.exit_code == 2 and "--force" in again.stderr
    assert call("where", run, "ts > 2", "-o", out, "--force").exit_code == 0 and len(cn.open_table(out)) == 1
    odd = tmp_path / "odd.name"
    assert call("where", run, "ts > 1", "-o", odd).exit_code == 2
    assert call("where", run, "ts > 1", "-o", odd, "--format", "hdf5").exit_code == 0 and len(cn.open_table(odd)) == 2
    assert call("where", run, "ts > 1", "--format", "hdf5").exit_code == 2
    assert call("where", run, "ts > 1", "-o", run, "--force").exit_code == 2
    assert "column 'energy': csv has no place" in call("where", run, "ts > 1", "-o", tmp_path / "a.csv").output


# -- convert --


def test_a_file_of_several_tables_becomes_a_folder(run: Path, tmp_path: Path) -> None:
    cn.write(run, {"x": [1, 2]}, "other")
    with refused("holds 2 tables"):
        cn.convert(run, tmp_path / "one.parquet")
    done = cn.convert(run, tmp_path / "all", format="parquet")
    assert sorted(done.tables) == ["/a/events", "/other"]
    assert pa.parquet.read_table(tmp_path / "all" / "other.parquet").to_pydict() == {"x": [1, 2]}
    assert pd.read_parquet(tmp_path / "all" / "a" / "events.parquet").index.tolist() == ["r1", "r2", "r3"]
    with refused("not empty"):
        cn.convert(run, tmp_path / "all", format="parquet", overwrite=True)
    notes = cn.convert(run, tmp_path / "x.csv", table="other").notes
    assert notes == [f"/a of {run} are not in {tmp_path / 'x.csv'}"]
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_what_pandas_knows_goes_through_parquet_and_back(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], "Int8"),
            "when": pd.to_datetime(pd.Series(["2026-01-01", None, "2026-03-01"])).dt.tz_localize("Europe/Berlin"),
            "kind": pd.Categorical(["a", None, "b"], ["b", "unused", "a"], ordered=True),
            "text": ["x", None, ""],
            "numbers": pd.Categorical([30, 10, 30], [30, 20, 10]),
        },
        index=pd.MultiIndex.from_tuples([(1, "a"), (1, "b"), (2, "a")], names=["run", "part"]),
    )
    frame.to_parquet(tmp_path / "a.parquet")
    cn.convert(tmp_path / "a.parquet", tmp_path / "b.h5")
    first = cn.open_table(tmp_path / "b.h5").to_pandas()
    cn.convert(tmp_path / "b.h5", tmp_path / "c.parquet")
    cn.convert(tmp_path / "c.parquet", tmp_path / "d.h5")
    pd.testing.assert_frame_equal(cn.open_table(tmp_path / "d.h5").to_pandas(), first)
    expected = frame.astype({"numbers": first["numbers"].dtype})
    pd.testing.assert_frame_equal(first, expected, check_dtype=False)
    back = pd.read_parquet(tmp_path / "c.parquet")
    assert back.index.names == ["run", "part"] and str(back["n"].dtype) == "Int8"
    assert back["kind"].cat.categories.tolist() == ["b", "unused", "a"]


def test_missing_and_empty_in_csv(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text('n,text,word\n1,"",NA\n,,x\n')
    cn.convert(source, tmp_path / "a.h5", missing=["NA"])
    assert cn.read(tmp_path / "a.h5").to_pydict() == {"n": [1, None], "text": ["", None], "word": [None, "x"]}
    cn.convert(tmp_path / "a.h5", tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text() == '"n","text","word"\n1,"",\n,,"x"\n'
    cn.write(tmp_path / "one.h5", {"text": ["a", None, ""]})
    assert "reads like an empty string" in cn.convert(tmp_path / "one.h5", tmp_path / "one.csv").notes[0]
    cn.convert(tmp_path / "one.csv", tmp_path / "two.h5")
    assert cn.read(tmp_path / "two.h5").to_pydict() == {"text": ["a", None, None]}


def test_types_and_delimiters_of_csv(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("zip;price;when\n007;1.50;2026-01-01\n")
    options = ["--source-format", "csv", "--delimiter", ";", "--types", "zip=string,price=decimal128(9, 2)"]
    done = call_json("convert", source, tmp_path / "a.h5", *options)
    assert done["tables"] == ["/a"]
    assert cn.read(tmp_path / "a.h5").schema.types == [pa.string(), pa.decimal128(9, 2), pa.date32()]
    assert call("convert", source, tmp_path / "b.h5", *options[:4], "--types", "zap=string").exit_code == 2
    assert call("convert", source, tmp_path / "b.h5", *options[:4], "--types", "zip=strong").exit_code == 2
    assert call("convert", tmp_path / "a.h5", tmp_path / "b.parquet", "--types", "zip=string").exit_code == 2


def test_integers_that_a_float_would_round_are_kept_or_refused(tmp_path: Path) -> None:
    source, target = tmp_path / "a.csv", tmp_path / "a.h5"
    source.write_text(f"x,y\n{2**64 - 1},1\n5,2\n")
    cn.convert(source, target)
    assert cn.read(target).column("x").to_pylist() == [2**64 - 1, 5]
    source.write_text(f"x,y\n{2**64 - 1},1\n-5,2\n")
    with refused("would be rounded"):
        cn.convert(source, target, overwrite=True)
    source.write_text("x,y\n1e300,1\n-5,2\n")
    cn.convert(source, target, overwrite=True)
    assert cn.read(target).column("x").to_pylist() == [1e300, -5.0]
    lines = tmp_path / "a.jsonl"
    lines.write_text(f'{{"x": {2**64 - 1}}}\n')
    cn.convert(lines, target, overwrite=True)
    assert cn.read(target).column("x").to_pylist() == [2**64 - 1]
    lines.write_text(f'{{"x": {2**64 + 1}}}\n')
    with refused("64 bits"):
        cn.convert(lines, target, overwrite=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"x": 1}\n[1]\n', "line 2 is not a JSON object"),
        ('{"x": 1}\n{"x": \n', "line 2 is not JSON"),
        ('{"x": 1}\n{"x": "a"}\n', "numbers and the string 'a'"),
        ('{"x": true}\n{"x": [1]}\n', "booleans and lists"),
        ("{}\n{}\n", "no columns"),
    ],
)
def test_json_lines_that_are_not_rows(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    with refused(said):
        cn.convert(tmp_path / "a.jsonl", tmp_path / "a.h5")
    assert not (tmp_path / "a.h5").exists()


def test_a_key_that_appears_late_is_refused(tmp_path: Path, set_limits: SetLimits) -> None:
    set_limits(json_batch_rows=2)
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n{"x": 2}\n{"x": 3, "y": 4}\n')
    with refused("'y' appears after line 3"):
        cn.convert(tmp_path / "a.jsonl", tmp_path / "a.h5")


def test_types_of_json_lines_are_those_of_the_values(tmp_path: Path) -> None:
    record = {"a": 2, "b": "z"}
    first = {"f": 1, "nan": "NaN", "day": "2026-01-31", "at": "2026-01-31T12:00:00.5Z", "s": "x", "l": [1], "r": record}
    second = {"f": 1.5, "nan": 2, "day": None, "at": None, "s": "2026-01-31", "l": None, "r": {"a": 1, "b": "y"}}
    rows = [first, second]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    cn.convert(tmp_path / "a.jsonl", tmp_path / "a.h5")
    schema = cn.read(tmp_path / "a.h5").schema
    records = pa.struct([("a", pa.int64()), ("b", pa.string())])
    zoned = pa.timestamp("us", "UTC")
    assert schema.types == [pa.float64(), pa.float64(), pa.date32(), zoned, pa.string(), pa.list_(pa.int64()), records]


def test_what_has_no_form_on_the_other_side_is_refused_or_noted(tmp_path: Path) -> None:
    columns = {
        "b": pa.array([b"\x00\xff"]), "d": pa.array([5], pa.duration("us")), "l": pa.array([[1]]),
        "z": pa.array([0], pa.timestamp("us", "Europe/Berlin")), "k": pa.array(["a"]).dictionary_encode(),
    }  # fmt: skip
    cn.write(tmp_path / "a.h5", columns, columns={"k": cn.column(categories=True)})
    notes = "\n".join(cn.convert(tmp_path / "a.h5", tmp_path / "a.csv").notes)
    for part in (
        "'b': bytes are written as hex",
        "numbers of microseconds",
        "as JSON",
        "Europe/Berlin",
        "plain values",
    ):
        assert part in notes
    cn.write(tmp_path / "b.h5", {"x": pa.array([None], pa.decimal128(12, -3))})
    with refused("'x': Parquet cannot store decimal"):
        cn.convert(tmp_path / "b.h5", tmp_path / "b.parquet")
    assert not (tmp_path / "b.parquet").exists()
    with pa.OSFile(str(tmp_path / "m.arrow"), "wb") as sink:
        table = pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    with refused("'m'"):
        cn.convert(tmp_path / "m.arrow", tmp_path / "m.h5")
    assert not (tmp_path / "m.h5").exists()


def test_a_file_of_another_format_than_its_name(run: Path, tmp_path: Path) -> None:
    cn.convert(run, tmp_path / "a.parquet")
    odd = (tmp_path / "a.parquet").rename(tmp_path / "odd.bin")
    cn.convert(odd, tmp_path / "b.h5")
    assert cn.read(tmp_path / "b.h5").equals(cn.read(run))
    (tmp_path / "bad.parquet").write_text("a,b\n1,2\n")
    assert call("convert", tmp_path / "bad.parquet", tmp_path / "c.h5").exit_code == 2
    assert call("convert", tmp_path / "none.csv", tmp_path / "c.h5").exit_code == 3
    (tmp_path / "one.feather").write_bytes(b"FEA1\0\0\0\0")
    with refused("version 1"):
        cn.convert(tmp_path / "one.feather", tmp_path / "c.h5")
    assert not (tmp_path / "c.h5").exists()
    assert format_of(Path("A.CSV.GZ")) is ROW_FORMATS["csv"] and format_of(Path("a.parquet.gz")) is None


def test_names_that_would_mislead_are_refused(run: Path, tmp_path: Path) -> None:
    with refused("suffix of a known format"):
        cn.convert(run, tmp_path / "a.xlsx")
    (tmp_path / "a.csv").write_text("x\n1\n")
    result = call("head", tmp_path / "a.csv")
    assert result.exit_code == 3 and "colonnade convert" in result.stderr
    assert "colonnade convert" not in call("head", tmp_path / "none.csv").stderr


def test_compressed_text_is_compressed(run: Path, tmp_path: Path) -> None:
    cn.convert(run, tmp_path / "a.csv.gz", table="a/events")
    with gzip.open(tmp_path / "a.csv.gz", "rt") as stream:
        assert len(stream.read().splitlines()) == 4


# -- memory --


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".arrow", ".parquet"])
def test_files_are_converted_batch_by_batch(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_limits: SetLimits
) -> None:
    """No batch is asked for before the one before it was written, and none is as large as the file."""
    set_limits(csv_block_bytes=1 << 16)
    n = 300_000
    cn.write(tmp_path / "a.h5", {"x": np.arange(n), "s": np.arange(n).astype(str)})
    out, known = tmp_path / f"a{suffix}", format_of(Path(f"a{suffix}"))
    cn.convert(tmp_path / "a.h5", out)
    assert known is not None
    sizes: list[int] = []
    opened = type(known).open

    @contextmanager
    def counted(self: Any, path: Path, options: TextOptions) -> Iterator[Any]:
        with opened(self, path, options) as stream:
            batches = stream.batches

            def each() -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    sizes.append(batch.num_rows)
                    yield batch

            stream.batches = each()
            yield stream

    monkeypatch.setattr(type(known), "open", counted)
    done: list[tuple[int, int]] = []
    cn.convert(out, tmp_path / "b.arrow.arrow", progress=lambda rows, total: done.append((rows, len(sizes))))
    assert sum(sizes) == n and len(sizes) >= 4 and max(sizes) <= 65_536 * 2
    assert [read for _, read in done] == list(range(1, len(sizes) + 1))
