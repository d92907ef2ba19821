"""The command line: what each command says, as text and as JSON, and with which exit code."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import colonnade as cn
from colonnade.cli import demo, main
from colonnade.cli.answer import printable
from colonnade.row_files.plain import plain_value, plain_values

# click before 8.2 mixes stderr into stdout unless asked not to.
APART: Any = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}


class BothStreams(Result):
    """What click before 8.2 gives, with an `output` that has both streams, as since then."""

    output = property(lambda self: self.stdout + self.stderr)


UNICODE_TABLE = "Messung/日本 é"


def call(*arguments: object, width: int = 80) -> Result:
    result = CliRunner(**APART).invoke(main, [str(a) for a in arguments], env={"COLUMNS": str(width)})
    if APART:
        result.__class__ = BothStreams
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def call_json(*arguments: object) -> Any:
    result = call(*arguments, "--json")
    return json.loads(result.stdout, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> float:
    raise AssertionError(f"{name} is no JSON")


@pytest.fixture
def one_table(tmp_path: Path) -> Path:
    path = tmp_path / "run.h5"
    data = {
        "ts": pa.array([datetime(2026, 1, 1), None, datetime(2026, 1, 3)], pa.timestamp("us")),
        "energy": [1.5, None, float("nan")],
        "particle": pa.array(["muon", None, "electron"]).dictionary_encode(),
        "hits": pa.array([2**63 - 1, 0, -5]),
        "row_id": ["a", "b", "c"],
    }
    options = {"energy": cn.column(units="MeV", units_vocabulary="UDUNITS", description="Energy left")}
    cn.write(path, data, table="events", title="Run 42", columns=options, labels=["row_id"])
    return path


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Two tables, arrays, links of every kind, and an object that cannot be opened."""
    path = tmp_path / "several.h5"
    cn.write(path, {"größe": [1, 2], "b c.d": [0.5, 1.5]}, table=UNICODE_TABLE, title="Größen\x1b[31m [bold]x[/bold]")
    cn.write(path, {"a": [1]}, table="small")
    with h5py.File(path, "a") as file:
        file["cube"] = np.zeros((2, 3, 4), "f4")
        file["scalar"] = 1
        file["empty"] = h5py.Empty("f4")
        file["kind"] = np.dtype("f8")
        file["alias"] = h5py.SoftLink("/cube")
        file["away"] = h5py.ExternalLink("other.h5", "/x")
        file["small/image"] = np.zeros((2, 2))
        file["broken"] = np.arange(9)
        address = h5py.h5o.get_info(file["broken"].id).addr
    _spoil(path, address)
    return path


def _spoil(path: Path, address: int, count: int = 16) -> None:
    data = bytearray(path.read_bytes())
    data[address : address + count] = b"\xff" * count
    path.write_bytes(data)


@pytest.fixture
def no_tables(tmp_path: Path) -> Path:
    path = tmp_path / "arrays.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
    return path


# -- starting --


def test_starting_imports_little() -> None:
    code = (
        "import sys\nfrom colonnade.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print('LOADED', sorted({'h5py', 'pyarrow', 'rich', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "LOADED []" in run.stdout
    assert "demo" in run.stdout


NOT_FOR_READING = {
    "colonnade.edit.change", "colonnade.edit.repack", "colonnade.sparse", "colonnade.edit.create", "pandas", "polars",
    "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "rich", "_hashlib", "colonnade.layouts.anndata.describe",
    "colonnade.layouts.artifactdb.describe", "colonnade.layouts.artifactdb.metadata",
}  # fmt: skip


def loaded_by(code: str, *arguments: str) -> tuple[str, set[str]]:
    """What a child prints that runs the code, and the modules that are loaded in it at the end."""
    told = f"import sys\ntry:\n    {code}\nfinally:\n    print(*sys.modules, sep='\\n', file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", told, *arguments], capture_output=True, text=True, check=True)
    return run.stdout, set(run.stderr.split())


