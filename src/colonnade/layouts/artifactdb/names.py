"""Names of the members, attributes and types of an ArtifactDB data frame, and its generations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from colonnade.dataclass import dataclass
from colonnade.errors import DataError, UsageError
from colonnade.model import TableText, is_utf8

FRAME = "an ArtifactDB data frame"  # in messages
# Members of the group of a frame.
DATA = "data"
COLUMN_NAMES = "column_names"
MOST_UNWRITTEN_NAMES = 1 << 12  # names that a file may claim without having written them
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
# Our own, which others ignore: the name of the row names; the Arrow type of date-times that are not in microseconds.
LABEL_NAME = "name"
ARROW_TYPE = "arrow_type"
COLUMN_ATTRIBUTES = (TYPE, FORMAT, ORDERED, PLACEHOLDER, LABEL_NAME, ARROW_TYPE)
# The values of a column's attribute `type`, or of its metadata entry.
BOOLEAN, INTEGER, NUMBER, STRING, FACTOR, VLS, OTHER = (
    "boolean", "integer", "number", "string", "factor", "vls", "other",
)  # fmt: skip
OLD_ORDERED = "ordered"  # a factor of data_frame version 1 whose levels are ordered
FORMATS = ("none", "date", "date-time")
# The current form: a directory.
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

    versioned: the group has its version, each column its type. directory: likewise, inside a directory with an OBJECT.
    legacy: the metadata have both: hdf5_data_frame.version (how missing rows are marked) and data_frame.version (how
    factors are stored).
    """

    family: Family
    version: str = "1.0"
    hdf5: int = 3
    frame: int = 2

    @property
    def is_self_described(self) -> bool:
        """Whether columns have their types as attributes."""
        return self.family != "legacy" or self.hdf5 >= 3

    def __str__(self) -> str:
        return self.version if self.family != "legacy" else f"{self.hdf5}/{self.frame}"


def parse_generation(text: str) -> Generation:
    """The generation of an option: "versioned", "directory", or "legacy:2/1" with its two versions."""
    if text in ("versioned", "directory"):
        return Generation("directory" if text == "directory" else "versioned")
    family, _, versions = text.partition(":")
    hdf5, _, frame = versions.partition("/")
    if family == "legacy" and hdf5 in ("1", "2", "3") and frame in ("1", "2"):
        return Generation("legacy", "", int(hdf5), int(frame))
    raise UsageError(
        f"{text!r} is not a generation of ArtifactDB data frames. Use 'versioned', 'directory', or 'legacy:2/1' (the "
        "versions of hdf5_data_frame, 1 to 3, and of data_frame, 1 or 2)",
        option="generation",
    )


def check_name(name: str, _allow_reserved: bool = False) -> None:
    """Refuse a string that cannot be the name of a column."""
    if not name:
        problem = "is empty"
    elif "\0" in name:
        problem = "contains NUL, which ends a string"
    elif not is_utf8(name):
        problem = "is not valid UTF-8"
    else:
        return
    raise DataError(f"the name {problem}: rename the column", column=name)


def check_members(_columns: Sequence[str], labels: Sequence[str], text: TableText) -> None:
    """Refuse what a frame cannot store: several row labels, a title or a description."""
    from colonnade.layouts.frame_options import check_labels_and_texts

    check_labels_and_texts(labels, text, FRAME, "row names")
