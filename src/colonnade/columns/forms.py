"""Choose the form of a column from its values: datatype, width, fill, filters. Pure functions, no file access.

A form is chosen from the rows seen so far and checked again for each later batch: `suit_datatype`
returns the same form if it still holds every value, or else the form that must replace it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.columns.encode import encode, encode_one
from colonnade.columns.mapping import (
    BINARY,
    BOOLEAN_WITH_MISSING,
    TEXT,
    stored_codes,
    stored_enum,
    stored_string,
    stored_type,
)
from colonnade.columns.missing import find_missing, recommended_fills
from colonnade.columns.strings import byte_lengths, holds_nul
from colonnade.dataclass import dataclass
from colonnade.errors import DataError, UsageError
from colonnade.filters.apply import trial_size
from colonnade.h5.datasets import DatasetPlan
from colonnade.model import AUTO, ColumnOptions, StoredType
from colonnade.stored_dtypes import memory_dtype

MISSING_CODE = -1
WIDEST_AUTO_STRING = 4096
POINTER_COST = 40  # bytes that HDF5 spends on a variable-length string in addition to its data


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


def first_form(kind: pa.DataType, name: str) -> ElementForm:
    """The form chosen by type alone; raises for a type that cannot be stored."""
    return ElementForm(stored_type(kind, f"column {name!r}"), kind)


def _enum_names(categories: list[str], name: str) -> list[str]:
    """The categories as member names of an HDF5 enum; raises for a name that HDF5 cannot store."""
    booleans = set(categories) <= {"FALSE", "TRUE"}
    for category in categories:
        if not category or "\0" in category or category == "MISSING" or booleans:
            raise DataError(
                f"column {name!r}: the category {category!r} cannot be a member of an HDF5 enum (it is empty, holds "
                "NUL, or would read as a boolean): leave out enum=True",
                column=name,
                value=category,
            )
    return categories


def categorical_form(categories: pa.Array, as_enum: bool, has_missing: bool, name: str) -> ElementForm:
    """The form for codes of these categories: the narrowest signed integer, -1 for missing (C8)."""
    codes = stored_codes(len(categories))
    stored = codes
    if as_enum and len(categories):
        stored = stored_enum(_enum_names(categories.to_pylist(), name))
        if has_missing:
            stored = replace(stored, members=(*stored.members, ("MISSING", MISSING_CODE)))
    fill = missing_code(stored) if has_missing or not as_enum else None
    return ElementForm(stored, pa.from_numpy_dtype(memory_dtype(stored)), fill)


def missing_code(stored: StoredType) -> bytes:
    """The code that marks a missing row, -1, in this signed datatype."""
    return np.array(MISSING_CODE, dtype=memory_dtype(stored)).tobytes()


def holds_codes(stored: StoredType, n_categories: int) -> bool:
    """Whether this datatype can hold the codes of `n_categories` categories, and -1 for missing."""
    return stored.kind == "integer" and stored.signed and n_categories <= 1 << (min(stored.precision, 64) - 1)


def suit_datatype(
    form: ElementForm, values: pa.Array, options: ColumnOptions, name: str, first: bool, more: bool
) -> ElementForm:
    """The form, with its datatype changed if necessary to hold these values too.

    The `first` rows decide between fixed and variable length. If `more` rows may follow, some room is left.
    """
    if pa.types.is_boolean(form.kind):
        if values.null_count and len(form.stored.members) == 2:
            fill = next(iter(recommended_fills(BOOLEAN_WITH_MISSING)))
            return replace(form, stored=BOOLEAN_WITH_MISSING, fill=fill)
        return form
    if pa.types.is_string(form.kind):
        if form.stored.kind == "binary":
            return form
        if holds_nul(values) and pc.any(pc.match_substring(values, "\0")).as_py():
            _refuse_nul(values, options, name)
            return ElementForm(BINARY, form.kind, _fill_in(form.fill, BINARY))
        if form.stored.kind == "text" and not first:
            return form
        stored = _suit_string(form.stored, values, options, more)
        return form if stored == form.stored else ElementForm(stored, form.kind, _fill_in(form.fill, stored))
    return form


def _fill_in(fill: bytes | None, stored: StoredType) -> bytes | None:
    """A string fill in another, wider string datatype."""
    if fill is None:
        return None
    text = fill.rstrip(b"\0")
    return text.ljust(stored.size, b"\0") if stored.kind == "string" else text


def _suit_string(stored: StoredType, values: pa.Array, options: ColumnOptions, more: bool) -> StoredType:
    if options.strings == "variable":
        return TEXT
    lengths = byte_lengths(values.drop_null() if values.null_count else values)
    longest = int(lengths.max(initial=0))
    if isinstance(options.fill, str):
        longest = max(longest, len(options.fill.encode()))
    if stored.kind == "string":
        if longest <= stored.size:
            return stored
        longest = max(longest, stored.size * 3 // 2)
    elif options.strings == "auto":
        mean = float(lengths.mean()) if len(lengths) else 0.0
        if values.null_count == len(values) or (longest > 64 and longest > mean + POINTER_COST):
            return TEXT
    width = -(-longest // 8) * 8 if more and longest > 2 else longest
    return TEXT if options.strings == "auto" and width > WIDEST_AUTO_STRING else stored_string(width)


def _refuse_nul(values: pa.Array, options: ColumnOptions, name: str) -> None:
    if options.strings == "auto":
        return
    row = int(np.argmax(pc.match_substring(values.fill_null(""), "\0").to_numpy(zero_copy_only=False)))
    raise DataError(
        f"column {name!r}, row {row}: the text holds NUL, which ends an HDF5 string. Leave strings={options.strings!r} "
        "out (the column is then stored as bytes and reads back as text), or store it as binary.",
        column=name,
        row=row,
        value=values[row].as_py(),
    )


def occurs(fill: bytes, values: pa.Array, form: ElementForm, name: str) -> np.ndarray[Any, Any]:
    """A mask of the values that equal the fill; none of `values` may be missing."""
    if pa.types.is_string(form.kind):
        text = fill.rstrip(b"\0").decode("utf-8", "replace")
        if not text:
            return np.asarray(byte_lengths(values) == 0)
        wanted = pa.scalar(text)
        found: np.ndarray[Any, Any] = pc.equal(values, wanted).to_numpy(zero_copy_only=False)
        return found
    encoded = encode(values, form.stored, None, name)
    return find_missing(encoded.image, form.values_type, fill)


def fills_that_do_not_occur(
    form: ElementForm, values: pa.Array, candidates: Iterable[bytes], name: str
) -> Iterator[bytes]:
    """The candidates that equal none of the values, in order, computed lazily."""
    present = values.drop_null()
    if pa.types.is_string(form.kind):
        yield from (fill for fill in candidates if not occurs(fill, present, form, name).any())
        return
    encoded = encode(present, form.stored, None, name)
    for fill in candidates:
        if not find_missing(encoded.image, form.values_type, fill).any():
            yield fill


def asked_fill(options: ColumnOptions, form: ElementForm, name: str) -> bytes | None:
    """The fill that the caller requested, in the column's datatype."""
    if options.fill is None or options.fill is AUTO:
        return None
    if form.stored.kind in ("boolean", "enum"):
        raise UsageError(
            f"column {name!r}: a boolean is stored with MISSING as its fill; leave out fill={options.fill!r}",
            column=name,
        )
    return encode_one(options.fill, form.kind, form.stored, name)


