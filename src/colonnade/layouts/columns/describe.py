"""Describes a group of columns as a TableInfo. Lenient: a member that is not a column is left out, and noted.

No element of a column is read. Only hard links are followed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from colonnade.dataclass import replace
from colonnade.errors import ColonnadeError, FormatError, UsageError
from colonnade.layouts.columns import names
from colonnade.layouts.columns.members import GroupMember, UnknownKind, plain_member, shape_of, vaex_member
from colonnade.layouts.contract import Candidate
from colonnade.layouts.frame_parts import Absent, Unfit, common_length
from colonnade.layouts.index_home import HOME
from colonnade.model import ColumnInfo, Finding, Severity, TableInfo, unreadable_column
from colonnade.nodes import Dataset, Group, attributes
from colonnade.nodes.damage import hdf5_errors


def describe(group: Group, path: str) -> TableInfo:
    """The group as plain data. The length of the table is the one that most members have."""
    return _Description(group, path).table()


class _Description:
    """One pass over a group, which collects what is not a column."""

    def __init__(self, group: Group, path: str) -> None:
        self.group, self.path = group, path
        self.is_vaex = names.is_vaex(group)
        self.problems: list[Finding] = []

    def table(self) -> TableInfo:
        described = {name: column for name in self._names() if (column := self._column(name)) is not None}
        n_rows = common_length(described.values())
        if n_rows is None and not self.is_vaex:
            raise UsageError(f"{self.path} has no columns: none of its members is a dataset of rows", path=self.path)
        n_rows = n_rows or 0
        columns = [own for column in described.values() if (own := self._of_table(column, n_rows)) is not None]
        return TableInfo(
            path=self.path,
            layout="columns",
            n_rows=n_rows,
            columns=tuple(columns),
            title=attributes.read_text(self.group, names.TITLE) or None,
            description=attributes.read_text(self.group, names.DESCRIPTION) or None,
            problems=tuple(self.problems),
        )

    def _names(self) -> list[str]:
        """The names of the members, those that vaex orders first."""
        if not self.is_vaex:
            return [child.name for child in self.group.children() if child.kind == "dataset"]
        columns = self.group.open_group(names.COLUMNS)
        if columns is None:
            return []
        there = [link.name for link in columns.children() if link.kind in ("group", "dataset")]
        order, known = ordered_names(columns), set(there)
        for name in order:
            if name not in known:
                self._note("warning", f"{names.ORDER} names {name!r}, which does not exist")
        return list(dict.fromkeys([*(name for name in order if name in known), *there]))

    def _column(self, name: str) -> ColumnInfo | None:
        try:
            return member_at(self.group, name, self.is_vaex).column
        except Unfit as error:
            is_wrong = self.is_vaex and not isinstance(error, UnknownKind)
            severity: Severity = "error" if is_wrong else "warning" if self.is_vaex else "note"
            self._note(severity, f"this is not a column: {error}", name)
            if not self.is_vaex or isinstance(error, Absent):
                return None
            return unreadable_column(name, str(error), f"{names.COLUMNS}/{name}")

    def _of_table(self, column: ColumnInfo, n_rows: int) -> ColumnInfo | None:
        """The column as one of a table of `n_rows`; one of another length cannot be read, or is not part of it."""
        if column.n_rows == n_rows or column.problem is not None:
            return replace(column, n_rows=n_rows)
        problem = f"it has {column.n_rows} rows, the table has {n_rows}"
        self._note("error" if self.is_vaex else "note", problem, column.name)
        return replace(column, n_rows=n_rows, problem=problem) if self.is_vaex else None

    def _note(self, severity: Severity, message: str, name: str | None = None) -> None:
        where = f"{self.path.rstrip('/')}/{names.COLUMNS}" if self.is_vaex else self.path
        path = self.path if name is None else f"{where.rstrip('/')}/{name}"
        self.problems.append(Finding("columns", severity, path, message))


def ordered_names(columns: Group) -> list[str]:
    """The order that vaex gives its columns. A name with a comma cannot be told from two."""
    order = attributes.read_text(columns, names.ORDER)
    return order.split(",") if order else []


def member_at(group: Group, name: str, is_vaex: bool) -> GroupMember:
    """A member of the group as a column; an Unfit if it is not one."""
    if is_vaex:
        columns = group.open_group(names.COLUMNS)
        if columns is None:
            raise Unfit("its group cannot be opened")
        return vaex_member(columns, name)
    dataset = group.open_dataset(name) if group.hard_kind(name) == "dataset" else None
    if dataset is None:
        raise Unfit("it cannot be opened")
    return plain_member(dataset, name)


def candidate(group: Group) -> Candidate | None:
    """What a group would be as a table, by the headers of its datasets; None if none of them has rows."""
    lengths: Counter[int] = Counter()
    n_bytes: Counter[int] = Counter()
    has_dimensions = False  # of netCDF, each of which may have variables
    for dataset in _datasets(group):
        try:
            shape = shape_of(dataset)
            if not shape or names.is_dimension_only(dataset):
                continue
            n_rows = _rows_of(dataset, shape)
        except Unfit:
            continue
        has_dimensions |= names.has_dimensions(dataset)
        lengths[n_rows] += 1
        n_bytes[n_rows] += dataset.stored_bytes()
    if not lengths:
        return None
    n_rows = max(lengths, key=lambda length: (lengths[length], length))
    is_likely = lengths[n_rows] > 1 and (len(lengths) == 1 or has_dimensions)
    return Candidate(n_rows, lengths[n_rows], n_bytes[n_rows], is_likely)


def _rows_of(dataset: Dataset, shape: tuple[int, ...]) -> int:
    """The rows that a dataset would have as a column."""
    if len(shape) == 1:
        return shape[0]
    return plain_member(dataset, "").column.n_rows


def _datasets(group: Group) -> Iterator[Dataset]:
    try:
        children = group.children()
    except hdf5_errors(ColonnadeError):
        return
    for child in children:
        dataset = group.open_dataset(child.name) if child.kind == "dataset" and child.name != HOME else None
        if dataset is not None:
            yield dataset


def open_column(group: Group, column: ColumnInfo) -> tuple[Dataset, Dataset | None]:
    """The datasets of a column: its rows, and its categories or its mask, or None."""
    try:
        member = member_at(group, column.name, names.is_vaex(group))
    except Unfit as error:
        raise FormatError(f"cannot open column {column.name!r}: {error}", column=column.name) from None
    return member.rows, member.companion


def rows_of(group: Group, name: str) -> Dataset | None:
    """The dataset that holds the rows of a column: its values, its codes or its offsets."""
    try:
        return member_at(group, name, names.is_vaex(group)).rows
    except Unfit:
        return None
