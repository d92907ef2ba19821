"""`cn.check` and `cn.fix` beyond the kit: several faults, wide and huge tables, damage, files and handles."""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.checking import ALL_RULES
from colonnade.checking import fix as mend
from colonnade.cli.check import citation
from colonnade.layouts import LAYOUTS
from colonnade.model import Repair
from tests.conformance import make
from tests.conftest import SetLimits
from tests.rooms.test_cli import call, call_json

KIT = Path(make.__file__).parent / "files"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A good table with labels, a categorical, missing rows and every kind of index."""
    path = tmp_path / "run.h5"
    data = {
        "ts": np.arange(1000),
        "energy": pa.array([1.5, None, float("nan"), 2.0] * 250),
        "kind": pa.array(["muon", None, "pion", "muon"] * 250).dictionary_encode(),
        "word": pa.array(["a", "bb", None, ""] * 250),
        "id": [f"r{n}" for n in range(1000)],
    }
    index = {"ts": ["chunk_minmax", "sorted_rows"], "energy": ["chunk_bloom", "sorted_rows"], "kind": "bitmap"}
    columns = {"ts": cn.column(chunk_rows=100)}
    cn.write(path, data, "events", labels=["id"], index=index, title="Run", columns=columns)
    return path


@pytest.fixture
def broken(run: Path) -> Path:
    """The same with a fault of each family."""
    with h5py.File(run, "r+") as file:
        group = file["events"]
        group.attrs["TITLE"] = "variable"
        make.texts(group, "column-order", ["ts", "kind"])
        del group["ts"].attrs["_indexes"]
        del group["kind_categories"].attrs["ordered"]
        entries = group["_search_indexes/ts__chunk_minmax"][:]
        entries["min"][3] += 1
        group["_search_indexes/ts__chunk_minmax"][:] = entries
        group["energy"].attrs["units"] = 5
    return run


def facts(found: list[cn.Finding]) -> set[tuple[str, str, str]]:
    return {(one.rule, one.severity, one.path) for one in found}


SHALLOW = {
    ("T3", "warning", "/events"),
    ("T4", "error", "/events/energy"),
    ("T4", "error", "/events/word"),
    ("I2", "error", "/events/ts"),
    ("C9", "error", "/events/kind_categories"),
    ("C7", "error", "/events/energy"),
}
DEEP = SHALLOW | {("S8", "error", "/events/_search_indexes/ts__chunk_minmax")}


def test_what_colonnade_writes_has_no_findings(run: Path) -> None:
    found = cn.check(run, deep=True)
    assert found == []
    assert (found.checked.tables, found.checked.columns) == (1, 5)
    assert found.checked.attributes > 40
    assert found.checked.bytes_read > 10_000
    assert cn.check(run).checked.bytes_read == 0


def test_all_faults_are_told_at_once_and_sorted(broken: Path) -> None:
    found = cn.check(broken, deep=True)
    assert facts(found) == DEEP
    assert facts(cn.check(broken)) == SHALLOW
    ranks = [("error", "warning", "note").index(one.severity) for one in found]
    assert ranks == sorted(ranks)
    assert [one.severity for one in found.errors] == ["error"] * 6


def test_a_file_that_is_open_is_checked(broken: Path) -> None:
    with cn.open(broken) as file:
        assert facts(cn.check(file, deep=True)) == DEEP
        assert cn.check(file, "events") == cn.check(file, "/events") == cn.check(file)
        with pytest.raises(cn.errors.TableNotFound):
            cn.check(file, "nothing")
    with h5py.File(broken) as h5:
        assert facts(cn.check(h5)) == SHALLOW


def test_a_deep_check_says_how_far_it_is_and_vouches_for_indexes(run: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    with h5py.File(run, "r+") as file:
        file.attrs["changed"] = "by others"  # receipts are void now
    with cn.open_table(run) as table:
        assert not any(one.trusted for one in table.indexes)
    assert cn.check(run, deep=True, progress=lambda done, of: seen.append((done, of))) == []
    assert seen == sorted(seen)
    assert seen[-1] == (5000, 5000)
    with cn.open_table(run) as table:
        assert all(one.trusted for one in table.indexes)


def test_fix_mends_all_of_it_but_what_needs_a_human(broken: Path) -> None:
    before = cn.read(broken)
    assert facts(cn.fix(broken, dry_run=True).left) == {("C7", "error", "/events/energy")}
    mended = cn.fix(broken)
    assert not mended.dry_run
    assert facts(mended.left) == {("C7", "error", "/events/energy")}
    assert facts(cn.check(broken, deep=True)) == {("C7", "error", "/events/energy")}
    after = cn.read(broken)
    assert [repr(after.column(name).to_pylist()) for name in before.column_names] == [
        repr(before.column(name).to_pylist()) for name in before.column_names
    ]
    with cn.open_table(broken) as table:
        assert table.columns == ["ts", "kind", "energy", "word"]
        assert all(one.fresh for one in table.indexes)
        assert next(one.trusted for one in table.indexes if one.name == "ts__chunk_minmax")
    kept = broken.read_bytes()
    assert cn.fix(broken).repairs == []
    assert broken.read_bytes() == kept


def test_fix_is_all_or_nothing(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cn.check(broken, deep=True)

    def fail() -> bool:
        raise OSError("the disk is full")

    planned = mend.plan_repairs

    def with_a_failure(*given: Any) -> Any:
        found = planned(*given)
        found.repairs.append(Repair("/events", "fails", (), fail))
        return found

    monkeypatch.setattr(mend, "plan_repairs", with_a_failure)
    with pytest.raises(OSError, match="full"):
        cn.fix(broken)
    assert cn.check(broken, deep=True) == before


def test_fix_works_on_an_open_file_and_needs_it_writable(broken: Path) -> None:
    with cn.open(broken) as file, pytest.raises(cn.errors.ConflictError):
        cn.fix(file)
    with cn.open(broken, "r+") as file:
        cn.fix(file)
        assert facts(cn.check(file, deep=True)) == {("C7", "error", "/events/energy")}


def test_an_index_of_rows_that_cannot_be_read_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        group = make.indexed(file)
        del group["v"]
        column = group.create_dataset("v", data=make.VALUES, chunks=(2,), fletcher32=True)
        make.minmax(group, [(1, 5, 0, 0, 2)])
        mask, data = column.id.read_direct_chunk((2,))
        column.id.write_direct_chunk((2,), bytes([data[0] ^ 1]) + data[1:], mask)
    assert facts(cn.check(path)) == {("S4", "error", "/t/_search_indexes/v__chunk_minmax")}
    assert cn.fix(path).left == []
    assert facts(cn.check(path, deep=True)) == {("H1", "error", "/t/v")}
    with h5py.File(path) as file:
        assert "_search_indexes" not in file["t"]
        assert "_search_indexes" not in file["t/v"].attrs


def test_several_tables_and_what_claims_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        make.table(file, "good")
        make.table(file, "a/bad")
        del file["a/bad"].attrs["VERSION"]
        make.ascii_text(make.table(file, "almost"), "CLASS", "column_table")
        make.ascii_text(file.create_group("anndata"), "encoding-type", "dataframe")
        make.texts(file["anndata"], "column-order", ["x"])
        make.ascii_text(file.create_group("other"), "CLASS", "TABLE")
    found = cn.check(path)
    assert facts(found) == {("T2", "error", "/a/bad"), ("T1", "error", "/almost"), ("A1", "error", "/anndata")}
    assert found.checked.tables == 3
    assert facts(cn.check(path, "almost")) == {("T1", "error", "/almost")}
    assert cn.check(path, "good") == []


def test_rows_that_are_claimed_and_not_stored_are_not_read(tmp_path: Path) -> None:
    """2**60 rows that nobody wrote: told in no time."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        group = make.table(file, x=np.arange(0))
        del group["x"]
        group.create_dataset("x", (2**60,), "<i8", chunks=(1024,), maxshape=(None,))
    begun = time.monotonic()
    found = cn.check(path, deep=True)
    assert facts(found) == {("H1", "warning", "/t/x")}
    assert time.monotonic() - begun < 5


