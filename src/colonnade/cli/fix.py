"""`fix`: repairs what can be repaired in a file without touching data."""

from __future__ import annotations

from dataclasses import asdict

from colonnade.checking import Fixed
from colonnade.cli.answer import FINDINGS, FINE, Facts, print_json
from colonnade.cli.check import show_finding
from colonnade.cli.progress import waiting
from colonnade.cli.text import cell, open_console, plural
from colonnade.model import Repair
from colonnade.table.checking import fix


def fix_file(file: str, dry_run: bool, as_json: bool) -> int:
    with waiting(f"repairing {file}"):
        fixed = fix(file, dry_run=dry_run)
    if as_json:
        print_json(_facts(file, fixed))
    else:
        _show(file, fixed)
    return FINDINGS if fixed.left.errors else FINE


def _facts(file: str, fixed: Fixed) -> Facts:
    return {
        "file": file,
        "dry_run": fixed.dry_run,
        "repairs": [_repair_facts(repair) for repair in fixed.repairs],
        "left": [asdict(one) for one in fixed.left],
    }


def _repair_facts(repair: Repair) -> Facts:
    return {
        "path": repair.path,
        "rules": list(dict.fromkeys(rule for rule, _ in repair.mends)),
        "action": repair.action,
    }


def _show(file: str, fixed: Fixed) -> None:
    console = open_console()
    done = "would repair" if fixed.dry_run else "repaired"
    for repair in fixed.repairs:
        rules = " ".join(dict.fromkeys(rule for rule, _ in repair.mends))
        console.print(cell(f"{done}  ", "green") + cell(f"{rules} {repair.path}: {repair.action}"), soft_wrap=True)
    for one in fixed.left:
        show_finding(console, one)
    if fixed.repairs or fixed.left:
        console.print()
    left = f", {plural(len(fixed.left), 'finding')} left" if fixed.left else ""
    told = f"{plural(len(fixed.repairs), 'repair')}{' to do' if fixed.dry_run else ''}{left}"
    console.print(cell(f"{file}: {told if fixed.repairs or left else 'nothing to repair'}"), soft_wrap=True)
