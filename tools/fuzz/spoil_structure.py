"""Structure of a file changed, by h5py: every object is sound by itself, and they contradict each other.

Ways out of the file lead to `outside.raw` and `outside.h5`, which lie in the folder above it and are made for that, and
nothing is ever written through them: a file of the machine named here would be overwritten, by h5py itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

HUGE = 2**60
BROKEN = (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError)
"""What h5py raises where a change cannot be made: the file is then as it is."""


def spoil_structure(path: Path, chance: random.Random) -> list[str]:
    """One to three changes of a file; says which."""
    done = []
    with h5py.File(path, "r+", libver=("earliest", "latest")) as file:
        for _ in range(chance.choice([1, 1, 2, 3])):
            change = chance.choice(CHANGES)
            try:
                change(file, chance)
            except BROKEN:
                continue
            done.append(f"structure:{change.__name__.replace('_', ' ')}")
    return done


def _nodes(file: Any, kind: type = object) -> list[Any]:
    found = [file["/"]]
    file.visititems(lambda _name, node: found.append(node))
    return [node for node in found if isinstance(node, kind)]


def _is_inside(dataset: Any) -> bool:
    """Whether the rows are in the file itself, so that writing them touches no other."""
    return dataset.external is None and not dataset.is_virtual


def _dataset(file: Any, chance: random.Random) -> Any:
    datasets = _nodes(file, h5py.Dataset)
    return chance.choice([d for d in datasets if d.ndim == 1] or datasets)


def _group(file: Any, chance: random.Random) -> Any:
    groups = _nodes(file, h5py.Group)
    return (
        chance.choice([g for g in groups if "CLASS" in g.attrs] or groups)
        if chance.random() < 0.7
        else chance.choice(groups)
    )


def _change_attribute(file: Any, chance: random.Random) -> None:
    node = chance.choice([n for n in _nodes(file) if len(n.attrs)])
    name = chance.choice(list(node.attrs))
    if chance.random() < 0.2:
        del node.attrs[name]
        return
    other = chance.choice(_nodes(file))
    value: Any = chance.choice([
        7, -1, 2**63, 1.5, float("nan"), "text", b"bytes", "", np.bytes_(b"2.0"), ["a", "b", "a"], [1, 2, 3],
        np.zeros((2, 2, 2)), h5py.Empty("f8"), other.ref, [other.ref] * 3, h5py.Reference(), True,
        np.zeros(2, [("a", "i4"), ("b", "S3")]), np.void(b"\xff\xfe"), "x" * 5000, b"\xff\xfe\x80",
        ["", "no such column"],
    ])  # fmt: skip
    dtype = (
        h5py.ref_dtype
        if isinstance(value, h5py.Reference) or (isinstance(value, list) and isinstance(value[0], h5py.Reference))
        else None
    )
    node.attrs.create(name, value, dtype=dtype)


def _aim_elsewhere(file: Any, chance: random.Random) -> None:
    """A reference in an attribute leads to another object."""
    nodes = _nodes(file)
    held = [
        (n, a)
        for n in nodes
        for a in n.attrs
        if n.attrs.get_id(a).dtype.kind == "O" and h5py.check_ref_dtype(n.attrs.get_id(a).dtype)
    ]
    node, name = chance.choice(held)
    old = node.attrs.get_id(name)
    target = chance.choice([chance.choice(nodes).ref, node.ref, h5py.Reference()])
    if old.shape == ():
        node.attrs.create(name, target, dtype=h5py.ref_dtype)
    else:
        node.attrs.create(name, [target] * chance.choice([1, 2, 5]), dtype=h5py.ref_dtype)


def _write_values(file: Any, chance: random.Random) -> None:
    """Rows of a dataset, mostly of an index or of codes, out of every range."""
    datasets = [d for d in _nodes(file, h5py.Dataset) if d.dtype.kind in "iuf" and d.size and _is_inside(d)]
    inner = [d for d in datasets if "_search_indexes" in d.name] or datasets
    dataset = chance.choice(inner if chance.random() < 0.6 else datasets)
    count = chance.choice([1, 3, dataset.shape[0]])
    values = [chance.choice([0, 1, -1, 2, 69, 70, 127, 255, 2**31, 2**63, -(2**63)]) for _ in range(count)]
    first = chance.randrange(max(1, dataset.shape[0] - count + 1))
    wrapped = np.array([v % 2**64 for v in values], "u8").view("i8").astype(dataset.dtype)
    dataset[first : first + count] = wrapped.reshape(-1, *([1] * (dataset.ndim - 1)))


def _resize(file: Any, chance: random.Random) -> None:
    dataset = chance.choice([d for d in _nodes(file, h5py.Dataset) if d.chunks and d.maxshape[0] is None])
    rows = chance.choice([0, 1, dataset.shape[0] - 1, dataset.shape[0] + 1, dataset.shape[0] * 2, 2**31, 2**32, HUGE])
    dataset.resize(rows, axis=0)


def _replace(file: Any, chance: random.Random) -> None:
    """A dataset in the place of another: of another type, shape, storage or claim."""
    old = _dataset(file, chance)
    parent, name = old.parent, old.name.rsplit("/", 1)[-1]
    kind: Any = chance.choice([
        old.dtype, "i1", "u8", ">i4", "f2", "S1", "S7", "?", h5py.string_dtype(), h5py.ref_dtype,
        h5py.vlen_dtype("i4"), np.dtype([("r", "f4"), ("i", "f4")]), np.dtype(("i2", (2, 3))), np.dtype("V5"),
        h5py.enum_dtype({"FALSE": 0, "TRUE": 1}, "i1"),
    ])  # fmt: skip
    shape = chance.choice(
        [old.shape, old.shape, (), (0,), (1,), (old.shape[0] + 3,), (70, 2), (HUGE,), (2**32,), (2**63 - 1,)]
    )
    chunks = chance.choice([None, 1, 3, 16, 1000, 2**20]) if shape else None
    huge = bool(shape) and shape[0] > 10**6
    rank = len(shape)
    attributes = {key: (old.attrs.get_id(key).dtype, old.attrs[key]) for key in old.attrs}
    del parent[name]
    options: dict[str, Any] = (
        {} if not (chunks or huge) else {"chunks": (chunks or 16,) * rank, "maxshape": (None,) * rank}
    )
    if options:
        options["compression"] = chance.choice([None, None, 4, "lzf"])
        options["fletcher32"] = chance.random() < 0.2
    made = parent.create_dataset(name, shape, kind, **options)
    for key, (dtype, value) in attributes.items():
        made.attrs.create(key, value, dtype=dtype)


def _link(file: Any, chance: random.Random) -> None:
    """Cycles of hard and soft links; links out of the file."""
    group = _group(file, chance)
    name = chance.choice([*list(group), "a loop", "b"])
    if name in group:
        del group[name]
    other: Any = chance.choice([
        group, file["/"], chance.choice(_nodes(file)), h5py.SoftLink(f"{group.name}/{name}"),
        h5py.SoftLink("/no/where"), h5py.SoftLink(group.name), h5py.SoftLink("."),
        h5py.ExternalLink(_above(file, "outside.raw"), "/"), h5py.ExternalLink("../outside.h5", "/t"),
        h5py.ExternalLink(Path(file.filename).name, group.name), h5py.ExternalLink("no.h5", "/t/x"),
    ])  # fmt: skip
    group[name] = other


def _outside(file: Any, chance: random.Random) -> None:
    """Rows that are kept in another file, or in a dataset elsewhere."""
    old = _dataset(file, chance)
    parent, name, rows = old.parent, old.name.rsplit("/", 1)[-1], old.shape[0]
    del parent[name]
    if chance.random() < 0.5:
        where = chance.choice([_above(file, "outside.raw"), "../outside.raw", "no.raw", file.filename])
        parent.create_dataset(name, (rows,), "i1", external=[(where, chance.choice([0, 8, 2**40]), rows)])
        return
    claimed = chance.choice([rows, HUGE])
    layout = h5py.VirtualLayout((claimed,), "i4")
    where = chance.choice([".", file.filename, "../outside.h5", _above(file, "outside.raw"), "no.h5"])
    layout[:rows] = h5py.VirtualSource(where, chance.choice([f"{parent.name}/{name}", "/t/a", "/no"]), (rows,))
    parent.create_virtual_dataset(name, layout)


def _above(file: Any, name: str) -> str:
    return str(Path(file.filename).resolve().parents[1] / name)


def _move(file: Any, chance: random.Random) -> None:
    """Two links of a group change places; or one leaves it."""
    group = _group(file, chance)
    names = list(group)
    one, two = chance.choice(names), chance.choice(names)
    if one == two or chance.random() < 0.3:
        if chance.random() < 0.5:
            del group[one]
        else:
            group.move(one, f"{one} moved")
        return
    group.move(one, "between")
    group.move(two, one)
    group.move("between", two)


def _deep(file: Any, chance: random.Random) -> None:
    """Groups a long way down, or a table inside a table."""
    if chance.random() < 0.3:
        file.create_group("/".join(["deep"] * chance.choice([5, 20, 20, 80, 300])))
    else:
        group = _group(file, chance)
        file.copy(group, group, "inner")


Change = Callable[[Any, random.Random], None]
CHANGES: tuple[Change, ...] = (
    _change_attribute, _change_attribute, _change_attribute, _aim_elsewhere, _aim_elsewhere, _write_values,
    _write_values, _write_values, _resize, _replace, _replace, _link, _outside, _move, _deep,
)  # fmt: skip
