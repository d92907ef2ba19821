"""The functions that write to a file, imported on first use: `from colonnade import writing`.

For modules that read and write: reading a file does not load h5py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from colonnade.h5.attributes import *  # noqa: F403
    from colonnade.h5.handles import *  # noqa: F403
    from colonnade.h5.row_sink import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        if name.startswith("__"):  # Python itself looks these up on every module
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from colonnade.h5 import attributes, datasets, handles, links, row_sink

        modules = (handles, row_sink, links, datasets, attributes)
        found = globals()[name] = next(getattr(module, name) for module in modules if hasattr(module, name))
        return found
