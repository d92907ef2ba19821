"""The HDF5 file format: bytes in, data classes out, every length checked. No HDF5 library in it."""
