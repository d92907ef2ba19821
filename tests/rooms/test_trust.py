"""A search index changes an answer only if the caller said so: what is believed when, and what a changed byte does.

Receipts are in a folder of the test; `state` in them is forged here to let a changed file pass for the one that was
verified, so that only the digests are left to notice.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from h5py import h5a, h5s, h5t

import colonnade as cn
from tests.rooms import index_reader

KINDS = ("chunk_minmax", "sorted_rows", "bitmap", "chunk_bloom")
N_ROWS = 200
HOME = "t/_search_indexes"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the receipts."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("COLONNADE_CACHE", str(folder))
    return folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.h5"


def values() -> np.ndarray[Any, Any]:
    """Numbers from 1 on, in no order."""
    return (np.arange(N_ROWS, dtype="i8") * 37) % 101 + 1


def make(path: Path, kinds: Any = KINDS, **options: Any) -> None:
    columns = {"x": cn.column(chunk_rows=10, filters="none", **options)}
    cn.write(
        path, {"x": values(), "y": np.arange(N_ROWS)}, "t", columns=columns, index={"x": list(kinds)} if kinds else {}
    )


def trusted(path: Any, **how: Any) -> list[bool]:
    with cn.open(path, **how) as file:
        return [one.trusted for one in file["t"].indexes]


def count(table: Any, *predicates: str) -> list[int]:
    return [table.where(predicate).count() for predicate in predicates]


def used(table: Any, predicate: str = "x == 5") -> set[str]:
    return {one.kind for one in table.where(predicate).explain().indexes_used}


def skipped(table: Any, predicate: str = "x == 5") -> dict[str, str]:
    return {one.kind: one.why for one in table.where(predicate).explain().indexes_skipped}


def elsewhere(path: Path) -> dict[str, Any]:
    """What another process believes, and uses."""
    script = """if True:
        import json, sys
        import colonnade as cn
        with cn.open(sys.argv[1]) as file:
            plan = file["t"].where("x == 5").explain()
            trusted = [one.trusted for one in file["t"].indexes]
            print(json.dumps({"trusted": trusted, "used": [one.kind for one in plan.indexes_used], "text": str(plan)}))
    """
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


# -- built here or verified --


def test_an_index_that_was_built_here_is_used(path: Path) -> None:
    """In the handle that built it, in the next one, and in another process."""
    make(path, ())
    with cn.open(path, "r+") as file:
        file["t"].build_index("x", list(KINDS))
        assert all(one.trusted for one in file["t"].indexes)
        assert used(file["t"])
    assert trusted(path) == trusted(path, mode="r+") == [True] * 4
    found = elsewhere(path)
    assert found["trusted"] == [True] * 4 and found["used"]


def test_an_index_made_at_creation_is_used(path: Path) -> None:
    """The file is written aside and renamed: its receipt is that of the place where it ends."""
    make(path)
    assert trusted(path) == [True] * 4
    assert elsewhere(path)["trusted"] == [True] * 4


def test_nothing_is_trusted_in_a_copy_until_it_is_verified(path: Path) -> None:
    """A copy is another file, though every byte is the same. explain() says why, and what to do."""
    make(path)
    copy = path.with_name("copy.h5")
    shutil.copy2(path, copy)
    with cn.open(copy) as file:
        table = file["t"]
        assert [one.trusted for one in table.indexes] == [False] * 4
        assert used(table) == set()
        assert all("verify_indexes()" in why and "neither built here" in why for why in skipped(table).values())
        assert len(skipped(table)) == 4
        assert "verify_indexes()" in str(table.where("x == 5").explain())
        assert table.verify_indexes() == []
        assert [one.trusted for one in table.indexes] == [True] * 4
        assert used(table)
    assert trusted(copy) == [True] * 4
    assert elsewhere(copy)["trusted"] == [True] * 4
    assert trusted(path) == [True] * 4


def test_verifying_while_the_file_is_open_for_changes(path: Path) -> None:
    """The receipt is kept when the file is closed."""
    make(path)
    copy = path.with_name("copy.h5")
    shutil.copy(path, copy)
    with cn.open(copy, "r+") as file:
        assert file["t"].verify_indexes() == []
        assert [one.trusted for one in file["t"].indexes] == [True] * 4
        assert used(file["t"])
    assert trusted(copy) == [True] * 4


def test_an_index_that_others_made_is_used_once_verified(path: Path) -> None:
    """Whatever its name; what is wrong in it would have been found."""
    make(path, ("chunk_minmax",))
    with h5py.File(path, "r+") as h5:
        h5.move(f"{HOME}/x__chunk_minmax", f"{HOME}/some other name")
    assert trusted(path) == [False]
    with cn.open(path) as file:
        assert file["t"].verify_indexes() == []
        assert used(file["t"]) == {"chunk_minmax"}


def test_verifying_again_after_a_change_by_others(path: Path) -> None:
    """A wrong index loses its receipt; the others have theirs."""
    make(path)
    with h5py.File(path, "r+") as h5:
        index = h5[f"{HOME}/x__sorted_rows"]
        index[3], index[4] = index[4], index[3]
    with cn.open(path) as file:
        table = file["t"]
        findings = table.verify_indexes()
        assert [one.rule for one in findings] == ["S8"]
        assert findings[0].path == "/t/_search_indexes/x__sorted_rows" and "place 3" in findings[0].message
        assert {one.kind: one.trusted for one in table.indexes} == {kind: kind != "sorted_rows" for kind in KINDS}
    assert sum(trusted(path)) == 3


# -- what makes a receipt void --


def new_bytes_at_the_end(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0")


def another_time(path: Path) -> None:
    os.utime(path)


def a_copy_in_its_place(path: Path) -> None:
    copy = path.with_name("copy.h5")
    shutil.copy2(path, copy)
    copy.replace(path)


def a_byte_changed_and_the_time_set_back(path: Path) -> None:
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(last)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def written_by_h5py(path: Path) -> None:
    with h5py.File(path, "r+") as h5:
        h5["t/x"][3] = 5000


def written_by_h5py_and_the_time_set_back(path: Path) -> None:
    status = path.stat()
    written_by_h5py(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns


CHANGES = [new_bytes_at_the_end, another_time, a_copy_in_its_place, a_byte_changed_and_the_time_set_back,
           written_by_h5py, written_by_h5py_and_the_time_set_back]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_in_another_state_is_another_file(path: Path, change: Callable[[Path], None]) -> None:
    """Identity, size and times: any of them ends the trust."""
    make(path)
    change(path)
    assert trusted(path) == trusted(path, mode="r+") == [False] * 4
    with cn.open(path) as file:
        wanted = int((file["t"]["x"][:] == 5000).sum())
        assert count(file["t"], "x == 5000") == [wanted]


def test_a_file_that_was_moved(path: Path) -> None:
    """Right answers under the new name, and under the old one for what is put there."""
    make(path)
    moved = path.with_name("moved.h5")
    path.rename(moved)
    cn.write(path, {"x": np.full(N_ROWS, 7), "y": np.arange(N_ROWS)}, "t")
    with cn.open(moved) as file:
        assert count(file["t"], "x == 7") == [int((values() == 7).sum())]
    with cn.open(path) as file:
        assert count(file["t"], "x == 7") == [N_ROWS]


def test_a_link_to_a_file_is_the_file(path: Path) -> None:
    """Trust goes by where a path leads."""
    make(path)
    link = path.with_name("link.h5")
    link.symlink_to(path)
    assert trusted(link) == [True] * 4


# -- changes made here keep trust --


def test_changes_keep_trust_as_they_go(path: Path) -> None:
    """Index and receipt follow every commit: used before, between and after, here and elsewhere."""
    make(path)
    with cn.open(path, "r+") as file:
        table = file["t"]
        for step, value in enumerate((501, 502, 503)):
            table.append({"x": [value], "y": [0]})
            assert count(table, f"x == {value}") == [1]
            assert used(table, f"x == {value}")
            assert [one.trusted for one in table.indexes] == [True] * 4, step
        table.update("x", [0], [600])
        table.truncate(N_ROWS)
        assert count(table, "x == 600", "x == 501") == [1, 0]
        assert used(table, "x == 600")
        table.rename_column("x", "z")
        assert count(table, "z == 600") == [1]
        assert used(table, "z == 600")
        table.rename_column("z", "x")
        file.h5["beside"] = np.arange(10)
    assert trusted(path) == [True] * 4
    assert elsewhere(path)["trusted"] == [True] * 4


def test_a_reader_sees_the_trust_of_a_commit(path: Path) -> None:
    """A reader that was open before finds the new rows, and by index once the writer is done."""
    make(path)
    with cn.open(path) as reader:
        table = reader["t"]
        assert used(table)
        with cn.open(path, "r+") as file:
            file["t"].append({"x": [5001], "y": [0]})
            assert count(table, "x == 5001") == [1]
        assert count(table, "x == 5001") == [1]
        assert used(table, "x == 5001")


def test_an_untrusted_index_stays_untrusted_when_it_is_kept_fresh(path: Path) -> None:
    """An append extends it, and does not make it believed: what it said before was never looked at."""
    make(path)
    with h5py.File(path, "r+") as h5:
        entry = h5[f"{HOME}/x__chunk_minmax"][0]
        entry["max"] = 0
        h5[f"{HOME}/x__chunk_minmax"][0] = entry
    with cn.open(path, "r+") as file:
        file["t"].append({"x": [5], "y": [0]})
        assert [one.trusted for one in file["t"].indexes] == [False] * 4
    assert trusted(path) == [False] * 4
    with cn.open(path) as file:
        assert count(file["t"], f"x == {values()[3]}") == [int((values() == values()[3]).sum())]
        assert "chunk 0" in file["t"].verify_indexes()[0].message


# -- what is written past the library --


def raw_write(h5: Any) -> None:
    h5["t/x"][3] = 5000


def raw_write_all(h5: Any) -> None:
    h5["t/x"][...] = 5000


def raw_dataset_replaced(h5: Any) -> None:
    data = h5["t/x"][:]
    data[3] = 5000
    kept = dict(h5["t/x"].attrs)
    del h5["t/x"]
    made = h5.create_dataset("t/x", data=data, chunks=(10,), maxshape=(None,))
    for name, value in kept.items():
        made.attrs[name] = value


def raw_rows_cut_and_added(h5: Any) -> None:
    h5["t/x"].resize((0,))
    h5["t/x"].resize((N_ROWS,))


RAW = [
    raw_write,
    raw_write_all,
    raw_dataset_replaced,
    raw_rows_cut_and_added,
]
PREDICATES = ("x == 5000", "x == 0", "x < 1", "x > 100", f"x == {values()[3]}", "x != 7", "x is missing")


def truth(path: Any) -> list[list[int]]:
    """The rows that match, found without any index."""
    with cn.open(path, trust="never") as file:
        return [file["t"].where(predicate).row_numbers().tolist() for predicate in PREDICATES]


def believed(path: Any, **how: Any) -> list[list[int]]:
    with cn.open(path, **how) as file:
        return [file["t"].where(predicate).row_numbers().tolist() for predicate in PREDICATES]


@pytest.mark.parametrize("write", RAW)
@pytest.mark.parametrize("filters", ["none", "deflate:1"])
def test_raw_writes_end_trust(path: Path, write: Callable[[Any], None], filters: str) -> None:
    """Through file.h5, after a look at the indexes; seen in the same handle, at the next commit and after closing."""
    make(path)
    with cn.open(path, "r+") as file:
        file.repack(filters=filters)
        assert [one.trusted for one in file["t"].indexes] == [True] * 4
        write(file.h5)
        found = [file["t"].where(predicate).row_numbers().tolist() for predicate in PREDICATES]
    assert found == truth(path)
    assert believed(path) == found


@pytest.mark.parametrize("write", [raw_write, raw_write_all, raw_rows_cut_and_added])
def test_raw_writes_before_the_first_look_end_trust(path: Path, write: Callable[[Any], None]) -> None:
    """Receipts hold for the file as it was opened."""
    make(path)
    with cn.open(path, "r+") as file:
        write(file.h5)
        found = [file["t"].where(predicate).row_numbers().tolist() for predicate in PREDICATES]
    assert found == truth(path)
    assert believed(path) == found


@pytest.mark.parametrize("write", RAW)
def test_raw_writes_inside_a_transaction_end_trust(path: Path, write: Callable[[Any], None]) -> None:
    """Between changes of ours, and after the last one."""
    make(path)
    with cn.open(path, "r+") as file:
        assert used(file["t"])
        with file.transaction():
            file["t"].update("y", [0], [7])
            write(file.h5)
    assert believed(path) == truth(path)


@pytest.mark.parametrize("write", RAW)
def test_raw_writes_to_a_new_file_end_trust(path: Path, write: Callable[[Any], None]) -> None:
    """Before it is in its place."""
    columns = {"x": cn.column(chunk_rows=10)}
    with cn.open(path, "w") as file:
        file.create("t", {"x": values(), "y": np.arange(N_ROWS)}, columns=columns, index={"x": list(KINDS)})
        write(file.h5)
    assert believed(path) == truth(path)


def test_rows_added_raw_within_the_last_chunk(path: Path) -> None:
    """The fill, zero, becomes a value of rows that were not there: no byte of a chunk is written for that."""
    columns = {"x": cn.column(chunk_rows=100, fill=None)}
    cn.write(path, {"x": np.arange(993) % 7 + 1}, "t", columns=columns, index={"x": ["bitmap", "chunk_bloom"]})
    with cn.open(path, "r+") as file:
        assert used(file["t"])
        file.h5["t/x"].resize((1000,))
    assert believed(path) == truth(path)


STORAGES: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (10,)},
    "compressed": {"chunks": (10,), "compression": "gzip"},
}


@pytest.mark.parametrize("storage", STORAGES.values(), ids=STORAGES)
def test_raw_writes_are_seen_in_every_storage(path: Path, storage: dict[str, Any]) -> None:
    """Wherever the rows lie."""
    with h5py.File(path, "w") as h5:
        group = h5.create_group("t")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_(b"COLUMN_TABLE"), np.bytes_(b"1.0")
        group.create_dataset("x", data=values(), **storage)
    with cn.open(path, "r+") as file:
        file["t"].build_index("x", list(KINDS))
    with cn.open(path, "r+") as file:
        assert used(file["t"])
        raw_write(file.h5)
        assert count(file["t"], "x == 5000") == [1]
    assert believed(path) == truth(path)


def test_what_is_written_beside_the_table_does_no_harm(path: Path) -> None:
    """Other arrays, attributes and groups leave the indexes trusted, or at least right."""
    make(path)
    with cn.open(path, "r+") as file:
        assert used(file["t"])
        file.h5["cube"] = np.arange(1000).reshape(10, 10, 10)
        file.h5.attrs["note"] = "beside"
        file.h5.create_group("more")["a"] = 3
    assert believed(path) == truth(path)
    assert trusted(path) == [True] * 4


def write_sparse_array(path: Path) -> None:
    coords, cells = np.array([[1, 2], [3, 4]]), np.array([1.0, 2.0])
    cn.write_sparse(path, "matrix", (coords, cells, (50, 50)))


def change_sparse_array(path: Path) -> None:
    array = cn.create_sparse(path, "deep/matrix", shape=(50, 50), dtype="f8")
    array.write(np.array([[1, 2]]), np.array([3.0]))
    array.erase(np.array([[1, 2]]))


def write_an_element(path: Path) -> None:
    with cn.open(path, "r+") as file:
        cn.write_element(file.h5, "uns", {"a": np.arange(5), "b": {"c": "text"}})


def set_attributes(path: Path) -> None:
    with cn.open(path, "r+") as file:
        file.attrs["run"] = 1
        file["t"].attrs["run"] = 2
        file.h5["t"].attrs["more"] = 3


@pytest.mark.parametrize("change", [write_sparse_array, change_sparse_array, write_an_element, set_attributes])
def test_what_we_change_beside_the_table_leaves_its_indexes_trusted(path: Path, change: Callable[[Path], None]) -> None:
    make(path)
    assert trusted(path) == [True] * 4
    change(path)
    assert trusted(path) == [True] * 4
    assert believed(path) == truth(path)


def test_a_sparse_array_trusts_nothing_that_was_not_trusted(path: Path) -> None:
    make(path)
    with h5py.File(path, "r+") as h5:
        h5["t/x"][0] += 1
    write_sparse_array(path)
    assert trusted(path) == [False] * 4


def build_or_refuse(path: Path) -> None:
    """An index that is not to be trusted may as well be refused."""
    with cn.open(path, "r+") as file, suppress(cn.errors.UsageError):
        file["t"].build_index("x", list(KINDS))


def test_rows_in_an_external_file(path: Path) -> None:
    """The file with the table is as it was; its column is not."""
    raw = path.with_suffix(".raw")
    values().tofile(raw)
    with h5py.File(path, "w") as h5:
        group = h5.create_group("t")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_(b"COLUMN_TABLE"), np.bytes_(b"1.0")
        group.create_dataset("x", shape=(N_ROWS,), dtype="i8", external=[(str(raw), 0, 8 * N_ROWS)])
    build_or_refuse(path)
    changed = values()
    changed[3] = 5000
    changed.tofile(raw)
    assert believed(path) == truth(path)


def test_rows_of_a_virtual_column(path: Path) -> None:
    """The same for a view of other datasets."""
    source = path.with_name("source.h5")
    with h5py.File(source, "w") as h5:
        h5["x"] = values()
    with h5py.File(path, "w") as h5:
        group = h5.create_group("t")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_(b"COLUMN_TABLE"), np.bytes_(b"1.0")
        layout = h5py.VirtualLayout((N_ROWS,), "i8")
        layout[:] = h5py.VirtualSource(str(source), "x", (N_ROWS,))
        group.create_virtual_dataset("x", layout)
    build_or_refuse(path)
    with h5py.File(source, "r+") as h5:
        h5["x"][3] = 5000
    assert believed(path) == truth(path)


def test_a_column_that_two_tables_share(path: Path) -> None:
    """One dataset under two groups: a change through either is a change of both."""
    make(path)
    with h5py.File(path, "r+") as h5:
        other = h5.create_group("other")
        other.attrs["CLASS"], other.attrs["VERSION"] = np.bytes_(b"COLUMN_TABLE"), np.bytes_(b"1.0")
        other["x"] = h5["t/x"]
    with cn.open(path, "r+") as file:
        file["t"].verify_indexes()
        file["other"].update("x", [3], [5000])
    assert believed(path) == truth(path)


# -- files that the caller opened --


def test_an_h5py_file_for_reading(path: Path) -> None:
    """Nothing is known of its indexes; verified, they are used as long as it is open here."""
    make(path)
    with h5py.File(path) as h5:
        file = cn.open(h5)
        assert [one.trusted for one in file["t"].indexes] == [False] * 4
        assert file["t"].verify_indexes() == []
        assert used(file["t"])
    with h5py.File(path) as h5:
        assert [one.trusted for one in cn.open(h5)["t"].indexes] == [False] * 4


def test_an_h5py_file_for_writing(path: Path) -> None:
    """Its owner may write at any time: no index of it is believed, also one that is built here."""
    make(path)
    with h5py.File(path, "r+") as h5:
        file = cn.open(h5, "r+")
        file["t"].build_index("x", list(KINDS))
        assert file["t"].verify_indexes() == []
        h5["t/x"][3] = 5000
        assert count(file["t"], "x == 5000") == [1]
        assert used(file["t"]) == set()
    assert believed(path) == truth(path)


def test_a_file_object(path: Path) -> None:
    """Bytes in memory have no state to be known by."""
    make(path)
    with cn.open(io.BytesIO(path.read_bytes())) as file:
        assert [one.trusted for one in file["t"].indexes] == [False] * 4
        assert count(file["t"], "x == 5") == [int((values() == 5).sum())]
        assert file["t"].verify_indexes() == []
        assert used(file["t"])


# -- as the caller says --


def test_always_and_never(path: Path) -> None:
    """trust="always" takes what it finds, trust="never" nothing; explain() says so."""
    make(path)
    copy = path.with_name("copy.h5")
    shutil.copy(path, copy)
    with cn.open(copy, trust="always") as file:
        assert used(file["t"])
    with cn.open(path, trust="never") as file:
        assert used(file["t"]) == set()
        assert set(skipped(file["t"]).values()) == {'trust="never"'}
        assert believed(path) == truth(path)


def test_another_word_for_trust_is_refused(path: Path) -> None:
    """By name, with the words there are."""
    make(path)
    with pytest.raises(cn.errors.UsageError, match="always"):
        cn.open(path, trust="sometimes")  # type: ignore[arg-type]


def test_always_shows_a_wrong_index(path: Path) -> None:
    """The caller said so: a stale index gives the stale answer. That is what the default guards against."""
    make(path)
    written_by_h5py(path)
    assert believed(path, trust="always")[0] == []
    assert believed(path)[0] == [3]


# -- the folder of the receipts --


def receipt_file(cache: Path, path: Path) -> Path:
    """The file with the receipts of a file."""
    found = [one for one in cache.rglob("*.json") if json.loads(one.read_bytes())["file"] == str(path)]
    assert len(found) == 1
    return found[0]


def test_receipts_are_in_one_small_file(cache: Path, path: Path) -> None:
    """Nothing else is left in the folder."""
    make(path)
    with cn.open(path, "r+") as file:
        file["t"].append({"x": [5], "y": [0]})
    assert [one for one in cache.rglob("*") if one.is_file()] == [receipt_file(cache, path)]


@pytest.mark.parametrize("folder", ["/dev/null/cache", "/proc/cache", "/tmp/" + 300 * "x"])
def test_a_folder_that_cannot_be(path: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust then lasts as long as a handle; nothing fails."""
    monkeypatch.setenv("COLONNADE_CACHE", folder)
    make(path)
    with cn.open(path, "r+") as file:
        file["t"].append({"x": [5], "y": [0]})
    with cn.open(path) as file:
        assert file["t"].verify_indexes() == []
        assert used(file["t"])
    assert believed(path) == truth(path)


