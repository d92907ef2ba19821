"""Makes the files of the conformance kit and their manifest, with plain h5py and nothing of colonnade.

    python tests/conformance/make.py [folder]     (the folder of this script, when none is named)

A case is one function that fills a new file (and may give the address of a header to be spoilt afterwards). What a
checker must find in it stands beside it, written by hand: (rule, severity, path), with "deep" behind it where only the
values show it. `fixed` says that the file can be mended without touching data.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5p, h5s, h5t

HERE = Path(__file__).resolve().parent
Expected = tuple[str, ...]


# -- attributes of an exact type --


def write_attribute(node: Any, name: str, kind: Any, shape: tuple[int, ...], value: Any) -> None:
    if h5a.exists(node.id, name.encode()):
        h5a.delete(node.id, name.encode())
    space = h5s.create(h5s.SCALAR) if shape == () else h5s.create_simple(shape)
    h5a.create(node.id, name.encode(), kind, space).write(np.asarray(value).reshape(shape), mtype=kind)


def string_type(size: int, charset: int = h5t.CSET_UTF8, pad: int = h5t.STR_NULLPAD) -> Any:
    kind = h5t.C_S1.copy()
    kind.set_size(size)
    kind.set_cset(charset)
    kind.set_strpad(pad)
    return kind


def text(node: Any, name: str, value: str | bytes, charset: int = h5t.CSET_UTF8, size: int | None = None) -> None:
    """A scalar text of fixed length, exactly as long as its bytes unless a size is given."""
    data = value.encode() if isinstance(value, str) else value
    size = size if size is not None else max(len(data), 1)
    write_attribute(node, name, string_type(size, charset), (), np.array(data, f"S{size}"))


def ascii_text(node: Any, name: str, value: str, size: int | None = None) -> None:
    text(node, name, value, h5t.CSET_ASCII, size)


def variable_text(node: Any, name: str, value: str) -> None:
    node.attrs.create(name, value, dtype=h5py.string_dtype())


def texts(node: Any, name: str, values: Sequence[str | bytes]) -> None:
    data = [value.encode() if isinstance(value, str) else value for value in values]
    size = max(len(item) for item in data)
    write_attribute(node, name, string_type(size), (len(data),), np.array(data, f"S{size}"))


def references(node: Any, name: str, targets: Sequence[Any]) -> None:
    node.attrs.create(name, np.array([target.ref for target in targets], h5py.ref_dtype), dtype=h5py.ref_dtype)


def nowhere(node: Any, name: str, n: int = 1) -> None:
    """References that lead nowhere."""
    node.attrs.create(name, np.array([h5py.Reference()] * n, h5py.ref_dtype), dtype=h5py.ref_dtype)


def reference(node: Any, name: str, target: Any) -> None:
    node.attrs.create(name, target.ref, dtype=h5py.ref_dtype)


def flag(node: Any, name: str, value: bool) -> None:
    node.attrs.create(name, np.bool_(value))


def number(node: Any, name: str, value: Any, dtype: str = "<u8") -> None:
    node.attrs.create(name, np.array(value, dtype))


# -- tables --


def table(parent: Any, name: str = "t", /, **columns: Any) -> Any:
    """A table with these columns (a column x of three integers when none is named), and column-order."""
    group = parent if name == "/" else parent.create_group(name)
    ascii_text(group, "CLASS", "COLUMN_TABLE")
    ascii_text(group, "VERSION", "1.0")
    columns = columns or {"x": np.array([3, 1, 2], "<i4")}
    for column, values in columns.items():
        group.create_dataset(column, data=values)
    texts(group, "column-order", list(columns))
    return group


def label(group: Any, name: str = "id", values: Any = (b"a", b"b", b"c"), columns: Sequence[str] = ("x",)) -> Any:
    """A label of these columns, references both ways, named by _index."""
    made = group.create_dataset(name, data=np.array(values))
    references(made, "_columns_list", [group[column] for column in columns])
    for column in columns:
        references(group[column], "_indexes", [made])
    text(group, "_index", name)
    return made


def categorical(group: Any, name: str = "kind", codes: Any = (0, 1, -1), dtype: str = "<i1") -> Any:
    """A categorical column, its categories beside it."""
    column = group.create_dataset(name, data=np.array(codes, dtype))
    held = group.create_dataset(f"{name}_categories", data=["muon", "pion"], dtype=h5py.string_dtype())
    text(held, "encoding-type", "categorical")
    flag(held, "ordered", False)
    reference(column, "_categories", held)
    order = [item.decode() for item in group.attrs["column-order"]]
    texts(group, "column-order", [*order, name])
    return column


VALUES = np.array([5, 1, 3, 3, 9], "<i4")
"""What the indexed column holds: three chunks of two rows."""


def indexed(file: Any) -> Any:
    """A table whose column v has three chunks and is to be indexed."""
    group = file.create_group("t")
    ascii_text(group, "CLASS", "COLUMN_TABLE")
    ascii_text(group, "VERSION", "1.0")
    group.create_dataset("v", data=VALUES, chunks=(2,))
    texts(group, "column-order", ["v"])
    group.create_group("_search_indexes")
    return group


def attach(group: Any, index: Any, kind: str) -> Any:
    """KIND, and references both ways."""
    ascii_text(index, "KIND", kind)
    references(index, "_columns_list", [group["v"]])
    known = [group.file[one] for one in group["v"].attrs.get("_search_indexes", ())]
    references(group["v"], "_search_indexes", [*known, index])
    return index


ENTRY = np.dtype([("min", "<i4"), ("max", "<i4"), ("nan_count", "<u8"), ("fill_count", "<u8"), ("n", "<u8")])


def minmax(group: Any, entries: Sequence[tuple[int, ...]] = ((1, 5, 0, 0, 2), (3, 3, 0, 0, 2), (9, 9, 0, 0, 1))) -> Any:
    index = group["_search_indexes"].create_dataset("v__chunk_minmax", data=np.array(list(entries), ENTRY))
    number(index, "chunk_shape", [2])
    return attach(group, index, "CHUNK_MINMAX")


def sorted_rows(group: Any, rows: Sequence[int] = (1, 2, 3, 0, 4), dtype: str = "<u4") -> Any:
    index = group["_search_indexes"].create_dataset("v__sorted_rows", data=np.array(rows, dtype))
    number(index, "nan_tail_length", 0)
    number(index, "fill_tail_length", 0)
    flag(index, "ordered", True)
    return attach(group, index, "SORTED_ROWS")


def bitmap(group: Any, values: Sequence[int] = (1, 3, 5, 9), dtype: str = "<i4") -> Any:
    bits = [[sum(1 << row for row, held in enumerate(VALUES.tolist()) if held == value)] for value in values]
    index = group["_search_indexes"].create_dataset("v__bitmap", data=np.array(bits, "u1"))
    held = group["_search_indexes"].create_dataset("v__bitmap__values", data=np.array(values, dtype))
    reference(index, "_values", held)
    flag(index, "ordered", True)
    return attach(group, index, "BITMAP")


K, M_BYTES = 3, 8


def bloom(group: Any) -> Any:
    filters = np.zeros((3, M_BYTES), "u1")
    for row, value in enumerate(VALUES.tolist()):
        data = struct.pack("<i", value)
        first, second = murmur3_128(data, 0)[0], murmur3_128(data, 0x9E3779B9)[1]
        for i in range(K):
            bit = (first + i * second) % 2**64 % (8 * M_BYTES)
            filters[row // 2, bit // 8] |= 1 << bit % 8
    index = group["_search_indexes"].create_dataset("v__chunk_bloom", data=filters)
    number(index, "k", K, "<u2")
    number(index, "m_bits", 8 * M_BYTES)
    ascii_text(index, "hash_family", "murmur3_128_double")
    number(index, "chunk_shape", [2])
    return attach(group, index, "CHUNK_BLOOM")


def murmur3_128(data: bytes, seed: int) -> tuple[int, int]:
    """MurmurHash3_x64_128 of up to 8 bytes: its low and its high half."""
    whole = 2**64 - 1
    low = high = seed
    word = int.from_bytes(data, "little") * 0x87C37B91114253D5 & whole
    word = (word << 31 | word >> 33) & whole
    low ^= word * 0x4CF5AD432745937F & whole
    low, high = low ^ len(data), high ^ len(data)
    low = low + high & whole
    high = high + low & whole
    low, high = mixed(low), mixed(high)
    low = low + high & whole
    return low, high + low & whole


def mixed(word: int) -> int:
    whole = 2**64 - 1
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & whole
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & whole
    return word ^ word >> 33


# -- the cases --


@dataclass(frozen=True)
class Case:
    """One file: the rule it is for, how it is made, what must be found in it, and whether that can be mended."""

    name: str
    rule: str
    make: Callable[[Any], object]
    findings: tuple[Expected, ...] = ()
    fixed: bool = False


CASES: list[Case] = []


def good(rule: str, name: str = "good") -> Callable[[Callable[[Any], object]], Callable[[Any], object]]:
    """The function below makes a file in which nothing is to be found."""

    def listed(make: Callable[[Any], object]) -> Callable[[Any], object]:
        CASES.append(Case(f"{rule}-{name}", rule, make))
        return make

    return listed


def bad(rule: str, name: str, *findings: Expected, fixed: bool = False) -> Callable[[Callable[[Any], object]], Any]:
    """The function below makes a file in which exactly this is to be found."""

    def listed(make: Callable[[Any], object]) -> Callable[[Any], object]:
        CASES.append(Case(f"{rule}-{name}", rule, make, findings, fixed))
        return make

    return listed


# H1: HDF5 can read what is there


@good("H1")
def _(file: Any) -> None:
    group = table(file)
    group.create_dataset("sum", data=np.arange(3, dtype="<i8"), chunks=(3,), fletcher32=True)
    texts(group, "column-order", ["x", "sum"])


@bad("H1", "checksum", ("H1", "error", "/t/sum", "deep"))
def _(file: Any) -> None:
    """A chunk whose bytes do not give its checksum."""
    group = table(file)
    column = group.create_dataset("sum", data=np.arange(3, dtype="<i8"), chunks=(3,), fletcher32=True)
    mask, data = column.id.read_direct_chunk((0,))
    column.id.write_direct_chunk((0,), bytes([data[0] ^ 1]) + data[1:], mask)
    texts(group, "column-order", ["x", "sum"])


@bad("H1", "text", ("H1", "error", "/t/word", "deep"))
def _(file: Any) -> None:
    """A text that is marked as UTF-8 and is not."""
    group = table(file, word=np.array([b"a", b"\xff\xfe", b"c"], h5py.string_dtype("utf-8", 2)))
    assert group["word"].dtype.metadata["h5py_encoding"] == "utf-8"


@bad("H1", "header", ("H1", "error", "/t/lost"))
def _(file: Any) -> int:
    """A dataset whose header is spoilt when the file is done: where it begins."""
    group = table(file)
    group.create_dataset("lost", data=np.arange(3))
    return int(h5py.h5o.get_info(group["lost"].id).addr)


# T1: CLASS


@good("T1")
def _(file: Any) -> None:
    table(file)


@bad("T1", "variable", ("T1", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    variable_text(table(file), "CLASS", "COLUMN_TABLE")


@bad("T1", "utf8", ("T1", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    text(table(file), "CLASS", "COLUMN_TABLE")


@bad("T1", "longer", ("T1", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    ascii_text(table(file), "CLASS", "COLUMN_TABLE", size=13)


@bad("T1", "array", ("T1", "error", "/t"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    write_attribute(group, "CLASS", string_type(12, h5t.CSET_ASCII), (1,), np.array([b"COLUMN_TABLE"]))


@bad("T1", "other-letters", ("T1", "error", "/t"))
def _(file: Any) -> None:
    ascii_text(table(file), "CLASS", "Column_Table")


@bad("T1", "missing", ("T1", "error", "/t"))
def _(file: Any) -> None:
    del table(file).attrs["CLASS"]


@bad("T1", "number", ("T1", "error", "/t"))
def _(file: Any) -> None:
    number(table(file), "CLASS", 1)


@bad("T1", "dataset", ("T1", "error", "/d"))
def _(file: Any) -> None:
    table(file)
    ascii_text(file.create_dataset("d", data=[1, 2]), "CLASS", "COLUMN_TABLE")


# T2: VERSION


@good("T2")
def _(file: Any) -> None:
    table(file)


@bad("T2", "missing", ("T2", "error", "/t"), fixed=True)
def _(file: Any) -> None:
    del table(file).attrs["VERSION"]


@bad("T2", "no-number", ("T2", "error", "/t"))
def _(file: Any) -> None:
    ascii_text(table(file), "VERSION", "one")


@bad("T2", "later-major", ("T2", "error", "/t"))
def _(file: Any) -> None:
    ascii_text(table(file), "VERSION", "2.0")


@bad("T2", "later-minor", ("T2", "note", "/t"))
def _(file: Any) -> None:
    ascii_text(table(file), "VERSION", "1.1")


@bad("T2", "float", ("T2", "error", "/t"))
def _(file: Any) -> None:
    number(table(file), "VERSION", 1.0, "<f8")


@bad("T2", "variable", ("T2", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    variable_text(table(file), "VERSION", "1.0")


# T3: texts of the table


@good("T3")
def _(file: Any) -> None:
    group = table(file)
    for name, value in (
        ("TITLE", "Größe"),
        ("description", "Ein Satz."),
        ("_index", "x"),
        ("units_vocabulary", "UDUNITS-2"),
        ("encoding-type", "dataframe"),
        ("encoding-version", "0.2.0"),
    ):
        text(group, name, value)


@bad("T3", "variable", ("T3", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    variable_text(table(file), "TITLE", "Größe")


@bad("T3", "ascii", ("T3", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    ascii_text(table(file), "description", "A sentence.")


@bad("T3", "padded", ("T3", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    kind = string_type(8, pad=h5t.STR_SPACEPAD)
    write_attribute(table(file), "units_vocabulary", kind, (), np.array(b"UCUM    "))


@bad("T3", "array", ("T3", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    texts(table(file), "TITLE", ["Run 42"])


@bad("T3", "number", ("T3", "error", "/t"))
def _(file: Any) -> None:
    number(table(file), "TITLE", 42)


@bad("T3", "cut", ("T3", "error", "/t"))
def _(file: Any) -> None:
    """Cut by characters instead of bytes: the last one is torn."""
    text(table(file), "TITLE", "Größe".encode()[:3])


# T4: column-order

TWO = {"x": np.array([3, 1, 2], "<i4"), "y": np.array([0.5, 1.5, 2.5])}


@good("T4")
def _(file: Any) -> None:
    table(file, **TWO)


@bad("T4", "missing", ("T4", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    del table(file, **TWO).attrs["column-order"]


@bad("T4", "variable", ("T4", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    table(file, **TWO).attrs["column-order"] = ["y", "x"]


@bad("T4", "twice", ("T4", "error", "/t"), fixed=True)
def _(file: Any) -> None:
    texts(table(file, **TWO), "column-order", ["y", "x", "y"])


@bad("T4", "unknown", ("T4", "error", "/t"), fixed=True)
def _(file: Any) -> None:
    texts(table(file, **TWO), "column-order", ["y", "x", "z"])


@bad("T4", "not-named", ("T4", "error", "/t/x"), fixed=True)
def _(file: Any) -> None:
    texts(table(file, **TWO), "column-order", ["y"])


@bad("T4", "categories", ("T4", "warning", "/t"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    texts(group, "column-order", ["x", "kind", "kind_categories"])


@bad("T4", "numbers", ("T4", "error", "/t"), fixed=True)
def _(file: Any) -> None:
    number(table(file, **TWO), "column-order", [0, 1])


# T5: _index


@good("T5", "column")
def _(file: Any) -> None:
    text(table(file), "_index", "x")


@good("T5", "label")
def _(file: Any) -> None:
    label(table(file))


@bad("T5", "nothing", ("T5", "error", "/t"), fixed=True)
def _(file: Any) -> None:
    text(table(file), "_index", "z")


@bad("T5", "categories", ("T5", "error", "/t"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    text(group, "_index", "kind_categories")


# T6: tables anywhere


@good("T6", "root")
def _(file: Any) -> None:
    table(file, "/")


@good("T6", "nested")
def _(file: Any) -> None:
    table(file, "a/b/t")
    table(file, "a/u")
    file["again"] = file["a"]


@bad("T6", "external-link", ("T6", "note", "/other"))
def _(file: Any) -> None:
    table(file)
    file["other"] = h5py.ExternalLink("elsewhere.h5", "/t")


# T7: nothing else in the group


@good("T7")
def _(file: Any) -> None:
    table(file)
    file["beside"] = np.zeros((2, 2))


@bad("T7", "group", ("T7", "note", "/t/notes"))
def _(file: Any) -> None:
    table(file).create_group("notes")


@bad("T7", "image", ("T7", "note", "/t/image"))
def _(file: Any) -> None:
    table(file)["image"] = np.zeros((2, 2))


@bad("T7", "soft-link", ("T7", "note", "/t/alias"))
def _(file: Any) -> None:
    table(file)["alias"] = h5py.SoftLink("/t/x")


# C1: rank and length


@good("C1")
def _(file: Any) -> None:
    table(file, **TWO)


@bad("C1", "rank", ("C1", "error", "/t/y"))
def _(file: Any) -> None:
    table(file, x=TWO["x"], y=np.zeros((3, 2)))


@bad("C1", "scalar", ("C1", "error", "/t/y"))
def _(file: Any) -> None:
    table(file, x=TWO["x"], y=np.float64(1))


@bad("C1", "length", ("C1", "error", "/t/z"))
def _(file: Any) -> None:
    table(file, **TWO, z=np.arange(2))


# C2: names


@good("C2")
def _(file: Any) -> None:
    table(file, **{"Größe [m]": np.arange(3), "a.b": np.arange(3)})


@bad("C2", "underscore", ("C2", "warning", "/t/_x"))
def _(file: Any) -> None:
    table(file, _x=np.arange(3))


@bad("C2", "reserved", ("C2", "error", "/t/_search_indexes"))
def _(file: Any) -> None:
    table(file, _search_indexes=np.arange(3))


@bad("C2", "no-utf8", ("C2", "error", "/t/\\udcff"))
def _(file: Any) -> None:
    group = table(file)
    group.id.links.move(b"x", group.id, b"\xff")
    texts(group, "column-order", [b"\xff"])


# C3: what is a column


@good("C3")
def _(file: Any) -> None:
    categorical(table(file))


@bad("C3", "orphan", ("C3", "warning", "/t/kind_categories"))
def _(file: Any) -> None:
    group = table(file)
    del categorical(group).attrs["_categories"]


# C4: any datatype


@good("C4")
def _(file: Any) -> None:
    group = table(
        file,
        half=np.arange(3, dtype="<f2"),
        big=np.arange(3, dtype=">i8"),
        truth=np.array([True, False, True]),
        word=np.array([b"a", b"b", b"c"]),
        pair=np.array([(1, 2.0)] * 3, [("a", "<i4"), ("b", "<f8")]),
        complex=np.array([1j, 2, 3], "<c16"),
        vector=np.array([([1, 2],)] * 3, [("v", "<i4", (2,))]),
    )
    group.create_dataset("words", data=["a", "bb", "ccc"], dtype=h5py.string_dtype())
    texts(group, "column-order", [*(item.decode() for item in group.attrs["column-order"]), "words"])


@bad("C4", "time", ("C4", "note", "/t/when"))
def _(file: Any) -> None:
    """A datatype that HDF5 has and hardly anybody reads."""
    group = table(file)
    h5d.create(group.id, b"when", h5t.UNIX_D32LE, h5s.create_simple((3,)))
    texts(group, "column-order", ["x", "when"])


# C5: storage of each column


@good("C5")
def _(file: Any) -> None:
    group = table(file)
    group.create_dataset("chunked", data=np.arange(3), chunks=(2,), compression="gzip", maxshape=(None,))
    layout = h5p.create(h5p.DATASET_CREATE)
    layout.set_layout(h5d.COMPACT)
    made = h5d.create(group.id, b"compact", h5t.STD_I32LE, h5s.create_simple((3,)), dcpl=layout)
    made.write(h5s.ALL, h5s.ALL, np.arange(3, dtype="<i4"))
    texts(group, "column-order", ["x", "chunked", "compact"])


@bad("C5", "external", ("C5", "warning", "/t/far"))
def _(file: Any) -> None:
    group = table(file)
    layout = h5p.create(h5p.DATASET_CREATE)
    layout.set_external(b"elsewhere.bin", 0, 12)
    h5d.create(group.id, b"far", h5t.STD_I32LE, h5s.create_simple((3,)), dcpl=layout)
    texts(group, "column-order", ["x", "far"])


@bad("C5", "virtual", ("C5", "warning", "/t/far"))
def _(file: Any) -> None:
    group = table(file)
    layout = h5py.VirtualLayout((3,), "<i4")
    layout[:] = h5py.VirtualSource("elsewhere.h5", "x", (3,))
    group.create_virtual_dataset("far", layout)
    texts(group, "column-order", ["x", "far"])


# C6: missing rows


@good("C6")
def _(file: Any) -> None:
    group = table(file)
    gap = group.create_dataset("gap", data=np.array([1, -9, 3], "<i4"), fillvalue=-9)
    text(gap, "description", "Counts.\nMissing value: -9.")
    group.create_dataset("default", data=np.array([0, 1, 2], "<i4"))
    texts(group, "column-order", ["x", "gap", "default"])


@bad("C6", "silent", ("C6", "warning", "/t/gap", "deep"))
def _(file: Any) -> None:
    group = table(file)
    group.create_dataset("gap", data=np.array([1, -9, 3], "<i4"), fillvalue=-9)
    texts(group, "column-order", ["x", "gap"])


@bad("C6", "nan", ("C6", "warning", "/t/gap", "deep"))
def _(file: Any) -> None:
    group = table(file)
    gap = group.create_dataset("gap", data=np.array([1, np.nan, 3]), fillvalue=np.nan)
    text(gap, "description", "Energy of the event.")
    texts(group, "column-order", ["x", "gap"])


# C7: attributes of columns


@good("C7")
def _(file: Any) -> None:
    column = table(file)["x"]
    for name, value in (("units", "µm"), ("units_vocabulary", "UCUM"), ("description", "Length.")):
        text(column, name, value)


@bad("C7", "variable", ("C7", "warning", "/t/x"), fixed=True)
def _(file: Any) -> None:
    variable_text(table(file)["x"], "units", "µm")


@bad("C7", "ascii", ("C7", "warning", "/t/x"), fixed=True)
def _(file: Any) -> None:
    ascii_text(table(file)["x"], "description", "Length.")


@bad("C7", "number", ("C7", "error", "/t/x"))
def _(file: Any) -> None:
    number(table(file)["x"], "units", 1)


@bad("C7", "scalar-reference", ("C7", "warning", "/t/x"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    reference(group["x"], "_indexes", label(group))


@bad("C7", "array-reference", ("C7", "warning", "/t/kind"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    references(categorical(group), "_categories", [group["kind_categories"]])


@bad("C7", "no-reference", ("C7", "error", "/t/x"))
def _(file: Any) -> None:
    texts(table(file)["x"], "_indexes", ["id"])


# C8: codes


@good("C8")
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    unsigned = group.create_dataset("u", data=np.array([0, 1, 255], "u1"), fillvalue=255)
    text(unsigned, "description", "Missing value: 255.")
    reference(unsigned, "_categories", group["kind_categories"])
    texts(group, "column-order", ["x", "kind", "u"])


@bad("C8", "floats", ("C8", "error", "/t/kind"))
def _(file: Any) -> None:
    categorical(table(file), dtype="<f4")


@bad("C8", "fill", ("C8", "warning", "/t/kind"))
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    held = group["kind_categories"]
    del group["kind"]
    reference(group.create_dataset("kind", data=np.array([0, 1, 1], "i1"), fillvalue=-9), "_categories", held)


@bad("C8", "outside", ("C8", "error", "/t/kind", "deep"))
def _(file: Any) -> None:
    categorical(table(file), codes=(0, 2, -1))


# C9: categories


@good("C9")
def _(file: Any) -> None:
    categorical(table(file))


@bad("C9", "no-type", ("C9", "error", "/t/kind_categories"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    del group["kind_categories"].attrs["encoding-type"]


@bad("C9", "other-type", ("C9", "error", "/t/kind_categories"))
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    text(group["kind_categories"], "encoding-type", "string-array")


@bad("C9", "ascii-type", ("C9", "warning", "/t/kind_categories"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    ascii_text(group["kind_categories"], "encoding-type", "categorical")


@bad("C9", "no-flag", ("C9", "error", "/t/kind_categories"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    del group["kind_categories"].attrs["ordered"]


@bad("C9", "integer-flag", ("C9", "warning", "/t/kind_categories"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    number(group["kind_categories"], "ordered", 1, "u1")


@bad("C9", "nowhere", ("C9", "error", "/t/kind"))
def _(file: Any) -> None:
    group = table(file)
    column = categorical(group)
    column.attrs.create("_categories", h5py.Reference(), dtype=h5py.ref_dtype)
    del group["kind_categories"]


@bad("C9", "elsewhere", ("C9", "error", "/t/kind"))
def _(file: Any) -> None:
    group = table(file)
    categorical(group)
    file.move("/t/kind_categories", "/kind_categories")


@bad("C9", "rank", ("C9", "error", "/t/kind"), ("T7", "note", "/t/kind_categories"))
def _(file: Any) -> None:
    group = table(file)
    column = categorical(group)
    del group["kind_categories"]
    reference(column, "_categories", group.create_dataset("kind_categories", data=np.zeros((2, 2))))


# I1: labels


@good("I1")
def _(file: Any) -> None:
    label(table(file))


@bad("I1", "rank", ("I1", "error", "/t/id"))
def _(file: Any) -> None:
    group = table(file)
    references(group.create_dataset("id", data=np.zeros((3, 2))), "_columns_list", [])


@bad("I1", "length", ("I1", "error", "/t/id"))
def _(file: Any) -> None:
    label(table(file), values=[b"a", b"b"])


@bad("I1", "nowhere", ("I1", "error", "/t/id"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    nowhere(label(group, columns=()), "_columns_list", 2)


@bad("I1", "names", ("I1", "error", "/t/id"))
def _(file: Any) -> None:
    group = table(file)
    texts(label(group, columns=()), "_columns_list", ["x"])


# I2: labels and columns agree


@good("I2")
def _(file: Any) -> None:
    group = table(file, **TWO)
    label(group, columns=("x", "y"))
    second = group.create_dataset("run", data=np.arange(3))
    references(second, "_columns_list", [group["y"]])
    references(group["y"], "_indexes", [group["id"], second])


@bad("I2", "column-silent", ("I2", "error", "/t/y"), fixed=True)
def _(file: Any) -> None:
    group = table(file, **TWO)
    label(group, columns=("x", "y"))
    del group["y"].attrs["_indexes"]


@bad("I2", "label-silent", ("I2", "error", "/t/id"), fixed=True)
def _(file: Any) -> None:
    group = table(file, **TWO)
    label(group, columns=("x", "y"))
    references(group["id"], "_columns_list", [group["x"]])


@bad("I2", "nowhere", ("I2", "error", "/t/x"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    nowhere(group["x"], "_indexes")


@bad("I2", "twice", ("I2", "warning", "/t/x"), fixed=True)
def _(file: Any) -> None:
    group = table(file)
    held = label(group)
    references(group["x"], "_indexes", [held, held])


# I4: the first label


@good("I4")
def _(file: Any) -> None:
    label(table(file))


@bad("I4", "no-index", ("I4", "note", "/t"))
def _(file: Any) -> None:
    group = table(file)
    label(group)
    del group.attrs["_index"]


# S1: where indexes are


@good("S1")
def _(file: Any) -> None:
    minmax(indexed(file))


@bad("S1", "group-inside", ("S1", "error", "/t/_search_indexes/notes"))
def _(file: Any) -> None:
    group = indexed(file)
    minmax(group)
    group["_search_indexes"].create_group("notes")


@bad("S1", "beside", ("S1", "error", "/t/v__sorted_rows"), fixed=True)
def _(file: Any) -> None:
    group = indexed(file)
    sorted_rows(group)
    file.move("/t/_search_indexes/v__sorted_rows", "/t/v__sorted_rows")


# S2: indexes and columns agree


@good("S2")
def _(file: Any) -> None:
    group = indexed(file)
    minmax(group)
    sorted_rows(group)


@bad("S2", "column-silent", ("S2", "error", "/t/v"), fixed=True)
def _(file: Any) -> None:
    group = indexed(file)
    minmax(group)
    del group["v"].attrs["_search_indexes"]


@bad("S2", "index-silent", ("S2", "error", "/t/_search_indexes/v__chunk_minmax"), fixed=True)
def _(file: Any) -> None:
    group = indexed(file)
    del minmax(group).attrs["_columns_list"]


@bad("S2", "two-columns", ("S2", "error", "/t/_search_indexes/v__chunk_minmax"), fixed=True)
def _(file: Any) -> None:
    group = indexed(file)
    index = minmax(group)
    group.create_dataset("w", data=VALUES, chunks=(2,))
    texts(group, "column-order", ["v", "w"])
    references(index, "_columns_list", [group["v"], group["w"]])
    references(group["w"], "_search_indexes", [index])


@bad("S2", "nowhere", ("S2", "error", "/t/v"), fixed=True)
def _(file: Any) -> None:
    group = indexed(file)
    nowhere(group["v"], "_search_indexes")


@bad("S2", "other-column", ("S2", "error", "/t/_search_indexes/v__chunk_minmax"), fixed=True)
def _(file: Any) -> None:
    """The index is for a dataset outside the table, and no column refers to it."""
    group = indexed(file)
    references(minmax(group), "_columns_list", [file.create_dataset("far", data=VALUES, chunks=(2,))])
    del group["v"].attrs["_search_indexes"]


@bad("S2", "twice", ("S2", "warning", "/t/v"), fixed=True)
def _(file: Any) -> None:
    group = indexed(file)
    index = minmax(group)
    references(group["v"], "_search_indexes", [index, index])


# S3: KIND


@good("S3")
def _(file: Any) -> None:
    bitmap(indexed(file))


@bad("S3", "missing", ("S3", "error", "/t/_search_indexes/v__chunk_minmax"))
def _(file: Any) -> None:
    del minmax(indexed(file)).attrs["KIND"]


@bad("S3", "unknown", ("S3", "note", "/t/_search_indexes/v__chunk_minmax"))
def _(file: Any) -> None:
    ascii_text(minmax(indexed(file)), "KIND", "KD_TREE")


@bad("S3", "variable", ("S3", "warning", "/t/_search_indexes/v__chunk_minmax"), fixed=True)
def _(file: Any) -> None:
    variable_text(minmax(indexed(file)), "KIND", "CHUNK_MINMAX")


# S4: CHUNK_MINMAX

MINMAX = "/t/_search_indexes/v__chunk_minmax"


@good("S4")
def _(file: Any) -> None:
    minmax(indexed(file))


@bad("S4", "too-few", ("S4", "error", MINMAX), fixed=True)
def _(file: Any) -> None:
    minmax(indexed(file), [(1, 5, 0, 0, 2), (3, 3, 0, 0, 2)])


@bad("S4", "no-shape", ("S4", "error", MINMAX), fixed=True)
def _(file: Any) -> None:
    del minmax(indexed(file)).attrs["chunk_shape"]


@bad("S4", "other-shape", ("S4", "error", MINMAX), fixed=True)
def _(file: Any) -> None:
    number(minmax(indexed(file)), "chunk_shape", [3])


@bad("S4", "signed-shape", ("S4", "warning", MINMAX), fixed=True)
def _(file: Any) -> None:
    number(minmax(indexed(file)), "chunk_shape", [2], "<i8")


@bad("S4", "fields", ("S4", "error", MINMAX), fixed=True)
def _(file: Any) -> None:
    group = indexed(file)
    entries = np.zeros(3, [("low", "<i4"), ("high", "<i4")])
    index = group["_search_indexes"].create_dataset("v__chunk_minmax", data=entries)
    number(index, "chunk_shape", [2])
    attach(group, index, "CHUNK_MINMAX")


# S5: SORTED_ROWS

SORTED = "/t/_search_indexes/v__sorted_rows"


@good("S5")
def _(file: Any) -> None:
    sorted_rows(indexed(file))


@bad("S5", "too-few", ("S5", "error", SORTED), fixed=True)
def _(file: Any) -> None:
    sorted_rows(indexed(file), (1, 2, 0, 3))


@bad("S5", "signed", ("S5", "error", SORTED), fixed=True)
def _(file: Any) -> None:
    sorted_rows(indexed(file), dtype="<i4")


@bad("S5", "no-tail", ("S5", "error", SORTED), fixed=True)
def _(file: Any) -> None:
    del sorted_rows(indexed(file)).attrs["nan_tail_length"]


@bad("S5", "not-ordered", ("S5", "error", SORTED), fixed=True)
def _(file: Any) -> None:
    flag(sorted_rows(indexed(file)), "ordered", False)


# S6: BITMAP

BITMAP = "/t/_search_indexes/v__bitmap"


@good("S6")
def _(file: Any) -> None:
    bitmap(indexed(file))


@bad("S6", "no-flag", ("S6", "error", BITMAP), fixed=True)
def _(file: Any) -> None:
    del bitmap(indexed(file)).attrs["ordered"]


@bad("S6", "other-type", ("S6", "error", BITMAP), fixed=True)
def _(file: Any) -> None:
    bitmap(indexed(file), dtype="<i8")


@bad("S6", "values-elsewhere", ("S6", "error", BITMAP), fixed=True)
def _(file: Any) -> None:
    bitmap(indexed(file))
    file.move("/t/_search_indexes/v__bitmap__values", "/values")


@bad("S6", "too-wide", ("S6", "error", BITMAP), fixed=True)
def _(file: Any) -> None:
    group = indexed(file)
    index = bitmap(group)
    home, held = group["_search_indexes"], group["_search_indexes/v__bitmap__values"]
    del home["v__bitmap"], group["v"].attrs["_search_indexes"]
    index = home.create_dataset("v__bitmap", data=np.zeros((4, 2), "u1"))
    reference(index, "_values", held)
    flag(index, "ordered", True)
    attach(group, index, "BITMAP")


# S7: CHUNK_BLOOM

BLOOM = "/t/_search_indexes/v__chunk_bloom"


@good("S7")
def _(file: Any) -> None:
    bloom(indexed(file))


@bad("S7", "bits", ("S7", "error", BLOOM), fixed=True)
def _(file: Any) -> None:
    number(bloom(indexed(file)), "m_bits", 100)


@bad("S7", "family", ("S7", "error", BLOOM), fixed=True)
def _(file: Any) -> None:
    ascii_text(bloom(indexed(file)), "hash_family", "xxh3_64")


@bad("S7", "wide-k", ("S7", "warning", BLOOM), fixed=True)
def _(file: Any) -> None:
    number(bloom(indexed(file)), "k", K, "<i4")


@bad("S7", "compound", ("S7", "error", BLOOM), fixed=True)
def _(file: Any) -> None:
    """Values that have no canonical bytes cannot have such an index."""
    group = indexed(file)
    index = bloom(group)
    del group["v"]
    group.create_dataset("v", data=np.zeros(5, [("a", "<i4"), ("b", "<f8")]), chunks=(2,))
    references(index, "_columns_list", [group["v"]])
    references(group["v"], "_search_indexes", [index])


# S8: contents


@good("S8")
def _(file: Any) -> None:
    group = indexed(file)
    for build in (minmax, sorted_rows, bitmap, bloom):
        build(group)


@bad("S8", "minmax", ("S8", "error", MINMAX, "deep"), fixed=True)
def _(file: Any) -> None:
    minmax(indexed(file), [(1, 5, 0, 0, 2), (3, 3, 0, 0, 2), (8, 8, 0, 0, 1)])


@bad("S8", "sorted", ("S8", "error", SORTED, "deep"), fixed=True)
def _(file: Any) -> None:
    """The tie of rows 2 and 3 is broken the wrong way."""
    sorted_rows(indexed(file), (1, 3, 2, 0, 4))


@bad("S8", "bitmap", ("S8", "error", BITMAP, "deep"), fixed=True)
def _(file: Any) -> None:
    bitmap(indexed(file))[1, 0] = 0b10100


@bad("S8", "bloom", ("S8", "error", BLOOM, "deep"), fixed=True)
def _(file: Any) -> None:
    bloom(indexed(file))[1] = 0


# -- the worked examples of chapter 11 --

N = 6


def example_1(file: Any) -> Any:
    """11.1: a minimal table."""
    group = file.create_group("my_table")
    ascii_text(group, "CLASS", "COLUMN_TABLE")
    ascii_text(group, "VERSION", "1.0")
    text(group, "TITLE", "Sample run")
    texts(group, "column-order", ["ts", "energy", "label"])
    text(group, "_index", "row_id")
    ts = group.create_dataset("ts", data=np.arange(N, dtype="<i8"), chunks=(4,))
    text(ts, "units", "s")
    text(ts, "units_vocabulary", "UDUNITS-2")
    text(ts, "description", "Event timestamp.")
    energy = group.create_dataset("energy", data=np.linspace(0, 1, N, dtype="<f4"))
    text(energy, "units", "MeV")
    kind = group.create_dataset("label", data=np.array([0, 1, 2, 0, 1, -1], "i1"))
    text(kind, "description", "Class label.")
    held = group.create_dataset("label_categories", data=["muon", "pion", "kaon"], dtype=h5py.string_dtype())
    text(held, "encoding-type", "categorical")
    flag(held, "ordered", False)
    reference(kind, "_categories", held)
    row_id = group.create_dataset("row_id", data=np.arange(N, dtype="<u8"))
    references(row_id, "_columns_list", [ts, energy, kind])
    for column in (ts, energy, kind):
        references(column, "_indexes", [row_id])
    return group


def example_2(file: Any) -> Any:
    """11.2: with a chunk min/max index on ts."""
    group = example_1(file)
    entry = np.dtype([("min", "<i8"), ("max", "<i8"), ("nan_count", "<u8"), ("fill_count", "<u8"), ("n", "<u8")])
    entries = np.array([(0, 3, 0, 0, 4), (4, 5, 0, 0, 2)], entry)
    index = group.create_group("_search_indexes").create_dataset("ts__chunk_minmax", data=entries)
    ascii_text(index, "KIND", "CHUNK_MINMAX")
    number(index, "chunk_shape", [4])
    references(index, "_columns_list", [group["ts"]])
    references(group["ts"], "_search_indexes", [index])
    return group


CASES += [Case("example-11.1", "example", example_1), Case("example-11.2", "example", example_2)]


# -- files and manifest --


def make_file(case: Case, folder: Path) -> Path:
    path = folder / "files" / f"{case.name}.h5"
    with h5py.File(path, "w", libver=("earliest", "latest")) as file:
        spoilt = case.make(file)
    if isinstance(spoilt, int):
        with path.open("r+b") as raw:
            raw.seek(spoilt)
            raw.write(b"\xff" * 16)
    return path


def manifest() -> dict[str, Any]:
    """What must be found in each file."""
    return {
        "standard": "HEP001, revision of April 2026, VERSION 1.0",
        "files": [
            {
                "file": f"files/{case.name}.h5",
                "rule": case.rule,
                "expected": [
                    {"rule": one[0], "severity": one[1], "path": one[2], "deep": one[3:] == ("deep",)}
                    for one in case.findings
                ],
                "fixable": case.fixed,
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
