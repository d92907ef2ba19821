"""Describes a HEP001 table group as a TableInfo. Lenient: breaches of rules are noted, and what is readable is used.

No element of a column is read. The steps follow the rules:
T1 recognise, T2 version, C3 which children are columns, I1/I2 which are labels, T4 their order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container
from typing import TYPE_CHECKING

from colonnade.dataclass import dataclass, replace
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.layouts.hep001 import names
from colonnade.layouts.wide import is_wide, problems_of, sample
from colonnade.model import (
    UNREADABLE,
    CategoriesInfo,
    Coded,
    ColumnInfo,
    DatasetInfo,
    Finding,
    LazyColumns,
    Plain,
    Sectioned,
    Severity,
    StoredType,
    TableInfo,
    shown_name,
    unreadable_column,
)
from colonnade.nodes import Dataset, Group, Node, attributes
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.paths import is_dataset
from colonnade.nodes.protocols import Child

if TYPE_CHECKING:
    from colonnade.sparse.rows import SparseRows


_Targets = dict[str, Dataset | None]
"""What the columns with `_categories` refer to, by the name of the column."""


@dataclass
class _Member:
    """A dataset of rank 1 in the group, with its header and attribute names."""

    name: str
    address: int
    dataset: Dataset | None  # None if HDF5 cannot open it
    info: DatasetInfo
    n_rows: int
    attributes: frozenset[str]
    texts: dict[str, str] | None = None  # string attributes of a sparse column, which HDF5 cannot read
    problem: str | None = None  # why only its name is known
    rows_problem: str | None = None  # why the rows of a sparse column cannot be read

    def text(self, name: str) -> str | None:
        if self.texts is not None:
            return self.texts.get(name)
        if self.dataset is None or name not in self.attributes:
            return None
        return attributes.read_text(self.dataset, name)


def describe(group: Group, path: str) -> TableInfo:
    """The table as plain data. Raises UnsupportedError for a newer MAJOR version."""
    found = _Description(group, path)
    if not is_wide(len(found.order or ())):
        return found.table()
    return _WideDescription(found).table() or _Description(group, path).table()


def strip_missing_line(description: str | None, stored: StoredType, fill: bytes | None) -> str | None:
    """A column's description without the line that names its fill (C6). The user's text is kept."""
    from colonnade.columns.decode import missing_line

    if description is None or fill is None:
        return description
    line = missing_line(stored, fill)
    if description == line:
        return None
    return description.removesuffix("\n" + line)


class _WideDescription:
    """The lazy description of a table of many columns: each column is described when it is first used.

    This requires a regular table: column-order names all columns, and everything else is a label or categories.
    The length is taken from a sample of the columns. `problems` reads all columns when it is first used.
    """

    def __init__(self, whole: _Description) -> None:
        self.whole = whole
        self.group = whole.group
        self.labels: dict[int, _Member] = {}
        self.n_rows = 0

    def table(self) -> TableInfo | None:
        """The table, or None if all datasets must be read to know which are columns."""
        whole, there = self.whole, dict.fromkeys(self.group.link_names())
        version = whole._version()
        listed = [name for name in dict.fromkeys(whole.order or ()) if name in there]
        known = set(listed)
        self.unlisted = [name for name in there if name not in known]
        if not is_wide(len(listed)) or not self._find_labels(known):
            return None
        sampled = [self._member(name) for name in sample(listed)]
        if any(member is None or names.COLUMNS_LIST in member.attributes for member in sampled):
            return None
        self.n_rows = whole._length([member for member in sampled if member is not None], known)
        first = [self._described(member, is_label=False) for member in sampled if member is not None]
        columns = LazyColumns(listed, self._column, {column.name: column for column in first})
        labels = [self._described(member, is_label=True) for member in self.labels.values()]
        if whole.index is not None and not self._is_plain_index(whole.index, there):
            return None
        return TableInfo(
            path=whole.path,
            layout="hep001",
            n_rows=self.n_rows,
            columns=columns,
            labels=whole._ordered_labels(labels, first),
            title=attributes.read_text(self.group, names.TITLE),
            description=attributes.read_text(self.group, names.DESCRIPTION),
            units_vocabulary=whole.vocabulary,
            index_name=whole.index,
            version=version,
            pandas=attributes.read_text(self.group, names.PANDAS),
            problems=problems_of(lambda: _Description(self.group, whole.path).table()),
        )

    def _find_labels(self, listed: set[str]) -> bool:
        """Collect the labels among the members that column-order does not name; False if there are other members."""
        for name in self.unlisted:
            if name.removesuffix("_categories") in listed:
                continue
            child, dataset = self.group.open_child(name)
            if child.kind == "broken":
                return False
            member = self.whole._member(child, dataset) if child.kind == "dataset" else None
            if member is None:
                continue
            if names.COLUMNS_LIST in member.attributes:
                self.labels[member.address] = member
            elif member.problem or member.text(names.ENCODING_TYPE) != "categorical":
                return False
        return True

    def _is_plain_index(self, name: str, there: Container[str]) -> bool:
        """Whether `_index` names a label found above, or a column that is not also a label."""
        if name not in there:
            return False
        member = self._member(name)
        return member is not None and (member.address in self.labels or names.COLUMNS_LIST not in member.attributes)

    def _member(self, name: str) -> _Member | None:
        child, dataset = self.group.open_child(name)
        return self.whole._member(child, dataset) if child.kind in ("dataset", "broken") else None

    def _column(self, name: str) -> ColumnInfo:
        member = self._member(name)
        if member is None:
            return replace(unreadable_column(name, f"it is a {self.group.child(name).kind}"), n_rows=self.n_rows)
        return self._described(member, is_label=names.COLUMNS_LIST in member.attributes)

    def _described(self, member: _Member, is_label: bool) -> ColumnInfo:
        targets = self.whole._category_targets([member])
        near = dict(self.labels)
        target = targets.get(member.name)
        if target is not None:
            where = _address(target)
            categories = self._categories_at(where, member.name)
            near |= {where: categories} if categories is not None else {}
        return self.whole._column(member, near, targets, self.n_rows, is_label)

    def _categories_at(self, where: int, column: str) -> _Member | None:
        """The categories of a column. The usual name is tried first."""
        likely = f"{column}_categories"
        for name in [likely, *(name for name in self.unlisted if name != likely)]:
            if self.group.hard_address(name) == where:
                return self.whole._member(*self.group.open_child(name))
        return None


class _Description:
    """One pass over a table group, which collects the problems it finds."""

    def __init__(self, group: Group, path: str) -> None:
        self.group = group
        self.path = path
        self.problems: list[Finding] = []
        self.used: set[int | None] = set()
        self.vocabulary = attributes.read_text(group, names.UNITS_VOCABULARY)
        self.order = attributes.read_texts(group, names.COLUMN_ORDER)
        self.listed = set(self.order or ())
        self.index = attributes.read_text(group, names.INDEX)

    def note(self, rule: str, severity: Severity, message: str, name: str | None = None) -> None:
        path = self.path if name is None else f"{self.path.rstrip('/')}/{name}"
        self.problems.append(Finding(rule, severity, path, message))

    def table(self) -> TableInfo:
        version = self._version()
        members = self._members()
        by_address = {member.address: member for member in members}
        targets = self._category_targets(members)
        self.used = {target.address for target in targets.values() if target is not None}
        members = [
            member for member in members if member.problem is None or not self._is_lost_categories(member, members)
        ]
        n_rows = self._length(members, self.listed)
        columns: list[ColumnInfo] = []
        labels: list[ColumnInfo] = []
        for member in members:
            if self._is_categories(member, targets, n_rows):
                if member.name in self.listed:
                    self.note("T4", "warning", "a categories dataset is listed in column-order", member.name)
                continue
            is_label = names.COLUMNS_LIST in member.attributes or self._is_lost_label(member, members)
            column = self._column(member, by_address, targets, n_rows, is_label)
            if is_label:
                labels.append(column)
            if not is_label or member.name in self.listed:
                columns.append(column)
        return TableInfo(
            path=self.path,
            layout="hep001",
            n_rows=n_rows,
            columns=self._ordered(columns),
            labels=self._ordered_labels(labels, columns),
            title=attributes.read_text(self.group, names.TITLE),
            description=attributes.read_text(self.group, names.DESCRIPTION),
            units_vocabulary=self.vocabulary,
            index_name=self._index_name({column.name for column in (*columns, *labels)}),
            version=version,
            pandas=attributes.read_text(self.group, names.PANDAS),
            problems=tuple(self.problems),
        )

    def _version(self) -> str | None:
        version = attributes.read_text(self.group, names.VERSION)
        match = re.fullmatch(r"(\d{1,6})(?:\.(\d{1,6}))?(?:\..*)?", version or "")
        if match is None:
            self.note("T2", "error", f"VERSION is {version!r}, expected '{names.VERSION_VALUE}'")
            return version
        if int(match[1]) > 1:
            raise UnsupportedError(
                f"table {self.path} is HEP001 version {version}; this library reads versions up to 1.x",
                feature=f"HEP001 {version}",
                path=self.path,
                found=version,
                supported=names.VERSION_VALUE,
            )
        return version

    def _members(self) -> list[_Member]:
        found = []
        for child in self.group.children():
            if child.kind in ("dataset", "broken"):
                dataset = self.group.open_dataset(child.name) if child.kind == "dataset" else None
                member = self._member(child, dataset)
                if member is not None:
                    found.append(member)
        return found

    def _sparse_member(self, child: Child) -> _Member | None:
        """A column in sectioned chunks. HDF5 cannot open it, so our own reader does."""
        from colonnade.sparse.rows import open_rows  # late: few tables have such a column

        try:
            rows = open_rows(self.group, child.name)
            texts = _texts_of(rows) if rows is not None else {}
        except (FormatError, UnsupportedError) as error:
            return self._unreadable(child, f"the header of this column cannot be read: {error}")
        if rows is None:
            broken = "this link leads nowhere, or to an object that cannot be opened"
            text = broken if child.kind == "broken" else "this dataset cannot be opened"
            return self._unreadable(child, text)
        if len(rows.info.space.shape) != 1:
            return self._of_other_rank(child, f"rank {len(rows.info.space.shape)}")
        (n_rows,), (chunk_rows,) = rows.info.space.shape, rows.info.layout.chunk
        filters = rows.info.pipelines[rows.info.layout.values_section]
        info = DatasetInfo(rows.info.type, (n_rows,), "sectioned", chunk_rows, filters, None)
        where = self.group.hard_address(child.name) or -1
        return _Member(child.name, where, None, info, n_rows, frozenset(), texts, rows_problem=rows.problem)

    def _member(self, child: Child, dataset: Dataset | None) -> _Member | None:
        """A child as a member; `dataset` is None where HDF5 cannot open it."""
        if dataset is None:
            return self._sparse_member(child)
        try:
            info = dataset.describe()
        except hdf5_errors(CorruptError, UnsupportedError) as error:
            return self._unreadable(child, f"the header of this dataset cannot be read: {error}")
        if info.shape is None or len(info.shape) != 1:
            return self._of_other_rank(child, "no shape" if info.shape is None else f"rank {len(info.shape)}")
        return _Member(child.name, child.address, dataset, info, info.shape[0], frozenset(dataset.attribute_names()))

    def _unreadable(self, child: Child, problem: str) -> _Member | None:
        """A child of which only the name is known; None for a broken link that is not listed as a column."""
        listed = self.order is None or child.name in self.listed or self.index == child.name
        if child.kind == "broken" and not listed:
            self.note("T7", "warning", problem, child.name)
            return None
        self.note("C1", "error", problem, child.name)
        where = child.address or self.group.hard_address(child.name) or -1
        info = DatasetInfo(UNREADABLE, None, "contiguous", None, (), None)
        return _Member(child.name, where, None, info, -1, frozenset(), problem=problem)

    def _of_other_rank(self, child: Child, rank: str) -> _Member | None:
        """A dataset whose rank is not 1: an unreadable column if column-order names it, otherwise not a column."""
        if child.name not in self.listed:
            self.note("C1", "note", f"a dataset of {rank} is not a column", child.name)
            return None
        return self._unreadable(child, f"it has {rank}, a column must have rank 1 (rule C1)")

    def _is_lost_categories(self, lost: _Member, members: list[_Member]) -> bool:
        """Whether an unreadable dataset holds the categories of a column. The column then reports the problem."""
        return lost.name not in self.listed and self._refers(names.CATEGORIES, lost, members)

    def _is_lost_label(self, lost: _Member, members: list[_Member]) -> bool:
        """Whether an unreadable dataset is a label, judged by what refers to it."""
        if lost.problem is None:
            return False
        return self.index == lost.name or self._refers(names.INDEXES, lost, members)

    def _refers(self, attribute: str, lost: _Member, members: list[_Member]) -> bool:
        held = (member.dataset for member in members if attribute in member.attributes)
        return any(lost.address in dataset.reference_addresses(attribute) for dataset in held if dataset is not None)

    def _category_targets(self, members: list[_Member]) -> _Targets:
        """For each column with `_categories`, the dataset that it refers to, or None if it does not exist."""
        targets: _Targets = {}
        for member in members:
            if member.dataset is None or names.CATEGORIES not in member.attributes:
                continue
            references = attributes.read_references(member.dataset, names.CATEGORIES)
            target = member.dataset.dereference(references[0]) if references else None
            targets[member.name] = target if target is not None and is_dataset(target) else None
        return targets

    def _length(self, members: list[_Member], in_order: set[str]) -> int:
        """The table's length: that of most columns (C1). If HDF5 can read some columns, only these are counted."""
        counted = [member for member in members if member.address not in self.used and member.problem is None]
        counted = [member for member in counted if member.info.storage != "sectioned"] or counted
        listed = [m for m in counted if m.name in in_order] or counted
        votes = Counter(member.n_rows for member in listed)
        return max(votes, key=lambda n_rows: (votes[n_rows], n_rows), default=0)

    def _is_categories(self, member: _Member, targets: _Targets, n_rows: int) -> bool:
        if member.address in self.used:
            return member.name not in targets
        marked = names.ENCODING_TYPE in member.attributes and member.n_rows != n_rows
        return marked and member.text(names.ENCODING_TYPE) == "categorical"

    def _column(
        self,
        member: _Member,
        by_address: dict[int, _Member],
        targets: _Targets,
        n_rows: int,
        is_label: bool,
    ) -> ColumnInfo:
        from colonnade.columns.decode import lost_fill

        info = member.info
        if member.problem is not None:
            return replace(unreadable_column(member.name, member.problem, is_label=is_label), n_rows=n_rows)
        problem = member.rows_problem
        if member.n_rows != n_rows:
            problem = f"it has {member.n_rows} rows, the table has {n_rows} (rule C1)"
            self.note("C1", "error", problem, member.name)
        categories = None
        if member.name in targets:
            categories, trouble = self._categories(member, targets[member.name], by_address)
            problem = problem or trouble
        rows = Plain() if categories is None else Coded(categories)
        fill = info.fill
        if info.has_lost_fill:
            fill = lost_fill(member.text(names.DESCRIPTION), info.type)
            self.note("C6", "warning", "its fill value was lost in a copy (a bug of H5Ocopy)", member.name)
        text = {
            name: member.text(name)
            for name in (names.UNITS, names.UNITS_VOCABULARY, names.DESCRIPTION, names.ARROW_TYPE, names.PANDAS)
        }
        return ColumnInfo(
            name=member.name,
            type=info.type,
            n_rows=n_rows,
            storage=info.storage,
            chunk_rows=info.chunk_rows,
            filters=info.filters,
            fill=fill,
            form=Sectioned(rows) if info.storage == "sectioned" else rows,
            units=text[names.UNITS],
            units_vocabulary=text[names.UNITS_VOCABULARY] or self.vocabulary,
            description=strip_missing_line(text[names.DESCRIPTION], info.type, fill),
            arrow_type=text[names.ARROW_TYPE],
            labels=self._labels_of(member, by_address),
            is_label=is_label,
            pandas=text[names.PANDAS],
            problem=problem,
        )

    def _categories(
        self, member: _Member, target: Dataset | None, by_address: dict[int, _Member]
    ) -> tuple[CategoriesInfo | None, str | None]:
        if member.info.type.kind != "integer":
            self.note("C8", "error", f"a categorical holds {member.info.type}, not integer codes", member.name)
            return None, None
        if target is None:
            trouble = "its _categories does not refer to a dataset (rule C9)"
            self.note("C9", "error", trouble, member.name)
            return None, trouble
        held = by_address.get(_address(target))
        info = held.info if held is not None else _described(target)
        if info is None or info.shape is None or len(info.shape) != 1:
            trouble = "its categories are not a dataset of rank 1 (rule C9)"
            self.note("C9", "error", trouble, member.name)
            return None, trouble
        if held is None:
            self.note("C9", "error", "its categories are outside the table's group", member.name)
        ordered = attributes.read_flag(target, names.ORDERED)
        if ordered is None:
            self.note("C9", "error", "its categories have no `ordered` flag; they are read as unordered", member.name)
        found = CategoriesInfo(
            name=held.name if held is not None else "",
            type=info.type,
            n_categories=info.shape[0],
            ordered=bool(ordered),
            units=attributes.read_text(target, names.UNITS),
            arrow_type=attributes.read_text(target, names.ARROW_TYPE),
        )
        return found, None

    def _labels_of(self, member: _Member, by_address: dict[int, _Member]) -> tuple[str, ...]:
        if member.dataset is None or names.INDEXES not in member.attributes:
            return ()
        found = []
        for reference in attributes.read_references(member.dataset, names.INDEXES) or ():
            target = member.dataset.dereference(reference)
            label = by_address.get(_address(target)) if target is not None else None
            if label is None:
                self.note("I2", "error", "_indexes does not refer to an index dataset of this table", member.name)
            else:
                found.append(label.name)
        return tuple(found)

    def _ordered(self, columns: list[ColumnInfo]) -> tuple[ColumnInfo, ...]:
        """The columns in the order of column-order, then those it does not name, sorted by name (T4)."""
        if self.order is None:
            if len(columns) > 1:
                self.note("T4", "warning", "there is no column-order; columns are sorted by name")
            return tuple(columns)
        by_name = {column.name: column for column in columns}
        chosen = [by_name.pop(name) for name in dict.fromkeys(self.order) if name in by_name]
        known = {column.name for column in columns} | {problem.path.rsplit("/", 1)[-1] for problem in self.problems}
        for name in dict.fromkeys(self.order):
            if name not in known:
                self.note("T4", "error", f"column-order names {name!r}, which is not a column of this table")
        if len(set(self.order)) != len(self.order):
            self.note("T4", "error", "column-order names a column twice")
        for name in by_name:
            self.note("T4", "error", "column-order does not name this column", name)
        return tuple(chosen) + tuple(by_name.values())

    def _ordered_labels(self, labels: list[ColumnInfo], columns: list[ColumnInfo]) -> tuple[ColumnInfo, ...]:
        """Labels by precedence: `_index` first, then the order in the columns' `_indexes` (I2)."""
        precedence = [self.index] if self.index else []
        precedence += [name for column in columns for name in column.labels]
        rank: dict[str, int] = {}
        for name in precedence:
            rank.setdefault(name, len(rank))
        return tuple(sorted(labels, key=lambda label: rank.get(label.name, len(rank))))

    def _index_name(self, known: set[str]) -> str | None:
        name = self.index
        if name is not None and name not in known:
            self.note("T5", "error", f"_index names {name!r}, which is neither a column nor a label of this table")
        return name


