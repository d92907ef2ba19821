"""Creates AnnData objects from some rows of a file, and files from AnnData objects.

`to_anndata("a.h5ad", obs="n_genes > 500")` reads of X, layers, obsm and obsp only the chunks that hold rows that match.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from colonnade.anndata import Members, SparseMatrix
from colonnade.anndata.parts import RowIndices
from colonnade.anndata.read import element_value
from colonnade.anndata.rows import increasing, read_rows
from colonnade.anndata.source import Element, FileSource
from colonnade.anndata.sparse_matrix import as_sparse_array
from colonnade.errors import FormatError, TableNotFound, UsageError
from colonnade.pager.options import Target
from colonnade.predicate.tree import Predicate
from colonnade.table import File, Table
from colonnade.table import open as open_file
from colonnade.table import write as write_table

if TYPE_CHECKING:
    import anndata

    class Cuttable(Protocol):
        """An array, a matrix or a frame."""

        def __getitem__(self, key: object, /) -> Cuttable: ...


WantedMembers = str | Predicate | ArrayLike | None  # a predicate, row numbers, or one boolean per row; None: all
# Which axes the members of a mapping have: of obs (0) and of var (1).
AXIS_NAMES = {"layers": (0, 1), "obsm": (0,), "varm": (1,), "obsp": (0, 0), "varp": (1, 1)}

GRAPHS = ("connectivities", "distances")


def _anndata() -> ModuleType:
    try:
        return import_module("anndata")
    except ImportError:
        raise UsageError("this needs the package anndata (pip install anndata)") from None


def to_anndata(
    target: Target | File, element: str = "/", *, obs: WantedMembers = None, var: WantedMembers = None
) -> anndata.AnnData:
    """An AnnData object in memory with the requested rows of obs and var; by default all.

    target: an `.h5ad` or `.h5mu` file, or anything `open` takes. element: the path of the AnnData object in it
    ("mod/rna" in a file of MuData). obs, var: a predicate (`"n_genes > 500"`), increasing row numbers, or a mask. Only
    the chunks of X, layers, obsm, obsp and raw that hold wanted rows are read; in a CSC matrix, selecting columns reads
    only those columns, and selecting rows reads all of it. uns is read whole, categories stay as they are in the file,
    and var does not cut raw, as in anndata. Files of before 0.7 are read whole first.

    >>> import anndata, pandas
    >>> obs = pandas.DataFrame({"n_genes": [100, 900]}, index=["a", "b"])
    >>> cn.from_anndata(anndata.AnnData(np.eye(2), obs=obs), "cells.h5ad")
    >>> cn.to_anndata("cells.h5ad", obs="n_genes > 500").shape
    (1, 2)
    """
    _anndata()
    if isinstance(target, File):
        return target._consistent(lambda: _read(target, element, obs, var))
    with open_file(target) as file:
        return file._consistent(lambda: _read(file, element, obs, var))


def _read(file: File, path: str, obs: WantedMembers, var: WantedMembers) -> anndata.AnnData:
    path = "/" + path.strip("/")
    group = _group_at(file, path)
    if group is None or not {"obs", "var"} <= set(group.names):
        raise FormatError(f"{file.name}: {path} is not an AnnData object: it has no obs and var", path=path)
    frame = group.find("obs")
    if frame is not None and frame.node.is_dataset:
        return _read_old(group, obs, var)
    axes = [_Axis(_frame(group.member(name)), wanted) for name, wanted in (("obs", obs), ("var", var))]
    return _Cut(group, axes[0].rows, axes[1].rows).anndata()


def _group_at(file: File, path: str) -> Element | None:
    """The group at a path; None if there is none."""
    if file._handle.root.open_group(path) is None:
        return None
    return Element.at(FileSource(file), path)


def _frame(element: Element) -> Table:
    try:
        return element.table()
    except TableNotFound:
        element_value(element)  # raises where the encoding is unknown, and names it
        raise


class _Axis:
    """One of the two frames, and which of its rows are requested (None: all)."""

    def __init__(self, table: Table, wanted: WantedMembers) -> None:
        self.rows: RowIndices | None = None
        if isinstance(wanted, (str, Predicate)):
            self.rows = table.where(wanted).row_numbers()
        elif wanted is not None:
            self.rows = increasing(wanted, len(table))


class _Cut:
    """An AnnData group, and the requested rows of its axes."""

    def __init__(self, group: Element, obs: RowIndices | None, var: RowIndices | None) -> None:
        self.group = group
        self.rows = (obs, var)

    def anndata(self) -> anndata.AnnData:
        parts: dict[str, object] = {name: self._member(name, (axis,)) for axis, name in enumerate(("obs", "var"))}
        parts["X"] = self._member("X", (0, 1))
        for name, axes in AXIS_NAMES.items():
            parts[name] = self._mapping(name, axes)
        parts["uns"] = self._uns()
        _move_graphs(parts, self.rows[0])
        result: anndata.AnnData = _anndata().AnnData(**parts, raw=self._raw())
        return result

    def _member(self, name: str, axes: tuple[int, ...]) -> object:
        member = self.group.find(name)
        return None if member is None else _scipy(read_rows(member, *(self.rows[axis] for axis in axes)))

    def _mapping(self, name: str, axes: tuple[int, ...]) -> dict[str, object]:
        mapping = self.group.find(name)
        if mapping is None:
            return {}
        rows = [self.rows[axis] for axis in axes]
        return {member: _scipy(read_rows(mapping.member(member), *rows)) for member in mapping.names}

    def _uns(self) -> object:
        uns = self.group.find("uns")
        return {} if uns is None else _objects(element_value(uns, pandas=True))

    def _raw(self) -> dict[str, object] | None:
        """The members of raw, which has the rows of obs and its own columns."""
        raw = self.group.find("raw")
        if raw is None or raw.node.is_dataset:
            return None
        parts = {"var": read_rows(raw.member("var"), None)}
        matrix, varm = raw.find("X"), raw.find("varm")
        if matrix is not None:
            parts["X"] = _scipy(read_rows(matrix, self.rows[0]))
        if varm is not None:
            parts["varm"] = {member: _scipy(read_rows(varm.member(member), None)) for member in varm.names}
        return parts


def _move_graphs(parts: dict[str, object], rows: RowIndices | None) -> None:
    """Graphs that older files keep in uns/neighbors go to obsp, where anndata would put them, cut like the others."""
    uns, obsp = parts["uns"], parts["obsp"]
    neighbors = uns.get("neighbors") if isinstance(uns, dict) else None
    if not isinstance(neighbors, dict) or not isinstance(obsp, dict):
        return
    for name in GRAPHS:
        graph = neighbors.get(name)
        if graph is not None and len(getattr(graph, "shape", ())) == 2:
            del neighbors[name]
            obsp.setdefault(name, graph if rows is None else graph[rows][:, rows])


def _scipy(value: Cuttable) -> Cuttable:
    """A matrix as one of SciPy's sparse arrays, where anndata is set to read them so; anything else as it is."""
    kind = getattr(value, "format", None)
    if kind not in ("csr", "csc") or not _anndata().settings.use_sparse_array_on_read:
        return value
    converted: Cuttable = as_sparse_array(value)
    return converted


