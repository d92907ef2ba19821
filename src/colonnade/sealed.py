"""Objects that reject attributes set by mistake."""

from __future__ import annotations


class Sealed:
    """Only properties with a setter can be set; anything else raises an AttributeError that lists those properties."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_") or getattr(getattr(type(self), name, None), "fset", None) is not None:
            object.__setattr__(self, name, value)
            return
        raise AttributeError(_refusal(type(self), name))


def settable(kind: type) -> list[str]:
    """The names of the properties of a class that can be set."""
    return sorted(name for name in dir(kind) if getattr(getattr(kind, name, None), "fset", None) is not None)


def _refusal(kind: type, name: str) -> str:
    from colonnade.errors import nearest_names

    known = settable(kind)
    nearest = nearest_names(name, known) or known
    advice = f" These can be set: {', '.join(nearest)}." if nearest else ""
    if hasattr(kind, "attrs"):
        advice += f" Attributes of your own go into attrs[{name!r}]."
    return f"cannot set attribute {name!r} of a {kind.__name__}.{advice}"
