"""The kit for ArtifactDB's data frames: every rule has its pair, every case says what the manifest says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import colonnade as cn
from colonnade.checking import layout_rules
from colonnade.cli import main
from colonnade.layouts import located
from colonnade.layouts.artifactdb import rules
from tests.conformance.artifactdb import make
from tests.conformance.test_kit import check_said, content, expected, is_needed, places
from tests.conftest import SetLimits

FOLDER = Path(__file__).parent / "artifactdb"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
FILES: list[dict[str, Any]] = MANIFEST["files"]
IDS = [entry["file"].split("/")[1] for entry in FILES]
RULES = layout_rules()["artifactdb"].RULES
every_case = pytest.mark.parametrize("entry", FILES, ids=IDS)


def test_every_rule_has_a_pair_and_every_case_a_rule() -> None:
    others = {rule.id for name, rules in layout_rules().items() if name != "artifactdb" for rule in rules.RULES}
    numbers = [rule.id for rule in RULES]
    assert len(set(numbers)) == len(numbers)
    assert not others & set(numbers)
    for rule in RULES:
        own = [entry for entry in FILES if entry["rule"] == rule.id]
        assert any(not entry["expected"] for entry in own), f"no good case for {rule.id}"
        bad = [entry for entry in own if entry["expected"]]
        assert bad, f"no bad case for {rule.id}"
        told = [{one["rule"] for one in entry["expected"]} for entry in bad]
        assert all(rule.id in one or one == {"S8"} for one in told)  # S8: the contents of an index, of any layout
        assert rule.requires
        assert rule.clause
        assert rule.advice
    assert {entry["rule"] for entry in FILES} == set(numbers)
    assert sorted(IDS) == sorted(path.name for path in FOLDER.glob("files/*"))


CHECK_IDS = [(rule.id, check) for rule in RULES for check in rule.checks]


@pytest.mark.parametrize(("number", "check"), CHECK_IDS, ids=[check.__name__ for _, check in CHECK_IDS])
def test_every_check_is_needed(number: str, check: Any) -> None:
    """Without any one of the functions, some bad case of its rule would pass."""
    assert is_needed("artifactdb", rules.PART, number, check, (FOLDER, FILES))


def test_the_kit_is_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.glob("files/**/*") if path.is_file()]
    assert max(sizes) < 20_000
    assert sum(sizes) < 1_500_000


@every_case
@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
def test_exactly_what_is_expected_is_found(entry: dict[str, Any], deep: bool) -> None:
    found = cn.check(FOLDER / entry["file"], deep=deep)
    assert places(found) == expected(entry, deep)
    assert found.checked.readable
    check_said(found)


@every_case
def test_what_a_reader_notes_is_found(entry: dict[str, Any]) -> None:
    """A frame never has a problem that the checker does not tell."""
    with cn.open(FOLDER / entry["file"]) as file:
        for path in file.tables():
            try:
                problems = file[path].problems
            except cn.errors.UnsupportedError:
                continue
            assert not problems or expected(entry)


FIXABLE = {"DI1-length", "DI1-no-column", "DI1-other-rows", "DI1-contents", "DJ2-dimensions", "DJ4-another", "DJ4-more",
           "DJ5-rows", "DJ5-negative", "DJ7-sum"}  # fmt: skip


@every_case
def test_what_can_be_mended_is_and_nothing_else(entry: dict[str, Any], tmp_path: Path) -> None:
    name = entry["file"].split("/")[1]
    case = Path(shutil.copytree(FOLDER / "files" / name, tmp_path / name))
    path = Path(located(tmp_path / Path(*Path(entry["file"]).parts[1:]))[0])
    before = {one: one.read_bytes() for one in case.rglob("*") if one.is_file()}
    assert bool(cn.fix(path, dry_run=True).repairs) == (name in FIXABLE)
    assert {one: one.read_bytes() for one in case.rglob("*") if one.is_file()} == before
    if name in FIXABLE:
        assert cn.fix(path).left == []
        assert cn.check(path, deep=True) == []
        assert cn.fix(path).repairs == []


def test_the_script_makes_these_files(tmp_path: Path) -> None:
    make.main([str(tmp_path)])
    assert json.loads((tmp_path / "manifest.json").read_text()) == MANIFEST
    kept, new = ({path.relative_to(base) for path in base.glob("files/**/*")} for base in (FOLDER, tmp_path))
    assert kept == new
    for name in kept:
        if name.suffix == ".h5":
            with h5py.File(FOLDER / name) as one, h5py.File(tmp_path / name) as other:
                assert content(one["/"]) == content(other["/"]), name
        elif (FOLDER / name).is_file():
            assert without_sum(FOLDER / name) == without_sum(tmp_path / name)


def without_sum(path: Path) -> Any:
    """A document without the sum of a file, whose bytes another version of HDF5 may lay out otherwise."""
    if path.suffix != ".json":
        return path.read_text()
    made = json.loads(path.read_text())
    return {key: value for key, value in made.items() if key != "md5sum"}


# -- which generation's rules apply --


def test_a_generation_can_be_asked_for(tmp_path: Path) -> None:
    """The same file by the rules of another generation than it says."""
    make.versioned(make.held(np.zeros(3, "<f2"), "number"))(tmp_path)
    file = tmp_path / "x.h5"
    assert cn.check(file) == []
    assert cn.check(file, generation="versioned") == []
    assert {one.rule for one in cn.check(file, generation="directory")} == {"DG1", "DO1", "DD4"}
    assert {one.rule for one in cn.check(file, generation="legacy:2/1")} == {"DJ1", "DD2"}


def test_a_directory_by_the_rules_of_the_seed(tmp_path: Path) -> None:
    """What dolomite-base writes as codes, the older text refuses."""
    make.directory(lambda group: make.factor(group, make.CODES.astype("<u4")))(tmp_path)
    assert cn.check(tmp_path, deep=True) == []
    assert [one.rule for one in cn.check(tmp_path, generation="versioned")] == ["DF3"]


def test_a_legacy_frame_by_other_versions(tmp_path: Path) -> None:
    make.legacy([make.A], make.INTEGERS, mark=np.int8(2))(tmp_path)
    file = tmp_path / "x.h5"
    assert [one.rule for one in cn.check(file)] == ["DM2"]
    assert [one.rule for one in cn.check(file, generation="legacy:1/2")] == ["DM4"]
    assert {one.rule for one in cn.check(file, generation="legacy:3/2")} == {"DD2", "DM2"}


@pytest.mark.parametrize("word", ["", "legacy", "legacy:2", "legacy:4/1", "legacy:2/3", "legacy:1/1/1", "1.0"])
def test_a_generation_that_is_none(word: str, tmp_path: Path) -> None:
    make.versioned()(tmp_path)
    with pytest.raises(cn.errors.UsageError, match="not a generation"):
        cn.check(tmp_path / "x.h5", generation=word)


def test_the_command_takes_all_three_and_a_generation() -> None:
    files = FOLDER / "files"
    for good in ("DG1-good-directory", "DJ1-good/x.h5", "DJ1-good/x.h5.json"):
        assert CliRunner().invoke(main, ["check", str(files / good), "--deep"]).exit_code == 0
    bad = CliRunner().invoke(main, ["check", str(files / "DF3-with-sign")])
    assert bad.exit_code == 1
    assert "(ArtifactDB Factor)" in bad.stdout
    asked = CliRunner().invoke(main, ["check", str(files / "DF3-with-sign"), "--generation", "versioned"])
    assert asked.exit_code == 0
    logged = CliRunner().invoke(main, ["check", str(files / "DF3-with-sign"), "--sarif"])
    assert '"ruleId": "DF3"' in logged.stdout


# -- what leads to a file, and does not --


def test_the_document_and_the_directory_lead_to_the_file(tmp_path: Path) -> None:
    make.legacy([make.A])(tmp_path)
    for target in (tmp_path / "x.h5", tmp_path / "x.h5.json", str(tmp_path / "x.h5.json")):
        found = cn.check(target, deep=True)
        assert found == []
        assert found.checked.tables == 1


@pytest.mark.parametrize(
    ("text", "rules"),
    [("{", {"DJ1"}), ("[]", {"DJ1"}), ("{}", {"DJ1"}), ('{"hdf5_data_frame": {"group": 1}}', {"DJ1", "DJ2"})],
)
def test_a_document_that_leads_nowhere(text: str, rules: set[str], tmp_path: Path) -> None:
    (tmp_path / "x.h5.json").write_text(text)
    found = cn.check(tmp_path / "x.h5.json")
    assert {one.rule for one in found} == rules
    assert not found.checked.readable


def test_a_document_without_its_file(tmp_path: Path) -> None:
    make.legacy([make.A])(tmp_path)
    (tmp_path / "x.h5").unlink()
    assert places(cn.check(tmp_path / "x.h5.json")) == [("DJ7", "error", "x.h5.json#/path")]


def test_a_directory_without_its_file(tmp_path: Path) -> None:
    make.directory()(tmp_path)
    (tmp_path / "basic_columns.h5").unlink()
    assert places(cn.check(tmp_path)) == [("DG1", "error", "/")]


# -- nothing is believed --


def test_claims_are_not_believed(tmp_path: Path) -> None:
    """Columns, levels and heaps that claim far more than is stored are not read."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        group = file.create_group("df")
        group.attrs["version"], group.attrs["row-count"] = "1.0", np.uint64(1 << 50)
        group["column_names"] = np.array([b"a", b"b", b"c"])
        group.create_dataset("row_names", (1 << 50,), "S3", chunks=(1 << 10,))
        data = group.create_group("data")
        data.create_dataset("0", (1 << 50,), "S10", chunks=(1 << 20,)).attrs["type"] = "string"
        data.create_dataset("1", (1 << 50,), make.TEXT, chunks=(1 << 10,)).attrs["type"] = "string"
        inner = data.create_group("2")
        inner.attrs["type"] = "factor"
        inner.create_dataset("levels", (1 << 31,), "S10", chunks=(1 << 20,))
        inner.create_dataset("codes", (1 << 50,), "i4", chunks=(1 << 20,))
    found = cn.check(tmp_path / "x.h5", deep=True)
    assert {"DD5", "DF2", "DF3"} <= {one.rule for one in found.errors}


