"""The rules for arrays: A3 plain, A8 categorical, A9 strings, A10 nullable, A11 scalars, A12 awkward."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.describe import open_categories
from colonnade.layouts.anndata.raw import RawElement
from colonnade.layouts.anndata.rules_values import number_blocks, read_all, repeated_values
from colonnade.layouts.raw_node import stored_as
from colonnade.model import Breach
from colonnade.nodes.paths import is_dataset

if TYPE_CHECKING:
    from colonnade.values import Json

NUMBER_KINDS = ("integer", "float", "boolean", "complex", "enum", "bitfield")
TEXTS = ("text", "string")
VALUES = {"nullable-integer": ("integer",), "nullable-boolean": ("boolean",), "nullable-string-array": TEXTS}
# The buffers that each class of an awkward form must have.
BUFFERS = {
    "NumpyArray": ("data",), "ListOffsetArray": ("offsets",), "ListArray": ("starts", "stops"),
    "IndexedArray": ("index",), "IndexedOptionArray": ("index",), "ByteMaskedArray": ("mask",),
    "BitMaskedArray": ("mask",), "UnionArray": ("tags", "index"),
}  # fmt: skip
DEEPEST_FORM = 64


def _type_text(node: RawElement) -> str:
    return str(node.stored.type) if node.stored is not None else node.shape_text


def _kind(node: RawElement) -> str | None:
    return node.stored.type.kind if node.stored is not None else None


# -- A3 --


def arrays_are_arrays(node: RawElement) -> Iterator[Breach]:
    """A3: an array has a shape, a rec-array holds a compound type; every value can be read."""
    if node.kind != "dataset" or node.type not in ("array", "rec-array") or node.stored is None:
        return
    if node.is_null:
        yield Breach("error", node.path, "an array has no shape", node.shape_text, "an array")
    elif node.type == "rec-array" and _kind(node) not in ("compound", "complex"):
        yield Breach("error", node.path, "a rec-array must hold records", _type_text(node), "a compound")
    elif node.deep and not node.rows_read:
        read_all(node)


# -- A8 --


def categorical_has_its_parts(node: RawElement) -> Iterator[Breach]:
    """A8: codes are integers of rank 1, categories an array of rank 1, `ordered` a boolean."""
    if not node.is_a(names.CATEGORICAL) or node.kind != "group":
        return
    codes, categories = node.member("codes"), node.member("categories")
    if codes is None or not codes.is_flat or _kind(codes) != "integer":
        found = "no such member" if codes is None else f"{codes.shape_text} of {_type_text(codes)}"
        yield Breach("error", node.path, "a categorical has no integer codes of rank 1", found, "integers, rank 1")
    if categories is None or open_categories(node.as_group) is None or not _is_flat(categories):
        found = "no such member" if categories is None else categories.shape_text
        yield Breach("error", node.path, "a categorical has no categories of rank 1", found, "an array of rank 1")
    attribute = node.attribute(names.ORDERED)
    if (
        attribute is None
        or attribute.type is None
        or attribute.type.kind not in ("boolean", "integer")
        or len(attribute.values) != 1
    ):
        yield Breach("error", node.path, "ordered is not a boolean", stored_as(attribute), "a scalar boolean")


def _is_flat(categories: RawElement) -> bool:
    return categories.kind == "group" or categories.is_flat


def old_categories_are_there(node: RawElement) -> Iterator[Breach]:
    """A8: the reference of a legacy column of codes leads to its categories."""
    attribute = node.attribute(names.LEGACY_CATEGORIES)
    if node.kind != "dataset" or attribute is None or not attribute.is_references:
        return
    target = node.node.dereference(attribute.values[0]) if attribute.values else None
    if target is None or not is_dataset(target):
        yield Breach("error", node.path, "`categories` does not refer to a dataset", "a broken reference", "labels")


def codes_are_categories(node: RawElement) -> Iterator[Breach]:
    """A8 (deep): every code is that of a category, or -1; no category occurs twice."""
    if not node.deep or not node.is_a(names.CATEGORICAL) or node.kind != "group":
        return
    codes, categories = node.member("codes"), node.member("categories")
    if categories is not None and categories.kind == "group":
        categories = categories.member("values")
    if codes is None or categories is None or not codes.is_flat or not categories.is_flat:
        return
    if not node.rows_read and _kind(codes) == "integer":
        yield from _wrong_codes(codes, categories.length)
    twice = repeated_values(categories)
    if twice is not None:
        message = "a category occurs twice: pandas, and so anndata, refuses it"
        yield Breach("error", categories.path, message, twice, "distinct categories")


def _wrong_codes(codes: RawElement, n_categories: int) -> Iterator[Breach]:
    for start, block in number_blocks(codes):
        wrong = (block < -1) | (block >= n_categories)
        if wrong.any():
            place = int(wrong.argmax())
            message = f"row {start + place}: the code is outside the {n_categories} categories"
            yield Breach("error", codes.path, message, str(block[place]), f"-1 to {n_categories - 1}")
            return


# -- A9 --


def texts_are_texts(node: RawElement) -> Iterator[Breach]:
    """A9: a string-array and a string are UTF-8 strings of variable length."""
    if node.kind != "dataset" or node.type not in ("string-array", "string") or node.stored is None:
        return
    expected = "strings of variable length, UTF-8"
    if node.is_null or _kind(node) not in TEXTS:
        yield Breach("error", node.path, f"a {node.type} does not hold strings", _type_text(node), expected)
        return
    if _kind(node) != "text" or node.stored.type.charset != "utf-8":
        message = f"a {node.type} is stored as another string type"
        yield Breach("warning", node.path, message, f"{_type_text(node)}, {node.stored.type.charset}", expected)
    if node.deep and not node.rows_read:
        read_all(node)


# -- A10 --


def nullable_has_its_parts(node: RawElement) -> Iterator[Breach]:
    """A10: values of the right kind and a boolean mask of the same shape; na-value is NA or NaN."""
    if not node.is_a(*names.NULLABLE) or node.kind != "group":
        return
    values, mask = node.member("values"), node.member("mask")
    wanted = VALUES[str(node.type)]
    if values is None or not values.is_flat or _kind(values) not in wanted:
        found = "no such member" if values is None else f"{values.shape_text} of {_type_text(values)}"
        yield Breach("error", node.path, f"a {node.type} has no such values of rank 1", found, " or ".join(wanted))
    if mask is None or not mask.is_flat or _kind(mask) != "boolean":
        found = "no such member" if mask is None else f"{mask.shape_text} of {_type_text(mask)}"
        yield Breach("error", node.path, "there is no mask of booleans", found, "the enum of FALSE and TRUE, rank 1")
    elif values is not None and values.is_flat and values.length != mask.length:
        message = "values and mask have different lengths"
        yield Breach("error", node.path, message, f"{values.length} and {mask.length}", "one length")
    meaning = node.attribute("na-value")
    if meaning is not None and node.text("na-value") not in ("NA", "NaN"):
        yield Breach("error", node.path, "na-value is neither NA nor NaN", repr(node.text("na-value")), "'NA' or 'NaN'")


# -- A11 --


def scalars_are_scalars(node: RawElement) -> Iterator[Breach]:
    """A11: scalars are datasets of one element without axes; a numeric-scalar is a number."""
    if node.kind != "dataset" or node.type not in ("numeric-scalar", "string", "bytes") or node.stored is None:
        return
    if not node.is_scalar:
        yield Breach("error", node.path, f"a {node.type} is not a scalar", node.shape_text, "a scalar dataspace")
    elif node.type == "numeric-scalar" and _kind(node) not in NUMBER_KINDS:
        yield Breach("error", node.path, "a numeric-scalar is not a number", _type_text(node), "a number")
    elif node.deep:
        read_all(node)


def nulls_hold_nothing(node: RawElement) -> Iterator[Breach]:
    """A11: a null has a null dataspace."""
    if node.kind == "dataset" and node.type == "null" and not node.is_null:
        yield Breach("error", node.path, "a null holds elements", node.shape_text, "a null dataspace")


# -- A12 --


def awkward_has_its_buffers(node: RawElement) -> Iterator[Breach]:
    """A12: form is JSON, length is a count, and the buffers that the form names exist."""
    if node.type != "awkward-array" or node.kind != "group":
        return
    attribute = node.attribute("length")
    if attribute is None or len(attribute.integers) != 1 or attribute.integers[0] < 0:
        yield Breach("error", node.path, "length is not a count", stored_as(attribute), "a scalar integer from 0")
    text = node.text("form")
    try:
        form = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        form = None
    if not isinstance(form, dict):
        yield Breach("error", node.path, "form is not valid JSON of a form", stored_as(node.attribute("form")), "JSON")
        return
    there = {child.name for child in node.children if child.kind == "dataset"}
    for name in _buffers(form, DEEPEST_FORM):
        if name not in there:
            yield Breach("error", node.path, f"the buffer {name!r} does not exist", "no such dataset", "a buffer")
    if node.deep:
        for _, member in node.members():
            if member.kind == "dataset" and member.stored is not None:
                read_all(member)
                node.bytes_read += member.bytes_read


def _buffers(form: Json, deepest: int) -> Iterator[str]:
    """The names of the buffers that a form needs."""
    if not isinstance(form, dict) or deepest == 0:
        return
    key = form.get("form_key")
    if isinstance(key, str):
        yield from (f"{key}-{part}" for part in BUFFERS.get(str(form.get("class")), ()))
    inner = form.get("contents", form.get("content"))
    if isinstance(inner, dict):
        inner = [inner] if "class" in inner else list(inner.values())
    for part in inner if isinstance(inner, list) else ():
        yield from _buffers(part, deepest - 1)
