"""Every error colonnade raises, grouped by who must act.

    ColonnadeError
    ├─ UsageError (ValueError)           the request cannot be carried out
    │  ├─ ColumnNotFound (KeyError)      names the nearest columns
    │  ├─ TableNotFound (KeyError)       names the nearest tables
    │  ├─ RowNotFound (IndexError)       the row, and how many there are
    │  ├─ PredicateError                 an invalid predicate: text and position
    │  │  └─ UnknownColumn               it names a column that does not exist; also a ColumnNotFound
    │  └─ DataError                      the given rows do not fit: column, row, value
    ├─ FormatError                       the file breaks its own rules
    │  └─ CorruptError                   the bytes do not match what they claim to be
    ├─ UnsupportedError                  the file is valid, but not supported yet
    └─ ConflictError (OSError)           read-only, locked, or changed meanwhile

A message states what is wrong, where (file, object, byte or row), which rule, and what to do. Each class has fields
with the same facts (None where they are not known), so programs do not need to parse messages.

`str(error)` renders the message from `reason` and the fields. The reason of a DataError or a CorruptError does not
repeat its path, column and row: whoever learns them later sets the fields, and the message follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager


class ColonnadeError(Exception):
    """Base class of all errors of this library."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason

    def __reduce__(self) -> tuple[object, ...]:
        return (_restore, (type(self), self.args, self.__dict__))


def _restore(kind: type[ColonnadeError], args: tuple[object, ...], fields: dict[str, object]) -> ColonnadeError:
    """The error that was pickled, whatever arguments its constructor takes."""
    error = kind.__new__(kind, *args)
    error.args = args  # which __new__ of OSError leaves out
    error.__dict__.update(fields)
    return error


class UsageError(ColonnadeError, ValueError):
    """The request cannot be carried out as given."""

    def __init__(
        self,
        reason: str,
        *,
        path: str | None = None,
        column: str | None = None,
        option: str | None = None,
        attribute: str | None = None,
        filter: str | None = None,  # noqa: A002 - the name of the field
        function: str | None = None,
        kind: str | None = None,
        type: str | None = None,  # noqa: A002 - the name of the field
        rule: str | None = None,
        tables: Sequence[str] = (),
    ) -> None:
        super().__init__(reason)
        self.path = path
        self.column = column
        self.option = option
        self.attribute = attribute
        self.filter = filter
        self.function = function
        """An aggregate function."""
        self.kind = kind
        """A kind of index."""
        self.type = type
        self.rule = rule
        self.tables = tables
        """The tables to choose from."""


class _NotFoundError(UsageError, KeyError):
    """A name that does not exist, with the most similar names that do."""

    def __init__(self, what: str, name: str, where: str, known: Iterable[str]) -> None:
        names = list(known)
        nearest = nearest_names(name, names)
        if nearest:
            advice = "Nearest: " + ", ".join(repr(n) for n in nearest) + "."
        elif names:
            shown = ", ".join(repr(n) for n in names[:8])
            advice = f"There are: {shown}{', ...' if len(names) > 8 else ''}."
        else:
            advice = f"It holds no {what}s."
        super().__init__(f"no {what} {name!r} in {where}. {advice}")
        self.name = name
        self.where = where
        self.nearest = nearest


class ColumnNotFound(_NotFoundError):
    """There is no column of this name. The message lists the most similar names."""

    def __init__(self, name: str, where: str, known: Iterable[str]) -> None:
        super().__init__("column", name, where, known)


class TableNotFound(_NotFoundError):
    """There is no table at this path. The message lists the most similar paths."""

    def __init__(self, name: str, where: str, known: Iterable[str]) -> None:
        super().__init__("table", name, where, known)


class RowNotFound(UsageError, IndexError):
    """There is no row of this number."""

    def __init__(self, row: int, n_rows: int) -> None:
        super().__init__(f"there is no row {row}: there {'is' if n_rows == 1 else 'are'} {n_rows:,}")
        self.row = row
        self.n_rows = n_rows


class PredicateError(UsageError):
    """A predicate that cannot be parsed or does not fit its columns.

    With `text` and `position`, the message shows the text with a mark under the position.
    """

    def __init__(
        self,
        reason: str,
        *,
        column: str | None = None,
        text: str | None = None,
        position: int | None = None,
        part: object = None,
    ) -> None:
        super().__init__(reason, column=column)
        self.text = text
        self.position = position
        self.part = part
        """The part of the predicate that the error is about."""

    def __str__(self) -> str:
        if self.text is None or self.position is None:
            return self.reason
        shown, mark = _excerpt(self.text, self.position)
        return f"{_printable(self.reason)}\n  {shown}\n  {mark}"


