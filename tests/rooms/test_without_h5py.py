"""Reading loads no h5py: each use runs in a new process, which reports whether it was imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
}


def loads_h5py(use: str, path: Path) -> bool:
    code = f"import sys, colonnade as cn; path = sys.argv[1]; {use}; print('h5py' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    return run.stdout.split()[-1] == "True"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tables_are_read_without_h5py(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "a.h5"
    cn.write(path, {"x": [1, 2, 3], "s": ["a", "b", None]}, "t", layout=layout)
    assert [name for name, use in USES.items() if loads_h5py(use, path)] == []


def test_sparse_arrays_are_read_without_h5py(tmp_path: Path) -> None:
    cn.create_sparse(tmp_path / "a.h5", "m", shape=(10, 10), dtype="f4")
    assert not loads_h5py("a = cn.open_sparse(path, 'm'); a.shape, a.info", tmp_path / "a.h5")


def test_h5py_is_loaded_when_it_is_asked_for(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": [1]}, "t")
    assert loads_h5py("cn.open(path).h5['t/x'][()]", tmp_path / "a.h5")
