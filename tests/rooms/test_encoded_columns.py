"""Columns whose rows stand for other values than their datatype tells: read, compared, indexed and added up.

What is right is said in plain Python, in `encoded_tables`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.columns import pointers
from colonnade.columns.keys import NumberKeys
from colonnade.columns.mapping import arrow_type
from colonnade.columns.pointers import PointerHeap
from colonnade.columns.read import ColumnReader
from colonnade.errors import ColonnadeError, CorruptError, FormatError, UnsupportedError, UsageError
from colonnade.layouts.hep001 import rules as hep001_rules
from colonnade.model import Pointers
from tests.conftest import SetLimits
from tests.rooms.encoded_tables import (
    LEVELS,
    N_ROWS,
    EncodedColumn,
    encoded_layout,
    kept_columns,
    picked,
    write_encoded,
)
from tests.rooms.test_cli import call, call_json

COLUMNS = {column.name: column for column in kept_columns()}
KINDS = ("chunk_minmax", "sorted_rows", "bitmap", "chunk_bloom")
WITHOUT_INDEX = ("levels", "levels_text")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receipts of the tests stay in the tests."""
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(params=list(COLUMNS))
def column(request: pytest.FixtureRequest) -> EncodedColumn:
    return COLUMNS[request.param]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.h5"


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def exact(values: list[Any]) -> list[Any]:
    """Values that are equal only if they are the same: -0.0 is not 0.0, and NaN equals NaN."""
    return ["nan" if is_nan(v) else struct.pack("d", v) if isinstance(v, float) else v for v in values]


def opened(path: Path, column: EncodedColumn) -> tuple[h5py.File, ColumnReader]:
    with h5py.File(path, "w") as file:
        column.write(file, file.create_group("apart"))
    file = h5py.File(path)
    return file, column.reader(file)


# -- rows --


def test_rows(path: Path, column: EncodedColumn) -> None:
    file, reader = opened(path, column)
    with file:
        found = reader.read(0, N_ROWS)
        found.validate(full=True)
        assert found.type == arrow_type(reader.column)
        assert exact(found.to_pylist()) == exact(column.values)
        assert exact(reader.read(5, 30, 6).to_pylist()) == exact(column.values[5:185:6])
        assert exact(reader.read(200, 3).to_pylist()) == exact(column.values[200:])
        assert len(reader.read(0, 0)) == 0
        for rows in ([0, 2, 3, 17, 100, 202], [4, 5, 6], [202], []):
            taken = reader.take(np.array(rows, dtype=np.int64))
            assert exact(taken.to_pylist()) == exact([column.values[row] for row in rows])
        pieces = [reader.read(a, b - a) for a, b in reader.pieces(0, N_ROWS)]
        assert exact([v for piece in pieces for v in piece.to_pylist()]) == exact(column.values)


def test_keys(path: Path, column: EncodedColumn) -> None:
    file, reader = opened(path, column)
    with file:
        rows = np.array([1, 3, 4, 50, 51, 202])
        for keys, values in (
            (reader.keys(0, N_ROWS), column.values),
            (reader.take_keys(rows), [column.values[row] for row in rows]),
        ):
            assert keys.missing.tolist() == [value is None for value in values]
            assert keys.nan.tolist() == [is_nan(v) for v in values]
            assert exact(reader.values(keys).to_pylist()) == exact(values)
            assert reader.values(keys).type == reader.kind
            if isinstance(keys, NumberKeys):
                assert keys.values.dtype == np.dtype(pa.from_numpy_dtype(keys.values.dtype).to_pandas_dtype())
        keys = reader.keys(0, N_ROWS)
        known, _ = keys.distinct()
        distinct = {"nan" if is_nan(v) else v for v in column.values if v is not None}
        assert len(known) == len(distinct)
        for row in np.flatnonzero(keys.present).tolist():
            assert reader.keys_at(np.array([row])) == [keys.key(row)]


def test_numbers(path: Path, column: EncodedColumn) -> None:
    file, reader = opened(path, column)
    with file:
        assert reader.has_numbers == (column.changes["form"] != Pointers())
        if not reader.has_numbers:
            return
        keys = reader.keys(0, N_ROWS)
        assert isinstance(keys, NumberKeys)
        for numbers, missing, expected in (
            (*reader.numbers(0, N_ROWS), keys),
            (*reader.take_numbers(np.arange(0, N_ROWS, 5)), keys.take(np.arange(0, N_ROWS, 5))),
        ):
            assert isinstance(expected, NumberKeys)
            assert numbers.dtype == expected.values.dtype
            present = ~expected.missing
            np.testing.assert_array_equal(numbers[present], expected.values[present])
            assert (missing is None) == (not expected.missing.any())
            assert missing is None or missing.tolist() == expected.missing.tolist()


