"""Tables, columns and datatypes as plain data: frozen, without handles, picklable.

Every other room speaks in these words. Nothing here opens a file or knows Arrow.

A `StoredType` is an HDF5 datatype written down as data. The kinds:

| kind | HDF5 class | what else is filled in |
| --- | --- | --- |
| integer, bitfield | INTEGER, BITFIELD | size, order, signed, precision |
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
from typing import Any, Literal, overload

from colonnade.dataclass import dataclass
from colonnade.errors import UsageError

Kind = Literal[
    "integer", "bitfield", "float", "boolean", "enum", "string", "text", "opaque", "binary",
    "sequence", "array", "compound", "complex", "object_reference", "region_reference", "unknown",
]  # fmt: skip
Order = Literal["little", "big", "none"]
Charset = Literal["ascii", "utf-8"]
Padding = Literal["terminated", "null", "space"]
Storage = Literal["compact", "contiguous", "chunked", "virtual", "external", "sectioned"]
Severity = Literal["error", "warning", "note"]
# How the rows of a column stand for its values, where the datatype alone does not say it:
#   truth: integers for booleans, 0 is false and all others are true; double: integers for float64
#   date, date-time: text as RFC 3339 has it
#   pointers: offsets and lengths into bytes beside them; levels: text that is one of the categories
#   codes: codes of categories of which those are missing that equal the fill, and no others: -1 is as wrong as any
#   bits: floats of which those are missing that equal the fill bit by bit; r: those that are R's NA
Kept = Literal["truth", "double", "date", "date-time", "pointers", "levels", "codes", "bits", "r"]
# Called while rows are written: how many are done, and how many there are in all (None where unknown).
Progress = Callable[[int, int | None], None]

DEFAULT_CHUNK_ROWS = 65_536


def is_utf8(text: str) -> bool:
    """Whether a text can be written at all: it holds no half of a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def shown_name(name: str) -> str:
    """A name from a file as text that can be written anywhere; bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class StoredField:
    """One member of a compound: its name, its byte offset in the file, its type."""

    name: str
    offset: int
    type: StoredType


@dataclass(frozen=True, slots=True)
class StoredType:
    """An HDF5 datatype as plain data; see the table at the head of this module."""

    kind: Kind
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


_NAMES: dict[Kind, Callable[[StoredType], str]] = {
    "integer": _name_integer,
    "bitfield": _name_integer,
    "float": _name_float,
    "boolean": _name_boolean,
    "enum": _name_enum,
    "string": lambda s: (
        f"string of {s.size} bytes, {s.charset}, {s.padding}-{'ended' if s.padding == 'terminated' else 'padded'}"
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
    """One HDF5 byte filter of a dataset's pipeline."""

    id: int
    name: str
    options: tuple[int, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True)