def test_bytes_that_are_damaged_are_findings(tmp_path: Path) -> None:
    """Whatever bytes of a file or a document are wrong, the checker ends and never raises."""
    random = np.random.default_rng(9)
    cases = ["DV1-good", "DF3-good-directory", "DD6-good-legacy", "DF5-good", "DG5-good"]
    for turn in range(60):
        case = tmp_path / str(turn)
        shutil.copytree(FOLDER / "files" / cases[turn % len(cases)], case)
        for file in [path for path in case.iterdir() if path.is_file()]:
            data = bytearray(file.read_bytes())
            for place in random.integers(0, len(data), 1 + len(data) // 300):
                data[place] = int(random.integers(0, 256))
            if turn % 2 or file.suffix == ".h5":
                file.write_bytes(data)
        target = case if (case / "basic_columns.h5").exists() else case / "x.h5"
        cn.check(target, deep=True)
        shutil.rmtree(case)


def test_values_are_read_by_blocks(tmp_path: Path, set_limits: SetLimits) -> None:
    """What is wrong in a later block is found with its row."""
    set_limits(piece_bytes=64)
    rows = [b"2023-01-01"] * 50
    rows[41] = b"2023-01-1"
    codes = np.zeros(50, "<i4")
    codes[42] = 7
    with h5py.File(tmp_path / "x.h5", "w") as file:
        group = file.create_group("df")
        group.attrs["version"], group.attrs["row-count"] = "1.0", np.uint64(50)
        make.fill(group, "integer")
        make.factor(group, codes)
        make.column(group, 1, np.array(rows), "string", format="date")
        del group["column_names"]
        group["column_names"] = np.array([b"a", b"b"])
    told: list[tuple[int, int | None]] = []
    found = cn.check(tmp_path / "x.h5", deep=True, progress=lambda done, in_all: told.append((done, in_all)))
    assert told == [(50, 100), (100, 100)]
    assert [(one.rule, one.path) for one in found] == [("DF3", "/df/data/0/codes"), ("DD6", "/df/data/1")]
    assert "row 42" in found[0].message
    assert "row 41" in found[1].message


def test_fix_makes_metadata_follow_their_file(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, {"a": [1, 2], "b": ["x", None]}, "df", layout="artifactdb")
    place = tmp_path / "x.h5.json"
    good = json.loads(place.read_text())
    bad = json.loads(place.read_text())
    bad["md5sum"], bad["data_frame"]["dimensions"] = "0" * 32, [7, 2]
    bad["data_frame"]["columns"][0]["name"] = "other"
    place.write_text(json.dumps(bad))
    assert {one.rule for one in cn.check(path, deep=True)} == {"DJ4", "DJ5", "DJ7"}
    planned = cn.fix(path, dry_run=True)
    assert [one.action for one in planned.repairs] == ["the metadata are rewritten from the file"]
    assert planned.left == []
    assert json.loads(place.read_text()) == bad
    assert cn.fix(path).left == []
    assert cn.check(path, deep=True) == []
    assert json.loads(place.read_text())["data_frame"] == good["data_frame"]
    assert cn.fix(path).repairs == []