@pytest.mark.parametrize("arguments", [["where", "FILE", "ts between 100 and 200"], ["head", "FILE"]])
def test_reading_loads_only_what_it_needs(tmp_path: Path, arguments: list[str]) -> None:
    """What is loaded in vain costs more than a small question: it must not come back unseen."""
    path = tmp_path / "small.h5"
    rows = {
        "ts": np.arange(1000),
        "energy": np.linspace(0, 1, 1000),
        "label": ["muon", None] * 500,
        "kind": pa.array(["a", "b"] * 500).dictionary_encode(),
        "good": [True, None] * 500,
        "at": np.arange(1000).astype("M8[s]"),
    }
    cn.write(path, rows, index={"ts": "sorted_rows"})
    given = [str(path) if word == "FILE" else word for word in arguments]
    shown, loaded = loaded_by("from colonnade.cli.__main__ import start; start()", *given)
    assert "energy" in shown and "muon" in shown
    assert "colonnade.reader.nodes" in loaded  # it did look
    assert not loaded & {*NOT_FOR_READING, "h5py"}


def test_importing_colonnade_loads_no_pandas() -> None:
    _, loaded = loaded_by("import colonnade; colonnade.write, colonnade.open")
    assert "colonnade.table.file" in loaded
    assert not loaded & NOT_FOR_READING


def test_version_and_help() -> None:
    assert cn.__version__ in call("--version").output
    for flag in ("-h", "--help"):
        assert "schema" in call(flag).output
        assert "--json" in call("head", flag).output
    assert call().exit_code in (0, 2)  # click 8.1 and 8.2 differ


@pytest.mark.parametrize("arguments", [["head"], ["nothing"], ["head", "--frob", "x"], ["head", "x", "-n", "many"]])
def test_usage_of_click(arguments: list[str]) -> None:
    assert call(*arguments).exit_code == 2


# -- ls --


def test_ls_lists_tables_and_the_rest(several: Path) -> None:
    result = call("ls", several, width=120)
    assert result.exit_code == 0
    lines = {line.split("  ")[0]: line for line in result.output.splitlines()}
    assert "table" in lines["/" + UNICODE_TABLE] and "2 x 2" in lines["/" + UNICODE_TABLE]
    assert "array" in lines["/cube"] and "2 x 3 x 4" in lines["/cube"] and "float32" in lines["/cube"]
    assert "broken" in lines["/broken"]
    assert "scalar" in lines["/scalar"]
    assert "to other.h5:/x" in lines["/away"]
    assert "/small/a" not in lines


def test_ls_json(several: Path) -> None:
    facts = call_json("ls", several)
    assert facts["tables"] == ["/" + UNICODE_TABLE, "/small"]
    assert facts["file"]["bytes"] == several.stat().st_size
    found = {entry["path"]: entry for entry in facts["objects"]}
    assert {entry["kind"] for entry in facts["objects"]} == {
        "table", "array", "group", "datatype", "soft link", "external link", "broken",
    }  # fmt: skip
    assert found["/small"]["rows"] == 1 and found["/small"]["layout"] == "hep001"
    assert found["/cube"]["shape"] == [2, 3, 4]
    assert found["/scalar"]["shape"] == [] and found["/empty"]["shape"] is None
    assert found["/alias"]["target"] == "/cube"
    assert found["/small/image"]["kind"] == "array"
    assert len({tuple(entry) for entry in facts["objects"]}) == 1, "every entry has the same keys"


def test_ls_of_a_file_without_tables(no_tables: Path) -> None:
    assert call("ls", no_tables).exit_code == 0
    assert call_json("ls", no_tables)["tables"] == []


