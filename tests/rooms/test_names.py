"""One noun, one meaning: no two modules define a class, a type alias or a constant of the same name."""

from __future__ import annotations

import ast

from tools import names

# Still defined more than once. Names leave this list when they are renamed; none may be added.
TYPES = [
    "Array", "Auto", "Bytes", "Form", "Found", "Image", "Kind", "Members", "Mode", "NodeKind", "Numbers",
    "Order", "Place", "Places", "Readable", "Readers", "Result", "RowNumbers", "Rows", "SeenTable", "Source",
    "Strings", "Values", "Wanted", "Wish",
]  # fmt: skip
CONSTANTS = [
    "AXES", "BATCH_ROWS", "BLOCK_BYTES", "BOOLEAN", "COLUMNS_LIST", "COLUMN_ATTRIBUTES", "COLUMN_ORDER", "DATA",
    "DEEPEST", "FEWEST_ROWS", "FIRST_ROWS", "FORMATS", "FRAMES", "GAP", "HEADER", "INDEXES",
    "LARGEST_CHUNK", "LATER_REVISION", "MAX_DEPTH", "MOST_AT_ONCE", "MOST_CATEGORIES", "MOST_HASHES",
    "MOST_KNOWN", "MOST_LEVELS", "MOST_POINTS", "MOST_ROWS", "MOST_UNWRITTEN", "NUMBERS", "OF_DATASETS",
    "OF_GROUPS", "PIECE_BYTES", "SCHEMA", "SECOND_SEED", "STRINGS", "TEXT", "TITLE", "UNNAMED", "VERSION",
]  # fmt: skip


def test_no_name_is_defined_twice() -> None:
    assert list(names.repeated_names()) == sorted([*TYPES, *CONSTANTS])


def test_classes_aliases_and_constants_count() -> None:
    tree = ast.parse("class Row: ...\nRows = list[Row]\nMOST: int = 3\ndef read(): ...\n_inner = 2\n")
    assert list(names.defined_names(tree)) == ["Row", "Rows", "MOST", "_inner"]
