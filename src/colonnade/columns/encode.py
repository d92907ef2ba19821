"""Encode Arrow arrays as elements in memory form; values that obviously fit are encoded by a faster path.

In: an Arrow array of a plain type (see mapping.plain_type), the stored type, the fill. Out: an
`Encoded`: the image, together with the memory that its pointers refer to. Missing rows become
the fill. A value that the stored type cannot hold raises a DataError with column and row.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import field
from functools import lru_cache

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import kernels
from colonnade.arrays import Image
from colonnade.columns.arrow_types import ComplexType, ReferenceType, complex_values, python_values
from colonnade.columns.strings import byte_lengths, holds_nul, string_buffers
from colonnade.dataclass import dataclass
from colonnade.errors import DataError, UsageError, rows_as
from colonnade.model import StoredType, shown_name
from colonnade.nodes.elements import fill_element
from colonnade.stored_dtypes import SEQUENCE_DTYPE, integer_bounds, memory_dtype


@dataclass(frozen=True)
class ElementForm:
    """How rows are stored: the datatype, the Arrow type of the encoded values, and the fill.

    For a categorical the values are its codes, so `kind` is an integer type.
    """

    stored: StoredType
    kind: pa.DataType
    fill: bytes | None = None

    @property
    def values_type(self) -> StoredType:
        """The datatype to decode the values with: an enum of categories holds plain codes."""
        return self.stored.item if self.stored.kind == "enum" else self.stored


@dataclass
class Encoded:
    """Elements in memory form, and the memory they point to."""

    image: Image
    kept: list[object] = field(default_factory=list)


def encode(array: pa.Array, stored: StoredType, fill: bytes | None, name: str) -> Encoded:
    """The array as elements. Missing rows hold the fill, which is required if there are missing rows."""
    if pa.types.is_null(array.type):
        return Encoded(np.frombuffer((fill or b"\0") * len(array), dtype=memory_dtype(stored)))
    encoded = _encode(array, stored, name)
    if array.null_count:
        if fill is None:
            row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
            raise DataError(
                "found a missing value inside a value or where no fill can mark it",
                column=name,
                row=row,
            )
        _put_fill(encoded, array, stored, fill)
    return encoded


def _put_fill(encoded: Encoded, array: pa.Array, stored: StoredType, fill: bytes) -> None:
    rows = array.is_null().to_numpy(zero_copy_only=False)
    if stored.kind in ("text", "binary", "sequence"):
        element, kept = fill_element(stored, fill)
        encoded.image[rows] = element[0]
        encoded.kept.append((element, kept))
    else:
        image = np.array(encoded.image)  # a copy: the image may be the caller's Arrow buffer
        image.view("u1").reshape(len(image), len(fill))[rows] = np.frombuffer(fill, dtype="u1")
        encoded.image = image


def _encode(array: pa.Array, stored: StoredType, name: str) -> Encoded:
    kind = array.type
    if stored.kind == "enum" and not pa.types.is_integer(kind):
        return _encode_enum(array, stored, name)
    if stored.kind == "boolean":
        return Encoded(boolean_image(array, memory_dtype(stored)))
    if stored.kind == "string":
        return _encode_string(array, stored, name)
    if stored.kind == "text":
        return _encode_text(array, name)
    if stored.kind in ("binary", "sequence"):
        return _encode_sequence(array, stored, name)
    if stored.kind == "array":
        return _encode_array(array, stored, name)
    if isinstance(kind, ComplexType):
        return Encoded(complex_values(array))
    if stored.kind in ("compound", "complex"):
        return _encode_compound(array, stored, name)
    if pa.types.is_decimal(kind):
        return _encode_decimal(array, stored)
    image = fixed_image(array, memory_dtype(stored))
    if array.null_count and isinstance(array.type, ReferenceType):  # the null reference, also inside lists and structs
        image = image.copy()
        image[array.is_null().to_numpy(zero_copy_only=False)] = np.zeros((), image.dtype)
    if stored.kind == "integer" and stored.precision < 8 * image.itemsize:
        _refuse_too_many_bits(image, array, stored, name)
    if stored.kind == "float" and stored.mantissa < np.finfo(image.dtype).nmant:
        _refuse_inexact(image, array, stored, name)
    return Encoded(image)


def _refuse_too_many_bits(image: Image, array: pa.Array, stored: StoredType, name: str) -> None:
    """Raise for integers that need more bits than the datatype has; HDF5 would clip them silently."""
    low, high = integer_bounds(stored)
    wide = (image < low) | (image > high)
    if array.null_count:
        wide &= array.is_valid().to_numpy(zero_copy_only=False)
    if wide.any():
        _refuse_rows(pa.array(wide), array, name, f"does not fit its {stored.precision} bits")


def _refuse_inexact(image: Image, array: pa.Array, stored: StoredType, name: str) -> None:
    """Raise for floats that the datatype (bfloat16, say) cannot represent exactly; HDF5 would round them silently."""
    bias = 2 ** (stored.exponent - 1) - 1
    values = np.where(np.isfinite(image), image, 0).astype("f8")
    exponents = np.maximum(np.frexp(values)[1] - 1, 1 - bias)
    digits = np.ldexp(values, stored.mantissa - exponents)
    wrong = (digits != np.rint(digits)) | (exponents > bias)
    if array.null_count:
        wrong &= array.is_valid().to_numpy(zero_copy_only=False)
    if wrong.any():
        reason = f"is not one of the floats of {8 * stored.size} bits that it holds. Round it first"
        _refuse_rows(pa.array(wrong), array, name, reason)


def _encode_enum(array: pa.Array, stored: StoredType, name: str) -> Encoded:
    """Enum values from member names."""
    names = array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array
    members = {shown_name(member): value for member, value in stored.members}
    places = pc.index_in(names, value_set=pa.array(members, pa.string()))
    if places.null_count > array.null_count:
        unknown = pc.and_(pc.is_null(places), pc.is_valid(names))
        _refuse_rows(unknown, array, name, "is not one of the members of its enum")
    numbers = np.array(list(members.values()) or [0], dtype=memory_dtype(stored))
    return Encoded(numbers[places.fill_null(0).to_numpy()])


def boolean_image(array: pa.Array, dtype: np.dtype) -> Image:
    """Arrow's bits as elements of 0 and 1; the elements of missing rows are undefined."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype=dtype)
    first, skipped = divmod(array.offset, 8)
    packed = np.frombuffer(buffer, dtype="u1", offset=first)
    return np.unpackbits(packed, count=skipped + len(array), bitorder="little")[skipped:].astype(dtype)


