"""References that are written: made in the file that they lead into."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import writing
from colonnade.columns.arrow_types import (
    ReferenceType,
    TargetType,
    holds_stored_references,
    holds_targets,
    items_of,
    with_items,
)
from colonnade.columns.mapping import plain_type
from colonnade.errors import ColonnadeError, DataError
from colonnade.exchange.targets import selection_from
from colonnade.nodes import EditableGroup
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.dataset_tables import is_dataset_table
from colonnade.nodes.paths import editable, encode_name
from colonnade.nodes.protocols import ReferenceKind

_MOST_KEPT = 65_536  # references that are made only once, however often they are written


MakeReference = Callable[[str, str | None, bool], bytes]
"""Makes a reference: to the object at a path, to the part of it that a string names (see `selection_from`), and whether
as a region reference. A ValueError has the reason why it cannot."""


class ReferenceMaker:
    """Makes the references in values that are written to a file. Equal ones share their selection in the file."""

    def __init__(self, group: EditableGroup) -> None:
        self._group = editable(group.parent) if is_dataset_table(group) else group
        self._known: dict[tuple[str, str | None, bool], bytes] = {}
        self._checked: dict[bytes, bool] = {}

    def __call__(self, array: pa.Array, name: str, first_row: int, wanted: pa.DataType | None = None) -> pa.Array:
        """The values, with references in place of paths and selections; others as they are, if they lead somewhere."""
        if not holds_targets(array.type):
            self._refuse_strangers(array, name, first_row)
            return array
        kind = plain_type(array.type) if wanted is None else wanted
        return with_references(array, self._make, name, first_row, kind)

    def _refuse_strangers(self, array: pa.Array, name: str, first_row: int) -> None:
        """Refuse references that lead to no object of the file: they were read from another."""
        kind = array.type
        if not holds_stored_references(kind):
            return
        if isinstance(kind, ReferenceType):
            for row, data in enumerate(array.storage.to_pylist()):
                if data is not None and any(data) and not self._leads_somewhere(kind, data):
                    raise DataError(
                        "the reference does not point to an object of this file; a reference is valid only in the file "
                        "it was made in",
                        column=name,
                        row=first_row + row,
                    )
        elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
            for row, items in enumerate(array):
                if not items.is_valid:
                    continue
                try:
                    self._refuse_strangers(items.values, name, 0)
                except DataError as error:
                    error.row = first_row + row
                    raise
        elif pa.types.is_struct(kind):
            for number, field in enumerate(kind):
                self._refuse_strangers(array.field(number), f"{name}.{field.name}", first_row)

    def _leads_somewhere(self, kind: ReferenceType, data: bytes) -> bool:
        known = self._checked.get(data)
        if known is None:
            word: ReferenceKind = "object_reference" if kind.kind == "object_reference" else "region_reference"
            try:
                known = self._group.find_target(word, data) is not None
            except hdf5_errors(ColonnadeError):
                known = False
            if len(self._checked) >= _MOST_KEPT:
                self._checked.clear()
            self._checked[data] = known
        return known

    def _make(self, path: str, text: str | None, is_region: bool) -> bytes:
        key = (path, text, is_region)
        reference = self._known.get(key)
        if reference is None:
            selection = None if text is None else selection_from(text)
            reference = writing.make_reference(self._group, encode_name(path), selection, is_region)
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[key] = reference
        return reference


def with_references(array: pa.Array, make: MakeReference, name: str, first_row: int, wanted: pa.DataType) -> pa.Array:
    """The array with its references made. `wanted` is the type of the column: whether its references are regions."""
    kind = array.type
    if isinstance(kind, TargetType):
        stored = wanted if isinstance(wanted, ReferenceType) else kind.stored
        return _references(array.storage, make, name, first_row, stored)
    if pa.types.is_list(kind):
        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        offsets = np.zeros(len(array) + 1, dtype="i4")
        np.cumsum(lengths, out=offsets[1:])
        inner = wanted.value_type if pa.types.is_list(wanted) else kind.value_type
        values = with_references(array.flatten(), make, name, first_row, inner)
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)
    if not holds_targets(kind):
        return array
    if pa.types.is_fixed_size_list(kind):
        inner = wanted.value_type if pa.types.is_fixed_size_list(wanted) else kind.value_type
        return with_items(array, with_references(items_of(array), make, name, first_row, inner))
    parts = []
    for number, field in enumerate(kind):
        position = wanted.get_field_index(field.name) if pa.types.is_struct(wanted) else -1
        inner = wanted.field(position).type if position >= 0 else field.type
        parts.append(with_references(array.field(number), make, f"{name}.{field.name}", first_row, inner))
    fields = [pa.field(field.name, part.type) for field, part in zip(kind, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null() if array.null_count else None)


def _references(storage: pa.Array, make: MakeReference, name: str, first_row: int, stored: ReferenceType) -> pa.Array:
    references: list[bytes | None] = []
    is_region = stored.kind == "region_reference"
    for row, pair in enumerate(storage.to_pylist()):
        if pair is None:
            references.append(None)
            continue
        path, text = pair["path"], pair["selection"]
        try:
            if text is not None and not is_region:
                raise ValueError("the column refers to whole objects, not to parts of them")
            references.append(make(path, text, is_region))
        except ValueError as error:
            shown = path if text is None else f"{selection_from(text)} of {path}"
            reason = f"cannot refer to {shown}: {error}"
            raise DataError(reason, column=name, row=first_row + row, value=path) from error
    return pa.ExtensionArray.from_storage(stored, pa.array(references, stored.storage_type))
