"""Rules for the columns of a data frame: DD1 to DD7 types, DM1 to DM4 missing rows, DV1 and DV2 pointers, DF1 to DF5
factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from colonnade.errors import ColonnadeError, FormatError, UnsupportedError
from colonnade.h5.damage import hdf5_errors
from colonnade.h5.datasets import stored_bytes
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.metadata import count_levels, read_levels
from colonnade.layouts.artifactdb.rules_values import (
    code_outside,
    images,
    look_at_texts,
    pointed_no_utf8,
    pointer_outside,
    repeated_text,
    text_outside,
)
from colonnade.layouts.artifactdb.seen import FLAT_TEXTS, SeenColumn, SeenFrame, is_text, stored_text
from colonnade.layouts.seen_node import SeenNode, stored_as
from colonnade.model import Breach, StoredType

Look = Callable[[SeenColumn], Iterable[Breach]]
OF_DATASETS = (names.BOOLEAN, names.INTEGER, names.NUMBER, names.STRING)
OF_GROUPS = (names.FACTOR, names.VLS)
IN_32_BITS = "an integer type whose values all fit into 32 bits with a sign"
SCALAR_TEXT = "a scalar text"


def deep_look(frame: SeenFrame, look: Look) -> Iterator[Breach]:
    """What the values of each column show, if they may be read. What cannot be is a breach, of that column alone."""
    for column in frame.placed if frame.deep else ():
        try:
            yield from list(look(column))
        except UnsupportedError as error:
            yield Breach("note", column.path, f"the values are not checked: {error}", str(error), "what can be read")
        except hdf5_errors(ColonnadeError, MemoryError) as error:
            yield Breach("error", column.path, f"the values cannot be read: {error}", str(error), "what can be read")


def now_read(column: SeenColumn, one: SeenNode) -> SeenNode:
    """A dataset whose values are read now."""
    column.frame.bytes_read += stored_bytes(one.node)
    return one


# -- DD1, DD2 --


def columns_have_all_rows(frame: SeenFrame) -> Iterator[Breach]:
    """DD1: the rows of a column are a dataset of rank 1, as long as the frame; (deep) numbers can be read."""
    counted = [column.rows.length for column in frame.placed if column.rows is not None and column.rows.is_flat]
    n_rows = frame.n_rows if frame.n_rows is not None else next(iter(counted), None)
    for column in frame.placed:
        one = column.rows
        if not frame.is_self_described and column.node is not None and column.node.kind == "group":
            yield Breach("error", column.path, "a column is a group, not a dataset", "a group", "a 1-D dataset")
        elif one is None:
            message = "this group has no dataset with the rows"
            yield Breach("error", column.path, message, "no codes or pointers", "codes, or pointers")
        elif isinstance(one.header, str):
            yield Breach("error", one.path, one.header, one.header, "a dataset that can be read")
        elif not one.is_flat:
            yield Breach("error", one.path, "a column is no array of rank 1", one.shape_text, "rank 1")
        elif n_rows is not None and one.length != n_rows:
            message = "a column has more or fewer rows than the frame"
            yield Breach("error", one.path, message, f"{one.length} rows", f"{n_rows} rows")
    yield from deep_look(frame, _numbers_can_be_read)


def _numbers_can_be_read(column: SeenColumn) -> Iterator[Breach]:
    """Of numbers that is all that values can show; other types have rules that read them."""
    one = column.rows
    if type_of(column, names.BOOLEAN, names.INTEGER, names.NUMBER) is not None and one is not None and one.is_flat:
        for _ in images(now_read(column, one)):
            pass
    yield from ()


def columns_say_their_type(frame: SeenFrame) -> Iterator[Breach]:
    """DD2: `type` is a scalar text that is known, and what the metadata say; old columns have it from these alone."""
    for column in frame.placed:
        if frame.is_self_described:
            yield from _said_type(column)
        elif column.type not in (*OF_DATASETS, names.FACTOR):
            said = column.claim.type if column.claim is not None else None
            message = "no metadata say what this column is"
            yield Breach("error", column.path, message, repr(said), ", ".join((*OF_DATASETS, names.FACTOR)))


def _said_type(column: SeenColumn) -> Iterator[Breach]:
    assert column.node is not None  # of `placed`
    known = OF_DATASETS if column.node.kind == "dataset" else OF_GROUPS
    if column.type is None:
        found = stored_as(column.node.attribute(names.TYPE))
        yield Breach(
            "error", column.path, "type, which says what this column is, is no scalar text", found, SCALAR_TEXT
        )
    elif column.type not in (*known, names.FACTOR):
        message = f"a {column.node.kind} of a type that is not known"
        yield Breach("error", column.path, message, repr(column.type), ", ".join(known))
    elif column.claim is not None and column.claim.kind not in (column.type, names.OTHER):
        message = "the metadata say that this column is of another type"
        yield Breach("error", column.path, message, repr(column.type), repr(column.claim.type))


# -- DD3 to DD7 --


def integers_are_integers(frame: SeenFrame) -> Iterator[Breach]:
    """DD3: booleans and integers are of an integer type within 32 bits."""
    for column in frame.placed:
        stored = type_of(column, names.BOOLEAN, names.INTEGER)
        if stored is None or is_within_int32(stored):
            continue
        if column.type == names.BOOLEAN and stored.kind == "float" and stored.size == 8 and frame.is_self_described:
            message = "booleans are kept as floats, as dolomite-base does: its own validator refuses them"
            yield Breach("warning", column.path, message, str(stored), IN_32_BITS)
        else:
            yield Breach(
                "error", column.path, f"a column of type {column.type} holds {stored}", str(stored), IN_32_BITS
            )


def is_within_int32(stored: StoredType) -> bool:
    return stored.kind == "integer" and stored.precision <= (32 if stored.signed else 31)


def type_of(column: SeenColumn, *types: str) -> StoredType | None:
    """How the rows of a column that is a dataset of one of these types are stored."""
    if column.type not in types or column.node is None or column.node.kind != "dataset":
        return None
    return column.stored


def numbers_are_numbers(frame: SeenFrame) -> Iterator[Breach]:
    """DD4: numbers are of a type whose values are all those of float64; of old ones, only of a float type."""
    for column in frame.placed:
        stored = type_of(column, names.NUMBER)
        if stored is None:
            continue
        if frame.generation.family == "legacy" and not frame.is_self_described:
            fits, expected = stored.kind == "float", "a float type"
        elif frame.is_directory:
            fits, expected = _is_plain_number(stored), "float32, float64, or an integer type within 52 bits"
        else:
            fits, expected = _is_within_float64(stored), "an integer or float type within float64"
        if not fits:
            yield Breach("error", column.path, f"a column of type number holds {stored}", str(stored), expected)


def _is_plain_number(stored: StoredType) -> bool:
    """What today's validator takes: it compares floats with the two usual ones, and knows integers by their size."""
    if stored.kind == "float":
        return (stored.size, stored.precision, stored.mantissa, stored.exponent) in ((4, 32, 23, 8), (8, 64, 52, 11))
    return stored.kind == "integer" and stored.precision <= (52 if stored.signed else 51)


