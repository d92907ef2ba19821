"""Which of the dearer readers a file goes through: by its number, so that the same file is always read the same way.

Every file is opened, listed, described, read column by column, searched with indexes and without, and aggregated,
without libhdf5. What is said here is the rest; see docs/fuzzing.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Turn:
    """The readers of one file; by default all of them. `column` says which column is searched and
    aggregated, and which object is read as an element."""

    walk: bool = True
    every_column: bool = True
    rest_of_table: bool = True
    walk_sparse: bool = True
    rest_of_sparse: bool = True
    most_tables: int = 64
    as_users: bool = True
    other_layouts: bool = True
    every_layout: bool = True
    check_plainly: bool = True
    column: int = 0
    # in a process that has loaded h5py
    by_library: bool = True
    auto: bool = True
    check: bool = True
    deep: bool = True
    elements: bool = True
    commands: tuple[str, ...] = ("ls", "ls --json", "info --json")
    change: bool = True
    repairs: bool = True

    @property
    def needs_library(self) -> bool:
        """Whether a process with libhdf5 is to read the file too."""
        return (
            self.by_library
            or self.auto
            or self.check
            or self.elements
            or self.change
            or self.repairs
            or bool(self.commands)
        )


ALL = Turn()


def without_library(turn: Turn) -> Turn:
    """The same, without the readers that need a process with libhdf5."""
    return replace(
        turn, by_library=False, auto=False, check=False, elements=False, commands=(), change=False, repairs=False
    )


def turn_of(number: int, only_rows: bool, family: str) -> Turn:
    """The turn of a file. `only_rows`: only bytes of chunks were changed, so that the library is held against us."""
    is_of_layouts = family in ("layouts", "foreign", "h5col")
    return Turn(
        walk=number % 4 == 0,
        every_column=number % 12 == 2,
        rest_of_table=number % 8 == 4,
        walk_sparse=family == "sparse" or number % 6 == 1,
        rest_of_sparse=number % 5 == 3,
        most_tables=2,
        as_users=number % (6 if is_of_layouts else 12) == 1,
        other_layouts=number % (6 if is_of_layouts else 12) == 3,
        every_layout=False,
        check_plainly=number % (6 if is_of_layouts else 12) == 2,
        column=number // 7,
        by_library=only_rows or number % 8 == 1,
        auto=number % 8 == 6,
        check=number % 4 == 0,
        deep=number % 8 == 0,
        elements=family == "elements" or number % 6 == 3,
        commands={7: ("ls",), 23: ("ls --json",), 47: ("info --json",)}.get(number % 64, ()),
        change=number % 16 == 5,
        repairs=number % 16 == 11,
    )
