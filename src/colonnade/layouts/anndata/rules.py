"""All rules for AnnData elements, with the functions that look for breaches.

The clauses are the headings of AnnData's specification (see docs/checking.md). Every check is called for every element
and yields nothing for those it does not apply to. To add a rule, add a function and an entry here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

from colonnade.errors import ColonnadeError, UnsupportedError
from colonnade.layouts.anndata import names, raw, rules_values
from colonnade.layouts.anndata import rules_arrays as arrays
from colonnade.layouts.anndata import rules_elements as own
from colonnade.layouts.anndata import rules_frames as frames
from colonnade.layouts.anndata import rules_matrices as matrices
from colonnade.layouts.anndata.raw import RawElement, RawFrame, elements
from colonnade.layouts.anndata.rules_values import unread
from colonnade.layouts.anndata.search import PART as INDEXES
from colonnade.layouts.contract import Broken
from colonnade.layouts.index_home import IndexPlan
from colonnade.layouts.named_indexes import index_breaches, index_plans
from colonnade.layouts.table_rules import TableRules
from colonnade.model import Breach, ColumnInfo, Rule, run_check
from colonnade.nodes import Group
from colonnade.nodes.damage import hdf5_errors


def indexes_suit(node: RawElement) -> Iterator[Breach]:
    """A15: an index declares its kind and column, refers to the column's rows, and matches them."""
    if isinstance(node, RawFrame):
        yield from index_breaches(INDEXES.search_indexes(node.group, node.info), node.info)


_ANEW = "Write the element again."

RULES: tuple[Rule, ...] = (
    Rule(
        "A1",
        "Encoding metadata",
        "An element has the scalar strings encoding-type and encoding-version, which are a known pair.",
        "Write the element again; a later version needs a later reader.",
        (own.pair_is_known,),
    ),
    Rule(
        "A2",
        "AnnData group",
        "An AnnData object has the frames obs and var; X, layers, obsm, varm, obsp, varp and raw match their lengths.",
        "Write the member again, or move what does not belong there into uns.",
        (own.anndata_has_its_members, own.raw_has_its_members, own.axes_agree),
    ),
    Rule(
        "A3",
        "Dense arrays",
        "An array is a dataset with a shape, a rec-array a dataset of records; their values can be read.",
        _ANEW,
        (arrays.arrays_are_arrays,),
        deep=True,
    ),
    Rule(
        "A4",
        "Sparse arrays (CSR/CSC)",
        "A sparse matrix has a shape, and data, indices and indptr of rank 1 that agree with it and with each other.",
        "Write the matrix again from its source; do not give it to SciPy.",
        (matrices.matrix_has_its_parts, matrices.bounds_are_kept),
        deep=True,
    ),
    Rule(
        "A5",
        "DataFrames",
        "A data frame has _index, a scalar string that names its row labels, and column-order, an array of strings.",
        "Write both attributes; anndata cannot read a frame without them.",
        (frames.attributes_name_index_and_columns,),
    ),
    Rule(
        "A6",
        "DataFrames",
        "column-order contains names of members of the frame, each once, and no paths.",
        "Rename the column.",
        (frames.names_are_names,),
    ),
    Rule(
        "A7",
        "DataFrames",
        "Every column is an array of rank 1, or a categorical or nullable group; all have the same length.",
        "Write the column again with the rows of the frame.",
        (frames.columns_are_there,),
    ),
    Rule(
        "A8",
        "Categorical arrays; Legacy categorical columns",
        "A categorical has integer codes (the number of a category, or -1), distinct categories, and a flag ordered.",
        "Write the categorical again.",
        (arrays.categorical_has_its_parts, arrays.old_categories_are_there, arrays.codes_are_categories),
        deep=True,
    ),
    Rule(
        "A9",
        "String arrays; Scalars",
        "A string-array and a string are UTF-8 strings of variable length.",
        "Write it again; anndata reads other string types too, but other tools may not.",
        (arrays.texts_are_texts,),
        deep=True,
    ),
    Rule(
        "A10",
        "Nullable arrays",
        "A nullable array has values and a boolean mask of the same length; na-value is NA or NaN.",
        _ANEW,
        (arrays.nullable_has_its_parts,),
    ),
    Rule(
        "A11",
        "Scalars",
        "Scalars have a scalar dataspace, numeric scalars hold a number; a null has a null dataspace.",
        _ANEW,
        (arrays.scalars_are_scalars, arrays.nulls_hold_nothing),
        deep=True,
    ),
    Rule(
        "A12",
        "Awkward arrays",
        "An awkward array has a form that is JSON, a length, and the buffers that the form names.",
        _ANEW,
        (arrays.awkward_has_its_buffers,),
        deep=True,
    ),
    Rule(
        "A13",
        "Mappings / dict",
        "Members of an AnnData object, a mapping or a frame are elements with encoding attributes.",
        "Write the member again with a library that writes encoding attributes.",
        (own.members_are_marked,),
    ),
    Rule(
        "A14",
        "DataFrames",
        "A table of another layout that declares itself a data frame shows labels to AnnData readers.",
        "Remove encoding-type from the table, or write it so that both can read it (see docs/decisions.md).",
    ),
    Rule(
        "A15",
        "none: colonnade's own",
        "A search index of a data frame names its column, refers to its rows, and matches them.",
        "`colonnade fix` rebuilds or drops the index. No data is lost: an index holds none.",
        (indexes_suit,),
    ),
    Rule(
        "A16",
        "none: colonnade's own",
        "A frame around a HEP001 table agrees with the table: the same columns, labels and missing rows.",
        "`colonnade fix` updates the frame from the table; if the frame is right, change the table first.",
        deep=True,
    ),
)  # fmt: skip


