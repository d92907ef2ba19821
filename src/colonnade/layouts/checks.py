"""What each layout offers to who checks and mends files. Apart from the layouts, since reading needs none of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.errors import ColonnadeError
from colonnade.h5.links import Child
from colonnade.layouts.hep001 import mend, names, rules, rules_tables, rules_values, seen
from colonnade.layouts.hep001.mend import IndexPlan
from colonnade.layouts.hep001.seen import SeenTable
from colonnade.model import Breach, ColumnInfo, Repair, Rule

__all__ = ["CHECKS", "Checks", "IndexPlan", "SeenTable"]


@dataclass(frozen=True)
class Checks:
    """What a layout offers to who checks and mends files. A `look` is the table as the rules see it.

    rules: all of them; not_shown: numbers of rules that no file shows, and why.
    index_home: the group of a table that holds its search indexes.
    claim, dataset_claim: the rule that an object breaks that is no table but looks as if it was meant to be one.
    unseen: the rule that a table breaks that cannot be looked at.
    missing_is_described, unreadable: what the rules make of values.
    repairs: what can be mended but indexes, given the addresses of those that go.
    bad_indexes: the indexes that must go, given the names of those whose contents are wrong; remove_indexes does it.
    """

    rules: tuple[Rule, ...]
    not_shown: Mapping[str, str]
    index_home: str
    look: Callable[[Any, str], SeenTable]
    claim: Callable[[Any, str], tuple[str, Breach] | None]
    dataset_claim: Callable[[Any, str, Child], tuple[str, Breach] | None]
    unseen: Callable[[str, ColonnadeError], tuple[str, Breach]]
    missing_is_described: Callable[[SeenTable, ColumnInfo], Breach | None]
    unreadable: Callable[[SeenTable, ColumnInfo, ColonnadeError], tuple[str, Breach]]
    repairs: Callable[[SeenTable, Collection[int]], list[Repair]]
    bad_indexes: Callable[[SeenTable, Collection[str]], list[IndexPlan]]
    remove_indexes: Callable[[SeenTable, Sequence[IndexPlan]], None]


HEP001 = Checks(
    rules=rules.RULES,
    not_shown=rules.NOT_SHOWN,
    index_home=names.SEARCH_INDEXES,
    look=seen.look,
    claim=rules_tables.claim,
    dataset_claim=rules_tables.dataset_claim,
    unseen=rules_tables.unseen,
    missing_is_described=rules_values.missing_is_described,
    unreadable=rules_values.unreadable,
    repairs=mend.repairs,
    bad_indexes=mend.bad_indexes,
    remove_indexes=mend.remove_indexes,
)
CHECKS: dict[str, Checks] = {"hep001": HEP001}
