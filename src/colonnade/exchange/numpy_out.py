"""Convert Arrow columns to NumPy arrays; to masked arrays if rows are missing, so that no value is invented.

Strings use NumPy's StringDType unless objects or bytes are requested, so no Python object is created per row. Strings
inside lists, arrays and records are always objects, because NumPy records cannot hold StringDType.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.columns.arrow_types import ComplexType, RawType, ReferenceType, complex_values
from colonnade.columns.encode import padded_image
from colonnade.columns.strings import byte_lengths, holds_nul
from colonnade.errors import DataError, UsageError

NumpyArray = np.ndarray
StringsAs = Literal["numpy", "objects", "bytes"]
_PIECE_ROWS = 1 << 14  # rows that are padded together to the same length
_PIECE_BYTES = 1 << 23
_PADDED_BYTES, _MOST_PADDING = (
    1 << 28,
    16,
)  # what strings of fixed length may take, and how often their own bytes if more


def to_numpy(column: pa.ChunkedArray, strings: StringsAs = "numpy") -> NumpyArray:
    """The values as a NumPy array; a numpy.ma.MaskedArray if rows are missing."""
    if strings not in ("numpy", "objects", "bytes"):
        raise UsageError(f"strings must be 'numpy', 'objects' or 'bytes', not {strings!r}", option="strings")
    values = _of_shared_categories(column, strings)
    if values is None:
        values = _top_values(_one(column), strings)
    if column.null_count == 0:
        return values
    missing = column.is_null().to_numpy()
    if values.ndim > 1:
        missing = np.broadcast_to(missing.reshape(-1, *[1] * (values.ndim - 1)), values.shape).copy()
    if values.dtype.names is not None:
        full: np.ndarray = np.zeros(len(values), dtype=np.ma.make_mask_descr(values.dtype))
        for name in values.dtype.names:
            full[name] = missing
        missing = full
    return np.ma.MaskedArray(values, missing)


def _of_shared_categories(column: pa.ChunkedArray, strings: StringsAs) -> NumpyArray | None:
    """Strings by categories that all chunks share, looked up chunk by chunk: their codes need not be joined first."""
    kind = column.type
    if strings == "numpy" or column.num_chunks < 2:
        return None
    if not pa.types.is_dictionary(kind) or not pa.types.is_string(kind.value_type):
        return None
    categories = column.chunk(0).dictionary
    if not len(categories) or not all(part.dictionary.equals(categories) for part in column.chunks[1:]):
        return None
    known = _objects(categories) if strings == "objects" else _fixed_bytes(categories, len(column))
    values = np.empty(len(column), known.dtype)
    start = 0
    for part in column.chunks:
        codes = part.indices.fill_null(0).to_numpy(zero_copy_only=False)
        np.take(known, codes, out=values[start : start + len(part)], mode="clip")  # "raise" copies; readers check codes
        start += len(part)
    return values


def _one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 0:
        return pa.nulls(0, column.type)
    if column.num_chunks != 1 and pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    combined = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _top_values(array: pa.Array, strings: StringsAs) -> NumpyArray:
    """The values of a column; in a column stored by categories, each category is converted once."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        codes = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        if len(array.dictionary) and pa.types.is_string(kind.value_type):
            return _strings(array.dictionary, strings, codes)
        return _top_values(array.cast(kind.value_type), strings)
    if pa.types.is_string(kind):
        return _strings(array, strings)
    return _values(array)


def _strings(array: pa.Array, strings: StringsAs, codes: NumpyArray | None = None) -> NumpyArray:
    """The strings, or those that `codes` select from them."""
    if strings == "numpy":
        return _numpy_strings(array, codes)
    values = (
        _objects(array) if strings == "objects" else _fixed_bytes(array, len(array) if codes is None else len(codes))
    )
    return values if codes is None else np.take(values, codes)  # faster than values[codes]


def _objects(array: pa.Array) -> NumpyArray:
    objects: NumpyArray = array.to_numpy(zero_copy_only=False)
    return objects


def _numpy_strings(array: pa.Array, codes: NumpyArray | None = None) -> NumpyArray:
    """StringDType values, made from fixed-length bytes, the only way without objects. `codes` select from them."""
    n = len(array) if codes is None else len(codes)
    strings = np.empty(n, dtype=np.dtypes.StringDType())
    known = _padded(array) if codes is not None else None
    for start in range(0, n, _PIECE_ROWS):
        rows = slice(start, start + _PIECE_ROWS)
        strings[rows] = _padded(array[rows]) if known is None or codes is None else np.take(known, codes[rows])
    return strings


def _fixed_bytes(array: pa.Array, n_rows: int) -> NumpyArray:
    """Strings as UTF-8 of one length, padded with NUL; refused if one holds NUL, or they would be too large."""
    text = array.fill_null("")
    width = max(int(byte_lengths(text).max(initial=0)), 1)
    if width * n_rows > max(_PADDED_BYTES, _MOST_PADDING * text.nbytes):
        raise DataError(
            f"cannot give {n_rows:,} strings as bytes of one length: the longest has {width:,} bytes, so they would "
            f"take {width * n_rows:,} bytes. Use strings='numpy'"
        )
    if holds_nul(text):
        raise DataError("cannot give strings as bytes of one length: one holds NUL. Use strings='numpy'")
    return padded_image(text, np.dtype(f"S{width}"))


