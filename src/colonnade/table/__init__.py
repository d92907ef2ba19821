"""The public classes: open a file, get a table, read its columns and rows, change it.

`File`, `Table`, `Column` and `Query` hold handles and little other state: the description of a table is its
`TableInfo`, read once per commit; what to read is in the Query.
"""

from colonnade.table.at_once import open_table, read, write
from colonnade.table.column import Column, RawRows
from colonnade.table.file import File, open
from colonnade.table.rows import Query
from colonnade.table.table import Table

__all__ = ["Column", "File", "Query", "RawRows", "Table", "open", "open_table", "read", "write"]
