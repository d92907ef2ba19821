"""Plan what is written for a value: everything is decided and checked before a byte of the file changes.

A plan is a tree of arrays and groups with their attributes. `plan` refuses, with a path, what AnnData cannot store
and what would lose data: names that are paths, objects that are not strings, masks that cannot be stored.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import partial
from math import prod
from numbers import Number
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import pyarrow as pa

from colonnade.anndata.objects import (
    anndata_members,
    are_indices_narrow,
    array_of_api,
    arrow_column,
    arrow_frame,
    awkward_buffers,
    backed_matrix,
    dask_array,
    is_lazy_frame,
    is_raw,
    only_plain_strings,
    raw_members,
)
from colonnade.anndata.read import element_value
from colonnade.anndata.source import Element, H5Source
from colonnade.anndata.sparse_matrix import SparseMatrix
from colonnade.anndata.values import AwkwardBuffers, Categorical, Members, Nullable
from colonnade.dataclass import dataclass
from colonnade.errors import DataError, UsageError
from colonnade.exchange.pandas_arrays import CategoricalParts, FrameParts, NullableParts, split_array, split_frame
from colonnade.model import is_utf8
from colonnade.nodes.arrays import StreamedArray, boxes, read_part
from colonnade.opening import is_of_h5py

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix

DEEPEST_MAPPING = 64
_BLOCK_BYTES = 8 << 20  # of a dataset that is copied
UNNAMED_INDEX = "_index"  # the dataset of an unnamed index


@dataclass(frozen=True)
class PlannedArray:
    """A dataset. data: its elements; None for a null dataset. growable: resizable, as those of sparse matrices are."""

    data: np.ndarray | StreamedArray | None
    attributes: Mapping[str, object] = field(default_factory=dict)
    growable: bool = False


@dataclass(frozen=True)
class PlannedGroup:
    """A group: its members, in order, and its attributes."""

    members: Mapping[str, Planned]
    attributes: Mapping[str, object]


Planned = PlannedArray | PlannedGroup


def _marks(kind: str, version: str, **more: object) -> dict[str, object]:
    return {"encoding-type": kind, "encoding-version": version, **more}


def plan(value: object, where: str, depth: int = 0) -> Planned:
    """The plan for a value. `where` is its path, for messages."""
    if depth > DEEPEST_MAPPING:
        raise DataError(f"mappings are nested more than {DEEPEST_MAPPING} deep, or contain themselves", path=where)
    for planner in _PLANNERS:
        planned = planner(value, where, depth)
        if planned is not None:
            return planned
    raise DataError(f"AnnData cannot store {_kind(value)}", path=where, type=_kind(value))


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def check_name(name: object, where: str) -> str:
    """Refuse a name that cannot be that of one member: anndata would treat it as a path, or lose the data."""
    if not isinstance(name, str):
        raise DataError(f"names must be strings, not {name!r}", path=where)
    if name in ("", ".") or "/" in name or "\0" in name or not is_utf8(name):
        raise DataError(
            f"{name!r} cannot be a name in an HDF5 file (empty, '.', or with '/' or NUL). Rename it.",
            path=where,
        )
    return name


# -- scalars --


def _plan_none(value: object, _where: str, _depth: int) -> Planned | None:
    return PlannedArray(None, _marks("null", "0.1.0")) if value is None else None


def _plan_text(value: object, where: str, _depth: int) -> Planned | None:
    if not isinstance(value, str):
        return None
    _check_text(value, where)
    return PlannedArray(np.array(str(value), dtype=object), _marks("string", "0.2.0"))


def _check_text(text: str, where: str) -> None:
    if "\0" in text or not is_utf8(text):
        raise DataError(f"HDF5 cannot store {text!r}: it has NUL or is not UTF-8", path=where, value=text)


def _plan_number(value: object, where: str, _depth: int) -> Planned | None:
    if not isinstance(value, (Number, np.bool_)) or isinstance(value, np.ndarray):
        return None
    number = np.asarray(value)
    if number.dtype.kind not in "biufc":
        raise DataError(f"{value!r} is a number that HDF5 cannot store", path=where, value=value)
    return PlannedArray(number, _marks("numeric-scalar", "0.2.0"))


# -- mappings --


def _plan_mapping(value: object, where: str, depth: int) -> Planned | None:
    if not isinstance(value, Mapping):
        return None
    kind = value.kind if isinstance(value, Members) else "dict"
    if kind not in ("dict", "anndata", "raw"):
        raise DataError(f"an element of kind {kind} can be read, but not written", path=where)
    members = {check_name(name, where): plan(inner, f"{where}/{name}", depth + 1) for name, inner in value.items()}
    return PlannedGroup(members, _marks(kind, "0.1.0"))


def _plan_anndata(value: object, where: str, depth: int) -> Planned | None:
    """The plan for an AnnData object, or its raw, member by member."""
    members = anndata_members(value) if not is_raw(value) else raw_members(value)
    if members is None:
        return None
    planned = {name: plan(inner, f"{where}/{name}", depth + 1) for name, inner in members.items()}
    return PlannedGroup(planned, _marks("raw" if is_raw(value) else "anndata", "0.1.0"))


# -- arrays --


def _plan_list(value: object, where: str, depth: int) -> Planned | None:
    if not isinstance(value, (list, tuple)):
        return None
    try:
        array = np.asarray(value)
        objects = np.asarray(value, dtype=object)
    except ValueError as error:
        raise DataError(f"this list cannot be made into an array: {error}", path=where) from None
    if array.dtype.kind in "USO" and array.size:
        array = objects  # NumPy would convert numbers to strings in a list that has both
    return _plan_array(array, where, depth)


def _plan_array(value: object, where: str, depth: int) -> Planned | None:
    if not isinstance(value, np.ndarray):
        return None
    if isinstance(value, np.ma.MaskedArray):
        return _plan_masked(value, where, depth)
    if value.ndim == 0:
        return plan(value[()], where, depth + 1)
    value = np.asarray(value)
    if value.dtype.names is not None:
        return PlannedArray(_planned_records(value, where), _marks("rec-array", "0.2.0"))
    if value.dtype.kind in "OUT":
        return PlannedArray(_strings(value, where), _marks("string-array", "0.2.0"))
    _check_plain(value.dtype, where)
    return PlannedArray(value, _marks("array", "0.2.0"))


def _plan_masked(value: np.ma.MaskedArray, where: str, depth: int) -> Planned:
    """The plan for a masked array. anndata would drop the mask; here it is stored, or the array is refused."""
    mask = np.ma.getmaskarray(value)
    if not mask.any() and value.dtype.kind not in "iubO":
        return plan(np.asarray(value.data), where, depth)
    if value.ndim != 1 or value.dtype.kind not in "iubOU":
        raise DataError(
            "AnnData stores masks only for integers, booleans and strings of rank 1. Fill missing values.",
            path=where,
        )
    return _planned_nullable(Nullable(np.asarray(value.data), mask), where)


def _check_plain(dtype: np.dtype, where: str) -> None:
    if dtype.kind not in "biufcS" or dtype.itemsize == 0:
        raise DataError(f"AnnData cannot store arrays of {dtype}. Cast them first.", path=where)


def _strings(value: np.ndarray, where: str) -> np.ndarray:
    """The array as `str` objects. Any other element is refused, with its position."""
    strings = np.empty(value.shape, dtype=object)
    for position, element in enumerate(value.reshape(-1).tolist()):
        if not isinstance(element, str):
            raise DataError(
                f"{element!r} is not a string. Missing strings need a Nullable, "
                "a Categorical, or the pandas types 'string' and 'category'",
                path=where,
                row=position,
                value=element,
            )
        _check_text(element, f"{where}, element {position}")
    strings.reshape(-1)[:] = value.reshape(-1).tolist()
    return strings


def _planned_records(value: np.ndarray, where: str) -> np.ndarray:
    """The record array, with strings as objects."""
    names = value.dtype.names or ()
    kinds: list[tuple[str, object]] = []
    for name in names:
        inner = value.dtype[name]
        if inner.kind in "OU":
            kinds.append((name, object))
            continue
        base = inner.base
        if base.names is not None or base.kind not in "biufcS" or base.itemsize == 0:
            raise DataError(f"field {name!r} holds {inner}, which AnnData cannot store", path=where)
        kinds.append((name, inner))
    records = np.empty(value.shape, dtype=kinds)
    for name, kind in kinds:
        records[name] = _strings(value[name], f"{where}, field {name!r}") if kind is object else value[name]
    return records


def _plan_dataset(value: object, where: str, depth: int) -> Planned | None:
    """The plan for an h5py dataset: numbers are copied block by block, anything else is read first."""
    if not is_of_h5py(value) or not hasattr(value, "shape"):
        return None
    source = H5Source(value)
    return source.consistent(lambda: _planned_dataset(Element.at(source, ""), where, depth))


def _planned_dataset(element: Element, where: str, depth: int) -> Planned:
    dataset = element.dataset
    if dataset.is_null:
        return plan(None, where, depth)
    kind = dataset.array_dtype()
    if dataset.shape and kind.names is None and kind.kind in "biufc":
        return PlannedArray(_streamed(element), _marks("array", "0.2.0"))
    return plan(read_part(dataset) if kind.kind == "S" else element_value(element), where, depth + 1)


def _streamed(element: Element) -> StreamedArray:
    """A dataset of numbers, read a few MiB at a time."""
    dataset = element.dataset
    dataset.check_readable(prod(dataset.shape))

    def blocks() -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
        for part in boxes(dataset, _BLOCK_BYTES):
            yield part, element.source.consistent(partial(dataset.read_array, part))

    return StreamedArray(dataset.shape, dataset.array_dtype(), blocks)


def _plan_lazy(value: object, where: str, depth: int) -> Planned | None:
    """The plan for dask arrays, matrices of file-backed AnnData objects, and arrays that follow the array API."""
    array = dask_array(value)
    if isinstance(array, StreamedArray):
        return PlannedArray(array, _marks("array", "0.2.0"))
    for read in (backed_matrix, array_of_api):
        array = read(value) if array is None else array
    return None if array is None else plan(array, where, depth + 1)


# -- categoricals, nullable arrays, sparse and awkward arrays --


def _plan_parts(value: object, where: str, depth: int) -> Planned | None:
    """The plan for categoricals and nullable arrays, ours or those of pandas."""
    parts = value if isinstance(value, (Categorical, Nullable)) else _split(value, where)
    if isinstance(parts, (Categorical, CategoricalParts)):
        return _planned_categorical(parts, where, depth)
    if isinstance(parts, NullableParts):
        if parts.values.dtype == object and only_plain_strings():
            return _planned_plain_strings(parts, where)
        return _planned_nullable(Nullable(parts.values, parts.mask, "NaN" if parts.na_value == "NaN" else "NA"), where)
    if isinstance(parts, Nullable):
        return _planned_nullable(parts, where)
    return None if parts is None else plan(parts, where, depth + 1)


def _planned_plain_strings(parts: NullableParts, where: str) -> PlannedArray:
    if parts.mask.any():
        raise DataError(
            "the string is missing, and anndata.settings.allow_write_nullable_strings is False. "
            "Set it to True, or fill the missing strings.",
            path=where,
            row=int(np.argmax(parts.mask)),
        )
    return PlannedArray(_strings(parts.values, where), _marks("string-array", "0.2.0"))


def _split(value: object, where: str) -> CategoricalParts | NullableParts | np.ndarray | None:
    try:
        return split_array(value)
    except DataError as error:
        error.path = where
        raise


def _planned_categorical(parts: Categorical | CategoricalParts, where: str, depth: int) -> PlannedGroup:
    codes = np.asarray(parts.codes)
    split = _split(parts.categories, where)
    if isinstance(split, NullableParts):  # pandas strings: no category is ever missing
        split = split.values
    labels = np.asarray(parts.categories if split is None or isinstance(split, CategoricalParts) else split)
    if codes.ndim != 1 or codes.dtype.kind not in "iu" or labels.ndim != 1:
        raise DataError("a categorical has integer codes and categories of rank 1", path=where)
    if len(codes) and (int(codes.min()) < -1 or int(codes.max()) >= len(labels)):
        raise DataError(f"a code is not one of the {len(labels)} categories", path=where)
    if len(set(labels.tolist())) != len(labels):
        raise DataError("two categories are equal", path=where)
    members = {
        "codes": plan(codes.astype(_code_type(len(labels))), f"{where}/codes", depth + 1),
        "categories": plan(labels, f"{where}/categories", depth + 1),
    }
    return PlannedGroup(members, _marks("categorical", "0.2.0", ordered=bool(parts.ordered)))


def _code_type(n_categories: int) -> np.dtype:
    """The narrowest signed integer type for the codes of `n_categories` categories, as pandas chooses it."""
    return np.dtype(next(kind for kind in ("i1", "i2", "i4", "i8") if n_categories < np.iinfo(kind).max))


def _planned_nullable(value: Nullable, where: str) -> PlannedGroup:
    values, mask = np.asarray(value.values), np.asarray(value.mask)
    if mask.dtype.kind != "b" or mask.shape != values.shape or values.ndim != 1:
        raise DataError("a nullable array has rank 1 and one boolean per value", path=where)
    if values.dtype.kind in "OU":
        kind, values = "nullable-string-array", values.astype(object)
        values[mask] = ""
    elif values.dtype.kind in "iub":
        kind = "nullable-boolean" if values.dtype.kind == "b" else "nullable-integer"
        values = np.where(mask, values.dtype.type(0), values).astype(values.dtype)
    else:
        raise DataError(f"AnnData stores no missing {values.dtype}, only integers, booleans, strings", path=where)
    members = {"values": plan(values, f"{where}/values"), "mask": plan(mask, f"{where}/mask")}
    na = {"na-value": "NaN"} if value.na_value == "NaN" and kind == "nullable-string-array" else {}
    return PlannedGroup(members, {**_marks(kind, "0.1.0"), **na})


def _plan_sparse(value: object, where: str, _depth: int) -> Planned | None:
    if isinstance(value, SparseMatrix):
        value = value.to_scipy()
    if not _is_sparse(value):
        return None
    if value.format not in ("csr", "csc") or value.ndim != 2:
        raise DataError(f"AnnData stores CSR and CSC, not {value.format}. Call tocsr() first.", path=where)
    _check_plain(value.data.dtype, where)
    _check_sparse(value, where)
    indices = _in_narrowest_type(value.indices, value.shape[value.format == "csr"])
    arrays = {"data": value.data, "indices": indices, "indptr": value.indptr}
    members = {name: PlannedArray(array, {}, growable=True) for name, array in arrays.items()}
    shape = np.array(value.shape, dtype=np.int64)
    return PlannedGroup(members, _marks(f"{value.format}_matrix", "0.1.0", shape=shape))


def _is_sparse(value: object) -> TypeGuard[csr_matrix | csc_matrix]:
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and scipy_sparse.issparse(value)


def _in_narrowest_type(indices: np.ndarray, n_minor: int) -> np.ndarray:
    """The indices of a matrix in the type that anndata chooses, if its setting asks for that; otherwise unchanged."""
    if not are_indices_narrow():
        return indices
    return indices.astype(next(kind for kind in ("u1", "u2", "u4", "u8") if n_minor <= np.iinfo(kind).max))


def _check_sparse(value: csr_matrix | csc_matrix, where: str) -> None:
    """Check the arrays of a SciPy matrix, which SciPy itself does not do."""
    n_major, n_minor = value.shape if value.format == "csr" else value.shape[::-1]
    starts, indices = value.indptr, value.indices
    good = len(starts) == n_major + 1 and len(indices) == len(value.data)
    good = good and int(starts[0]) == 0 and int(starts[-1]) == len(indices) and not (np.diff(starts) < 0).any()
    good = good and (len(indices) == 0 or (int(indices.min()) >= 0 and int(indices.max()) < n_minor))
    if not good:
        raise DataError(f"the arrays of this {value.format} matrix are inconsistent", path=where)


def _plan_awkward(value: object, where: str, depth: int) -> Planned | None:
    awkward = value if isinstance(value, AwkwardBuffers) else awkward_buffers(value)
    if awkward is None:
        return None
    members = {
        check_name(name, where): plan(np.asarray(buffer), f"{where}/{name}", depth + 1)
        for name, buffer in awkward.buffers.items()
    }
    marks = _marks("awkward-array", "0.1.0", form=awkward.form, length=int(awkward.length))
    return PlannedGroup(members, marks)


# -- frames --


def _plan_frame(value: object, where: str, depth: int) -> Planned | None:
    if is_lazy_frame(value):
        raise UsageError(f"cannot write {where}: it is a lazy frame. Call its to_memory() first.", path=where)
    parts = value if isinstance(value, FrameParts) else split_frame(value)
    if parts is None:
        parts = arrow_frame(value, where)
    return None if parts is None else _planned_frame(parts, where, depth)


def _planned_frame(parts: FrameParts, where: str, depth: int) -> PlannedGroup:
    order = [check_name(name, where) for name, _ in parts.columns]
    index_name = UNNAMED_INDEX if parts.index_name is None else check_name(parts.index_name, where)
    if len(set(order)) != len(order):
        raise DataError("two columns have the same name", path=where)
    if UNNAMED_INDEX in order:
        raise DataError(f"a column cannot be called {UNNAMED_INDEX!r}, the name of an unnamed one", path=where)
    members = {name: plan(column, f"{where}/{name}", depth + 1) for name, column in parts.columns}
    index = plan(parts.index, f"{where}/{index_name}", depth + 1)
    if index_name in members and not _are_equal(members[index_name], index):
        raise DataError(f"the index and a column are both called {index_name!r}, and differ", path=where)
    for name, planned in [(index_name, index), *members.items()]:
        length, wanted = _length(planned, f"{where}/{name}"), _length(index, where)
        if length != wanted:
            raise DataError(f"{length} rows were given, the index has {wanted}", path=where, column=name)
    marks = {**_marks("dataframe", "0.2.0"), "_index": index_name, "column-order": order}
    return PlannedGroup({index_name: index, **members}, marks)


def _length(planned: Planned, where: str) -> int:
    """The number of rows of a column."""
    if isinstance(planned, PlannedGroup):
        inner = planned.members.get("codes") or planned.members.get("values")
        if inner is None or planned.attributes["encoding-type"] == "dataframe":
            raise DataError(f"{planned.attributes['encoding-type']} is not a column of a frame", path=where)
        return _length(inner, where)
    if planned.data is None or planned.data.ndim != 1:
        raise DataError("a column must have rank 1", path=where)
    return planned.data.shape[0]


def _are_equal(one: Planned, other: Planned) -> bool:
    if isinstance(one, PlannedArray) and isinstance(other, PlannedArray):
        if not isinstance(one.data, np.ndarray) or not isinstance(other.data, np.ndarray):
            return False
        return np.array_equal(one.data, other.data)
    if isinstance(one, PlannedGroup) and isinstance(other, PlannedGroup) and one.members.keys() == other.members.keys():
        return all(_are_equal(part, other.members[name]) for name, part in one.members.items())
    return False


def _plan_arrow(value: object, where: str, depth: int) -> Planned | None:
    """The plan for an Arrow array: a dictionary array becomes a categorical, missing values a mask."""
    if not isinstance(value, (pa.Array, pa.ChunkedArray)):
        return None
    return plan(arrow_column(value, where), where, depth + 1)


def _plan_refused(value: object, where: str, _depth: int) -> Planned | None:
    if isinstance(value, (bytes, bytearray)):
        raise DataError("bytes can be read, but not written: AnnData does not write them", path=where)
    if callable(getattr(value, "compute", None)):  # a dask frame, which anndata refuses too
        raise UsageError(f"{where}: {_kind(value)} is not computed yet. Call compute() first.", path=where)
    return None


_PLANNERS: tuple[Callable[[object, str, int], Planned | None], ...] = (
    _plan_none,
    _plan_text,
    _plan_array,
    _plan_number,
    _plan_frame,
    _plan_parts,
    _plan_arrow,
    _plan_mapping,
    _plan_list,
    _plan_sparse,
    _plan_awkward,
    _plan_dataset,
    _plan_lazy,
    _plan_anndata,
    _plan_refused,
)
