"""AnnData elements, of whatever a file holds."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

import colonnade as cn
from colonnade.anndata.sparse_matrix import SparseMatrix
from colonnade.anndata.values import Members
from colonnade.nodes.members import member_names
from tools.fuzz.answers import Answers
from tools.fuzz.turns import Turn

MOST_ITEMS = 12
MOST_STORED = 1 << 16  # elements of a sparse matrix that are put into memory


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
