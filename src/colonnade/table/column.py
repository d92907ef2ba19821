"""One column or label: its description, and its values, read on request."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, SupportsIndex, overload

import numpy as np
import pyarrow as pa

from colonnade.errors import RowNotFound, UsageError
from colonnade.model import ColumnInfo, IndexInfo, StoredType, shown_name
from colonnade.nodes.attributes import Attributes
from colonnade.sealed import Sealed

if TYPE_CHECKING:
    import dask.array
    import numpy.typing as npt

    from colonnade.exchange.numpy_out import StringsAs
    from colonnade.selection import Rows
    from colonnade.table.table import Table
    from colonnade.values import Cell

DASK_ROWS = 1 << 20


class Column(Sealed):
    """One column or label: its description, and its values, read on request.

    >>> data = {"energy": [0.5, None, 6.0]}
    >>> cn.write("run.h5", data, "events", columns={"energy": cn.column(units="MeV")})
    >>> c = cn.open_table("run.h5", "events")["energy"]
    >>> c
    <Column 'energy' [MeV]: double, 3 rows>
    >>> c[2], c[1]
    (6.0, None)
    """

    def __init__(self, table: Table, name: str) -> None:
        self._table = table
        self._name = name
        table._column(name)

    @property
    def name(self) -> str:
        """The name of the column."""
        return self._name

    @property
    def attrs(self) -> Attributes:
        """Your own attributes, as `Table.attrs`; units and description are properties. Setting one is one commit."""
        return self._table._attributes(self.name)

    @property
    def info(self) -> ColumnInfo:
        """The column as plain data, as of the last commit."""
        return self._table._column(self.name)

    @property
    def dtype(self) -> pa.DataType:
        """The Arrow type of the values."""
        from colonnade.columns.mapping import arrow_type

        return arrow_type(self.info)

    @property
    def stored_type(self) -> StoredType:
        """The HDF5 datatype."""
        return self.info.type

    @property
    def units(self) -> str | None:
        """The units; setting them is one commit."""
        return self.info.units

    @units.setter
    def units(self, text: str | None) -> None:
        from colonnade.columns.mapping import implied_units

        if implied_units(self.dtype) is not None:
            raise UsageError(f"cannot change the units of {self.dtype}: they define how it is stored", column=self.name)
        self._table._set_text(self.name, "units", text)

    @property
    def units_vocabulary(self) -> str | None:
        """The units vocabulary of the column, or of the table; setting it is one commit."""
        return self.info.units_vocabulary

    @units_vocabulary.setter
    def units_vocabulary(self, text: str | None) -> None:
        self._table._set_text(self.name, "units_vocabulary", text)

    @property
    def description(self) -> str | None:
        """The description, without the line that names the fill; setting it is one commit."""
        return self.info.description

    @description.setter
    def description(self, text: str | None) -> None:
        self._table._set_text(self.name, "description", text)

    @property
    def fill(self) -> object:
        """The stored value that marks a missing row, None when the column has none."""
        from colonnade.columns.decode import column_fill

        return column_fill(self.info)

    @property
    def categories(self) -> pa.Array | None:
        """The categories of a categorical column, or of strings stored as categories; None for others."""
        if self.info.categories is not None:
            return self._table._file._consistent(lambda: self._table._reader(self.name).categories())
        if self.info.type.kind == "enum":
            return pa.array([shown_name(name) for name, _ in self.info.type.members], pa.string())
        return None

    @property
    def ordered(self) -> bool:
        """Whether the order of the categories has a meaning."""
        return self.info.categories is not None and self.info.categories.ordered

    @property
    def chunk_rows(self) -> int | None:
        """Rows per chunk; None for storage that is not chunked."""
        return self.info.chunk_rows

    @property
    def filters(self) -> str:
        """The byte filters, as `colonnade.column(filters=...)` takes them: "shuffle+deflate:1", "none"."""
        from colonnade.filters.names import filters_text

        return filters_text(self.info.filters)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels of this column, in order of precedence."""
        return self.info.labels

    @property
    def target(self) -> Table | None:
        """The table whose row numbers this column holds, in files that say so (NWB); None for other columns."""
        path = self._target_path()
        return None if path is None else self._table._file[path]

    def _target_path(self) -> str | None:
        table = self._table
        return table._file._consistent(lambda: table._layout.row_target(table._group, table._column(self.name)))

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.info.n_rows

    @property
    def indexes(self) -> list[IndexInfo]:
        """The search indexes of this column."""
        return [index for index in self._table.indexes if index.column == self.name]

    @property
    def stored_bytes(self) -> int:
        """Bytes that the rows take in the file."""
        return self._table._stored_bytes(self.name)

    def __len__(self) -> int:
        return self.info.n_rows

    def _all(self) -> range:
        return range(self.info.n_rows)

    @property
    def raw(self) -> RawRows:
        """The rows as stored, not decoded: `column.raw[10:20]` is NumPy, `column.raw[5]` one element.

        Codes for categoricals, numbers for enums and times, bytes for strings.
        """
        return RawRows(self._table, self.name)

    def to_arrow(
        self, *, dictionaries: bool = False, views: bool = False, errors: Literal["raise", "missing"] = "raise"
    ) -> pa.ChunkedArray:
        """All values as Arrow. dictionaries: strings stored as categories become an Arrow dictionary.

        views: strings become Arrow string views (string_view); for strings stored as categories, in a third of the
        time. errors: "missing" reads cells that cannot be decoded (a malformed date, a string that is not UTF-8, a
        number that is not a member of its enum) as missing; "raise" raises an error that names the first of them.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t["ts"].to_arrow().to_pylist()
        [1, 2, 3]
        """
        from colonnade.columns.strings import as_views

        if errors not in ("raise", "missing"):
            raise UsageError(f"errors must be 'raise' or 'missing', not {errors!r}", option="errors")
        if errors == "missing":
            values = self._read_where_possible(dictionaries)
            is_viewed = views and pa.types.is_string(values.type)
            return as_views(values, self._table._file._n_threads) if is_viewed else values
        if not views or not pa.types.is_string(self._table._field(self.name, dictionaries).type):
            return self._read(slice(None), dictionaries)
        return as_views(self._read(slice(None), dictionaries=True), self._table._file._n_threads)

    def _read_where_possible(self, dictionaries: bool) -> pa.ChunkedArray:
        def read() -> pa.ChunkedArray:
            reader = self._table._reader(self.name, dictionaries)
            parts: list[pa.Array] = []
            for start, stop in reader.pieces(0, self._table.n_rows):
                part = reader.read_where_possible(start, stop - start)
                parts += part.chunks if isinstance(part, pa.ChunkedArray) else [part]
            return pa.chunked_array(parts, reader.kind)

        return self._table._file._consistent(read)

    def _read(self, rows: slice | Rows, dictionaries: bool = False) -> pa.ChunkedArray:
        from colonnade.query.scan import read_column

        def read() -> pa.ChunkedArray:
            reader = self._table._reader(self.name, dictionaries)
            chosen = range(self._table.n_rows)[rows] if isinstance(rows, slice) else rows
            return read_column(reader, chosen)

        return self._table._file._consistent(read)

    def to_numpy(self, *, strings: StringsAs = "numpy") -> np.ndarray:
        """All values as NumPy; a masked array when rows are missing.

        strings: "numpy" for NumPy strings (StringDType), "objects" for an array of Python strings, "bytes" for UTF-8 of
        one length (such as S20), which is the fastest.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> t["ts"].to_numpy()
        array([1, 2, 3])
        """
        from colonnade.exchange.numpy_out import to_numpy

        return to_numpy(self._read(slice(None), dictionaries=True), strings)

    @overload
    def __getitem__(self, item: slice | list[int] | tuple[int, ...] | np.ndarray) -> np.ndarray: ...
    @overload
    def __getitem__(self, item: SupportsIndex) -> Cell: ...
    def __getitem__(self, item: SupportsIndex | slice | list[int] | tuple[int, ...] | np.ndarray) -> Cell:
        """column[10:20] and column[[3, 1]] as NumPy (masked where rows are missing), column[5] as one value."""
        from colonnade.exchange.numpy_out import to_numpy
        from colonnade.table.references import python_cells

        if isinstance(item, slice):
            return to_numpy(self._read(item, dictionaries=True))
        if isinstance(item, (list, tuple, np.ndarray)):
            return to_numpy(self._read(self._table.take(item)._known_rows(), dictionaries=True))
        try:
            row = self._all()[operator.index(item)]
        except TypeError:
            raise UsageError(f"take values with a number, a slice or a list of numbers, not {item!r}") from None
        except IndexError:
            raise RowNotFound(operator.index(item), self.n_rows) from None
        return python_cells(self._read(range(row, row + 1)), self._table._file)[0]

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, as an array has it."""
        return (self.n_rows,)

    @property
    def ndim(self) -> int:
        """1: a column has one dimension."""
        return 1

    @property
    def chunks(self) -> tuple[tuple[int, ...]]:
        """The lengths of the chunks, as Dask has them; one for storage that is not chunked."""
        n_rows, step = self.n_rows, self.chunk_rows or self.n_rows
        return (tuple(min(step, n_rows - start) for start in range(0, n_rows, step)) if n_rows else (0,),)

    def to_dask(self, rows: int | None = None) -> dask.array.Array:
        """The values as a Dask array, read on request; `dask.array.asarray(column)` is the same.

        rows: per chunk; by default about a million, whole chunks of the file. Missing values as in np.asarray(column).

        >>> cn.write("run.h5", {"energy": [0.5, 7.0, 6.0]}, "events")
        >>> float(cn.open_table("run.h5", "events")["energy"].to_dask().mean().compute())
        4.5
        """
        from colonnade.exchange.labelled_arrays import LazyColumn, to_dask
        from colonnade.exchange.numpy_out import to_numpy, without_mask

        def read(part: slice) -> np.ndarray:
            return without_mask(to_numpy(self._read(part, dictionaries=True), "objects"), self.name)

        step = self.chunk_rows or DASK_ROWS
        return to_dask(LazyColumn(read, self.n_rows, self.name), rows or max(DASK_ROWS // step, 1) * step)

    def to_dask_array(self) -> dask.array.Array:
        """As `to_dask()`; `dask.array.asarray` looks for this name."""
        return self.to_dask()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        from colonnade.exchange.numpy_out import without_mask

        if copy is False:
            raise ValueError("a column is read from the file, which makes a copy")
        values = without_mask(self.to_numpy(strings="objects"), self.name)  # None where a string is missing
        return values if dtype is None else values.astype(dtype)

    def __iter__(self) -> Iterator[Cell]:
        from colonnade.table.references import python_cells

        for batch in self._table.select(self.name).batches():
            yield from python_cells(batch.column(0), self._table._file)

    def __repr__(self) -> str:
        from colonnade.table.show import rows_text, type_word

        units = f" [{self.units}]" if self.units else ""
        return f"<Column {self.name!r}{units}: {type_word(self.dtype)}, {rows_text(self.n_rows)}>"


class RawRows(Sealed):
    """The rows of a column as stored, not decoded.

    >>> cn.write("run.h5", {"flag": [True, False]}, "events")
    >>> cn.open_table("run.h5", "events")["flag"].raw[:]
    array([1, 0], dtype=int8)
    """

    def __init__(self, table: Table, name: str) -> None:
        self._table = table
        self._name = name

    def __len__(self) -> int:
        return self._table.n_rows

    @overload
    def __getitem__(self, item: slice | list[int] | tuple[int, ...] | np.ndarray) -> np.ndarray: ...
    @overload
    def __getitem__(self, item: SupportsIndex) -> Cell: ...
    def __getitem__(self, item: SupportsIndex | slice | list[int] | tuple[int, ...] | np.ndarray) -> Cell:
        if isinstance(item, slice):
            rows = range(len(self))[item]
            if not rows:
                return self._table._read_stored(self._name, 0, 0)
            low, high = min(rows[0], rows[-1]), max(rows[0], rows[-1])
            return self._table._read_stored(self._name, low, high - low + 1)[[row - low for row in rows]]
        if isinstance(item, (list, tuple, np.ndarray)):
            return np.array([self[int(row)] for row in item])
        try:
            row = range(len(self))[operator.index(item)]
        except TypeError:
            raise UsageError(f"take rows with a number, a slice or a list of numbers, not {item!r}") from None
        except IndexError:
            raise RowNotFound(operator.index(item), len(self)) from None
        return self._table._read_stored(self._name, row, 1)[0]
