"""A file repacked holds everything it held, in less space, under the same name, and changes go on after it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from h5py import h5f, h5o, h5t

import colonnade as cn
from tests.faults.states import objects_state, tables_state, whole_state

N_ROWS = 1000


def make_everything(path: Path) -> None:
    """Every kind of object, link and reference that HDF5 has, beside two tables."""
    with h5py.File(path, "w", userblock_size=512, libver=("earliest", "latest")) as h5:
        h5["type"] = np.dtype([("a", "i4"), ("b", "f8")])
        h5.create_dataset("typed", data=np.zeros(5, h5["type"].dtype), dtype=h5["type"])
        h5.attrs.create("typed", np.zeros((), h5["type"].dtype), dtype=h5["type"])
        ordered = h5.create_group("ordered", track_order=True)
        ordered["z"], ordered["a"] = np.arange(10), np.arange(5)
        ordered.attrs["z"], ordered.attrs["a"] = 1, 2
        h5["again"] = ordered["z"]
        h5["loop/up"], ordered["root"] = ordered, h5["/"]
        h5["soft"], h5["nowhere"] = h5py.SoftLink("/ordered/z"), h5py.SoftLink("/not/there")
        h5["elsewhere"] = h5py.ExternalLink("other.h5", "/x")
        h5["scale"] = np.arange(10.0)
        h5["scale"].make_scale("length")
        ordered["z"].dims[0].attach_scale(h5["scale"])
        put_references(h5)
        put_odd_storage(h5)
        h5["Größe/✓"] = np.arange(3)
        h5["Größe"].attrs["naïve"] = "é"
    with path.open("r+b") as file:
        file.write(b"hello user block".ljust(512, b"."))
    cn.write(path, table(), "events", labels=["id"], title="Before")
    cn.write(path, table().slice(0, 0), "deep/empty")


def put_references(h5: h5py.File) -> None:
    """References at the top of an element and inside compounds, arrays and sequences, in datasets and attributes."""
    targets = [h5["ordered/z"].ref, h5["typed"].ref, h5["type"].ref, h5["ordered"].ref, h5["/"].ref, h5py.Reference()]
    h5.create_dataset("refs", data=np.array(targets * 2, dtype=object).reshape(4, 3), dtype=h5py.ref_dtype)
    h5.create_dataset("regions", data=np.array([h5["ordered/z"].regionref[2:5]], object), dtype=h5py.regionref_dtype)
    kind = np.dtype([("n", "i4"), ("to", h5py.ref_dtype), ("part", h5py.regionref_dtype)])
    h5.create_dataset("compound", shape=(2,), dtype=kind)
    h5["compound"][0] = (7, h5["scale"].ref, h5["scale"].regionref[1:3])
    h5.create_dataset("lists", shape=(2,), dtype=h5py.vlen_dtype(h5py.ref_dtype))
    h5["lists"][0] = np.array(targets[:2], dtype=object)
    h5.attrs["to"] = h5["ordered/a"].ref
    h5["typed"].attrs["part"] = h5["ordered/z"].regionref[1:3]
    h5["ordered"].attrs.create("many", np.array(targets[:3], object), dtype=h5py.ref_dtype)


def put_odd_storage(h5: h5py.File) -> None:
    """Storage of every class, and elements of odd types."""
    h5.create_dataset("external", data=np.arange(10, dtype="i4"), external=[(f"{h5.filename}.raw", 0, 40)])
    layout = h5py.VirtualLayout((10,), "i8")
    layout[:] = h5py.VirtualSource(".", "/ordered/z", (10,))
    h5.create_virtual_dataset("virtual", layout)
    h5["empty"], h5["scalar"] = h5py.Empty("f4"), 3
    h5.create_dataset("texts", data=["a", "bb", ""], dtype=h5py.string_dtype())
    h5.create_dataset(
        "filled", shape=(50, 4), chunks=(10, 4), maxshape=(None, 4), dtype="i4", fillvalue=-9, compression="gzip"
    )
    h5["filled"][20:30] = 5
    h5["empty"].attrs["null"] = h5py.Empty("i2")
    tagged = h5t.create(h5t.OPAQUE, 4)
    tagged.set_tag(b"four bytes")
    h5t.TypeID.commit(tagged, h5.id, b"opaque")


def table(n_rows: int = N_ROWS) -> pa.Table:
    kinds = pa.array(["muon", "pion", None, "tau"] * (n_rows // 4))
    return pa.table(
        {"x": np.arange(n_rows) * 0.5, "s": [f"s{i}" for i in range(n_rows)], "k": kinds.dictionary_encode(),
         "id": np.arange(n_rows)}
    )  # fmt: skip


def free_space(path: Path) -> None:
    """Leave a hole of a megabyte in the middle of the file."""
    with h5py.File(path, "r+") as h5:
        h5["hole"] = np.random.default_rng(1).random(131_072)
        h5.flush()
        h5["behind"] = np.arange(10)
    with h5py.File(path, "r+") as h5:
        del h5["hole"]


def test_everything_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    make_everything(path)
    free_space(path)
    path.chmod(0o640)
    before = whole_state(path)
    with cn.open(path, "r+") as file:
        was, now = file.repack()
    assert was - now > 1_000_000
    assert now == path.stat().st_size
    assert whole_state(path) == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_bytes()[:16] == b"hello user block"
    assert [item.name for item in tmp_path.iterdir() if item.suffix in (".part", ".h5-journal", ".h5-lock")] == []
    check_links(path)


def check_links(path: Path) -> None:
    """What `whole_state` does not see: links, sharing, order and selections."""
    with h5py.File(path) as h5:
        assert h5["again"] == h5["ordered/z"] and h5["ordered/root"] == h5["/"] and h5["loop/up"] == h5["ordered"]
        assert h5.get("soft", getlink=True).path == "/ordered/z"
        assert h5.get("nowhere", getlink=True).path == "/not/there"
        link = h5.get("elsewhere", getlink=True)
        assert (link.filename, link.path) == ("other.h5", "/x")
        assert list(h5["ordered"]) == ["z", "a", "root"]
        assert h5["typed"].id.get_type().committed() and h5.attrs.get_id("typed").get_type().committed()
        assert h5o.get_info(h5["type"].id).rc == 3
        assert h5["ordered/z"][h5["regions"][0]].tolist() == [2, 3, 4]
        assert h5["scale"][h5["compound"][0]["part"]].tolist() == [1, 2]
        assert h5["ordered/z"][h5["typed"].attrs["part"]].tolist() == [1, 2]
        assert [h5[to].name for to in h5["lists"][0]] == [h5[to].name for to in h5["refs"][0, :2]]
        assert h5["ordered/z"].dims[0]["length"] == h5["scale"]
        assert h5["external"].external == [(f"{path}.raw", 0, 40)]
        assert h5["filled"].id.get_num_chunks() == 1


def test_columns_stored_another_way(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    make_everything(path)
    before = tables_state(path)
    with cn.open(path, "r+") as file:
        file.repack(chunk_rows=100, filters="shuffle+deflate:9")
        assert {c.chunk_rows for c in file["events"].info.members} == {100}
        assert {file["events"][name].filters for name in "xsk"} == {"shuffle+deflate:9"}
        assert file["events"].problems == ()
        file.repack(chunk_rows="auto", filters="auto")
        assert file["events"]["x"].chunk_rows == N_ROWS
        assert file["events"]["x"].filters == "shuffle+deflate:1" or "deflate" in str(file["events"]["x"].filters)
    for name, state in tables_state(path).items():
        assert state["values"] == before[name]["values"]
        assert state["schema"] == before[name]["schema"]
        assert state["attrs"] == before[name]["attrs"]


def test_changes_and_readers_go_on(tmp_path: Path) -> None:
    """The file handle, tables of it, and readers elsewhere see the repacked file, and what is changed in it later."""
    path = tmp_path / "x.h5"
    cn.write(path, table(), "t")
    reader = cn.open(path)
    read = reader["t"]
    with cn.open(path, "r+") as file:
        changed = file["t"]
        changed.drop_column("s")
        file.repack()
        assert read.columns == ["x", "k", "id"]
        changed.append({"x": [1.5], "k": ["muon"], "id": [-1]})
        assert len(read) == N_ROWS + 1
    assert read.to_arrow().column("id")[-1].as_py() == -1
    reader.close()


def test_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, table(), "t")
    with cn.open(path) as file, pytest.raises(cn.errors.ConflictError, match="r\\+"):
        file.repack()
    with cn.open(path, "r+") as file:
        for wrong in ({"chunk_rows": 0}, {"chunk_rows": "many"}, {"filters": "no such"}):
            with pytest.raises(cn.errors.UsageError):
                file.repack(**wrong)
        with file.transaction(), pytest.raises(cn.errors.UsageError, match="transaction"):
            file.repack()
    with h5py.File(path, "r+") as h5, pytest.raises(cn.errors.UsageError, match="path"):
        cn.open(h5, "r+").repack()


def test_what_cannot_be_copied_is_named_and_nothing_changes(tmp_path: Path) -> None:
    """A dataset whose header this HDF5 cannot read: the file stays as it is."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as h5:
        h5["good"] = 1
        h5["bad"] = np.arange(3)
        where = h5o.get_info(h5["bad"].id).addr
    content = bytearray(path.read_bytes())
    content[where] = 9
    path.write_bytes(content)
    with cn.open(path, "r+") as file, pytest.raises(cn.errors.UnsupportedError, match="/bad"):
        file.repack()
    assert path.read_bytes() == content
    assert [item.name for item in tmp_path.iterdir()] == ["x.h5"]


