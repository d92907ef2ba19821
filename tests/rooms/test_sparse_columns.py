"""Sparse columns: a table holds each column twice, once sparse, and both must always say the same."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import ConflictError, DataError, FormatError, UsageError
from colonnade.sparse import verify_sparse
from tests.conftest import SetLimits

from .sparse_decoder import Decoder
from .test_cli import call

SPARSE = {"s": cn.column(sparse=True, chunk_rows=100)}
N = 1000


def some(kind: pa.DataType, make: Callable[[int], Any], n_rows: int = N, seed: int = 0) -> pa.Array:
    """A column of which one row in twenty has a value."""
    random = np.random.default_rng(seed)
    return pa.array(
        [make(number) if random.random() < 0.05 and not 200 <= number < 450 else None for number in range(n_rows)], kind
    )


KINDS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "double": (pa.float64(), lambda n: n / 7),
    "float": (pa.float32(), float),
    "int8": (pa.int8(), lambda n: n % 256 - 128),
    "uint64": (pa.uint64(), lambda n: (1 << 64) - 1 - n),
    "bool": (pa.bool_(), lambda n: n % 2 == 0),
    "timestamp": (pa.timestamp("us", "UTC"), lambda n: dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(n)),
    "date": (pa.date32(), lambda n: dt.date(2020, 1, 1) + dt.timedelta(n)),
    "duration": (pa.duration("ms"), lambda n: dt.timedelta(milliseconds=n)),
    "decimal": (pa.decimal128(9, 2), lambda n: decimal.Decimal(n) / 100),
    "bytes": (pa.binary(3), lambda n: bytes((n % 256, 1, 0))),
}


def make(path: Path, values: pa.Array, **more: Any) -> None:
    data = {"n": np.arange(len(values)), "d": values, "s": values}
    cn.write(path, data, table="t", columns={**SPARSE, "d": cn.column(strings="auto")}, **more)


def same(path: Path) -> None:
    """Both columns are equal, however they are asked for; the file is right; HDF5 reads all else."""
    with cn.open(path) as file:
        table = file["t"]
        assert not table.problems
        both = table.to_arrow()
        assert both["s"].equals(both["d"]) and len(both) == len(table)
        for rows in (table[::7], table[50:60], table[3:3], table.take([5, 3, 5]), table[::-3], table[-1:]):
            found = rows.to_arrow()
            assert found["s"].equals(found["d"])
        joined = pa.Table.from_batches(list(table.batches(rows=77)))
        assert joined["s"].equals(both["s"])
        for predicate in ("{} is missing", "{} is not missing"):
            rows_of = [table.where(predicate.format(name)).row_numbers().tolist() for name in "ds"]
            assert rows_of[0] == rows_of[1]
        where = table.info.by_name["s"]
        assert where.storage == "sectioned" and where.problem is None
    found = cn.check(path, deep=True)  # type: ignore[assignment]
    assert [(one.rule, one.severity, one.path) for one in found] == [("C5", "note", "/t/s")]  # type: ignore[attr-defined]
    with h5py.File(path) as plain:
        assert len(plain["t/n"]) == len(both) and plain["t"].get("s", getlink=True) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_and_every_change(tmp_path: Path, kind: str) -> None:
    arrow, value = KINDS[kind]
    path = tmp_path / "t.h5"
    make(path, some(arrow, value))
    same(path)
    with cn.open(path, "r+") as file:
        table = file["t"]
        for seed in range(3):
            more = some(arrow, value, 70 + seed, seed)
            table.append({"n": np.arange(len(more)), "d": more, "s": more})
        nothing = pa.nulls(300, arrow)
        table.append({"n": np.arange(300), "d": nothing, "s": nothing})
    same(path)
    with cn.open(path, "r+") as file, file.transaction():
        table = file["t"]
        there = table.where("d is not missing").row_numbers()[3:6].tolist()
        rows = [0, 99, 100, 250, 251, 1300, *there]
        values = pa.array([value(1), value(2), value(3), value(4), None, value(5), None, value(6), None], arrow)
        for name in "ds":
            table.update(name, rows, values)
        assert table.take(there).to_arrow()["s"].null_count == 2
    same(path)
    with cn.open(path, "r+") as file:
        file["t"].truncate(555)
        more = some(arrow, value, 40, 7)
        file["t"].append({"n": np.arange(len(more)), "d": more, "s": more})
    same(path)
    with cn.open(path) as file:
        assert len(file["t"]) == 595
        assert file["t"]["s"].dtype == arrow
        assert file["t"].stats()["s"].n_missing == file["t"].stats()["d"].n_missing


def test_queries_and_aggregates(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    make(path, some(*KINDS["double"]), index={"n": "sorted_rows"})
    with cn.open(path) as file:
        table = file["t"]
        for text in ("{} > 50", "not {} > 50", "{} between 3 and 90 and n < 500", "{0} in (1, 2) or {0} is missing"):
            found = [table.where(text.format(name)).to_arrow() for name in "ds"]
            assert found[0].equals(found[1]) and len(found[0])
        for function in ("count", "sum", "min", "max", "mean"):
            sums = table.aggregate(a=("d", function), b=("s", function))
            assert sums["a"] == sums["b"] and sums["a"]
        grouped = [table.aggregate({"n": "sum"}, by=name) for name in "ds"]
        assert grouped[0].columns == grouped[1].columns
        assert table["s"][:].mask.sum() == table.to_arrow()["s"].null_count
        assert pickle.loads(pickle.dumps(table.where("s > 50"))).to_arrow().num_rows
        plan = table.where("n < 100 and s > 1").explain()
        assert plan.chunks_read <= plan.chunks_total and "s" in str(plan)


def test_most_rows_missing_cost_nothing(tmp_path: Path) -> None:
    n_rows = 1_000_000
    values = np.zeros(n_rows)
    missing = np.ones(n_rows, dtype=bool)
    missing[[7, 500_000]] = False
    array = pa.array(values, mask=missing)
    cn.write(tmp_path / "a.h5", {"s": array}, columns={"s": cn.column(sparse=True)})
    cn.write(tmp_path / "b.h5", {"s": array})
    assert (tmp_path / "a.h5").stat().st_size < 8_000 < (tmp_path / "b.h5").stat().st_size
    with cn.open_table(tmp_path / "a.h5") as table:
        assert len(table) == n_rows and table.where("s == 0").row_numbers().tolist() == [7, 500_000]
        assert table["s"].stored_bytes < 500


def test_zero_and_the_usual_fill_are_values(tmp_path: Path) -> None:
    """What is defined is a value, whatever it is."""
    low = -(2**63)
    values = pa.array([0, None, low, low + 1, 2**63 - 1, None])
    cn.write(tmp_path / "t.h5", {"s": values}, columns={"s": cn.column(sparse=True)})
    assert cn.read(tmp_path / "t.h5")["s"].to_pylist() == values.to_pylist()
    nan = pa.array([float("nan"), None, 9.969209968386869e36])
    cn.write(tmp_path / "n.h5", {"s": nan}, columns={"s": cn.column(sparse=True)})
    assert [str(one) for one in cn.read(tmp_path / "n.h5")["s"].to_pylist()] == ["nan", "None", "9.969209968386869e+36"]


def test_texts_names_and_order(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    times = some(*KINDS["timestamp"])
    cn.write(
        path, {"n": np.arange(N), "s": times, "x": some(*KINDS["int8"])}, table="t", labels={"id": np.arange(N)},
        columns={"s": cn.column(sparse=True, description="when"), "x": cn.column(sparse=True, units="keV")},
    )  # fmt: skip
    with cn.open(path, "r+") as file:
        table = file["t"]
        assert table.columns == ["n", "s", "x"] and table["s"].description == "when" and table["x"].units == "keV"
        table["s"].description = "later " * 100
        table["x"].units = None
        table["x"].units = "days since 1970-01-01"
        assert table["x"].dtype == pa.int8() and table["x"].units == "days since 1970-01-01"
        with pytest.raises(UsageError):
            table["s"].units = "h"
        table.rename_column("s", "time")
        assert table.columns == ["n", "time", "x"] and table["time"].description == "later " * 100
        assert table.to_arrow()["time"].combine_chunks().equals(times)
        table.drop_column("x")
        assert table.columns == ["n", "time"] and table.labels == ["id"]
        table.add_column("x", some(*KINDS["bool"]), sparse=True, description="yes")
        assert table.columns == ["n", "time", "x"] and table["x"].description == "yes"
        table.append({"n": [1], "time": [None], "x": [True], "id": [4]})
    assert [one.rule for one in cn.check(path, deep=True)] == ["C5", "C5"]
    assert Decoder(path.read_bytes(), "t/x").attributes()["description"] == (b"yes", ())
    with cn.open(path, "r+") as file:
        file.drop("t")
        assert file.tables() == [] and "t" not in file.h5
        assert list(file.h5) == []
    with h5py.File(path, "r+") as file:
        file["t"] = [1, 2, 3]


def test_replaced_tables_and_errors_leave_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    make(path, some(*KINDS["double"]))
    make(path, some(*KINDS["int8"]), mode="replace")
    same(path)
    before = cn.read(path)
    with pytest.raises(DataError), cn.open(path, "r+") as file:
        file["t"].append({"n": [1, 2], "d": [1, 2], "s": [1, 300]})
    with pytest.raises(ZeroDivisionError), cn.open(path, "r+") as file, file.transaction():
        file["t"].append({"n": [1], "d": [1], "s": [1]})
        file["t"].update("s", [0], [5])
        file["t"].drop_column("d")
        assert len(file["t"]) == N + 1 and file["t"][0]["s"] == 5
        raise ZeroDivisionError
    assert cn.read(path).equals(before)
    same(path)
    cn.write(path, {"s": [1]}, table="t", mode="replace")
    assert cn.read(path).to_pydict() == {"s": [1]} and cn.check(path) == []


def test_a_stream_that_does_not_fit_into_memory(tmp_path: Path, set_limits: SetLimits) -> None:
    set_limits(sparse_row_bytes=1000)
    path = tmp_path / "t.h5"
    arrow, value = KINDS["double"]
    parts = [some(arrow, value, 333, seed) for seed in range(9)]
    batches = (pa.record_batch({"n": np.arange(len(part)), "d": part, "s": part}) for part in parts)
    cn.write(path, batches, table="t", columns=SPARSE)
    same(path)
    assert cn.read(path)["s"].to_pylist() == [one for part in parts for one in part.to_pylist()]


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    numbers, words = pa.array([1, None]), pa.array(["a", None])
    for values, options, match in (
        (words, {}, "sparse columns hold numbers"),
        (words.dictionary_encode(), {}, "categorical"),
        (numbers, {"fill": -1}, "fill"),
        (numbers, {"categories": True}, "categories"),
        (numbers, {"filters": "scale-offset"}, "scale-offset"),
        (KINDS["timestamp"][0], {"units": "h"}, "units"),
    ):
        array = pa.nulls(2, values) if isinstance(values, pa.DataType) else values
        with pytest.raises(UsageError, match=match):
            cn.write(path, {"s": array}, columns={"s": cn.column(sparse=True, **options)})
    with pytest.raises(UsageError, match="label"):
        cn.write(path, {"s": numbers, "a": numbers}, columns={"s": cn.column(sparse=True)}, labels=["s"])
    with pytest.raises(DataError, match="row 1"):
        cn.write(path, {"s": numbers}, columns={"s": cn.column(sparse=True, fill=None)})
    assert not path.exists()
    make(path, some(*KINDS["double"]))
    with cn.open(path, "r+") as file:
        with pytest.raises(UsageError, match="search index"):
            file["t"].build_index("s", "chunk_minmax")
        for name, options in (("s", {}), ("d", {"sparse": True})):
            with pytest.raises(UsageError, match="cannot replace"):
                file["t"].replace_column(name, np.arange(N), **options)  # type: ignore[arg-type]
    with pytest.raises(ConflictError), cn.open(path) as file:
        file["t"].append({"n": [1], "d": [1], "s": [1]})
    same(path)


def test_files_of_others(tmp_path: Path) -> None:
    """An h5py file and a file object are read; the sparse columns of an h5py file are not changed."""
    path = tmp_path / "t.h5"
    make(path, some(*KINDS["double"]))
    with h5py.File(path) as plain, cn.open(plain) as file:
        found = file["t"].to_arrow()
        assert found["s"].equals(found["d"])
    with h5py.File(path, "r+") as plain, cn.open(plain, "r+") as file:
        assert file["t"].to_arrow()["s"].equals(found["s"])
        for change in (
            lambda: file["t"].append({"n": [1], "d": [1.0], "s": [1.0]}),
            lambda: file["t"].update("s", [1], [1.0]),
            lambda: file["t"].drop_column("s"),
            lambda: file["t"].add_column("z", np.arange(N), sparse=True),
            lambda: file.create("u", {"s": [1]}, columns={"s": cn.column(sparse=True)}),
            lambda: file.drop("t"),
        ):
            with pytest.raises(UsageError, match="opened from a path"):
                change()
        file["t"].update("d", [1], [0.5])
        changed = file["t"].to_arrow()
    with cn.open(io.BytesIO(path.read_bytes())) as file:
        assert file["t"].to_arrow().equals(changed)
    with cn.open(path, "r+") as file:
        file["t"].update("s", [1], [0.5])
    same(path)


def test_a_column_of_another_length_does_not_cost_the_others(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    make(path, some(*KINDS["double"]))
    with h5py.File(path, "r+") as plain:
        for name in ("n", "d"):
            plain["t"][name].resize((N + 5,))
    with cn.open(path) as file:
        assert len(file["t"]) == N + 5 and len(file["t"]["n"][:]) == N + 5
        with pytest.raises(FormatError, match="C1"):
            file["t"]["s"][:]
    assert "C1" in [one.rule for one in cn.check(path)]


def test_the_columns_that_hdf5_reads_say_how_long_the_table_is(tmp_path: Path) -> None:
    """While rows are appended the sparse columns are behind: an index that follows must not see that."""
    path = tmp_path / "t.h5"
    values = {name: some(*KINDS["double"]) for name in ("a", "b", "c")}
    columns = {name: cn.column(sparse=True) for name in values}
    kinds = {"n": ["sorted_rows", "chunk_minmax"]}
    cn.write(path, {"n": np.arange(N), **values}, table="t", columns=columns, index=kinds)
    with cn.open(path, "r+") as file:
        for number in range(3):
            file["t"].append({"n": [number], "a": [1.0], "b": [None], "c": [2.0]})
        assert all(one.fresh and one.trusted for one in file["t"].indexes) and len(file["t"]) == N + 3
        assert file["t"].verify_indexes() == []
        assert file["t"].where("n == 2").to_arrow().to_pydict()["c"] == [values["c"][2].as_py(), 2.0]
    with h5py.File(path, "r+") as plain:
        plain["t/n"].resize((N + 9,))
    with cn.open(path) as file:
        assert len(file["t"]) == N + 9 and len(file["t"]["n"][:]) == N + 9


def test_a_broken_sparse_column_does_not_cost_the_others(tmp_path: Path) -> None:
    """Every byte of its header, chunk map and first chunk, one at a time."""
    path = tmp_path / "t.h5"
    make(path, some(*KINDS["double"]))
    with cn.open_sparse(path, "t/s") as array:
        record = array.records()[0]
    good = path.read_bytes()
    right = cn.read(path, "t", ["n", "d"])
    spans = [(record.address, record.address + record.size), *((at, at + 60) for at in find(good, b"OCHK", b"EAHD"))]
    for start, stop in spans:
        for at in range(start, stop, 3):
            bad = bytearray(good)
            bad[at] ^= 0x41
            path.write_bytes(bytes(bad))
            with cn.open(path) as file:
                assert file["t"].select("n", "d").to_arrow().equals(right)
                try:
                    found = file["t"]["s"].to_arrow()
                except FormatError:
                    continue
                places = np.flatnonzero(~found.is_null().to_numpy())
                assert len(places) == N - right["d"].null_count
    bad = bytearray(good)
    bad[record.address + 5] ^= 1
    path.write_bytes(bytes(bad))
    assert ("sparse.chunk", "/t/s") in [(one.rule, one.path) for one in cn.check(path, deep=True).errors]


def find(data: bytes, *words: bytes) -> list[int]:
    return [data.index(word) for word in words]


@pytest.mark.parametrize("dtype", [h5py.enum_dtype({"a": 1, "b": 2}, "i1"), "<c8", ">f4", "S3", "<u2", "V2", "<f2"])
def test_columns_that_others_made(tmp_path: Path, dtype: Any) -> None:
    """A sparse array of any type in a table group is a column, if its elements have a form in Arrow."""
    path = tmp_path / "t.h5"
    cn.write(path, {"n": np.arange(50)}, table="t")
    with cn.create_sparse(path, "t/s", shape=(50,), dtype=dtype, chunks=(20,), max_shape=(None,)) as array:
        raw = bytes([1, 2, 65, 66] * 8)[: 2 * np.dtype(dtype).itemsize]
        values = np.frombuffer(raw, dtype=np.dtype(dtype))
        array.write([3, 41], values)
    with h5py.File(path, "r+") as file:
        file["t"].attrs["column-order"] = np.array([b"n", b"s"])
    with cn.open(path) as file:
        found = file["t"].to_arrow()["s"].combine_chunks()
        assert np.flatnonzero(~found.is_null().to_numpy(zero_copy_only=False)).tolist() == [3, 41]
        assert file["t"].take([41, 3, 4]).to_arrow()["s"].null_count == 1
        assert file["t"].where("s is not missing").count() == 2
        file["t"].stats()


def test_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    make(path, some(*KINDS["double"]))
    for words in (("ls",), ("info",), ("head",), ("schema",), ("stats",), ("count",), ("check",), ("check", "--deep")):
        said = call(words[0], path, *words[1:])
        assert said.exit_code == 0, (words, said.output)
    assert "sectioned" in call("info", path, "--json").output
    assert call("where", path, "s is not missing").exit_code == 0
    assert call("fix", path).exit_code == 0
    same(path)


def test_a_hostile_length_is_not_allocated(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    cn.write(path, {"s": pa.array([None, 1.5])}, table="t", columns={"s": cn.column(sparse=True)})
    with cn.open_sparse(path, "t/s") as array:
        array.resize((1 << 45,))
    with cn.open(path) as file:
        table = file["t"]
        assert len(table) == 1 << 45
        assert table.head(2).to_arrow()["s"].to_pylist() == [None, 1.5]
        assert next(iter(table.batches(rows=10)))["s"].null_count == 9
        assert table.take([1, 1 << 44]).to_arrow()["s"].to_pylist() == [1.5, None]
        with pytest.raises(UsageError):
            table.to_arrow()
    assert verify_sparse(path) == []
