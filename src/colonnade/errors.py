"""Every error colonnade raises, grouped by who must act.

    ColonnadeError
    ├─ UsageError (ValueError)           the request cannot be carried out
    │  ├─ ColumnNotFound (KeyError)      names the nearest columns
    │  ├─ TableNotFound (KeyError)       names the nearest tables
    │  ├─ PredicateError                 an invalid predicate: text and position
    │  └─ DataError                      the given rows do not fit: column, row, value
    ├─ FormatError                       the file breaks its own rules
    │  └─ CorruptError                   the bytes do not match what they claim to be
    ├─ UnsupportedError                  the file is valid, but not supported yet
    └─ ConflictError (OSError)           read-only, locked, or changed meanwhile

A message states what is wrong, where (file, object, byte or row), which rule, and what to do. The facts of
the message are also attributes of the error, so programs do not need to parse the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


class ColonnadeError(Exception):
    """Base class of all errors of this library. `facts` holds the facts of the message by name."""

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
    """Restore a pickled error, whatever arguments its constructor takes."""
    error = kind.__new__(kind, message)
    ColonnadeError.__init__(error, message, **facts)
    return error


class UsageError(ColonnadeError, ValueError):
    """The request cannot be carried out as given."""


class _NotFoundError(UsageError, KeyError):
    """A name that does not exist, with the most similar names that do."""

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
    """There is no column of this name. The message lists the most similar names."""

    def __init__(self, name: str, where: str, known: Iterable[str]) -> None:
        super().__init__("column", name, where, known)


class TableNotFound(_NotFoundError):
    """There is no table at this path. The message lists the most similar paths."""

    def __init__(self, name: str, where: str, known: Iterable[str]) -> None:
        super().__init__("table", name, where, known)


class PredicateError(UsageError):
    """A predicate that cannot be parsed or does not fit its columns. Facts: text, position, column where known."""


class DataError(UsageError):
    """The given rows do not fit. Facts: column, row, value where they are known."""


class FormatError(ColonnadeError):
    """The file breaks its own rules. Facts: path, rule."""


class CorruptError(FormatError):
    """The bytes do not match what they claim to be. Facts: path, row or offset, expected, found."""


class UnsupportedError(ColonnadeError):
    """The file is valid, but this library does not support it yet. Facts: feature, path."""


class ConflictError(ColonnadeError, OSError):
    """The file is read-only, locked, or was changed by someone else."""


@contextmanager
def rows_as(row_of: Callable[[int], int]) -> Iterator[None]:
    """Re-raise errors about a row of a part with the row number that `row_of` returns for it."""
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
    """Up to three of `known` that are similar to `name`, ignoring case."""
    from difflib import get_close_matches

    by_key: dict[str, str] = {}
    for candidate in known:
        by_key.setdefault(candidate.casefold(), candidate)
    return [by_key[key] for key in get_close_matches(name.casefold(), by_key, n=3, cutoff=0.55)]
