"""A CSR or CSC matrix in a file, read in blocks of rows or columns. Every index is checked before SciPy sees it.

`m[10:20]`, `m[:, 3:5]`, `m.blocks(1000)` and `m.to_scipy()` give SciPy matrices. SciPy trusts its arrays: an index
that is too large would make it write outside its buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from colonnade import limits
from colonnade.anndata.parts import read_ranges
from colonnade.errors import CorruptError, FormatError, UsageError
from colonnade.h5.arrays import Array, dtype_of, path_of, read_array, shape_of
from colonnade.h5.nodes import kind_of, member
from colonnade.selection import integers


class SparseMatrix:
    """A sparse matrix in a file. `format` is "csr" (stored by rows) or "csc" (by columns).

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
    def dtype(self) -> np.dtype:
        """The dtype of the stored elements."""
        return dtype_of(self._data)

    @property
    def nnz(self) -> int:
        """The number of stored elements."""
        return shape_of(self._data)[0]

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<SparseMatrix {self.path}: {self.format}, {self.shape[0]} x {self.shape[1]}, {self.nnz:,} stored>"

    def _check_lengths(self) -> None:
        n_indices, n_starts = shape_of(self._indices)[0], shape_of(self._indptr)[0]
        if n_indices != self.nnz:
            raise self._corrupt("indices", f"{self.nnz}, the number of data", n_indices)
        if n_starts != self._n_major + 1:
            raise self._corrupt("indptr", f"{self._n_major + 1}", n_starts)
        for name, dataset in (("indices", self._indices), ("indptr", self._indptr)):
            if dtype_of(dataset).kind not in "iu":
                raise self._corrupt(name, "integers", dtype_of(dataset))
        if dtype_of(self._data).kind not in "biufc":
            raise self._corrupt("data", "numbers", dtype_of(self._data))

    def _corrupt(self, name: str, expected: str, found: object) -> CorruptError:
        return CorruptError(
            f"the {name} of this {self.format} matrix are wrong: expected {expected}, found {found}",
            path=f"{self.path}/{name}",
            expected=expected,
            found=found,
        )

    def starts(self) -> Array:
        """The position of the first stored element of each row (CSC: column). Read and checked once.

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
        """The indices and values of the elements from `start` to `stop`, as stored. The indices are not checked.

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

    def _check_indices(self, indices: Array) -> None:
        if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= self._n_minor):
            wrong = int(np.argmax((indices < 0) | (indices >= self._n_minor)))
            raise self._corrupt("indices", f"numbers from 0 to {self._n_minor - 1}", int(indices[wrong]))

    def to_scipy(self) -> Any:
        """The whole matrix as a SciPy csr_matrix or csc_matrix.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f.h5["X"])
        >>> matrix.to_scipy().shape
        (3, 3)
        """
        return self._take(np.arange(self._n_major))

    def blocks(self, n: int) -> Iterator[Any]:
        """The matrix in blocks of `n` rows (CSC: columns), as SciPy matrices, each read when it is reached.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f.h5["X"])
        >>> [block.shape for block in matrix.blocks(2)]
        [(2, 3), (1, 3)]
        """
        if n < 1:
            raise UsageError(f"a block must have at least one row, not {n}")
        for first in range(0, self._n_major, n):
            yield self._take(np.arange(first, min(first + n, self._n_major)))

    def __getitem__(self, item: Any) -> Any:
        """A block as a SciPy matrix: `m[10:20]`, `m[:, 3:5]`, `m[7]`."""
        rows, columns = item if isinstance(item, tuple) else (item, slice(None))
        row_range, column_range = _range(rows, self.shape[0]), _range(columns, self.shape[1])
        major, minor = (row_range, column_range) if self.format == "csr" else (column_range, row_range)
        return self._block(np.arange(major.start, major.stop), None if minor == range(self._n_minor) else minor)

    def select(self, rows: Any = None, columns: Any = None) -> Any:
        """The given rows and columns (strictly increasing numbers; None: all) as a SciPy matrix.

        Along the major axis (rows of CSR, columns of CSC) only the chunks needed are read. A selection along the other
        axis reads all of them, block by block.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f.h5["X"])
        >>> matrix.select(rows=[0, 2]).shape
        (2, 3)
        """
        chosen = [
            None if given is None else _numbers(given, n) for given, n in zip((rows, columns), self.shape, strict=True)
        ]
        major, minor = chosen if self.format == "csr" else chosen[::-1]
        return self._block(np.arange(self._n_major) if major is None else major, minor)

    def _block(self, major: Array, minor: Array | range | None) -> Any:
        """These rows of CSR (or columns of CSC), restricted to `minor` along the other axis; None: all of that."""
        if minor is None:
            return self._take(major)
        # A slice costs SciPy less than an array of numbers.
        other = slice(minor.start, max(minor.start, minor.stop)) if isinstance(minor, range) else minor
        blocks = (self._take(major[low:high]) for low, high in self._pieces(major))
        parts = [block[:, other] if self.format == "csr" else block[other] for block in blocks]
        if len(parts) == 1:
            return parts[0]
        return (_scipy_sparse().vstack if self.format == "csr" else _scipy_sparse().hstack)(parts, format=self.format)

    def _take(self, lines: Array) -> Any:
        """These rows of CSR, or columns of CSC, as a SciPy matrix."""
        starts = self.starts()
        begins, ends = starts[lines], starts[lines + 1]
        if len(lines) and (begins[1:] == ends[:-1]).all():
            indices, data = self.stored_elements(int(begins[0]), int(ends[-1]))
        else:
            indices, data = (read_ranges(dataset, begins, ends) for dataset in (self._indices, self._data))
        self._check_indices(indices)
        width = np.int32 if max(len(data), *self.shape) < 2**31 else np.int64
        starts_taken = np.concatenate([[0], np.cumsum(ends - begins)]).astype(width)
        native = data.astype(data.dtype.newbyteorder("="), copy=False)
        parts = (native, indices.astype(width), starts_taken)
        if self.format == "csr":
            return _scipy_sparse().csr_matrix(parts, shape=(len(lines), self._n_minor))
        return _scipy_sparse().csc_matrix(parts, shape=(self._n_minor, len(lines)))

    def _pieces(self, lines: Array) -> list[tuple[int, int]]:
        """Ranges of `lines` with a limited number of stored elements each; at least one range, maybe empty."""
        starts = self.starts()
        sums = np.concatenate([[0], np.cumsum(starts[lines + 1] - starts[lines])])
        pieces, first = [], 0
        while first < len(lines):
            most = int(np.searchsorted(sums, sums[first] + limits.now.block_elements, "right")) - 1
            pieces.append((first, min(max(most, first + 1), len(lines))))
            first = pieces[-1][1]
        return pieces or [(0, 0)]


