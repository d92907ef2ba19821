"""Describe an ArtifactDB data frame as a TableInfo, leniently: a broken rule is noted, and what can be read is read.

Only the column names are read from the file. A column is `data/<position>`: a dataset, a factor (codes and levels),
or strings as pointers into a heap. Its type is in its attribute `type`, or in the metadata next to the file.
"""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from colonnade.dataclass import dataclass, replace
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.metadata import (
    ColumnClaim,
    Metadata,
    count_levels,
    directory_of,
    metadata_of,
    read_levels,
    read_object_file,
)
from colonnade.layouts.artifactdb.names import Generation
from colonnade.layouts.frame_parts import (
    FrameDescription,
    Unfit,
    common_length,
    header_of,
    member_of,
    not_a_column,
)
from colonnade.layouts.wide import sample
from colonnade.model import (
    CategoriesInfo,
    Codec,
    Coded,
    ColumnInfo,
    LazyColumns,
    OtherColumn,
    Plain,
    Pointers,
    StoredType,
    TableInfo,
    unreadable_column,
)
from colonnade.nodes import Dataset, Group, attributes
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.elements import claims_too_much, dataset_column
from colonnade.nodes.paths import dataset_at, group_at
from colonnade.stored_dtypes import memory_dtype

if TYPE_CHECKING:
    import pyarrow as pa

VARIABLE_STRING = StoredType("text", 8)
INT32_MIN = -(2**31)
LONGEST_FRAME = 2**63 - 1  # the most rows of a table, whatever an attribute claims


@dataclass(frozen=True)
class _Parts:
    """The parts of a column: its rows, their companion (levels or a heap), and its declared type."""

    rows: Dataset
    companion: Dataset | None
    type: str
    format: str | None = None
    ordered: bool = False
    levels: str | None = None  # the resource with the levels, if they are not in the file


def generation_of(group: Group, metadata: Metadata | None) -> Generation:
    """Which rules the frame follows. A directory around the file, or a version on the group, outranks the metadata."""
    folder = directory_of(group)
    if folder is not None:
        try:
            found = read_object_file(folder)
        except FormatError:
            found = None
        return Generation("directory", (found.version if found is not None else None) or "1.0")
    version = attributes.read_text(group, names.VERSION)
    if version is None and metadata is not None:
        return metadata.generation
    return Generation("versioned", version or "1.0")


def describe(group: Group, path: str) -> TableInfo:
    """The frame as plain data. Raises an UnsupportedError for an unknown version."""
    return _Description(group, path).table()


