"""The attribute and group names of H5Col (HEP001, July 2026), and its rules for names that users choose."""

from __future__ import annotations

from colonnade.errors import DataError
from colonnade.model import is_utf8

CLASS = "CLASS"
CLASS_VALUE = "COLUMN_TABLE"
LIST_COLUMN = "LIST_COLUMN"
STRING_VALUES = "STRING_VALUES"
VERSION = "VERSION"
VERSION_VALUE = "1.0"
NROWS = "NROWS"
GENERATION = "GENERATION"
SOURCE_GENERATION = "SOURCE_GENERATION"
SOURCE_NROWS = "SOURCE_NROWS"
TITLE = "TITLE"
DESCRIPTION = "description"
COLUMN_ORDER = "column-order"
INDEX = "_index"
INDEX_COLUMNS = "INDEX_COLUMNS"
UNITS = "units"
UNITS_VOCABULARY = "units_vocabulary"
CATEGORIES = "CATEGORIES"  # the group, and the attribute of a column
SEARCH_INDEXES = "SEARCH_INDEXES"
SEARCH_INDEX_LIST = "SEARCH_INDEX_LIST"
ORDERED = "ordered"
KIND_ATTRIBUTE = "KIND"
OFFSETS = "OFFSETS"  # the member of a list, and the KIND of a list column
LIST_VALUES = "VALUES"
MASK = "MASK"
CHARS = "CHARS"
VALID_MIN = "valid_min"
VALID_MAX = "valid_max"
ENCODING_TYPE = "encoding-type"
COLUMN_LIST = "COLUMN_LIST"  # of drafts: an index dataset refers to its columns
ARROW_TYPE = "arrow_type"
SCALE_FACTOR = "scale_factor"
PANDAS = "pandas_metadata"  # pandas metadata of a column or frame
REFERENCES = "_references"  # ours, on a table whose references are strict: "standard"
GROUP_ATTRIBUTES = (
    CLASS, VERSION, NROWS, GENERATION, TITLE, DESCRIPTION, COLUMN_ORDER, INDEX, INDEX_COLUMNS, UNITS_VOCABULARY,
    ENCODING_TYPE, "encoding-version", PANDAS, REFERENCES,
)  # fmt: skip
# Attributes that describe how the values of a column are stored: dropped when the values are replaced.
VALUE_ATTRIBUTES = (
    UNITS, DESCRIPTION, ARROW_TYPE, SCALE_FACTOR, PANDAS, CATEGORIES, SEARCH_INDEX_LIST, VALID_MIN, VALID_MAX,
    MASK,
)  # fmt: skip
COLUMN_ATTRIBUTES = (
    UNITS, DESCRIPTION, ARROW_TYPE, SCALE_FACTOR, PANDAS, CATEGORIES, SEARCH_INDEX_LIST, UNITS_VOCABULARY, CLASS,
    KIND_ATTRIBUTE,
)  # fmt: skip
RESERVED = frozenset(
    {
        CATEGORIES, SEARCH_INDEXES, OFFSETS, LIST_VALUES, MASK, CHARS, CLASS, VERSION, NROWS, TITLE, INDEX_COLUMNS,
        GENERATION, SEARCH_INDEX_LIST, KIND_ATTRIBUTE, SOURCE_GENERATION, SOURCE_NROWS, VALID_MIN, VALID_MAX,
    }
)  # fmt: skip


def check_name(name: str, allow_reserved: bool) -> None:
    """Refuse a column name that H5Col or HDF5 does not allow (JN1, JN4)."""
    rule = "JC2"
    if name in ("", ".", ".."):
        problem = "is not a valid HDF5 link name"
    elif not is_utf8(name):
        problem = "is not valid UTF-8"
    elif "/" in name or "\0" in name:
        problem = "contains '/' or NUL, which HDF5 link names cannot contain"
    elif name in RESERVED:
        problem, rule = "is reserved by H5Col", "JN1"
    elif name.startswith("_") and not allow_reserved:
        problem = "begins with an underscore, which H5Col advises against (allow_reserved=True allows it)"
    else:
        return
    raise DataError(f"the name {problem}: rename the column", column=name, rule=rule)
