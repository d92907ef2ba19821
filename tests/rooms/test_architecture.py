"""The floors hold, the map in ARCHITECTURE.md is true, and importing the package stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tools import architecture

import colonnade as cn

TOO_LARGE: dict[str, int] = {}
TOO_DEEP: dict[str, int] = {"table": 7}  # with imports inside functions


class Page:
    """Stands for ARCHITECTURE.md."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read_text(self) -> str:
        return self._text


def test_a_room_imports_only_rooms_below() -> None:
    assert architecture.wrong_imports() == []


def test_every_file_has_a_room_with_a_floor() -> None:
    rooms = {architecture.room_of(path) for path in architecture.source_files()} - {"__init__"}
    listed = {room for _, rooms_there in architecture.FLOORS for room in rooms_there}
    assert rooms == listed


def test_the_map_is_true() -> None:
    assert architecture.PAGE.read_text() == architecture.page_text()


def test_dataclasses_are_the_quick_ones() -> None:
    """The standard ones take longer to be made, at every start, than a small question takes."""
    assert [
        path for path in architecture.source_files() if "dataclasses.dataclass" in architecture.imported(path)
    ] == []


def test_no_arrow_type_is_asked_for_its_pandas_dtype() -> None:
    """Arrow 21 to 25 imports pandas to answer, which may not be installed: number_dtype answers without."""
    asked = ".to_" + "pandas_dtype("
    assert [path for path in architecture.source_files() if asked in path.read_text()] == []


def test_a_wrong_import_is_seen(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: an import upward inside a function, and h5py outside h5, are both found."""
    planted = architecture.SOURCE / "model.py"
    real = architecture.imported
    monkeypatch.setattr(
        architecture,
        "imported",
        lambda path: ["colonnade.table", "h5py.h5d"] if path == planted else real(path),
    )
    found = architecture.wrong_imports()
    assert any("imports table" in line for line in found)
    assert any("imports h5py" in line for line in found)


def test_importing_colonnade_is_light() -> None:
    """`import colonnade` loads neither h5py nor pyarrow; using it loads no engine."""
    code = (
        "import sys, colonnade; a = {'h5py', 'pyarrow', 'numpy'} & set(sys.modules); colonnade.open; "
        "b = {'pandas', 'polars', 'duckdb', 'pyarrow.dataset', 'rich', 'click', 'hdf5plugin'} & set(sys.modules); "
        "print(sorted(a), sorted(b))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[] []"


def test_the_drawing_shows_every_floor_and_room() -> None:
    assert architecture.drawn_floors() == architecture.FLOORS


def test_a_room_that_is_missing_in_the_drawing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = architecture.PAGE.read_text().replace(" filters/ nodes/", " nodes/")
    monkeypatch.setattr(architecture, "PAGE", Page(drawn))
    assert architecture.drawn_floors() != architecture.FLOORS


def test_rooms_stay_small() -> None:
    """At most twenty files per room. Rooms that are larger still are named here, and may only shrink."""
    assert {room: n for room, n in architecture.room_sizes().items() if n > 20} == TOO_LARGE


def test_chains_of_modules_stay_short() -> None:
    """At most six modules deep inside a room. Rooms with longer chains are named here; they may only become shorter."""
    deep = {room: architecture.longest_chain(room) for room in architecture.room_sizes()}
    assert {room: n for room, n in deep.items() if n > 6} == TOO_DEEP


NAMES_A_LAYOUT = {"connect/anndata.py", "table/table.py"}  # the packages anndata and pandas, not the layouts


def test_nothing_above_the_layouts_names_one() -> None:
    """A layout is reached through the contract; its name is only a default of the public functions."""
    assert set(architecture.files_naming_layouts()) == NAMES_A_LAYOUT


def test_nothing_outside_indexes_names_a_kind() -> None:
    """An index is used through the contract of `indexes.base`; its kind is only data."""
    assert architecture.files_naming_index_kinds() == []


@pytest.mark.parametrize(
    "source",
    [
        "from colonnade.indexes.bitmap import BITMAP",
        "from colonnade.indexes import chunk_bloom",
        "def f(index): return isinstance(index, indexes.SortedRowsIndex)",
    ],
)
def test_a_named_kind_is_seen(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = architecture.SOURCE / "query" / "plan.py"
    real = architecture.parsed
    architecture.imported.cache_clear()
    monkeypatch.setattr(architecture, "parsed", lambda path: ast.parse(source) if path == planted else real(path))
    assert architecture.files_naming_index_kinds() == ["query/plan.py"]
    architecture.imported.cache_clear()


def test_opening_a_table_loads_no_module_that_only_queries_or_changes_need(tmp_path: Path) -> None:
    """Each module that `open` does not need costs every program its start."""
    code = (
        "import sys, colonnade as cn\n"
        "with cn.open(sys.argv[1]) as f: f['t'].columns, f['t'].n_rows\n"
        "print(*sorted({name.split('.')[1] for name in sys.modules if name.startswith('colonnade.')}))\n"
        "print(sum(name.startswith('colonnade') for name in sys.modules))"
    )
    cn.write(tmp_path / "a.h5", {"x": [1, 2, 3]}, "t")
    run = subprocess.run([sys.executable, "-c", code, tmp_path / "a.h5"], capture_output=True, text=True, check=True)
    rooms, modules = run.stdout.splitlines()
    assert not {"query", "edit", "indexes", "exchange", "sparse", "checking", "converting", "predicate"} & set(
        rooms.split()
    )
    assert int(modules) <= 107  # two for each layout: its package, and the names by which its tables are known
