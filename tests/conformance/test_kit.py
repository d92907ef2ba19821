"""The conformance kit: every rule has its pair, every file says what the manifest says, and what can be mended is."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.checking import layout_rules
from tests.conformance import make

FOLDER = Path(__file__).parent
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
FILES: list[dict[str, Any]] = MANIFEST["files"]
IDS = [Path(entry["file"]).stem for entry in FILES]
HEP001 = layout_rules()["hep001"]
# The numbers of the page of rules (../shared/spec/hep001-rules.md when the project began), and H1.
NUMBERS = {
    "H1",
    *(f"T{n}" for n in range(1, 8)),
    *(f"C{n}" for n in range(1, 10)),
    *(f"I{n}" for n in range(1, 5)),
    *(f"S{n}" for n in range(1, 9)),
    *(f"M{n}" for n in range(1, 4)),
}
UNREADABLE = (OSError, KeyError, TypeError, ValueError)
every_file = pytest.mark.parametrize("entry", FILES, ids=IDS)


def places(findings: list[cn.Finding]) -> list[tuple[str, str, str]]:
    return sorted((one.rule, one.severity, one.path) for one in findings)


def expected(entry: dict[str, Any], deep: bool = True) -> list[tuple[str, str, str]]:
    return sorted((one["rule"], one["severity"], one["path"]) for one in entry["expected"] if deep or not one["deep"])


def check_said(found: list[cn.Finding]) -> None:
    """Every finding says all that it should."""
    for one in found:
        assert one.message
        assert one.clause
        assert one.advice
        assert one.rule == "H1" or (one.found and one.expected)


def is_needed(layout: str, module: Any, number: str, check: Any, kit: tuple[Path, list[dict[str, Any]]]) -> bool:
    """Whether without a function of a rule some bad file of it would pass; of layouts whose rules are a tuple."""
    rules = layout_rules()[layout].RULES
    left = tuple(replace(rule, checks=tuple(one for one in rule.checks if one is not check)) for rule in rules)
    folder, files = kit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RULES", left)
        own = [entry for entry in files if entry["rule"] == number]
        return any(places(cn.check(folder / entry["file"], deep=True)) != expected(entry) for entry in own)


def test_every_number_is_a_rule_or_has_a_reason() -> None:
    rules = [rule.id for rule in HEP001.RULES]
    assert len(set(rules)) == len(rules)
    assert set(rules) | set(HEP001.NOT_SHOWN) == NUMBERS
    assert not set(rules) & set(HEP001.NOT_SHOWN)
    assert all(rule.requires and rule.clause and rule.advice for rule in HEP001.RULES)


def test_every_rule_has_a_pair_and_every_file_a_rule() -> None:
    for rule in HEP001.RULES:
        own = [entry for entry in FILES if entry["rule"] == rule.id]
        assert any(not entry["expected"] for entry in own), f"no good file for {rule.id}"
        bad = [entry for entry in own if entry["expected"]]
        assert bad, f"no bad file for {rule.id}"
        assert all(rule.id in {one["rule"] for one in entry["expected"]} for entry in bad)
    known = {rule.id for rule in HEP001.RULES} | {"example"}
    assert all(entry["rule"] in known for entry in FILES)
    assert sorted(entry["file"] for entry in FILES) == sorted(f"files/{path.name}" for path in FOLDER.glob("files/*"))


def test_the_kit_is_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.glob("files/*")]
    assert max(sizes) < 20_000
    assert sum(sizes) < 4_000_000


@every_file
@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
def test_exactly_what_is_expected_is_found(entry: dict[str, Any], deep: bool) -> None:
    found = cn.check(FOLDER / entry["file"], deep=deep)
    assert places(found) == expected(entry, deep)
    assert found.checked.readable
    check_said(found)


@every_file
def test_what_a_reader_notes_is_found(entry: dict[str, Any]) -> None:
    """A table never has a problem that the checker does not tell."""
    with cn.open(FOLDER / entry["file"]) as file:
        for path in file.tables():
            try:
                problems = file[path].problems
            except cn.errors.UnsupportedError:
                continue
            serious = [one for one in problems if one.severity != "note"]
            assert not serious or expected(entry, deep=False)


@every_file
def test_what_can_be_mended_is_mended_once(entry: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    shutil.copy(FOLDER / entry["file"], path)
    before = path.read_bytes()
    planned = cn.fix(path, dry_run=True)
    assert path.read_bytes() == before
    rows = readable_rows(path)
    done = cn.fix(path)
    assert done.repairs == planned.repairs
    assert places(done.left) == places(planned.left)
    after = cn.check(path, deep=True)
    if entry["fixable"]:
        assert done.repairs
        assert after == []
    else:
        assert done.repairs == []
        assert places(after) == expected(entry)
        assert path.read_bytes() == before
    assert readable_rows(path) == rows, "fix has touched data"
    kept = path.read_bytes()
    assert cn.fix(path).repairs == []
    assert path.read_bytes() == kept


def readable_rows(path: Path) -> dict[str, Any]:
    """The values of every dataset of a table that is no index, by h5py."""
    found: dict[str, Any] = {}
    with h5py.File(path) as file:
        for name in file.get("t", ()):
            try:
                node = file["t"][name]
                if isinstance(node, h5py.Dataset) and "KIND" not in node.attrs:
                    found[name] = repr(node[()].tolist())
            except UNREADABLE as error:
                found[name] = type(error).__name__
    return found


def test_the_script_makes_these_files(tmp_path: Path) -> None:
    make.main([str(tmp_path)])
    assert json.loads((tmp_path / "manifest.json").read_text()) == MANIFEST
    for entry in FILES:
        with h5py.File(FOLDER / entry["file"]) as kept, h5py.File(tmp_path / entry["file"]) as made:
            assert content(kept["/"]) == content(made["/"]), entry["file"]


def content(node: Any) -> Any:
    """A group or dataset as plain data: attributes with their datatypes, links, values."""
    held = {name: attribute(node, name) for name in node.attrs}
    if isinstance(node, h5py.Dataset):
        kind = node.id.get_type()
        return held, kind.encode(), node.shape, node.chunks, values(node), node.id.get_create_plist().get_layout()
    return held, {name: behind(node, name) for name in node.id}


def behind(group: Any, name: bytes) -> Any:
    """What a link leads to. By h5py's lower half, since one name is no UTF-8."""
    if group.id.links.get_info(name).type != h5py.h5l.TYPE_HARD:
        return group.id.links.get_val(name)
    try:
        node = h5py.h5o.open(group.id, name)
    except KeyError as error:
        return str(error)
    return content(h5py.Dataset(node) if isinstance(node, h5py.h5d.DatasetID) else h5py.Group(node))


def attribute(node: Any, name: str) -> Any:
    held = node.attrs.get_id(name)
    if held.get_type().get_class() == h5py.h5t.REFERENCE and held.get_type().get_size() != 8:
        return held.get_type().encode(), held.shape  # the form of HDF5 1.12, which h5py does not read
    if h5py.check_ref_dtype(held.dtype) is None:
        image = np.zeros(held.shape, held.dtype)
        held.read(image)
        return held.get_type().encode(), held.shape, repr(image.tolist())
    references = [node.attrs[name]] if held.shape == () else list(node.attrs[name])
    return held.shape, [node.file[one].name if one else None for one in references]


def values(dataset: Any) -> Any:
    try:
        return repr(dataset[()])
    except UNREADABLE as error:
        return type(error).__name__
