"""Tables, columns and datatypes as plain data: frozen, without handles, picklable.

All other modules use these types. Nothing here opens a file or imports Arrow.

A `StoredType` describes an HDF5 datatype as plain data. The kinds:

| kind | HDF5 class | other fields that are set |
| --- | --- | --- |
| integer, bitfield | INTEGER, BITFIELD | size, order, signed, precision; tag: what a layout sees a TIME as |
| float | FLOAT | size, order, precision, mantissa, exponent (bits of each) |
| boolean | ENUM of FALSE, TRUE and perhaps MISSING | base, members |
| enum | any other ENUM | base, members |
| string | STRING, fixed length | size, charset, padding |
| text | STRING, variable length | charset |
| opaque | OPAQUE | size, tag |
| binary | VLEN of OPAQUE of one byte | |
| sequence | VLEN of anything else | base |
| array | ARRAY | base, dims |
| compound | COMPOUND | fields |
| complex | COMPOUND of two equal floats r and i, or COMPLEX | base, fields when a compound |
| object_reference, region_reference | REFERENCE as written before HDF5 1.12 | size |
| unknown | anything else | size, tag (what HDF5 calls it) |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal, Never, cast, overload

from colonnade.dataclass import dataclass, replace
from colonnade.errors import UsageError

TypeKind = Literal[
    "integer", "bitfield", "float", "boolean", "enum", "string", "text", "opaque", "binary",
    "sequence", "array", "compound", "complex", "object_reference", "region_reference", "unknown",
]  # fmt: skip
Order = Literal["little", "big", "none"]
Charset = Literal["ascii", "utf-8"]
Padding = Literal["terminated", "null", "space"]
Storage = Literal["compact", "contiguous", "chunked", "virtual", "external", "sectioned"]
Severity = Literal["error", "warning", "note"]
# What makes values of rows that stand for them:
#   truth: integers for booleans, 0 is false and everything else is true; double: integers for float64
#   date, date-time: RFC 3339 strings
#   bits: floats; those equal to the fill bit by bit are missing; r: floats; those equal to R's NA are missing
Codec = Literal["truth", "double", "date", "date-time", "bits", "r"]
# What makes codes of rows that stand for categories:
#   codes: codes; only those equal to the fill are missing, so -1 is as invalid as any other unknown code
#   levels: strings that are among the categories
CodeCodec = Literal["codes", "levels"]
Encoding = Codec | CodeCodec | Literal["pointers"]


@dataclass(frozen=True, slots=True)
class Plain:
    """One element per row, which holds the value itself, or what `codec` makes the value of.

    >>> cn.write("run.h5", {"x": [1, 2]}, "events")
    >>> cn.open_table("run.h5", "events")["x"].info.form
    Plain(codec=None)
    """

    codec: Codec | None = None


@dataclass(frozen=True, slots=True)
class Coded:
    """One of the categories per row: its code, or what `codec` makes the code of.

    >>> columns = {"label": cn.column(categories=["muon", "pion"])}
    >>> cn.write("run.h5", {"label": ["muon", "pion"]}, "events", columns=columns)
    >>> cn.open_table("run.h5", "events")["label"].info.form.categories.n_categories
    2
    """

    categories: CategoriesInfo
    codec: CodeCodec | None = None


@dataclass(frozen=True, slots=True)
class Pointers:
    """An offset and a length per row, into the bytes of a companion dataset.

    >>> cn.Pointers() == cn.Plain()
    False
    """


@dataclass(frozen=True, slots=True)
class Masked:
    """Rows of another form, and a mask: a companion dataset of booleans that is TRUE for missing rows.

    marks_present: whether it is TRUE for the rows that are present instead, as in the lists of H5Col.

    >>> cn.write("a.h5ad", {"x": [1, None]}, "obs", layout="anndata")
    >>> cn.open_table("a.h5ad", "obs")["x"].info.form
    Masked(of=Plain(codec=None))
    """

    of: Form
    marks_present: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class Sectioned:
    """Rows of another form in sectioned chunks, which store only the rows that are not missing.

    >>> cn.write("run.h5", {"x": [1, None]}, "events", columns={"x": cn.column(sparse=True)})
    >>> cn.open_table("run.h5", "events")["x"].info.form
    Sectioned(of=Plain(codec=None))
    """

    of: Form


@dataclass(frozen=True, slots=True)
class Lists:
    """The offset of each list, and their elements: a column of its own, of any form, whose rows are the elements.

    as_text: whether each row is a string, and the elements are the bytes of all strings in UTF-8.

    >>> items = cn.ColumnInfo("x", cn.StoredType("integer", 8), n_rows=3)
    >>> cn.Lists(items).items.n_rows
    3
    """

    items: ColumnInfo
    as_text: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class Slabs:
    """One row per index of the first dimension of an array of rank 2 or more. The column's type is that of a row.

    >>> cn.Slabs() == cn.Plain()
    False
    """


@dataclass(frozen=True, slots=True)
class Member:
    """A part of each element of a dataset that stores several columns, in another form.

    path: what leads to the part: names of members of compounds, and positions in arrays. Rows of a matrix are arrays,
    so its columns are positions too.

    >>> cn.Member(("position", 0)).of
    Plain(codec=None)
    """

    path: tuple[str | int, ...]
    of: Plain | Coded = Plain()


RowForm = Plain | Coded | Pointers | Lists | Slabs
"""How the rows themselves are stored."""
Form = RowForm | Masked | Sectioned | Member
"""How one column is stored. `columns/` has a file for each form: its fetcher and decoder, its encoder and writer."""
# Called while rows are written: the number of rows done, and the total (None where unknown).
Progress = Callable[[int, int | None], None]

DEFAULT_CHUNK_ROWS = 65_536


def is_utf8(text: str) -> bool:
    """Whether a string can be encoded as UTF-8, that is, holds no unpaired surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def shown_name(name: str) -> str:
    """A name from a file as a string that can be printed anywhere; bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class StoredField:
    """One member of a compound: its name, its byte offset in the file, its type.

    >>> cn.write("run.h5", {"p": pa.array([{"x": 1.0}])}, "events")
    >>> [field.name for field in cn.open_table("run.h5", "events")["p"].stored_type.fields]
    ['x']
    """

    name: str
    offset: int
    type: StoredType


@dataclass(frozen=True, slots=True)
class StoredType:
    """An HDF5 datatype as plain data; see the table at the head of this module.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> str(t["energy"].stored_type)
    'float64'
    """

    kind: TypeKind
    size: int
    order: Order = "little"
    signed: bool = False
    precision: int = 0
    mantissa: int = 0
    exponent: int = 0
    charset: Charset = "utf-8"
    padding: Padding = "null"
    tag: str = ""
    base: StoredType | None = None
    dims: tuple[int, ...] = ()
    members: tuple[tuple[str, int], ...] = ()
    fields: tuple[StoredField, ...] = ()
    bits: tuple[int, ...] = field(default=(), compare=False, repr=False)  # of unusual numbers, see `format/datatype.py`

    @property
    def item(self) -> StoredType:
        """The base type of an array, sequence, enum or complex."""
        if self.base is None:
            raise TypeError(f"{self.kind} has no base type")
        return self.base

    @property
    def has_pointers(self) -> bool:
        """True when a value in memory points to bytes kept elsewhere (variable length)."""
        if self.kind in ("text", "binary", "sequence"):
            return True
        if self.base is not None and self.base.has_pointers:
            return True
        return any(member.type.has_pointers for member in self.fields)

    def __str__(self) -> str:
        return _NAMES[self.kind](self)


def _order_word(stored: StoredType) -> str:
    return " big-endian" if stored.order == "big" and stored.size > 1 else ""


def _name_integer(stored: StoredType) -> str:
    if stored.tag:
        return stored.tag
    bits = stored.size * 8
    word = "bitfield" if stored.kind == "bitfield" else "int" if stored.signed else "uint"
    used = f" of {stored.precision} bits" if stored.precision not in (0, bits) else ""
    return f"{word}{bits}{used}{_order_word(stored)}"


def _name_float(stored: StoredType) -> str:
    usual = {(2, 10, 5), (4, 23, 8), (8, 52, 11)}
    odd = (stored.size, stored.mantissa, stored.exponent) not in usual
    bits = f" ({stored.mantissa}-bit mantissa, {stored.exponent}-bit exponent)" if odd else ""
    return f"float{stored.size * 8}{bits}{_order_word(stored)}"


def _name_enum(stored: StoredType) -> str:
    shown = ", ".join(f"{name}={value}" for name, value in stored.members[:4])
    more = ", ..." if len(stored.members) > 4 else ""
    return f"enum {stored.item} {{{shown}{more}}}"


def _name_boolean(stored: StoredType) -> str:
    return "boolean with MISSING" if len(stored.members) == 3 else "boolean"


def _name_compound(stored: StoredType) -> str:
    return "compound {" + ", ".join(f"{member.name}: {member.type}" for member in stored.fields) + "}"


_NAMES: dict[TypeKind, Callable[[StoredType], str]] = {
    "integer": _name_integer,
    "bitfield": _name_integer,
    "float": _name_float,
    "boolean": _name_boolean,
    "enum": _name_enum,
    "string": lambda s: (
        f"string of {s.size} bytes, {s.charset}, "
        f"{'null-terminated' if s.padding == 'terminated' else f'{s.padding}-padded'}"
    ),
    "text": lambda s: f"variable-length string, {s.charset}",
    "opaque": lambda s: f"opaque of {s.size} bytes" + (f" tagged {s.tag!r}" if s.tag else ""),
    "binary": lambda s: "variable-length bytes",
    "sequence": lambda s: f"variable-length sequence of {s.item}",
    "array": lambda s: f"array {list(s.dims)} of {s.item}",
    "compound": _name_compound,
    "complex": lambda s: f"complex{s.item.size * 16}{_order_word(s.item)}",
    "object_reference": lambda s: "object reference",
    "region_reference": lambda s: "region reference",
    "unknown": lambda s: f"{s.tag} of {s.size} bytes",
}


@dataclass(frozen=True, slots=True)
class FilterInfo:
    """One HDF5 byte filter of a dataset's pipeline.

    >>> cn.write("run.h5", {"x": [1]}, "events", columns={"x": cn.column(filters="deflate:4")})
    >>> [(one.name, one.options) for one in cn.open_table("run.h5", "events")["x"].info.filters]
    [('deflate', (4,))]
    """

    id: int
    name: str
    options: tuple[int, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """The header of a dataset, whatever its rank."""

    type: StoredType
    shape: tuple[int, ...] | None
    storage: Storage
    chunk_rows: int | None
    filters: tuple[FilterInfo, ...]
    fill: bytes | None
    has_lost_fill: bool = False  # one was set, and a copy of the file has lost it


@dataclass(frozen=True, slots=True)
class ChunkGrid:
    """How `n_rows` rows are divided into chunks of `chunk_rows`; the last chunk may be short.

    >>> grid = cn.ChunkGrid(n_rows=10, chunk_rows=4)
    >>> grid.n_chunks, grid.bounds(2)
    (3, (8, 10))
    """

    n_rows: int
    chunk_rows: int

    @property
    def n_chunks(self) -> int:
        """The number of chunks."""
        return -(-self.n_rows // self.chunk_rows)

    def bounds(self, chunk: int) -> tuple[int, int]:
        """First row and row after the last of one chunk."""
        start = chunk * self.chunk_rows
        return start, min(start + self.chunk_rows, self.n_rows)


@dataclass(frozen=True, slots=True)
class CategoriesInfo:
    """The categories dataset of a categorical column (HEP001 6.6).

    >>> columns = {"label": cn.column(categories=["muon", "pion"])}
    >>> cn.write("run.h5", {"label": ["muon", "pion", "muon"]}, "events", columns=columns)
    >>> cn.open_table("run.h5", "events")["label"].info.categories.n_categories
    2
    """

    name: str
    type: StoredType
    n_categories: int
    ordered: bool
    units: str | None = None
    arrow_type: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """One column or label of a table, as described by its metadata.

    `fill` is the stored value that marks a missing row: the bytes of one element in memory form (native
    byte order, strings null-padded), of the string for variable-length strings, of the elements for
    a sequence. It is None when the writer set no fill value. `form` is how the rows are stored, as the layout
    found it. `link` is the path of its dataset or group relative to the table's, if it differs from the name.
    `pandas` is the note about its pandas type (see `exchange.pandas_notes`). `problem` is the reason why the column
    cannot be read, if it cannot.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> info = t["energy"].info
    >>> info.name, str(info.type), info.storage
    ('energy', 'float64', 'chunked')
    """

    name: str
    type: StoredType
    n_rows: int
    storage: Storage = "chunked"
    chunk_rows: int | None = None
    filters: tuple[FilterInfo, ...] = ()
    fill: bytes | None = None
    form: Form = Plain()
    units: str | None = None
    units_vocabulary: str | None = None
    description: str | None = None
    arrow_type: str | None = None
    labels: tuple[str, ...] = ()
    is_label: bool = False
    link: str | None = None
    pandas: str | None = None
    problem: str | None = None

    @property
    def row_form(self) -> RowForm:
        """The form of the rows themselves, inside a mask, sectioned chunks or larger elements."""
        form = self.form
        while isinstance(form, (Masked, Sectioned, Member)):
            form = form.of
        return form

    @property
    def categories(self) -> CategoriesInfo | None:
        """The categories of a categorical column."""
        rows = self.row_form
        return rows.categories if isinstance(rows, Coded) else None

    @property
    def is_masked(self) -> bool:
        """Whether a mask, a separate dataset of booleans, marks the missing rows."""
        return isinstance(self.form, Masked)

    @property
    def encoding(self) -> Encoding | None:
        """How rows encode values, where the datatype does not determine it."""
        rows = self.row_form
        if isinstance(rows, (Plain, Coded)):
            return rows.codec
        return "pointers" if isinstance(rows, Pointers) else None

    @property
    def marks_missing(self) -> bool:
        """Whether a row can be missing: by a fill, by a mask, or because it is not defined in a sparse column."""
        return self.fill is not None or isinstance(self.form, (Masked, Sectioned)) or self.form == Plain("r")

    @property
    def leads_elsewhere(self) -> bool:
        """Whether rows refer to data of any length stored elsewhere, so that the element size is not the data size."""
        return self.type.has_pointers or isinstance(self.row_form, (Pointers, Lists))

    def with_rows(self, rows: RowForm) -> ColumnInfo:
        """This column with its rows stored in another form, under the same mask or in the same storage."""
        return replace(self, form=_around(self.form, rows))

    @property
    def grid(self) -> ChunkGrid:
        """How the rows are divided into chunks."""
        return ChunkGrid(self.n_rows, self.chunk_rows or DEFAULT_CHUNK_ROWS)


def _around(form: Form, rows: RowForm) -> Form:
    """A form with the rows inside it replaced."""
    match form:
        case Masked(of, marks_present):
            return Masked(_around(of, rows), marks_present)
        case Sectioned(of):
            return Sectioned(_around(of, rows))
        case Member(path, _) if isinstance(rows, (Plain, Coded)):
            return Member(path, rows)
        case _:
            return rows


UNREADABLE = StoredType("unknown", 1, tag="unreadable")
"""The datatype of a column whose header cannot be read."""


def unreadable_column(name: str, problem: str, link: str | None = None, is_label: bool = False) -> ColumnInfo:
    """A column that the file names but that cannot be described. It stays a column; reading it raises."""
    return ColumnInfo(name, UNREADABLE, 0, "contiguous", link=link, is_label=is_label, problem=problem)


@dataclass(frozen=True, slots=True)
class OtherColumn:
    """A column whose values are stored elsewhere, in an object that is not a column: its name, and the path.

    >>> cn.OtherColumn("counts", "other_contents/0").place
    'other_contents/0'
    """

    name: str
    place: str


@dataclass(frozen=True, slots=True)
class LibraryRead:
    """An object of a file open for reading that libhdf5 reads, and why: what colonnade's own reader does not know.

    >>> cn.LibraryRead("/events/ts", "external storage").why
    'external storage'
    """

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """One search index of a column.

    kind: "chunk_minmax", "sorted_rows", "bitmap", "chunk_bloom", or the KIND attribute of an unknown kind.
    fresh: whether its shape and attributes match the column as it is now; `problem` is the reason if not.
    trusted: whether it was built here or verified. Trusted indexes are used by default.
    file: the file that holds it, if that is not the file of the table.
    stale: whether it describes another state of the table, as its attributes show; the file is not wrong.

    >>> cn.write("run.h5", {"ts": range(10)}, "events", index={"ts": "chunk_minmax"})
    >>> index = cn.open_table("run.h5", "events").indexes[0]
    >>> index.column, index.kind, index.trusted
    ('ts', 'chunk_minmax', True)
    """

    column: str
    kind: str
    name: str
    fresh: bool
    trusted: bool
    bytes: int
    problem: str | None = None
    file: str | None = None
    stale: bool = False

    @property
    def state(self) -> Literal["trusted", "unverified", "stale", "wrong"]:
        """Whether the index is used by default, could be if it was verified, or cannot be used.

        >>> cn.write("run.h5", {"ts": range(10)}, "events", index={"ts": "chunk_minmax"})
        >>> cn.open_table("run.h5", "events").indexes[0].state
        'trusted'
        """
        if self.stale:
            return "stale"
        if not self.fresh:
            return "wrong"
        return "trusted" if self.trusted else "unverified"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check: the rule, the severity, the path, and what is wrong.

    clause: of the specification. found, expected: the two values that differ. advice: what to do about it.

    >>> with open("broken.h5", "wb") as file:
    ...     file.write(b"not HDF5")
    8
    >>> finding = cn.check("broken.h5")[0]
    >>> finding.rule, finding.severity, finding.path
    ('H1', 'error', '/')
    """

    rule: str
    severity: Severity
    path: str
    message: str
    clause: str = ""
    found: str = ""
    expected: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Breach:
    """A violation found by a rule: a Finding without its rule. If `advice` is empty, the rule's advice is used."""

    severity: Severity
    path: str
    message: str
    found: str = ""
    expected: str = ""
    advice: str = ""