class UnknownColumn(ColumnNotFound, PredicateError):
    """A predicate or an expression names a column that does not exist: its text and position, and similar names."""


class DataError(UsageError):
    """The given rows do not fit. The message begins with the path, batch, column and row, where they are known."""

    def __init__(
        self,
        reason: str,
        *,
        path: str | None = None,
        batch: int | None = None,
        column: str | None = None,
        row: int | None = None,
        value: object = None,
        type: str | None = None,  # noqa: A002 - the name of the field
        attribute: str | None = None,
        rule: str | None = None,
        columns: Sequence[str] = (),
        lengths: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(reason, path=path, column=column, type=type, attribute=attribute, rule=rule)
        self.batch = batch
        self.row = row
        self.value = value
        self.columns = columns
        """The names that more than one column has."""
        self.lengths = lengths
        """The number of rows of each column, where the numbers differ."""

    def __str__(self) -> str:
        batch = None if self.batch is None else f"batch {self.batch}"
        return _at(self.path, batch, _column(self.column), _rows(self.row)) + self.reason


class FormatError(ColonnadeError):
    """The file breaks its own rules."""

    def __init__(
        self, reason: str, *, path: str | None = None, column: str | None = None, rule: str | None = None
    ) -> None:
        super().__init__(reason)
        self.path = path
        self.column = column
        self.rule = rule


class CorruptError(FormatError):
    """The bytes do not match what they claim to be.

    The message begins with the path, column and row (or rows, to `last_row`), where they are known, and ends with
    the `advice`.
    """

    def __init__(
        self,
        reason: str,
        *,
        path: str | None = None,
        column: str | None = None,
        row: int | None = None,
        last_row: int | None = None,
        offset: int | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        super().__init__(reason, path=path, column=column)
        self.row = row
        self.last_row = last_row
        self.offset = offset
        self.expected = expected
        self.found = found
        self.advice: str | None = None

    def __str__(self) -> str:
        advice = "" if self.advice is None else f". {self.advice}"
        return _at(self.path, _column(self.column), _rows(self.row, self.last_row)) + self.reason + advice


class UnsupportedError(ColonnadeError):
    """The file is valid, but this library does not support it yet."""

    def __init__(
        self,
        reason: str,
        *,
        feature: str | None = None,
        path: str | None = None,
        column: str | None = None,
        target: str | None = None,
        rule: str | None = None,
        found: object = None,
        supported: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__(reason)
        self.feature = feature
        self.path = path
        self.column = column
        self.target = target
        """What a link leads to, where links are not followed."""
        self.rule = rule
        self.found = found
        """The version of the file, where `supported` are those that can be read."""
        self.supported = supported


class ConflictError(ColonnadeError, OSError):
    """The file is read-only, locked, or was changed by someone else."""

    def __init__(
        self,
        reason: str,
        *,
        path: str | None = None,
        holder: Mapping[str, object] | None = None,
        journal: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.path = path
        self.holder = holder
        """The process that holds the lock, as its lock file describes it."""
        self.journal = journal
        """The name of the journal that is missing."""


@contextmanager
def rows_as(row_of: Callable[[int], int]) -> Iterator[None]:
    """Give errors about a row of a part the row number that `row_of` returns for it."""
    try:
        yield
    except (DataError, CorruptError) as error:
        if error.row is not None:
            error.row = row_of(error.row)
        raise


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Up to three of `known` that are similar to `name`, ignoring case."""
    from difflib import get_close_matches

    by_key: dict[str, str] = {}
    for candidate in known:
        by_key.setdefault(candidate.casefold(), candidate)
    return [by_key[key] for key in get_close_matches(name.casefold(), by_key, n=3, cutoff=0.55)]


# -- parts of messages --


def _at(*places: str | None) -> str:
    """The beginning of a message that names these places."""
    known = [place for place in places if place]
    return ", ".join(known) + ": " if known else ""


def _column(name: str | None) -> str | None:
    return None if name is None else f"column {name!r}"


def _rows(first: int | None, last: int | None = None) -> str | None:
    if first is None:
        return None
    return f"row {first}" if last is None else f"rows {first} to {last}"


def _excerpt(text: str, position: int, around: int = 36) -> tuple[str, str]:
    """The text near the position on one line, and the line below it with the marker."""
    first, last = max(0, position - around), position + around
    before = ("..." if first else "") + _printable(text[first:position])
    after = _printable(text[position:last]) + ("..." if last < len(text) else "")
    return before + after, " " * sum(map(_width, before)) + "^"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _width(char: str) -> int:
    """The number of terminal columns that a character takes."""
    import unicodedata

    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