def test_a_folder_that_is_a_file(cache: Path, path: Path) -> None:
    """The same."""
    cache.write_text("in the way")
    make(path)
    assert believed(path) == truth(path)
    assert trusted(path) == [False] * 4
    assert cache.read_text() == "in the way"


def test_receipts_that_are_a_folder(cache: Path, path: Path) -> None:
    """Something else in the place of the receipts."""
    make(path)
    place = receipt_file(cache, path)
    place.unlink()
    place.mkdir()
    assert believed(path) == truth(path)
    with cn.open(path, "r+") as file:
        file["t"].append({"x": [5], "y": [0]})
    assert believed(path) == truth(path)


def test_no_home_folder(path: Path) -> None:
    """A process without a home (a service, a container with an odd user) reads and writes as any other."""
    script = """if True:
        import pwd, sys
        def nobody(number):
            raise KeyError(number)
        pwd.getpwuid = nobody
        import colonnade as cn
        cn.write(sys.argv[1], {"x": [1, 2, 3]}, index={"x": "bitmap"})
        with cn.open(sys.argv[1]) as file:
            print(file["table"].where("x == 2").count())
    """
    unset = {"COLONNADE_CACHE", "XDG_CACHE_HOME", "HOME"}
    env = {name: value for name, value in os.environ.items() if name not in unset}
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1"


