"""What each layout provides for checking and fixing files. Separate from the layouts: reading does not need it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError
from colonnade.h5.links import Child
from colonnade.layouts.anndata import mend as anndata_mend
from colonnade.layouts.anndata import rules as anndata_rules
from colonnade.layouts.anndata import rules_frames
from colonnade.layouts.anndata import rules_values as anndata_values
from colonnade.layouts.anndata import seen as anndata_seen
from colonnade.layouts.artifactdb import mend as artifactdb_mend
from colonnade.layouts.artifactdb import names as artifactdb_names
from colonnade.layouts.artifactdb import rules as artifactdb_rules
from colonnade.layouts.artifactdb import rules_groups as artifactdb_groups
from colonnade.layouts.artifactdb import seen as artifactdb_seen
from colonnade.layouts.artifactdb.names import Generation, parse_generation
from colonnade.layouts.artifactdb.rules_documents import document_breaches
from colonnade.layouts.hep001 import mend, names, rules, rules_tables, rules_values, seen
from colonnade.layouts.index_home import IndexPlan
from colonnade.model import Breach, ColumnInfo, Repair, Rule, TableInfo

__all__ = ["CHECKS", "Checks", "Generation", "IndexPlan", "SeenTable", "document_breaches", "parse_generation"]


class SeenTable(Protocol):
    """A table in the form that the rules of its layout check. Each layout adds its own attributes.

    bytes_read: the stored size of the values that the rules themselves read.
    """

    group: Any
    path: str
    info: TableInfo
    bytes_read: int

    @property
    def n_columns(self) -> int: ...
    @property
    def n_attributes(self) -> int: ...
    def looked_at(self) -> set[str]:
        """The names of the columns whose values are to be checked."""


class Beside(Protocol):
    """A checked object that is not a table."""

    bytes_read: int


@dataclass(frozen=True)
class Checks:
    """What a layout provides for checking and fixing files.

    rules: all rules of the layout. not_shown: numbers of rules that cannot be checked from a file, and why.
    index_home: the name of the group that holds the search indexes of a table.
    look: reads a table into the form that the rules check.
    look, claims: take whether values may be read, and the generation whose rules apply if it is not the one the table
    declares (only ArtifactDB has several).
    claims, dataset_claim: the rules broken by an object that is not a table but seems to be meant as one.
    unseen: the rule broken by a table that cannot be read at all.
    missing_is_described, unreadable: the rules about values.
    repairs: everything that can be fixed except indexes; takes the addresses of the indexes that will be removed.
    bad_indexes: the indexes to remove; takes the names of those whose contents are wrong. remove_indexes removes them.
    beside: objects of a group that are not tables but have rules, each with its breaches; takes whether values are
    read, and whether the group is in a table, whose rows are read anyway.
    second_look: what is wrong with a table of another layout that also declares itself a table of this one.
    """

    rules: tuple[Rule, ...]
    not_shown: Mapping[str, str]
    index_home: str
    look: Callable[[Any, str, bool, Generation | None], SeenTable]
    claims: Callable[[Any, str, bool, Generation | None], Iterable[tuple[str, Breach]]]
    dataset_claim: Callable[[Any, str, Child], tuple[str, Breach] | None]
    unseen: Callable[[str, ColonnadeError], tuple[str, Breach]]
    missing_is_described: Callable[[Any, ColumnInfo], Breach | None]
    unreadable: Callable[[Any, ColumnInfo, ColonnadeError], tuple[str, Breach]]
    repairs: Callable[[Any, Collection[int]], list[Repair]]
    bad_indexes: Callable[[Any, Collection[str]], list[IndexPlan]]
    remove_indexes: Callable[[Any, Sequence[IndexPlan]], None]
    beside: Callable[[Any, str, bool, bool], Iterator[tuple[Beside, Sequence[tuple[str, Breach]]]]]
    second_look: Callable[[Any, str], Iterator[tuple[str, Breach]]]


def _at_most_one(found: tuple[str, Breach] | None) -> list[tuple[str, Breach]]:
    return [] if found is None else [found]


HEP001 = Checks(
    rules=rules.RULES,
    not_shown=rules.NOT_SHOWN,
    index_home=names.SEARCH_INDEXES,
    look=lambda group, path, *_: seen.look(group, path),
    claims=lambda group, path, *_: _at_most_one(rules_tables.claim(group, path)),
    dataset_claim=rules_tables.dataset_claim,
    unseen=rules_tables.unseen,
    missing_is_described=rules_values.missing_is_described,
    unreadable=rules_values.unreadable,
    repairs=mend.repairs,
    bad_indexes=mend.bad_indexes,
    remove_indexes=mend.remove_indexes,
    beside=lambda *_: iter(()),
    second_look=lambda *_: iter(()),
)
ANNDATA = Checks(
    rules=anndata_rules.RULES,
    not_shown=anndata_rules.NOT_SHOWN,
    index_home=names.SEARCH_INDEXES,
    look=lambda group, path, *_: anndata_seen.look(group, path),
    claims=lambda *_: (),
    dataset_claim=lambda *_: None,
    unseen=rules_frames.unseen,
    missing_is_described=lambda *_: None,
    unreadable=anndata_values.unreadable,
    repairs=lambda *_: [],
    bad_indexes=anndata_mend.bad_indexes,
    remove_indexes=anndata_mend.remove_indexes,
    beside=anndata_rules.beside,
    second_look=rules_frames.as_seen_by_anndata,
)
ARTIFACTDB = Checks(
    rules=artifactdb_rules.RULES,
    not_shown=artifactdb_rules.NOT_SHOWN,
    index_home=artifactdb_names.SEARCH_INDEXES,
    look=artifactdb_seen.look,
    claims=artifactdb_rules.claims,
    dataset_claim=lambda *_: None,
    unseen=artifactdb_groups.unseen,
    missing_is_described=lambda *_: None,
    unreadable=lambda frame, _column, error: artifactdb_groups.unseen(frame.path, error),
    repairs=artifactdb_mend.repairs,
    bad_indexes=artifactdb_mend.bad_indexes,
    remove_indexes=artifactdb_mend.remove_indexes,
    beside=lambda *_: iter(()),
    second_look=lambda *_: iter(()),
)
CHECKS: dict[str, Checks] = {"hep001": HEP001, "anndata": ANNDATA, "artifactdb": ARTIFACTDB}
