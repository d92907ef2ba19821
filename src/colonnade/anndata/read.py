"""Read elements: HDF5 objects to Python values, by their encoding-type and encoding-version.

An object with neither was written by anndata 0.7 or earlier and is read by its structure (`legacy`). Frames, sparse
matrices and the members of an AnnData group are read lazily; everything else is read at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from colonnade.anndata import legacy
from colonnade.anndata.objects import refuse_broken
from colonnade.anndata.source import Element, ElementSource, FileSource, H5Source
from colonnade.anndata.sparse_matrix import SparseMatrix
from colonnade.anndata.values import AwkwardBuffers, Categorical, ElementValue, Members, Nullable
from colonnade.dataclass import dataclass, replace
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.exchange.pandas_arrays import make_frame
from colonnade.layouts.foreign_tables import is_tenx, read_plain
from colonnade.nodes import Dataset, H5Node
from colonnade.nodes.arrays import read_part
from colonnade.nodes.attributes import read_flag, read_integers, read_references, read_text
from colonnade.nodes.elements import as_strings
from colonnade.nodes.members import GroupMember
from colonnade.nodes.paths import is_dataset
from colonnade.opening import is_of_h5py
from colonnade.pager.options import Target
from colonnade.table import File, Table
from colonnade.table import open as open_file

if TYPE_CHECKING:
    import awkward
    from pandas import Categorical as PandasCategorical
    from pandas import DataFrame
    from pandas.api.extensions import ExtensionArray


DEEPEST_GROUP = 64  # nested groups
_BEGUN = object()  # marks an object that is being read


def read_element(source: Target | File | H5Node, name: str | None = None, *, pandas: bool = False) -> ElementValue:
    """Read an AnnData element of an `.h5ad` file, such as "X", "obs" or "uns/colors".

    source: a path, an open File, or anything else `open` takes; or a group or dataset of h5py (`file.h5["obs"]`), which
    is read through libhdf5. name: the path of the element in the source; by default the source itself, which for a file
    is the AnnData object.
    pandas: return frames, categoricals and nullable arrays as pandas objects, with frames read at once.

    Arrays are returned as NumPy arrays (strings as `object`), scalars as NumPy scalars and `str`, null as None,
    mappings as dicts, frames as lazy Tables, sparse matrices as lazy SparseMatrix objects, categoricals and nullable
    arrays as Categorical and Nullable. An awkward array is returned as such if awkward is installed, else as its
    buffers. The members of an AnnData group are read one by one when they are accessed. A 10x Genomics matrix is a
    SparseMatrix too, features by barcodes, as stored.

    Tables, SparseMatrix objects and Members read the last commit whenever they are used, until their File is closed.
    The file of a path stays open as long as they are in use.

    >>> import scipy.sparse
    >>> f = cn.open("cells.h5ad", "w")
    >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
    >>> cn.write_element(f.h5, "uns", {"seed": 1, "names": ["a", "b"]})
    >>> f.close()
    >>> cn.read_element("cells.h5ad", "uns")["names"].tolist()
    ['a', 'b']
    >>> with cn.open("cells.h5ad") as f:
    ...     cn.read_element(f, "X")[0:2].shape
    (2, 3)
    """
    if is_of_h5py(source):
        return read_at(H5Source(source), "" if name is None else name.strip("/"), pandas)
    if isinstance(source, File):
        source._check_open()
        return read_at(FileSource(source), source._absolute(name or ""), pandas)
    file = open_file(source)
    elements = FileSource(file)
    try:
        return read_at(elements, file._absolute(name or ""), pandas)
    finally:
        if not elements.is_kept:
            file.close()


def read_at(source: ElementSource, path: str, pandas: bool = False) -> ElementValue:
    """The element at a path of a source, from one commit."""
    return source.consistent(lambda: element_value(Element.at(source, path), pandas))


def element_value(element: Element, pandas: bool = False) -> ElementValue:
    """The value of an element, as `read_element` returns it; the caller reads one commit."""
    return _Reading(pandas).read(element)


@dataclass(frozen=True)
class _Reading:
    """One call of `read_element`. `done` holds what was read, by address: many links may lead to one object."""

    pandas: bool
    depth: int = 0
    done: dict[int, object] = field(default_factory=dict)

    def read(self, element: Element) -> ElementValue:
        node = element.node
        address = node.address
        if address is None:
            raise CorruptError("the header cannot be read", path=node.path)
        if address not in self.done:
            self.done[address] = _BEGUN
            self.done[address] = self._read(element)
        if self.done[address] is _BEGUN:
            message = f"{node.path} contains itself, which is not supported"
            raise UnsupportedError(message, feature="groups that contain themselves", path=node.path)
        return self.done[address]

    def _read(self, element: Element) -> ElementValue:
        node = element.node
        kind = encoding_of(node)
        if kind == (None, None):
            return self._unmarked(element)
        key = kind[0] or "", kind[1] or ""
        reader = _OF_DATASETS.get(key) if node.is_dataset else _OF_GROUPS.get(key)
        if reader is None:
            what = "dataset" if node.is_dataset else "group"
            raise UnsupportedError(
                f"{node.path} is a {what} of encoding-type {kind[0]!r}, version {kind[1]!r}, which is not supported",
                feature=f"{kind[0]} {kind[1]}",
                path=node.path,
            )
        return reader(self, element)

    def below(self, element: Element) -> _Reading:
        """This state, one level deeper. Raises an UnsupportedError if groups are nested too deeply."""
        if self.depth >= DEEPEST_GROUP:
            path = element.node.path
            message = f"{path} is nested more than {DEEPEST_GROUP} groups deep, which is not supported"
            raise UnsupportedError(message, feature="groups that are nested too deeply", path=path)
        return replace(self, depth=self.depth + 1)

    def one_member(self, element: Element) -> ElementValue:
        """A member of a group whose members are read one by one, so `done` starts empty."""
        return replace(self, done={}).read(element)

    # -- groups --

    def mapping(self, element: Element) -> dict[str, ElementValue]:
        inside = self.below(element)
        return {name: inside.read(element.member(name)) for name in element.names}

    def members(self, element: Element) -> Members:
        kind, inside = encoding_of(element.node)[0] or "anndata", self.below(element)
        element.source.is_kept = True
        return Members(
            kind,
            lambda: element.consistent(lambda now: now.names),
            lambda name: element.consistent(lambda now: inside.one_member(now.member(name))),
        )

    def sparse(self, element: Element) -> SparseMatrix:
        return SparseMatrix(element)

    def frame(self, element: Element) -> Table | DataFrame:
        table = element.table()
        if not self.pandas:
            element.source.is_kept = True
            return table
        refuse_broken(table)
        info, inside = table.info, self.below(element)
        arrays = {column.name: _in_pandas(inside.read(element.descendant(column.name))) for column in info.members}
        index = arrays.get(info.index_name or "")
        columns = {column.name: arrays[column.name] for column in info.columns}
        return make_frame(columns, index, None if info.index_name == "_index" else info.index_name)

    def categorical(self, element: Element) -> Categorical | PandasCategorical:
        categories = _in_numpy(_Reading(False, self.below(element).depth).read(element.member("categories")))
        ordered = read_flag(element.node, "ordered")
        if ordered is None:
            raise FormatError(f"{element.node.path} has no flag `ordered`", path=element.node.path)
        return self._made_categorical(element.member("codes").dataset, categories, ordered)

    def _made_categorical(
        self, dataset: Dataset, categories: np.ndarray, ordered: bool
    ) -> Categorical | PandasCategorical:
        codes = _flat(dataset, "codes")
        if codes.dtype.kind not in "iu" or categories.ndim != 1:
            raise FormatError(f"{dataset.path} holds {codes.dtype}, not integer codes", path=dataset.path)
        if len(codes) and (int(codes.min()) < -1 or int(codes.max()) >= len(categories)):
            wrong = int(np.argmax((codes < -1) | (codes >= len(categories))))
            raise CorruptError(
                f"{codes[wrong]} is not a code of the {len(categories)} categories",
                path=dataset.path,
                row=wrong,
                found=int(codes[wrong]),
            )
        if self.pandas and len(set(categories.tolist())) != len(categories):
            raise FormatError(f"{dataset.path}: two categories are equal, which pandas does not allow")
        categorical = Categorical(codes, categories, ordered)
        return categorical.to_pandas() if self.pandas else categorical

    def nullable(self, element: Element) -> Nullable | ExtensionArray:
        path, values = element.node.path, element.member("values").dataset
        mask = _flat(element.member("mask").dataset, "mask")
        read = _flat(values, "values")
        wanted = {"nullable-integer": "iu", "nullable-boolean": "b", "nullable-string-array": "O"}
        if read.dtype.kind not in wanted[str(encoding_of(element.node)[0])]:
            raise FormatError(f"{values.path} holds {read.dtype}", path=values.path)
        if mask.dtype.kind != "b" or len(mask) != len(read):
            raise FormatError(f"the mask of {path} is not one boolean per value", path=path)
        nullable = Nullable(read, mask, "NaN" if read_text(element.node, "na-value") == "NaN" else "NA")
        return nullable.to_pandas() if self.pandas else nullable

    def awkward(self, element: Element) -> AwkwardBuffers | awkward.Array:
        node = element.node
        form, length = read_text(node, "form"), read_integers(node, "length")
        if form is None or length is None or len(length) != 1 or length[0] < 0:
            raise FormatError(f"{node.path} has no form and length of an awkward array", path=node.path)
        try:
            json.loads(form)
        except (ValueError, RecursionError) as error:
            raise CorruptError(f"the form is not JSON: {error}", path=node.path) from error
        buffers = {name: read_part(element.member(name).dataset) for name in element.names}
        awkward = AwkwardBuffers(form, length[0], buffers)
        return awkward.to_awkward() if _has_awkward() else awkward

    # -- datasets --

    def array(self, element: Element) -> np.ndarray:
        return read_part(element.dataset)

    def strings(self, element: Element) -> np.ndarray:
        read, path = read_part(element.dataset), element.node.path
        if read.dtype.kind == "S":
            read = as_strings(read, path)
        if read.dtype.kind != "O":
            raise FormatError(f"{path} holds {read.dtype}, not text", path=path)
        return read

    def scalar(self, element: Element) -> ElementValue:
        shape, path = element.dataset.shape, element.node.path
        if shape != ():
            raise FormatError(f"{path} has the shape {shape}, but a scalar has the shape ()")
        return read_part(element.dataset)[()]

    def text(self, element: Element) -> str:
        value, path = self.scalar(element), element.node.path
        if isinstance(value, bytes):
            return str(as_strings(np.array(value), path)[()])
        if not isinstance(value, str):
            raise FormatError(f"{path} holds {type(value).__name__}, not a string", path=path)
        return value

    def raw_bytes(self, element: Element) -> bytes:
        value = self.scalar(element)
        return value.encode() if isinstance(value, str) else bytes(value)

    def null(self, _element: Element) -> None:
        return None

    # -- objects of anndata 0.7 and earlier --

    def _unmarked(self, element: Element) -> ElementValue:
        if not element.node.is_dataset:
            return self._unmarked_group(element)
        dataset = element.dataset
        if dataset.is_null:
            return None
        categories = self._legacy_categories(dataset)
        return read_plain(dataset) if categories is None else self._made_categorical(dataset, *categories)

    def _unmarked_group(self, element: Element) -> ElementValue:
        if read_text(element.node, "h5sparse_format") is not None or is_tenx(element.group):
            return SparseMatrix(element)
        if {"obs", "var"} <= set(element.names):
            element.source.is_kept = True
            return legacy.old_members(element, self.below(element).one_member, self.pandas)
        return self.mapping(element)

    def _legacy_categories(self, dataset: Dataset) -> tuple[np.ndarray, bool] | None:
        """The categories that a dataset of codes refers to, and whether they are ordered; None if it refers to none."""
        references = read_references(dataset, "categories")
        target = dataset.dereference(references[0]) if references else None
        if target is None:
            return None
        read = read_plain(target) if is_dataset(target) else None
        if not isinstance(read, np.ndarray):
            raise FormatError(f"the categories of {dataset.path} are not an array", path=dataset.path)
        return read, bool(read_flag(target, "ordered"))


def encoding_of(node: GroupMember) -> tuple[str | None, str | None]:
    """The encoding-type and encoding-version of an object; None for each that is absent."""
    return read_text(node, "encoding-type"), read_text(node, "encoding-version")


def _flat(dataset: Dataset, what: str) -> np.ndarray:
    """All elements of a dataset of rank 1."""
    if len(dataset.shape) != 1:
        raise FormatError(f"{dataset.path}: the {what} have the shape {dataset.shape}, not rank 1")
    return read_part(dataset)


def _in_numpy(value: object) -> np.ndarray:
    """Categories as an array; they may be stored as nullable strings."""
    array = value.values if isinstance(value, Nullable) else value
    if not isinstance(array, np.ndarray):
        raise FormatError(f"categories must be an array, not {type(array).__name__}")
    return array


def _in_pandas(value: object) -> object:
    """The value as a pandas column: records become one object per row."""
    if isinstance(value, np.ndarray) and value.dtype.names is not None:
        return value.astype(object)
    return value


def _has_awkward() -> bool:
    from importlib.util import find_spec

    return find_spec("awkward") is not None


Reader = Callable[[_Reading, Element], object]
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
