"""Search indexes of an H5Col table: listing from their columns, and only used while their tokens agree (JS1-JS4, JG4).

An index names the state of the table that it describes. If that is not the current one it is stale, and not used.
"""

from __future__ import annotations

from collections.abc import Sequence

from colonnade import writing
from colonnade.layouts import index_home
from colonnade.layouts.h5col import names
from colonnade.layouts.h5col.counts import count_of, stored_rows
from colonnade.layouts.index_home import PlacedIndex, home_of, index_datasets, remove_index, rename_placed
from colonnade.layouts.wide import is_wide
from colonnade.model import TableInfo
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, Group, Node, attributes
from colonnade.nodes.elements import is_shown_as_stored
from colonnade.nodes.paths import dataset_at, editable, is_dataset
from colonnade.nodes.protocols import ObjectReference


def search_indexes(group: Group, info: TableInfo) -> list[PlacedIndex]:
    """All search indexes of the table, sorted by name."""
    datasets = index_datasets(group, "july") if home_of(group, "july") is not None else {}
    if not datasets:
        return []
    listing = _listing(group, info, datasets)
    return [_placed(group, info, name, node, listing.get(node.address, [])) for name, node in datasets.items()]


def _listing(group: Group, info: TableInfo, datasets: dict[str, Dataset]) -> dict[int | None, list[str]]:
    """The columns that list an index, by its address.

    Of a wide table only those are looked at that indexes are named after, if each index is listed by one of them.
    """
    likely = [name for name in dict.fromkeys(index.rpartition("__")[0] for index in datasets) if name in info.by_name]
    if is_wide(len(info.by_name)):
        listing = _listed_by(group, likely)
        if all(node.address in listing for node in datasets.values()):
            return listing
    return _listed_by(group, list(info.by_name))


def _listed_by(group: Group, columns: Sequence[str]) -> dict[int | None, list[str]]:
    listing: dict[int | None, list[str]] = {}
    for name in columns:
        node: Node | None = group.open_dataset(name) or group.open_group(name)
        for address in dict.fromkeys(node.reference_addresses(names.SEARCH_INDEX_LIST)) if node is not None else ():
            listing.setdefault(address, []).append(name)
    return listing


def _placed(group: Group, info: TableInfo, name: str, dataset: Dataset, listed_by: list[str]) -> PlacedIndex:
    kind = attributes.read_text(dataset, names.KIND_ATTRIBUTE) or ""
    column = listed_by[0] if len(listed_by) == 1 else None
    problem, is_stale = None, False
    if not kind:
        problem = "it does not declare its kind"
    elif not listed_by:
        problem = "no column refers to it"
    elif column is None:
        problem = f"{len(listed_by)} columns refer to it, one may"
    elif info.by_name[column].leads_elsewhere and not info.by_name[column].type.has_pointers:
        problem = "a list column has no search index"
    else:
        problem = _staleness(group, dataset)
        is_stale = problem is not None
    return PlacedIndex(name, kind, column, dataset, problem, is_stale)


def _staleness(group: Group, index: Dataset) -> str | None:
    """Why an index is not of the current state of the table; None if it is, or if the draft has no such tokens."""
    if group.inspect_attribute(names.NROWS) is None:
        return None
    now = count_of(group, names.GENERATION), count_of(group, names.NROWS)
    then = count_of(index, names.SOURCE_GENERATION), count_of(index, names.SOURCE_NROWS)
    if None in now or None in then:
        absent = [
            name
            for name, count in zip(
                (names.GENERATION, names.NROWS, names.SOURCE_GENERATION, names.SOURCE_NROWS), (*now, *then), strict=True
            )
            if count is None
        ]
        return f"it is stale: there is no {' and no '.join(absent)} that counts"
    if now == then:
        return None
    return (
        f"it is stale: it describes generation {then[0]:,} with {then[1]:,} rows, the table is at generation "
        f"{now[0]:,} with {now[1]:,} rows"
    )


def place_index(group: EditableGroup, column: str, kind: str) -> tuple[EditableGroup, str]:
    """The group for a new index of this kind, and an unused name in it."""
    return index_home.place_index(group, column, kind, "july")


def _references(column: Dataset) -> list[Dataset]:
    """The index datasets that a column refers to. Broken references are left out."""
    listed = column.reference_addresses(names.SEARCH_INDEX_LIST)
    nodes = (column.dereference(ObjectReference(address)) for address in listed)
    return [node for node in nodes if node is not None and is_dataset(node)]


