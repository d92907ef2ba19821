"""Where links out of a file lead, and how far they may lead: the same for both readers."""

from __future__ import annotations

import os
from pathlib import Path

from colonnade.errors import UnsupportedError

ORIGIN = "${ORIGIN}"
"""HDF5's word for the folder of the file, in prefixes."""


def first_place(name: str, folder: Path) -> Path | None:
    """The first file there is of those that HDF5 looks for, by this name in a file in this folder."""
    prefixes = [os.environ.get(word) for word in ("HDF5_VDS_PREFIX", "HDF5_EXT_PREFIX")]
    folders = [*(Path(prefix.replace(ORIGIN, str(folder))) for prefix in prefixes if prefix), folder, Path()]
    target = Path(name)
    names = [target, Path(target.name)] if target.is_absolute() else [target]
    for candidate in (base / wanted for wanted in names for base in folders):
        try:
            if candidate.exists():
                return candidate
        except (OSError, ValueError):
            continue
    return None


def refused_link(path: str, target: str) -> UnsupportedError:
    """The error about a path that leads to another file, which the link policy does not allow."""
    return UnsupportedError(
        f"{path} is reached through a link to {target!r}, which is not followed: by default links lead "
        "only to files in the folder of the file, and only in mode 'r'; if you trust the file, open it with "
        "links='any' (on the command line: --links any)",
        feature="external link",
        path=path,
        target=target,
    )
