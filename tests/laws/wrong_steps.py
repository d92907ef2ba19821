"""Changes that must be refused, and leave everything as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import ColumnNotFound, ConflictError, DataError, TableNotFound, UsageError
from tests.laws.in_memory import Table, Tables, units_of_type
from tests.laws.steps import more_of, with_members, with_rows

FAMILIES = (pa.array([True]), pa.array([7]), pa.array(["7"]), pa.array([b"7"]), pa.array([7], pa.timestamp("s")))


class BrokenSource(Exception):
    """Raised by rows that come from elsewhere."""


class WrongStep:
    """A change that must be refused: what it is, what it would do, and the error it must raise."""

    def __init__(self, words: str, do: Callable[[cn.File], object], error: type[Exception]) -> None:
        self.words = words
        self.do = do
        self.error = error

    def __repr__(self) -> str:
        return f"{self.words}: {self.error.__name__}"


def _of_files(draw: st.DrawFn, tables: Tables) -> list[WrongStep]:
    """Tables where none can be, and tables that are not there."""
    rows = {"x": [1, 2]}
    wrong = [
        WrongStep("create where an array is", lambda file: file.create("cube", rows), UsageError),
        WrongStep("create below an array", lambda file: file.create("beside/array/t", rows), UsageError),
        WrongStep("create in a group of others", lambda file: file.create("beside", rows, mode="replace"), UsageError),
        WrongStep("create the root", lambda file: file.create("/", rows), UsageError),
        WrongStep("create with an odd label", lambda file: file.create("new", rows, labels=["y"]), ColumnNotFound),
        WrongStep("create ragged", lambda file: file.create("new", {"x": [1], "y": []}), DataError),
        WrongStep("create with a short label", lambda file: file.create("new", rows, labels={"y": [1]}), DataError),
        WrongStep("drop nothing", lambda file: file.drop("nothing"), TableNotFound),
        WrongStep("write beside the writer", lambda file: cn.open(file.name, "r+", timeout=0), ConflictError),
        WrongStep("drop an array", lambda file: file.drop("cube"), UsageError),
        WrongStep("a stream that breaks", lambda file: file.create("new", _breaking([rows, rows])), BrokenSource),
    ]
    if tables:
        path = draw(st.sampled_from(sorted(tables)))
        wrong += [
            WrongStep("create twice", lambda file: file.create(path, rows), UsageError),
            WrongStep("create inside a table", lambda file: file.create(f"{path}/in", rows), UsageError),
            WrongStep(
                "replace by a stream that breaks",
                lambda file: file.create(path, _breaking([rows]), mode="replace"),
                BrokenSource,
            ),
        ]
    return wrong


def _breaking(batches: list[Any]) -> Iterator[Any]:
    yield from batches
    raise BrokenSource


def _of_tables(draw: st.DrawFn, tables: Tables) -> list[WrongStep]:
    """Columns and rows that are not there, names that cannot be, lengths that differ."""
    path = draw(st.sampled_from(sorted(tables)))
    table = tables[path]
    beyond = table.n_rows + 1
    wrong = [
        WrongStep("truncate to more rows", lambda file: file[path].truncate(beyond), UsageError),
        WrongStep("truncate below nothing", lambda file: file[path].truncate(-1), UsageError),
        WrongStep("update no column", lambda file: file[path].update("nothing", [], []), ColumnNotFound),
        WrongStep("drop no column", lambda file: file[path].drop_column("nothing"), ColumnNotFound),
        WrongStep("rename no column", lambda file: file[path].rename_column("nothing", "new"), ColumnNotFound),
        WrongStep("replace no column", lambda file: file[path].replace_column("nothing", []), ColumnNotFound),
        WrongStep("change by a reader", lambda file: _by_a_reader(file, path), ConflictError),
        WrongStep("a title of no text", lambda file: setattr(file[path], "title", 5), UsageError),
        WrongStep("append an odd column", lambda file: file[path].append({"nothing": [1]}), DataError),
    ]
    name = draw(st.sampled_from(("", ".", "a/b", "_own", "_search_indexes", "nul\0")))
    numbers = list(range(table.n_rows))
    return [*wrong, WrongStep(f"add {name!r}", lambda file: file[path].add_column(name, numbers), DataError)]


def _by_a_reader(file: cn.File, path: str) -> None:
    with cn.open(file.name) as reader:
        reader.drop(path)


def _of_columns(draw: st.DrawFn, tables: Tables) -> list[WrongStep]:
    """Values of the wrong length or type, names that are taken."""
    path = draw(st.sampled_from(with_members(tables)))
    table = tables[path]
    name = draw(st.sampled_from(list(table.members)))
    other = draw(st.sampled_from(list(table.members)))
    longer = list(range(table.n_rows + 1))
    odd = _of_another_family(draw, table.members[name].kind)
    wrong = [
        WrongStep("add a longer column", lambda file: file[path].add_column("new", longer), DataError),
        WrongStep("add a column twice", lambda file: file[path].add_column(name, longer[1:]), UsageError),
        WrongStep("name with a slash", lambda file: file[path].rename_column(name, "a/b"), DataError),
        WrongStep("more values than rows", lambda file: file[path].update(name, [], odd), DataError),
        WrongStep("a row that is not there", lambda file: file[path].update(name, [-len(longer)], odd), UsageError),
        WrongStep("append nothing at all", lambda file: file[path].append(iter([])), UsageError),
        WrongStep("description of no text", lambda file: setattr(file[path][name], "description", b"x"), UsageError),
    ]
    if not _takes_any(table.members[name].kind):
        append = WrongStep("append the wrong type", lambda file: file[path].append(_with(table, name, odd)), DataError)
        wrong.append(append)
    if other != name:
        wrong += [
            WrongStep("rename to a taken name", lambda file: file[path].rename_column(name, other), UsageError),
            WrongStep("replace by longer", lambda file: file[path].replace_column(name, longer), DataError),
        ]
        lacking = {key: pa.nulls(1) for key in table.members if key != name}
        ragged = {**lacking, name: pa.nulls(2)}
        wrong += [
            WrongStep("append without a column", lambda file: file[path].append(lacking), DataError),
            WrongStep("append ragged", lambda file: file[path].append(ragged), DataError),
        ]
    if units_of_type(table.members[name].kind) is not None:
        wrong.append(WrongStep("units of a time", lambda file: setattr(file[path][name], "units", "m"), UsageError))
    return wrong


def _of_another_family(draw: st.DrawFn, kind: pa.DataType) -> pa.Array:
    """One value of a type that cannot stand for this one."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    number = pa.types.is_integer(plain) or pa.types.is_floating(plain) or pa.types.is_decimal(plain)
    fitting = {
        "bool": pa.types.is_boolean(plain),
        "int64": number,
        "string": pa.types.is_string(plain),
        "binary": plain == pa.binary(),
        "timestamp[s]": pa.types.is_temporal(plain),
    }
    return draw(st.sampled_from([array for array in FAMILIES if not fitting[str(array.type)]]))


