"""Every kind of data that `write` takes arrives in the file as it was: values, types, missing rows, labels."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import DataError, UsageError

FLOAT_FILL = 9.9692099683868690e36


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.h5"


def write(path: Path, data: Any, **options: Any) -> pa.Table:
    """Write one table and read it back."""
    cn.write(path, data, table="t", **options)
    return cn.read(path, "t")


def values(table: pa.Table, name: str) -> list[Any]:
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        return [value.as_py() for value in column]
    found: list[Any] = column.to_pylist()
    return found


def raw(path: Path, name: str) -> np.ndarray[Any, Any]:
    """The stored elements as h5py sees them."""
    with h5py.File(path) as file:
        return np.asarray(file["t"][name][...])


def fill_of(path: Path, name: str) -> Any:
    with h5py.File(path) as file:
        dataset = file["t"][name]
        assert dataset.id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED
        return dataset.fillvalue


# -- Arrow --

SMALL = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "f": pa.array([0.5, float("inf"), None], pa.float64()),
        "s": pa.array(["a", None, "né"], pa.string()),
        "b": pa.array([True, None, False]),
    }
)


def as_table() -> Any:
    return SMALL


def as_record_batch() -> Any:
    return SMALL.to_batches()[0]


def as_reader() -> Any:
    return pa.RecordBatchReader.from_batches(SMALL.schema, SMALL.to_batches(max_chunksize=1))


def as_chunked_table() -> Any:
    return pa.concat_tables([SMALL.slice(0, 1), SMALL.slice(1, 2)])


def as_iterator() -> Any:
    return iter(SMALL.to_batches(max_chunksize=2))


def as_generator_of_tables() -> Any:
    return (SMALL.slice(start, 1) for start in range(3))


def as_list_of_batches() -> Any:
    return SMALL.to_batches(max_chunksize=1)


def as_sliced_batch() -> Any:
    padded = pa.concat_tables([SMALL.slice(2, 1), SMALL, SMALL.slice(0, 1)]).combine_chunks()
    return padded.slice(1, 3)


class OnlyStream:
    """An object that speaks the Arrow C stream and nothing else."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return SMALL.__arrow_c_stream__(requested_schema)


class OnlyArray:
    """An object that speaks the Arrow C array interface and nothing else."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return SMALL.to_batches()[0].__arrow_c_array__(requested_schema)


ARROW_SHAPES = [
    as_table,
    as_record_batch,
    as_reader,
    as_chunked_table,
    as_iterator,
    as_generator_of_tables,
    as_list_of_batches,
    as_sliced_batch,
    OnlyStream,
    OnlyArray,
]


@pytest.mark.parametrize("make", ARROW_SHAPES)
def test_arrow_in_every_shape(path: Path, make: Callable[[], Any]) -> None:
    """A table, a batch, a stream and an iterator of the same rows give the same file."""
    found = write(path, make())
    assert found.schema.names == SMALL.schema.names
    assert found.schema.types == SMALL.schema.types
    for name in SMALL.schema.names:
        assert values(found, name) == SMALL.column(name).to_pylist()


@pytest.mark.parametrize("make", [as_table, as_reader, as_iterator])
def test_file_create_takes_the_same(path: Path, make: Callable[[], Any]) -> None:
    """File.create writes what cn.write writes, and hands back the table."""
    with cn.open(path, "w") as file:
        table = file.create("deep/er/t", make(), title="Three")
        assert (table.path, len(table), table.title) == ("/deep/er/t", 3, "Three")
    with h5py.File(path) as h5:
        assert h5["deep/er/t/i"][[0, 2]].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("given", "stored_as"),
    [
        (pa.array(["x", None, "yy"], pa.large_string()), pa.string()),
        (pa.array(["x", None, "yy"], pa.string_view()), pa.string()),
        (pa.array([b"x", None, b"yy"], pa.large_binary()), pa.binary()),
        (pa.array([b"x", None, b"yy"], pa.binary_view()), pa.binary()),
        (pa.array([[1], None, [2, 3]], pa.large_list(pa.int16())), pa.list_(pa.int16())),
        (pa.array([[1], None, [2, 3]], pa.list_view(pa.int16())), pa.list_(pa.int16())),
        (pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, None], pa.int64())), pa.int64()),
        (pa.array([None, None, None], pa.null()), pa.null()),
        (pa.array([1, None, 3], pa.uint64()), pa.uint64()),
        (pa.array([1.5, None, 3], pa.float16()), pa.float16()),
    ],
    ids=lambda item: str(item) if isinstance(item, pa.DataType) else str(item.type),
)
def test_arrow_variants_become_the_plain_type(path: Path, given: pa.Array, stored_as: pa.DataType) -> None:
    """Large, view and run-end forms hold the same values as the ordinary type."""
    found = write(path, pa.table({"x": given}))
    assert found.column("x").type == stored_as
    assert values(found, "x") == given.to_pylist()


def test_field_metadata_become_column_texts(path: Path) -> None:
    """Units and description in an Arrow field's metadata are written; a column option wins over them."""
    said = {"units": "MeV", "description": "Energy."}
    schema = pa.schema([pa.field("e", pa.float64(), metadata=said), pa.field("p", pa.float64(), metadata=said)])
    data = pa.table([pa.array([1.0]), pa.array([2.0])], schema=schema)
    write(path, data, columns={"p": cn.column(units="GeV/c")})
    with h5py.File(path) as file:
        group = file["t"]
        assert (group["e"].attrs["units"], group["e"].attrs["description"]) == (b"MeV", b"Energy.")
        assert (group["p"].attrs["units"], group["p"].attrs["description"]) == (b"GeV/c", b"Energy.")


def test_a_field_that_is_not_nullable_gets_no_fill(path: Path) -> None:
    """nullable=False means that no value needs to be spared."""
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.int64())])
    write(path, pa.table([pa.array([1]), pa.array([2])], schema=schema))
    with h5py.File(path) as file:
        states = [file["t"][name].id.get_create_plist().fill_value_defined() for name in "xy"]
    assert states == [h5py.h5d.FILL_VALUE_DEFAULT, h5py.h5d.FILL_VALUE_USER_DEFINED]


# -- pandas --


def test_pandas_default_index_is_not_written(path: Path) -> None:
    """The row numbers that pandas makes up are no label."""
    found = write(path, pd.DataFrame({"x": [1, 2]}))
    assert found.column_names == ["x"]
    assert cn.open_table(path, "t").labels == []


@pytest.mark.parametrize(("name", "label"), [(None, "index"), ("run", "run")])
def test_pandas_index_becomes_a_label(path: Path, name: str | None, label: str) -> None:
    """A pandas index is a row label, under its name or the one reset_index gives."""
    frame = pd.DataFrame({"x": [1.5, 2.5]}, index=pd.Index(["r1", "r2"], name=name))
    write(path, frame)
    with cn.open_table(path, "t") as table:
        assert (table.columns, table.labels) == (["x"], [label])
        pd.testing.assert_frame_equal(table.to_pandas(), frame)
    with h5py.File(path) as file:
        assert file["t"].attrs["_index"] == label.encode()
        assert file["t"].attrs["column-order"].tolist() == [b"x"]


