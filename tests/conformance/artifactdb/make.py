"""Makes the files of the kit for ArtifactDB's data frames and their manifest, with h5py and nothing of colonnade.

    python tests/conformance/artifactdb/make.py [folder]     (the folder of this script, when none is named)

A case is a folder with all that belongs to it: `x.h5` and perhaps `x.h5.json`, or a directory as dolomite-base saves
it. What a checker must find stands beside it, written by hand: (rule, severity, path), with "deep" behind it where only
the values show it. Paths are those of objects in the HDF5 file; of documents, their name, # and a JSON pointer.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

HERE = Path(__file__).resolve().parent
TEXT = h5py.string_dtype()
MARK = "missing-value-placeholder"
Make = Callable[[Path], object]
Change = Callable[[Any], object]
Expected = tuple[str, ...]
INTEGERS = np.array([1, 2, 3], "<i4")
OBJECT = {"type": "data_frame", "data_frame": {"version": "1.0"}}


@dataclass(frozen=True)
class Case:
    """One folder: its name, the rule it is about, the file in it to check, what fills it, what is to be found."""

    name: str
    rule: str
    file: str
    make: Make
    findings: tuple[Expected, ...] = ()


CASES: list[Case] = []


def case(rule: str, name: str, make: Make, *findings: Expected, file: str = "x.h5") -> None:
    CASES.append(Case(f"{rule}-{name}", rule, file, make, findings))


def in_folder(rule: str, name: str, make: Make, *findings: Expected) -> None:
    """A case that is a directory of today's form."""
    CASES.append(Case(f"{rule}-{name}", rule, "", make, findings))


def nothing(_: Any) -> None:
    return None


# -- frames --


def column(group: Any, position: int, values: Any, kind: str | None = None, **attributes: Any) -> Any:
    """A column, in place of another if there is one."""
    data = group["data"]
    if str(position) in data:
        del data[str(position)]
    made = data.create_dataset(str(position), data=values)
    if kind is not None:
        made.attrs["type"] = kind
    for name, value in attributes.items():
        made.attrs[MARK if name == "mark" else name] = value
    return made


def factor(group: Any, codes: Any, levels: Any = (b"x", b"y"), **attributes: Any) -> Any:
    """A factor in place of the first column."""
    del group["data/0"]
    made = group["data"].create_group("0")
    made.attrs["type"] = "factor"
    if levels is not None:
        made["levels"] = np.array(levels)
    made["codes"] = codes
    for name, value in attributes.items():
        made.attrs[name] = value
    return made


def pointers(group: Any, rows: Any, heap: Any = b"abc") -> None:
    del group["data/0"]
    made = group["data"].create_group("0")
    made.attrs["type"] = "vls"
    made["pointers"] = np.array(rows, np.dtype([("offset", "<u4"), ("length", "<u4")]))
    made["heap"] = np.frombuffer(heap, "u1") if isinstance(heap, bytes) else heap


def fill(group: Any, kind: str | None) -> None:
    """One column of three integers."""
    group["column_names"] = np.array([b"a"])
    group.create_group("data")
    column(group, 0, np.array([1, 2, 3], "<i4"), kind)


def document(place: Path, columns: Any, own: int | None, frame: int | None, edit: Change) -> None:
    made: dict[str, Any] = {
        "$schema": "hdf5_data_frame/v1.json",
        "path": "x.h5",
        "md5sum": hashlib.md5((place / "x.h5").read_bytes()).hexdigest(),
        "data_frame": {"columns": list(columns), "dimensions": [3, len(columns)]},
        "hdf5_data_frame": {"group": "df"},
    }
    if own is not None:
        made["hdf5_data_frame"]["version"] = own
    if frame is not None:
        made["data_frame"]["version"] = frame
    edit(made)
    (place / "x.h5.json").write_text(json.dumps(made, indent=1))


def versioned(change: Change = nothing, claims: Any = None, edit: Change = nothing) -> Make:
    """A frame whose group says its version; with metadata, where claims are given."""

    def make(place: Path) -> None:
        with h5py.File(place / "x.h5", "w") as file:
            group = file.create_group("df")
            group.attrs["version"], group.attrs["row-count"] = "1.0", np.uint64(3)
            fill(group, "integer")
            change(group)
        if claims is not None:
            document(place, claims, 3, 2, edit)

    return make


