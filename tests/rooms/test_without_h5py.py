"""Reading loads no h5py: each use runs in a new process, which reports whether it was imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import colonnade as cn

LAYOUTS = ["hep001", "anndata", "artifactdb"]
USES = {
    "tables": "cn.open(path).tables()",
    "to_arrow": "cn.open(path)['t'].to_arrow()",
    "where": "cn.open(path)['t'].where('x > 1').to_arrow()",
    "explain": "str(cn.open(path)['t'].where('x > 1').explain())",
    "aggregate": "cn.open(path)['t'].aggregate({'x': 'sum'})",
    "attrs": "dict(cn.open(path)['t'].attrs), dict(cn.open(path).attrs)",
    "column": "cn.open(path)['t']['x'].to_numpy()",
    "read": "cn.read(path)",
    "check": "cn.check(path)",
    "deep check": "cn.check(path, deep=True)",
    "fix": "cn.fix(path)",
    "planned repairs": "cn.fix(path, dry_run=True)",
    "stats": "cn.open(path)['t'].stats()",
    "verify": "cn.open(path)['t'].verify_indexes()",
    "element": "cn.read_element(cn.open(path), 't')",
}
NEED_LIBRARY = ["C5-external.h5", "C5-virtual.h5", "Table2_1_lzo_nrv2e_shuffle.h5", "Tables_lzo1.h5"]
TESTS = Path(__file__).parent.parent
CHECK_ALL = """
import sys
from pathlib import Path
import colonnade as cn

class Refuse:
    asked = False
    def find_spec(self, name, path=None, target=None):
        if name == "h5py":
            self.asked = True
            raise ImportError("h5py is not to be loaded")

refuse = Refuse()
sys.meta_path.insert(0, refuse)
for folder in sys.argv[1:]:
    for path in sorted(path for path in Path(folder).rglob("*") if path.suffix in (".h5", ".h5ad", ".h5mu")):
        refuse.asked = False
        try:
            cn.check(path, deep=True), cn.fix(path, dry_run=True)
        except (ImportError, cn.errors.ColonnadeError):
            pass
        if refuse.asked:
            print(path.name)
"""


def loads_h5py(use: str, path: Path) -> bool:
    code = f"import sys, colonnade as cn; path = sys.argv[1]; {use}; print('h5py' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    return run.stdout.split()[-1] == "True"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tables_are_read_without_h5py(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "a.h5"
    cn.write(path, {"x": [1, 2, 3], "s": ["a", "b", None]}, "t", layout=layout, index={"x": "chunk_minmax"})
    assert [name for name, use in USES.items() if loads_h5py(use, path)] == []


def test_sparse_arrays_are_read_without_h5py(tmp_path: Path) -> None:
    cn.create_sparse(tmp_path / "a.h5", "m", shape=(10, 10), dtype="f4")
    assert not loads_h5py("a = cn.open_sparse(path, 'm'); a.shape, a.info", tmp_path / "a.h5")


def test_h5py_is_loaded_when_it_is_asked_for(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": [1]}, "t")
    assert loads_h5py("cn.open(path).h5['t/x'][()]", tmp_path / "a.h5")


def test_a_table_with_an_anndata_view_is_checked_without_h5py(tmp_path: Path) -> None:
    data = pa.table({"x": [1, None, 3], "k": ["a", "b", "a"]})
    cn.write(tmp_path / "a.h5", data, "t", anndata=True, columns={"k": cn.column(categories=True)})
    assert not loads_h5py("assert cn.check(path, deep=True).checked.tables > 1", tmp_path / "a.h5")


def test_every_file_of_the_kits_is_checked_without_h5py() -> None:
    """But for what our own reader does not know: external storage, virtual datasets, LZO."""
    folders = [TESTS / "conformance", TESTS / "golden"]
    run = subprocess.run([sys.executable, "-c", CHECK_ALL, *folders], capture_output=True, text=True, check=True)
    assert run.stdout.split() == NEED_LIBRARY
