"""H5Col tables that other programs may write, legal or hostile: masks, other fills of codes, offsets that lie."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import ColonnadeError, UnsupportedError
from tests.conformance.h5col import make
from tests.conformance.make import number
from tests.laws.test_h5col_changes import ROWS, shown

SAMPLES = Path(__file__).parent.parent / "golden" / "h5col"


def rules_of(path: Path) -> set[tuple[str, str]]:
    return {(finding.rule, finding.severity) for finding in cn.check(path, deep=True)}


# -- the attribute MASK --


@pytest.fixture
def masked(tmp_path: Path) -> Path:
    """Columns x and s with masks, one of which is longer than the table; the fill of s is a value here."""
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        group = make.table(file)
        make.reference(group["x"], "MASK", group.create_dataset("x__MASK", data=np.array([True, False, True, False])))
        text = make.column(group, "s", np.array([b"a", b"", b"c"]), b"")
        make.reference(text, "MASK", group.create_dataset("marks", data=np.array([False, True, True])))
    return path


@pytest.mark.parametrize("library", ["auto", "never"])
def test_a_mask_marks_missing_rows(masked: Path, library: Any) -> None:
    with cn.open(masked, library=library) as file:
        table = file["t"]
        assert table.to_arrow().to_pydict() == {"x": [3, None, 2], "s": [None, "", "c"]}
        assert table.where("x is missing").row_numbers().tolist() == [1]
        assert table.where("s == ''").row_numbers().tolist() == [1]
        assert table.take([2, 1]).to_arrow()["x"].to_pylist() == [2, None]
    assert rules_of(masked) == {("JM8", "warning")}


def test_rows_of_masked_columns_are_not_changed(masked: Path) -> None:
    with cn.open(masked, "r+") as file:
        table = file["t"]
        for change in (lambda: table.append({"x": [1], "s": ["q"]}), lambda: table.update("x", [0], [5])):
            with pytest.raises(UnsupportedError, match="MASK"):
                change()
        table.build_index("x", ["chunk_minmax", "sorted_rows", "bitmap"])
        assert table.verify_indexes() == []
        assert table.where("x > 1").row_numbers().tolist() == [0, 2]
        table.replace_column("x", [1, 2, None])
        table.drop_column("s")
        table.append({"x": [4]})
        assert table.to_arrow().to_pydict() == {"x": [1, 2, None, 4]}
    with h5py.File(masked) as file:
        assert set(file["t"]) == {"x"}
    assert rules_of(masked) == set()


@pytest.mark.parametrize("what", ["number", "integers", "short", "null", "codes"])
def test_what_is_not_exactly_a_mask_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        group = make.table(file)
        column = make.categorical(group) if what == "codes" else group["x"]
        marks = np.array([1, 0, 1], "u1") if what == "integers" else np.array([True, False, True][what == "short" :])
        mask = file.create_dataset("mask", data=marks)
        if what == "number":
            number(column, "MASK", 1)
        else:
            make.references(column, "MASK", [None if what == "null" else mask], is_scalar=True)
        name = column.name.rsplit("/", 1)[1]
    with cn.open(path) as file, pytest.raises(ColonnadeError, match="MASK"):
        file["t"].select(name).to_arrow()
    assert rules_of(path) == {("JM8", "error")}


# -- codes whose fill is not -1 --


@pytest.mark.parametrize(("dtype", "fill"), [("u1", 255), ("i1", 100), ("i1", 3), ("i1", 2), ("i2", -5), ("u1", 2)])
def test_rows_of_codes_with_any_fill_are_changed(tmp_path: Path, dtype: str, fill: int) -> None:
    """The fill becomes another one before the code of a new category reaches it (JK5)."""
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        group = make.table(file)
        column = make.column(group, "k", np.array([0, 1, fill], dtype), fill)
        labels = group.create_group("CATEGORIES").create_dataset("k__CATEGORIES", data=np.array([b"muon", b"pion"]))
        make.reference(column, "CATEGORIES", labels)
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.append({"x": [1, 2, 3], "k": ["pion", None, "muon"]})
        table.update("k", [0, 2], [None, "pion"])
        table.append({"x": [1, 2, 3], "k": ["new", None, "newer"]})
        expected = [None, "pion", "pion", "pion", None, "muon", "new", None, "newer"]
        assert table.to_arrow()["k"].to_pylist() == expected
        table.delete([1])
        assert table.to_arrow()["k"].to_pylist() == [None, *expected[2:]]
    assert rules_of(path) == set()


# -- hostile lists --


OFFSETS = [
    (0, 2, 1, 3), (0, 2, 2, 9), (1, 2, 2, 3), (0, 2, 2, 2**40), (0, 2**40, 2**40, 2**40 + 1), (0, 2, 2, 2**63),
    (0, 2**62, 2**63 - 1, 2**63 - 1), (0, 2**64 - 1, 2, 3), (0, 0, 2**50, 3),
]  # fmt: skip
QUESTIONS: dict[str, Callable[[cn.Table], object]] = {
    "read": lambda table: table.to_arrow(),
    "length": lambda table: table.where("len(l) > 1").count(),
    "any": lambda table: table.where("any(l > 1)").count(),
    "explode": lambda table: table.explode("l").to_arrow(),
    "last": lambda table: table.explode("l")[-1:].to_arrow(),
    "batches": lambda table: sum(batch.num_rows for batch in table.explode("l").batches()),
    "where": lambda table: table.explode("l").where("l > 1").count(),
}


@pytest.mark.parametrize("offsets", OFFSETS, ids=str)
def test_offsets_that_lie_give_no_rows(tmp_path: Path, offsets: tuple[int, ...]) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        make.lists(make.table(file), offsets=offsets)
    for library in ("auto", "never"):
        with cn.open(path, library=library) as file:
            for ask in QUESTIONS.values():
                with pytest.raises(cn.errors.CorruptError):
                    ask(file["t"])
    with cn.open(path, "r+") as file, pytest.raises(ColonnadeError):
        file["t"].append({"x": [1], "l": [[1]]}) if offsets[-1] > 3 else file["t"].update("l", [0], [[1]])
    assert {rule for rule, _ in rules_of(path)} == {"JL4"}


def test_elements_that_were_never_written_are_not_gone_through(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        column = make.lists(make.table(file), offsets=(0, 2, 2, 2**40))
        del column["VALUES"]
        column.create_dataset(
            "VALUES", shape=(2**41,), dtype="i4", chunks=(1024,), maxshape=(None,), fillvalue=make.FILL
        )
    with cn.open(path) as file:
        for name in ("any", "explode", "batches", "where"):
            with pytest.raises(UnsupportedError, match="claims"):
                QUESTIONS[name](file["t"])


@pytest.mark.parametrize("links", ["folder", "any", "none"])
def test_references_into_other_files_are_never_followed(tmp_path: Path, links: Any) -> None:
    shutil.copy(SAMPLES / "wrong_3_hostile.h5", tmp_path / "t.h5")
    with cn.open(tmp_path / "t.h5", links=links) as file:
        table = file["/std_refs"]
        problems = {column.name: column.problem for column in table.info.members}
        assert [name for name, problem in problems.items() if problem is None] == ["a"]


@pytest.mark.parametrize("name", ["JX4-cycle", "JX4-deep"])
def test_lists_without_end_are_refused(name: str) -> None:
    path = Path(make.__file__).parent / "files" / f"{name}.h5"
    with cn.open(path, library="never") as file:
        for ask in QUESTIONS.values():
            with pytest.raises(ColonnadeError):
                ask(file["t"])
        assert file["t"].select("x").to_arrow()["x"].to_pylist() == [3, 1, 2]


def test_forged_tokens_make_no_index_trusted(tmp_path: Path) -> None:
    """An index of a stranger whose tokens are right, and whose rows are not."""
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        make.minmax(make.table(file), ((50, 60, 0, 0, 2), (50, 60, 0, 0, 1)))
    with cn.open(path) as file:
        table = file["t"]
        assert [(index.fresh, index.trusted) for index in table.indexes] == [(True, False)]
        assert table.where("x > 1").row_numbers().tolist() == [0, 2]
        assert [finding.rule for finding in table.verify_indexes()] == ["S8"] * 4
        assert table.where("x > 1").row_numbers().tolist() == [0, 2]


def test_the_greatest_generation_is_followed_by_0(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with h5py.File(path, "w") as file:
        group = make.table(file)
        index = make.sorted_rows(group)
        for node, name in ((group, "GENERATION"), (index, "SOURCE_GENERATION")):
            number(node, name, 2**64 - 1)
    with cn.open(path, "r+") as file:
        table = file["t"]
        assert table.verify_indexes() == []
        table.append({"x": [0]})
        assert table.where("x < 2").row_numbers().tolist() == [1, 3]
    with h5py.File(path) as file:
        assert file["t"].attrs["GENERATION"] == 0


# -- valid ranges --


def valid_range(path: Path) -> list[float]:
    """The range in the file, from which no value of the column is left out and in which the fill is not."""
    with h5py.File(path) as file:
        dataset = file["t/v"]
        bounds = [dataset.attrs[name].item() for name in ("valid_min", "valid_max") if name in dataset.attrs]
        stored, fill = dataset[()], dataset.fillvalue
    if bounds:
        values = stored[stored != fill]
        assert not bounds[0] <= fill <= bounds[1] and ((values >= bounds[0]) & (values <= bounds[1])).all()
    assert rules_of(path) == set()
    return bounds


@pytest.mark.parametrize(
    ("kind", "values", "fill", "bounds"),
    [
        ("int8", [1, None], None, []),
        ("int8", [-127, None], None, [-127, 127]),
        ("int8", [1, None], 127, [-128, 126]),
        ("int8", [1, None], 5, []),
        ("uint8", [0, 255, None], None, []),
        ("uint8", [255, None], 0, [1, 255]),
        ("uint16", [65535, None], None, []),
        ("uint64", [2**64 - 1, None], None, []),
        ("int64", [-(2**63) + 1, -(2**63), None], None, []),
        ("float64", [-6.0, None], -5.0, []),
        ("float64", [1.0, None], 0.0, []),
        ("float32", [1.0, None], float("inf"), [float("-inf"), float(np.finfo("f4").max)]),
    ],
)
def test_valid_ranges_leave_out_the_fill_and_nothing_else(
    tmp_path: Path, kind: str, values: list[float | None], fill: float | None, bounds: list[float]
) -> None:
    path = tmp_path / "t.h5"
    options = {} if fill is None else {"v": cn.column(fill=fill)}
    cn.write(path, {"v": pa.array(values, pa.type_for_alias(kind))}, "t", layout="h5col", columns=options)
    assert valid_range(path) == bounds


def test_valid_ranges_follow_the_fill(tmp_path: Path) -> None:
    path, april, july = (tmp_path / name for name in ("t.h5", "april.h5", "july.h5"))
    cn.write(path, {"v": pa.array([1, None], pa.int8())}, "t", layout="h5col")
    bounds = []
    for value in (-127, 4, -128):
        with cn.open(path, "r+") as file:
            file["t"].append({"v": [value]})
        bounds.append(valid_range(path))
    assert bounds == [[-127, 127], [-127, 127], []]
    assert cn.read(path, "t")["v"].to_pylist() == [1, None, -127, 4, -128]
    with cn.open(path, "r+") as file:
        file["t"].truncate(3)
        file["t"].replace_column("v", pa.array([1, None, -127], pa.int8()))
        assert valid_range(path) == [-127, 127]
        file["t"].truncate(2)
    cn.convert(path, april, layout="hep001")
    with cn.open(april, "r+") as file:
        file["t"].append({"v": [4]})
    cn.convert(april, july, layout="h5col")
    assert valid_range(july) == [] and cn.read(july, "t")["v"].to_pylist() == [1, None, 4]


# -- changes of the last rows of list columns --


@pytest.mark.parametrize("seed", range(4))
def test_changes_of_last_rows_equal_the_same_in_memory(tmp_path: Path, seed: int) -> None:
    chance = np.random.default_rng(seed)
    source = ROWS.select(["ints", "texts", "flags", "deep", "deep_texts"])
    rows = pa.concat_tables([source] * 4).combine_chunks()
    path = tmp_path / "t.h5"
    cn.write(path, rows, "t", layout="h5col", columns={name: {"chunk_rows": 4} for name in rows.column_names})
    with cn.open(path, "r+") as file:
        table = file["t"]
        for _ in range(4):
            first = int(chance.integers(len(rows) // 2, len(rows)))
            chosen = first + np.flatnonzero(chance.random(len(rows) - first) < 0.5)
            values = source.take(pa.array(chance.integers(0, 5, len(chosen))))
            for name in rows.column_names if len(chosen) else ():
                table.update(name, chosen, values[name])
            order = np.arange(len(rows))
            order[chosen] = len(rows) + np.arange(len(chosen))
            rows = pa.concat_tables([rows, values]).combine_chunks().take(pa.array(order))
            assert shown(table.to_arrow()) == shown(rows)
            gone = first + np.flatnonzero(chance.random(len(rows) - first) < 0.3)
            table.delete(gone.tolist())
            rows = rows.take(pa.array(np.setdiff1d(np.arange(len(rows)), gone)))
            assert shown(table.to_arrow()) == shown(rows)
    assert rules_of(path) == set()


def test_rows_before_the_first_change_stay_where_they_are(tmp_path: Path) -> None:
    """The cost of a change near the end is that of the end."""
    path, n_rows = tmp_path / "t.h5", 200_000
    lists = pa.ListArray.from_arrays(pa.array(np.arange(n_rows + 1, dtype="i4") * 8), pa.array(np.arange(n_rows * 8.0)))
    cn.write(path, {"l": lists}, "t", layout="h5col", columns={"l": {"filters": "none"}})
    before = path.stat().st_size
    with h5py.File(path) as file:
        places = [h5py.h5o.get_info(file[f"t/l{name}"].id).addr for name in ("", "/VALUES", "/OFFSETS")]
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.update("l", [n_rows - 1], [[1.0]])
        table.delete([n_rows - 2])
        assert table[-2:].to_arrow()["l"].to_pylist() == [lists[n_rows - 3].as_py(), [1.0]]
    with h5py.File(path) as file:
        assert places == [h5py.h5o.get_info(file[f"t/l{name}"].id).addr for name in ("", "/VALUES", "/OFFSETS")]
    assert path.stat().st_size < before * 1.1
