"""The conformance kit of H5Col: every rule has its pair, and what the manifest names is found, and corrected."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import pytest

import colonnade as cn
from colonnade.checking import layout_rules
from colonnade.layouts.h5col import rules
from tests.conformance.h5col import make
from tests.conformance.test_kit import check_said, content, expected, is_needed, places

FOLDER = Path(__file__).parent / "h5col"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
FILES: list[dict[str, Any]] = MANIFEST["files"]
RULES = layout_rules()["h5col"].RULES
every_file = pytest.mark.parametrize("entry", FILES, ids=[Path(entry["file"]).stem for entry in FILES])


def test_every_rule_has_a_pair_and_every_file_a_rule() -> None:
    for rule in RULES:
        own = [entry for entry in FILES if entry["rule"] == rule.id]
        assert any(not entry["expected"] for entry in own), f"no good file for {rule.id}"
        assert any(entry["expected"] for entry in own), f"no bad file for {rule.id}"
    for entry in FILES:
        assert {finding["rule"] for finding in entry["expected"]} <= {entry["rule"]}
    assert {entry["rule"] for entry in FILES} == {rule.id for rule in RULES}
    assert sorted(entry["file"] for entry in FILES) == sorted(f"files/{path.name}" for path in FOLDER.glob("files/*"))


NAMED = [(rule.id, check) for rule in RULES for check in rule.checks if getattr(check, "__name__", "") != "look"]


@pytest.mark.parametrize(("number", "check"), NAMED, ids=[number for number, _ in NAMED])
def test_every_check_is_needed(number: str, check: Any) -> None:
    """Without any one of the functions, some bad file of its rule would pass."""
    assert is_needed("h5col", rules, number, check, (FOLDER, FILES))


def test_the_kit_is_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.glob("files/*")]
    assert max(sizes) < 100_000
    assert sum(sizes) < 2_000_000


@every_file
def test_exactly_what_is_expected_is_found(entry: dict[str, Any]) -> None:
    for deep in (False, True):
        for library in ("auto", "never"):
            with cn.open(FOLDER / entry["file"], library=library) as file:
                found = cn.check(file, deep=deep)
            assert places(found) == expected(entry, deep)
            check_said(found)


@every_file
def test_what_needs_no_data_is_corrected(entry: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    shutil.copyfile(FOLDER / entry["file"], path)
    planned = cn.fix(path, dry_run=True)
    assert path.read_bytes() == (FOLDER / entry["file"]).read_bytes()
    if not entry["fixable"]:
        assert planned.repairs == []
        return
    assert [one.action for one in cn.fix(path).repairs] == [one.action for one in planned.repairs] != []
    assert cn.check(path, deep=True) == []
    corrected = path.read_bytes()
    assert cn.fix(path).repairs == []
    assert path.read_bytes() == corrected


def test_the_script_makes_these_files(tmp_path: Path) -> None:
    make.main([str(tmp_path)])
    assert json.loads((tmp_path / "manifest.json").read_text()) == MANIFEST
    for entry in FILES:
        if entry["file"] == "files/JX4-cycle.h5":  # which no walk down ends in
            continue
        with h5py.File(FOLDER / entry["file"]) as stored, h5py.File(tmp_path / entry["file"]) as again:
            assert content(stored["/"]) == content(again["/"]), entry["file"]
