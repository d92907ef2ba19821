"""Our codecs against those of packages, on chunks of 65,536 rows as HDF5 stores them: CPU time, and the size.

    python -m bench.peer_codecs [--rows 65536] [--times 7] [--only word]

Packages that are not installed are left out (pip install deflate isal lz4 imagecodecs bitshuffle blosc2 hdf5plugin).
A package that returns new bytes is charged for copying them to where the rows are wanted, as our filters must do.
The figures, and what follows from them, are in docs/decisions.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pyarrow as pa

from bench.timing import Took, run_in_turns, timed
from colonnade import kernels
from colonnade.filters.blosc import unpack_blosc
from colonnade.filters.codecs import inflate
from colonnade.filters.undo import UNDO

RNG = np.random.default_rng(1)
BITSHUFFLE, LZ4 = 32008, 32004


class Case(NamedTuple):
    """What is done, the ways to do it (each a call without arguments), and the bytes that one call makes or takes."""

    title: str
    ways: dict[str, Callable[[], object]]
    n_bytes: int


def package(name: str) -> Any | None:
    try:
        return import_module(name)
    except ImportError:
        return None


def columns(n: int) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "ts i8": np.cumsum(RNG.integers(0, 50, n)),
        "f8 2 decimals": np.round(RNG.random(n) * 1000, 2),
        "i4 to 1e6": RNG.integers(0, 10**6, n).astype("i4"),
        "u1 codes of 16": RNG.integers(0, 16, n).astype("u1"),
        "text S20": np.array([f"item-{number:07d}-{number % 99}" for number in RNG.integers(0, 10**6, n)], "S20"),
    }


def shuffled(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(values.view("u1").reshape(len(values), -1).T).reshape(-1)


def put(out: np.ndarray[Any, Any], unpack: Callable[[], Any]) -> None:
    out[...] = np.frombuffer(unpack(), dtype="u1")


def deflating(n: int) -> Iterator[Case]:
    """Levels that favour speed. Ours makes literals and runs only; a size is printed for each."""
    libdeflate, isal = package("deflate"), package("isal.isal_zlib")
    for name, values in columns(n).items():
        data = shuffled(values)
        out = np.empty(len(data) + 1000, "u1")
        ways: dict[str, Callable[[], object]] = {
            "ours": partial(kernels.deflate, data, out),
            "zlib": lambda data=data: len(zlib.compress(data, 1)),  # type: ignore[misc]
        }
        if isal is not None:
            ways["isal"] = lambda data=data: len(isal.compress(data, 1))  # type: ignore[misc]
        if libdeflate is not None:
            ways["libdeflate"] = lambda data=data: len(libdeflate.zlib_compress(data, 1))  # type: ignore[misc]
        yield Case(f"deflate {name}", ways, len(data))


def inflating(n: int) -> Iterator[Case]:
    """ "ours" is the path of the package: libdeflate where it is installed, otherwise zlib."""
    isal, images = package("isal.isal_zlib"), package("imagecodecs")
    for name, values in columns(n).items():
        data = shuffled(values)
        stream, out = zlib.compress(data, 4), np.empty(len(data), "u1")  # type: ignore[arg-type]
        ways: dict[str, Callable[[], object]] = {
            "ours": partial(put, out, partial(inflate, stream, len(data))),
            "zlib": partial(put, out, partial(zlib.decompress, stream, 15, len(data))),
        }
        if isal is not None:
            ways["isal"] = partial(put, out, partial(isal.decompress, stream, 15, len(data)))
        if images is not None:
            ways["imagecodecs"] = partial(images.deflate_decode, stream, out=out)
        yield Case(f"inflate {name}", ways, len(data))


def plugins(n: int) -> Iterator[Case]:
    """Chunks of the filters of hdf5plugin: by our code, by HDF5 (which holds its lock meanwhile), and by packages."""
    plugin, images, bitshuffle = package("hdf5plugin"), package("imagecodecs"), package("bitshuffle")
    if plugin is None or kernels.FORM != "c":
        return
    filters = {
        "blosc:blosclz": plugin.Blosc(cname="blosclz"),
        "blosc:lz4": plugin.Blosc(cname="lz4"),
        "lz4": plugin.LZ4(),
        "bitshuffle:lz4": plugin.Bitshuffle(cname="lz4"),
    }
    for name, values in columns(n).items():
        for filter_name, options in filters.items():
            chunk, settings, read = stored(values, dict(options))
            if chunk is None:
                continue
            out = np.empty(values.nbytes, "u1")
            ways: dict[str, Callable[[], object]] = {"HDF5": read}
            if filter_name.startswith("blosc"):
                ways = {"ours": partial(unpack_blosc, memoryview(chunk), out), **ways}
                if images is not None:
                    ways["imagecodecs"] = partial(images.blosc_decode, chunk, numthreads=1, out=out)
            else:
                undo = UNDO[LZ4 if filter_name == "lz4" else BITSHUFFLE]
                ways = {"ours": partial(undo, chunk, settings, out, len(out)), **ways}
            if filter_name == "lz4" and images is not None:
                ways["imagecodecs"] = partial(images.lz4h5_decode, chunk, out=out)
            if filter_name == "bitshuffle:lz4" and bitshuffle is not None:
                blocks = np.frombuffer(chunk, "u1")[12:].copy()
                ways["bitshuffle"] = partial(bitshuffle.decompress_lz4, blocks, values.shape, values.dtype, 0)
            yield Case(f"{filter_name} {name}", ways, values.nbytes)


def stored(values: np.ndarray[Any, Any], options: dict[str, Any]) -> tuple[bytes | None, Any, Callable[[], object]]:
    """A chunk as HDF5 stores it (None: it skipped the filter), the filter's options, and a call that reads it."""
    with tempfile.NamedTemporaryFile(suffix=".h5", delete=False) as made:
        path = Path(made.name)
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data=values, chunks=values.shape, **options)
        mask, chunk = dataset.id.read_direct_chunk((0,))
        settings = dataset.id.get_create_plist().get_filter(0)[2]
    reader, out = h5py.File(path, rdcc_nbytes=0)["x"], np.empty_like(values)
    path.unlink()
    return None if mask else chunk, settings, lambda: reader.read_direct(out)


