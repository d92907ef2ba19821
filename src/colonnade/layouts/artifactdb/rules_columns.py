"""Rules for the columns of a data frame: DD1 to DD7 types, DM1 to DM4 missing rows, DV1 and DV2 pointers, DF1 to DF5
factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from colonnade.errors import ColonnadeError, FormatError, UnsupportedError
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.metadata import count_levels, read_levels
from colonnade.layouts.artifactdb.raw import FLAT_TEXTS, RawColumn, RawFrame, is_text, stored_text
from colonnade.layouts.artifactdb.rules_values import (
    check_strings,
    code_outside,
    images,
    pointed_no_utf8,
    pointer_outside,
    repeated_text,
    text_outside,
)
from colonnade.layouts.raw_node import RawNode, stored_as
from colonnade.model import Breach, StoredType
from colonnade.nodes.damage import hdf5_errors

ColumnCheck = Callable[[RawColumn], Iterable[Breach]]
DATASET_TYPES = (names.BOOLEAN, names.INTEGER, names.NUMBER, names.STRING)
GROUP_TYPES = (names.FACTOR, names.VLS)
IN_32_BITS = "an integer type whose values all fit into 32 signed bits"
SCALAR_TEXT = "a scalar string"


def check_values(frame: RawFrame, check: ColumnCheck) -> Iterator[Breach]:
    """The breaches that `check` finds in each column, if values may be read. Unreadable values are a breach too."""
    for column in frame.placed if frame.deep else ():
        try:
            yield from list(check(column))
        except UnsupportedError as error:
            yield Breach("note", column.path, f"the values are not checked: {error}", str(error), "what can be read")
        except hdf5_errors(ColonnadeError, MemoryError) as error:
            yield Breach("error", column.path, f"the values cannot be read: {error}", str(error), "what can be read")


def now_read(column: RawColumn, node: RawNode) -> RawNode:
    """The dataset; its values are about to be read, so its bytes are counted."""
    column.frame.bytes_read += node.as_dataset.stored_bytes()
    return node


# -- DD1, DD2 --


def columns_have_all_rows(frame: RawFrame) -> Iterator[Breach]:
    """DD1: the rows of a column are a dataset of rank 1, as long as the frame; (deep) numbers are readable."""
    counted = [column.rows.length for column in frame.placed if column.rows is not None and column.rows.is_flat]
    n_rows = frame.n_rows if frame.n_rows is not None else next(iter(counted), None)
    for column in frame.placed:
        node = column.rows
        if not frame.is_self_described and column.node is not None and column.node.kind == "group":
            yield Breach("error", column.path, "a column is a group, not a dataset", "a group", "a 1-D dataset")
        elif node is None:
            message = "this group has no dataset with the rows"
            yield Breach("error", column.path, message, "no codes or pointers", "codes, or pointers")
        elif isinstance(node.header, str):
            yield Breach("error", node.path, node.header, node.header, "a dataset that can be read")
        elif not node.is_flat:
            yield Breach("error", node.path, "a column does not have rank 1", node.shape_text, "rank 1")
        elif n_rows is not None and node.length != n_rows:
            message = "a column has more or fewer rows than the frame"
            yield Breach("error", node.path, message, f"{node.length} rows", f"{n_rows} rows")
    yield from check_values(frame, _numbers_can_be_read)


def _numbers_can_be_read(column: RawColumn) -> Iterator[Breach]:
    """Read all numbers. Any number is valid, so only an error can result; other rules read the other types."""
    node = column.rows
    if type_of(column, names.BOOLEAN, names.INTEGER, names.NUMBER) is not None and node is not None and node.is_flat:
        for _ in images(now_read(column, node)):
            pass
    yield from ()


def columns_say_their_type(frame: RawFrame) -> Iterator[Breach]:
    """DD2: `type` is a known scalar string, equal to that of the metadata. Legacy columns have it there only."""
    for column in frame.placed:
        if frame.is_self_described:
            yield from _said_type(column)
        elif column.type not in (*DATASET_TYPES, names.FACTOR):
            declared = column.claim.type if column.claim is not None else None
            message = "the metadata do not declare the type of this column"
            yield Breach("error", column.path, message, repr(declared), ", ".join((*DATASET_TYPES, names.FACTOR)))


def _said_type(column: RawColumn) -> Iterator[Breach]:
    assert column.node is not None  # of `placed`
    known = DATASET_TYPES if column.node.kind == "dataset" else GROUP_TYPES
    if column.type is None:
        found = stored_as(column.node.attribute(names.TYPE))
        yield Breach("error", column.path, "the attribute type is not a scalar string", found, SCALAR_TEXT)
    elif column.type not in (*known, names.FACTOR):
        message = f"a {column.node.kind} of an unknown type"
        yield Breach("error", column.path, message, repr(column.type), ", ".join(known))
    elif column.claim is not None and column.claim.kind not in (column.type, names.OTHER):
        message = "the metadata declare another type for this column"
        yield Breach("error", column.path, message, repr(column.type), repr(column.claim.type))


# -- DD3 to DD7 --


def integers_are_integers(frame: RawFrame) -> Iterator[Breach]:
    """DD3: booleans and integers have an integer type that fits into 32 signed bits."""
    for column in frame.placed:
        stored = type_of(column, names.BOOLEAN, names.INTEGER)
        if stored is None or is_within_int32(stored):
            continue
        if column.type == names.BOOLEAN and stored.kind == "float" and stored.size == 8 and frame.is_self_described:
            message = "booleans are stored as floats, as dolomite-base does: its own validator refuses them"
            yield Breach("warning", column.path, message, str(stored), IN_32_BITS)
        else:
            yield Breach(
                "error", column.path, f"a column of type {column.type} holds {stored}", str(stored), IN_32_BITS
            )


def is_within_int32(stored: StoredType) -> bool:
    return stored.kind == "integer" and stored.precision <= (32 if stored.signed else 31)


def type_of(column: RawColumn, *types: str) -> StoredType | None:
    """The stored type of a column that is a dataset of one of these declared types; None for others."""
    if column.type not in types or column.node is None or column.node.kind != "dataset":
        return None
    return column.stored


def numbers_are_numbers(frame: RawFrame) -> Iterator[Breach]:
    """DD4: numbers have a type whose values all fit into float64; in legacy frames, a float type."""
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
    """Whether takane's validator accepts it: float32, float64, or integers of up to 52 bits with the sign."""
    if stored.kind == "float":
        return (stored.size, stored.precision, stored.mantissa, stored.exponent) in ((4, 32, 23, 8), (8, 64, 52, 11))
    return stored.kind == "integer" and stored.precision <= (52 if stored.signed else 51)


