"""Law: any bytes are read to cells or to an error of ours. Nothing else is raised, and memory stays in bounds.

Checksums are not looked at here, so that what lies behind them meets wrong bytes too.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import ColonnadeError, CorruptError
from colonnade.format.source import HDF5Source

from ..rooms.sparse_files import EA, SparseFile, some_cells
from ..rooms.test_sparse import COMPOUND, DIALECTS, FILTERS, MAPS, SELECTIONS, TEXT, file_for, heap_of, reference


def make_files() -> dict[str, bytes]:
    made = {
        f"{dialect} {chunk_map} {filters}": file_for(chunk_map, dialect=dialect, filters=FILTERS[filters])
        for dialect in DIALECTS
        for chunk_map in MAPS
        for filters in ("none", "deflate both")
    }
    made |= {selection: file_for("fixed array", selection=selection) for selection in SELECTIONS}
    words = {(1, 1): reference(4, 1), (2, 3): reference(0, 2), (7, 8): reference(1, 3)}
    text = file_for("single", cells=words, type=3, datatype=TEXT)
    made["text"] = replace(text, element_size=16, heap=heap_of([b"muon", b"", b"x"]))
    cells = some_cells((60, 60), 0.02)
    made["tree"] = SparseFile((60, 60), (4, 6), cells, map="b-tree", max_shape=(None, None), node_size=128)
    pairs = {place: bytes(12) for place in some_cells((8, 8), 0.2)}
    made["compound"] = SparseFile((8, 8), (4, 4), pairs, datatype=COMPOUND, element_size=12)
    rows = {(row,): struct.pack("<i", row) for row in (0, 7, 9, 300, 1500)}
    paged = EA | {"page_bits": 6}
    made["paged"] = SparseFile((2000,), (2,), rows, map="extensible array", max_shape=(None,), ea=paged)
    return {name: file.in_new_file() for name, file in made.items()}


FILES = make_files()
NUMBERS = [b"\xff" * 4, bytes(4), b"\xff\xff\xff\x7f", b"\xff" * 8, bytes(8), (1 << 40).to_bytes(8, "little")]


def unsummed(self: HDF5Source, data: bytes, address: int, what: str) -> bytes:
    if len(data) < 4:
        raise CorruptError("too short")
    return data[:-4]


@st.composite
def broken_files(draw: st.DrawFn) -> bytes:
    data = bytearray(FILES[draw(st.sampled_from(sorted(FILES)))])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data) - 1))
        put = draw(st.one_of(st.binary(min_size=1, max_size=2), st.sampled_from(NUMBERS)))[: len(data) - at]
        data[at : at + len(put)] = put
    return bytes(data)


@given(broken_files())
def test_any_bytes_are_cells_or_an_error_of_ours(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HDF5Source, "verified", unsummed)
        try:
            with cn.open_sparse(data, "sparse", n_threads=1) as array:
                shape: tuple[int, ...] = array.shape
                coords, values = array.cells()
                counted: Any = array.n_defined
        except ColonnadeError:
            return
    assert len(coords) == len(values) == counted
    assert coords.shape == (len(values), len(shape))
    assert ((coords >= 0) & (coords < shape)).all()
