"""How much of the package has no type: the word `Any` in each room, and the expressions that mypy takes for Any.

    python -m tools.any_types                  the words, room by room
    mypy --any-exprs-report FOLDER
    python -m tools.any_types FOLDER           fails when more expressions are Any than `MOST_EXPRESSIONS`

The numbers below only go down. Lower them in the commit that removes what they count.
"""

from __future__ import annotations

import sys
import tokenize
from collections import Counter
from pathlib import Path

from tools.architecture import room_of, source_files

MOST_EXPRESSIONS = 1.5  # percent
MOST_WORDS = {
    "anndata": 2,  # `ElementValue`: what an element is, the file decides
    "cli": 2,  # `Facts`: JSON documents
    "h5": 44,
    "nodes": 3,  # what h5py gives for an item of its objects
}


def words() -> dict[str, int]:
    """How often each room has the word `Any`, imports included; comments and strings do not count."""
    counts: Counter[str] = Counter()
    for path in source_files():
        with path.open("rb") as file:
            names = [token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME]
        counts[room_of(path)] += names.count("Any")
    return {room: count for room, count in sorted(counts.items()) if count}


def share(report: Path) -> float:
    """The percentage of expressions that are Any, from the last line of mypy's report: Total, Anys, Exprs, Coverage."""
    _, n_any, n_all, _ = report.read_text().splitlines()[-1].split()
    return 100 * int(n_any) / int(n_all)


def main(folder: str | None) -> int:
    if folder is None:
        print("\n".join(f"{count:5} {room}" for room, count in words().items()), f"{sum(words().values()):5}", sep="\n")
        return 0
    found = share(Path(folder) / "any-exprs.txt")
    print(f"{found:.2f} % of the expressions are Any; {MOST_EXPRESSIONS} % may be")
    return int(found > MOST_EXPRESSIONS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
