"""Tables that are begun with few rows get the chunks and filters of larger ones; what users have chosen stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade import writing
from colonnade.edit.create import limit_of_chunks


def rows(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "ts": numbers * 10,
            "energy": np.random.default_rng(first).normal(size=count),
            "flag": numbers % 7 == 0,
            "kind": pa.array(np.array(["muon", "pion"])[numbers % 2]).dictionary_encode(),
            "name": pa.array([None if n % 3 == 0 else f"row {n}" for n in numbers.tolist()], pa.string()),
            "list": pa.array([[n] * (n % 3) for n in numbers.tolist()], pa.list_(pa.int64())),
        }
    )


def grown(path: Path, first: int, step: int, n_appends: int, **options: Any) -> list[pa.Table]:
    """A table of `first` rows and `n_appends` appends of `step` rows."""
    parts = [rows(0, first)]
    cn.write(path, parts[0], "t", **options)
    with cn.open(path, "r+", durability="fast") as file:
        for number in range(n_appends):
            parts.append(rows(first + number * step, step))
            file["t"].append(parts[-1])
    return parts


@pytest.mark.parametrize(("first", "step", "n_appends"), [(10, 100_000, 1), (10, 700, 100), (0, 5000, 14), (1, 1, 300)])
def test_chunks_and_filters_grow_with_the_table(tmp_path: Path, first: int, step: int, n_appends: int) -> None:
    path = tmp_path / "x.h5"
    parts = grown(path, first, step, n_appends, index={"ts": ["chunk_minmax", "sorted_rows"], "kind": "bitmap"})
    n_rows = first + step * n_appends
    with cn.open(path) as file:
        table = file["t"]
        for name in ("ts", "energy", "flag"):
            chunk_rows = table[name].chunk_rows
            assert chunk_rows is not None and min(n_rows / 4, 8192) <= chunk_rows <= max(64, 2 * n_rows)
        if n_rows > 10_000:
            assert table["ts"].filters != "none" and table["flag"].filters != "none"
            assert table["energy"].filters == "none"  # nothing is gained
        assert table.verify_indexes() == [] and {index.fresh for index in table.indexes} == {True}
        expected = pa.concat_tables(parts)
        for name in expected.column_names:
            given, read = expected[name].to_pylist(), table[name].to_arrow().to_pylist()
            assert given == read, name
    assert cn.check(path, deep=True) == []


OPTIONS: dict[str, tuple[Any, Any, str]] = {
    "chunk_rows": (cn.column(chunk_rows=100), 100, "none"),
    "filters": (cn.column(filters="none"), None, "none"),
    "deflate": (cn.column(filters="deflate:1"), None, "deflate:1"),
    "both": (cn.column(chunk_rows=100, filters="shuffle+deflate:4"), 100, "shuffle+deflate:4"),
    "portable": (cn.column(filters="portable"), None, "shuffle+deflate:1"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_were_set_are_kept(tmp_path: Path, name: str) -> None:
    options, chunk_rows, filters = OPTIONS[name]
    path = tmp_path / "x.h5"
    grown(path, 10, 10_000, 2, columns={"ts": options})
    with cn.open(path, "r+") as file:
        column = file["t"]["ts"]
        assert column.chunk_rows == chunk_rows or (chunk_rows is None and (column.chunk_rows or 0) > 10_000)
        assert column.filters == filters and dict(column.attrs) == {}
        file.repack(chunk_rows="auto", filters="auto")
        assert column.chunk_rows == 20_010 and column.filters == "shuffle+deflate:1"
        file.repack(chunk_rows=500, filters="none")
        file["t"].append(rows(20_010, 10_000))
        assert column.chunk_rows == 500 and column.filters == "none"
    assert cn.check(path) == []


def test_copies_are_linear_in_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All copies together are fewer rows than the table has, whatever the size of its appends."""
    copied = []
    write = writing.write_rows

    def counting(dataset: Any, stored: Any, start: int, image: Any, count: int) -> None:
        copied.append(count)
        write(dataset, stored, start, image, count)

    monkeypatch.setattr("colonnade.columns.writer.write_rows", counting)
    for n_rows in (20_000, 80_000):
        path = tmp_path / f"{n_rows}.h5"
        copied.clear()
        cn.write(path, {"x": np.arange(10)}, "t")
        with cn.open(path, "r+", durability="fast") as file:
            for first in range(10, n_rows, 200):
                file["t"].append({"x": np.arange(first, first + 200)})
            assert np.array_equal(file["t"]["x"][:], np.arange(len(file["t"])))
        assert 0 < sum(copied) < n_rows
        assert path.stat().st_size < n_rows * 8


def test_the_file_grows_little_when_chunks_do(tmp_path: Path) -> None:
    """Bytes of the file, against a file that was written at once."""
    parts = grown(tmp_path / "grown.h5", 10, 5000, 30)
    cn.write(tmp_path / "whole.h5", pa.concat_tables(parts), "t")
    assert (tmp_path / "grown.h5").stat().st_size < 1.6 * (tmp_path / "whole.h5").stat().st_size


def test_chunks_of_wide_tables_stay_short(tmp_path: Path) -> None:
    assert [limit_of_chunks(size) for size in (0, 8, 8 * 2000, 1 << 30)] == [65_536, 65_536, 4194, 1024]
    path = tmp_path / "x.h5"
    cn.write(path, {f"c{number}": np.zeros(10) for number in range(300)}, "t")
    with cn.open(path, "r+", durability="fast") as file:
        file["t"].append({f"c{number}": np.zeros(60_000) for number in range(300)})
        assert file["t"]["c0"].chunk_rows == (64 << 20) // (8 * 300)


def test_values_that_the_new_filters_cannot_hold(tmp_path: Path) -> None:
    """Rows in the file that need all bits of their type, and new ones that scale-offset would suit."""
    path = tmp_path / "x.h5"
    cn.write(path, {"x": np.array([-(2**63) + 2, 2**63 - 1] * 40)}, "t")
    with cn.open(path, "r+") as file:
        file["t"].append({"x": np.arange(9000)})
        file["t"].append({"x": np.arange(500_000)})
        assert file["t"]["x"][:3].tolist() == [-(2**63) + 2, 2**63 - 1, -(2**63) + 2]
        assert file["t"]["x"][-1] == 499_999 and file["t"]["x"][9079] == 8999
