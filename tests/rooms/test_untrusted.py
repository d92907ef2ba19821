"""Files opened with `library="never"`: libhdf5 is not loaded, and what only it can read leaves the rest readable."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.format import links as stored_links
from colonnade.format.headers import LINK, Message
from colonnade.format.links import GroupLinks, Link
from colonnade.format.source import Fields, HDF5Source
from colonnade.nodes.damage import hdf5_errors
from colonnade.pager.sources import BufferBytes

READ = """
import sys
import time
from contextlib import suppress
import colonnade as cn
path = sys.argv[1]
with cn.open(path, library="never") as file:
    for name in file.tables():
        table = file[name]
        table.columns, table.problems, table.info, table.verify_indexes()
        table.select(table.columns[0]).to_arrow(), table.select(table.columns[0]).head(1).to_arrow()
        table.where(cn.col(table.columns[0]).is_missing()).row_numbers()
    with suppress(cn.errors.FormatError):
        for name in file.sparse_arrays():
            cn.open_sparse(file, name).cells()
print("h5py" in sys.modules)
"""


def make_table(path: Path) -> None:
    cn.write(path, {"x": [3, 1, 2], "text": ["a", None, "ccc"]}, "t", index={"x": "sorted_rows"})


def make_frame(path: Path) -> None:
    cn.write(path, pd.DataFrame({"x": [3, 1, 2], "kind": pd.Categorical(["a", "b", "a"])}), "obs", layout="anndata")


def make_sparse(path: Path) -> None:
    cn.create_sparse(path, "matrix", shape=(10, 10), dtype="i4").write([(0, 1), (5, 2)], [5, 6])


def make_broken(path: Path) -> None:
    """A table with a link that leads nowhere: a column that may be one in sectioned chunks is looked for there."""
    make_table(path)
    with h5py.File(path, "r+") as file:
        header = h5py.h5o.get_info(file["t/text"].id).addr
    data = bytearray(path.read_bytes())
    data[header : header + 4] = b"gone"
    path.write_bytes(data)


def make_old_frame(path: Path) -> None:
    """A frame of anndata before 0.7, which is copied by libhdf5 to be opened, next to a table."""
    make_table(path)
    with h5py.File(path, "r+") as file:
        file["obs"] = np.array([(b"a", 1)], [("index", "S1"), ("n", "i4")])


@pytest.mark.parametrize("make", [make_table, make_frame, make_sparse, make_broken, make_old_frame])
def test_h5py_is_not_loaded(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "x.h5")
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "x.h5")], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"


def test_a_column_that_only_libhdf5_can_read_leaves_the_others(tmp_path: Path) -> None:
    make_table(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        attributes = dict(file["t/text"].attrs)
        del file["t/text"]
        column = file["t"].create_dataset("text", shape=(3,), dtype="S2", external=[("x.raw", 0, 6)])
        column.attrs.update(attributes)
    with cn.open(tmp_path / "x.h5", library="never") as untrusted:
        table = untrusted["t"]
        assert table.select("x").to_arrow()["x"].to_pylist() == [3, 1, 2]
        with pytest.raises(UnsupportedError, match="external storage"):
            table.select("text").to_arrow()


def test_scalars_are_read_as_arrays(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["text"] = "words"
        file["fixed"] = np.bytes_(b"words")
        file["number"] = np.int16(-3)
        file["truth"] = True
    with cn.open(tmp_path / "x.h5", library="never") as untrusted:
        root = untrusted._handle.root
        read = {name: root.open_dataset(name).read_array() for name in root.link_names()}
    assert {name: (array.shape, array[()]) for name, array in read.items()} == {
        "text": ((), "words"),
        "fixed": ((), b"words"),
        "number": ((), -3),
        "truth": ((), True),
    }


def test_a_fault_of_our_own_reader_is_not_taken_for_a_damaged_object() -> None:
    """Only what came out of h5py or of `h5/` means that."""
    for fault in (AttributeError, TypeError, KeyError, ValueError, OSError):
        with pytest.raises(fault, match="ours"):
            try:
                raise fault("ours")
            except hdf5_errors():
                pass
    try:
        h5py.h5f.open(b"/nowhere/at/all")
    except hdf5_errors():
        pass


def read_all(path: Path) -> list[str]:
    """What is refused of a file whose root holds datasets and attributes; only our own errors may be raised."""
    refused = []
    with cn.open(path, library="never") as file:
        root = file._handle.root
        for name in root.attribute_names():
            found = root.inspect_attribute(name)
            refused += [name] if found is None or found.problem else []
            root.read_attribute(name), root.attribute_element(name), root.attribute_storage(name)
        for child in root.children():
            dataset = root.open_dataset(child.name)
            assert dataset is not None
            try:
                dataset.describe()
                dataset.read_array()
            except UnsupportedError:
                refused.append(child.name)
    return refused


@pytest.mark.parametrize("length", [2**62, 2**63 - 1, 2**63, 2**64 - 1])
def test_shapes_without_elements_that_no_array_can_have(length: int, tmp_path: Path) -> None:
    """Such an array has no bytes at all, and still NumPy refuses to make it, in three different ways."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs["numbers"] = np.zeros((77_777, 0), "i4")
        file.create_dataset("run", shape=(77_777, 0), dtype="i4")
        file.create_dataset("chunks", shape=(77_777, 0), maxshape=(77_777, None), chunks=(10, 3), dtype="i4")
    data = (tmp_path / "x.h5").read_bytes()
    claimed = data.replace((77_777).to_bytes(8, "little"), length.to_bytes(8, "little"))
    (tmp_path / "x.h5").write_bytes(claimed)
    assert set(read_all(tmp_path / "x.h5")) == {"chunks", "numbers", "run"}