def fixed_image(array: pa.Array, dtype: np.dtype) -> Image:
    """The array's buffer as elements, without a copy; the elements of missing rows are undefined."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype, count=len(array), offset=array.offset * dtype.itemsize)


def _encode_decimal(array: pa.Array, stored: StoredType) -> Encoded:
    """The unscaled integers: the low bytes of Arrow's wider integers. The precision guarantees that they fit."""
    dtype = memory_dtype(stored)
    words = fixed_image(array, np.dtype((np.void, array.type.bit_width // 8)))
    low = np.ascontiguousarray(words).view("<i4" if array.type.bit_width == 32 else "<i8")
    return Encoded(low.reshape(len(array), -1)[:, 0].astype(dtype) if len(array) else np.zeros(0, dtype))


def _encode_string(array: pa.Array, stored: StoredType, name: str) -> Encoded:
    if pa.types.is_decimal(array.type):
        array = pa.array([None if v is None else str(v) for v in array.to_pylist()], pa.string())
    text = array.fill_null("") if array.null_count else array
    if byte_lengths(text).max(initial=0) > stored.size:
        longer = pc.greater(pc.binary_length(text), stored.size)
        _refuse_rows(longer, array, name, f"is longer than {stored.size} bytes")
    if holds_nul(text):
        _refuse_rows(pc.ends_with(text, pattern="\0"), array, name, "ends with NUL, which pads HDF5 strings")
    return Encoded(padded_image(text, memory_dtype(stored)))


def padded_image(text: pa.Array, dtype: np.dtype) -> Image:
    """Strings as fixed-length elements, padded with NUL; no string may be longer than the width."""
    image = np.empty(len(text), dtype=dtype)
    if len(text):
        offsets, data = string_buffers(text)
        kernels.arrow_to_fixed(offsets, data, dtype.itemsize, image)
    return image


def _refuse_rows(wrong: pa.Array, array: pa.Array, name: str, why: str) -> None:
    if not pc.any(wrong).as_py():
        return
    row = int(np.argmax(wrong.to_numpy(zero_copy_only=False)))
    value = python_values(array.slice(row, 1))[0]
    shown = value if len(str(value)) < 60 else str(value)[:57] + "..."
    raise DataError(f"{shown!r} {why}", column=name, row=row, value=value)


def _encode_text(array: pa.Array, name: str) -> Encoded:
    """One pointer per row into one buffer of NUL-terminated strings."""
    text = array.fill_null("")
    _refuse_rows(
        pc.match_substring(text, "\0"), array, name, "holds NUL, which ends an HDF5 string: store it as binary"
    )
    empty, nul = pa.scalar("", pa.large_string()), pa.scalar("\0", pa.large_string())
    joined = pc.binary_join_element_wise(text.cast(pa.large_string()), empty, nul)
    _, offset_buffer, data = joined.buffers()
    offsets = np.frombuffer(offset_buffer, dtype="i8", count=len(text), offset=joined.offset * 8)
    return Encoded(offsets.astype("u8") + np.uint64(data.address), [data])


def _encode_sequence(array: pa.Array, stored: StoredType, name: str) -> Encoded:
    """A length and a pointer per row into one image of all elements."""
    if stored.kind == "binary":
        lengths = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        joined = array.cast(pa.large_binary()).fill_null(b"")
        _, offset_buffer, data = joined.buffers()
        inner = np.frombuffer(data, dtype="u1") if data is not None else np.zeros(0, dtype="u1")
        starts = np.frombuffer(offset_buffer, dtype="i8", count=len(array), offset=joined.offset * 8)
        kept: list[object] = [data]
    else:
        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        values = array.flatten()
        _refuse_inner_missing(values, array, name)
        ends = np.cumsum(lengths)
        with rows_as(lambda element: int(np.searchsorted(ends, element, "right"))):
            elements = _encode(values, stored.item, name)
        inner = np.ascontiguousarray(elements.image)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if len(array) else np.zeros(0, dtype="i8")
        kept = [inner, *elements.kept]
    width = memory_dtype(stored.item).itemsize
    image = np.zeros(len(array), dtype=SEQUENCE_DTYPE)
    image["length"] = lengths
    image["pointer"] = np.where(lengths > 0, starts.astype("u8") * np.uint64(width) + np.uint64(inner.ctypes.data), 0)
    return Encoded(image, kept)


def _refuse_inner_missing(values: pa.Array, array: pa.Array, name: str) -> None:
    if values.null_count and not isinstance(values.type, ReferenceType):
        place = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(
            f"a value of {array.type} has a missing part (element {place} in order); HDF5 can mark "
            "only whole rows as missing: fill the parts first",
            column=name,
        )


def _encode_array(array: pa.Array, stored: StoredType, name: str) -> Encoded:
    present = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    values = array
    for length in stored.dims:
        values = values.values.slice(values.offset * length, len(values) * length)
        if present is not None:
            present = np.repeat(present, length)
        _refuse_missing_where(values, present, name, array.type)
    item = memory_dtype(stored.item)
    inner = _encode(values, stored.item, name)
    base, extra = item.subdtype if item.subdtype is not None else (item, ())
    image = (
        np.ascontiguousarray(inner.image).view(base) if base != inner.image.dtype else np.ascontiguousarray(inner.image)
    )
    return Encoded(image.reshape((len(array), *stored.dims, *extra)), inner.kept)


def _refuse_missing_where(values: pa.Array, present: np.ndarray | None, name: str, kind: pa.DataType) -> None:
    """Raise if a part is missing in a row that is not missing: HDF5 cannot represent that."""
    if not values.null_count or isinstance(values.type, ReferenceType):
        return
    absent = values.is_null().to_numpy(zero_copy_only=False)
    if present is not None:
        absent = absent & present
    if absent.any():
        row = int(np.argmax(absent))
        raise DataError(
            f"a value of {kind} has a missing part (part {row} in order); HDF5 can mark only whole "
            "rows as missing: fill the parts first",
            column=name,
        )


def _encode_compound(array: pa.Array, stored: StoredType, name: str) -> Encoded:
    present = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    dtype = memory_dtype(stored)
    image = np.zeros(len(array), dtype=dtype)
    kept: list[object] = []
    for position, member in enumerate(stored.fields):
        part = array.field(position)
        _refuse_missing_where(part, present, f"{name}.{member.name}", array.type)
        inner = _encode(part, member.type, f"{name}.{member.name}")
        if stored.kind == "complex":
            target = image.real if member.name == "r" else image.imag
            target[:] = inner.image
        else:
            image[member.name] = inner.image
        kept += [inner.image, *inner.kept]
    return Encoded(image, kept)


def encode_one(value: object, kind: pa.DataType, stored: StoredType, name: str) -> bytes:
    """One value encoded as bytes, as in `ColumnInfo.fill`."""
    try:
        array = pa.array([value], type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, decimal.InvalidOperation) as error:
        raise DataError(f"the fill {value!r} is not a {kind}: {error}", column=name, value=value) from error
    if pa.types.is_integer(kind) and array[0].as_py() != value:
        raise DataError(f"the fill {value!r} is not a {kind}", column=name, value=value)
    if stored.kind == "text":
        return str(array[0].as_py()).encode()
    if stored.kind == "binary":
        data = array[0].as_py()
        return data.encode() if isinstance(data, str) else bytes(data)
    inside = stored.item if stored.kind == "sequence" else stored
    if inside.has_pointers and not (stored.kind == "sequence" and array[0].as_py() == []):
        raise UsageError(
            f"column {name!r}: a fill can be chosen only for types of one size, for text, and for lists of "
            "types of one size; leave out fill=",
            column=name,
        )
    if stored.kind == "sequence":
        inner = _encode(array.flatten(), stored.item, name)
        return inner.image.tobytes()
    return encode(array, stored, None, name).image.tobytes()


# -- Fast path for encoding values that obviously fit the form of a column: most batches of most columns --


FastEncode = Callable[[pa.Array], Image | None]


def fast_encoder(form: ElementForm) -> FastEncode:
    """A function that encodes values for a form. It returns None for values that do not obviously fit."""
    if isinstance(form.kind, pa.BaseExtensionType):  # pyarrow cannot hash it; none of them has a fast path
        return lambda _values: None
    return _fast_encoder(form)


@lru_cache(maxsize=256)
def _fast_encoder(form: ElementForm) -> FastEncode:
    dtype = memory_dtype(form.stored)
    encode = None
    if form.stored.kind == "string" and pa.types.is_string(form.kind):
        encode = _strings(dtype, form.fill)
    elif form.stored.kind == "boolean" and pa.types.is_boolean(form.kind):
        encode = _booleans(dtype)
    elif form.stored.kind in ("integer", "float") and dtype.kind in "iuf" and _is_number(form, dtype):
        encode = _numbers(dtype, form.fill)

    def suiting(values: pa.Array) -> Image | None:
        if encode is None or not len(values) or values.null_count or values.type != form.kind:
            return None
        return encode(values)

    return suiting


def _is_number(form: ElementForm, dtype: np.dtype) -> bool:
    """Whether Arrow holds these values as exactly the numbers that are stored, and the datatype holds all of them."""
    kind = form.kind
    if form.stored.kind == "integer" and form.stored.precision < 8 * dtype.itemsize:
        return False
    if form.stored.kind == "float" and form.stored.mantissa < np.finfo(dtype).nmant:
        return False
    if pa.types.is_temporal(kind):
        return dtype.kind == "i" and bool(kind.bit_width == dtype.itemsize * 8)
    return bool(kind == pa.from_numpy_dtype(dtype))


def _strings(dtype: np.dtype, fill: bytes | None) -> FastEncode | None:
    if fill is not None and fill.strip(b"\0"):
        return None  # a fill that is not empty must be compared with every string
    width = dtype.itemsize
    shortest = 0 if fill is None else 1

    def encode(values: pa.Array) -> Image | None:
        offsets, data = string_buffers(values)
        image = np.empty(len(values), dtype=dtype)
        least, most, has_nul = kernels.arrow_to_fixed(offsets, data, width, image)
        return image if shortest <= least and most <= width and not has_nul else None

    return encode


def _booleans(dtype: np.dtype) -> FastEncode:
    def encode(values: pa.Array) -> Image | None:
        return boolean_image(values, dtype)

    return encode


def _numbers(dtype: np.dtype, fill: bytes | None) -> FastEncode | None:
    missing = None if fill is None else np.frombuffer(fill, dtype=dtype)[0]
    if missing is not None and np.isnan(missing):
        return None
    has_one_form = missing is not None and (dtype.kind != "f" or missing != 0)  # 0.0 and -0.0 are equal

    def holds_missing(image: Image) -> bool:
        if fill is not None and has_one_form and image.flags.aligned:
            return kernels.has_item(image, fill)
        return bool((image == missing).any())

    def encode(values: pa.Array) -> Image | None:
        image = fixed_image(values, dtype)
        return image if missing is None or not holds_missing(image) else None

    return encode
