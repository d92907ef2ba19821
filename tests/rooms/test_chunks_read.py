"""Reading rows of a column reads the chunks that hold them, and no other: counted, byte by byte.

The file is opened through a Python file object that notes every read; h5py says where each chunk
lies. A chunk counts as touched when any byte of it was read.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade import limits

ROWS = 1_050
CHUNK_ROWS = {"a": 100, "b": 64, "c": 500, "d": 100}
VALUES = {
    "a": np.arange(ROWS, dtype="i8") * 3,
    "b": np.arange(ROWS, dtype="f8") / 7,
    "c": np.array([f"row {row}" for row in range(ROWS)], dtype="S8"),
    "d": (np.arange(ROWS) % 251).astype("u1"),
}
FILTERS: dict[str, dict[str, Any]] = {"a": {}, "b": {"shuffle": True, "compression": "gzip"}, "c": {}, "d": {}}
Touched = dict[str, set[int]]
MARK = 308  # bytes at the end of a file, where half a commit would be marked: read once, when it is opened


class Recorder(io.BufferedIOBase):
    """A file object for reading that notes offset and length of everything read from it."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)
        self.reads: list[tuple[int, int]] = []
        self.mark = (len(data) - MARK, MARK)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._data.seek(offset, whence)

    def tell(self) -> int:
        return self._data.tell()

    def readinto(self, buffer: Any) -> int:
        start = self._data.tell()
        count = self._data.readinto(buffer)
        self.reads.append((start, count))
        return count

    def read(self, size: int | None = -1) -> bytes:
        start = self._data.tell()
        found = self._data.read(size)
        self.reads.append((start, len(found)))
        return found