@pytest.mark.parametrize("names", [["a", "b"], [None, None], ["a", None]])
def test_pandas_multi_index(path: Path, names: list[str | None]) -> None:
    """Each level of a MultiIndex is a label, in their order, and comes back as the level it was."""
    index = pd.MultiIndex.from_tuples([("x", 1), ("y", 2), ("y", 3)], names=names)
    frame = pd.DataFrame({"v": [1, 2, 3]}, index=index)
    write(path, frame)
    with cn.open_table(path, "t") as table:
        assert len(table.labels) == 2
        assert table.columns == ["v"]
        pd.testing.assert_frame_equal(table.to_pandas(), frame)


def test_pandas_index_named_like_a_column(path: Path) -> None:
    """An index that has the name of a column takes another name; neither is lost."""
    frame = pd.DataFrame({"x": [1, 2]}, index=pd.Index([5, 6], name="x"))
    found = write(path, frame)
    assert values(found, "x") == [1, 2]
    assert found.num_columns == 2
    assert found.column(1).to_pylist() == [5, 6]
    assert cn.open_table(path, "t").columns == ["x"]


@pytest.mark.parametrize("ordered", [False, True])
def test_pandas_categorical(path: Path, ordered: bool) -> None:
    """Categories, also unused ones, their order, and missing rows survive."""
    column = pd.Categorical(["b", None, "a", "b"], categories=["c", "b", "a"], ordered=ordered)
    found = write(path, pd.DataFrame({"x": column})).column("x")
    assert found.type.ordered is ordered
    assert found.combine_chunks().dictionary.to_pylist() == ["c", "b", "a"]
    assert found.to_pylist() == ["b", None, "a", "b"]
    assert raw(path, "x").tolist() == [1, -1, 2, 1]
    with h5py.File(path) as file:
        assert bool(file["t/x_categories"].attrs["ordered"]) is ordered


def test_pandas_categorical_of_numbers(path: Path) -> None:
    """Categories need not be text."""
    found = write(path, pd.DataFrame({"x": pd.Categorical([30, 10, None, 30])}))
    assert found.column("x").to_pylist() == [30, 10, None, 30]
    assert raw(path, "x_categories").tolist() == [10, 30]


@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    [
        ("Int8", [1, None, -128], pa.int8()),
        ("UInt16", [1, None, 65534], pa.uint16()),
        ("Int64", [1, None, 2**62], pa.int64()),
        ("Float32", [1.5, None, 2.5], pa.float32()),
        ("boolean", [True, None, False], pa.bool_()),
        ("string", ["a", None, "nan"], pa.string()),
        ("str", ["a", None, "nan"], pa.string()),
        ("int64[pyarrow]", [1, None, 3], pa.int64()),
        ("string[pyarrow]", ["a", None, "nan"], pa.string()),
    ],
)
def test_pandas_nullable_dtypes(path: Path, dtype: str, given: list[Any], expected: pa.DataType) -> None:
    """pandas' own missing values are missing rows, in the type that was there."""
    found = write(path, pd.DataFrame({"x": pd.Series(given, dtype=dtype)}))
    assert found.column("x").type == expected
    assert values(found, "x") == given


@pytest.mark.parametrize("gone", [None, float("nan"), np.nan, pd.NA, pd.NaT], ids=["None", "nan", "np", "NA", "NaT"])
def test_a_missing_object_never_becomes_text(path: Path, gone: Any) -> None:
    """None, NaN and NA in an object column are missing; the text "nan" stays text."""
    frame = pd.DataFrame({"x": pd.Series(["a", gone, "nan", ""], dtype=object)})
    assert values(write(path, frame), "x") == ["a", None, "nan", ""]
    assert "None" not in str(raw(path, "x"))


@pytest.mark.parametrize("gone", [None, float("nan"), pd.NA], ids=["None", "nan", "NA"])
def test_a_missing_object_in_a_dict_of_arrays(path: Path, gone: Any) -> None:
    """The same through a NumPy object array and through a pandas Series in a dict."""
    array = np.array(["a", gone, "nan"], dtype=object)
    found = write(path, {"x": array, "y": pd.Series(array, dtype=object)})
    assert values(found, "x") == ["a", None, "nan"]
    assert values(found, "y") == ["a", None, "nan"]


def test_pandas_float_nan(path: Path) -> None:
    """What pandas says about NaN in a float column holds: it is a missing value there."""
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0]})
    expected = pa.RecordBatchReader.from_stream(frame).read_all().column("x").to_pylist()
    found = values(write(path, frame), "x")
    np.testing.assert_equal(found, expected)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+02:00"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_pandas_timestamps(path: Path, zone: str | None, unit: Any) -> None:
    """Unit, time zone and NaT come back; the stored integers count from 1970 in UTC."""
    stamps = pd.Series(pd.to_datetime(["2024-03-31T01:30:00", None, "1969-12-31T23:59:59"])).dt.as_unit(unit)  # type: ignore[arg-type]
    if zone is not None:
        stamps = stamps.dt.tz_localize("UTC").dt.tz_convert(zone)
    found = write(path, pd.DataFrame({"x": stamps}))
    assert found.column("x").type == pa.timestamp(unit, zone)
    back, asked = found.to_pandas()["x"], stamps.rename("x")
    if zone is not None:  # Arrow makes zones of pytz where that is installed, which pandas tells apart from Python's
        assert back[0].utcoffset() == asked[0].utcoffset()
        back, asked = back.dt.tz_convert("UTC"), asked.dt.tz_convert("UTC")
    pd.testing.assert_series_equal(back, asked)
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    assert raw(path, "x")[[0, 2]].tolist() == [1711848600 * per_second, -per_second]


def test_pandas_timedelta_and_dates(path: Path) -> None:
    """Durations and Python dates keep their Arrow types."""
    frame = pd.DataFrame(
        {
            "d": pd.to_timedelta(["1 days", None]),
            "o": pd.Series([dt.date(2020, 2, 29), None], dtype=object),
            "t": pd.Series([dt.time(12, 30), None], dtype=object),
        }
    )
    found = write(path, frame)
    assert values(found, "o") == [dt.date(2020, 2, 29), None]
    assert values(found, "t") == [dt.time(12, 30), None]
    assert pa.types.is_duration(found.column("d").type)
    assert [None if value is None else pd.Timedelta(value) for value in values(found, "d")] == [
        pd.Timedelta("1D"),
        None,
    ]


def test_pandas_mixed_objects_are_refused(path: Path) -> None:
    """Objects without a common type are an error of the data, and no file appears."""
    with pytest.raises(DataError):
        cn.write(path, pd.DataFrame({"x": pd.Series([1, "a"], dtype=object)}), table="t")
    assert not path.exists()


# -- polars --