def _is_within_float64(stored: StoredType) -> bool:
    if stored.kind == "float":
        return stored.mantissa <= 52 and stored.exponent <= 11
    return stored.kind == "integer" and stored.precision <= 53


def strings_are_text(frame: RawFrame) -> Iterator[Breach]:
    """DD5: strings have a string type; (deep) are UTF-8."""
    for column in frame.placed:
        stored = type_of(column, names.STRING)
        if stored is not None and not column.is_text:
            message = f"a column of type string holds {stored}"
            yield Breach("error", column.path, message, str(stored), "a string type")
    yield from check_values(frame, _texts_are_utf8)


def _texts_are_utf8(column: RawColumn) -> Iterator[Breach]:
    if _can_read_texts(column) and column.texts.broken is not None:
        row, value = column.texts.broken
        message = f"the string of row {row} is not UTF-8: readers refuse it"
        yield Breach("error", column.path, message, repr(value[:60]), "UTF-8")


def _can_read_texts(column: RawColumn) -> bool:
    node = column.rows
    if node is None or not column.is_text or not node.is_flat or column.type not in (names.STRING, names.FACTOR):
        return False
    if "texts" not in vars(column):
        now_read(column, node)
    return True


def texts_have_their_format(frame: RawFrame) -> Iterator[Breach]:
    """DD6: `format` is none, date or date-time, as in the metadata; (deep) all strings follow it."""
    for column in frame.placed:
        if column.type != names.STRING or column.node is None or column.node.kind != "dataset":
            continue
        attribute = column.node.attribute(names.FORMAT) if frame.is_self_described else None
        declared = column.node.text(names.FORMAT)
        if attribute is not None and declared not in names.FORMATS:
            found = stored_as(attribute) if declared is None else repr(declared)
            yield Breach("error", column.path, "format is unknown", found, ", ".join(names.FORMATS))
        elif frame.is_self_described and column.claim is not None:
            claimed = column.claim.text_format or "none"
            if column.claim.kind == names.STRING and claimed != column.format:
                message = "the metadata declare another format"
                yield Breach("error", column.path, message, repr(column.format), repr(claimed))
    yield from check_values(frame, _texts_are_of_format)


