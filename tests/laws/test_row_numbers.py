"""A row number that no row has is refused by every entry point that takes one, whatever integer type it comes in.

Cast to int64, 2**64 - 1 would be -1, the last row: another row would be read or overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.anndata.rows import increasing
from colonnade.cli import main
from colonnade.errors import DataError, UsageError

N = 7
FORMS: dict[str, Callable[[list[int]], Any]] = {
    "uint64 array": lambda rows: np.array(rows, dtype=np.uint64),
    "list": list,
    "tuple": tuple,
    "object array": lambda rows: np.array(rows, dtype=object),
    "Arrow array": lambda rows: pa.array(rows, pa.uint64()),
    "list of uint64": lambda rows: [np.uint64(row) for row in rows],
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("rows") / "a.h5"
    values = np.arange(N) * 1.5
    cn.write(made, {"x": values, "s": pa.array([f"t{i}" for i in range(N)])}, "t")
    cn.create_sparse(made, "m", shape=(N, N), dtype="f8", chunks=(3, 3)).write([[0, 0]], [1.0])
    return made


def _uses(path: Path, rows: Any) -> dict[str, Callable[[], Any]]:
    """Every entry point that takes row numbers, called with these."""
    table = cn.open_table(path, "t")

    def changed(change: Callable[[Any], Any]) -> None:
        with cn.open(path, "r+") as file:
            change(file["t"])

    def sparse(work: Callable[[Any], Any]) -> None:
        work(cn.open_sparse(path, "m"))

    column = list(rows) if isinstance(rows, (list, tuple)) else rows.tolist()
    one = column[-1]
    square = np.stack([np.asarray(rows)] * 2, axis=1)
    return {
        "take": lambda: table.take(rows).to_arrow(),
        "take of a query": lambda: table.where("x >= 0").take(rows).to_arrow(),
        "take of a slice": lambda: table[:5].take(rows).to_arrow(),
        "t[row]": lambda: table[one],
        "column[row]": lambda: table["x"][one],
        "column[rows]": lambda: table["x"][rows if isinstance(rows, (list, tuple, np.ndarray)) else column],
        "read": lambda: cn.read(path, "t", rows=rows),
        "update": lambda: changed(lambda t: t.update("x", rows, [9.0] * len(column))),
        "truncate": lambda: changed(lambda t: t.truncate(one)),
        "sparse box": lambda: sparse(lambda s: s[one, :]),
        "sparse write": lambda: sparse(lambda s: s.write(square, [9.0] * len(square))),
        "sparse erase": lambda: sparse(lambda s: s.erase(square)),
        "write_sparse": lambda: cn.write_sparse(path, "other", (square, [9.0] * len(square), (N, N))),
        "anndata rows": lambda: increasing(rows, N),
    }


@settings(max_examples=25, deadline=None)
@given(
    row=st.one_of(
        st.integers(1, N).map(lambda k: 2**64 - k),  # cast to int64: a row from the end
        st.integers(2**63, 2**64 - 1),
        st.integers(N + 1, 2**63),
    ),
    others=st.lists(st.integers(0, N - 1), max_size=3, unique=True),
    form=st.sampled_from(sorted(FORMS)),
)
def test_a_row_number_that_no_row_has_is_refused_everywhere(path: Path, row: int, others: list[int], form: str) -> None:
    before = path.read_bytes()
    for name, use in _uses(path, FORMS[form]([*others, row])).items():
        with pytest.raises((UsageError, DataError)) as caught:
            use()
        if name in ("take", "read", "update", "column[rows]"):
            assert f"{row:,}" in str(caught.value) or str(row) in str(caught.value), (name, caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("row", [2**64 - 1, 2**63, -(2**64), 2**64 + 3])
def test_the_command_line_refuses_them_too(path: Path, row: int) -> None:
    result = CliRunner().invoke(main, ["head", str(path), "t", f"--rows={row}"])
    assert result.exit_code == 2 and str(row) in result.output


def test_numbers_beyond_every_integer_type_are_refused_with_the_number(path: Path) -> None:
    table = cn.open_table(path, "t")
    for rows in ([2**64], [2**63, -1], [-(2**63) - 1], np.array([1, 2**70], dtype=object)):
        with pytest.raises(UsageError, match="there is no row"):
            table.take(rows)


def test_small_unsigned_numbers_are_row_numbers(path: Path) -> None:
    table = cn.open_table(path, "t")
    for kind in (np.uint8, np.uint16, np.uint32, np.uint64):
        assert table.take(np.array([6, 0], dtype=kind)).to_arrow()["x"].to_pylist() == [9.0, 0.0]


@pytest.mark.parametrize("rows", [[1.0], [True], ["1"], [None], np.array([1.5], dtype=object)])
def test_what_is_not_an_integer_is_refused(path: Path, rows: Any) -> None:
    with pytest.raises(UsageError, match="row numbers must be integers"):
        cn.open_table(path, "t").take(rows)
