"""The Parquet files that DuckDB, Polars and pyarrow read: as it comes, and two that were tuned for these questions.

All rows keep their order, which is nearly that of ts already: row groups hardly overlap in ts. The tuned ones
join what did best in trials at 3 million rows (README.md): text by dictionary, ts by deltas, noise (energy, id)
neither encoded nor compressed, page indexes, and Bloom filters where one value is searched. Small row groups (those
of DuckDB) suit searches and ranges; large ones, whose dictionaries repeat less, suit text and size.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.peers.base import Made, Note, Sizes, installed_version, made_once
from bench.workload import SCHEMA, Workload

FILE = "events.parquet"
SMALL, LARGE = 131_072, 1_048_576


def _tuned(group_rows: int, distinct_names: int) -> dict[str, Any]:
    return {
        "use_dictionary": ["label", "name"],
        "dictionary_pagesize_limit": 32 << 20,
        "column_encoding": {"ts": "DELTA_BINARY_PACKED"},
        "compression": {name: "zstd" if name == "price" else "none" for name in SCHEMA.names},
        "write_page_index": True,
        "bloom_filter_options": {
            "id": {"ndv": group_rows, "fpp": 0.01},
            "name": {"ndv": distinct_names, "fpp": 0.01},
        },
    }


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "small": _tuned(SMALL, SMALL),
    "large": _tuned(LARGE, LARGE),
}
GROUP_ROWS: dict[str, int | None] = {"default": None, "small": SMALL, "large": LARGE}
WORDS = {
    "default": "Parquet as pyarrow writes it: snappy, row groups of a million rows",
    "small": "Parquet, tuned, row groups of 131,072 rows, Bloom filters",
    "large": "Parquet, tuned, row groups of a million rows, Bloom filters",
}


def made(folder: Path, layout: str, workload: Workload, note: Note) -> Made:
    """The file of one layout, shared by all its readers."""
    marks: list[str | Path] = [Path(__file__), str(installed_version("pyarrow"))]
    return made_once(folder, f"parquet-{layout}", marks, partial(_make, layout, workload), note)


def _make(layout: str, workload: Workload, folder: Path) -> Sizes:
    path = folder / FILE
    with pq.ParquetWriter(path, SCHEMA, **OPTIONS[layout]) as file:
        for batch in workload.batches():
            file.write_batch(batch, row_group_size=GROUP_ROWS[layout])
    return Sizes(path.stat().st_size)


def part(path: Path, number: int) -> Path:
    """The file of one append: Parquet files are never changed, a table that grows is a folder of them."""
    return path / f"{number:05d}.parquet"
