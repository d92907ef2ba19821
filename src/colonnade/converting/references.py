"""References that go into another file: those in rows are turned into paths, from which they are made again there.

Those in attributes of other objects, which lead to tables that were written again, are made again too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import writing
from colonnade.columns.arrow_types import ReferenceType, TargetType, items_of, with_items
from colonnade.errors import CorruptError
from colonnade.exchange.targets import StoredTarget, stored_target
from colonnade.nodes import Dataset, Group, Node
from colonnade.nodes.paths import editable, join_path, walk_groups
from colonnade.nodes.regions import selection_of

_TO_OBJECT, _TO_REGION = TargetType("object_reference"), TargetType("region_reference")
_MOST_KEPT = 65_536  # paths that are looked up only once, however often they are referred to


def movable_type(kind: pa.DataType) -> pa.DataType:
    """The type of these values with paths in place of references, also in lists and structs."""
    if isinstance(kind, ReferenceType):
        return _TO_OBJECT if kind.kind == "object_reference" else _TO_REGION
    if pa.types.is_list(kind):
        return pa.list_(movable_type(kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(movable_type(kind.value_type), kind.list_size)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(movable_type(field.type)) for field in kind])
    return kind


class ReferencePaths:
    """The paths of the objects that references of a file lead to."""

    def __init__(self, node: Node) -> None:
        """node: any object of the file."""
        self._node = node
        self._known: dict[bytes, StoredTarget] = {}

    def moved(self, array: pa.Array, name: str, first_row: int) -> pa.Array:
        """The values of a column with paths in place of references, as `movable_type` has them."""
        kind = array.type
        wanted = movable_type(kind)
        if wanted == kind:
            return array
        if isinstance(kind, ReferenceType):
            return self._paths(array, kind, name, first_row)
        if pa.types.is_fixed_size_list(kind):
            return with_items(array, self.moved(items_of(array), name, first_row))
        missing = array.is_null() if array.null_count else None
        if pa.types.is_list(kind):
            lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
            offsets = np.zeros(len(array) + 1, dtype="i4")
            np.cumsum(lengths, out=offsets[1:])
            values = self.moved(array.flatten(), name, first_row)
            return pa.ListArray.from_arrays(pa.array(offsets), values, mask=missing)
        parts = [
            self.moved(array.field(number), f"{name}.{field.name}", first_row) for number, field in enumerate(kind)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=missing)

    def _paths(self, array: pa.Array, kind: ReferenceType, name: str, first_row: int) -> pa.Array:
        paths: list[StoredTarget | None] = []
        for row, data in enumerate(array.storage.to_pylist()):
            path = None if data is None or not any(data) else self._target_of(data, kind.kind)
            if path is not None and not path["path"]:
                raise CorruptError("the reference leads to no object of the file", column=name, row=first_row + row)
            paths.append(path)
        wanted = _TO_OBJECT if kind.kind == "object_reference" else _TO_REGION
        return pa.ExtensionArray.from_storage(wanted, pa.array(paths, wanted.storage_type))

    def _target_of(self, data: bytes, kind: str) -> StoredTarget:
        """The object that a reference leads to, and the part of it; an empty path if it leads to none."""
        destination = self._known.get(data)
        if destination is None:
            target = self._node.find_target(
                "object_reference" if kind == "object_reference" else "region_reference", data
            )
            path = (None if target is None else target.node.full_path()) or ""
            selection = None
            if target is not None and target.region is not None and target.node.is_dataset:
                selection = selection_of(target.region.chosen(cast("Dataset", target.node).shape))
            destination = stored_target(path, selection)
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[data] = destination
        return destination


def refer_to_tables(source: Group, target: Group, tables: Mapping[int, str]) -> None:
    """Make again the references in attributes of other objects that lead to tables, given by their old addresses and
    their paths: the copy of such an attribute is null."""
    for path, node in _others(source, tables):
        for name in node.attribute_names():
            stored = node.attribute_storage(name)
            if stored is None or stored[0].kind != "object_reference" or stored[1] != ():
                continue
            table = next((tables[at] for at in node.reference_addresses(name) if at in tables), None)
            copied = (target.open_dataset(path) or target.open_group(path)) if table is not None else None
            if table is not None and copied is not None:
                written = target.open_group(table) or target.open_dataset(table)
                assert written is not None  # by the conversion
                writing.write_reference(editable(copied), name, editable(written))


def _others(root: Group, tables: Mapping[int, str]) -> Iterator[tuple[str, Node]]:
    """All groups and datasets but the tables and what is in them, with their paths."""
    inside = tuple(f"{path.rstrip('/')}/" for path in tables.values())
    for path, group in walk_groups(root):
        if f"{path}/".startswith(inside):
            continue
        yield path, group
        for child in group.children():
            dataset = group.open_dataset(child.name) if child.kind == "dataset" else None
            if dataset is not None:
                yield join_path(path, child.name), dataset
