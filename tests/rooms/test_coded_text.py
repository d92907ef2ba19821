"""Text that is kept by categories: it stays text in every way, and comes as dictionaries where that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.layouts.text_writer import distinct_in_all
from colonnade.query.stats import ColumnStats

WORDS = ["muon", "electron", "", "tau lepton", "größe", "a much longer word than the others"]
N_ROWS = 10_000


def words(n_rows: int = N_ROWS, missing: bool = True) -> pa.Array:
    """Words that repeat, some of them missing."""
    chance = np.random.default_rng(3)
    codes = chance.integers(0, len(WORDS), n_rows)
    return pa.array([None if missing and place % 97 == 5 else WORDS[code] for place, code in enumerate(codes.tolist())])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.h5"


def is_coded(path: Path, column: str = "x") -> bool:
    """Whether the file keeps a column of the table t by codes, seen with plain h5py."""
    with h5py.File(path) as file:
        return "_categories" in file["t"][column].attrs


def test_text_that_repeats_is_kept_by_categories_and_stays_text(path: Path) -> None:
    given = words()
    cn.write(path, {"x": given}, table="t")
    assert is_coded(path)
    with cn.open(path) as file:
        table = file["t"]
        assert table.schema.field("x").type == pa.string()
        assert table["x"].dtype == pa.string()
        assert table.to_arrow().column("x").combine_chunks().equals(given)
        assert table[123:4567].to_arrow().column("x").to_pylist() == given[123:4567].to_pylist()
        assert (
            table.take([9_999, 5, 5, 0]).to_arrow().column("x").to_pylist() == given.take([9999, 5, 5, 0]).to_pylist()
        )
        assert table["x"][7] == given[7].as_py()
        assert [text for batch in table.batches(999) for text in batch.column("x").to_pylist()] == given.to_pylist()


def test_dictionaries_on_request(path: Path) -> None:
    given = words()
    cn.write(path, {"x": given, "n": np.arange(N_ROWS)}, table="t")
    for found in (
        cn.read(path, "t", dictionaries=True).column("x"),
        cn.open_table(path, "t").where("n >= 0").to_arrow(dictionaries=True).column("x"),
        cn.open_table(path, "t")["x"].to_arrow(dictionaries=True),
        pa.chunked_array([b.column("x") for b in cn.open_table(path, "t").batches(700, dictionaries=True)]),
    ):
        assert found.type == pa.dictionary(pa.int32(), pa.string())
        assert found.cast(pa.string()).combine_chunks().equals(given)
    table = cn.open_table(path, "t")
    assert isinstance(table.to_pandas(dictionaries=True)["x"].dtype, pd.CategoricalDtype)
    assert not isinstance(table.to_pandas()["x"].dtype, pd.CategoricalDtype)
    assert table.to_polars(dictionaries=True)["x"].dtype == pl.Categorical
    assert table.to_polars()["x"].dtype == pl.String
    assert cn.read(path, "t", ["n"], dictionaries=True).column("n").type == pa.int64()


def test_a_categorical_stays_a_categorical(path: Path) -> None:
    cn.write(
        path, {"x": words().dictionary_encode(), "y": words()}, table="t", columns={"y": cn.column(categories=True)}
    )
    kinds = cn.read(path, "t").schema
    assert pa.types.is_dictionary(kinds.field("x").type)
    assert pa.types.is_dictionary(kinds.field("y").type)


@pytest.mark.parametrize(
    ("why", "values", "options"),
    [
        ("few rows", words(1000), {}),
        ("all differ", pa.array([f"{row:08}" for row in range(N_ROWS)]), {}),
        ("short already", pa.array(["a", "b"] * 5000), {}),
        ("fixed was asked for", words(), {"strings": "fixed"}),
        ("variable was asked for", words(), {"strings": "variable"}),
        ("no categories were asked for", words(), {"categories": False}),
        ("a fill was asked for", words(), {"fill": "none"}),
        ("all are missing", pa.nulls(N_ROWS, pa.string()), {}),
    ],
)
def test_where_categories_do_not_pay_or_are_not_wanted(path: Path, why: str, values: pa.Array, options: Any) -> None:
    cn.write(path, {"x": values}, table="t", columns={"x": cn.column(**options)})
    assert not is_coded(path), why
    assert cn.read(path, "t").column("x").combine_chunks().equals(values)


def test_labels_are_not_tried(path: Path) -> None:
    cn.write(path, {"x": words(missing=False), "n": np.arange(N_ROWS)}, table="t", labels=["x"])
    assert not is_coded(path)


def test_categories_on_request_for_few_rows(path: Path) -> None:
    given = pa.array(["b", None, "a", "b"])
    cn.write(path, {"x": given}, table="t", columns={"x": cn.column(strings="categories")})
    assert is_coded(path)
    assert cn.read(path, "t").column("x").combine_chunks().equals(given)
    cn.write(path, {"x": pa.array([], pa.string())}, table="u", columns={"x": cn.column(strings="categories")})
    assert cn.read(path, "u").column("x").type == pa.string()


def test_text_that_repeats_no_more_is_copied_into_plain_text(path: Path) -> None:
    """The guess from the first rows was wrong: all rows are there, as text, and nothing else is left."""

    def batches() -> Iterator[dict[str, Any]]:
        yield {"x": words(70_000)}
        for batch in range(4):
            yield {"x": pa.array([f"another {batch} {row:07} ünique" for row in range(30_000)])}

    cn.write(path, batches(), table="t")
    assert not is_coded(path)
    expected = [value for batch in batches() for value in batch["x"].to_pylist()]
    assert cn.read(path, "t").column("x").to_pylist() == expected
    with h5py.File(path) as file:
        assert list(file["t"]) == ["x"]


@pytest.mark.parametrize(("n_words", "n_rows"), [(5000, 100_000), (40_000, 400_000)])
def test_text_that_repeats_later_is_known_by_its_first_rows_alone(path: Path, n_words: int, n_rows: int) -> None:
    """That 65,536 rows show so many words, some of them again, says how many there are."""
    chance = np.random.default_rng(1)
    words = np.array([f"word number {code}" for code in range(n_words)])
    values = pa.array(words[chance.integers(0, n_words, n_rows)])
    cn.write(path, pa.table({"x": values}), table="t")
    assert is_coded(path)


@pytest.mark.parametrize("n_known", [10, 1000, 50_000, 200_000])
def test_how_many_there_are_to_choose_from(n_known: int) -> None:
    drawn = np.random.default_rng(2).integers(0, n_known, 65_536)
    guessed = distinct_in_all(len(np.unique(drawn)), len(drawn))
    assert 0.9 * n_known <= guessed <= 1.15 * n_known


def test_nothing_is_met_twice() -> None:
    assert distinct_in_all(65_536, 65_536) == float("inf")


@pytest.mark.parametrize(
    "predicate",
    [
        "x == 'muon'",
        "x != 'muon'",
        "x < 'm'",
        "x >= 'größe' and n < 5000",
        "x in ('', 'tau lepton', 'nothing')",
        "x is missing",
        "not (x is missing)",
        "x like 'a%'",
        "x between 'b' and 'n'",
        "not x between 'b' and 'n'",
    ],
)
@pytest.mark.parametrize("kind", [None, "bitmap", "sorted_rows", "chunk_bloom", "chunk_minmax"])
def test_it_is_searched_as_text(path: Path, predicate: str, kind: str | None) -> None:
    """The same rows as plain text gives, with every kind of index."""
    data = {"x": words(), "n": np.arange(N_ROWS)}
    index = {} if kind is None else {"x": kind}
    rows = {"x": cn.column(chunk_rows=1000)}
    cn.write(path, data, table="t", columns=rows, index=index)
    assert is_coded(path)
    cn.write(path, data, table="plain", columns={"x": cn.column(strings="fixed")})
    with cn.open(path) as file:
        found, expected = (file[name].where(predicate) for name in ("t", "plain"))
        assert found.row_numbers().tolist() == expected.row_numbers().tolist()
        assert found.to_arrow().equals(expected.to_arrow())
        assert found.count() == len(found.row_numbers())


@pytest.mark.parametrize("kind", [None, "bitmap", "sorted_rows", "chunk_minmax"])
def test_its_totals_are_those_of_text(path: Path, kind: str | None) -> None:
    data = {"x": words(), "n": np.arange(N_ROWS)}
    cn.write(path, data, table="t", index={} if kind is None else {"x": kind})
    cn.write(path, data, table="plain", columns={"x": cn.column(strings="fixed")})
    with cn.open(path) as file:
        coded, plain = file["t"], file["plain"]
        wanted: dict[str, Any] = {"x": ["min", "max", "count"]}
        assert (
            coded.aggregate(wanted) == plain.aggregate(wanted) == {"x_min": "", "x_max": "tau lepton", "x_count": 9896}
        )
        assert coded.aggregate({"x": ["count", "max"]}) == plain.aggregate({"x": ["count", "max"]})
        assert coded.aggregate(n="count", by="x").equals(plain.aggregate(n="count", by="x"))
        assert coded.where("n < 99").aggregate(wanted) == plain.where("n < 99").aggregate(wanted)
        found, expected = coded.stats()["x"], plain.stats()["x"]
        assert isinstance(found, ColumnStats) and isinstance(expected, ColumnStats)
        assert (found.n_missing, found.least, found.greatest) == (expected.n_missing, expected.least, expected.greatest)
        assert found.distinct == expected.distinct


def test_it_is_changed_as_text(path: Path) -> None:
    """Appends, updates and truncation keep it text, also with words that were not there."""
    given = words()
    cn.write(path, {"x": given}, table="t", index={"x": "bitmap"})
    expected = given.to_pylist()
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.append({"x": ["muon", "a new word", None]})
        expected += ["muon", "a new word", None]
        table.append({"x": pa.array(["newer"]).dictionary_encode()})
        expected += ["newer"]
        for number in range(130):  # more than codes of one byte can tell apart
            table.append({"x": [f"word {number}"]})
            expected.append(f"word {number}")
        table.update("x", rows=[3, 9_999], values=["updated", None])
        expected[3], expected[9_999] = "updated", None
        assert table.schema.field("x").type == pa.string()
        assert table.to_arrow().column("x").to_pylist() == expected
        assert table.where("x == 'word 99'").row_numbers().tolist() == [expected.index("word 99")]
        table.truncate(10_002)
    assert cn.read(path, "t").column("x").to_pylist() == expected[:10_002]
    assert is_coded(path)
    with cn.open(path) as file:
        assert not file["t"].verify_indexes()


def test_added_and_replaced_columns(path: Path) -> None:
    cn.write(path, {"n": np.arange(N_ROWS)}, table="t")
    with cn.open(path, "r+") as file:
        file["t"].add_column("x", words())
        file["t"].add_column("y", words().dictionary_encode())
        file["t"].replace_column("y", words())
        assert file["t"].schema.field("y").type == pa.string()
    assert is_coded(path, "x") and is_coded(path, "y")
    assert cn.read(path, "t").column("x").combine_chunks().equals(words())
    assert cn.read(path, "t").column("y").combine_chunks().equals(words())


def test_text_with_nul(path: Path) -> None:
    given = pa.array(["a\0b", "a", "a\0", None, "quite another word"] * 2000)
    cn.write(path, {"x": given}, table="t")
    assert cn.read(path, "t").column("x").combine_chunks().equals(given)


def test_codes_that_mean_nothing_are_told(path: Path) -> None:
    cn.write(path, {"x": words()}, table="t")
    with h5py.File(path, "r+") as file:
        file["t"]["x"][17] = 99
    with pytest.raises(cn.errors.CorruptError) as told:
        cn.read(path, "t")
    assert (told.value.column, told.value.row) == ("x", 17)


def test_more_text_than_an_array_can_hold_is_refused(path: Path) -> None:
    """Two codes of 1 MB each for many rows: dictionaries hold them, text of 2 GiB does not."""
    given = pa.DictionaryArray.from_arrays(np.zeros(5000, "i4"), pa.array(["x" * (1 << 20)]))
    cn.write(path, {"x": given}, table="t")
    with h5py.File(path, "r+") as file:
        file["t"]["x"].attrs["arrow_type"] = "string"
    with cn.open(path) as file:
        assert len(file["t"].take([4, 8]).to_arrow().column("x")[1].as_py()) == 1 << 20
        assert len(file["t"].to_arrow(dictionaries=True)) == 5000
        with pytest.raises(cn.errors.UsageError, match="dictionaries=True"):
            file["t"].to_arrow()


def test_codes_are_kept_where_single_rows_can_be_reached(path: Path) -> None:
    """Also where the first rows bring a new word each, so that their codes are 0, 1, 2, ..."""
    first = [f"word {code}" for code in range(70_000)]
    cn.write(path, {"x": first + first[::-1]}, table="t", columns={"x": cn.column(strings="categories")})
    assert cn.open_table(path, "t")["x"].filters == "scale-offset"
    assert cn.read(path, "t").column("x").to_pylist() == first + first[::-1]


# -- many categories --


def many_texts(n: int = 5000, longest: int = 13) -> list[str]:
    """Texts that differ, of 8 to `longest` bytes, some of them in two alphabets."""
    return [f"wö{place:05}" + "x" * (place % (longest - 7)) for place in range(n)]


def stored_categories(path: Path) -> Any:
    """The datatype of the categories, and they themselves, seen with plain h5py."""
    with h5py.File(path) as file:
        dataset = file["t"][file["t/x"].attrs["_categories"]]
        return h5py.check_string_dtype(dataset.dtype), dataset.asstr()[:].tolist()


def test_many_categories_of_similar_lengths_are_kept_at_one(path: Path) -> None:
    texts = many_texts()
    given = pa.array(texts * 3)
    cn.write(path, {"x": given}, table="t", columns={"x": cn.column(strings="categories")})
    kind, found = stored_categories(path)
    assert (kind.encoding, kind.length) == ("utf-8", 16) and found == texts
    assert cn.read(path).column("x").combine_chunks().equals(given)
    assert not list(cn.check(path, deep=True))


@pytest.mark.parametrize(
    ("added", "length"),
    [(["new", "", "sixteen bytes ok"], 16), (["seventeen bytes.."], 24), (["w" * 300], None), (["a\0b"], None)],
    ids=["fit", "longer", "far longer", "with NUL"],
)
def test_categories_at_one_length_grow(path: Path, added: list[str], length: int | None) -> None:
    texts = many_texts()
    cn.write(path, {"x": texts}, table="t", columns={"x": cn.column(strings="categories")})
    with cn.open(path, "r+") as file:
        file["t"].append({"x": [*added, texts[7], None]})
    assert cn.read(path).column("x").to_pylist() == [*texts, *added, texts[7], None]
    if "\0" not in added[0]:
        kind, found = stored_categories(path)
        assert (kind.length, found) == (length, [*texts, *added])
    assert not list(cn.check(path, deep=True))


@pytest.mark.parametrize(
    "texts",
    [many_texts(4000), [*many_texts(), "y" * 400], ["", *many_texts(), "a\0b"]],
    ids=["few", "one far longer", "with NUL"],
)
def test_other_categories_are_of_variable_length(path: Path, texts: list[str]) -> None:
    cn.write(path, {"x": texts}, table="t", columns={"x": cn.column(strings="categories")})
    assert cn.read(path).column("x").to_pylist() == texts
    with h5py.File(path) as file:
        kind = file["t"][file["t/x"].attrs["_categories"]].dtype
        assert kind.kind == "O"
