"""The rules C1 to C7 for columns, as far as headers and attributes show. `rules_values` checks the values."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.layouts.hep001 import names
from colonnade.layouts.hep001.raw import COLUMN_TEXTS, RawHep001Table
from colonnade.layouts.hep001.rules_attributes import is_utf8, reference_breaches, text_breaches, text_of
from colonnade.layouts.hep001.rules_tables import listed_order
from colonnade.model import Breach, StoredType

_SPARSE = "Write the column without sparse=True if programs other than colonnade must read it."


def columns_have_rank_one(table: RawHep001Table) -> Iterator[Breach]:
    """C1: every name in column-order is a dataset of rank 1."""
    for name in dict.fromkeys(listed_order(table) or ()):
        node = table.datasets.get(name)
        if node is not None and node.problem is None and not node.is_flat:
            yield Breach("error", node.path, "a column must have rank 1", node.shape_text, "rank 1")


def columns_have_one_length(table: RawHep001Table) -> Iterator[Breach]:
    """C1: all columns are as long as the table."""
    for node in table.columns:
        if node.is_flat and node.n_rows != table.info.n_rows:
            message = f"this column has {node.n_rows:,} rows, the table has {table.info.n_rows:,}"
            yield Breach("error", node.path, message, f"{node.n_rows} rows", f"{table.info.n_rows} rows")


def names_are_allowed(table: RawHep001Table) -> Iterator[Breach]:
    """C2: the names that a column may have."""
    for node in table.members:
        if not is_utf8(node.name):
            yield Breach("error", node.path, "the name is not UTF-8", ascii(node.name), "a name in UTF-8")
        elif node.name == names.SEARCH_INDEXES:
            message = "a dataset has the name reserved for the group of search indexes"
            yield Breach("error", node.path, message, node.name, "another name")
        elif node.name.startswith("_"):
            message = "the name begins with an underscore, which HEP001 reserves"
            yield Breach("warning", node.path, message, node.name, "a name without a leading underscore")


def categories_are_referred_to(table: RawHep001Table) -> Iterator[Breach]:
    """C3: a dataset that is marked as categories belongs to a column."""
    used = {node.name for node in table.categories}
    for node in table.datasets.values():
        if node.name in used or not node.is_flat:
            continue
        if text_of(node.attributes.get(names.ENCODING_TYPE)) == "categorical":
            message = "this dataset is marked as categories, but no column refers to it"
            yield Breach("warning", node.path, message, "no _categories leads here", "a column that refers to it")


def types_are_mapped(table: RawHep001Table) -> Iterator[Breach]:
    """C4: any datatype is legal; those without an in-memory type are reported."""
    for node in table.members:
        if node.info is not None and _is_unmapped(node.info.type):
            message = "values of this datatype are read as raw bytes"
            yield Breach("note", node.path, message, str(node.info.type), "a datatype with an in-memory type")


def _is_unmapped(stored: StoredType) -> bool:
    parts = [*([stored.base] if stored.base is not None else []), *(node.type for node in stored.fields)]
    return stored.kind == "unknown" or any(_is_unmapped(part) for part in parts)


def rows_are_in_the_file(table: RawHep001Table) -> Iterator[Breach]:
    """C5: any storage is legal; rows in other files, and storage that only some readers support, are reported."""
    for node in (*table.members, *table.categories):
        if node.info is not None and node.info.storage in ("external", "virtual"):
            message = "the rows are stored in other files, which may change or be lost"
            yield Breach("warning", node.path, message, f"{node.info.storage} storage", "rows inside the file")
        elif node.info is not None and node.info.storage == "sectioned":
            message = "this column is sparse: no released HDF5 library reads it"
            yield Breach("note", node.path, message, "sectioned chunks", "storage that HDF5 reads", _SPARSE)


def column_attributes_are_stored_right(table: RawHep001Table) -> Iterator[Breach]:
    """C7: string attributes and references of columns and labels."""
    for node in table.members:
        for name in COLUMN_TEXTS:
            yield from text_breaches(node.path, name, node.attributes.get(name))
        for name in (names.INDEXES, names.SEARCH_INDEXES):
            yield from reference_breaches(node.path, name, node.attributes.get(name), scalar=False)
        yield from reference_breaches(node.path, names.CATEGORIES, node.attributes.get(names.CATEGORIES), scalar=True)
