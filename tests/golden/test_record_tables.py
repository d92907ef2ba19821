"""Tables that PyTables, H5TB and h5py wrote, by the values of the manifest: what PyTables itself reads."""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import UnsupportedError

FOLDER = Path(__file__).parent / "foreign"
ENTRIES = json.loads((FOLDER / "record_tables.json").read_text())["files"]
TABLES = [(entry["file"], path, facts) for entry in ENTRIES for path, facts in entry["tables"].items()]
READABLE = [(file, path, facts) for file, path, facts in TABLES if "column_checksums" in facts]
LZO = [(file, path) for file, path, facts in TABLES if "read_error" in facts]


def checksum(values: list[Any]) -> str:
    """The manifest's checksum_rule."""
    text = json.dumps([plain(value) for value in values], separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def plain(value: Any) -> Any:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, (bool, int, str)):
        return value
    return repr(value) if isinstance(value, float) else str(value)


def nested(value: Any) -> Any:
    """Lists, structs and times as lists of plain values."""
    if isinstance(value, dict):
        return [nested(item) for item in value.values()]
    if isinstance(value, (list, tuple)):
        return [nested(item) for item in value]
    return plain(value.decode() if isinstance(value, bytes) else value)


def by_h5py(file: str, path: str, name: str) -> list[Any]:
    with h5py.File(FOLDER / file) as opened:
        values: list[Any] = opened[path].fields(name)[:].tolist()
    return values


def is_scalar(value: Any) -> bool:
    return not isinstance(value, (list, dict, datetime.datetime))


def test_there_are_samples() -> None:
    assert len(READABLE) > 30 and len(LZO) > 3


@pytest.mark.parametrize(("file", "path", "facts"), READABLE, ids=[f"{file}:{path}" for file, path, _ in READABLE])
def test_values_have_the_checksums_of_the_manifest(file: str, path: str, facts: dict[str, Any]) -> None:
    with cn.open(FOLDER / file, library="never") as opened:
        assert path in opened.tables()
        table = opened[path]
        assert (len(table), table.columns) == (facts["nrows"], facts["columns"])
        if facts["attrs"]:
            assert (table.title or "") == facts["attrs"]["TITLE"]
        rows = table.to_arrow()
        for name, expected in facts["column_checksums"].items():
            values = rows[name].to_pylist()
            assert table[name].to_arrow().to_pylist() == values
            if all(is_scalar(value) for value in values):
                assert checksum(values) == expected, name
            else:  # the manifest has these as NumPy happened to print them
                assert [nested(value) for value in values] == [nested(value) for value in by_h5py(file, path, name)]


@pytest.mark.parametrize(("file", "path"), LZO)
def test_filters_that_nobody_has_are_refused_by_name(file: str, path: str) -> None:
    with cn.open(FOLDER / file) as opened:
        assert len(opened[path]) == 100
        with pytest.raises(UnsupportedError, match="lzo"):
            opened[path].to_arrow()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["file"])
def test_indexes_of_pytables_are_not_tables(entry: dict[str, Any]) -> None:
    with cn.open(FOLDER / entry["file"]) as opened:
        assert set(entry["tables"]) <= set(opened.tables())
        assert not [path for path in opened.tables() if "/_i_" in path]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["file"])
def test_they_are_checked_without_errors(entry: dict[str, Any]) -> None:
    found = cn.check(FOLDER / entry["file"], deep=True)
    wrong = [finding for finding in found.errors if "lzo" not in finding.message]
    assert wrong == []
