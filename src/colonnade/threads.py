"""Work distributed over threads, with its results in order.

There is one pool for each number of threads, created when it is first needed. The default number of threads is the
number of cores, or COLONNADE_THREADS.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Item = TypeVar("Item")
T = TypeVar("T")

_POOLS: dict[int, ThreadPoolExecutor] = {}
_ASIDE = 0  # the key of the pool of `begin_aside`
_HERE = threading.local()
_HELD: list[Callable[[], bool]] = []  # for each lock of a library: whether this thread holds it


def default_threads() -> int:
    """The number of cores available to this process."""
    asked = os.environ.get("COLONNADE_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover


def in_order(work: Callable[[Item], T], items: Iterable[Item], n_threads: int) -> Iterator[T]:
    """The results of `work` for each item, in order. A few items are processed ahead of the one being consumed.

    A call from inside such work runs in the same thread, so that pool threads never wait for each other.
    """
    if n_threads < 2 or not _may_wait():
        return map(work, items)
    return _in_pool(work, iter(items), n_threads)


def _in_pool(work: Callable[[Item], T], items: Iterator[Item], n_threads: int) -> Iterator[T]:
    first_two = list(islice(items, 2))
    if len(first_two) < 2:
        yield from map(work, first_two)
        return
    pool = _pool(n_threads)
    waiting = deque(pool.submit(work, item) for item in first_two)
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for one in waiting:
            one.cancel()
        for one in waiting:
            if not one.cancelled():
                one.exception()  # wait: what it reads must not be closed while it runs


def begin(work: Callable[[], T], n_threads: int) -> Future[T]:
    """Start work in another thread, or run it immediately where there is none to spare."""
    if n_threads > 1 and _may_wait():
        return _pool(n_threads).submit(work)
    return _at_once(work)


def begin_aside(work: Callable[[], T]) -> Future[T]:
    """Start work that mostly waits (for a disk) in a thread of its own, so that the others stay free to compute."""
    if not _may_wait():
        return _at_once(work)
    pool = _POOLS.get(_ASIDE)
    if pool is None:
        from concurrent.futures import ThreadPoolExecutor

        pool = _POOLS[_ASIDE] = ThreadPoolExecutor(1, "colonnade-aside", _begin)
    return pool.submit(work)


def never_wait_holding(is_held: Callable[[], bool]) -> None:
    """A thread that holds this lock hands no work to others.

    Garbage is collected in whichever thread happens to start it, and an object of h5py is freed under h5py's lock. So
    any thread may come to wait for that lock, and must not be waited for by the one that holds it. A program may hold
    it, and h5py itself never releases it where too little stack is left to call its `__exit__`.
    """
    _HELD.append(is_held)


def _may_wait() -> bool:
    return not getattr(_HERE, "works", False) and not any(is_held() for is_held in _HELD)


def _at_once(work: Callable[[], T]) -> Future[T]:
    from concurrent.futures import Future

    done: Future[T] = Future()
    done.set_result(work())
    return done


def _pool(n_threads: int) -> ThreadPoolExecutor:
    pool = _POOLS.get(n_threads)
    if pool is None:
        from concurrent.futures import ThreadPoolExecutor

        pool = _POOLS[n_threads] = ThreadPoolExecutor(n_threads, "colonnade", _begin)
    return pool


def _begin() -> None:
    _HERE.works = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOLS.clear)
