"""One noun, one meaning: no two modules define a class, a type alias or a constant of the same name."""

from __future__ import annotations

import ast

from tools import names

# Still defined more than once. Names leave this list when they are renamed; none may be added.
TYPES: list[str] = []
CONSTANTS: list[str] = []


def test_no_name_is_defined_twice() -> None:
    assert list(names.repeated_names()) == sorted([*TYPES, *CONSTANTS])


def test_classes_aliases_and_constants_count() -> None:
    tree = ast.parse("class Row: ...\nRows = list[Row]\nMOST: int = 3\ndef read(): ...\n_inner = 2\n")
    assert list(names.defined_names(tree)) == ["Row", "Rows", "MOST", "_inner"]
