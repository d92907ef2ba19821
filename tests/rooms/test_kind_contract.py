"""An index kind is one file and one line in KINDS: a fifth one, of a test file, works through the public API."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.checking import layout_rules
from colonnade.indexes import KINDS
from tests.rooms.toy_kind import CHUNK_MISSING

N_ROWS, CHUNK = 400, 10
MISSING = [*range(30, 40), 75]
HOME = "t/_search_indexes"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    layout_rules()  # listed without the fifth kind, so that no other test sees its rule
    monkeypatch.setitem(KINDS, "chunk_missing", CHUNK_MISSING)
    return write_table(tmp_path / "t.h5")


def write_table(path: Path, layout: str = "hep001") -> Path:
    x = pa.array(range(N_ROWS), mask=np.isin(np.arange(N_ROWS), MISSING))
    rows = pa.table({"id": range(N_ROWS), "x": x})
    cn.write(path, rows, "t", layout=layout, columns={name: cn.column(chunk_rows=CHUNK) for name in ("id", "x")})
    with cn.open(path, "r+") as opened:
        opened["t"].build_index("x", "chunk_missing")
    return path


def kinds_used(query: cn.Query) -> list[tuple[str, int, bool]]:
    return [(used.kind, used.rows_left, used.exact) for used in query.explain().indexes_used]


@pytest.mark.parametrize("layout", ["hep001", "anndata"])
def test_it_is_built_used_verified_checked_and_dropped(file: Path, layout: str) -> None:
    path = file if layout == "hep001" else write_table(file.with_name("frame.h5"), layout)
    with cn.open(path, "r+") as opened:
        table = opened["t"]
        assert [(index.column, index.kind, index.fresh, index.trusted) for index in table.indexes] == [
            ("x", "chunk_missing", True, True)
        ]
        query = table.where("x is null")
        assert kinds_used(query) == [("chunk_missing", 20, False)]
        assert query.row_numbers().tolist() == MISSING
        assert query.count() == len(MISSING)
        assert (
            table.where("x == 5").explain().indexes_skipped[0].why == "this index kind does not support this predicate"
        )
        assert table.verify_indexes() == []
        assert list(cn.check(opened, deep=True)) == []
        with pytest.raises(cn.errors.UsageError, match="bitmap, chunk_bloom or chunk_missing"):
            table.build_index("x")
        table.drop_index("x", "chunk_missing")
        assert table.indexes == []
        assert kinds_used(table.where("x is null")) == []


def test_its_rank_is_its_turn(file: Path) -> None:
    with cn.open(file, "r+") as opened:
        opened["t"].build_index("x", "chunk_minmax")
        assert [kind for kind, *_ in kinds_used(opened["t"].where("x is null"))] == ["chunk_missing", "chunk_minmax"]


def test_it_is_not_asked_where_its_cost_is_too_high(file: Path) -> None:
    with cn.open(file, "r+") as opened:
        opened["t"].build_index("id", "chunk_minmax")
        skipped = opened["t"].where("id < 10 and x is null").explain().indexes_skipped
        assert [(index.kind, index.why) for index in skipped] == [
            ("chunk_missing", "reading the rows that are left is cheaper")
        ]


def test_statistics_use_what_it_knows(file: Path) -> None:
    with cn.open(file, "r+") as opened:
        opened["t"].build_index("x", "chunk_minmax")
        found = opened["t"].stats(["x"])["x"]
        assert (found.source, found.distinct.count, found.distinct.how) == ("chunk_minmax", N_ROWS - 11, "at most")


def test_it_follows_changes_and_its_contents_are_checked(file: Path) -> None:
    with cn.open(file, "r+") as opened:
        opened["t"].append({"id": [400, 401], "x": [None, 7]})
        opened["t"].update("x", [0], [None])
        assert opened["t"].where("x is null").row_numbers().tolist() == [0, *MISSING, 400]
        assert kinds_used(opened["t"].where("x is null")) == [("chunk_missing", 32, False)]
        assert opened["t"].verify_indexes() == []
    with h5py.File(file, "r+") as h5:
        h5[HOME]["x__chunk_missing"][7] = 3
    assert [(one.rule, one.found, one.expected) for one in cn.check(file, deep=True)] == [("S8", "3", "1")]
    with cn.open(file) as opened:
        assert opened["t"].where("x is null").row_numbers().tolist() == [0, *MISSING, 400]


CHECKED = """
import sys, colonnade as cn
from colonnade.indexes import KINDS
from tests.rooms.toy_kind import CHUNK_MISSING
KINDS["chunk_missing"] = CHUNK_MISSING
for finding in cn.check(sys.argv[1]):
    print(finding.rule, finding.message)
for repair in cn.fix(sys.argv[1]).repairs:
    print(repair.action)
print(len(cn.check(sys.argv[1], deep=True)), [index.kind for index in cn.open(sys.argv[1])["t"].indexes])
"""


def test_its_rule_is_one_of_the_rules(file: Path) -> None:
    """In a process of its own: the rules of a layout are listed once, from the kinds there are."""
    with h5py.File(file, "r+") as h5:
        del h5[HOME]["x__chunk_missing"].attrs["chunk_shape"]
    run = subprocess.run([sys.executable, "-c", CHECKED, str(file)], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "S9 chunk_shape is missing",
        "the index is rebuilt: chunk_missing of 'x'",
        "0 ['chunk_missing']",
    ]
