"""`convert`: every table of a file in another layout, in a new file that appears when it is complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from colonnade.converting.anndata import draft_anndata
from colonnade.converting.draft import CONVERTED_FROM, TableDraft
from colonnade.converting.hep001 import draft_hep001
from colonnade.dataclass import dataclass
from colonnade.errors import UsageError
from colonnade.h5 import attributes
from colonnade.h5.copying import copy_file
from colonnade.h5.links import address, open_group
from colonnade.model import Progress
from colonnade.table import File, Table
from colonnade.table import open as open_file

INTO: dict[str, Callable[[Table], TableDraft]] = {"hep001": draft_hep001, "anndata": draft_anndata}
SUFFIXES = {".h5ad": "anndata", ".h5mu": "anndata"}
OTHERS = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".jsonl", ".json")
MAPPING = "dict"
OBJECTS = ("anndata", "raw", "MuData")  # of AnnData, whose frames are their axes


@dataclass
class Converted:
    """What was done: tables written in the other layout, tables that had it already (or are parts of mappings)."""

    layout: str
    tables: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)


def convert(
    source: str | os.PathLike[str] | File,
    target: str | os.PathLike[str],
    *,
    layout: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Converted:
    """Write a file anew with its tables in another layout; everything else is copied as it is.

    layout: "hep001" or "anndata"; by the suffix of the target when it is not given (`.h5ad` and `.h5mu`: "anndata").
    Data frames in mappings (obsm, uns) are elements, and are copied. What the layout cannot hold is refused by name
    before anything is written. Categories and their order, row labels, nullable types and missing rows come back
    exactly on the way back; search indexes are not taken along. progress: called with bytes done and in all.
    """
    into = _layout(target, layout)
    if Path(target).exists() and not overwrite:
        raise UsageError(f"{os.fspath(target)} is there already (overwrite=True, or --overwrite, replaces it)")
    if isinstance(source, File):
        return _Conversion(source, into).run(target, progress)
    if Path(target).exists() and Path(source).exists() and Path(source).samefile(target):
        raise UsageError("a file cannot be converted into itself: name another target")
    with open_file(source) as file:
        return _Conversion(file, into).run(target, progress)


def _layout(target: str | os.PathLike[str], layout: str | None) -> str:
    suffix = Path(target).suffix.lower()
    if suffix in OTHERS:
        raise UsageError(f"convert writes HDF5 files, not {suffix}: `colonnade where FILE TABLE true -o ...` does that")
    chosen = layout if layout is not None else SUFFIXES.get(suffix, "hep001")
    if chosen not in INTO:
        raise UsageError(f"unknown layout {chosen!r}; known: {', '.join(INTO)}")
    return chosen


class _Conversion:
    """One file on its way: what is to be written otherwise is looked at first, all of it."""

    def __init__(self, source: File, layout: str) -> None:
        self.source = source
        self.done = Converted(layout)
        self.drafts: dict[str, TableDraft] = {}
        self.sizes: dict[str, int] = {}
        paths = source.tables()
        for path in paths:
            if any(path.startswith(f"{other}/") for other in paths):
                continue  # a part of another table, such as the second face of a frame: it goes where that goes
            table = source[path]
            if table.layout == layout or self._is_in_mapping(path):
                self.done.copied.append(path)
                continue
            self.drafts[path] = INTO[layout](table)
            self.sizes[path] = sum(table._stored_bytes(name) for name in table.info.by_name)
        self.done.tables = list(self.drafts)

    def _is_in_mapping(self, path: str) -> bool:
        """Whether a table is a member of a mapping of AnnData (obsm, uns)."""
        above = path.rstrip("/").rsplit("/", 1)[0]
        while above:
            group = open_group(self.source._handle.root, above)
            if attributes.read_text(group, "encoding-type") == MAPPING:
                return True
            above = above.rsplit("/", 1)[0]
        return False

    def run(self, target: str | os.PathLike[str], progress: Progress | None) -> Converted:
        root = self.source._handle.root
        groups = {path: open_group(root, path) for path in self.drafts}
        if groups.get("/") is not None:
            raise UsageError("the root of this file is a table: convert has no place for its layout's group")
        with open_file(target, "w") as file:
            told = _Told(progress, sum(self.sizes.values()))
            places = [place for group in groups.values() if (place := address(group)) is not None]
            self._copy(root, file, places, told)
            for path, draft in self.drafts.items():
                draft.write(file, path, partial(told.rows, self.sizes[path]))
                told.before += self.sizes[path]
            for path in {path.rsplit("/", 1)[0] or "/" for path in self.drafts}:
                _mark(file.h5[path], self.done.layout)
        return self.done

    def _copy(self, root: Any, file: File, without: Collection[int], told: _Told) -> None:
        copy_file(root, file.h5["/"].id, progress=told.copied, without=without)


@dataclass
class _Told:
    """Progress of both parts in bytes: what is copied, then tables by their rows."""

    progress: Progress | None
    of_tables: int
    of_copy: int = 0
    before: int = 0

    def copied(self, done: int, total: int | None) -> None:
        self.of_copy = total or 0
        self.before = done
        self._tell(done)

    def rows(self, size: int, done: int, total: int | None) -> None:
        self._tell(self.before + (size * done // total if total else size))

    def _tell(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, self.of_copy + self.of_tables)


def _mark(group: Any, layout: str) -> None:
    """An AnnData object whose frames went into another layout is none any more; on the way back it is one again."""
    kind, version = (attributes.read_text(group.id, name) for name in ("encoding-type", "encoding-version"))
    if layout != "anndata" and kind in OBJECTS:
        attributes.write_text(group.id, CONVERTED_FROM, f"{kind} {version}")
        for name in ("encoding-type", "encoding-version"):
            attributes.delete(group.id, name)
    kept = attributes.read_text(group.id, CONVERTED_FROM)
    if layout == "anndata" and kept is not None:
        kind, version = kept.split(" ", 1)
        group.attrs["encoding-type"], group.attrs["encoding-version"] = kind, version
        attributes.delete(group.id, CONVERTED_FROM)
