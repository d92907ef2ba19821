"""What the HDF5 library says of damaged bytes, as our errors; and what it is not even asked."""

from __future__ import annotations

import contextlib
import errno
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.edit.matrix_market import read_matrix_market
from colonnade.errors import ConflictError, CorruptError, UnsupportedError
from colonnade.h5 import attributes, outside
from colonnade.h5.datasets import describe_dataset, reading
from colonnade.nodes.damage import to_corrupt_error, translate_hdf5_errors
from colonnade.nodes.elements import follow_pointers
from colonnade.nodes.heap_source import REFERENCE_DTYPE
from tests.conftest import SetLimits


def test_errors_of_h5py_come_out_as_ours(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = 1
        with pytest.raises(CorruptError, match="the HDF5 library reports") as caught, translate_hdf5_errors("x.h5"):
            file.id.links.get_info(b"no")
        assert isinstance(caught.value.__cause__, RuntimeError)


def test_our_own_faults_are_not_hidden() -> None:
    """Neither errors of our lines, nor arguments that h5py cannot take."""
    with pytest.raises(ValueError, match="ours"), translate_hdf5_errors("x.h5"):
        raise ValueError("ours")
    with pytest.raises(TypeError), translate_hdf5_errors("x.h5"):
        h5py.h5a.exists(None, b"x")  # type: ignore[arg-type]
    with pytest.raises(cn.errors.UsageError), translate_hdf5_errors("x.h5"):
        raise cn.errors.UsageError("passes")


def raised_in_library(error: Exception) -> Exception:
    """The error as if h5py had raised it."""
    code = compile("raise error", "h5py/_objects.pyx", "exec")
    try:
        exec(code, {"error": error})
    except type(error) as raised:
        return raised
    raise AssertionError


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM])
@pytest.mark.parametrize("is_told", [True, False])
def test_what_the_system_lacks_is_not_damage(number: int, is_told: bool) -> None:
    text = f"Can't read data (file read failed: errno = {number}, error message = '...')"
    error = raised_in_library(RuntimeError(text) if is_told else OSError(number, "Unable to open file"))
    found = to_corrupt_error(error, "x.h5")
    assert isinstance(found, OSError)
    assert found.errno == number
    assert "damaged" not in str(found)


def test_what_bytes_may_cause_stays_damage() -> None:
    for error in (OSError(errno.EINVAL, "lseek"), RuntimeError("file read failed: errno = 22"), ValueError("bad")):
        assert isinstance(to_corrupt_error(raised_in_library(error), "x.h5"), CorruptError)


def test_too_little_memory_is_told_from_a_file_that_claims_too_much(set_limits: SetLimits) -> None:
    error = raised_in_library(RuntimeError("Can't read (memory allocation failed for chunk)"))
    assert isinstance(to_corrupt_error(error, "x.h5"), CorruptError)  # there is memory, so the file asked for too much
    set_limits(spare_memory=1 << 60)
    assert isinstance(to_corrupt_error(error, "x.h5"), MemoryError)
    assert isinstance(to_corrupt_error(raised_in_library(ValueError("no IDs available in type")), "x.h5"), OSError)


