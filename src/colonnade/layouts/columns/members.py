"""The members of a group as columns: the dataset of the rows, its companion, and what their attributes say."""

from __future__ import annotations

import numpy as np

from colonnade.columns.mapping import BOOLEAN, default_type
from colonnade.dataclass import dataclass, replace
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.layouts.columns import names
from colonnade.layouts.columns.netcdf import NOT_A_TIME, PackedNumbers, Packing, Since, packing_of
from colonnade.layouts.frame_parts import Absent, Unfit, header_of, member_of
from colonnade.model import CategoriesInfo, Coded, ColumnInfo, DatasetInfo, Masked, Plain, StoredType
from colonnade.nodes import Dataset, Group, Node, attributes
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.elements import dataset_column
from colonnade.nodes.row_views import CharacterRows, MatrixRows, OffsetStrings, RowView, Utf16Columns, ValidityMask
from colonnade.stored_dtypes import memory_dtype

MOST_ROW_BYTES = 4096  # of a row of a matrix that is a column of lists
_NUMPY_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LONG_UNITS = {"D": 86_400, "h": 3600, "m": 60}


class UnknownKind(Unfit):
    """A column of a kind that is not read here."""


@dataclass(frozen=True)
class GroupMember:
    """A member of a group as a column: its description, the dataset of its rows, and its companion if it has one."""

    column: ColumnInfo
    rows: Dataset
    companion: Dataset | None = None


def shape_of(dataset: Dataset) -> tuple[int, ...]:
    """The shape of a dataset; an Unfit if its header cannot be read or it has none."""
    try:
        info = dataset.describe()
    except hdf5_errors(CorruptError, UnsupportedError) as error:
        raise Unfit(f"its header cannot be read: {error}") from error
    if info.shape is None:
        raise Unfit("it has no shape")
    return info.shape


def plain_member(dataset: Dataset, name: str) -> GroupMember:
    """A dataset of any group as a column; an Unfit if it is not one."""
    if names.is_dimension_only(dataset):
        raise Unfit("it is a dimension of netCDF without values")
    shape = shape_of(dataset)
    if names.is_matlab(dataset):
        return _matlab_member(dataset, name, shape)
    if len(shape) == 1:
        return _flat_member(dataset, name)
    return _described(_matrix_rows(dataset, shape), dataset, name)


def _matrix_rows(dataset: Dataset, shape: tuple[int, ...]) -> RowView:
    """A matrix whose rows are strings of one length, or short lists."""
    stored = dataset.describe().type
    if len(shape) == 2 and stored.kind == "string" and stored.size == 1:
        return CharacterRows(dataset)
    is_short = len(shape) == 2 and stored.size * shape[1] <= MOST_ROW_BYTES
    if not is_short or stored.kind not in ("integer", "float", "boolean") or names.has_dimensions(dataset):
        raise Unfit(f"it has rank {len(shape)}")
    return MatrixRows(dataset, axis=0, is_list=True)


def _matlab_member(dataset: Dataset, name: str, shape: tuple[int, ...]) -> GroupMember:
    """A variable of MATLAB, which stores its dimensions in reverse order. A vector has its items as rows."""
    kind = attributes.read_text(dataset, names.MATLAB_CLASS)
    if attributes.read_flag(dataset, names.MATLAB_EMPTY):
        raise Unfit("it is empty")
    if len(shape) == 1:
        return _flat_member(dataset, name)
    if len(shape) != 2:
        raise Unfit(f"it has rank {len(shape)}")
    stored = dataset.describe().type
    if kind == "char":
        if stored.kind != "integer" or stored.size != 2 or 3 * shape[0] > 1 << 16:
            raise Unfit(f"its characters are {stored}, {shape[0]} in a string")
        return _described(Utf16Columns(dataset), dataset, name)
    if stored.kind not in ("integer", "float", "boolean") and (1 not in shape or stored.has_pointers):
        raise Unfit(f"it is a matrix of {stored}")
    axis = 0 if shape[1] == 1 else 1
    is_list = 1 not in shape
    if is_list and stored.size * shape[0] > MOST_ROW_BYTES:
        raise Unfit("its rows are long")
    return _described(MatrixRows(dataset, axis, is_list), dataset, name)


