"""What is written is read back: every type, with missing rows, chunk lengths, filters and batches of any length.

The comparison is on values and types, NaN by being NaN and -0.0 by its sign, through Arrow's own buffers, so that
it shares nothing with the code that reads.
"""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade import limits
from tests.laws.strategies import INTEGERS, make_array, types, values

FILTERS = [
    None,
    "none",
    "shuffle+deflate",
    "deflate:9",
    "fletcher32",
    "shuffle+fletcher32",
    "zstd",
    "blosc",
    "bitshuffle",
]


def same(left: Any, right: Any) -> bool:
    """Equal values: NaN equals NaN, 0.0 does not equal -0.0."""
    if isinstance(left, float) and isinstance(right, float):
        return np.float64(left).tobytes() == np.float64(right).tobytes() or (np.isnan(left) and np.isnan(right))
    if isinstance(left, complex) and isinstance(right, complex):
        return same(left.real, right.real) and same(left.imag, right.imag)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right


def plain(array: pa.ChunkedArray) -> list[Any]:
    """Python values; times as integers, since Python's own cannot hold them all."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain(array.cast(kind.value_type))
    whole = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], kind)
    return _plain(whole)


def _plain(array: pa.Array) -> list[Any]:
    kind = array.type
    if pa.types.is_temporal(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    if isinstance(kind, pa.BaseExtensionType):
        return array.to_pylist()
    if pa.types.is_struct(kind):
        parts = [_plain(array.field(i)) for i in range(kind.num_fields)]
        names = [kind.field(i).name for i in range(kind.num_fields)]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)]
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return [None if not item.is_valid else _plain(item.values) for item in array]
    return array.to_pylist()


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.Array, dict[str, Any], int, int, int]:
    """A column: its rows, options, length of batches, how many rows decide its form, how much is read at once."""
    kind = draw(types())
    items = draw(st.lists(st.one_of(st.none(), values(kind)), max_size=40))
    if draw(st.booleans()):
        items = [item for item in items if item is not None]
    options: dict[str, Any] = {
        "filters": draw(st.sampled_from(FILTERS)),
        "chunk_rows": draw(st.sampled_from([None, 1, 3, 64])),
    }
    first_rows, piece_bytes = draw(st.sampled_from([1, 5, 65_536])), draw(st.sampled_from([1, 64, 1 << 20]))
    return make_array(items, kind), options, draw(st.integers(1, 50)), first_rows, piece_bytes


@given(column=columns())
def test_every_type_comes_back(column: tuple[pa.Array, dict[str, Any], int, int, int], tmp_path_factory: Any) -> None:
    """One column of any type, streamed in batches, reads back equal, whole and by slices."""
    array, options, batch_rows, first_rows, piece_bytes = column
    path = tmp_path_factory.mktemp("trip") / "x.h5"
    batches = [
        pa.record_batch([own_dictionary(array.slice(start, batch_rows))], names=["x"])
        for start in range(0, max(len(array), 1), batch_rows)
    ]
    try:
        with limits.override(first_rows=first_rows):
            cn.write(path, iter(batches), columns={"x": options})
    except cn.errors.UsageError as error:
        if refused_rightly(array, error):
            return
        raise
    with cn.open_table(path) as table, limits.override(piece_bytes=piece_bytes):
        assert table.n_rows == len(array)
        back = table.to_arrow().column("x")
        assert back.type == array.type
        expected = plain(pa.chunked_array([array]))
        assert same(plain(back), expected)
        if len(array):
            assert same(plain(table[1:-1].to_arrow().column("x")), expected[1:-1])
            assert same(plain(table[::-2].to_arrow().column("x")), expected[::-2])
            assert same(plain(table.take([-1, 0, 0]).to_arrow().column("x")), [expected[-1], expected[0], expected[0]])
    assert_plain_h5py_opens(path, len(array))
    assert cn.check(path, deep=True) == []


def own_dictionary(array: pa.Array) -> pa.Array:
    """An unordered dictionary column comes with another dictionary in each batch, as readers of Parquet give it."""
    if not pa.types.is_dictionary(array.type) or array.type.ordered:
        return array
    return array.dictionary_decode().dictionary_encode()


ONCE_BROKEN = [
    (pa.list_(pa.decimal128(12, 3)), [None, []]),
    (pa.list_(pa.decimal128(38, 10)), [None, [], [decimal.Decimal("1.5")]]),
    (pa.list_(pa.decimal128(38, 10), 2), [None, [decimal.Decimal(0), decimal.Decimal(1)]]),
    (pa.list_(pa.binary(1)), [[b"a", b"b"], None, []]),
    (pa.list_(pa.list_(pa.string())), [None, [["a"], []]]),
    (pa.list_(pa.bool_(), 2), [[True, False], [False, True]]),
    (pa.list_(pa.string()), [["a"], None, [], ["<missing>"], [""]]),
    (pa.string(), ["a", None, "", "\0"]),
    (pa.struct([("r", pa.float64()), ("i", pa.float64())]), [{"r": 1.0, "i": -0.0}, None]),
    (pa.int8(), [*range(-128, 128)]),
    (pa.dictionary(pa.int32(), pa.float64()), [0.0, -0.0, 0.0]),
]


@pytest.mark.parametrize(("kind", "rows"), ONCE_BROKEN, ids=[str(kind) for kind, _ in ONCE_BROKEN])
def test_what_was_once_broken_comes_back(kind: pa.DataType, rows: list[Any], tmp_path: Path) -> None:
    """Cases that the law above has found."""
    cn.write(tmp_path / "x.h5", ({"x": make_array([row], kind)} for row in rows))
    assert cn.check(tmp_path / "x.h5", deep=True) == []
    back = cn.read(tmp_path / "x.h5").column("x")
    assert back.type == kind
    assert same(plain(back), plain(pa.chunked_array([make_array(rows, kind)])))


def refused_rightly(array: pa.Array, error: cn.errors.UsageError) -> bool:
    """Missing rows need a value to spare, which structs of text have not; text with NUL inside a value has no form."""
    if error.filter in ("fletcher32", "blosc", "bitshuffle"):
        return pa.types.is_string(array.type) or pa.types.is_binary(array.type) or has_pointers(array.type, 1)
    if "holds NUL" in str(error):
        return not pa.types.is_string(array.type)
    return array.null_count > 0 and "missing value" in str(error) and has_pointers(array.type, 0)


def has_pointers(kind: pa.DataType, depth: int) -> bool:
    """Types whose missing rows HEP001 1.0 may have no mark for: nested variable length, and one-byte types."""
    if pa.types.is_struct(kind):
        return any(has_pointers(f.type, depth + 1) for f in kind) or any(pa.types.is_boolean(f.type) for f in kind)
    if pa.types.is_fixed_size_list(kind):
        return has_pointers(kind.value_type, depth + 1) or pa.types.is_boolean(kind.value_type)
    if pa.types.is_list(kind):
        return depth > 0 or has_pointers(kind.value_type, depth + 1) or pa.types.is_boolean(kind.value_type)
    return depth > 0 and (
        pa.types.is_string(kind) or (pa.types.is_binary(kind) and not pa.types.is_fixed_size_binary(kind))
    )


def assert_plain_h5py_opens(path: Path, n_rows: int) -> None:
    """Any HDF5 tool sees the table: a group with a rank-1 dataset of the right length."""
    with h5py.File(path, "r") as file:
        assert file["table/x"].shape == (n_rows,)
        assert file["table"].attrs["CLASS"] == b"COLUMN_TABLE"


@given(
    kind=st.sampled_from(INTEGERS),
    items=st.data(),
    filters=st.sampled_from(
        ["scale-offset", "n-bit", "shuffle+n-bit", "scale-offset+deflate", "scale-offset+fletcher32"]
    ),
    chunk_rows=st.sampled_from([1, 7, 64]),
)
def test_packed_integers_come_back(
    kind: pa.DataType, items: Any, filters: str, chunk_rows: int, tmp_path_factory: Any
) -> None:
    """Scale-offset and n-bit lose nothing of an integer: narrow ranges, whole ranges, with the fill among them."""
    near = st.integers(-3, 3) if pa.types.is_signed_integer(kind) else st.integers(0, 6)
    rows = items.draw(st.lists(st.one_of(st.none(), near, values(kind)), max_size=150))
    path = tmp_path_factory.mktemp("packed") / "x.h5"
    array = pa.array(rows, kind)
    cn.write(path, {"x": array}, columns={"x": cn.column(filters=filters, chunk_rows=chunk_rows)})
    assert cn.read(path).column("x").to_pylist() == rows
    assert cn.check(path, deep=True) == []


@given(
    rows=st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "NA", "<NA>", "é", "x" * 70, "\0"])), max_size=60),
    strings=st.sampled_from(["auto", "fixed", "variable"]),
    batch_rows=st.integers(1, 20),
    first_rows=st.sampled_from([1, 65_536]),
)
def test_strings_in_every_form_come_back(
    rows: list[str | None], strings: str, batch_rows: int, first_rows: int, tmp_path_factory: Any
) -> None:
    """Text that outgrows its width, holds the fill, or ends early by NUL comes back, or is refused by its row."""
    path = tmp_path_factory.mktemp("text") / "x.h5"
    batches = [
        {"x": pa.array(rows[at : at + batch_rows], pa.string())} for at in range(0, max(len(rows), 1), batch_rows)
    ]
    try:
        with limits.override(first_rows=first_rows):
            cn.write(path, iter(batches), columns={"x": {"strings": strings, "chunk_rows": 3}})
    except cn.errors.DataError as error:
        assert strings != "auto"
        assert "\0" in error.value
        return
    assert cn.read(path).column("x").to_pylist() == rows
    assert cn.check(path, deep=True) == []