def legacy(
    claims: Any, values: Any = INTEGERS, own: int = 2, frame: int = 2, edit: Change = nothing, levels: Any = None,
    **attributes: Any,
) -> Make:  # fmt: skip
    """A frame of one column that metadata describe, with a vector of levels where it needs one."""

    def make(place: Path) -> None:
        with h5py.File(place / "x.h5", "w") as file:
            group = file.create_group("df")
            fill(group, None)
            column(group, 0, np.array(values), **attributes)
        document(place, claims, own, frame, edit)
        if levels is not None:
            vector = {"type": "string", "length": len(levels), "names": False, "compression": "none"}
            made = {"$schema": "atomic_vector/v1.json", "path": "levels.csv", "atomic_vector": vector}
            (place / "levels.csv.json").write_text(json.dumps(made))
            (place / "levels.csv").write_text("".join(f'"{one}"\n' for one in ("values", *levels)))

    return make


def directory(change: Change = nothing, text: Any = OBJECT, after: Change = nothing) -> Make:
    """A directory, as dolomite-base saves it."""

    def make(place: Path) -> None:
        with h5py.File(place / "basic_columns.h5", "w") as file:
            group = file.create_group("data_frame")
            group.attrs["row-count"] = np.uint64(3)
            fill(group, "integer")
            change(group)
        if text is not None:
            (place / "OBJECT").write_text(text if isinstance(text, str) else json.dumps(text))
        after(place)

    return make


def put(name: str, values: Any) -> Change:
    """A member of the group, in place of another if there is one."""

    def change(group: Any) -> None:
        if name in group:
            del group[name]
        if values is not None:
            group[name] = values

    return change


def set_attribute(name: str, value: Any) -> Change:
    def change(group: Any) -> None:
        del group.attrs[name]
        if value is not None:
            group.attrs[name] = value

    return change


def keyed(*path: Any) -> Change:
    """Put the last of these at the place of a document that the others name."""

    def edit(made: Any) -> None:
        for key in path[:-2]:
            made = made[key]
        made[path[-2]] = path[-1]

    return edit


def held(values: Any, kind: str, **attributes: Any) -> Change:
    """The column, of other values."""
    return lambda group: column(group, 0, values, kind, **attributes)


def texts(*values: bytes) -> Any:
    return np.array(values)


A = {"name": "a", "type": "integer"}
LOCAL = {"resource": {"type": "local", "path": "levels.csv"}}
FACTOR = {"name": "a", "type": "factor", "levels": LOCAL}
AT, FRAME, COLUMNS = "/df/data/0", "/data_frame", "x.h5.json#/data_frame/columns"
ONE_ONE = {"type": "data_frame", "data_frame": {"version": "1.1"}}


def said(text: str) -> dict[str, Any]:
    return {"type": "data_frame", "data_frame": {"version": text}}


# -- the group --


def no_group(place: Path) -> None:
    with h5py.File(place / "x.h5", "w") as file:
        file["df"] = np.arange(3)
    document(place, [], 2, 2, nothing)


case("DG1", "good", versioned(claims=[A]))
case(
    "DG1",
    "no-group",
    versioned(claims=[A], edit=keyed("hdf5_data_frame", "group", "other")),
    ("DG1", "error", "/other"),
)
case("DG1", "a-dataset", no_group, ("DG1", "error", "/df"))
in_folder("DG1", "good-directory", directory())
in_folder(
    "DG1", "another-name", directory(lambda group: group.file.move("data_frame", "frame")),
    ("DG1", "error", FRAME), ("DG1", "error", "/frame"),
)  # fmt: skip


case("DG2", "good", versioned(set_attribute("version", "1.7")))
case("DG2", "major-2", versioned(set_attribute("version", "2.0")), ("DG2", "error", "/df"))
case("DG2", "no-minor", versioned(set_attribute("version", "1")), ("DG2", "error", "/df"))
case("DG2", "a-number", versioned(set_attribute("version", np.float64(1.0))), ("DG2", "error", "/df"))
case("DG3", "good", versioned(set_attribute("row-count", np.uint8(3))))
case("DG3", "missing", versioned(set_attribute("row-count", None)), ("DG3", "error", "/df"))
case("DG3", "with-sign", versioned(set_attribute("row-count", np.int64(3))), ("DG3", "error", "/df"))
case("DG3", "an-array", versioned(set_attribute("row-count", np.array([3], "u8"))), ("DG3", "error", "/df"))
case("DG4", "good", versioned(put("column_names", np.array(["ä"], TEXT))))
case("DG4", "missing", versioned(put("column_names", None)), ("DG4", "error", "/df/column_names"))
case("DG4", "numbers", versioned(put("column_names", np.arange(1))), ("DG4", "error", "/df/column_names"))
case("DG4", "empty", versioned(put("column_names", texts(b""))), ("DG4", "error", "/df/column_names"))


