"""h5py by hand: a dataset a column in chunks of 65,536 rows, with the plugin filters that suit each.

What a careful user would write without a library for tables: text by codes and words, ts with shuffle and Zstandard,
small codes with bitshuffle and LZ4, noise without a filter. There are no indexes: a search reads the column that is
searched and takes the rows of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from bench.peers.base import Answer, Note, Peer, Sizes, made_once
from bench.peers.records import CODES, label_codes
from bench.workload import LABELS, SCHEMA, Range, Workload

CHUNK_ROWS = 65_536
STORED = {"ts": "i8", "energy": "f8", "id": "i4", "label": "u1", "name": "i4", "flag": "?", "price": "f4"}
Column = np.ndarray[Any, Any]


class Words:
    """The distinct names so far, and the codes of more of them."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def codes(self, strings: pa.Array | pa.ChunkedArray) -> Column:
        whole = strings.combine_chunks() if isinstance(strings, pa.ChunkedArray) else strings
        encoded = whole.dictionary_encode()
        known = self.known
        numbers = [known.setdefault(word, len(known)) for word in encoded.dictionary.to_pylist()]
        return np.asarray(np.array(numbers, "i4")[encoded.indices.to_numpy()])

    def since(self, count: int) -> list[str]:
        """The words after the first `count`."""
        return list(islice(self.known, count, None))


