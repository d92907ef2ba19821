"""Describes a frame or Series in the table format of pandas: one dataset of records, which PyTables calls a table.

A record has a member `index`, a member per data column, which has its name, and one per block of other columns: an
array with a position per column. Categories are Series in the table format themselves, in the group `meta`.

The names of the columns of a block, their order, zones, and which members are levels of the index are in attributes
that are pickles, so they are not known: such a column is called by its member and its position, "values_block_0[2]".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from colonnade.columns.mapping import value_type
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass, replace
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.layouts.frame_parts import FrameDescription, Unfit
from colonnade.layouts.pandas import names
from colonnade.layouts.pandas.axes import nan_rep_of, open_array, with_meaning
from colonnade.layouts.pandas.kinds import DATE_TIME, Meaning, Zone, as_strings, meaning_of
from colonnade.layouts.pandas.notes import Properties, as_note, dtype_note
from colonnade.layouts.pandas.pickles import is_pickled, read_string
from colonnade.model import (
    CategoriesInfo,
    Coded,
    ColumnInfo,
    DatasetInfo,
    LazyColumns,
    Member,
    StoredField,
    StoredType,
    TableInfo,
    unreadable_column,
)
from colonnade.nodes import Dataset, Group, attributes
from colonnade.nodes.damage import hdf5_errors

CATEGORY = "category"
CATEGORY_VALUES = "values"
MOST_UNWRITTEN_BYTES = 1 << 20  # bytes of categories that were never written
NO_CATEGORIES = StoredType("float", 8, signed=True, precision=64, mantissa=52, exponent=11)


@dataclass(frozen=True)
class RecordPart:
    """Where the values of a column are: the member of a record, and the position in it if it is a block."""

    field: StoredField
    position: int | None = None

    @property
    def type(self) -> StoredType:
        return self.field.type if self.position is None else self.field.type.item

    @property
    def path(self) -> tuple[str | int, ...]:
        return (self.field.name,) if self.position is None else (self.field.name, self.position)


def called_by_place(member: str, position: int) -> str:
    """The name of a column of a block where only a pickle has it."""
    return f"{member}[{position}]"


def is_called_by_place(column: ColumnInfo) -> bool:
    """Whether the name of a column is not known."""
    match column.form:
        case Member(path=(str(member), int(position))):
            return column.name == called_by_place(member, position)
    return False


class TableDescription(FrameDescription):
    """One pass over a frame or Series, which collects the problems it finds."""

    layout = "pandas"
    _index_names: list[str] | None = None  # of the row labels; None if only pickles name them

    def table(self) -> TableInfo:
        try:
            self.dataset = open_array(self.group, names.TABLE)
            self.info = _header(self.dataset)
        except Unfit as error:
            self.note("error", f"its rows cannot be read: {error}", names.TABLE)
            return TableInfo(self.path, self.layout, 0, version="table", problems=self.found_problems(False))
        assert self.info.shape is not None  # as `_header` has checked
        self.n_rows = self.info.shape[0]
        sources = self._sources()
        index = next((field for field in self.info.type.fields if field.name == names.INDEX), None)
        self._find_plain_names(sources)
        if self._index_names is None:
            self._note_pickles()
        labels = self._levels(sources)
        if not labels and index is not None:
            labels = [self._label(RecordPart(index), list(sources))]
        label_names = tuple(label.name for label in labels)

        def described(name: str) -> ColumnInfo:
            return replace(self._column(name, sources[name]), labels=label_names)

        is_lazy = self.links_if_wide(self.group, len(sources)) is not None
        columns = LazyColumns(list(sources), described)
        whole = columns if is_lazy else tuple(columns)
        for column in [*(() if is_lazy else whole), *labels]:
            if column.problem is not None:
                self.note("error", column.problem, column.name)
            elif column.description is not None:
                self.note("note", column.description, column.name)
        return TableInfo(
            path=self.path,
            layout=self.layout,
            n_rows=self.n_rows,
            columns=whole,
            labels=tuple(labels),
            version="table",
            problems=self.found_problems(is_lazy),
        )

    def _find_plain_names(self, sources: Mapping[str, RecordPart]) -> None:
        """What pandas keeps in pickles, if the writer has stated it plainly too: the names of the row labels."""
        listed = self._plain_strings(names.INDEX_NAMES)
        is_known = listed is not None and 1 <= len(listed) <= names.MOST_LEVELS and len(set(listed)) == len(listed)
        if listed is not None and is_known and (len(listed) == 1 or all(name in sources for name in listed)):
            self._index_names = listed

    def _plain_strings(self, name: str) -> list[str] | None:
        """An attribute of the table that is a list of strings, and not a pickle."""
        return None if is_pickled(self.dataset, name) else attributes.read_texts(self.dataset, name)

    def _levels(self, sources: dict[str, RecordPart]) -> list[ColumnInfo]:
        """The columns that are the levels of the index, which are labels then; none unless there are several."""
        listed = self._index_names or []
        if len(listed) < 2:
            return []
        return [replace(self._column(name, sources.pop(name)), is_label=True) for name in listed]

    def _note_pickles(self) -> None:
        pickled = [name for name in self.group.attribute_names() if is_pickled(self.group, name)]
        pickled += [
            f"{names.TABLE}/{name}" for name in self.dataset.attribute_names() if is_pickled(self.dataset, name)
        ]
        if pickled:
            listed = ", ".join(pickled[:20]) + (", ..." if len(pickled) > 20 else "")
            self.note(
                "warning",
                "attributes are pickles, which are not loaded, so the names of the columns of blocks, their order, "
                f"zones of times and levels of the index are not known: {listed}",
            )

    def _sources(self) -> dict[str, RecordPart]:
        """Where the values of each column are."""
        sources: dict[str, RecordPart] = {}
        for field in self.info.type.fields:
            if field.name == names.INDEX:
                continue
            for position, name in self._named(field):
                if name in sources:
                    self.note("error", f"two columns are called {name!r}", names.TABLE)
                sources.setdefault(name, RecordPart(field, position))
        return sources

    def _named(self, field: StoredField) -> list[tuple[int | None, str]]:
        """The columns of a member, each with its position if the member is a block."""
        if field.type.kind != "array" or len(field.type.dims) != 1:
            return [(None, field.name)]
        if field.type.dims[0] > names.MOST_UNNAMED:
            self.note("error", f"it claims {field.type.dims[0]:,} columns: they are read as one", field.name)
            return [(None, field.name)]
        listed = self._plain_strings(f"{field.name}_{names.KIND}")
        if listed is not None and len(listed) == field.type.dims[0]:
            return list(enumerate(listed))
        return [(position, called_by_place(field.name, position)) for position in range(field.type.dims[0])]

    def _label(self, source: RecordPart, taken: Sequence[str]) -> ColumnInfo:
        """The index, under a name that no column has."""
        candidates = (
            *(self._index_names or ()), names.INDEX, *(f"{names.INDEX}_{number}" for number in range(len(taken) + 1))
        )  # fmt: skip
        name = next(candidate for candidate in candidates if candidate not in taken)
        column = self._described(name, source, read_string(self.dataset, f"{names.INDEX}_kind"))
        note: Properties = {} if name in (names.INDEX, *(self._index_names or ())) else {"name": None}
        if column.pandas is not None:
            note["dtype"] = column.pandas
        return replace(column, pandas=as_note(note), is_label=True)

    def _column(self, name: str, source: RecordPart) -> ColumnInfo:
        column = self._described(name, source, read_string(self.dataset, f"{source.field.name}_dtype"))
        return replace(column, pandas=dtype_note(column.pandas))

    def _described(self, name: str, source: RecordPart, kind: str | None) -> ColumnInfo:
        """A column. `pandas` is its pandas type, where the Arrow type does not express that."""
        column = ColumnInfo(name, source.type, self.n_rows, self.info.storage, self.info.chunk_rows, self.info.filters)
        member = source.field.name
        if read_string(self.dataset, f"{member}_meta") == CATEGORY:
            return self._categorical(column, source)
        if source.type.kind == "string":
            meaning = as_strings(source.type, self._encoding, self._nan_rep(member))
        else:
            zone = read_string(self.dataset, f"{member}_{names.ZONE}")
            meaning = meaning_of(source.type, kind, None if zone is None else Zone(zone))
        is_doubtful = self._index_names is None and (kind or "").startswith(DATE_TIME)
        if is_doubtful and meaning.problem is None:
            meaning = meaning._replace(doubt="whether they have a zone is in a pickle; those that have are in UTC")
        return _of_member(column, source, meaning)

    @property
    def _encoding(self) -> str:
        return read_string(self.group, names.ENCODING) or "UTF-8"

    def _nan_rep(self, member: str) -> str | None:
        """What stands for a missing string: of the index, of each column, or of the whole table."""
        if member == names.INDEX:
            return nan_rep_of(self.dataset, f"{names.INDEX}_nan_rep")
        if attributes.read_flag(self.group, "data_col_nan_rep"):
            return read_string(self.dataset, f"{member}_nan_rep") or None
        return nan_rep_of(self.group, names.NAN_REP) or "nan"

    def _categorical(self, column: ColumnInfo, source: RecordPart) -> ColumnInfo:
        if source.type.kind != "integer":
            return unreadable_column(column.name, f"its codes are {source.type}", names.TABLE)
        try:
            form = Coded(self._categories_of(source.field.name))
        except Unfit as error:
            return unreadable_column(column.name, f"its categories: {error}", names.TABLE)
        return replace(column, form=Member(source.path, form), link=names.TABLE)

    def _categories_of(self, member: str) -> CategoriesInfo:
        is_ordered = attributes.read_flag(self.dataset, f"{member}_{names.ORDERED}")
        return replace(_categories_of(self.group, member), ordered=bool(is_ordered))


def _of_member(column: ColumnInfo, source: RecordPart, meaning: Meaning) -> ColumnInfo:
    read = with_meaning(column, meaning, names.TABLE)
    return replace(read, form=Member(source.path, meaning.form))


def _header(dataset: Dataset) -> DatasetInfo:
    """The header of a dataset of records."""
    try:
        info = dataset.describe()
    except hdf5_errors(CorruptError, UnsupportedError) as error:
        raise Unfit(f"its header cannot be read: {error}") from error
    if info.shape is None or len(info.shape) != 1 or info.type.kind != "compound":
        raise Unfit(f"it is not a list of records, but {info.type} of shape {info.shape}")
    return info


# -- categories: a Series in the table format --


def _categories_path(member: str) -> str:
    return f"{names.META}/{member}/{names.META}/{names.TABLE}"


def _categories_of(group: Group, member: str) -> CategoriesInfo:
    """The categories of a member. pandas stores none if there are none."""
    path = _categories_path(member)
    dataset = group.open_dataset(path)
    if dataset is None:
        return CategoriesInfo(path, NO_CATEGORIES, 0, ordered=False)
    column = _category_column(dataset, path)
    if column.problem is not None:
        raise Unfit(column.problem)
    return CategoriesInfo(path, column.type, column.n_rows, ordered=False, arrow_type=column.arrow_type)


def _category_column(dataset: Dataset, path: str) -> ColumnInfo:
    info = _header(dataset)
    field = next((field for field in info.type.fields if field.name == CATEGORY_VALUES), None)
    if field is None or info.shape is None:
        raise Unfit(f"{path} has no member {CATEGORY_VALUES!r}")
    kind = read_string(dataset, f"{CATEGORY_VALUES}_dtype")
    column = ColumnInfo(CATEGORY_VALUES, field.type, info.shape[0], info.storage, info.chunk_rows, info.filters)
    meaning = as_strings(field.type, "UTF-8", None) if field.type.kind == "string" else meaning_of(field.type, kind)
    return replace(_of_member(column, RecordPart(field), meaning._replace(fill=None)), link=path)


def read_categories(group: Group, info: CategoriesInfo) -> pa.Array:
    """The categories of a column, read."""
    kind = value_type(info.type, info.units, info.arrow_type)
    dataset = group.open_dataset(info.name)
    if dataset is None or not info.n_categories:
        return pa.array([], kind)
    unwritten = (info.n_categories - dataset.written_rows()) * max(info.type.size, 1)
    if unwritten > MOST_UNWRITTEN_BYTES:
        raise UnsupportedError(
            f"{info.name} claims {info.n_categories:,} categories, most of which were never written",
            feature="categories of which most were never written",
            path=info.name,
        )
    return ColumnReader(_category_column(dataset, info.name), dataset).read(0, info.n_categories)
