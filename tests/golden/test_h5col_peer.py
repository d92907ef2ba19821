"""What we write, read by h5col, the reference implementation: by recorded results, and by itself where it is installed.

`peer/ours.h5` was written by colonnade, and `peer/ours.json` is what h5col 0.4.0 said about it (`python -m
tests.golden.test_h5col_peer` records both again, in an environment that has h5col).
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import h5py
import pyarrow as pa
import pytest

import colonnade as cn

FOLDER = Path(__file__).parent / "h5col" / "peer"
HAS_PEER = importlib.util.find_spec("h5col") is not None
ROWS = pa.table(
    {
        "i": pa.array([1, 2, None, 4, -5, 6], pa.int32()),
        "f": pa.array([0.5, float("nan"), None, -0.0, float("inf"), 2.0]),
        "s": pa.array(["a", "b", None, "dddd", "é", "f"]),
        "b": pa.array([True, False, True, True, False, False]),
        "c": pa.array(["u", "v", None, "u", "w", "u"]).dictionary_encode(),
        "ints": pa.array([[1, 2], None, [], [3, None], [5], []], pa.list_(pa.int16())),
        "texts": pa.array([["a", None, ""], [], None, ["é"], ["x" * 99], []], pa.list_(pa.string())),
        "deep": pa.array([[[1], None, []], None, [], [[2, 3]], [[]], []], pa.list_(pa.list_(pa.int64()))),
    }
)
INDEX = {"i": ["sorted_rows", "chunk_minmax"], "f": "chunk_minmax", "c": "bitmap", "s": "sorted_rows", "b": "bitmap"}


def write_ours(path: Path) -> None:
    """A table that was written, appended to, updated and truncated."""
    cn.write(path, ROWS, "t", layout="h5col", labels=["s"], index=INDEX, columns={"i": {"chunk_rows": 4}})
    with cn.open(path, "r+") as file:
        file["t"].append(ROWS)
        file["t"].update("i", [0, 7], [77, None])
        file["t"].delete([3])
        file["t"].truncate(10)


def read_by_peer(path: Path) -> dict[str, Any]:
    """What h5col says about the file."""
    import h5col

    with h5py.File(path) as file:
        table = h5col.Table.open(file["t"])
        table.validate(deep=True)
        indexes = {name: table.index_is_valid(index) for name, index in table.search_indexes.items()}
        column = h5col.query.Field
        return {
            "columns": list(table.column_names),
            "labels": list(table.index_columns),
            "nrows": int(table.nrows),
            "indexes": indexes,
            "values": {name: table.to_arrow([name]).column(0).to_pylist() for name in table.column_names},
            "i > 2": [int(row) for row in table.select(column("i") > 2).row_positions],
            "s == 'dddd'": [int(row) for row in table.select(column("s") == "dddd").row_positions],
        }


def ours(path: Path) -> dict[str, Any]:
    """The same of our own reading."""
    with cn.open(path) as file:
        table = file["t"]
        rows = table.to_arrow()
        return {
            "columns": table.info.column_names,
            "labels": table.info.label_names,
            "nrows": table.info.n_rows,
            "indexes": {index.name: True for index in table.indexes if index.state != "stale"},
            "values": {name: rows[name].to_pylist() for name in rows.column_names},
            "i > 2": table.where("i > 2").row_numbers().tolist(),
            "s == 'dddd'": table.where("s == 'dddd'").row_numbers().tolist(),
        }


def same(found: dict[str, Any]) -> str:
    """As text, in which NaN equals itself."""
    return json.dumps(json.loads(json.dumps(found)), sort_keys=True)


def test_the_recorded_file_reads_as_h5col_read_it() -> None:
    recorded = json.loads((FOLDER / "ours.json").read_text())
    assert same(ours(FOLDER / "ours.h5")) == same(recorded)


def test_what_is_written_today_reads_as_the_recorded_file(tmp_path: Path) -> None:
    write_ours(tmp_path / "now.h5")
    assert same(ours(tmp_path / "now.h5")) == same(ours(FOLDER / "ours.h5"))


@pytest.mark.skipif(not HAS_PEER, reason="h5col is not installed")
def test_h5col_reads_what_is_written_today(tmp_path: Path) -> None:
    write_ours(tmp_path / "now.h5")
    assert same(read_by_peer(tmp_path / "now.h5")) == same(ours(tmp_path / "now.h5"))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    if "write" in sys.argv:
        write_ours(FOLDER / "ours.h5")
    else:
        (FOLDER / "ours.json").write_text(json.dumps(read_by_peer(FOLDER / "ours.h5"), indent=1, sort_keys=True) + "\n")
