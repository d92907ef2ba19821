"""One-dimensional datasets: described, created, read and written a range of rows at a time.

Elements travel as NumPy arrays of the memory form that `datatypes.memory_dtype` names. Where an
element points elsewhere (variable length), the array is good only inside `reading`.
"""

from __future__ import annotations

import ctypes
import itertools
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from h5py import h5d, h5f, h5i, h5p, h5r, h5s

from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.filters.apply import Habit, Packer
from colonnade.filters.codecs import Data
from colonnade.filters.undo import Pipeline
from colonnade.h5 import capi
from colonnade.h5.boxes import FLETCHER32, SHORTEST_CHECKED, check_sizes
from colonnade.h5.chunks import MOST_AT_ONCE, ChunkSource, RowNumbers, by_chunk, open_source
from colonnade.h5.damage import BROKEN, raise_lack
from colonnade.h5.datatypes import NEW_REFERENCE, describe_type, make_type, memory_type
from colonnade.h5.direct import (
    Held,
    cut_rows,
    find_chunk,
    find_replaced,
    keeping_mask,
    may_skip,
    remove_chunks,
    write_chunk,
)
from colonnade.h5.filters import creation_list, describe_filters, load_filters, require_filters, set_filters
from colonnade.h5.heap import vet_rows
from colonnade.h5.links import encode_name, link_list
from colonnade.h5.outside import bytes_elsewhere, check_rows, mapped_elements
from colonnade.h5.stored import read_stored, stored_size
from colonnade.h5.vetting import creation_of, guarded, has_lost_fill, vet_fill
from colonnade.model import DEFAULT_CHUNK_ROWS, FilterInfo, Storage, StoredType
from colonnade.stored_dtypes import LARGEST_ELEMENT, memory_dtype, raw_dtype
from colonnade.threads import begin

if TYPE_CHECKING:
    from concurrent.futures import Future

Image = np.ndarray[Any, np.dtype[Any]]

LARGEST_CHUNK = 4 << 20
HEAP_REFERENCE = 16  # bytes of a variable-length element in a chunk
# Where elements claim so much more than is stored that no filter has done it: reading them would never end.
MOST_UNSTORED = 64 << 20
MOST_COMPACT = 1 << 16  # bytes that a header has room for, whatever it claims
BEST_FILTER = 20_000
MOST_UNWRITTEN = 100  # times what is stored without filters
MOST_CHUNKS = 4096  # that the library reads in one call
SMALL = 256 << 10  # bytes of a chunk: to hand it to another thread costs more than it spares
_SCRATCH_NUMBERS = itertools.count()
_STORAGES: dict[int, Storage] = {
    h5d.COMPACT: "compact",
    h5d.CONTIGUOUS: "contiguous",
    h5d.CHUNKED: "chunked",
    h5d.VIRTUAL: "virtual",
}


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """What a dataset's header says, whatever its rank."""

    type: StoredType
    shape: tuple[int, ...] | None
    storage: Storage
    chunk_rows: int | None
    filters: tuple[FilterInfo, ...]
    fill: bytes | None
    has_lost_fill: bool = False  # one was set, and a copy of the file has lost it


def describe_dataset(dataset: Any) -> DatasetInfo:
    """The dataset's header as plain data; no element is read."""
    type_id = dataset.get_type()
    stored = describe_type(type_id)
    if stored.has_pointers:
        vet_fill(dataset, stored)
    creation = creation_of(dataset)
    space = dataset.get_space()
    simple = space.get_simple_extent_type() == h5s.SIMPLE
    if is_shown_as_stored(stored):
        stored = replace(stored, size=stored_size(dataset, dataset.get_space().get_select_npoints()))
    storage = _STORAGES.get(creation.get_layout(), "contiguous")
    if storage == "contiguous" and creation.get_external_count():
        storage = "external"
    return DatasetInfo(
        type=stored,
        shape=tuple(space.get_simple_extent_dims()) if simple else None,
        storage=storage,
        chunk_rows=creation.get_chunk()[0] if storage == "chunked" else None,
        filters=describe_filters(creation),
        fill=None if is_shown_as_stored(stored) else _read_fill(creation, type_id, stored),
        has_lost_fill=stored.has_pointers and has_lost_fill(dataset),
    )


