"""AnnData's elements: what anndata wrote reads equal here, and the other way round, down to HDF5's types."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anndata
import awkward as ak
import dask.array as da
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from anndata.io import read_elem, write_elem
from anndata.tests.helpers import assert_equal

import colonnade as cn
from colonnade.anndata import AwkwardBuffers, Categorical, Members, Nullable, SparseMatrix
from colonnade.errors import ConflictError, CorruptError, DataError, FormatError, UnsupportedError, UsageError
from colonnade.h5.handles import LibraryDataset
from tests.conftest import SetLimits
from tests.generated import generated

anndata.settings.allow_write_nullable_strings = True
pytestmark = pytest.mark.filterwarnings("ignore:Support for Awkward Arrays")


@pytest.fixture
def h5(tmp_path: Path) -> Iterator[h5py.File]:
    with h5py.File(tmp_path / "elements.h5", "w") as opened:
        yield opened


@pytest.fixture(scope="module")
def adata() -> anndata.AnnData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = generated((30, 20))
        made.raw = made.copy()
    return made


def in_memory(value: Any) -> Any:
    """A value as anndata has it: sparse matrices read, mappings as dicts."""
    if isinstance(value, SparseMatrix):
        return value.to_scipy()
    if isinstance(value, (dict, Members)):
        return {name: in_memory(one) for name, one in value.items()}
    return value


def described(node: Any) -> Any:
    """An object of a file as HDF5 keeps it, but for its values: datatypes, spaces, storage, attributes."""
    attributes = {}
    for name in sorted(node.attrs):
        one = node.attrs.get_id(name)
        kind = one.get_type()
        variable = kind.is_variable_str() if isinstance(kind, h5py.h5t.TypeStringID) else None
        coded = (kind.get_cset(), kind.get_strpad()) if isinstance(kind, h5py.h5t.TypeStringID) else None
        if name == "na-value" and node.attrs[name] == "NA":  # anndata 0.13 writes it; without it, it means the same
            continue
        attributes[name] = (kind.get_class(), one.dtype, one.shape, variable, coded, repr(node.attrs[name]))
    if isinstance(node, h5py.Group):
        return attributes, {name: described(node[name]) for name in node}
    kind, creation = node.id.get_type(), node.id.get_create_plist()
    text = (kind.is_variable_str(), kind.get_cset(), kind.get_strpad()) if kind.get_class() == h5py.h5t.STRING else None
    space = node.id.get_space().get_simple_extent_type()
    stored = (creation.get_layout(), node.chunks, node.maxshape, node.compression)
    return attributes, kind.get_class(), node.dtype, kind.get_size(), text, space, node.shape, stored


# -- everything anndata's own generator makes --


def test_a_whole_anndata_reads_equal(adata: anndata.AnnData, h5: h5py.File) -> None:
    write_elem(h5, "a", adata)
    members = cn.read_element(h5["a"], pandas=True)
    assert isinstance(members, Members) and members.kind == "anndata"
    for name in ("obs", "var"):
        assert_equal(members[name], getattr(adata, name), exact=True)
    assert_equal(in_memory(members["X"]), adata.X)
    for name in ("obsm", "varm", "obsp", "varp", "layers", "uns"):
        found, want = in_memory(members[name]), dict(getattr(adata, name))
        want.pop(None, None)  # since anndata 0.13, X is a layer
        assert set(found) == set(want)
        for key, value in want.items():
            assert_equal(found[key], value)
    assert adata.raw is not None
    assert_equal(members["raw"]["var"], adata.raw.var, exact=True)
    assert_equal(in_memory(members["raw"]["X"]), adata.raw.X)


def test_a_whole_anndata_is_written_as_anndata_writes_it(adata: anndata.AnnData, h5: h5py.File) -> None:
    write_elem(h5, "theirs", adata)
    cn.write_element(h5, "ours", adata)
    assert_equal(read_elem(h5["ours"]), adata, exact=True)
    assert described(h5["ours"]) == described(h5["theirs"])


def test_what_is_read_can_be_written_again(adata: anndata.AnnData, h5: h5py.File) -> None:
    """Through colonnade's own values, without pandas: nothing is lost."""
    write_elem(h5, "theirs", adata)
    cn.write_element(h5, "ours", cn.read_element(h5["theirs"]))
    assert_equal(read_elem(h5["ours"]), adata, exact=True)


