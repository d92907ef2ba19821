"""Good files of the layouts that other packages write, and of ours that came later: small, in the form of each package.

What is made here by h5py has the members and attributes that the package writes: see
`tests/rooms/test_columns_layout.py` and `tests/rooms/nwb_files.py`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa

import colonnade as cn
from tools.fuzz.usage import INDEXED

N_ROWS = 24
_CHUNK_ROWS = 8
_MADE_AT = 1_700_000_000 * 10**9  # ns: an index file records the time of the file that it is of
_WORDS = ["muon", "pion", "", "élan", "kaon 0123"]
_TEXT = h5py.string_dtype()


def _words(n_rows: int = N_ROWS) -> list[str]:
    return [_WORDS[row * 3 % 5] for row in range(n_rows)]


# -- datasets of records --


def _records(n_rows: int = N_ROWS) -> np.ndarray:
    kind = np.dtype(
        [("a", "<i4"), ("b", ">f8"), ("s", "S5"), ("v", _TEXT), ("grid", "<i2", (2, 2)),
         ("inner", [("x", "f4"), ("y", "u1")]), ("ok", bool), ("e", h5py.enum_dtype({"red": 1, "green": 2}, "i1")),
         ("c", "c8"), ("r", h5py.ref_dtype)]
    )  # fmt: skip
    rows = np.zeros(n_rows, kind)
    rows["a"], rows["b"], rows["inner"]["x"] = np.arange(n_rows), np.arange(n_rows) / 3, np.arange(n_rows)
    rows["s"], rows["v"] = [f"x{row}".encode() for row in range(n_rows)], _words(n_rows)
    rows["grid"], rows["c"] = np.arange(4).reshape(2, 2), 1j * np.arange(n_rows)
    rows["ok"], rows["e"] = np.arange(n_rows) % 2, np.arange(n_rows) % 2 + 1
    return rows


def _compound(file: h5py.File) -> None:
    """Tables that are one dataset each: in packed chunks, contiguous, and of a committed datatype."""
    file["pixels"] = np.arange(12).reshape(3, 4)
    file["scans/first"] = np.arange(3.0)
    rows = _records()
    places = ["scans" if row % 2 else "pixels" for row in range(N_ROWS)]
    rows["r"] = [h5py.Reference() if row % 3 else file[place].ref for row, place in enumerate(places)]
    packed = file.create_dataset("runs/events", data=rows, chunks=(_CHUNK_ROWS,), maxshape=(None,), compression="gzip")
    packed.attrs["note"] = "of a test"
    file["kind"] = np.dtype([("n", "i2"), ("x", "f4")])
    plain = file.create_dataset("plain", (N_ROWS,), dtype=file["kind"])
    plain["n"] = np.arange(N_ROWS)
    file["null"] = h5py.Empty(packed.dtype)


# -- datasets that are columns --


def _vaex(file: h5py.File) -> None:
    table = file.create_group("table")
    table.attrs.update({"type": "table", "description": "Of a test"})
    columns = table.create_group("columns")
    columns.attrs["column_order"] = "x,s,m,n,t,d,w,old"

    def column(name: str, **parts: Any) -> Any:
        group = columns.create_group(name)
        for part, values in parts.items():
            group[part] = values
        return group

    n = N_ROWS
    column("x", data=np.arange(float(n))).attrs.update({"unit": "km / s", "description": "Speed"})
    words = [word.encode() for word in _words()]
    ends = np.cumsum([0, *map(len, words)]).astype("i4")
    text = column("s", data=np.frombuffer(b"".join(words), "S1"), indices=ends, null_bitmap=np.full(n // 8, 0xED, "u1"))
    text["data"].attrs["dtype"] = "str"
    column("m", data=np.arange(n), mask=np.arange(n) % 4 == 1)
    column("n", data=np.arange(n), null_bitmap=np.full(n // 8, 0b11101, "u1"))
    column("t", data=np.arange(n))["data"].attrs["dtype"] = "datetime64[ns]"
    coded = columns.create_group("d")
    coded.attrs["type"] = "dictionary_encoded"
    coded["indices/data"] = (np.arange(n) % 2).astype("i4")
    coded["dictionary/data"] = np.frombuffer(b"upper", "S1")
    coded["dictionary/indices"] = np.array([0, 2, 5], "i4")
    column("w", data=np.arange(2.0 * n).reshape(n, 2))
    columns["old"] = np.arange(n, dtype=">i2")


def _netcdf(file: h5py.File) -> None:
    n = N_ROWS
    file.attrs["title"] = np.bytes_(b"Buoys")

    def dimension(name: str, length: int) -> Any:
        scale: Any = file.create_dataset(name, shape=(length,), dtype=">f4")
        scale.make_scale(f"This is a netCDF dimension but not a netCDF variable.{length:10d}")
        return scale

    def variable(name: str, values: Any, *scales: Any, **attributes: Any) -> None:
        dataset: Any = file.create_dataset(name, data=values, chunks=(_CHUNK_ROWS, *np.shape(values)[1:]))
        for axis, scale in enumerate(scales):
            dataset.dims[axis].attach_scale(scale)
        for key, value in attributes.items():
            dataset.attrs[key] = np.bytes_(value.encode()) if isinstance(value, str) else value

    obs, width = dimension("obs", n), dimension("strlen", 3)
    times = np.where(np.arange(n) % 7 == 3, np.nan, np.arange(n) / 2)
    variable("time", times, obs, units="days since 2000-01-01", calendar="standard")
    packed = {"scale_factor": np.array([0.01]), "add_offset": np.array([273.15]), "_FillValue": np.array([-1], "i2")}
    variable("temp", (np.arange(n) * 31 % 100 - 50).astype("i2"), obs, units="K", **packed)
    variable("flag", (np.arange(n) % 5).astype("i1"), obs, missing_value=np.array([1, 2], "i1"))
    variable("name", np.array([list("ab\0"), list("cde"), list("x\0\0")] * (n // 3), "S1"), obs, width)
    file["crs"] = np.int32(0)


def _loom(file: h5py.File) -> None:
    n = N_ROWS
    file["matrix"] = np.zeros((3, n))
    file.create_dataset("col_attrs/CellID", data=[f"w{row}é" for row in range(n)], dtype=_TEXT)
    file.create_dataset("col_attrs/age", data=np.arange(float(n)), chunks=(_CHUNK_ROWS,), compression="gzip")
    file["col_attrs/emb"] = np.arange(2.0 * n).reshape(n, 2)
    file["row_attrs/Gene"], file["row_attrs/chr"] = np.array([b"a", b"b", b"c"]), np.arange(3)


def _matlab(file: h5py.File) -> None:
    group = file.create_group("s")
    group.attrs["MATLAB_class"] = np.bytes_(b"struct")

    def field(name: str, values: np.ndarray, kind: str, **more: int) -> None:
        group.create_dataset(name, data=values).attrs.update({"MATLAB_class": np.bytes_(kind.encode()), **more})

    field("column", np.arange(3.0)[None], "double")
    field("row", np.array([[1], [2], [3]], "i4"), "int32")
    field("ok", np.array([[1, 0, 1]], "u1"), "logical", MATLAB_int_decode=1)
    letters = np.array([[ord(one) for one in word] for word in ("ab ", "ä  ", "xyz")], "u2")
    field("names", letters.T, "char", MATLAB_int_decode=2)
    field("pairs", np.arange(6.0).reshape(2, 3), "double")
    field("empty", np.array([0, 0], "u8"), "double", MATLAB_empty=1)


# -- DynamicTables --


def _dynamic(file: h5py.File) -> None:
    """Two DynamicTables, one with lists whose rows are those of the other."""

    def table(name: str, identifiers: Any, columns: list[str]) -> Any:
        group = file.create_group(name)
        group.attrs["colnames"] = np.array(columns, dtype=_TEXT)
        group.attrs.update({"namespace": "hdmf-common", "neurodata_type": "DynamicTable", "description": "of a test"})
        add(group, "id", np.asarray(identifiers, dtype="i8"), "ElementIdentifiers")
        return group

    def add(group: Any, name: str, data: Any, kind: str = "VectorData", **attributes: object) -> Any:
        is_text = isinstance(data, list) and isinstance(data[0], str)
        dataset = group.create_dataset(name, data=data, **({"dtype": _TEXT} if is_text else {}))
        attributes = {"namespace": "hdmf-common", "neurodata_type": kind, "description": f"column {name}", **attributes}
        for key, value in attributes.items():
            dataset.attrs[key] = value
        return dataset

    def index(group: Any, target: str, ends: list[int]) -> None:
        add(group, f"{target}_index", np.asarray(ends, dtype="u1"), "VectorIndex", target=group[target].ref)

    electrodes = table("electrodes", range(4), ["x"])
    add(electrodes, "x", np.arange(4.0))
    units = table("units", [10, 11, 12], ["spikes", "electrodes", "words", "pairs", "state", "part"])
    add(units, "spikes", np.arange(6.0), unit="s")
    index(units, "spikes", [2, 2, 6])
    add(units, "electrodes", np.array([0, 1, 3, 3]), "DynamicTableRegion", table=file["electrodes"].ref)
    index(units, "electrodes", [1, 2, 4])
    add(units, "words", ["a", "b", "c", "d"])
    index(units, "words", [1, 1, 3, 4])
    index(units, "words_index", [2, 2, 4])
    add(units, "pairs", np.arange(6).reshape(3, 2))
    states = add(units, "state_elements", ["wake", "sleep"])
    add(units, "state", np.array([0, 1, 0], "u1"), "EnumData", elements=states.ref)
    parts = np.zeros(3, [("idx_start", "i4"), ("count", "i4"), ("timeseries", h5py.ref_dtype)])
    parts["count"], parts["timeseries"] = 1, [file["electrodes"].ref, h5py.Reference(), electrodes["x"].ref]
    units.create_dataset("part", data=parts).attrs["neurodata_type"] = "VectorData"


# -- of pandas and of PyTables --


def _frame() -> pd.DataFrame:
    n = N_ROWS
    return pd.DataFrame(
        {
            "int": np.arange(n) - 2,
            "float": np.where(np.arange(n) % 5 == 1, np.nan, np.arange(n) / 3),
            "byte": np.arange(n, dtype="i1"),
            "flag": np.arange(n) % 3 == 0,
            "time": pd.date_range("2020-03-29", periods=n, freq="h").as_unit("ns"),
            "zoned": pd.date_range("2020-03-29", periods=n, freq="h", tz="Europe/Berlin").as_unit("ns"),
            "text": _words(),
            "kind": pd.Categorical(_words()),
        },
        index=pd.Index([f"r{row}" for row in range(n)], name="label"),
    )


def _stored(form: Literal["fixed", "table"], **options: Any) -> Callable[[Path], None]:
    """Packed, and without indexes: PyTables makes chunks of 64 KiB, and an index of many datasets."""

    def make(path: Path) -> None:
        frame = _frame()
        if form == "fixed":
            frame = frame.drop(columns=["kind", "text"])
        index = pd.MultiIndex.from_arrays([_words(), np.arange(N_ROWS)], names=["word", None])
        chosen = {"run": frame, "more": frame[["int", "float"]].set_axis(index), "one": frame["float"]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # names that are not identifiers, the format itself
            for key, stored in chosen.items():
                more = {"index": False, **options} if form == "table" else options
                stored.to_hdf(path, key=key, format=form, complevel=4, **more)

    return make


def _pytables(path: Path) -> None:
    n = N_ROWS
    rows = {"n": np.arange(n, dtype="i4"), "x": np.arange(n) / 3, "ok": np.arange(n) % 2 == 0, "s": _words()}
    cn.write(path, rows, "grp/events", layout="pytables")


# -- H5Col --


def _maybe(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if row % 7 == 4 else value for row, value in enumerate(values)], kind)


def _h5col(kinds: tuple[str, ...], index: dict[str, Any]) -> Callable[[Path], None]:
    n = N_ROWS
    words = _words()
    columns = {
        "i": _maybe([*range(n)], pa.int16()),
        "f": _maybe([row / 3 for row in range(n)], pa.float64()),
        "s": _maybe(words, pa.string()),
        "b": _maybe([row % 2 == 0 for row in range(n)], pa.bool_()),
        "c": pa.array(words).dictionary_encode(),
        "t": _maybe([*range(n)], pa.timestamp("us", "UTC")),
        "z": _maybe([b"ab"] * n, pa.binary(2)),
        "p": pa.array([{"x": row / 2, "y": row} for row in range(n)], pa.struct({"x": pa.float64(), "y": pa.int8()})),
        "ints": _maybe([[*range(row % 4)] for row in range(n)], pa.list_(pa.int16())),
        "texts": _maybe([words[row : row + row % 3] for row in range(n)], pa.list_(pa.string())),
        "deep": _maybe([[[row], [], [row, row]][: row % 4] for row in range(n)], pa.list_(pa.list_(pa.int64()))),
    }

    def make(path: Path) -> None:
        chosen = {name: columns[name] for name in kinds}
        chunks = {name: {"chunk_rows": _CHUNK_ROWS} for name in kinds}
        cn.write(path, chosen, "t", layout="h5col", index=index, columns=chunks)

    return make


# -- index files --


def make_indexed(path: Path) -> None:
    """The file that the index file is of, always with the same bytes and the same time."""
    with h5py.File(path, "w") as file:
        file["g/x"] = np.arange(200) * 37 % 101
        file.create_dataset("g/y", data=np.arange(200) // 10, chunks=(20,))
        file.create_dataset("g/s", data=np.array([f"k{row % 9}" for row in range(200)], "S3"))
    os.utime(path, ns=(_MADE_AT, _MADE_AT))


def _index_file(path: Path) -> None:
    with cn.open(os.environ[INDEXED]) as file:
        table = file.table("g", layout="columns")
        kinds = {"y": ["chunk_minmax", "bitmap"], "x": ["sorted_rows"], "s": ["chunk_bloom"]}
        table.build_index(kinds, index_file=path)


def _by_h5py(write: Callable[[Any], None], libver: str = "earliest") -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with h5py.File(path, "w", libver=libver) as file:
            write(file)

    return make


MAKERS: dict[str, Callable[[Path], None]] = {
    "layouts-compound": _by_h5py(_compound),
    "layouts-compound-latest": _by_h5py(_compound, "latest"),
    "layouts-vaex": _by_h5py(_vaex),
    "layouts-netcdf": _by_h5py(_netcdf, "v110"),
    "layouts-loom": _by_h5py(_loom),
    "layouts-matlab": _by_h5py(_matlab),
    "layouts-hdmf": _by_h5py(_dynamic),
    "layouts-hdmf-latest": _by_h5py(_dynamic, "latest"),
    "layouts-pytables": _pytables,
    "layouts-h5col-plain": _h5col(("i", "f", "s", "b", "c", "t", "z", "p"), {}),
    "layouts-h5col-lists": _h5col(("i", "ints", "texts", "deep"), {}),
    "layouts-h5col-indexes": _h5col(
        ("i", "f", "s", "c"), {"i": ["sorted_rows", "chunk_bloom"], "f": ["chunk_minmax", "bitmap"], "c": "bitmap"}
    ),
    "layouts-index-file": _index_file,
}
if find_spec("tables") is not None:
    MAKERS |= {
        "layouts-pandas-fixed": _stored("fixed"),
        "layouts-pandas-table": _stored("table", data_columns=["int", "text"]),
        "layouts-pandas-blosc": _stored("table", complib="blosc"),
    }