def garbage() -> dict[str, Callable[[dict[str, Any]], bytes]]:
    """Contents of the receipts' file that are not receipts."""

    def changed(**parts: Any) -> Callable[[dict[str, Any]], bytes]:
        return lambda kept: json.dumps({**kept, **parts}).encode()

    def places(make: Callable[[Any, Any], Any]) -> Callable[[dict[str, Any]], bytes]:
        def made(kept: dict[str, Any]) -> bytes:
            return json.dumps({**kept, "receipts": [make(*pair) for pair in kept["receipts"]]}).encode()

        return made

    return {
        "nothing": lambda kept: b"",
        "every byte": lambda kept: bytes(range(256)),
        "half": lambda kept: json.dumps(kept).encode()[:100],
        "a list": lambda kept: b"[]",
        "a number": lambda kept: b"3",
        "null": lambda kept: b"null",
        "a text": lambda kept: b'"text"',
        "another version": changed(version=2),
        "no state": changed(state=None),
        "state of texts": changed(state=["a", "b"]),
        "receipts: number": changed(receipts=3),
        "receipts: text": changed(receipts="abc"),
        "receipts: pairs of numbers": changed(receipts=[[1, 2]]),
        "no digests": places(lambda place, digests: [place, {}]),
        "digests: numbers": places(lambda place, digests: [place, {"": 3}]),
        "digests: text": places(lambda place, digests: [place, {"": "abc"}]),
        "digests: none": places(lambda place, digests: [place, {part: [] for part in digests}]),
        "digests: others": places(lambda place, digests: [place, {part: ["0" * 32] * 9 for part in digests}]),
        "short place": places(lambda place, digests: ["ab", digests]),
        "nested place": places(lambda place, digests: [[place], digests]),
        "digests: list": places(lambda place, digests: [place, [1, 2]]),
        "digests: null": places(lambda place, digests: [place, None]),
        "deep": lambda kept: b"[" * 100_000,
    }


