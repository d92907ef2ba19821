"""Sparse arrays, found by our own walk and read without libhdf5."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import colonnade as cn
from colonnade.sparse import find_sparse, verify_sparse
from tools.fuzz.answers import Answers
from tools.fuzz.turns import Turn

MOST_ARRAYS = 4
MOST_STORED = 1 << 16  # cells of a box that are put into memory
_SOME = 20


def read_sparse(file: Any, path: Path, answers: Answers, turn: Turn) -> None:
    names = answers.ask("sparse", lambda: find_sparse(path)) or []
    for name in names[:MOST_ARRAYS]:
        array = answers.ask_for(f"{name} sparse", lambda name=name: cn.open_sparse(file, name, n_threads=1))  # type: ignore[misc]
        if array is not None:
            _array(array, name, answers, turn)
    if names and turn.rest_of_sparse:
        answers.ask("sparse verify", lambda: len(verify_sparse(path)) and None)


def _array(array: Any, name: str, answers: Answers, turn: Turn) -> None:
    answers.ask(f"{name} sparse info", lambda: (array.info, array.fill))
    n_cells = answers.ask(f"{name} defined", lambda: array.n_defined)
    if n_cells is None or n_cells > MOST_STORED:
        answers.ask(f"{name} first", lambda: _plain(next(array.iter_cells(), None)))
        return
    answers.ask(f"{name} cells", lambda: _plain(array.cells()))
    if not turn.rest_of_sparse:
        return
    answers.ask(f"{name} measure", array.measure)
    box = tuple(slice(0, min(size, _SOME)) for size in array.shape)
    answers.ask(f"{name} dense", lambda: _dense(array, box))
    answers.ask(f"{name} where defined", lambda: array.defined(box).tolist())
    answers.ask(f"{name} chunk by chunk", lambda: [_plain(cells) for cells in array.iter_cells()])
    answers.ask(f"{name} scipy", lambda: array.to_scipy("csr", box).toarray().tolist())


def _dense(array: Any, box: Any) -> Any:
    return array[box].tolist()


def _plain(cells: Any) -> Any:
    return None if cells is None else (cells[0].tolist(), cells[1].tolist())
