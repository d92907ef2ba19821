"""The interface of a peer: one method per row of the results table; a method that is not overridden returns None.

An answer is what a user would continue with: a column as an Arrow array (NumPy if a library has no Arrow), rows as
an Arrow table or a dict of arrays, a number, or a dict of numbers by group. `prepare` makes the files unless they
exist already, and opens them: opening is not part of any measurement, and files stay open between queries.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pyarrow as pa

import bench.workload
from bench.workload import Range, Workload

Answer = Any
Note = Callable[[str], None]
DIGEST_BYTES = 6


@dataclass(frozen=True)
class Sizes:
    """Bytes on disk: of the rows, and of their search indexes."""

    data: int
    indexes: int = 0


@dataclass(frozen=True)
class Made:
    """Files of a peer that are complete."""

    folder: Path
    sizes: Sizes
    seconds: float


class Peer:
    """One library with one layout of its files."""

    name: ClassVar[str]
    """Short, for --peers and the JSON: duckdb-native."""
    family: ClassVar[str]
    """The column of the printed table; of peers of one family the best is shown."""
    packages: ClassVar[tuple[str, ...]]
    """The distributions it needs."""
    layout: ClassVar[str]
    """How the rows are kept, in a few words."""

    def __init__(self, threads: int = 2) -> None:
        self.threads = threads
        self.made: Made
        self.many_files: TemporaryDirectory[str] | None = None
        """Files of the row that opens many; removed with the peer."""

    @classmethod
    def versions(cls) -> dict[str, str | None]:
        """The installed versions of what it needs; None for what is missing."""
        return {package: installed_version(package) for package in cls.packages}

    @classmethod
    def available(cls) -> bool:
        return all(cls.versions().values())

    def prepare(self, folder: Path, workload: Workload, note: Note = lambda _said: None) -> None:
        """Make the files in the folder unless they are there, and open them."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what `prepare` has opened."""

    def scan(self, column: str) -> Answer:
        """A whole column in memory."""
        return None

    def scan_dictionary(self, column: str) -> Answer:
        """A whole column of text in memory, as codes and their words."""
        return None

    def scan_plain(self, column: str) -> Answer:
        """A whole column of strings in memory, as an Arrow array of the type string."""
        return None

    def scan_numpy(self, column: str) -> Answer:
        """A whole column of strings in memory, as a NumPy array."""
        return None

    def mean(self, column: str) -> Answer:
        return None

    def between(self, column: str, low: int, high: int, columns: Sequence[str]) -> Answer:
        """Some columns of the rows of low <= column < high."""
        return None

    def equal(self, column: str, value: int | str, columns: Sequence[str]) -> Answer:
        """Some columns of the rows that have this value."""
        return None

    def among(self, column: str, values: Sequence[int], columns: Sequence[str]) -> Answer:
        """Some columns of the rows that have one of many values."""
        return None

    def sorted_by(self, column: str, columns: Sequence[str]) -> Answer:
        """Some columns of all rows, in the order of one."""
        return None

    def top(self, column: str, n: int, columns: Sequence[str]) -> Answer:
        """Some columns of the n rows with the greatest values, the greatest first."""
        return None

    def count(self, column: str, value: str) -> Answer:
        """How many rows have this value."""
        return None

    def over_and_equal(self, over: tuple[str, float], equal: tuple[str, str], columns: Sequence[str]) -> Answer:
        """Some columns of the rows with one column over a limit and another of a value."""
        return None

    def mean_by(self, column: str, by: str) -> Answer:
        """The mean of one column for each value of another."""
        return None

    def write(self, rows: pa.Table, path: Path) -> Answer:
        """Write a new file, or folder, without search indexes. Anything but None when done."""
        return None

    def append(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        """Write the first batch to a new file, append the others one by one; each can be read when it is appended."""
        return None

    def write_plain(self, rows: pa.Table, path: Path) -> Answer:
        """As `write`, without any filter or compression; only where `write` compresses and a user can switch it off."""
        return None

    def append_plain(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        """As `append`, without any filter or compression."""
        return None

    def delete_below(self, column: str, limit: float, path: Path) -> Answer:
        """Delete the rows below a limit from what `write` has written. Anything but None when done."""
        return None

    def between_in_files(
        self, asked: Sequence[tuple[Path, Range]], column: str, columns: Sequence[str]
    ) -> list[Answer]:
        """`between` in each of several files that `write` has written, which are all open at the end."""
        return []

    def read_back(self, path: Path) -> pa.Table | dict[str, Any]:
        """All that was written or appended, in the order it was given."""
        raise NotImplementedError

    def sizes(self) -> Sizes | None:
        return self.made.sizes


def installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def made_once(folder: Path, name: str, marks: Sequence[str | Path], make: Callable[[Path], Sizes], note: Note) -> Made:
    """Files that are made in a folder of their own, unless that is there: complete, and of the same marks.

    Files of other marks are removed then: they are of no more use, and large.
    marks: what the files depend on: versions as text, source files by their content.
    """
    place = folder / f"{name}-{_digest([Path(bench.workload.__file__), Path(__file__), *marks])}"
    facts_file = place / "made.json"
    if not facts_file.exists():
        note(f"making files: {name}")
        for stale in folder.glob(f"{name}-{'[0-9a-f]' * 2 * DIGEST_BYTES}"):
            shutil.rmtree(stale)
        aside = place.with_name(f"{place.name}.part")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        started = time.perf_counter()
        sizes = make(aside)
        facts = {"sizes": asdict(sizes), "seconds": round(time.perf_counter() - started, 2)}
        (aside / facts_file.name).write_text(json.dumps(facts))
        aside.rename(place)
    facts = json.loads(facts_file.read_text())
    return Made(place, Sizes(**facts["sizes"]), facts["seconds"])


def _digest(marks: Sequence[str | Path]) -> str:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for mark in marks:
        digest.update(mark.read_bytes() if isinstance(mark, Path) else mark.encode())
    return digest.hexdigest()


def bytes_under(path: Path) -> int:
    """The bytes of a file, or of all files of a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
