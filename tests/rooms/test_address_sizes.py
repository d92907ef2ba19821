"""Files whose addresses and lengths do not have 8 bytes: read, changed, and refused where they are damaged.

libhdf5 hangs on each of the damaged files, so they are opened in another process.
"""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.format.source import with_checksum
from colonnade.h5 import attributes
from colonnade.h5.handles import LibraryDataset
from colonnade.nodes.arrays import read_part

Mode = Literal["r", "r+"]
Sizes = tuple[int, int]
SIZES: list[Sizes] = [(4, 4), (2, 2), (4, 8), (8, 4)]
TEXT = h5py.string_dtype()
NAMES = ["a", "bb", "ccc", "d" * 30, "e"]
TIMEOUT = 60  # seconds for all damaged files of one size: they take less than three
MOST_MEMORY = 8 << 30  # bytes of addresses: libhdf5 takes all memory where free blocks form a circle


def new_file(path: Path, sizes: Sizes, *, is_old: bool = False) -> h5py.File:
    """is_old: in the form of HDF5 1.6, where the names of a group are in a local heap."""
    creation, access = h5py.h5p.create(h5py.h5p.FILE_CREATE), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    creation.set_sizes(*sizes)
    lowest = h5py.h5f.LIBVER_EARLIEST if is_old else h5py.h5f.LIBVER_V18
    access.set_libver_bounds(lowest, h5py.h5f.LIBVER_LATEST)
    return h5py.File(h5py.h5f.create(bytes(path), h5py.h5f.ACC_TRUNC, fcpl=creation, fapl=access))


def make_table(group: h5py.Group, **storage: Any) -> None:
    """A table of AnnData. Only its labels are of variable length."""
    fixed = {"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "name"}
    group.attrs.update({name: np.bytes_(value) for name, value in fixed.items()})
    group.attrs["column-order"] = np.array(["ts"], dtype="S2")
    for name, values in (("ts", np.arange(5)), ("name", np.array(NAMES, dtype=object))):
        dtype = TEXT if name == "name" else None
        column = group.create_dataset(name, data=values, dtype=dtype, **storage)
        fixed = {"encoding-type": "string-array" if dtype else "array", "encoding-version": "0.2.0"}
        column.attrs.update({name: np.bytes_(value) for name, value in fixed.items()})


# -- damage --


def make_contiguous(file: h5py.File) -> None:
    make_table(file.create_group("g"))


def make_filtered(file: h5py.File) -> None:
    make_table(file.create_group("g"), chunks=(2,), maxshape=(None,), compression="gzip", shuffle=True)


def make_compact(file: h5py.File) -> None:
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_layout(h5py.h5d.COMPACT)
    kind = h5py.h5t.py_create(TEXT, logical=True)
    made = h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((5,)), dcpl=creation)
    h5py.Dataset(made)[:] = NAMES


def make_matrix(file: h5py.File) -> None:
    file.create_dataset("x", data=np.array([NAMES, NAMES], dtype=object), dtype=TEXT, chunks=(1, 3))


def make_compound(file: h5py.File) -> None:
    """References to objects and regions have addresses too; elements are smaller or larger than in memory."""
    members = [("n", "i2"), ("to", h5py.ref_dtype), ("part", h5py.regionref_dtype), ("name", TEXT)]
    made = file.create_dataset("x", (5,), np.dtype(members))
    made[:] = [(7, file.ref, None, name) for name in NAMES]


def make_lists(file: h5py.File) -> None:
    """The collection of the lists has an end; the one of their strings does not."""
    long = np.array([name * 300 for name in NAMES], dtype=object)
    made = file.create_dataset("x", (1,), h5py.vlen_dtype(TEXT))
    made[0] = long


def make_attribute(file: h5py.File) -> None:
    file.attrs["t"] = "a string"


def make_fill(file: h5py.File) -> None:
    file.create_dataset("x", (3,), TEXT, chunks=(3,), fillvalue="nothing")


def make_unwritten(file: h5py.File) -> None:
    """A table whose labels were never written: all of them are the fill."""
    group = file.create_group("g")
    make_table(group)
    attributes = dict(group["name"].attrs)
    del group["name"]
    made = group.create_dataset("name", (5,), TEXT, chunks=(2,), maxshape=(None,), fillvalue="nothing")
    made.attrs.update(attributes)


def make_region(file: h5py.File) -> None:
    file["target"] = np.arange(10)
    made = file.create_dataset("x", (1,), h5py.regionref_dtype)
    made[0] = file["target"].regionref[2:5]


def read_table(path: Path, mode: Mode) -> object:
    with cn.open(path, mode) as file:
        return file["g"]["name"].to_arrow().to_pylist()


