"""The SARIF log against the shape that the 2.1.0 schema requires.

The facts of the schema that concern us stand here by hand; the log of 31 files of the kit was also put through
Microsoft's validator (sarif-multitool 5.7.0 of npm), which has the schema inside: no errors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
from click.testing import CliRunner

from colonnade.cli.commands import main

KIT = Path(__file__).resolve().parents[1] / "conformance" / "files"

# Of each object: what it must have, and what else of it we use. The schema allows nothing that it does not name.
SHAPES: dict[str, tuple[set[str], set[str]]] = {
    "log": ({"version", "runs"}, {"$schema"}),
    "run": ({"tool"}, {"invocations", "artifacts", "results"}),
    "tool": ({"driver"}, set()),
    "driver": ({"name"}, {"version", "rules"}),
    "rule": ({"id"}, {"shortDescription", "help"}),
    "text": ({"text"}, set()),
    "invocation": ({"executionSuccessful"}, set()),
    "artifact": (set(), {"location"}),
    "result": ({"message"}, {"ruleId", "ruleIndex", "level", "locations", "properties"}),
    "location": (set(), {"physicalLocation", "logicalLocations"}),
    "physical": ({"artifactLocation"}, set()),
    "place": (set(), {"uri", "index"}),
    "logical": (set(), {"fullyQualifiedName", "kind"}),
}


def shaped(found: Any, shape: str) -> Any:
    must, may = SHAPES[shape]
    assert isinstance(found, dict), shape
    assert must <= set(found) <= must | may, (shape, set(found))
    return found


def check_place(found: Any, n_artifacts: int) -> None:
    place = shaped(found, "place")
    uri = urlparse(place["uri"])
    assert " " not in place["uri"]
    assert uri.scheme == "file" or not uri.path.startswith("/")  # a path with a root has a scheme
    assert type(place.get("index", 0)) is int
    assert -1 <= place.get("index", -1) < n_artifacts


def check_result(found: Any, rules: list[str], n_artifacts: int) -> None:
    result = shaped(found, "result")
    assert isinstance(shaped(result["message"], "text")["text"], str)
    assert type(result["ruleIndex"]) is int
    assert rules[result["ruleIndex"]] == result["ruleId"]
    assert result["level"] in ("none", "note", "warning", "error")
    assert isinstance(result["properties"], dict)
    for one in result["locations"]:
        location = shaped(one, "location")
        check_place(shaped(location["physicalLocation"], "physical")["artifactLocation"], n_artifacts)
        for logical in location["logicalLocations"]:
            assert all(isinstance(text, str) for text in shaped(logical, "logical").values())


def check_log(log: Any) -> list[Any]:
    """The results of a log that is as it must be."""
    assert shaped(log, "log")["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = shaped(shaped(shaped(run, "run")["tool"], "tool")["driver"], "driver")
    assert isinstance(driver["name"], str)
    rules = [shaped(rule, "rule")["id"] for rule in driver["rules"]]
    assert len(set(rules)) == len(rules)
    for rule in driver["rules"]:
        assert all(isinstance(shaped(rule[key], "text")["text"], str) for key in ("shortDescription", "help"))
    assert all(type(shaped(one, "invocation")["executionSuccessful"]) is bool for one in run["invocations"])
    for artifact in run["artifacts"]:
        check_place(shaped(artifact, "artifact")["location"], len(run["artifacts"]))
    for result in run["results"]:
        check_result(result, rules, len(run["artifacts"]))
    results: list[Any] = run["results"]
    return results


def log_of(file: str) -> Any:
    return json.loads(CliRunner().invoke(main, ["check", "--deep", "--sarif", file]).stdout)


@pytest.mark.parametrize("path", sorted(KIT.glob("*.h5"))[::5], ids=lambda path: path.name)
def test_the_log_of_every_kind_of_file_has_the_shape_of_the_schema(path: Path) -> None:
    check_log(log_of(str(path)))


def test_a_file_that_is_no_hdf5_and_has_a_strange_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "not hdf5, é%.h5"
    (tmp_path / name).write_text("no")
    monkeypatch.chdir(tmp_path)
    assert check_log(log_of(name))
    whole = log_of(str(tmp_path / name))
    assert check_log(whole)
    uri = whole["runs"][0]["artifacts"][0]["location"]["uri"]
    assert unquote(urlparse(uri).path) == str(tmp_path / name)