def test_polars_types(path: Path) -> None:
    """Categorical, Enum, List, Struct, Array, Decimal, Binary and string_view columns come through."""
    frame = pl.DataFrame(
        {
            "cat": pl.Series(["x", None, "y"], dtype=pl.Categorical),
            "enum": pl.Series(["lo", "hi", None], dtype=pl.Enum(["lo", "mid", "hi"])),
            "list": pl.Series([[1, 2], [3], None], dtype=pl.List(pl.Int32)),
            "array": pl.Series([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=pl.Array(pl.Float32, 2)),
            "struct": pl.Series([{"a": 1, "b": 1.5}, {"a": 2, "b": 2.5}, {"a": 3, "b": 3.5}]),
            "decimal": pl.Series([decimal.Decimal("1.25"), None, decimal.Decimal("-3.50")], dtype=pl.Decimal(10, 2)),
            "text": pl.Series(["a long text beyond twelve bytes", None, ""]),
            "bytes": pl.Series([b"\x00\x01", None, b""]),
        }
    )
    found = write(path, frame)
    for name in frame.columns:
        assert values(found, name) == frame[name].to_list(), name
    assert found.column("enum").combine_chunks().dictionary.to_pylist() == ["lo", "mid", "hi"]
    assert found.column("text").type == pa.string()
    assert found.column("decimal").type == pa.decimal128(10, 2)
    assert found.column("list").type == pa.list_(pa.int32())
    assert found.column("array").type == pa.list_(pa.float32(), 2)


@pytest.mark.parametrize("layout", ["hep001", "h5col"])
@pytest.mark.parametrize("strings", [pl.Categorical, pl.Enum(["a", "b"])])
def test_categories_of_polars_inside_lists_and_keys(path: Path, layout: str, strings: pl.DataType) -> None:
    """Their strings are views, which Arrow neither decodes nor casts."""
    lists, keys, structs = [["a", "b"], None, []], ["a", "b", None], [{"s": "a"}, {"s": "b"}, {"s": "b"}]
    data = {"l": lists, "k": keys, "s": structs}
    kinds = {"l": pl.List(strings), "k": strings, "s": pl.Struct({"s": strings})}
    frame = pl.DataFrame(data, schema=kinds)
    cn.write(path, pl.DataFrame(data), "t", layout=layout)
    cn.write(path, frame, "of categories", layout=layout)
    with cn.open(path, "r+") as file:
        assert file["of categories"].to_arrow().to_pydict() == data
        table = file["t"]
        table.append(frame)
        assert table.to_arrow().to_pydict() == {name: cells * 2 for name, cells in data.items()}
        table.truncate(3)
        table.upsert(frame[1:2].with_columns(l=frame["l"][:1]), on="k")
        is_old = tuple(map(int, pl.__version__.split(".")[:2])) < (1, 34)  # Polars 1.3 gives the codes of such a Series
        table.update("k", [0], frame["k"][1:2].to_list() if is_old else frame["k"][1:2])
        assert table["k"].to_arrow().to_pylist() == ["b", "b", None]
        assert table["l"].to_arrow().to_pylist() == [["a", "b"], ["a", "b"], []]


@pytest.mark.parametrize(
    "series",
    [
        pl.Series([1, None, 3], dtype=pl.Int8),
        pl.Series([1, None, 2**63], dtype=pl.UInt64),
        pl.Series([True, None, False]),
        pl.Series([dt.datetime(2020, 1, 1), None, dt.datetime(1960, 1, 1)], dtype=pl.Datetime("us", "UTC")),
        pl.Series([dt.date(2020, 1, 1), None, dt.date(1960, 1, 1)]),
        pl.Series([dt.time(1, 2, 3), None, dt.time(0)]),
        pl.Series([dt.timedelta(1), None, dt.timedelta(0)], dtype=pl.Duration("ms")),
    ],
    ids=lambda series: str(series.dtype),
)
def test_polars_plain_types(path: Path, series: pl.Series) -> None:
    """Numbers and times of polars, with missing rows, back into polars."""
    cn.write(path, pl.DataFrame({"x": series}), table="t")
    with cn.open_table(path, "t") as table:
        found = table.to_polars()["x"]
    assert found.dtype == series.dtype
    assert found.to_list() == series.to_list()


def test_polars_many_chunks(path: Path) -> None:
    """A polars frame of several chunks is written once, in order."""
    frame = pl.concat([pl.DataFrame({"x": [number] * 3}) for number in range(5)], rechunk=False)
    assert values(write(path, frame), "x") == [number for number in range(5) for _ in range(3)]


# -- DuckDB --


def test_duckdb_relation(path: Path) -> None:
    """A DuckDB relation is streamed; rows, types and missing values arrive."""
    relation = duckdb.sql(
        "select range::integer as i, range / 4.0 as f, case when range % 3 = 0 then null else 'r' || range end as s, "
        "range % 2 = 0 as b, timestamp '2020-01-01' + interval (range) second as t from range(10)"
    )
    found = write(path, relation)
    assert values(found, "i") == list(range(10))
    assert values(found, "f") == [number / 4 for number in range(10)]
    assert values(found, "s") == [None if number % 3 == 0 else f"r{number}" for number in range(10)]
    assert values(found, "b") == [number % 2 == 0 for number in range(10)]
    assert values(found, "t") == [dt.datetime(2020, 1, 1) + dt.timedelta(seconds=number) for number in range(10)]


def test_duckdb_many_rows_and_enum(path: Path) -> None:
    """More rows than one batch of DuckDB, and an ENUM as categories."""
    with duckdb.connect() as connection:
        connection.execute("create type mood as enum ('sad', 'ok', 'glad')")
        relation = connection.sql(
            "select range as i, (case range % 2 when 0 then 'glad' else 'sad' end)::mood as m from range(200000)"
        )
        found = write(path, relation)
    assert np.array_equal(found.column("i").to_numpy(), np.arange(200_000))
    assert found.column("m").combine_chunks().dictionary.to_pylist() == ["sad", "ok", "glad"]
    assert np.array_equal(raw(path, "m"), np.where(np.arange(200_000) % 2 == 0, 2, 0))


# -- dicts of arrays --


@pytest.mark.parametrize(
    ("given", "expected", "kind"),
    [
        ([1, None, 3], [1, None, 3], pa.int64()),
        ([1.5, None, 2.0], [1.5, None, 2.0], pa.float64()),
        (["a", None, "c"], ["a", None, "c"], pa.string()),
        ([True, None, False], [True, None, False], pa.bool_()),
        ([b"\xff", None, b""], [b"\xff", None, b""], pa.binary()),
        ([[1, 2], None, []], [[1, 2], None, []], pa.list_(pa.int64())),
        ((1, 2, 3), [1, 2, 3], pa.int64()),
        (range(3), [0, 1, 2], pa.int64()),
        ([np.int16(4), np.int16(5)], [4, 5], pa.int16()),
        ([dt.date(2000, 1, 1), None], [dt.date(2000, 1, 1), None], pa.date32()),
        ([decimal.Decimal("1.5"), None], [decimal.Decimal("1.5"), None], pa.decimal128(2, 1)),
        ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 2}], pa.struct([("a", pa.int64())])),
        (pa.chunked_array([[1], [2]]), [1, 2], pa.int64()),
        (pl.Series([1, None]), [1, None], pa.int64()),
        (pd.Series([1, 2], index=[9, 8]), [1, 2], pa.int64()),
    ],
    ids=lambda item: str(item) if isinstance(item, pa.DataType) else type(item).__name__,
)
def test_dict_of_sequences(path: Path, given: Any, expected: list[Any], kind: pa.DataType) -> None:
    """Lists, tuples, ranges and Series are columns."""
    found = write(path, {"x": given})
    assert found.column("x").type == kind
    assert values(found, "x") == expected


