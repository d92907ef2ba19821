"""What stands next to a file of ArtifactDB takes memory for what it holds: levels come in blocks, JSON has a bound."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import FormatError
from colonnade.layouts.artifactdb.metadata import read_document, read_metadata

READ = """
import sys, pyarrow as pa, colonnade as cn
try:
    with cn.open(sys.argv[1]) as file:
        print(file["t"].to_arrow()["c"].to_pylist())
except cn.errors.FormatError as error:
    print(error)
print(pa.default_memory_pool().max_memory())
"""


def read_apart(path: Path) -> tuple[str, int]:
    """What another process reads of a frame, and the bytes that Arrow takes for it at most."""
    ran = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    told, most = ran.stdout.splitlines()
    return told, int(most)


def legacy(tmp_path: Path) -> tuple[Path, Path]:
    path = tmp_path / "frame.h5"
    rows = pa.table({"c": pa.array(["a", "b", "a"]).dictionary_encode()})
    cn.write(path, rows, "t", layout="artifactdb", version="1/2")
    return path, tmp_path / "frame.h5.levels" / "0.csv.gz"


def test_levels_take_memory_for_what_they_hold(tmp_path: Path) -> None:
    path, _ = legacy(tmp_path)
    tracemalloc.start()
    try:
        assert cn.read(path)["c"].to_pylist() == ["a", "b", "a"]
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_levels_that_never_end_are_refused_early(tmp_path: Path) -> None:
    path, levels = legacy(tmp_path)
    levels.write_bytes(gzip.compress(b'"values"\n' + b'"a"\n' * (32 << 20), 1))
    told, most = read_apart(path)
    assert "holds more than 2 levels" in told
    assert most < 96 << 20  # all of them are 128 MiB of text, and more as strings


@pytest.mark.parametrize("part", ["{},", "[],", '{"":{}},', "0,"])
def test_json_that_would_take_gigabytes_is_refused_before_it_is_parsed(part: str, tmp_path: Path) -> None:
    place = tmp_path / "a.h5.json"
    place.write_text('{"x": [' + part * ((8 << 20) // len(part)) + "0]}")
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="memory"):
            read_document(place)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_json_of_many_columns_is_read(tmp_path: Path) -> None:
    place, n = tmp_path / "a.h5.json", 50_000
    columns = [{"name": f"column number {number}", "type": "factor", "ordered": True} for number in range(n)]
    document = {"data_frame": {"columns": columns, "dimensions": [3, n]}, "hdf5_data_frame": {"group": "t"}}
    place.write_text(json.dumps(document))
    assert len(read_metadata(place).columns) == n