def test_an_attribute_that_claims_too_much_is_not_read(tmp_path: Path, set_limits: SetLimits) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        make.text(make.table(file), "description", "x" * 1000)
    set_limits(attribute_bytes=999)
    assert facts(cn.check(path)) == {("H1", "error", "/t")}


def test_a_wide_table_is_checked_in_proportion(tmp_path: Path) -> None:
    seconds = []
    for n in (300, 3000):
        path = tmp_path / f"{n}.h5"
        columns = {f"c{i}": np.arange(2) for i in range(n)}
        cn.write(path, {**columns, "id": np.arange(2)}, labels=["id"])
        with h5py.File(path, "r+") as file:
            for name in columns:
                del file["table"][name].attrs["_indexes"]
        begun = time.process_time()
        assert len(cn.check(path)) == n
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 40 * seconds[0]


@pytest.mark.parametrize("name", ["S8-good", "I2-good", "C4-good", "example-11.2"])
def test_a_truncated_file_has_findings_or_cannot_be_opened(name: str, tmp_path: Path) -> None:
    whole = (KIT / f"{name}.h5").read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 40)):
        path = tmp_path / f"{length}.h5"
        path.write_bytes(whole[:length])
        found = cn.check(path, deep=True)
        assert found.errors
        assert not found.checked.readable


