"""The few hot loops, in C (`_native`), and most of them also in NumPy (`plain`), which shows what they compute.

Codecs exist in C only; without them, HDF5 reads such chunks. Both forms take the same arguments by position, write
into buffers of the caller, and refuse malformed input with a ValueError; the content of an output is then undefined.
The C form releases the GIL while it works, so threads can share the work. `FORM` is the form in use: "c" if it was
compiled, otherwise "numpy", and `REASON` states why it is not "c". The environment variable COLONNADE_KERNELS selects a
form: numpy, or c, which is an error if the C form does not exist.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from colonnade.kernels.rules import *  # noqa: F403

FORM = "numpy"
REASON = "COLONNADE_KERNELS=numpy is set"
_wanted = os.environ.get("COLONNADE_KERNELS", "")
if _wanted != "numpy":
    try:
        from colonnade.kernels._native import *  # noqa: F403

        FORM, REASON = "c", ""
    except ModuleNotFoundError:
        if _wanted == "c":
            raise
        REASON = (
            "the C form was not built when colonnade was installed. Install it again where there are a C compiler "
            "and Python's headers (Debian and Ubuntu: gcc, python3-dev)"
        )
    except ImportError as error:
        if _wanted == "c":
            raise
        REASON = f"the C form cannot be loaded: {error}"
if FORM == "numpy":
    from colonnade.kernels.plain import *  # noqa: F403


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The NumPy form of a function that is missing in an extension compiled from older sources."""
        from importlib import import_module

        plain = import_module("colonnade.kernels.plain") if not name.startswith("_") and name != "plain" else None
        if plain is not None and name in plain.__all__:
            return getattr(plain, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
