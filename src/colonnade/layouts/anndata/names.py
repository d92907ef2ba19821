"""The names AnnData gives to attributes and members of its elements."""

from __future__ import annotations

ENCODING_TYPE = "encoding-type"
ENCODING_VERSION = "encoding-version"
DATAFRAME = "dataframe"
VERSIONS = ("0.2.0", "0.1.0")
INDEX = "_index"
COLUMN_ORDER = "column-order"
ORDERED = "ordered"
LEGACY_CATEGORIES = "categories"
GROUP_ATTRIBUTES = (ENCODING_TYPE, ENCODING_VERSION, INDEX, COLUMN_ORDER)
# What the group of a column is, by its encoding-type and encoding-version.
CATEGORICAL = ("categorical", "0.2.0")
NULLABLE_STRINGS = ("nullable-string-array", "0.1.0")
NULLABLE = (("nullable-integer", "0.1.0"), ("nullable-boolean", "0.1.0"), NULLABLE_STRINGS)


def is_link_name(name: str) -> bool:
    """Whether a name of column-order can be one link; older files have paths there, of which each part must be one."""
    return all(part not in ("", ".") and "\0" not in part for part in name.split("/"))
