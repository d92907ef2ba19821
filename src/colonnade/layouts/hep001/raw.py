"""A HEP001 table group as its rules check it: children, attributes and references, each read once.

`describe` interprets a table leniently. Here nothing is interpreted: everything is given exactly as stored. What cannot
be read has a `problem`. No element of a column is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.indexes import KINDS
from colonnade.layouts.hep001 import names
from colonnade.layouts.hep001.describe import describe
from colonnade.layouts.index_home import KIND
from colonnade.model import ColumnInfo, DatasetInfo, TableInfo
from colonnade.nodes import Dataset, Group
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.paths import join_path
from colonnade.nodes.protocols import Attribute, Child
from colonnade.sparse.rows import open_rows

COLUMN_TEXTS = (names.UNITS, names.UNITS_VOCABULARY, names.DESCRIPTION)
INSPECTED_ATTRIBUTES = (
    *COLUMN_TEXTS, names.INDEXES, names.SEARCH_INDEXES, names.CATEGORIES, names.COLUMNS_LIST, names.ENCODING_TYPE,
    names.ORDERED, KIND,
)  # fmt: skip


@dataclass(frozen=True)
class RawDataset:
    """A dataset of the table or of its `_search_indexes`: its header and the attributes that HEP001 defines."""

    name: str
    path: str
    address: int
    dataset: Dataset | None
    info: DatasetInfo | None
    problem: str | None
    attributes: dict[str, Attribute]
    known_targets: dict[str, list[int | None]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def opened(self) -> Dataset:
        """The dataset of what has attributes: HDF5 could open it."""
        assert self.dataset is not None
        return self.dataset

    @property
    def is_flat(self) -> bool:
        """Whether it has rank 1, as every column must."""
        return self.info is not None and self.info.shape is not None and len(self.info.shape) == 1

    @property
    def n_rows(self) -> int:
        return self.info.shape[0] if self.info is not None and self.info.shape else 0

    @property
    def shape_text(self) -> str:
        shape = self.info.shape if self.info is not None else None
        return "no shape" if shape is None else "one element" if shape == () else f"shape {shape}"

    def targets(self, name: str) -> list[int | None]:
        """The addresses of the objects that an attribute refers to; None for a broken reference."""
        if name not in self.known_targets:
            held = self.attributes.get(name)
            references = held.values if held is not None and held.is_references else ()
            nodes = (self.opened.dereference(reference) for reference in references)
            self.known_targets[name] = [None if node is None else node.address for node in nodes]
        return self.known_targets[name]


@dataclass
class RawHep001Table:
    """A table group with everything that the rules check. `info` is the description that readers get.

    misplaced: search indexes among the columns. columns, labels, members (both), categories: the datasets of each role,
    without the misplaced indexes.
    """

    group: Group
    path: str
    info: TableInfo
    attributes: dict[str, Attribute]
    children: list[Child]
    datasets: dict[str, RawDataset]
    index_children: list[Child]
    indexes: dict[str, RawDataset]
    home_problem: str | None
    bytes_read: int = field(default=0, init=False, repr=False)  # no rule of HEP001 reads values itself
    by_address: dict[int | None, RawDataset] = field(init=False, repr=False)
    member_by_address: dict[int | None, RawDataset] = field(init=False, repr=False)
    index_by_address: dict[int | None, RawDataset] = field(init=False, repr=False)
    misplaced: set[str] = field(init=False, repr=False)
    columns: list[RawDataset] = field(init=False, repr=False)
    labels: list[RawDataset] = field(init=False, repr=False)
    members: list[RawDataset] = field(init=False, repr=False)
    categories: list[RawDataset] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.by_address = {one.address: one for one in self.datasets.values()}
        self.index_by_address = {one.address: one for one in self.indexes.values()}
        self.misplaced = {one.name for one in self.datasets.values() if is_misplaced_index(one)}
        self.columns = self._placed(self.info.columns)
        self.labels = self._placed(self.info.labels)
        self.members = list({one.name: one for one in (*self.columns, *self.labels)}.values())
        self.member_by_address = {one.address: one for one in self.members}
        shown = {one.name for one in self.members}
        targets = {place for one in self.datasets.values() for place in one.targets(names.CATEGORIES)}
        self.categories = [
            one for one in self.datasets.values() if one.address in targets and one.name not in shown and one.is_flat
        ]

    def _placed(self, columns: Sequence[ColumnInfo]) -> list[RawDataset]:
        known = (one.name for one in columns if one.name not in self.misplaced)
        return [self.datasets[name] for name in known if name in self.datasets]

    @property
    def n_columns(self) -> int:
        return len(self.members)

    @property
    def n_attributes(self) -> int:
        datasets = (*self.datasets.values(), *self.indexes.values())
        return len(self.attributes) + sum(len(one.attributes) for one in datasets)

    def checked_columns(self) -> set[str]:
        """The names of the columns whose values are to be checked."""
        return {one.name for one in self.members}

    def column_info(self, one: RawDataset) -> ColumnInfo:
        """The description of a column or label that readers get."""
        return self.info.by_name[one.name]


def is_misplaced_index(one: RawDataset) -> bool:
    """Whether a dataset among the columns has the attributes of a search index, which belongs elsewhere."""
    return KIND in one.attributes and names.COLUMNS_LIST in one.attributes


def inspect(group: Group, path: str) -> RawHep001Table:
    """The table as its rules check it. Raises what `describe` raises: a later version, links that cannot be listed."""
    info = describe(group, path)
    listed = group.children()
    here = {one.name: one for child in listed if (one := _raw(group, path, child, INSPECTED_ATTRIBUTES)) is not None}
    looked = {name: held for name in names.GROUP_ATTRIBUTES if (held := group.inspect_attribute(name)) is not None}
    home_path = join_path(path, names.SEARCH_INDEXES)
    home = next((child for child in listed if child.name == names.SEARCH_INDEXES and child.kind == "group"), None)
    inside, found, problem = [], {}, None
    if home is not None:
        node = group.open_group(names.SEARCH_INDEXES)
        try:
            inside = node.children() if node is not None else []
            problem = "it cannot be opened" if node is None else None
        except CorruptError as error:
            problem = str(error)
        datasets = [_raw(node, home_path, child, _index_attributes()) for child in inside] if node is not None else []
        found = {one.name: one for one in datasets if one is not None}
    return RawHep001Table(group, path, info, looked, listed, here, inside, found, problem)


def _index_attributes() -> tuple[str, ...]:
    """The names of the attributes that an index of any kind may have."""
    own = (attribute.name for kind in KINDS.values() for attribute in kind.attributes)
    return tuple(dict.fromkeys((KIND, names.COLUMNS_LIST, *own)))


def _raw(group: Group, path: str, child: Child, wanted: tuple[str, ...]) -> RawDataset | None:
    """The dataset that a link leads to; None if it leads to something else."""
    if child.kind not in ("dataset", "broken"):
        return None
    where = join_path(path, child.name)
    dataset = group.open_dataset(child.name) if child.kind == "dataset" else None
    if dataset is None and (sparse := _raw_sparse(group, child, where)) is not None:
        return sparse
    if child.kind == "broken":
        return None
    if dataset is None:
        return RawDataset(child.name, where, child.address, None, None, "this dataset cannot be opened", {})
    held = {name: found for name in wanted if (found := dataset.inspect_attribute(name)) is not None}
    try:
        info, problem = dataset.describe(), None
    except hdf5_errors(CorruptError, UnsupportedError) as error:
        info, problem = None, f"the header of this dataset cannot be read: {error}"
    return RawDataset(child.name, where, child.address, dataset, info, problem, held)


def _raw_sparse(group: Group, child: Child, where: str) -> RawDataset | None:
    """A dataset in sectioned chunks, which HDF5 cannot open. Its attributes are checked together with its chunks."""
    try:
        rows = open_rows(group, child.name)
    except (FormatError, UnsupportedError) as error:
        problem = f"the header of this sparse column cannot be read: {error}"
        return RawDataset(child.name, where, -1, None, None, problem, {})
    if rows is None:
        return None
    info = rows.info
    filters = info.pipelines[info.layout.values_section]
    found = DatasetInfo(info.type, info.space.shape, "sectioned", info.layout.chunk[0], filters, None)
    return RawDataset(child.name, where, group.hard_address(child.name) or -1, None, found, None, {})
