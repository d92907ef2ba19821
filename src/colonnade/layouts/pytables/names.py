"""Attributes that PyTables sets itself."""

from colonnade.layouts.record_tables import TABLE_ATTRIBUTES as OF_H5TB

NROWS = "NROWS"
DIRTY = "DIRTY"
INDEX, INDEXES_OF = "INDEX", "_i_"
TABLE_ATTRIBUTES = (*OF_H5TB, NROWS, "AUTO_INDEX", "FLAVOR", "EXTDIM", "PSEUDOATOM", "BYTEORDER")
ARRAYS = ("ARRAY", "CARRAY", "EARRAY", "VLARRAY")
