"""Check every length, offset, checksum and order of a sectioned dataset; problems are findings of `SPARSE_RULES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from colonnade.errors import FormatError, UnsupportedError
from colonnade.format.headers import Message
from colonnade.format.records import ChunkRecord
from colonnade.format.source import HDF5Source
from colonnade.model import Breach, Finding, Rule, Severity
from colonnade.sparse.attributes import read_attributes
from colonnade.sparse.chunk import read_cells
from colonnade.sparse.info import SparseInfo, check_record, chunk_map_of, count_values, describe

Advance = Callable[[int], None]
_AGAIN = "Write the array again from its source; what other chunks hold can be read with colonnade.open_sparse."
SPARSE_RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in (
        Rule("sparse.header", "", "The messages of a sectioned dataset make sense together.", _AGAIN),
        Rule(
            "sparse.map", "", "The chunk map can be read and is in order; no chunk is in it twice, or outside.", _AGAIN
        ),
        Rule(
            "sparse.chunk", "", "Sections lie in their chunk, chunks in the file; checksums and coordinates are right.",
            _AGAIN, deep=True,
        ),
        Rule("sparse.overlap", "", "No two chunks share a byte.", _AGAIN),
        Rule(
            "sparse.filter", "", "Every filter is supported; data under an unsupported filter is not checked.",
            "Install the package that holds the filter, or check where it is known.", deep=True,
        ),
    )
}  # fmt: skip


def verify(
    source: HDF5Source, messages: list[Message], name: str, advance: Advance | None = None, deep: bool = True
) -> list[Finding]:
    """The findings for a dataset, given the messages of its header; `advance` is called with the chunks checked.

    deep: read the chunks; otherwise only their records are checked.
    """
    try:
        info = describe(source, messages, name)
    except (FormatError, UnsupportedError) as error:
        return [_finding("sparse.header", "error", name, error)]
    return [*_verify_attributes(source, messages, name), *_verify_chunks(source, info, advance, deep)]


def _verify_attributes(source: HDF5Source, messages: list[Message], name: str) -> Iterator[Finding]:
    try:
        read_attributes(source, messages)
    except FormatError as error:
        yield _finding("sparse.header", "error", name, error)
    except UnsupportedError as error:
        yield _finding("sparse.filter", "warning", name, error)


def _verify_chunks(source: HDF5Source, info: SparseInfo, advance: Advance | None, deep: bool) -> Iterator[Finding]:
    seen: set[tuple[int, ...]] = set()
    spans: list[tuple[int, int, tuple[int, ...]]] = []
    unknown: set[str] = set()
    n_done = 0
    try:
        chunk_map_of(info, source).check_order()
        for record in _all_records(source, info):
            n_done += 1
            if advance is not None:
                advance(n_done)
            if record.grid in seen:
                yield _finding("sparse.map", "error", info.name, f"chunk {record.grid} is in the chunk map twice")
            seen.add(record.grid)
            spans.append((record.address, record.address + record.size, record.grid))
            yield from _verify_chunk(source, info, record, unknown, deep)
    except FormatError as error:
        yield _finding("sparse.map", "error", info.name, error)
    yield from _overlaps(info, spans)


def _all_records(source: HDF5Source, info: SparseInfo) -> Iterator[ChunkRecord]:
    """All records, including those of chunks outside the dataset, which reading skips."""
    chunk_map = chunk_map_of(info, source)
    for records in chunk_map.read_all():
        yield from records


def _verify_chunk(
    source: HDF5Source, info: SparseInfo, record: ChunkRecord, unknown: set[str], deep: bool
) -> Iterator[Finding]:
    shape = chunk_map_of(info, source).grid_shape
    if any(at >= limit for at, limit in zip(record.grid, shape, strict=True)):
        yield _finding("sparse.map", "error", info.name, f"chunk {record.grid} lies outside the dataset")
        return
    try:
        if deep:
            read_cells(source, info, record)
        else:
            check_record(source, info, record)
            count_values(source, info, record)
    except FormatError as error:
        yield _finding("sparse.chunk", "error", info.name, error)
    except UnsupportedError as error:
        feature = error.feature or str(error)
        if feature not in unknown:
            unknown.add(feature)
            yield _finding("sparse.filter", "warning", info.name, error)


def _overlaps(info: SparseInfo, spans: list[tuple[int, int, tuple[int, ...]]]) -> Iterator[Finding]:
    end, before = 0, None
    for start, stop, grid in sorted(spans):
        if start < end and stop > start:
            text = f"chunks {before} and {grid} share bytes {start} to {min(end, stop)}"
            yield _finding("sparse.overlap", "error", info.name, text)
        if stop > end:
            end, before = stop, grid


def _finding(rule: str, severity: Severity, path: str, what: object) -> Finding:
    return SPARSE_RULES[rule].finding(Breach(severity, path, str(what)))
