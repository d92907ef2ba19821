"""Split objects of other packages (AnnData, awkward, dask, Arrow) into parts that can be planned.

None of these packages is imported here: an object can only come from a package that is already imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import pyarrow as pa

from colonnade.anndata.values import AwkwardBuffers, Categorical, NaValue, Nullable
from colonnade.arrays import Booleans
from colonnade.dataclass import replace
from colonnade.errors import DataError, FormatError
from colonnade.exchange.pandas_arrays import FrameParts, with_categories
from colonnade.nodes.arrays import StreamedArray
from colonnade.nodes.attributes import read_text
from colonnade.table import Query, Table

if TYPE_CHECKING:
    import anndata
    import pandas
    from scipy.sparse import csc_matrix, csr_matrix


FrameColumn = np.ndarray | Categorical | Nullable
_SCHEDULER = "threads"  # HDF5 handles cannot be sent to other processes
_MAPPINGS = ("obsm", "varm", "obsp", "varp", "layers", "uns")


def anndata_members(value: object) -> dict[str, object] | None:
    """The members of an AnnData object in the order anndata writes them; None for any other object."""
    anndata = sys.modules.get("anndata")
    if anndata is None or not isinstance(value, anndata.AnnData):
        return None
    members: dict[str, object] = {} if value.X is None else {"X": value.X}
    members |= {name: _annotation(getattr(value, name)) for name in ("obs", "var")}
    members |= {name: _mapping_members(getattr(value, name)) for name in _MAPPINGS}
    return {**members, "raw": value.raw}


def _mapping_members(mapping: Mapping[str | None, object]) -> dict[str, object]:
    """The members of an AnnData mapping except X, which since 0.13 is the layer named None."""
    return {name: inner for name, inner in mapping.items() if name is not None}


def is_raw(value: object) -> TypeGuard[anndata.Raw]:
    """Whether this is the `raw` of an AnnData object."""
    anndata = sys.modules.get("anndata")
    return anndata is not None and isinstance(value, anndata.Raw)


def raw_members(value: anndata.Raw) -> dict[str, object]:
    return {"X": value.X, "var": _annotation(value.var), "varm": dict(value.varm)}


def _annotation(frame: pandas.DataFrame) -> pandas.DataFrame:
    """obs or var as anndata writes it: an object column with missing strings becomes a categorical."""
    if is_lazy_frame(frame):
        return frame
    natsort = sys.modules.get("natsort")  # anndata imports it, so it is loaded if there is an AnnData object
    return with_categories(frame, sorted if natsort is None else natsort.natsorted)


def is_lazy_frame(value: object) -> bool:
    """Whether this is a frame of a lazily opened AnnData object: a mapping with the interface of a pandas frame."""
    return type(value).__name__ == "Dataset2D" and type(value).__module__.startswith("anndata.")


def backed_matrix(value: object) -> csr_matrix | csc_matrix | None:
    """The sparse matrix of a file-backed AnnData object, read into memory; None for any other object."""
    anndata = sys.modules.get("anndata")
    if anndata is None or not isinstance(value, (anndata.abc.CSRDataset, anndata.abc.CSCDataset)):
        return None
    return value.to_memory()


def array_of_api(value: object) -> np.ndarray | None:
    """An array of a library that follows the array API (such as JAX) as a NumPy array; None for any other object."""
    if isinstance(value, np.generic) or not callable(getattr(value, "__array_namespace__", None)):
        return None
    return np.asarray(value)


def dask_array(value: object) -> StreamedArray | np.ndarray | csr_matrix | csc_matrix | None:
    """A dask array, to be computed block by block, or at once if it is sparse or holds objects; None if not dask."""
    dask = sys.modules.get("dask.array")
    if dask is None or not isinstance(value, dask.Array):
        return None
    is_plain = isinstance(value._meta, np.ndarray) and value.dtype.kind in "biufc"
    if not is_plain or not value.shape or np.isnan(value.shape).any():  # block lengths may be unknown
        return _with_wide_indices(value.compute(scheduler=_SCHEDULER))

    def blocks() -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
        for part in dask.core.slices_from_chunks(value.chunks):
            yield part, np.asarray(value[part].compute(scheduler=_SCHEDULER))

    return StreamedArray(tuple(value.shape), value.dtype, blocks)


def _with_wide_indices(
    value: np.ndarray | csr_matrix | csc_matrix,
) -> np.ndarray | csr_matrix | csc_matrix:
    """The value; the index arrays of a sparse matrix become int64, as anndata stores those of dask arrays."""
    if isinstance(value, np.ndarray) or getattr(value, "format", None) not in ("csr", "csc"):
        return value
    matrix = copy(value)  # the value may be a block that the caller still uses
    matrix.indices, matrix.indptr = (index.astype(np.int64, copy=False) for index in (value.indices, value.indptr))
    return matrix


def only_plain_strings() -> bool:
    """Whether anndata is set to write strings in the form that versions before 0.11 can read.

    In anndata 0.12 the default is False and means that pandas strings are refused, so a default does not count.
    """
    settings = _settings()
    return hasattr(settings, "model_fields_set") and getattr(settings, "allow_write_nullable_strings", None) is False


def are_indices_narrow() -> bool:
    """Whether anndata's user asked for the narrowest type for the indices of sparse matrices."""
    return getattr(_settings(), "write_csr_csc_indices_with_min_possible_dtype", False) is True


