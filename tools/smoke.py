"""The demo and a few tests under every Python from 3.11 to 3.14 that is found, with required packages only.

    python -m tools.smoke [FOLDER]      environments are kept in the folder, .venv-smoke by default

One wheel is built and installed everywhere, as for users: no extras, no editable install. Each interpreter runs the
demo with both forms of the kernels, `colonnade --version`, and the tests of tests/fast.txt.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.environment import make_environment

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = (3, 11), (3, 14)
TESTS = (ROOT / "tests" / "fast.txt").read_text().split()
ASK = "import os, sys; print(*sys.version_info[:3], os.path.realpath(getattr(sys, '_base_executable', sys.executable)))"
ROWS = "50000"


def interpreters() -> dict[str, str]:
    """Every Python that colonnade supports: its path, and a name for it."""
    found: dict[str, str] = {}
    for candidate in _candidates():
        asked = subprocess.run([candidate, "-c", ASK], capture_output=True, text=True, check=False)
        if asked.returncode:
            continue  # pyenv has commands for Pythons that are not selected; they fail
        major, minor, patch, path = asked.stdout.strip().split(" ", 3)
        if OLDEST <= (int(major), int(minor)) <= NEWEST:
            found.setdefault(path, f"{major}.{minor}.{patch}{re.sub(r'[^a-z0-9]+', '-', path.lower())}")
    return found


def _candidates() -> Iterator[str]:
    yield sys.executable
    names = ["python3", *(f"python3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1))]
    folders = [*os.get_exec_path(), "/usr/bin", "/usr/local/bin"]
    homes = [Path.home() / ".pyenv" / "versions", Path.home() / ".local" / "share" / "uv" / "python"]
    folders += [str(folder) for home in homes for folder in sorted(home.glob("*/bin"))]
    for folder in dict.fromkeys(folders):
        yield from (str(path) for name in names if os.access(path := Path(folder, name), os.X_OK))


def run(*words: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    subprocess.run(words, cwd=cwd, check=True, env={**os.environ, **environment})


def try_interpreter(python: str, folder: Path, wheel: Path) -> None:
    """The demo and some tests with this Python."""
    inside = make_environment(python, folder)
    pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, wheel, "pytest", "hypothesis")
    run(*pip, "--force-reinstall", "--no-deps", wheel)  # a rebuilt wheel may have the version that is installed already
    command = inside.parent / "colonnade"
    with tempfile.TemporaryDirectory() as place:
        run(command, "--version", cwd=Path(place))
        for form in ("", "numpy"):
            run(command, "demo", "--rows", ROWS, "--json", cwd=Path(place), COLONNADE_KERNELS=form)
    run(inside, "-m", "pytest", "-p", "no:cacheprovider", *TESTS)


def main() -> None:
    home = Path(sys.argv[1] if len(sys.argv) > 1 else ".venv-smoke").absolute()
    found = interpreters()
    with tempfile.TemporaryDirectory() as place:
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", place, ".")
        (wheel,) = Path(place).glob("*.whl")
        for number, (python, name) in enumerate(found.items(), 1):
            print(f"\n-- {number} of {len(found)}: {python}", flush=True)
            try_interpreter(python, home / name, wheel)
    print(f"\nDemo and tests passed with: {', '.join(found)}")


if __name__ == "__main__":
    main()
