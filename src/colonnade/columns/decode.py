"""Decode elements in memory form to Arrow arrays, and the fill of a column to a Python value.

In: an image (see h5.datasets), its stored type, the requested Arrow type, the fill. Out: an Arrow
array of that type, null for missing rows. Nothing in the image is trusted: strings must be UTF-8,
codes must be in range, and enum values must be members.
"""

from __future__ import annotations

import ast
import ctypes
import re
from typing import SupportsInt

import numpy as np
import pyarrow as pa

from colonnade import kernels
from colonnade.arrays import Image
from colonnade.columns.arrow_types import ComplexType, complex_array
from colonnade.columns.mapping import default_type
from colonnade.columns.missing import Mask, find_missing, find_missing_strings, has_none_missing
from colonnade.columns.strings import string_buffers
from colonnade.dataclass import replace
from colonnade.errors import CorruptError, UnsupportedError, UsageError, rows_as
from colonnade.filters.codecs import new_array
from colonnade.model import ColumnInfo, Plain, Pointers, StoredType, shown_name
from colonnade.nodes.elements import with_length
from colonnade.nodes.heap_source import Strings
from colonnade.stored_dtypes import memory_dtype


def decode(image: Image, stored: StoredType, kind: pa.DataType, fill: bytes | None = None) -> pa.Array:
    """The elements as an Arrow array; an invalid element raises a CorruptError with its row."""
    if pa.types.is_null(kind):
        return pa.nulls(len(image))
    missing = missing_rows(image, stored, fill)
    return _decode(image, _without_mark(stored, fill), kind, missing)


def decode_numbers(image: Image, stored: StoredType, fill: bytes | None) -> tuple[Image, Mask | None]:
    """The elements as the stored numbers, and a mask of missing rows (None if no row is). Checked as in `decode`.

    Only for integers, bitfields, floats, booleans and enums.
    """
    missing = missing_rows(image, stored, fill)
    if stored.kind == "boolean":
        _check_boolean(image, missing)
    elif stored.kind == "enum":
        members = [value for _, value in _without_mark(stored, fill).members]
        if sorted(members) != list(range(len(members))) or not _all_below(image, len(members), missing):
            _decode_enum(image, _without_mark(stored, fill), missing)
    return image, missing


def missing_rows(image: Image, stored: StoredType, fill: bytes | None) -> Mask | None:
    """The mask of missing elements; None if no element is missing."""
    missing = None if fill is None or has_none_missing(image, stored, fill) else find_missing(image, stored, fill)
    if stored.kind == "boolean" and len(stored.members) == 3:
        named = image == dict(stored.members)["MISSING"]
        missing = named if missing is None else missing | named
    return missing if missing is not None and missing.any() else None


def _without_mark(stored: StoredType, fill: bytes | None) -> StoredType:
    """The enum without the member that marks missing rows, so its names do not depend on whether rows are missing."""
    if stored.kind != "enum" or fill is None:
        return stored
    mark = int(np.frombuffer(fill, dtype=memory_dtype(stored))[0])
    return replace(stored, members=tuple(member for member in stored.members if member[1] != mark))


def _all_below(image: Image, count: int, missing: Mask | None) -> bool:
    """Whether all elements that are not missing are in the range 0 to count - 1."""
    least, greatest, _, _ = kernels.least_greatest(np.ascontiguousarray(image), missing)
    return least is None or greatest is None or (least >= 0 and greatest < count)


def _decode(image: Image, stored: StoredType, kind: pa.DataType, missing: Mask | None) -> pa.Array:
    if stored.kind == "boolean":
        return _decode_boolean(image, missing)
    if stored.kind == "enum":
        return _decode_enum(image, stored, missing)
    if stored.kind == "string":
        return _decode_string(image, kind, missing)
    if stored.kind == "text":
        return _decode_text(image, missing)
    if stored.kind == "binary":
        return _decode_binary(image, kind, missing)
    if stored.kind == "sequence":
        return _decode_sequence(image, stored, kind, missing)
    if stored.kind == "array":
        return _decode_array(image, stored, kind, missing)
    if stored.kind == "complex" and isinstance(kind, ComplexType):
        return complex_array(image, missing)
    if stored.kind in ("compound", "complex"):
        return _decode_compound(image, stored, kind, missing)
    if pa.types.is_decimal(kind):
        return _decode_decimal(image, kind, missing)
    return fixed_array(image, kind, missing)


