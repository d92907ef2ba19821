"""`sparse`: describes, dumps and verifies arrays in sectioned chunks, which no HDF5 library reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from types import EllipsisType

import click
import numpy as np
from rich.console import Console

from colonnade.cli.answer import FINDINGS, FINE, Facts, NoTables, print_json, printable, stream_json
from colonnade.cli.progress import waiting
from colonnade.cli.text import cell, new_grid, open_console, plural
from colonnade.converting.sparse_matrices import convert
from colonnade.errors import FormatError, UnsupportedError, UsageError
from colonnade.filters.names import filters_text
from colonnade.row_files.plain import plain_value
from colonnade.sparse import SparseArray, find_sparse, open_sparse, verify_sparse
from colonnade.sparse.boxes import BoxKey
from colonnade.sparse.selections import Coordinates
from colonnade.table.show import size_text

Run = tuple[list[int], list[int], slice]
_MOST_VALUES = 12  # per line


def _names(file: str, name: str | None) -> list[str]:
    """The given array, or all of the file."""
    names = [name] if name is not None else find_sparse(file)
    if not names:
        raise NoTables(f"{file} holds no sparse arrays")
    return names


def _only(file: str, name: str | None) -> SparseArray:
    names = _names(file, name)
    if len(names) > 1:
        raise UsageError(f"{file} holds {len(names)} sparse arrays, name one: {', '.join(names[:8])}")
    return open_sparse(file, names[0])


def parse_box_text(text: str | None) -> BoxKey:
    """Parse a box: "0:10,:" or "3,..."."""
    if text is None:
        return None
    parts: list[int | slice | EllipsisType] = []
    for part in text.split(","):
        words = [word.strip() for word in part.split(":")]
        if words == ["..."]:
            parts.append(...)
            continue
        if len(words) > 3 or not all(word.lstrip("-").isdigit() or (not word and len(words) > 1) for word in words):
            raise UsageError(f"{text!r} is not a box: write START:STOP[:STEP] or a number per dimension, with commas")
        numbers = [int(word) if word else None for word in words]
        parts.append(int(words[0]) if len(words) == 1 else slice(*numbers))
    return tuple(parts)


# -- info --


def print_sparse(file: str, name: str | None, as_json: bool) -> int:
    arrays = [_facts_or_problem(file, path) for path in _names(file, name)]
    if as_json:
        print_json({"file": {"name": file, "bytes": Path(file).stat().st_size}, "arrays": arrays})
    else:
        console = open_console()
        for number, facts in enumerate(arrays):
            console.print() if number else None
            _show_array(console, facts)
    return FINDINGS if any(facts["problem"] for facts in arrays) else FINE


def _facts_or_problem(file: str, name: str) -> Facts:
    try:
        with open_sparse(file, name) as array:
            return _facts(array)
    except (FormatError, UnsupportedError) as error:
        return {"path": name, "problem": str(error)}


def _facts(array: SparseArray) -> Facts:
    layout, size = array.info.layout, array.measure()
    n_elements = int(np.prod([float(length) for length in array.shape]))
    sections = [
        {
            "number": section.number, "name": section.name, "stored": section.stored,
            "unfiltered": section.unfiltered, "ratio": section.ratio, "filters": filters_text(section.filters),
        }
        for section in size.sections
    ]  # fmt: skip
    return {
        "path": array.name, "shape": list(array.shape), "max_shape": list(array.max_shape), "type": str(array.type),
        "fill": plain_value(_python(array.fill)), "chunk": list(layout.chunk), "dialect": layout.dialect,
        "chunk_map": layout.map, "chunk_map_version": size.map_version, "n_chunks": size.n_chunks,
        "n_places": size.n_places, "n_defined": array.n_defined, "n_elements": n_elements,
        "dense_bytes": size.dense, "sections": sections, "problem": None,
    }  # fmt: skip


def _python(value: object) -> object:
    """NumPy scalars and arrays as plain Python values."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def _dimensions(sizes: Sequence[int | None]) -> str:
    return " x ".join("any" if size is None else f"{size:,}" for size in sizes)


def _show_array(console: Console, facts: Facts) -> None:
    line = cell(facts["path"], "bold")
    if facts["problem"]:
        console.print(line, soft_wrap=True)
        console.print(cell(facts["problem"], "red"))
        return
    limits = "" if facts["max_shape"] == facts["shape"] else f" (at most {_dimensions(facts['max_shape'])})"
    line.append(f"  {_dimensions(facts['shape'])}{limits}, ").append_text(cell(facts["type"]))
    console.print(line.append_text(cell(f", fill {facts['fill']}")), soft_wrap=True)
    share = facts["n_defined"] / facts["n_elements"] if facts["n_elements"] else 0
    console.print(f"{plural(facts['n_defined'], 'element')} of {facts['n_elements']:,} defined ({share:.2%})")
    version = "" if facts["chunk_map_version"] is None else f", version {facts['chunk_map_version']}"
    chunks = f"{facts['n_chunks']:,} of {plural(facts['n_places'], 'chunk')} of {_dimensions(facts['chunk'])} stored"
    console.print(f"{chunks}; {facts['chunk_map']}{version}; dialect {facts['dialect']}", soft_wrap=True)
    grid = new_grid(
        "section", "holds", "stored", "unfiltered", "ratio", "filters", right=("stored", "unfiltered", "ratio")
    )
    for section in facts["sections"]:
        ratio = "" if section["ratio"] is None else f"{section['ratio']:.1f}:1"
        sizes = (size_text(section["stored"]), size_text(section["unfiltered"]))
        grid.add_row(str(section["number"]), section["name"], *sizes, ratio, cell(section["filters"]))
    console.print(grid)
    stored = sum(section["stored"] for section in facts["sections"])
    console.print(f"{size_text(stored)} in all, {size_text(facts['dense_bytes'])} if it were dense", style="dim")


