"""Categories that grow while batches arrive, and the codes of each batch in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from colonnade.columns import compute as pc
from colonnade.columns.mapping import plain_type
from colonnade.columns.plain import plain_array
from colonnade.columns.values import python_values
from colonnade.errors import DataError, UsageError


class CategoryCoder:
    """The categories seen so far. `fixed` ones were named by the caller and may not grow."""

    def __init__(self, values: pa.Array, ordered: bool, fixed: bool, name: str) -> None:
        self.values = values
        self.ordered = ordered
        self._fixed = fixed
        self._name = name
        self._last: tuple[pa.Array, pa.Array] | None = None

    def encode(self, array: pa.Array, first_row: int) -> pa.Array:
        """The codes (int64, missing rows null) of an array of values or of dictionary values."""
        if not pa.types.is_dictionary(array.type):
            array = plain_array(array, plain_type(array.type)).dictionary_encode()
        translation = self._translate(array.dictionary, array, first_row)
        return translation.take(array.indices)

    def _translate(self, dictionary: pa.Array, array: pa.Array, first_row: int) -> pa.Array:
        """For each entry of a batch's dictionary its code here, new categories added at the end."""
        if self._last is not None and (self._last[0] is dictionary or self._last[0].equals(dictionary)):
            return self._last[1]
        wanted = dictionary.cast(self.values.type)
        codes = self._look_up(wanted)
        fresh = pc.and_(pc.is_null(codes), pc.is_valid(wanted))
        if pc.any(fresh).as_py():
            self._grow(pc.unique(wanted.filter(fresh)), wanted, array, first_row)
            codes = self._look_up(wanted)
        if not pc.any(pc.and_(pc.is_null(codes), pc.is_valid(wanted))).as_py():
            self._last = (dictionary, codes)  # an entry without a code must be looked at again when a row uses it
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
            why = "is not one of the categories given" if self._fixed else (
                "is not one of the ordered categories so far: name all of them with categories=[...]"
            )  # fmt: skip
            value = python_values(array.slice(used[0], 1))[0]
            raise DataError(
                f"column {self._name!r}, row {row}: {value!r} {why}", column=self._name, row=row, value=value
            )
        self.values = pa.concat_arrays([self.values, new])

    def _used(self, new: pa.Array, dictionary: pa.Array, array: pa.Array) -> list[int]:
        """The rows that hold one of the new categories; a category no row uses may stay unknown."""
        positions = pc.indices_nonzero(pc.is_in(dictionary, value_set=new))
        rows = pc.indices_nonzero(pc.is_in(array.indices.cast(pa.int64()), value_set=positions.cast(pa.int64())))
        return [int(row) for row in np.asarray(rows)[:1]]


def start_coder(
    kind: pa.DataType, given: bool | Sequence[object] | None, ordered: bool | None, name: str
) -> CategoryCoder:
    """A coder for values of this Arrow type, with the categories the caller named, if any."""
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
