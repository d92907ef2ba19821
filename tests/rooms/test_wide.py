"""Tables of many columns: cost must not grow with columns that are not touched."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from h5py import h5a, h5f

import colonnade as cn
from colonnade import limits
from colonnade.format import attributes as stored_attributes
from colonnade.format import source as known
from colonnade.format.source import Fields
from colonnade.h5 import datasets
from colonnade.h5.handles import LibraryDataset, LibraryGroup
from colonnade.layouts import Layout, layout_of
from colonnade.model import DatasetInfo, LazyColumns, TableInfo
from colonnade.nodes.paths import walk_groups
from colonnade.reader.datasets import ReadDataset
from colonnade.reader.nodes import ReadGroup

KITS = Path(__file__).parent.parent / "conformance"
FILES = sorted((KITS / "files").glob("*.h5"))
FRAMES = ["anndata", "artifactdb"]
FRAME_FILES = sorted(path for layout in FRAMES for path in (KITS / layout / "files").rglob("*.h5*"))
ROWS = 600  # enough for filters to be tried


def columns(n_columns: int) -> dict[str, Any]:
    rng = np.random.default_rng(n_columns)
    made: dict[str, Any] = {}
    for number in range(n_columns):
        name = f"c{number:05d}"
        if number % 4 == 0:
            made[name] = rng.integers(0, 1000, ROWS)
        elif number % 4 == 1:
            made[name] = rng.normal(size=ROWS)
        elif number % 4 == 2:
            made[name] = rng.choice(["muon", "pion", "kaon"], ROWS)
        else:
            made[name] = [f"row {number} {row}" for row in range(ROWS)]
    return made


def n_calls(work: Any) -> int:
    """How many functions are called, in Python or C, while `work` runs in this thread."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_write_opens_one_file_whatever_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing a file looks at every open id of the process: a scratch file per column made writing quadratic."""
    made: list[Any] = []
    create = h5f.create
    monkeypatch.setattr(h5f, "create", lambda *args, **named: (made.append(args[0]), create(*args, **named))[1])
    cn.write(tmp_path / "wide.h5", columns(40), table="t")
    assert len(made) <= 1


def test_writing_costs_in_proportion_to_columns(tmp_path: Path) -> None:
    cn.write(tmp_path / "first.h5", columns(4), table="t")  # imports what is needed
    counts = []
    for n_columns in (40, 160):
        data = columns(n_columns)
        counts.append(n_calls(lambda data=data, n=n_columns: cn.write(tmp_path / f"{n}.h5", data, table="t")))
    assert counts[1] < 4.5 * counts[0]


@pytest.mark.parametrize("filters", [None, "shuffle+deflate"])
def test_two_threads_write_two_files(tmp_path: Path, filters: str | None) -> None:
    """Filters were tried in a scratch file of a fixed name, which one thread at a time can have open."""
    together = Barrier(2)
    data = columns(8)

    def write(name: str) -> int:
        together.wait()
        for turn in range(10):
            path = tmp_path / f"{name}{turn}.h5"
            cn.write(path, data, table="t", columns={column: cn.column(filters=filters) for column in data})
        return cn.read(path, "t").num_rows

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(write, ("a", "b"))) == [ROWS, ROWS]


