"""The packages of an environment in which every query engine is tested, one requirement per line.

    python tools/engines.py oldest|newest

The oldest versions are those that docs/engines.md promises; `./test --engines` installs them.
"""

from __future__ import annotations

import sys

OLDEST = {
    "duckdb": "1.4.0",
    "polars": "1.34.0",
    "pyarrow": "21.0.0",
    "datafusion": "55.0.0",  # before, 0.0 and -0.0 differ
    "ibis-framework[duckdb,polars]": "11.0.0",
    "narwhals": "2.0.0",
}
NEEDED = ("numpy", "h5py", "click", "rich", "pandas", "pytest", "pytest-xdist", "hypothesis")
"""What colonnade itself and the tests need, besides."""


def requirements(which: str) -> list[str]:
    """The lines of a requirements file."""
    if which not in ("oldest", "newest"):
        raise SystemExit(f"give oldest or newest, not {which!r}")
    engines = [f"{name}=={version}" if which == "oldest" else name for name, version in OLDEST.items()]
    return [*engines, *NEEDED]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1] if len(sys.argv) > 1 else "")))
