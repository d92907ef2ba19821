"""Refuses what AnnData and ArtifactDB frames cannot store: several row labels, descriptions, options of HEP001."""

from __future__ import annotations

from collections.abc import Sequence

from colonnade.errors import UsageError
from colonnade.filters.names import is_lossy
from colonnade.model import ColumnOptions, TableText


def check_labels_and_texts(labels: Sequence[str], text: TableText, frame: str, of_labels: str) -> None:
    """Refuse several row labels, and a title or description of the table. The messages use `frame` and `of_labels`."""
    if len(labels) > 1:
        raise UsageError(
            f"{frame} has one array of {of_labels}, not {len(labels)} ({', '.join(map(repr, labels))}): name one of "
            "them with labels=[...]; the others become columns",
        )
    for option in ("title", "description", "units_vocabulary"):
        if getattr(text, option) is not None:
            raise UsageError(f"{frame} cannot store a {option}: leave it out", option=option)


def check_column_texts(name: str, options: ColumnOptions, frame: str) -> None:
    """Refuse units and a description of a column."""
    for option in ("units", "units_vocabulary", "description"):
        if getattr(options, option) is not None:
            raise UsageError(f"column {name!r}: {frame} cannot store {option}: leave it out", column=name)
    if is_lossy(options.filters):
        reason = f"columns of {frame} keep all values: use another filter than {options.filters}"
        raise UsageError(f"column {name!r}: {reason}", column=name)