def _twice(group: Any) -> None:
    put("column_names", texts(b"a", b"a"))(group)
    column(group, 1, np.arange(3, dtype="<i4"), "integer")


case("DG4", "twice", versioned(_twice), ("DG4", "error", "/df/column_names"))
ROW_NAMES = keyed("data_frame", "row_names", True)
case("DG5", "good", versioned(put("row_names", texts(b"x", b"", b"x")), [A], ROW_NAMES))
case("DG5", "good-without-metadata", versioned(put("row_names", texts(b"x", b"", b"x"))))
case("DG5", "missing", versioned(claims=[A], edit=ROW_NAMES), ("DG5", "error", "/df/row_names"))
case(
    "DG5",
    "not-declared",
    versioned(put("row_names", texts(b"x", b"y", b"z")), [A]),
    ("DG5", "warning", "/df/row_names"),
)
case("DG5", "short", versioned(put("row_names", texts(b"x", b"y"))), ("DG5", "error", "/df/row_names"))
case("DG5", "numbers", versioned(put("row_names", np.arange(3))), ("DG5", "error", "/df/row_names"))
case(
    "DG5", "no-utf8", versioned(put("row_names", texts(b"\xff", b"y", b"z"))), ("DG5", "error", "/df/row_names", "deep")
)
case("DG6", "good", versioned())
case("DG6", "a-dataset", versioned(put("data", np.arange(3))), ("DG6", "error", "/df/data"))
case("DG7", "good", versioned(put("more", np.arange(3))))
case("DG7", "a-stranger", versioned(put("data/more", np.arange(3))), ("DG7", "error", "/df/data/more"))
OTHER = {"name": "a", "type": "other", **LOCAL}


def _resource(place: Path) -> None:
    versioned(put("data/0", None), [OTHER])(place)
    (place / "levels.csv.json").write_text("{}")


case("DG8", "good", _resource)
case("DG8", "nowhere", versioned(put("data/0", None)), ("DG8", "error", AT))
case(
    "DG8", "in-both-places", versioned(claims=[OTHER]),
    ("DG8", "error", AT), ("DJ8", "warning", f"{COLUMNS}/0/resource"),
)  # fmt: skip

# -- columns --

case("DD1", "good", versioned())
case("DD1", "rank-2", versioned(held(np.zeros((3, 1), "<i4"), "integer")), ("DD1", "error", AT))
case("DD1", "short", versioned(held(np.zeros(2, "<i4"), "integer")), ("DD1", "error", AT))
case("DD1", "scalar", versioned(held(np.int32(1), "integer")), ("DD1", "error", AT))
case("DD1", "long-legacy", legacy([A], np.zeros(4, "<i4")), ("DD1", "error", AT))


def _spoiled(group: Any) -> None:
    del group["data/0"]
    made = group["data"].create_dataset("0", (3,), "<i4", chunks=(3,), compression="gzip")
    made.attrs["type"] = "integer"
    made.id.write_direct_chunk((0,), b"no chunk")


