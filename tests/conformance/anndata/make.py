"""Makes the files of the kit for AnnData's elements and their manifest, with plain h5py and nothing of colonnade.

    python tests/conformance/anndata/make.py [folder]     (the folder of this script, when none is named)

A case is one function that fills a new file. What a checker must find in it stands beside it, written by hand: (rule,
severity, path), with "deep" behind it where only the values show it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

HERE = Path(__file__).resolve().parent
Fill = Callable[[Any], object]
Expected = tuple[str, ...]
TEXT = h5py.string_dtype()


@dataclass(frozen=True)
class Case:
    """One file: its name, the rule it is about, what fills it, what is to be found."""

    name: str
    rule: str
    make: Fill
    findings: tuple[Expected, ...] = ()
    fixable: bool = False


CASES: list[Case] = []


def good(rule: str, name: str = "good") -> Callable[[Fill], Fill]:
    def kept(make: Fill) -> Fill:
        CASES.append(Case(f"{rule}-{name}", rule, make))
        return make

    return kept


def bad(rule: str, name: str, *findings: Expected, fixed: bool = False) -> Callable[[Fill], Fill]:
    """fixed: all of it can be mended without touching data."""

    def kept(make: Fill) -> Fill:
        CASES.append(Case(f"{rule}-{name}", rule, make, findings, fixed))
        return make

    return kept


# -- elements --


def marked(node: Any, kind: str, version: str) -> Any:
    node.attrs["encoding-type"], node.attrs["encoding-version"] = kind, version
    return node


def array(group: Any, name: str, data: Any, kind: str = "array", version: str = "0.2.0") -> Any:
    return marked(group.create_dataset(name, data=data), kind, version)


def texts(group: Any, name: str, data: Sequence[str]) -> Any:
    return array(group, name, np.array(data, dtype=TEXT), "string-array")


def scalar(group: Any, name: str, value: Any, kind: str) -> Any:
    return array(group, name, value, kind)


def mapping(group: Any, name: str) -> Any:
    return marked(group.create_group(name), "dict", "0.1.0")


def frame(group: Any, name: str = "obs", columns: Sequence[str] = ("x",), n: int = 3, version: str = "0.2.0") -> Any:
    """A frame with labels and columns of integers."""
    made = marked(group.create_group(name), "dataframe", version)
    made.attrs["_index"] = "_index"
    made.attrs["column-order"] = np.array(list(columns), dtype=TEXT)
    texts(made, "_index", [f"r{row}" for row in range(n)])
    for column in columns:
        array(made, column, np.arange(n, dtype="<i4"))
    return made


def matrix(group: Any, name: str = "m", kind: str = "csr_matrix", shape: tuple[int, int] = (3, 2)) -> Any:
    """[[7, 0], [0, 8], [9, 0]] by rows (or its transpose by columns)."""
    made = marked(group.create_group(name), kind, "0.1.0")
    made.attrs["shape"] = np.array(shape, "<i8")
    made["data"] = np.array([7, 8, 9], "<f4")
    made["indices"] = np.array([0, 1, 0], "<i4")
    made["indptr"] = np.array([0, 1, 2, 3], "<i4")
    return made


def anndata(file: Any) -> Any:
    """An AnnData object of three rows and two columns in the root."""
    marked(file, "anndata", "0.1.0")
    frame(file, "obs", n=3)
    frame(file, "var", n=2)
    array(file, "X", np.zeros((3, 2), "<f4"))
    for name in ("layers", "obsm", "varm", "obsp", "varp", "uns"):
        mapping(file, name)
    return file


def categorical(group: Any, name: str = "kind", codes: Sequence[int] = (0, 1, -1), dtype: str = "<i1") -> Any:
    made = marked(group.create_group(name), "categorical", "0.2.0")
    made.attrs["ordered"] = np.bool_(False)
    array(made, "codes", np.array(codes, dtype))
    texts(made, "categories", ["muon", "pion"])
    return made


def with_column(group: Any, name: str) -> None:
    order = [*group.attrs["column-order"], name]
    group.attrs["column-order"] = np.array(order, dtype=TEXT)


def nullable(group: Any, name: str = "n", kind: str = "nullable-integer", values: Any = (1, 0, 3)) -> Any:
    made = marked(group.create_group(name), kind, "0.1.0")
    data = np.array(values, dtype=TEXT) if isinstance(values[0], str) else np.array(values)
    array(made, "values", data, "string-array" if isinstance(values[0], str) else "array")
    array(made, "mask", np.array([False, True, False]))
    return made


def awkward(group: Any, name: str = "a") -> Any:
    """[[1, 2], [3]]"""
    made = marked(group.create_group(name), "awkward-array", "0.1.0")
    content = {"class": "NumpyArray", "primitive": "int64", "form_key": "node1"}
    form = {"class": "ListOffsetArray", "offsets": "i64", "content": content, "form_key": "node0"}
    made.attrs["form"], made.attrs["length"] = json.dumps(form), np.int64(2)
    array(made, "node0-offsets", np.array([0, 2, 3], "<i8"))
    array(made, "node1-data", np.array([1, 2, 3], "<i8"))
    return made


# -- A1: what an element says that it is --


@good("A1")
def _(file: Any) -> None:
    array(file, "x", [1, 2])
    matrix(file)
    mapping(file, "d")


@good("A1", "good-another-convention")
def _(file: Any) -> None:
    file.create_dataset("picture", data=[1, 2]).attrs["encoding-type"] = "jpeg"


@bad("A1", "version", ("A1", "error", "/x"))
def _(file: Any) -> None:
    array(file, "x", [1, 2], version="0.3.0")


@bad("A1", "type", ("A1", "error", "/x"))
def _(file: Any) -> None:
    array(file, "x", [1, 2], "array-of-things")


@bad("A1", "wrong-object", ("A1", "error", "/m"))
def _(file: Any) -> None:
    array(file, "m", [1, 2], "csr_matrix", "0.1.0")


@bad("A1", "no-version", ("A1", "error", "/x"))
def _(file: Any) -> None:
    del array(file, "x", [1, 2]).attrs["encoding-version"]


@bad("A1", "no-type", ("A1", "error", "/x"))
def _(file: Any) -> None:
    del array(file, "x", [1, 2]).attrs["encoding-type"]


@bad("A1", "no-text", ("A1", "error", "/x"))
def _(file: Any) -> None:
    array(file, "x", [1, 2]).attrs["encoding-version"] = 0.2


@bad("A1", "frame-version", ("A1", "error", "/obs"))
def _(file: Any) -> None:
    frame(file, version="0.3.0")


# -- A2: AnnData objects --


@good("A2")
def _(file: Any) -> None:
    anndata(file)
    matrix(file["layers"], "l")
    array(file["obsm"], "p", np.zeros((3, 7)))
    frame(file["varm"], "f", n=2)
    matrix(file["obsp"], "d", shape=(3, 3))
    raw = marked(file.create_group("raw"), "raw", "0.1.0")
    frame(raw, "var", n=4)
    array(raw, "X", np.zeros((3, 4)))


@good("A2", "good-0.7")
def _(file: Any) -> None:
    frame(file, "obs", n=3, version="0.1.0")
    frame(file, "var", n=2, version="0.1.0")
    file["X"] = np.zeros((3, 2))


@bad("A2", "no-var", ("A2", "error", "/"))
def _(file: Any) -> None:
    anndata(file)
    del file["var"]


@bad("A2", "obs-no-frame", ("A2", "error", "/obs"))
def _(file: Any) -> None:
    anndata(file)
    del file["obs"]
    array(file, "obs", [1, 2, 3])


@bad("A2", "x", ("A2", "error", "/X"))
def _(file: Any) -> None:
    anndata(file)
    del file["X"]
    array(file, "X", np.zeros((2, 3)))


@bad("A2", "x-0.7", ("A2", "error", "/X"))
def _(file: Any) -> None:
    frame(file, "obs", n=3, version="0.1.0")
    frame(file, "var", n=2, version="0.1.0")
    file["X"] = np.zeros((3, 3))


@bad("A2", "layer", ("A2", "error", "/layers/l"))
def _(file: Any) -> None:
    anndata(file)
    matrix(file["layers"], "l", shape=(3, 3))


@bad("A2", "obsm", ("A2", "error", "/obsm/p"))
def _(file: Any) -> None:
    anndata(file)
    array(file["obsm"], "p", np.zeros((2, 3)))


@bad("A2", "obsp", ("A2", "error", "/obsp/d"))
def _(file: Any) -> None:
    anndata(file)
    array(file["obsp"], "d", np.zeros((3, 2)))


@bad("A2", "raw", ("A2", "error", "/raw/X"))
def _(file: Any) -> None:
    anndata(file)
    raw = marked(file.create_group("raw"), "raw", "0.1.0")
    frame(raw, "var", n=4)
    array(raw, "X", np.zeros((3, 5)))


@bad("A2", "raw-without-var", ("A2", "error", "/raw"))
def _(file: Any) -> None:
    anndata(file)
    array(marked(file.create_group("raw"), "raw", "0.1.0"), "X", np.zeros((3, 5)))


@bad("A2", "stranger", ("A2", "warning", "/spatial"))
def _(file: Any) -> None:
    mapping(anndata(file), "spatial")


# -- A3: arrays --


@good("A3")
def _(file: Any) -> None:
    array(file, "x", np.arange(6).reshape(2, 3))
    array(file, "r", np.array([(1, 2.0)], "i4,f8"), "rec-array")


@bad("A3", "nothing", ("A3", "error", "/x"))
def _(file: Any) -> None:
    array(file, "x", h5py.Empty("f"))


@bad("A3", "no-records", ("A3", "error", "/r"))
def _(file: Any) -> None:
    array(file, "r", [1, 2], "rec-array")


# -- A4: sparse matrices --


@good("A4")
def _(file: Any) -> None:
    matrix(file, "csr")
    matrix(file, "csc", "csc_matrix", (2, 3))
    old = file.create_group("old")
    old.attrs["h5sparse_format"], old.attrs["h5sparse_shape"] = b"csr", np.array([1, 1], "<i8")
    old["data"], old["indices"], old["indptr"] = [1.0], [0], [0, 1]


@good("A4", "good-empty")
def _(file: Any) -> None:
    made = matrix(file, shape=(3, 0))
    put(made, "data", np.zeros(0, "<f4"))
    put(made, "indices", np.zeros(0, "<i4"))
    put(made, "indptr", np.zeros(4, "<i4"))


def put(group: Any, name: str, data: Any) -> None:
    del group[name]
    group[name] = data


@bad("A4", "no-shape", ("A4", "error", "/m"))
def _(file: Any) -> None:
    del matrix(file).attrs["shape"]


@bad("A4", "shape-of-three", ("A4", "error", "/m"))
def _(file: Any) -> None:
    matrix(file).attrs["shape"] = [3, 2, 1]


@bad("A4", "no-indices", ("A4", "error", "/m"))
def _(file: Any) -> None:
    del matrix(file)["indices"]


@bad("A4", "rank", ("A4", "error", "/m/data"))
def _(file: Any) -> None:
    put(matrix(file), "data", np.zeros((3, 1)))


@bad("A4", "float-indices", ("A4", "error", "/m/indices"))
def _(file: Any) -> None:
    put(matrix(file), "indices", np.array([0.0, 1.0, 0.0]))


@bad("A4", "fewer-indices", ("A4", "error", "/m/indices"))
def _(file: Any) -> None:
    put(matrix(file), "indices", np.array([0, 1], "<i4"))


@bad("A4", "short-indptr", ("A4", "error", "/m/indptr"))
def _(file: Any) -> None:
    put(matrix(file), "indptr", np.array([0, 2, 3], "<i4"))


@bad("A4", "index-too-large", ("A4", "error", "/m/indices", "deep"))
def _(file: Any) -> None:
    put(matrix(file), "indices", np.array([0, 2, 0], "<i4"))


@bad("A4", "index-below-zero", ("A4", "error", "/m/indices", "deep"))
def _(file: Any) -> None:
    put(matrix(file, kind="csc_matrix", shape=(2, 3)), "indices", np.array([0, -1, 0], "<i4"))


@bad("A4", "decreasing", ("A4", "error", "/m/indptr", "deep"))
def _(file: Any) -> None:
    put(matrix(file), "indptr", np.array([0, 2, 1, 3], "<i4"))


@bad("A4", "first", ("A4", "error", "/m/indptr", "deep"))
def _(file: Any) -> None:
    put(matrix(file), "indptr", np.array([1, 1, 2, 3], "<i4"))


@bad("A4", "last", ("A4", "error", "/m/indptr", "deep"))
def _(file: Any) -> None:
    put(matrix(file), "indptr", np.array([0, 1, 2, 9], "<i4"))


@bad("A4", "old", ("A4", "error", "/old"))
def _(file: Any) -> None:
    old = file.create_group("old")
    old.attrs["h5sparse_format"], old.attrs["h5sparse_shape"] = b"coo", np.array([1, 1], "<i8")
    old["data"], old["indices"], old["indptr"] = [1.0], [0], [0, 1]


# -- A5: attributes of frames --


@good("A5")
def _(file: Any) -> None:
    frame(file)
    empty = frame(file, "none", ())
    empty.attrs["column-order"] = np.zeros(0)


@bad("A5", "no-index", ("A5", "error", "/obs"))
def _(file: Any) -> None:
    del frame(file).attrs["_index"]


@bad("A5", "index-nowhere", ("A5", "error", "/obs"))
def _(file: Any) -> None:
    frame(file).attrs["_index"] = "names"


@bad("A5", "index-array", ("A5", "error", "/obs"))
def _(file: Any) -> None:
    frame(file).attrs["_index"] = np.array(["_index"], dtype=TEXT)


@bad("A5", "no-order", ("A5", "error", "/obs"))
def _(file: Any) -> None:
    del frame(file).attrs["column-order"]


@bad("A5", "order-numbers", ("A5", "error", "/obs"))
def _(file: Any) -> None:
    frame(file).attrs["column-order"] = [1, 2]


# -- A6: names of columns --


@good("A6")
def _(file: Any) -> None:
    frame(file, columns=("x", "name with blanks", "grün"))


@bad("A6", "outside", ("A6", "error", "/obs"))
def _(file: Any) -> None:
    array(file, "secret", [1, 2, 3])
    with_column(frame(file), "/secret")


@bad("A6", "empty", ("A6", "error", "/obs"))
def _(file: Any) -> None:
    with_column(frame(file), "")


@bad("A6", "dot", ("A6", "error", "/obs"))
def _(file: Any) -> None:
    with_column(frame(file), ".")


@bad("A6", "twice", ("A6", "error", "/obs"))
def _(file: Any) -> None:
    with_column(frame(file), "x")


@bad("A6", "path", ("A6", "warning", "/obs/a/b"))
def _(file: Any) -> None:
    made = frame(file)
    array(mapping(made, "a"), "b", [1, 2, 3])
    with_column(made, "a/b")


# -- A7: columns --


@good("A7")
def _(file: Any) -> None:
    made = frame(file)
    categorical(made)
    nullable(made)
    with_column(made, "kind")
    with_column(made, "n")


@bad("A7", "length", ("A7", "error", "/obs/y"))
def _(file: Any) -> None:
    made = frame(file)
    array(made, "y", [1, 2])
    with_column(made, "y")


@bad("A7", "rank", ("A7", "error", "/obs/y"))
def _(file: Any) -> None:
    made = frame(file)
    array(made, "y", np.zeros((3, 2)))
    with_column(made, "y")


@bad("A7", "not-there", ("A7", "error", "/obs/y"))
def _(file: Any) -> None:
    with_column(frame(file), "y")


@bad("A7", "no-column", ("A7", "error", "/obs/y"))
def _(file: Any) -> None:
    made = frame(file)
    mapping(made, "y")
    with_column(made, "y")


# -- A8: categoricals --


@good("A8")
def _(file: Any) -> None:
    categorical(file)
    categorical(file, "unsigned", (0, 1, 1), "<u1")


@good("A8", "good-old")
def _(file: Any) -> None:
    old_frame(file)


def old_frame(file: Any, codes: Sequence[int] = (0, 1, -1)) -> Any:
    """A frame of 0.7 with a categorical column."""
    made = frame(file, version="0.1.0")
    made["kind"] = np.array(codes, "<i1")
    labels = made.create_group("__categories").create_dataset("kind", data=np.array(["muon", "pion"], dtype=TEXT))
    labels.attrs["ordered"] = np.bool_(False)
    made["kind"].attrs["categories"] = labels.ref
    with_column(made, "kind")
    return made


@bad("A8", "no-codes", ("A8", "error", "/kind"))
def _(file: Any) -> None:
    del categorical(file)["codes"]


@bad("A8", "float-codes", ("A8", "error", "/kind"))
def _(file: Any) -> None:
    made = categorical(file)
    del made["codes"]
    array(made, "codes", [0.0, 1.0])


@bad("A8", "no-categories", ("A8", "error", "/kind"))
def _(file: Any) -> None:
    del categorical(file)["categories"]


@bad("A8", "no-ordered", ("A8", "error", "/kind"))
def _(file: Any) -> None:
    del categorical(file).attrs["ordered"]


@bad("A8", "code-too-large", ("A8", "error", "/kind/codes", "deep"))
def _(file: Any) -> None:
    categorical(file, codes=(0, 2, 1))


@bad("A8", "code-too-small", ("A8", "error", "/kind/codes", "deep"))
def _(file: Any) -> None:
    categorical(file, codes=(0, -2, 1))


@bad("A8", "unsigned-missing", ("A8", "error", "/kind/codes", "deep"))
def _(file: Any) -> None:
    categorical(file, codes=(0, 255, 1), dtype="<u1")


@bad("A8", "in-frame", ("A8", "error", "/obs/kind", "deep"))
def _(file: Any) -> None:
    made = frame(file)
    categorical(made, codes=(0, 2, 1))
    with_column(made, "kind")


@bad("A8", "twice", ("A8", "error", "/kind/categories", "deep"))
def _(file: Any) -> None:
    made = categorical(file)
    del made["categories"]
    texts(made, "categories", ["muon", "muon"])


@bad("A8", "twice-in-frame", ("A8", "error", "/obs/kind/categories", "deep"))
def _(file: Any) -> None:
    made = frame(file)
    inner = categorical(made)
    del inner["categories"]
    texts(inner, "categories", ["muon", "muon"])
    with_column(made, "kind")


@bad("A8", "old-code", ("A8", "error", "/obs/kind", "deep"))
def _(file: Any) -> None:
    old_frame(file, (0, 5, 1))


@bad("A8", "old-nowhere", ("A7", "error", "/obs/kind"), ("A8", "error", "/obs/kind"))
def _(file: Any) -> None:
    old_frame(file)["kind"].attrs.create("categories", h5py.Reference(), dtype=h5py.ref_dtype)


# -- A9: texts --


@good("A9")
def _(file: Any) -> None:
    texts(file, "s", ["a", "", "grün"])
    scalar(file, "one", "text", "string")


@bad("A9", "fixed", ("A9", "warning", "/s"))
def _(file: Any) -> None:
    array(file, "s", np.array([b"a", b"b"]), "string-array")


@bad("A9", "ascii", ("A9", "warning", "/s"))
def _(file: Any) -> None:
    array(file, "s", np.array(["a"], dtype=h5py.string_dtype("ascii")), "string-array")


@bad("A9", "numbers", ("A9", "error", "/s"))
def _(file: Any) -> None:
    array(file, "s", [1, 2], "string-array")


@bad("A9", "scalar-number", ("A9", "error", "/s"))
def _(file: Any) -> None:
    scalar(file, "s", 1, "string")


@bad("A9", "not-utf8", ("H1", "error", "/s", "deep"))
def _(file: Any) -> None:
    array(file, "s", np.array([b"\xff\xfe"], dtype=TEXT), "string-array")


# -- A10: nullable arrays --


@good("A10")
def _(file: Any) -> None:
    nullable(file, "i")
    nullable(file, "b", "nullable-boolean", [True, False, True])
    nullable(file, "s", "nullable-string-array", ["a", "", "b"])
    nullable(file, "nan", "nullable-string-array", ["a", "", "b"]).attrs["na-value"] = "NaN"


@bad("A10", "no-mask", ("A10", "error", "/n"))
def _(file: Any) -> None:
    del nullable(file)["mask"]


@bad("A10", "mask-of-bytes", ("A10", "error", "/n"))
def _(file: Any) -> None:
    made = nullable(file)
    del made["mask"]
    array(made, "mask", np.zeros(3, "u1"))


@bad("A10", "short-mask", ("A10", "error", "/n"))
def _(file: Any) -> None:
    made = nullable(file)
    del made["mask"]
    array(made, "mask", np.zeros(2, bool))


@bad("A10", "floats", ("A10", "error", "/n"))
def _(file: Any) -> None:
    nullable(file, values=(1.0, 2.0, 3.0))


@bad("A10", "bytes-as-booleans", ("A10", "error", "/n"))
def _(file: Any) -> None:
    nullable(file, kind="nullable-boolean", values=(1, 0, 1))


@bad("A10", "na-value", ("A10", "error", "/n"))
def _(file: Any) -> None:
    nullable(file, kind="nullable-string-array", values=("a", "", "b")).attrs["na-value"] = "None"


# -- A11: scalars --


@good("A11")
def _(file: Any) -> None:
    scalar(file, "n", 1.5, "numeric-scalar")
    scalar(file, "c", np.complex128(1j), "numeric-scalar")
    scalar(file, "s", "", "string")
    array(file, "nothing", h5py.Empty("f"), "null", "0.1.0")


@bad("A11", "array", ("A11", "error", "/n"))
def _(file: Any) -> None:
    scalar(file, "n", [1, 2], "numeric-scalar")


@bad("A11", "text", ("A11", "error", "/n"))
def _(file: Any) -> None:
    scalar(file, "n", "one", "numeric-scalar")


@bad("A11", "texts", ("A11", "error", "/s"))
def _(file: Any) -> None:
    scalar(file, "s", np.array(["a"], dtype=TEXT), "string")


@bad("A11", "null", ("A11", "error", "/nothing"))
def _(file: Any) -> None:
    array(file, "nothing", 0.0, "null", "0.1.0")


# -- A12: awkward arrays --


@good("A12")
def _(file: Any) -> None:
    awkward(file)


@bad("A12", "no-length", ("A12", "error", "/a"))
def _(file: Any) -> None:
    del awkward(file).attrs["length"]


@bad("A12", "no-json", ("A12", "error", "/a"))
def _(file: Any) -> None:
    awkward(file).attrs["form"] = "{"


@bad("A12", "no-buffer", ("A12", "error", "/a"))
def _(file: Any) -> None:
    del awkward(file)["node1-data"]


# -- A13: members say what they are --


@good("A13")
def _(file: Any) -> None:
    array(mapping(mapping(file, "d"), "inner"), "x", [1])


@bad("A13", "dict", ("A13", "warning", "/d/x"))
def _(file: Any) -> None:
    mapping(file, "d")["x"] = [1]


@bad("A13", "group", ("A13", "warning", "/d/g"))
def _(file: Any) -> None:
    mapping(file, "d").create_group("g")


@bad("A13", "column", ("A13", "warning", "/obs/x"))
def _(file: Any) -> None:
    made = frame(file)
    del made["x"].attrs["encoding-type"], made["x"].attrs["encoding-version"]


# -- A14: a HEP001 table that says that it is a frame --


def hep001(file: Any, name: str = "t") -> Any:
    """A table of HEP001 with a categorical, that says that it is a frame too."""
    made = file.create_group(name)
    made.attrs["CLASS"], made.attrs["VERSION"] = np.bytes_("COLUMN_TABLE"), np.bytes_("1.0")
    for key, value in (("encoding-type", "dataframe"), ("encoding-version", "0.1.0")):
        made.attrs.create(key, value, dtype=h5py.string_dtype(length=len(value)))
    made.attrs.create("column-order", np.array([b"kind"]), dtype=h5py.string_dtype(length=4))
    codes = made.create_dataset("kind", data=np.array([0, 1, -1], "<i1"))
    labels = made.create_dataset("kind_categories", data=np.array(["muon", "pion"], dtype=TEXT))
    labels.attrs["encoding-type"], labels.attrs["ordered"] = "categorical", np.bool_(False)
    codes.attrs.create("_categories", labels.ref, dtype=h5py.ref_dtype)
    return made


@good("A14")
def _(file: Any) -> None:
    made = hep001(file)
    del made.attrs["encoding-type"], made.attrs["encoding-version"]


@bad("A14", "codes", ("A14", "warning", "/t/kind"))
def _(file: Any) -> None:
    hep001(file)


# -- search indexes of frames, which anndata passes over --


def indexed(file: Any, kind: bytes = b"SORTED_ROWS", column: str = "x", rows: Sequence[int] = (0, 1, 2)) -> Any:
    """A frame with an index of its column x."""
    made = frame(file)
    index = made.create_group("_search_indexes").create_dataset("x__sorted_rows", data=np.array(rows, "<u4"))
    index.attrs["KIND"], index.attrs["column"] = np.bytes_(kind), column
    index.attrs["nan_tail_length"], index.attrs["fill_tail_length"] = np.uint64(0), np.uint64(0)
    index.attrs["ordered"] = np.bool_(True)
    index.attrs.create("_columns_list", np.array([made["x"].ref], dtype=h5py.ref_dtype))
    return made


INDEX = "/obs/_search_indexes/x__sorted_rows"


@good("A15")
def _(file: Any) -> None:
    indexed(file)


@bad("A15", "length", ("A15", "error", INDEX), fixed=True)
def _(file: Any) -> None:
    indexed(file, rows=(0, 1))


@bad("A15", "no-column", ("A15", "error", INDEX), fixed=True)
def _(file: Any) -> None:
    indexed(file, column="y")


@bad("A15", "other-rows", ("A15", "error", INDEX), fixed=True)
def _(file: Any) -> None:
    """Somebody wrote the column anew."""
    made = indexed(file)
    file.move("obs/x", "old")
    array(made, "x", np.array([5, 4, 3], "<i4"))


@bad("A15", "contents", ("S8", "error", INDEX, "deep"), fixed=True)
def _(file: Any) -> None:
    indexed(file)["x"][:] = [5, 4, 3]


@bad("A15", "kind", ("A15", "note", INDEX))
def _(file: Any) -> None:
    indexed(file, kind=b"MINE")


@bad("A15", "no-kind", ("A15", "error", INDEX))
def _(file: Any) -> None:
    del indexed(file)["_search_indexes/x__sorted_rows"].attrs["KIND"]


# -- a frame around a HEP001 table, whose columns it shows --


def faced(file: Any) -> Any:
    """A frame that shows n (of integers, with a missing row), kind (a categorical) and the labels of a table."""
    made = marked(file.create_group("obs"), "dataframe", "0.2.0")
    made.attrs["_index"], made.attrs["column-order"] = "id", np.array(["n", "kind"], dtype=TEXT)
    inner = hep001(made, "_hep001")
    del inner.attrs["encoding-type"], inner.attrs["encoding-version"], inner.attrs["column-order"]
    inner.attrs.create("column-order", np.array([b"n", b"kind"]), dtype=h5py.string_dtype(length=4))
    inner.attrs.create("_index", "id", dtype=h5py.string_dtype(length=2))
    rows = inner.create_dataset("n", data=np.array([1, -9, 3], "<i4"), fillvalue=-9)
    rows.attrs.create("description", "missing is -9", dtype=h5py.string_dtype(length=13))
    labels = inner.create_dataset("id", data=np.array(["a", "b", "c"], dtype=TEXT))
    for column, kind in ((rows, "array"), (inner["kind"], "array"), (labels, "string-array")):
        marked(column, kind, "0.2.0")
    labels.attrs.create("_columns_list", np.array([rows.ref, inner["kind"].ref], dtype=h5py.ref_dtype))
    for column in (rows, inner["kind"]):
        column.attrs.create("_indexes", np.array([labels.ref], dtype=h5py.ref_dtype))
    made["id"] = labels
    numbers = marked(made.create_group("n"), "nullable-integer", "0.1.0")
    numbers["values"] = rows
    array(numbers, "mask", np.array([False, True, False]))
    coded = marked(made.create_group("kind"), "categorical", "0.2.0")
    coded["codes"] = inner["kind"]
    coded.attrs["ordered"] = np.bool_(False)
    texts(coded, "categories", ["muon", "pion"])
    return made


@good("A16")
def _(file: Any) -> None:
    faced(file)


@bad("A16", "fill-written", ("A16", "error", "/obs/n", "deep"), fixed=True)
def _(file: Any) -> None:
    """Another row of the table is missing now, and the mask does not know."""
    faced(file)["_hep001/n"][0] = -9


@bad("A16", "mask-written", ("A16", "error", "/obs/n", "deep"), fixed=True)
def _(file: Any) -> None:
    faced(file)["n/mask"][2] = True


@bad("A16", "no-mask", ("A16", "error", "/obs/n", "deep"), fixed=True)
def _(file: Any) -> None:
    made = faced(file)
    del made["n"]
    made["n"] = made["_hep001/n"]


@bad("A16", "categories", ("A16", "error", "/obs/kind", "deep"), fixed=True)
def _(file: Any) -> None:
    faced(file)["kind/categories"][0] = "kaon"


@bad("A16", "ordered", ("A16", "error", "/obs/kind", "deep"), fixed=True)
def _(file: Any) -> None:
    faced(file)["kind"].attrs["ordered"] = np.bool_(True)


@bad("A16", "order", ("A16", "error", "/obs", "deep"), fixed=True)
def _(file: Any) -> None:
    faced(file).attrs["column-order"] = np.array(["kind", "n"], dtype=TEXT)


@bad("A16", "not-shown", ("A16", "error", "/obs/n", "deep"), ("A16", "error", "/obs", "deep"), fixed=True)
def _(file: Any) -> None:
    made = faced(file)
    del made["n"]
    made.attrs["column-order"] = np.array(["kind"], dtype=TEXT)


@bad("A16", "own-rows", ("A16", "error", "/obs/n", "deep"))
def _(file: Any) -> None:
    """Somebody wrote the column of the frame anew: that would be lost."""
    made = faced(file)
    del made["n"]
    array(made, "n", np.array([7, 8, 9], "<i4"))


@bad("A16", "own-column", ("A16", "error", "/obs/more", "deep"))
def _(file: Any) -> None:
    made = faced(file)
    array(made, "more", np.array([7, 8, 9], "<i4"))
    with_column(made, "more")


# -- files and manifest --


def make_file(case: Case, folder: Path) -> None:
    with h5py.File(folder / "files" / f"{case.name}.h5", "w") as file:
        case.make(file)


def manifest() -> dict[str, Any]:
    """What must be found in each file."""
    return {
        "standard": "AnnData on-disk elements, HDF5 (anndata 0.7 to 0.12)",
        "files": [
            {
                "file": f"files/{case.name}.h5",
                "rule": case.rule,
                "expected": [
                    {"rule": one[0], "severity": one[1], "path": one[2], "deep": one[3:] == ("deep",)}
                    for one in case.findings
                ],
                "fixable": case.fixable,
            }
            for case in CASES
        ],
    }


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else HERE
    (folder / "files").mkdir(parents=True, exist_ok=True)
    for case in CASES:
        make_file(case, folder)
    (folder / "manifest.json").write_text(json.dumps(manifest(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