def _is_within_float64(stored: StoredType) -> bool:
    if stored.kind == "float":
        return stored.mantissa <= 52 and stored.exponent <= 11
    return stored.kind == "integer" and stored.precision <= 53


def strings_are_text(frame: SeenFrame) -> Iterator[Breach]:
    """DD5: strings are of a string type; (deep) UTF-8."""
    for column in frame.placed:
        stored = type_of(column, names.STRING)
        if stored is not None and not column.is_text:
            message = f"a column of type string holds {stored}"
            yield Breach("error", column.path, message, str(stored), "a string type")
    yield from deep_look(frame, _texts_are_utf8)


def _texts_are_utf8(column: SeenColumn) -> Iterator[Breach]:
    if _can_read_texts(column) and column.texts.broken is not None:
        row, value = column.texts.broken
        message = f"the text of row {row} is no UTF-8: readers refuse it"
        yield Breach("error", column.path, message, repr(value[:60]), "UTF-8")


def _can_read_texts(column: SeenColumn) -> bool:
    one = column.rows
    if one is None or not column.is_text or not one.is_flat or column.type not in (names.STRING, names.FACTOR):
        return False
    if "texts" not in vars(column):
        now_read(column, one)
    return True


def texts_have_their_format(frame: SeenFrame) -> Iterator[Breach]:
    """DD6: `format` is none, date or date-time, as the metadata say; (deep) texts are of it."""
    for column in frame.placed:
        if column.type != names.STRING or column.node is None or column.node.kind != "dataset":
            continue
        held = column.node.attribute(names.FORMAT) if frame.is_self_described else None
        said = column.node.text(names.FORMAT)
        if held is not None and said not in names.FORMATS:
            found = stored_as(held) if said is None else repr(said)
            yield Breach("error", column.path, "format is none that is known", found, ", ".join(names.FORMATS))
        elif frame.is_self_described and column.claim is not None:
            claimed = column.claim.text_format or "none"
            if column.claim.kind == names.STRING and claimed != column.format:
                message = "the metadata say another format"
                yield Breach("error", column.path, message, repr(column.format), repr(claimed))
    yield from deep_look(frame, _texts_are_of_format)


