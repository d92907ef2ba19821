"""Rows stay what was written, whatever becomes of the chunks that hold them.

One column, changed at random: rows that compress well turn into noise and back, chunks are written, replaced and cut,
by every filter and in chunks of any length. Each read (ranges, steps, single rows, h5py on the same open file) must
give the rows of a model, and so must a fresh h5py when the file is closed. Handles of h5py are held all the while, so
that HDF5 goes on with what it remembers of the dataset.

COLONNADE_EXAMPLES=long makes it 3,000 histories; COLONNADE_HISTORIES=n as many as you like.
"""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

import colonnade as cn

pytest.importorskip("hdf5plugin")  # reads what plain h5py cannot

Rows = np.ndarray[Any, np.dtype[Any]]
HISTORIES = int(os.environ.get("COLONNADE_HISTORIES", "0")) or settings().max_examples
LIBRARY = ("array", "compound", "text", "binary", "list")  # HDF5 itself writes their chunks
KINDS = ("i1", "u1", "i2", "u4", "i8", "u8", "f4", "f8", "decimal", "timestamp", *LIBRARY)
EVERY = (
    None, None, None, "none", "portable", "deflate", "shuffle+deflate", "shuffle+deflate:6", "fletcher32",
    "shuffle+deflate+fletcher32", "zstd", "shuffle+zstd:5", "zstd+fletcher32", "lz4", "blosc:lz4", "blosc2",
    "bitshuffle", "bitshuffle:zstd", "n-bit",
)  # fmt: skip
OF_FIELDS = (*EVERY, "blosc:lz4", "blosc:lz4:1:noshuffle", "blosc:lz4:1:noshuffle", "shuffle+blosc:lz4:1:noshuffle")
OF_POINTERS = (
    None, "none", "deflate", "shuffle+deflate", "zstd", "shuffle+zstd:5", "lz4", "shuffle+lz4", "deflate+lz4",
)  # fmt: skip
OF_INTEGERS = (
    "scale-offset", "scale-offset", "scale-offset:3", "scale-offset+deflate", "scale-offset+shuffle+deflate:1",
    "scale-offset+fletcher32", "scale-offset+zstd",
)  # fmt: skip
CHANCES = {"append": 0.35, "update": 0.35, "truncate": 0.2, "reopen": 0.04, "take_back": 0.04, "repack": 0.02}


def _reads_empty_bytes() -> bool:
    """Whether this h5py reads empty bytes. h5py 3.12 raises a ValueError about a NULL pointer."""
    with h5py.File("empty.h5", "w", driver="core", backing_store=False) as file:
        kind = h5py.h5t.vlen_create(h5py.h5t.create(h5py.h5t.OPAQUE, 1))
        dataset = h5py.Dataset(h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((1,))))
        try:
            return len(dataset[:]) == 1
        except ValueError:
            return False


LEAST_BYTES = 0 if _reads_empty_bytes() else 1
LENGTHS = (1, 2, 3, 7, 16, 61, 256, 1000, 4096, None)


