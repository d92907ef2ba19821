"""Tables and columns given to pyarrow, pandas, Polars, Dask, xarray and scikit-learn as those packages expect them."""

from __future__ import annotations

import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import colonnade as cn
from colonnade.errors import UsageError
from tests.conftest import SetLimits

N_ROWS = 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    data = {
        "ts": np.arange(N_ROWS), "energy": pa.array([None, *np.arange(1, N_ROWS) / 2]),
        "n": pa.array([None, *range(1, N_ROWS)]), "label": ["muon", None] * (N_ROWS // 2),
        "id": [f"r{row}" for row in range(N_ROWS)],
    }  # fmt: skip
    options = {
        "energy": cn.column(units="MeV", description="Deposited", chunk_rows=100),
        "ts": cn.column(chunk_rows=100),
    }
    cn.write(tmp_path / "x.h5", data, "t", columns=options, labels=["id"])
    return tmp_path / "x.h5"


@pytest.fixture
def table(path: Path) -> cn.Table:
    return cn.open_table(path)


def test_constructors(table: cn.Table) -> None:
    assert pa.table(table).equals(table.to_arrow())
    assert pl.DataFrame(table).shape == (N_ROWS, 5)
    assert pd.DataFrame(table[:5])["ts"].tolist() == [0, 1, 2, 3, 4]
    assert np.asarray(table["ts"]).tolist() == list(range(N_ROWS))
    assert pl.Series(table["n"]).null_count() == 1
    assert pa.chunked_array(table["energy"]).equals(table["energy"].to_arrow())
    assert pd.Series(table["energy"]).isna().sum() == 1


def test_a_column_written_back_keeps_its_type(table: cn.Table, tmp_path: Path) -> None:
    cn.write(tmp_path / "y.h5", {"n": table["n"], "label": table["label"]}, "t")
    assert cn.read(tmp_path / "y.h5", "t").to_pydict() == table.select("n", "label").to_arrow().to_pydict()


def test_a_column_has_the_shape_of_an_array(table: cn.Table, tmp_path: Path) -> None:
    column = table["energy"]
    assert (column.shape, column.ndim, column.chunks) == ((N_ROWS,), 1, ((100,) * 10,))
    cn.write(tmp_path / "y.h5", {"a": pa.array([], pa.int64())}, "t")
    assert cn.open_table(tmp_path / "y.h5")["a"].chunks == ((0,),)
    assert cn.open_table(tmp_path / "y.h5")["a"].to_dask_array().compute().tolist() == []


def test_dask_reads_a_column_on_request(table: cn.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, int]] = []
    original = cn.Column._read

    def recorded(self: cn.Column, rows: slice, dictionaries: bool = False) -> pa.ChunkedArray:
        read.append((rows.start, rows.stop))
        return original(self, rows, dictionaries)

    monkeypatch.setattr(cn.Column, "_read", recorded)
    array = table["energy"].to_dask_array(rows=250)
    assert isinstance(array, da.Array) and array.dtype == np.float64 and array.chunks == ((250,) * 4,)
    assert all(stop == 0 for _, stop in read)  # for the dtype
    read.clear()
    assert array[600:610].compute().tolist() == [row / 2 for row in range(600, 610)]
    assert read in ([(600, 610)], [(500, 750)])  # the rows, or their chunk: versions of Dask differ
    assert float(da.nanmax(da.asarray(table["energy"])).compute()) == (N_ROWS - 1) / 2
    assert table["label"].to_dask_array().compute()[:2].tolist() == ["muon", None]
    with pytest.raises(UsageError, match="column 'n' has missing rows"):
        table["n"].to_dask_array().compute()


def test_several_columns_as_a_matrix(table: cn.Table) -> None:
    matrix = table.select("energy", "n", "ts").to_numpy(matrix=True)
    assert matrix.shape == (N_ROWS, 3) and matrix.dtype == np.float64
    assert np.isnan(matrix[0, :2]).all() and matrix[3].tolist() == [1.5, 3, 3]
    assert table.select("ts").to_numpy(matrix=True).dtype == np.int64
    assert table.where("ts < 0").select("ts", "n").to_numpy(matrix=True).shape == (0, 2)
    assert table.select().to_numpy(matrix=True).shape == (N_ROWS, 0)
    with pytest.raises(UsageError, match=r"column 'label' of .* cannot be part of a matrix"):
        table.select("ts", "label").to_numpy(matrix=True)


def test_xarray(table: cn.Table, tmp_path: Path) -> None:
    dataset = table.where("ts < 10").to_xarray()
    assert isinstance(dataset, xr.Dataset) and dataset.sizes == {"id": 10}
    assert float(dataset["energy"].sel(id="r3")) == 1.5
    assert dataset["energy"].attrs == {"units": "MeV", "description": "Deposited"}
    assert np.isnan(dataset["n"].values[0]) and dataset["label"].values[1] is None
    by_time = table.select("ts", "energy").to_xarray(dims="ts")
    assert by_time.sizes == {"ts": N_ROWS} and list(by_time.data_vars) == ["energy"]
    assert table.select("energy").to_xarray().sizes == {"row": N_ROWS}
    with pytest.raises(UsageError, match="the dimension 'x' is not among the columns"):
        table.to_xarray(dims="x")
    grid = {"x": [0, 0, 1, 1], "y": [5, 6, 5, 6], "value": [1.0, 2.0, 3.0, 4.0]}
    cn.write(tmp_path / "grid.h5", grid, "t")
    square = cn.open_table(tmp_path / "grid.h5").to_xarray(dims=["x", "y"])
    assert square["value"].sel(x=1, y=5) == 3 and square["value"].shape == (2, 2)
    cn.write(tmp_path / "twice.h5", {"x": [0, 0], "y": [5, 5], "value": [1.0, 2.0]}, "t")
    with pytest.raises(UsageError, match="several rows have the same values of x, y"):
        cn.open_table(tmp_path / "twice.h5").to_xarray(dims=["x", "y"])


def test_a_large_table_that_is_read_whole_warns_once(path: Path, set_limits: SetLimits) -> None:
    set_limits(unasked_bytes=1000)
    table = cn.open_table(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pa.table(table.where("ts < 3")).num_rows == 3
        assert pa.table(table[:5]).num_rows == 5
        assert table.to_arrow().num_rows == table.dataset().to_table().num_rows == N_ROWS
        if tuple(map(int, pl.__version__.split(".")[:2])) >= (1, 34):
            assert table.lazy().collect().height == N_ROWS
    with pytest.warns(
        UserWarning, match=r"all 1,000 rows of /t are read .*\.duckdb\(\).*\.lazy\(\).*\.dataset\(\)"
    ) as seen:
        assert pa.table(table).num_rows == pa.table(table).num_rows == N_ROWS
    assert len(seen) == 1 and seen[0].filename == __file__
