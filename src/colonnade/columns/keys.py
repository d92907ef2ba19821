"""Keys, by which the values of a column are compared: integers, floats, or bytes.

| stored | key |
| --- | --- |
| integers, times, decimals as integers, codes of categoricals | the integer |
| booleans, enums | their number |
| floats | the float; -0.0 equals 0.0, NaN is handled separately |
| strings, variable-length text and bytes, opaque | the bytes without padding; compared byte by byte |

Other datatypes (compounds, sequences, references, complex) have no keys: they can only be missing or not.
"""

from __future__ import annotations

import ctypes
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import kernels
from colonnade.arrays import Image
from colonnade.columns.missing import Mask
from colonnade.columns.strings import Places, equal_to
from colonnade.model import StoredType
from colonnade.predicate.bound import Among, BoundLeaf, Domain, Interval, Key, Missing, NotANumber, Pattern, Test
from colonnade.stored_dtypes import memory_dtype

Numbers = np.ndarray
_EXACT = Context(prec=200)  # the default context rounds to 28 digits


def domain_of(stored: StoredType) -> Domain | None:
    """The kind of key for values of this datatype; None if they cannot be compared."""
    if stored.kind in ("string", "text", "binary", "opaque"):
        return "bytes"
    if stored.kind not in ("integer", "bitfield", "boolean", "enum", "float"):
        return None
    kind = memory_dtype(stored).kind
    return "integer" if kind in "iu" else "float" if kind == "f" else None


class Keys(ABC):
    """The keys of some rows, in row order. `missing` and `nan` are masks of the rows without a key and with NaN."""

    missing: Mask
    nan: Mask

    def __len__(self) -> int:
        return len(self.missing)

    @property
    def present(self) -> Mask:
        """The rows whose key can be ordered."""
        return ~(self.missing | self.nan)

    def truth(self, leaf: BoundLeaf) -> Mask:
        """The rows for which the leaf is true."""
        if isinstance(leaf.test, Missing):
            return ~self.missing if leaf.negated else self.missing
        found = self.nan if isinstance(leaf.test, NotANumber) else self.passing(leaf.test)
        return ~self.missing & ~found if leaf.negated else ~self.missing & found

    @abstractmethod
    def passing(self, test: Test) -> Mask:
        """The rows whose key passes the test; the result for missing rows is undefined."""

    @abstractmethod
    def take(self, places: Places) -> Keys:
        """The keys at these positions."""

    @abstractmethod
    def part(self, start: int, stop: int) -> Keys:
        """The keys from `start` up to but not including `stop`, without a copy."""

    @abstractmethod
    def ordered(self) -> Places:
        """The positions of the present keys in increasing order of key; a stable sort."""

    @abstractmethod
    def key(self, place: int) -> Key:
        """One key."""

    @abstractmethod
    def ranks(self, others: Keys, side: str) -> Places:
        """Where the others would be inserted into these sorted keys, "left" or "right" of equal keys."""

    @abstractmethod
    def distinct(self) -> tuple[Keys, Places]:
        """The distinct keys (NaN once, missing left out) in increasing order, and each row's index into them, or -1."""

    @property
    @abstractmethod
    def array(self) -> pa.Array:
        """The keys as an Arrow array, null for missing rows."""

    def least_and_greatest(self) -> tuple[int, int] | None:
        """The positions of the least and the greatest key; None if no row has a key that can be ordered."""
        raise NotImplementedError


def join(parts: list[Keys]) -> Keys:
    """Concatenate keys, all of one kind."""
    if len(parts) == 1:
        return parts[0]
    numbers = [part for part in parts if isinstance(part, NumberKeys)]
    if numbers:
        return NumberKeys(np.concatenate([k.values for k in numbers]), np.concatenate([k.missing for k in numbers]))
    return keys_of(pa.concat_arrays([part.array for part in parts]))


def keys_of(array: pa.Array) -> Keys:
    """The keys in an Arrow array of integers, floats, or binary."""
    if pa.types.is_binary(array.type):
        return ByteKeys(array)
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else np.zeros(len(array), bool)
    data = np.frombuffer(array.buffers()[1] or b"", dtype=number_dtype(array.type))
    return NumberKeys(data[array.offset : array.offset + len(array)], missing)


def number_dtype(kind: pa.DataType) -> np.dtype:
    """The NumPy dtype of an Arrow type of integers or floats. (Arrow's own `to_pandas_dtype` may import pandas.)"""
    letter = "f" if pa.types.is_floating(kind) else "i" if pa.types.is_signed_integer(kind) else "u"
    return np.dtype(f"{letter}{kind.bit_width // 8}")