def _scipy_sparse() -> Any:
    try:
        import scipy.sparse
    except ImportError:
        raise UsageError("a sparse matrix is returned as a SciPy matrix: pip install scipy") from None
    return scipy.sparse


def _flat(group: Any, name: str) -> Any:
    """A member of the group, which must be a dataset of rank 1."""
    dataset = member(group, name)
    if kind_of(dataset) != "dataset" or len(shape_of(dataset)) != 1:
        raise FormatError(f"{path_of(group)}/{name} is not a dataset of rank 1", path=path_of(group))
    return dataset


def _numbers(given: Any, length: int) -> Array:
    """Row or column numbers, checked: strictly increasing and below `length`."""
    numbers: Array = integers(given)
    if (np.diff(numbers) < 1).any() or (len(numbers) and (numbers[0] < 0 or numbers[-1] >= length)):
        raise UsageError(f"row and column numbers must be below {length} and strictly increasing")
    return numbers


def _range(item: Any, length: int) -> range:
    """An index, or a slice with step 1, as a range."""
    if isinstance(item, slice):
        block = range(*item.indices(length))
        if block.step != 1:
            raise UsageError(f"a slice of a sparse matrix must have step 1: {item}")
        return block
    if not isinstance(item, (int, np.integer)) or isinstance(item, bool):
        raise UsageError(f"a sparse matrix takes integers and slices, not {item!r}. Read a block of it first.")
    if not -length <= item < length:
        raise UsageError(f"there is no row or column {item}: there are {length}")
    return range(int(item) % length, int(item) % length + 1)


def as_sparse_array(matrix: Any) -> Any:
    """A SciPy CSR or CSC matrix as a SciPy sparse array with the same elements."""
    import scipy.sparse

    return getattr(scipy.sparse, f"{matrix.format}_array")(matrix)