def test_ls_shows_a_table_of_a_later_version(tmp_path: Path) -> None:
    path = tmp_path / "later.h5"
    cn.write(path, {"a": [1]}, table="new")
    cn.write(path, {"a": [1]}, table="old")
    with h5py.File(path, "a") as file:
        file["new"].attrs["VERSION"] = np.bytes_("9.0")
    found = {entry["path"]: entry for entry in call_json("ls", path)["objects"]}
    assert "9.0" in found["/new"]["problem"] and found["/old"]["problem"] is None
    assert call("info", path).exit_code == 1
    assert call("info", path, "new").exit_code == 3
    assert call("schema", path, "old").exit_code == 0


# -- info and schema --


def test_info(one_table: Path) -> None:
    result = call("info", one_table, width=120)
    assert result.exit_code == 0
    for word in ("Run 42", "hep001", "row_id", "MeV", "9.96921e+36", "chunks of 64", "stored"):
        assert word in result.output


def test_info_json(one_table: Path) -> None:
    (table,) = call_json("info", one_table, "events")["tables"]
    assert (table["path"], table["rows"], table["labels"], table["version"]) == ("/events", 3, ["row_id"], "1.0")
    columns = {column["name"]: column for column in table["columns"]}
    assert columns["energy"]["fill"] == 9.969209968386869e36
    assert columns["hits"]["fill"] == -(2**63) + 1
    assert columns["row_id"]["label"] and not columns["hits"]["label"]
    assert columns["hits"]["chunk_rows"] == 64 and columns["hits"]["storage"] == "chunked"
    assert columns["hits"]["raw_bytes"] == 24 and table["problems"] == []


def test_info_of_all_tables(several: Path) -> None:
    facts = call_json("info", several)
    assert [table["path"] for table in facts["tables"]] == ["/" + UNICODE_TABLE, "/small"]
    assert call("info", several).exit_code == 0, "a note is no finding"


def test_info_tells_problems(one_table: Path) -> None:
    with h5py.File(one_table, "a") as file:
        del file["events"].attrs["VERSION"]
    result = call("info", one_table)
    assert result.exit_code == 1
    assert "T2" in result.output and "error" in result.output
    assert call_json("info", one_table)["tables"][0]["problems"][0]["rule"] == "T2"


def test_no_tables_to_show(no_tables: Path) -> None:
    assert call("info", no_tables).exit_code == 1
    assert call("schema", no_tables).exit_code == 1
    result = call("head", no_tables)
    assert result.exit_code == 1 and "holds no tables" in result.output


def test_schema(one_table: Path) -> None:
    result = call("schema", one_table, width=120)
    assert result.exit_code == 0
    for word in ("timestamp[us]", "as int64", "UDUNITS", "Energy left", "2 values: muon, electron", "label"):
        assert word in result.output


def test_schema_json(one_table: Path) -> None:
    (table,) = call_json("schema", one_table)["tables"]
    columns = {column["name"]: column for column in table["columns"]}
    assert columns["ts"]["arrow_type"] == "timestamp[us]" and columns["ts"]["hdf5_type"] == "int64"
    assert columns["energy"]["units_vocabulary"] == "UDUNITS"
    assert columns["particle"]["categories"] == ["muon", "electron"] and columns["particle"]["n_categories"] == 2
    assert columns["hits"]["categories"] is None


def test_names_do_not_reach_the_terminal_raw(several: Path) -> None:
    output = call("schema", several, width=120).output
    assert "\x1b[31m" not in output
    assert "größe" in output and "[bold]x[/bold]" in output


def test_schema_joins_categories_by_their_order(tmp_path: Path) -> None:
    path = tmp_path / "sizes.h5"
    codes, names = pa.array([0, 1]), pa.array(["up to 1, or so", "more"])
    cn.write(path, {"size": pa.DictionaryArray.from_arrays(codes, names, ordered=True)})
    assert "2 values: up to 1, or so < more" in call("schema", path, width=120).output


# -- head --


