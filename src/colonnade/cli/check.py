"""`check` and `fix`: checks a file against every rule of its tables, and repairs what needs no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from rich.console import Console

from colonnade import __version__
from colonnade.checking import ALL_RULES, Checked, Findings, Fixed
from colonnade.cli.answer import FILE, FINDINGS, FINE, Facts, print_json
from colonnade.cli.progress import counting_rows, waiting
from colonnade.cli.text import cell, open_console, plural
from colonnade.dataclass import dataclass
from colonnade.model import Finding, Repair, Rule, Severity
from colonnade.pager.options import Links
from colonnade.table.checking import check, fix
from colonnade.table.show import size_text

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
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
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _uri(file: str) -> str:
    """A URI; for a relative path, a reference relative to where the checker ran."""
    if "://" in file:
        return file
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix(), safe="/")


def _rule(rule: Rule) -> Facts:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.requires},
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


OutputFormat = Literal["text", "json", "sarif"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


@dataclass(frozen=True)
class Asked:
    """What to check, and which findings to show."""

    table: str | None
    deep: bool
    severity: Severity
    strict: bool
    links: Links = "folder"
    generation: str | None = None


def check_file(file: str, asked: Asked, form: OutputFormat) -> int:
    with counting_rows(f"checking {file}") as progress:
        found = check(
            file, asked.table, deep=asked.deep, progress=progress, links=asked.links, generation=asked.generation
        )
    shown = [one for one in found if SEVERITIES.index(one.severity) <= SEVERITIES.index(asked.severity)]
    if form == "json":
        print_json(check_facts(file, found, shown))
    elif form == "sarif":
        print_json(sarif_log(file, shown, found.checked.readable))
    else:
        _show(file, found, shown)
    return exit_code(found, asked.strict)


def exit_code(found: Findings, strict: bool) -> int:
    """0 no errors, 1 errors (if strict, warnings too) or nothing to check, 3 not readable."""
    if not found.checked.readable:
        return FILE
    bad = SEVERITIES[:2] if strict else SEVERITIES[:1]
    return FINDINGS if any(one.severity in bad for one in found) or not _n_looked_at(found) else FINE


def _n_looked_at(found: Findings) -> int:
    return found.checked.tables + found.checked.sparse_arrays + found.checked.elements


def check_facts(file: str, found: Findings, shown: Sequence[Finding]) -> Facts:
    """All findings as plain data."""
    return {
        "file": file,
        "checked": asdict(found.checked),
        "counts": {severity: _count(found, severity) for severity in SEVERITIES},
        "findings": [asdict(one) for one in shown],
    }


def _count(found: Sequence[Finding], severity: Severity) -> int:
    return sum(one.severity == severity for one in found)


# -- text --


def _show(file: str, found: Findings, shown: Sequence[Finding]) -> None:
    console = open_console()
    for one in shown:
        show_finding(console, one)
    if shown:
        console.print()
    counts = ", ".join(plural(_count(found, one), one) for one in SEVERITIES if _count(found, one))
    style = "red" if _count(found, "error") else "yellow" if _count(found, "warning") else "green"
    checked = found.checked
    silent = "no findings" if _n_looked_at(found) else "nothing was checked"
    console.print(cell(f"{file}: {counts or silent}", style), soft_wrap=True)
    if checked.tables_without_rules:
        n_left = plural(checked.tables_without_rules, "table")
        console.print(cell(f"not looked at: {n_left} of a layout that has no rules yet", "yellow"), soft_wrap=True)
    console.print(cell(_looked_at(found.checked), "dim"), soft_wrap=True)


def show_finding(console: Console, one: Finding) -> None:
    """Print severity, rule and path; then the message, and the advice."""
    head = cell(f"{one.severity:<8}", STYLES[one.severity]) + cell(f"{one.rule:<3} {one.path}")
    console.print(head, soft_wrap=True)
    console.print(cell(f"        {one.message}"), soft_wrap=True)
    if one.found and one.expected and one.found not in one.message:
        console.print(cell(f"        found {one.found}, expected {one.expected}", "dim"), soft_wrap=True)
    clause = f" ({document_of(one.rule)} {one.clause})" if one.clause else ""
    console.print(cell(f"        {one.advice}{clause}", "dim"), soft_wrap=True)


def _looked_at(checked: Checked) -> str:
    if not checked.readable:
        return "nothing could be looked at"
    parts = [
        plural(checked.tables, "table"),
        plural(checked.columns, "column"),
        plural(checked.attributes, "attribute"),
    ]
    if checked.elements:
        parts.append(plural(checked.elements, "AnnData element"))
    if checked.sparse_arrays:
        parts.append(plural(checked.sparse_arrays, "sparse array"))
    values = f"values: {size_text(checked.bytes_read)} read" if checked.deep else "no values: --deep reads them"
    return f"looked at {', '.join(parts)}; {values}"


# -- fix --


def fix_file(file: str, dry_run: bool, as_json: bool) -> int:
    with waiting(f"repairing {file}"):
        fixed = fix(file, dry_run=dry_run)
    if as_json:
        print_json(_repairs_facts(file, fixed))
    else:
        _show_repairs(file, fixed)
    return FINDINGS if fixed.left.errors else FINE


def _repairs_facts(file: str, fixed: Fixed) -> Facts:
    return {
        "file": file,
        "dry_run": fixed.dry_run,
        "repairs": [_repair_facts(repair) for repair in fixed.repairs],
        "left": [asdict(finding) for finding in fixed.left],
    }


def _repair_facts(repair: Repair) -> Facts:
    return {
        "path": repair.path,
        "rules": list(dict.fromkeys(rule for rule, _ in repair.fixes)),
        "action": repair.action,
    }


def _show_repairs(file: str, fixed: Fixed) -> None:
    console = open_console()
    done = "would repair" if fixed.dry_run else "repaired"
    for repair in fixed.repairs:
        rules = " ".join(dict.fromkeys(rule for rule, _ in repair.fixes))
        console.print(cell(f"{done}  ", "green") + cell(f"{rules} {repair.path}: {repair.action}"), soft_wrap=True)
    for finding in fixed.left:
        show_finding(console, finding)
    if fixed.repairs or fixed.left:
        console.print()
    left = f", {plural(len(fixed.left), 'finding')} left" if fixed.left else ""
    summary = f"{plural(len(fixed.repairs), 'repair')}{' to do' if fixed.dry_run else ''}{left}"
    console.print(cell(f"{file}: {summary if fixed.repairs or left else 'nothing to repair'}"), soft_wrap=True)
