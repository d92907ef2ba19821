"""The tokens of predicates and expressions in text: names, values and signs, each with its position."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Literal, NamedTuple

from colonnade.errors import PredicateError
from colonnade.predicate.literals import MAX_DIGITS, has_too_many_digits


def refusal(text: str, position: int, reason: str) -> PredicateError:
    return PredicateError(reason, text=text, position=position)


class Token(NamedTuple):
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

    @property
    def ends_operand(self) -> bool:
        """Whether a column, a value, or what stands in parentheses ends with it."""
        return self.word in (")", "]") or (self.kind not in ("sign", "end") and self.word not in JOINING_WORDS)


_NUMBER = re.compile(r"([+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|nan)))([\w.]?)")
_SIGN = re.compile(r"[=!<>]=|<>|&&|\|\||//|\*\*|.", re.DOTALL)
_SIGNS = "=!<>&|~()[],*/%"
JOINING_WORDS = ("and", "or", "not", "in", "between", "is", "like", "startswith", "contains")
_SPACE = re.compile(r"\s*")


def tokens_of(text: str) -> list[Token]:
    """The tokens of a string. A sign before digits is part of the number, unless it follows an operand."""
    tokens: list[Token] = []
    at = _skip_space(text, 0)
    while at < len(text):
        tokens.append(_token(text, at, bool(tokens) and tokens[-1].ends_operand))
        at = _skip_space(text, tokens[-1].end)
    return [*tokens, Token("end", "", None, len(text), len(text))]


def _skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _token(text: str, at: int, is_after_operand: bool) -> Token:
    char = text[at]
    if char in _SIGNS or (is_after_operand and char in "+-"):
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
        return Token("name", text[at:end].lower(), text[at:end], at, end)
    return _number(text, at) or _sign(text, at)


def _sign(text: str, at: int) -> Token:
    """Any sign, even an invalid one: the parser can then report what was expected there."""
    match = _SIGN.match(text, at)
    sign = match.group() if match else text[at]
    return Token("sign", sign, sign, at, at + len(sign))


def _name_end(text: str, at: int) -> int:
    """The end of the name that begins here: an identifier, or several joined by dots."""
    while _goes_on(text[at : at + 1]) or (text[at : at + 1] == "." and text[at + 1 : at + 2].isidentifier()):
        at += 1
    return at


def _goes_on(char: str) -> bool:
    return char != "" and f"_{char}".isidentifier()


def _quoted(text: str, at: int, kind: Literal["value", "double quotes", "backticks"], what: str) -> Token:
    """A quoted token; quotes inside it are doubled."""
    quote = text[at]
    end = text.find(quote, at + 1)
    while end >= 0 and text.startswith(quote, end + 1):
        end = text.find(quote, end + 2)
    if end < 0:
        message = f"found a {what} without end, expected {quote} to close it (inside, {quote} is written {quote * 2})"
        raise refusal(text, at, message)
    return Token(kind, "", text[at + 1 : end].replace(quote * 2, quote), at, end + 1)


def _bytes(text: str, at: int) -> Token:
    token = _quoted(text, at + 1, "value", "byte string")
    try:
        return Token("value", "", bytes.fromhex(token.text), at, token.end)
    except ValueError:
        message = f"found {shortened(text[at : token.end])}, expected bytes as pairs of hex digits, as in x'00ff'"
        raise refusal(text, at, message) from None


def _number(text: str, at: int) -> Token | None:
    match = _NUMBER.match(text, at)
    if match is None:
        return None
    digits, more, end = match[1], match[2], match.end(1)
    if more:
        advice = "; a column name that begins with a digit needs backticks" if text[at].isdigit() else ""
        raise refusal(text, at, f"found {shortened(text[at : _name_end(text, end + 1)])}, expected a number{advice}")
    value = _whole_number(text, at, end) if digits.lstrip("+-").isdigit() else _float(text, at, end)
    return Token("value", "", value, at, end)


def _whole_number(text: str, at: int, end: int) -> int:
    if end - at > MAX_DIGITS:  # a sign counts as a digit: no column has nearly that many
        raise refusal(text, at, f"found an integer of {end - at} characters, expected one that a column can hold")
    return int(text[at:end])


def _float(text: str, at: int, end: int) -> float | Decimal:
    """The number as a float, or as a Decimal where a float would lose digits."""
    digits = text[at:end]
    value = float(digits) if len(digits) <= 2 * MAX_DIGITS else 0.0
    if math.isinf(value) and "inf" not in digits.lower():
        raise refusal(
            text, at, f"found {shortened(digits)}, expected a number that a float can hold; write inf for infinity"
        )
    exact = _decimal(digits)
    if exact is None:
        message = (
            f"found {shortened(digits)}, expected a number of at most {MAX_DIGITS} digits before and after the point"
        )
        raise refusal(text, at, message)
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


def shortened(text: str, most: int = 40) -> str:
    return repr(text if len(text) <= most else text[: most - 3] + "...")