@pytest.mark.parametrize(("at", "byte"), [(8, 9), (12, 7), (20, 255), (13, 3)])
def test_a_broken_superblock_is_damage_and_no_lock(at: int, byte: int, tmp_path: Path) -> None:
    data = bytearray((KIT / "T1-good.h5").read_bytes())
    data[at] = byte
    (tmp_path / "x.h5").write_bytes(bytes(data))
    found = cn.check(tmp_path / "x.h5")
    assert not found.checked.readable


# -- the command line --


def test_exit_codes(run: Path, broken: Path, tmp_path: Path) -> None:
    assert call("check", KIT / "T1-good.h5").exit_code == 0
    assert call("check", KIT / "T1-variable.h5").exit_code == 0
    assert call("check", KIT / "T1-variable.h5", "--strict").exit_code == 1
    assert call("check", KIT / "T2-later-minor.h5", "--strict").exit_code == 0
    assert call("check", broken).exit_code == 1
    assert call("check", KIT / "S8-minmax.h5").exit_code == 0
    assert call("check", KIT / "S8-minmax.h5", "--deep").exit_code == 1
    assert call("check", broken, "--json", "--sarif").exit_code == 2
    assert call("check", broken, "--table", "none").exit_code == 2
    assert call("check", tmp_path / "none.h5").exit_code == 3
    (tmp_path / "text.h5").write_text("not HDF5 at all, but long enough to be something else")
    assert call("check", tmp_path / "text.h5").exit_code == 3
    with h5py.File(tmp_path / "empty.h5", "w"):
        pass
    assert call("check", tmp_path / "empty.h5").exit_code == 1


def test_text_says_what_where_and_what_to_do(broken: Path) -> None:
    text = call("check", broken, "--deep", width=200).stdout
    assert "error   I2  /events/ts" in text
    assert "label 'id' lists this column, which does not refer back in _indexes" in text
    assert "`colonnade fix` repairs it. (HEP001 7.2, 9.2)" in text
    assert "6 errors, 1 warning" in text
    assert "checked 1 table, 5 columns" in text
    assert "warning" not in call("check", broken, "--severity", "error").stdout.split("\n\n")[0]


