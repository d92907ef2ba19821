"""The HDF5 C library: files, links, attributes, datatypes, datasets, filters.

This room alone imports h5py. Handles it gives out are h5py's low-level identifiers (`Group`,
`Dataset`), to be passed back to functions of this room and not used otherwise.
"""