def test_head(one_table: Path) -> None:
    result = call("head", one_table, "events", width=120)
    assert result.exit_code == 0
    rows = [line.split() for line in result.output.splitlines()]
    assert rows[0] == ["row", "row_id", "ts", "energy", "particle", "hits"]
    assert rows[2] == ["0", "a", "2026-01-01T00:00:00.000000", "1.5", "muon", str(2**63 - 1)]
    assert rows[3] == ["1", "b", "-", "-", "-", "0"]
    assert "3 of 3 rows, 5 of 5 columns" in result.output


def test_head_json(one_table: Path) -> None:
    facts = call_json("head", one_table)
    assert facts["rows"][0]["hits"] == 2**63 - 1
    assert facts["rows"][0]["ts"] == "2026-01-01T00:00:00.000000"
    assert facts["rows"][1]["energy"] is None and facts["rows"][2]["energy"] == "NaN"
    assert facts["rows"][2]["particle"] == "electron"
    assert facts["row_numbers"] == [0, 1, 2] and facts["unreadable"] == []


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ([], [0, 1, 2, 3, 4]),
        (["-n", 2], [0, 1]),
        (["-n", 0], []),
        (["--rows", "3:5"], [3, 4]),
        (["--rows", "-2:"], [8, 9]),
        (["--rows", "::4"], [0, 4, 8]),
        (["--rows", "::-4"], [9, 5, 1]),
        (["--rows", "3::-1"], [3, 2, 1, 0]),
        (["--rows", "7"], [7]),
        (["--rows", "-1"], [9]),
        (["--rows", "2:", "-n", 3], [2, 3, 4]),
        (["--rows", "5:2"], []),
        (["--rows", "-20::-1"], []),
        (["--rows", ":100"], list(range(10))),
    ],
)
def test_head_rows(tmp_path: Path, arguments: list[object], numbers: list[int]) -> None:
    path = tmp_path / "ten.h5"
    cn.write(path, {"x": list(range(10))})
    facts = call_json("head", path, *arguments)
    assert facts["row_numbers"] == numbers
    assert [row["x"] for row in facts["rows"]] == numbers
    assert call("head", path, *arguments).exit_code == 0


@pytest.mark.parametrize("rows", ["a:b", "1:2:3:4", "", "1:2:0", "99"])
def test_head_refuses_rows(one_table: Path, rows: str) -> None:
    result = call("head", one_table, "--rows", rows)
    assert result.exit_code == 2 and result.output.startswith("colonnade: ")


def test_head_columns(several: Path) -> None:
    facts = call_json("head", several, UNICODE_TABLE, "-c", "b c.d,größe")
    assert [column["name"] for column in facts["columns"]] == ["b c.d", "größe"]


def test_head_column_with_a_comma_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "comma.h5"
    cn.write(path, {"a,b": [1], "c": [2]})
    assert call_json("head", path, "--columns", "a,b", "--columns", "c")["rows"] == [{"a,b": 1, "c": 2}]


def test_head_asks_which_table(several: Path) -> None:
    result = call("head", several)
    assert result.exit_code == 2 and "/small" in result.output
    assert call_json("head", several)["error"]["exit_code"] == 2


def test_head_of_a_wide_table_says_what_it_left_out(tmp_path: Path) -> None:
    path = tmp_path / "wide.h5"
    cn.write(path, {f"column_{i}": [i] for i in range(300)})
    result = call("head", path)
    assert "293 left out" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert len(call_json("head", path)["rows"][0]) == 300


def test_head_passes_over_a_column_that_cannot_be_read(one_table: Path) -> None:
    with h5py.File(one_table, "a") as file:
        del file["events/hits"]
        file["events/hits"] = np.arange(7)
    result = call("head", one_table, width=160)
    assert result.exit_code == 1 and "hits cannot be read" in result.output and "muon" in result.output
    assert call_json("head", one_table)["unreadable"][0]["column"] == "hits"
    assert call("head", one_table, "--columns", "hits").exit_code == 3


