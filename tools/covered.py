"""How many lines of floors 0 to 2 a quick part of the tests reaches, room by room. No room may fall.

    python -m tools.covered               runs the tests of tests/covering.txt, and compares with tests/covered.json
    python -m tools.covered --missing     also prints the lines that no test reaches
    python -m tools.covered --write       writes the shares of this run, as integers, where they are higher

The files are divided among as many processes as there are processors, and their records are combined.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import coverage

from tools.architecture import FLOORS, ROOT, SOURCE, room_of, source_files

TESTS = (ROOT / "tests" / "covering.txt").read_text().split()
LEAST = ROOT / "tests" / "covered.json"
ROOMS = [room for _, rooms in FLOORS[:3] for room in rooms]  # of kernels, the NumPy form


def run_tests(data: Path) -> bool:
    """Run every file of the list under coverage; the records are next to `data`, with suffixes. Whether all passed."""
    patterns = [str(SOURCE / room) + end for room in ROOMS for end in ("/*", ".py")]
    options = ["--parallel-mode", f"--data-file={data}", f"--include={','.join(patterns)}"]
    n_processes = os.cpu_count() or 1
    with ThreadPoolExecutor(n_processes) as pool:
        results = list(pool.map(lambda first: _run(TESTS[first::n_processes], options), range(n_processes)))
    return not any(results)


def _run(tests: list[str], options: list[str]) -> int:
    pytest = ["-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *tests]
    command = [sys.executable, "-m", "coverage", "run", *options, *pytest]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, file=sys.stderr)
    return done.returncode


def measured(data: Path) -> tuple[dict[str, tuple[int, int]], dict[Path, list[int]]]:
    """Lines reached and lines in all by room, and the lines that are not reached by file."""
    record = coverage.Coverage(data_file=data)
    record.combine([str(data.parent)])
    rooms: dict[str, tuple[int, int]] = {}
    missing: dict[Path, list[int]] = {}
    for path in source_files():
        room = room_of(path)
        if room not in ROOMS:
            continue
        _, lines, _, left, _ = record.analysis2(str(path))
        reached, in_all = rooms.get(room, (0, 0))
        rooms[room] = reached + len(lines) - len(left), in_all + len(lines)
        missing[path] = left
    return rooms, missing


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.covered", description=__doc__)
    parser.add_argument("--missing", action="store_true", help="print the lines that no test reaches")
    parser.add_argument("--write", action="store_true", help="write the shares of this run where they are higher")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="colonnade-coverage-") as folder:
        data = Path(folder) / "record"
        passed = run_tests(data)
        rooms, missing = measured(data)
    least: dict[str, float] = json.loads(LEAST.read_text()) if LEAST.exists() else {}
    shares = {room: 100 * reached / max(in_all, 1) for room, (reached, in_all) in rooms.items()}
    for room, share in shares.items():
        print(f"{room:14} {share:6.2f} %   at least {least.get(room, 0):6.2f} %   {rooms[room][1]} lines")
    if asked.missing:
        for path, lines in missing.items():
            if lines:
                print(f"{path.relative_to(SOURCE)}: {', '.join(map(str, lines))}")
    if asked.write:
        raised = {room: max(int(share), least.get(room, 0)) for room, share in shares.items()}
        LEAST.write_text(json.dumps(raised, indent=2) + "\n")
    fallen = [room for room, share in shares.items() if share < least.get(room, 0)]
    if fallen:
        print(f"fewer lines are reached than before in: {', '.join(fallen)}", file=sys.stderr)
    return 1 if fallen or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
