"""`colonnade where`, `count`, `stats` and `index`: what they find, write, say, and with which exit code."""

from __future__ import annotations

import io
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest

import colonnade as cn
from colonnade import limits
from colonnade.cli import progress
from colonnade.columns.arrow_types import complex_array
from colonnade.row_files.plain import plain_values
from tests.conftest import SetLimits
from tests.rooms.test_cli import call, call_json

UNICODE_TABLE = "Messung/日本 é"
N = 1000


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receipts of one test only."""
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A thousand rows in chunks of a hundred."""
    path = tmp_path / "run.h5"
    row = np.arange(N)
    data = {
        "row_id": [f"r{i:04}" for i in row],
        "ts": pa.array(row * 1_000_000, pa.timestamp("us")),
        "energy": pa.array([None if i % 10 == 3 else math.nan if i % 10 == 4 else i / 4 for i in row.tolist()]),
        "kind": pa.array(["muon", "pion", None, "kaon"] * (N // 4)).dictionary_encode(),
        "hits": row * 7 % 1000,
    }
    columns = {name: cn.column(chunk_rows=100) for name in data}
    cn.write(path, data, "events", title="Run 42", columns=columns, labels=["row_id"])
    return path


EVERY_TYPE = pa.table(
    {
        "n": pa.array([1, 2, None, 4], pa.int64()),
        "u": pa.array([2**64 - 2, 0, None, 5], pa.uint64()),
        "small": pa.array([1.5, 0.25, None, -2.0], pa.float16()),
        "single": pa.array([0.1, math.inf, None, -0.0], pa.float32()),
        "x": pa.array([0.1, -math.inf, None, 1e300]),
        "text": pa.array(["a,b", 'q"uote\nline', None, "日本 é"]),
        "bytes": pa.array([b"\x00\xff", b"ab", None, b"z"]),
        "fixed": pa.array([b"ab", b"cd", None, b"\x01\x02"], pa.binary(2)),
        "when": pa.array([datetime(2026, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 1), None, datetime(9999, 1, 1)]),
        "zoned": pa.array([1, 2, None, 3], pa.timestamp("ns", "Europe/Berlin")),
        "far": pa.array([10**13, 0, None, -(10**13)], pa.timestamp("s")),
        "day": pa.array([date(2026, 1, 1), date(1900, 1, 1), None, date(1970, 1, 1)]),
        "clock": pa.array([time(1, 2, 3), time(0), None, time(23, 59, 59, 5)]),
        "span": pa.array([timedelta(seconds=1), timedelta(microseconds=-5), None, timedelta(0)]),
        "money": pa.array([Decimal("1.50"), Decimal("-0.01"), None, Decimal("99.99")]),
        "long_money": pa.array([Decimal("1.50"), Decimal(10) ** 35, None, Decimal(0)], pa.decimal128(38, 2)),
        "yes": pa.array([True, False, None, True]),
        "kind": pa.array(["muon", "pion", None, "muon"]).dictionary_encode(),
        "list": pa.array([[1, 2], [3], None, [4, 5, 6]]),
        "pair": pa.array([[1.0, 2.0], [3.0, 4.0], None, [5.0, 6.0]], pa.list_(pa.float64(), 2)),
        "struct": pa.array([{"a": 1, "b": 2.5}, {"a": 2, "b": 0.5}, None, {"a": 3, "b": 1.0}]),
        "date64": pa.array([0, 86_400_000, None, -86_400_000], pa.date64()),
        "seconds": pa.array([0, 1, None, 86_399], pa.time32("s")),
        "words": pa.array([["a", "b"], ["ü"], None, ["c", "d"]]),
        "nested": pa.array([[[1], [2, 3]], [[4]], None, [[5]]]),
        "complex": complex_array(np.array([1 + 2j, 3j, 0, -1]), np.array([False, False, True, False])),
        "nothing": pa.nulls(4),
    }
)
PLAIN = ["n", "u", "single", "x", "text", "when", "far", "day", "clock", "money", "long_money", "yes", "kind"]


@pytest.fixture
def every_type(tmp_path: Path) -> Path:
    path = tmp_path / "types.h5"
    cn.write(path, EVERY_TYPE, UNICODE_TABLE)
    return path


@pytest.fixture
def no_tables(tmp_path: Path) -> Path:
    path = tmp_path / "arrays.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
    return path


@pytest.fixture
def two_tables(run: Path) -> Path:
    cn.write(run, {"größe": [1, 2, 3], "a=b": [1, 1, 2], "valid": [True, False, True]}, UNICODE_TABLE)
    return run


# -- where: rows as text and JSON --


def test_where_shows_the_first_rows_and_how_many_match(run: Path) -> None:
    result = call("where", run, "energy >= 100 and kind == 'muon'", width=120)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].split() == ["row", "row_id", "ts", "energy", "kind", "hits"]
    assert lines[2].split() == ["400", "r0400", "1970-01-01T00:06:40.000000", "100", "muon", "800"]
    truth = cn.read(run, where="energy >= 100 and kind == 'muon'").num_rows
    assert len(lines) == 2 + 20 + 1
    assert lines[-1] == f"the first 20 of {truth} matching rows among 1,000 (-n shows more), 5 of 5 columns"


def test_where_of_few_rows(run: Path) -> None:
    output = call("where", run, "events", "hits < 3", width=120).output
    assert output.splitlines()[-1] == "3 matching rows among 1,000, 5 of 5 columns"
    output = call("where", run, "hits < 500", "-n", 2, "-c", "hits,ts").output
    assert output.splitlines()[0].split() == ["row", "hits", "ts"]
    assert "the first 2 matching rows among 1,000" in output


def test_where_json_has_all_rows(run: Path) -> None:
    facts = call_json("where", run, "energy is nan", "-c", "energy,kind")
    assert facts["row_numbers"] == list(range(4, N, 10))
    assert facts["rows"][:2] == [{"energy": "NaN", "kind": "muon"}, {"energy": "NaN", "kind": None}]
    assert len(facts["rows"]) == facts["found"] == 100 and facts["all_found"] is True
    assert facts["table"] == "/events" and facts["predicate"] == "energy is nan" and facts["n_rows"] == N
    assert [column["name"] for column in facts["columns"]] == ["energy", "kind"]
    limited = call_json("where", run, "energy is nan", "-n", 3)
    assert limited["row_numbers"] == [4, 14, 24] and limited["all_found"] is False
    assert list(limited["rows"][0]) == ["row_id", "ts", "energy", "kind", "hits"], "labels come first"


def test_where_row_numbers(run: Path) -> None:
    result = call("where", run, "hits < 5", "--row-numbers")
    truth = np.flatnonzero(np.arange(N) * 7 % 1000 < 5).tolist()
    assert [int(line) for line in result.output.splitlines()] == truth and result.exit_code == 0
    assert call_json("where", run, "hits < 5", "--row-numbers", "-n", 2)["row_numbers"] == truth[:2]


@pytest.mark.parametrize("more", [[], ["--json"], ["--row-numbers"], ["--format", "csv"], ["--row-numbers", "--json"]])
def test_where_no_row_matches(run: Path, more: list[str]) -> None:
    assert call("where", run, "hits < 0", *more).exit_code == 1


def test_where_no_row_matches_says_so(run: Path) -> None:
    assert call("where", run, "hits < 0").output == "no row of 1,000 rows matches\n"
    facts = call_json("where", run, "hits < 0")
    assert (facts["rows"], facts["row_numbers"], facts["found"]) == ([], [], 0)
    assert call_json("where", run, "hits < 0", "--row-numbers")["row_numbers"] == []


def test_where_explain(run: Path) -> None:
    assert call("index", "build", run, "ts=chunk_minmax").exit_code == 0
    predicate = "ts < '1970-01-01T00:01:00'"
    result = call("where", run, predicate, "--explain", "-c", "hits")
    assert result.exit_code == 0
    assert "chunk_minmax of ts" in result.output and "1 of 10 chunks, for the result" in result.output
    plan = call_json("where", run, predicate, "--explain", "-c", "hits")["plan"]
    assert (plan["rows_that_may_match"], plan["chunks_read"], plan["chunks_total"]) == (100, 2, 20)
    assert plan["indexes_used"][0]["kind"] == "chunk_minmax"
    plan = call_json("where", run, predicate, "--explain", "--trust", "never")["plan"]
    assert plan["indexes_used"] == [] and plan["indexes_skipped"][0]["why"] == 'trust="never"'


def test_where_believes_what_it_is_told_to(run: Path) -> None:
    """An index that lies: with --trust always the rows are lost, else they are found."""
    assert call("index", "build", run, "hits=chunk_minmax").exit_code == 0
    with h5py.File(run, "r+") as file:
        entries = file["events/_search_indexes/hits__chunk_minmax"]
        lies = entries[:]
        lies["max"] = lies["min"]
        entries[:] = lies
    assert call("count", run, "hits > 900", "--trust", "always").output == "0\n"
    for trust in ("verified", "never"):
        assert call("count", run, "hits > 900", "--trust", trust).output == "99\n"
        assert call_json("where", run, "hits > 900", "--trust", trust)["found"] == 99


def test_where_shows_unicode_and_nothing_raw(tmp_path: Path) -> None:
    path = tmp_path / "odd.h5"
    cn.write(path, {"größe\x1b[31m": [1, 2], "note": ["\x1b[2J", "ok"]}, UNICODE_TABLE)
    for more in ([], ["--explain"]):
        output = call("where", path, "`größe\x1b[31m` < 5", *more).output
        assert "\x1b" not in output and "größe\\x1b[31m" in output
    for command in (
        ["where", path, "`größe\x1b` < 5"],
        ["index", "build", path, "a\x1b=bitmap"],
        ["count", path, "\x1b"],
    ):
        result = call(*command)
        assert result.exit_code == 2 and "\x1b" not in result.output
    assert call("stats", path).exit_code == 0 and "\x1b" not in call("stats", path).output
    assert call("index", "build", path, "größe\x1b[31m=bitmap").exit_code == 0
    for command in ("ls", "verify"):  # type: ignore[assignment]
        result = call("index", command, path)
        assert result.exit_code == 0 and "\x1b" not in result.output and "größe" in result.output


def test_where_passes_over_a_column_that_cannot_be_read(run: Path) -> None:
    with h5py.File(run, "a") as file:
        del file["events/ts"]
        file["events/ts"] = np.arange(7)
    result = call("where", run, "hits < 3", width=160)
    assert result.exit_code == 1 and "ts cannot be read" in result.output and "muon" in result.output
    assert call("where", run, "hits < 3", "-c", "ts").exit_code == 3
    assert call("where", run, "ts < 3").exit_code == 3


def test_where_json_stays_whole_when_a_column_breaks_on_the_way(run: Path) -> None:
    """The error of a later batch is told inside the object that has begun."""
    with h5py.File(run, "r+") as file:
        del file["events/ts"]
        file["events/ts"] = np.arange(7)
    result = call("where", run, "hits < 3", "--json")
    assert result.exit_code == 3
    facts = json.loads(result.stdout)
    assert facts["rows"] == [] and facts["found"] == 3
    assert facts["error"]["exit_code"] == 3 and "'ts'" in facts["error"]["message"]
    assert result.stderr.startswith("colonnade: ")


# -- where: what is asked wrongly --


@pytest.mark.parametrize("command", ["where", "count"])
def test_a_wrong_predicate_is_marked(run: Path, command: str) -> None:
    result = call(command, run, "energy > 3 and and")
    assert result.exit_code == 2 and result.stdout == ""
    said, text, mark = result.stderr.splitlines()
    assert said.startswith("colonnade: found 'and', expected")
    assert text.strip() == "energy > 3 and and" and text.index("and and") + 4 == mark.index("^")
    error = call_json(command, run, "energy > 3 and and")["error"]
    assert (error["kind"], error["text"], error["position"]) == ("PredicateError", "energy > 3 and and", 15)
    assert "\n" not in error["message"] and "^" not in error["message"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "a predicate is needed"),
        (["enrgy > 3"], "'energy'"),
        (["events"], "'row_id'. It is a table: a predicate must follow it; true is for all rows.\n"),
        (["enrgy"], "There is no such table either"),
        (["kind > 3"], "'kind'"),
        (["event", "energy > 3"], "'events'"),
        (["events", "energy", ">", "3"], "in quotes"),
        ([""], "empty"),
        (["hits < 3", "-c", "enrgy"], "'energy'"),
        (["hits < 3", "-o", "rows.xls"], ".parquet"),
        (["hits < 3", "-o", "rows"], "--format"),
        (["hits < 3", "--format", "table", "-o", "rows.csv"], "table"),
        (["hits < 3", "--format", "csv", "--json"], "--json"),
        (["hits < 3", "--explain", "--row-numbers"], "--explain"),
        (["hits < 3", "--explain", "-o", "x.csv"], "--explain"),
    ],
)
def test_where_refuses(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    result = call("where", run, *given)
    assert result.exit_code == 2 and said in result.stderr, result.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_where_asks_which_table(two_tables: Path, no_tables: Path) -> None:
    result = call("where", two_tables, "hits < 3")
    assert result.exit_code == 2 and "/events" in result.stderr
    assert call("where", two_tables, UNICODE_TABLE, "größe < 3", "--row-numbers").output == "0\n1\n"
    assert call("where", two_tables, "/events", "hits < 3").exit_code == 0
    assert call("where", no_tables, "hits < 3").exit_code == 1
    assert call("where", two_tables, "-n", 0, "hits < 3").exit_code == 2


def test_a_predicate_that_begins_with_a_minus(run: Path) -> None:
    assert call("count", run, "--", "-1 < hits").output == "1000\n"
    assert call("count", run, "(-1 < hits)").output == "1000\n"


@pytest.mark.parametrize(
    "command", ["where", "count", "stats", "index ls", "index verify", "index build", "index drop"]
)
def test_bad_files(tmp_path: Path, command: str) -> None:
    text = tmp_path / "text.h5"
    text.write_text("not HDF5\nat all")
    more = {"where": ["x > 1"], "index build": ["x=bitmap"], "index drop": ["x"]}.get(command, [])
    for path in (tmp_path / "missing.h5", text, tmp_path):
        result = call(*command.split(), path, *more)
        assert result.exit_code == 3 and result.output.startswith("colonnade: ") and result.output.count("\n") == 1
        assert call_json(*command.split(), path, *more)["error"]["exit_code"] == 3


# -- where: other formats --


def read_arrow(path: Path) -> pa.Table:
    return pa.ipc.open_file(path).read_all()


def expected(path: Path, *names: str) -> pa.Table:
    """The rows that the tests below ask for."""
    return cn.read(path, columns=list(names) or None, where="n > 1 or n is missing")


ASK = ["n > 1 or n is missing"]


@pytest.mark.parametrize("ending", [".arrow", ".feather", ".ARROW"])
def test_arrow_reads_back_equal(every_type: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"rows{ending}"
    result = call("where", every_type, *ASK, "-o", out)
    assert result.exit_code == 0 and result.output.startswith("3 rows written to ")
    assert read_arrow(out).equals(expected(every_type))


def test_parquet_reads_back_equal(every_type: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    truth, asked = expected(every_type), ["where", every_type, *ASK, "-o", out]
    try:
        pa.parquet.write_table(truth.select(["pair"]), tmp_path / "pair.parquet")
    except pa.ArrowNotImplementedError:  # pyarrow 21: a fixed-size list with a missing row
        refused = call(*asked)
        assert refused.exit_code == 2 and "cannot be written as parquet" in refused.output
        truth = truth.drop_columns("pair")
        asked += ["-c", ",".join(truth.column_names)]
    facts = call_json(*asked)
    assert (facts["rows"], facts["format"], facts["bytes"]) == (3, "parquet", out.stat().st_size)
    names = [name for name in truth.column_names if name != "far"]  # Parquet keeps no seconds
    found = pa.parquet.read_table(out)
    assert found.select(names).equals(truth.select(names).cast(found.select(names).schema))
    assert found.column("far").cast(pa.timestamp("s")).equals(truth.column("far"))


@pytest.mark.parametrize(("ending", "delimiter"), [(".csv", ","), (".tsv", "\t")])
def test_csv_reads_back_equal(every_type: Path, tmp_path: Path, ending: str, delimiter: str) -> None:
    out = tmp_path / f"rows{ending}"
    names = [name for name in PLAIN if name != "far"]  # a year that Arrow's CSV reader does not read
    assert call("where", every_type, *ASK, "-o", out, "-c", ",".join(names)).exit_code == 0
    truth = expected(every_type, *names)
    truth = truth.set_column(names.index("kind"), "kind", truth.column("kind").cast(pa.string()))
    types = {field.name: field.type for field in truth.schema}
    found = pa.csv.read_csv(
        out,
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    assert found.equals(truth.replace_schema_metadata(None).cast(found.schema))


def test_csv_of_types_that_are_no_csv(every_type: Path, tmp_path: Path) -> None:
    """Times as ISO text of any year, bytes as hex, the rest as JSON: what --json shows."""
    out = tmp_path / "rows.csv"
    names = ["far", "zoned", "bytes", "fixed", "span", "list", "pair", "struct", "small", "complex", "words", "nested"]
    assert call("where", every_type, *ASK, "-o", out, "-c", ",".join(names)).exit_code == 0
    found = pa.csv.read_csv(out, convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())))
    for name in names:
        plain = plain_values(expected(every_type, name).column(0).combine_chunks())
        texts = [v if isinstance(v, str) else "" if v is None else json.dumps(v, ensure_ascii=False) for v in plain]
        assert [text.removesuffix(".0") for text in found.column(name).to_pylist()] == [
            text.removesuffix(".0") for text in texts
        ], name


def test_csv_of_one_column_keeps_missing_rows(every_type: Path) -> None:
    """A line with nothing on it would be passed over by readers."""
    assert call("where", every_type, *ASK, "-c", "x", "--format", "csv").output == '"x"\n"-Infinity"\n""\n"1e+300"\n'
    assert call("where", every_type, *ASK, "-c", "n", "--format", "csv").output == '"n"\n"2"\n""\n"4"\n'


@pytest.mark.parametrize("ending", [".jsonl", ".ndjson"])
def test_json_lines_read_back_equal(every_type: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"rows{ending}"
    assert call("where", every_type, *ASK, "-o", out).exit_code == 0
    found = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert found == call_json("where", every_type, *ASK)["rows"]
    assert found[0]["text"] == 'q"uote\nline' and found[2]["text"] == "日本 é" and found[1]["struct"] is None


def test_every_format_to_stdout(run: Path) -> None:
    truth = cn.read(run, columns=["ts", "hits"], where="hits < 300")
    for more in (["--format"], ["-o", "-", "--format"]):
        ask = ["where", run, "hits < 300", "-c", "ts,hits", *more]
        assert pa.ipc.open_stream(call(*ask, "arrow").stdout_bytes).read_all().equals(truth)
        assert pa.parquet.read_table(io.BytesIO(call(*ask, "parquet").stdout_bytes)).equals(truth)
        assert pa.csv.read_csv(io.BytesIO(call(*ask, "csv").stdout_bytes)).column("hits").equals(truth.column("hits"))
        assert call(*ask, "tsv").output.splitlines()[0] == '"ts"\t"hits"'
        lines = call(*ask, "jsonl").output.splitlines()
        assert [json.loads(line)["hits"] for line in lines] == truth.column("hits").to_pylist()


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".arrow", ".parquet"])
def test_no_rows_give_a_file_without_rows(run: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"rows{ending}"
    result = call("where", run, "hits < 0", "-o", out)
    assert result.exit_code == 1 and "0 rows written" in result.output
    if ending == ".arrow":
        assert read_arrow(out).num_rows == 0 and read_arrow(out).column_names[:2] == ["row_id", "ts"]
    elif ending == ".parquet":
        assert pa.parquet.read_table(out).num_rows == 0
    else:
        assert len(out.read_text().splitlines()) == (0 if ending == ".jsonl" else 1)


def test_a_file_that_is_there_is_replaced_whole_or_not_at_all(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    out.write_text("before")
    with h5py.File(run, "r+") as file:
        kind = file["events/kind"]
        kind[950] = 99  # a code of no category
    refused = call("where", run, "hits >= 0", "-c", "hits", "-o", out)
    assert refused.exit_code == 2 and "--force" in refused.stderr and out.read_text() == "before"
    result = call("where", run, "hits >= 0", "-o", out, "--force")
    assert result.exit_code == 3 and "950" in result.stderr
    assert out.read_text() == "before"
    assert call("where", run, "hits >= 0", "-c", "hits", "-o", out, "--force").exit_code == 0
    assert len(out.read_text().splitlines()) == N + 1
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_what_is_given_up_does_not_look_whole(run: Path, set_limits: SetLimits) -> None:
    """On stdout, where nothing can be taken back, Parquet and Arrow lack their end."""
    with h5py.File(run, "r+") as file:
        file["events/kind"][950] = 99
    set_limits(printed_rows=100)
    for form, read in (("parquet", pa.parquet.read_table), ("arrow", lambda b: pa.ipc.open_file(b).read_all())):
        result = call("where", run, "hits >= 0", "--format", form)
        assert result.exit_code == 3 and len(result.stdout_bytes) > 1000 and "950" in result.stderr
        with pytest.raises(pa.ArrowInvalid):
            read(io.BytesIO(result.stdout_bytes))


def test_where_writes_only_where_it_may(run: Path, tmp_path: Path) -> None:
    result = call("where", run, "hits < 3", "-o", tmp_path / "none" / "rows.csv")
    assert result.exit_code == 3 and "there is no folder" in result.stderr
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert call("where", run, "hits < 3", "-o", folder).exit_code == 3
    csv_by_name = tmp_path / "run.csv"
    run.rename(csv_by_name)
    before = csv_by_name.read_bytes()
    result = call("where", csv_by_name, "hits < 3", "-o", csv_by_name)
    assert result.exit_code == 2 and "is read" in result.stderr and csv_by_name.read_bytes() == before


def test_where_writes_through_links_and_to_devices(run: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("")
    link.symlink_to(target)
    assert call("where", run, "hits < 3", "-o", link, "--force").exit_code == 0
    assert link.is_symlink() and len(target.read_text().splitlines()) == 4
    assert call("where", run, "hits < 3", "--format", "parquet", "-o", "/dev/null").exit_code == 0
    assert Path("/dev/null").is_char_device()


def test_a_large_result_is_written_batch_by_batch(tmp_path: Path) -> None:
    """More rows than a batch has, with categories and an enum, which must stay the same from batch to batch."""
    path, n = tmp_path / "large.h5", 200_000
    kinds = pa.array([*["muon", "pion", "kaon", "muon"] * (n // 4 - 1), None, "pion", "pion", "pion"])
    data = {"x": np.arange(n), "kind": kinds.dictionary_encode(), "enum": kinds.dictionary_encode(), "name": kinds}
    cn.write(path, data, columns={"enum": cn.column(enum=True)})
    truth = cn.read(path, where="x >= 10")
    for ending in (".arrow", ".parquet", ".csv"):
        assert call("where", path, "x >= 10", "-o", tmp_path / f"rows{ending}").exit_code == 0
    batches = pa.ipc.open_file(tmp_path / "rows.arrow").num_record_batches
    assert batches == -(-(n - 10) // limits.now.printed_rows) and read_arrow(tmp_path / "rows.arrow").equals(truth)
    assert pa.parquet.read_table(tmp_path / "rows.parquet").equals(truth.cast(truth.schema))
    assert pa.csv.read_csv(tmp_path / "rows.csv").column("x").equals(truth.column("x"))
    assert call_json("where", path, "x >= 10", "-c", "x")["rows"][-1] == {"x": n - 1}


def test_batches_of_a_wide_table_have_fewer_rows(tmp_path: Path, set_limits: SetLimits) -> None:
    path = tmp_path / "wide.h5"
    cn.write(path, {f"c{i}": np.arange(1000.0) for i in range(100)})
    set_limits(printed_bytes=100 * 8 * 50)
    assert call("where", path, "c0 >= 0", "-o", tmp_path / "x.arrow").exit_code == 0
    assert pa.ipc.open_file(tmp_path / "x.arrow").num_record_batches == 20


def run_command(*arguments: object, before: str = "", **streams: Any) -> subprocess.Popen[bytes]:
    code = f"{before}\nfrom colonnade.cli import main\nmain()"
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], **streams)


@pytest.mark.parametrize(
    "more",
    [["--json"], ["--row-numbers"], *(["--format", form] for form in ("csv", "tsv", "jsonl", "arrow", "parquet"))],
)
def test_a_broken_pipe_is_quiet(tmp_path: Path, more: list[str]) -> None:
    path = tmp_path / "long.h5"
    cn.write(path, {"x": np.arange(400_000)})
    command = run_command("where", path, "x >= 0", *more, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert command.stdout is not None and command.stderr is not None
    command.stdout.read(1)
    command.stdout.close()
    errors = command.stderr.read()
    command.stderr.close()
    command.wait()
    assert errors == b""


def on_a_terminal(*arguments: object, stream: str = "stdout", before: str = "") -> tuple[int, bytes, bytes]:
    """The exit code, what a terminal shows, and what the other stream got."""
    ours, theirs = os.openpty()
    other = {"stdout": "stderr", "stderr": "stdout"}[stream]
    command = run_command(*arguments, before=before, **{stream: theirs, other: subprocess.PIPE})
    os.close(theirs)
    shown = b"".join(_until_closed(ours))
    os.close(ours)
    pipe = command.stderr if other == "stderr" else command.stdout
    assert pipe is not None
    rest = pipe.read()
    pipe.close()
    return command.wait(), shown, rest


def _until_closed(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(descriptor, 65_536)
        except OSError:  # Linux says so when the other end is closed
            return
        if not part:
            return
        yield part


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals to be had")
def test_formats_on_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "odd.h5"
    cn.write(path, {"note": ["\x1b[2J", "日本"], "x": [1, 2]})
    for form in ("csv", "jsonl"):
        code, shown, _ = on_a_terminal("where", path, "x > 0", "--format", form)
        assert code == 0 and b"\x1b" not in shown and "日本".encode() in shown and shown.count(b"\n") >= 2
    for form in ("arrow", "parquet"):
        code, shown, errors = on_a_terminal("where", path, "x > 0", "--format", form)
        assert code == 2 and shown == b"" and b"to a terminal" in errors


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals to be had")
def test_bars_are_shown_when_work_is_slow(run: Path, tmp_path: Path) -> None:
    """On stderr, only after a while; what goes to stdout stays as it is. Names are not taken for markup or formats."""
    odd = tmp_path / "a{0} [bold]{x}\x1b.csv"
    odd.write_text('"a"\n1\n')
    slow = (
        "import os, time\nos.environ['TERM'] = 'xterm'\nimport colonnade.cli.progress as p\np.SHOWN_AFTER = 0.0\n"
        "import colonnade.cli.choose as c, colonnade.table as t\nreal = t.Query.count\n"
        "t.Query.count = lambda q: (time.sleep(0.5), real(q))[1]\n"
    )
    code, shown, rest = on_a_terminal("count", run, "hits < 3", stream="stderr", before=slow)
    assert code == 0 and b"counting" in shown and rest == b"3\n"
    code, shown, rest = on_a_terminal("count", run, "hits < 3", stream="stderr")
    assert code == 0 and shown == b"" and rest == b"3\n"
    code, shown, rest = on_a_terminal("append", tmp_path / "new.h5", odd, "--create", stream="stderr", before=slow)
    assert code == 0 and b"IndexError" not in shown and b"Traceback" not in shown


@pytest.mark.parametrize("shown_first", [True, False])
def test_a_bar_stops_for_good_when_all_is_done(monkeypatch: pytest.MonkeyPatch, shown_first: bool) -> None:
    """The last row takes the bar away: a bar that is shown stops, and one that is not is never started."""
    calls: list[str] = []
    drawn = SimpleNamespace(
        task_ids=[0],
        add_task=lambda *_given, **_options: calls.append("add"),
        update=lambda *_given, **_options: calls.append("update"),
        start=lambda: calls.append("start"),
        stop=lambda: calls.append("stop"),
    )
    monkeypatch.setattr(progress, "_new_bar", lambda _counted: drawn)
    bar = progress._LateBar("doing", "rows", 3)
    if shown_first:
        bar.show()
    bar.advance(1, None)
    assert "stop" not in calls
    bar.advance(3, 3)
    if not shown_first:
        bar.show()
    assert calls == (["add", "start", "update", "update", "stop"] if shown_first else [])


# -- count --


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ([], N),
        (["events"], N),
        (["/events"], N),
        (["hits < 30"], 30),
        (["events", "hits < 30"], 30),
        (["energy is missing"], 100),
        (["not energy is missing and energy is nan"], 100),
        (["hits < 30 and kind == 'muon'", "--trust", "never"], None),
    ],
)
def test_count(run: Path, given: list[str], number: int | None) -> None:
    if number is None:
        number = cn.read(run, where=given[0]).num_rows
    result = call("count", run, *given)
    assert (result.exit_code, result.output) == (0, f"{number}\n")
    facts = call_json("count", run, *given)
    assert facts["count"] == number and facts["table"] == "/events" and facts["n_rows"] == N


def test_count_of_nothing(run: Path, no_tables: Path, tmp_path: Path) -> None:
    result = call("count", run, "hits < 0")
    assert (result.exit_code, result.output) == (1, "0\n")
    assert call_json("count", run, "hits < 0")["count"] == 0
    assert call("count", no_tables).exit_code == 1
    empty = tmp_path / "empty.h5"
    cn.write(empty, {"x": pa.array([], pa.int64())})
    assert call("count", empty).output == "0\n" and call("count", empty, "x > 1").exit_code == 1


def test_count_tells_tables_from_predicates(two_tables: Path) -> None:
    assert call("count", two_tables).exit_code == 2
    assert call("count", two_tables, UNICODE_TABLE).output == "3\n"
    assert call("count", two_tables, UNICODE_TABLE, "`größe` > 1").output == "2\n"
    assert call("count", two_tables, UNICODE_TABLE, "`a=b` == 1").output == "2\n"
    result = call("count", two_tables, "/event")
    assert result.exit_code == 2 and "'/events'" in result.stderr
    assert call("count", two_tables, "events", "hits < 3", "more").exit_code == 2


def test_count_takes_a_word_for_the_table_first(tmp_path: Path) -> None:
    path = tmp_path / "valid.h5"
    cn.write(path, {"valid": [True, False, True]}, "valid")
    assert call("count", path, "valid").output == "3\n"
    assert call("count", path, "valid == true").output == "2\n"
    assert call("count", path, "valid", "valid").output == "2\n"
    assert call("where", path, "valid", "--row-numbers").output == "0\n2\n", "where needs a predicate"


def test_count_explain(run: Path) -> None:
    assert call("index", "build", run, "kind=bitmap").exit_code == 0
    assert "bitmap of kind" in call("count", run, "kind == 'muon'", "--explain").output
    plan = call_json("count", run, "kind == 'muon'", "--explain")["plan"]
    assert plan["rows_sure_to_match"] == 250 and plan["chunks_read"] == 0
    assert "all rows" in call("count", run, "--explain").output


# -- stats --


def by_column(path: Path, *more: object) -> dict[str, Any]:
    return {column["name"]: column for column in call_json("stats", path, *more)["columns"]}


def test_stats(run: Path) -> None:
    result = call("stats", run, width=120)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "/events  Run 42" and lines[1] == "1,000 rows"
    (energy,) = [line.split() for line in lines if line.startswith("energy")]
    assert energy == ["energy", "double", "100", "100", "0", "801"]
    assert "1970-01-01T00:16:39" in result.output and "read" in result.output
    assert max(map(len, call("stats", run).output.splitlines())) <= 80


def test_stats_json(run: Path) -> None:
    found = by_column(run)
    assert list(found) == ["row_id", "ts", "energy", "kind", "hits"]
    energy = found["energy"]
    assert (energy["n_rows"], energy["n_missing"], energy["n_nan"]) == (N, 100, 100)
    assert (energy["min"], energy["max"], energy["distinct"], energy["distinct_is"]) == (0.0, 249.75, 801, "exactly")
    assert found["hits"]["n_nan"] is None and found["hits"]["from"] == "read"
    assert (found["ts"]["min"], found["ts"]["max"]) == ("1970-01-01T00:00:00.000000", "1970-01-01T00:16:39.000000")
    assert (found["row_id"]["min"], found["row_id"]["max"], found["row_id"]["label"]) == ("r0000", "r0999", True)
    kind = found["kind"]
    assert (kind["min"], kind["max"], kind["distinct"], kind["n_missing"]) == (None, None, 3, 250)
    assert list(by_column(run, "-c", "hits,ts")) == ["hits", "ts"]


KINDS_ASKED = ["bitmap", "chunk_minmax", "sorted_rows"]


@pytest.mark.parametrize("kind", KINDS_ASKED)
def test_stats_from_an_index_are_those_of_the_column(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "types.h5"
    data = {
        "n": pa.array([3, None, -7, 3, 2**62], pa.int64()),
        "u": pa.array([3, None, 2**64 - 2, 3, 0], pa.uint64()),
        "x": pa.array([1.5, math.nan, None, -math.inf, math.nan]),
        "nan_fill": pa.array([1.5, None, 0.5, 2.5, 1.5]),
        "half": pa.array([1.5, math.nan, None, -2.0, 1.5], pa.float16()),
        "text": pa.array(["b", None, "日本", "a", "b"]),
        "long": pa.array(["b" * 100, None, "日本", "a", "b"]),
        "opaque": pa.array([b"ab", None, b"\xff\x00", b"\x01\x00", b"ab"], pa.binary(2)),
        "when": pa.array([5, None, -1, 3, 10**15], pa.timestamp("us")),
        "span": pa.array([5, None, -1, 3, 10**15], pa.duration("ms")),
        "day": pa.array([5, None, -1, 3, 7], pa.date32()),
        "money": pa.array([Decimal("1.50"), None, Decimal("-0.01"), Decimal("99.99"), Decimal("1.50")]),
        "yes": pa.array([True, None, True, True, True]),
        "level": pa.DictionaryArray.from_arrays([2, None, 0, 2, 2], ["low", "mid", "high"], ordered=True),
        "kind": pa.DictionaryArray.from_arrays([2, None, 0, 2, 2], ["x", "y", "z"]),
        "enum": pa.DictionaryArray.from_arrays([2, None, 0, 2, 2], ["x", "y", "z"]),
        "none": pa.array([None] * 5, pa.int32()),
    }
    options = {
        "nan_fill": cn.column(fill=math.nan),
        "enum": cn.column(enum=True),
        **{name: cn.column(strings="variable") for name in ("text", "long")},
    }
    cn.write(path, data, columns=options, index=dict.fromkeys(data, kind))
    known, read = by_column(path), by_column(path, "--trust", "never")
    for name in data:
        assert (known[name]["from"], read[name]["from"]) == (kind, "read"), name
        for fact in ("n_missing", "n_nan", "min", "max", "n_rows", "type"):
            assert known[name][fact] == read[name][fact], (name, fact)
        assert read[name]["distinct_is"] == "exactly"
        if kind == "bitmap":
            assert (known[name]["distinct"], known[name]["distinct_is"]) == (read[name]["distinct"], "exactly"), name
        elif name in ("level", "kind"):
            assert (known[name]["distinct"], known[name]["distinct_is"]) == (3, "at most")
        else:
            assert known[name]["distinct"] is None
    assert (read["n"]["min"], read["n"]["max"], read["n"]["distinct"], read["n"]["n_missing"]) == (-7, 2**62, 3, 1)
    assert (read["x"]["min"], read["x"]["max"], read["x"]["n_nan"], read["x"]["distinct"]) == ("-Infinity", 1.5, 2, 3)
    assert (read["nan_fill"]["n_missing"], read["nan_fill"]["n_nan"]) == (1, 0)
    assert (read["text"]["min"], read["text"]["max"]) == ("a", "日本")
    assert (read["money"]["min"], read["money"]["max"]) == ("-0.01", "99.99")
    assert (read["span"]["min"], read["span"]["max"]) == (-1, 10**15)
    assert (read["yes"]["min"], read["yes"]["max"], read["yes"]["distinct"]) == (True, True, 1)
    assert (read["level"]["min"], read["level"]["max"], read["level"]["distinct"]) == ("low", "high", 2)
    assert (read["enum"]["min"], read["enum"]["distinct"]) == (None, 2)
    assert (read["none"]["min"], read["none"]["distinct"], read["none"]["n_missing"]) == (None, 0, 5)
    output = call("stats", path, width=160).output
    assert {"1,000,000,000,000,000 ms", "2001-09-09T01:46:40", "99.99"} <= set(re.split(r"  +|\n", output))


def test_stats_after_changes_of_a_bitmap(tmp_path: Path) -> None:
    """A value that no row holds any more has a bitmap without bits: it is not counted, nor the least."""
    path = tmp_path / "x.h5"
    cn.write(path, {"x": pa.array([0, 5, 6, None])}, index={"x": "bitmap"})
    with cn.open(path, "r+") as file:
        file["table"].update("x", [0], [5])
    found = by_column(path)["x"]
    assert (found["from"], found["min"], found["max"], found["distinct"], found["n_missing"]) == ("bitmap", 5, 6, 2, 1)


def test_stats_do_not_ask_a_bitmap_of_many_values(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, {"x": np.arange(1000, dtype="i4") % 200}, index={"x": ["bitmap"]})
    assert by_column(path)["x"]["from"] == "read"
    assert call("index", "build", path, "x=sorted_rows").exit_code == 0
    found = by_column(path)["x"]
    assert (found["from"], found["distinct"], found["distinct_is"]) == ("sorted_rows", 200, "at most")


def test_stats_count_distinct_values_up_to_a_bound(run: Path, set_limits: SetLimits) -> None:
    set_limits(distinct_values=500)
    found = by_column(run)
    assert (found["hits"]["distinct"], found["hits"]["distinct_is"]) == (500, "more than")
    assert (found["kind"]["distinct"], found["kind"]["distinct_is"]) == (3, "exactly")
    assert "> 500" in call("stats", run).output
    set_limits(distinct_bytes=10)
    assert by_column(run, "-c", "row_id")["row_id"]["distinct_is"] == "more than"


def test_stats_of_a_column_read_in_windows(tmp_path: Path, set_limits: SetLimits) -> None:
    path = tmp_path / "x.h5"
    values = np.random.default_rng(1).integers(-50, 50, 1000)
    names = [f"{v:03}" for v in values]
    columns = {name: cn.column(chunk_rows=64) for name in ("x", "name", "long", "list")}
    lists = pa.array([[1]] * 999 + [None])
    cn.write(path, {"x": values, "name": names, "long": [n * 30 for n in names], "list": lists}, columns=columns)
    set_limits(fewest_window_rows=64, most_window_rows=64)
    found = by_column(path)
    assert (found["x"]["min"], found["x"]["max"]) == (values.min(), values.max())
    assert found["x"]["distinct"] == found["name"]["distinct"] == found["long"]["distinct"] == len(set(names))
    assert (found["name"]["min"], found["name"]["max"]) == (min(names), max(names))
    assert (found["list"]["n_missing"], found["list"]["distinct"], found["list"]["min"]) == (1, None, None)


def test_stats_of_every_type(every_type: Path) -> None:
    found = by_column(every_type)
    for field in EVERY_TYPE.schema:
        assert found[field.name]["n_missing"] == (4 if field.name == "nothing" else 1), field.name
        no_order = ("kind", "list", "pair", "struct", "words", "nested", "complex", "nothing")
        assert (found[field.name]["min"] is None) == (field.name in no_order)
    assert found["clock"]["max"] == "23:59:59.000005" and found["day"]["min"] == "1900-01-01"
    assert found["far"]["max"] == "318857-05-20T17:46:40" and found["zoned"]["min"] == "1970-01-01T00:00:00.000000001Z"
    assert found["bytes"]["min"] == "00ff" and found["long_money"]["max"] == "1" + "0" * 35 + ".00"
    output = call("stats", every_type, UNICODE_TABLE, width=160).output
    assert "1,000,000 us" in output and "00:00:00\n" in output.replace(" ", "\n")


def test_stats_of_nothing(tmp_path: Path, no_tables: Path) -> None:
    path = tmp_path / "none.h5"
    cn.write(path, {"x": pa.array([], pa.int64())}, "no_rows", index={"x": ["chunk_minmax", "bitmap", "sorted_rows"]})
    cn.write(path, {}, "no_columns")
    for table in ("no_rows", "no_columns"):
        for trust in ("verified", "never"):
            assert call("stats", path, table, "--trust", trust).exit_code == 0
            assert call("stats", path, table, "--trust", trust, "--json").exit_code == 0
    assert by_column(path, "no_rows")["x"]["distinct"] == 0
    assert call("stats", no_tables).exit_code == 1
    assert call("stats", path).exit_code == 2 and call("stats", path, "no_row").exit_code == 2


def test_stats_pass_over_a_column_that_cannot_be_read(run: Path) -> None:
    with h5py.File(run, "a") as file:
        del file["events/ts"]
        file["events/ts"] = np.arange(7)
    result = call("stats", run, width=120)
    assert result.exit_code == 1 and "249.75" in result.output
    found = by_column(run)
    assert found["ts"]["problem"] and found["ts"]["min"] is None and set(found["ts"]) == set(found["hits"])
    assert call("stats", run, "-c", "ts").exit_code == 3


# -- index --


def test_index_build_and_ls(run: Path) -> None:
    result = call("index", "build", run, "ts=chunk_minmax", "hits=chunk_bloom,sorted_rows", "kind=bitmap")
    assert result.exit_code == 0 and result.output.startswith("4 search indexes of /events built: ")
    result = call("index", "ls", run)
    assert result.exit_code == 0 and "chunk_bloom" in result.output and "yes" in result.output
    (table,) = call_json("index", "ls", run, "events")["tables"]
    assert {(one["column"], one["kind"]) for one in table["indexes"]} == {
        ("ts", "chunk_minmax"), ("hits", "chunk_bloom"), ("hits", "sorted_rows"), ("kind", "bitmap"),
    }  # fmt: skip
    assert all(one["trusted"] and one["fresh"] and one["bytes"] > 0 for one in table["indexes"])
    facts = call_json("index", "build", run, "events", "hits=chunk_bloom", "--error-rate", "0.0001")
    (built,) = facts["built"]
    old = next(one for one in table["indexes"] if one["kind"] == "chunk_bloom")
    assert built["bytes"] > old["bytes"] and built["kind"] == "chunk_bloom"


def test_index_of_odd_names(two_tables: Path) -> None:
    assert call("index", "build", two_tables, UNICODE_TABLE, "a=b=bitmap", "größe=bitmap,chunk_minmax").exit_code == 0
    assert call_json("index", "drop", two_tables, UNICODE_TABLE, "a=b")["dropped"][0]["column"] == "a=b"
    facts = call_json("index", "drop", two_tables, "/" + UNICODE_TABLE, "größe=bitmap")
    assert [(one["column"], one["kind"]) for one in facts["dropped"]] == [("größe", "bitmap")]
    tables = {table["path"]: table["indexes"] for table in call_json("index", "ls", two_tables)["tables"]}
    assert [one["kind"] for one in tables["/" + UNICODE_TABLE]] == ["chunk_minmax"] and tables["/events"] == []
    assert "no search indexes" in call("index", "ls", two_tables).output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["hits"], "does not name a kind"),
        (["hits="], "does not name a kind"),
        (["hits=tree"], "chunk_minmax"),
        (["hist=bitmap"], "'hits'"),
        (["event", "hits=bitmap"], "'events'"),
        (["/event", "hits=bitmap"], "'/events'"),
        (["hits", "ts=bitmap"], "does not name a kind"),
        (["ts=chunk_minmax", "hits=bitmap", "--max-values", "10"], "more than 10"),
        (["hits=chunk_bloom", "--error-rate", "2"], "error-rate"),
        (["hits=bitmap", "--max-values", "0"], "max-values"),
        ([], "COLUMN"),
    ],
)
def test_index_build_refuses_all_or_nothing(run: Path, given: list[str], said: str) -> None:
    result = call("index", "build", run, *given)
    assert result.exit_code == 2 and said in result.stderr, result.stderr
    assert call_json("index", "ls", run)["tables"][0]["indexes"] == []


def test_index_drop(run: Path) -> None:
    assert call("index", "build", run, "ts=chunk_minmax", "hits=chunk_bloom,sorted_rows").exit_code == 0
    result = call("index", "drop", run, "hits=chunk_bloom")
    assert result.exit_code == 0 and result.output.startswith("1 search index of /events dropped: chunk_bloom of hits")
    result = call("index", "drop", run, "hits", "kind")
    assert result.exit_code == 2 and "kind" in result.stderr, "one of them has none: nothing is dropped"
    assert len(call_json("index", "ls", run)["tables"][0]["indexes"]) == 2
    assert len(call_json("index", "drop", run, "events", "hits", "ts")["dropped"]) == 2
    assert call("index", "drop", run, "ts").exit_code == 2
    assert call("index", "drop", run, "ts=tree").exit_code == 2
    assert call("index", "drop", run, "tz").exit_code == 2


def test_index_verify(run: Path) -> None:
    assert call("index", "build", run, "ts=chunk_minmax", "hits=chunk_minmax,sorted_rows").exit_code == 0
    with h5py.File(run, "r+") as file:
        entries = file["events/_search_indexes/hits__chunk_minmax"]
        lies = entries[:]
        lies["max"][3] += 1
        entries[:] = lies
    result = call("index", "ls", run)
    assert result.exit_code == 0 and "no: verify it first" in result.output
    result = call("index", "verify", run)
    assert result.exit_code == 1
    assert "OK     chunk_minmax of ts" in result.output and "OK     sorted_rows of hits" in result.output
    (wrong,) = [line for line in result.output.splitlines() if line.startswith("WRONG")]
    assert "'hits'" in wrong and "chunk 3, max" in wrong
    (table,) = call_json("index", "verify", run, "events")["tables"]
    found = {(one["column"], one["kind"]): one for one in table["indexes"]}
    assert len(found["hits", "chunk_minmax"]["wrong"]) == 1 and not found["hits", "chunk_minmax"]["trusted"]
    assert found["ts", "chunk_minmax"]["wrong"] == [] and found["ts", "chunk_minmax"]["trusted"]
    used = call_json("where", run, "hits < 3 and ts < '1970-01-01T00:01:00'", "--explain")["plan"]["indexes_used"]
    assert {(one["column"], one["kind"]) for one in used} <= {("ts", "chunk_minmax"), ("hits", "sorted_rows")} and used
    assert call("index", "build", run, "hits=chunk_minmax").exit_code == 0
    assert call("index", "verify", run).exit_code == 0


def test_index_of_no_use(run: Path) -> None:
    assert call("index", "build", run, "hits=chunk_minmax").exit_code == 0
    with h5py.File(run, "r+") as file:
        file["events/_search_indexes/hits__chunk_minmax"].attrs["chunk_shape"] = [7]
    result = call("index", "ls", run)
    assert result.exit_code == 1 and "unusable" in result.output
    result = call("index", "verify", run)
    assert result.exit_code == 1 and "WRONG" in result.output
    assert call_json("index", "verify", run)["tables"][0]["indexes"][0]["problem"]
    assert call("count", run, "hits < 3", "--trust", "always").output == "3\n"


def test_index_of_no_tables(no_tables: Path, run: Path) -> None:
    for command in ("ls", "verify"):
        assert call("index", command, no_tables).exit_code == 1
        assert call_json("index", command, no_tables)["tables"] == []
        result = call("index", command, run)
        assert result.exit_code == 0 and "no search indexes" in result.output
        assert call("index", command, run, "event").exit_code == 2
    assert call("index", "build", no_tables, "x=bitmap").exit_code == 1
    assert call("index", "drop", no_tables, "x").exit_code == 1


def test_index_goes_on_after_a_table_of_a_later_version(two_tables: Path) -> None:
    assert call("index", "build", two_tables, UNICODE_TABLE, "größe=bitmap").exit_code == 0
    with h5py.File(two_tables, "a") as file:
        file["events"].attrs["VERSION"] = np.bytes_("9.0")
    for command in ("ls", "verify"):
        result = call("index", command, two_tables, width=120)
        assert result.exit_code == 1 and "9.0" in result.output and "bitmap" in result.output
        assert call("index", command, two_tables, "--json").exit_code == 1


def test_help_of_the_index_commands() -> None:
    assert "Build, list, drop and verify" in call("index", "--help").output
    for command in ("build", "ls", "drop", "verify"):
        assert "--json" in call("index", command, "-h").output


def test_where_sorts_and_samples(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, {"a": [3, 1, 2, 1], "-b": [1.0, 2.0, None, 4.0]}, "t")
    assert call_json("where", path, "true", "--sort-by", "a,--b")["row_numbers"] == [3, 1, 2, 0]
    assert call_json("where", path, "true", "--sort-by", "-b")["row_numbers"] == [0, 1, 3, 2]
    assert call_json("where", path, "a < 3", "--sort-by", "-a", "-n", "2")["row_numbers"] == [2, 1]
    sampled = call_json("where", path, "true", "--sample", "2", "--seed", "1")["row_numbers"]
    assert (
        len(sampled) == 2 and sampled == call_json("where", path, "true", "--sample", "2", "--seed", "1")["row_numbers"]
    )
    assert "sorted" in call("where", path, "true", "--sort-by", "a", "--explain").output
    assert call("where", path, "true", "--sort-by", "a", "-o", str(tmp_path / "x.csv")).exit_code == 0
    assert (tmp_path / "x.csv").read_text().splitlines()[1].startswith("1,2")
    for wrong in (["--sort-by", "c"], ["--sort-by", ""], ["--seed", "1"], ["--sort-by", "a,a"]):
        assert call("where", path, "true", *wrong).exit_code == 2