RuleCheck = Callable[[Never], Iterable[Breach]]
"""Yields what breaks a rule. It takes the raw form of its own layout, and is given nothing else: `run_check`."""


def run_check(check: RuleCheck, raw: object) -> Iterable[Breach]:
    """What breaks a rule of the layout that `raw` was inspected by."""
    return cast("Callable[[object], Iterable[Breach]]", check)(raw)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a layout. `checks` inspect a table in the layout's raw form, and yield what breaks the rule.

    id: its number on the rules page. clause: of the specification. requires: what it requires, in one sentence.
    advice: what to do about a breach. deep: whether checking it also, or only, needs the values of columns.
    """

    id: str
    clause: str
    requires: str
    advice: str
    checks: tuple[RuleCheck, ...] = ()
    deep: bool = False

    def finding(self, breach: Breach) -> Finding:
        return Finding(
            self.id,
            breach.severity,
            shown_name(breach.path),
            breach.message,
            self.clause,
            breach.found,
            breach.expected,
            breach.advice or self.advice,
        )


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair that does not touch data: the path, what is done, and which findings it resolves.

    fixes: rule and path of each resolved finding. `do` is called inside a change, and returns whether it succeeded.

    >>> repair = cn.Repair("/events", "column-order is written again", (("C1", "/events"),), lambda: True)
    >>> repair.path, repair.action
    ('/events', 'column-order is written again')
    """

    path: str
    action: str
    fixes: tuple[tuple[str, str], ...]
    do: Callable[[], bool] = field(compare=False, repr=False)


