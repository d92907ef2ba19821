"""`ls`: lists the tables of a file, and its other objects."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from colonnade.cli.answer import FINE, Facts, print_json
from colonnade.cli.choose import file_facts
from colonnade.cli.text import cell, lines, new_grid, open_console, plural, show_file
from colonnade.errors import CorruptError, FormatError, UnsupportedError, UsageError
from colonnade.layouts import LAYOUTS
from colonnade.nodes import Group
from colonnade.nodes.attributes import read_text
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.dataset_tables import HOME_OF_INDEXES
from colonnade.nodes.paths import join_path, walk_groups
from colonnade.nodes.protocols import Child
from colonnade.table import File, open
from colonnade.table.show import size_text
from colonnade.table.sparse import open_sparse

if TYPE_CHECKING:
    from rich.text import Text

    from colonnade.layouts.foreign_tables import ForeignTable


def list_objects(file: str, as_json: bool) -> int:
    with open(file) as opened:
        facts = ls_facts(opened)
    if as_json:
        print_json(facts)
    else:
        show_ls(facts)
    return FINE


# -- facts --


def ls_facts(file: File) -> Facts:
    """Every table and every other object, parents first."""
    objects = list(_objects(file))
    tables = [entry["path"] for entry in objects if entry["kind"] == "table"]
    return {"file": file_facts(file), "tables": tables, "objects": objects}


def _entry(path: str, kind: str, **known: object) -> Facts:
    """One line of `ls`, with every key present."""
    keys = ("layout", "rows", "columns", "title", "shape", "type", "bytes", "target", "could_be", "problem")
    return {"path": path, "kind": kind, **{key: known.get(key) for key in keys}}


def _objects(file: File) -> Iterator[Facts]:
    tables = set(file.tables())  # raises CorruptError if the root of the file cannot be read
    foreign = file._consistent(file._foreign_tables)
    sparse = _sparse_arrays(file)
    inside: set[str] = set()  # groups that are columns of a table, or hold parts of them
    for path, group in walk_groups(file._handle.root):
        try:
            links, problem = group.children(), None
        except CorruptError as error:
            links, problem = [], str(error)
        if path in inside and path not in tables:
            inside |= {join_path(path, link.name) for link in links}
            continue
        parts: set[str] = set()
        if (path in tables and path not in foreign) or read_text(group, "CLASS") == "COLUMN_TABLE":
            own, parts = _table_entry(file, path)
            inside |= {join_path(path, name) for name in parts}
            yield own
        elif path in foreign:
            yield _foreign_entry(foreign[path])
        else:
            offer = None if problem else _offer(file, path, group)
            if path != "/" or offer is not None:
                yield _entry(path, "broken" if problem else "group", could_be=offer, problem=problem)
        for link in links:
            where = join_path(path, link.name)
            if where in foreign and link.kind == "dataset":
                yield _foreign_entry(foreign[where])
                continue
            if where in tables and link.kind == "dataset" and link.name not in parts:
                inside.add(join_path(path, HOME_OF_INDEXES))
                yield _table_entry(file, where)[0]
                continue
            if where in sparse and link.name not in parts:
                yield _sparse_entry(file, where)
                continue
            entry = None if link.name in parts else _link_entry(group, where, link)
            if entry is not None:
                yield entry


def _table_entry(file: File, path: str) -> tuple[Facts, set[str]]:
    """The line for a table, and the names in its group that are parts of it."""
    try:
        table = file[path]
    except (FormatError, UnsupportedError) as error:
        return _entry(path, "table", problem=str(error)), set()
    parts = table._layout.member_names(table._group, table.info.members)
    serious = sum(problem.severity != "note" for problem in table.problems)
    try:
        n_bytes = sum(table[name].stored_bytes for name in table.info.by_name)
    except CorruptError as error:
        return _entry(path, "table", problem=str(error)), parts
    entry = _entry(
        path,
        "table",
        layout=table.layout,
        rows=table.n_rows,
        columns=len(table.columns),
        title=table.title,
        bytes=n_bytes,
        problem=f"{plural(serious, 'problem')}, see: colonnade info" if serious else None,
    )
    return entry, parts


def _offer(file: File, path: str, group: Group) -> Facts | None:
    """What a group could be read as, if all of it looks like a table: the layout, its size, and a command."""
    for name, layout in LAYOUTS.items():
        candidate = layout.could_be(group) if layout.could_be is not None else None
        if candidate is not None and candidate.is_likely:
            command = shlex.join(["colonnade", "head", file.name, path, "--layout", name])
            return {"layout": name, "rows": candidate.n_rows, "columns": candidate.n_columns, "command": command}
    return None


def _foreign_entry(table: ForeignTable) -> Facts:
    """The line for a table that no layout describes."""
    size = {"rows": table.n_rows, "columns": table.n_columns, "bytes": table.stored_bytes}
    return _entry(table.path, "table", layout=table.kind, **size)


def _sparse_arrays(file: File) -> set[str]:
    try:
        return set(file.sparse_arrays())
    except (UsageError, FormatError, UnsupportedError):  # in a stream, or in a file that our own parser cannot follow
        return set()


def _sparse_entry(file: File, path: str) -> Facts:
    """The line for a sparse array."""
    try:
        with open_sparse(file, path) as array:
            size = sum(record.size for record in array.records())
            return _entry(path, "sparse array", shape=list(array.shape), type=str(array.type), bytes=size)
    except (FormatError, UnsupportedError) as error:
        return _entry(path, "sparse array", problem=str(error))


def _link_entry(group: Group, path: str, link: Child) -> Facts | None:
    """The line for the target of a link; None for a group that can be opened, which has its own line."""
    if link.kind == "group":
        broken = group.open_group(link.name) is None
        return _entry(path, "broken", problem="a group that cannot be opened") if broken else None
    if link.kind == "dataset":
        return _array_entry(group, path, link.name)
    if link.kind in ("soft link", "external link"):
        return _entry(path, link.kind, target=group.link_target(link.name))
    problem = "the link does not lead to an object that can be opened" if link.kind == "broken" else None
    return _entry(path, link.kind, problem=problem)


def _array_entry(group: Group, path: str, name: str) -> Facts:
    dataset = group.open_dataset(name)
    if dataset is None:
        return _entry(path, "broken", problem="a dataset that cannot be opened")
    try:
        info = dataset.describe()
        shape = None if dataset.is_null else list(dataset.shape)
        return _entry(path, "array", shape=shape, type=str(info.type), bytes=dataset.stored_bytes())
    except hdf5_errors(CorruptError, UnsupportedError) as error:
        return _entry(path, "broken", problem=f"a dataset whose header cannot be read: {error}")


# -- text --


def show_ls(facts: Facts) -> None:
    """Print the objects of a file, one per line, tables in bold."""
    console = open_console()
    objects = facts["objects"]
    n_tables = len(facts["tables"])
    show_file(console, facts["file"], n_tables, len(objects) - n_tables)
    if not objects:
        return
    grid = new_grid("path", "kind", "shape", "what", "stored", right=("stored",))
    for entry in objects:
        style = {"table": "bold", "broken": "red"}.get(entry["kind"], "")
        grid.add_row(cell(entry["path"], style), cell(entry["kind"], style), *_ls_cells(entry))
    console.print()
    console.print(grid)


def _ls_cells(entry: Facts) -> tuple[Text, Text, Text]:
    size, what = "", entry["type"] or ""
    if entry["kind"] == "table" and entry["rows"] is not None:
        size = f"{entry['rows']:,} x {entry['columns']:,}"
        what = " ".join(filter(None, (entry["layout"], entry["title"] and f"“{entry['title']}”")))
    elif entry["kind"] in ("array", "sparse array") and not entry["problem"]:
        shape = entry["shape"]
        size = "empty" if shape is None else " x ".join(f"{n:,}" for n in shape) or "scalar"
    elif entry["target"]:
        what = f"to {entry['target']}"
    elif entry["could_be"]:
        offer = entry["could_be"]
        size = f"{offer['rows']:,} x {offer['columns']:,}"
        what = f"could be read as a table: {offer['command']}"
    stored = "" if entry["bytes"] is None else size_text(entry["bytes"])
    return cell(size), lines(cell(what), cell(entry["problem"], "red")), cell(stored)
