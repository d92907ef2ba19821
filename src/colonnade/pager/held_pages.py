"""New content of pages of a file, held in memory until it is written."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import groupby
from threading import Lock

import numpy as np

PAGE = 4096


class HeldPages:
    """Runs of consecutive pages with their content, which do not overlap. The last page of a file may be short.

    Long runs stay in one piece: a change of many pages must not cost work for each of them. Other threads may read
    while one changes. Of a page that was changed in part, what it was in the file is held as well, so that it is not
    read again for the journal.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []  # increasing
        self._contents: dict[int, memoryview] = {}  # by the first page
        self._before: dict[int, bytes] = {}  # single pages as they are in the file
        self._lock = Lock()
        self.n_pages = 0

    @property
    def n_bytes(self) -> int:
        """The memory that the pages take, with what they were."""
        return (self.n_pages + len(self._before)) * PAGE

    def put(self, first: int, content: memoryview) -> None:
        """Hold consecutive pages from `first` on, and forget what was held of them before."""
        with self._lock:
            self._remove(range(first, first + _n_pages(content)))
            self._insert(first, content)

    def drop(self, pages: range) -> None:
        with self._lock:
            self._remove(pages)

    def clear(self) -> None:
        with self._lock:
            self._firsts, self._contents, self.n_pages = [], {}, 0
            self._before = {}

    def put_part(self, page: int, before: bytes, at: int, data: memoryview) -> None:
        """Hold a page that is not held, whose content in the file is `before`, with these bytes of it changed."""
        content = bytearray(before)
        content[at : at + len(data)] = data
        with self._lock:
            self._insert(page, memoryview(content))
            self._before[page] = before

    def stored(self, pages: range) -> bytes | None:
        """What consecutive pages are in the file, if that is known of all of them."""
        if len(pages) == 1:
            return self._before.get(pages.start)
        parts = [self._before.get(page, b"") for page in pages] if len(pages) <= len(self._before) else [b""]
        return b"".join(parts) if all(parts) else None

    def change(self, page: int, at: int, data: memoryview) -> bool:
        """Change bytes of a page, counted from its beginning; False if the page is not held."""
        number = bisect_right(self._firsts, page) - 1  # without the lock: only this thread changes what is held
        if number < 0:
            return False
        first = self._firsts[number]
        content, begin = self._contents[first], (page - first) * PAGE
        if begin >= len(content):
            return False
        if content.readonly:
            content, begin = memoryview(bytearray(content[begin : begin + PAGE])), 0
            self.put(page, content)
        content[begin + at : begin + at + len(data)] = data
        return True

    def parts(self, pages: range) -> list[tuple[int, memoryview]]:
        """What is held of these pages: the first page of each run, and its content."""
        with self._lock:
            return [
                (max(first, pages.start), self._contents[first][_bytes_of(pages, first)])
                for first in self._overlapping(pages)
            ]

    def runs(self, most: int) -> Iterator[range]:
        """All held pages in order, as ranges of consecutive pages of at most `most`."""
        with self._lock:
            bounds = [(first, first + _n_pages(self._contents[first])) for first in self._firsts]
        start = stop = -1
        for first, end in bounds:
            if first != stop:
                yield from _cut(start, stop, most)
                start = first
            stop = end
        yield from _cut(start, stop, most)

    def adjacent(self, most: int) -> Iterator[tuple[int, list[memoryview]]]:
        """All held pages in order: consecutive ones together, at most `most` pages; the first page and the contents."""
        with self._lock:
            runs = [(first, self._contents[first]) for first in self._firsts]
        start = stop = -1
        together: list[memoryview] = []
        for first, whole in runs:
            n_pages = _n_pages(whole)
            for begin in range(0, n_pages, most):
                content = whole if n_pages <= most else whole[begin * PAGE : (begin + most) * PAGE]
                next_stop = first + begin + _n_pages(content)
                if first + begin != stop or next_stop - start > most:
                    if together:
                        yield start, together
                    start, together = first + begin, []
                together.append(content)
                stop = next_stop
        if together:
            yield start, together

    def drop_unchanged(self, pages: range, stored: bytes) -> list[range]:
        """Forget those of these held pages whose content is `stored`; return the others, as ranges."""
        alone = self._contents.get(pages.start) if len(pages) == 1 else None
        if alone is not None and alone[:PAGE].tobytes() != stored:
            return [pages]
        changed: list[int] = []
        for first, content in self.parts(pages):
            begin = (first - pages.start) * PAGE
            changed += (first + page for page in _unlike(content, stored[begin : begin + len(content)]))
        if len(changed) == len(pages):
            return [pages]
        remaining = ranges_of(changed)
        edges = [pages.start, *(edge for part in remaining for edge in (part.start, part.stop)), pages.stop]
        for start, stop in zip(edges[0::2], edges[1::2], strict=True):
            self.drop(range(start, stop))
        return remaining

    def _overlapping(self, pages: range) -> list[int]:
        """The first pages of the runs that have some of these pages."""
        low = max(bisect_right(self._firsts, pages.start) - 1, 0)
        firsts = self._firsts[low : bisect_left(self._firsts, pages.stop)]
        if firsts and firsts[0] + _n_pages(self._contents[firsts[0]]) <= pages.start:
            del firsts[0]
        return firsts

    def _remove(self, pages: range) -> None:
        for first in self._overlapping(pages):
            content = self._contents.pop(first)
            self._firsts.remove(first)
            self.n_pages -= _n_pages(content)
            if first < pages.start:
                self._insert(first, content[: (pages.start - first) * PAGE])
            if first + _n_pages(content) > pages.stop:
                self._insert(pages.stop, content[(pages.stop - first) * PAGE :])

    def _insert(self, first: int, content: memoryview) -> None:
        self._firsts.insert(bisect_left(self._firsts, first), first)
        self._contents[first] = content
        self.n_pages += _n_pages(content)


def ranges_of(pages: list[int]) -> list[range]:
    """Increasing pages as ranges of consecutive ones."""
    runs = groupby(enumerate(pages), lambda numbered: numbered[1] - numbered[0])
    members = ([page for _, page in run] for _, run in runs)
    return [range(run[0], run[-1] + 1) for run in members]


def split_pages(content: memoryview) -> list[memoryview]:
    return [content[at : at + PAGE] for at in range(0, len(content), PAGE)]


def _n_pages(content: memoryview) -> int:
    return -(-len(content) // PAGE)


def _bytes_of(pages: range, first: int) -> slice:
    """The bytes of these pages in a run that begins with page `first`."""
    return slice(max(pages.start - first, 0) * PAGE, (pages.stop - first) * PAGE)


def _cut(start: int, stop: int, most: int) -> Iterator[range]:
    return (range(at, min(at + most, stop)) for at in range(start, stop, most))


def _unlike(content: memoryview, stored: bytes) -> list[int]:
    """The pages of `content`, counted from 0, that differ from what is stored."""
    if len(content) <= PAGE:
        return [0] if content.tobytes() != stored else []
    n_whole = min(len(content), len(stored)) // PAGE
    new, old = (np.frombuffer(data, np.uint64, n_whole * PAGE // 8)[:: PAGE // 8] for data in (content, stored))
    differ = (new != old).tolist()  # most pages that differ do so in their first bytes
    differ += [False] * (_n_pages(content) - n_whole)
    return [
        page
        for page, is_other in enumerate(differ)
        if is_other or content[page * PAGE : (page + 1) * PAGE].tobytes() != stored[page * PAGE : (page + 1) * PAGE]
    ]