class LazyColumns(Sequence[ColumnInfo]):
    """Columns whose names are known, and each of which is described when it is first accessed."""

    def __init__(
        self,
        names: Sequence[str],
        describe: Callable[[str], ColumnInfo],
        known: dict[str, ColumnInfo] | None = None,
    ) -> None:
        self.names = tuple(names)
        self._describe = describe
        self._known = {} if known is None else known

    def followed_by(self, more: Sequence[ColumnInfo]) -> LazyColumns:
        """These columns followed by `more`, which are already described."""
        self._known.update({column.name: column for column in more})
        return LazyColumns((*self.names, *(column.name for column in more)), self._describe, self._known)

    def named(self, name: str) -> ColumnInfo:
        """The column of this name, which is one of `names`."""
        column = self._known.get(name)
        if column is None:
            column = self._known[name] = self._describe(name)
        return column

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[ColumnInfo]:
        return map(self.named, self.names)

    @overload
    def __getitem__(self, place: int) -> ColumnInfo: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[ColumnInfo, ...]: ...
    def __getitem__(self, place: int | slice) -> ColumnInfo | tuple[ColumnInfo, ...]:
        if isinstance(place, slice):
            return tuple(self.named(name) for name in self.names[place])
        return self.named(self.names[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (LazyColumns, tuple)) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[object, ...]:
        return tuple, (tuple(self),)


class ColumnsByName(Mapping[str, ColumnInfo]):
    """Lazy columns by name. Listing the names does not describe any column."""

    def __init__(self, columns: LazyColumns) -> None:
        self._columns = columns
        self._names = dict.fromkeys(columns.names)

    def __getitem__(self, name: str) -> ColumnInfo:
        if name not in self._names:
            raise KeyError(name)
        return self._columns.named(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (dict(self),)


class LazyFindings(Sequence[Finding]):
    """Findings that are computed when first accessed."""

    def __init__(self, find: Callable[[], Sequence[Finding]]) -> None:
        self._find = find
        self._found: tuple[Finding, ...] | None = None

    def _all(self) -> tuple[Finding, ...]:
        if self._found is None:
            self._found = tuple(self._find())
        return self._found

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, place: int) -> Finding: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, place: int | slice) -> Finding | tuple[Finding, ...]:
        return self._all()[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (LazyFindings, tuple)) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __reduce__(self) -> tuple[object, ...]:
        return tuple, (self._all(),)


