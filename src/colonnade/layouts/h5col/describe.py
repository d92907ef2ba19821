"""Describes an H5Col table group as a TableInfo. Lenient: breaches of rules are noted, and what is readable is used.

No element of a column is read. The rows of the table are the first NROWS of each column; whatever follows them means
nothing (JT3). Drafts from before NROWS have as many rows as most of their columns (JD3).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from colonnade.columns.raw import Companion, Companions
from colonnade.dataclass import dataclass, replace
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.layouts.frame_parts import Unfit, header_of
from colonnade.layouts.h5col import names
from colonnade.layouts.h5col.counts import count_of, stored_rows
from colonnade.layouts.h5col.lists import (
    column_of,
    companions,
    is_list_column,
    is_plain_boolean,
    leaf_units,
    marking_fill,
    read_levels,
)
from colonnade.layouts.wide import is_wide, problems_of
from colonnade.model import (
    CategoriesInfo,
    CodeCodec,
    Coded,
    ColumnInfo,
    DatasetInfo,
    Finding,
    LazyColumns,
    Lists,
    Masked,
    Plain,
    Severity,
    StoredType,
    TableInfo,
    shown_name,
    unreadable_column,
)
from colonnade.nodes import Dataset, Group, attributes
from colonnade.nodes.paths import is_dataset
from colonnade.nodes.protocols import Child, ObjectReference
from colonnade.stored_dtypes import memory_dtype

_HOMES = (names.CATEGORIES, names.SEARCH_INDEXES)


def describe(group: Group, path: str) -> TableInfo:
    """The table as plain data.

    Raises UnsupportedError for a newer MAJOR version, and CorruptError if the number of rows cannot be known.
    """
    return _Description(group, path).table()


def describe_whole(group: Group, path: str) -> TableInfo:
    """The table as plain data with all its columns and problems, however many they are."""
    return _Description(group, path, lazy=False).table()


@dataclass(frozen=True)
class _Described:
    """A column with what the whole table is judged by: the length of its dataset, None for a list column."""

    column: ColumnInfo
    extent: int | None = None


class _Description:
    """One pass over a table group, which collects the problems it finds. Wide tables are described lazily."""

    def __init__(self, group: Group, path: str, lazy: bool = True) -> None:
        self.group, self.path, self.lazy = group, path, lazy
        self.problems: list[Finding] = []
        self.masks: set[int | None] = set()  # the addresses of masks of columns
        self.vocabulary = attributes.read_text(group, names.UNITS_VOCABULARY)
        self.order = attributes.read_texts(group, names.COLUMN_ORDER)
        self.listed = set(self.order or ())
        n_rows = stored_rows(group)
        self.is_draft = n_rows is None
        self.n_rows = 0 if n_rows is None else n_rows
        if n_rows is not None and count_of(group, names.NROWS) is None:
            self.note("JT3", "error", "NROWS is not a uint64")

    def note(self, rule: str, severity: Severity, message: str, name: str | None = None) -> None:
        path = self.path if name is None else f"{self.path.rstrip('/')}/{name}"
        self.problems.append(Finding(rule, severity, shown_name(path), message))

    # -- the table --

    def table(self) -> TableInfo:
        version = self._version()
        lazy = self._lazy_columns() if self.lazy and not self.is_draft else None
        is_lazy = lazy is not None
        columns: Sequence[ColumnInfo] = self._all_columns() if lazy is None else lazy
        labels = self._labels(columns)
        if self.is_draft and self.order is not None:  # labels did not have to be columns
            columns = tuple(c for c in columns if not c.is_label or c.name in self.listed)
        index = attributes.read_text(self.group, names.INDEX)
        if index is not None and labels and index != labels[0].name:
            self.note("JI3", "warning", f"_index is {index!r}, the first label is {labels[0].name!r}")
        return TableInfo(
            path=self.path,
            layout="h5col",
            n_rows=self.n_rows,
            columns=columns,
            labels=labels,
            title=attributes.read_text(self.group, names.TITLE),
            description=attributes.read_text(self.group, names.DESCRIPTION),
            units_vocabulary=self.vocabulary,
            index_name=labels[0].name if labels else None,
            version=version,
            pandas=attributes.read_text(self.group, names.PANDAS),
            problems=problems_of(lambda: _Description(self.group, self.path, lazy=False).table())
            if is_lazy
            else tuple(self.problems),
        )

    def _version(self) -> str | None:
        version = attributes.read_text(self.group, names.VERSION)
        match = re.fullmatch(r"(\d+)(?:\.(\d+))?(?:\..*)?", version or "", re.DOTALL)
        if match is None:
            self.note("JT2", "error", f"VERSION is {version!r}, expected '{names.VERSION_VALUE}'")
            return version
        if match[2] is None or match[1].strip("0") == "":
            self.note("JT2", "warning", f"VERSION is {version!r}, expected '{names.VERSION_VALUE}'")
        if match[1].lstrip("0") not in ("", "1"):
            raise UnsupportedError(
                f"table {self.path} is HEP001 version {version}; this library reads versions up to 1.x",
                feature=f"HEP001 {version}",
                path=self.path,
                found=version,
                supported=names.VERSION_VALUE,
            )
        return version

    def _lazy_columns(self) -> LazyColumns | None:
        """The columns of a wide table, each described when it is first used; None if all must be looked at."""
        if not is_wide(len(self.order or ())):
            return None
        try:
            there = dict.fromkeys(self.group.link_names())
        except CorruptError:
            return None
        listed = [name for name in dict.fromkeys(self.order or ()) if name in there]
        if len(listed) + sum(name in there for name in _HOMES) != len(there):
            return None
        return LazyColumns(listed, lambda name: self._member(self.group.child(name)).column)

    def _all_columns(self) -> Sequence[ColumnInfo]:
        described = [self._member(child) for child in self.group.children() if self._may_be_column(child)]
        if self.is_draft:
            self.n_rows = _most_frequent([entry.extent for entry in described if entry.extent is not None])
            described = [self._of_draft(entry) for entry in described]
        hidden = self._categories_beside(described) | self._masks_beside()
        described = [entry for entry in described if entry.column.name not in hidden]
        gone = {shown_name(f"{self.path.rstrip('/')}/{name}") for name in hidden}
        self.problems = [finding for finding in self.problems if finding.path not in gone]
        extents = {entry.extent for entry in described if entry.extent is not None and entry.extent >= self.n_rows}
        if len(extents) > 1 and not self.is_draft:
            shown = ", ".join(map(str, sorted(extents)))
            self.note("JC6", "warning", f"the datasets of the columns have different lengths: {shown}")
        return self._ordered([entry.column for entry in described])

    def _of_draft(self, entry: _Described) -> _Described:
        column = replace(entry.column, n_rows=self.n_rows)
        if entry.extent is not None and entry.extent != self.n_rows and column.problem is None:
            column = replace(column, problem=f"it has {entry.extent} rows, the table has {self.n_rows} (rule JC6)")
        return replace(entry, column=column)

    def _may_be_column(self, child: Child) -> bool:
        """Whether a child of the group is a column, or stands for one that cannot be read."""
        name, kind = child.name, child.kind
        if kind == "group":
            if name in _HOMES:
                return False
            inner = self.group.open_group(name)
            if inner is not None and is_list_column(inner):
                return True
            message = "a group that H5Col does not know"
            if inner is not None and attributes.read_text(inner, names.CLASS) == names.CLASS_VALUE:
                message = "a table inside a table"
            if name not in self.listed:  # else it is JL1
                self.note("JT7", "error", message, name)
        elif kind == "dataset":
            dataset = self.group.open_dataset(name)
            if dataset is None or name in self.listed or _rank(dataset) in (None, 1):
                return True
            self.note("JT7", "error", "a dataset whose rank is not 1 is not a column", name)
        elif kind == "datatype":
            self.note("JT7", "error", "a datatype in the group of a table", name)
        elif kind != "broken":
            self.note("JC1", "error", f"this {kind} is not a column", name)
        elif name not in self.listed:
            self.note("JT7", "error", "this link leads nowhere, or to an object that cannot be opened", name)
        return name in self.listed and kind in ("broken", "group", "dataset")

    # -- one column --

    def _member(self, child: Child) -> _Described:
        """A column, whatever is wrong with it."""
        name = child.name
        try:
            if child.kind == "group":
                return _Described(self._list(name))
            if child.kind != "dataset":
                raise Unfit("this link leads nowhere, or to an object that cannot be opened")
            dataset = self.group.open_dataset(name)
            info, extent = header_of(dataset, "this dataset")
            assert dataset is not None  # else there is no header
            return _Described(self._plain(name, dataset, info, extent), extent)
        except Unfit as error:
            named = re.search(r"\(rule (\w+)\)$", str(error))
            self.note("JC1" if named is None else named[1], "error", str(error), name)
            return _Described(replace(unreadable_column(name, str(error)), n_rows=self.n_rows))

    def _list(self, name: str) -> ColumnInfo:
        group = self.group.open_group(name)
        if group is None or not is_list_column(group):
            raise Unfit("this group is not a list column (rule JL1)")
        level = read_levels(group, lambda rule, severity, message: self.note(rule, severity, message, name))
        if names.SEARCH_INDEX_LIST in group.attribute_names():
            self.note("JL11", "error", "a list column has no search index", name)
        units = attributes.read_text(group, names.UNITS)
        column = column_of(level, name, self.n_rows, units)
        return replace(
            column,
            units=units or leaf_units(level),
            units_vocabulary=attributes.read_text(group, names.UNITS_VOCABULARY) or self.vocabulary,
            description=attributes.read_text(group, names.DESCRIPTION),
            pandas=attributes.read_text(group, names.PANDAS),
        )

    def _plain(self, name: str, dataset: Dataset, info: DatasetInfo, extent: int) -> ColumnInfo:
        given = frozenset(dataset.attribute_names())
        problem = None
        if extent < self.n_rows:
            problem = f"it has {extent} rows, the table has {self.n_rows} (rule JC6)"
            self.note("JC6", "error", problem, name)
        is_masked = False
        if names.MASK in given:
            why = self._mask_problem(name, dataset, info, names.CATEGORIES in given)
            is_masked = why is None
            if why is None:
                self.note(
                    "JM8", "warning", "it has the attribute MASK, which is reserved: FALSE marks missing rows", name
                )
            else:
                problem = f"it has the attribute MASK, {why} (rule JM8)"
                self.note("JM8", "error", problem, name)
        if is_plain_boolean(info.type) and info.fill is not None:
            self.note("JB4", "warning", "a boolean column has a fill value, which marks nothing", name)
        elif info.fill is None and not is_plain_boolean(info.type) and not self.is_draft:
            self.note("JM1", "note", "it has no fill value of its own: no row is missing", name)
        fill, rows, kind = (
            None if is_masked else marking_fill(info),
            Plain() if names.CATEGORIES not in given else None,
            info.type.kind,
        )
        form: Plain | Coded = Plain()
        if rows is None and kind != "integer":
            self.note("JK1", "error", f"a categorical holds {info.type}, not integer codes", name)
        elif rows is None:
            try:
                form = Coded(self._categories(dataset), _codec(info.type, fill))
                self._check_fill(name, info.type, fill, form.categories.n_categories)
            except Unfit as error:
                problem = problem or str(error)
                self.note("JK3", "error", str(error), name)

        def text(attribute: str) -> str | None:
            return attributes.read_text(dataset, attribute) if attribute in given else None

        return ColumnInfo(
            name=name,
            type=info.type,
            n_rows=self.n_rows,
            storage=info.storage,
            chunk_rows=info.chunk_rows,
            filters=info.filters,
            fill=fill,
            form=Masked(form, marks_present=True) if is_masked else form,
            units=text(names.UNITS),
            units_vocabulary=text(names.UNITS_VOCABULARY) or self.vocabulary,
            description=text(names.DESCRIPTION),
            arrow_type=text(names.ARROW_TYPE),
            pandas=text(names.PANDAS),
            is_label=self.is_draft and names.COLUMN_LIST in given,
            problem=problem,
        )

    def _mask_problem(self, name: str, column: Dataset, info: DatasetInfo, is_coded: bool) -> str | None:
        """Why a mask is not honoured; None for a reference to as many booleans as there are rows (JM8)."""
        if is_coded or is_plain_boolean(info.type):
            return "which is honoured for numbers and strings only"
        mask = mask_of(column)
        if mask is None:
            return "which does not refer to a dataset"
        try:
            stored, n_marks = header_of(mask, "its mask")
        except Unfit as error:
            return f"but {error}"
        if not is_plain_boolean(stored.type) or n_marks < self.n_rows:
            return f"which refers to {n_marks} of {stored.type}, not to a boolean for each of {self.n_rows} rows"
        self.masks.add(mask.address)
        return None

    def _check_fill(self, name: str, stored: StoredType, fill: bytes | None, n_categories: int) -> None:
        if fill is not None and 0 <= int(np.frombuffer(fill, dtype=memory_dtype(stored))[0]) < n_categories:
            self.note("JK5", "error", "the fill of the codes is the code of a category, whose rows are missing", name)

    def _categories(self, column: Dataset) -> CategoriesInfo:
        target = categories_of(column)
        if target is None:
            raise Unfit("its CATEGORIES does not refer to a dataset (rule JK3)")
        info, n_categories = header_of(target, "its categories")
        name = self._category_names.get(target.address)
        if name is None:
            raise Unfit("its categories are not among those of the table (rule JK3)")
        return CategoriesInfo(
            name=name,
            type=info.type,
            n_categories=n_categories,
            ordered=bool(attributes.read_flag(target, names.ORDERED)),
            units=attributes.read_text(target, names.UNITS),
            arrow_type=attributes.read_text(target, names.ARROW_TYPE),
        )

    @cached_property
    def _category_names(self) -> dict[int | None, str]:
        """The categories of the table: their names by their addresses. In drafts they were next to the columns."""
        home = self.group.open_group(names.CATEGORIES) if self.group.hard_kind(names.CATEGORIES) == "group" else None
        if home is not None:
            return {child.address: f"{names.CATEGORIES}/{child.name}" for child in home.children()}
        return {child.address: child.name for child in self.group.children() if child.kind == "dataset"}

    def _masks_beside(self) -> set[str]:
        """The datasets next to the columns that are masks of columns."""
        if not self.masks:
            return set()
        return {child.name for child in self.group.children() if child.address in self.masks} - self.listed

    def _categories_beside(self, described: Sequence[_Described]) -> set[str]:
        """The datasets next to the columns that are categories, as in drafts before 16 June."""
        coded = [entry.column.categories for entry in described if entry.column.categories is not None]
        return {categories.name for categories in coded if categories.name not in self.listed}

    # -- order and labels --

    def _ordered(self, columns: list[ColumnInfo]) -> Sequence[ColumnInfo]:
        """The columns in the order of column-order, then those it does not name, sorted by name (JT5)."""
        if self.order is None:
            if len(columns) > 1:
                self.note("JT5", "warning", "there is no column-order; columns are sorted by name")
            return tuple(columns)
        by_name = {column.name: column for column in columns}
        chosen = [by_name.pop(name) for name in dict.fromkeys(self.order) if name in by_name]
        known = {column.name for column in columns}
        for name in dict.fromkeys(self.order):
            if name not in known:
                self.note("JT5", "error", f"column-order names {name!r}, which is not a column of this table")
        if len(self.listed) != len(self.order):
            self.note("JT5", "error", "column-order names a column twice")
        for name, column in by_name.items():
            if not column.is_label:
                self.note("JT5", "error", "column-order does not name this column", name)
        return tuple(chosen) + tuple(by_name.values())

    def _labels(self, columns: Sequence[ColumnInfo]) -> tuple[ColumnInfo, ...]:
        """The label columns, the outermost level first (JI1)."""
        wanted = self._label_names(columns)
        if not wanted:
            return ()
        named = (
            {name: columns.named(name) for name in wanted if name in columns.names}
            if isinstance(columns, LazyColumns)
            else {column.name: column for column in columns}
        )
        described: list[ColumnInfo] = []
        for name in wanted:
            column = named.get(name)
            if column is None:
                self.note("JI1", "error", f"INDEX_COLUMNS leads to {name!r}, which is not a column")
            elif column.leads_elsewhere and not column.type.has_pointers:
                self.note("JI1", "error", f"the label {name!r} is a list column")
            else:
                described.append(replace(column, is_label=True))
        return tuple(described) if len(described) == len(wanted) else ()

    def _label_names(self, columns: Sequence[ColumnInfo]) -> list[str]:
        """The names of the label columns as the file has them, whether there are such columns or not."""
        if self.group.attribute_storage(names.INDEX_COLUMNS) is None:
            if self.is_draft:
                return [column.name for column in columns if column.is_label]
            index = attributes.read_text(self.group, names.INDEX)
            if index is not None:
                self.note("JI3", "note", f"there is _index, {index!r}, without INDEX_COLUMNS: it is taken as the label")
            return [] if index is None else [index]
        listed = attributes.read_texts(self.group, names.INDEX_COLUMNS)
        if listed is not None:  # drafts gave names
            return listed
        addresses = self.group.reference_addresses(names.INDEX_COLUMNS)
        if not addresses:
            return []
        by_address = {self.group.hard_address(name): name for name in self.group.link_names()}
        return [by_address.get(address, "?") for address in addresses]


def _most_frequent(extents: Sequence[int]) -> int:
    votes = Counter(extents)
    return max(votes, key=lambda n_rows: (votes[n_rows], n_rows), default=0)


def _rank(dataset: Dataset) -> int | None:
    """The rank of a dataset; None if its header cannot be read."""
    try:
        info = dataset.describe()
    except (CorruptError, UnsupportedError):
        return None
    return len(info.shape) if info.shape is not None else 0


def _codec(stored: StoredType, fill: bytes | None) -> CodeCodec | None:
    """What marks missing codes: the fill alone (JK5). A fill of -1 is what plain codes have."""
    is_usual = stored.signed and fill is not None and int(np.frombuffer(fill, dtype=memory_dtype(stored))[0]) == -1
    return None if is_usual else "codes"


def categories_of(column: Dataset) -> Dataset | None:
    """The dataset that the attribute CATEGORIES of a column refers to, or None."""
    addresses = column.reference_addresses(names.CATEGORIES)
    target = column.dereference(ObjectReference(addresses[0])) if len(addresses) == 1 else None
    return target if target is not None and is_dataset(target) else None


def mask_of(column: Dataset) -> Dataset | None:
    """The dataset that the attribute MASK of a column refers to, or None."""
    addresses = column.reference_addresses(names.MASK)
    target = column.dereference(ObjectReference(addresses[0])) if len(addresses) == 1 else None
    return target if target is not None and is_dataset(target) else None


def mask_names(group: Group, datasets: Sequence[Dataset]) -> list[str]:
    """The names of the masks of columns in the group of their table."""
    masks = (mask_of(dataset) for dataset in datasets)
    addresses = {mask.address for mask in masks if mask is not None}
    return [child.name for child in group.children() if child.address in addresses]


def open_column(group: Group, column: ColumnInfo) -> tuple[Dataset, Companion | Companions]:
    """The dataset of a column and its companions: categories; for lists their elements and masks; or None."""
    if isinstance(column.row_form, Lists):
        inner = group.open_group(column.name)
        try:
            if inner is None:
                raise Unfit("it is no longer in the file")
            level = read_levels(inner, lambda _rule, _severity, _message: None)
        except Unfit as error:
            raise FormatError(f"cannot open column {column.name!r}: {error}", column=column.name) from error
        return level.offsets, companions(level)
    if column.storage == "chunked":
        dataset = group.open_chunked(column.name, in_place=not column.filters)
    else:
        dataset = group.open_dataset(column.name)
    if dataset is None:
        why = column.problem or "it is no longer in the file"
        raise FormatError(f"cannot open column {column.name!r}: {why}", column=column.name)
    if column.is_masked:
        return dataset, mask_of(dataset)
    return dataset, None if column.categories is None else categories_of(dataset)
