"""Choose how values are stored: datatype, width, fill, filters, and the categories with their codes.

A form is chosen from the rows seen so far and checked again for each later batch: `suit_datatype`
returns the same form if it still holds every value, or else the form that must replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import kernels, writing
from colonnade.arrays import Image, Int32s, UInt64s
from colonnade.columns.arrow_types import plain_array, present_values, python_values
from colonnade.columns.encode import ElementForm, encode, encode_one
from colonnade.columns.mapping import (
    BINARY,
    BOOLEAN_WITH_MISSING,
    TEXT,
    implied_units,
    plain_type,
    stored_codes,
    stored_enum,
    stored_string,
    stored_type,
)
from colonnade.columns.missing import find_missing, recommended_fills
from colonnade.columns.strings import byte_lengths, holds_nul, string_buffers
from colonnade.dataclass import dataclass, replace
from colonnade.errors import DataError, UsageError
from colonnade.filters.apply import trial_size
from colonnade.model import AUTO, ColumnInfo, ColumnOptions, StoredType, shown_name
from colonnade.nodes import EditableDataset, EditableGroup
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.elements import default_chunk_rows
from colonnade.selection import RowNumbers
from colonnade.stored_dtypes import memory_dtype

MISSING_CODE = -1
WIDEST_AUTO_STRING = 4096
POINTER_COST = 40  # bytes that HDF5 spends on a variable-length string in addition to its data


def first_form(kind: pa.DataType, name: str) -> ElementForm:
    """The form chosen by type alone; raises for a type that cannot be stored."""
    return ElementForm(stored_type(kind, f"column {name!r}"), kind)


def _enum_names(categories: list[str], name: str) -> list[str]:
    """The categories as member names of an HDF5 enum; raises for a name that HDF5 cannot store."""
    booleans = set(categories) <= {"FALSE", "TRUE"}
    for category in categories:
        if not category or "\0" in category or category == "MISSING" or booleans:
            raise DataError(
                f"the category {category!r} cannot be a member of an HDF5 enum (it is empty, holds "
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


@dataclass(frozen=True)
class Marking:
    """How a layout marks missing rows and stores codes.

    fills: candidate fills of a datatype, the best first. is_attribute: an attribute holds the fill, not HDF5's fill
    value, so it is chosen when the first missing row arrives. code_form: the form for the codes of categories, given
    whether they are an enum, whether a row is missing, and the column's name. nullable: the datatype of booleans of
    which some are missing. is_everywhere: whether columns without missing rows have a fill too, strings of variable
    length included.
    """

    fills: Callable[[StoredType], Iterator[bytes]] = recommended_fills
    is_attribute: bool = False
    code_form: Callable[[pa.Array, bool, bool, str], ElementForm] = categorical_form
    nullable: StoredType = BOOLEAN_WITH_MISSING
    is_everywhere: bool = False


def missing_code(stored: StoredType) -> bytes:
    """The code that marks a missing row, -1, in this signed datatype."""
    return np.array(MISSING_CODE, dtype=memory_dtype(stored)).tobytes()


def holds_codes(stored: StoredType, n_categories: int) -> bool:
    """Whether this datatype can hold the codes of `n_categories` categories, and -1 for missing."""
    return stored.kind == "integer" and stored.signed and n_categories <= 1 << (min(stored.precision, 64) - 1)


def suit_datatype(
    form: ElementForm,
    values: pa.Array,
    options: ColumnOptions,
    name: str,
    first: bool,
    more: bool,
    nullable: StoredType = BOOLEAN_WITH_MISSING,
) -> ElementForm:
    """The form, with its datatype changed if necessary to hold these values too.

    The `first` rows decide between fixed and variable length. If `more` rows may follow, some room is left. `nullable`:
    the datatype of booleans of which some are missing.
    """
    if pa.types.is_boolean(form.kind):
        if values.null_count and len(form.stored.members) == 2:
            return replace(form, stored=nullable, fill=next(iter(recommended_fills(nullable))))
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
        f"the text holds NUL, which ends an HDF5 string. Leave strings={options.strings!r} "
        "out (the column is then stored as bytes and reads back as text), or store it as binary.",
        column=name,
        row=row,
        value=values[row].as_py(),
    )


def occurs(fill: bytes, values: pa.Array, form: ElementForm, name: str) -> np.ndarray:
    """A mask of the values that equal the fill; none of `values` may be missing."""
    if pa.types.is_string(form.kind):
        text = fill.rstrip(b"\0").decode("utf-8", "replace")
        if not text:
            return np.asarray(byte_lengths(values) == 0)
        wanted = pa.scalar(text)
        found: np.ndarray = pc.equal(values, wanted).to_numpy(zero_copy_only=False)
        return found
    encoded = encode(values, form.stored, None, name)
    return find_missing(encoded.image, form.values_type, fill)


def refuse_fill_among(form: ElementForm, values: pa.Array, name: str) -> None:
    """Raise if one of the values equals the fill, unless that is NaN, which marks every NaN as missing."""
    if form.fill is None or is_nan(form.fill, form):
        return
    present = present_values(values)
    equal = occurs(form.fill, present, form, name)
    if not equal.any():
        return
    rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    row = int(rows[np.argmax(equal)])
    value = python_values(present.slice(int(np.argmax(equal)), 1))[0]
    raise DataError(
        f"the value {value!r} is the column's fill, so it would read as missing: choose a fill that does not occur",
        column=name,
        row=row,
        value=value,
    )


def fills_that_do_not_occur(
    form: ElementForm, values: pa.Array, candidates: Iterable[bytes], name: str
) -> Iterator[bytes]:
    """The candidates that equal none of the values, in order, computed lazily."""
    present = present_values(values)
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
    plan: writing.DatasetPlan, image: Image, count: int, are_codes: bool = False, is_portable: bool = False
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


def _tried(plan: writing.DatasetPlan, text: str, image: Image, count: int) -> float:
    """The size in bytes of these rows with these filters, estimated from the first rows where those are enough."""
    some = count if text == "scale-offset" else min(count, MOST_TRIED)
    return trial_size(text, plan.type, plan.fill, image[:some]) * count / max(some, 1)


def checked_units(kind: pa.DataType, asked: str | None, name: str) -> str | None:
    """The units of a column. Temporal types imply their units; requesting others raises a UsageError."""
    implied = implied_units(kind)
    if implied is not None and asked is not None and asked != implied:
        raise UsageError(
            f"column {name!r} of type {kind} is stored in {implied!r}: leave out units={asked!r}, "
            "or cast the column to an integer",
            column=name,
        )
    return implied or asked


def names_and_numbers(column: ColumnInfo) -> tuple[pa.Array, pa.Array | None]:
    """The names of an enum sorted by number, and the numbers; None if these count from 0, so that the enum can grow.

    The member that equals the fill marks missing rows and is left out.
    """
    mark = None if column.fill is None else int(np.frombuffer(column.fill, dtype=memory_dtype(column.type))[0])
    members = sorted((value, name) for name, value in column.type.members if value != mark)
    names = pa.array([shown_name(name) for _, name in members], pa.string())
    if [value for value, _ in members] == list(range(len(members))):
        return names, None
    return names, pa.array([value for value, _ in members], pa.from_numpy_dtype(memory_dtype(column.type)))


# -- Categories that grow as batches arrive, the codes of each batch, and the dataset that holds the categories --


Codes = Int32s
Slots = UInt64s


class CategoryCoder:
    """The categories seen so far. `fixed` categories may not grow; `whose` describes them in error messages."""

    def __init__(self, values: pa.Array, ordered: bool, fixed: bool, name: str, whose: str = "") -> None:
        self.values = values
        self.ordered = ordered
        self._fixed = fixed
        self._name = name
        self._whose = whose or "the categories given"
        self._last: tuple[pa.Array, pa.Array] | None = None
        self._slots: Slots = np.zeros(0, dtype=np.uint64)
        self._n_slotted = 0  # categories already in the slots

    def encode(self, array: pa.Array, first_row: int) -> pa.Array:
        """The codes (int64, null for missing rows) of an array of values or of dictionary values."""
        if not pa.types.is_dictionary(array.type):
            array = plain_array(array, plain_type(array.type))
            codes = self._encode_text(array) if self._may_grow and pa.types.is_string(array.type) else None
            if codes is not None:
                return codes
            array = array.dictionary_encode()
        translation = self._translate(array.dictionary, array, first_row)
        return translation.take(array.indices)

    @property
    def _may_grow(self) -> bool:
        return not self._fixed and not self.ordered and bool(pa.types.is_string(self.values.type))

    def _encode_text(self, array: pa.Array) -> pa.Array | None:
        """The codes of strings, from a hash table that grows with the categories; None if some categories are equal."""
        n_slots = 2 * (len(self.values) + len(array))
        if self._n_slotted != len(self.values) or len(self._slots) <= n_slots:
            self._slots = np.zeros(1 << n_slots.bit_length(), dtype=np.uint64)
            self._n_slotted = len(self._code(self.values.slice(0, 0), self.values)[1])
            if self._n_slotted != len(self.values):
                return None
        codes, fresh = self._code(self.values, array)
        if len(fresh):
            self.values = pa.concat_arrays([self.values, array.take(pa.array(fresh))])
            self._n_slotted += len(fresh)
        return pa.array(codes.astype(np.int64), mask=codes < 0 if array.null_count else None)

    def _code(self, known: pa.Array, array: pa.Array) -> tuple[Codes, RowNumbers]:
        """The code of each string, known or new, and the first row of each new string."""
        codes, fresh = np.empty(len(array), dtype=np.int32), np.empty(len(array), dtype=np.int64)
        missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        known_parts, parts = string_buffers(known), string_buffers(array)
        n_new = kernels.code_strings(*known_parts, *parts, missing, self._slots, codes, fresh)
        return codes, fresh[:n_new]

    def _translate(self, dictionary: pa.Array, array: pa.Array, first_row: int) -> pa.Array:
        """The code of each entry of a batch's dictionary; new categories are added at the end."""
        if self._last is not None and _is_same(self._last[0], dictionary):
            return self._last[1]
        wanted = dictionary.cast(self.values.type)
        codes = self._look_up(wanted)
        fresh = pc.and_(pc.is_null(codes), pc.is_valid(wanted))
        if pc.any(fresh).as_py():
            self._grow(pc.unique(wanted.filter(fresh)), wanted, array, first_row)
            codes = self._look_up(wanted)
        if not pc.any(pc.and_(pc.is_null(codes), pc.is_valid(wanted))).as_py():
            self._last = (dictionary, codes)  # an entry without a code must be checked again when a row uses it
        return codes

    def _look_up(self, wanted: pa.Array) -> pa.Array:
        codes = pc.index_in(wanted, value_set=self.values).cast(pa.int64())
        return pc.if_else(pc.is_valid(wanted), codes, pa.scalar(None, pa.int64()))

    def _grow(self, new: pa.Array, dictionary: pa.Array, array: pa.Array, first_row: int) -> None:
        extends = self.ordered and dictionary.slice(0, len(self.values)).equals(self.values)
        if self._fixed or (self.ordered and len(self.values) and not extends):
            used = self._used(new, dictionary, array)
            if not used:
                return
            row = first_row + used[0]
            why = f"is not one of {self._whose}" if self._fixed else (
                "is not one of the ordered categories so far: name all of them with categories=[...]"
            )  # fmt: skip
            value = python_values(array.slice(used[0], 1))[0]
            raise DataError(f"{value!r} {why}", column=self._name, row=row, value=value)
        self.values = pa.concat_arrays([self.values, new])

    def _used(self, new: pa.Array, dictionary: pa.Array, array: pa.Array) -> list[int]:
        """The rows that hold one of the new categories; a category that no row uses may stay unknown."""
        positions = pc.indices_nonzero(pc.is_in(dictionary, value_set=new))
        rows = pc.indices_nonzero(pc.is_in(array.indices.cast(pa.int64()), value_set=positions.cast(pa.int64())))
        return [int(row) for row in np.asarray(rows)[:1]]


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two dictionaries hold the same entries; 0.0 and -0.0 differ, as they do in a lookup."""
    if one is other:
        return True
    if pa.types.is_floating(one.type) and one.type == other.type:
        bits = f"int{one.type.bit_width}"
        return bool(one.view(bits).equals(other.view(bits)))
    return bool(one.equals(other))


def start_coder(
    kind: pa.DataType, given: bool | Sequence[object] | None, ordered: bool | None, name: str
) -> CategoryCoder:
    """A coder for values of this Arrow type, with the caller's categories if any are given."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    order = ordered if ordered is not None else bool(pa.types.is_dictionary(kind) and kind.ordered)
    try:
        empty = pa.nulls(0, plain)
        pc.index_in(empty.dictionary_encode().dictionary, value_set=empty)
    except (pa.ArrowException, NotImplementedError, AttributeError) as error:
        raise UsageError(
            f"column {name!r}: values of type {plain} cannot be categories", column=name, type=str(plain)
        ) from error
    if given is None or isinstance(given, bool):
        return CategoryCoder(pa.array([], plain), order, False, name)
    try:
        values = pa.array(list(given), plain)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"the categories given are not of type {plain}: {error}", column=name) from error
    if values.null_count or len(values.unique()) != len(values):
        raise DataError("categories must be different from each other and not missing", column=name)
    return CategoryCoder(values, order, True, name)


