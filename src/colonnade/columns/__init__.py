"""Columns: decode stored elements to Arrow arrays and encode them back. Only this package knows all forms."""
