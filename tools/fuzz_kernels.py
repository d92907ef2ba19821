"""Calls kernels with valid arguments that were then corrupted, for a given time: for use under sanitizers.

    python -m tools.fuzz_kernels [--seconds 20] [--seed 0]

A call may only return an answer or raise (ValueError; TypeError and OverflowError for arguments that are not a number
of bytes at all). The sanitizer detects reads and writes beyond a buffer, see ./sanitize.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
from bench.kernels import FAMILIES, Case

from colonnade.kernels import _native as native

KINDS = ["i1", "u1", "i2", "i4", "u4", "i8", "u8", "f4", "f8", ">i4", "?", "S3"]
WHOLE = [-1, 0, 1, 2, 3, 7, 8, 9, 16, 63, 64, 65, 255, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), 2**64]


def spoil_array(chance: random.Random, array: Any) -> Any:
    """A copy of the array that is shorter, longer, of another type, unaligned, or has changed bytes."""
    data = bytearray(array.tobytes())
    how = chance.randrange(6)
    if how == 0:
        del data[chance.randrange(len(data) + 1) :]
    elif how == 1:
        data += chance.randbytes(chance.randrange(40))
    elif how == 2 and len(data) > 1:
        return np.frombuffer(bytes(1) + data[: len(data) // array.itemsize * array.itemsize], "u1")[1:].view(
            array.dtype
        )
    elif how == 3:
        kind = np.dtype(chance.choice(KINDS))
        return np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)
    else:
        for _ in range(chance.randrange(1, 9)):
            if data:
                data[chance.randrange(len(data))] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
    return np.frombuffer(data[: len(data) // array.itemsize * array.itemsize], array.dtype)


def spoil(chance: random.Random, argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return spoil_array(chance, argument)
    if isinstance(argument, bytes):
        return spoil_array(chance, np.frombuffer(argument, "u1")).tobytes()
    if argument is None:
        return chance.choice([None, np.zeros(chance.randrange(300), "u1"), b"\0" * chance.choice([1, 2, 4, 8]), 0.5, 3])
    return chance.choice([*WHOLE, 1.5, float("nan"), None, argument])


def call(chance: random.Random, case: Case, counts: Counter[str]) -> None:
    arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in case.arguments]
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        place = chance.randrange(len(arguments))
        arguments[place] = spoil(chance, arguments[place])
    try:
        getattr(native, case.kernel)(*arguments)
        counts["answered"] += 1
    except ValueError:
        counts["refused"] += 1
    except (TypeError, OverflowError):
        counts["of a wrong type"] += 1


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    chance, counts, kernels = random.Random(asked.seed), Counter[str](), set()
    end = time.monotonic() + asked.seconds
    while time.monotonic() < end:
        n = chance.choice([1, 8, 9, 17, 100, 300])
        for family in FAMILIES:
            for case in family(n):
                kernels.add(case.kernel)
                for _ in range(10):
                    call(chance, case, counts)
    print(f"{len(kernels)} kernels: {dict(counts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
