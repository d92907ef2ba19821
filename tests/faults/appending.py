"""Batches that can be told apart, processes that append them to one table, and processes that read it meanwhile.

Every value of a batch follows from who wrote it, its number and its row. So a reader can work out the whole table from
three of its columns, and a torn read, a lost row, a row too many or a batch out of its order is a table that is not
the one worked out.
"""

from __future__ import annotations

import faulthandler
import itertools
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import colonnade as cn
from colonnade import limits
from colonnade.columns.read import ColumnReader
from colonnade.errors import ConflictError
from colonnade.pager import disk
from colonnade.pager.disk import Disk
from colonnade.pager.held_pages import PAGE
from colonnade.pager.options import Durability
from colonnade.query import scan
from colonnade.selection import Rows

Numbers = np.ndarray[Any, np.dtype[np.int64]]
TABLE = "log"
MOST_ROWS = 40
KIND_EVERY = 25  # batches after which a new category comes
VAIN_EVERY = 3  # turns after which an append fails and is taken back
LONGEST_PAUSE = 0.01  # seconds
MOST_STREAMS = 10  # times that a stream is begun before the table is read at once instead
SAFETY_NET = 120.0  # seconds before a process counts as stuck for good: no measure of speed, only an end to waiting


# -- batches --


def n_rows_of(writer: Numbers, number: Numbers) -> Numbers:
    """How many rows a batch has."""
    return 1 + (number * 7 + writer * 3) % MOST_ROWS


