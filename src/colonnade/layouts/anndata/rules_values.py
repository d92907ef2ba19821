"""Reads the values of elements for their rules, block by block, and names the rules broken by unreadable values.

Values that cannot be read raise an error here, which the caller turns into a finding. A dataset that claims far more
data than is stored for it is not read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade import limits
from colonnade.columns.raw import cut
from colonnade.columns.read import ColumnReader
from colonnade.errors import ColonnadeError, CorruptError, UnsupportedError
from colonnade.layouts.anndata.raw import RawElement, RawFrame
from colonnade.model import Breach, ColumnInfo, DatasetInfo
from colonnade.nodes.arrays import boxes, read_part
from colonnade.nodes.elements import claims_too_much, dataset_column
from colonnade.nodes.paths import join_path

MOST_CHECKED_CATEGORIES = 1 << 22  # that are compared with each other: more than a reasonable file has


def _reader(node: RawElement) -> ColumnReader:
    """A reader of a dataset of rank 1, as a column without missing rows."""
    stored = _checked(node)
    name = node.path.rsplit("/", 1)[-1]
    plain = dataset_column(name, stored, node.length)
    return ColumnReader(plain, node.as_dataset)


def _checked(node: RawElement) -> DatasetInfo:
    """The header of a dataset. Raises if it claims far more data than is stored."""
    if not isinstance(node.header, DatasetInfo):
        raise CorruptError(node.header, path=node.path)
    shape = node.header.shape or ()
    claimed, stored = int(np.prod(shape, dtype=object)) * node.header.type.size, node.as_dataset.stored_bytes()
    if claims_too_much(claimed, stored):
        raise CorruptError(f"{claimed:,} bytes are claimed, {stored:,} are stored", path=node.path)
    node.bytes_read += stored
    return node.header


def _is_elsewhere(node: RawElement) -> bool:
    """Whether the rows are in other files, which are not read."""
    return node.stored is not None and node.stored.storage in ("external", "virtual")


def number_blocks(node: RawElement) -> Iterator[tuple[int, np.ndarray]]:
    """The integers of a dataset of rank 1, block by block, each with its first row."""
    if _is_elsewhere(node):
        return
    reader = _reader(node)
    for start, stop in cut(0, node.length, reader.column.grid.chunk_rows, reader.column.type):
        yield start, np.asarray(reader.numbers(start, stop - start)[0])


def read_all(node: RawElement) -> None:
    """Read every value once. Raises an error that names the first unreadable value."""
    if _is_elsewhere(node):
        return
    if not node.is_flat:
        _checked(node)
        for box in boxes(node.as_dataset, limits.now.checked_bytes):
            read_part(node.as_dataset, box)
        return
    reader = _reader(node)
    for start, stop in cut(0, node.length, reader.column.grid.chunk_rows, reader.column.type):
        if reader.has_numbers:
            reader.numbers(start, stop - start)
        else:
            reader.read(start, stop - start)


def repeated_values(node: RawElement) -> str | None:
    """A value that occurs twice in a dataset of rank 1, as a string; None if there is none."""
    if _is_elsewhere(node) or node.length > MOST_CHECKED_CATEGORIES:
        return None
    found = _reader(node).read(0, node.length)
    counts = found.value_counts()
    twice = np.flatnonzero(np.asarray(counts.field("counts")) > 1)
    return repr(counts.field("values")[int(twice[0])].as_py()) if len(twice) else None


def unreadable(frame: RawFrame, column: ColumnInfo, error: ColonnadeError) -> tuple[str, Breach]:
    """For rows of a frame that could not be read: the rule this breaks, and how."""
    path = join_path(frame.path, column.name)
    if isinstance(error, UnsupportedError):
        return unread(path, error)
    if column.categories is not None and isinstance(error, CorruptError) and isinstance(error.found, int):
        found = f"row {error.row}: {error.found}"
        message = f"a code is outside the categories: {error}"
        return "A8", Breach("error", path, message, found, str(error.expected))
    return "H1", Breach("error", path, f"the rows cannot be read: {error}", str(error), "rows that can be read")


def unread(path: str, error: UnsupportedError) -> tuple[str, Breach]:
    """The note for values that cannot be read here, although they may be correct."""
    return "A3", Breach("note", path, f"the values are not checked: {error}", str(error), "readable values")
