"""Any sequence of changes to a file equals the same changes to tables in memory.

Checked after every step: by the handle that made the change, by a reader that was open all the while, and by one
that opens the file anew. What others put into the file stays as it was. To add a change: a strategy in `steps.py`
and a line in `any_steps`; one that must be refused goes into `wrong_steps.py`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import colonnade as cn
from colonnade.model import ColumnInfo, TableInfo
from tests.laws import steps
from tests.laws.in_memory import COLUMN_TEXTS, TABLE_TEXTS, Table, Tables
from tests.laws.refusals import look_before, refused_rightly
from tests.laws.steps import MARK, Step
from tests.laws.test_round_trip import plain, same
from tests.laws.wrong_steps import wrong_steps

STEPS = 20
REFERRED = ("cube", "beside/array")


some_tables = precondition(lambda machine: bool(machine.tables))
some_columns = precondition(lambda machine: bool(steps.with_members(machine.tables)))
some_rows = precondition(lambda machine: bool(steps.with_rows(machine.tables)))
some_room = precondition(lambda machine: bool(steps.with_room(machine.tables)))


class Undone(Exception):
    """Raised inside a transaction to take it back."""


class Refused(Exception):
    """A change that was refused, and rightly so."""


def put_beside(path: Path) -> None:
    """A new file with what tables must leave alone: arrays, groups, attributes, links of every kind, references."""
    with h5py.File(path, "w") as file:
        file.attrs["root"] = "mine"
        file["cube"] = np.arange(8.0).reshape(2, 2, 2)
        file["cube"].attrs["made by"] = "someone else"
        file.create_dataset("beside/array", data=np.arange(300), chunks=(64,), compression="gzip")
        file["beside"].attrs["references"] = np.array([file[name].ref for name in REFERRED], h5py.ref_dtype)
        file["beside/texts"] = ["a", "variable length"]
        file["hard"] = file["cube"]
        file["soft"] = h5py.SoftLink("/beside/array")
        file["nowhere"] = h5py.ExternalLink("other.h5", "/x")


def beside(file: h5py.File) -> dict[str, object]:
    """All of it, as plain data."""
    return {
        "root": dict(file.attrs),
        "cube": file["cube"][...].tolist(),
        "by": dict(file["cube"].attrs),
        "beside": sorted(file["beside"]),
        "array": (file["beside/array"][...].tolist(), file["beside/array"].compression, file["beside/array"].chunks),
        "texts": file["beside/texts"][...].tolist(),
        "references": [
            file[one] == file[name] for one, name in zip(file["beside"].attrs["references"], REFERRED, strict=True)
        ],
        "hard": file["hard"] == file["cube"],
        "soft": file.get("soft", getlink=True).path,
        "nowhere": file.get("nowhere", getlink=True).filename,
    }


def assert_holds(file: cn.File, tables: Tables, held: dict[str, cn.Table] | None = None) -> None:
    """The file holds these tables and no others. `held` are tables taken out of it earlier: they must keep up."""
    assert sorted(file.tables()) == sorted(f"/{path}" for path in tables)
    held = {} if held is None else held
    for path, table in tables.items():
        if path not in held:
            held[path] = file[path]
        assert_equal(held[path], table)


def assert_equal(found: cn.Table, table: Table) -> None:
    """The same columns and labels in the same order, of the same types, with the same values and texts."""
    info = found.info
    assert info.problems == ()
    assert [column.name for column in info.columns] == list(table.columns)
    assert [label.name for label in info.labels] == list(table.labels)
    assert info.n_rows == table.n_rows
    assert said(info, TABLE_TEXTS) == {key: table.texts.get(key) or None for key in TABLE_TEXTS}
    rows = found.to_arrow()
    assert rows.column_names == list(table.members)
    for name, column in table.members.items():
        assert rows.column(name).type == column.kind
        assert same(plain(rows.column(name)), column.plain), name
        assert said(info.by_name[name], COLUMN_TEXTS) == {key: column.text(key) or None for key in COLUMN_TEXTS}, name


def said(what: TableInfo | ColumnInfo, keys: tuple[str, ...]) -> dict[str, str | None]:
    """The texts of a table or column; an empty one says as much as none."""
    return {key: getattr(what, key) or None for key in keys}


def assert_rules(h5: h5py.File, tables: Tables) -> None:
    """References both ways, column-order, and nothing left over: seen with h5py alone."""
    own = {path.split("/")[0] for path in steps.PATHS}
    assert {name for name in h5 if name not in own} == {"cube", "beside", "hard", "soft", "nowhere"}
    for path, table in tables.items():
        group = h5[path]
        below = {other.split("/")[-1] for other in tables if other.startswith(f"{path}/")}
        assert set(group) - {"_search_indexes"} == {*table.members, *categories_of(group, table), *below}
        assert [name.decode() for name in group.attrs.get("column-order", ())] == list(table.columns)
        assert group.attrs.get("_index", b"").decode() == next(iter(table.labels), "")
        for name, column in table.members.items():
            assert group[name].attrs.get(MARK) == column.mark
            assert referred(group[name], "_indexes") == ([] if name in table.labels else list(table.labels))
            assert set(referred(group[name], "_columns_list")) == (
                set(table.columns) if name in table.labels else set()
            )


def assert_conformant(file: cn.File) -> None:
    """The checker finds nothing, values and indexes included. Links to other files and tables in tables are told."""
    found = cn.check(file, deep=True)
    assert [one for one in found if (one.rule, one.severity) not in (("T6", "note"), ("T7", "note"))] == []


def categories_of(group: h5py.Group, table: Table) -> set[str]:
    """The names of the categories datasets, one a categorical that is no enum; their entries all differ."""
    found = set()
    for name, column in table.members.items():
        is_enum = h5py.check_enum_dtype(group[name].dtype) is not None
        assert ("_categories" in group[name].attrs) == (pa.types.is_dictionary(column.kind) and not is_enum)
        if "_categories" in group[name].attrs:
            target = group.file[group[name].attrs["_categories"]]
            assert target.attrs["encoding-type"] == b"categorical"
            assert bool(target.attrs["ordered"]) == column.kind.ordered
            found.add(target.name.rsplit("/", 1)[-1])
    assert len(found) == sum("_categories" in group[name].attrs for name in table.members)
    return found


def referred(dataset: h5py.Dataset, attribute: str) -> list[str]:
    """The names of what an attribute refers to, beside the dataset itself."""
    names = [dataset.file[reference].name for reference in dataset.attrs.get(attribute, ())]
    above = dataset.name.rsplit("/", 1)[0]
    assert all(name is not None and name.rsplit("/", 1)[0] == above for name in names)
    return [name.rsplit("/", 1)[-1] for name in names]


class Changes(RuleBasedStateMachine):
    """One file, changed by one handle and read by others; and its tables in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="colonnade-"))
        self.path = self.folder / "x.h5"
        put_beside(self.path)
        self.file = cn.open(self.path, "r+", durability="fast")
        self.reader = cn.open(self.path)
        self.beside = beside(self.reader.h5)
        self.tables: Tables = {}
        self.held: dict[str, cn.Table] = {}
        self.read: dict[str, cn.Table] = {}

    def teardown(self) -> None:
        self.file.close()
        self.reader.close()
        shutil.rmtree(self.folder)

    def attempt(self, step: Step) -> None:
        """Do a step; one that is refused must be refused rightly."""
        before = look_before(self.file, step)
        try:
            step.do(self.file)
        except cn.errors.UsageError as error:
            assert refused_rightly(error, step, before), f"{step!r} was refused: {error}"
            raise Refused from error

    def alone(self, step: Step) -> None:
        """A step that is a commit of its own."""
        try:
            self.attempt(step)
        except Refused:
            return
        self.tables = step.after

    def together(self, data: st.DataObject, before_the_end: Callable[[Tables], None]) -> None:
        """Several steps as one commit, that nobody else sees before it is done."""
        tables = self.tables
        try:
            with self.file.transaction():
                for _ in range(data.draw(st.integers(1, 4), label="steps")):
                    step = data.draw(steps.any_steps(tables))
                    self.attempt(step)
                    tables = step.after
                    if step.table in tables:
                        assert_equal(self.file[step.table], tables[step.table])
                assert_holds(self.file, tables)
                with cn.open(self.path) as other:
                    assert_holds(other, self.tables)
                before_the_end(tables)
        except (Undone, Refused):
            return
        self.tables = tables

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.create(data)
        self.create(data)

    @rule(data=st.data())
    def create(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.creations(self.tables)))

    @some_tables
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.drops(self.tables)))

    @some_tables
    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.appends(self.tables)))

    @some_rows
    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.updates(self.tables)))

    @some_tables
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.truncations(self.tables)))

    @some_rows
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.deletions(self.tables)))

    @precondition(lambda machine: bool(steps.keyed_columns(machine.tables)))
    @rule(data=st.data())
    def upsert(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.upserts(self.tables)))

    @some_room
    @rule(data=st.data())
    def add_column(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.additions(self.tables)))

    @some_columns
    @rule(data=st.data())
    def drop_column(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.removals(self.tables)))

    @some_columns
    @rule(data=st.data())
    def rename_column(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.renamings(self.tables)))

    @some_columns
    @rule(data=st.data())
    def reorder_columns(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.reorderings(self.tables)))

    @some_columns
    @rule(data=st.data())
    def set_labels(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.labellings(self.tables)))

    @some_columns
    @rule(data=st.data())
    def replace_column(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.replacements(self.tables)))

    @some_tables
    @rule(data=st.data())
    def say_something(self, data: st.DataObject) -> None:
        """Texts, and attributes of other programs."""
        kinds = [steps.table_texts]
        if steps.with_members(self.tables):
            kinds += [steps.column_texts, steps.column_texts, steps.marks_of_others]
        self.alone(data.draw(data.draw(st.sampled_from(kinds))(self.tables)))

    @precondition(lambda machine: bool(steps.searched_columns(machine.tables)))
    @rule(data=st.data())
    def build_index(self, data: st.DataObject) -> None:
        self.alone(data.draw(steps.indexings(self.tables)))

    @rule(data=st.data())
    def commit_together(self, data: st.DataObject) -> None:
        self.together(data, lambda _: None)

    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        def undo(_: Tables) -> None:
            raise Undone

        self.together(data, undo)

    @rule(data=st.data())
    def go_on_after_a_failure(self, data: st.DataObject) -> None:
        """The caller swallows an error inside a transaction: all of it is committed then, or nothing."""

        def fail(tables: Tables) -> None:
            wrong = data.draw(wrong_steps(tables))
            with pytest.raises(wrong.error):
                wrong.do(self.file)

        try:
            self.together(data, fail)
        except cn.errors.UsageError as error:
            assert "all of it is rolled back" in str(error)

    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        wrong = data.draw(wrong_steps(self.tables))
        with pytest.raises(wrong.error):
            wrong.do(self.file)

    @rule(mode=st.sampled_from(("r+", "a")), fails=st.booleans())
    def reopen(self, mode: Any, fails: bool) -> None:
        """What was committed stays, also when the block around the file fails."""
        with suppress(Undone), self.file:
            if fails:
                raise Undone
        self.held.clear()
        self.file = cn.open(self.path, mode, durability="fast")

    @rule(chunk_rows=st.sampled_from((None, 2, "auto")), filters=st.sampled_from((None, "shuffle+deflate")))
    def repack(self, chunk_rows: Any, filters: str | None) -> None:
        self.file.repack(chunk_rows=chunk_rows, filters=filters)

    @invariant()
    def every_reader_sees_the_tables(self) -> None:
        assert_holds(self.file, self.tables, self.held)
        assert_holds(self.reader, self.tables, self.read)
        with cn.open(self.path) as fresh:
            assert_holds(fresh, self.tables)
            assert [wrong for path in self.tables for wrong in fresh[path].verify_indexes()] == []
            assert beside(fresh.h5) == self.beside
            assert_rules(fresh.h5, self.tables)
            assert_conformant(fresh)


Changes.TestCase.settings = settings(max_examples=settings().max_examples // 3, stateful_step_count=STEPS)
test_any_sequence_of_changes_equals_the_same_in_memory = Changes.TestCase
