"""Words that readers stumble over, and names that say nothing, become fewer, never more (`tools/language.py`)."""

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
    counts = language.counts()
    assert counts["behind"] == 1 and counts["is no"] == 1 and counts["texts"] == 0


def test_no_room_has_more_vague_names() -> None:
    """A variable is named after what it holds. Lower `MOST_VAGUE_NAMES` when a count has gone down."""
    counts = language.vague_name_counts()
    more = {room: count for room, count in counts.items() if count > language.MOST_VAGUE_NAMES.get(room, 0)}
    assert more == {}


def test_vague_names_are_counted_where_they_are_bound() -> None:
    source = "def f(one, two):\n    found = [kept for kept in one]\n    return two.place(made=found, held='told')\n"
    assert sorted(language.vague_names(source)) == ["found", "kept", "one"]