GARBAGE = garbage()


@pytest.mark.parametrize("spoil", GARBAGE.values(), ids=GARBAGE)
def test_receipts_with_garbage_in_them(cache: Path, path: Path, spoil: Callable[[dict[str, Any]], bytes]) -> None:
    """They count as none, or are found not to fit; the next commit writes good ones."""
    make(path)
    place = receipt_file(cache, path)
    place.write_bytes(spoil(json.loads(place.read_bytes())))
    assert believed(path) == truth(path)
    assert believed(path, mode="r+") == truth(path)
    with cn.open(path, "r+") as file:
        file["t"].build_index("x", list(KINDS))
    assert trusted(path) == [True] * 4


def test_receipts_of_another_file(cache: Path, path: Path) -> None:
    """Receipts copied to another file's place say the state of the first."""
    make(path)
    other = path.with_name("other.h5")
    cn.write(other, {"x": values()[::-1].copy(), "y": np.arange(N_ROWS)}, "t",
             columns={"x": cn.column(chunk_rows=10)}, index={"x": list(KINDS)})  # fmt: skip
    shutil.copy(receipt_file(cache, path), receipt_file(cache, other))
    assert trusted(other) == [False] * 4
    assert believed(other) == truth(other)


# -- tampering --


def forge(cache: Path, path: Path) -> None:
    """Make the receipts say that they are of the file as it is now."""
    place = receipt_file(cache, path)
    kept = json.loads(place.read_bytes())
    status = path.stat()
    kept["state"] = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    place.write_bytes(json.dumps(kept).encode())


