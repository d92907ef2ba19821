"""`colonnade sparse`: what it says of arrays in sectioned chunks, as text and as JSON, and with which exit code."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from colonnade.sparse import verify_sparse

from .sparse_files import SparseFile, some_cells
from .test_cli import call, call_json
from .test_sparse import FILTERS, file_for

CELLS = {(1, c): struct.pack("<i", 10 + c) for c in (0, 1, 2, 4)} | {(7, 9): struct.pack("<i", -5)}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.h5"
    path.write_bytes(SparseFile((8, 10), (4, 5), CELLS, filters=FILTERS["deflate both"]).in_new_file())
    return path


def test_info(small: Path) -> None:
    said = call("sparse", "info", small).stdout
    for text in ("/sparse  8 x 10, int32, fill 0", "5 elements of 80 defined (6.25%)", "2 of 4 chunks of 4 x 5 stored"):
        assert text in said
    assert "fixed array, version 0; dialect sectioned" in said and said.count("deflate:6") == 2
    (facts,) = call_json("sparse", "info", small)["arrays"]
    assert facts["n_defined"] == 5 and facts["chunk"] == [4, 5] and facts["dialect"] == "sectioned"
    assert [one["name"] for one in facts["sections"]] == ["selection", "values"]
    assert facts["sections"][1]["unfiltered"] == 20 and facts["dense_bytes"] == 320


def test_dump_and_defined(small: Path) -> None:
    assert call("sparse", "dump", small).stdout == "(1,0): 10, 11, 12\n(1,4): 14\n(7,9): -5\n"
    assert call("sparse", "defined", small).stdout == "BLOCK (1,0)-(1,2)\nPOINT (1,4)\nPOINT (7,9)\n"
    assert call("sparse", "dump", small, "sparse", "--box", "0:4,1:3").stdout == "(1,1): 11, 12\n"
    assert call("sparse", "dump", small, "--box", "...,9").stdout == "(7,9): -5\n"
    cells = call_json("sparse", "dump", small, "--box", "7")["cells"]
    assert cells == [{"at": [7, 9], "value": -5}]
    assert call_json("sparse", "defined", small)["blocks"] == [[[1, 0], [1, 2]], [[1, 4], [1, 4]], [[7, 9], [7, 9]]]
    for box in ("x", "1:2:3:4", "0:4,,", "1.5", ":,:,:"):
        assert call("sparse", "dump", small, "--box", box).exit_code == 2, box


def test_long_runs_are_broken_and_text_is_safe(tmp_path: Path) -> None:
    row = {(c,): struct.pack("<i", c) for c in range(30)}
    (tmp_path / "t.h5").write_bytes(SparseFile((30,), (30,), row, map="single").in_new_file())
    said = call("sparse", "dump", tmp_path / "t.h5").stdout.splitlines()
    assert [line.split(":")[0] for line in said] == ["(0)", "(12)", "(24)"]
    string = bytes.fromhex("1311000005000000")
    wild = SparseFile((4,), (4,), {(1,): b"a\x1b[1m"}, datatype=string, element_size=5, map="single")
    (tmp_path / "t.h5").write_bytes(wild.in_new_file())
    assert "\x1b" not in call("sparse", "dump", tmp_path / "t.h5").stdout


def test_verify(small: Path) -> None:
    assert call("sparse", "verify", small).stdout == "OK     /sparse\n"
    data = bytearray(small.read_bytes())
    data[60] ^= 1  # in the first chunk
    small.write_bytes(data)
    result = call("sparse", "verify", small)
    assert result.exit_code == 1 and "WRONG  /sparse" in result.stdout and "sparse.chunk" in result.stdout
    (finding,) = call_json("sparse", "verify", small)["findings"]
    assert finding["rule"] == "sparse.chunk" and finding["severity"] == "error"


def test_errors(tmp_path: Path, small: Path) -> None:
    assert call("sparse", "info", tmp_path / "none.h5").exit_code == 3
    assert call("sparse", "info", small, "other").exit_code == 2
    empty = tmp_path / "empty.h5"
    empty.write_bytes(b"not HDF5 at all")
    assert call("sparse", "info", empty).exit_code == 3


# -- what verify finds --


def rules(data: bytes) -> list[str]:
    return [finding.rule for finding in verify_sparse(data)]


class _Changed(SparseFile):
    """Records of chunks changed before they are written."""

    change: Any = None

    def write_chunks(self, out: bytearray) -> Any:
        return type(self).change(super().write_chunks(out))


def changed(change: Any, **options: Any) -> bytes:
    made = type("Changed", (_Changed,), {"change": staticmethod(change)})
    file = file_for("b-tree", **options)
    return bytes(made(file.shape, file.chunk, file.cells, map="b-tree", max_shape=file.max_shape).in_new_file())


def test_chunks_that_overlap() -> None:
    def same(records: Any) -> Any:
        first = next(iter(records.values()))
        return {**records, (0, 1): first}

    assert "sparse.overlap" in rules(changed(same))


def test_chunks_outside_the_dataset() -> None:
    def away(records: Any) -> Any:
        return {(place[0] + (7 if place == (0, 0) else 0), place[1]): record for place, record in records.items()}

    assert rules(changed(away)) == ["sparse.map"]


def test_records_out_of_order() -> None:
    class Backwards(SparseFile):
        def write_tree(self, out: bytearray, rows: list[bytes], size: int) -> bytes:
            return super().write_tree(out, rows[::-1], size)

    for node_size in (128, 2048):
        file = Backwards(
            (60, 60), (4, 6), some_cells((60, 60), 0.02), map="b-tree", max_shape=(None, None), node_size=node_size
        )
        (finding,) = verify_sparse(file.in_new_file())
        assert finding.rule == "sparse.map" and "out of order" in finding.message


def test_filters_that_are_not_known_and_headers_that_make_no_sense() -> None:
    assert rules(file_for("fixed array", filters={1: [(32013, (2, 2))]}).in_new_file()) == ["sparse.filter"]
    assert rules(file_for("fixed array", element_size=3).in_new_file()) == ["sparse.header"]
    assert rules(file_for("fixed array").in_new_file()) == []


def test_convert(small: Path, tmp_path: Path) -> None:
    mtx, back = tmp_path / "a.mtx", tmp_path / "back.h5"
    said = call("sparse", "convert", small, mtx).stdout
    assert said == f"8 x 10, 5 elements, written as mtx to {mtx}\n"
    assert mtx.read_text().splitlines()[1:3] == ["8 10 5", "2 1 10"]
    facts = call_json("sparse", "convert", mtx, back, "--as", "m", "--chunks", "4x5", "--filters", "deflate")
    assert facts["target"] == f"{back}:/m" and facts["shape"] == [8, 10] and facts["n_cells"] == 5
    assert call("sparse", "dump", back).stdout == call("sparse", "dump", small).stdout
    call("sparse", "convert", small, tmp_path / "a.h5ad", "--format", "csc", "--as", "layers/x")
    assert call_json("sparse", "convert", tmp_path / "a.h5ad", tmp_path / "c.h5")["source"].endswith("a.h5ad")
    assert call("sparse", "convert", small, back, "--chunks", "4by5").exit_code == 2
    assert call("sparse", "convert", tmp_path / "none.mtx", back).exit_code == 3
