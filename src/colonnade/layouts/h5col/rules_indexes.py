"""Rules on the search indexes of H5Col, JS2 to JS11 and JG4, as far as headers and attributes show.

The index kind itself decides whether an index matches its column, so that the checker and the queries agree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from colonnade.indexes import kind_in_file, names_in_files, refusal
from colonnade.indexes.base import BAD_INDEX
from colonnade.layouts.h5col import names
from colonnade.layouts.h5col.raw import RawH5colTable
from colonnade.layouts.h5col.search import detach_index, drop_reference
from colonnade.layouts.index_home import IndexPlan, PlacedIndex, values_of
from colonnade.model import Breach, Severity, shown_name
from colonnade.nodes.paths import editable, is_dataset, join_path

_JULY_RULES = {"S4": "JS7", "S5": "JS8", "S6": "JS10", "S7": "JS11"}  # by the rule of April about the same kind


def path_of(table: RawH5colTable, index: PlacedIndex) -> str:
    return join_path(table.path_of(names.SEARCH_INDEXES), index.name)


def indexes_belong_to_one_column(table: RawH5colTable) -> Iterator[Breach]:
    """JS2: exactly one column lists an index."""
    for index in table.placed:
        if index.problem is not None and not index.is_stale and index.kind:
            is_orphan = index.column is None and "no column" in index.problem
            message = f"the index is not used: {index.problem}"
            severity: Severity = "note" if is_orphan else "error"
            yield Breach(severity, path_of(table, index), message, index.problem, "one column")


def indexes_declare_their_kind(table: RawH5colTable) -> Iterator[Breach]:
    """JS3: an index has a KIND, and the values of a bitmap have none."""
    for index in table.placed:
        path = path_of(table, index)
        if not index.kind:
            yield Breach("error", path, "an index without KIND", "no such attribute", "a KIND")
        elif kind_in_file(index.kind) is None:
            message = "an index of an unknown kind: it is kept, but not used"
            yield Breach("note", path, message, repr(index.kind), f"one of {names_in_files()}")
        for node in values_of(index.dataset, "july"):
            if is_dataset(node) and node.attribute_storage(names.KIND_ATTRIBUTE) is not None:
                message = "the values of a bitmap have a KIND, as if they were an index"
                yield Breach("error", path, message, "a KIND", "no such attribute")


def indexes_are_current(table: RawH5colTable) -> Iterator[Breach]:
    """JG4: an index describes the current state of the table. One that does not is stale, which is allowed."""
    for index in table.placed:
        if index.is_stale:
            yield Breach(
                "note",
                path_of(table, index),
                f"the index is not used: {index.problem}",
                "a stale index",
                "a current one",
            )


def _rule_of(index: PlacedIndex) -> str:
    """The rule about the stored form of indexes of this kind."""
    kind = kind_in_file(index.kind)
    return "JS3" if kind is None else _JULY_RULES.get(kind.rule, "JS3")


def _shape_problem(table: RawH5colTable, index: PlacedIndex) -> str | None:
    """Why an index of the current state does not match its column; None when it does."""
    kind = kind_in_file(index.kind)
    if index.problem is not None or index.column is None or kind is None:
        return None
    column = table.info.by_name[index.column]
    try:
        return refusal(column) or kind.open(index.dataset, column, None, "july").problem()
    except BAD_INDEX as error:
        return str(error)


def indexes_suit(table: RawH5colTable, rule: str) -> Iterator[Breach]:
    """JS7 to JS11: an index of a kind has its shape and its attributes."""
    for index in table.placed:
        problem = _shape_problem(table, index) if _rule_of(index) == rule else None
        if problem is not None:
            path, message = path_of(table, index), f"the index is not used: {problem}"
            yield Breach("error", path, message, problem, "an index of this column")


def index_plans(table: RawH5colTable, wrong: Collection[str]) -> list[IndexPlan]:
    """The indexes to remove. Those of unknown kinds are kept; stale ones are built again."""
    plans = []
    for index in table.placed:
        kind, path = kind_in_file(index.kind), path_of(table, index)
        rules = ["S8"] if index.name in wrong else []
        if _shape_problem(table, index) is not None:
            rules.append(_rule_of(index))
        if index.problem is not None:
            rules.append("JG4" if index.is_stale else "JS2" if index.kind else "JS3")
        if not rules or (kind is None and index.kind):
            continue
        can = kind is not None and index.column is not None and refusal(table.info.by_name[index.column]) is None
        fixes = tuple((rule, shown_name(path)) for rule in rules)
        word = "" if kind is None else kind.word
        plans.append(IndexPlan(index.name, path, index.dataset.address, word, index.column if can else None, fixes))
    return plans


def remove_indexes(table: RawH5colTable, gone: Sequence[IndexPlan]) -> None:
    """Remove indexes, their values, and the references to them."""
    lost = {plan.address for plan in gone}
    for index in table.placed:
        address = index.dataset.address
        if address not in lost:
            continue
        detach_index(editable(table.group), index)
        for _, column in table.plain_columns() if index.column is None else ():  # several columns may list it
            if address in column.reference_addresses(names.SEARCH_INDEX_LIST):
                drop_reference(editable(table.group), editable(column), address)
