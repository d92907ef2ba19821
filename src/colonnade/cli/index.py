"""`index`: builds, lists, drops and verifies the search indexes of a table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from colonnade.cli.answer import FINDINGS, FINE, Facts, print_json
from colonnade.cli.choose import Access, is_path_of_table, only_table, print_tables
from colonnade.cli.progress import counting_rows
from colonnade.cli.text import cell, lines, new_grid, open_console, show_file, show_title
from colonnade.dataclass import replace
from colonnade.errors import UsageError
from colonnade.indexes import KINDS
from colonnade.model import Finding, IndexInfo
from colonnade.table import File, Table
from colonnade.table.show import size_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# -- build and drop --


def build_indexes(
    file: str, given: Sequence[str], error_rate: float, max_values: int, as_json: bool, access: Access
) -> int:
    index_file = access.index_file
    with replace(access, index_file=None).open(file, "r+" if index_file is None else "r") as opened:
        table, arguments = _table_and_columns(opened, given)
        wanted = _wanted(table, arguments)
        with counting_rows("building") as progress:
            table.build_index(
                wanted, error_rate=error_rate, max_values=max_values, progress=progress, index_file=index_file
            )
        built = [index for index in table.indexes if index.kind in wanted.get(index.column, [])]
        facts = {"file": opened.name, "table": table.path, "built": [_index_facts(index) for index in built]}
    _show_changes(facts, "built", as_json)
    return FINE


def _table_and_columns(file: File, given: Sequence[str]) -> tuple[Table, Sequence[str]]:
    """The table and the other arguments of [TABLE] COLUMN...: the first is the table if it is the path of one."""
    if not given:
        raise UsageError("give a column, as in energy=chunk_minmax")
    if len(given) > 1 and _means_table(file, given[0]):
        return file[given[0]], given[1:]
    return only_table(file, None), given


def _means_table(file: File, text: str) -> bool:
    """Whether the first of several arguments is meant as a table: a table's path, or not a column of the only table."""
    tables = file.tables()
    return is_path_of_table(file, text) or ("=" not in text and (len(tables) != 1 or text not in file[tables[0]]))


def _wanted(table: Table, arguments: Sequence[str]) -> dict[str, list[str]]:
    """The kinds requested for each column."""
    wanted: dict[str, list[str]] = {}
    for text in arguments:
        name, kinds = _column_and_kinds(table, text)
        if not kinds:
            raise UsageError(f"{text!r} does not name a kind of index: write {name}=KIND, of {', '.join(KINDS)}")
        wanted.setdefault(name, []).extend(kinds)
    return wanted


def _column_and_kinds(table: Table, text: str) -> tuple[str, list[str]]:
    """The parts of COLUMN=KIND,KIND; the column name may itself contain "="."""
    name, sign, kinds = text.rpartition("=")
    if not sign or text in table:
        return table[text].name, []
    words = [kind.strip() for kind in kinds.split(",") if kind.strip()]
    unknown = next((kind for kind in words if kind not in KINDS), None)
    if unknown is not None:
        raise UsageError(f"there is no index kind {unknown!r}; there are {', '.join(KINDS)}", kind=unknown)
    return table[name].name, words


def drop_indexes(file: str, given: Sequence[str], as_json: bool, access: Access) -> int:
    with access.open(file, "r+" if access.index_file is None else "r") as opened:
        table, arguments = _table_and_columns(opened, given)
        asked = [_column_and_kinds(table, text) for text in arguments]
        wanted: list[tuple[str, str | None]] = [(name, kind) for name, kinds in asked for kind in kinds]
        wanted += [(name, None) for name, kinds in asked if not kinds]
        before = table.indexes
        with opened.transaction() if access.index_file is None else nullcontext():
            for name, kind in wanted:
                table.drop_index(name, kind)
        left = {(index.file, index.name) for index in table.indexes}
        dropped = [_index_facts(index) for index in before if (index.file, index.name) not in left]
        facts = {"file": opened.name, "table": table.path, "dropped": dropped}
    _show_changes(facts, "dropped", as_json)
    return FINE


