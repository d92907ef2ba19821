"""Exceptions that strike inside the callbacks of HDF5, at every line of them; and real signals.

Whatever strikes: the old state or the new one, the exception itself, an open file that takes the next change, no lock.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
from abc import ABCMeta
from collections import Counter
from collections.abc import Callable, Iterator, Sized
from importlib import _bootstrap
from pathlib import Path
from random import Random
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest
from h5py._objects import phil

import colonnade as cn
from colonnade.h5 import callbacks, capi, files
from colonnade.pager import disk, journal, latch
from colonnade.pager.interrupts import _Wrapped
from colonnade.pager.locks import WriterLock, lock_path
from colonnade.table.changing import Change as Change_
from colonnade.table.changing import Transaction
from tests.faults.changes import CHANGES, Change, make_file, rows
from tests.faults.interrupted import interrupt
from tests.faults.states import whole_state

SIGNALS = int(os.environ.get("COLONNADE_SIGNALS", "60"))
PLACES = int(os.environ.get("COLONNADE_PLACES", "7"))  # lines tried per change; 1000: all, with every exception
KINDS = (KeyboardInterrupt, MemoryError, RecursionError, signal.SIGINT)
TRACED = {callbacks.__file__, latch.__file__, journal.__file__, disk.__file__}

FIRST = {getattr(callbacks.Callbacks, name).__code__ for name in ("readinto", "write", "truncate")}

Kind = type[BaseException] | signal.Signals
Place = tuple[str, int, str]


def write_elements(file: cn.File) -> None:
    with file.transaction():
        cn.write_element(file.h5["/"], "obsm", {"a": np.arange(3000.0), "b": ["x", "yy"]})


def write_sparse_array(file: cn.File) -> None:
    coordinates = np.argwhere(np.arange(400).reshape(20, 20) % 7 == 0)
    cn.write_sparse(file, "sparse", (coordinates, np.arange(len(coordinates)) * 1.5, (20, 20)))


def repack(file: cn.File) -> None:
    file.repack(chunk_rows=7, filters="deflate")


CHANGES_HERE = {**CHANGES, "elements": write_elements, "sparse": write_sparse_array, "repack": repack}


class Strike:
    """Raises an exception, or sends a signal, at one line of what HDF5 calls, the nth time it comes there.

    Without a line, it counts how often HDF5 comes to each.
    """

    def __init__(self, place: Place | None = None, nth: int = 0, kind: Kind = KeyboardInterrupt) -> None:
        self.counts: dict[Place, int] = {}
        self.place, self.nth, self.kind, self.has_struck = place, nth, kind, False

    def __enter__(self) -> Strike:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename not in TRACED or not is_called_back(frame):
            return None
        self._come(frame, "call")
        return self._line

    def _line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self._come(frame, "line")
        return self._line

    def _come(self, frame: FrameType, event: str) -> None:
        code = frame.f_code
        if code in FIRST and frame.f_lineno <= code.co_firstlineno + 2:
            event = "entry"  # not inside `try` yet
        place = (code.co_qualname, frame.f_lineno, event)
        self.counts[place] = self.counts.get(place, 0) + 1
        if place == self.place and self.counts[place] == self.nth:
            sys.settrace(None)
            self.has_struck = True
            strike(self.kind)


def strike(kind: Kind) -> None:
    if isinstance(kind, signal.Signals):
        signal.raise_signal(kind)
    else:
        raise kind("struck")


def is_called_back(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == callbacks.__file__ and frame.f_code.co_name != "__init__":
            return True
        frame = frame.f_back
    return False


@pytest.fixture(autouse=True)
def interrupts_are_heard() -> Iterator[None]:
    """A shell starts what runs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("base") / "run.h5"
    make_file(path)
    with cn.open(path, "r+") as file:
        file["events"].update("x", [1], [0.5])
    return path.read_bytes()


