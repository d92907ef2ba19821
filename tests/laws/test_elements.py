"""Law: `read_element` gives what it gives through libhdf5: values, dtypes, byte order, and the kind of an error.

Over every group and dataset of the samples, of elements of every kind, and of random files with any datatypes.
The other law: of damaged bytes only errors of ours come out, soon.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import ColonnadeError, CorruptError, FormatError, UnsupportedError, UsageError
from colonnade.format import elements
from colonnade.h5.datatypes import describe_type
from colonnade.model import StoredType
from tests.laws.byte_files import make_file
from tests.laws.test_format_nodes import spoiled

TESTS = Path(__file__).parent.parent
SAMPLES = [
    *sorted(path for path in (TESTS / "golden" / "anndata").rglob("*.h5*")),
    *sorted((TESTS / "conformance" / "anndata" / "files").glob("*.h5*")),
]
SEEDS = st.integers(0, 1 << 32)
MOST_OBJECTS = 400
LONGEST = 20  # seconds for one file, on a machine that does other things too
DATES = np.dtype("M8[s]", metadata={"h5py_opaque": True})  # as h5py.opaque_dtype makes it
ERRORS = (CorruptError, FormatError, UnsupportedError, UsageError, ColonnadeError)


# -- what an element is, as plain data --


def plain(value: Any, depth: int = 0) -> Any:
    """A value as plain data that is equal for equal values; what comes lazily is read."""
    if depth > 8:
        return "deeper"
    if isinstance(value, Mapping):
        kind = value.kind if isinstance(value, cn.Members) else "dict"
        return kind, [(name, outcome(lambda name=name: value[name], depth + 1)) for name in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain_array(np.asarray(value))
    if isinstance(value, cn.SparseMatrix):
        return value.path, value.format, value.shape, str(value.dtype), plain_matrix(value.to_scipy())
    if isinstance(value, cn.Table):
        return value.path, value.labels, plain_frame(value)
    if isinstance(value, cn.Categorical):
        return plain_array(value.codes), plain_array(value.categories), value.ordered
    if isinstance(value, cn.Nullable):
        return plain_array(value.values), plain_array(value.mask), value.na_value
    if isinstance(value, h5py.Reference):
        return type(value).__name__  # h5py gives references that were never written by chance
    if isinstance(value, pd.DataFrame):
        return [getattr(dtype, "str", str(dtype)) for dtype in value.dtypes], value.to_csv()
    if isinstance(value, pd.api.extensions.ExtensionArray):
        return str(value.dtype), repr(value.tolist())
    if hasattr(value, "to_list"):
        return "awkward", str(value.type), value.to_list()
    return type(value).__name__, repr(value)


def plain_array(array: np.ndarray) -> Any:
    if array.dtype.names is not None:
        fields = [(name, plain_array(array[name])) for name in array.dtype.names]
        return array.shape, fields, array.dtype.itemsize
    if array.dtype == object:
        return array.shape, [plain(item, 7) for item in array.reshape(-1).tolist()]
    if array.dtype == bool:
        array = np.ascontiguousarray(array).view("u1").reshape(array.shape) != 0  # h5py keeps bytes other than 1
    return array.shape, array.dtype.str, np.ascontiguousarray(array).tobytes()


def plain_matrix(matrix: Any) -> Any:
    return [plain_array(part) for part in (matrix.data, matrix.indices, matrix.indptr)]


def plain_frame(table: cn.Table) -> Any:
    return [outcome(lambda name=name: repr(table[name].to_arrow().to_pylist())) for name in table.info.by_name]


def outcome(read: Any, depth: int = 0) -> Any:
    """What a read gives as plain data, or the kind of error that it raises."""
    try:
        return plain(read(), depth)
    except ColonnadeError as error:
        return next(kind for kind in ERRORS if isinstance(error, kind)).__name__


# -- both implementations --


def paths_of(path: Path) -> list[str]:
    """The groups and datasets of a file, found by their links, the root first."""
    with cn.open(path) as file:
        return list(islice(_walk(file._handle.root, "/", set()), MOST_OBJECTS))


def _walk(group: Any, path: str, seen: set[int]) -> Iterator[str]:
    yield path
    with suppress(CorruptError):
        for child in group.children():
            if "/" in child.name or child.name == "." or child.address in seen:
                continue
            seen.add(child.address)
            below = f"{path.rstrip('/')}/{child.name}"
            inner = group.open_group(child.name) if child.kind == "group" else None
            if inner is not None:
                yield from _walk(inner, below, seen)
            elif child.kind == "dataset":
                yield below


def is_dataset_of_h5py(node: Any) -> bool:
    """Whether h5py can read this dataset: not opaque elements with a tag, nor, after a user block, each chunk alone."""
    if not isinstance(node, h5py.Dataset) or has_tags(describe_type(node.id.get_type())):
        return False
    return node.chunks is None or not node.file.userblock_size


def has_tags(stored: StoredType) -> bool:
    """Whether elements are, or hold, opaque ones with a tag."""
    parts = [*([] if stored.base is None else [stored.base]), *(field.type for field in stored.fields)]
    return (stored.kind == "opaque" and stored.tag != "") or any(has_tags(part) for part in parts)


def differences(
    path: Path, pandas: bool = False, is_compared: Callable[[Any], bool] = lambda node: True
) -> list[tuple[str, Any, Any]]:
    """The elements that are read otherwise than through libhdf5, and what both give."""
    wrong = []
    with cn.open(path) as file, cn.open(path) as by_library:
        root = by_library.h5
        for name in paths_of(path):
            if not is_compared(root.get(name)):
                continue
            own = outcome(lambda name=name: cn.read_element(file, name, pandas=pandas))
            other = outcome(lambda name=name: cn.read_element(root[name], pandas=pandas))
            if own != other:
                wrong.append((name, own, other))
    return wrong


@pytest.mark.parametrize("pandas", [False, True])
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_element_of_the_samples(path: Path, pandas: bool) -> None:
    assert differences(path, pandas) == []


def made_elements() -> dict[str, Any]:
    """Values of every kind that `write_element` takes."""
    chance = np.random.default_rng(3)
    records = np.array([(1, b"ab", 0.5), (2, b"c", np.nan)], [("n", ">i4"), ("s", "S3"), ("x", "<f8")])
    matrix = scipy.sparse.random(40, 30, 0.2, format="csr", random_state=chance)
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "ü"], "c": pd.Categorical(["u", None])}, index=["r", "s"])
    frame["d"] = pd.array([1, None], dtype="Int64")
    return {
        **{f"array {kind}": np.arange(12).astype(kind).reshape(3, 4) for kind in
           ("<i1", ">i2", "<u4", ">u8", "<f2", ">f4", "<f8", ">c8", "<c16", "?")},
        "empty": np.zeros((0, 3)), "strings": np.array(["a", "ü", ""], object), "bytes": np.array([b"ab", b"c\0d"]),
        "no strings": np.array([], object), "string": "ä", "number": 3, "float": np.float32(2.5), "flag": True,
        "null": None,
        "records": records, "nested": {"deep": {"deeper": [1, 2], "none": None}}, "csr": matrix, "csc": matrix.tocsc(),
        "categorical": pd.Categorical(["b", "a", None], ordered=True), "integers": pd.array([1, None], dtype="Int16"),
        "booleans": pd.array([True, None], dtype="boolean"), "texts": pd.array(["a", None], dtype="string"),
        "frame": frame,
        "awkward": cn.AwkwardBuffers('{"class":"NumpyArray","primitive":"int64","form_key":"node0"}', 2,
                                     {"node0-data": np.array([1, 2])}),
    }  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}, {"compression": "lzf"}, {"chunks": True}], ids=str)
def test_elements_of_every_kind(tmp_path: Path, options: dict[str, Any]) -> None:
    with cn.open(tmp_path / "a.h5ad", "w") as file:
        for name, value in made_elements().items():
            cn.write_element(file.h5, name, value, **options)
    assert differences(tmp_path / "a.h5ad") == []
    assert differences(tmp_path / "a.h5ad", pandas=True) == []


def odd_datasets(file: h5py.File) -> None:
    """Datasets that AnnData does not write, but may hold."""
    text, short = h5py.string_dtype(), h5py.string_dtype(length=4)
    for number, kind in enumerate((text, h5py.string_dtype("ascii"), short)):
        file[f"strings {number}"] = np.array([["a", "bc"], ["", "d"]], dtype=kind)
    file["not utf-8"] = np.array([b"\xff\xfe", b"a"], dtype=text)
    file["not utf-8, short"] = np.array([b"\xff\xfe", b"a"], dtype="S2")
    for name, padding in (("terminated", 0), ("padded", 1), ("blank", 2)):
        form = h5py.h5t.C_S1.copy()
        form.set_size(4)
        form.set_strpad(padding)
        made = h5py.h5d.create(file.id, name.encode(), form, h5py.h5s.create_simple((3,)))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([b"a  \0", b"b\0cd", b"a   "], "V4"), mtype=form)
    file["scalar text"], file["scalar bytes"], file["scalar"] = "ü", np.bytes_(b"x"), np.float64(3)
    file["references"] = np.array([file.ref, file["scalar"].ref], dtype=h5py.ref_dtype)
    file["region"] = np.array([file["terminated"].regionref[:1]], dtype=h5py.regionref_dtype)
    file["null"], file["enum"] = h5py.Empty("f4"), np.array([1, 2], h5py.enum_dtype({"A": 1, "B": 2}, ">i2"))
    file["sequences"] = np.array([np.arange(2), np.arange(3)], dtype=h5py.vlen_dtype("i4"))
    file["opaque"] = np.array([b"abc"], "V3")
    file["dates"] = np.array([1, 2], "M8[s]").astype(DATES)
    kinds = [("a", ">i2"), ("t", text), ("s", "S3"), ("m", "<f4", (2, 2)), ("flag", "?"), ("c", ">c8")]
    file.create_dataset("compound", (3,), np.dtype(kinds), chunks=(2,), compression="gzip")[:2] = np.array(
        [(1, "x", b"ab", np.eye(2), True, 1j), (2, "ü", b"c", np.ones((2, 2)), False, 2)], np.dtype(kinds)
    )
    file["compound without text"] = np.zeros(2, [("a", ">i2"), ("s", "S3"), ("inner", [("x", "<f8"), ("y", ">i4")])])
    file["inner text"] = np.array([((1, "x"),)], np.dtype([("in", np.dtype([("n", "i4"), ("t", text)]))]))
    file["gaps"] = np.zeros(
        3, np.dtype({"names": ["a", "b"], "formats": ["<i2", ">f8"], "offsets": [3, 8], "itemsize": 20})
    )
    file["sub"] = np.zeros(3, np.dtype((">i4", (2, 5))))
    file.create_dataset("never written", (5, 4), ">f4", chunks=(2, 2), fillvalue=7)
    file.create_dataset("never written texts", (5,), text, chunks=(2,))
    file.create_dataset("early", (5,), "<i4", chunks=(2,), maxshape=(None,))[:] = range(5)
    for filters in ({"shuffle": True, "compression": 5}, {"fletcher32": True}, {"scaleoffset": 0}):
        file.create_dataset(f"filters {filters}", data=np.arange(35).reshape(7, 5), chunks=(2, 3), **filters)
    file["linked"], file["lost"] = h5py.SoftLink("/scalar"), h5py.SoftLink("/nothing")


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_datasets_that_anndata_does_not_write(tmp_path: Path, libver: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as file:
        odd_datasets(file)
    assert len(paths_of(tmp_path / "a.h5")) > 25
    assert differences(tmp_path / "a.h5") == []


@given(SEEDS)
@settings(max_examples=settings().max_examples // 2)
def test_datasets_of_any_datatype(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = tmp_path_factory.mktemp("made") / "made.h5"
    make_file(path, random.Random(seed))
    assert differences(path, is_compared=is_dataset_of_h5py) == []


def test_a_difference_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law can fail: numbers in the wrong byte order, and strings that end elsewhere, are both found."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        odd_datasets(file)
    with monkeypatch.context() as patch:
        patch.setattr(elements, "_order", lambda stored: "<")
        assert {name for name, _, _ in differences(tmp_path / "a.h5")} >= {"/sub", "/compound", "/gaps", "/enum"}
    with monkeypatch.context() as patch:
        patch.setattr(elements, "_padded", lambda rows, stored: rows)
        assert [name for name, _, _ in differences(tmp_path / "a.h5")] == ["/blank", "/terminated"]


# -- damaged bytes --


@given(st.sampled_from(["golden", "odd", "made"]), SEEDS, st.booleans())
@example(kind="odd", change=0, is_summed=True)
def test_damaged_bytes_are_errors_of_ours(
    tmp_path_factory: pytest.TempPathFactory, kind: str, change: int, is_summed: bool
) -> None:
    """Also with checksums that match: they are computed over the changed bytes by whoever means harm."""
    folder, chance = tmp_path_factory.mktemp("damaged"), random.Random(change)
    data = sample(folder, kind, chance)
    with pytest.MonkeyPatch.context() as patch:
        if not is_summed:
            patch.setattr("colonnade.format.source.HDF5Source.verified", lambda self, data, address, what: data[:-4])
        for number in range(3):
            path = folder / f"{number}.h5"
            path.write_bytes(spoiled(data, chance))
            start = time.perf_counter()
            with suppress(ColonnadeError):
                read_all(path)
            assert time.perf_counter() - start < LONGEST


def sample(folder: Path, kind: str, chance: random.Random) -> bytes:
    path = folder / "whole.h5"
    if kind == "golden":
        return chance.choice([one for one in SAMPLES if one.stat().st_size < 300_000]).read_bytes()
    if kind == "made":
        with cn.open(path, "w") as opened:
            cn.write_element(opened.h5, "e", made_elements(), compression=chance.choice([None, "gzip"]))
    else:
        with h5py.File(path, "w", libver=chance.choice(["earliest", "latest"])) as file:
            odd_datasets(file)
    return path.read_bytes()


def read_all(path: Path) -> None:
    """Read every element of a file without libhdf5, and its tables; the kinds of errors are looked at here."""
    with cn.open(path, library="never") as file:
        for table in file.tables()[:20]:
            outcome(lambda table=table: file[table])
        for name in islice(_walk(file._handle.root, "/", set()), 60):
            outcome(lambda name=name: cn.read_element(file, name))
