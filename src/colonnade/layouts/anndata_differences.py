"""Compares a HEP001 table with the frame around it, since other programs may change either, and repairs what it can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from colonnade import writing
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass
from colonnade.layouts import Layout
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata_recipes import TableRows, frame_around, may_miss, shown_columns
from colonnade.model import Breach, ColumnInfo, TableInfo
from colonnade.nodes import Dataset, EditableDataset, Group, attributes
from colonnade.nodes.elements import claims_too_much, dataset_column
from colonnade.nodes.paths import editable, join_path

OWN_DATA = (
    "The frame has its own data here, which is not removed. Write the table again from the frame (colonnade.write "
    "with anndata=True), or remove the column from the frame and run `colonnade fix`."
)


@dataclass(frozen=True)
class FaceDifference:
    """One difference between a frame and the table inside it. `repair` repairs it; None where that would lose data.

    fixes: the rules whose breaches at this path the repair removes.
    """

    breach: Breach
    repair: Callable[[], bool] | None = None
    fixes: tuple[str, ...] = ("A16",)


def face_differences(group: Group, layout: Layout, info: TableInfo) -> Iterator[FaceDifference]:
    """Differences between a table and the frame around it (recipe R2); none for a table without a frame."""
    frame = frame_around(group, info.path) if layout.name == "hep001" else None
    if frame is not None:
        path = info.path.rpartition("/")[0] or "/"
        yield from _Differences(frame, group, layout, info, path).found()


@dataclass
class _Differences:
    """Compares a table with its frame, column by column; rows are read a few MiB at a time."""

    frame: Group
    group: Group
    layout: Layout
    info: TableInfo
    path: str

    def found(self) -> Iterator[FaceDifference]:
        info, frame = self.info, self.frame
        if not info.columns or info.index_name not in {label.name for label in info.labels}:
            message = "the table inside this frame has no columns or no row labels, which a frame needs"
            advice = "Give the table a column and row labels."
            yield FaceDifference(Breach("error", self.path, message, "none", "a column and row labels", advice))
            return
        shown, order = shown_columns(info), attributes.read_texts(frame, names.COLUMN_ORDER) or []
        others = dict.fromkeys(name for name in order if name not in {column.name for column in shown})
        for name in others:
            message = "the frame has a column that the table inside it does not have"
            where = join_path(self.path, name)
            yield FaceDifference(Breach("error", where, message, repr(name), "columns of the table", OWN_DATA))
        for column in shown:
            if column.problem is None and not self._claims_too_much(column):
                yield from self._of_column(column)
        wanted = [column.name for column in info.columns]
        if not others and order != wanted:
            message = "column-order of the frame differs from that of the table inside it"
            breach = Breach("error", self.path, message, ", ".join(order), ", ".join(wanted))
            yield FaceDifference(breach, partial(self._write_order, wanted))

    def _claims_too_much(self, column: ColumnInfo) -> bool:
        stored = self._rows.dataset(column).stored_bytes()
        return claims_too_much(column.n_rows * column.type.size, stored)

    @property
    def _rows(self) -> TableRows:
        return TableRows(self.group, self.layout)

    def _write_order(self, order: Sequence[str]) -> bool:
        from colonnade.layouts.anndata.write import check_order_fits

        frame = editable(self.frame)
        check_order_fits(frame, order)
        writing.write_variable_texts(frame, names.COLUMN_ORDER, order)
        return True

    def _of_column(self, column: ColumnInfo) -> Iterator[FaceDifference]:
        """The first difference in a column."""
        where, frame = join_path(self.path, column.name), self.frame
        kind = frame.hard_kind(column.name)
        inner = frame.open_group(column.name) if kind == "group" else None
        if any(
            one is None or one.address != self._rows.dataset(column).address for one in self._links(column, kind, inner)
        ):
            message = "the frame does not show the rows of the table inside it here"
            yield FaceDifference(Breach("error", where, message, "another dataset", "a link to the table's", OWN_DATA))
            return
        difference = self._wrong_in(column, inner) if inner is not None else self._wrong_plainly(column, kind)
        if difference is not None:
            message, found, unfit = difference
            fixes = ("A16", "A7", "A10") if unfit else ("A16",)
            repair = partial(self._show, column)
            yield FaceDifference(Breach("error", where, message, found, "as in the table"), repair, fixes)

    def _links(self, column: ColumnInfo, kind: str | None, inner: Group | None) -> list[Dataset | None]:
        """The datasets of the frame that must be the same objects as those of the table."""
        if kind == "dataset":
            return [self.frame.open_dataset(column.name)]
        copied = ("values",) if column.type.kind == "boolean" else ()
        held = [name for name in ("codes", "values") if name not in copied]
        return [inner.open_dataset(name) for name in held if inner is not None and inner.has_link(name)]

    def _wrong_plainly(self, column: ColumnInfo, kind: str | None) -> tuple[str, str, bool] | None:
        """What is wrong with a column that is not a group of the frame."""
        if kind is None:
            return "the frame does not show this column of the table inside it", "nothing of this name", False
        if column.categories is not None:
            return "the frame shows codes here, where the table has labels", "codes", False
        missing = self._first_missing(column) if may_miss(column) else None
        if missing is not None:
            return "the frame has no mask here, and the table has missing rows", f"row {missing}: no mask", False
        return None

    def _first_missing(self, column: ColumnInfo) -> int | None:
        for start, piece in self._rows.pieces(column):
            if piece.null_count:
                return start + int(np.argmax(piece.is_null().to_numpy(zero_copy_only=False)))
        return None

    def _wrong_in(self, column: ColumnInfo, inner: Group) -> tuple[str, str, bool] | None:
        """What is wrong with a column that is a group of the frame."""
        coded = attributes.read_text(inner, names.ENCODING_TYPE) == names.CATEGORICAL[0]
        if coded != (column.categories is not None):
            return "the frame shows a different kind of column here than the table has", "another kind", False
        if column.categories is not None:
            return self._wrong_categories(column, inner)
        wrong = self._wrong_flags(column, inner, "mask", lambda piece: piece.is_null())
        if wrong is None and column.type.kind == "boolean":
            wrong = self._wrong_flags(column, inner, "values", lambda piece: piece.fill_null(False))
        return wrong

    def _wrong_categories(self, column: ColumnInfo, inner: Group) -> tuple[str, str, bool] | None:
        assert column.categories is not None  # checked by the caller
        if not inner.has_link("codes"):
            return "the frame shows no codes here", "no codes", True
        copied = inner.open_dataset("categories") if inner.hard_kind("categories") == "dataset" else None
        reader = _plain_reader("categories", copied) if copied is not None else None
        if reader is None or not reader.read(0, reader.column.n_rows).equals(self._rows.categories(column)):
            return "the categories of the frame differ from those of the table", "other categories", reader is None
        if attributes.read_flag(inner, names.ORDERED) != column.categories.ordered:
            return "the flag ordered of the frame differs from that of the table", "another flag", False
        return None

    def _wrong_flags(
        self, column: ColumnInfo, inner: Group, name: str, computed: Callable[[pa.Array], pa.Array]
    ) -> tuple[str, str, bool] | None:
        """How booleans of the frame differ from those computed from the table by `computed`."""
        dataset = inner.open_dataset(name) if inner.hard_kind(name) == "dataset" else None
        reader = _plain_reader(name, dataset) if dataset is not None else None
        if reader is None or not self._fits(column, reader.column):
            return f"{name} of the frame has another length, or does not hold booleans", "another length", True
        for start, piece in self._rows.pieces(column):
            wanted = computed(piece).to_numpy(zero_copy_only=False)
            held = reader.read(start, len(piece)).to_numpy(zero_copy_only=False)
            other = np.flatnonzero(held != wanted)
            if len(other):
                row = start + int(other[0])
                what = "marks other rows as missing" if name == "mask" else "holds other values"
                return f"{name} of the frame {what} than the table", f"row {row}: {bool(held[other[0]])}", False
        return None

    def _fits(self, column: ColumnInfo, flags: ColumnInfo) -> bool:
        return flags.type.kind == "boolean" and flags.n_rows == column.n_rows

    def _show(self, column: ColumnInfo) -> bool:
        """Make the frame show a column as the table has it; the frame's own masks and copies are rewritten from the
        table."""
        from colonnade.layouts.anndata_view import FrameView, Others

        view = FrameView(self.frame, self.group, self.layout, self.info)
        frame = view.target
        inner = frame.open_group(column.name) if frame.has_link(column.name) else None
        own = ("mask", "values") if column.type.kind == "boolean" else ("mask",)
        for name in own:
            if inner is None or not inner.has_link(name):
                continue
            if not self._is_usable(column, name, inner.open_dataset(name)):
                writing.unlink(inner, name)
        view.show(column, self._rows, Others())
        return True

    def _is_usable(self, column: ColumnInfo, name: str, dataset: EditableDataset | None) -> bool:
        """Whether booleans of the frame have the length of the table, or can get it."""
        flags = _plain_reader(name, dataset) if dataset is not None else None
        if dataset is None or flags is None:
            return False
        return self._fits(column, flags.column) or _is_growing(flags.column, dataset)


def _plain_reader(name: str, dataset: Dataset) -> ColumnReader | None:
    """A reader for a dataset of rank 1, as a column without missing rows; None where it has no rows that can be
    read."""
    info = dataset.describe()
    if info.shape is None or len(info.shape) != 1:
        return None
    n_rows = info.shape[0]
    if claims_too_much(n_rows * info.type.size, dataset.stored_bytes()):
        return None
    return ColumnReader(dataset_column(name, info, n_rows), dataset)


def _is_growing(flags: ColumnInfo, dataset: EditableDataset) -> bool:
    return flags.type.kind == "boolean" and writing.can_column_grow(flags, dataset)
