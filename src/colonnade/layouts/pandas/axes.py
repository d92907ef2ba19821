"""The axes of the fixed format: the names of columns, read, and the rows' labels, described.

A regular axis is an array of values. One with several levels is, for each level, an array of the distinct values and an
array of codes. A categorical one is an array of codes next to its categories. An axis without elements is an array of
one element with the attribute `shape`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade.dataclass import dataclass, replace
from colonnade.errors import ColonnadeError
from colonnade.layouts.frame_parts import Unfit, header_of
from colonnade.layouts.pandas import names
from colonnade.layouts.pandas.kinds import (
    DATE_TIME,
    PLAIN_NAN,
    Meaning,
    Zone,
    as_strings,
    in_utf8,
    meaning_of,
    type_of_nothing,
)
from colonnade.layouts.pandas.notes import Properties, as_note
from colonnade.layouts.pandas.pickles import is_pickle, is_pickled, read_name, read_string
from colonnade.model import CategoriesInfo, Coded, ColumnInfo, DatasetInfo, unreadable_column
from colonnade.nodes import Dataset, Group, Node, attributes
from colonnade.nodes.arrays import read_part
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.elements import dataset_column

PICKLED_OBJECTS = "it holds pickled Python objects, which are not loaded"
LEVEL = "level"  # the pandas note of codes that are read as what they stand for


@dataclass(frozen=True)
class AxisNames:
    """The names along an axis as strings, and for each level what pandas calls its type; None if they are unknown."""

    strings: Sequence[str]
    levels: Sequence[Properties]


def is_empty(dataset: Dataset) -> bool:
    """Whether an array stands for one without elements."""
    return dataset.inspect_attribute(names.EMPTY_SHAPE) is not None


def is_objects(dataset: Dataset, info: DatasetInfo) -> bool:
    """Whether an array holds pickled objects: a VLArray of PyTables with the pseudo-atom `object`."""
    return info.type.kind in ("sequence", "binary") or read_string(dataset, "CLASS") == "VLARRAY"


def zone_of(dataset: Dataset) -> Zone | None:
    """The zone of an array of times; None if they have none."""
    attribute = dataset.inspect_attribute(names.ZONE)
    if attribute is None or (is_pickle(attribute) and not is_pickled(dataset, names.ZONE)):
        return None
    return Zone(read_string(dataset, names.ZONE))


def n_levels_of(group: Group, axis: str) -> int | None:
    """How many levels an axis has; None for a regular one."""
    if read_string(group, f"{axis}_variety") != names.MULTI:
        return None
    listed = attributes.read_integers(group, f"{axis}_nlevels")
    n_levels = listed[0] if listed else 0
    if not 1 <= n_levels <= names.MOST_LEVELS:
        raise Unfit(f"{axis} has {n_levels} levels")
    return n_levels


def open_array(group: Group, name: str) -> Dataset:
    """The array of this name, which the format requires."""
    dataset = group.open_dataset(name) if group.hard_kind(name) == "dataset" else None
    if dataset is None:
        raise Unfit(f"there is no array {name}")
    return dataset


# -- the names of columns --


def read_names(group: Group, axis: str) -> AxisNames:
    """The names along an axis; an Unfit if they cannot be read."""
    n_levels = n_levels_of(group, axis)
    if n_levels is None:
        strings, note = _read_level(group, axis)
        return AxisNames(strings, [note])
    levels = [_read_codes(group, axis, number) for number in range(n_levels)]
    if len({len(strings) for strings, _ in levels}) > 1:
        raise Unfit(f"the levels of {axis} have several lengths")
    strings = [str(parts) for parts in zip(*(strings for strings, _ in levels), strict=True)]
    return AxisNames(strings, [note for _, note in levels])


def _read_codes(group: Group, axis: str, number: int) -> tuple[list[str], Properties]:
    strings, note = _read_level(group, names.level(axis, number))
    codes = _read_array(group, names.level_codes(axis, number))
    if codes.dtype.kind not in "iu" or bool(((codes < 0) | (codes >= len(strings))).any()):
        raise Unfit(f"{names.level_codes(axis, number)} has codes that are not those of names")
    return [strings[code] for code in codes.tolist()], note


def _read_array(group: Group, name: str) -> np.ndarray:
    dataset = open_array(group, name)
    info, _ = header_of(dataset, name)
    if is_empty(dataset):
        return np.empty(0, np.int64)
    if is_objects(dataset, info):
        raise Unfit(f"{name}: {PICKLED_OBJECTS}")
    try:
        return read_part(dataset)
    except hdf5_errors(ColonnadeError) as error:
        raise Unfit(f"{name} cannot be read: {error}") from error


def _read_level(group: Group, name: str) -> tuple[list[str], Properties]:
    """The values of an array as names, and the note of their type."""
    dataset = open_array(group, name)
    values = _read_array(group, name)
    kind = read_string(dataset, names.KIND) or ""
    title = read_name(dataset, names.NAME)
    note: Properties = {} if title is None else {"name": title}
    if is_empty(dataset):
        return [], note
    if kind == "string" and values.dtype.kind == "S":
        return _decoded(values, name, read_string(group, names.ENCODING) or "UTF-8"), note
    if kind in ("integer", "float", "bool") and values.dtype.kind in "iuf":
        return [str(value) for value in values.tolist()], {**note, "dtype": str(values.dtype)}
    if kind.startswith(DATE_TIME) and values.dtype == np.int64 and zone_of(dataset) is None:
        dtype = kind if "[" in kind else f"{kind}[ns]"
        if meaning_of(dataset.describe().type, kind).problem is None:
            return [_timestamp(text) for text in values.astype(dtype).astype(str)], {**note, "dtype": dtype}
    raise Unfit(f"{name}: names that are {kind or 'of an unknown kind'} are not read")


def _decoded(values: np.ndarray, name: str, encoding: str) -> list[str]:
    known = {"latin-1": "latin-1", "iso-8859-1": "latin-1", "cp1252": "cp1252", "windows-1252": "cp1252"}
    codec = known.get(encoding.lower().replace("_", "-"), "utf-8")
    try:
        return [value.decode(codec) for value in values.tolist()]
    except UnicodeDecodeError as error:
        raise Unfit(f"{name}: the names are not {codec}: {error}") from error


def _timestamp(text: str) -> str:
    """A time as pandas writes it: "2020-01-31 00:00:00", and parts of a second in 6 or 9 digits if there are any."""
    day, _, time = text.partition("T")
    clock, _, parts = time.partition(".")
    parts = parts.rstrip("0")
    digits = parts.ljust(6 if len(parts) <= 6 else 9, "0") if parts else ""
    return f"{day} {clock or '00:00:00'}" + (f".{digits}" if digits else "")


# -- the labels of rows --


def describe_labels(group: Group, axis: str, taken: Sequence[str]) -> list[ColumnInfo]:
    """The labels that an axis gives to rows, under names that no column has."""
    try:
        n_levels = n_levels_of(group, axis)
    except Unfit as error:
        return [unreadable_column(_free_name(None, ["index"], taken)[0], str(error), axis, is_label=True)]
    if n_levels is None:
        return [_described(group, axis, "index", 1, taken, [axis])]
    labels: list[ColumnInfo] = []
    for number in range(n_levels):
        parts = [names.level_codes(axis, number), names.level(axis, number)]
        named = [*taken, *(label.name for label in labels)]
        labels.append(_described(group, parts[1], f"level_{number}", n_levels, named, parts))
    return labels


def _described(
    group: Group, described_by: str, default: str, n_levels: int, taken: Sequence[str], parts: Sequence[str]
) -> ColumnInfo:
    """One label. parts: the array of its rows, and that of the levels that these are codes of."""
    title = None
    try:
        title = read_name(open_array(group, described_by), names.NAME)
        name, note = _free_name(title, [default], taken)
        column = array_column(group, name, parts[0]) if len(parts) == 1 else _codes(group, name, *parts)
    except Unfit as error:
        name, note = _free_name(title, [default], taken)
        return unreadable_column(name, str(error), parts[0], is_label=True)
    own = {"dtype": column.pandas} if column.pandas is not None else {}
    if n_levels > 1 and column.categories is not None and column.arrow_type is None:
        own = {"dtype": LEVEL}
    return replace(column, pandas=as_note({**own, **note}), is_label=True)


def _free_name(title: str | int | None, defaults: Sequence[str], taken: Sequence[str]) -> tuple[str, Properties]:
    """A name that no column has, and a note of the axis' own name where that differs."""
    wanted = [
        *([str(title)] if title not in (None, "") else []),
        *defaults,
        *(f"index_{number}" for number in range(len(taken) + 1)),
    ]
    name = next(candidate for candidate in wanted if candidate not in taken)
    is_plain = name == defaults[0] if title is None else name == title
    reads_as_none = name == "index" or name.startswith("level_")
    return name, {} if is_plain and (title is None or not reads_as_none) else {"name": title}


