"""Shared by the descriptions of AnnData and ArtifactDB frames: unusable members, the common length, problems found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from colonnade.dataclass import replace
from colonnade.errors import CorruptError
from colonnade.layouts.wide import is_wide, problems_of
from colonnade.model import UNREADABLE, ColumnInfo, DatasetInfo, Finding, Severity, TableInfo
from colonnade.nodes import Dataset, Group
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.protocols import NodeKind


class Unfit(Exception):
    """Why a member of a frame is not a column."""


class Absent(Unfit):
    """A name without an object, so no column is lost by ignoring it."""


def not_a_column(kind: NodeKind | None) -> Unfit:
    """The reason why a link of this kind does not lead to a column."""
    if kind is None:
        return Absent("it does not exist")
    return Unfit("it cannot be opened" if kind == "broken" else f"it is a {kind}")


def member_of(group: Group, name: str) -> Any:
    """The dataset of this name in the group of a column."""
    dataset = group.open_dataset(name) if group.hard_kind(name) == "dataset" else None
    if dataset is None:
        raise Unfit(f"it has no dataset {name!r}")
    return dataset


def header_of(dataset: Dataset | None, what: str) -> tuple[DatasetInfo, int]:
    """The header of a dataset of rank 1, and its length."""
    if dataset is None:
        raise Unfit(f"{what} cannot be opened")
    try:
        info = dataset.describe()
    except hdf5_errors() as error:
        raise Unfit(f"the header of {what} cannot be read: {error}") from error
    if info.shape is None or len(info.shape) != 1:
        raise Unfit(f"{what} has {'no shape' if info.shape is None else f'rank {len(info.shape)}'}")
    return info, info.shape[0]


def common_length(columns: Iterable[ColumnInfo]) -> int | None:
    """The length that most of these columns have; None if there are none."""
    votes = Counter(column.n_rows for column in columns if column.type != UNREADABLE)
    return max(votes, key=lambda n_rows: (votes[n_rows], n_rows), default=None)


class FrameDescription:
    """One pass over a frame's group, which collects the problems it finds.

    A wide frame is described lazily, unless `lazy` is False: its columns when they are first used, and its problems by
    a second pass over all columns.
    """

    layout: str

    def __init__(self, group: Group, path: str, lazy: bool = True) -> None:
        self.group = group
        self.path = path
        self.lazy = lazy
        self.problems: list[Finding] = []

    def table(self) -> TableInfo:
        """The frame as plain data."""
        raise NotImplementedError

    def links_if_wide(self, group: Group, n_columns: int) -> set[str] | None:
        """The names of the links of the group that holds the columns, if the frame is to be described lazily."""
        if not self.lazy or not is_wide(n_columns):
            return None
        try:
            return set(group.link_names())
        except CorruptError:  # some columns may still be found by name
            return None

    def found_problems(self, is_lazy: bool) -> Sequence[Finding]:
        """The problems of the frame, after its columns were described, or for lazy columns when they are needed."""
        if is_lazy:
            return problems_of(lambda: type(self)(self.group, self.path, lazy=False).table())
        return tuple(self.problems)

    def note(self, severity: Severity, message: str, name: str | None = None) -> None:
        path = self.path if name is None else f"{self.path.rstrip('/')}/{name}"
        self.problems.append(Finding(self.layout, severity, path, message))

    def of_frame(self, column: ColumnInfo, n_rows: int, labels: tuple[str, ...]) -> ColumnInfo:
        """The column as part of a frame of `n_rows` rows with these labels. One of another length cannot be read."""
        problem = column.problem
        if column.n_rows != n_rows and column.type != UNREADABLE:
            problem = f"it has {column.n_rows} rows, the table has {n_rows}"
            self.note("error", problem, column.link or column.name)
        return replace(column, n_rows=n_rows, labels=labels, problem=problem)
