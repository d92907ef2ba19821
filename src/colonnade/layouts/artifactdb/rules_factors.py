"""Rules for factors: DF1 to DF5."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.errors import FormatError
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.metadata import count_levels, read_levels
from colonnade.layouts.artifactdb.rules_columns import IN_32_BITS, deep_look, is_within_int32, now_read, type_of
from colonnade.layouts.artifactdb.rules_groups import FLAT_TEXTS, stored_text
from colonnade.layouts.artifactdb.rules_values import code_outside, look_at_texts, repeated_text, text_outside
from colonnade.layouts.artifactdb.seen import SeenColumn, SeenFrame, is_text
from colonnade.layouts.seen_node import stored_as
from colonnade.model import Breach


def _is_factor_group(column: SeenColumn) -> bool:
    return column.type == names.FACTOR and column.node is not None and column.node.kind == "group"


def factors_are_groups(frame: SeenFrame) -> Iterator[Breach]:
    """DF1: a factor is a group that says so, with levels and codes; an old one a dataset."""
    for column in frame.placed:
        if not frame.is_self_described or column.type != names.FACTOR or column.node is None:
            continue
        if column.node.kind == "dataset":
            message = "a factor is a group, with levels and codes, not a dataset"
            yield Breach("error", column.path, message, stored_text(column.node), "a group")
            continue
        for name in (names.LEVELS, names.CODES):
            if column.part(name) is None:
                message = f"a factor has no dataset {name!r}"
                yield Breach("error", column.path, message, f"no {name}", "levels and codes")


def levels_are_distinct(frame: SeenFrame) -> Iterator[Breach]:
    """DF2: `levels` is a 1-D dataset of texts, fewer than 2^31; (deep) each once."""
    for column in filter(_is_factor_group, frame.placed):
        levels = column.part(names.LEVELS)
        if levels is None:
            continue
        if not is_text(levels) or not levels.is_flat:
            message = "levels are no 1-D dataset of texts"
            yield Breach("error", levels.path, message, stored_text(levels), FLAT_TEXTS)
        elif levels.length > names.MOST_LEVELS:
            yield Breach("error", levels.path, "too many levels", f"{levels.length}", f"up to {names.MOST_LEVELS}")
    yield from deep_look(frame, _levels_once)


def _levels_once(column: SeenColumn) -> Iterator[Breach]:
    levels = column.part(names.LEVELS) if _is_factor_group(column) else None
    if levels is None or not is_text(levels) or not levels.is_flat:
        return
    twice = repeated_text(now_read(column, levels))
    absent = look_at_texts(levels).absent
    if absent is not None:
        message = f"level {absent} has no text, not even an empty one"
        yield Breach("error", levels.path, message, "no text", "distinct texts")
    elif twice is not None:
        yield Breach("error", levels.path, "a level is there twice", repr(twice[:60]), "distinct texts")


def codes_are_levels(frame: SeenFrame) -> Iterator[Breach]:
    """DF3: codes are of an integer type, in 32 bits or (in a directory) without a sign; (deep) each is of a level."""
    for column in frame.placed:
        stored = column.stored
        if column.type != names.FACTOR or stored is None or not _holds_codes(column):
            continue
        if frame.is_directory:
            fits, expected = stored.kind == "integer" and not stored.signed, "an integer type without a sign"
        else:
            fits, expected = is_within_int32(stored), IN_32_BITS
        if not fits:
            path = column.rows.path if column.rows is not None else column.path
            yield Breach("error", path, f"codes are {stored}", str(stored), expected)
    yield from deep_look(frame, _codes_are_levels)


def _holds_codes(column: SeenColumn) -> bool:
    """Whether the rows of a factor are codes: all but the oldest are."""
    return _is_factor_group(column) or (not column.frame.is_self_described and column.frame.generation.frame >= 2)


def _codes_are_levels(column: SeenColumn) -> Iterator[Breach]:
    one, stored = column.rows, column.stored
    if column.type != names.FACTOR or not _holds_codes(column) or one is None or stored is None:
        return
    n_levels = _count_levels(column)
    if n_levels is None or stored.kind != "integer" or not one.is_flat:
        return
    mark = column.mark if isinstance(column.mark, int) else None
    outside = code_outside(now_read(column, one), n_levels, mark)
    if outside is not None:
        message = f"the code of row {outside[0]} is that of no level"
        yield Breach("error", one.path, message, str(outside[1]), f"0 to {n_levels - 1}, or the mark of missing rows")


def _count_levels(column: SeenColumn) -> int | None:
    """How many levels a factor has; None where that cannot be told, of which others tell."""
    if _is_factor_group(column):
        levels = column.part(names.LEVELS)
        return levels.length if levels is not None and levels.is_flat else None
    if column.claim is None or column.claim.levels is None or column.frame.metadata is None:
        return None
    try:
        return count_levels(column.frame.metadata, column.claim.levels, column.frame.group)
    except FormatError:
        return None


def order_is_said_alike(frame: SeenFrame) -> Iterator[Breach]:
    """DF4: `ordered` is a scalar integer, and what the metadata say."""
    for column in filter(_is_factor_group, frame.placed):
        assert column.node is not None  # of a factor group
        held = column.node.attribute(names.ORDERED)
        if held is not None and (held.shape != () or held.type is None or not is_within_int32(held.type)):
            yield Breach("error", column.path, "ordered is no scalar integer", stored_as(held), IN_32_BITS)
            continue
        ordered = held is not None and any(held.values)
        if column.claim is not None and column.claim.kind == names.FACTOR and column.claim.is_ordered != ordered:
            message = "the metadata say otherwise whether the levels are in order"
            found, expected = ("ordered" if one else "not ordered" for one in (ordered, column.claim.is_ordered))
            yield Breach("error", column.path, message, found, expected)


def old_factors_hold_levels(frame: SeenFrame) -> Iterator[Breach]:
    """DF5: a factor of data_frame version 1 is a dataset of texts; (deep) each is a level."""
    if frame.is_self_described or frame.generation.frame >= 2:
        return
    for column in frame.placed:
        stored = type_of(column, names.FACTOR)
        if stored is not None and not column.is_text:
            message = "a factor of data_frame version 1 holds no text"
            yield Breach("error", column.path, message, str(stored), "a string type")
    yield from deep_look(frame, _texts_are_levels)


def _texts_are_levels(column: SeenColumn) -> Iterator[Breach]:
    one, metadata = column.rows, column.frame.metadata
    if column.type != names.FACTOR or one is None or not column.is_text or not one.is_flat or metadata is None:
        return
    if column.claim is None or column.claim.levels is None or _count_levels(column) is None:
        return
    levels = read_levels(metadata, column.claim.levels, column.frame.group)
    allowed = {str(level).encode() for level in levels.to_pylist() if level is not None}
    outside = text_outside(one, allowed, column.mark if isinstance(column.mark, bytes) else None)
    if outside is not None:
        message = f"the text of row {outside[0]} is no level"
        yield Breach("error", column.path, message, repr(outside[1][:60]), "a level, or the mark of missing rows")
