"""Matrix Market files (.mtx, .mtx.gz): read and written as streams of cells.

    %%MatrixMarket matrix coordinate real general      field: real, double, integer, complex, pattern
    % comments                                         symmetry: general, symmetric, skew-symmetric, hermitian
    3 4 2                                              rows, columns, entries
    1 1 0.5                                            counted from 1
    3 4 1e3

For the symmetric forms the other half is generated. Everything is checked: numbers, their count, coordinates. Integers
are signed 64-bit; larger ones are neither read nor written.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

import numpy as np

from colonnade.edit.cell_streams import Block, CellStream
from colonnade.errors import CorruptError, FormatError, UnsupportedError, UsageError
from colonnade.pager.safe_files import written_whole

_FIELDS = {"real": "<f8", "double": "<f8", "integer": "<i8", "complex": "<c16", "pattern": "|b1"}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
_READ = 1 << 20
_MOST_LINE = 1 << 16
_LARGEST = 2**63 - 1  # largest integer that is read, and therefore written


def is_matrix_market(path: str | Path) -> bool:
    """Whether a path has the suffix of a Matrix Market file."""
    return str(path).lower().endswith((".mtx", ".mtx.gz"))


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")  # type: ignore[return-value]


@contextmanager
def _create(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is complete."""
    with written_whole(path, sweeps=True) as stream:
        if not path.name.lower().endswith(".gz"):
            yield stream
            return
        with gzip.GzipFile("", "wb", 6, stream) as file:
            yield file  # type: ignore[misc]


