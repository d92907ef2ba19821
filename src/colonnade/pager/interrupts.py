"""Delayed signals: no signal handler of the program runs inside an HDF5 callback, a commit, an open or a close.

Python runs signal handlers between two bytecodes of the main thread, wherever that thread is, and the usual handler
of SIGINT raises KeyboardInterrupt there. Inside a function that HDF5 calls, such an exception is lost, and so is the
data to be written; inside `close`, a lock may stay. So while a file is open for changes, the handlers of the program
are wrapped: a wrapped handler inspects the frames of the main thread. If one of them belongs to a function marked with
`shielded`, the signal is raised again, to be handled as soon as no such function runs. `pause` is the exception: a
wait for other processes can be interrupted.

This is for signals only. Callbacks keep any other exception themselves (see `callbacks`).
"""

from __future__ import annotations

import signal
import threading
import time
from _thread import interrupt_main
from abc import ABCMeta
from collections.abc import Callable
from functools import partial
from importlib import _bootstrap
from types import CodeType, FrameType, FunctionType
from typing import TypeVar
from weakref import WeakSet, WeakValueDictionary

Function = TypeVar("Function", bound=Callable[..., object])

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
_SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
_SHIELDED: dict[int, CodeType] = {}  # by id: hashing a code object is slow
OPEN_FOR_CHANGES: WeakSet[object] = WeakSet()
"""Handlers stay wrapped while there are any."""


def shielded(function: Function) -> Function:
    """Mark a function: signals are delayed until it has returned."""
    _SHIELDED[id(function.__code__)] = function.__code__
    return function


def pause(seconds: float) -> None:
    """Sleep. Signals are handled even inside a shielded function, so call this only when nothing is half done."""
    time.sleep(seconds)


_PAUSE = pause.__code__
for _remove in (WeakValueDictionary()._remove, WeakSet()._remove):  # type: ignore[attr-defined]
    shielded(_remove)  # called when an h5py handle is freed: an exception in it is printed and lost
for _check in (ABCMeta.register, ABCMeta.__instancecheck__, ABCMeta.__subclasscheck__):
    shielded(_check)  # extension modules (h5py, pandas) call them while they are imported, and ignore exceptions


def _shield_inner(code: CodeType) -> None:
    """Mark the functions that are defined inside a function."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            _SHIELDED[id(inner)] = inner
            _shield_inner(inner)


# Called when the lock of a module is freed that was imported, as _remove is; the second is there from Python 3.12 on.
_LOCKS = (getattr(_bootstrap, "_get_module_lock", None), getattr(_bootstrap, "_WeakValueDictionary", None))
for _lock in _LOCKS:
    _function = getattr(_lock, "__init__", None) if isinstance(_lock, type) else _lock
    if isinstance(_function, FunctionType):
        _shield_inner(_function.__code__)


class _Wrapped:
    """A handler of the program, called only where no shielded function runs."""

    def __init__(self, handler: Callable[[int, FrameType | None], object]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> object:
        looked_at = frame
        while looked_at is not None and looked_at.f_code is not _PAUSE:
            if id(looked_at.f_code) in _SHIELDED:
                return _AGAIN[number]()
            looked_at = looked_at.f_back
        return self.handler(number, frame)


def _again(number: signal.Signals) -> type:
    """A type whose objects raise a signal when they are destroyed.

    The interpreter destroys the result of a handler when the handler has returned. A handler that raised the signal
    itself would be called within itself, without end.
    """
    return type("_Again", (), {"__del__": staticmethod(partial(interrupt_main, number))})


_AGAIN = {int(number): _again(number) for number in _SIGNALS}


def hold_signals() -> None:
    """Wrap the program's signal handlers. Only the main thread does so, because handlers run only there."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler) and not isinstance(handler, _Wrapped):
            _set_handler(number, _Wrapped(handler))


def release_signals() -> None:
    """Restore the program's handlers if no file is open for changes. A delayed signal is handled here."""
    if OPEN_FOR_CHANGES or threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if isinstance(handler, _Wrapped):
            _set_handler(number, handler.handler)


def _set_handler(number: int, handler: Callable[[int, FrameType | None], object]) -> None:
    try:
        signal.signal(number, handler)
    except ValueError:  # a subinterpreter has no signals
        return
