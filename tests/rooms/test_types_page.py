"""docs/types.md says what the library does."""

from __future__ import annotations

from tools import types_page


def test_the_page_is_true() -> None:
    assert types_page.PAGE.read_text() == types_page.page_text()
