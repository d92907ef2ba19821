"""The rules for ArtifactDB data frames, with the functions that find breaches.

The numbers are those of the page of facts, prefixed with D to be unique among the layouts. The clauses are
headings of ArtifactDB's specification of hdf5_data_frame, of its schema, or of takane's data_frame (the
directory). A check yields nothing for a generation that it does not apply to. To add a rule, add a function and an
entry here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.errors import ColonnadeError
from colonnade.layouts.artifactdb import names, raw
from colonnade.layouts.artifactdb import rules_columns as columns
from colonnade.layouts.artifactdb import rules_directories as directories
from colonnade.layouts.artifactdb import rules_documents as documents
from colonnade.layouts.artifactdb import rules_groups as groups
from colonnade.layouts.artifactdb.documents import as_must_be, write_anew
from colonnade.layouts.artifactdb.metadata import Metadata, metadata_beside, read_claim
from colonnade.layouts.artifactdb.names import Generation
from colonnade.layouts.artifactdb.raw import RawFrame, claimed
from colonnade.layouts.artifactdb.search import PART as INDEXES
from colonnade.layouts.contract import Broken
from colonnade.layouts.table_rules import TableRules
from colonnade.model import Breach, ColumnInfo, Repair, Rule, run_check
from colonnade.nodes import Group
from colonnade.nodes.damage import hdf5_errors

if TYPE_CHECKING:
    from colonnade.values import JsonObject

_ANEW = "Write the frame again."
_COLUMN = "Write the column again."
_SCHEMA = "schema hdf5_data_frame/v1.json"

RULES: tuple[Rule, ...] = (
    Rule(
        "DG1", "Overview", "The group that the metadata name exists; in a directory it is /data_frame.",
        "Write the frame again, or name its group in the metadata.", (groups.group_is_there,),
    ),
    Rule(
        "DG2", "Overview", "version, if the group has it, is a scalar string such as 1.0, with 1 before the dot.",
        "Write the attribute; a later version needs a later reader.", (groups.version_is_known,),
    ),
    Rule(
        "DG3", "Overview", "row-count is a scalar of an unsigned integer type; legacy frames have none.",
        "Write the attribute as uint64.", (groups.row_count_is_a_count,),
    ),
    Rule(
        "DG4", "Overview", "column_names is a 1-D dataset of strings, distinct and not empty.",
        "Rename the column.", (groups.column_names_are_names,),
    ),
    Rule(
        "DG5", "Overview", "row_names, present exactly if the metadata declare it, is a 1-D dataset, a string per row.",
        "Write the row names again, or declare in the metadata whether there are any.", (groups.row_names_are_names,),
        deep=True,
    ),
    Rule("DG6", "Overview", "data is a group.", _ANEW, (groups.data_is_a_group,)),
    Rule(
        "DG7", "Overview", "data holds columns, named by their positions, and nothing else.",
        "Move what is not a column elsewhere.", (groups.nothing_else_is_in_data,),
    ),
    Rule(
        "DG8", "Overview", "A column is in data, or the metadata name its resource; not both.",
        "Write the column, or name its resource.", (groups.columns_are_there,),
    ),
    Rule(
        "DD1", "Column types", "The rows of a column are a dataset of rank 1, as long as the frame, and can be read.",
        "Write the column again with the rows of the frame.", (columns.columns_have_all_rows,), deep=True,
    ),
    Rule(
        "DD2", "Column types", "The type of a column is a scalar string attribute, equal to that of the metadata.",
        "Write the attribute, or correct the metadata.", (columns.columns_say_their_type,),
    ),
    Rule(
        "DD3", "Boolean; Integer", "Booleans and integers have an integer type that fits into 32 signed bits.",
        _COLUMN, (columns.integers_are_integers,),
    ),
    Rule(
        "DD4", "Number", "Numbers have an integer or float type that fits into float64; a float type if legacy.",
        _COLUMN, (columns.numbers_are_numbers,),
    ),
    Rule("DD5", "String", "Strings have a string type and are UTF-8.", _COLUMN, (columns.strings_are_text,), deep=True),
    Rule(
        "DD6", "String", "format is none, date or date-time, as in the metadata, and all strings follow it.",
        _COLUMN, (columns.texts_have_their_format,), deep=True,
    ),
    Rule(
        "DD7", "String", "No string is a null pointer: missing rows are marked by a placeholder.",
        _COLUMN, (columns.no_text_is_absent,), deep=True,
    ),
    Rule("DF1", "Factor", "A factor is a group with levels and codes.", _COLUMN, (columns.factors_are_groups,)),
    Rule(
        "DF2", "Factor", "levels is a 1-D dataset of fewer than 2^31 distinct strings.",
        _COLUMN, (columns.levels_are_distinct,), deep=True,
    ),
    Rule(
        "DF3", "Factor", "codes fit into 32 signed bits (in a directory: are unsigned), and each is that of a level.",
        _COLUMN, (columns.codes_are_levels,), deep=True,
    ),
    Rule(
        "DF4", "Factor", "ordered is a scalar integer that agrees with the metadata.",
        "Write the attribute, or correct the metadata.", (columns.order_is_said_alike,),
    ),
    Rule(
        "DF5", "Factor", "A factor of data_frame version 1 is a dataset of strings, each of which is a level.",
        _COLUMN, (columns.old_factors_hold_levels,), deep=True,
    ),
    Rule(
        "DV1", "takane data_frame: variable-length strings",
        "Strings by pointers have pairs of unsigned integers and a heap of bytes, since version 1.1.",
        "Write the column again, or change the version to 1.1.", (columns.pointers_have_their_parts,),
    ),
    Rule(
        "DV2", "takane data_frame: variable-length strings", "Every pointer leads to UTF-8 bytes of the heap.",
        _COLUMN, (columns.pointers_stay_in_the_heap,), deep=True,
    ),
    Rule(
        "DM1", "Missing values", "missing-value-placeholder is a scalar.",
        "Write the attribute again.", (columns.marks_are_scalars,),
    ),
    Rule(
        "DM2", "Missing values", "missing-value-placeholder of numbers and codes has exactly their type.",
        "Write the attribute again.", (columns.marks_have_the_type_of_rows,),
    ),
    Rule(
        "DM3", "Missing values", "missing-value-placeholder of strings is a string.",
        "Write the attribute again.", (columns.marks_of_texts_are_texts,),
    ),
    Rule(
        "DM4", "Missing values", "Before hdf5_data_frame version 2, missing numbers have no placeholder.",
        "Write the frame again in a later version.", (columns.old_numbers_have_no_mark,),
    ),
    Rule(
        "DJ1", _SCHEMA, "The metadata, which legacy frames need, have the required keys and no unknown ones.",
        "Correct the metadata.", (documents.document_has_its_keys,),
    ),
    Rule(
        "DJ2", _SCHEMA, "Values of the metadata have the right types; versions are known, resources local.",
        "Correct the metadata.", (documents.document_has_its_values,),
    ),
    Rule(
        "DJ3", _SCHEMA, "Columns in the metadata have types, formats, order and levels that their version defines.",
        "Correct the metadata.", (documents.document_has_its_columns,),
    ),
    Rule(
        "DJ4", "Overview", "Column names in the metadata are distinct, and equal to those of the file, in order.",
        "Correct the metadata.", (documents.names_agree,),
    ),
    Rule(
        "DJ5", "Overview", "dimensions in the metadata are not negative, and equal to those of the frame.",
        "Correct the metadata.", (documents.dimensions_agree,),
    ),
    Rule(
        "DJ6", _SCHEMA, "Versions in the metadata begin at 1.",
        "Correct the metadata.", (documents.versions_begin_at_one,),
    ),
    Rule(
        "DJ7", _SCHEMA, "The metadata belong to the file, by its name and by its md5 sum.",
        "Write the metadata again, if the file is correct.", (documents.document_is_of_the_file,), deep=True,
    ),
    Rule(
        "DJ8", "Factor", "Resources that the metadata name exist; levels are distinct strings.",
        "Put the resource at the path in the metadata.", (documents.resources_are_there,), deep=True,
    ),
    Rule(
        "DO1", "takane data_frame", "OBJECT of a directory is a JSON object of type data_frame.",
        "Write the file OBJECT.", (directories.object_is_said,),
    ),
    Rule(
        "DO2", "takane data_frame", "OBJECT has the version, a string such as 1.0, with 1 before the dot.",
        "Write the version into OBJECT; a later one needs a later reader.", (directories.version_is_said,),
    ),
    Rule(
        "DO3", "takane data_frame", "other_columns has one object per column that is not in the file, and no others.",
        "Save the column as an object there, or write it into the file.", (directories.other_columns_are_objects,),
    ),
    Rule(
        "DO4", "takane data_frame",
        "column_annotations, if present, is a data frame of one row per column, other_annotations a list.",
        "Save them again, or remove them.", (directories.annotations_are_objects,),
    ),
    Rule(
        "DI1", "none: colonnade's own",
        "A search index of a data frame names its column, refers to its rows, and matches them.",
        "Build the index again: `colonnade fix` does it.", (groups.indexes_suit,),
    ),
)  # fmt: skip


class ArtifactRules(TableRules[RawFrame]):
    INDEX_HOME = names.SEARCH_INDEXES

    def variant(self, text: str) -> Generation | None:
        return names.parse_generation(text)

    def inspect(self, group: Group, path: str, values: bool, variant: object) -> RawFrame:
        return raw.inspect(group, path, values, variant)

    def not_inspected(self, path: str, error: ColonnadeError) -> Broken:
        return groups.not_inspected(path, error)

    def unreadable(self, frame: RawFrame, _column: ColumnInfo, error: ColonnadeError) -> Broken:
        return groups.not_inspected(frame.path, error)

    def claims(self, group: Group, path: str, values: bool, variant: object) -> Iterator[Broken]:
        """The breaches of a group that is declared to be a frame but is not, each with its rule."""
        frame = claimed(group, path, values, variant if isinstance(variant, Generation) else None)
        for rule in self.RULES if frame is not None else ():
            for check in rule.checks:
                try:
                    found = list(run_check(check, frame))
                except hdf5_errors(ColonnadeError, MemoryError) as error:
                    yield "H1", Breach("error", path, f"this cannot be read: {error}", str(error))
                    continue
                yield from ((rule.id, breach) for breach in found)

    def repairs(self, frame: RawFrame, _removed_indexes: Collection[int]) -> list[Repair]:
        return repairs(frame)


PART = ArtifactRules(RULES, INDEXES, "DI1")


# -- repairs that do not change data: metadata --


def repairs(frame: RawFrame) -> list[Repair]:
    """A repair that rewrites outdated metadata (md5 sum, names or dimensions) from the frame.

    In the metadata of a legacy frame only the md5 sum can be repaired: the rest is recorded nowhere else.
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
    action = "the metadata are rewritten from the file"
    return [Repair(metadata.place.name, action, tuple(places), partial(_write, file, metadata, frame))]


def _is_behind(metadata: Metadata, wanted: JsonObject) -> bool:
    """Whether the md5 sum, names or dimensions in the metadata differ from the file, which is right about these.

    If types differ, either may be wrong, so that is not repaired.
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


def _write(file: Path, metadata: Metadata, frame: RawFrame) -> bool:
    write_anew(file, metadata, frame.info)  # and again when the file is closed, since its bytes change
    return True