def test_a_file_written_member_by_member_is_an_h5ad(adata: anndata.AnnData, tmp_path: Path) -> None:
    path = tmp_path / "ours.h5ad"
    with cn.open(path, "w") as f:
        for name, value in {"X": adata.X, "obs": adata.obs, "var": adata.var, "obsm": dict(adata.obsm)}.items():
            cn.write_element(f.h5, name, value, compression="gzip")
        f.h5.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
    read = anndata.read_h5ad(path)
    assert_equal(read.obs, adata.obs, exact=True)
    assert_equal(read.X, adata.X)
    with cn.open(path) as f:
        assert f.tables() == ["/obs", "/obsm/df", "/var"]
        assert f["obs"].where("int64 > 0").count() == int((adata.obs["int64"] > 0).sum())


# -- every kind of element --

VALUES: dict[str, Any] = {
    "int8": np.arange(5, dtype="i1"),
    "big endian": np.arange(5, dtype=">i4"),
    "float16": np.array([1.5, 2.5], dtype="f2"),
    "complex": np.array([1 + 2j, 3], dtype="c8"),
    "bool": np.array([[True, False], [False, True]]),
    "bytes array": np.array([b"a", b"bcd"]),
    "empty": np.zeros((0, 3)),
    "rank 3": np.arange(24).reshape(2, 3, 4),
    "texts": np.array(["ä", "", "with blank "], dtype=object),
    "texts U": np.array([["a", "bc"], ["", "d"]]),
    "no texts": np.array([], dtype=object),
    "records": np.array([(1, "x", 2.5), (2, "ü", 3.5)], dtype=[("n", "i4"), ("t", "O"), ("f", "f8")]),
    "dict": {"a": 1, "b": {"c": "text", "d": np.arange(3), "e": {}}},
    "text": "a text: ü",
    "no text": "",
    "int": 42,
    "float": 2.5,
    "true": True,
    "np int": np.int16(-3),
    "np bool": np.bool_(False),
    "np complex": np.complex64(1 + 2j),
    "none": None,
    "list": [1, 2, 3],
    "categorical": pd.Categorical(["a", None, "b", "a"], categories=["b", "a", "unused"], ordered=True),
    "categories of numbers": pd.Categorical([1.5, 2.5, np.nan]),
    "all missing": pd.Categorical([None, None]),
    "nullable int": pd.array([1, None, 3], dtype="Int8"),
    "nullable uint": pd.array([1, None, 2**64 - 1], dtype="UInt64"),
    "nullable bool": pd.array([True, None, False], dtype="boolean"),
    "nullable texts": pd.array(["a", None, ""], dtype="string"),
    "csr": sp.random(20, 10, 0.2, format="csr", dtype="f4", random_state=1),
    "csc": sp.random(20, 10, 0.2, format="csc", random_state=1),
    "csr array": sp.csr_array(np.eye(3, dtype="i8")),
    "empty csr": sp.csr_matrix((5, 0)),
    "awkward": ak.Array([{"x": 1, "y": [1.5, 2.5]}, {"x": 2, "y": []}]),
    "frame": pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}, index=pd.Index(["r", "s"], name="row")),
    "frame without columns": pd.DataFrame(index=pd.Index(["r", "s"])),
    "frame of numbers": pd.DataFrame({"a": [1.5, 2.5]}),
    "index is a column": pd.DataFrame({"a": ["x", "y"]}, index=pd.Index(["x", "y"], name="a")),
    "odd names": pd.DataFrame({"..": [1], " ": [2], "ü\n": [3], "__categories": [4]}, index=pd.Index(["z"])),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_an_element_is_written_as_anndata_writes_it(value: Any, h5: h5py.File) -> None:
    """Types, attributes and storage are equal, and anndata reads the value."""
    write_elem(h5, "theirs", value)
    cn.write_element(h5, "ours", value)
    assert described(h5["ours"]) == described(h5["theirs"])
    assert_equal(read_elem(h5["ours"]), read_elem(h5["theirs"]), exact=True)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_an_element_of_anndata_reads_equal(value: Any, h5: h5py.File) -> None:
    write_elem(h5, "theirs", value)
    found = in_memory(cn.read_element(h5["theirs"], pandas=True))
    want = read_elem(h5["theirs"])
    assert isinstance(found, np.generic) or type(found) is type(want)  # a scalar keeps its width here
    assert_equal(found, want, exact=True)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_an_element_goes_round_without_pandas(value: Any, h5: h5py.File) -> None:
    write_elem(h5, "theirs", value)
    cn.write_element(h5, "ours", cn.read_element(h5["theirs"]))
    assert described(h5["ours"]) == described(h5["theirs"])
    assert_equal(read_elem(h5["ours"]), read_elem(h5["theirs"]), exact=True)


