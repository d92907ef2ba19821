"""Text to predicates: every form of the grammar, every refusal with its place, and the way back through str()."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pickle
import sys
import time
from collections.abc import Callable
from datetime import date
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from colonnade.errors import PredicateError
from colonnade.predicate.expressions import columns_in, term_of
from colonnade.predicate.literals import WORDS
from colonnade.predicate.operands import MAX_PREDICATE_DEPTH
from colonnade.predicate.parse import parse
from colonnade.predicate.tree import (
    And,
    Between,
    Compare,
    Contains,
    IsIn,
    IsMissing,
    IsNan,
    Like,
    Not,
    Or,
    Predicate,
    StartsWith,
    TruthTerm,
)

A, B, C = Compare("a", "==", 1), Compare("b", "==", 2), Compare("c", "==", 3)
FLAG = Compare("flag", "==", True)


def refused(text: str) -> PredicateError:
    with pytest.raises(PredicateError) as caught:
        parse(text)
    assert caught.value.text == text
    return caught.value


# -- the grammar --


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a = 1 or b = 2 or c = 3", Or((A, B, C))),
        ("a = 1 and b = 2 and c = 3", And((A, B, C))),
        ("a = 1 and b = 2 or c = 3", Or((And((A, B)), C))),
        ("a = 1 or b = 2 and c = 3", Or((A, And((B, C))))),
        ("(a = 1 or b = 2) and c = 3", And((Or((A, B)), C))),
        ("a = 1 and (b = 2 and c = 3)", And((A, And((B, C))))),
        ("not a = 1 and b = 2", And((Not(A), B))),
        ("not (a = 1 and b = 2)", Not(And((A, B)))),
        ("not not a = 1", Not(Not(A))),
        ("not (not (a = 1))", Not(Not(A))),
        ("((a = 1))", A),
        ("(a = 1) and not (not b = 2 or (c = 3))", And((A, Not(Or((Not(B), C)))))),
        ("a = 1 & b = 2 | ~c = 3", Or((And((A, B)), Not(C)))),
        ("a = 1 && b = 2 || !c = 3", Or((And((A, B)), Not(C)))),
        ("(a == 1) & ~(b == 2)", And((A, Not(B)))),
        ("a=1&b=2|!c=3", Or((And((A, B)), Not(C)))),
        ("a=1 AND(b=2)Or NOT c=3", Or((And((A, B)), Not(C)))),
        ("\ta = 1\r\n\u00a0and b\u3000= 2 ", And((A, B))),
    ],
)
def test_joints(text: str, meant: Predicate) -> None:
    assert parse(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("x == 1", Compare("x", "==", 1)),
        ("x = 1", Compare("x", "==", 1)),
        ("x != 1", Compare("x", "!=", 1)),
        ("x <> 1", Compare("x", "!=", 1)),
        ("x < 1", Compare("x", "<", 1)),
        ("x <= 1", Compare("x", "<=", 1)),
        ("x > 1", Compare("x", ">", 1)),
        ("x >= 1", Compare("x", ">=", 1)),
        ("x<-1", Compare("x", "<", -1)),
        ("1 == x", Compare("x", "==", 1)),
        ("1 <> x", Compare("x", "!=", 1)),
        ("1 < x", Compare("x", ">", 1)),
        ("1 <= x", Compare("x", ">=", 1)),
        ("1 > x", Compare("x", "<", 1)),
        ("1 >= x", Compare("x", "<=", 1)),
        ("'a' = x", Compare("x", "==", "a")),
        ("true = flag", FLAG),
        ("10 <= ts < 20", And((Compare("ts", ">=", 10), Compare("ts", "<", 20)))),
        ("1 < x < 5 < y", And((Compare("x", ">", 1), Compare("x", "<", 5), Compare("y", ">", 5)))),
        ("x < 5 < y", And((Compare("x", "<", 5), Compare("y", ">", 5)))),
        ("not 1 < x < 5", Not(And((Compare("x", ">", 1), Compare("x", "<", 5))))),
    ],
)
def test_comparisons(text: str, meant: Predicate) -> None:
    assert parse(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("x in (1, 2)", IsIn("x", (1, 2))),
        ("x in [1, 'a', true]", IsIn("x", (1, "a", True))),
        ("x in ()", IsIn("x", ())),
        ("x in (1,)", IsIn("x", (1,))),
        ('x in ("a")', IsIn("x", ("a",))),
        ("x not in (1)", Not(IsIn("x", (1,)))),
        ("not x in (1)", Not(IsIn("x", (1,)))),
        ("x between 1 and 2", Between("x", 1, 2)),
        ("x between 1 and 2 and a = 1", And((Between("x", 1, 2), A))),
        ("x not between -1 and 2.5", Not(Between("x", -1, 2.5))),
        ("x is missing", IsMissing("x")),
        ("x IS NULL", IsMissing("x")),
        ("x is None", IsMissing("x")),
        ("x is not missing", Not(IsMissing("x"))),
        ("x is not null", Not(IsMissing("x"))),
        ("x is nan", IsNan("x")),
        ("x is not NaN", Not(IsNan("x"))),
        ("x like 'a%'", Like("x", "a%")),
        ("x not like 'a\\%'", Not(Like("x", "a\\%"))),
        ("x startswith 'ab'", StartsWith("x", "ab")),
        ("x not startswith \"ab\"", Not(StartsWith("x", "ab"))),
        ("x contains x'00'", Contains("x", b"\0")),
        ("x not contains 'ab'", Not(Contains("x", "ab"))),
        ("startswith(x, 'ab')", StartsWith("x", "ab")),
        ("STARTSWITH (x, x'ab')", StartsWith("x", b"\xab")),
        ("contains(\"x y\", \"z\")", Contains("x y", "z")),
        ("is_missing(x)", IsMissing("x")),
        ("not is_nan(`x y`)", Not(IsNan("x y"))),
        ("(x > 3) is missing", IsMissing(TruthTerm(Compare("x", ">", 3)))),
        ("((x > 3 or a = 1)) is not missing", Not(IsMissing(TruthTerm(Or((Compare("x", ">", 3), A)))))),
        ("not (not x) is missing", Not(IsMissing(TruthTerm(Not(Compare("x", "==", True)))))),
        ("(any(x)) in (true)", IsIn(TruthTerm(Compare("x", "==", True).any()), (True,))),
        ("((is_missing(x)) is missing) is missing", IsMissing(TruthTerm(IsMissing(TruthTerm(IsMissing("x")))))),
        ("`(x > 3)` is missing", IsMissing("(x > 3)")),
        ("(x) is missing", IsMissing("x")),
        ("is_missing = 1", Compare("is_missing", "==", 1)),
        ("is_nan and a = 1", And((Compare("is_nan", "==", True), A))),
    ],
)  # fmt: skip
def test_tests(text: str, meant: Predicate) -> None:
    assert parse(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("flag", FLAG),
        ("not flag", Not(FLAG)),
        ("~flag", Not(FLAG)),
        ("flag and x > 3", And((FLAG, Compare("x", ">", 3)))),
        ("(flag)|(a=1)", Or((FLAG, A))),
        ('"flag"', FLAG),
    ],
)
def test_a_column_by_itself(text: str, meant: Predicate) -> None:
    assert parse(text) == meant


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x", "x"),
        ("_x9", "_x9"),
        ("Größe", "Größe"),
        ("हिन्दी", "हिन्दी"),
        ("名前", "名前"),
        ("a.b", "a.b"),
        ("a.b.in", "a.b.in"),
        ("`a b`", "a b"),
        ("`a``b`", "a`b"),
        ("``", ""),
        ("````", "`"),
        ("`and`", "and"),
        ("`a\nb`", "a\nb"),
        ('"a b"', "a b"),
        ('"a""b"', 'a"b'),
        ('"true"', "true"),
        ("x1e5", "x1e5"),
        ("inform", "inform"),
    ],
)
def test_names(text: str, name: str) -> None:
    """On the left of a comparison, on the right of a reversed one, and with nothing to separate the sign from it."""
    assert parse(f"{text} = 1") == parse(f"1 = {text}") == parse(f"{text}=1") == Compare(name, "==", 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("+1", 1),
        ("-1", -1),
        ("007", 7),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1.5e3", -1500.0),
        ("1E5", 1e5),
        ("1e-400", Decimal("1e-400")),
        ("-0.0", -0.0),
        ("inf", math.inf),
        ("-Inf", -math.inf),
        ("+inf", math.inf),
        ("NaN", math.nan),
        ("true", True),
        ("FALSE", False),
        ("'a'", "a"),
        ("''", ""),
        ("'it''s'", "it's"),
        ("''''", "'"),
        (r"'\n'", r"\n"),
        ("'\n'", "\n"),
        ('"a"', "a"),
        ('"a""b\'"', "a\"b'"),
        ("x''", b""),
        ("X'00fF'", b"\x00\xff"),
    ],
)
def test_values(text: str, value: Any) -> None:
    read = parse(f"x = {text}")
    assert isinstance(read, Compare) and alike(read.value, value)


# -- refusals --


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", 0, ["empty string"]),
        (" \n", 0, ["empty string"]),
        ("true", 0, ["'true'", "by itself"]),
        ("x = 1 and False", 10, ["'False'", "by itself"]),
        ("not true", 4, ["'true'", "by itself"]),
        ("3", 0, ["'3'", "value by itself"]),
        ("'abc' or x = 1", 0, ["abc", "value by itself"]),
        ("x == in", 5, ["'in'", "a value or a column; if in is a column, write `in`"]),
        ("x == f(y)", 5, ["'f'", "a function"]),
        ("x in (1, y)", 9, ["'y'", "text must be quoted"]),
        ("x between y and 3", 10, ["'y'", "text must be quoted"]),
        ("1 < 2", 4, ["'2'", "a column"]),
        ("x < 1 < 2", 8, ["'2'", "a column"]),
        ("x == null", 5, ["'null'", "x is missing"]),
        ("`a b` != None", 9, ["'None'", "`a b` is not missing"]),
        ("x in (1, missing)", 9, ["x is missing"]),
        ("null == x", 0, ["'null'", "is missing"]),
        ("x =", 3, ["the end of the text", "a value"]),
        ("x = )", 4, ["')'", "a value"]),
        ("x ? 3", 2, ["'?'", "a comparison"]),
        ("x ≥ 3", 2, ["'≥'", "a comparison"]),
        ("x≥3", 1, ["'≥'", "a comparison"]),
        ("x y", 2, ["'y'", "a comparison"]),
        ("x = 1 y", 6, ["'y'", "and, or, or the end"]),
        ("(x = 1 y", 7, ["'y'", "and, or, or )"]),
        ("x = 1 and", 9, ["the end of the text", "a column"]),
        ("and x = 1", 0, ["'and'", "if and is a column, write `and`"]),
        ("x = 1 or or y", 9, ["'or'", "a column"]),
        ("not", 3, ["the end of the text"]),
        ("()", 1, ["')'", "a column"]),
        ("(x", 0, ["parenthesis without end", ")"]),
        ("x)", 1, ["')'", "no parenthesis is open"]),
        ("x in 3", 5, ["'3'", "( or ["]),
        ("x in (1 2)", 8, ["'2'", ", or )"]),
        ("x in [1)", 7, ["')'", ", or ]"]),
        ("x in (,)", 6, ["','", "a value"]),
        ("x in (1, 2", 10, ["the end of the text", ", or )"]),
        ("3 in (1, 2)", 0, ["'3'", "a column before in"]),
        ("x between 1 or 2", 12, ["'or'", "and"]),
        ("x between 1", 11, ["the end of the text", "and"]),
        ("x is 3", 5, ["'3'", "missing", "nan"]),
        ("x is not", 8, ["the end of the text", "missing"]),
        ("x not = 3", 6, ["'='", "in, between, like, startswith, contains"]),
        ("x like 3", 7, ["'3'", "a string"]),
        ("x like x'00'", 7, ["x'00'", "a string"]),
        ("x startswith y", 13, ["'y'", "a string in quotes"]),
        ("x contains y", 11, ["'y'", "contains takes values"]),
        ("x contains null", 11, ["'null'", "nothing equals a missing value"]),
        ("startswith(x 'a')", 13, ["'a'", ","]),
        ("contains('x', 'a')", 9, ["'x'", "a column"]),
        ("is_nan(x", 8, ["the end of the text", ")"]),
        ("is_nan(x, 3)", 8, ["','", ")"]),
        ("x = 'it's'", 9, ["without end", "'"]),
        ('x = "a', 4, ["without end", '"']),
        ("`x = 1", 0, ["without end", "`"]),
        ("b = x'0'", 4, ["x'0'", "hex"]),
        ("b = x'zz'", 4, ["x'zz'", "hex"]),
        ("b = x'é'", 4, ["hex"]),
        ("x = 1e400", 4, ["'1e400'", "float"]),
        ("x = -1e400", 4, ["'-1e400'", "float"]),
        ("x = 1_000", 4, ["'1_000'", "a number"]),
        ("x = 1.2.3", 4, ["'1.2.3'", "a number"]),
        ("x = 0x1F", 4, ["'0x1F'", "a number"]),
        ("x = 1e", 4, ["'1e'", "a number"]),
        ("2mass = 1", 0, ["'2mass'", "backticks"]),
        ("x = -info", 4, ["'-info'", "a number"]),
        ("x = - ", 6, ["the end of the text", "a value"]),
        ("x + = 5", 4, ["'='", "a column, a value"]),
        ("x = " + "9" * 5000, 4, ["integer of 5000 characters"]),
    ],
)
def test_a_refusal_says_what_and_where(text: str, position: int, words: list[str]) -> None:
    error = refused(text)
    assert error.position == position
    headline = str(error).split("\n")[0]
    assert "found" in headline and "expected" in headline
    assert [word for word in words if word not in headline] == []


@pytest.mark.parametrize(
    ("text", "shown", "mark"),
    [
        ("x == in", "x == in", "     ^"),
        ("x ==", "x ==", "    ^"),
        ("a\n\tand x\x1b == y", r"a\n\tand x\x1b == y", "          ^"),
        ("'名前' = '名前'", "'名前' = '名前'", "         ^"),
        ("'e\u0301' = '\u202e'", "'e\u0301' = '\\u202e'", "      ^"),
        ("a = 1 or " * 20 + "b == in" + " or a = 1" * 20,
         "... or a = 1 or a = 1 or a = 1 or b == in or a = 1 or a = 1 or a = 1 or a =...", " " * 39 + "^"),
    ],
)  # fmt: skip
def test_a_refusal_shows_the_place(text: str, shown: str, mark: str) -> None:
    """The text on one line, cut around the place if it is long, control characters escaped, and a mark below."""
    assert str(refused(text)).split("\n")[1:] == [f"  {shown}", f"  {mark}"]


def test_only_a_text_is_read() -> None:
    with pytest.raises(PredicateError, match="not from 3"):
        parse(3)  # type: ignore[arg-type]


# -- large and deep --


@pytest.mark.parametrize("opening", ["(", "not ", "~", "!(", "not (", "( (", "a = 1 and not ("])
def test_too_deep_is_refused(opening: str) -> None:
    deep = opening * 10_000
    assert f"more than {MAX_PREDICATE_DEPTH}" in str(refused(deep))
    assert f"more than {MAX_PREDICATE_DEPTH}" in str(refused(deep + "a" + ")" * deep.count("(")))


@pytest.mark.parametrize("opening", ["(", "not ", "(a or b and ", "b == (a and "])
def test_as_deep_as_allowed(opening: str) -> None:
    """What is read can be written, hashed, copied to another process and walked without running out of stack."""
    text = opening * MAX_PREDICATE_DEPTH + "a" + ")" * (MAX_PREDICATE_DEPTH * opening.count("("))
    predicate = parse(text)
    assert len(str(predicate)) > 0 and len(repr(predicate)) > 0
    assert pickle.loads(pickle.dumps(predicate)) == predicate
    assert hash(predicate) == hash(parse(text))
    assert {column.name for leaf in predicate.leaves() for column in columns_in(term_of(leaf.column))} <= {"a", "b"}
    refused(opening + text)


def test_operands_that_are_too_deep_are_refused() -> None:
    error = refused("b == (a and " * 10_000 + "a" + ")" * 10_000)
    assert f"more than {MAX_PREDICATE_DEPTH}" in str(error) and error.position == 12 * MAX_PREDICATE_DEPTH + 5
    refused("b == (a and " * 10_000)


def test_depth_does_not_count_what_is_closed() -> None:
    parts = 10_000
    read = parse(" and ".join(["not (not (a = 1))"] * parts))
    assert read == And((Not(Not(A)),) * parts)


def test_no_stack_is_needed() -> None:
    """Read with a stack that is all but used up."""

    def down(levels: int) -> Predicate:
        return (
            parse("(" * MAX_PREDICATE_DEPTH + "a = 1" + ")" * MAX_PREDICATE_DEPTH) if levels == 0 else down(levels - 1)
        )

    depth = len(_frames())
    assert down(sys.getrecursionlimit() - depth - 40) == A


def _frames() -> list[object]:
    frame, frames = sys._getframe(), list[object]()
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return frames


LONG: dict[str, Callable[[int], str]] = {
    "or": lambda n: " or ".join(f"a = {i}" for i in range(n)),
    "and not": lambda n: " & ".join("~(b)" for _ in range(n)),
    "in integers": lambda n: f"a in ({', '.join(str(i) for i in range(n))})",
    "in texts": lambda n: "a in [" + ",".join(f"'{i}'''" for i in range(n)) + "]",
    "quotes": lambda n: "a = '" + "''" * n + "'",
    "no closing quote": lambda n: "a = '" + "''" * n,
    "dots": lambda n: ".".join("a" * n) + " = 1",
    "spaces": lambda n: " " * n + "a" + " " * n,
    "hex": lambda n: "a = x'" + "ab" * n + "'",
    "float digits": lambda n: "a = 0." + "1" * n,
    "chain": lambda n: "1" + " < a < 1" * n,
    "signs": lambda n: "a = " + "-" * n,
    "closing": lambda n: "a" + ")" * n,
}


@pytest.mark.parametrize("kind", LONG)
def test_time_grows_with_length(kind: str) -> None:
    """Eight times the text takes about eight times as long, not sixty-four."""
    small, large = (min(_seconds(LONG[kind](n)) for _ in range(3)) for n in (2000, 16_000))
    assert large < 32 * small + 0.05


def _seconds(text: str) -> float:
    begun = time.process_time()
    with contextlib.suppress(PredicateError):
        parse(text)
    return time.process_time() - begun


def test_long_texts() -> None:
    read = parse(LONG["or"](10_000))
    assert isinstance(read, Or) and read.parts == tuple(Compare("a", "==", i) for i in range(10_000))
    assert parse(LONG["in integers"](100_000)) == IsIn("a", tuple(range(100_000)))


# -- laws --


def alike(read: Any, meant: Any) -> bool:
    """Equal, with the type of each value; a time is read as its text, a Decimal as a number or text that says it."""
    if isinstance(meant, (Predicate, TruthTerm)):
        fields = [field.name for field in dataclasses.fields(meant)]  # type: ignore[arg-type]
        return type(read) is type(meant) and all(alike(getattr(read, name), getattr(meant, name)) for name in fields)
    if isinstance(meant, tuple):
        return len(read) == len(meant) and all(map(alike, read, meant))
    if isinstance(meant, (date, time_of_day)):
        return bool(read == meant.isoformat())
    if isinstance(meant, Decimal):
        return Decimal(str(read)) == meant
    return type(read) is type(meant) and repr(read) == repr(meant)


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12) | st.text("ab'\"`\\%_\n\0 é", max_size=8)
NAMES = st.one_of(
    ANY_TEXT.filter(lambda name: "\0" not in name),
    st.sampled_from([*WORDS, "none", "is_nan", "NULL", "Or", "x", "a.b", "`", "2x", "名前"]),
    st.from_regex("[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True),
)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=5)
VALUES = st.one_of(
    st.integers(),
    st.integers(-(10**600), 10**600),
    st.floats(),
    ANY_TEXT,
    st.binary(max_size=8),
    st.booleans(),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.dates(),
    st.times(),
    DECIMALS,
)
TEXTS = ANY_TEXT | st.binary(max_size=8)
LEAVES: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Compare, NAMES, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), VALUES),
    st.builds(Between, NAMES, VALUES, VALUES),
    st.builds(IsIn, NAMES, st.lists(VALUES, max_size=4).map(tuple)),
    st.builds(IsMissing, NAMES),
    st.builds(IsNan, NAMES),
    st.builds(StartsWith, NAMES, TEXTS),
    st.builds(Contains, NAMES, TEXTS),
    st.builds(Like, NAMES, ANY_TEXT),
)


def _larger(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    parts = st.lists(inner, min_size=2, max_size=4).map(tuple)
    truth = inner.map(TruthTerm)
    of_truth = st.builds(IsMissing, truth) | st.builds(Compare, truth, st.sampled_from(["==", "<"]), st.booleans())
    return st.one_of(inner.map(Not), st.builds(And, parts), st.builds(Or, parts), of_truth)


TREES = st.recursive(LEAVES, _larger, max_leaves=12)


@given(TREES)
@example(Not(And((Or((A, B)), And((A, B)), Not(Not(C))))))
@example(Compare("none", "==", -0.0))
def test_what_is_written_reads_back(predicate: Predicate) -> None:
    assert alike(parse(str(predicate)), predicate)


@given(NAMES)
def test_every_name_reads_back(name: str) -> None:
    assert parse(str(Compare(name, "==", True))) == Compare(name, "==", True)


def check_read_or_refused(text: str) -> None:
    """It is read, and what is read can be written and read; or it is refused, at a place in the text."""
    try:
        predicate = parse(text)
    except PredicateError as error:
        check_refusal(error, text)
    else:
        assert alike(parse(str(predicate)), predicate)


def check_refusal(error: PredicateError, text: str) -> None:
    headline, shown, mark = str(error).split("\n")
    position = error.position
    assert error.text == text and isinstance(position, int) and 0 <= position <= len(text)
    assert "found" in headline and "expected" in headline
    assert mark.strip() == "^" and (headline + shown).isprintable()


@given(ANY_TEXT | st.text())
@example("x == '\ud800")
@example("\0")
@example("x == 1\u0301")
@example("`a\x1fb` == missing")
@example("`a\x1fb` == none")
@example("x == ²")
@example("x == ٣")
@example("ſtartswith(x, 'a')")
def test_any_text_is_read_or_refused(text: str) -> None:
    check_read_or_refused(text)


PIECES = [*WORDS, *"()[],~!&|=<>.`'\"+-_%", "==", "!=", "<>", "&&", "||", "x", "y.z", "`q r`", "'t'", '"u"', "x'00'",
          "x'", "none", "is_nan", "is_missing", "NOT", "1", "-2.5", "1e999", "1e", ".5", "is_nan(x)", "x > 1", "é",
          "\n", "(x)", "in (1, 2)", "in (", "is not", "between 1 and 2", "1 <", "< 2"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=14), st.sampled_from(["", " "]))
def test_pieces_of_the_language_are_read_or_refused(pieces: list[str], between: str) -> None:
    check_read_or_refused(between.join(pieces))


@given(TREES, st.data())
def test_a_damaged_text_is_read_or_refused(predicate: Predicate, data: st.DataObject) -> None:
    text = str(predicate)
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, min(len(text), first + 3)))
    damaged = text[:first] + data.draw(st.sampled_from(["", *PIECES])) + text[last:]
    assume(damaged != text)
    check_read_or_refused(damaged)
