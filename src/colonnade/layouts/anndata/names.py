"""The names AnnData gives to attributes and members of its elements."""

from __future__ import annotations

ENCODING_TYPE = "encoding-type"
ENCODING_VERSION = "encoding-version"
DATAFRAME = "dataframe"
VERSIONS = ("0.2.0", "0.1.0")
INDEX = "_index"
COLUMN_ORDER = "column-order"
ORDERED = "ordered"
LEGACY_CATEGORIES = "categories"
OLD_FORMAT, OLD_SHAPE = "h5sparse_format", "h5sparse_shape"  # of sparse matrices before 0.7
GROUP_ATTRIBUTES = (ENCODING_TYPE, ENCODING_VERSION, INDEX, COLUMN_ORDER)
# What the group of a column is, by its encoding-type and encoding-version.
CATEGORICAL = ("categorical", "0.2.0")
NULLABLE_STRINGS = ("nullable-string-array", "0.1.0")
NULLABLE = (("nullable-integer", "0.1.0"), ("nullable-boolean", "0.1.0"), NULLABLE_STRINGS)
# Every pair that anndata reads, of groups and of datasets; MuData's own beside them.
OF_GROUPS = (
    ("anndata", "0.1.0"), ("raw", "0.1.0"), ("MuData", "0.1.0"), ("dict", "0.1.0"), ("csr_matrix", "0.1.0"),
    ("csc_matrix", "0.1.0"), ("dataframe", "0.1.0"), ("dataframe", "0.2.0"), CATEGORICAL, *NULLABLE,
    ("awkward-array", "0.1.0"),
)  # fmt: skip
OF_DATASETS = (
    ("array", "0.2.0"), ("rec-array", "0.2.0"), ("string-array", "0.2.0"), ("numeric-scalar", "0.2.0"),
    ("string", "0.2.0"), ("bytes", "0.2.0"), ("null", "0.1.0"),
)  # fmt: skip
# Groups whose members are elements themselves, each marked.
HOLDING = ("anndata", "raw", "dict", "categorical", "nullable-integer", "nullable-boolean", "nullable-string-array")
MATRICES = (("csr_matrix", "0.1.0"), ("csc_matrix", "0.1.0"))


def is_link_name(name: str) -> bool:
    """Whether a name of column-order can be one link; older files have paths there, of which each part must be one."""
    return all(part not in ("", ".") and "\0" not in part for part in name.split("/"))