def test_references_are_written_while_another_thread_writes_some(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file, datasets._scratch_file():  # as the other thread has it open
        cn.write(file, {"r": [file.create_dataset("x", data=[1]).ref]}, table="t")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file[file["t/r"][0]].name == "/x"


def test_frames_that_are_kept_do_not_stop_the_next_write(tmp_path: Path) -> None:
    """A profiler that samples frames keeps what their locals hold open, an HDF5 dataset too."""
    kept: list[Any] = []

    def sample(frame: Any, _event: str, _argument: Any) -> None:
        if "colonnade" in frame.f_code.co_filename:
            kept.append(dict(frame.f_locals))

    with h5py.File(tmp_path / "arrays.h5", "w") as file:
        references = [file.create_dataset(f"a{number}", data=[number]).ref for number in range(3)]
        sys.setprofile(sample)
        try:
            for turn in range(2):
                cn.write(file, {"x": np.arange(ROWS)}, table=f"t{turn}")
                cn.write(file, {"r": references}, table=f"r{turn}")
        finally:
            sys.setprofile(None)
    assert kept
    assert cn.read(tmp_path / "arrays.h5", "t1").num_rows == ROWS


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_attributes_are_listed_in_one_pass(tmp_path: Path, libver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDF5 finds an attribute by its number from the first one on: listing them so was quadratic."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=libver) as file:
        cn.write(file, {"x": [1, 2]}, table="t")
        for number in range(300):
            file["t"].attrs[f"note {number}"] = number
    opened: list[Any] = []
    open_one = h5a.open

    def spy(*args: Any, **named: Any) -> Any:
        opened.append("index" in named)
        return open_one(*args, **named)

    monkeypatch.setattr(h5a, "open", spy)
    with cn.open(path, "r+") as opened_file:
        attrs = dict(opened_file["t"].attrs)
    assert {attrs[f"note {number}"] for number in range(300)} == set(range(300))
    assert opened and not any(opened)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_attributes_cost_in_proportion_to_their_number(
    tmp_path: Path, libver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is read from the list of all, or found in it: looking it up in the whole list was quadratic."""
    n_parsed = [0]
    parse = stored_attributes.decode_attribute

    def counted(fields: Fields) -> stored_attributes.AttributeMessage:
        n_parsed[0] += 1
        return parse(fields)

    monkeypatch.setattr(stored_attributes, "decode_attribute", counted)
    monkeypatch.setattr(known, "_MOST_BYTES", 0)  # count what is asked for, not what was decoded before
    costs = []
    for n_attributes in (300, 1200):
        path = tmp_path / f"{n_attributes}.h5"
        with h5py.File(path, "w", libver=libver) as file:
            cn.write(file, {"x": [1, 2]}, table="t")
            for number in range(n_attributes):
                file["t"].attrs[f"note {number}"] = number
        n_parsed[0] = 0
        with cn.open_table(path) as table:
            attrs = dict(table.attrs)
        assert {attrs[f"note {number}"] for number in range(n_attributes)} == set(range(n_attributes))
        costs.append(n_parsed[0])
    assert costs[1] < 5 * costs[0] < 10_000


class Described:
    """How many datasets were described."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n_datasets = 0
        for kind in (LibraryDataset, ReadDataset):
            monkeypatch.setattr(kind, "describe", self._counted(kind.describe))

    def _counted(self, describe: Callable[[Any], DatasetInfo]) -> Callable[[Any], DatasetInfo]:
        def counted(dataset: Any) -> DatasetInfo:
            self.n_datasets += 1
            return describe(dataset)

        return counted

    def of(self, work: Any) -> int:
        before = self.n_datasets
        work()
        return self.n_datasets - before


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wide") / "wide.h5"
    cn.write(path, {**columns(200), "id": np.arange(ROWS)}, table="t", labels=["id"], index={"c00000": "chunk_minmax"})
    return path


def test_one_column_of_many_describes_few(wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = Described(monkeypatch)

    def read() -> None:
        with cn.open(wide) as file:
            table = file["t"]
            assert len(table.columns) == 200
            assert table.labels == ["id"]
            assert len(table["c00005"][:]) == ROWS
            assert table.where("c00000 < 500 and c00002 == 'muon'").select("c00003").count() > 0
            assert "c00199" in table and "c00200" not in table
            assert "200 columns, 1 label" in repr(table)

    assert described.of(read) < 100


@pytest.mark.parametrize("layout", FRAMES)
def test_one_column_of_a_wide_frame_describes_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    """Every column of an AnnData or ArtifactDB frame was described when the frame was opened."""
    counts = []
    described = Described(monkeypatch)
    for n_columns in (96, 384):
        path = tmp_path / f"{n_columns}.h5"
        cn.write(path, {f"c{number}": [number, 2] for number in range(n_columns)}, table="t", layout=layout)

        def read(path: Path = path, n_columns: int = n_columns) -> None:
            with cn.open(path) as file:
                assert len(file["t"].columns) == n_columns
                assert file["t"].n_rows == 2
                assert file["t"]["c91"].to_arrow().to_pylist() == [91, 2]

        counts.append(described.of(read))
    assert counts[0] == counts[1] < 40


@pytest.mark.parametrize("layout", FRAMES)
def test_a_damaged_column_of_a_wide_frame_stays_a_column(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, {f"c{number}": [number, 2] for number in range(100)}, table="t", layout=layout)
    link = "/t/c42" if layout == "anndata" else "/t/data/42"
    with h5py.File(path, "r+") as file:
        del file[link]
        file[link] = np.zeros((2, 2))
    with cn.open(path) as file:
        table = file["t"]
        assert "c42" in table.columns and len(table.columns) == 100
        assert table["c43"].to_arrow().to_pylist() == [43, 2]
        with pytest.raises(cn.errors.FormatError, match="c42"):
            table["c42"].to_arrow()
        with pytest.raises(cn.errors.FormatError, match="c42"):
            table.to_arrow()
        assert [problem.path for problem in table.info.problems] == [link]


def test_tables_are_found_without_a_look_at_their_columns(wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To find the only table of a file, every column was looked at: most of the cost of reading one of 20,000."""
    looked_at: list[str] = []
    child = ReadGroup._child
    monkeypatch.setattr(ReadGroup, "_child", lambda group, link: (looked_at.append(link.name), child(group, link))[1])
    with cn.open(wide) as file:
        assert file.tables() == ["/t"]
    assert "t" in looked_at and len(looked_at) < 10


def test_the_pandas_form_of_a_wide_table_is_kept(tmp_path: Path) -> None:
    """The note of pandas was left out where columns are described one by one."""
    frame = pd.DataFrame({("a", number): [1.5, 2.5] for number in range(100)})
    frame.columns.names = ["letter", "number"]
    cn.write(tmp_path / "x.h5", frame, table="t")
    with cn.open(tmp_path / "x.h5") as file:
        pd.testing.assert_frame_equal(file["t"].to_pandas(), frame)


@pytest.mark.parametrize("change", ["update", "add", "rename", "drop"])
def test_a_change_of_one_column_describes_few(
    wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path = tmp_path / "changed.h5"
    path.write_bytes(wide.read_bytes())
    described = Described(monkeypatch)

    def work() -> None:
        with cn.open(path, "r+") as file:
            table = file["t"]
            if change == "update":
                table.update("c00000", rows=[3, 5], values=[7, None])
            elif change == "add":
                table.add_column("new", np.arange(ROWS))
            elif change == "rename":
                table.rename_column("c00000", "first")
            else:
                table.drop_column("c00001")

    assert described.of(work) < 120
    assert cn.check(path, deep=True) == []
    with cn.open(path) as file:
        names = {"add": ["new"], "rename": ["first"], "drop": []}.get(change, ["c00000"])
        assert set(names) <= set(file["t"].columns)
        assert ("c00001" in file["t"]) == (change != "drop")
        assert file["t"].to_arrow().num_rows == ROWS
    with h5py.File(path) as file:  # type: ignore[assignment]  # the label still lists every column, and each lists the label
        listed = {file[reference].name for reference in file["t/id"].attrs["_columns_list"]}  # type: ignore[attr-defined]
        order = [name.decode() if isinstance(name, bytes) else name for name in list(file["t"].attrs["column-order"])]
        assert listed == {f"/t/{name}" for name in order}
        assert all(file[file["t"][name].attrs["_indexes"][0]].name == "/t/id" for name in order)  # type: ignore[attr-defined]


def described_both_ways(group: Any, path: str, layout: Layout) -> tuple[TableInfo, TableInfo]:
    with limits.override(wide_columns=1 << 30):
        whole = layout.describe(group, path)
    with limits.override(wide_columns=1):
        return whole, layout.describe(group, path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_lazy_and_whole_descriptions_are_equal(path: Path) -> None:
    """Of every table of the kit, right or wrong, a column described alone is what it is among the others."""
    n_tables = 0
    with h5py.File(path) as file:
        for place, group in walk_groups(LibraryGroup.of(file["/"].id)):
            layout = layout_of(group)
            if layout is None or layout.name != "hep001":
                continue
            n_tables += 1
            try:
                whole, lazy = described_both_ways(group, place, layout)
            except cn.errors.UnsupportedError:
                continue
            for column in whole.members:
                assert lazy.by_name[column.name] == column
            if path.stem.endswith("good"):
                assert (lazy.column_names, lazy.label_names) == (tuple(whole.column_names), whole.label_names)
                assert lazy == whole
    assert n_tables or path.stem in ("T1-missing", "T1-number", "T1-other-letters", "T2-later-revision")


@pytest.mark.parametrize("path", FRAME_FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_lazy_and_whole_descriptions_of_frames_are_equal(path: Path) -> None:
    try:
        file = h5py.File(path)
    except OSError:
        return  # a case that is not an HDF5 file
    with file:
        for place, group in walk_groups(LibraryGroup.of(file["/"].id)):
            layout = layout_of(group)
            if layout is None or layout.name not in FRAMES:
                continue
            try:
                whole, lazy = described_both_ways(group, place, layout)
            except cn.errors.UnsupportedError:
                continue
            assert lazy == whole
            assert isinstance(lazy.columns, LazyColumns) or not whole.columns


def test_appends_without_indexes_write_no_receipts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table that lost its indexes, receipts were written again at each commit."""
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "x.h5"
    cn.write(path, {"x": [1, 2, 3]}, table="t", index={"x": "sorted_rows"})
    receipts = tmp_path / "cache" / "receipts"
    assert len(list(receipts.iterdir())) == 1
    with cn.open(path, "r+") as file:
        file["t"].drop_index("x")
        assert list(receipts.iterdir()) == []
        file["t"].append({"x": [4]})
        assert list(receipts.iterdir()) == []
