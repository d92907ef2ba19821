"""Receipts: which search indexes can be trusted. Kept in memory and in the user's cache folder.

A receipt records that an index was built here, or verified against its column, when the file was in a certain state:
its identity, size and times. It holds digests of all bytes of the index. It becomes invalid when the file's state
changes, unless the change was made here. A changed byte of the index is detected when it is read.

The folder is `$COLONNADE_CACHE`, or `colonnade` in the system's usual cache folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from colonnade.pager.safe_files import sweep_folder_once, written_whole

Trust = Literal["verified", "always", "never"]
IndexKey = tuple[str, str, str]
"""Path of the table, name of the column, name of the index."""
Receipts = dict[IndexKey, dict[str, Sequence[str]]]

_VERSION = 3


def cache_folder() -> Path:
    """The folder where receipts are kept. Raises OSError if there is none."""
    asked = os.environ.get("COLONNADE_CACHE")
    if asked:
        return Path(asked)
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / "colonnade"
    if sys.platform == "win32":  # pragma: no cover
        return Path(os.environ.get("LOCALAPPDATA") or _home()) / "colonnade" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "colonnade"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:  # a service, or a container with an odd user
        raise FileNotFoundError("there is no home folder, and therefore no cache folder") from error


def _receipt_path(path: Path) -> Path:
    """The path of the receipts of a file, derived from its resolved path."""
    asked = tuple(os.environ.get(name) for name in ("COLONNADE_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"))
    return _receipt_path_as(path, asked)


@lru_cache(maxsize=64)
def _receipt_path_as(path: Path, asked: tuple[str | None, ...]) -> Path:
    """The path of the receipts of a file, cached per environment setting, because every commit needs it."""
    try:
        from _blake2 import blake2b  # hashlib has the same, and loads OpenSSL, which takes two milliseconds
    except ImportError:
        from hashlib import blake2b
    name = blake2b(os.fsencode(path), digest_size=16).hexdigest()
    return cache_folder() / "receipts" / f"{name}.json"


def file_state(file: Path | os.stat_result) -> list[int]:
    """Numbers that differ as soon as a file was changed or replaced: ctime cannot be set back."""
    status = file.stat() if isinstance(file, Path) else file
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def load_receipts(path: Path, status: os.stat_result | None = None) -> Receipts:
    """The receipts that are valid for the file as it is now; none if that cannot be determined.

    status: of the open file, which may no longer be the one at its path.
    """
    import json

    try:
        stored = json.loads(_receipt_path(path).read_bytes())
        if stored["version"] != _VERSION or stored["state"] != file_state(status or path):
            return {}
        return {tuple(key): _checked(digests) for key, digests in stored["receipts"]}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _listed(digests: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {part: list(listed) for part, listed in digests.items()}


def _checked(digests: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    return {str(part): [str(digest) for digest in listed] for part, listed in digests.items()}


def save_receipts(path: Path, receipts: Receipts, state: list[int]) -> None:
    """Save receipts for the state of the open file, if the file at its path is in that state.

    If the cache cannot be written, they last as long as the process.
    """
    import json

    content = {"version": _VERSION, "file": str(path), "state": state,
               "receipts": [[list(key), _listed(digests)] for key, digests in receipts.items()]}  # fmt: skip
    try:
        if state != file_state(path):
            return
        target = _receipt_path(path)
        if not receipts:  # every commit calls this: write nothing if there is nothing to save
            target.unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep_folder_once(target.parent)
        with written_whole(target) as stream:
            stream.write(json.dumps(content).encode())
    except OSError:
        return
