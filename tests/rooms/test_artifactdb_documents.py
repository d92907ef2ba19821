"""The rules for metadata of ArtifactDB's data frames accept exactly what the public schema accepts."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colonnade.layouts.artifactdb.rules_documents import column_faults, key_faults, value_faults

jsonschema = pytest.importorskip("jsonschema")
dolomite_schemas = pytest.importorskip("dolomite_schemas")

Document = dict[str, Any]
Change = Callable[[Document], object]
LOCAL = {"resource": {"type": "local", "path": "df/levels.csv.gz"}}


def document() -> Document:
    """Metadata of version 2 with all that the schema has."""
    return {
        "$schema": "hdf5_data_frame/v1.json",
        "path": "df/simple.h5",
        "md5sum": "d41d8cd98f00b204e9800998ecf8427e",
        "is_child": True,
        "data_frame": {
            "version": 2,
            "dimensions": [10, 9],
            "row_names": True,
            "column_data": copy.deepcopy(LOCAL),
            "other_data": copy.deepcopy(LOCAL),
            "columns": [
                {"name": "a", "type": "integer"},
                {"name": "b", "type": "number"},
                {"name": "c", "type": "boolean"},
                {"name": "d", "type": "string"},
                {"name": "e", "type": "string", "format": "date"},
                {"name": "f", "type": "string", "format": "date-time"},
                {"name": "g", "type": "factor", "levels": copy.deepcopy(LOCAL), "ordered": True},
                {"name": "h", "type": "factor", "levels": copy.deepcopy(LOCAL)},
                {"name": "i", "type": "other", **copy.deepcopy(LOCAL)},
            ],
        },
        "hdf5_data_frame": {"group": "contents", "version": 2},
    }


def old_document() -> Document:
    """Metadata of version 1."""
    made = document()
    frame = made["data_frame"]
    frame["version"] = 1
    kinds = ("integer", "number", "boolean", "string", "date", "date-time", "factor", "ordered", "other")
    frame["columns"] = [{"name": f"c{at}", "type": kind} for at, kind in enumerate(kinds)]
    frame["columns"][6] |= {"levels": copy.deepcopy(LOCAL)}
    frame["columns"][7] |= {"levels": copy.deepcopy(LOCAL)}
    frame["columns"][8] |= copy.deepcopy(LOCAL)
    return made


def put(*path: Any) -> Change:
    """Put the last of these at the place that the others name."""

    def change(made: Any) -> None:
        for key in path[:-2]:
            made = made[key]
        made[path[-2]] = path[-1]

    return change


def drop(*path: Any) -> Change:
    def change(made: Any) -> None:
        for key in path[:-1]:
            made = made[key]
        del made[path[-1]]

    return change


OWN, FRAME = "hdf5_data_frame", "data_frame"
CHANGES: dict[str, Change] = {
    "nothing": lambda made: None,
    **{f"without {key}": drop(key) for key in ("$schema", "path", "md5sum", FRAME, OWN, "is_child")},
    **{f"{key} a number": put(key, 3) for key in ("$schema", "path", "md5sum", FRAME, OWN, "is_child")},
    **{f"{key} null": put(key, None) for key in ("$schema", FRAME, OWN, "is_child")},
    **{f"{key} an array": put(key, []) for key in (FRAME, OWN)},
    "a stranger": put("title", "mine"),
    "a stranger in data_frame": put(FRAME, "title", "mine"),
    "a stranger in hdf5_data_frame": put(OWN, "columns", []),
    "a stranger in a column": put(FRAME, "columns", 0, "units", "m"),
    "a stranger in column_data": put(FRAME, "column_data", "more", 1),
    "a stranger in a resource": put(FRAME, "columns", 6, "levels", "resource", "more", 1),
    **{
        f"without data_frame {key}": drop(FRAME, key)
        for key in ("version", "dimensions", "row_names", "column_data", "columns")
    },
    **{f"without hdf5_data_frame {key}": drop(OWN, key) for key in ("group", "version")},
    **{f"group {value!r}": put(OWN, "group", value) for value in ("", "/", 1, None)},
    **{f"frame version {value!r}": put(FRAME, "version", value) for value in (0, 1, -1, 2.0, 3, "2", 1.5, True, None)},
    **{f"own version {value!r}": put(OWN, "version", value) for value in (0, 1, 3, 3.0, 4, "1", 2.5, False, [])},  # type: ignore[var-annotated]
    **{  # type: ignore[var-annotated]
        f"dimensions {value!r}": put(FRAME, "dimensions", value)
        for value in ([], [1], [1, 2, 3], [1, 2], [1.0, 2.0], [1.5, 2], ["1", 2], [True, 2], [-1, 2], "10", None, {})
    },
    **{f"row_names {value!r}": put(FRAME, "row_names", value) for value in (False, 0, 1, "true", None)},
    **{f"columns {value!r}": put(FRAME, "columns", value) for value in ([], {}, None, "a", [1], [[]], [None], [{}])},  # type: ignore[var-annotated]
    **{f"without a {key}": drop(FRAME, "columns", 0, key) for key in ("name", "type")},
    **{f"name {value!r}": put(FRAME, "columns", 0, "name", value) for value in ("", "d", 1, None)},
    **{
        f"type {value!r}": put(FRAME, "columns", 0, "type", value)
        for value in ("number", "ordered", "date", "date-time", "other", "factor", "vls", "Integer", 1, None)
    },
    **{f"type {value} of a date": put(FRAME, "columns", 4, "type", value) for value in ("integer", "factor", "date")},
    **{f"type {word} of a factor": put(FRAME, "columns", 6, "type", word) for word in ("ordered", "string", "other")},
    **{f"type {value} of another": put(FRAME, "columns", 8, "type", value) for value in ("integer", "factor")},
    **{f"format {word!r}": put(FRAME, "columns", 3, "format", word) for word in ("none", "date", "time", "", 1, None)},
    "a format of an integer": put(FRAME, "columns", 0, "format", "date"),
    **{f"ordered {value!r}": put(FRAME, "columns", 7, "ordered", value) for value in (True, False, 1, "yes", None)},
    "ordered of a string": put(FRAME, "columns", 3, "ordered", False),
    "levels of a string": put(FRAME, "columns", 3, "levels", LOCAL),
    "a resource of a string": put(FRAME, "columns", 3, "resource", LOCAL["resource"]),
    "a factor without levels": drop(FRAME, "columns", 6, "levels"),
    "another without resource": drop(FRAME, "columns", 8, "resource"),
    **{  # type: ignore[var-annotated]
        f"levels {value!r}": put(FRAME, "columns", 6, "levels", value)
        for value in ({}, [], "levels", None, {"resource": {}}, {"resource": "x"}, {"resource": {"type": "local"}})
    },
    **{
        f"a resource {value!r}": put(FRAME, "columns", 8, "resource", value)
        for value in (
            {}, "x", {"path": "x"}, {"type": "web", "path": "x"}, {"type": "local", "path": 1}, {"type": 1, "path": ""},
        )
    },
    **{
        f"{key} {value!r}": put(FRAME, key, value)
        for key in ("column_data", "other_data")
        for value in ({}, None, {"resource": 1}, {"resource": {"type": "local", "path": ""}})
    },
}  # fmt: skip


def schema() -> Any:
    place = Path(dolomite_schemas.get_schema_directory()) / "hdf5_data_frame" / "v1.json"
    return jsonschema.Draft7Validator(json.loads(place.read_text()))


def accepts(made: Document) -> bool:
    return not [fault for faults in (key_faults, value_faults, column_faults) for fault in faults(made)]


BASES = {"version 2": document, "version 1": old_document}


def test_there_are_enough_changes_of_both_kinds() -> None:
    judge = schema()
    verdicts = []
    for base in BASES.values():
        for change in CHANGES.values():
            made = base()
            change_or_skip(change, made)
            verdicts.append(judge.is_valid(made))
    assert len(CHANGES) >= 100
    assert verdicts.count(True) >= 40
    assert verdicts.count(False) >= 100


def change_or_skip(change: Change, made: Document) -> bool:
    try:
        change(made)
    except KeyError:  # a key that this version has not: nothing to change
        return False
    return True


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
@pytest.mark.parametrize("name", CHANGES)
def test_the_rules_accept_what_the_schema_accepts(base: Callable[[], Document], name: str) -> None:
    made = base()
    change_or_skip(CHANGES[name], made)
    assert accepts(made) == schema().is_valid(made), [error.message for error in schema().iter_errors(made)]


@pytest.mark.parametrize("name", CHANGES)
def test_documents_are_never_an_error(name: str) -> None:
    """Without a schema at hand too: every fault has a place and its words."""
    made = document()
    change_or_skip(CHANGES[name], made)
    for faults in (key_faults, value_faults, column_faults):
        for where, message, found, expected in faults(made):
            assert isinstance(where, tuple)
            assert message
            assert found
            assert expected