def in_memory(value: object) -> object:
    """The value with every lazy matrix in it read into memory."""
    if isinstance(value, SparseMatrix):
        return _scipy(value.to_scipy())
    if isinstance(value, Mapping):
        return {name: in_memory(member) for name, member in value.items()}
    return value


def _objects(value: object) -> object:
    """What uns holds, in memory: AnnData objects in it are objects again."""
    if isinstance(value, Members) and value.kind == "anndata":
        return _anndata().AnnData(**{name: _objects(member) for name, member in value.items()})
    if isinstance(value, Mapping):
        return {name: _objects(member) for name, member in value.items()}
    return in_memory(value)


# -- files of before 0.7 --


def _read_old(group: Element, obs: WantedMembers, var: WantedMembers) -> anndata.AnnData:
    lazy, frames = element_value(group), element_value(group, pandas=True)
    rows = [_old_rows(lazy[name], wanted) for name, wanted in (("obs", obs), ("var", var))]
    parts: dict[str, object] = {name: frames[name].iloc[rows[axis]] for axis, name in enumerate(("obs", "var"))}
    parts["X"] = _cut(frames.get("X"), rows)
    for name, axes in AXIS_NAMES.items():
        members = frames.get(name, {})
        parts[name] = {member: _cut(value, [rows[axis] for axis in axes]) for member, value in members.items()}
    raw = frames.get("raw")
    kept = None
    if raw is not None:
        kept = {"X": _cut(raw["X"], rows[:1]), "var": raw["var"], "varm": in_memory(raw.get("varm", {}))}
    parts["uns"] = _objects(frames.get("uns", {}))
    _move_graphs(parts, rows[0])
    result: anndata.AnnData = _anndata().AnnData(**parts, raw=kept)
    return result


