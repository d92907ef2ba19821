"""Attributes of sparse arrays: HDF5 does not open the array, so they are read and written by our own walk."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ConflictError, CorruptError, DataError, UnsupportedError, UsageError
from colonnade.format.headers import ATTRIBUTE, Message, read_messages
from colonnade.format.links import find_address
from colonnade.format.source import with_checksum
from colonnade.format.superblock import open_root
from colonnade.pager.sources import BufferBytes
from colonnade.sparse import verify_sparse
from colonnade.sparse.attributes import portable_attributes, read_attributes

from .sparse_decoder import Decoder

VALUES: dict[str, Any] = {
    "units": "MeV", "größe": "für Ä", "empty": "", "n": 7, "scale": 0.5, "z": 1 + 2j, "yes": True,
    "list": np.array([[1, 2, 3], [4, 5, 6]], dtype=">i2"), "words": np.array(["a", "bcd", ""], dtype=object),
    "none": np.zeros(0, dtype="<f4"), "pair": np.array((3, 0.25), dtype="<i4,<f8"),
}  # fmt: skip


def make(path: Path, **attrs: Any) -> cn.SparseArray:
    return cn.create_sparse(path, "g/s", shape=(40, 50), dtype="<i4", chunks=(8, 8), max_shape=(None, 50), attrs=attrs)


def same(found: Any, expected: Any) -> bool:
    return type(found) is type(expected) and found.dtype == expected.dtype and np.array_equal(found, expected)


def test_every_kind_of_value(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with make(path, **VALUES) as array:
        assert list(array.attrs) == list(VALUES) and len(array.attrs) == len(VALUES)
        for name, value in VALUES.items():
            found = array.attrs[name]
            assert same(found, value) if isinstance(value, np.ndarray) and value.shape else found == value, name
        assert np.asarray(array.attrs["list"]).dtype == np.dtype(">i2")
    decoded = Decoder(path.read_bytes(), "g/s").attributes()
    assert decoded["units"] == (b"MeV", ()) and decoded["größe"] == ("für Ä".encode(), ())
    assert decoded["list"] == (struct.pack(">6h", 1, 2, 3, 4, 5, 6), (2, 3))
    assert verify_sparse(path) == []


def test_attributes_stay_when_elements_and_shape_change(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with make(path, units="keV", n=1) as array:
        array.write([[1, 2], [39, 49]], [5, 6])
        array.attrs["long"] = "x" * 3000
        array.resize((100, 50))
        array.attrs["n"] = 2
        array.write([[90, 2]], [7])
        array.erase([[1, 2]])
        expected = {"units": "keV", "n": 2, "long": "x" * 3000}
        assert dict(array.attrs) == expected
        del array.attrs["long"]
        array.write([[91, 3]], [8])
        assert dict(array.attrs) == {"units": "keV", "n": 2}
        with pytest.raises(KeyError):
            del array.attrs["long"]
        array.attrs.update({"a": 1, "b": "two"}, c=3.0)
        assert dict(array.attrs) == {"units": "keV", "n": 2, "a": 1, "b": "two", "c": 3.0}
        assert array.cells()[1].tolist() == [6, 7, 8]
    assert {name: data for name, (data, _) in Decoder(path.read_bytes(), "g/s").attributes().items()}["b"] == b"two"
    assert verify_sparse(path) == []
    with h5py.File(path) as file:
        assert list(file["g"]) == ["s"]


def test_no_room_is_lost_while_an_attribute_fits_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with make(path, note="x" * 200) as array:
        size = path.stat().st_size
        for length in (199, 3, 150, 200, 196, 197):
            array.attrs["note"] = "y" * length
            assert array.attrs["note"] == "y" * length
            Decoder(path.read_bytes(), "g/s")
        assert path.stat().st_size == size


@pytest.mark.parametrize(
    "value",
    [
        "a\0", "\0", "a\0b", ["a\0", "b"], np.array(["a\0b"]), np.array(["a\0"], dtype=object), np.bytes_(b"a\0b"),
        ["a", 1], [1, "a"], ["a", None], [["a", 2.5]], ("a", b"b"), np.array(["a", 1], dtype=object), [True, "a"],
        b"", [b"a", b"b"], np.longdouble(1.5),
    ],
)  # fmt: skip
def test_a_value_that_would_come_back_as_another_is_refused(tmp_path: Path, value: Any) -> None:
    with make(tmp_path / "t.h5") as array:
        with pytest.raises((UsageError, DataError, UnsupportedError)):
            array.attrs["a"] = value
        assert dict(array.attrs) == {}


def test_texts_in_lists_and_of_fixed_length(tmp_path: Path) -> None:
    """NumPy's bytes are texts of fixed length, as h5py hands those out."""
    with make(
        tmp_path / "t.h5", a=["x", "yz"], b=[["x"], ["yz"]], c=np.bytes_(b"abc"), d=np.array([b"a", b"bc"])
    ) as array:
        found = {name: np.asarray(value).tolist() for name, value in array.attrs.items()}
    assert found == {"a": ["x", "yz"], "b": [["x"], ["yz"]], "c": "abc", "d": ["a", "bc"]}


