"""Which group each row of a window is in, and which groups of several windows are the same.

In: columns to group by. Out: for each row the number of its group, for each group its key in each column. Keys of
categoricals, enums and other integers in a narrow range serve directly as group numbers (less an offset); other keys
are looked up in a table of the keys seen so far.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from colonnade import kernels, limits
from colonnade.columns.keys import ByteKeys, Keys, NumberKeys, Numbers, keys_of
from colonnade.columns.missing import Mask
from colonnade.columns.read import ColumnReader
from colonnade.columns.strings import Places
from colonnade.dataclass import dataclass
from colonnade.query.window import Window


@dataclass(frozen=True)
class Groups:
    """For each row the number of its group; for each group (which may have no rows) its key in each column."""

    codes: Numbers
    keys: list[Keys]
    n: int


def groups_of(readers: Sequence[ColumnReader], window: Window) -> Groups:
    """The groups of rows with equal values in these columns, of which there is at least one."""
    first, *others = (_one_column(reader, window) for reader in readers)
    for other in others:
        first = _cross(first, other)
    return first


def _one_column(reader: ColumnReader, window: Window) -> Groups:
    if not reader.has_numbers:
        return _met(window.keys(reader))
    values, missing = window.numbers(reader)
    if values.dtype.kind != "f":
        least, greatest, _, _ = kernels.least_greatest(values, missing)
        if not isinstance(least, int) or not isinstance(greatest, int):
            least, greatest = 0, -1
        if greatest - least < limits.now.numbered_groups:
            return _numbered(values, missing, least, greatest)
    elif values.dtype == np.float16:
        values = values.astype(np.float32)
    return _met(NumberKeys(values, np.zeros(len(values), dtype=bool) if missing is None else missing))


def _numbered(values: Numbers, missing: Mask | None, least: int, greatest: int) -> Groups:
    """Number integers in a narrow range; missing values come after them."""
    dtype, codes = values.dtype, values
    if least < 0 or greatest >= limits.now.numbered_groups or missing is not None or dtype.itemsize > 4:
        wrapped = (values - dtype.type(least)).view(f"u{dtype.itemsize}")  # less than 2**16, except where missing
        codes = wrapped.astype(np.int32)
    else:
        least = 0
    known = np.arange(greatest - least + 1).astype(dtype) + dtype.type(least)
    keys: Keys = NumberKeys(known, np.zeros(len(known), dtype=bool))
    if missing is not None:
        codes[missing] = len(known)
        keys = NumberKeys(np.append(known, dtype.type(0)), np.arange(len(known) + 1) == len(known))
    return Groups(codes, [keys], len(keys))


def _met(keys: Keys) -> Groups:
    """Number the keys that occur, in order of first occurrence; missing values come after them."""
    if isinstance(keys, NumberKeys) and keys.values.dtype == np.object_:
        known, codes = keys.distinct()
    else:
        coded = keys.array.dictionary_encode()
        known = keys_of(coded.dictionary)
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    if not keys.missing.any():
        return Groups(codes, [known], len(known))
    codes = np.where(keys.missing, len(known), codes)
    places, none = np.arange(len(known) + 1), np.arange(len(known) + 1) == len(known)
    return Groups(codes, [take_or_miss(known, places, none)], len(known) + 1)


def _cross(first: Groups, second: Groups) -> Groups:
    """The groups of rows that are equal in both groupings."""
    codes = first.codes.astype(np.int64) * second.n + second.codes
    n_pairs = first.n * second.n
    pairs: Places = np.arange(n_pairs) if n_pairs <= limits.now.numbered_groups else np.empty(0, np.int64)
    if n_pairs > limits.now.numbered_groups:
        coded = pa.array(codes).dictionary_encode()
        codes, pairs = coded.indices.to_numpy(), coded.dictionary.to_numpy()
    one = [keys.take(pairs // max(second.n, 1)) for keys in first.keys]
    return Groups(codes, one + [keys.take(pairs % max(second.n, 1)) for keys in second.keys], len(pairs))


def take_or_miss(keys: Keys, places: Places, missing: Mask) -> Keys:
    """The keys at these positions; missing where the mask is set."""
    if not isinstance(keys, NumberKeys):
        return ByteKeys(keys.array.take(pa.array(places, mask=missing)))
    values = np.zeros(len(places), dtype=keys.values.dtype)
    values[~missing] = keys.values[places[~missing]]
    return NumberKeys(values, missing)


def same_groups(keys: Sequence[Keys], n: int) -> tuple[Places, Places]:
    """Which of n groups are equal, by their keys in each column, as numbers in increasing order of the keys.

    Missing keys come last. Also returns, for each number, the position of one group that has it.
    """
    ids = np.zeros(n, dtype=np.int64)
    places = np.zeros(min(n, 1), dtype=np.int64)
    for column, one in enumerate(keys):
        known, ranks = one.distinct()
        ranks[ranks < 0] = len(known)
        if column:
            _, places, ids = np.unique(ids * (len(known) + 1) + ranks, return_index=True, return_inverse=True)
        else:
            ids, places = ranks, np.empty(len(known) + bool(one.missing.any()), dtype=np.int64)
            places[ids] = np.arange(n)
    return ids, places
