"""Sparse arrays written: every dialect, chunk map and filter read back, and everything else in the file untouched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import CorruptError, DataError, UnsupportedError, UsageError
from colonnade.pager.marks import journal_path
from colonnade.sparse import find_sparse, verify_sparse

from .sparse_decoder import Decoder
from .sparse_files import DIES_IN_COMMIT

SHAPE = (50, 70)
FILTERS: dict[str, Any] = {
    "none": None,
    "deflate": "deflate",
    "zstd, values": {1: "shuffle+zstd"},
    "both": {0: "shuffle+deflate:9", 1: "shuffle+deflate:1+fletcher32"},
}
LIMITS: dict[str, tuple[tuple[int | None, ...], tuple[int, int]]] = {
    "single": (SHAPE, SHAPE),
    "fixed array": (SHAPE, (8, 9)),
    "extensible array": ((50, None), (8, 9)),
    "b-tree": ((None, None), (3, 4)),
}


class Model:
    """What an array should hold."""

    def __init__(self, shape: tuple[int, ...], dtype: str, fill: Any) -> None:
        self.values = np.full(shape, fill, dtype=dtype)
        self.mask = np.zeros(shape, dtype=bool)
        self.fill = fill

    def write(self, mask: Any, values: Any) -> None:
        self.values[mask], self.mask[mask] = values, True

    def erase(self, what: Any) -> None:
        self.values[what], self.mask[what] = self.fill, False

    def check_bytes(self, path: Path, name: str, dialect: str = "sectioned") -> None:
        """What the second reader makes of the file."""
        found = Decoder(path.read_bytes(), name)
        assert found.dialect == dialect
        expected = {tuple(place): self.values[tuple(place)].tobytes() for place in np.argwhere(self.mask).tolist()}
        assert found.cells() == expected

    def check(self, array: cn.SparseArray) -> None:
        assert np.array_equal(array[...], self.values)
        assert np.array_equal(array.defined(), self.mask)
        assert array.n_defined == self.mask.sum()


def write_some(array: cn.SparseArray, model: Model, density: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    mask = generator.random(model.values.shape) < density
    values = generator.integers(-99, 99, int(mask.sum())).astype(model.values.dtype)
    array.write(np.argwhere(mask), values)
    model.write(mask, values)


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("chunk_map", LIMITS)
@pytest.mark.parametrize("dialect", ["sectioned", "structured", "prototype"])
def test_every_dialect_map_and_filter(tmp_path: Path, dialect: Any, chunk_map: str, filters: str) -> None:
    limits, chunks = LIMITS[chunk_map]
    path = tmp_path / "t.h5"
    cn.write(path, {"x": [1, 2, 3]}, table="t")
    model = Model(SHAPE, "<f4", -1)
    with cn.create_sparse(
        path, "g/h/matrix", shape=SHAPE, dtype="<f4", chunks=chunks, filters=FILTERS[filters], max_shape=limits,
        dialect=dialect, fill=-1,
    ) as array:  # fmt: skip
        assert (array.info.layout.dialect, array.info.layout.map) == (dialect, chunk_map)
        model.check(array)
        for seed, density in enumerate((0.1, 0.01, 0.5)):
            write_some(array, model, density, seed)
            model.check(array)
            model.check_bytes(path, "g/h/matrix", dialect)
        array.erase((slice(0, 20), slice(10, 40)))
        model.erase((slice(0, 20), slice(10, 40)))
        model.check(array)
        assert verify_sparse(path) == []
        array.erase(np.argwhere(model.mask))
        assert array.n_defined == array.n_chunks == 0
        write_some(array, Model(SHAPE, "<f4", -1), 0.2, 9)
        kept = array[...]
    with h5py.File(path, "r+") as file:
        assert list(file["g/h"]) == ["matrix"] and file["t/x"][...].tolist() == [1, 2, 3]
        file["more"] = np.arange(5000)
    with cn.open_sparse(path, "g/h/matrix") as array:
        assert np.array_equal(array[...], kept) and verify_sparse(path) == []
    assert cn.read(path, "t")["x"].to_pylist() == [1, 2, 3]
    with h5py.File(path) as file:
        assert file["more"][4999] == 4999


@pytest.mark.parametrize("dtype", ["i1", "<u2", ">i4", "<i8", "<f2", ">f8", "<c8", "?", "S5", "V3", "<i4,<f8"])
def test_every_type(tmp_path: Path, dtype: str) -> None:
    raw = np.random.default_rng(1).integers(1, 120, (6, np.dtype(dtype).itemsize), dtype="u1")
    values = raw.reshape(-1).view(dtype) if dtype != "?" else raw[:, 0] > 60
    coords = np.array([[0, 0], [1, 5], [3, 3], [7, 1], [8, 8], [9, 9]])
    with cn.create_sparse(tmp_path / "t.h5", "s", shape=(10, 10), dtype=dtype, chunks=(4, 4)) as array:
        array.write(coords, values)
        found, read = array.cells()
        assert np.array_equal(found, coords) and np.array_equal(read, values) and read.dtype == np.dtype(dtype)
        array.write(coords[2:3], values[:1])
        assert array.cells()[1][2] == values[0]


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_every_rank(tmp_path: Path, rank: int) -> None:
    shape = (9, 8, 7, 6)[:rank]
    model = Model(shape, "<i4", 0)
    with cn.create_sparse(tmp_path / "t.h5", "s", shape=shape, dtype="<i4", chunks=(4, 3, 2, 5)[:rank]) as array:
        for seed in range(2):
            write_some(array, model, 0.3, seed)
            model.check(array)
            model.check_bytes(tmp_path / "t.h5", "s")


@pytest.mark.parametrize("userblock", [0, 1024])
@pytest.mark.parametrize("libver", [("earliest", "latest"), ("v108", "v108"), ("latest", "latest")])
def test_files_of_every_age(tmp_path: Path, libver: Any, userblock: int) -> None:
    """Superblocks 0, 2 and 3, also behind a user block; several arrays, beside many other objects."""
    path = tmp_path / "t.h5"
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        for number in range(30):
            file[f"g/{number}"] = np.arange(number)
    models = {}
    for name in ("a", "g/b", "g/deeper/c"):
        models[name] = Model(SHAPE, "<i4", 0)
        with cn.create_sparse(path, name, shape=SHAPE, dtype="<i4", chunks=(16, 16)) as array:
            write_some(array, models[name], 0.1, len(name))
    assert len(find_sparse(path)) == 3
    with h5py.File(path, "r+") as file:
        assert all(len(file[f"g/{number}"]) == number for number in range(30))
        file["after"] = np.arange(3000)
    for name, model in models.items():
        with cn.open_sparse(path, name) as array:
            model.check(array)
            write_some(array, model, 0.3, 5)
            model.check(array)
    with h5py.File(path) as file:
        assert file["after"][2999] == 2999
    assert verify_sparse(path) == []


@pytest.mark.parametrize("filters", ["none", "both"])
@pytest.mark.parametrize("chunk_map", ["fixed array", "extensible array", "b-tree"])
def test_shrinking_erases_and_growing_shows_the_fill(tmp_path: Path, chunk_map: str, filters: str) -> None:
    limits, chunks = LIMITS[chunk_map]
    path = tmp_path / "t.h5"
    options = {"chunks": chunks, "max_shape": limits, "filters": FILTERS[filters], "fill": 5}
    with cn.create_sparse(path, "s", shape=SHAPE, dtype="<i4", **options) as array:
        model = Model(SHAPE, "<i4", 5)
        write_some(array, model, 0.3, 1)
        n_chunks = array.n_chunks
        array.resize((31, 40))
        small = Model((31, 40), "<i4", 5)
        small.write(model.mask[:31, :40], model.values[:31, :40][model.mask[:31, :40]])
        small.check(array)
        assert array.n_chunks < n_chunks and verify_sparse(path) == []
        array.resize(SHAPE)
        model.erase(np.s_[31:])
        model.erase(np.s_[:, 40:])
        model.check(array)
        model.check_bytes(path, "s")
        if None in limits:
            array.resize((50, 200))
            assert array.shape == (50, 200) and array.n_defined == model.mask.sum()
            array.write([[49, 199]], [3])
            assert array[49, 199] == 3
        array.resize((0, 0) if None not in limits else (50, 0))
        assert array.n_defined == array.n_chunks == 0
        before = path.read_bytes()
        for shape in ((51, 70) if limits[0] is not None else (-1, 3), (3,), "ab", (1.5, 2)):
            with pytest.raises(UsageError):
                array.resize(shape)  # type: ignore[arg-type]
        assert path.read_bytes() == before and verify_sparse(path) == []


def test_libhdf5_refuses_only_this_dataset(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with cn.create_sparse(path, "s", shape=(10,), dtype="<i4") as array:
        array.write([[3]], [4])
    with h5py.File(path, "r+") as file:
        assert list(file) == ["s"]
        with pytest.raises(KeyError, match="layout"):
            file["s"]
        file["x"] = 1
        assert file["x"][()] == 1


def test_bad_input_is_refused_and_nothing_changed(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    array = cn.create_sparse(path, "s", shape=(10, 10), dtype="i1", chunks=(4, 4))
    array.write([[1, 2]], [3])
    before = path.read_bytes()
    wrong: list[tuple[Any, Any, str]] = [
        ([[10, 0]], [1], "outside"),
        ([[0, -1]], [1], "outside"),
        ([[0, 1, 2]], [1], "not int64"),
        ([[0.5, 1.0]], [1], "not float64"),
        ([[1, 1], [2, 2], [1, 1]], [1, 2, 3], "given twice"),
        ([[1, 1]], [300], "does not fit"),
        ([[1, 1]], [1.5], "does not fit"),
        ([[1, 1]], [float("nan")], "does not fit"),
        ([[1, 1]], [1, 2], "1 coordinates"),
        ([[1, 1]], ["x"], "to int8"),
    ]
    for coords, values, text in wrong:
        with pytest.raises(DataError, match=text):
            array.write(coords, values)
        assert path.read_bytes() == before, text
    array.close()
    options: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"name": "s"}, UsageError),
        ({"name": ""}, UsageError),
        ({"shape": (5, -1)}, UsageError),
        ({"shape": "ab"}, UsageError),
        ({"chunks": (11, 4)}, UsageError),
        ({"chunks": (4,)}, UsageError),
        ({"max_shape": (5, 10)}, UsageError),
        ({"filters": "blosc"}, UsageError),
        ({"filters": {2: "deflate"}}, UsageError),
        ({"filters": "deflate:11"}, UsageError),
        ({"dialect": "other"}, UsageError),
        ({"fill": "x"}, UsageError),
        ({"fill": 1.5}, UsageError),
        ({"fill": np.int64(-1), "dtype": "u8"}, UsageError),
        ({"fill": 1e300, "dtype": "f4"}, UsageError),
        ({"dtype": object}, UnsupportedError),
        ({"dtype": "M8[s]"}, UnsupportedError),
    ]
    for change, error in options:
        given: dict[str, Any] = {"name": "new", "shape": (10, 10), "dtype": "i1", "chunks": (4, 4)} | change
        with pytest.raises(error):
            cn.create_sparse(path, given.pop("name"), **given)
        assert path.read_bytes() == before, change
    with pytest.raises(UsageError, match="not opened from a path"):
        cn.open_sparse(before, "s").write([[1, 1]], [1])


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("u8", [-1]),
        ("u8", np.array([2.0**64])),
        ("i8", np.array([2**64 - 1], "u8")),
        ("i8", [2.0**63]),
        ("i8", np.array([1 + 1j])),
        ("u4", np.array([-5], "i4")),
        ("u4", np.array([-5], "i8")),
        ("u4", np.array([-5], object)),
        ("i4", np.array([1.5], object)),
        ("i1", np.array([255], "u1")),
        ("u1", np.array([-1], "i1")),
        ("f4", [1e300]),
        ("f4", np.array([1e300], object)),
        ("f2", np.array([70000.0])),
        ("f2", [70000]),
        ("f8", np.array([2**64 - 1], "u8")),
        ("f8", [2**63 - 1]),
        ("c8", [1e300]),
        ("c8", [1e300 + 0j]),
        ("c8", [1e300j]),
        ("S3", np.array([b"abcd"], object)),
        ("S3", [12345]),
        ("<i4,<f4", np.array([(2**40, 1.0)], "<i8,<f8")),
        ("<u8,<f4", np.array([(-1, 1.0)], "<i8,<f8")),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_value_that_would_become_another_is_refused(tmp_path: Path, dtype: str, values: Any) -> None:
    """Of the same width and another sign, or beyond the largest: neither wraps, nor becomes infinite, in silence."""
    with cn.create_sparse(tmp_path / "t.h5", "s", shape=(10,), dtype=dtype, chunks=(5,)) as array:
        with pytest.raises(DataError, match=r"row 0: .* does not fit"):
            array.write([1], values)
        assert array.n_defined == 0


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("f4", [1e-300, 0.1, np.inf, -np.inf, np.nan]),
        ("c8", [1e-300, 0.1 + 0.2j, np.inf, complex(np.nan, 1)]),
        ("f8", np.array([1 + 0j, complex(np.inf, 0)])),
        ("i8", np.array([-(2.0**63), 2.0**62])),
        ("u8", np.array([2**64 - 1, 0], "u8")),
        ("u1", np.array([255, 0], "i8")),
        ("f8", np.array([2**63, 5], "u8")),
        ("f2", [True, False]),
        ("S3", np.array(["abc", b"de"], object)),
        ("<i4,<f4", np.array([(5, 0.1)], "<i8,<f8")),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_value_that_fits_or_is_only_rounded_is_written(tmp_path: Path, dtype: str, values: Any) -> None:
    with cn.create_sparse(tmp_path / "t.h5", "s", shape=(10,), dtype=dtype, chunks=(5,)) as array:
        array.write(np.arange(len(values)), values)
        given, found = np.asarray(values), array.cells()[1]
        with np.errstate(all="ignore"):
            expected = (given.real if given.dtype.kind == "c" and dtype == "f8" else given).astype(dtype)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "dtype", [np.longdouble, np.clongdouble, [("a", np.longdouble)], (np.longdouble, 3), h5py.vlen_dtype(np.longdouble)]
)
def test_floats_that_have_no_form_are_refused(tmp_path: Path, dtype: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"floats of \d+ bytes"):
        cn.create_sparse(tmp_path / "t.h5", "s", shape=(10,), dtype=dtype, chunks=(5,))
    assert not (tmp_path / "t.h5").exists()


def test_a_writer_that_dies_leaves_the_array_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    model = Model(SHAPE, "<i4", 0)
    with cn.create_sparse(path, "s", shape=SHAPE, dtype="<i4", chunks=(8, 9)) as array:
        write_some(array, model, 0.2, 1)
        code = (
            DIES_IN_COMMIT + "s = cn.open_sparse(sys.argv[1], 's')\n"
            "s.write([[r, c] for r in range(50) for c in range(70)], list(range(3500)))\n"
        )
        assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 7
        assert journal_path(path).exists()
        model.check(array)
        assert not journal_path(path).exists() and verify_sparse(path) == []
        write_some(array, model, 0.4, 2)
        model.check(array)


def test_an_error_on_the_way_takes_everything_back(tmp_path: Path) -> None:
    """The last chunk cannot be read, so it cannot be merged; the chunks before it stay as they were."""
    path = tmp_path / "t.h5"
    with cn.create_sparse(path, "s", shape=(1000,), dtype="<i4", chunks=(100,)) as array:
        array.write(np.arange(0, 1000, 3), np.arange(334))
        last = max(array.records(), key=lambda record: record.grid)
        data = bytearray(path.read_bytes())
        data[last.address + 20] ^= 1
        path.write_bytes(data)
        with pytest.raises(CorruptError, match="checksum"):
            array.write(np.arange(0, 1000, 3), np.arange(334) + 5)  # each fits where it was
        assert path.read_bytes() == data


def test_a_chunk_that_fits_is_put_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with cn.create_sparse(path, "s", shape=(1000,), dtype="<i4", chunks=(100,)) as array:
        array.write(np.arange(0, 1000, 3), np.arange(334))
        size = path.stat().st_size
        for value in range(5):
            array.write([[3 * value]], [value])
        assert path.stat().st_size == size
        array.erase(slice(500, 600))
        assert path.stat().st_size < size + 1000  # room for a note of what is free
        size = path.stat().st_size
        array.write(np.arange(501, 600, 3), np.arange(33))  # as many as were erased
        array.erase(slice(200, 300))
        assert path.stat().st_size == size


@given(data=st.data())
def test_any_writes_and_erasures(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, size)) for size in shape)
    limits = tuple(data.draw(st.sampled_from((None, size, size + 5))) for size in shape)
    filters = data.draw(st.sampled_from(list(FILTERS.values())))
    path = tmp_path_factory.mktemp("sparse") / "t.h5"
    model = Model(shape, "<i4", 7)
    options = {"chunks": chunks, "max_shape": limits, "filters": filters, "fill": 7}
    with cn.create_sparse(path, "s", shape=shape, dtype="<i4", **options) as array:
        for seed in range(data.draw(st.integers(1, 3))):
            if data.draw(st.booleans()):
                write_some(array, model, data.draw(st.sampled_from((0.05, 0.5, 1.0))), seed)
            else:
                box = tuple(slice(*sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n))))) for n in shape)
                array.erase(box)
                model.erase(box)
            model.check(array)
            model.check_bytes(path, "s")
        assert verify_sparse(path) == []
