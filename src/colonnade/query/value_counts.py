"""How many rows have each value of a column, by group: what distinct values are counted from, and frequent ones found.

The pairs of group and value met so far are kept in memory, up to `limits.counted_pairs`. Where there are more, they are
written to files in a temporary folder, divided by a hash of the value; then each file is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from colonnade import kernels, limits
from colonnade.arrays import UInt64s
from colonnade.columns.keys import ByteKeys, Keys, NumberKeys, keys_of
from colonnade.columns.read import ColumnReader
from colonnade.query.grouped import GroupedRows, GroupPart, label_ranks, merge_parts

if TYPE_CHECKING:
    from colonnade.pager.scratch import ScratchFolder

N_FILES = 64  # of pairs that are not kept in memory


def value_counts(rows: GroupedRows, reader: ColumnReader) -> Iterator[GroupPart]:
    """The row count of each pair of group and value, in parts that have no value in common.

    The last key of each pair is that of the value. Missing values count as one value, and so does NaN.
    """
    pairs = GroupedRows([*rows.by, reader], rows.rows)
    with _Files(reader) as files:
        parts: list[GroupPart] = []
        n_waiting = 0
        for part in pairs.parts({}, {}):
            parts.append(part)
            n_waiting += len(part)
            if len(parts) > 2 and n_waiting > 2 * len(parts[0]) + limits.now.waiting_groups:
                parts = [merge_parts(parts)]
                n_waiting = len(parts[0])
                if n_waiting > limits.now.counted_pairs:
                    files.add(parts.pop())
                    n_waiting = 0
        if not files.is_used:
            if parts:
                yield _by_value(pairs, merge_parts(parts))
            return
        if parts:
            files.add(merge_parts(parts))
        for part in files.parts():
            yield _by_value(pairs, part)


def _by_value(pairs: GroupedRows, part: GroupPart) -> GroupPart:
    """The pairs in order; of ordered categories, those that are equal (0.0 and -0.0) are one value."""
    part, reader = pairs.sorted(part), pairs.by[-1]
    if not reader.is_coded or not pa.types.is_dictionary(reader.kind) or not reader.kind.ordered:
        return part
    return merge_parts([part], {len(pairs.by) - 1: label_ranks(reader.values(part.keys[-1]))})


class _Files:
    """Pairs on disk: one file for each range of hashes of the value."""

    def __init__(self, reader: ColumnReader) -> None:
        self._reader = reader
        self._folder: ScratchFolder | None = None
        self._writers: dict[int, pa.ipc.RecordBatchFileWriter] = {}
        self._is_long: list[bool] = []

    def __enter__(self) -> _Files:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.close()

    @property
    def is_used(self) -> bool:
        return self._folder is not None

    def add(self, part: GroupPart) -> None:
        """Write these pairs."""
        from colonnade.pager.scratch import ScratchFolder

        if self._folder is None:
            self._folder = ScratchFolder()
            self._is_long = [_is_long(keys) for keys in part.keys]
        arrays = [_to_stored(keys) for keys in part.keys]
        batch = pa.record_batch([*arrays, pa.array(part.rows)], names=[*map(str, range(len(arrays))), "rows"])
        numbers = _hashes(self._by_value(keys_of(arrays[-1]))) % np.uint64(N_FILES)
        order = np.argsort(numbers, kind="stable")
        edges = np.searchsorted(numbers[order], np.arange(N_FILES + 1, dtype=np.uint64))
        for number in range(N_FILES):
            in_file = order[edges[number] : edges[number + 1]]
            if len(in_file):
                self._writer(number, batch.schema).write_batch(batch.take(pa.array(in_file)))

    def _by_value(self, keys: Keys) -> Keys:
        """Keys that are equal where the values are: a file from elsewhere may name a category twice."""
        categories = self._reader.column.categories
        if categories is None or not isinstance(keys, NumberKeys):
            return keys
        codes = np.arange(categories.n_categories).astype(keys.values.dtype)
        ranks = label_ranks(self._reader.values(NumberKeys(codes, np.zeros(len(codes), bool))))
        return NumberKeys(np.where(keys.missing, 0, np.append(ranks.values, 0)[keys.values]), keys.missing)

    def _path(self, number: int) -> str:
        assert self._folder is not None  # something was added
        return str(self._folder.path / str(number))

    def _writer(self, number: int, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
        if number not in self._writers:
            self._writers[number] = pa.ipc.new_file(self._path(number), schema)
        return self._writers[number]

    def parts(self) -> Iterator[GroupPart]:
        """All pairs of one file, merged, after those of another."""
        for writer in self._writers.values():
            writer.close()
        for number in self._writers:
            with pa.OSFile(self._path(number)) as source:
                file = pa.ipc.open_file(source)
                batches = [file.get_batch(position) for position in range(file.num_record_batches)]
            yield merge_parts([self._part(batch) for batch in batches])

    def _part(self, batch: pa.RecordBatch) -> GroupPart:
        *arrays, rows = batch.columns
        keys = [_from_stored(array, is_long) for array, is_long in zip(arrays, self._is_long, strict=True)]
        return GroupPart(keys, rows.to_numpy(), [])


def _is_long(keys: Keys) -> bool:
    return isinstance(keys, NumberKeys) and keys.values.dtype == np.object_


def _to_stored(keys: Keys) -> pa.Array:
    """Keys as an Arrow array; integers of any length as strings of digits."""
    if not isinstance(keys, NumberKeys) or not _is_long(keys):
        return keys.array
    digits = [None if missing else b"%d" % number for number, missing in zip(keys.values, keys.missing, strict=True)]
    return pa.array(digits, pa.binary())


def _from_stored(array: pa.Array, is_long: bool) -> Keys:
    if not is_long:
        return keys_of(array)
    numbers = np.array([0 if digits is None else int(digits) for digits in array.to_pylist()], dtype=object)
    return NumberKeys(numbers, array.is_null().to_numpy(zero_copy_only=False))


def _hashes(keys: Keys) -> UInt64s:
    """A hash of each key; equal keys have equal hashes."""
    low, high = np.zeros((2, len(keys)), np.uint64)
    if isinstance(keys, NumberKeys):
        values = keys.values
        if values.dtype.kind == "f":
            values = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
        values = np.ascontiguousarray(np.where(keys.missing, values.dtype.type(0), values))
        kernels.hash_items(values.view(np.uint8), values.itemsize, 0, low, high)
        return low
    assert isinstance(keys, ByteKeys)  # keys are numbers or bytes
    array = keys.array.fill_null(b"")
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    kernels.hash_strings(ends, np.frombuffer(data or b"", np.uint8), 0, low, high)
    return low
