"""What has no type becomes less, never more: the word `Any` in each room, and the share that mypy reports."""

from __future__ import annotations

from pathlib import Path

from tools import any_types


def test_no_room_has_more_of_the_word_any() -> None:
    more = {room: n for room, n in any_types.words().items() if n > any_types.MOST_WORDS.get(room, 0)}
    assert more == {}


def test_a_report_with_too_many_expressions_fails(tmp_path: Path) -> None:
    report = tmp_path / "any-exprs.txt"
    for n_any, code in ((0, 0), (9_000, 1)):
        report.write_text(
            f"  Name  Anys  Exprs  Coverage\n---\n a.b  1  2  50.00%\n---\n Total  {n_any}  10000  9.99%\n"
        )
        assert any_types.main(str(tmp_path)) == code
    assert any_types.share(report) == 90.0
