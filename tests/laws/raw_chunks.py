"""Chunks as HDF5 stores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np


def raw_chunk(folder: Path, rows: np.ndarray[Any, Any], **options: Any) -> Any:
    """The only chunk of a dataset, as it is stored."""
    with h5py.File(folder / "one.h5", "w") as file:
        dataset = file.create_dataset("x", data=rows, chunks=(len(rows),), **options)
        return np.frombuffer(dataset.id.read_direct_chunk((0,))[1], dtype="u1").copy()
