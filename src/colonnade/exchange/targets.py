"""References to be written: paths and selections until the file is known that they lead into."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from colonnade.columns.arrow_types import TargetType
from colonnade.errors import UsageError
from colonnade.nodes.regions import check_selection, is_index
from colonnade.sealed import Sealed
from colonnade.values import Json

StoredTarget = dict[str, str | None]
"""A path, and a selection as a string, or None: a value of `TargetType`."""


class Referring(Sealed):
    """What has a path, and may have a selection: see `table.references.Reference`."""

    @property
    def path(self) -> str:
        raise NotImplementedError

    @property
    def selection(self) -> tuple[object, ...] | None:
        raise NotImplementedError

    @property
    def attribute(self) -> str | None:
        raise NotImplementedError


# -- from Python values --


def are_targets(values: Sequence[object]) -> bool:
    """Whether values are references to be made: Reference objects, or pairs of a path and a selection; or None."""
    first = next((value for value in values if value is not None), None)
    if not _is_target(first):
        return False
    return all(value is None or _is_target(value) for value in values)


def _is_target(value: object) -> bool:
    return isinstance(value, Referring) or _is_pair(value)


def _is_pair(value: object) -> bool:
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], str):
        return False
    selection = value[1]
    if selection is None:
        return value[0].startswith("/")
    items = selection if isinstance(selection, tuple) else (selection,)
    return bool(items) and all(map(is_index, items))


def target_array(values: Sequence[object]) -> pa.Array:
    """References to be made, from what `are_targets` accepts."""
    pairs = [None if value is None else _pair_of(value) for value in values]
    is_region = any(pair is not None and pair[1] is not None for pair in pairs)
    kind = TargetType("region_reference" if is_region else "object_reference")
    stored = [None if pair is None else {"path": pair[0], "selection": pair[1]} for pair in pairs]
    return pa.ExtensionArray.from_storage(kind, pa.array(stored, kind.storage_type))


def _pair_of(value: object) -> tuple[str, str | None]:
    if isinstance(value, Referring):
        if value.attribute is not None:
            raise UsageError(f"cannot write {value!r}: references to attributes are not written")
        path, selection = value.path, value.selection
    else:
        assert isinstance(value, tuple)  # a pair
        path, selection = value
    if selection is None:
        return path, None
    check_selection(selection)
    items = selection if isinstance(selection, tuple) else (selection,)
    return path, _as_text(items)


def _as_text(items: Sequence[object]) -> str:
    return json.dumps([_as_json(item) for item in items])


def stored_target(path: str, selection: Sequence[object] | None) -> StoredTarget:
    """A path and a selection as values of `TargetType` have them."""
    return {"path": path, "selection": None if selection is None else _as_text(selection)}


def _as_json(item: object) -> Json:
    if isinstance(item, slice):
        return [None if part is None else int(part) for part in (item.start, item.stop, item.step)]
    if isinstance(item, np.ndarray):
        return {"shape": list(item.shape), "values": item.reshape(-1).tolist()}
    return "..." if item is Ellipsis else int(item)  # type: ignore[call-overload]


def selection_from(text: str) -> tuple[object, ...]:
    """The selection that a string of `target_array` names."""
    return tuple(map(_from_json, json.loads(text)))


def _from_json(item: Json) -> object:
    if isinstance(item, list):
        return slice(*item)
    if isinstance(item, Mapping):
        return np.array(item["values"], dtype=np.int64).reshape(item["shape"])  # type: ignore[arg-type]
    return Ellipsis if item == "..." else item
