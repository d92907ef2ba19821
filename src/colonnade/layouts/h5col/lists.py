"""List columns of H5Col: groups of OFFSETS, VALUES and perhaps MASK, one inside another (JL1 to JL10).

Nothing is trusted: levels may lead to themselves or go on without end, and members may be anything. No element is read.
"""

from __future__ import annotations

from collections.abc import Callable

from colonnade.columns.raw import Companion, Companions
from colonnade.dataclass import dataclass
from colonnade.layouts.frame_parts import Unfit, header_of
from colonnade.layouts.h5col import names
from colonnade.model import ColumnInfo, DatasetInfo, Form, Lists, Masked, Plain, Severity, StoredType
from colonnade.nodes import Dataset, Group, attributes

DEEPEST_LISTS = 32
_MEMBERS = {names.LIST_COLUMN: {names.OFFSETS, names.LIST_VALUES, names.MASK}}
_MEMBERS[names.STRING_VALUES] = {names.OFFSETS, names.CHARS, names.MASK}
ListNote = Callable[[str, Severity, str], None]
"""Takes the rule, the severity and the message of a problem that leaves the column readable."""


@dataclass
class ListElements:
    """The dataset of the elements of a list column."""

    dataset: Dataset
    info: DatasetInfo


@dataclass
class Level:
    """One level of a list column: each entry is a list, or with `is_text` a string."""

    offsets: Dataset
    info: DatasetInfo
    values: Level | ListElements
    mask: Dataset | None = None
    n_masked: int = 0
    is_text: bool = False

    @property
    def capacity(self) -> int:
        """The number of entries that there may be."""
        n_offsets = self.info.shape[0] if self.info.shape else 0
        return n_offsets - 1 if self.mask is None else min(n_offsets - 1, self.n_masked)


def is_list_column(group: Group) -> bool:
    """Whether a group is a list column, or a level of one."""
    return attributes.read_text(group, names.CLASS) == names.LIST_COLUMN


def read_levels(group: Group, note: ListNote) -> Level:
    """The levels of a list column; `Unfit` if they cannot be read."""
    return _Levels(note).read(group, ())


class _Levels:
    """Walks down the levels of one list column."""

    def __init__(self, note: ListNote) -> None:
        self._note = note

    def read(self, group: Group, above: tuple[int | None, ...]) -> Level:
        if len(above) >= DEEPEST_LISTS:
            raise Unfit(f"it has more than {DEEPEST_LISTS} levels of lists (rule JX4)")
        if group.address in above:
            raise Unfit("its lists contain themselves (rule JX4)")
        cls = attributes.read_text(group, names.CLASS)
        if cls not in _MEMBERS:
            raise Unfit(f"{names.LIST_VALUES} is a group of CLASS {cls!r} (rule JL5)")
        is_text = cls == names.STRING_VALUES
        kind = attributes.read_text(group, names.KIND_ATTRIBUTE)
        if not is_text and kind != names.OFFSETS:
            raise Unfit(f"its KIND is {kind!r}, not '{names.OFFSETS}' (rule JL2)")
        for child in group.children():
            if child.name not in _MEMBERS[cls]:
                self._note("JL3", "error", f"{child.name!r} is not a member of a list column")
        offsets, info = self._member(group, names.OFFSETS)
        self._check_offsets(info)
        mask, n_masked = self._mask(group)
        values = self._chars(group) if is_text else self._values(group, (*above, group.address))
        return Level(offsets, info, values, mask, n_masked, is_text)

    def _check_offsets(self, info: DatasetInfo) -> None:
        stored = info.type
        if stored.kind != "integer" or stored.size != 8:
            raise Unfit(f"its {names.OFFSETS} are {stored}, not uint64 (rule JL4)")
        if stored.signed:
            self._note("JL4", "error", f"its {names.OFFSETS} are {stored}, not uint64")
        if info.shape == (0,):
            raise Unfit(f"its {names.OFFSETS} are empty, they begin with 0 (rule JL4)")

    def _member(self, group: Group, name: str) -> tuple[Dataset, DatasetInfo]:
        """The member of this name, a dataset of rank 1 reached by a hard link."""
        kind = group.hard_kind(name)
        if kind != "dataset":
            raise Unfit(f"its {name} is {'missing' if kind is None else f'not a dataset, but: {kind}'} (rule JL3)")
        dataset = group.open_dataset(name)
        info, _ = header_of(dataset, f"its {name}")
        assert dataset is not None  # else there is no header
        return dataset, info

    def _mask(self, group: Group) -> tuple[Dataset | None, int]:
        if group.hard_kind(names.MASK) is None:
            return None, 0
        mask, info = self._member(group, names.MASK)
        if info.type.kind != "boolean" or len(info.type.members) != 2:
            raise Unfit(f"its {names.MASK} holds {info.type}, not booleans (rule JB2)")
        return mask, info.shape[0] if info.shape else 0

    def _chars(self, group: Group) -> ListElements:
        chars, info = self._member(group, names.CHARS)
        if info.type.kind != "integer" or info.type.size != 1:
            raise Unfit(f"its {names.CHARS} are {info.type}, not uint8 (rule JL9)")
        return ListElements(chars, info)

    def _values(self, group: Group, above: tuple[int | None, ...]) -> Level | ListElements:
        if group.hard_kind(names.LIST_VALUES) == "group":
            inner = group.open_group(names.LIST_VALUES)
            if inner is None:
                raise Unfit(f"its {names.LIST_VALUES} cannot be opened")
            return self.read(inner, above)
        leaf, info = self._member(group, names.LIST_VALUES)
        if info.type.has_pointers:
            self._note("JL10", "error", f"its elements are {info.type}: variable length is not allowed in lists")
        if names.CATEGORIES in leaf.attribute_names():
            self._note("JL14", "warning", "its elements have CATEGORIES, which lists do not: they are read as integers")
        return ListElements(leaf, info)