def test_a_forged_receipt_is_believed(cache: Path, path: Path) -> None:
    """Else the tests below would test nothing: with the state forged, digests alone stand guard."""
    make(path)
    with h5py.File(path, "r+") as h5:
        h5.attrs["note"] = "changed"
    assert trusted(path) == [False] * 4
    forge(cache, path)
    assert trusted(path) == [True] * 4
    with cn.open(path) as file:
        assert used(file["t"])


SMALL = 22
NUMBERS = [None if row % 11 == 4 else float("nan") if row % 7 == 5 else float(row * 5 % 6) for row in range(SMALL)]
TEXTS = [None if row % 9 == 4 else "abcdef"[row * 5 % 6] for row in range(SMALL)]
SMALL_COLUMNS: dict[str, tuple[pa.Array, list[str]]] = {
    "numbers": (
        pa.array(NUMBERS, pa.float64()),
        ["x == 0", "x == 5", "x != 3", "x < 3", "x > 2", "x is missing", "x is nan", "not x > 2"],
    ),
    "texts": (
        pa.array(TEXTS),
        ["x is missing", "x == 'a'", "x == 'f'", "x != 'c'", "x < 'd'", "x > 'c'"],
    ),
}


def make_small(path: Path, column: str, kind: str) -> None:
    options = {"x": cn.column(chunk_rows=8, strings="fixed", fill=" " if column == "texts" else -1.0)}
    cn.write(path, pa.table({"x": SMALL_COLUMNS[column][0]}), "t", columns=options, index={"x": kind})


