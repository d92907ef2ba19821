"""The command line as a program: `colonnade`, or `python -m colonnade.cli`."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from colonnade.cli.commands import main

YOUNG_OBJECTS = 50_000  # new objects before Python collects garbage; 700 by default


class _Exit:
    """Ends the process with the code of the command without freeing every object one by one, which the system does
    faster. Anything else than an exit with a code, such as an interrupt, is left to Python."""

    code: str | int | None = None

    def __call__(self) -> None:
        gc.freeze()
        if isinstance(self.code, int):
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except (OSError, ValueError):
                return  # Python reports it
            os._exit(self.code)


def start() -> None:
    """Run a command, without startup and exit work that takes longer than a small query.

    NumPy's OpenBLAS starts one thread per core, and these spin although no command gives them work. Objects created
    while modules load live until exit, so garbage collection need not visit them again and again, nor at exit.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(YOUNG_OBJECTS)
    leave = _Exit()
    atexit.register(leave)  # before others register theirs, so that it is called after them
    try:
        main()
    except SystemExit as stop:
        leave.code = stop.code
        raise


if __name__ == "__main__":
    start()
