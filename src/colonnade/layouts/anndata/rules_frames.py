"""The rules for data frames: A5 attributes, A6 column names, A7 columns, A14 two layouts in one group."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.errors import ColonnadeError, UnsupportedError
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.raw import RawElement, RawFrame
from colonnade.layouts.raw_node import stored_as
from colonnade.model import UNREADABLE, Breach
from colonnade.nodes import Group, attributes
from colonnade.nodes.paths import join_path

HEP001_CATEGORIES = "_categories"  # the attribute by which HEP001 codes refer to their categories


def _order(frame: RawFrame) -> list[str]:
    attribute = frame.attribute(names.COLUMN_ORDER)
    return attribute.texts() if attribute is not None and attribute.is_text else []


def attributes_name_index_and_columns(node: RawElement) -> Iterator[Breach]:
    """A5: _index is a scalar string that names a member, column-order an array of strings."""
    if not isinstance(node, RawFrame):
        return
    index, order = node.text(names.INDEX), node.attribute(names.COLUMN_ORDER)
    if index is None:
        message = "_index, which names the row labels, is missing or not a scalar string"
        yield Breach("error", node.path, message, stored_as(node.attribute(names.INDEX)), "a scalar string")
    elif index not in {column.name for column in node.info.labels}:
        message = "_index does not name a member that can be row labels"
        yield Breach("error", node.path, message, repr(index), "a dataset or group of the frame")
    expected = "a 1-D array of strings"
    if order is None or order.shape is None or order.problem is not None:
        yield Breach(
            "error", node.path, "column-order, which names the columns, is missing", stored_as(order), expected
        )
    elif len(order.shape) != 1 or (order.shape != (0,) and not order.is_text):
        yield Breach("error", node.path, "column-order is not an array of strings", stored_as(order), expected)


def names_are_names(node: RawElement) -> Iterator[Breach]:
    """A6: column-order contains names of members, each once; readers interpret them as paths."""
    if not isinstance(node, RawFrame):
        return
    seen: set[str] = set()
    for name in _order(node):
        if name in seen:
            yield Breach("error", node.path, "column-order names a column twice", repr(name), "each name once")
        seen.add(name)
        if not names.is_link_name(name):
            message = "column-order contains an invalid name: readers interpret it as a path, and read elsewhere"
            yield Breach("error", node.path, message, repr(name), "the name of a member")
        elif "/" in name:
            message = "column-order contains a path, which newer readers refuse"
            yield Breach("warning", join_path(node.path, name), message, repr(name), "the name of a member")


def columns_are_there(node: RawElement) -> Iterator[Breach]:
    """A7: every name leads to a readable column, and all have the same length."""
    if not isinstance(node, RawFrame):
        return
    known = node.info.by_name
    listed = dict.fromkeys(_order(node))
    for name in listed:
        if (name not in known or known[name].type == UNREADABLE) and names.is_link_name(name):
            problem = next((each.message for each in node.info.problems if each.path.endswith(f"/{name}")), "no column")
            yield Breach(
                "error", join_path(node.path, name), problem, "no column", "an array of rank 1, or a group of two"
            )
    for column in node.info.members:
        if column.problem is not None and not (column.type == UNREADABLE and column.name in listed):
            yield Breach("error", join_path(node.path, column.name), column.problem, column.problem, "one length")


def not_inspected(path: str, error: ColonnadeError) -> tuple[str, Breach]:
    """For a frame that cannot be read: the rule it breaks, and how."""
    if isinstance(error, UnsupportedError):
        found = repr(error.found)
        return "A1", Breach("error", path, f"{error}; it is not checked", found, " or ".join(names.VERSIONS))
    return "H1", Breach("error", path, f"this frame cannot be described: {error}", str(error), "a frame")


def as_seen_by_anndata(group: Group, path: str) -> Iterator[tuple[str, Breach]]:
    """A14, for a table of another layout that is also marked as a data frame: anndata must see labels, not codes."""
    if attributes.read_text(group, names.ENCODING_TYPE) != names.DATAFRAME:
        return
    for child in group.children():
        dataset = group.open_dataset(child.name) if child.kind == "dataset" else None
        if dataset is None or dataset.inspect_attribute(HEP001_CATEGORIES) is None:
            continue
        if dataset.inspect_attribute(names.LEGACY_CATEGORIES) is None:
            message = "this table declares itself an AnnData data frame, but anndata sees codes here, not labels"
            where = join_path(path, child.name)
            yield "A14", Breach("warning", where, message, "no attribute categories", "a reference to the labels")