class H5pyByHand(Peer):
    name: ClassVar[str] = "h5py"
    family: ClassVar[str] = "h5py + plugins"
    packages: ClassVar[tuple[str, ...]] = ("h5py", "hdf5plugin")
    layout: ClassVar[str] = "a dataset a column, chunks of 65,536 rows, filters of hdf5plugin, no indexes"

    def prepare(self, folder: Path, workload: Workload, note: Note = lambda _said: None) -> None:
        import h5py
        import hdf5plugin

        self.h5 = h5py
        self.filters: dict[str, dict[str, Any]] = {
            "ts": {"shuffle": True, **hdf5plugin.Zstd(clevel=1)},
            "label": dict(hdf5plugin.Bitshuffle(cname="lz4")),
            "name": dict(hdf5plugin.Bitshuffle(cname="lz4")),
            "flag": dict(hdf5plugin.Bitshuffle(cname="lz4")),
            "price": {"shuffle": True, **hdf5plugin.Zstd(clevel=1)},
        }

        def make(place: Path) -> Sizes:
            self.store(workload.batches(), place / "events.h5")
            return Sizes((place / "events.h5").stat().st_size)

        self.made = made_once(folder, self.name, [Path(__file__), str(self.versions())], make, note)
        self.file = h5py.File(self.made.folder / "events.h5")

    def close(self) -> None:
        self.file.close()

    def store(self, batches: Iterable[pa.RecordBatch | pa.Table], path: Path, flush: bool = False) -> None:
        words, stored = Words(), 0
        with self.h5.File(path, "w", libver="latest") as file:
            for name in SCHEMA.names:
                file.create_dataset(
                    name, (0,), STORED[name], maxshape=(None,), chunks=(CHUNK_ROWS,), **self.filters.get(name, {})
                )
            strings = file.create_dataset("words", (0,), "S20", maxshape=(None,), chunks=(CHUNK_ROWS,))
            for batch in batches:
                for name in SCHEMA.names:
                    file[name].resize((stored + batch.num_rows,))
                    file[name][stored:] = self.elements(batch, name, words)
                stored += batch.num_rows
                fresh = words.since(len(strings))
                strings.resize((len(words.known),))
                strings[len(strings) - len(fresh) :] = np.array(fresh, "S20")
                if flush:
                    file.flush()

    def elements(self, batch: pa.RecordBatch | pa.Table, name: str, words: Words) -> Column:
        if name == "label":
            return label_codes(batch[name])
        return words.codes(batch[name]) if name == "name" else np.asarray(batch[name])

    def read(self, name: str) -> Column:
        return np.asarray(self.file[name][:])

    def scan(self, column: str) -> Answer:
        return self.scan_dictionary(column).cast(pa.string()) if column == "name" else pa.array(self.read(column))

    def scan_dictionary(self, column: str) -> Answer:
        return pa.DictionaryArray.from_arrays(pa.array(self.read(column)), self.words())

    def words(self) -> pa.Array:
        return pa.array(self.file["words"][:]).cast(pa.string())

    def scan_plain(self, column: str) -> Answer:
        return self.scan(column)

    def scan_numpy(self, column: str) -> Answer:
        return self.file["words"][:][self.read(column)]

    def mean(self, column: str) -> Answer:
        return float(self.read(column).mean())

    def between(self, column: str, low: int, high: int, columns: Sequence[str]) -> Answer:
        keys = self.read(column)
        return self.rows(np.flatnonzero((keys >= low) & (keys < high)), columns)

    def equal(self, column: str, value: int | str, columns: Sequence[str]) -> Answer:
        if column == "name":
            stored = np.flatnonzero(self.file["words"][:] == str(value).encode())
            return self.rows(np.flatnonzero(self.read(column) == stored[0]), columns)
        return self.rows(np.flatnonzero(self.read(column) == value), columns)

    def count(self, column: str, value: str) -> Answer:
        return int(np.count_nonzero(self.read(column) == LABELS.index(value)))

    def over_and_equal(self, over: tuple[str, float], equal: tuple[str, str], columns: Sequence[str]) -> Answer:
        matches = (self.read(over[0]) > over[1]) & (self.read(equal[0]) == LABELS.index(equal[1]))
        return self.rows(np.flatnonzero(matches), columns)

    def among(self, column: str, values: Sequence[int], columns: Sequence[str]) -> Answer:
        return self.rows(np.flatnonzero(np.isin(self.read(column), np.array(values, "i4"))), columns)

    def sorted_by(self, column: str, columns: Sequence[str]) -> Answer:
        order = np.argsort(self.read(column))
        return {name: self.read(name)[order] for name in columns}

    def top(self, column: str, n: int, columns: Sequence[str]) -> Answer:
        keys = self.read(column)
        order = np.argpartition(keys, -n)[-n:]
        order = order[np.argsort(-keys[order])]
        return {name: self.read(name)[order] for name in columns}

    def rows(self, numbers: Column, columns: Sequence[str]) -> dict[str, Any]:
        """The rows of these numbers: the range from the first to the last is read, since picking is slow in HDF5."""
        if not len(numbers):
            return {name: self.file[name][:0] for name in columns}
        first, last = int(numbers[0]), int(numbers[-1]) + 1
        return {name: self.strings(name, self.file[name][first:last][numbers - first]) for name in columns}

    def strings(self, name: str, values: Column) -> Column | pa.Array:
        return self.words().take(pa.array(values)) if name == "name" else values

    def mean_by(self, column: str, by: str) -> Answer:
        codes = self.read(by)
        sums, counts = np.bincount(codes, self.read(column), len(LABELS)), np.bincount(codes, minlength=len(LABELS))
        return {word: sums[code] / counts[code] for code, word in enumerate(LABELS) if counts[code]}

    def write(self, rows: pa.Table, path: Path) -> Answer:
        self.store([rows], path)
        return True

    def append(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        self.store(batches, path, flush=True)
        return True

    def between_in_files(
        self, asked: Sequence[tuple[Path, Range]], column: str, columns: Sequence[str]
    ) -> list[Answer]:
        files, answers = [], []
        for path, wanted in asked:
            files.append(self.h5.File(path))
            keys = files[-1][column][:]
            chosen = (keys >= wanted.low) & (keys < wanted.high)
            answers.append({name: files[-1][name][:][chosen] for name in columns})
        for file in files:
            file.close()
        return answers

    def read_back(self, path: Path) -> dict[str, Any]:
        with self.h5.File(path) as file:
            found: dict[str, Any] = {name: file[name][:] for name in SCHEMA.names}
            found["label"] = CODES.take(pa.array(found["label"]))
            found["name"] = file["words"][:][found["name"]]
        return found
