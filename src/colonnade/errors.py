"""Every error colonnade raises, sorted by who must act.

    ColonnadeError
    ├─ UsageError (ValueError)           you asked for what cannot be
    │  ├─ ColumnNotFound (KeyError)      names the nearest columns
    │  ├─ TableNotFound (KeyError)       names the nearest tables
    │  ├─ PredicateError                 a predicate that means nothing: text and position
    │  └─ DataError                      rows given do not fit: column, row, value
    ├─ FormatError                       the file breaks its own rules
    │  └─ CorruptError                   bytes are not what they claim
    ├─ UnsupportedError                  the file is right, we are behind
    └─ ConflictError (OSError)           read-only, locked, or changed under us

A message says what, where (file, object, byte or row), which rule, and what to do. The facts of
the message are attributes of the error too, so that programs need not read text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


class ColonnadeError(Exception):
    """Any error of this library. `facts` holds what the message says, by name."""

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __getattr__(self, name: str) -> object:
        if name.startswith("_") or name == "facts":
            raise AttributeError(name)
        try:
            return self.facts[name]
        except KeyError:
            raise AttributeError(name) from None

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.facts))


def _rebuild(kind: type[ColonnadeError], message: str, facts: dict[str, object]) -> ColonnadeError:
    """The error as it was before it was pickled, whatever its constructor takes."""
    error = kind.__new__(kind, message)
    ColonnadeError.__init__(error, message, **facts)
    return error


class UsageError(ColonnadeError, ValueError):
    """You asked for what cannot be."""


class _NotFoundError(UsageError, KeyError):
    """A name that is not there, with the nearest that are."""

    def __init__(self, kind: str, name: str, where: str, known: Iterable[str]) -> None:
        names = list(known)
        nearest = nearest_names(name, names)
        if nearest:
            advice = "Nearest: " + ", ".join(repr(n) for n in nearest) + "."
        elif names:
            shown = ", ".join(repr(n) for n in names[:8])
            advice = f"There are: {shown}{', ...' if len(names) > 8 else ''}."
        else:
            advice = f"It holds no {kind}s."
        super().__init__(f"no {kind} {name!r} in {where}. {advice}", name=name, where=where, nearest=nearest)


class ColumnNotFound(_NotFoundError):
    """No column of this name: names the nearest ones."""

    def __init__(self, name: str, where: str, known: Iterable[str]) -> None:
        super().__init__("column", name, where, known)


class TableNotFound(_NotFoundError):
    """No table at this path: names the nearest ones."""

    def __init__(self, name: str, where: str, known: Iterable[str]) -> None:
        super().__init__("table", name, where, known)


class PredicateError(UsageError):
    """A predicate that cannot be read, or does not suit its columns. Facts: text, position, column where known."""


class DataError(UsageError):
    """Rows given do not fit. Facts: column, row, value where they are known."""


class FormatError(ColonnadeError):
    """The file breaks its own rules. Facts: path, rule."""


class CorruptError(FormatError):
    """Bytes are not what they claim to be. Facts: path, row or offset, expected, found."""


class UnsupportedError(ColonnadeError):
    """The file is right, and this library cannot read it yet. Facts: feature, path."""


class ConflictError(ColonnadeError, OSError):
    """The file is read-only, locked, or changed under us."""


@contextmanager
def rows_as(row_of: Callable[[int], int]) -> Iterator[None]:
    """Errors about a row that is counted within a part: given on with the row that `row_of` makes of it."""
    try:
        yield
    except ColonnadeError as error:
        place = error.facts.get("row")
        if not isinstance(place, int) or row_of(place) == place:
            raise
        row = row_of(place)
        message = error.message.replace(f"row {place}", f"row {row}", 1)
        raise _rebuild(type(error), message, {**error.facts, "row": row}) from error


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Up to three of `known` that look like `name`, without regard to case."""
    from difflib import get_close_matches

    by_key: dict[str, str] = {}
    for candidate in known:
        by_key.setdefault(candidate.casefold(), candidate)
    return [by_key[key] for key in get_close_matches(name.casefold(), by_key, n=3, cutoff=0.55)]