class Column:
    """The rows as they must be, and how to make more of them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.kind = str(rng.choice(KINDS))
        self.is_decimal = self.kind == "decimal"
        self.dtype = np.dtype(
            {"decimal": "i4", "timestamp": "i8", **dict.fromkeys(LIBRARY, "u8")}.get(self.kind, self.kind)
        )
        # Noise of one or two bytes leaves no value to mark missing rows with.
        self.has_missing = bool(self.dtype.itemsize > 2 and self.kind not in LIBRARY and rng.random() < 0.4)
        self.rows: Rows = np.zeros(0, self.dtype)
        self.missing: Rows = np.zeros(0, bool)
        some = self._filters()
        self.filters = some[rng.integers(len(some))]
        self.chunk_rows = LENGTHS[rng.integers(len(LENGTHS))]

    def _filters(self) -> tuple[str | None, ...]:
        if self.kind in LIBRARY:
            return OF_FIELDS if self.kind in ("array", "compound") else OF_POINTERS
        return EVERY if self.dtype.kind == "f" else EVERY + OF_INTEGERS

    def some(self, count: int) -> tuple[Rows, Rows]:
        """So many values of one mood, and which of them are missing."""
        rng, dtype = self.rng, self.dtype
        mood = rng.choice(("quiet", "small", "rising", "noise", "noise", "half", "nearly noise"))
        values = np.zeros(count, dtype)
        if mood == "small":
            values = rng.integers(0, 5, count).astype(dtype)
        elif mood == "rising":
            values = (np.arange(count) % 100 + int(rng.integers(20))).astype(dtype)
        elif mood in ("noise", "half", "nearly noise"):
            values = self._noise(count)
            # Of noise with few equal rows, Blosc makes just as many bytes.
            values[: {"noise": 0, "half": count // 2, "nearly noise": int(rng.integers(20))}[str(mood)]] = 7
        missing = rng.random(count) < 0.2 if self.has_missing and rng.random() < 0.5 else np.zeros(count, bool)
        values[missing] = 0
        return values, missing

    def _noise(self, count: int) -> Rows:
        if self.is_decimal:
            return self.rng.integers(-999_999_999, 1_000_000_000, count).astype("i4")
        noise = self.rng.integers(0, 256, (count, self.dtype.itemsize), dtype=np.uint8).view(self.dtype).reshape(-1)
        # NaN may be the mark of a missing row
        return np.where(np.isnan(noise), self.dtype.type(0.5), noise) if self.dtype.kind == "f" else noise

    def as_arrow(self, values: Rows, missing: Rows) -> pa.Array:
        if self.is_decimal:
            cells = [None if gone else Decimal(int(v)).scaleb(-2) for v, gone in zip(values, missing, strict=True)]
            return pa.array(cells, pa.decimal128(9, 2))
        if self.kind in LIBRARY:
            return self._composed(values)
        array = pa.array(values, mask=missing)
        return array.cast(pa.timestamp("us")) if self.kind == "timestamp" else array

    def _composed(self, values: Rows) -> pa.Array:
        """A value of its own for each number, which has parts or a length."""
        values = np.ascontiguousarray(values)
        if self.kind == "array":
            return pa.FixedSizeListArray.from_arrays(pa.array(values.view("u2")), 4)
        if self.kind == "compound":
            halves = values.view("u4")
            return pa.StructArray.from_arrays(
                [pa.array(halves[0::2].copy()), pa.array(halves[1::2].copy())], ["a", "b"]
            )
        numbers = values.tolist()
        if self.kind == "text":
            return pa.array(list(map(str, numbers)), pa.string())
        if self.kind == "binary":
            stripped = [number.to_bytes(8, "little").rstrip(b"\0") for number in numbers]
            return pa.array([one.ljust(LEAST_BYTES, b"\0") for one in stripped], pa.binary())
        return pa.array([[number] * (number % 4) for number in numbers], pa.list_(pa.uint64()))

    def check(self, found: pa.Array | pa.ChunkedArray, picked: Any = slice(None)) -> None:
        """These are the rows picked."""
        expected = self.as_arrow(self.rows[picked], self.missing[picked])
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        assert len(found) == len(expected)
        assert found.is_null().equals(expected.is_null())
        if not found.equals(expected):
            wrong = [place for place in range(len(found)) if found[place] != expected[place]]
            raise AssertionError(
                f"{len(wrong)} of {len(found)} rows are wrong, the first in place {wrong[0]}: "
                f"{found[wrong[0]]} and not {expected[wrong[0]]}"
            )

    def check_stored(self, dataset: h5py.Dataset, picked: slice = slice(None)) -> None:
        """The same by h5py, up to what marks missing rows."""
        found, expected, there = dataset[picked], self.rows[picked], ~self.missing[picked]
        assert len(found) == len(expected)
        if self.kind in ("array", "compound"):
            assert found.tobytes() == expected.tobytes()
            return
        if self.kind in LIBRARY:
            as_python: dict[str, Any] = {"text": bytes.decode, "binary": np.ndarray.tobytes, "list": np.ndarray.tolist}
            assert [as_python[self.kind](one) for one in found] == self._composed(expected).to_pylist()
            return
        assert np.array_equal(found[there], expected[there])


class History:
    """One file that is changed, step by step."""

    def __init__(self, path: Path, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.path = path
        self.column = Column(self.rng)
        self.held: list[Any] = []
        self.steps: list[str] = []
        self.create()

    def count(self) -> int:
        """How many rows a step takes: few, about a chunk, or many."""
        chunk = self.column.chunk_rows or 1000
        return int(self.rng.choice([1, 3, chunk - 1, chunk, chunk + 1, 3 * chunk, 300])) % 5000

    def create(self) -> None:
        column = self.column
        column.rows, column.missing = column.some(self.count())
        options = {"chunk_rows": column.chunk_rows, "filters": column.filters}
        kept: dict[str, Any] = {name: option for name, option in options.items() if option is not None}
        if column.dtype.itemsize <= 2:
            kept["fill"] = None
        if column.kind == "text":
            kept["strings"] = "variable"  # not categories where values repeat: their codes are integers
        cn.write(self.path, {"x": column.as_arrow(column.rows, column.missing)}, "t", columns={"x": kept})
        self.steps.append(f"create {column.kind} {kept} {len(column.rows)} rows")
        self.file = cn.open(self.path, "r+", durability="fast")

    def step(self) -> None:
        name = str(self.rng.choice(list(CHANCES), p=list(CHANCES.values())))
        before = len(self.column.rows)
        getattr(self, name)()
        self.steps.append(f"{name}: {before} to {len(self.column.rows)} rows")
        for _ in range(int(self.rng.integers(3))):
            self.look()

    def append(self) -> None:
        column = self.column
        values, missing = column.some(self.count())
        self.file["t"].append({"x": column.as_arrow(values, missing)})
        column.rows = np.concatenate([column.rows, values])
        column.missing = np.concatenate([column.missing, missing])

    def update(self) -> None:
        column, n_rows = self.column, len(self.column.rows)
        count = min(self.count(), n_rows)
        if self.rng.random() < 0.5:
            start = n_rows - count if self.rng.random() < 0.5 else int(self.rng.integers(n_rows - count + 1))
            rows = np.arange(start, start + count)
        else:
            rows = np.sort(self.rng.choice(n_rows, count, replace=False)) if count else np.zeros(0, np.int64)
        values, missing = column.some(count)
        self.file["t"].update("x", rows, column.as_arrow(values, missing))
        column.rows, column.missing = column.rows.copy(), column.missing.copy()
        column.rows[rows], column.missing[rows] = values, missing

    def truncate(self) -> None:
        n_rows = max(len(self.column.rows) - self.count(), int(self.rng.integers(len(self.column.rows) + 1)))
        self.file["t"].truncate(n_rows)
        self.column.rows, self.column.missing = self.column.rows[:n_rows], self.column.missing[:n_rows]

    def reopen(self) -> None:
        self.held.clear()
        self.file.close()
        self.check_closed()
        self.file = cn.open(self.path, "r+", durability="fast")

    def take_back(self) -> None:
        rows, missing = self.column.rows, self.column.missing
        self.held.clear()
        try:
            with self.file.transaction():
                self.append()
                self.truncate()
                self.update()
                self.look()
                raise KeyError
        except KeyError:
            self.held.clear()
            self.column.rows, self.column.missing = rows, missing

    def repack(self) -> None:
        self.held.clear()
        self.file.repack(chunk_rows=int(self.rng.choice([1, 5, 100, 2000])))

    def look(self) -> None:
        """One read of some kind."""
        column, rng, table = self.column, self.rng, self.file["t"]
        n_rows = len(column.rows)
        start = int(rng.integers(n_rows + 1))
        stop = int(rng.integers(start, n_rows + 1))
        match int(rng.integers(6)):
            case 0:
                column.check(table["x"].to_arrow())
            case 1:
                column.check(table[start:stop].to_arrow()["x"], slice(start, stop))
            case 2:
                picked = slice(start, None, int(rng.integers(2, 9)))
                column.check(table[picked].to_arrow()["x"], picked)
            case 3 if n_rows:
                rows = np.unique(rng.integers(0, n_rows, 5))
                column.check(table.take(rows).to_arrow()["x"], rows)
            case 4:
                self.held.append(self.file.h5["t/x"])
                column.check_stored(self.held[-1])
            case _:
                self.held.append(self.file.h5["t/x"])
                column.check_stored(self.held[-1], slice(start, stop, int(rng.integers(1, 4))))

    def check_closed(self) -> None:
        """What is in the file, for everyone."""
        with h5py.File(self.path) as h5:
            self.column.check_stored(h5["t/x"])
        self.column.check(cn.read(self.path, "t")["x"])
        assert cn.check(self.path, deep=True) == []


@settings(max_examples=HISTORIES, phases=(Phase.explicit, Phase.generate))
@given(st.integers(0, 2**63 - 1))
def test_rows_stay_what_was_written(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "x.h5"
    path.unlink(missing_ok=True)
    history = History(path, seed)
    try:
        for _ in range(12):
            history.step()
        history.held.clear()
        history.file.close()
        history.check_closed()
    except BaseException:
        note("\n".join(history.steps))
        raise
    finally:
        history.held.clear()
        history.file.close()
