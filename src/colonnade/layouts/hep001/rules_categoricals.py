"""The rules for categoricals: C8 for codes, C9 for categories."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade.layouts.hep001 import names
from colonnade.layouts.hep001.raw import RawDataset, RawHep001Table
from colonnade.layouts.hep001.rules_attributes import flag_breaches, is_utf8, text_of
from colonnade.layouts.raw_node import stored_as
from colonnade.model import Breach
from colonnade.stored_dtypes import memory_dtype


def categoricals(table: RawHep001Table) -> list[RawDataset]:
    """The columns and labels that refer to categories."""
    return [node for node in table.members if names.CATEGORIES in node.attributes]


def codes_are_integers(table: RawHep001Table) -> Iterator[Breach]:
    """C8: codes are integers; signed codes mark a missing row with -1."""
    for node in categoricals(table):
        if node.info is None:
            continue
        if node.info.type.kind != "integer":
            yield Breach("error", node.path, "a categorical must hold integer codes", str(node.info.type), "integers")
        elif node.info.type.signed and node.info.fill is not None:
            fill = int(np.frombuffer(node.info.fill, dtype=memory_dtype(node.info.type))[0])
            if fill != -1:
                message = "the fill value of signed codes is not -1, the only code that marks a missing row"
                yield Breach("warning", node.path, message, str(fill), "-1")


def categories_are_there(table: RawHep001Table) -> Iterator[Breach]:
    """C9: `_categories` leads to a dataset of rank 1 in the same group."""
    for node in categoricals(table):
        targets = node.targets(names.CATEGORIES)
        if not targets:
            continue  # no reference at all: reported by C7
        categories = table.by_address.get(targets[0])
        expected = "a dataset of rank 1 in the table's group"
        if targets[0] is None:
            yield Breach(
                "error", node.path, "_categories refers to nothing", "a reference that leads nowhere", expected
            )
        elif categories is None:
            message = "_categories does not refer to a dataset of the table's group"
            yield Breach("error", node.path, message, "an object elsewhere", expected)
        elif not categories.is_flat and categories.problem is None:
            yield Breach("error", node.path, "the categories do not have rank 1", categories.shape_text, expected)


def categories_say_what_they_are(table: RawHep001Table) -> Iterator[Breach]:
    """C9: categories have the attributes `encoding-type` and `ordered`."""
    for node in table.categories:
        yield from _encoding_type(node)
        yield from flag_breaches(node.path, names.ORDERED, node.attributes.get(names.ORDERED))


def _encoding_type(node: RawDataset) -> Iterator[Breach]:
    """Breaches of `encoding-type`. Here the standard allows a UTF-8 string of fixed or of variable length."""
    attribute = node.attributes.get(names.ENCODING_TYPE)
    text, expected = text_of(attribute), "the scalar string 'categorical', utf-8"
    if attribute is None:
        yield Breach("error", node.path, "the categories have no encoding-type", "no such attribute", expected)
    elif attribute.problem is not None:
        return
    elif text != "categorical":
        found = stored_as(attribute) if text is None else repr(text) if is_utf8(text) else ascii(text)
        yield Breach("error", node.path, "encoding-type is not 'categorical'", found, expected)
    elif attribute.shape != () or attribute.type is None or attribute.type.charset != "utf-8":
        yield Breach("warning", node.path, "encoding-type is not a scalar UTF-8 string", stored_as(attribute), expected)
