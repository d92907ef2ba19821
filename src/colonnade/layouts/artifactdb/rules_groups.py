"""Rules for the group of a data frame and its members: DG1 to DG8."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.errors import ColonnadeError, UnsupportedError
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.raw import FLAT_TEXTS, MOST_NAMED, VERSION_PATTERN, RawFrame, is_text, stored_text
from colonnade.layouts.artifactdb.rules_values import check_strings
from colonnade.layouts.artifactdb.search import PART as INDEXES
from colonnade.layouts.named_indexes import index_breaches
from colonnade.layouts.raw_node import stored_as
from colonnade.model import Breach
from colonnade.nodes.paths import join_path


def group_is_there(frame: RawFrame) -> Iterator[Breach]:
    """DG1: the group that the metadata or the directory declare exists."""
    if frame.node is None:
        message = "the group of the data frame, which the metadata or the directory declare, does not exist"
        yield Breach("error", frame.path, message, "no such group", "a group")
    elif frame.is_directory and frame.path != f"/{names.DIRECTORY_GROUP}":
        message = "the group of the data frame of a directory has another name"
        yield Breach("error", frame.path, message, frame.path, f"/{names.DIRECTORY_GROUP}")


def version_is_known(frame: RawFrame) -> Iterator[Breach]:
    """DG2: `version`, if the group has it, is a string <major>.<minor>. In a directory OBJECT has the version."""
    attribute = frame.node.attribute(names.VERSION) if frame.node is not None else None
    if frame.node is None or attribute is None or frame.is_directory:
        return
    found = frame.node.text(names.VERSION)
    if found is None:
        yield Breach("error", frame.path, "version is not a scalar string", stored_as(attribute), "a scalar string")
    elif not VERSION_PATTERN.fullmatch(found) or not found.startswith("1."):
        yield Breach("error", frame.path, "version is unknown", repr(found), "1.<minor>")


def row_count_is_a_count(frame: RawFrame) -> Iterator[Breach]:
    """DG3: `row-count` is a scalar of an unsigned integer type, except in legacy frames."""
    if frame.node is None or frame.generation.family == "legacy":
        return
    attribute = frame.node.attribute(names.ROW_COUNT)
    fits = attribute is not None and attribute.type is not None and attribute.is_integer and not attribute.type.signed
    if (
        attribute is None
        or attribute.shape != ()
        or not fits
        or (attribute.type is not None and attribute.type.precision > 64)
    ):
        message = "row-count, the number of rows, is missing or not an unsigned integer"
        yield Breach("error", frame.path, message, stored_as(attribute), "a scalar of an unsigned integer type")


def column_names_are_names(frame: RawFrame) -> Iterator[Breach]:
    """DG4: `column_names` is a 1-D dataset of strings, distinct and not empty."""
    if frame.node is None:
        return
    path = join_path(frame.path, names.COLUMN_NAMES)
    listed = frame.member(names.COLUMN_NAMES)
    if listed is None or not is_text(listed) or not listed.is_flat:
        found = "no such dataset" if listed is None else stored_text(listed)
        yield Breach("error", path, "column_names is missing, or not a 1-D dataset of strings", found, FLAT_TEXTS)
        return
    if frame.names is None:
        yield Breach("error", path, "the column names cannot be read", "unreadable strings", "strings")
        return
    seen: set[bytes] = set()
    for position, name in enumerate(frame.names):
        problem = _name_problem(name, seen)
        if problem is not None:
            yield Breach("error", path, f"the name of column {position} {problem}", repr(name), "distinct UTF-8 names")
        seen.add(name or b"")


def _name_problem(name: bytes | None, seen: set[bytes]) -> str | None:
    if not name:
        return "is missing" if name is None else "is empty"
    if name in seen:
        return "is that of another column too"
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return "is not UTF-8"
    return None


def row_names_are_names(frame: RawFrame) -> Iterator[Breach]:
    """DG5: `row_names`, present exactly if the metadata declare it, is a 1-D dataset of strings, one per row."""
    if frame.node is None:
        return
    path = join_path(frame.path, names.ROW_NAMES)
    link = frame.kind_of(names.ROW_NAMES)
    declared = frame.metadata.row_names if frame.metadata is not None else link is not None
    if declared and link is None:
        message = "the metadata declare row names, but there are none"
        yield Breach("error", path, message, "no such dataset", FLAT_TEXTS)
    if link is None:
        return
    if not declared:
        message = "there are row names, which the metadata do not declare: readers ignore them"
        yield Breach("warning", path, message, "row_names is not true", "row_names: true")
    yield from _row_names(frame, path)


def _row_names(frame: RawFrame, path: str) -> Iterator[Breach]:
    listed = frame.member(names.ROW_NAMES)
    if listed is None or not is_text(listed) or not listed.is_flat:
        found = "no dataset" if listed is None else stored_text(listed)
        yield Breach("error", path, "row_names is not a 1-D dataset of strings", found, FLAT_TEXTS)
        return
    if frame.n_rows is not None and listed.length != frame.n_rows:
        message = "there are more or fewer row names than rows"
        yield Breach("error", path, message, f"{listed.length} names", f"{frame.n_rows} rows")
    if frame.deep:
        facts = check_strings(listed)
        row = facts.absent if facts.absent is not None else facts.broken[0] if facts.broken is not None else None
        if row is not None:
            yield Breach("error", path, f"row name {row} is missing or not UTF-8", f"row {row}", "UTF-8 strings")


def data_is_a_group(frame: RawFrame) -> Iterator[Breach]:
    """DG6: `data` is a group."""
    if frame.node is not None and frame.data is None:
        found = frame.kind_of(names.DATA) or "no such group"
        path = join_path(frame.path, names.DATA)
        yield Breach("error", path, "data, which has the columns, is missing or not a group", found, "a group")


def nothing_else_is_in_data(frame: RawFrame) -> Iterator[Breach]:
    """DG7: `data` holds columns and nothing else."""
    if frame.data is None or frame.names is None:
        return
    known = {str(position) for position in range(len(frame.names))}
    strangers = [child.name for child in frame.data.children if child.name not in known]
    for name in strangers[:MOST_NAMED]:
        message = "this is not a column: columns are named by their positions, from 0"
        yield Breach("error", join_path(frame.data.path, name), message, repr(name), f"0 to {len(known) - 1}")
    if len(strangers) > MOST_NAMED:
        message = f"{len(strangers) - MOST_NAMED} more members of data are not columns"
        yield Breach("error", frame.data.path, message, f"{len(strangers)} strangers", "columns only")


def columns_are_there(frame: RawFrame) -> Iterator[Breach]:
    """DG8: a column is in `data`, or the metadata declare that it is elsewhere; not both."""
    if frame.data is None:
        return
    for column in frame.columns:
        other = column.claim is not None and column.claim.type == names.OTHER
        if column.link is not None and column.node is None:
            message = "this link does not lead to a group or dataset of the file"
            yield Breach("error", column.path, message, str(column.link), "a group or dataset")
        elif column.node is not None and other:
            message = "the metadata declare that this column is elsewhere, but it is here"
            yield Breach("error", column.path, message, "a column in data", "none, for type other")
        elif column.link is None and not other and not frame.is_directory:
            message = "this column is not in the file, and the metadata do not name another"
            yield Breach("error", column.path, message, "no such column", "a column, or type other in the metadata")


def not_inspected(path: str, error: ColonnadeError) -> tuple[str, Breach]:
    """The rule that is broken by a frame that cannot be described, and the breach."""
    if isinstance(error, UnsupportedError) and error.rule is not None:
        return error.rule, Breach("error", path, f"{error}; it is not checked", repr(error.found), "1.<minor>")
    return "H1", Breach("error", path, f"this frame cannot be described: {error}", str(error), "a frame")


# -- DI1 --


def indexes_suit(frame: RawFrame) -> Iterator[Breach]:
    """DI1: an index names its kind and its column, refers to the column's rows, and matches them."""
    if frame.node is not None:
        yield from index_breaches(INDEXES.search_indexes(frame.group, frame.info), frame.info)