class AnnDataRules(TableRules[RawFrame]):
    NOT_SHOWN: Mapping[str, str] = MappingProxyType(
        {  # recommendations that are not checked
            "shared chunks": "columns SHOULD share chunks; anndata itself chunks each column by its size",
        }
    )

    def inspect(self, group: Group, path: str, _values: bool, _variant: object) -> RawFrame:
        return raw.inspect(group, path)

    def not_inspected(self, path: str, error: ColonnadeError) -> Broken:
        return frames.not_inspected(path, error)

    def unreadable(self, frame: RawFrame, column: ColumnInfo, error: ColonnadeError) -> Broken:
        return rules_values.unreadable(frame, column, error)

    def other_table(self, group: Group, path: str) -> Iterator[Broken]:
        return frames.as_seen_by_anndata(group, path)

    def breaches(self, node: RawElement) -> Iterator[Broken]:
        """Yield the breaches of an element with their rules. What cannot be read is a breach of H1."""
        if node.kind == "dataset" and isinstance(node.header, str):
            yield "H1", Breach("error", node.path, node.header)
            return
        for rule in self.RULES:
            for check in rule.checks:
                try:
                    found = [(rule.id, breach) for breach in run_check(check, node)]
                except UnsupportedError as error:
                    found = [unread(node.path, error)]
                except hdf5_errors(ColonnadeError, MemoryError) as error:
                    found = [("H1", Breach("error", node.path, f"this cannot be checked: {error}", str(error)))]
                yield from found

    def other_objects(
        self, group: Group, path: str, values: bool, in_table: bool
    ) -> Iterator[tuple[RawElement, Sequence[Broken]]]:
        """Yield every element of a group except frames, with its breaches."""
        for node in elements(group, path, values, in_table):
            yield node, list(self.breaches(node))

    def bad_indexes(self, frame: RawFrame, wrong: Collection[str]) -> list[IndexPlan]:
        """The indexes to remove. `wrong` are the names of those whose contents are wrong.

        A frame that is a view of a HEP001 table inside it gets no new indexes: that table is the one to index.
        """
        may_build = not frame.group.has_link(names.OTHER_FACE)
        placed = INDEXES.search_indexes(frame.group, frame.info)
        return index_plans(placed, frame.info, "A15", wrong, may_build)


PART = AnnDataRules(RULES, INDEXES, "A15")
