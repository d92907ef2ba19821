"""Files that lead out of themselves: not outside their own folder, unless that is wished; and cycles, which end."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5o

import colonnade as cn
from colonnade.errors import ColonnadeError, CorruptError, UnsupportedError, UsageError
from colonnade.h5 import outside

N_ROWS = 8


def start_table(file: Any, name: str = "t") -> Any:
    group = file.create_group(name)
    group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_(b"COLUMN_TABLE"), np.bytes_(b"1.0")
    return group


def secret_beside(folder: Path) -> Path:
    """A file outside the folder `in`, which is made."""
    (folder / "in").mkdir()
    secret = folder / "secret.raw"
    secret.write_bytes(b"SECRET__")
    return secret


def external(path: Path, target: str) -> Path:
    """The name is put into the finished file: h5py never writes one that names a file of the machine."""
    stand_in = "@" * len(target)
    with h5py.File(path, "w") as file:
        start_table(file).create_dataset("x", (N_ROWS,), "i1", external=[(stand_in, 0, N_ROWS)])
    data = path.read_bytes()
    assert data.count(stand_in.encode()) == 1
    path.write_bytes(data.replace(stand_in.encode(), target.encode()))
    return path


def virtual(path: Path, target: str, source: str = "data", n_rows: int = N_ROWS) -> Path:
    layout = h5py.VirtualLayout((n_rows,), "i1")
    layout[:N_ROWS] = h5py.VirtualSource(target, source, (N_ROWS,))
    with h5py.File(path, "w") as file:
        start_table(file).create_virtual_dataset("x", layout)
    return path


@pytest.mark.parametrize("target", ["/etc/passwd", "../secret.raw", "sub/../../secret.raw", "link.raw"])
def test_external_storage_outside_is_neither_read_nor_written(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = secret_beside(tmp_path)
    (tmp_path / "in" / "link.raw").symlink_to(secret)
    monkeypatch.chdir(tmp_path / "in")
    path = external(tmp_path / "in" / "t.h5", target)
    with cn.open(path) as file:
        table = file["t"]
        for read in (table.to_arrow, table["x"].to_numpy, lambda: table.where("x > 0").count(), table.head(1).to_numpy):
            with pytest.raises(UnsupportedError, match="links='any'") as caught:
                read()
        assert caught.value.target == target and caught.value.path == "/t/x"
    if target != "/etc/passwd":
        with cn.open(path, "r+") as file, pytest.raises(ColonnadeError):
            file["t"].update("x", rows=[0], values=[7])
    assert secret.read_bytes() == b"SECRET__"


def test_external_storage_in_the_folder_is_read_and_everything_is_if_wished(tmp_path: Path) -> None:
    secret = secret_beside(tmp_path)
    inside = tmp_path / "in" / "rows.raw"
    inside.write_bytes(bytes(range(N_ROWS)))
    path = external(tmp_path / "in" / "good.h5", str(inside))
    assert cn.read(path)["x"].to_pylist() == list(range(N_ROWS))
    with cn.open(path, links="none") as file, pytest.raises(UnsupportedError, match="links='none'"):
        file["t"].to_arrow()
    path = external(tmp_path / "in" / "bad.h5", str(secret))
    assert bytes(cn.read(path, links="any")["x"].to_pylist()) == b"SECRET__"
    with pytest.raises(UsageError, match="links must be"):
        cn.open(path, links="all")  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["../other.h5", "absolute", "/etc/passwd"])
def test_virtual_sources_outside_are_not_read(tmp_path: Path, target: str) -> None:
    (tmp_path / "in").mkdir()
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["data"] = np.arange(N_ROWS, dtype="i1")
    path = virtual(tmp_path / "in" / "t.h5", str(tmp_path / "other.h5") if target == "absolute" else target)
    with pytest.raises(UnsupportedError, match="virtual source"):
        cn.read(path)
    if target == "absolute":
        assert cn.read(path, links="any")["x"].to_pylist() == list(range(N_ROWS))


def test_a_source_in_the_folder_may_not_lead_out_of_it_either(tmp_path: Path) -> None:
    """A virtual dataset of a file beside it, whose rows are raw storage outside."""
    secret = secret_beside(tmp_path)
    external(tmp_path / "in" / "middle.h5", str(secret))
    path = virtual(tmp_path / "in" / "t.h5", "middle.h5", "/t/x")
    with pytest.raises(UnsupportedError, match="external storage"):
        cn.read(path)


def test_a_virtual_dataset_of_itself_ends(tmp_path: Path) -> None:
    """HDF5 2.0 dies of this."""
    with pytest.raises(CorruptError, match="leads back to itself"):
        cn.read(virtual(tmp_path / "t.h5", ".", "/t/x"))
    virtual(tmp_path / "a.h5", "b.h5", "/t/x")
    virtual(tmp_path / "b.h5", "a.h5", "/t/x")
    with pytest.raises(CorruptError, match="leads back to itself"):
        cn.read(tmp_path / "a.h5")


def test_external_links_lead_only_to_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    for place in ("other.h5", "in/sub/other.h5"):
        cn.write(tmp_path / place, {"x": [1, 2]}, table="t")
    path = tmp_path / "in" / "t.h5"
    with h5py.File(path, "w") as file:
        file["inside"] = h5py.ExternalLink("sub/other.h5", "/t")
        file["outside"] = h5py.ExternalLink("../other.h5", "/t")
        file["soft"] = h5py.SoftLink("/outside")
        file["passwords"] = h5py.ExternalLink("/etc/passwd", "/")
        file["gone"] = h5py.ExternalLink("no.h5", "/t")
    with cn.open(path) as file:
        assert file.tables() == []
        assert file["inside"]["x"].to_numpy().tolist() == [1, 2]
        for name in ("outside", "soft", "passwords", "passwords/x"):
            with pytest.raises(UnsupportedError, match="links='any'"):
                file[name]
        with pytest.raises(cn.errors.TableNotFound):
            file["gone"]
    with cn.open(path, links="any") as file:
        assert file["outside"]["x"].to_numpy().tolist() == [1, 2]
    with cn.open(path, links="none") as file, pytest.raises(UnsupportedError):
        file["inside"]
    with cn.open(path, "r+") as file, pytest.raises(UnsupportedError):
        file["inside"]


def test_a_link_is_not_followed_where_the_question_itself_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ctypes prints an exception of a callback and returns 0, which means yes."""
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as h5:
        h5["x"] = [1]
    folder = tmp_path / "folder"
    folder.mkdir()
    with h5py.File(folder / "a.h5", "w") as h5:
        h5["out"] = h5py.ExternalLink("../secret.h5", "/x")

    def fail(*_arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr(outside, "first_place", fail)
    with cn.open(folder / "a.h5") as file, pytest.raises((KeyError, OSError)):
        h5o.open(file.h5.id, b"out", outside.access_by("folder"))


def test_a_file_object_has_no_folder(tmp_path: Path) -> None:
    inside = tmp_path / "rows.raw"
    inside.write_bytes(bytes(N_ROWS))
    path = external(tmp_path / "t.h5", str(inside))
    with path.open("rb") as stream, cn.open(stream) as file, pytest.raises(UnsupportedError):
        file["t"].to_arrow()


def test_cycles_of_links_end(tmp_path: Path) -> None:
    """Hard links round and round, soft links to each other, references to what refers back."""
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        group = start_table(file)
        group["x"] = np.arange(3)
        group["loop"], file["up"] = group, file["/"]
        group["a"], group["b"] = h5py.SoftLink("/t/b"), h5py.SoftLink("/t/a")
        group["self"] = h5py.SoftLink("/t/self")
        codes = group.create_dataset("codes", data=np.zeros(3, "i1"))
        codes.attrs.create("_categories", codes.ref, dtype=h5py.ref_dtype)
        codes.attrs.create("_indexes", [codes.ref, group.ref, file["/"].ref], dtype=h5py.ref_dtype)
        back = group.create_dataset("back", (3,), h5py.ref_dtype)
        back[0] = back.ref
    with cn.open(path) as file:
        assert file.tables() == ["/t"]
        assert file["t/loop/loop/loop"]["x"].to_numpy().tolist() == [0, 1, 2]
        assert len(list(file["t"][:].dereference("back"))) == 3
        for name in file["t"].columns:
            try:
                file["t"][name].to_arrow()
            except ColonnadeError:
                continue
        for name in ("t/a", "t/self"):
            with pytest.raises(cn.errors.TableNotFound):
                file[name]


HUGE = """
import resource, sys, colonnade as cn
from pathlib import Path
from colonnade.errors import ColonnadeError
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
def limit_memory(above):
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    used = int(fields["VmData"].split()[0]) * 1024 + above
    resource.setrlimit(resource.RLIMIT_DATA, (used, used))
path = sys.argv[1]
with cn.open(path) as file:
    table = file["t"]
    assert len(table) == 2**60 and table.info.columns
    table.head(2).to_arrow(), str(table), str(table.where("x == 1").explain())
    limit_memory(300 << 20)
    before = peak()
    for column in ("x", "text", "code"):
        reader = table.select(column)
        next(iter(reader.batches(rows=1000))), reader[2**59 : 2**59 + 5].to_arrow(), table[column][-1]
        reader.take([2**60 - 1, 0, 2**40]).to_arrow()
        for whole in (reader.to_arrow, reader.to_pandas, reader.to_numpy, table[column].to_numpy):
            try:
                whole()
            except ColonnadeError as error:
                assert "rows" in str(error), error
            else:
                raise SystemExit(f"{column} was read whole")
    assert table.indexes == [] and table.verify_indexes() == []
    print((peak() - before) >> 20)
"""


def test_a_table_that_claims_2_to_the_60_rows_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        group = start_table(file)
        for name, kind in (("x", "i8"), ("text", h5py.string_dtype()), ("code", "i1")):
            group.create_dataset(name, (2**60,), kind, chunks=(1000,), maxshape=(None,))
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run(
        [sys.executable, "-c", HUGE, str(path)], capture_output=True, text=True, cwd=root, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 200


def test_claimed_categories_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        group = start_table(file)
        group["code"] = np.zeros(3, "i1")
        group.create_dataset("kinds", (2**58,), "S4", chunks=(1000,), maxshape=(None,))
        group["code"].attrs.create("_categories", group["kinds"].ref, dtype=h5py.ref_dtype)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with cn.open(path) as file, pytest.raises(UnsupportedError, match="categories, of which 0 were written"):
        file["t"].to_arrow()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_reference_to_a_huge_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        group = start_table(file)
        huge = file.create_dataset("huge", (2**40, 2**15), "f8", chunks=(10, 10))
        group.create_dataset("ref", (2,), h5py.ref_dtype)[0] = huge.ref
        group.create_dataset("part", (2,), h5py.regionref_dtype)[0] = huge.regionref[: 2**39, :]
    with cn.open(path) as file:
        for name in ("ref", "part"):
            with pytest.raises(UnsupportedError, match="more than can be read at once"):
                list(file["t"][:1].dereference(name))


def test_nothing_loads_a_pickle() -> None:
    source = Path(cn.__file__).parent
    texts = {path.name: path.read_text() for path in source.rglob("*.py")}
    assert len(texts) > 50
    for name, text in texts.items():
        for word in ("pickle.load", "allow_pickle", "np.load(", "numpy.load(", "import pickle", "shelve", "marshal"):
            assert word not in text, (name, word)
