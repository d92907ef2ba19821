"""The HDF5 file format: bytes in, data classes out, every length checked. Does not use the HDF5 library."""
