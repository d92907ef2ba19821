"""Arrays of PyTables as tables of one column, when they are asked for: Array, CArray, EArray and VLArray."""

from __future__ import annotations

from collections.abc import Callable

from colonnade.columns.members import row_type
from colonnade.dataclass import replace
from colonnade.errors import ColonnadeError
from colonnade.layouts import record_tables
from colonnade.layouts.contract import Candidate
from colonnade.layouts.record_tables import CLASS, dataset_of
from colonnade.model import ColumnInfo, DatasetInfo, Member, StoredType, TableInfo
from colonnade.nodes import Group, attributes
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.dataset_tables import is_dataset_table

VALUE_COLUMN = "value"
_PICKLED = "object"


def candidate(group: Group) -> Candidate | None:
    """What an array would be as a table; None for what is not an array of PyTables with rows."""
    if not is_dataset_table(group) or attributes.read_text(group, CLASS) not in record_tables.PYTABLES_ARRAYS:
        return None
    try:
        info = group.dataset.describe()
    except hdf5_errors(ColonnadeError):
        return None
    return Candidate(info.shape[0], 1, group.dataset.stored_bytes()) if info.shape else None


def describe_array(group: Group, path: str, info: DatasetInfo, seen: Callable[[StoredType], StoredType]) -> TableInfo:
    """An array as a table of one column: a row is what the first dimension counts."""
    n_rows = info.shape[0] if info.shape else 0
    column = ColumnInfo(
        VALUE_COLUMN, seen(row_type(info)), n_rows, info.storage, info.chunk_rows, info.filters, form=Member(())
    )
    if attributes.read_text(dataset_of(group), "PSEUDOATOM") == _PICKLED:
        column = replace(column, problem="its rows are Python pickles, which are not loaded: they may run any program")
    return TableInfo(path, "pytables", n_rows, (column,))
