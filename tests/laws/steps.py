"""Changes drawn at random: each with what it does to a file, and what it does to tables in memory.

A step knows which values it gives to which rows, so that a refusal can be held against them (`refusals.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import colonnade as cn
from tests.laws.in_memory import COLUMN_TEXTS, TABLE_TEXTS, Column, Table, Tables, units_of_type
from tests.laws.strategies import make_array, types, values
from tests.laws.test_round_trip import own_dictionary, plain

PATHS = ("t", "größe", "deep", "deep/er")
NAMES = ("a", "b", "c", "c_categories", "ä x", "Z")
MARK = "mark of others"
MOST_ROWS = 400
MOST_MEMBERS = 5
MANY = 150
TEXT_KINDS = (pa.string(), pa.dictionary(pa.int32(), pa.string()))
COMMON = (
    *TEXT_KINDS,
    pa.dictionary(pa.int32(), pa.string(), ordered=True),
    pa.bool_(),
    pa.int8(),
    pa.int64(),
    pa.float64(),
    pa.timestamp("us"),
)
SEARCHED = (pa.string(), pa.int8(), pa.int64(), pa.timestamp("us"))
UNITS = ("m", "µm", "seconds", "seconds since 1970-01-01", "days since 1970-01-01")
WORDS = st.sampled_from((None, "", "D", "Größe", "two\nlines"))
OF_COLUMNS = {"units": st.sampled_from((None, *UNITS)), "units_vocabulary": WORDS, "description": WORDS}
OPTIONS = {
    "chunk_rows": st.sampled_from((None, 1, 3)),
    "filters": st.sampled_from((None, "none", "shuffle+deflate")),
}


class Step:
    """One change: what it is called, what it does to a file, and the tables in memory when it is done.

    `given` are the values for columns of `table`, and `rows` the rows of the table that they are for.
    It is no dataclass, of which hypothesis would show every field instead of these words.
    """

    def __init__(
        self,
        words: str,
        do: Callable[[cn.File], object],
        after: Tables,
        table: str,
        given: Mapping[str, pa.Array] | None = None,
        rows: Sequence[int] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.words = words
        self.do = do
        self.after = after
        self.table = table
        self.given = given or {}
        self.rows = rows
        self.options = options or {}

    def __repr__(self) -> str:
        shown = {name: (str(array.type), plain(pa.chunked_array([array]))[:8]) for name, array in self.given.items()}
        return f"{self.table}: {self.words} {shown or ''} {self.options or ''}".rstrip()


KINDS = st.one_of(st.sampled_from(COMMON), types())


@st.composite
def arrays(draw: st.DrawFn, kind: pa.DataType, n_rows: int, known: Sequence[Any] = ()) -> pa.Array:
    """So many rows of a type: a few values again and again, some of them `known` ones; or many, all different."""
    if n_rows >= MANY and kind in TEXT_KINDS:
        word = draw(st.sampled_from(("x", "a longer word ")))
        return make_array([f"{word}{number}" for number in range(n_rows)], kind)
    usual = st.one_of(st.sampled_from(known), values(kind)) if known else values(kind)
    if known and pa.types.is_dictionary(kind) and kind.ordered and draw(st.booleans()):
        usual = st.sampled_from(known)  # others are refused
    cell = st.one_of(usual, usual, st.none()) if draw(st.booleans()) else usual
    some = draw(st.lists(cell, min_size=1, max_size=min(max(n_rows, 1), 4)))
    return make_array([some[number % len(some)] for number in range(n_rows)], kind)


def more_of(column: Column, n_rows: int) -> st.SearchStrategy[pa.Array]:
    """Rows for a column that is there: values it has, other ones, missing ones."""
    return arrays(column.kind, n_rows, tuple(value for value in column.plain[:8] if value is not None))


@st.composite
def column_options(draw: st.DrawFn, kind: pa.DataType) -> dict[str, Any]:
    """How a new column is stored, and what is said about it."""
    chosen = OF_COLUMNS | OPTIONS
    if units_of_type(kind) is not None:
        del chosen["units"]  # they come with the type
    if kind == pa.string():
        chosen["strings"] = st.sampled_from(("auto", "fixed", "variable"))
    if kind == pa.dictionary(pa.int32(), pa.string()):
        chosen["enum"] = st.booleans()
    options = {name: draw(option) for name, option in chosen.items() if draw(st.booleans())}
    return {name: option for name, option in options.items() if option is not None}


def texts_of(options: Mapping[str, Any]) -> dict[str, str | None]:
    """What the options say about a column."""
    return {key: options.get(key) for key in COLUMN_TEXTS}


FORMS = ("table", "dict", "batches", "dicts")


@st.composite
def handed_over(draw: st.DrawFn, given: Mapping[str, pa.Array], n_rows: int) -> tuple[str, Callable[[], Any]]:
    """The rows as one table or in batches, made anew each time; and how, in words."""
    form = draw(st.sampled_from(FORMS))
    batch_rows = draw(st.integers(1, max(n_rows, 1)))

    def part(start: int, rows: int) -> dict[str, pa.Array]:
        return {name: own_dictionary(given[name].slice(start, rows)) for name in given}

    def batches() -> Iterator[Any]:
        for start in range(0, max(n_rows, 1), batch_rows):
            cut = part(start, batch_rows)
            yield cut if form == "dicts" else pa.record_batch(list(cut.values()), names=list(cut))

    def whole() -> Any:
        return part(0, n_rows) if form == "dict" else pa.table(part(0, n_rows))

    in_batches = form in ("batches", "dicts")
    return (f"{form} of {batch_rows}" if in_batches else form), (batches if in_batches else whole)


def numbers_of_rows(most: int) -> st.SearchStrategy[int]:
    """A few rows, seldom none or many."""
    few = st.sampled_from((1, 2, 3, 5, 0))
    return few if most < MANY else st.sampled_from((1, 2, 3, 5, 2, 3, 5, 0, 4, MANY))


def places_for_a_table(tables: Tables) -> list[str]:
    """Paths at which a table may be made: not inside a table, not above one."""
    return [
        path
        for path in PATHS
        if not any(path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in tables)
    ]


@st.composite
def creations(draw: st.DrawFn, tables: Tables) -> Step:
    """A new table, or one in the place of a table that is there."""
    path = draw(st.sampled_from(places_for_a_table(tables)))
    mode: Any = draw(st.sampled_from(("replace", "error"))) if path not in tables else "replace"
    fewest = draw(st.sampled_from((1, 1, 1, 0)))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=fewest, max_size=4, unique=True))
    n_rows = draw(numbers_of_rows(MANY)) if names else 0
    given = {name: draw(arrays(draw(KINDS), n_rows)) for name in names}
    options = {name: draw(column_options(array.type)) for name, array in given.items()}
    labels = names[: draw(st.integers(0, 1))]
    texts: dict[str, Any] = {key: draw(WORDS) for key in TABLE_TEXTS}
    apart = 0 < len(labels) < len(names) and draw(st.booleans())
    form, data = draw(handed_over({n: a for n, a in given.items() if not (apart and n in labels)}, n_rows))

    def do(file: cn.File) -> None:
        named = {name: given[name] for name in labels} if apart else labels
        file.create(path, data(), mode=mode, columns=options, labels=named, **texts)

    held = {name: Column.of(given[name], texts_of(options[name])) for name in names}
    made = Table({n: c for n, c in held.items() if n not in labels}, {name: held[name] for name in labels}, texts)
    words = f"create ({mode}) from a {form}, labels {labels}, texts {texts}"
    return Step(words, do, {**tables, path: made}, path, given, range(n_rows), options)


@st.composite
def drops(draw: st.DrawFn, tables: Tables) -> Step:
    """A table removed."""
    path = draw(st.sampled_from(sorted(tables)))
    return Step("drop", lambda file: file.drop(path), {p: t for p, t in tables.items() if p != path}, path)


@st.composite
def appends(draw: st.DrawFn, tables: Tables) -> Step:
    """Rows added: in any form, the columns in any order, categories also as plain values."""
    path = draw(st.sampled_from(sorted(tables)))
    table = tables[path]
    n_rows = draw(numbers_of_rows(MOST_ROWS - table.n_rows)) if table.members else 0
    given = {name: draw(more_of(column, n_rows)) for name, column in table.members.items()}
    shown = {name: draw(as_it_may_come(given[name])) for name in draw(st.permutations(list(given)))}
    form, data = draw(handed_over(shown, n_rows))

    def do(file: cn.File) -> None:
        assert file[path].append(data()) == n_rows

    after = table.appended(given)
    rows = range(table.n_rows, table.n_rows + n_rows)
    return Step(f"append a {form}", do, {**tables, path: after}, path, given, rows)


@st.composite
def as_it_may_come(draw: st.DrawFn, array: pa.Array) -> pa.Array:
    """The same values in another type that may stand for it: categories as values, nothing but missing as null."""
    if pa.types.is_dictionary(array.type) and draw(st.booleans()):
        array = array.dictionary_decode()
    if array.null_count == len(array) and draw(st.booleans()):
        return pa.nulls(len(array))
    return array


def with_members(tables: Tables) -> list[str]:
    """The tables that have a column or label."""
    return sorted(path for path, table in tables.items() if table.members)


def with_room(tables: Tables) -> list[str]:
    """The tables that may have one more column."""
    return sorted(path for path, table in tables.items() if len(table.members) < MOST_MEMBERS)


def with_rows(tables: Tables) -> list[str]:
    """The tables that have rows."""
    return sorted(path for path, table in tables.items() if table.n_rows)


@st.composite
def updates(draw: st.DrawFn, tables: Tables) -> Step:
    """Cells of one column changed, the rows in any order, counted from either end."""
    path = draw(st.sampled_from(with_rows(tables)))
    table = tables[path]
    name = draw(st.sampled_from(list(table.members)))
    rows = draw(st.lists(st.integers(0, table.n_rows - 1), max_size=5, unique=True))
    if draw(st.booleans()):
        rows = list(range(min(rows, default=0), table.n_rows))
    array = draw(more_of(table.members[name], len(rows)))
    given = draw(as_it_may_come(array))
    asked = [row - table.n_rows if draw(st.booleans()) else row for row in rows[:5]] + rows[5:]

    def do(file: cn.File) -> None:
        file[path].update(name, asked, given)

    after = table.updated(name, rows, array)
    return Step(f"update {name!r} rows {asked[:8]}", do, {**tables, path: after}, path, {name: array}, rows)


@st.composite
def truncations(draw: st.DrawFn, tables: Tables) -> Step:
    """The last rows cut off."""
    path = draw(st.sampled_from(sorted(tables)))
    n_rows = draw(st.integers(0, tables[path].n_rows))
    after = tables[path].truncated(n_rows)
    return Step(f"truncate to {n_rows}", lambda file: file[path].truncate(n_rows), {**tables, path: after}, path)


@st.composite
def deletions(draw: st.DrawFn, tables: Tables) -> Step:
    """Rows removed by number: in any order, some twice, counted from either end, scattered or a run; or none."""
    path = draw(st.sampled_from(with_rows(tables)))
    table = tables[path]
    row = st.integers(0, table.n_rows - 1)
    first, rows = draw(row), draw(st.lists(row, max_size=5))
    if draw(st.booleans()):
        rows = list(range(first, draw(st.integers(first, table.n_rows)), draw(st.sampled_from((1, 1, 2, 3)))))
    asked = [row - table.n_rows if draw(st.booleans()) else row for row in rows[:5]] + rows[5:]

    def do(file: cn.File) -> None:
        assert file[path].delete(asked) == len(set(rows))

    return Step(f"delete rows {asked[:8]}", do, {**tables, path: table.without(set(rows))}, path)


def keyed_columns(tables: Tables) -> list[tuple[str, str]]:
    """The columns that rows may be found by."""
    return [(path, name) for path, name in searched_columns(tables) if tables[path].n_rows]


@st.composite
def upserts(draw: st.DrawFn, tables: Tables) -> Step:
    """Rows whose keys the table has once, and rows with other keys, in any order."""
    path, key = draw(st.sampled_from(keyed_columns(tables)))
    table, column = tables[path], tables[path].members[key]
    once = [row for row, value in enumerate(column.plain) if value is not None and column.plain.count(value) == 1]
    known = draw(st.lists(st.sampled_from(once), max_size=4, unique=True)) if once else []
    other = draw(st.lists(values(column.kind), max_size=3, unique=True))
    new = make_array(other, column.kind)
    new = new.take(
        pa.array(
            [row for row, value in enumerate(plain(pa.chunked_array([new]))) if value not in column.plain], pa.int64()
        )
    )
    n_rows, n_known = len(known) + len(new), len(known)
    order = draw(st.permutations(range(n_rows)))
    keys = pa.concat_arrays([column.values.take(pa.array(known, pa.int64())), new]).take(pa.array(order, pa.int64()))
    given = {name: keys if name == key else draw(more_of(c, n_rows)) for name, c in table.members.items()}
    is_known = [place < n_known for place in order]
    at = itertools.count(table.n_rows)
    rows = [known[place] if place < n_known else next(at) for place in order]

    def do(file: cn.File) -> None:
        asked = {name: own_dictionary(array) for name, array in given.items()}
        assert file[path].upsert(asked, key) == (n_known, len(new))

    after = table
    for name, array in given.items():
        after = after.updated(
            name, [row for row in rows if row < table.n_rows], array.filter(pa.array(is_known, pa.bool_()))
        )
    after = after.appended(
        {n: array.filter(pa.array([not one for one in is_known], pa.bool_())) for n, array in given.items()}
    )
    return Step(f"upsert by {key!r}: rows {known}", do, {**tables, path: after}, path, given, rows)


@st.composite
def additions(draw: st.DrawFn, tables: Tables) -> Step:
    """A column added; the first one of a table decides its length."""
    path = draw(st.sampled_from(with_room(tables)))
    table = tables[path]
    name = draw(st.sampled_from([name for name in NAMES if name not in table.members]))
    n_rows = table.n_rows if table.members else draw(numbers_of_rows(0))
    array = draw(arrays(draw(KINDS), n_rows))
    options = draw(column_options(array.type))
    after = table.added(name, Column.of(array, texts_of(options)))

    def do(file: cn.File) -> None:
        file[path].add_column(name, array, **options)

    words = f"add column {name!r}"
    return Step(words, do, {**tables, path: after}, path, {name: array}, range(n_rows), {name: options})


@st.composite
def removals(draw: st.DrawFn, tables: Tables) -> Step:
    """A column or label dropped, also the last one."""
    path = draw(st.sampled_from(with_members(tables)))
    name = draw(st.sampled_from(list(tables[path].members)))
    after = tables[path].dropped(name)
    return Step(f"drop column {name!r}", lambda file: file[path].drop_column(name), {**tables, path: after}, path)


@st.composite
def renamings(draw: st.DrawFn, tables: Tables) -> Step:
    """A column or label under another name, or its own again."""
    path = draw(st.sampled_from(with_members(tables)))
    table = tables[path]
    name = draw(st.sampled_from(list(table.members)))
    new_name = draw(st.sampled_from([new for new in NAMES if new == name or new not in table.members]))

    def do(file: cn.File) -> None:
        file[path].rename_column(name, new_name)

    after = table.renamed(name, new_name)
    return Step(f"rename {name!r} to {new_name!r}", do, {**tables, path: after}, path, {new_name: pa.nulls(0)})


@st.composite
def reorderings(draw: st.DrawFn, tables: Tables) -> Step:
    """The columns in another order, or in their own."""
    path = draw(st.sampled_from(with_members(tables)))
    names = draw(st.permutations(list(tables[path].columns)))
    after = {**tables, path: tables[path].reordered(names)}
    return Step(f"columns = {names}", lambda file: setattr(file[path], "columns", names), after, path)


@st.composite
def labellings(draw: st.DrawFn, tables: Tables) -> Step:
    """Another label, or none. One column stays: the standard keeps the order of labels in the columns."""
    path = draw(st.sampled_from(with_members(tables)))
    names = draw(st.permutations(list(tables[path].members)))[: draw(st.integers(0, 1))]
    names = names[: len(tables[path].members) - 1]
    after = {**tables, path: tables[path].labelled(names)}
    return Step(f"set labels {names}", lambda file: file[path].set_labels(names), after, path)


@st.composite
def replacements(draw: st.DrawFn, tables: Tables) -> Step:
    """Other values, mostly of another type, in the place of a column or label; alone it may have another length."""
    path = draw(st.sampled_from(with_members(tables)))
    table = tables[path]
    name = draw(st.sampled_from(list(table.members)))
    before = table.members[name]
    n_rows = table.n_rows if len(table.members) > 1 else draw(numbers_of_rows(0))
    array = draw(more_of(before, n_rows) if draw(st.booleans()) else arrays(draw(KINDS), n_rows))
    options = draw(column_options(array.type))
    after = table.with_column(name, before.replaced(array, texts_of(options)))

    def do(file: cn.File) -> None:
        file[path].replace_column(name, array, **options)

    words = f"replace column {name!r}"
    return Step(words, do, {**tables, path: after}, path, {name: array}, range(n_rows), {name: options})


@st.composite
def table_texts(draw: st.DrawFn, tables: Tables) -> Step:
    """The title or the description of a table set or removed."""
    path = draw(st.sampled_from(sorted(tables)))
    key, text = draw(st.sampled_from(TABLE_TEXTS)), draw(WORDS)
    after = tables[path].with_text(key, text)
    return Step(f"{key} = {text!r}", lambda file: setattr(file[path], key, text), {**tables, path: after}, path)


@st.composite
def column_texts(draw: st.DrawFn, tables: Tables) -> Step:
    """The units, their vocabulary or the description of a column set or removed."""
    path = draw(st.sampled_from(with_members(tables)))
    name = draw(st.sampled_from(list(tables[path].members)))
    column = tables[path].members[name]
    keys = [key for key in COLUMN_TEXTS if key != "units" or units_of_type(column.kind) is None]
    key = draw(st.sampled_from(keys))
    text = draw(OF_COLUMNS[key])
    after = tables[path].with_column(name, column.with_text(key, text))

    def do(file: cn.File) -> None:
        setattr(file[path][name], key, text)

    return Step(f"{name!r}.{key} = {text!r}", do, {**tables, path: after}, path)


@st.composite
def marks_of_others(draw: st.DrawFn, tables: Tables) -> Step:
    """An attribute that another program puts on a column: it stays with the column, whatever is done to it."""
    path = draw(st.sampled_from(with_members(tables)))
    name = draw(st.sampled_from(list(tables[path].members)))
    mark = draw(st.integers(0, 9))
    after = tables[path].with_column(name, replace(tables[path].members[name], mark=mark))

    def do(file: cn.File) -> None:
        with file._change():
            file.h5[path][name].attrs[MARK] = mark

    return Step(f"attribute of {name!r}: {mark}", do, {**tables, path: after}, path)


@st.composite
def indexings(draw: st.DrawFn, tables: Tables) -> Step:
    """A search index built: it must stay right, or go, whatever is done to the rows later."""
    path, name = draw(st.sampled_from(searched_columns(tables)))
    kind = draw(st.sampled_from(("chunk_minmax", "sorted_rows", "bitmap", "chunk_bloom")))
    return Step(f"index {kind} of {name!r}", lambda file: file[path].build_index(name, kind), tables, path)


def searched_columns(tables: Tables) -> list[tuple[str, str]]:
    """Tables and columns of types that every kind of index takes."""
    return [(path, name) for path in sorted(tables) for name, c in tables[path].members.items() if c.kind in SEARCHED]


@st.composite
def any_steps(draw: st.DrawFn, tables: Tables) -> Step:
    """One of all the changes that these tables allow."""
    possible: list[Callable[[Tables], st.SearchStrategy[Step]]] = [creations]
    if tables:
        possible += [appends, appends, drops, truncations, table_texts]
    if with_room(tables):
        possible += [additions]
    if with_members(tables):
        possible += [removals, renamings, reorderings, labellings, replacements, column_texts, marks_of_others]
    if with_rows(tables):
        possible += [updates, updates, deletions]
    if keyed_columns(tables):
        possible += [upserts]
    if searched_columns(tables):
        possible += [indexings]
    return draw(draw(st.sampled_from(possible))(tables))
