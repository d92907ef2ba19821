"""What can be mended in an ArtifactDB data frame without touching data: its search indexes, and its metadata."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from colonnade.layouts.artifactdb.metadata import Metadata, metadata_beside, read_claim
from colonnade.layouts.artifactdb.publish import as_must_be, write_anew
from colonnade.layouts.artifactdb.search import search_indexes
from colonnade.layouts.artifactdb.seen import SeenFrame
from colonnade.layouts.index_home import IndexPlan
from colonnade.layouts.named_indexes import index_plans, remove_planned
from colonnade.model import Repair


def bad_indexes(frame: SeenFrame, wrong: Collection[str]) -> list[IndexPlan]:
    """The indexes that must go. `wrong` are the names of those whose contents are wrong."""
    return index_plans(search_indexes(frame.group, frame.info), frame.info, "DI1", wrong)


def remove_indexes(frame: SeenFrame, gone: Sequence[IndexPlan]) -> None:
    """Remove indexes and their values."""
    remove_planned(frame.group, search_indexes(frame.group, frame.info), gone)


def repairs(frame: SeenFrame, _gone: Collection[int]) -> list[Repair]:
    """Metadata that a file has left behind, by their md5 sum, names or dimensions: written anew from the frame.

    Of legacy frames only the md5 sum can be: what they hold the metadata alone say.
    """
    file, metadata = frame.file, frame.metadata
    if file is None or metadata is None or metadata.place != metadata_beside(file):
        return []
    if not _is_behind(metadata, as_must_be(file, metadata, frame.info)):
        return []
    columns = f"{metadata.place.name}#/data_frame/columns"
    places = [("DJ4", columns), *(("DJ4", f"{columns}/{place}") for place in range(len(metadata.columns)))]
    places += [(rule, f"{metadata.place.name}#/data_frame/dimensions") for rule in ("DJ2", "DJ5")]
    places.append(("DJ7", f"{metadata.place.name}#/md5sum"))
    action = "the metadata are written anew from the file"
    return [Repair(metadata.place.name, action, tuple(places), partial(_write, file, metadata, frame))]


def _is_behind(metadata: Metadata, wanted: dict[str, Any]) -> bool:
    """Whether metadata tell another md5 sum, other names or dimensions than they must: these the file alone knows.

    Where they tell other types, it is not for us to say who is wrong.
    """
    before, now = metadata.document.get("data_frame"), wanted.get("data_frame")
    if not isinstance(before, dict) or not isinstance(now, dict) or not isinstance(now.get("columns"), list):
        return False
    listed = [claim.name for claim in metadata.columns]
    summed = metadata.document.get("md5sum")
    return (
        (isinstance(summed, str) and summed != wanted["md5sum"])
        or before.get("dimensions") != now["dimensions"]
        or listed != [read_claim(column).name for column in now["columns"]]
    )


def _write(file: Path, metadata: Metadata, frame: SeenFrame) -> bool:
    write_anew(file, metadata, frame.info)  # and once more when the file is closed, whose bytes change
    return True
