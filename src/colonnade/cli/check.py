"""`check`: checks a file against every rule of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

from rich.console import Console

from colonnade.checking import Checked, Findings
from colonnade.cli.answer import FILE, FINDINGS, FINE, Facts, print_json
from colonnade.cli.progress import counting_rows
from colonnade.cli.sarif import document_of, sarif_log
from colonnade.cli.text import cell, open_console, plural
from colonnade.dataclass import dataclass
from colonnade.h5.outside import Links
from colonnade.model import Finding, Severity
from colonnade.table.checking import check
from colonnade.table.show import size_text

Form = Literal["text", "json", "sarif"]
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


def check_file(file: str, asked: Asked, form: Form) -> int:
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
