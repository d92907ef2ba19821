"""H5Col tables written, read, searched and changed, next to h5col, the reference implementation.

    python -m bench.h5col [--rows 5_000_000] [--columns 2_000] [--times 3] [--only word]

Both store the same table in layout H5Col: the same columns, chunks of 65,536 rows, no filters, and the same search
indexes (the four kinds that both have a use for: CHUNK_MINMAX and SORTED_ROWS of ts, SORTED_ROWS of id, BITMAP of
label). Files are open and their pages in memory; each search asks for another value; every answer is compared. Results
are NumPy arrays or Arrow, as each library returns them fastest; lists are read as Arrow by both. colonnade commits with
durability="fast", which like its peer does not wait for the disk. h5col is installed from its repository, or found by
PYTHONPATH; where it is missing, nothing is measured. Exits 1 when a row is less than 5 times ahead in CPU time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa

import colonnade as cn
from bench.timing import Took, print_table, run_in_turns, timed

HAS_H5COL = find_spec("h5col") is not None and find_spec("pydantic") is not None
OWN, PEER = "colonnade", "h5col"
AHEAD = 5  # times, in every row
CHUNK_ROWS = 65_536
APPENDED = 10_000
BATCH_ROWS = 500_000
COMPARED = 50_000  # rows of the beginning and of the end of longer answers, which are compared
INDEXES = {"ts": ["chunk_minmax", "sorted_rows"], "id": ["sorted_rows"], "label": ["bitmap"]}
WORDS = [f"label {number:02}" for number in range(16)]
Call = Callable[[int], Any]


def events(n_rows: int, first: int = 0, lists: bool = True) -> pa.Table:
    """Rows of numbers, categories, strings, and lists of numbers."""
    chance = np.random.default_rng(first + 3)
    numbers = np.arange(first, first + n_rows)
    columns: dict[str, Any] = {
        "ts": numbers * 10 + chance.integers(0, 30, n_rows),
        "energy": chance.normal(100, 20, n_rows),
        "id": chance.permutation(n_rows).astype("i4") + first,
        "label": pa.DictionaryArray.from_arrays(pa.array(chance.integers(0, 16, n_rows), pa.int32()), pa.array(WORDS)),
        "name": pa.DictionaryArray.from_arrays(
            pa.array((numbers % 50_000).astype("i4")), pa.array([f"name {number}" for number in range(50_000)])
        ).dictionary_decode(),
    }
    if lists:
        offsets = np.concatenate(([0], np.cumsum(chance.integers(0, 8, n_rows)))).astype("i4")
        values = pa.array(chance.normal(size=int(offsets[-1])))
        columns["hits"] = pa.ListArray.from_arrays(pa.array(offsets), values)
    return pa.Table.from_batches(pa.table(columns).to_batches(BATCH_ROWS))


# -- both libraries, each with its documented calls --


def write_own(path: Path, rows: pa.Table, chunk_rows: int = CHUNK_ROWS) -> None:
    options = {name: cn.column(chunk_rows=chunk_rows, filters="none") for name in rows.column_names}
    path.unlink(missing_ok=True)
    cn.write(path, rows, "t", layout="h5col", columns=options)


def write_peer(path: Path, rows: pa.Table, chunk_rows: int = CHUNK_ROWS) -> None:
    import h5col  # type: ignore[import-not-found, unused-ignore]

    specs = h5col.specs_from_arrow(rows)
    for spec in specs:
        spec.chunks = chunk_rows
    with h5py.File(path, "w") as file:
        h5col.Table.from_arrow(file.create_group("t"), rows, specs=specs)


def build_peer(path: Path) -> None:
    import h5col  # type: ignore[import-not-found, unused-ignore]

    with h5py.File(path, "r+") as file:
        table = h5col.Table.open(file["t"])
        for column, kinds in INDEXES.items():
            for kind in kinds:
                table.build_index(column, kind.upper())


# -- answers that can be compared --


def plain(answer: Any) -> Any:
    """An answer as lists of plain values, whatever holds it."""
    if isinstance(answer, Mapping):
        return {name: plain(column) for name, column in answer.items()}
    if isinstance(answer, pa.Table):
        return {name: plain(answer[name]) for name in answer.column_names}
    if isinstance(answer, (pa.Array, pa.ChunkedArray)) and len(answer) > 2 * COMPARED:
        return answer[:COMPARED].to_pylist() + answer[-COMPARED:].to_pylist()
    if isinstance(answer, (pa.Array, pa.ChunkedArray)):
        return answer.to_pylist()
    if isinstance(answer, np.ndarray) and len(answer) > 2 * COMPARED:
        return answer[:COMPARED].tolist() + answer[-COMPARED:].tolist()
    return answer.tolist() if isinstance(answer, np.ndarray) else answer


def searches(own: cn.Table, peer: Any, n_rows: int) -> dict[str, tuple[Call, Call]]:
    """What is asked of the open tables, and how each library is asked."""
    import h5col  # type: ignore[import-not-found, unused-ignore]

    field = h5col.field
    step = n_rows // 100
    names = ["id", "energy", "label"]

    def both(text: Callable[[int], str], wanted: Callable[[int], Any]) -> tuple[Call, Call]:
        return (
            lambda turn: own.where(text(turn)).select(*names).to_arrow(),
            lambda turn: peer.select(wanted(turn)).read(names, masked=False),
        )

    def low(turn: int) -> int:
        return (turn * 7 % 90) * step * 10

    def number(turn: int) -> int:
        return turn * 7919 % n_rows

    ranges = both(
        lambda turn: f"ts >= {low(turn)} and ts < {low(turn) + step * 10}",
        lambda turn: (field("ts") >= low(turn)) & (field("ts") < low(turn) + step * 10),
    )
    return {
        "read one column of numbers": (
            lambda _turn: own.select("energy").to_numpy()["energy"],
            lambda _turn: peer["energy"].read(masked=False),
        ),
        "read one column of strings": (
            lambda _turn: own.select("name").to_arrow(views=True)["name"],
            lambda _turn: peer["name"].read(masked=False),
        ),
        "read all columns as Arrow": (lambda _turn: own.to_arrow(dictionaries=True), lambda _turn: peer.to_arrow()),
        "range of 1 %": ranges,
        "one row, id = v": both(lambda turn: f"id = {number(turn)}", lambda turn: field("id") == number(turn)),
        "count, label = v": (
            lambda turn: own.where(f"label = '{WORDS[turn % 16]}'").count(),
            lambda turn: peer.count(field("label") == WORDS[turn % 16]),
        ),
        "read a list column": (
            lambda _turn: own.select("hits").to_arrow()["hits"],
            lambda _turn: peer.to_arrow(["hits"])["hits"],
        ),
        "scan a list column: rows with an element > 3": (
            lambda _turn: own.where("any(hits > 3)").row_numbers(),
            lambda _turn: rows_with_greater(peer.to_arrow(["hits"])["hits"], 3),
        ),
    }


def rows_with_greater(lists: pa.ChunkedArray, least: float) -> Any:
    """Rows with an element that is greater, of what h5col reads: it has no tests of elements."""
    import pyarrow.compute as pc

    whole = pa.chunked_array(lists).combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    parents = np.asarray(pc.call_function("list_parent_indices", [whole]))
    return np.unique(parents[np.asarray(whole.flatten()) > least])


def took(action: Callable[[], Any]) -> Took:
    taken = Took()
    with timed(taken):
        action()
    return taken


def compare(title: str, own: Call, peer: Call, times: int, calls: int = 1) -> bool:
    """Measure both in turns, and print the times; whether colonnade is far enough ahead."""
    turns = {OWN: 2, PEER: 2}
    asks = {OWN: own, PEER: peer}

    def run(name: str) -> Took:
        first = turns[name]
        turns[name] += calls
        return took(lambda: [asks[name](turn) for turn in range(first, first + calls)])

    runs = run_in_turns({name: partial(run, name) for name in asks}, times)
    print_table(title, runs, {OWN: PEER})
    ahead = runs[PEER].best_cpu / max(runs[OWN].best_cpu, 1e-9)
    print(f"{'met' if ahead >= AHEAD else 'MISSED'}: {title}: {ahead:.1f} times ahead", flush=True)
    return ahead >= AHEAD


# -- the rows of the benchmark --


def measure_rows(folder: Path, n_rows: int, times: int, only: str) -> list[bool]:
    import h5col  # type: ignore[import-not-found, unused-ignore]

    met = []
    rows = events(n_rows)
    flat = rows.drop_columns(["hits"])
    for title, written in (("write", flat), ("write lists", rows.select(["id", "hits"]))):
        if only in title:
            paths = [folder / f"{name}-w.h5" for name in (OWN, PEER)]
            own, peer = (
                partial(write, path, written) for write, path in zip((write_own, write_peer), paths, strict=True)
            )
            met.append(compare(f"{title}, {n_rows:,} rows", lambda _t: own(), lambda _t: peer(), times))  # noqa: B023
    paths = [folder / f"{name}.h5" for name in (OWN, PEER)]
    write_own(paths[0], rows)
    write_peer(paths[1], rows)
    with cn.open(paths[0], "r+") as file:
        file["t"].build_index(INDEXES)
    build_peer(paths[1])
    with cn.open(paths[0]) as file, h5py.File(paths[1]) as theirs:
        for title, (ask, ask_peer) in searches(file["t"], h5col.Table.open(theirs["t"]), n_rows).items():
            if only in title:
                for turn in range(2):
                    if plain(ask(turn)) != plain(ask_peer(turn)):
                        raise SystemExit(f"{title}: the answers differ")
                is_short = title.startswith(("one row", "count"))
                met.append(compare(f"{title}, {n_rows:,} rows", ask, ask_peer, times, 20 if is_short else 1))
    if only in "kept appends":
        met.append(measure_appends(paths, n_rows, times))
    return met


def measure_appends(paths: list[Path], n_rows: int, times: int) -> bool:
    """Appends of 10,000 rows after which all indexes are right."""
    import h5col  # type: ignore[import-not-found, unused-ignore]

    with cn.open(paths[0], "r+", durability="fast") as file, h5py.File(paths[1], "r+") as theirs:
        own, peer = file["t"], h5col.Table.open(theirs["t"])

        def more(turn: int) -> pa.Table:
            return events(APPENDED, n_rows + turn * APPENDED)

        added = {turn: more(turn) for turn in range(2, 2 + times)}
        plain_added = {turn: h5col_rows(rows) for turn, rows in added.items()}

        def append_peer(turn: int) -> None:
            peer.append(plain_added[turn], maintain_indexes=True)
            theirs.flush()

        met = compare(f"kept appends of {APPENDED:,} rows", lambda turn: own.append(added[turn]), append_peer, times)
        if not all(index.trusted for index in own.indexes) or len(own) != peer.nrows:
            raise SystemExit("kept appends: an index is not kept")
        return met


def h5col_rows(rows: pa.Table) -> dict[str, Any]:
    """Rows as `h5col.Table.append` takes them."""
    names = [name for name in rows.column_names if name != "hits"]
    given: dict[str, Any] = {name: rows[name].to_numpy() for name in names if name not in ("label", "name")}
    given |= {name: rows[name].to_pylist() for name in ("label", "name")}
    return given | {"hits": [np.asarray(cell) for cell in rows["hits"].to_pylist()]}


def measure_columns(folder: Path, n_columns: int, times: int, only: str) -> list[bool]:
    """A table of many columns: written, opened to read one column, opened to append a row."""
    import h5col  # type: ignore[import-not-found, unused-ignore]

    n_rows = 1000
    chance = np.random.default_rng(7)
    columns = {f"c{number:05}": chance.normal(size=n_rows) for number in range(n_columns)}
    rows = pa.table(columns)
    last, paths = rows.column_names[-2], [folder / f"{name}-wide.h5" for name in (OWN, PEER)]
    one = {name: values[:1] for name, values in columns.items()}

    def read_own(_turn: int) -> Any:
        return cn.read(paths[0], "t", columns=[last])[last].to_numpy()

    def read_peer(_turn: int) -> Any:
        with h5py.File(paths[1]) as file:
            return h5col.Table.open(file["t"])[last].read(masked=False)

    def range_own(turn: int) -> Any:
        with cn.open(paths[0]) as file:
            return file["t"].where(f"{last} > {2 + turn / 100}").select(last).to_numpy()[last]

    def range_peer(turn: int) -> Any:
        with h5py.File(paths[1]) as file:
            wanted = h5col.field(last) > 2 + turn / 100
            return h5col.Table.open(file["t"]).select(wanted).read([last], masked=False)[last]

    def append_own(_turn: int) -> None:
        with cn.open(paths[0], "r+", durability="fast") as file:
            file["t"].append(one)

    def append_peer(_turn: int) -> None:
        with h5py.File(paths[1], "r+") as file:
            h5col.Table.open(file["t"]).append(one)

    write_own(paths[0], rows, n_rows)
    write_peer(paths[1], rows, n_rows)
    if not np.array_equal(read_own(0), read_peer(0)) or not np.array_equal(range_own(0), range_peer(0)):
        raise SystemExit("many columns: the answers differ")
    asked: dict[str, tuple[Call, Call]] = {
        "open and read one column": (read_own, read_peer),
        "open and search one column": (range_own, range_peer),
        "open and append one row": (append_own, append_peer),
        "write": (lambda _turn: write_own(paths[0], rows, n_rows), lambda _turn: write_peer(paths[1], rows, n_rows)),
    }
    titles = [title for title in asked if only in title]
    return [compare(f"{title}, {n_columns:,} columns of 1,000 rows", *asked[title], times) for title in titles]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.h5col", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--columns", type=int, default=2_000)
    parser.add_argument("--times", type=int, default=3, help="runs of each; the best one counts")
    parser.add_argument("--only", default="", help="a part of the names of the rows to measure")
    asked = parser.parse_args(arguments)
    if not HAS_H5COL:
        print(
            "h5col is not installed: nothing to compare with. Install it from its repository, or name it in PYTHONPATH"
        )
        return 0
    with tempfile.TemporaryDirectory() as folder:
        met = measure_rows(Path(folder), asked.rows, asked.times, asked.only) if asked.rows else []
        met += measure_columns(Path(folder), asked.columns, asked.times, asked.only) if asked.columns else []
    print(f"\n{sum(met)} of {len(met)} rows are at least {AHEAD} times ahead")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
