"""Variable-length elements written: every dialect, map and filter read back by our reader and by the second one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import CorruptError, DataError, UnsupportedError, UsageError
from colonnade.sparse import verify_sparse

from .sparse_decoder import Decoder

SHAPE = (20, 15)
LIMITS: dict[str, tuple[tuple[int | None, ...], tuple[int, int]]] = {
    "single": (SHAPE, SHAPE),
    "fixed array": (SHAPE, (8, 6)),
    "extensible array": ((20, None), (8, 6)),
    "b-tree": ((None, None), (3, 4)),
}
NUMBERS = h5py.vlen_dtype(np.dtype(">i4"))
KINDS: dict[str, tuple[Any, Any]] = {
    "text": (str, lambda n: "ü" * (n % 40)),
    "bytes": (bytes, lambda n: bytes((n % 256, 0)) * (n % 5)),
    "numbers": (NUMBERS, lambda n: (np.arange(n % 7) - n).astype(">i4")),
}


def raw(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else value.tobytes()


def check(array: cn.SparseArray, path: Path, model: dict[tuple[int, ...], Any], dense: bool, dialect: str) -> None:
    coords, values = array.cells()
    found = {tuple(place): raw(value) for place, value in zip(coords.tolist(), values, strict=True)}
    second = Decoder(path.read_bytes(), "g/v")
    assert second.dialect == dialect and second.cells() == found
    if dense:
        assert all(found[place] == b"" for place in found.keys() - model.keys())
        found = {place: found[place] for place in model}
    assert found == {place: raw(value) for place, value in model.items()}
    assert verify_sparse(path) == []


@pytest.mark.parametrize("filters", [None, "deflate", "heap"])
@pytest.mark.parametrize("chunk_map", LIMITS)
@pytest.mark.parametrize("dialect", ["sectioned", "structured", "prototype"])
@pytest.mark.parametrize("dense", [False, True])
def test_every_dialect_map_and_filter(
    tmp_path: Path, dialect: Any, chunk_map: str, filters: str | None, dense: bool
) -> None:
    limits, chunks = LIMITS[chunk_map]
    path = tmp_path / "t.h5"
    cn.write(path, {"x": [1, 2, 3]}, table="t")
    kind, value = KINDS[sorted(KINDS)[(len(dialect) + len(chunk_map) + dense) % 3]]
    chosen: Any = {1 if dense else 2: "deflate:9+fletcher32"} if filters == "heap" else filters
    model: dict[tuple[int, ...], Any] = {}
    with cn.create_sparse(
        path, "g/v", shape=SHAPE, dtype=kind, chunks=chunks, max_shape=limits, dialect=dialect, dense=dense,
        filters=chosen, attrs={"units": "m"},
    ) as array:  # fmt: skip
        assert (array.info.layout.dialect, array.info.layout.map) == (dialect, chunk_map)
        random = np.random.default_rng(1)
        for _ in range(3):
            coords = np.argwhere(random.random(SHAPE) < 0.15)
            values = [value(int(number)) for number in random.integers(0, 99, len(coords))]
            array.write(coords, values)
            model.update(zip(map(tuple, coords.tolist()), values, strict=True))
            check(array, path, model, dense, dialect)
        if dense:
            with pytest.raises(UsageError, match="dense"):
                array.erase((slice(0, 5), slice(0, 5)))
        else:
            array.erase((slice(0, 10), slice(3, 9)))
            model = {place: one for place, one in model.items() if not (place[0] < 10 and 3 <= place[1] < 9)}
            check(array, path, model, dense, dialect)
        if chunk_map in ("b-tree", "fixed array"):
            array.resize((13, 15))
            model = {place: one for place, one in model.items() if place[0] < 13}
            check(array, path, model, dense, dialect)
        assert array.attrs["units"] == "m"
    assert cn.read(path)["x"].to_pylist() == [1, 2, 3]
    with h5py.File(path) as file:
        assert list(file["g"]) == ["v"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t.h5"
    dtype, value = KINDS[kind]
    values = [value(number) for number in range(200)]
    with cn.create_sparse(path, "g/v", shape=(500,), dtype=dtype, chunks=(64,)) as array:
        array.write(np.arange(200) * 2, values)
        check(array, path, {(2 * number,): one for number, one in enumerate(values)}, False, "sectioned")
        assert [raw(one) for one in array.cells(slice(0, 6))[1]] == [raw(one) for one in values[:3]]
        box = array[0:4]
        assert raw(box[2]) == raw(values[1]) and (box[1] is None or len(box[1]) == 0)
        array.write([0], [value(7)])
        assert raw(array[0]) == raw(value(7))


def test_more_objects_than_a_collection_holds(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    n = 70_000
    with cn.create_sparse(path, "g/v", shape=(n,), dtype=str, chunks=(n,), filters="deflate:1") as array:
        array.write(np.arange(n), [str(number) for number in range(n)])
        found = array.cells()[1]
        assert found[0] == "0" and found[65_535] == "65535" and found[-1] == str(n - 1)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    for dtype, options, match in (
        (str, {"fill": "x"}, "fill"),
        ("f4", {"dense": True}, "dense"),
        (str, {"filters": {3: "deflate"}}, "heap"),
        (str, {"dense": True, "filters": {2: "deflate"}}, "heap"),
        (np.dtype([("a", h5py.string_dtype())]), {}, "cannot be written"),
        (h5py.vlen_dtype(h5py.string_dtype()), {}, "cannot be written"),
        (h5py.ref_dtype, {}, "cannot be written"),
    ):
        with pytest.raises((UsageError, UnsupportedError), match=match):
            cn.create_sparse(path, "v", shape=(4,), dtype=dtype, **options)
    with pytest.raises(UsageError, match="create_sparse"):
        cn.write_sparse(path, "v", ([[1, 2]], [7], (20, 30)), dtype=str)
    assert not path.exists()
    with cn.create_sparse(path, "v", shape=(4,), dtype=str) as array:
        for bad in ("a\0b", 5, None, b"x"):
            with pytest.raises(DataError, match="row 1"):
                array.write([0, 1], ["fine", bad])
        with pytest.raises(DataError, match="2 coordinates"):
            array.write([0, 1], ["one"])
        assert array.n_defined == 0
    with cn.create_sparse(path, "w", shape=(4,), dtype=h5py.vlen_dtype("u1")) as array:
        for bad in ([1, 300], [1.5], "ab", [[1], [2]], None):  # type: ignore[assignment]
            with pytest.raises(DataError, match="row 0"):
                array.write([0], [bad])
    for number, (kind, item) in enumerate(
        (("u8", [-1, 2]), ("i8", np.array([2**63], "u8")), ("f4", [1e300]), ("f8", [2**63 - 1]), ("u4", [2.0**32]))
    ):
        with (
            cn.create_sparse(path, f"x{number}", shape=(4,), dtype=h5py.vlen_dtype(kind)) as array,
            pytest.raises(DataError, match="an item does not fit"),
        ):
            array.write([0], [item])


def test_every_byte_of_a_chunk_flipped(tmp_path: Path) -> None:
    """All three sections have a checksum: a spoiled byte is an error."""
    path = tmp_path / "t.h5"
    with cn.create_sparse(path, "v", shape=(40,), dtype=str, chunks=(40,)) as array:
        array.write(np.arange(9) * 3, [f"value {number}" for number in range(9)])
        [record] = array.records()
    good = path.read_bytes()
    for at in range(record.address, record.address + record.size):
        bad = bytearray(good)
        bad[at] ^= 0x11
        with cn.open_sparse(bytes(bad), "v") as array, pytest.raises(CorruptError):
            array.cells()
