"""Space that chunks and chunk maps leave behind is used again: a file that is rewritten does not grow without end."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade.format.links import find_address
from colonnade.format.source import HDF5Source, with_checksum
from colonnade.format.superblock import read_superblock
from colonnade.pager.sources import BufferBytes
from colonnade.sparse import edit, verify_sparse
from colonnade.sparse.spare import MOST_RUNS, Spare, decode_spare, encode_note, encode_stamp

from .sparse_decoder import Decoder

LIMITS: dict[str, tuple[int | None, ...]] = {
    "fixed array": (200, 100),
    "extensible array": (200, None),
    "b-tree": (None, None),
}


@pytest.mark.parametrize("dtype", ["<f8", str])
@pytest.mark.parametrize("chunk_map", LIMITS)
def test_the_same_chunks_rewritten_again_and_again(tmp_path: Path, chunk_map: str, dtype: Any) -> None:
    """Chunks of changing sizes: after a few rounds the file hardly grows any more."""
    path = tmp_path / "t.h5"
    cn.write(path, {"x": [1, 2, 3]}, table="t")
    random = np.random.default_rng(5)
    with cn.create_sparse(
        path, "s", shape=(200, 100), dtype=dtype, chunks=(25, 25), max_shape=LIMITS[chunk_map],
        filters={1: "shuffle+deflate"},
    ) as array:  # fmt: skip
        assert array.info.layout.map == chunk_map
        sizes = []
        for number in range(60):
            array.erase((slice(None), slice(None)))
            coords = np.argwhere(random.random((200, 100)) < random.uniform(0.02, 0.2))
            values = random.random(len(coords))
            array.write(coords, [str(one) for one in values] if dtype is str else values)
            sizes.append(path.stat().st_size)
            if number % 20 == 19:
                assert array.n_defined == len(coords) and verify_sparse(path) == []
                assert len(Decoder(path.read_bytes(), "s").cells()) == len(coords)
    assert sizes[-1] < 1.3 * sizes[20], sizes
    assert cn.read(path)["x"].to_pylist() == [1, 2, 3]
    with cn.open(path, "r+") as file:
        file.repack()
    assert path.stat().st_size < sizes[-1] and verify_sparse(path) == []


def test_values_that_pack_better_or_worse(tmp_path: Path) -> None:
    """A chunk that has become smaller shares its old place with others; none of them is lost."""
    path = tmp_path / "t.h5"
    random = np.random.default_rng(8)
    everywhere = np.argwhere(np.ones((40, 40), dtype=bool))
    with cn.create_sparse(
        path, "s", shape=(40, 40), dtype="<f8", chunks=(10, 10), max_shape=(None, None), filters={1: "deflate"}
    ) as array:
        sizes = []
        for _ in range(60):
            model = random.random((40, 40))
            for row, column in random.integers(0, 4, (random.integers(0, 16), 2)).tolist():
                model[10 * row : 10 * row + random.integers(1, 11), 10 * column : 10 * column + 10] = 0.5
            array.write(everywhere, model.reshape(-1))
            assert np.array_equal(array[...], model)
            sizes.append(path.stat().st_size)
        assert verify_sparse(path) == [] and sizes[-1] < 1.3 * sizes[20], sizes


def test_a_sparse_column_that_grows_row_by_row(tmp_path: Path) -> None:
    """Each append writes the chunk map anew, in the place of the one before the last."""
    path = tmp_path / "t.h5"
    columns = {"s": cn.column(sparse=True, chunk_rows=16)}
    cn.write(path, {"n": [0], "s": pa.array([1.5])}, table="t", columns=columns)
    with cn.open(path, "r+", durability="fast") as file:
        table = file["t"]
        for number in range(300):
            table.append({"n": [number], "s": pa.array([None if number % 3 else 2.5])})
        assert table.where("s > 0").count() == 101
    assert path.stat().st_size < 40_000
    assert verify_sparse(path) == []


def test_others_may_write_in_between(tmp_path: Path) -> None:
    """What HDF5 writes never lies in a place that an array has noted as its own."""
    path = tmp_path / "t.h5"
    random = np.random.default_rng(3)
    arrays = {name: np.zeros((60, 60)) for name in "ab"}
    for name in arrays:
        cn.create_sparse(path, name, shape=(60, 60), dtype="<f8", chunks=(10, 10), max_shape=(None, 60)).close()
    for round_ in range(12):
        for name, model in arrays.items():
            with cn.open_sparse(path, name) as array:
                array.erase((slice(0, 60), slice(0, 60)))
                coords = np.argwhere(random.random((60, 60)) < random.uniform(0.01, 0.4))
                values = random.random(len(coords))
                array.write(coords, values)
                model[...] = 0
                model[tuple(coords.T)] = values
        with h5py.File(path, "r+") as file:
            file[f"d{round_}"] = np.full(500, round_)
            if round_ > 3:
                del file[f"d{round_ - 3}"]
        for name, model in arrays.items():
            with cn.open_sparse(path, name) as array:
                assert np.array_equal(array[...], model)
        assert verify_sparse(path) == []
    with h5py.File(path) as file:
        for round_ in (9, 10, 11):
            assert (file[f"d{round_}"][...] == round_).all()


def test_a_note_that_lies_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that names the bytes of a chunk as free: nothing is put there."""
    path = tmp_path / "t.h5"
    with cn.create_sparse(path, "s", shape=(100,), dtype="<f8", chunks=(10,), attrs={"note": "x" * 500}) as array:
        array.write(np.arange(90), np.arange(90.0))
        del array.attrs["note"]  # which leaves an empty message
        record = array.records()[5]
        lie = Spare([(record.address, record.size)])
        monkeypatch.setattr(edit, "decode_spare", lambda source, data, owner: lie)
        array.write(np.arange(90, 100), np.arange(90.0, 100.0))
        assert array[...].tolist() == list(range(100)) and verify_sparse(path) == []


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 300)), max_size=60))
def test_spare_runs_are_what_a_list_of_bytes_says(steps: list[tuple[bool, int]]) -> None:
    spare, free, held = Spare(), set(range(1000)), []  # type: ignore[var-annotated]
    spare.give(0, 1000)
    for takes, size in steps:
        if takes or not held:
            address = spare.take(size)
            if address is None:
                assert all(any(at + n not in free for n in range(size)) for at in range(1000 - size + 1))
                continue
            run = set(range(address, address + size))
            assert run <= free
            free -= run
            held.append((address, size))
        else:
            address, size = held.pop(size % len(held))
            spare.give(address, size)
            free |= set(range(address, address + size))
        assert {n for address, size in spare.runs for n in range(address, address + size)} == free
        assert all(sum(one) < two[0] for one, two in zip(spare.runs, spare.runs[1:], strict=False))
        assert spare.is_apart(held) and not (free and spare.is_apart([(min(free), 1)]))


