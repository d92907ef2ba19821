"""The rule A15 for search indexes of frames, by headers and attributes. S8, the contents, needs the values."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.layouts.anndata.search import search_indexes
from colonnade.layouts.anndata.seen import SeenElement, SeenFrame
from colonnade.layouts.named_indexes import index_breaches
from colonnade.model import Breach


def indexes_suit(one: SeenElement) -> Iterator[Breach]:
    """A15: an index declares its kind and column, refers to the column's rows, and matches them."""
    if isinstance(one, SeenFrame):
        yield from index_breaches(search_indexes(one.group, one.info), one.info)