def test_list_of_complex_with_none(path: Path) -> None:
    """A Python list of complex numbers, one missing."""
    found = write(path, {"x": [1 + 2j, None, -3j]})
    assert values(found, "x") == [1 + 2j, None, -3j]
    assert raw(path, "x")[[0, 2]].tolist() == [1 + 2j, -3j]


NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("code", NUMBERS)
def test_numpy_numbers(path: Path, code: str, order: str) -> None:
    """Every number of NumPy in both byte orders; complex numbers are r and i for h5py."""
    dtype = np.dtype(order + code)
    array = np.array([0, 1, 100, 7], dtype=dtype)
    if dtype.kind == "c":
        array = array + np.array(2j, dtype=dtype.newbyteorder("="))
    native = array.astype(dtype.newbyteorder("="))
    write(path, {"x": array.astype(dtype)})
    found = raw(path, "x")
    assert found.dtype == native.dtype
    assert np.array_equal(found, native)
    with cn.open_table(path, "t") as table:
        assert table["x"][:].dtype == native.dtype
        assert np.array_equal(table["x"][:], native)


def test_numpy_strided_and_read_only(path: Path) -> None:
    """Views with steps, transposed memory and read-only arrays."""
    base = np.arange(20, dtype="i4").reshape(10, 2)
    fixed = np.arange(10.0)
    fixed.flags.writeable = False
    write(path, {"step": base[:, 1], "back": np.arange(10)[::-1], "fixed": fixed, "two": np.asfortranarray(base)})
    assert raw(path, "step").tolist() == list(range(1, 20, 2))
    assert raw(path, "back").tolist() == list(range(9, -1, -1))
    assert raw(path, "fixed").tolist() == list(range(10))
    assert np.array_equal(raw(path, "two"), base)


def test_numpy_bool(path: Path) -> None:
    """A NumPy bool is HDF5's FALSE/TRUE enum, which h5py reads as bool."""
    write(path, {"x": np.array([True, False])})
    assert raw(path, "x").dtype == np.bool_
    assert raw(path, "x").tolist() == [True, False]


def test_numpy_nan_is_a_value(path: Path) -> None:
    """A NaN in a NumPy float array is a value, not a missing row."""
    found = write(path, {"x": np.array([1.0, np.nan])})
    assert found.column("x").null_count == 0
    assert np.isnan(raw(path, "x")[1])


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        ("Y", pa.date32()),
        ("M", pa.date32()),
        ("W", pa.date32()),
        ("D", pa.date32()),
        ("h", pa.timestamp("s")),
        ("m", pa.timestamp("s")),
        ("s", pa.timestamp("s")),
        ("ms", pa.timestamp("ms")),
        ("us", pa.timestamp("us")),
        ("ns", pa.timestamp("ns")),
        ("25s", pa.timestamp("s")),
        ("2D", pa.date32()),
    ],
)
@pytest.mark.parametrize("order", ["<", ">"])
def test_datetime64_of_every_unit(path: Path, unit: str, kind: pa.DataType, order: str) -> None:
    """Dates and times of NumPy, in units Arrow has or the next finer one; NaT is missing."""
    array = np.array(["2001-01-01", "NaT", "1950-06-05"], dtype=f"{order}M8[{unit}]")
    found = write(path, {"x": array}).column("x")
    assert found.type == kind
    assert found.null_count == 1
    back = np.array([found[0].as_py(), found[2].as_py()], dtype="M8[us]")
    assert np.array_equal(back, array[[0, 2]].astype("M8[us]"))


@pytest.mark.parametrize("unit", ["D", "W", "h", "m", "s", "ms", "us", "ns"])
def test_timedelta64_of_every_unit(path: Path, unit: str) -> None:
    """Lengths of time of NumPy; NaT is missing."""
    array = np.array([5, "NaT", -7], dtype=f"m8[{unit}]")
    found = write(path, {"x": array}).column("x")
    assert pa.types.is_duration(found.type)
    assert found.null_count == 1
    back = np.array(found.to_numpy())
    assert np.array_equal(back[[0, 2]], array[[0, 2]])