def test_no_rows_and_nothing_but_missing_ones(path: Path, column: EncodedColumn) -> None:
    gone = [row for row, value in enumerate(column.values) if value is None]
    for rows in ([], gone[:1] * 40):
        stored = [column.stored[row] for row in rows] if isinstance(column.stored, list) else column.stored[rows]
        few = replace(column, stored=stored, values=[None] * len(rows), create={"chunks": (16,), "maxshape": (None,)})
        file, reader = opened(path, few)
        with file:
            assert reader.read(0, len(rows)).to_pylist() == few.values
            keys = reader.keys(0, len(rows))
            assert keys.missing.all() and keys.least_and_greatest() is None
            assert reader.values(keys).to_pylist() == few.values


# -- tables --


def predicates_of(column: EncodedColumn, kind: pa.DataType) -> list[tuple[Any, Callable[[Any], bool]]]:
    """Predicates about a column, and what they say of a value that is not missing, in Python."""
    x = cn.col(column.name)
    some = sorted({v for v in column.values if v is not None and not is_nan(v)}, key=str)
    tests: list[tuple[Any, Callable[[Any], bool]]] = [(x == v, lambda o, v=v: o == v) for v in some]  # type: ignore[misc]
    tests += [(x != v, lambda o, v=v: o != v) for v in some]  # type: ignore[misc]
    tests.append((x.is_in(some[:2]), lambda o: o in some[:2]))
    if not pa.types.is_dictionary(kind) and not pa.types.is_boolean(kind):
        tests += [(x < v, lambda o, v=v: o < v) for v in some]  # type: ignore[misc]
        tests += [(x >= v, lambda o, v=v: o >= v) for v in some]  # type: ignore[misc]
        tests.append((~(x < some[0]), lambda o: not o < some[0]))
    if kind == pa.string() or pa.types.is_dictionary(kind):
        tests.append((x.startswith("m"), lambda o: o.startswith("m")))
    if pa.types.is_floating(kind):
        tests.append((x.is_nan(), is_nan))
        tests.append((x > -7.5, lambda o: o > -7.5))
        tests.append((x <= 2**40, lambda o: o <= 2**40))
    if pa.types.is_timestamp(kind):
        when = datetime(2000, 1, 1, tzinfo=UTC if kind.tz else None)
        tests.append((x > when, lambda o: o > when))
    if pa.types.is_date32(kind):
        tests.append((x > date(2000, 1, 1), lambda o: o > date(2000, 1, 1)))
        tests.append((x >= "2023-01-31", lambda o: o >= date(2023, 1, 31)))
    return tests


def check_search(table: cn.Table, column: EncodedColumn) -> None:
    for predicate, truth in predicates_of(column, table[column.name].dtype):
        expected = [row for row, value in enumerate(column.values) if value is not None and truth(value)]
        assert table.where(predicate).row_numbers().tolist() == expected, str(predicate)
        assert table.where(predicate).count() == len(expected), str(predicate)
    gone = [row for row, value in enumerate(column.values) if value is None]
    assert table.where(cn.col(column.name).is_missing()).row_numbers().tolist() == gone
    assert table.where(~cn.col(column.name).is_missing()).count() == N_ROWS - len(gone)


def test_search(path: Path, column: EncodedColumn, monkeypatch: pytest.MonkeyPatch) -> None:
    write_encoded(path, [column])
    encoded_layout(monkeypatch, [column])
    with cn.open(path) as file:
        check_search(file["t"], column)


