"""Processor time of every test, its fixtures and the processes it started: a plugin for pytest, and its report.

    python -m pytest -n 2 --dist worksteal -p tools.cpu_times --times FOLDER ...
    python -m tools.cpu_times FOLDER                 the files and tests that took most

Wall-clock times (`--durations`) depend on what else runs on the machine; processor times hardly do.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

_started = Counter[str]()  # processes started by this one


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=Path, help="the folder in which to record the processor time of each test")


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--times")
    folder.mkdir(exist_ok=True, parents=True)
    os.environ["COLONNADE_TIMES"] = str(folder)
    sys.addaudithook(_count_processes)


def _count_processes(event: str, _: object) -> None:
    if event in {"subprocess.Popen", "os.fork", "os.posix_spawn"}:
        _started[event] += 1


def _used() -> float:
    """Processor seconds of this process and of the finished processes that it started."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before, processes = _used(), _started.total()
    result = yield
    record = {"test": item.nodeid, "seconds": _used() - before, "processes": _started.total() - processes}
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    with Path(os.environ["COLONNADE_TIMES"], f"{worker}.jsonl").open("a") as log:
        log.write(json.dumps(record) + "\n")
    return result


def main() -> None:
    folder = Path(sys.argv[1])
    records = [json.loads(line) for log in folder.glob("*.jsonl") for line in log.read_text().splitlines()]
    files, functions = Counter[str](), Counter[str]()
    processes, numbers = Counter[str](), Counter[str]()
    for record in records:
        function = record["test"].split("[")[0]
        for name, seconds in ((function.split("::")[0], files), (function, functions)):
            seconds[name] += record["seconds"]
            processes[name] += record["processes"]
            numbers[name] += 1
    print(f"{files.total():.0f} s of processor time, {len(records)} tests, {processes.total() // 2} processes started")
    for most, seconds in ((70, files), (120, functions)):
        print()
        for name, used in seconds.most_common(most):
            print(f"{used:8.1f} s {numbers[name]:6} tests {processes[name]:5} processes  {name}")


if __name__ == "__main__":
    main()
