"""What is decoded once and used again: messages with the same bytes, and the links of a group of few."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import CorruptError
from colonnade.format import source as known
from colonnade.format.dataspace import decode_dataspace
from colonnade.format.datatype import decode_datatype
from colonnade.format.links import SymbolTables
from colonnade.format.nodes import open_file
from colonnade.format.source import HDF5Source, UnknownToReader
from colonnade.pager.sources import BufferBytes

N_COLUMNS = 12


def make(path: Path, text: str) -> Path:
    rows = {f"column {number}": [number, number + 1] for number in range(N_COLUMNS - 1)}
    cn.write(path, rows | {"name": [text, "b"]}, "events")
    return path


def described(path: Path) -> tuple[int, int]:
    """How many messages were decoded, and used again, while the table of a file was described."""
    before = known._decode_once.cache_info()
    with cn.open(path, library="never") as file:
        assert len(file["events"].columns) == N_COLUMNS
    after = known._decode_once.cache_info()
    return after.misses - before.misses, after.hits - before.hits


def test_files_like_one_that_was_described_have_nothing_new_to_decode(tmp_path: Path) -> None:
    paths = [make(tmp_path / f"{number}.h5", f"{number}") for number in range(3)]
    known._decode_once.cache_clear()
    fresh, _ = described(paths[0])
    assert fresh < 2 * N_COLUMNS  # a datatype, a shape, and a fill of each would be more
    for path in paths[1:]:
        anew, again = described(path)
        assert anew == 0
        assert again > 3 * N_COLUMNS


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    source = HDF5Source(BufferBytes(b""))
    known._decode_once.cache_clear()
    for length in (known._MOST_BYTES, known._MOST_BYTES + 1):
        assert known.decode_known(source, bytes(length), lambda fields: fields.left, "message") == length
    info = known._decode_once.cache_info()
    assert info.currsize == 1
    assert info.maxsize is not None
    assert info.maxsize * known._MOST_BYTES < 1 << 20


def test_bytes_mean_what_the_sizes_of_their_file_make_of_them() -> None:
    """The same bytes are a length of 4 bytes, or one of 8; and as a datatype nothing at all."""
    data = bytes((2, 1, 0, 1)) + (5).to_bytes(4, "little") + (7).to_bytes(4, "little")
    narrow, wide = (HDF5Source(BufferBytes(b""), length_size=size) for size in (4, 8))
    for _ in range(2):
        assert known.decode_known(narrow, data, decode_dataspace, "dataspace message").shape == (5,)
        assert known.decode_known(wide, data, decode_dataspace, "dataspace message").shape == ((7 << 32) + 5,)
        with pytest.raises(CorruptError, match="ends after"):
            known.decode_known(wide, data[:8], decode_dataspace, "dataspace message")
        with pytest.raises((CorruptError, UnknownToReader)):
            known.decode_known(wide, data[:8], decode_datatype, "datatype message")


def test_errors_name_the_place_each_time() -> None:
    source = HDF5Source(BufferBytes(b"", "run.h5"), base=512)
    for address in (100, 200, 100):
        with pytest.raises(CorruptError, match=f"dataspace message at byte {512 + address}") as raised:
            known.decode_known(source, b"\1", decode_dataspace, "dataspace message", address)
        assert raised.value.path == "run.h5"


# -- links --


def group_of(n_links: int, tmp_path: Path) -> Path:
    path = tmp_path / f"{n_links}.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("group")
        for number in range(n_links):
            group[f"link {number:03}"] = h5py.SoftLink("/x") if number % 3 else np.arange(3)
    return path


@pytest.mark.parametrize("n_links", [0, 1, 5, 40, 300, 2000])
def test_links_of_a_group_are_found_whichever_way_they_are_looked_for(
    tmp_path: Path, n_links: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the nodes of a group of few are read once, not for each link."""
    path = group_of(n_links, tmp_path)
    group = open_file(BufferBytes(path.read_bytes())).find("/group")
    assert group is not None
    reads: list[str] = []
    read = HDF5Source.read

    def counting(self: HDF5Source, address: int, n_bytes: int, what: str) -> bytes:
        reads.append(what)
        return read(self, address, n_bytes, what)

    monkeypatch.setattr(HDF5Source, "read", counting)
    wanted = {link.name: link for link in group.links()}  # type: ignore[attr-defined]
    assert len(wanted) == n_links
    reads.clear()
    names = [*wanted, "link", "link 0005", "a", "z", ""]
    found = {name: group.link(name) for name in names}  # type: ignore[attr-defined]
    assert {name: link for name, link in found.items() if link is not None} == wanted
    n_tables = reads.count("symbol table")
    if n_links <= 40:
        assert n_tables <= 4 + n_links // 4  # the first two are looked for alone


def test_the_first_links_of_a_group_are_found_without_reading_all(tmp_path: Path) -> None:
    path = group_of(40, tmp_path)
    reads: list[int] = []

    class Counted(BufferBytes):
        def read_at(self, offset: int, n_bytes: int) -> bytes:
            reads.append(n_bytes)
            return super().read_at(offset, n_bytes)

    group = open_file(Counted(path.read_bytes())).find("/group")
    assert group is not None
    reads.clear()
    assert group.link("link 007") is not None  # type: ignore[attr-defined]
    assert len(reads) <= 4  # the tree, the heap, its names, one table


@pytest.mark.parametrize("place", range(8))
def test_a_damaged_table_spoils_the_links_it_holds_only(tmp_path: Path, place: int) -> None:
    """A group with a table that cannot be read is searched as groups of many are: other links are still found."""
    whole = group_of(40, tmp_path).read_bytes()
    ends = [at for at in range(len(whole)) if whole.startswith(b"SNOD", at)]
    at = ends[place % len(ends)]
    damaged = whole[:at] + b"snod" + whole[at + 4 :]
    group = open_file(BufferBytes(damaged)).find("/group") if at != ends[0] else None
    if group is None:
        return
    found = set()
    for _ in range(2):
        for number in range(40):
            try:
                if group.link(f"link {number:03}") is not None:  # type: ignore[attr-defined]
                    found.add(number)
            except CorruptError:
                pass
    assert 20 <= len(found) < 40


def test_a_table_that_cannot_be_kept_is_searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(SymbolTables, "_spans", None)
    group = open_file(BufferBytes(group_of(40, tmp_path).read_bytes())).find("/group")
    assert group is not None
    assert all(group.link(f"link {number:03}") is not None for number in range(40))  # type: ignore[attr-defined]