def stored_bytes(dataset: Any) -> int:
    """Bytes that the elements take in the file; looks at every chunk."""
    size: int = dataset.get_storage_size()
    return size


def written_rows(dataset: Any) -> int:
    """Rows that have a place in the file, as far as that can be told; looks at every chunk."""
    n_rows = int(dataset.shape[0])
    creation = creation_of(dataset)
    if creation.get_layout() == h5d.CHUNKED:
        return min(n_rows, int(dataset.get_num_chunks()) * int(creation.get_chunk()[0]))
    if creation.get_layout() == h5d.VIRTUAL:
        return min(n_rows, mapped_elements(dataset))
    return min(n_rows, _most_bytes(dataset, creation) // max(int(dataset.get_type().get_size()), 1))


def _most_bytes(dataset: Any, creation: Any) -> int:
    """The bytes that there can be of elements that lie one behind the other, whatever they claim."""
    if creation.get_layout() == h5d.COMPACT:
        return MOST_COMPACT
    if creation.get_external_count():
        return bytes_elsewhere(dataset)
    return int(h5i.get_file_id(dataset).get_filesize()) if dataset.get_storage_size() else 0


def claims_too_much(claimed: int, stored: int, filtered: bool = True) -> bool:
    """Whether elements claim so many more bytes than are stored for them that they are not worth reading."""
    return claimed > MOST_UNSTORED and claimed > (BEST_FILTER if filtered else MOST_UNWRITTEN) * stored


def is_shown_as_stored(stored: StoredType) -> bool:
    """Whether the elements must be shown as they stand in the file, since in memory they hold handles."""
    return stored.kind == "unknown" and stored.tag.endswith(NEW_REFERENCE)


def _read_fill(creation: Any, type_id: Any, stored: StoredType) -> bytes | None:
    """The fill value set by the writer, in the form `ColumnInfo.fill` says; None when none was set."""
    if creation.fill_value_defined() != h5d.FILL_VALUE_USER_DEFINED or stored.size > LARGEST_ELEMENT:
        return None
    in_memory = memory_type(type_id, stored)
    element = np.zeros(1, dtype=memory_dtype(stored))
    if element.nbytes != in_memory.get_size():
        return None
    capi.get_fill(creation, in_memory, element.ctypes.data)
    if not stored.has_pointers:
        return element.tobytes()
    # What the element points to mostly belongs to the property list itself, so it is not freed here.
    return follow_pointers(element[0], stored)


def follow_pointers(element: Any, stored: StoredType) -> bytes:
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


def is_plain_type(dataset: Any) -> bool:
    """Whether the dataset's datatype is one that can be made anew from its description, and is not shared."""
    type_id = dataset.get_type()
    stored = describe_type(type_id)
    try:
        return not type_id.committed() and bool(make_type(stored) == type_id)
    except UnsupportedError:
        return False


def default_chunk_rows(n_rows: int, stored: StoredType) -> int:
    """A chunk length that suits a column of `n_rows`: never above 65,536 rows or 4 MiB, small for small tables."""
    within = max(1, LARGEST_CHUNK // max(stored.size, 1))
    return max(1, min(DEFAULT_CHUNK_ROWS, within, max(n_rows, 64)))


@dataclass(frozen=True, slots=True)
class DatasetPlan:
    """All that is needed to create a dataset: decided first, so that nothing can fail half-way."""

    type: StoredType
    chunk_rows: int | None
    filters: str = "none"
    fill: bytes | None = None
    large_attributes: bool = False


def create_dataset(group: Any, name: str, plan: DatasetPlan, n_rows: int = 0, type_id: Any = None) -> Any:
    """A new one-dimensional dataset that can grow (chunked), or of fixed length (no chunk length).

    type_id: its HDF5 datatype, where that of another dataset is to be kept to the last bit.
    """
    type_id = make_type(plan.type) if type_id is None else type_id
    creation = creation_list()
    if plan.chunk_rows is not None:
        creation.set_chunk((plan.chunk_rows,))
        set_filters(creation, plan.filters, plan.type)
    if plan.fill is not None:
        _set_fill(creation, type_id, plan.type, plan.fill)
    if plan.large_attributes:
        creation.set_attr_creation_order(h5p.CRT_ORDER_TRACKED)
    limit = (h5s.UNLIMITED,) if plan.chunk_rows is not None else (n_rows,)
    space = h5s.create_simple((n_rows,), limit)
    return h5d.create(group, encode_name(name), type_id, space, dcpl=creation, lcpl=link_list(name))


def _set_fill(creation: Any, type_id: Any, stored: StoredType, fill: bytes) -> None:
    in_memory = memory_type(type_id, stored, writing=True)
    element, _kept = fill_element(stored, fill)
    capi.set_fill(creation, in_memory, element.ctypes.data)


def fill_element(stored: StoredType, fill: bytes) -> tuple[Image, list[Any]]:
    """One element in memory form that is the fill, and the memory it points to."""
    element = np.zeros(1, dtype=memory_dtype(stored))
    if stored.kind not in ("text", "binary", "sequence"):
        return np.frombuffer(fill, dtype="u1"), []
    if not fill:
        return element, []  # a pointer to nothing, which H5Ocopy copies; what others lead to, it loses (see creation)
    if stored.kind == "text":
        kept = ctypes.create_string_buffer(fill)
        element[0] = ctypes.addressof(kept)
        return element, [kept]
    if stored.item.kind == "text":  # a list of one text, led by its length
        text = ctypes.create_string_buffer(fill[8:])
        pointer = ctypes.c_void_p(ctypes.addressof(text))
        element["length"], element["pointer"] = 1, ctypes.addressof(pointer)
        return element, [text, pointer]
    kept = ctypes.create_string_buffer(fill)
    element["length"] = len(fill) // memory_dtype(stored.item).itemsize
    element["pointer"] = ctypes.addressof(kept)
    return element, [kept]


@contextmanager
def reading(dataset: Any, info: DatasetInfo | Any, start: int, count: int, step: int = 1) -> Iterator[Image]:
    """The elements start, start+step, ... in memory form; pointers in them hold inside the `with` only.

    `info` is anything with `type`, `storage` and `filters`: a DatasetInfo or a ColumnInfo.
    """
    stored: StoredType = info.type
    if info.storage in ("external", "virtual"):
        check_rows(dataset)
    if is_shown_as_stored(stored) and count * stored.size <= MOST_AT_ONCE:
        rows = range(start, start + count * step, step)
        yield read_stored(dataset, stored.size, rows, object_name(dataset))
        return
    if count * stored.size > MOST_AT_ONCE or stored.size > LARGEST_ELEMENT:
        raise UnsupportedError(
            f"{object_name(dataset)}: {count} elements of {stored.size} bytes are more than can be read at once: take "
            "fewer rows",
            feature="elements that exceed what is read at once",
            path=object_name(dataset),
        )
    dtype = memory_dtype(stored)
    in_memory = memory_type(dataset.get_type(), stored)
    if in_memory.get_size() != dtype.itemsize:
        raise UnsupportedError(
            f"{object_name(dataset)}: elements of type {stored} take {in_memory.get_size()} bytes in memory, not "
            f"{dtype.itemsize}",
            feature=str(stored),
            path=object_name(dataset),
        )
    image: Image = np.zeros(count, dtype=dtype) if stored.has_pointers else np.empty(count, dtype=dtype)
    if count == 0:
        yield image
        return
    load_filters(info.filters)
    was_seen = vet_rows(dataset, stored, info.filters, range(start, start + (count - 1) * step + 1))
    _check_sums(dataset, info.filters, start, count * step)
    owned = np.ones(count, dtype=bool)
    try:
        with nullcontext() if was_seen else guarded(dataset) as twin:
            rows = range(start, start + count * step, step)
            _load(dataset if twin is None else twin, creation_of(dataset), stored, in_memory, rows, image)
    except OSError as error:
        if not (stored.has_pointers and info.fill is not None and creation_of(dataset).get_layout() == h5d.CHUNKED):
            raise _unreadable(error, dataset, info.filters, start, start + (count - 1) * step) from error
        creation = creation_of(dataset)  # the fill's text lies in it, so it must outlive the image
        owned = _read_written_chunks(dataset, info, creation, in_memory, rows, image)
    try:
        yield image
    finally:
        if stored.has_pointers:
            _reclaim_rows(in_memory, image, owned)


def _check_sums(dataset: Any, filters: tuple[FilterInfo, ...], start: int, count: int) -> None:
    """Refuse chunks too short for their checksum: HDF5 2.0 takes its four bytes off all the same, and dies.

    In a damaged B-tree it finds, as it reads, also chunks that it says are not there: then all must be long enough.
    """
    if not any(step.id == FLETCHER32 for step in filters):
        return
    chunk_rows = int(creation_of(dataset).get_chunk()[0])
    firsts = range(start // chunk_rows * chunk_rows, start + count, chunk_rows)
    found = [dataset.get_chunk_info_by_coord((first,)) for first in firsts]
    sizes = [one.size for one in found if one.byte_offset is not None]
    if len(sizes) < len(found):
        check_sizes(dataset, filters, object_name(dataset))
    if min(sizes, default=SHORTEST_CHECKED) < SHORTEST_CHECKED:
        path = object_name(dataset)
        raise CorruptError(
            f"{path}: a chunk of rows {start} to {start + count - 1} has {min(sizes)} bytes", path=path, row=start
        )


def _load(dataset: Any, creation: Any, stored: StoredType, in_memory: Any, rows: range, image: Image) -> None:
    """These rows, of so many chunks at a time: the library takes some KiB for each, whether it was written or not."""
    most = len(rows)
    if creation.get_layout() == h5d.CHUNKED:
        most = max(1, MOST_CHUNKS * creation.get_chunk()[0] // rows.step)
    for first in range(0, len(rows), most):
        some = rows[first : first + most]
        file_space = dataset.get_space()
        file_space.select_hyperslab((some.start,), (len(some),), (some.step,))
        target = image[first : first + most].ctypes.data
        try:
            capi.read(dataset, in_memory, h5s.create_simple((len(some),)), file_space, target)
        except OSError:
            if stored.has_pointers:
                _reclaim_rows(in_memory, image[:first], np.ones(first, dtype=bool))
            raise


def _unreadable(error: Exception, dataset: Any, filters: tuple[FilterInfo, ...], first: int, last: int) -> CorruptError:
    path = object_name(dataset)
    raise_lack(error)
    require_filters(filters, path)
    return CorruptError(f"{path}: rows {first} to {last} cannot be read: {error}", path=path, row=first)


def _read_written_chunks(
    dataset: Any, info: Any, creation: Any, in_memory: Any, rows: range, image: Image
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Read the rows that have a chunk; the others are the fill. Says which rows were read.

    HDF5 cannot give the fill of a variable-length chunk that was never written while a file is
    open for reading: it would have to write into the file.
    """
    capi.get_fill(creation, in_memory, image[:1].ctypes.data)
    image[1:] = image[0]
    chunk_rows = creation.get_chunk()[0]
    owned = np.zeros(len(rows), dtype=bool)
    for chunk, low, high in by_chunk(np.arange(rows.start, rows.stop, rows.step), chunk_rows):
        if dataset.get_chunk_info_by_coord((chunk * chunk_rows,)).byte_offset is None:
            continue
        some = rows[low:high]
        space = dataset.get_space()
        space.select_hyperslab((some.start,), (len(some),), (some.step,))
        target = image[low:high]
        target[...] = np.zeros(1, dtype=image.dtype)
        try:
            capi.read(dataset, in_memory, h5s.create_simple((len(some),)), space, target.ctypes.data)
        except OSError as error:
            raise _unreadable(error, dataset, info.filters, some[0], some[-1]) from error
        owned[low:high] = True
    return owned


def _reclaim_rows(in_memory: Any, image: Image, owned: Any) -> None:
    """Free what these rows point to; the rows that are the fill point into a property list."""
    edges = np.flatnonzero(np.diff(owned.astype("i1"), prepend=0, append=0))
    for first, stop in edges.reshape(-1, 2).tolist():
        capi.reclaim(in_memory, h5s.create_simple((stop - first,)), image[first:stop].ctypes.data)


class RowSink:
    """A dataset that rows are written to, as long as it is open.

    Whole chunks are filtered here, by several threads, and go to the file as they are. `write` may be ahead of the
    file: `drain` catches up.
    """

    def __init__(self, dataset: Any, stored: StoredType, n_threads: int = 1) -> None:
        check_rows(dataset)
        creation = creation_of(dataset)
        self._stored = stored
        self._filters = filters = describe_filters(creation)
        self._dataset = dataset
        self._n_threads = n_threads
        self._waiting: deque[tuple[int, Held | None, Future[tuple[Data, int]]]] = deque()
        self._packer = Packer(filters)
        self._habit = Habit()
        self._dtype = raw_dtype(replace(stored, padding="null") if stored.padding == "terminated" else stored)
        direct = creation.get_layout() == h5d.CHUNKED and self._dtype is not None and self._packer.is_known
        self._chunk_rows = creation.get_chunk()[0] if direct and not capi.skips_partial_chunks(creation) else 0
        # Parts of chunks as well: the library is slower, and would write chunks of scale-offset that it cannot read.
        self._packs = bool(self._chunk_rows) and not self._packer.is_empty
        chunk_rows = creation.get_chunk()[0] if creation.get_layout() == h5d.CHUNKED else 0
        self._pipeline = Pipeline(filters, chunk_rows * (self._dtype.itemsize if self._dtype is not None else 0))
        # Of chunks that the library filters with what it may skip; 0 if there are none.
        self._skipping_rows = chunk_rows if not self._packs and may_skip(filters) else 0

    def write(self, start: int, image: Image, count: int) -> None:
        """Take `count` elements in memory form, from row `start` on; the dataset is long enough."""
        at = 0
        while at < count:
            step = min(self._chunk_rows - (start + at) % self._chunk_rows, count - at) if self._chunk_rows else count
            part = image[at : at + step]
            if step == self._chunk_rows:
                self._send(start + at, part)
            elif self._packs:
                self._change(start + at, slice(0, step), part)
            else:
                self._write_by_library(start + at, part)
            at += step

    def write_at(self, rows: RowNumbers, image: Image) -> None:
        """Put elements into these rows, which increase."""
        if self._packs:
            for _, begin, end in by_chunk(rows, self._chunk_rows):
                self._change(int(rows[begin]), rows[begin:end] - rows[begin], image[begin:end])
            return
        edges = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        for begin, end in itertools.pairwise(edges):
            self.write(int(rows[begin]) if end > begin else 0, image[begin:end], end - begin)

    def _send(self, start: int, image: Image) -> None:
        """A whole chunk."""
        if self._packer.is_empty:
            self._dataset.write_direct_chunk((start,), self._as_stored(image))
            return
        if any(start == other for other, _, _ in self._waiting):
            self.drain()
        self._pack(start, self._as_stored(image), find_replaced(self._dataset, start))

    def _as_stored(self, image: Image) -> Data:
        """The bytes of a chunk before it is filtered."""
        return np.ascontiguousarray(image).astype(self._dtype, copy=False).view(np.uint8)

    def _pack(self, start: int, data: Data, held: Held | None) -> None:
        """A chunk to be filtered, and what is in its place now."""
        if self._packer.deflates_quickly and self._habit.is_due():  # in the order of the chunks, whatever threads do
            packed, self._habit.runs = self._packer.pack_either(data)
            self.drain()
            write_chunk(self._dataset, self._chunk_rows, start, *packed, held)
            return
        n_threads = self._n_threads if len(data) >= SMALL else 1
        self._waiting.append((start, held, begin(partial(self._packer.pack, data, self._habit.runs), n_threads)))
        while len(self._waiting) > 2 * self._n_threads:
            self._put(*self._waiting.popleft())

    def drain(self) -> None:
        """Put everything that was written into the file."""
        while self._waiting:
            self._put(*self._waiting.popleft())

    def _put(self, start: int, held: Held | None, packed: Future[tuple[Data, int]]) -> None:
        write_chunk(self._dataset, self._chunk_rows, start, *packed.result(), held)

    def _change(self, start: int, places: slice | RowNumbers, image: Image) -> None:
        """Some rows of a chunk, counted from `start`; the others stay."""
        self.drain()
        first = start // self._chunk_rows * self._chunk_rows
        held = find_chunk(self._dataset, first)
        whole = self._loaded(first, self._dataset.shape[0], held, image.dtype)
        whole[start - first :][places] = image
        self._pack(first, self._as_stored(whole), held)
        if self._dataset.shape[0] < self._chunk_rows:
            self.drain()  # the only chunk, which may have to be copied into another dataset: to be told at once

    def cut(self, n_rows: int) -> None:
        """Keep the first rows only."""
        self.drain()
        if self._skipping_rows:
            self._cut_by_library(n_rows)
            return
        count = n_rows % self._chunk_rows if self._packs else 0
        held = find_chunk(self._dataset, n_rows - count) if count else None
        if held is None:
            self._dataset.set_extent((n_rows,))
            return
        assert self._dtype is not None  # parts are packed here only if it is known
        edge = self._loaded(n_rows - count, n_rows, held, self._dtype.newbyteorder("="))
        cut_rows(self._dataset, self._chunk_rows, n_rows, *self._packer.pack(self._as_stored(edge)))

    def _loaded(self, first: int, n_rows: int, held: Held | None, dtype: np.dtype[Any]) -> Image:
        """The chunk that begins with row `first`, in memory form; behind the last row it holds the fill."""
        whole = self._unwritten(dtype)
        count = min(self._chunk_rows, n_rows - first)
        if held is not None:
            whole[:count] = self._unpacked(first, held)[:count]
        return whole

    def read(self, start: int, count: int, dtype: np.dtype[Any]) -> Image | None:
        """Rows that are in the file, in memory form; None where the library is to read them."""
        if not self._packs:
            return None
        self.drain()
        known: dict[int, Held] = {}
        self._dataset.chunk_iter(lambda info: known.update({info.chunk_offset[0]: Held(info.size, info.filter_mask)}))
        begin = start // self._chunk_rows * self._chunk_rows
        parts = [
            self._unpacked(first, known[first]).astype(dtype, copy=False) if first in known else self._unwritten(dtype)
            for first in range(begin, start + count, self._chunk_rows)
        ]
        return np.concatenate(parts)[start - begin :][:count] if parts else np.empty(0, dtype=dtype)

    def _unwritten(self, dtype: np.dtype[Any]) -> Image:
        """A chunk that holds nothing yet, in memory form."""
        fill = describe_dataset(self._dataset).fill
        whole = np.zeros(self._chunk_rows, dtype=dtype)
        if fill is not None:
            whole[...] = np.frombuffer(fill, dtype=dtype)[0]
        return whole

    def _unpacked(self, first: int, held: Held) -> Image:
        """The elements of a chunk that is in the file."""
        assert self._dtype is not None  # parts are packed here only if it is known
        found = np.empty(self._chunk_rows, dtype=self._dtype)
        try:
            self._pipeline.check_size(held.size)
            _, data = self._dataset.read_direct_chunk((first,))
            self._pipeline.undo(data, held.mask, found.view(np.uint8))
        except (*BROKEN, MemoryError) as error:  # a damaged chunk map may claim any size
            last = first + self._chunk_rows - 1
            raise _unreadable(error, self._dataset, self._filters, first, last) from error
        return found

    def _write_by_library(self, start: int, image: Image) -> None:
        self.drain()
        self._check_chunk(start)
        if not self._skipping_rows:
            self._store(start, image)
            return
        for number, begin_, end in by_chunk(np.arange(start, start + len(image)), self._skipping_rows):
            with keeping_mask(self._dataset, number * self._skipping_rows):
                self._store(start + begin_, image[begin_:end])

    def _cut_by_library(self, n_rows: int) -> None:
        """Keep the first rows only; the last of them go into a new chunk, since the library would keep its old mask."""
        first = n_rows // self._skipping_rows * self._skipping_rows
        if first == n_rows or not capi.chunk_size(self._dataset, first):
            self._dataset.set_extent((n_rows,))
            return
        self._check_chunk(first + 1)
        with reading(self._dataset, describe_dataset(self._dataset), first, n_rows - first) as rows:
            remove_chunks(self._dataset, first, n_rows)
            self._store(first, rows)

    def _store(self, start: int, image: Image) -> None:
        """Have the library write rows."""
        image = np.ascontiguousarray(image)
        file_space = self._dataset.get_space()
        file_space.select_hyperslab((start,), (len(image),))
        in_memory = memory_type(self._dataset.get_type(), self._stored, writing=True)
        capi.write(self._dataset, in_memory, h5s.create_simple((len(image),)), file_space, image.ctypes.data)

    def _check_chunk(self, row: int) -> None:
        """Refuse to write into a chunk that does not unpack to its length: the library would write behind its end."""
        source = None if self._packer.is_empty else self._old_rows()
        if source is not None and row % source.chunk_rows:
            source.read(row // source.chunk_rows * source.chunk_rows, 1)

    def _old_rows(self) -> ChunkSource | None:
        """The rows that are there, as so many bytes each; None where their width in the file is not plain."""
        if self._stored.kind in ("text", "binary", "sequence"):
            width = HEAP_REFERENCE
        elif self._stored.has_pointers:
            return None
        else:
            width = self._dataset.get_type().get_size()
        filters = describe_filters(creation_of(self._dataset))
        return open_source(self._dataset, np.dtype((np.void, width)), filters)


def write_rows(dataset: Any, stored: StoredType, start: int, image: Image, count: int) -> None:
    """Write `count` elements in memory form from row `start` on; the dataset is long enough."""
    if count:
        sink = RowSink(dataset, stored)
        sink.write(start, image, count)
        sink.drain()


def resize(dataset: Any, n_rows: int) -> None:
    """Set the number of rows of a chunked dataset; CannotSkipFilter where it must be copied for that."""
    if n_rows < dataset.shape[0] and dataset.get_create_plist().get_nfilters():
        RowSink(dataset, describe_type(dataset.get_type())).cut(n_rows)
    else:
        dataset.set_extent((n_rows,))


@contextmanager
def _scratch_file() -> Iterator[Any]:
    """A file in memory that is never saved. Its name is its own: HDF5 refuses to make a file that is open."""
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fapl_core(1 << 20, False)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    handle = h5f.create(f"colonnade-scratch-{next(_SCRATCH_NUMBERS)}".encode(), h5f.ACC_TRUNC, fapl=access)
    try:
        yield handle
    finally:
        handle.close()


def is_touched(dataset: Any, written: list[tuple[int, int]]) -> bool:
    """Whether rows of a dataset may lie in these ranges of bytes of the file.

    A chunk that was moved was written where it is now. Where it cannot be told (rows in the object's header, in other
    files, behind a user block, or in chunks that are not there) they may.
    """
    creation = creation_of(dataset)
    if h5i.get_file_id(dataset).get_create_plist().get_userblock():
        return True
    if creation.get_layout() == h5d.CONTIGUOUS and not creation.get_external_count():
        begin = dataset.get_offset()
        starts, stops = np.array([begin or 0]), np.array([(begin or 0) + dataset.get_storage_size()])
    elif creation.get_layout() == h5d.CHUNKED:
        chunks: list[tuple[int, int]] = []
        dataset.chunk_iter(lambda info: chunks.append((info.byte_offset, info.byte_offset + info.size)))
        rows, chunk = dataset.shape[0], creation.get_chunk()[0]
        if len(chunks) < -(-rows // chunk):  # cut off and grown again without a byte written
            return True
        starts, stops = np.array(sorted(chunks) or [(0, 0)], dtype=np.int64).T
    else:
        return True
    ranges = np.array(written, dtype=np.int64)
    # The first chunk that ends behind the beginning of a range must begin behind its end.
    next_ = np.searchsorted(stops, ranges[:, 0], "right")
    begin_of_next = np.append(starts, np.iinfo(np.int64).max)[next_]
    return bool((begin_of_next < ranges[:, 1]).any())


def reference_bytes(references: list[Any], kind: str) -> bytes:
    """The stored bytes of h5py references (None counts as the null reference), one after another."""
    dtype = h5py.ref_dtype if kind == "object_reference" else h5py.regionref_dtype
    null = h5py.Reference() if kind == "object_reference" else h5py.RegionReference()
    values = np.empty(len(references), dtype=dtype)
    for position, reference in enumerate(references):
        values[position] = null if reference is None else reference
    with _scratch_file() as scratch:
        made = h5py.File(scratch).create_dataset("references", data=values, dtype=dtype)
        with reading(made.id, describe_dataset(made.id), 0, len(references)) as image:
            return image.tobytes()


def leads_nowhere(dataset: Any, row: int) -> bool:
    """Whether the object reference in this row is set, and leads to no object."""
    reference = h5py.Dataset(dataset)[row]
    if not reference:
        return False
    try:
        return h5r.get_obj_type(reference, dataset) is None
    except BROKEN:
        return True


def object_name(node: Any) -> str:
    """The node's path in its file, for messages."""
    try:
        name = h5i.get_name(node)
    except BROKEN:
        return "?"
    return name.decode("utf-8", "replace") if name else "?"
