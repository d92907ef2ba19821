"""DynamicTables of NWB files: read as pynwb reads them, searched, checked, converted, and still read by pynwb."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import colonnade as cn
from colonnade.cli import main
from colonnade.errors import (
    ColonnadeError,
    CorruptError,
    FormatError,
    PredicateError,
    UnsupportedError,
    UsageError,
)
from tests.conftest import SetLimits
from tests.rooms.nwb_files import (
    ELECTRODES,
    HAS_PYNWB,
    MANIFEST,
    MINE,
    SESSION,
    TRIALS,
    UNITS,
    UNITS_ROWS,
    add_data,
    add_index,
    make_table,
    make_units,
    plain,
    quiet,
    rows_by_pynwb,
    write_session,
)

EXPECTED = json.loads(MANIFEST.read_text())["tables"]
TABLES = [TRIALS, UNITS, ELECTRODES, MINE]
with_pynwb = pytest.mark.skipif(not HAS_PYNWB, reason="pynwb is not installed")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "session.nwb"
    shutil.copy(SESSION, path)
    return path


@pytest.fixture
def units(tmp_path: Path) -> Path:
    path = tmp_path / "units.h5"
    make_units(path)
    return path


def rows_of(table: cn.Table) -> list[Any]:
    return [plain(row, {}) for row in table]


# -- read --


@pytest.mark.parametrize("library", ["auto", "never"])
@pytest.mark.parametrize("name", TABLES)
def test_rows_are_those_that_pynwb_reads(name: str, library: Any) -> None:
    with cn.open(SESSION, library=library) as file:
        table = file[name]
        assert (table.layout, table.labels, table.problems) == ("hdmf", ["id"], ())
        assert rows_of(table) == EXPECTED[name]


@with_pynwb
@pytest.mark.parametrize("name", TABLES)
def test_files_that_pynwb_writes_now_are_read(tmp_path: Path, name: str) -> None:
    write_session(tmp_path / "now.nwb")
    assert rows_by_pynwb(tmp_path / "now.nwb", name) == EXPECTED[name]
    with cn.open(tmp_path / "now.nwb") as file:
        assert rows_of(file[name]) == EXPECTED[name]


def test_all_tables_are_found() -> None:
    with cn.open(SESSION) as file:
        assert file.tables() == [ELECTRODES, TRIALS, "/scratch/aligned", "/scratch/aligned/below", MINE, UNITS]
        assert file[TRIALS].info.version == "TimeIntervals of core"
        assert file[TRIALS].description == "experimental trials"
        assert file[UNITS]["waveform_mean"].units == "volts"
        assert file[TRIALS]["correct"].description == "whether the choice was right"
        assert file["/scratch/aligned"].columns == ["m"] and "below" not in file["/scratch/aligned"]


def test_types_are_lists_and_categories() -> None:
    with cn.open(SESSION) as file:
        kinds = {name: str(file[UNITS][name].dtype) for name in file[UNITS].columns}
        assert kinds["spike_times"] == "list<item: double>"
        assert kinds["obs_intervals"] == "list<item: fixed_size_list<item: double>[2]>"
        assert kinds["waveforms"] == "list<item: list<item: fixed_size_list<item: double>[3]>>"
        assert file[MINE]["state"].categories.to_pylist() == ["wake", "sleep"]
        assert str(file[MINE]["cube"].dtype) == "fixed_size_list<item: fixed_size_list<item: int32>[2]>[2]"


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_lists_are_read_in_every_way(units: Path, mode: Any) -> None:
    with cn.open(units, mode) as file:
        table = file["units"]
        assert table.to_arrow().to_pylist() == UNITS_ROWS
        assert list(table) == UNITS_ROWS and table[1] == UNITS_ROWS[1] and table[-1] == UNITS_ROWS[2]
        assert table[::-2].to_arrow().to_pylist() == UNITS_ROWS[::-2]
        assert table.take([2, 0, 0]).to_arrow().to_pylist() == [UNITS_ROWS[row] for row in (2, 0, 0)]
        assert table.head(1).to_arrow().to_pylist() == UNITS_ROWS[:1]
        assert [batch.num_rows for batch in table.batches(rows=2)] == [2, 1]
        found = table.where("id > 10 and state == 'wake'")
        assert found.row_numbers().tolist() == [2] and found.to_arrow().to_pylist() == UNITS_ROWS[2:]
        assert (
            table["spikes"][2].tolist() if hasattr(table["spikes"][2], "tolist") else table["spikes"][2] == [2, 3, 4, 5]
        )
        frame = table.to_pandas()
        assert frame.index.tolist() == [10, 11, 12] and frame["spikes"].iloc[2].tolist() == [2, 3, 4, 5]
        assert table.to_polars()["words"].to_list() == [row["words"] for row in UNITS_ROWS]
        arrays = table.to_numpy()
        assert [list(row) for row in arrays["spikes"]] == [row["spikes"] for row in UNITS_ROWS]
        assert arrays["pairs"].tolist() == [[0, 1], [2, 3], [4, 5]]
        assert table["spikes"].raw[:].tolist() == [2, 2, 6]


def test_what_lists_cannot_do_is_refused_by_name(units: Path) -> None:
    table = cn.open_table(units, "units")
    for refused, error in [
        (lambda: table.where("spikes > 3"), PredicateError),
        (lambda: table.sort_by("spikes").to_arrow(), UsageError),
        (lambda: table.distinct("words"), UsageError),
        (lambda: table.aggregate(n="count", by="words"), UsageError),
        (lambda: table.aggregate(top=("spikes", "max")), UsageError),
    ]:
        with pytest.raises(error, match=r"spikes|words"):
            refused()


def test_lists_are_counted_and_described(units: Path) -> None:
    table = cn.open_table(units, "units")
    assert table.aggregate(n=("words", "count"), top=("id", "max")) == {"n": 3, "top": 12}
    counted = table.aggregate(n=("spikes", "count"), by="state").to_pylist()
    assert counted == [{"state": "sleep", "n": 1}, {"state": "wake", "n": 2}]
    assert table.describe().columns["spikes"]["count"] == 3
    stats = table.stats()
    assert {name: column.n_missing for name, column in stats.items()} == dict.fromkeys(table.info.by_name, 0)


def test_a_region_leads_to_its_table(units: Path) -> None:
    with cn.open(units) as file:
        column = file["units"]["electrodes"]
        target = column.target
        assert target is not None and target.path == "/electrodes"
        assert target.take(np.asarray(column[2])).to_arrow()["x"].to_pylist() == [3.0, 3.0]
        assert file["units"]["spikes"].target is None and file["electrodes"]["x"].target is None


def test_members_that_are_not_listed_are_not_columns(units: Path) -> None:
    with h5py.File(units, "r+") as file:
        add_data(file["units"], "other", np.arange(3))
        file["units"].attrs["colnames"] = np.array(["spikes"], dtype=h5py.string_dtype())
    assert cn.open_table(units, "units").columns == ["spikes"]


def test_other_attributes_are_the_users(units: Path) -> None:
    with h5py.File(units, "r+") as file:
        file["units"].attrs["comments"], file["units/spikes"].attrs["resolution"] = "mine", 0.5
    table = cn.open_table(units, "units")
    assert dict(table.attrs) == {"comments": "mine"} and dict(table["spikes"].attrs) == {"resolution": 0.5}
    assert table["spikes"].units == "s" and table["spikes"].description == "the column spikes"


def test_types_of_hdmf_alone_are_known_too(tmp_path: Path) -> None:
    """hdmf itself, without pynwb, calls the attribute data_type."""
    make_units(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        for node in [file["units"], *file["units"].values()]:
            node.attrs["data_type"] = node.attrs.pop("neurodata_type")
    assert cn.open_table(tmp_path / "a.h5", "units").to_arrow().to_pylist() == UNITS_ROWS


@pytest.mark.parametrize("data", [np.zeros((0, 2)), np.zeros(0)])
def test_tables_without_rows(tmp_path: Path, data: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = make_table(file, "t", [], ["x", "lists"])
        add_data(group, "x", data)
        add_data(group, "lists", np.zeros(0))
        add_index(group, "lists", [])
    table = cn.open_table(tmp_path / "a.h5", "t")
    assert table.to_arrow().num_rows == 0 and list(table) == [] and table.problems == ()
    assert list(cn.check(tmp_path / "a.h5", deep=True)) == []


def test_tables_without_columns(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        make_table(file, "t", [3, 4], [])
    table = cn.open_table(tmp_path / "a.h5", "t")
    assert table.columns == [] and table.to_arrow().to_pydict() == {"id": [3, 4]}
    assert list(cn.check(tmp_path / "a.h5", deep=True)) == []


def test_columns_that_are_soft_links_are_read(units: Path) -> None:
    """hdmf links to data that is already in the file."""
    with h5py.File(units, "r+") as file:
        file.move("units/pairs", "elsewhere")
        file["units/pairs"] = h5py.SoftLink("/elsewhere")
    assert cn.open_table(units, "units").to_arrow().to_pylist() == UNITS_ROWS


def test_wide_tables_are_described_lazily(tmp_path: Path, set_limits: SetLimits) -> None:
    set_limits(wide_columns=10)
    names = [f"c{number}" for number in range(40)]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = make_table(file, "t", [1, 2], names)
        for number, name in enumerate(names):
            add_data(group, name, np.array([number, number + 1]))
            add_index(group, name, [1, 2])
    table = cn.open_table(tmp_path / "a.h5", "t")
    assert type(table.info.columns).__name__ == "LazyColumns"
    assert table.select("c7").to_arrow().to_pydict() == {"c7": [[7], [8]]}
    assert table.problems == () and len(table.to_arrow().column_names) == 41


def test_reading_loads_no_h5py(units: Path) -> None:
    code = (
        "import sys, colonnade as cn; f = cn.open(sys.argv[1], library='never'); t = f['units']; t.to_arrow(); list(t);"
        "t.where('id > 10').to_arrow(); t.stats(); t['electrodes'].target; cn.check(sys.argv[1], deep=True);"
        "print('h5py' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code, units], capture_output=True, text=True, check=True)
    assert run.stdout.split()[-1] == "False"


# -- memory --


def test_batches_have_few_elements(units: Path, set_limits: SetLimits) -> None:
    """A batch of lists is cut short where its elements would take much memory, in any order of rows."""
    set_limits(batch_bytes=20)
    table = cn.open_table(units, "units")
    assert [batch.num_rows for batch in table.select("spikes").batches()] == [2, 1]
    assert [batch.num_rows for batch in table.select("spikes").take([2, 1, 0]).batches()] == [1, 2]
    assert [batch.num_rows for batch in table.select("spikes")[::-1].batches()] == [1, 2]
    assert [batch.num_rows for batch in table.select("words").batches()] == [2, 1]
    assert list(table) == UNITS_ROWS


def test_lists_that_were_never_written_are_not_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = make_table(file, "t", [1], ["x"])
        add_data(group, "x", np.zeros(1))
        del group["x"]
        data = group.create_dataset("x", (1 << 31) - 2, "f8", chunks=(1 << 16,))
        data.attrs["neurodata_type"] = "VectorData"
        add_index(group, "x", [(1 << 31) - 2], "u4")
    for library in ("auto", "never"):
        with cn.open(tmp_path / "a.h5", library=library) as file, pytest.raises(UnsupportedError, match="claims"):
            file["t"].to_arrow()
    assert [finding.severity for finding in cn.check(tmp_path / "a.h5", deep=True)] != []


# -- what is broken --


def broken(path: Path, what: str) -> None:
    with h5py.File(path, "r+") as file:
        group = file["units"]
        match what:
            case "an end goes back":
                group["spikes_index"][1] = 1
            case "an end is past the last element":
                group["spikes_index"][2] = 7
            case "an inner end goes back":
                group["words_index"][2] = 0
            case "elements in no list":
                group["spikes_index"][2] = 5
            case "a missing dataset":
                del group["pairs"]
            case "a column is too long":
                del group["pairs"]
                add_data(group, "pairs", np.zeros((4, 2)))
            case "an index is too short":
                del group["spikes_index"]
                add_index(group, "spikes", [6])
            case "a row past the end":
                group["electrodes"][1] = 4
            case "a region without a table":
                del group["electrodes"].attrs["table"]
            case "a code past the end":
                group["state"][1] = 2
            case "a name twice":
                group.attrs["colnames"] = np.array(["spikes", "spikes"], dtype=h5py.string_dtype())
            case "no names":
                group.attrs["colnames"] = 3
            case "another target":
                group["spikes_index"].attrs["target"] = group["pairs"].ref
            case "no identifiers":
                del group["id"]
            case "identifiers that are floats":
                del group["id"]
                add_data(group, "id", np.zeros(3), "ElementIdentifiers")
            case "no elements":
                del group["state"].attrs["elements"]
                del group["state_elements"]


BROKEN = {
    "an end goes back": ("N4", "error", "/units/spikes_index"),
    "an end is past the last element": ("N4", "error", "/units/spikes_index"),
    "an inner end goes back": ("N4", "error", "/units/words_index"),
    "elements in no list": ("N4", "warning", "/units/spikes_index"),
    "a missing dataset": ("N1", "error", "/units/pairs"),
    "a column is too long": ("N3", "error", "/units/pairs"),
    "an index is too short": ("N3", "error", "/units/spikes"),
    "a row past the end": ("N5", "error", "/units/electrodes"),
    "a region without a table": ("N5", "error", "/units/electrodes"),
    "a code past the end": ("N6", "error", "/units/state"),
    "a name twice": ("N1", "error", "/units"),
    "no names": ("N1", "error", "/units"),
    "another target": ("N4", "warning", "/units/spikes_index"),
    "no identifiers": ("N2", "error", "/units/id"),
    "identifiers that are floats": ("N2", "error", "/units/id"),
    "no elements": ("N6", "error", "/units/state"),
}


def test_what_is_right_has_no_findings(units: Path) -> None:
    findings = cn.check(units, deep=True)
    assert list(findings) == [] and findings.checked.tables == 2
    assert list(cn.check(SESSION, deep=True)) == []


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_a_finding(units: Path, what: str) -> None:
    broken(units, what)
    findings = cn.check(units, deep=True)
    assert [(finding.rule, finding.severity, finding.path) for finding in findings] == [BROKEN[what]]


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_does_not_hide_the_rest(units: Path, what: str) -> None:
    """Errors name the column; the other columns are read as before."""
    broken(units, what)
    if what == "no identifiers":
        with cn.open(units) as file:
            assert file.tables() == ["/electrodes"]
        return
    table = cn.open_table(units, "units")
    for name in table.columns:
        expected = [row[name] for row in UNITS_ROWS]
        try:
            assert table[name].to_arrow().to_pylist() == expected or what in (
                "elements in no list",
                "a row past the end",
            )
        except (CorruptError, FormatError) as error:
            assert name in str(error) or getattr(error, "column", None) in (name, f"{name} (values)", f"{name} (lists)")
    for command in ("ls", "info", "schema"):
        run = CliRunner().invoke(main, [command, str(units)])
        assert run.exit_code in (0, 1), (command, run.output)  # 1: something was found
    run = CliRunner().invoke(main, ["stats", str(units), "units"])
    assert run.exit_code in (0, 1, 3), run.output


def test_wrong_ends_are_errors_that_name_the_row(units: Path) -> None:
    broken(units, "an end goes back")
    table = cn.open_table(units, "units")
    with pytest.raises(CorruptError) as error:
        table["spikes"].to_arrow()
    assert error.value.column == "spikes" and error.value.row == 1
    assert table["spikes"].to_arrow(errors="missing").to_pylist() == [[0.0, 1.0], None, [1.0, 2.0, 3.0, 4.0, 5.0]]


def test_arrays_that_cannot_be_rows_are_problems_by_name(units: Path) -> None:
    with h5py.File(units, "r+") as file:
        for name, data in {
            "pairs": np.zeros((3, 0)),
            "words": np.zeros((4, 2), dtype=[("a", "i4"), ("b", "f8")]),
        }.items():
            del file["units"][name]
            add_data(file["units"], name, data)
    table = cn.open_table(units, "units")
    assert "no elements" in str(table["pairs"].info.problem) and "not supported" in str(table["words"].info.problem)
    with pytest.raises(FormatError, match="words"):
        table.to_arrow()
    assert table.select("spikes").to_arrow().num_rows == 3


def test_deep_chains_of_indexes_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = make_table(file, "t", [1], ["x"])
        add_data(group, "x", np.zeros(1))
        name = "x"
        for _ in range(300):
            name = add_index(group, name, [1]).name.rsplit("/", 1)[1]
    table = cn.open_table(tmp_path / "a.h5", "t")
    assert "levels" in str(table["x"].info.problem)


@pytest.mark.parametrize("library", ["auto", "never"])
def test_changed_bytes_are_errors_of_colonnade(units: Path, library: Any) -> None:
    """Every byte of the index and of the headers near it, one at a time: no other error, no hang."""
    data = units.read_bytes()
    random = np.random.default_rng(7)
    target = units.with_name("changed.h5")
    for position in random.integers(0, len(data), 250).tolist():
        changed = bytearray(data)
        changed[position] ^= int(random.integers(1, 256))
        target.write_bytes(bytes(changed))
        try:
            with cn.open(target, library=library) as file:
                for name in file.tables():
                    table = file[name]
                    for column in table.info.by_name:
                        try:
                            table[column].to_arrow()
                        except ColonnadeError:
                            continue
        except ColonnadeError:
            pass
        cn.check(target, deep=True)


# -- search indexes, and files that must be left as they are --


def test_tables_can_be_indexed(session: Path) -> None:
    with cn.open(session, "r+") as file:
        file[TRIALS].build_index({"start_time": ["chunk_minmax", "sorted_rows"], "choice": "bitmap"})
        with pytest.raises(UsageError, match="lists cannot be compared"):
            file[TRIALS].build_index("tags", "chunk_minmax")
    with cn.open(session) as file:
        table = file[TRIALS]
        assert [(index.column, index.fresh, index.trusted) for index in table.indexes] == [
            ("choice", True, True), ("start_time", True, True), ("start_time", True, True)
        ]  # fmt: skip
        query = table.where("choice == 'left' and start_time > 2")
        assert [index.column for index in query.explain().indexes_used] != []
        assert query.row_numbers().tolist() == [4, 5]
        assert table.verify_indexes() == [] and rows_of(table) == EXPECTED[TRIALS]
    assert list(cn.check(session, deep=True)) == []
    with h5py.File(session, "r+") as h5:  # another program replaces the rows
        h5.move(f"{TRIALS}/start_time", "before")
        add_data(h5[TRIALS], "start_time", np.arange(6.0) * 2)
    assert {finding.rule for finding in cn.check(session)} == {"N7"}
    cn.fix(session)
    assert list(cn.check(session, deep=True)) == []
    assert cn.open_table(session, TRIALS).where("start_time > 6").row_numbers().tolist() == [4, 5]


@with_pynwb
def test_pynwb_reads_indexed_files_unchanged(session: Path, tmp_path: Path) -> None:
    with cn.open(session, "r+") as file:
        for name in (TRIALS, UNITS, ELECTRODES, MINE):
            file[name].build_index("id", ["chunk_minmax", "sorted_rows"])
    for name in TABLES:
        assert rows_by_pynwb(session, name) == EXPECTED[name]
    with quiet():
        from pynwb import NWBHDF5IO, validate

        assert not any(validate(path=str(session)))
        with NWBHDF5IO(session, "r") as io, NWBHDF5IO(tmp_path / "exported.nwb", "w") as out:
            out.export(src_io=io, nwbfile=io.read())
    for name in TABLES:
        assert rows_by_pynwb(tmp_path / "exported.nwb", name) == EXPECTED[name]
        assert rows_of(cn.open_table(tmp_path / "exported.nwb", name)) == EXPECTED[name]


def test_tables_are_read_only_and_the_error_says_how_to_convert(units: Path) -> None:
    before = units.read_bytes()
    with cn.open(units, "r+") as file:
        table = file["units"]
        changes: list[Any] = [
            lambda: table.append({"id": [1]}),
            lambda: table.update("state", rows=[0], values=["sleep"]),
            lambda: table.drop_column("pairs"),
            lambda: table.truncate(1),
            lambda: table.attrs.update(mine=1),
            lambda: file.drop("units"),
        ]
        for change in changes:
            with pytest.raises(UnsupportedError, match=r"read-only.*cn\.convert\(") as error:
                change()
            assert "hdmf" in str(error.value)
    assert units.read_bytes() == before
    with pytest.raises(UnsupportedError, match="read-only"):
        cn.write(units, {"x": [1]}, table="new", layout="hdmf")


# -- convert --


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_converted_with_their_lists(session: Path, tmp_path: Path, name: str) -> None:
    done = cn.convert(session, tmp_path / "new.h5", layout="hep001")
    assert name in done.tables
    assert done.notes == [
        "/scratch/aligned/below is now /scratch/aligned_below: a table cannot be inside another one",
    ]
    with cn.open(tmp_path / "new.h5") as file:
        table = file[name]
        assert (table.layout, table.labels) == ("hep001", ["id"]) and rows_of(table) == EXPECTED[name]
        assert table.description == cn.open_table(session, name).description
        assert file.h5["acquisition/force/data"][3] == 3.0
    assert list(cn.check(tmp_path / "new.h5", deep=True)) == []


def test_units_descriptions_attributes_and_indexes_are_kept(session: Path, tmp_path: Path) -> None:
    with h5py.File(session, "r+") as h5:
        h5[TRIALS].attrs["comments"], h5[f"{UNITS}/spike_times"].attrs["resolution"] = "mine", 0.5
    with cn.open(session, "r+") as file:
        file[UNITS].build_index("id", "sorted_rows")
    assert cn.convert(session, tmp_path / "new.h5", layout="hep001").indexes == 1
    with cn.open(tmp_path / "new.h5") as file:
        assert file[UNITS]["waveforms"].units == "volts" and file[UNITS]["spike_times"].attrs["resolution"] == 0.5
        assert file[TRIALS]["correct"].description == "whether the choice was right"
        assert file[UNITS]["electrodes"].attrs["table"] == ELECTRODES
        assert [index.column for index in file[UNITS].indexes] == ["id"]


def test_what_cannot_be_kept_is_listed_by_name(units: Path, tmp_path: Path) -> None:
    with h5py.File(units, "r+") as file:
        del file["units/pairs"]
        add_data(file["units"], "pairs", np.zeros((3, 2), dtype=[("a", "i4")]))
        add_data(file["units"], "other", np.arange(3))
    done = cn.convert(units, tmp_path / "new.h5", layout="hep001")
    assert len(done.notes) == 2 and "'pairs'" in done.notes[0] and "/units/other" in done.notes[1]
    table = cn.open_table(tmp_path / "new.h5", "units")
    assert "pairs" not in table and table["words"].to_arrow().to_pylist() == [row["words"] for row in UNITS_ROWS]


def test_references_lead_to_the_same_objects(session: Path, tmp_path: Path) -> None:
    """The bytes of a reference are an address, which differs in the new file."""
    cn.convert(session, tmp_path / "new.h5", layout="hep001")
    with cn.open(tmp_path / "new.h5") as file:
        group: Any = file[ELECTRODES][3]["group"]
        assert group.path == "/general/extracellular_ephys/shank0"
        series: Any = file[TRIALS][1]["timeseries"]
        assert series[1]["timeseries"].path == "/acquisition/force"
        assert file.h5[file.h5[ELECTRODES]["group"][0]].attrs["location"] == "CA1"
        region = file.h5["acquisition/voltage/electrodes"].attrs["table"]  # of an object that is not a table
        assert file.h5[region].name == ELECTRODES


@pytest.mark.parametrize("layout", ["hep001", "compound"])
def test_the_tables_inside_a_table_are_converted_too(session: Path, tmp_path: Path, layout: str) -> None:
    """An AlignedDynamicTable holds others: no layout has room for them there, so they go next to it."""
    path, new = tmp_path / "aligned.nwb", tmp_path / "new.h5"
    shutil.copy(session, path)
    with h5py.File(path, "r+") as file:
        file.copy(file[TRIALS], f"{TRIALS}/part")
        file[f"{TRIALS}_part_"] = 5
        file.copy(file[TRIALS], f"{TRIALS}_part")
        file.create_group("leads").attrs["table"] = file[f"{TRIALS}/part"].ref
    with cn.open(path) as file:
        expected = file[f"{TRIALS}/part"].select("start_time").to_arrow()
    done = cn.convert(path, new, layout=layout)
    place = f"{TRIALS}_part__"
    assert f"{TRIALS}/part is now {place}: a table cannot be inside another one" in done.notes
    assert not [note for note in done.notes if "left out" in note]
    with cn.open(new) as file:
        assert {TRIALS, f"{TRIALS}_part", place} <= set(file.tables())
        assert file[place].select("start_time").to_arrow().equals(expected)
        assert file.h5[file.h5["leads"].attrs["table"]].name == place


# -- the command line --


def test_commands_show_tables_and_what_regions_lead_to(units: Path) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    listed = json.loads(CliRunner().invoke(main, ["ls", "--json", str(units)]).output)
    assert [entry["path"] for entry in listed["objects"]] == ["/electrodes", "/units"]
    assert "row numbers of /electrodes" in run("info", str(units), "units")
    facts = json.loads(CliRunner().invoke(main, ["schema", "--json", str(units), "units"]).output)
    [column] = [one for one in facts["tables"][0]["columns"] if one["name"] == "electrodes"]
    assert column["target"] == "/electrodes" and column["hdf5_type"] == "lists of int64"
    assert "[2.0, 3.0, 4.0, 5.0]" in run("head", str(units), "units", "--columns", "spikes")
    assert "12" in run("where", str(units), "units", "id > 11", "--columns", "id")
    assert "3" in run("stats", str(units), "units")
