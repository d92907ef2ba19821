"""Columns: stored form to Arrow values and missing rows, and back. The one room that knows all forms."""
