"""Files of ArtifactDB made by hand from the text of the specification, with h5py and json alone."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np

TEXT = h5py.string_dtype()
R_NA = struct.pack("<Q", 0x7FF00000000007A2)


def r_floats(values: list[float | None]) -> np.ndarray[Any, Any]:
    """Floats as R has them: a missing one is its NA."""
    return np.frombuffer(b"".join(R_NA if one is None else struct.pack("<d", one) for one in values), "<f8")


def floats_of_bits(bits: list[int]) -> np.ndarray[Any, Any]:
    return np.array(bits, dtype="<u8").view("<f8")


def put(data: h5py.Group, position: int, values: Any, placeholder: Any = None, **attributes: Any) -> h5py.Dataset:
    """One column that is a dataset. A placeholder has the type of the values, or is a text."""
    dataset = data.create_dataset(str(position), data=values)
    if placeholder is not None:
        is_text = isinstance(placeholder, (str, bytes))
        dtype = None if is_text else dataset.dtype
        dataset.attrs.create("missing-value-placeholder", placeholder, dtype=TEXT if is_text else dtype)
    for name, value in attributes.items():
        dataset.attrs[name] = value
    return dataset


def new_frame(path: Path, names: list[str], group: str = "df") -> tuple[h5py.File, h5py.Group]:
    """A file with the group of a frame: its column names, and an empty `data`."""
    file = h5py.File(path, "w")
    frame = file.create_group(group)
    frame.create_dataset("column_names", data=names, dtype=TEXT, shape=(len(names),))
    return file, frame.create_group("data")


def write_metadata(
    path: Path,
    columns: list[dict[str, Any]],
    n_rows: int,
    hdf5: int | None = 1,
    frame: int | None = 1,
    row_names: bool = False,
    group: str = "df",
) -> Path:
    """The metadata beside a file; a version of None is left out."""
    versions = [{} if one is None else {"version": one} for one in (hdf5, frame)]
    document = {
        "$schema": "hdf5_data_frame/v1.json",
        "path": path.name,
        "md5sum": hashlib.md5(path.read_bytes()).hexdigest(),
        "data_frame": {
            "columns": columns, "dimensions": [n_rows, len(columns)], "row_names": row_names, **versions[1],
        },
        "hdf5_data_frame": {"group": group, **versions[0]},
    }  # fmt: skip
    place = path.with_name(f"{path.name}.json")
    place.write_text(json.dumps(document))
    return place


def write_levels(folder: Path, name: str, levels: list[str], how: str = "vector") -> dict[str, Any]:
    """Levels in a file of their own, as a vector or as a frame of one column; gives what a column says of them."""
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([["values"], *([level] for level in levels)])
    (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.getvalue().encode()))
    described: dict[str, Any] = {"path": f"{name}.csv.gz", "md5sum": "", "$schema": "x"}
    if how == "vector":
        described["atomic_vector"] = {"type": "string", "length": len(levels), "compression": "gzip"}
    else:
        described["data_frame"] = {"columns": [{"name": "values", "type": "string"}], "dimensions": [len(levels), 1]}
        described["csv_data_frame"] = {"compression": "gzip"}
    (folder / f"{name}.csv.gz.json").write_text(json.dumps(described))
    return {"resource": {"type": "local", "path": f"{name}.csv.gz"}}
