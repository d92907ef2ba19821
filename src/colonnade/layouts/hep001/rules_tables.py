"""The rules T1 to T5 and T7 for the table group, and H1: HDF5 can read the file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from colonnade.errors import ColonnadeError, UnsupportedError
from colonnade.layouts.hep001 import names
from colonnade.layouts.hep001.raw import RawHep001Table
from colonnade.layouts.hep001.rules_attributes import text_breaches, text_of
from colonnade.layouts.raw_node import stored_as
from colonnade.model import Breach, shown_name
from colonnade.nodes import Group, attributes
from colonnade.nodes.paths import join_path
from colonnade.nodes.protocols import Child

_WRITE_CLASS = "If it is meant as a table, write CLASS as the scalar ASCII string COLUMN_TABLE."
_NEWER = "Check it with a newer version of colonnade."
_FOREIGN = {
    "group": "a group that is not part of the table",
    "datatype": "a named datatype, which is not part of the table",
    "soft link": "a soft link, which is not followed: its target is not a column",
    "external link": "a link to another file, which is not followed",
}


def class_says_table(table: RawHep001Table) -> Iterator[Breach]:
    """T1: CLASS is a scalar string of exactly 12 ASCII bytes."""
    attribute = table.attributes.get(names.CLASS)
    if attribute is None or attribute.type is None:
        return
    expected = "a scalar string of 12 bytes, ascii"
    if attribute.shape != ():
        message = "CLASS is not a scalar: other readers do not recognise this table"
        yield Breach("error", table.path, message, stored_as(attribute), expected)
        return
    storage = list(text_breaches(table.path, names.CLASS, attribute, "ascii"))
    yield from storage
    if not storage and attribute.type.size != len(names.CLASS_VALUE):
        yield Breach("warning", table.path, "CLASS does not have 12 bytes", stored_as(attribute), expected)


def version_is_known(table: RawHep001Table) -> Iterator[Breach]:
    """T2: VERSION exists, is a number that this revision covers, and is stored as ASCII."""
    attribute = table.attributes.get(names.VERSION)
    expected = f"'{names.VERSION_VALUE}'"
    if attribute is None:
        yield Breach("error", table.path, "VERSION is missing", "no such attribute", expected)
        return
    yield from text_breaches(table.path, names.VERSION, attribute, "ascii")
    text = text_of(attribute)
    match = re.fullmatch(r"(\d{1,6})(?:\.(\d{1,6}))?(?:\..*)?", text or "")
    if text is not None and match is None:
        yield Breach("error", table.path, "VERSION is not a version number", repr(text), expected)
    elif match is not None and int(match[1]) < 1:
        yield Breach("warning", table.path, "VERSION is not a published revision", repr(text), expected)
    elif match is not None and int(match[2] or 0) > 0:
        message = "VERSION is a later revision, which is read like this one"
        yield Breach("note", table.path, message, repr(text), expected)


def texts_are_stored_right(table: RawHep001Table) -> Iterator[Breach]:
    """T3: the optional string attributes of the table."""
    for name in names.GROUP_ATTRIBUTES:
        if name not in (names.CLASS, names.VERSION, names.COLUMN_ORDER):
            yield from text_breaches(table.path, name, table.attributes.get(name))


def order_is_stored_right(table: RawHep001Table) -> Iterator[Breach]:
    """T4: column-order is a 1-D array of UTF-8 strings of fixed length, required if a table has several columns."""
    attribute = table.attributes.get(names.COLUMN_ORDER)
    expected = "a 1-D array of strings of fixed length, utf-8"
    if attribute is None:
        if len(table.columns) > 1:
            message = "there is no column-order, so the order of columns is undefined"
            yield Breach("warning", table.path, message, "no such attribute", expected)
    elif attribute.problem is not None:
        return
    elif not attribute.is_text and attribute.values + (attribute.shape or ()) != (0,):
        yield Breach("error", table.path, "column-order does not hold strings", stored_as(attribute), expected)
    elif attribute.type is None or attribute.shape is None or len(attribute.shape) != 1:
        yield Breach("warning", table.path, "column-order is not a 1-D array", stored_as(attribute), expected)
    elif attribute.type.kind == "text":
        yield Breach("warning", table.path, "column-order is of variable length", stored_as(attribute), expected)
    elif attribute.is_text and attribute.type.charset != "utf-8":
        yield Breach("warning", table.path, "column-order is marked as ascii", stored_as(attribute), expected)


def order_lists_every_column_once(table: RawHep001Table) -> Iterator[Breach]:
    """T4: column-order lists each column once, and nothing else."""
    order = listed_order(table)
    if order is None:
        return
    columns = {node.name for node in table.columns}
    categories = {node.name for node in table.categories}
    for name, count in Counter(order).items():
        shown = repr(shown_name(name))
        if name in columns and count > 1:
            yield Breach("error", table.path, f"column-order names {shown} {count} times", f"{count} times", "once")
        elif name in categories:
            message = f"column-order names {shown}, which holds categories"
            yield Breach("warning", table.path, message, shown, "columns only")
        elif name not in columns and name not in table.datasets:
            yield Breach(
                "error", table.path, f"column-order names {shown}, which is not in this table", shown, "columns only"
            )
    named = set(order)
    for node in table.columns:
        if node.name not in named:
            yield Breach("error", node.path, "column-order does not name this column", "not named", "named once")


def listed_order(table: RawHep001Table) -> list[str] | None:
    """The names in column-order; None if it does not exist or cannot be read."""
    attribute = table.attributes.get(names.COLUMN_ORDER)
    return attribute.texts() if attribute is not None and attribute.is_text else None


def index_leads_to_rows(table: RawHep001Table) -> Iterator[Breach]:
    """T5: `_index` names a column or label."""
    name = text_of(table.attributes.get(names.INDEX))
    known = {node.name for node in table.members}
    if name is not None and name not in known:
        yield Breach(
            "error",
            table.path,
            f"_index names {shown_name(name)!r}, which is neither a column nor a label of this table",
            repr(shown_name(name)),
            "the name of a column or label",
        )


def foreign_objects(table: RawHep001Table) -> Iterator[Breach]:
    """T7: objects in the group that are not part of the table."""
    order = set(listed_order(table) or ())
    for child in table.children:
        if child.name == names.SEARCH_INDEXES and child.kind == "group":
            continue
        where = join_path(table.path, child.name)
        if child.kind in _FOREIGN:
            yield Breach("note", where, f"this is {_FOREIGN[child.kind]}", child.kind, "the table's own objects only")
        node = table.datasets.get(child.name)
        if node is None or node.problem is not None or node.is_flat or child.name in order:
            continue
        if names.COLUMNS_LIST not in node.attributes:
            yield Breach("note", where, "a dataset that is not a column: its rank is not 1", node.shape_text, "rank 1")


def everything_can_be_read(table: RawHep001Table) -> Iterator[Breach]:
    """H1: links lead to objects; headers and attributes can be read."""
    for child in (*table.children, *table.index_children):
        if child.kind == "broken" and child.name not in table.datasets:
            where = join_path(table.path, child.name)
            yield Breach("error", where, "this link leads nowhere, or to an object that cannot be opened")
    if table.home_problem is not None:
        yield Breach("error", join_path(table.path, names.SEARCH_INDEXES), table.home_problem)
    for name, stored in table.attributes.items():
        if stored.problem is not None:
            yield Breach("error", table.path, f"attribute {name}: {stored.problem}")
    for node in (*table.datasets.values(), *table.indexes.values()):
        if node.problem is not None:
            yield Breach("error", node.path, node.problem)
        for name, stored in node.attributes.items():
            if stored.problem is not None:
                yield Breach("error", node.path, f"attribute {name}: {stored.problem}")


# -- objects that claim to be a table but are not --


def claim(group: Group, path: str) -> tuple[str, Breach] | None:
    """For a group that is not a table: the rule it breaks if it was meant to be one, and how; otherwise None."""
    stored = group.inspect_attribute(names.CLASS)
    if stored is None or not stored.is_text:
        return _claim_by_parts(group, path, "no such attribute" if stored is None else stored_as(stored))
    values = [text.strip() for text in stored.texts()]
    if any(text.upper() == names.CLASS_VALUE for text in values):
        message = "CLASS is almost that of a table: readers ignore this group"
        found = f"{stored_as(stored)}: {', '.join(map(ascii, values[:4]))}"
        return "T1", Breach("error", path, message, found, f"'{names.CLASS_VALUE}'", _WRITE_CLASS)
    return None


def _claim_by_parts(group: Group, path: str, found: str) -> tuple[str, Breach] | None:
    if not _looks_like_a_table(group):
        return None
    message = "this group is laid out as a table, but has no CLASS that declares it"
    return "T1", Breach("error", path, message, found, f"'{names.CLASS_VALUE}'", _WRITE_CLASS)


def _looks_like_a_table(group: Group) -> bool:
    """Whether there are VERSION and column-order, or a group of search indexes. Only HEP001 tables have these."""
    if group.inspect_attribute(names.VERSION) is not None and group.inspect_attribute(names.COLUMN_ORDER) is not None:
        return True
    is_home = any(child.name == names.SEARCH_INDEXES and child.kind == "group" for child in group.children())
    return is_home and not _has_indexes_of_datasets(group)


def _has_indexes_of_datasets(group: Group) -> bool:
    """Whether the search indexes next to the members of a group are those of tables that are datasets: each table has a
    group of its own name there."""
    home = group.open_group(names.SEARCH_INDEXES)
    members = [] if home is None else home.children()
    return bool(members) and all(
        child.kind == "group" and group.child(child.name).kind == "dataset" for child in members
    )


def dataset_claim(group: Group, path: str, child: Child) -> tuple[str, Breach] | None:
    """For a dataset that claims to be a table, which must be a group: the rule it breaks, and how; otherwise None."""
    dataset = group.open_dataset(child.name)
    text = attributes.read_text(dataset, names.CLASS) if dataset is not None else None
    if text != names.CLASS_VALUE:
        return None
    where, advice = join_path(path, child.name), "Remove CLASS from it."
    return "T1", Breach("error", where, "a dataset claims to be a table", "a dataset", "a group", advice)


def not_inspected(path: str, error: ColonnadeError) -> tuple[str, Breach]:
    """For a table that cannot be read: the rule it breaks, and how."""
    if isinstance(error, UnsupportedError):
        version = repr(error.found)
        return "T2", Breach("error", path, f"{error}; it is not checked", version, f"'{names.VERSION_VALUE}'", _NEWER)
    return "H1", Breach("error", path, f"this table cannot be described: {error}", str(error), "a table")
