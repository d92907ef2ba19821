"""The bytes of a file and their commits: journal, locks, marks, recovery. No HDF5 in it."""
