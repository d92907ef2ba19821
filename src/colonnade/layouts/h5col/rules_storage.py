"""Rules on how H5Col is stored: attributes, references, the groups of a table. Each function yields breaches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade.layouts.h5col import names
from colonnade.layouts.h5col.lists import is_plain_boolean
from colonnade.layouts.h5col.raw import RawH5colTable
from colonnade.layouts.raw_node import RawNode, stored_as
from colonnade.model import Breach, ColumnInfo, StoredType
from colonnade.nodes import Node
from colonnade.nodes.elements import is_shown_as_stored
from colonnade.nodes.paths import join_path
from colonnade.stored_dtypes import memory_dtype

_TEXTS = (names.TITLE, names.DESCRIPTION, names.UNITS_VOCABULARY, names.INDEX)


def class_is_stored_exactly(table: RawH5colTable) -> Iterator[Breach]:
    """JT1: CLASS is a scalar, fixed-length ASCII string of 13 bytes."""
    yield from _ascii_breaches(table, names.CLASS, len(names.CLASS_VALUE) + 1)


def version_is_stored_exactly(table: RawH5colTable) -> Iterator[Breach]:
    """JT2: VERSION is a scalar, fixed-length ASCII string."""
    if table.attribute(names.VERSION) is not None:
        yield from _ascii_breaches(table, names.VERSION, None)


def _ascii_breaches(node: RawNode, name: str, size: int | None) -> Iterator[Breach]:
    stored = node.attribute(name)
    kind = None if stored is None else stored.type
    fits = kind is not None and stored is not None and kind.kind == "string" and kind.charset == "ascii"
    fits = fits and stored is not None and stored.shape == () and kind is not None and kind.padding != "space"
    if fits and kind is not None and size in (None, kind.size):
        return
    expected = "a scalar of a fixed-length ASCII string" + ("" if size is None else f" of {size} bytes")
    yield Breach("warning", node.path, f"{name} is stored in another way", stored_as(stored), expected)


def texts_are_fixed(table: RawH5colTable) -> Iterator[Breach]:
    """JT4: the strings of a table are scalars of fixed length in UTF-8."""
    for name in _TEXTS:
        stored = table.attribute(name)
        if stored is not None and (stored.type is None or stored.type.kind != "string" or stored.shape != ()):
            expected = "a scalar of a fixed-length UTF-8 string"
            yield Breach("warning", table.path, f"{name} is stored in another way", stored_as(stored), expected)


def references_are_of_the_new_form(table: RawH5colTable) -> Iterator[Breach]:
    """JR1: references are of the type H5T_STD_REF. One warning names them all: h5py can only write the older type."""
    older = sorted(_older_references(table))
    if older:
        more = f" and {len(older) - 1:,} more" if len(older) > 1 else ""
        message = f"{older[0]}{more}: object references of the form before HDF5 1.12"
        yield Breach("warning", table.path, message, "H5T_STD_REF_OBJ", "H5T_STD_REF")


def _older_references(table: RawH5colTable) -> Iterator[str]:
    nodes: list[tuple[Node, tuple[str, ...]]] = [(table.group, (names.INDEX_COLUMNS,))]
    nodes += [(dataset, (names.CATEGORIES, names.SEARCH_INDEX_LIST)) for _, dataset in table.plain_columns()]
    nodes += [(index.dataset, (names.LIST_VALUES,)) for index in table.placed]
    for node, attributes in nodes:
        for name in attributes:
            stored = node.attribute_storage(name)
            if stored is not None and stored[0].kind == "object_reference":
                yield join_path(node.path, name)


def references_lead_into_the_table(table: RawH5colTable) -> Iterator[Breach]:
    """JR3: a reference leads to an object of this table, in its place."""
    indexes = {child.address for child in table.members_of(names.SEARCH_INDEXES) if child.kind == "dataset"}
    for column, dataset in table.plain_columns():
        listed = dataset.reference_addresses(names.SEARCH_INDEX_LIST)
        odd = [address for address in listed if address not in indexes]
        stored = dataset.attribute_storage(names.SEARCH_INDEX_LIST)
        is_odd = stored is not None and not (stored[0].kind == "object_reference" or is_shown_as_stored(stored[0]))
        if odd or is_odd:
            message = f"{names.SEARCH_INDEX_LIST} leads to something else than a search index of the table"
            present = f"{len(odd)} of {len(listed)} references"
            yield Breach("error", table.path_of(column.name), message, present, f"datasets in {names.SEARCH_INDEXES}")


def categories_are_datasets(table: RawH5colTable) -> Iterator[Breach]:
    """JT7: the group of categories holds datasets only."""
    yield from _odd_members(table, names.CATEGORIES)


def indexes_are_datasets(table: RawH5colTable) -> Iterator[Breach]:
    """JS1: the group of search indexes holds datasets only."""
    yield from _odd_members(table, names.SEARCH_INDEXES)


def _odd_members(table: RawH5colTable, home: str) -> Iterator[Breach]:
    """What is not a dataset in one of the groups of a table."""
    kind = table.group.hard_kind(home)
    if kind not in (None, "group"):
        yield Breach("error", table.path_of(home), f"{home} is a {kind}", str(kind), "a group")
    for child in table.members_of(home):
        if child.kind != "dataset":
            where = join_path(table.path_of(home), child.name)
            yield Breach("error", where, f"an object in {home} that is not a dataset", child.kind, "datasets only")


def categories_are_used(table: RawH5colTable) -> Iterator[Breach]:
    """JK4: each categories dataset is referred to by a column."""
    used = {c.categories.name for c in table.info.members if c.categories is not None}
    for child in table.members_of(names.CATEGORIES):
        name = f"{names.CATEGORIES}/{child.name}"
        if child.kind == "dataset" and name not in used and not _is_referred_to(table, child.address):
            message = "no column refers to these categories"
            yield Breach("warning", table.path_of(name), message, "no reference", "a categorical column")


def _is_referred_to(table: RawH5colTable, address: int) -> bool:
    columns = (table.group.open_dataset(column.name) for column in table.info.members)
    return any(address in node.reference_addresses(names.CATEGORIES) for node in columns if node is not None)


def names_are_free(table: RawH5colTable) -> Iterator[Breach]:
    """JN1: no column has a reserved name."""
    for column in table.info.members:
        if column.name in names.RESERVED:
            message, expected = "the name of this column is reserved", "another name"
            yield Breach("error", table.path_of(column.name), message, column.name, expected)


def flags_are_booleans(table: RawH5colTable) -> Iterator[Breach]:
    """JB2, JK7: `ordered` and `exhaustive` are booleans."""
    nodes: list[tuple[str, Node]] = [(index.name, index.dataset) for index in table.placed]
    for child in table.members_of(names.CATEGORIES):
        node = table.group.open_dataset(f"{names.CATEGORIES}/{child.name}") if child.kind == "dataset" else None
        nodes += [] if node is None else [(child.name, node)]
    for name_of_node, owner in nodes:
        for name in (names.ORDERED, "exhaustive"):
            stored = owner.attribute_storage(name)
            if stored is not None and not is_plain_boolean(stored[0]):
                where, expected = join_path(table.path, name_of_node), "the enum FALSE, TRUE"
                yield Breach("error", where, f"{name} is not a boolean", str(stored[0]), expected)


# -- fills and valid ranges --


def enums_have_a_missing_member(table: RawH5colTable) -> Iterator[Breach]:
    """JM6: the fill of an enum is its member MISSING."""
    for column, _ in table.plain_columns():
        if column.type.kind != "enum" or column.fill is None:
            continue
        fill, members = _number(column.type, column.fill), dict(column.type.members)
        if members.get("MISSING") != fill:
            message = "the fill of this enum is not its member MISSING"
            yield Breach("warning", table.path_of(column.name), message, str(fill), "the code of MISSING")


def ranges_leave_the_fill_out(table: RawH5colTable) -> Iterator[Breach]:
    """JM3: valid_min and valid_max are of the column's type, and the fill is outside of them."""
    for column, dataset in table.plain_columns():
        bounds = _bounds(dataset)
        path = table.path_of(column.name)
        for name, bound in zip((names.VALID_MIN, names.VALID_MAX), bounds, strict=True):
            if bound is not None and not _is_like(bound[0], column.type):
                yield Breach("error", path, f"{name} is not of the column's type", str(bound[0]), str(column.type))
                break
        else:
            if column.fill is not None and _is_inside(column, bounds):
                message = "the fill is in the valid range"
                yield Breach("error", path, message, str(_number(column.type, column.fill)), "a fill outside of it")


