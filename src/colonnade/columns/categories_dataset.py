"""The dataset that holds the categories of a column: create it, and append new categories."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from colonnade.columns import compute as pc
from colonnade.columns.encode import encode
from colonnade.columns.forms import POINTER_COST
from colonnade.columns.mapping import BINARY, TEXT, stored_string, stored_type
from colonnade.columns.strings import byte_lengths
from colonnade.columns.strings import holds_nul as has_zero_bytes
from colonnade.h5.damage import hdf5_errors
from colonnade.h5.datasets import DatasetPlan, create_dataset, default_chunk_rows, describe_dataset
from colonnade.h5.row_sink import resize, write_rows
from colonnade.model import StoredType

MANY = 4096  # categories: with fewer, the datatype does not matter


def holds_nul(values: pa.Array) -> bool:
    """Whether one of these strings contains NUL, which ends a string in HDF5."""
    if not pa.types.is_string(values.type) or not has_zero_bytes(values):
        return False
    return bool(pc.any(pc.match_substring(values, "\0")).as_py())


def create_categories(
    group: Any, name: str, values: pa.Array, column: str, even: bool = False
) -> tuple[Any, StoredType]:
    """Create a dataset of categories that can grow, and return it with its datatype; text with NUL is stored as bytes.

    even: store many strings of similar lengths as fixed-length strings: half the bytes, and faster to read.
    """
    stored = BINARY if holds_nul(values) else stored_type(values.type, f"the categories of {column!r}")
    if even and stored == TEXT and len(values) >= MANY:
        stored = _one_length(values) or stored
    encoded = encode(values, stored, None, name)
    plan = DatasetPlan(stored, default_chunk_rows(len(values), stored))
    dataset = create_dataset(group, name, plan, len(values))
    write_rows(dataset, stored, 0, encoded.image, len(values))
    return dataset, stored


def _one_length(values: pa.Array) -> StoredType | None:
    """A fixed-length string type for these and somewhat longer strings; None if pointers would take less space."""
    lengths = byte_lengths(values)
    width = -(-max(1, int(lengths.max())) // 8) * 8
    return stored_string(width) if width <= float(lengths.mean()) + POINTER_COST else None


def add_categories(dataset: Any, values: pa.Array, n_before: int, column: str) -> bool:
    """Append all but the first `n_before` values, which the dataset already holds; False if it cannot hold them."""
    new = values.slice(n_before)
    if dataset is None or not pa.types.is_string(new.type) or holds_nul(new):
        return False
    info = describe_dataset(dataset)
    if info.type.kind not in ("text", "string") or info.chunk_rows is None or info.shape != (n_before,):
        return False
    if info.type.kind == "string" and not _takes(info.type, new):
        return False
    try:
        resize(dataset, len(values))
    except hdf5_errors():
        return False
    encoded = encode(new, info.type, None, column)
    write_rows(dataset, info.type, n_before, encoded.image, len(new))
    return True


def _takes(stored: StoredType, texts: pa.Array) -> bool:
    """Whether a string datatype that colonnade created holds these strings."""
    return stored == stored_string(stored.size) and int(byte_lengths(texts).max(initial=0)) <= stored.size