def virtual_file(path: Path, source: str) -> None:
    cn.write(path, {"n": [1]}, table="t")
    with h5py.File(path, "r+") as file:
        del file["t/n"]
        layout = h5py.VirtualLayout((3,), "i4")
        layout[:] = h5py.VirtualSource(source, "/t/n", (3,), "i4")
        file["t"].create_virtual_dataset("n", layout)


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EMFILE, OSError), (errno.EACCES, ConflictError), (errno.EINVAL, CorruptError)],
)
def test_a_virtual_source_that_cannot_be_opened(
    tmp_path: Path, number: int, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    virtual_file(tmp_path / "t.h5", "source.h5")
    cn.write(tmp_path / "source.h5", {"n": np.arange(3, dtype="i4")}, table="t")

    def refuse(*_: object, **_options: object) -> None:
        raise OSError(number, "Unable to open file")

    with cn.open(tmp_path / "t.h5") as file:
        monkeypatch.setattr(outside, "h5py", SimpleNamespace(File=refuse))
        with pytest.raises(kind) as caught:
            file["t"].to_arrow()
    assert isinstance(caught.value, CorruptError) == (kind is CorruptError)
    if kind is not OSError:
        assert "virtual source 'source.h5'" in str(caught.value)


def test_virtual_datasets_of_many_steps_are_unsupported(tmp_path: Path) -> None:
    for step in range(20):
        virtual_file(tmp_path / f"{step}.h5", f"{step + 1}.h5")
    cn.write(tmp_path / "20.h5", {"n": np.arange(3, dtype="i4")}, table="t")
    with pytest.raises(UnsupportedError, match="16 steps deep"):
        cn.read(tmp_path / "0.h5")


def test_a_group_in_itself_is_unsupported(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("a")
        group["b"] = group
    with cn.open(tmp_path / "a.h5") as opened, pytest.raises(UnsupportedError, match="contains itself"):
        cn.read_element(opened.h5["a"])


def test_large_matrix_market_files_are_unsupported(tmp_path: Path) -> None:
    (tmp_path / "a.mtx").write_text(f"%%MatrixMarket matrix coordinate integer general\n{1 << 60} 3 1\n1 1 1\n")
    with pytest.raises(UnsupportedError, match="2\\*\\*53"):
        read_matrix_market(tmp_path / "a.mtx")
    text = f"%%MatrixMarket matrix coordinate integer skew-symmetric\n3 3 1\n2 1 {-(1 << 63)}\n"
    (tmp_path / "b.mtx").write_text(text)
    with pytest.raises(UnsupportedError, match="64-bit"):
        list(read_matrix_market(tmp_path / "b.mtx").blocks((1, 1)))


def break_chunks(path: Path) -> None:
    """The signature of the B-tree of chunks of the second column is gone."""
    data = bytearray(path.read_bytes())
    places = [at for at in range(len(data)) if data[at : at + 5] == b"TREE\x01"]
    assert len(places) == 2
    data[places[1] : places[1] + 4] = b"EERT"
    path.write_bytes(data)


def test_a_damaged_b_tree_is_told_by_every_question(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, {"a": np.arange(100), "b": np.arange(100) * 3}, columns={k: cn.column(chunk_rows=10) for k in "ab"})
    break_chunks(path)
    with cn.open(path) as file:
        table = file["table"]
        assert table["a"].to_numpy().tolist() == list(range(100))
        questions = [
            lambda: table["b"].stored_bytes, lambda: list(table.select("b").batches()),
            lambda: table.where("b > 5").count(),
            lambda: table.aggregate(x=("b", "sum")), lambda: table.take([3, 50]).to_arrow(), lambda: table["b"][7],
        ]  # fmt: skip
        for ask in questions:
            with pytest.raises(CorruptError):
                ask()


def heap_file(path: Path) -> int:
    """A file with a text of variable length; where the free space of its collection is described."""
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=["abc", "de"], dtype=h5py.string_dtype())
        file.attrs.create("t", "text", dtype=h5py.string_dtype())
    data = path.read_bytes()
    at = data.index(b"GCOL") + 16
    while int.from_bytes(data[at : at + 2], "little"):
        at += 16 + (int.from_bytes(data[at + 8 : at + 16], "little") + 7) // 8 * 8
    return at


def rows_of(dataset: Any) -> list[bytes]:
    info = describe_dataset(dataset)
    with reading(dataset, info, 0, dataset.shape[0]) as image:
        return [follow_pointers(element, info.type) for element in image]


def test_a_collection_that_never_ends_is_not_given_to_the_library(tmp_path: Path) -> None:
    """HDF5 2.0 would not come back from any of these."""
    path = tmp_path / "x.h5"
    free = heap_file(path)
    with h5py.File(path) as file:
        assert rows_of(file["x"].id) == [b"abc", b"de"]
        assert attributes.read_stored(file["/"].id, "t") == "text"
    for index, size in ((0, 0), (1, 2**64 - 16)):
        data = bytearray(path.read_bytes())
        data[free : free + 2] = index.to_bytes(2, "little")
        data[free + 8 : free + 16] = size.to_bytes(8, "little")
        spoiled = tmp_path / f"{index}.h5"
        spoiled.write_bytes(data)
        with h5py.File(spoiled) as file:
            with pytest.raises(OSError, match="its end is never reached"):
                rows_of(file["x"].id)
            assert attributes.read_stored(file["/"].id, "t") is None


def test_a_file_with_such_a_collection_can_be_written_anew(tmp_path: Path) -> None:
    """What is looked through is the new file, not the old one that lies at its path until it is whole."""
    path = tmp_path / "x.h5"
    free = heap_file(path)
    data = bytearray(path.read_bytes())
    data[free : free + 16] = bytes(16)
    path.write_bytes(data)
    with cn.open(path, "w") as file:
        file.create("t", {"x": ["a", "b" * 1000]}, columns={"x": cn.column(strings="variable")})
    assert cn.read(path).to_pydict() == {"x": ["a", "b" * 1000]}


def test_references_are_not_in_the_global_heap(tmp_path: Path) -> None:
    """So nothing is looked through for them: a file may be long, and they are read before every search."""
    path = tmp_path / "x.h5"
    free = heap_file(path)
    with h5py.File(path, "r+") as file:
        file.attrs["r"] = file["x"].ref
    data = bytearray(path.read_bytes())
    data[free : free + 16] = bytes(16)
    path.write_bytes(data)
    with h5py.File(path) as file:
        assert attributes.read_stored(file["/"].id, "t") is None  # the collection never ends
        assert isinstance(attributes.read_stored(file["/"].id, "r"), h5py.Reference)


LOOKS_LIKE_ONE = {
    "no size": b"GCOL\x01\0\0\0" + bytes(5000),
    "never ends": b"GCOL\x01\0\0\0" + (4096).to_bytes(8, "little") + bytes(5000),
    "overlapping": (b"GCOL\x01\0\0\0" + (1 << 16).to_bytes(8, "little")) * 5000,
}


@pytest.mark.parametrize("looks", LOOKS_LIKE_ONE)
def test_bytes_that_look_like_a_collection_are_bytes(tmp_path: Path, looks: str) -> None:
    """Only what is referred to is a collection: no value of a column decides about the others."""
    path, value = tmp_path / "x.h5", LOOKS_LIKE_ONE[looks]
    rows = {"raw": [value, b"x"], "text": ["abc", "de"], "more": [value.decode("latin-1").encode(), b""]}
    cn.write(path, rows, columns={"text": cn.column(strings="variable")})
    with h5py.File(path, "r+") as file:
        file["words"] = np.frombuffer(value, "u1")
    assert cn.read(path).to_pydict() == rows
    with cn.open(path, "r+") as file:
        file.tables()
        (table,) = (file[name] for name in file.tables())
        table.append({"raw": [value], "text": ["f"], "more": [b"z"]})
    assert cn.read(path)["text"].to_pylist() == ["abc", "de", "f"]
    assert cn.read(path)["raw"].to_pylist() == [value, b"x", value]


COUNTERS = Path("/proc/self/io")


@pytest.mark.skipif(not COUNTERS.exists(), reason="the bytes that a process reads are counted by Linux")
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_no_byte_is_read_of_what_is_not_described(tmp_path: Path, mode: Any) -> None:
    """Opening a table of text costs what its description takes, however long the file is."""

    def n_bytes_read() -> int:
        return int(COUNTERS.read_text().split()[1])  # by all means: Python, the kernels in C, HDF5

    def needed(n_rows: int) -> int:
        path, words = tmp_path / f"{n_rows}.h5", [f"row {i}" for i in range(n_rows)]
        rows = {"s": words, "c": pa.array(words).dictionary_encode()}
        cn.write(path, rows, columns={name: cn.column(strings="variable") for name in rows})
        assert path.stat().st_size > 40 * n_rows
        counts = []
        for _ in range(2):  # the first time, modules may be imported
            before = n_bytes_read()
            with cn.open(path, mode) as file:
                assert file["table"].columns == ["s", "c"]
            counts.append(n_bytes_read() - before)
        return min(counts)

    assert needed(40_000) <= needed(1_000) + 4096


def test_rows_appended_by_this_process_are_not_taken_for_overlapping_collections(tmp_path: Path) -> None:
    """A file may be read, grow to many times its size, and be read again, all while it is open."""
    path, rows = tmp_path / "x.h5", [["a", "bc"]]
    more = [[f"{number} " * 1000] for number in range(1000)]
    cn.write(path, {"x": pa.array(rows, pa.list_(pa.string()))})
    with cn.open(path, "r+") as file:
        assert file["table"]["x"].to_arrow().to_pylist() == rows
        file["table"].append({"x": pa.array(more, pa.list_(pa.string()))})
        assert file["table"]["x"].to_arrow().to_pylist() == rows + more


def overlapping(path: Path, n_heads: int) -> None:
    """A dataset whose rows refer to heads of collections that lie over each other, each as long as half the file."""
    with h5py.File(path, "w") as file:
        texts = file.create_dataset("x", (n_heads,), h5py.string_dtype(), chunks=(n_heads,))
        texts[:] = ["abc"] * n_heads
        size = n_heads * 32
        blob = file.create_dataset("blob", data=np.zeros(2 * size, "u1"))
        place, where = blob.id.get_offset(), texts.id.get_chunk_info(0).byte_offset
    data = bytearray(path.read_bytes())
    step = (1).to_bytes(2, "little") + bytes(6) + bytes(8)  # an object of no bytes: 16 on
    for number in range(n_heads):
        at = place + 32 * number
        data[at : at + 32] = b"GCOL\x01\0\0\0" + size.to_bytes(8, "little") + step
        data[where + 16 * number : where + 16 * number + 16] = struct.pack("<IQI", 3, at, 1)
    for at in range(place + size, place + 2 * size, 16):
        data[at : at + 16] = step
    path.write_bytes(data)


def test_collections_that_claim_the_same_bytes_over_and_over_are_not_walked(tmp_path: Path) -> None:
    """Each would be walked as far as it claims to reach: 4 times the heads would cost 16 times the work."""
    for n_heads in (1000, 4000):
        path = tmp_path / f"{n_heads}.h5"
        overlapping(path, n_heads)
        with h5py.File(path) as file, pytest.raises(OSError, match="more bytes than the file"):
            rows_of(file["x"].id)


def test_a_fill_in_a_collection_that_never_ends_is_not_asked_for(tmp_path: Path) -> None:
    """The library reads it when it is asked for the properties of a dataset."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (3,), h5py.string_dtype(), chunks=(3,), fillvalue="nothing")
    data = bytearray(path.read_bytes())
    at = data.index(b"GCOL") + 16
    data[at : at + 16] = bytes(16)
    path.write_bytes(data)
    with h5py.File(path) as file, pytest.raises(OSError, match="its end is never reached"):
        describe_dataset(h5py.h5d.open(file.id, b"x"))


def test_an_attribute_kept_apart_in_a_collection_that_never_ends_is_not_read(tmp_path: Path) -> None:
    """Very many attributes are not in the header of their object: they are read from a guarded file first."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="latest") as file:
        for number in range(20):
            file.attrs.create(f"a{number}", "text", dtype=h5py.string_dtype())
    with h5py.File(path) as file:
        assert attributes.read_stored(file["/"].id, "a7") == "text"
    data = bytearray(path.read_bytes())
    at = data.index(b"GCOL") + 16
    data[at : at + 16] = bytes(16)
    path.write_bytes(data)
    with h5py.File(path) as file:
        assert attributes.read_stored(file["/"].id, "a7") is None


def test_sequences_of_text_are_followed_to_the_end(tmp_path: Path) -> None:
    """The first collection is sound, and leads to one that never ends."""
    path = tmp_path / "x.h5"
    rows = [[f"text {number} " * 500 for number in range(60)]]
    cn.write(path, {"x": pa.array(rows, pa.list_(pa.string()))}, columns={"x": cn.column(filters="none")})
    assert cn.read(path).to_pydict() == {"x": rows}
    with h5py.File(path) as file:
        chunk = file["table/x"].id.read_direct_chunk((0,))[1]
    lists = set(np.frombuffer(chunk, REFERENCE_DTYPE)["address"].tolist())
    data = bytearray(path.read_bytes())
    texts = next(at for at in range(len(data)) if data.startswith(b"GCOL\x01", at) and at not in lists)
    data[texts + 16 : texts + 32] = bytes(16)
    path.write_bytes(data)
    with pytest.raises(CorruptError, match="global heap collection"):
        cn.read(path)
    with pytest.raises(CorruptError, match="never reached"), cn.open(path, "r+") as opened:
        opened["table"].to_arrow()


def test_an_attribute_that_claims_too_much_counts_as_absent(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.attrs["n"] = np.arange(1234, dtype="i8")
    data = path.read_bytes().replace((1234).to_bytes(8, "little"), (2**40).to_bytes(8, "little"))
    path.write_bytes(data)
    with h5py.File(path) as file:
        assert attributes.read_stored(file["/"].id, "n") is None


KEPT = Path(__file__).parent.parent / "faults" / "kept"


@pytest.mark.parametrize(
    ("name", "table"), [("13-34337-kit-A16-order", "/obs/_hep001"), ("13-35681-kit-A5-good", "/obs")]
)
def test_nothing_is_kept_of_a_change_that_cannot_be_taken_back(tmp_path: Path, name: str, table: str) -> None:
    """An object cannot be closed, and the library still holds what it would write."""
    path = tmp_path / "x.h5"
    path.write_bytes((KEPT / f"{name}.h5").read_bytes())
    before = path.read_bytes()
    with contextlib.suppress(CorruptError), cn.open(path, "r+") as file:
        rows = file[table].head(2).to_arrow()
        with pytest.raises(CorruptError, match="the HDF5 library reports"), file.transaction():
            file[table].append(rows)
            raise KeyError("of the caller")
    assert path.read_bytes() == before
    assert not path.with_name("x.h5-journal").exists()
