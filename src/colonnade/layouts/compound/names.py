"""Attributes of HDF5's high-level tables (H5TB), which other compound datasets do not have."""

CLASS = "CLASS"
TITLE = "TITLE"
VERSION = "VERSION"
TABLE_ATTRIBUTES = (CLASS, TITLE, VERSION)
