"""Work done in child processes with limits of time and memory: a crash or a hang costs one piece of it, and is told.

A child says which piece it begins and what came of it; when it dies, or does not answer in time, the piece it had
begun is to blame, and another child goes on behind it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

SECONDS = 10.0  # for one file
MEMORY = 512 << 20  # bytes above what a child begins with
NOBODY = 65534
LARGEST_FILE = 64 << 20
_PATIENCE = 6  # times as long by the clock, since other processes take their share of the machine
BEFORE: list[Callable[[], None]] = []
"""What every child does first."""
_PDEATHSIG = 1
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Outcome:
    """What became of one piece of work: its result, or how its child ended and where."""

    piece: int
    result: Any = None
    trouble: str | None = None
    trace: str = ""


@dataclass(frozen=True)
class Kind:
    """What the children of a run may do, and what each does first, with the rights and the memory of this process."""

    seconds: float = SECONDS
    memory: int = MEMORY
    trusted: bool = False
    prepare: Callable[[], None] | None = None


def run(pieces: Sequence[int], work: Callable[[int], Any], folder: Path, kind: Kind = Kind()) -> Iterator[Outcome]:
    """Do all pieces, in as many children as it takes; they keep the rights of this process only if they are trusted."""
    left = list(pieces)
    while left:
        n_done = 0
        for outcome in _one_child(left, work, folder / "trace.txt", kind):
            n_done += 1
            yield outcome
        left = left[max(n_done, 1) :]


def _one_child(pieces: list[int], work: Callable[[int], Any], trace: Path, kind: Kind) -> Iterator[Outcome]:
    """Pieces in order until the child ends or must be ended; the last outcome tells of that."""
    reader, writer = os.pipe()
    trace.unlink(missing_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _be_child(pieces, work, writer, trace, kind)
    os.close(writer)
    begun: int | None = None
    try:
        for message in _messages(reader, child, kind.seconds):
            if message is None:
                yield _ended(child, begun, trace, hung=True)
                return
            what, piece, result = message
            begun = piece if what == "begin" else None
            if what == "end":
                yield Outcome(piece, result)
        if begun is not None:
            yield _ended(child, begun, trace, hung=False)
            return
    finally:
        os.close(reader)
        _reap(child)


def _messages(reader: int, child: int, seconds: float) -> Iterator[Any]:
    """What a child says, line by line; None when it has worked for too long without a word."""
    held = b""
    worked, heard = _worked(child), time.monotonic()
    while True:
        if not select.select([reader], [], [], 0.5)[0]:
            if _worked(child) - worked > seconds or time.monotonic() - heard > _PATIENCE * seconds:
                yield None
                return
            continue
        data = os.read(reader, 1 << 16)
        if not data:
            return
        worked, heard = _worked(child), time.monotonic()
        *lines, held = (held + data).split(b"\n")
        yield from (json.loads(line) for line in lines)


def _worked(child: int) -> float:
    """Seconds of a processor that a child has had."""
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def _ended(child: int, piece: int | None, trace: Path, hung: bool) -> Outcome:
    if hung:
        os.kill(child, signal.SIGUSR1)  # its trace, see faulthandler
        time.sleep(0.5)
        os.kill(child, signal.SIGKILL)
        text = trace.read_text(errors="replace") if trace.exists() else ""
        return Outcome(-1 if piece is None else piece, trouble="hang", trace=text)
    text = trace.read_text(errors="replace") if trace.exists() else ""
    _pid, status = os.waitpid(child, 0)
    number = os.waitstatus_to_exitcode(status)
    name = signal.Signals(-number).name if number < 0 else f"exit {number}"
    return Outcome(-1 if piece is None else piece, trouble=f"crash {name}", trace=text)


def _reap(child: int) -> None:
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def _be_child(pieces: list[int], work: Callable[[int], Any], writer: int, trace: Path, kind: Kind) -> NoReturn:
    code = 1
    try:
        log = trace.open("w")
        os.dup2(log.fileno(), 2)  # what C libraries say before they abort belongs to the trace
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        for prepare in BEFORE:
            prepare()
        faulthandler.enable(log)
        faulthandler.register(signal.SIGUSR1, log, all_threads=False)
        if kind.prepare is not None:
            kind.prepare()
        limit_memory(kind.memory)
        if not kind.trusted:
            drop_rights()
        _end_with_parent()
        at_first = peak()
        for piece in pieces:
            _say(writer, "begin", piece, None)
            before, begun = peak(), time.process_time()
            result = work(piece)
            if isinstance(result, dict):
                result |= {
                    "grown": peak() - before,
                    "above": peak() - at_first,
                    "peak": peak(),
                    "seconds": time.process_time() - begun,
                }
            _say(writer, "end", piece, result)
        code = 0
    except BaseException:  # noqa: BLE001 - told in the trace; the parent sees that the child ended
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _say(writer: int, kind: str, piece: int, result: Any) -> None:
    data = json.dumps([kind, piece, result]).encode() + b"\n"
    while data:
        data = data[os.write(writer, data) :]


def limit_memory(above: int = MEMORY) -> None:
    """No more than so many bytes above what is in use now; beyond that, allocations fail."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    used = int(fields["VmData"].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + above, used + above))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def drop_rights() -> None:
    """Be nobody, if this is root, and write no large file: what is read here may name any file of the machine."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def _end_with_parent() -> None:
    """A child in a file that never ends would outlive the fuzzer. After the rights were dropped, which undoes it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


def peak() -> int:
    """Bytes of memory that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
