"""Every form in which HDF5 stores things, old and new: our own reader finds what libhdf5 finds.

Each file is first shown to have the form, by its bytes; then both readers are compared, object by object.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from h5py import h5d, h5f, h5p, h5s, h5t

from colonnade.format.headers import FILL, OLD_FILL, find
from colonnade.format.nodes import ByteDataset, open_file
from colonnade.pager.sources import BufferBytes
from tests.laws.node_pairs import compare_nodes

NUMBERS = np.arange(60, dtype="<i4").reshape(6, 10)


def new_file(path: Path, version: str = "earliest", sizes: tuple[int, int] = (8, 8), user_block: int = 0) -> Any:
    """A new file of these bounds of versions, sizes of addresses and lengths, and bytes before the superblock."""
    creation, access = h5p.create(h5p.FILE_CREATE), h5p.create(h5p.FILE_ACCESS)
    creation.set_sizes(*sizes)
    if user_block:
        creation.set_userblock(user_block)
    bounds = {"earliest": h5f.LIBVER_EARLIEST, "v108": h5f.LIBVER_V18, "v110": h5f.LIBVER_V110}
    access.set_libver_bounds(bounds[version], h5f.LIBVER_LATEST if version == "earliest" else bounds[version])
    return h5py.File(h5f.create(str(path).encode(), h5f.ACC_TRUNC, fcpl=creation, fapl=access))


def fill_file(file: Any) -> None:
    """Some of everything. With lengths of 4 bytes, libhdf5 does not find the unlimited dimension of a dataset again."""
    file["numbers"] = NUMBERS
    file["words"] = np.array(["a", "ü", ""], dtype=h5py.string_dtype())
    file.create_dataset("chunks", data=NUMBERS, chunks=(4, 4), compression="gzip", maxshape=(12, 10))
    file["group/inner"] = np.float32(1.5)
    file["group"].attrs["text"] = "some text"


def node_of(path: Path, name: str) -> ByteDataset:
    node = open_file(BufferBytes(path.read_bytes())).find(name)
    assert isinstance(node, ByteDataset)
    return node


# -- files --


@pytest.mark.parametrize(("version", "number"), [("earliest", 0), ("v108", 2), ("v110", 3)])
@pytest.mark.parametrize("user_block", [0, 512, 4096])
@pytest.mark.parametrize("sizes", [(8, 8), (4, 4), (4, 8), (8, 4)])
def test_superblocks(tmp_path: Path, version: str, number: int, user_block: int, sizes: tuple[int, int]) -> None:
    with new_file(tmp_path / "x.h5", version, sizes, user_block) as file:
        fill_file(file)
    assert (tmp_path / "x.h5").read_bytes()[user_block + 8] == number
    assert compare_nodes(tmp_path / "x.h5") == 6


def test_superblock_1(tmp_path: Path) -> None:
    """That of files whose B-trees of chunks have nodes of another size."""
    creation = h5p.create(h5p.FILE_CREATE)
    library = ctypes.CDLL(h5py.h5d.__file__)  # h5py has no such function
    library.H5Pset_istore_k.argtypes = (ctypes.c_int64, ctypes.c_uint)
    assert library.H5Pset_istore_k(creation.id, 2) >= 0
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_libver_bounds(h5f.LIBVER_EARLIEST, h5f.LIBVER_LATEST)
    handle = h5f.create(str(tmp_path / "x.h5").encode(), h5f.ACC_TRUNC, fcpl=creation, fapl=access)
    with h5py.File(handle) as file:
        fill_file(file)
    assert (tmp_path / "x.h5").read_bytes()[8] == 1
    assert compare_nodes(tmp_path / "x.h5") == 6


@pytest.mark.parametrize("version", ["earliest", "v110"])
@pytest.mark.parametrize("far", ["user block", "rows"])
def test_addresses_above_4_gib(tmp_path: Path, version: str, far: str) -> None:
    """A sparse file: nothing is stored of most of it."""
    path = tmp_path / "x.h5"
    with new_file(path, version, user_block=(8 << 30) if far == "user block" else 0) as file:
        if far == "rows":
            rows = file.create_dataset("long", (5 << 30,), "u1")
            rows[-3:] = [1, 2, 3]
        fill_file(file)
    assert path.stat().st_size > 4 << 30 and path.stat().st_blocks * 512 < 64 << 20
    assert compare_nodes(path) >= 6


# -- headers and groups --


@pytest.mark.parametrize(("version", "mark"), [("earliest", None), ("v110", b"OCHK")])
def test_headers_with_continuations(tmp_path: Path, version: str, mark: bytes | None) -> None:
    with new_file(tmp_path / "x.h5", version) as file:
        file["x"] = NUMBERS
        file["y"] = NUMBERS
        for number in range(7):
            for name in "xy":
                file[name].attrs[f"attribute {number}"] = np.arange(40)
    data = (tmp_path / "x.h5").read_bytes()
    assert mark in data if mark else b"OHDR" not in data
    assert compare_nodes(tmp_path / "x.h5") == 3


@pytest.mark.parametrize(
    ("version", "n_links", "marks"),
    [
        ("earliest", 4, [b"SNOD", b"TREE\0\0"]),
        ("earliest", 390, [b"SNOD", b"TREE\0\1"]),
        ("v110", 4, []),
        ("v110", 60, [b"FRHP", b"BTHD"]),
        ("v110", 390, [b"FRHP", b"FHDB"]),
    ],
)
def test_groups(tmp_path: Path, version: str, n_links: int, marks: list[bytes]) -> None:
    """Symbol tables of one and two levels; links in the header; links in a heap, of one block and of several."""
    with new_file(tmp_path / "x.h5", version) as file:
        file["x"] = 1
        for number in range(n_links):
            file[f"name {number}"] = h5py.SoftLink("/x") if number % 2 else file["x"]
    data = (tmp_path / "x.h5").read_bytes()
    assert [mark for mark in marks if mark not in data] == []
    assert marks or not {b"SNOD", b"FRHP"} & {data[at : at + 4] for at in range(len(data))}
    assert compare_nodes(tmp_path / "x.h5") >= 2


@pytest.mark.parametrize("version", ["earliest", "v108", "v110"])
def test_committed_datatypes(tmp_path: Path, version: str) -> None:
    """Of datasets, of attributes, and by themselves."""
    with new_file(tmp_path / "x.h5", version) as file:
        file["kind"] = np.dtype([("a", "<f4"), ("b", ">i2", (2,))])
        file.create_dataset("x", (3,), file["kind"])
        file["x"].attrs.create("y", np.zeros(2, file["kind"].dtype), dtype=file["kind"])
        file["kind"].attrs["note"] = "of a datatype"
    assert compare_nodes(tmp_path / "x.h5") >= 2


@pytest.mark.parametrize("n_attributes", [3, 9, 100])
@pytest.mark.parametrize("version", ["earliest", "v110"])
@pytest.mark.parametrize("tracked", [False, True])
def test_attributes(tmp_path: Path, version: str, n_attributes: int, tracked: bool) -> None:
    """In the header, and (of a newer form, from 9 on) in a heap."""
    with new_file(tmp_path / "x.h5", version) as file:
        group = file.create_group("g", track_order=tracked)
        for number in range(n_attributes):
            group.attrs[f"a{number}"] = ["text", number, np.arange(number), [1.5, -0.0]][number % 4]
    is_dense = n_attributes > 8 and (version == "v110" or tracked)
    assert (b"FRHP" in (tmp_path / "x.h5").read_bytes()) == is_dense
    assert compare_nodes(tmp_path / "x.h5") == 2


# -- datasets --


def kinds() -> dict[str, Any]:
    """A datatype of every class."""
    enum = h5t.enum_create(h5t.STD_I16BE)
    enum.enum_insert(b"one", 1)
    opaque = h5t.create(h5t.OPAQUE, 5)
    opaque.set_tag(b"a tag")
    compound = h5t.create(h5t.COMPOUND, 20)
    compound.insert(b"a", 1, h5t.IEEE_F32BE)
    compound.insert(b"b", 7, h5t.array_create(h5t.STD_U8LE, (2, 3)))
    made = {
        "integer": h5t.STD_I24LE if hasattr(h5t, "STD_I24LE") else h5t.STD_I32BE,
        "float": h5t.IEEE_F64BE,
        "time": h5t.UNIX_D32LE,
        "string": h5t.C_S1.copy(),
        "bit field": h5t.STD_B16BE,
        "opaque": opaque,
        "compound": compound,
        "object reference": h5t.STD_REF_OBJ,
        "region reference": h5t.STD_REF_DSETREG,
        "enum": enum,
        "sequence": h5t.vlen_create(h5t.STD_I16LE),
        "text": h5t.py_create(h5py.string_dtype(), logical=True),
        "array": h5t.array_create(h5t.IEEE_F16LE, (2, 2)),
        "complex": h5t.py_create(np.dtype("<c8")),
    }
    made["string"].set_size(7)
    return made


@pytest.mark.parametrize("version", ["earliest", "v108", "v110"])
@pytest.mark.parametrize("kind", kinds())
def test_datatypes(tmp_path: Path, version: str, kind: str) -> None:
    """As the datatype of a dataset without elements written, of one without elements, and committed."""
    with new_file(tmp_path / "x.h5", version) as file:
        stored = kinds()[kind]
        h5d.create(file.id, b"x", stored, h5s.create_simple((4,)))
        h5d.create(file.id, b"empty", stored, h5s.create_simple((0,)))
        stored.copy().commit(file.id, b"committed")
    assert compare_nodes(tmp_path / "x.h5") >= 3


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("version", ["earliest", "v108", "v110"])
def test_fill_values(tmp_path: Path, version: str, is_old: bool) -> None:
    """Set, not set; and in the message of HDF5 before 1.6, which newer libraries still write with the other."""
    path = tmp_path / "x.h5"
    with new_file(path, version) as file:
        file.create_dataset("x", (40,), ">i4", chunks=(7,), fillvalue=77, maxshape=(None,))
        file["x"][:9] = 1
        file.create_dataset("y", (40,), "<f8")
    if is_old and version == "earliest":
        data, message = bytearray(path.read_bytes()), find(node_of(path, "x").messages, FILL)
        assert message is not None and find(node_of(path, "x").messages, OLD_FILL) is not None
        data[message.at - 8 : message.at - 6] = b"\0\0"  # now an empty message, so that the old one counts
        path.write_bytes(data)
        assert find(node_of(path, "x").messages, FILL) is None
    assert node_of(path, "x").fill == (77).to_bytes(4, "little")
    assert compare_nodes(path) == 3


MAPS: dict[str, tuple[str, bytes, dict[str, Any], tuple[int, ...]]] = {
    "version 1 B-tree": ("earliest", b"TREE\1\0", {"chunks": (3, 4), "maxshape": (None, None)}, (6, 10)),
    "version 1 B-tree of two levels": ("earliest", b"TREE\1\1", {"chunks": (7,), "maxshape": (None,)}, (1000,)),
    "single": ("v110", b"", {"chunks": (6, 10), "maxshape": (6, 10)}, (6, 10)),
    "implicit": ("v110", b"", {"chunks": (3, 4), "early": True}, (6, 10)),
    "fixed array": ("v110", b"FAHD", {"chunks": (3, 4)}, (6, 10)),
    "fixed array in pages": ("v110", b"FADB", {"chunks": (2,)}, (5000,)),
    "extensible array": ("v110", b"EAHD", {"chunks": (3, 10), "maxshape": (None, 10)}, (6, 10)),
    "extensible array with data blocks": ("v110", b"EADB", {"chunks": (3,), "maxshape": (None,)}, (100,)),
    "extensible array with super blocks": ("v110", b"EASB", {"chunks": (1,), "maxshape": (None,)}, (1500,)),
    "extensible array in pages": ("v110", b"EASB", {"chunks": (1,), "maxshape": (None,)}, (9000,)),
    "version 2 B-tree": ("v110", b"BTLF", {"chunks": (3, 4), "maxshape": (None, None)}, (6, 10)),
    "version 2 B-tree of two levels": ("v110", b"BTIN", {"chunks": (1, 1), "maxshape": (None, None)}, (30, 40)),
}


@pytest.mark.parametrize("filters", ["none", "deflate", "some skipped"])
@pytest.mark.parametrize("name", MAPS)
def test_chunk_maps(tmp_path: Path, name: str, filters: str) -> None:
    """Also with chunks that were never written, and edge chunks; of some, the filters were skipped."""
    version, mark, options, shape = MAPS[name]
    options = dict(options)
    path, rows = tmp_path / "x.h5", np.arange(np.prod(shape), dtype="<i4").reshape(shape)
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk(options["chunks"])
    if options.get("early"):
        creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    if filters != "none":
        creation.set_deflate(1)
    most = tuple(h5s.UNLIMITED if size is None else size for size in options.get("maxshape", shape))
    with new_file(path, version) as file:
        space = h5s.create_simple(shape, most)
        made = h5py.Dataset(h5d.create(file.id, b"x", h5t.STD_I32LE, space, dcpl=creation))
        if name != "single":
            hole = slice(None, shape[0] // 2), slice(shape[0] // 2 + options["chunks"][0] * 2, None)
            for part in hole:
                made[part] = rows[part]
        else:
            made[()] = rows
        if filters == "some skipped":
            corner = (0,) * len(shape)
            stored = np.full(options["chunks"], -7, "<i4").tobytes()
            made.id.write_direct_chunk(corner, stored, 1)
    assert mark in path.read_bytes()
    if filters == "some skipped":
        assert node_of(path, "x").read([range(1)] * len(shape)).item() == -7
    assert compare_nodes(path) == 2
    with h5py.File(path) as file:
        assert np.array_equal(node_of(path, "x").read(), file["x"][()])


STORAGES: dict[str, Callable[[Any], object]] = {
    "compact": lambda creation: creation.set_layout(h5d.COMPACT),
    "contiguous": lambda creation: creation.set_layout(h5d.CONTIGUOUS),
    "contiguous, allocated early": lambda creation: creation.set_alloc_time(h5d.ALLOC_TIME_EARLY),
    "chunked": lambda creation: creation.set_chunk((4, 3)),
}


@pytest.mark.parametrize("version", ["earliest", "v108", "v110"])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("is_written", [True, False])
def test_storages(tmp_path: Path, version: str, storage: str, is_written: bool) -> None:
    creation = h5p.create(h5p.DATASET_CREATE)
    STORAGES[storage](creation)
    with new_file(tmp_path / "x.h5", version) as file:
        made = h5d.create(file.id, b"x", h5t.STD_I32LE, h5s.create_simple(NUMBERS.shape), dcpl=creation)
        if is_written:
            h5py.Dataset(made)[()] = NUMBERS
    assert node_of(tmp_path / "x.h5", "x").header.storage.storage == storage.split(",", maxsplit=1)[0]
    assert compare_nodes(tmp_path / "x.h5") == 2


@pytest.mark.parametrize("edge", [1, 5, 7, 8])
@pytest.mark.parametrize(
    "options", [{"compression": "gzip"}, {"compression": "lzf", "shuffle": True}, hdf5plugin.Zstd()]
)
def test_edge_chunks(tmp_path: Path, edge: int, options: Any) -> None:
    """The last chunks along each dimension hold elements that are not in the shape."""
    rows = np.arange(edge * (edge + 2), dtype=">f4").reshape(edge, edge + 2)
    for version in ("earliest", "v110"):
        with new_file(tmp_path / "x.h5", version) as file:
            file.create_dataset("x", data=rows, chunks=(4, 4), maxshape=(8, 10), **options)
        assert compare_nodes(tmp_path / "x.h5") == 2
        assert node_of(tmp_path / "x.h5", "x").read().tobytes() == rows.astype("<f4").tobytes()
