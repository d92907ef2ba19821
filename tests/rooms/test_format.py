"""The parsers of `format/` alone: messages and heaps of files that libhdf5 wrote, and what it would not survive."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5o

from colonnade.errors import CorruptError
from colonnade.format.attributes import attribute_name, decode_attribute
from colonnade.format.global_heap import EndlessCollection, HeapObject, decode_collection, walk_collection
from colonnade.format.headers import ATTRIBUTE, LAYOUT, PIPELINE, SYMBOL_TABLE, Message, find, iter_messages
from colonnade.format.layout import decode_storage
from colonnade.format.links import LocalHeap, read_local_heap, read_symbol_table
from colonnade.format.pipelines import decode_pipeline
from colonnade.format.source import Fields, HDF5Source
from colonnade.format.superblock import read_superblock
from colonnade.pager.sources import BufferBytes

FORMS = ["earliest", "v110"]
HEAD = b"GCOL\x01\0\0\0"


def written(path: Path, form: str, **options: Any) -> tuple[HDF5Source, list[Message]]:
    """A file with one dataset "x", and the messages of its header."""
    with h5py.File(path, "w", libver=form, userblock_size=512) as file:
        made = file.create_dataset("x", (40, 30), "<f8", **options)
        made.attrs["unit"] = np.arange(3, dtype="<i4")
        address = h5o.get_info(made.id).addr
    source = read_superblock(BufferBytes(path.read_bytes()))[1]
    return source, list(iter_messages(source, address))


def fields(messages: list[Message], kind: int) -> Fields:
    message = find(messages, kind)
    assert message is not None
    return Fields(message.data, "message")


@pytest.mark.parametrize("form", FORMS)
def test_chunks_filters_and_attributes_are_those_that_were_written(tmp_path: Path, form: str) -> None:
    options = {"chunks": (7, 11), "shuffle": True, "compression": "gzip", "compression_opts": 4, "fletcher32": True}
    _, messages = written(tmp_path / "x.h5", form, **options)
    storage = decode_storage(fields(messages, LAYOUT))
    assert (storage.storage, storage.chunk, storage.has_options) == ("chunked", (7, 11), False)
    assert [(step.id, step.options) for step in decode_pipeline(fields(messages, PIPELINE))] == [
        (2, (8,)),
        (1, (4,)),
        (3, ()),
    ]
    attribute = decode_attribute(fields(messages, ATTRIBUTE))
    assert attribute_name(attribute) == "unit"
    assert np.frombuffer(attribute.elements, "<i4", 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize("form", FORMS)
def test_a_filter_with_a_name_is_read_to_its_end(tmp_path: Path, form: str) -> None:
    """LZF has a name, three options and, in the old form, padding after both."""
    _, messages = written(tmp_path / "x.h5", form, chunks=(7, 11), compression="lzf", fletcher32=True)
    found = decode_pipeline(fields(messages, PIPELINE))
    assert [step.id for step in found] == [32000, 3] and len(found[0].options) == 3


@pytest.mark.parametrize("form", FORMS)
def test_a_contiguous_dataset_is_one(tmp_path: Path, form: str) -> None:
    assert decode_storage(fields(written(tmp_path / "x.h5", form)[1], LAYOUT)).storage == "contiguous"


def test_every_cut_of_a_message_is_refused(tmp_path: Path) -> None:
    _, messages = written(tmp_path / "x.h5", "earliest", chunks=(7, 11), compression="lzf")
    for kind, decode in ((LAYOUT, decode_storage), (PIPELINE, decode_pipeline), (ATTRIBUTE, decode_attribute)):
        data = find(messages, kind)
        assert data is not None
        for length in range(8):
            with pytest.raises(CorruptError):
                decode(Fields(data.data[:length], "message"))


def test_names_of_an_old_group_are_in_a_heap_that_ends(tmp_path: Path) -> None:
    written(tmp_path / "x.h5", "earliest")
    block, source = read_superblock(BufferBytes((tmp_path / "x.h5").read_bytes()))
    table = find(list(iter_messages(source, block.root)), SYMBOL_TABLE)
    assert table is not None and block.root_heap == read_symbol_table(source, table)[1]
    heap = read_local_heap(source, block.root_heap)
    assert b"x\0" in heap.data and not heap.is_endless
    with pytest.raises(CorruptError, match="more than the 8 expected"):
        read_local_heap(source, block.root_heap, most_bytes=8)


def test_free_blocks_that_form_a_circle_are_seen() -> None:
    ends = struct.pack("<4Q", 0, 0, 1, 16)  # a block at 16, which is the last one
    circle = struct.pack("<6Q", 0, 0, 32, 16, 16, 16)  # blocks at 16 and 32, each of which leads to the other
    assert not LocalHeap(ends, 16).is_endless
    assert LocalHeap(circle, 16).is_endless


def objects(*sizes: tuple[int, int]) -> bytes:
    return b"".join(
        struct.pack("<HH4xQ", number, 1, size) + bytes((size + 7) // 8 * 8 if number else 0) for number, size in sizes
    )


def test_objects_of_a_collection_are_walked_in_the_steps_of_libhdf5() -> None:
    data = objects((1, 5), (2, 0), (0, 16), (3, 8))
    walked = list(walk_collection(lambda at, n_bytes: data[at : at + n_bytes], 0, len(data)))
    assert walked == [HeapObject(1, 16, 5), HeapObject(2, 40, 0), HeapObject(0, 56, 16), HeapObject(3, 72, 8)]


@pytest.mark.parametrize(
    ("last", "error"),
    [((0, 0), EndlessCollection), ((7, 2**64 - 16), EndlessCollection), ((7, 1000), CorruptError)],
)
def test_a_collection_that_cannot_be_walked_is_refused(last: tuple[int, int], error: type[Exception]) -> None:
    data = objects((1, 5)) + struct.pack("<HH4xQ", last[0], 1, last[1]) + bytes(32)
    with pytest.raises(error):
        list(walk_collection(lambda at, n_bytes: data[at : at + n_bytes], 0, len(data)))


def test_free_space_ends_a_collection_and_bad_objects_do_not_pass() -> None:
    what = Fields(b"", "a test")

    def collection(body: bytes) -> memoryview:
        return memoryview(HEAD + struct.pack("<Q", 16 + len(body)) + body)

    assert decode_collection(collection(objects((1, 5), (0, 0)) + bytes(64)), what) == {1: bytes(5)}
    for bad in ((1, 8), (2, 2**64 - 16), (2, 1 << 20)):
        with pytest.raises(CorruptError, match="does not fit"):
            decode_collection(collection(objects((1, 5)) + struct.pack("<HH4xQ", bad[0], 1, bad[1]) + bytes(8)), what)
