"""Elements without encoding attributes, as anndata 0.7 and earlier wrote them.

Before 0.7, obs and var are compound datasets: the first field holds the row names, a categorical is a field of codes
whose categories are `<field>_categories` in uns; obsm and varm are compounds too, and raw is `raw.X` and `raw.var`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from colonnade.anndata.values import Categorical, Members
from colonnade.errors import CorruptError
from colonnade.exchange.pandas_arrays import make_frame
from colonnade.h5.arrays import Array, dtype_of, path_of, read_array
from colonnade.h5.nodes import find_member, kind_of, member, member_names
from colonnade.layouts.foreign_hints import FRAMES
from colonnade.layouts.foreign_tables import CodedField, frame_columns, read_frame

ReadElement = Callable[[Any], Any]
COMPOUNDS = ("obsm", "varm", "raw.varm")
NEIGHBORS = ("connectivities", "distances")


def old_members(group: Any, read: ReadElement, pandas: bool) -> Members:
    """The members of an AnnData object written by 0.7 or earlier, under the names they have today."""
    stored = member_names(group)
    names = [name for name in stored if not name.startswith("raw.")]
    if any(name.startswith("raw.") for name in stored):
        names.append("raw")
    if "obsp" not in names and _neighbors(group):
        names.append("obsp")

    def read_member(name: str) -> Any:
        if name == "raw" and "raw" not in stored:
            parts = [part for part in stored if part.startswith("raw.")]
            return Members(
                "raw", [part[4:] for part in parts], lambda part: _member(group, f"raw.{part}", read, pandas)
            )
        if name == "obsp" and name not in stored:
            return {part: read(node) for part, node in _neighbors(group).items()}
        return _member(group, name, read, pandas)

    return Members("anndata", names, read_member)


def _member(group: Any, name: str, read: ReadElement, pandas: bool) -> Any:
    node = member(group, name)
    is_compound = kind_of(node) == "dataset" and dtype_of(node).names is not None
    if name in FRAMES and is_compound:
        return _frame(node, find_member(group, "uns"), pandas)
    value = read(node)
    if name in COMPOUNDS and is_compound:
        return {field: value[field] for field in value.dtype.names}
    if name == "uns" and isinstance(value, dict):
        used = {f"{field}_categories" for frame in FRAMES for field in _fields(find_member(group, frame))}
        return {key: inner for key, inner in value.items() if key not in used}
    return value


def _fields(node: Any) -> tuple[str, ...]:
    """The field names of a compound dataset; empty for anything else."""
    return (dtype_of(node).names or ()) if node is not None and kind_of(node) == "dataset" else ()


def _neighbors(group: Any) -> dict[str, Any]:
    """The graphs that older files store in uns/neighbors, and newer ones in obsp."""
    uns = find_member(group, "uns")
    neighbors = find_member(uns, "neighbors") if uns is not None and kind_of(uns) == "group" else None
    if neighbors is None or kind_of(neighbors) != "group":
        return {}
    graphs = {name: find_member(neighbors, name) for name in NEIGHBORS}
    return {name: node for name, node in graphs.items() if node is not None and kind_of(node) == "group"}


def tenx_shape(group: Any) -> tuple[int, int]:
    """The number of features and of barcodes of a 10x Genomics matrix."""
    node = find_member(group, "shape")
    shape = read_array(node) if node is not None and kind_of(node) == "dataset" else None
    if shape is None or shape.shape != (2,) or shape.dtype.kind not in "iu" or int(shape.min()) < 0:
        raise CorruptError("this is not a matrix shape", path=f"{path_of(group)}/shape")
    return int(shape[0]), int(shape[1])


def _frame(dataset: Any, uns: Any, pandas: bool) -> Any:
    """A compound dataset as a pyarrow.Table or a pandas frame; its first field holds the row names."""
    if not pandas:
        return read_frame(dataset, uns)
    columns = frame_columns(dataset, uns)
    index_name = next(iter(columns))
    index = columns.pop(index_name)
    arrays = {name: _in_pandas(column) for name, column in columns.items()}
    return make_frame(arrays, index, index_name)


def _in_pandas(column: Array | CodedField) -> Any:
    return Categorical(column.codes, column.categories).to_pandas() if isinstance(column, CodedField) else column
