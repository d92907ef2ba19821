"""The examples of docs/coming_from run, in order, on data that each page itself makes."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import colonnade as cn

FOLDER = Path(__file__).parents[2] / "docs" / "coming_from"
NEEDS = {"pytables.md": "tables"}


@pytest.mark.parametrize("name", ["h5py.md", "pytables.md"])
def test_the_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.chdir(tmp_path)
    text = (FOLDER / name).read_text().replace("```python\n", "").replace("\n```\n", "\n\n")
    example = doctest.DocTestParser().get_doctest(text, {"cn": cn}, name, name, 0)
    report: list[str] = []
    failed, attempted = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert attempted >= 5 and not failed, "".join(report)
