"""The rows that every peer stores and the queries on them: determined by the number of rows and a seed.

    ts      int64     a step of 1000 per row, and up to 5000 of disorder: nearly sorted
    energy  float64   normal
    id      int32     uniform, nearly all distinct
    label   string    16 words, the k-th one 1/k as frequent as the first (Zipf)
    name    string    5 to 20 bytes, each used 20 times or more (1 million distinct ones from 20 million rows on)
    flag    bool      three in ten are true
    price   float32   two decimals

Columns are made in blocks, each from its own random stream, so that one column, or a part of one, can be made without
the others, and a table of any size needs memory for only a few blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

BLOCK_ROWS = 131_072
BATCH_BLOCKS = 8
MOST_NAMES = 1_000_000
ROWS_A_NAME = 20
MOST_WRITTEN, FEW_WRITTEN = 1_000_000, 250_000
APPEND_ROWS = 10_000
MOST_APPENDS, FEW_APPENDS = 100, 20
FIRST_TS = 1_700_000_000_000
TS_STEP = 1000
TS_DISORDER = 5000
SEARCHES = 256  # different values to search for: some libraries cache the answers to earlier queries
MANY_IDS = 10_000
ENERGY_OVER = 1.5  # one row in fifteen; with SEARCHED_LABEL three in a thousand
LABELS = (
    "photon", "electron", "muon", "pion", "proton", "neutron", "kaon", "tau",
    "lambda", "sigma", "omega", "neutrino", "deuteron", "alpha", "gluon", "higgs",
)  # fmt: skip
COUNTED_LABEL = "pion"
SEARCHED_LABEL = "neutron"

Random = np.random.Generator
SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "energy": pa.float64(),
        "id": pa.int32(),
        "label": pa.string(),
        "name": pa.string(),
        "flag": pa.bool_(),
        "price": pa.float32(),
    }
)


@dataclass(frozen=True)
class Range:
    """Rows of low <= ts < high."""

    low: int
    high: int


@dataclass(frozen=True)
class Workload:
    """A number of rows, and the queries on them."""

    rows: int
    seed: int = 1
    most_written: int = MOST_WRITTEN
    most_appends: int = MOST_APPENDS

    # -- the rows --

    def column(self, name: str) -> pa.ChunkedArray:
        """One whole column."""
        return pa.chunked_array([self._block(name, number) for number in range(self._blocks)], SCHEMA.field(name).type)

    def batches(self, names: Sequence[str] = SCHEMA.names) -> Iterator[pa.RecordBatch]:
        """All rows, or some columns of them, about a million at a time."""
        schema = pa.schema([SCHEMA.field(name) for name in names])
        for first in range(0, self._blocks, BATCH_BLOCKS):
            blocks = range(first, min(first + BATCH_BLOCKS, self._blocks))
            columns = [pa.concat_arrays([self._block(name, number) for number in blocks]) for name in names]
            yield pa.record_batch(columns, schema=schema)

    def reader(self, seen: Callable[[int], None] | None = None) -> pa.RecordBatchReader:
        """The batches as an Arrow stream; `seen` is called with the number of rows produced so far."""

        def noted() -> Iterator[pa.RecordBatch]:
            given = 0
            for batch in self.batches():
                yield batch
                given += batch.num_rows
                if seen is not None:
                    seen(given)

        return pa.RecordBatchReader.from_batches(SCHEMA, noted())

    @cached_property
    def written(self) -> pa.Table:
        """The rows for the benchmark of writing a new file: the first million, or fewer."""
        return pa.table(next(self.batches())).slice(0, self.most_written)

    @cached_property
    def appended(self) -> list[pa.RecordBatch]:
        """The rows for the benchmark of appending: up to a hundred batches of ten thousand."""
        times = max(1, min(self.most_appends, self.rows // APPEND_ROWS))
        return list(self.written.slice(0, times * APPEND_ROWS).to_batches(max_chunksize=APPEND_ROWS))

    @property
    def _blocks(self) -> int:
        return -(-self.rows // BLOCK_ROWS)

    @cached_property
    def _names(self) -> pa.Array:
        """The distinct names, in no particular order."""
        wanted = max(1, min(MOST_NAMES, self.rows // ROWS_A_NAME))
        rng = np.random.default_rng([self.seed, 99])
        letters = rng.integers(ord("a"), ord("z") + 1, (wanted + wanted // 50 + 100, 20)).astype("u1")
        letters[np.arange(20) >= rng.integers(5, 21, len(letters))[:, None]] = 0
        distinct = np.unique(letters.view("S20").ravel())
        return pa.array(rng.permutation(distinct)[:wanted].astype("U20"), pa.string())

    def _block(self, name: str, number: int) -> pa.Array:
        """The values of one column in one block; they do not depend on what else is made."""
        rng = np.random.default_rng([self.seed, SCHEMA.names.index(name), number])
        values = MAKERS[name](self, rng, number * BLOCK_ROWS)
        return values.slice(0, min(BLOCK_ROWS, self.rows - number * BLOCK_ROWS))

    def _ts(self, rng: Random, start: int) -> pa.Array:
        steps = np.arange(start, start + BLOCK_ROWS) * TS_STEP
        return pa.array(FIRST_TS + steps + rng.integers(0, TS_DISORDER, BLOCK_ROWS))

    def _energy(self, rng: Random, _start: int) -> pa.Array:
        return pa.array(rng.normal(size=BLOCK_ROWS))

    def _id(self, rng: Random, _start: int) -> pa.Array:
        return pa.array(rng.integers(0, 2**31 - 1, BLOCK_ROWS, dtype=np.int32))

    def _label(self, rng: Random, _start: int) -> pa.Array:
        shares = 1 / np.arange(1, len(LABELS) + 1)
        numbers = np.searchsorted(np.cumsum(shares / shares.sum())[:-1], rng.random(BLOCK_ROWS))
        return pa.array(LABELS).take(pa.array(numbers))

    def _name(self, rng: Random, _start: int) -> pa.Array:
        return self._names.take(pa.array(rng.integers(0, len(self._names), BLOCK_ROWS)))

    def _flag(self, rng: Random, _start: int) -> pa.Array:
        return pa.array(rng.random(BLOCK_ROWS) < 0.3)

    def _price(self, rng: Random, _start: int) -> pa.Array:
        return pa.array((rng.integers(0, 100_000, BLOCK_ROWS) / 100).astype("f4"))

    # -- the queries --

    def ts_range(self, share: float, place: float = 0.5) -> Range:
        """A range that contains this share of the rows; place: from 0, at the start, to 1, at the end."""
        low = FIRST_TS + TS_STEP * int(self.rows * (1 - share) * place)
        return Range(low, low + max(1, int(self.rows * share)) * TS_STEP)

    @cached_property
    def searched_ids(self) -> list[int]:
        """Ids that occur, from rows all over the table."""
        return self._values_all_over("id")

    @cached_property
    def searched_names(self) -> list[str]:
        """Names that occur, from rows all over the table."""
        return self._values_all_over("name")

    @cached_property
    def many_ids(self) -> list[int]:
        """More ids that occur, evenly spread over the table."""
        rows = np.linspace(0, self.rows - 1, min(MANY_IDS, self.rows)).astype(int)
        return sorted(set(self.column("id").take(rows).to_pylist()))

    def _values_all_over(self, column: str) -> list[Any]:
        rows = [int(self.rows * (place + 0.5) / SEARCHES) for place in range(SEARCHES)]
        blocks = {number: self._block(column, number) for number in {row // BLOCK_ROWS for row in rows}}
        return [blocks[row // BLOCK_ROWS][row % BLOCK_ROWS].as_py() for row in rows]


MAKERS: dict[str, Callable[[Workload, Random, int], pa.Array]] = {
    "ts": Workload._ts,
    "energy": Workload._energy,
    "id": Workload._id,
    "label": Workload._label,
    "name": Workload._name,
    "flag": Workload._flag,
    "price": Workload._price,
}
