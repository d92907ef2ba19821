"""Makes a virtual environment, also if Python has no pip (Debian's without python3-venv).

    python tools/environment.py PYTHON FOLDER

Needs nothing but Python itself.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def make_environment(python: str, folder: Path) -> Path:
    """The Python of the environment in this folder; `python` makes the environment if it does not exist."""
    inside = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if _has_pip(inside):
        return inside
    shutil.rmtree(folder, ignore_errors=True)
    tried = subprocess.run([python, "-m", "venv", folder], capture_output=True, text=True, check=False)
    if tried.returncode == 0:
        return inside
    subprocess.run([python, "-m", "venv", "--clear", "--without-pip", folder], capture_output=True, check=False)
    for other in (python, sys.executable):
        subprocess.run([other, "-m", "pip", "--python", inside, "install", "--quiet", "pip"], check=False)
        if _has_pip(inside):
            return inside
    shutil.rmtree(folder, ignore_errors=True)
    output = (tried.stderr or tried.stdout).strip()
    raise SystemExit(
        f"cannot make an environment with {python}: {output}\n"
        "Install its venv and pip (Debian and Ubuntu: apt-get install python3-venv), or give another PYTHON."
    )


def _has_pip(python: Path) -> bool:
    if not python.exists():
        return False
    return subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    make_environment(sys.argv[1], Path(sys.argv[2]))