def array_column(group: Group, name: str, array: str) -> ColumnInfo:
    """An array of an axis as a column. `pandas` is its pandas type, where the Arrow type does not express that."""
    dataset = open_array(group, array)
    info, n_rows = header_of(dataset, array)
    kind = read_string(dataset, names.KIND)
    if is_empty(dataset):
        return nothing(name, array, dataset, info)
    if is_objects(dataset, info):
        return unreadable_column(name, PICKLED_OBJECTS, array)
    if kind == "category":
        return _categorical(group, name, array, dataset, info)
    if kind == "string":
        encoding = read_string(group, names.ENCODING) or "UTF-8"
        meaning = as_strings(info.type, encoding, nan_rep_of(dataset, names.NAN_REP))
    else:
        period = read_string(dataset, "index_class") == "period"
        meaning = meaning_of(info.type, kind, zone_of(dataset))
        if period:
            doubt = "the frequency of their periods is a pickle, which is not loaded: they are ordinal numbers"
            meaning = meaning._replace(doubt=doubt)
    return with_meaning(dataset_column(name, info, n_rows), meaning, array)


def nan_rep_of(node: Node, attribute: str) -> str | None:
    """What stands for a missing string: nothing if the attribute is empty, "nan" if there is no attribute."""
    if node.inspect_attribute(attribute) is None:
        return PLAIN_NAN
    return read_string(node, attribute) or None