def attach_index(group: EditableGroup, column: str, kind_word: str, dataset: EditableDataset) -> None:
    """Mark a newly built dataset as a search index of a column: KIND, tokens, and the reference to it."""
    writing.write_text(dataset, names.KIND_ATTRIBUTE, kind_word, "ascii")
    write_tokens(group, [dataset])
    source, is_strict = dataset_at(group, column), has_standard_references(group)
    known = [node for node in _references(source) if node.address != dataset.address]
    listed = [*(editable(node) for node in known), dataset]
    writing.write_references(source, names.SEARCH_INDEX_LIST, listed, is_strict)
    if is_strict:
        _make_standard(dataset)


def has_standard_references(group: Group) -> bool:
    """Whether the references of a table are of the type H5T_STD_REF: by its attribute, or by its labels."""
    if attributes.read_text(group, names.REFERENCES) == "standard":
        return True
    stored = group.attribute_storage(names.INDEX_COLUMNS)
    return stored is not None and is_shown_as_stored(stored[0])


def _make_standard(index: EditableDataset) -> None:
    """Write the reference of a bitmap to its values again, of the type H5T_STD_REF."""
    for address in index.reference_addresses(names.LIST_VALUES):
        values = index.dereference(ObjectReference(address))
        if values is not None and is_dataset(values):
            writing.write_reference(index, names.LIST_VALUES, editable(values), True)


def write_tokens(group: EditableGroup, datasets: Sequence[EditableDataset]) -> None:
    """Declare that these indexes describe the table as it is now. GENERATION is written if it is not there (JG3)."""
    generation, n_rows = count_of(group, names.GENERATION), stored_rows(group)
    if generation is None:
        generation = next_generation(group)
        writing.write_integer(group, names.GENERATION, generation)
    for dataset in datasets:
        writing.write_integer(dataset, names.SOURCE_NROWS, n_rows or 0)
        writing.write_integer(dataset, names.SOURCE_GENERATION, generation)


def next_generation(group: Group) -> int:
    """A generation that no index of the table has: the one after the current one, or after all that indexes name.

    It begins again at 0 after 2**64 - 1 (JG8).
    """
    home = home_of(group, "july")
    children = [] if home is None else home.children()
    indexes = [home.open_dataset(child.name) for child in children if child.kind == "dataset"] if home else []
    used = {count_of(node, names.SOURCE_GENERATION) for node in indexes if node is not None} - {None}
    now = count_of(group, names.GENERATION)
    if now is None:
        now = max((count for count in used if count is not None), default=-1)
    following = (now + 1) % 2**64
    while following in used:
        following = (following + 1) % 2**64
    return following


def detach_index(group: EditableGroup, index: PlacedIndex) -> None:
    """Remove a search index, its values, and the reference to it."""
    gone = index.dataset.address
    remove_index(group, index, "july")
    source = group.open_dataset(index.column) if index.column is not None else None
    if source is not None:
        drop_reference(group, editable(source), gone)


def drop_reference(group: EditableGroup, column: EditableDataset, gone: int | None) -> None:
    """Remove the reference of a column to a search index. The table remembers that its references are strict."""
    stored, is_strict = column.attribute_storage(names.SEARCH_INDEX_LIST), has_standard_references(group)
    if not is_strict and stored is not None and is_shown_as_stored(stored[0]):
        writing.write_text(group, names.REFERENCES, "standard")
        is_strict = True
    left = [editable(node) for node in _references(column) if node.address != gone]
    if left:
        writing.write_references(column, names.SEARCH_INDEX_LIST, left, is_strict)
    else:
        writing.delete_attribute(column, names.SEARCH_INDEX_LIST)


def rename_indexes(group: EditableGroup, info: TableInfo, column: str, new_name: str) -> None:
    """Rename the indexes of a column to match its new name, before the column is renamed."""
    for index in search_indexes(group, info):
        if index.column == column:
            rename_placed(group, index, column, new_name, "july")


def confirm_indexes(group: EditableGroup, indexes: Sequence[PlacedIndex]) -> None:
    """Declare that these indexes, which were kept in sync, describe the table as it is (JG3, JG6)."""
    home = home_of(group, "july")
    there = {child.address for child in home.children()} if home is not None else set()
    current = [editable(index.dataset) for index in indexes if index.dataset.address in there]
    if current:
        write_tokens(group, current)
