"""Elements by path, from a File, and from objects of h5py: one signature; lazy ones read the last commit."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import anndata
import h5py
import hdf5plugin
import numpy as np
import pytest
import scipy.sparse

import colonnade as cn
from colonnade.errors import ConflictError, FormatError, UnsupportedError, UsageError
from tests.rooms.test_cli import loaded_by

GOLDEN = Path(__file__).parents[1] / "golden" / "anndata"


def matrix(factor: float = 1.0) -> Any:
    return scipy.sparse.csr_array(factor * np.arange(12).reshape(4, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "cells.h5ad"
    data = anndata.AnnData(matrix(), uns={"seed": 1, "deep": {"names": ["a", "b"]}}, layers={"raw": np.ones((4, 3))})
    data.obs["n"] = range(4)
    data.write_h5ad(path)
    return path


def test_a_path_a_file_and_an_object_of_h5py_give_the_same(path: Path) -> None:
    with cn.open(path) as file, h5py.File(path) as h5:
        sources: list[Any] = [path, str(path), file, file.h5, h5]
        for source in sources:
            assert cn.read_element(source, "uns/deep")["names"].tolist() == ["a", "b"]
            assert cn.read_element(source, "/uns/seed") == 1
            assert cn.read_element(source, "X")[1].toarray().tolist() == [[3, 4, 5]]
            assert cn.read_element(source, "obs")["n"].to_numpy().tolist() == [0, 1, 2, 3]
            assert cn.read_element(source, "obs", pandas=True)["n"].tolist() == [0, 1, 2, 3]
            assert cn.read_element(source)["layers"]["raw"].shape == (4, 3)
        assert cn.read_element(file.h5["layers"], "raw").shape == cn.read_element(h5["layers/raw"]).shape == (4, 3)


def test_a_file_object_and_a_group_that_was_opened(path: Path) -> None:
    with path.open("rb") as stream, cn.open(stream) as file:
        assert cn.read_element(file, "uns/seed") == 1
    with h5py.File(path) as h5, cn.open(h5["uns"]) as file:
        assert cn.read_element(file, "seed") == cn.read_element(file)["seed"] == 1
        assert cn.read_element(file, "/uns/seed") == 1


def test_an_element_that_is_not_there(path: Path) -> None:
    for source in (path, cn.open(path)):
        with pytest.raises(UsageError, match=r"there is no element /unz in .*Did you mean uns\?"):
            cn.read_element(source, "unz")
        with pytest.raises(UsageError, match="there is no element /none/at/all"):
            cn.read_element(source, "none/at/all")
    with h5py.File(path) as h5, pytest.raises(FormatError, match="no member 'unz'"):
        cn.read_element(h5, "unz")


def test_an_element_that_cannot_be_opened(path: Path) -> None:
    with h5py.File(path, "r+") as h5:
        h5["lost"] = h5py.SoftLink("/nowhere")
    with pytest.raises(FormatError, match=r"/lost of .* cannot be opened"):
        cn.read_element(path, "lost")


def test_only_what_is_lazy_keeps_the_file_of_a_path_open(path: Path) -> None:
    def is_open() -> bool:
        gc.collect()
        links = list(Path("/proc/self/fd").iterdir())
        return any(link.exists() and link.resolve() == path.resolve() for link in links)

    assert not is_open()
    assert cn.read_element(path, "uns")["seed"] == 1
    assert cn.read_element(path, "obs", pandas=True).shape == (4, 1)
    assert not is_open()
    for name in ("X", "obs", None):
        lazy = cn.read_element(path, name)
        assert is_open()
        del lazy
        assert not is_open()
    with cn.read_element(path, "obs") as table:
        assert len(table) == 4
    with pytest.raises(UsageError, match="closed"):
        table.to_arrow()


def test_lazy_elements_read_the_last_commit(path: Path) -> None:
    with cn.open(path) as file:
        stored, members = cn.read_element(file, "X"), cn.read_element(file)
        inside, table = members["X"], cn.read_element(file, "obs")
        assert stored[1].toarray().tolist() == [[3, 4, 5]]
        with cn.open(path, "r+") as writer:
            cn.write_element(writer.h5, "X", scipy.sparse.csc_array(np.ones((4, 2))))
            cn.write_element(writer.h5, "new", 7)
            writer["obs"].add_column("more", [4, 3, 2, 1])
        for lazy in (stored, inside):
            assert (lazy.shape, lazy.format, lazy.nnz, len(lazy)) == ((4, 2), "csc", 8, 4)
            assert lazy[1].toarray().tolist() == [[1, 1]]
            assert lazy.starts().tolist() == [0, 4, 8]
        assert members["new"] == 7 and "new" in list(members)
        assert table.columns == ["n", "more"]


def test_an_element_that_is_gone(path: Path) -> None:
    with cn.open(path) as file:
        stored, members = cn.read_element(file, "X"), cn.read_element(file)
        with cn.open(path, "r+") as writer:
            del writer.h5["X"]
        with pytest.raises(UsageError, match="there is no element /X"):
            stored.to_scipy()
        with pytest.raises(KeyError):
            members["X"]


def test_blocks_are_of_one_state(path: Path) -> None:
    with cn.open(path) as file:
        stored = cn.read_element(file, "X")
        blocks = stored.blocks(1)
        assert next(blocks).toarray().tolist() == [[0, 1, 2]]
        with cn.open(path, "r+") as writer:
            cn.write_element(writer.h5, "X", matrix(2))
        with pytest.raises(ConflictError, match="changed while it was read"):
            next(blocks)
        assert [block.toarray().tolist() for block in stored.blocks(4)] == [(2 * matrix()).toarray().tolist()]


def test_what_is_read_together_is_of_one_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit in the middle of an element, or of an AnnData object, makes it be read again."""
    from colonnade.reader.datasets import ReadDataset

    pending: list[float] = []
    original = ReadDataset.read_array

    def disturbed(dataset: Any, part: Any = ()) -> Any:
        read = original(dataset, part)
        if pending and dataset.path in ("/uns/a", "/X/data"):
            write(pending.pop())
        return read

    def write(number: float) -> None:
        with cn.open(path, "r+") as file:
            cn.write_element(file.h5, "uns", {"a": number, "b": number})
            cn.write_element(file.h5, "X", matrix(number))

    write(1.0)
    monkeypatch.setattr(ReadDataset, "read_array", disturbed)
    pending[:] = [5.0]
    assert cn.read_element(path, "uns") == {"a": 5.0, "b": 5.0}
    pending[:] = [6.0]
    found = cn.to_anndata(path)
    assert pending == []
    assert found.uns == {"a": 6.0, "b": 6.0}
    assert found.X.toarray().tolist() == matrix(6).toarray().tolist()


