"""Elements in memory that NumPy has no type for: categoricals, nullable arrays, awkward buffers, members.

Each holds exactly what is stored, after checks, so that it can be written back unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from colonnade.arrays import Booleans
from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError, UsageError
from colonnade.exchange import pandas_arrays

if TYPE_CHECKING:
    import awkward
    import pandas
    from pandas.api.extensions import ExtensionArray

ElementValue = Any
"""What an element of a file is in Python, as `read_element` lists it: the file decides, as it does for `json.loads`."""
NaValue = Literal["NA", "NaN"]


@dataclass(frozen=True, eq=False)
class Categorical:
    """Codes of categories; -1 is missing.

    >>> f = cn.open("cells.h5ad", "w")
    >>> cn.write_element(f.h5, "kind", cn.Categorical(np.array([0, 1, -1]), np.array(["a", "b"])))
    >>> cn.read_element(f.h5["kind"]).to_numpy()
    array(['a', 'b', None], dtype=object)
    """

    codes: np.ndarray
    categories: np.ndarray
    ordered: bool = False

    def __len__(self) -> int:
        return len(self.codes)

    def to_numpy(self) -> np.ndarray:
        """The values as an object array, with None for missing ones."""
        labels = np.array([*self.categories.tolist(), None], dtype=object)
        values: np.ndarray = labels[self.codes]
        return values

    def to_arrow(self) -> pa.DictionaryArray:
        """The values as an Arrow dictionary array."""
        codes = pa.array(self.codes, pa.int32() if self.codes.dtype.itemsize <= 4 else pa.int64(), mask=self.codes < 0)
        return pa.DictionaryArray.from_arrays(codes, pa.array(self.categories), ordered=self.ordered)

    def to_pandas(self) -> pandas.Categorical:
        """The values as a pandas Categorical."""
        return pandas_arrays.make_categorical(self.codes, self.categories, self.ordered)


@dataclass(frozen=True, eq=False)
class Nullable:
    """Integers, booleans or strings, and a mask that is True where a value is missing.

    na_value: how a missing string compares: "NA" makes the result missing, "NaN" makes it false.

    >>> f = cn.open("cells.h5ad", "w")
    >>> cn.write_element(f.h5, "n", cn.Nullable(np.array([1, 2]), np.array([False, True])))
    >>> cn.read_element(f.h5["n"]).to_numpy().tolist()
    [1, None]
    """

    values: np.ndarray
    mask: Booleans
    na_value: NaValue = "NA"

    def __len__(self) -> int:
        return len(self.values)

    def to_numpy(self) -> np.ndarray:
        """The values as a NumPy masked array."""
        masked: np.ndarray = np.ma.MaskedArray(self.values, self.mask)
        return masked

    def to_arrow(self) -> pa.Array:
        """The values as an Arrow array, with nulls for missing ones."""
        return pa.array(self.values, mask=self.mask)

    def to_pandas(self) -> ExtensionArray:
        """The values as a nullable pandas array."""
        return pandas_arrays.make_nullable(self.values, self.mask, self.na_value)


@dataclass(frozen=True, eq=False)
class AwkwardBuffers:
    """An awkward array as it is stored: its form (JSON), its length, and its buffers by name.

    >>> form = '{"class": "NumpyArray", "primitive": "int64", "form_key": "node0"}'
    >>> cn.AwkwardBuffers(form, 2, {"node0-data": np.array([1, 2])}).to_awkward().tolist()
    [1, 2]
    """

    form: str
    length: int
    buffers: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return self.length

    def to_awkward(self) -> awkward.Array:
        """The awkward array. Needs the package awkward. Raises a CorruptError if the buffers do not form an array."""
        try:
            import awkward
        except ImportError:
            raise UsageError("to_awkward() needs the package awkward (pip install awkward)") from None
        try:
            array = awkward.from_buffers(self.form, self.length, dict(self.buffers))
            problem = awkward.validity_error(array)
        except (ValueError, TypeError, KeyError, IndexError, AssertionError) as error:
            raise CorruptError(f"these buffers do not form an awkward array: {error}") from error
        if problem:
            raise CorruptError(f"these buffers do not form a valid awkward array: {problem}")
        return array


class Members(Mapping[str, ElementValue]):
    """The members of an AnnData object (or of its raw, or of MuData). Each is read when it is accessed.

    >>> import anndata
    >>> cn.from_anndata(anndata.AnnData(np.eye(2)), "cells.h5ad")
    >>> members = cn.read_element("cells.h5ad")
    >>> members.kind, members["X"].shape
    ('anndata', (2, 2))
    """

    __slots__ = ("_names", "_read", "_shown", "kind")

    def __init__(self, kind: str, names: Callable[[], Sequence[str]], read: Callable[[str], ElementValue]) -> None:
        self.kind = kind
        self._names = names
        self._read = read
        self._shown = list(names())

    def _look(self) -> Sequence[str]:
        """The names as of the last commit."""
        self._shown = list(self._names())
        return self._shown

    def __getitem__(self, name: str) -> ElementValue:
        if name not in self._look():
            raise KeyError(name)
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._look())

    def __len__(self) -> int:
        return len(self._look())

    def __repr__(self) -> str:
        return f"<{self.kind} element: {', '.join(self._shown)}>"
