"""What descriptions of data frames of others share: members that are no columns, one length, what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from colonnade.h5.attributes import BROKEN
from colonnade.h5.datasets import DatasetInfo, describe_dataset
from colonnade.h5.links import NodeKind, hard_kind, open_dataset
from colonnade.model import UNREADABLE, ColumnInfo, Finding, Severity


class Unfit(Exception):
    """Why a member of a frame is no column."""


class Absent(Unfit):
    """A name that leads to nothing at all: there is no column to lose."""


def not_a_column(kind: NodeKind | None) -> Unfit:
    """Why a link of this kind leads to no column."""
    if kind is None:
        return Absent("it is not there")
    return Unfit("it cannot be opened" if kind == "broken" else f"it is a {kind}")


def member_of(group: Any, name: str) -> Any:
    """A dataset in the group of a column."""
    dataset = open_dataset(group, name) if hard_kind(group, name) == "dataset" else None
    if dataset is None:
        raise Unfit(f"it has no dataset {name!r}")
    return dataset


def header_of(dataset: Any, what: str) -> tuple[DatasetInfo, int]:
    """What the header of a dataset of rank 1 says, and its length."""
    if dataset is None:
        raise Unfit(f"{what} cannot be opened")
    try:
        info = describe_dataset(dataset)
    except BROKEN as error:
        raise Unfit(f"the header of {what} cannot be read: {error}") from error
    if info.shape is None or len(info.shape) != 1:
        raise Unfit(f"{what} has {'no shape' if info.shape is None else f'rank {len(info.shape)}'}")
    return info, info.shape[0]


def column_of(name: str, info: DatasetInfo, n_rows: int) -> ColumnInfo:
    """A dataset of rows as a column of its own, as far as its header tells."""
    return ColumnInfo(name, info.type, n_rows, info.storage, info.chunk_rows, info.filters)


def common_length(columns: Iterable[ColumnInfo]) -> int | None:
    """The length that most of these have; None of none."""
    votes = Counter(column.n_rows for column in columns if column.type != UNREADABLE)
    return max(votes, key=lambda n_rows: (votes[n_rows], n_rows), default=None)


class FrameDescription:
    """One walk over a frame's group, collecting what is wrong on the way."""

    layout: str

    def __init__(self, group: Any, path: str) -> None:
        self.group = group
        self.path = path
        self.problems: list[Finding] = []

    def note(self, severity: Severity, message: str, name: str | None = None) -> None:
        path = self.path if name is None else f"{self.path.rstrip('/')}/{name}"
        self.problems.append(Finding(self.layout, severity, path, message))

    def of_length(self, column: ColumnInfo, n_rows: int) -> ColumnInfo:
        """The column as one of a frame of so many rows; one of another length cannot be read."""
        if column.n_rows == n_rows or column.type == UNREADABLE:
            return replace(column, n_rows=n_rows)
        problem = f"it has {column.n_rows} rows, the table has {n_rows}"
        self.note("error", problem, column.link or column.name)
        return replace(column, n_rows=n_rows, problem=problem)
