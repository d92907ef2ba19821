"""The public surface: types that can be imported from colonnade, and options that are spelt out."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, get_args

import pytest

import colonnade as cn
from colonnade.edit.create import TableOptions
from colonnade.errors import UsageError
from colonnade.sparse.create import SparseOptions


@cache
def type_checking_imports(module: str) -> dict[str, tuple[str, str]]:
    """The names that a module imports for type checkers only: where each comes from, and its name there."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: (node.module or "", alias.name) for node in imports for alias in node.names}


def named(module: str, name: str) -> object | None:
    """What a name in an annotation of a module stands for; None for names of packages that are not imported."""
    if name in vars(sys.modules[module]):
        return vars(sys.modules[module])[name]
    if name in type_checking_imports(module):
        home, there = type_checking_imports(module)[name]
        return getattr(import_module(home), there)
    return None


def our_classes(meaning: object) -> Iterator[type]:
    """The classes of colonnade in a type or an alias of types."""
    if isinstance(meaning, type) and not get_args(meaning):
        if meaning.__module__.split(".")[0] == "colonnade":
            yield meaning
        return
    for part in get_args(meaning):
        for inner in part if isinstance(part, list) else [part]:
            yield from our_classes(inner)


def classes_in(annotation: str, module: str) -> set[type]:
    names = {node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)}
    return {kind for name in names for kind in our_classes(named(module, name))}


def functions_of(public: Any) -> Iterator[tuple[str, FunctionType]]:
    """A function itself, or the public methods and properties of a class, with their names."""
    if isinstance(public, FunctionType):
        yield public.__name__, public
        return
    for base in public.__mro__ if isinstance(public, type) else ():
        for name, member in vars(base).items() if base.__module__.startswith("colonnade") else ():
            function = inspect.unwrap(getattr(member, "fget", member))
            if not name.startswith("_") and isinstance(function, FunctionType):
                yield f"{public.__name__}.{name}", function


def fields_of(public: Any) -> Iterator[tuple[str, str, str]]:
    """The public fields of a class of plain data: name, annotation and module."""
    for base in public.__mro__ if isinstance(public, type) else ():
        for name, annotation in vars(base).get("__annotations__", {}).items():
            if not name.startswith("_") and base.__module__.startswith("colonnade"):
                yield f"{public.__name__}.{name}", getattr(annotation, "__forward_arg__", annotation), base.__module__


def annotated(public: Any) -> Iterator[tuple[str, str, str]]:
    """Every annotation of a public name: of what it is, the annotation, and the module in which it stands."""
    yield from fields_of(public)
    for name, function in functions_of(public):
        for parameter, annotation in function.__annotations__.items():
            yield f"{name}({parameter})", annotation, function.__module__


PUBLIC = [name for name in cn.__all__ if not name.startswith("_")]
ROOT = Path(cn.__file__).parents[2]


def is_importable(kind: type) -> bool:
    """Whether a class is in colonnade, or in colonnade.errors, under its own name."""
    listed = kind.__name__ in cn.__all__ and getattr(cn, kind.__name__) is kind
    return listed or getattr(cn.errors, kind.__name__, None) is kind


@pytest.mark.parametrize("name", PUBLIC)
def test_every_type_that_a_public_name_mentions_can_be_imported(name: str) -> None:
    """Of its parameters and results, its methods, its properties and its fields; so also of what these return."""
    missing = {
        f"{kind.__module__}.{kind.__name__}, in {where}"
        for where, annotation, module in annotated(getattr(cn, name))
        for kind in classes_in(annotation, module)
        if not is_importable(kind)
    }
    assert not missing


def test_every_value_that_an_element_can_be_read_as_can_be_imported() -> None:
    """`read_element` returns Any, so its classes are not found in annotations."""
    assert [kind for kind in our_classes_in("colonnade.anndata") if not is_importable(kind)] == []


def our_classes_in(module: str) -> list[type]:
    return [
        kind for name in import_module(module).__all__ if isinstance(kind := getattr(sys.modules[module], name), type)
    ]


