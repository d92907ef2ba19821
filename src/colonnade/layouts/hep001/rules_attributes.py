"""How HEP001 requires attributes to be stored: strings, references, flags and counts. Each function yields breaches.

A value that cannot be read is an error. A correct value in a storage that the standard does not ask for and colonnade
does not write is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.layouts.raw_node import stored_as
from colonnade.model import Breach, Charset
from colonnade.nodes.protocols import Attribute


def is_utf8(text: str) -> bool:
    """Whether a string or a name was stored as valid UTF-8. Invalid bytes were decoded to lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def text_of(attribute: Attribute | None) -> str | None:
    """The single string that an attribute holds; None if it holds something else."""
    if attribute is None or not attribute.is_text or len(attribute.values) != 1:
        return None
    return attribute.texts()[0]


def flag_of(attribute: Attribute | None) -> bool | None:
    """The single boolean that an attribute holds; None if it holds something else."""
    if (
        attribute is None
        or attribute.type is None
        or attribute.type.kind not in ("boolean", "integer")
        or len(attribute.values) != 1
    ):
        return None
    return bool(attribute.values[0])


def text_breaches(path: str, name: str, attribute: Attribute | None, charset: Charset = "utf-8") -> Iterator[Breach]:
    """A string must be a scalar of fixed length in its charset."""
    if attribute is None or attribute.problem is not None:
        return
    expected = f"a scalar string of fixed length, {charset}"
    if not attribute.is_text:
        yield Breach("error", path, f"{name} is not a string", stored_as(attribute), expected)
    elif len(attribute.values) != 1:
        yield Breach("error", path, f"{name} is not a single string", stored_as(attribute), expected)
    elif not is_utf8(attribute.texts()[0]):
        yield Breach("error", path, f"{name} is not valid UTF-8", ascii(attribute.texts()[0]), "valid UTF-8")
    else:
        yield from _text_storage(path, name, attribute, charset, expected)


def _text_storage(path: str, name: str, attribute: Attribute, charset: Charset, expected: str) -> Iterator[Breach]:
    assert attribute.type is not None  # it is a string
    if attribute.shape != ():
        yield Breach("warning", path, f"{name} is an array of one string", stored_as(attribute), expected)
    elif attribute.type.kind == "text":
        yield Breach("warning", path, f"{name} is of variable length", stored_as(attribute), expected)
    elif attribute.type.charset != charset:
        yield Breach("warning", path, f"{name} is marked as {attribute.type.charset}", stored_as(attribute), expected)
    elif attribute.type.padding == "space":
        yield Breach("warning", path, f"{name} is padded with spaces", stored_as(attribute), expected)


def reference_breaches(path: str, name: str, attribute: Attribute | None, scalar: bool) -> Iterator[Breach]:
    """References must be H5T_STD_REF_OBJ: one, as a scalar, or any number, as a 1-D array."""
    if attribute is None or attribute.problem is not None:
        return
    expected = "a scalar object reference" if scalar else "a 1-D array of object references"
    if not attribute.is_references:
        yield Breach("error", path, f"{name} does not hold object references", stored_as(attribute), expected)
    elif scalar and len(attribute.values) != 1:
        yield Breach("error", path, f"{name} is not a single reference", stored_as(attribute), expected)
    elif scalar and attribute.shape != ():
        yield Breach("warning", path, f"{name} is an array of one reference", stored_as(attribute), expected)
    elif not scalar and (attribute.shape is None or len(attribute.shape) != 1):
        yield Breach("warning", path, f"{name} is not a 1-D array", stored_as(attribute), expected)


def flag_breaches(path: str, name: str, attribute: Attribute | None) -> Iterator[Breach]:
    """A flag must exist, as a scalar of the FALSE/TRUE enum."""
    expected = "a scalar boolean (the enum of FALSE and TRUE)"
    if attribute is None:
        yield Breach("error", path, f"{name} is missing", "no such attribute", expected)
    elif attribute.problem is not None:
        return
    elif flag_of(attribute) is None:
        yield Breach("error", path, f"{name} is not a boolean", stored_as(attribute), expected)
    elif attribute.shape != () or attribute.type is None or attribute.type.kind != "boolean":
        yield Breach("warning", path, f"{name} is not stored as a scalar boolean", stored_as(attribute), expected)


def count_breaches(
    path: str, name: str, attribute: Attribute | None, size: int, scalar: bool = True
) -> Iterator[Breach]:
    """A count must exist, as an unsigned integer of `size` bytes: a scalar, or a 1-D array."""
    expected = f"{'a scalar' if scalar else 'a 1-D array of'} uint{8 * size}"
    if attribute is None:
        yield Breach("error", path, f"{name} is missing", "no such attribute", expected)
    elif attribute.problem is not None:
        return
    elif not attribute.is_integer or not attribute.values:
        yield Breach("error", path, f"{name} is not a count", stored_as(attribute), expected)
    elif not _is_unsigned(attribute, size) or attribute.shape is None or len(attribute.shape) != (0 if scalar else 1):
        yield Breach("warning", path, f"{name} is not stored as {expected}", stored_as(attribute), expected)


def _is_unsigned(attribute: Attribute, size: int) -> bool:
    return attribute.type is not None and not attribute.type.signed and attribute.type.size == size