def answers(path: Path, predicates: list[str], **how: Any) -> list[Any]:
    """The rows of all predicates, and some counts."""
    with cn.open(path, **how) as file:
        table = file["t"]
        counts = [table.where(predicate).count() for predicate in predicates[::2]]
        return [*counts, *(table.where(predicate).row_numbers().tolist() for predicate in predicates)]


Tampering = tuple[str, Callable[[h5py.File], None]]


def raw_bytes(node: Any, kind: Any) -> np.ndarray[Any, Any]:
    """All elements of a dataset or attribute, byte by byte as they are stored."""
    image = np.zeros(node.shape, dtype=f"V{kind.get_size()}")
    if isinstance(node, h5a.AttrID):
        node.read(image, mtype=kind)
    else:
        node.read(h5s.ALL, h5s.ALL, image, mtype=kind)
    return image


def flip_in_dataset(home: str, name: str, place: int) -> Callable[[h5py.File], None]:
    def tamper(h5: h5py.File) -> None:
        node = h5[f"{home}/{name}"].id
        kind = node.get_type()
        image = raw_bytes(node, kind)
        image.reshape(-1).view("u1")[place] ^= 1 << place % 8
        node.write(h5s.ALL, h5s.ALL, image, mtype=kind)

    return tamper


def flip_in_attribute(home: str, name: str, attribute: str, place: int) -> Callable[[h5py.File], None]:
    def tamper(h5: h5py.File) -> None:
        node = h5a.open(h5[f"{home}/{name}"].id, attribute.encode())
        kind = node.get_type()
        image = raw_bytes(node, kind)
        image.reshape(-1).view("u1")[place] ^= 1 << place % 8
        node.write(image, mtype=kind)

    return tamper


def flips(path: Path, home: str = HOME) -> Iterator[Tampering]:
    """Every byte of every dataset and attribute of the indexes, one bit of it the other way round."""
    with h5py.File(path) as h5:
        for name, node in h5[home].items():
            size = node.id.get_type().get_size() * int(np.prod(node.shape))
            for place in range(size):
                yield f"{name} byte {place}", flip_in_dataset(home, name, place)
            for attribute in node.attrs:
                found = h5a.open(node.id, attribute.encode())
                if found.get_type().get_class() == h5t.REFERENCE:
                    continue
                for place in range(found.get_type().get_size() * int(np.prod(found.shape))):
                    yield f"{name}.{attribute} byte {place}", flip_in_attribute(home, name, attribute, place)


def tampered(path: Path, original: bytes, tamper: Callable[[h5py.File], None]) -> None:
    """The file as it was made, with one thing changed."""
    path.write_bytes(original)
    with h5py.File(path, "r+") as h5:
        tamper(h5)


def is_noticed(message: str) -> bool:
    """Whether a finding of verify_indexes names what is wrong, or a kind that is not known, which is legal."""
    return "_search_indexes" not in message and ("wrong in" in message or "was not verified: its kind" in message)


