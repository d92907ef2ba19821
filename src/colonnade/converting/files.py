"""`convert`: writes every table of a file in another layout, into a new file that appears when it is complete."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import field
from functools import partial
from pathlib import Path

import pyarrow as pa

from colonnade.converting import row_files
from colonnade.converting.draft import LayoutOptions, TableDraft, draft_table, source_table
from colonnade.converting.indexes import indexes_of
from colonnade.converting.references import refer_to_tables
from colonnade.dataclass import dataclass
from colonnade.edit.create import ReferenceForm, check_references
from colonnade.edit.sparse_copy import MovingArrays
from colonnade.errors import UsageError
from colonnade.h5.copying import copy_file
from colonnade.layouts import LAYOUTS, located, named_layout, new_directory
from colonnade.model import Progress
from colonnade.nodes import Group
from colonnade.nodes.paths import editable, group_at, join_path
from colonnade.row_files.base import TextOptions
from colonnade.row_files.sinks import check_target
from colonnade.row_files.types import named_types
from colonnade.sparse.opened import OpenTarget
from colonnade.table import File, Table
from colonnade.table import open as open_file

FOREIGN_SUFFIXES = (
    ".json", ".txt", ".xlsx", ".xls", ".ods", ".avro", ".orc", ".sqlite", ".db", ".zip", ".gz", ".bz2", ".zst",
)  # fmt: skip
"""Suffixes of files that this module does not write: HDF5 under such a name would mislead."""


@dataclass(slots=True)
class Converted:
    """What was done: tables written in the other layout, tables that had it already (or are parts of mappings).

    layout: the layout, or the format of a target that is not HDF5. indexes: how many search indexes were rebuilt.
    notes: indexes that could not be, and what the target holds in another form or not at all.

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
    references: ReferenceForm = "object",
    overwrite: bool = False,
    progress: Progress | None = None,
    table: str | None = None,
    format: str | None = None,  # noqa: A002 - the name of the option everywhere
    source_format: str | None = None,
    types: Mapping[str, pa.DataType | str] | None = None,
    missing: Sequence[str] = (),
    delimiter: str | None = None,
    source_layouts: Mapping[str, str] | None = None,
) -> Converted:
    """Write a file again in another layout or format: HDF5, CSV, TSV, JSON lines, Arrow or Parquet.

    From HDF5 to HDF5, every table is written in another layout, and everything else is copied unchanged.
    layout: "hep001", "h5col", "anndata", "artifactdb", "pytables", "pandas" or "compound"; by the suffix of the target
    when not given (.h5ad and .h5mu: "anndata"). references: of "h5col", as for `write`. version, directory: of
    "artifactdb", as for `write`; a directory takes the only table of a file that holds nothing else. Data frames in
    mappings (obsm, uns) are elements, and are copied. What the layout cannot hold is refused by name, and no new file
    is written. Rows are streamed: memory does not grow with them. Categories and their order, row labels, nullable
    types, missing rows and attributes come back exactly on the way back. Search indexes are rebuilt with the same
    kinds, columns and options; one that cannot be rebuilt is reported in `notes` of the result.

    format, source_format: "hdf5", "csv", "tsv", "jsonl", "arrow", "arrows" or "parquet"; by default chosen by suffixes
    (.h5, .csv, .csv.gz, .jsonl, .parquet and so on). table: which table of an HDF5 source, or the name of the one in
    the target. Several tables become files of a format in a folder: name a new folder, and the format. types, missing:
    of a CSV, TSV or JSON-lines source, {column: Arrow type}, and strings that mean a missing value besides the empty
    field. delimiter: of CSV. What the target cannot hold is refused by name, or reported in `notes`.

    source_layouts: {path: layout} of groups in an HDF5 source to be read as `File.table(path, layout)` reads them.

    progress: called with bytes done and in all; with rows if one of the files is not HDF5.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> cn.convert("run.h5", "run.h5ad").tables
    ['/events']
    >>> cn.open_table("run.h5ad").layout
    'anndata'
    >>> cn.convert("run.h5", "run.csv").notes
    []
    >>> cn.convert("run.csv", "again.h5", types={"ts": "int16"}).tables
    ['/run']
    """
    _check_types(source, target, source_layouts)
    path = Path(target)
    files = row_files.RowFiles(
        None if isinstance(source, File) else row_files.row_format(Path(source), source_format, is_source=True),
        row_files.row_format(path, format, is_source=False),
        table,
        TextOptions(named_types(types), missing, delimiter),
    )
    row_files.check_text_options(files)
    if source_layouts and (files.source is not None or files.target is not None):
        raise UsageError(
            "source_layouts (--source-layout) is for HDF5 files. To write the rows of one table, use Table.write, or "
            "colonnade where TABLE true --layout NAME -o FILE"
        )
    if files.target is not None:
        for option in [name for name, value in (("layout", layout), ("version", version)) if value is not None]:
            raise UsageError(f"{option} is for HDF5 files, {path} is {files.target.name}")
        return _convert_to_row_file(source, path, files, overwrite, progress)
    if format is None and path.suffix.lower() in FOREIGN_SUFFIXES:
        raise UsageError(f"cannot write {path}: {path.suffix} is not the suffix of a known format. Give it (--format)")
    into = _directory_layout() if directory and layout is None else _layout(target, layout)
    named_layout(into).create(version, directory)  # refuses what the layout does not have
    check_references(references, named_layout(into))
    options: LayoutOptions = {"version": version, "directory": directory, "references": references}
    asked = dict(source_layouts or {})
    if path.exists() and not overwrite:
        raise UsageError(f"{path} already exists (overwrite=True, or --force, replaces it)")
    if files.source is not None and not isinstance(source, File):
        row_files.check_differ(source, path)
        return Converted(into, [row_files.import_rows(Path(source), path, files, into, options, progress)])
    if table is not None:
        raise UsageError("table (--table) is for row files: every table of an HDF5 file is converted")
    if isinstance(source, File):
        return _converted(source, target, into, options, progress, asked)
    if path.exists() and Path(source).exists() and Path(located(source)[0]).samefile(located(target)[0]):
        raise UsageError("a file cannot be converted into itself: name another target")
    with open_file(source) as file:
        return _converted(file, target, into, options, progress, asked)


