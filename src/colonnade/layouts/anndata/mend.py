"""What can be mended in an AnnData data frame without touching data: its search indexes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from colonnade.h5.links import address, exists
from colonnade.indexes import WORDS, refusal
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.rules_indexes import index_path, problem_of
from colonnade.layouts.anndata.search import search_indexes
from colonnade.layouts.anndata.seen import SeenFrame
from colonnade.layouts.index_home import IndexPlan, PlacedIndex, remove_index
from colonnade.model import shown_name


def bad_indexes(frame: SeenFrame, wrong: Collection[str]) -> list[IndexPlan]:
    """The indexes that must go. `wrong` are the names of those whose contents are wrong.

    Those that say no kind, or one that is not known here, stay. A frame that shows the columns of a table inside it
    has none of its own: that table is the one to be indexed.
    """
    found = []
    for index in search_indexes(frame.group, frame.info):
        word = WORDS.get(index.kind)
        rules = [] if problem_of(index, frame.info) is None else ["A15"]
        rules += ["S8"] if index.name in wrong else []
        if rules and word is not None:
            path = index_path(frame, index)
            mends = tuple((rule, shown_name(path)) for rule in rules)
            found.append(IndexPlan(index.name, path, address(index.dataset), word, _buildable(frame, index), mends))
    return found


def _buildable(frame: SeenFrame, index: PlacedIndex) -> str | None:
    """The column that an index can be built for; None when there is none."""
    if index.column is None or exists(frame.group, names.OTHER_FACE):
        return None
    return index.column if refusal(frame.info.by_name[index.column]) is None else None


def remove_indexes(frame: SeenFrame, gone: Sequence[IndexPlan]) -> None:
    """Remove indexes and their values."""
    lost = {plan.address for plan in gone}
    for index in search_indexes(frame.group, frame.info):
        if address(index.dataset) in lost:
            remove_index(frame.group, index)