def _texts_are_of_format(column: SeenColumn) -> Iterator[Breach]:
    if column.type != names.STRING or not _can_read_texts(column):
        return
    if column.texts.misshapen is not None:
        row, value, problem = column.texts.misshapen
        message = f"row {row}: {value[:60]!r} {problem}"
        yield Breach("error", column.path, message, repr(value[:60]), column.format)
    if column.texts.unreal is not None:
        row, value = column.texts.unreal
        message = f"row {row}: {value[:60]!r} is a day that the calendar does not have"
        yield Breach("warning", column.path, message, repr(value[:60]), "a day of the calendar")


def no_text_is_absent(frame: SeenFrame) -> Iterator[Breach]:
    """DD7 (deep): texts of variable length lead somewhere: an absent text is none, and marks no missing row."""
    return deep_look(frame, _texts_are_there)


def _texts_are_there(column: SeenColumn) -> Iterator[Breach]:
    if _can_read_texts(column) and column.texts.absent is not None:
        row = column.texts.absent
        message = f"row {row} has no text, not even an empty one"
        yield Breach("error", column.path, message, f"row {row} leads nowhere", "a text in every row")


# -- missing rows --


def _held_mark(column: SeenColumn) -> SeenNode | None:
    """The dataset of a column that has an attribute for missing rows, if that means anything."""
    one = column.rows
    if one is None or not column.marks_by_attribute or one.attribute(names.PLACEHOLDER) is None:
        return None
    return one


def marks_are_scalars(frame: SeenFrame) -> Iterator[Breach]:
    """DM1: what marks missing rows is one value."""
    for column in frame.placed:
        one = _held_mark(column)
        held = one.attribute(names.PLACEHOLDER) if one is not None else None
        if one is not None and held is not None and (held.shape != () or held.problem is not None):
            message = "missing-value-placeholder is no scalar"
            yield Breach("error", one.path, message, stored_as(held), "a scalar")


def marks_have_the_type_of_rows(frame: SeenFrame) -> Iterator[Breach]:
    """DM2: what marks missing numbers is of exactly their type."""
    for column in frame.placed:
        one = _held_mark(column)
        held = one.attribute(names.PLACEHOLDER) if one is not None else None
        if one is None or held is None or column.is_text or column.has_pointers or held.type is None:
            continue
        if held.type != column.stored:
            message = "missing-value-placeholder is of another type than the rows"
            yield Breach("error", one.path, message, str(held.type), str(column.stored))