case("DD1", "spoiled", versioned(_spoiled), ("DD1", "error", AT, "deep"))
case("DD2", "good", versioned(claims=[A]))
case("DD2", "missing", versioned(lambda group: column(group, 0, np.zeros(3, "<i4"))), ("DD2", "error", AT))
case("DD2", "unknown", versioned(held(np.zeros(3, "<i4"), "whole")), ("DD2", "error", AT))
case("DD2", "another", versioned(held(np.zeros(3, "<i4"), "number"), [A]), ("DD2", "error", AT))
case(
    "DD2", "unknown-legacy", legacy([{"name": "a", "type": "vls"}]),
    ("DD2", "error", AT), ("DJ3", "error", f"{COLUMNS}/0/type"),
)  # fmt: skip
case("DD3", "good", versioned(held(np.zeros(3, "<u2"), "boolean")))
case("DD3", "unsigned-32", versioned(held(np.zeros(3, "<u4"), "integer")), ("DD3", "error", AT))
case("DD3", "float", versioned(held(np.zeros(3, "<f4"), "boolean")), ("DD3", "error", AT))
case("DD3", "boolean-as-float64", versioned(held(np.zeros(3, "<f8"), "boolean")), ("DD3", "warning", AT))
case("DD3", "enum", versioned(held(np.zeros(3, bool), "boolean")), ("DD3", "error", AT))
case("DD4", "good", versioned(held(np.zeros(3, "<u4"), "number")))
case("DD4", "good-float16", versioned(held(np.zeros(3, "<f2"), "number")))
NUMBER = {"name": "a", "type": "number"}
case("DD4", "integers-of-64-bits", versioned(held(np.zeros(3, "<i8"), "number")), ("DD4", "error", AT))
case("DD4", "integers-legacy", legacy([NUMBER], np.zeros(3, "<i4")), ("DD4", "error", AT))
in_folder("DD4", "float16", directory(held(np.zeros(3, "<f2"), "number")), ("DD4", "error", f"{FRAME}/data/0"))
case("DD5", "good", versioned(held(np.array(["a", "", "ä"], TEXT), "string")))
case("DD5", "numbers", versioned(held(np.zeros(3), "string")), ("DD5", "error", AT))
case("DD5", "no-utf8", versioned(held(texts(b"a", b"\xff", b"c"), "string")), ("DD5", "error", AT, "deep"))
DAYS = texts(b"2024-02-29", b"NA", b"0000-01-01")
DATE = {"name": "a", "type": "string", "format": "date"}
case("DD6", "good", versioned(held(DAYS, "string", format="date", mark="NA"), [DATE]))
case(
    "DD6", "good-date-time", versioned(held(texts(*[b"2023-12-31T23:59:60.0-08:00"] * 3), "string", format="date-time"))
)
case("DD6", "good-legacy", legacy([{"name": "a", "type": "date"}], DAYS, 1, 1, mark="NA"))
case("DD6", "unknown", versioned(held(texts(b"a", b"b", b"c"), "string", format="time")), ("DD6", "error", AT))
case("DD6", "another", versioned(held(DAYS, "string", mark="NA"), [DATE]), ("DD6", "error", AT))
case("DD6", "no-date", versioned(held(DAYS, "string", format="date")), ("DD6", "error", AT, "deep"))
BLANK = texts(*[b"2023-12-31 23:59:00Z"] * 3)
case("DD6", "no-t", versioned(held(BLANK, "string", format="date-time")), ("DD6", "error", AT, "deep"))
NO_DAY = texts(*[b"2023-02-30"] * 3)
case("DD6", "no-such-day", versioned(held(NO_DAY, "string", format="date")), ("DD6", "warning", AT, "deep"))
case("DD7", "good", versioned(held(np.array(["", "", ""], TEXT), "string")))


def _absent(group: Any) -> None:
    del group["data/0"]
    made = group["data"].create_dataset("0", (3,), TEXT)
    made.attrs["type"] = "string"


case("DD7", "absent", versioned(_absent), ("DD7", "error", AT, "deep"))

# -- factors --

CODES = np.array([0, 1, 0], "<i4")
case("DF1", "good", versioned(lambda group: factor(group, CODES)))
case("DF1", "a-dataset", versioned(held(CODES, "factor")), ("DF1", "error", AT))
case("DF1", "no-levels", versioned(lambda group: factor(group, CODES, None)), ("DF1", "error", AT))
case("DF2", "good", versioned(lambda group: factor(group, CODES, (b"", b"y"))))
case("DF2", "numbers", versioned(lambda group: factor(group, CODES, (1, 2))), ("DF2", "error", f"{AT}/levels"))
case(
    "DF2",
    "twice",
    versioned(lambda group: factor(group, CODES, (b"y", b"y"))),
    ("DF2", "error", f"{AT}/levels", "deep"),
)


def _marked(group: Any) -> None:
    factor(group, np.array([0, 1, -1], "<i4"))["codes"].attrs[MARK] = np.int32(-1)


