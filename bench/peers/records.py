"""Arrow columns as the fixed-width NumPy elements of PyTables and h5py: text padded with zeros, labels by code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.workload import LABELS

NAME_BYTES = 20
CODES = pa.array(LABELS)


def label_codes(labels: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """The number of each label among the words."""
    return np.asarray(pc.index_in(labels, CODES)).astype("u1")  # type: ignore[type-var]


def padded(strings: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Text as fixed-width bytes: each byte is put at its place at once, without a Python object a row."""
    whole = strings.combine_chunks() if isinstance(strings, pa.ChunkedArray) else strings
    _, offset_bytes, data = whole.buffers()
    offsets = np.frombuffer(offset_bytes, "i4")[whole.offset : whole.offset + len(whole) + 1]
    lengths = np.diff(offsets)
    matrix = np.zeros((len(whole), NAME_BYTES), "u1")
    matrix[np.arange(NAME_BYTES) < lengths[:, None]] = np.frombuffer(data, "u1")[offsets[0] : offsets[-1]]
    return matrix.view(f"S{NAME_BYTES}").ravel()
