"""Pages held in memory: whatever is put, changed and dropped, they are what a dictionary of pages would hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from colonnade.pager.disk import Disk
from colonnade.pager.held_pages import PAGE, HeldPages, ranges_of, split_pages
from colonnade.pager.journal import JournaledFile

N_PAGES = 24


def held_by(pages: HeldPages) -> dict[int, bytes]:
    """Every page that is held, each once."""
    found: dict[int, bytes] = {}
    for run in pages.runs(5):
        assert len(run) <= 5
        for first, content in pages.parts(run):
            for number, page in enumerate(split_pages(content), first):
                assert number in run
                assert number not in found
                found[number] = bytes(page)
    together: dict[int, bytes] = {}
    stop = -1
    for first, contents in pages.adjacent(5):
        joined = b"".join(contents)
        n_pages = -(-len(joined) // PAGE)
        assert n_pages <= 5
        assert first >= stop
        stop = first + n_pages
        together |= {first + at: joined[at * PAGE : (at + 1) * PAGE] for at in range(n_pages)}
    assert together == found
    assert pages.n_pages == len(found)
    assert list(found) == sorted(found)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_pages_are_held_as_by_a_dictionary(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pages, model = HeldPages(), dict[int, bytes]()
    for _ in range(60):
        first = int(rng.integers(0, N_PAGES))
        run = range(first, min(first + int(rng.integers(1, 9)), N_PAGES))
        step = rng.integers(0, 5)
        if step < 2:
            content = rng.integers(0, 3, len(run) * PAGE, dtype=np.uint8).tobytes()
            if run.stop == N_PAGES:
                content = content[:-100]  # the last page of a file may be short
            pages.put(first, memoryview(content if step else bytearray(content)))
            model.update({page: content[at * PAGE : (at + 1) * PAGE] for at, page in enumerate(run)})
        elif step == 2:
            assert pages.change(first, 7, memoryview(b"new")) == (first in model)
            if first in model:
                model[first] = model[first][:7] + b"new" + model[first][10:]
        elif step == 3:
            pages.drop(run)
            model = {page: content for page, content in model.items() if page not in run}
        else:
            for held in list(pages.runs(4)):
                equal = {page for page in held if rng.random() < 0.5}
                stored = b"".join(model[page] if page in equal else _changed_at_the_end(model[page]) for page in held)
                assert pages.drop_unchanged(held, stored) == ranges_of([p for p in held if p not in equal])
                model = {page: content for page, content in model.items() if page not in equal}
        assert held_by(pages) == model
        within = pages.parts(run)
        assert b"".join(content for _, content in within) == b"".join(model[page] for page in run if page in model)


def _changed_at_the_end(page: bytes) -> bytes:
    return page[:-1] + bytes([page[-1] ^ 1])


def test_memory_that_stays_unchanged_is_not_copied_but_never_written_to(tmp_path: Path) -> None:
    """Pages are held in the caller's memory; a later change of a part of one goes into a copy."""
    path = tmp_path / "file"
    path.write_bytes(bytes(8 * PAGE))
    rows = np.full(4 * PAGE, 7, dtype=np.uint8)
    before = rows.copy()
    file = JournaledFile(path, Disk())
    try:
        file.leave_unchanged(rows.data)
        file.write_at(PAGE, memoryview(rows.data))
        (held,) = (content for _, content in file._held.parts(range(1, 5)))
        assert np.shares_memory(np.frombuffer(held, np.uint8), rows)
        file.write_at(2 * PAGE + 5, memoryview(b"abc"))
        file.write_at(6 * PAGE, memoryview(before.tobytes()[:PAGE]))  # of other memory: copied
        assert np.array_equal(rows, before)
        file.commit()
    finally:
        file.close()
    expected = bytearray(bytes(PAGE) + before.tobytes() + bytes(3 * PAGE))
    expected[2 * PAGE + 5 : 2 * PAGE + 8] = b"abc"
    expected[6 * PAGE : 7 * PAGE] = before.tobytes()[:PAGE]
    assert path.read_bytes() == bytes(expected)
