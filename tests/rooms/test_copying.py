"""Files copied while a writer commits; and what killed processes leave, which the next writer sweeps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.layouts.artifactdb.metadata import md5_of
from colonnade.pager.safe_files import hold, open_new, part_path, sweep_folder_once, written_whole
from colonnade.pager.scratch import ScratchFolder
from tests.rooms.test_cli import call, call_json

WRITER = """
import sys, time
import numpy as np
import colonnade as cn
with cn.open(sys.argv[1], "r+", durability="fast") as f:
    for step in range(1, 100_000):
        with f.transaction():
            f["events"].append({"ts": np.full(500, step), "energy": np.full(500, step * 1.0)})
            f["other"].append({"step": [step]})
        if step == 1:
            print("ready", flush=True)
        time.sleep(0.002)
"""


def begin(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    """A process that has printed a line."""
    run = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE)
    assert run.stdout is not None
    run.stdout.readline()
    return run


def stop(run: subprocess.Popen[bytes]) -> None:
    run.kill()
    run.wait()
    assert run.stdout is not None
    run.stdout.close()


@pytest.fixture
def live(tmp_path: Path) -> Path:
    path = tmp_path / "live.h5"
    cn.write(path, {"ts": np.zeros(200_000, "i8"), "energy": np.zeros(200_000)}, "events", index={"ts": "chunk_minmax"})
    cn.write(path, {"step": [0]}, "other")
    return path


def test_copies_of_a_file_that_is_written_all_the_time_are_whole(live: Path, tmp_path: Path) -> None:
    run = begin(WRITER, live)
    try:
        seen = []
        for number in range(8):
            target = tmp_path / "copies" / f"{number}.h5"
            target.parent.mkdir(exist_ok=True)
            n_bytes = cn.copy(live, target)
            assert target.stat().st_size == n_bytes
            with cn.open(target) as file:
                steps = len(file["other"]) - 1
                assert file["other"]["step"][-1:].tolist() == [steps]
                assert len(file["events"]) == 200_000 + 500 * steps
                rows = file["events"].to_numpy()
                assert np.array_equal(rows["ts"], rows["energy"]) and rows["ts"][-1] == steps
                seen.append(steps)
            assert cn.check(target, deep=True) == []
            with h5py.File(target) as file:
                assert file["events/ts"].shape == (200_000 + 500 * steps,)
        assert seen == sorted(seen) and seen[-1] > seen[0]
        assert {path.name for path in target.parent.iterdir()} == {f"{number}.h5" for number in range(8)}
    finally:
        stop(run)


def test_a_copy_refuses_and_replaces(live: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.h5"
    target.write_bytes(b"before")
    refused = call("copy", live, target)
    assert refused.exit_code == 2 and "--force" in refused.stderr and target.read_bytes() == b"before"
    assert call_json("copy", live, target, "--force")["bytes"] == target.stat().st_size
    assert target.read_bytes() == live.read_bytes()
    assert call("copy", live, live, "--force").exit_code == 2
    assert call("copy", tmp_path / "none.h5", tmp_path / "x.h5").exit_code == 3
    (tmp_path / "rows.csv").write_text("a\n1\n")
    assert "is not an HDF5 file" in call("copy", tmp_path / "rows.csv", tmp_path / "x.h5").stderr
    assert not (tmp_path / "x.h5").exists() and list(tmp_path.glob(".*")) == []


def test_uncommitted_bytes_are_not_copied(live: Path, tmp_path: Path) -> None:
    before = live.read_bytes()
    with cn.open(live, "r+") as file, file.transaction():
        file["events"].append({"ts": np.arange(300_000), "energy": np.random.default_rng(1).normal(size=300_000)})
        assert live.stat().st_size > len(before)
        cn.copy(live, tmp_path / "copy.h5")
        assert cn.open_table(tmp_path / "copy.h5", "events").n_rows == 200_000
        assert (tmp_path / "copy.h5").stat().st_size <= len(before)


@pytest.mark.parametrize("version", ["1.0", "2/1", "1/1"])
def test_metadata_next_to_a_file_are_copied_for_the_copy(version: str, tmp_path: Path) -> None:
    source, target = tmp_path / "cars.h5", tmp_path / "sub" / "autos.h5"
    target.parent.mkdir()
    data = {"mpg": [1.5, 2.5], "kind": ["a", "b"]}
    cn.write(source, data, "df", layout="artifactdb", version=version, columns={"kind": cn.column(categories=True)})
    cn.copy(source, target)
    document = json.loads((tmp_path / "sub" / "autos.h5.json").read_text())
    assert document["path"].endswith("autos.h5") and document["md5sum"] == md5_of(target)
    assert "cars.h5" not in (tmp_path / "sub" / "autos.h5.json").read_text()
    assert cn.read(target).to_pydict() == cn.read(source).to_pydict()
    assert [finding.rule for finding in cn.check(target)] == [finding.rule for finding in cn.check(source)]


def test_a_directory_is_copied_whole(tmp_path: Path) -> None:
    cn.write(tmp_path / "cars", {"mpg": [1.5, 2.5]}, layout="artifactdb", directory=True)
    cn.copy(tmp_path / "cars", tmp_path / "more")
    assert cn.read(tmp_path / "more").to_pydict() == {"mpg": [1.5, 2.5]}
    assert sorted(p.name for p in (tmp_path / "more").iterdir()) == sorted(
        p.name for p in (tmp_path / "cars").iterdir()
    )
    assert cn.check(tmp_path / "more") == [] and cn.check(tmp_path / "cars") == []
    (tmp_path / "empty").mkdir()
    with pytest.raises(cn.errors.FormatError, match="folder"):
        cn.copy(tmp_path / "empty", tmp_path / "no")
    assert list(tmp_path.glob(".*")) == []


# -- leftovers --

KILLED = """
import sys, time
import colonnade as cn
file = cn.open(sys.argv[1], "w")
file.create("t", {"x": [1, 2, 3]})
print("ready", flush=True)
time.sleep(60)
"""


def test_the_part_of_a_killed_writer_is_swept_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = begin(KILLED, path)
    stop(run)
    left = [entry.name for entry in tmp_path.glob(".run.h5.*.part")]
    assert len(left) == 1
    foreign = [".run.h5.part", ".run.h5.0123456789ab.part2", ".run.h5.zzzzzzzzzzzz.part", ".run2.h5.0123456789ab.part"]
    for name in foreign:
        (tmp_path / name).write_text("mine")
    cn.write(path, {"x": [4]}, "t")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([*foreign, "run.h5"])


def test_a_part_in_use_is_not_swept(tmp_path: Path) -> None:
    target = tmp_path / "rows.csv"
    with written_whole(target) as first:
        first.write(b"first")
        with written_whole(target, sweeps=True) as second:
            second.write(b"second")
        assert target.read_bytes() == b"second"
    assert target.read_bytes() == b"first"
    left = part_path(target)
    left.write_text("left by a killed process")
    used = part_path(target)
    descriptor = open_new(used)
    hold(descriptor)
    with written_whole(target, sweeps=True) as third:
        third.write(b"third")
    assert not left.exists() and used.exists()
    os.close(descriptor)
    sweep_folder_once(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.csv"]


def test_readers_that_were_killed_leave_no_request(live: Path) -> None:
    request = live.with_name("live.h5-readers")
    request.touch()
    with cn.open(live, "r+") as file:
        file["other"].append({"step": [1]})
    assert not request.exists()


def test_scratch_folders_of_killed_processes_are_swept(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; os.environ['TMPDIR'] = sys.argv[1]\n"
        "from colonnade.pager.scratch import ScratchFolder\n"
        "folder = ScratchFolder(); print(folder.path, flush=True)\n"
        "if len(sys.argv) > 2: time.sleep(60)"
    )
    foreign = tmp_path / "colonnade-of-mine"
    foreign.mkdir()
    killed, alive = begin(code, tmp_path, "wait"), begin(code, tmp_path, "wait")
    stop(killed)
    assert len(list(tmp_path.iterdir())) == 3
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True, capture_output=True)
    assert len(list(tmp_path.iterdir())) == 2 and foreign.exists()
    stop(alive)
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True, capture_output=True)
    assert list(tmp_path.iterdir()) == [foreign]
    with ScratchFolder() as folder:
        assert folder.is_dir()
    assert not folder.exists()


# -- signals, pipes, other files --


def test_ctrl_c_ends_a_command_with_130_and_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "long.h5"
    cn.write(path, {"x": np.arange(3_000_000), "y": np.random.default_rng(1).normal(size=3_000_000)})
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # it may be ignored
        "from colonnade.cli.__main__ import start; start()"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", code, "where", str(path), "x >= 0", "-o", str(tmp_path / "rows.jsonl")],
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".rows*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    assert run.stderr is not None
    errors = run.stderr.read().decode()
    run.stderr.close()
    assert run.wait() == 130
    assert errors == "colonnade: interrupted\n"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["long.h5"]


@pytest.mark.parametrize("more", [[], ["--row-numbers"], ["--format", "csv"], ["--json"]])
def test_a_closed_pipe_ends_a_command_as_it_ends_others(tmp_path: Path, more: list[str]) -> None:
    path = tmp_path / "long.h5"
    cn.write(path, {"x": np.arange(300_000)})
    rows = ["-n", "100000"] if not more else []
    code = "from colonnade.cli.__main__ import start; start()"
    command = [sys.executable, "-c", code, "where", str(path), "x >= 0", *rows, *more]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout is not None and run.stderr is not None
    run.stdout.read(1)
    run.stdout.close()
    errors = run.stderr.read()
    run.stderr.close()
    assert (run.wait(), errors) == (141, b"")


COMMANDS = [
    ("ls", "ODD"), ("info", "ODD"), ("head", "ODD"), ("schema", "ODD"), ("stats", "ODD"), ("where", "ODD", "x > 1"),
    ("count", "ODD"), ("check", "ODD"), ("fix", "ODD"), ("repack", "ODD"), ("copy", "ODD", "new.h5"),
    ("convert", "ODD", "new.h5"), ("convert", "ODD", "new.csv", "--source-format", "csv"), ("append", "RUN", "ODD"),
    ("append", "ODD", "RUN"), ("index", "build", "ODD", "x=bitmap"), ("index", "ls", "ODD"), ("sparse", "info", "ODD"),
    ("where", "RUN", "x > 1", "-o", "ODD"), ("copy", "RUN", "ODD", "--force"), ("convert", "RUN", "ODD", "--force"),
]  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("suffix", [".h5", ".csv"])
def test_a_pipe_is_refused_and_not_waited_for(arguments: tuple[str, ...], suffix: str, tmp_path: Path) -> None:
    run, odd = tmp_path / "run.h5", tmp_path / f"odd{suffix}"
    cn.write(run, {"x": [1, 2, 3]})
    os.mkfifo(odd)
    names = {"ODD": odd, "RUN": run, "new.h5": tmp_path / "new.h5", "new.csv": tmp_path / "new.csv"}
    begun = time.monotonic()
    result = call(*[names.get(word, word) for word in arguments])
    assert result.exit_code in (2, 3) and "Traceback" not in result.output, result.output
    assert "pipe" in result.output or suffix == ".csv", result.output
    assert time.monotonic() - begun < 5


def completions(line: str) -> list[str]:
    """What the shell offers at the end of a command line."""
    environment = {**os.environ, "_COLONNADE_COMPLETE": "bash_complete", "COMP_WORDS": line}
    environment["COMP_CWORD"] = str(len(line.split(" ")) - 1)
    code = "from colonnade.cli import main; main(prog_name='colonnade')"
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_the_shell_completes_commands_files_tables_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    cn.write(path, {"energy": [1.0], "event": [1], "ts": [1]}, "events")
    cn.write(path, {"z": [1.0]}, "a/other")
    assert completions("colonnade co") == ["plain,convert", "plain,copy", "plain,count"]
    assert completions("colonnade head ru") == ["file,ru"]
    assert completions(f"colonnade head {path} ") == [
        "plain,/a/other",
        "plain,/events",
        "plain,a/other",
        "plain,events",
    ]
    assert completions(f"colonnade where {path} ev") == ["plain,events"]
    assert completions(f"colonnade where {path} events x --sort-by ts,-e") == ["plain,ts,-energy", "plain,ts,-event"]
    assert completions(f"colonnade head {path} events --columns e") == ["plain,energy", "plain,event"]
    assert completions(f"colonnade head {path} events -c ts,en") == ["plain,ts,energy"]
    assert completions(f"colonnade head {tmp_path / 'none.h5'} ") == []
    for shell in ("bash", "zsh", "fish"):
        environment = {**os.environ, "_COLONNADE_COMPLETE": f"{shell}_source"}
        code = "from colonnade.cli import main; main(prog_name='colonnade')"
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
        assert "_COLONNADE_COMPLETE" in run.stdout
