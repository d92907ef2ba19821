"""Whatever is done to an ArtifactDB data frame: dolomite-base reads what it should hold, as we do: it is valid."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as cn
from tests.laws.frame_steps import Kinds, Model, Steps, begun, rows_of

dolomite = pytest.importorskip("dolomite_base")

UTC = dt.UTC
KINDS: Kinds = {
    "int8": (pa.int8(), st.sampled_from((0, 1, -128, -127, 127, 5))),
    "int64": (pa.int64(), st.sampled_from((0, 1, -(2**31), 2**31 - 1, 7))),
    "float": (pa.float64(), st.sampled_from((0.0, 1.5, float("inf"), -float("inf"), 1e300, float("nan")))),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.sampled_from(("", "a", "größe", "a longer text", "NA", "NA_"))),
    "day": (pa.date32(), st.dates()),
    "time": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    "category": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(("", "a", "b", "größe", "z"))),
}
NAMES = ("a", "b/c", "ä", "data", "column_names")


def plain(value: Any) -> Any:
    """A value as it can be compared: NaN as a word, dates and times as their text."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124
        return "NaN"
    if isinstance(value, dt.datetime):
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def theirs(column: Any, kind: str) -> list[Any]:
    """A column as dolomite-base reads it, as Python values."""
    values = list(column)
    if kind in ("day", "time"):
        read = dt.date.fromisoformat if kind == "day" else dt.datetime.fromisoformat
        return [None if value is None else plain(read(value)) for value in values]
    missing = [value is None or value is np.ma.masked for value in values]
    return [None if gone else plain(getattr(value, "item", lambda value=value: value)())
            for value, gone in zip(values, missing, strict=True)]  # fmt: skip


def check(path: Path, model: Model, labels: list[str]) -> None:
    if path.is_dir():
        dolomite.validate_object(str(path))
        frame = dolomite.read_object(str(path))
        assert list(frame.get_column_names()) == list(model)
        assert list(frame.get_row_names()) == labels
        for name, (kind, values) in model.items():
            assert theirs(frame.get_column(name), kind) == [plain(value) for value in values], name
    with cn.open(path) as f:
        ours = f["data_frame"].to_arrow()
        for name, (_, values) in model.items():
            assert [plain(one) for one in ours[name].to_pylist()] == [plain(value) for value in values], name
        assert ours["row"].to_pylist() == labels
        for one in f["data_frame"].verify_indexes():
            raise AssertionError(one)
    found = [one for one in cn.check(path, deep=True) if one.severity == "error" and path.is_dir()]
    assert not found, found


@pytest.mark.parametrize("form", ["directory", "heap", "file"])
@settings(max_examples=max(settings().max_examples // 3, 10))
@given(data=st.data())
def test_dolomite_reads_what_a_frame_should_hold(form: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("frames") / ("x.h5" if form == "file" else "x")
    model, labels = begun(data, KINDS, NAMES)
    rows = rows_of(KINDS, model, {name: values for name, (_, values) in model.items()}, labels)
    options = {name: cn.column(strings="variable") for name, (kind, _) in model.items() if kind == "text"}
    form_options = {"directory": {"directory": True}, "file": {},
                    "heap": {"directory": True, "version": "1.1", "columns": options}}[form]  # fmt: skip
    cn.write(path, rows, "data_frame", layout="artifactdb", labels=["row"], **form_options)  # type: ignore[arg-type]
    check(path, model, labels)
    with cn.open(path, "r+") as f:
        steps = Steps(data, f["data_frame"], (model, labels), KINDS, NAMES)
        for _ in range(data.draw(st.integers(1, 8))):
            try:
                data.draw(st.sampled_from(steps.all))()
            except cn.errors.DataError as error:
                assert form == "heap" and "marks missing rows" in str(error), error
            check(path, steps.model, steps.labels)
            assert all(one.trusted for one in steps.table.indexes)
            assert {one.column for one in steps.table.indexes} == steps.indexed & set(steps.model)
    assert not [one for one in cn.check(path, deep=True) if one.severity == "error"]
