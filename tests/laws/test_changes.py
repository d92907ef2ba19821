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


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Changes in any order: rows added, rows cut off, a transaction taken back, the file closed and opened."""
    rows = st.lists(
        st.fixed_dictionaries(
            {
                "i": st.one_of(st.none(), st.integers(-100, 100)),
                "s": st.one_of(st.none(), st.text("abé", min_size=1, max_size=30)),
                "c": st.one_of(st.none(), st.text("xyz", min_size=1, max_size=2)),
                "b": st.one_of(st.none(), st.booleans()),
            }
        ),
        max_size=12,
    )
    return draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("append"), rows),
                st.tuples(st.just("truncate"), st.floats(0, 1)),
                st.tuples(st.just("undo"), rows),
                st.tuples(st.just("reopen"), st.none()),
                st.tuples(st.just("together"), rows),
            ),
            max_size=8,
        )
    )


SCHEMA = pa.schema(
    [("i", pa.int64()), ("s", pa.string()), ("c", pa.dictionary(pa.int32(), pa.string())), ("b", pa.bool_())]
)


def as_table(rows: list[dict[str, Any]]) -> pa.Table:
    """The rows as Arrow, the categorical with a dictionary of its own."""
    plain_schema = pa.schema([f if f.name != "c" else pa.field("c", pa.string()) for f in SCHEMA])
    table = pa.Table.from_pylist(rows, plain_schema)
    return table.set_column(2, "c", table.column("c").dictionary_encode())


class Undone(Exception):
    """Raised inside a transaction to take it back."""


@given(first=steps(), done=steps())
def test_any_sequence_of_changes_equals_the_same_in_memory(first: Any, done: Any, tmp_path_factory: Any) -> None:
    """After each commit, and after reopening, the table holds what a list of rows holds."""
    path = tmp_path_factory.mktemp("steps") / "x.h5"
    rows: list[dict[str, Any]] = []
    cn.write(path, as_table(rows))
    file = cn.open(path, "r+", durability="fast")
    try:
        for kind, given_rows in [*first, *done]:
            if kind == "reopen":
                file.close()
                file = cn.open(path, "r+", durability="fast")
            else:
                rows = change(file, kind, given_rows, rows)
            assert file["table"].to_arrow().to_pylist() == rows
    finally:
        file.close()
    assert cn.read(path).to_pylist() == rows


def change(file: cn.File, kind: str, argument: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Do one change to the file; what the rows are then."""
    table = file["table"]
    if kind == "append":
        table.append(as_table(argument))
        return rows + argument
    if kind == "truncate":
        keep = int(len(rows) * argument)
        table.truncate(keep)
        return rows[:keep]
    if kind == "together":
        with file.transaction():
            table.append(as_table(argument))
            table.append(as_table(argument))
        return rows + argument + argument
    try:
        with file.transaction():
            table.append(as_table(argument))
            table.truncate(0)
            raise Undone
    except Undone:
        return rows
