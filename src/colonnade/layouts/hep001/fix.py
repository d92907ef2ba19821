"""Repairs of a HEP001 table that do not touch data: attributes, references, the order of columns.

Each function yields repairs that are planned but not applied yet. The repairs of a table are independent of each other,
so one plan contains all of them. The exception is search indexes: bad ones are removed before new ones are built
(`IndexPlan`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from colonnade.dataclass import dataclass
from colonnade.h5 import attributes
from colonnade.h5.attributes import Attribute
from colonnade.h5.links import children, dereference, exists, open_group, unlink
from colonnade.indexes import KINDS, refusal
from colonnade.layouts.hep001 import names, rules_indexes
from colonnade.layouts.hep001.raw import COLUMN_TEXTS, RawDataset, RawHep001Table
from colonnade.layouts.hep001.rules_attributes import flag_breaches, flag_of, reference_breaches, text_breaches, text_of
from colonnade.layouts.hep001.rules_categoricals import categories_say_what_they_are
from colonnade.layouts.hep001.rules_tables import (
    class_says_table,
    index_leads_to_rows,
    listed_order,
    order_is_stored_right,
    order_lists_every_column_once,
)
from colonnade.layouts.index_home import KIND, IndexPlan
from colonnade.model import Breach, Charset, Repair, shown_name
from colonnade.nodes import Group, Node


def repairs(table: RawHep001Table, lost: Collection[int]) -> list[Repair]:
    """All repairs except those of search indexes. `lost` are the addresses of indexes that will be removed."""
    found = [*_class(table), *_version(table), *_texts(table), *_order(table), *_index_name(table)]
    found += [*_column_texts(table), *_categories(table), *_labels(table), *_kinds(table, lost)]
    return [*found, *_index_references(table, lost)]


def _fixes(rule: str, breaches: Iterable[Breach]) -> tuple[tuple[str, str], ...]:
    return tuple((rule, shown_name(path)) for path in dict.fromkeys(breach.path for breach in breaches))


# -- strings --


def _rewritten_text(
    rule: str, path: str, node: Node, name: str, held: Attribute | None, charset: Charset = "utf-8"
) -> Iterator[Repair]:
    """Store a string attribute again whose value is right but whose storage is wrong."""
    breaches = list(text_breaches(path, name, held, charset))
    text = text_of(held)
    if not breaches or text is None or any(breach.severity == "error" for breach in breaches):
        return
    if charset == "ascii" and not text.isascii():
        return
    summary = f"{name} is rewritten as a string of fixed length, {charset}"
    yield Repair(path, summary, _fixes(rule, breaches), partial(_write_text, node, name, text, charset))


def _write_text(node: Node, name: str, text: str, charset: Charset) -> bool:
    if not attributes.can_hold(node, len(text.encode())):
        return False
    attributes.write_text(node, name, text.split("\0", 1)[0], charset)
    return True


def _class(table: RawHep001Table) -> Iterator[Repair]:
    breaches = list(class_says_table(table))
    if breaches and text_of(table.attributes.get(names.CLASS)) == names.CLASS_VALUE:
        do = partial(_write_text, table.group, names.CLASS, names.CLASS_VALUE, "ascii")
        yield Repair(table.path, "CLASS is rewritten as 12 bytes of ASCII", _fixes("T1", breaches), do)


def _version(table: RawHep001Table) -> Iterator[Repair]:
    held = table.attributes.get(names.VERSION)
    if held is None:
        do = partial(_write_text, table.group, names.VERSION, names.VERSION_VALUE, "ascii")
        yield Repair(table.path, f"VERSION is written: {names.VERSION_VALUE}", (("T2", shown_name(table.path)),), do)
    else:
        yield from _rewritten_text("T2", table.path, table.group, names.VERSION, held, "ascii")


def _texts(table: RawHep001Table) -> Iterator[Repair]:
    for name in names.GROUP_ATTRIBUTES:
        if name not in (names.CLASS, names.VERSION, names.COLUMN_ORDER):
            yield from _rewritten_text("T3", table.path, table.group, name, table.attributes.get(name))


def _column_texts(table: RawHep001Table) -> Iterator[Repair]:
    for one in table.members:
        for name in COLUMN_TEXTS:
            yield from _rewritten_text("C7", one.path, one.dataset, name, one.attributes.get(name))


def _kinds(table: RawHep001Table, lost: Collection[int]) -> Iterator[Repair]:
    for one in rules_indexes.index_datasets(table):
        if one.address not in lost:
            yield from _rewritten_text("S3", one.path, one.dataset, KIND, one.attributes.get(KIND), "ascii")


# -- the order of columns, and the name of the first label --


def _order(table: RawHep001Table) -> Iterator[Repair]:
    breaches = [*order_is_stored_right(table), *order_lists_every_column_once(table)]
    if not breaches:
        return
    order = listed_order(table) or []
    columns = {one.name for one in table.columns}
    others = {name for name in table.datasets if name not in columns} - {one.name for one in table.categories}
    kept = [name for name in dict.fromkeys(order) if name in columns or name in others]
    wanted = [*kept, *(one.name for one in table.columns if one.name not in set(kept))]
    shown = ", ".join(shown_name(name) for name in wanted[:8]) + (", ..." if len(wanted) > 8 else "")
    do = partial(_write_order, table.group, wanted)
    yield Repair(table.path, f"column-order is rewritten: {shown}", _fixes("T4", breaches), do)


def _write_order(group: Group, order: Sequence[str]) -> bool:
    if not order:
        attributes.delete(group, names.COLUMN_ORDER)
        return True
    data = [name.encode("utf-8", "surrogateescape") for name in order]
    if not attributes.can_hold(group, len(data) * max(map(len, data))):
        return False
    attributes.write_byte_texts(group, names.COLUMN_ORDER, data)
    return True


def _index_name(table: RawHep001Table) -> Iterator[Repair]:
    breaches = list(index_leads_to_rows(table))
    if not breaches:
        return
    was = shown_name(text_of(table.attributes.get(names.INDEX)) or "")
    if table.labels:
        first = table.labels[0].name
        summary = f"_index, which was {was!r}, is set to the first label, {shown_name(first)!r}"
        do = partial(_write_text, table.group, names.INDEX, first, "utf-8")
    else:
        summary = f"_index, which was {was!r}, is removed"
        do = partial(_delete, table.group, names.INDEX)
    yield Repair(table.path, summary, _fixes("T5", breaches), do)


def _delete(node: Node, name: str) -> bool:
    attributes.delete(node, name)
    return True


# -- categories --


def _categories(table: RawHep001Table) -> Iterator[Repair]:
    for one in table.members:
        held = one.attributes.get(names.CATEGORIES)
        breaches = list(reference_breaches(one.path, names.CATEGORIES, held, scalar=True))
        if breaches and held is not None and held.is_references and len(held.values) == 1:
            do = partial(_write_reference, one.dataset, names.CATEGORIES, held.values[0])
            summary = "_categories is rewritten as one reference"
            if one.targets(names.CATEGORIES) != [None]:
                yield Repair(one.path, summary, _fixes("C7", breaches), do)
    reported = {breach.path for breach in categories_say_what_they_are(table)}
    for one in table.categories:
        if one.path in reported:
            yield from _marks_of_categories(one)


def _marks_of_categories(one: RawDataset) -> Iterator[Repair]:
    held, fixes = one.attributes.get(names.ENCODING_TYPE), (("C9", shown_name(one.path)),)
    utf8 = held is not None and held.type is not None and held.type.charset == "utf-8" and held.shape == ()
    if held is None or (text_of(held) == "categorical" and not utf8):
        do = partial(_write_text, one.dataset, names.ENCODING_TYPE, "categorical", "utf-8")
        yield Repair(one.path, "encoding-type is written: categorical", fixes, do)
    held = one.attributes.get(names.ORDERED)
    flag = False if held is None else flag_of(held)
    if flag is not None and list(flag_breaches(one.path, names.ORDERED, held)):
        summary = f"ordered is written as a boolean: {'TRUE' if flag else 'FALSE'}"
        yield Repair(one.path, summary, fixes, partial(_write_flag, one.dataset, flag))


def _write_flag(node: Node, flag: bool) -> bool:
    attributes.write_flag(node, names.ORDERED, flag)
    return True


def _write_reference(node: Node, name: str, reference: Any) -> bool:
    target = dereference(node, reference)
    if target is None:
        return False
    attributes.write_reference(node, name, target)
    return True


# -- references in both directions --


@dataclass(frozen=True)
class _Sides:
    """The references between columns and the other side (labels or indexes), as they are and as they must be."""

    columns: Sequence[RawDataset]
    others: Sequence[RawDataset]
    on_columns: str

    def _can_be_written(self, one: RawDataset, name: str) -> bool:
        held = one.attributes.get(name)
        return held is None or held.is_references

    def wanted(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """The references that the columns and the other side must have: the union of both sides, without duplicates.

        Each object keeps the order of its existing references.
        """
        columns = {one.address for one in self.columns if self._can_be_written(one, self.on_columns)}
        others = {one.address for one in self.others if self._can_be_written(one, names.COLUMNS_LIST)}
        by_column = {
            one.address: {place: None for place in one.targets(self.on_columns) if place in others}
            for one in self.columns
        }
        by_other = {
            one.address: {place: None for place in one.targets(names.COLUMNS_LIST) if place in columns}
            for one in self.others
        }
        for column, places in by_column.items():
            for place in places:
                if place is not None and column in columns:
                    by_other[place].setdefault(column)
        for other, places in by_other.items():
            for place in places:
                if place is not None and other in others:
                    by_column[place].setdefault(other)
        return (
            {one: [place for place in places if place is not None] for one, places in by_column.items()},
            {one: [place for place in places if place is not None] for one, places in by_other.items()},
        )


def _rewritten_references(
    rules: tuple[str, ...], one: RawDataset, name: str, wanted: list[int], nodes: dict[int | None, RawDataset]
) -> Iterator[Repair]:
    held = one.attributes.get(name)
    if held is not None and not held.is_references:
        return
    if held is None and not wanted:
        return
    stored_right = held is None or not list(reference_breaches(one.path, name, held, scalar=False))
    if stored_right and one.targets(name) == wanted:
        return
    shown = ", ".join(shown_name(nodes[place].name) for place in wanted[:8]) + (", ..." if len(wanted) > 8 else "")
    summary = f"{name} is rewritten: {shown or 'no references'}"
    fixes = tuple((rule, shown_name(one.path)) for rule in rules)
    do = partial(_write_references, one.dataset, name, [nodes[place].dataset for place in wanted])
    yield Repair(one.path, summary, fixes, do)


def _write_references(node: Node, name: str, targets: Sequence[Any]) -> bool:
    if not attributes.can_hold(node, 8 * len(targets)):
        return False
    if targets or name == names.COLUMNS_LIST:
        attributes.write_references(node, name, targets)
    else:
        attributes.delete(node, name)
    return True


def _labels(table: RawHep001Table) -> Iterator[Repair]:
    """I1, I2, C7: the references from columns to labels and back."""
    sides = _Sides(table.members, table.members, names.INDEXES)
    by_column, by_label = sides.wanted()
    for one in table.members:
        yield from _rewritten_references(("I2", "C7"), one, names.INDEXES, by_column[one.address], table.by_address)
        yield from _rewritten_references(("I1", "I2"), one, names.COLUMNS_LIST, by_label[one.address], table.by_address)


def _index_references(table: RawHep001Table, lost: Collection[int]) -> Iterator[Repair]:
    """S2, C7: the references from columns to indexes that are not removed, and from these indexes to columns."""
    kept = [one for one in rules_indexes.index_datasets(table) if one.address not in lost and KIND in one.attributes]
    sides = _Sides(table.members, kept, names.SEARCH_INDEXES)
    by_column, by_index = sides.wanted()
    others = {place for one in table.indexes.values() if KIND not in one.attributes for place in [one.address]}
    for one in table.members:
        wanted = by_column[one.address]
        stay = [place for place in dict.fromkeys(one.targets(names.SEARCH_INDEXES)) if place in others]
        wanted = [*wanted, *(place for place in stay if place is not None)]
        if set(one.targets(names.SEARCH_INDEXES)) & set(lost):
            continue  # rewritten when those indexes are removed
        yield from _rewritten_references(("S2", "C7"), one, names.SEARCH_INDEXES, wanted, table.index_by_address)
    for one in kept:
        yield from _rewritten_references(
            ("S2",), one, names.COLUMNS_LIST, by_index[one.address], table.member_by_address
        )


# -- search indexes --


def bad_indexes(table: RawHep001Table, wrong: Collection[str]) -> list[IndexPlan]:
    """The indexes of known kinds to remove. `wrong` are the names of those whose contents are wrong."""
    reported = _reported(table)
    referring: dict[int | None, list[str]] = {}
    for one in table.members:
        for place in dict.fromkeys(one.targets(names.SEARCH_INDEXES)):
            referring.setdefault(place, []).append(one.name)
    misplaced = [table.datasets[name] for name in sorted(table.misplaced)]
    found = []
    for one in (*rules_indexes.index_datasets(table), *misplaced):
        kind = rules_indexes.kind_of(one)
        column = rules_indexes.column_of(table, one)
        linked = column is not None and referring.get(one.address, []) == [column.name]
        bad = reported.get(one.path, ()) + ((("S8", shown_name(one.path)),) if one.name in wrong else ())
        if kind is None or (linked and not bad):
            continue
        sides = [column.name] if column is not None else referring.get(one.address, [])
        paths = {one.path, *(table.datasets[name].path for name in referring.get(one.address, []))}
        paths |= {column.path} if column is not None else set()
        fixes = bad + tuple(("S2", shown_name(path)) for path in sorted(paths) if not linked)
        found.append(IndexPlan(one.name, one.path, one.address, kind.word, _buildable(table, sides), fixes))
    return found


def _reported(table: RawHep001Table) -> dict[str, tuple[tuple[str, str], ...]]:
    """The breaches of rule S1 and of the rules of all kinds by path of the index, without notes."""
    checks: list[tuple[str, Callable[[RawHep001Table], Iterator[Breach]]]] = [
        ("S1", rules_indexes.all_indexes_are_in_one_place),
        *((kind.rule, partial(rules_indexes.indexes_suit, kind)) for kind in KINDS.values()),
    ]
    reported: dict[str, tuple[tuple[str, str], ...]] = {}
    for rule, check in checks:
        for breach in check(table):
            if breach.severity != "note":
                reported[breach.path] = (*reported.get(breach.path, ()), (rule, shown_name(breach.path)))
    return reported


def _buildable(table: RawHep001Table, columns: Sequence[str]) -> str | None:
    """The one column that an index can be built for; None if there is none or more than one."""
    if len(columns) != 1 or refusal(table.info.by_name[columns[0]]) is not None:
        return None
    return columns[0]


def remove_indexes(table: RawHep001Table, gone: Sequence[IndexPlan]) -> None:
    """Remove indexes, their values, and every reference to them."""
    lost = {plan.address for plan in gone}
    misplaced = [table.datasets[plan.name] for plan in gone if plan.name in table.misplaced]
    values = {
        place
        for one in (*table.indexes.values(), *misplaced)
        if one.address in lost
        for place in one.targets("_values")
    }
    home = open_group(table.group, names.SEARCH_INDEXES) if exists(table.group, names.SEARCH_INDEXES) else None
    for one in table.indexes.values():
        if home is not None and (one.address in lost or one.address in values):
            unlink(home, one.name)
    for one in misplaced:
        unlink(table.group, one.name)
    for one in table.members:
        targets = dict.fromkeys(one.targets(names.SEARCH_INDEXES))
        if lost & set(targets):
            left = [place for place in targets if place in table.index_by_address and place not in lost]
            nodes = [table.index_by_address[place].dataset for place in left]
            _write_references(one.dataset, names.SEARCH_INDEXES, nodes)
    if home is not None and not children(home):
        unlink(table.group, names.SEARCH_INDEXES)
