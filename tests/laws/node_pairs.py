"""A comparison of the two implementations of `nodes.protocols`: `reader/` on bytes, and `h5/handles.py` on libhdf5."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.errors import ColonnadeError, CorruptError, UnsupportedError
from colonnade.h5.files import open_file as open_by_library
from colonnade.model import StoredType
from colonnade.nodes.elements import follow_pointers, has_references, is_shown_as_stored
from colonnade.nodes.protocols import Attribute, ObjectReference
from colonnade.opening import open_file
from colonnade.pager.options import Care
from colonnade.reader.datasets import ReadDataset
from colonnade.reader.nodes import ReadGroup
from colonnade.stored_dtypes import memory_dtype

MOST_OBJECTS = 400
MOST_ELEMENTS = 20_000


class Pair:
    """Two nodes of one object: ours and libhdf5's; and how many objects were compared so far."""

    def __init__(self, is_short: bool) -> None:
        self.n_compared = 0
        self.seen: set[int] = set()
        self.is_short = is_short  # addresses of less than 8 bytes: libhdf5 leaves parts of references undefined


def compare_nodes(path: Path) -> int:
    """Compare what both readers answer about every object of a file; returns the number of objects."""
    ours, theirs = open_file(path, care=Care(library="never")), open_by_library(path)
    try:
        ours.refresh()
        root: Any = ours.root
        pair = Pair(root.node.source.offset_size < 8)
        _compare_group(root, theirs.root, pair)
        return pair.n_compared
    finally:
        ours.close()
        theirs.close()


def answered(question: Callable[[], object]) -> object:
    """An answer that can be compared: the value, or the kind of error."""
    try:
        return comparable(question())
    except UnsupportedError:
        return "unsupported"
    except ColonnadeError as error:
        return "corrupt" if isinstance(error, CorruptError) else type(error).__name__


def both(question: Callable[[Any], object], ours: object, theirs: object) -> tuple[object, object]:
    """The answers about both nodes."""
    return answered(partial(question, ours)), answered(partial(question, theirs))


def comparable(value: object) -> object:
    """A value in a form in which equal values are equal, NaN too."""
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        if value.dtype.names:
            return [(name, comparable(value[name])) for name in value.dtype.names]
        return str(value.dtype), value.shape, [comparable(item) for item in value.reshape(-1).tolist()]
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.names:
            return _without_padding(value.dtype), [comparable(np.asarray(value[name])) for name in value.dtype.names]
        if value.dtype.kind == "b":
            return "bool", value.shape, (np.asarray(value).view(np.uint8) != 0).tobytes()
        if value.dtype == np.longdouble:
            return (
                "longdouble",
                value.shape,
                [repr(number) for number in value.reshape(-1)],
            )  # not the unused bytes
        if value.dtype.kind == "S" and not value.shape:
            return bytes(value[()]) if isinstance(value, np.ndarray) else bytes(value)
        native = np.asarray(value).astype(value.dtype.newbyteorder("="))
        return _without_padding(native.dtype), value.shape, native.tobytes()
    if isinstance(value, np.dtype):
        return _without_padding(value)
    if isinstance(value, Attribute) and value.is_references:
        return repr(replace(value, values=(len(value.values),)))
    if isinstance(value, Attribute) and value.problem is not None:
        return repr(replace(value, problem="it cannot be read"))
    if isinstance(value, (list, tuple)) and not isinstance(value, ObjectReference):
        return type(value).__name__, [comparable(item) for item in value]
    return value if isinstance(value, (str, bytes, int, type(None))) else repr(value)


def _without_padding(dtype: np.dtype) -> object:
    """The fields of a dtype and their dtypes, without what h5py notes in it, and where they are."""
    if dtype.names:
        return [(name, _without_padding(dtype[name])) for name in dtype.names]
    return dtype.str if dtype.subdtype is None else (_without_padding(dtype.base), dtype.shape)


