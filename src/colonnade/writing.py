"""The functions of `h5/` that change a file, imported on first use: `from colonnade import writing`.

For modules that read and change: reading a file does not load h5py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from colonnade.h5.attributes import *  # noqa: F403
    from colonnade.h5.datasets import DatasetPlan, is_touched, resize_matrix, write_lines, write_matrix
    from colonnade.h5.handles import *  # noqa: F403
    from colonnade.h5.links import make_placeholder, rename, unlink
    from colonnade.h5.references import make_reference
    from colonnade.h5.row_sink import *  # noqa: F403

    __all__ = [  # with what the others import, which mypy takes to be exported
        "DatasetPlan", "is_touched", "make_placeholder", "make_reference", "rename", "resize_matrix", "unlink",
        "write_lines", "write_matrix",
    ]  # fmt: skip
else:

    def __getattr__(name: str) -> object:
        if name.startswith("__"):  # Python itself looks these up on every module
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from colonnade.h5 import attributes, datasets, handles, links, references, row_sink

        modules = (handles, row_sink, links, datasets, attributes, references)
        function = globals()[name] = next(getattr(module, name) for module in modules if hasattr(module, name))
        return function
