"""The examples of docs/coming_from/pandas.md run, in order, on a file that the page itself makes with pandas."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import colonnade as cn

PAGE = Path(__file__).parents[2] / "docs" / "coming_from" / "pandas.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text().replace("```python\n", "").replace("\n```\n", "\n\n")
    example = doctest.DocTestParser().get_doctest(text, {"cn": cn}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    failed, attempted = doctest.DocTestRunner(optionflags=flags).run(example, out=report.append)
    assert attempted >= 15 and not failed, "".join(report)
