"""The names HEP001 gives to attributes and groups, and the rules for names that users choose."""

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
ANNDATA_CATEGORIES = "__categories"  # of a table that anndata reads as a frame of version 0.1.0 as well
SEARCH_INDEXES = "_search_indexes"
LATER_REVISION = "NROWS"
ARROW_TYPE = "arrow_type"
SCALE_FACTOR = "scale_factor"
PANDAS = "pandas_metadata"  # a note of what pandas knows of a column or a frame
GROUP_ATTRIBUTES = (
    CLASS, VERSION, TITLE, DESCRIPTION, COLUMN_ORDER, INDEX, UNITS_VOCABULARY, ENCODING_TYPE, "encoding-version",
    PANDAS,
)  # fmt: skip
# What says how the values of a column are stored: void when the values are replaced.
VALUE_ATTRIBUTES = (
    UNITS, DESCRIPTION, ARROW_TYPE, SCALE_FACTOR, PANDAS, CATEGORIES, INDEXES, COLUMNS_LIST, SEARCH_INDEXES,
)  # fmt: skip
COLUMN_ATTRIBUTES = (*VALUE_ATTRIBUTES, UNITS_VOCABULARY, ENCODING_TYPE, "encoding-version", "categories", ORDERED)


def check_name(name: str, allow_reserved: bool) -> None:
    """Refuse a column name that HEP001 6.1 or HDF5 does not allow (C2)."""
    if name in ("", "."):
        problem = "is no name that HDF5 can link"
    elif not is_utf8(name):
        problem = "is not UTF-8 text"
    elif "/" in name or "\0" in name:
        problem = "holds '/' or NUL, which HDF5 link names cannot"
    elif name == SEARCH_INDEXES:
        problem = "is reserved by HEP001 for search indexes"
    elif name.startswith("_") and not allow_reserved:
        problem = "begins with an underscore, which HEP001 reserves (allow_reserved=True insists)"
    else:
        return
    raise DataError(f"column name {name!r} {problem}: rename the column", column=name, rule="C2")
