"""Names of the attributes and members that pandas gives to what `HDFStore` stores."""

from __future__ import annotations

PANDAS_TYPE = "pandas_type"
FIXED_FRAME, FIXED_SERIES = "frame", "series"
TABLE_FRAME, TABLE_SERIES = "frame_table", "series_table"
FIXED = (FIXED_FRAME, FIXED_SERIES)
TABLES = (TABLE_FRAME, TABLE_SERIES)
PANDAS_TYPES = (*FIXED, *TABLES)

# Attributes that PyTables gives to every node.
NODE = ("CLASS", "VERSION", "TITLE", "FILTERS", "FLAVOR")
GROUP_ATTRIBUTES = (
    *NODE, PANDAS_TYPE, "pandas_version", "encoding", "errors", "ndim", "nblocks", "name", "table_type", "index_cols",
    "values_cols", "non_index_axes", "data_columns", "nan_rep", "levels", "info", "metadata", "mi_level_nan_rep",
    "data_col_nan_rep",
)  # fmt: skip
COLUMN_ATTRIBUTES = (
    *NODE, "kind", "name", "nan_rep", "transposed", "value_type", "tz", "freq", "index_class", "ordered", "shape",
    "PSEUDOATOM",
)  # fmt: skip

# Of both formats.
KIND, NAME, ZONE, NAN_REP, ENCODING = "kind", "name", "tz", "nan_rep", "encoding"

# Of the fixed format. A regular axis is an array, one of several levels has codes and levels.
COLUMN_AXIS, ROW_AXIS = "axis0", "axis1"
SERIES_INDEX, SERIES_VALUES = "index", "values"
MULTI = "multi"
VALUE_TYPE, TRANSPOSED, EMPTY_SHAPE, ORDERED = "value_type", "transposed", "shape", "ordered"

# Of the table format: a PyTables table, the categories of its columns, and PyTables' own indexes.
TABLE, META, THEIR_INDEXES = "table", "meta", "_i_table"

MOST_LEVELS = 64
MOST_UNNAMED = 1 << 17  # columns of a block whose names cannot be read
ITEM_SUFFIXES = ("_variety", "_nlevels")
AXIS_ARRAYS = (COLUMN_AXIS, ROW_AXIS, SERIES_INDEX, SERIES_VALUES)


def block_values(block: int) -> str:
    """The dataset with the values of a block: a row per row, and a column per column."""
    return f"block{block}_values"


def block_items(block: int) -> str:
    """The axis with the names of a block's columns."""
    return f"block{block}_items"


def level(axis: str, number: int) -> str:
    """The dataset with the distinct values of one level of an axis."""
    return f"{axis}_level{number}"


def level_codes(axis: str, number: int) -> str:
    """The dataset with the codes of one level of an axis."""
    return f"{axis}_label{number}"


def axis_categories(axis: str) -> str:
    """The dataset with the categories of an axis that is categorical."""
    return f"{axis}_categories"


def is_member_of_fixed(name: str) -> bool:
    """Whether a member of this name belongs to a frame or Series in the fixed format."""
    if name in AXIS_ARRAYS:
        return True
    axis = name.split("_", 1)[0]
    return axis in AXIS_ARRAYS or (axis.startswith("block") and axis[5:].isdigit())
