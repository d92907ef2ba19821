"""Fast path for encoding values that obviously fit the form of a column: most batches of most columns.

In such a batch no value is missing, none equals the fill, and the datatype holds every value. Everything else is left
to `forms`, which decides how the form must change or what to refuse, and to `encode`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.columns.encode import boolean_image, fixed_image, padded_image
from colonnade.columns.forms import ElementForm
from colonnade.columns.strings import byte_lengths, holds_nul
from colonnade.h5.datasets import Image
from colonnade.stored_dtypes import memory_dtype

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


def _is_number(form: ElementForm, dtype: np.dtype[Any]) -> bool:
    """Whether Arrow holds these values as exactly the numbers that are stored, and the datatype holds all of them."""
    kind = form.kind
    if form.stored.kind == "integer" and form.stored.precision < 8 * dtype.itemsize:
        return False
    if form.stored.kind == "float" and form.stored.mantissa < np.finfo(dtype).nmant:
        return False
    if pa.types.is_temporal(kind):
        return dtype.kind == "i" and bool(kind.bit_width == dtype.itemsize * 8)
    return bool(kind == pa.from_numpy_dtype(dtype))


def _strings(dtype: np.dtype[Any], fill: bytes | None) -> FastEncode | None:
    if fill is not None and fill.strip(b"\0"):
        return None  # a fill that is not empty must be compared with every string
    width = dtype.itemsize
    shortest = 0 if fill is None else 1

    def encode(values: pa.Array) -> Image | None:
        lengths = byte_lengths(values)
        least, most = lengths.min(), lengths.max()
        if least < shortest or most > width or holds_nul(values):
            return None
        if least < width:
            return padded_image(values, dtype)
        _, offsets, data = values.buffers()
        start = int(np.frombuffer(offsets, dtype=np.int32)[values.offset])
        return np.frombuffer(data, dtype=dtype, count=len(values), offset=start)

    return encode


def _booleans(dtype: np.dtype[Any]) -> FastEncode:
    def encode(values: pa.Array) -> Image | None:
        return boolean_image(values, dtype)

    return encode


def _numbers(dtype: np.dtype[Any], fill: bytes | None) -> FastEncode | None:
    missing = None if fill is None else np.frombuffer(fill, dtype=dtype)[0]
    if missing is not None and np.isnan(missing):
        return None

    def encode(values: pa.Array) -> Image | None:
        image = fixed_image(values, dtype)
        return image if missing is None or not (image == missing).any() else None

    return encode
