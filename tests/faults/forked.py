"""A process that forks in the middle of a transaction: `python -m tests.faults.forked <folder> <what it does>...`.

For each it prints what the child met, and that the parent's transaction came out whole.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import colonnade as cn
from colonnade.errors import ColonnadeError

N_ROWS = 1000


def rows(start: int, n_rows: int) -> pa.Table:
    return pa.table({"x": np.arange(start, start + n_rows), "name": [f"n{n}" for n in range(start, start + n_rows)]})


def child(what: str, file: cn.File, table: cn.Table, array: Any) -> str:
    """What the child does with the objects of its parent; says what it met."""
    if what == "close":
        file.close()
    elif what == "read":
        file["t"].to_arrow()
    elif what == "read h5":
        file.h5["image"][:]
    elif what == "stale read":
        array[:]
    elif what == "stale write":
        array[:] = 5.0
        array.file.flush()
    elif what == "length":
        len(table)
    elif what == "columns":
        str(table.columns)
    elif what == "append to table":
        table.append(rows(0, 5))
    elif what == "append":
        file["t"].append(rows(0, 5))
    elif what == "repack":
        file.repack()
    elif what == "sparse":
        cn.write_sparse(file, "s", (np.array([[0, 0]]), np.array([1.0]), (3, 3)))
    return "nothing"


def fork(what: str, file: cn.File, table: cn.Table, array: Any) -> None:
    """Fork; the parent goes on when the child is gone."""
    sys.stdout.flush()
    number = os.fork()
    if number:
        assert os.waitpid(number, 0)[1] == 0, "the child crashed"
        return
    if what == "leave":
        return
    if what == "raise":
        raise Left
    if what == "exit":
        sys.exit(0)
    met = "nothing"
    try:
        met = child(what, file, table, array)
    except (ColonnadeError, OSError, ValueError, RuntimeError, KeyError) as error:
        met = f"{type(error).__name__}: {error}"
    print(met)
    if what == "garbage":
        file.__dict__.clear()
        gc.collect()
    sys.stdout.flush()
    os._exit(0)


class Left(Exception):
    """The child leaves the block of the transaction."""


def main(folder: Path, what: str) -> None:
    path, parent = folder / f"{what}.h5", os.getpid()
    print(f"{what}: ", end="")
    cn.write(path, rows(0, N_ROWS), "t")
    with cn.open(path, "r+") as file:
        file.h5["image"] = np.zeros(5000)
    try:
        with cn.open(path, "r+") as file, file.transaction():
            array = file.h5["image"]
            array[:100] = 1.0
            table = file["t"]
            table.append(rows(N_ROWS, 300))
            fork(what, file, table, array)
            if os.getpid() == parent:
                file["t"].append(rows(N_ROWS + 300, 300))
    except (Left, ColonnadeError) as error:
        if os.getpid() == parent:
            raise
        print(f"{type(error).__name__}: {error}")
    if os.getpid() != parent:
        sys.exit(0)
    with cn.open(path) as file:
        assert file["t"].to_arrow().equals(rows(0, N_ROWS + 600)), "the parent's rows are not those it wrote"
        assert file.h5["image"][:].sum() == 100
    with cn.open(path, "r+", timeout=0) as file:
        file["t"].truncate(3)
    assert cn.check(path, deep=True) is not None
    print("whole")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        for each in sys.argv[2:]:
            main(Path(sys.argv[1]), each)
