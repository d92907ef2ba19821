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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO

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


def run(*words: str | Path, log: IO[str] | None = None, cwd: Path = ROOT, **environment: str) -> None:
    both = subprocess.STDOUT if log is not None else None
    subprocess.run(words, cwd=cwd, check=True, env={**os.environ, **environment}, stdout=log, stderr=both)


def try_interpreter(python: str, folder: Path, wheel: Path) -> tuple[bool, str]:
    """Whether the demo and some tests pass with this Python, and what they print."""
    with tempfile.TemporaryFile("w+") as log:
        try:
            _try_interpreter(partial(run, log=log), python, folder, wheel)
            passed = True
        except subprocess.CalledProcessError as error:
            print(error, file=log)
            passed = False
        log.seek(0)
        return passed, log.read()


def _try_interpreter(run: Callable[..., None], python: str, folder: Path, wheel: Path) -> None:
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
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            tries = {python: pool.submit(try_interpreter, python, home / name, wheel) for python, name in found.items()}
            results = {python: attempt.result() for python, attempt in tries.items()}
    for python, (passed, shown) in results.items():
        print(f"\n-- {python}: {'passed' if passed else 'FAILED'}\n{shown}", flush=True)
    failed = [python for python, (passed, _) in results.items() if not passed]
    if failed:
        sys.exit(f"Failed with: {', '.join(failed)}")
    print(f"\nDemo and tests passed with: {', '.join(found)}")


if __name__ == "__main__":
    main()
