"""The attribute and group names of HEP001, and its rules for names that users choose."""

from __future__ import annotations

from colonnade.errors import DataError
from colonnade.model import is_utf8

CLASS = "CLASS"
CLASS_VALUE = "COLUMN_TABLE"
VERSION = "VERSION"
VERSION_VALUE = "1.0"
TITLE = "TITLE"
DESCRIPTION = "description"
COLUMN_ORDER = "column-order"
INDEX = "_index"
UNITS = "units"
UNITS_VOCABULARY = "units_vocabulary"
INDEXES = "_indexes"
COLUMNS_LIST = "_columns_list"
CATEGORIES = "_categories"
ENCODING_TYPE = "encoding-type"
ORDERED = "ordered"
ANNDATA_CATEGORIES = "__categories"  # in a table that anndata can also read, as a frame of version 0.1.0
SEARCH_INDEXES = "_search_indexes"
ARROW_TYPE = "arrow_type"
SCALE_FACTOR = "scale_factor"
PANDAS = "pandas_metadata"  # pandas metadata of a column or frame
GROUP_ATTRIBUTES = (
    CLASS, VERSION, TITLE, DESCRIPTION, COLUMN_ORDER, INDEX, UNITS_VOCABULARY, ENCODING_TYPE, "encoding-version",
    PANDAS,
)  # fmt: skip
# Attributes that describe how the values of a column are stored: dropped when the values are replaced.
VALUE_ATTRIBUTES = (
    UNITS, DESCRIPTION, ARROW_TYPE, SCALE_FACTOR, PANDAS, CATEGORIES, INDEXES, COLUMNS_LIST, SEARCH_INDEXES,
)  # fmt: skip
COLUMN_ATTRIBUTES = (*VALUE_ATTRIBUTES, UNITS_VOCABULARY, ENCODING_TYPE, "encoding-version", "categories", ORDERED)


def check_name(name: str, allow_reserved: bool) -> None:
    """Refuse a column name that HEP001 6.1 or HDF5 does not allow (C2)."""
    if name in ("", "."):
        problem = "is not a valid HDF5 link name"
    elif not is_utf8(name):
        problem = "is not valid UTF-8"
    elif "/" in name or "\0" in name:
        problem = "contains '/' or NUL, which HDF5 link names cannot contain"
    elif name == SEARCH_INDEXES:
        problem = "is reserved by HEP001 for search indexes"
    elif name.startswith("_") and not allow_reserved:
        problem = "begins with an underscore, which HEP001 reserves (allow_reserved=True allows it)"
    else:
        return
    raise DataError(f"the name {problem}: rename the column", column=name, rule="C2")
