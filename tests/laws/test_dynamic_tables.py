"""Random DynamicTables, in the form of h5py's writer or by hdmf itself: rows are read as they were given.

Where hdmf is installed, it writes the same columns, and what it reads itself is compared too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as cn
from tests.rooms.nwb_files import add_index, make_table, quiet

HAS_HDMF = find_spec("hdmf") is not None
FLOATS = st.floats(width=32)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "<f4": FLOATS,
    ">f8": st.floats(),
    "<i2": st.integers(-(2**15), 2**15 - 1),
    "u1": st.integers(0, 255),
    ">u8": st.integers(0, 2**64 - 1),
    "?": st.booleans(),
    "text": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
}


class DrawnColumn(NamedTuple):
    """A column: the dtype of its elements, its levels of lists, the dimensions of an element, and its rows."""

    dtype: str
    depth: int
    dims: tuple[int, ...]
    rows: list[Any]
    offsets: str


@st.composite
def columns(draw: st.DrawFn, n_rows: int) -> DrawnColumn:
    dtype = draw(st.sampled_from(sorted(SCALARS)))
    depth = draw(st.integers(0, 3))
    dims = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    value: st.SearchStrategy[Any] = SCALARS[dtype]
    for length in reversed(dims):
        value = st.lists(value, min_size=length, max_size=length)
    for _ in range(depth):
        value = st.lists(value, max_size=3)
    rows = draw(st.lists(value, min_size=n_rows, max_size=n_rows))
    return DrawnColumn(dtype, depth, dims, rows, draw(st.sampled_from(["u1", "<u2", ">i4", "<u8"])))


@st.composite
def tables(draw: st.DrawFn, fewest_rows: int = 0) -> list[DrawnColumn]:
    n_rows = draw(st.integers(fewest_rows, 6))
    return draw(st.lists(columns(n_rows), min_size=1, max_size=3))


def flat(column: DrawnColumn) -> tuple[list[Any], list[list[int]]]:
    """The elements of a column, and the ends of the lists of each level, the innermost first."""
    values, ends = list(column.rows), []
    for _ in range(column.depth):
        ends.append(np.cumsum([len(row) for row in values], dtype=np.int64).tolist())
        values = [item for row in values for item in row]
    return values, ends[::-1]


def elements_of(column: DrawnColumn) -> np.ndarray:
    values = flat(column)[0]
    if column.dtype != "text":
        return np.array(values, dtype=column.dtype).reshape(len(values), *column.dims)
    array = np.empty((len(values), *column.dims), dtype=object)
    array[...] = np.array(values, dtype=object).reshape(array.shape)
    return array


def by_h5py(path: Path, drawn: Sequence[DrawnColumn], chunked: bool) -> None:
    with h5py.File(path, "w") as file:
        group = make_table(file, "t", range(len(drawn[0].rows)), [f"c{number}" for number in range(len(drawn))])
        for number, column in enumerate(drawn):
            name, (_, ends) = f"c{number}", flat(column)
            data = elements_of(column)
            dtype = h5py.string_dtype() if column.dtype == "text" else None
            options = {"chunks": (2,) * data.ndim, "maxshape": (None,) * data.ndim} if chunked else {}
            dataset = group.create_dataset(name, data=data, dtype=dtype, **options)
            dataset.attrs["namespace"], dataset.attrs["neurodata_type"] = "hdmf-common", "VectorData"
            for some_ends in ends:
                name = add_index(group, name, some_ends, column.offsets).name.rsplit("/", 1)[1]


def by_hdmf(path: Path, drawn: Sequence[DrawnColumn]) -> None:
    with quiet():
        from hdmf.backends.hdf5 import HDF5IO
        from hdmf.common import DynamicTable, VectorData, VectorIndex, get_manager

        given_columns = []
        for number, column in enumerate(drawn):
            target = VectorData(name=f"c{number}", description="drawn", data=elements_of(column))
            given_columns.append(target)
            for ends in flat(column)[1]:
                target = VectorIndex(name=f"{target.name}_index", data=np.array(ends, dtype="u1"), target=target)
                given_columns.append(target)
        identifiers = list(range(len(drawn[0].rows)))
        table = DynamicTable(
            name="root", description="d", id=identifiers, columns=given_columns,
            colnames=[f"c{number}" for number in range(len(drawn))],
        )  # fmt: skip
        with HDF5IO(path, manager=get_manager(), mode="w") as io:
            io.write(table)


def same(found: Any, given_value: Any) -> bool:
    """Whether two values are equal, NaN included."""
    if isinstance(given_value, dict):
        return same(list(found.items()), list(given_value.items()))
    if isinstance(given_value, (list, tuple)):
        return len(found) == len(given_value) and all(map(same, found, given_value))
    return bool(found == given_value) or (np.isreal(found) and bool(np.isnan(found)) and bool(np.isnan(given_value)))


def check_rows(path: Path, table_path: str, drawn: Sequence[DrawnColumn], step: int) -> None:
    for library in ("auto", "never"):
        with cn.open(path, library=library) as file:
            table = file[table_path]
            assert table.problems == () and len(table) == len(drawn[0].rows)
            whole = table.to_arrow()
            for number, column in enumerate(drawn):
                name = f"c{number}"
                assert same(whole[name].to_pylist(), column.rows)
                assert same(table[::-step].to_arrow()[name].to_pylist(), column.rows[::-step])
                rows = np.arange(len(table))[::2][::-1]
                assert same(table.take(rows).to_arrow()[name].to_pylist(), [column.rows[row] for row in rows])
                assert same(table.where(f"id >= {step}").to_arrow()[name].to_pylist(), column.rows[step:])
                batches = [batch.column(name).to_pylist() for batch in table.batches(rows=step)]
                assert same([row for batch in batches for row in batch], column.rows)
    assert list(cn.check(path, deep=True)) == []
    with cn.open(path, "r+") as file:
        assert same(file[table_path].to_arrow().to_pylist(), whole.to_pylist())


@settings(max_examples=60, deadline=None)
@given(tables(), st.booleans(), st.integers(1, 3))
def test_tables_are_read_as_they_were_given(drawn: list[DrawnColumn], chunked: bool, step: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.h5")
        by_h5py(path, drawn, chunked)
        check_rows(path, "t", drawn, step)


@pytest.mark.skipif(not HAS_HDMF, reason="hdmf is not installed")
@settings(max_examples=25, deadline=None)
@given(tables(fewest_rows=1), st.integers(1, 3))
def test_tables_of_hdmf_are_read_as_they_were_given(drawn: list[DrawnColumn], step: int) -> None:
    """Not without rows: of such, hdmf does not store the names of the columns."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.h5")
        by_hdmf(path, drawn)
        check_rows(path, "/", drawn, step)


@settings(max_examples=25, deadline=None)
@given(tables())
def test_tables_are_converted_without_loss(drawn: list[DrawnColumn]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, new = Path(folder, "a.h5"), Path(folder, "new.h5")
        by_h5py(path, drawn, chunked=False)
        done = cn.convert(path, new, layout="hep001")
        left_out = [name for name in (f"c{number}" for number in range(len(drawn))) if f"'{name}'" in str(done.notes)]
        table = cn.open_table(new, "t")
        for number, column in enumerate(drawn):
            if f"c{number}" not in left_out:
                assert same(table[f"c{number}"].to_arrow().to_pylist(), column.rows)
        assert left_out == [] and cn.check(new, deep=True).errors == []
