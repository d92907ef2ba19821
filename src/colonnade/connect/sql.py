"""SQL on the tables of a file, through DuckDB: each table that a query names becomes a view.

`events` and `"/run/hits"` are tables by their paths, `array('/image')` is an array with its positions, and `b.events`
a table of a file attached as `b`. Only what a query names is opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import pyarrow as pa

from colonnade.connect.array_rows import ArrayRows
from colonnade.engines.duckdb import duckdb_source
from colonnade.errors import ColonnadeError, TableNotFound, UsageError
from colonnade.pager.options import Links, Target
from colonnade.pager.receipts import Trust
from colonnade.table import File
from colonnade.table import open as open_file
from colonnade.values import Json

if TYPE_CHECKING:
    import duckdb

    from colonnade.values import Cell

Parameters = Sequence["Cell"] | Mapping[str, "Cell"] | None

MAIN = "main"
ROOT_NAME = "root"  # of a table that is the root of its file
RESERVED_NAMES = frozenset({MAIN, "temp", "system", "pg_catalog", "information_schema", "memory"})
RESULT_BATCH_ROWS = 65_536
HIDDEN = "colonnade source "  # begins the names of what the views read
LISTINGS = ('"tables"', "__show_tables_expanded")  # what DuckDB makes of `show tables` and `show all tables`

# What may hold text that is not SQL is matched first, so that array('...') is found only outside of it.
_ARRAY_OR_QUOTED = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ | e'(?:[^'\\]|\\.|'')*'
    | (?:(?:(?P<word>[A-Za-z_]\w*)|"(?P<quoted>(?:[^"]|"")*)")\s*\.\s*)?\barray\s*\(\s*'(?P<path>(?:[^']|'')*)'\s*\)
    | "(?:[^"]|"")*" | '(?:[^']|'')*'""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


def sql(
    query: str,
    target: Target | File | None = None,
    *,
    parameters: Parameters = None,
    attach: Mapping[str, Target | File] | None = None,
    trust: Trust = "verified",
    links: Links = "folder",
) -> pa.Table:
    """The result of an SQL query on the tables of a file, run by DuckDB: only what it needs is read.

    A table is named by its path: `events`, or in quotes `"run/hits"`; by its last part where only one table has it. A
    table that is the root of its file is `root`. `array('/image')` are the elements of an array, with the columns i0,
    i1 and so on for the position, and `value`. parameters: for `?` and `$name` in the query. attach: other files by
    name, whose tables are `name.events`. trust, links: as for `colonnade.open`.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "label": ["muon", "pion", "muon"]}, "events")
    >>> cn.sql("select label, max(ts) as last from events group by label order by label", "run.h5").to_pydict()
    {'label': ['muon', 'pion'], 'last': [3, 2]}
    """
    with answered(query, target, parameters=parameters, attach=attach, trust=trust, links=links) as reader:
        table: pa.Table = reader.read_all()
    return table


@contextmanager
def answered(
    query: str,
    target: Target | File | None = None,
    *,
    parameters: Parameters = None,
    attach: Mapping[str, Target | File] | None = None,
    trust: Trust = "verified",
    links: Links = "folder",
) -> Iterator[pa.RecordBatchReader]:
    """The result of a query as a reader, within a `with` block; the files stay open until its end."""
    _check_query(query, parameters)
    with ExitStack() as stack:
        files: dict[str, File] = {}
        for name, given in {**({} if target is None else {MAIN: target}), **_checked(attach)}.items():
            files[name] = (
                given if isinstance(given, File) else stack.enter_context(open_file(given, trust=trust, links=links))
            )
        connection = stack.enter_context(_connection())
        views = Views(connection, files)
        try:
            views.create(query)
            relation = connection.sql(views.rewritten, params=parameters)
            if relation is not None and views.lists_tables and "name" in relation.columns:
                relation = relation.filter(f"not starts_with(name, '{HIDDEN}')")
            yield _translated(relation, views)
        except connection_error() as error:
            raise views.translated(error) from error


def connection_error() -> type[Exception]:
    """The base class of DuckDB's errors."""
    kind: type[Exception] = import_module("duckdb").Error
    return kind


def _translated(relation: duckdb.DuckDBPyRelation | None, views: Views) -> pa.RecordBatchReader:
    """The rows of a result; errors while they are read are those of the files, where these are the cause."""
    if relation is None:  # a statement without a result
        return pa.RecordBatchReader.from_batches(pa.schema([]), iter(()))
    name = "to_arrow_reader" if hasattr(relation, "to_arrow_reader") else "fetch_record_batch"  # before DuckDB 1.5
    reader: pa.RecordBatchReader = getattr(relation, name)(RESULT_BATCH_ROWS)

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except (OSError, pa.ArrowException, connection_error()) as error:
            raise views.translated(error) from error

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _check_query(query: object, parameters: object) -> None:
    """Refuse what is of another type."""
    if not isinstance(query, str):
        raise UsageError(f"the query must be a string of SQL, not {query!r}")
    if not query.strip():
        raise UsageError("the query is empty: give SQL, such as 'select count(*) from events'")
    is_text = isinstance(parameters, (str, bytes, bytearray))
    if parameters is not None and (is_text or not isinstance(parameters, (Sequence, Mapping))):
        raise UsageError(
            f"parameters must be a list of the values for ?, or a dict of those for $name, not {parameters!r}",
            option="parameters",
        )


