"""`cn.show_versions()` and `colonnade --version`: what is installed, and which form the kernels have."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import colonnade as cn
from colonnade import kernels, versions
from colonnade.cli import main

PROJECT = Path(__file__).parent.parent.parent / "pyproject.toml"


def fresh(code: str) -> list[str]:
    """Lines that a process of its own prints."""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


def test_every_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    cn.show_versions()
    shown = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in capsys.readouterr().out.splitlines() if "  " in line)
    assert shown["colonnade"] == cn.__version__
    assert shown["kernels"].startswith("C" if kernels.FORM == "c" else "NumPy")
    assert shown["Python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert shown["numpy"] == np.__version__
    assert (shown["h5py"], shown["HDF5"]) == (h5py.__version__, h5py.version.hdf5_version)
    assert {"pyarrow", "click", "rich"} <= shown.keys()


def test_the_command_shows_the_same() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.stdout.rstrip("\n")) == (0, versions.versions_text())


def test_every_declared_package_is_looked_for() -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = [given for name, some in project["optional-dependencies"].items() if name != "test" for given in some]
    declared = {re.match(r"[\w-]+", given)[0] for given in [*project["dependencies"], *extras]}
    assert declared - {"colonnade"} <= {*versions.REQUIRED, *versions.OPTIONAL}


def test_a_package_that_is_not_there_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "OPTIONAL", ("no-such-package",))
    assert versions.versions_text().endswith("not installed: no-such-package")


def test_the_numpy_form_is_reported_with_the_reason() -> None:
    show = "import colonnade; colonnade.show_versions()"
    not_built = f"import sys; sys.modules['colonnade.kernels._native'] = None; {show}"
    assert "kernels     NumPy, which is slower: the C form was not built" in fresh(not_built)[1]
    asked = f"import os; os.environ['COLONNADE_KERNELS'] = 'numpy'; {show}"
    assert fresh(asked)[1].endswith("COLONNADE_KERNELS=numpy is set")


def test_a_c_form_that_cannot_be_loaded_is_reported() -> None:
    code = """
import sys
class Broken:
    def find_spec(self, name, path, target=None):
        if name == "colonnade.kernels._native":
            raise ImportError("undefined symbol: x")
sys.meta_path.insert(0, Broken())
import colonnade
colonnade.show_versions()
"""
    assert fresh(code)[1].endswith("slower: the C form cannot be loaded: undefined symbol: x")


def test_nothing_is_looked_for_until_asked() -> None:
    assert fresh("import sys, colonnade.cli; print('colonnade.versions' in sys.modules, 'h5py' in sys.modules)") == [
        "False False"
    ]
