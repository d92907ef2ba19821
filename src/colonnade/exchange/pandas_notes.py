"""What pandas knows of a column or frame and Arrow does not, as a short JSON text: a *note*.

The note of a column or row label is an attribute of its dataset, and is gone with it; that of the frame (names that are
not strings, `attrs`) is an attribute of the table. A note is a hint: it is followed where it fits the column as it is,
and ignored where it does not.

Note of a column: {"dtype": ...} and, by dtype:
    "tz"          tz: a time zone that is an offset
    "object"      na: what missing rows are ("NaN", "NA", "NaT"; None where it is not said);
                  items: "list", "tuple" or "set", where the objects are these (they are arrays where it is not said)
    "interval"    closed; of categories, which are strings in the file, also subtype, left and right: their ends
    "Sparse"      fill
    "pyarrow"     type: the Arrow type, where the file keeps a plainer one
    "category"    categories: the note of the categories
    "range"       step
Of a row label also: name (of the index, where it is not the column's), freq.
Note of a frame: {"columns": [one level: {"name", "dtype", ...}], "attrs": {...}}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

Note = dict[str, Any]
KEY = b"pandas"
FRAME_KEY = b"colonnade.pandas"
MASKED_TYPES: dict[str, pa.DataType] = {
    "Int8": pa.int8(), "Int16": pa.int16(), "Int32": pa.int32(), "Int64": pa.int64(),
    "UInt8": pa.uint8(), "UInt16": pa.uint16(), "UInt32": pa.uint32(), "UInt64": pa.uint64(),
    "Float32": pa.float32(), "Float64": pa.float64(), "boolean": pa.bool_(),
}  # fmt: skip
"""pandas' types with a mask of their own."""
STRING_TYPES = ("string", "string[python]", "string[pyarrow]", "str", "str[python]", "str[pyarrow]")
"""pandas' string types by what holds the strings; those of "str" have NaN for missing rows, the others NA. Where the
holder is not named, it is pandas' default."""


def write_note(note: Note) -> str | None:
    """The note as text; None where there is nothing to say."""
    return json.dumps(note, separators=(",", ":"), ensure_ascii=False) if note else None


def read_note(text: str | bytes | None) -> Note:
    """A note from its text; empty where the text is not one."""
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def note_of(field: pa.Field) -> Note:
    """The note that a field of Arrow carries."""
    return read_note((field.metadata or {}).get(KEY))


def meaning(note: Note) -> str | None:
    """What the values of a column stand for, where they are not what their Arrow type says; else None."""
    dtype = str(note.get("dtype"))
    if dtype.startswith("period["):
        return dtype
    return f"interval closed {note.get('closed')}" if dtype == "interval" else None


def arrow_metadata(
    fields: Sequence[pa.Field], texts: Mapping[str, str], labels: Sequence[str], frame: str | None
) -> dict[bytes, bytes] | None:
    """Metadata by which pyarrow's `to_pandas` sets the index and the types it knows; None where there are none."""
    if not labels and not texts and frame is None:
        return None
    notes = {name: read_note(text) for name, text in texts.items()}
    columns = [
        _described(field, notes.get(field.name, {}), labels)
        for field in fields
        if field.name in labels or field.name in notes
    ]
    described = {"index_columns": list(labels), "column_indexes": [], "columns": columns, "pandas_version": None}
    made = {KEY: json.dumps(described).encode()}
    return made if frame is None else {**made, FRAME_KEY: frame.encode()}


def _described(field: pa.Field, note: Note, labels: Sequence[str]) -> Note:
    dtype = str(note.get("dtype"))
    fits = dtype in MASKED_TYPES and MASKED_TYPES[dtype] == field.type
    fits |= dtype in STRING_TYPES[:3] and bool(pa.types.is_string(field.type))
    fits |= dtype.startswith("period[") and field.type == pa.int64()
    name = label_name(field.name, note, labels) if field.name in labels else field.name
    return {
        "name": None if name is None else str(name),
        "field_name": field.name,
        "pandas_type": "unicode" if pa.types.is_string(field.type) else str(field.type),
        "numpy_type": dtype if fits else "object",
        "metadata": None,
    }


def label_name(field_name: str, note: Note, labels: Sequence[object]) -> Any:
    """The name of a level of the index: as the note says, else that of its column; None for the names that pandas'
    `reset_index` gives to levels without one."""
    if "name" in note:
        return read_name(note["name"])
    if len(labels) == 1:
        return None if field_name == "index" else field_name
    return None if field_name.startswith("level_") and field_name[6:].isdigit() else field_name


def read_name(name: Any) -> Any:
    """The name of an index from JSON, which has no tuples."""
    return tuple(map(read_name, name)) if isinstance(name, list) else name


def notes_of_arrow(schema: pa.Schema) -> tuple[dict[str, str], str | None]:
    """The notes that a schema of Arrow carries: ours, or what pyarrow says of a pandas frame that it was."""
    metadata = schema.metadata or {}
    notes = {field.name: field.metadata[KEY].decode("utf-8", "replace") for field in schema if _has_note(field)}
    frame = metadata.get(FRAME_KEY)
    described = read_note(metadata.get(KEY)).get("columns")
    for entry in described if isinstance(described, list) else []:
        note = _note_of_entry(entry, schema) if isinstance(entry, Mapping) else {}
        if note:
            notes.setdefault(entry["field_name"], write_note(note) or "")
    return notes, None if frame is None else frame.decode("utf-8", "replace")


def _has_note(field: pa.Field) -> bool:
    return field.metadata is not None and KEY in field.metadata


def _note_of_entry(entry: Mapping[str, Any], schema: pa.Schema) -> Note:
    """A note from what pyarrow says of a column of a pandas frame."""
    name, dtype = entry.get("field_name"), entry.get("numpy_type")
    if not isinstance(name, str) or name not in schema.names or not isinstance(dtype, str):
        return {}
    if dtype == "string":
        return {"dtype": "string[python]"}
    if dtype in MASKED_TYPES or (dtype in STRING_TYPES and dtype != "str") or dtype.startswith("period["):
        return {"dtype": dtype}
    if dtype.startswith("interval[") and dtype.endswith("]"):
        return {"dtype": "interval", "closed": dtype[:-1].rsplit(", ", 1)[-1]}
    return {}
