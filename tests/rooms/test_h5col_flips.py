"""Every byte of a search index of an H5Col table flipped: no answer changes, whatever the tokens say.

In CI every seventh byte; COLONNADE_SOAK=1 flips all of them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import colonnade as cn
from tests.rooms.test_trust import (
    KINDS,
    SMALL_COLUMNS,
    answers,
    flips,
    forge,
    tampered,
    trusted,
)

STEP = 1 if os.environ.get("COLONNADE_SOAK") else 7


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the receipts."""
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.h5"


def write(path: Path, column: str, kind: str) -> None:
    options = {"x": cn.column(chunk_rows=8, strings="fixed", fill="" if column == "texts" else -1.0)}
    cn.write(path, {"x": SMALL_COLUMNS[column][0]}, "t", layout="h5col", columns=options, index={"x": kind})


@pytest.mark.parametrize("column", SMALL_COLUMNS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_forged", [True, False], ids=["forged receipt", "own receipt"])
def test_no_flipped_byte_changes_an_answer(
    cache: Path,
    path: Path,
    kind: str,
    column: str,
    is_forged: bool,
) -> None:
    """A forged receipt says that the file is as it was: the digests, and nothing else, stand guard."""
    predicates = SMALL_COLUMNS[column][1]
    write(path, column, kind)
    original, wanted = path.read_bytes(), answers(path, predicates, trust="never")
    assert answers(path, predicates) == wanted and trusted(path) == [True]
    every, wrong = list(flips(path, "t/SEARCH_INDEXES")), []
    assert any("SOURCE_GENERATION" in what for what, _ in every) and len(every) > 40
    for what, tamper in every[:: STEP if is_forged else 7 * STEP]:
        tampered(path, original, tamper)
        if is_forged:
            forge(cache, path)
        if answers(path, predicates) != wanted:
            wrong.append(what)
    assert wrong == []
