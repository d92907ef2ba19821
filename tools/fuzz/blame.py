"""Whose fault a crash or a hang is: that of the HDF5 library, or ours. The C stack says so where there is a gdb."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.fuzz.children import Outcome

_PYTHON_FRAME = re.compile(r'  File "([^"]+)", line (\d+) in (\w+)')
_C_FRAME = re.compile(r"^#\d+\s+(?:0x[0-9a-f]+ in )?(\S+) .*?(?:from (\S+))?$", re.MULTILINE)
_SYSTEM = re.compile(r"libc|libpthread|ld-linux")
_OWN_WAY = ("h5/undo.py", "h5/codecs.py", "h5/blosc.py", "h5/heap.py")
_ROOT = Path(__file__).resolve().parents[2]
_known: dict[str, str] = {}


def blame(outcome: Outcome, path: Path) -> str:
    """Of a child that ended: "ours: ..." or "libhdf5: ...", and where."""
    frames = _PYTHON_FRAME.findall(_main_thread(outcome.trace))
    place = " < ".join(f"{Path(file).parent.name}/{Path(file).name}:{line} {name}" for file, line, name in frames[:4])
    kind = outcome.trouble or ""
    key = f"{kind} {place}"
    if kind.startswith("crash") and key not in _known:
        _known[key] = _c_stack(path)
    stack = _known.get(key, "")
    owner = "libhdf5" if _is_of_hdf5(stack, place) else "ours"
    return f"{owner}: {kind} at {place} {stack}"


def _main_thread(trace: str) -> str:
    """The part of the trace that tells of the thread at fault: of a hang, the one that is listed last."""
    return trace.rpartition("Current thread")[2] if "Current thread" in trace else trace.rpartition("Thread 0x")[2]


def _c_stack(path: Path) -> str:
    """The innermost C functions when the file is read once more, under gdb."""
    gdb = shutil.which("gdb")
    if gdb is None:
        return ""
    command = [
        gdb,
        "-q",
        "-batch",
        "-ex",
        "run",
        "-ex",
        "bt 14",
        "-iex",
        "set auto-load off",
        "--args",
        sys.executable,
        "-m",
        "tools.fuzz",
        "--one",
        str(path),
    ]
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, cwd=_ROOT).stdout
    except subprocess.TimeoutExpired:
        return ""
    frames = [(name, Path(library).name if library else "") for name, library in _C_FRAME.findall(text)]
    inner = [f"{name}@{library.split('-')[0]}" for name, library in frames if not _SYSTEM.search(library)]
    return " <c< ".join(inner[:5])


def _is_of_hdf5(stack: str, place: str) -> bool:
    """By the C stack, if there is one; else by the line of ours that was at work."""
    if stack:
        inner = [frame for frame in stack.split(" <c< ") if "_native" in frame or "H5" in frame or "hdf5" in frame]
        return bool(inner) and "_native" not in inner[0]  # filters of plugins lie between
    inner = place.split(" < ", maxsplit=1)[0]
    return (inner.startswith("h5/") and not inner.startswith(_OWN_WAY)) or inner.startswith(("_hl/", "h5py/"))
