"""What is no table: AnnData elements, of whatever the file holds, and sparse arrays, found by our own walk."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import colonnade as cn
from colonnade.anndata.sparse_matrix import SparseMatrix
from colonnade.anndata.values import Members
from colonnade.nodes.members import member_names
from colonnade.sparse import find_sparse, verify_sparse
from tools.fuzz.answers import Answers
from tools.fuzz.turns import Turn

MOST_ITEMS = 12
MOST_ARRAYS = 4
MOST_STORED = 1 << 16  # elements of a sparse matrix, and cells of a box, that are put into memory
_SOME = 20


def read_elements(file: Any, answers: Answers, turn: Turn) -> None:
    """Members of the file as elements: objects without a mark are read by what they look like."""
    names = (answers.ask("members", lambda: member_names(file._handle.root)) or [])[:MOST_ITEMS]
    for name in names if turn.every_column or not names else [names[turn.column % len(names)]]:
        answers.ask(f"{name} element", lambda name=name: told(cn.read_element(file, name)))  # type: ignore[misc]


def told(value: Any, depth: int = 0) -> Any:
    """A value as plain data; what comes lazily is read."""
    if isinstance(value, (dict, Members)):
        return [] if depth > 3 else [(name, told(value[name], depth + 1)) for name in islice(value, MOST_ITEMS)]
    if isinstance(value, SparseMatrix):
        found = value.to_scipy() if value.nnz <= MOST_STORED else value[:3]
        return value.shape, value.format, found.shape, found.data.tobytes(), found.indices.tobytes()
    if isinstance(value, cn.Table):
        return value.columns, len(value)
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.ravel()[:MOST_STORED].tolist()
    return repr(value)


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
