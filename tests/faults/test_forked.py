"""A child forked in the middle of a transaction: its objects are dead and say so, and the parent's commit is whole."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import colonnade as cn
from tests.faults.changes import make_file, rows

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")

SILENT = ("close", "garbage", "exit", "raise")
STALE = ("stale read", "stale write")
REFUSED = ("read", "read h5", "append", "append to table", "length", "columns", "repack", "sparse", "leave")


def test_child_in_the_middle_of_a_transaction(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.forked", str(tmp_path), *SILENT, *REFUSED, *STALE]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    met = dict(line.split(": ", 1) for line in run.stdout.replace("\nwhole", " whole").splitlines())
    assert met.keys() == {*SILENT, *REFUSED, *STALE}
    for what, outcome in met.items():
        assert outcome.endswith("whole"), what
        if what in REFUSED:
            assert outcome.startswith("ConflictError"), what
            assert "forked" in outcome, what
            assert "Open it again" in outcome, what
        elif what in STALE:
            assert not outcome.startswith("nothing"), what


def test_child_does_not_hold_the_lock_of_its_parent(tmp_path: Path) -> None:
    """Neither the writer's lock nor the one on the file itself: also after the parent was killed."""
    path = tmp_path / "run.h5"
    make_file(path)
    number = os.fork()
    if not number:
        file = cn.open(path, "r+")
        if not os.fork():
            time.sleep(20)
        os._exit(0 if file is not None else 1)
    os.waitpid(number, 0)
    with cn.open(path, "r+", timeout=0) as file:
        file.create("new", rows(3))


def test_child_leaves_the_lock_to_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    make_file(path)
    with cn.open(path, "r+"):
        number = os.fork()
        if not number:
            os._exit(0)
        os.waitpid(number, 0)
        code = "import sys, colonnade; colonnade.open(sys.argv[1], 'r+', timeout=0)"
        run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert "ConflictError" in run.stderr


def count(path: Path) -> int:
    return cn.read(path, "events").num_rows


def test_readers_work_in_forked_children(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    make_file(path)
    with cn.open(path) as reader, multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(count, [path] * 4) == [30] * 4
        number = os.fork()
        if not number:
            os._exit(0 if len(reader["events"].to_arrow()) == 30 else 1)
        assert os.waitpid(number, 0)[1] == 0
        assert len(reader["events"].to_arrow()) == 30