class ChunkGrid:
    """How `n_rows` rows are cut into chunks of `chunk_rows`; the last may be short."""

    n_rows: int
    chunk_rows: int

    @property
    def n_chunks(self) -> int:
        return -(-self.n_rows // self.chunk_rows)

    def bounds(self, chunk: int) -> tuple[int, int]:
        """First row and row after the last of one chunk."""
        start = chunk * self.chunk_rows
        return start, min(start + self.chunk_rows, self.n_rows)


@dataclass(frozen=True, slots=True)
class CategoriesInfo:
    """The categories dataset of a categorical column (HEP001 6.6)."""

    name: str
    type: StoredType
    n_categories: int
    ordered: bool
    units: str | None = None
    arrow_type: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """One column or label of a table, as far as metadata tells.

    `fill` is the stored mark of a missing row: the bytes of one element in memory form (native
    byte order, strings null-padded), of the text for variable-length strings, of the elements for
    a sequence. None when no fill value was set by the writer. `is_masked`: a dataset of booleans beside the rows says
    which are missing. `link` is the path of its dataset or group below the table's, where that is not its name. `kept`
    says what rows stand for, where the datatype does not. `pandas` is the note of what pandas knows of it (see
    `exchange.pandas_notes`). `problem` says why the column cannot be read, if so.
    """

    name: str
    type: StoredType
    n_rows: int
    storage: Storage = "chunked"
    chunk_rows: int | None = None
    filters: tuple[FilterInfo, ...] = ()
    fill: bytes | None = None
    categories: CategoriesInfo | None = None
    units: str | None = None
    units_vocabulary: str | None = None
    description: str | None = None
    arrow_type: str | None = None
    labels: tuple[str, ...] = ()
    is_label: bool = False
    is_masked: bool = False
    link: str | None = None
    kept: Kept | None = None
    pandas: str | None = None
    problem: str | None = None

    @property
    def marks_missing(self) -> bool:
        """Whether a row can be missing: by a fill, by a mask, or because it is not defined in a sparse column."""
        return self.fill is not None or self.is_masked or self.kept == "r" or self.storage == "sectioned"

    @property
    def leads_elsewhere(self) -> bool:
        """Whether what a row holds lies elsewhere and may be of any length, so that its size here tells nothing."""
        return self.type.has_pointers or self.kept == "pointers"

    @property
    def grid(self) -> ChunkGrid:
        return ChunkGrid(self.n_rows, self.chunk_rows or DEFAULT_CHUNK_ROWS)


UNREADABLE = StoredType("unknown", 1, tag="unreadable")
"""The datatype of a column whose header cannot be read."""


def unreadable_column(name: str, problem: str, link: str | None = None, is_label: bool = False) -> ColumnInfo:
    """A column that is named in the file and cannot be described: it stays a column, and reading it raises."""
    return ColumnInfo(name, UNREADABLE, 0, "contiguous", link=link, is_label=is_label, problem=problem)


@dataclass(frozen=True, slots=True)
class OtherColumn:
    """A column of a table whose values are kept elsewhere, in something that is no column: its name, and where."""

    name: str
    place: str


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """One search index of a column.

    kind: "chunk_minmax", "sorted_rows", "bitmap", "chunk_bloom", or the KIND of one that is not known here.
    fresh: whether its shape and attributes suit the column as it is; `problem` says why not.
    trusted: whether it was built here or verified, and so is used by default.
    """

    column: str
    kind: str
    name: str
    fresh: bool
    trusted: bool
    bytes: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check: which rule, how bad, where, what.

    clause: where the document says so. found, expected: the two that do not agree. advice: what to do about it.
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
    """What a rule has found: a Finding that does not know its rule yet. `advice` is the rule's own when empty."""

    severity: Severity
    path: str
    message: str
    found: str = ""
    expected: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a layout. `checks` look at a table as the layout sees it, and give what breaks the rule.

    id: its number on the page of rules. clause: of the document. says: what it asks for, in one sentence.
    advice: what to do about a breach. deep: whether it also, or only, shows in the values of columns.
    """

    id: str
    clause: str
    says: str
    advice: str
    checks: tuple[Callable[[Any], Iterable[Breach]], ...] = ()
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
    """One thing that can be mended without touching data: where, what is done, and which findings go by it.

    mends: rule and path of each. `do` is called inside a change, and says whether it could be done.
    """

    path: str
    action: str
    mends: tuple[tuple[str, str], ...]
    do: Callable[[], bool] = field(compare=False, repr=False)


class LazyColumns(Sequence[ColumnInfo]):
    """Columns whose names are known, and which are described one by one when they are asked for."""

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
        """These columns, then those, which are described already."""
        self._known.update({column.name: column for column in more})
        return LazyColumns((*self.names, *(column.name for column in more)), self._describe, self._known)

    def named(self, name: str) -> ColumnInfo:
        """The column of this name, which is one of `names`."""
        if name not in self._known:
            self._known[name] = self._describe(name)
        return self._known[name]

    def __len__(self) -> int:
        return len(self.names)

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

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


class ColumnsByName(Mapping[str, ColumnInfo]):
    """Lazy columns by their names: to list the names describes none of them."""

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

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class LazyFindings(Sequence[Finding]):
    """Findings that are looked for when somebody asks."""

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

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._all(),)


@dataclass(frozen=True)
class TableInfo:
    """One table, described once. `columns` are in their logical order; `labels` stand apart.

    `members` are the columns, then the labels that are not columns too. Of a wide table, columns and problems are
    lazy: `column_names` and the keys of `by_name` describe no column.
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
        """What names the rows in a pandas frame: the labels, and first a plain column that `_index` names (5.3)."""
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
        """The names of the labels, the first one first."""
        return [label.name for label in self.labels]


@dataclass(frozen=True, slots=True)
class TableText:
    """What the caller says about a table as a whole."""

    title: str | None = None
    description: str | None = None
    units_vocabulary: str | None = None


class Auto:
    """The value of an option nobody set: the library decides."""

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
Strings = Literal["auto", "fixed", "variable", "categories"]


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """How one column is to be written; what is left out is decided from the data.

    units, units_vocabulary, description: what the values mean, for people.
    fill: the stored value that marks a missing row; None for a column that has no missing rows.
    chunk_rows: rows in a chunk (default: up to 65,536, fewer for small or very wide tables).
    filters: such as "shuffle+deflate:4", "scale-offset", "zstd:3", or "none"; default: tried on the first rows, with
        filters that are built into every HDF5 library; "portable": the same with those that readers without that
        library have too (pyfive, jsfive, kerchunk). scale-offset keeps every integer; of floats it keeps the decimals
        that you ask for ("scale-offset:3"), NaN, infinities and missing rows.
    strings: "fixed" or "variable" length, or by "categories" (it reads as text all the same, unless dictionaries are
        asked for); "auto" takes categories where rows repeat, else fixed where it does not waste space.
    categories: True makes a categorical of text or numbers, which reads as a dictionary; a list names its categories,
        in their order; False keeps text from being stored by categories.
    ordered: whether the order of the categories means something.
    enum: True stores a categorical as an HDF5 enum instead of codes and a categories dataset.
    sparse: True stores only the rows that are not missing, in HDF5's proposed sectioned chunks: missing rows cost
        nothing, but no released HDF5 library reads the column (all else in the file, it does). For numbers, booleans,
        times and bytes of one length.
    masked: True stores a mask beside the values also where no row is missing (layout "anndata"; for pandas' nullable
        types that is the default).
    """

    units: str | None = None
    units_vocabulary: str | None = None
    description: str | None = None
    fill: object = AUTO
    chunk_rows: int | None = None
    filters: str | None = None
    strings: Strings = "auto"
    categories: bool | Sequence[object] | None = None
    ordered: bool | None = None
    enum: bool = False
    sparse: bool = False
    masked: bool | None = None

    def __post_init__(self) -> None:
        for option in ("units", "units_vocabulary", "description", "filters"):
            value = getattr(self, option)
            if value is not None and not isinstance(value, str):
                raise UsageError(f"{option} must be a text, not {value!r}", option=option)
        if self.chunk_rows is not None and (isinstance(self.chunk_rows, bool) or not isinstance(self.chunk_rows, int)):
            raise UsageError(f"chunk_rows must be a whole number, not {self.chunk_rows!r}", option="chunk_rows")
        if self.chunk_rows is not None and not 1 <= self.chunk_rows <= 2**31:
            raise UsageError(f"chunk_rows must be at least 1, not {self.chunk_rows}")
        if self.strings not in ("auto", "fixed", "variable", "categories"):
            raise UsageError(f"strings must be 'auto', 'fixed', 'variable' or 'categories', not {self.strings!r}")