def _texts_are_of_format(column: RawColumn) -> Iterator[Breach]:
    if column.type != names.STRING or not _can_read_texts(column):
        return
    if column.texts.misshapen is not None:
        row, value, problem = column.texts.misshapen
        message = f"row {row}: {value[:60]!r} {problem}"
        yield Breach("error", column.path, message, repr(value[:60]), column.format)
    if column.texts.unreal is not None:
        row, value = column.texts.unreal
        message = f"row {row}: {value[:60]!r} is a day that does not exist"
        yield Breach("warning", column.path, message, repr(value[:60]), "a day of the calendar")


def no_text_is_absent(frame: RawFrame) -> Iterator[Breach]:
    """DD7 (deep): no variable-length string is a null pointer, which does not mark a missing row."""
    return check_values(frame, _texts_are_there)


def _texts_are_there(column: RawColumn) -> Iterator[Breach]:
    if _can_read_texts(column) and column.texts.absent is not None:
        row = column.texts.absent
        message = f"row {row} is a null pointer, not a string"
        yield Breach("error", column.path, message, f"row {row} is a null pointer", "a string in every row")


# -- missing rows --


def _held_mark(column: RawColumn) -> RawNode | None:
    """The rows of a column, if they have a placeholder of missing rows in an attribute that counts; else None."""
    node = column.rows
    if node is None or not column.marks_by_attribute or node.attribute(names.PLACEHOLDER) is None:
        return None
    return node


def marks_are_scalars(frame: RawFrame) -> Iterator[Breach]:
    """DM1: the placeholder of missing rows is a scalar."""
    for column in frame.placed:
        node = _held_mark(column)
        attribute = node.attribute(names.PLACEHOLDER) if node is not None else None
        if node is not None and attribute is not None and (attribute.shape != () or attribute.problem is not None):
            message = "missing-value-placeholder is not a scalar"
            yield Breach("error", node.path, message, stored_as(attribute), "a scalar")


def marks_have_the_type_of_rows(frame: RawFrame) -> Iterator[Breach]:
    """DM2: the placeholder of missing numbers has exactly their type."""
    for column in frame.placed:
        node = _held_mark(column)
        attribute = node.attribute(names.PLACEHOLDER) if node is not None else None
        if node is None or attribute is None or column.is_text or column.has_pointers or attribute.type is None:
            continue
        if attribute.type != column.stored:
            message = "missing-value-placeholder has another type than the rows"
            yield Breach("error", node.path, message, str(attribute.type), str(column.stored))


def marks_of_texts_are_texts(frame: RawFrame) -> Iterator[Breach]:
    """DM3: the placeholder of missing strings is a string."""
    for column in frame.placed:
        node = _held_mark(column)
        attribute = node.attribute(names.PLACEHOLDER) if node is not None else None
        if node is None or attribute is None or not (column.is_text or column.has_pointers):
            continue
        if attribute.type is not None and not attribute.is_text:
            message = "missing-value-placeholder of strings is not a string"
            yield Breach("error", node.path, message, stored_as(attribute), SCALAR_TEXT)


def old_numbers_have_no_mark(frame: RawFrame) -> Iterator[Breach]:
    """DM4: before hdf5_data_frame version 2, missing numbers are INT32_MIN or R's NA, and have no placeholder."""
    for column in frame.placed:
        node = column.rows
        if node is None or column.marks_by_attribute or node.attribute(names.PLACEHOLDER) is None:
            continue
        message = "missing-value-placeholder has no meaning for numbers before hdf5_data_frame version 2"
        yield Breach("warning", node.path, message, "an attribute", "-2147483648, or R's NA, in the rows")


# -- pointers into a heap, since version 1.1 --


