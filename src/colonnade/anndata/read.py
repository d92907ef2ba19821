"""Read elements: HDF5 objects to Python values, by their encoding-type and encoding-version.

An object with neither was written by anndata 0.7 or earlier and is read by its structure (`legacy`). Frames, sparse
matrices and the members of an AnnData group are read lazily; everything else is read at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np

from colonnade.anndata import legacy
from colonnade.anndata.objects import refuse_broken
from colonnade.anndata.sparse_matrix import SparseMatrix
from colonnade.anndata.values import AwkwardBuffers, Categorical, Members, Nullable
from colonnade.dataclass import dataclass, replace
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.exchange.pandas_arrays import make_frame
from colonnade.h5.arrays import Array, decode_texts, is_null, path_of, read_array, shape_of
from colonnade.h5.handles import node_of
from colonnade.h5.nodes import kind_of, member, member_names, object_at, place_of
from colonnade.layouts.foreign_tables import is_tenx, read_plain
from colonnade.nodes import attributes
from colonnade.table import open as open_file

DEEPEST_GROUP = 64  # nested groups
_BEGUN = object()  # marks an object that is being read


def read_element(node: Any, *, pandas: bool = False) -> Any:
    """Read an AnnData element: a group or dataset of an `.h5ad` file, such as `file.h5["obs"]`.

    Arrays are returned as NumPy arrays (strings as `object`), scalars as NumPy scalars and `str`, null as None,
    mappings as dicts, frames as lazy Tables, sparse matrices as lazy SparseMatrix objects, categoricals and nullable
    arrays as Categorical and Nullable. An awkward array is returned as such if awkward is installed, else as its
    buffers. The members of an AnnData group are read one by one when they are accessed. A 10x Genomics matrix is a
    SparseMatrix too, features by barcodes, as stored.
    pandas: return frames, categoricals and nullable arrays as pandas objects, with frames read at once.

    >>> f = cn.open("cells.h5ad", "w")
    >>> cn.write_element(f.h5, "uns", {"seed": 1, "names": ["a", "b"]})
    >>> cn.read_element(f.h5["uns"])["names"].tolist()
    ['a', 'b']
    """
    kind_of(node)
    return _Reading(pandas).read(node)


@dataclass(frozen=True)
class _Reading:
    """One call of `read_element`. `done` holds what was read, by address: many links may lead to one object."""

    pandas: bool
    depth: int = 0
    done: dict[int, Any] = field(default_factory=dict)

    def read(self, node: Any) -> Any:
        address = place_of(node)
        if address is None:
            raise CorruptError("the header cannot be read", path=path_of(node))
        if address not in self.done:
            self.done[address] = _BEGUN
            self.done[address] = self._read(node)
        if self.done[address] is _BEGUN:
            message = f"{path_of(node)} contains itself, which is not supported"
            raise UnsupportedError(message, feature="groups that contain themselves", path=path_of(node))
        return self.done[address]

    def _read(self, node: Any) -> Any:
        kind = encoding_of(node)
        if kind == (None, None):
            return self._unmarked(node)
        readers = _OF_GROUPS if kind_of(node) == "group" else _OF_DATASETS
        reader = readers.get((kind[0] or "", kind[1] or ""))
        if reader is None:
            raise UnsupportedError(
                f"{path_of(node)} is a {kind_of(node)} of encoding-type {kind[0]!r}, version {kind[1]!r}, which is "
                "not supported",
                feature=f"{kind[0]} {kind[1]}",
                path=path_of(node),
            )
        return reader(self, node)

    def below(self, group: Any) -> _Reading:
        """This state, one level deeper. Raises an UnsupportedError if groups are nested too deeply."""
        if self.depth >= DEEPEST_GROUP:
            message = f"{path_of(group)} is nested more than {DEEPEST_GROUP} groups deep, which is not supported"
            raise UnsupportedError(message, feature="groups that are nested too deeply", path=path_of(group))
        return replace(self, depth=self.depth + 1)

    def one_member(self, group: Any, name: str) -> Any:
        """A member of a group whose members are read one by one, so `done` starts empty."""
        return replace(self.below(group), done={}).read(member(group, name))

    # -- groups --

    def mapping(self, group: Any) -> dict[str, Any]:
        inside = self.below(group)
        return {name: inside.read(member(group, name)) for name in member_names(group)}

    def members(self, group: Any) -> Members:
        kind = encoding_of(group)[0] or "anndata"
        return Members(kind, member_names(group), lambda name: self.one_member(group, name))

    def sparse(self, group: Any) -> SparseMatrix:
        form = (encoding_of(group)[0] or "")[:3]
        return SparseMatrix(group, form, _shape(group, "shape"))

    def frame(self, group: Any) -> Any:
        table = open_file(group)[path_of(group)]
        if not self.pandas:
            return table
        refuse_broken(table)
        info, inside = table.info, self.below(group)
        arrays = {column.name: _in_pandas(inside._column(group, column.name)) for column in info.members}
        index = arrays.get(info.index_name or "")
        columns = {column.name: arrays[column.name] for column in info.columns}
        return make_frame(columns, index, None if info.index_name == "_index" else info.index_name)

    def _column(self, group: Any, name: str) -> Any:
        node = group
        for part in name.split("/"):
            node = member(node, part)
        return self.read(node)

    def categorical(self, group: Any) -> Any:
        categories = _in_numpy(_Reading(False, self.below(group).depth).read(member(group, "categories")))
        ordered = attributes.read_flag(node_of(group.id), "ordered")
        if ordered is None:
            raise FormatError(f"{path_of(group)} has no flag `ordered`", path=path_of(group))
        return self._made_categorical(member(group, "codes"), categories, ordered)

    def _made_categorical(self, node: Any, categories: Array, ordered: bool) -> Any:
        codes = _flat(node, "codes")
        if codes.dtype.kind not in "iu" or categories.ndim != 1:
            raise FormatError(f"{path_of(node)} holds {codes.dtype}, not integer codes", path=path_of(node))
        if len(codes) and (int(codes.min()) < -1 or int(codes.max()) >= len(categories)):
            wrong = int(np.argmax((codes < -1) | (codes >= len(categories))))
            raise CorruptError(
                f"{codes[wrong]} is not a code of the {len(categories)} categories",
                path=path_of(node),
                row=wrong,
                found=int(codes[wrong]),
            )
        if self.pandas and len(set(categories.tolist())) != len(categories):
            raise FormatError(f"{path_of(node)}: two categories are equal, which pandas does not allow")
        categorical = Categorical(codes, categories, ordered)
        return categorical.to_pandas() if self.pandas else categorical

    def nullable(self, group: Any) -> Any:
        values, mask = member(group, "values"), _flat(member(group, "mask"), "mask")
        read = _flat(values, "values")
        wanted = {"nullable-integer": "iu", "nullable-boolean": "b", "nullable-string-array": "O"}
        if read.dtype.kind not in wanted[str(encoding_of(group)[0])]:
            raise FormatError(f"{path_of(values)} holds {read.dtype}", path=path_of(values))
        if mask.dtype.kind != "b" or len(mask) != len(read):
            raise FormatError(f"the mask of {path_of(group)} is not one boolean per value", path=path_of(group))
        nullable = Nullable(read, mask, "NaN" if attributes.read_text(node_of(group.id), "na-value") == "NaN" else "NA")
        return nullable.to_pandas() if self.pandas else nullable

    def awkward(self, group: Any) -> Any:
        node = node_of(group.id)
        form, length = attributes.read_text(node, "form"), attributes.read_integers(node, "length")
        if form is None or length is None or len(length) != 1 or length[0] < 0:
            raise FormatError(f"{path_of(group)} has no form and length of an awkward array", path=path_of(group))
        try:
            json.loads(form)
        except (ValueError, RecursionError) as error:
            raise CorruptError(f"the form is not JSON: {error}", path=path_of(group)) from error
        buffers = {name: read_array(_dataset(member(group, name))) for name in member_names(group)}
        awkward = AwkwardBuffers(form, length[0], buffers)
        return awkward.to_awkward() if _has_awkward() else awkward

    # -- datasets --

    def array(self, dataset: Any) -> Any:
        return read_array(dataset)

    def strings(self, dataset: Any) -> Array:
        read = read_array(dataset)
        if read.dtype.kind == "S":
            read = decode_texts(read, path_of(dataset))
        if read.dtype.kind != "O":
            raise FormatError(f"{path_of(dataset)} holds {read.dtype}, not text", path=path_of(dataset))
        return read

    def scalar(self, dataset: Any) -> Any:
        if shape_of(dataset) != ():
            raise FormatError(f"{path_of(dataset)} has the shape {shape_of(dataset)}, but a scalar has the shape ()")
        return read_array(dataset)[()]

    def text(self, dataset: Any) -> str:
        value = self.scalar(dataset)
        if isinstance(value, bytes):
            return str(decode_texts(np.array(value), path_of(dataset))[()])
        if not isinstance(value, str):
            raise FormatError(f"{path_of(dataset)} holds {type(value).__name__}, not a string", path=path_of(dataset))
        return value

    def raw_bytes(self, dataset: Any) -> bytes:
        value = self.scalar(dataset)
        return value.encode() if isinstance(value, str) else bytes(value)

    def null(self, _dataset: Any) -> None:
        return None

    # -- objects of anndata 0.7 and earlier --

    def _unmarked(self, node: Any) -> Any:
        if kind_of(node) == "group":
            return self._unmarked_group(node)
        if is_null(node):
            return None
        categories = self._legacy_categories(node)
        if categories is not None:
            return self._made_categorical(node, *categories)
        return read_plain(node)

    def _unmarked_group(self, group: Any) -> Any:
        form = attributes.read_text(node_of(group.id), "h5sparse_format")
        if form is not None:
            if form not in ("csr", "csc"):
                raise FormatError(f"{path_of(group)} is a sparse matrix of the form {form!r}", path=path_of(group))
            return SparseMatrix(group, form, _shape(group, "h5sparse_shape"))
        if is_tenx(group):
            return SparseMatrix(group, "csc", legacy.tenx_shape(group))
        if {"obs", "var"} <= set(member_names(group)):
            return legacy.old_members(group, lambda node: replace(self.below(group), done={}).read(node), self.pandas)
        return self.mapping(group)

    def _legacy_categories(self, dataset: Any) -> tuple[Array, bool] | None:
        """The categories that a dataset of codes refers to, and whether they are ordered; None if it refers to none."""
        references = attributes.read_references(node_of(dataset.id), "categories")
        target = node_of(dataset.id).dereference(references[0]) if references else None
        if target is None:
            return None
        stored = object_at(target)
        read = read_plain(stored) if kind_of(stored) == "dataset" else None
        if not isinstance(read, np.ndarray):
            raise FormatError(f"the categories of {path_of(dataset)} are not an array", path=path_of(dataset))
        return read, bool(attributes.read_flag(target, "ordered"))


def encoding_of(node: Any) -> tuple[str | None, str | None]:
    """The encoding-type and encoding-version of an object; None for each that is absent."""
    return attributes.read_text(node_of(node.id), "encoding-type"), attributes.read_text(
        node_of(node.id), "encoding-version"
    )


def open_matrix(group: Any) -> SparseMatrix:
    """The matrix in a group of data, indices and indptr. Without attributes it is a 10x Genomics matrix, in CSC."""
    kinds = (attributes.read_text(node_of(group.id), name) for name in ("encoding-type", "h5sparse_format"))
    kind = next((kind for kind in kinds if kind is not None), "csc")
    names = [name for name in ("shape", "h5sparse_shape") if node_of(group.id).attribute_storage(name) is not None]
    shape = _shape(group, names[0]) if names else legacy.tenx_shape(group)
    return SparseMatrix(group, "csr" if kind in ("csr", "csr_matrix") else "csc", shape)


def _shape(group: Any, name: str) -> tuple[int, int]:
    shape = attributes.read_integers(node_of(group.id), name)
    if shape is None or len(shape) != 2 or min(shape) < 0:
        raise CorruptError(f"the attribute {name} is not a matrix shape", path=path_of(group))
    return shape[0], shape[1]


def _dataset(node: Any) -> Any:
    if kind_of(node) != "dataset":
        raise FormatError(f"{path_of(node)} is a group, but must be a dataset", path=path_of(node))
    return node


def _flat(node: Any, what: str) -> Array:
    """All elements of a dataset of rank 1."""
    if len(shape_of(_dataset(node))) != 1:
        raise FormatError(f"{path_of(node)}: the {what} have the shape {shape_of(node)}, not rank 1")
    return read_array(node)


def _in_numpy(value: Any) -> Array:
    """Categories as an array; they may be stored as nullable strings."""
    array = value.values if isinstance(value, Nullable) else value
    if not isinstance(array, np.ndarray):
        raise FormatError(f"categories must be an array, not {type(array).__name__}")
    return array


def _in_pandas(value: Any) -> Any:
    """The value as a pandas column: records become one object per row."""
    if isinstance(value, np.ndarray) and value.dtype.names is not None:
        return value.astype(object)
    return value


def _has_awkward() -> bool:
    from importlib.util import find_spec

    return find_spec("awkward") is not None


Reader = Callable[[_Reading, Any], Any]
_OF_GROUPS: dict[tuple[str, str], Reader] = {
    ("anndata", "0.1.0"): _Reading.members,
    ("raw", "0.1.0"): _Reading.members,
    ("MuData", "0.1.0"): _Reading.members,
    ("dict", "0.1.0"): _Reading.mapping,
    ("csr_matrix", "0.1.0"): _Reading.sparse,
    ("csc_matrix", "0.1.0"): _Reading.sparse,
    ("dataframe", "0.1.0"): _Reading.frame,
    ("dataframe", "0.2.0"): _Reading.frame,
    ("categorical", "0.2.0"): _Reading.categorical,
    ("nullable-integer", "0.1.0"): _Reading.nullable,
    ("nullable-boolean", "0.1.0"): _Reading.nullable,
    ("nullable-string-array", "0.1.0"): _Reading.nullable,
    ("awkward-array", "0.1.0"): _Reading.awkward,
}
_OF_DATASETS: dict[tuple[str, str], Reader] = {
    ("array", "0.2.0"): _Reading.array,
    ("rec-array", "0.2.0"): _Reading.array,
    ("string-array", "0.2.0"): _Reading.strings,
    ("numeric-scalar", "0.2.0"): _Reading.scalar,
    ("string", "0.2.0"): _Reading.text,
    ("bytes", "0.2.0"): _Reading.raw_bytes,
    ("null", "0.1.0"): _Reading.null,
}
