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
OF_NO_DOCUMENT = "none"  # begins the clause of such a rule
_RULE_INDEXES = {rule: index for index, rule in enumerate(ALL_RULES)}


def citation(rule: str, clause: str) -> str:
    """The clause that a rule cites, with its document; empty for a rule that is of no document."""
    if not clause or clause.startswith(OF_NO_DOCUMENT):
        return ""
    document = {"A": "AnnData", "D": "ArtifactDB", "G": "vaex", "N": "HDMF"}.get(rule[:1])
    if document is None and clause[0].isdigit():
        document = "HEP001"
    return f"{document} {clause}" if document else clause  # others name their document themselves


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
    cited = citation(rule.id, rule.clause)
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.requires},
        "help": {"text": f"{rule.advice} See {cited}." if cited else rule.advice},
    }


def _result(file: str, finding: Finding) -> Facts:
    location = {
        "physicalLocation": {"artifactLocation": {"uri": _uri(file), "index": 0}},
        "logicalLocations": [{"fullyQualifiedName": finding.path, "kind": "object"}],
    }
    return {
        "ruleId": finding.rule,
        "ruleIndex": _RULE_INDEXES[finding.rule],
        "level": finding.severity,
        "message": {"text": f"{finding.path}: {finding.message}"},
        "locations": [location],
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
    layout: str | None = None


def check_file(file: str, asked: Asked, form: OutputFormat) -> int:
    with counting_rows(f"checking {file}") as progress:
        findings = check(
            file, asked.table, deep=asked.deep, progress=progress, links=asked.links, generation=asked.generation,
            layout=asked.layout,
        )  # fmt: skip
    shown = [finding for finding in findings if SEVERITIES.index(finding.severity) <= SEVERITIES.index(asked.severity)]
    if form == "json":
        print_json(check_facts(file, findings, shown))
    elif form == "sarif":
        print_json(sarif_log(file, shown, findings.checked.readable))
    else:
        _show(file, findings, shown)
    return exit_code(findings, asked.strict)


def exit_code(findings: Findings, strict: bool) -> int:
    """0 no errors, 1 errors (if strict, warnings too) or nothing to check, 3 not readable."""
    if not findings.checked.readable:
        return FILE
    bad = SEVERITIES[:2] if strict else SEVERITIES[:1]
    return FINDINGS if any(finding.severity in bad for finding in findings) or not _n_checked(findings) else FINE


def _n_checked(findings: Findings) -> int:
    return findings.checked.tables + findings.checked.sparse_arrays + findings.checked.elements


def check_facts(file: str, findings: Findings, shown: Sequence[Finding]) -> Facts:
    """All findings as plain data."""
    return {
        "file": file,
        "checked": asdict(findings.checked),
        "counts": {severity: _count(findings, severity) for severity in SEVERITIES},
        "findings": [asdict(finding) for finding in shown],
    }


def _count(findings: Sequence[Finding], severity: Severity) -> int:
    return sum(finding.severity == severity for finding in findings)


# -- text --


def _show(file: str, findings: Findings, shown: Sequence[Finding]) -> None:
    console = open_console()
    for finding in shown:
        show_finding(console, finding)
    if shown:
        console.print()
    counts = {severity: n for severity in SEVERITIES if (n := _count(findings, severity))}
    style = "red" if "error" in counts else "yellow" if "warning" in counts else "green"
    checked = findings.checked
    silent = "no findings" if _n_checked(findings) else "nothing was checked"
    summary = ", ".join(plural(n, severity) for severity, n in counts.items()) or silent
    console.print(cell(f"{file}: {summary}", style), soft_wrap=True)
    if checked.tables_without_rules:
        n_left = plural(checked.tables_without_rules, "table")
        console.print(cell(f"not checked: {n_left} of a layout that has no rules yet", "yellow"), soft_wrap=True)
    console.print(cell(_checked_text(checked), "dim"), soft_wrap=True)


def show_finding(console: Console, finding: Finding) -> None:
    """Print severity, rule and path; then the message, and the advice."""
    head = cell(f"{finding.severity:<8}", STYLES[finding.severity]) + cell(f"{finding.rule:<3} {finding.path}")
    console.print(head, soft_wrap=True)
    console.print(cell(f"        {finding.message}"), soft_wrap=True)
    if finding.found and finding.expected and finding.found not in finding.message:
        console.print(cell(f"        found {finding.found}, expected {finding.expected}", "dim"), soft_wrap=True)
    cited = citation(finding.rule, finding.clause)
    console.print(cell(f"        {finding.advice}{f' ({cited})' if cited else ''}", "dim"), soft_wrap=True)


def _checked_text(checked: Checked) -> str:
    if not checked.readable:
        return "nothing could be checked"
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
    return f"checked {', '.join(parts)}; {values}"


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
