"""Categories that grow as batches arrive, the codes of each batch, and the dataset that holds the categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import kernels
from colonnade.columns.encode import encode
from colonnade.columns.forms import POINTER_COST
from colonnade.columns.mapping import BINARY, TEXT, plain_type, stored_string, stored_type
from colonnade.columns.strings import byte_lengths, string_buffers
from colonnade.columns.strings import holds_nul as has_zero_bytes
from colonnade.columns.values import plain_array, python_values
from colonnade.errors import DataError, UsageError
from colonnade.h5.damage import hdf5_errors
from colonnade.h5.datasets import DatasetPlan, create_dataset, default_chunk_rows, describe_dataset
from colonnade.h5.row_sink import resize, write_rows
from colonnade.model import StoredType

Codes = np.ndarray[Any, np.dtype[np.int32]]
Rows = np.ndarray[Any, np.dtype[np.int64]]
Slots = np.ndarray[Any, np.dtype[np.uint64]]


class CategoryCoder:
    """The categories seen so far. `fixed` categories may not grow; `whose` describes them in error messages."""

    def __init__(self, values: pa.Array, ordered: bool, fixed: bool, name: str, whose: str = "") -> None:
        self.values = values
        self.ordered = ordered
        self._fixed = fixed
        self._name = name
        self._whose = whose or "the categories given"
        self._last: tuple[pa.Array, pa.Array] | None = None
        self._slots: Slots = np.zeros(0, dtype=np.uint64)
        self._n_slotted = 0  # categories already in the slots

    def encode(self, array: pa.Array, first_row: int) -> pa.Array:
        """The codes (int64, null for missing rows) of an array of values or of dictionary values."""
        if not pa.types.is_dictionary(array.type):
            array = plain_array(array, plain_type(array.type))
            codes = self._encode_text(array) if self._may_grow and pa.types.is_string(array.type) else None
            if codes is not None:
                return codes
            array = array.dictionary_encode()
        translation = self._translate(array.dictionary, array, first_row)
        return translation.take(array.indices)

    @property
    def _may_grow(self) -> bool:
        return not self._fixed and not self.ordered and bool(pa.types.is_string(self.values.type))

    def _encode_text(self, array: pa.Array) -> pa.Array | None:
        """The codes of strings, from a hash table that grows with the categories; None if some categories are equal."""
        n_slots = 2 * (len(self.values) + len(array))
        if self._n_slotted != len(self.values) or len(self._slots) <= n_slots:
            self._slots = np.zeros(1 << n_slots.bit_length(), dtype=np.uint64)
            self._n_slotted = len(self._code(self.values.slice(0, 0), self.values)[1])
            if self._n_slotted != len(self.values):
                return None
        codes, fresh = self._code(self.values, array)
        if len(fresh):
            self.values = pa.concat_arrays([self.values, array.take(pa.array(fresh))])
            self._n_slotted += len(fresh)
        return pa.array(codes.astype(np.int64), mask=codes < 0 if array.null_count else None)

    def _code(self, known: pa.Array, array: pa.Array) -> tuple[Codes, Rows]:
        """The code of each string, known or new, and the first row of each new string."""
        codes, fresh = np.empty(len(array), dtype=np.int32), np.empty(len(array), dtype=np.int64)
        missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        known_parts, parts = string_buffers(known), string_buffers(array)
        n_new = kernels.code_strings(*known_parts, *parts, missing, self._slots, codes, fresh)
        return codes, fresh[:n_new]

    def _translate(self, dictionary: pa.Array, array: pa.Array, first_row: int) -> pa.Array:
        """The code of each entry of a batch's dictionary; new categories are added at the end."""
        if self._last is not None and _is_same(self._last[0], dictionary):
            return self._last[1]
        wanted = dictionary.cast(self.values.type)
        codes = self._look_up(wanted)
        fresh = pc.and_(pc.is_null(codes), pc.is_valid(wanted))
        if pc.any(fresh).as_py():
            self._grow(pc.unique(wanted.filter(fresh)), wanted, array, first_row)
            codes = self._look_up(wanted)
        if not pc.any(pc.and_(pc.is_null(codes), pc.is_valid(wanted))).as_py():
            self._last = (dictionary, codes)  # an entry without a code must be checked again when a row uses it
        return codes

    def _look_up(self, wanted: pa.Array) -> pa.Array:
        codes = pc.index_in(wanted, value_set=self.values).cast(pa.int64())
        return pc.if_else(pc.is_valid(wanted), codes, pa.scalar(None, pa.int64()))

    def _grow(self, new: pa.Array, dictionary: pa.Array, array: pa.Array, first_row: int) -> None:
        extends = self.ordered and dictionary.slice(0, len(self.values)).equals(self.values)
        if self._fixed or (self.ordered and len(self.values) and not extends):
            used = self._used(new, dictionary, array)
            if not used:
                return
            row = first_row + used[0]
            why = f"is not one of {self._whose}" if self._fixed else (
                "is not one of the ordered categories so far: name all of them with categories=[...]"
            )  # fmt: skip
            value = python_values(array.slice(used[0], 1))[0]
            raise DataError(
                f"column {self._name!r}, row {row}: {value!r} {why}", column=self._name, row=row, value=value
            )
        self.values = pa.concat_arrays([self.values, new])

    def _used(self, new: pa.Array, dictionary: pa.Array, array: pa.Array) -> list[int]:
        """The rows that hold one of the new categories; a category that no row uses may stay unknown."""
        positions = pc.indices_nonzero(pc.is_in(dictionary, value_set=new))
        rows = pc.indices_nonzero(pc.is_in(array.indices.cast(pa.int64()), value_set=positions.cast(pa.int64())))
        return [int(row) for row in np.asarray(rows)[:1]]


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two dictionaries hold the same entries; 0.0 and -0.0 differ, as they do in a lookup."""
    if one is other:
        return True
    if pa.types.is_floating(one.type) and one.type == other.type:
        bits = f"int{one.type.bit_width}"
        return bool(one.view(bits).equals(other.view(bits)))
    return bool(one.equals(other))


def start_coder(
    kind: pa.DataType, given: bool | Sequence[object] | None, ordered: bool | None, name: str
) -> CategoryCoder:
    """A coder for values of this Arrow type, with the caller's categories if any are given."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    order = ordered if ordered is not None else bool(pa.types.is_dictionary(kind) and kind.ordered)
    try:
        empty = pa.nulls(0, plain)
        pc.index_in(empty.dictionary_encode().dictionary, value_set=empty)
    except (pa.ArrowException, NotImplementedError, AttributeError) as error:
        raise UsageError(
            f"column {name!r}: values of type {plain} cannot be categories", column=name, type=str(plain)
        ) from error
    if given is None or isinstance(given, bool):
        return CategoryCoder(pa.array([], plain), order, False, name)
    try:
        values = pa.array(list(given), plain)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"column {name!r}: the categories given are not of type {plain}: {error}", column=name
        ) from error
    if values.null_count or len(values.unique()) != len(values):
        raise DataError(f"column {name!r}: categories must be different from each other and not missing", column=name)
    return CategoryCoder(values, order, True, name)


# -- the dataset --

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
