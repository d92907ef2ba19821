"""Tables turned into HEP001 tables, batch by batch: categories, row labels and missing rows as HEP001 has them.

What HEP001 has no word for (that a column could have missing rows though it has none, what a missing text means, that
the row labels are a column too) is kept in attributes, by which the way back is exact.
"""

from __future__ import annotations

from colonnade.converting.draft import (
    copy_column_attributes,
    copy_group_attributes,
    group_of,
    mark_frame,
    new_names,
    refuse_unfit,
    texts_of,
)
from colonnade.converting.rows import source_of
from colonnade.dataclass import dataclass
from colonnade.errors import DataError
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
        copy_group_attributes(source, target, (self.table.layout, "hep001"))
        nodes = {name: target[name] for name in self.names.values()}
        for old, new in self.names.items():
            copy_column_attributes(self.table, old, nodes[new], "hep001")
        mark_frame(self.table, self.names, target, nodes)


def draft_hep001(table: Table) -> Hep001Draft:
    """Look at a table; what HEP001 cannot hold is refused with the table's path."""
    refuse_unfit(table)
    names = new_names(table, "index")
    labels = [names[label.name] for label in table.info.labels]
    options = {names[column.name]: ColumnOptions(**texts_of(table, column.name)) for column in table.info.members}
    try:
        draft = prepare(source_of(table, names), labels=labels, columns=options, layout="hep001", allow_reserved=True)
    except DataError as error:
        raise DataError(f"{table.path}: {error}", **error.facts) from error
    return Hep001Draft(table, draft, names)