@pytest.mark.parametrize("code", ["M8[ps]", "M8[fs]", "M8[as]", "m8[ps]", "m8[Y]", "m8[M]", "g", "G"])
def test_numpy_dtypes_without_an_arrow_type(path: Path, code: str) -> None:
    """What Arrow has no type for, or would cut or guess, is refused by column and with the way out; no file appears."""
    if code in "gG" and np.dtype(code).itemsize == np.dtype(code.replace("g", "f8").replace("G", "c16")).itemsize:
        pytest.skip("long double is double here")
    with pytest.raises(UsageError, match="cast") as caught:
        cn.write(path, {"bad": np.array([1, 2], dtype=code)}, table="t")
    assert caught.value.column == "bad"
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    "array",
    [
        np.array([b"a", b"", b"ccc"], dtype="S3"),
        np.array(["a", "", "ccc"], dtype="U3"),
        np.array(["a", "", "ccc"], dtype=">U5"),
        np.array(["a", "", "ccc"], dtype=object),
    ],
    ids=lambda array: str(array.dtype),
)
def test_numpy_text(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Text of NumPy of every kind is text; the empty string is a value."""
    found = write(path, {"x": array})
    assert found.column("x").type == pa.string()
    assert values(found, "x") == ["a", "", "ccc"]


def test_numpy_bytes_that_are_no_text(path: Path) -> None:
    """Bytes that are not UTF-8 stay bytes."""
    found = write(path, {"x": np.array([b"\xff\xfe", b"a"], dtype="S2")})
    assert values(found, "x") == [b"\xff\xfe", b"a"]


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 1 has no StringDType")
@pytest.mark.parametrize("gone", [None, float("nan")], ids=["None", "nan"])
def test_numpy_string_dtype(path: Path, gone: Any) -> None:
    """NumPy 2's StringDType, with what it takes for missing."""
    dtype = np.dtypes.StringDType(na_object=gone)
    found = write(path, {"x": np.array(["a", gone, "nan", "a longer text of many bytes"], dtype=dtype)})
    assert values(found, "x") == ["a", None, "nan", "a longer text of many bytes"]


MASKED: list[np.ma.MaskedArray[Any, Any]] = [
    np.ma.MaskedArray([1, 2, 3], [False, True, False], dtype="i4"),
    np.ma.MaskedArray([1, 2, 3], [False, True, False], dtype=">u2"),
    np.ma.MaskedArray([1.5, 2, 3], [False, True, False], dtype="f4"),
    np.ma.MaskedArray([1 + 1j, 2, 3], [False, True, False], dtype="c16"),
    np.ma.MaskedArray([True, True, False], [False, True, False]),
    np.ma.MaskedArray(np.array(["2020-01-01", "2021-01-01", "2022-01-01"], "M8[s]"), [False, True, False]),
    np.ma.MaskedArray([b"a", b"b", b"c"], [False, True, False], dtype="S1"),
    np.ma.MaskedArray(["a", "b", "c"], [False, True, False], dtype="U1"),
    np.ma.MaskedArray(["a", "b", "c"], [False, True, False], dtype=object),
    np.ma.MaskedArray(np.array([b"ab", b"cd", b"ef"], "V2"), [False, True, False]),
]


@pytest.mark.parametrize("array", MASKED, ids=lambda array: str(array.dtype))
def test_masked_arrays(path: Path, array: np.ma.MaskedArray[Any, Any]) -> None:
    """A masked element is a missing row, and the others are what they were."""
    found = write(path, {"x": array}).column("x")
    assert [value is None for value in found.to_pylist()] == [False, True, False]
    text = array.dtype.kind in "SUO"
    expected = ["a", "c"] if text else [b"ab", b"ef"] if array.dtype.kind == "V" else array[[0, 2]].tolist()
    assert [found[0].as_py(), found[2].as_py()] == expected


def test_masked_array_without_a_masked_element(path: Path) -> None:
    """A mask of nothing changes nothing."""
    found = write(path, {"x": np.ma.MaskedArray([1, 2]), "y": np.ma.MaskedArray([1, 2], mask=False)})
    assert values(found, "x") == values(found, "y") == [1, 2]


@pytest.mark.parametrize("shape", [(4, 3), (4, 2, 3), (4, 2, 3, 2), (4, 1), (0, 3)])
@pytest.mark.parametrize("code", ["<i2", ">f8", "?", "c8"])
def test_arrays_of_rows(path: Path, shape: tuple[int, ...], code: str) -> None:
    """Two and more dimensions are a fixed-size list a row, an HDF5 array type in the file."""
    array = (np.arange(int(np.prod(shape))) % 5).reshape(shape).astype(code)
    write(path, {"x": array})
    found = raw(path, "x")
    assert found.shape == shape
    assert np.array_equal(found, array)
    with cn.open_table(path, "t") as table:
        assert table["x"][:].shape == shape
        assert np.array_equal(table["x"][:], array)


def test_array_of_rows_of_text(path: Path) -> None:
    """Two dimensions of text."""
    array = np.array([["a", "bb"], ["", "dddd"]])
    assert values(write(path, {"x": array}), "x") == array.tolist()


def test_masked_rows_of_arrays(path: Path) -> None:
    """Whole rows may be masked; a part of one may not, and the error says so."""
    whole = np.ma.MaskedArray(np.arange(6).reshape(3, 2), [[0, 0], [1, 1], [0, 0]])  # type: ignore[arg-type]
    assert values(write(path, {"x": whole}), "x") == [[0, 1], None, [4, 5]]
    part = np.ma.MaskedArray(np.arange(6).reshape(3, 2), [[0, 0], [1, 0], [0, 0]])  # type: ignore[arg-type]
    with pytest.raises(DataError, match="whole rows") as caught:
        cn.write(path, {"x": part}, table="u")
    assert caught.value.column == "x"


def test_records_inside_a_dict(path: Path) -> None:
    """A column of records is a compound; nested records and array fields too."""
    dtype = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", [("d", "u1"), ("e", "i2", (2,))])])
    array = np.zeros(3, dtype)
    array["a"], array["b"], array["c"]["d"] = [1, 2, 3], [0.5, 1.5, 2.5], [7, 8, 9]
    array["c"]["e"] = [[1, 2], [3, 4], [5, 6]]
    found = write(path, {"x": array})
    assert values(found, "x")[1] == {"a": 2, "b": 1.5, "c": {"d": 8, "e": [3, 4]}}
    stored = raw(path, "x")
    assert stored["a"].tolist() == [1, 2, 3]
    assert stored["c"]["e"].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_void_is_opaque(path: Path) -> None:
    """Plain void elements are bytes of one length."""
    array = np.array([b"abcd", b"\0\1\2\3"], dtype="V4")
    found = write(path, {"x": array})
    assert values(found, "x") == [b"abcd", b"\0\1\2\3"]
    assert raw(path, "x").dtype == np.dtype("V4")


def test_references(path: Path) -> None:
    """Object and region references of h5py point to the same objects after the round trip; null ones are missing."""
    with h5py.File(path, "w") as h5:
        image = h5.create_dataset("image", data=np.arange(12).reshape(3, 4))
        objects = np.array([image.ref, h5py.Reference(), h5["/"].ref], dtype=h5py.ref_dtype)
        regions = np.array([image.regionref[1, :], h5py.RegionReference(), image.regionref[0, 1:3]])
        cn.write(h5, {"o": objects, "r": regions.astype(h5py.regionref_dtype)}, table="t")
    with h5py.File(path) as h5:
        stored = h5["t/o"][...]
        assert (h5[stored[0]].name, bool(stored[1]), h5[stored[2]].name) == ("/image", False, "/")
        region = h5["t/r"][...]
        assert h5["image"][region[0]].ravel().tolist() == [4, 5, 6, 7]
        assert h5["image"][region[2]].ravel().tolist() == [1, 2]
    assert [value is None for value in cn.read(path, "t").column("o").to_pylist()] == [False, True, False]


# -- NumPy record arrays --


def test_record_array(path: Path) -> None:
    """Each field of a record array is a column, in order."""
    records = np.array([(1, 0.5, b"a", True), (2, 1.5, b"bb", False)], dtype="i2, >f4, S2, ?")
    found = write(path, records)
    assert found.column_names == ["f0", "f1", "f2", "f3"]
    assert [values(found, name) for name in found.column_names] == [[1, 2], [0.5, 1.5], ["a", "bb"], [True, False]]
    assert raw(path, "f0").dtype == np.dtype("i2")


def test_recarray_and_array_fields(path: Path) -> None:
    """numpy.recarray, and fields that are arrays themselves."""
    records = np.rec.array(np.zeros(3, dtype=[("n", "i8"), ("v", "f8", (2,))]))
    records["n"], records["v"] = np.arange(3), np.arange(6.0).reshape(3, 2)
    found = write(path, records)
    assert values(found, "n") == [0, 1, 2]
    assert raw(path, "v").tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_masked_record_array(path: Path) -> None:
    """A masked record array masks each field on its own."""
    records = np.ma.MaskedArray(
        np.array([(1, 0.5), (2, 1.5), (3, 2.5)], dtype="i4, f8"), mask=[(False, True), (True, False), (False, False)]
    )
    found = write(path, records)
    assert values(found, "f0") == [1, None, 3]
    assert values(found, "f1") == [None, 1.5, 2.5]


@pytest.mark.parametrize(
    "data",
    [np.arange(3), np.zeros((2, 2), "i4, f8"), np.zeros((), "i4, f8"), 5, "text", b"bytes", None, pd.Series([1, 2])],
    ids=["1-D", "2-D records", "0-D record", "number", "text", "bytes", "None", "Series"],
)
def test_what_is_no_table(path: Path, data: Any) -> None:
    """Data that is no table is refused with what to give instead."""
    with pytest.raises(UsageError):
        cn.write(path, data, table="t")
    assert list(path.parent.iterdir()) == []


# -- iterators of batches --


def frames() -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"x": [1, 2], "s": ["a", None]})
    yield pd.DataFrame({"x": [3], "s": ["a much longer text"]})


