"""Tallies kept, put together and shown."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tools.fuzz.campaign import Tally


def save(tally: Tally, path: Path) -> None:
    path.write_text(json.dumps({**vars(tally), "outcomes": dict(tally.outcomes), "troubles": dict(tally.troubles)}))


def merged(paths: list[Path]) -> Tally:
    """All jobs together."""
    total = Tally()
    for path in paths:
        one = json.loads(path.read_text())
        total.n_files += one["n_files"]
        total.outcomes += Counter(one["outcomes"])
        total.troubles += Counter(one["troubles"])
        for what, files in one["files"].items():
            total.files.setdefault(what, []).extend(files)
        total.slowest = max(total.slowest, one["slowest"])
        total.most_memory = max(total.most_memory, one["most_memory"])
    return total


def shown(tally: Tally, seconds: float) -> str:
    """The whole run as text."""
    lines = [f"{tally.n_files:,} spoiled files in {seconds:,.0f} s ({tally.n_files / max(seconds, 1):.1f} a second)"]
    lines += [f"  {count:>8,}  {what}" for what, count in tally.outcomes.most_common()]
    lines.append(
        f"slowest file that ended: {tally.slowest:.1f} s; most memory taken by one: {tally.most_memory >> 20} MiB"
    )
    for what, count in tally.troubles.most_common():
        lines.append(f"  {count:>6}  {what}\n          {', '.join(tally.files.get(what, []))}")
    return "\n".join(lines)
