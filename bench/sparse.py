"""Sparse arrays: sizes in the published benchmark, and the cost of a large matrix against AnnData and dense HDF5.

    python -m bench.sparse [--only sizes,speed] [--rows 100_000] [--columns 30_000] [--density 0.01] [--times 5]
                           [--filters all|none|some]

sizes: one chunk of 1024 x 1024 bytes, deflate 9, three patterns, densities of 1 and 10 %, values that compress and do
not, as Lifeboat published them; bytes of both sections together, next to the published ones. Exits 1 when one is
more than 5 % above.
speed: a matrix of float32 written from CSR, and blocks of 1,000 rows read as CSR, by colonnade and by `anndata`, each
without filters and with deflate 1 (gzip 1), and by h5py as a dense deflated dataset. The dense dataset has only a few
rows, and its time is multiplied, which `*` marks. Runs alternate; CPU time of all threads and wall-clock time, best and
median; ratios compare the best CPU times with the peer with the same filters. Every answer is checked. Exits 1
when a peer needs less. Peak memory is that of a separate process, minus its initial memory; "from a file" is the
matrix converted from the AnnData file that was written, which is never in memory as a whole.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy import sparse

import colonnade as cn
from bench.timing import Runs, Took, run_in_turns, timed
from colonnade.converting.sparse_matrices import convert

SIDE = 1024
MOST_ABOVE = 1.05
BLOCK_ROWS = 1000
DENSE_ROWS = 1000
# pattern -> (compressible, random) bytes at each density, from the published benchmark
PUBLISHED = {
    (1, "random points"): (25_497, 35_377),
    (1, "one rectangle"): (416, 10_458),
    (1, "row runs"): (7_064, 16_944),
    (10, "random points"): (185_063, 288_813),
    (10, "one rectangle"): (780, 104_413),
    (10, "row runs"): (7_478, 111_207),
}


def pattern(name: str, percent: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """The elements that are defined, chosen as in the published program."""
    mask, count = np.zeros((SIDE, SIDE), dtype=bool), SIDE * percent // 100
    if name == "one rectangle":
        side = int((percent / 100 * SIDE * SIDE) ** 0.5)
        row, column = rng.integers(0, SIDE // 2, 2)
        mask[row : row + side, column : column + side] = True
        return mask
    for row in range(SIDE):
        if name == "random points":
            mask[row, rng.choice(SIDE, count, replace=False)] = True
        else:
            start = int(rng.integers(0, SIDE - count + 1))
            mask[row, start : start + count] = True
    return mask


def stored_bytes(folder: Path, mask: np.ndarray[Any, Any], compressible: bool, filters: dict[int, str]) -> int:
    """The size of both sections of the single chunk, after it was read back and compared."""
    coords, rng = np.argwhere(mask), np.random.default_rng(2)
    count = len(coords)
    values = (np.arange(count) % 255 + 1 if compressible else rng.integers(1, 256, count)).astype("u1")
    path = folder / "one.h5"
    path.unlink(missing_ok=True)
    with cn.write_sparse(path, "m", (coords, values, mask.shape), chunks=mask.shape, filters=filters) as array:
        found = array.cells()
        if not (np.array_equal(found[0], coords) and np.array_equal(found[1], values)):
            raise SystemExit("what was read is not what was written")
        return sum(one.stored for one in array.measure().sections)


def show_sizes(folder: Path) -> bool:
    """Print a line for each cell of the published table; whether none is above the limit."""
    print(f"{'density, pattern, values':44}{'published':>10}{'deflate:9':>10}{'ratio':>7}{'+shuffle':>10}{'ratio':>7}")
    fine = True
    for (percent, name), figures in PUBLISHED.items():
        mask = pattern(name, percent, np.random.default_rng(1))
        for compressible, published in zip((True, False), figures, strict=True):
            plain = stored_bytes(folder, mask, compressible, {0: "deflate:9", 1: "deflate:9"})
            better = stored_bytes(folder, mask, compressible, {0: "shuffle+deflate:9", 1: "deflate:9"})
            title = f"{percent:2} %, {name}, {'compressible' if compressible else 'random'}"
            above = plain > MOST_ABOVE * published
            fine &= not above
            ratios = f"{plain / published:>7.2f}{better:>10,}{better / published:>7.2f}"
            print(f"{title:44}{published:>10,}{plain:>10,}{ratios}{'  ABOVE' if above else ''}")
    return fine


# -- a large matrix --


def make(rows: int, columns: int, density: float) -> Any:
    """A matrix of randomly defined elements with small values, like counts. It is made in blocks of rows."""
    rng = np.random.default_rng(3)
    parts = [_make_rows(min(10_000, rows - row), columns, density, rng) for row in range(0, rows, 10_000)]
    counts = np.concatenate([one for one, _ in parts])
    ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    values = rng.poisson(3, int(ends[-1])).astype(np.float32) + 1
    return sparse.csr_matrix((values, np.concatenate([one for _, one in parts]), ends), shape=(rows, columns))


def _make_rows(rows: int, columns: int, density: float, rng: np.random.Generator) -> tuple[Any, Any]:
    """The number of cells of each row, and their columns."""
    size = rows * columns
    places = np.cumsum(rng.geometric(density, int(size * density * 1.1) + 100)) - 1
    places = places[places < size]
    return np.diff(np.searchsorted(places, np.arange(rows + 1) * columns)), (places % columns).astype(np.int32)


def fresh(matrix: Any) -> Any:
    """A new object for the matrix, without the properties that SciPy caches, so that every run starts equal."""
    return sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)


def write_colonnade(path: Path, matrix: Any, filters: str | None, dense_rows: int) -> float:
    with cn.open(path, "w", durability="fast") as file:
        cn.write_sparse(file, "m", matrix, filters=filters)
    return 1


def read_colonnade(path: Path, row: int) -> Any:
    with cn.open_sparse(path, "m") as array:
        return array.to_scipy("csr", slice(row, row + BLOCK_ROWS))


def write_anndata(path: Path, matrix: Any, filters: str | None, dense_rows: int) -> float:
    from anndata.io import write_elem

    options = {} if filters is None else {"dataset_kwargs": {"compression": "gzip", "compression_opts": 1}}
    with h5py.File(path, "w") as file:
        write_elem(file, "X", matrix, **options)
    return 1


def read_anndata(path: Path, row: int) -> Any:
    from anndata.io import sparse_dataset

    with h5py.File(path) as file:
        return sparse_dataset(file["X"])[row : row + BLOCK_ROWS]


def write_dense(path: Path, matrix: Any, filters: str | None, dense_rows: int) -> float:
    """Write only some rows; the factor to scale the time by."""
    with h5py.File(path, "w") as file:
        chunk = (min(dense_rows, 256), min(matrix.shape[1], 1024))
        made = file.create_dataset(
            "X", (dense_rows, matrix.shape[1]), "f4", chunks=chunk, compression="gzip", compression_opts=1
        )
        for row in range(0, dense_rows, chunk[0]):
            made[row : row + chunk[0]] = matrix[row : min(row + chunk[0], dense_rows)].toarray()
    return float(matrix.shape[0] / dense_rows)


def read_dense(path: Path, row: int) -> Any:
    with h5py.File(path) as file:
        return sparse.csr_matrix(file["X"][:BLOCK_ROWS])


@dataclass(frozen=True)
class Peer:
    """One way to write and read; `against` names the one it is compared with."""

    write: Callable[[Path, Any, str | None, int], float]
    read: Callable[[Path, int], Any]
    filters: str | None
    against: str = ""


PEERS = {
    "colonnade": Peer(write_colonnade, read_colonnade, None, "anndata"),
    "anndata": Peer(write_anndata, read_anndata, None),
    "colonnade, deflate 1": Peer(write_colonnade, read_colonnade, "deflate:1", "anndata, gzip 1"),
    "colonnade, shuffle+deflate 1": Peer(write_colonnade, read_colonnade, "shuffle+deflate:1", "anndata, gzip 1"),
    "anndata, gzip 1": Peer(write_anndata, read_anndata, "gzip"),
    "h5py dense, gzip 1 *": Peer(write_dense, read_dense, "gzip"),
}
DENSE = "h5py dense, gzip 1 *"


def show_speed(folder: Path, rows: int, columns: int, density: float, times: int, filters: str) -> bool:
    wanted = {
        name: one for name, one in PEERS.items() if filters == "all" or (one.filters is None) == (filters == "none")
    }
    matrix, peers = make(rows, columns, density), available(wanted)
    print(f"\n{rows:,} x {columns:,}, {matrix.nnz:,} cells of float32; best and median CPU seconds, wall, MB")
    scale = {name: rows / min(DENSE_ROWS, rows) if name == DENSE else 1.0 for name in peers}
    paths = {name: folder / f"{number}.h5" for number, name in enumerate(peers)}

    def write(name: str) -> Took:
        paths[name].unlink(missing_ok=True)
        took, given = Took(), fresh(matrix)
        with timed(took):
            peers[name].write(paths[name], given, peers[name].filters, min(DENSE_ROWS, rows))
        return took

    def read(name: str) -> Took:
        row, took = 0 if name == DENSE else rows // 2, Took()
        with timed(took):
            found = peers[name].read(paths[name], row)
        if not is_same(found, matrix[row : row + BLOCK_ROWS], name):
            raise SystemExit(1)
        return took

    wrote = run_in_turns({name: partial(write, name) for name in peers}, times)
    took = run_in_turns({name: partial(read, name) for name in peers}, 5 * times)
    fine = _show_runs("write", wrote, peers, scale) & _show_runs("block", took, peers, dict.fromkeys(peers, 1.0))
    print(f"\n{'MB':32}{'file':>8}{'writing':>10}{'reading':>10}")
    for name, peer in peers.items():
        size = paths[name].stat().st_size * scale[name] / 1e6
        reading = peak(partial(peer.read, paths[name], 0))
        paths[name].unlink()
        writing = peak(partial(peer.write, paths[name], matrix, peer.filters, min(DENSE_ROWS, rows)))
        print(f"{name:32}{size:>8.0f}{writing:>10.0f}{reading:>10.0f}")
    if "anndata" in peers:
        work = partial(convert, str(paths["anndata"]), str(folder / "converted.h5"))
        print(f"{'colonnade, from a file':32}{'':8}{peak(work):>10.0f}")
    return fine


def _show_runs(what: str, runs: dict[str, Runs], peers: dict[str, Peer], scale: dict[str, float]) -> bool:
    """Print a line for each, with the ratios to its peer and to the dense one; whether none is above 1."""
    print(f"\n{what:32}{'cpu best':>10}{'median':>10}{'wall best':>10}{'median':>10}{'/ peer':>8}{'/ dense':>8}")
    fine = True
    for name, own in runs.items():
        times = (own.best_cpu, own.median_cpu, own.best_wall, own.median_wall)
        line = f"{name:32}" + "".join(f"{one * scale[name]:>10.4f}" for one in times)
        for peer in (peers[name].against, DENSE) if peers[name].against else ():
            if peer in runs:
                ratio = own.best_cpu / (runs[peer].best_cpu * scale[peer])
                fine &= ratio < 1
                line += f"{ratio:>8.2f}"
        print(line)
    return fine


def available(peers: dict[str, Peer]) -> dict[str, Peer]:
    """Those that are installed."""
    try:
        import anndata  # noqa: F401
    except ImportError:
        print("anndata is not installed, and left out: pip install anndata")
        return {name: one for name, one in peers.items() if not name.startswith("anndata")}
    return peers


def is_same(found: Any, expected: Any, name: str) -> bool:
    right = found.shape == expected.shape and (found != expected).nnz == 0
    if not right:
        print(f"{name}: WRONG")
    return bool(right)


def peak(work: Callable[[], Any]) -> float:
    """MB that a forked process needs beyond its initial memory."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_measured, args=(work, theirs))
    child.start()
    found = float(ours.recv())
    child.join()
    return found


def _measured(work: Callable[[], Any], answer: Any) -> None:
    before = _resident()
    work()
    answer.send(max(0.0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3 - before))


def _resident() -> float:
    """MB in memory now; a forked process starts with all of its parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1e3
    return 0.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Sparse arrays: sizes and speed.")
    parser.add_argument("--only", default="sizes,speed")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=30_000)
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--filters", choices=("all", "none", "some"), default="all", help="peers without, or with some")
    asked = parser.parse_args(arguments)
    fine = True
    with tempfile.TemporaryDirectory(prefix="colonnade-sparse-") as folder:
        if "sizes" in asked.only:
            fine &= show_sizes(Path(folder))
        if "speed" in asked.only:
            fine &= show_speed(Path(folder), asked.rows, asked.columns, asked.density, asked.times, asked.filters)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
