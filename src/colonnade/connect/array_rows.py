"""An array as rows: one column per dimension with the position, `i0`, `i1` and so on, and the column `value`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa

from colonnade.arrays import Int64s
from colonnade.errors import UnsupportedError, UsageError
from colonnade.nodes.protocols import Dataset
from colonnade.table import File

PIECE_ELEMENTS = 1 << 17

ElementBox = tuple[slice, ...]


class ArrayRows:
    """The elements of an array in C order, read in pieces, each time that a stream is asked for."""

    def __init__(self, file: File, path: str) -> None:
        self._file, self._path = file, path
        self._shape, dtype = file._consistent(lambda: (self._dataset().shape, self._dataset().array_dtype()))
        self._kind = _arrow_type(dtype, path)
        names = [f"i{number}" for number in range(len(self._shape))]
        self.schema = pa.schema([*((name, pa.int64()) for name in names), ("value", self._kind)])

    def _dataset(self) -> Dataset:
        dataset: Dataset | None = self._file._handle.root.open_dataset(self._file._absolute(self._path))
        if dataset is None:
            whole = self._file._absolute(self._path)
            hint = "it is a table, which is named without array(...)" if whole in self._file.tables() else "see `ls`"
            raise UsageError(f"there is no array {self._path!r} in {self._file.name}: {hint}", path=self._path)
        return dataset

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for box in boxes(self._shape, PIECE_ELEMENTS):
            values = self._file._consistent(partial(self._read, box))
            columns = [pa.array(positions) for positions in _positions(box)]
            value = pa.array(values, self._kind, from_pandas=False)
            yield pa.RecordBatch.from_arrays([*columns, value], schema=self.schema)

    def _read(self, box: ElementBox) -> np.ndarray:
        dataset = self._dataset()
        dataset.check_readable(prod(part.stop - part.start for part in box))
        values = dataset.read_array(box)
        flat: np.ndarray = np.asarray(values).reshape(-1)
        if flat.dtype.kind == "S":  # fixed-length strings of HDF5
            return np.array([value.decode("utf-8", "backslashreplace") for value in flat.tolist()], dtype=object)
        return flat.astype(flat.dtype.newbyteorder("="), copy=False)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__()


def _arrow_type(dtype: np.dtype, path: str) -> pa.DataType:
    if dtype.kind in "biuf":
        kind = pa.from_numpy_dtype(dtype.newbyteorder("="))
        return pa.float32() if pa.types.is_float16(kind) else kind
    if dtype.kind in "SOT":
        return pa.string()
    raise UnsupportedError(f"{path}: an array of {dtype} cannot be rows of a query. Read it through File.h5", path=path)


def boxes(shape: tuple[int, ...], most: int) -> Iterator[ElementBox]:
    """Boxes that cover an array in C order, each of at most `most` elements."""
    if 0 in shape:
        return
    inner = len(shape)  # dimensions from here on are read whole
    while inner and prod(shape[inner - 1 :]) <= most:
        inner -= 1
    steps = [1] * len(shape)
    for dimension in range(inner, len(shape)):
        steps[dimension] = shape[dimension]
    if inner:
        steps[inner - 1] = max(1, most // prod(shape[inner:]))
    for starts in product(*(range(0, length, step) for length, step in zip(shape, steps, strict=True))):
        yield tuple(
            slice(start, min(start + step, length)) for start, step, length in zip(starts, steps, shape, strict=True)
        )


def _positions(box: ElementBox) -> Iterator[Int64s]:
    """For each dimension the position of every element of a box."""
    lengths = [part.stop - part.start for part in box]
    for dimension, part in enumerate(box):
        along = np.arange(part.start, part.stop, dtype=np.int64)
        shape = [1] * len(box)
        shape[dimension] = len(along)
        yield np.broadcast_to(along.reshape(shape), lengths).reshape(-1)
