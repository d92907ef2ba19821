"""NumPy arrays of one dtype, for annotations. An array of any dtype is `np.ndarray`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Booleans = NDArray[np.bool_]
    Float64s = NDArray[np.float64]
    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]
    Octets = NDArray[np.uint8]
    UInt64s = NDArray[np.uint64]
else:  # numpy.typing is not imported at run time
    Booleans = Float64s = Int32s = Int64s = Octets = UInt64s = np.ndarray

Image = np.ndarray  # elements of a dataset as HDF5 puts them into memory (`stored_dtypes`)


def distinct(numbers: np.ndarray) -> np.ndarray:
    """The distinct numbers, in their order. `np.unique` does the same, and first imports numpy.ma, which takes long."""
    ordered = np.sort(numbers, axis=None)
    is_new = np.empty(len(ordered), dtype=bool)
    is_new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]
