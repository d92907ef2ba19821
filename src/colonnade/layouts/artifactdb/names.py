"""The names ArtifactDB gives to members and attributes of a data frame, its types, and its generations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from colonnade.dataclass import dataclass
from colonnade.errors import DataError, UsageError
from colonnade.layouts.frame_options import check_labels_and_texts
from colonnade.model import TableText, is_utf8

FRAME = "an ArtifactDB data frame"  # in messages
# Members of the group of a frame.
DATA = "data"
COLUMN_NAMES = "column_names"
MOST_UNWRITTEN = 1 << 12  # names that may be claimed and were never written
ROW_NAMES = "row_names"
SEARCH_INDEXES = "_search_indexes"
MEMBERS = (DATA, COLUMN_NAMES, ROW_NAMES, SEARCH_INDEXES)
# Members of the group of a column.
CODES, LEVELS = "codes", "levels"
POINTERS, HEAP = "pointers", "heap"
# Attributes of the group.
VERSION = "version"
ROW_COUNT = "row-count"
GROUP_ATTRIBUTES = (VERSION, ROW_COUNT)
# Attributes of columns.
TYPE = "type"
FORMAT = "format"
ORDERED = "ordered"
PLACEHOLDER = "missing-value-placeholder"
# Of our own, which others pass over: the name of the row names; the Arrow type of date-times that are no microseconds.
LABEL_NAME = "name"
ARROW_TYPE = "arrow_type"
COLUMN_ATTRIBUTES = (TYPE, FORMAT, ORDERED, PLACEHOLDER, LABEL_NAME, ARROW_TYPE)
# What the attribute `type` of a column, or its entry in the metadata, may say.
BOOLEAN, INTEGER, NUMBER, STRING, FACTOR, VLS, OTHER = (
    "boolean", "integer", "number", "string", "factor", "vls", "other",
)  # fmt: skip
OLD_ORDERED = "ordered"  # a factor of data_frame version 1 whose levels are in order
FORMATS = ("none", "date", "date-time")
# Today's form: a directory.
OBJECT_FILE = "OBJECT"
OBJECT_TYPE = "data_frame"
BASIC_COLUMNS = "basic_columns.h5"
DIRECTORY_GROUP = "data_frame"
OTHER_COLUMNS = "other_columns"
COLUMN_ANNOTATIONS, OTHER_ANNOTATIONS = "column_annotations", "other_annotations"
DIRECTORY_VERSIONS = ("1.0", "1.1")
SCHEMA = "hdf5_data_frame/v1.json"
MOST_LEVELS = 2**31 - 1
R_MISSING = 0x7FF00000000007A2  # the bits of R's NA, a float64

Family = Literal["versioned", "directory", "legacy"]


@dataclass(frozen=True)
class Generation:
    """Which rules a frame follows.

    versioned: the group says its version, and each column its type. directory: the same in today's directory.
    legacy: the metadata says both; by hdf5_data_frame.version (how missing rows are marked) and data_frame.version (how
    factors are kept).
    """

    family: Family
    version: str = "1.0"
    hdf5: int = 3
    frame: int = 2

    @property
    def is_self_described(self) -> bool:
        """Whether columns say their types themselves."""
        return self.family != "legacy" or self.hdf5 >= 3

    def __str__(self) -> str:
        return self.version if self.family != "legacy" else f"{self.hdf5}/{self.frame}"


def parse_generation(text: str) -> Generation:
    """The generation that a word of the user's names: "versioned", "directory", or "legacy:2/1" by its two versions."""
    if text in ("versioned", "directory"):
        return Generation("directory" if text == "directory" else "versioned")
    family, _, versions = text.partition(":")
    hdf5, _, frame = versions.partition("/")
    if family == "legacy" and hdf5 in ("1", "2", "3") and frame in ("1", "2"):
        return Generation("legacy", "", int(hdf5), int(frame))
    raise UsageError(
        f"{text!r} is no generation of ArtifactDB data frames: say 'versioned', 'directory', or 'legacy:2/1' (the "
        "versions of hdf5_data_frame, 1 to 3, and of data_frame, 1 or 2)",
        option="generation",
    )


def check_name(name: str, _allow_reserved: bool = False) -> None:
    """Refuse what cannot be the name of a column."""
    if not name:
        problem = "is empty"
    elif "\0" in name:
        problem = "holds NUL, which ends a text"
    elif not is_utf8(name):
        problem = "is not UTF-8 text"
    else:
        return
    raise DataError(f"column name {name!r} {problem}: rename the column", column=name)


def check_members(_columns: Sequence[str], labels: Sequence[str], text: TableText) -> None:
    """Refuse what a frame has no place for: several row labels, texts of its own."""
    check_labels_and_texts(labels, text, FRAME, "row names")
