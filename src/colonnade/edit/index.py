"""Builds, lists and drops the search indexes of a table, and keeps them in sync with every change.

`receipts` are those of the whole file (see `trust`): an index built here gets one, an index that had one and was
updated here keeps it, a removed index loses it.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress

from colonnade import writing
from colonnade.columns.keys import Keys
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass, replace
from colonnade.errors import FormatError, UnsupportedError, UsageError
from colonnade.indexes import KINDS, kind_in_file, refusal
from colonnade.indexes.base import BAD_INDEX, Builder, Digests, Index, IndexRevision, Options, Wrong
from colonnade.layouts import Layout
from colonnade.layouts.contract import IndexHome
from colonnade.layouts.found import table_at
from colonnade.layouts.index_home import OpenIndex, PlacedIndex, discard_index, stored_bytes
from colonnade.model import ColumnInfo, IndexInfo, Progress, TableInfo
from colonnade.nodes import Group
from colonnade.nodes.dataset_tables import is_dataset_table
from colonnade.nodes.paths import editable, is_dataset
from colonnade.pager.receipts import Receipts
from colonnade.selection import Selection

_BYTES_AT_ONCE = 1 << 20  # of a column


@dataclass(frozen=True)
class KeptElsewhere:
    """Where the indexes of a table are, if not next to it. file: the name of that file."""

    home: IndexHome
    group: Group
    file: str


@dataclass(frozen=True)
class Indexes:
    """The search indexes of one table of an open file.

    kept_in: where they are, if that is another file than the table's.
    """

    group: Group
    layout: Layout
    info: TableInfo
    receipts: Receipts
    kept_in: KeptElsewhere | None = None

    @property
    def _home(self) -> IndexHome:
        return self.layout.indexes if self.kept_in is None else self.kept_in.home

    @property
    def _home_group(self) -> Group:
        """The group whose member `_search_indexes` holds the indexes."""
        return self.group if self.kept_in is None else self.kept_in.group

    @property
    def _revision(self) -> IndexRevision:
        """How the indexes are stored; those in a file of their own are all stored alike."""
        return self.layout.index_revision if self.kept_in is None else "april"

    def _place(self, column: str, name: str) -> tuple[str, str, str]:
        return self.info.path, column, name

    def open(self) -> list[OpenIndex]:
        """Every search index of the table."""
        return [self._open(placed) for placed in self._home.search_indexes(self._home_group, self.info)]

    def _open(self, placed: PlacedIndex) -> OpenIndex:
        kind = kind_in_file(placed.kind)
        word = placed.kind if kind is None else kind.word
        column = self.info.by_name.get(placed.column or "")
        receipt = self.receipts.get(self._place(placed.column or "", placed.name))
        if receipt is not None and column is not None and receipt.get("rows") != [str(column.n_rows)]:
            receipt = None
        index, problem, unsupported = None, placed.problem, None
        if problem is None and kind is None:
            unsupported = f"its kind, {placed.kind}, is not known here"
        elif problem is None and kind is not None and column is not None:
            index = kind.open(placed.dataset, column, receipt, self._revision)
            unsupported = refusal(column)
            problem = _problem(index) if unsupported is None else None
        is_foreign, problem = unsupported is not None, problem or unsupported
        info = IndexInfo(
            column=placed.column or "",
            kind=word,
            name=placed.name,
            fresh=problem is None,
            trusted=receipt is not None and problem is None,
            bytes=stored_bytes(placed),
            problem=problem,
            file=None if self.kept_in is None else self.kept_in.file,
            stale=placed.is_stale,
        )
        return OpenIndex(placed, info, index if problem is None else None, is_foreign)

    def reader(self, column: ColumnInfo) -> ColumnReader:
        return ColumnReader(column, *self.layout.open_column(self.group, column))

    # -- build, drop, verify --

    def build(
        self, wanted: Mapping[str, Sequence[str]], options: Options | None = None, progress: Progress | None = None
    ) -> None:
        """Build indexes of these kinds for these columns: one pass over each column for all of its kinds.

        An index of the same kind is replaced.
        """
        options = options or Options()
        for column, words in wanted.items():
            check_kinds(self.info.by_name[column], words)
        total, done = sum(self.info.by_name[column].n_rows for column in wanted), 0
        for column, words in wanted.items():
            self.drop(column, words)
            with closing(self._build(self.info.by_name[column], words, options)) as building:
                for n_rows in building:
                    done += n_rows
                    if progress is not None:
                        progress(done, total)

    def _build(self, column: ColumnInfo, words: Sequence[str], options: Options) -> Generator[int]:
        """Feed every chunk to the builders of all kinds; yields the number of rows of each chunk."""
        reader = self.reader(column)
        options = replace(options, revision=self._revision)
        builders: dict[str, tuple[str, Builder]] = {}
        try:
            for word in dict.fromkeys(words):
                home, name = self._home.place_index(editable(self._home_group), column.name, word)
                builders[name] = word, KINDS[word].build(home, name, column, options)
            for start, keys in _keys_by_chunk(reader, column):
                for _, builder in builders.values():
                    builder.add(start, keys)
                yield len(keys)
            for name, (word, builder) in list(builders.items()):
                dataset = builder.finish()
                self._home.attach_index(editable(self._home_group), column.name, KINDS[word].name, dataset)
                digests = builder.digests() or KINDS[word].open(dataset, column, None, options.revision).digests()
                self.receipts[self._place(column.name, name)] = _receipt(digests, column)
                del builders[name]
        finally:
            for name, (_, builder) in builders.items():  # empty unless an exception was raised
                builder.abandon()
                discard_index(editable(self._home_group), name, options.revision)

    def drop(self, column: str, words: Sequence[str] | None = None) -> int:
        """Remove the indexes of a column, or those of some kinds; returns how many there were."""
        of_column = [index for index in self.open() if index.info.column == column]
        gone = [index for index in of_column if words is None or index.info.kind in words]
        for index in gone:
            self._detach(index.placed)
        return len(gone)

    def _detach(self, placed: PlacedIndex) -> None:
        self.receipts.pop(self._place(placed.column or "", placed.name), None)
        self._home.detach_index(editable(self._home_group), placed)

    def verify(self, options: Options | None = None) -> Iterator[tuple[IndexInfo, list[Wrong]]]:
        """Every index with what is wrong with it. A correct index gets a receipt, a wrong one loses it."""
        for opened in self.open():
            key = self._place(opened.info.column, opened.info.name)
            if opened.is_foreign or opened.info.stale:
                yield opened.info, []
                continue
            if opened.index is None:
                yield opened.info, [Wrong("index", opened.info.problem, "an index that suits its column")]
                continue
            fresh = KINDS[opened.info.kind].open(opened.placed.dataset, opened.index.column, None, self._revision)
            wrong = _verified(fresh, self.reader(opened.index.column), options or Options())
            if wrong:
                self.receipts.pop(key, None)
            else:
                self.receipts[key] = _receipt({**fresh.digests(), **fresh.claims()}, fresh.column)
            yield replace(opened.info, trusted=not wrong), wrong

    # -- in sync with changes --

    def follow(
        self,
        before: Sequence[OpenIndex],
        changed: Mapping[str, Selection],
        n_before: int,
        replaced: Collection[str],
        removed: Selection | None = None,
    ) -> None:
        """Update the indexes after rows of these columns were changed, appended or truncated, or rows were removed.

        `before` are the indexes before the change; self.info is the current table. The rows of `replaced` columns are
        in a new dataset, to which no index refers yet. An index that cannot be updated is removed.
        """
        has_tokens = self._revision == "july"
        for opened in before:
            if has_tokens and (opened.info.stale or opened.is_foreign):
                continue  # it stays, and stays out of use
            column = self.info.by_name.get(opened.info.column)
            touched = changed.get(opened.info.column, Selection.none())
            moved = opened.info.column in replaced and opened.index is not None
            if self.info.n_rows == n_before and not touched and not moved:
                continue
            if column is None or opened.index is None or opened.info.kind not in KINDS:
                self._detach(opened.placed)
            elif not moved and _is_stored_alike(column, opened.index.column):
                self._refresh(opened, column, touched, n_before, removed)
            else:
                self._rebuild(opened, column)
        valid = [opened.placed for opened in before if opened.index is not None]
        self._home.confirm_indexes(editable(self._home_group), valid)

    def distrust_sharers(self, changed: Sequence[ColumnInfo]) -> None:
        """Drop the receipts of other tables that may share a changed column (by hard links): their indexes are not
        updated."""
        others = {key[0] for key in self.receipts if key[0] != self.info.path}
        ours = _addresses(self.group, self.layout, changed) if others else set()
        sharing = {path for path in others if _may_share(ours, _row_addresses(self.group, path))}
        for key in [key for key in self.receipts if key[0] in sharing]:
            del self.receipts[key]

    def _refresh(
        self, opened: OpenIndex, column: ColumnInfo, touched: Selection, n_before: int, removed: Selection | None
    ) -> None:
        key = self._place(column.name, opened.info.name)
        kind = KINDS[opened.info.kind]
        assert opened.index is not None  # otherwise it would have been removed
        revision = self._revision
        index = kind.open(opened.placed.dataset, opened.index.column, opened.index.receipt, revision)
        try:
            has_room = all(writing.can_grow(editable(dataset)) for dataset in index.datasets())
            if not has_room:
                dataset = None
            elif removed is None:
                dataset = index.refresh(self.reader(column), touched, n_before, index.options())
            else:
                dataset = index.remove(self.reader(column), removed, n_before, index.options())
        except (*BAD_INDEX, writing.CannotSkipFilter):
            dataset = None
        if dataset is None:
            self._rebuild(opened, column)
        elif key in self.receipts:
            digests = index.refreshed() or kind.open(dataset, column, None, revision).digests()
            self.receipts[key] = _receipt({**digests, **index.claims()}, column)

    def _rebuild(self, opened: OpenIndex, column: ColumnInfo) -> None:
        options = opened.index.options() if opened.index is not None else Options()
        self._detach(opened.placed)
        if refusal(column) is not None:
            return
        with suppress(UsageError):  # now too many values for a bitmap: it stays removed
            for _ in self._build(column, [opened.info.kind], options):
                pass

    def renew(self) -> None:
        """Rebuild every index of a known kind that no longer suits its column."""
        for opened in self.open():
            column = self.info.by_name.get(opened.info.column)
            if not opened.is_foreign and not opened.info.fresh and opened.info.kind in KINDS and column is not None:
                self._rebuild(opened, column)


def _may_share(ours: set[int] | None, theirs: set[int] | None) -> bool:
    return ours is None or theirs is None or bool(ours & theirs)


def _row_addresses(group: Group, path: str) -> set[int] | None:
    """The addresses of the rows of another table's columns; None where they cannot be determined."""
    root = group.parent if is_dataset_table(group) else group
    opened = table_at(root, path)
    if opened is None:
        return set() if root.open_group(path) is None else None  # a table whose layout was asked for
    other, layout = opened
    try:
        return _addresses(other, layout, layout.describe(other, path).members)
    except (FormatError, UnsupportedError):
        return None


