"""The cost of reading and filtering the trials of an NWB file, against pynwb: the file is opened each time.

    python -m bench.nwb [--rows 100_000] [--times 5]

Questions: all trials as a pandas frame; the trials of which a predicate holds; one column; the trials with their tags,
which are lists. Every answer is checked. Needs pynwb.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import colonnade as cn
from bench.timing import Took, print_table, run_in_turns, timed

Question = Callable[[], Any]
OWN, PYNWB, TRIALS = "colonnade", "pynwb", "intervals/trials"


def write_file(path: Path, n_rows: int) -> None:
    """A file with trials of four columns and a ragged one, written by pynwb."""
    from hdmf.common import VectorData, VectorIndex
    from pynwb import NWBHDF5IO, NWBFile
    from pynwb.epoch import TimeIntervals

    chance = np.random.default_rng(3)
    starts = np.arange(n_rows) * 1.5
    tags = VectorData(name="tags", description="tags", data=[f"tag {number % 7}" for number in range(2 * n_rows)])
    columns = [
        VectorData(name="start_time", description="start", data=starts),
        VectorData(name="stop_time", description="stop", data=starts + 1),
        VectorData(name="correct", description="correct", data=chance.random(n_rows) < 0.7),
        VectorData(name="choice", description="choice", data=chance.choice(["left", "right"], n_rows).tolist()),
        tags,
        VectorIndex(name="tags_index", data=np.arange(1, n_rows + 1) * 2, target=tags),
    ]
    trials = TimeIntervals(
        name="trials", description="trials", id=list(range(n_rows)), columns=columns,
        colnames=["start_time", "stop_time", "correct", "choice", "tags"],
    )  # fmt: skip
    file = NWBFile("a session", "id", datetime(2026, 1, 1, tzinfo=UTC), trials=trials)
    with NWBHDF5IO(path, "w") as io:
        io.write(file)


def questions(path: Path, n_rows: int) -> dict[str, dict[str, Question]]:
    """What is asked, and how each asks it. Answers are compared."""
    low = n_rows * 1.5 / 2

    def by_pynwb(answer: Callable[[Any], Any]) -> Any:
        from pynwb import NWBHDF5IO

        with NWBHDF5IO(path, "r") as io:
            return answer(io.read().trials)

    def own(answer: Callable[[cn.Table], Any]) -> Any:
        with cn.open(path) as file:
            return answer(file[TRIALS])

    def filtered(trials: Any) -> Any:
        frame = trials.to_dataframe(exclude={"tags"})
        return frame[(frame.start_time >= low) & frame.correct & (frame.choice == "left")].index.tolist()

    predicate = f"start_time >= {low} and correct == true and choice == 'left'"
    plain = ("start_time", "stop_time", "correct", "choice", "id")
    return {
        "all trials without lists, to pandas": {
            OWN: lambda: own(lambda t: t.select(*plain).to_pandas()["start_time"].tolist()),
            PYNWB: lambda: by_pynwb(lambda t: t.to_dataframe(exclude={"tags"})["start_time"].tolist()),
        },
        "the trials that match": {
            OWN: lambda: own(lambda t: t.where(predicate).select(*plain).to_pandas().index.tolist()),
            PYNWB: lambda: by_pynwb(filtered),
        },
        "one column": {
            OWN: lambda: own(lambda t: t["stop_time"].to_numpy().tolist()),
            PYNWB: lambda: by_pynwb(lambda t: t["stop_time"][:].tolist()),
        },
        "all trials with lists, to pandas": {
            OWN: lambda: own(lambda t: [list(tags) for tags in t.to_pandas()["tags"]]),
            PYNWB: lambda: by_pynwb(lambda t: [list(tags) for tags in t.to_dataframe()["tags"]]),
        },
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.nwb", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=5, help="runs of each; the best one counts")
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # pynwb warns about parts of itself
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "session.nwb")
        write_file(path, asked.rows)
        for title, asking in questions(path, asked.rows).items():
            answers = [ask() for ask in asking.values()]
            if answers[0] != answers[1]:
                raise SystemExit(f"{title}: the answers differ")
            runs = run_in_turns({name: lambda ask=ask: _took(ask) for name, ask in asking.items()}, asked.times)  # type: ignore[misc]
            print_table(f"{title}, {asked.rows:,} rows", runs, {OWN: PYNWB})
    return 0


def _took(ask: Question) -> Took:
    taken = Took()
    with timed(taken):
        ask()
    return taken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
