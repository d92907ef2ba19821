"""What a layout is made of: small protocols, each satisfied by a module of the layout's folder.

| protocol | module | needed |
| --- | --- | --- |
| `Describe` | `describe` | always: which groups are tables, what is in them, where the rows of a column are |
| `Create` | `write`, or what the callable in another module makes | to write new tables |
| `Edit` | `write` | to change the rows and columns of tables |
| `IndexHome` | `search` | to search with indexes, and to build them |
| `Rules` | `rules` | to check and fix tables |
| `Conversion` (a class) | `convert` | only if the defaults do not suit: to convert from and into the layout |
| `Sidecars` | `sidecars` | only if files next to the HDF5 file belong to a table |

A module satisfies its protocol itself, or names what does: `PART`. `in_folders` finds the modules, and imports each
when it is first needed. A layout without `Edit` is read-only; one without `Rules` is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from colonnade import writing
from colonnade.arrays import Int64s
from colonnade.dataclass import dataclass
from colonnade.errors import UnsupportedError, UsageError
from colonnade.model import Breach, ColumnInfo, ColumnOptions, Repair, Rule, TableInfo, TableText
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, EditableNode, Group

if TYPE_CHECKING:
    import pyarrow as pa

    from colonnade.columns.raw import Companion, Companions
    from colonnade.columns.writer import WrittenColumn
    from colonnade.errors import ColonnadeError
    from colonnade.indexes.base import IndexRevision
    from colonnade.layouts.conversion import Conversion
    from colonnade.layouts.index_home import IndexPlan, PlacedIndex
    from colonnade.nodes.protocols import Child, Notes
    from colonnade.selection import Selection
    from colonnade.sparse.draft import SparseDraft
    from colonnade.sparse.rows import SparseRows

Broken = tuple[str, Breach]
"""The number of a rule, and how it is broken."""


class Describe(Protocol):
    """Finds tables and describes them. Reads attributes and headers, but no rows."""

    def describe(self, group: Group, path: str, /) -> TableInfo: ...
    def open_column(self, group: Group, column: ColumnInfo, /) -> tuple[Dataset | SparseRows, Companion | Companions]:
        """The dataset with the rows of a column, and its companion dataset (categories, mask, heap, or the elements of
        lists) or None."""


class NewWriter(Protocol):
    """Writes a new column: start, then write, then finish."""

    name: str

    def start(self, group: EditableGroup, sample: pa.Array, n_rows: int | None, most_rows: int) -> None: ...
    def write(self, array: pa.Array) -> None: ...
    def finish(self) -> WrittenColumn: ...


class ResumedWriter(Protocol):
    """Appends to, overwrites, truncates or removes the rows of an existing column. `finish` may be called several
    times. Removed rows are followed by others that move up; there is at least one."""

    name: str

    def write(self, array: pa.Array) -> None: ...
    def overwrite(self, rows: Int64s, array: pa.Array) -> None: ...
    def truncate(self, n_rows: int) -> None: ...
    def remove(self, rows: Selection) -> None: ...
    def finish(self) -> WrittenColumn: ...


class NewSidecars(Protocol):
    """The sidecar files of a new table, written when its file is closed."""

    def check_place(self, root: Group, table: str, alone: bool, /) -> None: ...
    def publish(self, file: Path, table: str, alone: bool, /) -> None: ...


class Create(Protocol):
    """Writes new tables: checks first, then the group, its columns, and what makes them a table."""

    @property
    def sidecars(self) -> NewSidecars | None: ...
    def check_name(self, name: str, allow_reserved: bool, /) -> None: ...
    def check_members(self, columns: Sequence[str], labels: Sequence[str], text: TableText, /) -> None: ...
    def needs_large_attributes(self, n_columns: int, longest_name: int, /) -> bool: ...
    def make_group(self, root: EditableGroup, path: str, large_attributes: bool, /) -> EditableGroup: ...
    def new_writer(
        self, name: str, kind: pa.DataType, options: ColumnOptions, large_attributes: bool, is_label: bool, /
    ) -> NewWriter: ...
    def complete_columns(
        self, group: EditableGroup, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn], /
    ) -> None: ...
    def complete_group(
        self,
        group: EditableGroup,
        columns: Sequence[WrittenColumn],
        labels: Sequence[WrittenColumn],
        text: TableText,
        /,
    ) -> None: ...


NewTables = Callable[[object, bool], Create]
"""Makes what writes a new table, for the version and, if that is asked for, the directory."""


class Edit(Protocol):
    """Changes existing tables. Each function makes one change; the caller commits it."""

    def check_can_change(self, group: Group, info: TableInfo, /) -> None: ...
    def resume_column(self, group: EditableGroup, column: ColumnInfo, /) -> ResumedWriter: ...
    def extend(self, group: EditableGroup, info: TableInfo, written: Sequence[WrittenColumn], /) -> bool:
        """After rows were added: returns whether `info` is still valid, apart from its length and its categories."""

    def count_rows(self, group: EditableGroup, n_rows: int, /) -> None: ...
    def attach_column(self, group: EditableGroup, info: TableInfo, column: WrittenColumn, /) -> None: ...
    def detach_column(self, group: EditableGroup, info: TableInfo, name: str, /) -> None: ...
    def rename_column(self, group: EditableGroup, info: TableInfo, name: str, new_name: str, /) -> None: ...
    def reorder_columns(self, group: EditableGroup, info: TableInfo, order: Sequence[str], /) -> None: ...
    def set_labels(self, group: EditableGroup, info: TableInfo, labels: Sequence[str], /) -> None:
        """Make these members the labels. Labels that are not among them become the last columns."""

    def replace_column(
        self, group: EditableGroup, info: TableInfo, column: WrittenColumn, old: EditableDataset | None, /
    ) -> None: ...
    def set_texts(
        self, group: EditableGroup, info: TableInfo, name: str | None, strings: Mapping[str, str | None], /
    ) -> None: ...
    def sparse_attributes(self, column: ColumnInfo, strings: Mapping[str, str | None], /) -> dict[str, str | None]:
        """The attributes to set on a sparse column for these strings; None for those to remove."""

    def note_pandas(self, node: EditableNode | SparseDraft, note: str | None, /) -> None:
        """Store a note on a dataset or on the group; None removes it. Called only if the layout keeps such notes."""

    def clear(self, group: EditableGroup, /) -> None: ...


class IndexHome(Protocol):
    """Where the search indexes of a table are, and how they and their columns refer to each other."""

    def search_indexes(self, group: Group, info: TableInfo, /) -> list[PlacedIndex]: ...
    def place_index(self, group: EditableGroup, column: str, kind: str, /) -> tuple[EditableGroup, str]: ...
    def attach_index(self, group: EditableGroup, column: str, kind_word: str, dataset: EditableDataset, /) -> None: ...
    def detach_index(self, group: EditableGroup, index: PlacedIndex, /) -> None: ...
    def confirm_indexes(self, group: EditableGroup, indexes: Sequence[PlacedIndex], /) -> None:
        """Declare that these indexes describe the table as it is after a change of rows."""

    def rename_indexes(self, group: EditableGroup, info: TableInfo, column: str, new_name: str, /) -> None: ...


class RawTable(Protocol):
    """A table in the form that the rules of its layout check. Each layout adds its own attributes.

    bytes_read: the stored size of the values that the rules themselves read.
    """

    group: Group
    path: str
    info: TableInfo
    bytes_read: int

    @property
    def n_columns(self) -> int: ...
    @property
    def n_attributes(self) -> int: ...
    def checked_columns(self) -> set[str]:
        """The names of the columns whose values are to be checked."""


class RawObject(Protocol):
    """A checked object that is not a table."""

    bytes_read: int


R = TypeVar("R", bound=RawTable)


class Rules(Protocol[R]):
    """Checks and fixes tables; `R` is the form in which the rules of a layout see one.

    RULES: all rules of the layout. NOT_SHOWN: numbers of rules that cannot be checked from a file, and why.
    INDEX_HOME: the name of the group that holds the search indexes of a table.
    """

    @property
    def RULES(self) -> tuple[Rule, ...]: ...  # noqa: N802 - a constant of the module
    @property
    def NOT_SHOWN(self) -> Mapping[str, str]: ...  # noqa: N802
    @property
    def INDEX_HOME(self) -> str: ...  # noqa: N802

    def variant(self, text: str, /) -> object | None:
        """The variant of the rules that a user names; None if the layout has no variants."""

    def inspect(self, group: Group, path: str, values: bool, variant: object, /) -> R:
        """Read a table into the form that the rules check; `variant` replaces the one that the table declares."""

    def claims(self, group: Group, path: str, values: bool, variant: object, /) -> Iterable[Broken]:
        """The rules broken by a group that is not a table but seems to be meant as one."""

    def dataset_claim(self, group: Group, path: str, child: Child, /) -> Broken | None:
        """The rule broken by a dataset that seems to be meant as a table."""

    def not_inspected(self, path: str, error: ColonnadeError, /) -> Broken:
        """The rule broken by a table that cannot be read at all."""

    def unreadable(self, raw: R, column: ColumnInfo, error: ColonnadeError, /) -> Broken:
        """The rule broken by a column whose values cannot be read."""

    def missing_is_described(self, raw: R, column: ColumnInfo, /) -> Breach | None:
        """What is wrong with the description of a column that has missing rows."""

    def repairs(self, raw: R, removed_indexes: Collection[int], /) -> list[Repair]:
        """Everything that can be fixed except indexes; takes the addresses of the indexes that will be removed."""

    def bad_indexes(self, raw: R, wrong: Collection[str], /) -> list[IndexPlan]:
        """The indexes to remove; takes the names of those whose contents are wrong."""

    def remove_indexes(self, raw: R, plans: Sequence[IndexPlan], /) -> None: ...
    def other_objects(
        self, group: Group, path: str, values: bool, in_table: bool, /
    ) -> Iterator[tuple[RawObject, Sequence[Broken]]]:
        """Objects of a group that are not tables but have rules, with the rules they break.

        values: whether values are read. in_table: whether the group is in a table, whose rows are read anyway.
        """

    def other_table(self, group: Group, path: str, /) -> Iterator[Broken]:
        """What is wrong with a table of another layout that also declares itself a table of this one."""


AnyRules = Rules[RawTable]
"""The rules of some layout: the caller gives them only the tables that they have inspected."""


class FollowingTable(Protocol):
    """A table in another file with one row per column of the table that was changed."""

    @property
    def file(self) -> Path: ...
    @property
    def table(self) -> str: ...
    @property
    def n_rows(self) -> int: ...
    def rows(self, before: pa.Table, labels: Sequence[str], /) -> pa.Table:
        """The rows as they must be now, made from the rows before the change."""


class Sidecars(Protocol):
    """Files next to an HDF5 file that belong to its tables."""

    def locate(self, path: Path, /) -> tuple[Path, Notes] | None:
        """The HDF5 file of a directory or document of this layout, and notes for its handle; None if it is neither."""

    def new_directory(self, folder: Path, /) -> tuple[Path, str]:
        """The HDF5 file of a new table that is a directory, and the path of the table in it."""

    def not_located(self, path: Path, error: Exception | None, /) -> list[Broken]:
        """The rules broken by a directory or document that does not lead to an HDF5 file."""

    def declared_variant(self, path: Path, /) -> object | None:
        """The variant of the rules that a path declares by being a directory."""

    def following_table(self, file: Path, notes: Notes, /) -> FollowingTable | None:
        """The table that must follow a change of this file's columns, if there is one; the file is closed."""

    def follow(self, file: Path, /) -> None:
        """Update the sidecar files of a file that was changed and closed."""

    def copy(self, source: Path, target: Path, /) -> None:
        """Copy the sidecar files of a file for its copy, with the name and the checksum of the copy."""


