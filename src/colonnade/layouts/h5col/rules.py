"""The numbered rules of H5Col as colonnade interprets them, with the functions that look for breaches.

Most breaches are seen when the table is described, for readers too; `_seen(rule)` yields those of one rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

import numpy as np

from colonnade import writing
from colonnade.columns.raw import read_stored
from colonnade.errors import ColonnadeError, CorruptError, UnsupportedError
from colonnade.layouts.frame_parts import Unfit
from colonnade.layouts.h5col import names, raw, rules_indexes, rules_storage
from colonnade.layouts.h5col.lists import Level, ListElements, read_levels
from colonnade.layouts.h5col.raw import RawH5colTable
from colonnade.layouts.index_home import IndexPlan
from colonnade.model import Breach, ColumnInfo, Lists, Repair, Rule, run_check
from colonnade.nodes import Group
from colonnade.nodes.elements import claims_too_much
from colonnade.nodes.paths import editable
from colonnade.nodes.protocols import Child

_PIECE_ROWS = 1 << 18  # offsets that are compared with a mask together
Look = Callable[[RawH5colTable], Iterator[Breach]]


def _seen(rule: str, requires: str) -> Look:
    """The breaches of a rule that were noted when the table was described."""

    def look(table: RawH5colTable) -> Iterator[Breach]:
        for finding in table.info.problems:
            if finding.rule == rule:
                found, expected = finding.found or finding.message, finding.expected or requires
                yield Breach(finding.severity, finding.path, finding.message, found, expected)

    return look


def null_lists_are_empty(table: RawH5colTable) -> Iterator[Breach]:
    """JL6: a null entry of a list column owns no elements."""
    for column in table.info.members:
        if not table.values or column.problem is not None or not isinstance(column.row_form, Lists):
            continue
        group = table.group.open_group(column.name)
        try:
            level: Level | ListElements = read_levels(group, _ignore) if group is not None else _no_group()
        except Unfit:
            continue
        n_rows = table.info.n_rows
        while isinstance(level, Level):
            row = _null_with_elements(table, level, n_rows)
            if row is not None:
                message = f"entry {row} is null, and owns elements"
                yield Breach("warning", table.path_of(column.name), message, "elements", "no elements")
                break
            n_rows, level = level.capacity if level.is_text else _capacity(level.values), level.values


def _ignore(_rule: str, _severity: str, _message: str) -> None:
    """These problems were noted before."""


def _no_group() -> Level:
    raise Unfit("it is no longer in the file")


def _capacity(values: Level | ListElements) -> int:
    return values.capacity if isinstance(values, Level) else 0


def _null_with_elements(table: RawH5colTable, level: Level, n_rows: int) -> int | None:
    """The first null entry of a level that owns elements."""
    stored = level.offsets.stored_bytes()
    if level.mask is None or claims_too_much(8 * n_rows, stored):
        return None
    table.bytes_read += stored
    for first in range(0, n_rows, _PIECE_ROWS):
        count = min(_PIECE_ROWS, n_rows - first)
        offsets = read_stored(level.offsets, first, count + 1)
        wrong = np.flatnonzero((offsets[1:] != offsets[:-1]) & (read_stored(level.mask, first, count) == 0))
        if len(wrong):
            return first + int(wrong[0])
    return None


_WRITE = "Write the table again with colonnade."
_FIX = "`colonnade fix` corrects it."
_INDEX = "`colonnade fix` rebuilds or drops the index. No data is lost: an index holds none."
_PROGRAM = "Correct it with the program that wrote the file."


def _rule(rule: str, requires: str, advice: str, *looks: Look, deep: bool = False) -> Rule:
    return Rule(rule, f"H5Col {rule}", requires, advice, (_seen(rule, requires), *looks), deep)


RULES: tuple[Rule, ...] = (
    _rule(
        "JT1",
        "CLASS is a scalar of 13 bytes of ASCII, null-terminated: COLUMN_TABLE.",
        _FIX,
        rules_storage.class_is_stored_exactly,
    ),
    _rule(
        "JT2",
        "VERSION is a scalar of fixed-length ASCII: two numbers, the first of which is 1.",
        _FIX,
        rules_storage.version_is_stored_exactly,
    ),
    _rule("JT3", "NROWS is a scalar uint64: the number of rows.", _PROGRAM),
    _rule(
        "JT4",
        "Strings of a table are scalars of fixed-length UTF-8.",
        _FIX,
        rules_storage.texts_are_fixed,
    ),
    _rule("JT5", "column-order names every column once, and nothing else.", _FIX),
    _rule(
        "JT7",
        "The group of a table holds its columns, categories and search indexes, and nothing else.",
        "Move the object out of the group.",
        rules_storage.categories_are_datasets,
    ),
    _rule(
        "JR1",
        "References are of the type H5T_STD_REF.",
        "Nothing to do: h5py and h5col read and write only the older type.",
        rules_storage.references_are_of_the_new_form,
    ),
    _rule(
        "JR3",
        "A reference leads to an object of its table, in the right place.",
        _PROGRAM,
        rules_storage.references_lead_into_the_table,
    ),
    _rule(
        "JB2",
        "`ordered` and `exhaustive` are booleans: the enum FALSE, TRUE.",
        _PROGRAM,
        rules_storage.flags_are_booleans,
    ),
    _rule("JB3", "A boolean is 0 or 1.", "Write the values of the column again.", deep=True),
    _rule("JB4", "A boolean column has no fill value of its own.", _WRITE),
    _rule("JC1", "A column is a dataset of rank 1, or a list column, reached by a hard link.", _PROGRAM),
    _rule("JC4", "The values of a column can be read.", _PROGRAM, deep=True),
    _rule("JC6", "All datasets of columns have one length, which is at least NROWS.", _PROGRAM),
    _rule("JM1", "Every column but a boolean one has a fill value of its own.", "Rows of it cannot be missing."),
    _rule(
        "JM3",
        "valid_min and valid_max are of the column's type, and leave the fill out.",
        _PROGRAM,
        rules_storage.ranges_leave_the_fill_out,
    ),
    _rule(
        "JM6",
        "The fill of an enum is its member MISSING.",
        _WRITE,
        rules_storage.enums_have_a_missing_member,
    ),
    _rule("JM8", "No column has the attribute MASK.", _PROGRAM),
    _rule("JK1", "A categorical column holds integer codes.", _PROGRAM),
    _rule("JK3", "CATEGORIES refers to a dataset of rank 1 in the table's group CATEGORIES.", _PROGRAM),
    _rule(
        "JK4",
        "Each dataset in CATEGORIES is referred to by a column.",
        _FIX,
        rules_storage.categories_are_used,
    ),
    _rule("JK5", "The fill of codes is not the code of a category.", _PROGRAM),
    _rule("JK6", "Every code is that of a category, or the fill.", _PROGRAM, deep=True),
    _rule("JL1", "A group named in column-order has the CLASS LIST_COLUMN.", _PROGRAM),
    _rule("JL2", "The KIND of a list column is OFFSETS.", _PROGRAM),
    _rule("JL3", "A level of a list column has OFFSETS, VALUES and perhaps MASK, and nothing else.", _PROGRAM),
    _rule("JL4", "OFFSETS are uint64, begin with 0 and never decrease.", _PROGRAM, deep=True),
    _rule("JL5", "VALUES is a dataset of rank 1, a level of lists, or STRING_VALUES.", _PROGRAM),
    _rule("JL6", "A null list owns no elements.", _PROGRAM, null_lists_are_empty, deep=True),
    _rule("JL9", "The bytes of strings are UTF-8, in a dataset of uint8.", _PROGRAM, deep=True),
    _rule("JL10", "No datatype of variable length is in a list column.", _WRITE),
    _rule("JL11", "A list column has no search index.", _PROGRAM),
    _rule("JL14", "The elements of lists are not categorical.", _WRITE),
    _rule("JI1", "INDEX_COLUMNS refers to columns of the table that are not list columns.", _PROGRAM),
    _rule("JI3", "_index is the name of the first label.", _FIX),
    _rule("JS1", "SEARCH_INDEXES holds index datasets only.", _PROGRAM, rules_storage.indexes_are_datasets),
    _rule("JS2", "Exactly one column lists a search index.", _INDEX, rules_indexes.indexes_belong_to_one_column),
    _rule("JS3", "A search index has a KIND; its values have none.", _INDEX, rules_indexes.indexes_declare_their_kind),
    _rule(
        "JS7",
        "CHUNK_MINMAX has one entry per chunk with rows: min, max, nan_count, fill_count, n.",
        _INDEX,
        partial(rules_indexes.indexes_suit, rule="JS7"),
    ),
    _rule(
        "JS8",
        "SORTED_ROWS has one row number per row, ordered, and the lengths of its tails.",
        _INDEX,
        partial(rules_indexes.indexes_suit, rule="JS8"),
    ),
    _rule(
        "JS10",
        "BITMAP has one row of bits for each value of the dataset that VALUES refers to.",
        _INDEX,
        partial(rules_indexes.indexes_suit, rule="JS10"),
    ),
    _rule(
        "JS11",
        "CHUNK_BLOOM has one filter per chunk with rows, k, m_bits, hash_family and seed.",
        _INDEX,
        partial(rules_indexes.indexes_suit, rule="JS11"),
    ),
    _rule(
        "JG4",
        "SOURCE_GENERATION and SOURCE_NROWS of an index are GENERATION and NROWS of its table.",
        "Nothing to do: a stale index is not used. `colonnade fix` builds it again.",
        rules_indexes.indexes_are_current,
    ),
    _rule("JX4", "The levels of a list column end, after at most 32 levels.", "Do not trust this file."),
    _rule("JN1", "No column has a reserved name.", "Rename the column.", rules_storage.names_are_free),
)

NOT_SHOWN: dict[str, str] = {
    "JG2": "whether GENERATION grew with every change shows only while the file is changed",
    "JG5": "in which order a writer writes shows only while it writes",
    "JW1": "in which order rows are appended shows only while they are",
    "JS5": "whether an index was deleted and made again shows only while it is",
}
INDEX_HOME = names.SEARCH_INDEXES


def variant(_text: str) -> None:
    """H5Col has one set of rules."""


def inspect(group: Group, path: str, values: bool, _variant: object) -> RawH5colTable:
    """The table as its rules check it."""
    return raw.inspect(group, path, values)


def claims(_group: Group, _path: str, _values: bool, _variant: object) -> Iterator[tuple[str, Breach]]:
    """Nothing: what is almost a table is named by the rules of HEP001, of which this is a revision."""
    return iter(())


def dataset_claim(_group: Group, _path: str, _child: Child) -> None:
    """None: the rules of HEP001 name a dataset that claims to be a table."""


def not_inspected(path: str, error: ColonnadeError) -> tuple[str, Breach]:
    """The rule broken by a table that cannot be read at all."""
    rule = "JT2" if isinstance(error, UnsupportedError) else "JT3"
    return rule, Breach(
        "error",
        path,
        f"this table cannot be read, and is not checked: {error}",
        str(error),
        "a table that can be described",
    )


def unreadable(table: RawH5colTable, column: ColumnInfo, error: ColonnadeError) -> tuple[str, Breach]:
    """The rule broken by a column whose values cannot be read."""
    is_list, is_boolean = isinstance(column.row_form, Lists), column.type.kind == "boolean"
    is_text = is_list and isinstance(error, CorruptError) and error.expected == "a string in UTF-8"
    rule = (
        "JL9"
        if is_text
        else "JL4"
        if is_list
        else "JK6"
        if column.categories is not None
        else "JB3"
        if is_boolean
        else "JC4"
    )
    return rule, Breach(
        "error",
        table.path_of(column.name),
        f"the values cannot be read: {error}",
        str(error),
        "values that can be read",
    )


def missing_is_described(_table: RawH5colTable, _column: ColumnInfo) -> None:
    """None: the fill alone marks missing rows."""


def other_objects(*_where: object) -> Iterator[tuple[RawH5colTable, list[tuple[str, Breach]]]]:
    """Nothing: only tables have rules."""
    return iter(())


def other_table(_group: Group, _path: str) -> Iterator[tuple[str, Breach]]:
    """Nothing: a table of another layout is not checked as one of H5Col."""
    return iter(())


def bad_indexes(table: RawH5colTable, wrong: Collection[str]) -> list[IndexPlan]:
    """The indexes to remove. `wrong` are the names of those whose contents are wrong."""
    return rules_indexes.index_plans(table, wrong)


def remove_indexes(table: RawH5colTable, gone: Sequence[IndexPlan]) -> None:
    """Remove indexes and their values."""
    rules_indexes.remove_indexes(table, gone)


# -- repairs: what needs no data --


def repairs(table: RawH5colTable, _removed_indexes: Collection[int]) -> list[Repair]:
    """Everything that can be corrected except indexes."""
    broken = {
        (rule.id, breach.path)
        for rule in RULES
        if rule.id in ("JT1", "JT2", "JT4", "JT5", "JI3", "JK4")
        for check in rule.checks
        for breach in run_check(check, table)
        if breach.severity != "note"
    }
    planned = list(_of_group(table, table.path, broken))
    for rule, path in sorted(broken):
        if rule == "JK4":
            name = path.rsplit("/", 1)[-1]
            do = partial(_drop_categories, table.group, name)
            planned.append(Repair(path, "the categories are dropped: no column uses them", ((rule, path),), do))
    return planned


def _of_group(table: RawH5colTable, path: str, broken: set[tuple[str, str]]) -> Iterator[Repair]:
    attributes_of: dict[str, tuple[str, ...]] = {"JT1": (names.CLASS,), "JT2": (names.VERSION,)}
    attributes_of["JT4"] = (names.TITLE, names.DESCRIPTION, names.UNITS_VOCABULARY, names.INDEX)
    for rule, attributes in attributes_of.items():
        known = [(name, table.text(name)) for name in attributes]
        strings = [(name, text) for name, text in known if text is not None and "\0" not in text]
        if rule == "JT2" and not all(text.startswith("1.") for _, text in strings):
            continue  # what is meant is not known
        if (rule, path) in broken and strings:
            do = partial(_write_texts, table.group, strings, rule)
            yield Repair(path, f"{', '.join(name for name, _ in strings)} written again", ((rule, path),), do)
    orders = tuple(fix for fix in sorted(broken) if fix[0] == "JT5")
    if orders:
        order = table.info.column_names
        yield Repair(path, "column-order is written again", orders, partial(_write_order, table.group, order))
    if ("JI3", path) in broken and table.info.label_names:
        label = table.info.label_names[0]
        do = partial(_write_texts, table.group, [(names.INDEX, label)], "JI3")
        yield Repair(path, f"_index is written again: {label!r}", (("JI3", path),), do)


def _write_texts(group: Group, strings: Sequence[tuple[str, str]], rule: str) -> bool:
    for name, text in strings:
        if rule == "JT1":
            writing.write_terminated(editable(group), name, text)
        else:
            writing.write_text(editable(group), name, text, "ascii" if rule == "JT2" else "utf-8")
    return True


def _write_order(group: Group, order: Sequence[str]) -> bool:
    writing.write_texts(editable(group), names.COLUMN_ORDER, order)
    return True


def _drop_categories(group: Group, name: str) -> bool:
    home = group.open_group(names.CATEGORIES)
    if home is None or not home.has_link(name):
        return False
    writing.unlink(editable(home), name)
    return True