case("DF3", "good", versioned(_marked))
case("DF3", "good-legacy", legacy([FACTOR], np.array([0, 1, -(2**31)], "<i4"), 1, levels=("x", "y")))
in_folder("DF3", "good-directory", directory(lambda group: factor(group, CODES.astype("<u4"))))
case("DF3", "unsigned-32", versioned(lambda group: factor(group, CODES.astype("<u4"))), ("DF3", "error", f"{AT}/codes"))
in_folder("DF3", "with-sign", directory(lambda group: factor(group, CODES)), ("DF3", "error", f"{FRAME}/data/0/codes"))
OUTSIDE = np.array([0, 2, 0], "<i4")
case("DF3", "outside", versioned(lambda group: factor(group, OUTSIDE)), ("DF3", "error", f"{AT}/codes", "deep"))
case("DF3", "outside-legacy", legacy([FACTOR], OUTSIDE, levels=("x", "y")), ("DF3", "error", AT, "deep"))
case("DF3", "text-legacy", legacy([FACTOR], texts(b"x", b"y", b"x"), levels=("x", "y")), ("DF3", "error", AT))
ORDERED = {"name": "a", "type": "factor", "ordered": True}
case("DF4", "good", versioned(lambda group: factor(group, CODES, ordered=np.int8(1)), [ORDERED]))
case("DF4", "a-float", versioned(lambda group: factor(group, CODES, ordered=1.0)), ("DF4", "error", AT))
case("DF4", "another", versioned(lambda group: factor(group, CODES), [ORDERED]), ("DF4", "error", AT))
case("DF5", "good", legacy([FACTOR], texts(b"x", b"NA", b"x"), 1, 1, levels=("x", "y"), mark="NA"))
case("DF5", "codes", legacy([FACTOR], CODES, 1, 1, levels=("x", "y")), ("DF5", "error", AT))
case(
    "DF5", "no-level", legacy([FACTOR], texts(b"x", b"z", b"x"), 1, 1, levels=("x", "y")), ("DF5", "error", AT, "deep")
)

# -- strings by pointers --

ROWS = [(0, 3), (3, 0), (1, 1)]
in_folder("DV1", "good", directory(lambda group: pointers(group, ROWS), ONE_ONE))
in_folder("DV1", "version-1.0", directory(lambda group: pointers(group, ROWS)), ("DV1", "warning", f"{FRAME}/data/0"))
in_folder(
    "DV1", "heap", directory(lambda group: pointers(group, ROWS, np.zeros(3, "i1")), ONE_ONE),
    ("DV1", "error", f"{FRAME}/data/0"),
)  # fmt: skip


def _no_pairs(group: Any) -> None:
    pointers(group, ROWS)
    del group["data/0/pointers"]
    group["data/0/pointers"] = np.zeros(3, "<u8")


in_folder("DV1", "no-pairs", directory(_no_pairs, ONE_ONE), ("DV1", "error", f"{FRAME}/data/0"))
in_folder("DV2", "good", directory(lambda group: pointers(group, [(0, 0)] * 3, b""), ONE_ONE))
in_folder(
    "DV2", "outside", directory(lambda group: pointers(group, [(0, 0), (0, 0), (2, 2)]), ONE_ONE),
    ("DV2", "error", f"{FRAME}/data/0/pointers", "deep"),
)  # fmt: skip

in_folder(
    "DV2", "no-utf8", directory(lambda group: pointers(group, ROWS, b"a\xffc"), ONE_ONE),
    ("DV2", "error", f"{FRAME}/data/0/pointers", "deep"),
)  # fmt: skip

# -- missing rows --

case("DM1", "good", versioned(held(INTEGERS, "integer", mark=np.int32(2))))
case("DM1", "an-array", versioned(held(INTEGERS, "integer", mark=np.array([2], "<i4"))), ("DM1", "error", AT))
case("DM2", "good", versioned(held(np.array([1, np.nan, 3]), "number", mark=np.nan)))
case("DM2", "byte-order", versioned(held(INTEGERS, "integer", mark=np.array(2, ">i4"))), ("DM2", "error", AT))
case("DM2", "legacy", legacy([A], INTEGERS, mark=np.int8(2)), ("DM2", "error", AT))
case("DM3", "good", versioned(held(texts(b"a", b"b", b"c"), "string", mark=np.bytes_("longer"))))
case("DM3", "a-number", versioned(held(texts(b"a", b"b", b"c"), "string", mark=1)), ("DM3", "error", AT))
case("DM4", "good", legacy([A], np.array([1, 2, -(2**31)], "<i4"), 1, 1))
case("DM4", "an-attribute", legacy([A], INTEGERS, 1, 1, mark=np.int32(2)), ("DM4", "warning", AT))