@dataclass(frozen=True)
class TableInfo:
    """The description of one table. `columns` are in their logical order; `labels` are separate.

    `members` are the columns, then the labels that are not also columns. In a wide table, columns and problems are
    lazy: `column_names` and the keys of `by_name` do not describe any column. `left_to_library`: the objects that
    libhdf5 reads because colonnade's own reader does not know a feature; empty for files open for changes.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> t.info.path, t.info.layout, t.info.n_rows, t.info.column_names
    ('/events', 'hep001', 3, ['ts', 'energy'])
    """

    path: str
    layout: str
    n_rows: int
    columns: Sequence[ColumnInfo] = ()
    labels: Sequence[ColumnInfo] = ()
    title: str | None = None
    description: str | None = None
    units_vocabulary: str | None = None
    index_name: str | None = None
    version: str | None = None
    pandas: str | None = None
    others: tuple[OtherColumn, ...] = ()
    problems: Sequence[Finding] = ()
    left_to_library: tuple[LibraryRead, ...] = field(default=(), compare=False)
    members: Sequence[ColumnInfo] = field(init=False, repr=False, compare=False)
    by_name: Mapping[str, ColumnInfo] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = set(self.column_names)
        labels = [label for label in self.labels if label.name not in names]
        if isinstance(self.columns, LazyColumns):
            lazy = self.columns.followed_by(labels)
            object.__setattr__(self, "members", lazy)
            object.__setattr__(self, "by_name", ColumnsByName(lazy))
            return
        members = (*self.columns, *labels)
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "by_name", {column.name: column for column in members})

    @property
    def row_labels(self) -> list[str]:
        """The names of the index levels in a pandas frame: a plain column named by `_index` (5.3), then the labels."""
        labels = self.label_names
        named = self.index_name if self.index_name in self.by_name and self.index_name not in labels else None
        return labels if named is None else [named, *labels]

    @property
    def column_names(self) -> Sequence[str]:
        """The names of the columns, in their order."""
        if isinstance(self.columns, LazyColumns):
            return self.columns.names
        return [column.name for column in self.columns]

    @property
    def label_names(self) -> list[str]:
        """The names of the labels, in their order."""
        return [label.name for label in self.labels]