def test_python_complex_and_masks_are_kept_where_anndata_fails(h5: h5py.File) -> None:
    cn.write_element(h5, "complex", 1 + 2j)
    assert read_elem(h5["complex"]) == 1 + 2j
    cn.write_element(h5, "masked", np.ma.MaskedArray([1, 2, 3], [False, True, False]))
    assert read_elem(h5["masked"]).tolist() == [1, pd.NA, 3]


@pytest.mark.parametrize("meaning", ["NA", "NaN"])
def test_both_meanings_of_a_missing_text_are_kept(meaning: Any, h5: h5py.File) -> None:
    given = Nullable(np.array(["a", "gone"], dtype=object), np.array([False, True]), meaning)
    cn.write_element(h5, "texts", given)
    assert h5["texts/values"].asstr()[:].tolist() == ["a", ""]
    assert ("na-value" in h5["texts"].attrs) == (meaning == "NaN")
    found = cn.read_element(h5["texts"])
    assert (found.na_value, found.mask.tolist(), found.to_arrow().to_pylist()) == (meaning, [False, True], ["a", None])
    array = cn.read_element(h5["texts"], pandas=True)
    assert (array.dtype.na_value is pd.NA) == (meaning == "NA")
    cn.write_element(h5, "again", array)
    assert cn.read_element(h5["again"]).na_value == meaning
    h5["texts"].attrs["na-value"] = np.bytes_(meaning)
    assert cn.read_element(h5["texts"]).na_value == meaning


def test_bytes_are_read_and_refused(h5: h5py.File) -> None:
    h5["b"] = np.void(b"ab\0c")
    h5["b"].attrs.update({"encoding-type": "bytes", "encoding-version": "0.2.0"})
    assert cn.read_element(h5["b"]) == b"ab\0c"
    with pytest.raises(DataError, match="bytes"):
        cn.write_element(h5, "c", b"ab")


def test_tables_of_arrow_and_colonnade_are_frames(h5: h5py.File, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "n": pa.array([1, None, 3], pa.int16()),
            "t": ["a", None, "b"],
            "c": pa.array(["x", "y", "x"]).dictionary_encode(),
            "f": [1.5, float("nan"), 2.5],
            "name": ["r1", "r2", "r3"],
        }
    )
    cn.write(tmp_path / "t.h5", rows, table="t", labels=["name"])
    with cn.open(tmp_path / "t.h5") as f:
        cn.write_element(h5, "obs", f["t"])
        cn.write_element(h5, "some", f["t"].where("n == 3"))
    read = read_elem(h5["obs"])
    assert read.index.tolist() == ["r1", "r2", "r3"] and read.index.name == "name"
    assert read["n"].dtype == pd.Int16Dtype() and read["n"].tolist() == [1, pd.NA, 3]
    assert read["c"].tolist() == ["x", "y", "x"] and read["t"].tolist() == ["a", pd.NA, "b"]
    assert read_elem(h5["some"]).index.tolist() == ["r3"]
    cn.write_element(h5, "plain", rows)
    assert read_elem(h5["plain"]).index.tolist() == [0, 1, 2]
    table = cn.read_element(h5["obs"])
    assert table.layout == "anndata" and table.where("n is missing").row_numbers().tolist() == [1]


def test_many_columns_are_written_where_anndata_cannot(h5: h5py.File) -> None:
    frame = pd.DataFrame({f"c{i}": [i] for i in range(4500)}, index=pd.Index(["r"]))
    cn.write_element(h5, "wide", frame)
    read = read_elem(h5["wide"])
    assert list(read.columns) == list(frame.columns) and np.array_equal(read.to_numpy(), frame.to_numpy())