class Compared(int):
    """A number that counts how often it is compared with another."""

    times = 0

    def __lt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) < other

    def __le__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) <= other

    def __gt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) > other

    def __ge__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) >= other

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_many_runs_are_not_looked_through_one_by_one() -> None:
    """Chunks that outgrow their places: each gives one that none of them fits into. Then all are taken."""
    spare, n, Compared.times = Spare(), 3000, 0
    for number in range(n):
        spare.give(Compared(1000 + number * 400), Compared(200))
        assert spare.take(Compared(300)) is None
    for number in range(n):
        assert spare.take(Compared(200)) == 1000 + number * 400
    assert not spare.runs and Compared.times < 500 * n, Compared.times


def stamped(size: int, runs: list[tuple[int, int]], owner: int = 7) -> Any:
    """A file of zeros, but for the stamps of these runs."""
    data = bytearray(size)
    for address, length in runs:
        data[address : address + 32] = encode_stamp(owner, length)
    return HDF5Source(BufferBytes(data))


def test_notes_that_make_no_sense_are_passed_over() -> None:
    runs = [(100, 200), (1000, 500)]
    source, note = stamped(5000, runs), encode_note(runs)
    found = decode_spare(source, note, 7)
    assert found is not None and found.runs == runs and found.stamped == set(runs)
    assert decode_spare(source, note[:-1], 7) is None and decode_spare(source, b"x" + note, 7) is None
    assert decode_spare(stamped(1200, runs), note, 7) is None
    assert decode_spare(source, encode_note([(0, 99)])[:16] + b"\xff" * 40, 7) is None
    many = Spare([(1000 * number, 64 + number) for number in range(100)])
    kept = decode_spare(stamped(200_000, many.runs), encode_note(many.largest(10_000)), 7)
    assert kept is not None and len(kept.runs) == MOST_RUNS and kept.runs[0][0] == 68_000


