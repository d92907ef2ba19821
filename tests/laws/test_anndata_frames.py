"""Whatever is done to a frame, or to a HEP001 table with such a face: anndata reads what it should hold, as we do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pandas as pd
import pyarrow as pa
import pytest
from anndata import settings as anndata_settings
from anndata.io import read_elem, write_elem
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as cn

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.sampled_from((0, 1, -128, -127, 127, 5))),
    "uint64": (pa.uint64(), st.sampled_from((0, 1, 2**64 - 1, 7))),
    "float": (pa.float64(), st.sampled_from((0.0, 1.5, -2.0, 1e300, 9.969209968386869e36))),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.sampled_from(("", "a", "b", "größe", "a longer text", "NA"))),
    "category": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(("", "a", "b", "größe", "z"))),
}
NAMES = ("a", "b c", "ä", "codes", "values")
Model = dict[str, tuple[str, list[Any]]]


def array(kind: str, values: list[Any]) -> pa.Array:
    arrow = KINDS[kind][0]
    if pa.types.is_dictionary(arrow):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, arrow)


@st.composite
def cells(draw: st.DrawFn, kind: str, n_rows: int) -> list[Any]:
    usual = KINDS[kind][1]
    cell = st.one_of(usual, usual, st.none()) if draw(st.booleans()) else usual
    return draw(st.lists(cell, min_size=n_rows, max_size=n_rows))


def rows_of(model: Model, columns: dict[str, list[Any]], labels: list[str]) -> pa.Table:
    arrays = {name: array(kind, columns[name]) for name, (kind, _) in model.items()}
    return pa.table({**arrays, "row": pa.array(labels, pa.string())})


def check(path: Path, where: str, model: Model, labels: list[str]) -> None:
    with h5py.File(path) as h5:
        theirs: pd.DataFrame = read_elem(h5["obs"])
    with cn.open(path) as f:
        ours = f[where].to_arrow()
        for name, (_, values) in model.items():
            assert [None if one != one else one for one in ours[name].to_pylist()] == values, name  # noqa: PLR0124
        assert ours["row"].to_pylist() == labels
        for one in f[where].verify_indexes():
            raise AssertionError(one)
    assert list(theirs.columns) == list(model) and theirs.index.tolist() == labels
    for name, (kind, values) in model.items():
        found = [None if pd.isna(one) else one for one in theirs[name].astype(object).tolist()]
        assert found == values, name
        assert isinstance(theirs[name].dtype, pd.CategoricalDtype) == (kind == "category")


def begin(how: str, path: Path, table: pa.Table) -> str:
    """The rows as a frame, or as a table with one; gives the path of what is to be changed."""
    if how == "theirs":
        df = table.to_pandas(types_mapper=_nullable).set_index("row")
        df.index = pd.Index(df.index.astype(object), name="row")
        with h5py.File(path, "w") as h5, anndata_settings.override(allow_write_nullable_strings=True):
            write_elem(h5, "obs", df)
    elif how == "ours":
        cn.write(path, table, "obs", layout="anndata", labels=["row"])
    else:
        cn.write(path, table, "obs", labels=["row"], anndata=True)
    with cn.open(path) as f:
        return "obs/_hep001" if "obs/_hep001" in f else "obs"


def _nullable(kind: pa.DataType) -> Any:
    return {pa.int8(): pd.Int8Dtype(), pa.uint64(): pd.UInt64Dtype(), pa.bool_(): pd.BooleanDtype(),
            pa.string(): pd.StringDtype()}.get(kind)  # fmt: skip


class Steps:
    """Changes drawn one after another, done to a table and to the model; what is refused changes neither."""

    def __init__(self, data: st.DataObject, table: cn.Table, model: Model, labels: list[str]) -> None:
        self.draw, self.table, self.model, self.labels = data.draw, table, model, labels
        self.indexed: set[str] = set()

    def append(self) -> None:
        n_rows = self.draw(st.integers(0, 5))
        new = {name: self.draw(cells(kind, n_rows)) for name, (kind, _) in self.model.items()}
        names = [f"new{len(self.labels) + row}" for row in range(n_rows)]
        self.table.append(rows_of(self.model, new, names))
        self.model = {name: (kind, [*values, *new[name]]) for name, (kind, values) in self.model.items()}
        self.labels = [*self.labels, *names]

    def update(self) -> None:
        name = self.draw(st.sampled_from(sorted(self.model)))
        kind, values = self.model[name]
        if not values:
            return
        rows = self.draw(st.lists(st.integers(0, len(values) - 1), unique=True, min_size=1, max_size=4))
        new = self.draw(cells(kind, len(rows)))
        self.table.update(name, rows, array(kind, new))
        changed = list(values)
        for row, value in zip(rows, new, strict=True):
            changed[row] = value
        self.model = {**self.model, name: (kind, changed)}

    def truncate(self) -> None:
        n_rows = self.draw(st.integers(max(0, len(self.labels) - 3), len(self.labels)))
        self.table.truncate(n_rows)
        self.model = {name: (kind, values[:n_rows]) for name, (kind, values) in self.model.items()}
        self.labels = self.labels[:n_rows]

    def add(self) -> None:
        free = [name for name in NAMES if name not in self.model]
        if not free:
            return
        kind = self.draw(st.sampled_from(sorted(KINDS)))
        values = self.draw(cells(kind, len(self.labels)))
        self.table.add_column(free[0], array(kind, values))
        self.model = {**self.model, free[0]: (kind, values)}

    def replace(self) -> None:
        name, kind = self.draw(st.sampled_from(sorted(self.model))), self.draw(st.sampled_from(sorted(KINDS)))
        values = self.draw(cells(kind, len(self.labels)))
        self.table.replace_column(name, array(kind, values))
        self.indexed.discard(name)
        self.model = {**self.model, name: (kind, values)}

    def drop(self) -> None:
        if len(self.model) < 2:
            return
        name = self.draw(st.sampled_from(sorted(self.model)))
        self.table.drop_column(name)
        self.indexed.discard(name)
        self.model = {one: column for one, column in self.model.items() if one != name}

    def rename(self) -> None:
        free = [name for name in NAMES if name not in self.model]
        if not free:
            return
        name = self.draw(st.sampled_from(sorted(self.model)))
        self.table.rename_column(name, free[-1])
        self.indexed = {free[-1] if one == name else one for one in self.indexed}
        self.model = {free[-1] if one == name else one: column for one, column in self.model.items()}

    def index(self) -> None:
        name = self.draw(st.sampled_from(sorted(self.model)))
        self.table.build_index(name, self.draw(st.sampled_from(("sorted_rows", "chunk_minmax", "bitmap"))))
        self.indexed.add(name)

    @property
    def all(self) -> list[Callable[[], None]]:
        often = [self.append, self.index, self.update] * 2
        return [*often, self.truncate, self.add, self.replace, self.drop, self.rename]


@pytest.mark.parametrize("how", ["ours", "theirs", "face"])
@settings(max_examples=max(settings.get_profile(settings._current_profile).max_examples // 3, 10))
@given(data=st.data())
def test_anndata_reads_what_a_frame_should_hold(how: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("frames") / "x.h5ad"
    kinds = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    n_rows = data.draw(st.integers(1, 6))
    model: Model = {name: (kind, data.draw(cells(kind, n_rows))) for name, kind in zip(NAMES, kinds, strict=False)}
    labels = [f"r{row}" for row in range(n_rows)]
    where = begin(how, path, rows_of(model, {name: values for name, (_, values) in model.items()}, labels))
    check(path, where, model, labels)
    with cn.open(path, "r+") as f:
        steps = Steps(data, f[where], model, labels)
        for _ in range(data.draw(st.integers(1, 8))):
            try:
                data.draw(st.sampled_from(steps.all))()
            except cn.errors.DataError as error:
                assert how == "face" and ("anndata" in str(error) or "to spare" in str(error)), error
            check(path, where, steps.model, steps.labels)
            assert all(one.trusted for one in steps.table.indexes)
            assert {one.column for one in steps.table.indexes} == steps.indexed & set(steps.model)