# -- metadata --

case("DJ1", "good", legacy([A]))
case("DJ1", "good-by-document", legacy([A]), file="x.h5.json")
case("DJ1", "a-stranger", legacy([A], edit=keyed("title", "mine")), ("DJ1", "error", "x.h5.json#/title"))
case("DJ1", "no-sum", legacy([A], edit=lambda made: made.pop("md5sum")), ("DJ1", "error", "x.h5.json#"))
case("DJ2", "good", legacy([A], edit=keyed("is_child", False)))
case(
    "DJ2",
    "row-names",
    legacy([A], edit=keyed("data_frame", "row_names", "no")),
    ("DJ2", "error", "x.h5.json#/data_frame/row_names"),
)
case("DJ2", "version", legacy([A], own=4), ("DJ2", "error", "/df"))
case(
    "DJ2",
    "dimensions",
    versioned(claims=[A], edit=keyed("data_frame", "dimensions", [3])),
    ("DJ2", "error", "x.h5.json#/data_frame/dimensions"),
)
DAYS_ONLY = texts(b"2024-02-29", b"2024-02-28", b"0000-01-01")
case("DJ3", "good", legacy([DATE], DAYS_ONLY))
case("DJ3", "format", legacy([DATE], DAYS_ONLY, 1, 1), ("DJ3", "error", f"{COLUMNS}/0/format"))
case("DJ3", "type", legacy([{"name": "a", "type": "date"}], DAYS_ONLY), ("DJ3", "error", f"{COLUMNS}/0/type"))
case("DJ3", "levels", legacy([{**A, "levels": LOCAL}], levels=("x",)), ("DJ3", "error", f"{COLUMNS}/0/levels"))
case("DJ4", "good", versioned(claims=[A]))
case("DJ4", "another", versioned(claims=[{**A, "name": "b"}]), ("DJ4", "error", f"{COLUMNS}/0"))
case("DJ4", "more", versioned(claims=[A, {**A, "name": "b"}]), ("DJ4", "error", COLUMNS))
case("DJ5", "good", legacy([A]))
case(
    "DJ5",
    "rows",
    versioned(claims=[A], edit=keyed("data_frame", "dimensions", [4, 1])),
    ("DJ5", "error", "x.h5.json#/data_frame/dimensions"),
)
case(
    "DJ5",
    "columns",
    legacy([A], edit=keyed("data_frame", "dimensions", [3, 2])),
    ("DJ5", "error", "x.h5.json#/data_frame/dimensions"),
)
case(
    "DJ5",
    "negative",
    versioned(claims=[A], edit=keyed("data_frame", "dimensions", [-3, 1])),
    ("DJ5", "error", "x.h5.json#/data_frame/dimensions"),
)
case("DJ6", "good", legacy([A], own=1, frame=1))
case(
    "DJ6",
    "zero",
    versioned(claims=[A], edit=keyed("hdf5_data_frame", "version", 0)),
    ("DJ6", "error", "x.h5.json#/hdf5_data_frame/version"),
)
case("DJ7", "good", legacy([A], edit=keyed("path", "project/x.h5")))
case("DJ7", "path", legacy([A], edit=keyed("path", "y.h5")), ("DJ7", "error", "x.h5.json#/path"))
case("DJ7", "sum", legacy([A], edit=keyed("md5sum", "0" * 32)), ("DJ7", "error", "x.h5.json#/md5sum", "deep"))
case("DJ8", "good", legacy([FACTOR], CODES, levels=("x", "y")))
case("DJ8", "no-levels", legacy([FACTOR], CODES), ("DJ8", "error", f"{COLUMNS}/0/levels"))
case("DJ8", "not-named", legacy([{"name": "a", "type": "factor"}], CODES), ("DJ8", "error", f"{COLUMNS}/0"))
case("DJ8", "twice", legacy([FACTOR], CODES, levels=("x", "x")), ("DJ8", "error", f"{COLUMNS}/0/levels", "deep"))
case(
    "DJ8", "column-data", legacy([A], edit=keyed("data_frame", "column_data", LOCAL)),
    ("DJ8", "warning", "x.h5.json#/data_frame/column_data"),
)  # fmt: skip