def marks_of_texts_are_texts(frame: SeenFrame) -> Iterator[Breach]:
    """DM3: what marks missing strings is a text."""
    for column in frame.placed:
        one = _held_mark(column)
        held = one.attribute(names.PLACEHOLDER) if one is not None else None
        if one is None or held is None or not (column.is_text or column.has_pointers):
            continue
        if held.type is not None and not held.is_text:
            message = "missing-value-placeholder of strings is no text"
            yield Breach("error", one.path, message, stored_as(held), SCALAR_TEXT)


def old_numbers_have_no_mark(frame: SeenFrame) -> Iterator[Breach]:
    """DM4: before hdf5_data_frame version 2, missing numbers are INT32_MIN and R's NA: an attribute says nothing."""
    for column in frame.placed:
        one = column.rows
        if one is None or column.marks_by_attribute or one.attribute(names.PLACEHOLDER) is None:
            continue
        message = "missing-value-placeholder means nothing on numbers before hdf5_data_frame version 2"
        yield Breach("warning", one.path, message, "an attribute", "-2147483648, or R's NA, in the rows")


# -- pointers into a heap, since version 1.1 --


def pointers_have_their_parts(frame: SeenFrame) -> Iterator[Breach]:
    """DV1: pointers are pairs of unsigned integers, the heap is bytes; since version 1.1."""
    for column in frame.placed:
        if not column.has_pointers:
            continue
        if frame.generation.version == "1.0":
            message = "strings by pointers came with version 1.1: dolomite-base writes them under 1.0, and refuses them"
            yield Breach("warning", column.path, message, "version 1.0", "version 1.1")
        yield from _pointer_parts(column)


def _pointer_parts(column: SeenColumn) -> Iterator[Breach]:
    heap, stored = column.part(names.HEAP), column.stored
    if stored is not None and not are_pointers(stored):
        message = "pointers are no pairs of an offset and a length"
        yield Breach("error", column.path, message, str(stored), "a compound of unsigned integers, offset and length")
    if heap is None or heap.stored is None or not heap.is_flat or not _is_byte(heap.stored.type):
        found = "no such dataset" if heap is None else stored_text(heap)
        yield Breach("error", column.path, "heap, which has the text, is no 1-D dataset of bytes", found, "1-D uint8")


def are_pointers(stored: StoredType) -> bool:
    """Whether these are pairs of an offset and a length, by names and types."""
    if stored.kind != "compound" or tuple(one.name for one in stored.fields) != ("offset", "length"):
        return False
    return all(one.type.kind == "integer" and not one.type.signed for one in stored.fields)


def _is_byte(stored: StoredType) -> bool:
    return stored.kind == "integer" and not stored.signed and stored.precision <= 8


def pointers_stay_in_the_heap(frame: SeenFrame) -> Iterator[Breach]:
    """DV2 (deep): every pointer is to bytes of the heap, and these are UTF-8."""
    return deep_look(frame, _pointers_inside)


def _pointers_inside(column: SeenColumn) -> Iterator[Breach]:
    one, heap = column.rows, column.part(names.HEAP) if column.has_pointers else None
    if one is None or heap is None or column.stored is None or not are_pointers(column.stored):
        return
    if not one.is_flat or not heap.is_flat or heap.stored is None or not _is_byte(heap.stored.type):
        return
    outside = pointer_outside(now_read(column, one), heap.length)
    if outside is not None:
        row, offset, length = outside
        message = f"the text of row {row} would lie outside the heap"
        found = f"{length} bytes from {offset}"
        yield Breach("error", one.path, message, found, f"within {heap.length} bytes")
        return
    broken = pointed_no_utf8(one, now_read(column, heap))
    if broken is not None:
        message = f"the text of row {broken[0]} is no UTF-8: readers refuse it"
        yield Breach("error", one.path, message, repr(broken[1][:60]), "UTF-8")


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