def _check_types(source: object, target: object, source_layouts: object) -> None:
    """Refuse what is of another type."""
    if not isinstance(source, (str, os.PathLike, File)):
        raise UsageError(f"what is converted must be a path or a File, not {source!r}")
    if not isinstance(target, (str, os.PathLike)):
        raise UsageError(f"the target must be a path, not {target!r}")
    if source_layouts is not None and not isinstance(source_layouts, Mapping):
        raise UsageError(
            f'source_layouts must be a dict by path, such as {{"/col_attrs": "columns"}}, not {source_layouts!r}',
            option="source_layouts",
        )


def _convert_to_row_file(
    source: str | os.PathLike[str] | File,
    target: Path,
    files: row_files.RowFiles,
    overwrite: bool,
    progress: Progress | None,
) -> Converted:
    assert files.target is not None  # checked by the caller
    row_files.check_differ(source, target)
    is_folder = target.is_dir() or not (target.suffix or target.exists())
    if not is_folder or files.source is not None:
        check_target(target, overwrite)
    if files.source is not None and not isinstance(source, File):
        return Converted(
            files.target.name, [str(source)], notes=row_files.convert_rows(Path(source), target, files, progress)
        )
    with nullcontext(source) if isinstance(source, File) else open_file(source) as file:
        if is_folder and files.table is None:
            paths, notes = row_files.export_tables(file, target, files, progress)
        else:
            path, notes = row_files.export_table(file, target, files, progress)
            paths = [path]
    return Converted(files.target.name, paths, notes=notes)


def _converted(
    source: File,
    target: str | os.PathLike[str],
    layout: str,
    options: LayoutOptions,
    progress: Progress | None,
    asked: Mapping[str, str],
) -> Converted:
    if options["directory"]:
        return _into_directory(source, Path(target), layout, options, progress)
    return _Conversion(source, layout, options, asked).run(target, progress)


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
    others = list(row_files.other_paths(source, [table.path]))
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
        notes = draft.notes + indexes.build(file, path, draft.names)
    return Converted(layout, [table.path], indexes=indexes.built, notes=notes)


def _directory_layout() -> str:
    """The layout whose tables can be directories."""
    return next(name for name, layout in LAYOUTS.items() if layout.sidecars is not None)


def _layout(target: str | os.PathLike[str], layout: str | None) -> str:
    suffix = Path(target).suffix.lower()
    if layout is not None:
        return named_layout(layout).name
    implied = (name for name, known in LAYOUTS.items() if suffix in known.conversion.suffixes)
    return next(implied, next(iter(LAYOUTS)))


