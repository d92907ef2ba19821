"""Law: `format/nodes.py` finds in a file what libhdf5 finds: links, attributes, types, shapes, fills, filters, values.

The other law: whatever bytes of a file are changed, only errors of ours come out, soon.
Longer runs: COLONNADE_EXAMPLES=long.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import ColonnadeError, CorruptError
from colonnade.format.links import Link
from colonnade.format.nodes import ByteDataset, ByteFile, ByteGroup, ByteNode, open_file
from colonnade.format.source import UnknownToReader
from colonnade.nodes.paths import dataset_at
from colonnade.pager.sources import BufferBytes

from .byte_files import compare_files, is_known_to_library, make_file
from .node_pairs import compare_nodes

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = [*sorted((GOLDEN / "foreign").glob("*/*")), GOLDEN / "anndata" / "h5ad" / "krumsiek11.h5ad"]
FOLDERS = [f"golden/{name}" for name in ("anndata", "foreign", "h5col", "nwb", "sparse")]
KITS = [f"conformance/{name}" for name in ("files", "anndata", "artifactdb")]
SUFFIXES = (".h5", ".h5ad", ".h5mu", ".hdf5", ".mat", ".nwb")
NEWER = [GOLDEN / "nwb" / "session.nwb", *sorted((GOLDEN / "h5col").glob("*.h5"))]
LONGEST = 20  # seconds for one file, on a machine that does other things too
MOST_OBJECTS = 300
SEEDS = st.integers(0, 1 << 32)


@given(SEEDS)
@settings(max_examples=settings().max_examples // 2)
def test_both_readers_find_the_same(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = tmp_path_factory.mktemp("made") / "made.h5"
    make_file(path, random.Random(seed))
    assert compare_files(path) >= 1


@given(SEEDS)
@settings(max_examples=settings().max_examples // 2)
def test_both_implementations_of_the_protocols_answer_the_same(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    path = tmp_path_factory.mktemp("made") / "made.h5"
    make_file(path, random.Random(seed))
    assert compare_nodes(path) >= 1


@pytest.mark.parametrize("folder", [*FOLDERS, *KITS], ids=lambda folder: folder)
def test_both_implementations_answer_the_same_about_samples(folder: str) -> None:
    """Golden files and conformance kits: every object, every question of the protocols."""
    paths = sorted(path for path in (GOLDEN.parent / folder).rglob("*") if path.suffix in SUFFIXES)
    assert len(paths) >= (1 if folder == "golden/nwb" else 5)
    known = [path for path in paths if is_known_to_library(path)]
    assert sum(map(compare_nodes, known)) >= len(known)


@pytest.mark.parametrize("version", ["earliest", "v110"])
def test_chunks_whose_unlimited_dimension_is_not_the_first(tmp_path: Path, version: str) -> None:
    """libhdf5 reports wrong places of such chunks of extensible arrays; both readers and a copy have the right rows."""
    values = np.arange(60).reshape(6, 10)
    with h5py.File(tmp_path / "a.h5", "w", libver=version) as file:
        file.create_dataset("x", data=values, chunks=(2, 2), maxshape=(6, None), compression="gzip")
    cn.write(tmp_path / "a.h5", {"x": [1]}, "t")
    assert compare_nodes(tmp_path / "a.h5") >= 2
    with cn.open(tmp_path / "a.h5", "r+") as opened:
        found = dataset_at(opened._handle.root, "x")
        assert np.array_equal(found.read_array((slice(0, 1),)), values[:1])
        opened.repack()
        assert np.array_equal(opened.h5["x"][()], values)


@pytest.mark.parametrize("path", [*FILES, *NEWER], ids=lambda path: path.name)
def test_files_of_other_writers(path: Path) -> None:
    if not is_known_to_library(path):
        pytest.skip("it has datatypes that this libhdf5 cannot open")
    assert compare_files(path) >= 1


@pytest.mark.parametrize("version", ["earliest", "v110"])
@pytest.mark.parametrize("n_links", [5, 3000])
def test_a_name_is_found_without_reading_all(tmp_path: Path, version: str, n_links: int) -> None:
    with h5py.File(tmp_path / "many.h5", "w", libver=version) as file:
        for number in range(n_links):
            file[f"name {number:05}"] = h5py.SoftLink("/x")
    counted = CountedBytes((tmp_path / "many.h5").read_bytes())
    root = open_file(counted).root
    before = counted.n_read
    assert root.link("name 00003") == Link("name 00003", target="/x", kind="soft", order=None)
    assert root.link("name 99999") is None
    names_alone = 32 * n_links if version == "earliest" else 0  # the local heap of an old group is read whole
    assert counted.n_read - before < 20_000 + names_alone


class CountedBytes(BufferBytes):
    """The bytes of a file, which counts those that were read."""

    n_read = 0

    def read_at(self, offset: int, n_bytes: int) -> bytes:
        self.n_read += n_bytes
        return super().read_at(offset, n_bytes)


def test_huge_attributes_in_a_heap(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "huge.h5", "w", libver="latest") as file:
        for number in range(12):
            file.attrs[f"a{number}"] = np.full(20_000, number)
    attributes = open_file(BufferBytes((tmp_path / "huge.h5").read_bytes())).root.attributes
    found = attributes.find("a7")
    assert found is not None
    assert np.array_equal(attributes.elements(found), np.full(20_000, 7))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "feature"),
    [("external", "external storage"), ("virtual", "virtual storage"), ("bzip2", "the filters bzip2")],
)
def test_what_is_not_known_is_one_exception(tmp_path: Path, option: str, feature: str) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        if option == "external":
            file.create_dataset("x", (10,), "<i4", external=[(str(tmp_path / "raw"), 0, 40)])
        elif option == "virtual":
            layout = h5py.VirtualLayout((10,), "<i4")
            layout[:] = h5py.VirtualSource("other.h5", "y", (10,))
            file.create_virtual_dataset("x", layout)
        else:
            file.create_dataset("x", data=np.arange(10), chunks=(5,), **hdf5plugin.BZip2())
    node = open_file(BufferBytes((tmp_path / "x.h5").read_bytes())).find("/x")
    assert isinstance(node, ByteDataset)
    with pytest.raises(UnknownToReader) as caught:
        node.read()
    assert caught.value.feature == feature


def test_an_error_names_byte_structure_and_heading(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w", libver="v110") as file:
        file["x"] = [1, 2, 3]
    data = bytearray((tmp_path / "x.h5").read_bytes())
    at = data.index(b"OHDR", data.index(b"OHDR") + 1)
    data[at + 9] ^= 1
    opened = open_file(BufferBytes(bytes(data)))
    with pytest.raises(CorruptError, match=f"object header at byte {at} .*specification, IV.A.1") as caught:
        opened.find("/x")
    assert caught.value.offset == at


# -- spoiled bytes --


def walk(opened: ByteFile) -> int:
    """Read everything; errors of ours are passed over, as long as there is something left to read."""
    todo: list[ByteNode] = [opened.root]
    seen = {opened.root.address}
    n_read = 0
    while todo and n_read < MOST_OBJECTS:
        node = todo.pop()
        n_read += 1
        with suppress(ColonnadeError):
            for attribute in node.attributes.read():
                node.attributes.elements(attribute)
            node.attributes.names_in_order()
        with suppress(ColonnadeError):
            if isinstance(node, ByteDataset):
                assert node.info.type.size
                node.read()
            elif isinstance(node, ByteGroup):
                for link in node.links_in_order():
                    node.link(link.name)
                    if link.address is not None and link.address not in seen:
                        seen.add(link.address)
                        todo.append(opened.at(link.address))
    return n_read


def spoiled(data: bytes, chance: random.Random) -> bytes:
    """The bytes with some of them changed, by preference those of metadata."""
    made = bytearray(data)
    marks = [b"OHDR", b"TREE", b"SNOD", b"HEAP", b"BTHD", b"BTLF", b"FRHP", b"FHDB", b"GCOL", b"FAHD", b"EAHD", b"HDF"]
    for _ in range(chance.choice([1, 1, 2, 5, 20])):
        at = made.find(chance.choice(marks), chance.randrange(len(made)))
        place = (at if at >= 0 else 0) + chance.randrange(200)
        if chance.random() < 0.3 or place >= len(made):
            place = chance.randrange(len(made))
        made[place] = chance.choice([0, 1, 0x7F, 0xFF, chance.randrange(256), made[place] ^ 1 << chance.randrange(8)])
    return bytes(made[: chance.randrange(len(made))] if chance.random() < 0.05 else made)


@given(SEEDS, SEEDS, st.booleans())
@example(seed=0, change=0, is_summed=True)
@settings(max_examples=settings().max_examples // 2)
def test_spoiled_bytes_are_errors_of_ours(
    tmp_path_factory: pytest.TempPathFactory, seed: int, change: int, is_summed: bool
) -> None:
    """Also with checksums that match: they are computed over the changed bytes by whoever means harm."""
    path = tmp_path_factory.mktemp("made") / "made.h5"
    make_file(path, random.Random(seed % 50))
    data, chance = path.read_bytes(), random.Random(change)
    with pytest.MonkeyPatch.context() as patch:
        if not is_summed:
            patch.setattr("colonnade.format.source.HDF5Source.verified", lambda self, data, address, what: data[:-4])
        for _ in range(4):
            start = time.perf_counter()
            with suppress(ColonnadeError):
                walk(open_file(BufferBytes(spoiled(data, chance))))
            assert time.perf_counter() - start < LONGEST
