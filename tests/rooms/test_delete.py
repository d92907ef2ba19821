"""Rows removed by predicate or number: every form of column, every layout, and no more touched than must be."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade import limits
from colonnade.errors import ConflictError, FormatError, UsageError

N = 300
CHUNK = 32


def rows(layout: str) -> pa.Table:
    """Columns of every form that the layout has, with missing rows."""
    gaps = [None if row % 7 == 0 else row for row in range(N)]
    columns: dict[str, Any] = {
        "number": np.arange(N),
        "gaps": pa.array(gaps, pa.int32()),
        "real": pa.array([None if gap is None else [0.5, -0.0, float("nan"), float("inf")][gap % 4] for gap in gaps]),
        "flag": pa.array([None if gap is None else gap % 2 == 0 for gap in gaps]),
        "text": pa.array([None if gap is None else f"text {gap}" * (gap % 5) for gap in gaps]),
        "coded": pa.array([f"word {row % 3}" for row in range(N)]),
        "kind": pa.array([["muon", "pion", None][row % 3] for row in range(N)]).dictionary_encode(),
        "row": pa.array([f"row {row}" for row in range(N)]),
    }
    if layout == "hep001":
        columns |= {
            "sparse": pa.array([row * 1.5 if row % 40 > 35 else None for row in range(N)]),
            "enum": pa.array([["a", "b"][row % 2] for row in range(N)]).dictionary_encode(),
            "list": pa.array([None if row % 9 == 8 else list(range(row % 4)) for row in range(N)]),
            "decimal": pa.array([f"{row}.25" for row in range(N)]).cast(pa.decimal128(12, 2)),
            "many digits": pa.array([f"{row}.25" for row in range(N)]).cast(pa.decimal128(38, 2)),
            "when": pa.array(gaps, pa.int64()).cast(pa.timestamp("us")),
            "pos": pa.array([{"x": row, "y": row / 2} for row in range(N)]),
            "pair": pa.array([[row, row + 1] for row in range(N)], pa.list_(pa.int16(), 2)),
            "long": pa.array([f"{row}" * (row % 60) for row in range(N)]),
        }  # fmt: skip
    return pa.table(columns)


def make(path: Path, layout: str) -> str:
    """A table with an index of each kind; gives the path of the table."""
    data = rows(layout)
    options: dict[str, Any] = {}
    if layout == "hep001":
        options = {name: {"chunk_rows": CHUNK} for name in data.column_names}
        options["sparse"] |= {"sparse": True}
        options["enum"] |= {"enum": True}
        options["long"] |= {"strings": "variable", "filters": "shuffle+deflate"}
        options["number"] |= {"filters": "none"}
    index = {"number": ["sorted_rows", "chunk_minmax"], "text": ["chunk_bloom", "sorted_rows"], "kind": "bitmap"}
    how: dict[str, Any] = {"anndata": True} if layout == "view" else {"layout": layout}
    cn.write(path, data, "t", columns=options, labels=["row"], index=index, **how)
    with cn.open(path) as file:
        return file.tables()[-1]


def same(found: pa.Table, expected: pa.Table) -> bool:
    """Equal types and values, NaN and the sign of zero included."""
    return found.schema == expected.schema and repr(found.to_pydict()) == repr(expected.to_pydict())


CHOICES: dict[str, Any] = {
    "the first row": [0],
    "every other row": np.arange(0, N, 2),
    "scattered rows": [299, 3, 77, 78, 79, -50, 3],
    "a run over several chunks": slice(20, 150),
    "the last rows": slice(-40, None),
    "all but one": [row for row in range(N) if row != 123],
    "all rows": slice(None),
    "a predicate": "number >= 40 and kind != 'pion'",
    "a predicate on a label": cn.col("row").startswith("row 1"),
}


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("layout", ["hep001", "view", "anndata", "artifactdb"])
def test_what_stays_is_as_it_was(tmp_path: Path, layout: str, choice: Any) -> None:
    """Values, types, labels and indexes, also where columns are moved a few rows at a time."""
    path = tmp_path / "x.h5"
    name = make(path, layout)
    with cn.open(path, "r+") as file, limits.override(piece_bytes=512):
        table = file[name]
        before, n_indexes = table.to_arrow(), len(table.indexes)
        query = table.where(choice) if not isinstance(choice, (slice, list, np.ndarray)) else None
        chosen = query.row_numbers() if query is not None else np.arange(N)[choice]
        kept = np.setdiff1d(np.arange(N), chosen)
        assert table.delete(choice) == N - len(kept)
        assert same(table.to_arrow(), before.take(kept))
        assert table.verify_indexes() == []
        assert [(index.fresh, index.trusted) for index in table.indexes] == [(True, True)] * n_indexes
    assert same(cn.read(path, name), before.take(kept))
    assert [finding for finding in cn.check(path, deep=True) if finding.severity != "note"] == []
    if len(kept) and layout in ("hep001", "view"):
        assert same(cn.read(path, name, where="number == 123"), before.slice(123, 1 if 123 in kept else 0))


def test_rows_can_be_appended_after_all_were_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    make(path, "hep001")
    with cn.open_table(path, "t", "r+") as table:
        whole, schema = table.to_arrow(), table.schema
        assert table.delete("number >= 0") == N
        assert len(table) == 0 and table.schema == schema
        table.append(whole)
        assert same(table.to_arrow(), whole)


def test_removing_nothing_is_no_commit(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    make(path, "hep001")
    before = path.read_bytes()
    with cn.open_table(path, "t", "r+") as table:
        assert table.delete("number < 0") == 0
        assert table.delete([]) == 0
        assert table.delete(slice(5, 5)) == 0
    assert path.read_bytes() == before


def test_chunks_before_the_first_removed_row_are_untouched(tmp_path: Path) -> None:
    """Byte by byte and at their addresses; the other columns of the file too."""

    def chunks(name: str) -> list[tuple[int, bytes]]:
        with h5py.File(path) as h5:
            dataset = h5[f"t/{name}"].id
            infos = [dataset.get_chunk_info(number) for number in range(dataset.get_num_chunks())]
        data = path.read_bytes()
        return [(info.byte_offset, data[info.byte_offset : info.byte_offset + info.size]) for info in infos]

    path = tmp_path / "x.h5"
    make(path, "hep001")
    names = ["number", "text", "kind", "long", "row"]
    before = {name: chunks(name) for name in names}
    with cn.open_table(path, "t", "r+") as table:
        table.delete([5 * CHUNK + 3, 7 * CHUNK])
    for name in names:
        assert chunks(name)[:5] == before[name][:5]
        assert chunks(name)[5:] != before[name][5:]


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    path, n_rows = tmp_path / "x.h5", 1_000_000
    data = {"a": np.arange(n_rows), "b": np.arange(n_rows) / 7}
    cn.write(path, data, columns={name: {"chunk_rows": 4096, "filters": "deflate"} for name in data})
    with cn.open(path, "r+", durability="fast") as file:
        table = file["table"]
        table.delete([0])  # whatever is imported late
        with limits.override(
            piece_bytes=1 << 16, held_page_bytes=1 << 16, fewest_window_rows=4096, window_bytes=1 << 16
        ):
            tracemalloc.start()
            table.delete("a < 1000")
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert table["a"][:3].tolist() == [1000, 1001, 1002] and len(table) == n_rows - 1000
    assert most < 8 * n_rows / 2, most  # bytes of one column


def test_a_transaction_sees_the_rows_that_are_left(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    make(path, "hep001")
    with cn.open(path, "r+") as file:
        table = file["t"]
        with file.transaction():
            table.update("number", [0], [1000])
            assert table.delete("number == 1000") == 1
            assert table.delete([0]) == 1
        assert table["number"][:2].tolist() == [2, 3]
        with pytest.raises(ZeroDivisionError), file.transaction():
            table.delete(slice(None))
            raise ZeroDivisionError
        assert len(table) == N - 2


def test_what_cannot_be_removed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    make(path, "hep001")
    before = path.read_bytes()
    with cn.open_table(path, "t") as table, pytest.raises(ConflictError, match="read"):
        table.delete([])
    with cn.open_table(path, "t", "r+") as table:
        for wrong in ([N], [-N - 1], [10**18]):
            with pytest.raises(IndexError, match=f"there is no row {wrong[0]}"):
                table.delete(wrong)
        odd: Any
        for odd in ([1.5], [True], "number", "nothing > 3", 3):
            with pytest.raises(UsageError):
                table.delete(odd)
    assert path.read_bytes() == before


def test_rows_that_were_never_written_are_not_moved(tmp_path: Path) -> None:
    """A file may claim any number of rows."""
    path = tmp_path / "x.h5"
    cn.write(path, {"a": [1, 2, 3]}, "t")
    with h5py.File(path, "r+") as h5:
        h5["t/a"].resize((2**40,))
    with cn.open_table(path, "t", "r+") as table, pytest.raises(FormatError, match="most of which were never written"):
        table.delete([1])


def test_references_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as h5:
        h5["image"] = np.arange(6.0).reshape(2, 3)
        regions = [h5["image"].regionref[row, :] for row in (0, 1)]
        cn.write(h5, {"n": [0, 1, 2, 3], "image": [None, h5["image"].ref, None, h5["image"].ref]}, "t")
        h5["t"].create_dataset(
            "roi", data=np.array([*regions, *regions], h5py.regionref_dtype), chunks=(2,), maxshape=(None,)
        )
        h5["t"].attrs["column-order"] = [b"n", b"image", b"roi"]
    with cn.open_table(path, "t", "r+") as table:
        table.delete([0, 2])
        assert [None if array is None else array.shape for array in table.head().dereference("image")] == [(2, 3)] * 2
        assert [array.ravel().tolist() for array in table.head().dereference("roi")] == [[3.0, 4.0, 5.0]] * 2