def _flat_member(dataset: Dataset, name: str) -> GroupMember:
    """A dataset of rank 1, with the attributes of netCDF that describe its numbers."""
    info, n_rows = header_of(dataset, "it")
    packing = packing_of(dataset, info.type)
    units = attributes.read_text(dataset, names.UNITS)
    if packing.needs_view and not _is_known_time(info.type, units, packing):
        view = PackedNumbers(dataset, packing)
        column = replace(dataset_column(name, view.describe(), n_rows), fill=view.fill, units=units)
        if packing.since is not None:
            column = replace(column, units=packing.since.units, arrow_type=packing.since.arrow_type)
        return _with_texts(GroupMember(column, view), dataset)
    column = dataset_column(name, info, n_rows)
    if packing.missing:
        column = replace(column, fill=_fill(packing, info))
    member = _described(dataset, dataset, name, column)
    if packing.since is None and units is not None and not _is_temporal_text(info.type, units):
        return member
    shown = packing.since.units if packing.since is not None else None if units is None else f"{units} (not decoded)"
    return replace(member, column=replace(member.column, units=shown))


def _is_known_time(stored: StoredType, units: str | None, packing: Packing) -> bool:
    """Whether units alone make such integers times, as in other layouts."""
    if packing.since is None or packing.is_packed or len(packing.missing) > 1 or stored.size != 8:
        return False
    return units is not None and _is_temporal_text(stored, units)


def _is_temporal_text(stored: StoredType, units: str) -> bool:
    return default_type(stored, units) != default_type(stored)


def _fill(packing: Packing, info: DatasetInfo) -> bytes:
    return np.array(packing.missing[0], dtype=memory_dtype(info.type)).tobytes()


def _described(rows: Dataset, dataset: Dataset, name: str, column: ColumnInfo | None = None) -> GroupMember:
    """A column of these rows, with the attributes of a dataset."""
    if column is None:
        info = rows.describe()
        column = dataset_column(name, info, rows.shape[0])
    if attributes.read_text(dataset, names.MATLAB_CLASS) == "logical" and column.type.kind == "integer":
        column = replace(column, form=Plain("truth"))
    return _with_texts(GroupMember(column, rows), dataset)


def _with_texts(member: GroupMember, node: Node) -> GroupMember:
    """The column with its units and its description, under the names that vaex, netCDF and others give them."""
    column = member.column
    if (
        column.arrow_type is not None
        and column.units is None
        and column.arrow_type.startswith(("timestamp", "duration"))
    ):
        return replace(member, column=replace(column, description=_description(node)))  # the type states their unit
    units = column.units or attributes.read_text(node, names.UNITS) or attributes.read_text(node, names.UNIT)
    return replace(member, column=replace(column, units=units or None, description=_description(node)))


def _description(node: Node) -> str | None:
    return attributes.read_text(node, names.DESCRIPTION) or attributes.read_text(node, names.LONG_NAME) or None


# -- vaex --


def vaex_member(columns: Group, name: str) -> GroupMember:
    """A column of vaex: a dataset, or a group of its data, its offsets and its mask; an Unfit if it is not one."""
    link = f"{names.COLUMNS}/{name}"
    if columns.hard_kind(name) == "dataset":
        dataset = member_of(columns, name)
        member = _vaex_rows(dataset, None, None, name)
        return replace(member, column=replace(_with_texts(member, dataset).column, link=link))
    group = columns.open_group(name) if columns.hard_kind(name) == "group" else None
    if group is None:
        raise Absent("it does not exist")
    kind = attributes.read_text(group, names.TYPE)
    if kind == names.DICTIONARY_ENCODED:
        member = _dictionary_encoded(group, name)
    elif kind is not None:
        raise UnknownKind(f"it is a group of type {kind!r}, which is not known here")
    else:
        member = _parts_of(group, name)
    return replace(member, column=replace(_with_texts(member, group).column, link=link))


def _parts_of(group: Group, name: str) -> GroupMember:
    """The rows of a group with `data`, and perhaps `indices` of strings, a `mask` or a `null_bitmap`."""
    data = member_of(group, "data")
    indices = member_of(group, "indices") if group.hard_kind("indices") == "dataset" else None
    masks = [part for part in ("mask", "null_bitmap") if group.hard_kind(part) == "dataset"]
    mask = member_of(group, masks[0]) if masks else None
    return _vaex_rows(data, indices, mask, name)


