"""Arrow's compute functions, imported on first use.

Importing `pyarrow.compute` creates a documented Python function for each of Arrow's roughly 300 functions. That takes
a tenth of a second, and reading plain numbers never needs it. Use `from colonnade import compute as pc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.compute import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        if name.startswith("__"):  # Python itself looks these up on every module
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import pyarrow.compute as pc

        found = globals()[name] = getattr(pc, name)
        return found