def _checked(attach: Mapping[str, Target | File] | None) -> Mapping[str, Target | File]:
    if attach is not None and not isinstance(attach, Mapping):
        raise UsageError(
            f'attach must be a dict of files by name, such as {{"b": "other.h5"}}, not {attach!r}', option="attach"
        )
    names = attach or {}
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"the name of an attached file must be a string, not {name!r}", option="attach")
        if not name or name.lower() in RESERVED_NAMES:
            raise UsageError(f"cannot attach a file as {name!r}: DuckDB uses this name. Choose another one")
    if len({name.lower() for name in names}) != len(names):
        raise UsageError("cannot attach two files by names that differ only in case: SQL does not distinguish them")
    return names


@contextmanager
def _connection() -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        duckdb = import_module("duckdb")
    except ImportError:
        raise UsageError("SQL needs the package duckdb: pip install 'colonnade[sql]'") from None
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        connection.execute("set python_enable_replacements = false")  # names are tables of files, not Python variables
        yield connection


class Views:
    """Creates a view for each table and array that a query names.

    lists_tables: the query is `show tables`, which lists what the views read too.
    """

    lists_tables = False

    def __init__(self, connection: duckdb.DuckDBPyConnection, files: Mapping[str, File]) -> None:
        self._connection = connection
        self._files = {name.lower(): file for name, file in files.items()}
        self._names = {name.lower(): name for name in files}
        self._sources: list[object] = []
        self._paths: dict[str, list[str]] = {}
        self._views: set[tuple[str, str]] = set()
        self.rewritten = ""
        for name in self._files:
            if name != MAIN:
                connection.execute(f"create schema {quoted(name)}")

    def create(self, query: str) -> None:
        """Create the views; `rewritten` is the query with the names of arrays as views."""
        self.rewritten = _ARRAY_OR_QUOTED.sub(self._array_view, query)
        for schema, name in self._named_tables():
            if schema in self._files:
                path = self._path_of(schema, name)
                if path is not None:
                    self._view(schema, name, duckdb_source(self._files[schema][path]._query()))

    def _named_tables(self) -> list[tuple[str, str]]:
        """The schemas and names of the tables that the query names; all tables if it is not a SELECT."""
        serialized = self._connection.execute("select json_serialize_sql(?)", [self.rewritten]).fetchall()[0][0]
        tree: Json = json.loads(serialized)
        is_other = isinstance(tree, dict) and tree.get("error") and tree.get("error_type") != "parser"
        if not is_other and "SHOW_REF" not in serialized:
            return sorted(set(_base_tables(tree)))
        self.lists_tables = any(f'"table_name":{json.dumps(name)}' in serialized for name in LISTINGS)
        every = [(schema, path) for schema in self._files for path in self._tables(schema)]
        return [(schema, path.strip("/") or ROOT_NAME) for schema, path in every]

    def _tables(self, schema: str) -> list[str]:
        if schema not in self._paths:
            self._paths[schema] = self._files[schema].tables()
        return self._paths[schema]

    def _path_of(self, schema: str, name: str) -> str | None:
        """The path of the table of a name: exactly, then regardless of case, then by its last part. None: no such
        table."""
        wanted = "" if name.lower() == ROOT_NAME else name.strip("/")
        paths = self._tables(schema)
        lower = wanted.lower()
        for matching in (
            [path for path in paths if path.strip("/") == wanted],
            [path for path in paths if path.strip("/").lower() == lower],
            [path for path in paths if lower and path.rsplit("/", 1)[-1].lower() == lower],
        ):
            if len(matching) > 1:
                shown = ", ".join(matching[:8])
                raise UsageError(f"{name!r} is the name of several tables of {self._files[schema].name}: {shown}")
            if matching:
                return matching[0]
        return None

    def _array_view(self, match: re.Match[str]) -> str:
        path = match["path"]
        if path is None:
            return match[0]
        word = match["word"] or (match["quoted"] or "").replace('""', '"')
        schema = (word or MAIN).lower()
        if schema not in self._files:
            raise UsageError(f"no file is attached as {word!r}" if word else "array(...) needs a file")
        name = f"array({path.replace(chr(39) * 2, chr(39))})"
        self._view(schema, name, ArrayRows(self._files[schema], path.replace("''", "'")))
        return f"{quoted(schema)}.{quoted(name)}"

    def _view(self, schema: str, name: str, source: object) -> None:
        if (schema, name.lower()) in self._views:
            return
        hidden = f"{HIDDEN}{len(self._sources)}"
        self._connection.register(hidden, source)
        self._connection.execute(f"create view {quoted(schema)}.{quoted(name)} as from {quoted(hidden)}")
        self._sources.append(source)
        self._views.add((schema, name.lower()))

    def translated(self, error: Exception) -> ColonnadeError:
        """What failed: reading a file, or else the query."""
        for source in self._sources:
            failure = getattr(source, "failure", None)
            if isinstance(failure, ColonnadeError):
                return failure
        if type(error).__name__ == "CatalogException":
            missing = re.search(r"Table with name (\S+) does not exist", str(error))
            if missing is not None and self._files:
                schema, _, name = missing[1].rpartition(".")
                schema = schema.lower() if schema.lower() in self._files else next(iter(self._files))
                return TableNotFound(
                    name, self._files[schema].name, [path.strip("/") or ROOT_NAME for path in self._tables(schema)]
                )
        message, *_ = str(error).split("\n\nLINE ")  # without the query and a mark below it
        return UsageError(f"cannot run the query: {' '.join(message.split())}")


def _base_tables(tree: Json) -> Iterator[tuple[str, str]]:
    """Schemas and names of the tables in a serialized statement of DuckDB."""
    waiting: list[Json] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                yield str(node.get("schema_name") or MAIN).lower(), str(node.get("table_name"))
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def quoted(name: str) -> str:
    """A name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'