@pytest.mark.parametrize(
    ("rule", "cited"),
    [
        ("I2", "HEP001 7.2, 9.2"), ("JT1", "H5Col JT1"), ("A5", "AnnData DataFrames"), ("N4", "HDMF VectorIndex"),
        ("P1", "PyTables, File format"), ("R1", "HDF5 Table Specification"), ("PD2", ""), ("N7", ""),
        ("sparse.map", ""),
    ],
)  # fmt: skip
def test_a_rule_cites_its_own_document_or_none(rule: str, cited: str) -> None:
    assert citation(rule, ALL_RULES[rule].clause) == cited


def test_no_rule_cites_hep001_but_those_of_it() -> None:
    cited = {rule: citation(rule, stated.clause) for rule, stated in ALL_RULES.items()}
    assert {re.sub(r"\d+$", "", rule) for rule, text in cited.items() if "HEP001" in text} == {"H", "T", "C", "I", "S"}
    assert not any("none" in text for text in cited.values())


def test_json_is_whole(broken: Path) -> None:
    told = call_json("check", broken, "--deep")
    assert told["counts"] == {"error": 6, "warning": 1, "note": 0}
    assert told["checked"]["tables"] == 1
    assert set(told["findings"][0]) == {
        "rule", "severity", "path", "message", "clause", "found", "expected", "advice",
    }  # fmt: skip
    assert len(call_json("check", broken, "--severity", "error")["findings"]) == 5


def test_sarif_has_what_services_need(broken: Path) -> None:
    log = json.loads(call("check", broken, "--deep", "--sarif").stdout)
    assert log["version"] == "2.1.0"
    (one,) = log["runs"]
    rules = [rule["id"] for rule in one["tool"]["driver"]["rules"]]
    assert len(one["results"]) == 7
    for result in one["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        (place,) = result["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("run.h5")
        assert place["logicalLocations"][0]["fullyQualifiedName"].startswith("/events")
    bad = json.loads(call("check", KIT / "C2-no-utf8.h5", "--sarif").stdout)
    assert bad["runs"][0]["results"][0]["ruleId"] == "C2"


def test_fix_tells_and_does(broken: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.h5"
    shutil.copy(broken, copy)
    text = call("fix", copy, "--dry-run", width=200).stdout
    assert "would repair  T4 /events: column-order is rewritten: ts, kind, energy, word" in text
    assert copy.read_bytes() == broken.read_bytes()
    told = call_json("fix", copy)
    assert {tuple(one["rules"]) for one in told["repairs"]} >= {("T4",), ("C9",), ("T3",), ("S8",)}
    assert [one["rule"] for one in told["left"]] == ["C7"]
    assert call("fix", copy).exit_code == 1
    assert call("fix", KIT / "T1-good.h5").stdout.strip().endswith("nothing to repair")


def test_tables_of_layouts_without_rules_are_told_not_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of a layout without rules: that is said, and no praise is given."""
    path = tmp_path / "c.h5ad"
    with h5py.File(path, "w") as file:
        frame = file.create_group("obs")
        frame.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
        frame.attrs["column-order"] = np.array(["x"], dtype=h5py.string_dtype())
        frame["_index"] = np.array(["a", "b"], dtype=h5py.string_dtype())
        frame["x"] = np.arange(2)
    ran = call("check", path)
    assert ran.exit_code == 0
    assert "checked 1 table, 2 columns, 4 attributes" in ran.stdout
    find = LAYOUTS["anndata"].find
    monkeypatch.setitem(
        LAYOUTS, "anndata", replace(LAYOUTS["anndata"], find=lambda name: None if name == "rules" else find(name))
    )
    assert cn.check(path).checked.tables_without_rules == 1
    ran = call("check", path)
    assert ran.exit_code == 1
    assert "nothing was checked" in ran.stdout
    assert "not checked: 1 table" in ran.stdout
