"""Files of rows that are not HDF5: CSV, Parquet, Arrow, JSON lines. One file per format.

A format is an object that satisfies `base.RowFormat`. To add one: a file with it, and a name in `known.ROW_FORMATS`.
What a format cannot store is refused by name, or written in another form that `fit` describes in a note.
"""
