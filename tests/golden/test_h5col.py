"""Tables of H5Col, most of them by its reference implementation: what is read is what the manifest says, by value.

The files `wrong_*` break one rule per table, or were made to hurt: the manifest says what a good reader does.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

import colonnade as cn
from colonnade.errors import ColonnadeError, CorruptError, UnsupportedError

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


@pytest.mark.parametrize("file", FILES)
def test_the_files_are_those_of_the_manifest(file: str) -> None:
    data = (FOLDER / file).read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (FILES[file]["bytes"], FILES[file]["sha256"])


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
            if name in wanted["values"] and (path, name) not in ALLOWED:
                assert plain(table[name].to_arrow().to_pylist()) == plain(wanted["values"][name]), name
            elif name in wanted.get("columns", [name]):
                with pytest.raises(ColonnadeError, match=r"\S"):
                    table[name].to_arrow()


@pytest.mark.parametrize(("file", "path"), WITH_VALUES)
def test_rows_are_read_alone_and_in_files_open_for_changes(file: str, path: str, tmp_path: Path) -> None:
    wanted = expected(file, path)["values"]
    with cn.open(copy_of(file, tmp_path), "r+") as opened:
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
        with pytest.raises(ColonnadeError):
            opened[path]["l"].to_arrow()


def test_references_out_of_the_file_are_not_followed() -> None:
    with cn.open(FOLDER / "wrong_3_hostile.h5", library="never") as opened:
        table = opened["/std_refs"]
        assert [column.name for column in table.info.members if column.problem is None] == ["a"]
        assert {str(column.problem) for column in table.info.members if column.problem} == {
            "its CATEGORIES does not refer to a dataset (rule JK3)"
        }