def indexed_frames() -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"x": [1, 2], "s": ["a", None]}, index=["r1", "r2"])
    yield pd.DataFrame({"x": [3], "s": ["a much longer text"]}, index=["r3"])


def dicts() -> Iterator[dict[str, Any]]:
    yield {"x": [1, 2], "s": ["a", None]}
    yield {"s": ["a much longer text"], "x": np.array([3], dtype="i2")}


def polars_frames() -> Iterator[pl.DataFrame]:
    for frame in frames():
        yield pl.DataFrame({"x": frame["x"].to_list(), "s": [None if pd.isna(s) else s for s in frame["s"]]})


def records() -> Iterator[Any]:
    yield np.ma.MaskedArray(np.array([(1, "a"), (2, "")], "i8, U20"), [(False, False), (False, True)])
    yield np.array([(3, "a much longer text")], "i8, U20")


@pytest.mark.parametrize("make", [frames, dicts, polars_frames, records, indexed_frames])
def test_iterators_of_batches(path: Path, make: Callable[[], Iterator[Any]]) -> None:
    """pandas frames, dicts (columns in any order), polars frames, record arrays: each item is a batch."""
    found = write(path, make())
    first, second = ("f0", "f1") if make is records else ("x", "s")
    assert values(found, first) == [1, 2, 3]
    assert values(found, second) == ["a", None, "a much longer text"]
    if make is indexed_frames:
        assert values(found, "index") == ["r1", "r2", "r3"]


@pytest.mark.parametrize("filters", ["none", "shuffle+deflate", "scale-offset"])
@pytest.mark.parametrize(("rows", "chunk_rows"), [(1000, 300), (300, 1000), (65536, 65536), (70_000, 1000)])
def test_an_iterator_may_fill_the_same_arrays_again(path: Path, rows: int, chunk_rows: int, filters: str) -> None:
    """Rows that wait for their chunk to be full, or for a thread to pack it, are not those of a later batch."""
    n_batches = 8

    def batches(first: int, arrow: bool) -> Iterator[Any]:
        numbers = np.empty(rows, dtype="i8")
        for batch in range(first, first + n_batches):
            numbers[:] = np.arange(batch * rows, (batch + 1) * rows)
            yield pa.record_batch({"x": pa.array(numbers)}) if arrow else {"x": numbers}

    cn.write(path, batches(0, False), table="t", columns={"x": cn.column(chunk_rows=chunk_rows, filters=filters)})
    with cn.open(path, "r+") as file:
        file["t"].append(batches(n_batches, True))
    found = cn.read(path, "t").column("x").to_numpy()
    assert np.array_equal(found, np.arange(2 * n_batches * rows))


def test_an_iterable_is_read_once_and_lazily(path: Path) -> None:
    """Batches are asked for one after another, and each only once."""
    asked = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(5):
            asked.append(number)
            yield pa.record_batch({"x": pa.array(np.full(40_000, number))})

    found = write(path, batches())
    assert asked == list(range(5))
    assert np.array_equal(found.column("x").to_numpy(), np.repeat(np.arange(5), 40_000))


def test_progress_is_told(path: Path) -> None:
    """`progress` hears of the rows written and of the rows in all where they are known."""
    heard: list[tuple[int, int | None]] = []
    table = pa.table({"x": np.arange(150_000)})
    cn.write(path, table, table="t", progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (150_000, 150_000)
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    heard.clear()
    cn.write(path, table, table="i", index={"x": "sorted_rows"}, progress=lambda done, all_: heard.append((done, all_)))
    assert heard[-1] == (300_000, 300_000)  # once to write, once to build the index
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    heard.clear()
    cn.write(path, iter(table.to_batches(70_000)), table="u", progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (150_000, None)
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    assert len(heard) > 1


def batches_of(*parts: pa.Array) -> Iterator[pa.RecordBatch]:
    return iter([pa.record_batch({"x": part}) for part in parts])


def long(value: Any, kind: pa.DataType | None = None, n: int = 70_000) -> pa.Array:
    """Enough rows that the first chunk is written before the next batch is looked at."""
    return pa.array([value] * n, kind)


def test_dictionaries_that_differ_are_unified(path: Path) -> None:
    """Each batch has its own dictionary; the categories are those of all, in the order they came."""
    parts = [
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.array(["b", "c"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), ["d", "a"]),
        pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.uint16()), pa.array(["c", None])),
    ]
    found = write(path, batches_of(*parts)).column("x")
    assert found.to_pylist() == ["a", "b", None, "b", "c", "a", "d", None, None, "c"]
    assert raw(path, "x_categories").tolist() == [b"a", b"b", b"c", b"d"]
    assert raw(path, "x").dtype == np.dtype("i1")


@pytest.mark.parametrize(
    ("n", "width"), [(127, "i1"), (128, "i1"), (129, "i2"), (32_768, "i2"), (32_769, "i4"), (40_000, "i4")]
)
def test_codes_widen_with_the_categories(path: Path, n: int, width: str) -> None:
    """The codes are as narrow as the number of categories allows, also when they grow batch by batch."""
    words = [f"w{number}" for number in range(n)]
    parts = [pa.array([*words[at : at + 20_000], None]).dictionary_encode() for at in range(0, n, 20_000)]
    start = [long("w0", n=66_000).dictionary_encode(), long(None, pa.string(), 5).dictionary_encode()]
    found = write(path, batches_of(*start, *parts)).column("x")
    stored = raw(path, "x")
    assert stored.dtype == np.dtype(width)
    expected = ["w0"] * 66_000 + [None] * 5
    for at in range(0, n, 20_000):
        expected += [*words[at : at + 20_000], None]
    assert found.to_pylist() == expected
    assert (stored == -1).sum() == sum(word is None for word in expected)
    assert fill_of(path, "x") == -1


def test_dictionary_columns_in_a_chunked_table(path: Path) -> None:
    """A pyarrow Table whose chunks carry different dictionaries."""
    column = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()])
    assert values(write(path, pa.table({"x": column})), "x") == ["a", "b", "c", "a"]


