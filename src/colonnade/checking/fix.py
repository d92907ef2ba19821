"""Repairs files: plans and applies the repairs that the layouts define, which never touch data.

The caller commits the changes. A plan comes from one check of the file; a dry run reports that plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial

from colonnade.checking.check import Check, Findings, rules_of
from colonnade.dataclass import dataclass
from colonnade.edit.index import Indexes
from colonnade.errors import ColonnadeError, FormatError, UnsupportedError, UsageError
from colonnade.layouts import Layout
from colonnade.layouts.anndata_differences import face_differences
from colonnade.layouts.contract import RawTable
from colonnade.layouts.index_home import IndexPlan
from colonnade.model import Repair, shown_name
from colonnade.nodes import Group
from colonnade.nodes.damage import hdf5_errors
from colonnade.pager.receipts import Receipts
from colonnade.sparse.opened import SparseTarget

MOST_ROUNDS = 5


@dataclass(slots=True)
class Fixed:
    """The repairs that were made (in a dry run: would be made), and the findings that are left.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> fixed = cn.fix("run.h5")
    >>> fixed.repairs, fixed.left
    ([], [])
    """

    repairs: list[Repair] = field(default_factory=list)
    left: Findings = field(default_factory=Findings)
    dry_run: bool = False


def plan_repairs(root: Group, receipts: Receipts, sparse: SparseTarget | None = None) -> Fixed:
    """What can be repaired, and what cannot; nothing is changed."""
    check = Check(receipts, indexes=True, sparse=sparse)
    findings = check.file(root)
    repairs = [repair for layout, raw in check.tables for repair in _of_table(layout, raw, findings, receipts)]
    resolved = {fixed for repair in repairs for fixed in repair.fixes}
    left = Findings([finding for finding in findings if (finding.rule, finding.path) not in resolved], findings.checked)
    return Fixed(repairs, left)


def apply_repairs(root: Group, receipts: Receipts, sparse: SparseTarget | None = None) -> Fixed:
    """Repair what can be repaired, and report what is left. One round is usually enough; a later round repairs what the
    first one exposed."""
    done: list[Repair] = []
    for _ in range(MOST_ROUNDS):
        repairs = [repair for repair in plan_repairs(root, receipts).repairs if repair not in done]
        worked = [repair for repair in repairs if repair.do()]
        done += worked
        if not worked:
            break
    return Fixed(done, Check(receipts, indexes=True, sparse=sparse).file(root))


def _of_table(layout: Layout, raw: RawTable, findings: Findings, receipts: Receipts) -> list[Repair]:
    home = f"{raw.path.rstrip('/')}/{rules_of(layout).INDEX_HOME}/"
    stale = [finding.path for finding in findings if finding.rule == "S8"]
    wrong = {path.removeprefix(home) for path in stale if path.startswith(home)}
    plans = rules_of(layout).bad_indexes(raw, wrong)
    repairs = rules_of(layout).repairs(raw, {plan.address for plan in plans if plan.address is not None})
    if plans:
        renewal = _Renewal(layout, raw, plans, receipts)
        repairs += [Repair(plan.path, plan.action, plan.fixes, partial(renewal.do, plan)) for plan in plans]
    return [*repairs, *_of_face(layout, raw, findings)]


def _of_face(layout: Layout, raw: RawTable, findings: Findings) -> list[Repair]:
    """Repairs that make the AnnData view of a table match the table; searched only if there was a finding."""
    if not any(finding.rule == "A16" for finding in findings):
        return []
    try:
        differences = list(face_differences(raw.group, layout, raw.info))
    except hdf5_errors(ColonnadeError, MemoryError):
        return []  # a finding already reports it
    return [
        Repair(
            difference.breach.path,
            f"the frame is made to match the table: {difference.breach.message}",
            tuple((rule, shown_name(difference.breach.path)) for rule in difference.fixes),
            difference.repair,
        )
        for difference in differences
        if difference.repair is not None
    ]


@dataclass
class _Renewal:
    """The bad indexes of one table: all are removed when the first repair runs, then rebuilt one by one."""

    layout: Layout
    raw: RawTable
    plans: Sequence[IndexPlan]
    receipts: Receipts
    _removed: bool = False

    def do(self, plan: IndexPlan) -> bool:
        if not self._removed:
            self._removed = True
            rules_of(self.layout).remove_indexes(self.raw, self.plans)
            removed = {(self.raw.path, bad.name) for bad in self.plans}
            for key in [key for key in self.receipts if (key[0], key[2]) in removed]:
                del self.receipts[key]
        if plan.column is not None:
            self._build(plan.column, plan.word)
        return True

    def _build(self, column: str, word: str) -> None:
        info = self.layout.describe(self.raw.group, self.raw.path)
        try:
            Indexes(self.raw.group, self.layout, info, self.receipts).build({column: [word]})
        except (UsageError, FormatError, UnsupportedError):
            return  # too many values for a bitmap, or unreadable rows: the index stays removed, and no data is lost
