"""Whose fault a crash or a hang is: that of the HDF5 library, or ours. The C stack of the dying child says so.

`stack.c` writes it, where there is a C compiler to build that; else the Python stack must do.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

from tools.fuzz.children import Outcome

_PYTHON_FRAME = re.compile(r'  File "([^"]+)", line (\d+) in (\w+)')
_C_FRAME = re.compile(r"^(\S*?)(?:\(([^+)]*)(?:\+0x[0-9a-f]+)?\))?\[0x[0-9a-f]+\]$", re.MULTILINE)
_SYSTEM = re.compile(r"^(libc|libpthread|ld-linux|stack\.so|libpython|python|linux-vdso|libstdc|libgcc)")
_OWN_WAY = ("filters/undo.py", "filters/codecs.py", "filters/blosc.py", "h5/heap.py")
_watch: list[ctypes.CDLL] = []


def build_watch(folder: Path) -> None:
    """Build what tells the C stack, once; children then call `watch_deaths`."""
    compiler, made = shutil.which("cc"), folder / "stack.so"
    if compiler is None or _watch:
        return
    source = Path(__file__).with_name("stack.c")
    done = subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", made, source], capture_output=True, check=False)
    if done.returncode == 0:
        _watch.append(ctypes.CDLL(str(made)))


def watch_deaths() -> None:
    """Before faulthandler is enabled, which tells the Python stack first and then hands on."""
    for library in _watch:
        library.watch_deaths()


def blame(outcome: Outcome) -> str:
    """Of a child that ended: "ours: ..." or "libhdf5: ...", and where."""
    python, _, c_stack = outcome.trace.partition("C stack:\n")
    frames = _PYTHON_FRAME.findall(_main_thread(python))
    place = " < ".join(f"{Path(file).parent.name}/{Path(file).name}:{line} {name}" for file, line, name in frames[:4])
    stack = _shown(c_stack)
    owner = "libhdf5" if _is_of_hdf5(stack, place) else "ours"
    return f"{owner}: {outcome.trouble or ''} at {place} {' <c< '.join(stack[:5])}".rstrip()


def _main_thread(trace: str) -> str:
    """The part of the trace that tells of the thread at fault: of a hang, the one that is listed last."""
    return trace.rpartition("Current thread")[2] if "Current thread" in trace else trace.rpartition("Thread 0x")[2]


def _shown(c_stack: str) -> list[str]:
    """Functions and libraries, the innermost first, without those of the system and of Python itself."""
    frames = [(name, Path(library).name) for library, name in _C_FRAME.findall(c_stack)]
    return [f"{name or '?'}@{library.split('-')[0]}" for name, library in frames if not _SYSTEM.match(library)]


def _is_of_hdf5(stack: list[str], place: str) -> bool:
    """By the C stack, if there is one; else by the line of ours that was at work."""
    if stack:
        inner = [frame for frame in stack if "_native" in frame or "H5" in frame or "hdf5" in frame]
        return bool(inner) and "_native" not in inner[0]  # filters of plugins lie between
    inner = place.split(" < ", maxsplit=1)[0]  # type: ignore[assignment]
    return (inner.startswith("h5/") and not inner.startswith(_OWN_WAY)) or inner.startswith(("_hl/", "h5py/"))  # type: ignore[attr-defined]
