"""Names that are defined in more than one module: classes, type aliases and constants.

    python -m tools.names            lists them, with the modules that define them

One noun has one meaning in the whole package (issue 19, 9). Functions are not counted: the modules of a family have
functions of the same name on purpose.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from tools.architecture import SOURCE, parsed, source_files

# What every module of a family has by contract, or what Python itself asks for.
SHARED = {"__all__", "T", "R", "R_co", "RULES", "NOT_SHOWN", "INDEX_HOME", "LAYOUT", "PART"}


def defined_names(tree: ast.Module) -> Iterator[str]:
    """The classes, type aliases and constants that a module defines for others or for itself."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def repeated_names() -> dict[str, list[str]]:
    """Each public name that several modules define, with those modules. Lower-case names are values, not nouns."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in source_files():
        for name in dict.fromkeys(defined_names(parsed(path))):
            if name not in SHARED and name[:1].isupper():
                homes[name].append(str(path.relative_to(SOURCE)))
    return {name: where for name, where in sorted(homes.items()) if len(where) > 1 and not _is_of_family(where)}


def _is_of_family(where: list[str]) -> bool:
    """Whether the modules have one name, in the folders of layouts: they are used under the name of their layout."""
    return len({path.rsplit("/", 1)[-1] for path in where}) == 1 and all(path.count("/") == 2 for path in where)


if __name__ == "__main__":
    for name, where in repeated_names().items():
        print(f"{name}: {', '.join(where)}")