class _Description(FrameDescription):
    """One walk over a frame's group, collecting what is wrong on the way."""

    layout = "artifactdb"

    def __init__(self, group: Group, path: str, lazy: bool = True) -> None:
        super().__init__(group, path, lazy)
        self.metadata = metadata_of(group, path)
        self.generation = generation_of(group, self.metadata)

    def table(self) -> TableInfo:
        self._check_version()
        data = group_at(self.group, names.DATA)
        listed = self._names()
        there = self.links_if_wide(data, len(listed))
        is_there = partial(_has_link, data) if there is None else there.__contains__
        positions = {name: position for position, name in enumerate(listed) if is_there(str(position))}
        others = [
            OtherColumn(name, self._elsewhere(position, name))
            for position, name in enumerate(listed)
            if name not in positions
        ]
        order = list(positions)
        first = order if there is None else sample(order)
        found = {name: self._column(data, positions[name], name) for name in first}
        label = self._row_names(set(listed))
        n_rows = self._length([*found.values(), *([label] if label is not None else [])])
        label_names = () if label is None else (label.name,)

        def described(name: str) -> ColumnInfo:
            column = found.get(name) or self._column(data, positions[name], name)
            return self.of_frame(column, n_rows, label_names)

        columns = LazyColumns(order, described)
        return TableInfo(
            path=self.path,
            layout="artifactdb",
            n_rows=n_rows,
            columns=tuple(columns) if there is None else columns,
            labels=() if label is None else (self.of_frame(label, n_rows, ()),),
            index_name=None if label is None else label.name,
            version=str(self.generation),
            others=tuple(others),
            problems=self.found_problems(is_lazy=there is not None),
        )

    def _check_version(self) -> None:
        made = self.generation
        known = made.version.split(".")[0] == "1" if made.family != "legacy" else made.hdf5 <= 3 and made.frame <= 2
        if not known:
            raise UnsupportedError(
                f"{self.path} is an ArtifactDB data frame of version {made}; this library reads 1.x, and by metadata "
                "hdf5_data_frame up to 3 and data_frame up to 2",
                feature=f"ArtifactDB data frame {made}",
                path=self.path,
                found=str(made),
            )

    def _names(self) -> list[str]:
        """The names of all columns. Repeated and empty names get a number appended."""
        listed = read_texts(self.group, names.COLUMN_NAMES)
        if listed is None:
            self.note("error", "its column names cannot be read", names.COLUMN_NAMES)
            listed = [claim.name or "" for claim in self.metadata.columns] if self.metadata is not None else []
        met: set[str] = set()
        taken, last = set(listed), dict[str, int]()
        for position, name in enumerate(listed):
            if name in met or not name:
                self.note("error", f"column {position} has the name {name!r}, which is empty or repeated")
                base = name or "column"
                listed[position], last[base] = _free_name(base, taken, last.get(base, 1))
                taken.add(name)
            met.add(name)
        return listed

    def _claim(self, position: int) -> ColumnClaim:
        columns = self.metadata.columns if self.metadata is not None else ()
        return columns[position] if position < len(columns) else ColumnClaim()

    def _elsewhere(self, position: int, name: str) -> str:
        """Where the values of a column are that is not in the file."""
        if self.generation.family == "directory":
            return f"{names.OTHER_COLUMNS}/{position}"
        resource = self._claim(position).resource
        if resource is None:
            self.note("error", f"column {name!r} is not in the file, and the metadata do not name another", names.DATA)
        return resource or ""

    def _column(self, data: Group, position: int, name: str) -> ColumnInfo:
        """The description of one member, with a problem if it cannot be read as a column."""
        link = f"{names.DATA}/{position}"
        try:
            parts = _parts(data, str(position), self.generation, self._claim(position))
            column, problem = self._described(name, link, parts)
        except Unfit as error:
            self.note("error", f"this is not a column: {error}", link)
            return unreadable_column(name, str(error), link)
        if problem is not None:
            self.note("error", problem, link)
        return column

    def _described(self, name: str, link: str, parts: _Parts) -> tuple[ColumnInfo, str | None]:
        info, n_rows = header_of(parts.rows, "it")
        column = dataset_column(name, info, n_rows)
        arrow_type = attributes.read_text(parts.rows, names.ARROW_TYPE)
        column = self._with_form(replace(column, link=link, arrow_type=arrow_type), parts)
        fill, problem = missing_mark(parts.rows, column, self.generation)
        if problem is not None and column.problem is None:
            column = replace(column, problem=problem)
        if column.type.kind == "float" and column.row_form == Plain() and self.generation.family == "legacy":
            codec: Codec | None = "r" if self.generation.hdf5 <= 1 else "bits" if fill is not None else None
            column = column.with_rows(Plain(codec))
        return replace(column, fill=fill), column.problem

    def _with_form(self, column: ColumnInfo, parts: _Parts) -> ColumnInfo:
        """The column with the encoding that follows from its declared type and its datatype."""
        kind = column.type.kind
        if parts.type == names.FACTOR:
            return self._with_levels(column, parts)
        if parts.type == names.VLS:
            return replace(column, form=Pointers(), problem=_pointer_problem(column.type, parts.companion))
        wanted = _STORED[parts.type]
        if kind not in wanted:
            return replace(column, problem=f"a column of type {parts.type} holds {column.type}")
        codec: Codec | None = None
        if parts.type == names.BOOLEAN:
            codec = "truth"
            if kind == "float":
                self.note("warning", "booleans are stored as floats, as dolomite-base stores BooleanList", column.link)
        elif parts.type == names.NUMBER and kind == "integer":
            codec = "double"
        elif parts.type == names.STRING and parts.format in ("date", "date-time"):
            codec = "date" if parts.format == "date" else "date-time"
        return column.with_rows(Plain(codec))

    def _with_levels(self, column: ColumnInfo, parts: _Parts) -> ColumnInfo:
        is_text = column.type.kind in ("string", "text")
        if not is_text and column.type.kind != "integer":
            return replace(column, problem=f"a factor holds {column.type}, not codes")
        try:
            stored, count = self._levels(parts)
        except FormatError as error:
            return replace(column, problem=str(error))
        found = CategoriesInfo(parts.levels or f"{column.link}/{names.LEVELS}", stored, count, parts.ordered)
        return column.with_rows(Coded(found, "levels" if is_text else "codes"))

    def _levels(self, parts: _Parts) -> tuple[StoredType, int]:
        if parts.companion is not None:
            info, count = header_of(parts.companion, "its dataset of levels")
            if info.type.kind not in ("string", "text"):
                raise Unfit(f"its levels are {info.type}, not strings")
            return info.type, count
        if parts.levels is None or self.metadata is None:
            raise FormatError("its levels are neither in the file nor named by metadata")
        return VARIABLE_STRING, count_levels(self.metadata, parts.levels, self.group)

    def _row_names(self, taken: set[str]) -> ColumnInfo | None:
        """The row names as a label, under a name that no column has; None if there are none."""
        declared = self.metadata is None or self.generation.family != "legacy" or self.metadata.row_names
        if self.group.hard_kind(names.ROW_NAMES) not in ("dataset", "broken") or not declared:
            return None
        try:
            info, n_rows = header_of(self.group.open_dataset(names.ROW_NAMES), "it")
        except Unfit as error:
            self.note("error", f"these are not row names: {error}", names.ROW_NAMES)
            name = _free_name(names.ROW_NAMES, taken)[0] if names.ROW_NAMES in taken else names.ROW_NAMES
            return unreadable_column(name, str(error), names.ROW_NAMES, is_label=True)
        problem = None if info.type.kind in ("string", "text") else f"row names are {info.type}, not strings"
        if problem is not None:
            self.note("error", problem, names.ROW_NAMES)
        given = attributes.read_text(dataset_at(self.group, names.ROW_NAMES), names.LABEL_NAME) or names.ROW_NAMES
        name = _free_name(given, taken)[0] if given in taken else given
        return replace(dataset_column(name, info, n_rows), is_label=True, link=names.ROW_NAMES, problem=problem)

    def _length(self, columns: list[ColumnInfo]) -> int:
        """The number of rows: the most frequent length of its columns, or else the one in the group or the metadata."""
        found = common_length(columns)
        if found is not None:
            return found
        counted = attributes.read_integers(self.group, names.ROW_COUNT)
        claimed = counted[0] if counted else self.metadata.n_rows if self.metadata is not None else 0
        return min(max(claimed or 0, 0), LONGEST_FRAME)


