"""docs/checking.md says what the checker does."""

from __future__ import annotations

from tools import rules_page


def test_the_page_is_true() -> None:
    assert rules_page.PAGE.read_text() == rules_page.page_text()
