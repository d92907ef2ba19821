"""Rooms and floors, and the command that writes the map of files into ARCHITECTURE.md.

    python -m tools.architecture            writes the map
    python -m tools.architecture --check    fails when the map is out of date

A room imports only rooms on lower floors, and those before it on its own. The files of one folder are one room.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "colonnade"
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- map: written by python -m tools.architecture -->", "<!-- end of map -->"

# From the ground up. A room imports rooms of lower floors, and of its own floor those that are named before it.
FLOORS: list[tuple[str, list[str]]] = [
    (
        "ground",
        [
            "errors",
            "dataclass",
            "limits",
            "arrays",
            "values",
            "kernels",
            "threads",
            "sealed",
            "compute",
            "model",
            "stored_dtypes",
            "selection",
            "predicate",
        ],
    ),
    ("file", ["pager", "filters", "nodes", "format", "reader", "h5", "writing", "opening"]),
    ("data", ["sparse", "columns", "indexes"]),
    ("layouts", ["layouts", "exchange", "row_files"]),
    ("verbs", ["query", "lists", "sorting", "edit", "checking"]),
    ("api", ["engines", "table", "anndata", "converting", "versions"]),
    ("doors", ["connect", "cli"]),
]
ONLY_IN = {
    "h5py": ("h5",),
    "hdf5plugin": ("h5",),
    "fsspec": ("h5", "opening"),
    "pandas": ("exchange",),
    "polars": ("exchange", "engines"),
    "duckdb": ("engines", "connect"),
    "dask": ("exchange", "anndata"),
    "xarray": ("exchange",),
    "scipy": ("sparse", "anndata"),
    "awkward": ("anndata",),
    "anndata": ("connect",),
    "click": ("cli",),
    "rich": ("cli",),
}


def place_of(room: str) -> tuple[int, int]:
    """The number of the floor a room is on, and its position there."""
    return next((number, rooms.index(room)) for number, (_, rooms) in enumerate(FLOORS) if room in rooms)


def room_of(path: Path) -> str:
    """The room a source file belongs to; the package's own __init__ is the front door, in no room."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


