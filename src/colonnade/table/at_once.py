"""Open, read or write a table in one call, by the path of its file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Never

import pyarrow as pa

from colonnade.errors import UsageError
from colonnade.layouts import located, new_directory
from colonnade.model import ColumnOptions, Progress
from colonnade.opening import open_file
from colonnade.pager.options import Links, Target
from colonnade.pager.options import Mode as FileMode
from colonnade.pager.receipts import Trust
from colonnade.table.file import File, open
from colonnade.table.table import Table

if TYPE_CHECKING:
    from colonnade.edit.create import ReferenceForm, TableOptions, WriteMode
    from colonnade.predicate.tree import Predicate


def open_table(
    target: Target,
    table: str | None = None,
    mode: FileMode = "r",
    *,
    trust: Trust = "verified",
    links: Links = "folder",
    layout: str | None = None,
) -> Table:
    """Open one table of a file; without a name, the only one. Closing the table closes the file.

    layout: read it as a table of this layout, as `File.table` does.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> t.columns
    ['ts', 'energy']
    >>> t.close()
    """
    file = open(target, mode, trust=trust, links=links)
    try:
        return file._only_table(layout) if table is None else file.table(table, layout)
    except BaseException:
        file.close()
        raise


def read(
    target: Target,
    table: str | None = None,
    columns: Sequence[str] | None = None,
    rows: slice | Sequence[int] | None = None,
    where: Predicate | str | None = None,
    *,
    dictionaries: bool = False,
    views: bool = False,
    links: Links = "folder",
    layout: str | None = None,
) -> pa.Table:
    """Read a table, or some columns and rows of it, as a pyarrow.Table.

    table: its path; may be left out when the file holds one table. columns: their names.
    rows: a slice, or row numbers in any order. where: which of these rows, as for Table.where.
    dictionaries: strings stored as categories become Arrow dictionaries. views: strings become Arrow string views.
    links: which other files this one may refer to, as for colonnade.open. layout: read it as a table of this layout.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> cn.read("run.h5", "events", columns=["ts"], where="energy > 5").to_pydict()
    {'ts': [2, 3]}
    """
    with open(target, links=links) as file:

        def chosen() -> pa.Table:
            query = (file._only_table(layout) if table is None else file.table(table, layout))._query()
            if rows is not None:
                query = query[rows] if isinstance(rows, slice) else query.take(rows)
            if where is not None:
                query = query.where(where)
            return (query if columns is None else query.select(columns)).to_arrow(
                dictionaries=dictionaries, views=views
            )

        read_rows: pa.Table = file._consistent(chosen)
        return read_rows


def write(
    target: Target,
    data: object,
    table: str = "table",
    *,
    mode: WriteMode | Literal["append"] = "error",
    progress: Progress | None = None,
    title: str | None = None,
    description: str | None = None,
    units_vocabulary: str | None = None,
    columns: Mapping[str, ColumnOptions | Mapping[str, object]] | None = None,
    labels: Sequence[str] | Mapping[str, object] | None = None,
    index: Mapping[str, str | Sequence[str]] | None = None,
    layout: str = "hep001",
    version: str | tuple[int, int] | None = None,
    directory: bool = False,
    anndata: bool | Literal["0.7"] = False,
    allow_reserved: bool = False,
    references: ReferenceForm = "object",
    **unknown: Never,
) -> None:
    """Write data as a table into a new or an existing HDF5 file.

    data: an Arrow, pandas, polars or DuckDB table (anything with __arrow_c_stream__), a dict of arrays, a NumPy record
    array, a compound dataset of h5py or a table of PyTables (streamed), or an iterator of such batches (streamed,
    bounded memory). table: where in the file, "/" for the root. mode:
    what to do if the table exists: "error", "replace", or "append" (the options of the table then apply). progress:
    called with the rows written so far and the rows in all (None where unknown); with `index`, the rows read for each
    indexed column count as well.

    title, description: what the table holds, in words. units_vocabulary: the vocabulary of its units.
    columns: {name: colonnade.column(...)}. labels: the row labels, as [names] of columns or {name: array}.
    index: the search indexes, as {column: kind or kinds}. layout: "hep001", "h5col", "anndata", "artifactdb",
        "pytables", "pandas" or "compound".
    allow_reserved: whether names that HEP001 reserves may be used.
    version, directory: for the layout "artifactdb": version="1.0" (a group that states its version), or "H/F", a legacy
    form given by the versions of hdf5_data_frame and data_frame; directory=True: the current form, a directory at the
    target.
    references: for the layout "h5col": "standard" writes references of the type H5T_STD_REF, which its standard asks
    for and most programs, h5py and h5col among them, cannot read.
    anndata: True for a HEP001 table that anndata can also read as a data frame, with labels and missing rows: in one
    group where possible, otherwise as the member "_hep001" of the frame. "0.7": always in one group, as in anndata 0.7.

    >>> data = {"ts": [1, 2], "energy": [0.5, 0.7]}
    >>> cn.write("run.h5", data, "events", title="Run 42", columns={"energy": cn.column(units="MeV")})
    >>> cn.write("run.h5", data, "events", mode="append")
    >>> len(cn.read("run.h5", "events"))
    4
    """
    from colonnade.edit.create import TableOptions, refuse_unknown
    from colonnade.table.other_tables import as_rows

    refuse_unknown(unknown, "write", write)
    options = TableOptions(
        title=title, description=description, units_vocabulary=units_vocabulary, columns=columns, labels=labels,
        index=index, layout=layout, version=version, directory=directory, anndata=anndata,
        allow_reserved=allow_reserved, references=references,
    )  # fmt: skip
    write_with(target, as_rows(data), table, mode, options, progress)


def write_with(
    target: Target,
    data: object,
    table: str,
    mode: WriteMode | Literal["append"],
    options: TableOptions,
    progress: Progress | None,
    complete: Callable[[File], None] | None = None,
) -> None:
    """Write data as `write` does. complete: changes the file further, in the same commit, unless rows are appended."""
    from colonnade.edit.create import check_place, prepare

    if options.directory:
        target, table = _in_directory(target, options.layout)
    hdf5_file, notes = located(target)
    if mode == "append":
        if _append_to(target, hdf5_file, table, data, progress):
            return
        mode = "error"
    draft = prepare(data, options)
    if isinstance(hdf5_file, (str, os.PathLike)) and Path(hdf5_file).is_file() and Path(hdf5_file).stat().st_size:
        with open(target) as file:  # opening it for changes would already alter a few bytes
            file._consistent(lambda: check_place(file._handle.root, file._absolute(table), mode, draft))
    handle = open_file(hdf5_file, "a", large_root=draft.large_attributes and table.strip("/") == "")
    handle.notes |= notes
    with File(handle) as file, file.transaction() if complete is not None else nullcontext():
        file._write(table, draft, mode, progress)
        if complete is not None:
            complete(file)


def _in_directory(target: Target, layout: str) -> tuple[Path, str]:
    """The file of a table stored as a directory, which is created if it does not exist; and the table's path."""
    if not isinstance(target, (str, os.PathLike)):
        raise UsageError("directory=True creates a directory: give its path")
    folder = Path(target)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"cannot create directory {folder}: it is a file. Choose another path")
    file, table = new_directory(layout, folder)
    folder.mkdir(parents=True, exist_ok=True)
    return file, table


def _append_to(target: Target, hdf5_file: Target, table: str, data: object, progress: Progress | None) -> bool:
    """Append to a table; returns False when the table does not exist. hdf5_file: the HDF5 file of the target."""
    if isinstance(hdf5_file, (str, os.PathLike)) and not (Path(hdf5_file).is_file() and Path(hdf5_file).stat().st_size):
        return False
    with open(target) as file:
        if not file._has_table(table):
            return False
    with open(target, "r+") as file:
        file[table].append(data, progress=progress)
    return True
