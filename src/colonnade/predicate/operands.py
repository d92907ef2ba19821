"""Operands in text: columns, values, and what is computed from them: `round(dx / dt, 2)`.

    operand   = power, joined with * / // % (which bind more) and + - (which bind less), from left to right
    power     = -* primary [** power]
    primary   = column | value | function(operand, ...) | ( operand )
    column    = name | a.b | `any name` | "any name", then ['field'] for each field of a struct column

Operators and what they wait for are in lists, so deep nesting cannot overflow the stack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from colonnade.errors import PredicateError, nearest_names
from colonnade.predicate.expressions import (
    OTHER_NAMES,
    SCALAR_FUNCTIONS,
    ColumnTerm,
    LiteralTerm,
    Term,
    called,
    subject_of,
    subject_text,
)
from colonnade.predicate.literals import WORDS, name_text
from colonnade.predicate.tokens import Token, refusal, shortened, tokens_of

MAX_PREDICATE_DEPTH = 50  # of parentheses and nots around a leaf: str(), pickle and others recurse: limits their stack


class TextPositions:
    """Where the parts of a predicate were in its text."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[object, int]] = {}  # keeps the parts, so that no other object gets their ids

    def note(self, part: object, position: int) -> None:
        """Remember the position of a part that has none yet."""
        self._by_id.setdefault(id(part), (part, position))

    def of(self, part: object) -> int | None:
        """The position of a part; None if it was not in the text."""
        return self._by_id.get(id(part), (None, None))[1]


BINARY_SIGNS = {"+": 2, "-": 2, "*": 3, "/": 3, "//": 3, "%": 3, "**": 5}
_MINUS = 4
_WAITING = {"(": 0, "function": 0}
VALUE_WORDS: dict[str, bool | float] = {"true": True, "false": False, "nan": math.nan, "inf": math.inf}
MISSING_WORDS = ("missing", "null", "none")


class Operand(NamedTuple):
    """An operand that was read, and its first and last token."""

    term: Term
    first: Token
    last: Token

    @property
    def is_value(self) -> bool:
        return isinstance(self.term, LiteralTerm)


class Waiting(NamedTuple):
    """An operator, a function or a parenthesis that waits for its operands; `n_before` values were read before it."""

    sign: str
    strength: int
    token: Token
    n_before: int = 0