def test_many_attributes_and_one_too_long(tmp_path: Path) -> None:
    with make(tmp_path / "t.h5") as array:
        assert dict(array.attrs) == {}
        array.attrs.update({f"a{number}": "x" * number for number in range(500)})
        assert len(array.attrs) == 500 and array.attrs["a499"] == "x" * 499
        with pytest.raises(DataError, match=r"65,000"):
            array.attrs["huge"] = "x" * 66_000
        for name, value in (("", 1), ("a\0b", 1), ("o", object()), ("l", [1, "a", None]), ("o", [[1], [2, 3]])):
            with pytest.raises((UsageError, ValueError)):
                array.attrs[name] = value
        assert len(array.attrs) == 500


def test_readers_cannot_set_them_and_transactions_can(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    make(path, n=1).close()
    with cn.open(path) as file, pytest.raises(ConflictError):
        cn.open_sparse(file, "g/s").attrs["n"] = 2
    with cn.open(path, "r+") as file:
        with pytest.raises(ZeroDivisionError), file.transaction():
            cn.open_sparse(file, "g/s").attrs["n"] = 2
            assert cn.open_sparse(file, "g/s").attrs["n"] == 2
            raise ZeroDivisionError
        assert cn.open_sparse(file, "g/s").attrs["n"] == 1


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("count", [3, 30])
def test_attributes_that_hdf5_wrote(tmp_path: Path, libver: Any, count: int) -> None:
    """In headers of both versions, in heaps, of variable length: the walk is the same for every object."""
    path = tmp_path / "t.h5"
    with h5py.File(path, "w", libver=libver) as file:
        node = file.create_dataset("d", data=[1, 2, 3])
        for number in range(count):
            node.attrs[f"n{number}"] = number
        node.attrs["text"] = "für"
        node.attrs["texts"] = ["a", "bc"]
        node.attrs["empty"] = h5py.Empty("f4")
        file["kind"] = np.dtype("<f4")
        node.attrs.create("shared", 0.5, dtype=file["kind"])
        node.attrs["fixed"] = np.bytes_(b"abc")
        node.attrs["grid"] = np.arange(6).reshape(2, 3)
    source, root = open_root(BufferBytes(path.read_bytes()))
    messages = read_messages(source, find_address(source, root, "d"))
    found: dict[str, Any] = dict(read_attributes(source, messages))
    assert [found[f"n{number}"] for number in range(count)] == list(range(count))
    assert found["text"] == "für" and found["texts"].tolist() == ["a", "bc"] and found["fixed"] == "abc"
    assert found["empty"] is None and found["shared"] == 0.5 and found["grid"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_bytes_of_variable_length_are_copied_as_bytes(tmp_path: Path) -> None:
    """Nothing says that they are text: NUL at their end would be lost."""
    path = tmp_path / "t.h5"
    with h5py.File(path, "w", libver="latest") as file:
        value = np.empty((), dtype=object)
        value[()] = np.frombuffer(b"ab\0", dtype="V1")
        file.create_group("g").attrs.create("b", value, dtype=h5py.vlen_dtype(np.dtype("V1")))
    source, root = open_root(BufferBytes(path.read_bytes()))
    messages = read_messages(source, find_address(source, root, "g"))
    assert read_attributes(source, messages) == {"b": b"ab\0"}
    (copied,) = portable_attributes(source, messages, "g")
    found = read_attributes(source, [Message(ATTRIBUTE, 0, copied, 0)])
    assert found["b"] == b"ab\0"


def test_every_byte_of_the_attributes_flipped(tmp_path: Path) -> None:
    """The header has a checksum: a spoiled byte is an error. With the checksum made right, an error or some value."""
    path = tmp_path / "t.h5"
    make(path, units="MeV", grid=np.arange(6).reshape(2, 3), words=["a", "bc"]).close()
    good = path.read_bytes()
    source, root = open_root(BufferBytes(good))
    messages = [one for one in read_messages(source, find_address(source, root, "g/s")) if one.type == 0x0C]
    assert len(messages) == 3
    for message in messages:
        for at in range(message.at, message.at + len(message.data)):
            bad = bytearray(good)
            bad[at] ^= 0x41
            with pytest.raises(CorruptError):
                dict(cn.open_sparse(bytes(bad), "g/s").attrs)
            spoiled = bytearray(message.data)
            spoiled[at - message.at] ^= 0x41
            with suppress(CorruptError, UnsupportedError):
                read_attributes(source, [type(message)(0x0C, 0, bytes(spoiled), message.at)])


def test_lengths_that_lie_are_refused(tmp_path: Path) -> None:
    make(tmp_path / "t.h5", n=np.arange(4)).close()
    source, root = open_root(BufferBytes((tmp_path / "t.h5").read_bytes()))
    [message] = [one for one in read_messages(source, find_address(source, root, "g/s")) if one.type == 0x0C]
    spoiled = message.data.replace(struct.pack("<Q", 4), struct.pack("<Q", 1 << 61))
    assert spoiled != message.data
    with pytest.raises(CorruptError, match="claims"):
        read_attributes(source, [type(message)(0x0C, 0, spoiled, message.at)])


def resealed(data: bytes, old: bytes, new: bytes) -> bytes:
    """The file with other bytes in the messages of its one sparse array, their checksum made right again."""
    start = data.index(b"OCHK")
    stop = next(at for at in range(start + 8, len(data)) if with_checksum(data[start:at]) == data[start : at + 4])
    assert data[start:stop].count(old) == 1 and len(old) == len(new)
    return data[:start] + with_checksum(data[start:stop].replace(old, new)) + data[stop + 4 :]


def test_a_level_that_no_filter_has_is_refused_when_it_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with cn.create_sparse(path, "s", shape=(9,), dtype="<i4", filters={1: "deflate:7"}) as array:
        array.write([1, 2], [5, 6])
    deflate = struct.pack("<HHHI", 1, 1, 1, 7)
    path.write_bytes(resealed(path.read_bytes(), deflate, deflate[:-4] + struct.pack("<I", 77)))
    with cn.open_sparse(path, "s") as array:
        assert array.cells()[1].tolist() == [5, 6]
        with pytest.raises(UnsupportedError, match="77"):
            array.write([3], [7])
        assert array.cells()[1].tolist() == [5, 6]


def test_a_text_that_is_not_utf8_does_not_stop_the_table(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    cn.write(path, {"s": [1, None]}, table="t", columns={"s": cn.column(sparse=True, units="kilometre")})
    path.write_bytes(resealed(path.read_bytes(), b"kilometre", b"kilo\x80etre"))
    assert cn.read(path)["s"].to_pylist() == [1, None]
    with cn.open_table(path) as table:
        assert table["s"].units == "kilo\\udc80etre"