@dataclass(frozen=True, slots=True)
class TableText:
    """What the caller specifies about a table as a whole."""

    title: str | None = None
    description: str | None = None
    units_vocabulary: str | None = None


class Auto:
    """The value of an option that was not set: the library decides."""

    _only: Auto | None = None

    def __new__(cls) -> Auto:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "AUTO"

    def __reduce__(self) -> tuple[type[Auto], tuple[()]]:
        return (Auto, ())


AUTO = Auto()
SECONDS = StoredType("integer", 8, signed=True, precision=64, tag="time of seconds")
"""Times of 4 bytes, as PyTables stores them, seen as numbers."""
MICROSECONDS = replace(SECONDS, tag="time of microseconds")
"""Times of 8 bytes, as PyTables stores them, seen as numbers."""
StringStorage = Literal["auto", "fixed", "variable", "categories"]


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """How to write one column. Anything you don't specify is chosen from the data.

    units, units_vocabulary, description: what the values mean, for human readers.
    fill: the stored value that marks a missing row; None for a column that has no missing rows.
    chunk_rows: rows in a chunk (default: up to 65,536, fewer for small or very wide tables).
    filters: such as "shuffle+deflate:4", "scale-offset", "zstd:3", or "none". By default they are chosen by trial on
        the first rows, among the filters built into every HDF5 library; "portable" chooses only among those that
        readers without that library support too (pyfive, jsfive, kerchunk). scale-offset keeps integers exactly; for
        floats it keeps NaN, infinities, missing rows and the number of decimals given ("scale-offset:3").
    strings: "fixed" or "variable" length, or "categories" (the column still reads as strings, unless dictionaries are
        requested); "auto" uses categories if values repeat, else fixed length if that does not waste space.
    categories: True makes strings or numbers categorical, which reads as a dictionary; a list gives the categories,
        in their order; False prevents strings from being stored as categories.
    ordered: whether the order of the categories means something.
    enum: True stores a categorical as an HDF5 enum instead of codes and a categories dataset.
    sparse: True stores only the rows that are not missing, in HDF5's proposed sectioned chunks: missing rows cost
        nothing, but no released HDF5 library can read the column (it can read the rest of the file). For numbers,
        booleans, times and bytes of one length.
    masked: True stores a mask with the values even if no row is missing (layout "anndata"; the default for pandas'
        nullable types).

    >>> energy = cn.column(units="MeV", fill=-1.0, filters="shuffle+deflate:4")
    >>> cn.write("run.h5", {"energy": [0.5, None]}, "events", columns={"energy": energy})
    >>> cn.open_table("run.h5", "events")["energy"].filters
    'shuffle+deflate:4'
    """

    units: str | None = None
    units_vocabulary: str | None = None
    description: str | None = None
    fill: object = AUTO
    chunk_rows: int | None = None
    filters: str | None = None
    strings: StringStorage = "auto"
    categories: bool | Sequence[object] | None = None
    ordered: bool | None = None
    enum: bool = False
    sparse: bool = False
    masked: bool | None = None

    def __post_init__(self) -> None:
        for option in ("units", "units_vocabulary", "description", "filters"):
            value = getattr(self, option)
            if value is not None and not isinstance(value, str):
                raise UsageError(f"{option} must be a string, not {value!r}", option=option)
        if self.chunk_rows is not None and (isinstance(self.chunk_rows, bool) or not isinstance(self.chunk_rows, int)):
            raise UsageError(f"chunk_rows must be an integer, not {self.chunk_rows!r}", option="chunk_rows")
        if self.chunk_rows is not None and not 1 <= self.chunk_rows <= 2**31:
            raise UsageError(f"chunk_rows must be at least 1, not {self.chunk_rows}")
        if self.strings not in ("auto", "fixed", "variable", "categories"):
            raise UsageError(f"strings must be 'auto', 'fixed', 'variable' or 'categories', not {self.strings!r}")
