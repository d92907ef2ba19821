"""The attributes and members with which vaex, MATLAB and netCDF describe columns."""

from __future__ import annotations

from colonnade.nodes import Dataset, Group, attributes

# vaex
TYPE, TABLE, COLUMNS, ORDER = "type", "table", "columns", "column_order"
DICTIONARY_ENCODED = "dictionary_encoded"
UNIT, DTYPE = "unit", "dtype"

# loom
LOOM_GROUPS = ("row_attrs", "col_attrs")

# MATLAB
MATLAB_CLASS, MATLAB_EMPTY = "MATLAB_class", "MATLAB_empty"

# netCDF
FILL, MISSING, SCALE, OFFSET = "_FillValue", "missing_value", "scale_factor", "add_offset"
UNITS, CALENDAR, LONG_NAME = "units", "calendar", "long_name"
DIMENSIONS, SCALE_NAME = "DIMENSION_LIST", "NAME"
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"

TITLE, DESCRIPTION = "title", "description"
GROUP_ATTRIBUTES = (TYPE, TITLE, DESCRIPTION)
COLUMN_ATTRIBUTES = (
    TYPE, DTYPE, UNIT, UNITS, DESCRIPTION, MATLAB_CLASS, "MATLAB_int_decode", FILL, MISSING, SCALE, OFFSET, CALENDAR,
    DIMENSIONS, "REFERENCE_LIST", "CLASS", SCALE_NAME, "_Netcdf4Dimid", "_Netcdf4Coordinates",
)  # fmt: skip


def is_vaex(group: Group) -> bool:
    """Whether the group declares itself a table of vaex: an attribute `type`, and its columns in a group."""
    return attributes.read_text(group, TYPE) == TABLE and group.hard_kind(COLUMNS) == "group"


def is_matlab(dataset: Dataset) -> bool:
    return dataset.attribute_storage(MATLAB_CLASS) is not None


def is_dimension_only(dataset: Dataset) -> bool:
    """Whether the dataset only gives a dimension of netCDF its length: it holds no values."""
    name = attributes.read_text(dataset, SCALE_NAME)
    return name is not None and name.startswith(NO_VARIABLE)


def has_dimensions(dataset: Dataset) -> bool:
    """Whether the dataset is a variable of netCDF along dimensions that other variables may share."""
    return dataset.attribute_storage(DIMENSIONS) is not None
