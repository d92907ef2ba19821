"""Tables that are datasets of a compound type, described: shared by the layouts `compound` and `pytables`.

HDF5's high-level library (H5TB) and PyTables describe members by attributes of the dataset: FIELD_0_NAME, FIELD_0_FILL
(what rows hold for which no value was given; it does not mean that a value is missing), and what others add in the same
way, such as FIELD_0_UNITS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from colonnade.model import ColumnInfo, DatasetInfo, Member, StoredField, StoredType
from colonnade.nodes import Dataset, Group, attributes
from colonnade.nodes.dataset_tables import DatasetTable, is_dataset_table

CLASS, TITLE, VERSION, TABLE = "CLASS", "TITLE", "VERSION", "TABLE"
TABLE_ATTRIBUTES = (CLASS, TITLE, VERSION)
NROWS, DIRTY, INDEX, INDEXES_OF = "NROWS", "DIRTY", "INDEX", "_i_"  # of PyTables
PYTABLES_ATTRIBUTES = (*TABLE_ATTRIBUTES, NROWS, "AUTO_INDEX", "FLAVOR", "EXTDIM", "PSEUDOATOM", "BYTEORDER")
PYTABLES_ARRAYS = ("ARRAY", "CARRAY", "EARRAY", "VLARRAY")
_OF_FIELD = re.compile(r"FIELD_(\d{1,5})_([A-Z]+)")
_UNITS, _DESCRIPTIONS = ("UNITS", "UNIT"), ("DESCRIPTION", "DESC", "COMMENT")


def is_record_table(group: Group) -> bool:
    """Whether a dataset is of rank 1, or holds nothing, and its elements are of a compound type."""
    if not is_dataset_table(group):
        return False
    dataset = group.dataset
    return (len(dataset.shape) == 1 or dataset.is_null) and dataset.describe().type.kind == "compound"


def table_of(group: Group) -> DatasetTable:
    assert is_dataset_table(group)  # by `is_table` of the layout
    return group


def dataset_of(group: Group) -> Dataset:
    """The dataset that a table is."""
    return table_of(group).dataset


def open_column(group: Group, column: ColumnInfo) -> tuple[Dataset, None]:
    return dataset_of(group), None


def n_rows_of(info: DatasetInfo) -> int:
    return info.shape[0] if info.shape else 0


def member_columns(
    group: Group, info: DatasetInfo, seen: Callable[[StoredType], StoredType] = lambda stored: stored
) -> Iterator[ColumnInfo]:
    """The members of the elements of a dataset as columns. seen: the datatype that a layout sees a datatype as."""
    strings = field_texts(group)
    for position, field in enumerate(info.type.fields):
        yield _member_column(field, info, seen(field.type), strings.get(position, {}))


def _member_column(field: StoredField, info: DatasetInfo, seen: StoredType, strings: dict[str, str]) -> ColumnInfo:
    units = next((strings[word] for word in _UNITS if word in strings), None)
    description = next((strings[word] for word in _DESCRIPTIONS if word in strings), None)
    return ColumnInfo(
        field.name,
        seen,
        n_rows_of(info),
        info.storage,
        info.chunk_rows,
        info.filters,
        form=Member((field.name,)),
        units=units,
        description=description,
    )


def field_texts(group: Group) -> dict[int, dict[str, str]]:
    """The strings that attributes state of each member, by its position."""
    strings: dict[int, dict[str, str]] = {}
    for name in group.attribute_names():
        match = _OF_FIELD.fullmatch(name)
        if match is not None and match[2] not in ("FILL",):
            text = attributes.read_text(group, name)
            if text:
                strings.setdefault(int(match[1]), {})[match[2]] = text
    return strings


def own_attributes(group: Group) -> tuple[str, ...]:
    """The names of attributes that describe members."""
    return tuple(name for name in group.attribute_names() if _OF_FIELD.fullmatch(name))
