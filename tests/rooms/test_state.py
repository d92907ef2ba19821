"""What the package keeps for the whole process is listed here with its reason; nothing can be added silently."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import architecture

CONTAINERS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
ALWAYS_CHANGED = {"deque", "defaultdict", "OrderedDict", "Counter", "WeakSet", "WeakValueDictionary",
                  "WeakKeyDictionary", "local", "count"}  # fmt: skip
CHANGES = {"append", "appendleft", "add", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove",
           "setdefault", "update"}  # fmt: skip

STATE = {
    # of open files
    "h5/vetting.py _OPEN_FILES": "the one map from open files to their `OpenFile`: handles of h5py cannot carry it",
    "h5/vetting.py _RECENT": "keeps the `OpenFile` of files that others opened for a while",
    "h5/files.py _HANDLES": "libhdf5 keeps one memory of a file for all readers of a process; forks disown writers",
    "h5/outside.py REFUSED": "libhdf5 calls back without saying for which open, and does not report the reason",
    "pager/interrupts.py OPEN_FOR_CHANGES": "signal handlers belong to the process, and are wrapped while it has any",
    "table/sparse.py _WARNED": "a warning is given once per process, as Python's own are",
    # of the process
    "limits.py now": "the limits in use; tests install others",
    "pager/interrupts.py _SHIELDED": "functions marked when their module is imported",
    "threads.py _POOLS": "pools of threads belong to the process",
    "threads.py _HERE": "whether this thread belongs to a pool",
    "threads.py _HELD": "h5py's lock belongs to the process; it is not known down here",
    "h5/datasets.py _SCRATCH_NUMBERS": "names of scratch files in memory, which libhdf5 shares in the process",
}
"""Containers that change."""

OF_TYPES = "a function of stored types and options, which are plain data"
OF_NAMES = "a function of the path's text, asked for before and after every read"
CACHES = {
    "columns/encode.py _fast_encoder": OF_TYPES,
    "columns/mapping.py _plain_default": OF_TYPES,
    "filters/apply.py _loaded_zlib": "imported once",
    "filters/codecs.py _loaded_libdeflate": "imported once",
    "filters/undo.py scale_offset_form": OF_TYPES,
    "format/source.py _decode_once": "a function of bytes of messages, which are the key; at most 512 of each",
    "format/global_heap.py _decode_once": "the bytes that are decoded are part of the key; at most 1 MiB of them",
    "h5/capi.py _depth_place": "a property of h5py's lock, of which there is one",
    "h5/datatypes.py _number_type": OF_TYPES,
    "h5/links.py _without_cache": "a list of libhdf5 that never changes",
    "h5/outside.py access_by": "three lists of libhdf5 that never change",
    "layouts/artifactdb/metadata.py _read_once": "the state of the document is part of the key",
    "pager/marks.py journal_path": OF_NAMES,
    "pager/locks.py lock_path": OF_NAMES,
    "pager/receipts.py _receipt_path_as": OF_NAMES,
    "pager/safe_files.py sweep_folder_once": "what killed processes left is looked for once",
    "pager/scratch.py _sweep_scratch_once": "what killed processes left is looked for once",
    "query/scan.py _memory": "the memory of the machine",
    "sparse/chunk.py _packer": OF_TYPES,
    "sparse/chunk.py _pipeline": OF_TYPES,
    "sparse/selections.py _lead": OF_TYPES,
    "stored_dtypes.py memory_dtype": OF_TYPES,
}
"""Functions whose results are kept."""


def changed_names(tree: ast.Module) -> Iterator[str]:
    """Names of variables and attributes that functions of a file change in place."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda))
    for node in (inside for function in functions for inside in ast.walk(function)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = [target.value for target in node.targets if isinstance(target, ast.Subscript)]
        elif isinstance(node, ast.AugAssign):
            targets = [node.target.value if isinstance(node.target, ast.Subscript) else node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            targets = [node.func.value]
        for target in targets:
            if isinstance(target, ast.Name | ast.Attribute):
                yield target.id if isinstance(target, ast.Name) else target.attr


def assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value
        elif isinstance(node, ast.ClassDef):
            yield from assigned(node.body)


def containers(tree: ast.Module, changed: set[str]) -> Iterator[str]:
    """Containers of a module or a class that start empty, or are changed somewhere; and names declared `global`."""
    for name, value in assigned(tree.body):
        if isinstance(value, ast.Call):
            called = ast.unparse(value.func).rsplit(".", 1)[-1]
            is_container = called in ALWAYS_CHANGED or (called in ("dict", "list", "set") and name in changed)
        else:
            is_empty = isinstance(value, ast.Dict | ast.List | ast.Set) and not list(ast.iter_child_nodes(value))[:-1]
            is_container = isinstance(value, CONTAINERS) and (is_empty or name in changed)
        if is_container:
            yield name
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names


def caches(tree: ast.Module) -> Iterator[str]:
    """Functions of a module whose results are kept."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(is_cache(decorator) for decorator in node.decorator_list):
            yield node.name


def is_cache(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).split("(")[0].rsplit(".", 1)[-1] in ("cache", "lru_cache")


def listed(found: Iterator[tuple[Path, str]]) -> set[str]:
    return {f"{path.relative_to(architecture.SOURCE).as_posix()} {name}" for path, name in found}


def state(trees: dict[Path, ast.Module]) -> set[str]:
    changed = {name for tree in trees.values() for name in changed_names(tree)}
    return listed((path, name) for path, tree in trees.items() for name in containers(tree, changed))


def package() -> dict[Path, ast.Module]:
    return {path: architecture.parsed(path) for path in architecture.source_files()}


def test_containers_that_change_are_listed() -> None:
    assert state(package()) == set(STATE)


def test_functions_that_keep_results_are_listed() -> None:
    assert listed((path, name) for path, tree in package().items() for name in caches(tree)) == set(CACHES)


@pytest.mark.parametrize(
    "source",
    [
        "PLANTED: dict[str, int] = {}",
        "PLANTED = {'a': 1}\ndef f(): PLANTED['b'] = 2",
        "PLANTED = [1]\ndef f(): PLANTED.append(2)",
        "PLANTED = {1}\ndef f():\n    global PLANTED\n    PLANTED |= {2}",
        "PLANTED = weakref.WeakSet()",
        "class Reader:\n    PLANTED: ClassVar[dict[str, int]] = {}",
    ],
)
def test_a_new_container_is_seen(source: str) -> None:
    place = architecture.SOURCE / "query" / "plan.py"
    assert state({**package(), place: ast.parse(source)}) - set(STATE) == {"query/plan.py PLANTED"}


def test_a_new_cache_is_seen() -> None:
    assert list(caches(ast.parse("import functools\n@functools.lru_cache(maxsize=8)\ndef f(path): ..."))) == ["f"]