# -- directories --

in_folder("DO1", "good", directory())
in_folder("DO1", "missing", directory(text=None), ("DO1", "error", "OBJECT"))
in_folder("DO1", "no-json", directory(text="{"), ("DO1", "error", "OBJECT"))
in_folder("DO1", "another", directory(text={**OBJECT, "type": "list"}), ("DO1", "error", "OBJECT#/type"))
in_folder("DO2", "good", directory(text=ONE_ONE))
in_folder("DO2", "no-minor", directory(text=said("1")), ("DO2", "error", "OBJECT#/data_frame/version"))
in_folder("DO2", "patch", directory(text=said("1.0.0")), ("DO2", "error", "OBJECT#/data_frame/version"))
in_folder("DO2", "missing", directory(text={"type": "data_frame"}), ("DO2", "error", "OBJECT#/data_frame/version"))
in_folder("DO2", "major-2", directory(text=said("2.0")), ("DO2", "error", FRAME))


def outside(name: str, kind: str = "atomic_vector") -> Change:
    """Another object in the directory."""

    def after(place: Path) -> None:
        (place / name).mkdir(parents=True)
        (place / name / "OBJECT").write_text(json.dumps({"type": kind, kind: {"version": "1.0"}}))

    return after


in_folder("DO3", "good", directory(put("data/0", None), after=outside("other_columns/0")))
in_folder("DO3", "missing", directory(put("data/0", None)), ("DO3", "error", "other_columns/0"))
in_folder("DO3", "a-stranger", directory(after=outside("other_columns/0")), ("DO3", "error", "other_columns/0"))
in_folder("DO4", "good", directory(after=outside("column_annotations", "data_frame")))
in_folder("DO4", "another", directory(after=outside("column_annotations")), ("DO4", "error", "column_annotations"))
in_folder("DO4", "no-list", directory(after=outside("other_annotations")), ("DO4", "error", "other_annotations"))

# -- search indexes, which are colonnade's own --

INDEX = "/df/_search_indexes/a__sorted_rows"


def indexed(name: str = "a", rows: Any = (0, 1, 2), change: Change = nothing) -> Change:
    """A frame with an index of its column: row numbers by value."""

    def make(group: Any) -> None:
        made = group.create_dataset("_search_indexes/a__sorted_rows", data=np.array(rows, "<u4"))
        made.attrs["KIND"], made.attrs["column"] = np.bytes_(b"SORTED_ROWS"), name
        made.attrs["nan_tail_length"], made.attrs["fill_tail_length"] = np.uint64(0), np.uint64(0)
        made.attrs["ordered"] = np.bool_(True)
        made.attrs.create("_columns_list", np.array([group["data/0"].ref], dtype=h5py.ref_dtype))
        change(group)

    return make


case("DI1", "good", versioned(indexed()))
case("DI1", "length", versioned(indexed(rows=(0, 1))), ("DI1", "error", INDEX))
case("DI1", "no-column", versioned(indexed("b")), ("DI1", "error", INDEX))


def _another_column(group: Any) -> None:
    """Somebody wrote the column anew."""
    group.move("data/0", "old")
    column(group, 0, INTEGERS, "integer")


def _other_values(group: Any) -> None:
    group["data/0"][:] = [5, 4, 3]


case("DI1", "contents", versioned(indexed(change=_other_values)), ("S8", "error", INDEX, "deep"))
case(
    "DI1", "other-rows", versioned(indexed(change=_another_column)),
    ("DI1", "error", INDEX),
)  # fmt: skip


# -- files and manifest --


def manifest() -> dict[str, Any]:
    """What must be found in each case."""
    return {
        "standard": "ArtifactDB data frames in HDF5: hdf5_data_frame/v1, and takane's data_frame 1.0 and 1.1",
        "files": [
            {
                "file": f"files/{one.name}/{one.file}".rstrip("/"),
                "rule": one.rule,
                "expected": [
                    {"rule": found[0], "severity": found[1], "path": found[2], "deep": found[3:] == ("deep",)}
                    for found in one.findings
                ],
            }
            for one in CASES
        ],
    }


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else HERE
    shutil.rmtree(folder / "files", ignore_errors=True)
    for one in CASES:
        place = folder / "files" / one.name
        place.mkdir(parents=True)
        one.make(place)
    (folder / "manifest.json").write_text(json.dumps(manifest(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
