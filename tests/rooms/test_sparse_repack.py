"""`repack` of files with sparse arrays: HDF5 copies all else, we copy these; nothing is lost, or nothing is touched."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from h5py import h5s, h5t

import colonnade as cn
from colonnade.errors import UnsupportedError
from colonnade.format.links import find_address
from colonnade.format.superblock import open_root
from colonnade.pager.sources import BufferBytes
from colonnade.sparse import find_sparse, verify_sparse

from .sparse_decoder import Decoder
from .test_cli import call

SAMPLES = Path(__file__).parent.parent / "golden" / "sparse"


def content(path: Path, name: str) -> tuple[Any, ...]:
    """All that there is to say of an array."""
    with cn.open_sparse(path, name) as array:
        info, (coords, values) = array.info, array.cells()
        layout = info.layout
        told = [raw(one) for one in values.tolist()]
        return (
            info.space, info.type, info.fill, info.pipelines, info.others, layout.dialect, layout.type, layout.flags,
            layout.chunk, layout.map, layout.checksummed, coords.tolist(), told,
            {name: str(value) for name, value in array.attrs.items()},
        )  # fmt: skip


def raw(value: Any) -> Any:
    return value.tobytes() if isinstance(value, np.ndarray) else str(value)


def address_of(path: Path, name: str) -> int:
    source, root = open_root(BufferBytes(path.read_bytes()))
    return find_address(source, root, name)


def test_everything_is_copied_and_space_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    few = pa.array([None] * 499 + [1.5])
    columns = {"s": cn.column(sparse=True, units="mm", description="few")}
    cn.write(path, {"n": np.arange(500), "s": few}, table="t", columns=columns, index={"n": "sorted_rows"})
    random = np.random.default_rng(1)
    for number, (dialect, limits) in enumerate(
        (d, m) for d in ("sectioned", "structured", "prototype") for m in ((60, 50), (None, 50), (None, None))
    ):
        with cn.create_sparse(
            path, f"deep/{number}/m", shape=(60, 50), dtype="<f4", chunks=(8, 9), dialect=dialect, max_shape=limits,  # type: ignore[arg-type]
            filters="shuffle+deflate" if number % 2 else None, fill=number, attrs={"n": number, "word": "für"},
        ) as array:  # fmt: skip
            for _ in range(4):
                coords = np.argwhere(random.random((60, 50)) < 0.2)
                array.write(coords, random.random(len(coords)))
    with cn.create_sparse(path, "one", shape=(5, 5), chunks=(5, 5), dtype="i2", filters="deflate") as array:
        array.write([[1, 2], [4, 4]], [7, 8])
    with cn.create_sparse(path, "empty", shape=(5, 5), dtype="i2"):
        pass
    with cn.create_sparse(path, "text", shape=(50,), dtype=str, chunks=(8,)) as array:
        array.write([3, 40], ["a", "ü" * 99])
    with h5py.File(path, "r+") as file:
        made = file.create_dataset("refs", (1,), dtype=h5py.ref_dtype)
        made.id.write(h5s.ALL, h5s.ALL, np.array([address_of(path, "one")], dtype="u8"), h5t.STD_REF_OBJ)
        file["soft"] = h5py.SoftLink("/one")
    names = find_sparse(path)
    assert len(names) == 13
    before = {name: content(path, name) for name in names}
    table = cn.read(path, "t")
    with cn.open(path, "r+") as file:
        old, new = file.repack()
        assert new < old and file["t"].indexes[0].fresh
    assert find_sparse(path) == names and {name: content(path, name) for name in names} == before
    assert verify_sparse(path) == [] and content(path, "soft") == before["/one"]
    assert cn.read(path, "t").equals(table) and [one.rule for one in cn.check(path, deep=True)] == ["C5"]
    for name in names:
        assert len(Decoder(path.read_bytes(), name).cells()) == len(before[name][11])
    with h5py.File(path) as file:
        where = np.zeros(1, dtype="u8")
        file["refs"].id.read(h5s.ALL, h5s.ALL, where, h5t.STD_REF_OBJ)
        assert where[0] == address_of(path, "one")
    with cn.open(path, "r+") as file:
        file["t"].append({"n": [1], "s": [2.5]})
        cn.open_sparse(file, "deep/0/m").write([[0, 0]], [5])
        again = file.repack(chunk_rows=100)
        assert again[1] <= again[0] and file["t"].where("s > 2").count() == 1
    assert call("repack", path).exit_code == 0 and verify_sparse(path) == []


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.h5")), ids=lambda path: path.stem)
def test_files_of_the_prototype(tmp_path: Path, sample: Path) -> None:
    path = Path(shutil.copy(sample, tmp_path / "t.h5"))
    before = content(path, "sparse")
    with cn.open(path, "r+") as file:
        file.repack()
    assert content(path, "sparse") == before and verify_sparse(path) == []
    assert len(before[11]) == len(np.load(sample.with_suffix(".npz"))["coords"])
    with cn.open_sparse(path, "sparse") as array:  # by now it is one that can be changed
        array.attrs["new"] = 1
        assert array.attrs["new"] == 1


def test_a_user_block_and_old_superblocks(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w", userblock_size=1024, libver="latest") as file:
        file["x"] = np.arange(9)
    with path.open("r+b") as raw_file:
        raw_file.write(b"mine")
    cn.write_sparse(path, "s", ([[1, 2], [3, 4]], [7, 8], (20, 30)))
    before = content(path, "s")
    with cn.open(path, "r+") as file:
        file.repack()
    assert content(path, "s") == before and path.read_bytes()[:4] == b"mine"
    with h5py.File(path) as file:
        assert file["x"][8] == 8


@pytest.mark.parametrize("dtype", ["i4", "V8"])
def test_what_cannot_be_copied_stops_it_before_anything_is_touched(tmp_path: Path, dtype: str) -> None:
    """An array whose attribute, or whose elements, refer to other objects."""
    path = tmp_path / "run.h5"
    cn.write(path, {"ts": [1, 2, 3]}, table="events")
    attrs = {"where": np.zeros(1, "V8")} if dtype == "i4" else {}
    with cn.create_sparse(path, "deep/m", shape=(20, 30), dtype=dtype, attrs=attrs) as array:
        array.write([[1, 2]], np.zeros(1, dtype=dtype))
    data = path.read_bytes()
    path.write_bytes(as_reference(data))
    with cn.open(path, "r+"):
        pass  # opening a file for changes may alter a few bytes
    before = path.read_bytes()
    with cn.open(path, "r+") as file, pytest.raises(UnsupportedError, match=r"/deep/m .*references"):
        file.repack()
    said = call("repack", path)
    assert said.exit_code == 3 and "/deep/m" in said.output
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir() if one.suffix in (".h5", ".part")) == ["run.h5"]
    assert cn.read(path, "events").num_rows == 3


def as_reference(data: bytes) -> bytes:
    """The one opaque datatype of a file made that of object references."""
    from colonnade.format.source import with_checksum

    opaque, reference = bytes.fromhex("15 00 00 00 08 00 00 00"), bytes.fromhex("17 00 00 00 08 00 00 00")
    start = data.index(b"OCHK")
    stop = next(at for at in range(start + 8, len(data)) if with_checksum(data[start:at]) == data[start : at + 4])
    block = data[start:stop]
    assert block.count(opaque) == 1
    return data[:start] + with_checksum(block.replace(opaque, reference)) + data[stop + 4 :]
