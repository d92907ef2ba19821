"""Text as Arrow's views: the same texts, whatever they are kept as, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.columns import strings as views

VIEW = pa.string_view()
N_ROWS = 9000
TEXTS = ["", "a", "twelve bytes", "thirteen byte", "größer als zwölf Bytes", "x" * 5000, "nul\0inside"]
KEPT: dict[str, dict[str, Any]] = {
    "categories": {"strings": "categories"},
    "fixed": {"strings": "fixed"},
    "variable": {"strings": "variable"},
    "categorical": {"categories": True},
}


def texts(kept: str, missing: bool) -> pa.Array:
    """Text that repeats, some of it missing; without NUL where HDF5 cannot keep it."""
    some = TEXTS if kept in ("categories", "categorical") else TEXTS[:5]
    codes = np.random.default_rng(5).integers(0, len(some), N_ROWS).tolist()
    return pa.array([None if missing and row % 7 == 3 else some[code] for row, code in enumerate(codes)], pa.string())


def table_of(path: Path, kept: str, missing: bool = True) -> pa.Table:
    given = pa.table({"x": texts(kept, missing), "n": np.arange(N_ROWS)})
    cn.write(path, given, columns={"x": cn.column(chunk_rows=1000, **KEPT[kept])})
    return given


@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("kept", ["categories", "fixed", "variable"])
def test_views_are_the_same_texts(tmp_path: Path, kept: str, missing: bool) -> None:
    given = table_of(tmp_path / "t.h5", kept, missing)
    with cn.open_table(tmp_path / "t.h5") as table:
        column = table["x"].to_arrow(views=True)
        assert column.type == VIEW
        column.validate(full=True)
        assert column.to_pylist() == given["x"].to_pylist()
        for query in (table, table[17:8123:3], table.take([8999, 0, 0, 4321]), table.where("n >= 500 and n < 1700")):
            whole = query.to_arrow(views=True)
            whole.validate(full=True)
            assert whole.schema.types == [VIEW, pa.int64()]
            assert whole.to_pydict() == query.to_arrow().to_pydict()
    assert cn.read(tmp_path / "t.h5", views=True).column("x").type == VIEW


def test_units_and_other_columns_stay(tmp_path: Path) -> None:
    given = pa.table(
        {"x": texts("categories", True), "c": texts("categorical", True).dictionary_encode(), "n": range(N_ROWS)}
    )
    columns = {"x": cn.column(description="what it is", strings="categories"), "n": cn.column(units="m")}
    cn.write(tmp_path / "t.h5", given, columns=columns)
    with cn.open_table(tmp_path / "t.h5") as table:
        plain, viewed = table.to_arrow(), table.to_arrow(views=True)
        assert viewed.schema.field("x").type == VIEW
        assert [field.metadata for field in viewed.schema] == [field.metadata for field in plain.schema]
        assert viewed.select(["c", "n"]).equals(plain.select(["c", "n"]))
        both = table.to_arrow(views=True, dictionaries=True)
        assert both.schema.field("x").type == plain["x"].chunk(0).dictionary_encode().type
        assert table["n"].to_arrow(views=True).equals(table["n"].to_arrow())
        assert table["c"].to_arrow(views=True).equals(table["c"].to_arrow())


@pytest.mark.parametrize("kept", ["categories", "fixed", "variable"])
@pytest.mark.parametrize("rows", [[], [None, None, None], [""], ["only one"]], ids=["none", "missing", "empty", "one"])
def test_edges(tmp_path: Path, kept: str, rows: list[str | None]) -> None:
    given = pa.table({"x": pa.array(rows, pa.string())})
    cn.write(tmp_path / "t.h5", given, columns={"x": cn.column(**KEPT[kept])})
    with cn.open_table(tmp_path / "t.h5") as table:
        assert table["x"].to_arrow(views=True).to_pylist() == rows
        assert table.to_arrow(views=True).schema.types == [VIEW]


def test_views_share_the_bytes_of_the_categories(tmp_path: Path) -> None:
    """No row has a copy of its text: all parts lead to the same bytes."""
    table_of(tmp_path / "t.h5", "categories")
    with cn.open_table(tmp_path / "t.h5") as table:
        buffers = [part.buffers() for part in table["x"].to_arrow(views=True).chunks]
        assert len({part[2].address for part in buffers}) == 1
        assert all(part[2].size < 6000 for part in buffers)  # the texts, once each


def test_few_rows_do_not_take_all_categories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"a name of more than twelve bytes, {number}" for number in range(5000)]
    cn.write(tmp_path / "t.h5", {"x": names}, columns={"x": cn.column(strings="categories")})
    monkeypatch.setattr(views, "_with_views", None)
    with cn.open_table(tmp_path / "t.h5") as table:
        found = table.take([4999, 3, 3]).to_arrow(views=True)["x"]
        assert found.to_pylist() == [names[4999], names[3], names[3]]
        assert sum(part.get_total_buffer_size() for part in found.chunks) < 1000


@pytest.mark.parametrize("kept", KEPT)
def test_polars_takes_them(tmp_path: Path, kept: str) -> None:
    given = table_of(tmp_path / "t.h5", kept)
    with cn.open_table(tmp_path / "t.h5") as table:
        frame = table.to_polars()
    assert frame["x"].dtype == (pl.Categorical if kept == "categorical" else pl.String)
    assert frame["x"].cast(pl.String).to_list() == given["x"].to_pylist()


@pytest.mark.parametrize("kept", ["categories", "fixed", "variable"])
@pytest.mark.parametrize("rows", [["a", None, "b"] * 3, [None] * 4], ids=["short", "missing"])
def test_views_can_be_handed_on_without_a_crash(tmp_path: Path, kept: str, rows: list[str | None]) -> None:
    """Arrow 21 to 24 leaves a null buffer where all strings are short, and handing it to Polars kills the process."""
    cn.write(tmp_path / "t.h5", {"x": pa.array(rows, pa.string())}, columns={"x": cn.column(**KEPT[kept])})
    with cn.open_table(tmp_path / "t.h5") as table:
        for query in (table, table[1:]):
            parts = query.to_arrow(views=True)["x"].chunks
            assert all(buffer is not None for part in parts for buffer in part.buffers()[1:])
            assert query.to_polars()["x"].to_list() == rows[-len(query) :]


class AsArrow21:
    """Strings whose cast to views leaves the data buffer null, as the cast of Arrow 21 to 24 does; 25 refuses to."""

    offset = 0

    def __init__(self, strings: pa.Array) -> None:
        self.cast_strings = strings.cast(VIEW)

    def __len__(self) -> int:
        return len(self.cast_strings)

    def cast(self, to: pa.DataType) -> AsArrow21:
        assert to == VIEW
        return self

    def buffers(self) -> list[pa.Buffer | None]:
        return [*self.cast_strings.buffers()[:2], None]


def test_a_null_data_buffer_is_replaced_whatever_the_version_of_arrow() -> None:
    strings = pa.array(["a", None, "twelve bytes", ""])
    strings_of_21: Any = AsArrow21(strings)
    made = views._views_of(strings_of_21)
    assert all(buffer is not None for buffer in made.buffers())
    assert made.to_pylist() == strings.to_pylist()
    assert pl.from_arrow(made).to_list() == strings.to_pylist()