def is_nan(fill: bytes | None, form: ElementForm) -> bool:
    """Whether the fill is NaN, which marks every NaN as missing."""
    dtype = memory_dtype(form.stored)
    return fill is not None and dtype.kind == "f" and bool(np.isnan(np.frombuffer(fill, dtype=dtype)[0]))


def filters_to_try(stored: StoredType) -> tuple[str, ...]:
    """Filters built into every HDF5 library that may reduce the size of this datatype."""
    if stored.kind == "integer" and stored.size in (1, 2, 4, 8):
        return ("scale-offset", "deflate" if stored.size == 1 else "shuffle+deflate")
    if stored.size == 1:
        return ("deflate",)
    if stored.kind in ("string", "opaque"):
        return ("deflate", "shuffle+deflate")
    return ("shuffle+deflate",)


WORTH_FILTERING = 4096
MOST_TRIED = 32_768  # rows
QUICKER = 4  # scale-offset is preferred up to this many times the size of deflate, because it decodes much faster


def choose_filters(
    plan: DatasetPlan, image: Any, count: int, are_codes: bool = False, is_portable: bool = False
) -> str:
    """The filters that suit these rows, by trial: small, and fast to decode. "none" if they save less than a fifth.

    The first codes are not a fair sample: new categories are numbered as they appear, so the codes compress well only
    at first. Variable-length rows are not tried: they are stored as references to a heap, which always compress.
    """
    raw = plan.type.size * count
    if raw < WORTH_FILTERING:
        return "none"
    if plan.type.has_pointers:
        return "shuffle+deflate"
    tried = filters_to_try(plan.type)
    if is_portable:
        tried = tuple(text for text in tried if text != "scale-offset")
    elif are_codes and plan.type.kind == "integer":
        tried = ("scale-offset",)
    sizes = {text: _tried(plan, text, image, count) for text in tried}
    costs = {text: size if text == "scale-offset" else QUICKER * size for text, size in sizes.items()}
    return min((text for text in costs if sizes[text] <= raw * 0.8), key=lambda text: costs[text], default="none")


def _tried(plan: DatasetPlan, text: str, image: Any, count: int) -> float:
    """The size in bytes of these rows with these filters, estimated from the first rows where those are enough."""
    some = count if text == "scale-offset" else min(count, MOST_TRIED)
    return trial_size(text, plan.type, plan.fill, image[:some]) * count / max(some, 1)
