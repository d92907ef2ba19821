"""Byte filters of chunks: their names, undoing and applying them without the HDF5 library."""
