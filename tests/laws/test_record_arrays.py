"""Law: the columns of a record array are what h5py reads; written again as one, h5py reads it equal."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import colonnade as cn

NUMBERS = [f"{order}{code}" for code in ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8") for order in "<>"]
SCALARS = [*NUMBERS, "i1", "u1", "?", "<c8", ">c16"]
ENUM = h5py.enum_dtype({"red": 0, "green": 1, "blue": 5}, basetype="i2")
NAMES = st.text(st.characters(exclude_characters="\0./", exclude_categories=["Cs"]), min_size=1, max_size=6).filter(
    lambda name: not name.startswith("_")  # which HEP001 reserves
)
WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
Kind = tuple[str, Any]


def kinds(depth: int) -> st.SearchStrategy[Kind]:
    """A member: what it is, and its dtype, or those of its parts."""
    plain: list[st.SearchStrategy[Kind]] = [
        st.tuples(st.just("number"), st.sampled_from(SCALARS)),
        st.tuples(st.just("fixed"), st.integers(1, 12)),
        st.just(("variable", None)),
        st.just(("enum", None)),
    ]
    if depth:
        inner = kinds(depth - 1)
        parts = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
        shape = st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple)
        plain += [
            st.tuples(st.just("struct"), parts),
            st.tuples(st.just("array"), st.tuples(st.sampled_from(NUMBERS), shape)),
        ]
    return st.one_of(plain)


def dtype_of(kind: Kind) -> Any:
    what, detail = kind
    if what == "struct":
        return np.dtype([(name, dtype_of(part)) for name, part in detail.items()])
    simple = {"fixed": lambda: f"S{detail}", "variable": h5py.string_dtype, "enum": lambda: ENUM}
    return simple[what]() if what in simple else np.dtype(detail)


def values(draw: st.DrawFn, kind: Kind, n_rows: int) -> Any:
    what, detail = kind
    if what == "fixed":
        whole = [word.encode()[:detail].decode("utf-8", "ignore").encode() for word in draw(words(n_rows))]
        return np.array(whole, f"S{detail}")
    if what == "variable":
        return np.array(draw(words(n_rows)), dtype=object)
    if what == "enum":
        return np.array(draw(st.lists(st.sampled_from([0, 1, 5]), min_size=n_rows, max_size=n_rows)), "i2")
    if what == "struct":
        rows = np.zeros(n_rows, dtype_of(kind))
        for name, part in detail.items():
            rows[name] = values(draw, part, n_rows)
        return rows
    dtype = np.dtype(detail)
    return draw(hnp.arrays(dtype.base, (n_rows, *dtype.shape)))


def words(n_rows: int) -> st.SearchStrategy[list[str]]:
    return st.lists(WORDS, min_size=n_rows, max_size=n_rows)


@st.composite
def record_arrays(draw: st.DrawFn) -> np.ndarray:
    members = draw(st.dictionaries(NAMES, kinds(2), min_size=1, max_size=4))
    found: np.ndarray = values(draw, ("struct", members), draw(st.integers(0, 9)))
    return found


def expected(value: Any, dtype: np.dtype) -> Any:
    """A value of h5py as a table gives it."""
    if dtype.names is not None:
        return {name: expected(value[name], dtype[name]) for name in dtype.names}
    if dtype.subdtype is not None:
        return [comparable(item) for item in np.asarray(value).tolist()]
    if h5py.check_enum_dtype(dtype) is not None:
        return {0: "red", 1: "green", 5: "blue"}[int(value)]
    return comparable(value.item() if isinstance(value, np.generic) else value)


def comparable(value: Any) -> Any:
    """A value that is equal to itself: NaN and -0.0 by their digits."""
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, bytes):
        return value.decode()
    return repr(value) if isinstance(value, (float, complex)) else value


@SETTINGS
@given(rows=record_arrays(), chunked=st.booleans(), data=st.data())
def test_record_arrays_are_read_and_written_as_h5py_reads_them(
    tmp_path_factory: Any, rows: np.ndarray, chunked: bool, data: st.DataObject
) -> None:
    folder: Path = tmp_path_factory.getbasetemp()
    path, again, once_more = folder / "rows.h5", folder / "again.h5", folder / "once_more.h5"
    for old in (path, again, once_more):
        old.unlink(missing_ok=True)
    with h5py.File(path, "w") as file:
        storage: dict[str, Any] = {
            "chunks": (4,),
            "maxshape": (None,),
            "compression": data.draw(st.sampled_from([None, "gzip"])),
        }
        file.create_dataset("rows", data=rows, **(storage if chunked else {}))
        stored = file["rows"][:]
    wanted = [expected(row, stored.dtype) for row in stored]
    for library in ("auto", "never"):
        with cn.open(path, library=library) as opened:
            table = opened["rows"]
            assert [comparable(row) for row in table.to_arrow().to_pylist()] == wanted
            for name, at in itertools.product(table.columns, {0, len(wanted) - 1} if wanted else set()):
                assert comparable(table[name].to_arrow().slice(at, 1).to_pylist()) == [wanted[at][name]]
    assert cn.check(path, deep=True).errors == []
    cn.convert(path, again, layout="hep001")
    cn.convert(again, once_more, layout="compound")
    with h5py.File(once_more) as file:
        written = file["rows"][:]
    assert [plain_row(row, written.dtype) for row in written] == wanted


def plain_row(value: Any, dtype: np.dtype) -> Any:
    """A row that was written again: enums are strings there."""
    if dtype.names is not None:
        return {name: plain_row(value[name], dtype[name]) for name in dtype.names}
    return comparable(np.asarray(value).tolist() if dtype.subdtype is not None else
                      value.item() if isinstance(value, np.generic) else value)  # fmt: skip