def _addresses(group: Group, layout: Layout, columns: Sequence[ColumnInfo]) -> set[int] | None:
    """The addresses of the rows of these columns, and of their masks; None where they cannot be determined.

    A dataset's link count does not show sharing: the second hard link may be to its group, or to its table's group.
    """
    from colonnade.nodes.row_views import stored_parts

    addresses = set()
    for column in columns:
        if column.storage != "sectioned":  # these have no indexes
            rows, companion = layout.open_column(group, column)
            datasets = [rows, companion] if column.is_masked else [rows]
            addresses |= {part.address for node in datasets if is_dataset(node) for part in stored_parts(node)}
    return {number for number in addresses if number is not None} if None not in addresses else None


def _verified(index: Index, reader: ColumnReader, options: Options) -> list[Wrong]:
    """What is wrong with an index; if it or its column cannot be read, the read error."""
    try:
        return list(index.verify(reader, options))
    except BAD_INDEX as error:
        return [Wrong("index", str(error), "an index and a column that can be read")]


def _receipt(digests: Digests, column: ColumnInfo) -> Digests:
    """The receipt of the current index, for a column with its current number of rows."""
    return {**digests, "rows": [str(column.n_rows)]}


def _problem(index: Index) -> str | None:
    try:
        return index.problem()
    except BAD_INDEX as error:
        return str(error)


