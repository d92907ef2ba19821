"""Tables of H5Col, most of them by its reference implementation: what is read is what the manifest says, by value.

The files `wrong_*` break one rule per table, or were made to hurt: the manifest says what a good reader does.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ColonnadeError, CorruptError, UnsupportedError
from colonnade.h5 import capi

FOLDER = Path(__file__).parent / "h5col"
FILES: dict[str, Any] = json.loads((FOLDER / "manifest.json").read_text())["files"]
TABLES = [(file, path) for file, entry in FILES.items() for path in entry["tables"]]
WITH_VALUES = [(file, path) for file, path in TABLES if "values" in FILES[file]["tables"][path]]
WITH_INDEXES = [
    (file, path) for file, path in TABLES if any("name" in i for i in FILES[file]["tables"][path].get("indexes") or ())
]
WITH_QUERIES = [(file, path) for file, path in TABLES if "queries" in FILES[file]["tables"][path]]
ALLOWED = {("/mask_integers", "l")}  # the manifest allows to refuse the column
NOT_A_TABLE = {"/class_lower", "/class_blank", "/class_on_dataset", "/list_alone"}
NOT_READ = {"/v2", "/v10", "/v_huge"}
OF_HDF5_2 = {"wrong_2_rules.h5", "wrong_1_false_indexes.h5"}  # with a table of such a datatype
NO_LENGTH = {"/nrows_negative", "/nrows_text", "/huge_nrows"}


def plain(value: object) -> object:
    """A value as the manifest has it, with floats as their texts: -0.0 is not 0.0."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return repr(value) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return f"hex:{value.hex()}"
    if isinstance(value, complex):
        return [repr(value.real), repr(value.imag)]
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


