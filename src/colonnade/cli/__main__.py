"""The command line as a program: `colonnade`, or `python -m colonnade.cli`."""

from __future__ import annotations

import atexit
import gc
import os

from colonnade.cli.commands import main

YOUNG_OBJECTS = 50_000  # new objects before Python collects garbage; 700 by default


def start() -> None:
    """Run a command, without startup and exit work that takes longer than a small query.

    NumPy's OpenBLAS starts one thread per core, and these spin although no command gives them work. Objects created
    while modules load live until exit, so garbage collection need not visit them again and again, nor at exit.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(YOUNG_OBJECTS)
    atexit.register(gc.freeze)
    main()


if __name__ == "__main__":
    start()