def test_elements_of_more_dimensions_than_arrays_can_have(tmp_path: Path) -> None:
    """HDF5 allows 32 of a dataset and 32 of an element, whose parts may have 32 more."""
    inner = h5py.h5t.array_create(h5py.h5t.NATIVE_INT32, (1,) * 32)
    space = h5py.h5s.create_simple((1,) * 32)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, rank in ((b"arrays", 32), (b"half", 20)):
            kind = h5py.h5t.array_create(inner, (1,) * rank)
            h5py.h5d.create(file.id, name, kind, space)
            h5py.h5a.create(file.id, name, kind, space)
        h5py.h5d.create(file.id, b"sequences", h5py.h5t.vlen_create(h5py.h5t.array_create(inner, (1,) * 32)), space)
    assert {"arrays", "half", "sequences"} <= set(read_all(tmp_path / "x.h5"))


def test_a_name_is_not_looked_for_in_tables_that_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A B-tree may lead to one symbol table thousands of times: what is read for one name is limited as for all."""
    with h5py.File(tmp_path / "x.h5", "w", libver="earliest") as file:
        for number in range(40):
            file.create_group(f"g{number:02}")
    with cn.open(tmp_path / "x.h5", library="never") as read:
        root = read._handle.root
        assert root.open_group("g39") is not None
        monkeypatch.setattr(HDF5Source, "most_work", 200)
        assert root.open_group("g39") is None
        assert root.child("g39").kind == "broken"
        with pytest.raises(CorruptError, match="overlaps others"):
            root.link_names()


def test_objects_of_a_heap_that_overlap_are_not_all_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many records of a B-tree may lead to one large object."""
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as file:
        for number in range(9):
            file.attrs[f"a{number}"] = np.zeros(5000)
    with cn.open(tmp_path / "x.h5", library="never") as read:
        root = read._handle.root
        assert len(root.attribute_names()) == 9
        monkeypatch.setattr(HDF5Source, "most_work", 100_000)
        assert root.attribute_names() == []


def test_many_links_of_a_header_are_found_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """libhdf5 soon stores them in a heap; other programs may write a header with 100,000."""
    messages = [
        Message(LINK, 0, bytes((1, 8, 1, len(name))) + name + b"\1\0/", 0)
        for name in (b"n%d" % number for number in range(3000))
    ]
    links = GroupLinks(HDF5Source(BufferBytes(b"", "x.h5")), [*messages, Message(LINK, 0, b"\1", 0)])
    n_decoded = [0]
    decode = stored_links.decode_link

    def counted(fields: Fields) -> Link:
        n_decoded[0] += 1
        return decode(fields)

    monkeypatch.setattr(stored_links, "decode_link", counted)
    assert all(links.find(f"n{number}") is not None for number in range(3000))
    assert links.find("n3000") is None
    assert n_decoded[0] < 7000


