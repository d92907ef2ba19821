"""Arrow's compute functions, loaded when one is first called.

`pyarrow.compute` makes a Python function, with its documentation, of each of Arrow's some three hundred: a tenth of a
second that reading plain numbers never needs. `from colonnade.columns import compute as pc` stands for it everywhere.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # what Python itself asks of every module
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pyarrow.compute as pc

    found = globals()[name] = getattr(pc, name)
    return found
