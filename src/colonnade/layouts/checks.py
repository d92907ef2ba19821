"""What each layout offers to who checks and mends files. Apart from the layouts, since reading needs none of it."""

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
    """A table as the rules of its layout see it; what each sees besides is its own affair.

    bytes_read: of the values that its rules read themselves, as stored.
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
    """A thing beside tables that was looked at."""

    bytes_read: int


@dataclass(frozen=True)
class Checks:
    """What a layout offers to who checks and mends files. A `look` is the table as the rules see it.

    rules: all of them; not_shown: numbers of rules that no file shows, and why.
    index_home: the group of a table that holds its search indexes.
    look, claims: given whether values may be read, and the generation whose rules apply, where that is not what the
    table says; only ArtifactDB has several.
    claims, dataset_claim: the rules that an object breaks that is no table but looks as if it was meant to be one.
    unseen: the rule that a table breaks that cannot be looked at.
    missing_is_described, unreadable: what the rules make of values.
    repairs: what can be mended but indexes, given the addresses of those that go.
    bad_indexes: the indexes that must go, given the names of those whose contents are wrong; remove_indexes does it.
    beside: what a group holds beside tables that has rules too, each thing with its breaches; given whether values are
    read, and whether the group is in a table, whose rows are read anyway. second_look: what is wrong with a table of
    another layout that says it is one of this layout too.
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
