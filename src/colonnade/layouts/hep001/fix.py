"""Repairs of a HEP001 table that do not touch data: attributes, references, the order of columns.

Each function yields repairs that are planned but not applied yet. The repairs of a table are independent of each other,
so one plan contains all of them. The exception is search indexes: bad ones are removed before new ones are built
(`IndexPlan`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

from colonnade import writing
from colonnade.dataclass import dataclass
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
from colonnade.nodes.paths import editable
from colonnade.nodes.protocols import Attribute


def repairs(table: RawHep001Table, lost: Collection[int]) -> list[Repair]:
    """All repairs except those of search indexes. `lost` are the addresses of indexes that will be removed."""
    found = [*_class(table), *_version(table), *_texts(table), *_order(table), *_index_name(table)]
    found += [*_column_texts(table), *_categories(table), *_labels(table), *_kinds(table, lost)]
    return [*found, *_index_references(table, lost)]


def _fixes(rule: str, breaches: Iterable[Breach]) -> tuple[tuple[str, str], ...]:
    return tuple((rule, shown_name(path)) for path in dict.fromkeys(breach.path for breach in breaches))


# -- strings --


def _rewritten_text(
    rule: str, path: str, node: Node | None, name: str, attribute: Attribute | None, charset: Charset = "utf-8"
) -> Iterator[Repair]:
    """Store a string attribute again whose value is right but whose storage is wrong."""
    breaches = list(text_breaches(path, name, attribute, charset))
    text = text_of(attribute)
    if node is None or not breaches or text is None or any(breach.severity == "error" for breach in breaches):
        return
    if charset == "ascii" and not text.isascii():
        return
    summary = f"{name} is rewritten as a string of fixed length, {charset}"
    yield Repair(path, summary, _fixes(rule, breaches), partial(_write_text, node, name, text, charset))


def _write_text(node: Node, name: str, text: str, charset: Charset) -> bool:
    if not writing.can_hold(editable(node), len(text.encode())):
        return False
    writing.write_text(editable(node), name, text.split("\0", 1)[0], charset)
    return True


def _class(table: RawHep001Table) -> Iterator[Repair]:
    breaches = list(class_says_table(table))
    if breaches and text_of(table.attributes.get(names.CLASS)) == names.CLASS_VALUE:
        do = partial(_write_text, table.group, names.CLASS, names.CLASS_VALUE, "ascii")
        yield Repair(table.path, "CLASS is rewritten as 12 bytes of ASCII", _fixes("T1", breaches), do)


def _version(table: RawHep001Table) -> Iterator[Repair]:
    attribute = table.attributes.get(names.VERSION)
    if attribute is None:
        do = partial(_write_text, table.group, names.VERSION, names.VERSION_VALUE, "ascii")
        yield Repair(table.path, f"VERSION is written: {names.VERSION_VALUE}", (("T2", shown_name(table.path)),), do)
    else:
        yield from _rewritten_text("T2", table.path, table.group, names.VERSION, attribute, "ascii")


def _texts(table: RawHep001Table) -> Iterator[Repair]:
    for name in names.GROUP_ATTRIBUTES:
        if name not in (names.CLASS, names.VERSION, names.COLUMN_ORDER):
            yield from _rewritten_text("T3", table.path, table.group, name, table.attributes.get(name))


def _column_texts(table: RawHep001Table) -> Iterator[Repair]:
    for node in table.members:
        for name in COLUMN_TEXTS:
            yield from _rewritten_text("C7", node.path, node.dataset, name, node.attributes.get(name))


def _kinds(table: RawHep001Table, lost: Collection[int]) -> Iterator[Repair]:
    for node in rules_indexes.index_datasets(table):
        if node.address not in lost:
            yield from _rewritten_text("S3", node.path, node.dataset, KIND, node.attributes.get(KIND), "ascii")


# -- the order of columns, and the name of the first label --


def _order(table: RawHep001Table) -> Iterator[Repair]:
    breaches = [*order_is_stored_right(table), *order_lists_every_column_once(table)]
    if not breaches:
        return
    order = listed_order(table) or []
    columns = {node.name for node in table.columns}
    others = {name for name in table.datasets if name not in columns} - {node.name for node in table.categories}
    kept = [name for name in dict.fromkeys(order) if name in columns or name in others]
    wanted = [*kept, *(node.name for node in table.columns if node.name not in set(kept))]
    shown = ", ".join(shown_name(name) for name in wanted[:8]) + (", ..." if len(wanted) > 8 else "")
    do = partial(_write_order, table.group, wanted)
    yield Repair(table.path, f"column-order is rewritten: {shown}", _fixes("T4", breaches), do)


def _write_order(group: Group, order: Sequence[str]) -> bool:
    if not order:
        writing.delete_attribute(editable(group), names.COLUMN_ORDER)
        return True
    data = [name.encode("utf-8", "surrogateescape") for name in order]
    if not writing.can_hold(editable(group), len(data) * max(map(len, data))):
        return False
    writing.write_byte_texts(editable(group), names.COLUMN_ORDER, data)
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
    writing.delete_attribute(editable(node), name)
    return True


# -- categories --


def _categories(table: RawHep001Table) -> Iterator[Repair]:
    for node in table.members:
        attribute = node.attributes.get(names.CATEGORIES)
        breaches = list(reference_breaches(node.path, names.CATEGORIES, attribute, scalar=True))
        if breaches and attribute is not None and attribute.is_references and len(attribute.values) == 1:
            do = partial(_write_reference, node.opened, names.CATEGORIES, attribute.values[0])
            summary = "_categories is rewritten as one reference"
            if node.targets(names.CATEGORIES) != [None]:
                yield Repair(node.path, summary, _fixes("C7", breaches), do)
    reported = {breach.path for breach in categories_say_what_they_are(table)}
    for node in table.categories:
        if node.path in reported:
            yield from _marks_of_categories(node)


def _marks_of_categories(node: RawDataset) -> Iterator[Repair]:
    if node.dataset is None:
        return
    attribute, fixes = node.attributes.get(names.ENCODING_TYPE), (("C9", shown_name(node.path)),)
    utf8 = (
        attribute is not None
        and attribute.type is not None
        and attribute.type.charset == "utf-8"
        and attribute.shape == ()
    )
    if attribute is None or (text_of(attribute) == "categorical" and not utf8):
        do = partial(_write_text, node.opened, names.ENCODING_TYPE, "categorical", "utf-8")
        yield Repair(node.path, "encoding-type is written: categorical", fixes, do)
    attribute = node.attributes.get(names.ORDERED)
    flag = False if attribute is None else flag_of(attribute)
    if flag is not None and list(flag_breaches(node.path, names.ORDERED, attribute)):
        summary = f"ordered is written as a boolean: {'TRUE' if flag else 'FALSE'}"
        yield Repair(node.path, summary, fixes, partial(_write_flag, node.opened, flag))


def _write_flag(node: Node, flag: bool) -> bool:
    writing.write_flag(editable(node), names.ORDERED, flag)
    return True


def _write_reference(node: Node, name: str, reference: object) -> bool:
    target = node.dereference(reference)
    if target is None:
        return False
    writing.write_reference(editable(node), name, editable(target))
    return True


# -- references in both directions --


@dataclass(frozen=True)
class _Sides:
    """The references between columns and the other side (labels or indexes), as they are and as they must be."""

    columns: Sequence[RawDataset]
    others: Sequence[RawDataset]
    on_columns: str

    def _can_be_written(self, node: RawDataset, name: str) -> bool:
        attribute = node.attributes.get(name)
        return attribute is None or attribute.is_references

    def wanted(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """The references that the columns and the other side must have: the union of both sides, without duplicates.

        Each object keeps the order of its existing references.
        """
        columns = {node.address for node in self.columns if self._can_be_written(node, self.on_columns)}
        others = {node.address for node in self.others if self._can_be_written(node, names.COLUMNS_LIST)}
        by_column = {
            node.address: {place: None for place in node.targets(self.on_columns) if place in others}
            for node in self.columns
        }
        by_other = {
            node.address: {place: None for place in node.targets(names.COLUMNS_LIST) if place in columns}
            for node in self.others
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
            {node: [place for place in places if place is not None] for node, places in by_column.items()},
            {node: [place for place in places if place is not None] for node, places in by_other.items()},
        )


def _rewritten_references(
    rules: tuple[str, ...], node: RawDataset, name: str, wanted: list[int], nodes: dict[int | None, RawDataset]
) -> Iterator[Repair]:
    attribute = node.attributes.get(name)
    if attribute is not None and not attribute.is_references:
        return
    if attribute is None and not wanted:
        return
    stored_right = attribute is None or not list(reference_breaches(node.path, name, attribute, scalar=False))
    if stored_right and node.targets(name) == wanted:
        return
    shown = ", ".join(shown_name(nodes[place].name) for place in wanted[:8]) + (", ..." if len(wanted) > 8 else "")
    summary = f"{name} is rewritten: {shown or 'no references'}"
    fixes = tuple((rule, shown_name(node.path)) for rule in rules)
    do = partial(_write_references, node.opened, name, [nodes[place].opened for place in wanted])
    yield Repair(node.path, summary, fixes, do)


def _write_references(node: Node, name: str, targets: Sequence[Node]) -> bool:
    if not writing.can_hold(editable(node), 8 * len(targets)):
        return False
    if targets or name == names.COLUMNS_LIST:
        writing.write_references(editable(node), name, [editable(target) for target in targets])
    else:
        writing.delete_attribute(editable(node), name)
    return True


def _labels(table: RawHep001Table) -> Iterator[Repair]:
    """I1, I2, C7: the references from columns to labels and back."""
    sides = _Sides(table.members, table.members, names.INDEXES)
    by_column, by_label = sides.wanted()
    for node in table.members:
        yield from _rewritten_references(("I2", "C7"), node, names.INDEXES, by_column[node.address], table.by_address)
        yield from _rewritten_references(
            ("I1", "I2"), node, names.COLUMNS_LIST, by_label[node.address], table.by_address
        )


def _index_references(table: RawHep001Table, lost: Collection[int]) -> Iterator[Repair]:
    """S2, C7: the references from columns to indexes that are not removed, and from these indexes to columns."""
    kept = [
        node for node in rules_indexes.index_datasets(table) if node.address not in lost and KIND in node.attributes
    ]
    sides = _Sides(table.members, kept, names.SEARCH_INDEXES)
    by_column, by_index = sides.wanted()
    others = {place for node in table.indexes.values() if KIND not in node.attributes for place in [node.address]}
    for node in table.members:
        wanted = by_column[node.address]
        stay = [place for place in dict.fromkeys(node.targets(names.SEARCH_INDEXES)) if place in others]
        wanted = [*wanted, *(place for place in stay if place is not None)]
        if set(node.targets(names.SEARCH_INDEXES)) & set(lost):
            continue  # rewritten when those indexes are removed
        yield from _rewritten_references(("S2", "C7"), node, names.SEARCH_INDEXES, wanted, table.index_by_address)
    for node in kept:
        yield from _rewritten_references(
            ("S2",), node, names.COLUMNS_LIST, by_index[node.address], table.member_by_address
        )


# -- search indexes --


def bad_indexes(table: RawHep001Table, wrong: Collection[str]) -> list[IndexPlan]:
    """The indexes of known kinds to remove. `wrong` are the names of those whose contents are wrong."""
    reported = _reported(table)
    referring: dict[int | None, list[str]] = {}
    for node in table.members:
        for place in dict.fromkeys(node.targets(names.SEARCH_INDEXES)):
            referring.setdefault(place, []).append(node.name)
    misplaced = [table.datasets[name] for name in sorted(table.misplaced)]
    found = []
    for node in (*rules_indexes.index_datasets(table), *misplaced):
        kind = rules_indexes.kind_of(node)
        column = rules_indexes.column_of(table, node)
        linked = column is not None and referring.get(node.address, []) == [column.name]
        bad = reported.get(node.path, ()) + ((("S8", shown_name(node.path)),) if node.name in wrong else ())
        if kind is None or (linked and not bad):
            continue
        sides = [column.name] if column is not None else referring.get(node.address, [])
        paths = {node.path, *(table.datasets[name].path for name in referring.get(node.address, []))}
        paths |= {column.path} if column is not None else set()
        fixes = bad + tuple(("S2", shown_name(path)) for path in sorted(paths) if not linked)
        found.append(IndexPlan(node.name, node.path, node.address, kind.word, _buildable(table, sides), fixes))
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
        for node in (*table.indexes.values(), *misplaced)
        if node.address in lost
        for place in node.targets("_values")
    }
    home = table.group.open_group(names.SEARCH_INDEXES) if table.group.has_link(names.SEARCH_INDEXES) else None
    for node in table.indexes.values():
        if home is not None and (node.address in lost or node.address in values):
            writing.unlink(editable(home), node.name)
    for node in misplaced:
        writing.unlink(editable(table.group), node.name)
    for node in table.members:
        targets = dict.fromkeys(node.targets(names.SEARCH_INDEXES))
        if lost & set(targets):
            left = [place for place in targets if place in table.index_by_address and place not in lost]
            nodes = [table.index_by_address[place].opened for place in left]
            _write_references(node.opened, names.SEARCH_INDEXES, nodes)
    if home is not None and not home.children():
        writing.unlink(editable(table.group), names.SEARCH_INDEXES)
