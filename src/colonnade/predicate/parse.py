"""Predicates from strings: `parse("10 <= ts < 20 and label in ('muon', 'pion')")`.

    whole       = joined with or; each part joined with and; each part of that: not* leaf | not* ( whole )
    leaf        = column | comparison | column [not] test | function
    comparison  = column == value | value == column | value <= column < value ...      == != < <= > >=, = and <>
    test        = in (value, ...) | between value and value | like text | startswith text | contains text
                | is [not] missing | is [not] nan                                      null and none: missing
    function    = startswith(column, text) | contains(column, text) | is_missing(column) | is_nan(column)
    column      = name | a.b | `any name` | "any name"
    value       = 1 | -1.5e3 | nan | inf | true | false | 'text' | "text" | x'00ff'    a quote inside is doubled

Keywords are case-insensitive; `&`, `|` and `~` (also `&&`, `||`, `!`) mean and, or, not, with the same precedence.
Double quotes delimit a column name where a column is allowed (left of an operator, or right of one with a value on its
left), and a string where a value is required. A column by itself tests whether it is true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import field
from decimal import Decimal, InvalidOperation
from typing import Literal, NamedTuple, TypeVar

from colonnade.dataclass import dataclass
from colonnade.errors import PredicateError
from colonnade.predicate.tree import (
    MAX_DIGITS,
    WORDS,
    And,
    Between,
    Compare,
    Contains,
    IsIn,
    IsMissing,
    IsNan,
    Leaf,
    Like,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    has_too_many_digits,
    name_text,
)

MAX_PREDICATE_DEPTH = 50  # of parentheses and nots around a leaf: str(), pickle and others recurse: limits their stack

_AND, _OR, _NOT = ("and", "&", "&&"), ("or", "|", "||"), ("not", "~", "!")
_MISSING = ("missing", "null", "none")
_COMPARISONS: dict[str, Operator] = {
    "==": "==", "=": "==", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
_TURNED: dict[Operator, Operator] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_VALUES: dict[str, bool | float] = {"true": True, "false": False, "nan": math.nan, "inf": math.inf}
_COMPARISON = "a comparison (== != < <= > >=, in, between, is, like, startswith, contains)"


def parse(text: str) -> Predicate:
    """Parse a predicate. An error shows the string, with a marker under the position of the error."""
    if not isinstance(text, str):
        raise PredicateError(f"a predicate is parsed from a string, not from {text!r}")
    if not text.strip():
        raise _error(text, 0, "found an empty string, expected a predicate, as in x > 3")
    return _Parser(text).whole()


# -- errors --


def _error(text: str, position: int, reason: str) -> PredicateError:
    return PredicateError(reason, text=text, position=position)


# -- string to tokens --


Text = TypeVar("Text", bound=str | bytes)


class _Token(NamedTuple):
    """One token. `word` is the lower-case unquoted name, or the sign; it is empty for other tokens."""

    kind: Literal["name", "backticks", "double quotes", "value", "sign", "end"]
    word: str
    value: object
    start: int
    end: int

    @property
    def text(self) -> str:
        """The text of a name or of something quoted."""
        return str(self.value)


_NUMBER = re.compile(r"([+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|nan)))([\w.]?)")
_SIGN = re.compile(r"[=!<>]=|<>|&&|\|\||.", re.DOTALL)
_SIGNS = "=!<>&|~()[],"
_SPACE = re.compile(r"\s*")


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], _skip_space(text, 0)
    while at < len(text):
        tokens.append(_token(text, at))
        at = _skip_space(text, tokens[-1].end)
    return [*tokens, _Token("end", "", None, len(text), len(text))]


def _skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _token(text: str, at: int) -> _Token:
    char = text[at]
    if char in _SIGNS:
        return _sign(text, at)
    if char == "'":
        return _quoted(text, at, "value", "text")
    if char == '"':
        return _quoted(text, at, "double quotes", "text or name")
    if char == "`":
        return _quoted(text, at, "backticks", "name")
    if char in "xX" and text[at + 1 : at + 2] == "'":
        return _bytes(text, at)
    if char.isidentifier():
        end = _name_end(text, at)
        return _Token("name", text[at:end].lower(), text[at:end], at, end)
    return _number(text, at) or _sign(text, at)


def _sign(text: str, at: int) -> _Token:
    """Any sign, even an invalid one: the parser can then report what was expected there."""
    match = _SIGN.match(text, at)
    sign = match.group() if match else text[at]
    return _Token("sign", sign, sign, at, at + len(sign))


def _name_end(text: str, at: int) -> int:
    """The end of the name that begins here: an identifier, or several joined by dots."""
    while _goes_on(text[at : at + 1]) or (text[at : at + 1] == "." and text[at + 1 : at + 2].isidentifier()):
        at += 1
    return at


def _goes_on(char: str) -> bool:
    return char != "" and f"_{char}".isidentifier()


def _quoted(text: str, at: int, kind: Literal["value", "double quotes", "backticks"], what: str) -> _Token:
    """A quoted token; quotes inside it are doubled."""
    quote = text[at]
    end = text.find(quote, at + 1)
    while end >= 0 and text.startswith(quote, end + 1):
        end = text.find(quote, end + 2)
    if end < 0:
        message = f"found a {what} without end, expected {quote} to close it (inside, {quote} is written {quote * 2})"
        raise _error(text, at, message)
    return _Token(kind, "", text[at + 1 : end].replace(quote * 2, quote), at, end + 1)


def _bytes(text: str, at: int) -> _Token:
    token = _quoted(text, at + 1, "value", "byte string")
    try:
        return _Token("value", "", bytes.fromhex(token.text), at, token.end)
    except ValueError:
        message = f"found {_short(text[at : token.end])}, expected bytes as pairs of hex digits, as in x'00ff'"
        raise _error(text, at, message) from None


def _number(text: str, at: int) -> _Token | None:
    match = _NUMBER.match(text, at)
    if match is None:
        return None
    digits, more, end = match[1], match[2], match.end(1)
    if more:
        advice = "; a column name that begins with a digit needs backticks" if text[at].isdigit() else ""
        raise _error(text, at, f"found {_short(text[at : _name_end(text, end + 1)])}, expected a number{advice}")
    value = _whole_number(text, at, end) if digits.lstrip("+-").isdigit() else _float(text, at, end)
    return _Token("value", "", value, at, end)


def _whole_number(text: str, at: int, end: int) -> int:
    if end - at > MAX_DIGITS:  # a sign counts as a digit: no column has nearly that many
        raise _error(text, at, f"found an integer of {end - at} characters, expected one that a column can hold")
    return int(text[at:end])


def _float(text: str, at: int, end: int) -> float | Decimal:
    """The number as a float, or as a Decimal where a float would lose digits."""
    digits = text[at:end]
    value = float(digits) if len(digits) <= 2 * MAX_DIGITS else 0.0
    if math.isinf(value) and "inf" not in digits.lower():
        raise _error(
            text, at, f"found {_short(digits)}, expected a number that a float can hold; write inf for infinity"
        )
    exact = _decimal(digits)
    if exact is None:
        message = f"found {_short(digits)}, expected a number of at most {MAX_DIGITS} digits before and after the point"
        raise _error(text, at, message)
    return value if not exact.is_finite() or Decimal(repr(value)) == exact else exact


def _decimal(digits: str) -> Decimal | None:
    """The exact number; None if it has more digits than a predicate may have."""
    if len(digits) > 2 * MAX_DIGITS:
        return None
    try:
        exact = Decimal(digits)
    except InvalidOperation:  # the exponent is out of range for Decimal too
        return None
    return None if has_too_many_digits(exact) else exact


def _short(text: str, most: int = 40) -> str:
    return repr(text if len(text) <= most else text[: most - 3] + "...")


# -- tokens to a predicate --


@dataclass(slots=True)
class _Group:
    """What was read since a parenthesis opened: parts joined with `or`; the last one still collects its `and`s."""

    opened: _Token | None
    nots: int = 0  # read, and not yet applied to the part that follows
    ands: list[Predicate] = field(default_factory=list)
    ors: list[Predicate] = field(default_factory=list)

    def add(self, part: Predicate) -> None:
        for _ in range(self.nots):
            part = Not(part)
        self.nots = 0
        self.ands.append(part)

    def end_of_ands(self) -> None:
        self.ors.append(self.ands[0] if len(self.ands) == 1 else And(tuple(self.ands)))
        self.ands = []

    def whole(self) -> Predicate:
        self.end_of_ands()
        return self.ors[0] if len(self.ors) == 1 else Or(tuple(self.ors))


class _Parser:
    """Reads tokens from left to right. Open parentheses are in a list, so deep nesting cannot overflow the stack."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0
        self.groups = [_Group(None)]

    # what is next

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.tokens[self.at]
        self.at += token.kind != "end"
        return token

    def accept(self, *words: str) -> bool:
        """Consume the next token if it is one of these words."""
        if self.next.word not in words:
            return False
        self.at += 1
        return True

    def require(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.error(self.next, " or ".join(words))

    def error(self, token: _Token, expected: str) -> PredicateError:
        shown = "the end of the text" if token.kind == "end" else _short(self.text[token.start : token.end])
        return _error(self.text, token.start, f"found {shown}, expected {expected}")

    # or, and, not, parentheses

    def whole(self) -> Predicate:
        while True:
            self.read_part()
            while self.accept(")"):
                self.close_group()
            if self.next.kind == "end":
                return self.read_end()
            self.read_joint()

    def read_part(self) -> None:
        """A leaf, with the nots and parentheses that open before it."""
        while self.next.word in (*_NOT, "("):
            token = self.take()
            self.check_depth(token)
            if token.word == "(":
                self.groups.append(_Group(token))
            else:
                self.groups[-1].nots += 1
        self.groups[-1].add(self.leaf())

    def check_depth(self, token: _Token) -> None:
        if sum(1 + group.nots for group in self.groups) > MAX_PREDICATE_DEPTH:
            raise self.error(token, f"no more than {MAX_PREDICATE_DEPTH} parentheses and nots inside each other")

    def close_group(self) -> None:
        if len(self.groups) == 1:
            self.at -= 1
            raise self.error(self.next, "and, or, or the end of the text: no parenthesis is open")
        group = self.groups.pop()
        self.groups[-1].add(group.whole())

    def read_joint(self) -> None:
        if self.accept(*_OR):
            self.groups[-1].end_of_ands()
        elif not self.accept(*_AND):
            raise self.error(self.next, "and, or, " + ("or the end of the text" if len(self.groups) == 1 else "or )"))

    def read_end(self) -> Predicate:
        opened = self.groups[-1].opened
        if opened is not None:
            raise _error(self.text, opened.start, "found a parenthesis without end, expected ) to close it")
        return self.groups[-1].whole()

    # leaves

    def leaf(self) -> Predicate:
        token = self.next
        if token.word in _FUNCTIONS and self.tokens[self.at + 1].word == "(":
            return self.function()
        if self.is_column(token):
            return self.test(self.take())
        if token.kind == "value" or token.word in _VALUES:
            return self.value_first()
        if token.word in _MISSING:
            raise self.error(token, "a column or a value: nothing equals a missing value; ask with <column> is missing")
        raise self.error(token, "a column, a value, not or (" + _unless_column(token))

    def is_column(self, token: _Token) -> bool:
        return token.kind in ("backticks", "double quotes") or (token.kind == "name" and token.word not in WORDS)

    def test(self, column: _Token) -> Predicate:
        """The test that follows a column; if there is none, the column by itself."""
        if self.next.word in _COMPARISONS:
            return self.comparisons(column, column_is_left=True)
        if self.accept("is"):
            return self.is_test(column.text)
        negated = self.accept("not")
        if self.next.word in _TESTS:
            leaf = _TESTS[self.take().word](self, column.text)
            return Not(leaf) if negated else leaf
        if negated:
            raise self.error(self.next, ", ".join(_TESTS) + " after not")
        if self.next.kind != "end" and self.next.word not in (*_AND, *_OR, ")"):
            raise self.error(self.next, f"{_COMPARISON}, and, or, or the end of the text")
        return Compare(column.text, "==", True)

    def value_first(self) -> Predicate:
        """A comparison with a value on its left."""
        token = self.take()
        if self.next.word in _COMPARISONS:
            return self.comparisons(token, column_is_left=False)
        said = self.text[token.start : token.end]
        if token.word in ("true", "false"):
            raise self.error(token, f"a predicate: {said} by itself is not a condition; compare a column with it")
        if self.next.word in (*_TESTS, "is", "not"):
            raise self.error(token, f"a column before {self.next.word}")
        raise self.error(token, "a predicate: a value by itself is not a condition; compare a column with it")

    def comparisons(self, left: _Token, column_is_left: bool) -> Predicate:
        """One comparison or a chain of them, in which columns and values alternate."""
        parts = []
        while self.next.word in _COMPARISONS:
            operator = _COMPARISONS[self.take().word]
            if column_is_left:
                right = self.value_token(left.text)
                parts.append(Compare(left.text, operator, _value_of(right)))
            else:
                right = self.column("to compare the value with")
                parts.append(Compare(right.text, _TURNED[operator], _value_of(left)))
            left, column_is_left = right, not column_is_left
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def is_test(self, column: str) -> Predicate:
        negated = self.accept("not")
        if self.next.word not in (*_MISSING, "nan"):
            raise self.error(self.next, "missing (also null, none) or nan after is")
        leaf = IsNan(column) if self.take().word == "nan" else IsMissing(column)
        return Not(leaf) if negated else leaf

    def is_in(self, column: str) -> Leaf:
        closing = {"(": ")", "[": "]"}.get(self.next.word)
        if closing is None:
            raise self.error(self.next, "( or [ and a list of values")
        self.take()
        values: list[object] = []
        while not self.accept(closing):
            values.append(self.value(column))
            if self.next.word != closing and not self.accept(","):
                raise self.error(self.next, f", or {closing}")
        return IsIn(column, tuple(values))

    def between(self, column: str) -> Leaf:
        low = self.value(column)
        self.require("and")
        return Between(column, low, self.value(column))

    def like(self, column: str) -> Leaf:
        start = self.next.start
        pattern = self.literal((str,), "a string in quotes after like")
        try:
            return Like(column, pattern)
        except PredicateError as error:
            error.text, error.position = self.text, start
            raise

    def startswith(self, column: str) -> Leaf:
        return StartsWith(column, self.literal((str, bytes), "a string in quotes after startswith"))

    def contains(self, column: str) -> Leaf:
        return Contains(column, self.literal((str, bytes), "a string in quotes after contains"))

    def function(self) -> Leaf:
        """A test written as a function of the column."""
        name = self.take().word
        self.require("(")
        column = self.column(f"in {name}(...)").text
        if name in _TESTS:
            self.require(",")
        leaf = _FUNCTIONS[name](self, column)
        self.require(")")
        return leaf

    # columns and values

    def column(self, where: str) -> _Token:
        token = self.take()
        if not self.is_column(token):
            raise self.error(token, f"a column {where}" + _unless_column(token))
        return token

    def value(self, column: str) -> object:
        return _value_of(self.value_token(column))

    def value_token(self, column: str) -> _Token:
        token = self.take()
        if token.kind in ("value", "double quotes") or token.word in _VALUES:
            return token
        if token.word in _MISSING:
            name = name_text(column)
            raise self.error(
                token, f"a value: nothing equals a missing value; ask with {name} is missing, {name} is not missing"
            )
        if token.kind in ("name", "backticks"):
            raise self.error(
                token, "a value: text must be quoted; a column is compared with a value, not with another column"
            )
        raise self.error(token, "a value")

    def literal(self, kinds: tuple[type[Text], ...], expected: str) -> Text:
        token = self.take()
        if token.kind not in ("value", "double quotes") or not isinstance(token.value, kinds):
            raise self.error(token, expected)
        return token.value


def _value_of(token: _Token) -> object:
    return _VALUES[token.word] if token.kind == "name" else token.value


def _unless_column(token: _Token) -> str:
    """Advice for a keyword found where a column was expected."""
    return f"; if {token.value} is a column, write {name_text(token.text)}" if token.word in WORDS else ""


_TESTS: dict[str, Callable[[_Parser, str], Leaf]] = {
    "in": _Parser.is_in,
    "between": _Parser.between,
    "like": _Parser.like,
    "startswith": _Parser.startswith,
    "contains": _Parser.contains,
}
_FUNCTIONS: dict[str, Callable[[_Parser, str], Leaf]] = {
    "startswith": _Parser.startswith,
    "contains": _Parser.contains,
    "is_missing": lambda _, column: IsMissing(column),
    "is_nan": lambda _, column: IsNan(column),
}
