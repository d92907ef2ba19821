"""Files with tables: open, read, write, and commit changes."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Never, TypedDict, TypeVar

import pyarrow as pa

from colonnade import writing
from colonnade.errors import ConflictError, FormatError, TableNotFound, UnsupportedError, UsageError
from colonnade.layouts import Layout, follow_file, layout_of, located, named_layout
from colonnade.layouts.found import table_at, walk_tables
from colonnade.model import ColumnOptions, Progress, TableInfo
from colonnade.nodes import Dataset, Group
from colonnade.nodes.attributes import ROOT_ATTRIBUTES, Attributes, check_attribute_names, read_values
from colonnade.nodes.damage import to_corrupt_error, translate_hdf5_errors
from colonnade.nodes.paths import editable, is_dataset, join_path, walk_groups
from colonnade.opening import open_file
from colonnade.pager.interrupts import shielded
from colonnade.pager.locks import Locking
from colonnade.pager.options import Care, Durability, HardLinks, Library, Links, Target
from colonnade.pager.options import Mode as FileMode
from colonnade.pager.readers import Attempts
from colonnade.pager.receipts import Receipts, Trust, file_state, load_receipts, save_receipts
from colonnade.sealed import Sealed
from colonnade.table.table import Table
from colonnade.threads import default_threads

if TYPE_CHECKING:
    import h5py

    from colonnade.edit.create import Draft, ReferenceForm, WriteMode
    from colonnade.h5.files import FileHandle
    from colonnade.layouts import NewSidecars
    from colonnade.layouts.foreign_tables import ForeignTable
    from colonnade.table.index_file import IndexFile

    class Asked(TypedDict, total=False):
        """The arguments of `open` with which a pickled table is opened again."""

        timeout: float
        locking: Locking
        trust: Trust
        links: Links
        n_threads: int | None
        library: Library
        index_file: str | None


T = TypeVar("T")


def open(  # noqa: A001 - the name is the public contract
    target: Target,
    mode: FileMode = "r",
    *,
    durability: Durability = "full",
    timeout: float = 10.0,
    locking: Locking = "auto",
    trust: Trust = "verified",
    links: Links = "folder",
    hard_links: HardLinks = "refuse",
    hdf5_lock: bool = True,
    n_threads: int | None = None,
    library: Library = "auto",
    index_file: str | os.PathLike[str] | None = None,
) -> File:
    """Open an HDF5 file: a path, an open h5py.File or group, a binary file object, or an fsspec URL.

    mode: "r" read, "r+" change, "w" create or replace, "a" change or create. A created file appears under its name,
    complete, when it is closed without an error. durability: "full" syncs every commit to the disk, "fast" leaves that
    to the operating system. timeout: seconds to wait for another writer, and for other HDF5 programs. locking: "none"
    to take no locks. hdf5_lock: hold HDF5's own lock while a commit overwrites bytes. While another program has the
    file open through HDF5 (h5py and others), a commit raises ConflictError after the timeout, so that the program never
    reads a mixture of states. trust: which search indexes queries use: "verified" those built here or verified,
    "always" all, "never" none. links: which other files this one may refer to, by external links, external storage and
    virtual sources: "folder" those in its own folder or below, "none", or "any". If a file is opened several times, the
    last setting applies. hard_links: whether a file with several names (hard links) may be changed: "refuse" or
    "allow". The lock and the journal are next to the name that was opened, and the change also appears under the other
    names, which may be backups. n_threads: threads that read and decompress chunks; by default $COLONNADE_THREADS, or
    the number of cores. library: a file that is opened for reading is read by colonnade itself; what it does not know
    (external storage, virtual datasets, plugin filters) is read by the HDF5 library ("auto"), or refused ("never"): the
    choice for untrusted files. index_file: a file of search indexes that `Table.build_index(..., index_file=...)` built
    for tables of this file, which is only read.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> with cn.open("run.h5") as f:
    ...     f.tables()
    ['/events']
    """
    if n_threads is not None and n_threads < 1:
        raise UsageError(f"n_threads must be at least 1, not {n_threads}")
    if trust not in ("verified", "always", "never"):
        raise UsageError(f"trust must be 'verified', 'always' or 'never', not {trust!r}")
    care = Care(durability, timeout, locking, links, hard_links, hdf5_lock, library)
    hdf5_file, notes = located(target)
    handle = open_file(hdf5_file, mode, care=care)
    handle.notes |= notes
    try:
        file = File(handle, trust, n_threads)
        if notes:  # a document that is not next to its file
            file._opened_by = str(target)
        file._asked = {
            "timeout": timeout,
            "locking": locking,
            "trust": trust,
            "links": links,
            "n_threads": n_threads,
            "library": library,
            "index_file": None if index_file is None else str(Path(index_file).absolute()),
        }
        if index_file is not None:
            file._use_index_file(index_file).open()
        return file
    except BaseException:
        handle.close(keep=False)
        raise


def _progress_of_passes(progress: Progress | None, n_passes: int) -> Progress | None:
    """Progress of the first of several passes over the same rows."""
    if progress is None or n_passes == 1:
        return progress
    return lambda done, total: progress(done, None if total is None else n_passes * total)


def _report_further(progress: Progress, before: int, done: int, total: int | None) -> None:
    """Report progress of rows that come after the `before` rows already reported."""
    progress(before + done, None if total is None else before + total)


class File(Sealed):
    """An open HDF5 file with tables in it, next to whatever else it holds.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> with cn.open("run.h5", "r+") as f:
    ...     f["events"].append({"ts": [4], "energy": [1.0]})
    ...     f.h5["events/ts"][:].tolist()
    1
    [1, 2, 3, 4]
    """

    @shielded
    def __init__(self, handle: FileHandle, trust: Trust = "verified", n_threads: int | None = None) -> None:
        self._handle = handle
        self._n_threads = n_threads if n_threads is not None else default_threads()
        self._trust: Trust = trust
        self._opened_by = handle.name
        self._asked: Asked = {}  # the arguments of `open`: a pickled table is opened again with them
        self._in_transaction = False
        self._spoiled = False
        self._read_only_since: str | None = None  # why its tables cannot be changed, if the mode is not the reason
        self._resized: set[str] = set()  # tables whose number of rows has changed since the last commit
        self._receipts: Receipts = {}
        self._receipts_of: int | None = None
        self._new_sidecars: dict[str, NewSidecars] = {}  # by the path of the table
        self._asked_layouts: dict[str, Layout] = {}  # of tables opened with a layout, by path
        self._index_file: IndexFile | None = None
        self._read_as: str | None = None  # the layout of all tables, as --layout asks for
        self._has_warned_of_size = False  # that a large table is read whole through the Arrow stream
        self._n_verified = 0  # verifications so far: open indexes are trusted as of one of them

    @property
    def h5(self) -> h5py.File:
        """The h5py.File (or the group that was opened), for the arrays next to the tables.

        It is replaced after a commit by another program, and after a rollback: get it again. In a file open for
        reading, it and objects obtained from it raise ConflictError once another program has changed the file.
        """
        self._check_open()
        self._handle.refresh()
        if self._handle.is_journaled:
            self._receipts_now()  # before the caller can write: later writes invalidate them
        shown: h5py.File = self._handle.shown
        return shown

    @property
    def name(self) -> str:
        """The file's name."""
        return self._handle.name

    @property
    def attrs(self) -> Attributes:
        """Attributes of the file's root, or of the group that was opened, as `Table.attrs`: each set is one commit."""
        self._check_open()
        return Attributes(
            lambda name: self._consistent(lambda: read_values(self._handle.root, self._owned_attributes(), name)),
            self._change_attributes,
        )

    def _owned_attributes(self) -> tuple[str, ...]:
        layout = layout_of(self._handle.root)
        return ROOT_ATTRIBUTES if layout is None else (*layout.group_attributes, *ROOT_ATTRIBUTES)

    def _change_attributes(self, new: Mapping[str, object], without: tuple[str, ...]) -> None:
        owned = self._consistent(self._owned_attributes)
        check_attribute_names((*new, *without), owned, Table, f"file {self.name}")
        with self._change():
            writing.write_values(editable(self._handle.root), new, without)

    def tables(self) -> list[str]:
        """The paths of all tables; broken and unknown objects are skipped.

        Tables of every layout, then data frames of anndata before 0.7 and the features and barcodes of 10x files,
        which are read into memory when they are opened; the latter not of a file opened with library="never".

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> f = cn.open("run.h5")
        >>> f.tables()
        ['/events']
        """
        if self._read_as is not None:
            return self._tables_as(self._read_as)
        return self._consistent(lambda: [*self._layout_tables(), *self._foreign_tables()])

    def _layout_tables(self) -> list[str]:
        """The paths of the tables that a layout describes."""
        foreign = self._foreign_tables()
        return [path for path, _, _ in walk_tables(self._handle.root) if path not in foreign]

    def _foreign_tables(self) -> dict[str, ForeignTable]:
        """Objects that can be read as tables although no layout describes them, by path."""
        from colonnade.layouts.foreign_hints import may_hold_foreign_tables

        root = self._handle.root
        is_untrusted = self._asked.get("library") == "never"  # such a table is made by libhdf5, in memory
        if is_untrusted or root.path != "/" or not may_hold_foreign_tables(root):
            return {}
        from colonnade.layouts.foreign_tables import foreign_tables

        foreign = foreign_tables(root)
        return {path: table for path, table in foreign.items() if not self._has_group_table(path)}

    def _tables_as(self, layout: str) -> list[str]:
        """The paths of all objects that can be read as tables of a layout; of datasets, those that declare it."""
        known = named_layout(layout)
        root = self._handle.root
        if known.is_of_datasets:
            return self._consistent(lambda: [path for path, _, declared in walk_tables(root) if declared is known])
        return self._consistent(lambda: [path for path, group in walk_groups(root) if known.can_read(group)])

    def _has_table(self, path: str) -> bool:
        """Whether a layout describes the table at a path."""
        return table_at(self._handle.root, self._absolute(path), self._read_as_layout) is not None

    @property
    def _read_as_layout(self) -> Layout | None:
        return None if self._read_as is None else named_layout(self._read_as)

    def _has_group_table(self, path: str) -> bool:
        """Whether the group at a path is a table of a layout."""
        group = self._handle.root.open_group(path)
        return group is not None and layout_of(group) is not None

    def sparse_arrays(self) -> list[str]:
        """The paths of all sparse arrays, which no HDF5 library reads: `colonnade.open_sparse(file, path)` does.

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="f4")
        >>> cn.open("run.h5").sparse_arrays()
        ['/matrix']
        """
        from colonnade.table.sparse import sparse_paths

        return sparse_paths(self)

    def _consistent(self, read: Callable[[], T]) -> T:
        """The result of `read`, from one state of the file: read again if a writer committed meanwhile."""
        self._check_open()
        if self._handle.held:
            return read()
        with Attempts(self._handle) as attempts:
            while attempts.again():
                with attempts.one():
                    result = self._read_held(read)
        return result

    def _read_held(self, read: Callable[[], T]) -> T:
        """The result of `read`, without looking for commits by others meanwhile; HDF5's errors as errors of ours."""
        self._handle.held = True
        try:
            with translate_hdf5_errors(self.name):
                result = read()
        except Exception as error:
            self._raise_lost(error)
            raise
        else:
            self._raise_lost()
            return result
        finally:
            self._handle.held = False

    def _raise_lost(self, error: Exception | None = None) -> None:
        """Raise the exception raised inside an HDF5 callback, instead of HDF5's own error."""
        lost = self._handle.take_failure(error)
        if lost is not None and lost is not error:
            raise lost from error

    @contextmanager
    def _steady(self) -> Iterator[None]:
        """Check once for a commit by another program, and not again inside; for calls that read no rows."""
        self._check_open()
        handle = self._handle
        if handle.held:
            yield
            return
        handle.refresh()
        handle.held = True
        try:
            yield
        except Exception as error:
            self._raise_lost(error)
            raise
        finally:
            handle.held = False

    def __getitem__(self, path: str) -> Table:
        """The table at a path."""
        return self.table(path)

    def table(self, path: str, layout: str | None = None) -> Table:
        """The table at a path; with `layout`, read as a table of this layout.

        A layout is needed for groups that do not declare themselves as tables, and where a group has two layouts.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> f = cn.open("run.h5")
        >>> f.table("events").columns, f.table("events", layout="hep001").layout
        (['ts', 'energy'], 'hep001')
        """
        self._check_open()
        layout = layout if layout is not None else self._read_as
        if layout is not None:
            return Table(self, path, layout)
        try:
            return Table(self, path)
        except (TableNotFound, UsageError):
            foreign = self._consistent(lambda: self._read_foreign(path))
            if foreign is None:
                raise
        return self._open_foreign(*foreign)

    def _read_foreign(self, path: str) -> tuple[ForeignTable, pa.Table, list[str]] | None:
        """A table that no layout describes, its rows and the names of its labels; None if there is none."""
        table = self._foreign_tables().get(self._absolute(path))
        return None if table is None else (table, *table.read())

    def _open_foreign(self, table: ForeignTable, rows: pa.Table, labels: list[str]) -> Table:
        """A table that no layout describes, as a table in memory."""
        from colonnade.table.at_once import write

        stream = io.BytesIO()
        title = f"{table.path} of a file of {table.kind}, read into memory"
        write(stream, rows, table=table.path, labels=labels, title=title, allow_reserved=True)
        memory = open(stream)
        memory._read_only_since = f"{table.path} of {self.name}: it is a table of {table.kind}, read into memory"
        return memory[table.path]

    def _describe(self, path: str, asked: str | None = None) -> tuple[Group, Layout, TableInfo]:
        """The group, the layout and the description of the table at a path, from the current file.

        asked: the name of a layout; by default the one that the group declares.
        """
        whole = self._absolute(path)
        layout = None if asked is None else named_layout(asked)
        opened = table_at(self._handle.root, whole, layout)
        may_be_foreign = opened is not None and opened[1].is_of_datasets and asked is None
        if opened is None or (may_be_foreign and whole in self._foreign_tables()):
            if asked is not None and self._handle.root.has_link(whole):
                own = table_at(self._handle.root, whole)
                hint = "" if own is None else f": it is one of layout {own[1].name!r}"
                raise UsageError(
                    f"{path} of {self.name} cannot be read as a table of layout {asked!r}{hint}", path=path
                )
            raise self._not_a_table(path, self._handle.root.open_group(whole))
        group, layout = opened
        if asked is not None:
            self._asked_layouts[whole] = layout
        return group, layout, layout.describe(group, whole)

    def _absolute(self, path: str) -> str:
        """The path from the file's root; a path without a leading slash starts at the group that was opened."""
        if not isinstance(path, str):
            raise UsageError(f"the path of a table is a string, not {path!r}")
        begin = "" if path.startswith("/") else self._handle.root.path
        return "/" + "/".join(part for part in f"{begin}/{path}".split("/") if part)

    def _not_a_table(self, path: str, group: Group | None) -> Exception:
        if self._handle.root.open_dataset(self._absolute(path)) is not None:
            return UsageError(
                f"{path} of {self.name} is a dataset, not a table: read it with file.h5[{path!r}]", path=path
            )
        slash = path.startswith("/")
        return TableNotFound(path, self.name, [name if slash else name.lstrip("/") or "/" for name in self.tables()])

    def _unchanged(self, start: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """The batches of `start`, all from one state of the file; a commit meanwhile raises ConflictError."""
        begun, batches = self._consistent(lambda: (self._handle.generation, start()))
        return self._as_long_as(begun, batches)

    def _as_long_as(self, begun: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while True:
            batch, failure = None, None
            try:
                batch = next(batches, None)
            except Exception as error:  # noqa: BLE001 - raised below, unless the file has changed
                failure = error
            self._raise_lost(failure)
            if batch is None and failure is None:
                return
            if self._handle.generation != begun or not self._handle.is_current():
                raise ConflictError(
                    f"{self.name} was changed while its batches were read: start again", path=self.name
                ) from failure
            if failure is not None:
                translated = to_corrupt_error(failure, self.name)
                raise translated from (failure if translated is not failure else failure.__cause__)
            assert batch is not None  # there was no failure
            yield batch

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str):
            return False
        return self._consistent(lambda: self._has_table(path) or self._absolute(path) in self._foreign_tables())

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def _ipython_key_completions_(self) -> list[str]:
        return [path.lstrip("/") or "/" for path in self.tables()]

    def __len__(self) -> int:
        return len(self.tables())

    def _only_table(self, layout: str | None = None) -> Table:
        tables = self.tables() if layout is None else self._tables_as(layout)
        if len(tables) == 1:
            return self.table(tables[0], layout)
        if not tables:
            raise TableNotFound("", self.name, [])
        raise UsageError(f"{self.name} holds {len(tables)} tables: choose from {', '.join(tables[:8])}", tables=tables)

    def create(
        self,
        table: str,
        data: object,
        *,
        mode: WriteMode = "error",
        progress: Progress | None = None,
        title: str | None = None,
        description: str | None = None,
        units_vocabulary: str | None = None,
        columns: Mapping[str, ColumnOptions | Mapping[str, object]] | None = None,
        labels: Sequence[str] | Mapping[str, object] | None = None,
        index: Mapping[str, str | Sequence[str]] | None = None,
        layout: str = "hep001",
        version: str | tuple[int, int] | None = None,
        directory: bool = False,
        anndata: bool | Literal["0.7"] = False,
        allow_reserved: bool = False,
        references: ReferenceForm = "object",
        **unknown: Never,
    ) -> Table:
        """Write data as a new table of this file. One commit. The parameters are those of `colonnade.write`.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> f = cn.open("run.h5", "r+")
        >>> t = f.create("other", {"x": [1.5, None]}, title="Two rows")
        >>> f.tables(), t.title
        (['/events', '/other'], 'Two rows')
        """
        from colonnade.edit.create import TableOptions, prepare, refuse_unknown
        from colonnade.table.other_tables import as_rows

        refuse_unknown(unknown, "create", File.create)
        options = TableOptions(
            title=title, description=description, units_vocabulary=units_vocabulary, columns=columns, labels=labels,
            index=index, layout=layout, version=version, directory=directory, anndata=anndata,
            allow_reserved=allow_reserved, references=references,
        )  # fmt: skip
        self._write(table, prepare(as_rows(data), options), mode, progress)
        return self[table]

    def _write(self, table: str, draft: Draft, mode: WriteMode, progress: Progress | None) -> None:
        from colonnade.edit.create import create
        from colonnade.edit.index import Indexes
        from colonnade.sparse.draft import put_drafts

        self._check_writable()
        with self._change(resized=self._absolute(table)):
            path = self._absolute(table)
            self._note_sidecars(draft, path)
            if draft.has_sparse and not self._handle.is_journaled:
                raise UsageError(f"{self.name} was not opened from a path, so sparse columns cannot be created in it")
            if mode == "replace" and self._has_table(path):
                self._remove_sparse(path)
            for key in [key for key in self._receipts if key[0] in (path, f"{path.rstrip('/')}/_hep001")]:
                del self._receipts[key]
            of_first_pass = _progress_of_passes(progress, 1 + len(draft.index))
            path, sparse = create(editable(self._handle.root), path, draft, mode, of_first_pass)
            put_drafts(self._handle, sparse)
            if draft.index:
                group, layout, info = self._describe(path)
                further = None if progress is None else partial(_report_further, progress, info.n_rows)
                Indexes(group, layout, info, self._receipts).build(draft.index, progress=further)

    def _note_sidecars(self, draft: Draft, path: str) -> None:
        """Remember what to write next to the file when it is closed."""
        sidecars, file_path = draft.creation.sidecars, self._handle.path
        if sidecars is None:
            return
        if file_path is None or not self._handle.is_journaled:
            raise UsageError(f"{self.name} was not opened from a path, next to which this layout writes its metadata")
        before = {table: noted for table, noted in self._new_sidecars.items() if table != path}
        sidecars.check_place(self._handle.root, path, not before)
        self._new_sidecars = {**before, path: sidecars}

    def drop(self, table: str) -> None:
        """Remove a table; what other programs put into its group stays. One commit.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> f = cn.open("run.h5", "r+")
        >>> f.drop("events")
        >>> f.tables()
        []
        """
        with self._change():
            self._remove_sparse(table)
            group, layout, info = self._describe(table)
            for key in [key for key in self._receipts if key[0] == info.path]:
                del self._receipts[key]
            layout.edit.clear(editable(group))
            if info.path != "/" and not group.link_names():
                writing.unlink(editable(self._handle.root), info.path)

    def _remove_sparse(self, table: str) -> None:
        """Remove the sparse columns of a table before the rest of it; HDF5 cannot remove them."""
        from colonnade.sparse.draft import retire_arrays

        _, _, info = self._describe(table)
        paths = [join_path(info.path, column.name) for column in info.members if column.storage == "sectioned"]
        if not paths:
            return
        if not self._handle.is_journaled:
            raise UsageError(f"{self.name} was not opened from a path, so its sparse columns cannot be removed")
        retire_arrays(self._handle, paths)
        for path in paths:
            writing.unlink(editable(self._handle.root), path)

    def repack(
        self,
        *,
        chunk_rows: int | Literal["auto"] | None = None,
        filters: str | None = None,
        progress: Progress | None = None,
    ) -> tuple[int, int]:
        """Rewrite the file to its smallest size, in one step; returns its bytes before and after.

        Everything else in the file is kept: groups, arrays (also sparse arrays), attributes, links, references. Space
        left by dropped and replaced objects is freed. chunk_rows, filters: how to store the columns of all tables
        ("auto": as for new tables; filters="portable": shuffle and deflate, which readers without the HDF5 library also
        support); by default unchanged. progress: called with the bytes copied so far and the bytes in all. Handles into
        the file (`file.h5` and objects obtained from it) are invalid afterwards.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> f = cn.open("run.h5", "r+")
        >>> before, after = f.repack()
        >>> after <= before
        True
        """
        from colonnade.edit.repack import NewStorage, repack
        from colonnade.edit.sparse_copy import MovingArrays
        from colonnade.sparse.opened import OpenTarget

        self._check_writable()
        if self._in_transaction:
            raise UsageError("cannot repack a file inside a transaction: its changes are not committed yet")
        storage = NewStorage(chunk_rows, filters)
        before = Path(self.name).stat().st_size
        receipts = dict(self._receipts_now())
        reader = OpenTarget(self.name)
        arrays = MovingArrays(reader.refresh)
        places: dict[int, str] = {}

        def copy(source: Group, target: Group) -> None:
            places.update(repack(source, target, storage, receipts, progress, arrays.meet))

        try:
            with translate_hdf5_errors(self.name):
                self._handle.rewrite(copy, lambda stream: arrays.put_copies(stream, self.name, places))
        except Exception as error:
            self._raise_lost(error)
            raise
        finally:
            reader.close()
        self._receipts = receipts
        self._keep_receipts()
        self._raise_lost()
        return before, Path(self.name).stat().st_size

    def transaction(self) -> AbstractContextManager[File]:
        """Several changes as one commit: an exception inside rolls all of them back.

        Handles into the file (`file.h5` and objects obtained from it) are invalid after a rollback.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> f = cn.open("run.h5", "r+")
        >>> with f.transaction():
        ...     f["events"].truncate(2)
        ...     f["events"].rename_column("ts", "time")
        >>> f["events"]["time"][:]
        array([1, 2])
        """
        from colonnade.table.changing import Transaction

        return Transaction(self)

    def _change(self, resized: str | None = None) -> AbstractContextManager[None]:
        """One commit for everything done inside, or a part of a transaction; rolled back completely if it fails.

        resized: the path of a table whose number of rows changes.
        """
        from colonnade.table.changing import Change

        return Change(self, resized)

    # -- which indexes are trusted --

    def _receipts_now(self) -> Receipts:
        """The receipts that are valid for the current file; those of columns written without this library are dropped.

        No receipt is valid for a file that the caller can write at any time through an h5py handle.
        """
        handle = self._handle
        if handle.path is None:
            return {} if handle.writable else self._receipts
        if handle.is_journaled:
            if self._receipts_of is None:
                self._receipts, self._receipts_of = (
                    ({} if handle.is_new else load_receipts(handle.path, handle.status())),
                    0,
                )
                self._note_changes()
            elif self._receipts:
                self._forget_touched(handle.take_written())
        elif self._receipts_of != handle.generation:
            self._receipts, self._receipts_of = load_receipts(handle.path), handle.generation
        return self._receipts

    def _forget_touched(self, written: list[tuple[int, int]]) -> None:
        """Drop the receipts of columns whose rows were written without this library, through `file.h5`."""
        for path, name in {key[:2] for key in self._receipts} if written else ():
            from colonnade.nodes.row_views import stored_parts

            datasets = [part for node in self._row_datasets(path, name) for part in stored_parts(node)]
            if any(dataset is None or writing.is_touched(editable(dataset), written) for dataset in datasets):
                self._receipts = {key: digests for key, digests in self._receipts.items() if key[:2] != (path, name)}

    def _row_datasets(self, path: str, name: str) -> list[Dataset | None]:
        """The datasets that hold the rows of a column: its values or codes, its mask, its heap. None: it does not
        exist."""
        opened = table_at(self._handle.root, path, self._asked_layouts.get(path))
        if opened is None:
            return [None]
        group, layout = opened
        try:
            column = layout.describe(group, path).by_name.get(name)
            rows, companion = layout.open_column(group, column) if column is not None else (None, None)
        except (FormatError, UnsupportedError):
            return [None]
        is_stored = column is not None and (column.is_masked or column.encoding in ("pointers", "levels"))
        datasets = [rows, companion] if is_stored and not isinstance(companion, pa.Array) else [rows]
        return [node if is_dataset(node) else None for node in datasets]

    def _note_changes(self) -> None:
        """Record that everything written so far was written by this library."""
        self._handle.take_written(flush=bool(self._receipts))

    def _keep_receipts(self) -> None:
        """After a commit: mark the receipts as valid for the current file."""
        self._note_changes()
        if self._handle.path is not None and not self._handle.is_new:
            save_receipts(self._handle.path, self._receipts, file_state(self._handle.status()))

    def _save_verified(self, state: list[int] | None) -> None:
        """After a verification by a reader: save the receipts if the file has not changed meanwhile."""
        self._n_verified += 1
        if self._handle.path is not None and state is not None:
            save_receipts(self._handle.path, self._receipts, state)

    def _use_index_file(self, path: str | os.PathLike[str]) -> IndexFile:
        """The index file at a path, which is now the one of this file."""
        from colonnade.table.index_file import IndexFile

        if self._index_file is None or self._index_file.path != Path(path):
            if self._index_file is not None:
                self._index_file.close()
            self._index_file = IndexFile(path, self)
            self._asked["index_file"] = str(Path(path).absolute())
        return self._index_file

    def _file_state(self) -> list[int] | None:
        return None if self._handle.path is None or self._handle.is_journaled else file_state(self._handle.path)

    def _check_writable(self) -> None:
        self._check_open()
        if self._read_only_since is not None:
            raise UsageError(f"cannot change {self._read_only_since}. Write its rows to a table first.")
        if not self._handle.writable:
            raise ConflictError(
                f"{self.name} is open for reading: open it with mode 'r+' or 'a' to write", path=self.name
            )

    def _check_open(self) -> None:
        self._handle.make_usable()
        if not self._handle.is_open:
            raise UsageError(f"{self.name} is closed")

    @shielded
    def close(self) -> None:
        """Close the file.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> f = cn.open("run.h5")
        >>> f.close()
        >>> f.tables()
        Traceback (most recent call last):
        colonnade.errors.UsageError: ... is closed
        """
        self._close(keep=True)

    def _close(self, keep: bool) -> None:
        handle = self._handle
        if self._index_file is not None:
            self._index_file.close()
        try:
            if handle.is_open and handle.is_journaled and handle.path is not None and keep:
                handle.when_closed = partial(self._settle, handle.path, self._receipts_now())
        except BaseException:
            handle.close(keep=False)
            raise
        with translate_hdf5_errors(self.name):
            handle.close(keep)

    def _settle(self, path: Path, receipts: Receipts, status: os.stat_result) -> None:
        """After closing the file: save its receipts, and publish its sidecar files."""
        from colonnade.table.changing import update_following_tables

        for table, sidecars in self._new_sidecars.items():
            sidecars.publish(path, table, len(self._new_sidecars) == 1)
        if not self._new_sidecars:
            follow_file(path)
        update_following_tables(path, self._handle.notes)
        save_receipts(path, receipts, file_state(status))

    @shielded
    def __enter__(self) -> File:
        return self

    @shielded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(keep=kind is None)

    def __repr__(self) -> str:
        if not self._handle.is_open:
            return f"<File {self.name} (closed)>"
        tables = self.tables()
        shown = ", ".join(tables[:6]) + (", ..." if len(tables) > 6 else "")
        return f"<File {self.name}: {len(tables)} table{'' if len(tables) == 1 else 's'} {shown}>".replace(" >", ">")
