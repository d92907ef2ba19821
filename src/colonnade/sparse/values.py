"""Convert a caller's values to the elements that are stored, and report which of them do not fit.

| from | to | values that do not fit |
| --- | --- | --- |
| integers | integers | those out of range: too large, or negative for an unsigned type |
| integers | floats, complex | those that would be rounded |
| floats | integers | fractions, NaN, infinities, and values out of range |
| floats, complex | floats, complex | finite values that would become infinite; rounding is expected |
| complex | real types | those with an imaginary part; else as for the real part |
| records | records | records with a field that does not fit |
| anything else | | values that change in a round trip |

The result never depends on a conversion that is undefined in C: ranges are compared before converting back.

Values of variable length (experimental, facts 3.6) become references to objects in a heap:

| type | given as | object in the heap |
| --- | --- | --- |
| text | str, without NUL | its bytes in UTF-8 |
| binary | bytes | these |
| sequence | anything that NumPy converts to a one-dimensional array | its items, as stored in the file |

An empty value has an object too; an element that was never written (in a dense chunk) has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.arrays import Booleans, Octets
from colonnade.errors import DataError, UnsupportedError
from colonnade.format.global_heap import REFERENCE, encode_heap_set, encode_reference
from colonnade.format.values import DecodedValues, stored_dtype
from colonnade.model import StoredType

if TYPE_CHECKING:
    import numpy.typing as npt

Flags = Booleans
_BYTE = StoredType("opaque", 1, "none")
_TEXT = StoredType("text", REFERENCE, charset="utf-8", padding="terminated")
_BINARY = StoredType("binary", REFERENCE, "none", base=_BYTE)


def checked_values(given: Iterable[object], stored: StoredType, count: int) -> DecodedValues:
    """`count` values in the type of the array; raises for a value that the type cannot hold."""
    if stored.has_pointers:
        return checked_objects(given, stored, count)
    dtype = stored_dtype(stored)
    values = np.asarray(given)
    if values.shape[:1] != (count,):
        raise DataError(f"there are {count} coordinates and values of shape {values.shape}")
    if values.dtype == dtype.base or not count:
        return np.ascontiguousarray(values, dtype=dtype.base)
    try:
        converted, unfit = fitted(values, dtype.base)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"cannot convert values of {values.dtype} to {stored}: {error}") from error
    wrong = np.flatnonzero(unfit.reshape(count, -1).any(axis=1))
    if len(wrong):
        row = int(wrong[0])
        raise DataError(f"value {values[row]!r} does not fit into {stored}", row=row, value=values[row])
    return converted


def fitted(given: DecodedValues, dtype: np.dtype) -> tuple[DecodedValues, Flags]:
    """The values in that dtype, and a mask of those that do not fit. NumPy raises for what it cannot convert."""
    values = given if dtype.kind == "V" else _plain(given)
    with np.errstate(all="ignore"):
        if values.dtype.kind == "c" and dtype.kind in "iuf":
            converted, wrong = fitted(values.real, dtype)
            return converted, wrong | ~(values.imag == 0)
        converted = values.astype(dtype)
        return converted, _misfits(values, converted)


def _plain(values: DecodedValues) -> DecodedValues:
    """An array of Python objects in the dtype that NumPy would choose for a list of them."""
    if values.dtype.kind != "O":
        return values
    converted = np.asarray(values.tolist())
    return converted if converted.shape == values.shape else values


def _misfits(values: DecodedValues, converted: DecodedValues) -> Flags:
    if values.dtype.names and converted.dtype.names:
        wrong = np.zeros(values.shape, dtype=bool)
        for old, new in zip(values.dtype.names, converted.dtype.names, strict=True):
            inner = fitted(values[old], converted[new].dtype)[1]
            wrong |= inner.any(axis=tuple(range(values.ndim, inner.ndim)))
        return wrong
    source, target = values.dtype.kind, converted.dtype.kind
    if source in "biu" and target in "iu":
        return _flags((converted.astype(values.dtype) != values) | ((converted < 0) != (values < 0)))
    if source in "biu" and target in "fc":
        return _rounded(values, converted.real.astype(np.float64))
    if source == "f" and target in "iu":
        return _no_whole(values, converted)
    if source in "fc" and target in "fc":
        return _flags(np.isfinite(values) & ~np.isfinite(converted))
    back = converted.astype(values.dtype)
    return _flags(back != values) if source in "biufcSUO" else np.zeros(values.shape, dtype=bool)


def _rounded(values: DecodedValues, converted: DecodedValues) -> Flags:
    """A mask of the integers that were rounded by the conversion to float."""
    beyond = 2.0 ** (8 * values.dtype.itemsize - (values.dtype.kind == "i")) if values.dtype.kind != "b" else 2.0
    inside = np.isfinite(converted) & (converted < beyond)
    return _flags(~inside | (np.where(inside, converted, 0).astype(values.dtype) != values))


def _no_whole(values: DecodedValues, converted: DecodedValues) -> Flags:
    """A mask of the floats that are not integers in the range of the new type."""
    wide = values.astype(np.promote_types(values.dtype, np.float64))
    limits = np.iinfo(converted.dtype)
    inside = (wide >= float(limits.min)) & (wide < 2.0 ** int(limits.max).bit_length())
    return _flags(~inside | (converted.astype(wide.dtype) != wide))


def _flags(mask: object) -> Flags:
    return np.asarray(mask, dtype=bool)


# -- values of variable length --


def element_type(dtype: StoredType | npt.DTypeLike) -> StoredType:
    """The stored type of elements: str, bytes and h5py's variable-length dtypes are of variable length."""
    if isinstance(dtype, StoredType):
        return dtype
    if dtype is str or dtype is bytes:
        return _TEXT if dtype is str else _BINARY
    from colonnade.h5.datatypes import stored_type_of

    stored = stored_type_of(np.dtype(dtype))
    if stored.kind == "text":
        return StoredType("text", REFERENCE, charset=stored.charset, padding="terminated")
    if stored.kind == "binary":
        return _BINARY
    if stored.kind == "sequence" and not stored.item.has_pointers and "reference" not in stored.item.kind:
        return StoredType("sequence", REFERENCE, "none", base=stored.item)
    if stored.has_pointers or stored.kind == "unknown" or "reference" in stored.kind:
        raise UnsupportedError(f"{stored} cannot be written into sparse arrays", feature=str(stored))
    return stored