def _has_link(group: Group, name: str) -> bool:
    return group.hard_kind(name) is not None


_STORED = {
    names.BOOLEAN: ("integer", "float"),
    names.INTEGER: ("integer",),
    names.NUMBER: ("integer", "float"),
    names.STRING: ("string", "text"),
}


def _free_name(base: str, taken: set[str], last: int = 1) -> tuple[str, int]:
    """The first free name of the form `<base>_<number>` with a number above `last`, and that number."""
    number = next(number for number in count(last + 1) if f"{base}_{number}" not in taken)
    return f"{base}_{number}", number


def _parts(data: Group, link: str, generation: Generation, claim: ColumnClaim) -> _Parts:
    """The datasets of a column, and its declared type."""
    kind = data.hard_kind(link)
    if kind == "dataset":
        return _dataset_parts(data.open_dataset(link), generation, claim)
    if kind != "group":
        raise not_a_column(kind)
    return _group_parts(data.open_group(link))


def _dataset_parts(rows: Dataset | None, generation: Generation, claim: ColumnClaim) -> _Parts:
    if rows is None:
        raise Unfit("the dataset cannot be opened")
    if generation.is_self_described:
        declared = attributes.read_text(rows, names.TYPE)
        text_format = attributes.read_text(rows, names.FORMAT)
        ordered, levels = False, None
    else:
        declared, text_format = claim.kind, claim.text_format
        ordered, levels = claim.is_ordered, claim.levels
    if declared is None:
        raise Unfit("its type is not declared")
    if declared not in (*_STORED, names.FACTOR):
        raise Unfit(f"its type is {declared!r}")
    return _Parts(rows, None, declared, text_format, ordered, levels)


def _group_parts(group: Group | None) -> _Parts:
    if group is None:
        raise Unfit("the group cannot be opened")
    declared = attributes.read_text(group, names.TYPE)
    if declared == names.FACTOR:
        ordered = bool(attributes.read_flag(group, names.ORDERED))
        return _Parts(member_of(group, names.CODES), member_of(group, names.LEVELS), declared, None, ordered)
    if declared == names.VLS:
        return _Parts(member_of(group, names.POINTERS), member_of(group, names.HEAP), declared)
    raise Unfit(f"a group of type {declared!r}")


def _pointer_problem(stored: StoredType, heap: Dataset | None) -> str | None:
    """Why these cannot be pointers into this heap; None if they can."""
    first = [field.type for field in stored.fields[:2]]
    if stored.kind != "compound" or len(first) < 2 or any(one.kind != "integer" or one.signed for one in first):
        return f"its pointers are {stored}, not an offset and a length"
    info, _ = header_of(heap, "its heap")
    if info.type.kind != "integer" or info.type.signed or info.type.size != 1:
        return f"its heap is {info.type}, not bytes"
    return None


