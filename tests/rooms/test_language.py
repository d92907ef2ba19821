"""Words that readers stumble over become fewer, never more (`tools/language.py`)."""

from __future__ import annotations

import pytest
from tools import language


def test_no_listed_word_becomes_more_frequent() -> None:
    """Lower `MOST` when a count has gone down."""
    more = {word: count for word, count in language.counts().items() if count > language.MOST[word]}
    assert more == {}


def test_a_listed_word_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        language, "read_lines", lambda: [("a.py:1", "# rows behind the last"), ("a.py:2", "# it is no table")]
    )
    found = language.counts()
    assert found["behind"] == 1 and found["is no"] == 1 and found["texts"] == 0
