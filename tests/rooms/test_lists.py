"""The form Lists: offsets and values, written and read, nested, missing, empty, and with wrong offsets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.columns.lists import ListsWriter, WrittenLists
from colonnade.columns.raw import Companions
from colonnade.columns.read import ColumnReader
from colonnade.columns.writer import WrittenColumn
from colonnade.errors import CorruptError, FormatError
from colonnade.h5.datasets import describe_dataset
from colonnade.h5.handles import LibraryDataset, LibraryGroup
from colonnade.model import ColumnInfo, ColumnOptions, Lists, Masked
from tests.conftest import SetLimits

CHUNK = 4
ROWS: dict[str, pa.Array] = {
    "numbers": pa.array([[1, 2], [], [3], [], [4, 5, 6], [7]] * 3 + [[8]], pa.list_(pa.int32())),
    "missing": pa.array([[1.5], None, [], [2.5, None], None, [3.5]] * 3, pa.list_(pa.float64())),
    "strings": pa.array([["a", "é"], [""], None, [], ["long " * 9, None]] * 3, pa.list_(pa.string())),
    "nested": pa.array([[[1], [], [2, 3]], [], None, [[4]], [None, [5, 6]]] * 3, pa.list_(pa.list_(pa.int64()))),
    "empty lists": pa.array([[]] * 9, pa.list_(pa.int8())),
    "no rows": pa.array([], pa.list_(pa.string())),
    "all missing": pa.array([None] * 5, pa.list_(pa.int16())),
}


def described(written: WrittenColumn | WrittenLists, name: str) -> tuple[ColumnInfo, Any, Any]:
    """The description, the dataset and the companion of what was written."""
    rows = written.offsets if isinstance(written, WrittenLists) else written
    info = describe_dataset(rows.dataset)
    column = ColumnInfo(name, info.type, rows.n_rows, info.storage, info.chunk_rows, info.filters, rows.form.fill)
    if isinstance(written, WrittenColumn):
        return column, rows.dataset, None
    items, values, inner = described(written.values, f"{name} (values)")
    companion: Any = Companions(values, inner)
    if written.mask is not None:
        companion = Companions(written.mask.dataset, companion)
    form = Lists(items) if written.mask is None else Masked(Lists(items))
    return replace(column, form=form, fill=None), rows.dataset, companion


def write(group: h5py.Group, rows: pa.Array, batch: int = 5) -> ColumnReader:
    writer = ListsWriter("x", rows.type, ColumnOptions(chunk_rows=CHUNK))
    writer.start(LibraryGroup.of(group.id), rows.slice(0, batch), None, CHUNK)
    for start in range(0, len(rows), batch):
        writer.write(rows.slice(start, batch))
    return ColumnReader(*described(writer.finish(), "x"))


@pytest.fixture
def file(tmp_path: Path) -> Any:
    with h5py.File(tmp_path / "x.h5", "w") as opened:
        yield opened


@pytest.mark.parametrize("name", ROWS)
def test_lists_are_read_as_they_were_written(file: h5py.File, name: str) -> None:
    rows = ROWS[name]
    reader, n = write(file, rows), len(rows)
    assert reader.kind == rows.type and reader.domain is None
    assert reader.read(0, n).to_pylist() == rows.to_pylist()
    for start in range(n):
        count = min(CHUNK, n - start)
        assert reader.read(start, count).to_pylist() == rows.slice(start, count).to_pylist()
    for some in (np.arange(0, n, 2), np.arange(n)[-1:], np.arange(n)[1:3], np.array([], dtype=np.int64)):
        assert reader.take(some).to_pylist() == [rows[int(row)].as_py() for row in some]
    strided = reader.read(0, (n + 2) // 3, 3)
    assert strided.to_pylist() == rows.to_pylist()[::3]


def test_the_form_says_what_is_inside(file: h5py.File) -> None:
    column = write(file, ROWS["nested"]).column
    assert isinstance(column.form, Masked) and isinstance(column.form.of, Lists)
    inner = column.form.of.items.row_form
    assert isinstance(inner, Lists) and inner.items.type.kind == "integer"
    assert isinstance(write(file.create_group("all"), ROWS["numbers"]).column.form, Lists)


def test_offsets_may_begin_with_the_first(file: h5py.File) -> None:
    """Arrow and Awkward Array store one offset more than there are lists."""
    rows = ROWS["numbers"]
    reader = write(file, rows)
    offsets = np.concatenate(([0], file["x"][:]))
    file.create_dataset("longer", data=offsets.astype("u4"), chunks=(CHUNK,))
    again = ColumnReader(reader.column, LibraryDataset.of(file["longer"].id), LibraryDataset.of(file["x_values"].id))
    assert again.read(3, 7).to_pylist() == rows.slice(3, 7).to_pylist()
    assert again.take(np.array([0, 5, 18])).to_pylist() == [rows[row].as_py() for row in (0, 5, 18)]


def test_pieces_have_few_elements(file: h5py.File, set_limits: SetLimits) -> None:
    set_limits(piece_bytes=12)
    pieces = list(write(file, ROWS["numbers"]).pieces(0, 19))
    assert [a for a, _ in pieces] == [0, *(b for _, b in pieces[:-1])] and pieces[-1][1] == 19
    sizes = [sum(map(len, ROWS["numbers"].slice(a, b - a).to_pylist())) for a, b in pieces]
    assert max(sizes) == 3 and len(pieces) > 6


def test_pieces_of_nested_lists_have_few_elements(file: h5py.File, set_limits: SetLimits) -> None:
    """One list of many lists, or of long ones: the elements count, at every level."""
    rows = pa.array([[[0] * 100] * 3, [[1]], [[]] * 200, [[2], [3]], [[4] * 50]], pa.list_(pa.list_(pa.int64())))
    reader = write(file, rows)
    assert reader.lists is not None
    sizes = reader.lists.element_bytes(range(5)).tolist()
    assert sizes == [3 * 4 + 300 * 8, 4 + 8, 200 * 4, 2 * 4 + 2 * 8, 4 + 50 * 8]
    assert reader.lists.element_bytes(np.array([4, 0])[::-1]).tolist() == [sizes[0], sizes[4]]
    set_limits(piece_bytes=500)
    assert list(reader.pieces(0, 5)) == [(0, 1), (1, 2), (2, 3), (3, 5)]
    set_limits(piece_bytes=10_000)
    assert list(reader.pieces(0, 5)) == [(0, 5)]


def test_the_size_of_lists_with_a_mask_is_known(file: h5py.File) -> None:
    reader = write(file, ROWS["missing"])
    assert isinstance(reader.column.form, Masked) and reader.lists is not None
    assert reader.lists.element_bytes(range(6)).tolist() == [8, 0, 0, 16, 0, 8]


@pytest.mark.parametrize("name", ["x", "x_values"])
@pytest.mark.parametrize("ends", [[5, 1, 9], [-3, 4, 2], [1 << 40, 1 << 41, 1 << 42]])
def test_wrong_offsets_of_nested_lists_are_errors(file: h5py.File, name: str, ends: list[int]) -> None:
    reader = write(file, ROWS["nested"])
    file[name][1:4] = ends
    assert reader.lists is not None
    assert len(reader.lists.element_bytes(range(15))) == 15  # the size of what is wrong does not matter
    for read in (lambda: reader.read(0, 15), lambda: reader.take(np.array([0, 3, 9]))):
        with pytest.raises(CorruptError) as error:
            read()
        assert error.value.column is not None and error.value.column.startswith("x")
    assert len(reader.read_where_possible(0, 15)) == 15


@pytest.mark.parametrize(("row", "end"), [(2, 1), (18, 99), (4, -1)])
def test_wrong_offsets_are_reported_by_row(file: h5py.File, row: int, end: int) -> None:
    reader = write(file, ROWS["numbers"])
    file["x"][row] = end
    with pytest.raises(CorruptError) as error:
        reader.read(0, 19)
    assert error.value.column == "x" and error.value.row in (row, row + 1)
    read = reader.read_where_possible(0, 19).to_pylist()
    assert (
        read[row] is None
        and sum(value is None for value in read) <= 2
        and read[:row] == ROWS["numbers"].to_pylist()[:row]
    )


def test_a_wrong_number_of_offsets_is_refused(file: h5py.File) -> None:
    reader = write(file, ROWS["numbers"])
    file.create_dataset("short", data=np.zeros(7, dtype="i8"))
    file.create_dataset("floats", data=np.zeros(19))
    for name in ("short", "floats"):
        with pytest.raises(FormatError, match="no offsets"):
            ColumnReader(reader.column, LibraryDataset.of(file[name].id), LibraryDataset.of(file["x_values"].id))


def test_elements_that_cannot_be_read_are_reported_by_their_own_rows(tmp_path: Path) -> None:
    """Those of the chunk that is damaged, which are no rows of the column: far more of them may be there."""
    path = tmp_path / "a.h5"
    lists = pa.array([[row, row] for row in range(400)], pa.list_(pa.int32()))
    cn.write(path, {"l": lists}, "t", layout="h5col", columns={"l": cn.column(chunk_rows=64, filters="fletcher32")})
    with h5py.File(path) as h5:
        chunk = h5["t/l/VALUES"].id.get_chunk_info(12)
        assert chunk.chunk_offset == (768,)
    data = bytearray(path.read_bytes())
    data[chunk.byte_offset] ^= 1
    path.write_bytes(data)
    with cn.open(path) as file:
        table = file["t"]
        for ask in (
            table.to_arrow,
            table.take([0, 150, 399]).to_arrow,
            table.take([399, 0]).to_arrow,
            table[390:].to_arrow,
        ):
            with pytest.raises(CorruptError) as caught:
                ask()
            assert (caught.value.column, caught.value.path) == ("l (elements)", "/t/l/VALUES")
            assert caught.value.row is not None and caught.value.row >= 768
        assert table["l"].to_arrow(errors="missing").null_count == 16
        assert table[:380].to_arrow().num_rows == 380