def decimal_keys(array: pa.Array) -> Keys:
    """The unscaled integers of decimals with any number of digits, as keys."""
    numbers = [0 if value is None else int(value.scaleb(array.type.scale, _EXACT)) for value in array.to_pylist()]
    return NumberKeys(np.array(numbers, dtype=object), array.is_null().to_numpy(zero_copy_only=False))


def keys_to_decimals(numbers: Sequence[int], scale: int) -> list[Decimal]:
    """Unscaled integers as decimals."""
    return [Decimal(number).scaleb(-scale, _EXACT) for number in numbers]


def make_keys(keys: Sequence[Key], like: Keys) -> Keys:
    """The keys of a test, as `Keys` of the same kind as a column's."""
    if isinstance(like, NumberKeys):
        dtype = np.dtype("f8") if like.values.dtype.kind == "f" else like.values.dtype
        return NumberKeys(np.array(keys, dtype=dtype), np.zeros(len(keys), dtype=bool))
    return ByteKeys(pa.array(keys, pa.binary()))


def passing_numbers(values: Numbers, missing: Mask | None, leaf: BoundLeaf) -> Mask | None:
    """The rows for which a leaf is true, computed on the stored numbers by a kernel; None if no kernel supports it."""
    test = leaf.test
    if leaf.negated or values.dtype.str not in _PLAIN or not values.flags.c_contiguous:
        return None
    found = np.empty(len(values), dtype=bool)
    if isinstance(test, Interval):
        low, high = _bound(test.low, values), _bound(test.high, values)
        kernels.range_mask(values, low, high, test.low_open, test.high_open, found)
    elif isinstance(test, Among) and values.dtype.kind in "iu":
        kernels.among_mask(values, _held(test.keys, values.dtype), found)
    else:
        return None
    if missing is not None:
        found &= ~missing
    return found


def _held(keys: Sequence[Key], dtype: np.dtype) -> Numbers:
    """The integers that fit the type: a file may have more categories than its codes can number."""
    if dtype.kind not in "iu":
        return np.array(keys, dtype=dtype)
    bounds = np.iinfo(dtype)
    least, greatest = int(bounds.min), int(bounds.max)
    if keys and least <= keys[0] and keys[-1] <= greatest:  # type: ignore[operator]
        return np.array(keys, dtype=dtype)
    return np.array([key for key in keys if least <= key <= greatest], dtype=dtype)  # type: ignore[operator]


def _bound(key: Key | None, values: Numbers) -> float | None:
    """A key as the kernels expect it: a float for floats, otherwise an integer."""
    if key is None:
        return None
    assert not isinstance(key, bytes)  # the keys of a test are of the column's kind
    return float(key) if values.dtype.kind == "f" else key


