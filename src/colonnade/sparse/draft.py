"""Buffered rows of a sparse column. They are written last, because libhdf5 must not have the file open for that.

A draft holds a new one-dimensional array, or changes to an existing one: rows appended, changed, erased or cut off.
Rows are appended in order; complete chunks of them are kept in memory, then in a temporary file. `put_drafts` writes
all drafts of a change to the file, without committing it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import IO, TYPE_CHECKING

import numpy as np

from colonnade import limits, writing
from colonnade.dataclass import replace
from colonnade.format.dataspace import Dataspace
from colonnade.format.headers import read_messages
from colonnade.format.links import find_address
from colonnade.format.values import DecodedValues, stored_dtype
from colonnade.nodes.paths import editable
from colonnade.sparse.attributes import changed, encode_attributes
from colonnade.sparse.change import ChunkChange, change_rows
from colonnade.sparse.edit import Editor, edit_file, put_dataset, put_messages, retire
from colonnade.sparse.info import SparseInfo, describe
from colonnade.sparse.selections import Positions
from colonnade.threads import default_threads

if TYPE_CHECKING:
    from colonnade.h5.files import FileHandle


class SparseDraft:
    """A sparse column to be created or changed. `attributes` are set with it; `n_rows` is its final length."""

    def __init__(self, info: SparseInfo, is_new: bool) -> None:
        self.info = info
        self.is_new = is_new
        self.n_rows = info.space.shape[0]
        self.attributes: dict[str, object] = {}
        self._dtype = stored_dtype(info.type)
        self._open: list[tuple[Positions, DecodedValues]] = []
        self._parts: list[ChunkChange | tuple[int, int, int]] = []  # in memory, or number, offset, count in the spool
        self._n_held = 0
        self._spool: IO[bytes] | None = None
        self.n_kept: int | None = None  # rows that stay; those after them are removed before rows are appended
        self._changed: tuple[Positions, DecodedValues] | None = None
        self._erased: Positions | None = None

    def cut(self, n_rows: int) -> None:
        """Keep the first rows only; others may be appended then."""
        self.n_kept = self.n_rows = n_rows

    def add(self, n_rows: int, places: Positions, values: DecodedValues) -> None:
        """Append `n_rows` rows, of which those at `places` have values."""
        if len(places):
            self._open.append((places + self.n_rows, values.astype(self._dtype.base)))
        before, self.n_rows = self.n_rows, self.n_rows + n_rows
        size = self.info.layout.chunk[0]
        if before // size != self.n_rows // size:
            self._close(self.n_rows // size * size)

    def set(self, rows: Positions, values: DecodedValues) -> None:
        """Replace the values of existing rows, given in increasing order."""
        self._changed = rows, values.astype(self._dtype.base)

    def erase(self, rows: Positions) -> None:
        """Make existing rows missing."""
        self._erased = rows

    def _close(self, stop: int) -> None:
        """Store the chunks of all rows before `stop`, which are complete."""
        if not self._open:
            return
        rows = np.concatenate([part for part, _ in self._open])
        values = np.concatenate([part for _, part in self._open])
        done = int(np.searchsorted(rows, stop))
        self._open = [(rows[done:], values[done:])] if done < len(rows) else []
        for part in _by_chunk(rows[:done], values[:done], self.info.layout.chunk[0]):
            self._keep(part)

    def _keep(self, part: ChunkChange) -> None:
        grid, places, values = part
        assert values is not None  # appended rows have values
        n_bytes = places.nbytes + values.nbytes
        if self._n_held + n_bytes <= limits.now.sparse_row_bytes:
            self._n_held += n_bytes
            self._parts.append(part)
            return
        if self._spool is None:
            self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the draft
        self._parts.append((grid[0], self._spool.seek(0, 2), len(places)))
        self._spool.write(places.tobytes() + values.tobytes())

    def added(self) -> Iterator[ChunkChange]:
        """The chunks of the appended rows, each once, in order."""
        self._close(self.n_rows)
        for part in self._parts:
            if isinstance(part[0], tuple):
                yield part
            else:
                yield self._read(*part)

    def _read(self, number: int, at: int, count: int) -> ChunkChange:
        assert self._spool is not None  # the part was written there
        self._spool.seek(at)
        places = np.frombuffer(self._spool.read(8 * count), dtype=np.int64)
        values = np.frombuffer(self._spool.read(count * self._dtype.base.itemsize), dtype=self._dtype.base)
        return (number,), places, values

    def close(self) -> None:
        """Release the buffered rows and close the temporary file."""
        self._parts.clear()
        if self._spool is not None:
            self._spool.close()

    def __del__(self) -> None:
        self.close()

    def changed(self) -> Iterator[ChunkChange]:
        """The chunks of the rows with new values."""
        if self._changed is not None:
            yield from _by_chunk(*self._changed, self.info.layout.chunk[0])

    def erased(self) -> Iterator[ChunkChange]:
        """The chunks of the rows to erase."""
        if self._erased is not None:
            yield from _by_chunk(self._erased, None, self.info.layout.chunk[0])


def _by_chunk(rows: Positions, values: DecodedValues | None, size: int) -> Iterator[ChunkChange]:
    numbers = rows // size
    bounds = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(rows)]
    for start, stop in pairwise(bounds):
        if stop > start:
            number = int(numbers[start])
            yield (number,), rows[start:stop] - number * size, None if values is None else values[start:stop]


def put_drafts(handle: FileHandle, drafts: Sequence[tuple[str, SparseDraft]]) -> None:
    """Write each draft to the file at its path, without a commit. HDF5 handles of the file are invalid afterwards."""
    if not drafts:
        return
    headers = {path: writing.make_placeholder(editable(handle.root), path) for path, draft in drafts if draft.is_new}

    def work(editor: Editor) -> None:
        for path, draft in drafts:
            _put(editor, path, draft, headers.get(path))
            draft.close()

    edit_file(handle, work)


def _put(editor: Editor, path: str, draft: SparseDraft, header: int | None) -> None:
    if header is None:
        header = find_address(editor.renew(), editor.block.root, path)
    else:
        messages = tuple(encode_attributes(draft.attributes).values())
        space = Dataspace((draft.n_rows,), draft.info.space.max_shape)
        put_dataset(editor, header, replace(draft.info, name=path, space=space, attributes=messages))
    threads = default_threads()
    if draft.n_kept is not None:
        source = editor.renew()
        info = describe(source, read_messages(source, header), path)
        change_rows(editor, header, info, draft.n_kept, iter(()), threads)
    for parts in (draft.erased(), draft.changed(), draft.added()):
        source = editor.renew()
        info = describe(source, read_messages(source, header), path)
        change_rows(editor, header, info, draft.n_rows, parts, threads)


def retire_arrays(handle: FileHandle, paths: Sequence[str]) -> None:
    """Replace sparse arrays by empty datasets that HDF5 can remove. HDF5 handles of the file are invalid afterwards."""

    def work(editor: Editor) -> None:
        for path in paths:
            retire(editor, find_address(editor.source, editor.block.root, path))

    if paths:
        edit_file(handle, work)


def set_texts_of(handle: FileHandle, path: str, strings: Mapping[str, object]) -> None:
    """Set attributes of an array; None removes one. HDF5 handles of the file are invalid afterwards."""
    new = encode_attributes({name: text for name, text in strings.items() if text is not None})
    without = tuple(name for name, text in strings.items() if text is None)

    def work(editor: Editor) -> None:
        header = find_address(editor.source, editor.block.root, path)
        info = describe(editor.source, read_messages(editor.source, header), path)
        attributes = changed(info.attributes, new, without, editor.source.name)
        put_messages(editor, header, replace(info, attributes=attributes))

    edit_file(handle, work)