@pytest.mark.parametrize("kind", KINDS)
def test_search_by_index(path: Path, column: EncodedColumn, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_encoded(path, [column])
    encoded_layout(monkeypatch, [column])
    with cn.open(path, "r+") as file:
        if column.name in WITHOUT_INDEX:
            with pytest.raises(UsageError, match="may change in another file"):
                file["t"].build_index(column.name, kind)
            return
        file["t"].build_index(column.name, kind)
    with cn.open(path) as file:
        table = file["t"]
        (index,) = table.indexes
        assert index.fresh and index.trusted, index
        check_search(table, column)
        assert table.verify_indexes() == []
        check_totals(table, column)


def test_totals(path: Path, column: EncodedColumn, monkeypatch: pytest.MonkeyPatch) -> None:
    write_encoded(path, [column])
    encoded_layout(monkeypatch, [column])
    with cn.open(path) as file:
        check_totals(file["t"], column)
        check_groups(file["t"], column)


def check_totals(table: cn.Table, column: EncodedColumn) -> None:
    name, kind = column.name, table[column.name].dtype
    present = [v for v in column.values if v is not None]
    numbers = [v for v in present if not is_nan(v)]
    stats = table.stats([name])[name]
    assert not isinstance(stats, ColonnadeError)
    assert stats.n_missing == N_ROWS - len(present)
    assert stats.n_nan == (len(present) - len(numbers) if pa.types.is_floating(kind) else None)
    assert table.aggregate({name: "count"}) == {f"{name}_count": len(present)}
    if not pa.types.is_dictionary(kind):
        ends = table.aggregate(low=(name, "min"), high=(name, "max"))
        assert ends == {"low": min(numbers), "high": max(numbers)}
        assert type(ends["low"]) is type(min(numbers))
        assert stats.least is not None and stats.least.to_pylist() == [min(numbers)] and stats.least.type == kind
        assert stats.greatest is not None and stats.greatest.to_pylist() == [max(numbers)]
    if pa.types.is_boolean(kind) or pa.types.is_floating(kind):
        total = table.aggregate(s=(name, "sum"), m=(name, "mean"))
        expected = math.nan if len(numbers) < len(present) else sum(numbers)
        assert total["s"] == pytest.approx(expected, nan_ok=True)
        assert total["m"] == pytest.approx(expected / len(present), nan_ok=True)


def check_groups(table: cn.Table, column: EncodedColumn) -> None:
    """Counts by value: each once, in order, what is missing at the end."""
    found = table.aggregate(n="count", by=column.name)
    keys = ["nan" if is_nan(v) else v for v in column.values]
    counts = {key: keys.count(key) for key in keys}
    given = ["nan" if is_nan(v) else v for v in found.column(0).to_pylist()]
    assert dict(zip(given, found.column("n").to_pylist(), strict=True)) == counts
    assert len(given) == len(counts)
    assert found.schema.field(0).type == table[column.name].dtype
    kind = table[column.name].dtype
    order = LEVELS.index if pa.types.is_dictionary(kind) and kind.ordered else (lambda v: v)
    plain = [v for v in given if v is not None and v != "nan"]
    assert plain == sorted(plain, key=order)


def test_what_is_told_of_a_column(path: Path, column: EncodedColumn, monkeypatch: pytest.MonkeyPatch) -> None:
    write_encoded(path, [column])
    encoded_layout(monkeypatch, [column])
    with cn.open(path) as file:
        found = file["t"][column.name]
        assert exact(list(found)) == exact(column.values)
        assert found[7] is None or exact([found[7]]) == exact(column.values[7:8])
        assert column.name in repr(file["t"])
        if "fill" in column.changes and isinstance(found.fill, str):
            assert found.fill.encode() == column.changes["fill"].rstrip(b"\0")
        assert found.stored_bytes > 0
        if pa.types.is_dictionary(found.dtype):
            assert found.categories is not None and found.categories.to_pylist() == LEVELS


def test_columns_that_share_a_table(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = list(COLUMNS.values())
    write_encoded(path, columns)
    encoded_layout(monkeypatch, columns)
    with cn.open(path) as file:
        table = file["t"].to_arrow()
        for column in columns:
            assert exact(table.column(column.name).to_pylist()) == exact(column.values)
        batches = [batch.column("pointers").to_pylist() for batch in file["t"].batches(50)]
        assert [v for batch in batches for v in batch] == COLUMNS["pointers"].values
        both = file["t"].where((cn.col("truth") == True) & (cn.col("day") > "2000-01-01"))  # noqa: E712
        expected = [
            row
            for row, (t, d) in enumerate(zip(COLUMNS["truth"].values, COLUMNS["day"].values, strict=True))
            if t and d is not None and d > date(2000, 1, 1)
        ]
        assert both.row_numbers().tolist() == expected


def test_what_the_command_line_tells(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = list(COLUMNS.values())
    write_encoded(path, columns)
    encoded_layout(monkeypatch, columns)
    told = {one["name"]: one for one in call_json("info", path)["tables"][0]["columns"]}
    assert {name: one["encoding"] for name, one in told.items() if one["encoding"]} == {
        column.name: getattr(column.changes["form"], "codec", "pointers") for column in columns
    }
    assert told["pointers"]["variable_length"] and told["pointers"]["fill"] == "NA"
    for command in ("info", "schema", "stats", "head"):
        assert call(command, path).exit_code == 0
    assert "NA of R" in call("info", path).stdout


def test_an_index_of_text_in_a_heap_is_not_believed_once_the_heap_has_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    column = COLUMNS["pointers"]
    write_encoded(path, [column])
    encoded_layout(monkeypatch, [column])
    with cn.open(path, "r+") as file:
        file["t"].build_index("pointers", "bitmap")
        assert file["t"].indexes[0].trusted
    with cn.open(path, "r+") as file:
        assert file["t"].indexes[0].trusted
        file.h5["apart/pointers"][:] = np.full(len(column.companion), ord("z"), dtype="u1")
    with cn.open(path) as file:
        assert not file["t"].indexes[0].trusted
        assert file["t"].where(cn.col("pointers") == "muon").count() == 0


def test_a_deep_check_reads_them(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = list(COLUMNS.values())
    write_encoded(path, columns)
    encoded_layout(monkeypatch, columns)
    monkeypatch.setattr(hep001_rules, "missing_is_described", lambda _seen, _column: None)  # a rule of hep001 alone
    found = [finding for finding in cn.check(path, deep=True) if "cannot be read" in finding.message]
    assert found == []
    with h5py.File(path, "r+") as file:
        file["t/day"][100] = b"2023-02-30"
    assert any("2023-02-30" in finding.message for finding in cn.check(path, deep=True))


# -- what is wrong --


def wrong(
    path: Path, column: EncodedColumn, place: int, value: Any, how: Callable[[ColumnReader], Any]
) -> CorruptError:
    """The error of reading a column in which one row holds something else."""
    stored = list(column.stored) if isinstance(column.stored, list) else column.stored.copy()
    stored[place] = value
    file, reader = opened(path, replace(column, stored=stored))
    with file, pytest.raises(CorruptError) as caught:
        how(reader)
    return caught.value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("day", b"2023-02-30"),
        ("day", b"2023-00-10"),
        ("day", b"2023-10-00"),
        ("day", b"2023-1-001"),
        ("day_text", "2023-01-01 "),
        ("day_text", "NA "),
        ("day_text", ""),
        ("day_all", "NA"),
        ("time", b"2023-02-29T00:00:00Z"),
        ("time_text", "2023-01-01T00:00:00"),
        ("time_text", "2023-01-01 00:00:00Z"),
        ("pointers", (10**18, 1)),
        ("pointers", (2**64 - 1, 2)),
        ("pointers", (1, 2**64 - 1)),
        ("levels", b"lo"),
        ("levels_text", "lower"),
        ("codes", -1),
        ("codes", 5),
        ("codes_u1", 6),
        ("codes_all", 5),
    ],
)
def test_a_wrong_row_is_named(path: Path, name: str, value: Any) -> None:
    column, row = COLUMNS[name], 100
    rows = np.array([3, row, 150])
    for how in (
        lambda reader: reader.read(0, N_ROWS),
        lambda reader: reader.read(90, 20),
        lambda reader: reader.keys(90, 20),
        lambda reader: reader.take(rows),
        lambda reader: reader.take_keys(rows),
    ):
        error = wrong(path, column, row, value, how)
        assert error.row == row and error.column == name, error
        assert error.expected


def test_text_that_is_not_utf8(path: Path) -> None:
    column = COLUMNS["pointers"]
    heap = column.companion.copy()
    row = next(row for row, value in enumerate(column.values) if value == "muon" and row > 20)
    heap[int(column.stored[row]["offset"]) + 1] = 0xFF
    file, reader = opened(path, replace(column, companion=heap))
    with file, pytest.raises(CorruptError) as caught:
        reader.read(0, N_ROWS)
    assert caught.value.row == row


def test_times_that_the_unit_cannot_count_to(path: Path) -> None:
    column = COLUMNS["time_text"]
    changes = {**column.changes, "arrow_type": "timestamp[ns, tz=UTC]"}
    texts = ["2262-04-11T23:47:16.854775807Z", "1677-09-21T00:12:43.145224192Z"] * 20
    near = replace(column, stored=texts, changes=changes)
    file, reader = opened(path, near)
    with file:
        assert reader.read(0, 2).view(pa.int64()).to_pylist() == [2**63 - 1, -(2**63)]
    for text in ("2262-04-11T23:47:16.854775808Z", "1677-09-21T00:12:43.145224191Z", "9999-01-01T00:00:00Z"):
        error = wrong(path, near, 20, text, lambda reader: reader.read(0, 40))
        assert error.row == 20


def test_categories_that_are_not_as_many_as_the_column_has(path: Path) -> None:
    for given in (pa.array(LEVELS[:-1]), pa.array([*LEVELS, "more"]), pa.array([*LEVELS[:-1], None]), None):
        for name in ("codes", "levels"):
            file, reader = opened(path, replace(COLUMNS[name], companion=given))
            with file, pytest.raises(FormatError):
                reader.read(0, 10)


@pytest.mark.parametrize("name", ["truth", "double", "bits", "r", "codes", "day", "levels", "pointers"])
def test_a_datatype_that_cannot_stand_for_it(path: Path, name: str) -> None:
    numbers, texts = np.arange(N_ROWS, dtype="i4"), np.array([b"a"] * N_ROWS)
    stored = texts if name in ("truth", "double", "bits", "r", "codes") else numbers
    file, reader = opened(path, replace(COLUMNS[name], stored=stored))
    with file:
        for how in (reader.read, reader.keys):
            with pytest.raises(FormatError):
                how(0, 10)


# -- the heap --


def heap_reader(path: Path, starts: Any, lengths: Any, heap: Any, dtype: str = "u8") -> tuple[h5py.File, ColumnReader]:
    stored = np.zeros(len(starts), dtype=[("offset", dtype), ("length", dtype)])
    stored["offset"], stored["length"] = starts, lengths
    changes = {"form": Pointers()}
    return opened(path, EncodedColumn("x", stored, [], changes, np.asarray(heap, dtype="u1"), {"chunks": (64,)}))


def test_texts_that_lie_anywhere_in_the_heap(path: Path, set_limits: SetLimits) -> None:
    """In any order, over each other, far apart, and longer than what is read or put into place in one go."""
    set_limits(pointed_span=200, pointed_gap=30, pointed_step=90, pointed_bytes=500)
    chance = np.random.default_rng(2)
    heap = chance.integers(97, 123, 3000).astype("u1")
    for most in (3, 60, 600):
        lengths = chance.integers(0, most, 300)
        starts = chance.integers(0, 3000 - lengths + 1)
        truth = [heap[a : a + n].tobytes().decode() for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
        assert all(
            b - a == 1 or (starts[order] + lengths[order])[a:b].max() - starts[order][a] <= 200
            for order in [np.argsort(starts)]
            for a, b in pointers.spans(starts[order], lengths[order])
        )
        file, reader = heap_reader(path, starts, lengths, heap)
        with file:
            assert reader.read(0, 300).to_pylist() == truth
            rows = np.array([5, 70, 71, 299])
            assert reader.take(rows).to_pylist() == [truth[row] for row in rows]
            pieces = list(reader.pieces(0, 300))
            assert [a for a, _ in pieces] == [0, *(b for _, b in pieces[:-1])] and pieces[-1][1] == 300
            assert all(b - a == 1 or lengths[a:b].sum() <= 500 for a, b in pieces)


def test_what_is_read_of_the_heap(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte about once, and not what lies between texts that are far apart."""
    n = 4000
    heap = np.full(n * 1000, ord("a"), dtype="u1")
    read: list[tuple[int, int]] = []
    load = PointerHeap.load
    monkeypatch.setattr(PointerHeap, "load", lambda self, a, b: read.append((a, b)) or load(self, a, b))
    file, reader = heap_reader(path, np.arange(n) * 1000, np.full(n, 1000), heap)
    with file:
        reader.read(0, n)
        assert sum(count for _, count in read) == len(heap)
        read.clear()
        reader.take(np.array([0, n - 1]))
        assert sum(count for _, count in read) == 2000


def test_a_small_file_that_claims_much_text(path: Path) -> None:
    heap, n = np.zeros(40_000_000, dtype="u1"), 5000
    file, reader = heap_reader(path, np.zeros(n), np.full(n, len(heap)), heap)
    with file:
        for how in (reader.read, reader.keys, lambda a, b: list(reader.pieces(a, b))):
            with pytest.raises((UnsupportedError, UsageError)):  # strings may share bytes: nothing is damaged
                how(0, n)


def test_a_heap_that_is_none(path: Path) -> None:
    column = COLUMNS["pointers"]
    for heap in (None, np.zeros(5, dtype="i1"), np.zeros(5, dtype="f8")):
        file, reader = opened(path, replace(column, companion=heap))
        with file, pytest.raises(FormatError):
            reader.read(0, 10)


def test_which_words_are_missing_by_what_comes_before_nul() -> None:
    assert [COLUMNS["pointers"].values[row] for row in np.flatnonzero(picked(8) == 5)[:1]] == [None]