_Bound = tuple[StoredType, bytes]


def has_fill_in_range(column: ColumnInfo, dataset: Node) -> bool:
    """Whether the valid range of a column, of its type, holds its fill."""
    bounds = _bounds(dataset)
    return all(bound is None or _is_like(bound[0], column.type) for bound in bounds) and _is_inside(column, bounds)


def _bounds(dataset: Node) -> list[_Bound | None]:
    return [_bound(dataset, name) for name in (names.VALID_MIN, names.VALID_MAX)]


def _bound(dataset: Node, name: str) -> _Bound | None:
    stored, element = dataset.attribute_storage(name), dataset.attribute_element(name)
    return None if stored is None or element is None else (stored[0], element)


def _is_like(present: StoredType, wanted: StoredType) -> bool:
    """Whether two types hold the same values: byte order and the padding of strings do not matter."""
    return (present.kind, present.size, present.signed) == (wanted.kind, wanted.size, wanted.signed)


def _number(stored: StoredType, element: bytes) -> int | float:
    value: int | float = np.frombuffer(element, dtype=memory_dtype(stored))[0].item()
    return value


def _is_inside(column: ColumnInfo, bounds: list[_Bound | None]) -> bool:
    if bounds == [None, None] or column.fill is None or column.type.kind not in ("integer", "float"):
        return False
    fill = _number(column.type, column.fill)
    low, high = (None if bound is None else _number(column.type, bound[1]) for bound in bounds)
    return (low is None or fill >= low) and (high is None or fill <= high)
