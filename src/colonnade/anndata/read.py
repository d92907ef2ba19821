"""Elements read: an object of a file to what it means, by its encoding-type and encoding-version.

An object without either is of anndata 0.7 or before, and is read by what it looks like (`legacy`). Frames and sparse
matrices come lazily, so do the members of an AnnData group; all else is read when it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

import numpy as np

from colonnade.anndata import legacy
from colonnade.anndata.objects import refuse_broken
from colonnade.anndata.sparse_matrix import SparseMatrix
from colonnade.anndata.values import AwkwardBuffers, Categorical, Members, Nullable
from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.exchange.pandas_arrays import make_frame
from colonnade.h5 import attributes
from colonnade.h5.links import dereference
from colonnade.h5.nodes import (
    Array,
    decode_texts,
    is_null,
    kind_of,
    member,
    member_names,
    object_at,
    path_of,
    place_of,
    read_array,
    shape_of,
)
from colonnade.layouts.foreign_tables import is_tenx, read_plain
from colonnade.table import open as open_file

DEEPEST = 64  # groups in groups
_BEGUN = object()  # stands for what is being read


def read_element(node: Any, *, pandas: bool = False) -> Any:
    """An AnnData element: what a group or dataset of an `.h5ad` file (`file.h5["obs"]`) means.

    Arrays and texts come as NumPy arrays (texts as `object`), scalars as NumPy scalars and `str`, null as None,
    mappings as dicts, frames as lazy Tables, sparse matrices as lazy SparseMatrix objects, categoricals and nullable
    arrays as Categorical and Nullable. An awkward array comes as one if the package is installed, else as its
    buffers. The members of an AnnData group are read one by one when they are asked for. A matrix of 10x Genomics is a
    SparseMatrix too, features by barcodes, as it is stored.
    pandas: frames, categoricals and nullable arrays come as those of pandas instead, frames read at once.

    >>> f = cn.open("cells.h5ad", "w")
    >>> cn.write_element(f.h5, "uns", {"seed": 1, "names": ["a", "b"]})
    >>> cn.read_element(f.h5["uns"])["names"].tolist()
    ['a', 'b']
    """
    kind_of(node)
    return _Reading(pandas).read(node)


@dataclass(frozen=True)
class _Reading:
    """One reading. What is `done`, by its place in the file, is not read again: links can make a few objects many."""

    pandas: bool
    depth: int = 0
    done: dict[int, Any] = field(default_factory=dict)

    def read(self, node: Any) -> Any:
        place = place_of(node)
        if place is None:
            raise CorruptError(f"the header of {path_of(node)} cannot be read", path=path_of(node))
        if place not in self.done:
            self.done[place] = _BEGUN
            self.done[place] = self._read(node)
        if self.done[place] is _BEGUN:
            message = f"{path_of(node)} lies in itself: it is not read"
            raise UnsupportedError(message, feature="groups that lie in themselves", path=path_of(node))
        return self.done[place]

    def _read(self, node: Any) -> Any:
        kind = encoding_of(node)
        if kind == (None, None):
            return self._unmarked(node)
        readers = _OF_GROUPS if kind_of(node) == "group" else _OF_DATASETS
        reader = readers.get((kind[0] or "", kind[1] or ""))
        if reader is None:
            raise UnsupportedError(
                f"{path_of(node)} is a {kind_of(node)} of encoding-type {kind[0]!r}, version {kind[1]!r}, which is not "
                "known here",
                feature=f"{kind[0]} {kind[1]}",
                path=path_of(node),
            )
        return reader(self, node)

    def below(self, group: Any) -> _Reading:
        """The same reading, inside this group."""
        if self.depth >= DEEPEST:
            message = f"{path_of(group)} lies more than {DEEPEST} groups deep: it is not read"
            raise UnsupportedError(message, feature="groups that lie too deep", path=path_of(group))
        return replace(self, depth=self.depth + 1)

    def one_member(self, group: Any, name: str) -> Any:
        """A member of a group whose members are read one by one: nothing is kept of the others."""
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
        ordered = attributes.read_flag(group.id, "ordered")
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
                f"{path_of(node)}, row {wrong}: {codes[wrong]} is no code of the {len(categories)} categories",
                path=path_of(node),
                row=wrong,
                found=int(codes[wrong]),
            )
        if self.pandas and len(set(categories.tolist())) != len(categories):
            raise FormatError(f"{path_of(node)}: a category is there twice, which pandas cannot hold")
        made = Categorical(codes, categories, ordered)
        return made.to_pandas() if self.pandas else made

    def nullable(self, group: Any) -> Any:
        values, mask = member(group, "values"), _flat(member(group, "mask"), "mask")
        read = _flat(values, "values")
        wanted = {"nullable-integer": "iu", "nullable-boolean": "b", "nullable-string-array": "O"}
        if read.dtype.kind not in wanted[str(encoding_of(group)[0])]:
            raise FormatError(f"{path_of(values)} holds {read.dtype}", path=path_of(values))
        if mask.dtype.kind != "b" or len(mask) != len(read):
            raise FormatError(f"the mask of {path_of(group)} is not one boolean a value", path=path_of(group))
        made = Nullable(read, mask, "NaN" if attributes.read_text(group.id, "na-value") == "NaN" else "NA")
        return made.to_pandas() if self.pandas else made

    def awkward(self, group: Any) -> Any:
        form, length = attributes.read_text(group.id, "form"), attributes.read_integers(group.id, "length")
        if form is None or length is None or len(length) != 1 or length[0] < 0:
            raise FormatError(f"{path_of(group)} has no form and length of an awkward array", path=path_of(group))
        try:
            json.loads(form)
        except (ValueError, RecursionError) as error:
            raise CorruptError(f"the form of {path_of(group)} is no JSON: {error}", path=path_of(group)) from error
        buffers = {name: read_array(_dataset(member(group, name))) for name in member_names(group)}
        made = AwkwardBuffers(form, length[0], buffers)
        return made.to_awkward() if _has_awkward() else made

    # -- datasets --

    def array(self, dataset: Any) -> Any:
        return read_array(dataset)

    def texts(self, dataset: Any) -> Array:
        read = read_array(dataset)
        if read.dtype.kind == "S":
            read = decode_texts(read, path_of(dataset))
        if read.dtype.kind != "O":
            raise FormatError(f"{path_of(dataset)} holds {read.dtype}, not text", path=path_of(dataset))
        return read

    def scalar(self, dataset: Any) -> Any:
        if shape_of(dataset) != ():
            raise FormatError(f"{path_of(dataset)} has the shape {shape_of(dataset)}, not that of a scalar")
        return read_array(dataset)[()]

    def text(self, dataset: Any) -> str:
        value = self.scalar(dataset)
        if isinstance(value, bytes):
            return str(decode_texts(np.array(value), path_of(dataset))[()])
        if not isinstance(value, str):
            raise FormatError(f"{path_of(dataset)} holds {type(value).__name__}, not a text", path=path_of(dataset))
        return value

    def raw_bytes(self, dataset: Any) -> bytes:
        value = self.scalar(dataset)
        return value.encode() if isinstance(value, str) else bytes(value)

    def null(self, _dataset: Any) -> None:
        return None

    # -- objects of anndata 0.7 and before --

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
        form = attributes.read_text(group.id, "h5sparse_format")
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
        """The categories that a column of codes refers to, and if their order means something."""
        references = attributes.read_references(dataset.id, "categories")
        target = dereference(dataset.id, references[0]) if references else None
        if target is None:
            return None
        found = object_at(target)
        read = read_plain(found) if kind_of(found) == "dataset" else None
        if not isinstance(read, np.ndarray):
            raise FormatError(f"the categories of {path_of(dataset)} are no array", path=path_of(dataset))
        return read, bool(attributes.read_flag(target, "ordered"))


def encoding_of(node: Any) -> tuple[str | None, str | None]:
    """What an object says that it is."""
    return attributes.read_text(node.id, "encoding-type"), attributes.read_text(node.id, "encoding-version")


def open_matrix(group: Any) -> SparseMatrix:
    """The matrix of a group of data, indices and indptr. Without attributes it is one of 10x Genomics, by columns."""
    kinds = (attributes.read_text(group.id, name) for name in ("encoding-type", "h5sparse_format"))
    kind = next((kind for kind in kinds if kind is not None), "csc")
    names = [name for name in ("shape", "h5sparse_shape") if attributes.storage_of(group.id, name) is not None]
    shape = _shape(group, names[0]) if names else legacy.tenx_shape(group)
    return SparseMatrix(group, "csr" if kind in ("csr", "csr_matrix") else "csc", shape)


def _shape(group: Any, name: str) -> tuple[int, int]:
    shape = attributes.read_integers(group.id, name)
    if shape is None or len(shape) != 2 or min(shape) < 0:
        raise CorruptError(f"the attribute {name} of {path_of(group)} is not a shape of a matrix", path=path_of(group))
    return shape[0], shape[1]


def _dataset(node: Any) -> Any:
    if kind_of(node) != "dataset":
        raise FormatError(f"{path_of(node)} is a group where a dataset belongs", path=path_of(node))
    return node


def _flat(node: Any, what: str) -> Array:
    """All elements of a dataset of rank 1."""
    if len(shape_of(_dataset(node))) != 1:
        raise FormatError(f"{path_of(node)}: the {what} have the shape {shape_of(node)}, not rank 1")
    return read_array(node)


def _in_numpy(value: Any) -> Array:
    """Categories, which may be nullable texts, as an array."""
    found = value.values if isinstance(value, Nullable) else value
    if not isinstance(found, np.ndarray):
        raise FormatError(f"categories are an array, not {type(found).__name__}")
    return found


def _in_pandas(value: Any) -> Any:
    """What a frame of pandas can take as a column: records as objects, one a row."""
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
    ("string-array", "0.2.0"): _Reading.texts,
    ("numeric-scalar", "0.2.0"): _Reading.scalar,
    ("string", "0.2.0"): _Reading.text,
    ("bytes", "0.2.0"): _Reading.raw_bytes,
    ("null", "0.1.0"): _Reading.null,
}
