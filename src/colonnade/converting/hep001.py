"""Tables turned into HEP001 tables, batch by batch: categories, row labels and missing rows as HEP001 has them.

What HEP001 has no word for (that a column could have missing rows though it has none, what a missing text means, that
the row labels are a column too) is kept in attributes, by which the way back is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa

from colonnade.converting.draft import (
    ANNDATA_ORDER,
    ANNDATA_TYPE,
    TEXTS,
    UNNAMED,
    UNNAMED_LABELS,
    column_node,
    group_of,
)
from colonnade.dataclass import dataclass
from colonnade.elements.objects import refuse_broken
from colonnade.errors import DataError
from colonnade.h5 import attributes
from colonnade.model import ColumnOptions, Progress
from colonnade.table import File, Table
from colonnade.writing import Draft, prepare

NOT_COPIED = ("encoding-type", "encoding-version", "_index", "column-order")


@dataclass
class Hep001Draft:
    """A table that will be one of HEP001. `names` are those that its columns will have."""

    table: Table
    draft: Draft
    names: dict[str, str]

    def write(self, file: File, path: str, progress: Progress | None) -> None:
        self.draft.source.n_rows = len(self.table)
        file._write(path, self.draft, "error", progress)
        source, target = group_of(self.table), file.h5[path]
        attributes.copy_attributes(source.id, target.id, without=NOT_COPIED)
        info = self.table.info
        if any(column.is_label for column in info.columns):
            attributes.write_texts(target.id, ANNDATA_ORDER, [column.name for column in info.columns])
        if UNNAMED in self.names:
            attributes.write_text(target.id, UNNAMED_LABELS, self.names[UNNAMED])
        for column in info.members:
            if column.is_masked:
                node = target[self.names[column.name]]
                attributes.write_text(node.id, ANNDATA_TYPE, _nullable_type(source, column.name))


def draft_hep001(table: Table) -> Hep001Draft:
    """Look at a table; what HEP001 cannot hold is refused with the table's path."""
    refuse_broken(table)
    source, names = group_of(table), _new_names(table)
    labels = [names[label.name] for label in table.info.labels]
    options = {names[column.name]: _options(source, column.name) for column in table.info.members}
    try:
        draft = prepare(_Rows(table, names), labels=labels, columns=options, layout="hep001", allow_reserved=True)
    except DataError as error:
        raise DataError(f"{table.path}: {error}", **error.facts) from error
    return Hep001Draft(table, draft, names)


def _new_names(table: Table) -> dict[str, str]:
    """The names of all columns in the new table: labels without a name are `index`, since HEP001 reserves `_index`."""
    names = {column.name: column.name for column in table.info.members}
    if UNNAMED in names:
        names[UNNAMED] = next(name for n in count() if (name := f"index_{n}" if n else "index") not in names)
    return names


def _options(group: Any, name: str) -> ColumnOptions:
    """What people wrote about the column."""
    node = column_node(group, name)
    texts: dict[str, Any] = {} if node is None else {key: attributes.read_text(node.id, key) for key in TEXTS}
    return ColumnOptions(**{key: text for key, text in texts.items() if text})


def _nullable_type(group: Any, name: str) -> str:
    node = column_node(group, name)
    kind = str(attributes.read_text(node.id, "encoding-type"))
    return f"{kind} NaN" if attributes.read_text(node.id, "na-value") == "NaN" else kind


class _Rows:
    """The rows of a table as a stream of Arrow, columns by their new names; categories are there without rows too."""

    def __init__(self, table: Table, names: dict[str, str]) -> None:
        self._table = table
        self._schema = pa.schema([field.with_name(names[field.name]) for field in table.schema])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._table.batches():
            yield pa.record_batch(batch.columns, schema=self._schema)
        if not len(self._table):
            columns = [self._no_rows(field.name, field.type) for field in self._table.schema]
            yield pa.record_batch(columns, schema=self._schema)

    def _no_rows(self, name: str, kind: pa.DataType) -> pa.Array:
        if not pa.types.is_dictionary(kind):
            return pa.array([], kind)
        held = self._table[name].categories
        categories = pa.array([] if held is None else held, kind.value_type)
        return pa.DictionaryArray.from_arrays(pa.array([], kind.index_type), categories, ordered=kind.ordered)