def _show_changes(facts: Facts, done: str, as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    indexes = facts[done]
    names = ", ".join(f"{index['kind']} of {index['column']} ({size_text(index['bytes'])})" for index in indexes)
    n_indexes = f"{len(indexes):,} search {'index' if len(indexes) == 1 else 'indexes'}"
    open_console().print(cell(f"{n_indexes} of {facts['table']} {done}: {names}"), soft_wrap=True)


def _index_facts(index: IndexInfo) -> Facts:
    return {
        "column": index.column,
        "kind": index.kind,
        "name": index.name,
        "bytes": index.bytes,
        "fresh": index.fresh,
        "trusted": index.trusted,
        "state": index.state,
        "problem": index.problem,
        "file": index.file,
    }


# -- list --


def list_indexes(file: str, table: str | None, as_json: bool, access: Access) -> int:
    tables = print_tables(file, table, _table_facts, _show_lists, as_json, access)
    bad = any(t["problem"] or any(index["problem"] for index in t["indexes"]) for t in tables)
    return FINDINGS if bad or not tables else FINE


def _table_facts(table: Table) -> Facts:
    return {
        "path": table.path,
        "title": table.title,
        "description": None,
        "n_rows": table.n_rows,
        "indexes": [_index_facts(index) for index in table.indexes],
        "problem": None,
    }


def _show_lists(facts: Facts) -> None:
    console = open_console()
    show_file(console, facts["file"], len(facts["tables"]))
    for table in facts["tables"]:
        console.print()
        if show_title(console, table):
            _show_list(console, table["indexes"])


def _show_list(console: Console, indexes: list[Facts]) -> None:
    if not indexes:
        console.print("no search indexes", style="dim")
        return
    grid = new_grid("column", "kind", "stored", "used by queries", right=("stored",))
    for index in indexes:
        grid.add_row(cell(index["column"]), cell(index["kind"]), cell(size_text(index["bytes"])), _state(index))
    console.print(grid)


def _state(index: Facts) -> Text:
    if index["problem"]:
        return lines(cell("no: it is unusable", "red"), cell(index["problem"], "red"))
    return cell("yes") if index["trusted"] else cell("no: verify it first", "yellow")


# -- verify --


def verify_indexes(file: str, table: str | None, as_json: bool, access: Access) -> int:
    tables = print_tables(file, table, _verified, _show_verified, as_json, access)
    bad = any(t["problem"] or any(index["wrong"] for index in t["indexes"]) for t in tables)
    return FINDINGS if bad or not tables else FINE


def _verified(table: Table) -> Facts:
    with counting_rows(f"verifying {table.path}", len(table.indexes)) as progress:
        findings = table.verify_indexes(progress=progress)
    facts = _table_facts(table)
    return {**facts, "indexes": [{**index, "wrong": _wrong(index, findings)} for index in facts["indexes"]]}


def _wrong(index: Facts, findings: list[Finding]) -> list[str]:
    """The problems found in an index."""
    ending = f"/{index['name']}"
    begin = "" if index["file"] is None else f"{index['file']}:"
    return [
        finding.message
        for finding in findings
        if finding.path.startswith(begin) and finding.path.endswith(ending) and finding.severity != "note"
    ]


def _show_verified(facts: Facts) -> None:
    console = open_console()
    show_file(console, facts["file"], len(facts["tables"]))
    for table in facts["tables"]:
        console.print()
        if show_title(console, table):
            _show_results(console, table["indexes"])


def _show_results(console: Console, indexes: list[Facts]) -> None:
    if not indexes:
        console.print("no search indexes", style="dim")
    for index in indexes:
        if not index["wrong"]:
            console.print(cell(f"OK     {index['kind']} of {index['column']}"), soft_wrap=True)
        for wrong in index["wrong"]:
            console.print(cell(f"WRONG  {wrong}", "red"), soft_wrap=True)
