"""The examples of docs/coming_from/vaex.md run, in order, on files that the page itself makes."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest

import colonnade as cn

PAGE = Path(__file__).parents[2] / "docs" / "coming_from" / "vaex.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text().replace("```python\n", "").replace("\n```\n", "\n\n")
    example = doctest.DocTestParser().get_doctest(text, {"cn": cn, "np": np}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    failed, attempted = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert attempted >= 12 and not failed, "".join(report)
