"""Describes the machine, and limits all peers to the same number of cores."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

CALIBRATED_BYTES = 256 << 20
CACHED_BYTES = 256 << 10


def hold_to(threads: int) -> None:
    """Limit this process to this number of cores, and set it for libraries that choose their own number of threads.

    Call this before the libraries are imported: they read the settings on import.
    """
    for name in (
        "POLARS_MAX_THREADS",
        "LANCE_CPU_THREADS",
        "NUMEXPR_MAX_THREADS",
        "OMP_NUM_THREADS",
        "RAYON_NUM_THREADS",
    ):
        os.environ[name] = str(threads)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import pyarrow

    pyarrow.set_cpu_count(threads)


@dataclass(frozen=True)
class CopySpeed:
    """Bytes per second of CPU time that one core reads from the page cache of the system."""

    into_new_memory: float
    """Into memory that was just allocated, as for an answer."""
    into_cache: float
    """Into a small buffer that is used again and again, as for a sum."""


def copy_speed() -> CopySpeed:
    """Measure the speed of this machine: the best of five. numpy must be limited to its cores already."""
    with TemporaryFile() as file:
        file.write(bytes(CALIBRATED_BYTES))
        file.flush()
        buffer = memoryview(bytearray(CACHED_BYTES))
        fresh, cached = [], []
        for _ in range(5):
            started = time.process_time()
            os.preadv(file.fileno(), [np.empty(CALIBRATED_BYTES, "u1").data], 0)
            fresh.append(time.process_time() - started)
            started = time.process_time()
            for at in range(0, CALIBRATED_BYTES, CACHED_BYTES):
                os.preadv(file.fileno(), [buffer], at)
            cached.append(time.process_time() - started)
    return CopySpeed(CALIBRATED_BYTES / min(fresh), CALIBRATED_BYTES / min(cached))


def facts() -> dict[str, object]:
    """A short description of the machine."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": [round(one, 2) for one in os.getloadavg()] if hasattr(os, "getloadavg") else None,
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, ValueError, OSError):
        return None
