"""Which revision of HEP001 a table group follows: April 2026 (layout `hep001`), or July 2026 (layout `h5col`).

Both declare the same CLASS and VERSION, so structure decides. July tables count their rows in NROWS. Drafts between the
two have no NROWS, but July's names; they are read as tables of `h5col`.
"""

from __future__ import annotations

from colonnade.nodes import Group, attributes

_APRIL_GROUP, _JULY_GROUP = "_search_indexes", "SEARCH_INDEXES"
_APRIL_REFERENCES = ("_columns_list", "_categories", "_indexes", "_search_indexes")
_JULY_REFERENCES = ("CATEGORIES", "SEARCH_INDEX_LIST")
_MOST_LOOKED_AT = 8  # columns


def is_column_table(group: Group) -> bool:
    """Whether the group is a table of any revision. Only CLASS decides, however it is stored."""
    return attributes.read_text(group, "CLASS") == "COLUMN_TABLE"


def is_july(group: Group) -> bool:
    """Whether a table group follows the revision of July 2026, or a draft of it."""
    if group.attribute_storage("NROWS") is None:
        return group.attribute_storage("INDEX_COLUMNS") is not None or _has_group(group, _JULY_GROUP)
    return not _is_april_with_nrows(group)


def _is_april_with_nrows(group: Group) -> bool:
    """Whether the attribute NROWS is a user's own: the table has references of April, and none of July."""
    if group.attribute_storage("INDEX_COLUMNS") is not None or _has_group(group, _JULY_GROUP):
        return False
    if _has_group(group, _APRIL_GROUP):
        return True
    listed = (attributes.read_texts(group, "column-order") or [])[:_MOST_LOOKED_AT]
    columns = [group.open_dataset(name) for name in listed if group.hard_kind(name) == "dataset"]
    present = {name for column in columns if column is not None for name in column.attribute_names()}
    return not present.isdisjoint(_APRIL_REFERENCES) and present.isdisjoint(_JULY_REFERENCES)


def _has_group(group: Group, name: str) -> bool:
    return group.hard_kind(name) == "group"
