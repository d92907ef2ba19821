"""Sorted queries against pyarrow: any types, directions, limits, predicates and indexes, in memory and in files."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade import limits

FLOATS = (0.0, -0.0, 1.5, -2.0, float("nan"), float("inf"), float("-inf"))
POINTS = tuple(decimal.Decimal(number) / 10 for number in (-30, -1, 0, 5, 25))
KINDS: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "int8": (pa.int8(), (-2, -1, 0, 1, 2)),
    "int64": (pa.int64(), (0, 1, -1, 2**62, -(2**62), 5)),
    "uint64": (pa.uint64(), (0, 1, 2**63, 2**64 - 2)),
    "float": (pa.float64(), FLOATS),
    "float32": (pa.float32(), FLOATS),
    "bool": (pa.bool_(), (False, True)),
    "text": (pa.string(), ("", "a", "b", "ab", "größe", "z", "A", "a\x7f")),
    "coded": (pa.dictionary(pa.int32(), pa.string()), ("z", "a", "", "größe", "b")),
    "coded ints": (pa.dictionary(pa.int32(), pa.int64()), (5, -1, 3)),
    "decimal": (pa.decimal128(5, 2), POINTS),
    "long decimal": (pa.decimal128(30, 2), POINTS),
    "time": (pa.timestamp("us"), (0, 1, -1, 10**15)),
    "date": (pa.date32(), (0, 1, -400)),
    "binary": (pa.binary(2), (b"ab", b"\0\0", b"\xff\0")),
}
INDEXED = ("int8", "int64", "float", "text", "decimal", "bool", "time", "date")


def array_of(kind: pa.DataType, items: Sequence[Any]) -> pa.Array:
    """Categories in the order of their first use, which is not that of their values."""
    if pa.types.is_dictionary(kind):
        return pa.array(items, kind.value_type).dictionary_encode()
    return pa.array(items, kind)


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, pa.Array], dict[str, str]]:
    """A table of a few columns whose values repeat, and indexes."""
    n_rows = draw(st.sampled_from((130, 40, 130, 9, 40, 1, 0)))
    columns, indexes = {}, {}
    chance = np.random.default_rng(draw(st.integers(0, 10**6)))
    for name in draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=4, unique=True)):
        kind, cells = KINDS[name]
        some = [*chance.permutation(np.array([*cells, None], dtype=object))[: int(chance.integers(2, len(cells) + 2))]]
        columns[name] = array_of(kind, [some[place] for place in chance.integers(0, len(some), n_rows).tolist()])
        if name in INDEXED and draw(st.booleans()):
            indexes[name] = draw(st.sampled_from(("sorted_rows", "chunk_minmax")))
    return {**columns, "row": pa.array(np.arange(n_rows))}, indexes


def expected_order(table: pa.Table, by: Sequence[tuple[str, str]]) -> list[int]:
    """Positions in order, by Python's stable sort: one key after the other, the last key first."""
    order = list(range(table.num_rows))
    for name, direction in reversed(by):
        column = table.column(name)
        is_time = pa.types.is_timestamp(column.type)
        cells = (column.cast(pa.int64()) if is_time else column).to_pylist()
        keys = [cell.encode() if isinstance(cell, str) else cell for cell in cells]
        nan = [row for row in order if isinstance(cells[row], float) and np.isnan(cells[row])]
        present = [row for row in order if cells[row] is not None and row not in nan]
        present = sorted(present, key=lambda row, keys=keys: keys[row], reverse=direction == "descending")  # type: ignore[misc]
        order = present + nan + [row for row in order if cells[row] is None]
    return order


def same(found: pa.Table, expected: pa.Table) -> bool:
    return repr(found.to_pydict()) == repr(expected.to_pydict())


