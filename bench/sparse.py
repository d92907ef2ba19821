"""Sparse arrays: how small the published benchmark gets, and what a large matrix costs beside AnnData and dense HDF5.

    python -m bench.sparse [--only sizes,speed] [--rows 100_000] [--columns 30_000] [--density 0.01] [--times 3]

sizes: one chunk of 1024 x 1024 bytes, deflate 9, three patterns, densities of 1 and 10 %, values that compress and do
not, as Lifeboat published them; bytes of both sections together, beside the published ones. Exits 1 when one is
more than 5 % above.
speed: a matrix of float32 written from CSR, and blocks of 1,000 rows read as CSR, by colonnade and by `anndata`, each
without filters and with deflate 1 (gzip 1), and by h5py as a dense deflated dataset. The dense one is of a few rows
only, its time multiplied: `*` says so. Processor time of all threads, the best of some runs; every answer is checked.
Peak memory is that of a process of its own, what it had before taken off.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy import sparse

import colonnade as cn
from bench.timing import Took, timed

SIDE = 1024
MOST_ABOVE = 1.05
BLOCK_ROWS = 1000
DENSE_ROWS = 1000
BAND = 125
"""Rows of a chunk, which has all columns: AnnData's CSR is by rows too. Blocks that are read are of whole chunks."""
# pattern -> (compressible, random) bytes at each density, facts of the published benchmark
PUBLISHED = {
    (1, "random points"): (25_497, 35_377),
    (1, "one rectangle"): (416, 10_458),
    (1, "row runs"): (7_064, 16_944),
    (10, "random points"): (185_063, 288_813),
    (10, "one rectangle"): (780, 104_413),
    (10, "row runs"): (7_478, 111_207),
}


def pattern(name: str, percent: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Which elements are defined, as the published program chose them."""
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
    """Both sections of the one chunk, read back and compared first."""
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
    """A line for each cell of the published table; whether none is above the limit."""
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
    """Rows of about as many cells each at random places, values of few digits, as counts have them."""
    rng = np.random.default_rng(3)
    each = rng.poisson(columns * density, rows)
    parts = [np.sort(rng.choice(columns, n, replace=False)).astype(np.int32) for n in each]
    values = rng.poisson(3, int(each.sum())).astype(np.float32) + 1
    ends = np.concatenate(([0], np.cumsum(each)))
    return sparse.csr_matrix((values, np.concatenate(parts), ends), shape=(rows, columns))


def write_colonnade(path: Path, matrix: Any, filters: str | None, dense_rows: int) -> float:
    path.unlink(missing_ok=True)
    with cn.open(path, "w", durability="fast") as file:
        cn.write_sparse(file, "m", matrix, filters=filters, chunks=(min(BAND, matrix.shape[0]), matrix.shape[1]))
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
    """Some rows only; how many times as many there are."""
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


PEERS: dict[str, tuple[Callable[..., float], Callable[..., Any], str | None]] = {
    "colonnade": (write_colonnade, read_colonnade, None),
    "anndata": (write_anndata, read_anndata, None),
    "colonnade, deflate 1": (write_colonnade, read_colonnade, "deflate:1"),
    "colonnade, shuffle+deflate 1": (write_colonnade, read_colonnade, "shuffle+deflate:1"),
    "anndata, gzip 1": (write_anndata, read_anndata, "gzip"),
    "h5py dense, gzip 1 *": (write_dense, read_dense, "gzip"),
}


def show_speed(folder: Path, rows: int, columns: int, density: float, times: int) -> bool:
    matrix = make(rows, columns, density)
    print(f"\n{rows:,} x {columns:,}, {matrix.nnz:,} cells of float32; CPU seconds, MB")
    print(f"{'':30}{'write':>9}{'block':>9}{'file MB':>9}{'peak MB, writing':>18}{'reading':>9}")
    fine = True
    for name, (write, read, filters) in available(PEERS):
        path = folder / "large.h5"
        many = min(DENSE_ROWS, rows)
        wrote, scale = best(times, partial(write, path, matrix, filters, many))
        dense = name.startswith("h5py")
        row = 0 if dense else rows // 2
        took, found = best(times + 2, partial(read, path, row))
        fine &= is_same(found, matrix[row : row + BLOCK_ROWS], name)
        size = path.stat().st_size * scale / 1e6
        writing = peak(partial(write, path, matrix, filters, many))
        reading = peak(partial(read, path, row))
        print(f"{name:30}{wrote * scale:>9.2f}{took:>9.4f}{size:>9.0f}{writing:>18.0f}{reading:>9.0f}")
    return fine


def available(peers: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Those that are installed."""
    try:
        import anndata  # noqa: F401
    except ImportError:
        print("anndata is not installed, and left out: pip install anndata")
        peers = {name: one for name, one in peers.items() if not name.startswith("anndata")}
    yield from peers.items()


def best(times: int, work: Callable[[], Any]) -> tuple[float, Any]:
    least, found = float("inf"), None
    for _ in range(times):
        took = Took()
        with timed(took):
            found = work()
        least = min(least, took.cpu)
    return least, found


def is_same(found: Any, expected: Any, name: str) -> bool:
    right = found.shape == expected.shape and (found != expected).nnz == 0
    if not right:
        print(f"{name}: WRONG")
    return bool(right)


def peak(work: Callable[[], Any]) -> float:
    """MB that a forked process needs beyond what it has at its start."""
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
    """MB in memory now; a fork begins with all of its parent's."""
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
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args(arguments)
    fine = True
    with tempfile.TemporaryDirectory(prefix="colonnade-sparse-") as folder:
        if "sizes" in asked.only:
            fine &= show_sizes(Path(folder))
        if "speed" in asked.only:
            fine &= show_speed(Path(folder), asked.rows, asked.columns, asked.density, asked.times)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
