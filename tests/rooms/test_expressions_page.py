"""The examples of docs/expressions.md run, in order, on data that the page itself makes."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.predicate.expressions import MAX_EXPRESSION_LEVELS, SCALAR_FUNCTIONS
from colonnade.predicate.tree import MAX_REGULAR_EXPRESSION

PAGE = Path(__file__).parents[2] / "docs" / "expressions.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS
    text = PAGE.read_text().replace("```python\n", "").replace("\n```\n", "\n\n")
    example = doctest.DocTestParser().get_doctest(text, {"cn": cn}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    failed, attempted = doctest.DocTestRunner(optionflags=flags).run(example, out=report.append)
    assert attempted >= 12 and not failed, "".join(report)


def test_every_function_and_bound_is_named() -> None:
    text = PAGE.read_text()
    assert [name for name in SCALAR_FUNCTIONS if f"`{name}" not in text] == []
    assert f"{MAX_REGULAR_EXPRESSION:,} characters" in text and f"{MAX_EXPRESSION_LEVELS} levels" in text
