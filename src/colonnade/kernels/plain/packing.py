"""NumPy form: numbers packed into the bits they need, as HDF5's scale-offset (filter 6) does.

They are packed without gaps, the highest bit of each number first. The head of a chunk:

| byte | what |
| --- | --- |
| 0 | bits of a number (4 bytes) |
| 4 | size of the minimum (1 byte) |
| 5 | minimum, then zeros |
| 21 | packed numbers |
"""

from __future__ import annotations

import numpy as np

from colonnade.kernels.plain.arguments import KernelArray, KernelBytes, Readable, open_bytes, open_values

CHUNK_HEADER = 21


def decode_scaleoffset(chunk: Readable, out: Readable, fill: Readable | None, decimals: int, /) -> None:
    """Undo scale-offset: integers or (D-scale) floats of `out`'s type and byte order.

    `fill` is its bytes in little-endian order if the filter has one; `decimals` matters for floats alone. (A
    filter with as many bits as the type has stores elements unchanged, without a header: not for this.)
    """
    target = open_values(out, "out", writable=True, any_order=True)
    target[...] = _decode(open_bytes(chunk, "chunk"), len(target), target.dtype, fill, decimals)


def _decode(chunk: KernelBytes, n: int, dtype: np.dtype, fill: Readable | None, decimals: int) -> KernelArray:
    native = dtype.newbyteorder("=")
    if len(chunk) < CHUNK_HEADER:
        raise ValueError(f"chunk has {len(chunk)} bytes, fewer than its header")
    bits = int.from_bytes(chunk[:4].tobytes(), "little")
    if bits > 8 * native.itemsize:
        raise ValueError(f"chunk has numbers of {bits} bits, the type has {8 * native.itemsize}")
    data = chunk[CHUNK_HEADER:]
    _check_bits(data, n, bits)
    mark = None if fill is None else open_bytes(fill, "fill")
    if mark is not None and len(mark) != native.itemsize:
        raise ValueError(f"fill must have {native.itemsize} bytes")
    if bits == 8 * native.itemsize:
        stored: KernelArray = data[: n * native.itemsize].view(native.newbyteorder("<"))
        return stored
    minimum = chunk[5 : 5 + min(int(chunk[4]), 8)].tobytes().ljust(8, b"\0")[: native.itemsize]
    numbers = _unpack(data, bits, n)
    values = _scale(numbers, minimum, native, decimals)
    if mark is not None:
        values[numbers == (1 << bits) - 1] = mark.view(native)[0]
    return values


def _scale(numbers: KernelArray, minimum: bytes, dtype: np.dtype, decimals: int) -> KernelArray:
    """The values of numbers that are counted from a minimum."""
    least = np.frombuffer(minimum, dtype)[0]
    if dtype.kind != "f":
        unsigned = f"u{dtype.itemsize}"
        with np.errstate(over="ignore"):
            values: KernelArray = (numbers.astype(unsigned) + np.frombuffer(minimum, unsigned)[0]).view(dtype)
        return values
    with np.errstate(all="ignore"):
        whole = numbers.astype(np.int64).astype(dtype)
        try:
            scale = 10.0**decimals
        except OverflowError:
            scale = float("inf")
        scaled: KernelArray = whole / dtype.type(scale) + least
    return scaled


def _check_bits(data: KernelBytes, n: int, bits: int) -> None:
    if -(-n * bits // 8) > len(data):
        raise ValueError(f"chunk has {len(data)} bytes of numbers, too few for {n} of {bits} bits")


def _unpack(data: KernelBytes, bits: int, n: int) -> KernelArray:
    """The first n numbers, unpacked one bit of each at a time."""
    numbers: KernelArray = np.zeros(n, dtype=np.uint64)
    single, seven = np.uint64(1), np.uint64(7)
    first = np.arange(n, dtype=np.uint64) * np.uint64(bits)
    for bit in range(bits):
        at = first + np.uint64(bit)
        byte = data[(at >> np.uint64(3)).astype(np.int64)].astype(np.uint64)
        numbers = numbers << single | byte >> (seven - (at & seven)) & single
    return numbers


def encode_scaleoffset(values: Readable, out: Readable, fill: Readable | None, /) -> int:
    """Pack integers by scale-offset into `out`, which must be 22 bytes longer than they are; return the bytes used.

    Returns 0 if they need all bits of their type: HDF5 1.14.4 and later cannot read such a chunk, so it is stored
    without the filter. `fill` is the fill in the filter's options, as little-endian bytes.
    """
    given, target = open_values(values, "values"), open_bytes(out, "out", writable=True)
    mark = None if fill is None else open_bytes(fill, "fill")
    if given.dtype.kind == "f":
        raise ValueError("values must hold integers")
    if mark is not None and len(mark) != given.itemsize:
        raise ValueError(f"fill must have {given.itemsize} bytes")
    if len(target) < CHUNK_HEADER + 1 + given.nbytes:
        raise ValueError(f"out has {len(target)} bytes, expected at least 22 more than the values")
    is_fill = np.zeros(len(given), dtype=bool) if mark is None else given == mark.view(given.dtype)[0]
    present = given[~is_fill]
    low, high = (int(present.min()), int(present.max())) if len(present) else (0, 0)
    full = 8 * given.itemsize
    bits = (high - low + (0 if mark is None else 1)).bit_length()
    if high - low > (1 << full) - 3 or bits >= full:
        return 0
    used = CHUNK_HEADER + 1 + len(given) * bits // 8
    target[:used] = 0
    target[0], target[4] = bits, 8
    target[5:13] = np.frombuffer((low & (2**64 - 1)).to_bytes(8, "little"), np.uint8)
    numbers = given.astype(np.uint64) - np.uint64(low & (2**64 - 1))
    numbers[is_fill] = (1 << bits) - 1
    packed = _pack(numbers, bits)
    target[CHUNK_HEADER : CHUNK_HEADER + len(packed)] = packed
    return used


def _pack(numbers: KernelArray, bits: int) -> KernelBytes:
    if bits == 0:
        return np.empty(0, dtype=np.uint8)
    steps = np.arange(bits - 1, -1, -1, dtype=np.uint64)
    return np.packbits((numbers[:, None] >> steps & np.uint64(1)).astype(np.uint8))
