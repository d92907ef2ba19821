"""The examples of docs/engines.md run, in order, on data that the page itself makes."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import colonnade as cn
from tests.rooms.engine_rows import needs_lazy

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"


@needs_lazy
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text().replace("```python\n", "").replace("\n```\n", "\n\n")
    example = doctest.DocTestParser().get_doctest(text, {"cn": cn}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, attempted = doctest.DocTestRunner(optionflags=flags).run(example, out=report.append)
    assert attempted >= 7 and not failed, "".join(report)