class OperandReader:
    """Reads tokens from left to right; `operand` reads one operand."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens_of(text)
        self.at = 0
        self.positions = TextPositions()

    # what is next

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
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

    def error(self, token: Token, expected: str) -> PredicateError:
        shown = "the end of the text" if token.kind == "end" else shortened(self.text[token.start : token.end])
        return refusal(self.text, token.start, f"found {shown}, expected {expected}")

    # operands

    def is_column(self, token: Token) -> bool:
        return token.kind in ("backticks", "double quotes") or (token.kind == "name" and token.word not in WORDS)

    def is_function(self, token: Token) -> bool:
        """Whether a token, which is the next one, is the name of a function: a name before a parenthesis."""
        return token.kind == "name" and token.word not in WORDS and self.tokens[self.at + 1].word == "("

    def operand(self, expected: str, quoted_is_text: bool = False) -> Operand:
        """The operand that begins here. quoted_is_text: whether something in double quotes alone is a value."""
        first, terms, waiting = self.next, list[Term](), list[Waiting]()
        needs_primary = True
        while True:
            token = self.next
            if needs_primary:
                if self.opens(token, waiting, len(terms)):
                    continue
                terms.append(self.primary(expected, quoted_is_text and not waiting))
                needs_primary = False
                continue
            if token.word in BINARY_SIGNS:
                strength = BINARY_SIGNS[token.word]
                self.close(terms, waiting, strength + (token.word == "**"))
                waiting.append(Waiting(token.word, strength, self.take()))
                needs_primary = True
            elif any(opened.sign in _WAITING for opened in waiting) and token.word in (")", ","):
                self.close(terms, waiting, 1)
                needs_primary = self.close_parenthesis(terms, waiting)
            else:
                break
        self.close(terms, waiting, 1)
        if waiting:
            raise self.error(token, "an operator, or )" if token.kind != "end" else ") to close the parenthesis")
        return Operand(terms[0], first, self.tokens[self.at - 1])

    def opens(self, token: Token, waiting: list[Waiting], n_before: int) -> bool:
        """Take what may stand before a primary: signs, functions and parentheses."""
        if token.word == "-":
            waiting.append(Waiting("neg", _MINUS, self.take()))
        elif token.word == "+":
            self.take()
        elif token.word == "(":
            waiting.append(Waiting("(", 0, self.take(), n_before))
        elif self.is_function(token):
            if OTHER_NAMES.get(token.word, token.word) not in SCALAR_FUNCTIONS:
                raise self.unknown_function(token)
            waiting.append(Waiting("function", 0, self.take(), n_before))
            self.take()
        else:
            return False
        if len(waiting) > MAX_PREDICATE_DEPTH:
            raise self.error(token, f"no more than {MAX_PREDICATE_DEPTH} parentheses and signs inside each other")
        return True

    def unknown_function(self, token: Token) -> PredicateError:
        known = (
            *SCALAR_FUNCTIONS,
            *OTHER_NAMES,
            "startswith",
            "contains",
            "matches",
            "is_missing",
            "is_nan",
            "any",
            "all",
        )
        return self.error(token, f"a function ({', '.join(nearest_names(token.word, known) or known)})")

    def close(self, terms: list[Term], waiting: list[Waiting], least: int) -> None:
        """Apply the operators that bind at least this strongly to the values that were read."""
        while waiting and waiting[-1].strength >= least:
            operator = waiting.pop()
            n = 1 if operator.sign == "neg" else 2
            arguments, terms[-n:] = terms[-n:], []
            terms.append(self.call(operator.sign, arguments, operator.token))

    def close_parenthesis(self, terms: list[Term], waiting: list[Waiting]) -> bool:
        """Take a comma or a closing parenthesis; returns whether another argument follows."""
        opened = waiting[-1]
        if self.next.word == ",":
            if opened.sign != "function":
                raise self.error(self.next, "an operator, or )")
            self.take()
            return True
        self.take()
        waiting.pop()
        if opened.sign == "function":
            arguments, terms[opened.n_before :] = terms[opened.n_before :], []
            function = OTHER_NAMES.get(opened.token.word, opened.token.word)
            terms.append(self.call(function, arguments, opened.token))
        return False

    def call(self, function: str, arguments: Sequence[Term], token: Token) -> Term:
        try:
            term = called(function, *arguments)
        except PredicateError as error:
            error.text, error.position = self.text, token.start
            raise
        self.positions.note(term, token.start)
        return term

    def primary(self, expected: str, quoted_is_text: bool) -> Term:
        """A column or a value."""
        token = self.next
        if (
            token.kind == "double quotes"
            and quoted_is_text
            and self.tokens[self.at + 1].word not in (*BINARY_SIGNS, "[")
        ):
            return self.literal_term(self.take())
        if self.is_column(token):
            return self.column_term()
        if token.kind == "value" or token.word in VALUE_WORDS:
            return self.literal_term(self.take())
        raise self.error(token, expected + unless_column(token))

    def column_term(self) -> Term:
        """A column and the fields after it."""
        token = self.take()
        fields: list[str] = []
        while self.next.word == "[":
            self.take()
            if self.next.kind not in ("value", "double quotes") or not isinstance(self.next.value, str):
                raise self.error(self.next, "the name of a field in quotes")
            fields.append(self.take().text)
            self.require("]")
        term = ColumnTerm(token.text, tuple(fields))
        self.positions.note(term, token.start)
        return term

    def literal_term(self, token: Token) -> Term:
        value = VALUE_WORDS[token.word] if token.kind == "name" else token.value
        is_negative = isinstance(value, (int, float)) and self.text[token.start] == "-"
        if is_negative and self.next.word == "**":
            raise self.error(self.next, "parentheses around the negative number, or around the power")
        term = LiteralTerm(value)
        self.positions.note(term, token.start)
        return term

    def refuse_missing(self, token: Token, term: Term) -> NoReturn:
        """Refuse a comparison with a missing value."""
        name = subject_text(subject_of(term))
        raise self.error(
            token, f"a value: nothing equals a missing value; ask with {name} is missing, {name} is not missing"
        )


def unless_column(token: Token) -> str:
    """Advice for a keyword found where a column was expected."""
    return f"; if {token.value} is a column, write {name_text(token.text)}" if token.word in WORDS else ""
