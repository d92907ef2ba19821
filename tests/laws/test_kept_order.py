"""SORTED_ROWS merged with rows that are appended: what is stored is what sorting all rows again would give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade import limits, writing
from tests.conftest import SetLimits

COLUMNS = {
    "integers": st.integers(-3, 40),
    "integers with missing": st.one_of(st.none(), st.integers(-3, 40)),
    "floats": st.one_of(st.sampled_from([float("nan"), 0.0, -0.0, float("inf")]), st.integers(-3, 40).map(float)),
    "floats with missing": st.one_of(st.none(), st.just(float("nan")), st.integers(0, 9).map(float)),
    "text": st.one_of(st.none(), st.text("ab", max_size=3)),
    "categories": st.one_of(st.none(), st.sampled_from("abc")),
}
TYPES = {"integers": pa.int32(), "floats": pa.float64(), "text": pa.string(), "categories": pa.string()}


def order_of(values: list[Any], codes: dict[str, int] | None) -> tuple[list[int], int, int]:
    """The rows in order, and the lengths of both tails, said as plainly as can be."""
    missing = [row for row, value in enumerate(values) if value is None]
    nan = [row for row, value in enumerate(values) if value is not None and value != value]  # noqa: PLR0124
    rest = [row for row in range(len(values)) if row not in missing and row not in nan]
    key = (lambda row: codes[values[row]]) if codes is not None else (lambda row: values[row])
    return [*sorted(rest, key=key), *missing, *nan], len(missing), len(nan)


def check_stored(path: Path, values: list[Any], is_coded: bool) -> None:
    with cn.open(path) as file:
        table = file["t"]
        assert [(index.fresh, index.trusted) for index in table.indexes] == [(True, True)]
        categories = table.to_arrow(dictionaries=True)["x"].combine_chunks() if is_coded else None
    codes = {value: code for code, value in enumerate(categories.dictionary.to_pylist())} if categories else None
    rows, n_missing, n_nan = order_of(values, codes)
    with h5py.File(path) as file:
        index = file["t/_search_indexes/x__sorted_rows"]
        assert index[:].tolist() == rows
        assert (index.attrs["fill_tail_length"], index.attrs["nan_tail_length"]) == (n_missing, n_nan)


@pytest.mark.parametrize("name", COLUMNS)
@given(data=st.data())
def test_merging_is_sorting(tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("order") / "x.h5"
    kind, one = TYPES[name.split(" ", maxsplit=1)[0]], COLUMNS[name]
    is_coded = name == "categories"
    values = data.draw(st.lists(one, max_size=60))
    batches = data.draw(st.lists(st.tuples(st.lists(one, max_size=20), st.booleans()), min_size=1, max_size=4))
    block, sample = data.draw(st.tuples(st.sampled_from([1, 4, 16, 8192]), st.sampled_from([1, 2, 5, 512])))
    with limits.override(sorted_block=block, sorted_sample=sample):
        options = cn.column(chunk_rows=data.draw(st.sampled_from([1, 7, 64])), categories=True if is_coded else None)
        cn.write(path, {"x": pa.array(values, kind)}, "t", columns={"x": options})
        with cn.open(path, "r+", durability="fast") as file:
            file["t"].build_index("x", "sorted_rows")
            for batch, is_sorted in batches:
                if is_sorted:  # as rows mostly come
                    batch = sorted((value for value in batch if value is not None and value == value), key=lambda v: v)  # type: ignore[arg-type, return-value]  # noqa: PLR0124
                file["t"].append({"x": pa.array(batch, kind)})
                values = values + batch
                assert file["t"].verify_indexes() == []
        check_stored(path, values, is_coded)


def rows_written(monkeypatch: pytest.MonkeyPatch, path: Path, n_rows: int, added: Any) -> int:
    """How many rows of the index an append writes."""
    cn.write(path, {"x": np.arange(n_rows) * 2}, "t", columns={"x": cn.column(chunk_rows=1024)})
    counts = []
    write = writing.write_rows

    def counting(dataset: Any, stored: Any, start: int, image: Any, count: int) -> None:
        counts.append(count)
        write(dataset, stored, start, image, count)

    with cn.open(path, "r+", durability="fast") as file, monkeypatch.context() as patch:
        file["t"].build_index("x", "sorted_rows")
        patch.setattr(writing, "write_rows", counting)
        file["t"].append({"x": added})
        assert file["t"].verify_indexes() == [] and file["t"].indexes[0].trusted
    return sum(counts)


@pytest.mark.parametrize("late", [0, 300], ids=["in order", "nearly in order"])
def test_keys_in_order_rewrite_the_end_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_limits: SetLimits, late: int
) -> None:
    """What is written does not grow with the table: n and 4 n rows cost the same."""
    set_limits(sorted_block=64)
    few, many = (
        rows_written(monkeypatch, tmp_path / f"{n}.h5", n, np.arange(n * 2 - late, n * 2 + 100))
        for n in (64 * 64, 4 * 64 * 64)
    )
    assert few == many <= 100 + late + 300 + 64


def test_an_index_that_is_not_what_was_trusted_is_built_again(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, {"x": np.arange(100)}, "t")
    with cn.open(path, "r+") as file:
        file["t"].build_index("x", "sorted_rows")
        file.h5["t/_search_indexes/x__sorted_rows"][99] = 1 << 20
        file["t"].append({"x": [50]})
        assert file["t"].verify_indexes() == []