def with_meaning(column: ColumnInfo, meaning: Meaning, link: str) -> ColumnInfo:
    """A column whose elements have this meaning."""
    return replace(
        column.with_rows(meaning.form),
        type=in_utf8(column.type),
        fill=meaning.fill,
        arrow_type=meaning.arrow_type,
        link=link,
        pandas=meaning.dtype,
        problem=meaning.problem,
        description=meaning.doubt,
    )


def nothing(name: str, array: str, dataset: Dataset, info: DatasetInfo) -> ColumnInfo:
    """A column without rows, in the type that its array would have."""
    kind = read_string(dataset, names.VALUE_TYPE)
    stored = type_of_nothing(kind) or info.type
    meaning = meaning_of(stored, kind if kind != "bool" else None, zone_of(dataset))
    column = ColumnInfo(name, stored, 0, info.storage, info.chunk_rows, info.filters)
    return with_meaning(column, meaning, array)


def _codes(group: Group, name: str, codes: str, levels: str) -> ColumnInfo:
    """The codes of one level, which stand for its values."""
    dataset = open_array(group, codes)
    info, n_rows = header_of(dataset, codes)
    if is_empty(dataset):
        return nothing(name, codes, dataset, info)
    return _coded(group, codes, dataset_column(name, info, n_rows), array_column(group, name, levels), False)


def _categorical(group: Group, name: str, array: str, dataset: Dataset, info: DatasetInfo) -> ColumnInfo:
    ordered = bool(attributes.read_flag(dataset, names.ORDERED))
    categories = array_column(group, name, names.axis_categories(array))
    codes = dataset_column(name, info, info.shape[0] if info.shape else 0)
    return _coded(group, array, codes, categories, ordered)


def _coded(group: Group, link: str, codes: ColumnInfo, values: ColumnInfo, ordered: bool) -> ColumnInfo:
    if codes.type.kind != "integer":
        raise Unfit(f"the codes in {link} are {codes.type}")
    if values.problem is not None:
        raise Unfit(f"its values: {values.problem}")
    form = Coded(
        CategoriesInfo(values.link or values.name, values.type, values.n_rows, ordered, arrow_type=values.arrow_type)
    )
    is_text = values.type.kind == "string" and read_string(open_array(group, link), names.KIND) != "category"
    return replace(codes.with_rows(form), link=link, arrow_type="string" if is_text else None)
