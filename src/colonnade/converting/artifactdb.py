"""Converts tables to ArtifactDB data frames, batch by batch, in any of its generations.

What ArtifactDB has no word for (integers wider than 32 bits by their type, what a frame of AnnData was) is kept in
attributes, by which the way back is exact. Values that it cannot express are refused when they are reached: the partial
file is then discarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from colonnade.columns.arrow_text import write_arrow_type
from colonnade.columns.mapping import plain_type
from colonnade.converting.draft import TableDraft, draft_of, new_names, refuse_unfit
from colonnade.converting.rows import source_of
from colonnade.h5 import attributes
from colonnade.layouts.artifactdb import names as artifactdb
from colonnade.table import File, Table


class ArtifactDraft(TableDraft):
    """A table that will be a data frame of ArtifactDB."""

    def complete(self, file: File, path: str, nodes: Mapping[str, Any]) -> None:
        super().complete(file, path, nodes)
        made = file[path].schema
        for field in self.draft.source.schema:
            kind = plain_type(field.type)
            is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            if is_number and made.field(field.name).type != kind:
                attributes.write_text(nodes[field.name].id, artifactdb.ARROW_TYPE, write_arrow_type(kind))


def draft_artifactdb(table: Table, version: str | None = None, directory: bool = False) -> TableDraft:
    """Check a table; what ArtifactDB cannot hold is refused with the column's path."""
    refuse_unfit(table)
    names = new_names(table, artifactdb.ROW_NAMES)
    source = source_of(table, names)
    options = {"layout": "artifactdb", "version": version, "directory": directory}
    return draft_of(ArtifactDraft, table, source, names, **options)
