"""Create sparse arrays: check the request, turn it into a description, and write it to a file in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from colonnade.dataclass import dataclass
from colonnade.errors import UsageError
from colonnade.filters.names import parse_filters
from colonnade.format.dataspace import Dataspace
from colonnade.format.layout import LARGEST_HDF5_CHUNK, MAP_NUMBERS, SPARSE, VARIABLE, MapKind, StorageLayout
from colonnade.format.values import stored_dtype
from colonnade.model import FilterInfo, StoredType
from colonnade.sparse.attributes import encode_attributes
from colonnade.sparse.edit import edit_file, empty_single, put_dataset
from colonnade.sparse.info import SparseInfo
from colonnade.sparse.opened import FileChanger
from colonnade.sparse.values import element_type, fitted

if TYPE_CHECKING:
    import numpy.typing as npt

    from colonnade.h5.files import FileHandle

WriteDialect = Literal["sectioned", "structured", "prototype"]
Filters = str | Mapping[int, str] | None
_IDS = {"deflate": 1, "shuffle": 2, "fletcher32": 3, "zstd": 32015}
_SELECTION_ITEM = 2  # bytes per number in most selections
_USUAL_CHUNK = 1024
DIALECTS = ("sectioned", "structured", "prototype")


@dataclass(frozen=True, slots=True)
class SparseOptions:
    """How to store a sparse array: the keywords of `colonnade.create_sparse` and `write_sparse`, which explain them."""

    chunks: Sequence[int] | None = None
    fill: object = None
    filters: Filters = None
    max_shape: Sequence[int | None] | None = None
    dialect: WriteDialect = "sectioned"
    attrs: Mapping[str, object] | None = None
    dense: bool = False


def put_new(
    change: FileChanger, name: str, shape: Sequence[int], dtype: npt.DTypeLike | StoredType, options: SparseOptions
) -> None:
    """Create a sparse array without defined elements, in a new or an existing file, in one commit."""
    info = plan(name, shape, dtype, options)

    from colonnade.h5.links import make_placeholder

    def work(handle: FileHandle) -> None:
        header = make_placeholder(handle.root, name)
        edit_file(handle, lambda editor: put_dataset(editor, header, info))

    change(work)


def plan(name: str, shape: Sequence[int], dtype: npt.DTypeLike | StoredType, options: SparseOptions) -> SparseInfo:
    """The description of the requested array; raises a UsageError if it is not possible."""
    dialect, dense = options.dialect, options.dense
    if dialect not in DIALECTS:
        raise UsageError(f"dialect must be one of {', '.join(DIALECTS)}, not {dialect!r}")
    sizes = _sizes(shape, "shape", 0)
    limits = sizes if options.max_shape is None else tuple(options.max_shape)
    space = Dataspace(sizes, tuple(None if limit is None else int(limit) for limit in limits))
    if len(limits) != len(sizes) or any(
        limit is not None and limit < size for size, limit in zip(sizes, limits, strict=True)
    ):
        raise UsageError(f"max_shape {limits} is smaller than shape {sizes}")
    usual = [min(max(size, 1), _USUAL_CHUNK) for size in sizes]
    chunk = _sizes(usual if options.chunks is None else options.chunks, "chunks", 1)
    if len(chunk) != len(sizes) or any(
        limit is not None and size > max(limit, 1) for size, limit in zip(chunk, limits, strict=True)
    ):
        raise UsageError(f"chunks {chunk} do not fit an array of shape {sizes} and max_shape {limits}")
    stored = element_type(dtype)
    if prod(chunk) * stored.size > LARGEST_HDF5_CHUNK:
        raise UsageError(
            f"cannot make chunks of {chunk} {stored} elements: they have more than 2^62 bytes. Choose smaller chunks."
        )
    if dense and not stored.has_pointers:
        raise UsageError(f"dense=True is for variable-length data, not for {stored}: use an HDF5 dataset")
    if stored.has_pointers and options.fill is not None:
        raise UsageError(f"an array of {stored} cannot have a fill: undefined elements read as empty")
    kind = choose_map(space, chunk)
    number, n_sections, checksummed = _composition(stored, dense, dialect)
    layout = StorageLayout(
        dialect, number, 0, chunk, stored.size, n_sections, checksummed, kind, MAP_NUMBERS[kind], b"", None
    )
    info = SparseInfo(
        "/" + name.strip("/"), space, stored, _fill_bytes(options.fill, stored), layout,
        _pipelines(options.filters, stored, dense),
        tuple(encode_attributes(options.attrs or {}).values()),
    )  # fmt: skip
    if kind == "single":
        flags, record = empty_single(info)
        info = replace(info, layout=replace(layout, flags=flags, single=record))
    return info


def _composition(stored: StoredType, dense: bool, dialect: WriteDialect) -> tuple[int, int, tuple[int, ...]]:
    """Type, number of sections, and sections with checksums (facts 3.2). The prototype has no variable-length type."""
    if not stored.has_pointers:
        return SPARSE, 2, (0,)
    if dense:
        return VARIABLE, 2, (0, 1)
    return SPARSE if dialect == "prototype" else SPARSE | VARIABLE, 3, (0, 1, 2)


def choose_map(space: Dataspace, chunk: tuple[int, ...]) -> MapKind:
    """The chunk map that libhdf5 would choose (facts 4)."""
    n_free = sum(limit is None for limit in space.max_shape)
    if n_free:
        return "b-tree" if n_free > 1 else "extensible array"
    return "single" if chunk == space.shape == space.max_shape else "fixed array"


def _sizes(given: Sequence[int], what: str, least: int) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in given)
    except (TypeError, ValueError):
        raise UsageError(f"{what} must be integers, one per dimension, not {given!r}") from None
    if not 1 <= len(sizes) <= 32 or any(not least <= size < 1 << 62 for size in sizes):
        raise UsageError(f"{what} must be 1 to 32 integers of at least {least}, not {given!r}")
    return sizes


def _fill_bytes(fill: object, stored: StoredType) -> bytes | None:
    if fill is None:
        return None
    dtype = stored_dtype(stored)
    try:
        if dtype.kind not in "iufc":
            return np.array([fill], dtype=dtype).tobytes()[: stored.size]
        converted, unfit = fitted(np.asarray([fill]), dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"fill {fill!r} is not {stored}: {error}") from error
    if converted.shape != (1,) or unfit.any():
        raise UsageError(f"fill {fill!r} does not fit into {stored}")
    return converted.tobytes()


def _pipelines(filters: Filters, stored: StoredType, dense: bool) -> tuple[tuple[FilterInfo, ...], ...]:
    """The filters of each section; a single string applies to all sections."""
    items = {"selection": _SELECTION_ITEM, "values": stored.size, "heap": 1}
    if dense:
        del items["selection"]
    if not stored.has_pointers:
        del items["heap"]
    by_section = dict.fromkeys(range(len(items)), filters) if isinstance(filters, str) else dict(filters or {})
    if not set(by_section) <= set(range(len(items))):
        known = ", ".join(f"{number} ({word})" for number, word in enumerate(items))
        raise UsageError(f"filters are for the sections {known}, not {sorted(by_section)}")
    return tuple(_pipeline(by_section.get(number) or "none", size) for number, size in enumerate(items.values()))


def _pipeline(text: str, item_size: int) -> tuple[FilterInfo, ...]:
    steps = []
    for name, options in parse_filters(text):
        if name not in _IDS:
            raise UsageError(f"filter {name} cannot be used in sparse arrays. Use {', '.join(_IDS)}", filter=name)
        steps.append(FilterInfo(_IDS[name], name, _options(name, options, item_size), name != "fletcher32"))
    return tuple(steps)


def _options(name: str, options: tuple[str, ...], item_size: int) -> tuple[int, ...]:
    if name == "shuffle":
        return (item_size,)
    if name == "fletcher32":
        return ()
    usual, most = (6, 9) if name == "deflate" else (3, 22)
    text = options[0] if options else str(usual)
    if len(options) > 1 or not text.isdigit() or int(text) > most:
        raise UsageError(f"filter {name} takes one number up to {most}, not {':'.join(options)!r}", filter=name)
    return (int(text),)
