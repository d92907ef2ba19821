"""What the HDF5 library says of damaged bytes, as our errors; and what it is not even asked."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import CorruptError
from colonnade.h5 import attributes
from colonnade.h5.collections import check_collections
from colonnade.h5.damage import told_of_damage


def test_errors_of_h5py_come_out_as_ours(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = 1
        with pytest.raises(CorruptError, match="the HDF5 library says") as caught, told_of_damage("x.h5"):
            file.id.links.get_info(b"no")
        assert isinstance(caught.value.__cause__, RuntimeError)


def test_our_own_faults_are_not_hidden() -> None:
    """Neither errors of our lines, nor arguments that h5py cannot take."""
    with pytest.raises(ValueError, match="ours"), told_of_damage("x.h5"):
        raise ValueError("ours")
    with pytest.raises(TypeError), told_of_damage("x.h5"):
        h5py.h5a.exists(None, b"x")
    with pytest.raises(cn.errors.UsageError), told_of_damage("x.h5"):
        raise cn.errors.UsageError("passes")


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


def test_a_collection_that_never_ends_is_not_given_to_the_library(tmp_path: Path) -> None:
    """HDF5 2.0 would not come back from any of these."""
    path = tmp_path / "x.h5"
    free = heap_file(path)
    with h5py.File(path) as file:
        check_collections(file.id)
        assert attributes.read(file["/"].id, "t") == "text"
    for index, size in ((0, 0), (1, 2**64 - 16)):
        data = bytearray(path.read_bytes())
        data[free : free + 2] = index.to_bytes(2, "little")
        data[free + 8 : free + 16] = size.to_bytes(8, "little")
        spoiled = tmp_path / f"{index}.h5"
        spoiled.write_bytes(data)
        with h5py.File(spoiled) as file:
            with pytest.raises(OSError, match="its end is never reached"):
                check_collections(file["x"].id)
            assert attributes.read(file["/"].id, "t") is None


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
        assert attributes.read(file["/"].id, "t") is None  # the collection never ends
        assert isinstance(attributes.read(file["/"].id, "r"), h5py.Reference)


def test_text_that_looks_like_a_collection_is_no_reason_to_refuse_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    heap_file(path)
    with h5py.File(path, "r+") as file:
        file["words"] = np.frombuffer(b"GCOL\x01\0\0\0" + bytes(5000), "u1")
        file["more"] = np.frombuffer(b"GCOL\x01\0\0\0" + (2**60).to_bytes(8, "little") + bytes(5000), "u1")
    with h5py.File(path) as file:
        check_collections(file.id)


def test_collections_that_claim_the_file_over_and_over_are_not_looked_at(tmp_path: Path) -> None:
    """Each would be read as far as it claims to reach: 16 heads in 256 bytes cost 16 times the file, and so on."""
    path, n_bytes = tmp_path / "x.h5", 1 << 20
    heap_file(path)
    with h5py.File(path, "r+") as file:
        head = b"GCOL\x01\0\0\0" + (n_bytes // 2).to_bytes(8, "little")
        file["blob"] = np.frombuffer(head * (n_bytes // 16), "u1")
    with h5py.File(path) as file:
        begin = time.process_time()
        with pytest.raises(OSError, match="more bytes than the file"):
            check_collections(file["x"].id)
        assert time.process_time() - begin < 1


def test_an_attribute_that_claims_too_much_counts_as_absent(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.attrs["n"] = np.arange(1234, dtype="i8")
    data = path.read_bytes().replace((1234).to_bytes(8, "little"), (2**40).to_bytes(8, "little"))
    path.write_bytes(data)
    with h5py.File(path) as file:
        assert attributes.read(file["/"].id, "n") is None


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
        with pytest.raises(CorruptError, match="the HDF5 library says"), file.transaction():
            file[table].append(rows)
            raise KeyError("of the caller")
    assert path.read_bytes() == before
    assert not path.with_name("x.h5-journal").exists()
