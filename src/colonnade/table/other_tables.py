"""Datasets of h5py and tables of PyTables that are given as data: read as tables, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from colonnade.errors import FormatError, TableNotFound, UsageError

if TYPE_CHECKING:
    import h5py
    import numpy as np

    from colonnade.table.table import Table

_BATCH_ROWS = 65_536

if TYPE_CHECKING:

    class PyTablesFile(Protocol):
        filename: str

    class PyTablesTable(Protocol):
        """A table of PyTables."""

        _v_file: PyTablesFile
        _v_pathname: str
        nrows: int

        def flush(self) -> None: ...
        def read(self, start: int, stop: int) -> np.ndarray: ...


def as_rows(data: object) -> object:
    """A dataset of h5py or a table of PyTables as rows that can be streamed; any other object unchanged."""
    package, name = type(data).__module__.split(".")[0], type(data).__name__
    if package == "h5py" and name == "Dataset":
        return _of_h5py(cast("h5py.Dataset", data))
    if package == "tables" and name == "Table":
        return _of_pytables(cast("PyTablesTable", data))
    if package == "tables":
        raise UsageError(
            f"cannot write a {name} of PyTables as a table. Give a Table, or open its file: "
            "colonnade.open(file).table(path, layout='pytables')"
        )
    return data


def _of_h5py(dataset: h5py.Dataset) -> Table:
    from colonnade.table.file import open

    try:
        return open(dataset.file)[dataset.name]
    except (UsageError, FormatError, TableNotFound) as error:
        raise UsageError(
            f"cannot write {dataset.name} of {dataset.file.filename} as a table: only one-dimensional datasets of a "
            "compound type are tables. Give its values by the name of a column: {'name': dataset[:]}"
        ) from error


def _of_pytables(table: PyTablesTable) -> Table | Iterator[np.ndarray]:
    from colonnade.table.file import open

    table.flush()
    path = Path(table._v_file.filename)
    if path.is_file():
        return open(path)[table._v_pathname]
    starts = range(0, max(table.nrows, 1), _BATCH_ROWS)  # a file in memory
    return (table.read(start, min(start + _BATCH_ROWS, table.nrows)) for start in starts)
