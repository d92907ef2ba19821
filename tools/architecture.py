"""Rooms and floors, and the command that writes the map of files into ARCHITECTURE.md.

    python -m tools.architecture            writes the map
    python -m tools.architecture --check    fails when the map is not true

A room imports only rooms on lower floors. The files of one folder are one room.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "colonnade"
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- map: written by python -m tools.architecture -->", "<!-- end of map -->"

FLOORS: list[tuple[str, list[str]]] = [
    ("ground", ["dataclass", "errors", "kernels", "threads"]),
    ("words", ["model", "predicate", "selection", "leaf", "safe_files", "sealed"]),
    ("bytes and text", ["h5", "parse", "trust"]),
    ("bytes HDF5 cannot read", ["sparse"]),
    ("what is kept", ["columns"]),
    ("how it is found", ["indexes"]),
    ("where things are kept, and what comes in and goes out", ["layouts", "exchange"]),
    ("what keeps in step", ["indexing", "faces"]),
    ("verbs", ["query", "writing", "changes", "repack", "checking", "show", "versions", "foreign_tables"]),
    ("front room", ["table"]),
    ("beside it", ["elements"]),
    ("other packages and layouts", ["connect", "converting"]),
    ("doors", ["demo", "cli"]),
]
# A door may open another door: the command line starts the demo.
ALLOWED_BESIDE = {("cli", "demo")}
ONLY_IN = {
    "h5py": ("h5",),
    "hdf5plugin": ("h5",),
    "fsspec": ("h5",),
    "pandas": ("exchange",),
    "polars": ("exchange",),
    "scipy": ("sparse", "elements"),
    "awkward": ("elements",),
    "anndata": ("connect",),
    "click": ("cli",),
    "rich": ("cli",),
}


def floor_of(room: str) -> int:
    """The number of the floor a room is on."""
    return next(number for number, (_, rooms) in enumerate(FLOORS) if room in rooms)


def room_of(path: Path) -> str:
    """The room a source file belongs to; the package's own __init__ is the front door, in no room."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


def source_files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """The full names of all modules that a file imports when it runs, also inside functions."""
    tree = ast.parse(path.read_text())
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
    """Every import that goes up, sideways, or to a package kept in another room."""
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
            if other != room and floor_of(other) >= floor_of(room) and (room, other) not in ALLOWED_BESIDE:
                found.append(f"{where} (floor {floor_of(room)}) imports {other} (floor {floor_of(other)})")
            if room == other == "layouts" and _layout_of(path) and _is_other_layout(path, parts[2:3]):
                found.append(f"{where} imports layout {parts[2]}: layouts do not know each other")
    return sorted(set(found))


def _layout_of(path: Path) -> str | None:
    parts = path.relative_to(SOURCE).parts
    return parts[1] if len(parts) > 2 else None


def _is_other_layout(path: Path, below: list[str]) -> bool:
    """Whether this part of the room is the folder of another layout; its files are for all of them."""
    return bool(below) and below[0] != _layout_of(path) and (SOURCE / "layouts" / below[0]).is_dir()


def first_line(path: Path) -> str:
    """The first line of a file's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text())) or "(no docstring)"
    return text.splitlines()[0]


def map_text() -> str:
    """A line for each file, floor by floor, from the ground up."""
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
    """ARCHITECTURE.md as it should be."""
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