def test_elements_of_a_file_open_for_changes_are_those_of_now(path: Path) -> None:
    with cn.open(path, "r+") as file:
        stored = cn.read_element(file, "X")
        assert stored[1].toarray().tolist() == [[3, 4, 5]]
        cn.write_element(file.h5, "X", matrix(3))
        assert stored[1].toarray().tolist() == [[9, 12, 15]]
        with pytest.raises(ZeroDivisionError), file.transaction():
            cn.write_element(file.h5, "X", matrix(7))
            assert cn.read_element(file, "X")[1].toarray().tolist() == [[21, 28, 35]]
            raise ZeroDivisionError
        assert stored[1].toarray().tolist() == [[3, 4, 5]]  # as of the last commit


def test_after_close_there_is_a_clear_error(path: Path) -> None:
    file = cn.open(path)
    lazy = [cn.read_element(file, "X"), cn.read_element(file.h5["X"])]
    members = cn.read_element(file)
    file.close()
    for stored in lazy:
        assert (stored.shape, stored.format, stored.dtype) == ((4, 3), "csr", "float64")
        assert repr(stored) == "<SparseMatrix /X: csr, 4 x 3, 11 stored>"
        with pytest.raises(UsageError, match="closed"):
            stored.to_scipy()
    assert repr(members).startswith("<anndata element: X")
    with pytest.raises(UsageError, match="closed"):
        members["uns"]
    with pytest.raises(UsageError, match="closed"):
        cn.read_element(file, "uns")


def test_objects_of_h5py_refuse_another_state(path: Path) -> None:
    with cn.open(path) as file:
        group = file.h5["X"]
        stored, members = cn.read_element(group), cn.read_element(file.h5)
        with cn.open(path, "r+") as writer:
            cn.write_element(writer.h5, "uns", 2)
        for use in (stored.to_scipy, lambda: members["uns"], lambda: cn.read_element(group)):
            with pytest.raises(ConflictError, match="was changed since"):
                use()


def test_untrusted_elements_are_read_without_the_library(path: Path) -> None:
    with h5py.File(path, "r+") as h5:
        h5.create_dataset("virtual", data=[1], chunks=(1,), **hdf5plugin.BZip2())
    with cn.open(path, library="never") as file:
        assert cn.read_element(file, "X").nnz == 11
        with pytest.raises(UnsupportedError, match="bzip2"):
            cn.read_element(file, "virtual")
    with cn.open(path) as file:
        assert cn.read_element(file, "virtual").tolist() == [1]


READING = """
import colonnade as cn
path, old, tenx = sys.argv[1:]
with cn.open(path) as f:
    tables, matrix = f.tables(), cn.read_element(f, "X")
    names = cn.read_element(f, "uns")["deep"]["names"].tolist()
    print(tables, matrix[1:2].toarray().tolist(), names, f["obs"].where("n > 2").to_pandas()["n"].tolist())
print(cn.read_element(path, "obs", pandas=True)["n"].tolist(), cn.read_element(path)["layers"]["raw"].shape)
with cn.open(old) as f:
    print(f.tables(), cn.read_element(f)["obs"].num_rows)
with cn.open(tenx) as f:
    print(f.tables(), cn.read_element(f, "matrix").shape)
"""


def test_reading_elements_loads_no_h5py(path: Path) -> None:
    """Frames, matrices, mappings, old frames and 10x files. A `Table` of an old frame is made by libhdf5, in memory."""
    old, tenx = GOLDEN / "anndata" / "v0.5.0.h5ad", GOLDEN / "tenx" / "filtered_feature_bc_matrix.h5"
    code = READING.strip().replace("\n", "\n    ")
    shown, loaded = loaded_by(code, str(path), str(old), str(tenx))
    assert "[[3.0, 4.0, 5.0]]" in shown and "['a', 'b'] [3]" in shown and "'/matrix/features'" in shown
    assert "colonnade.anndata.sparse_matrix" in loaded
    assert not loaded & {"h5py", "colonnade.h5", "colonnade.h5.files"}


def test_making_an_anndata_object_needs_no_libhdf5(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package anndata loads h5py itself, so it is libhdf5 that is not entered."""
    monkeypatch.setattr("colonnade.opening._OpenBytes.by_library", None)
    found = cn.to_anndata(path, obs="n > 1")
    assert found.X.toarray().tolist() == matrix()[2:].toarray().tolist()
    assert found.obs["n"].tolist() == [2, 3]


def test_h5py_is_seen_where_it_is_loaded(path: Path) -> None:
    """The test above can fail."""
    _, loaded = loaded_by("import colonnade as cn; cn.open(sys.argv[1]).h5", str(path))
    assert "h5py" in loaded
