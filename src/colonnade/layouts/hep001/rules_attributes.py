"""How HEP001 requires attributes to be stored: strings, references, flags and counts. Each function yields breaches.

A value that cannot be read is an error. A correct value in a storage that the standard does not ask for and colonnade
does not write is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.h5.attributes import Attribute
from colonnade.model import Breach, Charset


def is_utf8(text: str) -> bool:
    """Whether a string or a name was stored as valid UTF-8. Invalid bytes were decoded to lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def text_of(held: Attribute | None) -> str | None:
    """The single string that an attribute holds; None if it holds something else."""
    if held is None or not held.is_text or len(held.values) != 1:
        return None
    return held.texts()[0]


def flag_of(held: Attribute | None) -> bool | None:
    """The single boolean that an attribute holds; None if it holds something else."""
    if held is None or held.type is None or held.type.kind not in ("boolean", "integer") or len(held.values) != 1:
        return None
    return bool(held.values[0])


def stored_as(held: Attribute) -> str:
    """A description of how an attribute is stored."""
    shape = "no elements" if held.shape is None else "a scalar" if held.shape == () else f"an array {held.shape}"
    return f"{shape} of {held.type}"


def text_breaches(path: str, name: str, held: Attribute | None, charset: Charset = "utf-8") -> Iterator[Breach]:
    """A string must be a scalar of fixed length in its charset."""
    if held is None or held.problem is not None:
        return
    expected = f"a scalar string of fixed length, {charset}"
    if not held.is_text:
        yield Breach("error", path, f"{name} is not a string", stored_as(held), expected)
    elif len(held.values) != 1:
        yield Breach("error", path, f"{name} is not a single string", stored_as(held), expected)
    elif not is_utf8(held.texts()[0]):
        yield Breach("error", path, f"{name} is not valid UTF-8", ascii(held.texts()[0]), "valid UTF-8")
    else:
        yield from _text_storage(path, name, held, charset, expected)


def _text_storage(path: str, name: str, held: Attribute, charset: Charset, expected: str) -> Iterator[Breach]:
    assert held.type is not None  # it is a string
    if held.shape != ():
        yield Breach("warning", path, f"{name} is an array of one string", stored_as(held), expected)
    elif held.type.kind == "text":
        yield Breach("warning", path, f"{name} is of variable length", stored_as(held), expected)
    elif held.type.charset != charset:
        yield Breach("warning", path, f"{name} is marked as {held.type.charset}", stored_as(held), expected)
    elif held.type.padding == "space":
        yield Breach("warning", path, f"{name} is padded with spaces", stored_as(held), expected)


def reference_breaches(path: str, name: str, held: Attribute | None, scalar: bool) -> Iterator[Breach]:
    """References must be H5T_STD_REF_OBJ: one, as a scalar, or any number, as a 1-D array."""
    if held is None or held.problem is not None:
        return
    expected = "a scalar object reference" if scalar else "a 1-D array of object references"
    if not held.is_references:
        yield Breach("error", path, f"{name} does not hold object references", stored_as(held), expected)
    elif scalar and len(held.values) != 1:
        yield Breach("error", path, f"{name} is not a single reference", stored_as(held), expected)
    elif scalar and held.shape != ():
        yield Breach("warning", path, f"{name} is an array of one reference", stored_as(held), expected)
    elif not scalar and (held.shape is None or len(held.shape) != 1):
        yield Breach("warning", path, f"{name} is not a 1-D array", stored_as(held), expected)


def flag_breaches(path: str, name: str, held: Attribute | None) -> Iterator[Breach]:
    """A flag must exist, as a scalar of the FALSE/TRUE enum."""
    expected = "a scalar boolean (the enum of FALSE and TRUE)"
    if held is None:
        yield Breach("error", path, f"{name} is missing", "no such attribute", expected)
    elif held.problem is not None:
        return
    elif flag_of(held) is None:
        yield Breach("error", path, f"{name} is not a boolean", stored_as(held), expected)
    elif held.shape != () or held.type is None or held.type.kind != "boolean":
        yield Breach("warning", path, f"{name} is not stored as a scalar boolean", stored_as(held), expected)


def count_breaches(path: str, name: str, held: Attribute | None, size: int, scalar: bool = True) -> Iterator[Breach]:
    """A count must exist, as an unsigned integer of `size` bytes: a scalar, or a 1-D array."""
    expected = f"{'a scalar' if scalar else 'a 1-D array of'} uint{8 * size}"
    if held is None:
        yield Breach("error", path, f"{name} is missing", "no such attribute", expected)
    elif held.problem is not None:
        return
    elif not held.is_integer or not held.values:
        yield Breach("error", path, f"{name} is not a count", stored_as(held), expected)
    elif not _is_unsigned(held, size) or held.shape is None or len(held.shape) != (0 if scalar else 1):
        yield Breach("warning", path, f"{name} is not stored as {expected}", stored_as(held), expected)


def _is_unsigned(held: Attribute, size: int) -> bool:
    return held.type is not None and not held.type.signed and held.type.size == size