def _old_rows(frame: pa.Table, wanted: WantedMembers) -> RowIndices:
    """The requested rows of a frame that is not a table of the file; it is turned into one in memory."""
    if wanted is None:
        return np.arange(len(frame))
    if not isinstance(wanted, (str, Predicate)):
        return increasing(wanted, len(frame))
    stream = io.BytesIO()
    write_table(stream, frame, table="frame")
    with open_file(stream) as file:
        return file["frame"].where(wanted).row_numbers()


def _cut(value: Cuttable | SparseMatrix | None, rows: list[RowIndices]) -> object:
    array = _scipy(value.to_scipy()) if isinstance(value, SparseMatrix) else value
    if array is None:
        return None
    for axis, chosen in enumerate(rows):
        array = array[chosen] if axis == 0 else array[:, chosen]
    return array


# -- the way back --


def from_anndata(
    adata: anndata.AnnData, path: Target, *, compression: str | None = None, compression_opts: int | None = None
) -> None:
    """Write an AnnData object as an `.h5ad` file, as anndata does; it appears complete, and replaces an existing file.

    What AnnData cannot hold is refused before a byte is written. Strings stay strings; a column of objects of obs or
    var in which strings are missing becomes a categorical. anndata's own function makes all strings categorical where
    values repeat: call `adata.strings_to_categoricals()` first for that. Dask arrays are computed, backed objects are
    copied; an object that is written over the file that backs it is backed by the new file.
    compression: "gzip" or "lzf"; none by default. compression_opts: the level of gzip.

    >>> import anndata
    >>> cn.from_anndata(anndata.AnnData(np.eye(2)), "cells.h5ad", compression="gzip")
    >>> cn.to_anndata("cells.h5ad").shape
    (2, 2)
    """
    if not isinstance(adata, _anndata().AnnData):
        raise UsageError(f"from_anndata takes an AnnData object, not {type(adata).__name__}")
    is_own_file = _is_backed_by(adata, path)
    if is_own_file and adata.is_view:
        raise UsageError(f"cannot write a view over {path}: that file backs its AnnData object. Choose another path")
    from colonnade.anndata.write import write_elements  # late: readers do not need libhdf5

    with open_file(path, "w") as file:
        write_elements(file.h5, adata, compression=compression, compression_opts=compression_opts)
    if is_own_file:
        adata.file.close()  # it has the replaced file open; anndata opens the new one when it is needed


def _is_backed_by(adata: anndata.AnnData, path: Target) -> bool:
    """Whether the object reads its matrix from the file at a path."""
    if not adata.isbacked or not isinstance(path, (str, os.PathLike)) or not Path(path).is_file():
        return False
    return Path(path).samefile(str(adata.filename))