def _settings() -> object:
    """The settings of anndata; None if nobody has imported it."""
    return getattr(sys.modules.get("anndata"), "settings", None)


def awkward_buffers(value: object) -> AwkwardBuffers | None:
    """The buffers of an awkward array, packed; None for any other object."""
    awkward = sys.modules.get("awkward")
    if awkward is None or not isinstance(value, awkward.Array):
        return None
    if type(value).__name__ == "AwkwardArrayView":  # its form contains the memory address of the viewed object
        value = copy(value)
    form, length, buffers = awkward.to_buffers(awkward.to_packed(value))
    return AwkwardBuffers(form.to_json(), int(length), {name: np.asarray(buffer) for name, buffer in buffers.items()})


def arrow_frame(value: object, where: str) -> FrameParts | None:
    """A colonnade or Arrow table as the parts of a frame. Its index is the first label, or else the row numbers."""
    labels: list[str] = []
    both: set[str] = set()  # labels that are also columns
    masked: dict[str, NaValue] = {}  # columns with a mask, even if no row is missing
    if isinstance(value, (Table, Query)):
        table = value if isinstance(value, Table) else value._table
        if isinstance(table, Table):
            refuse_broken(table)
            masked = {column.name: _na_value(table, column.name) for column in table.info.members if column.is_masked}
        labels, both, value = table.info.label_names, set(table.info.column_names), value.to_arrow()
    if isinstance(value, pa.RecordBatch):
        value = pa.table(value)
    if not isinstance(value, pa.Table):
        return None
    name = next((label for label in labels if label in value.column_names), None)
    index: FrameColumn = np.arange(value.num_rows)
    if name is not None:
        index = _nullable(arrow_column(value[name], f"{where}/{name}"), masked.get(name))
    names = [column for column in value.column_names if column != name or column in both]
    columns = [
        (column, _nullable(arrow_column(value[column], f"{where}/{column}"), masked.get(column))) for column in names
    ]
    return FrameParts(columns, index, None if name == "_index" else name)


def _na_value(table: Table, name: str) -> NaValue:
    """The na-value of a masked column: what a missing string means in comparisons."""
    group = table._group.open_group(name)
    return "NaN" if group is not None and read_text(group, "na-value") == "NaN" else "NA"


def _nullable(column: FrameColumn, na_value: NaValue | None) -> FrameColumn:
    """The column, with a mask if it is stored with one (`na_value` is not None)."""
    if na_value is None or isinstance(column, Categorical):
        return column
    if isinstance(column, Nullable):
        return replace(column, na_value=na_value)
    return Nullable(column, np.zeros(len(column), dtype=bool), na_value)


def refuse_broken(table: Table) -> None:
    """Refuse a table with unreadable parts: copied elsewhere, these would be lost silently."""
    wrong = next((finding for finding in table.problems if finding.severity == "error"), None)
    if wrong is not None:
        raise FormatError(f"{wrong.path}: {wrong.message}", path=wrong.path)


def arrow_column(value: pa.Array | pa.ChunkedArray, where: str) -> FrameColumn:
    """An Arrow array as a NumPy array, a Categorical or a Nullable."""
    array = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _categorical(array, where)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        strings = np.array(array.fill_null("").to_pylist(), dtype=object).reshape(len(array))
        return Nullable(strings, _missing(array)) if array.null_count else strings
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        values = array.fill_null(False if pa.types.is_boolean(kind) else 0).to_numpy(zero_copy_only=False)
        return Nullable(values, _missing(array)) if array.null_count else values
    if pa.types.is_floating(kind) and not array.null_count:
        return array.to_numpy(zero_copy_only=False)
    missing = " with missing values" if array.null_count else ""
    raise DataError(
        f"AnnData cannot store {kind}{missing}. Cast it first" + (", or call fill_null." if missing else "."),
        path=where,
        type=str(kind),
    )


def _categorical(array: pa.Array, where: str) -> Categorical:
    codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    categories = arrow_column(array.dictionary, where)
    if isinstance(categories, (Nullable, Categorical)):
        raise DataError("a category cannot be missing, and cannot itself be categorical", path=where)
    return Categorical(codes, categories, bool(array.type.ordered))


def _missing(array: pa.Array) -> Booleans:
    mask: Booleans = array.is_null().to_numpy(zero_copy_only=False)
    return mask
