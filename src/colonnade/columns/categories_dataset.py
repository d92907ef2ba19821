"""The dataset that holds the categories of a column: made, and grown behind those it has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from colonnade.columns import compute as pc
from colonnade.columns.encode import encode
from colonnade.columns.mapping import BINARY, stored_type
from colonnade.columns.strings import holds_nul as has_zero_bytes
from colonnade.h5.attributes import BROKEN
from colonnade.h5.datasets import DatasetPlan, create_dataset, default_chunk_rows, describe_dataset, resize, write_rows
from colonnade.model import StoredType


def holds_nul(values: pa.Array) -> bool:
    """Whether one of these texts holds NUL, which ends a text in HDF5."""
    if not pa.types.is_string(values.type) or not has_zero_bytes(values):
        return False
    return bool(pc.any(pc.match_substring(values, "\0")).as_py())


def create_categories(group: Any, name: str, values: pa.Array, column: str) -> tuple[Any, StoredType]:
    """A new dataset of categories that can grow, and its datatype; text with NUL is kept as bytes."""
    stored = BINARY if holds_nul(values) else stored_type(values.type, f"the categories of {column!r}")
    dataset = create_dataset(group, name, DatasetPlan(stored, default_chunk_rows(len(values), stored)), len(values))
    encoded = encode(values, stored, None, name)
    write_rows(dataset, stored, 0, encoded.image, len(values))
    return dataset, stored


def add_categories(dataset: Any, values: pa.Array, n_before: int, column: str) -> bool:
    """Put the texts behind the first `n_before` into a dataset that holds those; False where it cannot take them."""
    new = values.slice(n_before)
    if dataset is None or not pa.types.is_string(new.type) or holds_nul(new):
        return False
    info = describe_dataset(dataset)
    if info.type.kind != "text" or info.chunk_rows is None or info.shape != (n_before,):
        return False
    try:
        resize(dataset, len(values))
    except BROKEN:
        return False
    encoded = encode(new, info.type, None, column)
    write_rows(dataset, info.type, n_before, encoded.image, len(new))
    return True
