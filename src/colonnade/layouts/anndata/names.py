"""The attribute and member names of AnnData elements, and the names that columns of a frame may have."""

from __future__ import annotations

from collections.abc import Sequence

from colonnade.errors import DataError, UsageError
from colonnade.layouts.frame_options import check_labels_and_texts
from colonnade.model import TableText, is_utf8
from colonnade.nodes import Group

FRAME = "an AnnData data frame"  # in messages
ENCODING_TYPE = "encoding-type"
ENCODING_VERSION = "encoding-version"
DATAFRAME = "dataframe"
VERSIONS = ("0.2.0", "0.1.0")
INDEX = "_index"
COLUMN_ORDER = "column-order"
ORDERED = "ordered"
LEGACY_CATEGORIES = "categories"
OLD_FORMAT, OLD_SHAPE = "h5sparse_format", "h5sparse_shape"  # sparse matrices before 0.7
GROUP_ATTRIBUTES = (ENCODING_TYPE, ENCODING_VERSION, INDEX, COLUMN_ORDER)
NA_VALUE = "na-value"
COLUMN_ATTRIBUTES = (ENCODING_TYPE, ENCODING_VERSION, ORDERED, LEGACY_CATEGORIES, NA_VALUE)
# The kinds of columns, as encoding-type and encoding-version: datasets, then groups.
ARRAY = ("array", "0.2.0")
STRING_ENCODINGS = ("string-array", "0.2.0")
CATEGORICAL = ("categorical", "0.2.0")
NULLABLE_INTEGERS = ("nullable-integer", "0.1.0")
NULLABLE_BOOLEANS = ("nullable-boolean", "0.1.0")
NULLABLE_STRINGS = ("nullable-string-array", "0.1.0")
NULLABLE = (NULLABLE_INTEGERS, NULLABLE_BOOLEANS, NULLABLE_STRINGS)
# Every pair that anndata reads, for groups and for datasets, and that of MuData.
OF_GROUPS = (
    ("anndata", "0.1.0"), ("raw", "0.1.0"), ("MuData", "0.1.0"), ("dict", "0.1.0"), ("csr_matrix", "0.1.0"),
    ("csc_matrix", "0.1.0"), ("dataframe", "0.1.0"), ("dataframe", "0.2.0"), CATEGORICAL, *NULLABLE,
    ("awkward-array", "0.1.0"),
)  # fmt: skip
OF_DATASETS = (
    ("array", "0.2.0"), ("rec-array", "0.2.0"), ("string-array", "0.2.0"), ("numeric-scalar", "0.2.0"),
    ("string", "0.2.0"), ("bytes", "0.2.0"), ("null", "0.1.0"),
)  # fmt: skip
# Groups whose members are elements themselves, each with its own encoding attributes.
HOLDING = ("anndata", "raw", "dict", "categorical", "nullable-integer", "nullable-boolean", "nullable-string-array")
MATRICES = (("csr_matrix", "0.1.0"), ("csc_matrix", "0.1.0"))
# Members of a frame that are not columns: anndata reads only what column-order and _index name.
UNNAMED = "_index"
SEARCH_INDEXES = "_search_indexes"
OTHER_FACE = "_hep001"
LEGACY_CATEGORIES_GROUP = "__categories"
NO_COLUMNS = (SEARCH_INDEXES, OTHER_FACE, LEGACY_CATEGORIES_GROUP)


def is_link_name(name: str) -> bool:
    """Whether a name in column-order can be a link name. Older files have paths there: each part must be one."""
    return all(part not in ("", ".") and "\0" not in part for part in name.split("/"))


def check_name(name: str, _allow_reserved: bool = False) -> None:
    """Refuse a name that anndata would read as a path, that HDF5 cannot link, or that is reserved."""
    if "/" in name or not is_link_name(name):
        problem = "is empty, '.', or contains '/' or NUL: anndata would read it as a path"
    elif not is_utf8(name):
        problem = "is not valid UTF-8"
    elif name in NO_COLUMNS:
        problem = "is reserved in a frame"
    else:
        return
    raise DataError(f"the name {problem}: rename the column", column=name)


def check_members(columns: Sequence[str], labels: Sequence[str], text: TableText) -> None:
    """Refuse what a frame cannot store: several row labels, a title or description, a column named `_index`."""

    check_labels_and_texts(labels, text, FRAME, "row labels")
    if UNNAMED in columns:
        raise DataError("a column cannot have this name, which is that of row labels", column=UNNAMED)


def check_has_one_face(group: Group, path: str) -> None:
    """Refuse a frame that is a view of a HEP001 table inside it: that table is the one to change."""
    if group.has_link(OTHER_FACE):
        raise UsageError(
            f"cannot change or index {path}: it is the AnnData view of the HEP001 table in its member "
            f"{OTHER_FACE!r}. Change or index that table; the view follows.",
            path=path,
        )
