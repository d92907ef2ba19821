"""What every target layout returns for a table to be converted, and the marks that make converting back exact."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import count
from typing import Any

from colonnade.anndata.objects import refuse_broken
from colonnade.dataclass import dataclass
from colonnade.edit.create import Draft, prepare
from colonnade.errors import DataError, UsageError
from colonnade.exchange.sources import Source
from colonnade.h5 import attributes
from colonnade.h5.nodes import find_member
from colonnade.h5.references import has_references
from colonnade.layouts.anndata import names as anndata
from colonnade.layouts.artifactdb import names as artifactdb
from colonnade.layouts.hep001 import names as hep001
from colonnade.model import Progress
from colonnade.table import File, Table

# Attributes that tell what a table was: of a column its AnnData type; of a group its column-order where the row labels
# are a column too, and the name that was given to labels without one; of a group that held frames its encoding.
ANNDATA_TYPE = "anndata_type"
ANNDATA_ORDER = "anndata_column_order"
UNNAMED_LABELS = "anndata_unnamed_index"
UNNAMED = "_index"  # the dataset of an index that has no name
CONVERTED_FROM = "converted_from"
MARKS = (ANNDATA_TYPE, ANNDATA_ORDER, UNNAMED_LABELS)
# What people wrote about a column, kept under the same names in every layout.
TEXTS = ("units", "units_vocabulary", "description")
# What says how a table, or a column, is stored: the attributes of each layout's own, of groups and of columns.
OWN = {
    "hep001": (hep001.GROUP_ATTRIBUTES, (*hep001.VALUE_ATTRIBUTES, hep001.ENCODING_TYPE)),
    "anndata": (anndata.GROUP_ATTRIBUTES, anndata.COLUMN_ATTRIBUTES),
    "artifactdb": (artifactdb.GROUP_ATTRIBUTES, artifactdb.COLUMN_ATTRIBUTES),
}


@dataclass
class TableDraft:
    """A table that was checked and can be written. `names` are the new names of its columns."""

    table: Table
    draft: Draft
    names: dict[str, str]

    @property
    def layout(self) -> str:
        return self.draft.layout.name

    def write(self, file: File, path: str, progress: Progress | None) -> None:
        """Write the table into a new file, with its user attributes; progress counts rows."""
        file._write(path, self.draft, "error", progress)
        target = file.h5[path]
        copy_group_attributes(group_of(self.table), target, (self.table.layout, self.layout))
        nodes = {column.name: column_node(target, column.link or column.name) for column in file[path].info.members}
        for old, new in self.names.items():
            copy_column_attributes(self.table, old, nodes[new], self.layout)
        self.complete(file, path, nodes)

    def complete(self, file: File, path: str, nodes: Mapping[str, Any]) -> None:
        """Record what the layout cannot express; `nodes` are the datasets or groups of columns, by their new names."""
        mark_frame(self.table, self.names, file.h5[path], nodes)


def draft_of(into: type[TableDraft], table: Table, source: Source, names: dict[str, str], **options: Any) -> TableDraft:
    """A draft of rows under their new names; what the layout cannot hold is refused with the column's path."""
    labels = [names[label.name] for label in table.info.labels]
    try:
        return into(table, prepare(source, labels=labels, **options), names)
    except (DataError, UsageError) as error:
        old = {new: name for name, new in names.items()}.get(str(error.facts.get("column")))
        where = table.path if old is None else f"{table.path.rstrip('/')}/{old}"
        raise DataError(f"{where}: {error}", **error.facts) from error


def group_of(table: Table) -> Any:
    """The h5py group of a table."""
    return table._file.h5[table.path] if table.path != "/" else table._file.h5


def refuse_unfit(table: Table) -> None:
    """Refuse a table with parts that are unreadable or in other files: they would be lost silently."""
    refuse_broken(table)
    if table.info.others:
        kept = ", ".join(f"{other.name!r} in {other.place}" for other in table.info.others)
        raise DataError(f"{table.path} keeps columns in other files, which would be lost: {kept}", path=table.path)


