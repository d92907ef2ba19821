"""Tables go through row files of every pair of formats and come back equal: types, categories, missing rows, values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade import limits
from colonnade.row_files.known import ROW_FORMATS
from colonnade.row_files.plain import from_plain, plain_values
from colonnade.row_files.types import named_type
from tests.laws.strategies import LEAVES, make_array, types, values
from tests.laws.test_round_trip import plain, same

SUFFIX = {
    "csv": ".csv",
    "tsv": ".tsv",
    "jsonl": ".jsonl",
    "arrow": ".arrow",
    "arrows": ".arrows",
    "parquet": ".parquet",
}


@st.composite
def arrays(draw: st.DrawFn, n_rows: int | None = None) -> pa.Array:
    kind = draw(types())
    least, most = (0, 8) if n_rows is None else (n_rows, n_rows)
    return make_array(draw(st.lists(st.one_of(st.none(), values(kind)), min_size=least, max_size=most)), kind)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A few columns of any type, with names that text must quote."""
    n_rows = draw(st.integers(0, 12))
    names = draw(
        st.lists(st.sampled_from(["x", "a,b", "q t", "日本 é", "tab\tin it", "7"]), min_size=1, max_size=3, unique=True)
    )
    return pa.table({name: draw(arrays(n_rows)) for name in names})


def rows_of(table: pa.Table, name: str, joined: bool) -> list[Any]:
    """Comparable values; joined: without the difference between empty and missing."""
    found = plain(table.column(name))
    return [None if joined and value in ("", b"") else value for value in found]


@given(array=arrays())
def test_plain_values_are_read_back(array: pa.Array) -> None:
    back = from_plain(plain_values(array), array.type, "x")
    assert back.type == array.type
    assert all(map(same, plain(pa.chunked_array([array])), plain(pa.chunked_array([back])))) and len(back) == len(array)


@pytest.mark.parametrize("kind", [kind for kind in LEAVES if not pa.types.is_date64(kind)], ids=str)
def test_types_are_read_from_their_names(kind: pa.DataType) -> None:
    assert named_type(str(kind)) == kind


@pytest.mark.parametrize("first", list(ROW_FORMATS))
@given(table=tables(), second=st.sampled_from(list(ROW_FORMATS)), batch_rows=st.sampled_from([1, 5, 65_536]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_table_goes_through_two_formats_and_comes_back(
    first: str, second: str, table: pa.Table, batch_rows: int, tmp_path_factory: Any
) -> None:
    folder: Path = tmp_path_factory.mktemp("pairs")
    begin, end = folder / "a.h5", folder / "b.h5"
    if "parquet" in (first, second):
        table = table.select([field.name for field in table.schema if arrow_reads_back(field.type)])
    try:
        cn.write(begin, table, "t", title="A title")
    except (cn.errors.DataError, cn.errors.UnsupportedError):
        return  # not a table that HDF5 can hold
    truth = cn.read(begin, "t")
    kinds = {field.name: field.type for field in truth.schema}
    one, two = folder / f"one{SUFFIX[first]}", folder / f"two{SUFFIX[second]}"
    with limits.override(printed_rows=batch_rows):
        try:
            cn.convert(begin, one)
            cn.convert(one, two, types=kinds if ROW_FORMATS[first].is_text else None)
        except cn.errors.UsageError as error:
            is_refused = any(pa.types.is_decimal(kind) and kind.scale < 0 for kind in leaves(kinds.values()))
            assert "parquet" in (first, second) and (is_refused or "parquet" in str(error).lower()), error
            return
        cn.convert(two, end, types=kinds if ROW_FORMATS[second].is_text else None, table="t")
    found = cn.read(end, "t")
    assert found.column_names == truth.column_names
    joined = len(kinds) == 1 and bool({"csv", "tsv"} & {first, second})
    for name, kind in kinds.items():
        assert found.schema.field(name).type == kind, name
        assert list(map(repr, rows_of(found, name, joined))) == list(map(repr, rows_of(truth, name, joined)))
    if not any(ROW_FORMATS[word].is_text for word in (first, second)):
        assert cn.open_table(end, "t").title == "A title"
        for name, kind in kinds.items():
            if pa.types.is_dictionary(kind):
                categories = [cn.open_table(path, "t")[name].categories for path in (begin, end)]
                first_ones, last_ones = ([] if each is None else plain(pa.chunked_array([each])) for each in categories)
                assert repr(first_ones) == repr(last_ones)


def arrow_reads_back(kind: pa.DataType) -> bool:
    """Before Arrow 26 it refuses Parquet files of its own: fixed lists with missing rows, times in lists."""
    inside = leaves([kind])
    is_fixed = pa.types.is_fixed_size_list(kind) or any(map(pa.types.is_fixed_size_list, parts_of(kind)))
    is_time = inside != [kind] and any(map(pa.types.is_temporal, inside))
    return int(pa.__version__.partition(".")[0]) >= 26 or not (is_fixed or is_time)


def parts_of(kind: pa.DataType) -> list[pa.DataType]:
    """All types inside a type, at any depth."""
    children = [kind.field(number).type for number in range(kind.num_fields)]
    return children + [part for child in children for part in parts_of(child)]


def leaves(kinds: Any) -> list[pa.DataType]:
    """All types in some types."""
    found = []
    for kind in kinds:
        if pa.types.is_struct(kind):
            found += leaves([field.type for field in kind])
        elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
            found += leaves([kind.value_type])
        else:
            found.append(kind)
    return found