def pointers_have_their_parts(frame: RawFrame) -> Iterator[Breach]:
    """DV1: pointers are pairs of unsigned integers, and the heap holds bytes; from version 1.1 on."""
    for column in frame.placed:
        if not column.has_pointers:
            continue
        if frame.generation.version == "1.0":
            message = "strings by pointers need version 1.1: dolomite-base writes them as 1.0, and refuses them"
            yield Breach("warning", column.path, message, "version 1.0", "version 1.1")
        yield from _pointer_parts(column)


def _pointer_parts(column: RawColumn) -> Iterator[Breach]:
    heap, stored = column.part(names.HEAP), column.stored
    if stored is not None and not are_pointers(stored):
        message = "pointers are not pairs of an offset and a length"
        yield Breach("error", column.path, message, str(stored), "a compound of unsigned integers, offset and length")
    if heap is None or heap.stored is None or not heap.is_flat or not _is_byte(heap.stored.type):
        found = "no such dataset" if heap is None else stored_text(heap)
        yield Breach("error", column.path, "the heap is not a 1-D dataset of bytes", found, "1-D uint8")


def are_pointers(stored: StoredType) -> bool:
    """Whether this is the type of pointers: a compound of two unsigned integers, offset and length."""
    if stored.kind != "compound" or tuple(node.name for node in stored.fields) != ("offset", "length"):
        return False
    return all(node.type.kind == "integer" and not node.type.signed for node in stored.fields)


def _is_byte(stored: StoredType) -> bool:
    return stored.kind == "integer" and not stored.signed and stored.precision <= 8


def pointers_stay_in_the_heap(frame: RawFrame) -> Iterator[Breach]:
    """DV2 (deep): every pointer leads to bytes of the heap, which are UTF-8."""
    return check_values(frame, _pointers_inside)


def _pointers_inside(column: RawColumn) -> Iterator[Breach]:
    node, heap = column.rows, column.part(names.HEAP) if column.has_pointers else None
    if node is None or heap is None or column.stored is None or not are_pointers(column.stored):
        return
    if not node.is_flat or not heap.is_flat or heap.stored is None or not _is_byte(heap.stored.type):
        return
    outside = pointer_outside(now_read(column, node), heap.length)
    if outside is not None:
        row, offset, length = outside
        message = f"the string of row {row} is outside the heap"
        found = f"{length} bytes from {offset}"
        yield Breach("error", node.path, message, found, f"within {heap.length} bytes")
        return
    broken = pointed_no_utf8(node, now_read(column, heap))
    if broken is not None:
        message = f"the string of row {broken[0]} is not UTF-8: readers refuse it"
        yield Breach("error", node.path, message, repr(broken[1][:60]), "UTF-8")


def _is_factor_group(column: RawColumn) -> bool:
    return column.type == names.FACTOR and column.node is not None and column.node.kind == "group"


def factors_are_groups(frame: RawFrame) -> Iterator[Breach]:
    """DF1: a factor is a group of type factor, with levels and codes; in legacy frames, a dataset."""
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


def levels_are_distinct(frame: RawFrame) -> Iterator[Breach]:
    """DF2: `levels` is a 1-D dataset of fewer than 2^31 strings; (deep) they are distinct."""
    for column in filter(_is_factor_group, frame.placed):
        levels = column.part(names.LEVELS)
        if levels is None:
            continue
        if not is_text(levels) or not levels.is_flat:
            message = "levels is not a 1-D dataset of strings"
            yield Breach("error", levels.path, message, stored_text(levels), FLAT_TEXTS)
        elif levels.length > names.MOST_LEVELS:
            yield Breach("error", levels.path, "too many levels", f"{levels.length}", f"up to {names.MOST_LEVELS}")
    yield from check_values(frame, _levels_once)


def _levels_once(column: RawColumn) -> Iterator[Breach]:
    levels = column.part(names.LEVELS) if _is_factor_group(column) else None
    if levels is None or not is_text(levels) or not levels.is_flat:
        return
    twice = repeated_text(now_read(column, levels))
    absent = check_strings(levels).absent
    if absent is not None:
        message = f"level {absent} is a null pointer, not a string"
        yield Breach("error", levels.path, message, "a null pointer", "distinct strings")
    elif twice is not None:
        yield Breach("error", levels.path, "two levels are equal", repr(twice[:60]), "distinct strings")


