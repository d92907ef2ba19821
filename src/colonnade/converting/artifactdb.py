"""Tables turned into data frames of ArtifactDB, batch by batch, in any of its generations.

What ArtifactDB has no word for (integers wider than 32 bits by their type, what a frame of AnnData was) is kept in
attributes, by which the way back is exact. Values that it has no word for are refused when they are met: the file that
was begun is not kept then.
"""

from __future__ import annotations

import pyarrow as pa

from colonnade.columns.arrow_text import write_arrow_type
from colonnade.columns.mapping import plain_type
from colonnade.converting.draft import (
    column_node,
    copy_column_attributes,
    copy_group_attributes,
    group_of,
    mark_frame,
    new_names,
    refuse_unfit,
)
from colonnade.converting.rows import source_of
from colonnade.dataclass import dataclass
from colonnade.errors import DataError, UsageError
from colonnade.h5 import attributes
from colonnade.layouts.artifactdb import names as artifactdb
from colonnade.model import Progress
from colonnade.table import File, Table
from colonnade.writing import Draft, prepare


@dataclass
class ArtifactDraft:
    """A table that will be a data frame of ArtifactDB. `names` are those that its columns will have."""

    table: Table
    draft: Draft
    names: dict[str, str]

    def write(self, file: File, path: str, progress: Progress | None) -> None:
        file._write(path, self.draft, "error", progress)
        source, target = group_of(self.table), file.h5[path]
        copy_group_attributes(source, target, (self.table.layout, "artifactdb"))
        nodes = {column.name: column_node(target, column.link or "") for column in file[path].info.members}
        for old, new in self.names.items():
            copy_column_attributes(self.table, old, nodes[new], "artifactdb")
            kind = plain_type(self.draft.source.schema.field(new).type)
            if pa.types.is_integer(kind) or pa.types.is_float16(kind):
                attributes.write_text(nodes[new].id, artifactdb.ARROW_TYPE, write_arrow_type(kind))
        mark_frame(self.table, self.names, target, nodes)


def draft_artifactdb(table: Table, version: str | None = None, directory: bool = False) -> ArtifactDraft:
    """Look at a table; what ArtifactDB cannot hold is refused with the column's path."""
    refuse_unfit(table)
    names = new_names(table, artifactdb.ROW_NAMES)
    labels = [names[label.name] for label in table.info.labels]
    source = source_of(table, names)
    try:
        draft = prepare(source, labels=labels, layout="artifactdb", version=version, directory=directory)
    except (DataError, UsageError) as error:
        column = error.facts.get("column")
        where = table.path if column is None else f"{table.path.rstrip('/')}/{column}"
        raise DataError(f"{where}: {error}", **error.facts) from error
    return ArtifactDraft(table, draft, names)
