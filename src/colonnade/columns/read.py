"""Read the rows of one column as Arrow arrays, one piece at a time: fetch them, then decode them.

A piece is a run of rows that ends at a chunk edge, so that no chunk is decoded twice and memory
use is bounded for a column of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, cast

import numpy as np
import pyarrow as pa

from colonnade.columns.coded import Categories, CodedDecoder, TextDecoder, strict_decoder
from colonnade.columns.keys import Keys, NumberKeys, Numbers, domain_of, join
from colonnade.columns.mapping import arrow_type, key_type
from colonnade.columns.missing import Mask
from colonnade.columns.plain import PlainDecoder, codec_decoder
from colonnade.columns.raw import (
    Companion,
    Companions,
    DatasetFetcher,
    Decoder,
    Fetcher,
    Raw,
    fetched,
    is_sectioned,
    parts_of,
    set_column,
)
from colonnade.columns.strings import Places
from colonnade.dataclass import replace
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.model import Coded, ColumnInfo, Form, Lists, Masked, Member, Plain, Pointers, Sectioned, Slabs
from colonnade.nodes import Dataset
from colonnade.nodes.chunk_source import ChunkSource
from colonnade.nodes.elements import claims_too_much, dataset_column
from colonnade.predicate.bound import Domain, Key
from colonnade.selection import RowNumbers
from colonnade.stored_dtypes import memory_dtype

if TYPE_CHECKING:
    from colonnade.arrays import Octets
    from colonnade.columns.lists import ListsFetcher
    from colonnade.columns.members import MemberFetcher, MemberNumbers
    from colonnade.sparse.rows import SparseRows

R = TypeVar("R")
T = TypeVar("T")
MOST_CLAIMED_READ = 4 << 30  # bytes of rows that are gone through whatever is stored of them


class _Stored(NamedTuple):
    """What a column is read from: its dataset, its companion, and how many threads may read it."""

    dataset: Dataset | SparseRows | None  # None for a computed column
    companion: Companion | Companions | Categories
    categories: Categories
    n_threads: int

    @property
    def own(self) -> Companion:
        """The companion of the outermost form."""
        own = self.companion.own if isinstance(self.companion, Companions) else self.companion
        return None if isinstance(own, Categories) else own

    @property
    def inner(self) -> Companion | Companions:
        """The companion of the form inside it."""
        return self.companion.inner if isinstance(self.companion, Companions) else None

    @property
    def as_dataset(self) -> Dataset:
        """The dataset of a column that is not sectioned."""
        assert self.dataset is not None and not is_sectioned(self.dataset)  # by its form
        return self.dataset

    def rows(self, column: ColumnInfo) -> DatasetFetcher:
        return DatasetFetcher(column, self.as_dataset, self.n_threads)


class ColumnReader:
    """Reads one column of an open file: its description, its dataset, and its companion dataset if it has one.

    The companion holds the categories, the mask or the heap; categories may also be an Arrow array. Several threads
    may read at the same time; `n_threads` is the largest number that is useful.
    """

    def __init__(
        self,
        column: ColumnInfo,
        dataset: Dataset | SparseRows,
        companion: Companion | Companions | Categories = None,
        n_threads: int = 1,
    ) -> None:
        stored = _Stored(dataset, companion, Categories.of(column, companion), n_threads)
        self._set(column, stored, _opened(column.form, column, stored))

    @classmethod
    def computed(cls, column: ColumnInfo, opened: AnyOpened, sources: Sequence[ColumnReader]) -> ColumnReader:
        """A reader of a column that is not stored, but computed from what others read."""
        reader = cls.__new__(cls)
        reader._set(column, _Stored(None, None, Categories.of(column, None), 1), opened)
        reader.sources = tuple(sources)
        return reader

    def _set(self, column: ColumnInfo, stored: _Stored, opened: AnyOpened) -> None:
        self.column = column
        self.kind = arrow_type(column)
        self.key_type = key_type(column)
        """The datatype of the keys, by which rows are compared."""
        self.has_numbers = domain_of(self.key_type) in ("integer", "float")
        """Whether the keys are native integers or floats."""
        self.is_by_value = False
        """Whether the keys of strings stored by categories are the strings, and not the codes."""
        self.sources: tuple[ColumnReader, ...] = ()
        """The readers of the columns that it is computed from; none for a stored column."""
        self._stored = stored
        self._fetcher, self._decoder = opened
        is_part = isinstance(column.form, Member)
        self.members = cast("MemberFetcher", self._fetcher) if is_part else None
        """What fetches elements that the column is a part of; None for a column with rows of its own."""
        self.n_threads = self._fetcher.n_threads
        self._numbers = self._stored_numbers() if self.has_numbers and column.encoding is None else None
        self._lenient: ColumnReader | None = None

    def _stored_numbers(self) -> ChunkSource | MemberNumbers | None:
        """What reads few keys at a time, where they are stored as they are."""
        if self.members is not None:
            return None if self.column.problem is not None else self.members.numbers
        source = self._fetcher.source
        return source if isinstance(source, ChunkSource) else None

    def read(self, start: int, count: int, step: int = 1) -> pa.Array:
        """`count` rows (start, start+step, ...) as one Arrow array."""
        return self._read_as(self._decoder.array, start, count, step)

    def read_where_possible(self, start: int, count: int) -> pa.Array | pa.ChunkedArray:
        """`count` rows from `start`. Rows that cannot be decoded, or whose category cannot, are missing."""
        reader = self._with_readable_categories()
        if reader is not self:
            return reader.read_where_possible(start, count)
        try:
            return self.read(start, count)
        except CorruptError as error:
            if error.row is None:
                raise  # a chunk or the categories are damaged, not a single row
        parts: list[pa.Array] = []
        with fetched(self._fetcher, start, count) as raw:
            waiting = [(0, count)]  # bisect: halve each range that fails until only the bad rows are left
            while waiting:
                begin, end = waiting.pop()
                try:
                    parts.append(self._decoder.array(self._decoder.part(raw, begin, end)))
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
        found, dataset = self.column.categories, self._stored.categories.stored
        if found is None or dataset is None or isinstance(dataset, pa.Array):
            return self
        try:
            self.categories()
        except CorruptError as error:
            if error.row is None:
                raise
        else:
            return self
        if self._lenient is None:
            assert self._stored.dataset is not None  # it has categories
            info = dataset.describe()
            name = f"{self.column.name} (categories)"
            plain = dataset_column(name, info, found.n_categories)
            plain = replace(plain, units=found.units, arrow_type=found.arrow_type)
            values = ColumnReader(plain, dataset).read_where_possible(0, found.n_categories)
            values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
            known = Categories(self.column, dataset, values)
            self._lenient = ColumnReader(self.column, self._stored.dataset, known, self._stored.n_threads)
        return self._lenient

    def take(self, rows: RowNumbers) -> pa.Array:
        """These rows, given increasing and distinct; only the chunks that hold them are read."""
        raw = self._fetcher.take(rows)
        if raw is None:
            parts = parts_of(self.column, rows, self.read)
            return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        return self._decoded(self._decoder.array, raw, lambda place: int(rows[place]))

    @property
    def dataset_address(self) -> int | None:
        """What tells the dataset that the column is a part of from others; None for a column with rows of its own."""
        return None if self.members is None or self.column.problem is not None else self.members.address

    def part_of(self, elements: Octets | None, row_of: Callable[[int], int]) -> pa.Array | None:
        """The column's part of these elements; None where it must be read by itself."""
        if elements is None or self.members is None or not self.members.is_cut:
            return None
        raw = self.members.of_elements(elements)
        return None if raw is None else self._decoded(self._decoder.array, cast("Fetched", raw), row_of)

    def keys(self, start: int, count: int) -> Keys:
        """The keys of these rows; only for columns that have a `domain`."""
        return self._read_as(self._decoder.keys, start, count)

    def keys_at(self, rows: RowNumbers) -> list[Key]:
        """The keys of these few rows, in any order; none may be missing or NaN."""
        image = None
        if self._numbers is not None:
            image = self._numbers.take(rows) if len(rows) == 1 else self._numbers.take_few(rows)
        if image is not None:
            keys: list[Key] = image.tolist()
            return keys
        if len(rows) == 1:
            return [self.keys(int(rows[0]), 1).key(0)]
        return [key for at in range(len(rows)) for key in self.keys_at(rows[at : at + 1])]

    @property
    def lists(self) -> ListsFetcher | None:
        """The offsets of a column of lists; None for another column."""
        if not isinstance(self.column.row_form, Lists) or self.column.problem is not None:
            return None
        return cast("ListsFetcher", getattr(self._fetcher, "rows", self._fetcher))

    def list_lengths(self) -> AnyOpened | None:
        """How the lengths of the lists are read, as integers, without their elements; None for another column."""
        form = self.column.row_form
        if self.lists is None or not isinstance(form, Lists) or form.as_text or self.sources:
            return None
        from colonnade.columns.lists import LengthsDecoder
        from colonnade.columns.masked import MaskedDecoder

        lengths = LengthsDecoder(self.lists.elements.column.n_rows)
        is_masked = isinstance(self.column.form, Masked)
        decoder = cast("Decoder[Fetched]", MaskedDecoder(lengths) if is_masked else lengths)
        return Opened(self._fetcher, decoder)

    @property
    def is_open_to_rows(self) -> bool:
        """Whether the key of a row can be read without the rest of its chunk."""
        return self._numbers is not None and self._numbers.is_open_to_rows

    @property
    def unpacks_whole_chunks(self) -> bool:
        """Whether keys are stored as they are, but reading one unpacks its whole chunk."""
        return self._numbers is not None and self._numbers.unpacks_whole_chunks

    def unchecked_keys(self, start: int, count: int) -> Numbers | None:
        """The keys of these rows if they are stored as they are, else None. That of a missing row means nothing."""
        return None if self._numbers is None else self._numbers.read(start, count)

    def take_keys(self, rows: RowNumbers) -> Keys:
        """The keys of these rows, given increasing and distinct."""
        raw = self._fetcher.take(rows)
        if raw is None:
            return join(parts_of(self.column, rows, self.keys))
        return self._decoded(self._decoder.keys, raw, lambda place: int(rows[place]))

    def numbers(self, start: int, count: int) -> tuple[Numbers, Mask | None]:
        """These rows as stored numbers, and a mask of missing rows (None if no row is missing). Needs `has_numbers`."""
        return self._read_as(self._decoder.numbers, start, count)

    def take_numbers(self, rows: RowNumbers) -> tuple[Numbers, Mask | None]:
        """These rows, given increasing and distinct, as stored numbers, and a mask of missing rows or None."""
        if len(rows) and int(rows[-1]) - int(rows[0]) + 1 == len(rows):
            return self.numbers(int(rows[0]), len(rows))
        raw = self._fetcher.take(rows)
        if raw is None:
            keys = self.take_keys(rows)
            assert isinstance(keys, NumberKeys)  # by has_numbers
            return keys.values, keys.missing if keys.missing.any() else None
        return self._decoded(self._decoder.numbers, raw, lambda place: int(rows[place]))

    def values(self, keys: Keys) -> pa.Array:
        """The values that these keys stand for, missing for missing keys."""
        return self._decoder.values(keys)

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The range start to stop, split into runs of a few MiB that are read together."""
        return self._fetcher.pieces(start, stop)

    def _read_as(self, decode: Callable[[Fetched], T], start: int, count: int, step: int = 1) -> T:
        """These rows, decoded by `decode`. Reads past libhdf5 (directly from the file) if possible."""
        raw = self._fetcher.fetch(start, count) if step == 1 else None
        if raw is not None:
            return self._decoded(decode, raw, lambda place: start + place)
        with self._fetcher.by_library(start, count, step) as rows:
            return self._decoded(decode, rows, lambda place: start + place * step)

    def _decoded(self, decode: Callable[[R], T], raw: R, row_of: Callable[[int], int]) -> T:
        """Decode rows. The row in a CorruptError, relative to `raw`, is converted to a row of the table."""
        try:
            return decode(raw)
        except CorruptError as error:
            if error.column is None:  # otherwise the error is about the categories, whose rows are not these
                set_column(error, self.column.name, row_of)
            raise

    @property
    def domain(self) -> Domain | None:
        """The kind of key of these rows; None if they cannot be compared."""
        if self.is_by_value:
            return "bytes"
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

    def with_rows(self, n_rows: int, opened: AnyOpened) -> ColumnReader:
        """A reader of rows that are made from those of this column: as many, and read as given."""
        reader = copy(self)
        reader.column = replace(self.column, n_rows=n_rows, storage="virtual", form=self.column.form)
        reader._fetcher, reader._decoder = opened
        reader.sources, reader.n_threads = self.sources or (self,), opened.fetcher.n_threads
        reader.members, reader._numbers, reader._lenient = None, None, None
        return reader

    def by_value(self) -> ColumnReader:
        """A reader of the same rows whose keys sort like the values; codes of strings stored by categories do not."""
        if not self.is_coded_text:
            return self
        reader = copy(self)
        reader._decoder = TextDecoder(self._decoder)
        reader.has_numbers, reader.is_by_value, reader._numbers = False, True, None
        return reader

    @property
    def fill_number(self) -> int | None:
        """The number that marks a missing row of an enum."""
        fill = self.column.fill
        return None if fill is None else int(np.frombuffer(fill, dtype=memory_dtype(self.column.type))[0])

    @property
    def stored_bytes(self) -> int:
        """Bytes that the rows take in the file."""
        return self._fetcher.stored_bytes

    def check_written(self, n_rows: int) -> None:
        """Refuse to go through rows of which most were never written: a file of any size may claim any number."""
        claimed = n_rows * self.column.type.size
        is_here = self.column.storage in ("compact", "contiguous", "chunked")
        if is_here and claimed > MOST_CLAIMED_READ and claims_too_much(claimed, self.stored_bytes):
            raise UnsupportedError(
                f"column {self.column.name!r} claims {self.column.n_rows:,} rows, most of which were never written: "
                "they are not read. Take fewer",
                feature="columns of which most was never written",
                path=self.column.name,
            )

    def written_rows(self) -> int:
        """The number of rows with storage in the file; the others are the fill. Visits every chunk."""
        return self._fetcher.written_rows()

    def categories(self) -> pa.Array:
        """The categories of a categorical column, read once."""
        return self._stored.categories.values()

    def codes_of(self, text: bytes) -> Places:
        """The codes of the categories that equal this string."""
        return self._stored.categories.codes_of(text, self.categories())


def read_together(readers: Sequence[ColumnReader], start: int, count: int) -> list[pa.Array]:
    """These rows of columns of one `dataset_address`: what they are parts of is fetched once."""
    elements = _first_elements(readers, lambda fetcher: fetcher.elements(start, count))
    parts = [reader.part_of(elements, lambda position: start + position) for reader in readers]
    return [reader.read(start, count) if part is None else part for reader, part in zip(readers, parts, strict=True)]


def take_together(readers: Sequence[ColumnReader], rows: RowNumbers) -> list[pa.Array]:
    """These rows, given increasing and distinct, of columns of one `dataset_address`."""
    elements = _first_elements(readers, lambda fetcher: fetcher.taken_elements(rows))
    parts = [reader.part_of(elements, lambda position: int(rows[position])) for reader in readers]
    return [reader.take(rows) if part is None else part for reader, part in zip(readers, parts, strict=True)]


def _first_elements(readers: Sequence[ColumnReader], fetch: Callable[[MemberFetcher], Octets | None]) -> Octets | None:
    """What the first reader that can fetches; None if none can."""
    fetched_by = (fetch(reader.members) for reader in readers if reader.members is not None)
    return next((elements for elements in fetched_by if elements is not None), None)


class Opened(NamedTuple, Generic[R]):
    """How the rows of a form are read: what the fetcher gives is what the decoder takes."""

    fetcher: Fetcher[R]
    decoder: Decoder[R]


class Fetched:
    """What a fetcher gives its decoder; nobody else looks into it."""


AnyOpened = Opened[Fetched]


def opaque(fetcher: Fetcher[R], decoder: Decoder[R]) -> AnyOpened:
    """How the rows of any form are read."""
    return cast("AnyOpened", Opened(fetcher, decoder))


def _row_decoder(form: Plain | Coded, column: ColumnInfo, categories: Categories) -> Decoder[Raw]:
    """The decoder of rows that are elements of one dataset."""
    kind = arrow_type(column)
    if isinstance(form, Plain):
        return PlainDecoder(column, kind) if form.codec is None else codec_decoder(column, kind, form.codec)
    if form.codec is None:
        return CodedDecoder(column, kind, categories)
    return strict_decoder(column, kind, categories, form.codec)


def _opened(form: Form, column: ColumnInfo, stored: _Stored) -> AnyOpened:
    """The fetcher and the decoder of a form: one case per form. What few columns need is imported late."""
    kind = arrow_type(column)
    match form:
        case Plain() | Coded():
            return opaque(stored.rows(column), _row_decoder(form, column, stored.categories))
        case Masked(of) if column.problem is not None:  # nothing can be read, so the mask is not opened
            return _opened(of, column, stored)
        case Masked(of, _):
            from colonnade.columns.masked import MaskedDecoder, MaskedFetcher

            inner = _opened(of, column, stored._replace(companion=stored.inner))
            return opaque(MaskedFetcher(column, inner.fetcher, stored.own), MaskedDecoder(inner.decoder))
        case Sectioned(of):
            from colonnade.columns.masked import MaskedDecoder
            from colonnade.columns.sectioned import SectionedFetcher

            assert (
                stored.dataset is not None and is_sectioned(stored.dataset) and isinstance(of, (Plain, Coded))
            )  # as the layout opened it
            fetcher = SectionedFetcher(column, stored.dataset, stored.n_threads)
            return opaque(fetcher, MaskedDecoder(_row_decoder(of, column, stored.categories)))
        case Member(_, of):
            from colonnade.columns.members import MemberFetcher

            parts = MemberFetcher(column, form, stored.as_dataset, stored.n_threads)
            return opaque(parts, _row_decoder(of, column, stored.categories))
        case Pointers():
            from colonnade.columns.pointers import PointerDecoder, PointerFetcher, PointerHeap

            heap = PointerHeap(column, stored.own)
            return opaque(PointerFetcher(stored.rows(column), heap), PointerDecoder(column, kind, heap))
        case Slabs():
            from colonnade.columns.lists import SlabDecoder, SlabFetcher

            return opaque(SlabFetcher(column, stored.as_dataset), SlabDecoder(column, kind))
        case Lists() if column.problem is not None:  # nothing can be read, so the elements are not opened
            return opaque(stored.rows(column), PlainDecoder(column, kind))
        case Lists(items, as_text):
            from colonnade.columns.lists import ListsDecoder, ListsFetcher, TextsDecoder, offsets_column

            offsets = ColumnReader(offsets_column(column, stored.as_dataset), stored.as_dataset, None, stored.n_threads)
            elements = stored.own
            assert elements is not None and not isinstance(elements, pa.Array)  # they are in the file
            values = ColumnReader(items, elements, stored.inner)
            decoder = TextsDecoder if as_text else ListsDecoder
            return opaque(ListsFetcher(column, offsets, values), decoder(kind, values))