@pytest.mark.parametrize("storage", ["virtual", "external"])
def test_a_search_index_that_only_libhdf5_can_read_is_not_used(storage: str, tmp_path: Path) -> None:
    make_table(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        home = file["t/_search_indexes"]
        name = next(iter(home))
        old = home[name]
        attributes, shape, dtype = dict(old.attrs), old.shape, old.dtype
        del home[name]
        if storage == "virtual":
            made = home.create_virtual_dataset(name, h5py.VirtualLayout(shape, dtype))
        else:
            made = home.create_dataset(name, shape, dtype, external=[("x.raw", 0, 1000)])
        made.attrs.update(attributes)
        file["t/x"].attrs[next(key for key in file["t/x"].attrs if "INDEX" in key.upper())] = made.ref
    with cn.open(tmp_path / "x.h5", library="never") as read:
        assert read["t"].where(cn.col("x") >= 2).row_numbers().tolist() == [0, 2]
        assert read["t"].stats()


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_rows_that_were_never_written_are_not_gone_through(tmp_path: Path, mode: Any) -> None:
    """A small file may claim any number of rows: a search, a sum or statistics of them would not end."""
    path = tmp_path / "claims.h5"
    cn.write(path, {"x": [1, 2, 3]}, "t", columns={"x": cn.column(chunk_rows=65536)})
    with h5py.File(path, "r+") as file:
        file["t/x"].resize((2**50,))
    with cn.open(path, mode) as file:
        table = file["t"]
        for question in (lambda: table.where("x == 5").count(), lambda: table.aggregate({"x": "sum"})):
            with pytest.raises(UnsupportedError, match=r"column 'x' claims 1,125,899,906,842,624 rows, most of which"):
                question()
        assert isinstance(table.stats()["x"], UnsupportedError)
        assert table["x"][2] == 3


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_more_rows_than_python_counts_are_damage(tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "claims.h5"
    cn.write(path, {"x": [1, 2, 3], "y": [1, 2, 3]}, "t", columns={"x": cn.column(chunk_rows=65536)})
    with h5py.File(path, "r+") as file:
        file["t/x"].resize((2**62 + 5,))
    data = path.read_bytes()
    assert data.count((2**62 + 5).to_bytes(8, "little")) == 1
    path.write_bytes(data.replace((2**62 + 5).to_bytes(8, "little"), (2**63).to_bytes(8, "little")))
    with cn.open(path, mode) as file:
        assert len(file["t"]) == 3 and file["t"]["y"].to_arrow().to_pylist() == [1, 2, 3]
        with pytest.raises(FormatError, match=r"9,223,372,036,854,775,808 rows|cannot be opened"):
            file["t"]["x"].to_arrow()


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("sorted_rows", (2**40,)), ("bitmap", (3, 2**40)), ("chunk_bloom", (2**40, 128)), ("chunk_minmax", (2**40,))],
)
def test_what_an_index_claims_after_its_last_row_is_not_gone_through(
    kind: Any, shape: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexes of H5Col may be longer than the column: a claim of any length costs what the column's rows cost."""
    from colonnade.indexes import base

    path = tmp_path / "a.h5"
    cn.write(path, {"x": [1, 2, 3] * 20}, "t", layout="h5col", index={"x": kind})
    with h5py.File(path, "r+") as h5:
        h5[f"t/SEARCH_INDEXES/x__{kind}"].resize(shape)
    n_digests: list[int] = []
    digest = base.digest

    def counted(data: Any) -> str:
        n_digests.append(len(data))
        assert len(n_digests) < 100 and sum(n_digests) < 1 << 20
        return digest(data)

    for module in ("base", "bitmap", "chunk_bloom", "chunk_minmax", "sorted_rows"):
        monkeypatch.setattr(f"colonnade.indexes.{module}.digest", counted, raising=False)
    with cn.open(path, library="never") as file:
        assert file["t"].verify_indexes() == []
        assert [index.trusted for index in file["t"].indexes] == [True]
        assert file["t"].where("x == 2").count() == 20
    assert n_digests


def test_values_that_were_never_written_are_not_looked_up_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of a few KB may claim millions of strings, each of them empty."""
    from colonnade.format.global_heap import GlobalHeap

    n_rows, lists = 200_000, h5py.vlen_dtype("i4")
    with h5py.File(tmp_path / "a.h5", "w") as h5:
        group = h5.create_group("t")
        group.attrs.update({"CLASS": np.bytes_(b"COLUMN_TABLE"), "VERSION": np.bytes_(b"1.0")})
        group.attrs["column-order"] = np.array([b"text", b"list"])
        for name, kind in (("text", h5py.string_dtype()), ("list", lists)):
            group.create_dataset(name, (n_rows,), kind, chunks=(1000,), maxshape=(None,))
        group["text"][7], group["list"][7] = "seven", [7]
    n_read: list[bytes] = []
    read = GlobalHeap.read
    monkeypatch.setattr(
        GlobalHeap, "read", lambda self, reference, size: n_read.append(reference) or read(self, reference, size)
    )
    with cn.open(tmp_path / "a.h5", library="never") as file:
        found = file["t"].to_arrow()
    assert found["text"].to_pylist() == ["seven" if row == 7 else "" for row in range(n_rows)]
    assert found["list"].to_pylist() == [[7] if row == 7 else [] for row in range(n_rows)]
    assert len(n_read) < 10


@pytest.mark.parametrize(
    "what", ["nothing", "an empty file", "a folder", "other bytes", "a damaged superblock", "a pipe"]
)
def test_what_is_not_hdf5_is_refused_without_libhdf5(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    if what == "a folder":
        path.mkdir()
    elif what == "a pipe":
        os.mkfifo(path)
    elif what != "nothing":
        with h5py.File(path, "w") as h5:
            h5["x"] = 1
        data = path.read_bytes()
        other = {"other bytes": b"x" * 5000, "a damaged superblock": data[:8] + b"\xff" * 88 + data[96:]}
        path.write_bytes(other.get(what, b""))
    code = f"""
import sys
import colonnade as cn
for library in ("never", "auto"):
    try:
        cn.open({str(path)!r}, library=library)
    except (cn.errors.ColonnadeError, FileNotFoundError):
        print("h5py" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split()[0] == "False" and len(done.stdout.split()) == 2


def test_a_directory_of_artifactdb_is_read_without_libhdf5(tmp_path: Path) -> None:
    cn.write(tmp_path / "frame", {"x": [1, 2], "s": ["a", "b"]}, layout="artifactdb", directory=True)
    code = f"""
import sys
import colonnade as cn
with cn.open({str(tmp_path / "frame")!r}, library="never") as file:
    [name] = file.tables()
    print(file[name].to_arrow().num_rows, "h5py" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["2", "False"]