@pytest.mark.parametrize("column", SMALL_COLUMNS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_changed_byte_changes_an_answer(cache: Path, path: Path, kind: str, column: str) -> None:
    """Every byte of an index in turn, with a receipt forged to the changed file: the digests catch it."""
    predicates = SMALL_COLUMNS[column][1]
    make_small(path, column, kind)
    original, wanted = path.read_bytes(), answers(path, predicates, trust="never")
    assert answers(path, predicates) == wanted
    wrong = []
    for what, tamper in list(flips(path)):
        tampered(path, original, tamper)
        forge(cache, path)
        try:
            if answers(path, predicates) != wanted:
                wrong.append(what)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told with the byte
            wrong.append(f"{what}: {error!r}")
    assert wrong == []


@pytest.mark.parametrize("column", SMALL_COLUMNS)
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_receipt_nothing_is_believed(path: Path, kind: str, column: str) -> None:
    """The same bytes, and the receipt as it was: the file's state alone ends the trust."""
    predicates = SMALL_COLUMNS[column][1]
    make_small(path, column, kind)
    original, wanted = path.read_bytes(), answers(path, predicates, trust="never")
    for what, tamper in list(flips(path))[::7]:
        tampered(path, original, tamper)
        assert answers(path, predicates) == wanted, what
        assert not any(trusted(path))


def harmless(path: Path) -> set[str]:
    """Bytes that nobody looks at: bits behind the last row, placeholders, a flag that says less than it could."""
    names = {"x__bitmap.ordered byte 0"}
    with h5py.File(path) as h5:
        for name, node in h5[HOME].items():
            if name.endswith("__bitmap"):
                last = node.shape[1] - 1
                names |= {f"{name} byte {value * node.shape[1] + last}" for value in range(node.shape[0])}
    return names


def is_wrong(path: Path) -> bool:
    """Whether the second reader finds the index wrong: another NaN, or -0.0 for 0.0, is the same value."""
    try:
        with h5py.File(path) as h5:
            return bool(index_reader.check(h5["t"]))
    except (ValueError, UnicodeDecodeError):
        return True


@pytest.mark.parametrize("column", SMALL_COLUMNS)
@pytest.mark.parametrize("kind", KINDS)
def test_always_may_be_wrong_but_does_not_break(path: Path, kind: str, column: str) -> None:
    """trust="always" on every changed byte: an answer or an error of ours; and verify_indexes names the entry."""
    predicates = SMALL_COLUMNS[column][1]
    make_small(path, column, kind)
    original, passed_over = path.read_bytes(), harmless(path)
    broken, unseen = [], []
    for what, tamper in list(flips(path)):
        tampered(path, original, tamper)
        try:
            answers(path, predicates, trust="always")
            with cn.open(path) as file:
                findings = file["t"].verify_indexes()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told with the byte
            broken.append(f"{what}: {error!r}")
            continue
        if what not in passed_over and is_wrong(path) and not any(is_noticed(one.message) for one in findings):
            unseen.append(what)
    assert broken == []
    assert unseen == []


# -- other objects in the place of an index --


def put_empty(home: Any, name: str) -> Any:
    return home.create_dataset(name, data=h5py.Empty("u1"))


def put_scalar(home: Any, name: str) -> Any:
    return home.create_dataset(name, data=3)


def put_cube(home: Any, name: str) -> Any:
    return home.create_dataset(name, data=np.zeros((2, 2, 2), "u1"))


def put_lists(home: Any, name: str) -> Any:
    return home.create_dataset(name, shape=(3,), dtype=h5py.vlen_dtype("u1"))


def put_references(home: Any, name: str) -> Any:
    return home.create_dataset(name, shape=(SMALL,), dtype=h5py.ref_dtype)


def put_huge(home: Any, name: str) -> Any:
    return home.create_dataset(name, shape=(3, 2**40), chunks=(1, 1024), dtype="u1")


def put_wrong_length(home: Any, name: str) -> Any:
    return home.create_dataset(name, data=np.zeros(SMALL + 1, "u4"))


def put_signed(home: Any, name: str) -> Any:
    return home.create_dataset(name, data=np.zeros(SMALL, "i4"))


def put_zeros(home: Any, name: str) -> Any:
    return home.create_dataset(name, data=np.zeros(SMALL, "u4"))


def put_group(home: Any, name: str) -> Any:
    return home.create_group(name)


def put_type(home: Any, name: str) -> Any:
    home[name] = np.dtype("i4")
    return home[name]


PUT = {name.removeprefix("put_"): value for name, value in globals().items() if name.startswith("put_")}


def put_in_place(path: Path, kind: str, make: Callable[[Any, str], Any]) -> None:
    """Another object of the same name and attributes, references both ways as they were."""
    with h5py.File(path, "r+") as h5:
        home, name = h5[HOME], f"x__{kind}"
        kept = {key: (value, home[name].attrs.get_id(key).dtype) for key, value in home[name].attrs.items()}
        names = [h5[reference].name for reference in h5["t/x"].attrs["_search_indexes"]]
        del home[name]
        made = make(home, name)
        for key, (value, dtype) in kept.items():
            made.attrs.create(key, value, dtype=dtype)
        references = np.array([h5[one].ref for one in names], dtype=h5py.ref_dtype)
        h5["t/x"].attrs.create("_search_indexes", references, dtype=h5py.ref_dtype)


@pytest.mark.parametrize("put", PUT.values(), ids=PUT)
@pytest.mark.parametrize("kind", KINDS)
def test_another_object_in_the_place_of_an_index(path: Path, kind: str, put: Callable[[Any, str], Any]) -> None:
    """Queries pass it over, verify names it, changes clear it away or leave it; none of them breaks."""
    predicates = SMALL_COLUMNS["numbers"][1]
    make_small(path, "numbers", kind)
    wanted = answers(path, predicates, trust="never")
    put_in_place(path, kind, put)
    assert answers(path, predicates) == wanted
    answers(path, predicates, trust="always")
    with cn.open(path, "r+") as file:
        table = file["t"]
        if put not in (put_group, put_type):
            assert [one.rule for one in table.verify_indexes()] == ["S8"] * len(table.verify_indexes())
        table.append({"x": [7.0]})
        table.update("x", [3], [8.0])
        table.truncate(9)
        table.build_index("x", kind)
        assert [one.trusted for one in table.indexes if one.name != f"x__{kind}"] in ([], [True])
        assert count(table, "x == 8") == [1]
        table.drop_column("x")


# -- references --


def refer_nowhere(h5: h5py.File, index: Any) -> None:
    index.attrs.create("_columns_list", np.array([h5py.Reference()], h5py.ref_dtype), dtype=h5py.ref_dtype)


def refer_to_another_column(h5: h5py.File, index: Any) -> None:
    index.attrs.create("_columns_list", np.array([h5["t/y"].ref], h5py.ref_dtype), dtype=h5py.ref_dtype)


def refer_to_another_column_both_ways(h5: h5py.File, index: Any) -> None:
    refer_to_another_column(h5, index)
    h5["t/y"].attrs["_search_indexes"] = h5["t/x"].attrs["_search_indexes"]
    del h5["t/x"].attrs["_search_indexes"]


def refer_to_two_columns(h5: h5py.File, index: Any) -> None:
    both = np.array([h5["t/x"].ref, h5["t/y"].ref], h5py.ref_dtype)
    index.attrs.create("_columns_list", both, dtype=h5py.ref_dtype)


def refer_to_the_group(h5: h5py.File, index: Any) -> None:
    index.attrs.create("_columns_list", np.array([h5["t"].ref], h5py.ref_dtype), dtype=h5py.ref_dtype)


def refer_to_itself(h5: h5py.File, index: Any) -> None:
    index.attrs.create("_columns_list", np.array([index.ref], h5py.ref_dtype), dtype=h5py.ref_dtype)


def refer_by_number(h5: h5py.File, index: Any) -> None:
    index.attrs["_columns_list"] = np.array([3])


def refer_not_at_all(h5: h5py.File, index: Any) -> None:
    del index.attrs["_columns_list"]


def refer_back_not(h5: h5py.File, index: Any) -> None:
    del h5["t/x"].attrs["_search_indexes"]


def swap_names(h5: h5py.File, index: Any) -> None:
    h5.move("t/x", "t/z")
    h5.move("t/y", "t/x")
    h5.move("t/z", "t/y")


REFER = [value for name, value in globals().items() if name.startswith(("refer_", "swap_"))]


@pytest.mark.parametrize("change", REFER)
@pytest.mark.parametrize("kind", KINDS)
def test_references_that_lead_astray(
    cache: Path, path: Path, kind: str, change: Callable[[h5py.File, Any], None]
) -> None:
    """An index is one of the column that both sides name, or of none; the state is forged here as well."""
    columns = {name: cn.column(chunk_rows=10) for name in "xy"}
    data = {"x": values(), "y": values()[::-1].copy()}
    cn.write(path, data, "t", columns=columns, index={"x": kind})
    with h5py.File(path, "r+") as h5:
        change(h5, h5[f"{HOME}/x__{kind}"])
    forge(cache, path)
    asked = [f"{name} {sign} {value}" for name in "xy" for sign in ("==", ">", "<") for value in (1, 5, 99)]
    assert answers(path, asked) == answers(path, asked, trust="never")
    answers(path, asked, trust="always")
    with cn.open(path, "r+") as file:
        assert file["t"].verify_indexes() is not None
        file["t"].append({"x": [1], "y": [2]})
        assert count(file["t"], "y == 2") == [int((values() == 2).sum()) + 1]


def test_two_indexes_in_each_others_place(cache: Path, path: Path) -> None:
    """Contents swapped between two columns, names and references as they were."""
    columns = {name: cn.column(chunk_rows=10) for name in "xy"}
    data = {"x": values(), "y": values()[::-1].copy()}
    cn.write(path, data, "t", columns=columns, index={"x": list(KINDS), "y": list(KINDS)})
    with h5py.File(path, "r+") as h5:
        for kind in KINDS:
            one, other = h5[f"{HOME}/x__{kind}"], h5[f"{HOME}/y__{kind}"]
            one[...], other[...] = other[...], one[...]
    forge(cache, path)
    asked = [f"{name} == {value}" for name in "xy" for value in range(1, 102, 10)]
    assert answers(path, asked) == answers(path, asked, trust="never")


def test_values_that_look_alike_when_joined(cache: Path, path: Path) -> None:
    """Two lists of byte strings that are the same when written one after another are not the same values."""
    data = pa.table({"x": pa.array([b"a\0b", b"c"] * 10, pa.binary())})
    cn.write(path, data, "t", index={"x": "bitmap"})
    with h5py.File(path, "r+") as h5:
        listed = h5[f"{HOME}/x__bitmap__values"]
        for place, value in enumerate((b"a", b"b\0c")):
            listed[place] = np.frombuffer(value, dtype="V1")
    forge(cache, path)
    with cn.open(path) as file:
        assert count(file["t"], "x == x'610062'", "x == x'61'") == [10, 0]


# -- changes to a table whose indexes are not right --


def out_of_range(h5: h5py.File) -> None:
    h5[f"{HOME}/x__sorted_rows"][3] = 10**9


def all_the_same(h5: h5py.File) -> None:
    h5[f"{HOME}/x__sorted_rows"][:] = 1


def long_tail(h5: h5py.File) -> None:
    h5[f"{HOME}/x__sorted_rows"].attrs.modify("fill_tail_length", np.uint64(N_ROWS))


def all_bits(h5: h5py.File) -> None:
    h5[f"{HOME}/x__bitmap"][:] = 255


def one_value(h5: h5py.File) -> None:
    h5[f"{HOME}/x__bitmap__values"][:] = 7


def no_bits(h5: h5py.File) -> None:
    h5[f"{HOME}/x__chunk_bloom"][:] = 0


def many_hashes(h5: h5py.File) -> None:
    h5[f"{HOME}/x__chunk_bloom"].attrs.modify("k", np.uint16(1024))


def wild_counts(h5: h5py.File) -> None:
    node = h5[f"{HOME}/x__chunk_minmax"]
    entries = node[:]
    entries["n"], entries["nan_count"], entries["min"] = 2**64 - 1, 2**63, 2**62
    node[:] = entries


SPOIL = [out_of_range, all_the_same, long_tail, all_bits, one_value, no_bits, many_hashes, wild_counts]


def change_append(table: Any) -> None:
    table.append({"x": [5, 7], "y": [0, 0]})


def change_update(table: Any) -> None:
    table.update("x", [3, 150], [5, 7])


def change_truncate(table: Any) -> None:
    table.truncate(100)


@pytest.mark.parametrize("change", [change_append, change_update, change_truncate])
@pytest.mark.parametrize("spoil", SPOIL)
def test_a_change_of_a_table_with_a_wrong_index(
    path: Path, spoil: Callable[[h5py.File], None], change: Callable[[Any], None]
) -> None:
    """It is carried on or thrown away; the change is made, and the answers are right."""
    make(path)
    with h5py.File(path, "r+") as h5:
        spoil(h5)
    with cn.open(path, "r+") as file:
        change(file["t"])
    assert believed(path) == truth(path)
    believed(path, trust="always")
    with cn.open(path) as file:
        file["t"].verify_indexes()
    assert believed(path) == truth(path)


def test_a_verification_is_seen_by_every_table_object(cache: Path, path: Path) -> None:
    """Two objects of one table share the file: what one has verified, queries of the other believe."""
    cn.write(
        path, {"x": np.arange(1000)}, table="t", columns={"x": cn.column(chunk_rows=10)}, index={"x": "chunk_minmax"}
    )
    receipt_file(cache, path).unlink()
    with cn.open(path) as file:
        one, other = file["t"], file["t"]
        assert not one.where("x == 5").explain().indexes_used
        assert not other.verify_indexes()
        assert one.where("x == 5").explain().indexes_used
