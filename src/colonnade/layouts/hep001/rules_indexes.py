"""The rules S1 to S7 for search indexes, as far as headers and attributes show. S8, the contents, needs the values.

The index kind itself decides whether an index matches its column, so that the checker and the queries agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from colonnade.columns.keys import domain_of
from colonnade.indexes import kind_in_file, names_in_files, refusal
from colonnade.indexes.base import BAD_INDEX, IndexAttribute, Kind
from colonnade.layouts.hep001 import names
from colonnade.layouts.hep001.raw import RawDataset, RawHep001Table
from colonnade.layouts.hep001.rules_attributes import (
    count_breaches,
    flag_breaches,
    reference_breaches,
    text_breaches,
    text_of,
)
from colonnade.layouts.index_home import KIND
from colonnade.model import Breach, ColumnInfo, shown_name

_HOME = f"the group {names.SEARCH_INDEXES}"


def values_datasets(table: RawHep001Table) -> set[int | None]:
    """The addresses of the values datasets of bitmaps."""
    return {place for node in table.indexes.values() for place in node.targets("_values")}


def index_datasets(table: RawHep001Table) -> list[RawDataset]:
    """The search indexes, without the values datasets of bitmaps."""
    values = values_datasets(table)
    return [node for node in table.indexes.values() if node.address not in values and node.problem is None]


def column_of(table: RawHep001Table, node: RawDataset) -> RawDataset | None:
    """The one column of an index; None if it does not refer to exactly one."""
    targets = node.targets(names.COLUMNS_LIST)
    return table.member_by_address.get(targets[0]) if len(targets) == 1 else None


def all_indexes_are_in_one_place(table: RawHep001Table) -> Iterator[Breach]:
    """S1: search indexes are in `_search_indexes`, which contains nothing else."""
    for child in table.index_children:
        if child.kind not in ("dataset", "broken"):
            where = f"{table.path.rstrip('/')}/{names.SEARCH_INDEXES}/{child.name}"
            yield Breach("error", where, f"a {child.kind} among the search indexes", child.kind, "index datasets only")
    for name in sorted(table.misplaced):
        message = "a search index among the columns"
        yield Breach("error", table.datasets[name].path, message, "in the table's group", f"in {_HOME}")


def columns_and_indexes_agree(table: RawHep001Table) -> Iterator[Breach]:
    """S2: an index lists a column exactly when the column refers to it. The four kinds list exactly one column."""
    listed = {node.address: set(node.targets(names.COLUMNS_LIST)) for node in table.indexes.values()}
    for node in index_datasets(table):
        yield from _columns_of_index(table, node)
    for node in table.members:
        yield from _indexes_of_column(table, node, listed)


def _columns_of_index(table: RawHep001Table, node: RawDataset) -> Iterator[Breach]:
    attribute = node.attributes.get(names.COLUMNS_LIST)
    expected = "a reference to one column of the table"
    if attribute is None:
        if KIND in node.attributes:
            yield Breach("error", node.path, "the index does not name its column", "no such attribute", expected)
        return
    yield from reference_breaches(node.path, names.COLUMNS_LIST, attribute, scalar=False)
    targets = node.targets(names.COLUMNS_LIST)
    if attribute.is_references and any(place not in table.member_by_address for place in targets):
        yield Breach(
            "error", node.path, "_columns_list refers to something else than a column", "another object", expected
        )
    elif attribute.is_references and len(targets) != 1 and kind_of(node) is not None:
        message = "an index of this kind must have exactly one column"
        yield Breach("error", node.path, message, f"{len(targets)} columns", expected)
    for place in dict.fromkeys(targets):
        column = table.member_by_address.get(place)
        if column is not None and node.address not in column.targets(names.SEARCH_INDEXES):
            message = f"index {node.name!r} lists this column, which does not refer back in {names.SEARCH_INDEXES}"
            yield Breach("error", column.path, message, "no reference", f"a reference to {node.name!r}")


def _indexes_of_column(table: RawHep001Table, node: RawDataset, listed: dict[int, set[int | None]]) -> Iterator[Breach]:
    counts = Counter(node.targets(names.SEARCH_INDEXES))
    for place, count in counts.items():
        index = table.index_by_address.get(place)
        misplaced = table.by_address.get(place)
        if misplaced is not None and misplaced.name in table.misplaced:
            continue  # reported by S1
        if index is None or place is None:
            message = f"{names.SEARCH_INDEXES} does not refer to a search index of this table"
            yield Breach("error", node.path, message, "a reference that leads elsewhere", f"datasets in {_HOME}")
        elif node.address not in listed[place] and names.COLUMNS_LIST in index.attributes:
            message = f"column {node.name!r} refers to this index, which does not list it"
            yield Breach("error", index.path, message, "not in _columns_list", f"a reference to {node.name!r}")
        if index is not None and count > 1:
            message = f"{names.SEARCH_INDEXES} names an index twice"
            yield Breach("warning", node.path, message, f"{index.name!r} {count} times", "each once")


def indexes_say_their_kind(table: RawHep001Table) -> Iterator[Breach]:
    """S3: KIND exists and is stored correctly. Unknown kinds are reported."""
    for node in index_datasets(table):
        attribute = node.attributes.get(KIND)
        if attribute is None:
            message = "an index without KIND, which is not the values of a bitmap either"
            yield Breach("error", node.path, message, "no such attribute", f"one of {names_in_files()}")
            continue
        yield from text_breaches(node.path, KIND, attribute, "ascii")
        text = text_of(attribute)
        if text is not None and kind_in_file(text) is None:
            message = "an index of an unknown kind: it is kept, but not used"
            yield Breach("note", node.path, message, repr(shown_name(text)), f"one of {names_in_files()}")


def kind_of(node: RawDataset) -> Kind | None:
    """The kind of an index; None if it is unknown."""
    return kind_in_file(text_of(node.attributes.get(KIND)))


def indexes_suit(kind: Kind, table: RawHep001Table) -> Iterator[Breach]:
    """S4 to S7: every index of this kind has the attributes and the form that its kind requires."""
    for node in index_datasets(table):
        if kind_of(node) is kind:
            breaches = [breach for required in kind.attributes for breach in _attribute(table, node, kind, required)]
            yield from breaches
            if all(breach.severity != "error" for breach in breaches):
                yield from _suits_its_column(table, node, kind)


def _attribute(table: RawHep001Table, node: RawDataset, kind: Kind, required: IndexAttribute) -> Iterator[Breach]:
    name, attribute = required.name, node.attributes.get(required.name)
    match required.holds:
        case "count":
            return count_breaches(node.path, name, attribute, required.size, required.scalar)
        case "flag":
            return flag_breaches(node.path, name, attribute)
        case "ascii":
            return text_breaches(node.path, name, attribute, "ascii")
        case "values":
            return _values_are_in_place(table, node, kind, name)


def _values_are_in_place(table: RawHep001Table, node: RawDataset, kind: Kind, name: str) -> Iterator[Breach]:
    attribute = node.attributes.get(name)
    expected = f"a scalar object reference to a dataset in {_HOME}"
    if attribute is None:
        message = f"the {kind.word} does not refer to its values"
        yield Breach("error", node.path, message, "no such attribute", expected)
        return
    yield from reference_breaches(node.path, name, attribute, scalar=True)
    if any(target not in table.index_by_address for target in node.targets(name)):
        message = f"the values of this {kind.word} are not in the group of search indexes"
        yield Breach("error", node.path, message, "a reference that leads elsewhere", expected)


def _suits_its_column(table: RawHep001Table, node: RawDataset, kind: Kind) -> Iterator[Breach]:
    """Why an index whose attributes are right cannot be used for its column."""
    column = column_of(table, node)
    if column is None:
        return  # reported by S2
    info = table.column_info(column)
    if info.problem is not None:
        return  # reported by C1, C8 or C9
    if domain_of(info.type) is None:
        message = f"column {column.name!r} cannot have an index: its values cannot be compared"
        yield Breach("error", node.path, message, str(info.type), "a type whose values can be ordered")
        return
    reason = refusal(info)
    if reason is not None:
        message = f"this index of column {column.name!r} is not used: {reason}"
        yield Breach("note", node.path, message, reason, "a column whose index can be used")
        return
    problem = _problem(node, info, kind)
    if problem is not None:
        message = f"the index does not match column {column.name!r}: {problem}"
        yield Breach("error", node.path, message, problem, f"a {kind.name} that matches this column")


def _problem(node: RawDataset, column: ColumnInfo, kind: Kind) -> str | None:
    try:
        return kind.open(node.opened, column, None, "april").problem()
    except BAD_INDEX as error:
        return str(error)
