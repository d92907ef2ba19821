"""BITMAP: for each distinct value the rows that hold it, one bit per row (HEP001 8.6, S6).

In: a column, some rows at a time. Out: exactly the rows for which a leaf is true.
Bit r % 8 of byte r // 8, counted from the least significant, is row r. Missing rows have no bit; NaN is one value.
Invariant: the absence of a value from the index proves nothing unless the index is complete, that is, every row that
is not missing has its bit. An index built here is complete. Others may cover only some values; for these,
completeness is established by verifying the index or by counting its bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from colonnade import kernels, limits, writing
from colonnade.arrays import Octets
from colonnade.columns.keys import Keys, NumberKeys, Numbers, image_to_keys, join, keys_to_image
from colonnade.columns.mapping import key_type
from colonnade.columns.missing import Mask
from colonnade.columns.strings import Places
from colonnade.errors import CorruptError, UsageError
from colonnade.indexes.base import (
    VALUES_NAMES,
    Builder,
    ChangedError,
    Cost,
    Digests,
    Found,
    Hasher,
    Index,
    IndexAttribute,
    KeySource,
    Kind,
    Options,
    Part,
    Wrong,
    digest,
    digest_pointing,
)  # fmt: skip
from colonnade.indexes.known import Distinct, Known
from colonnade.model import ColumnInfo
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, attributes
from colonnade.nodes.paths import editable, is_dataset
from colonnade.predicate.bound import BoundLeaf, Missing
from colonnade.selection import Selection

EXHAUSTIVE = "exhaustive"
MOST_NEAR = 256  # integers in the range from least to greatest, for which a value's code is computed, not looked up


class IndexedValues:
    """The distinct values so far, in the order of their bitmaps."""

    def __init__(self, keys: Keys | None = None) -> None:
        self.keys = keys

    def __len__(self) -> int:
        return 0 if self.keys is None else len(self.keys)

    def codes(self, keys: Keys, grow: bool = True) -> Places:
        """The number of each row's value, -1 for a missing row. New values are added after the others.

        Without `grow`, a row whose value has no number also gets -1.
        """
        found, codes = keys.distinct()
        numbers = self.numbers(found, grow)
        return np.where(codes < 0, -1, numbers[codes]) if len(numbers) else codes

    def numbers(self, found: Keys, grow: bool = True) -> Places:
        """The number of each of these distinct values. New values are added after the others; without `grow`, -1."""
        if self.keys is None:
            if grow:
                self.keys = found
            return np.arange(len(found)) if grow else np.full(len(found), -1)
        _, places = join([self.keys, found]).distinct()
        known = np.full(int(places.max(initial=-1)) + 1, -1, dtype=np.int64)
        known[places[: len(self.keys)]] = np.arange(len(self.keys))
        numbers = known[places[len(self.keys) :]]
        new = np.flatnonzero(numbers < 0)
        if len(new) and grow:
            numbers[new] = len(self.keys) + np.arange(len(new))
            self.keys = join([self.keys, found.take(new)])
        return numbers

    def lines(self, keys: Keys, grow: bool = True) -> tuple[list[int], Octets]:
        """The bits of these rows, the first of which starts a byte: the numbers of the values, and a line for each."""
        near = _near_codes(keys)
        if near is None:
            codes = self.codes(keys, grow)
            return list(range(len(self))), bits_of(codes, len(self))
        least, codes, dtype, n_codes = near
        bits = bits_of(codes, n_codes)
        words = bits if bits.shape[1] % 8 else bits.view(np.uint64)
        held = np.flatnonzero(words.any(axis=1))
        found = held.astype(dtype) + dtype.type(least)  # may wrap around in `astype`; the addition wraps back
        numbers = self.numbers(NumberKeys(found, np.zeros(len(held), dtype=bool)), grow)
        known = numbers >= 0
        return numbers[known].tolist(), bits if len(held) == len(bits) and known.all() else bits[held[known]]

    @property
    def is_ordered(self) -> bool:
        """Whether the values are in increasing order, with NaN at the end."""
        if self.keys is None:
            return True
        order = self.keys.ordered()
        whole = np.concatenate((order, np.flatnonzero(self.keys.nan)))
        return bool((whole == np.arange(len(self.keys))).all())


def _near_codes(keys: Keys) -> tuple[int, Numbers, np.dtype, int] | None:
    """Codes of integers in a small range: value minus least. Gives the least, the codes, the dtype of the values, and
    how many codes there may be. The code of a missing row is -1.

    This way no value has to be looked up. None for all other keys.
    """
    if not isinstance(keys, NumberKeys) or keys.values.dtype.kind not in "iu" or not len(keys):
        return None
    missing = keys.missing if keys.missing.any() else None
    least, greatest, _, _ = kernels.least_greatest(np.ascontiguousarray(keys.values), missing)
    if not isinstance(least, int) or not isinstance(greatest, int) or greatest - least >= MOST_NEAR:
        return None
    if least >= 0 and greatest < MOST_NEAR:
        least = 0
    width = np.int8 if greatest - least < 2**7 else np.int16
    codes = keys.values if keys.values.itemsize > 1 or least == 0 else keys.values.astype(np.int16)
    codes = (codes if least == 0 else codes - codes.dtype.type(least)).astype(width, copy=False)
    if missing is not None and (codes[missing] >= 0).any():
        codes = np.where(missing, width(-1), codes)
    return least, codes, keys.values.dtype, greatest - least + 1


def bits_of(codes: Numbers, n_values: int) -> Octets:
    """The bits of some rows, the first of which starts a byte: one line per value."""
    bits = np.empty((n_values, -(-len(codes) // 8)), dtype=np.uint8)
    kernels.code_bits(np.ascontiguousarray(codes), n_values, bits)
    return bits


class BitmapBuilder(Builder):
    """Writes the bits of many rows at a time, and adds new values as they occur."""

    def __init__(self, group: EditableGroup, name: str, column: ColumnInfo, options: Options) -> None:
        self._group, self._name, self._column, self._options = group, name, column, options
        self._values = IndexedValues()
        self._waiting: list[Keys] = []
        self._n_waiting = 0
        self._first = 0
        self._hashers: list[Hasher] = []
        n_bytes = -(-column.n_rows // 8)
        chunk = 1, min(limits.now.bitmap_stripe, max(n_bytes, 1))
        self._dataset = writing.create_matrix(group, name, (0, n_bytes), chunk, "deflate:1")
        self._has_nan = False

    def add(self, first_row: int, keys: Keys) -> None:
        if self._options.revision == "july" and keys.nan.any():
            self._has_nan, keys = True, without_nan(keys)
        start = 0
        while start < len(keys):
            stop = min(len(keys), start + limits.now.bitmap_window - self._n_waiting)
            self._waiting.append(keys.part(start, stop))
            self._n_waiting += stop - start
            start = stop
            if self._n_waiting == limits.now.bitmap_window:
                self._flush()

    def _flush(self) -> None:
        if self._n_waiting:
            numbers, bits = self._values.lines(join(self._waiting))
            make_room(self._dataset, self._values, self._column, self._options)
            writing.write_lines(self._dataset, numbers, self._first // 8, bits, new=True)
            self._hash(dict(zip(numbers, bits, strict=True)), np.zeros(bits.shape[1], dtype=np.uint8))
            self._first += self._n_waiting
            self._waiting, self._n_waiting = [], 0

    def _hash(self, lines: dict[int, Octets], empty: Octets) -> None:
        """Add the bits of these rows to the digest of each value. A new value has no bits set in earlier rows."""
        for number in range(len(self._values)):
            if number == len(self._hashers):
                self._hashers.append(Hasher())
                stripe = limits.now.bitmap_stripe
                for first in range(0, self._first // 8, stripe):
                    self._hashers[number].add(bytes(min(stripe, self._first // 8 - first)))
            self._hashers[number].add(lines.get(number, empty))

    def digests(self) -> Digests:
        return {
            "attributes": [digest(b"")],
            "": [hasher.digest() for hasher in self._hashers],
            "values": [
                digest_pointing(
                    BitmapIndex(self._dataset, self._column, revision=self._options.revision)._values_node()
                )
            ],
            **({"complete": ["no"]} if self._has_nan else {}),
        }

    def finish(self) -> EditableDataset:
        self._flush()
        reference = VALUES_NAMES[self._options.revision]
        write_values(self._group, f"{self._name}_{reference}", self._dataset, self._values, self._column, reference)
        if self._options.revision == "july":
            writing.write_flag(self._dataset, EXHAUSTIVE, not self._has_nan)
        return self._dataset


def without_nan(keys: Keys) -> Keys:
    """The keys with NaN as missing: July's revision has no bits for NaN."""
    if not isinstance(keys, NumberKeys):
        return keys
    return NumberKeys(keys.values, keys.missing | keys.nan)


