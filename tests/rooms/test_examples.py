"""Every public name has a docstring, and every example in the docstrings runs.

Which names need an example: every function, every class, and every method of the classes that programs work with
(WORKED_WITH). A property needs a docstring; the example of its class suffices. So does it for the classes of plain
data, which functions return: their methods need a docstring too.

Examples find `cn`, `np` and `pa` imported, and run in an empty folder.
"""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn

WORKED_WITH = (
    "Attributes",
    "Column",
    "ColumnName",
    "Expression",
    "File",
    "Predicate",
    "Query",
    "SparseArray",
    "SparseMatrix",
    "Table",
)
PUBLIC = [name for name in cn.__all__ if name not in ("__version__", "errors")]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def members_of(kind: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties of a class that are defined in this package."""
    for base in reversed(kind.__mro__):
        for name, member in vars(base).items() if base.__module__.startswith("colonnade") else ():
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                yield f"{kind.__name__}.{name}", member


def documented() -> dict[str, object]:
    """Every public name, and every public member of the public classes."""
    found: dict[str, object] = {}
    for name in PUBLIC:
        public = getattr(cn, name)
        found[name] = public
        if isinstance(public, type):
            found.update(members_of(public))
    return found


DOCUMENTED = documented()


def needs_example(name: str) -> bool:
    kind = name.partition(".")[0]
    return "." not in name or (kind in WORKED_WITH and not isinstance(DOCUMENTED[name], property))


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_public_name_has_a_docstring(name: str) -> None:
    text = inspect.getdoc(DOCUMENTED[name])
    assert text
    assert text.split(">>>")[0].strip(), "an example without a sentence"


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if needs_example(name)])
def test_every_public_name_has_an_example(name: str) -> None:
    assert ">>>" in (DOCUMENTED[name].__doc__ or "")


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if ">>>" in (DOCUMENTED[name].__doc__ or "")])
def test_every_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name.endswith(".lazy"):
        pytest.importorskip("polars", "1.34")
    monkeypatch.chdir(tmp_path)
    names = {"cn": cn, "np": np, "pa": pa}
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(DOCUMENTED[name]) or "", names, name, None, None)
    report: list[str] = []
    failed, attempted = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append)
    assert attempted and not failed, "".join(report)
