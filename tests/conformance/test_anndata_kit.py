"""The kit for AnnData's elements: every rule has its pair, every file says what the manifest says."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.anndata import read
from colonnade.checking import layout_rules
from colonnade.layouts.anndata import names, rules, rules_values
from colonnade.nodes import arrays
from tests.conformance.anndata import make
from tests.conformance.test_kit import check_said, content, expected, is_needed, places
from tests.conftest import SetLimits
from tests.generated import generated

FOLDER = Path(__file__).parent / "anndata"
GOLDEN = Path(__file__).parents[1] / "golden" / "anndata"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
FILES: list[dict[str, Any]] = MANIFEST["files"]
IDS = [Path(entry["file"]).stem for entry in FILES]
RULES = layout_rules()["anndata"].RULES
every_file = pytest.mark.parametrize("entry", FILES, ids=IDS)


def test_every_rule_has_a_pair_and_every_file_a_rule() -> None:
    assert [rule.id for rule in RULES] == [f"A{number}" for number in range(1, len(RULES) + 1)]
    for rule in RULES:
        own = [entry for entry in FILES if entry["rule"] == rule.id]
        assert any(not entry["expected"] for entry in own), f"no good file for {rule.id}"
        assert any(rule.id in {one["rule"] for one in entry["expected"]} for entry in own), f"no bad file for {rule.id}"
        assert rule.requires
        assert rule.clause
        assert rule.advice
    assert sorted(entry["file"] for entry in FILES) == sorted(f"files/{path.name}" for path in FOLDER.glob("files/*"))


def test_the_rules_know_what_the_readers_read() -> None:
    assert set(read._OF_GROUPS) == set(names.OF_GROUPS)
    assert set(read._OF_DATASETS) == set(names.OF_DATASETS)


CHECK_IDS = [(rule.id, check) for rule in RULES for check in rule.checks]


@pytest.mark.parametrize(("number", "check"), CHECK_IDS, ids=[check.__name__ for _, check in CHECK_IDS])
def test_every_check_is_needed(number: str, check: Any) -> None:
    """Without any one of the functions, some bad file of its rule would pass."""
    assert is_needed("anndata", rules.PART, number, check, (FOLDER, FILES))


def test_the_kit_is_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.glob("files/*")]
    assert max(sizes) < 40_000
    assert sum(sizes) < 2_000_000


@every_file
@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
def test_exactly_what_is_expected_is_found(entry: dict[str, Any], deep: bool) -> None:
    found = cn.check(FOLDER / entry["file"], deep=deep)
    assert places(found) == expected(entry, deep)
    check_said(found)


@every_file
def test_nothing_is_mended_but_what_can_be(entry: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    shutil.copyfile(FOLDER / entry["file"], path)
    planned = cn.fix(path, dry_run=True)
    assert path.read_bytes() == (FOLDER / entry["file"]).read_bytes()
    if not entry["fixable"]:
        assert planned.repairs == [] or entry["rule"] == "A14"
        assert places(planned.left) == expected(entry, deep=entry["rule"] == "A16") or entry["rule"] == "A14"
        return
    assert planned.left == []
    assert [one.action for one in cn.fix(path).repairs] == [one.action for one in planned.repairs] != []
    assert cn.check(path, deep=True) == []
    mended = path.read_bytes()
    assert cn.fix(path).repairs == []
    assert path.read_bytes() == mended


def test_the_script_makes_these_files(tmp_path: Path) -> None:
    make.main([str(tmp_path)])
    assert json.loads((tmp_path / "manifest.json").read_text()) == MANIFEST
    for entry in FILES:
        with h5py.File(FOLDER / entry["file"]) as kept, h5py.File(tmp_path / entry["file"]) as made:
            assert content(kept["/"]) == content(made["/"]), entry["file"]


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*/*.h5*")), ids=lambda path: path.name)
def test_files_of_other_projects_are_silent(file: Path) -> None:
    assert cn.check(file, deep=True) == []


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_what_anndata_writes_is_silent(compression: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata = generated((30, 20))
        adata.raw = adata.copy()
        with anndata.settings.override(allow_write_nullable_strings=True):
            adata.write_h5ad(tmp_path / "a.h5ad", compression=compression)
    found = cn.check(tmp_path / "a.h5ad", deep=True)
    assert found == []
    assert found.checked.tables >= 2
    assert found.checked.elements > 100


def test_values_are_read_by_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_limits: SetLimits) -> None:
    """A large array is read in boxes of bounded size, of any rank."""
    sizes: list[int] = []
    read = arrays.read_part

    def counted(dataset: Any, part: Any = ()) -> Any:
        found = read(dataset, part)
        sizes.append(found.nbytes)
        return found

    monkeypatch.setattr(rules_values, "read_part", counted)
    set_limits(checked_bytes=4096)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        make.array(file, "plain", np.arange(30_000, dtype="f8").reshape(100, 300))
        made = file.create_dataset("chunked", data=np.zeros((64, 64, 3)), chunks=(8, 8, 3), compression="gzip")
        make.marked(made, "array", "0.2.0")
    found = cn.check(tmp_path / "a.h5", deep=True)
    assert found == []
    assert max(sizes) <= 4096
    assert sum(sizes) == 8 * (30_000 + 64 * 64 * 3)


def test_a_matrix_is_looked_at_across_blocks(tmp_path: Path, set_limits: SetLimits) -> None:
    """A fall of indptr just between two blocks is found too."""
    set_limits(piece_bytes=16)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = make.matrix(file, shape=(8, 2))
        for name, data in (("data", np.ones(8, "f4")), ("indices", np.zeros(8, "i4"))):
            make.put(made, name, data)
        make.put(made, "indptr", np.array([0, 1, 2, 5, 4, 5, 6, 7, 8], "<i4"))
    assert [(one.rule, one.path) for one in cn.check(tmp_path / "a.h5", deep=True)] == [("A4", "/m/indptr")]


def test_claims_are_not_believed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", (1 << 50,), "f8", chunks=(1 << 20,))
        make.marked(made, "array", "0.2.0")
        wide = file.create_dataset("y", (1 << 30, 1 << 30), "f8", chunks=(1 << 10, 1 << 10))
        make.marked(wide, "array", "0.2.0")
        inner = make.categorical(file)
        del inner["codes"]
        make.marked(inner.create_dataset("codes", (1 << 50,), "i1", chunks=(1 << 20,)), "array", "0.2.0")
    found = cn.check(tmp_path / "a.h5", deep=True)
    assert {one.rule for one in found} == {"H1"}
    assert {"/x", "/y"} <= {one.path for one in found}


def test_bytes_that_are_damaged_are_findings(tmp_path: Path) -> None:
    """Whatever bytes of a file are wrong, the checker ends and never raises."""
    whole = (GOLDEN / "h5ad" / "cellxgene_example_valid.h5ad").read_bytes()
    random = np.random.default_rng(7)
    for _ in range(40):
        data = bytearray(whole)
        for place in random.integers(0, len(data), 30):
            data[place] = int(random.integers(0, 256))
        (tmp_path / "d.h5ad").write_bytes(data)
        cn.check(tmp_path / "d.h5ad", deep=True)