def missing_mark(rows: Dataset, column: ColumnInfo, generation: Generation) -> tuple[bytes | None, str | None]:
    """The placeholder of missing rows as bytes (`ColumnInfo.fill`), and what is wrong with it; None for each."""
    is_text = column.type.kind in ("string", "text") or isinstance(column.form, Pointers)
    if generation.family == "legacy" and generation.hdf5 <= 1 and not is_text:
        if column.type.kind != "integer" or column.type.size < 4 or not column.type.signed:
            return None, None
        return np.array(INT32_MIN, dtype=memory_dtype(column.type)).tobytes(), None
    found = rows.attribute_storage(names.PLACEHOLDER)
    if found is None:
        return None, None
    stored, shape = found
    if shape != ():
        return None, "its placeholder for missing values is not a scalar"
    if is_text:
        return _text_mark(rows, column)
    if stored != column.type:
        return None, f"its placeholder for missing values is {stored}, it holds {column.type}"
    return rows.attribute_element(names.PLACEHOLDER), None


def _text_mark(rows: Dataset, column: ColumnInfo) -> tuple[bytes | None, str | None]:
    """A string placeholder: its bytes up to NUL, padded to the column's width. A longer one cannot mark any row."""
    stored = rows.inspect_attribute(names.PLACEHOLDER)
    if stored is None or not stored.is_text or len(stored.values) != 1:
        return None, "its placeholder for missing values is not a string"
    value = stored.values[0]
    text = (value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")).split(b"\0")[0]
    if column.type.kind != "string":
        return text, None
    return (text.ljust(column.type.size, b"\0") if len(text) <= column.type.size else None), None


def read_texts(group: Group, name: str) -> list[str] | None:
    """All strings of a dataset of rank 1; None if it is not one, or claims far more than is stored."""
    from colonnade.columns.read import ColumnReader

    if group.hard_kind(name) != "dataset":
        return None
    dataset = group.open_dataset(name)
    if dataset is None:
        return None
    try:
        info, n_texts = header_of(dataset, "it")
        if info.type.kind not in ("string", "text") or n_texts > dataset.written_rows() + names.MOST_UNWRITTEN_NAMES:
            return None
        if claims_too_much(n_texts * max(info.type.size, 1), dataset.stored_bytes()):
            return None
        column = dataset_column(name, info, n_texts)
        texts: list[str] = ColumnReader(column, dataset).read(0, n_texts).to_pylist()
    except hdf5_errors(Unfit, CorruptError, UnsupportedError):
        return None
    return texts


def open_column(group: Group, column: ColumnInfo) -> tuple[Dataset, Dataset | pa.Array | None]:
    """A column's rows, and its levels or heap, or None. Levels in another file are returned as an Arrow array."""
    path = group.path
    if column.link == names.ROW_NAMES:
        rows = group.open_dataset(names.ROW_NAMES)
        if rows is None:
            raise FormatError("the row names are no longer in the file", column=column.name)
        return rows, None
    metadata = metadata_of(group, path)
    generation = generation_of(group, metadata)
    position = position_of(column)
    claims = metadata.columns if metadata is not None else ()
    claim = claims[position] if position < len(claims) else ColumnClaim()
    try:
        parts = _parts(group_at(group, names.DATA), str(position), generation, claim)
    except Unfit as error:
        raise FormatError(f"cannot open column {column.name!r}: {error}", column=column.name) from None
    if parts.type != names.FACTOR or parts.companion is not None or column.problem is not None:
        return parts.rows, parts.companion
    assert metadata is not None and parts.levels is not None  # describe found its levels
    return parts.rows, read_levels(metadata, parts.levels, group)


def position_of(column: ColumnInfo) -> int:
    """The position of a column among the others: the last part of its link."""
    return int((column.link or "").rsplit("/", 1)[-1])


def rows_of(group: Group, column: ColumnInfo) -> Dataset | None:
    """The dataset with the rows of a column: itself, its codes, or its pointers."""
    link = column.link or ""
    if hard_kind_at(group, link) == "dataset":
        return group.open_dataset(link)
    inner = group.open_group(link)
    if inner is None:
        return None
    names_in = {child.name for child in inner.children()}
    return next((inner.open_dataset(name) for name in (names.CODES, names.POINTERS) if name in names_in), None)


def hard_kind_at(group: Group, link: str) -> str | None:
    """The kind of object at the end of a path of hard links below a group; None if there is none."""
    *folders, last = link.split("/")
    for folder in folders:
        inner = group.open_group(folder) if group.hard_kind(folder) == "group" else None
        if inner is None:
            return None
        group = inner
    return group.hard_kind(last)
