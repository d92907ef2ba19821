"""The command line as a process of its own: `colonnade`, or `python -m colonnade.cli`."""

from __future__ import annotations

import atexit
import gc
import os

from colonnade.cli.commands import main

YOUNG_OBJECTS = 50_000  # Python looks for garbage after so many; 700 by default


def start() -> None:
    """Run a command, without what costs more at start and end than a small question does in between.

    NumPy's OpenBLAS starts a thread for each core, which turn in wait of work that no command has. And what the
    modules made lives to the end: it is not gone through for garbage again and again while they are loaded, nor at
    the end.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(YOUNG_OBJECTS)
    atexit.register(gc.freeze)
    main()


if __name__ == "__main__":
    start()