def _validity(missing: Mask | None) -> pa.Buffer | None:
    return None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))


def fixed_array(image: Image, kind: pa.DataType, missing: Mask | None) -> pa.Array:
    """Numbers, times, opaque bytes and references as an Arrow array; the image is used as its buffer."""
    if isinstance(kind, pa.BaseExtensionType):
        storage = fixed_array(image, kind.storage_type, missing)
        return pa.ExtensionArray.from_storage(kind, storage)
    data = np.ascontiguousarray(image)
    buffer = pa.py_buffer(data.view("u1") if data.dtype.kind == "V" else data)
    return pa.Array.from_buffers(kind, len(image), [_validity(missing), buffer])


def _decode_decimal(image: Image, kind: pa.DataType, missing: Mask | None) -> pa.Array:
    """Decimals from unscaled integers, which Arrow reads from 32, 64, 128 or 256 bits."""
    width = kind.bit_width // 8
    wide = np.zeros((len(image), max(width // 8, 1)), dtype="<i8" if width >= 8 else "<i4")
    wide[:, 0] = image
    if width > 8:
        wide[:, 1:] = (image < 0).astype("i8")[:, None] * -1
    array = pa.Array.from_buffers(kind, len(image), [_validity(missing), pa.py_buffer(wide)])
    limit = 10**kind.precision
    too_large = np.flatnonzero((image >= limit) | (image <= -limit))
    present = too_large if missing is None else too_large[~missing[too_large]]
    if len(present):
        raise corrupt_row(present[0], f"at most {kind.precision} digits", int(image[present[0]]))
    return array


def corrupt_row(row: SupportsInt, expected: str, found: object) -> CorruptError:
    return CorruptError(
        f"found {found!r}, expected {expected}",
        row=int(row),
        expected=expected,
        found=found,
    )


def _decode_boolean(image: Image, missing: Mask | None) -> pa.Array:
    _check_boolean(image, missing)
    return boolean_array(image == 1, missing)


def boolean_array(values: Mask, missing: Mask | None) -> pa.Array:
    """A boolean array, built from buffers: `pa.array` checks if its input is a pandas Series, and so loads pandas."""
    bits = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [_validity(missing), pa.py_buffer(bits)])


def code_array(codes: Image, missing: Mask | None) -> pa.Array:
    """Codes, already checked, as Arrow integers of the same width."""
    kind = pa.from_numpy_dtype(codes.dtype)
    return pa.Array.from_buffers(kind, len(codes), [_validity(missing), pa.py_buffer(np.ascontiguousarray(codes))])


def _check_boolean(image: Image, missing: Mask | None) -> None:
    strange = (image != 0) & (image != 1)
    if missing is not None:
        strange &= ~missing
    if strange.any():
        row = int(np.argmax(strange))
        raise corrupt_row(row, "0 (FALSE) or 1 (TRUE)", int(image[row]))


def _decode_enum(image: Image, stored: StoredType, missing: Mask | None) -> pa.Array:
    """Enum values as an Arrow dictionary of the member names, without the member MISSING."""
    named = [(value, name) for name, value in stored.members]
    values = np.array([value for value, _ in named], dtype=memory_dtype(stored))
    order = np.argsort(values, kind="stable")
    slot = np.searchsorted(values, image, sorter=order) if len(values) else np.zeros(len(image), dtype=int)
    slot = np.minimum(slot, max(len(values) - 1, 0))
    known = values[order[slot]] == image if len(values) else np.zeros(len(image), dtype=bool)
    if missing is not None:
        known |= missing
    if not known.all():
        row = int(np.argmin(known))
        raise corrupt_row(row, "a member of the enum", int(image[row]))
    codes = order[slot].astype("i4") if len(values) else np.zeros(len(image), dtype="i4")
    labels = pa.array([shown_name(name) for _, name in named], pa.string())
    return pa.DictionaryArray.from_arrays(code_array(codes, missing), labels)


def _decode_string(image: Image, kind: pa.DataType, missing: Mask | None) -> pa.Array:
    """Fixed-length strings without their trailing NULs."""
    offsets, data = new_array(len(image) + 1, np.dtype("i4")), new_array(image.nbytes, np.dtype("u1"))
    source = np.ascontiguousarray(image).view("u1")
    size, bad = kernels.fixed_to_arrow(source, image.itemsize, kernels.NULLS, kernels.UTF8, missing, offsets, data)
    if bad >= 0:
        raise corrupt_row(bad, "UTF-8 text", bytes(image[bad])[:60])
    buffers = [_validity(missing), pa.py_buffer(offsets), pa.py_buffer(data[:size])]
    text = pa.Array.from_buffers(pa.string(), len(image), buffers)
    return _text_to_decimal(text, kind) if pa.types.is_decimal(kind) else text


def decode_strings(strings: Strings, kind: pa.DataType, fill: bytes | None) -> pa.Array:
    """Strings or bytes of variable length that were read in Arrow's form (offsets and data)."""
    array = bytes_array(strings, None)
    return strings_array(strings, kind, None if fill is None else find_missing_strings(strings, array, fill))


def bytes_array(strings: Strings, missing: Mask | None) -> pa.Array:
    """Bytes of variable length, unchecked."""
    buffers = [_validity(missing), pa.py_buffer(strings.offsets), pa.py_buffer(strings.data)]
    return pa.Array.from_buffers(pa.binary(), len(strings.offsets) - 1, buffers)


def strings_array(strings: Strings, kind: pa.DataType, missing: Mask | None) -> pa.Array:
    """Strings of variable length as `kind`: binary, string, or decimals stored as strings."""
    array = bytes_array(strings, missing)
    if pa.types.is_binary(kind):
        return array
    bad = kernels.check_text(strings.offsets, strings.data, kernels.UTF8, missing)
    if bad >= 0:
        raise corrupt_row(bad, "UTF-8 text", array[bad].as_py()[:60])
    text = array.view(pa.string())
    return _text_to_decimal(text, kind) if pa.types.is_decimal(kind) else text


def _text_to_decimal(text: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return text.cast(kind)
    except pa.ArrowInvalid as error:
        raise CorruptError(f"these rows hold strings that are not {kind}: {error}") from error


def as_text(array: pa.Array) -> pa.Array:
    """Bytes as strings; raises a CorruptError that names the first row that is not UTF-8."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        pass
    for row, value in enumerate(array):
        data = value.as_py()
        try:
            (data or b"").decode("utf-8")
        except UnicodeDecodeError:
            raise corrupt_row(row, "UTF-8 text", data[:60]) from None
    raise CorruptError("these rows hold bytes that are not UTF-8 text")


def _decode_text(image: Image, missing: Mask | None) -> pa.Array:
    data = [ctypes.string_at(pointer) if pointer else b"" for pointer in image.tolist()]
    return as_text(pa.array(data, pa.binary(), mask=missing))


def _gather(image: Image, width: int, missing: Mask | None) -> tuple[np.ndarray, np.ndarray]:
    """The bytes that sequences point to, concatenated, and the offset of each row; missing rows are empty."""
    lengths = image["length"].astype("i8")
    if missing is not None:
        lengths[missing] = 0
    offsets = np.zeros(len(image) + 1, dtype="i8")
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] >= 2**31:
        raise UnsupportedError(
            f"cannot read {len(image)} rows with {offsets[-1]} elements at once: read fewer rows at a time",
            feature="lists of more than 2**31 elements at once",
        )
    data = np.empty(int(offsets[-1]) * width, dtype="u1")
    target = data.ctypes.data
    for row in np.flatnonzero(lengths).tolist():
        ctypes.memmove(target + int(offsets[row]) * width, int(image["pointer"][row]), int(lengths[row]) * width)
    return data, offsets.astype("i4")


def _decode_binary(image: Image, kind: pa.DataType, missing: Mask | None) -> pa.Array:
    data, offsets = _gather(image, 1, missing)
    buffers = [_validity(missing), pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.binary(), len(image), buffers)
    return as_text(array) if pa.types.is_string(kind) else array


def _decode_sequence(image: Image, stored: StoredType, kind: pa.DataType, missing: Mask | None) -> pa.Array:
    dtype = memory_dtype(stored.item)
    data, offsets = _gather(image, dtype.itemsize, missing)
    inner = _as_elements(data, dtype)
    with rows_as(lambda element: int(np.searchsorted(offsets, element, "right")) - 1):
        values = _decode(inner, stored.item, kind.value_type, None)
    buffers = [_validity(missing), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(values.type), len(image), buffers, children=[values])


def _as_elements(data: np.ndarray, dtype: np.dtype) -> Image:
    """Bytes as elements; a subarray dtype adds its dimensions after the first."""
    if dtype.subdtype is None:
        return data.view(dtype)
    base, shape = dtype.subdtype
    return data.view(base).reshape((len(data) // dtype.itemsize, *shape))


def _decode_array(image: Image, stored: StoredType, kind: pa.DataType, missing: Mask | None) -> pa.Array:
    item = memory_dtype(stored.item)
    flat = np.ascontiguousarray(image)
    extra = item.subdtype[1] if item.subdtype is not None else ()
    flat = flat.reshape((len(image) * int(np.prod(stored.dims)), *extra))
    inner_kind = kind
    for _ in stored.dims:
        inner_kind = inner_kind.value_type
    # The contents of a missing row are undefined, so they are missing too.
    each = int(np.prod(stored.dims))
    inside = None if missing is None else np.repeat(missing, each)
    with rows_as(lambda element: element // each):
        values = _decode(flat, stored.item, inner_kind, inside)
    for depth in range(len(stored.dims) - 1, 0, -1):
        values = pa.FixedSizeListArray.from_arrays(values, stored.dims[depth])
    length = stored.dims[0]
    outer = pa.list_(values.type, length)
    return pa.Array.from_buffers(outer, len(image), [_validity(missing)], children=[values])


def _decode_compound(image: Image, stored: StoredType, kind: pa.DataType, missing: Mask | None) -> pa.Array:
    parts = []
    for position, member in enumerate(stored.fields):
        if stored.kind == "complex":  # a complex number requested as a struct
            part = image.real if member.name == "r" else image.imag
        else:
            part = image[member.name]
        parts.append(_decode(np.ascontiguousarray(part), member.type, kind.field(position).type, missing))
    fields = [pa.field(shown_name(member.name), part.type) for member, part in zip(stored.fields, parts, strict=True)]
    mask = None if missing is None else boolean_array(missing, None)
    return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)


def decode_codes(image: Image, n_categories: int, fill: bytes | None) -> pa.Array:
    """Codes of a categorical: -1 (or the fill of unsigned codes) is missing, all others must be valid."""
    _, missing = decode_code_numbers(image, n_categories, fill)
    width = "i8" if image.dtype.itemsize > 4 else "i4"
    codes = image if missing is None else np.where(missing, 0, image)
    return code_array(codes.astype(width), missing)


def decode_coded_text(image: Image, categories: pa.Array, fill: bytes | None) -> pa.Array:
    """The categories that the codes stand for, as strings."""
    codes, missing = decode_code_numbers(np.ascontiguousarray(image), len(categories), fill)
    known, strings = string_buffers(categories)
    offsets = new_array(len(codes) + 1, np.dtype(np.int32))
    try:
        kernels.code_offsets(known, codes, missing, offsets)
    except ValueError:  # the codes are valid, so the total length exceeds Arrow's offsets
        raise UsageError(
            f"the text of these {len(codes):,} rows has more than 2 GiB: take fewer, or use dictionaries=True"
        ) from None
    data = new_array(int(offsets[-1]), np.dtype(np.uint8))
    kernels.code_data(known, strings, codes, missing, offsets, data)
    buffers = [_validity(missing), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(codes), buffers)


def decode_code_numbers(image: Image, n_categories: int, fill: bytes | None) -> tuple[Image, Mask | None]:
    """Codes of a categorical as stored, checked, and a mask of missing rows (None if no row is missing)."""
    mark = -1 if image.dtype.kind == "i" else None if fill is None else int(np.frombuffer(fill, dtype=image.dtype)[0])
    least, greatest, _, _ = kernels.least_greatest(image, None)
    if least is None or greatest is None:
        return image, None
    if least >= 0 and greatest < n_categories and (mark is None or not least <= mark <= greatest):
        return image, None
    missing: Mask | None = None if mark is None else image == mark
    if missing is not None and not missing.any():
        missing = None
    check_codes(image, n_categories, missing)
    return image, missing


def check_codes(image: Image, n_categories: int, missing: Mask | None) -> None:
    """Raise a CorruptError for a row that is not missing and whose code is not valid."""
    if not _all_below(image, n_categories, missing):
        wild = (image < 0) | (image >= n_categories)
        row = int(np.argmax(wild if missing is None else wild & ~missing))
        raise corrupt_row(row, f"a code of the {n_categories} categories", int(image[row]))


# -- The fill of a column as a Python value, as a string, and as a line of the column's description --


def fill_is_nan(column: ColumnInfo) -> bool:
    """Whether the column's fill is NaN, so that every NaN is a missing row."""
    if column.encoding is not None:
        return False
    dtype = memory_dtype(column.type)
    return column.fill is not None and dtype.kind == "f" and bool(np.isnan(np.frombuffer(column.fill, dtype=dtype)[0]))


def column_fill(column: ColumnInfo) -> object:
    """The stored value that marks a missing row of a column; None if the column has no fill."""
    if column.fill is None:
        return None
    is_string = column.row_form in (Plain("date"), Plain("date-time"), Pointers())
    if is_string or column.encoding == "levels":  # whatever the datatype
        return column.fill.split(b"\0")[0].decode("utf-8", "replace")
    return fill_value(column.type, column.fill)


def missing_line(stored: StoredType, fill: bytes) -> str:
    """The line of a description that states the fill (C6)."""
    return f"Missing value: {_fill_text(stored, fill)}."


def lost_fill(description: str | None, stored: StoredType) -> bytes | None:
    """The fill stated in a description, for a dataset that has lost its own; None if no line states it."""
    found = re.search(r'(?:^|\n)Missing value: (?:"(.*)"|0x([0-9a-f]+)|(\[.*\]))\.$', description or "", re.DOTALL)
    if found is None:
        return None
    if found[3] is not None:
        return _list_fill(found[3], stored) if stored.kind == "sequence" else None
    return bytes.fromhex(found[2]) if found[2] else found[1].encode("utf-8", "surrogateescape")


def _list_fill(text: str, stored: StoredType) -> bytes | None:
    """The fill of a column of lists, as `fill_value` shows it."""
    try:
        items = ast.literal_eval(text)
        if stored.item.kind == "text":
            return b"".join(with_length(item.encode()) for item in items)
        return np.array(items, dtype=memory_dtype(stored.item)).tobytes()
    except (ValueError, TypeError, SyntaxError, AttributeError, OverflowError):
        return None


def _fill_text(stored: StoredType, fill: bytes) -> str:
    """The fill as a string for people and other tools."""
    if stored.kind in ("object_reference", "region_reference"):
        return "the null reference"
    if stored.kind == "boolean":
        return "MISSING"
    if stored.kind in ("opaque", "binary"):
        return f"0x{fill.hex()}" if fill else '""'
    value = fill_value(stored, fill)
    return f'"{value}"' if isinstance(value, str) else str(value)


def fill_value(stored: StoredType, fill: bytes) -> object:
    """The fill as a Python value of the stored datatype: an integer for a timestamp, a code for a categorical."""
    if stored.kind == "text":
        return fill.decode("utf-8", "replace")
    if stored.kind == "binary":
        return fill
    if stored.kind == "sequence" and not fill:
        return []
    kind = default_type(stored)
    if stored.kind == "sequence" and stored.item.kind == "text":
        return [fill[8:].decode("utf-8", "replace")]
    if (stored.item if stored.kind == "sequence" else stored).has_pointers:
        return fill
    if stored.kind == "sequence":
        inner = np.frombuffer(fill, dtype=memory_dtype(stored.item))
        return decode(inner, stored.item, kind.value_type).to_pylist()
    dtype = memory_dtype(stored)
    if stored.kind in ("boolean", "enum"):
        return int(np.frombuffer(fill, dtype=dtype)[0])
    base, shape = dtype.subdtype if dtype.subdtype is not None else (dtype, ())
    return decode(np.frombuffer(fill, dtype=base).reshape(1, *shape), stored, kind)[0].as_py()
