"""Every kernel in its C form, against its NumPy form if it has one: GB/s or million rows per second, and the ratio.

    python -m bench.kernels [--rows 262144] [--times 9] [--only word]

Bytes are those of the values in memory (the output of a filter, the input of a comparison). CPU time, the best of
several alternating runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bench.timing import Took, run_in_turns, timed
from colonnade.kernels import _native as native
from colonnade.kernels import plain

RNG = np.random.default_rng(1)


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments, and the unit it is measured in: bytes or rows."""

    title: str
    kernel: str
    arguments: tuple[Any, ...]
    n_bytes: int = 0
    n_rows: int = 0
    begun: Any = None  # the argument that a call adds to; it is emptied before the next call


def empty(count: int, kind: str = "u1") -> Any:
    return np.zeros(count, kind)


def blosclz(n: int) -> tuple[Any, int]:
    """About n bytes packed by BloscLZ (copies of 100 bytes from 32 back, and 9 literal bytes), and their number."""
    steps = max(1, n // 109)
    data = bytes([31, *range(32), *(b"\xe0\x5b\x1f\x08123456789" * steps)])
    return np.frombuffer(data, dtype="u1"), 32 + 109 * steps


def filters(n: int) -> Iterator[Case]:
    for size in (2, 4, 8, 3):
        data = RNG.integers(0, 256, n * size, dtype="u1")
        yield Case(f"shuffle {size}", "shuffle", (data, empty(n * size), size), n * size)
        yield Case(f"unshuffle {size}", "unshuffle", (data, empty(n * size), size), n * size)
    for size in (1, 4, 8):
        data, block = RNG.integers(0, 256, n * size, dtype="u1"), max(8192 // size // 8 * 8, 128)
        yield Case(f"bit_unshuffle {size}", "bit_unshuffle", (data, empty(n * size), size, block), n * size)
    yield Case("fletcher32", "fletcher32", (data,), len(data))
    block = np.frombuffer(pa.compress(RNG.integers(0, 9, n, dtype="u1"), "lz4_raw"), dtype="u1")  # type: ignore[assignment]
    yield Case("unpack_lz4", "unpack_lz4", (block, empty(n)), n)
    rows = np.cumsum(RNG.integers(0, 50, n // 8)).view("u1").reshape(-1, 8).T.copy()
    yield Case("deflate", "deflate", (rows, empty(rows.size)), rows.size)
    packed, size = blosclz(n)
    yield Case("unpack_lzf", "unpack_lzf", (packed, empty(size)), size)  # such near copies look the same in LZF
    yield Case("unpack_blosclz", "unpack_blosclz", (packed, empty(size)), size)


def packing(n: int) -> Iterator[Case]:
    for kind, bits in (("i8", 22), ("i8", 16), ("i4", 10), ("i1", 4)):
        size = int(kind[1])
        values = RNG.integers(0, 1 << bits, n).astype(kind) if bits < 8 * size else RNG.integers(0, 7, n).astype(kind)
        chunk = empty(n * size + 22)
        used = native.encode_scaleoffset(values, chunk, None)
        yield Case(f"encode_scaleoffset {kind}, {bits} bits", "encode_scaleoffset", (values, chunk, None), n * size)
        whole = (chunk[:used].copy(), empty(n, kind), None, 0)
        yield Case(f"decode_scaleoffset {kind}, {bits} bits", "decode_scaleoffset", whole, n * size)
        filled = (*whole[:2], bytes(size), 0)
        yield Case(f"decode_scaleoffset {kind}, {bits} bits, fill", "decode_scaleoffset", filled, n * size)
    floats = empty(n, "f8")
    chunk = (20).to_bytes(4, "little") + b"\x08" + bytes(16) + RNG.bytes(n * 20 // 8 + 1)
    yield Case("decode_scaleoffset f8, 20 bits", "decode_scaleoffset", (chunk, floats, None, 2), n * 8)
    rows = RNG.integers(0, n, n // 10)
    some = (chunk, n, rows, empty(len(rows), "i8"), None, 0)
    yield Case("decode_scaleoffset_rows i8", "decode_scaleoffset_rows", some, n_rows=len(rows))


def comparing(n: int) -> Iterator[Case]:
    mask = empty(n)
    for kind in ("i1", "i4", "i8", "f4", "f8"):
        values = RNG.integers(-100, 100, n).astype(kind)
        number = float if kind[0] == "f" else int
        size = values.nbytes
        asked = (values, number(0), None, False, False)
        yield Case(f"range_mask {kind}", "range_mask", (*asked, mask), size)
        yield Case(f"range_count {kind}", "range_count", asked, size)
        wanted = np.arange(-5, 5).astype(kind)
        yield Case(f"among_mask {kind}, 3", "among_mask", (values, wanted[:3].copy(), mask), size)
        yield Case(f"among_mask {kind}, 10", "among_mask", (values, wanted, mask), size)
    many = np.arange(-100, 100, 4).astype("f8")
    yield Case("among_mask f8, 50", "among_mask", (values, many, mask), size)
    yield Case("has_item 8", "has_item", (values, b"\xff" * 8), size)
    rare = (RNG.random(n) < 0.1).view("u1")
    yield Case("mask_edges, 10 %", "mask_edges", (rare, 0, empty(n + 1, "i8")), n_rows=n)


def totals(n: int) -> Iterator[Case]:
    for size in (4, 8, 12):
        data, rows = RNG.integers(0, 256, n * size, dtype="u1"), RNG.integers(0, n, n)
        yield Case(f"take {size}, any order", "take", (data, size, rows, empty(n * size)), n_rows=n)
        yield Case(f"take {size}, in order", "take", (data, size, np.sort(rows), empty(n * size)), n_rows=n)
    codes = RNG.integers(0, 16, n).astype("u1")
    missing = (RNG.random(n) < 0.1).view("u1")
    for kind in ("i4", "i8", "f4", "f8"):
        values = (RNG.standard_normal(n) * 1000).astype(kind)
        yield Case(f"least_greatest {kind}", "least_greatest", (values, None), values.nbytes)
        yield Case(f"total {kind}", "total", (values, None), values.nbytes)
        yield Case(f"total {kind}, 10 % missing", "total", (values, missing), values.nbytes)
        sums = empty(32, "f8" if kind[0] == "f" else "i8")
        group = (codes, values, None, sums, empty(16, "i8"), empty(16, "i8"))
        yield Case(f"group_totals {kind}, 16 groups", "group_totals", (*group, None, None), n_rows=n)
        ends = (empty(16, kind), empty(16, kind))
        yield Case(f"group_totals {kind}, with ends", "group_totals", (*group, *ends), n_rows=n)


def strings(n: int) -> Iterator[Case]:
    lengths = RNG.integers(5, 21, n)
    strings = [b"x" * length for length in lengths.tolist()]
    fixed = np.array(strings, "S20")
    offsets, data = np.concatenate(([0], np.cumsum(lengths))).astype("i4"), np.frombuffer(b"".join(strings), "u1")
    for padding in (0, 1):
        made = (fixed, 20, padding, 2, None, empty(n + 1, "i4"), empty(20 * n))
        yield Case(f"fixed_to_arrow 20, padding {padding}, UTF-8", "fixed_to_arrow", made, n_rows=n)
    yield Case("check_text UTF-8", "check_text", (offsets, data, 2, None), n_rows=n)
    known, codes = offsets[: max(n // 16, 1) + 1].copy(), RNG.integers(0, max(n // 16, 1), n).astype("i4")
    ends = np.concatenate(([0], np.cumsum(np.diff(known)[codes]))).astype("i4")
    yield Case("code_offsets", "code_offsets", (known, codes, None, empty(n + 1, "i4")), n_rows=n)
    yield Case("code_data", "code_data", (known, data, codes, None, ends, empty(int(ends[-1]))), n_rows=n)
    slots, first = empty(1 << (2 * n).bit_length(), "u8"), np.zeros(1, "i4")
    arguments = (first, empty(0), offsets, data, None, slots, empty(n, "i4"), empty(n, "i8"))
    yield Case("code_strings", "code_strings", arguments, n_rows=n, begun=slots)
    yield from heap(min(n, 60_000), strings)


def heap(n: int, strings: list[bytes]) -> Iterator[Case]:
    """Collections of 4096 bytes, as HDF5 makes them for short strings."""
    parts, references, index = [b"GCOL\1\0\0\0" + (4096).to_bytes(8, "little")], [], 0
    for text in strings[:n]:
        part = b"\1\0\0\0\0\0" + len(text).to_bytes(8, "little") + text.ljust(-(-len(text) // 8) * 8, b"\0")
        if len(parts[-1]) + len(part) + 2 > 4096:
            parts[-1] = parts[-1].ljust(4096, b"\0")
            parts.append(b"GCOL\1\0\0\0" + (4096).to_bytes(8, "little"))
            index = 0
        index += 1
        parts[-1] += index.to_bytes(2, "little") + part
        address = 4096 * (len(parts) - 1)
        references.append(len(text).to_bytes(4, "little") + address.to_bytes(8, "little") + index.to_bytes(4, "little"))
    parts[-1] = parts[-1].ljust(4096, b"\0")
    whole, places, slots = b"".join(parts), np.arange(len(parts)) * 4096, empty(len(parts), "i8")
    native.heap_slots(whole, places, slots)
    firsts = np.concatenate(([0], np.cumsum(slots)))
    starts, sizes, offsets = empty(firsts[-1], "i8"), empty(firsts[-1], "i8"), empty(n + 1, "i4")
    yield Case("heap_slots", "heap_slots", (whole, places, slots), n_rows=n)
    yield Case("heap_objects", "heap_objects", (whole, places, firsts, starts, sizes), n_rows=n)
    native.heap_objects(whole, places, firsts, starts, sizes)
    common = (whole, places.astype("u8"), firsts, starts, sizes, b"".join(references), 1, True, offsets)
    yield Case("heap_offsets", "heap_offsets", common, n_rows=n)
    native.heap_offsets(*common)
    yield Case("heap_data", "heap_data", (*common, empty(int(offsets[-1]))), n_rows=n)


def indexes(n: int) -> Iterator[Case]:
    out = empty(n, "i8")
    for kind in ("i4", "i8", "f8"):
        values = (RNG.standard_normal(n) * 1e8).astype(kind)
        yield Case(f"argsort {kind}", "argsort", (values, out), n_rows=n)
    yield Case("argsort i8, 1000 values", "argsort", (RNG.integers(0, 1000, n), out), n_rows=n)
    for n_values in (4, 64, 1000):
        codes = RNG.integers(0, n_values, n)
        title = f"code_bits i8, {n_values} values"
        yield Case(title, "code_bits", (codes, n_values, empty(n_values * -(-n // 8))), n_rows=n)
    bits = np.packbits(RNG.random(n) < 0.1, bitorder="little")
    yield Case("bits_count", "bits_count", (bits, n), n_rows=n)
    yield Case("bits_range_count, 10 %", "bits_range_count", (bits, n), n_rows=n)
    yield Case("bits_ranges, 10 %", "bits_ranges", (bits, n, 0, out.copy(), out.copy()), n_rows=n)
    values, chunk = RNG.integers(0, 1 << 62, n), min(n, 65_536)
    yield Case("hash_items 8", "hash_items", (values, 8, 0, empty(n, "u8"), empty(n, "u8")), n_rows=n)
    few = values[:chunk].copy()
    yield Case("bloom_add_items 8", "bloom_add_items", (few, 8, None, 7, empty(78_000)), n_rows=chunk)
    lengths = RNG.integers(5, 21, chunk)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype("i4")
    text = RNG.bytes(int(offsets[-1]))
    halves = (empty(chunk, "u8"), empty(chunk, "u8"))
    yield Case("hash_strings", "hash_strings", (offsets, text, 0, *halves), n_rows=chunk)
    yield Case("bloom_add_strings", "bloom_add_strings", (offsets, text, None, 7, empty(78_000)), n_rows=chunk)


def sparse(n: int) -> Iterator[Case]:
    for share in (0.01, 0.5):
        places = np.flatnonzero(RNG.random(int(n / share)) < share).astype("i8")
        out = (empty(len(places), "i8"), empty(len(places), "i8"))
        title = f"grow_blocks, {share:.0%} defined"
        yield Case(title, "grow_blocks", (places, 1024, *out), n_rows=len(places))
    width, n_rows = 30_000, max(n // 300, 1)
    places = np.flatnonzero(RNG.random(n_rows * width) < 0.01)
    ends, minor = np.searchsorted(places, np.arange(n_rows + 1) * width).astype("i8"), (places % width).astype("i4")
    count, rows = len(minor), (minor, ends[:-1].copy(), ends[1:].copy())
    points = empty(8 * count)
    plain.rows_to_points(*rows, 0, width, 4, points)
    yield Case("rows_to_points", "rows_to_points", (*rows, 0, width, 4, empty(8 * count)), n_rows=count)
    out = (empty(n_rows + 1, "i8"), empty(count, "i4"))
    yield Case("points_to_rows", "points_to_rows", (points, 4, width, 0, *out), n_rows=count)
    yield Case("least_blocks", "least_blocks", rows, n_rows=count)
    yield Case("cut_rows, 30 chunks", "cut_rows", (minor, ends, 1024, 30, empty(n_rows * 31, "i8")), n_rows=count)
    runs = (rows[1], rows[1][::-1].copy(), np.minimum(rows[2] - rows[1], count - rows[1][::-1]))
    yield Case("copy_runs", "copy_runs", (minor, *runs, 4, empty(count, "i4")), n_rows=count)
    cuts = np.linspace(0, 8 * count, 17).astype("i8")
    sums = (cuts[:-1].copy(), cuts[1:].copy(), empty(16, "u4"))
    yield Case("lookup3_each", "lookup3_each", (points, *sums), n_bytes=8 * count)


FAMILIES: list[Callable[[int], Iterator[Case]]] = [filters, packing, comparing, totals, strings, indexes, sparse]


def run(form: Any, case: Case) -> Took:
    took = Took()
    if case.begun is not None:
        case.begun.fill(0)
    with timed(took):
        getattr(form, case.kernel)(*case.arguments)
    return took


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=262_144)
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--only", default="")
    asked = parser.parse_args(arguments)
    print(f"{'kernel':42}  {'C':>10}  {'NumPy':>10}  {'':8} ratio")
    for family in FAMILIES:
        for case in family(asked.rows):
            if asked.only not in case.title:
                continue
            forms = {"c": native, "numpy": plain} if case.kernel in plain.__all__ else {"c": native}
            runs = run_in_turns({name: partial(run, form, case) for name, form in forms.items()}, asked.times)
            amount, unit = (case.n_bytes / 1e9, "GB/s") if case.n_bytes else (case.n_rows / 1e6, "Mrow/s")
            c = runs["c"].best_cpu
            line = f"{case.title:42}  {amount / c:10.2f}"
            if "numpy" in runs:
                numpy = runs["numpy"].best_cpu
                line += f"  {amount / numpy:10.2f}  {unit:8} {numpy / c:5.1f}"
            else:
                line += f"  {'':10}  {unit}"
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
