"""A CSR or CSC matrix in a file, read by blocks of rows or columns; every bound is checked before SciPy sees it.

`m[10:20]`, `m[:, 3:5]`, `m.blocks(1000)` and `m.to_scipy()` give SciPy matrices. SciPy believes its arrays: an index
that is too large would make it write where it must not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from colonnade.anndata.parts import read_ranges
from colonnade.errors import CorruptError, FormatError, UsageError
from colonnade.h5.nodes import Array, dtype_of, kind_of, member, path_of, read_array, shape_of
from colonnade.selection import integers

BLOCK_ELEMENTS = 1 << 22  # stored elements that are looked through at once for some columns of a CSR matrix


class SparseMatrix:
    """A sparse matrix in a file. `format` is "csr" (rows lie together) or "csc" (columns do).

    >>> import scipy.sparse
    >>> f = cn.open("cells.h5ad", "w")
    >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
    >>> matrix = cn.read_element(f.h5["X"])
    >>> matrix
    <SparseMatrix /X: csr, 3 x 3, 3 stored>
    >>> matrix[0:2].toarray()
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """

    __slots__ = ("_data", "_indices", "_indptr", "_n_major", "_n_minor", "_starts", "format", "path", "shape")

    def __init__(self, group: Any, form: str, shape: tuple[int, int]) -> None:
        self.path = path_of(group)
        self.format = form
        self.shape = shape
        self._data, self._indices, self._indptr = (_flat(group, name) for name in ("data", "indices", "indptr"))
        self._n_major, self._n_minor = shape if form == "csr" else shape[::-1]
        self._check_lengths()
        self._starts: Array | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the stored elements."""
        return dtype_of(self._data)

    @property
    def nnz(self) -> int:
        """How many elements are stored."""
        return shape_of(self._data)[0]

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<SparseMatrix {self.path}: {self.format}, {self.shape[0]} x {self.shape[1]}, {self.nnz:,} stored>"

    def _check_lengths(self) -> None:
        n_indices, n_starts = shape_of(self._indices)[0], shape_of(self._indptr)[0]
        if n_indices != self.nnz:
            raise self._corrupt("indices", f"{self.nnz} of them, as there are data", n_indices)
        if n_starts != self._n_major + 1:
            raise self._corrupt("indptr", f"{self._n_major + 1} of them", n_starts)
        for name, dataset in (("indices", self._indices), ("indptr", self._indptr)):
            if dtype_of(dataset).kind not in "iu":
                raise self._corrupt(name, "integers", dtype_of(dataset))
        if dtype_of(self._data).kind not in "biufc":
            raise self._corrupt("data", "numbers", dtype_of(self._data))

    def _corrupt(self, name: str, expected: str, found: object) -> CorruptError:
        return CorruptError(
            f"{self.path}: the {name} of this {self.format} matrix are wrong: expected {expected}, found {found}",
            path=f"{self.path}/{name}",
            expected=expected,
            found=found,
        )

    def starts(self) -> Array:
        """Where each row (column, of CSC) begins among the stored elements; read and checked once.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f.h5["X"])
        >>> matrix.starts()
        array([0, 1, 2, 3])
        """
        if self._starts is None:
            self._starts = self._checked_starts(read_array(self._indptr))
        return self._starts

    def _checked_starts(self, read: Array) -> Array:
        if len(read) == 0 or int(read.min()) < 0 or int(read.max()) > self.nnz:
            raise self._corrupt("indptr", f"numbers from 0 to {self.nnz}", read[:3])
        starts: Array = read.astype(np.int64)
        if starts[0] != 0 or starts[-1] != self.nnz or (starts[1:] < starts[:-1]).any():
            raise self._corrupt("indptr", f"numbers that increase from 0 to {self.nnz}", starts[:3])
        return starts

    def stored_elements(self, start: int, stop: int) -> tuple[Array, Array]:
        """Indices and values from element `start` to `stop`, as they are stored: the caller checks the indices.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f.h5["X"])
        >>> columns, values = matrix.stored_elements(0, 2)
        >>> columns.tolist(), values.tolist()
        ([0, 1], [1.0, 1.0])
        """
        part = (slice(start, stop),)
        return read_array(self._indices, part), read_array(self._data, part)

    def _major(self, first: int, stop: int) -> Any:
        """The rows of CSR, or columns of CSC, from first to stop, as a SciPy matrix."""
        starts = self.starts()
        begin, end = int(starts[first]), int(starts[stop])
        indices, data = self.stored_elements(begin, end)
        self._check_indices(indices)
        width = np.int32 if max(end - begin, *self.shape) < 2**31 else np.int64
        lines = (starts[first : stop + 1] - begin).astype(width)
        shape = (stop - first, self._n_minor)
        native = data.astype(data.dtype.newbyteorder("="), copy=False)
        return self._made((native, indices.astype(width), lines), shape if self.format == "csr" else shape[::-1])

    def _check_indices(self, indices: Array) -> None:
        if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= self._n_minor):
            wrong = int(np.argmax((indices < 0) | (indices >= self._n_minor)))
            raise self._corrupt("indices", f"numbers from 0 to {self._n_minor - 1}", int(indices[wrong]))

    def _made(self, parts: tuple[Array, Array, Array], shape: tuple[int, int]) -> Any:
        scipy_sparse = _scipy_sparse()
        make = scipy_sparse.csr_matrix if self.format == "csr" else scipy_sparse.csc_matrix
        return make(parts, shape=shape)

    def to_scipy(self) -> Any:
        """All of it, as a SciPy csr_matrix or csc_matrix.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f.h5["X"])
        >>> matrix.to_scipy().shape
        (3, 3)
        """
        return self._major(0, self._n_major)

    def blocks(self, n: int) -> Iterator[Any]:
        """The matrix in blocks of `n` rows (columns, of CSC), as SciPy matrices; each is read when it is its turn.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f.h5["X"])
        >>> [block.shape for block in matrix.blocks(2)]
        [(2, 3), (1, 3)]
        """
        if n < 1:
            raise UsageError(f"a block has at least one row, not {n}")
        for first in range(0, self._n_major, n):
            yield self._major(first, min(first + n, self._n_major))

    def __getitem__(self, item: Any) -> Any:
        """A block: `m[10:20]`, `m[:, 3:5]`, `m[7]`, as a SciPy matrix; of the other axis, block by block."""
        rows, columns = item if isinstance(item, tuple) else (item, slice(None))
        row_range, column_range = _range(rows, self.shape[0]), _range(columns, self.shape[1])
        major, minor = (row_range, column_range) if self.format == "csr" else (column_range, row_range)
        if minor == range(self._n_minor):
            return self._major(major.start, max(major.stop, major.start))
        parts = [self._cut(first, stop, minor) for first, stop in self._runs(major)]
        if len(parts) == 1:
            return parts[0]
        stack = _scipy_sparse().vstack if self.format == "csr" else _scipy_sparse().hstack
        return stack(parts, format=self.format)

    def select(self, rows: Any = None, columns: Any = None) -> Any:
        """These rows and columns (numbers, increasing and each once; None: all) as a SciPy matrix.

        Along the axis that lies together only the chunks of what is wanted are read, along the other all of them are
        looked through, block by block.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f.h5["X"])
        >>> matrix.select(rows=[0, 2]).shape
        (2, 3)
        """
        chosen = [None if one is None else _numbers(one, self.shape[axis]) for axis, one in enumerate((rows, columns))]
        major, minor = chosen if self.format == "csr" else chosen[::-1]
        if major is None and minor is None:
            return self.to_scipy()
        wanted = np.arange(self._n_major) if major is None else major
        if minor is None:
            return self._take(wanted)
        parts = [self._narrowed(self._take(wanted[low:high]), minor) for low, high in self._pieces(wanted)]
        if len(parts) == 1:
            return parts[0]
        return (_scipy_sparse().vstack if self.format == "csr" else _scipy_sparse().hstack)(parts, format=self.format)

    def _take(self, lines: Array) -> Any:
        """These rows of CSR, or columns of CSC."""
        starts = self.starts()
        begins, ends = starts[lines], starts[lines + 1]
        indices = read_ranges(self._indices, begins, ends)
        data = read_ranges(self._data, begins, ends)
        self._check_indices(indices)
        width = np.int32 if max(len(data), *self.shape) < 2**31 else np.int64
        lengths = np.concatenate([[0], np.cumsum(ends - begins)]).astype(width)
        shape = (len(lines), self._n_minor)
        native = data.astype(data.dtype.newbyteorder("="), copy=False)
        return self._made((native, indices.astype(width), lengths), shape if self.format == "csr" else shape[::-1])

    def _narrowed(self, block: Any, minor: Array) -> Any:
        return block[:, minor] if self.format == "csr" else block[minor]

    def _pieces(self, lines: Array) -> list[tuple[int, int]]:
        """The lines in pieces of not too many stored elements; one at least, if only an empty one."""
        starts = self.starts()
        sums = np.concatenate([[0], np.cumsum(starts[lines + 1] - starts[lines])])
        pieces, first = [], 0
        while first < len(lines):
            most = int(np.searchsorted(sums, sums[first] + BLOCK_ELEMENTS, "right")) - 1
            pieces.append((first, min(max(most, first + 1), len(lines))))
            first = pieces[-1][1]
        return pieces or [(0, 0)]

    def _cut(self, first: int, stop: int, minor: range) -> Any:
        block = self._major(first, stop)
        chosen = slice(minor.start, max(minor.stop, minor.start))
        return block[:, chosen] if self.format == "csr" else block[chosen]

    def _runs(self, major: range) -> list[tuple[int, int]]:
        """The range in runs of not too many stored elements; one at least, if only an empty one."""
        starts, first, runs = self.starts(), major.start, []
        while first < major.stop:
            most = int(np.searchsorted(starts, starts[first] + BLOCK_ELEMENTS, "right")) - 1
            stop = min(max(most, first + 1), major.stop)
            runs.append((first, stop))
            first = stop
        return runs or [(major.start, major.start)]


