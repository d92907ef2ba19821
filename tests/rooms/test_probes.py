"""Planning reads no column: it yields probes, and whoever runs it reads their rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import colonnade as cn
from colonnade.columns.read import ColumnReader
from colonnade.errors import CorruptError
from colonnade.indexes.base import Probe

VALUES = np.random.default_rng(1).permutation(200_000)


@pytest.fixture
def table(tmp_path: Path) -> cn.Table:
    path = tmp_path / "t.h5"
    cn.write(path, {"x": VALUES}, "t", columns={"x": {"chunk_rows": 4096}}, index={"x": "sorted_rows"})
    return cn.open_table(path, "t")


def test_planning_yields_the_rows_whose_keys_it_needs(table: cn.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    search = table.where("x == 77")._search()
    for name in ("keys", "keys_at", "take_keys", "read", "take", "numbers", "take_numbers"):
        monkeypatch.setattr(ColumnReader, name, None)  # a plan that read the column would fail here
    assert search._tree is not None
    steps = search._planner.search(search._tree, search._scope)
    probes = [next(steps)]
    with pytest.raises(StopIteration) as stopped:
        while True:
            probes.append(steps.send(VALUES[probes[-1].rows].tolist()))
    found, _residual = stopped.value.value
    assert found.is_exact
    assert found.may.rows().tolist() == np.flatnonzero(VALUES == 77).tolist()
    assert all(isinstance(probe, Probe) and probe.column == "x" for probe in probes)


def test_a_probe_that_cannot_be_read_skips_the_index(table: cn.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_reader: ColumnReader, _rows: object) -> list[int]:
        raise CorruptError("these bytes are wrong")

    query = table.where("x == 77")
    with monkeypatch.context() as patch:
        patch.setattr(ColumnReader, "keys_at", fail)
        plan = query.explain()
        rows = query.row_numbers()
    assert [skipped.why for skipped in plan.indexes_skipped] == ["these bytes are wrong"]
    assert rows.tolist() == np.flatnonzero(VALUES == 77).tolist()
