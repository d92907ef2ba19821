"""The C form of the kernels: those of `plain`, and those that exist in C only.

Where there is no C form, HDF5 reads what these would read. `tests/laws/plain_codecs.py` and `tests/laws/plain_heap.py`
hold their formats in Python.
"""

from colonnade.kernels.plain import *  # noqa: F403
from colonnade.kernels.plain.arguments import Readable

def bit_unshuffle(source: Readable, out: Readable, item_size: int, block_items: int, /) -> None:
    """Undo the bit transposition of the bitshuffle filter, in blocks of a multiple of 8 items."""

def unpack_blosclz(source: Readable, out: Readable, /) -> None:
    """Unpack BloscLZ to exactly the bytes of `out`."""

def unpack_lz4(source: Readable, out: Readable, /) -> None:
    """Unpack a block of LZ4 to exactly the bytes of `out`."""

def unpack_lzf(source: Readable, out: Readable, /) -> None:
    """Unpack LZF to exactly the bytes of `out`."""

def decode_scaleoffset_rows(
    chunk: Readable, n_items: int, rows: Readable, out: Readable, fill: Readable | None, decimals: int, /
) -> None:
    """Undo scale-offset for the given rows (int64) of a chunk of `n_items`; the others are not decoded."""

def decode_scaleoffset_chunks(
    chunks: Readable, sizes: Readable, out: Readable, fill: Readable | None, decimals: int, look: Readable | None, /
) -> bool | None:
    """Undo scale-offset for chunks of these stored sizes (int64), which fill equal parts of `out`.

    Returns whether an item consists of the bytes `look`; None if these are not given.
    """

def read_packed_rows(
    file: int,
    addresses: Readable,
    sizes: Readable,
    places: Readable,
    n_items: int,
    out: Readable,
    fill: Readable | None,
    decimals: int,
    /,
) -> None:
    """Single rows of scale-offset chunks of `n_items` in an open file, each read by the few bytes that hold it.

    For each row: the address and the stored size of its chunk, and its place in the chunk (all int64).
    """

def pick_packed_rows(
    file: int,
    addresses: Readable,
    sizes: Readable,
    ends: Readable,
    places: Readable,
    n_items: int,
    out: Readable,
    fill: Readable | None,
    decimals: int,
    /,
) -> None:
    """Rows of scale-offset chunks of `n_items` in an open file, which are read whole.

    For each chunk: its address, its stored size, and where its rows end in `places`; for each row its place in the
    chunk (all int64).
    """

def heap_slots(heap: Readable, places: Readable, slots: Readable, /) -> None:
    """Walk the collections at these places of `heap`; one more than the highest index of each into `slots`."""

def heap_objects(heap: Readable, places: Readable, firsts: Readable, starts: Readable, sizes: Readable, /) -> None:
    """Where each object lies in `heap`: object i of collection c in slot firsts[c] + i. Size -1: there is none."""

def heap_offsets(
    heap: Readable,
    addresses: Readable,
    firsts: Readable,
    starts: Readable,
    sizes: Readable,
    references: Readable,
    item_size: int,
    cut: bool,
    offsets: Readable,
    /,
) -> None:
    """Arrow's offsets of the objects that references name; cut: a string ends before its first NUL."""

def heap_data(
    heap: Readable,
    addresses: Readable,
    firsts: Readable,
    starts: Readable,
    sizes: Readable,
    references: Readable,
    item_size: int,
    cut: bool,
    offsets: Readable,
    data: Readable,
    /,
) -> None:
    """The bytes of the objects that references name, at their offsets."""
