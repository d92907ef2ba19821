"""Repairs of an AnnData data frame that do not touch data: its search indexes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from colonnade.h5.links import exists
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.search import search_indexes
from colonnade.layouts.anndata.seen import SeenFrame
from colonnade.layouts.index_home import IndexPlan
from colonnade.layouts.named_indexes import index_plans, remove_planned


def bad_indexes(frame: SeenFrame, wrong: Collection[str]) -> list[IndexPlan]:
    """The indexes to remove. `wrong` are the names of those whose contents are wrong.

    A frame that is a view of a HEP001 table inside it gets no new indexes: that table is the one to index.
    """
    may_build = not exists(frame.group, names.OTHER_FACE)
    return index_plans(search_indexes(frame.group, frame.info), frame.info, "A15", wrong, may_build)


def remove_indexes(frame: SeenFrame, gone: Sequence[IndexPlan]) -> None:
    """Remove indexes and their values."""
    remove_planned(frame.group, search_indexes(frame.group, frame.info), gone)
