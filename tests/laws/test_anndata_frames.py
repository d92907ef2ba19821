"""Whatever is done to a frame, or to a HEP001 table with such a face: anndata reads what it should hold, as we do."""

from __future__ import annotations

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
from tests.laws.frame_steps import Kinds, Model, Steps, begun, rows_of

KINDS: Kinds = {
    "int8": (pa.int8(), st.sampled_from((0, 1, -128, -127, 127, 5))),
    "uint64": (pa.uint64(), st.sampled_from((0, 1, 2**64 - 1, 7))),
    "float": (pa.float64(), st.sampled_from((0.0, 1.5, -2.0, 1e300, 9.969209968386869e36))),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.sampled_from(("", "a", "b", "größe", "a longer text", "NA"))),
    "category": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(("", "a", "b", "größe", "z"))),
}
NAMES = ("a", "b c", "ä", "codes", "values")


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


@pytest.mark.parametrize("how", ["ours", "theirs", "face"])
@settings(max_examples=max(settings().max_examples // 3, 10))
@given(data=st.data())
def test_anndata_reads_what_a_frame_should_hold(how: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("frames") / "x.h5ad"
    model, labels = begun(data, KINDS, NAMES)
    where = begin(how, path, rows_of(KINDS, model, {name: values for name, (_, values) in model.items()}, labels))
    check(path, where, model, labels)
    with cn.open(path, "r+") as f:
        steps = Steps(data, f[where], (model, labels), KINDS, NAMES)
        for _ in range(data.draw(st.integers(1, 8))):
            try:
                data.draw(st.sampled_from(steps.all))()
            except cn.errors.DataError as error:
                assert how == "face" and ("anndata" in str(error) or "to spare" in str(error)), error
            check(path, where, steps.model, steps.labels)
            assert all(one.trusted for one in steps.table.indexes)
            assert {one.column for one in steps.table.indexes} == steps.indexed & set(steps.model)