def test_the_lists_of_public_names_agree() -> None:
    """What is exported, what is imported on request, what type checkers see, and what dir lists."""
    seen_by_checkers = set(type_checking_imports("colonnade"))
    assert set(cn.__all__) == seen_by_checkers | {"__version__"} == set(cn._HOMES) | {"__version__", "column", "errors"}
    assert dir(cn) == sorted(cn.__all__)
    assert cn.__all__ == sorted(set(cn.__all__))


def options_of(takes: Any) -> dict[str, tuple[object, object]]:
    """The keyword options of a function, or the fields of a class of options: each with its type and default."""
    parameters = inspect.signature(takes).parameters.values()
    either = takes.__annotations__
    apart = ("mode", "progress") if isinstance(takes, FunctionType) else ()
    return {
        one.name: (either[one.name], one.default)
        for one in parameters
        if one.kind is one.KEYWORD_ONLY or isinstance(takes, type)
        if one.name not in apart
    }


OPTIONS = {
    "write": (cn.write, TableOptions, ()),
    "create": (cn.File.create, TableOptions, ()),
    "add_column": (cn.Table.add_column, cn.ColumnOptions, ("allow_reserved",)),
    "replace_column": (cn.Table.replace_column, cn.ColumnOptions, ()),
    "create_sparse": (cn.create_sparse, SparseOptions, ("shape", "dtype", "n_threads")),
    "write_sparse": (cn.write_sparse, SparseOptions, ("dtype", "n_threads")),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_spelt_out(name: str) -> None:
    """Names, types and defaults are those of the class of options, and each is passed on under its name."""
    function, options, apart = OPTIONS[name]
    spelt = {name: option for name, option in options_of(function).items() if name not in apart}
    wanted = options_of(options)
    if function is cn.write_sparse:
        del wanted["dense"]  # for variable-length data, which it does not write
    assert spelt == wanted
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    passed = [
        {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == options.__name__
    ]
    assert passed == [{name: name for name in spelt}]


@pytest.mark.parametrize("call", ["write", "create", "add_column", "replace_column"])
def test_a_misspelt_option_names_the_nearest(tmp_path: Path, call: str) -> None:
    path = tmp_path / "a.h5"
    cn.write(path, {"x": [1]}, "t")
    before = path.read_bytes()
    calls: dict[str, Callable[..., object]] = {
        "write": partial(cn.write, path, {"x": [1]}, "u"),
        "create": lambda **options: cn.open(path, "r+").create("u", {"x": [1]}, **options),
        "add_column": lambda **options: cn.open_table(path, "t", "r+").add_column("y", [1], **options),
        "replace_column": lambda **options: cn.open_table(path, "t", "r+").replace_column("x", [1], **options),
    }
    with pytest.raises(UsageError, match="did you mean 'description'"):
        calls[call](descripton="x")
    assert path.read_bytes() == before


def test_a_misspelt_option_is_a_type_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mypy reports it for every function that takes options, and nothing where the names are right."""
    api = pytest.importorskip("mypy.api", reason="./test --oldest installs no checkers")

    given = tmp_path / "given.py"
    given.write_text(
        "import colonnade as cn\n"
        'cn.write("a.h5", {"x": [1]}, titel="x")\n'
        'cn.open("a.h5").create("t", {"x": [1]}, titel="x")\n'
        'cn.open_table("a.h5").add_column("y", [1], unit="m")\n'
        'cn.open_table("a.h5").replace_column("y", [1], unit="m")\n'
        'cn.open_table("a.h5").build_index("y", "bitmap", max_value=3)\n'
        'cn.write("a.h5", {"x": [1]}, title="x", index={"x": "bitmap"}, columns={"x": cn.column(units="m")})\n'
    )
    monkeypatch.chdir(ROOT)
    report, _, _ = api.run(["--config-file", str(ROOT / "pyproject.toml"), str(given)])
    errors = [line.split(":", 1)[1] for line in report.splitlines() if ": error:" in line]
    assert [
        (int(line.split(":")[0]), word) for line, word in zip(errors, WRONG, strict=True) if f'"{word}"' in line
    ] == [(number, word) for number, word in enumerate(WRONG, start=2)], report


WRONG = ["titel", "titel", "unit", "unit", "max_value"]