def _is_stored_alike(now: ColumnInfo, before: ColumnInfo) -> bool:
    """Whether an index's data about a column is still valid: same datatype, fill and chunks."""
    return (now.type, now.fill, now.grid.chunk_rows, now.storage) == (
        before.type,
        before.fill,
        before.grid.chunk_rows,
        before.storage,
    )


def check_kinds(column: ColumnInfo, words: Sequence[str]) -> None:
    """Refuse unknown kinds, and columns that cannot be indexed."""
    for word in words:
        check_kind(word)
    problem = refusal(column)
    if problem is not None:
        raise UsageError(f"column {column.name!r} cannot have a search index: {problem}", column=column.name)


def check_kind(word: str) -> None:
    """Refuse an unknown kind."""
    if word not in KINDS:
        raise UsageError(f"there is no index kind {word!r}; there are {', '.join(KINDS)}", kind=word)


def _keys_by_chunk(reader: ColumnReader, column: ColumnInfo) -> Iterator[tuple[int, Keys]]:
    """The first row of each chunk, and its keys. Several small chunks are read at once: each read flushes the file."""
    grid, chunk_bytes = column.grid, column.type.size * column.grid.chunk_rows
    n_at_once = 1 if column.type.has_pointers else max(1, _BYTES_AT_ONCE // max(chunk_bytes, 1))
    for first in range(0, grid.n_chunks, n_at_once):
        bounds = [grid.bounds(chunk) for chunk in range(first, min(first + n_at_once, grid.n_chunks))]
        begin, end = bounds[0][0], bounds[-1][1]
        keys = reader.keys(begin, end - begin)
        for start, stop in bounds:
            yield start, keys.part(start - begin, stop - begin)
