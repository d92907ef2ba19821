"""The numbered rules of HEP001 as colonnade interprets them, with the functions that look for breaches.

The numbers are those of docs/checking.md: T the table group, C columns, I labels, S search indexes, M changes; H1 is a
precondition of all others. A rule without functions is checked by the code that walks over the file (T6) or reads
values (C6, S8), or it cannot be checked: `NOT_SHOWN` explains why. To add a rule, add a function and an entry here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from colonnade.indexes import KINDS
from colonnade.layouts.hep001 import fix, names, raw, rules_values
from colonnade.layouts.hep001 import rules_categoricals as categoricals
from colonnade.layouts.hep001 import rules_columns as columns
from colonnade.layouts.hep001 import rules_indexes as indexes
from colonnade.layouts.hep001 import rules_labels as labels
from colonnade.layouts.hep001 import rules_tables as tables
from colonnade.layouts.hep001.raw import RawHep001Table
from colonnade.model import Breach, Rule
from colonnade.nodes import Group

_MEND = "`colonnade fix` repairs it."
_REBUILD = "`colonnade fix` rebuilds or drops the index. No data is lost: an index holds none."

RULES: tuple[Rule, ...] = (
    Rule(
        "H1",
        "2",
        "HDF5 can read the file: links lead to objects; headers, attributes and rows can be read.",
        "Get the file again from its source or from a backup.",
        (tables.everything_can_be_read,),
        deep=True,
    ),
    Rule(
        "T1",
        "5.1",
        "CLASS is a scalar ASCII string of 12 bytes, COLUMN_TABLE, on the group of a table and on nothing else.",
        _MEND,
        (tables.class_says_table,),
    ),
    Rule(
        "T2",
        "5.2",
        "VERSION is a scalar ASCII string of fixed length, 1.0.",
        "If the table follows this revision, write VERSION as the ASCII string 1.0.",
        (tables.version_is_known,),
    ),
    Rule(
        "T3",
        "5.3",
        "String attributes of the table (TITLE, description, _index, units_vocabulary, encoding-type, "
        "encoding-version) are scalar UTF-8 strings of fixed length.",
        _MEND,
        (tables.texts_are_stored_right,),
    ),
    Rule(
        "T4",
        "5.3, 9.6",
        "column-order is a 1-D array of UTF-8 strings that lists every column once and nothing else.",
        _MEND,
        (tables.order_is_stored_right, tables.order_lists_every_column_once),
    ),
    Rule("T5", "5.3", "_index names a column or a label of the table.", _MEND, (tables.index_leads_to_rows,)),
    Rule(
        "T6",
        "5.4",
        "Tables may be anywhere in the file; links to other files are not followed.",
        "Check the other file separately.",
    ),
    Rule(
        "T7",
        "4",
        "The group of a table contains only the table's own objects.",
        "The object is left alone. Move it elsewhere if it is not meant to be there.",
        (tables.foreign_objects,),
    ),
    Rule(
        "C1",
        "6.1, 9.1",
        "A column is a dataset of rank 1 directly in the table's group; all columns have the same length.",
        "Write the column again with the rows of the table.",
        (columns.columns_have_rank_one, columns.columns_have_one_length),
    ),
    Rule(
        "C2",
        "6.1",
        "A column's name is UTF-8, is not _search_indexes, and does not begin with an underscore.",
        "Rename the column.",
        (columns.names_are_allowed,),
    ),
    Rule(
        "C3",
        "3, 6.6",
        "A dataset that is marked as categories belongs to a column that refers to it.",
        "Refer to it from its column, or remove it.",
        (columns.categories_are_referred_to,),
    ),
    Rule(
        "C4",
        "6.2",
        "A column may have any HDF5 datatype; one without an in-memory type is read as raw bytes.",
        "No action is needed, unless you need its values.",
        (columns.types_are_mapped,),
    ),
    Rule(
        "C5",
        "6.3",
        "A column has its own storage, chunks and filters.",
        "Repack or copy the data into the file; install the missing filter.",
        (columns.rows_are_in_the_file,),
        deep=True,
    ),
    Rule(
        "C6",
        "6.4",
        "Missing rows are marked by the fill value set by the writer, which the description names.",
        "State in the description which value means missing.",
        deep=True,
    ),
    Rule(
        "C7",
        "6.5",
        "String attributes of a column are scalar UTF-8 strings of fixed length; its references are object references.",
        _MEND,
        (columns.column_attributes_are_stored_right,),
    ),
    Rule(
        "C8",
        "6.6",
        "A categorical holds integer codes: the number of a category, or -1 (unsigned: the fill value) for missing.",
        "Write the codes again.",
        (categoricals.codes_are_integers,),
        deep=True,
    ),
    Rule(
        "C9",
        "6.6, 9.5",
        "Categories are a dataset of rank 1 in the table's group, with encoding-type 'categorical' and a flag ordered.",
        "`colonnade fix` repairs the attributes; lost categories must be written again.",
        (categoricals.categories_are_there, categoricals.categories_say_what_they_are),
    ),
    Rule(
        "I1",
        "7.1",
        "A label is a dataset of rank 1 with the table's length, and refers to its columns in _columns_list.",
        _MEND,
        (labels.labels_have_the_rows, labels.labels_list_columns),
    ),
    Rule(
        "I2",
        "7.2, 9.2",
        "A label lists a column exactly when the column refers to it in _indexes.",
        _MEND,
        (labels.labels_and_columns_agree,),
    ),
    Rule(
        "I4",
        "5.3",
        "If there are labels, _index names the first.",
        "Set _index to the label that names the rows.",
        (labels.first_label_is_named,),
    ),
    Rule(
        "S1",
        "8.1",
        "The group _search_indexes holds every search index and nothing else.",
        "Move indexes into the group and other objects out of it.",
        (indexes.all_indexes_are_in_one_place,),
    ),
    Rule(
        "S2",
        "8.2, 9.3",
        "An index lists its one column exactly when the column refers to it in _search_indexes.",
        _MEND,
        (indexes.columns_and_indexes_agree,),
    ),
    Rule(
        "S3",
        "8.3, 9.4",
        "Every index has KIND, a scalar ASCII string of fixed length; unknown kinds are not used.",
        "An unknown kind needs no action; an index without KIND can only be removed.",
        (indexes.indexes_say_their_kind,),
    ),
    *(
        Rule(kind.rule, kind.clause, kind.requires, _REBUILD, (partial(indexes.indexes_suit, kind),))
        for kind in KINDS.values()
    ),
    Rule("S8", "12", "The contents of an index match its column.", _REBUILD, deep=True),
)

# Rules that no file can break, or whose breach a file cannot show.
NOT_SHOWN: dict[str, str] = {
    "I3": "a permission: a dataset may be column and label at once",
    "M1": "about changes: a change that breaks a rule shows as a breach of that rule",
    "M2": "about changes: an index that was not updated shows as a breach of S4 to S8",
    "M3": "about changes: a file does not show how it was written; a journal next to it is rolled back on opening",
}

INDEX_HOME = names.SEARCH_INDEXES
dataset_claim, not_inspected = tables.dataset_claim, tables.not_inspected
missing_is_described, unreadable = rules_values.missing_is_described, rules_values.unreadable
repairs, bad_indexes, remove_indexes = fix.repairs, fix.bad_indexes, fix.remove_indexes


def variant(_text: str) -> None:
    """HEP001 has one set of rules."""


def inspect(group: Group, path: str, _values: bool, _variant: object) -> RawHep001Table:
    """The table as its rules check it."""
    return raw.inspect(group, path)


def claims(group: Group, path: str, _values: bool, _variant: object) -> list[tuple[str, Breach]]:
    """The rule broken by a group that is not a table but seems to be meant as one."""
    found = tables.claim(group, path)
    return [] if found is None else [found]


def other_objects(*_where: object) -> Iterator[tuple[RawHep001Table, list[tuple[str, Breach]]]]:
    """Only tables have rules."""
    return iter(())


def other_table(_group: Group, _path: str) -> Iterator[tuple[str, Breach]]:
    """A table of another layout is not checked as a HEP001 table."""
    return iter(())
