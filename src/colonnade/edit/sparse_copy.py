"""Copy sparse arrays from one file to another, for `repack`: chunks byte for byte, everything else written again.

References to other objects would be invalid in another file, so such arrays are refused before anything is written.
HDF5 creates placeholders and links to them; `put_copies` then replaces the placeholders by the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from colonnade.dataclass import dataclass, replace
from colonnade.errors import FormatError, UnsupportedError
from colonnade.format.headers import LAYOUT, Message, find, read_messages
from colonnade.format.layout import MAP_NUMBERS, is_sectioned
from colonnade.format.links import find_address
from colonnade.format.records import ChunkRecord
from colonnade.format.source import HDF5Source
from colonnade.format.superblock import open_root
from colonnade.pager.journal import JournaledFile
from colonnade.pager.sources import ByteSource
from colonnade.sparse.attributes import holds_references, portable_attributes
from colonnade.sparse.edit import Editor, empty_single, put_dataset, put_records
from colonnade.sparse.info import SparseInfo, check_record, chunk_map_of, describe


@dataclass(frozen=True)
class MovingArray:
    """A sparse array as it is in the source, and its description for the other file, without chunks."""

    source: HDF5Source
    old: SparseInfo
    new: SparseInfo

    def records(self) -> Iterator[ChunkRecord]:
        """The chunks inside the array; chunks outside its shape are not copied."""
        chunk_map = chunk_map_of(self.old, self.source)
        for records in chunk_map.read((0,) * len(self.old.space.shape), chunk_map.grid_shape):
            yield from records


class MovingArrays:
    """The sparse arrays of a file that were found so far, by header address."""

    def __init__(self, read: Callable[[], ByteSource]) -> None:
        """read: returns the file's bytes; called when the first object is met: by then everything is committed."""
        self._read = read
        self._known: dict[int, MovingArray] = {}

    @cached_property
    def _source(self) -> HDF5Source:
        return open_root(self._read())[0]

    def meet(self, address: int, path: str) -> bool:
        """Whether the object at this address is a sparse array; raises an UnsupportedError if it cannot be copied."""
        try:
            messages = read_messages(self._source, address)
        except FormatError:
            return False
        layout = find(messages, LAYOUT)
        if layout is None or not is_sectioned(layout.data):
            return False
        self._known[address] = _moving(self._source, messages, path)
        return True

    def put_copies(self, stream: JournaledFile, name: str, places: Mapping[int, str]) -> None:
        """Replace the placeholders at these paths by the arrays."""
        if not places:
            return
        editor = Editor(stream, name)
        for address, path in places.items():
            _put(editor, find_address(editor.renew(), editor.block.root, path), self._known[address])
        editor.finish()


def _moving(source: HDF5Source, messages: list[Message], path: str) -> MovingArray:
    old = describe(source, messages, path)
    if holds_references(old.type):
        raise _refusal(path, "it holds references, which would be invalid in another file")
    if old.type.has_pointers and old.fill is not None and any(old.fill):
        raise _refusal(path, "its fill value is of variable length")
    layout = replace(old.layout, address=None)
    if layout.map == "b-tree" and not layout.numbers[0]:  # the prototype does not store the node size
        layout = replace(layout, numbers=MAP_NUMBERS["b-tree"])
    new = replace(old, layout=layout, attributes=portable_attributes(source, messages, path))
    if layout.map == "single":
        new = replace(new, layout=replace(layout, single=empty_single(new)[1]))
    return MovingArray(source, old, new)


def _refusal(path: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"{path} cannot be copied, so nothing is: {why}", feature="copying every object of a file", path=path
    )


def _put(editor: Editor, header: int, array: MovingArray) -> None:
    put_dataset(editor, header, array.new)
    moved = []
    for record in array.records():
        check_record(array.source, array.old, record)
        data = array.source.read(record.address, record.size, f"chunk {record.grid}")
        moved.append(replace(record, address=editor.append(lambda _, data=data: data)))  # type: ignore[misc]
    editor.renew()
    put_records(editor, header, array.new, sorted(moved, key=lambda record: record.grid))
