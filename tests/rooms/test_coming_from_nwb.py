"""The blocks of docs/coming_from/nwb.md run, in order; those of pynwb where it is installed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.rooms.nwb_files import HAS_PYNWB, SESSION, quiet

PAGE = Path(__file__).parents[2] / "docs" / "coming_from" / "nwb.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    if not HAS_PYNWB:
        shutil.copy(SESSION, "session.nwb")
    names: dict[str, Any] = {}
    for block in BLOCKS:
        if not block.startswith("# pynwb"):
            exec(compile(block, PAGE.name, "exec"), names)
        elif HAS_PYNWB:
            with quiet():
                exec(compile(block, PAGE.name, "exec"), names)
    names["file"].close()
    output = capsys.readouterr().out
    assert "'/intervals/trials'" in output and "sorted_rows" in output
    assert len(names["first"]) == (2 if HAS_PYNWB else 0) and len(BLOCKS) >= 8


def test_pynwb_and_colonnade_are_on_the_page_in_turns() -> None:
    assert sum(block.startswith("# pynwb") for block in BLOCKS) >= 3
