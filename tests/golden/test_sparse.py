"""Sectioned datasets that a rebuild of the public prototype wrote: read to exactly the expected elements, and broken
at every byte: an error or the right answer.

`sparse/manifest.json` says what is in each file; each `.npz` holds the coordinates and values of its defined elements.
The usual run breaks every fifteenth byte of each file (others in each), COLONNADE_EXAMPLES=long every one.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ColonnadeError

FOLDER = Path(__file__).parent / "sparse"
MANIFEST = {entry["file"]: entry for entry in json.loads((FOLDER / "manifest.json").read_text())}
MAPS = {"single": "single", "farray": "fixed array", "earray": "extensible array", "bt2": "b-tree"}
STRIDE = 1 if os.environ.get("COLONNADE_EXAMPLES") == "long" else 15
UNSUMMED = 1400  # superblock 0, old group and old object header: no checksum covers the bytes before this one
CHUNK = re.compile(r"chunk ([\d ]+) addr=(\d+) size=(\d+) off1=(\d+)")


def expected(file: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Coordinates and values in row-major order."""
    entry = MANIFEST[file]
    with np.load(FOLDER / entry["npz"]) as stored:
        coords, values = stored["coords"].reshape(-1, len(entry["shape"])), stored["values"]
    order = np.lexsort(coords.T[::-1])
    return coords[order], values[order]


@pytest.mark.parametrize("file", MANIFEST)
def test_all_samples_are_read(file: str) -> None:
    entry = MANIFEST[file]
    coords, values = expected(file)
    with cn.open_sparse(FOLDER / file, entry["dataset"]) as array:
        found_coords, found_values = array.cells()
        assert np.array_equal(found_coords, coords)
        assert found_values.dtype == values.dtype and np.array_equal(found_values, values)
        assert array.shape == tuple(entry["shape"]) and array.chunks == tuple(entry["chunk"])
        assert array.max_shape == tuple(entry["maxshape"])
        assert array.dtype == values.dtype
        assert array.n_defined == entry["defined"] == len(values)
        assert array.info.layout.map == MAPS[entry["index"]]
        assert array.info.layout.dialect == "prototype"
        assert array.info.layout.type == entry["structured_chunk_type"]
        dense = np.zeros(array.shape, dtype=values.dtype)
        dense[tuple(coords.T)] = values
        assert np.array_equal(array[...], dense)
        mask = np.zeros(array.shape, dtype=bool)
        mask[tuple(coords.T)] = True
        assert np.array_equal(array.defined(), mask)


@pytest.mark.parametrize("file", MANIFEST)
def test_the_manifest_and_the_records_agree(file: str) -> None:
    """Filters by section, and the chunks in the order of their places."""
    entry = MANIFEST[file]
    with cn.open_sparse(FOLDER / file, entry["dataset"]) as array:
        named = ["+".join(step.name for step in steps) or None for steps in array.filters]
        said = [text and text.split(":")[0] for _, text in sorted(entry["filters"].items())]
        assert named == said
        listed = sum(line.startswith("chunk") for line in entry["chunks"])
        assert listed in (array.n_chunks, 40)  # the manifest lists so many at most


def boxes(shape: list[int]) -> list[tuple[slice, ...]]:
    generator = np.random.default_rng(7)
    made = []
    for _ in range(12):
        ends = [sorted(generator.integers(0, size + 1, 2).tolist()) for size in shape]
        made.append(tuple(slice(low, high, int(generator.integers(1, 4))) for low, high in ends))
    return made


@pytest.mark.parametrize("file", MANIFEST)
def test_boxes(file: str) -> None:
    """Any part is that part of the whole."""
    entry = MANIFEST[file]
    with cn.open_sparse(FOLDER / file, entry["dataset"], n_threads=1) as array:
        dense, mask = array[...], array.defined()
        for box in boxes(entry["shape"]):
            assert np.array_equal(array[box], dense[box]), box
            assert np.array_equal(array.defined(box), mask[box]), box
            coords, values = array.cells(box)
            inside = np.zeros(array.shape, dtype=bool)
            inside[box] = True
            assert np.array_equal(coords, np.argwhere(mask & inside)), box
            assert np.array_equal(values, dense[tuple(coords.T)]), box
        assert sum(len(values) for _, values in array.iter_cells()) == mask.sum()


def values_sections(file: str, data: bytes) -> np.ndarray[Any, Any]:
    """Which bytes of a file are those of section 1, which no checksum of the format covers."""
    found = np.zeros(len(data), dtype=bool)
    for line in MANIFEST[file]["chunks"]:
        match = CHUNK.match(line)
        if match:
            _, address, size, start = match.groups()
            found[int(address) + int(start) : int(address) + int(size)] = True
    return found


def section_0_of(file: str) -> dict[range, tuple[slice, ...]]:
    """Where the sections 0 of a file lie, and the boxes of their chunks."""
    found = {}
    for line in MANIFEST[file]["chunks"]:
        match = CHUNK.match(line)
        if match:
            grid = [int(one) for one in match[1].split()]
            sizes = zip(grid, MANIFEST[file]["chunk"], strict=True)
            box = tuple(slice(at * size, (at + 1) * size) for at, size in sizes)
            found[range(int(match[2]), int(match[2]) + int(match[4]))] = box
    return found