def codes_are_levels(frame: RawFrame) -> Iterator[Breach]:
    """DF3: codes fit into 32 signed bits, or are unsigned (in a directory); (deep) each is that of a level."""
    for column in frame.placed:
        stored = column.stored
        if column.type != names.FACTOR or stored is None or not _holds_codes(column):
            continue
        if frame.is_directory:
            fits, expected = stored.kind == "integer" and not stored.signed, "an unsigned integer type"
        else:
            fits, expected = is_within_int32(stored), IN_32_BITS
        if not fits:
            path = column.rows.path if column.rows is not None else column.path
            yield Breach("error", path, f"codes are {stored}", str(stored), expected)
    yield from check_values(frame, _codes_are_levels)


def _holds_codes(column: RawColumn) -> bool:
    """Whether the rows of a factor are codes, which they are except in data_frame version 1."""
    return _is_factor_group(column) or (not column.frame.is_self_described and column.frame.generation.frame >= 2)


def _codes_are_levels(column: RawColumn) -> Iterator[Breach]:
    node, stored = column.rows, column.stored
    if column.type != names.FACTOR or not _holds_codes(column) or node is None or stored is None:
        return
    n_levels = _count_levels(column)
    if n_levels is None or stored.kind != "integer" or not node.is_flat:
        return
    mark = column.mark if isinstance(column.mark, int) else None
    outside = code_outside(now_read(column, node), n_levels, mark)
    if outside is not None:
        message = f"the code of row {outside[0]} is not that of a level"
        yield Breach("error", node.path, message, str(outside[1]), f"0 to {n_levels - 1}, or the placeholder")


def _count_levels(column: RawColumn) -> int | None:
    """The number of levels of a factor; None if it is unknown, which other rules report."""
    if _is_factor_group(column):
        levels = column.part(names.LEVELS)
        return levels.length if levels is not None and levels.is_flat else None
    if column.claim is None or column.claim.levels is None or column.frame.metadata is None:
        return None
    try:
        return count_levels(column.frame.metadata, column.claim.levels, column.frame.group)
    except FormatError:
        return None


def order_is_said_alike(frame: RawFrame) -> Iterator[Breach]:
    """DF4: `ordered` is a scalar integer that agrees with the metadata."""
    for column in filter(_is_factor_group, frame.placed):
        assert column.node is not None  # of a factor group
        attribute = column.node.attribute(names.ORDERED)
        if attribute is not None and (
            attribute.shape != () or attribute.type is None or not is_within_int32(attribute.type)
        ):
            yield Breach("error", column.path, "ordered is not a scalar integer", stored_as(attribute), IN_32_BITS)
            continue
        ordered = attribute is not None and any(attribute.values)
        if column.claim is not None and column.claim.kind == names.FACTOR and column.claim.is_ordered != ordered:
            message = "the metadata disagree about whether the levels are ordered"
            found, expected = ("ordered" if node else "not ordered" for node in (ordered, column.claim.is_ordered))
            yield Breach("error", column.path, message, found, expected)


def old_factors_hold_levels(frame: RawFrame) -> Iterator[Breach]:
    """DF5: a factor of data_frame version 1 is a dataset of strings; (deep) each is a level."""
    if frame.is_self_described or frame.generation.frame >= 2:
        return
    for column in frame.placed:
        stored = type_of(column, names.FACTOR)
        if stored is not None and not column.is_text:
            message = "a factor of data_frame version 1 does not hold strings"
            yield Breach("error", column.path, message, str(stored), "a string type")
    yield from check_values(frame, _texts_are_levels)


def _texts_are_levels(column: RawColumn) -> Iterator[Breach]:
    node, metadata = column.rows, column.frame.metadata
    if column.type != names.FACTOR or node is None or not column.is_text or not node.is_flat or metadata is None:
        return
    if column.claim is None or column.claim.levels is None or _count_levels(column) is None:
        return
    levels = read_levels(metadata, column.claim.levels, column.frame.group)
    allowed = {str(level).encode() for level in levels.to_pylist() if level is not None}
    outside = text_outside(node, allowed, column.mark if isinstance(column.mark, bytes) else None)
    if outside is not None:
        message = f"the string of row {outside[0]} is not a level"
        yield Breach("error", column.path, message, repr(outside[1][:60]), "a level, or the placeholder")