@contextlib.contextmanager
def printed_exceptions() -> Iterator[list[type[BaseException]]]:
    """Exceptions that ctypes prints instead of raising them. As a fixture, pytest 8.0 would replace the hook again."""
    found: list[type[BaseException]] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda args: found.append(args.exc_type)
    try:
        yield found
    finally:
        sys.unraisablehook = before


@pytest.mark.parametrize("name", CHANGES_HERE)
def test_exception_at_any_line_of_a_callback(base: bytes, tmp_path: Path, name: str) -> None:
    """The lines are shared out among the changes: together they try all of them."""
    change, path, number = CHANGES_HERE[name], tmp_path / "run.h5", list(CHANGES_HERE).index(name)
    path.write_bytes(base)
    with cn.open(path, "r+", durability="fast") as file, Strike() as counting:
        change(file)
    after, random = state_of(path), Random(name)
    step = max(1, len(counting.counts) // PLACES)
    for turn, place in enumerate(sorted(counting.counts)[number % step :: step]):
        for kind in KINDS if step == 1 else [KINDS[(number + turn) % len(KINDS)]]:
            path.write_bytes(base)
            strike = Strike(place, random.randint(1, counting.counts[place]), kind)
            with printed_exceptions() as printed:
                check_strike(path, change, strike, base, after)
            assert printed == ([kind] if is_swallowed(place, kind) else []), place


@pytest.mark.parametrize("method", ["readinto", "write", "truncate"])
def test_exception_before_the_first_line_of_a_callback(base: bytes, tmp_path: Path, method: str) -> None:
    """HDF5 crashes on some writes that fail, and loses the failure of others: it does not learn of it."""
    for name in ("append", "overwrite", "sparse", "repack"):
        change, path = CHANGES_HERE[name], tmp_path / f"{name}.h5"
        path.write_bytes(base)
        with cn.open(path, "r+", durability="fast") as file, Strike() as counting:
            change(file)
        after, random = state_of(path), Random(name)
        for place, count in counting.counts.items():
            if place[0] == f"Callbacks.{method}" and place[2] == "entry":
                kind = random.choice(KINDS)
                path.write_bytes(base)
                with printed_exceptions() as printed:
                    check_strike(path, change, Strike(place, random.randint(1, count), kind), base, after)
                assert printed == ([kind] if is_swallowed(place, kind) else []), place


def test_exception_before_the_first_line_of_a_read_is_raised_as_such(path: Path) -> None:
    place = ("Callbacks.readinto", callbacks.Callbacks.readinto.__code__.co_firstlineno, "entry")
    with cn.open(path, "r+", durability="fast") as file:
        table = file["events"]
        with pytest.raises(MemoryError, match="struck"), Strike(place, 1, MemoryError):
            table.update("x", [0], [1.5])
        table.update("x", [0], [2.5])
    assert cn.read(path, "events")["x"][0].as_py() == 2.5


@pytest.mark.parametrize("kind", [MemoryError, RecursionError])
def test_exception_in_a_read_is_not_taken_for_a_broken_object(path: Path, kind: type[Exception]) -> None:
    """A RecursionError is a RuntimeError, which h5py also raises for objects that are broken."""
    place = ("Callbacks.readinto", callbacks.Callbacks.readinto.__code__.co_firstlineno, "entry")
    raised, nth, strike = Counter[type[BaseException]](), 0, Strike(place, 1, kind)
    while nth == 0 or strike.has_struck:
        nth += 1
        with cn.open(path, "r+", durability="fast") as file:
            try:
                with Strike(place, nth, kind) as strike:
                    table = file["events"]
                    n_rows, names = len(table), table.columns
            except (kind, InterruptedError) as error:  # InterruptedError where h5py loses the exception
                raised[type(error)] += 1
            else:
                assert not strike.has_struck
            assert len(file["events"]) == 30
    assert n_rows == 30
    assert "x" in names
    assert raised[kind] > raised[InterruptedError]


def is_swallowed(place: Place, kind: Kind) -> bool:
    """Whether an exception is raised before the first line of a method that HDF5 calls through ctypes."""
    is_through_ctypes = place[0] in ("Callbacks.write", "Callbacks.truncate") and place[2] == "entry"
    return is_through_ctypes and not isinstance(kind, signal.Signals)


def expected_kinds(place: Place, kind: Kind) -> tuple[type[BaseException], ...]:
    """What the program gets: InterruptedError if nobody knows the exception."""
    if isinstance(kind, signal.Signals):
        return (KeyboardInterrupt,)
    if is_swallowed(place, kind):
        return (InterruptedError,)
    return (kind, InterruptedError) if place[2] == "entry" else (kind,)  # some functions of h5py lose any exception


def check_strike(path: Path, change: Change, strike: Strike, base: bytes, after: dict[str, Any]) -> None:
    assert strike.place is not None
    where = f"{strike.kind!r} at {strike.place}, time {strike.nth}"
    struck: BaseException | None = None
    with cn.open(path, "r+", durability="fast") as file:
        try:
            with strike:
                change(file)
        except BaseException as reason:  # noqa: BLE001 - looked at below
            struck = reason
        if strike.has_struck:  # HDF5 truncates once less where it has seen the same before
            assert type(struck) in expected_kinds(strike.place, strike.kind), f"{where}: {struck!r}"
        if isinstance(strike.kind, signal.Signals):
            assert callbacks.__file__ not in {code.co_filename for code in codes_of(struck)}, where
        if struck is None or path.read_bytes() != base:
            copy = path.with_name("copy.h5")
            copy.write_bytes(path.read_bytes())
            assert state_of(copy) == after, where
        file.create("next", rows(3))
        assert len(file["next"]) == 30, where
    assert not lock_path(path).exists(), where
    assert cn.read(path, "next").num_rows == 30, where


def codes_of(error: BaseException | None) -> set[CodeType]:
    """The functions through which an exception came."""
    return {frame.f_code for frame, _ in walk_tb(error.__traceback__ if error is not None else None)}


def state_of(path: Path) -> dict[str, Any]:
    try:
        return whole_state(path)
    except Exception:  # noqa: BLE001 - h5py does not visit a file with a sparse array
        with cn.open(path) as file:
            tables = {name: file[name].to_arrow().to_pydict() for name in file.tables()}
        return {"tables": tables, "sparse": cn.open_sparse(path, "sparse")[:].tolist()}


@pytest.mark.parametrize("nth", [1, 2])
def test_repack_that_cannot_open_the_file_again_leaves_it_usable(
    path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """It is opened to be read, and again when the new file is in its place."""
    real, calls = files._open_through, 0

    def fail(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise MemoryError
        return real(*arguments)

    with cn.open(path, "r+", durability="fast") as file:
        monkeypatch.setattr(files, "_open_through", fail)
        with pytest.raises(MemoryError):
            file.repack()
        file["events"].truncate(7)
        assert len(file["events"]) == 7
    assert cn.read(path, "events").num_rows == 7
    assert not lock_path(path).exists()


def test_failed_repack_leaves_a_file_that_takes_changes(path: Path) -> None:
    """The source is opened once more to be read: what the file itself writes afterwards must still arrive."""

    def fail(_done: int, _total: int | None) -> None:
        raise KeyboardInterrupt

    with cn.open(path, "r+", durability="fast") as file:
        with pytest.raises(KeyboardInterrupt):
            file.repack(progress=fail)
        file["events"].truncate(7)
        assert len(file["events"]) == 7
    assert cn.read(path, "events").num_rows == 7


def test_callback_that_fails_before_its_first_line_is_noticed(tmp_path: Path) -> None:
    """No exception is known then, and h5py may have lost it; but nothing is committed."""
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with journal.JournaledFile(path, disk.Disk()) as file:
        calls = callbacks.Callbacks(file).for_hdf5()
        calls.seek(0)
        calls.write(memoryview(b"new"))
        calls.seek(2)  # what follows does not come
        with pytest.raises(InterruptedError, match="repeat"):
            file.commit()
        file.roll_back()
        file.commit()
    assert path.read_bytes() == b"old"


def test_callback_that_fails_before_its_first_line_and_is_repeated_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with journal.JournaledFile(path, disk.Disk()) as file:
        calls = callbacks.Callbacks(file).for_hdf5()
        calls.seek(0)  # what follows does not come
        calls.seek(0)
        calls.write(memoryview(b"n"))
        with pytest.raises(InterruptedError, match="repeat"):
            file.commit()
        file.roll_back()
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("n_held", [0, 1, 2])
def test_lock_of_h5py_is_held_afterwards_as_often_as_before(
    path: Path, monkeypatch: pytest.MonkeyPatch, n_held: int
) -> None:
    """The program may hold it on purpose; what h5py leaves of it when an exception comes through HDF5 is released."""

    real = callbacks.Callbacks._read

    def leave(*_arguments: object) -> None:
        monkeypatch.setattr(callbacks.Callbacks, "_read", real)
        phil.acquire()
        raise KeyboardInterrupt

    with cn.open(path, "r+", durability="fast") as file:
        for _ in range(n_held):
            phil.acquire()
        monkeypatch.setattr(callbacks.Callbacks, "_read", leave)
        with pytest.raises(KeyboardInterrupt):
            file["events"].update("x", [0], [1.5])
        assert phil._is_owned() == (n_held > 0)
        assert not n_held or capi.HDF5_LOCK.depth() == n_held
        file["events"].update("x", [0], [2.5])
        for _ in range(n_held):
            phil.release()
        assert not phil._is_owned()
        file["events"].update("x", [1], [3.5])
    assert cn.read(path, "events")["x"].to_pylist()[:2] == [2.5, 3.5]


def test_too_little_stack_is_noticed_before_anything_is_done(path: Path) -> None:
    """Not inside a callback, into which no RecursionError may come."""
    with cn.open(path, "r+", durability="fast") as file:
        value, refused = -1.0, 0

        def deeper(n_frames: int) -> None:
            nonlocal value, refused
            if n_frames:
                deeper(n_frames - 1)
                return
            try:
                file["events"].update("x", [0], [value - 1])
                value -= 1
            except RecursionError:
                refused += 1

        limit = sys.getrecursionlimit()
        for n_frames in range(limit - 300, limit - 20, 7):
            with contextlib.suppress(RecursionError):
                deeper(n_frames)
            while phil._is_owned():  # h5py could not call its `__exit__` when an object was freed
                phil.release()
        assert value < -1
        assert refused
        assert file["events"]["x"].to_arrow()[0].as_py() == value


def test_signals_at_random_moments(tmp_path: Path) -> None:
    """Longer: `python -m tests.faults.interrupted 4000`."""
    assert sum(interrupt(SIGNALS, 1, tmp_path).values()) == SIGNALS


# -- signals inside shielded functions --

SHIELDED = {
    "readinto": callbacks.Callbacks.readinto,
    "write": callbacks.Callbacks.write,
    "truncate": callbacks.Callbacks.truncate,
    "commit": files.FileHandle.commit,
    "roll back": files.FileHandle.roll_back,
    "take place": files.FileHandle._take_place,
    "close": files.FileHandle.close,
    "open": files._open_to_change,
    "create": files._create_aside,
    "discard": files._discard,
    "commit of the journal": journal.JournaledFile.commit,
    "roll back the journal": journal.JournaledFile.roll_back,
    "close the journal": journal.JournaledFile.close,
    "release": WriterLock.release,
    "file": cn.File.__init__,
    "enter a file": cn.File.__enter__,
    "leave a file": cn.File.__exit__,
    "close a file": cn.File.close,
    "begin a change": Change_.__enter__,
    "end a change": Change_.__exit__,
    "begin a transaction": Transaction.__enter__,
    "end a transaction": Transaction.__exit__,
}
CODES = {name: function.__code__ for name, function in SHIELDED.items()}


class Signal:
    """Sends SIGINT at the beginning of a function, when no other shielded function has called it."""

    def __init__(self, code: CodeType) -> None:
        self.is_sent, self._code = False, code

    def __enter__(self) -> Signal:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> None:
        outer = frame.f_back
        while frame.f_code is self._code and outer is not None and outer.f_code not in CODES.values():
            outer = outer.f_back
        if frame.f_code is self._code and outer is None:
            sys.settrace(None)
            self.is_sent = True
            signal.raise_signal(signal.SIGINT)


def use_everything(path: Path) -> None:
    """Calls every shielded function in a place where no other one is running."""
    with cn.open(path, "r+", durability="fast") as file:
        file["events"].update("x", [0], [1.5])
        file["events"].append(rows(3))
        with contextlib.suppress(ZeroDivisionError), file.transaction():
            file["events"].truncate(7)
            file["events"].truncate(1 // 0)
        file._handle.roll_back()
        file.repack()
    new = cn.open(path.with_name("new.h5"), "w")
    new.close()
    handle = files.open_file(path, "r+")
    handle.close()
    with journal.JournaledFile(path.with_name("other"), disk.Disk(), create=True) as other:
        other.roll_back()
    WriterLock(path.with_name("other"), 0).release()
    cn.read(path, "events")  # the signal of the last one is handled


@pytest.mark.parametrize("name", SHIELDED)
def test_signal_is_handled_when_a_shielded_function_has_returned(base: bytes, tmp_path: Path, name: str) -> None:
    path, other = tmp_path / "run.h5", tmp_path / "open.h5"
    path.write_bytes(base)
    other.write_bytes(base)  # while it is open, the handlers are wrapped
    with cn.open(other, "r+"), Signal(CODES[name]) as sent, pytest.raises(KeyboardInterrupt) as struck:
        use_everything(path)
    assert sent.is_sent
    assert CODES[name] not in codes_of(struck.value)
    with cn.open(path, "r+", timeout=0) as file:
        assert len(file["events"]) in (30, 60)


def test_signal_while_a_type_is_registered_is_not_lost(path: Path) -> None:
    """Extension modules do so while they are imported, and ignore exceptions."""
    register = ABCMeta.register.__code__
    with cn.open(path, "r+"), Signal(register) as sent, pytest.raises(KeyboardInterrupt) as struck:
        Sized.register(Signal)
        cn.col("x")
    assert sent.is_sent
    assert register not in codes_of(struck.value)


def test_signal_while_the_lock_of_a_module_is_freed_is_not_lost(path: Path) -> None:
    frees: CodeType = vars(_bootstrap)["_get_module_lock"].__code__
    freed = next(inner for inner in frees.co_consts if isinstance(inner, CodeType))
    before = sys.modules.pop("colorsys", None)
    with cn.open(path, "r+"), Signal(freed) as sent, pytest.raises(KeyboardInterrupt):
        import colorsys  # noqa: F401 - any module that is small
    assert sent.is_sent
    if before is not None:
        sys.modules["colorsys"] = before


INTERRUPTED_IMPORT = """
import signal, sys
from abc import ABCMeta
import colonnade as cn

def trace(frame, event, argument):
    place = frame.f_back
    while frame.f_code is ABCMeta.register.__code__ and place is not None:
        if place.f_code.co_filename.endswith("__init__.py") and "h5py" in place.f_code.co_filename:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
            return
        place = place.f_back

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.settrace(trace)
try:
    cn.open(sys.argv[1], "r+")
except KeyboardInterrupt:
    print("interrupted")
with cn.open(sys.argv[1], "r+") as file:
    file["events"].truncate(3)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("changed")
"""


def test_signal_while_h5py_is_imported_is_not_lost(path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, str(path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.stdout.split(), answer.stderr) == (["interrupted", "changed"], "")


# -- handlers of the program --


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.h5"
    make_file(path)
    return path


@pytest.fixture
def handler() -> Iterator[list[int]]:
    """A handler of the program that notes its calls."""
    calls: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: calls.append(number))
    yield calls
    signal.signal(signal.SIGUSR1, before)


def test_handlers_of_the_program_are_back_when_the_last_file_is_closed(path: Path, handler: list[int]) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGUSR1)
    with cn.open(path, "r+"), cn.open(path.with_name("new.h5"), "w"):
        assert isinstance(signal.getsignal(signal.SIGINT), _Wrapped)
        signal.raise_signal(signal.SIGUSR1)
        assert handler == [signal.SIGUSR1]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGUSR1)) == before
    with pytest.raises(FileNotFoundError):
        cn.open(path.with_name("nowhere.h5"), "r+")
    with cn.open(path):
        assert signal.getsignal(signal.SIGINT) == before[0]


def test_handler_that_the_program_sets_meanwhile_stays(path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with cn.open(path, "r+") as file:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        file["events"].truncate(5)
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    signal.signal(signal.SIGINT, before)


def strike_in(patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Send a signal at the start of a function, once."""
    real: Callable[..., Any] = getattr(owner, name)

    def struck(*arguments: Any, **options: Any) -> Any:
        patch.setattr(owner, name, real)
        signal.raise_signal(signal.SIGINT)
        return real(*arguments, **options)

    patch.setattr(owner, name, struck)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (WriterLock, "_write_holder"),
        (journal.JournaledFile, "__init__"),
        (disk.Disk, "length"),
        (callbacks.Callbacks, "readinto"),
    ],
)
def test_interrupted_open_leaves_no_lock(path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    strike_in(monkeypatch, owner, name)
    with pytest.raises(KeyboardInterrupt) as kept, cn.open(path, "r+"):
        raise AssertionError("the signal comes before")
    assert kept.value.__traceback__ is not None  # its frames are alive, as those of an interpreter's last exception
    assert not lock_path(path).exists()
    with cn.open(path, "r+", timeout=0) as file:
        assert len(file["events"]) == 30


@pytest.mark.parametrize(
    ("owner", "name"), [(disk.Disk, "close"), (WriterLock, "release"), (journal.JournaledFile, "commit"), (os, "close")]
)
def test_interrupted_close_closes_each_descriptor_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    file = cn.open(path, "r+")
    file["events"].truncate(7)
    strike_in(monkeypatch, owner, name)
    with pytest.raises(KeyboardInterrupt):
        file.close()
    others = [os.open(path.parent, os.O_RDONLY) for _ in range(20)]  # take the numbers that are free now
    file.close()
    del file
    for other in others:
        os.close(other)
    assert not lock_path(path).exists()
    assert cn.read(path, "events").num_rows == 7


def test_waiting_for_a_lock_can_be_interrupted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cn.open(path, "r+"):
        strike_in(monkeypatch, WriterLock, "_try")
        with pytest.raises(KeyboardInterrupt):
            cn.open(path, "r+", timeout=30)


class Interrupted(io.BytesIO):
    """A file object of the program that is interrupted at its nth read."""

    n_reads = 0
    nth = 0

    def readinto(self, buffer: Any) -> int:
        self.n_reads += 1
        if self.n_reads == self.nth:
            raise KeyboardInterrupt
        return super().readinto(buffer)


def test_interrupt_inside_a_file_object_of_the_program(path: Path) -> None:
    content = path.read_bytes()

    def read_all(stream: Interrupted) -> int:
        with cn.open(stream) as file:
            for name in file.tables():
                file[name].to_arrow()
        return stream.n_reads

    for nth in range(1, read_all(Interrupted(content)) + 1):
        stream = Interrupted(content)
        stream.nth = nth
        with pytest.raises(KeyboardInterrupt):
            read_all(stream)


def test_interrupt_inside_a_read_of_hdf5_is_not_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cn.open(path, "r+") as file:
        strike_in(monkeypatch, journal.JournaledFile, "read_at")
        with pytest.raises(KeyboardInterrupt):
            file.tables()
            raise AssertionError("the signal comes before")
        assert len(file["events"]) == 30
