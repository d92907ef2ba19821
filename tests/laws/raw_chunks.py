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


def raw_chunk_of_type(folder: Path, rows: np.ndarray[Any, Any], kind: Any, filter_: int) -> Any:
    """The same, of any datatype, through a filter given by its number."""
    with h5py.File(folder / "one.h5", "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((len(rows),))
        creation.set_filter(filter_, 0, ())
        space = h5py.h5s.create_simple((len(rows),))
        made = h5py.h5d.create(file.id, b"x", kind, space, dcpl=creation)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, rows)
        return np.frombuffer(made.read_direct_chunk((0,))[1], dtype="u1").copy()