def source_files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a source file, made once."""
    return ast.parse(path.read_text())


@cache
def imported(path: Path) -> tuple[str, ...]:
    """The full names of all modules that a file imports when it runs, also inside functions."""
    return tuple(_imported(parsed(path)))


def _imported(tree: ast.Module) -> Iterator[str]:
    for_checker_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in node.body
    }
    for node in ast.walk(tree):
        if node in for_checker_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def wrong_imports() -> list[str]:
    """Every import that goes up, sideways, or to a package that only another room may import."""
    found = []
    for path in source_files():
        room = room_of(path)
        if room == "__init__":
            continue
        for name in imported(path):
            parts = name.split(".")
            where = path.relative_to(ROOT)
            if parts[0] in ONLY_IN and room not in ONLY_IN[parts[0]]:
                found.append(f"{where} imports {parts[0]}, which only {ONLY_IN[parts[0]]} may")
            if parts[0] != "colonnade" or len(parts) == 1 or parts[1].startswith("__"):
                continue
            other = parts[1]
            if other != room and place_of(other) > place_of(room):
                found.append(f"{where} (floor {place_of(room)[0]}) imports {other} (floor {place_of(other)[0]})")
            if room == other == "layouts" and _layout_of(path) and _is_other_layout(path, parts[2:3]):
                found.append(f"{where} imports layout {parts[2]}: layouts do not know each other")
    return sorted(set(found))


def _layout_of(path: Path) -> str | None:
    parts = path.relative_to(SOURCE).parts
    return parts[1] if len(parts) > 2 else None


def _is_other_layout(path: Path, below: list[str]) -> bool:
    """Whether this part of the room is the folder of another layout; its files are for all of them."""
    return bool(below) and below[0] != _layout_of(path) and below[0] in layout_names()


def layout_names() -> set[str]:
    """The names of the layouts, which are the names of their folders. Other folders are shared by several."""
    folders = (SOURCE / "layouts").glob("*/__init__.py")
    return {path.parent.name for path in folders if "LAYOUT" in defined_in(path)}


def defined_in(path: Path) -> set[str]:
    """The names that a module assigns."""
    targets = (node.targets for node in parsed(path).body if isinstance(node, ast.Assign))
    return {target.id for several in targets for target in several if isinstance(target, ast.Name)}


KEYS_OF_FACTS = {"columns"}
"""Names of layouts that are also keys of facts about tables: only imports show that a file names such a layout."""


def files_naming_layouts() -> list[str]:
    """The files above the layouts that import from the folder of a layout, or compare with its name."""
    floor = place_of("layouts")
    above = [path for path in source_files() if room_of(path) != "__init__" and place_of(room_of(path)) > floor]
    return [str(path.relative_to(SOURCE)) for path in above if _names_layout(path)]


def _names_layout(path: Path) -> bool:
    """Whether a file imports from a layout's folder, or has a layout's name in a comparison or as a key."""
    layouts = layout_names()
    if any(name.split(".")[:2] == ["colonnade", "layouts"] and name.split(".")[2:3] and name.split(".")[2] in layouts
           for name in imported(path)):  # fmt: skip
        return True
    for node in ast.walk(parsed(path)):
        compared = (
            [node.left, *node.comparators] if isinstance(node, ast.Compare)
            else [key for key in node.keys if key is not None] if isinstance(node, ast.Dict)
            else []
        )  # fmt: skip
        if any(isinstance(part, ast.Constant) and part.value in layouts - KEYS_OF_FACTS for part in compared):
            return True
    return False


def index_kind_names() -> set[str]:
    """The modules of the index kinds, and the names of the builders, indexes and kinds that they define."""
    names = set()
    for path in sorted((SOURCE / "indexes").glob("*.py")):
        own = {name for node in parsed(path).body for name in _kind_names(node)}
        if own:
            names |= {f"colonnade.indexes.{path.stem}", *own}
    return names


def _kind_names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef) and any(ast.unparse(base) in ("Index", "Builder") for base in node.bases):
        yield node.name
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "Kind":
        yield from map(ast.unparse, node.targets)


def files_naming_index_kinds() -> list[str]:
    """The files outside `indexes/` that import the module of an index kind, or name one of its classes."""
    kinds = index_kind_names()
    outside = [path for path in source_files() if room_of(path) != "indexes"]
    return [str(path.relative_to(SOURCE)) for path in outside if kinds & _named_in(path)]


def _named_in(path: Path) -> set[str]:
    """The modules that a file imports, with what is imported from them, and every name and attribute in it."""
    found = set(imported(path))
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name)
    return found


def drawn_floors() -> list[tuple[str, list[str]]]:
    """The floors as the drawing at the head of ARCHITECTURE.md shows them, from the ground up."""
    drawing = PAGE.read_text().split("```")[1]
    lines = [line.split() for line in drawing.strip().splitlines()]
    return [(name, [room.rstrip("/") for room in rooms]) for _, name, *rooms in reversed(lines)]


def room_sizes() -> dict[str, int]:
    """The number of files of each room. Here each layout, and the NumPy form of the kernels, is a separate room."""
    folders = [path.parent for path in source_files() if path.parent != SOURCE]
    return {str(folder.relative_to(SOURCE)): folders.count(folder) for folder in dict.fromkeys(folders)}


def longest_chain(room: str) -> int:
    """How many modules of a room import each other in a row."""
    prefix = f"colonnade.{room.replace('/', '.')}."
    inside = {path.stem: path for path in (SOURCE / room).glob("*.py") if path.stem != "__init__"}
    below = {
        name: {full[len(prefix) :].split(".")[0] for full in imported(path) if full.startswith(prefix)} & inside.keys()
        for name, path in inside.items()
    }
    depths: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in depths:
            depths[name] = 0  # late imports may form a cycle
            depths[name] = 1 + max((depth(other) for other in sorted(below[name]) if other != name), default=0)
        return depths[name]

    return max((depth(name) for name in sorted(inside)), default=0)


def first_line(path: Path) -> str:
    """The first line of a file's docstring."""
    text = ast.get_docstring(parsed(path)) or "(no docstring)"
    return text.splitlines()[0]


def map_text() -> str:
    """One line per file, floor by floor, from the ground up."""
    lines = [BEGIN, ""]
    for number, (name, rooms) in enumerate(FLOORS):
        if not rooms:
            continue
        lines += [f"**Floor {number}: {name}**", ""]
        for room in rooms:
            for path in source_files():
                if room_of(path) == room:
                    lines.append(f"- `{path.relative_to(SOURCE)}`: {first_line(path)}")
        lines.append("")
    lines += ["**Front door**", "", f"- `__init__.py`: {first_line(SOURCE / '__init__.py')}", "", END]
    return "\n".join(lines)


def page_text() -> str:
    """The text of ARCHITECTURE.md with the current map."""
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    return before + map_text() + rest.split(END)[1]


def main(arguments: list[str]) -> int:
    wanted = page_text()
    if "--check" in arguments:
        if wanted != PAGE.read_text():
            print("ARCHITECTURE.md is not true: run python -m tools.architecture")
            return 1
        return 0
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
