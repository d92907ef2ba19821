"""Notes: properties of a pandas column or frame that Arrow cannot represent, as short JSON strings.

The note of a column or row label is an attribute of its dataset, and is deleted with it. The note of the frame (names
that are not strings, `attrs`) is an attribute of the table. A note is a hint: it is used if it fits the current column,
and ignored if it does not.

Note of a column: {"dtype": ...} and, by dtype:
    "tz"          tz: a time zone that is an offset
    "object"      na: the value of missing rows ("NaN", "NA", "NaT"; None if not given);
                  items: "list", "tuple" or "set", the type of the objects (arrays if not given)
    "interval"    closed; for categories, which are strings in the file, also subtype, left and right: their ends
    "Sparse"      fill
    "pyarrow"     type: the Arrow type, if the file stores a plainer one
    "category"    categories: the note of the categories
    "range"       step
    "level"       of a row label: codes of the values of a level of the index, which is of their type
A row label also has: name (of the index, if it is not the column's), freq.
Note of a frame: {"columns": [one level: {"name", "dtype", ...}], "attrs": {...}}.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from colonnade.values import Json

Note = dict[str, "Json"]
IndexName = Hashable
"""The name of an index or of one of its levels: a string, number, tuple or None."""
KEY = b"pandas"
FRAME_KEY = b"colonnade.pandas"
MASKED_TYPES: dict[str, pa.DataType] = {
    "Int8": pa.int8(), "Int16": pa.int16(), "Int32": pa.int32(), "Int64": pa.int64(),
    "UInt8": pa.uint8(), "UInt16": pa.uint16(), "UInt32": pa.uint32(), "UInt64": pa.uint64(),
    "Float32": pa.float32(), "Float64": pa.float64(), "boolean": pa.bool_(),
}  # fmt: skip
"""pandas types that have their own mask."""
STRING_TYPES = ("string", "string[python]", "string[pyarrow]", "str", "str[python]", "str[pyarrow]")
"""pandas string types by their storage. Types of "str" use NaN for missing rows, the others NA. If the storage is not
named, it is the pandas default."""


def write_note(note: Note) -> str | None:
    """The note as a JSON string; None if it is empty."""
    return json.dumps(note, separators=(",", ":"), ensure_ascii=False) if note else None


def read_note(text: str | bytes | None) -> Note:
    """Parse a note; the result is empty if the string is not a valid note."""
    try:
        note = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def note_of(field: pa.Field) -> Note:
    """The note in the metadata of an Arrow field."""
    return read_note((field.metadata or {}).get(KEY))


def _is_period(dtype: str) -> bool:
    return dtype.startswith("period[") and dtype.endswith("]")


def meaning(note: Note) -> str | None:
    """The meaning of a column's values if their Arrow type does not express it; otherwise None."""
    dtype = str(note.get("dtype"))
    if _is_period(dtype):
        return dtype
    return f"interval closed {note.get('closed')}" if dtype == "interval" else None


def arrow_metadata(
    fields: Sequence[pa.Field], stored_notes: Mapping[str, str], labels: Sequence[str], frame: str | None
) -> dict[bytes, bytes] | None:
    """Metadata from which pyarrow's `to_pandas` sets the index and the types it supports; None without any."""
    if not labels and not stored_notes and frame is None:
        return None
    notes = {name: read_note(text) for name, text in stored_notes.items()}
    columns = [
        _described(field, notes.get(field.name, {}), labels)
        for field in fields
        if field.name in labels or field.name in notes
    ]
    described = {"index_columns": list(labels), "column_indexes": [], "columns": columns, "pandas_version": None}
    metadata = {KEY: json.dumps(described).encode()}
    return metadata if frame is None else {**metadata, FRAME_KEY: frame.encode()}


def _described(field: pa.Field, note: Note, labels: Sequence[str]) -> Note:
    dtype = str(note.get("dtype"))
    fits = dtype in MASKED_TYPES and MASKED_TYPES[dtype] == field.type
    fits |= dtype in STRING_TYPES[:3] and bool(pa.types.is_string(field.type))
    fits |= _is_period(dtype) and field.type == pa.int64()
    name = label_name(field.name, note, labels) if field.name in labels else field.name
    return {
        "name": None if name is None else str(name),
        "field_name": field.name,
        "pandas_type": "unicode" if pa.types.is_string(field.type) else str(field.type),
        "numpy_type": dtype if fits else "object",
        "metadata": None,
    }


def label_name(field_name: str, note: Note, labels: Sequence[object]) -> IndexName:
    """The name of an index level: from the note, otherwise the column's name; None for the names that pandas
    `reset_index` gives to levels without a name."""
    if "name" in note:
        return read_name(note["name"])
    if len(labels) == 1:
        return None if field_name == "index" else field_name
    return None if field_name.startswith("level_") and field_name[6:].isdigit() else field_name


def read_name(name: Json) -> IndexName:
    """The name of an index from JSON, with lists converted to tuples."""
    return tuple(map(read_name, name)) if isinstance(name, list) else name


def notes_of_arrow(schema: pa.Schema) -> tuple[dict[str, str], str | None]:
    """The notes in an Arrow schema: our own, or derived from pyarrow's metadata of the original pandas frame."""
    metadata = schema.metadata or {}
    notes = {
        field.name: field.metadata[KEY].decode("utf-8", "replace")
        for field in schema
        if field.metadata is not None and KEY in field.metadata
    }
    frame = metadata.get(FRAME_KEY)
    described = read_note(metadata.get(KEY)).get("columns")
    for entry in described if isinstance(described, list) else []:
        note = _note_of_entry(entry, schema) if isinstance(entry, Mapping) else {}
        if note:
            notes.setdefault(str(entry["field_name"]), write_note(note) or "")
    return notes, None if frame is None else frame.decode("utf-8", "replace")


def _note_of_entry(entry: Mapping[str, Json], schema: pa.Schema) -> Note:
    """A note from pyarrow's metadata of a pandas column."""
    name, dtype = entry.get("field_name"), entry.get("numpy_type")
    if not isinstance(name, str) or name not in schema.names or not isinstance(dtype, str):
        return {}
    if dtype == "string":
        return {"dtype": "string[python]"}
    if dtype in MASKED_TYPES or (dtype in STRING_TYPES and dtype != "str") or _is_period(dtype):
        return {"dtype": dtype}
    if dtype.startswith("interval[") and dtype.endswith("]"):
        return {"dtype": "interval", "closed": dtype[:-1].rsplit(", ", 1)[-1]}
    return {}