def _compare_group(ours: Any, theirs: Any, pair: Pair) -> None:
    pair.n_compared += 1
    pair.seen.add(ours.address)
    _compare_node(ours, theirs, pair)
    names = ours.link_names()
    assert names == theirs.link_names()
    listed = ours.children()
    assert [(child.name, child.kind) for child in listed] == [(child.name, child.kind) for child in theirs.children()]
    some = {name.encode() for name in names[::2] if name.isascii()}
    assert [child.name for child in ours.children(some)] == [child.name for child in theirs.children(some)]
    for child in listed:
        _compare_link(ours, theirs, child, pair)
    for name in ("no such name", "no/such/name", names[0] + "/no" if names else "no"):
        assert (ours.open_dataset(name), ours.open_group(name)) == (None, None)
    for question in ("has_link", "hard_kind", "hard_address", "link_target"):
        assert getattr(ours, question)("no such name") == getattr(theirs, question)("no such name"), question
    assert ours.has_link("no such name") == theirs.has_link("no such name")


def _compare_link(ours: Any, theirs: Any, child: Any, pair: Pair) -> None:
    name = child.name
    for question in ("hard_address", "hard_kind", "has_link", "child"):
        assert getattr(ours, question)(name) == getattr(theirs, question)(name), (question, name)
    if child.kind in ("soft link", "external link"):
        assert ours.link_target(name) == theirs.link_target(name)
    assert ours.open_child(name)[0] == theirs.open_child(name)[0]
    outcome = answered(lambda: _kind_at(ours, name)), answered(lambda: _kind_at(theirs, name))
    if "unsupported" in outcome and outcome[0] != outcome[1]:
        return  # read by libhdf5 only
    if outcome[1] is None and child.kind == "dataset":
        return  # libhdf5 does not open some datasets that it has written
    assert outcome[0] == outcome[1], (name, outcome)
    if child.kind not in ("dataset", "group") or child.address in pair.seen or pair.n_compared > MOST_OBJECTS:
        return
    if child.kind == "group":
        mine, other = ours.open_group(name), theirs.open_group(name)
        assert isinstance(mine, ReadGroup)
        _compare_group(mine, other, pair)
        return
    mine, other = ours.open_dataset(name), theirs.open_dataset(name)
    if mine is None:
        assert other is None
        return
    pair.seen.add(child.address)
    _compare_dataset(mine, other, pair)


def _kind_at(group: Any, name: str) -> str | None:
    dataset = group.open_dataset(name)
    if dataset is not None:
        return f"dataset {_shown(dataset)}"
    inner = group.open_group(name)
    return None if inner is None else f"group {_shown(inner)}"


def _shown(node: Any) -> str:
    """The path of a node, in which libhdf5's replaces bytes that are not UTF-8."""
    path: str = node.path
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _compare_node(ours: Any, theirs: Any, pair: Pair) -> None:
    assert (_shown(ours), ours.address, ours.is_dataset) == (_shown(theirs), theirs.address, theirs.is_dataset)
    assert ours.is_shared == theirs.is_shared
    names = ours.attribute_names()
    assert names == theirs.attribute_names()
    for name in [*names, "no such attribute"]:
        storage = ours.attribute_storage(name)
        assert storage == theirs.attribute_storage(name), (name, storage, theirs.attribute_storage(name))
        is_defined = not pair.is_short or storage is None or not has_references(storage[0])
        if not is_defined:
            continue
        for question in ("inspect_attribute", "attribute_element", "reference_addresses"):
            found = both(methodcaller(question, name), ours, theirs)
            if name not in names and "cannot be read" in str(found[1]):
                continue  # libhdf5 cannot look for one attribute where another is broken
            assert found[0] == found[1], (ours.path, name, question, found)
        if storage is None or not has_references(storage[0]):
            found = both(methodcaller("read_attribute", name), ours, theirs)
            if found[1] is None and storage is not None and (_holds(storage[0], "opaque") or storage[0].dims):
                continue  # h5py cannot read some opaque types and arrays
            assert found[0] == found[1], (ours.path, name, found, storage)
        elif storage[0].kind == "object_reference":
            _compare_references(ours, theirs, name)


def _compare_references(ours: Any, theirs: Any, name: str) -> None:
    values = [node.read_attribute(name) for node in (ours, theirs)]
    values = [value.reshape(-1).tolist() if isinstance(value, np.ndarray) else [value] for value in values]
    for mine, other in zip(*values, strict=True):
        targets = ours.dereference(mine), theirs.dereference(other)
        assert (targets[0] is None) == (targets[1] is None)
        if targets[0] is not None and targets[1] is not None:
            assert targets[0].address == targets[1].address


