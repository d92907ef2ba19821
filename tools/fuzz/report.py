"""Tallies kept, put together and shown."""

from __future__ import annotations

import json
from pathlib import Path

from tools.fuzz.campaign import Tally


def save(tally: Tally, path: Path) -> None:
    """Beside, and then in one step: what is there is always a whole tally."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(vars(tally)))  # a Counter is a dict to JSON
    beside.replace(path)


def merged(paths: list[Path]) -> Tally:
    """All jobs together."""
    total = Tally()
    for path in paths:
        one = json.loads(path.read_text())
        for name in ("n_begun", "n_files", "seconds"):
            setattr(total, name, getattr(total, name) + one[name])
        for name in ("outcomes", "troubles", "kinds", "ways", "by_code"):
            getattr(total, name).update(one[name])
        for what, files in one["files"].items():
            total.files.setdefault(what, []).extend(files)
        for name in ("slowest", "most_memory", "largest"):
            setattr(total, name, max(getattr(total, name), one[name]))
    return total


def shown(tally: Tally) -> str:
    """The whole run as text."""
    seconds = tally.seconds
    lines = [f"{tally.n_files:,} spoiled files in {seconds:,.0f} s ({tally.n_files / max(seconds, 1):.1f} a second)"]
    for counts in (tally.outcomes, tally.kinds, tally.ways, tally.by_code):
        lines += [f"  {count:>8,}  {what}" for what, count in counts.most_common()] + [""]
    lines.append(
        f"slowest file that ended: {tally.slowest:.1f} s; most memory that one added: {tally.most_memory >> 20} MiB; "
        f"largest process: {tally.largest >> 20} MiB"
    )
    for what, count in tally.troubles.most_common():
        lines.append(f"  {count:>6}  {what}\n          {', '.join(tally.files.get(what, []))}")
    return "\n".join(lines)
