"""Read the rows of one column as Arrow arrays, one piece at a time.

A piece is a run of rows that ends at a chunk edge, so that no chunk is decoded twice and memory
use is bounded for a column of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from colonnade.columns.decode import (
    decode,
    decode_code_numbers,
    decode_coded_text,
    decode_codes,
    decode_numbers,
    decode_strings,
)
from colonnade.columns.key_images import keys_to_image
from colonnade.columns.keys import (
    ByteKeys,
    Keys,
    NumberKeys,
    Numbers,
    decimal_keys,
    domain_of,
    join,
    keys_of,
    keys_to_decimals,
)
from colonnade.columns.lookup import Places, TextLookup
from colonnade.columns.mapping import arrow_type, key_type, value_type
from colonnade.columns.missing import Mask, bits_of_fill
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.h5.chunks import ChunkSource, RowNumbers, by_chunk, open_source
from colonnade.h5.datasets import Image, describe_dataset, reading, stored_bytes, written_rows
from colonnade.h5.heap import HeapSource, Strings, open_heap
from colonnade.h5.references import follow_reference
from colonnade.model import ColumnInfo, StoredType
from colonnade.predicate.bound import Domain, Key
from colonnade.stored_dtypes import memory_dtype, raw_dtype

T = TypeVar("T")
PIECE_BYTES = 8 << 20
MOST_UNWRITTEN = 1 << 20  # bytes of categories that were never written
FARTHEST_APART = 64 << 20  # span in bytes of the requested rows of a chunk beyond which they are read one by one


class Present(NamedTuple):
    """Elements that were checked for the fill while they were read: none of them is missing."""

    image: Image


Raw = Image | Strings | Present
"""Rows as read: elements in memory form, or bytes of variable length."""


class ColumnReader:
    """Reads one column of an open file: its description, its dataset, and its categories once they are read.

    Several threads may read at the same time; `n_threads` is the largest number that is useful.
    """

    def __init__(self, column: ColumnInfo, dataset: Any, categories: Any = None, n_threads: int = 1) -> None:
        self.column = column
        self.kind = arrow_type(column)
        self._dataset = dataset
        self._categories_dataset = categories
        self._categories: pa.Array | None = None
        self._lenient: ColumnReader | None = None
        self._lookup: TextLookup | None = None
        self._source: ChunkSource | HeapSource | None = None
        if column.problem is None and column.storage in ("chunked", "contiguous"):
            self._source = open_heap(dataset, column.type, column.filters) or open_source(
                dataset, raw_dtype(column.type), column.filters, _look_for(column)
            )
        self.key_type = key_type(column)
        """The datatype of the keys, by which rows are compared."""
        self.has_numbers = domain_of(self.key_type) in ("integer", "float")
        """Whether the keys are native integers or floats."""
        self.n_threads = n_threads if self._source is not None else 1  # libhdf5 serves one thread at a time

    def read(self, start: int, count: int, step: int = 1) -> pa.Array:
        """`count` rows (start, start+step, ...) as one Arrow array."""
        return self._read_as(self._decode, start, count, step)

    def read_where_possible(self, start: int, count: int) -> pa.Array | pa.ChunkedArray:
        """`count` rows from `start`. Rows that cannot be decoded, or whose category cannot, are missing."""
        reader = self._with_readable_categories()
        if reader is not self:
            return reader.read_where_possible(start, count)
        try:
            return self.read(start, count)
        except CorruptError as error:
            if not isinstance(error.facts.get("row"), int):
                raise  # a chunk or the categories are damaged, not a single row
        parts: list[pa.Array] = []
        with self._raw(start, count) as raw:
            waiting = [(0, count)]  # bisect: halve each range that fails until only the bad rows are left
            while waiting:
                begin, end = waiting.pop()
                try:
                    parts.append(self._decode(self._part(raw, begin, end)))
                except CorruptError:
                    middle = (begin + end) // 2
                    if middle == begin:
                        parts.append(pa.nulls(1, self.kind))
                    else:
                        waiting += [(middle, end), (begin, middle)]
        found = pa.chunked_array(parts, self.kind)
        return found.unify_dictionaries() if pa.types.is_dictionary(self.kind) else found.combine_chunks()

    def _with_readable_categories(self) -> ColumnReader:
        """This reader, or if some categories cannot be decoded, a reader for which these are missing."""
        found, dataset = self.column.categories, self._categories_dataset
        if found is None or dataset is None or isinstance(dataset, pa.Array):
            return self
        try:
            self.categories()
        except CorruptError as error:
            if not isinstance(error.facts.get("row"), int):
                raise
        else:
            return self
        if self._lenient is None:
            info = describe_dataset(dataset)
            name = f"{self.column.name} (categories)"
            plain = ColumnInfo(name, info.type, found.n_categories, info.storage, info.chunk_rows, info.filters)
            plain = replace(plain, units=found.units, arrow_type=found.arrow_type)
            values = ColumnReader(plain, dataset).read_where_possible(0, found.n_categories)
            self._lenient = copy(self)
            self._lenient._categories = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        return self._lenient

    def _part(self, raw: Any, begin: int, end: int) -> Any:
        """A slice of the rows that were read."""
        if isinstance(raw, Present):
            return Present(raw.image[begin:end])
        if not isinstance(raw, Strings):
            return raw[begin:end]
        offsets = raw.offsets[begin : end + 1]
        return Strings(offsets - offsets[0], raw.data[int(offsets[0]) : int(offsets[-1])])

    def take(self, rows: RowNumbers) -> pa.Array:
        """These rows, given increasing and distinct; only the chunks that hold them are read."""
        raw = self._take_raw(rows)
        if raw is None:
            parts = self._parts(rows, self.read)
            return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        return self._told(self._decode, raw, lambda place: int(rows[place]))

    def keys(self, start: int, count: int) -> Keys:
        """The keys of these rows; only for columns that have a `domain`."""
        return self._read_as(self._decode_keys, start, count)

    def key(self, row: int) -> Key:
        """The key of one row, which must be neither missing nor NaN."""
        if self.has_numbers and isinstance(self._source, ChunkSource):
            image = self._source.take(np.array([row], dtype=np.int64))
            if image is not None:
                number: Key = image[0].item()
                return number
        return self.keys(row, 1).key(0)

    @property
    def is_open_to_rows(self) -> bool:
        """Whether the key of a row can be read without the rest of its chunk."""
        return self.has_numbers and isinstance(self._source, ChunkSource) and self._source.is_open_to_rows

    def keys_of_few(self, rows: RowNumbers) -> Numbers | None:
        """The keys of these rows, in any order and none missing; None if they cannot be read one by one."""
        return self._source.take_few(rows) if self.is_open_to_rows and isinstance(self._source, ChunkSource) else None

    def take_keys(self, rows: RowNumbers) -> Keys:
        """The keys of these rows, given increasing and distinct."""
        raw = self._take_raw(rows)
        if raw is None:
            return join(self._parts(rows, self.keys))
        return self._told(self._decode_keys, raw, lambda place: int(rows[place]))

    def numbers(self, start: int, count: int) -> tuple[Numbers, Mask | None]:
        """These rows as stored numbers, and a mask of missing rows (None if no row is missing). Needs `has_numbers`."""
        return self._read_as(self._decode_numbers, start, count)

    def take_numbers(self, rows: RowNumbers) -> tuple[Numbers, Mask | None]:
        """These rows, given increasing and distinct, as stored numbers, and a mask of missing rows or None."""
        if len(rows) and int(rows[-1]) - int(rows[0]) + 1 == len(rows):
            return self.numbers(int(rows[0]), len(rows))
        raw = self._take_raw(rows)
        if raw is None:
            keys = self.take_keys(rows)
            assert isinstance(keys, NumberKeys)  # by has_numbers
            return keys.values, keys.missing if keys.missing.any() else None
        return self._told(self._decode_numbers, raw, lambda place: int(rows[place]))

    def values(self, keys: Keys) -> pa.Array:
        """The values that these keys stand for, missing for missing keys."""
        places = np.flatnonzero(~keys.missing)
        present = keys.take(places)
        if self.is_decimal_text:
            assert isinstance(present, NumberKeys)  # as returned by decimal_keys
            array = pa.array(keys_to_decimals(present.values.tolist(), self.kind.scale), self.kind)
        else:
            image, _kept = keys_to_image(present, self.column.type)
            array = self._decode(image)
        if len(places) == len(keys):
            return array
        spread = np.zeros(len(keys), dtype=np.int64)
        spread[places] = np.arange(len(places))
        return array.take(pa.array(spread, mask=keys.missing))

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The range start to stop, split into runs of a few MiB that are read together."""
        return cut(start, stop, self.column.grid.chunk_rows, self.column.type)

    # -- rows as they are stored --

    def _read_as(self, decode: Callable[[Any], T], start: int, count: int, step: int = 1) -> T:
        """These rows, decoded by `decode`. Reads past libhdf5 (directly from the file) if possible."""
        raw = self._read_past(start, count) if step == 1 and self._is_at_hand else None
        if raw is not None:
            return self._told(decode, raw, lambda place: start + place)
        with (self._by_library if self._is_at_hand else self._raw)(start, count, step) as found:
            return self._told(decode, found, lambda place: start + place * step)

    @property
    def _is_at_hand(self) -> bool:
        """Whether rows read past libhdf5 are complete: nothing else, such as a mask, must be read with them."""
        return self.column.problem is None

    @contextmanager
    def _raw(self, start: int, count: int, step: int = 1) -> Iterator[Raw]:
        """These rows as read, past libhdf5 if possible."""
        raw = self._read_past(start, count) if step == 1 and self.column.problem is None else None
        if raw is not None:
            yield raw
            return
        with self._by_library(start, count, step) as image:
            yield image

    @contextmanager
    def _by_library(self, start: int, count: int, step: int = 1) -> Iterator[Raw]:
        column = self.column
        if column.problem is not None:
            raise FormatError(f"column {column.name!r} cannot be read: {column.problem}", column=column.name)
        with reading(self._dataset, column, start, count, step) as image:
            yield image

    def _read_past(self, start: int, count: int) -> Raw | None:
        """These rows, read past libhdf5; None if that is not possible."""
        if not isinstance(self._source, ChunkSource):
            return None if self._source is None else self._source.read(start, count)
        image, may_miss = self._source.read_and_look(start, count)
        return image if image is None or may_miss else Present(image)

    def _take_raw(self, rows: RowNumbers) -> Raw | None:
        """Scattered rows, read past libhdf5; None if that is not possible, or if the rows are contiguous."""
        if self._source is None or (len(rows) and int(rows[-1]) - int(rows[0]) + 1 == len(rows)):
            return None
        return self._source.take(rows)

    def _told(self, decode: Callable[[Any], T], raw: Any, row_of: Callable[[int], int]) -> T:
        """Decode rows. The row in a CorruptError, relative to `raw`, is converted to a row of the table."""
        try:
            return decode(raw)
        except CorruptError as error:
            if "column" in error.facts:  # the error is about the categories, whose rows are not these
                raise
            raise in_column(error, self.column.name, row_of) from error

    def _decode(self, raw: Raw) -> pa.Array:
        column = self.column
        if isinstance(raw, Present):
            return decode(raw.image, column.type, self.kind)
        if isinstance(raw, Strings):
            return decode_strings(raw, self.kind, column.fill)
        if column.categories is None:
            return decode(raw, column.type, self.kind, column.fill)
        categories = self.categories()
        if self.is_coded_text and not categories.null_count:
            return decode_coded_text(raw, categories, column.fill)
        found = self._coded(decode_codes(raw, len(categories), column.fill))
        return found.cast(pa.string()) if self.is_coded_text else found

    def _coded(self, codes: pa.Array) -> pa.DictionaryArray:
        """Codes with their categories; rows whose category could not be decoded are missing."""
        categories = self.categories()
        if categories.null_count:
            present = categories.is_valid().to_numpy(zero_copy_only=False)
            codes = pa.array(np.cumsum(present, dtype=np.int32) - 1, mask=~present).take(codes)
            categories = categories.drop_null()
        return pa.DictionaryArray.from_arrays(codes, categories, ordered=self.kind.ordered)

    def _decode_numbers(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        column = self.column
        if isinstance(raw, Present):
            return decode_numbers(raw.image, column.type, None)
        assert not isinstance(raw, Strings)  # by has_numbers
        if column.categories is not None:
            return decode_code_numbers(raw, column.categories.n_categories, column.fill)
        return decode_numbers(raw, column.type, column.fill)

    def _decode_keys(self, raw: Raw) -> Keys:
        if self.has_numbers and self.column.categories is not None and self.column.kept is None:
            codes, missing = self._decode_numbers(raw)
            return NumberKeys(codes, np.zeros(len(codes), dtype=bool) if missing is None else missing)
        array = self._key_array(raw)
        return decimal_keys(array) if pa.types.is_decimal(array.type) else keys_of(array)

    def _key_array(self, raw: Raw) -> pa.Array:
        column = self.column
        if isinstance(raw, Present):
            return decode(raw.image, column.type, pa.from_numpy_dtype(raw.image.dtype))
        if isinstance(raw, Strings):
            array = decode_strings(raw, self.kind, column.fill)
            return array if self.is_decimal_text else array.cast(pa.binary())
        if column.categories is not None:
            codes = decode_codes(raw, column.categories.n_categories, column.fill)
            return codes.cast(pa.from_numpy_dtype(raw.dtype))
        if column.type.kind in ("integer", "bitfield", "float"):
            return decode(raw, column.type, pa.from_numpy_dtype(raw.dtype), column.fill)
        array = decode(raw, column.type, self.kind, column.fill)
        if column.type.kind == "boolean":
            return array.cast(pa.int8())
        if column.type.kind == "enum":
            return pa.array(raw, mask=array.is_null().to_numpy(zero_copy_only=False))
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        return array if self.is_decimal_text else array.cast(pa.binary())

    @property
    def domain(self) -> Domain | None:
        """The kind of key of these rows; None if they cannot be compared."""
        return "integer" if self.is_decimal_text else domain_of(self.key_type)

    @property
    def is_decimal_text(self) -> bool:
        """Whether these are decimals stored as strings, because they have too many digits for an integer."""
        return bool(pa.types.is_decimal(self.kind)) and self.column.type.kind in ("string", "text")

    @property
    def is_coded(self) -> bool:
        """Whether rows are stored and compared as codes of categories or numbers of an enum."""
        return self.column.categories is not None or self.column.type.kind == "enum"

    @property
    def is_coded_text(self) -> bool:
        """Whether these are strings stored by categories."""
        return self.column.categories is not None and bool(pa.types.is_string(self.kind))

    def by_value(self) -> ColumnReader:
        """A reader of the same rows whose keys sort like the values; codes of strings stored by categories do not."""
        if not self.is_coded_text:
            return self
        return TextReader(self.column, self._dataset, self._categories_dataset, self.n_threads)

    @property
    def fill_number(self) -> int | None:
        """The number that marks a missing row of an enum."""
        fill = self.column.fill
        return None if fill is None else int(np.frombuffer(fill, dtype=memory_dtype(self.column.type))[0])

    @property
    def stored_bytes(self) -> int:
        """Bytes that the rows take in the file."""
        return stored_bytes(self._dataset)

    def written_rows(self) -> int:
        """The number of rows with storage in the file; the others are the fill. Visits every chunk."""
        return written_rows(self._dataset)

    def follow(self, row: int) -> Any | None:
        """The array, or the part of it, that the reference in a row points to; None for a null reference."""
        return follow_reference(self._dataset, row, self.column.name)

    def categories(self) -> pa.Array:
        """The categories of a categorical column, read once."""
        if self._categories is None:
            found = self.column.categories
            if found is None or self._categories_dataset is None:
                raise FormatError(f"column {self.column.name!r} has no categories", column=self.column.name)
            if isinstance(self._categories_dataset, pa.Array):
                self._categories = _given_categories(self.column, self._categories_dataset)
                return self._categories
            info = describe_dataset(self._categories_dataset)
            self._check_written(found.n_categories, info.type.size)
            kind = value_type(found.type, found.units, found.arrow_type)
            heap = open_heap(self._categories_dataset, info.type, info.filters)
            strings = heap.read(0, found.n_categories) if heap is not None else None
            try:
                if strings is not None:
                    self._categories = decode_strings(strings, kind, None)
                    return self._categories
                with reading(self._categories_dataset, info, 0, found.n_categories) as image:
                    self._categories = decode(image, found.type, kind)
            except CorruptError as error:
                raise in_column(error, f"{self.column.name} (categories)", lambda place: place) from error
        return self._categories

    def _check_written(self, n_categories: int, size: int) -> None:
        """Refuse to read many categories that were never written: a file may claim any number of them."""
        n_written = written_rows(self._categories_dataset)
        if (n_categories - n_written) * max(size, 1) > MOST_UNWRITTEN:
            name = self.column.name
            raise UnsupportedError(
                f"column {name!r} claims {n_categories:,} categories, of which {n_written:,} were written",
                feature="categories of which most were never written",
                column=name,
            )

    def codes_of(self, text: bytes) -> Places:
        """The codes of the categories that equal this string."""
        if self._lookup is None:
            self._lookup = TextLookup(self.categories())
        return self._lookup.places(text)

    def _parts(self, rows: RowNumbers, read: Callable[[int, int], Any]) -> list[Any]:
        """The results of `read`, one or more per chunk that holds some of the rows."""
        if len(rows) == 0:
            return [read(0, 0)]
        parts = []
        for _, begin, end in by_chunk(rows, self.column.grid.chunk_rows):
            group = rows[begin:end]
            first, last = int(group[0]), int(group[-1])
            if last - first + 1 == len(group):
                parts.append(read(first, len(group)))
            elif (last - first + 1) * self.column.type.size > FARTHEST_APART:
                parts.extend(read(row, 1) for row in group.tolist())
            else:
                parts.append(read(first, last - first + 1).take(group - first))
        return parts


class TextReader(ColumnReader):
    """Strings stored by categories, compared as strings and not by their codes."""

    def __init__(self, column: ColumnInfo, dataset: Any, categories: Any = None, n_threads: int = 1) -> None:
        super().__init__(column, dataset, categories, n_threads)
        self.has_numbers = False

    def _key_array(self, raw: Raw) -> pa.Array:
        return self._decode(raw).cast(pa.binary())

    def values(self, keys: Keys) -> pa.Array:
        assert isinstance(keys, ByteKeys)  # as returned by _key_array
        return keys.array.cast(pa.string())

    @property
    def domain(self) -> Domain | None:
        return "bytes"


def _look_for(column: ColumnInfo) -> bytes | None:
    """The stored bytes of the fill of a numeric column, to search for while rows are read."""
    if column.categories is not None or column.kept is not None or column.fill is None:
        return None
    return bits_of_fill(column.type, column.fill, raw_dtype(column.type))


def cut(start: int, stop: int, chunk_rows: int, stored: StoredType) -> Iterator[tuple[int, int]]:
    """The range start to stop, split into runs of a few MiB that end at chunk edges."""
    wanted = max(1, PIECE_BYTES // max(stored.size, 1))
    run = max(1, wanted // chunk_rows) * chunk_rows if chunk_rows <= wanted else wanted
    while start < stop:
        edge = (start // run + 1) * run
        yield start, min(edge, stop)
        start = edge


def _given_categories(column: ColumnInfo, values: pa.Array) -> pa.Array:
    """Categories from outside the file, checked against the number and type that the file declares."""
    found = column.categories
    assert found is not None  # only categoricals get here
    kind = value_type(found.type, found.units, found.arrow_type)
    n_given = len(values) - values.null_count
    if n_given != found.n_categories or values.null_count:
        raise FormatError(
            f"column {column.name!r} has {found.n_categories} categories, but {n_given} were given", column=column.name
        )
    try:
        return values.cast(kind)
    except pa.ArrowException as error:
        name = column.name
        raise FormatError(f"column {name!r}: its categories are not {kind}: {error}", column=name) from error


def in_column(error: CorruptError, name: str, row_of: Callable[[int], int]) -> CorruptError:
    """The error with the column's name added and the row number converted to a row of the table."""
    within = error.facts.get("row")
    if not isinstance(within, int):
        return CorruptError(f"column {name!r}: {error.message}", **{**error.facts, "column": name})
    row = row_of(within)
    facts = {**error.facts, "row": row, "column": name}
    found, expected = error.facts.get("found"), error.facts.get("expected")
    message = f"column {name!r}, row {row}: found {found!r}, expected {expected}"
    if name.endswith(" (categories)"):
        message += ". column.to_arrow(errors='missing') reads rows of this category as missing"
    else:
        message += (
            f". column.to_arrow(errors='missing') reads such cells as missing, column.raw[{row}] as they are stored"
        )
    return CorruptError(message, **facts)