_PLAIN = frozenset(np.dtype(kind).str for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"))


class NumberKeys(Keys):
    """Integer or float keys."""

    def __init__(self, values: Numbers, missing: Mask) -> None:
        self.values = values
        self.missing = missing
        if values.dtype.kind == "f":
            self.nan = np.isnan(values) & ~missing
        else:
            self.nan = np.zeros(len(values), dtype=bool)

    def passing(self, test: Test) -> Mask:
        if isinstance(test, Interval):
            return self._in_interval(test)
        if isinstance(test, Among):
            return self._among(test.keys)
        raise TypeError(f"numbers cannot be tested for {test}")

    def _exact(self, key: Key) -> Key | np.float64:
        """The key as a scalar that NumPy compares exactly: it would round a Python float to the array's width."""
        return np.float64(key) if self.values.dtype.kind == "f" else key

    def _in_interval(self, test: Interval) -> Mask:
        inside: Mask = ~self.nan
        if test.low is not None:
            low = self._exact(test.low)
            inside &= (self.values > low) if test.low_open else (self.values >= low)
        if test.high is not None:
            high = self._exact(test.high)
            inside &= (self.values < high) if test.high_open else (self.values <= high)
        return inside

    def _among(self, keys: tuple[Key, ...]) -> Mask:
        if not keys:
            return np.zeros(len(self.values), dtype=bool)
        wanted = np.array(keys, "f8") if self.values.dtype.kind == "f" else _held(keys, self.values.dtype)
        if not len(wanted):
            return np.zeros(len(self.values), dtype=bool)
        if len(wanted) == 1:
            return np.asarray(self.values == wanted[0])
        places = np.minimum(np.searchsorted(wanted, self.values), len(wanted) - 1)
        return np.asarray(wanted[places] == self.values)

    def take(self, places: Places) -> NumberKeys:
        return NumberKeys(self.values[places], self.missing[places])

    def part(self, start: int, stop: int) -> NumberKeys:
        return NumberKeys(self.values[start:stop], self.missing[start:stop])

    def ordered(self) -> Places:
        present = self.present
        if present.all():
            return _in_order(self.values)
        places = np.flatnonzero(present)
        return places[_in_order(self.values[places])]

    def key(self, place: int) -> Key:
        found: Key = self.values[place : place + 1].tolist()[0]  # also for integers of any size
        return found

    def ranks(self, others: Keys, side: str) -> Places:
        assert isinstance(others, NumberKeys)  # keys of one column are of one kind
        return np.searchsorted(self.values, others.values, side=side)  # type: ignore[call-overload,no-any-return]

    def distinct(self) -> tuple[Keys, Places]:
        found, codes = np.unique(self.values[~self.missing], return_inverse=True)  # one NaN, at the end
        whole = np.full(len(self.values), -1, dtype=np.int64)
        whole[~self.missing] = codes
        return NumberKeys(found, np.zeros(len(found), dtype=bool)), whole

    def least_and_greatest(self) -> tuple[int, int] | None:
        present = self.present
        if not present.any():
            return None
        if present.all():
            return int(np.argmin(self.values)), int(np.argmax(self.values))
        places = np.flatnonzero(present)
        values = self.values[places]
        return int(places[np.argmin(values)]), int(places[np.argmax(values)])

    @property
    def array(self) -> pa.Array:
        mask = self.missing if self.missing.any() else None
        return pa.array(np.ascontiguousarray(self.values), mask=mask)


def _in_order(values: Numbers) -> Places:
    """The positions of numbers in increasing order; a stable sort."""
    if values.dtype.kind not in "iuf" or values.itemsize not in (1, 2, 4, 8) or values.dtype.str[1:] == "f2":
        return np.argsort(values, kind="stable").astype(np.int64)
    native = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    places = np.empty(len(native), dtype=np.int64)
    kernels.argsort(native, places)
    return places


def _like_regex(pattern: str) -> str:
    """A `like` pattern as a regular expression: % any string, _ one character, a backslash escapes the next one."""
    parts, characters = [], iter(pattern)
    for character in characters:
        literal = next(characters, "") if character == "\\" else character
        wildcard = {"%": ".*", "_": "."}.get(character)
        parts.append(wildcard or re.escape(literal))
    return "(?s)^" + "".join(parts) + r"\z"


class ByteKeys(Keys):
    """Byte-string keys of any length."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array
        none = not array.null_count
        self.missing = np.zeros(len(array), bool) if none else array.is_null().to_numpy(zero_copy_only=False)
        self.nan = np.zeros(len(array), dtype=bool)

    def passing(self, test: Test) -> Mask:
        if isinstance(test, Interval):
            return self._in_interval(test)
        if isinstance(test, Among):
            if len(test.keys) == 1 and isinstance(test.keys[0], bytes):
                return equal_to(self._array, test.keys[0])
            wanted = pa.array(test.keys, pa.binary())
            return _mask(pc.is_in(self._array, value_set=wanted))
        if isinstance(test, Pattern):
            return self._like(test)
        raise TypeError(f"bytes cannot be tested for {test}")

    def _in_interval(self, test: Interval) -> Mask:
        if test.low is not None and test.low == test.high and not (test.low_open or test.high_open):
            assert isinstance(test.low, bytes)  # keys of one column are of one kind
            return equal_to(self._array, test.low)
        inside = np.ones(len(self._array), dtype=bool)
        if test.low is not None:
            compare = pc.greater if test.low_open else pc.greater_equal
            inside &= _mask(compare(self._array, pa.scalar(test.low, pa.binary())))
        if test.high is not None:
            compare = pc.less if test.high_open else pc.less_equal
            inside &= _mask(compare(self._array, pa.scalar(test.high, pa.binary())))
        return inside

    def _like(self, test: Pattern) -> Mask:
        if test.how == "contains":
            return _mask(pc.match_substring(self._array, test.text))
        text = pa.Array.from_buffers(pa.string(), len(self._array), self._array.buffers(), offset=self._array.offset)
        if test.how == "matches":
            return _mask(pc.match_substring_regex(text, test.text))
        if isinstance(test.text, str) and "\\" in test.text:  # Arrow takes those of '%\\\\' literally
            return _mask(pc.match_substring_regex(text, _like_regex(test.text)))
        return _mask(pc.match_like(text, test.text))

    def take(self, places: Places) -> ByteKeys:
        return ByteKeys(self._array.take(pa.array(places)))

    def part(self, start: int, stop: int) -> ByteKeys:
        return ByteKeys(self._array.slice(start, stop - start))

    def ordered(self) -> Places:
        places = np.flatnonzero(~self.missing)
        present = self._array if len(places) == len(self._array) else self._array.take(pa.array(places))
        order = pc.array_sort_indices(present).to_numpy()
        return np.asarray(places[order], dtype=np.int64)

    def key(self, place: int) -> Key:
        found: Key = self._array[place].as_py()
        return found

    def ranks(self, others: Keys, side: str) -> Places:
        # Arrow has no search in sorted binary arrays. A stable sort of both arrays puts equal keys of the first part
        # before those of the second; the rank of a key is then the number of our keys sorted before it.
        parts = [self._array, others.array] if side == "right" else [others.array, self._array]
        order = pc.array_sort_indices(pa.concat_arrays(parts)).to_numpy()
        is_other = order >= len(self) if side == "right" else order < len(others)
        ranks = np.empty(len(others), dtype=np.int64)
        ranks[order[is_other] - (len(self) if side == "right" else 0)] = np.cumsum(~is_other)[is_other]
        return ranks

    def distinct(self) -> tuple[Keys, Places]:
        coded = self._array.dictionary_encode()
        order = pc.array_sort_indices(coded.dictionary).to_numpy()
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        codes = np.full(len(self._array), -1, dtype=np.int64)
        codes[~self.missing] = place[coded.indices.drop_null().to_numpy()]
        return ByteKeys(coded.dictionary.take(pa.array(order))), codes

    def least_and_greatest(self) -> tuple[int, int] | None:
        if self.missing.all():
            return None
        ends = pc.min_max(self._array)
        return pc.index(self._array, ends["min"]).as_py(), pc.index(self._array, ends["max"]).as_py()

    @property
    def array(self) -> pa.Array:
        return self._array


def _mask(found: pa.Array) -> Mask:
    """An Arrow boolean array as a mask; null counts as false."""
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False))


# -- Convert keys to elements of the column's datatype and back, for the values that an index stores --


def keys_to_image(keys: Keys, stored: StoredType) -> tuple[Image, list[object]]:
    """The keys (none of them missing) as elements, and the memory that they point to."""
    dtype = memory_dtype(stored)
    if isinstance(keys, NumberKeys):
        return keys.values.astype(dtype), []
    texts: list[bytes] = keys.array.to_pylist()
    if stored.kind == "string":
        return np.array(texts, dtype=dtype), []
    if stored.kind == "opaque":
        return np.frombuffer(b"".join(text.ljust(stored.size, b"\0") for text in texts), dtype=dtype), []
    image = np.zeros(len(texts), dtype=dtype)
    buffers = [ctypes.create_string_buffer(text, len(text) + 1) for text in texts]
    pointers = [ctypes.addressof(buffer) for buffer in buffers]
    if stored.kind == "text":
        image[:] = pointers
    else:
        image["length"], image["pointer"] = [len(text) for text in texts], pointers
    return image, list(buffers)


def stored_keys(keys: Sequence[Key], stored: StoredType) -> Keys:
    """Keys of a column whose keys have this datatype."""
    if domain_of(stored) == "bytes":
        return ByteKeys(pa.array(keys, pa.binary()))
    return NumberKeys(np.array(keys, dtype=memory_dtype(stored)), np.zeros(len(keys), dtype=bool))


def image_to_keys(image: Image, stored: StoredType) -> Keys:
    """The elements as keys; pointers in the image must still be valid."""
    if domain_of(stored) != "bytes":
        return NumberKeys(np.array(image), np.zeros(len(image), dtype=bool))
    if stored.kind == "text":
        texts = [ctypes.string_at(pointer) if pointer else b"" for pointer in image.tolist()]
    elif stored.kind == "binary":
        texts = [ctypes.string_at(int(p), int(n)) if n else b"" for n, p in image.tolist()]
    elif stored.kind == "string":
        texts = image.tolist()
    else:
        texts = [element.tobytes() for element in image]
    return ByteKeys(pa.array(texts, pa.binary()))
