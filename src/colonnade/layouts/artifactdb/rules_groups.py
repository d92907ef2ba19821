"""Rules for the group of a data frame and its members: DG1 to DG8."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.errors import ColonnadeError, UnsupportedError
from colonnade.h5.links import join_path
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.rules_values import look_at_texts
from colonnade.layouts.artifactdb.search import search_indexes
from colonnade.layouts.artifactdb.seen import FLAT_TEXTS, MOST_NAMED, VERSION, SeenFrame, is_text, stored_text
from colonnade.layouts.named_indexes import index_breaches
from colonnade.layouts.seen_node import stored_as
from colonnade.model import Breach


def group_is_there(frame: SeenFrame) -> Iterator[Breach]:
    """DG1: the group that metadata or directory speak of is there."""
    if frame.node is None:
        message = "the group of the data frame, which the metadata or the directory speak of, is not there"
        yield Breach("error", frame.path, message, "no such group", "a group")
    elif frame.is_directory and frame.path != f"/{names.DIRECTORY_GROUP}":
        message = "the group of the data frame of a directory has another name"
        yield Breach("error", frame.path, message, frame.path, f"/{names.DIRECTORY_GROUP}")


def version_is_known(frame: SeenFrame) -> Iterator[Breach]:
    """DG2: `version`, where the group has one, is a text <major>.<minor>. In a directory OBJECT has the say."""
    held = frame.node.attribute(names.VERSION) if frame.node is not None else None
    if frame.node is None or held is None or frame.is_directory:
        return
    found = frame.node.text(names.VERSION)
    if found is None:
        yield Breach("error", frame.path, "version is no scalar text", stored_as(held), "a scalar text")
    elif not VERSION.fullmatch(found) or not found.startswith("1."):
        yield Breach("error", frame.path, "version is none that is known", repr(found), "1.<minor>")


def row_count_is_a_count(frame: SeenFrame) -> Iterator[Breach]:
    """DG3: `row-count` is a scalar of an unsigned integer type."""
    if frame.node is None or frame.generation.family == "legacy":
        return
    held = frame.node.attribute(names.ROW_COUNT)
    fits = held is not None and held.type is not None and held.is_integer and not held.type.signed
    if held is None or held.shape != () or not fits or (held.type is not None and held.type.precision > 64):
        message = "row-count, the number of rows, is missing or no unsigned integer"
        yield Breach("error", frame.path, message, stored_as(held), "a scalar of an unsigned integer type")


def column_names_are_names(frame: SeenFrame) -> Iterator[Breach]:
    """DG4: `column_names` is a 1-D dataset of texts, distinct and not empty."""
    if frame.node is None:
        return
    path = join_path(frame.path, names.COLUMN_NAMES)
    listed = frame.member(names.COLUMN_NAMES)
    if listed is None or not is_text(listed) or not listed.is_flat:
        found = "no such dataset" if listed is None else stored_text(listed)
        yield Breach("error", path, "column_names is missing, or no 1-D dataset of texts", found, FLAT_TEXTS)
        return
    if frame.names is None:
        yield Breach("error", path, "the column names cannot be read", "texts that cannot be read", "texts")
        return
    seen: set[bytes] = set()
    for position, name in enumerate(frame.names):
        problem = _name_problem(name, seen)
        if problem is not None:
            yield Breach("error", path, f"the name of column {position} {problem}", repr(name), "distinct UTF-8 texts")
        seen.add(name or b"")


def _name_problem(name: bytes | None, seen: set[bytes]) -> str | None:
    if not name:
        return "is missing" if name is None else "is empty"
    if name in seen:
        return "is that of another too"
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return "is no UTF-8"
    return None


def row_names_are_names(frame: SeenFrame) -> Iterator[Breach]:
    """DG5: `row_names` is a 1-D dataset of texts, as long as the frame, and there exactly if metadata say so."""
    if frame.node is None:
        return
    path = join_path(frame.path, names.ROW_NAMES)
    link = frame.kind_of(names.ROW_NAMES)
    said = frame.metadata.row_names if frame.metadata is not None else link is not None
    if said and link is None:
        message = "the metadata speak of row names, and there are none"
        yield Breach("error", path, message, "no such dataset", FLAT_TEXTS)
    if link is None:
        return
    if not said:
        message = "there are row names, of which the metadata do not speak: readers pass them over"
        yield Breach("warning", path, message, "row_names is not true", "row_names: true")
    yield from _row_names(frame, path)


def _row_names(frame: SeenFrame, path: str) -> Iterator[Breach]:
    listed = frame.member(names.ROW_NAMES)
    if listed is None or not is_text(listed) or not listed.is_flat:
        found = "no dataset" if listed is None else stored_text(listed)
        yield Breach("error", path, "row_names is no 1-D dataset of texts", found, FLAT_TEXTS)
        return
    if frame.n_rows is not None and listed.length != frame.n_rows:
        message = "there are more or fewer row names than rows"
        yield Breach("error", path, message, f"{listed.length} names", f"{frame.n_rows} rows")
    if frame.deep:
        facts = look_at_texts(listed)
        row = facts.absent if facts.absent is not None else facts.broken[0] if facts.broken is not None else None
        if row is not None:
            yield Breach("error", path, f"row name {row} is missing or no UTF-8", f"row {row}", "UTF-8 texts")


def data_is_a_group(frame: SeenFrame) -> Iterator[Breach]:
    """DG6: `data` is a group."""
    if frame.node is not None and frame.data is None:
        found = frame.kind_of(names.DATA) or "no such group"
        path = join_path(frame.path, names.DATA)
        yield Breach("error", path, "data, which has the columns, is missing or no group", found, "a group")


def nothing_else_is_in_data(frame: SeenFrame) -> Iterator[Breach]:
    """DG7: `data` holds columns and nothing else."""
    if frame.data is None or frame.names is None:
        return
    known = {str(position) for position in range(len(frame.names))}
    strangers = [child.name for child in frame.data.children if child.name not in known]
    for name in strangers[:MOST_NAMED]:
        message = "this is no column: columns are named by their positions, from 0"
        yield Breach("error", join_path(frame.data.path, name), message, repr(name), f"0 to {len(known) - 1}")
    if len(strangers) > MOST_NAMED:
        message = f"{len(strangers) - MOST_NAMED} more members of data are no columns"
        yield Breach("error", frame.data.path, message, f"{len(strangers)} strangers", "columns only")


def columns_are_there(frame: SeenFrame) -> Iterator[Breach]:
    """DG8: a column is in `data`, or is said to be elsewhere."""
    if frame.data is None:
        return
    for column in frame.columns:
        other = column.claim is not None and column.claim.type == names.OTHER
        if column.link is not None and column.node is None:
            message = "this leads to no group or dataset of the file"
            yield Breach("error", column.path, message, str(column.link), "a group or dataset")
        elif column.node is not None and other:
            message = "the metadata say that this column is elsewhere, and it is here"
            yield Breach("error", column.path, message, "a column in data", "none, for type other")
        elif column.link is None and not other and not frame.is_directory:
            message = "this column is not in the file, and nothing says where else"
            yield Breach("error", column.path, message, "no such column", "a column, or type other in the metadata")


def unseen(path: str, error: ColonnadeError) -> tuple[str, Breach]:
    """A frame that cannot be looked at: the rule that this breaks, and how."""
    if isinstance(error, UnsupportedError) and "rule" in error.facts:
        found = repr(error.facts.get("found"))
        return str(error.facts["rule"]), Breach("error", path, f"{error}; it is not checked", found, "1.<minor>")
    return "H1", Breach("error", path, f"this frame cannot be described: {error}", str(error), "a frame")


# -- DI1 --


def indexes_suit(frame: SeenFrame) -> Iterator[Breach]:
    """DI1: an index says its kind and its column, refers to the rows of that, and suits them."""
    if frame.node is not None:
        yield from index_breaches(search_indexes(frame.group, frame.info), frame.info)
