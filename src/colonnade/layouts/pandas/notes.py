"""What pandas knows about a column, a label or a frame, as the strings that `exchange.pandas_notes` describes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from colonnade.values import Json

Properties = dict[str, Json]
"""Properties of a column, or of one level of the names of columns."""


def as_note(properties: Mapping[str, Json]) -> str | None:
    """Properties as a note; None if there are none."""
    return json.dumps(properties, separators=(",", ":"), ensure_ascii=False) if properties else None


def dtype_note(dtype: str | None) -> str | None:
    """The note of a column of a pandas type; None if its Arrow type expresses it."""
    return None if dtype is None else as_note({"dtype": dtype})


def frame_note(levels: Sequence[Mapping[str, Json]]) -> str | None:
    """The note of a frame whose columns have names of these levels; None if they are plain strings."""
    return as_note({"columns": [dict(level) for level in levels]}) if any(levels) else None