def make_room(dataset: EditableDataset, values: IndexedValues, column: ColumnInfo, options: Options) -> None:
    """Resize the matrix to hold these values; UsageError if there are too many."""
    if len(values) > options.max_values:
        raise UsageError(
            f"column {column.name!r} has more than {options.max_values:,} distinct values, too many for a bitmap: use "
            "sorted_rows or chunk_bloom, or raise max_values=",
            column=column.name,
        )
    writing.resize_matrix(dataset, (len(values), -(-column.n_rows // 8)))


def write_values(
    group: EditableGroup,
    name: str,
    dataset: EditableDataset,
    values: IndexedValues,
    column: ColumnInfo,
    reference: str,
) -> None:
    """Create the values dataset, and the attributes of the index that refer to it."""
    stored = key_type(column)
    made = writing.create_dataset(group, name, writing.DatasetPlan(stored, max(1, min(len(values), 4096))), len(values))
    if values.keys is not None and len(values):
        image, _kept = keys_to_image(values.keys, stored)
        writing.write_rows(made, stored, 0, image, len(values))
    writing.write_reference(dataset, reference, made)
    writing.write_flag(dataset, "ordered", values.is_ordered)


class BitmapIndex(Index):
    """The bits of all values, read one value at a time."""

    def __post_init__(self) -> None:
        self._values: Keys | None = None
        self._part: Part | None = None
        self._complete: bool | None = None

    def values_dataset(self) -> Dataset | None:
        """The dataset of the values, found by its object reference."""
        references = attributes.read_references(self.dataset, VALUES_NAMES[self.revision])
        node = self.dataset.dereference(references[0]) if references else None
        return node if node is not None and is_dataset(node) else None

    def _values_node(self) -> Dataset:
        """The dataset of the values of an index without a problem."""
        node = self.values_dataset()
        if node is None:
            raise CorruptError("its values dataset does not exist")
        return node

    def problem(self) -> str | None:
        shape = self.dataset.matrix_shape()
        if shape is None:
            return "it is not a matrix of bytes"
        values = self.values_dataset()
        if values is None:
            return "its values dataset does not exist"
        info = values.describe()
        if info.type != key_type(self.column):
            return "its values are not of the column's type"
        if info.shape != (shape[0],):
            return f"it has {shape[0]} bitmaps and {info.shape} values"
        n_bytes = -(-self.column.n_rows // 8)
        if shape[1] != n_bytes and not (self.revision == "july" and shape[1] > n_bytes):
            return f"it has {shape[1]} bytes per value, the column has {self.column.n_rows} rows"
        return None

    def values(self) -> Keys:
        """The values that have a bitmap. Some may no longer occur in any row."""
        if self._values is None:
            node = self._values_node()
            info = node.describe()
            if self.receipt is not None and [digest_pointing(node)] != self.receipt.get("values"):
                raise ChangedError("its values are not those that were verified")
            with node.reading(info, 0, info.shape[0] if info.shape else 0) as image:
                self._values = image_to_keys(image, key_type(self.column))
        return self._values

    def _bits(self) -> Part:
        if self._part is None:
            self._part = self._bitmaps(self._digests_of(""))
        return self._part

    def _bitmaps(self, digests: Sequence[str] | None = None) -> Part:
        """The bitmaps: as many bytes of each as the rows of the column take."""
        return Part(self.dataset, 1, digests, n_columns=-(-self.column.n_rows // 8))

    def digests(self) -> Digests:
        return {
            "attributes": [digest(b"")],
            "": self._bitmaps().digests(),
            "values": [digest_pointing(self._values_node())],
        }

    def _mask(self, chosen: Mask) -> Octets:
        """The union of the bits of all chosen values. Bits after the last row are cleared."""
        whole = np.zeros(-(-self.column.n_rows // 8), dtype=np.uint8)
        for value in np.flatnonzero(chosen).tolist():
            whole |= self._bits().read(value, value + 1)[0][: len(whole)]
        rest = self.column.n_rows % 8
        if rest and len(whole):
            whole[-1] &= (1 << rest) - 1
        return whole

    def is_complete(self) -> bool:
        """Whether every row that is not missing has its bit: known from the receipt, otherwise by counting the bits."""
        if self._complete is None:
            if self.receipt is not None:
                self._complete = not self._is_of_some_values
            elif self.revision == "july" and attributes.read_flag(self.dataset, EXHAUSTIVE):
                self._complete = True
            else:
                self._complete = (
                    self.column.fill is None
                    and self.column.categories is None
                    and _popcount(self._mask(np.ones(len(self.values()), dtype=bool))) == self.column.n_rows
                )
        return self._complete

    def cost(self, leaf: BoundLeaf) -> Cost:
        return Cost(int(self.values().truth(leaf).sum()) * -(-self.column.n_rows // 8))

    def find(self, leaf: BoundLeaf, scope: Selection, by_row: bool) -> Found | None:
        if isinstance(leaf.test, Missing):
            return None
        rows = _rows_of(self._mask(self.values().truth(leaf)), self.column.n_rows)
        return Found(rows, rows if self.is_complete() else Selection.of(0, self.column.n_rows))

    def count(self, leaf: BoundLeaf, by_row: bool) -> int | None:
        if isinstance(leaf.test, Missing) or not self.is_complete():
            return None
        return _popcount(self._mask(self.values().truth(leaf)))

    def known(self) -> Known | None:
        """The values whose bits are set for some row; None if reading the column is cheaper."""
        values, numbers = self.values(), np.arange(len(self.values()))
        if len(values) > 8 * max(self.column.type.size, 1) or not self.is_complete():
            return None
        counts = np.array([_popcount(self._mask(numbers == number)) for number in numbers], dtype=np.int64)
        known = Known(self.column.n_rows - int(counts.sum()), int(counts[values.nan].sum()))
        known.widen(values.take(np.flatnonzero(counts)))
        known.distinct = Distinct(int((counts > 0).sum()), "exactly")
        return known

    def most_distinct(self) -> int | None:
        return len(self.values()) if self.is_complete() else None

    def options(self) -> Options:
        """An index above the default limit was built with a higher one, so allow twice its values."""
        shape, usual = self.dataset.matrix_shape(), Options().max_values
        n_values = shape[0] if shape is not None else 0
        return Options(max_values=usual if n_values <= usual else 2 * n_values)

    def refresh(self, source: KeySource, changed: Selection, n_before: int, options: Options) -> Dataset | None:
        column = source.column
        node = self.values_dataset()
        if node is None:
            return None
        values = IndexedValues(self.values() if len(self.values()) else None)
        n_values = len(values)
        if not writing.resize_matrix(editable(self.dataset), (n_values, -(-column.n_rows // 8))):
            return None
        touched = changed | Selection.of(min(n_before, column.n_rows) // 8 * 8, column.n_rows)
        for start, stop in touched.windows(limits.now.bitmap_window):
            first, last = _hull(touched.within(start, stop), column.n_rows)
            keys = source.keys(first, last - first)
            if self.revision == "july" and keys.nan.any():
                self._complete, keys = False, without_nan(keys)
            numbers, bits = values.lines(keys, grow=not self._is_of_some_values)
            if len(values) > n_values and not self.is_complete():
                return None  # other rows may hold the new value already, without a bit for it
            try:
                make_room(editable(self.dataset), values, column, options)
            except UsageError:
                return None  # too many values now: the index is no longer useful
            block = np.zeros((len(values), bits.shape[1]), dtype=np.uint8)
            block[numbers] = bits
            writing.write_lines(editable(self.dataset), range(len(values)), first // 8, block)
        if len(values) != n_values:
            writing.resize(editable(node), len(values))
            assert values.keys is not None  # there are values
            stored = key_type(column)
            image, _kept = keys_to_image(values.keys, stored)
            writing.write_rows(editable(node), stored, 0, image, len(values))
        writing.write_flag(editable(self.dataset), "ordered", values.is_ordered)
        if self.revision == "july":
            writing.write_flag(editable(self.dataset), EXHAUSTIVE, self.is_complete())
        self._values = self._part = None
        return self.dataset

    @property
    def _is_of_some_values(self) -> bool:
        """Whether some values are known to have no bitmap. An index in this state gets no new values."""
        return self.receipt is not None and "complete" in self.receipt

    def claims(self) -> Digests:
        return {"complete": ["no"]} if self._complete is False or self._is_of_some_values else {}

    def datasets(self) -> list[Dataset]:
        values = self.values_dataset()
        return [self.dataset] if values is None else [self.dataset, values]

    def verify(self, source: KeySource, options: Options) -> Iterator[Wrong]:
        stored = self.values()
        values = IndexedValues(stored if len(stored) else None)
        if len(stored) != len(stored.distinct()[0]):
            yield Wrong("values", "a value twice", "each once")
            return
        ordered = attributes.read_flag(self.dataset, "ordered")
        if ordered and not values.is_ordered:
            yield Wrong("ordered", True, False)
        n = limits.now.bitmap_window
        for start in range(0, self.column.n_rows, n):
            stop = min(start + n, self.column.n_rows)
            keys = source.keys(start, stop - start)
            if self.revision == "july" and keys.nan.any():
                self._complete, keys = False, without_nan(keys)
            codes = values.codes(keys, grow=False)
            self._complete = self._complete is not False and not ((codes < 0) & ~keys.missing).any()
            yield from self._compare(start, stop, codes)
        if self.revision == "july" and self._complete is False and attributes.read_flag(self.dataset, EXHAUSTIVE):
            yield Wrong(EXHAUSTIVE, True, False)

    def _compare(self, start: int, stop: int, codes: Places) -> Iterator[Wrong]:
        truth = bits_of(codes, len(self.values()))
        found = self.dataset.read_matrix((0, len(truth)), (start // 8, start // 8 + truth.shape[1]))
        rest = stop % 8
        if rest and stop == self.column.n_rows and truth.shape[1]:
            found[:, -1] &= (1 << rest) - 1
        for value, byte in np.argwhere(truth != found)[:1].tolist():
            odd = int(truth[value, byte]) ^ int(found[value, byte])
            row = start + byte * 8 + (odd & -odd).bit_length() - 1
            held = bool(found[value, byte] >> (row % 8) & 1)
            yield Wrong(f"value {self.values().key(value)!r}, row {row}", held, not held)


def _hull(rows: Selection, n_rows: int) -> tuple[int, int]:
    """The smallest range that contains all these rows and begins and ends at whole bytes of the bitmap."""
    return int(rows.starts[0]) // 8 * 8, min(-(-int(rows.stops[-1]) // 8) * 8, n_rows)


def _rows_of(bits: Octets, n_rows: int) -> Selection:
    """The rows whose bit is set."""
    n_ranges = kernels.bits_range_count(bits, n_rows)
    starts, stops = np.empty(n_ranges, dtype=np.int64), np.empty(n_ranges, dtype=np.int64)
    kernels.bits_ranges(bits, n_rows, 0, starts, stops)
    return Selection(starts, stops)


def _popcount(bits: Octets) -> int:
    return kernels.bits_count(bits, 8 * len(bits))


BITMAP = Kind(
    word="bitmap",
    name="BITMAP",
    build=BitmapBuilder,
    open=BitmapIndex,
    rank=20,
    rule="S6",
    clause="8.6",
    requires="BITMAP has one row of bits for each value of the dataset that _values refers to, and ordered.",
    attributes=(IndexAttribute("_values", "values"), IndexAttribute("ordered", "flag")),
    counts_distinct=True,
)