@pytest.fixture(scope="module")
def file_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A table of four columns whose chunks differ in length and filters, made by h5py."""
    path: Path = tmp_path_factory.mktemp("chunks") / "t.h5"
    with h5py.File(path, "w") as h5:
        group = h5.create_group("t")
        group.attrs["CLASS"] = np.bytes_(b"COLUMN_TABLE")
        group.attrs["VERSION"] = np.bytes_(b"1.0")
        group.attrs["column-order"] = np.array([b"a", b"b", b"c", b"d"])
        for name, values in VALUES.items():
            group.create_dataset(name, data=values, chunks=(CHUNK_ROWS[name],), **FILTERS[name])
    return path.read_bytes()


@pytest.fixture(scope="module")
def chunk_bytes(file_bytes: bytes) -> dict[str, dict[int, tuple[int, int]]]:
    """For each column and chunk number: where the chunk's bytes begin and end in the file."""
    places = {}
    with h5py.File(io.BytesIO(file_bytes)) as h5:
        for name, chunk_rows in CHUNK_ROWS.items():
            dataset = h5[f"t/{name}"].id
            infos = [dataset.get_chunk_info(i) for i in range(dataset.get_num_chunks())]
            places[name] = {i.chunk_offset[0] // chunk_rows: (i.byte_offset, i.byte_offset + i.size) for i in infos}
    return places


@contextmanager
def recorded(data: bytes, warm: bool = True) -> Iterator[tuple[Recorder, Any]]:
    """The table, opened through a recorder; what opening reads is forgotten when `warm`."""
    stream = Recorder(data)
    with cn.open(stream, n_threads=1) as file:  # more threads read ahead
        table = file["t"]
        if warm:
            stream.reads.clear()
        yield stream, table


def touched(stream: Recorder, places: dict[str, dict[int, tuple[int, int]]]) -> Touched:
    """The chunks, by column, of which at least one byte was read; columns without any are left out."""
    found = {}
    reads = [(start, count) for start, count in stream.reads if (start, count) != stream.mark]
    for name, chunks in places.items():
        hit = {
            number
            for number, (first, last) in chunks.items()
            if any(start < last and start + count > first for start, count in reads)
        }
        if hit:
            found[name] = hit
    return found


def expected_chunks(name: str, rows: list[int]) -> set[int]:
    """The chunks that hold these rows, by plain arithmetic."""
    return {row // CHUNK_ROWS[name] for row in rows}


def test_the_chunks_are_as_many_as_the_rows_say(chunk_bytes: dict[str, dict[int, tuple[int, int]]]) -> None:
    """The counting below means something: chunks are all stored, apart from each other."""
    assert {name: len(chunks) for name, chunks in chunk_bytes.items()} == {"a": 11, "b": 17, "c": 3, "d": 11}
    spans = sorted(span for chunks in chunk_bytes.values() for span in chunks.values())
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_reading_everything_touches_every_chunk(
    file_bytes: bytes, chunk_bytes: dict[str, dict[int, tuple[int, int]]]
) -> None:
    """The recorder sees what is read: a whole table touches all."""
    with recorded(file_bytes) as (stream, table):
        whole = table.to_arrow()
        assert touched(stream, chunk_bytes) == {name: set(chunks) for name, chunks in chunk_bytes.items()}
    for name in ("a", "b", "d"):
        assert whole[name].to_pylist() == VALUES[name].tolist()
    assert whole["c"].to_pylist() == [f"row {row}" for row in range(ROWS)]


SLICES = {
    "inside a chunk": slice(120, 180),
    "a whole chunk": slice(200, 300),
    "one row": slice(299, 300),
    "across one edge": slice(190, 210),
    "across several": slice(150, 460),
    "the last short chunk": slice(1_000, None),
    "negative": slice(-60, -10),
    "the first row": slice(None, 1),
    "nothing": slice(500, 500),
    "steps within chunks": slice(205, 260, 9),
    "steps larger than a chunk": slice(50, None, 300),
    "backwards": slice(640, 560, -3),
    "backwards in large steps": slice(None, None, -400),
}


@pytest.mark.parametrize("wanted", SLICES.values(), ids=SLICES)
@pytest.mark.parametrize("name", list(CHUNK_ROWS))
def test_a_slice_of_one_column_touches_its_chunks_alone(
    file_bytes: bytes, chunk_bytes: dict[str, dict[int, tuple[int, int]]], name: str, wanted: slice
) -> None:
    """Neither other columns nor other chunks of the same column are read."""
    with recorded(file_bytes) as (stream, table):
        values = table.select(name)[wanted].to_arrow()[name].to_pylist()
        chunks = expected_chunks(name, list(range(ROWS)[wanted]))
        assert touched(stream, chunk_bytes) == ({name: chunks} if chunks else {})
    assert values == as_python(name, wanted)


def as_python(name: str, rows: slice | list[int]) -> list[Any]:
    """What was written, as Python values."""
    values = VALUES[name][rows].tolist()
    return [value.decode() for value in values] if name == "c" else values


def test_a_column_is_sliced_by_the_same_rule(
    file_bytes: bytes, chunk_bytes: dict[str, dict[int, tuple[int, int]]]
) -> None:
    """column[...] reads as little as a query does."""
    with recorded(file_bytes) as (stream, table):
        values = table["b"][130:200]
        assert touched(stream, chunk_bytes) == {"b": {2, 3}}
        stream.reads.clear()
        one = table["a"][777]
        assert touched(stream, chunk_bytes) == {"a": {7}}
    np.testing.assert_array_equal(values, VALUES["b"][130:200])
    assert one == 777 * 3


@pytest.mark.parametrize(
    "rows", [[5], [1_049, 0], [350, 20, 350, 21, -1], [99, 100, 199, 200], [777, 778, 120, 119]], ids=str
)
@pytest.mark.parametrize("name", list(CHUNK_ROWS))
def test_scattered_rows_touch_the_chunks_that_hold_them(
    file_bytes: bytes, chunk_bytes: dict[str, dict[int, tuple[int, int]]], name: str, rows: list[int]
) -> None:
    """take: any order, repeats and negative numbers; the chunks between are left alone."""
    with recorded(file_bytes) as (stream, table):
        values = table.select(name).take(rows).to_arrow()[name].to_pylist()
        assert touched(stream, chunk_bytes) == {name: expected_chunks(name, [row % ROWS for row in rows])}
    assert values == as_python(name, rows)


def test_head_touches_the_first_chunk_of_each_column(
    file_bytes: bytes, chunk_bytes: dict[str, dict[int, tuple[int, int]]]
) -> None:
    """The first five rows cost one chunk a column."""
    with recorded(file_bytes) as (stream, table):
        assert table.head(5).to_arrow()["a"].to_pylist() == [0, 3, 6, 9, 12]
        assert touched(stream, chunk_bytes) == {"a": {0}, "b": {0}, "c": {0}, "d": {0}}


def test_two_columns_of_four_leave_the_others_alone(
    file_bytes: bytes, chunk_bytes: dict[str, dict[int, tuple[int, int]]]
) -> None:
    """Each column is cut by its own chunk length."""
    with recorded(file_bytes) as (stream, table):
        assert table[["d", "b"]][100:140].to_arrow().num_rows == 40
        assert touched(stream, chunk_bytes) == {"d": {1}, "b": {1, 2}}


def test_batches_touch_chunks_as_they_are_asked_for(
    file_bytes: bytes, chunk_bytes: dict[str, dict[int, tuple[int, int]]]
) -> None:
    """The first batch does not read what the second will."""
    with recorded(file_bytes) as (stream, table):
        batches = table.select("a").batches(200)
        assert touched(stream, chunk_bytes) == {}
        assert next(batches).num_rows == 200
        assert touched(stream, chunk_bytes) == {"a": {0, 1}}
        next(batches)
        assert touched(stream, chunk_bytes) == {"a": {0, 1, 2, 3}}


def test_one_chunk_is_read_once(file_bytes: bytes, chunk_bytes: dict[str, dict[int, tuple[int, int]]]) -> None:
    """Reading a whole chunk transfers its bytes one time."""
    with recorded(file_bytes) as (stream, table):
        table.select("b")[64:128].to_arrow()
        first, last = chunk_bytes["b"][1]
        inside = [count for start, count in stream.reads if start < last and start + count > first]
    assert len(inside) == 1 and inside[0] == last - first


METADATA: dict[str, Callable[[Any], object]] = {
    "len": len,
    "schema": lambda table: table.schema,
    "columns": lambda table: table.columns,
    "repr": repr,
    "repr of a query": lambda table: repr(table.select("a")[10:20]),
    "column facts": lambda table: [
        (c.dtype, c.filters, c.chunk_rows, c.fill) for c in map(table.__getitem__, table.columns)
    ],
    "attrs": lambda table: table.attrs,
    "count": lambda table: table[3:900].count(),
    "row numbers": lambda table: table[3:900].row_numbers(),
    "take, not read": lambda table: len(table.take([4, 5])),
    "an empty slice": lambda table: table[5:5].to_arrow(),
}


@pytest.mark.parametrize("ask", METADATA.values(), ids=METADATA)
def test_metadata_touches_no_chunk(
    file_bytes: bytes, chunk_bytes: dict[str, dict[int, tuple[int, int]]], ask: Callable[[Any], object]
) -> None:
    """Opening the file, describing the table and asking about it read no element."""
    with recorded(file_bytes, warm=False) as (stream, table):
        assert ask(table) is not None
        assert stream.reads
        assert touched(stream, chunk_bytes) == {}


def test_a_preview_of_a_query_touches_the_chunks_that_it_shows(
    file_bytes: bytes, chunk_bytes: dict[str, dict[int, tuple[int, int]]]
) -> None:
    """Five rows are shown: matching rows after them are neither counted nor read."""
    with limits.override(fewest_window_rows=64, most_window_rows=64), recorded(file_bytes) as (stream, table):
        html = table.select("b", "d").where("a >= 300")._repr_html_()
        assert "rows where a &gt;= 300" in html and html.count("<tr>") == 2 + 5
        found = touched(stream, chunk_bytes)
        assert found["b"] == {1} and found["d"] == {1} and found["a"] <= {0, 1}