@given(
    data=st.data(),
    table=tables(),
    sorted_bytes=st.sampled_from((1, 300, 3000, 1 << 20)),
    top=st.sampled_from((0, 5, 1000)),
)
def test_rows_are_in_the_order_of_their_keys(
    data: st.DataObject, table: tuple[dict[str, pa.Array], dict[str, str]], sorted_bytes: int, top: int,
    tmp_path_factory: Any,
) -> None:  # fmt: skip
    columns, indexes = table
    path: Path = tmp_path_factory.mktemp("sorted") / "x.h5"
    chunk_rows = data.draw(st.sampled_from((7, 64)))
    cn.write(path, columns, "t", index=indexes, columns={name: {"chunk_rows": chunk_rows} for name in columns})
    names = data.draw(st.lists(st.sampled_from([name for name in columns if name != "row"]), min_size=1, unique=True))
    by = [(name, data.draw(st.sampled_from(("ascending", "descending")))) for name in names]
    limit = data.draw(st.sampled_from((None, 0, 1, 3, 20, 1000)))
    with (
        cn.open(path) as file,
        limits.override(sorted_bytes=sorted_bytes, top_rows=top, search_chunks=1, iterated_rows=4),
    ):
        t = file["t"]
        query: cn.Query = t[:]
        rows = t.to_arrow()
        if data.draw(st.booleans()):
            query, rows = query.where("row >= 3"), rows.filter(pc.greater_equal(rows["row"], 3))
        if data.draw(st.booleans()):
            numbers = list(range(rows.num_rows))[::-1]
            query, rows = query.take(numbers), rows.take(pa.array(numbers, pa.int64()))
        asked = [
            name if direction == "ascending" and data.draw(st.booleans()) else (name, direction)
            for name, direction in by
        ]
        found = query.sort_by(*asked)
        wanted = rows.take(pa.array(expected_order(rows, by)[:limit], pa.int64()))
        if limit is not None:
            found = found.head(limit)
        assert same(found.to_arrow(), wanted)
        assert same(pa.Table.from_batches(found.batches(6), found.schema), wanted)
        assert repr(list(found)) == repr(wanted.to_pylist())
        assert found.row_numbers().tolist() == wanted["row"].to_pylist()
        assert len(found) == wanted.num_rows
        assert found.explain().sorted
        assert same(found.where("row < 50").to_arrow(), wanted.filter(pc.less(wanted["row"], 50)))
        assert same(found[2:9].select("row").to_arrow(), wanted.select(["row"]).slice(2, 7))
        again = found.sort_by("row")
        assert again.row_numbers().tolist() == sorted(wanted["row"].to_pylist())
        assert found.aggregate(n="count")["n"] == wanted.num_rows


@given(table=tables(), sorted_bytes=st.sampled_from((300, 1 << 20)))
def test_every_column_alone_in_both_directions(
    table: tuple[dict[str, pa.Array], dict[str, str]], sorted_bytes: int, tmp_path_factory: Any
) -> None:
    """All rows and the first ones, by an index where there is one; a second key decides between equal first keys."""
    columns, indexes = table
    path: Path = tmp_path_factory.mktemp("sorted") / "x.h5"
    cn.write(path, columns, "t", index=indexes, columns={name: {"chunk_rows": 64} for name in columns})
    with cn.open(path) as file, limits.override(sorted_bytes=sorted_bytes):
        rows = file["t"].to_arrow()
        for name in columns:
            for direction in ("ascending", "descending"):
                found, order = file["t"].sort_by((name, direction)), expected_order(rows, [(name, direction)])
                assert found.row_numbers().tolist() == order
                assert found.head(5).row_numbers().tolist() == order[:5]
                if name != "row":
                    by = [(name, direction), ("row", "descending")]
                    assert file["t"].sort_by(*by).head(5).row_numbers().tolist() == expected_order(rows, by)[:5]


@given(table=tables(), data=st.data())
def test_distinct_values_are_those_that_occur(
    table: tuple[dict[str, pa.Array], dict[str, str]], data: st.DataObject, tmp_path_factory: Any
) -> None:
    columns, _ = table
    path: Path = tmp_path_factory.mktemp("distinct") / "x.h5"
    cn.write(path, columns, "t", columns={name: {"chunk_rows": 7} for name in columns})
    names = data.draw(st.lists(st.sampled_from(sorted(columns)), min_size=1, unique=True))
    with cn.open(path) as file:
        rows = file["t"].to_arrow().select(names)
        found = file["t"].distinct(*names)
    assert found.column_names == names

    def key(row: dict[str, Any]) -> str:
        return repr([value + 0.0 if isinstance(value, float) else value for value in row.values()])

    assert sorted(map(key, found.to_pylist())) == sorted(set(map(key, rows.to_pylist())))