def test_strings_get_longer(path: Path) -> None:
    """A longer string in a late batch widens the column; earlier rows keep theirs."""
    parts = [long("ab"), pa.array(["abc", None, "x" * 50]), pa.array(["é" * 300])]
    found = values(write(path, batches_of(*parts)), "x")
    assert found[:2] == ["ab", "ab"]
    assert set(found[:70_000]) == {"ab"}
    assert found[70_000:] == ["abc", None, "x" * 50, "é" * 300]


@pytest.mark.parametrize("strings", ["fixed", "variable"])
def test_strings_get_longer_in_the_form_asked_for(path: Path, strings: Any) -> None:
    """The same for both forms of strings, and the form stays the one asked for."""
    parts = [long("ab"), pa.array(["y" * 5000, None, ""])]
    found = values(write(path, batches_of(*parts), columns={"x": cn.column(strings=strings)}), "x")
    assert found[69_999:] == ["ab", "y" * 5000, None, ""]
    with h5py.File(path) as file:
        assert file["t/x"].id.get_type().is_variable_str() is (strings == "variable")


def test_first_missing_bool_late(path: Path) -> None:
    """A boolean column without missing rows so far gets its third member when one comes."""
    parts = [long(True), pa.array([False, None, True])]
    found = values(write(path, batches_of(*parts)), "x")
    assert found[69_998:] == [True, True, False, None, True]
    with h5py.File(path) as file:
        assert h5py.check_enum_dtype(file["t/x"].dtype) == {"FALSE": 0, "TRUE": 1, "MISSING": -1}


FIRST_FILLS: list[tuple[pa.DataType, Any]] = [
    (pa.int8(), -127),
    (pa.int64(), -(2**63) + 1),
    (pa.uint8(), 255),
    (pa.uint64(), 2**64 - 1),
    (pa.float32(), float(np.float32(FLOAT_FILL))),
    (pa.float64(), FLOAT_FILL),
    (pa.string(), ""),
    (pa.binary(), b""),
]


@pytest.mark.parametrize(("kind", "fill"), FIRST_FILLS, ids=str)
@pytest.mark.parametrize("early_missing", [True, False])
def test_a_late_value_equal_to_the_fill(path: Path, kind: pa.DataType, fill: Any, early_missing: bool) -> None:
    """The recommended fill occurs in a late batch: another is chosen, and missing rows before and after stay so."""
    value = pa.scalar(b"v" if pa.types.is_binary(kind) else "v" if pa.types.is_string(kind) else 1).cast(kind)
    start = [value.as_py()] * 69_999 + [None if early_missing else value.as_py()]
    parts = [pa.array(start, kind), pa.array([fill, None, value.as_py(), fill], kind)]
    found = values(write(path, batches_of(*parts)), "x")
    assert found == [*start, fill, None, value.as_py(), fill]


@pytest.mark.parametrize(("kind", "fill"), FIRST_FILLS, ids=str)
def test_the_recommended_fill(path: Path, kind: pa.DataType, fill: Any) -> None:
    """Where no value speaks against it, the fill is the recommended one, and it is in the file."""
    write(path, pa.table({"x": pa.array([None], kind)}))
    with cn.open_table(path, "t") as table:
        assert table["x"].fill == fill
    if not pa.types.is_binary(kind):
        stored = raw(path, "x")[0]
        assert (stored.decode() if isinstance(stored, bytes) else stored) == fill


def test_all_256_values(path: Path) -> None:
    """A uint8 column that uses every value has no fill and no missing rows."""
    write(path, {"x": np.arange(256, dtype="u1")})
    assert raw(path, "x").tolist() == list(range(256))
    with cn.open_table(path, "t") as table:
        assert table["x"].fill is None
        assert table["x"].to_arrow().null_count == 0
    with h5py.File(path) as file:
        assert file["t/x"].id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_DEFAULT


def test_255_values_and_a_missing_one(path: Path) -> None:
    """The one value that does not occur is the fill."""
    given: list[int | None] = [number for number in range(256) if number != 77]
    assert values(write(path, {"x": pa.array([*given, None], pa.uint8())}), "x") == [*given, None]
    assert fill_of(path, "x") == 77


def all_at_once() -> Any:
    return pa.table({"x": pa.array([*range(256), None], pa.uint8())})


def missing_late() -> Any:
    return batches_of(pa.array(list(range(256)) * 300, pa.uint8()), pa.array([1, None], pa.uint8()))


def last_value_late() -> Any:
    return batches_of(pa.array([None, *range(255)] * 300, pa.uint8()), pa.array([1, 255], pa.uint8()))


@pytest.mark.parametrize("make", [all_at_once, missing_late, last_value_late])
def test_all_256_values_and_a_missing_one(path: Path, make: Callable[[], Any]) -> None:
    """No value is left for the fill: a DataError names the column and says to cast or to fill; no file appears."""
    with pytest.raises(DataError, match="wider type") as caught:
        cn.write(path, make(), table="t")
    assert caught.value.column == "x"
    assert isinstance(caught.value.row, int)
    assert list(path.parent.iterdir()) == []


def test_missing_late_names_the_row(path: Path) -> None:
    """The row in the error counts from the start of the table, not of the batch."""
    with pytest.raises(DataError) as caught:
        cn.write(path, missing_late(), table="t")
    assert caught.value.row == 256 * 300 + 1


def test_a_late_batch_of_narrower_numbers_is_cast(path: Path) -> None:
    """Batches after the first are cast to its types where every value fits."""
    found = write(path, iter([{"x": np.array([1], "i8")}, {"x": np.array([2], "i2")}, {"x": [None, 3]}]))
    assert found.column("x").type == pa.int64()
    assert values(found, "x") == [1, 2, None, 3]


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        (pa.array([1], pa.int8()), pa.array([300], pa.int64()), "300"),
        (pa.array([1], pa.uint8()), pa.array([-1], pa.int64()), "-1"),
        (pa.array([1], pa.int64()), pa.array([1.9]), "1.9"),
        (pa.array([1], pa.int64()), pa.array([float("nan")]), "nan"),
        (pa.array([1], pa.int64()), pa.array(["x"]), "x"),
        (pa.array(["x"]), pa.array([["y"]]), "list"),
    ],
    ids=["300 into int8", "-1 into uint8", "1.9 into int", "NaN into int", "text into int", "list into text"],
)
def test_a_late_batch_that_does_not_fit(path: Path, first: pa.Array, second: pa.Array, value: str) -> None:
    """A later batch whose values do not fit the first one's type is refused, never wrapped or cut."""
    with pytest.raises(DataError, match=value) as caught:
        cn.write(path, batches_of(first, second), table="t")
    assert (caught.value.column, caught.value.batch) == ("x", 1)
    assert list(path.parent.iterdir()) == []