def column_of(level: Level, name: str, n_rows: int, units: str | None) -> ColumnInfo:
    """A level as a column of `n_rows` rows; `Unfit` if it has fewer."""
    n_offsets = level.info.shape[0] if level.info.shape else 0
    if n_offsets < n_rows + 1:
        raise Unfit(f"it has {n_offsets} {names.OFFSETS}, {n_rows} rows have {n_rows + 1} (rule JL4)")
    if level.mask is not None and level.n_masked < n_rows:
        raise Unfit(f"its {names.MASK} has {level.n_masked} of {n_rows} rows (rule JL6)")
    items = _items_of(level.values, f"{name} (elements)", units, level.is_text)
    rows = Lists(items, level.is_text)
    form: Form = rows if level.mask is None else Masked(rows, marks_present=True)
    info = level.info
    return ColumnInfo(name, info.type, n_rows, info.storage, info.chunk_rows, info.filters, form=form, units=units)


def _items_of(values: Level | ListElements, name: str, units: str | None, is_text: bool) -> ColumnInfo:
    if isinstance(values, Level):
        return column_of(values, name, values.capacity, units)
    info = values.info
    n_rows = info.shape[0] if info.shape else 0
    if is_text:
        return ColumnInfo(name, info.type, n_rows, info.storage, info.chunk_rows, info.filters)
    return ColumnInfo(
        name,
        info.type,
        n_rows,
        info.storage,
        info.chunk_rows,
        info.filters,
        marking_fill(info),
        Plain(),
        units=units or attributes.read_text(values.dataset, names.UNITS),
        arrow_type=attributes.read_text(values.dataset, names.ARROW_TYPE),
    )


def marking_fill(info: DatasetInfo) -> bytes | None:
    """The fill that marks missing rows: a boolean has none, whatever its dataset has (JB4)."""
    return None if is_plain_boolean(info.type) else info.fill


def is_plain_boolean(stored: StoredType) -> bool:
    """Whether this is the boolean datatype: FALSE and TRUE, and nothing else."""
    return stored.kind == "boolean" and len(stored.members) == 2


def leaf_units(level: Level) -> str | None:
    """The units of the elements, where they are written on their dataset."""
    while isinstance(level.values, Level):
        level = level.values
    return None if level.is_text else attributes.read_text(level.values.dataset, names.UNITS)


def companions(level: Level) -> Companion | Companions:
    """What the rows of a level are read with: the mask, if there is one, and the elements."""
    values = level.values
    inner = companions(values) if isinstance(values, Level) else None
    elements = Companions(values.offsets if isinstance(values, Level) else values.dataset, inner)
    return elements if level.mask is None else Companions(level.mask, elements)
