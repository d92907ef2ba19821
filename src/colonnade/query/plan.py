"""Which rows can match, before a column is read: every usable index is asked, leaf by leaf.

In: a bound predicate, the indexes of the table, the rows in question. Out: a `Plan`: rows that are sure to match, rows
that may, which indexes were used, which were skipped, and why. A bad index is never an error, only skipped. The
predicate is tested on every row that is not sure, so an index can only save reading.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeVar

import numpy as np

from colonnade import limits
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass
from colonnade.indexes import KINDS
from colonnade.indexes.base import BAD_INDEX, Asking, Costly, Found, Index, asked
from colonnade.layouts.index_home import OpenIndex
from colonnade.model import ColumnInfo
from colonnade.pager.receipts import Trust
from colonnade.predicate.bound import AllOf, AnyOf, Bound, BoundLeaf, Missing
from colonnade.query.bind import Readers, columns_of
from colonnade.selection import Selection

T = TypeVar("T")
ALWAYS = AllOf()


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
            ("used", f"{one.kind} of {one.column}", f"{one.leaf}: {one.rows_left:,} rows left{', exactly' * one.exact}")
            for one in self.indexes_used
        ]
        lines += [("skipped", f"{one.kind} of {one.column}", one.why) for one in self.indexes_skipped]
        if not lines:
            lines.append(("no index", "", "every row is tested"))
        for one in self.columns:
            chunks = f"{one.chunks_read:,} of {one.chunks_total:,} chunks, for the {one.why}"
            lines.append(("read" if one.chunks_read else "not read", one.column, chunks))
        return lines

    def _head(self) -> str:
        sure, may = self.found.sure.count, self.found.may.count
        certain = "all of them for sure" if sure == may else f"{sure:,} of them for sure"
        return f"{self.n_rows:,} rows, of which {may:,} may match, {certain}"

    def __str__(self) -> str:
        lines = self._lines()
        widths = [max(len(line[place]) for line in lines) for place in (0, 1)]
        told = [f"  {done:<{widths[0]}}  {what:<{widths[1]}}  {came}".rstrip() for done, what, came in lines]
        return "\n".join([f"where {self.predicate}", f"  {self._head()}", *told])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in self._lines())
        title = f"<b>where</b> <code>{escape(self.predicate)}</code><br>{escape(self._head())}"
        return f"<div>{title}<table><tbody>{rows}</tbody></table></div>"


class Planner:
    """Asks the indexes about each leaf, and records what was used and skipped."""

    def __init__(self, indexes: Sequence[OpenIndex], trust: Trust, readers: Readers) -> None:
        self._readers = readers
        self._by_column: dict[str, list[OpenIndex]] = {}
        self.used: list[IndexUsed] = []
        self.probed: dict[str, set[int]] = {}
        self.skipped: dict[tuple[str, str], IndexSkipped] = {}
        for one in sorted(indexes, key=_rank):
            why = _why_not(one, trust)
            if why is None:
                self._by_column.setdefault(one.info.column, []).append(one)
            else:
                self._skip(one, why)

    def _skip(self, one: OpenIndex, why: str) -> None:
        info = one.info
        self.skipped.setdefault((info.column, info.name), IndexSkipped(info.column, info.kind, info.name, why))

    def search(self, tree: Bound, scope: Selection) -> tuple[Found, Bound]:
        """The rows of `scope` for which the predicate is sure to be true, and those for which it may be.

        Also returns the residual: what is still to be tested on the rows that are not sure.
        """
        if isinstance(tree, BoundLeaf):
            found = self._ask(tree, scope)
            return found, ALWAYS if found.is_exact else tree
        return self._search_all(tree, scope) if isinstance(tree, AllOf) else self._search_any(tree, scope)

    def _search_all(self, tree: AllOf, scope: Selection) -> tuple[Found, Bound]:
        sure = may = scope
        left = []
        for part in sorted(tree.parts, key=self._promise):
            found, residual = self.search(part, may)
            sure, may = sure & found.sure, may & found.may
            if residual != ALWAYS:
                left.append(residual)
        return Found(sure, may), left[0] if len(left) == 1 else AllOf(tuple(left))

    def _search_any(self, tree: AnyOf, scope: Selection) -> tuple[Found, Bound]:
        sure, may = Selection.none(), Selection.none()
        for part in tree.parts:
            found, _ = self.search(part, scope - sure)
            sure, may = sure | found.sure, may | found.may
        found = Found(sure, sure | may)
        return found, ALWAYS if found.is_exact else tree

    def _promise(self, part: Bound) -> int:
        """Sort key: leaves with indexes come first, because the other leaves are only asked about the rows these
        leave."""
        return 0 if isinstance(part, BoundLeaf) and part.column in self._by_column else 1

    def _ask(self, leaf: BoundLeaf, scope: Selection) -> Found:
        reader = self._readers[leaf.column]
        found = _known(leaf, reader.column, scope)
        for one in self._by_column.get(leaf.column, []):
            left = found.may - found.sure
            if not left:
                self._skip(one, "nothing was left to find out")
                continue
            assert one.index is not None  # checked by _why_not
            why = _does_not_pay(one.index, leaf, left, reader.column)
            answer = None
            if why is None:
                try:
                    steps = one.index.find(leaf, left, reader.is_open_to_rows)
                    answer = answered(steps, reader, self.probed.setdefault(leaf.column, set()))
                    why = "this index kind does not support this predicate" if answer is None else None
                except Costly:
                    why = "too many rows match: reading those that are left is cheaper"
                except BAD_INDEX as error:
                    why = str(error)
            if answer is None:
                self._skip(one, why or "")
                continue
            found = _both(found, answer, scope)
            self.used.append(
                IndexUsed(one.info.column, one.info.kind, one.info.name, leaf.said, found.may.count, found.is_exact)
            )
        return found

    def count(self, leaf: BoundLeaf) -> int | None:
        """The number of rows for which a leaf is true, where an index knows it without listing them."""
        reader = self._readers[leaf.column]
        for one in self._by_column.get(leaf.column, []):
            assert one.index is not None  # checked by _why_not
            try:
                found = answered(one.index.count(leaf, reader.is_open_to_rows), reader, set())
            except BAD_INDEX as error:
                self._skip(one, str(error))
                continue
            if found is not None:
                self.used.append(IndexUsed(one.info.column, one.info.kind, one.info.name, leaf.said, found, True))
                return found
        return None


def answered(answer: T | Asking[T], reader: ColumnReader, probed: set[int]) -> T:
    """What an index answers, after it was sent the keys that it asks for; their chunks are added to `probed`."""
    steps, chunk_rows = asked(answer), reader.column.grid.chunk_rows
    try:
        rows = next(steps)
        while True:
            probed.update((rows // chunk_rows).tolist())
            rows = steps.send(reader.keys_at(rows))
    except StopIteration as stop:
        result: T = stop.value
        return result


def _both(found: Found, answer: Found, scope: Selection) -> Found:
    """Combine what was known with what an index answered."""
    if answer.sure is answer.may and not found.sure:
        rows = answer.may & found.may
        return Found(rows, rows)
    return Found(found.sure | (answer.sure & scope), found.may & (answer.may | found.sure))


def _rank(one: OpenIndex) -> float:
    """The position of an index in the order in which indexes are asked; unknown kinds come last."""
    kind = KINDS.get(one.info.kind)
    return math.inf if kind is None else kind.rank


def _why_not(one: OpenIndex, trust: Trust) -> str | None:
    """Why an index may not be used at all; None when it may."""
    if trust == "never":
        return 'trust="never"'
    if one.info.problem is not None or one.index is None:
        return one.info.problem or "it does not suit its column"
    if trust == "verified" and not one.info.trusted:
        return "it was neither built here nor verified: verify_indexes() does that, once"
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
    try:
        cost = index.cost(leaf)
    except BAD_INDEX as error:
        return str(error)
    if not any(cost) or left.n_chunks(column.grid.chunk_rows) >= limits.now.search_chunks:
        return None
    if cost.probes:
        return "reading the few chunks that are left is cheaper"
    bytes_left = left.count * max(column.type.size, 1)
    return "reading the rows that are left is cheaper" if cost.n_bytes > 2 * bytes_left else None


def describe_reads(
    residual: Bound,
    found: Found,
    wanted: Sequence[str],
    probed: dict[str, set[int]],
    columns: Mapping[str, ColumnInfo],
) -> list[ColumnRead]:
    """The chunks of every column that are read: by an index search, for the test, and for the result."""
    tested = columns_of(residual)
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
