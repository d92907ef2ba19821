"""Law: our own reader and libhdf5 lead to the same tables, descriptions, rows, findings and planned repairs."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.fuzz.layout_seeds import MAKERS, make_indexed
from tools.fuzz.usage import INDEXED

import colonnade as cn
from colonnade.errors import ColonnadeError

from .byte_files import is_known_to_library
from .node_pairs import compare_nodes
from .table_pairs import compare_tables

TESTS = Path(__file__).parent.parent
FOLDERS = [
    "golden/anndata", "golden/foreign", "golden/h5col", "golden/nwb", "golden/sparse",
    "conformance/files", "conformance/anndata", "conformance/artifactdb", "conformance/h5col",
]  # fmt: skip
SUFFIXES = (".h5", ".h5ad", ".h5mu", ".hdf5", ".mat", ".nwb")
MADE_BY_ONE = {"golden/nwb": 1}
ODD = {"bad_compound.h5"}  # libhdf5 finds no attribute of a group of which one makes no sense; we find the others
VALUES: dict[str, Callable[[random.Random, int], pa.Array]] = {
    "integers": lambda chance, n: pa.array([chance.choice([None, -1, 0, 2**31 - 1]) for _ in range(n)], pa.int32()),
    "floats": lambda chance, n: pa.array([chance.choice([1.5, float("nan"), -0.0, None]) for _ in range(n)]),
    "strings": lambda chance, n: pa.array([chance.choice(["", "ä", "long " * 9, None]) for _ in range(n)], pa.string()),
    "flags": lambda chance, n: pa.array([chance.choice([True, False]) for _ in range(n)], pa.bool_()),
    "labels": lambda chance, n: pa.array([chance.choice(["a", "b"]) for _ in range(n)]).dictionary_encode(),
    "bytes": lambda chance, n: pa.array([chance.randrange(256) for _ in range(n)], pa.uint8()),
}
ATTRIBUTES: list[Any] = [
    1,
    1.5,
    "text",
    np.bytes_(b"bytes"),
    [1, 2],
    ["a", "b"],
    h5py.Empty("i4"),
    np.array([], "f8"),
    True,
]


def make_table(path: Path, chance: random.Random) -> None:
    """A table of random columns in a random layout; then, mostly, something in it is changed by h5py."""
    n_rows = chance.choice([0, 1, 5, 200])
    kinds = chance.sample(sorted(VALUES), chance.randrange(1, 5))
    layout = chance.choice(["hep001", "hep001", "anndata", "artifactdb", "h5col", "pytables"])
    index = {kinds[0]: chance.choice(["chunk_minmax", "sorted_rows", "chunk_bloom", "bitmap"])}
    with suppress(ColonnadeError):  # some kinds of index are not for some columns
        data = pa.table({kind: VALUES[kind](chance, n_rows) for kind in kinds})
        cn.write(path, data, "t", layout=layout, index=index if chance.random() < 0.6 else None, mode="replace")
    if not path.exists():
        cn.write(path, {"x": [1, 2, 3]}, "t", layout=layout)
    with h5py.File(path, "r+", libver=chance.choice(["earliest", "latest"])) as file:
        for _ in range(chance.choice([0, 1, 1, 2, 5])):
            _change(file, chance)


def _change(file: Any, chance: random.Random) -> None:
    """Change an object of the file that was chosen by chance."""
    names: list[str] = []
    file.visit(names.append)
    name = chance.choice(names) if names else "/"
    node, parent = file[name], file[name].parent
    change = chance.randrange(7)
    if change == 0 and len(node.attrs):
        del node.attrs[chance.choice(sorted(node.attrs))]
    elif change == 1:
        known = sorted({*node.attrs, "CLASS", "encoding-type", "column-order", "_index", "units", "ordered"})
        node.attrs[chance.choice(known)] = chance.choice(ATTRIBUTES)
    elif change == 2 and name != "t":
        del file[name]
    elif change == 3 and (more := name + chance.choice([" too", "_categories", "ü"])) not in file:
        file[more] = chance.choice([node, h5py.SoftLink("/nowhere")])
    elif change == 4 and name != "t":
        del file[name]
        parent.create_dataset(name.rsplit("/", 1)[-1], data=np.arange(chance.choice([0, 1, 5, 6])).astype(">i2"))
    elif change == 5 and isinstance(node, h5py.Dataset) and node.maxshape == (None,):
        node.resize((chance.choice([0, 1, 7, 300]),))
    elif change == 6 and isinstance(node, h5py.Dataset):
        copied = node[()]
        del file[name]
        parent.create_dataset(name.rsplit("/", 1)[-1], data=copied, dtype=copied.dtype)


@given(st.integers(0, 1 << 32))
@settings(max_examples=settings().max_examples // 2)
def test_generated_tables(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = tmp_path_factory.mktemp("made") / "made.h5"
    make_table(path, random.Random(seed))
    assert compare_tables(path) >= 2


@pytest.mark.parametrize("folder", FOLDERS)
def test_samples(folder: str) -> None:
    """Golden files and conformance kits."""
    paths = sorted(path for path in (TESTS / folder).rglob("*") if path.suffix in SUFFIXES and path.name not in ODD)
    assert len(paths) >= MADE_BY_ONE.get(folder, 5)
    known = [path for path in paths if is_known_to_library(path)]
    assert sum(map(compare_tables, known)) >= len(known)


def test_every_sample_is_compared() -> None:
    """No HDF5 file of the golden folders and the kits is left out, whatever its name ends with."""
    files = [path for name in ("golden", "conformance") for path in (TESTS / name).rglob("*") if path.is_file()]
    hdf5 = {path.relative_to(TESTS) for path in files if path.read_bytes()[:8] == b"\x89HDF\r\n\x1a\n"}
    compared = {path for path in hdf5 if path.suffix in SUFFIXES and any(path.is_relative_to(one) for one in FOLDERS)}
    assert hdf5 - compared == set()


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_files_of_other_layouts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built in the form of the packages that write them, and read as tables of the layout that is asked for, too."""
    monkeypatch.setenv(INDEXED, str(tmp_path / "indexed.h5"))
    make_indexed(tmp_path / "indexed.h5")
    path = tmp_path / "made.h5"
    MAKERS[name](path)
    assert compare_nodes(path) >= 3
    assert compare_tables(path) >= 5