def expected(file: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = FILES[file]["tables"][path]
    return found


def taken(table: cn.Table, name: str, rows: list[int]) -> list[object]:
    """Some rows of one column."""
    values: list[object] = table.select(name).take(rows).to_arrow()[name].to_pylist()
    return values


def copy_of(file: str, folder: Path) -> Path:
    return Path(shutil.copy(FOLDER / file, folder / file))


def copy_to_change(file: str, folder: Path) -> Path:
    if int(capi.hdf5_version().partition(".")[0]) < 2 and file in OF_HDF5_2:
        pytest.skip("HDF5 2.0 wrote datatypes that the HDF5 of this h5py cannot open, see test_newer_datatypes.py")
    return copy_of(file, folder)


@pytest.mark.parametrize("file", FILES)
def test_the_files_are_those_of_the_manifest(file: str) -> None:
    data = (FOLDER / file).read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (FILES[file]["bytes"], FILES[file]["sha256"])


# JM8: what the mask says FALSE of is missing instead of the fill, which is then a value.
BY_MASK = {("/mask_attribute", "a"): [1, -2147483647, None, 4]}


@pytest.mark.parametrize("library", ["never", "auto"])
@pytest.mark.parametrize(("file", "path"), WITH_VALUES)
def test_every_column_is_read_by_value(file: str, path: str, library: Any) -> None:
    """Without libhdf5 too. A column that the manifest leaves out is refused, and no other one with it."""
    wanted = expected(file, path)
    with cn.open(FOLDER / file, library=library) as opened:
        table = opened[path]
        if "columns" in wanted:
            assert (table.info.column_names, table.info.label_names) == (wanted["columns"], wanted["labels"])
        for name in table.info.by_name:
            if (path, name) in BY_MASK:
                assert table[name].to_arrow().to_pylist() == BY_MASK[path, name]
            elif name in wanted["values"] and (path, name) not in ALLOWED:
                assert plain(table[name].to_arrow().to_pylist()) == plain(wanted["values"][name]), name
            elif name in wanted.get("columns", [name]):
                with pytest.raises(ColonnadeError, match=r"\S"):
                    table[name].to_arrow()


@pytest.mark.parametrize(("file", "path"), WITH_VALUES)
def test_rows_are_read_alone_and_in_files_open_for_changes(file: str, path: str, tmp_path: Path) -> None:
    wanted = expected(file, path)["values"]
    with cn.open(copy_to_change(file, tmp_path), "r+") as opened:
        table = opened[path]
        for name in table.info.by_name:
            if name not in wanted or (path, name) in ALLOWED:
                continue
            n_rows = table.info.n_rows
            chosen = [[row] for row in (0, n_rows // 2, n_rows - 1)] if n_rows else []
            for rows in [*chosen, list(range(0, n_rows, 2))]:
                assert plain(taken(table, name, rows)) == plain([wanted[name][row] for row in rows]), name


@pytest.mark.parametrize(("file", "path"), WITH_INDEXES)
def test_tokens_tell_stale_indexes(file: str, path: str) -> None:
    with cn.open(FOLDER / file) as opened:
        found = {index.name: index for index in opened[path].indexes}
        for index in expected(file, path)["indexes"]:
            state = found[index["name"]].state
            if index.get("valid") is not None:
                assert (state != "stale") is index["valid"], index["name"]
            assert state in ("stale", "unverified")


@pytest.mark.parametrize(("file", "path"), [c for c in WITH_INDEXES if not c[0].startswith("wrong")])
def test_indexes_of_others_are_verified(file: str, path: str, tmp_path: Path) -> None:
    """All that h5col builds is right, and trusted from then on; a stale index is a note and stays stale."""
    with cn.open(copy_of(file, tmp_path)) as opened:
        table = opened[path]
        findings = table.verify_indexes()
        assert {finding.severity for finding in findings} <= {"note"}
        assert all("stale" in finding.message for finding in findings)
        assert {index.state for index in table.indexes} <= {"trusted", "stale"}


@pytest.mark.parametrize("trust", ["never", "verified", "always"])
@pytest.mark.parametrize(("file", "path"), [case for case in WITH_QUERIES if not case[0].startswith("wrong")])
def test_queries_find_the_rows_of_the_manifest(file: str, path: str, trust: Any, tmp_path: Path) -> None:
    with cn.open(copy_of(file, tmp_path), trust=trust) as opened:
        table = opened[path]
        if trust == "verified":
            table.verify_indexes()
        for query in expected(file, path)["queries"]:
            where = query["where"].replace("b is true", "b == true")
            assert table.where(where).row_numbers().tolist() == query["rows"], where


@pytest.mark.parametrize(("file", "path"), [case for case in WITH_QUERIES if case[0].startswith("wrong")])
def test_false_indexes_are_found_out_and_change_no_answer(file: str, path: str, tmp_path: Path) -> None:
    with cn.open(copy_of(file, tmp_path)) as opened:
        table = opened[path]
        for query in expected(file, path)["queries"]:
            assert table.where(query["where"]).row_numbers().tolist() == query["rows"], query["where"]
        assert [finding for finding in table.verify_indexes() if finding.severity == "error"]
        assert any(not index.trusted for index in table.indexes)
        for query in expected(file, path)["queries"]:
            assert table.where(query["where"]).row_numbers().tolist() == query["rows"], query["where"]


@pytest.mark.parametrize("path", list(FILES["wrong_4_versions.h5"]["tables"]))
def test_versions_and_classes(path: str) -> None:
    with cn.open(FOLDER / "wrong_4_versions.h5", library="never") as opened:
        if path in NOT_A_TABLE:
            assert path not in opened.tables()
            with pytest.raises(ColonnadeError):
                opened[path]
        elif path in NOT_READ:
            with pytest.raises(UnsupportedError, match=r"version \d+.*up to 1\.x"):
                opened[path]
        else:
            assert opened[path].info.n_rows == 2


@pytest.mark.parametrize(
    ("file", "path"), [case for case in TABLES if case[0] in ("wrong_2_rules.h5", "wrong_3_hostile.h5")]
)
def test_what_is_wrong_is_refused_by_name(file: str, path: str) -> None:
    """No answer is invented, nothing hangs, and the columns that are right are read."""
    with cn.open(FOLDER / file, library="never") as opened:
        if path in NO_LENGTH:
            with pytest.raises(CorruptError, match="NROWS"):
                opened[path]
            return
        table = opened[path]
        assert [index.state for index in table.indexes if index.trusted] == []
        if path == "/huge_claim":
            assert len(taken(table, "a", [0, 1, 2])) == 3
            for name in ("a", "l"):
                with pytest.raises(ColonnadeError):
                    table[name].to_arrow()
            return
        for column in table.info.members:
            if column.problem is not None:
                with pytest.raises(ColonnadeError, match=column.name):
                    table[column.name].to_arrow()


@pytest.mark.parametrize("path", ["/cycle", "/deep", "/members_are_columns", "/external_link", "/offsets_wrap"])
def test_hostile_lists_are_refused(path: str) -> None:
    with cn.open(FOLDER / "wrong_3_hostile.h5", library="never") as opened:
        assert len(opened[path]["a"].to_arrow()) == 3
        if path == "/cycle":
            assert opened[path]["l"].info.problem == "its lists contain themselves (rule JX4)"
        with pytest.raises(ColonnadeError):
            opened[path]["l"].to_arrow()


def test_references_out_of_the_file_are_not_followed() -> None:
    with cn.open(FOLDER / "wrong_3_hostile.h5", library="never") as opened:
        table = opened["/std_refs"]
        assert [column.name for column in table.info.members if column.problem is None] == ["a"]
        assert {str(column.problem) for column in table.info.members if column.problem} == {
            "its CATEGORIES does not refer to a dataset (rule JK3)"
        }


# -- rules --

BAD = [(f, p) for f, p in TABLES if f.startswith("wrong") and not (f.startswith("wrong_4") and p in NOT_A_TABLE)]
RULE_OF: dict[str, set[str]] = {  # where the manifest names a rule of readers, or one that another one includes
    "/nrows_too_large": {"JC6"},
    "/mask_integers": {"JB2"},
    "/index_on_list": {"JL11", "JS2"},
    "/list_leaf_codes": {"JL14"},
    "/huge_nrows": {"JT3"},
    "/huge_claim": {"H1"},
    "/cycle": {"JX4"},
    "/deep": {"JX4"},
    "/external_link": {"JL3", "JC1"},
    "/std_refs": {"JK3"},
    "/v1_9": set(),
    "/v1_0_3": set(),
}


def rules_of(file: str, path: str) -> set[str]:
    """The rules that a table breaks. It is one finding per table that references are of the older form."""
    with cn.open(FOLDER / file) as opened:
        return {finding.rule for finding in cn.check(opened, path, deep=True) if finding.rule != "JR1"}


@pytest.mark.parametrize(("file", "path"), BAD)
def test_what_is_wrong_is_found_by_its_rule(file: str, path: str) -> None:
    named = set(expected(file, path)["rule"].split()) - {"JX"}
    wanted = {"S8"} if file.startswith("wrong_1") else RULE_OF.get(path, named)
    assert wanted <= rules_of(file, path) and (wanted or not rules_of(file, path))


@pytest.mark.parametrize("file", [file for file in FILES if not file.startswith(("wrong", "14_", "13_pair_april"))])
def test_what_is_right_has_no_errors(file: str) -> None:
    findings = cn.check(FOLDER / file, deep=True)
    assert {finding.severity for finding in findings} <= {"warning", "note"}
    allowed = {"JR1", "JT5"} if file == "06_labels.h5" else {"JR1", "JT1", "JT2"}
    assert {finding.rule for finding in findings if finding.severity == "warning"} <= allowed


def test_a_file_to_the_letter_has_no_findings() -> None:
    assert cn.check(FOLDER / "10_strict.h5", deep=True) == []


def reserved_name(table: h5py.Group) -> None:
    table.move("x", "TITLE")
    table.attrs["column-order"] = np.array([b"TITLE"])


def text_of_variable_length(table: h5py.Group) -> None:
    table.attrs["TITLE"] = "a title"


def no_fill(table: h5py.Group) -> None:
    del table["x"]
    table.create_dataset("x", data=np.arange(3), chunks=(2,), maxshape=(None,))


def fill_that_is_no_member(table: h5py.Group) -> None:
    del table["x"]
    enum = h5py.enum_dtype({"OK": 0, "BAD": 1}, basetype="i1")
    table.create_dataset("x", data=np.zeros(3, "i1"), dtype=enum, chunks=(2,), fillvalue=7)


def codes_of_floats(table: h5py.Group) -> None:
    labels = table.create_group("CATEGORIES").create_dataset("x", data=np.array([b"a"]))
    table["x"].attrs["CATEGORIES"] = labels.ref


def list_without_class(table: h5py.Group) -> None:
    table.create_group("l")
    table.attrs["column-order"] = np.array([b"x", b"l"])


def values_of_another_class(table: h5py.Group) -> None:
    column = table.create_group("l")
    column.attrs.update({"CLASS": np.bytes_("LIST_COLUMN"), "KIND": np.bytes_("OFFSETS")})
    column.create_dataset("OFFSETS", data=np.zeros(4, "u8"))
    column.create_group("VALUES").attrs["CLASS"] = np.bytes_("OTHER")
    table.attrs["column-order"] = np.array([b"x", b"l"])


BREAKS: dict[str, tuple[str, Callable[[h5py.Group], None]]] = {
    "a reserved name": ("JN1", reserved_name),
    "text of variable length": ("JT4", text_of_variable_length),
    "no fill": ("JM1", no_fill),
    "an enum without MISSING": ("JM6", fill_that_is_no_member),
    "codes of floats": ("JK1", codes_of_floats),
    "a list without CLASS": ("JL1", list_without_class),
    "values of another class": ("JL5", values_of_another_class),
}


def small_table(path: Path) -> h5py.Group:
    """The smallest table without findings, in an open file."""
    file = h5py.File(path, "w", libver=("v112", "v112"))
    table = file.create_group("t")
    table.create_dataset("x", data=np.array([0.5, 1.5, 2.5]), chunks=(2,), maxshape=(None,), fillvalue=9.96e36)
    table.attrs["NROWS"] = np.uint64(3)
    table.attrs["column-order"] = np.array([b"x"])
    for name, size, text in (("VERSION", 4, "1.0"), ("CLASS", 13, "COLUMN_TABLE")):
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(size)
        made = h5py.h5a.create(table.id, name.encode(), kind, h5py.h5s.create(h5py.h5s.SCALAR))
        made.write(np.array(text.encode(), f"S{size}"), mtype=kind)
    return table


@pytest.mark.parametrize("name", BREAKS)
def test_other_rules_are_broken_one_by_one(name: str, tmp_path: Path) -> None:
    rule, change = BREAKS[name]
    table = small_table(tmp_path / "t.h5")
    table.file.flush()
    with table.file:
        change(table)
    assert rule in {finding.rule for finding in cn.check(tmp_path / "t.h5", deep=True)}


def test_the_smallest_table_has_no_findings(tmp_path: Path) -> None:
    with small_table(tmp_path / "t.h5").file:
        pass
    assert cn.check(tmp_path / "t.h5", deep=True) == []


@pytest.mark.parametrize(
    ("path", "rule"),
    [("/order_misses", "JT5"), ("/order_unknown", "JT5"), ("/orphan_categories", "JK4"), ("/label_differs", "JI3")],
)
def test_fix_corrects_what_needs_no_data(path: str, rule: str, tmp_path: Path) -> None:
    copy = copy_to_change("wrong_2_rules.h5", tmp_path)
    before = expected("wrong_2_rules.h5", path)["values"]
    with cn.open(copy, "r+") as opened:
        assert rule in {finding.rule for finding in cn.check(opened, path)}
        cn.fix(opened)
        assert rule not in {finding.rule for finding in cn.check(opened, path)}
        for name, values in before.items():
            assert plain(opened[path][name].to_arrow().to_pylist()) == plain(values)


def test_fix_builds_stale_and_false_indexes_again(tmp_path: Path) -> None:
    for file in ("wrong_1_false_indexes.h5", "09_tokens.h5"):
        copy = copy_to_change(file, tmp_path)
        with cn.open(copy, "r+") as opened:
            cn.fix(opened)
        with cn.open(copy) as opened:
            for path in opened.tables():
                assert {finding.rule for finding in cn.check(opened, path, deep=True)} <= {"JR1", "JT1"}, path
                assert {index.state for index in opened[path].indexes} <= {"trusted"}, path