def _scipy_sparse() -> Any:
    try:
        import scipy.sparse
    except ImportError:
        raise UsageError("a sparse matrix comes as one of SciPy (pip install scipy)") from None
    return scipy.sparse


def _flat(group: Any, name: str) -> Any:
    """A member that is a dataset of rank 1."""
    found = member(group, name)
    if kind_of(found) != "dataset" or len(shape_of(found)) != 1:
        raise FormatError(f"{path_of(group)}/{name} is no dataset of rank 1", path=path_of(group))
    return found


def _numbers(given: Any, length: int) -> Array:
    """Numbers of rows or columns, if they are increasing and there."""
    numbers: Array = integers(given)
    if (np.diff(numbers) < 1).any() or (len(numbers) and (numbers[0] < 0 or numbers[-1] >= length)):
        raise UsageError(f"rows and columns are numbers below {length}, increasing and each once")
    return numbers


def _range(item: Any, length: int) -> range:
    """An index or a slice without steps as a range of rows."""
    if isinstance(item, slice):
        found = range(*item.indices(length))
        if found.step != 1:
            raise UsageError(f"a block of a sparse matrix has no steps: {item}")
        return found
    if not isinstance(item, (int, np.integer)) or isinstance(item, bool):
        raise UsageError(f"a sparse matrix is read by numbers and slices, not by {item!r}: take a block of it first")
    if not -length <= item < length:
        raise UsageError(f"there is no row or column {item}: there are {length}")
    return range(int(item) % length, int(item) % length + 1)


def as_sparse_array(matrix: Any) -> Any:
    """A CSR or CSC matrix of SciPy as the sparse array of the same elements."""
    import scipy.sparse

    return getattr(scipy.sparse, f"{matrix.format}_array")(matrix)
