"""Predicates and expressions from strings: `parse("10 <= ts < 20 and label in ('muon', 'pion')")`, `expr("dx / dt")`.

    whole       = joined with or; each part joined with and; each part of that: not* leaf | not* ( whole )
    leaf        = column | comparison | operand [not] test | function
    comparison  = operand == operand | value <= operand < value ...            == != < <= > >=, = and <>
    test        = in (value, ...) | between value and value | like text | matches text | startswith text
                | contains value | is [not] missing | is [not] nan                          null and none: missing
    function    = startswith(operand, text) | contains(operand, value) | matches(operand, text)
                | is_missing(operand) | is_nan(operand)
                | any(whole) | all(whole)                                of the elements of a list column
    operand     = column | value | what is computed from them: see `predicate.operands` | ( whole )      its truth
    column      = name | a.b | `any name` | "any name"
    value       = 1 | -1.5e3 | nan | inf | true | false | 'text' | "text" | x'00ff'    a quote inside is doubled

Keywords are case-insensitive; `&`, `|` and `~` (also `&&`, `||`, `!`) mean and, or, not, with the same precedence.
Double quotes delimit a column name where a column is allowed (left of an operator, or right of one with a value on its
left), and a string where a value is required. A column by itself tests whether it is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TypeVar

from colonnade.dataclass import dataclass
from colonnade.errors import PredicateError
from colonnade.predicate.columns import Expression
from colonnade.predicate.expressions import ColumnTerm, Operator, Subject, Term, columns_in, subject_of, subject_text
from colonnade.predicate.operands import (
    BINARY_SIGNS,
    MAX_PREDICATE_DEPTH,
    MISSING_WORDS,
    VALUE_WORDS,
    Operand,
    OperandReader,
    TextPositions,
    Waiting,
    unless_column,
)
from colonnade.predicate.tokens import Token, refusal, shortened
from colonnade.predicate.tree import (
    And,
    Between,
    Compare,
    Contains,
    IsIn,
    IsMissing,
    IsNan,
    Leaf,
    Like,
    Matches,
    Not,
    Or,
    Predicate,
    StartsWith,
    TruthTerm,
    compared,
)

_OF_ELEMENTS = ("any", "all")
_AND, _OR, _NOT = ("and", "&", "&&"), ("or", "|", "||"), ("not", "~", "!")
_COMPARISONS: dict[str, Operator] = {
    "==": "==", "=": "==", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
_OF_PREDICATES = (*_AND, *_OR, *_NOT, *_COMPARISONS, "is", "in", "between", "like", "startswith", "contains", "matches")
_COMPARISON = "a comparison (== != < <= > >=, in, between, is, like, startswith, contains, matches)"

Text = TypeVar("Text", bound=str | bytes)


def parse(text: str) -> Predicate:
    """Parse a predicate. An error shows the string, with a marker under the position of the error."""
    return parse_with_positions(text)[0]


def parse_with_positions(text: str) -> tuple[Predicate, TextPositions]:
    """Parse a predicate. Also returns where its parts were in the text."""
    if not isinstance(text, str):
        raise PredicateError(f"a predicate is parsed from a string, not from {text!r}")
    if not text.strip():
        raise refusal(text, 0, "found an empty string, expected a predicate, as in x > 3")
    parser = _Parser(text)
    return parser.whole(), parser.positions


def expr(text: str) -> Expression:
    """An expression from a string: columns, values, `+ - * / // % **`, parentheses and functions. The value of a
    predicate, such as "dx > 3", is a boolean.

    >>> cn.write("run.h5", {"dx": [1.0, 9.0], "dt": [2, 3]}, "steps")
    >>> t = cn.open_table("run.h5", "steps")
    >>> t.select(speed=cn.expr("round(dx / dt, 1)")).to_numpy()
    {'speed': array([0.5, 3. ])}
    """
    return expression_with_positions(text)[0]


def expression_with_positions(text: str) -> tuple[Expression, TextPositions]:
    """Parse an expression. Also returns where its parts were in the text."""
    if not isinstance(text, str):
        raise PredicateError(f"an expression is parsed from a string, not from {text!r}")
    reader = _Parser(text)
    try:
        term = reader.operand("a column, a value, a function or (").term
        if reader.next.kind != "end":
            raise reader.error(reader.next, "an operator (+ - * / // % **), or the end of the text")
    except PredicateError:
        if not any(token.word in (*_OF_PREDICATES, *_FUNCTIONS, *_OF_ELEMENTS) for token in reader.tokens):
            raise
        predicate, positions = parse_with_positions(text)
        return Expression(TruthTerm(predicate)), positions
    if not any(True for _ in columns_in(term)):
        raise refusal(text, 0, f"found {shortened(text)}, expected an expression with a column")
    return Expression(term), reader.positions


@contextmanager
def showing_position(text: str, positions: TextPositions | None) -> Iterator[None]:
    """Give errors about a part of a predicate or an expression that was parsed its position in the text."""
    try:
        yield
    except PredicateError as error:
        position = None if positions is None else positions.of(error.part)
        if position is not None:
            error.text, error.position = text, position
        raise


@dataclass(slots=True)
class _Group:
    """What was read since a parenthesis opened: parts joined with `or`; the last one still collects its `and`s."""

    opened: Token | None
    of_elements: Token | None = None  # the word any or all before the parenthesis
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


class _Parser(OperandReader):
    """Reads tokens from left to right. Open parentheses are in a list, so deep nesting cannot overflow the stack."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.groups = [_Group(None)]
        self.depth = 0  # of what is around these groups, when a predicate is an operand
        self.closed_by = _pairs(self.tokens)

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
        while self.next.word in _NOT or self.opens_elements() or (self.next.word == "(" and not self.opens_operand()):
            token = self.take()
            self.check_depth(token)
            if token.word == "(":
                self.groups.append(_Group(token))
            elif token.word in _OF_ELEMENTS:
                self.groups.append(_Group(self.take(), token))
            else:
                self.groups[-1].nots += 1
        start = self.next.start
        leaf = self.leaf()
        for part in leaf.leaves():
            self.positions.note(part, start)
        self.groups[-1].add(leaf)

    def opens_elements(self) -> bool:
        """Whether a test of the elements of lists begins here: any or all, and a parenthesis."""
        return self.is_function(self.next) and self.next.word in _OF_ELEMENTS

    def opens_operand(self) -> bool:
        """Whether the parenthesis that is next belongs to an operand: by what follows the one that closes it."""
        closing = self.closed_by.get(self.at)
        if closing is None:
            return False
        word = self.tokens[closing + 1].word
        return word in BINARY_SIGNS or word in _COMPARISONS or word in _TESTS or word in ("is", "not")

    def holds_test(self) -> bool:
        """Whether the parenthesis that is next holds a predicate, such as `e > 3`, and not an operand."""
        closing, at = self.closed_by.get(self.at, 0), self.at + 1
        while at < closing:
            word = self.tokens[at].word
            opens = self.tokens[at + 1].word == "("
            if word in _OF_PREDICATES or (opens and (word in _OF_ELEMENTS or word in _FUNCTIONS)):
                return True
            at = self.closed_by[at] + 1 if word == "(" else at + 1
        return False

    def opens(self, token: Token, waiting: list[Waiting], n_before: int) -> bool:
        is_test = token.word == "(" and self.holds_test()
        return False if is_test else super().opens(token, waiting, n_before)

    def primary(self, expected: str, quoted_is_text: bool) -> Term:
        return self.truth() if self.next.word == "(" else super().primary(expected, quoted_is_text)

    def truth(self) -> Term:
        """A predicate in parentheses, whose truth is an operand: `(e > 3) is missing`."""
        around, closing = self.groups, self.closed_by[self.at]
        self.check_depth(self.next)
        opened = self.take()
        self.groups, self.depth = [_Group(opened)], self.depth + sum(1 + group.nots for group in around)
        while True:
            self.read_part()
            while self.at != closing and self.accept(")"):
                self.close_group()
            if self.at == closing:
                break
            self.read_joint()
        self.take()
        term = TruthTerm(self.groups.pop().whole())
        self.groups, self.depth = around, self.depth - sum(1 + group.nots for group in around)
        self.positions.note(term, opened.start)
        return term

    def check_depth(self, token: Token) -> None:
        if self.depth + sum(1 + group.nots for group in self.groups) > MAX_PREDICATE_DEPTH:
            raise self.error(token, f"no more than {MAX_PREDICATE_DEPTH} parentheses and nots inside each other")

    def close_group(self) -> None:
        if len(self.groups) == 1:
            self.at -= 1
            raise self.error(self.next, "and, or, or the end of the text: no parenthesis is open")
        group = self.groups.pop()
        token = group.of_elements
        if token is None:
            self.groups[-1].add(group.whole())
            return
        try:
            part = group.whole().any() if token.word == "any" else group.whole().all()
        except PredicateError as error:
            error.text, error.position = self.text, token.start
            raise
        self.positions.note(part, token.start)
        self.groups[-1].add(part)

    def read_joint(self) -> None:
        if self.accept(*_OR):
            self.groups[-1].end_of_ands()
        elif not self.accept(*_AND):
            raise self.error(
                self.next, "and, or, " + ("or the end of the text" if self.groups[-1].opened is None else "or )")
            )

    def read_end(self) -> Predicate:
        opened = self.groups[-1].opened
        if opened is not None:
            raise refusal(self.text, opened.start, "found a parenthesis without end, expected ) to close it")
        return self.groups[-1].whole()

    # leaves

    def leaf(self) -> Predicate:
        token = self.next
        if token.word in _FUNCTIONS and self.tokens[self.at + 1].word == "(":
            return self.function()
        if token.word in MISSING_WORDS:
            raise self.error(token, "a column or a value: nothing equals a missing value; ask with <column> is missing")
        left = self.operand("a column, a value, not or (")
        return self.value_first(left) if left.is_value else self.test(left)

    def test(self, left: Operand) -> Predicate:
        """The test that follows an operand; if there is none, a column by itself."""
        subject = subject_of(left.term)
        if self.next.word in _COMPARISONS:
            return self.comparisons(left)
        if self.accept("is"):
            return self.is_test(subject)
        negated = self.accept("not")
        if self.next.word in _TESTS:
            leaf = _TESTS[self.take().word](self, subject)
            return Not(leaf) if negated else leaf
        if negated:
            raise self.error(self.next, ", ".join(_TESTS) + " after not")
        is_end = self.next.kind == "end" or self.next.word in (*_AND, *_OR, ")")
        if not is_end or not isinstance(left.term, ColumnTerm):
            raise self.error(self.next, _COMPARISON + (", and, or, or the end of the text" if not is_end else ""))
        return Compare(subject, "==", True)

    def value_first(self, left: Operand) -> Predicate:
        """A comparison with a value on its left."""
        if self.next.word in _COMPARISONS:
            return self.comparisons(left)
        shown = self.text[left.first.start : left.last.end]
        if left.first.word in ("true", "false"):
            raise self.error(left.first, f"a predicate: {shown} by itself is not a condition; compare a column with it")
        if self.next.word in (*_TESTS, "is", "not"):
            raise self.error(left.first, f"a column before {self.next.word}")
        raise self.error(left.first, "a predicate: a value by itself is not a condition; compare a column with it")

    def comparisons(self, left: Operand) -> Predicate:
        """One comparison or a chain of them."""
        parts: list[Predicate] = []
        while self.next.word in _COMPARISONS:
            operator = _COMPARISONS[self.take().word]
            if self.next.word in MISSING_WORDS:
                self.refuse_missing(self.next, left.term)
            right = self.operand("a value or a column", quoted_is_text=not left.is_value)
            if left.is_value and right.is_value:
                raise self.error(right.first, "a column to compare the value with" + unless_column(right.first))
            parts.append(self.compared(left, operator, right))
            left = right
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def compared(self, left: Operand, operator: Operator, right: Operand) -> Leaf:
        try:
            leaf = compared(left.term, operator, right.term)
        except PredicateError as error:
            error.text, error.position = self.text, left.first.start
            raise
        self.positions.note(leaf, (right if left.is_value else left).first.start)
        self.positions.note(leaf.column, left.first.start)  # of a comparison of two expressions
        return leaf

    def is_test(self, subject: Subject) -> Predicate:
        negated = self.accept("not")
        if self.next.word not in (*MISSING_WORDS, "nan"):
            raise self.error(self.next, "missing (also null, none) or nan after is")
        leaf = IsNan(subject) if self.take().word == "nan" else IsMissing(subject)
        return Not(leaf) if negated else leaf

    def is_in(self, subject: Subject) -> Leaf:
        closing = {"(": ")", "[": "]"}.get(self.next.word)
        if closing is None:
            raise self.error(self.next, "( or [ and a list of values")
        self.take()
        values: list[object] = []
        while not self.accept(closing):
            values.append(self.value(subject, "in"))
            if self.next.word != closing and not self.accept(","):
                raise self.error(self.next, f", or {closing}")
        return IsIn(subject, tuple(values))

    def between(self, subject: Subject) -> Leaf:
        low = self.value(subject, "between")
        self.require("and")
        return Between(subject, low, self.value(subject, "between"))

    def like(self, subject: Subject) -> Leaf:
        return self.pattern(Like, subject, "like")

    def matches(self, subject: Subject) -> Leaf:
        return self.pattern(Matches, subject, "matches")

    def pattern(self, kind: type[Like] | type[Matches], subject: Subject, word: str) -> Leaf:
        start = self.next.start
        pattern = self.literal((str,), f"a string in quotes after {word}")
        try:
            return kind(subject, pattern)
        except PredicateError as error:
            error.text, error.position = self.text, start
            raise

    def startswith(self, subject: Subject) -> Leaf:
        return StartsWith(subject, self.literal((str, bytes), "a string in quotes after startswith"))

    def contains(self, subject: Subject) -> Leaf:
        return Contains(subject, self.value(subject, "contains"))

    def function(self) -> Leaf:
        """A test written as a function of an operand."""
        name = self.take().word
        self.require("(")
        operand = self.operand(f"a column in {name}(...)")
        if operand.is_value:
            raise self.error(operand.first, f"a column in {name}(...)")
        if name in _TESTS:
            self.require(",")
        leaf = _FUNCTIONS[name](self, subject_of(operand.term))
        self.require(")")
        return leaf

    # values

    def value(self, subject: Subject, word: str) -> object:
        """A value of a list or a range."""
        token = self.take()
        if token.kind in ("value", "double quotes"):
            return token.value
        if token.word in VALUE_WORDS:
            return VALUE_WORDS[token.word]
        if token.word in MISSING_WORDS:
            name = subject_text(subject)
            raise self.error(
                token, f"a value: nothing equals a missing value; ask with {name} is missing, {name} is not missing"
            )
        if token.kind in ("name", "backticks"):
            raise self.error(token, f"a value: text must be quoted; {word} takes values, not columns")
        raise self.error(token, "a value")

    def literal(self, kinds: tuple[type[Text], ...], expected: str) -> Text:
        token = self.take()
        if token.kind not in ("value", "double quotes") or not isinstance(token.value, kinds):
            raise self.error(token, expected)
        return token.value


def _pairs(tokens: list[Token]) -> dict[int, int]:
    """For each opening parenthesis that is closed, the position of the token that closes it."""
    opened: list[int] = []
    pairs: dict[int, int] = {}
    for position, token in enumerate(tokens):
        if token.word == "(":
            opened.append(position)
        elif token.word == ")" and opened:
            pairs[opened.pop()] = position
    return pairs


_TESTS: dict[str, Callable[[_Parser, Subject], Leaf]] = {
    "in": _Parser.is_in,
    "between": _Parser.between,
    "like": _Parser.like,
    "startswith": _Parser.startswith,
    "contains": _Parser.contains,
    "matches": _Parser.matches,
}
_FUNCTIONS: dict[str, Callable[[_Parser, Subject], Leaf]] = {
    "startswith": _Parser.startswith,
    "contains": _Parser.contains,
    "matches": _Parser.matches,
    "is_missing": lambda _, subject: IsMissing(subject),
    "is_nan": lambda _, subject: IsNan(subject),
}
