"""Attributes that PyTables sets itself."""

from colonnade.layouts.records.tables import TABLE_ATTRIBUTES as OF_H5TB

NROWS = "NROWS"
DIRTY = "DIRTY"
INDEX, INDEXES_OF = "INDEX", "_i_"
PYTABLES_ATTRIBUTES = (*OF_H5TB, NROWS, "AUTO_INDEX", "FLAVOR", "EXTDIM", "PSEUDOATOM", "BYTEORDER")
ARRAY_CLASSES = ("ARRAY", "CARRAY", "EARRAY", "VLARRAY")
