"""`count`: how many rows a table has, or for how many a predicate is true."""

from __future__ import annotations

from collections.abc import Sequence

import click

from colonnade.cli.answer import FINDINGS, FINE, print_json
from colonnade.cli.choose import asked_matches, file_facts, matching
from colonnade.cli.progress import waiting
from colonnade.cli.where import tell_plan
from colonnade.h5.outside import Links
from colonnade.pager.receipts import Trust
from colonnade.table import open


def count_rows(
    file: str, given: Sequence[str], explain: bool, trust: Trust, as_json: bool, links: Links = "folder"
) -> int:
    with open(file, trust=trust, links=links) as opened:
        table, predicate = asked_matches(opened, given, needed=False)
        query = matching(opened, table, predicate)
        facts = {"file": file_facts(opened), "table": table.path, "predicate": predicate, "n_rows": table.n_rows}
        if explain:
            tell_plan(facts, query.select().explain(), as_json)
            return FINE
        with waiting("counting"):
            count = query.count()
    if as_json:
        print_json({**facts, "count": count})
    else:
        click.echo(count)
    return FINE if count else FINDINGS