def _with(table: Table, name: str, odd: pa.Array) -> dict[str, pa.Array]:
    """One row for each column, that of the named one of a wrong type."""
    return {key: odd if key == name else pa.nulls(1) for key in table.members}


def _of_rows(draw: st.DrawFn, tables: Tables) -> list[WrongStep]:
    """Cells named twice, values of the wrong type, a value too many."""
    path = draw(st.sampled_from(with_rows(tables)))
    table = tables[path]
    name = draw(st.sampled_from(list(table.members)))
    odd = _of_another_family(draw, table.members[name].kind)
    wrong = [
        WrongStep("a row twice", lambda file: file[path].update(name, [0, -table.n_rows], pa.nulls(2)), UsageError),
        WrongStep("no integer", lambda file: file[path].update(name, np.array([0.5]), pa.nulls(1)), UsageError),
    ]
    if not _takes_any(table.members[name].kind):
        wrong.append(WrongStep("wrong type", lambda file: file[path].update(name, [0], odd), DataError))
    return wrong


def _takes_any(kind: pa.DataType) -> bool:
    """Whether a column has no type yet: its first values give it theirs."""
    return pa.types.is_null(kind.value_type if pa.types.is_dictionary(kind) else kind)


@st.composite
def half_steps(draw: st.DrawFn, tables: Tables) -> WrongStep:
    """Rows of which the first are good, from a source that then breaks: some may be in the file by then."""
    path = draw(st.sampled_from(with_members(tables)))
    rows = {name: draw(more_of(column, 4)) for name, column in tables[path].members.items()}

    def do(file: cn.File) -> None:
        try:
            file[path].append(_breaking([rows, rows]))
        except DataError as error:  # they do not fit: as good a refusal
            raise BrokenSource from error

    return WrongStep(f"append to {path} a stream that breaks", do, BrokenSource)


@st.composite
def wrong_steps(draw: st.DrawFn, tables: Tables) -> WrongStep:
    """Any change that must be refused, of those that these tables allow."""
    groups = [_of_files]
    if tables:
        groups += [_of_tables]
    if with_members(tables):
        groups += [_of_columns]
        if draw(st.booleans()):
            return draw(half_steps(tables))
    if with_rows(tables):
        groups += [_of_rows]
    return draw(st.sampled_from(draw(st.sampled_from(groups))(draw, tables)))