def checked_objects(given: Iterable[object], stored: StoredType, count: int) -> DecodedValues:
    """`count` values, converted for writing; raises with the row for a value that the type cannot hold."""
    values = list(given)
    if len(values) != count:
        raise DataError(f"there are {count} coordinates and {len(values)} values")
    check = _CHECKS[stored.kind]
    objects = np.empty(count, dtype=object)
    for row, value in enumerate(values):
        try:
            objects[row] = check(value, stored)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"value {value!r} is not {stored}: {error}", row=row, value=value) from error
    return objects


def _text(value: object, stored: StoredType) -> str:
    if not isinstance(value, str):
        raise TypeError("it is not a str")
    if "\0" in value:
        raise ValueError("it contains NUL, which ends an HDF5 string")
    value.encode("utf-8", "surrogateescape")
    return value


def _binary(value: object, stored: StoredType) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("it is not bytes")
    return bytes(value)


def _sequence(value: object, stored: StoredType) -> DecodedValues:
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError("it is not a sequence")
    items = np.asarray(value)
    dtype = stored_dtype(stored.item)
    if items.ndim != 1 and not (items.ndim == 1 + len(dtype.shape)):
        raise ValueError(f"it has {items.ndim} dimensions")
    converted, unfit = fitted(items, dtype.base)
    if unfit.any():
        raise ValueError("an item does not fit")
    return converted


_CHECKS: dict[str, Callable[[Any, StoredType], Any]] = {"text": _text, "binary": _binary, "sequence": _sequence}
VARIABLE_KINDS = tuple(_CHECKS)
"""Kinds of variable-length types that can be written."""


def encode_objects(values: DecodedValues, stored: StoredType) -> tuple[Octets, bytes]:
    """References, one row of bytes each, and the heap section that they point into."""
    objects = [_bytes_of(value, stored) for value in values.tolist()] if stored.kind != "sequence" else [
        np.ascontiguousarray(value, dtype=stored_dtype(stored.item).base).tobytes() for value in values
    ]  # fmt: skip
    item_size = stored.item.size if stored.kind == "sequence" else 1
    heap, positions = encode_heap_set(objects)
    rows = b"".join(
        encode_reference(len(data) // item_size, position) for data, position in zip(objects, positions, strict=True)
    )
    return np.frombuffer(rows, dtype=np.uint8).reshape(-1, REFERENCE), heap


def _bytes_of(value: str | bytes, stored: StoredType) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