def test_a_run_is_believed_by_its_stamp_only() -> None:
    runs = [(100, 200), (1000, 500)]
    for file, kept in (
        (stamped(5000, runs[1:]), runs[1:]),  # one place is not stamped
        (stamped(5000, runs, owner=8), []),  # both are another array's
        (stamped(5000, [(100, 201), *runs[1:]]), runs[1:]),  # of another length
    ):
        found = decode_spare(file, encode_note(runs), 7)
        assert found is not None and found.runs == kept


def note_of(path: Path, name: str) -> tuple[int, int, int]:
    """Where an array's header is, the block of its messages, and the note in that."""
    data = path.read_bytes()
    block, source = read_superblock(BufferBytes(data))
    header = find_address(source, block.root, name)
    place = int.from_bytes(data[header + 11 : header + 19], "little")
    length = int.from_bytes(data[header + 19 : header + 27], "little")
    return header, length, data.index(b"COLONNADE SPARE1", place, place + length)


def noted(path: Path, name: str) -> list[tuple[int, int]]:
    data, at = path.read_bytes(), note_of(path, name)[2]
    count = int.from_bytes(data[at + 16 : at + 20], "little")
    return [struct.unpack_from("<QQ", data, at + 20 + 16 * number) for number in range(count)]


def put_note(path: Path, name: str, runs: list[tuple[int, int]]) -> None:
    """Let the note of an array say something else, under a checksum that is right."""
    header, length, at = note_of(path, name)
    data = bytearray(path.read_bytes())
    place = int.from_bytes(data[header + 11 : header + 19], "little")
    note = encode_note(runs)
    data[at : at + len(note)] = note
    data[place : place + length] = with_checksum(bytes(data[place : place + length - 4]))
    path.write_bytes(data)


def outgrown(path: Path) -> None:
    """An array that has left places behind, in a file that is not its alone."""
    with h5py.File(path, "w", libver="latest") as file:
        file["other"] = np.arange(2000)
    with cn.create_sparse(path, "s", shape=(100,), chunks=(10,), dtype=str) as array:
        for size in (50, 500, 900):
            array.write([5], ["b" * size])


@pytest.mark.parametrize("place", ["other", "superblock", "header", "messages"])
@pytest.mark.parametrize("change", ["write", "attributes"])
def test_a_note_that_names_the_bytes_of_others_is_not_believed(tmp_path: Path, place: str, change: str) -> None:
    path = tmp_path / "t.h5"
    outgrown(path)
    with h5py.File(path) as file:
        other = file["other"].id.get_offset()
    header, length, _ = note_of(path, "s")
    block = int.from_bytes(path.read_bytes()[header + 11 : header + 19], "little")
    lies = {"other": (other, 16_000), "superblock": (0, 5000), "header": (header, 5000), "messages": (block, length)}
    put_note(path, "s", [lies[place]])
    with cn.open_sparse(path, "s") as array:
        if change == "write":
            array.write([15], ["c" * 1000])
        else:
            array.attrs["long"] = "x" * 2000
        assert array[5] == "b" * 900
    assert verify_sparse(path) == []
    with h5py.File(path) as file:
        assert np.array_equal(file["other"][...], np.arange(2000))


def test_a_note_without_stamps_costs_only_its_space(tmp_path: Path) -> None:
    """As arrays have it that were written before there were stamps."""
    path = tmp_path / "t.h5"
    outgrown(path)
    header, _, _ = note_of(path, "s")
    data, runs = bytearray(path.read_bytes()), noted(path, "s")
    for address, size in runs:
        assert data[address : address + 32] == encode_stamp(header, size)
        data[address : address + 32] = bytes(32)
    path.write_bytes(data)
    before = bytes(data)
    with cn.open_sparse(path, "s") as array:
        array.write([15], ["c" * 100])
        assert array[5] == "b" * 900 and array[15] == "c" * 100
    after = path.read_bytes()
    assert all(after[at : at + size] == before[at : at + size] for at, size in runs) and verify_sparse(path) == []
