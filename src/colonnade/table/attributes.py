"""Which attributes belong to a layout, and cannot be set by the user."""

from __future__ import annotations

from collections.abc import Iterable

from colonnade.errors import UsageError
from colonnade.nodes.attributes import check_attribute_name
from colonnade.sealed import settable

ROOT_ATTRIBUTES = ("CLASS", "encoding-type", "encoding-version")
"""Names that describe a whole file, whatever is at its root."""


def check_names(names: Iterable[object], owned: tuple[str, ...], kind: type, what: str) -> None:
    """Refuse names that belong to a layout; if the class has a property for one, the message names it."""
    for given in names:
        name = check_attribute_name(given)
        if name not in owned and not name.startswith("_"):
            continue
        stands_for = name.casefold()
        advice = (
            f"set the property {stands_for} instead"
            if stands_for in settable(kind)
            else "the library sets it; choose another name"
        )
        why = "it belongs to the layout" if name in owned else "names that begin with an underscore are reserved"
        raise UsageError(f"cannot set attribute {name!r} of {what}: {why}. {advice.capitalize()}", attribute=name)