# -- dump and defined --


def dump_cells(file: str, name: str | None, box: str | None, as_json: bool) -> int:
    with _only(file, name) as array:
        wanted = parse_box_text(box)
        if as_json:
            return stream_json({"path": array.name, "shape": list(array.shape)}, {"cells": _json_cells(array, wanted)})
        for coords, values in array.iter_cells(wanted):
            for first, _, part in _runs(coords):
                _show_run(first, _plain(values[part]))
    return FINE


def print_defined(file: str, name: str | None, box: str | None, as_json: bool) -> int:
    """Print the defined elements chunk by chunk, as the tools RFC proposes: POINT (a) and BLOCK (a)-(b), runs along the
    last dimension."""
    with _only(file, name) as array:
        parts = array.iter_defined(parse_box_text(box))
        if as_json:
            blocks = ([[first, last] for first, last, _ in _runs(coords)] for coords in parts)
            return stream_json({"path": array.name, "shape": list(array.shape)}, {"blocks": blocks})
        for coords in parts:
            for first, last, _ in _runs(coords):
                click.echo(f"POINT {_place(first)}" if first == last else f"BLOCK {_place(first)}-{_place(last)}")
    return FINE


def _json_cells(array: SparseArray, box: BoxKey) -> Iterator[list[object]]:
    for coords, values in array.iter_cells(box):
        yield [
            {"at": at, "value": plain_value(value)} for at, value in zip(coords.tolist(), _plain(values), strict=True)
        ]


def _plain(values: np.ndarray) -> list[object]:
    if values.dtype.names:
        names = values.dtype.names
        return [dict(zip(names, row.tolist(), strict=True)) for row in values]
    return [_python(value) for value in values]


def _runs(coords: Coordinates) -> Iterator[Run]:
    """Elements that are adjacent along the last dimension: first and last coordinates, and which elements they are."""
    step = np.diff(coords, axis=0)
    cuts = (np.flatnonzero((step[:, :-1] != 0).any(axis=1) | (step[:, -1] != 1)) + 1).tolist()
    for start, stop in pairwise([0, *cuts, len(coords)]):
        yield coords[start].tolist(), coords[stop - 1].tolist(), slice(start, stop)


def _show_run(first: list[int], values: list[object]) -> None:
    for at in range(0, len(values), _MOST_VALUES):
        coordinates = [*first[:-1], first[-1] + at]
        click.echo(f"{_place(coordinates)}: {', '.join(_shown(value) for value in values[at : at + _MOST_VALUES])}")


def _place(coords: Sequence[int]) -> str:
    return f"({','.join(str(number) for number in coords)})"


def _shown(value: object) -> str:
    return printable(str(plain_value(value)))


# -- convert --


def convert_matrix(
    source: str, target: str, name: str | None, new_name: str | None, kind: str | None, chunks: str | None,
    filters: str | None, as_json: bool,
) -> int:  # fmt: skip
    sizes = [part.strip() for part in chunks.lower().split("x")] if chunks is not None else None
    if sizes is not None and not all(part.isdigit() for part in sizes):
        raise UsageError(f"{chunks!r} is not a chunk shape: write it as 256x1024")
    chunk = None if sizes is None else [int(part) for part in sizes]
    with waiting("converting"):
        done = convert(source, target, name=name, new_name=new_name, format=kind, chunks=chunk, filters=filters)
    if as_json:
        print_json({**asdict(done), "shape": list(done.shape)})
    else:
        console = open_console()
        text = (
            f"{_dimensions(done.shape)}, {plural(done.n_cells, 'element')}, written as {done.format} to {done.target}"
        )
        console.print(cell(text), soft_wrap=True)
    return FINE


# -- verify --


def print_verified(file: str, name: str | None, as_json: bool) -> int:
    names = _names(file, name)
    with waiting("verifying"):
        by_array = {path: verify_sparse(file, path) for path in names}
    findings = [finding for of_array in by_array.values() for finding in of_array]
    if as_json:
        listed = [{"rule": f.rule, "severity": f.severity, "path": f.path, "message": f.message} for f in findings]
        print_json({"file": {"name": file}, "arrays": names, "findings": listed})
    else:
        console = open_console()
        for path, of_array in by_array.items():
            if not of_array:
                console.print(cell(f"OK     {path}"), soft_wrap=True)
            for finding in of_array:
                word = "WRONG" if finding.severity == "error" else "NOTE "
                console.print(cell(f"{word}  {path}: {finding.message} ({finding.rule})", "red"), soft_wrap=True)
    return FINDINGS if any(finding.severity == "error" for finding in findings) else FINE
