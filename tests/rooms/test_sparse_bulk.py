"""Whole matrices written at once, and converted between files: SciPy, coordinates, AnnData, 10x, Matrix Market."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import io as scipy_io
from scipy import sparse

import colonnade as cn
from colonnade.converting.sparse_matrices import convert
from colonnade.errors import ColonnadeError, CorruptError, DataError, FormatError, UnsupportedError, UsageError
from colonnade.sparse import find_sparse, verify_sparse
from tests.conftest import SetLimits

from .sparse_decoder import Decoder

RNG = np.random.default_rng(5)


def matrix(rows: int = 90, columns: int = 70, density: float = 0.1, dtype: str = "f4") -> Any:
    found = sparse.random_array((rows, columns), density=density, random_state=np.random.default_rng(2), format="csr")
    found.data = (found.data * 100 + 1).astype(dtype)
    return found


def cells_of(path: Path, name: str = "m") -> dict[tuple[int, ...], bytes]:
    found: dict[tuple[int, ...], bytes] = Decoder(path.read_bytes(), name).cells()
    return found


@pytest.fixture
def small_blocks(set_limits: SetLimits) -> None:
    """Blocks and memory so small that every path is taken."""
    set_limits(block_cells=50, cell_bytes=300)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "shuffled", "triple"])
@pytest.mark.parametrize("filters", [None, {0: "shuffle+deflate", 1: "zstd"}])
def test_from_scipy_and_coordinates(tmp_path: Path, kind: str, filters: Any) -> None:
    given = matrix()
    path = tmp_path / "a.h5"
    coo = given.tocoo()
    coords = np.stack(coo.coords, axis=1)
    order = RNG.permutation(len(coords))
    what: Any = {
        "shuffled": (coords[order], coo.data[order], given.shape), "triple": (coords, coo.data, list(given.shape)),
    }.get(kind)  # fmt: skip
    array = cn.write_sparse(path, "m", given.asformat(kind) if what is None else what, chunks=(16, 9), filters=filters)
    assert (array.to_scipy() != given).nnz == 0 and array.n_defined == given.nnz and array.dtype == np.dtype("f4")
    assert cells_of(path) == {tuple(at): v.tobytes() for at, v in zip(coords.tolist(), coo.data, strict=True)}
    assert verify_sparse(path) == []


def test_explicit_zeros_and_twins(tmp_path: Path) -> None:
    twins = sparse.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [3, 3, 1])), shape=(2, 4))
    array = cn.write_sparse(tmp_path / "a.h5", "m", twins)
    assert array[0, 3] == 3 and array.n_defined == 2 and array.defined()[1, 1]
    unsorted = sparse.csr_array(([1.0, 2.0, 4.0], [3, 0, 3], [0, 3, 3]), shape=(2, 4))
    assert cn.write_sparse(tmp_path / "a.h5", "n", unsorted)[0].tolist() == [2, 0, 0, 5]
    assert unsorted.data.tolist() == [1, 2, 4]  # the caller's own is as it was
    with pytest.raises(DataError, match=r"\[0, 3\] is given twice"):
        cn.write_sparse(tmp_path / "a.h5", "o", ([[0, 3], [1, 1], [0, 3]], [1, 2, 3], (2, 4)))
    assert find_sparse(tmp_path / "a.h5") == ["/m", "/n"]


@pytest.mark.parametrize(
    ("given_", "error"),
    {
        "outside": (([[0, 4]], [1], (2, 4)), DataError),
        "negative": (([[-1, 0]], [1], (2, 4)), DataError),
        "far outside": ((np.array([[2**63, 0]], dtype="u8"), [1], (2, 4)), DataError),
        "no whole numbers": (([[0.5, 0]], [1], (2, 4)), DataError),
        "another rank": (([[0, 0, 0]], [1], (2, 4)), DataError),
        "too few values": (([[0, 0], [0, 1]], [1], (2, 4)), DataError),
        "no matrix": ({"a": 1}, UsageError),
        "two of three": (([[0, 0]], [1]), UsageError),
    }.values(),
)
def test_what_is_wrong_is_refused_and_leaves_nothing(tmp_path: Path, given_: Any, error: type[Exception]) -> None:
    path = tmp_path / "a.h5"
    with pytest.raises(error):
        cn.write_sparse(path, "m", given_)
    assert not path.exists()


@pytest.mark.parametrize(("dtype", "value"), [("u8", -1), ("i4", 2**31), ("f4", 1e300)])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_a_matrix_that_does_not_fit_is_refused(tmp_path: Path, kind: str, dtype: str, value: Any) -> None:
    given = sparse.coo_array(([5, value], ([0, 1], [2, 1])), shape=(2, 4)).asformat(kind)
    with pytest.raises(DataError, match="does not fit"):
        cn.write_sparse(tmp_path / "a.h5", "m", given, dtype=dtype)
    assert not (tmp_path / "a.h5").exists()


def test_other_ranks_types_and_arrays(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    coords = np.argwhere(RNG.random((7, 8, 9)) < 0.1)
    values = RNG.integers(0, 99, len(coords))
    cube = cn.write_sparse(path, "cube", (coords, values, (7, 8, 9)), chunks=(3, 8, 4), dtype="u1", fill=255)
    assert np.array_equal(cube.cells()[0], coords) and cube.dtype == np.uint8 and cube.fill == 255
    line = cn.write_sparse(path, "line", ([5, 2], [True, False], (9,)))
    assert line.cells()[0].tolist() == [[2], [5]] and line.cells()[1].tolist() == [False, True]
    again = cn.write_sparse(path, "again", cube, chunks=(2, 5, 9))
    assert np.array_equal(again[...], cube[...]) and again.fill == 255
    empty = cn.write_sparse(path, "empty", sparse.csr_array((4, 5)))
    assert empty.n_defined == 0 and empty.shape == (4, 5)
    assert verify_sparse(path) == []


def test_in_a_transaction(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with cn.open(path, "w") as file, file.transaction():
        cn.write_sparse(file, "g/m", matrix())
        file.create("t", {"x": [1]})
    assert find_sparse(path) == ["/g/m"] and verify_sparse(path) == []


@pytest.mark.usefixtures("small_blocks")
@given(
    cells=st.dictionaries(st.tuples(st.integers(0, 19), st.integers(0, 13)), st.integers(-9, 9), max_size=60),
    order=st.randoms(use_true_random=False),
    chunk=st.tuples(st.integers(1, 8), st.integers(1, 8)),
)
def test_any_cells_in_any_order(tmp_path_factory: Any, cells: dict[Any, int], order: Any, chunk: Any) -> None:
    places = list(cells)
    order.shuffle(places)
    path = tmp_path_factory.mktemp("any") / "a.h5"
    coords = np.array(places, dtype="i8").reshape(-1, 2)
    values = np.array([cells[at] for at in places], dtype="<i2")
    cn.write_sparse(path, "m", (coords, values, (20, 14)), chunks=chunk)
    assert {at: int.from_bytes(v, "little", signed=True) for at, v in cells_of(path).items()} == cells


# -- AnnData and 10x --


def anndata_group(path: Path, name: str, given: Any, **attributes: Any) -> None:
    with h5py.File(path, "a") as file:
        group = file.create_group(name)
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(given, part)
        group.attrs.update(attributes)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("by", ["csr", "csc"])
def test_from_anndata_and_back(tmp_path: Path, by: str) -> None:
    given = matrix().asformat(by)
    source = tmp_path / "a.h5ad"
    anndata_group(source, "layers/raw", given, **{"encoding-type": f"{by}_matrix", "shape": given.shape})
    done = convert(str(source), str(tmp_path / "b.h5"), chunks=(16, 9), filters="deflate")
    assert (done.shape, done.n_cells, done.format) == (given.shape, given.nnz, "sectioned")
    with cn.open_sparse(tmp_path / "b.h5", "matrix") as array:
        assert (array.to_scipy() != given).nnz == 0 and array.chunks == (16, 9)
    for back in ("csr", "csc"):
        target = tmp_path / f"{back}.h5ad"
        convert(str(tmp_path / "b.h5"), str(target), format=back)
        check_group(target, "X", given, back)
        convert(str(source), str(target), format=back, new_name="deep/Y", filters="gzip")
        check_group(target, "deep/Y", given, back)


def test_a_complex_matrix_from_anndata(tmp_path: Path) -> None:
    given = matrix(dtype="f8").tocsr() * (1 + 2j)
    anndata_group(tmp_path / "a.h5ad", "X", given, **{"encoding-type": "csr_matrix", "shape": given.shape})
    convert(str(tmp_path / "a.h5ad"), str(tmp_path / "b.h5"))
    with cn.open_sparse(tmp_path / "b.h5", "matrix") as array:
        assert array.dtype == np.complex128 and (array.to_scipy() != given).nnz == 0


def check_group(path: Path, name: str, expected: Any, by: str) -> None:
    with h5py.File(path) as file:
        group = file[name]
        assert dict(group.attrs)["encoding-type"] == f"{by}_matrix" and group.attrs["encoding-version"] == "0.1.0"
        parts = tuple(group[part][...] for part in ("data", "indices", "indptr"))
        kind = sparse.csr_array if by == "csr" else sparse.csc_array
        found = kind(parts, shape=tuple(group.attrs["shape"]))
    assert found.has_canonical_format and parts[0].dtype == expected.dtype and parts[1].dtype == np.int32
    wanted = expected.asformat(by)
    assert all(np.array_equal(getattr(found, part), getattr(wanted, part)) for part in ("data", "indices", "indptr"))


def test_from_10x(tmp_path: Path) -> None:
    given = matrix(dtype="i4").tocsc()
    anndata_group(tmp_path / "x.h5", "matrix", given)
    with h5py.File(tmp_path / "x.h5", "a") as file:
        file["matrix/shape"] = np.array(given.shape, dtype="i4")
        file["matrix/barcodes"] = np.array([b"AAA"] * 70)
    convert(str(tmp_path / "x.h5"), str(tmp_path / "y.h5"))
    assert (cn.open_sparse(tmp_path / "y.h5", "matrix").to_scipy() != given).nnz == 0


@pytest.mark.parametrize(
    "spoil",
    {
        "ends too few": lambda group: group.__setitem__("indptr", group.pop("indptr")[:-1]),
        "ends that go back": lambda group: group["indptr"].__setitem__(3, 10**6),
        "more ends than values": lambda group: group["indptr"].__setitem__(-1, 10**6),
        "not from 0": lambda group: group["indptr"].__setitem__(0, 1),
        "outside": lambda group: group["indices"].__setitem__(3, 70),
        "negative": lambda group: group["indices"].__setitem__(3, -1),
        "too few indices": lambda group: group.__setitem__("indices", group.pop("indices")[:-1]),
        "no shape": lambda group: group.attrs.__delitem__("shape"),
        "wild shape": lambda group: group.attrs.__setitem__("shape", [2**62, 70]),
        "flat shape": lambda group: group.attrs.__setitem__("shape", 7),
        "text": lambda group: group.__setitem__("data", np.array([b"x"] * len(group.pop("data")))),
    }.values(),
)
def test_a_broken_group_is_refused(tmp_path: Path, spoil: Any) -> None:
    given = matrix()
    anndata_group(tmp_path / "a.h5", "X", given, **{"encoding-type": "csr_matrix", "shape": given.shape})
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        spoil(Popping(file["X"]))
    with pytest.raises((CorruptError, DataError)):
        convert(str(tmp_path / "a.h5"), str(tmp_path / "b.h5"))
    assert not (tmp_path / "b.h5").exists()


class Popping:
    """A group of h5py from which values can be taken out."""

    def __init__(self, group: Any) -> None:
        self.group, self.attrs = group, group.attrs

    def pop(self, name: str) -> Any:
        found = self.group[name][...]
        del self.group[name]
        return found

    def __getitem__(self, name: str) -> Any:
        return self.group[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.group[name] = value


# -- Matrix Market --


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["a.mtx", "a.mtx.gz"])
@pytest.mark.parametrize("field", ["real", "integer", "complex", "pattern"])
@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric", "hermitian"])
def test_matrix_market(tmp_path: Path, name: str, field: str, symmetry: str) -> None:
    if (field, symmetry) == ("pattern", "skew-symmetric"):
        pytest.skip("there is none")
    given = matrix(40, 40, dtype="i4" if field == "integer" else "f8")
    if field == "complex":
        given = given * (1 + 2j)
    if field == "pattern":
        given.data[:] = 1
    if symmetry != "general":
        other = {"symmetric": given.T, "skew-symmetric": -given.T, "hermitian": given.conj().T}[symmetry]
        given = (sparse.tril(given, -1) + sparse.triu(other, 1)).tocsr() if field != "pattern" else given.maximum(other)
    made = io.BytesIO()
    scipy_io.mmwrite(made, given, field=field, symmetry=symmetry, precision=17)
    data = made.getvalue()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    convert(str(tmp_path / name), str(tmp_path / "b.h5"), chunks=(16, 9))
    with cn.open_sparse(tmp_path / "b.h5", "matrix") as array:
        assert abs(array.to_scipy().astype("c16") - given).max() < 1e-12 and array.n_defined == given.nnz
    for target in ("back.mtx", "back.mtx.gz"):
        convert(str(tmp_path / "b.h5"), str(tmp_path / target))
        back = scipy_io.mmread(tmp_path / target)
        assert abs(back.tocsr() - given).max() < 1e-12 and back.nnz == given.nnz


HEAD = b"%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("data", "error"),
    {
        "empty": (b"", CorruptError),
        "no head": (b"1 1 1\n1 1 1\n", FormatError),
        "dense": (b"%%MatrixMarket matrix array real general\n1 1\n1\n", UnsupportedError),
        "no size": (HEAD + b"% comment\n", CorruptError),
        "words": (HEAD + b"2 2 x\n", CorruptError),
        "negative": (HEAD + b"-2 2 1\n1 1 1\n", CorruptError),
        "too few": (HEAD + b"2 2 2\n1 1 1\n", CorruptError),
        "too many": (HEAD + b"2 2 1\n1 1 1\n2 2 2\n", CorruptError),
        "outside": (HEAD + b"2 2 1\n3 1 1\n", CorruptError),
        "zero": (HEAD + b"2 2 1\n0 1 1\n", CorruptError),
        "half a place": (HEAD + b"2 2 1\n1.5 1 1\n", CorruptError),
        "nan place": (HEAD + b"2 2 1\nnan 1 1\n", CorruptError),
        "a word missing": (HEAD + b"2 2 1\n1 1\n", CorruptError),
        "no number": (HEAD + b"2 2 1\n1 1 x\n", CorruptError),
        "twice": (HEAD + b"2 2 2\n1 1 1\n1 1 2\n", DataError),
        "2**64 - 1": (HEAD.replace(b"real", b"integer") + b"2 2 1\n1 1 18446744073709551615\n", CorruptError),
        "20 digits": (HEAD.replace(b"real", b"integer") + b"2 2 1\n1 1 99999999999999999999\n", CorruptError),
        "a far place": (HEAD.replace(b"real", b"integer") + b"2 2 1\n99999999999999999999 1 1\n", CorruptError),
        "no negative": (
            HEAD.replace(b"real general", b"integer skew-symmetric") + b"2 2 1\n2 1 -9223372036854775808\n",
            UnsupportedError,
        ),
        "a long line": (HEAD + b"2 2 1\n" + b"1" * (3 << 20), CorruptError),
    }.values(),
)
def test_a_broken_matrix_market_file_is_refused(tmp_path: Path, data: bytes, error: type[Exception]) -> None:
    (tmp_path / "a.mtx").write_bytes(data)
    with pytest.raises(error):
        convert(str(tmp_path / "a.mtx"), str(tmp_path / "b.h5"))
    (tmp_path / "a.mtx.gz").write_bytes(gzip.compress(data)[:-9])
    with pytest.raises(ColonnadeError):
        convert(str(tmp_path / "a.mtx.gz"), str(tmp_path / "b.h5"))
    assert not (tmp_path / "b.h5").exists()


def test_complex_numbers_come_back_bit_by_bit(tmp_path: Path) -> None:
    parts = (0.0, -0.0, 1.5, np.inf, -np.inf, np.nan)
    values = np.array([complex(real, imag) for real in parts for imag in parts])
    coords = np.stack((np.arange(36), np.arange(36)), axis=1)
    cn.write_sparse(tmp_path / "a.h5", "m", (coords, values, (36, 36)), dtype="<c16").close()
    convert(str(tmp_path / "a.h5"), str(tmp_path / "a.mtx"))
    convert(str(tmp_path / "a.mtx"), str(tmp_path / "b.h5"))
    with cn.open_sparse(tmp_path / "b.h5", "matrix") as array:
        found = array.cells()[1]
    for one, two in ((found.real, values.real), (found.imag, values.imag)):
        assert np.array_equal(one, two, equal_nan=True)
        assert np.array_equal(np.signbit(one)[~np.isnan(two)], np.signbit(two)[~np.isnan(two)])


def test_whole_numbers_that_could_not_be_read_back_are_not_written(tmp_path: Path) -> None:
    path = str(tmp_path / "a.h5")
    for name, value in (("large", 2**63), ("fits", 2**63 - 1)):
        cn.write_sparse(path, name, ([[0, 1]], np.array([value], dtype="u8"), (2, 2))).close()
    with pytest.raises(UsageError, match="9223372036854775808"):
        convert(path, str(tmp_path / "a.mtx"), name="large")
    assert not (tmp_path / "a.mtx").exists()
    convert(path, str(tmp_path / "a.mtx"), name="fits")
    convert(str(tmp_path / "a.mtx"), str(tmp_path / "b.h5"))
    with cn.open_sparse(tmp_path / "b.h5", "matrix") as array:
        assert array.cells()[1].tolist() == [2**63 - 1]


def test_what_cannot_be_converted_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "a.h5")
    cn.write_sparse(path, "m", matrix())
    cn.write_sparse(path, "filled", ([[1, 1]], [2], (3, 3)), fill=7)
    with pytest.raises(UsageError, match="name one"):
        convert(path, str(tmp_path / "b.h5"))
    for options in ({"format": "csr"}, {"format": "csc"}):
        with pytest.raises(UsageError, match="with fill 0"):
            convert(path, str(tmp_path / "b.h5"), name="filled", **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="same file"):
        convert(path, path, name="m", new_name="n")
    with pytest.raises(UsageError, match="end with"):
        convert(path, str(tmp_path / "b.h5"), name="m", format="mtx")
    with pytest.raises(UsageError, match="format must be"):
        convert(path, str(tmp_path / "b.h5"), name="m", format="coo")
    for target in ("e.txt", "e", "e.csv", "e.mtx.bz2", "h5"):
        with pytest.raises(UsageError, match="cannot choose a format"):
            convert(path, str(tmp_path / target), name="m")
    convert(path, str(tmp_path / "b.mtx"), name="m")
    with pytest.raises(UsageError, match="already exists"):
        convert(path, str(tmp_path / "b.mtx"), name="m")
    cn.write(tmp_path / "t.h5", {"x": [1]})
    with pytest.raises(FormatError, match="no sparse matrix"):
        convert(str(tmp_path / "t.h5"), str(tmp_path / "c.h5"))
    assert sorted(one.name for one in tmp_path.iterdir() if "lock" not in one.name) == ["a.h5", "b.mtx", "t.h5"]


def test_hdf5_under_any_name_if_that_is_said_or_there(tmp_path: Path) -> None:
    path = str(tmp_path / "a.h5")
    cn.write_sparse(path, "m", matrix())
    assert convert(path, str(tmp_path / "e.data"), format="sectioned").format == "sectioned"
    assert convert(path, str(tmp_path / "e.data"), new_name="again").format == "sectioned"
    assert find_sparse(tmp_path / "e.data") == ["/again", "/matrix"]
    for target, meant in {"b.HDF5": "sectioned", "c.h5mu": "sectioned", "d.H5AD": "csr"}.items():
        assert convert(path, str(tmp_path / target)).format == meant
    (tmp_path / "notes.txt").write_text("these are mine")
    with pytest.raises(ColonnadeError):
        convert(path, str(tmp_path / "notes.txt"))
    assert (tmp_path / "notes.txt").read_text() == "these are mine"


def test_memory_does_not_grow_with_the_matrix(tmp_path: Path) -> None:
    def peak(rows: int) -> int:
        given = matrix(rows, 4000, 0.01)
        source, target = tmp_path / f"{rows}.h5ad", tmp_path / f"{rows}.h5"
        anndata_group(source, "X", given, **{"encoding-type": "csr_matrix", "shape": given.shape})
        n_bytes = given.nnz * 8
        del given
        tracemalloc.start()
        convert(str(source), str(target), chunks=(256, 1024), n_threads=1)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert rows < 100_000 or found < n_bytes
        return found

    peak(500)
    small, large = peak(20_000), peak(100_000)
    assert large < 1.3 * small + 24 * 80_000  # indptr is read whole, and more rows have more of it
