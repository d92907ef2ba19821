"""All rules for DynamicTables, with the functions that look for breaches.

The clauses are the types of the HDMF common specification (hdmf-common-schema). They are few: what readers rely on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from colonnade.columns.read import ColumnReader
from colonnade.errors import ColonnadeError
from colonnade.layouts.contract import Broken
from colonnade.layouts.hdmf import names, raw
from colonnade.layouts.hdmf.describe import row_target, rows_of
from colonnade.layouts.hdmf.raw import RawDynamicTable
from colonnade.layouts.hdmf.search import PART as INDEXES
from colonnade.layouts.raw_node import RawNode, stored_as
from colonnade.layouts.table_rules import TableRules, index_rule
from colonnade.model import Breach, ColumnInfo, Lists, Rule
from colonnade.nodes import Dataset, Group, attributes
from colonnade.nodes.elements import claims_too_much, dataset_column
from colonnade.nodes.paths import join_path

_PIECE_ROWS = 1 << 18  # offsets or row numbers that are compared together


def columns_are_listed(table: RawDynamicTable) -> Iterator[Breach]:
    """N1: `colnames` is a list of distinct strings, and each names a dataset of the table."""
    listed = table.listed()
    if listed is None:
        stored = stored_as(table.attribute(names.COLUMN_LIST))
        yield Breach("error", table.path, "colnames is not a list of strings", stored, "an array of strings")
        return
    seen: set[str] = set()
    for name in listed:
        if name in seen:
            yield Breach("error", table.path, f"colnames names {name!r} twice", repr(name), "distinct names")
        seen.add(name)
    for name in dict.fromkeys(listed):
        kind = table.group.hard_kind(name) if names.is_link_name(name) else None
        if kind in ("dataset", "soft link"):
            continue
        there = "no such object" if kind is None else f"a {kind}"
        yield Breach("error", join_path(table.path, name), "colnames names a column without a dataset", there)


def identifiers_are_integers(table: RawDynamicTable) -> Iterator[Breach]:
    """N2: `id` holds one integer per row."""
    path = join_path(table.path, names.IDENTIFIERS)
    identifiers = table.member(names.IDENTIFIERS)
    if identifiers is None or not identifiers.is_flat:
        shape = "no dataset" if identifiers is None else identifiers.shape_text
        yield Breach("error", path, "the identifiers of the rows are not a dataset of rank 1", shape)
    elif identifiers.stored is not None and identifiers.stored.type.kind != "integer":
        message = "the identifiers of the rows are not integers"
        yield Breach("error", path, message, str(identifiers.stored.type), "integers")


def columns_have_the_rows(table: RawDynamicTable) -> Iterator[Breach]:
    """N3: every column, or the outermost VectorIndex of one with lists, has one element per identifier."""
    for column in table.info.members:
        rows = rows_of(table.group, column.name)
        n_rows = rows.shape[0] if rows is not None and rows.shape else None
        if n_rows is not None and n_rows != table.info.n_rows:
            message = f"it has {n_rows} rows, the table has {table.info.n_rows}"
            yield Breach("error", join_path(table.path, column.name), message, str(n_rows), str(table.info.n_rows))


def lists_are_divided(table: RawDynamicTable) -> Iterator[Breach]:
    """N4: the elements of a VectorIndex are the ends of lists: they never decrease, and the last is the number of
    elements of what it divides, to which its attribute `target` refers."""
    for column in table.info.members:
        link = column.name
        form = column.form
        while isinstance(form, Lists):
            link, form = names.index_name(link), form.items.form
            divided = table.group.open_dataset(link.removesuffix("_index"))
            index = table.group.open_dataset(link)
            if index is None or divided is None:
                continue
            yield from _target_breaches(table, link, index, divided)
            if table.values and column.problem is None:
                yield from _end_breaches(table, column, link, index, divided)


def _target_breaches(table: RawDynamicTable, link: str, index: Dataset, divided: Dataset) -> Iterator[Breach]:
    addresses = index.reference_addresses(names.TARGET)
    if addresses != [divided.address]:
        referred = "no reference" if not addresses else "a reference to another object"
        message = f"its attribute {names.TARGET} does not refer to {link.removesuffix('_index')}, which it divides"
        yield Breach("warning", join_path(table.path, link), message, referred, "a reference to the column")


def _end_breaches(
    table: RawDynamicTable, column: ColumnInfo, link: str, index: Dataset, divided: Dataset
) -> Iterator[Breach]:
    path, n_elements = join_path(table.path, link), divided.shape[0] if divided.shape else 0
    before = 0
    for first, ends in _integers(table, link, index):
        starts = np.concatenate(([before], ends[:-1]))
        wrong = np.flatnonzero((ends < starts) | (ends > n_elements))
        if len(wrong):
            row = int(wrong[0])
            goes = "goes back" if ends[row] < starts[row] else "is past the last element"
            table.broken.add(column.name)
            expected = f"{starts[row]} to {n_elements}"
            yield Breach("error", path, f"the end of list {first + row} {goes}", str(ends[row]), expected)
            return
        before = int(ends[-1])
    if before < n_elements:
        message = f"the last list ends before the last element: {n_elements - before:,} elements are in no list"
        yield Breach("warning", path, message, str(before), str(n_elements))


def rows_are_of_the_table(table: RawDynamicTable) -> Iterator[Breach]:
    """N5: a DynamicTableRegion refers to a DynamicTable, and its elements are numbers of rows of it."""
    for column in table.info.members:
        values = table.group.open_dataset(column.name) if column.problem is None else None
        if values is None or attributes.read_references(values, names.TABLE) is None:
            if values is not None and names.type_of(values) == names.REGION:
                message = f"its attribute {names.TABLE} does not refer to a table"
                yield Breach("error", join_path(table.path, column.name), message, "no reference", "a DynamicTable")
            continue
        yield from _row_breaches(table, column, values)


def _row_breaches(table: RawDynamicTable, column: ColumnInfo, values: Dataset) -> Iterator[Breach]:
    path = join_path(table.path, column.name)
    references = attributes.read_references(values, names.TABLE) or []
    target = values.dereference(references[0]) if references else None
    identifiers = None if target is None or target.is_dataset else _identifiers(target)
    if identifiers is None or not identifiers.shape:
        message = f"its attribute {names.TABLE} does not lead to a DynamicTable"
        yield Breach("error", path, message, "no such table", "a DynamicTable of this file")
        return
    n_rows = identifiers.shape[0]
    for first, rows in _integers(table, column.name, values) if table.values else ():
        wrong = np.flatnonzero((rows < 0) | (rows >= n_rows))
        if len(wrong):
            row = int(rows[wrong[0]])
            message = f"element {first + int(wrong[0])} is not the number of a row of {row_target(table.group, column)}"
            yield Breach("error", path, message, str(row), f"0 to {n_rows - 1}")
            return


def _identifiers(node: object) -> Dataset | None:
    """The identifiers of a table."""
    opened: Dataset | None = node.open_dataset(names.IDENTIFIERS) if hasattr(node, "open_dataset") else None
    return opened


def _integers(table: RawDynamicTable, name: str, dataset: Dataset) -> Iterator[tuple[int, np.ndarray]]:
    """The elements of a dataset of integers, some at a time, each with the number of the first; none if it is another
    dataset, or claims far more than is stored."""
    info = dataset.describe()
    if info.type.kind != "integer" or info.type.size > 8 or info.shape is None or len(info.shape) != 1:
        return
    n_elements, stored = info.shape[0], dataset.stored_bytes()
    if claims_too_much(n_elements * info.type.size, stored):
        return
    table.bytes_read += stored
    reader = ColumnReader(dataset_column(name, info, n_elements), dataset)
    for first in range(0, n_elements, _PIECE_ROWS):
        yield first, reader.numbers(first, min(_PIECE_ROWS, n_elements - first))[0].astype(np.int64)


def codes_have_elements(table: RawDynamicTable) -> Iterator[Breach]:
    """N6: the codes of an EnumData are numbers of its elements."""
    for column in table.info.members:
        values = table.group.open_dataset(column.name)
        if values is None or names.type_of(values) != names.ENUM_DATA:
            continue
        path = join_path(table.path, column.name)
        if column.problem is not None:
            yield Breach("error", path, f"its codes cannot be read: {column.problem}", column.problem)
            continue
        n_elements = _n_elements(column)
        for first, codes in _integers(table, column.name, values) if table.values else ():
            wrong = np.flatnonzero((codes < 0) | (codes >= n_elements))
            if len(wrong):
                table.broken.add(column.name)
                message = f"element {first + int(wrong[0])} is not the number of an element of {column.name}_elements"
                yield Breach("error", path, message, str(codes[wrong[0]]), f"0 to {n_elements - 1}")
                break


def _n_elements(column: ColumnInfo) -> int:
    while isinstance(column.form, Lists):
        column = column.form.items
    return 0 if column.categories is None else column.categories.n_categories


RULES: tuple[Rule, ...] = (
    Rule(
        "N1",
        "DynamicTable",
        "colnames is an array of distinct strings, and each names a dataset of the table.",
        "Write the column, or take its name out of colnames.",
        (columns_are_listed,),
    ),
    Rule(
        "N2",
        "DynamicTable: id",
        "A DynamicTable has id, a dataset of rank 1 of type ElementIdentifiers, with an integer per row.",
        "Write the table again.",
        (identifiers_are_integers,),
    ),
    Rule(
        "N3",
        "DynamicTable",
        "Every column, or the outermost VectorIndex of one with lists, has as many rows as id.",
        "Write the column again with the rows of the table.",
        (columns_have_the_rows,),
    ),
    Rule(
        "N4",
        "VectorIndex",
        "The elements of a VectorIndex never decrease; the last is the number of elements of its target.",
        "Write the column again: these lists cannot be told apart.",
        (lists_are_divided,),
        deep=True,
    ),
    Rule(
        "N5",
        "DynamicTableRegion",
        "A DynamicTableRegion refers to a DynamicTable, and holds numbers of its rows.",
        "Write the column again with the rows of its table.",
        (rows_are_of_the_table,),
        deep=True,
    ),
    Rule(
        "N6",
        "EnumData",
        "An EnumData has elements, and holds numbers of them.",
        "Write the column again.",
        (codes_have_elements,),
        deep=True,
    ),
    index_rule(
        "N7", "A search index of a DynamicTable names its column, refers to its rows, and matches them.", INDEXES
    ),
)


class DynamicTableRules(TableRules[RawDynamicTable]):
    NOT_SHOWN: Mapping[str, str] = MappingProxyType(
        {
            "types": "which types a column of an extension may have is in its specification, of which a file has only "
            "a cache",
        }
    )

    def inspect(self, group: Group, path: str, values: bool, _variant: object) -> RawDynamicTable:
        return raw.inspect(group, path, values)

    def claims(self, group: Group, path: str, _values: bool, _variant: object) -> Iterator[Broken]:
        """A group that lists columns and declares a type, but has no identifiers."""
        node = RawNode(group, path, "group")
        is_typed = any(node.text(name) is not None for name in names.TYPE_ATTRIBUTES)
        if node.attribute(names.COLUMN_LIST) is None or node.text(names.NAMESPACE) is None or not is_typed:
            return
        identifiers = group.open_dataset(names.IDENTIFIERS)
        there = "no such dataset" if identifiers is None else f"a dataset of type {names.type_of(identifiers)}"
        message = "this is meant as a DynamicTable, but has no identifiers of its rows"
        yield "N2", Breach("error", join_path(path, names.IDENTIFIERS), message, there, names.ELEMENT_IDENTIFIERS)

    def not_inspected(self, path: str, error: ColonnadeError) -> Broken:
        return "N1", Breach("error", path, f"this DynamicTable cannot be read: {error}", str(error))

    def unreadable(self, table: RawDynamicTable, column: ColumnInfo, error: ColonnadeError) -> Broken:
        rule = "N4" if isinstance(column.form, Lists) else "N6" if column.categories is not None else "N3"
        path = join_path(table.path, column.name)
        return rule, Breach("error", path, f"the values cannot be read: {error}", str(error))


PART = DynamicTableRules(RULES, INDEXES, "N7")
