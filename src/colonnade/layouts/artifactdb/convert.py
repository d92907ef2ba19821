"""Convert tables to ArtifactDB data frames of any generation.

What ArtifactDB cannot express (wider number types, properties of an AnnData frame) is stored in
attributes, so that converting back is exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from colonnade import writing
from colonnade.columns.arrow_types import parse_arrow_type, write_arrow_type
from colonnade.columns.mapping import plain_type
from colonnade.layouts.artifactdb import names
from colonnade.layouts.conversion import Conversion, SourceTable
from colonnade.model import ColumnInfo
from colonnade.nodes import EditableGroup, EditableNode


class ArtifactConversion(Conversion):
    """The types of numbers are recorded in attributes."""

    label = names.ROW_NAMES

    def former_type(self, column: ColumnInfo, kind: pa.DataType) -> pa.DataType:
        recorded = parse_arrow_type(column.arrow_type) if column.arrow_type is not None else None
        return recorded if recorded is not None and _is_number(recorded) and _is_number(kind) else kind

    def complete(
        self,
        table: SourceTable,
        former: Conversion,
        names_of_columns: Mapping[str, str],
        group: EditableGroup,
        nodes: Mapping[str, EditableNode],
        schemas: tuple[pa.Schema, pa.Schema],
    ) -> None:
        super().complete(table, former, names_of_columns, group, nodes, schemas)
        rows, written = schemas
        for field in rows:
            kind = plain_type(field.type)
            if _is_number(kind) and written.field(field.name).type != kind:
                writing.write_text(nodes[field.name], names.ARROW_TYPE, write_arrow_type(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


PART = ArtifactConversion(names.GROUP_ATTRIBUTES, names.COLUMN_ATTRIBUTES)