def read_all(path: Path, mode: Mode) -> object:
    with cn.open(path, mode) as file:
        return [str(element) for element in read_part(LibraryDataset.of(file.h5["x"].id)).tolist()]


def read_attribute(path: Path, mode: Mode) -> object:
    with cn.open(path, mode) as file:
        return attributes.read_stored(file.h5.id, "t") or "CorruptError: counts as absent"


def read_region(path: Path, mode: Mode) -> object:
    with cn.open(path, mode) as file:
        element = np.zeros(1, dtype="V12")
        rows = LibraryDataset.of(file.h5["x"].id)
        with rows.reading(rows.describe(), 0, 1) as image:
            element[:] = image
        found = rows.find_target("region_reference", element.tobytes())
        assert found is not None and found.region is not None
        return [axis.start for axis in found.region.bounds((1000,))]


def list_names(path: Path, mode: Mode) -> object:
    with cn.open(path, mode) as file:
        return [*file.tables()]


class Damaged(NamedTuple):
    make: Callable[[h5py.File], None]
    read: Callable[[Path, Mode], object]


KINDS = {
    "contiguous": Damaged(make_contiguous, read_table),
    "filtered": Damaged(make_filtered, read_table),
    "compact": Damaged(make_compact, read_all),
    "matrix": Damaged(make_matrix, read_all),
    "compound": Damaged(make_compound, read_all),
    "lists": Damaged(make_lists, read_all),
    "attribute": Damaged(make_attribute, read_attribute),
    "fill": Damaged(make_fill, read_all),
    "unwritten": Damaged(make_unwritten, read_table),
    "region": Damaged(make_region, read_region),
    "names": Damaged(make_contiguous, list_names),
}
if "_dcpl" not in vars(h5py.Dataset):
    del KINDS["fill"]  # h5py 3.12 asks libhdf5 for the fill when the test opens the dataset, before colonnade sees it


def spoil_collection(data: bytearray, length_size: int) -> None:
    """Let free space at the beginning of a collection claim no bytes; what is after the size is not looked at."""
    at = data.rindex(b"GCOL\x01") + 16
    data[at : at + 16] = bytes(8 + length_size).ljust(16, b"\xff")


def spoil_names(data: bytearray, sizes: Sizes) -> None:
    """Let the first free block of the root group's names be its own successor."""
    offset_size, length_size = sizes
    at = data.index(b"HEAP") + 8 + length_size
    free = int.from_bytes(data[at : at + length_size], "little")
    names = int.from_bytes(data[at + length_size : at + length_size + offset_size], "little")
    data[names + free : names + free + length_size] = free.to_bytes(length_size, "little")


def spoil(kind: str, good: bytes, sizes: Sizes) -> bytes:
    data = bytearray(good)
    if kind == "names":
        spoil_names(data, sizes)
    else:
        spoil_collection(data, sizes[1])
    return bytes(data)


