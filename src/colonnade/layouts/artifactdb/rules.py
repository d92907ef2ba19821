"""Every rule for ArtifactDB's data frames, with the functions that look for a breach.

The numbers are those of the page of facts with a D before them, so that they are no one else's. The clauses are
headings of ArtifactDB's specification of hdf5_data_frame, of its schema, or of takane's data_frame, which is the
directory. A check has nothing to say of frames of generations that it is not about. To add a rule: a function, and a
line here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from colonnade.errors import ColonnadeError
from colonnade.h5.damage import hdf5_errors
from colonnade.h5.links import Child
from colonnade.layouts.artifactdb import names, seen
from colonnade.layouts.artifactdb import rules_columns as columns
from colonnade.layouts.artifactdb import rules_directories as directories
from colonnade.layouts.artifactdb import rules_documents as documents
from colonnade.layouts.artifactdb import rules_groups as groups
from colonnade.layouts.artifactdb.documents import as_must_be, write_anew
from colonnade.layouts.artifactdb.metadata import Metadata, metadata_beside, read_claim
from colonnade.layouts.artifactdb.names import Generation
from colonnade.layouts.artifactdb.search import search_indexes
from colonnade.layouts.artifactdb.seen import SeenFrame, claimed
from colonnade.layouts.index_home import IndexPlan
from colonnade.layouts.named_indexes import index_plans, remove_planned
from colonnade.model import Breach, ColumnInfo, Repair, Rule

_ANEW = "Write the frame anew."
_COLUMN = "Write the column anew."
_SCHEMA = "schema hdf5_data_frame/v1.json"

RULES: tuple[Rule, ...] = (
    Rule(
        "DG1", "Overview", "The group that the metadata name is there; in a directory it is /data_frame.",
        "Write the frame anew, or name its group in the metadata.", (groups.group_is_there,),
    ),
    Rule(
        "DG2", "Overview", "version, where the group has it, is a scalar text such as 1.0, with 1 before the dot.",
        "Write the attribute; a later version needs a later reader.", (groups.version_is_known,),
    ),
    Rule(
        "DG3", "Overview", "row-count is a scalar of an unsigned integer type, where version is, and in a directory.",
        "Write the attribute as uint64.", (groups.row_count_is_a_count,),
    ),
    Rule(
        "DG4", "Overview", "column_names is a 1-D dataset of texts, distinct and not empty.",
        "Rename the column.", (groups.column_names_are_names,),
    ),
    Rule(
        "DG5", "Overview", "row_names, there exactly if the metadata say so, is a 1-D dataset of texts, one a row.",
        "Write the row names anew, or say in the metadata whether there are any.", (groups.row_names_are_names,),
        deep=True,
    ),
    Rule("DG6", "Overview", "data is a group.", _ANEW, (groups.data_is_a_group,)),
    Rule(
        "DG7", "Overview", "data holds columns, named by their positions, and nothing else.",
        "Move what is no column elsewhere.", (groups.nothing_else_is_in_data,),
    ),
    Rule(
        "DG8", "Overview", "A column is in data, or the metadata say of which resource it is; not both.",
        "Write the column, or name its resource.", (groups.columns_are_there,),
    ),
    Rule(
        "DD1", "Column types", "The rows of a column are a dataset of rank 1, as long as the frame, and can be read.",
        "Write the column anew with the rows of the frame.", (columns.columns_have_all_rows,), deep=True,
    ),
    Rule(
        "DD2", "Column types", "A column says its type by a scalar text, which is that of the metadata.",
        "Write the attribute, or mend the metadata.", (columns.columns_say_their_type,),
    ),
    Rule(
        "DD3", "Boolean; Integer", "Booleans and integers are of an integer type within 32 bits with a sign.",
        _COLUMN, (columns.integers_are_integers,),
    ),
    Rule(
        "DD4", "Number", "Numbers are of an integer or float type within float64; of old ones, of a float type.",
        _COLUMN, (columns.numbers_are_numbers,),
    ),
    Rule("DD5", "String", "Strings are of a string type, and UTF-8.", _COLUMN, (columns.strings_are_text,), deep=True),
    Rule(
        "DD6", "String", "format is none, date or date-time, as the metadata say, and all texts are of it.",
        _COLUMN, (columns.texts_have_their_format,), deep=True,
    ),
    Rule(
        "DD7", "String", "Every row of strings has a text: what is missing is marked by a placeholder.",
        _COLUMN, (columns.no_text_is_absent,), deep=True,
    ),
    Rule("DF1", "Factor", "A factor is a group with levels and codes.", _COLUMN, (columns.factors_are_groups,)),
    Rule(
        "DF2", "Factor", "levels is a 1-D dataset of fewer than 2^31 distinct texts.",
        _COLUMN, (columns.levels_are_distinct,), deep=True,
    ),
    Rule(
        "DF3", "Factor", "codes are within 32 bits with a sign (in a directory: without one), each that of a level.",
        _COLUMN, (columns.codes_are_levels,), deep=True,
    ),
    Rule(
        "DF4", "Factor", "ordered is a scalar integer, which says what the metadata say.",
        "Write the attribute, or mend the metadata.", (columns.order_is_said_alike,),
    ),
    Rule(
        "DF5", "Factor", "A factor of data_frame version 1 is a dataset of texts, each of which is a level.",
        _COLUMN, (columns.old_factors_hold_levels,), deep=True,
    ),
    Rule(
        "DV1", "takane data_frame: variable-length strings",
        "Strings by pointers have pairs of unsigned integers and a heap of bytes, since version 1.1.",
        "Write the column anew, or 1.1 as the version.", (columns.pointers_have_their_parts,),
    ),
    Rule(
        "DV2", "takane data_frame: variable-length strings", "Every pointer is to bytes of the heap, which are UTF-8.",
        _COLUMN, (columns.pointers_stay_in_the_heap,), deep=True,
    ),
    Rule(
        "DM1", "Missing values", "missing-value-placeholder is a scalar.",
        "Write the attribute anew.", (columns.marks_are_scalars,),
    ),
    Rule(
        "DM2", "Missing values", "missing-value-placeholder of numbers and codes is of exactly their type.",
        "Write the attribute anew.", (columns.marks_have_the_type_of_rows,),
    ),
    Rule(
        "DM3", "Missing values", "missing-value-placeholder of strings is a text.",
        "Write the attribute anew.", (columns.marks_of_texts_are_texts,),
    ),
    Rule(
        "DM4", "Missing values", "Before hdf5_data_frame version 2, missing numbers have no placeholder.",
        "Write the frame anew in a later version.", (columns.old_numbers_have_no_mark,),
    ),
    Rule(
        "DJ1", _SCHEMA, "The metadata, which old frames need, have the keys that they must have, and no others.",
        "Mend the metadata.", (documents.document_has_its_keys,),
    ),
    Rule(
        "DJ2", _SCHEMA, "Values of the metadata are of their types; versions are known, resources local.",
        "Mend the metadata.", (documents.document_has_its_values,),
    ),
    Rule(
        "DJ3", _SCHEMA, "Columns in the metadata have types, formats, order and levels as their version knows them.",
        "Mend the metadata.", (documents.document_has_its_columns,),
    ),
    Rule(
        "DJ4", "Overview", "Names of columns in the metadata are distinct, and those of the file in their order.",
        "Mend the metadata.", (documents.names_agree,),
    ),
    Rule(
        "DJ5", "Overview", "dimensions in the metadata are not negative, and those of the frame.",
        "Mend the metadata.", (documents.dimensions_agree,),
    ),
    Rule(
        "DJ6", _SCHEMA, "Versions in the metadata begin at 1.",
        "Mend the metadata.", (documents.versions_begin_at_one,),
    ),
    Rule(
        "DJ7", _SCHEMA, "The metadata are of the file: by its name, and by the sum of its bytes.",
        "Write the metadata anew, if the file is what it should be.", (documents.document_is_of_the_file,), deep=True,
    ),
    Rule(
        "DJ8", "Factor", "Resources that the metadata name are there; levels are distinct texts.",
        "Put the resource where the metadata say.", (documents.resources_are_there,), deep=True,
    ),
    Rule(
        "DO1", "takane data_frame", "OBJECT of a directory is JSON, and says that it holds a data_frame.",
        "Write the file OBJECT.", (directories.object_is_said,),
    ),
    Rule(
        "DO2", "takane data_frame", "OBJECT says the version, a text such as 1.0, with 1 before the dot.",
        "Write the version into OBJECT; a later one needs a later reader.", (directories.version_is_said,),
    ),
    Rule(
        "DO3", "takane data_frame", "other_columns has an object for each column that is not in the file, and no more.",
        "Save the column as an object there, or write it into the file.", (directories.other_columns_are_objects,),
    ),
    Rule(
        "DO4", "takane data_frame",
        "column_annotations, if there, is a data frame of one row per column, other_annotations a list.",
        "Save them anew, or take them out.", (directories.annotations_are_objects,),
    ),
    Rule(
        "DI1", "none: colonnade's own",
        "A search index of a data frame names its column, refers to the rows of it, and suits them.",
        "Build the index anew: `colonnade fix` does it.", (groups.indexes_suit,),
    ),
)  # fmt: skip

NOT_SHOWN: dict[str, str] = {}


INDEX_HOME = names.SEARCH_INDEXES
variant, look, unseen = names.parse_generation, seen.look, groups.unseen


def unreadable(frame: SeenFrame, _column: ColumnInfo, error: ColonnadeError) -> tuple[str, Breach]:
    """The rule broken by a column whose values cannot be read."""
    return unseen(frame.path, error)


def missing_is_described(_frame: SeenFrame, _column: ColumnInfo) -> None:
    """Missing rows need no description."""


def dataset_claim(_group: Any, _path: str, _child: Child) -> None:
    """A dataset is never meant as a frame."""


def other_objects(*_where: object) -> Iterator[tuple[SeenFrame, list[tuple[str, Breach]]]]:
    """Only frames have rules."""
    return iter(())


def second_look(_group: Any, _path: str) -> Iterator[tuple[str, Breach]]:
    """A table of another layout is not checked as a frame."""
    return iter(())


def claims(group: Any, path: str, deep: bool, asked: Generation | None) -> Iterator[tuple[str, Breach]]:
    """What is wrong with a group that is said to be a frame and is none, with the rules that say so."""
    frame = claimed(group, path, deep, asked)
    for rule in RULES if frame is not None else ():
        for check in rule.checks:
            try:
                found = list(check(frame))
            except hdf5_errors(ColonnadeError, MemoryError) as error:
                yield "H1", Breach("error", path, f"this cannot be looked at: {error}", str(error))
                continue
            yield from ((rule.id, breach) for breach in found)


# -- what can be fixed without touching data: search indexes, and metadata --


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
