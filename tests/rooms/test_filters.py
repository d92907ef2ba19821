"""Filters chosen by name on writing: every one that is available here, its options, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5z

import colonnade as cn
from colonnade.filters.names import NAMES

hdf5plugin = pytest.importorskip("hdf5plugin")
NUMBERS = {name: number for number, name in NAMES.items()}
N_ROWS = 5000
CHANCE = np.random.default_rng(1)
DATA: dict[str, np.ndarray] = {
    "f8": np.cumsum(CHANCE.normal(size=N_ROWS)),
    "f4": np.cumsum(CHANCE.normal(size=N_ROWS)).astype("f4"),
    "i8": np.arange(N_ROWS) * 3,
    "u2": (np.arange(N_ROWS) % 1000).astype("u2"),
    "flag": np.arange(N_ROWS) % 3 == 0,
    "text": np.array([f"row {number % 50}" for number in range(N_ROWS)]),
}
EXACT = [
    "lzf", "shuffle+lzf", "bzip2", "bzip2:1", "shuffle+bzip2:5", "zstd:3", "lz4", "blosc", "blosc2", "bitshuffle",
    "deflate:4", "shuffle+deflate+fletcher32", "fletcher32",
]  # fmt: skip
LOSSY = {"zfp:rate=16": 1e-1, "zfp:precision=30": 1e-3, "zfp:accuracy=0.01": 0.01, "sz:absolute=0.01": 0.01,
         "sz3:absolute=0.01": 0.01}  # fmt: skip


def has_szip() -> bool:
    return bool(h5z.filter_avail(4)) and bool(h5z.get_filter_info(4) & 1)


@pytest.mark.parametrize("filters", EXACT)
def test_every_row_comes_back(tmp_path: Path, filters: str) -> None:
    path = tmp_path / "x.h5"
    options = {name: cn.column(filters=filters, chunk_rows=700, categories=False) for name in DATA}
    cn.write(path, DATA, "t", columns=options)
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.append({name: values[:900] for name, values in DATA.items()})
        table.update("i8", [0, 4999, 5001], [-1, -2, -3])
        table.truncate(5600)
    with h5py.File(path) as h5:
        step = filters.rsplit("+", maxsplit=1)[-1].split(":", maxsplit=1)[0]
        assert h5["t/f8"].id.get_create_plist().get_filter(len(filters.split("+")) - 1)[0] == NUMBERS[step]
        assert h5["t/f8"][5000:].tolist() == DATA["f8"][:600].tolist()
    with cn.open(path) as file:
        for name, values in DATA.items():
            expected = np.concatenate([values, values[:600]])
            if name == "i8":
                expected[[0, 4999, 5001]] = [-1, -2, -3]
            assert file["t"][name].to_arrow().to_pylist() == expected.tolist(), name
    assert cn.check(path, deep=True) == []


@pytest.mark.skipif(not has_szip(), reason="this HDF5 library cannot compress with szip")
@pytest.mark.parametrize("filters", ["szip", "szip:ec:8", "szip:nn:32"])
def test_szip(tmp_path: Path, filters: str) -> None:
    path = tmp_path / "x.h5"
    data = {name: DATA[name] for name in ("f8", "f4", "i8", "u2")}
    cn.write(path, data, "t", columns={name: cn.column(filters=filters, chunk_rows=500) for name in data})
    with cn.open(path) as file:
        assert file["t"]["f8"].filters.startswith("szip:")
        for name, values in data.items():
            assert np.array_equal(file["t"][name][:], values)
        assert file["t"].info.left_to_library  # our own reader does not undo it, and says so
    for bad in ("szip:no", "szip:nn:7", "szip:nn:64", "szip:nn:8:1"):
        with pytest.raises(cn.errors.UsageError, match="szip"):
            cn.write(path, data, "bad", columns={"f8": cn.column(filters=bad)})


@pytest.mark.parametrize("filters", LOSSY)
@pytest.mark.parametrize("name", ["f8", "f4"])
def test_lossy_filters_keep_floats_approximately(tmp_path: Path, filters: str, name: str) -> None:
    path = tmp_path / "x.h5"
    options = {name: cn.column(filters=filters, chunk_rows=1000)}
    cn.write(path, {name: DATA[name][:2500]}, "t", columns=options)
    with cn.open(path) as file:
        values = file["t"][name][:]
        assert values.dtype == DATA[name].dtype
        assert np.abs(values - DATA[name][:2500]).max() <= LOSSY[filters] * (1.01 if name == "f4" else 1)
        assert filters.startswith("sz:") or not np.array_equal(values, DATA[name][:2500])
    for bad in (np.nan, np.inf, None):
        column = [1.0, 2.0, bad, 4.0]
        with pytest.raises(cn.errors.DataError) as caught:
            cn.write(path, {name: column}, "bad", columns={name: cn.column(filters=filters)})
        assert (caught.value.column, caught.value.row) == (name, 2)


def test_rows_behind_a_lossy_filter_do_not_change_again(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    options = {"f8": cn.column(filters="zfp:rate=12", chunk_rows=1000)}
    cn.write(path, {"f8": DATA["f8"][:2000]}, "t", columns=options)
    with cn.open(path, "r+") as file:
        table = file["t"]
        before = table["f8"][:]
        table.append({"f8": DATA["f8"][:1500]})  # the chunks in the file are full: they stay
    with cn.open(path, "r+") as file:
        table = file["t"]
        assert np.array_equal(table["f8"][:2000], before)
        after = table["f8"][:]
        changes: list[Any] = [
            lambda: table.append({"f8": [1.0]}),
            lambda: table.update("f8", [0], [1.0]),
            lambda: table.truncate(3400),
        ]
        for change in changes:
            with pytest.raises(cn.errors.UnsupportedError, match="approximate"):
                change()
        table.truncate(3000)
        assert np.array_equal(table["f8"][:], after[:3000])
        with pytest.raises(cn.errors.DataError) as caught:
            table.append({"f8": [1.0, None]})
        assert caught.value.row in (1, 3001)
        file.repack(chunk_rows=500)
        assert np.array_equal(table["f8"][:], after[:3000])
        with pytest.raises(cn.errors.UsageError, match="changes values"):
            file.repack(filters="zfp:rate=8")


def test_zfp_can_keep_values(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    data = {name: DATA[name] for name in ("f8", "f4", "i8")}
    data["f8"] = np.where(np.arange(N_ROWS) % 7 == 0, np.nan, data["f8"])
    cn.write(path, data, "t", columns={name: cn.column(filters="zfp:reversible") for name in data})
    with cn.open(path) as file:
        for name, values in data.items():
            assert np.array_equal(file["t"][name].to_arrow().to_numpy(), values, equal_nan=name != "i8")


BAD: dict[str, tuple[str, str]] = {
    "zfp": ("f8", "changes values: add by how much"),
    "zfp:rate=0": ("f8", "add by how much"),
    "zfp:rate=8:9": ("f8", "add by how much"),
    "zfp:precision=2.5": ("f8", "add by how much"),
    "sz:rate=8": ("f8", "sz:absolute=NUMBER"),
    "sz3": ("f8", "add by how much"),
    "zfp:rate=8": ("i8", "floats of 4 or 8 bytes only"),
    "zfp:reversible": ("u2", "signed numbers"),
    "lzf:3": ("f8", "no options"),
    "bzip2:10": ("f8", "from 1 to 9"),
    "scale-offset:-1": ("f8", "from 0 to 30"),
    "fcidecomp": ("f8", "not for columns"),
    "lzo": ("f8", "not offered"),
    "snappy": ("f8", "unknown filter"),
}


@pytest.mark.parametrize("filters", BAD)
def test_refused(tmp_path: Path, filters: str) -> None:
    name, reason = BAD[filters]
    with pytest.raises(cn.errors.UsageError, match=reason):
        cn.write(tmp_path / "x.h5", {name: DATA[name]}, "t", columns={name: cn.column(filters=filters)})
    assert not (tmp_path / "x.h5").exists()


@pytest.mark.parametrize("filters", ["bzip2", "zfp:rate=8", "sz:absolute=1", "zstd"])
def test_without_the_package_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filters: str) -> None:
    monkeypatch.setattr("colonnade.h5.filters.import_plugins", lambda: None)
    with pytest.raises(cn.errors.UsageError, match=r"pip install 'colonnade\[filters\]'"):
        cn.write(tmp_path / "x.h5", {"x": [1.5]}, "t", columns={"x": cn.column(filters=filters)})


def test_a_deep_check_verifies_checksums(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, {"x": DATA["f8"]}, "t", columns={"x": cn.column(filters="fletcher32", chunk_rows=1000)})
    with h5py.File(path) as h5:
        where = h5["t/x"].id.get_chunk_info(2).byte_offset + 100
    with path.open("r+b") as file:
        file.seek(where)
        file.write(b"spoiled")
    assert cn.check(path) == []
    assert [finding.path for finding in cn.check(path, deep=True)] == ["/t/x"]


@pytest.mark.parametrize("filters", ["bzip2:3", "lzf", "shuffle+lz4"])
def test_the_command_line_takes_the_same_names(tmp_path: Path, filters: str) -> None:
    from click.testing import CliRunner

    from colonnade.cli.commands import main

    path = tmp_path / "x.h5"
    cn.write(path, {"x": DATA["i8"]}, "t")
    assert CliRunner().invoke(main, ["repack", str(path), "--filters", filters]).exit_code == 0
    with cn.open(path) as file:
        assert file["t"]["x"].filters == filters and np.array_equal(file["t"]["x"][:], DATA["i8"])
    result = CliRunner().invoke(main, ["repack", str(path), "--filters", "snappy"])
    assert result.exit_code == 2 and "unknown filter" in result.output
