"""`convert`: writes every table of a file in another layout, into a new file that appears when it is complete."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import field
from functools import partial
from pathlib import Path

from colonnade.converting.draft import LayoutOptions, TableDraft, draft_table
from colonnade.converting.indexes import indexes_of
from colonnade.dataclass import dataclass
from colonnade.edit.sparse_copy import MovingArrays
from colonnade.errors import UsageError
from colonnade.h5.copying import copy_file
from colonnade.layouts import LAYOUTS, located, named_layout, new_directory
from colonnade.model import Progress
from colonnade.nodes import Group
from colonnade.nodes.paths import editable, group_at, join_path
from colonnade.sparse.opened import OpenTarget
from colonnade.table import File, Table
from colonnade.table import open as open_file

OTHERS = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".jsonl", ".json")


@dataclass(slots=True)
class Converted:
    """What was done: tables written in the other layout, tables that had it already (or are parts of mappings).

    indexes: how many search indexes were rebuilt; notes: those that could not be, and why.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> done = cn.convert("run.h5", "run.h5ad")
    >>> done.layout, done.tables
    ('anndata', ['/events'])
    """

    layout: str
    tables: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    indexes: int = 0
    notes: list[str] = field(default_factory=list)


def convert(
    source: str | os.PathLike[str] | File,
    target: str | os.PathLike[str],
    *,
    layout: str | None = None,
    version: str | None = None,
    directory: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Converted:
    """Write a file again with its tables in another layout; everything else is copied unchanged.

    layout: "hep001", "anndata" or "artifactdb"; by the suffix of the target when it is not given (`.h5ad` and `.h5mu`:
    "anndata"). version, directory: of "artifactdb", as for `write`; a directory takes the only table of a file that
    holds nothing else. Data frames in mappings (obsm, uns) are elements, and are copied. What the layout cannot hold is
    refused by name, and no new file is written. Rows are streamed: memory does not grow with them. Categories and their
    order, row labels, nullable types, missing rows and attributes come back exactly on the way back. Search indexes are
    rebuilt with the same kinds, columns and options; one that cannot be rebuilt is reported in `notes` of the result.
    progress: called with bytes done and in all.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> cn.convert("run.h5", "run.h5ad").tables
    ['/events']
    >>> cn.open_table("run.h5ad").layout
    'anndata'
    """
    into = _directory_layout() if directory and layout is None else _layout(target, layout)
    named_layout(into).create(version, directory)  # refuses what the layout does not have
    options: LayoutOptions = {"version": version, "directory": directory}
    if Path(target).exists() and not overwrite:
        raise UsageError(f"{os.fspath(target)} already exists (overwrite=True, or --overwrite, replaces it)")
    if isinstance(source, File):
        return _converted(source, target, into, options, progress)
    if Path(target).exists() and Path(source).exists() and Path(located(source)[0]).samefile(located(target)[0]):
        raise UsageError("a file cannot be converted into itself: name another target")
    with open_file(source) as file:
        return _converted(file, target, into, options, progress)


def _converted(
    source: File, target: str | os.PathLike[str], layout: str, options: LayoutOptions, progress: Progress | None
) -> Converted:
    if options["directory"]:
        return _into_directory(source, Path(target), layout, options, progress)
    return _Conversion(source, layout, options).run(target, progress)


def _into_directory(
    source: File, target: Path, layout: str, options: LayoutOptions, progress: Progress | None
) -> Converted:
    """Write the only table of a file as a directory, which cannot hold anything else."""
    paths = source._consistent(source._layout_tables)
    if len(paths) != 1:
        raise UsageError(
            f"a directory holds one table, {source.name} has {len(paths)} ({', '.join(paths[:5])}): write one of them "
            "by itself, with colonnade.write(..., directory=True)"
        )
    table = source[paths[0]]
    others = list(_other_paths(source, table.path))
    if others:
        raise UsageError(
            f"a directory holds one table, {', '.join(others[:5])} of {source.name} would be lost: convert the file, "
            "or write the table by itself"
        )
    draft = draft_table(table, layout, **options)
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file; directory=True makes a directory: choose another path")
    file_path, path = new_directory(layout, target)
    target.mkdir(parents=True, exist_ok=True)
    with open_file(file_path, "w") as file:
        draft.write(file, path, progress)
        indexes = indexes_of(table)
        notes = indexes.build(file, path, draft.names)
    return Converted(layout, [table.path], indexes=indexes.built, notes=notes)


def _other_paths(source: File, path: str) -> Iterator[str]:
    """The objects of a file outside a table, except the groups that contain the table."""
    group, here = group_at(source._handle.library_root, "/"), ""
    for part in [part for part in path.split("/") if part]:
        yield from (join_path(here or "/", child.name) for child in group.children() if child.name != part)
        here = join_path(here or "/", part)
        group = group_at(group, part)


def _directory_layout() -> str:
    """The layout whose tables can be directories."""
    return next(name for name, layout in LAYOUTS.items() if layout.sidecars is not None)


def _layout(target: str | os.PathLike[str], layout: str | None) -> str:
    suffix = Path(target).suffix.lower()
    if suffix in OTHERS:
        raise UsageError(f"convert writes HDF5 files, not {suffix}: `colonnade where FILE TABLE true -o OUT` does that")
    if layout is not None:
        return named_layout(layout).name
    implied = (name for name, known in LAYOUTS.items() if suffix in known.conversion.suffixes)
    return next(implied, next(iter(LAYOUTS)))


class _Conversion:
    """One conversion: everything to be converted is checked before anything is written."""

    def __init__(self, source: File, layout: str, options: LayoutOptions) -> None:
        self.source = source
        self.done = Converted(layout)
        self.drafts: dict[str, TableDraft] = {}
        self.sizes: dict[str, int] = {}
        paths = source._consistent(source._layout_tables)
        for path in paths:
            if any(path.startswith(f"{other}/") for other in paths):
                continue  # the second face of a frame, which goes where that goes; others are refused with their table
            table = source[path]
            has_layout = table.layout == layout and table._layout.sidecars is None
            if has_layout or table._layout.conversion.is_copied(source._handle.library_root, path, paths):
                self.done.copied.append(path)
                continue
            _refuse_what_would_be_lost(table)
            self.drafts[path] = draft_table(table, layout, **options)
            self.sizes[path] = sum(table._stored_bytes(name) for name in table.info.by_name)
        self.done.tables = list(self.drafts)

    def run(self, target: str | os.PathLike[str], progress: Progress | None) -> Converted:
        root = self.source._handle.library_root
        groups = {path: group_at(root, path) for path in self.drafts}
        if groups.get("/") is not None:
            raise UsageError("the root of this file is a table: convert cannot store its layout's group")
        with open_file(target, "w") as file:
            reported = _Progress(progress, sum(self.sizes.values()))
            places = [at for group in groups.values() if (at := group.address) is not None]
            self._copy(root, file, places, reported)
            for path, draft in self.drafts.items():
                draft.write(file, path, partial(reported.rows, self.sizes[path]))
                self._build_indexes(draft, file, path)
                reported.before += self.sizes[path]
            for path in {path.rsplit("/", 1)[0] or "/" for path in self.drafts}:
                for name, known in LAYOUTS.items():
                    known.conversion.mark_parent(editable(group_at(file._handle.root, path)), name == self.done.layout)
        return self.done

    def _build_indexes(self, draft: TableDraft, file: File, path: str) -> None:
        indexes = indexes_of(draft.table)
        self.done.notes += indexes.build(file, path, draft.names)
        self.done.indexes += indexes.built

    def _copy(self, root: Group, file: File, without: Collection[int], reported: _Progress) -> None:
        if self.source._handle.path is None:  # its bytes cannot be read past HDF5: sparse arrays are refused
            copy_file(editable(root), file.h5["/"].id, progress=reported.copied, without=without)
            return
        with closing(OpenTarget(self.source.name)) as reader:
            arrays = MovingArrays(reader.refresh)
            places = copy_file(
                editable(root), file.h5["/"].id, progress=reported.copied, without=without, unread=arrays.meet
            )
            if places:
                file._handle.change_bytes(lambda stream: arrays.put_copies(stream, file.name, places))


def _refuse_what_would_be_lost(table: Table) -> None:
    """Refuse a table whose group holds other objects, or has a second name: neither would be copied."""
    group, path = table._group, table.path
    own = table._layout.own_objects(group)
    foreign = sorted(child.name for child in group.children() if child.name not in own)
    if foreign:
        where = ", ".join(join_path(path, name) for name in foreign[:5])
        raise UsageError(
            f"cannot convert {where}: it is in the group of a table, but not part of it. Move it elsewhere first",
            path=path,
        )
    if path != "/" and group.is_shared:
        raise UsageError(f"{path} has a second name (a hard link), which would be lost: unlink it first", path=path)


@dataclass
class _Progress:
    """Progress of both parts in bytes: first what is copied, then tables by their rows."""

    progress: Progress | None
    of_tables: int
    of_copy: int = 0
    before: int = 0

    def copied(self, done: int, total: int | None) -> None:
        self.of_copy = total or 0
        self.before = done
        self._report(done)

    def rows(self, size: int, done: int, total: int | None) -> None:
        self._report(self.before + (size * done // total if total else size))

    def _report(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, self.of_copy + self.of_tables)
