"""Plain columns: one element per row, which is the value itself, or a fill that marks it as missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.columns.decode import decode, decode_numbers, decode_strings
from colonnade.columns.key_images import keys_to_image
from colonnade.columns.keys import Keys, NumberKeys, Numbers, decimal_keys, keys_of, keys_to_decimals
from colonnade.columns.missing import Mask
from colonnade.columns.raw import Present, Raw, part_of
from colonnade.h5.datasets import Image
from colonnade.h5.heap import Strings
from colonnade.model import ColumnInfo, StoredType


class PlainDecoder:
    """Decodes elements by their datatype."""

    def __init__(self, column: ColumnInfo, kind: pa.DataType) -> None:
        self._stored, self._fill, self._kind = column.type, column.fill, kind

    def array(self, raw: Raw) -> pa.Array:
        if isinstance(raw, Present):
            return decode(raw.image, self._stored, self._kind)
        if isinstance(raw, Strings):
            return decode_strings(raw, self._kind, self._fill)
        return decode(raw, self._stored, self._kind, self._fill)

    def numbers(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        if isinstance(raw, Present):
            return decode_numbers(raw.image, self._stored, None)
        assert not isinstance(raw, Strings)  # only readers that have numbers ask for them
        return decode_numbers(raw, self._stored, self._fill)

    def keys(self, raw: Raw) -> Keys:
        return keys_in(self.key_array(raw))

    def key_array(self, raw: Raw) -> pa.Array:
        stored = self._stored
        if isinstance(raw, Present):
            return decode(raw.image, stored, pa.from_numpy_dtype(raw.image.dtype))
        if not isinstance(raw, Strings) and stored.kind in ("integer", "bitfield", "float"):
            return decode(raw, stored, pa.from_numpy_dtype(raw.dtype), self._fill)
        array = self.array(raw)
        if stored.kind == "boolean":
            return array.cast(pa.int8())
        if stored.kind == "enum":
            return pa.array(raw, mask=array.is_null().to_numpy(zero_copy_only=False))
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        return array if pa.types.is_decimal(array.type) else array.cast(pa.binary())

    def values(self, keys: Keys) -> pa.Array:
        if self._stored.kind in ("string", "text") and pa.types.is_decimal(self._kind):
            return spread(keys, self._decimals)
        return values_of(keys, self._stored, self.array)

    def _decimals(self, keys: Keys) -> pa.Array:
        assert isinstance(keys, NumberKeys)  # as returned by decimal_keys
        return pa.array(keys_to_decimals(keys.values.tolist(), self._kind.scale), self._kind)

    def part(self, raw: Raw, begin: int, end: int) -> Raw:
        return part_of(raw, begin, end)


def keys_in(array: pa.Array) -> Keys:
    """An array of keys, which a decoder made, as keys."""
    return decimal_keys(array) if pa.types.is_decimal(array.type) else keys_of(array)


def values_of(keys: Keys, stored: StoredType, array: Callable[[Image], pa.Array]) -> pa.Array:
    """The values of keys that can be stored as elements, which `array` decodes."""

    def present_values(present: Keys) -> pa.Array:
        image, _memory = keys_to_image(present, stored)  # the elements may point to this memory
        return array(image)

    return spread(keys, present_values)


def spread(keys: Keys, array_of: Callable[[Keys], pa.Array]) -> pa.Array:
    """The values of the keys that are not missing, at the positions of these keys."""
    places = np.flatnonzero(~keys.missing)
    array = array_of(keys.take(places))
    if len(places) == len(keys):
        return array
    positions: np.ndarray[Any, np.dtype[np.int64]] = np.zeros(len(keys), dtype=np.int64)
    positions[places] = np.arange(len(places))
    return array.take(pa.array(positions, mask=keys.missing))
