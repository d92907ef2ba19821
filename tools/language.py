"""Words that readers stumble over, counted in everything people read: source, docs, README, bench and tools.

    python -m tools.language              the counts
    python -m tools.language behind       every line with this word

Variables and parameters whose name does not tell what they hold are counted per room of the package.

`MOST` is how often each word may still occur, real uses included, and `MOST_VAGUE_NAMES` how many such names a room may
still have. A count may only go down: lower it when you have.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
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
    "texts": 100,
    "anew": 1,
    "told": 24,
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

PACKAGE = ROOT / "src" / "colonnade"
VAGUE_NAMES = frozenset({"one", "found", "place", "made", "held", "told", "kept", "some"})
MOST_VAGUE_NAMES = {
    "anndata": 2,
    "columns": 63,
    "compute": 1,
    "connect": 2,
    "errors": 3,
    "format": 69,
    "h5": 79,
    "indexes": 32,
    "layouts": 192,
    "model": 9,
    "query": 47,
    "selection": 3,
    "threads": 2,
    "versions": 1,
}


@cache
def read_lines() -> list[tuple[str, str]]:
    """Every line that people read and that matches any pattern, with its path and line number."""
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
    return [f"{where}: {line.strip()}" for where, line in read_lines() if pattern.search(line)]


def counts() -> dict[str, int]:
    return {name: len(occurrences(name)) for name in PATTERNS}


def vague_names(source: str) -> list[str]:
    """The listed names that Python source assigns to, or has as parameters, once per occurrence."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [node.arg for node in nodes if isinstance(node, ast.arg)]
    names += [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return [name for name in names if name in VAGUE_NAMES]


def vague_name_counts() -> Counter[str]:
    """How many vague names each room, or module outside the rooms, has."""
    counted: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        counted[path.relative_to(PACKAGE).parts[0].removesuffix(".py")] += len(vague_names(path.read_text()))
    return +counted  # without the rooms that have none


def main(arguments: list[str]) -> int:
    for name in arguments:
        print("\n".join(occurrences(name)))
    if not arguments:
        print("\n".join(f"{name:16} {count:5}" for name, count in counts().items()))
        print("\n".join(f"{room:16} {count:5}  vague names" for room, count in vague_name_counts().items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
