"""Runs the cases of this folder (README.txt says how they read), and counts the chunks that are located to be read.

Every read of rows asks a chunk map for its chunks, or reads a box of elements as they are stored. Both are watched,
so what is counted is what was read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.filters.read_plan import Located
from colonnade.format.chunk_maps import StoredChunkMap
from colonnade.format.nodes import ByteDataset

FOLDER = Path(__file__).parent
LINE = re.compile(r"(?P<word>\w+)\s*(?P<rest>.*)")
COLUMN = re.compile(r"(?P<name>\w+) = (?P<formula>[^;]+); (?P<type>[\w\[\]]+), chunks of (?P<chunk>[\d,]+)(?P<more>.*)")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
SPECIAL: dict[str, dict[str, Any]] = {
    "fixed_text": {"strings": "fixed"},
    "variable_text": {"strings": "variable"},
    "category": {"categories": True},
    "enum": {"categories": True, "enum": True},
}


@dataclass
class Case:
    """One case, as its lines say it."""

    title: str
    n_rows: int = 0
    columns: dict[str, pa.Array] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    indexes: dict[str, list[str]] = field(default_factory=dict)
    select: list[str] | None = None
    limit: int | None = None
    where: str = ""
    find: str = ""
    read: dict[str, str] = field(default_factory=dict)
    known: str = ""


# -- reading the files --


def without_commas(text: str) -> str:
    """1,234 as 1234."""
    return THOUSANDS.sub("", text)


def parse_file(path: Path) -> Iterator[Case]:
    case = None
    for line in path.read_text().splitlines():
        match = LINE.fullmatch(without_commas(line.strip()))
        if match is None:
            continue
        if match["word"] == "case":
            if case is not None:
                yield case
            case = Case(match["rest"])
        else:
            assert case is not None, f"{path.name}: {line!r} stands before the first case"
            parse_line(case, match["word"], match["rest"])
    if case is not None:
        yield case


def parse_line(case: Case, word: str, rest: str) -> None:
    """Take one line of a case."""
    if word == "rows":
        case.n_rows = int(rest)
    elif word == "column":
        parse_column(case, rest)
    elif word == "index":
        name, kinds = rest.split(": ")
        case.indexes[name] = [] if kinds == "none" else kinds.split(", ")
    elif word in ("select", "count", "first"):
        parse_question(case, word, rest)
    elif word in ("find", "known"):
        setattr(case, word, rest)
    elif word == "read":
        name, chunks = rest.split(": ")
        case.read[name] = chunks
    else:
        raise AssertionError(f"{case.title}: a line begins with {word!r}")


def parse_question(case: Case, word: str, rest: str) -> None:
    said, case.where = ("", rest.removeprefix("where ")) if word == "count" else rest.split(" where ", 1)
    if word == "first":
        number, said = said.split(" of ", 1)
        case.limit = int(number)
    case.select = None if word == "count" else said.split(", ")


def parse_column(case: Case, rest: str) -> None:
    match = COLUMN.fullmatch(rest)
    assert match is not None, f"{case.title}: cannot read the column {rest!r}"
    row = np.arange(case.n_rows)
    known = {
        "row": row,
        "shuffled": np.random.default_rng(1).permutation(case.n_rows),
        "pick": lambda *words: [words[number % len(words)] for number in range(case.n_rows)],
        "text": lambda pattern, numbers: [pattern.format(number) for number in numbers],
        "where": np.where,
        "nan": math.nan,
    }
    words = re.search(r"pick\((.*)\)", match["formula"])
    if words is not None:
        known |= {word: word for word in words[1].split(", ")}
    values = eval(match["formula"], {"__builtins__": {}}, known)
    missing = re.search(r"missing where ([^;]+)", match["more"])
    mask = None if missing is None else eval(missing[1], {"__builtins__": {}}, known)
    case.columns[match["name"]] = as_array(values, match["type"], mask)
    options: dict[str, Any] = {"chunk_rows": int(match["chunk"]), **SPECIAL.get(match["type"], {})}
    if "no fill" in match["more"]:
        options["fill"] = None
    case.options[match["name"]] = cn.column(**options)


def as_array(values: Any, kind: str, mask: Any) -> pa.Array:
    if kind in SPECIAL:
        return pa.array(values, pa.string(), mask=mask)
    if kind.startswith("timestamp"):
        return pa.array(values, pa.int64(), mask=mask).cast(pa.timestamp(kind[10:-1]))
    wanted = pa.bool_() if kind == "bool" else getattr(pa, kind)()
    return pa.array(values, mask=mask).cast(wanted)


def numbers(text: str) -> list[int]:
    """0, 3 to 5 as 0, 3, 4, 5."""
    found: list[int] = []
    for part in text.split(", "):
        first, _, last = part.partition(" to ")
        found.extend(range(int(first), int(last or first) + 1))
    return found


# -- watching what is read --


class Watch:
    """The rows of datasets that were read, by the address of the dataset."""

    def __init__(self) -> None:
        self.ranges: dict[int, list[tuple[int, int]]] = {}

    def note(self, dataset: ByteDataset, first: int, last: int) -> None:
        self.ranges.setdefault(dataset.address, []).append((first, last))

    def chunks(self, file: cn.File, name: str, chunk_rows: int) -> set[int]:
        """The chunks of a column of which an element was read."""
        dataset = file._handle.root.open_dataset(f"/t/{name}")
        ranges = self.ranges.get(dataset.address or 0, []) if dataset is not None else []
        return {chunk for first, last in ranges for chunk in range(first // chunk_rows, last // chunk_rows + 1)}


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    noted = Watch()
    read_before, located_before = ByteDataset.read_stored, StoredChunkMap.located

    def read_stored(dataset: ByteDataset, box: Sequence[range]) -> Any:
        if box and box[0]:
            noted.note(dataset, box[0].start, box[0].stop - 1)
        return read_before(dataset, box)

    def located(chunk_map: StoredChunkMap, numbers: Any, n_wanted: int) -> Located:
        chunk_rows = chunk_map._form.chunk_rows
        for number in numbers:
            noted.note(chunk_map._node, int(number) * chunk_rows, (int(number) + 1) * chunk_rows - 1)
        return located_before(chunk_map, numbers, n_wanted)

    monkeypatch.setattr(ByteDataset, "read_stored", read_stored)
    monkeypatch.setattr(StoredChunkMap, "located", located)
    return noted


# -- running them --

CASES = {
    f"{path.stem}: {case.title}": case
    for path in sorted(FOLDER.glob("*.txt"))
    if path.name != "README.txt"
    for case in parse_file(path)
}


def make(case: Case, path: Path) -> None:
    indexes = {name: kinds for name, kinds in case.indexes.items() if kinds}
    cn.write(path, pa.table(case.columns), "t", columns=case.options, index=indexes)


def question(case: Case, table: Any) -> Any:
    query = table.where(case.where)
    if case.limit is not None:
        query = query.head(case.limit)
    return query.select(*(case.select or ()))


def check_found(case: Case, query: Any) -> None:
    """The answer is what the case says, and what is found without any index."""
    found = query.row_numbers().tolist()
    if case.find.startswith("rows"):
        assert found == numbers(case.find.removeprefix("rows "))
    else:
        assert len(found) == (0 if case.find == "no rows" else int(case.find.split()[0]))


def check_read(said: str, chunks: set[int], n_chunks: int, name: str) -> None:
    """The chunks that were read are those that the case says."""
    said = said.removesuffix(" by probes")
    if said.startswith("at most"):
        assert len(chunks) <= int(said.split()[2]), f"of {name} were read: {sorted(chunks)}"
    else:
        wanted = {"no chunk": [], "every chunk": list(range(n_chunks))}.get(said)
        assert sorted(chunks) == (numbers(said.removeprefix("chunks ")) if wanted is None else wanted), name


def marked(name: str, case: Case) -> Any:
    """The case; one that a known bug breaks must break."""
    return pytest.param(case, id=name, marks=pytest.mark.xfail(strict=True, reason=case.known) if case.known else ())


@pytest.mark.parametrize("case", [marked(name, case) for name, case in CASES.items()])
def test_case(case: Case, tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer, the chunks read for it, and what explain() says of them."""
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "t.h5"
    make(case, path)
    with cn.open(path) as file:
        query = question(case, file["t"])
        watch.ranges.clear()
        answer = query.count() if case.select is None else query.to_arrow().num_rows
        read = {name: watch.chunks(file, name, options.chunk_rows) for name, options in case.options.items()}
        check_found(case, query)
        assert answer == query.count()
        for name, options in case.options.items():
            n_chunks = -(-case.n_rows // options.chunk_rows)
            check_read(case.read.get(name, "no chunk"), read[name], n_chunks, name)
        check_explained(case, query, read)
    with cn.open(path, trust="never") as file:
        check_found(case, question(case, file["t"]))


def check_explained(case: Case, query: Any, read: dict[str, set[int]]) -> None:
    """explain() promises at least what was read; exactly that where the indexes left nothing to be tested."""
    plan = query.explain()
    found = set(query.row_numbers().tolist())
    assert found <= set(plan.found.may.rows().tolist())
    assert case.limit is not None or set(plan.found.sure.rows().tolist()) <= found
    told = {column.column: column for column in plan.columns}
    for name, chunks in read.items():
        said = case.read.get(name, "no chunk")
        if said.endswith("by probes"):
            continue
        promised = told[name].chunks_read if name in told else 0
        words = f"explain() says {promised} chunks of {name}, read were {sorted(chunks)}"
        assert promised >= len(chunks), words
        if case.select is not None and case.limit is None and not plan.rows_to_test:
            assert promised == len(chunks), words
        if name in told:
            assert told[name].chunks_total == -(-case.n_rows // case.options[name].chunk_rows)


def test_there_are_cases() -> None:
    """The files were found, and each case asks something and says what it expects."""
    assert len(CASES) > 30
    assert all(case.where and case.find and case.columns and case.read for case in CASES.values())
    assert all(set(case.read) <= set(case.columns) for case in CASES.values())