SMALL = [file for file in MANIFEST if (FOLDER / file).stat().st_size < 8000]
LARGE = [file for file in MANIFEST if file not in SMALL]


def look(data: bytes, box: tuple[slice, ...] | None) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """The cells of a box, or None for an error of ours; any other error fails the test."""
    try:
        with cn.open_sparse(data, "sparse", n_threads=1) as array:
            return array.cells(box)
    except ColonnadeError:
        return None


def check_broken(file: str, places: list[int]) -> None:
    data = (FOLDER / file).read_bytes()
    values, sections = values_sections(file, data), section_0_of(file)
    unsummed = UNSUMMED if MANIFEST[file]["libver"] == "default" and data[8] == 0 else 0
    right: dict[int, Any] = {}
    for place in places:
        lies = next((box for span, box in sections.items() if place in span), None)
        key = id(lies)
        if key not in right:
            right[key] = look(data, lies)
        broken = bytearray(data)
        broken[place] ^= 0xFF if place % 3 else 1 << place % 8
        found = look(bytes(broken), lies)
        if found is None or values[place] or place < unsummed:
            continue
        assert np.array_equal(found[0], right[key][0]), f"byte {place}"
        assert np.array_equal(found[1], right[key][1]), f"byte {place}"


@pytest.mark.parametrize("file", SMALL)
def test_a_broken_byte_is_an_error_or_harmless(file: str) -> None:
    size = (FOLDER / file).stat().st_size
    check_broken(file, list(range(list(MANIFEST).index(file) % STRIDE, size, STRIDE)))


@pytest.mark.parametrize("file", LARGE)
def test_a_broken_byte_of_a_large_file_is_an_error_or_harmless(file: str) -> None:
    """Of chunks that the manifest does not list, only what is in front of the values is told apart: the index."""
    data = (FOLDER / file).read_bytes()
    summed = np.zeros(len(data), dtype=bool)
    for match in re.finditer(b"FAHD|FADB|EAHD|EAIB|EASB|EADB|BTHD|BTLF|BTIN", data):
        summed[match.start() : match.start() + 40] = True
    for span in section_0_of(file):
        summed[span.start : span.stop] = True
    places = np.flatnonzero(summed)
    check_broken(file, places[list(MANIFEST).index(file) % STRIDE :: STRIDE * (1 if STRIDE == 1 else 8)].tolist())


@pytest.mark.skipif(STRIDE != 1, reason="some ten minutes of flips: COLONNADE_EXAMPLES=long")
@pytest.mark.parametrize("file", LARGE)
def test_every_byte_of_a_large_file_but_its_values(file: str) -> None:
    """Section 0 of every chunk, the whole index, layout message and headers.

    A byte of section 0 must show when its chunk is read; of any other, description and records of all chunks are the
    same, or what is read is.
    """
    check_every_byte(file, 1)


@pytest.mark.parametrize("file", LARGE)
def test_some_bytes_of_a_large_file_but_its_values(file: str) -> None:
    check_every_byte(file, 401)


def check_every_byte(file: str, stride: int) -> None:
    data = (FOLDER / file).read_bytes()
    unsummed = UNSUMMED if MANIFEST[file]["libver"] == "default" and data[8] == 0 else 0
    with cn.open_sparse(data, "sparse", n_threads=1) as array:
        right, records, cells = array.info, array.records(), array.cells()
    boxes_of, values = np.full(len(data), -1), np.zeros(len(data), dtype=bool)
    for number, record in enumerate(records):
        boxes_of[record.address : record.address + record.bounds[1]] = number
        values[record.address + record.bounds[1] : record.address + record.bounds[-1]] = True
    for place in range(unsummed, len(data), stride):
        if values[place]:
            continue
        broken = bytearray(data)
        broken[place] ^= 0xFF if place % 3 else 1 << place % 8
        number = int(boxes_of[place])
        if number >= 0:
            sizes = zip(records[number].grid, right.layout.chunk, strict=True)
            box = tuple(slice(at * size, (at + 1) * size) for at, size in sizes)
            assert look(bytes(broken), box) is None, f"byte {place}"
        elif described(bytes(broken)) not in (None, (right, records)):
            found = look(bytes(broken), None)
            same = found is None or all(np.array_equal(one, other) for one, other in zip(found, cells, strict=True))
            assert same, f"byte {place}"


def described(data: bytes) -> tuple[Any, Any] | None:
    try:
        with cn.open_sparse(data, "sparse", n_threads=1) as array:
            return array.info, array.records()
    except ColonnadeError:
        return None


@pytest.mark.parametrize("file", SMALL)
def test_a_file_cut_short_is_an_error_or_harmless(file: str) -> None:
    data = (FOLDER / file).read_bytes()
    right = look(data, None)
    assert right is not None
    for size in range(0, len(data), 37):
        found = look(data[:size], None)
        assert found is None or (np.array_equal(found[0], right[0]) and np.array_equal(found[1], right[1])), size
