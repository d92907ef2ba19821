"""Limits are varied in one way: by `limits.override`; no test sets a constant of the package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import pytest
from tools import architecture

from colonnade import limits
from colonnade.dataclass import replace

TESTS = Path(__file__).parent.parent
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")
ALLOWED = {
    "DISK": "a disk that fails",
    "PAGE": "another ARCHITECTURE.md",
    "OPTIONAL": "a package that is not installed",
    "RULES": "rules left out, to see that the kit notices",
}


def test_override_changes_some_limits_for_a_while() -> None:
    usual = limits.now
    with limits.override(piece_bytes=16):
        assert limits.now == replace(usual, piece_bytes=16)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: limits.now.piece_bytes).result() == 16
        with pytest.raises(KeyError), limits.override(long_run=3):
            assert (limits.now.piece_bytes, limits.now.long_run) == (16, 3)
            raise KeyError
        assert limits.now.long_run == usual.long_run
    assert limits.now is usual


def test_override_refuses_an_unknown_limit() -> None:
    with pytest.raises(TypeError, match="pieces"), limits.override(pieces=1):
        pass


def test_every_limit_is_used() -> None:
    sources = "".join(path.read_text() for path in architecture.source_files())
    assert [limit.name for limit in fields(limits.Limits) if f"limits.now.{limit.name}" not in sources] == []


def constants_set(tree: ast.Module) -> Iterator[str]:
    """Constants of other modules that a file sets: by assignment, `setattr` or `patch.object`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.endswith(("setattr", "patch.object", "patch")):
                yield from constants_in(node.args[:2])
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in (inside for one in targets for inside in ast.walk(one)):
                if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                    yield from [target.attr] if CONSTANT.fullmatch(target.attr) else []


def constants_in(arguments: list[ast.expr]) -> Iterator[str]:
    for argument in arguments:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            name = argument.value.rsplit(".", 1)[-1]
            if CONSTANT.fullmatch(name):
                yield name


def test_no_test_sets_a_constant() -> None:
    found = {
        (path.relative_to(TESTS).as_posix(), name)
        for path in sorted(TESTS.rglob("*.py"))
        for name in constants_set(ast.parse(path.read_text()))
    }
    assert {(path, name) for path, name in found if name not in ALLOWED} == set()
    assert {name for _, name in found} == set(ALLOWED)


@pytest.mark.parametrize(
    "source",
    [
        "monkeypatch.setattr(raw, 'PIECE_BYTES', 16)",
        "patch.setattr('colonnade.columns.raw._PIECE_BYTES', 16)",
        "with patch.object(raw, 'PIECE_BYTES', 16): pass",
        "raw.PIECE_BYTES, raw.other = 16, 3",
        "raw.PIECE_BYTES //= 2",
    ],
)
def test_a_constant_that_is_set_is_seen(source: str) -> None:
    assert [name.lstrip("_") for name in constants_set(ast.parse(source))] == ["PIECE_BYTES"]