def raw_lz4(n: int) -> Iterator[Case]:
    """Blocks of LZ4 alone. Arrow does not report a block that makes too few bytes."""
    package_lz4 = package("lz4.block")
    for name, values in columns(n).items():
        data = shuffled(values)
        block, out = pa.compress(data, "lz4_raw", asbytes=True), np.empty(len(data), "u1")
        ways: dict[str, Callable[[], object]] = {}
        if kernels.FORM == "c":
            ways["ours"] = partial(kernels.unpack_lz4, block, out)
        ways["Arrow"] = partial(put, out, partial(pa.decompress, block, len(data), "lz4_raw"))
        if package_lz4 is not None:
            ways["lz4"] = partial(put, out, partial(package_lz4.decompress, block, uncompressed_size=len(data)))
        yield Case(f"LZ4 block {name}", ways, len(data))


def run(way: Callable[[], object], repeats: int) -> Took:
    took = Took()
    with timed(took):
        for _ in range(repeats):
            way()
    return took


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=65_536)
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--only", default="")
    asked = parser.parse_args(arguments)
    print("microseconds of CPU time per chunk, and the ratio to ours; for deflate also KB")
    for family in (deflating, inflating, raw_lz4, plugins):
        for case in family(asked.rows):
            if asked.only not in case.title:
                continue
            repeats = max(1, 2_000_000 // case.n_bytes)
            runs = run_in_turns({name: partial(run, way, repeats) for name, way in case.ways.items()}, asked.times)
            ours = next(iter(runs.values())).best_cpu
            cells = []
            for name, found in runs.items():
                size = f", {int(case.ways[name]()) / 1024:.0f} KB" if family is deflating else ""
                cells.append(f"{name} {1e6 * found.best_cpu / repeats:.0f} ({found.best_cpu / ours:.2f}{size})")
            print(f"{case.title:30} {'  '.join(cells)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
