"""Which of the dearer readers a file goes through: by its number, so that the same file is always read the same way.

Every file is opened, listed, described, read column by column past the library, searched with indexes and without,
aggregated and checked, which walks it for sparse arrays too; one of its objects is read as an element. What is said
here is the rest; see docs/fuzzing.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """The readers of one file; by default all of them. `column` says which column is searched and
    aggregated, and which object is read as an element."""

    by_library: bool = True
    deep: bool = True
    every_column: bool = True
    walk_sparse: bool = True
    rest_of_table: bool = True
    rest_of_sparse: bool = True
    commands: tuple[str, ...] = ("ls", "ls --json", "info --json")
    change: bool = True
    repairs: bool = True
    column: int = 0


ALL = Turn()


def turn_of(number: int, only_rows: bool, is_sparse: bool) -> Turn:
    """The turn of a file. `only_rows`: only bytes of chunks were changed, so that the library is held against us."""
    return Turn(
        by_library=only_rows or number % 4 == 1,
        deep=number % 4 == 0,
        every_column=number % 12 == 2,
        rest_of_table=number % 8 == 4,
        walk_sparse=is_sparse or number % 6 == 1,
        rest_of_sparse=number % 5 == 3,
        commands={7: ("ls",), 23: ("ls --json",), 47: ("info --json",)}.get(number % 64, ()),
        change=number % 12 == 5,
        repairs=number % 16 == 11,
        column=number // 7,
    )