def examine(folder: Path) -> None:
    """Print what reading each file of a folder gives: values, or the name and text of an error."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    results = {}
    for path in sorted(folder.glob("*.h5")):
        for mode in ("r", "r+"):
            try:
                results[f"{path.stem} {mode}"] = KINDS[path.stem.split("-")[0]].read(path, mode)
            except (cn.errors.ColonnadeError, OSError) as error:
                results[f"{path.stem} {mode}"] = f"{type(error).__name__}: {error}"
    print(json.dumps(results, default=str))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_damage_that_libhdf5_hangs_on_is_reported(tmp_path: Path, sizes: Sizes) -> None:
    for kind, damaged in KINDS.items():
        path = tmp_path / f"{kind}-good.h5"
        with new_file(path, sizes, is_old=kind == "names") as file:
            damaged.make(file)
        (tmp_path / f"{kind}-bad.h5").write_bytes(spoil(kind, path.read_bytes(), sizes))
    code = f"from tests.rooms.test_address_sizes import examine, Path; examine(Path({str(tmp_path)!r}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=TIMEOUT)
    results: dict[str, object] = json.loads(run.stdout)
    assert len(results) == 4 * len(KINDS)
    assert results.pop("names-bad r") == ["/g"]  # only libhdf5 looks at the free places of names
    for name, result in results.items():
        errors = ("CorruptError", "UnsupportedError", *(["FormatError"] if name.startswith("unwritten") else []))
        is_error = isinstance(result, str) and result.startswith(errors)
        assert is_error == ("-bad" in name), (name, result)


@pytest.mark.parametrize("storage", [{}, {"compression": "gzip", "shuffle": True}], ids=["plain", "filtered"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sound_tables_are_read_appended_to_and_updated(tmp_path: Path, sizes: Sizes, storage: dict[str, Any]) -> None:
    path = tmp_path / "x.h5"
    with new_file(path, sizes) as file:
        make_table(file.create_group("a/b"), chunks=(2,), maxshape=(None,), **storage)
    with cn.open(path, "r+") as opened:
        table = opened["a/b"]
        assert table.to_arrow().to_pydict() == {"name": NAMES, "ts": [*range(5)]}
        table.append({"name": ["f", "gg"], "ts": [5, 6]})
        table.update("name", [1, 4], ["B", "E" * 50])
        table.attrs["note"] = "a string"
    expected = [NAMES[0], "B", *NAMES[2:4], "E" * 50, "f", "gg"]
    with cn.open(path) as opened:
        assert opened["a/b"].to_arrow().to_pydict() == {"name": expected, "ts": [*range(7)]}
        assert opened["a/b"].attrs["note"] == "a string"
    with h5py.File(path) as file:
        assert file.id.get_create_plist().get_sizes() == sizes
        assert file["a/b/name"].asstr()[:].tolist() == expected


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_filtered_references_have_the_size_of_the_files_addresses(tmp_path: Path, sizes: Sizes) -> None:
    with new_file(tmp_path / "x.h5", sizes) as file:
        made = file.create_dataset("x", (3,), h5py.ref_dtype, chunks=(2,), compression="gzip")
        made[:] = [file.ref, made.ref, file.ref]
    with cn.open(tmp_path / "x.h5") as opened:
        elements = read_part(LibraryDataset.of(opened.h5["x"].id))
        assert [opened.h5[element].name for element in elements] == ["/", "/x", "/"]


# -- more than 8 bytes --


def wide_file(path: Path, sizes: Sizes) -> None:
    """The beginning of a file of these sizes, as libhdf5 writes it; it is not let near one, since it damages them."""
    width = sizes[0]
    addresses = b"".join(number.to_bytes(width, "little") for number in (0, (1 << 8 * width) - 1, 4096, 48 + 4 * width))
    head = b"\x89HDF\r\n\x1a\n" + bytes([2, *sizes, 0]) + addresses
    path.write_bytes(with_checksum(head).ljust(4096, b"\0"))


@pytest.mark.parametrize("sizes", [(16, 16), (16, 8), (8, 16), (4, 16), (32, 32), (32, 8)], ids=str)
def test_more_than_eight_bytes_are_refused_before_libhdf5_sees_them(tmp_path: Path, sizes: Sizes) -> None:
    """libhdf5 accepts these sizes, corrupts its own memory where it writes such files, and reports no error."""
    path = tmp_path / "x.h5"
    wide_file(path, sizes)
    content = path.read_bytes()
    for mode in ("r", "r+", "a"):
        for target in (path, io.BytesIO(content)):
            with pytest.raises(UnsupportedError, match=f"{sizes[0]} bytes and its lengths {sizes[1]}") as refused:
                cn.open(target, mode)
            assert refused.value.feature == "addresses or lengths of more than 8 bytes"
    with pytest.raises(UnsupportedError, match=str(path)):
        cn.write(path, {"x": [1]}, "new", mode="append")
    assert [finding.severity for finding in cn.check(path)] == ["error"]
    assert path.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir() if "journal" in one.name] == []
    path.write_bytes(content[:20] + b"\1" + content[21:])
    with pytest.raises(CorruptError, match="checksum"):
        cn.open(path)


def test_files_that_h5py_has_open_are_refused_too(tmp_path: Path) -> None:
    """(16, 8) in the newer form is the only wide size that libhdf5 writes and reads."""
    with new_file(tmp_path / "x.h5", (16, 8)) as file:
        with pytest.raises(UnsupportedError, match="16 bytes"):
            cn.open(file, "r+")
        assert file.id.get_create_plist().get_sizes() == (16, 8)
    with h5py.File(tmp_path / "x.h5") as file, pytest.raises(UnsupportedError, match="16 bytes"):
        cn.open(file)


@pytest.mark.parametrize("sizes", [(0, 8), (3, 8), (8, 255)], ids=str)
def test_sizes_that_hdf5_does_not_have_are_damage(tmp_path: Path, sizes: Sizes) -> None:
    with new_file(tmp_path / "x.h5", (8, 8), is_old=True) as file:
        make_table(file.create_group("g"))
    data = bytearray((tmp_path / "x.h5").read_bytes())
    data[13:15] = bytes(sizes)
    (tmp_path / "x.h5").write_bytes(data)
    for mode in ("r", "r+"):
        with pytest.raises(CorruptError):
            cn.open(tmp_path / "x.h5", mode)