def test_an_element_is_a_part_of_a_commit(tmp_path: Path) -> None:
    """In a file that colonnade has open for changes, elements are written, replaced and rolled back with the rest."""
    path = tmp_path / "cells.h5ad"
    with cn.open(path, "w") as f:
        cn.write_element(f.h5, "uns", {"run": 1})
        cn.write_element(f.h5, "obs", VALUES["frame"])
    with cn.open(path, "r+") as f:
        cn.write_element(f.h5, "uns", {"run": 42, "colors": ["red", "blue"]})
    with cn.open(path, "r+") as f:
        with pytest.raises(ZeroDivisionError), f.transaction():
            cn.write_element(f.h5, "uns", {"run": 43})
            cn.write_element(f.h5, "obs", VALUES["frame of numbers"])
            raise ZeroDivisionError
        assert cn.read_element(f.h5["uns"])["run"] == 42
    with cn.open(path) as f:
        found = cn.read_element(f.h5["uns"])
        assert found["run"] == 42 and found["colors"].tolist() == ["red", "blue"]
        assert f["obs"].columns == ["a", "b"] and f["obs"].to_arrow()["b"].to_pylist() == ["x", "y"]
    with h5py.File(path) as h5:
        assert list(h5) == ["obs", "uns"]


# -- sparse matrices by blocks --


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_sparse_matrix_is_read_by_blocks(form: Any, h5: h5py.File, set_limits: SetLimits) -> None:
    set_limits(block_elements=30)
    want = sp.random(50, 40, 0.1, format=form, random_state=2)
    write_elem(h5, "X", want)
    found = cn.read_element(h5["X"])
    assert isinstance(found, SparseMatrix) and (found.shape, found.nnz, len(found)) == (want.shape, want.nnz, 50)
    assert found.dtype == want.dtype and found.format == form
    dense = want.toarray()
    for rows in (slice(None), slice(10, 20), slice(5, 5), slice(-3, None), slice(8, 2)):
        for columns in (slice(None), slice(3, 7), slice(0, 0)):
            block = found[rows, columns]
            assert block.format == form and np.array_equal(block.toarray(), dense[rows, columns])
    assert np.array_equal(found[7].toarray(), dense[7:8]) and np.array_equal(found[:, -1].toarray(), dense[:, -1:])
    blocks = [block.toarray() for block in found.blocks(7)]
    assert np.array_equal(np.concatenate(blocks, axis=0 if form == "csr" else 1), dense)
    for wrong in (50, slice(0, 9, 2), [1, 2], True):
        with pytest.raises(UsageError):
            found[wrong]


def test_only_the_rows_that_are_asked_for_are_read(h5: h5py.File) -> None:
    """A wrong index elsewhere is not met."""
    write_elem(h5, "X", sp.csr_matrix(np.ones((100, 5))))
    h5["X/indices"][-1] = 77
    found = cn.read_element(h5["X"])
    assert found[:50].sum() == 250
    with pytest.raises(CorruptError, match="77"):
        found[50:]


def _put(group: Any, name: str, data: Any) -> None:
    del group[name]
    group[name] = data


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x["indices"].__setitem__(0, 5),
        lambda x: x["indices"].__setitem__(0, -1),
        lambda x: x["indptr"].__setitem__(0, 1),
        lambda x: x["indptr"].__setitem__(2, -5),
        lambda x: x["indptr"].__setitem__(2, 3),
        lambda x: x["indptr"].__setitem__(4, 100),
        lambda x: x["indptr"].__setitem__(4, 3),
        lambda x: _put(x, "indptr", np.zeros(3, "i4")),
        lambda x: _put(x, "indptr", np.zeros(5)),
        lambda x: _put(x, "indices", np.zeros(3, "i4")),
        lambda x: _put(x, "data", np.zeros((4, 5))),
        lambda x: _put(x, "data", np.array([b"x"] * 20)),
        lambda x: x.__delitem__("indptr"),
        lambda x: x.attrs.__setitem__("shape", np.array([2**60, 5])),
        lambda x: x.attrs.__setitem__("shape", np.array([-1, 5])),
        lambda x: x.attrs.__setitem__("shape", "4"),
    ],
)
def test_scipy_never_sees_a_wrong_bound(work: Callable[[Any], None], h5: h5py.File) -> None:
    write_elem(h5, "X", sp.csr_matrix(np.ones((4, 5))))
    work(h5["X"])
    with pytest.raises(FormatError):
        cn.read_element(h5["X"]).to_scipy()


