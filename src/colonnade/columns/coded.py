"""Coded columns: each row is the code of a category, or a string that is one of the categories."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.columns.decode import (
    check_codes,
    code_array,
    corrupt_row,
    decode,
    decode_code_numbers,
    decode_coded_text,
    decode_codes,
    decode_strings,
    missing_rows,
)
from colonnade.columns.keys import ByteKeys, Keys, NumberKeys, Numbers
from colonnade.columns.mapping import value_type
from colonnade.columns.missing import Mask
from colonnade.columns.plain import MOST_SHOWN, CodecDecoder, Standing, numbers_in, values_of
from colonnade.columns.raw import Companion, Companions, Decoder, Present, Raw, any_of, image_of, part_of, set_column
from colonnade.columns.strings import Places, TextLookup
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.model import CategoriesInfo, CodeCodec, ColumnInfo
from colonnade.nodes import Dataset
from colonnade.nodes.heap_source import Strings

R = TypeVar("R")
MOST_UNWRITTEN_CATEGORIES = 1 << 20  # bytes of categories that were never written


class Categories:
    """The categories of a column: a dataset, or an Arrow array from outside the file. Read once, when first needed."""

    def __init__(self, column: ColumnInfo, stored: Companion, values: pa.Array | None = None) -> None:
        """If `values` are given, they are not read; a missing value is a category that cannot be decoded."""
        self._column, self.stored = column, stored
        self._values = values
        self._lookup: TextLookup | None = None

    @classmethod
    def of(cls, column: ColumnInfo, companion: Companion | Companions | Categories) -> Categories:
        """The companion of a column, if it is not categories already."""
        if isinstance(companion, Categories):
            return companion
        return cls(column, None if isinstance(companion, Companions) else companion)

    @property
    def info(self) -> CategoriesInfo:
        found = self._column.categories
        if found is None:
            raise FormatError(f"column {self._column.name!r} has no categories", column=self._column.name)
        return found

    def values(self) -> pa.Array:
        if self._values is None:
            if self.stored is None:
                raise FormatError(f"column {self._column.name!r} has no categories", column=self._column.name)
            self._values = self._given(self.stored) if isinstance(self.stored, pa.Array) else self._read(self.stored)
        return self._values

    def codes_of(self, text: bytes, values: pa.Array) -> Places:
        """The codes of the categories that equal this string."""
        if self._lookup is None:
            self._lookup = TextLookup(values)
        return self._lookup.places(text)

    def _given(self, values: pa.Array) -> pa.Array:
        """Categories from outside the file, checked against the number and type that the file declares."""
        name, info = self._column.name, self.info
        kind = value_type(info.type, info.units, info.arrow_type)
        n_given = len(values) - values.null_count
        if n_given != info.n_categories or values.null_count:
            raise FormatError(
                f"column {name!r} has {info.n_categories} categories, but {n_given} were given", column=name
            )
        try:
            return values.cast(kind)
        except pa.ArrowException as error:
            raise FormatError(f"column {name!r}: its categories are not {kind}: {error}", column=name) from error

    def _read(self, stored: Dataset) -> pa.Array:
        info, dataset = self.info, stored.describe()
        self._check_written(stored, info.n_categories, dataset.type.size)
        kind = value_type(info.type, info.units, info.arrow_type)
        heap = stored.heap_source(dataset.type, dataset.filters)
        strings = heap.read(0, info.n_categories) if heap is not None else None
        try:
            if strings is not None:
                return decode_strings(strings, kind, None)
            with stored.reading(dataset, 0, info.n_categories) as image:
                return decode(image, info.type, kind)
        except CorruptError as error:
            set_column(error, f"{self._column.name} (categories)")
            raise

    def _check_written(self, stored: Dataset, n_categories: int, size: int) -> None:
        """Refuse to read many categories that were never written: a file may claim any number of them."""
        n_written = stored.written_rows()
        if (n_categories - n_written) * max(size, 1) > MOST_UNWRITTEN_CATEGORIES:
            name = self._column.name
            raise UnsupportedError(
                f"column {name!r} claims {n_categories:,} categories, of which {n_written:,} were written",
                feature="categories of which most were never written",
                column=name,
            )


class CodedDecoder:
    """Decodes codes to a dictionary of the categories, or to the strings themselves if `kind` is a string type."""

    def __init__(self, column: ColumnInfo, kind: pa.DataType, categories: Categories) -> None:
        self._stored, self._fill, self._kind, self._categories = column.type, column.fill, kind, categories
        self._is_text = pa.types.is_string(kind)

    def array(self, raw: Raw) -> pa.Array:
        values = self._categories.values()
        if self._is_text and not values.null_count:
            return decode_coded_text(image_of(raw), values, self._fill)
        coded = _dictionary(decode_codes(image_of(raw), len(values), self._fill), values, self._kind)
        return coded.cast(pa.string()) if self._is_text else coded

    def numbers(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        return decode_code_numbers(image_of(raw), self._categories.info.n_categories, self._fill)

    def keys(self, raw: Raw) -> Keys:
        codes, missing = self.numbers(raw)
        return NumberKeys(codes, np.zeros(len(codes), dtype=bool) if missing is None else missing)

    def key_array(self, raw: Raw) -> pa.Array:
        image = image_of(raw)
        codes = decode_codes(image, self._categories.info.n_categories, self._fill)
        return codes.cast(pa.from_numpy_dtype(image.dtype))

    def values(self, keys: Keys) -> pa.Array:
        return values_of(keys, self._stored, self.array)

    def part(self, raw: Raw, begin: int, end: int) -> Raw:
        return part_of(raw, begin, end)


class TextDecoder(Generic[R]):
    """Decodes strings stored by categories whose keys are the strings and not the codes."""

    def __init__(self, coded: Decoder[R]) -> None:
        self._coded = coded

    def array(self, raw: R) -> pa.Array:
        return self._coded.array(raw)

    def numbers(self, raw: R) -> tuple[Numbers, Mask | None]:
        return self._coded.numbers(raw)

    def keys(self, raw: R) -> Keys:
        return ByteKeys(self.key_array(raw))

    def key_array(self, raw: R) -> pa.Array:
        return self._coded.array(raw).cast(pa.binary())

    def values(self, keys: Keys) -> pa.Array:
        assert isinstance(keys, ByteKeys)  # as returned by keys
        return keys.array.cast(pa.string())

    def part(self, raw: R, begin: int, end: int) -> R:
        return self._coded.part(raw, begin, end)


def strict_decoder(column: ColumnInfo, kind: pa.DataType, categories: Categories, codec: CodeCodec) -> CodecDecoder:
    """The decoder of codes that are missing only if they equal the fill, or of strings that must be categories."""
    stand_for = _codes if codec == "codes" else _codes_of_strings
    return CodecDecoder(
        column,
        lambda raw: stand_for(raw, column, categories),
        lambda codes, missing: _dictionary(_wide_codes(codes, missing), categories.values(), kind),
    )


def _codes(raw: Raw, column: ColumnInfo, categories: Categories) -> Standing:
    """Codes that are missing if they equal the fill, which may be any number, even a valid code."""
    image, n_categories = numbers_in(raw, column), categories.info.n_categories
    missing = missing_rows(image, column.type, column.fill)
    check_codes(image, n_categories, missing)
    return image, missing


def _codes_of_strings(raw: Raw, column: ColumnInfo, categories: Categories) -> Standing:
    """Strings that must each be one of the categories, or the fill."""
    strings = _strings_in(raw, column)
    codes = pc.index_in(strings, value_set=categories.values())
    missing = strings.is_null().to_numpy(zero_copy_only=False)
    unknown = codes.is_null().to_numpy(zero_copy_only=False) & ~missing
    if unknown.any():
        row = int(np.argmax(unknown))
        raise corrupt_row(row, "one of the categories", strings[row].as_py()[:MOST_SHOWN])
    return codes.fill_null(0).to_numpy().astype(np.int32, copy=False), any_of(missing)


def _strings_in(raw: Raw, column: ColumnInfo) -> pa.Array:
    stored, fill = column.type, _string_fill(column)
    if stored.kind not in ("string", "text"):
        raise FormatError(f"column {column.name!r} holds {stored}, which is not a string type", column=column.name)
    if isinstance(raw, Strings):
        return decode_strings(raw, pa.string(), fill)
    assert not isinstance(raw, Present)  # strings are not numbers
    return decode(raw, stored, pa.string(), fill)


def _string_fill(column: ColumnInfo) -> bytes | None:
    """The fill up to NUL, padded to the element size; None if there is no fill or no element can hold it."""
    if column.fill is None:
        return None
    text, stored = column.fill.split(b"\0")[0], column.type
    if stored.kind == "text":
        return text
    return text.ljust(stored.size, b"\0") if len(text) <= stored.size else None


def _wide_codes(codes: Numbers, missing: Mask | None) -> pa.Array:
    width = np.int64 if codes.dtype.itemsize > 4 else np.int32
    return code_array((codes if missing is None else np.where(missing, 0, codes)).astype(width), missing)


def _dictionary(codes: pa.Array, categories: pa.Array, kind: pa.DataType) -> pa.DictionaryArray:
    """Codes with their categories; rows whose category could not be decoded are missing."""
    if categories.null_count:
        present = categories.is_valid().to_numpy(zero_copy_only=False)
        codes = pa.array(np.cumsum(present, dtype=np.int32) - 1, mask=~present).take(codes)
        categories = categories.drop_null()
    return pa.DictionaryArray.from_arrays(codes, categories, ordered=kind.ordered)
