"""Converting tables into H5Col: the strings about a column are options of it, and its own names are refused."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from colonnade.errors import UsageError
from colonnade.layouts.conversion import Conversion, SourceTable
from colonnade.layouts.h5col import names
from colonnade.layouts.h5col.describe import describe
from colonnade.layouts.h5col.rules_storage import has_fill_in_range
from colonnade.layouts.h5col.write import write_range_again
from colonnade.layouts.revision_tables import RevisionConversion
from colonnade.nodes import EditableGroup, EditableNode


class H5colConversion(RevisionConversion):
    """Names that H5Col reserves are refused, all of them at once."""

    def check(self, table: SourceTable) -> None:
        reserved = [column.name for column in table.info.members if column.name in names.RESERVED]
        if reserved:
            shown = ", ".join(map(repr, reserved))
            raise UsageError(
                f"cannot convert {table.path} to H5Col, which reserves the names {shown}. Rename these columns",
                path=table.path,
                rule="JN1",
            )

    def complete(
        self,
        table: SourceTable,
        former: Conversion,
        new_names: Mapping[str, str],
        group: EditableGroup,
        nodes: Mapping[str, EditableNode],
        schemas: tuple[pa.Schema, pa.Schema],
    ) -> None:
        """Also make valid ranges again that are copies, and that hold the fill of the new column."""
        super().complete(table, former, new_names, group, nodes, schemas)
        ranged = [name for name, node in nodes.items() if not _RANGE.isdisjoint(node.attribute_names())]
        columns = describe(group, table.path).by_name if ranged else {}
        for name in ranged:
            if has_fill_in_range(columns[name], nodes[name]):
                write_range_again(nodes[name], columns[name].type, columns[name].fill)


_RANGE = frozenset({names.VALID_MIN, names.VALID_MAX})
PART = H5colConversion(names.GROUP_ATTRIBUTES, names.COLUMN_ATTRIBUTES)