def columns_of(writer: Numbers, number: Numbers, row: Numbers) -> pa.Table:
    """All columns, worked out from three of them: numbers, texts, missing values, categories, labels."""
    said = [pa.array(each).cast(pa.string()) for each in (writer, number, row)]
    text = pc.binary_join_element_wise(*said, "/")
    text = pc.binary_join_element_wise(text, pc.binary_repeat("~", pa.array(number % 30 + number // 500)), "")
    kind = pc.binary_join_element_wise("kind", pa.array(number // KIND_EVERY).cast(pa.string()), " ")
    return pa.table(
        {
            "writer": pa.array(writer, pa.int8()),
            "number": pa.array(number, pa.int64()),
            "row": pa.array(row, pa.int32()),
            "value": pa.array(writer * 1e6 - number + row / 64, pa.float64(), mask=(number + row) % 11 == 3),
            "text": pc.if_else(pa.array((number + row) % 7 == 2), pa.scalar(None, pa.string()), text),
            "kind": kind.dictionary_encode(),
            "id": pa.array((number * 2 + writer) * MOST_ROWS + row, pa.int64()),
        }
    )


def batch_of(writer: int, number: int) -> pa.Table:
    """One batch."""
    who, which = np.array([writer]), np.array([number])
    n_rows = int(n_rows_of(who, which)[0])
    return columns_of(np.repeat(who, n_rows), np.repeat(which, n_rows), np.arange(n_rows))


def make_table(path: Path) -> None:
    """The table before anybody appends: the first batch of either writer."""
    cn.write(path, pa.concat_tables([batch_of(0, 0), batch_of(1, 0)]), TABLE, labels=["id"])


def check_batches(found: pa.Table) -> tuple[int, int]:
    """How many batches of either writer a table holds; it must hold them whole, in order, and nothing else."""
    writer, number, row = (found[name].to_numpy().astype(np.int64) for name in ("writer", "number", "row"))
    first = np.flatnonzero(row == 0)
    whose, which = writer[first], number[first]
    counts = (int(np.count_nonzero(whose == 0)), int(np.count_nonzero(whose == 1)))
    for who, count in enumerate(counts):
        _same(f"numbers of the batches of writer {who}", which[whose == who], np.arange(count))
    n_rows = n_rows_of(whose, which)
    assert n_rows.sum() == len(row), f"torn: {len(row)} rows; {len(first)} batches have {n_rows.sum()}"
    _same("rows within their batches", row, np.arange(len(row)) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows))
    _same("writers of the rows", writer, np.repeat(whose, n_rows))
    _same("numbers of the rows", number, np.repeat(which, n_rows))
    wanted = columns_of(writer, number, row)
    assert set(found.column_names) == set(wanted.column_names)
    for name in wanted.column_names:
        _same_column(name, found[name], wanted[name])
    return counts


def _same(what: str, found: Numbers, wanted: Numbers) -> None:
    if not np.array_equal(found, wanted):
        n_both = min(len(found), len(wanted))
        at = int(np.flatnonzero(np.append(found[:n_both] != wanted[:n_both], True))[0])
        near = slice(max(at - 3, 0), at + 5)
        raise AssertionError(
            f"torn: {what}: {len(found)} instead of {len(wanted)}, another from {at} on: "
            f"{found[near].tolist()} instead of {wanted[near].tolist()}"
        )


def _same_column(name: str, found: pa.ChunkedArray, wanted: pa.ChunkedArray) -> None:
    plain = wanted.cast(pa.string()) if pa.types.is_dictionary(wanted.type) else wanted
    if not found.cast(plain.type).equals(plain):
        pairs = list(zip(found.to_pylist(), plain.to_pylist(), strict=True))
        at = next(row for row, (one, other) in enumerate(pairs) if one != other)
        raise AssertionError(f"torn: column {name!r} from row {at} of {len(pairs)} on: {pairs[at : at + 5]}")


# -- processes --


@dataclass(frozen=True)
class Run:
    """What the processes of one run share: the file, the end, and counts that each process alone writes its own of."""

    path: Path
    logs: Path
    stop: Any  # an event
    begun: Any  # of each writer: batches whose append was called
    done: Any  # of each writer: batches whose append returned
    steps: Any  # of each process: appends or reads so far
    again: Any  # of each process: reads that had to begin again


def work(run: Run, name: str, place: int, task: Callable[[Run, int], None]) -> None:
    """Do a task until the end. What goes wrong (also a stack when told by a signal) is written to the process's log."""
    with (run.logs / f"{name}.log").open("w") as log:
        faulthandler.enable(log)
        faulthandler.register(signal.SIGUSR1, log)
        try:
            task(run, place)
        except BaseException:  # noqa: BLE001 - told to the test, which raises it
            traceback.print_exc(file=log)
            raise SystemExit(1) from None
        finally:
            faulthandler.unregister(signal.SIGUSR1)
            faulthandler.disable()


class SlowDisk(Disk):
    """A disk that takes its time now and then, so that others come in between."""

    def __init__(self) -> None:
        self._chance = random.Random(1)

    def write(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> None:
        super().write(descriptor, data, offset)
        pause(self._chance, 0.1)

    def write_parts(self, descriptor: int, parts: Sequence[Any], offset: int) -> None:
        self.write(descriptor, b"".join(parts), offset)

    def truncate(self, descriptor: int, length: int) -> None:
        super().truncate(descriptor, length)
        pause(self._chance, 0.5)

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        pause(self._chance, 0.5)


def pause(chance: random.Random, how_often: float) -> None:
    """Let other processes run, or not."""
    if chance.random() < how_often:
        time.sleep(chance.random() * LONGEST_PAUSE)


def append_once(run: Run, place: int) -> None:
    """Open, append, close; again and again."""
    _append(run, place, [1], "fast")


def append_several(run: Run, place: int) -> None:
    """Open, append one batch or several (each a commit of its own), close; again and again.

    Pages are written early, as in a change that is too large for the memory; and some appends are taken back.
    """
    with limits.override(held_page_bytes=2 * PAGE):
        _append(run, place, [1, 3, 2, 5], "full")


def _append(run: Run, writer: int, turns: list[int], durability: Durability) -> None:
    disk.DISK = SlowDisk()
    number = 1
    for turn in itertools.count():
        if run.stop.is_set():
            return
        with cn.open(run.path, "r+", durability=durability, timeout=SAFETY_NET) as file:
            table = file[TABLE]
            if turn % VAIN_EVERY == VAIN_EVERY - 1:
                _append_in_vain(file, batch_of(writer, number + 1000))
            for _ in range(turns[turn % len(turns)]):
                run.begun[writer] = number + 1
                table.append(batch_of(writer, number))
                number += 1
                run.done[writer] = number
                run.steps[writer] += 1
        pause(random.Random(turn), 1)


class Vain(Exception):
    """What an append fails with that is to be taken back."""


def _append_in_vain(file: cn.File, batch: pa.Table) -> None:
    def batches() -> Iterator[pa.Table]:
        yield batch
        file.h5.flush()
        raise Vain

    with suppress(Vain):
        file[TABLE].append(batches())


# -- ways to read: each gives the table as it is now, for ever, and None where it was told to start again --

Reading = Iterator[pa.Table | None]


def keeping(path: Path) -> Reading:
    """One file and one table, kept open."""
    with cn.open(path, timeout=SAFETY_NET) as file:
        table = file[TABLE]
        while True:
            yield table.to_arrow()


def reopening(path: Path) -> Reading:
    """The file opened anew each time."""
    while True:
        with cn.open(path, timeout=SAFETY_NET) as file:
            yield file[TABLE].to_arrow()


def keeping_and_reopening(path: Path) -> Reading:
    """Both in one process, which share what HDF5 remembers of the file."""
    with cn.open(path, timeout=SAFETY_NET) as kept:
        while True:
            yield kept[TABLE].to_arrow()
            with cn.open(path, timeout=SAFETY_NET) as another:
                yield another[TABLE].to_arrow()
                yield kept[TABLE].to_arrow()


def streaming(path: Path) -> Reading:
    """Batch by batch: a commit meanwhile is told, and the reader starts again."""
    with cn.open(path, timeout=SAFETY_NET) as file:
        table = file[TABLE]
        while True:
            for _ in range(MOST_STREAMS):
                try:
                    yield pa.Table.from_batches(list(table.batches(MOST_ROWS * 5)))
                except ConflictError:
                    yield None
            yield table.to_arrow()


READINGS: list[Callable[[Path], Reading]] = [keeping, reopening, keeping_and_reopening, streaming]


def read(run: Run, place: int) -> None:
    """Read again and again: what was committed before a read is in it, and nothing that nobody began to append."""
    slow_down(random.Random(place))
    least = 0
    reading = READINGS[place - 2](run.path)
    while not run.stop.is_set():
        done = run.done[0], run.done[1]
        found = next(reading)
        if found is None:
            run.again[place] += 1
            continue
        begun = run.begun[0], run.begun[1]
        counts = check_batches(found)
        for writer in (0, 1):
            assert done[writer] <= counts[writer] <= begun[writer], (
                f"batches of writer {writer}: {counts[writer]} read; {done[writer]} were committed before the read, "
                f"{begun[writer]} were begun after it"
            )
        assert found.num_rows >= least, f"from {least} rows back to {found.num_rows}"
        least = found.num_rows
        run.steps[place] += 1


def slow_down(chance: random.Random) -> None:
    """Take some time between two columns."""
    read_column = scan.read_column

    def read_slowly(reader: ColumnReader, rows: Rows) -> pa.ChunkedArray:
        pause(chance, 0.1)
        return read_column(reader, rows)

    scan.read_column = read_slowly  # type: ignore[assignment]
