"""Elements, whoever read them: what they point to in memory form, what is made of their description, boxes of arrays.

A box is one range per dimension.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from colonnade.arrays import Image
from colonnade.errors import CorruptError, FormatError
from colonnade.model import DEFAULT_CHUNK_ROWS, ColumnInfo, DatasetInfo, Form, Plain, Sectioned, StoredType
from colonnade.nodes.protocols import Group, Node
from colonnade.stored_dtypes import NEW_REFERENCE, memory_dtype

LARGEST_CHUNK = 4 << 20
TEXT_BYTES = 64  # that a string takes in memory, at least
# Where elements claim so much more than is stored that no filter has done it: reading them would never end.
MOST_UNSTORED = 64 << 20
BEST_FILTER = 20_000
MOST_TIMES_STORED = 100  # times what is stored without filters


def dataset_column(name: str, info: DatasetInfo, n_rows: int) -> ColumnInfo:
    """The rows of a dataset as a column, as far as its header describes it."""
    form: Form = Sectioned(Plain()) if info.storage == "sectioned" else Plain()
    return ColumnInfo(name, info.type, n_rows, info.storage, info.chunk_rows, info.filters, form=form)


def default_chunk_rows(n_rows: int, stored: StoredType) -> int:
    """A chunk length that suits a column of `n_rows`: never above 65,536 rows or 4 MiB, small for small tables."""
    within = max(1, LARGEST_CHUNK // max(stored.size, 1))
    return max(1, min(DEFAULT_CHUNK_ROWS, within, max(n_rows, 64)))


def claims_too_much(claimed: int, stored: int, filtered: bool = True) -> bool:
    """Whether elements claim far more bytes than are stored for them, so that they are not worth reading."""
    return claimed > MOST_UNSTORED and claimed > (BEST_FILTER if filtered else MOST_TIMES_STORED) * stored


def check_n_rows(shape: tuple[int, ...] | None, path: str) -> None:
    """Refuse a dataset of more rows than Python counts."""
    if shape is not None and len(shape) == 1 and shape[0] > sys.maxsize:
        raise CorruptError(f"{path} claims {shape[0]:,} rows, more than any file has", path=path)


def is_shown_as_stored(stored: StoredType) -> bool:
    """Whether the elements must be shown as they stand in the file, since in memory they hold handles."""
    return stored.kind == "unknown" and stored.tag.endswith(NEW_REFERENCE)


def follow_pointers(element: np.void, stored: StoredType) -> bytes:
    """One element with what it points to, as bytes that are equal for equal values.

    A string is its text, a sequence the bytes of its elements; inside another type, each is led by its length.
    """
    if stored.kind == "text":
        pointer = int(element)
        return ctypes.string_at(pointer) if pointer else b""
    if stored.kind in ("binary", "sequence"):
        length, dtype = int(element["length"]), memory_dtype(stored.item)
        data = ctypes.string_at(int(element["pointer"]), length * dtype.itemsize) if length else b""
        if not stored.item.has_pointers:
            return data
        base, shape = dtype.subdtype if dtype.subdtype is not None else (dtype, ())
        items = np.frombuffer(data, dtype=base).reshape(length, *shape)
        return b"".join(with_length(follow_pointers(item, stored.item)) for item in items)
    if stored.kind == "array":
        return b"".join(with_length(follow_pointers(item, stored.item)) for item in element.reshape(-1))
    if stored.kind == "compound":
        return b"".join(with_length(follow_pointers(element[member.name], member.type)) for member in stored.fields)
    return np.ascontiguousarray(element).tobytes()


def with_length(data: bytes) -> bytes:
    """Bytes led by their number, as `follow_pointers` puts them together."""
    return len(data).to_bytes(8, "little") + data


def fill_element(stored: StoredType, fill: bytes) -> tuple[Image, list[object]]:
    """One element in memory form that is the fill, and the memory it points to."""
    element = np.zeros(1, dtype=memory_dtype(stored))
    if stored.kind not in ("text", "binary", "sequence"):
        return np.frombuffer(fill, dtype="u1"), []
    if not fill:
        return (
            element,
            [],
        )  # a null pointer, which H5Ocopy copies; others it loses (see `vetting.creation_of`)
    if stored.kind == "text":
        buffer = ctypes.create_string_buffer(fill)
        element[0] = ctypes.addressof(buffer)
        return element, [buffer]
    if stored.item.kind == "text":  # a list of one text, led by its length
        text = ctypes.create_string_buffer(fill[8:])
        pointer = ctypes.c_void_p(ctypes.addressof(text))
        element["length"], element["pointer"] = 1, ctypes.addressof(pointer)
        return element, [text, pointer]
    buffer = ctypes.create_string_buffer(fill)
    element["length"] = len(fill) // memory_dtype(stored.item).itemsize
    element["pointer"] = ctypes.addressof(buffer)
    return element, [buffer]


def has_references(stored: StoredType) -> bool:
    """Whether elements of this datatype hold references, at any depth."""
    if stored.kind in ("object_reference", "region_reference"):
        return True
    if stored.base is not None and has_references(stored.base):
        return True
    return any(has_references(field.type) for field in stored.fields)


def column_node(group: Group, column: ColumnInfo) -> Node:
    """The dataset or group of a column, which holds its attributes."""
    link = column.link or column.name
    node = group.open_dataset(link) or group.open_group(link)
    if node is None:
        raise FormatError(f"cannot open column {column.name!r}: {column.problem}", column=column.name)
    return node


# -- arrays --


def box_of(shape: Sequence[int], part: tuple[slice, ...]) -> list[range]:
    """What a part takes along each dimension; all of those that it does not name."""
    named = [range(*axis.indices(length)) for axis, length in zip(part, shape, strict=False)]
    return [*named, *(range(length) for length in shape[len(named) :])]


def count_of(axis: range) -> int:
    """The length of a range, which `len` refuses if it is very large."""
    first, last = (axis.start, axis.stop) if axis.step > 0 else (-axis.start, -axis.stop)
    return max(0, -((first - last) // abs(axis.step)))


def cut_box(
    box: Sequence[range], chunk: Sequence[int] | None, item_bytes: int, most_bytes: int
) -> Iterator[list[range]]:
    """A box in smaller boxes of at most `most_bytes` bytes (or one chunk, if that is more), in order."""
    counts = [1] * len(box) if chunk is None else list(chunk)
    n_chunks = most_bytes // max(prod(counts) * item_bytes, 1)
    for axis in reversed(range(len(box))):
        wanted = max(1, min(-(-len(box[axis]) // counts[axis]), n_chunks))
        counts[axis] *= wanted
        n_chunks //= wanted
    firsts = [range(axis.start // count * count, axis.stop, count) for axis, count in zip(box, counts, strict=True)]
    for begins in product(*firsts):
        yield [
            range(max(begin, axis.start), min(begin + count, axis.stop))
            for begin, count, axis in zip(begins, counts, box, strict=True)
        ]


def as_strings(values: np.ndarray, path: str) -> np.ndarray:
    """Bytes as `str`, in an array of objects; bytes that are not UTF-8 are a CorruptError."""
    strings = np.empty(values.shape, dtype=object)
    items = values.reshape(-1).tolist()
    try:
        strings.reshape(-1)[:] = [item.decode("utf-8") if isinstance(item, bytes) else str(item) for item in items]
    except UnicodeDecodeError as error:
        raise CorruptError(f"bytes are not UTF-8: {error}", path=path) from error
    return strings
