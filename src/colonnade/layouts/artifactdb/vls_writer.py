"""Write strings as pointers into a heap of bytes (VLS), a form that directories of version 1.1 have.

In: Arrow arrays of strings. Out: a column's group with `pointers` (offset and length of each string) and `heap`.
Missing rows point to the placeholder. It is chosen when the first missing row arrives: a string that differs from
those arriving with it, and whose length no earlier row has.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.arrays import Int64s
from colonnade.columns.strings import byte_lengths, string_buffers
from colonnade.columns.writer import ColumnWriter, WrittenColumn
from colonnade.dataclass import replace
from colonnade.errors import DataError
from colonnade.h5.handles import create_group
from colonnade.layouts.artifactdb import names
from colonnade.model import ColumnInfo, ColumnOptions, Plain
from colonnade.nodes import EditableDataset, EditableGroup
from colonnade.nodes.elements import dataset_column
from colonnade.nodes.paths import group_at
from colonnade.selection import Selection

POINTER = pa.struct([pa.field("offset", pa.uint64()), pa.field("length", pa.uint64())])
HEAP_CHUNK = 1 << 18
READ_ROWS = 1 << 18
LONG, WASTE = 64, 40  # fixed length wastes space if the longest string exceeds LONG, and the mean by WASTE (bytes)


def wastes_space(sample: pa.Array) -> bool:
    """Whether strings of fixed length would be mostly padding."""
    lengths = byte_lengths(sample.drop_null() if sample.null_count else sample)
    longest = int(lengths.max(initial=0))
    return longest > LONG and longest > float(lengths.mean()) + WASTE


class VlsWriter:
    """Writes one column of strings. Call order: construct, start, write, finish; or resume, write, finish."""

    def __init__(self, name: str, options: ColumnOptions) -> None:
        self._name = name
        plain = replace(options, fill=None, strings="auto", categories=None, ordered=None, masked=None)
        self._pointers = ColumnWriter(name, POINTER, plain, link=names.POINTERS)
        heap = ColumnOptions(fill=None, chunk_rows=HEAP_CHUNK, filters=options.filters)
        self._heap = ColumnWriter(name, pa.uint8(), heap, link=names.HEAP, is_companion=True)
        self._mark: bytes | None = None
        self._place_of_mark = 0
        self._lengths: set[int] = set()  # of strings written here
        self._before: EditableDataset | None = None  # the pointers of an existing column

    @classmethod
    def resume(
        cls, column: ColumnInfo, group: EditableGroup, pointers: EditableDataset, heap: EditableDataset
    ) -> VlsWriter:
        """A writer that continues after the rows of an existing column."""
        writer = cls(column.name, ColumnOptions())
        inner = group_at(group, column.link or "")
        plain = replace(column, form=Plain(), fill=None)
        writer._pointers = ColumnWriter.resume(plain, inner, pointers, None, link=names.POINTERS)
        found = heap.describe()
        n_bytes = found.shape[0] if found.shape else 0
        bytes_of = dataset_column(column.name, found, n_bytes)
        writer._heap = ColumnWriter.resume(bytes_of, inner, heap, None, link=names.HEAP)
        if column.fill is not None:
            writer._note_mark(column.fill)
        writer._before = pointers
        return writer

    @property
    def n_rows(self) -> int:
        """The number of rows written, including those of an existing column."""
        return self._pointers.n_rows

    def start(self, data: EditableGroup, place: str, sample: pa.Array, n_rows: int | None, most_rows: int) -> None:
        """Create the datasets in a new group `place`."""
        home = create_group(data, place)
        none = pa.array([], pa.uint8())
        self._heap.start(home, none, None, HEAP_CHUNK)
        self._pointers.start(home, _pointers(np.zeros(0, "u8"), np.zeros(0, "u8")), n_rows, most_rows)

    def write(self, text: pa.Array) -> None:
        """Write the next rows."""
        self._pointers.write(self._stored(text, self.n_rows))

    def overwrite(self, rows: Int64s, text: pa.Array) -> None:
        """Overwrite existing rows. The bytes of their old values stay in the heap."""
        self._pointers.overwrite(rows, self._stored(text, 0))

    def truncate(self, n_rows: int) -> None:
        """Keep the first rows only. The bytes of the others stay in the heap."""
        self._pointers.truncate(n_rows)

    def remove(self, rows: Selection) -> None:
        """Remove these rows: those after them move up. The bytes of the removed ones stay in the heap."""
        self._pointers.remove(rows)

    def finish(self) -> WrittenColumn:
        """Write what is buffered, and return how the column is stored."""
        heap, written = self._heap.finish(), self._pointers.finish()
        return replace(
            written,
            form=replace(written.form, fill=self._mark),
            kind=pa.string(),
            has_missing=self._mark is not None,
            replaced=written.replaced or heap.replaced,
        )

    def _stored(self, text: pa.Array, first_row: int) -> pa.Array:
        """Write the bytes of these strings to the heap, and return the pointers to them."""
        missing = text.is_null().to_numpy(zero_copy_only=False)
        if self._mark is None and missing.any():
            self._note_mark(_free_mark(text, self._used_lengths()))
        self._refuse_mark(text, first_row)
        present = text.fill_null("")
        offsets, data = string_buffers(present)
        begin = int(offsets[0]) if len(offsets) else 0
        lengths = np.diff(offsets).astype("u8")
        self._lengths.update(np.unique(lengths[~missing]).tolist())
        starts = offsets[:-1].astype("u8") - begin + self._heap.n_rows
        end = int(offsets[-1]) if len(offsets) else 0
        self._heap.write(_bytes(np.asarray(data[begin:end])))
        if missing.any():
            assert self._mark is not None  # noted above
            starts[missing], lengths[missing] = self._place_of_mark, len(self._mark)
        return _pointers(starts, lengths)

    def _used_lengths(self) -> set[int]:
        """The lengths of all strings of the column. Those of an existing column are read from its pointers."""
        used = set(self._lengths)
        if self._before is not None:
            info = self._before.describe()
            n_rows = info.shape[0] if info.shape else 0
            for start in range(0, n_rows, READ_ROWS):
                with self._before.reading(info, start, min(READ_ROWS, n_rows - start)) as image:
                    used.update(np.unique(image["length"]).tolist())
        return used

    def _note_mark(self, mark: bytes) -> None:
        """Set the placeholder, and write it to the heap."""
        self._mark, self._place_of_mark = mark, self._heap.n_rows
        self._heap.write(_bytes(np.frombuffer(mark, dtype="u1")))

    def _refuse_mark(self, text: pa.Array, first_row: int) -> None:
        if self._mark is None:
            return
        equal = pc.equal(text, pa.scalar(self._mark.decode())).fill_null(False).to_numpy(zero_copy_only=False)
        if equal.any():
            row = first_row + int(np.argmax(equal))
            raise DataError(
                f"the string {self._mark.decode()!r} marks missing rows of this "
                "column, so it would be read as missing. Write the frame with version='1.0'.",
                column=self._name,
                row=row,
            )


def _free_mark(text: pa.Array, used: set[int]) -> bytes:
    """The first of "NA", "NA_", ... that is not among these strings, and whose length is not used."""
    taken = set(pc.unique(text.filter(pc.starts_with(text, "NA"))).to_pylist())
    count = 0
    while "NA" + "_" * count in taken or 2 + count in used:
        count += 1
    return b"NA" + b"_" * count


def _bytes(data: np.ndarray) -> pa.Array:
    copied = np.array(data, dtype="u1")  # Arrow's buffers may be freed before a chunk is full
    return pa.Array.from_buffers(pa.uint8(), len(copied), [None, pa.py_buffer(copied)])


def _pointers(starts: np.ndarray, lengths: np.ndarray) -> pa.Array:
    parts = [pa.array(part.astype("u8"), pa.uint64()) for part in (starts, lengths)]
    return pa.StructArray.from_arrays(parts, fields=list(POINTER))
