"""A CSR or CSC matrix in a file, read in blocks of rows or columns. Every index is checked before SciPy sees it.

`m[10:20]`, `m[:, 3:5]`, `m.blocks(1000)` and `m.to_scipy()` give SciPy matrices. SciPy trusts its arrays: an index
that is too large would make it write outside its buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from colonnade import limits
from colonnade.anndata.parts import read_ranges
from colonnade.anndata.source import Element
from colonnade.errors import ConflictError, CorruptError, FormatError, UsageError
from colonnade.nodes import Dataset, Group
from colonnade.nodes.arrays import read_part
from colonnade.nodes.attributes import read_integers, read_text
from colonnade.nodes.members import find_member, is_array, open_member
from colonnade.selection import integers

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csc_matrix, csr_array, csr_matrix

T = TypeVar("T")
LineNumbers = Sequence[int] | np.ndarray
LinePart = int | np.integer | slice


def _form_of(group: Group) -> tuple[str, tuple[int, int]]:
    """ "csr" or "csc", and the shape. A matrix without attributes is that of a 10x Genomics file, in CSC."""
    kind, old = read_text(group, "encoding-type"), read_text(group, "h5sparse_format")
    if kind is None and old not in (None, "csr", "csc"):
        raise FormatError(f"{group.path} is a sparse matrix of the form {old!r}", path=group.path)
    form = "csr" if (kind or old) in ("csr", "csr_matrix") else "csc"
    names = [name for name in ("shape", "h5sparse_shape") if group.attribute_storage(name) is not None]
    return form, _shape(group, names[0]) if names else _tenx_shape(group)


def _shape(group: Group, name: str) -> tuple[int, int]:
    shape = read_integers(group, name)
    if shape is None or len(shape) != 2 or min(shape) < 0:
        raise CorruptError(f"the attribute {name} is not a matrix shape", path=group.path)
    return shape[0], shape[1]


def _tenx_shape(group: Group) -> tuple[int, int]:
    """The number of features and of barcodes of a 10x Genomics matrix."""
    dataset = find_member(group, "shape")
    shape = read_part(dataset) if is_array(dataset) else None
    if shape is None or shape.shape != (2,) or shape.dtype.kind not in "iu" or int(shape.min()) < 0:
        raise CorruptError("this is not a matrix shape", path=f"{group.path}/shape")
    return int(shape[0]), int(shape[1])


class StoredMatrix:
    """A sparse matrix in one state of its file."""

    def __init__(self, element: Element) -> None:
        group = element.group
        self.element = element
        self.path = group.path
        self.format, self.shape = _form_of(group)
        self.data, self.indices, self.indptr = (_flat(group, name) for name in ("data", "indices", "indptr"))
        self.dtype, self.nnz = self.data.array_dtype(), self.data.shape[0]
        self.n_major, self.n_minor = self.shape if self.format == "csr" else self.shape[::-1]
        self._starts: np.ndarray | None = None
        self._check_lengths()

    def _check_lengths(self) -> None:
        n_indices, n_starts = self.indices.shape[0], self.indptr.shape[0]
        if n_indices != self.nnz:
            raise self._corrupt("indices", f"{self.nnz}, the number of data", n_indices)
        if n_starts != self.n_major + 1:
            raise self._corrupt("indptr", f"{self.n_major + 1}", n_starts)
        for name, dataset in (("indices", self.indices), ("indptr", self.indptr)):
            if dataset.array_dtype().kind not in "iu":
                raise self._corrupt(name, "integers", dataset.array_dtype())
        if self.dtype.kind not in "biufc":
            raise self._corrupt("data", "numbers", self.dtype)

    def _corrupt(self, name: str, expected: str, found: object) -> CorruptError:
        return CorruptError(
            f"the {name} of this {self.format} matrix are wrong: expected {expected}, found {found}",
            path=f"{self.path}/{name}",
            expected=expected,
            found=found,
        )

    @property
    def starts(self) -> np.ndarray:
        """The position of the first stored element of each row (CSC: column). Read and checked once."""
        if self._starts is None:
            self._starts = self._checked_starts(read_part(self.indptr))
        return self._starts

    def _checked_starts(self, read: np.ndarray) -> np.ndarray:
        if len(read) == 0 or int(read.min()) < 0 or int(read.max()) > self.nnz:
            raise self._corrupt("indptr", f"numbers from 0 to {self.nnz}", read[:3])
        starts: np.ndarray = read.astype(np.int64)
        if starts[0] != 0 or starts[-1] != self.nnz or (starts[1:] < starts[:-1]).any():
            raise self._corrupt("indptr", f"numbers that increase from 0 to {self.nnz}", starts[:3])
        return starts

    def stored_elements(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """The indices and values of the elements from `start` to `stop`, as stored."""
        part = (slice(start, stop),)
        return read_part(self.indices, part), read_part(self.data, part)

    def _check_indices(self, indices: np.ndarray) -> None:
        if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= self.n_minor):
            wrong = int(np.argmax((indices < 0) | (indices >= self.n_minor)))
            raise self._corrupt("indices", f"numbers from 0 to {self.n_minor - 1}", int(indices[wrong]))

    def block(self, major: np.ndarray, minor: np.ndarray | range | None) -> csr_matrix | csc_matrix:
        """These rows of CSR (or columns of CSC), restricted to `minor` along the other axis; None: all of that."""
        if minor is None:
            return self.take(major)
        # A slice costs SciPy less than an array of numbers.
        other = slice(minor.start, max(minor.start, minor.stop)) if isinstance(minor, range) else minor
        blocks = (self.take(major[low:high]) for low, high in self._pieces(major))
        parts = [block[:, other] if self.format == "csr" else block[other] for block in blocks]
        if len(parts) == 1:
            return parts[0]
        return (_scipy_sparse().vstack if self.format == "csr" else _scipy_sparse().hstack)(parts, format=self.format)

    def take(self, lines: np.ndarray) -> csr_matrix | csc_matrix:
        """These rows of CSR, or columns of CSC, as a SciPy matrix."""
        starts = self.starts
        begins, ends = starts[lines], starts[lines + 1]
        if len(lines) and (begins[1:] == ends[:-1]).all():
            indices, data = self.stored_elements(int(begins[0]), int(ends[-1]))
        else:
            indices, data = (read_ranges(dataset, begins, ends) for dataset in (self.indices, self.data))
        self._check_indices(indices)
        width = np.int32 if max(len(data), *self.shape) < 2**31 else np.int64
        starts_taken = np.concatenate([[0], np.cumsum(ends - begins)]).astype(width)
        native = data.astype(data.dtype.newbyteorder("="), copy=False)
        parts = (native, indices.astype(width), starts_taken)
        if self.format == "csr":
            return _scipy_sparse().csr_matrix(parts, shape=(len(lines), self.n_minor))
        return _scipy_sparse().csc_matrix(parts, shape=(self.n_minor, len(lines)))

    def _pieces(self, lines: np.ndarray) -> list[tuple[int, int]]:
        """Ranges of `lines` with a limited number of stored elements each; at least one range, maybe empty."""
        starts = self.starts
        sums = np.concatenate([[0], np.cumsum(starts[lines + 1] - starts[lines])])
        pieces, first = [], 0
        while first < len(lines):
            most = int(np.searchsorted(sums, sums[first] + limits.now.block_elements, "right")) - 1
            pieces.append((first, min(max(most, first + 1), len(lines))))
            first = pieces[-1][1]
        return pieces or [(0, 0)]


class SparseMatrix:
    """A sparse matrix in a file. `format` is "csr" (stored by rows) or "csc" (by columns).

    It reads the last commit of the file whenever it is used, until the file is closed.

    >>> import scipy.sparse
    >>> f = cn.open("cells.h5ad", "w")
    >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
    >>> matrix = cn.read_element(f, "X")
    >>> matrix
    <SparseMatrix /X: csr, 3 x 3, 3 stored>
    >>> matrix[0:2].toarray()
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """

    __slots__ = ("_stored",)

    def __init__(self, element: Element) -> None:
        element.source.is_kept = True
        self._stored = StoredMatrix(element)

    def _look(self) -> StoredMatrix:
        """The matrix as of now; the caller reads one commit."""
        element = self._stored.element.now()
        if element is not self._stored.element:
            self._stored = StoredMatrix(element)
        return self._stored

    def _read(self, read: Callable[[StoredMatrix], T]) -> T:
        """What `read` makes of the matrix as of the last commit."""
        return self._stored.element.source.consistent(lambda: read(self._look()))

    def _described(self) -> StoredMatrix:
        """The matrix as of the last commit; in a closed file, as it was when it was last used."""
        return self._read(lambda stored: stored) if self._stored.element.source.is_open else self._stored

    @property
    def path(self) -> str:
        """The path of the matrix in its file."""
        return self._stored.path

    @property
    def format(self) -> str:
        """ "csr" if it is stored by rows, "csc" if by columns."""
        return self._described().format

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return self._described().shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the stored elements."""
        return self._described().dtype

    @property
    def nnz(self) -> int:
        """The number of stored elements."""
        return self._described().nnz

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        stored = self._stored
        n_rows, n_columns = stored.shape
        return f"<SparseMatrix {self.path}: {stored.format}, {n_rows} x {n_columns}, {stored.nnz:,} stored>"

    def starts(self) -> np.ndarray:
        """The position of the first stored element of each row (CSC: column). Read and checked once.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f, "X")
        >>> matrix.starts()
        array([0, 1, 2, 3])
        """
        return self._read(lambda stored: stored.starts)

    def stored_elements(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """The indices and values of the elements from `start` to `stop`, as stored. The indices are not checked.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f, "X")
        >>> columns, values = matrix.stored_elements(0, 2)
        >>> columns.tolist(), values.tolist()
        ([0, 1], [1.0, 1.0])
        """
        return self._read(lambda stored: stored.stored_elements(start, stop))

    def to_scipy(self) -> csr_matrix | csc_matrix:
        """The whole matrix as a SciPy csr_matrix or csc_matrix.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f, "X")
        >>> matrix.to_scipy().shape
        (3, 3)
        """
        return self._read(lambda stored: stored.take(np.arange(stored.n_major)))

    def blocks(self, n: int) -> Iterator[csr_matrix | csc_matrix]:
        """The matrix in blocks of `n` rows (CSC: columns), as SciPy matrices, each read when it is reached.

        A commit of another program meanwhile raises a ConflictError: the blocks are of one state of the file.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f, "X")
        >>> [block.shape for block in matrix.blocks(2)]
        [(2, 3), (1, 3)]
        """
        if n < 1:
            raise UsageError(f"a block must have at least one row, not {n}")
        begun = self._described()
        for first in range(0, begun.n_major, n):
            yield self._as_of(begun, partial(StoredMatrix.take, lines=np.arange(first, min(first + n, begun.n_major))))

    def _as_of(self, begun: StoredMatrix, read: Callable[[StoredMatrix], T]) -> T:
        """What `read` makes of the matrix in an earlier state; a ConflictError if the file has changed since."""

        def read_same(stored: StoredMatrix) -> T:
            if stored is not begun:
                raise ConflictError(f"{self.path} was changed while it was read: start again", path=self.path)
            return read(stored)

        return self._read(read_same)

    def __getitem__(self, item: LinePart | tuple[LinePart, LinePart]) -> csr_matrix | csc_matrix:
        """A block as a SciPy matrix: `m[10:20]`, `m[:, 3:5]`, `m[7]`."""
        rows, columns = item if isinstance(item, tuple) else (item, slice(None))

        def read(stored: StoredMatrix) -> csr_matrix | csc_matrix:
            row_range, column_range = _range(rows, stored.shape[0]), _range(columns, stored.shape[1])
            major, minor = (row_range, column_range) if stored.format == "csr" else (column_range, row_range)
            lines = np.arange(major.start, major.stop)
            return stored.block(lines, None if minor == range(stored.n_minor) else minor)

        return self._read(read)

    def select(self, rows: LineNumbers | None = None, columns: LineNumbers | None = None) -> csr_matrix | csc_matrix:
        """The given rows and columns (strictly increasing numbers; None: all) as a SciPy matrix.

        Along the major axis (rows of CSR, columns of CSC) only the chunks needed are read. A selection along the other
        axis reads all of them, block by block.

        >>> import scipy.sparse
        >>> f = cn.open("cells.h5ad", "w")
        >>> cn.write_element(f.h5, "X", scipy.sparse.csr_array(np.eye(3)))
        >>> matrix = cn.read_element(f, "X")
        >>> matrix.select(rows=[0, 2]).shape
        (2, 3)
        """

        def read(stored: StoredMatrix) -> csr_matrix | csc_matrix:
            chosen = [
                None if given is None else _numbers(given, length)
                for given, length in zip((rows, columns), stored.shape, strict=True)
            ]
            major, minor = chosen if stored.format == "csr" else chosen[::-1]
            return stored.block(np.arange(stored.n_major) if major is None else major, minor)

        return self._read(read)


def _scipy_sparse() -> ModuleType:
    try:
        import scipy.sparse
    except ImportError:
        raise UsageError("a sparse matrix is returned as a SciPy matrix: pip install scipy") from None
    module: ModuleType = scipy.sparse
    return module


def _flat(group: Group, name: str) -> Dataset:
    """A member of the group, which must be a dataset of rank 1."""
    dataset = open_member(group, name)
    if not is_array(dataset) or len(dataset.shape) != 1:
        raise FormatError(f"{group.path}/{name} is not a dataset of rank 1", path=group.path)
    return dataset


def _numbers(given: LineNumbers, length: int) -> np.ndarray:
    """Row or column numbers, checked: strictly increasing and below `length`."""
    numbers: np.ndarray = integers(given)
    if (np.diff(numbers) < 1).any() or (len(numbers) and (numbers[0] < 0 or numbers[-1] >= length)):
        raise UsageError(f"row and column numbers must be below {length} and strictly increasing")
    return numbers


def _range(item: object, length: int) -> range:
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


def as_sparse_array(matrix: csr_matrix | csc_matrix) -> csr_array | csc_array:
    """A SciPy CSR or CSC matrix as a SciPy sparse array with the same elements."""
    import scipy.sparse

    return getattr(scipy.sparse, f"{matrix.format}_array")(matrix)