def _padded(array: pa.Array) -> NumpyArray:
    """Strings as fixed-length bytes; as objects if some are much longer than others, or hold NUL, which ends bytes."""
    text = array.fill_null("")
    width = max(int(byte_lengths(text).max(initial=0)), 1)
    if width * len(text) > max(_PIECE_BYTES, 4 * text.nbytes) or holds_nul(text):
        return _objects(text)
    return padded_image(text, np.dtype(f"S{width}"))


def _values(array: pa.Array) -> NumpyArray:
    """The values; missing rows hold an arbitrary value of the type."""
    kind = array.type
    if isinstance(kind, ComplexType):
        return complex_values(array)
    if isinstance(kind, (ReferenceType, RawType)) or (
        pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind)
    ):
        return _bytes_of_one_size(array.storage if isinstance(kind, pa.BaseExtensionType) else array)
    if pa.types.is_dictionary(kind):
        return _values(array.cast(kind.value_type))
    if pa.types.is_struct(kind):
        return _records(array)
    if pa.types.is_fixed_size_list(kind):
        inner = _values(array.values.slice(array.offset * kind.list_size, len(array) * kind.list_size))
        return inner.reshape((len(array), kind.list_size, *inner.shape[1:]))
    if pa.types.is_primitive(kind) and not pa.types.is_decimal(kind):
        numbers: NumpyArray = _numbers(array)
        return numbers
    if pa.types.is_list(kind):
        out = np.empty(len(array), dtype=object)
        for row, item in enumerate(array):
            out[row] = None if not item.is_valid else _values(item.values)
        return out
    out = np.empty(len(array), dtype=object)
    out[:] = array.to_pylist()
    return out


def _numbers(array: pa.Array) -> NumpyArray:
    kind = array.type
    if array.null_count:
        if pa.types.is_temporal(kind):
            width = pa.int32() if kind.bit_width == 32 else pa.int64()
            array = array.view(width).fill_null(0).view(kind)
        else:
            array = pc.fill_null(array, pa.scalar(0, pa.int8()).cast(kind))
    if pa.types.is_time(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_numpy().astype(f"m8[{kind.unit}]")
    if pa.types.is_date64(kind):
        return array.view(pa.int64()).to_numpy().astype("M8[ms]")
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        array = array.cast(pa.timestamp(kind.unit)) if kind.tz == "UTC" else array.cast(pa.timestamp(kind.unit, "UTC"))
        return array.view(pa.int64()).to_numpy().view(f"M8[{kind.unit}]")
    return array.to_numpy(zero_copy_only=False)


def _bytes_of_one_size(array: pa.Array) -> NumpyArray:
    width = array.type.byte_width
    buffer = array.buffers()[1]
    if buffer is None or width == 0:
        return np.zeros(len(array), dtype=f"V{max(width, 1)}")
    return np.frombuffer(buffer, dtype=f"V{width}", count=len(array), offset=array.offset * width)


def _records(array: pa.Array) -> NumpyArray:
    parts = [_values(array.field(position)) for position in range(array.type.num_fields)]
    dtype = [(array.type.field(i).name, part.dtype, part.shape[1:]) for i, part in enumerate(parts)]
    out = np.zeros(len(array), dtype=dtype)
    for position, part in enumerate(parts):
        out[array.type.field(position).name] = part
    return out


def to_matrix(columns: Iterable[tuple[str, pa.ChunkedArray]], n_rows: int) -> NumpyArray:
    """Columns of numbers as one array with a column for each, of their common type; missing numbers are NaN."""
    plain: list[NumpyArray] = []
    for name, column in columns:
        values = to_numpy(column)
        if values.dtype.kind not in "biufc" or values.ndim != 1:
            raise UsageError(
                f"column {name!r} of {column.type} cannot be part of a matrix: select numbers", column=name
            )
        plain.append(without_mask(values, name, integers_as_floats=True))
    return np.column_stack(plain) if plain else np.empty((n_rows, 0))


def without_mask(values: NumpyArray, name: str, integers_as_floats: bool = False) -> NumpyArray:
    """A plain array: missing rows become NaN, NaT or None if the dtype has one; otherwise raises a UsageError.

    integers_as_floats: columns of integers and booleans with missing rows become floats.
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind in "fc":
        return values.filled(np.nan)
    if integers_as_floats and values.dtype.kind in "biu":
        plain = values.data.astype(np.float64)
        plain[np.ma.getmaskarray(values)] = np.nan
        return plain
    if values.dtype.kind in "mM":
        return values.filled(values.dtype.type("NaT"))
    if values.dtype.kind == "O":
        plain = np.array(values.data)
        plain[np.ma.getmaskarray(values)] = None
        return plain
    raise UsageError(
        f"column {name!r} has missing rows, which a plain {values.dtype} array cannot show: use column[:] (a masked "
        "array) or column.to_arrow()",
        column=name,
    )