# -- files that are not as they should be --


def test_what_is_not_known_is_refused_by_its_pair(h5: h5py.File) -> None:
    write_elem(h5, "a", np.arange(3))
    h5["a"].attrs["encoding-version"] = "0.3.0"
    with pytest.raises(UnsupportedError, match=r"array.*0\.3\.0"):
        cn.read_element(h5["a"])
    with pytest.raises(UsageError):
        cn.read_element(42)  # type: ignore[arg-type]


def test_a_group_in_itself_ends(h5: h5py.File) -> None:
    cn.write_element(h5, "uns", {"a": {"b": 1}})
    h5["uns/a/again"] = h5["uns"]
    with pytest.raises(UnsupportedError):
        cn.read_element(h5["uns"])


def test_links_do_not_make_few_objects_many(h5: h5py.File) -> None:
    """Sixty groups, each twice in the one above: there are 2 to the power of 60 paths."""
    group = h5.create_group("uns")
    for _ in range(60):
        below = group.create_group("a")
        group["b"] = below
        group = below
    group["array"] = np.arange(3)
    found = cn.read_element(h5["uns"])
    assert found["a"]["b"] is found["b"]["a"]


def test_groups_too_deep_are_refused(h5: h5py.File) -> None:
    h5.create_group("/".join(["a"] * 300))
    with pytest.raises(UnsupportedError, match="deep"):
        cn.read_element(h5["a"])


def test_more_bytes_than_can_be_are_not_read(h5: h5py.File) -> None:
    huge = h5.create_dataset("x", shape=(2**50,), chunks=(1024,), dtype="f8")
    huge.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    with pytest.raises(UnsupportedError, match="claims"):
        cn.read_element(h5["x"])


BREAKS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "codes out of range": (VALUES["categorical"], lambda x: x["codes"].__setitem__(0, 3)),
    "codes below -1": (VALUES["categorical"], lambda x: x["codes"].__setitem__(0, -2)),
    "codes of floats": (VALUES["categorical"], lambda x: _put(x, "codes", np.zeros(4))),
    "no flag": (VALUES["categorical"], lambda x: x.attrs.__delitem__("ordered")),
    "no categories": (VALUES["categorical"], lambda x: x.__delitem__("categories")),
    "no mask": (VALUES["nullable int"], lambda x: x.__delitem__("mask")),
    "short mask": (VALUES["nullable int"], lambda x: _put(x, "mask", np.zeros(2, bool))),
    "mask of ints": (VALUES["nullable int"], lambda x: _put(x, "mask", np.zeros(3, "i1"))),
    "floats as integers": (VALUES["nullable int"], lambda x: _put(x, "values", np.zeros(3))),
    "form is no JSON": (VALUES["awkward"], lambda x: x.attrs.__setitem__("form", "{")),
    "buffer missing": (VALUES["awkward"], lambda x: x.__delitem__(next(n for n in x if n.endswith("offsets")))),
    "wild offsets": (VALUES["awkward"], lambda x: x[next(n for n in x if n.endswith("offsets"))].__setitem__(1, 9)),
    "negative length": (VALUES["awkward"], lambda x: x.attrs.__setitem__("length", -1)),
    "awkward too long": (VALUES["awkward"], lambda x: x.attrs.__setitem__("length", 9)),
}


@pytest.mark.parametrize(("value", "work"), BREAKS.values(), ids=BREAKS.keys())
def test_a_broken_element_is_an_error_of_the_file(value: Any, work: Callable[[Any], Any], h5: h5py.File) -> None:
    write_elem(h5, "x", value)
    work(h5["x"])
    with pytest.raises(FormatError):
        cn.read_element(h5["x"])


def test_a_frame_with_a_lost_column_is_not_handed_on(h5: h5py.File) -> None:
    """As a table it tells of its problems; as a pandas frame, or written again, the column would be lost unseen."""
    write_elem(h5, "x", VALUES["frame"])
    del h5["x/b"]
    table = cn.read_element(h5["x"])
    assert table.columns == ["a"] and [one.path for one in table.problems] == ["/x/b"]
    with pytest.raises(FormatError, match="/x/b"):
        cn.read_element(h5["x"], pandas=True)
    with pytest.raises(FormatError, match="/x/b"):
        cn.write_element(h5, "y", table)
    assert list(h5) == ["x"]


