"""A dataset that HDF5 makes only to hold a place: a link and an object header, which others then write themselves."""

from __future__ import annotations

from typing import Any

from h5py import h5d, h5o, h5s, h5t

from colonnade.errors import UsageError
from colonnade.h5.filters import creation_list
from colonnade.h5.links import create_group, encode_name, exists, open_group


def make_placeholder(root: Any, path: str) -> int:
    """A dataset without values at a path, groups on the way made; the address of its object header."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        raise UsageError(f"{path!r} names no dataset", name=path)
    group = root
    for part in parts[:-1]:
        if not exists(group, part):
            create_group(group, part)
        inner = open_group(group, part)
        if inner is None:
            raise UsageError(f"{path}: {part!r} is there and is no group", name=path)
        group = inner
    if exists(group, parts[-1]):
        raise UsageError(f"{path} is there already", name=path)
    made = h5d.create(group, encode_name(parts[-1]), h5t.STD_I8LE, h5s.create(h5s.SCALAR), dcpl=creation_list())
    return int(h5o.get_info(made).addr)
