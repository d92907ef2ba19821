"""Words that readers stumble over, counted in everything people read: source, docs, README, bench and tools.

    python -m tools.language              the counts
    python -m tools.language behind       every line with this word

`MOST` is how often each may still occur, real uses included. A count may only go down: lower it when you have.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READ = (
    "src/**/*.py",
    "src/**/*.c",
    "docs/*.md",
    "README.md",
    "CHANGELOG.md",
    "ARCHITECTURE.md",
    "bench/**/*.py",
    "bench/*.md",
    "tools/*.py",
)
PATTERNS = {
    "behind": r"\bbehind\b",
    "is no": r"(?<!there )\b(is|are) no\b(?! (longer|more)\b)",
    "texts": r"\btexts\b",
    "anew": r"\banew\b|\bonce more\b",
    "told": r"\b(told|said|says|tells)\b",
    "the same": r'"""The same\b',
    "beside": r"\bbeside\b",
    "mend": r"\bmend(s|ed|ing)?\b",
    "believe": r"\bbeliev(e|es|ed|ing)\b",
    "whole number": r"\bwhole numbers?\b",
    "truth value": r"\btruth values?\b",
    "in the place of": r"\bin the place of\b",
    "in step": r"\bin step\b",
    "so many": r"\bso (many|often)\b",
    "let go": r"\blets? go\b",
}
MOST = {
    "behind": 3,
    "is no": 0,
    "texts": 109,
    "anew": 1,
    "told": 29,
    "the same": 4,
    "beside": 1,
    "mend": 0,
    "believe": 0,
    "whole number": 0,
    "truth value": 0,
    "in the place of": 1,
    "in step": 1,
    "so many": 1,
    "let go": 0,
}


@cache
def read_lines() -> list[tuple[str, str]]:
    """Every line that people read and that matches any pattern, with its place."""
    any_of_them = re.compile("|".join(PATTERNS.values()), re.IGNORECASE)
    return [
        (f"{path.relative_to(ROOT)}:{number}", line)
        for path in sorted({path for pattern in READ for path in ROOT.glob(pattern)} - {Path(__file__).resolve()})
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if any_of_them.search(line)
    ]


def occurrences(name: str) -> list[str]:
    """The lines in which a pattern occurs."""
    pattern = re.compile(PATTERNS[name], re.IGNORECASE)
    return [f"{place}: {line.strip()}" for place, line in read_lines() if pattern.search(line)]


def counts() -> dict[str, int]:
    return {name: len(occurrences(name)) for name in PATTERNS}


def main(arguments: list[str]) -> int:
    for name in arguments:
        print("\n".join(occurrences(name)))
    if not arguments:
        print("\n".join(f"{name:16} {count:5}" for name, count in counts().items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
