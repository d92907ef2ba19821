"""Sizes and thresholds that tests vary: how much is read, kept in memory or given to a thread at a time.

Code reads those in use where it needs them: `limits.now.piece_bytes`. They are the same for all files and threads of a
process. What is read and found does not depend on them; `mark_stride` must not change while a journal exists, and
receipts hold digests of blocks of `sorted_block` rows. A test of what only large files meet installs small ones:

    with limits.override(piece_bytes=16):
        ...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from colonnade.dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits by room; a comment gives the unit and what happens at the limit."""

    # pager
    held_page_bytes: int = 32 << 20  # changed pages in memory; more are journaled and written before the commit
    saved_ahead_bytes: int = 4 << 20  # to be overwritten, for which another thread writes the journal ahead
    mark_stride: int = 64 << 20  # bytes; the mark of a file that grows ends at a multiple of it
    parts_per_write: int = 512  # buffers; systems accept at least 1024 per call

    # filters
    quick_level: int = 3  # of deflate; above it, size matters more than speed

    # h5
    runs_per_chunk: int = 64  # runs of rows written one by one; with more, the chunk is written as a whole
    spare_memory: int = 256 << 20  # bytes; if there are fewer, a MemoryError is not the fault of the file
    attribute_bytes: int = 64 << 20  # larger attributes are not read
    heap_collections: int = 64  # collections of the global heap that are read at a time; most have 64 KiB
    heap_row_bytes: int = (1 << 31) - 1  # of variable-length rows that are read at a time: offsets count no more

    # columns
    piece_bytes: int = 8 << 20  # of rows that are read at a time
    farthest_apart: int = 64 << 20  # bytes between the first and the last row of a chunk that are read together
    pointed_bytes: int = 64 << 20  # of strings that pointers lead to, read at a time; one row may have more
    pointed_span: int = 16 << 20  # bytes of the strings' heap that are read in one call
    pointed_gap: int = 1 << 18  # bytes between two strings beyond which they are read separately
    pointed_step: int = 1 << 20  # bytes of strings that are copied to their destination in one step

    # indexes
    bitmap_window: int = 1 << 19  # rows processed together
    bitmap_stripe: int = 1 << 16  # bytes of one value's bits in a chunk of the dataset
    sorted_block: int = 8192  # rows that are read, and checked against their digest, together
    sorted_sample: int = 512  # every n-th row is compared first when rows are merged
    sorted_lookups: int = 64  # values of one predicate; more are not searched for one by one
    bloom_points: int = 256  # values of one predicate; more are not asked for
    bloom_flush_bytes: int = 8 << 20  # of filters that wait to be written
    order_samples: int = 256  # values of a sorted run by which runs are merged
    order_piece: int = 1 << 20  # row numbers of a sorted run that are read at a time

    # sparse
    sparse_row_bytes: int = 64 << 20  # rows of a new sparse column in memory; more go to a temporary file

    # layouts
    wide_columns: int = 64  # tables with at least as many columns are described lazily, column by column
    checked_bytes: int = 4 << 20  # of an array whose values are checked together

    # query
    threaded_bytes: int = 4 << 20  # of rows; with fewer, threads would mostly wait for each other
    long_run: int = 4096  # rows without a gap that are worth reading as a range
    thread_rows: int = 1 << 14  # scattered rows that are worth a thread of their own
    fewest_window_rows: int = 65_536  # rows that are tested together
    most_window_rows: int = 1 << 20
    window_bytes: int = 16 << 20
    search_chunks: int = 8  # with fewer chunks to read, asking an index may cost more
    numbered_groups: int = 1 << 16  # possible groups; of more, only those that occur are numbered
    waiting_groups: int = 1 << 16  # groups of windows that are not merged yet
    distinct_values: int = 100_000  # of a column that are counted
    distinct_bytes: int = 64 << 20
    gathered_bytes: int = 256 << 20  # values kept for medians and quantiles; of more, those near them are read again
    exploded_rows: int = 1 << 16  # whose lists are located together, for rows of elements
    counted_pairs: int = 1 << 22  # of group and value, whose rows are counted; more go to temporary files

    sorted_bytes: int = 256 << 20  # of rows that are sorted in memory; more go to temporary files
    merged_runs: int = 32  # of sorted rows that are merged at the same time
    top_rows: int = 1 << 18  # of a sorted query with a limit that are selected without sorting all rows

    # edit
    first_rows: int = 65_536  # rows from which the form of a new column is chosen
    block_cells: int = 1 << 18  # cells of a stream of cells that travel together
    updated_rows: int = 1 << 18  # rows whose new values are computed together
    updated_bytes: int = 64 << 20  # new values in memory; more go to a temporary file
    cell_bytes: int = 64 << 20  # cells of a new array in memory; more go to a temporary file

    # anndata
    block_elements: int = 1 << 22  # stored elements that are read together to select columns of a CSR matrix

    # engines
    scan_rows: int = 1 << 17  # of one batch
    fragment_rows: int = 1 << 16  # the least rows of a fragment, and what their number is a multiple of

    # table
    iterated_bytes: int = 32 << 20  # of stored rows that are read together when rows are iterated
    batch_bytes: int = 64 << 20  # of the elements of lists in one batch
    iterated_rows: int = 1024  # that are made Python objects together
    unasked_bytes: int = 256 << 20  # of stored rows that are read through the Arrow stream without a warning

    # cli
    printed_rows: int = 65_536  # rows that are read and printed together
    printed_bytes: int = 64 << 20
    csv_block_bytes: int = 4 << 20  # bytes of CSV that are parsed together
    json_batch_rows: int = 65_536  # rows of JSON lines that are read together


now = Limits()


@contextmanager
def override(**changes: int) -> Iterator[None]:
    """Use other limits inside a `with` block, in all threads."""
    global now  # noqa: PLW0603 - the only place that sets it
    before, now = now, replace(now, **changes)
    try:
        yield
    finally:
        now = before
