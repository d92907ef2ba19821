"""append(a, b) is create(a + b), for every type; and a refused append leaves the table as it was."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from tests.laws.strategies import make_array, types, values
from tests.laws.test_round_trip import own_dictionary, plain, refused_rightly, same


@st.composite
def two_parts(draw: st.DrawFn) -> tuple[pa.Array, int, int | None]:
    """The rows of a column, where the append begins, and a chunk length."""
    kind = draw(types())
    items = draw(st.lists(st.one_of(st.none(), values(kind)), max_size=30))
    return make_array(items, kind), draw(st.integers(0, len(items))), draw(st.sampled_from([None, 1, 3, 64]))


@given(parts=two_parts())
def test_append_is_create_of_both(parts: tuple[pa.Array, int, int | None], tmp_path_factory: Any) -> None:
    """Rows that come later read back after those that were there; what is refused changes nothing."""
    array, cut, chunk_rows = parts
    path = tmp_path_factory.mktemp("append") / "x.h5"
    first, second = own_dictionary(array.slice(0, cut)), own_dictionary(array.slice(cut))
    expected = plain(pa.chunked_array([array]))
    try:
        cn.write(path, {"x": first}, columns={"x": {"chunk_rows": chunk_rows}})
    except cn.errors.UsageError as error:
        assert refused_rightly(first, error)
        return
    with cn.open(path, "r+") as file:
        table = file["table"]
        try:
            assert table.append({"x": second}) == len(second)
        except cn.errors.DataError as error:
            assert "fill" in str(error) or "categories" in str(error) or refused_rightly(array, error)
            expected = expected[:cut]
        assert same(plain(table.to_arrow().column("x")), expected)
        assert table.problems == ()
    assert same(plain(cn.read(path).column("x")), expected)
    assert cn.check(path, deep=True) == []
