"""Tables turned into HEP001 tables, batch by batch: categories, row labels and missing rows as HEP001 has them.

What HEP001 has no word for (that a column could have missing rows though it has none, what a missing text means, that
the row labels are a column too) is kept in attributes, by which the way back is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

from colonnade.converting.draft import (
    ANNDATA_ORDER,
    ANNDATA_TYPE,
    TEXTS,
    UNNAMED,
    UNNAMED_LABELS,
    column_node,
    copy_column_attributes,
    copy_group_attributes,
    group_of,
)
from colonnade.converting.rows import source_of
from colonnade.elements.objects import refuse_broken
from colonnade.errors import DataError
from colonnade.h5 import attributes
from colonnade.model import ColumnOptions, Progress
from colonnade.table import File, Table
from colonnade.writing import Draft, prepare


@dataclass
class Hep001Draft:
    """A table that will be one of HEP001. `names` are those that its columns will have."""

    table: Table
    draft: Draft
    names: dict[str, str]

    def write(self, file: File, path: str, progress: Progress | None) -> None:
        file._write(path, self.draft, "error", progress)
        source, target = group_of(self.table), file.h5[path]
        copy_group_attributes(source, target)
        info = self.table.info
        if any(column.is_label for column in info.columns):
            attributes.write_texts(target.id, ANNDATA_ORDER, [column.name for column in info.columns])
        if UNNAMED in self.names:
            attributes.write_text(target.id, UNNAMED_LABELS, self.names[UNNAMED])
        for column in info.members:
            node = target[self.names[column.name]]
            copy_column_attributes(column_node(source, column.name), node)
            if column.is_masked:
                attributes.write_text(node.id, ANNDATA_TYPE, _nullable_type(source, column.name))


def draft_hep001(table: Table) -> Hep001Draft:
    """Look at a table; what HEP001 cannot hold is refused with the table's path."""
    refuse_broken(table)
    source, names = group_of(table), _new_names(table)
    labels = [names[label.name] for label in table.info.labels]
    options = {names[column.name]: _options(source, column.name) for column in table.info.members}
    try:
        draft = prepare(source_of(table, names), labels=labels, columns=options, layout="hep001", allow_reserved=True)
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
    kind, meaning = str(attributes.read_text(node.id, "encoding-type")), attributes.read_text(node.id, "na-value")
    return f"{kind} {meaning}" if meaning in ("NA", "NaN") else kind