# -- the dataset --

MANY = 4096  # categories: with fewer, the datatype does not matter


def contains_nul(values: pa.Array) -> bool:
    """Whether one of these strings contains NUL, which ends a string in HDF5."""
    if not pa.types.is_string(values.type) or not holds_nul(values):
        return False
    return bool(pc.any(pc.match_substring(values, "\0")).as_py())


def create_categories(
    group: EditableGroup, name: str, values: pa.Array, column: str, even: bool = False, fewest: int = MANY
) -> tuple[EditableDataset, StoredType]:
    """Create a dataset of categories that can grow, and return it with its datatype; text with NUL is stored as bytes.

    even: store many strings of similar lengths, at least `fewest`, as fixed-length strings: half the bytes, and faster
    to read.
    """
    stored = BINARY if contains_nul(values) else stored_type(values.type, f"the categories of {column!r}")
    if even and stored == TEXT and len(values) >= fewest:
        stored = _one_length(values) or stored
    encoded = encode(values, stored, None, name)
    plan = writing.DatasetPlan(stored, default_chunk_rows(len(values), stored))
    dataset = writing.create_dataset(group, name, plan, len(values))
    writing.write_rows(dataset, stored, 0, encoded.image, len(values))
    return dataset, stored


def _one_length(values: pa.Array) -> StoredType | None:
    """A fixed-length string type for these and somewhat longer strings; None if pointers would take less space."""
    lengths = byte_lengths(values)
    width = -(-max(1, int(lengths.max())) // 8) * 8
    return stored_string(width) if width <= float(lengths.mean()) + POINTER_COST else None


def add_categories(dataset: EditableDataset, values: pa.Array, n_before: int, column: str) -> bool:
    """Append all but the first `n_before` values, which the dataset already holds; False if it cannot hold them."""
    new = values.slice(n_before)
    if dataset is None or not pa.types.is_string(new.type) or contains_nul(new):
        return False
    info = dataset.describe()
    if info.type.kind not in ("text", "string") or info.chunk_rows is None or info.shape != (n_before,):
        return False
    if info.type.kind == "string" and not _takes(info.type, new):
        return False
    try:
        writing.resize(dataset, len(values))
    except hdf5_errors():
        return False
    encoded = encode(new, info.type, None, column)
    writing.write_rows(dataset, info.type, n_before, encoded.image, len(new))
    return True


def _takes(stored: StoredType, texts: pa.Array) -> bool:
    """Whether a string datatype that colonnade created holds these strings."""
    return stored == stored_string(stored.size) and int(byte_lengths(texts).max(initial=0)) <= stored.size