def test_batches_with_other_columns(path: Path) -> None:
    """A batch that lacks a column, or has one more, is named by its number."""
    with pytest.raises(DataError, match="'y'") as caught:
        cn.write(path, iter([{"x": [1]}, {"x": [1]}, {"x": [2], "y": [3]}]), table="t")
    assert caught.value.batch == 2
    assert list(path.parent.iterdir()) == []


def test_an_iterator_of_rows_is_explained(path: Path) -> None:
    """Dicts of single values are rows, not batches: the error says how to make a table of them."""
    with pytest.raises(UsageError, match="from_pylist"):
        cn.write(path, iter([{"x": 1}, {"x": 2}]), table="t")
    with pytest.raises(UsageError, match="batch 0"):
        cn.write(path, iter([1, 2]), table="t")
    assert list(path.parent.iterdir()) == []


def test_empty_iterator(path: Path) -> None:
    """An iterator that gives nothing has no columns: refused, and no file appears."""
    with pytest.raises(UsageError, match="no batch"):
        cn.write(path, iter([]), table="t")
    assert list(path.parent.iterdir()) == []


def test_a_reader_without_rows(path: Path) -> None:
    """A stream that knows its columns but has no batch gives a table of no rows."""
    schema = pa.schema([("x", pa.int32()), ("s", pa.string()), ("c", pa.dictionary(pa.int8(), pa.string()))])
    found = write(path, pa.RecordBatchReader.from_batches(schema, []))
    assert (found.num_rows, found.column_names) == (0, ["x", "s", "c"])
    assert found.schema.types[:2] == [pa.int32(), pa.string()]
    assert raw(path, "x").shape == (0,)


def test_empty_batches_among_others(path: Path) -> None:
    """Batches of no rows, first, between and last, change nothing."""
    empty = pa.array([], pa.int64())
    parts = [empty, pa.array([1, None]), empty, pa.array([2]), empty]
    assert values(write(path, batches_of(*parts)), "x") == [1, None, 2]


def test_empty_dictionary_batches(path: Path) -> None:
    """The same for categories, where the first batch has none."""
    empty = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
    parts = [empty, pa.array(["a", None]).dictionary_encode(), empty]
    assert values(write(path, batches_of(*parts)), "x") == ["a", None]


class OwnError(Exception):
    """What a caller's iterator may raise."""


def failing(n_good: int) -> Iterator[dict[str, Any]]:
    for _ in range(n_good):
        yield {"x": np.arange(70_000), "c": pa.array(["a"] * 70_000).dictionary_encode()}
    raise OwnError("the detector is gone")


@pytest.mark.parametrize("n_good", [0, 1, 3])
def test_an_iterator_that_raises_leaves_no_file(path: Path, n_good: int) -> None:
    """The caller's own error comes out as it is, and nothing is left of the file."""
    with pytest.raises(OwnError, match="detector"):
        cn.write(path, failing(n_good), table="t")
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("n_good", [0, 1, 3])
@pytest.mark.parametrize("table", ["new", "deep/er/new", "old"])
def test_an_iterator_that_raises_leaves_an_existing_file_as_it_was(path: Path, n_good: int, table: str) -> None:
    """In a file that holds other things the table is absent (or the old one), everything else is there."""
    cn.write(path, {"x": [1, 2, 3]}, table="old")
    with h5py.File(path, "r+") as h5:
        h5["image"] = np.arange(6).reshape(2, 3)
    with pytest.raises(OwnError):
        cn.write(path, failing(n_good), table=table, mode="replace")
    with h5py.File(path) as h5:
        assert sorted(h5) == ["image", "old"]
        assert sorted(h5["old"]) == ["x"]
        assert h5["old/x"][...].tolist() == [1, 2, 3]
        assert h5["image"][...].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_broken_stream_leaves_no_file(path: Path) -> None:
    """An error inside a RecordBatchReader is passed on, and no file appears."""
    schema = pa.schema([("x", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"x": pa.array(np.arange(70_000))})
        raise ValueError("source broke")

    with pytest.raises((ValueError, OSError, pa.ArrowException), match="source broke"):
        cn.write(path, pa.RecordBatchReader.from_batches(schema, batches()), table="t")
    assert list(path.parent.iterdir()) == []


def test_a_category_outside_those_given_in_a_later_batch(path: Path) -> None:
    """A dictionary may hold unused entries; the first row that uses one outside categories=[...] is an error."""
    words = pa.array(["a", "b", "c"])
    good = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), words)
    bad = pa.DictionaryArray.from_arrays(pa.array([0, 2], pa.int8()), words)
    found = write(path, batches_of(good), columns={"x": cn.column(categories=["a", "b"])})
    assert values(found, "x") == ["a", "b"]
    with pytest.raises(DataError) as caught:
        cn.write(path, batches_of(good, bad), table="u", columns={"x": cn.column(categories=["a", "b"])})
    assert (caught.value.column, caught.value.row, caught.value.value) == ("x", 3, "c")


@pytest.mark.parametrize("given", [["b", "a", None, "b"], pa.array(["b", "a", None, "b"]).dictionary_encode()])
def test_categories_named_by_the_caller(path: Path, given: Any) -> None:
    """categories=[...] fixes them and their order, for text and for dictionaries alike."""
    found = write(path, {"x": given}, columns={"x": cn.column(categories=["a", "b", "z"], ordered=True)})
    assert found.column("x").type.ordered
    assert values(found, "x") == ["b", "a", None, "b"]
    assert raw(path, "x").tolist() == [1, 0, -1, 1]
    assert raw(path, "x_categories").tolist() == [b"a", b"b", b"z"]


def test_categories_true(path: Path) -> None:
    """categories=True stores text and numbers by codes."""
    options = {"s": cn.column(categories=True), "n": cn.column(categories=True)}
    found = write(path, {"s": ["b", "a", "b"], "n": [30, None, 30]}, columns=options)
    assert (values(found, "s"), values(found, "n")) == (["b", "a", "b"], [30, None, 30])
    assert raw(path, "s").tolist() == [0, 1, 0]
    assert raw(path, "n").tolist() == [0, -1, 0]


def test_enum_of_categories(path: Path) -> None:
    """enum=True stores an HDF5 enum and no categories dataset."""
    found = write(path, {"s": ["b", "a", None, "b"]}, columns={"s": cn.column(categories=True, enum=True)})
    assert values(found, "s") == ["b", "a", None, "b"]
    with h5py.File(path) as file:
        assert list(file["t"]) == ["s"]
        members = h5py.check_enum_dtype(file["t/s"].dtype)
        assert members == {"b": 0, "a": 1, "MISSING": -1}
        assert file["t/s"][...].tolist() == [0, 1, -1, 0]


def test_pandas_frames_put_together(path: Path) -> None:
    """Text of several frames is kept in several pieces by pandas."""
    parts = [pd.DataFrame({"s": ["a", None], "x": [1.5, np.nan]}), pd.DataFrame({"s": ["b"], "x": [2.5]})]
    found = write(path, pd.concat(parts, ignore_index=True))
    assert (values(found, "s"), values(found, "x")) == (["a", None, "b"], [1.5, None, 2.5])
