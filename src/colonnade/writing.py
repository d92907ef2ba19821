"""Tables written: input refused before a byte is touched, rows streamed, half a table never left behind.

`prepare` looks at everything that can be known beforehand: names, types, options. `create` then
writes. Memory: the first rows (at most 64 MiB), then one chunk a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import pyarrow as pa

from colonnade.columns.mapping import implied_units, plain_type
from colonnade.columns.writer import ColumnWriter
from colonnade.errors import ColumnNotFound, DataError, UsageError
from colonnade.exchange.arrays import array_from
from colonnade.exchange.sources import Source, source_from
from colonnade.h5.links import exists, join_path, open_dataset, open_group, rename, unlink
from colonnade.layouts import LAYOUTS, Layout, TableText, layout_of
from colonnade.model import AUTO, DEFAULT_CHUNK_ROWS, ColumnOptions

Mode = Literal["error", "replace"]
Progress = Callable[[int, int | None], None]
FIRST_ROWS_BYTES = 64 << 20
FEWEST_CHUNK_ROWS = 1024
LONGEST_TEXT = 60_000


@dataclass
class Draft:
    """A table that is ready to be written: everything that can be refused beforehand has been looked at."""

    source: Source
    layout: Layout
    writers: list[ColumnWriter]
    label_writers: list[ColumnWriter]
    label_arrays: dict[str, pa.Array]
    text: TableText
    large_attributes: bool


def prepare(
    data: Any,
    *,
    title: str | None = None,
    description: str | None = None,
    units_vocabulary: str | None = None,
    columns: Mapping[str, ColumnOptions | Mapping[str, Any]] | None = None,
    labels: Sequence[str] | Mapping[str, Any] | None = None,
    layout: str = "hep001",
    allow_reserved: bool = False,
) -> Draft:
    """Look at the data and the options; refuse what cannot be written."""
    if layout not in LAYOUTS:
        raise UsageError(f"unknown layout {layout!r}; known: {', '.join(LAYOUTS)}")
    chosen = LAYOUTS[layout]
    source = source_from(data)
    label_names, label_arrays = _labels(labels, source)
    known = [*source.schema.names, *label_arrays]
    for name in known:
        chosen.check_name(name, allow_reserved)
    options = _options(columns or {}, source.schema, label_arrays, known)
    longest = max((len(name.encode("utf-8", "surrogateescape")) for name in known), default=0)
    large = chosen.needs_large_attributes(len(known), longest)
    kinds = {f.name: f.type for f in source.schema} | {name: array.type for name, array in label_arrays.items()}

    def writer(name: str, is_label: bool) -> ColumnWriter:
        wide = (large and is_label) or len((options[name].description or "").encode()) > LONGEST_TEXT
        return ColumnWriter(name, kinds[name], options[name], wide)

    column_names = [name for name in source.schema.names if name not in label_names]
    return Draft(
        source=source,
        layout=chosen,
        writers=[writer(name, False) for name in column_names],
        label_writers=[writer(name, True) for name in label_names],
        label_arrays=label_arrays,
        text=TableText(title, description, units_vocabulary),
        large_attributes=large or len((description or "").encode()) > LONGEST_TEXT,
    )


def _labels(labels: Sequence[str] | Mapping[str, Any] | None, source: Source) -> tuple[list[str], dict[str, pa.Array]]:
    """The names of the labels in order, and the arrays of those that are no column of the data."""
    if labels is None:
        return list(source.labels), {}
    if isinstance(labels, str):
        labels = [labels]
    names = list(labels)
    if len(set(names)) != len(names):
        raise UsageError(f"labels must differ from each other: {names}")
    if isinstance(labels, Mapping):
        return names, {name: _label_array(name, values, source) for name, values in labels.items()}
    for name in names:
        if name not in source.schema.names:
            raise ColumnNotFound(name, "the data (named in labels=)", source.schema.names)
    return names, {}


def _label_array(name: str, values: Any, source: Source) -> pa.Array:
    if name in source.schema.names:
        raise UsageError(f"label {name!r} is a column of the data too: name it in labels=[...], without an array")
    array = array_from(values, name)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if source.n_rows is not None and len(array) != source.n_rows:
        raise DataError(f"label {name!r} has {len(array)} rows, the data has {source.n_rows}", column=name)
    return array


def _options(
    asked: Mapping[str, ColumnOptions | Mapping[str, Any]],
    schema: pa.Schema,
    more: dict[str, pa.Array],
    known: list[str],
) -> dict[str, ColumnOptions]:
    """The options of each column: what was asked for, else what the Arrow field itself says."""
    for name in asked:
        if name not in known:
            raise ColumnNotFound(name, "the data (named in columns=)", known)
    fields = [*schema, *(pa.field(name, array.type) for name, array in more.items())]
    return {field.name: _field_options(field, asked.get(field.name)) for field in fields}


def _field_options(field: pa.Field, asked: ColumnOptions | Mapping[str, Any] | None) -> ColumnOptions:
    if asked is None:
        options = ColumnOptions()
    elif isinstance(asked, ColumnOptions):
        options = asked
    else:
        try:
            options = ColumnOptions(**asked)
        except TypeError as error:
            raise UsageError(f"column {field.name!r}: {error}; see help(colonnade.column)") from error
    said = {
        key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for key, value in (field.metadata or {}).items()
    }
    if implied_units(plain_type(field.type)) is not None:
        said.pop("units", None)
    for name in ("units", "units_vocabulary", "description"):
        if getattr(options, name) is None and said.get(name):
            options = replace(options, **{name: said[name]})
    if not field.nullable and options.fill is AUTO:
        options = replace(options, fill=None)
    return options


def create(root: Any, path: str, draft: Draft, mode: Mode = "error", progress: Progress | None = None) -> None:
    """Write the draft as the table at `path`; on any error nothing of it stays."""
    target = _Place(root, path, draft, mode)
    complete = False
    try:
        group = target.open()
        _fill(group, draft, progress)
        target.settle()
        complete = True
    finally:
        if not complete:
            target.remove()


class _Place:
    """Where a new table goes: a free path, or aside until the table it replaces is taken away."""

    def __init__(self, root: Any, path: str, draft: Draft, mode: Mode) -> None:
        if mode not in ("error", "replace"):
            raise UsageError(f"mode {mode!r} is not one of 'error', 'replace'")
        self._root = root
        self._draft = draft
        self._path = "/" + "/".join(part for part in path.split("/") if part)
        self._made: str | None = None
        self._check_names()
        self._replaces = self._check_free(mode)

    def _check_names(self) -> None:
        for part in self._path.split("/")[1:]:
            if part in (".", "..") or "\0" in part:
                raise UsageError(f"{self._path!r} is no path that HDF5 can link")
        above = open_group(self._root, "/")
        parts = [part for part in self._path.split("/") if part]
        for depth in range(len(parts)):
            if above is None:
                break
            if layout_of(above) is not None:
                inside = "/" + "/".join(parts[:depth])
                raise UsageError(
                    f"{self._path} would lie inside the table {inside}, where only that table's own objects belong: "
                    "choose another path",
                    rule="T7",
                )
            if open_dataset(above, parts[depth]) is not None:
                raise UsageError(
                    f"{'/'.join(['', *parts[: depth + 1]])} is a dataset: choose another path for the table"
                )
            above = open_group(above, parts[depth]) if exists(above, parts[depth]) else None

    def _check_free(self, mode: Mode) -> bool:
        """True when a table there is to be replaced; a UsageError when the place is taken."""
        if self._path != "/" and not exists_path(self._root, self._path):
            return False
        group = open_group(self._root, self._path)
        if group is not None and layout_of(group) is not None:
            if mode == "error":
                raise UsageError(
                    f"there is a table at {self._path} already: choose another name, or mode='replace'", path=self._path
                )
            return True
        if group is not None and len(list(group)) == 0:
            return False
        raise UsageError(
            f"{self._path} holds other objects and is no table: choose another path for the table", path=self._path
        )

    def open(self) -> Any:
        """The group to write into."""
        make, large = self._draft.layout.make_group, self._draft.large_attributes
        if self._path == "/":
            group = open_group(self._root, "/")
            if self._replaces:
                self._draft.layout.clear(group)
            return group
        if self._replaces:
            self._made = self._path + "\x01aside"
            return make(self._root, self._made, large)
        if exists_path(self._root, self._path):
            unlink(self._root, self._path)
        self._made = self._first_missing()
        return make(self._root, self._path, large)

    def _first_missing(self) -> str:
        """The uppermost part of the path that is not there yet: what must go if the writing fails."""
        path = ""
        for part in self._path.split("/")[1:]:
            path = join_path(path, part)
            if not exists_path(self._root, path):
                return path
        return self._path

    def settle(self) -> None:
        """Put the finished table in its place."""
        if self._replaces and self._made is not None:
            unlink(self._root, self._path)
            rename(self._root, self._made, self._path)

    def remove(self) -> None:
        """Take away what was begun."""
        if self._made is not None and exists_path(self._root, self._made):
            unlink(self._root, self._made)
        if self._path == "/":
            group = open_group(self._root, "/")
            for writer in (*self._draft.writers, *self._draft.label_writers):
                if exists(group, writer.name):
                    unlink(group, writer.name)


def exists_path(root: Any, path: str) -> bool:
    """Whether every link on the way to `path` is there."""
    group = root
    parts = [part for part in path.split("/") if part]
    for depth, part in enumerate(parts):
        if group is None or not exists(group, part):
            return False
        if depth < len(parts) - 1:
            group = open_group(group, part)
    return True


def _fill(group: Any, draft: Draft, progress: Progress | None) -> None:
    first, rest = _first_rows(draft)
    seen = sum(batch.num_rows for batch in first)
    n_rows = draft.source.n_rows if rest is not None else seen
    most_rows = _most_chunk_rows(first)
    writers = [*draft.writers, *draft.label_writers]
    for writer in writers:
        writer.start(group, _sample(first, writer.name), n_rows, most_rows)
    done = 0
    for batch in chain(first, rest or ()):
        for writer in writers:
            writer.write(_column(batch, writer.name))
        done += batch.num_rows
        if progress is not None:
            progress(done, n_rows)
    _check_labels_used(draft, done)
    columns = [writer.finish() for writer in draft.writers]
    labels = [writer.finish() for writer in draft.label_writers]
    draft.layout.complete(group, columns, labels, draft.text)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))


def _sample(batches: list[pa.RecordBatch], name: str) -> pa.Array:
    """The first rows of one column; of a dictionary column the first batch alone, since dictionaries may differ."""
    arrays = [_column(batch, name) for batch in batches]
    return arrays[0] if len(arrays) == 1 or pa.types.is_dictionary(arrays[0].type) else pa.concat_arrays(arrays)


def _check_labels_used(draft: Draft, n_rows: int) -> None:
    for name, array in draft.label_arrays.items():
        if len(array) != n_rows:
            raise DataError(f"label {name!r} has {len(array)} rows, the data has {n_rows}", column=name)


def _with_labels(draft: Draft) -> Iterator[pa.RecordBatch]:
    """The batches of the source, with the label arrays beside them."""
    at = 0
    for batch in draft.source.batches:
        arrays, names = list(batch.columns), list(batch.schema.names)
        for name, array in draft.label_arrays.items():
            part = array.slice(at, batch.num_rows)
            if len(part) != batch.num_rows:
                raise DataError(f"label {name!r} has {len(array)} rows, the data has more", column=name)
            arrays.append(part)
            names.append(name)
        at += batch.num_rows
        yield pa.RecordBatch.from_arrays(arrays, names=names) if draft.label_arrays else batch


def _first_rows(draft: Draft) -> tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch] | None]:
    """Batches enough to decide the form of every column, and the rest of the stream (None when there is none)."""
    batches = _with_labels(draft)
    first: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        first.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= DEFAULT_CHUNK_ROWS or size >= FIRST_ROWS_BYTES:
            return first, batches
    if not first:
        schema = draft.source.schema
        fields = [*schema, *(pa.field(name, array.type) for name, array in draft.label_arrays.items())]
        return [pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in fields], names=[f.name for f in fields])], None
    return first, None


def _most_chunk_rows(first: list[pa.RecordBatch]) -> int:
    """A bound on chunk lengths, so that one chunk of every column together stays near 64 MiB."""
    rows = sum(batch.num_rows for batch in first)
    if rows == 0:
        return FEWEST_CHUNK_ROWS
    row_bytes: int = max(1, sum(batch.nbytes for batch in first) // rows)
    return max(FEWEST_CHUNK_ROWS, min(DEFAULT_CHUNK_ROWS, FIRST_ROWS_BYTES // row_bytes))
