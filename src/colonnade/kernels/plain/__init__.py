"""The NumPy form of the kernels: what each computes, and what is used where there is no C form."""

from colonnade.kernels.plain.bitmap import bits_count, bits_range_count, bits_ranges, code_bits
from colonnade.kernels.plain.blocks import grow_blocks
from colonnade.kernels.plain.cells import copy_runs, cut_rows, least_blocks, points_to_rows, rows_to_points
from colonnade.kernels.plain.chunks import (
    pick_rows,
    read_pieces,
)
from colonnade.kernels.plain.coded import code_data, code_offsets, code_strings
from colonnade.kernels.plain.compare import (
    among_mask,
    has_item,
    mask_edges,
    range_count,
    range_mask,
    ranges_rows,
)
from colonnade.kernels.plain.deflate import deflate, deflate_even
from colonnade.kernels.plain.filters import fletcher32, lookup3, lookup3_each, shuffle, unshuffle
from colonnade.kernels.plain.hashing import (
    bloom_add_items,
    bloom_add_strings,
    hash_items,
    hash_strings,
)
from colonnade.kernels.plain.packing import decode_scaleoffset, encode_scaleoffset
from colonnade.kernels.plain.sorting import argsort, insert_rows
from colonnade.kernels.plain.strings import arrow_to_fixed, check_text, fixed_to_arrow
from colonnade.kernels.plain.totals import group_totals, least_greatest, take, total
from colonnade.kernels.rules import ANYTHING, ASCII, NULLS, SPACES, TERMINATED, UTF8

__all__ = [
    "ANYTHING",
    "ASCII",
    "NULLS",
    "SPACES",
    "TERMINATED",
    "UTF8",
    "among_mask",
    "argsort",
    "arrow_to_fixed",
    "bits_count",
    "bits_range_count",
    "bits_ranges",
    "bloom_add_items",
    "bloom_add_strings",
    "check_text",
    "code_bits",
    "code_data",
    "code_offsets",
    "code_strings",
    "copy_runs",
    "cut_rows",
    "decode_scaleoffset",
    "deflate",
    "deflate_even",
    "encode_scaleoffset",
    "fixed_to_arrow",
    "fletcher32",
    "group_totals",
    "grow_blocks",
    "has_item",
    "hash_items",
    "hash_strings",
    "insert_rows",
    "least_blocks",
    "least_greatest",
    "lookup3",
    "lookup3_each",
    "mask_edges",
    "pick_rows",
    "points_to_rows",
    "range_count",
    "range_mask",
    "ranges_rows",
    "read_pieces",
    "rows_to_points",
    "shuffle",
    "take",
    "total",
    "unshuffle",
]
