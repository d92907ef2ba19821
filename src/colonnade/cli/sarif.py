"""Findings as SARIF 2.1.0, the format in which checkers report to code-review services."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from colonnade import __version__
from colonnade.checking import ALL_RULES
from colonnade.cli.answer import Facts
from colonnade.model import Finding, Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_PLACES = {rule: place for place, rule in enumerate(ALL_RULES)}


def document_of(rule: str) -> str:
    """The document whose clauses a rule cites."""
    return {"A": "AnnData", "D": "ArtifactDB"}.get(rule[:1], "HEP001")


def sarif_log(file: str, findings: Sequence[Finding], readable: bool) -> Facts:
    """One run of the checker on one file."""
    driver = {"name": "colonnade", "version": __version__, "rules": [_rule(rule) for rule in ALL_RULES.values()]}
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": readable}],
        "artifacts": [{"location": {"uri": _uri(file)}}],
        "results": [_result(file, finding) for finding in findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _uri(file: str) -> str:
    """A URI; for a relative path, a reference relative to where the checker ran."""
    if "://" in file:
        return file
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix(), safe="/")


def _rule(rule: Rule) -> Facts:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.says},
        "help": {
            "text": f"{rule.advice} {document_of(rule.id)}, clause {rule.clause}." if rule.clause else rule.advice
        },
    }


def _result(file: str, finding: Finding) -> Facts:
    place = {
        "physicalLocation": {"artifactLocation": {"uri": _uri(file), "index": 0}},
        "logicalLocations": [{"fullyQualifiedName": finding.path, "kind": "object"}],
    }
    return {
        "ruleId": finding.rule,
        "ruleIndex": _PLACES[finding.rule],
        "level": finding.severity,
        "message": {"text": f"{finding.path}: {finding.message}"},
        "locations": [place],
        "properties": {
            "clause": finding.clause,
            "found": finding.found,
            "expected": finding.expected,
            "advice": finding.advice,
        },
    }
