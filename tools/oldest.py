"""The oldest version of every package that pyproject.toml declares, one requirement per line.

    python tools/oldest.py

`numpy>=2.0` becomes `numpy==2.0`. Checkers (ruff, mypy and type stubs) are left out: they do not run there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
CHECKERS = ("ruff", "mypy", "pandas-stubs")


def oldest() -> Iterator[str]:
    """Every requirement, extras included, at its lower bound."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = [given for some in project["optional-dependencies"].values() for given in some]
    for given in [*project["dependencies"], *extras]:
        name, bound, version = re.fullmatch(r"([\w-]+(?:\[[\w,-]+\])?)(?:(>=)([\w.]+))?", given).groups()
        if name in CHECKERS or name.startswith("colonnade["):
            continue
        if bound is None:
            raise SystemExit(
                f"{given} in {PROJECT.name} has no lower bound: say which version is the oldest that works."
            )
        yield f"{name}=={version}"


if __name__ == "__main__":
    print("\n".join(oldest()))