class _Head:
    """The header lines of a file."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.name = name
        words = self._line(file).decode("ascii", "replace").lower().split()
        if words[:1] != ["%%matrixmarket"] or len(words) != 5:
            raise FormatError(f"{name} is not a Matrix Market file: it does not begin with %%MatrixMarket", path=name)
        if words[1:3] != ["matrix", "coordinate"]:
            raise UnsupportedError(f"{name} holds a {' '.join(words[1:3])}, not a coordinate matrix", feature=words[2])
        self.field, self.symmetry = words[3], words[4]
        if self.field not in _FIELDS or self.symmetry not in _SYMMETRIES:
            raise FormatError(f"{name}: {self.field} {self.symmetry} is not a kind of Matrix Market file", path=name)
        line = self._line(file)
        while line.startswith(b"%") or not line.strip():
            line = self._line(file)
        try:
            self.n_rows, self.n_columns, self.n_entries = (int(word) for word in line.split())
        except ValueError:
            raise CorruptError(f"{line[:80]!r} are not rows, columns and entries", path=name) from None
        if max(self.n_rows, self.n_columns) >= 1 << 53:
            message = f"{name}: {line.strip()[:80]!r} are more rows or columns than 2**53"
            raise UnsupportedError(message, feature="more than 2**53 rows or columns", path=name)
        if min(self.n_rows, self.n_columns, self.n_entries) < 0:
            raise CorruptError(f"a matrix cannot have {line.strip()[:80]!r} rows, columns, entries", path=name)

    def _line(self, file: IO[bytes]) -> bytes:
        line = file.readline(_MOST_LINE)
        if not line.endswith(b"\n"):
            raise CorruptError("the file ends within its header", path=self.name)
        return line

    @property
    def n_words(self) -> int:
        return {"pattern": 2, "complex": 4}.get(self.field, 3)


def read_matrix_market(path: str | Path) -> CellStream:
    """The cells of a file, in file order."""
    file_path = Path(path)
    with _open(file_path) as file:
        head = _read(lambda: _Head(file, str(path)), str(path))

    def blocks(_chunk: tuple[int, ...]) -> Iterator[Block]:
        with _open(file_path) as file:
            _Head(file, str(path))
            yield from _blocks(file, head)

    return CellStream((head.n_rows, head.n_columns), np.dtype(_FIELDS[head.field]), blocks)


T = TypeVar("T")


def _read(work: Callable[[], T], name: str) -> T:
    try:
        return work()
    except (gzip.BadGzipFile, EOFError) as error:
        raise CorruptError(f"the file cannot be unpacked: {error}", path=name) from error


def _blocks(file: IO[bytes], head: _Head) -> Iterator[Block]:
    rest, n_done = b"", 0
    while True:
        data = _read(lambda: file.read(_READ), head.name)
        text = rest + data
        cut = text.rfind(b"\n") + 1 if data else len(text)
        rest = text[cut:]
        if len(rest) > _MOST_LINE:
            raise CorruptError(f"the file has a line of more than {_MOST_LINE} bytes", path=head.name)
        block = _parse(text[:cut], head, n_done)
        n_done += len(block[1])
        yield _mirrored(block, head)
        if not data:
            break
    if n_done != head.n_entries:
        raise CorruptError(f"the file has {n_done} entries, its header gives {head.n_entries}", path=head.name)


def _parse(text: bytes, head: _Head, n_before: int) -> Block:
    dtype = np.dtype(np.int64 if head.field in ("integer", "pattern") else np.float64)
    words = text.split()
    n_rows, rest = divmod(len(words), head.n_words)
    if rest:
        raise CorruptError(f"lines after entry {n_before} do not have {head.n_words} words each", path=head.name)
    try:
        table = np.array(words, dtype="S").astype(dtype).reshape(n_rows, head.n_words)
    except (ValueError, OverflowError) as error:
        raise CorruptError(f"after entry {n_before}: {error}", path=head.name) from None
    axes = []
    for axis, size in enumerate((head.n_rows, head.n_columns)):
        with np.errstate(invalid="ignore"):  # NaN is not a coordinate, and is found below
            numbers = table[:, axis].astype(np.int64) - 1
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= size or (numbers + 1 != table[:, axis]).any()):
            raise CorruptError(f"after entry {n_before}, a cell is outside the matrix", path=head.name)
        axes.append(numbers)
    return tuple(axes), _values(table, head.field)


def _values(table: np.ndarray, field: str) -> np.ndarray:
    if field == "pattern":
        return np.ones(len(table), dtype=bool)
    if field == "complex":
        values = np.empty(len(table), dtype=np.complex128)
        values.real, values.imag = table[:, 2], table[:, 3]  # a sum would lose infinities and the sign of 0
        return values
    return np.ascontiguousarray(table[:, 2])


def _mirrored(block: Block, head: _Head) -> Block:
    """The mirrored half of a symmetric matrix, of which only one half is stored."""
    if head.symmetry == "general":
        return block
    (rows, columns), values = block
    off = rows != columns
    twin = values[off]
    if head.symmetry == "skew-symmetric":
        if head.field == "integer" and len(twin) and twin.min() < -_LARGEST:
            message = f"{head.name}: {twin.min()} has no 64-bit negative"
            raise UnsupportedError(message, feature="integers of more than 64 bits", path=head.name)
        twin = -twin
    elif head.symmetry == "hermitian":
        twin = np.conj(twin)
    axes = np.concatenate((rows, columns[off])), np.concatenate((columns, rows[off]))
    return axes, np.concatenate((values, twin))


def write_matrix_market(path: str | Path, stream: CellStream, n_cells: int) -> None:
    """Write cells into a new file."""
    file_path, kind = Path(path), stream.dtype.kind
    if file_path.exists():
        raise UsageError(f"{path} already exists")
    if len(stream.shape) != 2 or kind not in "biufc":
        raise UsageError(f"Matrix Market files hold matrices of numbers, not {stream.dtype} of shape {stream.shape}")
    field = {"b": "pattern", "i": "integer", "u": "integer", "f": "real", "c": "complex"}[kind]
    with _create(file_path) as file:
        lead = f"%%MatrixMarket matrix coordinate {field} general\n{stream.shape[0]} {stream.shape[1]} {n_cells}\n"
        file.write(lead.encode())
        for (rows, columns), values in stream.blocks((1024, 1024)):
            file.write(_lines(rows + 1, columns + 1, values, field))


def _lines(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, field: str) -> bytes:
    places = zip(rows.tolist(), columns.tolist(), strict=True)
    if field == "pattern":
        if not values.all():
            raise UsageError("a cell is False, which a pattern cannot store. Convert it to a number first")
        return "".join(f"{row} {column}\n" for row, column in places).encode()
    if field == "complex":
        pairs = zip(places, values.real.tolist(), values.imag.tolist(), strict=True)
        return "".join(f"{row} {column} {real!r} {imag!r}\n" for (row, column), real, imag in pairs).encode()
    if field == "integer" and len(values) and values.max() > _LARGEST:
        raise UsageError(f"{values.max()} is larger than the largest integer of Matrix Market files, {_LARGEST}")
    numbers = values.tolist()
    return "".join(f"{r} {c} {value!r}\n" for (r, c), value in zip(places, numbers, strict=True)).encode()