def test_head_of_no_rows_and_no_columns(tmp_path: Path) -> None:
    path = tmp_path / "none.h5"
    cn.write(path, {"x": pa.array([], pa.int64())}, table="no_rows")
    cn.write(path, {}, table="no_columns")
    for table in ("no_rows", "no_columns"):
        for command in ("head", "info", "schema"):
            assert call(command, path, table).exit_code == 0
            assert call(command, path, table, "--json").exit_code == 0


# -- values --


@pytest.mark.parametrize(
    ("array", "plain"),
    [
        (pa.array([0.1, None], pa.float32()), [0.1, None]),
        (pa.array([float("inf"), -float("inf"), float("nan")]), ["Infinity", "-Infinity", "NaN"]),
        (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
        (pa.array([b"\x00\xff", None]), ["00ff", None]),
        (pa.array([1, None], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001", None]),
        (pa.array([0], pa.timestamp("s", "Europe/Paris")), ["1970-01-01T00:00:00Z"]),
        (pa.array([10**13], pa.timestamp("s")), ["318857-05-20T17:46:40"]),
        (pa.array([date(2020, 2, 29)]), ["2020-02-29"]),
        (pa.array([86_400_000], pa.date64()), ["1970-01-02"]),
        (pa.array([3_600_000_000_001], pa.time64("ns")), ["01:00:00.000000001"]),
        (pa.array([7, None], pa.duration("us")), [7, None]),
        (pa.array([Decimal("1.50"), None]), ["1.50", None]),
        (pa.array([True, None]), [True, None]),
        (pa.array(["b", "a", None]).dictionary_encode(), ["b", "a", None]),
        (pa.array([[1, 2], None, []]), [[1, 2], None, []]),
        (pa.array([[b"x"], None], pa.list_(pa.binary(), 1)), [["78"], None]),
        (pa.array([{"x": 1, "y": b"a"}, None]), [{"x": 1, "y": "61"}, None]),
        (pa.nulls(2), [None, None]),
    ],
)
def test_plain_values(array: pa.Array, plain: list[Any]) -> None:
    assert plain_values(array) == plain
    padded = pa.concat_arrays([array, array]).slice(len(array))
    assert plain_values(padded) == plain, "a slice gives its own rows"
    json.dumps(plain, allow_nan=False)


def test_plain_value() -> None:
    assert plain_value((1, b"\x01", complex(1, float("nan")))) == [1, "01", {"r": 1.0, "i": "NaN"}]
    assert plain_value({"t": date(2020, 1, 1)}) == {"t": "2020-01-01"}


def test_printable() -> None:
    assert printable("a\n\x1b\udc80é日") == "a\\n\\x1b\\udc80é日"


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.h5"
    cn.write(path, {"a": [1]}, table="t")
    with h5py.File(path, "a") as file:
        file["t"].move("a", b"\xe9")
    for command in ("ls", "info", "schema", "head"):
        assert call(command, path).exit_code in (0, 1)
        call_json(command, path)


# -- files that are not there, not HDF5, or broken --


@pytest.mark.parametrize("command", ["ls", "info", "schema", "head"])
def test_bad_files(tmp_path: Path, command: str, one_table: Path) -> None:
    text = tmp_path / "text.h5"
    text.write_text("not HDF5\nat all")
    short = tmp_path / "short.h5"
    short.write_bytes(one_table.read_bytes()[:3000])
    for path in (tmp_path / "missing.h5", text, short, tmp_path):
        result = call(command, path)
        assert result.exit_code == 3
        assert result.output.startswith("colonnade: ") and result.output.count("\n") == 1
        error = call_json(command, path)["error"]
        assert error["exit_code"] == 3 and error["message"]


@pytest.mark.parametrize("command", ["ls", "info", "schema", "head"])
def test_a_root_that_cannot_be_read(one_table: Path, command: str) -> None:
    with h5py.File(one_table) as file:
        address = h5py.h5o.get_info(file["/"].id).addr
    _spoil(one_table, address)
    result = call(command, one_table)
    assert result.exit_code == 3 and result.output.startswith("colonnade: ")
    assert call_json(command, one_table)["error"]["kind"] == "CorruptError"


@pytest.mark.parametrize("command", ["ls", "info", "schema", "head"])
def test_a_root_whose_links_cannot_be_listed(one_table: Path, command: str) -> None:
    _spoil(one_table, one_table.read_bytes().index(b"TREE"), 4)
    result = call(command, one_table)
    assert result.exit_code == 3 and "cannot be listed" in result.output
    assert call_json(command, one_table)["error"]["kind"] == "CorruptError"


@pytest.mark.parametrize("kind", ["group", "table"])
def test_ls_goes_on_after_a_group_whose_links_cannot_be_listed(no_tables: Path, kind: str) -> None:
    if kind == "table":
        cn.write(no_tables, {"x": [1]}, table="bad")
    else:
        with h5py.File(no_tables, "a") as file:
            file["bad/x"] = 1
    _spoil(no_tables, no_tables.read_bytes().rindex(b"SNOD"), 4)
    cn.write(no_tables, {"x": [1]}, table="good")
    found = {entry["path"]: entry for entry in call_json("ls", no_tables)["objects"]}
    assert found["/bad"]["kind"] == ("broken" if kind == "group" else "table")
    assert "cannot be listed" in found["/bad"]["problem"]
    assert found["/good"]["rows"] == 1 and found["/x"]["kind"] == "array"


@pytest.mark.parametrize("command", ["info", "schema", "head"])
def test_a_table_that_is_not_there(one_table: Path, command: str) -> None:
    result = call(command, one_table, "event")
    assert result.exit_code == 2 and "'events'" in result.output
    assert call_json(command, one_table, "event")["error"]["kind"] == "TableNotFound"


def test_a_column_that_is_not_there(one_table: Path) -> None:
    result = call("head", one_table, "-c", "enrgy")
    assert result.exit_code == 2 and "'energy'" in result.output


def test_an_array_is_no_table(several: Path) -> None:
    assert call("info", several, "cube").exit_code == 2


@pytest.mark.parametrize("arguments", [["head", "--rows", ":50000"], ["head", "--rows", ":50000", "--json"], ["ls"]])
def test_a_broken_pipe_is_quiet(tmp_path: Path, arguments: list[str]) -> None:
    path = tmp_path / "long.h5"
    cn.write(path, {"x": np.arange(50_000)})
    code = "from colonnade.cli import main; main()"
    run = subprocess.Popen(
        [sys.executable, "-c", code, arguments[0], str(path), *arguments[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert run.stdout is not None and run.stderr is not None
    run.stdout.read(1)
    run.stdout.close()
    errors = run.stderr.read()
    run.stderr.close()
    run.wait()
    assert errors == b""


# -- the demo --


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = call("demo", "--rows", 20_000)
    assert result.exit_code == 0, result.output
    assert "Everything that was read equals what was written" in result.output
    assert "140,000 values" in " ".join(result.output.split())
    assert [path.name for path in tmp_path.iterdir()] == [demo.FILE_NAME]
    with cn.open(demo.FILE_NAME) as file:
        table = file["events"]
        assert table.n_rows == 20_000 and table.labels == ["event"]
        assert table["time"].dtype == pa.timestamp("us") and table["energy"].units == "MeV"
        assert table["energy"].to_arrow().null_count > 100
        assert file.h5["images/cube"].shape == demo.CUBE_SHAPE
    assert call("info", demo.FILE_NAME).exit_code == 0
    assert call("demo", "--rows", 100).exit_code == 0, "its own file is replaced"
    with cn.open(demo.FILE_NAME) as file:
        assert file["events"].n_rows == 100
        assert call("demo", "--rows", 200).exit_code == 0, "also while someone reads it"
    assert [path.name for path in tmp_path.iterdir()] == [demo.FILE_NAME]


def test_demo_json(tmp_path: Path) -> None:
    facts = call_json("demo", "--rows", 70_000, "--keep", tmp_path / "kept.h5")
    assert facts["equal"] is True and facts["rows"] == 70_000
    assert facts["file"]["bytes"] == (tmp_path / "kept.h5").stat().st_size
    names = [step["name"] for step in facts["steps"]]
    assert names[:2] == ["write events", "write cube"] and "check events" in names
    assert all(step["seconds"] >= 0 for step in facts["steps"])


@pytest.mark.parametrize("there", ["text", "table"])
def test_demo_replaces_no_other_file(tmp_path: Path, there: str) -> None:
    path = tmp_path / "mine.h5"
    if there == "text":
        path.write_text("mine")
    else:
        cn.write(path, {"a": [1]}, table="events", title="Mine")
    before = path.read_bytes()
    result = call("demo", "--rows", 100, "--keep", path)
    assert result.exit_code == 2 and "not created by this demo" in result.output
    assert path.read_bytes() == before


def _one_line(result: Result) -> str:
    assert result.output.startswith("colonnade: ") and result.output.count("\n") == 1
    return result.output


def test_demo_says_where_it_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("demo", "--rows", 100, "--keep", tmp_path).exit_code == 2
    assert "is a folder" in _one_line(call("demo", "--keep", tmp_path))
    for path in (tmp_path / "not there" / "x.h5", Path("/proc/x.h5")):
        result = call("demo", "--keep", path)
        assert result.exit_code == 3 and f"cannot create a file in {path.parent}" in _one_line(result)
        assert call_json("demo", "--keep", path)["error"]["kind"] == "ConflictError"


def test_demo_in_a_folder_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one who is not root sees it: no file can be made."""

    def refuse(**_given: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo.tempfile, "TemporaryFile", refuse)  # type: ignore[attr-defined]
    result = call("demo")
    assert result.exit_code == 3
    assert f"cannot create a file in {tmp_path} (Permission denied): choose another file with --keep" in _one_line(
        result
    )


def test_demo_does_not_replace_a_file_in_use(tmp_path: Path) -> None:
    """A demo file that another process writes to is no stranger's file: the line says that it is in use."""
    path = tmp_path / "x.h5"
    assert call("demo", "--rows", 100, "--keep", path).exit_code == 0
    code = "import h5py, sys; f = h5py.File(sys.argv[1], 'r+'); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdin is not None
        other.stdout.readline()
        result = call("demo", "--rows", 100, "--keep", path)
        other.stdin.close()
    assert result.exit_code == 3 and "another" in _one_line(result)


def test_demo_finds_what_is_not_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo really compares: one value changed after the writing is found."""
    real = demo._read_column

    def spoil(table: cn.Table) -> tuple[str, str]:
        made = demo.make_events

        def other(start: int, count: int) -> pa.RecordBatch:
            batch = made(start, count)
            charge = batch.column("charge").to_numpy(zero_copy_only=False).copy()
            charge[7] += 1
            return batch.set_column(batch.schema.get_field_index("charge"), "charge", pa.array(charge))

        monkeypatch.setattr(demo, "make_events", other)
        return real(table)

    monkeypatch.setattr(demo, "_read_column", spoil)
    result = call("demo", "--rows", 1000, "--keep", tmp_path / "x.h5")
    assert result.exit_code == 1
    assert "NOT equal in charge" in " ".join(result.output.split())


def test_demo_data_are_the_same_each_time() -> None:
    first, again = demo.make_events(65_536, 1000), demo.make_events(65_536, 1000)
    assert first.equals(again)
    assert not first.column("energy").equals(demo.make_events(0, 1000).column("energy"))
    assert first.column("event")[3].as_py() == "R042-000000065539"