def test_a_column_of_records_comes_to_pandas(h5: h5py.File) -> None:
    write_elem(h5, "x", VALUES["frame"])
    h5["x/r"] = np.array([(1, 2.5), (3, 4.5)], dtype=[("n", "i4"), ("f", "f8")])
    h5["x"].attrs["column-order"] = ["a", "r"]
    assert cn.read_element(h5["x"], pandas=True)["r"].tolist() == [(1, 2.5), (3, 4.5)]
    assert cn.read_element(h5["x"]).to_arrow()["r"].to_pylist() == [{"n": 1, "f": 2.5}, {"n": 3, "f": 4.5}]


def test_a_category_twice_is_no_categorical_of_pandas(h5: h5py.File) -> None:
    write_elem(h5, "x", VALUES["categorical"])
    h5["x/categories"][0] = "a"
    assert cn.read_element(h5["x"]).to_numpy().tolist() == ["a", None, "a", "a"]
    with pytest.raises(FormatError, match="two categories are equal"):
        cn.read_element(h5["x"], pandas=True)


# -- what is refused before a byte is written --

REFUSED: dict[str, Any] = {
    "mixed objects": np.array(["a", 1], dtype=object),
    "missing text": np.array(["a", None], dtype=object),
    "numbers beside texts": [1, "a"],
    "NUL": "a\0b",
    "NUL inside": np.array(["a\0b"], dtype=object),
    "surrogate": "\ud800",
    "times": np.array(["2020-01-01"], dtype="M8[ns]"),
    "huge number": 2**70,
    "a set": {1, 2},
    "ragged": [[1], [1, 2]],
    "key is a number": {1: 2},
    "key is empty": {"": 1},
    "key is a dot": {"a": {".": 1}},
    "key is a path": {"a/b": 1},
    "deep inside": {"a": {"b": [np.arange(3), {"c": object()}]}},
    "coo": sp.coo_matrix(np.eye(2)),
    "column is a path": pd.DataFrame({"a/b": [1]}),
    "column is empty": pd.DataFrame({"": [1]}),
    "column is a dot": pd.DataFrame({"ok": [1], ".": [1]}),
    "column is a number": pd.DataFrame({1: [1]}),
    "column is the index": pd.DataFrame({"_index": [1]}),
    "columns twice": pd.DataFrame([[1, 2]], columns=["a", "a"]),
    "two of a name": pd.DataFrame({"a": [1]}, index=pd.Index([2], name="a")),
    "levels": pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(1, 2)])),
    "column of objects": pd.DataFrame({"a": np.array(["x", None], dtype=object)}, dtype=object),
    "column of times": pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}),
    "nullable float": pd.array([1.5, None], dtype="Float64"),
    "intervals": pd.Categorical(pd.cut([1, 2], 2)),
    "mask of floats": np.ma.MaskedArray([1.5, 2.5], [True, False]),
    "codes of nothing": Categorical(np.array([0, 2]), np.array(["a", "b"], dtype=object)),
    "categories twice": Categorical(np.array([0]), np.array(["a", "a"], dtype=object)),
    "short mask": Nullable(np.arange(3), np.array([True])),
    "arrow floats with nulls": pa.table({"a": [1.5, None]}),
}


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_held_is_refused_and_nothing_is_written(value: Any, h5: h5py.File) -> None:
    cn.write_element(h5, "x", {"kept": 1})
    before = described(h5)
    for name in ("x", "y"):
        with pytest.raises(DataError):
            cn.write_element(h5, name, value)
    assert described(h5) == before and list(h5) == ["x"]


# -- where and how --


