"""Rules for search indexes of frames: A15, as far as headers and attributes show. S8, their contents, is checked by
values.

Whether an index suits its column is asked of the index kind itself, so that the checker and the queries agree.
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.h5.links import join_path
from colonnade.indexes import KINDS, WORDS, refusal
from colonnade.indexes.base import BAD_INDEX
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.search import search_indexes
from colonnade.layouts.anndata.seen import SeenElement, SeenFrame
from colonnade.layouts.index_home import PlacedIndex
from colonnade.model import Breach, TableInfo


def index_path(frame: SeenFrame, index: PlacedIndex) -> str:
    return join_path(join_path(frame.path, names.SEARCH_INDEXES), index.name)


def indexes_suit(one: SeenElement) -> Iterator[Breach]:
    """A15: an index says its kind and its column, refers to the rows of that, and suits them."""
    if not isinstance(one, SeenFrame):
        return
    for index in search_indexes(one.group, one.info):
        path = index_path(one, index)
        if index.kind and index.kind not in WORDS:
            message = "an index of a kind that is not known here: it is kept, and not used"
            yield Breach("note", path, message, repr(index.kind), f"one of {', '.join(KINDS)}")
            continue
        problem = problem_of(index, one.info)
        if problem is not None:
            yield Breach("error", path, f"the index is not used: {problem}", problem, "an index of a column as it is")


def problem_of(index: PlacedIndex, info: TableInfo) -> str | None:
    """Why an index cannot be used, by its header and attributes; None when it can."""
    if index.problem is not None or index.column is None:
        return index.problem
    column, word = info.by_name[index.column], WORDS.get(index.kind)
    if word is None:
        return f"its kind, {index.kind}, is not known here"
    try:
        return refusal(column) or KINDS[word].open(index.dataset, column, None).problem()
    except BAD_INDEX as error:
        return str(error)
