"""Elements without encoding attributes, as anndata 0.7 and earlier wrote them.

Before 0.7, obs and var are compound datasets: the first field holds the row names, a categorical is a field of codes
whose categories are `<field>_categories` in uns; obsm and varm are compounds too, and raw is `raw.X` and `raw.var`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from colonnade.anndata.source import Element
from colonnade.anndata.values import Categorical, ElementValue, Members
from colonnade.exchange.pandas_arrays import make_frame
from colonnade.layouts.foreign_hints import FRAMES
from colonnade.layouts.foreign_tables import CodedField, frame_columns, read_frame
from colonnade.nodes import Dataset
from colonnade.nodes.members import GroupMember, is_array

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa
    from pandas.api.extensions import ExtensionArray

    ReadElement = Callable[[Element], ElementValue]
COMPOUNDS = ("obsm", "varm", "raw.varm")
NEIGHBORS = ("connectivities", "distances")


def old_members(element: Element, read: ReadElement, pandas: bool) -> Members:
    """The members of an AnnData object written by 0.7 or earlier, under the names they have today."""

    def read_member(now: Element, name: str) -> ElementValue:
        stored = now.names
        if name == "raw" and "raw" not in stored:
            return _raw_members(element, read, pandas)
        if name == "obsp" and name not in stored:
            return {part: read(graph) for part, graph in _neighbors(now).items()}
        return _member(now, name, read, pandas)

    return Members(
        "anndata",
        lambda: element.consistent(_member_names),
        lambda name: element.consistent(lambda now: read_member(now, name)),
    )


def _member_names(element: Element) -> list[str]:
    stored = element.names
    names = [name for name in stored if not name.startswith("raw.")]
    if any(name.startswith("raw.") for name in stored):
        names.append("raw")
    if "obsp" not in names and _neighbors(element):
        names.append("obsp")
    return names


def _raw_members(element: Element, read: ReadElement, pandas: bool) -> Members:
    """What is stored as raw.X, raw.var and raw.varm."""
    return Members(
        "raw",
        lambda: element.consistent(lambda now: [name[4:] for name in now.names if name.startswith("raw.")]),
        lambda part: element.consistent(lambda now: _member(now, f"raw.{part}", read, pandas)),
    )


def _member(element: Element, name: str, read: ReadElement, pandas: bool) -> ElementValue:
    member = element.member(name)
    is_compound = bool(_fields(member.node))
    if name in FRAMES and is_compound:
        uns = element.find("uns")
        return _frame(member.dataset, None if uns is None else uns.node, pandas)
    value = read(member)
    if name in COMPOUNDS and is_compound:
        return {field: value[field] for field in value.dtype.names}
    if name == "uns" and isinstance(value, dict):
        frames = (element.find(frame) for frame in FRAMES)
        used = {f"{field}_categories" for frame in frames if frame is not None for field in _fields(frame.node)}
        return {key: inner for key, inner in value.items() if key not in used}
    return value


def _fields(node: GroupMember) -> tuple[str, ...]:
    """The field names of a compound dataset; empty for anything else."""
    return (node.array_dtype().names or ()) if is_array(node) else ()


def _neighbors(element: Element) -> dict[str, Element]:
    """The graphs that older files store in uns/neighbors, and newer ones in obsp."""
    uns = element.find("uns")
    neighbors = None if uns is None else uns.find("neighbors")
    if neighbors is None:
        return {}
    graphs = {name: neighbors.find(name) for name in NEIGHBORS}
    return {name: graph for name, graph in graphs.items() if graph is not None and not graph.node.is_dataset}


def _frame(dataset: Dataset, uns: GroupMember | None, pandas: bool) -> pa.Table | pandas.DataFrame:
    """A compound dataset as a pyarrow.Table or a pandas frame; its first field holds the row names."""
    if not pandas:
        return read_frame(dataset, uns)
    columns = frame_columns(dataset, uns)
    index_name = next(iter(columns))
    index = columns.pop(index_name)
    arrays = {name: _in_pandas(column) for name, column in columns.items()}
    return make_frame(arrays, index, index_name)


def _in_pandas(column: np.ndarray | CodedField) -> np.ndarray | ExtensionArray:
    return Categorical(column.codes, column.categories).to_pandas() if isinstance(column, CodedField) else column
