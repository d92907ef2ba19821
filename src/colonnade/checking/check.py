"""Runs every rule of a layout on every table, on objects that claim to be one, and (deep) on values.

A bad file never raises: whatever goes wrong during the check becomes a finding. A deep check reads every row once, a
few MiB at a time, and compares every search index with its column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import partial
from pathlib import Path
from types import NoneType
from typing import TypeVar

import pyarrow as pa

from colonnade.columns.raw import Companions, is_sectioned
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass, replace
from colonnade.edit.index import Indexes
from colonnade.errors import ColonnadeError, CorruptError
from colonnade.indexes.base import Wrong
from colonnade.layouts import LAYOUTS, Layout, layout_of
from colonnade.layouts.anndata_differences import face_differences
from colonnade.layouts.contract import AnyRules, RawTable
from colonnade.layouts.found import walk_groups_and_tables
from colonnade.model import Breach, ColumnInfo, Finding, Lists, Masked, Progress, Rule, run_check
from colonnade.nodes import Dataset, Group
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.elements import claims_too_much, dataset_column
from colonnade.nodes.paths import join_path
from colonnade.pager.receipts import Receipts
from colonnade.sparse import verify_sparse
from colonnade.sparse.opened import SparseTarget
from colonnade.sparse.verify import SPARSE_RULES

T = TypeVar("T")
_RANKS = {"error": 0, "warning": 1, "note": 2}


def layout_rules() -> dict[str, AnyRules]:
    """What checks the tables of each layout that has rules."""
    return {name: rules for name, layout in LAYOUTS.items() if (rules := layout.rules) is not None}


def rules_of(layout: Layout) -> AnyRules:
    """What checks the tables of a layout, which has rules."""
    rules = layout.rules
    assert rules is not None  # tables of layouts without rules are counted, not checked
    return rules


RULES: dict[str, Rule] = {rule.id: rule for rules in layout_rules().values() for rule in rules.RULES}
ALL_RULES: dict[str, Rule] = {**RULES, **SPARSE_RULES}


@dataclass(slots=True)
class Checked:
    """How much was checked. `bytes_read`: stored bytes of the columns and indexes whose values were read;
    `tables_without_rules`: tables of layouts without rules, which were not checked; `elements`: AnnData elements that
    are not tables.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> checked = cn.check("run.h5").checked
    >>> checked.tables, checked.columns
    (1, 2)
    """

    tables: int = 0
    elements: int = 0
    tables_without_rules: int = 0
    columns: int = 0
    sparse_arrays: int = 0
    attributes: int = 0
    bytes_read: int = 0
    deep: bool = False
    readable: bool = True


class Findings(list[Finding]):
    """All findings, the worst first, then by path; `checked` states how much was checked.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> findings = cn.check("run.h5")
    >>> findings.errors, findings.checked.tables
    ([], 1)
    """

    __slots__ = ("checked",)

    def __init__(self, findings: Iterable[Finding] = (), checked: Checked | None = None) -> None:
        super().__init__(sorted(findings, key=_rank))
        self.checked = checked if checked is not None else Checked()

    @property
    def errors(self) -> list[Finding]:
        """The findings of severity "error"."""
        return [finding for finding in self if finding.severity == "error"]


def _rank(finding: Finding) -> tuple[int, str, str, str]:
    return _RANKS[finding.severity], finding.path, finding.rule, finding.message


def _listed(work: Callable[[], Iterable[T]]) -> list[T]:
    return list(work())


def not_hdf5(error: Exception) -> Findings:
    """The finding for a file that HDF5 cannot open."""
    breach = Breach("error", "/", f"this cannot be opened as HDF5: {error}", str(error), "an HDF5 file")
    return Findings([RULES["H1"].finding(breach)], Checked(readable=False))


def not_located(path: Path, error: Exception | None) -> Findings:
    """The findings for a directory, or a document, that does not lead to an HDF5 file."""
    sidecars = [layout.sidecars for layout in LAYOUTS.values() if layout.sidecars]
    broken = [entry for sidecar in sidecars for entry in sidecar.not_located(path, error)]
    return Findings([RULES[rule].finding(breach) for rule, breach in broken], Checked(readable=False))


@dataclass
class Check:
    """One check of a file, or of one table in it.

    sparse: what the bytes of the file are read from, to check arrays that HDF5 cannot read; None where not possible.
    values: also read every row. indexes: also compare every index with its column. tables: filled if either is set.
    variant: the variant of a layout's rules to apply, if not the one that a table declares. asked: the layout of groups
    that can be read as its tables, whatever they declare.
    """

    receipts: Receipts
    values: bool = False
    indexes: bool = False
    progress: Progress | None = None
    sparse: SparseTarget | None = None
    variant: object | None = None
    asked: Layout | None = None
    findings: list[Finding] = field(default_factory=list)
    checked: Checked = field(default_factory=Checked)
    tables: list[tuple[Layout, RawTable]] = field(default_factory=list)
    _homes: set[str] = field(default_factory=set)
    _tables: set[str] = field(default_factory=set)
    _rows_done: int = 0
    _rows_in_all: int = 0

    def file(self, root: Group) -> Findings:
        """Check everything in and below this group."""
        try:
            for path, group, _ in walk_groups_and_tables(root):
                self._group(path, group)
        except CorruptError as error:
            self.report("H1", Breach("error", "/", str(error)))
        return self._finish()

    def table(self, group: Group, path: str) -> Findings:
        """Check one table, or what was meant to be one."""
        self._group(path, group, alone=True)
        return self._finish()

    def _finish(self) -> Findings:
        self.checked.deep = self.values
        self._rows_in_all = sum(member.n_rows for _, raw in self.tables for member in raw.info.members)
        for layout, raw in self.tables:
            if self.values:
                self._values(layout, raw)
            if self.indexes:
                self._indexes(layout, raw)
            self._face(layout, raw)
        return Findings(self.findings, self.checked)

    def report(self, rule: str, breach: Breach) -> None:
        self.findings.append(RULES[rule].finding(breach))

    # -- what headers and attributes show --

    def _group(self, path: str, group: Group, alone: bool = False) -> None:
        """Check a group of the file: a table, or other objects (which are skipped when `alone`)."""
        layout = self._layout_of(group)
        if layout is not None and layout.rules is None:
            self.checked.tables_without_rules += 1
            return
        if layout is not None:
            self._homes.add(join_path(path, rules_of(layout).INDEX_HOME))
            self._tables.add(path)
            self._table(layout, group, path)
            self._elements(path, group, layout)
            self._second_looks(path, group, layout)
            return
        if path in self._homes:
            return
        self._elements(path, group)
        for rules in layout_rules().values():
            work = partial(rules.claims, group, path, self.values, self.variant)
            for claimed in self._safely(path, partial(_listed, work)) or ():
                self.report(*claimed)
        if not alone:
            self._safely(path, lambda: self._beside(path, group))

    def _layout_of(self, group: Group) -> Layout | None:
        if self.asked is not None and self.asked.can_read(group):
            return self.asked
        return layout_of(group)

    def _elements(self, path: str, group: Group, layout: Layout | None = None) -> None:
        """Check objects that have rules and are not tables: in a group, or in the group of a table of this layout."""
        in_table = layout is not None or (path.rsplit("/", 1)[0] or "/") in self._tables
        for rules in layout_rules().values() if layout is None else (rules_of(layout),):
            work = partial(rules.other_objects, group, path, self.values, in_table)
            for element, breaches in self._safely(path, partial(_listed, work)) or ():
                self.checked.elements += 1
                self.checked.bytes_read += element.bytes_read
                for breach in breaches:
                    self.report(*breach)

    def _second_looks(self, path: str, group: Group, layout: Layout) -> None:
        """Check a table against the rules that other layouts have for it."""
        for name, rules in layout_rules().items():
            if name != layout.name:
                for breach in self._safely(path, partial(_listed, partial(rules.other_table, group, path))) or ():
                    self.report(*breach)

    def _beside(self, path: str, group: Group) -> None:
        """Check the objects in a group that is not a table."""
        for child in group.children():
            where = join_path(path, child.name)
            if child.kind == "external link":
                message = "a link to another file, which is not followed: tables there are not checked"
                self.report("T6", Breach("note", where, message, "an external link", "objects of this file"))
            elif child.kind in ("broken", "dataset") and self._sparse_array(group, child.name, where):
                continue
            elif child.kind == "broken" or (child.kind == "group" and group.open_group(child.name) is None):
                self.report("H1", Breach("warning", where, "this link does not lead to an object that can be opened"))
            elif child.kind == "dataset":
                for rules in layout_rules().values():
                    claimed = rules.dataset_claim(group, path, child)
                    if claimed is not None:
                        self.report(*claimed)

    def _sparse_array(self, group: Group, name: str, path: str) -> bool:
        """Check a dataset that HDF5 cannot open; False where HDF5 can, or where it is not a sparse array either."""
        if self.sparse is None or group.open_dataset(name) is not None:
            return False
        try:
            findings = verify_sparse(self.sparse, path, deep=self.values)
        except ColonnadeError:
            return False
        self.findings.extend(findings)
        self.checked.sparse_arrays += 1
        return True

    def _safely(self, path: str, work: Callable[[], T]) -> T | None:
        """The result of `work`; if the file makes it fail, None, and a finding."""
        try:
            return work()
        except hdf5_errors(ColonnadeError, MemoryError) as error:
            self.report("H1", Breach("error", path, f"this cannot be checked: {error}", str(error)))
            return None

    def _table(self, layout: Layout, group: Group, path: str) -> None:
        self.checked.tables += 1
        try:
            raw = rules_of(layout).inspect(group, path, self.values, self.variant)
        except ColonnadeError as error:
            self.report(*rules_of(layout).not_inspected(path, error))
            return
        except hdf5_errors() as error:
            self.report("H1", Breach("error", path, f"this table cannot be checked: {error}"))
            return
        self.checked.columns += raw.n_columns
        self.checked.attributes += raw.n_attributes
        for rule in rules_of(layout).RULES:
            for check in rule.checks:
                for breach in self._safely(path, partial(_listed, partial(run_check, check, raw))) or ():
                    self.report(rule.id, breach)
        self.checked.bytes_read += raw.bytes_read
        for column in raw.info.members:
            if column.storage == "sectioned":
                self._sparse_array(group, column.name, join_path(path, column.name))
        if self.values or self.indexes:
            self.tables.append((layout, raw))

    # -- what values show --

    def _values(self, layout: Layout, raw: RawTable) -> None:
        named = raw.checked_columns()
        for column in raw.info.members:
            elsewhere = ("external", "virtual", "sectioned")  # not read, or checked with the sparse arrays
            if column.name in named and column.problem is None and column.storage not in elsewhere:
                self._column(layout, raw, column)
            self._rows_done += column.n_rows
            if self.progress is not None and column.name not in named:  # rules have read it already, or it is not read
                self.progress(self._rows_done, self._rows_in_all)

    def _column(self, layout: Layout, raw: RawTable, column: ColumnInfo) -> None:
        path = join_path(raw.path, column.name)
        try:
            dataset, companion = layout.open_column(raw.group, column)
            assert not is_sectioned(dataset)  # these are checked with the sparse arrays
            if self._claims_too_much(path, column, dataset):
                return
            is_list = isinstance(column.row_form, Lists)  # whose companion has their elements
            if column.encoding is None and not is_list:  # then the companion dataset is checked separately
                rows = column.form.of if isinstance(column.form, Masked) else column.form
                missing = self._read(ColumnReader(replace(column, form=rows), dataset))
            else:
                missing = self._read(ColumnReader(column, dataset, companion))
            if column.categories is not None and not isinstance(companion, (pa.Array, Companions, NoneType)):
                self._read_categories(path, companion)
        except ColonnadeError as error:
            self.report(*rules_of(layout).unreadable(raw, column, error))
        except hdf5_errors(MemoryError) as error:
            self.report("H1", Breach("error", path, f"the rows cannot be read: {error}", str(error)))
        else:
            breach = rules_of(layout).missing_is_described(raw, column) if missing else None
            if breach is not None:
                self.report("C6", breach)

    def _claims_too_much(self, path: str, column: ColumnInfo, dataset: Dataset) -> bool:
        claimed, stored = column.n_rows * column.type.size, dataset.stored_bytes()
        self.checked.bytes_read += stored
        if not claims_too_much(claimed, stored):
            return False
        message = f"the rows are not checked: {claimed:,} bytes are claimed, {stored:,} are stored"
        self.report("H1", Breach("warning", path, message, f"{stored} bytes", f"{claimed} bytes"))
        return True

    def _read(self, reader: ColumnReader, counted: bool = True) -> bool:
        """Read all rows, a piece at a time; returns whether any is missing. Bad rows raise an error."""
        column, missing = reader.column, False
        for start, stop in reader.pieces(0, column.n_rows):
            if column.categories is not None or reader.has_numbers:
                missing |= reader.numbers(start, stop - start)[1] is not None
            else:
                missing |= reader.read(start, stop - start).null_count > 0
            if self.progress is not None and counted:
                self.progress(min(self._rows_done + stop, self._rows_in_all), self._rows_in_all)
        return missing

    def _read_categories(self, path: str, dataset: Dataset) -> None:
        info = dataset.describe()
        n_rows = info.shape[0] if info.shape else 0
        plain = dataset_column(f"{path.rsplit('/', 1)[-1]} (categories)", info, n_rows)
        if not self._claims_too_much(path, plain, dataset):
            self._read(ColumnReader(plain, dataset), counted=False)

    def _indexes(self, layout: Layout, raw: RawTable) -> None:
        for where, wrong, size in self._safely(raw.path, lambda: list(self._wrong_indexes(layout, raw))) or ():
            self.checked.bytes_read += size
            if wrong:
                more = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
                message = f"the index is wrong in {wrong[0]}{more}"
                self.report("S8", Breach("error", where, message, str(wrong[0].found), str(wrong[0].expected)))

    def _face(self, layout: Layout, raw: RawTable) -> None:
        """Differences between a table and its AnnData view."""
        work = partial(face_differences, raw.group, layout, raw.info)
        for difference in self._safely(raw.path, partial(_listed, work)) or ():
            self.report("A16", difference.breach)

    def _wrong_indexes(self, layout: Layout, raw: RawTable) -> Iterator[tuple[str, list[Wrong], int]]:
        """For every index that suits its column: what is wrong with its contents, and its size."""
        home = join_path(raw.path, rules_of(layout).INDEX_HOME)
        for info, wrong in Indexes(raw.group, layout, raw.info, self.receipts).verify():
            if info.fresh:
                yield join_path(home, info.name), wrong, info.bytes
