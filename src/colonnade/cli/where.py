"""`where` and `count`: shows, writes or counts the rows for which a predicate is true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from colonnade import limits
from colonnade.arrays import Int64s
from colonnade.cli.answer import FINDINGS, FINE, Facts, print_json, stream_json
from colonnade.cli.choose import (
    Access,
    Question,
    ReadOptions,
    asked_matches,
    batch_rows,
    file_facts,
    matching,
    question_of,
    read_columns,
)
from colonnade.cli.progress import waiting
from colonnade.cli.text import cell, columns_shown, open_console, plural, say, show_side_by_side, show_unreadable
from colonnade.errors import UsageError
from colonnade.query.plan import Plan
from colonnade.row_files.plain import plain_records
from colonnade.table.show import rows_text, type_word

SHOWN_ROWS = 20


def find_rows(file: str, given: Sequence[str], wish: ReadOptions, as_json: bool, access: Access) -> int:
    if (wish.explain or wish.row_numbers) and (wish.form or (wish.explain and wish.row_numbers)):
        raise UsageError("--explain and --row-numbers each replace the rows: give only one of them")
    with access.open(file) as opened:
        question = question_of(opened, given, wish)
        if wish.explain:
            print_plan(question.facts, question.rows.explain(), as_json)
            return FINE
        if wish.row_numbers:
            return print_row_numbers(question, as_json)
        return print_records(question) if as_json else show_first(question)


# -- other things than rows --


def print_plan(facts: Facts, plan: Plan, as_json: bool) -> None:
    """Print a plan as text, or with other facts as JSON."""
    if as_json:
        print_json({**facts, "plan": plan_facts(plan)})
        return
    console = open_console()
    for line in str(plan).split("\n"):
        console.print(cell(line), soft_wrap=True)


def plan_facts(plan: Plan) -> Facts:
    """A plan as plain data."""
    return {
        "predicate": plan.predicate,
        "n_rows": plan.n_rows,
        "rows_that_may_match": plan.found.may.count,
        "rows_sure_to_match": plan.found.sure.count,
        "indexes_used": [asdict(used) for used in plan.indexes_used],
        "indexes_skipped": [asdict(skipped) for skipped in plan.indexes_skipped],
        "columns": [asdict(column) for column in plan.columns],
        "sorted": plan.sorted,
        "left_to_library": [asdict(left) for left in plan.left_to_library],
        "chunks_read": plan.chunks_read,
        "chunks_total": plan.chunks_total,
    }


def print_row_numbers(question: Question, as_json: bool) -> int:
    """Print the row numbers, one per line."""
    with waiting("searching"):
        numbers = question.rows.row_numbers()
    parts = _lists(numbers)
    if as_json:
        stream_json({**question.facts, "n_rows": question.table.n_rows}, {"row_numbers": parts})
    else:
        for part in parts:
            click.echo("\n".join(map(str, part)))
    return FINE if len(numbers) else FINDINGS


def _lists(numbers: Int64s) -> Iterator[list[int]]:
    n = limits.now.printed_rows
    return (numbers[first : first + n].tolist() for first in range(0, len(numbers), n))


# -- rows as text and as JSON --


def print_records(question: Question) -> int:
    """Print the rows as records; matches are held as row numbers, and the rows are read batch by batch."""
    with waiting("searching"):
        matching = question.rows[:]
        numbers = matching.row_numbers()
    table = question.table
    columns = [table[name] for name in question.names]
    facts = {
        **question.facts,
        "n_rows": table.n_rows,
        "columns": [
            {"name": c.name, "type": type_word(c.dtype), "units": c.units, "label": c.info.is_label} for c in columns
        ],
        "found": len(numbers),
        "all_found": question.wish.most is None or len(numbers) < question.wish.most,
    }
    records = (plain_records(batch, question.names) for batch in matching.batches(batch_rows(question)))
    code = stream_json(facts, {"row_numbers": _lists(numbers), "rows": records})
    return code or (FINE if len(numbers) else FINDINGS)


def show_first(question: Question) -> int:
    most = SHOWN_ROWS if question.wish.most is None else question.wish.most
    with waiting("searching"):
        matching = question.query.head(most)[:]
        total = _total(question, len(matching))
    table, names = question.table, question.names
    if not len(matching):
        say(f"no row of {rows_text(table.n_rows)} matches")
        return FINDINGS
    columns = read_columns(table, matching, names, bool(question.wish.columns))
    n_shown, unreadable = show_side_by_side(matching.row_numbers().tolist(), columns)
    shown_rows = _found_text(len(matching), total, table.n_rows)
    say(f"{shown_rows}, {columns_shown(n_shown, len(names), len(unreadable))}")
    show_unreadable(unreadable)
    return FINDINGS if unreadable else FINE


def _total(question: Question, n_found: int) -> int | None:
    """How many rows match; None if the user gave a limit and it was reached."""
    if n_found < (SHOWN_ROWS if question.wish.most is None else question.wish.most):
        return n_found
    return question.query.count() if question.wish.most is None else None


def _found_text(n_shown: int, total: int | None, n_rows: int) -> str:
    if total is not None and total <= n_shown:
        return f"{plural(total, 'matching row')} among {n_rows:,}"
    of = "" if total is None else f" of {total:,}"
    return f"the first {n_shown:,}{of} matching rows among {n_rows:,} (-n shows more)"


def count_rows(file: str, given: Sequence[str], explain: bool, as_json: bool, access: Access) -> int:
    with access.open(file) as opened:
        table, predicate = asked_matches(opened, given, needed=False)
        query = matching(opened, table, predicate)
        facts = {"file": file_facts(opened), "table": table.path, "predicate": predicate, "n_rows": table.n_rows}
        if explain:
            print_plan(facts, query.select().explain(), as_json)
            return FINE
        with waiting("counting"):
            count = query.count()
    if as_json:
        print_json({**facts, "count": count})
    else:
        click.echo(count)
    return FINE if count else FINDINGS
