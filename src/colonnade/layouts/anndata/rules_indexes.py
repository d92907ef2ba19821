"""Rules for search indexes of frames: A15, as far as headers and attributes show. S8, their contents, is checked by
values.
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.layouts.anndata.search import search_indexes
from colonnade.layouts.anndata.seen import SeenElement, SeenFrame
from colonnade.layouts.named_indexes import index_breaches
from colonnade.model import Breach


def indexes_suit(one: SeenElement) -> Iterator[Breach]:
    """A15: an index says its kind and its column, refers to the rows of that, and suits them."""
    if isinstance(one, SeenFrame):
        yield from index_breaches(search_indexes(one.group, one.info), one.info)