def node_of(table: Table, name: str) -> Any:
    """The dataset or group of a column of a table; of the paths that older frames have, the last."""
    return column_node(group_of(table), table.info.by_name[name].link or name)


def column_node(group: Any, link: str) -> Any:
    """The dataset or group of a column, by its path below the group of its table."""
    node = group
    for part in link.split("/"):
        node = find_member(node, part) if node is not None else None
    return node


def copy_group_attributes(source: Any, target: Any, layouts: Collection[str]) -> None:
    """Copy the user attributes of a table's group from another layout; `layouts` are those of both."""
    own = [name for layout in layouts for name in OWN[layout][0]]
    _copy(source, target, own, kept=(hep001.TITLE, *TEXTS))


def copy_column_attributes(table: Table, name: str, target: Any, layout: str) -> None:
    """Copy the user attributes of a column to another layout; HEP001 already has its strings, and adds to them."""
    source = node_of(table, name)
    if source is None or target is None:
        return
    own = [attribute for one in (table.layout, layout) for attribute in OWN[one][1]]
    _copy(source, target, (*own, *TEXTS), kept=())
    for key, text in texts_of(table, name).items() if layout != "hep001" else ():
        attributes.write_text(target.id, key, text)


def texts_of(table: Table, name: str) -> dict[str, Any]:
    """The user's strings about a column, without what a layout adds to them."""
    column, node = table.info.by_name[name], node_of(table, name)
    if table.layout == "hep001":
        texts = {key: getattr(column, key) for key in TEXTS}
    else:
        texts = {key: attributes.read_text(node.id, key) for key in TEXTS} if node is not None else {}
    return {key: text for key, text in texts.items() if text}


def mark_frame(table: Table, names: Mapping[str, str], target: Any, nodes: Mapping[str, Any]) -> None:
    """Keep what the new layout has no word for: of frames of AnnData what they were, or what the table says they were.

    `names` are the new ones of its columns, `nodes` their datasets or groups by them.
    """
    source, info = group_of(table), table.info
    if info.layout != "anndata":
        attributes.copy_attributes(source.id, target.id, without=set(attributes.names(source.id)) - set(MARKS))
        for column in info.members:
            node = node_of(table, column.name)
            kind = attributes.read_text(node.id, ANNDATA_TYPE) if node is not None else None
            if kind is not None:
                attributes.write_text(nodes[names[column.name]].id, ANNDATA_TYPE, kind)
        return
    if any(column.is_label for column in info.columns):
        attributes.write_texts(target.id, ANNDATA_ORDER, [column.name for column in info.columns])
    if UNNAMED in names:
        attributes.write_text(target.id, UNNAMED_LABELS, names[UNNAMED])
    for column in info.members:
        if column.is_masked:
            attributes.write_text(
                nodes[names[column.name]].id, ANNDATA_TYPE, _nullable_type(node_of(table, column.name))
            )


def _nullable_type(node: Any) -> str:
    kind, meaning = str(attributes.read_text(node.id, "encoding-type")), attributes.read_text(node.id, "na-value")
    return f"{kind} {meaning}" if meaning in ("NA", "NaN") else kind


def new_names(table: Table, label: str) -> dict[str, str]:
    """The names of all columns in a layout that reserves AnnData's name of labels that have none: these are `label`."""
    names = {column.name: column.name for column in table.info.members}
    if UNNAMED in names:
        names[UNNAMED] = next(name for n in count() if (name := f"{label}_{n}" if n else label) not in names)
    return names


def _copy(source: Any, target: Any, without: Collection[str], kept: Collection[str]) -> None:
    """Copy attributes that do not belong to a layout. References are valid only in their own file, and are left out."""
    layouts_own = {*without, *MARKS, hep001.LATER_REVISION} - set(kept)
    found = {name: attributes.storage_of(source.id, name) for name in attributes.names(source.id)}
    referring = {name for name, storage in found.items() if storage is None or has_references(storage[0])}
    attributes.copy_attributes(source.id, target.id, without=layouts_own | referring)
