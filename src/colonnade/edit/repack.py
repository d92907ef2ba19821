"""Rewrites a file to its smallest size, with other chunks or filters for its columns if requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from colonnade.columns.forms import choose_filters
from colonnade.columns.raw import cut
from colonnade.dataclass import dataclass, replace
from colonnade.edit.index import Indexes
from colonnade.errors import UsageError
from colonnade.filters.names import PORTABLE, check_filters, filters_text, is_lossy, known_filters, without_scale_offset
from colonnade.h5.attributes import write_text
from colonnade.h5.copying import CopyDataset, copy_file
from colonnade.h5.datasets import DatasetPlan, is_plain_type
from colonnade.h5.handles import create_dataset
from colonnade.h5.links import holds_large_attributes, unlink
from colonnade.h5.row_sink import CannotSkipFilter, write_rows
from colonnade.h5.vetting import has_lost_fill
from colonnade.layouts import Layout, layout_of
from colonnade.model import DEFAULT_CHUNK_ROWS, UNREADABLE, ColumnInfo, DatasetInfo, Progress, TableInfo
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, Group
from colonnade.nodes.attributes import OPTIONS_SET, read_text
from colonnade.nodes.elements import default_chunk_rows
from colonnade.nodes.paths import editable, group_at, walk_groups
from colonnade.pager.receipts import Receipts

AutoWord = Literal["auto"]


@dataclass(frozen=True)
class NewStorage:
    """How columns are to be stored: None leaves a setting as it is, "auto" chooses as for a new table."""

    chunk_rows: int | AutoWord | None = None
    filters: str | None = None

    def __post_init__(self) -> None:
        rows = self.chunk_rows
        if rows not in (None, "auto") and (not isinstance(rows, int) or isinstance(rows, bool) or rows < 1):
            raise UsageError(f"chunk_rows must be a number of rows, or 'auto', not {rows!r}")
        if self.filters != "auto":
            check_filters(self.filters)
        if is_lossy(self.filters):
            raise UsageError(f"cannot repack with {self.filters!r}: it changes values. Use replace_column for a column")

    @property
    def is_chosen(self) -> bool:
        """Whether filters are chosen by trial."""
        return self.filters in ("auto", PORTABLE)


def repack(
    source: Group,
    target: Group,
    storage: NewStorage,
    receipts: Receipts,
    progress: Progress | None = None,
    unread: Callable[[int, str], bool] = lambda address, path: False,
) -> dict[int, str]:
    """Copy everything from the root of one file to that of a new one, with the columns of its tables rewritten.

    unread: called with address and path of an object that HDF5 cannot open; returns whether the caller copies it.
    Returns the paths of the placeholders for these objects.
    """
    otherwise: dict[int, CopyDataset] = {}
    shifted: list[str] = []
    for path, group, layout, info in _tables(source):
        for column in info.members:
            if column.type == UNREADABLE:
                continue  # copied as it is, or refused
            dataset = layout.open_dataset(group, column) if column.storage != "sectioned" else None
            where = None if dataset is None else dataset.address
            plan = None if dataset is None or where is None else _plan(column, editable(dataset), storage)
            if where is not None and plan is not None and dataset is not None:
                noted = _noted(editable(dataset), storage)
                otherwise[where] = _Rewriting(column, plan, storage.is_chosen, storage.filters == PORTABLE, noted)
                if plan.chunk_rows != column.chunk_rows and path not in shifted:
                    shifted.append(path)
    placeholders = copy_file(editable(source), editable(target), otherwise, progress, unread=unread)
    for path in shifted:  # an index by chunks does not match other chunks (M2)
        _, group, layout, info = next(_tables(group_at(target, path)))
        Indexes(group, layout, info, receipts).renew()
    return placeholders


def _tables(root: Group) -> Iterator[tuple[str, Group, Layout, TableInfo]]:
    for path, group in walk_groups(root):
        layout = layout_of(group)
        if layout is not None:
            yield path, group, layout, layout.describe(group, path)


def _plan(column: ColumnInfo, dataset: EditableDataset, storage: NewStorage) -> DatasetPlan | None:
    """How to store a column; None when it is stored that way already, or must stay as it is."""
    if column.problem is not None or column.storage in ("virtual", "external") or not is_plain_type(dataset):
        return None
    if storage == NewStorage() or (column.storage != "chunked" and storage.chunk_rows is None):
        if not has_lost_fill(dataset):
            return None
        return DatasetPlan(column.type, column.chunk_rows, known_filters(column.filters), column.fill)
    rows = storage.chunk_rows if storage.chunk_rows is not None else column.chunk_rows
    if not isinstance(rows, int):
        rows = default_chunk_rows(column.n_rows, column.type)
    filters = storage.filters or known_filters(column.filters)
    if rows == column.chunk_rows and filters == filters_text(column.filters) and not has_lost_fill(dataset):
        return None
    return DatasetPlan(column.type, rows, filters, column.fill, holds_large_attributes(dataset))


def _noted(dataset: EditableDataset, storage: NewStorage) -> str | None:
    """What is recorded as set by the user (see `OPTIONS_SET`); None where nothing is to be recorded."""
    before = read_text(dataset, OPTIONS_SET)
    words = set((before or "").split())
    if storage.chunk_rows is not None:
        words -= {"chunk_rows", "auto"}
        words |= {"chunk_rows"} if isinstance(storage.chunk_rows, int) else set()
    if storage.filters is not None:
        words -= {"filters", PORTABLE, "auto"}
        words |= {"auto": set(), PORTABLE: {PORTABLE}}.get(storage.filters, {"filters"})
    return " ".join(sorted(words)) or (None if before is None else "auto")


@dataclass(frozen=True)
class _Rewriting:
    """Rewrites one column into other chunks, a few MiB at a time."""

    column: ColumnInfo
    plan: DatasetPlan
    choose: bool
    is_portable: bool
    noted: str | None

    def __call__(self, dataset: EditableDataset, group: EditableGroup, name: str) -> None:
        plan, info = self.plan, dataset.describe()
        if self.choose:
            plan = self._with_filters(dataset)
        try:
            self._copy(dataset, info, group, name, plan)
        except CannotSkipFilter:
            unlink(group, name)
            self._copy(dataset, info, group, name, replace(plan, filters=without_scale_offset(plan.filters)))

    def _copy(self, dataset: Dataset, info: DatasetInfo, group: EditableGroup, name: str, plan: DatasetPlan) -> None:
        target = create_dataset(group, name, plan, self.column.n_rows)
        if self.noted is not None:
            write_text(target, OPTIONS_SET, self.noted)
        for start, stop in cut(0, self.column.n_rows, plan.chunk_rows or DEFAULT_CHUNK_ROWS, plan.type):
            with dataset.reading(info, start, stop - start) as image:
                write_rows(target, plan.type, start, image, stop - start)

    def _with_filters(self, dataset: Dataset) -> DatasetPlan:
        """The plan with the filters that suit the first chunk."""
        count = min(self.column.n_rows, self.plan.chunk_rows or 0)
        with dataset.reading(dataset.describe(), 0, count) as image:
            return replace(self.plan, filters=choose_filters(self.plan, image, count, is_portable=self.is_portable))
