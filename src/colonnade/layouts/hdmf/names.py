"""The names that HDMF gives to attributes, types and members of a DynamicTable.

NWB calls the attribute with the type of an object `neurodata_type`, other users of HDMF `data_type`.
"""

from __future__ import annotations

from colonnade.model import Coded, ColumnInfo, Lists
from colonnade.nodes import Node, attributes

COLUMN_LIST = "colnames"
IDENTIFIERS = "id"
NAMESPACE = "namespace"
TYPE_ATTRIBUTES = ("neurodata_type", "data_type")
ELEMENT_IDENTIFIERS = "ElementIdentifiers"
VECTOR_INDEX = "VectorIndex"
ENUM_DATA = "EnumData"
REGION = "DynamicTableRegion"
DESCRIPTION = "description"
UNITS = ("unit", "units")
TABLE = "table"
"""The attribute of a DynamicTableRegion that refers to the table whose row numbers it holds."""
TARGET = "target"
"""The attribute of a VectorIndex that refers to the column it divides into lists."""
ELEMENTS = "elements"
"""The attribute of EnumData that refers to the values that its codes stand for."""
GROUP_ATTRIBUTES = (*TYPE_ATTRIBUTES, NAMESPACE, "object_id", COLUMN_LIST, DESCRIPTION)
COLUMN_ATTRIBUTES = (*TYPE_ATTRIBUTES, NAMESPACE, "object_id", DESCRIPTION, *UNITS, TABLE, TARGET, ELEMENTS)


def type_of(node: Node) -> str | None:
    """The type that an object declares, without its namespace."""
    return next((text for name in TYPE_ATTRIBUTES if (text := attributes.read_text(node, name)) is not None), None)


def index_name(name: str) -> str:
    """The name of the VectorIndex that divides a column, or another VectorIndex, into lists."""
    return f"{name}_index"


def elements_name(name: str) -> str:
    """The name of the dataset with the values that the codes of an EnumData stand for."""
    return f"{name}_elements"


def is_link_name(name: str) -> bool:
    """Whether a name can be that of a member of the table."""
    return name not in ("", ".") and "/" not in name and "\0" not in name


def companions(column: ColumnInfo) -> tuple[str, ...]:
    """The names of the other datasets of a column: a VectorIndex per level of lists, and the values of codes."""
    companion_names, link, form = [], column.name, column.form
    while isinstance(form, Lists):
        link, form = index_name(link), form.items.form
        companion_names.append(link)
    return (*companion_names, elements_name(column.name)) if isinstance(form, Coded) else tuple(companion_names)
