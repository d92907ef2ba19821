"""Which HDF5 library h5py runs on."""

from __future__ import annotations

import h5py


def hdf5_version() -> str:
    """The version of the HDF5 library, such as "1.14.6"."""
    return str(h5py.version.hdf5_version)