def _texts_of(rows: SparseRows) -> dict[str, str]:
    """The string attributes of a sparse column."""
    return {name: shown_name(value) for name, value in rows.attributes().items() if isinstance(value, str)}


def _address(target: Node) -> int:
    """The address of an object; a number that no object has if its header is broken."""
    found = target.address
    return -1 if found is None else found


def _described(target: Dataset) -> DatasetInfo | None:
    try:
        return target.describe()
    except hdf5_errors(CorruptError, UnsupportedError):
        return None


def open_column(group: Group, column: ColumnInfo) -> tuple[Dataset | SparseRows, Dataset | None]:
    """The datasets of a column: its rows, and its categories or None."""
    if column.storage == "sectioned":
        from colonnade.sparse.rows import open_rows  # late: few tables have such a column

        rows = open_rows(group, column.name)
        if rows is None:
            raise FormatError(f"column {column.name!r} is no longer in the file", column=column.name)
        return rows, None
    if column.storage == "chunked":
        dataset = group.open_chunked(column.name, in_place=not column.filters)
    else:
        dataset = group.open_dataset(column.name)
    if dataset is None:
        why = column.problem or "it is no longer in the file"
        raise FormatError(f"cannot open column {column.name!r}: {why}", column=column.name)
    if column.categories is None:
        return dataset, None
    references = attributes.read_references(dataset, names.CATEGORIES)
    categories = dataset.dereference(references[0]) if references else None
    return dataset, categories if categories is not None and is_dataset(categories) else None
