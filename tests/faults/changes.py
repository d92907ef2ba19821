"""The changes that crashes are tried on. To add one: a function of an open file, and its name in CHANGES.

A change is one commit; it must come out the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa

import colonnade as cn

Change = Callable[[cn.File], None]
Act = Callable[[Path], None]
N_ROWS = 30


def rows(seed: int, n_rows: int = N_ROWS) -> pa.Table:
    """A table of numbers, texts, categories and ids, some of them missing."""
    kinds = [["muon", "pion", f"kind {seed}", None][(seed + number) % 4] for number in range(n_rows)]
    return pa.table(
        {
            "x": np.arange(n_rows) * 0.5 + seed,
            "name": [None if number % 5 == seed % 5 else f"{seed}/{number}" for number in range(n_rows)],
            "kind": pa.array(kinds, pa.string()).dictionary_encode(),
            "id": np.arange(seed, seed + n_rows),
        }
    )


def make_file(path: Path) -> None:
    """The file as it is before every change: two tables, and arrays of several pages beside them."""
    index = {"x": ["chunk_minmax", "sorted_rows"], "kind": "bitmap", "name": "chunk_bloom", "id": "sorted_rows"}
    cn.write(path, rows(1), "events", title="Before", labels=["id"], index=index)
    cn.write(path, rows(2), "deep/runs", columns={"x": cn.column(units="s", filters="shuffle+deflate:1")})
    with h5py.File(path, "r+") as h5:
        h5["image"] = np.arange(2500.0)
        h5["image"].attrs["made by"] = "someone else"
        h5["events"].attrs["operator"] = "me"
        h5["link"] = h5["image"]
    with h5py.File(path, "r+") as h5:
        h5["tail"] = np.arange(3000.0)


def create_table(file: cn.File) -> None:
    file.create("new", rows(3), labels=["id"], title="New")


def create_deep_table(file: cn.File) -> None:
    file.create("a/b/c", rows(4), columns={"name": cn.column(description="A name.", units="none")})


def create_empty_table(file: cn.File) -> None:
    file.create("empty", rows(5).slice(0, 0))


def replace_table(file: cn.File) -> None:
    file.create("events", rows(6, 45), mode="replace", title="After")


def append_into_longer_chunks(file: cn.File) -> None:
    """More rows than the columns were made for: they are copied into other chunks, their indexes built again."""
    before = file["events"]["x"].chunk_rows
    file["events"].append(rows(7, 400))
    assert file["events"]["x"].chunk_rows != before


def stream_table(file: cn.File) -> None:
    """Batches whose forms outgrow those of the first."""

    def batches() -> Iterator[pa.Table]:
        for number in range(3):
            yield rows(10**number, 10)

    file.create("streamed", batches())


def overwrite_array(file: cn.File) -> None:
    """Many pages of the old file at once."""
    with file._change():
        file.h5["image"][...] = -1.0
        file.h5["image"].attrs["made by"] = "colonnade"
        del file.h5["link"]


def shorten_file(file: cn.File) -> None:
    """What lies at the end of the file goes, so that the file is cut."""
    with file._change():
        del file.h5["tail"]


def append_rows(file: cn.File) -> None:
    """Rows that fill the last chunk, bring a new category and outgrow the width of a text."""
    more = rows(3).set_column(1, "name", pa.array([f"a name that is longer {number}" for number in range(N_ROWS)]))
    file["events"].append(more)


def update_cells(file: cn.File) -> None:
    file["events"].update("x", [0, 7, 29], [-1.0, None, 2.5])


def update_matches(file: cn.File) -> None:
    """Cells of two columns, one of them indexed, computed from each other; a text outgrows the width of its column."""
    new = {"x": cn.col("id") * 2.5, "name": cn.col("name").upper(), "kind": "tau"}
    file["events"].update(where="x / 2 > 3 and id < 25", set=new)


def add_computed_column(file: cn.File) -> None:
    file["events"].add_column("ratio", cn.col("x") / cn.col("id"), units="1")


def truncate_table(file: cn.File) -> None:
    file["events"].truncate(11)


def delete_rows(file: cn.File) -> None:
    """Rows of two tables in one commit: by number, and by a predicate."""
    with file.transaction():
        file["events"].delete([0, 3, 4, 17, 29])
        file["deep/runs"].delete("x > 5 and kind != 'pion'")


def upsert_rows(file: cn.File) -> None:
    """Half of the keys are there; a new category, and a string that is wider than the others."""
    more = rows(16).set_column(1, "name", pa.array([f"a name that is longer {number}" for number in range(N_ROWS)]))
    file["events"].upsert(more, on="id")


def change_columns(file: cn.File) -> None:
    """Several changes as one commit."""
    with file.transaction():
        table = file["events"]
        table.add_column("charge", np.arange(N_ROWS, dtype="i1"), units="e")
        table.rename_column("kind", "particle")
        table.drop_column("name")
        table.append({"x": [1.5], "particle": ["tau"], "id": [99], "charge": [5]})
        table.title = "After"


def replace_column(file: cn.File) -> None:
    """A categorical becomes one of other categories, and its space is free for what comes next."""
    file["events"].replace_column("kind", pa.array(["red", None, "blue"] * (N_ROWS // 3)).dictionary_encode())


def reorder_columns(file: cn.File) -> None:
    file["events"].columns = ["kind", "x", "name"]


def set_labels(file: cn.File) -> None:
    """A label becomes a column, and columns labels."""
    file["events"].set_labels(["name", "x"])


def build_indexes(file: cn.File) -> None:
    file["deep/runs"].build_index({"x": ["chunk_minmax", "chunk_bloom"], "kind": "bitmap", "id": "sorted_rows"})


def drop_indexes(file: cn.File) -> None:
    with file.transaction():
        file["events"].drop_index("x")
        file["events"].drop_index("kind", "bitmap")


def drop_table(file: cn.File) -> None:
    file.drop("deep/runs")


CHANGES: dict[str, Change] = {
    "append": append_rows,
    "append into longer chunks": append_into_longer_chunks,
    "update": update_cells,
    "update matches": update_matches,
    "computed column": add_computed_column,
    "truncate": truncate_table,
    "delete": delete_rows,
    "upsert": upsert_rows,
    "transaction": change_columns,
    "replace column": replace_column,
    "reorder": reorder_columns,
    "labels": set_labels,
    "build indexes": build_indexes,
    "drop indexes": drop_indexes,
    "drop": drop_table,
    "create": create_table,
    "create deep": create_deep_table,
    "create empty": create_empty_table,
    "replace": replace_table,
    "stream": stream_table,
    "overwrite": overwrite_array,
    "shorten": shorten_file,
}


RECORDS = np.dtype([("id", "<i8"), ("x", "<f8"), ("name", "S8")])
RECORD_TABLES = ("records", "deep/theirs")
RECORD_INDEXES = {"id": "sorted_rows", "x": "chunk_minmax"}
N_RECORDS = 30


def records(first: int, n_rows: int) -> np.ndarray:
    """Elements with ids that are not in order."""
    numbers = np.arange(first, first + n_rows)
    elements = np.zeros(n_rows, RECORDS)
    elements["id"], elements["x"] = numbers * 7919 % 1009, numbers * 0.5
    elements["name"] = [f"row {number}" for number in numbers]
    return elements


def make_records_file(path: Path) -> None:
    """The file before rows are appended to record tables: one of h5py, and one as PyTables writes it, both indexed."""
    with h5py.File(path, "w") as h5:
        for name in RECORD_TABLES:
            h5.create_dataset(name, data=records(0, N_RECORDS), chunks=(16,), maxshape=(None,))
        theirs = h5["deep/theirs"]
        described = {"CLASS": "TABLE", "VERSION": "2.7", "TITLE": "", "FIELD_0_NAME": "id", "FIELD_1_NAME": "x"}
        for attribute, text in described.items():
            theirs.attrs[attribute] = np.bytes_(text)
        theirs.attrs["NROWS"] = np.int64(N_RECORDS)
        index = h5.create_group("deep/_i_theirs/id")
        index.attrs["CLASS"], index.attrs["DIRTY"] = np.bytes_("INDEX"), np.int32(0)
        h5["image"] = np.arange(2500.0)
    with cn.open(path, "r+") as file:
        for name in RECORD_TABLES:
            file[name].build_index(RECORD_INDEXES)


def append_records(file: cn.File) -> None:
    """Rows that fill a chunk and begin others."""
    file["records"].append(_columns(records(N_RECORDS, 40)))


def append_to_pytables(file: cn.File) -> None:
    """The same, with a count of rows in an attribute, and an index of PyTables that becomes dirty."""
    file["deep/theirs"].append(_columns(records(N_RECORDS, 40)))


def append_to_both(file: cn.File) -> None:
    """Several appends of a few rows as one commit."""
    with file.transaction():
        for first in (N_RECORDS, N_RECORDS + 1):
            for name in RECORD_TABLES:
                file[name].append(_columns(records(first, 1)))


def _columns(elements: np.ndarray) -> dict[str, np.ndarray]:
    return {name: elements[name] for name in elements.dtype.names or ()}


RECORD_CHANGES: dict[str, Change] = {
    "append to compound": append_records,
    "append to pytables": append_to_pytables,
    "append to both": append_to_both,
}
"""Changes of the file that `make_records_file` makes."""


FRAME_INDEXES: dict[str, str | list[str]] = {"x": ["chunk_minmax", "sorted_rows"], "id": "sorted_rows"}


def frame_rows(first: int) -> pa.Table:
    """Rows whose label, and whose id, goes on from `first`."""
    labels = [f"row {number}" for number in range(first, first + N_ROWS)]
    return rows(first).append_column("label", pa.array(labels))


def make_frame_file(path: Path, layout: str) -> None:
    """The file before rows of a data frame of other software are removed or put in: indexed, and next to an array."""
    cn.write(path, frame_rows(0), "obs", layout=layout, labels=["label"], index=FRAME_INDEXES)
    with h5py.File(path, "r+") as h5:
        h5["image"] = np.arange(2500.0)


def delete_from_frame(file: cn.File) -> None:
    """By number, and by a predicate of which some rows are gone: codes, masks and indexes lose the same rows."""
    with file.transaction():
        file["obs"].delete([0, 3, 4, 17, 29])
        file["obs"].delete("x > 5 and kind != 'pion'")


def upsert_into_frame(file: cn.File) -> None:
    """Half of the keys are there; a new category, missing cells, and strings that are longer than the others."""
    more = frame_rows(16)
    names = pa.array(
        [None if number % 4 else f"a name that is longer {number}" for number in range(N_ROWS)], pa.string()
    )
    file["obs"].upsert(more.set_column(more.column_names.index("name"), "name", names), on="id")


FRAME_CHANGES: dict[str, Change] = {"delete": delete_from_frame, "upsert": upsert_into_frame}
"""Changes of the files that `make_frame_file` makes."""


def write_new_file(path: Path) -> None:
    cn.write(path.with_name("fresh.h5"), rows(7), "events", labels=["id"])


def write_over_empty_file(path: Path) -> None:
    """An empty file that someone made before is replaced by one that is whole."""
    cn.write(path.with_name("void.h5"), rows(7), "events")


def write_into_file(path: Path) -> None:
    cn.write(path, rows(8), "written")


def write_replacing(path: Path) -> None:
    cn.write(path, rows(9), "deep/runs", mode="replace")


def create_file_anew(path: Path) -> None:
    with cn.open(path, "w") as file:
        file.create("one", rows(1))
        file.create("two", rows(2))


def repack_file(path: Path) -> None:
    with cn.open(path, "r+") as file:
        file.repack(chunk_rows=7, filters="deflate")


ACTS: dict[str, Act] = {
    "new file": write_new_file,
    "over empty file": write_over_empty_file,
    "write": write_into_file,
    "write replacing": write_replacing,
    "file anew": create_file_anew,
    "repack": repack_file,
}
