"""Spoiled files through every reader: a short run of ./fuzz, and every file that once showed a fault."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).parent / "kept"
NOTES = json.loads((KEPT / "notes.json").read_text())


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.fuzz", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=1800,  # a net for what hangs: each file has its own limit
        check=False,
    )


def test_a_short_run_finds_nothing_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Always the same files. libhdf5 may die of one of them, and that is told; nothing of ours may."""
    state = tmp_path / "state"
    asked = ("--seed", "0", "--found", str(tmp_path / "found"), "--state", str(state))
    for n_files in (20, 120):
        done = run("--files", str(n_files), *asked)
        assert done.returncode == 0, done.stdout + done.stderr
        tally = json.loads((state / "seed-0-job-0-of-1.json").read_text())
        assert tally["n_begun"] == n_files
        assert tally["n_files"] >= n_files - 5, done.stdout  # h5py may die while it makes one
        assert sum(tally["kinds"].values()) == tally["n_files"]
    assert list(tally["by_code"].values()) == [120]


def test_every_good_file_is_read_without_a_fault() -> None:
    """The short run reads only the good files that its own are made from."""
    done = run("--seeds")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 400


@cache
def told_of_kept() -> dict[str, str]:
    """What became of each kept file, in a child with limits."""
    done = run("--limited", *(str(KEPT / name) for name in sorted(NOTES)))
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", sorted(NOTES))
def test_a_file_that_showed_a_fault(name: str) -> None:
    """No crash, no hang, no exception but ours."""
    assert told_of_kept()[name] == "fine", NOTES[name]


def test_every_kept_file_has_a_note() -> None:
    assert {path.name for path in KEPT.glob("*.h5")} == set(NOTES)


def test_the_harness_sees_faults(tmp_path: Path) -> None:
    """A crash, a hang, memory and an exception are each told of, with the piece of work they belong to."""
    script = """
import ctypes, sys, time
from pathlib import Path
from tools.fuzz.children import Kind, run
def work(piece):
    if piece == 1: ctypes.string_at(0)
    if piece == 3:
        while True: pass
    if piece == 5: return {"size": len(bytearray(3 << 30))}
    if piece == 6: raise KeyError("no")
    return {"piece": piece}
for outcome in run(range(8), work, Path(sys.argv[1]), Kind(seconds=1.0)):
    print(outcome.piece, outcome.trouble)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    expected = ["None", "crash SIGSEGV", "None", "hang", "None", "crash exit 1", "crash exit 1", "None"]
    assert told == {str(piece): trouble for piece, trouble in enumerate(expected)}, done.stdout + done.stderr
