"""The whole content of a file as plain values that can be compared: through colonnade, and through h5py alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

import colonnade as cn

State = dict[str, Any]


def whole_state(path: Path) -> State:
    """Everything in a file, read both ways; colonnade first, which puts right what a crash left."""
    return {"tables": tables_state(path), "objects": objects_state(path)}


def tables_state(path: Path) -> State:
    """Every table as colonnade reads it; not compounds that may hold references, which are addresses of the file."""
    with cn.open(path) as file:
        tables = {name: file[name] for name in file.tables()}
        return {name: table_state(table) for name, table in tables.items() if not _may_refer(table)}


def _may_refer(table: cn.Table) -> bool:
    """Whether a compound has attributes, or columns of other than plain values."""
    if table.layout != "compound":
        return False
    kinds = {table[name].stored_type.kind for name in table.columns}
    return len(table.attrs) > 0 or not kinds <= {"integer", "float", "string"}


def table_state(table: cn.Table) -> State:
    """One table: how it is described, and its values."""
    return {
        "info": table.info,
        "attrs": _plain(dict(table.attrs), None),
        "schema": str(table.schema),
        "values": table.to_arrow().to_pydict(),
    }


def objects_state(path: Path) -> State:
    """Every group, dataset and attribute as h5py reads it."""
    with h5py.File(path, "r", locking=False) as h5:
        found = {"/": _object(h5["/"])}
        h5.visititems(lambda name, item: found.__setitem__(name, _object(item)))
        return found


def _object(item: Any) -> State:
    attributes = {name: _plain(item.attrs[name], item.file) for name in sorted(item.attrs)}
    if isinstance(item, h5py.Group):
        return {"links": sorted(item), "attributes": attributes}
    values = _plain(item[...], item.file) if isinstance(item, h5py.Dataset) else None
    return {"dtype": str(item.dtype), "attributes": attributes, "values": values, "chunks": getattr(item, "chunks", 0)}


def _plain(value: Any, h5: Any) -> Any:
    """A value without handles: references by the name of what they refer to."""
    if isinstance(value, h5py.Reference):
        return f"-> {h5[value].name}" if value else None
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, [_plain(item, h5) for item in value.ravel().tolist()]
    if isinstance(value, np.generic):
        return _plain(value.tolist(), h5)
    if isinstance(value, dict):
        return {name: _plain(item, h5) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item, h5) for item in value]
    return value
