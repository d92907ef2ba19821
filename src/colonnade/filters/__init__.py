"""Byte filters of chunks: named, undone and applied, without the HDF5 library."""
