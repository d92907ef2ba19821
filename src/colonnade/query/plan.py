"""Which rows can match, before a column is read: every usable index is asked, leaf by leaf.

In: a bound predicate, the indexes of the table, the rows in question. Out: a `Plan`: rows that are sure to match, rows
that may, which indexes were used, which were skipped, and why. A bad index is never an error, only skipped. The
predicate is tested on every row that is not sure, so an index can only save reading.

Nothing here reads a column. Where an index needs keys to answer, planning yields the `Probe`, and whoever runs it
(`query.match.answered`) reads these rows and sends their keys.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Protocol

import numpy as np

from colonnade import limits
from colonnade.dataclass import dataclass
from colonnade.indexes import KINDS
from colonnade.indexes.base import BAD_INDEX, Asking, Costly, Found, Index, asked
from colonnade.layouts.index_home import OpenIndex
from colonnade.model import ColumnInfo, IndexInfo, LibraryRead
from colonnade.pager.receipts import Trust
from colonnade.predicate.bound import AllOf, AnyOf, Bound, BoundLeaf, Missing
from colonnade.selection import Selection

ALWAYS = AllOf()
MOST_SHARE_PICKED = 0.4  # of the rows; above it an engine reads all rows and filters them faster than they are picked


@dataclass(frozen=True)
class IndexUsed:
    """An index that was used, and how many rows were left after it.

    >>> cn.write("run.h5", {"ts": range(10)}, "events", index={"ts": "chunk_minmax"})
    >>> plan = cn.open_table("run.h5", "events").where("ts > 20").explain()
    >>> plan.indexes_used[0].kind, plan.indexes_used[0].rows_left
    ('chunk_minmax', 0)
    """

    column: str
    kind: str
    name: str
    leaf: str
    rows_left: int
    exact: bool


@dataclass(frozen=True)
class IndexSkipped:
    """An index that was not used, and why.

    >>> cn.write("run.h5", {"ts": range(10)}, "events", index={"ts": "chunk_minmax"})
    >>> t = cn.open_table("run.h5", "events", trust="never")
    >>> t.where("ts > 20").explain().indexes_skipped[0].why
    'trust="never"'
    """

    column: str
    kind: str
    name: str
    why: str


@dataclass(frozen=True)
class ColumnRead:
    """How many chunks of a column are read, out of how many, and for what.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> t.select("ts").where("energy > 5").explain().columns[0].why
    'test'
    """

    column: str
    why: str
    chunks_read: int
    chunks_total: int


@dataclass(frozen=True)
class Plan:
    """What a query reads. `str()` describes it; `found` holds the rows.

    left_to_library: what libhdf5 reads because colonnade's own reader does not know a feature. sorted: by what rows are
    sorted, and how. exploded: how many rows of elements there are, and how they are tested.
    tests_codes: only columns stored as categories are tested, whose codes are compared, not values.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> plan = t.where("energy > 5").explain()
    >>> plan.chunks_read, plan.chunks_total, plan.indexes_used
    (2, 2, [])
    """

    predicate: str
    n_rows: int
    found: Found
    indexes_used: list[IndexUsed] = field(default_factory=list)
    indexes_skipped: list[IndexSkipped] = field(default_factory=list)
    columns: list[ColumnRead] = field(default_factory=list)
    left_to_library: tuple[LibraryRead, ...] = ()
    sorted: str | None = None
    exploded: str | None = None
    tests_codes: bool = False

    @property
    def is_selective(self) -> bool:
        """Whether picking these rows costs less than reading all rows, for an engine that can filter them itself."""
        few = self.found.may.count <= MOST_SHARE_PICKED * self.n_rows
        return few or (self.tests_codes and not self.indexes_used)

    @property
    def rows_to_test(self) -> Selection:
        """The rows that may match and are not sure to."""
        return self.found.may - self.found.sure

    @property
    def chunks_read(self) -> int:
        """The most chunks that are read, over all columns."""
        return sum(column.chunks_read for column in self.columns)

    @property
    def chunks_total(self) -> int:
        """The chunks of all columns that the query uses."""
        return sum(column.chunks_total for column in self.columns)

    def _lines(self) -> list[tuple[str, str, str]]:
        """The description as table rows: what was done, with what, and the result."""
        lines = [
            (
                "used",
                f"{used.kind} of {used.column}",
                f"{used.leaf}: {used.rows_left:,} rows left{', exactly' * used.exact}",
            )
            for used in self.indexes_used
        ]
        lines += [("skipped", f"{skipped.kind} of {skipped.column}", skipped.why) for skipped in self.indexes_skipped]
        if not lines:
            lines.append(("no index", "", "every row is tested"))
        for read in self.columns:
            chunks = f"{read.chunks_read:,} of {read.chunks_total:,} chunks, for the {read.why}"
            lines.append(("read" if read.chunks_read else "not read", read.column, chunks))
        if self.exploded is not None:
            lines.append(("exploded", "", self.exploded))
        if self.sorted is not None:
            lines.append(("sorted", "", self.sorted))
        lines += [("by libhdf5", left.path, left.why) for left in self.left_to_library]
        return lines

    def _head(self) -> str:
        sure, may = self.found.sure.count, self.found.may.count
        certain = "all of them for sure" if sure == may else f"{sure:,} of them for sure"
        return f"{self.n_rows:,} rows, of which {may:,} may match, {certain}"

    def __str__(self) -> str:
        lines = self._lines()
        widths = [max(len(line[part]) for line in lines) for part in (0, 1)]
        text = [f"  {done:<{widths[0]}}  {what:<{widths[1]}}  {result}".rstrip() for done, what, result in lines]
        return "\n".join([f"where {self.predicate}", f"  {self._head()}", *text])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in self._lines())
        title = f"<b>where</b> <code>{escape(self.predicate)}</code><br>{escape(self._head())}"
        return f"<div>{title}<table><tbody>{rows}</tbody></table></div>"


class PlannedColumn(Protocol):
    """What planning knows of a column: its description, and whether a row can be read without the rest of its chunk."""

    @property
    def column(self) -> ColumnInfo: ...
    @property
    def is_open_to_rows(self) -> bool: ...


class Planner:
    """Asks the indexes about each leaf, and records what was used and skipped."""

    def __init__(self, indexes: Sequence[OpenIndex], trust: Trust, columns: Mapping[str, PlannedColumn]) -> None:
        self._columns = columns
        self._by_column: dict[str, list[tuple[IndexInfo, Index]]] = {}
        self.used: list[IndexUsed] = []
        self.skipped: dict[tuple[str, str], IndexSkipped] = {}
        for opened in sorted(indexes, key=_rank):
            why = why_not(opened, trust)
            if why is None and opened.index is not None:
                self._by_column.setdefault(opened.info.column, []).append((opened.info, opened.index))
            else:
                self._skip(opened.info, why or "")

    def _skip(self, info: IndexInfo, why: str) -> None:
        self.skipped.setdefault((info.column, info.name), IndexSkipped(info.column, info.kind, info.name, why))

    def _use(self, info: IndexInfo, leaf: BoundLeaf, rows_left: int, exact: bool) -> None:
        self.used.append(IndexUsed(info.column, info.kind, info.name, leaf.said, rows_left, exact))

    def search(self, tree: Bound, scope: Selection) -> Asking[tuple[Found, Bound]]:
        """The rows of `scope` for which the predicate is sure to be true, and those for which it may be.

        Also returns the residual: what is still to be tested on the rows that are not sure.
        """
        if isinstance(tree, BoundLeaf):
            found = yield from self._ask(tree, scope)
            return found, ALWAYS if found.is_exact else tree
        return (yield from self._search_all(tree, scope) if isinstance(tree, AllOf) else self._search_any(tree, scope))

    def _search_all(self, tree: AllOf, scope: Selection) -> Asking[tuple[Found, Bound]]:
        sure = may = scope
        left = []
        for part in sorted(tree.parts, key=self._promise):
            found, residual = yield from self.search(part, may)
            sure, may = sure & found.sure, may & found.may
            if residual != ALWAYS:
                left.append(residual)
        return Found(sure, may), left[0] if len(left) == 1 else AllOf(tuple(left))

    def _search_any(self, tree: AnyOf, scope: Selection) -> Asking[tuple[Found, Bound]]:
        sure, may = Selection.none(), Selection.none()
        for part in tree.parts:
            found, _ = yield from self.search(part, scope - sure)
            sure, may = sure | found.sure, may | found.may
        found = Found(sure, sure | may)
        return found, ALWAYS if found.is_exact else tree

    def _promise(self, part: Bound) -> int:
        """Sort key: leaves with indexes come first, because the other leaves are only asked about the rows these
        leave."""
        return 0 if isinstance(part, BoundLeaf) and part.column in self._by_column else 1

    def _ask(self, leaf: BoundLeaf, scope: Selection) -> Asking[Found]:
        column = self._columns[leaf.column]
        found = _known(leaf, column.column, scope)
        for info, index in self._by_column.get(leaf.column, []):
            left = found.may - found.sure
            answer = yield from self._answer(index, leaf, left, column)
            if isinstance(answer, str):
                self._skip(info, answer)
            else:
                found = _both(found, answer, scope)
                self._use(info, leaf, found.may.count, found.is_exact)
        return found

    def _answer(self, index: Index, leaf: BoundLeaf, left: Selection, column: PlannedColumn) -> Asking[Found | str]:
        """What an index answers about the rows that are left, or why it is skipped."""
        if not left:
            return "nothing was left to find out"
        try:
            why = _does_not_pay(index, leaf, left, column.column)
            if why is not None:
                return why
            answer = yield from asked(index.find(leaf, left, column.is_open_to_rows))
        except Costly:
            return "too many rows match: reading those that are left is cheaper"
        except BAD_INDEX as error:
            return str(error)
        return "this index kind does not support this predicate" if answer is None else answer

    def count(self, leaf: BoundLeaf) -> Asking[int | None]:
        """The number of rows for which a leaf is true, where an index knows it without listing them."""
        for info, index in self._by_column.get(leaf.column, []):
            try:
                n_rows = yield from asked(index.count(leaf, self._columns[leaf.column].is_open_to_rows))
            except BAD_INDEX as error:
                self._skip(info, str(error))
                continue
            if n_rows is not None:
                self._use(info, leaf, n_rows, exact=True)
                return n_rows
        return None


def _both(found: Found, answer: Found, scope: Selection) -> Found:
    """Combine what was known with what an index answered."""
    if answer.sure is answer.may and not found.sure:
        rows = answer.may & found.may
        return Found(rows, rows)
    return Found(found.sure | (answer.sure & scope), found.may & (answer.may | found.sure))


def _rank(opened: OpenIndex) -> float:
    """The position of an index in the order in which indexes are asked; unknown kinds come last."""
    kind = KINDS.get(opened.info.kind)
    return math.inf if kind is None else kind.rank


def why_not(opened: OpenIndex, trust: Trust) -> str | None:
    """Why an index may not be used at all; None when it may."""
    if trust == "never":
        return 'trust="never"'
    if opened.info.problem is not None or opened.index is None:
        return opened.info.problem or "it does not suit its column"
    if trust == "verified" and not opened.info.trusted:
        return "it is unverified: neither built here nor verified. verify_indexes() does that, once"
    return None


def _known(leaf: BoundLeaf, column: ColumnInfo, scope: Selection) -> Found:
    """What the description of the column says by itself: a column that cannot mark missing rows has none."""
    if isinstance(leaf.test, Missing) and not may_miss(column):
        return Found(scope, scope) if leaf.negated else Found(Selection.none(), Selection.none())
    return Found(Selection.none(), scope)


def may_miss(column: ColumnInfo) -> bool:
    """Whether a row of the column can be missing."""
    marked = column.marks_missing
    return marked or column.categories is not None or len(column.type.members) > 2


def _does_not_pay(index: Index, leaf: BoundLeaf, left: Selection, column: ColumnInfo) -> str | None:
    """Why reading the remaining rows is cheaper than asking the index; None when it is not."""
    cost = index.cost(leaf)
    if not any(cost) or left.n_chunks(column.grid.chunk_rows) >= limits.now.search_chunks:
        return None
    if cost.probes:
        return "reading the few chunks that are left is cheaper"
    bytes_left = left.count * max(column.type.size, 1)
    return "reading the rows that are left is cheaper" if cost.n_bytes > 2 * bytes_left else None


def describe_reads(
    tested: Collection[str],
    found: Found,
    wanted: Collection[str],
    probed: dict[str, set[int]],
    columns: Mapping[str, ColumnInfo],
) -> list[ColumnRead]:
    """The chunks of every column that are read: by an index search, for the test, and for the result."""
    searched = {name: chunks for name, chunks in probed.items() if chunks}
    names = list(dict.fromkeys([*searched, *tested, *wanted]))
    test = found.may - found.sure
    reads = []
    for name in names:
        grid = columns[name].grid
        rows = Selection.none()
        if name in tested:
            rows = rows | test
        if name in wanted:
            rows = rows | found.may
        probes = Selection.from_rows(np.array(sorted(searched.get(name, ())), dtype="i8"))
        chunks = rows.touched(grid.chunk_rows) | probes
        uses = (("search", name in searched), ("test", name in tested), ("result", name in wanted))
        why = " and ".join(word for word, holds in uses if holds)
        reads.append(ColumnRead(name, why, chunks.count, grid.n_chunks))
    return reads