def test_space_is_used_again(tmp_path: Path) -> None:
    """Columns dropped and replaced leave room for those that come later while the file is open."""
    path = tmp_path / "x.h5"
    rng = np.random.default_rng(1)
    cn.write(path, {"a": rng.random(100_000), "b": np.arange(100_000)}, "t")
    with cn.open(path, "r+") as file:
        sizes = []
        for _ in range(6):
            file["t"].replace_column("a", rng.random(100_000))
            file["t"].add_column("c", rng.random(100_000))
            file["t"].drop_column("c")
            sizes.append(path.stat().st_size)
    assert max(sizes[1:]) - sizes[0] < 100_000
    with cn.open(path, "r+") as file:
        _, packed = file.repack()
    assert packed < 1_200_000


@pytest.mark.parametrize("where", ["file object", "group"])
def test_other_targets(tmp_path: Path, where: str) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, table(), "t")
    opened: Any = path.open("r+b") if where == "file object" else h5py.File(path, "r+")
    with opened, pytest.raises(cn.errors.UsageError):
        cn.open(opened if where == "file object" else opened["t"], "r+").repack()


def test_bounds_of_the_file_format_stay(tmp_path: Path) -> None:
    """A file that the oldest HDF5 can read is still one."""
    path = tmp_path / "x.h5"
    cn.write(path, table(), "t")
    old = path.read_bytes()[8]
    with cn.open(path, "r+") as file:
        file.repack()
    assert path.read_bytes()[8] == old == 0
    assert h5f.is_hdf5(str(path).encode())  # type: ignore[attr-defined]
    assert objects_state(path)