def _compare_dataset(ours: Any, theirs: Any, pair: Pair) -> None:
    pair.n_compared += 1
    assert isinstance(ours, ReadDataset)
    _compare_node(ours, theirs, pair)
    assert ours.shape == (theirs.shape or ())  # None of what holds nothing, in h5py
    for question in ("is_null", "chunk_shape"):
        assert getattr(ours, question) == getattr(theirs, question), question
    info = ours.describe()
    for question in ("describe", "stored_bytes", "matrix_shape"):
        mine, other = (answered(getattr(node, question)) for node in (ours, theirs))
        is_outside = question == "stored_bytes" and 0 in ours.shape  # libhdf5 may count a chunk outside of the shape
        assert mine == other or is_outside, (ours.path, question, mine, other, info)
    if not has_references(info.type) or info.type.kind == "object_reference":
        mine, other = answered(ours.array_dtype), answered(theirs.array_dtype)
        assert mine in (other, "unsupported"), (ours.path, mine, other)  # which libhdf5 is then asked
    if ours.is_null or info.storage not in ("compact", "contiguous", "chunked"):
        return
    if len(ours.shape) >= 1:
        assert answered(ours.written_rows) == answered(theirs.written_rows), ours.path
    stored = info.type
    if prod(ours.shape) > MOST_ELEMENTS or (pair.is_short and has_references(stored)):
        return
    is_one_sequence = not ours.shape and _holds(stored, "sequence")  # of which h5py makes the array itself
    if not has_references(stored) and not is_shown_as_stored(stored) and not is_one_sequence:
        _compare_arrays(ours, theirs)
    if len(ours.shape) == 1 and ours.shape[0]:
        _compare_rows(ours, theirs, info)


def _compare_arrays(ours: Any, theirs: Any) -> None:
    chance = random.Random(ours.address)
    parts: list[tuple[slice, ...]] = [()]
    if ours.shape:
        low = [chance.randrange(size + 1) for size in ours.shape]
        sides = zip(low, ours.shape, strict=True)
        parts.append(tuple(slice(at, chance.randrange(at, size + 1), chance.choice([1, 1, 2])) for at, size in sides))
        parts.append((slice(0, 1),))
    for part in parts:
        found = both(methodcaller("read_array", part), ours, theirs)
        if found[0] == "unsupported":
            continue  # read by libhdf5 only
        if found[1] == "corrupt" and _holds(ours.node.header.type, "opaque"):
            continue  # h5py cannot convert some opaque types to themselves
        assert found[0] == found[1], (ours.path, part, str(found[0])[:300], str(found[1])[:300])


def _holds(stored: StoredType, kind: str) -> bool:
    parts = [field.type for field in stored.fields] if stored.base is None else [stored.item]
    return stored.kind == kind or any(_holds(part, kind) for part in parts)


def _compare_rows(ours: Any, theirs: Any, info: Any) -> None:
    chance, n_rows = random.Random(ours.address), ours.shape[0]
    ranges = [range(n_rows), range(n_rows - 1, n_rows), range(0)]
    ranges += [range(chance.randrange(n_rows), n_rows, chance.choice([1, 2, 3, 7])) for _ in range(3)]
    for rows in ranges:
        found = both(partial(_rows, info=info, rows=rows), ours, theirs)
        if found[0] == "unsupported":
            return
        assert found[0] == found[1], (ours.path, rows, info)
    _compare_source(ours, theirs, info)


def _rows(node: Any, info: Any, rows: range) -> list[bytes]:
    with node.reading(info, rows.start, len(rows), rows.step) as image:
        assert len(image) == len(rows)
        return [_element(element, info.type) for element in image]


def _element(element: Any, stored: StoredType) -> bytes:
    return follow_pointers(element, stored) if stored.has_pointers else np.ascontiguousarray(element).tobytes()


def _compare_source(ours: Any, theirs: Any, info: Any) -> None:
    """Rows straight from the file, where both have a way."""
    if info.type.has_pointers or is_shown_as_stored(info.type):
        return
    dtype = memory_dtype(info.type)
    sources = [node.chunk_source(dtype, info.filters) for node in (ours, theirs)]
    if None in sources:
        return
    found = both(partial(_by_source, n_rows=ours.shape[0]), *sources)
    assert found[0] == found[1], (ours.path, info)


def _by_source(source: Any, n_rows: int) -> object:
    return source.read(0, n_rows)
