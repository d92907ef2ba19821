"""Rules for what marks missing rows: DM1 to DM4."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.rules_columns import SCALAR_TEXT
from colonnade.layouts.artifactdb.seen import SeenColumn, SeenFrame
from colonnade.layouts.seen_node import SeenNode, stored_as
from colonnade.model import Breach


def _held_mark(column: SeenColumn) -> SeenNode | None:
    """The dataset of a column that has an attribute for missing rows, if that means anything."""
    one = column.rows
    if one is None or not column.marks_by_attribute or one.attribute(names.PLACEHOLDER) is None:
        return None
    return one


def marks_are_scalars(frame: SeenFrame) -> Iterator[Breach]:
    """DM1: what marks missing rows is one value."""
    for column in frame.placed:
        one = _held_mark(column)
        held = one.attribute(names.PLACEHOLDER) if one is not None else None
        if one is not None and held is not None and (held.shape != () or held.problem is not None):
            message = "missing-value-placeholder is no scalar"
            yield Breach("error", one.path, message, stored_as(held), "a scalar")


def marks_have_the_type_of_rows(frame: SeenFrame) -> Iterator[Breach]:
    """DM2: what marks missing numbers is of exactly their type."""
    for column in frame.placed:
        one = _held_mark(column)
        held = one.attribute(names.PLACEHOLDER) if one is not None else None
        if one is None or held is None or column.is_text or column.has_pointers or held.type is None:
            continue
        if held.type != column.stored:
            message = "missing-value-placeholder is of another type than the rows"
            yield Breach("error", one.path, message, str(held.type), str(column.stored))


def marks_of_texts_are_texts(frame: SeenFrame) -> Iterator[Breach]:
    """DM3: what marks missing strings is a text."""
    for column in frame.placed:
        one = _held_mark(column)
        held = one.attribute(names.PLACEHOLDER) if one is not None else None
        if one is None or held is None or not (column.is_text or column.has_pointers):
            continue
        if held.type is not None and not held.is_text:
            message = "missing-value-placeholder of strings is no text"
            yield Breach("error", one.path, message, stored_as(held), SCALAR_TEXT)


def old_numbers_have_no_mark(frame: SeenFrame) -> Iterator[Breach]:
    """DM4: before hdf5_data_frame version 2, missing numbers are INT32_MIN and R's NA: an attribute says nothing."""
    for column in frame.placed:
        one = column.rows
        if one is None or column.marks_by_attribute or one.attribute(names.PLACEHOLDER) is None:
            continue
        message = "missing-value-placeholder means nothing on numbers before hdf5_data_frame version 2"
        yield Breach("warning", one.path, message, "an attribute", "-2147483648, or R's NA, in the rows")