def test_the_root_is_replaced_as_a_whole(adata: anndata.AnnData, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5ad", "w") as h5:
        h5.attrs["old"] = 1
        h5["X"] = h5["other"] = [1, 2]
        for refused in (np.arange(3), {"a/b": 1}):
            with pytest.raises((UsageError, DataError)):
                cn.write_element(h5, "/", refused)
        assert sorted(h5) == ["X", "other"]
        cn.write_element(h5, "/", adata)
        with pytest.raises(UsageError, match="not the root"):
            cn.write_element(h5["uns"], "/", {})
        assert dict(h5.attrs) == {"encoding-type": "anndata", "encoding-version": "0.1.0"} and "other" not in h5
    assert_equal(anndata.read_h5ad(tmp_path / "a.h5ad"), adata, exact=True)


def test_an_empty_name_is_the_root_of_an_empty_file_only(adata: anndata.AnnData, tmp_path: Path) -> None:
    """anndata up to 0.12 writes into the root then. A name left empty by mistake must not replace a file."""
    with h5py.File(tmp_path / "a.h5ad", "w") as h5:
        cn.write_element(h5, "", adata)
        for group in (h5, h5.create_group("new")):
            with pytest.raises(UsageError, match="empty"):
                cn.write_element(group, "", {"a": 1})
        del h5["new"]
    assert_equal(anndata.read_h5ad(tmp_path / "a.h5ad"), adata, exact=True)


def test_arrays_are_chunked_and_compressed_as_is_asked_for(h5: h5py.File) -> None:
    value = {"flat": np.arange(10), "square": np.eye(4), "none": np.zeros((0, 3)), "one": 1}
    cn.write_element(h5, "a", value, compression="gzip", compression_opts=9, chunks=(3, 9))
    assert (h5["a/square"].chunks, h5["a/square"].compression_opts) == ((3, 4), 9)
    cn.write_element(h5, "a", value, chunks=4)
    assert (h5["a/flat"].chunks, h5["a/square"].chunks) == ((4,), None)
    cn.write_element(h5, "a", value, chunks=True)
    assert h5["a/square"].chunks is not None
    for wrong in ({"chunks": 0}, {"chunks": (2, -1)}, {"chunks": "2"}, {"compression_opts": 4}):
        with pytest.raises(UsageError):
            cn.write_element(h5, "a", value, **wrong)
    for level in (10, -1, True):
        with pytest.raises(UsageError):
            cn.write_element(h5, "a", value, compression="gzip", compression_opts=level)


def test_a_dataset_of_h5py_is_copied_block_by_block(h5: h5py.File, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as the array that it holds; of large ones no more than a few MiB are in memory."""
    sizes: list[int] = []
    original = LibraryDataset.read_array

    def counted(dataset: Any, part: tuple[slice, ...] = ()) -> Any:
        read = original(dataset, part)
        sizes.append(read.nbytes)
        return read

    monkeypatch.setattr(LibraryDataset, "read_array", counted)
    large = h5.create_dataset("large", data=np.arange(4 << 20).reshape(-1, 64))
    cn.write_element(h5, "copy", large)
    assert len(sizes) > 2 and max(sizes) <= 8 << 20
    assert (h5["copy"][:] == large[:]).all()
    for name, value in {"texts": ["a", "ü"], "bytes": np.array([b"a", b"bc"]), "number": 3,
                        "big": np.arange(3, dtype=">i2"),
                        "none": h5py.Empty("f"), "rec": np.array([(1, 2.5)], dtype="i4,f8")}.items():  # fmt: skip
        h5.create_dataset(name, data=value)
        cn.write_element(h5, "ours", h5[name])
        cn.write_element(h5, "theirs", cn.read_element(h5[name]) if name != "bytes" else value)
        assert described(h5["ours"]) == described(h5["theirs"])


def test_a_dask_array_is_written_as_what_it_computes(h5: h5py.File) -> None:
    values = np.arange(60.0).reshape(10, 6)
    cn.write_element(h5, "lazy", da.from_array(values, chunks=(4, 6)))
    cn.write_element(h5, "whole", values)
    assert described(h5["lazy"]) == described(h5["whole"])
    assert_equal(read_elem(h5["lazy"]), values)
    unknown = da.from_array(values, chunks=(4, 4))
    cn.write_element(h5, "some", unknown[unknown > 30])
    assert_equal(read_elem(h5["some"]), values[values > 30])
    cn.write_element(h5, "sum", unknown.sum())
    assert cn.read_element(h5["sum"]) == values.sum()


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix])
def test_a_sparse_dask_array_has_the_index_arrays_that_anndata_gives_it(kind: Any, h5: h5py.File) -> None:
    matrix = kind(np.arange(60.0).reshape(10, 6))
    assert matrix.indices.dtype == np.int32
    lazy = da.from_array(matrix, chunks=(4, 6) if matrix.format == "csr" else (10, 2))
    cn.write_element(h5, "ours", lazy)
    write_elem(h5, "theirs", lazy)
    for name in ("data", "indices", "indptr"):
        assert h5["ours"][name].dtype == h5["theirs"][name].dtype
        assert (h5["ours"][name][:] == h5["theirs"][name][:]).all()
    cn.write_element(h5, "one block", da.from_array(matrix, chunks=-1, asarray=False))
    assert h5["one block/indices"].dtype == np.int64
    assert matrix.indices.dtype == matrix.indptr.dtype == np.int32  # what the caller holds is not changed


def test_a_broken_matrix_is_not_written(h5: h5py.File) -> None:
    matrix = sp.csr_matrix(np.eye(3))
    matrix.indices[0] = 7
    with pytest.raises(DataError):
        cn.write_element(h5, "x", matrix)


def test_a_failure_half_way_leaves_what_was_there(h5: h5py.File, monkeypatch: pytest.MonkeyPatch) -> None:
    cn.write_element(h5, "x", {"a": 1})
    real, calls = h5py.Group.create_dataset, []

    def failing(*given: Any, **named: Any) -> Any:
        calls.append(given)
        if len(calls) == 3:
            raise OSError("disk full")
        return real(*given, **named)

    monkeypatch.setattr(h5py.Group, "create_dataset", failing)
    with pytest.raises(ConflictError, match="disk full"):
        cn.write_element(h5, "x", {"a": 2, "b": 3, "c": 4})
    monkeypatch.undo()
    assert list(h5) == ["x"] and cn.read_element(h5["x"]) == {"a": 1}


def test_places_are_checked(h5: h5py.File, tmp_path: Path) -> None:
    cn.write_element(h5, "uns", {})
    cn.write_element(h5, "uns/a", 1)
    assert cn.read_element(h5["uns"]) == {"a": 1}
    for name in ("", ".", "/", "no/such", "uns/a/b"):
        with pytest.raises(UsageError):
            cn.write_element(h5, name, 1)
    with pytest.raises(UsageError):
        cn.write_element(h5, "x", 1, compression="zip")
    with h5py.File(tmp_path / "read.h5", "w"):
        pass
    with h5py.File(tmp_path / "read.h5", "r") as closed, pytest.raises(ConflictError):
        cn.write_element(closed, "x", 1)


def test_without_awkward_its_buffers_come(h5: h5py.File, monkeypatch: pytest.MonkeyPatch) -> None:
    write_elem(h5, "x", VALUES["awkward"])
    monkeypatch.setattr("colonnade.anndata.read._has_awkward", lambda: False)
    found = cn.read_element(h5["x"])
    assert isinstance(found, AwkwardBuffers) and len(found) == 2
    cn.write_element(h5, "y", found)
    assert read_elem(h5["y"]).to_list() == VALUES["awkward"].to_list()


def test_reading_elements_imports_no_other_package(tmp_path: Path) -> None:
    """Neither anndata, nor pandas, nor scipy: not even for a frame or a sparse matrix that is only opened."""
    with h5py.File(tmp_path / "a.h5ad", "w") as h5:
        write_elem(h5, "all", {"frame": VALUES["frame"], "csr": VALUES["csr"], "c": VALUES["categorical"]})
    code = (
        "import sys, colonnade as cn\n"
        f"with cn.open({str(tmp_path / 'a.h5ad')!r}) as f: found = cn.read_element(f.h5['all'])\n"
        "print(sorted(found), sorted({'anndata', 'pandas', 'scipy', 'awkward'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['c', 'csr', 'frame'] []"


def test_nullable_columns_without_missing_rows_are_written_again(h5: h5py.File) -> None:
    df = pd.DataFrame(
        {"b": pd.array([True, False], dtype="boolean"), "i": pd.array([1, 2], dtype="Int8")}, index=["a", "b"]
    )
    write_elem(h5, "theirs", df)
    cn.write_element(h5, "ours", cn.read_element(h5["theirs"]))
    assert_equal(read_elem(h5["ours"]), df, exact=True)
