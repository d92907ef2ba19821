"""The dataset that holds the categories of a column: made, and grown behind those it has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from colonnade.columns import compute as pc
from colonnade.columns.encode import encode
from colonnade.columns.forms import POINTER_COST
from colonnade.columns.mapping import BINARY, TEXT, stored_string, stored_type
from colonnade.columns.strings import byte_lengths
from colonnade.columns.strings import holds_nul as has_zero_bytes
from colonnade.h5.attributes import BROKEN
from colonnade.h5.datasets import DatasetPlan, create_dataset, default_chunk_rows, describe_dataset, resize, write_rows
from colonnade.model import StoredType

MANY = 4096  # categories: fewer are simple


def holds_nul(values: pa.Array) -> bool:
    """Whether one of these texts holds NUL, which ends a text in HDF5."""
    if not pa.types.is_string(values.type) or not has_zero_bytes(values):
        return False
    return bool(pc.any(pc.match_substring(values, "\0")).as_py())


def create_categories(
    group: Any, name: str, values: pa.Array, column: str, even: bool = False
) -> tuple[Any, StoredType]:
    """A new dataset of categories that can grow, and its datatype; text with NUL is kept as bytes.

    even: where there are many texts of similar lengths, they are kept at one length: half the bytes, and read sooner.
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
    """A string that holds each of these texts and somewhat longer ones; None where that takes more than pointers do."""
    lengths = byte_lengths(values)
    width = -(-max(1, int(lengths.max())) // 8) * 8
    return stored_string(width) if width <= float(lengths.mean()) + POINTER_COST else None


def add_categories(dataset: Any, values: pa.Array, n_before: int, column: str) -> bool:
    """Put the texts behind the first `n_before` into a dataset that holds those; False where it cannot take them."""
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
    except BROKEN:
        return False
    encoded = encode(new, info.type, None, column)
    write_rows(dataset, info.type, n_before, encoded.image, len(new))
    return True


def _takes(stored: StoredType, texts: pa.Array) -> bool:
    """Whether a string of this kind, made by us, holds these texts."""
    return stored == stored_string(stored.size) and int(byte_lengths(texts).max(initial=0)) <= stored.size