def _keep_lengths(_root: Group, _table: str) -> None:
    pass


def _no_members(_group: Group, _columns: Iterable[ColumnInfo]) -> tuple[str, ...]:
    return ()


def _no_target(_group: Group, _column: ColumnInfo) -> None:
    pass


def _no_further(_group: Group) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class Candidate:
    """A group that could be read as a table, by its headers. is_likely: whether all of it looks like one."""

    n_rows: int
    n_columns: int
    stored_bytes: int
    is_likely: bool = True


@dataclass(frozen=True)
class Layout:
    """A layout: its name, its parts, and what it can store.

    is_table: whether a group is a table of the layout. It is called for every group of a file, so it imports little.
    find: gives the part that is in a module of this name, or None if the layout has none.
    creates_in: the module that writes new tables, or makes what does; empty if that is not possible.
    could_be: what a group would be as a table, for layouts whose tables do not declare themselves; None for a group
        that cannot be read as one. Such tables are read when the layout is asked for.
    check_lengths: refuses a commit after which a table, at a path, and what shares its rows differ in length.
    further_members: the names of members of a table's group that hold parts of the table or of these of its columns,
        besides the rows and the categories of columns and the search indexes.
    row_target: the path of the table whose row numbers a column holds, if the file says so.
    """

    name: str
    is_table: Callable[[Group], bool]
    find: Callable[[str], object]
    creates_in: str = ""
    could_be: Callable[[Group], Candidate | None] | None = None
    has_column: Callable[[Group], bool] | None = None  # whether `could_be` is not None, where that is found out sooner
    check_lengths: Callable[[Group, str], None] = _keep_lengths
    further_members: Callable[[Group, Iterable[ColumnInfo]], Iterable[str]] = _no_members
    row_target: Callable[[Group, ColumnInfo], str | None] = _no_target
    group_attributes: tuple[str, ...] = ()  # reserved: set by the layout only
    further_attributes: Callable[[Group], tuple[str, ...]] = _no_further  # those of one table
    column_attributes: tuple[str, ...] = ()
    unnamed_labels: str = "index"  # the name of labels without a name
    needs_labels: bool = False  # if rows have no labels, row numbers are stored as labels
    keeps_texts: bool = False  # can store units and descriptions
    keeps_masks: bool = False  # can store a mask of missing rows next to the values
    keeps_pandas_notes: bool = False  # can store what pandas knows about a column or frame
    is_of_datasets: bool = False  # its tables are datasets, which `is_table` is given as `DatasetTable`
    index_revision: IndexRevision = "april"  # how search indexes are stored
    names_are_links: bool = True  # the name of a column is also its link name in the group
    standard_references: str | None = None  # the attribute of tables with references of H5T_STD_REF

    def can_read(self, group: Group) -> bool:
        """Whether a group can be read as a table of the layout when it is asked for."""
        if self.is_table(group):
            return True
        if self.has_column is not None:
            return self.has_column(group)
        return self.could_be is not None and self.could_be(group) is not None

    def reserved_attributes(self, group: Group) -> tuple[str, ...]:
        """The names of attributes of a table that the layout sets."""
        return (*self.group_attributes, *self.further_attributes(group))

    @property
    def reading(self) -> Describe:
        """What describes and opens tables."""
        return cast("Describe", self.find("describe"))

    def describe(self, group: Group, path: str) -> TableInfo:
        return self.reading.describe(group, path)

    def open_column(self, group: Group, column: ColumnInfo) -> tuple[Dataset | SparseRows, Companion | Companions]:
        return self.reading.open_column(group, column)

    def open_dataset(self, group: Group, column: ColumnInfo) -> Dataset:
        """The dataset with the rows of a column that is not sectioned."""
        from colonnade.columns.raw import is_sectioned

        rows, _ = self.open_column(group, column)
        assert not is_sectioned(rows)  # the caller has looked at its storage
        return rows

    def create(self, version: object = None, directory: bool = False) -> Create:
        """What writes new tables, in the requested version and form if the layout has several."""
        if not self.creates_in:
            raise UnsupportedError(
                f"cannot write tables of layout {self.name!r}: it is read-only. Choose another layout",
                feature=f"writing layout {self.name}",
            )
        part = self.find(self.creates_in)
        if callable(part):
            return cast("NewTables", part)(version, directory)
        refuse_version(self.name, version, directory)
        return cast("Create", part)

    @property
    def edit(self) -> Edit:
        """What changes tables; refused for layouts that are read-only."""
        edit = self.find("write")
        if edit is None:
            raise UnsupportedError(
                f"cannot change tables of layout {self.name!r}: it is read-only. Convert the file to another layout: "
                "cn.convert(path, new_path, layout='hep001')",
                feature=f"changing layout {self.name}",
            )
        return cast("Edit", edit)

    def own_objects(self, group: Group) -> set[str]:
        """The names of the objects in a table's group that belong to the table."""
        if self.is_of_datasets:
            return set()
        from colonnade.layouts.index_home import HOMES

        own = {HOMES[self.index_revision], *self.member_names(group, self.describe(group, "/").members)}
        return {name for name in own if name and group.has_link(name)}

    def member_names(self, group: Group, columns: Sequence[ColumnInfo]) -> set[str]:
        """The names of the members of a table's group that hold these columns, or other parts of the table."""
        names = {column.link or column.name for column in columns}
        names |= {column.categories.name for column in columns if column.categories is not None}
        return {name.split("/")[0] for name in (*names, *self.further_members(group, columns))}

    def clear_group(self, group: EditableGroup) -> None:
        """Remove a table's own objects and attributes from its group. Everything else stays."""
        for name in sorted(self.own_objects(group)):
            writing.unlink(group, name)
        for name in self.group_attributes:
            writing.delete_attribute(group, name)

    @property
    def indexes(self) -> IndexHome:
        return cast("IndexHome", self.find("search"))

    @property
    def rules(self) -> AnyRules | None:
        return cast("AnyRules | None", self.find("rules"))

    @property
    def conversion(self) -> Conversion:
        """What converts tables from and into this layout."""
        own = self.find("convert")
        if own is not None:
            return cast("Conversion", own)
        from colonnade.layouts.conversion import Conversion

        return Conversion(self.group_attributes, self.column_attributes)

    @property
    def sidecars(self) -> Sidecars | None:
        return cast("Sidecars | None", self.find("sidecars"))


def refuse_version(layout: str, version: object, directory: bool) -> None:
    """Refuse `version=` and `directory=` for a layout that has one version and no directories."""
    if version is not None or directory:
        raise UsageError(f"version= and directory= are for the layout 'artifactdb', not {layout!r}")


def in_folders(*packages: str) -> Callable[[str], object]:
    """What finds the parts of a layout: in its own folder, then in one that it shares with others."""

    @cache
    def find(name: str) -> object:
        for package in packages:
            try:
                module = import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
                continue
            part: object = getattr(module, "PART", module)
            return part
        return None

    return find