class _Conversion:
    """One conversion: everything to be converted is checked before anything is written."""

    def __init__(self, source: File, layout: str, options: LayoutOptions, asked: Mapping[str, str]) -> None:
        self.source = source
        self.done = Converted(layout)
        self.drafts: dict[str, TableDraft] = {}
        self.places: dict[str, str] = {}  # the new paths of tables, by the old ones
        self.sizes: dict[str, int] = {}
        layouts = {source._absolute(path): name for path, name in asked.items()}
        paths = list(dict.fromkeys([*source._consistent(source._layout_tables), *layouts]))
        for path in paths:
            above = next((other for other in paths if path.startswith(f"{other}/")), None)
            if above is not None and above not in self.drafts:
                continue  # the second face of a frame, which goes where that goes; others are refused with their table
            if above is not None and not self._is_lenient(above):
                continue
            table = source.table(path, layouts.get(path))
            has_layout = table.layout == layout and table._layout.sidecars is None
            if has_layout or table._layout.conversion.is_copied(source._handle.library_root, path, paths):
                self.done.copied.append(path)
                continue
            _refuse_second_name(table)
            others = [name for name in _other_objects(table) if join_path(path, name) not in paths]
            draft = self.drafts[path] = draft_table(table, layout, **options)
            self._note_left_out(draft, others)
            self.places[path] = path if above is None else self._place_next_to(above, path, paths)
            self.sizes[path] = sum(table._stored_bytes(name) for name in draft.names)
        self.done.tables = list(self.drafts)

    def _place_next_to(self, above: str, path: str, paths: Collection[str]) -> str:
        """A free path for a table that was inside another, which has no room for it in the new layout."""
        new_path = self.places[above] + "_" + path[len(above) + 1 :].replace("/", "_")
        taken = {*paths, *self.places.values()}
        root = self.source._handle.root
        while new_path in taken or group_at(root, new_path.rsplit("/", 1)[0] or "/").has_link(
            new_path.rsplit("/", 1)[1]
        ):
            new_path += "_"
        self.done.notes.append(f"{path} is now {new_path}: a table cannot be inside another one")
        return new_path

    def run(self, target: str | os.PathLike[str], progress: Progress | None) -> Converted:
        root = self.source._handle.library_root
        if "/" in self.drafts:
            raise UsageError(
                "the root of this file is a table, which convert cannot write as a group of the new file. Write the "
                f"table: cn.open(path)['/'].write('new.h5', table='name', layout={self.done.layout!r})"
            )
        with open_file(target, "w") as file:
            reported = _Progress(progress, sum(self.sizes.values()))
            places = [
                at
                for draft in self.drafts.values()
                for at in draft.table._layout.conversion.replaced_objects(draft.source)
            ]
            self._copy(root, file, places, reported)
            for path, draft in self.drafts.items():
                draft.write(file, self.places[path], partial(reported.rows, self.sizes[path]))
                self._build_indexes(draft, file, self.places[path])
                reported.before += self.sizes[path]
            lenient = {
                at: self.places[path]
                for path, draft in self.drafts.items()
                if self._is_lenient(path) and (at := draft.source.group.address)
            }
            if lenient:
                refer_to_tables(root, file._handle.root, lenient)
            for path in {path.rsplit("/", 1)[0] or "/" for path in self.places.values()}:
                for name, known in LAYOUTS.items():
                    known.conversion.mark_parent(editable(group_at(file._handle.root, path)), name == self.done.layout)
        return self.done

    def _is_lenient(self, path: str) -> bool:
        """Whether a table is of a layout whose tables are converted as far as possible."""
        draft = self.drafts[path]
        return draft.table._layout.conversion.left_out(draft.source) is not None

    def _note_left_out(self, draft: TableDraft, others: Collection[str]) -> None:
        """Note what of a table and its group is not in the target."""
        path = draft.table.path
        self.done.notes += draft.notes
        for name in others:
            where = join_path(path, name)
            self.done.notes.append(f"{where} was left out: it is in the group of a table, but not part of it")

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


def _other_objects(table: Table) -> list[str]:
    """The names of objects in the group of a table that do not belong to it. They would not be copied, so they are
    refused, unless the layout is one whose tables are converted as far as possible."""
    group, path = table._group, table.path
    own = table._layout.own_objects(group)
    foreign = sorted(child.name for child in group.children() if child.name not in own)
    if foreign and table._layout.conversion.left_out(source_table(table)) is None:
        where = ", ".join(join_path(path, name) for name in foreign[:5])
        raise UsageError(
            f"cannot convert {where}: it is in the group of a table, but not part of it. Move it elsewhere first",
            path=path,
        )
    return foreign


def _refuse_second_name(table: Table) -> None:
    """Refuse a table whose group has a second name, which would not be copied."""
    path = table.path
    if path != "/" and table._group.is_shared:
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