def _vaex_rows(data: Dataset, indices: Dataset | None, mask: Dataset | None, name: str) -> GroupMember:
    if indices is not None:
        view = _strings(data, indices)
        column = replace(dataset_column(name, view.describe(), view.shape[0]), arrow_type="string")
        return _masked(GroupMember(column, view), mask)
    shape = shape_of(data)
    if len(shape) != 1:
        return _masked(_described(_matrix_rows(data, shape), data, name), mask)
    info, n_rows = header_of(data, "it")
    column = dataset_column(name, info, n_rows)
    named = attributes.read_text(data, names.DTYPE)
    if named is None or named in ("str", "utf32") or info.type.kind != "integer" or info.type.size != 8:
        return _masked(GroupMember(column, data), mask)
    return _masked(_of_dtype(column, data, named), mask)


def _of_dtype(column: ColumnInfo, data: Dataset, named: str) -> GroupMember:
    """Integers that NumPy's datetime64 or timedelta64 gives a meaning; their least value means a missing one."""
    kind, _, unit = named.partition("[")
    unit = unit.rstrip("]")
    word = {"datetime64": "timestamp", "timedelta64": "duration"}.get(kind.lstrip("<>="))
    if word is None or unit not in (*_NUMPY_UNITS, *_LONG_UNITS):
        return GroupMember(column, data)
    if unit in _NUMPY_UNITS:
        fill = np.int64(NOT_A_TIME).tobytes()
        return GroupMember(replace(column, fill=fill, arrow_type=f"{word}[{unit}]"), data)
    if word == "duration":
        return GroupMember(column, data)
    packing = Packing(missing=(NOT_A_TIME,), since=Since("s", _LONG_UNITS[unit], 0, False))
    view = PackedNumbers(data, packing)
    return GroupMember(replace(column, type=view.describe().type, fill=view.fill, arrow_type="timestamp[s]"), view)


def _strings(data: Dataset, indices: Dataset) -> OffsetStrings:
    """Strings by offsets into bytes."""
    content, _ = header_of(data, "the bytes of its strings")
    offsets, n_offsets = header_of(indices, "the offsets of its strings")
    is_bytes = content.type.size == 1 and content.type.kind in ("string", "integer", "opaque")
    if not is_bytes or offsets.type.kind != "integer" or not n_offsets:
        raise Unfit(f"its strings are {content.type}, with {n_offsets} offsets of {offsets.type}")
    return OffsetStrings(indices, data)


def _masked(member: GroupMember, mask: Dataset | None) -> GroupMember:
    """The column with a mask of booleans, or with a bit for each row."""
    if mask is None:
        return member
    info, length = header_of(mask, "its mask")
    n_rows = member.column.n_rows
    if info.type.kind == "boolean":
        if length != n_rows:
            raise Unfit(f"its mask has {length} rows, not {n_rows}")
    elif info.type.kind != "integer" or info.type.size != 1 or length < -(-n_rows // 8):
        raise Unfit(f"its mask holds {length} items of {info.type}, not a bit for each of {n_rows} rows")
    else:
        mask = ValidityMask(mask, n_rows, BOOLEAN)
    return replace(member, column=replace(member.column, form=Masked(member.column.form)), companion=mask)


def _dictionary_encoded(group: Group, name: str) -> GroupMember:
    """Codes and the values that they stand for."""
    parts = [group.open_group(part) if group.hard_kind(part) == "group" else None for part in ("indices", "dictionary")]
    codes_group, values_group = parts
    if codes_group is None or values_group is None:
        raise Unfit("it has no codes, or no dictionary")
    codes, values = _parts_of(codes_group, name), _parts_of(values_group, name)
    if codes.column.type.kind != "integer" or codes.column.form != Plain() or isinstance(codes.rows, RowView):
        raise Unfit("its codes are not integers without a mask")
    if values.companion is not None:
        raise Unfit("its dictionary has missing values")
    labels = values.column
    link = f"{names.COLUMNS}/{name}/dictionary"
    info = CategoriesInfo(link, labels.type, labels.n_rows, ordered=False, arrow_type=labels.arrow_type)
    return GroupMember(codes.column.with_rows(Coded(info)), codes.rows, values.rows)
